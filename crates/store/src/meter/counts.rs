//! What happened to messages, by channel, as the groups of this process added it up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pombo_kernel::name::ChannelName;
use prometheus::Registry;
use prometheus::proto::{Bucket, Histogram, MetricFamily};

use super::{Family, Sheet, show};
use crate::stats::{Counted, Entry, NUMBERS, Sum, WITHIN};

/// Sums since the process began: what its own groups have committed. Clones are the same sums.
///
/// They are taken from what a group writes into the store's counters anyway, once for each group, so that a message
/// costs nothing more.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Sums>>);

#[derive(Debug, Default)]
struct Sums {
    channels: BTreeMap<ChannelName, Details>,
    /// Retry decisions are of no channel.
    decided: BTreeMap<String, i64>,
}

type Details = BTreeMap<(Counted, String), Sum>;

/// The messages' ends and beginnings.
const EVENTS: [Counted; 6] = [
    Counted::Accepted,
    Counted::Sent,
    Counted::Failed,
    Counted::Cancelled,
    Counted::Discarded,
    Counted::Reprocessed,
];

/// What providers reported later, and how that is called.
const REPORTS: [(Counted, &str); 6] = [
    (Counted::DeliveryAccepted, "accepted"),
    (Counted::DeliveryFailed, "failed"),
    (Counted::Delivered, "delivered"),
    (Counted::Bounced, "bounced"),
    (Counted::Read, "read"),
    (Counted::Complained, "complained"),
];

