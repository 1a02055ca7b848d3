//! Dead letters as people work on them: looked at, ticked, confirmed, put right, two at once.

use http::StatusCode;
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::house::{House, Reply, key};
use crate::markup::elements;
use crate::scene::dead;

fn plain(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// What a page's own form carries unseen, without what every form carries.
fn unseen(page: &str) -> Vec<(String, String)> {
    let main = page.split_once("<main").unwrap().1;
    let main = main.split_once('>').unwrap().1;
    let fields =
        elements(main).into_iter().filter(|it| it.attributes.get("type").is_some_and(|it| it == "hidden"));
    let pairs = fields.map(|it| (plain(&it.attributes["name"]), plain(&it.attributes["value"])));
    pairs.filter(|(name, _)| !["csrf", "back"].contains(&name.as_str())).collect()
}

/// Sends the form of that page, with those fields filled in.
async fn send(browser: &Browser<'_>, path: &str, page: &str, filled: &[(&str, &str)]) -> Reply {
    let unseen = unseen(page);
    let unseen = unseen.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let kept = unseen.filter(|(name, _)| !filled.iter().any(|(other, _)| other == name));
    let fields: Vec<(&str, &str)> = kept.chain(filled.iter().copied()).collect();
    browser.post(path, &fields).await
}

async fn letter(house: &House, id: &str) -> Value {
    house.get(&format!("/v1/dead-letters/{id}")).await.json()
}

async fn states(house: &House, ids: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        states.push(letter(house, id).await["state"].as_str().unwrap().to_owned());
    }
    states
}

async fn several(house: &House, count: usize, error: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(dead(house, &json!({"reference": format!("order-{n}")}), error).await);
    }
    ids
}

#[tokio::test] // REQ DL-1
async fn ticked_letters_are_shown_confirmed_and_sent_again() {
    let house = House::new().await;
    let ids = several(&house, 3, "no such tenant").await;
    let browser = Browser::of(&house, "operator").await;
    let list = browser.page("/dead/letters").await;
    let boxes =
        elements(&list).into_iter().filter(|it| it.attributes.get("name").is_some_and(|it| it == "id"));
    assert_eq!(boxes.count(), 3);
    let page = browser.page(&format!("/dead/decide?act=reprocess&id={}&id={}", ids[0], ids[1])).await;
    assert!(page.contains("<h1>Send 2 dead letters again?</h1>"), "{page}");
    assert_eq!(states(&house, &ids).await, ["failed"; 3], "to look is not to act");
    let reply = send(&browser, "/dead/decide", &page, &[("note", "tenant was created")]).await;
    assert_eq!((reply.status, reply.header("location")), (StatusCode::SEE_OTHER, Some("/dead/letters")));
    assert_eq!(states(&house, &ids).await, ["pending", "pending", "failed"]);
    assert!(browser.page("/dead/letters").await.contains("2 letters are on their way again."));
    let deeds = letter(&house, &ids[0]).await["deeds"].clone();
    assert_eq!((&deeds[0]["what"], &deeds[0]["note"]), (&json!("reprocessed"), &json!("tenant was created")));
}

#[tokio::test] // REQ DL-1
async fn nothing_ticked_is_nothing_done() {
    let house = House::new().await;
    let ids = several(&house, 2, "no such tenant").await;
    let browser = Browser::of(&house, "operator").await;
    assert!(browser.page("/dead/decide?act=discard").await.contains("Tick the letters first"));
    let reply = browser.post("/dead/decide", &[("act", "discard"), ("note", "x"), ("sure", "1")]).await;
    assert_eq!(reply.header("location"), Some("/dead"));
    assert_eq!(states(&house, &ids).await, ["failed"; 2]);
}

