//! What people keep in order: channels, policies, alerts, the audit, keys.

use http::StatusCode;
use pombo_kernel::alert::Alert;
use pombo_kernel::block::Block;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Found, Kind, Operation, Stage};
use pombo_kernel::time::{Clock, Span};
use pombo_store::audit::Event;
use pombo_store::shelf::{Expect, Pick, Shelf, Shelved, Wanted};
use pombo_store::{Place, Store};
use pombo_web::key::KeyDoc;
use pombo_web::operation;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::house::{House, NOW, key};
use crate::live::{next_change, parts, stream, versions};
use crate::scene::furnished;

/// Forms whose answer is a page at once, or that wait for somebody: they are walked through below.
pub(crate) const APART: [&str; 3] = ["/channels/{name}/test", "/keys/{id}/link", "/keys/{id}/rotate"];

/// A destination that is down, a test of a channel, an alert that is over, and a key; `words` are somebody else's.
pub(crate) async fn furnish(house: &House, words: &str) {
    let place = Place { channel: "crm".parse().unwrap(), destination: Some(words.into()) };
    let limits = house.setup.borrow().channels["crm"].care.breaker;
    let block = Block::breaker(words.to_owned(), &limits, house.clock.now());
    house.store.block(place, block, Actor(words.to_owned())).await.unwrap();
    let by = Actor(words.to_owned());
    let asked = Operation {
        channel: Some("crm".parse().unwrap()),
        ..Operation::new(Kind::TestChannel, Stage::Probing, by, NOW)
    };
    let found = Found { ok: Some(false), detail: words.to_owned(), latency_ms: 12 };
    let wish = operation::begin(&Tenant::default(), format!("opr_{:032x}", 1), &asked.found(found, NOW));
    house.store.shelve(vec![wish]).await.unwrap();
    let over = json!({
        "rule": "failure_rate", "severity": "warning", "tenant": "default", "channel": "crm", "state": "resolved",
        "first_seen": NOW - Span::from_hours(2), "fired_at": NOW - Span::from_hours(2), "last_seen": NOW, "resolved_at": NOW,
        "above": 0.1, "value": 0.05, "peak": 0.4, "count": 2, "of": 40, "window": "1h", "told": 1, "told_at": NOW,
        "acknowledged": {"by": words, "at": NOW, "note": words},
    });
    let over = Alert::read(&over.to_string()).unwrap();
    let wish = pombo_web::alert::put(&over, Expect::Nothing, None, &Actor::engine(), NOW);
    house.store.shelve(vec![wish]).await.unwrap();
    let clerk = KeyDoc { label: words.into(), created_by: words.into(), ..key("clerk", "viewer") };
    house.add_key("default", &clerk).await;
}

/// Sends a form of a page and answers with the page that it leads to.
async fn walked(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> String {
    let reply = browser.post(path, fields).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{path}: {}", reply.text);
    browser.page(reply.header("location").unwrap()).await
}

#[tokio::test] // REQ CF-5
async fn a_channel_is_held_with_a_reason_and_released() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page("/channels/crm").await;
    assert!(page.contains("Messages pass.") && !page.contains("/channels/crm/release"), "{page}");
    let page =
        walked(&browser, "/channels/crm/hold", &[("reason", "moving house"), ("destination", "")]).await;
    assert!(page.contains("It is held: its messages wait."), "{page}");
    assert!(page.contains("Moving house") && page.contains("action=\"/channels/crm/release\""), "{page}");
    assert!(page.contains("<strong>Held by a person</strong>: moving house"), "{page}");
    assert_eq!(house.get("/v1/channels").await.json()["items"][0]["state"], "held");
    assert!(browser.page("/channels").await.contains("moving house"));
    let page = walked(&browser, "/channels/crm/release", &[]).await;
    assert!(
        page.contains("It is released") && page.contains("<strong>Messages pass again</strong>"),
        "{page}"
    );
    assert_eq!(house.get("/v1/channels").await.json()["items"][0]["state"], "ok");
}

#[tokio::test]
async fn a_hold_without_a_reason_is_refused_where_it_was_asked_for() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let page = walked(&browser, "/channels/crm/hold", &[]).await;
    assert!(page.contains("flash bad") && page.contains("Messages pass."), "{page}");
}

