//! Erasure at the door: who may ask for it, what is written down of it, and what is never.

use axum::body::Body;
use http::StatusCode;
use pombo_kernel::erasure::{Bookmark, Seeker};
use pombo_kernel::name::Tenant;
use pombo_store::Store;
use pombo_store::audit::Event;
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
use pombo_web::{operation, suppression};
use serde_json::{Value, json};

use crate::house::{House, NOW};

const PHONE: &str = "+55 11 98765-4321";

async fn asked(house: &House, body: &Value) -> Value {
    let reply = house.post("/v1/privacy/erase", body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    assert!(reply.header("location").unwrap().starts_with("/v1/operations/opr_"));
    reply.json()
}

#[tokio::test] // REQ AU-3
async fn an_erasure_is_an_operation_that_does_not_say_who_it_is_about() {
    let house = House::new().await;
    let reason = "asked for by 11 98765-4321 in writing";
    let begun = asked(&house, &json!({"recipient": PHONE, "reason": reason})).await;
    assert_eq!(
        (&begun["kind"], &begun["state"], &begun["stage"]),
        (&json!("erase"), &json!("running"), &json!("erasing"))
    );
    let erasure = &begun["erasure"];
    assert_eq!(erasure["person"]["kind"], "whatsapp");
    assert_eq!(erasure["person"]["hash"].as_str().unwrap().len(), 64);
    assert_eq!((&erasure["dry_run"], &erasure["erased"]["messages"]), (&json!(false), &json!(0)));
    let id = begun["id"].as_str().unwrap();
    assert_eq!(house.get(&format!("/v1/operations/{id}")).await.json()["erasure"], *erasure);
    let doc = house.store.doc(Shelf::Operation, Tenant::default(), id.to_owned()).await.unwrap().unwrap();
    let records = house.store.audit(0, 100).await.unwrap();
    let started = records.iter().find(|(_, it)| it.event == Event::OperationStarted).unwrap();
    for text in [&doc.leaf.body, &started.1.detail, &begun.to_string()] {
        for canary in ["98765", "4321 in", "987654321"] {
            assert!(!text.contains(canary), "{canary} in {text}");
        }
    }
    assert!(started.1.detail.contains("in writing"), "{}", started.1.detail);
}

#[tokio::test] // REQ AU-3
async fn the_same_person_is_the_same_hash_however_the_address_is_written() {
    let house = House::new().await;
    let mut hashes = Vec::new();
    for recipient in
        [PHONE, "11987654321", "+55 11 8765-4321", "5511987654321@s.whatsapp.net", "+5511987654322"]
    {
        let begun = asked(&house, &json!({"recipient": recipient, "dry_run": true})).await;
        hashes.push(begun["erasure"]["person"]["hash"].clone());
    }
    assert!(hashes[..4].iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    assert_ne!(hashes[4], hashes[0]);
    let mail = asked(&house, &json!({"recipient": "Ana <ana@Clinica.EXAMPLE>"})).await;
    assert_eq!(mail["erasure"]["person"]["kind"], "email");
    let other = asked(&house, &json!({"recipient": "patient 5"})).await;
    assert_eq!(other["erasure"]["person"]["kind"], Value::Null);
}

#[tokio::test]
async fn only_an_admin_erases_and_only_the_house_for_other_tenants() {
    let house = House::new().await;
    let body = json!({"recipient": PHONE}).to_string();
    for role in ["producer", "viewer", "operator"] {
        let reply = house.call_as(role, "POST", "/v1/privacy/erase", Body::from(body.clone())).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{role}");
    }
    let ours = json!({"recipient": PHONE, "tenant": "default"}).to_string();
    let reply = house.call_as("foreign", "POST", "/v1/privacy/erase", Body::from(ours)).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN, "{}", reply.text);
    let begun = asked(&house, &json!({"recipient": PHONE, "tenant": "other"})).await;
    assert_eq!(begun["erasure"]["tenant"], "other");
    let own = asked(&house, &json!({"recipient": PHONE})).await;
    assert_ne!(
        own["erasure"]["person"]["hash"], begun["erasure"]["person"]["hash"],
        "tenants have hashes of their own"
    );
}

#[tokio::test] // REQ SE-1, AU-3
async fn the_erasure_that_another_tenant_begins_finds_nobody_of_ours() {
    let house = House::new().await;
    house.created(&json!({"channel": "null", "to": PHONE})).await;
    for (who, tenant, finds) in [("foreign", "other", 0), ("admin", "default", 1)] {
        let body = json!({"recipient": PHONE, "dry_run": true}).to_string();
        let begun = house.call_as(who, "POST", "/v1/privacy/erase", body).await.json();
        let (tenant, id): (Tenant, _) = (tenant.parse().unwrap(), begun["id"].as_str().unwrap().to_owned());
        let doc = house.store.doc(Shelf::Operation, tenant, id).await.unwrap().unwrap();
        // Whoever carries it out looks for exactly this.
        let erasure = *operation::read(&doc).unwrap().erasure.unwrap();
        let seeker = Seeker::new(house.store.pseudonyms(), erasure.tenant, erasure.person);
        let mut found = 0;
        let mut from = Some(Bookmark::default());
        while let Some(here) = from {
            let sought = house.store.seek(seeker.clone(), here, 1_000).await.unwrap();
            found += sought.traces.len();
            from =
                sought.next.or_else(|| here.room.next().map(|room| Bookmark { room, ..Bookmark::default() }));
        }
        assert_eq!(found, finds, "{who}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_told_by_field_and_nothing_is_begun() {
    const OTHER: &str = "+55 11 91234-5678";
    let house = House::new().await;
    for (body, field) in [
        (json!({}), "recipient"),
        (json!({"recipient": "   "}), "recipient"),
        (json!({"recipient": OTHER, "dry_run": "yes"}), "dry_run"),
        (json!({"recipient": OTHER, "tenant": "NOT ONE"}), "tenant"),
        (json!({"recipient": OTHER, "everything": true}), "everything"),
    ] {
        let reply = house.post("/v1/privacy/erase", &body).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", reply.text);
        assert_eq!(reply.json()["errors"][0]["field"], field, "{}", reply.text);
        assert!(!reply.text.contains("91234"));
    }
    assert_eq!(house.get("/v1/operations").await.json()["items"], json!([]));
}

#[tokio::test]
async fn the_same_request_again_is_the_same_operation_and_its_key_tells_nothing() {
    let house = House::new().await;
    let ask = |body: Value| {
        let call = crate::house::request("POST", "/v1/privacy/erase")
            .header("authorization", "Bearer key-admin")
            .header("content-type", "application/json")
            .header("idempotency-key", "k1")
            .body(Body::from(body.to_string()))
            .unwrap();
        house.send(call)
    };
    let first = ask(json!({"recipient": PHONE})).await;
    let again = ask(json!({"recipient": "11987654321"})).await;
    assert_eq!(first.json()["id"], again.json()["id"], "{}", again.text);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(ask(json!({"recipient": "+5511987654322"})).await.code(), "IDEMPOTENCY_CONFLICT");
}

/// As an erasure leaves it.
async fn erased(house: &House) {
    let hash = house.store.pseudonyms().person(&Tenant::default(), PHONE).unwrap().hash;
    let body = json!({"id": "sup_1", "kind": "whatsapp", "recipient": "[erased]", "reason": "opt_out",
        "created_at": NOW, "created_by": "ana"});
    let leaf = Leaf { order: 1, topic: Some("sup_1".into()), due: None, body: body.to_string() };
    let (shelf, tenant, id) = (Shelf::Suppression, Tenant::default(), suppression::hidden(&hash));
    let wish = Shelve { shelf, tenant, id, expect: Expect::Nothing, leaf: Some(leaf), record: None };
    house.store.shelve(vec![wish]).await.unwrap();
}

#[tokio::test] // REQ AU-3, BK-8
async fn whoever_was_erased_stays_on_the_suppression_list_and_is_found_by_their_address_alone() {
    let house = House::new().await;
    erased(&house).await;
    let kind = pombo_kernel::kind::ChannelKind::Evolution;
    for to in [PHONE, "11 8765-4321"] {
        let found = suppression::of(&*house.store, &Tenant::default(), kind, to).await.unwrap().unwrap();
        assert_eq!(found.recipient, "[erased]");
    }
    let of = suppression::of(&*house.store, &Tenant::default(), kind, "+5511987654322").await.unwrap();
    assert_eq!(of, None);
    let found = house.get("/v1/suppressions?recipient=%2B5511987654321").await.json();
    assert_eq!(found["items"][0]["id"], "sup_1");
    let again = house.post("/v1/suppressions", &json!({"kind": "whatsapp", "recipient": PHONE})).await;
    assert_eq!(
        (again.status, again.json()["id"].clone()),
        (StatusCode::OK, json!("sup_1")),
        "{}",
        again.text
    );
    let listed = house.get("/v1/suppressions").await.text;
    assert!(!listed.contains("98765"), "{listed}");
    let gone = house.call("DELETE", "/v1/suppressions/sup_1", Body::empty()).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(suppression::of(&*house.store, &Tenant::default(), kind, PHONE).await.unwrap(), None);
}