#[tokio::test] // REQ DL-2
async fn a_cause_is_one_row_with_its_remedy_and_one_operation_with_its_pace() {
    let house = House::new().await;
    let ids = several(&house, 12, "tenant 4711 is unknown").await;
    let browser = Browser::of(&house, "operator").await;
    let causes = browser.page("/dead").await;
    assert!(causes.contains("<p class=\"count\"><strong>12</strong></p>"), "{causes}");
    assert!(causes.contains("Correct that, check the difference, and resubmit."), "{causes}");
    let cause = letter(&house, &ids[0]).await["cause"]["id"].as_str().unwrap().to_owned();
    let about = browser.page(&format!("/dead/{cause}")).await;
    assert!(about.contains("12 dead letters") && about.contains("tenant 4711 is unknown"), "{about}");
    let page = browser.page(&format!("/dead/decide?act=reprocess&cause={cause}")).await;
    assert!(page.contains("Send 12 dead letters again?"), "{page}");
    let canary =
        elements(&page).into_iter().find(|it| it.attributes.get("name").is_some_and(|it| it == "canary"));
    assert!(canary.unwrap().attributes.contains_key("checked"), "one goes first of so many");

    let wrong =
        send(&browser, "/dead/decide", &page, &[("note", "mended"), ("rate_per_minute", "fast")]).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let field = elements(&wrong.text)
        .into_iter()
        .find(|it| it.attributes.get("name").is_some_and(|it| it == "rate_per_minute"));
    let field = field.unwrap().attributes;
    assert_eq!((field["value"].as_str(), field["aria-invalid"].as_str()), ("fast", "true"));
    assert!(wrong.text.contains("value=\"mended\""), "what was typed stays");
    assert!(wrong.text.contains("A whole number from 1 to 1000000, or nothing."), "{}", wrong.text);

    let filled = [("note", "mended"), ("rate_per_minute", "60"), ("canary", "1")];
    let begun = send(&browser, "/dead/decide", &wrong.text, &filled).await;
    let place = begun.header("location").unwrap().to_owned();
    assert!(place.starts_with("/operations/opr_"), "{place}");
    let operation = browser.page(&place).await;
    for words in [
        "one goes first",
        "<dt>left</dt><dd>12</dd>",
        "<dt>a minute, at most</dt><dd>60</dd>",
        "<dt>until it is done</dt><dd>12 s</dd>",
        "mended",
    ] {
        assert!(operation.contains(words), "{words}: {operation}");
    }
    assert!(browser.page("/dead").await.contains("Being worked on"));
    assert!(browser.page("/operations").await.contains(&place));
    browser.post(&format!("{place}/cancel"), &[("back", &place)]).await;
    let stopped = browser.page(&place).await;
    assert!(stopped.contains("It was stopped.") && stopped.contains("Stopped by"), "{stopped}");
    let late = browser.post(&format!("{place}/cancel"), &[("back", &place)]).await;
    assert_eq!(late.header("location"), Some(place.as_str()));
    assert!(browser.page(&place).await.contains("It is too late to cancel"), "the second is told");
}

#[tokio::test] // REQ DL-1
async fn nothing_is_discarded_without_a_note_and_a_confirmation() {
    let house = House::new().await;
    let ids = several(&house, 2, "no such tenant").await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "operator").await };
    let page = browser.page(&format!("/dead/decide?act=discard&id={}", ids[0])).await;
    assert!(
        page.contains("<h1>Descartar 1 mensagem morta?</h1>") && page.contains("Descartar é definitivo"),
        "{page}"
    );
    for filled in [&[][..], &[("note", "cliente saiu")], &[("note", " "), ("sure", "1")]] {
        let reply = send(&browser, "/dead/decide", &page, filled).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{filled:?}");
        assert_eq!(states(&house, &ids).await, ["failed"; 2], "{filled:?}");
    }
    let reply = send(&browser, "/dead/decide", &page, &[("note", "cliente saiu"), ("sure", "1")]).await;
    assert_eq!(reply.header("location"), Some(format!("/messages/{}", ids[0]).as_str()));
    assert_eq!(states(&house, &ids).await, ["discarded", "failed"]);
    assert!(browser.page("/dead").await.contains("1 mensagem foi descartada."));
}

#[tokio::test] // REQ DL-1
async fn whoever_discards_has_seen_how_many() {
    let house = House::new().await;
    several(&house, 1, "no such tenant").await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page("/dead/decide?act=discard&all=true").await;
    assert!(page.contains("Every dead letter that there is."), "{page}");
    several(&house, 1, "no such tenant").await;
    let filled = [("note", "too old"), ("sure", "1")];
    let reply = send(&browser, "/dead/decide", &page, &filled).await;
    assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        reply.text.contains("There are more of them") && reply.text.contains("Discard 2 dead letters?"),
        "{}",
        reply.text
    );
    let reply = send(&browser, "/dead/decide", &reply.text, &filled).await;
    assert!(reply.header("location").unwrap().starts_with("/operations/opr_"), "{}", reply.text);
}

