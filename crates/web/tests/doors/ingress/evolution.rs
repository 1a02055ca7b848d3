use http::StatusCode;
use pombo_kernel::kind::ChannelKind;
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use super::*;

const APIKEY: (&str, &str) = ("apikey", "key-producer");
const TEXT: &str = "/message/sendText/zap-instance";
const MEDIA: &str = "/message/sendMedia/zap-instance";

async fn with_evolution() -> House {
    house(&[("zap", ChannelKind::Evolution, "default"), ("theirs-zap", ChannelKind::Evolution, "other")])
        .await
}

async fn post(house: &House, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    call(house, ("POST", path), headers, body.to_string()).await
}

fn refused(reply: &Reply, status: u16, error: &str, message: &Value) {
    let expected = json!({"status": status, "error": error, "response": {"message": message}});
    assert_eq!((reply.status.as_u16(), reply.json()), (status, expected));
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[tokio::test] // REQ IN-3
async fn a_text_is_a_message_on_the_channel_of_its_instance_and_its_key_is_the_messages_id() {
    let house = with_evolution().await;
    let asked =
        json!({"number": "5511987654321", "text": "oi", "delay": 1200, "linkPreview": false, "new": 1});
    let reply = post(&house, TEXT, &[APIKEY], &asked).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    let answer = reply.json();
    let stored = messages(&house).await;
    assert_eq!((stored.len(), stored[0]["channel"].as_str()), (1, Some("zap")));
    assert_eq!(stored[0]["to"], "5511987654321");
    assert_eq!(stored[0]["content"], json!({"text": "oi", "delay": 1200, "linkPreview": false}));
    assert_eq!(answer["key"]["id"], stored[0]["id"]);
    assert_eq!(answer["key"]["remoteJid"], "5511987654321@s.whatsapp.net");
    assert_eq!((&answer["key"]["fromMe"], &answer["status"]), (&json!(true), &json!("PENDING")));
    assert_eq!(answer["message"], json!({"conversation": "oi"}));
    assert_eq!(answer["messageType"], "conversation");
    assert_eq!(answer["messageTimestamp"], NOW.millis() / 1_000);
}

#[tokio::test] // REQ IN-3
async fn media_and_every_way_to_write_a_number_are_taken_as_the_channel_takes_them() {
    let house = with_evolution().await;
    let asked = json!({"number": "(11) 98765-4321", "mediatype": "document", "media": "aGk=",
                       "fileName": "a.pdf", "mimetype": "application/pdf", "caption": "veja"});
    let reply = post(&house, MEDIA, &[APIKEY], &asked).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    let answer = reply.json();
    assert_eq!(answer["messageType"], "documentMessage");
    assert_eq!(answer["message"]["documentMessage"]["caption"], "veja");
    assert!(!reply.text.contains("aGk="), "the file does not come back");
    let media = messages(&house).await[0]["content"]["media"].clone();
    assert_eq!((&media["media"], &media["fileName"]), (&json!("aGk="), &json!("a.pdf")));
    for (number, jid) in [
        ("+55 11 98765-4321", "5511987654321@s.whatsapp.net"),
        ("5511987654321@s.whatsapp.net", "5511987654321@s.whatsapp.net"),
        ("120363000000000000@g.us", "120363000000000000@g.us"),
    ] {
        let reply =
            post(&house, "/message/sendText/zap", &[APIKEY], &json!({"number": number, "text": "oi"})).await;
        assert_eq!(reply.json()["key"]["remoteJid"], jid, "{}", reply.text);
    }
}

#[tokio::test] // REQ IN-3
async fn a_file_may_come_as_part_of_a_form() {
    let house = with_evolution().await;
    let form = |boundary: &str, text: &str| {
        let field = |name: &str, value: &str| {
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let file = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"laudo.pdf\"\r\n\
             Content-Type: application/pdf\r\n\r\n{text}\r\n--{boundary}--\r\n"
        );
        let fields =
            [("number", "5511987654321"), ("mediatype", "document"), ("caption", "veja"), ("delay", "1200")];
        fields.map(|(name, value)| field(name, value)).concat() + &file
    };
    let post = async |boundary: &str, body: String| {
        let kind = format!("multipart/form-data; boundary={boundary}");
        let headers = [APIKEY, ("content-type", kind.as_str()), ("idempotency-key", "laudo 7")];
        call(&house, ("POST", MEDIA), &headers, body).await
    };
    let first = post("a", form("a", "hi")).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.text);
    let again = post("b", form("b", "hi")).await;
    assert_eq!(first.json()["key"]["id"], again.json()["key"]["id"], "{}", again.text);
    let stored = messages(&house).await;
    assert_eq!(stored.len(), 1);
    assert_eq!(
        stored[0]["content"],
        json!({"delay": 1200, "media": {"mediatype": "document", "media": "aGk=", "fileName": "laudo.pdf",
                                        "mimetype": "application/pdf", "caption": "veja"}})
    );
    assert_eq!(post("c", form("c", "ho")).await.status, StatusCode::CONFLICT);
    let cut = post("d", form("d", "hi").replace("--d--", "")).await;
    refused(&cut, 400, "Bad Request", &json!(["The form cannot be read, or is not complete"]));
    assert_eq!(house.stored().await, 1);
}

