//! What a wait was chosen from, in one line.

use std::fmt;
use std::str::FromStr;

use super::fit::Chances;
use super::plan::{Choice, Plan};
use crate::backoff::Wait;
use crate::dice::Dice;
use crate::learn::Counts;
use crate::policy::Policy;
use crate::time::Span;

/// A chosen wait with all that it was chosen from.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapted {
    inputs: Inputs,
    choice: Choice,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inputs {
    pub(super) least: Span,
    pub(super) most: Span,
    /// The policy's own schedule, from the first retry on.
    pub(super) own: Vec<Span>,
    /// What the policy would have waited.
    pub(super) instead_of: Span,
    /// Retries left, the next one included.
    pub(super) left: u16,
    /// How long it has been failing.
    pub(super) elapsed: Span,
    /// How long until it is given up.
    pub(super) until: Option<Span>,
    pub(super) swing: Swing,
    pub(super) counts: Counts,
    pub(super) chances: Chances,
}

/// How far a wait swings, in thousandths to either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swing(i16);

/// The swing of a policy that has none: whoever learns the same would otherwise come at the same moment.
const SPREAD: f64 = 0.1;

impl Swing {
    /// The policy's own swing, else a small one.
    pub fn rolled(policy: &Policy, own: &Wait, dice: &mut Dice) -> Swing {
        Swing::of(if policy.jitter > 0.0 { own.swing } else { dice.swing() * SPREAD })
    }

    #[allow(clippy::cast_possible_truncation)]
    pub fn of(share: f64) -> Swing {
        Swing((share * 1_000.0).round() as i16)
    }

    pub(super) fn factor(self) -> f64 {
        1.0 + f64::from(self.0) / 1_000.0
    }
}

impl Adapted {
    /// Chooses. The same inputs give the same wait, today and for ever.
    pub(super) fn new(inputs: Inputs) -> Adapted {
        let Inputs { least, most, ref own, left, elapsed, until, swing, ref chances, .. } = inputs;
        let deadline = until.map(|until| elapsed + until);
        let plan = Plan::new(chances, least, most, own, deadline);
        let choice = plan.swung(elapsed, left, swing);
        Adapted { inputs, choice }
    }

    /// The wait, within the policy's bounds.
    pub fn delay(&self) -> Span {
        self.choice.wait
    }

    /// What the policy would have waited by itself.
    pub fn own(&self) -> Span {
        self.inputs.instead_of
    }

    /// How likely the next attempt is to pass after that wait.
    pub fn chance(&self) -> f64 {
        self.choice.chance
    }

    /// How many retries it goes by.
    pub fn counts(&self) -> Counts {
        self.inputs.counts
    }

    pub fn bounds(&self) -> (Span, Span) {
        (self.inputs.least, self.inputs.most)
    }

    /// The same choice made again, from what was written down.
    pub fn again(&self) -> Adapted {
        Adapted::new(self.inputs.clone())
    }
}

/// `waits from 5s to 5m, own 5s 30s 5m, 2 left, failing for 5s, until -, swing 0, 221 of 312 passed, chances 4a4a…, so 2m
/// instead of 30s`
impl fmt::Display for Adapted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inputs { least, most, own, instead_of, left, elapsed, until, swing, counts, chances } =
            &self.inputs;
        let own = own.iter().map(Span::to_string).collect::<Vec<_>>().join(" ");
        let until = until.map_or_else(|| "-".to_owned(), |until| until.to_string());
        write!(
            f,
            "waits from {least} to {most}, own {own}, {left} left, failing for {elapsed}, until {until}, swing {}, \
             {} of {} passed, chances {chances}, so {} instead of {instead_of}",
            swing.0, counts.passed, counts.tried, self.choice.wait
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the record of a chosen wait")]
pub struct BadRecord;

/// Reads a record and chooses again; refuses one that says something else than what follows from it.
impl FromStr for Adapted {
    type Err = BadRecord;
    fn from_str(text: &str) -> Result<Adapted, BadRecord> {
        let mut parts = text.split(", ");
        let mut part = |before: &str, after: &str| {
            let said = parts.next()?.strip_prefix(before)?;
            said.strip_suffix(after)
        };
        let mut read = || {
            let (least, most) = part("waits from ", "")?.split_once(" to ")?;
            let own = part("own ", "")?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            let left = part("", " left")?.parse().ok()?;
            let elapsed = part("failing for ", "")?.parse().ok()?;
            let until = match part("until ", "")? {
                "-" => None,
                until => Some(until.parse().ok()?),
            };
            let swing = Swing(part("swing ", "")?.parse().ok()?);
            let (passed, tried) = part("", " passed")?.split_once(" of ")?;
            let counts = Counts { tried: tried.parse().ok()?, passed: passed.parse().ok()? };
            let chances = part("chances ", "")?.parse().ok()?;
            let (delay, instead_of) = part("so ", "")?.split_once(" instead of ")?;
            let (delay, instead_of): (Span, Span) = (delay.parse().ok()?, instead_of.parse().ok()?);
            let (least, most) = (least.parse().ok()?, most.parse().ok()?);
            Some((
                Inputs { least, most, own, instead_of, left, elapsed, until, swing, counts, chances },
                delay,
            ))
        };
        let (inputs, delay) = read().filter(|(inputs, _)| inputs.least <= inputs.most).ok_or(BadRecord)?;
        let again = Adapted::new(inputs);
        if again.choice.wait == delay { Ok(again) } else { Err(BadRecord) }
    }
}
