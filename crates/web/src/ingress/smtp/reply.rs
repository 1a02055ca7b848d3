//! What the server says.

use std::borrow::Cow;

/// One reply: its code, its enhanced code (RFC 2034) where it has one, and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: u16,
    status: &'static str,
    lines: Vec<Cow<'static, str>>,
}

/// The most bytes of words on one line. A line has at most 512 with everything.
const WORDS_BYTES_MAX: usize = 400;

impl Reply {
    pub(super) fn new(code: u16, status: &'static str, words: impl Into<Cow<'static, str>>) -> Reply {
        Reply { code, status, lines: vec![words.into()] }
    }

    /// One without an enhanced code, as greetings and invitations are.
    pub(super) fn bare(code: u16, lines: Vec<Cow<'static, str>>) -> Reply {
        Reply { code, status: "", lines }
    }

    /// Appends it as it goes over the wire. Whatever the words are, each stays on its line.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (n, line) in self.lines.iter().enumerate() {
            let more = if n + 1 == self.lines.len() { ' ' } else { '-' };
            let gap = if self.status.is_empty() { "" } else { " " };
            let words: String =
                line.chars().map(|c| if c.is_ascii() && !c.is_control() { c } else { '?' }).collect();
            let words = &words[..words.len().min(WORDS_BYTES_MAX)];
            out.extend_from_slice(format!("{}{more}{}{gap}{words}\r\n", self.code, self.status).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // REQ SE-2
    fn no_words_make_a_second_reply() {
        let mut out = Vec::new();
        Reply::new(550, "5.1.1", format!("a\r\n250 b é{}", "x".repeat(600))).write(&mut out);
        Reply::bare(250, vec!["a".into(), "SIZE 1".into()]).write(&mut out);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert!(lines[0].starts_with("550 5.1.1 a??250 b ?xxx") && lines[0].len() < 510, "{text}");
        assert_eq!(lines[1..], ["250-a", "250 SIZE 1"]);
    }
}
