//! Resend's reports of what became of a mail, and the proof that they are Resend's.

use serde_json::Value;

use super::{Delivery, Report};
use crate::signature::{SigningKey, verify};
use crate::time::{Span, Time};

/// How far a report's time may be from ours, either way: an old one may be played back by a stranger.
const TOLERANCE: Span = Span::from_secs(300);
const ID_BYTES_MAX: usize = 256;
const DETAIL_BYTES_MAX: usize = 512;

/// Says whether a report was signed with this key, and lately. The three values stand in the headers `svix-id`,
/// `svix-timestamp` and `svix-signature`, or in those of the same names that begin with `webhook-`.
pub fn verified(
    key: &SigningKey,
    id: &str,
    timestamp: &str,
    signature: &str,
    body: &[u8],
    now: Time,
) -> Result<(), &'static str> {
    let seconds: i64 = timestamp.parse().map_err(|_| "the timestamp is not a number of seconds")?;
    let sent = Time::from_millis(seconds.saturating_mul(1000));
    if !verify(key, id, timestamp, body, signature) {
        return Err("no signature is this secret's");
    }
    if now.since(sent) > TOLERANCE || sent.since(now) > TOLERANCE {
        return Err("the timestamp is more than five minutes from our clock");
    }
    Ok(())
}

/// What a report says of one mail; nothing if it is about something else, or says nothing new.
pub fn report(body: &Value) -> Option<Report> {
    let data = body.get("data")?;
    let words = |path: &str| data.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (delivery, detail) = match body.get("type")?.as_str()? {
        "email.sent" => (Delivery::Accepted, None),
        "email.delivered" => (Delivery::Delivered, None),
        "email.bounced" => {
            let kind = [words("/bounce/type"), words("/bounce/subType")];
            (Delivery::Bounced, said(&kind, words("/bounce/message")))
        }
        "email.complained" => (Delivery::Complained, None),
        "email.opened" | "email.clicked" => (Delivery::Read, None),
        "email.failed" => (Delivery::Failed, said(&[words("/failed/reason")], "")),
        "email.suppressed" => {
            let kind = ["suppressed", words("/suppressed/type"), words("/suppressed/reason")];
            (Delivery::Failed, said(&kind, words("/suppressed/message")))
        }
        _ => return None,
    };
    let id = data.get("email_id")?.as_str().filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()))?;
    let at = body.get("created_at").and_then(Value::as_str).and_then(|text| text.parse().ok());
    Some(Report { provider_id: id.to_owned(), delivery, detail, at })
}

