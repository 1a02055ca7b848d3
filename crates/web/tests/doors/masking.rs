//! Who sees persons: by role, by leave, and on record.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use http::{Method, StatusCode};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::mask::{self, MaskedRole};
use pombo_kernel::message::Body as Said;
use pombo_kernel::reply::Receipt;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Span;
use pombo_store::Store;
use pombo_store::audit::{Event, Record};
use pombo_web::key::KeyDoc;
use pombo_web::{Access, Patience, ROUTES, Role};
use serde_json::{Value, json};

use crate::alerts::fired;
use crate::campaigns::{claimed, done, fed, settled};
use crate::dead::bury;
use crate::house::{House, heard, key, message, request, setup};

const PHONE: &str = "+5511976543210";
const MAIL: &str = "maria.canario@clinica.example";
const NAME: &str = "Maria Canário da Silva";
const CPF: &str = "529.982.247-25";

/// Something by which the person would be known.
fn found(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    let signs = ["97654321", "97654-32", "maria.canario", "529.982", "52998224725", "canário", "maria da"];
    signs.into_iter().find(|sign| lower.contains(sign))
}

/// What a provider says of somebody, as it is kept.
fn kept(text: &str) -> String {
    let payload = json!({"nome": NAME, "cpf": CPF, "telefone": PHONE});
    mask::about(text, &Said { to: PHONE.into(), payload: Some(payload.into()), ..Said::default() })
        .into_owned()
}

/// A house where one person stands wherever a person can.
struct Furnished {
    house: House,
    letter: String,
    pending: String,
    sent: String,
    mail: String,
    campaign: String,
    odd: String,
    operation: String,
    alert: String,
    webhook: String,
}

async fn furnished(setup: Setup) -> Furnished {
    let house = House::with(setup, Patience::default()).await;
    house.put_template("visita", &json!({"subject": "Olá {{ nome }}", "text": "CPF {{ cpf }}"})).await;
    let person = json!({"nome": NAME, "cpf": CPF, "telefone": PHONE});
    let text = json!({"body": {"paciente": NAME, "cpf": CPF, "fone": [PHONE, 5_511_976_543_210_u64]}});
    // One that failed, was put right, and failed again for what the provider says about somebody.
    let letter = json!({"channel": "null", "to": PHONE, "content": text, "metadata": person, "user_id": MAIL,
                        "reference": "visita-1"});
    let letter = house.created(&letter).await;
    bury(&house, &kept(&format!("paciente {NAME}, CPF {CPF}, {PHONE}: não encontrado"))).await;
    let edit = json!({"to": "+5511976543211", "version": 1, "note": format!("liguei para {PHONE}")});
    let edited = house.call("PATCH", &format!("/v1/dead-letters/{letter}"), edit.to_string()).await;
    assert_eq!(edited.status, StatusCode::OK, "{}", edited.text);
    // One that was sent, and of which the provider said more than it should.
    let sent = house
        .created(
            &json!({"channel": "mail", "to": MAIL, "template": "visita", "payload": person, "content": null}),
        )
        .await;
    let receipt = Receipt { provider_id: Some("prov-1".into()), ..Receipt::default() };
    settled(&house, claimed(&house).await, Next::Sent(receipt)).await;
    let detail = Some(format!("a caixa de {NAME} <{MAIL}> está cheia"));
    let report = Report { provider_id: "prov-1".into(), delivery: Delivery::Bounced, detail, at: None };
    house.store.report("mail".parse().unwrap(), vec![report]).await.unwrap();
    // A campaign whose message failed, and one with a line that is no address.
    let wish = json!({"name": "Visitas", "channel": "mail", "template": "visita", "payload": {"cpf": "-"}});
    let campaign = post(&house, "/v1/campaigns", &wish).await["id"].as_str().unwrap().to_owned();
    let list = json!([{"to": MAIL, "nome": NAME, "cpf": CPF}]);
    post(&house, &format!("/v1/campaigns/{campaign}/recipients"), &list).await;
    done(&house, &campaign, "start", &json!({})).await;
    fed(&house, &campaign).await;
    bury(&house, &kept(&format!("<{MAIL}>: no such user"))).await;
    let odd = post(&house, "/v1/campaigns", &wish).await["id"].as_str().unwrap().to_owned();
    let list = json!([{"to": NAME, "nome": NAME, "cpf": CPF}, {"to": MAIL, "nome": NAME, "cpf": CPF}]);
    post(&house, &format!("/v1/campaigns/{odd}/recipients"), &list).await;
    let filter = json!({"filter": {"recipient": "+5511976543211"}, "note": format!("a pedido de {PHONE}")});
    let operation = post(&house, "/v1/dead-letters/reprocess", &filter).await;
    for wish in [
        json!({"kind": "email", "recipient": MAIL, "note": format!("ligou de {PHONE}"), "source": MAIL}),
        json!({"kind": "whatsapp", "recipient": PHONE}),
    ] {
        post(&house, "/v1/suppressions", &wish).await;
    }
    let claim = json!({"claimId": "CLM-001-123", "submissionError": format!("INVALID {CPF} {PHONE}"), "retryCount": 1});
    house.post("/v1/retry-decisions", &claim).await;
    let mail = json!({"from": "a@example.com", "to": MAIL, "subject": NAME, "text": CPF, "html": CPF});
    let mail = post(&house, "/emails", &mail).await["id"].as_str().unwrap().to_owned();
    let pending = house.created(&message(&json!({"to": format!("https://crm.example/{MAIL}")}))).await;
    let hold = json!({"reason": format!("{MAIL} pediu")});
    post(&house, "/v1/channels/crm/hold", &hold).await;
    let alert = fired(&house, "503").await;
    let note = json!({"note": format!("falei com {MAIL}")});
    post(&house, &format!("/v1/alerts/{alert}/acknowledge"), &note).await;
    let webhook = post(&house, "/v1/webhooks", &json!({"url": "https://hooks.example/x"})).await;
    let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
    let (operation, webhook) = (id(&operation), id(&webhook));
    Furnished { house, letter, pending, sent, mail, campaign, odd, operation, alert, webhook }
}

