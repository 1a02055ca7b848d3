//! Forms with files (`multipart/form-data`, RFC 7578), as browsers and clients of Evolution send them: read from a body
//! that is there as a whole, and bounded as every body is.

use http::{HeaderMap, header};

/// More fields than any form has: the widest asks for each column of a list.
const FIELDS_MAX: usize = 1_000;
/// The longest boundary, by the standard.
const BOUNDARY_MAX: usize = 70;

/// One field of a form: a text, or a file with its name and type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: String,
    pub(crate) file_name: Option<String>,
    pub(crate) media_type: Option<String>,
    pub(crate) bytes: &'a [u8],
}

/// What stands between the fields, if the body says that it is a form.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let mut parts = Parts(text);
    parts.next()?.eq_ignore_ascii_case("multipart/form-data").then_some(())?;
    let boundary = parts.find_map(|part| value(part, "boundary"))?;
    (1..=BOUNDARY_MAX).contains(&boundary.len()).then_some(boundary)
}

/// The fields of a form, in their order; nothing if it is none, has more fields than anybody needs, or ends too early.
pub(crate) fn read<'a>(body: &'a [u8], boundary: &str) -> Option<Vec<Field<'a>>> {
    let delimiter = format!("\r\n--{boundary}");
    let (mut fields, mut rest) = (Vec::new(), body.strip_prefix(&delimiter.as_bytes()[2..])?);
    while !rest.starts_with(b"--") {
        let (head, after) = cut(rest.strip_prefix(b"\r\n")?, b"\r\n\r\n")?;
        let (bytes, after) = cut(after, delimiter.as_bytes())?;
        if fields.len() == FIELDS_MAX {
            return None;
        }
        fields.push(field(std::str::from_utf8(head).ok()?, bytes)?);
        rest = after;
    }
    Some(fields)
}

fn field<'a>(head: &str, bytes: &'a [u8]) -> Option<Field<'a>> {
    let lines = || head.split("\r\n").filter_map(|line| line.split_once(':'));
    let said =
        |name: &str| lines().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, said)| said.trim());
    let disposition = || Parts(said("content-disposition").unwrap_or_default());
    disposition().next()?.eq_ignore_ascii_case("form-data").then_some(())?;
    Some(Field {
        name: disposition().find_map(|part| value(part, "name"))?,
        file_name: disposition().find_map(|part| value(part, "filename")),
        media_type: said("content-type").map(str::to_owned),
        bytes,
    })
}

/// The parts of a header's value, which semicolons divide unless they stand in quotes.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;
    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (mut quoted, mut escaped) = (false, false);
        let end = self.0.find(|c| {
            let is_end = c == ';' && !quoted;
            quoted ^= c == '"' && !escaped;
            escaped = c == '\\' && quoted && !escaped;
            is_end
        });
        let (part, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest.strip_prefix(';').unwrap_or(rest);
        Some(part.trim())
    }
}

/// What a part says, if it is of that name; without its quotes, and with what clients escape in them as it was.
fn value(part: &str, name: &str) -> Option<String> {
    let (known, said) = part.split_once('=')?;
    known.trim().eq_ignore_ascii_case(name).then_some(())?;
    let said = said.trim();
    let Some(quoted) = said.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Some(said.to_owned());
    };
    Some(quoted.replace("\\\"", "\"").replace("%22", "\""))
}

/// What stands before and after the first of these bytes.
fn cut<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut from = 0;
    loop {
        let found = from + text[from..].iter().position(|byte| *byte == at[0])?;
        match text[found..].strip_prefix(at) {
            Some(after) => return Some((&text[..found], after)),
            None => from = found + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(content_type: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        boundary(&headers)
    }

    #[test]
    fn a_form_is_known_by_its_boundary() {
        for (text, boundary) in [
            ("multipart/form-data; boundary=x", Some("x")),
            ("Multipart/Form-Data; charset=utf-8; boundary=\"a;b\"", Some("a;b")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/mixed; boundary=x", None),
            ("application/json; boundary=x", None),
        ] {
            assert_eq!(of(text).as_deref(), boundary, "{text}");
        }
        assert_eq!(of(&format!("multipart/form-data; boundary={}", "x".repeat(71))), None);
    }

    #[test]
    fn fields_are_read_as_they_were_written_whatever_bytes_a_file_has() {
        let form = b"--x\r\nContent-Disposition: form-data; name=\"number\"\r\n\r\n5511\r\n\
            --x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a;%22b\\\".bin\"\r\n\
            Content-Type: application/pdf\r\n\r\n\x00\r\n--y\r\n\xff\r\n--x\r\n\
            Content-Disposition: form-data; name=\"caption\"\r\n\r\n\r\n--x--\r\n";
        let fields = read(form, "x").unwrap();
        let text =
            |name: &str, bytes| Field { name: name.to_owned(), file_name: None, media_type: None, bytes };
        let file = Field {
            name: "file".to_owned(),
            file_name: Some("a;\"b\".bin".to_owned()),
            media_type: Some("application/pdf".to_owned()),
            bytes: b"\x00\r\n--y\r\n\xff",
        };
        assert_eq!(fields, [text("number", b"5511"), file, text("caption", b"")]);
        assert_eq!(read(b"--x--\r\n", "x"), Some(vec![]));
    }

    #[test]
    fn what_is_cut_off_or_no_form_is_refused() {
        let whole = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--";
        assert!(read(whole, "x").is_some());
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], "x"), None, "{end}");
        }
        assert_eq!(read(b"--x\r\n\r\nb\r\n--x--", "x"), None);
        assert_eq!(read(b"--x\r\nContent-Disposition: attachment; name=a\r\n\r\nb\r\n--x--", "x"), None);
        let mut long = b"--x".to_vec();
        for _ in 0..=FIELDS_MAX {
            long.extend_from_slice(b"\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n--x");
        }
        long.extend_from_slice(b"--");
        assert_eq!(read(&long, "x"), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..200), tail in ".{0,80}") {
            let head = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
            let whole = [&head[..], &content, tail.as_bytes(), b"\r\n--x--"].concat();
            if let Some(fields) = read(&whole, "x") {
                let bytes: usize = fields.iter().map(|field| field.bytes.len()).sum();
                prop_assert!(bytes <= content.len() + tail.len());
            }
        }
    }
}
