//! The text of a mail, from `DATA` to the line that ends it.

/// The longest line that is taken. Mails have shorter ones by their standard, and writers that do not care.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// So much of a mail that is refused anyway is read to its end, in mails as large as may be.
const PATIENCE: usize = 2;

/// Why a mail cannot be taken, whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    TooLarge,
    LongLine,
    Nul,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// All was used, and the end has not come.
    More,
    /// So many bytes were used, and the mail is complete.
    End(usize),
    /// It is far too large, and no end is in sight.
    Endless,
}

/// What is behind us on this line. Nothing but CR LF ends one: whoever took something else for an end would see two
/// mails where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    Dot,
    DotCr,
    Text,
    Cr,
}

/// A mail as far as it was read, without the dots that were doubled for the way.
#[derive(Debug)]
pub(super) struct Data {
    mail: Vec<u8>,
    at: At,
    line: usize,
    limit: usize,
    read: usize,
    unfit: Option<Unfit>,
}

impl Data {
    pub(super) fn new(limit: usize) -> Data {
        Data { mail: Vec::new(), at: At::Start, line: 0, limit, read: 0, unfit: None }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) -> Read {
        let mut rest = bytes;
        while let Some(byte) = rest.first().copied() {
            if self.is_endless(bytes.len() - rest.len()) {
                return Read::Endless;
            }
            if self.at == At::Text {
                let run = rest.iter().position(|b| *b == b'\r').unwrap_or(rest.len());
                self.keep(&rest[..run]);
                rest = &rest[run..];
                if run > 0 {
                    continue;
                }
            }
            rest = &rest[1..];
            match (self.at, byte) {
                (At::DotCr, b'\n') => return Read::End(bytes.len() - rest.len()),
                (At::Start, b'.') => self.at = At::Dot,
                (At::Dot, b'\r') => self.at = At::DotCr,
                (At::Cr, b'\n') => {
                    self.keep(b"\r\n");
                    (self.at, self.line) = (At::Start, 0);
                }
                (At::Cr | At::DotCr, b'\r') => {
                    self.keep(b"\r");
                    self.at = At::Cr;
                }
                (At::Cr | At::DotCr, _) => {
                    self.keep(&[b'\r', byte]);
                    self.at = At::Text;
                }
                (At::Start | At::Text, b'\r') => self.at = At::Cr,
                (At::Start | At::Dot | At::Text, _) => {
                    self.keep(&[byte]);
                    self.at = At::Text;
                }
            }
        }
        let endless = self.is_endless(bytes.len());
        self.read = self.read.saturating_add(bytes.len());
        if endless { Read::Endless } else { Read::More }
    }

    /// Whether too much has come, so many bytes of the piece at hand included: its end may be in the same piece, and
    /// pieces must not make a difference.
    fn is_endless(&self, more: usize) -> bool {
        self.unfit.is_some() && self.read.saturating_add(more) > self.limit.saturating_mul(PATIENCE)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.unfit.is_none() {
            self.unfit = self.flaw(bytes);
            match self.unfit {
                None => self.mail.extend_from_slice(bytes),
                Some(_) => self.mail = Vec::new(),
            }
        }
        self.line = self.line.saturating_add(bytes.len());
    }

    /// What makes the mail unfit if these bytes come next: of several flaws the one that a reader of single bytes would
    /// meet first, since pieces must not make a difference.
    fn flaw(&self, bytes: &[u8]) -> Option<Unfit> {
        let room = self.limit.saturating_sub(self.mail.len());
        let line = LINE_BYTES_MAX.saturating_sub(self.line);
        if bytes.len() <= room.min(line) && !bytes.contains(&0) {
            return None;
        }
        let nul = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let flaws = [(room, Unfit::TooLarge), (line, Unfit::LongLine), (nul, Unfit::Nul)];
        flaws.into_iter().min_by_key(|(at, _)| *at).map(|(_, unfit)| unfit)
    }

    pub(super) fn bytes(&self) -> usize {
        self.mail.len()
    }

