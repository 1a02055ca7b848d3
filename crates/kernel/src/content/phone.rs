//! Whom a WhatsApp message is for: a phone number as people write it, or a JID.
//!
//! Brazil's mobile numbers grew by a leading 9 between 2012 and 2016, and WhatsApp still knows many accounts by
//! the shorter form. Evolution takes digits only, with the country's 55 and without "+", and builds the JID by
//! this rule: of 13 digits that start with 55 it keeps the 9 if the area code is below 31 or the digit after the
//! 9 is below 7, and drops it otherwise. It then asks WhatsApp for both forms, and sometimes misses all the same;
//! hence [`other_variant`].

const BRAZIL: &str = "55";
const JID_SERVERS: [&str; 6] = ["s.whatsapp.net", "c.us", "g.us", "lid", "newsletter", "broadcast"];
/// As long as a number gets with all its brackets and blanks.
const WRITTEN_BYTES_MAX: usize = 32;

/// Whether a message can be addressed to this: a phone number as people write it, or a JID.
///
/// A number that says that it is Brazilian has to be as long as Brazilian numbers are.
pub fn is_recipient(to: &str) -> bool {
    is_phone(to) || is_jid(to)
}

/// What Evolution is given: digits only, with the country code. A JID stays as it is.
///
/// A number without "+" that is a Brazilian one, area code and all, gets Brazil's 55; the 0 that is dialled before
/// an area code is left out. Any other is taken to have its country code. So a foreign number that looks like a
/// Brazilian one must be written with "+".
pub fn digits_for(to: &str) -> String {
    if to.contains('@') {
        return to.to_owned();
    }
    let digits: String = to.chars().filter(char::is_ascii_digit).collect();
    let national = digits.strip_prefix('0').unwrap_or(&digits);
    if !to.starts_with('+') && is_national(national) { format!("{BRAZIL}{national}") } else { digits }
}

/// The same Brazilian mobile number with the ninth digit, if it has none, or without it.
///
/// Only for numbers that had eight digits once, which began with 6 to 9. Any other number without its 9, or a
/// landline's with a 9 before it, belongs to somebody else.
pub fn other_variant(digits: &str) -> Option<String> {
    let national = digits.strip_prefix(BRAZIL).filter(|national| is_national(national))?;
    let (area, number) = national.split_at(2);
    let was_mobile = |number: &str| number.len() == 8 && matches!(number.as_bytes()[0], b'6'..=b'9');
    match number.strip_prefix('9').filter(|short| was_mobile(short)) {
        Some(short) => Some(format!("{BRAZIL}{area}{short}")),
        None => was_mobile(number).then(|| format!("{BRAZIL}{area}9{number}")),
    }
}

fn is_phone(text: &str) -> bool {
    let written = text.strip_prefix('+').unwrap_or(text);
    let digits: String = written.chars().filter(char::is_ascii_digit).collect();
    let brazilian = text.starts_with('+') && digits.starts_with(BRAZIL);
    text.len() <= WRITTEN_BYTES_MAX
        && written.starts_with(|c: char| c.is_ascii_digit() || c == '(')
        && written.bytes().all(|b| b.is_ascii_digit() || b" ()-.".contains(&b))
        && if brazilian { matches!(digits.len(), 12 | 13) } else { matches!(digits.len(), 8..=15) }
}

fn is_jid(text: &str) -> bool {
    text.split_once('@').is_some_and(|(user, server)| {
        (1..=64).contains(&user.len())
            && user.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
            && JID_SERVERS.contains(&server)
    })
}

/// A Brazilian number without the country: area code, then 8 digits, or 9 that begin with a 9.
fn is_national(digits: &str) -> bool {
    match digits.as_bytes() {
        [a, b, first, rest @ ..] if digits.bytes().all(|b| b.is_ascii_digit()) => {
            is_area_code(*a, *b)
                && match rest.len() {
                    7 => (b'2'..=b'9').contains(first),
                    8 => *first == b'9',
                    _ => false,
                }
        }
        _ => false,
    }
}

