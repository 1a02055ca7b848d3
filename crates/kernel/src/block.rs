//! What makes messages wait together without any fault of their own: holds, breakers, pauses.
//!
//! A block stands in front of a channel or of one destination of it. A message that waits behind one costs
//! nothing and burns no attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::breaker::Limits;
use crate::classify::Scope;
use crate::flow::Rate;
use crate::time::{Span, Time};

/// Why messages wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// A fault of ours (credentials, instance, configuration). Tried again with one message at a time.
    Hold,
    /// The destination is down. Tried again with one message at a time.
    Breaker,
    /// The destination is back, and what has waited is let go slowly. Ends by itself.
    Ramp,
    /// The provider asked for a pause. Ends by itself.
    Pause,
    /// An operator said so. Ends when an operator says so.
    Operator,
}

impl BlockKind {
    /// One message at a time is let through, to see whether the trouble is over.
    pub fn is_probed(self) -> bool {
        matches!(self, BlockKind::Hold | BlockKind::Breaker)
    }

    /// Nobody has to end it.
    pub fn passes(self) -> bool {
        matches!(self, BlockKind::Pause | BlockKind::Ramp)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub kind: BlockKind,
    /// In plain words, for an operator.
    pub reason: String,
    pub since: Time,
    /// When a hold or a breaker is probed, or a pause or a ramp ends. An operator's block has no end of its own.
    pub until: Option<Time>,
    /// Probes that failed so far.
    pub probes: u16,
    /// What the destination took in quiet times.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::flow::exact")]
    pub steady: Option<Rate>,
    /// A breaker's first and longest wait for a probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<(Span, Span)>,
    /// What was left of a ramp when this came in its way: what waited then still waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unramped: Option<Span>,
}

/// What a settlement does to the block in front of its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BlockChange {
    #[default]
    Keep,
    Set(Scope, Block),
    /// A probe was answered: whatever hold or breaker there was is over.
    Lift,
    /// A probe failed, for this reason: whatever hold or breaker there was goes on.
    Renew(String),
    /// Whoever was asked says that it is there: a message may try its breaker now. A hold goes on.
    Reached,
    /// Whoever was asked is there and knows us: a message may try its breaker now, and a hold is over.
    Ready,
}

/// What an attempt was let through to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub kind: BlockKind,
    /// How many failed before it.
    pub failed: u16,
    /// Since when the way is blocked.
    pub since: Time,
}

/// What an attempt finds out that passes this block, and perhaps another before it. A hold is the graver one.
pub fn probe_of(other: Option<Probe>, block: &Block) -> Probe {
    let own = Probe { kind: block.kind, failed: block.probes, since: block.since };
    let Some(other) = other else { return own };
    let kind = if other.kind == BlockKind::Hold { other.kind } else { own.kind };
    Probe { kind, failed: other.failed.max(own.failed), since: other.since.min(own.since) }
}

const FIRST_PROBE: Span = Span::from_secs(30);
const SLOWEST_PROBE: Span = Span::from_mins(10);
/// However little a destination took in quiet times, so many a second come back to it.
const SLOWEST_RAMP: Rate = Rate::per_second(5);
/// A ramp begins at an eighth of its height and doubles in each such time.
const RAMP_STEP: Span = Span::from_secs(10);
const RAMP_STEPS: u64 = 3;
/// So many times as long as the outage: what it takes to catch up at 1.8 times the pace while new messages come at
/// their own. A ramp that ended earlier would let the rest go as a herd.
const RAMP_LENGTH: f64 = 1.25;
/// And so much longer, since it begins slowly.
const RAMP_MORE: Span = Span::from_mins(1);
/// Pauses from this length on are followed by a ramp.
const LONG_PAUSE: Span = Span::from_secs(30);
const LONGEST_RAMP: Span = Span::from_hours(24);

impl Block {
    fn new(kind: BlockKind, reason: String, now: Time, until: Option<Time>) -> Block {
        Block { kind, reason, since: now, until, probes: 0, steady: None, patience: None, unramped: None }
    }

