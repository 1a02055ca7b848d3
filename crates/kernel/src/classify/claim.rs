//! Free text about a claim, as the retry decision service is given it.

use std::sync::OnceLock;

use regex::Regex;

use super::{Rules, Verdict, read};
use crate::kind::ChannelKind;

/// The names that claims are refused by, and those that they are broken by, anywhere in their text.
const PERMANENT: [&str; 5] = [
    "INVALID_PATIENT_DATA",
    "INSURANCE_EXPIRED",
    "AUTHORIZATION_DENIED",
    "DUPLICATE_CLAIM",
    "INVALID_PROCEDURE_CODE",
];
const TRANSIENT: [&str; 8] = [
    "TIMEOUT",
    "CONNECTION_ERROR",
    "SERVICE_UNAVAILABLE",
    "NETWORK_ERROR",
    "RATE_LIMIT",
    "SERVER_ERROR",
    "503",
    "504",
];

/// What a claim's error text means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimError {
    pub verdict: Verdict,
    /// What the decision service calls the verdict: `TRANSIENT`, `PERMANENT` or `UNKNOWN_TRANSIENT`.
    pub class: &'static str,
    /// The known name that the text holds; else the category of the rule that matched, written as those names are.
    pub name: String,
}

/// What a claim's error text means.
///
/// The known error names are looked for anywhere in the text, the permanent ones first. Only a text that has
/// none of them is searched for a denial code, and a code counts only where the text says that it is one:
/// any other four digits may be a year.
pub fn claim_error(text: &str) -> ClaimError {
    if let Some((verdict, name)) = named_error(text) {
        return ClaimError { verdict, class: class(verdict), name: name.to_owned() };
    }
    static RULES: OnceLock<Rules> = OnceLock::new();
    let rules = RULES
        .get_or_init(|| Rules::for_kind(ChannelKind::Tiss, &[]).expect("built-in rules need no extra ones"));
    let meaning = rules.classify(&read::error(ChannelKind::Tiss, text));
    let (verdict, name) = meaning
        .map_or((Verdict::UnknownTransient, String::new()), |meaning| (meaning.verdict, meaning.category));
    ClaimError { verdict, class: class(verdict), name: name.to_uppercase() }
}

/// The first known name that the text holds, and what it means.
pub(super) fn named_error(text: &str) -> Option<(Verdict, &'static str)> {
    let text = text.to_uppercase();
    let named = |names: &[&'static str]| names.iter().copied().find(|name| text.contains(name));
    let permanent = named(&PERMANENT).map(|name| (Verdict::Permanent, name));
    permanent.or_else(|| named(&TRANSIENT).map(|name| (Verdict::Transient, name)))
}

/// A fault of ours leaves the claim itself sound, so to a service that only says "again" or "never" it is
/// transient.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Transient | Verdict::SenderFault => "TRANSIENT",
        Verdict::Permanent => "PERMANENT",
        Verdict::UnknownTransient => "UNKNOWN_TRANSIENT",
    }
}

/// The code in "glosa 1308", "codigoGlosa: 1308", "<codigoGlosa>1308<", or a text of four digits alone.
pub(super) fn denial_code(text: &str) -> Option<String> {
    static CODE: OnceLock<Regex> = OnceLock::new();
    let code = CODE.get_or_init(|| {
        Regex::new(
            r"(?i)(?:^\s*|glosas?[^\w]{1,4}|glosa c[oó]d(?:igo)?[^\w]{1,4})([0-9]{4})(?:\s*$|[^0-9\w])",
        )
        .expect("a fixed expression")
    });
    let found = code.captures(text)?;
    let alone = text.trim().len() == 4;
    let named = found.get(0).is_some_and(|all| all.as_str().to_ascii_lowercase().contains("glosa"));
    (alone || named).then(|| found[1].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, class: &str) {
        assert_eq!(claim_error(text).class, class, "{text}");
    }

    #[test] // REQ CF-6
    fn the_permanent_names_are_found_anywhere_in_any_case() {
        for name in [
            "INVALID_PATIENT_DATA",
            "INSURANCE_EXPIRED",
            "AUTHORIZATION_DENIED",
            "DUPLICATE_CLAIM",
            "INVALID_PROCEDURE_CODE",
        ] {
            check(name, "PERMANENT");
            check(&format!("error: {} (see log)", name.to_lowercase()), "PERMANENT");
        }
    }

    #[test] // REQ CF-6
    fn the_transient_names_are_found_anywhere_in_any_case() {
        for name in [
            "TIMEOUT",
            "CONNECTION_ERROR",
            "SERVICE_UNAVAILABLE",
            "NETWORK_ERROR",
            "RATE_LIMIT",
            "SERVER_ERROR",
            "503",
            "504",
        ] {
            check(name, "TRANSIENT");
            check(&format!("x{}x", name.to_lowercase()), "TRANSIENT");
        }
        check("TIMEOUT - Connection timeout after 30s", "TRANSIENT");
        check("HTTP 503", "TRANSIENT");
    }

    #[test] // REQ CF-6
    fn a_permanent_name_wins_over_a_transient_one() {
        check("TIMEOUT while reporting DUPLICATE_CLAIM", "PERMANENT");
        check("503 INVALID_PATIENT_DATA", "PERMANENT");
    }

    #[test] // REQ CF-6
    fn anything_else_is_unknown_and_retried() {
        check("the dog ate it", "UNKNOWN_TRANSIENT");
        check("", "UNKNOWN_TRANSIENT");
        check("HTTP 404", "UNKNOWN_TRANSIENT");
        check("2025-01-12 something odd", "UNKNOWN_TRANSIENT");
        check("patient data invalid", "UNKNOWN_TRANSIENT");
    }

    #[test] // REQ CF-6
    fn a_denial_code_counts_where_the_text_says_that_it_is_one() {
        check("GLOSA 1308: guia ja apresentada", "PERMANENT");
        check("<ans:codigoGlosa>1017</ans:codigoGlosa>", "PERMANENT");
        check("codigoGlosa: 1412", "TRANSIENT");
        check("1801", "PERMANENT");
        check("glosa 1201", "TRANSIENT");
        check("glosa 9999", "UNKNOWN_TRANSIENT");
        check("lote 1308 recusado", "UNKNOWN_TRANSIENT");
        check("SchemaInvalido", "PERMANENT");
        check("ErroInesperadoServidor", "TRANSIENT");
    }

    proptest! {
        #[test] // REQ CF-6
        fn any_text_gets_one_of_the_three_classes(text in "\\PC*") {
            prop_assert!(["TRANSIENT", "PERMANENT", "UNKNOWN_TRANSIENT"].contains(&claim_error(&text).class));
        }
    }
}