#[tokio::test] // REQ CF-4
async fn the_breaker_of_one_destination_is_opened_and_closed() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let fields = [("reason", "known outage"), ("destination", "crm.example"), ("for", "30m")];
    let page = walked(&browser, "/channels/crm/open", &fields).await;
    let probe = (NOW + Span::from_mins(30)).to_string();
    assert!(page.contains("known outage") && page.contains(&format!("datetime=\"{probe}\"")), "{page}");
    assert!(page.contains("name=\"destination\" value=\"crm.example\""), "{page}");
    let page = walked(&browser, "/channels/crm/close", &[("destination", "crm.example")]).await;
    assert!(page.contains("The breaker is closed") && !page.contains("Destinations that wait"), "{page}");
}

#[tokio::test]
async fn a_channel_that_is_not_set_up_says_what_is_missing_and_offers_no_release() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page("/channels/mail").await;
    assert!(page.contains("set SMTP_URL") && !page.contains("/channels/mail/release"), "{page}");
}

/// Does what a worker does with the test of a channel, once somebody has asked for it.
async fn probe(house: &House, found: Found) {
    let mut moved = house.store.watch();
    let doc = loop {
        let pick = Pick::Due { from: NOW, until: NOW + Span::from_hours(1), after: None };
        let wanted = Wanted { shelf: Shelf::Operation, tenant: None, pick, limit: 1 };
        if let Some(doc) = house.store.docs(wanted).await.unwrap().pop() {
            break doc;
        }
        moved.changed().await.unwrap();
    };
    let found = operation::read(&doc).unwrap().found(found, NOW);
    let wish = operation::change(&doc, &found, &Actor::engine(), NOW);
    let done = house.store.shelve(vec![wish]).await.unwrap();
    assert!(matches!(done[..], [Shelved::Done { .. }]), "{done:?}");
}

#[tokio::test]
async fn a_channel_is_tested_and_what_was_found_stays_on_its_page() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let found = Found { ok: Some(true), detail: "250 at your service".to_owned(), latency_ms: 12 };
    let (page, ()) = tokio::join!(walked(&browser, "/channels/crm/test", &[]), probe(&house, found));
    assert!(page.contains("The provider answers: all is well."), "{page}");
    assert!(browser.page("/channels/crm").await.contains("250 at your service"));
    let refused = Browser::of(&house, "viewer").await.post("/channels/crm/test", &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test] // REQ OB-4
async fn an_alert_is_acknowledged_silenced_and_heard_again() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "operator").await;
    let (path, api) = (things.address("/alerts/ALERT"), things.address("/v1/alerts/ALERT"));
    let page = browser.page(&path).await;
    assert!(
        page.contains("What to do")
            && page.contains("/messages?channel=crm&amp;template=words&amp;state=failed"),
        "{page}"
    );
    let page = walked(&browser, &format!("{path}/acknowledge"), &[("note", "the provider knows")]).await;
    assert!(page.contains("<q>the provider knows</q>") && !page.contains("/acknowledge\""), "{page}");
    assert_eq!(house.get(&api).await.json()["acknowledged"]["by"], "operator (key_operator)");
    let page = walked(&browser, &format!("{path}/silence"), &[("for", "2h"), ("note", "moving")]).await;
    assert!(page.contains("<q>moving</q>") && page.contains("/unsilence\""), "{page}");
    let until = (house.clock.now() + Span::from_hours(2)).to_string();
    assert_eq!(house.get(&api).await.json()["silenced"]["until"], until);
    let page = walked(&browser, &format!("{path}/unsilence"), &[]).await;
    assert!(page.contains("People are told of it again.") && !page.contains("/unsilence\""), "{page}");
    assert!(house.get(&api).await.json()["silenced"].is_null());
}

#[tokio::test]
async fn what_is_wrong_stands_before_what_is_over_and_nothing_wrong_is_said_so() {
    let house = House::new().await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "viewer").await };
    assert!(browser.page("/alerts").await.contains("Nada está errado"));
    let things = furnished(&house, "words").await;
    let page = browser.page("/alerts").await;
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words}: {page}"));
    assert!(place(&things.alert) < place("O que passou") && place("O que passou") < place("failure_rate"));
}

