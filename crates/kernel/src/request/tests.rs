use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::classify::Rules;
use crate::guard::Guard;
use crate::kind::ChannelKind;
use crate::lifecycle::OnUnknownOutcome;
use crate::policy::{Policy, Profile};
use crate::setup::{Care, Destination, LaneSetup, Limits, Route};

const NOW: Time = Time::from_millis(1_800_000_000_000);

fn setup() -> Setup {
    let channel = |name: &str, kind, policy: &str, tenant: &str| {
        let channel = ChannelSetup {
            name: name.parse().unwrap(),
            kind,
            tenant: tenant.parse().unwrap(),
            policy: Policy::built_in(policy, Profile::Production).unwrap(),
            rules: Rules::for_kind(kind, &[]).unwrap(),
            on_unknown_outcome: OnUnknownOutcome::Resend,
            destination: match kind {
                ChannelKind::Webhook => Destination::Host,
                _ => Destination::Fixed(name.into()),
            },
            attempt_timeout: Span::from_secs(30),
            unready: None,
            receipts: None,
            line: crate::campaign::line::LineRules::default(),
            suppressions: crate::setup::Suppressions::default(),
            care: Care::default(),
        };
        (channel.name.clone(), Arc::new(channel))
    };
    Setup {
        channels: [
            channel("crm", ChannelKind::Webhook, "webhook", "default"),
            channel("whatsapp", ChannelKind::Evolution, "whatsapp", "default"),
            channel("claims", ChannelKind::Tiss, "claims", "default"),
            channel("theirs", ChannelKind::Webhook, "webhook", "other"),
        ]
        .into(),
        lanes: ["default", "realtime", "bulk"]
            .map(|name| (name.parse().unwrap(), LaneSetup { workers: 4 }))
            .into(),
        routes: vec![Route { kind: "send_bulk_messages".into(), lane: "bulk".parse().unwrap() }],
        limits: Limits { content_bytes: 1_000, ..Limits::default() },
        subscribers: Guard::default(),
        claims: Policy::claims(),
        alerts: Arc::default(),
        masked: std::collections::BTreeSet::new(),
        retention: Default::default(),
        dashboard: crate::setup::Dashboard::default(),
    }
}

fn drafted(request: &Value) -> Result<Drafted, Refused> {
    setup().draft_json(request.to_string().as_bytes(), &Tenant::default(), NOW)
}

fn good() -> Value {
    json!({"channel": "crm", "to": "https://crm.example/hook", "content": {"body": {"a": 1}}})
}

/// A good request with some fields changed; a null takes one away.
fn with(changes: &Value) -> Value {
    let mut request = good();
    for (field, value) in changes.as_object().unwrap() {
        request[field] = value.clone();
    }
    request
}

fn accepted(changes: &Value) -> Draft {
    drafted(&with(changes)).unwrap_or_else(|refused| panic!("{changes}: {refused:?}")).draft
}

fn problems(request: &Value) -> Vec<Problem> {
    match drafted(request) {
        Err(Refused::Problems(problems)) => problems,
        other => panic!("{request}: {other:?}"),
    }
}

/// Exactly one problem, with this code and field; its reason and hint hold these words.
fn refused(changes: &Value, code: Code, field: &str, reason: &str, hint: &str) {
    let found = problems(&with(changes));
    let [problem] = &found[..] else { panic!("{changes}: {found:?}") };
    assert_eq!((problem.code, &*problem.field), (code, field), "{problem:?}");
    assert!(problem.reason.contains(reason), "{problem:?}");
    assert!(problem.hint.contains(hint), "{problem:?}");
}

#[test] // REQ IN-1
fn the_full_example_becomes_a_draft() {
    let draft = accepted(&json!({
        "type": "send_bulk_messages", "template": null, "payload": null, "lane": null, "priority": 7,
        "send_at": "2027-02-01T00:00:00Z", "expires_after": "7000h", "reference": "crm-8812", "user_id": "u",
        "ordering_key": "k", "metadata": {"b": 1.0, "a": 2}, "retry": {"attempts": 2},
    }));
    assert_eq!(draft.queue.lane.as_str(), "bulk");
    assert_eq!(&*draft.queue.destination, "crm.example");
    assert_eq!(draft.priority.get(), 7);
    assert_eq!(draft.send_at, Some("2027-02-01T00:00:00Z".parse().unwrap()));
    assert_eq!(draft.expires_at, Some(NOW + Span::from_hours(7_000)));
    assert_eq!(draft.body.retry.unwrap().attempts, Some(2));
    assert_eq!(draft.ordering_key.as_deref(), Some("k"));
}

