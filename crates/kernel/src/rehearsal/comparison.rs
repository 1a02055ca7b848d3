//! One policy three times before the same messages: as it is, adaptive and new to them, adaptive and taught.

use super::{Episode, Learning, Outcome, Scenario, Verdict, episodes, foresight, play};
use crate::adapt::Adaptive;
use crate::dice::Dice;
use crate::learn::Curve;
use crate::policy::Policy;
use crate::time::Span;

/// How a policy was played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Fixed,
    /// Adaptive, and nothing known at first.
    New,
    /// Adaptive, after earlier trouble of the same kind.
    Taught,
}

impl Act {
    pub const ALL: [Act; 3] = [Act::Fixed, Act::New, Act::Taught];

    pub fn as_str(self) -> &'static str {
        match self {
            Act::Fixed => "fixed",
            Act::New => "adaptive, new",
            Act::Taught => "adaptive",
        }
    }
}

/// What became of one act.
#[derive(Clone, Debug)]
pub struct Played {
    pub act: Act,
    pub outcome: Outcome,
    /// Against the fixed one.
    pub verdict: Option<Verdict>,
}

/// The same messages for every policy.
#[derive(Debug)]
pub struct Comparison {
    /// What was there before, for whoever may learn from it.
    before: Vec<Episode>,
    measured: Vec<Episode>,
    slot: Span,
    seed: u64,
}

impl Comparison {
    /// At least so many messages of a scenario, whose load is told in slots of that length. The same seed plays the same.
    pub fn new(scenario: &Scenario, messages: usize, slot: Span, seed: u64) -> Comparison {
        let set = |seed| episodes(scenario, messages, &mut Dice::seeded(seed));
        Comparison { before: set(seed.wrapping_add(1)), measured: set(seed), slot, seed }
    }

    /// How many messages there are, those that pass at once among them.
    pub fn messages(&self) -> usize {
        self.measured.iter().map(|episode| episode.arrivals.len()).sum()
    }

    /// Whatever the policy says of adaptive waits, it is played without them and with them.
    pub fn of(&self, policy: &Policy) -> [Played; 3] {
        let (fixed, adaptive) = (fixed(policy), adaptive(policy));
        let nothing = || Learning::from(Curve::default());
        let plain = self.play(&fixed, &self.measured, &mut nothing());
        let new = self.play(&adaptive, &self.measured, &mut nothing());
        let mut taught = nothing();
        self.play(&adaptive, &self.before, &mut taught);
        let taught = self.play(&adaptive, &self.measured, &mut taught);
        let best = foresight(&fixed, &self.measured, self.slot);
        let against = |outcome: &Outcome| Some(Verdict::of(&plain, outcome, best.as_ref()));
        let (of_new, of_taught) = (against(&new), against(&taught));
        [
            Played { act: Act::Fixed, outcome: plain, verdict: None },
            Played { act: Act::New, outcome: new, verdict: of_new },
            Played { act: Act::Taught, outcome: taught, verdict: of_taught },
        ]
    }

    fn play(&self, policy: &Policy, set: &[Episode], learning: &mut Learning) -> Outcome {
        play(policy, set, self.slot, learning, &mut Dice::seeded(self.seed))
    }
}

/// The policy without adaptive waits.
pub fn fixed(policy: &Policy) -> Policy {
    Policy { adaptive: Adaptive::Off, ..policy.clone() }
}

/// The policy with adaptive waits.
pub fn adaptive(policy: &Policy) -> Policy {
    Policy { adaptive: Adaptive::On, ..policy.clone() }
}