/// The area codes that Brazil has given out.
fn is_area_code(tens: u8, units: u8) -> bool {
    match tens {
        b'1' | b'4' | b'6' | b'8' | b'9' => matches!(units, b'1'..=b'9'),
        b'2' => matches!(units, b'1' | b'2' | b'4' | b'7' | b'8'),
        b'3' => matches!(units, b'1'..=b'5' | b'7' | b'8'),
        b'5' => matches!(units, b'1' | b'3' | b'4' | b'5'),
        b'7' => matches!(units, b'1' | b'3' | b'4' | b'5' | b'7' | b'9'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_taken_as_people_write_them() {
        for (written, sent) in [
            ("+5511987654321", "5511987654321"),
            ("5511987654321", "5511987654321"),
            ("+55 (11) 98765-4321", "5511987654321"),
            ("(11) 98765-4321", "5511987654321"),
            ("11 98765.4321", "5511987654321"),
            ("11987654321", "5511987654321"),
            ("(011) 98765-4321", "5511987654321"),
            ("1133334444", "551133334444"),
            ("1187654321", "551187654321"),
            // 55 is also the area code of Santa Maria.
            ("55987654321", "5555987654321"),
            ("(55) 3222-1234", "555532221234"),
            ("+55 55 98765-4321", "5555987654321"),
            // Other countries: with a plus always, without one if it is no Brazilian number.
            ("+1 202 555 0123", "12025550123"),
            ("12025550123", "12025550123"),
            ("+47 912 34 567", "4791234567"),
            ("351912345678", "351912345678"),
            // No such area code; two digits short; no mobile number has 9 digits without a 9.
            ("20987654321", "20987654321"),
            ("12345678", "12345678"),
            ("11187654321", "11187654321"),
        ] {
            assert!(is_recipient(written), "{written}");
            assert_eq!(digits_for(written), sent, "{written}");
        }
    }

    #[test]
    fn a_jid_is_sent_as_it_is() {
        for jid in
            ["5511987654321@s.whatsapp.net", "120363041@g.us", "1234-5678@g.us", "99:1@lid", "a@newsletter"]
        {
            assert!(is_recipient(jid), "{jid}");
            assert_eq!(digits_for(jid), jid);
            assert_eq!(other_variant(jid), None);
        }
    }

    #[test]
    fn what_is_no_number_is_not_taken_for_one() {
        for bad in [
            "",
            "+",
            "1234567",
            "1234567890123456",
            "+55 11 98765",
            "+551198765432100",
            "55119876x",
            "++5511987654321",
            "55+11987654321",
            "-5511987654321",
            " 5511987654321",
            "5511987654321\n",
            "5511\u{a0}987654321",
            "()()()()()()()()()()()()1234567890",
            "a@b.c",
            "@g.us",
            "x y@g.us",
            "1@g.us@g.us",
        ] {
            assert!(!is_recipient(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_ninth_digit_comes_and_goes_where_it_once_did() {
        for (with, without) in [
            ("5511987654321", "551187654321"),
            ("5531999990000", "553199990000"),
            ("5555961234567", "555561234567"),
            ("5585977776666", "558577776666"),
        ] {
            assert_eq!(other_variant(with).as_deref(), Some(without));
            assert_eq!(other_variant(without).as_deref(), Some(with));
        }
    }

    #[test]
    fn a_number_that_would_be_somebody_elses_is_not_tried() {
        for digits in [
            "551133334444",  // a landline; with a 9 before it, a stranger's mobile
            "5511933334444", // born with nine digits; without the 9, a stranger's landline
            "5520987654321", // no such area code
            "12025550123",
            "351912345678",
            "987654321",
            "+5511987654321",
            "55",
            "",
            "55é1987654321",
        ] {
            assert_eq!(other_variant(digits), None, "{digits}");
        }
    }

    #[test]
    fn brazil_has_67_area_codes() {
        let codes = (b'0'..=b'9').flat_map(|a| (b'0'..=b'9').map(move |b| (a, b)));
        assert_eq!(codes.filter(|(a, b)| is_area_code(*a, *b)).count(), 67);
    }

    proptest! {
        #[test]
        fn a_variant_leads_back_and_keeps_area_and_last_eight_digits(digits in "55[1-9]{2}9?[0-9]{8}") {
            if let Some(other) = other_variant(&digits) {
                prop_assert_eq!(other_variant(&other), Some(digits.clone()));
                prop_assert_eq!(&other[..4], &digits[..4]);
                prop_assert_eq!(&other[other.len() - 8..], &digits[digits.len() - 8..]);
            }
        }

        #[test]
        fn what_is_sent_for_a_number_is_digits_and_reads_the_same_again(to in "\\+?[0-9 ().-]{0,24}") {
            let digits = digits_for(&to);
            prop_assert!(digits.bytes().all(|b| b.is_ascii_digit()));
            if digits.len() > 11 {
                prop_assert_eq!(digits_for(&digits), digits);
            }
        }

        #[test]
        fn no_text_makes_them_panic(to in ".{0,24}") {
            let _ = (is_recipient(&to), digits_for(&to), other_variant(&to));
        }
    }
}
