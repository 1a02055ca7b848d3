//! What failures have in common: an error without what differs from message to message.

use std::sync::LazyLock;

use regex::Regex;

/// Addresses and URLs, masked numbers, and whatever has four digits or eight hexadecimal ones in a row.
static DIFFERS: LazyLock<Regex> = LazyLock::new(|| {
    let address = r"[^\s<>\x22'(),;]+@[^\s<>\x22'(),;]+";
    let url = r"https?://[^\s<>\x22'(),;]+";
    let number = r"\*{3}\d*|[\w-]*\d{4}[\w-]*";
    let id = r"\b[0-9a-fA-F]{8,}\b|\b[0-9A-Za-z_-]*\d[0-9A-Za-z_-]{11,}\b";
    Regex::new(&format!("{address}|{url}|{number}|{id}")).expect("a fixed pattern")
});

const LONGEST: usize = 200;

/// The error as failures of the same cause share it: short codes stay, persons, ids, times and other numbers become
/// `#`, and it is cut at 200 bytes.
pub fn normalised(text: &str) -> String {
    let text = DIFFERS.replace_all(text, "#");
    let mut words = String::with_capacity(text.len().min(LONGEST));
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() >= LONGEST {
            words.truncate(words.floor_char_boundary(LONGEST));
            words.truncate(words.trim_end().len());
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test] // REQ DL-2
    fn errors_of_one_cause_become_one_text() {
        for (one, other, shared) in [
            (
                "550 5.1.1 <a***@gmail.com>: user unknown",
                "550 5.1.1 <j***@clinic.example>:  user unknown",
                "550 5.1.1 <#>: user unknown",
            ),
            (
                "451 4.7.1 Greylisted, id 0F3A9B2211, see https://a.example/x?id=1",
                "451 4.7.1 Greylisted, id 77C0DE1234, see https://a.example/x?id=2",
                "451 4.7.1 Greylisted, id #, see #",
            ),
            ("no answer in 30000 ms", "no answer in 15000 ms", "no answer in # ms"),
            (r#"{"number":"***21"}"#, r#"{"number":"***90"}"#, r##"{"number":"#"}"##),
        ] {
            assert_eq!(normalised(one), shared);
            assert_eq!(normalised(other), shared);
        }
    }

    #[test]
    fn different_codes_and_words_stay_apart() {
        assert_ne!(normalised("550 user unknown"), normalised("552 mailbox full"));
        assert_ne!(normalised("HTTP 500"), normalised("HTTP 503"));
    }

    #[test]
    fn one_that_is_cut_between_two_words_ends_with_the_first() {
        let first = "x".repeat(LONGEST - 1);
        assert_eq!(normalised(&format!("{first} and more")), first);
    }

    proptest! {
        #[test]
        fn it_is_short_and_does_not_change_again(text in "\\PC{0,400}") {
            let once = normalised(&text);
            prop_assert!(once.len() <= LONGEST);
            prop_assert_eq!(normalised(&once), once);
        }
    }
}
