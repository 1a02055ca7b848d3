use http::StatusCode;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::time::Span;
use pombo_store::{Store, StoreError};
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use super::*;

fn mail(changes: &Value) -> Value {
    let mut mail = json!({"from": "Clínica <mail@clinic.example>", "to": "ana@x.example",
                          "subject": "Olá", "html": "<p>oi</p>"});
    for (field, value) in changes.as_object().unwrap() {
        mail[field] = value.clone();
    }
    mail
}

async fn post(house: &House, headers: &[(&str, &str)], body: &Value) -> Reply {
    call(house, ("POST", "/emails"), &[&[PRODUCER], headers].concat(), body.to_string()).await
}

async fn batch(house: &House, headers: &[(&str, &str)], body: &Value) -> Reply {
    call(house, ("POST", "/emails/batch"), &[&[PRODUCER], headers].concat(), body.to_string()).await
}

fn id(reply: &Reply) -> String {
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()["id"].as_str().unwrap().to_owned()
}

fn refused(reply: &Reply, status: u16, name: &str) {
    let body = reply.json();
    assert_eq!((reply.status.as_u16(), body["name"].as_str()), (status, Some(name)), "{}", reply.text);
    assert_eq!(body["statusCode"], status);
    let message = body["message"].as_str().unwrap();
    assert!(!message.is_empty() && !message.contains("()"), "{body}");
    assert_eq!(body.as_object().unwrap().len(), 3, "{body}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

async fn event(house: &House, id: &str) -> String {
    let reply = call(house, ("GET", &format!("/emails/{id}")), &[PRODUCER], "").await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()["last_event"].as_str().unwrap().to_owned()
}

#[tokio::test] // REQ IN-3
async fn a_mail_is_one_message_on_the_channel_of_resend_with_everything_that_was_asked_for() {
    let house = with_resend().await;
    let asked = mail(&json!({
        "to": ["ana@x.example", "Bia <bia@x.example>"], "cc": "c@x.example", "bcc": ["d@x.example"],
        "reply_to": "r@x.example", "text": "oi", "headers": {"X-Entity-Ref-ID": "7"},
        "tags": [{"name": "kind", "value": "welcome"}], "scheduled_at": "in 5 minutes",
        "attachments": [{"filename": "a.txt", "content": [104, 105], "content_type": "text/plain", "content_id": "a"}],
    }));
    let id = id(&post(&house, &[], &asked).await);
    assert_eq!((id.len(), id.matches('-').count()), (36, 4), "a uuid, as Resend's: {id}");
    let stored = messages(&house).await;
    assert_eq!(stored.len(), 1);
    let message = &stored[0];
    assert_eq!((message["channel"].as_str(), message["to"].as_str()), (Some("post"), Some("ana@x.example")));
    assert_eq!(
        message["content"],
        json!({
            "from": "Clínica <mail@clinic.example>", "subject": "Olá", "html": "<p>oi</p>", "text": "oi",
            "reply_to": ["r@x.example"], "also_to": ["Bia <bia@x.example>"], "cc": ["c@x.example"],
            "bcc": ["d@x.example"], "headers": {"X-Entity-Ref-ID": "7"},
            "tags": [{"name": "kind", "value": "welcome"}],
            "attachments": [{"filename": "a.txt", "content": "aGk=", "content_type": "text/plain", "content_id": "a"}],
        })
    );
    assert_eq!(message["send_at"], json!(NOW + Span::from_mins(5)));
    assert_eq!(event(&house, &id).await, "scheduled");
    let shown = call(&house, ("GET", &format!("/emails/{id}")), &[PRODUCER], "").await.json();
    assert_eq!((shown["object"].as_str(), shown["id"].as_str()), (Some("email"), Some(id.as_str())));
    assert_eq!(shown["to"], json!(["ana@x.example", "Bia <bia@x.example>"]));
    assert_eq!((&shown["cc"], &shown["bcc"]), (&json!(["c@x.example"]), &json!(["d@x.example"])));
    assert_eq!((&shown["subject"], &shown["text"]), (&json!("Olá"), &json!("oi")));
}

#[tokio::test] // REQ IN-3
async fn over_smtp_every_recipient_gets_a_message_of_one_group_under_one_id() {
    let house = with_smtp().await;
    let asked = mail(&json!({
        "to": ["ana@x.example", "Bia <bia@x.example>", "ANA@x.example"], "cc": "c@x.example",
        "bcc": "Dê <d@x.example>", "tags": [{"name": "kind", "value": "welcome"}],
    }));
    let id = id(&post(&house, &[], &asked).await);
    let stored = messages(&house).await;
    let to: Vec<&str> = stored.iter().map(|message| message["to"].as_str().unwrap()).collect();
    assert_eq!(to, ["ana@x.example", "Bia <bia@x.example>", "c@x.example", "Dê <d@x.example>"]);
    let group = stored[0]["metadata"]["group"].as_str().unwrap();
    for message in &stored {
        assert_eq!(message["content"]["shown_to"], asked["to"]);
        assert_eq!(message["content"]["shown_cc"], json!(["c@x.example"]));
        assert!(!message["content"].to_string().contains("d@x.example"), "nobody is shown who is hidden");
        assert_eq!(message["metadata"]["group"], group);
        assert_eq!(message["reference"], group);
        assert_eq!(message["metadata"]["tags"], asked["tags"]);
    }
    let shown = call(&house, ("GET", &format!("/emails/{id}")), &[PRODUCER], "").await.json();
    assert_eq!((&shown["to"], &shown["cc"]), (&asked["to"], &json!(["c@x.example"])));
    assert_eq!(shown["bcc"], json!(["Dê <d@x.example>"]));

    assert_eq!(event(&house, &id).await, "queued");
    let work = claimed(&house, 4).await;
    house.store.settle(work[..3].iter().map(|one| settlement(one, sent())).collect()).await.unwrap();
    assert_eq!(event(&house, &id).await, "queued", "one is still being sent");
    house.store.settle(vec![settlement(&work[3], failed())]).await.unwrap();
    assert_eq!(event(&house, &id).await, "failed", "one of them was not reached");
}

#[tokio::test] // REQ IN-3
async fn one_recipient_over_smtp_is_one_message_of_no_group() {
    let house = with_smtp().await;
    let id = id(&post(&house, &[], &mail(&json!({"cc": "Ana <ana@x.example>"}))).await);
    let stored = messages(&house).await;
    assert_eq!(
        (stored.len(), &stored[0]["metadata"], &stored[0]["reference"]),
        (1, &json!({}), &Value::Null)
    );
    assert_eq!(event(&house, &id).await, "queued");
    let work = claimed(&house, 1).await;
    house.store.settle(vec![settlement(&work[0], later())]).await.unwrap();
    assert_eq!(event(&house, &id).await, "delivery_delayed");
    house.clock.pass(Span::from_secs(6));
    let work = claimed(&house, 1).await;
    house.store.settle(vec![settlement(&work[0], sent())]).await.unwrap();
    assert_eq!(event(&house, &id).await, "sent");
}

#[tokio::test] // REQ IN-3
async fn the_channel_is_the_keys_own_else_one_that_can_send_resends_first() {
    use ChannelKind::{Resend, Smtp};
    let channels = [("z-post", Resend, "default"), ("a-post", Resend, "default"), ("relay", Smtp, "default")];
    let mut setup = furnished(&channels);
    let house = House::with(setup.clone(), Patience::default()).await;
    let named = |kind: &str, name: &str| KeyDoc {
        defaults: [(kind.to_owned(), name.parse().unwrap())].into(),
        ..key(&format!("for-{name}"), "producer")
    };
    house.add_key("default", &named("resend", "z-post")).await;
    house.add_key("default", &named("smtp", "relay")).await;
    let scoped = KeyDoc { channels: Some(vec!["relay".parse().unwrap()]), ..key("scoped", "producer") };
    house.add_key("default", &scoped).await;
    let through = async |who: &str| {
        let who = format!("Bearer key-{who}");
        let body = mail(&json!({})).to_string();
        id(&call(&house, ("POST", "/emails"), &[("authorization", &who)], body).await);
        messages(&house).await.last().unwrap()["channel"].as_str().unwrap().to_owned()
    };
    assert_eq!(through("producer").await, "a-post");
    assert_eq!(through("for-z-post").await, "z-post");
    assert_eq!(through("for-relay").await, "relay");
    assert_eq!(through("scoped").await, "relay");
    for name in ["a-post", "z-post"] {
        let unready =
            ChannelSetup { unready: Some("set RESEND_API_KEY".into()), ..(*setup.channels[name]).clone() };
        setup.channels.insert(name.parse().unwrap(), Arc::new(unready));
    }
    house.setup.send(Arc::new(setup)).unwrap();
    assert_eq!(through("producer").await, "relay", "the others cannot send");
    house.setup.send_modify(|setup| {
        let mut without = (**setup).clone();
        without.channels.remove("z-post");
        *setup = Arc::new(without);
    });
    let who = ("authorization", "Bearer key-for-z-post");
    let reply = call(&house, ("POST", "/emails"), &[who], mail(&json!({})).to_string()).await;
    refused(&reply, 422, "validation_error");
    let nobody = House::with(furnished(&[]), Patience::default()).await;
    let reply = call(&nobody, ("POST", "/emails"), &[FOREIGN], mail(&json!({})).to_string()).await;
    refused(&reply, 422, "validation_error");
}

#[tokio::test] // REQ ML-3, IN-3
async fn a_key_means_one_mail_quoted_or_bare_and_another_mail_under_it_is_a_conflict() {
    for house in [with_resend().await, with_smtp().await] {
        let asked = mail(&json!({"to": ["ana@x.example", "b@x.example", "c@x.example"]}));
        let first = id(&post(&house, &[("idempotency-key", "k-1")], &asked).await);
        let stored = messages(&house).await.len();
        let again = id(&post(&house, &[("idempotency-key", "\"k-1\"")], &asked).await);
        assert_eq!(first, again);
        let other = mail(&json!({"to": ["ana@x.example", "b@x.example", "c@x.example", "d@x.example"]}));
        refused(
            &post(&house, &[("idempotency-key", "k-1")], &other).await,
            409,
            "invalid_idempotent_request",
        );
        let many = json!([asked, asked]);
        refused(
            &batch(&house, &[("idempotency-key", "k-1")], &many).await,
            409,
            "invalid_idempotent_request",
        );
        assert_eq!(messages(&house).await.len(), stored, "nothing of another request was stored");
        let long = "x".repeat(257);
        for bad in ["", "\"", &long] {
            refused(&post(&house, &[("idempotency-key", bad)], &asked).await, 400, "invalid_idempotency_key");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-3
async fn a_hundred_at_once_under_one_key_are_one_mail() {
    let house = with_smtp().await;
    let asked = mail(&json!({"to": ["ana@x.example", "b@x.example"]}));
    let all =
        futures_util::future::join_all((0..100).map(|_| post(&house, &[("idempotency-key", "k")], &asked)));
    let ids: std::collections::BTreeSet<String> = all.await.iter().map(id).collect();
    assert_eq!((ids.len(), messages(&house).await.len()), (1, 2));
}

#[tokio::test] // REQ IN-3
async fn a_strict_batch_is_all_or_nothing_and_a_permissive_one_tells_which_are_wrong() {
    let house = with_resend().await;
    let good = mail(&json!({}));
    let mixed = json!([good, mail(&json!({"to": "nobody"})), mail(&json!({"subject": null})), good]);
    refused(&batch(&house, &[], &mixed).await, 422, "validation_error");
    refused(&batch(&house, &[("x-batch-validation", "strict")], &mixed).await, 422, "validation_error");
    refused(&batch(&house, &[("x-batch-validation", "lax")], &mixed).await, 422, "validation_error");
    assert_eq!(house.stored().await, 0);

    let headers = [("x-batch-validation", "permissive"), ("idempotency-key", "b-1")];
    let reply = batch(&house, &headers, &mixed).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let answer = reply.json();
    assert_eq!(answer["data"].as_array().unwrap().len(), 2);
    let errors: Vec<_> = answer["errors"].as_array().unwrap().iter().map(|it| it["index"].clone()).collect();
    assert_eq!(errors, [1, 2]);
    assert!(answer["errors"][1]["message"].as_str().unwrap().contains("`subject`"), "{answer}");
    assert_eq!(batch(&house, &headers, &mixed).await.json(), answer, "the same again");
    assert_eq!(house.stored().await, 2);
    let longer = json!([good, good, good, good, good, good]);
    refused(&batch(&house, &headers, &longer).await, 409, "invalid_idempotent_request");
    assert_eq!(house.stored().await, 2, "nor is what the first one did not have");

    let reply = batch(&house, &[], &json!([good, good])).await;
    assert_eq!((reply.json()["data"].as_array().unwrap().len(), reply.json().get("errors")), (2, None));
    for bad in [json!([]), json!({}), json!(vec![good.clone(); 101])] {
        refused(&batch(&house, &[], &bad).await, 422, "validation_error");
    }
    refused(&post(&house, &[], &json!([good])).await, 422, "validation_error");
}

#[tokio::test] // REQ IN-3
async fn what_is_wrong_is_told_by_resends_names_and_stores_nothing() {
    let house = with_resend().await;
    for (changes, name) in [
        (json!({"from": null}), "missing_required_field"),
        (json!({"to": ""}), "missing_required_field"),
        (json!({"html": null}), "validation_error"),
        (json!({"from": "nobody"}), "invalid_from_address"),
        (json!({"to": "ana@x.example\r\nBcc: eve@x.example"}), "validation_error"),
        (json!({"cc": ["ana@x.example", "x y"]}), "validation_error"),
        (json!({"reply_to": "<"}), "validation_error"),
        (json!({"subject": "a\r\nBcc: eve@x.example"}), "validation_error"),
        (json!({"headers": {"X-A": "1\r\nBcc: eve@x.example"}}), "validation_error"),
        (json!({"headers": {"Bcc": "eve@x.example"}}), "validation_error"),
        (json!({"headers": ["X-A"]}), "validation_error"),
        (json!({"scheduled_at": "2001-01-01T00:00:00Z"}), "validation_error"),
        (json!({"attachments": [{"filename": "a", "content": "!"}]}), "invalid_attachment"),
        (json!({"attachments": [{"filename": "a/b", "content": "aGk="}]}), "invalid_attachment"),
        (json!({"html": "x".repeat(5_000)}), "validation_error"),
    ] {
        refused(&post(&house, &[], &mail(&changes)).await, 422, name);
    }
    let over_smtp = with_smtp().await;
    let linked = mail(&json!({"attachments": [{"filename": "a", "path": "https://x.example/a"}]}));
    refused(&post(&over_smtp, &[], &linked).await, 422, "invalid_attachment");
    let hidden = mail(&json!({"bcc": ["b@x.example\r\nDATA"]}));
    refused(&post(&over_smtp, &[], &hidden).await, 422, "validation_error");
    assert_eq!((house.stored().await, over_smtp.stored().await), (0, 0));
}

#[tokio::test] // REQ IN-3, SE-1
async fn keys_are_told_apart_as_resend_does_and_nobody_sees_anothers_mail() {
    let house = with_resend().await;
    let scoped = KeyDoc { channels: Some(vec!["crm".parse().unwrap()]), ..key("scoped", "producer") };
    house.add_key("default", &scoped).await;
    let asked = mail(&json!({})).to_string();
    let send =
        async |headers: &[(&str, &str)]| call(&house, ("POST", "/emails"), headers, asked.clone()).await;
    refused(&send(&[]).await, 401, "missing_api_key");
    refused(&send(&[("authorization", "Basic eA==")]).await, 401, "missing_api_key");
    refused(&send(&[("authorization", "Bearer re_wrong")]).await, 400, "validation_error");
    refused(&send(&[VIEWER]).await, 401, "restricted_api_key");
    assert_eq!(house.stored().await, 0);
    let id = id(&send(&[PRODUCER]).await);
    let show = async |who, id: &str| call(&house, ("GET", &format!("/emails/{id}")), &[who], "").await;
    assert_eq!(show(VIEWER, &id).await.status, StatusCode::OK);
    refused(&show(FOREIGN, &id).await, 404, "not_found");
    refused(&show(PRODUCER, "nothing").await, 404, "not_found");
    let elsewhere = house.created(&json!({})).await;
    refused(&show(PRODUCER, &elsewhere).await, 404, "not_found");
    let scoped = ("authorization", "Bearer key-scoped");
    refused(&show(scoped, &id).await, 404, "not_found");
    refused(&send(&[scoped]).await, 422, "validation_error");
    refused(&call(&house, ("DELETE", "/emails"), &[PRODUCER], "").await, 405, "method_not_allowed");
    refused(&call(&house, ("POST", "/emails/x/send"), &[PRODUCER], "").await, 404, "not_found");
    refused(&call(&house, ("POST", "/emails/x/cancel"), &[PRODUCER], "").await, 404, "not_found");
}

#[tokio::test] // REQ SE-1
async fn a_group_that_a_caller_made_up_shows_nothing_of_other_channels() {
    let house = with_smtp().await;
    let scoped = KeyDoc { channels: Some(vec!["relay".parse().unwrap()]), ..key("scoped", "producer") };
    house.add_key("default", &scoped).await;
    house.created(&json!({"reference": "order 5", "to": "https://canary.example/"})).await;
    let asked = json!({"channel": "relay", "to": "ana@x.example", "metadata": {"group": "order 5"},
                       "content": {"from": "mail@clinic.example", "subject": "s", "text": "t"}});
    let made = house.call_as("scoped", "POST", "/v1/messages", asked.to_string()).await;
    assert_eq!(made.status, StatusCode::ACCEPTED, "{}", made.text);
    let path = format!("/emails/{}", made.json()["id"].as_str().unwrap());
    let shown = call(&house, ("GET", &path), &[("authorization", "Bearer key-scoped")], "").await;
    assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
    assert!(!shown.text.contains("canary"), "{}", shown.text);
}

#[tokio::test] // REQ IN-3
async fn whoever_comes_too_fast_is_told_in_the_headers_that_clients_read() {
    let house = with_resend().await;
    id(&post(&house, &[], &mail(&json!({}))).await);
    for (mood, status, name) in [
        (StoreError::Overloaded, 429, "rate_limit_exceeded"),
        (StoreError::Unavailable("away".into()), 503, "service_unavailable"),
    ] {
        house.store.feel_for(Some(mood), 1);
        let reply = post(&house, &[], &mail(&json!({}))).await;
        refused(&reply, status, name);
        assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        for header in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
            let number = reply.header(header).map(|value| value.parse::<u64>().unwrap());
            assert_eq!(number.is_some(), status == 429, "{header}");
        }
    }
    house.door.close();
    refused(&post(&house, &[], &mail(&json!({}))).await, 503, "service_unavailable");
}

#[tokio::test] // REQ IN-3, ML-6
async fn a_mail_that_waits_is_called_back_with_all_its_recipients_and_one_that_went_is_not() {
    let house = with_smtp().await;
    let asked = mail(&json!({"to": ["ana@x.example", "bia@x.example"], "scheduled_at": "in 5 minutes"}));
    let scheduled = id(&post(&house, &[], &asked).await);
    let cancel =
        async |who, id: &str| call(&house, ("POST", &format!("/emails/{id}/cancel")), &[who], "").await;
    refused(&cancel(FOREIGN, &scheduled).await, 404, "not_found");
    for _ in 0..2 {
        let reply = cancel(PRODUCER, &scheduled).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
        assert_eq!(reply.json(), json!({"object": "email", "id": scheduled}));
    }
    assert_eq!(event(&house, &scheduled).await, "canceled");
    let states: Vec<Value> = messages(&house).await.iter().map(|message| message["state"].clone()).collect();
    assert_eq!(states, ["cancelled", "cancelled"]);

    let gone = id(&post(&house, &[], &mail(&json!({}))).await);
    let work = claimed(&house, 1).await;
    refused(&cancel(PRODUCER, &gone).await, 422, "validation_error");
    house.store.settle(vec![settlement(&work[0], sent())]).await.unwrap();
    refused(&cancel(PRODUCER, &gone).await, 422, "validation_error");
    assert_eq!(event(&house, &gone).await, "sent");
}