async fn post(house: &House, path: &str, body: &Value) -> Value {
    let reply = house.post(path, body).await;
    assert!(reply.status.is_success(), "the house cannot be furnished: {path}: {}", reply.text);
    reply.json()
}

impl Furnished {
    /// Everything that can be asked for at an address.
    fn targets(&self, path: &str) -> Vec<String> {
        let Furnished { letter, pending, sent, mail, campaign, odd, operation, alert, webhook, .. } = self;
        let ids: &[&String] = match path {
            "/v1/messages/{id}" | "/v1/dead-letters/{id}" => &[letter, pending, sent],
            "/emails/{id}" => &[mail],
            "/v1/campaigns/{id}" => &[campaign, odd],
            "/v1/campaigns/{id}/recipients" => {
                let places = [campaign, odd].map(|id| path.replace("{id}", id));
                return places.into_iter().flat_map(|place| [format!("{place}?format=csv"), place]).collect();
            }
            "/v1/operations/{id}" => &[operation],
            "/v1/alerts/{id}" => &[alert],
            "/v1/webhooks/{id}" => &[webhook],
            "/v1/keys/{id}" => return vec!["/v1/keys/key_viewer".to_owned()],
            "/v1/templates/{name}" | "/v1/templates/{name}/versions" => {
                return vec![path.replace("{name}", "visita")];
            }
            "/v1/reports/{name}" => return vec![path.replace("{name}", "canary-daily")],
            "/v1/events" => return vec![format!("{path}?after=-1")],
            "/v1/audit" | "/v1/messages" | "/v1/dead-letters" => return vec![format!("{path}?limit=500")],
            "/v1/audit/export" => return vec![path.to_owned(), format!("{path}?format=csv")],
            path => {
                assert!(!path.contains('{'), "say in `targets` what to ask for at {path}");
                return vec![path.to_owned()];
            }
        };
        ids.iter().map(|id| path.replace("{id}", id)).collect()
    }

    /// What somebody gets; of a stream without an end, what is there.
    async fn get(&self, who: &str, target: &str) -> (StatusCode, String) {
        let key = format!("Bearer key-{who}");
        let call = request("GET", target).header("authorization", key).body(Body::empty()).unwrap();
        let response = TowerToHyperService::new(self.house.router.clone()).call(call).await.unwrap();
        heard(response).await
    }

