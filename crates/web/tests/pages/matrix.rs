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
    ("GET", "/dead", Some(Access::Look), "/dead"),
    ("GET", "/dead/letters", Some(Access::Look), "/dead/letters"),
    ("GET", "/dead/decide", Some(Access::Operate), "/dead/decide?act=discard&id=DEAD"),
    ("POST", "/dead/decide", Some(Access::Operate), "/dead/decide"),
    ("GET", "/dead/letter/{id}", Some(Access::Look), "/dead/letter/DEAD"),
    ("POST", "/dead/letter/{id}", Some(Access::Operate), "/dead/letter/DEAD"),
    ("GET", "/dead/{group}", Some(Access::Look), "/dead/CAUSE"),
    ("GET", "/operations", Some(Access::Look), "/operations"),
    ("GET", "/operations/{id}", Some(Access::Look), "/operations/OPERATION"),
    ("POST", "/operations/{id}/cancel", Some(Access::Operate), "/operations/OPERATION/cancel"),
    ("GET", "/campaigns", Some(Access::Look), "/campaigns"),
    ("GET", "/campaigns/new", Some(Access::Operate), "/campaigns/new"),
    ("POST", "/campaigns/new", Some(Access::Operate), "/campaigns/new"),
    ("GET", "/campaigns/{id}", Some(Access::Look), "/campaigns/RUNNING"),
    ("GET", "/campaigns/{id}/edit", Some(Access::Operate), "/campaigns/LISTED/edit"),
    ("POST", "/campaigns/{id}/edit", Some(Access::Operate), "/campaigns/RUNNING/edit"),
    ("GET", "/campaigns/{id}/list", Some(Access::Operate), "/campaigns/DRAFT/list"),
    ("POST", "/campaigns/{id}/list", Some(Access::Operate), "/campaigns/DRAFT/list"),
    ("POST", "/campaigns/{id}/import", Some(Access::Operate), "/campaigns/DRAFT/import"),
    ("GET", "/campaigns/{id}/preview", Some(Access::Look), "/campaigns/LISTED/preview"),
    ("GET", "/campaigns/{id}/sample", Some(Access::Look), "/campaigns/LISTED/sample"),
    ("GET", "/campaigns/{id}/recipients", Some(Access::Look), "/campaigns/RUNNING/recipients"),
    ("GET", "/campaigns/{id}/report", Some(Access::Look), "/campaigns/RUNNING/report"),
    ("POST", "/campaigns/{id}/start", Some(Access::Operate), "/campaigns/LISTED/start"),
    ("POST", "/campaigns/{id}/schedule", Some(Access::Operate), "/campaigns/LISTED/schedule"),
    ("POST", "/campaigns/{id}/pause", Some(Access::Operate), "/campaigns/RUNNING/pause"),
    ("POST", "/campaigns/{id}/resume", Some(Access::Operate), "/campaigns/RUNNING/resume"),
    ("POST", "/campaigns/{id}/retry", Some(Access::Operate), "/campaigns/RUNNING/retry"),
    ("POST", "/campaigns/{id}/cancel", Some(Access::Operate), "/campaigns/RUNNING/cancel"),
    ("POST", "/campaigns/{id}/remove", Some(Access::Operate), "/campaigns/DRAFT/remove"),
    ("GET", "/templates", Some(Access::Look), "/templates"),
    ("GET", "/templates/{name}", Some(Access::Look), "/templates/greeting"),
    ("POST", "/templates/{name}", Some(Access::Operate), "/templates/greeting"),
    ("GET", "/templates/{name}/preview", Some(Access::Look), "/templates/greeting/preview"),
    ("POST", "/templates/{name}/preview", Some(Access::Operate), "/templates/greeting/preview"),
    ("GET", "/channels", Some(Access::Look), "/channels"),
    ("GET", "/channels/{name}", Some(Access::Look), "/channels/crm"),
    ("POST", "/channels/{name}/test", Some(Access::Operate), "/channels/crm/test"),
    ("POST", "/channels/{name}/hold", Some(Access::Operate), "/channels/crm/hold"),
    ("POST", "/channels/{name}/release", Some(Access::Operate), "/channels/crm/release"),
    ("POST", "/channels/{name}/open", Some(Access::Operate), "/channels/crm/open"),
    ("POST", "/channels/{name}/close", Some(Access::Operate), "/channels/crm/close"),
    ("GET", "/policies", Some(Access::Look), "/policies"),
    ("GET", "/policies/{name}", Some(Access::Look), "/policies/smtp"),
    ("GET", "/learning", Some(Access::Look), "/learning"),
    ("GET", "/learning/simulate", Some(Access::Look), "/learning/simulate?policy=smtp&try=down&from=1m&to=10m"),
    ("POST", "/learning/try", Some(Access::Look), "/learning/try"),
    ("POST", "/learning/accept", Some(Access::Operate), "/learning/accept"),
    ("POST", "/learning/{id}/remove", Some(Access::Operate), "/learning/RULE/remove"),
    ("GET", "/alerts", Some(Access::Look), "/alerts"),
    ("GET", "/alerts/{id}", Some(Access::Look), "/alerts/ALERT"),
    ("POST", "/alerts/{id}/acknowledge", Some(Access::Operate), "/alerts/ALERT/acknowledge"),
    ("POST", "/alerts/{id}/silence", Some(Access::Operate), "/alerts/ALERT/silence"),
    ("POST", "/alerts/{id}/unsilence", Some(Access::Operate), "/alerts/ALERT/unsilence"),
    ("GET", "/audit", Some(Access::Look), "/audit"),
    ("GET", "/audit/export", Some(Access::Look), "/audit/export"),
    ("GET", "/audit/chain", Some(Access::Look), "/audit/chain?check=1"),
    ("GET", "/keys", Some(Access::Administer), "/keys"),
    ("POST", "/keys", Some(Access::Administer), "/keys"),
    ("GET", "/keys/{id}", Some(Access::Administer), "/keys/key_clerk"),
    ("POST", "/keys/{id}/link", Some(Access::Administer), "/keys/key_clerk/link"),
    ("POST", "/keys/{id}/rotate", Some(Access::Administer), "/keys/key_clerk/rotate"),
    ("POST", "/keys/{id}/revoke", Some(Access::Administer), "/keys/key_clerk/revoke"),
    ("GET", "/login", None, "/login"),
    ("POST", "/login", None, "/login"),
    ("POST", "/logout", Some(Access::Any), "/logout"),
    ("POST", "/preferences", Some(Access::Any), "/preferences"),
    ("GET", "/live", Some(Access::Any), "/live?page=%2Fmessages"),
    ("GET", "/assets/{file}", None, "/assets/none"),
];

