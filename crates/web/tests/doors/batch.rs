use std::sync::atomic::Ordering;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pombo_store::StoreError;
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use crate::house::{House, key, message, request};

fn good(n: usize) -> Value {
    message(&json!({"reference": format!("r{n}")}))
}

#[tokio::test] // REQ IN-1
async fn a_bad_item_leaves_its_neighbours_untouched() {
    let house = House::new().await;
    let batch = json!([good(0), {"channel": "nope"}, good(2), 7, good(4)]);
    let reply = house.post("/v1/messages/batch", &batch).await;
    assert_eq!(reply.status, StatusCode::OK);
    let items = reply.json()["items"].as_array().unwrap().clone();
    for (index, item) in items.iter().enumerate() {
        assert_eq!(item["index"], index);
        match index {
            1 => assert_eq!(item["error"]["code"], "UNKNOWN_CHANNEL"),
            3 => assert_eq!(item["error"]["errors"][0]["field"], "body"),
            _ => {
                assert_eq!(item["state"], "pending");
                let read = house.get(&format!("/v1/messages/{}", item["id"].as_str().unwrap())).await.json();
                assert_eq!(read["reference"], format!("r{index}"));
            }
        }
    }
    assert_eq!((items.len(), house.stored().await), (5, 3));
}

#[tokio::test]
async fn a_list_that_is_not_json_or_no_list_stores_nothing() {
    let house = House::new().await;
    let cut = format!("[{},{}", good(0), good(1));
    let reply = house.call("POST", "/v1/messages/batch", cut).await;
    assert_eq!(reply.code(), "INVALID_JSON");
    assert!(reply.json()["detail"].as_str().unwrap().contains("line 1"), "{}", reply.text);
    house.post("/v1/messages/batch", &good(0)).await.refused("INVALID_FIELD", "body");
    let many: Vec<_> = (0..201).map(good).collect();
    let reply = house.post("/v1/messages/batch", &json!(many)).await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "BATCH_TOO_LARGE"));
    assert_eq!(house.post("/v1/messages/batch", &json!([])).await.json(), json!({"items": []}));
    assert_eq!(house.stored().await, 0);
}

#[tokio::test] // REQ ML-3
async fn items_have_keys_of_their_own_or_share_the_requests() {
    let house = House::new().await;
    let own = |key: &str, n| message(&json!({"idempotency_key": key, "reference": format!("r{n}")}));
    let reply =
        house.post("/v1/messages/batch", &json!([own("a", 1), own("a", 1), own("a", 2)])).await.json();
    assert_eq!(reply["items"][0]["id"], reply["items"][1]["id"]);
    assert_eq!(
        (&reply["items"][0]["replayed"], &reply["items"][1]["replayed"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(reply["items"][2]["error"]["code"], "IDEMPOTENCY_CONFLICT");
    let keyed = |body: Value| {
        let post = request("POST", "/v1/messages/batch").header("authorization", "Bearer key-producer");
        house.send(post.header("idempotency-key", "batch-1").body(Body::from(body.to_string())).unwrap())
    };
    let first = keyed(json!([good(0), good(1)])).await.json();
    let again = keyed(json!([good(0), good(1), good(2)])).await.json();
    for index in 0..2 {
        assert_eq!(first["items"][index]["id"], again["items"][index]["id"]);
        assert_eq!(again["items"][index]["replayed"], true);
    }
    assert_eq!(house.stored().await, 4);
}

#[tokio::test]
async fn a_store_that_fails_a_list_fails_the_request_so_that_it_can_be_sent_again() {
    let house = House::new().await;
    house.get("/v1/stats").await;
    house.store.feel_for(Some(StoreError::Overloaded), 1);
    let batch = json!([good(0), good(1)]);
    let reply = house.post("/v1/messages/batch", &batch).await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::TOO_MANY_REQUESTS, "OVERLOADED"));
    assert_eq!(house.stored().await, 0);
    assert_eq!(house.post("/v1/messages/batch", &batch).await.status, StatusCode::OK);
}

#[tokio::test] // REQ IN-1
async fn lines_are_answered_by_lines_in_order() {
    let house = House::new().await;
    let body = format!("{}\n\n{{\"channel\":\n  \r\n{}\r\n[]\n{}", good(0), good(2), good(4));
    let reply = house.post_ndjson(body).await;
    assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, Some("application/x-ndjson")));
    let lines = reply.lines();
    assert_eq!(lines.len(), 5);
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["index"], index);
        match index {
            1 => assert_eq!(line["error"]["code"], "INVALID_JSON"),
            3 => assert_eq!(line["error"]["code"], "INVALID_FIELD"),
            _ => assert_eq!(line["state"], "pending"),
        }
    }
    assert_eq!(house.stored().await, 3);
    assert_eq!(house.post_ndjson("").await.text, "");
}

#[tokio::test]
async fn lines_may_be_cut_anywhere() {
    let house = House::new().await;
    let text: String = (0..40).map(|n| format!("{}\n", good(n))).collect();
    for size in [1, 3, 97, 1_000] {
        let pieces: Vec<Result<Bytes, std::io::Error>> =
            text.as_bytes().chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let lines = house.post_ndjson(Body::from_stream(stream::iter(pieces))).await.lines();
        assert_eq!(lines.len(), 40);
        assert!(lines.iter().all(|line| line["state"] == "pending"));
    }
}