#[test]
fn little_is_needed() {
    let draft = accepted(&json!({}));
    assert_eq!((draft.priority.get(), draft.send_at, draft.expires_at), (5, None, None));
    assert_eq!(draft.queue.lane, LaneName::default());
}

#[test]
fn content_keeps_the_text_that_it_came_as() {
    let text = br#" {"channel":"crm","to":"https://x/","content": {"body": {"b":1.0, "a":123456789012345678901} } }"#;
    let draft = setup().draft_json(text, &Tenant::default(), NOW).unwrap().draft;
    assert_eq!(draft.body.content.unwrap().text(), r#"{"body": {"b":1.0, "a":123456789012345678901} }"#);
}

#[test]
fn a_wrong_type_names_the_field_the_type_and_the_remedy() {
    let invalid = Code::InvalidField;
    refused(&json!({"channel": 7}), invalid, "channel", "a number, not text", "configured channels");
    refused(&json!({"to": ["a"]}), invalid, "to", "a list, not text", "recipient");
    refused(&json!({"type": {}}), invalid, "type", "an object, not text", "double quotes");
    refused(&json!({"priority": "high"}), invalid, "priority", "0 to 9", "9 goes first");
    refused(&json!({"priority": 10}), invalid, "priority", "0 to 9", "9 goes first");
    refused(&json!({"priority": 1.5}), invalid, "priority", "0 to 9", "9 goes first");
    refused(&json!({"priority": -1}), invalid, "priority", "0 to 9", "9 goes first");
    refused(&json!({"send_at": 1_800_000_000}), invalid, "send_at", "a number", "T10:20:30Z");
    refused(&json!({"send_at": "tomorrow"}), invalid, "send_at", "is not a time", "T10:20:30Z");
    refused(&json!({"expires_after": 48}), invalid, "expires_after", "a number", "48h");
    refused(&json!({"expires_after": "soon"}), invalid, "expires_after", "is not a length of time", "48h");
    refused(&json!({"metadata": []}), invalid, "metadata", "a list, not an object", "name");
    refused(&json!({"retry": {"attempt": 3}}), invalid, "retry", "unknown field `attempt`", "attempts");
    refused(&json!({"retry": 3}), invalid, "retry", "cannot be read", "attempts");
    refused(&json!({"idempotency_key": 3}), invalid, "idempotency_key", "a number", "quotes");
    refused(&json!({"idempotency_key": "é"}), invalid, "idempotency_key", "256 visible", "UUID");
}

#[test]
fn a_request_that_is_no_object_says_so() {
    for (text, what) in
        [("[]", "a list"), ("null", "null"), (" 7", "a number"), ("\"a\"", "text"), ("true", "true")]
    {
        let refused = setup().draft_json(text.as_bytes(), &Tenant::default(), NOW).unwrap_err();
        let Refused::Problems(found) = refused else { panic!("{text}") };
        assert_eq!((found.len(), &*found[0].field), (1, "body"));
        assert!(found[0].reason.contains(what), "{found:?}");
    }
}

#[test]
fn malformed_json_names_the_place() {
    let check = |text: &str, line: usize, column: usize, words: &str| {
        let Err(Refused::NotJson(bad)) = Request::read(text.as_bytes()) else { panic!("{text}") };
        assert_eq!((bad.line, bad.column), (line, column), "{bad}");
        assert!(bad.reason.contains(words) && !bad.reason.contains("line"), "{bad}");
    };
    check("{\n  \"channel\": crm\n}", 2, 14, "expected value");
    check("", 1, 0, "EOF");
    check("{\"a\":1", 1, 6, "EOF");
    check("{} {}", 1, 4, "trailing");
    check("[1,]", 1, 4, "expected value");
    assert!(Request::read(b"{\"channel\":\"\xff\"}").is_err());
}

#[test]
fn unknown_fields_are_refused_with_the_likely_name() {
    refused(&json!({"chanel": "crm"}), Code::InvalidField, "chanel", "not a field", "`channel`");
    refused(&json!({"colour": 1}), Code::InvalidField, "colour", "not a field", "metadata");
}

#[test]
fn an_unknown_channel_and_one_of_another_tenant_look_the_same() {
    let [strange, foreign] = ["thoirs", "theirs"].map(|name| problems(&with(&json!({"channel": name}))));
    assert_eq!(strange[0].code, Code::UnknownChannel);
    assert_eq!(strange[0].hint, foreign[0].hint);
    assert_eq!(strange[0].reason.replace("thoirs", "theirs"), foreign[0].reason);
    assert!(!foreign[0].hint.contains("theirs"), "{foreign:?}");
    refused(&json!({"channel": "whatsap"}), Code::UnknownChannel, "channel", "`whatsap`", "`whatsapp`");
}

#[test]
fn a_message_says_one_thing() {
    refused(&json!({"content": null}), Code::InvalidField, "content", "is missing", "\"body\"");
    let template = json!({"content": null, "template": "Bem Vindo", "payload": {"a": 1}});
    refused(&template, Code::TemplateNotFound, "template", "`Bem Vindo`", "`content`");
    refused(&json!({"template": "welcome"}), Code::InvalidField, "content", "beside a template", "one of");
    refused(&json!({"payload": {"a": 1}}), Code::InvalidField, "payload", "without a template", "metadata");
}

#[test]
fn content_that_the_channel_does_not_take_is_refused() {
    let refuse = |changes: &Value, field| {
        refused(changes, Code::ContentNotAccepted, field, "kind", "");
    };
    refuse(&json!({"content": {"text": "oi"}}), "content.text");
    refuse(&json!({"content": 7}), "content");
    refuse(&json!({"channel": "whatsapp", "to": "+5511987654321", "content": {}}), "content");
    refused(&json!({"to": "ftp://x"}), Code::InvalidField, "to", "http", "https://");
}

#[test] // REQ ML-10
fn content_beyond_the_limit_is_refused() {
    let large = "x".repeat(1_000);
    refused(&json!({"content": {"body": large}}), Code::TooLarge, "content", "at most 1000", "link");
    refused(
        &json!({"metadata": {"a": "x".repeat(20_000)}}),
        Code::TooLarge,
        "metadata",
        "at most 16384",
        "link",
    );
    refused(&json!({"to": "x".repeat(5_000)}), Code::InvalidField, "to", "4096", "one recipient");
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for field in ["content", "metadata", "payload", "retry", "to", "nonsense"] {
        let mut setup = setup();
        setup.limits.content_bytes = 1_000_000;
        let text = format!("{{\"channel\":\"crm\",\"to\":\"https://x/\",\"{field}\":{deep}}}");
        assert!(setup.draft_json(text.as_bytes(), &Tenant::default(), NOW).is_err(), "{field}");
    }
}

#[test] // REQ ML-6
fn a_time_to_send_lies_ahead() {
    let at = |time: Time| json!({"send_at": time.to_string()});
    refused(&at(NOW - Span::from_secs(61)), Code::TimeInPast, "send_at", "in the past", "leave it out");
    assert_eq!(accepted(&at(NOW - Span::from_secs(60))).send_at, None);
    assert_eq!(accepted(&at(NOW)).send_at, None);
    assert_eq!(accepted(&at(NOW + Span::from_secs(1))).send_at, Some(NOW + Span::from_secs(1)));
}

#[test] // REQ RP-6
fn a_deadline_lies_after_the_time_to_send() {
    let invalid = Code::InvalidField;
    refused(&json!({"expires_after": "0s"}), invalid, "expires_after", "no time", "48h");
    refused(&json!({"expires_after": "9999d"}), invalid, "expires_after", "ten years", "leave it out");
    let later = (NOW + Span::from_hours(2)).to_string();
    let early = json!({"send_at": &later, "expires_after": "1h"});
    refused(&early, invalid, "expires_after", "before `send_at`", "counts from now");
    let twice = json!({"expires_after": "1h", "retry": {"expires_after": "1h"}});
    refused(&twice, invalid, "retry.expires_after", "twice", "expires_after");
    let in_retry = accepted(&json!({"retry": {"expires_after": "1h"}}));
    assert_eq!(in_retry.expires_at, Some(NOW + Span::from_hours(1)));
}

#[test] // REQ RP-6
fn claims_are_given_up_after_48_hours_by_default() {
    let claim = |changes: Value| {
        let mut request = json!({"channel": "claims", "to": "amil", "reference": "CLM-001-7",
            "content": {"xml": "<cancelaGuia/>"}});
        request.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        drafted(&request)
    };
    let hours = Span::from_hours;
    assert_eq!(claim(json!({})).unwrap().draft.expires_at, Some(NOW + hours(48)));
    assert_eq!(claim(json!({"expires_after": "24h"})).unwrap().draft.expires_at, Some(NOW + hours(24)));
    let later = claim(json!({"send_at": (NOW + hours(100)).to_string()})).unwrap().draft;
    assert_eq!(later.expires_at, Some(NOW + hours(148)));
    let Err(Refused::Problems(found)) = claim(json!({"expires_after": "49h"})) else { panic!() };
    assert!(found[0].reason.contains("longer than 2d"), "{found:?}");
}

#[test] // REQ RD-2
fn a_claim_is_known_by_its_id() {
    let claim = json!({"channel": "claims", "to": "amil", "content": {"xml": "<cancelaGuia/>"}});
    refused(&claim, Code::InvalidField, "reference", "missing", "CLM-001-1234567890");
    for bad in ["crm-8812", "CLM-1", "CLM-001-x"] {
        let mut claim = claim.clone();
        claim["reference"] = json!(bad);
        refused(&claim, Code::InvalidField, "reference", "not a claim's id", "CLM-001-1234567890");
    }
    assert_eq!(accepted(&json!({"reference": "crm-8812"})).body.reference.as_deref(), Some("crm-8812"));
}

#[test] // REQ RP-5
fn a_message_may_be_more_modest_than_its_channel_and_not_more_demanding() {
    assert_eq!(accepted(&json!({"retry": {"attempts": 1}})).body.retry.unwrap().attempts, Some(1));
    refused(
        &json!({"retry": {"attempts": 99}}),
        Code::InvalidField,
        "retry.attempts",
        "at most 8",
        "`webhook`",
    );
}

#[test]
fn short_texts_are_short_and_on_one_line() {
    for field in ["type", "reference", "user_id", "ordering_key"] {
        refused(&json!({field: ""}), Code::InvalidField, field, "1 to 256", "shorten");
        refused(&json!({field: "é".repeat(257)}), Code::InvalidField, field, "1 to 256", "shorten");
        refused(&json!({field: "a\nb"}), Code::InvalidField, field, "control", "one line");
        accepted(&json!({field: "é".repeat(256)}));
    }
}

#[test] // REQ BK-5
fn a_lane_is_asked_for_or_routed() {
    assert_eq!(accepted(&json!({"lane": "realtime"})).queue.lane.as_str(), "realtime");
    refused(&json!({"lane": "bulky"}), Code::InvalidField, "lane", "`bulky`", "`bulk`");
    refused(&json!({"lane": "x"}), Code::InvalidField, "lane", "`x`", "`bulk`, `default`, `realtime`");
}

#[test]
fn all_problems_are_told_at_once() {
    let found = problems(&json!({
        "channel": "nope", "priority": 11, "send_at": "2001-01-01T00:00:00Z", "lane": "x", "reference": "",
        "colour": 1, "content": {"a": 1},
    }));
    let fields: Vec<_> = found.iter().map(|problem| &*problem.field).collect();
    assert_eq!(fields, ["channel", "to", "lane", "priority", "send_at", "reference", "colour"]);
}

#[test]
fn a_flood_of_problems_is_cut_short() {
    let flood: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("x{n}"), Value::Null)).collect();
    let found = problems(&Value::Object(flood));
    assert!(found.len() <= PROBLEMS_MAX, "{}", found.len());
    let long = problems(&with(&json!({"y".repeat(10_000): 1})));
    assert!(long[0].field.len() < 100, "{long:?}");
}

