//! Fair turns between queues, so that a large one cannot starve a small one.
//!
//! Stride scheduling: each queue has a *pass*; the lowest pass goes next and pays for what it took. A
//! message of higher priority costs its queue less, so priority is strict within a queue and a larger share
//! between queues: urgent work of one never stops another for good.

use crate::message::Priority;

/// How far a queue has come in its lane. Lower goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pass(u64);

/// Takes by one queue before the others get a turn, when others wait.
pub const BITE: usize = 16;

impl Pass {
    /// The pass after one message of that priority.
    pub fn after(self, priority: Priority, weight: u32) -> Pass {
        let cost = (1u64 << (9 - priority.get())) * 1024 / u64::from(weight.max(1));
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