    /// The records that somebody left by looking.
    async fn reveals(&self) -> Vec<Record> {
        let records = self.house.store.audit(0, 10_000).await.unwrap();
        records.into_iter().map(|(_, record)| record).filter(|it| it.event == Event::Revealed).collect()
    }
}

#[tokio::test] // REQ AU-3
async fn no_answer_shows_a_person_to_a_viewer_or_an_operator_who_does_not_reveal() {
    let it = furnished(setup()).await;
    let mut shown = BTreeSet::new();
    for route in ROUTES.iter().filter(|route| route.method == Method::GET) {
        for target in it.targets(route.path) {
            for role in [Role::Viewer, Role::Operator] {
                let (status, text) = it.get(role.as_str(), &target).await;
                let may = route.access().is_none_or(|access| access.allows(role));
                assert_eq!(status.is_success(), may, "{role} {target}: {text}");
                assert_eq!(found(&text), None, "{role} {target}: {text}");
            }
            let (_, text) = it.get("admin", &target).await;
            if found(&text).is_some() {
                shown.insert(route.path);
            }
        }
    }
    // The person is there, or nothing would have been shown by all this.
    let there = [
        "/emails/{id}",
        "/v1/campaigns/{id}/recipients",
        "/v1/dead-letters",
        "/v1/dead-letters/{id}",
        // By its `user_id`.
        "/v1/events",
        "/v1/messages",
        "/v1/messages/{id}",
        // By its filter.
        "/v1/operations",
        "/v1/operations/{id}",
        "/v1/suppressions",
        "/v1/suppressions/export",
    ];
    assert_eq!(shown, there.into(), "an admin sees persons here, and nowhere else");
    assert_eq!(it.reveals().await, [], "nobody revealed anything");
}

#[tokio::test] // REQ AU-3
async fn what_is_masked_can_still_be_told_apart_and_worked_on() {
    let it = furnished(setup()).await;
    let letter =
        it.house.call_as("operator", "GET", &format!("/v1/dead-letters/{}", it.letter), "").await.json();
    assert_eq!(letter["to"], "+55 11 9••••-3211");
    assert_eq!(letter["revisions"][0]["to"], "+55 11 9••••-3210");
    assert_eq!(letter["content"], json!({"body": {"paciente": "•••", "cpf": "•••", "fone": ["•••", "•••"]}}));
    assert_eq!(letter["metadata"], json!({"nome": "•••", "cpf": "•••", "telefone": "•••"}));
    assert_eq!(
        (&letter["reference"], &letter["user_id"]),
        (&json!("visita-1"), &json!("m***@clinica.example"))
    );
    assert_eq!(letter["last_error"]["text"], "paciente ***, CPF ***25, ***10: não encontrado");
    assert_eq!(letter["revisions"][0]["note"], "liguei para ***10");
    let sent = it.house.call_as("viewer", "GET", &format!("/v1/messages/{}", it.sent), "").await.json();
    assert_eq!(sent["to"], "m•••@clinica.example");
    assert_eq!(sent["delivery_detail"], "a caixa de *** <m***@clinica.example> está cheia");
    let pending = it.house.call_as("viewer", "GET", &format!("/v1/messages/{}", it.pending), "").await.json();
    assert_eq!(pending["to"], "https://crm.example/•••");
    // What is on its way to many is seen with what stands for each.
    let preview = format!("/v1/campaigns/{}/preview", it.odd);
    let sample = it.house.call_as("viewer", "POST", &preview, "").await.json()["samples"][0].clone();
    assert_eq!(sample["to"], "m•••@clinica.example");
    assert_eq!(sample["content"], json!({"subject": "Olá •••", "text": "CPF •••"}));
    let sample = it.house.call_as("operator", "POST", &format!("{preview}?reveal=true"), "").await.json();
    assert_eq!(sample["samples"][0]["content"]["subject"], format!("Olá {NAME}"));
    // A message that was just handed in is shown as any other.
    let wish = message(&json!({"channel": "null", "to": MAIL}));
    let made = it.house.call_as("operator", "POST", "/v1/messages", wish.to_string()).await.json();
    assert_eq!(made["to"], "m•••@clinica.example");
    let dry = json!({"ids": [it.letter], "dry_run": true}).to_string();
    let counted = it.house.call_as("operator", "POST", "/v1/dead-letters/reprocess", dry).await.json();
    assert_eq!(counted["samples"][0]["to"], "+55 11 9••••-3211");
}

