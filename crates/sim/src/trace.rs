//! What happened, line by line: hashed as a whole, and its end kept to be read.

use std::collections::VecDeque;
use std::fmt;

/// How many of the last lines a failure shows.
const LAST_LINES: usize = 40;

/// How much of a run is kept to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The last lines before a failure.
    End,
    All,
}

#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: VecDeque<String>,
    show: Show,
}

impl Trace {
    pub(crate) fn new(show: Show) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, lines: VecDeque::new(), show }
    }

    pub(crate) fn note(&mut self, at_ms: u64, what: fmt::Arguments<'_>) {
        let line = format!("{:>9.3} {what}", Seconds(at_ms));
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if self.show == Show::End && self.lines.len() == LAST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// FNV-1a over every line: the same for two runs of one seed.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        write!(f, "{text:>9}")
    }
}
