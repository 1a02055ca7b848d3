//! Every page × every role. A page that is not in the table fails: to add one, add a row.

use http::StatusCode;
use pombo_web::dash::PAGES;
use pombo_web::{Access, Role};

use crate::browser::Browser;
use crate::house::House;
use crate::scene::furnished;

/// A page: its method, its path in the table, what it asks for, and an address of it.
pub(crate) type Row = (&'static str, &'static str, Option<Access>, &'static str);

#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    ("GET", "/", Some(Access::Look), "/"),
    ("GET", "/messages", Some(Access::Follow), "/messages"),
    ("GET", "/messages/{id}", Some(Access::Follow), "/messages/DEAD"),
    ("POST", "/messages/{id}/cancel", Some(Access::Send), "/messages/WAITING/cancel"),
    ("POST", "/messages/{id}/retry", Some(Access::Operate), "/messages/DEAD/retry"),
    ("POST", "/messages/{id}/reveal", Some(Access::Follow), "/messages/DEAD/reveal"),
    ("GET", "/messages/{id}/preview", Some(Access::Follow), "/messages/DEAD/preview"),
    ("GET", "/learning", Some(Access::Look), "/learning"),
    ("POST", "/learning/try", Some(Access::Look), "/learning/try"),
    ("POST", "/learning/accept", Some(Access::Operate), "/learning/accept"),
    ("POST", "/learning/{id}/remove", Some(Access::Operate), "/learning/rule_0000000000000000/remove"),
    ("GET", "/login", None, "/login"),
    ("POST", "/login", None, "/login"),
    ("POST", "/logout", Some(Access::Any), "/logout"),
    ("POST", "/preferences", Some(Access::Any), "/preferences"),
    ("GET", "/live", Some(Access::Any), "/live?page=%2Fmessages"),
    ("GET", "/assets/{file}", None, "/assets/none"),
];

/// The addresses of pages that are looked at.
pub(crate) fn shown() -> impl Iterator<Item = &'static str> {
    let aside = ["/login", "/live", "/assets/{file}", "/messages/{id}/preview"];
    ROWS.iter().filter(move |row| row.0 == "GET" && !aside.contains(&row.1)).map(|row| row.3)
}

#[test] // REQ SE-2
fn every_page_says_who_may_see_it() {
    let named: Vec<_> = ROWS.iter().map(|row| (row.0.to_owned(), row.1, row.2)).collect();
    let pages: Vec<_> =
        PAGES.iter().map(|page| (page.method().to_string(), page.path, page.access())).collect();
    assert_eq!(pages, named);
}

#[tokio::test] // REQ SE-2
async fn a_page_is_shown_to_the_roles_that_may_see_it_and_told_in_words_to_the_others() {
    for role in Role::ALL {
        let house = House::new().await;
        let things = furnished(&house, "words").await;
        let browser = Browser::of(&house, role.as_str()).await;
        for (method, path, access, address) in ROWS {
            let Some(access) = access.filter(|_| {
                !["/logout", "/live", "/messages/{id}/preview", "/messages/{id}/reveal"].contains(path)
            }) else {
                continue;
            };
            let address = things.address(address);
            let reply = match *method {
                "GET" => browser.get(&address).await,
                _ => browser.post(&address, &[]).await,
            };
            let expected = match (access.allows(role), *method) {
                (false, _) => StatusCode::FORBIDDEN,
                (true, "GET") => StatusCode::OK,
                (true, _) => StatusCode::SEE_OTHER,
            };
            // Nothing is named, or nothing that there is, which is told only to those who may ask.
            let told = [StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY].contains(&reply.status);
            let expected = match expected {
                StatusCode::SEE_OTHER if told && path.starts_with("/learning/") => reply.status,
                expected => expected,
            };
            assert_eq!(reply.status, expected, "{role} {method} {address}: {}", reply.text);
            if reply.status == StatusCode::FORBIDDEN {
                assert!(
                    reply.text.contains("<h1>The key may not do this</h1>"),
                    "{role} {address}: {}",
                    reply.text
                );
            }
        }
    }
}

#[tokio::test]
async fn a_button_is_drawn_for_those_who_may_press_it() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    for (who, may) in [("viewer", false), ("operator", true), ("admin", true)] {
        let page = Browser::of(&house, who).await.page(&things.address("/messages/DEAD")).await;
        assert_eq!(page.contains("/retry\""), may, "{who}");
    }
}

#[tokio::test]
async fn the_navigation_leads_to_pages_that_there_are_and_that_may_be_seen() {
    let house = House::new().await;
    let producer = Browser::of(&house, "producer").await.page("/messages").await;
    assert!(
        producer.contains("href=\"/messages\" aria-current=\"page\"") && !producer.contains(">Overview<"),
        "{producer}"
    );
    let viewer = Browser::of(&house, "viewer").await;
    let page = viewer.page("/").await;
    let links = crate::markup::elements(&page).into_iter().filter(|it| it.name == "a");
    for link in
        links.filter_map(|mut link| link.attributes.remove("href")).filter(|href| href.starts_with('/'))
    {
        assert_eq!(viewer.get(&link.replace("&amp;", "&")).await.status, StatusCode::OK, "{link}");
    }
}

#[tokio::test]
async fn another_tenant_sees_nothing_of_it() {
    let house = House::new().await;
    let things = furnished(&house, "canary").await;
    let browser = Browser::of(&house, "foreign").await;
    for address in shown() {
        let reply = browser.get(&things.address(address)).await;
        assert!(
            !reply.text.contains("canary") && !reply.text.contains("order-1"),
            "{address}: {}",
            reply.text
        );
    }
    assert_eq!(browser.get(&things.address("/messages/DEAD")).await.status, StatusCode::NOT_FOUND);
}
