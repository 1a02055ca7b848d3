//! Forms with files in them (RFC 7578), read from a body that is there as a whole, and bounded as every body is.

use bytes::Bytes;
use http::HeaderValue;

/// More parts than any form of ours has.
const PARTS_MAX: usize = 1_000;
/// The longest head of a part.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The longest boundary that there may be.
const BOUNDARY_BYTES_MAX: usize = 70;

/// A field of the form, or a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) is_file: bool,
    /// A slice of the body: nothing is copied.
    pub(super) content: Bytes,
}

/// What stands between the parts, if the body is such a form.
pub(super) fn boundary(kind: &HeaderValue) -> Option<String> {
    let text = kind.to_str().ok()?;
    let (essence, rest) = text.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let pairs = rest.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, boundary) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.trim().trim_matches('"');
    (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()).then(|| boundary.to_owned())
}

/// The parts of a body, in order; nothing if it is not such a form, or not all of it is there.
pub(super) fn parts(body: &Bytes, boundary: &str) -> Option<Vec<Part>> {
    let delimiter = format!("--{boundary}");
    let between = format!("\r\n{delimiter}");
    let mut at = find(body, delimiter.as_bytes(), 0)? + delimiter.len();
    let mut parts = Vec::new();
    loop {
        let rest = body.get(at..)?;
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        let head_at = at + find(rest, b"\r\n", 0)? + 2;
        let head_end = find(body, b"\r\n\r\n", head_at).filter(|end| end - head_at <= HEAD_BYTES_MAX)?;
        let content_at = head_end + 4;
        let end = find(body, between.as_bytes(), content_at)?;
        if let Some((name, is_file)) = named(std::str::from_utf8(&body[head_at..head_end]).ok()?) {
            parts.push(Part { name, is_file, content: body.slice(content_at..end) });
        }
        if parts.len() > PARTS_MAX {
            return None;
        }
        at = end + between.len();
    }
}

/// The field's name, and whether it is a file's, by the head of a part.
fn named(head: &str) -> Option<(String, bool)> {
    let lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let said = lines.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"))?;
    let name = parameter(said.1, "name")?;
    Some((name, parameter(said.1, "filename").is_some()))
}

/// A parameter in quotes, in which browsers write a quote as `%22`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(';') {
        let (key, value) = after.trim_start().split_once('=')?;
        let quoted = value.strip_prefix('"')?;
        let (value, more) = quoted.split_once('"')?;
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.replace("%22", "\""));
        }
        rest = more;
    }
    None
}

/// Where `wanted` stands next, from there on.
fn find(text: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let first = *wanted.first()?;
    let mut at = from;
    while let Some(next) = text.get(at..)?.iter().position(|byte| *byte == first) {
        at += next;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str) -> Option<Vec<(String, bool, String)>> {
        let parts = parts(&Bytes::from(body.to_owned()), "xyz")?;
        let text = |part: &Part| String::from_utf8(part.content.to_vec()).unwrap();
        Some(parts.iter().map(|part| (part.name.clone(), part.is_file, text(part))).collect())
    }

    #[test]
    fn fields_and_files_are_told_apart_and_kept_as_they_are() {
        let body = "--xyz\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nabc\r\n\
                    --xyz\r\ncontent-disposition: form-data; name=\"list\"; filename=\"a;\u{e9}%22.csv\"\r\n\
                    Content-Type: text/csv\r\n\r\nto;name\r\n--xy\r\n\r\n--xyz--\r\n";
        let file = "to;name\r\n--xy\r\n".to_owned();
        let wanted = [("csrf".to_owned(), false, "abc".to_owned()), ("list".to_owned(), true, file)];
        assert_eq!(read(body).unwrap(), wanted);
        assert_eq!(read("--xyz--\r\n").unwrap(), []);
    }

    #[test]
    fn a_form_that_breaks_off_is_none() {
        let body = "--xyz\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nabc\r\n--xyz--\r\n";
        assert!(read(body).is_some());
        for end in 0..body.len() - 4 {
            assert_eq!(read(&body[..end]), None, "{end}");
        }
    }

    #[test]
    fn the_boundary_is_found_however_it_is_written() {
        let of = |kind: &'static str| boundary(&HeaderValue::from_static(kind));
        assert_eq!(of("multipart/form-data; boundary=abc").as_deref(), Some("abc"));
        assert_eq!(of("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\"").as_deref(), Some("a b"));
        for other in
            ["application/x-www-form-urlencoded", "multipart/form-data", "multipart/mixed; boundary=a"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200), tail in ".{0,80}") {
            let body = [&b"--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n"[..], &body, tail.as_bytes(), b"\r\n--xyz--"].concat();
            let whole = Bytes::from(body);
            if let Some(parts) = parts(&whole, "xyz") {
                prop_assert!(parts.iter().all(|part| part.content.len() <= whole.len()));
            }
        }
    }
}
