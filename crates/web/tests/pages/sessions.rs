//! Coming in, staying and leaving.

use http::StatusCode;
use pombo_kernel::time::Span;
use pombo_store::Store;
use pombo_store::audit::Event;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_web::key::KeyDoc;
use serde_json::json;

use crate::browser::Browser;
use crate::house::{House, key};

async fn sessions(house: &House) -> usize {
    let wanted =
        Wanted { shelf: Shelf::Session, tenant: None, pick: Pick::All { after: None }, limit: 1_000 };
    house.store.docs(wanted).await.unwrap().len()
}

async fn link(house: &House, id: &str) -> String {
    let made = house.call("POST", &format!("/v1/keys/{id}/link"), "").await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let path = made.json()["path"].as_str().unwrap().to_owned();
    path.strip_prefix("/login?link=").unwrap().to_owned()
}

#[tokio::test]
async fn whoever_is_not_logged_in_is_shown_the_door_and_then_where_they_wanted_to_go() {
    let house = House::new().await;
    let mut browser = Browser::new(&house);
    let reply = browser.get("/messages?state=failed").await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER);
    let door = reply.header("location").unwrap().to_owned();
    assert_eq!(door, "/login?next=%2Fmessages%3Fstate%3Dfailed");
    assert!(browser.page(&door).await.contains("value=\"/messages?state=failed\""));
    let reply = browser.enter(&[("key", "key-viewer"), ("next", "/messages?state=failed")]).await;
    assert_eq!(reply.header("location"), Some("/messages?state=failed"));
    assert!(browser.page("/messages?state=failed").await.contains("<h1>Messages</h1>"));
    let elsewhere = browser.enter(&[("key", "key-viewer"), ("next", "https://evil.example/")]).await;
    assert_eq!(elsewhere.header("location"), Some("/"));
}

#[tokio::test]
async fn a_program_that_wants_no_page_is_told_what_it_was_told_before_there_were_any() {
    let house = House::new().await;
    for path in ["/", "/messages"] {
        let reply = house.call("GET", path, "").await;
        assert_eq!((reply.status, reply.code()), (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned()), "{path}");
    }
}

#[tokio::test] // REQ SE-1
async fn the_cookie_is_kept_from_scripts_and_other_sites() {
    let house = House::new().await;
    let mut browser = Browser::new(&house);
    let reply = browser.enter(&[("key", "key-admin")]).await;
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.starts_with("pombo_session=") && cookie.contains("; Path=/;"), "{cookie}");
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && !cookie.contains("Secure"), "{cookie}");
    let request = crate::house::request("POST", "/login")
        .header("x-forwarded-proto", "https")
        .header("content-type", "application/x-www-form-urlencoded");
    let reply = house.send_elsewhere(request.body("key=key-admin".into()).unwrap()).await;
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-pombo_session=") && cookie.ends_with("; Secure"), "{cookie}");

    // Over HTTPS nothing is read from a cookie that another host or a page over HTTP could have set.
    let kept = cookie.split(';').next().unwrap();
    let tossed = kept.strip_prefix("__Host-").unwrap();
    for (cookie, expected) in [(kept, StatusCode::OK), (tossed, StatusCode::SEE_OTHER)] {
        let request = crate::house::request("GET", "/keys")
            .header("x-forwarded-proto", "https")
            .header("accept", "text/html")
            .header("cookie", cookie);
        assert_eq!(house.send(request.body("".into()).unwrap()).await.status, expected, "{cookie}");
    }
}

#[tokio::test] // REQ SE-1
async fn a_wrong_key_opens_nothing_and_many_of_them_are_refused() {
    let house = House::new().await;
    let mut browser = Browser::new(&house);
    let reply = browser.enter(&[("key", "key-nobody")]).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (StatusCode::UNAUTHORIZED, None));
    assert!(reply.text.contains("This key opens nothing"), "{}", reply.text);
    for _ in 0..40 {
        browser.enter(&[("key", "key-nobody")]).await;
    }
    let reply = browser.enter(&[("key", "key-nobody")]).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(
        browser.enter(&[("key", "key-admin")]).await.status,
        StatusCode::SEE_OTHER,
        "a good key works all the while"
    );
}