#[tokio::test] // REQ RP-1, RP-2
async fn policies_are_drawn_with_the_numbers_that_were_published() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let smtp = browser.page("/policies/smtp").await;
    for words in ["0.75 s – 1.25 s", "1.5 s – 2.5 s", "3 s – 5 s", "6 s – 10 s", "href=\"/channels/mail\""]
    {
        assert!(smtp.contains(words), "{words}: {smtp}");
    }
    let claims = browser.page("/policies/claims").await;
    for words in [
        "5 min – 6 min",
        "1 h 4 min – 1 h 36 min",
        "2 h 5 min – 3 h 6 min",
        "unsent 2 d after",
        "retry decisions",
    ] {
        assert!(claims.contains(words), "{words}: {claims}");
    }
    let all = browser.page("/policies").await;
    assert_eq!(all.matches("<svg class=\"strip\"").count(), 6, "{all}");
    assert!(all.contains("No channel goes by it."), "{all}");
    assert!(browser.page("/policies/resend").await.contains("No channel goes by it."));
    assert_eq!(browser.get("/policies/pigeon").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_policy_that_a_channel_changed_for_itself_is_shown_in_each_form() {
    let house = House::new().await;
    house.setup.send_modify(|setup| {
        let setup = std::sync::Arc::make_mut(setup);
        let channel = std::sync::Arc::make_mut(setup.channels.get_mut("null").unwrap());
        channel.policy.attempts = 2;
    });
    let page = Browser::of(&house, "viewer").await.page("/policies/webhook").await;
    assert!(page.matches("<svg class=\"strip\"").count() == 2 && page.contains("changed values"), "{page}");
}

#[tokio::test] // REQ AU-1
async fn records_are_found_by_what_is_known_of_them_and_taken_along() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "viewer").await;
    let page = browser.page("/audit?event=blocked&channel=crm&period=24h").await;
    assert_eq!(page.matches("<th scope=\"row\">blocked").count(), 2, "{page}");
    let page = browser.page(&things.address("/audit?message=SENT")).await;
    assert_eq!(page.matches("<th scope=\"row\">").count(), 3, "{page}");
    let file = browser.get(&things.address("/audit/export?message=SENT&format=csv")).await;
    assert_eq!((file.status, file.header("content-type")), (StatusCode::OK, Some("text/csv; charset=utf-8")));
    assert_eq!(file.text.lines().count(), 4, "{}", file.text);
    assert!(file.header("content-disposition").unwrap().contains("audit.csv"));
    let lines = browser.get(&things.address("/audit/export?message=SENT&format=ndjson")).await;
    assert_eq!(lines.lines().len(), 3);
    let records = house.store.audit(0, 1_000).await.unwrap();
    let taken = records.iter().filter(|(_, record)| record.event == Event::Exported);
    assert!(taken.into_iter().all(|(_, record)| record.actor == "viewer (key_viewer)"));
}

#[tokio::test] // REQ AU-1
async fn the_chain_is_walked_to_its_end() {
    let house = House::new().await;
    furnished(&house, "words").await;
    let browser = Browser::of(&house, "viewer").await;
    assert!(browser.page("/audit").await.contains("has not been signed yet"));
    let page = browser.page("/audit/chain?check=1").await;
    assert!(page.contains("it holds") && page.contains("from the first to the last"), "{page}");
    assert!(!browser.page("/audit/chain").await.contains("it holds"));
}

/// The key that a page shows.
fn shown(page: &str) -> String {
    let (_, rest) = page.split_once("data-copy>").unwrap_or_else(|| panic!("{page}"));
    rest.split('<').next().unwrap().to_owned()
}

