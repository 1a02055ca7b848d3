//! Why something was decided, in the reader's language.
//!
//! The engine writes one sentence for each attempt when it decides. This reads what stands in it, so that it can be said
//! in another language; a sentence that it does not know is shown as it was written.

use pombo_kernel::time::{Span, Time};
use pombo_kernel::window::Zone;

use super::words::Lang;

/// What was decided after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Why {
    Accepted {
        note: Option<String>,
    },
    /// A refusal showed that an earlier attempt had come through.
    ThereAlready,
    Retry {
        wait: Span,
        because: Wait,
    },
    Permanent,
    UsedUp {
        attempts: u16,
        policy: String,
    },
    /// The next try would come too late.
    TooLate(Option<Time>),
    Doubt,
    Crashes(u16),
    OurFault,
    StillDown,
    Other(String),
}

/// What a wait goes by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wait {
    Policy {
        name: String,
        nominal: Span,
        swing: Option<String>,
        advice: Advice,
    },
    /// Chosen by what was learned: how likely to pass by how many retries, and what the policy would have waited.
    Learned {
        likely: String,
        tried: String,
        policy: String,
        own: Span,
    },
    Asked,
    Rule,
}

/// What an adaptive policy says besides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Advice {
    None,
    /// So few retries are on record.
    TooFew(String),
    /// What it would have waited, and why.
    Instead {
        wait: Span,
        likely: String,
        tried: String,
    },
}

/// Reads the engine's sentence.
pub(crate) fn read(explanation: &str) -> Why {
    let end = |words: &str| explanation.ends_with(words);
    if let Some(said) = explanation.strip_prefix("attempt ") {
        if said.ends_with(" was accepted") {
            return Why::Accepted { note: None };
        }
        if let Some((_, note)) = said.split_once(" was accepted: ") {
            return Why::Accepted { note: Some(note.to_owned()) };
        }
    }
    let known = match () {
        () if end("so it counts as accepted") => Some(Why::ThereAlready),
        () if end("the fault is ours") || explanation.contains(": the fault is ours (") => {
            Some(Why::OurFault)
        }
        () if explanation.contains(": the destination is still down, so the message waits") => {
            Some(Why::StillDown)
        }
        () if end("will not pass by trying again") => Some(Why::Permanent),
        () if end("the channel holds such messages for an operator") => Some(Why::Doubt),
        () if end("its deadline has passed") => Some(Why::TooLate(None)),
        () => None,
    };
    let why = explanation.rsplit_once("; ").map_or(explanation, |(_, why)| why);
    known
        .or_else(|| retry(why))
        .or_else(|| used_up(why))
        .or_else(|| {
            let deadline = why.strip_prefix("the next try would fall after its deadline, ")?;
            Some(Why::TooLate(deadline.parse().ok()))
        })
        .or_else(|| {
            let times = why.strip_prefix("the process stopped ")?.split(' ').next()?;
            Some(Why::Crashes(times.parse().ok()?))
        })
        .unwrap_or_else(|| Why::Other(explanation.to_owned()))
}

fn retry(why: &str) -> Option<Why> {
    let (wait, because) = why.strip_prefix("next try in ")?.split_once(": ")?;
    let because = match because {
        "the provider asked for that wait" => Wait::Asked,
        "this error calls for that wait" => Wait::Rule,
        learned if learned.starts_with("adaptive, ") => {
            let (chance, own) = learned.strip_prefix("adaptive, ")?.split_once(", where policy ")?;
            let (likely, tried) = chances(chance)?;
            let (policy, own) = own.split_once(" would have waited ")?;
            Wait::Learned { likely, tried, policy: policy.to_owned(), own: own.parse().ok()? }
        }
        policy => {
            let (policy, advice) = advised(policy)?;
            let (name, rest) = policy.strip_prefix("policy ")?.split_once(", ")?;
            let (nominal, swing) = match rest.split_once(" with jitter ") {
                Some((nominal, swing)) => (nominal, Some(swing.trim_end_matches(" %").to_owned())),
                None => (rest, None),
            };
            Wait::Policy { name: name.to_owned(), nominal: nominal.parse().ok()?, swing, advice }
        }
    };
    Some(Why::Retry { wait: wait.parse().ok()?, because })
}