#[tokio::test] // REQ DL-2
async fn whoever_clicks_twice_begins_one_thing_and_is_told_of_it_twice() {
    let house = House::new().await;
    let ids = several(&house, 3, "no such tenant").await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page(&format!("/dead/decide?act=reprocess&id={}&id={}", ids[0], ids[1])).await;
    for click in ["first", "second"] {
        let reply = send(&browser, "/dead/decide", &page, &[]).await;
        let told = browser.page(reply.header("location").unwrap()).await;
        assert!(told.contains("2 letters are on their way again."), "{click}: {told}");
    }
    assert_eq!(letter(&house, &ids[0]).await["deeds"].as_array().unwrap().len(), 1);

    let page = browser.page("/dead/decide?act=reprocess&channel=crm").await;
    let place = send(&browser, "/dead/decide", &page, &[]).await.header("location").unwrap().to_owned();
    assert!(place.starts_with("/operations/opr_"), "{place}");
    let again = send(&browser, "/dead/decide", &page, &[]).await;
    assert_eq!(again.header("location"), Some(place.as_str()));
    let rest = browser.page(&format!("/dead/decide?act=reprocess&id={}", ids[2])).await;
    send(&browser, "/dead/decide", &rest, &[]).await;
    let late = send(&browser, "/dead/decide", &page, &[]).await;
    assert_eq!(late.header("location"), Some(place.as_str()), "even when none is left");
    assert_eq!(house.get("/v1/operations").await.json()["items"].as_array().unwrap().len(), 1);

    let anew = browser.page("/dead/decide?act=reprocess&channel=crm").await;
    assert!(anew.contains("None of them is dead any more"), "{anew}");
}

#[tokio::test] // REQ DL-1
async fn of_two_who_send_the_same_letters_again_the_second_is_told() {
    let house = House::new().await;
    let ids = several(&house, 2, "no such tenant").await;
    let (first, second) = (Browser::of(&house, "operator").await, Browser::of(&house, "admin").await);
    let path = format!("/dead/decide?act=reprocess&id={}&id={}", ids[0], ids[1]);
    let (one, other) = (first.page(&path).await, second.page(&path).await);
    send(&first, "/dead/decide", &one, &[]).await;
    let late = send(&second, "/dead/decide", &other, &[]).await;
    assert_eq!(late.status, StatusCode::SEE_OTHER);
    let told = second.page(late.header("location").unwrap()).await;
    assert!(told.contains("None of them is dead any more: somebody else has dealt with them."), "{told}");
    assert!(second.page(&path).await.contains("None of them is dead any more"));
    let cause = "/dead/decide?act=reprocess&cause=cause_0000000000000000";
    assert!(second.page(cause).await.contains("None of them is dead any more"));
}