    /// A hold for a fault of ours, with the next probe later each time.
    pub fn hold(reason: String, probes: u16, now: Time) -> Block {
        let mut block = Block::new(BlockKind::Hold, reason, now, None);
        block.probes = probes;
        Block { until: Some(now + block.probe_wait()), ..block }
    }

    pub fn pause(reason: String, until: Time, now: Time) -> Block {
        Block::new(BlockKind::Pause, reason, now, Some(until))
    }

    pub fn operator(reason: String, now: Time) -> Block {
        Block::new(BlockKind::Operator, reason, now, None)
    }

    /// The destination is down, or an operator says so.
    pub fn breaker(reason: String, limits: &Limits, now: Time) -> Block {
        let patience = Some((limits.first_probe, limits.slowest_probe));
        let block = Block { patience, ..Block::new(BlockKind::Breaker, reason, now, None) };
        Block { until: Some(now + block.probe_wait()), ..block }
    }

    fn probe_wait(&self) -> Span {
        let (first, slowest) = self.patience.unwrap_or((FIRST_PROBE, SLOWEST_PROBE));
        first.doubled(u32::from(self.probes)).min(slowest)
    }

    /// The same block after another probe failed.
    pub fn renewed(self, reason: String, now: Time) -> Block {
        let block = Block { reason, probes: self.probes.saturating_add(1), ..self };
        Block { until: block.until.max(Some(now + block.probe_wait())), ..block }
    }

    /// The same block, to be probed at once.
    pub fn probed_now(self, now: Time) -> Block {
        Block { until: Some(now), ..self }
    }

    /// What comes after a hold or a breaker: a ramp, a quarter longer than the outage was and a little more, and as
    /// much longer as one before it was cut short.
    ///
    /// What has waited goes at not quite twice the pace of quiet times, together with what is new, so the queue
    /// shrinks as fast as it grew and the destination is not overrun.
    pub fn ramp(&self, now: Time) -> Block {
        let own = now.since(self.since).scaled(RAMP_LENGTH) + RAMP_MORE;
        let length = (own + self.unramped.unwrap_or_default()).min(LONGEST_RAMP);
        let reason = "what has waited is let go slowly".to_owned();
        let steady = self.steady.unwrap_or(SLOWEST_RAMP);
        Block { steady: Some(steady), ..Block::new(BlockKind::Ramp, reason, now, Some(now + length)) }
    }

    /// The same block, knowing what the destination took before. A short pause leaves no crowd behind it.
    pub fn remembering(self, steady: Option<Rate>, now: Time) -> Block {
        let long = self.until.is_none_or(|until| until.since(now) >= LONG_PAUSE);
        let wanted = self.kind.is_probed() || (self.kind == BlockKind::Pause && long);
        if wanted { Block { steady: self.steady.or(steady), ..self } } else { self }
    }

    /// What stands once a pause or a ramp has come to its end: after a pause behind which a crowd may have gathered,
    /// a ramp; otherwise nothing.
    pub fn ended(&self, now: Time) -> Option<Block> {
        let end = self.until.filter(|_| self.kind == BlockKind::Pause && self.steady.is_some())?;
        Some(self.ramp(end)).filter(|ramp| ramp.gate(now) != Gate::Open)
    }

    /// What stands after `newer` is said of the same place. An operator's word outranks the engine's, and nothing
    /// that the engine hears shortens a wait.
    pub fn merged(self, newer: Block) -> Block {
        use BlockKind::{Breaker, Hold, Operator, Pause, Ramp};
        let until = self.until.max(newer.until);
        // What was known first: on a ramp more than usual is taken.
        let steady = self.steady.or(newer.steady);
        let unramped = match self.kind {
            Ramp => self.until.map(|until| until.since(newer.since)),
            _ => self.unramped,
        };
        match (self.kind, newer.kind) {
            (_, Operator) => newer,
            (Operator, _) => self,
            (Ramp, Hold | Breaker | Pause) => Block { steady, unramped, ..newer },
            (Ramp, Ramp) => newer,
            (Pause, Ramp) => Block { steady, ..newer },
            (Pause, Pause) => Block { since: self.since, until, steady, unramped, ..newer },
            (Hold, Breaker | Ramp | Pause) | (Breaker, Ramp | Pause) => Block { until, steady, ..self },
            (Hold | Breaker | Pause, Hold) | (Breaker | Pause, Breaker) => {
                let probes = self.probes.max(newer.probes);
                Block { since: self.since, until, probes, steady, unramped, ..newer }
            }
        }
    }