/// A policy's own reason, and what is said besides.
fn advised(reason: &str) -> Option<(&str, Advice)> {
    if let Some((own, few)) = reason.split_once(", since ") {
        let tried = few.strip_suffix(" retries on record are too few to adapt it")?;
        return Some((own, Advice::TooFew(tried.to_owned())));
    }
    let Some((own, instead)) = reason.split_once(", where adaptive would have waited ") else {
        return Some((reason, Advice::None));
    };
    let (wait, chance) = instead.strip_suffix(')')?.split_once(" (")?;
    let (likely, tried) = chances(chance)?;
    Some((own, Advice::Instead { wait: wait.parse().ok()?, likely, tried }))
}

/// `71 % likely to pass going by 312 retries`.
fn chances(text: &str) -> Option<(String, String)> {
    let (likely, tried) = text.strip_suffix(" retries")?.split_once(" % likely to pass going by ")?;
    Some((likely.to_owned(), tried.to_owned()))
}

fn used_up(why: &str) -> Option<Why> {
    let (attempts, rest) = why.strip_prefix("that was attempt ")?.split_once(" of ")?;
    let policy = rest.split_once("(policy ")?.1.strip_suffix(')')?;
    Some(Why::UsedUp { attempts: attempts.parse().ok()?, policy: policy.to_owned() })
}

impl Why {
    /// A sentence, without its full stop.
    pub(crate) fn said(&self, lang: Lang, zone: &Zone) -> String {
        match self {
            Why::Accepted { note: None } => lang.say("The provider accepted it", "O provedor aceitou").to_owned(),
            Why::Accepted { note: Some(note) } => lang.say(format!("The provider accepted it: {note}"), format!("O provedor aceitou: {note}")),
            Why::ThereAlready => lang.say(
                "The provider has it already from an earlier attempt whose outcome was unknown, so it counts as accepted",
                "O provedor já a tem de uma tentativa anterior cujo desfecho era desconhecido, então conta como aceita",
            ).to_owned(),
            Why::Retry { wait, because } => {
                let next = lang.span(*wait);
                let why = because.said(lang);
                lang.say(format!("Next try in {next}: {why}"), format!("Próxima tentativa em {next}: {why}"))
            }
            Why::Permanent => lang.say("Trying again would not help, so it is now a dead letter", "Tentar de novo não adiantaria, então virou mensagem morta").to_owned(),
            Why::UsedUp { attempts, policy } => lang.say(
                format!("That was the last of {attempts} attempts that policy {policy} allows, so it is now a dead letter"),
                format!("Foi a última das {attempts} tentativas que a política {policy} permite, então virou mensagem morta"),
            ),
            Why::TooLate(None) => lang.say("Its deadline has passed", "O prazo dela passou").to_owned(),
            Why::TooLate(Some(deadline)) => {
                let at = lang.moment(*deadline, zone);
                lang.say(format!("The next try would come after its deadline, {at}"), format!("A próxima tentativa viria depois do prazo, {at}"))
            }
            Why::Doubt => lang.say(
                "Nobody knows whether it went out, and this channel leaves such messages to a person",
                "Ninguém sabe se ela saiu, e este canal deixa mensagens assim para uma pessoa decidir",
            ).to_owned(),
            Why::Crashes(times) => lang.say(
                format!("The process stopped {times} times in a row while sending it, so it is set aside"),
                format!("O processo parou {times} vezes seguidas ao enviá-la, então foi posta de lado"),
            ),
            Why::OurFault => lang.say("The fault is ours, so the message waits and this attempt does not count", "A falha é nossa, então a mensagem espera e esta tentativa não conta").to_owned(),
            Why::StillDown => lang.say("The destination is still down, so the message waits and this attempt does not count", "O destino ainda está fora do ar, então a mensagem espera e esta tentativa não conta").to_owned(),
            Why::Other(text) => text.clone(),
        }
    }
}

