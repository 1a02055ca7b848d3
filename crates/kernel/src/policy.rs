//! When to try again and when to stop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapt::Adaptive;
use crate::name::PolicyName;
use crate::time::Span;

/// A retry policy with every value settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub name: PolicyName,
    /// Attempts in a round, the first one included.
    pub attempts: u16,
    pub delays: Delays,
    /// No delay is shorter.
    pub floor: Span,
    /// No delay of ours is longer; a provider's hint may be.
    pub cap: Span,
    /// The share by which a delay swings to either side: 0.25 is ±25 %.
    pub jitter: f64,
    /// The longest wait that a provider may ask of us.
    pub max_hint: Span,
    /// How long after acceptance a message is given up, unless it says otherwise.
    pub expires_after: Option<Span>,
    /// Whether waits go by what was learned, inside the bounds above.
    pub adaptive: Adaptive,
}

/// The delays before each retry.
#[derive(Clone, Debug, PartialEq)]
pub enum Delays {
    /// These, in order; the last one repeats.
    Listed(Vec<Span>),
    /// `base` doubled with each retry.
    Doubling { base: Span },
}

/// Which set of built-in values applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    Development,
    #[default]
    Production,
}

/// Changes to a policy. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// Attempts in all, the first one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u16>,
    /// The delay before each retry, in order; the last one repeats. Instead of `base`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<Vec<Span>>,
    /// The first delay, doubled with each retry. Instead of `delays`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Span>,
    /// No delay is shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Span>,
    /// No delay of ours is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Span>,
    /// How far a delay swings to either side: 0.25 is ±25 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// The longest wait that a provider may ask of us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_hint: Option<Span>,
    /// Given up if still unsent after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
    /// Whether waits go by what was learned: true, false or "advice".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<Adaptive>,
}

/// A value of a policy that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadPolicy {
    pub field: &'static str,
    pub problem: String,
}

const DAY: Span = Span::from_hours(24);

