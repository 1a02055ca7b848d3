//! A finished mail (RFC 5322), in the bytes that its writer chose: what its head says, and what it must have before it
//! goes on. Its body is never looked into, so that signatures and whatever else is in it stay whole.

use std::borrow::Cow;

use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;

use crate::time::Time;

/// A field of a mail's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    name: &'a [u8],
    value: &'a [u8],
    /// All of its lines, with their ends.
    lines: &'a [u8],
}

impl Field<'_> {
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }

    /// Its value on one line.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// The fields of a mail, and where its head ends: at the first line that belongs to no field.
///
/// Lines end as they do in a mail that was [`finish`]ed.
pub fn head(mail: &[u8]) -> (Vec<Field<'_>>, usize) {
    let (mut fields, mut at) = (Vec::new(), 0);
    while let Some(name) = field_name(&mail[at..]) {
        let mut end = at + line_len(&mail[at..]);
        while matches!(mail.get(end), Some(b' ' | b'\t')) {
            end += line_len(&mail[end..]);
        }
        let lines = &mail[at..end];
        let value = lines[name..].trim_ascii_start();
        fields.push(Field { name: &lines[..name], value: value.strip_prefix(b":").unwrap_or(value), lines });
        at = end;
    }
    (fields, at)
}

/// How long the name is of the field that begins here, if one does.
fn field_name(line: &[u8]) -> Option<usize> {
    let name = line.iter().position(|b| !b.is_ascii_graphic() || *b == b':').filter(|end| *end > 0)?;
    // Some writers leave blanks before the colon.
    let colon = line[name..].iter().find(|b| !matches!(b, b' ' | b'\t'));
    (colon == Some(&b':')).then_some(name)
}

fn line_len(text: &[u8]) -> usize {
    text.windows(2).position(|pair| pair == b"\r\n").map_or(text.len(), |end| end + 2)
}

/// The mail as it goes on: lines that end in CR LF, however they ended; nobody named as a blind copy; a date and an id.
///
/// `trace` stands before everything else. Finishing what is finished changes nothing but to add that.
pub fn finish(mail: &[u8], trace: &str, id: &str, date: Time) -> Vec<u8> {
    let mail = whole_lines(mail);
    let (fields, end) = head(&mail);
    let has = |name: &str| fields.iter().any(|field| field.is(name));
    let mut finished = Vec::with_capacity(mail.len() + trace.len() + 256);
    finished.extend_from_slice(trace.as_bytes());
    for field in &fields {
        if !field.is("bcc") && !field.is("resent-bcc") {
            finished.extend_from_slice(field.lines);
        }
    }
    if !has("date") {
        finished.extend_from_slice(format!("Date: {}\r\n", written(date)).as_bytes());
    }
    if !has("message-id") {
        finished.extend_from_slice(format!("Message-ID: {id}\r\n").as_bytes());
    }
    let body = &mail[end..];
    if !body.starts_with(b"\r\n") {
        finished.extend_from_slice(b"\r\n");
    }
    finished.extend_from_slice(body);
    finished
}

/// A time as mails have it.
pub fn written(time: Time) -> String {
    let stamp = jiff::Timestamp::from_millisecond(time.millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    rfc2822::to_string(&stamp.to_zoned(TimeZone::UTC))
        .unwrap_or_else(|_| "Thu, 1 Jan 1970 00:00:00 +0000".to_owned())
}

/// The same text in lines that end in CR LF, the last one included.
fn whole_lines(text: &[u8]) -> Cow<'_, [u8]> {
    let broken = |at: usize, byte: u8| match byte {
        b'\n' => at == 0 || text[at - 1] != b'\r',
        b'\r' => text.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    if (text.is_empty() || text.ends_with(b"\r\n"))
        && !text.iter().enumerate().any(|(at, byte)| broken(at, *byte))
    {
        return Cow::Borrowed(text);
    }
    let mut lines = Vec::with_capacity(text.len() + text.len() / 32 + 2);
    for (at, byte) in text.iter().enumerate() {
        if broken(at, *byte) {
            lines.extend_from_slice(b"\r\n");
        } else {
            lines.push(*byte);
        }
    }
    if !lines.ends_with(b"\r\n") {
        lines.extend_from_slice(b"\r\n");
    }
    Cow::Owned(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Time = Time::from_millis(1_700_000_000_000);

    fn finished(mail: &str) -> String {
        String::from_utf8(finish(mail.as_bytes(), "", "<1@x>", NOW)).unwrap()
    }

    #[test] // REQ IN-3
    fn a_mail_that_lacks_nothing_goes_on_as_it_is() {
        let mail =
            "DATE: yesterday\r\nMessage-Id : <a@b>\r\nSubject: a\r\n\tb\r\n\r\n--x\r\nBcc: no header\r\n\r\n";
        assert_eq!(finished(mail), mail);
        let trace = String::from_utf8(finish(mail.as_bytes(), "Received: here\r\n", "<1@x>", NOW)).unwrap();
        assert_eq!(trace, format!("Received: here\r\n{mail}"));
        let (fields, _) = head(mail.as_bytes());
        let texts: Vec<String> = fields.iter().map(Field::text).collect();
        assert_eq!(texts, ["yesterday", "<a@b>", "a b"]);
    }

    #[test] // REQ IN-3
    fn what_is_missing_is_added_and_blind_copies_stay_blind() {
        let added = "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <1@x>\r\n";
        for (mail, expected) in [
            (
                "Subject: s\nBCC: a@x,\n b@x\nTo: c@x\n\nhi\n",
                format!("Subject: s\r\nTo: c@x\r\n{added}\r\nhi\r\n"),
            ),
            ("hi", format!("{added}\r\nhi\r\n")),
            ("", format!("{added}\r\n")),
            ("Subject: s", format!("Subject: s\r\n{added}\r\n")),
            ("Subject: s\r\nno field\r\n", format!("Subject: s\r\n{added}\r\nno field\r\n")),
            (" folded\r\n", format!("{added}\r\n folded\r\n")),
            ("A: b\r\n\r\nx\ry\nz", format!("A: b\r\n{added}\r\nx\r\ny\r\nz\r\n")),
        ] {
            assert_eq!(finished(mail), expected, "{mail:?}");
        }
    }

    proptest! {
        #[test] // REQ IN-3
        fn any_bytes_become_whole_lines_and_finishing_twice_changes_nothing(
            mail in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "([A-Za-z-]{1,8} ?:[ -~]{0,12}(\r\n|\n|\r)){0,4}[ -~\r\n]{0,40}".prop_map(String::into_bytes),
            ],
        ) {
            let once = finish(&mail, "", "<1@x>", NOW);
            prop_assert!(once.ends_with(b"\r\n"));
            let text: Vec<u8> = once.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
            let pairs = once.windows(2).filter(|pair| *pair == b"\r\n").count();
            prop_assert_eq!(once.len(), text.len() + 2 * pairs);
            prop_assert_eq!(finish(&once, "", "<2@x>", NOW), once);
        }
    }
}
