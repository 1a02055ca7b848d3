//! What is counted of decisions whether something is tried again, under the names that billing systems know.

use std::time::Duration;

use pombo_kernel::time::Span;
use prometheus::{Histogram, IntCounter, Registry};

use super::{counter_of, histogram_of, show};

/// Seconds that an analysis takes: microseconds as a rule, and more than one second is too long.
const ANALYSIS: [f64; 12] =
    [0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Minutes, from the few seconds of a realtime channel to the four hours of a claim, and hints beyond.
const BACKOFF: [f64; 16] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 80.0, 120.0, 240.0, 480.0, 1_440.0];

/// Counters of decisions by one source: messages that Pombo sends itself, or claims that others submit and ask about.
#[derive(Clone, Debug)]
pub struct Retries {
    analysis: Histogram,
    scheduled: IntCounter,
    exhausted: IntCounter,
    permanent: IntCounter,
    backoff: Histogram,
}

impl Retries {
    pub fn of(source: &str) -> Retries {
        let source = ("source", source);
        Retries {
            analysis: histogram_of(
                "retry_analysis_duration_seconds",
                "How long it took to decide what follows from a failure.",
                &ANALYSIS,
                source,
            ),
            scheduled: counter_of("retry_scheduled_total", "Retries that were scheduled.", source),
            exhausted: counter_of(
                "max_retries_exceeded_total",
                "Messages and claims that failed after as many retries as their policy allows.",
                source,
            ),
            permanent: counter_of(
                "permanent_errors_total",
                "Messages and claims that failed with an error that no retry can mend.",
                source,
            ),
            backoff: histogram_of(
                "backoff_duration_minutes",
                "Waits before retries, in minutes, as they were scheduled.",
                &BACKOFF,
                source,
            ),
        }
    }

    pub fn show(&self, registry: &Registry) {
        show(registry, self.analysis.clone());
        show(registry, self.scheduled.clone());
        show(registry, self.exhausted.clone());
        show(registry, self.permanent.clone());
        show(registry, self.backoff.clone());
    }

    /// A failure was looked into, and that took so long.
    pub fn analysed(&self, took: Duration) {
        self.analysis.observe(took.as_secs_f64());
    }

    pub fn scheduled(&self, wait: Span) {
        self.scheduled.inc();
        self.backoff.observe(wait.to_std().as_secs_f64() / 60.0);
    }

    pub fn exhausted(&self) {
        self.exhausted.inc();
    }

    pub fn permanent(&self) {
        self.permanent.inc();
    }
}