/// `kind/kind: message`, on one line, bounded, and without anybody's address: what a mail server answers often
/// repeats the recipient.
fn said(kind: &[&str], message: &str) -> Option<String> {
    let kind: Vec<&str> = kind.iter().copied().filter(|word| !word.is_empty()).collect();
    let parts = [kind.join("/"), message.to_owned()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let plain = parts.join(": ").replace(|c: char| c.is_control(), " ");
    let masked: Vec<&str> = plain.split_whitespace().map(mask).collect();
    let mut detail = crate::mask::personal(&masked.join(" ")).into_owned();
    detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
    (!detail.is_empty()).then_some(detail)
}

fn mask(word: &str) -> &str {
    let has_at = word.contains(['@', '\u{FF20}', '\u{FE6B}']) || word.contains("%40");
    if has_at { "***" } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use proptest::prelude::*;
    use serde_json::json;

    fn of(kind: &str, more: &Value) -> Option<Report> {
        let mut data = json!({"email_id": "56761188", "to": ["ana@clinic.example"], "subject": "s"});
        if let (Some(data), Some(more)) = (data.as_object_mut(), more.as_object()) {
            data.extend(more.clone());
        }
        report(&json!({"type": kind, "created_at": "2026-02-22T23:41:12.126Z", "data": data}))
    }

    fn check(kind: &str, more: &Value, delivery: Delivery, detail: Option<&str>) {
        let found = of(kind, more).unwrap();
        assert_eq!((found.delivery, found.detail.as_deref()), (delivery, detail), "{kind}");
        assert_eq!(found.provider_id, "56761188");
        assert_eq!(found.at, Some("2026-02-22T23:41:12.126Z".parse().unwrap()));
    }

    #[test]
    fn every_event_of_a_mail_moves_its_delivery_or_nothing() {
        check("email.sent", &json!({}), Delivery::Accepted, None);
        check("email.delivered", &json!({}), Delivery::Delivered, None);
        check("email.complained", &json!({}), Delivery::Complained, None);
        check("email.opened", &json!({}), Delivery::Read, None);
        check("email.clicked", &json!({"click": {"link": "https://x/"}}), Delivery::Read, None);
        let failed = json!({"failed": {"reason": "reached_daily_quota"}});
        check("email.failed", &failed, Delivery::Failed, Some("reached_daily_quota"));
        let bounced =
            json!({"bounce": {"type": "Permanent", "subType": "NoEmail", "message": "No such user."}});
        check("email.bounced", &bounced, Delivery::Bounced, Some("Permanent/NoEmail: No such user."));
        let suppressed =
            json!({"suppressed": {"type": "OnAccountSuppressionList", "message": "It bounced."}});
        let detail = "suppressed/OnAccountSuppressionList: It bounced.";
        check("email.suppressed", &suppressed, Delivery::Failed, Some(detail));
        check("email.bounced", &json!({}), Delivery::Bounced, None);
        for other in [
            "email.delivery_delayed",
            "email.scheduled",
            "email.received",
            "contact.created",
            "domain.updated",
            "suppression.added",
            "",
        ] {
            assert_eq!(of(other, &json!({})), None, "{other}");
        }
    }

    #[test]
    fn a_report_without_a_usable_id_is_none() {
        for id in [json!(null), json!(7), json!(""), json!("x".repeat(300))] {
            assert_eq!(of("email.delivered", &json!({"email_id": id})), None);
        }
        assert_eq!(report(&json!({"type": "email.delivered"})), None);
        assert_eq!(report(&json!([])), None);
    }

    #[test]
    fn a_time_that_cannot_be_read_is_left_out() {
        let at = |text: &str| {
            let body = json!({"type": "email.sent", "created_at": text, "data": {"email_id": "x"}});
            report(&body).unwrap().at.map(Time::millis)
        };
        for same in [
            "2026-02-22T23:41:12.126+00:00",
            "2026-02-22 23:41:12.126123+00",
            "2026-02-22T20:41:12.126-03:00",
        ] {
            assert_eq!(at(same), at("2026-02-22T23:41:12.126Z"), "{same}");
            assert!(at(same).is_some());
        }
        assert_eq!(at("yesterday"), None);
        assert_eq!(at("2026-02-22T23:41:12"), None);
    }

    #[test] // REQ SE-2
    fn a_detail_names_nobody_and_stays_on_one_line() {
        let message = "smtp; 550 5.1.1\r\n <ana@clinic.example>: user ana%40clinic.example\0 unknown";
        let bounced = json!({"bounce": {"type": "Permanent", "message": message}});
        let detail = "Permanent: smtp; 550 5.1.1 *** user *** unknown";
        check("email.bounced", &bounced, Delivery::Bounced, Some(detail));
        let long = json!({"bounce": {"message": "é".repeat(4000)}});
        assert_eq!(of("email.bounced", &long).unwrap().detail.unwrap().len(), DETAIL_BYTES_MAX);
    }

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const SIGNATURE: &str = "v1,zM805ub/HuNgRQquf7DOmQTAXz4paUhBB8MyV0LLA4M=";
    const BODY: &[u8] = br#"{"a":1}"#;

    fn at(seconds: i64, timestamp: &str, signature: &str) -> Result<(), &'static str> {
        let key = SigningKey::from_secret(&Secret::new(SECRET)).unwrap();
        verified(&key, "msg_test", timestamp, signature, BODY, Time::from_millis(seconds * 1000))
    }

    #[test]
    fn the_published_vector_is_taken_within_five_minutes_either_way() {
        for seconds in [1_700_000_000, 1_700_000_300, 1_699_999_700] {
            assert_eq!(at(seconds, "1700000000", SIGNATURE), Ok(()), "{seconds}");
        }
        for seconds in [1_700_000_301, 1_699_999_699, 0, i64::MAX / 1000] {
            assert!(at(seconds, "1700000000", SIGNATURE).is_err(), "{seconds}");
        }
    }

    #[test]
    fn what_is_not_signed_or_not_dated_is_refused() {
        for (timestamp, signature) in [
            ("1700000001", SIGNATURE),
            ("1700000000", "v1,AAAA"),
            ("1700000000", ""),
            ("", SIGNATURE),
            ("soon", SIGNATURE),
            ("99999999999999999999", SIGNATURE),
            ("-9223372036854775808", SIGNATURE),
        ] {
            assert!(at(1_700_000_000, timestamp, signature).is_err(), "{timestamp} {signature}");
        }
        assert_eq!(at(1_700_000_000, "1700000000", &format!("v2,x {SIGNATURE}")), Ok(()));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let key = prop::sample::select(vec![
                "type",
                "data",
                "email_id",
                "bounce",
                "subType",
                "message",
                "failed",
                "reason",
                "created_at",
            ]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body in any_json()) {
            let _ = report(&body);
        }

        #[test]
        fn no_words_of_a_bounce_break_the_detail(kind in ".{0,80}", message in "(\\PC|[\\x00-\\x1f@]){0,700}") {
            let found = of("email.bounced", &json!({"bounce": {"type": kind, "message": message}})).unwrap();
            let detail = found.detail.unwrap_or_default();
            prop_assert!(detail.len() <= DETAIL_BYTES_MAX);
            prop_assert!(!detail.contains('@') && !detail.chars().any(char::is_control));
        }

        #[test]
        fn no_headers_make_it_panic(timestamp in ".{0,24}", signature in ".{0,60}", now in any::<i64>()) {
            let key = SigningKey::from_secret(&Secret::new(SECRET)).unwrap();
            let result = verified(&key, "m", &timestamp, &signature, BODY, Time::from_millis(now));
            prop_assert!(result.is_err());
        }
    }
}