impl Wait {
    fn said(&self, lang: Lang) -> String {
        match self {
            Wait::Asked => {
                lang.say("the provider asked for that wait", "o provedor pediu essa espera").to_owned()
            }
            Wait::Rule => lang.say("this error calls for that wait", "este erro pede essa espera").to_owned(),
            Wait::Learned { likely, tried, policy, own } => {
                let own = lang.span(*own);
                lang.say(
                    format!("learned from {tried} retries, {likely}% likely to pass; policy {policy} would have waited {own}"),
                    format!("aprendido de {tried} novas tentativas, {likely}% de chance de passar; a política {policy} teria esperado {own}"),
                )
            }
            Wait::Policy { name, nominal, swing, advice } => {
                let nominal = lang.span(*nominal);
                let swing = swing.as_ref().map(|swing| {
                    lang.say(format!(" with jitter {swing}%"), format!(" com variação de {swing}%"))
                });
                let swing = swing.unwrap_or_default();
                let advice = advice.said(lang);
                lang.say(
                    format!("policy {name}, {nominal}{swing}{advice}"),
                    format!("política {name}, {nominal}{swing}{advice}"),
                )
            }
        }
    }
}

impl Advice {
    /// After the policy's own reason.
    fn said(&self, lang: Lang) -> String {
        match self {
            Advice::None => String::new(),
            Advice::TooFew(tried) => lang.say(
                format!("; {tried} retries on record are too few to learn from"),
                format!("; {tried} novas tentativas registradas são poucas para aprender"),
            ),
            Advice::Instead { wait, likely, tried } => {
                let wait = lang.span(*wait);
                lang.say(
                    format!("; learned from {tried} retries, {wait} would have been better, {likely}% likely to pass"),
                    format!("; aprendido de {tried} novas tentativas, {wait} teria sido melhor, {likely}% de chance de passar"),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pombo_kernel::adapt::{Adaptive, Fit, Past};
    use pombo_kernel::block::{BlockKind, Probe};
    use pombo_kernel::classify::{Meaning, Scope, Verdict};
    use pombo_kernel::dice::Dice;
    use pombo_kernel::learn::{Cell, Counts};
    use pombo_kernel::lifecycle::{Case, Certainty, Failure, Heard, OnUnknownOutcome, Outcome, settle};
    use pombo_kernel::message::Progress;
    use pombo_kernel::policy::{Policy, Profile};
    use pombo_kernel::reply::Receipt;

    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn failure(verdict: Verdict) -> Failure {
        Failure {
            meaning: Meaning {
                verdict,
                category: "rate_limited".into(),
                destination_fault: false,
                suppress: false,
                already_there: false,
                scope: Scope::Destination,
                wait: None,
                rule: None,
            },
            hint: None,
            certainty: Certainty::NotSent,
            heard: Heard::Provider,
            summary: "429; try later: please".into(),
        }
    }

    /// What the engine itself says of that.
    fn decided(attempts: u16, outcome: Outcome, change: impl Fn(&mut Case<'_>)) -> Why {
        let policy = Policy::built_in("smtp", Profile::Production).unwrap();
        let mut case = Case {
            progress: Progress { attempts, ..Progress::default() },
            expires_at: None,
            policy: &policy,
            on_unknown: OnUnknownOutcome::Resend,
            probe: None,
            health: Scope::Destination,
            past: Past::default(),
        };
        change(&mut case);
        read(&settle(case, outcome, NOW, &mut Dice::seeded(1)).explanation)
    }

    fn failed(attempts: u16, verdict: Verdict) -> Why {
        decided(attempts, Outcome::Failed(failure(verdict)), |_| {})
    }

    #[test] // REQ LN-1
    fn what_was_learned_is_understood_too() {
        let cell = |secs| Cell::of(2, Span::from_secs(secs), Span::from_secs(secs));
        let rows = [(1, 100, 1), (240, 212, 200)];
        let fit = Fit::of(
            &rows.map(|(secs, tried, passed)| (cell(secs), Counts { tried, passed })).into_iter().collect(),
        );
        let said = |adaptive, fit| {
            let policy = Policy { adaptive, ..Policy::built_in("smtp", Profile::Production).unwrap() };
            let case = Case {
                progress: Progress::default(),
                expires_at: None,
                policy: &policy,
                on_unknown: OnUnknownOutcome::Resend,
                probe: None,
                health: Scope::Destination,
                past: Past { failing_since: None, fit },
            };
            let outcome = Outcome::Failed(failure(Verdict::Transient));
            match read(&settle(case, outcome, NOW, &mut Dice::seeded(1)).explanation) {
                Why::Retry { because, .. } => because,
                other => panic!("{other:?}"),
            }
        };
        let learned = said(Adaptive::On, Some(&fit));
        assert!(
            matches!(&learned, Wait::Learned { tried, policy, .. } if tried == "312" && policy == "smtp"),
            "{learned:?}"
        );
        let portuguese = learned.said(Lang::Pt);
        assert!(portuguese.starts_with("aprendido de 312 novas tentativas"), "{portuguese}");
        let advised = said(Adaptive::Advice, Some(&fit));
        assert!(
            matches!(&advised, Wait::Policy { advice: Advice::Instead { tried, .. }, .. } if tried == "312"),
            "{advised:?}"
        );
        let few = said(Adaptive::On, None);
        assert!(
            matches!(&few, Wait::Policy { advice: Advice::TooFew(tried), .. } if tried == "0"),
            "{few:?}"
        );
    }

    #[test] // REQ OB-1
    fn every_sentence_of_the_engine_is_understood() {
        assert_eq!(decided(0, Outcome::Sent(Receipt::default()), |_| {}), Why::Accepted { note: None });
        let noted = Receipt { note: Some("queued as 1".into()), ..Receipt::default() };
        assert_eq!(
            decided(0, Outcome::Sent(noted), |_| {}),
            Why::Accepted { note: Some("queued as 1".into()) }
        );
        let Why::Retry { because: Wait::Policy { name, nominal, .. }, .. } = failed(0, Verdict::Transient)
        else {
            panic!()
        };
        assert_eq!((name.as_str(), nominal), ("smtp", Span::from_secs(1)));
        assert_eq!(failed(4, Verdict::Transient), Why::UsedUp { attempts: 5, policy: "smtp".into() });
        assert_eq!(failed(0, Verdict::Permanent), Why::Permanent);
        assert_eq!(failed(0, Verdict::SenderFault), Why::OurFault);
        let hinted = Failure { hint: Some(Span::from_secs(77)), ..failure(Verdict::Transient) };
        assert_eq!(
            decided(0, Outcome::Failed(hinted), |_| {}),
            Why::Retry { wait: Span::from_secs(77), because: Wait::Asked }
        );
        let mut ruled = failure(Verdict::Transient);
        ruled.meaning.wait = Some(Span::from_mins(5));
        assert!(matches!(decided(0, Outcome::Failed(ruled), |_| {}), Why::Retry { because: Wait::Rule, .. }));
        let doubt =
            || Outcome::Failed(Failure { certainty: Certainty::PerhapsSent, ..failure(Verdict::Transient) });
        assert_eq!(decided(0, doubt(), |case| case.on_unknown = OnUnknownOutcome::Hold), Why::Doubt);
        let crashed =
            Outcome::Failed(Failure { certainty: Certainty::Interrupted, ..failure(Verdict::Transient) });
        assert_eq!(decided(2, crashed, |case| case.progress.crashes = 2), Why::Crashes(3));
        let late =
            decided(0, Outcome::Failed(failure(Verdict::Transient)), |case| case.expires_at = Some(NOW));
        assert_eq!(late, Why::TooLate(Some(NOW)));
        let late =
            decided(0, Outcome::Failed(failure(Verdict::SenderFault)), |case| case.expires_at = Some(NOW));
        assert_eq!(late, Why::TooLate(None));
        let mut down = failure(Verdict::Transient);
        down.meaning.destination_fault = true;
        let probing = |case: &mut Case<'_>| {
            case.probe = Some(Probe { kind: BlockKind::Breaker, failed: 0, since: NOW });
        };
        assert_eq!(decided(0, Outcome::Failed(down), probing), Why::StillDown);
        let mut there = failure(Verdict::Permanent);
        there.meaning.already_there = true;
        assert_eq!(
            decided(1, Outcome::Failed(there), |case| case.progress.doubtful = true),
            Why::ThereAlready
        );
    }

    #[test]
    fn a_retry_is_explained_in_either_language() {
        let why = read(
            "attempt 2 failed: 421 4.7.28 too fast; next try in 2s240ms: policy smtp, 2s with jitter +12 %",
        );
        let zone = Zone::default();
        assert_eq!(why.said(Lang::En, &zone), "Next try in 2.2 s: policy smtp, 2 s with jitter +12%");
        assert_eq!(
            why.said(Lang::Pt, &zone),
            "Próxima tentativa em 2,2 s: política smtp, 2 s com variação de +12%"
        );
    }

    #[test]
    fn a_sentence_that_is_not_known_is_shown_as_it_was_written() {
        assert_eq!(read("own words; of a newer engine"), Why::Other("own words; of a newer engine".into()));
    }
}
