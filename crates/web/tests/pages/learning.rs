//! The page of what was learnt: suggestions are read, tried and accepted there.

use http::StatusCode;
use pombo_store::Store;
use pombo_web::rule;

use crate::browser::Browser;
use crate::house::House;
use crate::markup::is_sound;
use crate::scene::puzzled;

/// The id of the one suggestion on the page.
fn suggestion(page: &str) -> String {
    let rest = page.split_once("name=\"suggestion\" value=\"").unwrap().1;
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test] // REQ LN-1
async fn a_suggestion_is_tried_and_accepted_with_a_button() {
    let house = House::new().await;
    puzzled(&house, "the engine is cold <b>today</b>", 25).await;
    let browser = Browser::of(&house, "operator").await;
    let page = browser.page("/learning").await;
    is_sound(&page, "/learning");
    for words in ["the engine is cold &lt;b&gt;today", "100% of 25 succeeded", "Errors that no rule knows"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let id = suggestion(&page);
    let tried = browser.post("/learning/try", &[("suggestion", &id)]).await;
    assert_eq!(tried.status, StatusCode::OK, "{}", tried.text);
    assert!(tried.text.contains("It would have decided 0 of 0 dead letters."), "{}", tried.text);
    let accepted = browser.post("/learning/accept", &[("suggestion", &id)]).await;
    assert_eq!(accepted.status, StatusCode::SEE_OTHER);
    let rules = rule::all(&*house.store, None).await.unwrap();
    assert_eq!(rules.len(), 1);
    let page = browser.page("/learning").await;
    assert!(page.contains("The rule was accepted") && page.contains("Accepted rules"), "{page}");
    let removed = browser.post(&format!("/learning/{}/remove", rules[0].1.id), &[]).await;
    assert_eq!(removed.status, StatusCode::SEE_OTHER);
    assert!(rule::all(&*house.store, None).await.unwrap().is_empty());
}

#[tokio::test] // REQ SE-2
async fn a_viewer_reads_what_was_learnt_and_changes_nothing() {
    let house = House::new().await;
    puzzled(&house, "the engine is cold", 25).await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "viewer").await };
    let page = browser.page("/learning").await;
    assert!(page.contains("O que mudaria?") && page.contains("100% de 25 deram certo"), "{page}");
    assert!(!page.contains("action=\"/learning/accept\""), "{page}");
    let refused = browser.post("/learning/accept", &[("suggestion", &suggestion(&page))]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test] // REQ LN-1
async fn a_page_without_history_says_what_will_be_there() {
    let house = House::new().await;
    let page = Browser::of(&house, "viewer").await.page("/learning").await;
    assert!(page.contains("Nothing to learn from yet") && page.contains("pombo learning"), "{page}");
    assert!(house.store.learnt(None, crate::house::NOW).await.unwrap().is_empty());
}
