//! Every route × every role × whose key it is: own tenant, foreign tenant, for other channels, expired, revoked, none.
//!
//! A route that is not in the table fails. To add one, add a row: a request that works, and what others get for it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use http::StatusCode;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pombo_kernel::message::Actor;
use pombo_kernel::time::{Clock as _, Span};
use pombo_store::Store as _;
use pombo_store::anchor::{Anchor, Hex};
use pombo_web::key::KeyDoc;
use pombo_web::{Access, ROUTES, Role};
use serde_json::{Value, json};

use crate::alerts::fired;
use crate::dead::dead;
use crate::house::{House, NOW, heard, key, message, request};
use crate::learning::taught;

/// One route.
struct Row {
    method: &'static str,
    path: &'static str,
    /// What it asks of a key; nothing for those that no key opens.
    access: Option<Access>,
    /// A request that works. Nouns in capitals stand for things of the tenant `default`: see [`Nouns`].
    target: &'static str,
    body: &'static str,
    /// What an admin of another tenant gets.
    foreign: Sees,
    /// What an operator gets whose key is for another channel.
    scoped: Sees,
}

/// How little somebody sees of what is not theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    /// Exactly what they get for something that there is not.
    Unknown,
    /// A refusal.
    Refused,
    /// An answer in which nothing of it stands, while the owner's answer has something.
    Nothing,
    /// Whatever it is, nothing of it stands there.
    Quiet,
    /// What they would get if there were nothing of ours; for a key that is for another channel, what one for all gets,
    /// since it is not about a channel.
    Same,
    /// What we get, since it is about the store as a whole; nothing of anybody stands in it but, where all is counted, the
    /// names of channels.
    Common,
}

use Sees::{Common, Nothing, Quiet, Refused, Same, Unknown};

