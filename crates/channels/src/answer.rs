//! What HTTP answers have in common, whoever gives them: their words and their hints.

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use pombo_kernel::reply::Refusal;
use url::{Position, Url};

use crate::client::Answer;

/// How much of a refusal's words is kept.
const TEXT_BYTES_MAX: usize = 4096;
const HINTS_MAX: usize = 16;
const HINT_BYTES_MAX: usize = 256;

/// The value of `host` for a URL.
pub(crate) fn host_header(url: &Url) -> Result<HeaderValue, String> {
    HeaderValue::from_str(&url[Position::BeforeHost..Position::BeforePath])
        .map_err(|_| "the URL has no usable host".to_owned())
}

/// A refusal in the answer's own words.
pub(crate) fn refusal(answer: &Answer) -> Refusal {
    Refusal {
        status: Some(answer.status.as_u16()),
        text: words(&answer.body),
        hints: hints(&answer.headers),
        ..Refusal::default()
    }
}

/// Whether a gateway speaks for a server that it lost on the way: what was sent may have arrived.
pub(crate) fn is_lost_on_the_way(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502 | 504 | 520..=527)
}

/// The start of a body as text that any store can hold: valid, bounded, without NUL.
pub(crate) fn words(body: &[u8]) -> String {
    // A little more than is kept, so that a character on the edge is not taken for a broken one.
    let mut text =
        String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX + 4)]).replace('\0', "\u{FFFD}");
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

/// The headers by which a receiver says when to come back.
pub(crate) fn hints(headers: &HeaderMap) -> Vec<(String, String)> {
    let telling = |name: &str| {
        name == "retry-after"
            || ["ratelimit", "x-ratelimit", "x-rate-limit"].iter().any(|p| name.starts_with(p))
    };
    headers
        .iter()
        .filter(|(name, value)| telling(name.as_str()) && value.len() <= HINT_BYTES_MAX)
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .take(HINTS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{self, HeaderName};

    #[test]
    fn words_end_at_a_whole_character() {
        let body = "é".repeat(4000);
        assert_eq!(words(body.as_bytes()), "é".repeat(2048));
        let odd = format!("x{body}");
        assert_eq!(words(odd.as_bytes()).len(), 4095);
        assert_eq!(words(&[0xff; 9000]).len(), 4095);
        assert_eq!(words(b""), "");
    }

    #[test]
    fn hints_are_few_and_short() {
        let mut headers = HeaderMap::new();
        for i in 0..100 {
            headers.insert(HeaderName::try_from(format!("x-ratelimit-{i}")).unwrap(), HeaderValue::from(i));
        }
        assert_eq!(hints(&headers).len(), HINTS_MAX);
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::try_from("9".repeat(1000)).unwrap());
        headers.insert(header::SERVER, HeaderValue::from_static("x"));
        assert_eq!(hints(&headers), []);
    }
}
