//! Work that outlasts the request that asked for it: on many dead letters, or on a channel.
//!
//! An operation is one document. Each piece of work is committed together with the document that says how far it has
//! come, so that whoever goes on after a death, or beside others, does nothing twice and leaves nothing out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::erasure::{self, Erasure};
use crate::id::{MessageId, MessageKey};
use crate::message::Actor;
use crate::name::ChannelName;
use crate::time::{Span, Time};

/// Most letters of one piece of work.
const CHUNK: u32 = 200;
/// A test that no worker has taken up by then will not be.
const TEST_PATIENCE: Span = Span::from_mins(1);
/// Whoever asks a provider has said how it is by then, or is dead.
const PROBE_LEASE: Span = Span::from_secs(25);
/// Whoever erases says so again by then, or is dead.
const ERASE_LEASE: Span = Span::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OperationKind")]
pub enum Kind {
    /// A new round for dead letters.
    Reprocess,
    /// Dead letters are given up for good.
    Discard,
    /// A provider is asked how it is.
    TestChannel,
    /// Everything of one person is erased.
    Erase,
    /// Messages that ended long ago are removed.
    Prune,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Reprocess => "reprocess",
            Kind::Discard => "discard",
            Kind::TestChannel => "test_channel",
            Kind::Erase => "erase",
            Kind::Prune => "prune",
        }
    }
}

/// An operation as it is kept. What a newer version adds is ignored by an older one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub kind: Kind,
    /// Which dead letters, by the names of filters; all if there are none. Only those that were dead when it began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filter: BTreeMap<String, String>,
    /// The channels that whoever asked may touch; all if none are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<ChannelName>>,
    /// The channel that is tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub by: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<u32>,
    /// So many letters go first, and the others only if these were sent.
    #[serde(default)]
    pub canary: u32,
    /// How many letters there were, where that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(default)]
    pub done: u64,
    /// Letters that were no longer dead when their turn came.
    #[serde(default)]
    pub skipped: u64,
    /// Letters older than this one come next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    pub created_at: Time,
    #[serde(flatten)]
    pub state: State,
    /// What a test has found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// A digest of the request, where that had an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// How many were removed, by channel and state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Whose data is erased, and how far that has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Box<Erasure>>,
}

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    Running {
        /// Nothing more happens before.
        next_at: Time,
        stage: Stage,
    },
    Done {
        finished_at: Time,
    },
    Cancelled {
        finished_at: Time,
        cancelled_by: Actor,
    },
    /// It stopped by itself.
    Halted {
        finished_at: Time,
        reason: String,
    },
}

impl State {
    pub fn as_str(&self) -> &'static str {
        match self {
            State::Running { .. } => "running",
            State::Done { .. } => "done",
            State::Cancelled { .. } => "cancelled",
            State::Halted { .. } => "halted",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The first few are to go alone.
    Canary,
    /// They are on their way, and nothing else goes until they have arrived.
    Watching(Vec<Canary>),
    /// Letter by letter, as fast as is allowed.
    Rest,
    /// A provider is to be asked, or is being asked.
    Probing,
    /// Somebody is being erased.
    Erasing,
}

impl Stage {
    pub fn as_str(&self) -> &'static str {
        match self {
            Stage::Canary => "canary",
            Stage::Watching(_) => "watching",
            Stage::Rest => "rest",
            Stage::Probing => "probing",
            Stage::Erasing => "erasing",
        }
    }
}

/// A letter that goes before the others, and why it was dead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Canary {
    pub id: MessageId,
    pub cause: String,
}

