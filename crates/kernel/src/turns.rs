//! Fair turns between queues, so that a large one cannot starve a small one.
//!
//! Stride scheduling: each queue has a *pass*; the lowest pass goes next and pays for what it took. A
//! message of higher priority costs its queue less, so priority is strict within a queue and a larger share
//! between queues: urgent work of one never stops another for good.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::message::Priority;

/// How far a queue has come in its lane. Lower goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pass(u64);

/// What one message of the highest priority costs at a weight of 1. Large, so that great weights still divide it well.
const COST: u64 = 1 << 16;

/// How many turns a channel or a campaign has where an ordinary one has one: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

impl Weight {
    pub const MAX: Weight = Weight(100);

    pub fn new(value: u32) -> Option<Weight> {
        (1..=Weight::MAX.0).contains(&value).then_some(Weight(value))
    }

    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight(1)
    }
}

impl TryFrom<u32> for Weight {
    type Error = String;
    fn try_from(value: u32) -> Result<Weight, String> {
        let bad = || format!("{value} is out of bounds; 1 to {}, and 1 is usual", Weight::MAX.0);
        Weight::new(value).ok_or_else(bad)
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> u32 {
        weight.0
    }
}

impl JsonSchema for Weight {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Weight".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1, "maximum": Weight::MAX.0})
    }
}

/// Takes by one queue before the others get a turn, when others wait.
pub const BITE: usize = 16;

impl Pass {
    /// The pass after one message of that priority.
    pub fn after(self, priority: Priority, weight: u32) -> Pass {
        let cost = (COST << (9 - priority.get())) / u64::from(weight.max(1));
        Pass(self.0.saturating_add(cost.max(1)))
    }

    /// The pass of a queue that comes back from having had nothing to do: it saves up nothing.
    pub fn resumed(self, lane: Pass) -> Pass {
        self.max(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `n` messages by turns from queues of (priority, weight) that never run dry.
    fn shares(queues: &[(u8, u32)], n: usize) -> Vec<usize> {
        let mut passes = vec![Pass::default(); queues.len()];
        let mut taken = vec![0; queues.len()];
        for _ in 0..n {
            let next = (0..queues.len()).min_by_key(|i| (passes[*i], *i)).unwrap();
            let (priority, weight) = queues[next];
            passes[next] = passes[next].after(Priority::new(priority).unwrap(), weight);
            taken[next] += 1;
        }
        taken
    }

    #[test] // REQ BK-5, ML-6
    fn equal_queues_take_equal_turns_and_weights_count() {
        assert_eq!(shares(&[(5, 1), (5, 1)], 1000), [500, 500]);
        let weighted = shares(&[(5, 3), (5, 1)], 1000);
        assert!((740..=760).contains(&weighted[0]), "{weighted:?}");
        // The greatest of both a channel and a campaign, and half of it.
        let great = shares(&[(9, 10_000), (9, 5_000)], 3000);
        assert!((1_900..=2_100).contains(&great[0]), "{great:?}");
    }

    #[test] // REQ ML-6
    fn urgent_work_gets_far_more_turns_and_never_all() {
        let taken = shares(&[(9, 1), (5, 1)], 1700);
        assert!((1590..=1610).contains(&taken[0]), "{taken:?}");
        assert!(taken[1] >= 90);
    }

    #[test]
    fn an_idle_queue_saves_up_no_turns() {
        let busy = Pass(1_000_000);
        assert_eq!(Pass::default().resumed(busy), busy);
        assert_eq!(Pass(2_000_000).resumed(busy), Pass(2_000_000));
    }
}
