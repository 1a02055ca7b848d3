//! A day that has passed: what a clinic sent hour by hour, so that figures and charts have something to show.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pombo::clock::SystemClock;
use pombo_kernel::backoff::Wait;
use pombo_kernel::classify::Verdict;
use pombo_kernel::dice::Dice;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{
    Attempt, AttemptFailure, AttemptOutcome, Body, Draft, FailureReason, Json, Priority, Progress, QueueName,
};
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{Ask, Claimed, NodeId, Settled, Settlement, Store};

/// Messages in each hour, from one day ago until an hour ago: few at night, most in the morning.
const HOURS: [usize; 24] =
    [26, 31, 38, 44, 41, 33, 22, 15, 11, 8, 5, 4, 3, 3, 4, 6, 12, 19, 34, 46, 52, 49, 40, 37];
/// One in so many fails at first, and one in so many for good.
const STUMBLES: usize = 7;
const FALLS: usize = 61;

#[derive(Debug)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }
}

impl Hand {
    fn pass(&self, span: Span) {
        self.0.fetch_add(i64::try_from(span.millis()).unwrap(), Ordering::SeqCst);
    }
}

/// Writes the day into a store that nobody has opened yet.
pub(crate) async fn lived(data: &Path) {
    let begun = SystemClock::new().now() - Span::from_hours(HOURS.len() as u64);
    let clock = Arc::new(Hand(AtomicI64::new(begun.millis())));
    let core = Sqlite::open(data, Dice::seeded(9), &[7; 32]).unwrap();
    let store = Shell::start(core, clock.clone(), Box::new(|| [7; 32])).unwrap();
    let mut number = 0;
    for (hour, count) in HOURS.into_iter().enumerate() {
        let drafts: Vec<Draft> = (number..number + count).map(draft).collect();
        number += count;
        assert!(store.accept(drafts).await.unwrap().iter().all(Result::is_ok));
        let again = tried(&store, &clock, Attempted::First).await;
        clock.pass(Span::from_secs(3));
        // A claim of nothing would wait for ever.
        if again > 0 {
            assert_eq!(tried(&store, &clock, Attempted::Again).await, 0);
        }
        let next = begun + Span::from_hours(hour as u64 + 1);
        clock.pass(next.since(clock.now()));
    }
    store.close().await.unwrap();
}

fn draft(number: usize) -> Draft {
    let queue = QueueName {
        tenant: Tenant::default(),
        lane: "default".parse().unwrap(),
        channel: "crm".parse().unwrap(),
        destination: "127.0.0.1".into(),
        campaign: None,
    };
    let body = Body {
        to: "http://127.0.0.1/ok".to_owned(),
        content: Some(Json::from_text(format!("{{\"body\": {{\"order\": {number}}}}}")).unwrap()),
        reference: Some(format!("pedido-{number}")),
        ..Body::default()
    };
    Draft {
        id: None,
        queue,
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        body,
        blobs: Vec::new(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempted {
    First,
    Again,
}

/// One attempt at whatever is due; how many are to be tried again.
async fn tried(store: &dyn Store, clock: &Hand, which: Attempted) -> usize {
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 1_000, rates: Arc::default() };
    let claimed = store.claim(ask).await.unwrap();
    clock.pass(Span::from_millis(420));
    let now = clock.now();
    let result = |(place, it): (usize, &Claimed)| match (which, place) {
        (Attempted::First, place) if place % STUMBLES == 3 => stumbled(it, now),
        (Attempted::First, place) if place % FALLS == 20 => fell(it, now),
        _ => settlement(it, now, AttemptOutcome::Sent, None, "was accepted", Next::Sent(Receipt::default())),
    };
    let results: Vec<Settlement> = claimed.iter().enumerate().map(result).collect();
    let again = results.iter().filter(|it| it.attempt.outcome == AttemptOutcome::Retry).count();
    assert!(store.settle(results).await.unwrap().iter().all(|it| *it == Settled::Done));
    again
}

fn stumbled(claimed: &Claimed, now: Time) -> Settlement {
    let delay = Span::from_millis(2_240);
    let wait = Wait { delay, nominal: Span::from_secs(2), swing: 0.12, hinted: false };
    let words = "failed: 503; next try in 2s240ms: policy webhook, 2s with jitter +12 %";
    let next = Next::Retry { due: now + delay, wait };
    settlement(
        claimed,
        now,
        AttemptOutcome::Retry,
        Some((Verdict::Transient, "unavailable", "503")),
        words,
        next,
    )
}

fn fell(claimed: &Claimed, now: Time) -> Settlement {
    let next = Next::Failed(FailureReason::PermanentError);
    let words = "failed: 404; not_found will not pass by trying again";
    settlement(
        claimed,
        now,
        AttemptOutcome::Failed,
        Some((Verdict::Permanent, "not_found", "404")),
        words,
        next,
    )
}

fn settlement(
    claimed: &Claimed,
    now: Time,
    outcome: AttemptOutcome,
    failure: Option<(Verdict, &str, &str)>,
    words: &str,
    next: Next,
) -> Settlement {
    let attempts = claimed.progress.attempts + 1;
    Settlement {
        key: claimed.key,
        attempt: Attempt {
            round: claimed.progress.round,
            number: attempts,
            started_at: now - Span::from_millis(120),
            finished_at: now,
            outcome,
            failure: failure.map(|(verdict, category, code)| AttemptFailure {
                verdict,
                category: category.to_owned(),
                code: Some(code.to_owned()),
                text: code.to_owned(),
                perhaps_sent: false,
                rule: None,
            }),
            next_delay: None,
            explanation: format!("attempt {attempts} {words}"),
            policy: None,
        },
        next,
        progress: Progress { attempts, steps: claimed.progress.steps + 1, ..claimed.progress },
        block: Default::default(),
        vitals: Default::default(),
        reported: false,
        chance: 0,
    }
}
