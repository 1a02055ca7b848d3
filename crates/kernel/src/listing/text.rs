//! Which characters the bytes of a file are.

use std::borrow::Cow;

use super::{MARK_BYTES, Unreadable};

/// How the characters of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// Windows-1252, which is Latin-1 and a few characters more.
    Latin1,
}

impl Encoding {
    /// By the names that people and programs give them.
    pub fn named(name: &str) -> Option<Encoding> {
        match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => Some(Encoding::Utf8),
            "latin1" | "latin-1" | "iso-8859-1" | "iso8859-1" | "windows-1252" | "cp1252" => {
                Some(Encoding::Latin1)
            }
            _ => None,
        }
    }
}

/// Reads the lines of one file. One that nobody named an encoding for is UTF-8 until a line shows that it is not.
pub(super) struct Text {
    /// What it is, as soon as that shows.
    known: Option<Encoding>,
}

const NOT_UTF8: &str = "it is not UTF-8, which the lines before it are; save the whole file in one encoding, or name it: encoding=latin1";

impl Text {
    pub(super) fn new(known: Option<Encoding>) -> Text {
        Text { known }
    }

    /// Looks at how the file begins; what follows the mark of its encoding.
    pub(super) fn begin<'a>(&mut self, first: &'a [u8]) -> Result<&'a [u8], Unreadable> {
        if let Some(rest) = first.strip_prefix(b"\xef\xbb\xbf") {
            self.known = Some(Encoding::Utf8);
            return Ok(rest);
        }
        let what = match &first[..first.len().min(MARK_BYTES)] {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "the file is in UTF-16",
            [b'P', b'K', 3, 4] | [0xd0, 0xcf, 0x11, 0xe0] => "the file is a workbook, not text",
            mark if mark.contains(&0) => "the file has zero bytes: it is in UTF-16, or no text",
            _ => return Ok(first),
        };
        let hint = "in the spreadsheet, save it as \"CSV UTF-8\", and send that file";
        Err(Unreadable::new(1, what, hint))
    }

    pub(super) fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Cow<'a, str>, &'static str> {
        if self.known == Some(Encoding::Latin1) {
            return Ok(bytes.iter().map(|byte| character(*byte)).collect());
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                if self.known.is_none() && !text.is_ascii() {
                    self.known = Some(Encoding::Utf8);
                }
                Ok(text.into())
            }
            Err(_) if self.known.is_none() => {
                self.known = Some(Encoding::Latin1);
                self.read(bytes)
            }
            Err(_) => Err(NOT_UTF8),
        }
    }
}

/// The character of a byte in Windows-1252. Bytes that it has none for are the control characters of Latin-1.
fn character(byte: u8) -> char {
    const FROM_80: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => FROM_80[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}