#[tokio::test] // REQ SE-1
async fn a_key_is_made_and_seen_once() {
    let house = House::new().await;
    let browser = Browser::of(&house, "admin").await;
    house.clock.pass(Span::from_secs(1));
    let fields = [
        ("role", "operator"),
        ("label", "front desk"),
        ("channels", "crm"),
        ("channels", "mail"),
        ("expires_after", "90d"),
        ("reveal", "no"),
    ];
    let made = browser.post("/keys", &fields).await;
    assert_eq!((made.status, made.header("cache-control")), (StatusCode::OK, Some("no-store")));
    let key = shown(&made.text);
    let known = house.get("/v1/keys").await.json()["items"][0].clone();
    assert_eq!(
        (&known["role"], &known["label"], &known["reveal"]),
        (&json!("operator"), &json!("front desk"), &json!(false))
    );
    assert_eq!(known["channels"], json!(["crm", "mail"]));
    let mut desk = Browser::new(&house);
    assert_eq!(desk.enter(&[("key", &key)]).await.status, StatusCode::SEE_OTHER);
    assert!(desk.page("/").await.contains("<strong>front desk</strong>"));
    let page = format!("/keys/{}", known["id"].as_str().unwrap());
    for path in ["/keys", &page, "/audit"] {
        assert!(!browser.page(path).await.contains(&key), "{path}");
    }
    assert_eq!(desk.get("/keys").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_key_that_cannot_be_is_told_of_on_the_page() {
    let house = House::new().await;
    let browser = Browser::of(&house, "admin").await;
    let page = walked(&browser, "/keys", &[("role", "admin"), ("channels", "crm")]).await;
    assert!(page.contains("flash bad") && !page.contains("data-copy"), "{page}");
}

#[tokio::test] // REQ SE-1
async fn a_key_is_rotated_and_both_work_for_a_while() {
    let house = House::new().await;
    house.add_key("default", &KeyDoc { label: "desk".into(), ..key("0123456789abcdef", "operator") }).await;
    let browser = Browser::of(&house, "admin").await;
    let rotated = browser.post("/keys/key_0123456789abcdef/rotate", &[("overlap", "1h")]).await;
    assert_eq!(rotated.status, StatusCode::OK, "{}", rotated.text);
    let (new, old) = (shown(&rotated.text), "key-desk");
    for key in [new.as_str(), old] {
        assert_eq!(Browser::new(&house).enter(&[("key", key)]).await.status, StatusCode::SEE_OTHER);
    }
    let page = browser.page("/keys/key_0123456789abcdef").await;
    assert!(page.contains("being replaced") && !page.contains("/rotate\""), "{page}");
    house.clock.pass(Span::from_hours(2));
    assert_eq!(Browser::new(&house).enter(&[("key", old)]).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(Browser::new(&house).enter(&[("key", &new)]).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test] // REQ SE-1
async fn a_key_is_revoked_by_whoever_is_sure_and_the_last_admins_is_not() {
    let house = House::new().await;
    house.add_key("default", &KeyDoc { label: "desk".into(), ..key("0123456789abcdef", "operator") }).await;
    let browser = Browser::of(&house, "admin").await;
    let page = walked(&browser, "/keys/key_0123456789abcdef/revoke", &[]).await;
    assert!(page.contains("say that you are sure") && page.contains("/revoke\""), "{page}");
    let page = walked(&browser, "/keys/key_0123456789abcdef/revoke", &[("sure", "yes")]).await;
    assert!(page.contains("The key is revoked.") && !page.contains("/revoke\""), "{page}");
    assert_eq!(Browser::new(&house).enter(&[("key", "key-desk")]).await.status, StatusCode::UNAUTHORIZED);
    let page = walked(&browser, "/keys/key_admin/revoke", &[("sure", "yes")]).await;
    assert!(page.contains("flash bad") && page.contains("is the last admin key"), "{page}");
}

#[tokio::test] // REQ SE-1
async fn a_link_is_made_for_somebody_and_lets_them_in_with_that_key() {
    let house = House::new().await;
    house.add_key("default", &KeyDoc { label: "desk".into(), ..key("0123456789abcdef", "viewer") }).await;
    let browser = Browser::of(&house, "admin").await;
    let made = browser.post("/keys/key_0123456789abcdef/link", &[]).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text);
    let link = shown(&made.text);
    let secret = link.strip_prefix("/login?link=").unwrap();
    let mut desk = Browser::new(&house);
    assert_eq!(desk.enter(&[("link", secret)]).await.status, StatusCode::SEE_OTHER);
    assert!(desk.page("/").await.contains("<strong>desk</strong>"));
}

#[tokio::test] // REQ SE-1
async fn the_houses_admin_sees_to_the_keys_of_other_tenants_and_theirs_do_not() {
    let house = House::new().await;
    let browser = Browser::of(&house, "admin").await;
    let page = browser.page("/keys?tenant=other").await;
    assert!(
        page.contains("href=\"/keys/key_foreign?tenant=other\"") && !page.contains("key_viewer"),
        "{page}"
    );
    let made = browser.post("/keys", &[("role", "viewer"), ("label", "theirs"), ("tenant", "other")]).await;
    let mut theirs = Browser::new(&house);
    theirs.enter(&[("key", &shown(&made.text))]).await;
    assert!(!theirs.page("/channels").await.contains("crm"));
    let foreign = Browser::of(&house, "foreign").await;
    assert_eq!(foreign.get("/keys?tenant=default").await.status, StatusCode::FORBIDDEN);
    assert!(!foreign.page("/keys").await.contains("tenant="));
}

#[tokio::test] // REQ SE-2
async fn a_viewer_sees_no_buttons() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "viewer").await;
    for path in ["/channels", "/channels/crm", "/alerts", "/alerts/ALERT", "/policies", "/audit"] {
        let page = browser.page(&things.address(path)).await;
        let forms = crate::markup::elements(&page).into_iter().filter(|it| it.name == "form");
        for form in forms.filter(|form| form.attributes["method"] == "post") {
            let action = form.attributes["action"].as_str();
            assert!(["/preferences", "/logout"].contains(&action), "{path}: {action}");
        }
    }
    assert!(!browser.page("/").await.contains("href=\"/keys\""));
}

#[tokio::test] // REQ SE-2
async fn a_key_for_some_channels_sees_these_alone() {
    let house = House::new().await;
    let bound = KeyDoc { channels: Some(vec!["null".parse().unwrap()]), ..key("bound", "operator") };
    house.add_key("default", &bound).await;
    furnished(&house, "words").await;
    let browser = Browser::of(&house, "bound").await;
    let page = browser.page("/channels").await;
    assert!(page.contains("href=\"/channels/null\"") && !page.contains("/channels/crm"), "{page}");
    assert_eq!(browser.get("/channels/crm").await.status, StatusCode::NOT_FOUND);
    assert!(!browser.page("/policies").await.contains("/channels/mail"));
    let page = walked(&browser, "/channels/null/hold", &[("reason", "a rest")]).await;
    assert!(page.contains("A rest"), "{page}");
}

#[tokio::test]
async fn a_held_channel_is_told_of_once_on_the_overview() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let needs = async || {
        let page = browser.page("/").await;
        page.split_once("id=\"needs-title\"").unwrap().1.split_once("</section>").unwrap().0.to_owned()
    };
    let unready = needs().await.matches("<li>").count();
    let alert = crate::scene::fired(&house, "channel_held", None, "moving house").await;
    assert_eq!(needs().await.matches("<li>").count(), unready + 1, "an alert alone is told");
    crate::scene::held(&house, "moving house").await;
    let both = needs().await;
    assert_eq!(both.matches("<li>").count(), unready + 1, "{both}");
    assert!(both.contains("oving house") && both.contains(&format!("/alerts/{alert}")), "{both}");
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_seen_by_whoever_looks_at_the_channel() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let page = browser.page("/channels/crm").await;
    let (_, mut stream) = stream(&browser, "/channels/crm", &versions(&page)).await;
    assert_eq!(parts(&mut stream).await, Vec::<Value>::new(), "the page is as it was");
    let ((), changed) = tokio::join!(crate::scene::held(&house, "moving house"), next_change(&mut stream));
    let ids: Vec<&Value> = changed.iter().map(|part| &part["id"]).collect();
    assert_eq!(ids, ["standing"]);
    assert!(changed[0]["html"].as_str().unwrap().contains("Moving house"), "{changed:?}");
}

#[tokio::test] // fault 38
async fn pages_are_read_by_readers_of_their_own() {
    // Two stores, with one message each under the same id, tell apart who reads by which.
    let (house, pages) = (House::new().await, House::new().await);
    house.door.show_pages_by(pages.store.clone());
    let id = house.created(&json!({"reference": "by-the-api"})).await;
    assert_eq!(pages.created(&json!({"reference": "on-the-page"})).await, id);
    let mut browser = Browser::new(&house);
    browser.enter(&[("key", "key-admin")]).await;
    let page = browser.page(&format!("/messages/{id}")).await;
    assert!(page.contains("on-the-page") && !page.contains("by-the-api"), "{page}");
    assert_eq!(house.get(&format!("/v1/messages/{id}")).await.json()["reference"], "by-the-api");
}
