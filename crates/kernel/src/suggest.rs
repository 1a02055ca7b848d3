//! Rules for errors that no rule knows, suggested by how they ended.

use crate::classify::{OneOf, Rule, Verdict};
use crate::learn::{Counts, Estimate};

/// What is known of an error that no rule knew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// The error without what differs from message to message; see [`cause::normalised`](crate::cause::normalised).
    pub text: String,
    /// How often it was met.
    pub seen: u64,
    /// How often it was the end of its message.
    pub ended: u64,
    /// The attempts that came after it.
    pub followed: Counts,
}

/// What the next attempts say of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// More than half pass, beyond what chance explains.
    Transient,
    /// Hardly any passes, beyond what chance explains.
    Permanent,
    /// Some pass and some do not: no rule says more than to try again.
    Undecided,
    TooFew,
}

/// At least this share passes where an error is called transient.
const MANY: f64 = 0.5;
/// At most this share passes where one is called permanent.
const FEW: f64 = 0.05;
/// Words shorter than this are on too many replies to be looked for.
const PIECE_MIN: usize = 4;
const PIECES_MAX: usize = 5;
const CATEGORY_WORDS: usize = 4;

impl Unmatched {
    pub fn advice(&self) -> Advice {
        match self.followed.estimate() {
            Estimate::TooFew { .. } => Advice::TooFew,
            Estimate::Counted { low, .. } if low >= MANY => Advice::Transient,
            Estimate::Counted { high, .. } if high <= FEW => Advice::Permanent,
            Estimate::Counted { .. } => Advice::Undecided,
        }
    }

    /// The rule that would know it; none where nothing is advised, or nothing of its words is its own.
    pub fn rule(&self) -> Option<Rule> {
        let verdict = match self.advice() {
            Advice::Transient => Verdict::Transient,
            Advice::Permanent => Verdict::Permanent,
            Advice::Undecided | Advice::TooFew => return None,
        };
        self.rule_for(verdict)
    }

    /// A rule that knows it, with that verdict; none where nothing of its words is its own.
    pub fn rule_for(&self, verdict: Verdict) -> Option<Rule> {
        let pieces = pieces(&self.text);
        (!pieces.is_empty()).then(|| Rule {
            contains_all: Some(OneOf(pieces)),
            note: Some(self.said()),
            ..Rule::new(verdict, category(&self.text))
        })
    }

    /// In one sentence: what was seen, and what is suggested.
    pub fn said(&self) -> String {
        let Counts { tried, passed } = self.followed;
        let share = match self.followed.estimate() {
            Estimate::Counted { chance, .. } => {
                format!("{:.0} % of {tried} succeeded on the next attempt", chance * 100.0)
            }
            Estimate::TooFew { .. } => format!("{passed} of {tried} succeeded on the next attempt"),
        };
        match self.advice() {
            Advice::Transient => format!("{share}: suggest transient"),
            Advice::Permanent => format!("{share}: suggest permanent"),
            Advice::Undecided => format!("{share}: neither one nor the other, so it is tried again as it is"),
            Advice::TooFew => format!("{share}: too few to suggest anything, {} are needed", Counts::ENOUGH),
        }
    }

    /// Why to look twice before accepting it, where there is a reason.
    pub fn caution(&self) -> Option<String> {
        (self.advice() == Advice::Permanent).then(|| {
            let passed = match self.followed.passed {
                0 => "none of those passed so far".to_owned(),
                passed => format!("{passed} of those did pass"),
            };
            format!(
                "a permanent error ends a message at once: {passed}, but a long outage looks the same from here. \
                 Read the provider's words first, and try the rule on the dead letters"
            )
        })
    }
}

/// What of an error is the same each time: the words between what differs, as a rule looks for them.
fn pieces(text: &str) -> Vec<String> {
    let is_word = |piece: &str| piece.chars().filter(|c| c.is_alphabetic()).count() >= PIECE_MIN;
    let trimmed = |piece: &str| {
        piece.trim_matches(|c: char| c.is_whitespace() || "<>()[]{}\"':;,.=-".contains(c)).to_owned()
    };
    text.split('#').map(trimmed).filter(|piece| is_word(piece)).take(PIECES_MAX).collect()
}

/// A slug of its first words.
fn category(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
    let mut slug = words.take(CATEGORY_WORDS).collect::<Vec<_>>().join("_");
    slug.truncate(48);
    if slug.is_empty() { "learnt".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Rules;
    use crate::kind::ChannelKind;
    use crate::reply::{Refusal, Reply};
    use proptest::prelude::*;

    fn met(text: &str, tried: u64, passed: u64) -> Unmatched {
        Unmatched {
            text: text.to_owned(),
            seen: tried + 1,
            ended: tried - passed,
            followed: Counts { tried, passed },
        }
    }

    #[test] // REQ LN-1
    fn what_passes_is_transient_what_never_does_is_permanent_and_little_says_nothing() {
        for (tried, passed, advice) in [
            (312, 293, Advice::Transient),
            (20, 20, Advice::Transient),
            (20, 12, Advice::Undecided),
            (20, 0, Advice::Undecided),
            (200, 0, Advice::Permanent),
            (19, 19, Advice::TooFew),
            (0, 0, Advice::TooFew),
        ] {
            assert_eq!(met("the engine is cold", tried, passed).advice(), advice, "{passed} of {tried}");
        }
        let said = met("the engine is cold", 312, 293).said();
        assert_eq!(said, "94 % of 312 succeeded on the next attempt: suggest transient");
        assert_eq!(met("x", 312, 293).caution(), None);
        let caution = met("the engine is cold", 200, 1).caution().unwrap();
        assert!(caution.contains("1 of those did pass") && caution.contains("outage"), "{caution}");
    }

    #[test] // REQ LN-1, CF-1
    fn a_suggested_rule_knows_the_errors_that_it_was_made_of() {
        let text = "Job # of <#>: the engine is cold, ask again after # or so";
        let rule = met(text, 312, 293).rule().unwrap();
        assert_eq!((rule.verdict, rule.category.as_str()), (Verdict::Transient, "job_of_the_engine"));
        let rules = Rules::for_kind(ChannelKind::Tiss, std::slice::from_ref(&rule)).unwrap();
        let said = |text: &str| {
            Reply::Refused(Refusal { status: Some(418), text: text.to_owned(), ..Refusal::default() })
        };
        let known =
            said("Job 12345 of <ana@example.com>: THE ENGINE is cold,\n ask again after 2026-11-17 or so");
        assert_eq!(rules.classify(&known).unwrap().category, rule.category);
        assert_eq!(rules.classify(&said("the engine is warm")).unwrap().verdict, Verdict::UnknownTransient);
    }

    #[test] // REQ LN-1
    fn an_error_without_words_of_its_own_gives_no_rule() {
        for text in ["", "#", "# # ok", "12 34"] {
            assert_eq!(met(text, 312, 293).rule(), None, "{text}");
        }
    }

    proptest! {
        #[test] // REQ CF-1
        fn every_rule_that_is_suggested_can_be_used(text in "\\PC{0,200}") {
            let unmatched = met(&crate::cause::normalised(&text), 312, 293);
            if let Some(rule) = unmatched.rule() {
                prop_assert_eq!(Rules::check(&[rule]), vec![]);
            }
        }
    }
}