/// How a provider was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ProviderFinding")]
pub struct Found {
    /// Whether messages can go through; null if the provider offers no way to ask.
    pub ok: Option<bool>,
    /// What it answered, in a few words.
    pub detail: String,
    pub latency_ms: u64,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// It has ended.
    Nothing,
    Wait(Time),
    /// Act on so many letters at most, and record it with [`Operation::took`].
    Take(usize),
    /// See what became of those that went first, and record it with [`Operation::watched`].
    Watch(&'a [Canary]),
    /// Ask the provider, once the document says so: [`Operation::probing`].
    Probe,
    /// Erase on, once the document says that somebody does: [`Operation::erasing`].
    Erase,
    /// It cannot go on, for that reason.
    Halt(&'static str),
}

/// What became of a letter that went first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Not tried yet, or tried once more after another failure.
    Underway,
    Sent,
    /// It failed for the same reason as before.
    SameAgain,
    /// It is dead again, for another reason.
    OtherEnd,
    /// Somebody cancelled or discarded it meanwhile.
    Gone,
}

impl Operation {
    /// One that begins now, without limits, on whatever it may touch.
    pub fn new(kind: Kind, stage: Stage, by: Actor, now: Time) -> Operation {
        Operation {
            kind,
            filter: BTreeMap::new(),
            within: None,
            channel: None,
            note: None,
            by,
            rate_per_minute: None,
            canary: 0,
            total: None,
            done: 0,
            skipped: 0,
            cursor: None,
            created_at: now,
            state: State::Running { next_at: now, stage },
            found: None,
            request: None,
            counts: BTreeMap::new(),
            erasure: None,
        }
    }

    /// When it is next looked at; never again once it has ended.
    pub fn due(&self) -> Option<Time> {
        match self.state {
            State::Running { next_at, .. } => Some(next_at),
            _ => None,
        }
    }

    pub fn is_running(&self) -> bool {
        self.due().is_some()
    }

    pub fn next(&self, now: Time) -> Step<'_> {
        let State::Running { next_at, stage } = &self.state else { return Step::Nothing };
        let late = self.kind == Kind::TestChannel && now.since(self.created_at) > TEST_PATIENCE;
        match stage {
            _ if late => Step::Halt("no worker that has this channel took it up within a minute"),
            _ if *next_at > now => Step::Wait(*next_at),
            Stage::Probing => Step::Probe,
            Stage::Erasing => Step::Erase,
            Stage::Watching(canaries) => Step::Watch(canaries),
            Stage::Canary => Step::Take(self.canary.clamp(1, CHUNK) as usize),
            Stage::Rest => Step::Take(self.chunk() as usize),
        }
    }

    /// A second's worth of letters where there is a rate.
    fn chunk(&self) -> u32 {
        self.rate_per_minute.map_or(CHUNK, |rate| (rate / 60).clamp(1, CHUNK))
    }

    /// How it stands once these letters were acted on; `cursor` is where the next ones begin, if there can be any.
    #[must_use]
    pub fn took(self, letters: Vec<Canary>, cursor: Option<MessageKey>, now: Time) -> Operation {
        let State::Running { next_at, stage } = self.state else { return self };
        let count = letters.len() as u64;
        let done = self.done.saturating_add(count);
        let state = match (cursor, stage) {
            (None, _) => State::Done { finished_at: now },
            (_, Stage::Canary) if count > 0 => {
                State::Running { next_at: now, stage: Stage::Watching(letters) }
            }
            (_, stage) => State::Running { next_at: paced(self.rate_per_minute, count, next_at, now), stage },
        };
        Operation { done, cursor: cursor.map(|key| key.0), state, ..self }
    }

    /// How it stands once so many messages were removed, by what they were; `cursor` is where the next ones begin, if there
    /// can be any.
    #[must_use]
    pub fn pruned(
        mut self,
        counts: impl IntoIterator<Item = (String, u64)>,
        cursor: Option<MessageKey>,
        next_at: Time,
        now: Time,
    ) -> Operation {
        for (what, count) in counts {
            *self.counts.entry(what).or_default() += count;
            self.done = self.done.saturating_add(count);
        }
        let state = match (cursor, self.state) {
            (Some(_), State::Running { stage, .. }) => State::Running { next_at, stage },
            (None, State::Running { .. }) => State::Done { finished_at: now },
            (_, ended) => ended,
        };
        Operation { cursor: cursor.map(|key| key.0), state, ..self }
    }

    /// So many letters were left out, since those whom they were for are not to be written to.
    #[must_use]
    pub fn passing_over(self, skipped: u64) -> Operation {
        Operation { skipped: self.skipped.saturating_add(skipped), ..self }
    }

    /// So many of the letters that were taken last were no longer dead.
    #[must_use]
    pub fn less(self, skipped: u64) -> Operation {
        let done = self.done.saturating_sub(skipped);
        Operation { done, skipped: self.skipped.saturating_add(skipped), ..self }
    }