#[tokio::test] // REQ AU-3
async fn a_producer_reads_what_it_wrote() {
    let it = furnished(setup()).await;
    let (_, text) = it.get("producer", &format!("/v1/messages/{}?reveal=true", it.sent)).await;
    assert!(text.contains(MAIL) && text.contains(NAME), "{text}");
    assert_eq!(it.reveals().await, [], "nothing was hidden from it");
}

/// What can be revealed, and what the record says of it.
fn revealed(it: &Furnished) -> Vec<(String, Value)> {
    let campaign = &it.campaign;
    vec![
        (format!("/v1/messages/{}", it.sent), json!({"what": "message"})),
        (format!("/v1/dead-letters/{}", it.letter), json!({"what": "dead_letter"})),
        (
            "/v1/messages?recipient=maria.canario@clinica.example".to_owned(),
            json!({"what": "messages", "count": 3, "filters": {"recipient": "m•••@clinica.example"}}),
        ),
        (
            "/v1/dead-letters?channel=mail".to_owned(),
            json!({"what": "dead_letters", "count": 1, "filters": {"channel": "mail"}}),
        ),
        (
            format!("/v1/campaigns/{campaign}/recipients"),
            json!({"what": "recipients", "campaign": campaign, "count": 1}),
        ),
        (
            format!("/v1/campaigns/{campaign}/recipients?format=csv"),
            json!({"what": "recipients", "campaign": campaign, "count": 1, "filters": {"format": "csv"}}),
        ),
        ("/v1/suppressions".to_owned(), json!({"what": "suppressions", "count": 2})),
        ("/v1/suppressions/export".to_owned(), json!({"what": "suppressions"})),
    ]
}

fn revealing(target: &str) -> String {
    format!("{target}{}reveal=true", if target.contains('?') { '&' } else { '?' })
}

#[tokio::test] // REQ AU-3
async fn whoever_reveals_leaves_one_record_first_and_nobody_in_it() {
    let it = furnished(setup()).await;
    for (target, detail) in revealed(&it) {
        let before = it.reveals().await.len();
        let (status, text) = it.get("operator", &revealing(&target)).await;
        assert!(status.is_success() && found(&text).is_some(), "{target}: {status} {text}");
        let records = it.reveals().await;
        assert_eq!(records.len(), before + 1, "{target}");
        let record = records.last().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&record.detail).unwrap(), detail, "{target}");
        assert_eq!((record.actor.as_str(), found(&format!("{record:?}"))), ("operator (key_operator)", None));
        let named = record.message.map(|id| id.to_string());
        assert_eq!(named.is_some_and(|id| target.contains(&id)), record.message.is_some(), "{target}");
        // What cannot be written down is not shown.
        it.house.store.no_records.store(true, Ordering::Relaxed);
        let (status, text) = it.get("operator", &revealing(&target)).await;
        assert_eq!((status, found(&text)), (StatusCode::SERVICE_UNAVAILABLE, None), "{target}");
        it.house.store.no_records.store(false, Ordering::Relaxed);
        assert_eq!(
            it.get("operator", &target).await.0,
            StatusCode::OK,
            "{target}: it is read without, all the same"
        );
    }
    // Who looked at a message stands in the message's own trail.
    let (_, trail) = it.get("viewer", &format!("/v1/audit?message={}&event=revealed", it.sent)).await;
    assert!(trail.contains("key_operator"), "{trail}");
}

