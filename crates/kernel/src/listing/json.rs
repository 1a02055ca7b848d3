//! Lists in JSON, cut into their elements without holding more than one.

use super::{Cut, RECORD_BYTES_MAX, TOO_LONG, Unreadable};

const HINT: &str =
    "write [{\"to\": \"…\"}, …] or {\"recipients\": […]}; a value a line is sent as application/x-ndjson";

/// The elements of a list, by their place in it, from 1 on.
#[derive(Default)]
pub(super) struct Elements {
    at: At,
    /// The list is a member of an object.
    wrapped: bool,
    line: u64,
    number: u64,
    element: Element,
}

/// Where in the document the next byte stands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    /// In the name of the object's member.
    Name,
    /// Before the list.
    Value,
    /// After `[`.
    First,
    /// After a comma.
    Next,
    Within,
    Behind,
    /// After `]`.
    Closed,
    End,
}

/// The element that is being read.
#[derive(Default)]
struct Element {
    bytes: Vec<u8>,
    overlong: bool,
    /// Brackets that are open; 0 for what has none.
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl Element {
    /// Takes a byte in; whether it is the last one.
    fn take(&mut self, byte: u8) -> bool {
        keep(&mut self.bytes, &mut self.overlong, &[byte]);
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => {
                self.in_string = !self.in_string;
                return !self.in_string && self.depth == 0;
            }
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }

    /// Whether a number, `true`, `false` or `null` ends before this byte.
    fn ends_before(&self, byte: u8) -> bool {
        self.depth == 0
            && !self.in_string
            && (byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}'))
    }
}

/// Keeps bytes of a record, up to the limit.
fn keep(bytes: &mut Vec<u8>, overlong: &mut bool, more: &[u8]) {
    if bytes.len() + more.len() > RECORD_BYTES_MAX {
        *overlong = true;
        bytes.clear();
    }
    if !*overlong {
        bytes.extend_from_slice(more);
    }
}

impl Elements {
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        each: &mut impl FnMut(u64, Cut<'_>),
    ) -> Result<(), Unreadable> {
        for byte in piece {
            self.take(*byte, each)?;
            self.line += u64::from(*byte == b'\n');
        }
        Ok(())
    }

    fn take(&mut self, byte: u8, each: &mut impl FnMut(u64, Cut<'_>)) -> Result<(), Unreadable> {
        if self.at == At::Within {
            if !self.element.ends_before(byte) {
                if self.element.take(byte) {
                    self.cut(each);
                }
                return Ok(());
            }
            self.cut(each);
        }
        if self.at == At::Name {
            return self.name(byte);
        }
        self.at = match (self.at, byte) {
            (at, byte) if byte.is_ascii_whitespace() => at,
            (At::Start | At::Value, b'[') => At::First,
            (At::Start, b'{') => {
                self.wrapped = true;
                At::Name
            }
            (At::First | At::Behind, b']') if self.wrapped => At::Closed,
            (At::First | At::Behind, b']') => At::End,
            (At::First | At::Next, b',' | b']' | b'}') => return Err(self.wrong("an element is missing")),
            (At::First | At::Next, _) => {
                self.number += 1;
                if self.element.take(byte) {
                    self.cut(each);
                    return Ok(());
                }
                At::Within
            }
            (At::Behind, b',') => At::Next,
            (At::Closed, b'}') => At::End,
            (At::Start, _) => return Err(self.wrong("the body is not a list")),
            (At::Value, _) => return Err(self.wrong("`recipients` is not a list")),
            (At::Closed, _) => {
                return Err(self.wrong("beside `recipients` there is something that is not read"));
            }
            (At::End, _) => return Err(self.wrong("something follows the end of the list")),
            (At::Behind | At::Name | At::Within, _) => {
                return Err(self.wrong("a comma is missing between two elements"));
            }
        };
        Ok(())
    }

    /// The object's one name, with its colon.
    fn name(&mut self, byte: u8) -> Result<(), Unreadable> {
        const NAME: &[u8] = b"\"recipients\"";
        let name = &mut self.element.bytes;
        match byte {
            b':' if name.as_slice() == NAME => {
                name.clear();
                self.at = At::Value;
            }
            byte if byte.is_ascii_whitespace() => {}
            byte if NAME.get(name.len()) == Some(&byte) => name.push(byte),
            _ => return Err(self.wrong("the body is an object without a list of `recipients`")),
        }
        Ok(())
    }

    fn cut(&mut self, each: &mut impl FnMut(u64, Cut<'_>)) {
        let element = std::mem::take(&mut self.element);
        each(self.number, if element.overlong { Err(TOO_LONG) } else { Ok(&element.bytes) });
        // The room is kept for the next one.
        self.element.bytes = element.bytes;
        self.element.bytes.clear();
        self.at = At::Behind;
    }

    fn wrong(&self, what: &str) -> Unreadable {
        Unreadable::new(self.line + 1, what, HINT)
    }

    pub(super) fn finish(&self) -> Result<(), Unreadable> {
        match self.at {
            At::End => Ok(()),
            At::Start => Err(self.wrong("the body is empty")),
            _ => Err(self.wrong("the body ends before the list does")),
        }
    }
}

/// Lines of JSON, by their numbers. Empty ones are passed over.
#[derive(Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    overlong: bool,
    ended: u64,
}

impl Lines {
    pub(super) fn push(&mut self, mut piece: &[u8], each: &mut impl FnMut(u64, Cut<'_>)) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            keep(&mut self.bytes, &mut self.overlong, &piece[..end]);
            self.cut(each);
            piece = &piece[end + 1..];
        }
        keep(&mut self.bytes, &mut self.overlong, piece);
    }

    /// The last line may lack its end.
    pub(super) fn finish(&mut self, each: &mut impl FnMut(u64, Cut<'_>)) {
        self.cut(each);
    }

    fn cut(&mut self, each: &mut impl FnMut(u64, Cut<'_>)) {
        self.ended += 1;
        if std::mem::take(&mut self.overlong) {
            each(self.ended, Err(TOO_LONG));
        } else if !self.bytes.trim_ascii().is_empty() {
            each(self.ended, Ok(&self.bytes));
        }
        self.bytes.clear();
    }
}
