//! What a server says: a code, perhaps an enhanced one, and words over one line or many.

use pombo_kernel::classify::read::enhanced_in;
use pombo_kernel::reply::{Refusal, Stage};

use crate::answer::words;

/// The most that is read of one reply.
pub(super) const REPLY_BYTES_MAX: usize = 64 * 1024;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) code: u16,
    /// Its lines without their codes, as bytes: servers write what they like.
    text: Vec<u8>,
}

/// What the bytes read so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A reply, and how many bytes it took.
    Whole(Said, usize),
    /// Nothing is wrong with it yet, and its end has not come.
    More,
    /// It is no SMTP.
    Noise,
}

/// Reads the reply at the head of `bytes`.
pub(super) fn hear(bytes: &[u8]) -> Heard {
    let mut said: Option<Said> = None;
    let mut used = 0;
    while let Some(end) = bytes[used..].iter().position(|b| *b == b'\n') {
        let line = bytes[used..used + end].trim_ascii_end();
        used += end + 1;
        let Some((code, last, text)) = line_of(line) else { return Heard::Noise };
        let said = said.get_or_insert(Said { code, text: Vec::new() });
        if said.code != code {
            return Heard::Noise;
        }
        if !said.text.is_empty() {
            said.text.push(b'\n');
        }
        said.text.extend_from_slice(text);
        if last {
            return Heard::Whole(said.clone(), used);
        }
    }
    // A line that has begun must begin like one, so that a stranger's protocol is not waited out.
    let rest = &bytes[used..];
    let digits = rest.iter().take(3).take_while(|b| b.is_ascii_digit()).count();
    if digits < rest.len().min(3) { Heard::Noise } else { Heard::More }
}

/// What a reply says that broke off, if its code alone says no. A success has to be whole.
pub(super) fn heard_in_part(bytes: &[u8]) -> Option<Said> {
    let mut text = Vec::new();
    let mut first = None;
    for line in bytes.split(|b| *b == b'\n') {
        let Some((code, _, words)) = line_of(line.trim_ascii_end()) else { break };
        first = first.or(Some(code));
        if !text.is_empty() {
            text.push(b'\n');
        }
        text.extend_from_slice(words);
    }
    first.filter(|code| *code >= 400).map(|code| Said { code, text })
}

/// A line's code, whether it is the last one, and its words.
fn line_of(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let (code, rest) = line.split_at_checked(3)?;
    if !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    let (last, text) = match rest {
        [] => (true, rest),
        [b'-', text @ ..] => (false, text),
        [b' ' | b'\t', text @ ..] => (true, text),
        _ => return None,
    };
    (200..600).contains(&code).then_some((code, last, text))
}

impl Said {
    pub(super) fn is_positive(&self) -> bool {
        self.code < 400
    }

    /// The lines of the reply, as text.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.text.split(|b| *b == b'\n').map(|line| String::from_utf8_lossy(line).trim().to_owned())
    }

    /// The reply's words, bounded, without the enhanced code at their head.
    pub(super) fn words(&self) -> String {
        enhanced_in(&words(&self.text)).1.to_owned()
    }

    /// The reply as a refusal, in its own words.
    pub(super) fn refusal(&self, stage: Stage) -> Refusal {
        let text = words(&self.text);
        let (enhanced, text) = enhanced_in(&text);
        Refusal { status: Some(self.code), enhanced, stage, text: text.to_owned(), ..Refusal::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::reply::Enhanced;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> Said {
        match hear(bytes) {
            Heard::Whole(said, used) => {
                assert_eq!(used, bytes.len());
                said
            }
            other => panic!("{other:?}"),
        }
    }

    fn code(class: u8, subject: u16, detail: u16) -> Option<Enhanced> {
        Some(Enhanced { class, subject, detail })
    }

    #[test]
    fn a_reply_is_a_code_and_its_lines() {
        let said = whole(b"250-mail.example\r\n250-SIZE 100\r\n250 DSN\r\n");
        assert_eq!(said.code, 250);
        assert_eq!(said.lines().collect::<Vec<_>>(), ["mail.example", "SIZE 100", "DSN"]);
        assert_eq!(whole(b"354\r\n").code, 354);
        assert_eq!(whole(b"220 only a line feed\n").code, 220);
        assert!(matches!(hear(b"250 one\r\n250 two\r\n"), Heard::Whole(_, 9)));
    }

    #[test]
    fn codes_are_taken_from_the_first_line_and_words_from_all() {
        for (bytes, enhanced, text) in [
            (&b"550 5.1.1 No such user\r\n"[..], code(5, 1, 1), "No such user"),
            (b"550-5.7.26 Not\r\n550 5.7.26 authenticated\r\n", code(5, 7, 26), "Not\n5.7.26 authenticated"),
            (b"550 #5.1.0 Address rejected.\r\n", code(5, 1, 0), "Address rejected."),
            (b"553 [5.7.1]: no\r\n", code(5, 7, 1), "no"),
            (b"554 sorry (#5.1.1)\r\n", code(5, 1, 1), "sorry (#5.1.1)"),
            (b"552 1 Requested mail action aborted\r\n", None, "1 Requested mail action aborted"),
            (b"421 4.7.0.1 x\r\n", None, "4.7.0.1 x"),
            (b"450 3.1.1 x\r\n", None, "3.1.1 x"),
            (b"421\r\n", None, ""),
            (b"550 caixa n\xe3o existe\0\r\n", None, "caixa n\u{FFFD}o existe\u{FFFD}"),
        ] {
            let refusal = whole(bytes).refusal(Stage::Rcpt);
            assert_eq!((refusal.enhanced, refusal.text.as_str()), (enhanced, text));
        }
    }

    #[test]
    fn what_is_not_smtp_is_told_at_once() {
        for noise in
            [&b"HTTP/1.1 400 Bad"[..], b"\r\n", b"25", b"99 x\r\n", b"650 x\r\n", b"2500 x\r\n", b"\x15\x03"]
        {
            let expected = if noise == b"25" { Heard::More } else { Heard::Noise };
            assert_eq!(hear(noise), expected, "{noise:?}");
        }
        assert_eq!(hear(b"250-a\r\n251 b\r\n"), Heard::Noise);
    }

    #[test]
    fn a_refusal_that_breaks_off_is_still_one() {
        assert_eq!(heard_in_part(b"421 bye").map(|said| said.code), Some(421));
        assert_eq!(heard_in_part(b"550-5.1.1 a\r\n550-b").map(|said| said.words()), Some("a\nb".to_owned()));
        assert_eq!(heard_in_part(b"250 queued"), None);
        assert_eq!(heard_in_part(b""), None);
        assert_eq!(heard_in_part(b"42"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Heard::Whole(said, used) = hear(&bytes) {
                prop_assert!(used <= bytes.len() && (200..600).contains(&said.code));
                prop_assert!(said.refusal(Stage::Data).text.len() <= 4096);
            }
            let _ = heard_in_part(&bytes);
        }
    }
}
