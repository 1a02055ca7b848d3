//! Takes persons out of words from outside, before they are stored, logged or shown; and hides persons from those who
//! are not to see them.
//!
//! What a provider says may repeat whom a message was for. An error stays readable without that: the domain of an
//! address and the last digits of a number are kept. Stars stand for what is gone for good, dots for what is there and
//! hidden from whoever reads it.

mod own;
mod reader;

pub use self::own::about;
pub use self::reader::{HIDDEN, MaskedRole, is_hidden, recipient, shape, shapes};

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Stands for what was taken out.
const GONE: &str = "***";

static PERSONS: LazyLock<Regex> = LazyLock::new(|| {
    let address = r"(?P<local>[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]+)@(?P<domain>[\p{L}\p{N}](?:[\p{L}\p{N}.-]*[\p{L}\p{N}])?)";
    let cpf = r"\b\d{3}\.\d{3}\.\d{3}-\d{2}\b";
    let phone = r"(?:\+?55[ .-]?)?\(?\b\d{2}\)?[ .-]?9?\d{4}[ .-]\d{4}\b";
    let digits = r"\+?\b\d{10,15}\b";
    Regex::new(&format!("{address}|{cpf}|{phone}|{digits}")).expect("a fixed pattern")
});

/// The same words without addresses, phone numbers and CPFs.
pub fn personal(text: &str) -> Cow<'_, str> {
    PERSONS.replace_all(text, |found: &Captures<'_>| match (found.name("local"), found.name("domain")) {
        (Some(local), Some(domain)) => {
            let first = local.as_str().chars().next().unwrap_or('*');
            format!("{first}{GONE}@{}", domain.as_str())
        }
        _ => {
            let digits: Vec<char> = found[0].chars().filter(char::is_ascii_digit).collect();
            let last: String = digits[digits.len().saturating_sub(2)..].iter().collect();
            format!("{GONE}{last}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test] // REQ AU-3
    fn persons_are_taken_out_and_the_rest_stays() {
        for (text, masked) in [
            (
                "550 5.1.1 <ana.souza@clinic.example>: user unknown",
                "550 5.1.1 <a***@clinic.example>: user unknown",
            ),
            (
                r#"{"jid":"5511987654321@s.whatsapp.net","exists":false}"#,
                r#"{"jid":"5***@s.whatsapp.net","exists":false}"#,
            ),
            (r#"{"number":"5511987654321"}"#, r#"{"number":"***21"}"#),
            ("call +55 (11) 98765-4321 now", "call ***21 now"),
            ("call (11) 3456-7890", "call ***90"),
            ("cpf 123.456.789-09 unknown", "cpf ***09 unknown"),
            ("cpf 12345678909", "cpf ***09"),
        ] {
            assert_eq!(personal(text), masked, "{text}");
        }
    }

    #[test]
    fn codes_addresses_of_machines_and_times_are_left_alone() {
        for text in [
            "421 4.7.0 try again later [203.0.113.45] 2026-11-16 01:33:07",
            "code 131026, guide 1308, protocol 123456789",
            "client host [2001:db8::1] blocked using zen.spamhaus.org",
            "rate limit: 10 per 1 s; id 3f2b8c1e-7a6d-4c1b-9e0f-1a2b3c4d5e6f",
        ] {
            assert_eq!(personal(text), text);
        }
    }

    proptest! {
        #[test]
        fn no_address_and_no_number_gets_through(
            before in "[ -~]{0,20}", local in "[a-z]{4,10}", digits in "[1-9][0-9]{9,14}", after in "[ -~]{0,20}",
        ) {
            let said = format!("{before} {local}@clinic.example {digits} {after}");
            let masked = personal(&said);
            prop_assert!(!masked.contains(&format!("{local}@")), "{}", masked);
            prop_assert!(!masked.contains(&digits), "{}", masked);
        }
    }
}