#[tokio::test] // REQ DL-1
async fn a_letter_is_put_right_compared_and_sent_again() {
    let house = House::new().await;
    let content = json!({"method": "POST", "body": {"total": 10}});
    let id = dead(&house, &json!({"content": content}), "no such tenant").await;
    let browser = Browser::of(&house, "admin").await;
    let path = format!("/dead/letter/{id}");
    let page = browser.page(&path).await;
    assert!(
        page.contains("name=\"content.method\" value=\"POST\"") && page.contains("&quot;total&quot;: 10"),
        "{page}"
    );
    let body = "{\"body\": {\"total\": 12}}";
    let filled = [
        ("to", "nowhere"),
        ("content.method", "POST"),
        ("content", body),
        ("note", "total was wrong"),
        ("step", "check"),
    ];
    let wrong = send(&browser, &path, &page, &filled).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let field = elements(&wrong.text)
        .into_iter()
        .find(|it| it.attributes.get("id").is_some_and(|it| it == "f-to"))
        .unwrap();
    assert_eq!(
        (field.attributes["value"].as_str(), field.attributes["aria-invalid"].as_str()),
        ("nowhere", "true")
    );
    assert!(wrong.text.contains("id=\"f-to-wrong\""), "{}", wrong.text);
    assert!(
        wrong.text.contains("&quot;total&quot;: 12") && wrong.text.contains("value=\"total was wrong\""),
        "what was typed stays"
    );

    let filled = [("content", "{\"body\": "), ("step", "check")];
    let broken =
        send(&browser, &path, &page, &[("to", "https://crm.example/hook"), filled[0], filled[1]]).await;
    assert!(broken.text.contains("This is not JSON: look at line 1, column 8."), "{}", broken.text);
    let both = send(&browser, &path, &page, &[("to", "nowhere"), filled[0], filled[1]]).await;
    for id in ["f-to-wrong", "f-content-wrong"] {
        assert!(both.text.contains(&format!("id=\"{id}\"")), "{id}: {}", both.text);
    }

    let filled = [
        ("to", "https://crm.example/new"),
        ("content.method", "POST"),
        ("content", body),
        ("note", "total was wrong"),
        ("step", "check"),
    ];
    let compared = send(&browser, &path, &page, &filled).await;
    assert_eq!(compared.status, StatusCode::OK, "{}", compared.text);
    for words in
        ["<del>hook</del>", "<ins>new</ins>", "<del>0</del>", "<ins>2</ins>", "Is this what you mean?"]
    {
        assert!(compared.text.contains(words), "{words}: {}", compared.text);
    }
    assert_eq!(letter(&house, &id).await["version"], 1, "nothing is saved before it is confirmed");

    let back = send(&browser, &path, &compared.text, &[("step", "edit")]).await;
    assert!(back.text.contains("value=\"https://crm.example/new\""), "{}", back.text);
    let done = send(&browser, &path, &compared.text, &[("step", "submit")]).await;
    assert_eq!(done.header("location"), Some(format!("/messages/{id}").as_str()), "{}", done.text);
    let story = letter(&house, &id).await;
    assert_eq!((&story["state"], &story["version"]), (&json!("pending"), &json!(2)));
    assert_eq!(story["content"], json!({"method": "POST", "body": {"total": 12}}));
    assert_eq!(story["revisions"][0]["note"], "total was wrong");
    let told = browser.page(&format!("/messages/{id}")).await;
    assert!(
        told.contains("Corrected (version 2) and on its way again.") && told.contains(">Cancel<"),
        "{told}"
    );
    let after = browser.page(&path).await;
    assert!(after.contains("It is no longer dead") && after.contains("Earlier versions"), "{after}");
    assert!(after.contains("<ins>new</ins>"), "{after}");
}

#[tokio::test] // REQ DL-1
async fn a_letter_can_be_saved_now_and_sent_later() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "no such tenant").await;
    let browser = Browser::of(&house, "admin").await;
    let path = format!("/dead/letter/{id}");
    let page = browser.page(&path).await;
    let same = send(&browser, &path, &page, &[("to", "https://crm.example/hook"), ("step", "check")]).await;
    assert!(same.text.contains("Nothing differs from what it says."), "{}", same.text);
    let compared = send(&browser, &path, &page, &[("to", "https://crm.example/x"), ("step", "check")]).await;
    let saved = send(&browser, &path, &compared.text, &[("step", "save")]).await;
    assert_eq!(saved.header("location"), Some(path.as_str()), "{}", saved.text);
    let story = letter(&house, &id).await;
    assert_eq!(
        (&story["state"], &story["version"], &story["to"]),
        (&json!("failed"), &json!(2), &json!("https://crm.example/x"))
    );
    assert!(browser.page(&path).await.contains("Saved as version 2. It is not sent yet."));
}

