//! From a failure that was recorded back to the facts that rules look at, to see what they would say today.

use serde::de::{Deserialize, IntoDeserializer, value};

use super::read;
use crate::message::AttemptFailure;
use crate::reply::{Fault, FaultKind, Refusal, Reply};

/// The reply that a failure was recorded of, as far as it can be told: its code and its words. Where in the dialogue it
/// came is not recorded, and persons are hidden in the words.
pub fn recorded(failure: &AttemptFailure) -> Reply {
    let (code, text) = (failure.code.as_deref().unwrap_or_default(), failure.text.clone());
    if let Some(kind) = fault(code) {
        return Reply::Unreachable(Fault { kind, text });
    }
    let mut refusal = Refusal { text, perhaps_sent: failure.perhaps_sent, ..Refusal::default() };
    let mut rest = code;
    if let Some((status, after)) = head(rest, |word| word.parse::<u16>().ok()) {
        (refusal.status, rest) = (Some(status), after);
    }
    if let Some((enhanced, after)) = head(rest, read::enhanced) {
        (refusal.enhanced, rest) = (Some(enhanced), after);
    }
    refusal.name = Some(rest.to_owned()).filter(|name| !name.is_empty());
    Reply::Refused(refusal)
}

/// The first word, if it can be read, and what comes after it.
fn head<T>(text: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<(T, &str)> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some((read(word)?, rest))
}

fn fault(code: &str) -> Option<FaultKind> {
    let word: value::StrDeserializer<'_, value::Error> = code.into_deserializer();
    FaultKind::deserialize(word).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Verdict;
    use crate::reply::Enhanced;

    fn check(reply: &Reply) {
        let code = read::code(reply);
        let text = match reply {
            Reply::Refused(refusal) => refusal.text.clone(),
            Reply::Unreachable(fault) | Reply::Doubtful(fault) => fault.text.clone(),
            Reply::Accepted(_) => String::new(),
        };
        let failure = AttemptFailure {
            verdict: Verdict::Transient,
            category: "x".into(),
            code,
            text,
            perhaps_sent: false,
            rule: None,
        };
        assert_eq!(recorded(&failure), *reply);
    }

    #[test] // REQ CF-1
    fn what_was_recorded_can_be_judged_again() {
        let plain = Refusal { text: "no".into(), ..Refusal::default() };
        let enhanced = Some(Enhanced { class: 5, subject: 1, detail: 1 });
        check(&Reply::Refused(plain.clone()));
        check(&Reply::Refused(Refusal { status: Some(503), ..plain.clone() }));
        check(&Reply::Refused(Refusal { status: Some(550), enhanced, ..plain.clone() }));
        check(&Reply::Refused(Refusal { enhanced, ..plain.clone() }));
        let name = Some("rate limit exceeded".to_owned());
        check(&Reply::Refused(Refusal { status: Some(429), name: name.clone(), ..plain.clone() }));
        check(&Reply::Refused(Refusal { name, ..plain }));
        check(&Reply::Unreachable(Fault { kind: FaultKind::DnsNotFound, text: "no such name".into() }));
    }
}