/// What is told at once of a form that nothing was filled in.
const UNFILLED: &[(&str, StatusCode)] = &[
    ("/campaigns/new", StatusCode::UNPROCESSABLE_ENTITY),
    ("/campaigns/{id}/list", StatusCode::UNPROCESSABLE_ENTITY),
    ("/campaigns/{id}/import", StatusCode::UNPROCESSABLE_ENTITY),
    ("/campaigns/{id}/schedule", StatusCode::UNPROCESSABLE_ENTITY),
    ("/campaigns/{id}/retry", StatusCode::CONFLICT),
    ("/learning/try", StatusCode::UNPROCESSABLE_ENTITY),
    ("/learning/accept", StatusCode::UNPROCESSABLE_ENTITY),
    ("/templates/{name}", StatusCode::CONFLICT),
    ("/templates/{name}/preview", StatusCode::UNPROCESSABLE_ENTITY),
];

/// The addresses of pages that are looked at.
pub(crate) fn shown() -> impl Iterator<Item = &'static str> {
    let aside = ["/login", "/live", "/assets/{file}", "/messages/{id}/preview", "/audit/export"];
    let own = ["/campaigns/{id}/sample", "/campaigns/{id}/report", "/templates/{name}/preview"];
    let aside = [&aside[..], &own].concat();
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
                    && !crate::upkeep::APART.contains(path)
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
                (true, _) => UNFILLED
                    .iter()
                    .find(|(at, _)| at == path)
                    .map_or(StatusCode::SEE_OTHER, |(_, told)| *told),
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
