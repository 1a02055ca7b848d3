//! Words for rolling dice.

use pombo_kernel::dice::Dice;

pub(crate) trait Chance {
    /// True once in `n` rolls.
    fn one_in(&mut self, n: u64) -> bool;
    /// Uniform from `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64;
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T;
    /// Other dice, which these ones decide.
    fn fork(&mut self) -> Dice;
}

impl Chance for Dice {
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.below(from.len() as u64);
        &from[usize::try_from(index).unwrap_or(0)]
    }

    fn fork(&mut self) -> Dice {
        Dice::seeded(self.next_u64())
    }
}
