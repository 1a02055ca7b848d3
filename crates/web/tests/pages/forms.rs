//! Forms are ours or are refused.

use http::StatusCode;

use crate::browser::{Browser, body};
use crate::house::House;
use crate::scene::{Things, furnished};

/// The state that the message is in that waits.
async fn state(house: &House, things: &Things) -> String {
    house.get(&things.address("/v1/messages/WAITING")).await.json()["state"].as_str().unwrap().to_owned()
}

#[tokio::test] // REQ SE-6
async fn a_form_without_the_sessions_token_is_refused() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "operator").await;
    let other = Browser::of(&house, "operator").await;
    let address = things.address("/messages/WAITING/cancel");
    let foreign = other.csrf().await;
    let own = browser.csrf().await;
    for token in ["", "x", &foreign, &own[1..], &format!("{own}0")] {
        let reply = browser.sent("POST", &address, body(&[("csrf", token)])).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{token}");
    }
    assert_eq!(state(&house, &things).await, "pending");
    let reply = browser.post(&address, &[]).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    assert_eq!(state(&house, &things).await, "cancelled");
}

#[tokio::test] // REQ SE-6
async fn a_form_of_another_site_is_refused_even_with_the_token() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "operator").await;
    let (address, csrf) = (things.address("/messages/WAITING/cancel"), browser.csrf().await);
    for site in ["cross-site", "same-site"] {
        let reply = browser.sent_from(site, "POST", &address, body(&[("csrf", &csrf)])).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{site}");
    }
    // Older browsers name the origin alone.
    for (origin, status) in [
        ("https://evil.example", StatusCode::FORBIDDEN),
        ("null", StatusCode::FORBIDDEN),
        ("https://pombo.example", StatusCode::SEE_OTHER),
    ] {
        let request = crate::house::request("POST", &address)
            .header("host", "pombo.example")
            .header("origin", origin)
            .header("accept", "text/html")
            .header("cookie", browser.cookie.clone().unwrap())
            .header("content-type", "application/x-www-form-urlencoded");
        let reply = house.send_elsewhere(request.body(body(&[("csrf", &csrf)]).into()).unwrap()).await;
        assert_eq!(reply.status, status, "{origin}: {}", reply.text);
    }
}

#[tokio::test] // REQ SE-6
async fn another_site_cannot_log_somebody_in() {
    let house = House::new().await;
    let stranger = Browser::new(&house);
    let reply = stranger.sent_from("cross-site", "POST", "/login", body(&[("key", "key-admin")])).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (StatusCode::FORBIDDEN, None));
}

#[tokio::test]
async fn what_was_done_is_told_once_on_the_next_page() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "operator").await;
    let reply = browser.post(&things.address("/messages/WAITING/cancel"), &[]).await;
    let page = things.address("/messages/WAITING");
    assert_eq!(reply.header("location"), Some(page.as_str()));
    assert!(browser.page(&page).await.contains("The message was cancelled."));
    assert!(!browser.page(&page).await.contains("The message was cancelled."));
}

#[tokio::test]
async fn what_was_wrong_is_told_on_the_page_that_the_form_stood_on() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "operator").await };
    let page = things.address("/messages/SENT");
    let reply = browser.post(&things.address("/messages/SENT/cancel"), &[("back", &page)]).await;
    assert_eq!((reply.status, reply.header("location")), (StatusCode::SEE_OTHER, Some(page.as_str())));
    assert!(browser.page(&page).await.contains("É tarde demais para cancelar"));
    let away = browser.post(&things.address("/messages/SENT/cancel"), &[("back", "//evil.example")]).await;
    assert_eq!((away.status, away.header("location")), (StatusCode::CONFLICT, None));
}