    /// What may pass at `now`.
    pub fn gate(&self, now: Time) -> Gate {
        match (self.kind, self.until) {
            (BlockKind::Ramp, Some(until)) if now < until => Gate::Flow(self.ramp_rate(now)),
            (BlockKind::Operator, _) | (_, None) => Gate::Shut { until: None },
            (BlockKind::Ramp, _) => Gate::Open,
            (_, Some(until)) if now < until => Gate::Shut { until: Some(until) },
            (BlockKind::Hold | BlockKind::Breaker, _) => Gate::Probe,
            (BlockKind::Pause, _) => Gate::Open,
        }
    }

    /// How fast a ramp lets messages go.
    fn ramp_rate(&self, now: Time) -> Rate {
        let top = self.steady.unwrap_or(SLOWEST_RAMP).scaled(18, 10).max(SLOWEST_RAMP);
        let steps = now.since(self.since).millis() / RAMP_STEP.millis();
        let left = RAMP_STEPS.saturating_sub(steps);
        top.scaled(1, 1 << left).max(SLOWEST_RAMP.min(top))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// So many a second.
    Flow(Rate),
    /// One message at a time, to see whether the trouble is over.
    Probe,
    Shut {
        until: Option<Time>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_000_000);

    #[test] // REQ CF-7
    fn a_hold_shuts_then_lets_one_message_probe() {
        let hold = Block::hold("401".into(), 0, NOW);
        assert_eq!(hold.gate(NOW), Gate::Shut { until: Some(NOW + Span::from_secs(30)) });
        assert_eq!(hold.gate(NOW + Span::from_secs(30)), Gate::Probe);
    }

    #[test] // REQ CF-7
    fn probes_come_ever_more_slowly_up_to_a_limit() {
        let waits: Vec<_> = (0..7)
            .map(|n| Block::hold(String::new(), n, NOW).until.unwrap().since(NOW).millis() / 1000)
            .collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
    }

    #[test]
    fn an_operators_block_stands_until_an_operator_lifts_it() {
        let block = Block::operator("maintenance".into(), NOW);
        assert_eq!(block.gate(Time::MAX), Gate::Shut { until: None });
        assert_eq!(block.clone().merged(Block::hold("401".into(), 0, NOW)), block);
    }

    #[test] // REQ CF-7, CF-8
    fn nothing_that_the_engine_hears_shortens_a_wait() {
        let hold = Block::hold("401".into(), 3, NOW);
        let pause = Block::pause("429".into(), NOW + Span::from_hours(1), NOW);
        let hour = Some(NOW + Span::from_hours(1));
        let held = hold.clone().merged(pause.clone());
        assert_eq!((held.kind, held.until, held.probes), (BlockKind::Hold, hour, 3));
        let held = pause.merged(hold.clone());
        assert_eq!((held.kind, held.until), (BlockKind::Hold, hour));
        let late = hold.clone().merged(Block::hold("401".into(), 0, NOW));
        assert_eq!((late.probes, late.until), (3, hold.until), "a straggler does not start over");
    }

    #[test] // REQ CF-8
    fn a_pause_ends_by_itself_and_the_longest_request_counts() {
        let short = Block::pause("429".into(), NOW + Span::from_secs(5), NOW);
        let long = Block::pause("429".into(), NOW + Span::from_secs(9), NOW);
        let both = long.clone().merged(short);
        assert_eq!(both.until, long.until);
        assert_eq!(both.gate(NOW + Span::from_secs(9)), Gate::Open);
    }

    #[test] // REQ CB-1
    fn a_breaker_is_probed_ever_more_slowly_and_a_hold_outranks_it() {
        let breaker = Block::breaker("down".into(), &Limits::default(), NOW);
        let mut waits = Vec::new();
        let (mut block, mut now) = (breaker.clone(), NOW);
        for _ in 0..6 {
            waits.push(block.until.unwrap().since(now).millis() / 1000);
            now = block.until.unwrap();
            assert_eq!(block.gate(now), Gate::Probe);
            block = block.renewed("still down".into(), now);
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        assert_eq!((block.since, block.probes), (NOW, 6));
        let held = breaker.clone().merged(Block::hold("401".into(), 0, NOW));
        assert_eq!((held.kind, held.since), (BlockKind::Hold, NOW));
        assert_eq!(Block::hold("401".into(), 0, NOW).merged(breaker).kind, BlockKind::Hold);
    }

    #[test] // REQ CB-1
    fn a_ramp_rises_to_less_than_twice_the_steady_rate_and_lasts_until_all_has_gone() {
        let steady = Some(Rate::per_second(100));
        let breaker = Block { steady, ..Block::breaker("down".into(), &Limits::default(), NOW) };
        let back = NOW + Span::from_mins(10);
        let ramp = breaker.ramp(back);
        let rate = |after: u64| match ramp.gate(back + Span::from_secs(after)) {
            Gate::Flow(rate) => rate.milli() / 1_000,
            _ => u64::MAX,
        };
        assert_eq!([0, 10, 20, 30, 600].map(rate), [22, 45, 90, 180, 180]);
        assert_eq!(ramp.gate(back + Span::from_secs(750 + 59)), Gate::Flow(Rate::per_second(180)));
        assert_eq!(ramp.gate(back + Span::from_secs(750 + 60)), Gate::Open);
        let idle = Block { steady: Some(Rate::from_milli(1)), ..breaker }.ramp(back);
        assert_eq!(idle.gate(back), Gate::Flow(SLOWEST_RAMP), "a quiet destination is not kept waiting");
    }

    #[test] // REQ CB-1
    fn a_destination_that_fails_again_on_the_ramp_is_closed_again_with_what_was_known_of_it() {
        let steady = Some(Rate::per_second(50));
        let ramp = Block { steady, ..Block::hold("x".into(), 0, NOW) }.ramp(NOW);
        let again = ramp.clone().merged(Block::breaker("down".into(), &Limits::default(), NOW));
        assert_eq!((again.kind, again.steady), (BlockKind::Breaker, steady));
        let overrun = Some(Rate::per_second(90));
        let again = ramp.merged(Block { steady: overrun, ..again });
        assert_eq!(again.steady, steady, "what the ramp itself let go is not what is usual");
    }

    #[test] // REQ CB-1
    fn what_cuts_a_ramp_short_is_followed_by_the_rest_of_it() {
        let steady = Some(Rate::per_second(50));
        let outage = Block { steady, ..Block::breaker("down".into(), &Limits::default(), NOW) };
        let back = NOW + Span::from_hours(2);
        let ramp = outage.ramp(back);
        let planned = ramp.until.unwrap();
        let then = back + Span::from_mins(1);
        let second = Span::from_secs(1);
        let pause = |at: Time| Block::pause("429".into(), at + second, at);
        let paused = ramp.clone().merged(pause(then)).merged(pause(then));
        let after_pause = paused.ended(then + second).unwrap();
        let broken = ramp.merged(Block::breaker("down again".into(), &Limits::default(), then));
        let broken = broken.merged(Block::hold("401".into(), 0, then));
        let after_breaker = broken.ramp(then + second);
        for (what, next) in [("a pause", after_pause), ("a breaker", after_breaker)] {
            assert!(next.until.unwrap() >= planned, "after {what}: {:?}, planned {planned:?}", next.until);
            assert_eq!(next.steady, steady, "{what}");
        }
    }
}