#[tokio::test] // REQ IN-3
async fn what_is_wrong_is_told_as_evolution_tells_it_and_stores_nothing() {
    let house = with_evolution().await;
    let number = "5511987654321";
    let nowhere = json!([{"jid": "nobody@s.whatsapp.net", "exists": false, "number": "nobody"}]);
    for (path, body, message) in [
        (TEXT, json!({"number": number}), json!([["instance requires property \"text\""]])),
        (
            TEXT,
            json!({"number": 5, "textMessage": {"text": "v1"}}),
            json!([["instance.number is not of a type(s) string", "instance requires property \"text\""]]),
        ),
        (TEXT, json!({"number": number, "text": " "}), json!(["Text is required"])),
        (TEXT, json!([]), json!([["instance is not of a type(s) object"]])),
        (MEDIA, json!({"number": number}), json!([["instance requires property \"mediatype\""]])),
    ] {
        refused(&post(&house, path, &[APIKEY], &body).await, 400, "Bad Request", &message);
    }
    let reply = post(&house, TEXT, &[APIKEY], &json!({"number": "nobody", "text": "oi"})).await;
    let said = reply.json()["response"]["message"].clone();
    assert_eq!(
        (reply.status.as_u16(), said[0]["exists"].clone()),
        (400, nowhere[0]["exists"].clone()),
        "{said}"
    );
    for media in
        [json!({"mediatype": "sculpture", "media": "aGk="}), json!({"mediatype": "image", "media": "!"})]
    {
        let mut body = media;
        body["number"] = json!(number);
        let reply = post(&house, MEDIA, &[APIKEY], &body).await;
        assert_eq!(reply.status.as_u16(), 400, "{}", reply.text);
        assert!(reply.json()["response"]["message"][0][0].is_string(), "{}", reply.text);
    }
    let broken = call(&house, ("POST", TEXT), &[APIKEY], "{").await;
    assert_eq!((broken.status.as_u16(), &broken.json()["error"]), (400, &json!("Internal Server Error")));
    assert!(broken.json()["response"]["message"].is_string());
    assert_eq!(house.stored().await, 0);
}

#[tokio::test] // REQ IN-3, SE-1
async fn an_instance_that_is_not_the_keys_does_not_exist() {
    let house = with_evolution().await;
    let scoped = KeyDoc { channels: Some(vec!["crm".parse().unwrap()]), ..key("scoped", "producer") };
    house.add_key("default", &scoped).await;
    let asked = json!({"number": "5511987654321", "text": "oi"});
    let unauthorized = json!("Unauthorized");
    refused(&post(&house, TEXT, &[], &asked).await, 401, "Unauthorized", &unauthorized);
    refused(&post(&house, TEXT, &[PRODUCER], &asked).await, 401, "Unauthorized", &unauthorized);
    refused(&post(&house, TEXT, &[("apikey", "wrong")], &asked).await, 401, "Unauthorized", &unauthorized);
    assert_eq!(post(&house, TEXT, &[("apikey", "key-viewer")], &asked).await.status, StatusCode::FORBIDDEN);
    for (instance, who) in [
        ("theirs-zap-instance", "key-producer"),
        ("zap-instance", "key-foreign"),
        ("zap-instance", "key-scoped"),
        ("crm", "key-producer"),
        ("nothing", "key-producer"),
    ] {
        let reply = post(&house, &format!("/message/sendText/{instance}"), &[("apikey", who)], &asked).await;
        let message = json!([format!("The \"{instance}\" instance does not exist")]);
        refused(&reply, 404, "Not Found", &message);
    }
    let reply = post(&house, "/message/sendPoll/zap-instance", &[APIKEY], &asked).await;
    refused(&reply, 404, "Not Found", &json!(["Cannot POST /message/sendPoll/zap-instance"]));
    let reply = call(&house, ("GET", TEXT), &[APIKEY], "").await;
    refused(&reply, 404, "Not Found", &json!([format!("Cannot GET {TEXT}")]));
    assert_eq!(house.stored().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-3
async fn a_key_of_the_callers_own_means_one_message_here_too() {
    let house = with_evolution().await;
    let keyed = [APIKEY, ("idempotency-key", "k")];
    let asked = json!({"number": "5511987654321", "text": "oi"});
    let all = futures_util::future::join_all((0..100).map(|_| post(&house, TEXT, &keyed, &asked))).await;
    let ids: std::collections::BTreeSet<String> =
        all.iter().map(|it| it.json()["key"]["id"].to_string()).collect();
    assert_eq!((ids.len(), house.stored().await), (1, 1));
    let other = post(&house, TEXT, &keyed, &json!({"number": "5511987654321", "text": "tchau"})).await;
    assert_eq!((other.status.as_u16(), &other.json()["error"]), (409, &json!("Conflict")));
    assert_eq!(house.stored().await, 1);

    let both = json!({"number": "5511987654321", "text": "oi", "mediatype": "image", "media": "aGk="});
    let keyed = [APIKEY, ("idempotency-key", "both")];
    assert_eq!(post(&house, TEXT, &keyed, &both).await.status, StatusCode::CREATED);
    assert_eq!(post(&house, MEDIA, &keyed, &both).await.status, StatusCode::CONFLICT, "another route");
}

#[tokio::test] // REQ ML-3
async fn the_same_words_under_one_key_to_another_instance_are_another_request() {
    let two = [("zap", ChannelKind::Evolution, "default"), ("zip", ChannelKind::Evolution, "default")];
    let house = house(&two).await;
    let keyed = [APIKEY, ("idempotency-key", "k")];
    let asked = json!({"number": "5511987654321", "text": "oi"});
    assert_eq!(post(&house, TEXT, &keyed, &asked).await.status, StatusCode::CREATED);
    let other = post(&house, "/message/sendText/zip-instance", &keyed, &asked).await;
    assert_eq!((other.status, house.stored().await), (StatusCode::CONFLICT, 1), "{}", other.text);
    let again = post(&house, "/message/sendText/zap", &keyed, &asked).await;
    assert_eq!(again.status, StatusCode::CREATED, "by its other name it is the same: {}", again.text);
}