#[tokio::test] // REQ AU-3
async fn a_key_reveals_only_if_it_may() {
    let it = furnished(setup()).await;
    it.house.add_key("default", &KeyDoc { reveal: Some(false), ..key("strict", "operator") }).await;
    it.house.add_key("default", &KeyDoc { reveal: Some(true), ..key("trusted", "viewer") }).await;
    it.house.clock.pass(Span::from_secs(2));
    for (target, _) in revealed(&it) {
        for who in ["viewer", "strict"] {
            let (status, text) = it.get(who, &revealing(&target)).await;
            let problem: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (status, &problem["code"]),
                (StatusCode::FORBIDDEN, &json!("REVEAL_NOT_ALLOWED")),
                "{target}"
            );
            assert!(problem["hint"].as_str().unwrap().contains("keys set"), "{text}");
        }
        assert!(it.get("trusted", &revealing(&target)).await.0.is_success(), "{target}");
    }
    assert!(it.reveals().await.iter().all(|record| record.actor == "trusted (key_trusted)"));
    let (status, _) = it.get("viewer", &format!("/v1/messages/{}?reveal=maybe", it.sent)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test] // REQ AU-3
async fn leave_to_reveal_is_given_with_the_key_and_can_be_changed() {
    let house = House::new().await;
    for (role, usual) in [("producer", false), ("viewer", false), ("operator", true), ("admin", true)] {
        let made = post(&house, "/v1/keys", &json!({"role": role})).await;
        assert_eq!(made["reveal"], usual, "{role}");
        let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
        let changed = house.call("PATCH", &path, json!({"reveal": !usual}).to_string()).await.json();
        assert_eq!(changed["reveal"], !usual, "{role}");
        let rotated = post(&house, &format!("{path}/rotate"), &json!({})).await;
        assert_eq!(rotated["reveal"], !usual, "{role}: whoever takes its place may do the same");
    }
    let made = post(&house, "/v1/keys", &json!({"role": "viewer", "reveal": true})).await;
    assert_eq!(house.get(&format!("/v1/keys/{}", made["id"].as_str().unwrap())).await.json()["reveal"], true);
    house
        .post("/v1/keys", &json!({"role": "viewer", "reveal": "yes"}))
        .await
        .refused("INVALID_FIELD", "reveal");
}

#[tokio::test] // REQ AU-3
async fn which_roles_see_persons_masked_is_configured_and_takes_effect_at_once() {
    let it = furnished(Setup { masked: [MaskedRole::Admin].into(), ..setup() }).await;
    let target = format!("/v1/messages/{}", it.sent);
    assert!(found(&it.get("viewer", &target).await.1).is_some());
    assert!(found(&it.get("operator", &target).await.1).is_some());
    assert_eq!(found(&it.get("admin", &target).await.1), None);
    assert!(found(&it.get("admin", &revealing(&target)).await.1).is_some());
    assert_eq!(it.reveals().await.len(), 1);
    it.house.setup.send_replace(Arc::new(setup()));
    assert_eq!(found(&it.get("viewer", &target).await.1), None);
    assert!(found(&it.get("admin", &target).await.1).is_some());
}

#[tokio::test] // REQ AU-3
async fn what_was_masked_takes_nobodys_place() {
    let it = furnished(setup()).await;
    let path = format!("/v1/dead-letters/{}", it.letter);
    let seen = it.house.call_as("operator", "GET", &path, "").await.json();
    for field in ["to", "content"] {
        let edit = json!({field: seen[field], "version": 2}).to_string();
        it.house.call_as("operator", "PATCH", &path, edit).await.refused("INVALID_FIELD", field);
    }
    let edit = json!({"to": "+5511976543299", "version": 2}).to_string();
    let edited = it.house.call_as("operator", "PATCH", &path, edit).await;
    assert_eq!((edited.status, &edited.json()["to"]), (StatusCode::OK, &json!("+55 11 9••••-3299")));
    let whole = it.house.get(&path).await.json();
    assert_eq!(whole["content"]["body"]["paciente"], NAME, "what was not changed is what it was");
    let wish = json!({"kind": "email", "recipient": "m•••@clinica.example"});
    it.house.post("/v1/suppressions", &wish).await.refused("INVALID_FIELD", "recipient");
}

#[test] // REQ AU-3
fn every_role_that_looks_can_be_masked_and_no_other() {
    let looks = Role::ALL.into_iter().filter(|role| Access::Look.allows(*role)).count();
    let roles: BTreeSet<MaskedRole> = serde_json::from_value(json!(["viewer", "operator", "admin"])).unwrap();
    assert_eq!(looks, roles.len());
    assert!(serde_json::from_value::<MaskedRole>(json!("producer")).is_err());
}
