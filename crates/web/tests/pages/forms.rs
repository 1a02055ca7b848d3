//! Forms are ours or are refused.

use http::StatusCode;
use pombo_store::Store as _;
use pombo_store::shelf::{Pick, Shelf, Wanted};

use crate::browser::{Browser, body};
use crate::house::{House, Reply, request};
use crate::matrix::ROWS;
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
        let request = request("POST", &address)
            .header("host", "pombo.example")
            .header("origin", origin)
            .header("accept", "text/html")
            .header("cookie", browser.cookie.clone().unwrap())
            .header("content-type", "application/x-www-form-urlencoded");
        let reply = house.send_elsewhere(request.body(body(&[("csrf", &csrf)]).into()).unwrap()).await;
        assert_eq!(reply.status, status, "{origin}: {}", reply.text);
    }
}

/// What the store knows, sessions included: whatever a form may change shows in it.
async fn everything(house: &House) -> String {
    let mut known = vec![format!("{:?}", house.store.audit(0, 10_000).await.unwrap())];
    for shelf in Shelf::ALL {
        let wanted = Wanted { shelf, tenant: None, pick: Pick::All { after: None }, limit: 10_000 };
        known.push(format!("{:?}", house.store.docs(wanted).await.unwrap()));
    }
    known.push(format!("{:?}", house.store.blocks().await.unwrap()));
    known.concat()
}

#[tokio::test] // REQ SE-6
async fn no_form_of_any_page_is_taken_from_another_site_or_without_the_sessions_token() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "admin").await;
    let foreign = Browser::of(&house, "admin").await.csrf().await;
    let csrf = browser.csrf().await;
    let before = everything(&house).await;
    let refused = |reply: Reply, words: &str, what: &str| {
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{what}: {}", reply.text);
        assert!(reply.text.contains(words), "{what}: {}", reply.text);
        assert_eq!(reply.header("set-cookie"), None, "{what}");
    };
    let forms: Vec<_> = ROWS.iter().filter(|row| row.0 == "POST").collect();
    for (_, path, access, address) in &forms {
        let address = things.address(address);
        // Whoever logs in has no session yet; the key is their token.
        let own = body(&[("csrf", &csrf), ("key", "key-admin")]);
        for site in ["cross-site", "same-site"] {
            let reply = browser.sent_from(site, "POST", &address, own.clone()).await;
            refused(reply, "page of another site", &format!("{path} {site}"));
        }
        for origin in ["https://evil.example", "https://pombo.example.evil.example", "null"] {
            let request = request("POST", &address)
                .header("host", "pombo.example")
                .header("origin", origin)
                .header("accept", "text/html")
                .header("cookie", browser.cookie.clone().unwrap())
                .header("content-type", "application/x-www-form-urlencoded");
            let reply = house.send_elsewhere(request.body(own.clone().into()).unwrap()).await;
            refused(reply, "page of another site", &format!("{path} {origin}"));
        }
        if access.is_some() {
            for token in ["", &foreign, &csrf[1..]] {
                let reply = browser.sent("POST", &address, body(&[("csrf", token)])).await;
                refused(reply, "not of this session", &format!("{path} `{token}`"));
            }
            refused(browser.post_unchecked(&address).await, "not of this session", path);
        }
        assert_eq!(everything(&house).await, before, "{path} changed something");
    }
    assert!(forms.len() > 30, "{}", forms.len());
    // The session is still whole, and what its own form does is seen.
    assert_eq!(browser.post("/preferences", &[("theme", "dark")]).await.status, StatusCode::SEE_OTHER);
    assert_ne!(everything(&house).await, before);
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
