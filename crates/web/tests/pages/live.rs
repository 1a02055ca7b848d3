//! Pages that keep themselves up to date.

use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use http::StatusCode;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use crate::browser::{Browser, encoded};
use crate::house::{House, request};

/// Opens the stream of a page, and gives back what comes over it.
pub(crate) async fn stream(
    browser: &Browser<'_>,
    page: &str,
    seen: &str,
) -> (StatusCode, axum::body::BodyDataStream) {
    let address = format!("/live?page={}&seen={}", encoded(page), encoded(seen));
    let request = request("GET", &address).header("accept", "text/event-stream");
    let request = match &browser.cookie {
        Some(cookie) => request.header("cookie", cookie),
        None => request,
    };
    let router = TowerToHyperService::new(browser.house.router.clone());
    let response = router.call(request.body(Body::empty()).unwrap()).await.unwrap();
    (response.status(), response.into_body().into_data_stream())
}

/// The parts of the next piece.
pub(crate) async fn parts(stream: &mut axum::body::BodyDataStream) -> Vec<Value> {
    let piece = tokio::time::timeout(Duration::from_secs(60), stream.next()).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8(piece.to_vec()).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// The first piece that has any. Somebody has to look while things change: a stream that nobody reads ends.
pub(crate) async fn next_change(stream: &mut axum::body::BodyDataStream) -> Vec<Value> {
    loop {
        let changed = parts(stream).await;
        if !changed.is_empty() {
            return changed;
        }
    }
}

pub(crate) fn versions(page: &str) -> String {
    let parts =
        crate::markup::elements(page).into_iter().filter(|it| it.attributes.contains_key("data-part"));
    let pairs: Vec<String> =
        parts.map(|it| format!("{}:{}", it.attributes["id"], it.attributes["data-part"])).collect();
    pairs.join(",")
}

#[tokio::test(start_paused = true)]
async fn what_has_changed_is_sent_and_nothing_else() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let page = browser.page("/messages").await;
    let (status, mut stream) = stream(&browser, "/messages", &versions(&page)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(parts(&mut stream).await, Vec::<Value>::new(), "the page is as it was");
    let new = json!({"reference": "new-one"});
    let (_, changed) = tokio::join!(house.created(&new), next_change(&mut stream));
    assert_eq!((changed.len(), &changed[0]["id"]), (1, &json!("list")));
    assert!(changed[0]["html"].as_str().unwrap().contains("new-one"), "{changed:?}");
    let version = format!("data-part=\"{}\"", changed[0]["version"].as_str().unwrap());
    assert!(browser.page("/messages").await.contains(&version), "it is what the page says");
    let quiet = parts(&mut stream).await;
    assert_eq!(quiet, Vec::<Value>::new(), "nothing has changed since");
}

#[tokio::test(start_paused = true)]
async fn a_page_is_made_at_most_once_a_second_however_much_happens() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let (_, mut stream) = stream(&browser, "/messages", "").await;
    assert_eq!(parts(&mut stream).await.len(), 1);
    let five = async {
        for n in 0..5 {
            house.created(&json!({"reference": format!("n{n}")})).await;
            parts(&mut stream).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_millis(3_999), five).await.is_err(),
        "it took no four seconds"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_session() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let (_, mut stream) = stream(&browser, "/messages", "").await;
    parts(&mut stream).await;
    browser.post("/logout", &[]).await;
    let rest: Vec<_> = stream.by_ref().collect().await;
    assert!(rest.len() <= 1, "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_node_stops() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let (_, mut stream) = stream(&browser, "/", "").await;
    parts(&mut stream).await;
    house.door.close();
    let rest: Vec<_> = stream.by_ref().collect().await;
    assert!(rest.len() <= 1, "{rest:?}");
}

#[tokio::test]
async fn a_stream_is_for_those_who_may_see_the_page() {
    let house = House::new().await;
    let producer = Browser::of(&house, "producer").await;
    assert_eq!(stream(&producer, "/", "").await.0, StatusCode::FORBIDDEN);
    let admin = Browser::of(&house, "admin").await;
    for nowhere in ["", "//evil.example", "/nowhere", "/login", "/live?page=/"] {
        assert_eq!(stream(&admin, nowhere, "").await.0, StatusCode::NOT_FOUND, "{nowhere}");
    }
    assert_eq!(stream(&Browser::new(&house), "/", "").await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn places_for_streams_are_shared_out() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let mut open = Vec::new();
    let refused = loop {
        match stream(&browser, "/messages", "").await {
            (StatusCode::OK, stream) => open.push(stream),
            (status, _) => break status,
        }
    };
    assert_eq!((refused, open.len()), (StatusCode::TOO_MANY_REQUESTS, 100));
    assert_eq!(stream(&Browser::of(&house, "foreign").await, "/messages", "").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)] // REQ DL-1
async fn an_operation_is_followed_while_somebody_looks() {
    let house = House::new().await;
    let things = crate::scene::furnished(&house, "words").await;
    let browser = Browser::of(&house, "operator").await;
    let path = things.address("/operations/OPERATION");
    let page = browser.page(&path).await;
    let (status, mut stream) = stream(&browser, &path, &versions(&page)).await;
    assert_eq!((status, parts(&mut stream).await), (StatusCode::OK, Vec::new()));
    let cancel = things.address("/v1/operations/OPERATION/cancel");
    let (_, changed) = tokio::join!(house.call_as("admin", "POST", &cancel, ""), next_change(&mut stream));
    assert_eq!(changed[0]["id"], "progress");
    assert!(changed[0]["html"].as_str().unwrap().contains("Stopped by"), "{changed:?}");
}