    /// How it stands now that those who went first were seen; nothing while that is not clear.
    pub fn watched(&self, sights: &[Sight], now: Time) -> Option<Operation> {
        let with = |state| Some(Operation { state, ..self.clone() });
        let count = |wanted: Sight| sights.iter().filter(|sight| **sight == wanted).count();
        let of = sights.len();
        let some = |count: usize| match of {
            1 => "the letter that went first".to_owned(),
            _ => format!("{count} of {of} letters that went first"),
        };
        let reason = match (count(Sight::SameAgain), count(Sight::OtherEnd), count(Sight::Gone)) {
            (0, 0, 0) if count(Sight::Sent) == of => {
                return with(State::Running { next_at: now, stage: Stage::Rest });
            }
            (0, 0, 0) => return None,
            (0, 0, gone) => format!("somebody cancelled or discarded {}", some(gone)),
            (0, other, _) => format!("{} failed again by another cause", some(other)),
            (same, ..) => format!("{} failed again by the same cause", some(same)),
        };
        let reason = format!("{reason}; the others were left as they are");
        with(State::Halted { finished_at: now, reason })
    }

    /// Somebody asks the provider now; if nothing comes of it, another may.
    #[must_use]
    pub fn probing(self, now: Time) -> Operation {
        let state = State::Running { next_at: now + PROBE_LEASE, stage: Stage::Probing };
        Operation { state, ..self }
    }

    /// Somebody erases on from there; if nothing more is heard of them, another does.
    #[must_use]
    pub fn erasing(self, erasure: Erasure, now: Time) -> Operation {
        let counts = &erasure.counts;
        let done = counts.messages + counts.recipients + counts.requests + counts.revisions;
        let state = match erasure.step {
            erasure::Step::Done => State::Done { finished_at: now },
            _ => State::Running { next_at: now + ERASE_LEASE, stage: Stage::Erasing },
        };
        let skipped = erasure.spared_count;
        Operation { done, skipped, state, erasure: Some(Box::new(erasure)), ..self }
    }

    /// As it stands where whoever erased is known to be dead: nobody waits for their lease to end.
    #[must_use]
    pub fn bereft(self, now: Time) -> Operation {
        match self.state {
            State::Running { stage: stage @ Stage::Erasing, .. } => {
                Operation { state: State::Running { next_at: now, stage }, ..self }
            }
            _ => self,
        }
    }

    #[must_use]
    pub fn found(self, found: Found, now: Time) -> Operation {
        Operation { found: Some(found), state: State::Done { finished_at: now }, ..self }
    }

    #[must_use]
    pub fn halted(self, reason: &str, now: Time) -> Operation {
        let state = State::Halted { finished_at: now, reason: reason.to_owned() };
        Operation { state, ..self }
    }

    /// As a person ends it. What was done stays done.
    #[must_use]
    pub fn cancelled(self, by: Actor, now: Time) -> Operation {
        Operation { state: State::Cancelled { finished_at: now, cancelled_by: by }, ..self }
    }
}