#[tokio::test] // REQ SE-1
async fn a_session_ends_when_it_is_left_alone_and_after_a_week_in_any_case() {
    let house = House::new().await;
    let browser = Browser::of(&house, "admin").await;
    house.clock.pass(Span::from_hours(11));
    browser.page("/messages").await;
    house.clock.pass(Span::from_hours(11));
    browser.page("/messages").await;
    house.clock.pass(Span::from_hours(13));
    assert_eq!(browser.get("/messages").await.status, StatusCode::SEE_OTHER);
    let browser = Browser::of(&house, "admin").await;
    for _ in 0..15 {
        house.clock.pass(Span::from_hours(11));
        browser.page("/messages").await;
    }
    house.clock.pass(Span::from_hours(11));
    assert_eq!(browser.get("/messages").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test] // REQ SE-1
async fn a_key_that_is_revoked_takes_its_sessions_along() {
    let house = House::new().await;
    house.add_key("default", &KeyDoc { label: "brief".into(), ..key("0123456789abcdef", "operator") }).await;
    let browser = Browser::of(&house, "brief").await;
    browser.page("/messages").await;
    let revoked = house.call("DELETE", "/v1/keys/key_0123456789abcdef", "").await;
    assert_eq!(revoked.status, StatusCode::OK, "{}", revoked.text);
    assert_eq!(browser.get("/messages").await.status, StatusCode::SEE_OTHER);
    let reply = browser.post_unchecked("/logout").await;
    assert_eq!(reply.header("location"), Some("/login"));
}

#[tokio::test] // REQ SE-1
async fn a_key_that_is_rotated_takes_its_sessions_along_when_it_ends() {
    let house = House::new().await;
    house.add_key("default", &KeyDoc { label: "brief".into(), ..key("0123456789abcdef", "operator") }).await;
    let browser = Browser::of(&house, "brief").await;
    let rotated = house.call("POST", "/v1/keys/key_0123456789abcdef/rotate", r#"{"overlap": "1h"}"#).await;
    assert_eq!(rotated.status, StatusCode::CREATED, "{}", rotated.text);
    browser.page("/messages").await;
    house.clock.pass(Span::from_hours(2));
    assert_eq!(browser.get("/messages").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test] // REQ AU-1
async fn coming_and_leaving_are_on_record() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let reply = browser.post("/logout", &[]).await;
    assert!(reply.header("set-cookie").unwrap().starts_with("pombo_session=; Path=/; Max-Age=0;"));
    assert_eq!(browser.get("/messages").await.status, StatusCode::SEE_OTHER);
    let records = house.store.audit(0, 1_000).await.unwrap();
    let told: Vec<_> =
        records.iter().filter(|(_, it)| matches!(it.event, Event::LoggedIn | Event::LoggedOut)).collect();
    let told: Vec<_> = told.iter().map(|(_, it)| (it.event, it.actor.as_str(), it.detail.as_str())).collect();
    assert_eq!(
        told,
        [
            (Event::LoggedIn, "operator (key_operator)", r#"{"by":"key","key":"key_operator"}"#),
            (Event::LoggedOut, "operator (key_operator)", r#"{"key":"key_operator"}"#),
        ]
    );
}

#[tokio::test] // REQ SE-1
async fn a_link_lets_in_once_and_looking_at_it_does_not_use_it_up() {
    let house = House::new().await;
    let secret = link(&house, "own").await;
    let mut browser = Browser::new(&house);
    for _ in 0..3 {
        let page = browser.page(&format!("/login?link={secret}")).await;
        assert!(page.contains("This link lets you in once"), "{page}");
    }
    assert_eq!(browser.enter(&[("link", &secret)]).await.status, StatusCode::SEE_OTHER);
    browser.page("/").await;
    let mut late = Browser::new(&house);
    let reply = late.enter(&[("link", &secret)]).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (StatusCode::UNAUTHORIZED, None));
    assert!(reply.text.contains("This link was used already"), "{}", reply.text);
}

#[tokio::test] // REQ SE-1
async fn of_two_who_use_a_link_at_once_one_comes_in() {
    let house = House::new().await;
    let secret = link(&house, "own").await;
    let (mut one, mut other) = (Browser::new(&house), Browser::new(&house));
    let fields = [("link", secret.as_str())];
    let (one, other) = tokio::join!(one.enter(&fields), other.enter(&fields));
    let came_in = [one, other].iter().filter(|reply| reply.status == StatusCode::SEE_OTHER).count();
    assert_eq!(came_in, 1);
}

#[tokio::test] // REQ SE-1
async fn a_link_is_good_for_ten_minutes_and_for_a_key_that_is() {
    let house = House::new().await;
    let old = link(&house, "own").await;
    house.clock.pass(Span::from_mins(10));
    assert_eq!(Browser::new(&house).enter(&[("link", &old)]).await.status, StatusCode::UNAUTHORIZED);
    house.add_key("default", &KeyDoc { label: "brief".into(), ..key("0123456789abcdef", "operator") }).await;
    let ended = link(&house, "key_0123456789abcdef").await;
    house.call("DELETE", "/v1/keys/key_0123456789abcdef", "").await;
    assert_eq!(Browser::new(&house).enter(&[("link", &ended)]).await.status, StatusCode::UNAUTHORIZED);
    let refused = house.call("POST", "/v1/keys/key_0123456789abcdef/link", "").await;
    assert_eq!(refused.code(), "KEY_ENDED");
}

#[tokio::test]
async fn a_link_lets_in_with_the_rights_of_its_key() {
    let house = House::new().await;
    house.add_key("default", &KeyDoc { label: "clerk".into(), ..key("0123456789abcdef", "viewer") }).await;
    let secret = link(&house, "key_0123456789abcdef").await;
    let mut browser = Browser::new(&house);
    browser.enter(&[("link", &secret)]).await;
    assert!(browser.page("/").await.contains("<strong>clerk</strong> <span class=\"quiet\">viewer</span>"));
}

#[tokio::test] // REQ RS-7
async fn sessions_that_have_ended_are_removed_as_others_begin() {
    let house = House::new().await;
    for _ in 0..30 {
        Browser::of(&house, "viewer").await;
    }
    assert_eq!(sessions(&house).await, 30);
    house.clock.pass(Span::from_hours(13));
    for left in [11, 2, 3] {
        Browser::of(&house, "viewer").await;
        assert_eq!(sessions(&house).await, left);
    }
}

#[tokio::test]
async fn the_store_has_no_secret_of_a_session_or_a_link() {
    let house = House::new().await;
    let secret = link(&house, "own").await;
    let browser = Browser::of(&house, "admin").await;
    let cookie = browser.cookie.unwrap().split_once('=').unwrap().1.to_owned();
    let wanted = Wanted { shelf: Shelf::Session, tenant: None, pick: Pick::All { after: None }, limit: 10 };
    let kept = format!("{:?}", house.store.docs(wanted).await.unwrap());
    assert!(!kept.contains(&secret) && !kept.contains(&cookie) && kept.contains("key_admin"), "{kept}");
}

#[tokio::test]
async fn language_and_appearance_are_kept_for_the_session() {
    let house = House::new().await;
    let browser = Browser::of(&house, "admin").await;
    assert!(browser.page("/").await.contains("<html lang=\"en\">"));
    let reply = browser.post("/preferences", &[("lang", "pt-BR"), ("back", "/messages")]).await;
    assert_eq!(reply.header("location"), Some("/messages"));
    browser.post("/preferences", &[("theme", "dark")]).await;
    let page = browser.page("/messages").await;
    assert!(
        page.contains("<html lang=\"pt-BR\" data-theme=\"dark\">") && page.contains("<h1>Mensagens</h1>"),
        "{page}"
    );
    browser.post("/preferences", &[("theme", "auto")]).await;
    assert!(browser.page("/").await.contains("<html lang=\"pt-BR\">"));
}

#[tokio::test]
async fn a_dashboard_that_is_switched_off_is_not_there() {
    let house = House::new().await;
    house.setup.send_modify(|setup| std::sync::Arc::make_mut(setup).dashboard.enabled = false);
    for path in ["/", "/login", "/messages"] {
        assert_eq!(Browser::new(&house).get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(house.call("POST", "/v1/keys/own/link", "").await.json()["code"], json!("NOT_FOUND"));
}
