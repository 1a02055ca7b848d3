use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use http::StatusCode;
use pombo_kernel::attachment::Blob;
use pombo_kernel::setup::{Limits, Setup};
use pombo_store::{Store, StoreError};
use pombo_web::Patience;
use serde_json::{Value, json};

use crate::house::{House, NOW, message, request, setup};

fn welcome(words: &str) -> Value {
    json!({"subject": "Oi {{ nome }}", "text": words})
}

fn mail(changes: &Value) -> Value {
    let mut request = message(&json!({"channel": "mail", "to": "ana@clinic.example", "content": null}));
    for (field, value) in changes.as_object().unwrap() {
        request[field] = value.clone();
    }
    request
}

#[tokio::test]
async fn a_template_is_put_read_and_listed_version_by_version() {
    let house = House::new().await;
    let put = house.call_as("operator", "PUT", "/v1/templates/welcome", welcome("a").to_string()).await;
    assert_eq!(put.status, StatusCode::CREATED);
    assert_eq!(
        (&put.json()["version"], &put.json()["created_by"]),
        (&json!(1), &json!("operator (key_operator)"))
    );
    assert_eq!(
        (&put.json()["parts"], &put.json()["created_at"]),
        (&json!(["subject", "text"]), &json!(NOW.to_string()))
    );
    let same = house.call("PUT", "/v1/templates/welcome", welcome("a").to_string()).await;
    assert_eq!((same.status, &same.json()), (StatusCode::OK, &put.json()));
    assert_eq!(house.put_template("welcome", &welcome("b")).await, 2);
    assert_eq!(house.put_template("bye", &welcome("c")).await, 1);

    let show = house.get("/v1/templates/welcome").await.json();
    assert_eq!((&show["version"], &show["text"], &show["html"]), (&json!(2), &json!("b"), &Value::Null));
    assert_eq!(house.get("/v1/templates/welcome?version=1").await.json()["text"], "a");
    let list = house.get("/v1/templates?limit=1").await.json();
    assert_eq!((&list["items"][0]["name"], &list["next_cursor"]), (&json!("bye"), &json!("bye")));
    let rest = house.get("/v1/templates?cursor=bye").await.json();
    assert_eq!((&rest["items"][0]["name"], &rest["items"][0]["version"]), (&json!("welcome"), &json!(2)));
    assert_eq!(rest["next_cursor"], Value::Null);
    let versions = house.get("/v1/templates/welcome/versions?limit=1").await.json();
    assert_eq!((&versions["items"][0]["version"], &versions["next_cursor"]), (&json!(2), &json!("2")));
    let older = house.get("/v1/templates/welcome/versions?cursor=2").await.json();
    assert_eq!(older["items"][0]["version"], 1);
}

#[tokio::test]
async fn a_template_that_cannot_work_is_refused_with_every_problem() {
    let house = House::new().await;
    let body = json!({"subject": "{{ a", "html": "{{ a ~ b }}", "colour": 1}).to_string();
    house.call("PUT", "/v1/templates/x", body).await.refused("INVALID_FIELD", "colour");
    let body = json!({"subject": "{{ a", "html": "{{ a ~ b }}"}).to_string();
    let reply = house.call("PUT", "/v1/templates/x", body).await;
    reply.refused("TEMPLATE_ERROR", "subject");
    assert!(reply.refused("TEMPLATE_ERROR", "html")["reason"].as_str().unwrap().contains("`~`"));
    house.call("PUT", "/v1/templates/x", "{}").await.refused("TEMPLATE_ERROR", "template");
    house
        .call("PUT", "/v1/templates/Not%20A%20Name", welcome("a").to_string())
        .await
        .refused("INVALID_FIELD", "name");
    assert_eq!(house.get("/v1/templates").await.json()["items"], json!([]));
}

