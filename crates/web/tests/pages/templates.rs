//! Templates: written, tried out, saved, and held against what they said before.

use http::StatusCode;
use serde_json::json;

use crate::browser::Browser;
use crate::house::House;
use crate::markup::{elements, is_sound};

#[tokio::test]
async fn a_template_is_written_with_a_fault_that_is_told_beside_it_and_then_rightly() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page("/templates?new=boas-vindas").await;
    is_sound(&page, "new");
    assert!(
        page.contains("<h1>New template: boas-vindas</h1>")
            && page.contains("action=\"/templates/boas-vindas\""),
        "{page}"
    );
    let wrong = [("subject", "Oi"), ("text", "Olá, {{ nome"), ("html", "<b>{{ nome }}</b>")];
    let reply = browser.post("/templates/boas-vindas", &wrong).await;
    assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
    is_sound(&reply.text, "wrong");
    assert!(
        reply.text.contains("id=\"text-wrong\"") && !reply.text.contains("id=\"html-wrong\""),
        "{}",
        reply.text
    );
    assert!(
        reply.text.contains("Olá, {{ nome</textarea>") && reply.text.contains("&lt;b&gt;{{ nome }}"),
        "{}",
        reply.text
    );
    assert_eq!(house.get("/v1/templates").await.json()["items"], json!([]));

    let right = [("subject", "Oi"), ("text", "Olá,\r\n{{ nome }}"), ("html", "<b>{{ nome }}</b>")];
    let reply = browser.post("/templates/boas-vindas", &right).await;
    assert_eq!(reply.header("location"), Some("/templates/boas-vindas"), "{}", reply.text);
    let saved = house.get("/v1/templates/boas-vindas").await.json();
    assert_eq!((&saved["version"], &saved["text"]), (&json!(1), &json!("Olá,\n{{ nome }}")));
    assert!(browser.page("/templates/boas-vindas").await.contains("Version 1 is saved."));

    // The same again is no new version, and what somebody else saved meanwhile is not written over unseen.
    let again: Vec<(&str, &str)> = right.into_iter().chain([("based_on", "1")]).collect();
    browser.post("/templates/boas-vindas", &again).await;
    assert!(browser.page("/templates/boas-vindas").await.contains("no new version"));
    house.put_template("boas-vindas", &json!({"text": "another"})).await;
    let late = [("text", "mine"), ("based_on", "1")];
    let reply = browser.post("/templates/boas-vindas", &late).await;
    assert_eq!(reply.status, StatusCode::CONFLICT);
    assert!(
        reply.text.contains("mine</textarea>") && reply.text.contains("name=\"based_on\" value=\"2\""),
        "{}",
        reply.text
    );
    browser.post("/templates/boas-vindas", &[("text", "mine"), ("based_on", "2")]).await;
    assert_eq!(house.get("/v1/templates/boas-vindas").await.json()["version"], 3);
}

#[tokio::test] // REQ SE-6
async fn words_are_tried_out_in_a_frame_where_nothing_runs_before_they_are_saved() {
    let house = House::new().await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page("/templates?new=oi").await;
    let all = elements(&page);
    let frame = all.iter().find(|it| it.name == "iframe").unwrap();
    assert_eq!((frame.attributes["sandbox"].as_str(), frame.attributes["name"].as_str()), ("", "preview"));
    let button = all.iter().find(|it| it.attributes.contains_key("formaction")).unwrap();
    assert_eq!(
        (button.attributes["formaction"].as_str(), button.attributes["formtarget"].as_str()),
        ("/templates/oi/preview", "preview")
    );
    let typed = [
        ("subject", "Oi {{ nome }}"),
        ("html", "<i>{{ nome }}</i>"),
        ("payload", "{\"nome\": \"<b>Ana\"}"),
        ("kind", "smtp"),
    ];
    let reply = browser.post("/templates/oi/preview", &typed).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    assert!(
        reply.text.contains("Oi &lt;b&gt;Ana") && reply.text.contains("<i>&lt;b&gt;Ana</i>"),
        "{}",
        reply.text
    );
    let policy = reply.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && policy.ends_with("; sandbox"), "{policy}");
    for (payload, text, words) in [
        ("{oops", "x", "não é JSON"),
        ("{}", "{{ nome }}", "nome"),
        ("{}", "{{", "text"),
        ("[]", "x", "payload"),
    ] {
        let browser = Browser { lang: "pt-BR", house: &house, cookie: browser.cookie.clone() };
        let reply = browser.post("/templates/oi/preview", &[("text", text), ("payload", payload)]).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{payload} {text}");
        assert!(reply.text.contains(words), "{words}: {}", reply.text);
    }
    assert_eq!(house.get("/v1/templates").await.json()["items"], json!([]));
}

#[tokio::test]
async fn two_versions_are_held_against_each_other_and_an_earlier_one_can_be_saved_anew() {
    let house = House::new().await;
    house.put_template("oi", &json!({"text": "Olá\nate <logo>\nfim"})).await;
    house.put_template("oi", &json!({"text": "Olá\naté logo\nfim", "subject": "S"})).await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page("/templates/oi?version=2&against=1").await;
    is_sound(&page, "changes");
    for words in [
        "From version 1 to 2",
        "removed: </span>ate &lt;logo&gt;",
        "added: </span>até logo",
        "added: </span>S",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let old = browser.page("/templates/oi?version=1").await;
    assert!(
        old.contains("New messages get version 2") && old.contains("name=\"based_on\" value=\"2\""),
        "{old}"
    );
    let reply = browser.post("/templates/oi", &[("text", "Olá\nate <logo>\nfim"), ("based_on", "2")]).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    assert_eq!(house.get("/v1/templates/oi").await.json()["version"], 3);
    assert_eq!(browser.get("/templates/oi?version=9").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_viewer_reads_what_it_says_and_writes_nothing() {
    let house = House::new().await;
    house.put_template("oi", &json!({"text": "Olá, {{ nome }}"})).await;
    let viewer = Browser::of(&house, "viewer").await;
    let page = viewer.page("/templates/oi").await;
    assert!(page.contains("<pre>Olá, {{ nome }}</pre>") && !page.contains("<textarea"), "{page}");
    let frame = elements(&page).into_iter().find(|it| it.name == "iframe").unwrap();
    let preview = viewer.get(&frame.attributes["src"]).await;
    assert!(preview.text.contains("Olá, nome"), "{}", preview.text);
    assert!(!viewer.page("/templates").await.contains("id=\"f-new\""));
    let operator = Browser::of(&house, "operator").await;
    let bad = operator.page("/templates?new=Boas%20Vindas").await;
    assert!(bad.contains("This cannot be its name.") && bad.contains("value=\"Boas Vindas\""), "{bad}");
    assert!(operator.page("/templates?new=oi").await.contains("There is a template of this name already."));
}
