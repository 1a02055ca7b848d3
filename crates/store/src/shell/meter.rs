//! What a store measures of itself: groups, commits, and what waits to be written.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntGauge, Registry};

use crate::meter::{Counts, counter, gauge, histogram, show};

const COMMIT: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
const JOBS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 4_000.0];

/// What one store measures. Clones are the same meter.
#[derive(Clone, Debug)]
pub struct Meter {
    group_jobs: Histogram,
    commit_seconds: Histogram,
    pub(super) begun_anew: IntCounter,
    pub(super) failures: IntCounter,
    pub(super) jobs_waiting: IntGauge,
    pub(super) bytes_waiting: IntGauge,
    pub(super) writable: IntGauge,
    pub(super) counts: Counts,
}

impl Meter {
    pub(super) fn new() -> Meter {
        let writable = gauge("pombo_store_writable", "Whether the store could be written at the last try.");
        writable.set(1);
        Meter {
            group_jobs: histogram(
                "pombo_store_group_jobs",
                "How many callers shared a commit; how often there was one.",
                &JOBS,
            ),
            commit_seconds: histogram(
                "pombo_store_commit_seconds",
                "How long a commit took, until it was on disk.",
                &COMMIT,
            ),
            begun_anew: counter(
                "pombo_store_groups_begun_anew_total",
                "Groups that met another node at the same place and were done again.",
            ),
            failures: counter("pombo_store_failures_total", "Groups that could not be written."),
            jobs_waiting: gauge("pombo_store_jobs_waiting", "Callers whose wish waits for the writer."),
            bytes_waiting: gauge(
                "pombo_store_bytes_waiting",
                "Bytes of messages that wait to be written; beyond 64 MiB producers are asked to come back.",
            ),
            writable,
            counts: Counts::default(),
        }
    }

    /// Shows everything from now on.
    pub fn show(&self, registry: &Registry) {
        show(registry, self.group_jobs.clone());
        show(registry, self.commit_seconds.clone());
        show(registry, self.begun_anew.clone());
        show(registry, self.failures.clone());
        show(registry, self.jobs_waiting.clone());
        show(registry, self.bytes_waiting.clone());
        show(registry, self.writable.clone());
        self.counts.show(registry);
    }

    pub(super) fn committed(&self, jobs: usize, took: Duration) {
        self.group_jobs.observe(f64::from(u32::try_from(jobs).unwrap_or(u32::MAX)));
        self.commit_seconds.observe(took.as_secs_f64());
    }
}