#[tokio::test]
async fn too_long_a_line_is_refused_alone() {
    let house = House::new().await;
    let long = message(&json!({"metadata": {"a": "x".repeat(200_000)}}));
    let body = format!("{}\n{long}\n{}\n", good(0), good(1));
    let pieces: Vec<Result<Bytes, std::io::Error>> =
        body.as_bytes().chunks(10_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let lines = house.post_ndjson(Body::from_stream(stream::iter(pieces))).await.lines();
    assert_eq!(lines[1]["error"]["code"], "BODY_TOO_LARGE");
    assert_eq!((&lines[0]["state"], &lines[2]["state"]), (&json!("pending"), &json!("pending")));
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn a_stream_waits_while_the_store_is_overloaded() {
    let house = House::new().await;
    house.get("/v1/stats").await;
    house.store.feel_for(Some(StoreError::Overloaded), 3);
    let lines = house.post_ndjson(format!("{}\n{}\n", good(0), good(1))).await.lines();
    assert!(lines.iter().all(|line| line["state"] == "pending"), "{lines:?}");
    assert_eq!(house.stored().await, 2);
}

#[tokio::test]
async fn a_store_that_goes_away_is_told_line_by_line() {
    let house = House::new().await;
    house.get("/v1/stats").await;
    house.store.feel_for(Some(StoreError::Unavailable("away".into())), 1);
    let pieces =
        [good(0), json!({}), good(1)].map(|item| Ok::<_, std::io::Error>(Bytes::from(format!("{item}\n"))));
    let lines = house.post_ndjson(Body::from_stream(stream::iter(pieces))).await.lines();
    assert_eq!(lines[0]["error"]["code"], "STORE_UNAVAILABLE");
    assert_eq!(lines[1]["error"]["code"], "INVALID_FIELD");
    assert_eq!(lines[2]["state"], "pending");
}

#[tokio::test] // REQ SE-1
async fn a_key_that_is_for_fewer_channels_meanwhile_is_so_for_the_rest_of_a_stream() {
    let house = House::new().await;
    let both = Some(vec!["crm".parse().unwrap(), "null".parse().unwrap()]);
    house.add_key("default", &KeyDoc { channels: both, ..key("shop", "producer") }).await;
    let (lines, sent) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
    let body = stream::unfold(sent, |mut sent| async move {
        sent.recv().await.map(|piece| (Ok::<_, std::io::Error>(piece), sent))
    });
    let request = request("POST", "/v1/messages/batch")
        .header("authorization", "Bearer key-shop")
        .header("content-type", "application/x-ndjson")
        .body(Body::from_stream(body))
        .unwrap();
    let response = TowerToHyperService::new(house.router.clone()).call(request).await.unwrap();
    let mut results = response.into_body().into_data_stream();
    let mut told = async |line: Value| -> Value {
        lines.send(format!("{line}\n").into()).unwrap();
        serde_json::from_slice(&results.next().await.unwrap().unwrap()).unwrap()
    };
    assert_eq!(told(good(0)).await["state"], "pending");
    let narrowed = house.call("PATCH", "/v1/keys/key_shop", r#"{"channels": ["null"]}"#).await;
    assert_eq!(narrowed.status, StatusCode::OK, "{}", narrowed.text);
    assert_eq!(told(good(1)).await["error"]["code"], "FORBIDDEN");
    assert_eq!(told(message(&json!({"channel": "null", "to": "x"}))).await["state"], "pending");
    house.call("DELETE", "/v1/keys/key_shop", "").await;
    assert_eq!(told(good(2)).await["error"]["code"], "UNAUTHORIZED");
    assert_eq!(house.stored().await, 2);
}

#[tokio::test]
async fn a_stream_that_breaks_off_says_what_was_not_stored() {
    let house = House::new().await;
    let pieces = [Ok(Bytes::from(format!("{}\n{{\"chan", good(0)))), Err(std::io::Error::other("gone"))];
    let lines = house.post_ndjson(Body::from_stream(stream::iter(pieces))).await.lines();
    assert_eq!(lines[0]["state"], "pending");
    assert_eq!((&lines[1]["index"], &lines[1]["error"]["code"]), (&json!(1), &json!("INVALID_JSON")));
    assert_eq!(house.stored().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_lines_are_all_accepted_in_order_and_in_bounded_groups() {
    let house = House::new().await;
    let pieces = (0..50).map(|k| {
        let piece: String = (0..1_000).map(|n| format!("{}\n", good(1_000 * k + n))).collect();
        Ok::<_, std::io::Error>(Bytes::from(piece))
    });
    let lines = house.post_ndjson(Body::from_stream(stream::iter(pieces))).await.lines();
    assert_eq!(lines.len(), 50_000);
    let mut last = String::new();
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["index"], index);
        let id = line["id"].as_str().unwrap();
        assert!(id > last.as_str());
        last = id.to_owned();
    }
    assert!(house.store.largest_group.load(Ordering::Relaxed) <= 512);
    assert_eq!(house.get("/v1/stats").await.json()["total"]["accepted"], 50_000);
}
