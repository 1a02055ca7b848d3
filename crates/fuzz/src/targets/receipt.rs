//! What providers report later, and how they show who they are.

use pombo_kernel::delivery::{Report, evolution, resend, token};
use pombo_kernel::secret::Secret;
use pombo_kernel::signature::{SigningKey, sign, verify};
use serde_json::Value;

use super::house::NOW;
use super::{parts, text};
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "\n===\n",
    "{\"event\":\"messages.update\",\"data\":",
    "{\"keyId\":\"3EB0AA\",\"fromMe\":true,\"status\":\"READ\",\"remoteJid\":\"5511987654321@s.whatsapp.net\"}",
    "\"status\":\"DELIVERY_ACK\"",
    "\"status\":\"ERROR\"",
    "{\"type\":\"email.bounced\",\"created_at\":\"2026-01-01T00:00:00Z\",\"data\":{\"email_id\":\"a\",",
    "\"bounce\":{\"type\":\"Permanent\",\"subType\":\"General\",\"message\":\"no such user ana@x.example\"}",
    "\"email.complained\"",
    "\"email.failed\"",
    "v1,",
    "v1a,",
    "eyJhbGciOiJub25lIn0.e30.",
    "eyJhbGciOiJIUzI1NiJ9",
];

/// A provider's words beside the report, in bytes.
const DETAIL_MAX: usize = 600;

pub(super) fn run(bytes: &[u8]) -> Sign {
    let parts = parts(bytes);
    let (body, shown) = (parts[0], text(parts.get(1).copied().unwrap_or_default()));
    let secret = Secret::new("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".to_owned());
    let key = SigningKey::from_secret(&secret).expect("a secret as Standard Webhooks has them");
    let timestamp = (NOW.millis() / 1_000).to_string();
    let good = sign(std::slice::from_ref(&key), "id", &timestamp, body);
    assert!(resend::verified(&key, "id", &timestamp, &good, body, NOW).is_ok());
    // Nobody signs by chance, and nobody shows a secret by it.
    let forged = shown.split_whitespace().all(|word| word != good);
    assert!(!forged || !verify(&key, "id", &timestamp, body, &shown));
    assert!(resend::verified(&key, "id", &shown, &good, body, NOW).is_err() || *shown == timestamp);
    assert!(!token::shown(&Secret::new("0123456789abcdef".to_owned()), &shown, NOW));

    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut reports = evolution::reports(&said);
    reports.extend(resend::report(&said));
    for report in &reports {
        assert!((1..=256).contains(&report.provider_id.len()), "{report:?}");
        let detail = report.detail.as_deref().unwrap_or_default();
        assert!(detail.len() <= DETAIL_MAX && !detail.contains(['\n', '\0']), "{report:?}");
        assert!(!detail.contains('@'), "nobody's address: {report:?}");
        forward(report);
    }
    Sign::of(reports.iter().map(|it| (it.delivery, it.detail.is_some())).take(3).collect::<Vec<_>>())
}

/// What was heard once is not heard again, and nothing goes back.
fn forward(report: &Report) {
    let word = report.beyond(None, NOW).expect("the first report says something");
    assert_eq!(report.beyond(Some(word.state), NOW), None);
}