impl Counts {
    /// Takes note of what a group has committed.
    pub(crate) fn add(&self, entries: impl IntoIterator<Item = Entry>) {
        let mut sums = self.sums();
        for Entry { channel, what, detail, sum, .. } in entries {
            match (channel, what) {
                // What is learnt is read from the store, which has that of all nodes.
                (_, what) if what.is_lesson() => {}
                // Names of templates are not shown, and what waits is read from the store, which knows all of it.
                (_, Counted::SentByTemplate | Counted::FailedByTemplate | Counted::Waiting) => {}
                (Some(channel), _) => {
                    sums.channels.entry(channel).or_default().entry((what, detail)).or_default().add(sum);
                }
                (None, _) => *sums.decided.entry(detail).or_default() += sum.count,
            }
        }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn show(&self, registry: &Registry) {
        let families = [
            Family::counter(
                "pombo_messages_total",
                "Messages that were accepted, sent, failed, cancelled, discarded or reprocessed.",
                &["channel", "event"],
            ),
            Family::counter(
                "pombo_message_failures_total",
                "Messages that became dead letters, by reason.",
                &["channel", "reason"],
            ),
            Family::counter(
                "pombo_attempts_total",
                "Attempts that counted, by their number in the round and whether the message was sent.",
                &["channel", "number", "outcome"],
            ),
            Family::counter(
                "pombo_attempts_held_total",
                "Attempts that did not count: a fault of ours, or a destination that is known to be down.",
                &["channel"],
            ),
            Family::counter(
                "pombo_attempt_gap_seconds_total",
                "Time from the end of one attempt to the start of the next, added up, by the number of the latter.",
                &["channel", "number"],
            ),
            Family::counter(
                "pombo_retries_scheduled_total",
                "Attempts that failed and are followed by another.",
                &["channel"],
            ),
            Family::counter(
                "pombo_errors_total",
                "Attempts that failed, by category.",
                &["channel", "category"],
            ),
            Family::counter(
                "pombo_deliveries_total",
                "Messages whose delivery moved to this, as providers reported later.",
                &["channel", "report"],
            ),
            Family::histogram(
                "pombo_delivery_seconds",
                "From acceptance, or the time that a message was asked to be sent at, until it was sent.",
                &["channel"],
            ),
            Family::histogram(
                "pombo_processing_seconds",
                "From the time that an attempt was due until it had ended; campaigns are left out.",
                &["channel"],
            ),
            Family::counter("pombo_decisions_total", "Retry decisions that others asked for.", &["decided"]),
        ];
        let counts = self.clone();
        show(registry, Sheet::new(families, move |families| counts.sums().lay_out(families)));
    }
}

impl Sums {
    fn lay_out(&self, families: &[Family; 11]) -> Vec<MetricFamily> {
        let [
            messages,
            failures,
            attempts,
            held,
            gaps,
            retries,
            errors,
            deliveries,
            delivery,
            processing,
            decided,
        ] = families;
        let channels = || self.channels.iter().map(|(name, details)| (name.as_str(), details));
        vec![
            messages.with(channels().flat_map(|(channel, details)| {
                EVENTS.map(|what| ([channel, what.as_str()], number(sum(details, what, "").count)))
            })),
            failures.with(channels().flat_map(|(channel, details)| {
                under(details, Counted::FailedFor)
                    .map(move |(reason, sum)| ([channel, reason], number(sum.count)))
            })),
            attempts.with(channels().flat_map(|(channel, details)| {
                let made = |what, nth| sum(details, what, nth).count;
                NUMBERS.into_iter().filter(move |nth| made(Counted::AttemptNumbered, nth) > 0).flat_map(
                    move |nth| {
                        let sent = made(Counted::SentOnAttempt, nth);
                        let failed = made(Counted::AttemptNumbered, nth) - sent;
                        [([channel, nth, "sent"], number(sent)), ([channel, nth, "failed"], number(failed))]
                    },
                )
            })),
            held.with(channels().map(|(channel, details)| {
                let counted: i64 = under(details, Counted::AttemptNumbered).map(|(_, sum)| sum.count).sum();
                ([channel], number(sum(details, Counted::Attempts, "").count - counted))
            })),
            gaps.with(channels().flat_map(|(channel, details)| {
                let later = under(details, Counted::AttemptNumbered).filter(|(nth, _)| *nth != NUMBERS[0]);
                later.map(move |(nth, sum)| ([channel, nth], seconds(sum.ms)))
            })),
            retries.with(
                channels()
                    .map(|(channel, details)| ([channel], number(sum(details, Counted::Retries, "").count))),
            ),
            errors.with(channels().flat_map(|(channel, details)| {
                let categories = under(details, Counted::AttemptFailed);
                categories.map(move |(category, sum)| ([channel, category], number(sum.count)))
            })),
            deliveries.with(channels().flat_map(|(channel, details)| {
                let told = REPORTS.into_iter().map(|(what, report)| (report, sum(details, what, "").count));
                told.filter(|(_, count)| *count > 0)
                    .map(move |(report, count)| ([channel, report], number(count)))
            })),
            delivery.with_histograms(lasting(&self.channels, Counted::SentWithin)),
            processing.with_histograms(lasting(&self.channels, Counted::AttemptWithin)),
            decided.with(self.decided.iter().map(|(decided, count)| ([decided.as_str()], number(*count)))),
        ]
    }
}

fn sum(details: &Details, what: Counted, detail: &str) -> Sum {
    under(details, what).find(|(known, _)| *known == detail).map(|(_, sum)| sum).unwrap_or_default()
}

/// What was counted under that, by detail.
fn under(details: &Details, what: Counted) -> impl Iterator<Item = (&str, Sum)> {
    let from = details.range((what, String::new())..);
    from.take_while(move |((counted, _), _)| *counted == what)
        .map(|((_, detail), sum)| (detail.as_str(), *sum))
}

/// Channels with how long things took, where anything did.
fn lasting(
    channels: &BTreeMap<ChannelName, Details>,
    what: Counted,
) -> impl Iterator<Item = ([&str; 1], Histogram)> {
    let some = channels.iter().filter(move |(_, details)| under(details, what).next().is_some());
    some.map(move |(channel, details)| {
        let mut reached = 0;
        let buckets = WITHIN.map(|(detail, most)| {
            reached += unsigned(sum(details, what, detail).count);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(most.to_std().as_secs_f64());
            bucket.set_cumulative_count(reached);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.to_vec());
        histogram.set_sample_count(under(details, what).map(|(_, sum)| unsigned(sum.count)).sum());
        histogram.set_sample_sum(seconds(under(details, what).map(|(_, sum)| sum.ms).sum()));
        ([channel.as_str()], histogram)
    })
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

#[allow(clippy::cast_precision_loss, reason = "a scrape tells numbers as floats")]
fn number(count: i64) -> f64 {
    count as f64
}

fn seconds(ms: i64) -> f64 {
    number(ms) / 1_000.0
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn entry(what: Counted, detail: &str, count: i64, ms: i64) -> Entry {
        let (tenant, channel) = (Default::default(), Some("crm".parse().unwrap()));
        Entry { tenant, channel, what, detail: detail.to_owned(), sum: Sum { count, ms } }
    }

    #[test] // REQ OB-1
    fn what_groups_have_counted_is_laid_out_by_channel() {
        let counts = Counts::default();
        let registry = Registry::new();
        counts.show(&registry);
        counts.add([
            entry(Counted::Accepted, "", 5, 0),
            entry(Counted::Sent, "", 3, 0),
            entry(Counted::Attempts, "", 6, 0),
            entry(Counted::AttemptNumbered, "1", 4, 0),
            entry(Counted::AttemptNumbered, "2", 1, 90_000),
            entry(Counted::SentOnAttempt, "1", 2, 500),
            entry(Counted::SentOnAttempt, "2", 1, 91_000),
            entry(Counted::AttemptFailed, "timeout", 2, 0),
            entry(Counted::FailedFor, "expired", 1, 0),
            entry(Counted::SentByTemplate, "billing", 3, 0),
            entry(Counted::Waiting, "default", 2, 0),
            entry(Counted::Delivered, "", 1, 0),
        ]);
        counts.add([
            entry(Counted::Accepted, "", 1, 0),
            entry(Counted::SentWithin, "1s", 2, 500),
            entry(Counted::SentWithin, "5m", 1, 91_000),
            entry(Counted::SentWithin, "more", 1, 90_000_000),
            Entry { channel: None, ..entry(Counted::Decided, "retry", 2, 0) },
        ]);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            r#"pombo_messages_total{channel="crm",event="accepted"} 6"#,
            r#"pombo_messages_total{channel="crm",event="sent"} 3"#,
            r#"pombo_messages_total{channel="crm",event="discarded"} 0"#,
            r#"pombo_message_failures_total{channel="crm",reason="expired"} 1"#,
            r#"pombo_attempts_total{channel="crm",number="1",outcome="sent"} 2"#,
            r#"pombo_attempts_total{channel="crm",number="1",outcome="failed"} 2"#,
            r#"pombo_attempts_total{channel="crm",number="2",outcome="sent"} 1"#,
            r#"pombo_attempts_held_total{channel="crm"} 1"#,
            r#"pombo_attempt_gap_seconds_total{channel="crm",number="2"} 90"#,
            r#"pombo_errors_total{channel="crm",category="timeout"} 2"#,
            r#"pombo_deliveries_total{channel="crm",report="delivered"} 1"#,
            r#"pombo_delivery_seconds_bucket{channel="crm",le="1"} 2"#,
            r#"pombo_delivery_seconds_bucket{channel="crm",le="60"} 2"#,
            r#"pombo_delivery_seconds_bucket{channel="crm",le="300"} 3"#,
            r#"pombo_delivery_seconds_bucket{channel="crm",le="+Inf"} 4"#,
            r#"pombo_delivery_seconds_sum{channel="crm"} 90091.5"#,
            r#"pombo_delivery_seconds_count{channel="crm"} 4"#,
            r#"pombo_decisions_total{decided="retry"} 2"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("billing"), "names of templates are not shown:\n{text}");
    }
}