#[tokio::test] // REQ SE-1
async fn templates_belong_to_their_tenant_and_to_who_may_touch_them() {
    let house = House::new().await;
    for who in ["producer", "viewer"] {
        let reply = house.call_as(who, "PUT", "/v1/templates/welcome", welcome("a").to_string()).await;
        assert_eq!(reply.code(), "FORBIDDEN", "{who}");
    }
    house.put_template("welcome", &welcome("a")).await;
    assert_eq!(
        house.call_as("viewer", "GET", "/v1/templates/welcome", Body::empty()).await.status,
        StatusCode::OK
    );
    let foreign = house.call_as("foreign", "GET", "/v1/templates/welcome", Body::empty()).await;
    assert_eq!(foreign.code(), "NOT_FOUND");
    let near = house.get("/v1/templates/welcom").await;
    assert_eq!(
        (near.code().as_str(), &near.json()["hint"]),
        ("NOT_FOUND", &json!("did you mean `welcome`?"))
    );
    let late = house.get("/v1/templates/welcome?version=9").await;
    assert_eq!((late.code().as_str(), &late.json()["hint"]), ("NOT_FOUND", &json!("the latest is 1")));
    house.get("/v1/templates?colour=1").await.refused("INVALID_FIELD", "colour");
    assert_eq!(house.get("/v1/templates/welcome/versions?cursor=x").await.code(), "INVALID_CURSOR");
}

#[tokio::test]
async fn rendering_shows_what_a_channel_would_get_or_what_is_missing() {
    let house = House::new().await;
    house.put_template("welcome", &welcome("Olá, {{ nome }}")).await;
    house.put_template("welcome", &welcome("Oi, {{ nome }}")).await;
    let render = |body: Value| {
        let house = &house;
        async move { house.post("/v1/templates/welcome/render", &body).await }
    };
    let shown = render(json!({"payload": {"nome": "Ana"}})).await.json();
    assert_eq!((&shown["kind"], &shown["version"]), (&json!("smtp"), &json!(2)));
    assert_eq!(shown["content"], json!({"subject": "Oi Ana", "text": "Oi, Ana"}));
    let whatsapp =
        render(json!({"payload": {"nome": "Ana"}, "kind": "evolution", "version": 1})).await.json();
    assert_eq!(whatsapp["content"], json!({"text": "Olá, Ana"}));
    assert_eq!(render(json!({"payload": {"nome": "Ana"}, "channel": "mail"})).await.json()["kind"], "smtp");
    let lacking = render(json!({"payload": {"name": "canary"}})).await;
    assert_eq!(
        (lacking.status, lacking.code().as_str()),
        (StatusCode::UNPROCESSABLE_ENTITY, "TEMPLATE_ERROR")
    );
    let detail = lacking.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(detail, "template `welcome` version 2: subject, line 1: `nome` is not in the payload");
    assert!(
        render(json!({"channel": "crm"})).await.json()["detail"]
            .as_str()
            .unwrap()
            .contains("no body for webhook")
    );
    for (body, field) in [
        (json!({"payload": []}), "payload"),
        (json!({"kind": "pigeon"}), "kind"),
        (json!({"channel": "theirs"}), "channel"),
        (json!({"version": "x"}), "version"),
    ] {
        render(body).await.refused("INVALID_FIELD", field);
    }
}