    /// The mail, once its end was read.
    pub(super) fn mail(self) -> Result<Vec<u8>, Unfit> {
        match self.unfit {
            None => Ok(self.mail),
            Some(unfit) => Err(unfit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Whole = (Result<Vec<u8>, Unfit>, Vec<u8>);

    /// The mail, and what follows it.
    fn whole(wire: &[u8], limit: usize) -> Option<Whole> {
        let mut data = Data::new(limit);
        match data.read(wire) {
            Read::End(used) => Some((data.mail(), wire[used..].to_vec())),
            Read::More | Read::Endless => None,
        }
    }

    fn mail(wire: &str) -> String {
        let (mail, rest) = whole(wire.as_bytes(), 1_000).unwrap();
        assert_eq!(rest, b"QUIT\r\n", "{wire:?}");
        String::from_utf8(mail.unwrap()).unwrap()
    }

    #[test] // REQ IN-3
    fn dots_that_were_doubled_are_single_again() {
        for (wire, expected) in [
            ("a\r\n..b\r\n...\r\n.\r\nQUIT\r\n", "a\r\n.b\r\n..\r\n"),
            (".\r\nQUIT\r\n", ""),
            ("a.\r\n.\r\nQUIT\r\n", "a.\r\n"),
            (".a\r\n.\r\nQUIT\r\n", "a\r\n"),
        ] {
            assert_eq!(mail(wire), expected, "{wire:?}");
        }
    }

    #[test] // REQ SE-2
    fn nothing_but_a_dot_between_two_ends_of_lines_ends_a_mail() {
        for sly in
            ["\n.\n", "\n.\r\n", "\r.\r\n", "\r\n.\n", "\r\n.\r", "\r.\r", "\r\n.\r\r\n", "\0\n.\r\n\0"]
        {
            let wire = format!("a{sly}MAIL FROM:<e@x>\r\n.\r\nQUIT\r\n");
            let (mail, rest) = whole(wire.as_bytes(), 1_000).unwrap();
            assert_eq!(rest, b"QUIT\r\n", "{sly:?}");
            assert!(mail.is_err() || mail.unwrap().ends_with(b"MAIL FROM:<e@x>\r\n"), "{sly:?}");
        }
    }

    #[test] // REQ IN-3
    fn what_is_too_large_is_read_and_not_kept() {
        let wire = format!("{}\r\n.\r\nQUIT\r\n", "x".repeat(99));
        assert_eq!(whole(wire.as_bytes(), 100).unwrap().0, Err(Unfit::TooLarge));
        assert!(whole(wire.as_bytes(), 101).unwrap().0.is_ok());
        let long = format!("{}\r\n.\r\n", "x".repeat(LINE_BYTES_MAX + 1));
        assert_eq!(whole(long.as_bytes(), 1 << 20).unwrap().0, Err(Unfit::LongLine));
        let mut data = Data::new(100);
        assert_eq!(data.read(&[b'x'; 150]), Read::More);
        assert_eq!((data.bytes(), data.mail.capacity()), (0, 0));
        assert_eq!(data.read(&[b'x'; 150]), Read::Endless);
    }

    #[test] // REQ IN-3
    fn of_several_flaws_the_first_is_told_however_the_mail_is_cut() {
        let check = |wire: &[u8], expected| {
            for size in [1, 7, wire.len()] {
                let mut data = Data::new(100);
                let ended = wire.chunks(size).any(|piece| matches!(data.read(piece), Read::End(_)));
                assert!(ended, "in pieces of {size}");
                assert_eq!(data.mail(), Err(expected), "in pieces of {size}");
            }
        };
        let (few, many) = ([b'x'; 10], [b'x'; 120]);
        check(&[&few, &b"\0"[..], &many, b"\r\n.\r\n"].concat(), Unfit::Nul);
        check(&[&many, &b"\0"[..], &few, b"\r\n.\r\n"].concat(), Unfit::TooLarge);
        check(&[&b"x".repeat(100), &b"\0\r\n.\r\n"[..]].concat(), Unfit::TooLarge);
        check(&[&b"x".repeat(99), &b"\0\r\n.\r\n"[..]].concat(), Unfit::Nul);
    }

    #[test] // REQ SE-2
    fn far_too_large_a_mail_is_endless_though_its_end_comes_in_the_same_piece() {
        let wire = [&[b'x'; 250][..], b"\r\n.\r\n"].concat();
        assert_eq!(Data::new(100).read(&wire), Read::Endless);
        let mut data = Data::new(100);
        let cut = wire.chunks(1).map(|byte| data.read(byte)).find(|read| *read != Read::More);
        assert_eq!(cut, Some(Read::Endless));
        let wire = [&[b'x'; 150][..], b"\r\n.\r\n"].concat();
        assert_eq!(Data::new(100).read(&wire), Read::End(wire.len()));
    }

    proptest! {
        #[test] // REQ IN-3
        fn any_mail_arrives_as_it_was_however_it_is_cut(
            lines in prop::collection::vec("[.a\u{e9}\n ]{0,6}", 0..12), cuts in prop::collection::vec(1..9usize, 1..9),
        ) {
            let mail: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let mut wire: String = String::new();
            for line in &lines {
                wire += &format!("{}{line}\r\n", if line.starts_with('.') { "." } else { "" });
            }
            wire += ".\r\n";
            let mut data = Data::new(1_000);
            let (mut rest, mut cuts, mut ended) = (wire.as_bytes(), cuts.iter().cycle(), false);
            while !rest.is_empty() {
                let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                if let Read::End(used) = data.read(now) {
                    prop_assert_eq!((used, later.len()), (now.len(), 0));
                    ended = true;
                }
                rest = later;
            }
            prop_assert!(ended);
            prop_assert_eq!(String::from_utf8(data.mail().unwrap()).unwrap(), mail);
        }
    }
}