const ANY: Option<Access> = Some(Access::Any);
const SEND: Option<Access> = Some(Access::Send);
const FOLLOW: Option<Access> = Some(Access::Follow);
const LOOK: Option<Access> = Some(Access::Look);
const OPERATE: Option<Access> = Some(Access::Operate);
const ADMINISTER: Option<Access> = Some(Access::Administer);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("GET", "/healthz", None, "/healthz", "", Same, Same),
    row("GET", "/readyz", None, "/readyz", "", Same, Same),
    row("GET", "/metrics", None, "/metrics", "", Common, Common),
    row("GET", "/openapi.json", None, "/openapi.json", "", Same, Same),
    row("GET", "/docs", None, "/docs", "", Same, Same),
    row("POST", "/v1/messages", SEND, "/v1/messages", r#"{"channel": "CHANNEL", "to": "https://crm.example/hook", "content": {"body": {}}}"#, Unknown, Refused),
    row("GET", "/v1/messages", FOLLOW, "/v1/messages?reference=canary", "", Nothing, Nothing),
    row("POST", "/v1/messages/batch", SEND, "/v1/messages/batch", r#"[{"channel": "CHANNEL", "to": "https://crm.example/hook", "content": {"body": {}}}]"#, Unknown, Quiet),
    row("GET", "/v1/messages/{id}", FOLLOW, "/v1/messages/MESSAGE", "", Unknown, Unknown),
    row("POST", "/v1/messages/{id}/cancel", SEND, "/v1/messages/MESSAGE/cancel", "", Unknown, Unknown),
    row("POST", "/v1/messages/{id}/retry", OPERATE, "/v1/messages/MESSAGE/retry", "", Unknown, Unknown),
    row("GET", "/v1/dead-letters", LOOK, "/v1/dead-letters", "", Nothing, Nothing),
    row("GET", "/v1/dead-letters/groups", LOOK, "/v1/dead-letters/groups", "", Nothing, Nothing),
    row("POST", "/v1/dead-letters/reprocess", OPERATE, "/v1/dead-letters/reprocess", r#"{"ids": ["LETTER"]}"#, Unknown, Unknown),
    row("POST", "/v1/dead-letters/discard", OPERATE, "/v1/dead-letters/discard", r#"{"ids": ["LETTER"]}"#, Unknown, Unknown),
    row("GET", "/v1/dead-letters/{id}", LOOK, "/v1/dead-letters/LETTER", "", Unknown, Unknown),
    row("PATCH", "/v1/dead-letters/{id}", OPERATE, "/v1/dead-letters/LETTER", r#"{"to": "https://crm.example/new", "version": 1}"#, Unknown, Unknown),
    row("GET", "/v1/campaigns", LOOK, "/v1/campaigns", "", Nothing, Nothing),
    row("POST", "/v1/campaigns", OPERATE, "/v1/campaigns", r#"{"name": "x", "channel": "CHANNEL", "template": "TEMPLATE"}"#, Unknown, Refused),
    row("GET", "/v1/campaigns/{id}", LOOK, "/v1/campaigns/CAMPAIGN", "", Unknown, Unknown),
    row("PATCH", "/v1/campaigns/{id}", OPERATE, "/v1/campaigns/CAMPAIGN", r#"{"name": "x"}"#, Unknown, Unknown),
    row("DELETE", "/v1/campaigns/{id}", OPERATE, "/v1/campaigns/CAMPAIGN", "", Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/preview", LOOK, "/v1/campaigns/CAMPAIGN/preview", "", Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/start", OPERATE, "/v1/campaigns/CAMPAIGN/start", "", Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/schedule", OPERATE, "/v1/campaigns/CAMPAIGN/schedule", r#"{"at": "2030-01-01T08:00:00Z"}"#, Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/pause", OPERATE, "/v1/campaigns/CAMPAIGN/pause", "", Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/resume", OPERATE, "/v1/campaigns/CAMPAIGN/resume", "", Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/cancel", OPERATE, "/v1/campaigns/CAMPAIGN/cancel", "", Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/retry", OPERATE, "/v1/campaigns/CAMPAIGN/retry", "", Unknown, Unknown),
    row("GET", "/v1/campaigns/{id}/recipients", LOOK, "/v1/campaigns/CAMPAIGN/recipients", "", Unknown, Unknown),
    row("POST", "/v1/campaigns/{id}/recipients", OPERATE, "/v1/campaigns/CAMPAIGN/recipients", r#"[{"to": "x@example.com"}]"#, Unknown, Unknown),
    row("GET", "/v1/operations", LOOK, "/v1/operations", "", Nothing, Nothing),
    row("GET", "/v1/operations/{id}", LOOK, "/v1/operations/OPERATION", "", Unknown, Unknown),
    row("POST", "/v1/operations/{id}/cancel", OPERATE, "/v1/operations/OPERATION/cancel", "", Unknown, Unknown),
    row("GET", "/v1/alerts", LOOK, "/v1/alerts", "", Nothing, Nothing),
    row("GET", "/v1/alerts/rules", LOOK, "/v1/alerts/rules", "", Same, Same),
    row("POST", "/v1/alerts/test", OPERATE, "/v1/alerts/test", "", Refused, Refused),
    row("GET", "/v1/alerts/{id}", LOOK, "/v1/alerts/ALERT", "", Unknown, Unknown),
    row("POST", "/v1/alerts/{id}/acknowledge", OPERATE, "/v1/alerts/ALERT/acknowledge", "", Unknown, Unknown),
    row("POST", "/v1/alerts/{id}/silence", OPERATE, "/v1/alerts/ALERT/silence", r#"{"for": "1h"}"#, Unknown, Unknown),
    row("POST", "/v1/alerts/{id}/unsilence", OPERATE, "/v1/alerts/ALERT/unsilence", "", Unknown, Unknown),
    row("GET", "/v1/reports", LOOK, "/v1/reports", "", Nothing, Refused),
    row("GET", "/v1/reports/{name}", LOOK, "/v1/reports/REPORT", "", Unknown, Refused),
    row("POST", "/v1/reports/{name}/send", OPERATE, "/v1/reports/REPORT/send", "", Unknown, Refused),
    row("GET", "/v1/channels", LOOK, "/v1/channels", "", Nothing, Nothing),
    row("POST", "/v1/channels/{name}/hold", OPERATE, "/v1/channels/CHANNEL/hold", r#"{"reason": "x"}"#, Unknown, Refused),
    row("POST", "/v1/channels/{name}/release", OPERATE, "/v1/channels/CHANNEL/release", "", Unknown, Refused),
    row("POST", "/v1/channels/{name}/open", OPERATE, "/v1/channels/CHANNEL/open", "", Unknown, Refused),
    row("POST", "/v1/channels/{name}/test", OPERATE, "/v1/channels/CHANNEL/test", "", Unknown, Refused),
    row("POST", "/v1/channels/{name}/close", OPERATE, "/v1/channels/CHANNEL/close", "", Unknown, Refused),
    row("GET", "/v1/keys", ADMINISTER, "/v1/keys", "", Nothing, Refused),
    row("POST", "/v1/keys", ADMINISTER, "/v1/keys", r#"{"role": "producer", "channels": ["CHANNEL"]}"#, Unknown, Refused),
    row("GET", "/v1/keys/{id}", ADMINISTER, "/v1/keys/KEY", "", Unknown, Refused),
    row("PATCH", "/v1/keys/{id}", ADMINISTER, "/v1/keys/KEY", r#"{"label": "x"}"#, Unknown, Refused),
    row("DELETE", "/v1/keys/{id}", ADMINISTER, "/v1/keys/KEY", "", Unknown, Refused),
    row("POST", "/v1/keys/{id}/rotate", ADMINISTER, "/v1/keys/KEY/rotate", "", Unknown, Refused),
    row("POST", "/v1/keys/{id}/link", ADMINISTER, "/v1/keys/KEY/link", "", Unknown, Refused),
    row("GET", "/v1/templates", LOOK, "/v1/templates", "", Nothing, Same),
    row("GET", "/v1/templates/{name}", LOOK, "/v1/templates/TEMPLATE", "", Unknown, Same),
    row("PUT", "/v1/templates/{name}", OPERATE, "/v1/templates/TEMPLATE", r#"{"text": "new"}"#, Unknown, Refused),
    row("GET", "/v1/templates/{name}/versions", LOOK, "/v1/templates/TEMPLATE/versions", "", Unknown, Same),
    row("POST", "/v1/templates/{name}/render", LOOK, "/v1/templates/TEMPLATE/render", "", Unknown, Same),
    row("GET", "/v1/suppressions", LOOK, "/v1/suppressions", "", Nothing, Refused),
    row("POST", "/v1/suppressions", OPERATE, "/v1/suppressions", r#"{"kind": "email", "recipient": "x@example.com"}"#, Same, Refused),
    row("POST", "/v1/suppressions/import", OPERATE, "/v1/suppressions/import", "", Same, Refused),
    row("GET", "/v1/suppressions/export", LOOK, "/v1/suppressions/export", "", Nothing, Refused),
    row("DELETE", "/v1/suppressions/{id}", OPERATE, "/v1/suppressions/SUPPRESSION", "", Unknown, Refused),
    row("POST", "/v1/classifications", ANY, "/v1/classifications", r#"{"kind": "webhook", "http_status": 503}"#, Same, Same),
    row("POST", "/v1/retry-decisions", SEND, "/v1/retry-decisions", r#"{"claimId": "CLM-CANARY-1", "submissionError": "TIMEOUT", "retryCount": 1}"#, Same, Refused),
    row("GET", "/v1/retry-decisions", FOLLOW, "/v1/retry-decisions?claimId=CLM-CANARY-1", "", Quiet, Quiet),
    row("POST", "/v1/receipts/{channel}", None, "/v1/receipts/CHANNEL", "{}", Same, Same),
    row("POST", "/v1/receipts/{channel}/{event}", None, "/v1/receipts/CHANNEL/messages-update", "{}", Same, Same),
    row("GET", "/v1/events", FOLLOW, "/v1/events?after=-1&reference=canary", "", Nothing, Nothing),
    row("GET", "/v1/audit", LOOK, "/v1/audit", "", Nothing, Nothing),
    row("GET", "/v1/audit/export", LOOK, "/v1/audit/export", "", Nothing, Nothing),
    row("GET", "/v1/audit/verify", LOOK, "/v1/audit/verify", "", Common, Common),
    row("GET", "/v1/audit/anchors", LOOK, "/v1/audit/anchors", "", Common, Common),
    row("GET", "/v1/webhooks", OPERATE, "/v1/webhooks", "", Nothing, Refused),
    row("POST", "/v1/webhooks", ADMINISTER, "/v1/webhooks", r#"{"url": "https://hooks.example/x", "channels": ["CHANNEL"]}"#, Unknown, Refused),
    row("GET", "/v1/webhooks/{id}", OPERATE, "/v1/webhooks/WEBHOOK", "", Unknown, Refused),
    row("PATCH", "/v1/webhooks/{id}", ADMINISTER, "/v1/webhooks/WEBHOOK", r#"{"description": "x"}"#, Unknown, Refused),
    row("DELETE", "/v1/webhooks/{id}", ADMINISTER, "/v1/webhooks/WEBHOOK", "", Unknown, Refused),
    row("POST", "/v1/webhooks/{id}/rotate-secret", ADMINISTER, "/v1/webhooks/WEBHOOK/rotate-secret", "", Unknown, Refused),
    row("POST", "/v1/webhooks/{id}/test", OPERATE, "/v1/webhooks/WEBHOOK/test", "", Unknown, Refused),
    row("GET", "/v1/stats", LOOK, "/v1/stats", "", Nothing, Nothing),
    row("GET", "/v1/rules", LOOK, "/v1/rules?origin=accepted", "", Nothing, Nothing),
    row("POST", "/v1/rules", OPERATE, "/v1/rules", r#"{"channel": "CHANNEL", "rule": {"contains": "canary", "verdict": "transient", "category": "x"}}"#, Unknown, Unknown),
    row("GET", "/v1/rules/suggestions", LOOK, "/v1/rules/suggestions", "", Nothing, Nothing),
    row("POST", "/v1/rules/try", LOOK, "/v1/rules/try", r#"{"channel": "CHANNEL", "rule": {"contains": "x", "verdict": "transient", "category": "x"}}"#, Unknown, Unknown),
    row("DELETE", "/v1/rules/{id}", OPERATE, "/v1/rules/RULE", "", Unknown, Unknown),
    row("GET", "/v1/learning", LOOK, "/v1/learning", "", Nothing, Nothing),
    row("POST", "/v1/privacy/erase", ADMINISTER, "/v1/privacy/erase", r#"{"recipient": "+5511987654321", "dry_run": true}"#, Same, Refused),
    row("GET", "/v1/store", LOOK, "/v1/store", "", Common, Common),
    row("POST", "/v1/store/pause", ADMINISTER, "/v1/store/pause", r#"{"reason": "x"}"#, Refused, Refused),
    row("POST", "/v1/store/resume", ADMINISTER, "/v1/store/resume", "", Refused, Refused),
    row("POST", "/v1/store/prune", ADMINISTER, "/v1/store/prune", r#"{"dry_run": true}"#, Refused, Refused),
    row("POST", "/emails", SEND, "/emails", r#"{"from": "a@example.com", "to": "b@example.com", "subject": "s", "text": "t"}"#, Quiet, Quiet),
    row("POST", "/emails/batch", SEND, "/emails/batch", r#"[{"from": "a@example.com", "to": "b@example.com", "subject": "s", "text": "t"}]"#, Quiet, Quiet),
    row("GET", "/emails/{id}", FOLLOW, "/emails/MAIL", "", Unknown, Unknown),
    row("POST", "/emails/{id}/cancel", SEND, "/emails/MAIL/cancel", "", Unknown, Unknown),
    row("POST", "/message/sendText/{instance}", SEND, "/message/sendText/main", r#"{"number": "5511999990000", "text": "t"}"#, Quiet, Quiet),
    row("POST", "/message/sendMedia/{instance}", SEND, "/message/sendMedia/main", r#"{"number": "5511999990000", "mediatype": "image", "media": "https://example.com/a.png"}"#, Quiet, Quiet),
    row("POST", "/rest/v1/rpc/enqueue_email", SEND, "/rest/v1/rpc/enqueue_email", r#"{"p_user_id": "u", "p_template_type": "TEMPLATE", "p_recipient_email": "b@example.com"}"#, Quiet, Quiet),
    row("OPTIONS", "/rest/v1/rpc/enqueue_email", None, "/rest/v1/rpc/enqueue_email", "", Same, Same),
    row("POST", "/functions/v1/process-email-queue", SEND, "/functions/v1/process-email-queue", "{}", Quiet, Quiet),
    row("OPTIONS", "/functions/v1/process-email-queue", None, "/functions/v1/process-email-queue", "", Same, Same),
];

const fn row(
    method: &'static str,
    path: &'static str,
    access: Option<Access>,
    target: &'static str,
    body: &'static str,
    foreign: Sees,
    scoped: Sees,
) -> Row {
    Row { method, path, access, target, body, foreign, scoped }
}

/// Who has which access, written out once more: what the doors think is not asked.
fn roles(access: Access) -> &'static [Role] {
    match access {
        Access::Any | Access::Follow => &[Role::Producer, Role::Viewer, Role::Operator, Role::Admin],
        Access::Send => &[Role::Producer, Role::Operator, Role::Admin],
        Access::Look => &[Role::Viewer, Role::Operator, Role::Admin],
        Access::Operate => &[Role::Operator, Role::Admin],
        Access::Administer => &[Role::Admin],
    }
}

/// Things of the tenant `default`, and names of the same shape that nothing has.
struct Nouns(BTreeMap<&'static str, [String; 2]>);

impl Nouns {
    /// Fills in what there is, or what there is not.
    fn fill(&self, text: &str, which: usize) -> String {
        self.0.iter().fold(text.to_owned(), |text, (noun, names)| text.replace(noun, &names[which]))
    }

    /// An answer with the nouns put back, so that two can be held against each other.
    fn plain(&self, text: &str, which: usize) -> String {
        self.0.iter().fold(text.to_owned(), |text, (noun, names)| text.replace(&names[which], noun))
    }

    /// Something of the tenant that stands in an answer.
    fn shown_in<'a>(&'a self, text: &str) -> Option<&'a str> {
        let names = self.0.values().map(|[name, _]| name.as_str()).chain(["canary", "CANARY"]);
        names.into_iter().find(|name| text.contains(*name))
    }
}

/// A house with something of everything in it.
async fn furnished() -> (House, Nouns) {
    let house = House::unattended().await;
    for (name, change) in [
        ("expired", KeyDoc { expires_at: Some(NOW), ..key("expired", "admin") }),
        ("revoked", KeyDoc { revoked_at: Some(NOW), ..key("revoked", "admin") }),
        ("scoped", KeyDoc { channels: Some(vec!["nowhere".parse().unwrap()]), ..key("scoped", "operator") }),
        ("victim", key("victim", "viewer")),
    ] {
        assert_eq!(change.label, name);
        house.add_key("default", &change).await;
    }
    taught(&house, "canary is cold", 1, 0).await;
    let wish = json!({"channel": "crm", "rule": {"contains": "old canary", "verdict": "transient", "category": "x"}});
    let rule = post(&house, "/v1/rules", &wish).await;
    let letter = dead(&house, &json!({"reference": "canary"}), "canary").await;
    let message = house.created(&json!({"reference": "canary"})).await;
    house.put_template("greeting", &json!({"subject": "Hello", "text": "canary"})).await;
    let mail = json!({"from": "a@example.com", "to": "b@example.com", "subject": "canary", "text": "t"});
    let mail = post(&house, "/emails", &mail).await;
    let webhook = post(&house, "/v1/webhooks", &json!({"url": "https://canary.example/x"})).await;
    let wish = json!({"filter": {"reference": "canary"}, "note": "canary"});
    let operation = post(&house, "/v1/dead-letters/reprocess", &wish).await;
    let wish = json!({"kind": "email", "recipient": "canary@example.com"});
    let suppression = post(&house, "/v1/suppressions", &wish).await;
    let wish = json!({"name": "canary", "channel": "mail", "template": "greeting"});
    let campaign = post(&house, "/v1/campaigns", &wish).await;
    let alert = fired(&house, "canary").await;
    let (hash, key, signature) = (Hex([1; 32]), Hex([2; 32]), Hex([3; 64]));
    let anchor = Anchor { sequence: 1, position: 1, hash, at: NOW, key, signature };
    house.store.shelve(vec![anchor.put(1, &Actor::engine())]).await.unwrap();
    let mut nouns = BTreeMap::new();
    for (noun, name) in [
        ("LETTER", letter),
        ("MESSAGE", message),
        ("MAIL", mail["id"].as_str().unwrap().to_owned()),
        ("CAMPAIGN", campaign["id"].as_str().unwrap().to_owned()),
        ("ALERT", alert),
        ("REPORT", "canary-daily".to_owned()),
        ("CHANNEL", "crm".to_owned()),
        ("TEMPLATE", "greeting".to_owned()),
        ("KEY", "key_victim".to_owned()),
        ("WEBHOOK", webhook["id"].as_str().unwrap().to_owned()),
        ("OPERATION", operation["id"].as_str().unwrap().to_owned()),
        ("RULE", rule["accepted"]["id"].as_str().unwrap().to_owned()),
        ("SUPPRESSION", suppression["id"].as_str().unwrap().to_owned()),
    ] {
        let (kept, changed) = name.split_at(name.len() - 2);
        let other = changed.chars().map(|c| if c == 'e' { 'd' } else { 'e' }).collect::<String>();
        nouns.insert(noun, [name.clone(), format!("{kept}{other}")]);
    }
    (house, Nouns(nouns))
}

async fn post(house: &House, path: &str, body: &Value) -> Value {
    let reply = house.post(path, body).await;
    assert!(reply.status.is_success(), "the house cannot be furnished: {path}: {}", reply.text);
    reply.json()
}

#[derive(Debug, PartialEq)]
struct Said {
    status: StatusCode,
    text: String,
}

impl Said {
    /// The answer without the ids that were made for it.
    fn anonymous(&self) -> (StatusCode, String) {
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        let words = self.text.split_inclusive(|c| !is_digit(c));
        let blank = |word: &str| match word.len() {
            32 | 33 if word.chars().take(32).all(is_digit) => format!("ID{}", &word[32..]),
            _ => word.to_owned(),
        };
        (self.status, words.map(blank).collect())
    }

    /// Refused for lack of a key or of a right. Surfaces that stand in for others say it in their own numbers.
    fn refused(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }
}

impl Row {
    /// What this request gets with that key, about things that there are (0) or that there are not (1).
    async fn ask(&self, house: &House, nouns: &Nouns, who: Option<&str>, which: usize) -> Said {
        let mut call =
            request(self.method, &nouns.fill(self.target, which)).header("content-type", "application/json");
        if let Some(who) = who {
            let key = format!("key-{who}");
            call = call.header("authorization", format!("Bearer {key}")).header("apikey", key);
        }
        let call = call.body(Body::from(nouns.fill(self.body, which))).unwrap();
        let answer = TowerToHyperService::new(house.router.clone()).call(call);
        let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
        let response =
            answer.unwrap_or_else(|_| panic!("{} {} takes too long", self.method, self.path)).unwrap();
        let (status, text) = heard(response).await;
        Said { status, text: nouns.plain(&text, which) }
    }

    async fn check(&self, who: &str, sees: Sees) {
        let (house, nouns) = furnished().await;
        let before = house.ours().await;
        let said = self.ask(&house, &nouns, Some(who), 0).await;
        let name = format!("{} {} with the key `{who}`", self.method, self.path);
        assert!(!said.status.is_server_error(), "{name}: {said:?}");
        if who == "foreign" {
            assert_eq!(house.ours().await, before, "{name} changed something of ours");
        }
        // `plain` wrote our names as nouns; what is left would be what `fill` did not put there.
        let raw = nouns.fill(&said.text, 0);
        let asked = format!("{}{}", nouns.fill(self.target, 0), nouns.fill(self.body, 0));
        match sees {
            Same => {
                let bare = House::unattended().await;
                bare.clock.pass(house.clock.now().since(bare.clock.now()));
                let alike = match who {
                    "foreign" => self.ask(&bare, &nouns, Some(who), 0).await,
                    _ => self.ask(&house, &nouns, Some("operator"), 0).await,
                };
                assert_eq!(said.anonymous(), alike.anonymous(), "{name}");
            }
            Common => {
                let mine = self.ask(&house, &nouns, Some("admin"), 0).await;
                // What counts requests has counted one more.
                let same = said == mine || self.path == "/metrics";
                assert!(same, "{name}: {said:?} is not {mine:?}");
                assert_eq!(nouns.shown_in(&raw.replace("channel=\"crm\"", "")), None, "{name}: {raw}");
            }
            Refused => assert_eq!(said.status, StatusCode::FORBIDDEN, "{name}: {said:?}"),
            Unknown => {
                let unknown = self.ask(&house, &nouns, Some(who), 1).await;
                assert_eq!(said, unknown, "{name}: what is another's must answer as what is not there");
                let mine = self.ask(&house, &nouns, Some("admin"), 0).await;
                assert_ne!(
                    mine, unknown,
                    "{name}: the sample shows nothing, since it finds nothing for its owner"
                );
            }
            Nothing | Quiet => {
                let shown = nouns.shown_in(&raw).filter(|shown| !asked.contains(shown));
                assert_eq!(shown, None, "{name}: {raw}");
                if sees == Nothing {
                    assert!(said.status.is_success(), "{name}: {said:?}");
                    let mine = self.ask(&house, &nouns, Some("admin"), 0).await;
                    let mine = nouns.fill(&mine.text, 0);
                    let shown = nouns.shown_in(&mine).filter(|shown| !asked.contains(shown));
                    assert!(
                        shown.is_some(),
                        "{name}: the sample shows nothing, also not to its owner: {mine}"
                    );
                }
            }
        }
    }
}

#[test] // REQ SE-1
fn every_route_has_its_row() {
    for route in ROUTES {
        let row = ROWS.iter().find(|row| (row.method, row.path) == (route.method.as_str(), route.path));
        let row = row.unwrap_or_else(|| {
            panic!(
                "{route:?} is not in the matrix: add a row for it to ROWS in crates/web/tests/doors/matrix.rs, with a \
                 request that works (LETTER, MESSAGE, CAMPAIGN, CHANNEL, TEMPLATE, KEY, WEBHOOK, OPERATION, ALERT, REPORT, RULE and SUPPRESSION stand \
                 for things of the tenant) and with what an admin of another tenant and a key for another channel get"
            )
        });
        assert_eq!(row.access, route.access(), "{route:?} asks for something else than its row says");
    }
    for row in ROWS {
        let routed = ROUTES.iter().any(|route| (row.method, row.path) == (route.method.as_str(), route.path));
        assert!(routed, "{} {} is in the matrix, and there is no such route", row.method, row.path);
    }
}

#[tokio::test] // REQ SE-1
async fn every_route_is_open_to_exactly_the_roles_that_it_names() {
    for row in ROWS {
        let Some(access) = row.access else { continue };
        let (house, nouns) = furnished().await;
        for role in Role::ALL {
            let said = row.ask(&house, &nouns, Some(role.as_str()), 0).await;
            let may = roles(access).contains(&role);
            assert_eq!(said.refused(), !may, "{role} {} {}: {said:?}", row.method, row.path);
            assert!(!said.status.is_server_error(), "{role} {} {}: {said:?}", row.method, row.path);
        }
    }
}

#[tokio::test] // REQ SE-1
async fn no_route_opens_without_a_key_that_is_good_now() {
    for row in ROWS {
        let (house, nouns) = furnished().await;
        house.clock.pass(Span::from_secs(1));
        for who in [None, Some("nobody-has-this-one"), Some("expired"), Some("revoked")] {
            let said = row.ask(&house, &nouns, who, 0).await;
            let name = format!("{} {} with {who:?}: {said:?}", row.method, row.path);
            match (row.access, row.path.starts_with("/v1/receipts/")) {
                (None, false) => assert!(said.status.is_success(), "{name}"),
                (None, true) => assert_eq!(said.status, StatusCode::UNAUTHORIZED, "{name}"),
                (Some(_), _) => {
                    assert!(said.status.is_client_error(), "{name}");
                    assert_eq!(nouns.shown_in(&said.text), None, "{name}");
                    if row.path.starts_with("/v1/") {
                        assert_eq!(said.status, StatusCode::UNAUTHORIZED, "{name}");
                    }
                }
            }
        }
    }
}

#[tokio::test] // REQ SE-1
async fn another_tenants_admin_finds_nothing_of_ours() {
    for row in ROWS {
        row.check("foreign", row.foreign).await;
    }
}

#[tokio::test] // REQ SE-1
async fn a_key_for_other_channels_finds_nothing_of_ours() {
    for row in ROWS {
        row.check("scoped", row.scoped).await;
    }
}

#[tokio::test] // REQ SE-1
async fn a_key_is_taken_only_as_it_should_be_written() {
    let house = House::new().await;
    for written in ["Bearer ", "Bearer", "Basic a2V5", "key-admin", "Bearer\tkey-admin", ""] {
        let call = request("GET", "/v1/stats").header("authorization", written);
        let reply = house.send(call.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.code(), "UNAUTHORIZED", "{written:?}");
        assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
        assert!(reply.json()["hint"].as_str().unwrap().contains("Authorization: Bearer"));
    }
    for written in ["Bearer key-admin", "bearer key-admin", "BEARER  key-admin "] {
        let call = request("GET", "/v1/stats").header("authorization", written);
        assert_eq!(house.send(call.body(Body::empty()).unwrap()).await.status, StatusCode::OK, "{written:?}");
    }
    let refused = house.call_as("viewer", "POST", "/v1/messages", message(&json!({})).to_string()).await;
    assert!(refused.json()["detail"].as_str().unwrap().contains("viewer"), "{}", refused.text);
    assert!(
        refused.json()["hint"].as_str().unwrap().contains("producer, operator or admin"),
        "{}",
        refused.text
    );
}