#[tokio::test]
async fn words_are_rendered_before_there_is_a_template_of_them() {
    let house = House::new().await;
    let draft = json!({"subject": "Oi {{ nome }}", "text": "Oi"});
    let ask = json!({"draft": draft, "payload": {"nome": "Ana"}});
    let shown = house.post("/v1/templates/none/render", &ask).await.json();
    let content = json!({"subject": "Oi Ana", "text": "Oi"});
    assert_eq!(shown, json!({"name": "none", "version": null, "kind": "smtp", "content": content}));
    let lacking = house.post("/v1/templates/none/render", &json!({"draft": draft})).await;
    assert_eq!(lacking.json()["detail"], "subject, line 1: `nome` is not in the payload");
    for (draft, code, field) in [
        (json!({"text": "{{ oops"}), "TEMPLATE_ERROR", "text"),
        (json!({}), "TEMPLATE_ERROR", "template"),
        (json!({"words": "x"}), "INVALID_FIELD", "words"),
        (json!("x"), "INVALID_FIELD", "draft"),
    ] {
        house.post("/v1/templates/none/render", &json!({ "draft": draft })).await.refused(code, field);
    }
    assert_eq!(house.get("/v1/templates").await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_message_is_pinned_to_the_version_that_was_the_latest() {
    let house = House::new().await;
    house.put_template("welcome", &welcome("a {{ nome }}")).await;
    let request = mail(&json!({"template": "welcome", "payload": {"nome": "Ana"}}));
    let first = house.post("/v1/messages", &request).await;
    assert_eq!((first.status, &first.json()["template_version"]), (StatusCode::ACCEPTED, &json!(1)));
    house.put_template("welcome", &welcome("b {{ nome }}")).await;
    let second = house.post("/v1/messages", &request).await.json();
    assert_eq!(second["template_version"], 2);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let story = house.get(&format!("/v1/messages/{id}")).await.json();
    assert_eq!((&story["template"], &story["template_version"]), (&json!("welcome"), &json!(1)));
    assert_eq!(story["payload"], json!({"nome": "Ana"}));
}

#[tokio::test]
async fn a_template_that_is_not_there_or_does_not_suit_is_refused_at_the_door() {
    let house = House::new().await;
    house.put_template("welcome", &welcome("a")).await;
    let unknown = house.post("/v1/messages", &mail(&json!({"template": "welcom"}))).await;
    assert_eq!(unknown.refused("TEMPLATE_NOT_FOUND", "template")["hint"], "did you mean `welcome`?");
    let webhook = message(&json!({"content": null, "template": "welcome"}));
    let unsuited = house.post("/v1/messages", &webhook).await;
    assert!(
        unsuited.refused("CONTENT_NOT_ACCEPTED", "template")["reason"]
            .as_str()
            .unwrap()
            .contains("no body for webhook")
    );
    let nobody = mail(&json!({"template": "welcome", "to": "nobody"}));
    house.post("/v1/messages", &nobody).await.refused("INVALID_FIELD", "to");
    assert_eq!(house.stored().await, 0);
}

#[tokio::test]
async fn each_item_of_a_batch_has_its_own_template() {
    let house = House::new().await;
    house.put_template("welcome", &welcome("a")).await;
    let items = [
        mail(&json!({"template": "welcome"})),
        mail(&json!({"template": "nope"})),
        message(&json!({})),
        mail(&json!({"template": "welcome", "priority": 10})),
        mail(&json!({"template": "welcome"})),
    ];
    let check = |results: &[Value]| {
        let codes: Vec<_> = results.iter().map(|it| it["error"]["code"].as_str().unwrap_or("ok")).collect();
        assert_eq!(codes, ["ok", "TEMPLATE_NOT_FOUND", "ok", "INVALID_FIELD", "ok"]);
    };
    let list = house.post("/v1/messages/batch", &json!(items)).await.json();
    check(list["items"].as_array().unwrap());
    let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
    check(&house.post_ndjson(lines).await.lines());
    assert_eq!(house.stored().await, 6);
    house.store.feel(Some(StoreError::Unavailable("full".into())));
    assert_eq!(house.post("/v1/messages/batch", &json!([items[0]])).await.code(), "STORE_UNAVAILABLE");
}

fn attached(bytes: usize) -> Value {
    let file = json!({"filename": "exame.pdf", "content": "QUJD".repeat(bytes / 3)});
    mail(&json!({"content": {"subject": "s", "text": "t", "attachments": [file]}}))
}

#[tokio::test] // REQ ML-10
async fn an_attachment_is_stored_apart_and_shown_as_a_reference() {
    let house = House::new().await;
    let blob = Blob::of(b"ABC".repeat(8_000));
    let reference = json!({"blob": blob.digest.to_string(), "size": 24_000});
    let created = house.post("/v1/messages", &attached(24_000)).await;
    assert_eq!(created.status, StatusCode::ACCEPTED, "{}", created.text);
    assert_eq!(created.json()["content"]["attachments"][0]["content"], reference);
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let story = house.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(story.json()["content"]["attachments"][0]["content"], reference);
    assert!(!story.text.contains("QUJD"));
    assert_eq!(house.store.blob(blob.digest).await.unwrap(), Some(blob.bytes.clone()));
    let batch = house.post_ndjson(format!("{}\n{}\n", attached(24_000), attached(9))).await.lines();
    assert!(batch.iter().all(|line| line["error"].is_null()), "{batch:?}");
    let keyed = house.post_keyed(&attached(24_000), "k").await.json();
    assert_eq!(house.post_keyed(&attached(24_000), "k").await.json()["id"], keyed["id"]);
    assert_eq!(house.post_keyed(&attached(24_003), "k").await.code(), "IDEMPOTENCY_CONFLICT");
}

#[tokio::test] // REQ ML-10
async fn attachments_and_content_have_limits_of_their_own() {
    let house = House::new().await;
    let large = house.post("/v1/messages", &attached(30_003)).await;
    let about = large.refused("BODY_TOO_LARGE", "content.attachments");
    assert!(about["reason"].as_str().unwrap().contains("at most 30000"), "{about}");
    let wordy = mail(&json!({"content": {"subject": "s", "text": "x".repeat(5_000)}}));
    house.post("/v1/messages", &wordy).await.refused("BODY_TOO_LARGE", "content");
    let other = message(&json!({"content": {"body": "x".repeat(5_000)}}));
    house.post("/v1/messages", &other).await.refused("BODY_TOO_LARGE", "content");
    assert_eq!(house.stored().await, 0);
}

#[tokio::test] // REQ ML-10
async fn a_file_of_25_mib_passes_with_the_usual_limits_one_byte_more_does_not() {
    let house = House::with(Setup { limits: Limits::default(), ..setup() }, Patience::default()).await;
    let most = 25 * 1024 * 1024;
    let file = |bytes: usize| attached(bytes / 3 * 3).to_string();
    let created = house.call("POST", "/v1/messages", file(most)).await;
    assert_eq!(created.status, StatusCode::ACCEPTED, "{}", created.text);
    let line = house.post_ndjson(file(most)).await.lines();
    assert!(line[0]["id"].is_string(), "{line:?}");
    let larger = house.call("POST", "/v1/messages", file(most + 3)).await;
    larger.refused("BODY_TOO_LARGE", "content.attachments");
}

#[tokio::test] // RELIABILITY: many large requests at once
async fn large_bodies_share_a_room_and_who_finds_none_is_asked_to_come_back() {
    let house = House::with(Setup { limits: Limits::default(), ..setup() }, Patience::default()).await;
    // Bodies that begin and never end, each of which has said how long it will be.
    let endless = || {
        let pieces = stream::iter((0..2).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"{"))));
        let body = Body::from_stream(pieces.chain(stream::pending()));
        request("POST", "/v1/messages")
            .header("authorization", "Bearer key-producer")
            .header("content-length", "35000000")
            .body(body)
            .unwrap()
    };
    let mut waiting: FuturesUnordered<_> = (0..6).map(|_| house.send(endless())).collect();
    for _ in 0..3 {
        assert_eq!(waiting.next().await.unwrap().code(), "OVERLOADED");
    }
    assert_eq!(waiting.len(), 3, "so many of them have room");
    assert_eq!(house.post("/v1/messages", &message(&json!({}))).await.status, StatusCode::ACCEPTED);
}