/// When the next letters may go, after `count` that went now and were due then. A delay is caught up with by one
/// piece of work at most: after an hour in which nobody worked, an hour's letters do not go at once.
fn paced(rate: Option<u32>, count: u64, due: Time, now: Time) -> Time {
    let Some(rate) = rate else { return now };
    let span = Span::from_millis(count.saturating_mul(60_000).div_ceil(u64::from(rate.max(1))));
    let from = if now.since(due) <= span { due } else { now };
    from + span
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dice::Dice;
    use crate::id::IdMaker;

    const T0: Time = Time::from_millis(1_800_000_000_000);

    fn at(secs: u64) -> Time {
        T0 + Span::from_secs(secs)
    }

    fn reprocess(rate: Option<u32>, canary: u32) -> Operation {
        let stage = if canary > 0 { Stage::Canary } else { Stage::Rest };
        Operation {
            filter: [("channel".to_owned(), "crm".to_owned())].into(),
            rate_per_minute: rate,
            canary,
            ..Operation::new(Kind::Reprocess, stage, Actor("ana".to_owned()), T0)
        }
    }

    fn letters(count: usize) -> Vec<Canary> {
        let mut ids = IdMaker::after(MessageKey(0), Dice::seeded(1));
        (0..count).map(|_| Canary { id: ids.next(T0), cause: "cause_1".to_owned() }).collect()
    }

    #[test] // REQ DL-3
    fn without_a_rate_it_goes_on_at_once_in_chunks_to_the_last_letter() {
        let operation = reprocess(None, 0);
        assert_eq!(operation.next(T0), Step::Take(200));
        let operation = operation.took(letters(200), Some(MessageKey(7)), at(1));
        assert_eq!((operation.done, operation.cursor), (200, Some(7)));
        assert_eq!(operation.next(at(1)), Step::Take(200));
        let operation = operation.took(letters(3), None, at(2)).less(1);
        assert_eq!((operation.done, operation.skipped), (202, 1));
        assert_eq!(operation.state, State::Done { finished_at: at(2) });
        assert_eq!((operation.next(at(3)), operation.due()), (Step::Nothing, None));
    }

    #[test] // REQ DL-3
    fn a_rate_holds_whoever_goes_on_and_after_a_long_stop() {
        let slow = reprocess(Some(30), 0);
        assert_eq!(slow.next(T0), Step::Take(1));
        let slow = slow.took(letters(1), Some(MessageKey(9)), T0 + Span::from_millis(300));
        assert_eq!(slow.next(at(1)), Step::Wait(at(2)), "counted from when it was due");
        let slow = slow.took(letters(1), Some(MessageKey(8)), at(3_600));
        assert_eq!(slow.next(at(3_600)), Step::Wait(at(3_602)), "what was missed is not made up for");
        assert_eq!(reprocess(Some(600), 0).next(T0), Step::Take(10));
        assert_eq!(reprocess(Some(1_000_000), 0).next(T0), Step::Take(200));
        let nothing = reprocess(Some(30), 0).took(Vec::new(), Some(MessageKey(5)), at(1));
        assert_eq!(nothing.next(at(1)), Step::Take(1), "looking costs nothing");
    }

    #[test] // REQ DL-3
    fn the_first_letters_go_alone_and_the_others_wait_for_them() {
        let operation = reprocess(None, 2);
        assert_eq!(operation.next(T0), Step::Take(2));
        let none = operation.clone().took(Vec::new(), Some(MessageKey(9)), T0);
        assert_eq!(none.next(T0), Step::Take(2), "a page without a letter has no canary");
        let canaries = letters(2);
        let watching = operation.took(canaries.clone(), Some(MessageKey(7)), at(1));
        assert_eq!(watching.next(at(1)), Step::Watch(&canaries));
        assert_eq!(watching.watched(&[Sight::Sent, Sight::Underway], at(2)), None);
        let open = watching.watched(&[Sight::Sent, Sight::Sent], at(3)).unwrap();
        assert_eq!((open.next(at(3)), open.cursor), (Step::Take(200), Some(7)));
    }

    #[test] // REQ DL-3
    fn a_canary_that_does_not_arrive_stops_the_operation_and_says_why() {
        let watching = reprocess(None, 2).took(letters(2), Some(MessageKey(7)), T0);
        let check = |sights: [Sight; 2], words: &str| {
            let halted = watching.watched(&sights, at(5)).unwrap();
            let State::Halted { reason, finished_at } = &halted.state else { panic!("{halted:?}") };
            assert!(reason.contains(words) && reason.contains("left as they are"), "{reason}");
            assert_eq!((*finished_at, halted.next(at(6))), (at(5), Step::Nothing));
        };
        check(
            [Sight::Underway, Sight::SameAgain],
            "1 of 2 letters that went first failed again by the same cause",
        );
        check([Sight::OtherEnd, Sight::Sent], "by another cause");
        check([Sight::Gone, Sight::Underway], "cancelled or discarded 1 of 2");
    }

    #[test] // REQ AU-2
    fn a_removal_goes_on_with_a_rest_after_each_step_and_counts_what_went() {
        let prune = Operation::new(Kind::Prune, Stage::Rest, Actor("ana".to_owned()), T0);
        assert_eq!(prune.next(T0), Step::Take(200));
        let some = |count| [("crm.sent".to_owned(), count)];
        let prune = prune.pruned(some(200), Some(MessageKey(7)), at(1), T0);
        assert_eq!((prune.next(T0), prune.cursor), (Step::Wait(at(1)), Some(7)));
        let done = prune.pruned(some(3), None, at(3), at(2));
        assert_eq!((done.done, done.counts["crm.sent"]), (203, 203));
        assert_eq!(done.state, State::Done { finished_at: at(2) });
    }

    #[test]
    fn a_test_is_taken_up_again_if_nothing_comes_of_it_and_given_up_after_a_minute() {
        let state = State::Running { next_at: T0, stage: Stage::Probing };
        let test = Operation { kind: Kind::TestChannel, state, ..reprocess(None, 0) };
        assert_eq!(test.next(T0), Step::Probe);
        let asked = test.probing(T0);
        assert_eq!(asked.next(at(1)), Step::Wait(at(25)));
        assert_eq!(asked.next(at(25)), Step::Probe);
        assert!(matches!(asked.next(at(61)), Step::Halt(_)));
        let found = Found { ok: Some(true), detail: "250 OK".to_owned(), latency_ms: 12 };
        assert_eq!(asked.found(found, at(2)).state, State::Done { finished_at: at(2) });
    }

    #[test] // REQ AU-3
    fn an_erasure_is_left_to_whoever_is_at_it_unless_they_are_known_to_be_dead() {
        let person = erasure::Person { kind: None, hash: "h".to_owned() };
        let mut erasure = Erasure::new(Default::default(), person, false, false);
        for step in [erasure::Step::Papers, erasure::Step::Wait, erasure::Step::Sweep] {
            erasure.step = step;
            let erase = Operation::new(Kind::Erase, Stage::Erasing, Actor("ana".to_owned()), T0);
            let erase = erase.erasing(erasure.clone(), T0);
            assert_eq!(erase.next(at(1)), Step::Wait(at(30)), "{step:?}");
            assert_eq!(erase.next(at(30)), Step::Erase, "{step:?}");
            assert_eq!(erase.bereft(at(1)).next(at(1)), Step::Erase, "{step:?}");
        }
        let paced = reprocess(Some(1), 0).took(letters(1), Some(MessageKey(7)), T0);
        assert_eq!(paced.clone().bereft(at(1)), paced, "a pace is no lease");
    }

    #[test]
    fn a_document_survives_the_journey_and_a_newer_one_is_understood() {
        let operations = [
            reprocess(Some(60), 0),
            reprocess(None, 1),
            reprocess(None, 1).took(letters(1), Some(MessageKey(3)), T0),
            reprocess(None, 0).halted("why", T0),
            reprocess(None, 0).cancelled(Actor("bia".to_owned()), T0),
        ];
        for operation in operations {
            let mut text = serde_json::to_value(&operation).unwrap();
            assert_eq!(text["state"], operation.state.as_str());
            text["colour"] = "red".into();
            assert_eq!(serde_json::from_value::<Operation>(text).unwrap(), operation);
        }
    }

    proptest! {
        #[test] // REQ DL-3
        fn no_minute_ever_sees_more_than_the_rate_and_one_chunk(
            rate in 1u32..20_000,
            delays in prop::collection::vec(0u64..5_000, 1..200),
        ) {
            let mut operation = reprocess(Some(rate), 0);
            let mut now = T0;
            let mut gone: Vec<(Time, u64)> = Vec::new();
            for delay in delays {
                if let Step::Wait(until) = operation.next(now) {
                    now = until;
                }
                now = now + Span::from_millis(delay);
                let Step::Take(most) = operation.next(now) else { panic!("{operation:?}") };
                gone.push((now, most as u64));
                operation = operation.took(letters(most), Some(MessageKey(1)), now);
            }
            let chunk = u64::from(operation.chunk());
            for (start, _) in &gone {
                let minute = *start + Span::from_mins(1);
                let sum: u64 = gone.iter().filter(|(t, _)| (*start..minute).contains(t)).map(|(_, n)| n).sum();
                prop_assert!(sum <= u64::from(rate) + 2 * chunk, "{sum} in a minute at {rate}");
            }
        }
    }
}
