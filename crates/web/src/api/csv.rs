//! CSV that is answered with.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderValue, header};

use crate::problem::Problem;

/// A field, in quotes where it needs them.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

/// A field that no spreadsheet takes for a formula: what looks like one gets an apostrophe in front. A sign and digits
/// alone, as a phone number in E.164 is, can be computed without harm and stay as they are.
pub(crate) fn inert(text: &str) -> Cow<'_, str> {
    if is_formula(text) { Cow::Owned(quoted(&format!("'{text}")).into_owned()) } else { quoted(text) }
}

/// A field as it was before it was made inert.
pub(crate) fn alive(text: &str) -> &str {
    text.strip_prefix('\'').filter(|rest| is_formula(rest)).unwrap_or(text)
}

/// Apostrophes before it count for nothing, so that each field has one inert form of its own.
fn is_formula(text: &str) -> bool {
    let text = text.trim_start_matches('\'');
    match text.strip_prefix(['+', '-']) {
        Some(rest) => !rest.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.starts_with(['=', '@', '\t', '\r']),
    }
}

/// A file of that name: its head, and whatever follows as it is read.
///
/// A file that breaks off must not look whole: the connection ends with an error.
pub(crate) fn file(
    name: &'static str,
    head: &'static str,
    rest: impl Stream<Item = Result<String, Problem>> + Send + 'static,
) -> Response {
    streamed(name, "text/csv; charset=utf-8", head, rest)
}

/// The same for a file of another type.
pub(crate) fn streamed(
    name: &'static str,
    media: &'static str,
    head: &'static str,
    rest: impl Stream<Item = Result<String, Problem>> + Send + 'static,
) -> Response {
    let rest = rest.map(|lines| match lines {
        Ok(lines) => Ok(Bytes::from(lines)),
        Err(problem) => Err(std::io::Error::other(problem.code.as_str())),
    });
    let head = stream::iter([Ok(Bytes::from_static(head.as_bytes()))]);
    let mut response = Response::new(Body::from_stream(head.chain(rest)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    if let Ok(place) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, place);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_quoted_where_it_must_be() {
        for (text, field) in [("", ""), ("a b", "a b"), ("a,b", "\"a,b\""), ("a\"\n", "\"a\"\"\n\"")] {
            assert_eq!(quoted(text), field);
        }
    }

    #[test]
    fn nothing_in_a_report_is_computed_by_a_spreadsheet() {
        for (text, field) in [
            ("+5511987654321", "+5511987654321"),
            ("-5", "-5"),
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
            ("-2+3", "'-2+3"),
            ("\t=1", "'\t=1"),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("ana@x.example", "ana@x.example"),
            ("'=1", "''=1"),
            ("'tis", "'tis"),
        ] {
            assert_eq!(inert(text), field);
            if !field.starts_with('"') {
                assert_eq!(alive(field), text);
            }
        }
    }
}
