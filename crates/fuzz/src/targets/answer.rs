//! What providers answer: a status, headers and a body over HTTP, or lines over SMTP.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use pombo_channels::client::Answer;
use pombo_channels::smtp::fuzz::{Reply as Said, broken_off, reply};
use pombo_channels::{evolution, resend};
use pombo_kernel::classify::{Rules, claim_error, read};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::mask;
use pombo_kernel::reply::{Refusal, Reply};

use super::house::NOW;
use super::{parts, text};
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "\n===\n",
    "429",
    "201",
    "retry-after: 120\n",
    "ratelimit-remaining: 0\n",
    "{\"key\":{\"id\":\"3EB0\"}}",
    "{\"id\":\"a\"}",
    "{\"name\":\"rate_limit_exceeded\",\"message\":\"enough\"}",
    "{\"statusCode\":403,\"name\":\"invalid_api_key\"}",
    "{\"error\":{\"code\":131026,\"message\":\"no\"}}",
    "{\"response\":{\"message\":[{\"exists\":false,\"number\":\"5511\"}]}}",
    "{\"instance\":{\"state\":\"open\"}}",
    "host mx said: 550-5.1.1 no one (in reply to RCPT TO command)",
    "connect ECONNREFUSED",
    "glosa 1308",
    "123.456.789-09",
    "+55 11 98765-4321",
    "ana@clinica.example",
];

pub(super) const SMTP_WORDS: &[&str] = &[
    "250 ok\r\n",
    "250-",
    "550 5.1.1 no such user\r\n",
    "421 4.7.0 try again in 300 seconds\r\n",
    "\n",
    "#5.1.1",
    "(#4.2.2)",
    "554",
    "199",
    "600",
];

/// How much of a provider's words is kept.
const WORDS_MAX: usize = 4_096 + 64;

/// What a channel makes of an answer can be stored anywhere.
pub(super) fn storable(reply: &Reply) {
    let words = bounded(reply);
    assert!(!words.contains('\0'), "{words:?}");
}

/// A reply takes no more room than there is for it. Its words.
pub(super) fn bounded(reply: &Reply) -> String {
    let (words, name) = match reply {
        Reply::Accepted(receipt) => {
            assert!(
                receipt.provider_id.as_ref().is_none_or(|id| (1..=1_024).contains(&id.len())),
                "{receipt:?}"
            );
            (receipt.note.clone().unwrap_or_default(), None)
        }
        Reply::Refused(refusal) => (refusal.text.clone(), refusal.name.clone()),
        Reply::Unreachable(fault) | Reply::Doubtful(fault) => (fault.text.clone(), None),
    };
    assert!(words.len() <= WORDS_MAX, "{} bytes: {words}", words.len());
    assert!(name.is_none_or(|name| (1..=256).contains(&name.len())), "{reply:?}");
    words
}

pub(super) fn run(bytes: &[u8]) -> Sign {
    let parts = parts(bytes);
    let [head, body, ..] = [parts[0], parts.get(1).copied().unwrap_or_default()];
    let (head, said) = (text(head), text(body));
    let status = head.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or(200);
    let headers: Vec<(String, String)> = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut signs = Vec::new();
    for kind in ChannelKind::ALL {
        let rules = Rules::for_kind(kind, &[]).unwrap();
        for reply in [read::http(kind, status, &headers, &said), read::error(kind, &said)] {
            bounded(&reply);
            let meaning = rules.classify(&reply);
            let accepted = matches!(reply, Reply::Accepted(_));
            assert_eq!(
                meaning.is_none(),
                accepted,
                "{kind}: whatever is no success means something: {reply:?}"
            );
            signs.push(meaning.map(|meaning| meaning.category));
            let _ = read::explain(&rules, &reply, NOW);
        }
    }
    let _ = claim_error(&said);
    if let Ok(status) = StatusCode::from_u16(status) {
        for whole in [true, false] {
            let answer = Answer { status, headers: map(&headers), body: body.to_vec(), whole };
            let (sent, _) = evolution::fuzz::read(&answer);
            storable(&sent);
            assert!(!matches!(sent, Reply::Accepted(_)) || status.is_success());
            storable(&Reply::Refused(resend::fuzz::refusal(&answer)));
        }
    }
    // A second look may take more away, and gives nothing back.
    let masked = mask::personal(&said).into_owned();
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
    assert!(digits(&masked) <= digits(&said) && digits(&mask::personal(&masked)) <= digits(&masked));
    Sign::of(signs)
}

fn map(headers: &[(String, String)]) -> HeaderMap {
    let known = headers.iter().filter_map(|(name, value)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
    });
    known.collect()
}

/// Replies of mail servers: what is whole is whole whatever follows, and nothing less than it is.
pub(super) fn smtp_reply(bytes: &[u8]) -> Sign {
    let heard = reply(bytes);
    if let Said::Whole { used, positive, lines, refusal } = &heard {
        assert!((1..=bytes.len()).contains(used));
        assert_eq!(reply(&bytes[..*used]), heard, "what follows changes nothing");
        let steps = (*used / 64).max(1);
        for shorter in (0..*used).step_by(steps) {
            assert_eq!(reply(&bytes[..shorter]), Said::More, "{shorter} of {used} bytes");
        }
        assert_eq!(*positive, refusal.status.is_some_and(|code| code < 400));
        assert!(!lines.is_empty());
        storable(&Reply::Refused(refusal.clone()));
        enhanced(refusal);
    }
    if heard == Said::More {
        // Its end may still come: nothing that was said so far says otherwise.
        let ended = reply(&[bytes, b"\n"].concat());
        assert!(ended != Said::More || bytes.is_empty() || bytes.contains(&b'-'), "{ended:?}");
    }
    let broken = broken_off(bytes);
    if let Some(refusal) = &broken {
        assert!(refusal.status.is_some_and(|code| (400..600).contains(&code)), "{refusal:?}");
        storable(&Reply::Refused(refusal.clone()));
    }
    bounded(&read::smtp(&text(bytes)));
    match heard {
        Said::Whole { positive, refusal, lines, .. } => {
            Sign::of((0, positive, refusal.enhanced.is_some(), lines.len().min(3), broken.is_some()))
        }
        Said::More => Sign::of((1, broken.is_some())),
        Said::Noise => Sign::of((2, broken.is_some())),
    }
}

fn enhanced(refusal: &Refusal) {
    if let Some(code) = refusal.enhanced {
        assert!(matches!(code.class, 2 | 4 | 5), "{code:?}");
        assert_eq!(read::enhanced(&code.to_string()), Some(code), "it is written as it is read");
    }
}
