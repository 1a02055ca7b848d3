//! The other end of a benchmark: a channel that counts, and does what the workload asks.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use pombo_channels::{BoxFuture, Channel, Envelope};
use pombo_kernel::reply::{Receipt, Refusal, Reply};

use crate::clock::Stopwatch;

/// A message's content up to its number.
pub(super) const CONTENT: &str = r#"{"body":{"i":"#;
/// Bytes of the JSON that a message carries.
const PAYLOAD: usize = 200;

/// The content of message `number`: a webhook's body of exactly 200 bytes.
pub(super) fn content(number: u64) -> String {
    let mut text = format!("{CONTENT}{number},\"pad\":\"");
    let end = PAYLOAD + r#"{"body":"#.len() - r#""}"#.len();
    text.extend(std::iter::repeat_n('x', end.saturating_sub(text.len())));
    text.push_str(r#""}}"#);
    text
}

/// What the outlet does besides counting.
#[derive(Debug)]
pub(super) enum Task {
    Take,
    /// Notes when each message arrives, in nanoseconds on the stopwatch.
    Time(Stopwatch, Vec<AtomicU64>),
    /// Refuses each message twice before it takes it.
    RefuseTwice(Vec<AtomicU8>),
}

impl Task {
    pub(super) fn time(watch: Stopwatch, messages: u64) -> Task {
        Task::Time(watch, (0..messages).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn refuse_twice(messages: u64) -> Task {
        Task::RefuseTwice((0..messages).map(|_| AtomicU8::new(0)).collect())
    }
}

#[derive(Debug)]
pub(super) struct Outlet {
    task: Task,
    calls: AtomicU64,
    taken: AtomicU64,
}

impl Outlet {
    pub(super) fn new(task: Task) -> Outlet {
        Outlet { task, calls: AtomicU64::new(0), taken: AtomicU64::new(0) }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// When message `number` arrived, if arrivals are timed and it has.
    pub(super) fn arrived(&self, number: usize) -> Option<Duration> {
        let Task::Time(_, arrivals) = &self.task else { return None };
        let nanos = arrivals.get(number)?.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    fn reply(&self, content: &str) -> Reply {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match &self.task {
            Task::Take => {}
            Task::Time(watch, arrivals) => {
                let at = u64::try_from(watch.elapsed().as_nanos()).unwrap_or(u64::MAX);
                if let Some(arrival) = number(content).and_then(|number| arrivals.get(number)) {
                    arrival.store(at, Ordering::Relaxed);
                }
            }
            Task::RefuseTwice(seen) => {
                let seen = number(content).and_then(|number| seen.get(number));
                if seen.is_some_and(|seen| seen.fetch_add(1, Ordering::Relaxed) < 2) {
                    let text = "planned failure".to_owned();
                    return Reply::Refused(Refusal { status: Some(503), text, ..Refusal::default() });
                }
            }
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Reply::Accepted(Receipt::default())
    }
}

fn number(content: &str) -> Option<usize> {
    let rest = content.strip_prefix(CONTENT)?;
    rest.split_once(',')?.0.parse().ok()
}

impl Channel for Outlet {
    fn send<'a>(&'a self, envelope: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(async { self.reply(&envelope.content) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_carries_exactly_200_bytes_of_json_whatever_its_number() {
        for number in [0, 7, 99_999, 10_999_999] {
            let text = content(number);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["body"].to_string().len(), PAYLOAD, "{text}");
            assert_eq!(value["body"]["i"], number);
            assert_eq!(super::number(&text), usize::try_from(number).ok());
        }
    }

    #[test]
    fn a_storm_refuses_each_message_twice() {
        let outlet = Outlet::new(Task::refuse_twice(2));
        for _ in 0..2 {
            assert!(matches!(outlet.reply(&content(1)), Reply::Refused(_)));
        }
        assert!(matches!(outlet.reply(&content(1)), Reply::Accepted(_)));
        assert_eq!((outlet.calls(), outlet.taken()), (3, 1));
    }
}
