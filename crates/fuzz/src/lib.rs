//! Whatever reads bytes from outside, given bytes that nobody would send.
//!
//! A [`Target`] takes any bytes and holds what a parser makes of them against what it promises: not only that it does
//! not fall over, but that pieces of any length give the same result, that what was written can be read again, and that
//! nothing grows past its bounds. [`drive::run`] plays the bytes that lie in `corpus/NAME`, then changes of them that
//! dice choose, on any Rust; `fuzz/` at the root hands the same targets to cargo-fuzz.

// A target that cannot go on has found something.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod change;
pub mod corpus;
pub mod drive;
mod targets;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

pub use targets::TARGETS;

/// One reader of outside bytes, with what must hold whatever they are.
#[derive(Clone, Copy)]
pub struct Target {
    /// Also of its folder under `corpus/`.
    pub name: &'static str,
    /// Reads the bytes and panics if a promise is broken. What it gives back tells outcomes of different kinds apart, so
    /// that input that leads somewhere new is worth changing further.
    pub run: fn(&[u8]) -> Sign,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Input that is made, beside that which lies in the corpus.
    pub made: fn() -> Vec<Vec<u8>>,
    /// The longest input that is made of others.
    pub bytes_max: usize,
    /// How often a short run plays it: fewer where one time takes long.
    pub short_runs: u64,
}

/// What kind of outcome it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sign(pub u64);

impl Sign {
    pub fn of(outcome: impl Hash) -> Sign {
        let mut hasher = DefaultHasher::new();
        outcome.hash(&mut hasher);
        Sign(hasher.finish())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
