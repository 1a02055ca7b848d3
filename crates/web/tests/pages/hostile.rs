//! Whatever others write is shown as text.

use http::StatusCode;
use serde_json::json;

use crate::browser::Browser;
use crate::house::House;
use crate::markup::is_sound;
use crate::matrix::shown;
use crate::scene::furnished;

const HOSTILE: [&str; 4] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "javascript:alert(1)//</textarea></title><svg onload=alert(1)>",
];

#[tokio::test] // REQ SE-6
async fn hostile_words_on_every_page_are_text_in_either_language() {
    for words in HOSTILE {
        let house = House::new().await;
        let things = furnished(&house, words).await;
        for lang in ["en", "pt-BR"] {
            let browser = Browser { lang, ..Browser::of(&house, "admin").await };
            let mut told = 0;
            for address in shown() {
                let page = browser.page(&things.address(address)).await;
                is_sound(&page, address);
                told += usize::from(page.contains("alert(1)"));
            }
            assert!(told > 1, "{words} is shown somewhere");
        }
    }
}

#[tokio::test] // REQ SE-6
async fn a_hostile_address_is_text_on_the_page_that_it_leads_to() {
    let house = House::new().await;
    let browser = Browser::of(&house, "admin").await;
    let query = crate::browser::encoded(HOSTILE[1]);
    for address in [
        format!("/messages?recipient={query}"),
        format!("/messages?cursor={query}"),
        format!("/dead?channel={query}&work={query}"),
        format!("/dead/letters?recipient={query}&cause={query}"),
        format!("/dead/letters?reference={query}"),
        format!("/dead/decide?act=discard&id={query}"),
        format!("/dead/decide?act=reprocess&reference={query}"),
        format!("/dead/{query}"),
        format!("/dead/letter/{query}"),
        format!("/operations/{query}"),
        format!("/audit?actor={query}&claim={query}&event={query}"),
        format!("/audit?from={query}&channel={query}"),
        format!("/keys?tenant={query}"),
        format!("/channels/{query}"),
        format!("/policies/{query}"),
        format!("/alerts/{query}"),
        format!("/learning/simulate?policy={query}&try={query}&scenario={query}"),
        format!("/learning/simulate?try=down&from={query}&to={query}&arrivals={query}&permanent={query}"),
        format!("/learning/simulate?try=history&channel={query}&category={query}"),
    ] {
        is_sound(&browser.get(&address).await.text, &address);
    }
    let door = Browser::new(&house).page(&format!("/login?next={query}&link={query}")).await;
    is_sound(&door, "door");
    let lost = browser.get(&format!("/{query}")).await;
    assert_eq!(lost.status, StatusCode::NOT_FOUND);
    is_sound(&lost.text, "lost");
}

#[tokio::test] // REQ SE-6
async fn every_page_comes_with_a_policy_under_which_nothing_foreign_runs() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser::of(&house, "admin").await;
    for address in shown().chain(["/login", "/nowhere"]) {
        let reply = browser.get(&things.address(address)).await;
        let policy = reply.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{address}: {policy}"
        );
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{address}: {policy}"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{address}: {name}");
        }
    }
}

#[tokio::test] // REQ SE-6
async fn the_html_of_a_mail_is_shown_in_a_frame_of_its_own_where_nothing_runs() {
    let house = House::new().await;
    let letter = "<p>Olá</p><script>alert(1)</script><img src=\"https://spy.example/x.gif\">";
    let changes =
        json!({"channel": "mail", "to": "ana@example.com", "content": {"subject": "S", "html": letter}});
    let id = house.created(&changes).await;
    let browser = Browser::of(&house, "admin").await;
    let page = browser.page(&format!("/messages/{id}")).await;
    is_sound(&page, "mail");
    let frame = crate::markup::elements(&page).into_iter().find(|it| it.name == "iframe").unwrap();
    assert_eq!(frame.attributes["sandbox"], "");
    let preview = browser.get(&frame.attributes["src"]).await;
    assert_eq!(preview.text, letter);
    let policy = preview.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && policy.ends_with("; sandbox"), "{policy}");
    assert!(!policy.contains("script-src"), "{policy}");
}