impl Policy {
    /// The names of the policies that are built in.
    pub const BUILT_IN: [&'static str; 6] = ["whatsapp", "smtp", "resend", "claims", "webhook", "events"];

    /// The policy of that name as it comes, if there is one.
    pub fn built_in(name: &str, profile: Profile) -> Option<Policy> {
        let listed = |delays: &[Span], cap: Span| Policy {
            name: name.parse().expect("built-in names are valid"),
            attempts: u16::try_from(delays.len() + 1).expect("built-in lists are short"),
            delays: Delays::Listed(delays.to_vec()),
            floor: Span::ZERO,
            cap,
            jitter: 0.0,
            max_hint: DAY,
            expires_after: None,
            adaptive: Adaptive::Off,
        };
        let doubling = |attempts, base, floor, cap, jitter| Policy {
            name: name.parse().expect("built-in names are valid"),
            attempts,
            delays: Delays::Doubling { base },
            floor,
            cap,
            jitter,
            max_hint: DAY,
            expires_after: None,
            adaptive: Adaptive::Off,
        };
        let secs = Span::from_secs;
        let mins = Span::from_mins;
        Some(match (name, profile) {
            ("whatsapp", _) => listed(&[secs(5), secs(30), mins(5)], mins(5)),
            ("smtp", Profile::Production) => doubling(5, secs(1), Span::ZERO, secs(300), 0.25),
            ("smtp", Profile::Development) => doubling(3, Span::from_millis(500), Span::ZERO, secs(30), 0.25),
            ("resend", _) => listed(&[mins(1), mins(5), mins(15)], mins(15)),
            ("claims", _) => Policy {
                expires_after: Some(Span::from_hours(48)),
                ..doubling(6, mins(5), mins(5), mins(240), 0.2)
            },
            // The schedule that the Standard Webhooks specification suggests, within a day and a half.
            ("webhook", Profile::Production) => Policy {
                jitter: 0.1,
                ..listed(&[secs(5), mins(5), mins(30), mins(120), mins(300), mins(600), mins(840)], mins(840))
            },
            // The same schedule to its end: whoever missed events for three days can still get them.
            ("events", Profile::Production) => Policy {
                jitter: 0.1,
                ..listed(
                    &[
                        secs(5),
                        mins(5),
                        mins(30),
                        mins(120),
                        mins(300),
                        mins(600),
                        mins(840),
                        mins(1_200),
                        mins(1_440),
                    ],
                    mins(1_440),
                )
            },
            ("webhook" | "events", Profile::Development) => doubling(4, secs(1), Span::ZERO, secs(30), 0.25),
            _ => return None,
        })
    }

    /// The policy of claims as it comes.
    pub fn claims() -> Policy {
        Policy::built_in("claims", Profile::Production).expect("it is built in")
    }

    /// This policy with some values changed.
    pub fn with(&self, changes: &Overrides) -> Policy {
        let mut policy = self.clone();
        if let Some(delays) = &changes.delays {
            policy.attempts = u16::try_from(delays.len() + 1).unwrap_or(u16::MAX);
            policy.cap = policy.cap.max(delays.iter().copied().max().unwrap_or_default());
            policy.delays = Delays::Listed(delays.clone());
        }
        if let Some(base) = changes.base {
            policy.delays = Delays::Doubling { base };
        }
        policy.attempts = changes.attempts.unwrap_or(policy.attempts);
        policy.floor = changes.floor.unwrap_or(policy.floor);
        policy.cap = changes.cap.unwrap_or(policy.cap);
        policy.jitter = changes.jitter.unwrap_or(policy.jitter);
        policy.max_hint = changes.max_hint.unwrap_or(policy.max_hint);
        policy.expires_after = changes.expires_after.or(policy.expires_after);
        policy.adaptive = changes.adaptive.unwrap_or(policy.adaptive);
        policy
    }

    /// Everything that is wrong with it; nothing if it can be used.
    pub fn problems(&self) -> Vec<BadPolicy> {
        let mut found = Vec::new();
        let mut say = |wrong: bool, field, problem: &str| {
            if wrong {
                found.push(BadPolicy { field, problem: problem.to_owned() });
            }
        };
        say(self.attempts == 0, "attempts", "at least 1: the first try counts");
        say(self.attempts > 1_000, "attempts", "at most 1000");
        say(!(0.0..=1.0).contains(&self.jitter), "jitter", "a share from 0 to 1; ±25 % is 0.25");
        say(self.floor > self.cap, "floor", "not above `cap`");
        match &self.delays {
            Delays::Listed(list) => {
                say(list.is_empty() && self.attempts > 1, "delays", "at least one, for example [\"5s\"]");
                say(list.len() > 1_000, "delays", "at most 1000");
                say(list.iter().any(|delay| *delay > self.cap), "delays", "none above `cap`");
            }
            Delays::Doubling { base } => {
                say(*base == Span::ZERO, "base", "more than nothing, for example \"1s\"");
                say(*base > self.cap, "base", "not above `cap`");
            }
        }
        if self.name.as_str() == "claims" {
            say(
                self.longest() > DAY,
                "attempts",
                "a claim's whole schedule must fit in 24 h, so that the 48 h deadline leaves time to act",
            );
        }
        found
    }

    /// What a message asks for beyond this policy's bounds; nothing if it may have it.
    ///
    /// A message may be more modest than its channel (fewer attempts, other delays between the shortest and
    /// the longest one), never more demanding.
    pub fn refuses(&self, asked: &Overrides) -> Vec<BadPolicy> {
        let wanted = self.with(asked);
        let mut found = wanted.problems();
        let mut say = |wrong: bool, field, problem: String| {
            if wrong {
                found.push(BadPolicy { field, problem });
            }
        };
        say(
            wanted.attempts > self.attempts,
            "attempts",
            format!("at most {}, the channel's own", self.attempts),
        );
        say(wanted.cap > self.cap, "cap", format!("at most {}, the channel's own", self.cap));
        let shortest = self.shortest();
        say(wanted.shortest() < shortest, "delays", format!("none under {shortest}, the channel's shortest"));
        say(wanted.max_hint > self.max_hint, "max_hint", format!("at most {}", self.max_hint));
        if let (Some(wanted), Some(own)) = (asked.expires_after, self.expires_after) {
            say(wanted > own, "expires_after", format!("at most {own}, the channel's own"));
        }
        say(
            wanted.adaptive == Adaptive::On && self.adaptive != Adaptive::On,
            "adaptive",
            "only where the channel's own waits are".to_owned(),
        );
        found
    }

    /// The shortest delay that can come before a retry.
    pub fn shortest(&self) -> Span {
        let retries = 0..self.attempts.saturating_sub(1).max(1);
        retries.map(|n| crate::backoff::bounds(self, n).0).min().unwrap_or_default()
    }

    /// The policy in one line, as it is kept with each decision.
    pub fn describe(&self) -> String {
        let delays = match &self.delays {
            Delays::Listed(list) => list.iter().map(Span::to_string).collect::<Vec<_>>().join(", "),
            Delays::Doubling { base } => format!("{base} doubling"),
        };
        let jitter = self.jitter * 100.0;
        let adaptive = match self.adaptive {
            Adaptive::Off => "",
            Adaptive::Advice => "; adaptive advice",
            Adaptive::On => "; adaptive",
        };
        format!(
            "{}: {} attempts; {delays}; from {} to {}; jitter {jitter} %; hints up to {}{adaptive}",
            self.name, self.attempts, self.floor, self.cap, self.max_hint
        )
    }

    /// All the waits of one round at their longest.
    pub fn longest(&self) -> Span {
        if self.adaptive == Adaptive::On {
            let (_, most) = crate::adapt::bounds(self);
            return (1..self.attempts).map(|_| most).sum();
        }
        (0..self.attempts.saturating_sub(1)).map(|n| crate::backoff::bounds(self, n).1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in(name: &str) -> Policy {
        Policy::built_in(name, Profile::Production).unwrap()
    }

    fn fields(problems: &[BadPolicy]) -> Vec<&str> {
        problems.iter().map(|problem| problem.field).collect()
    }

    #[test] // REQ RP-5
    fn every_built_in_policy_is_valid_in_both_profiles() {
        for name in Policy::BUILT_IN {
            for profile in [Profile::Development, Profile::Production] {
                let policy = Policy::built_in(name, profile).unwrap();
                assert_eq!((policy.name.as_str(), policy.problems()), (name, vec![]));
            }
        }
        assert_eq!(Policy::built_in("carrier-pigeon", Profile::Production), None);
    }

    #[test] // REQ RP-5
    fn every_value_can_be_changed() {
        let changes = Overrides {
            attempts: Some(9),
            base: Some(Span::from_secs(2)),
            floor: Some(Span::from_secs(1)),
            cap: Some(Span::from_mins(1)),
            jitter: Some(0.5),
            max_hint: Some(Span::from_hours(1)),
            expires_after: Some(Span::from_hours(2)),
            adaptive: Some(Adaptive::Advice),
            delays: None,
        };
        let policy = built_in("whatsapp").with(&changes);
        assert_eq!(policy.adaptive, Adaptive::Advice);
        assert_eq!(policy.delays, Delays::Doubling { base: Span::from_secs(2) });
        assert_eq!((policy.attempts, policy.floor, policy.cap), (9, Span::from_secs(1), Span::from_mins(1)));
        assert_eq!((policy.jitter, policy.max_hint), (0.5, Span::from_hours(1)));
        assert_eq!((policy.expires_after, policy.problems()), (Some(Span::from_hours(2)), vec![]));
    }

    #[test] // REQ RP-5
    fn a_list_of_delays_says_how_many_attempts_there_are() {
        let listed =
            Overrides { delays: Some(vec![Span::from_secs(1), Span::from_hours(1)]), ..Overrides::default() };
        let policy = built_in("smtp").with(&listed);
        assert_eq!((policy.attempts, policy.problems()), (3, vec![]));
    }

    #[test]
    fn every_impossible_value_is_named() {
        let check = |changes: Overrides, field: &str| {
            let problems = built_in("smtp").with(&changes).problems();
            assert_eq!(fields(&problems), [field], "{changes:?}");
        };
        check(Overrides { attempts: Some(0), ..Overrides::default() }, "attempts");
        check(Overrides { attempts: Some(1_001), ..Overrides::default() }, "attempts");
        check(Overrides { jitter: Some(1.5), ..Overrides::default() }, "jitter");
        check(Overrides { jitter: Some(f64::NAN), ..Overrides::default() }, "jitter");
        check(Overrides { floor: Some(Span::from_hours(1)), ..Overrides::default() }, "floor");
        check(Overrides { base: Some(Span::ZERO), ..Overrides::default() }, "base");
        check(Overrides { base: Some(Span::from_hours(1)), ..Overrides::default() }, "base");
        let empty = Overrides { delays: Some(vec![]), attempts: Some(2), ..Overrides::default() };
        check(empty, "delays");
    }

    #[test] // REQ section 3: the effective policy is stored with each decision
    fn a_policy_says_all_of_itself_in_one_line() {
        assert_eq!(
            built_in("smtp").describe(),
            "smtp: 5 attempts; 1s doubling; from 0s to 5m; jitter 25 %; hints up to 1d"
        );
        assert_eq!(
            built_in("whatsapp").describe(),
            "whatsapp: 4 attempts; 5s, 30s, 5m; from 0s to 5m; jitter 0 %; hints up to 1d"
        );
    }

    #[test] // REQ RP-6
    fn a_claims_schedule_that_cannot_fit_in_a_day_is_refused() {
        let long = built_in("claims").with(&Overrides { attempts: Some(20), ..Overrides::default() });
        assert_eq!(fields(&long.problems()), ["attempts"]);
        assert_eq!(built_in("claims").expires_after, Some(Span::from_hours(48)));
    }

    #[test] // REQ RP-6, LN-1
    fn a_claims_schedule_that_adapts_must_fit_at_its_longest() {
        let adaptive = |attempts| Overrides {
            adaptive: Some(Adaptive::On),
            attempts: Some(attempts),
            ..Overrides::default()
        };
        let claims = built_in("claims");
        assert_eq!(claims.with(&adaptive(6)).longest(), Span::from_hours(20));
        assert_eq!(claims.with(&adaptive(6)).problems(), []);
        assert_eq!(fields(&claims.with(&adaptive(8)).problems()), ["attempts"]);
    }

    #[test] // REQ RP-5
    fn a_message_may_ask_for_less_than_its_channel_and_not_for_more() {
        let channel = built_in("smtp");
        let allowed =
            Overrides { attempts: Some(2), base: Some(Span::from_secs(30)), ..Overrides::default() };
        assert_eq!(channel.refuses(&allowed), []);
        let check = |asked: Overrides, field: &str| {
            assert_eq!(fields(&channel.refuses(&asked)), [field], "{asked:?}");
        };
        check(Overrides { attempts: Some(6), ..Overrides::default() }, "attempts");
        check(Overrides { cap: Some(Span::from_hours(1)), ..Overrides::default() }, "cap");
        check(Overrides { base: Some(Span::from_millis(1)), ..Overrides::default() }, "delays");
        check(Overrides { jitter: Some(1.0), ..Overrides::default() }, "delays");
        check(Overrides { max_hint: Some(Span::from_hours(25)), ..Overrides::default() }, "max_hint");
        check(Overrides { adaptive: Some(Adaptive::On), ..Overrides::default() }, "adaptive");
        let late = Overrides { expires_after: Some(Span::from_hours(49)), ..Overrides::default() };
        assert_eq!(fields(&built_in("claims").refuses(&late)), ["expires_after"]);
    }
}
