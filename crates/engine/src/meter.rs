//! What the hands measure: decisions about failed attempts, how long attempts take, and how full lanes are.

use std::collections::BTreeMap;

use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::FailureReason;
use pombo_kernel::name::{ChannelName, LaneName};
use pombo_store::Settlement;
use pombo_store::meter::{Retries, gauges, histograms, show};
use prometheus::{Histogram, HistogramVec, IntGauge, IntGaugeVec, Registry};

use crate::core::Core;

const ATTEMPT: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// What one engine measures. Clones are the same meter.
#[derive(Clone, Debug)]
pub struct Meter {
    pub(crate) retries: Retries,
    attempt_seconds: HistogramVec,
    busy: IntGaugeVec,
    total: IntGaugeVec,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            retries: Retries::of("messages"),
            attempt_seconds: histograms(
                "pombo_attempt_seconds",
                "How long a provider took to answer an attempt.",
                "channel",
                &ATTEMPT,
            ),
            busy: gauges(
                "pombo_lane_slots_busy",
                "Slots with a message that is being sent, or whose result is not durable yet.",
                "lane",
            ),
            total: gauges("pombo_lane_slots", "Slots: sends that may be under way at once.", "lane"),
        }
    }
}

impl Meter {
    pub fn show(&self, registry: &Registry) {
        self.retries.show(registry);
        show(registry, self.attempt_seconds.clone());
        show(registry, self.busy.clone());
        show(registry, self.total.clone());
    }

    /// Where the attempts of a channel are measured, to be found once and kept.
    pub(crate) fn attempts(&self, channel: &ChannelName) -> Histogram {
        self.attempt_seconds.with_label_values(&[channel.as_str()])
    }

    /// What was decided is durable.
    pub(crate) fn settled(&self, settlement: &Settlement) {
        match &settlement.next {
            Next::Retry { wait, .. } => self.retries.scheduled(wait.delay),
            Next::Failed(FailureReason::MaxRetriesExceeded) => self.retries.exhausted(),
            Next::Failed(FailureReason::PermanentError) => self.retries.permanent(),
            Next::Sent(_) | Next::Failed(_) | Next::Held { .. } => {}
        }
    }
}

/// The gauges of each lane that there was so far.
#[derive(Debug, Default)]
pub(crate) struct Lanes(BTreeMap<LaneName, (IntGauge, IntGauge)>);

impl Lanes {
    pub(crate) fn set(&mut self, meter: &Meter, core: &Core) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (lane, slots) in core.slots() {
            let (busy, total) = match self.0.get(lane) {
                Some(gauges) => gauges,
                None => {
                    let name = [lane.as_str()];
                    let gauges = (meter.busy.with_label_values(&name), meter.total.with_label_values(&name));
                    self.0.entry(lane.clone()).or_insert(gauges)
                }
            };
            busy.set(number(slots.busy));
            total.set(number(slots.total));
        }
    }
}