#[test]
fn lone_surrogates_are_refused_wherever_they_stand() {
    for field in ["channel", "to", "type", "reference"] {
        let text = format!("{{\"{field}\":\"\\ud800\"}}");
        let (_, found) = Request::read(text.as_bytes()).unwrap();
        assert!(found.iter().any(|problem| problem.field == field), "{field}: {found:?}");
    }
    for field in ["content", "metadata"] {
        let text =
            format!("{{\"channel\":\"crm\",\"to\":\"https://x/\",\"{field}\":{{\"body\":\"\\ud800\"}}}}");
        let refused = setup().draft_json(text.as_bytes(), &Tenant::default(), NOW).unwrap_err();
        let Refused::Problems(found) = refused else { panic!() };
        assert!(found.iter().any(|problem| problem.field == field), "{field}: {found:?}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("crm")),
        Just(json!("https://x/")),
        Just(json!({"body": 1})),
        Just(json!("5m")),
        (-200i64..200).prop_map(|s| json!(Time::from_millis(NOW.millis() + s * 1_000).to_string())),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_request() -> impl Strategy<Value = Value> {
    let field = proptest::sample::select(vec![
        "channel",
        "to",
        "type",
        "template",
        "payload",
        "content",
        "lane",
        "priority",
        "send_at",
        "expires_after",
        "reference",
        "user_id",
        "ordering_key",
        "metadata",
        "retry",
        "idempotency_key",
        "nonsense",
    ]);
    proptest::collection::btree_map(field, any_value(), 0..6).prop_map(|changes| {
        with(&Value::Object(changes.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()))
    })
}

proptest! {
    #[test]
    fn whatever_is_refused_names_field_reason_and_remedy_once(request in any_request()) {
        match drafted(&request) {
            Ok(Drafted { draft, .. }) => {
                prop_assert!(draft.send_at.is_none_or(|at| at > NOW));
                prop_assert!(draft.expires_at.is_none_or(|end| end > draft.send_at.unwrap_or(NOW)));
                prop_assert!(setup().lanes.contains_key(draft.queue.lane.as_str()));
                prop_assert!(draft.body.content.is_some());
            }
            Err(Refused::Problems(found)) => {
                prop_assert!(!found.is_empty());
                for problem in found {
                    prop_assert!(!problem.field.is_empty() && !problem.reason.is_empty() && !problem.hint.is_empty());
                }
            }
            Err(Refused::NotJson(bad)) => prop_assert!(false, "{bad}"),
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), tail in ".{0,100}") {
        let _ = setup().draft_json(&bytes, &Tenant::default(), NOW);
        let _ = setup().draft_json(tail.as_bytes(), &Tenant::default(), NOW);
        let _ = setup().draft_json(format!("{{\"channel\":{tail}").as_bytes(), &Tenant::default(), NOW);
    }

    #[test]
    fn a_request_survives_writing_and_reading(request in any_request()) {
        let (first, problems) = Request::read(request.to_string().as_bytes()).unwrap();
        if problems.is_empty() {
            let (second, _) = Request::read(serde_json::to_string(&first).unwrap().as_bytes()).unwrap();
            prop_assert_eq!(first, second);
        }
    }
}

#[test] // REQ ML-10
fn a_large_attachment_goes_apart_and_does_not_count_as_content() {
    let media = |bytes: usize| {
        let media = json!({"mediatype": "image", "media": "QUJD".repeat(bytes / 3)});
        json!({"channel": "whatsapp", "to": "+5511987654321", "content": {"media": media}})
    };
    let draft = accepted(&media(30_000));
    let [blob] = &draft.blobs[..] else { panic!("{:?}", draft.blobs) };
    assert_eq!(&blob.bytes[..6], b"ABCABC");
    let content: Value = serde_json::from_str(draft.body.content.as_ref().unwrap().text()).unwrap();
    assert_eq!(content["media"]["media"], json!({"blob": blob.digest.to_string(), "size": 30_000}));
    let mut setup = setup();
    setup.limits.attachment_bytes = 29_000;
    let request = with(&media(30_000)).to_string();
    let Err(Refused::Problems(problems)) = setup.draft_json(request.as_bytes(), &Tenant::default(), NOW)
    else {
        panic!("it was accepted")
    };
    assert_eq!((problems[0].code, &*problems[0].field), (Code::TooLarge, "content.media"));
    let spoofed = json!({"blob": "00".repeat(32), "size": 1});
    let mut request = media(3);
    request["content"]["media"]["media"] = spoofed;
    let problems = self::problems(&with(&request));
    assert!(
        problems[0].field == "content.media.media" && problems[0].reason.starts_with("is not text"),
        "{problems:?}"
    );
}

#[test]
fn a_template_is_drafted_with_its_recipient_checked_and_its_version_open() {
    let request =
        json!({"channel": "whatsapp", "to": "+5511987654321", "content": null, "template": "welcome_user"});
    let draft = accepted(&request);
    assert_eq!((draft.body.template.as_deref(), draft.body.template_version), (Some("welcome_user"), None));
    let nobody = json!({"channel": "whatsapp", "to": "x", "content": null, "template": "welcome_user"});
    refused(&nobody, Code::InvalidField, "to", "number", "+55");
    let near = no_template("welcome_usr", ["welcome_user", "bye"].into_iter());
    assert_eq!(near.hint, "did you mean `welcome_user`?");
}

#[test] // REQ ML-10
fn no_message_of_a_caller_goes_through_the_channel_for_events() {
    let mut setup = setup();
    let events = ChannelSetup { name: EVENTS.parse().unwrap(), ..(*setup.channels["crm"]).clone() };
    setup.channels.insert(events.name.clone(), Arc::new(events));
    let request = json!({"channel": "events", "to": "https://a.example", "content": {}});
    let refused = setup.draft_json(request.to_string().as_bytes(), &Tenant::default(), NOW).unwrap_err();
    let Refused::Problems(problems) = refused else { panic!("{refused:?}") };
    assert_eq!((problems[0].code, problems[0].field.as_ref()), (Code::UnknownChannel, "channel"));
    assert!(!problems[0].hint.contains("events"), "{}", problems[0].hint);
}
