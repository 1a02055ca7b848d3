//! Chance, from a seed. A recorded run replays exactly, whatever our dependencies do.

/// A small seeded generator (SplitMix64). Not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dice(u64);

impl Dice {
    pub const fn seeded(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [-1, 1).
    pub fn swing(&mut self) -> f64 {
        self.unit() * 2.0 - 1.0
    }

    /// Uniform in 0..bound. `bound` is at least 1.
    #[allow(clippy::cast_possible_truncation)]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound.max(1))) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_for_ever() {
        let mut dice = Dice::seeded(42);
        assert_eq!(
            [dice.next_u64(), dice.next_u64(), dice.next_u64()],
            [13_679_457_532_755_275_413, 2_949_826_092_126_892_291, 5_139_283_748_462_763_858]
        );
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut dice = Dice::seeded(7);
        let mut buckets = [0u32; 10];
        for _ in 0..100_000 {
            buckets[usize::try_from(dice.below(10)).unwrap()] += 1;
        }
        assert!(buckets.iter().all(|n| (9_500..10_500).contains(n)), "{buckets:?}");
    }
}