#[tokio::test] // REQ DL-1
async fn of_two_who_edit_the_second_is_told_and_loses_nothing() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "no such tenant").await;
    let browser = Browser::of(&house, "admin").await;
    let path = format!("/dead/letter/{id}");
    let page = browser.page(&path).await;
    let mine = [("to", "https://crm.example/mine"), ("step", "check")];
    let compared = send(&browser, &path, &page, &mine).await;
    let theirs = json!({"to": "https://crm.example/theirs", "version": 1, "note": "moved"});
    let reply =
        house.call_as("operator", "PATCH", &format!("/v1/dead-letters/{id}"), theirs.to_string()).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    for (page, step) in [(&page, "check"), (&compared.text, "submit")] {
        let late = send(&browser, &path, page, &[mine[0], ("step", step)]).await;
        assert_eq!(late.status, StatusCode::CONFLICT, "{step}: {}", late.text);
        for words in [
            "Somebody else has changed this letter meanwhile",
            "moved",
            "https://crm.example/<ins>theirs</ins>",
        ] {
            assert!(late.text.contains(words), "{words}: {}", late.text);
        }
        assert!(late.text.contains("value=\"https://crm.example/mine\""), "{}", late.text);
        assert_eq!(letter(&house, &id).await["to"], "https://crm.example/theirs");
        // Whoever has read that can go on from there.
        let again = send(&browser, &path, &late.text, &mine).await;
        assert!(
            again.text.contains("<del>theirs</del>") && again.text.contains("<ins>mine</ins>"),
            "{}",
            again.text
        );
    }
    house.call("POST", &format!("/v1/messages/{id}/retry"), "{}").await;
    let late = send(&browser, &path, &page, &mine).await;
    assert_eq!(late.header("location"), Some(format!("/messages/{id}").as_str()));
    assert!(browser.page(&format!("/messages/{id}")).await.contains("Your change was not saved."));
}

#[tokio::test] // REQ AU-3
async fn what_a_role_hides_is_neither_shown_nor_sent_back_unless_it_is_revealed_on_record() {
    let house = House::new().await;
    let content = json!({"body": {"name": "Maria Canário", "n": 1}});
    let id = dead(&house, &json!({"to": "https://crm.example/maria", "content": content}), "no").await;
    let path = format!("/dead/letter/{id}");
    house.add_key("default", &KeyDoc { reveal: Some(false), ..key("bound", "operator") }).await;
    let browser = Browser::of(&house, "bound").await;
    let page = browser.page(&path).await;
    assert!(!page.contains("Canário") && page.contains("may not reveal it"), "{page}");
    let refused = browser.post(&path, &[("step", "reveal")]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let masked =
        send(&browser, &path, &page, &[("content", "{\"body\": {\"name\": \"•••\"}}"), ("step", "check")])
            .await;
    assert_eq!(masked.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", masked.text);
    let other = send(&browser, &path, &page, &[("to", "https://crm.example/other"), ("step", "check")]).await;
    assert!(
        other.text.contains("Is this what you mean?") && !other.text.contains("Canário"),
        "{}",
        other.text
    );

    let browser = Browser::of(&house, "operator").await;
    assert!(!browser.page(&path).await.contains("Canário"));
    let seen = browser.post(&path, &[("step", "reveal")]).await;
    assert!(seen.text.contains("Maria Canário"), "{}", seen.text);
    let body = "{\"body\": {\"name\": \"Maria Canário\", \"n\": 2}}";
    let filled = [("to", "https://crm.example/maria"), ("content", body), ("step", "check")];
    let compared = send(&browser, &path, &seen.text, &filled).await;
    assert!(compared.text.contains("<ins>2</ins>"), "{}", compared.text);
    send(&browser, &path, &compared.text, &[("step", "submit")]).await;
    assert_eq!(letter(&house, &id).await["content"]["body"], json!({"name": "Maria Canário", "n": 2}));
    let records = house.get(&format!("/v1/audit?message={id}&event=revealed")).await.json();
    assert_eq!(records["items"].as_array().unwrap().len(), 3, "{records}");
}

#[tokio::test]
async fn who_may_only_look_sees_causes_and_versions_without_a_button() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "no such tenant").await;
    let cause = letter(&house, &id).await["cause"]["id"].as_str().unwrap().to_owned();
    let viewer = Browser::of(&house, "viewer").await;
    for path in [
        "/dead".to_owned(),
        "/dead/letters".to_owned(),
        format!("/dead/{cause}"),
        format!("/dead/letter/{id}"),
    ] {
        let page = viewer.page(&path).await;
        assert!(
            !page.contains("/dead/decide")
                && !page.contains("name=\"step\"")
                && !page.contains("type=\"checkbox\""),
            "{path}: {page}"
        );
    }
}

#[tokio::test]
async fn a_page_without_dead_letters_teaches() {
    let house = House::new().await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "operator").await };
    assert!(browser.page("/dead").await.contains("Nenhuma mensagem morta"));
    assert!(browser.page("/operations").await.contains("Ainda não há operações"));
    assert!(
        browser
            .page("/dead/cause_0000000000000000")
            .await
            .contains("Nenhuma mensagem morta tem mais esta causa")
    );
}
