//! A message to create, as a caller writes it.

use pombo_kernel::name::Tenant;
use pombo_kernel::request::Refused;

use super::house::{NOW, SETUP};
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "\"channel\":",
    "\"to\":",
    "\"content\":",
    "\"payload\":",
    "\"template\":",
    "\"idempotency_key\":",
    "\"priority\":",
    "\"send_at\":\"2030-01-01T00:00:00Z\"",
    "\"expires_after\":\"30m\"",
    "\"retry\":{\"attempts\":3}",
    "\"metadata\":{}",
    "\"crm\"",
    "\"email\"",
    "\"whatsapp\"",
    "\"claims\"",
    "\"https://crm.example/hook\"",
    "\"a@x.example\"",
    "{\"body\":{}}",
    "{\"subject\":\"s\",\"text\":\"t\"}",
    "\"headers\":{\"x-a\":\"b\"}",
    "\"attachments\":[{\"filename\":\"a.pdf\",\"content\":\"JVBERg==\"}]",
    "null",
    "true",
];

/// The most problems that are told of one request.
const PROBLEMS_MAX: usize = 20;

pub(super) fn run(bytes: &[u8]) -> Sign {
    let tenant = Tenant::default();
    let drafted = SETUP.draft_json(bytes, &tenant, NOW);
    // Blanks around it change nothing.
    let padded = [b" \r\n\t", bytes, b"\n "].concat();
    let again = SETUP.draft_json(&padded, &tenant, NOW);
    match (&drafted, &again) {
        (Err(Refused::NotJson(bad)), Err(Refused::NotJson(_))) => {
            assert!(!bad.reason.is_empty() && bad.reason.len() < 500, "{bad}");
            Sign::of(("not json", bad.reason.split(' ').next()))
        }
        (Err(Refused::Problems(problems)), again) => {
            assert_eq!(again.as_ref().err(), drafted.as_ref().err());
            assert!((1..=PROBLEMS_MAX).contains(&problems.len()), "{problems:?}");
            for problem in problems {
                let said = [&problem.reason, &problem.hint];
                assert!(said.iter().all(|it| !it.is_empty() && it.len() < 2_000), "{problem:?}");
                let field = &*problem.field;
                assert!(field.len() < 2_000 && !field.contains(char::is_control), "{problem:?}");
            }
            let fields: Vec<_> = problems.iter().map(|it| (it.code, it.field.split('.').next())).collect();
            Sign::of(("problems", fields))
        }
        (Ok(it), again) => {
            assert_eq!(Some(it), again.as_ref().ok());
            let body = &it.draft.body;
            assert!((1..=4_096).contains(&body.to.len()));
            let limit = SETUP.limits.content_bytes;
            for json in [&body.content, &body.payload, &body.metadata].into_iter().flatten() {
                assert!(json.text().len() <= limit, "{} bytes", json.text().len());
                serde_json::from_str::<serde_json::Value>(json.text()).expect("what was taken is JSON");
            }
            assert!(it.draft.expires_at.is_none_or(|until| until > NOW));
            Sign::of(("taken", it.draft.queue.channel.as_str().to_owned(), body.template.is_some()))
        }
        (drafted, again) => panic!("{drafted:?}, with blanks around it {again:?}"),
    }
}
