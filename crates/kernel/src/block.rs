//! What makes messages wait together without any fault of their own: holds and pauses.
//!
//! A block stands in front of a channel or of one destination of it. A message that waits behind one costs
//! nothing and burns no attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::classify::Scope;
use crate::time::{Span, Time};

/// Why messages wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// A fault of ours (credentials, instance, configuration). Tried again with one message at a time.
    Hold,
    /// The provider asked for a pause. Ends by itself.
    Pause,
    /// An operator said so. Ends when an operator says so.
    Operator,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub kind: BlockKind,
    /// In plain words, for an operator.
    pub reason: String,
    pub since: Time,
    /// When a hold is probed, or a pause ends. An operator's block has no end of its own.
    pub until: Option<Time>,
    /// Probes that failed so far.
    pub probes: u16,
}

/// What a settlement does to the block in front of its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BlockChange {
    #[default]
    Keep,
    Set(Scope, Block),
    /// A probe was answered: whatever hold there was is over.
    Lift,
    /// A probe reached nobody: whatever hold there was goes on as this one.
    Renew(Block),
}

const FIRST_PROBE: Span = Span::from_secs(30);
const SLOWEST_PROBE: Span = Span::from_mins(10);

impl Block {
    /// A hold for a fault of ours, with the next probe later each time.
    pub fn hold(reason: String, probes: u16, now: Time) -> Block {
        let wait = FIRST_PROBE.doubled(u32::from(probes)).min(SLOWEST_PROBE);
        Block { kind: BlockKind::Hold, reason, since: now, until: Some(now + wait), probes }
    }

    pub fn pause(reason: String, until: Time, now: Time) -> Block {
        Block { kind: BlockKind::Pause, reason, since: now, until: Some(until), probes: 0 }
    }

    /// What stands after `newer` is said of the same place. An operator's word outranks the engine's, and nothing
    /// that the engine hears shortens a wait.
    pub fn merged(self, newer: Block) -> Block {
        let until = self.until.max(newer.until);
        match (self.kind, newer.kind) {
            (_, BlockKind::Operator) => newer,
            (BlockKind::Operator, _) => self,
            (BlockKind::Hold, BlockKind::Pause) => Block { until, ..self },
            (_, BlockKind::Hold) => {
                Block { since: self.since, until, probes: self.probes.max(newer.probes), ..newer }
            }
            (BlockKind::Pause, BlockKind::Pause) => Block { since: self.since, until, ..newer },
        }
    }

    /// What may pass at `now`.
    pub fn gate(&self, now: Time) -> Gate {
        match (self.kind, self.until) {
            (BlockKind::Operator, _) | (_, None) => Gate::Shut { until: None },
            (_, Some(until)) if now < until => Gate::Shut { until: Some(until) },
            (BlockKind::Hold, _) => Gate::Probe,
            (BlockKind::Pause, _) => Gate::Open,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// One message at a time, to see whether the fault is gone.
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
        let block = Block {
            kind: BlockKind::Operator,
            reason: "maintenance".into(),
            since: NOW,
            until: None,
            probes: 0,
        };
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
}
