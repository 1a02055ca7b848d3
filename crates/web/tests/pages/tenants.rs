//! Tenants are strangers to each other: an admin of one sees nothing of another and changes nothing of it.

use std::time::Duration;

use futures_util::StreamExt;
use pombo_store::Store as _;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use serde_json::json;

use crate::browser::Browser;
use crate::house::House;
use crate::live::stream;
use crate::matrix::{ROWS, shown};
use crate::scene::{Things, furnished, puzzled};

/// A house with something of everything, and where the mail is that has a picture of its own.
async fn ours() -> (House, Things, String) {
    let house = House::unattended().await;
    puzzled(&house, "canary is cold", 25).await;
    let things = furnished(&house, "canary").await;
    let content = json!({"subject": "canary", "html": "<p>canary</p>"});
    let mail = house.created(&json!({"channel": "mail", "to": "ana@example.com", "content": content})).await;
    (house, things, format!("/messages/{mail}/preview"))
}

/// Something of ours that stands in a text, unless whoever asked has said it.
fn told(text: &str, things: &Things, asked: &str) -> Option<String> {
    const NOUNS: [&str; 9] =
        ["SENT", "DEAD", "WAITING", "CAUSE", "OPERATION", "RULE", "RUNNING", "LISTED", "DRAFT"];
    let names = NOUNS.map(|noun| things.address(noun));
    let words = ["canary", "order-1", "greeting", "key_clerk", "1 dead letter"].map(str::to_owned);
    names.into_iter().chain(words).find(|it| text.contains(it.as_str()) && !asked.contains(it.as_str()))
}

/// Pages that show nothing of anybody's: what the server is set up to do, and whether its record holds.
const EVERYBODYS: &[&str] =
    &["/policies", "/policies/{name}", "/learning/simulate", "/audit/chain", "/login", "/assets/{file}"];

#[tokio::test] // REQ SE-1
async fn no_page_shows_another_tenant_anything_of_ours() {
    let (house, things, mail) = ours().await;
    let (owner, stranger) = (Browser::of(&house, "admin").await, Browser::of(&house, "foreign").await);
    let pages = ROWS.iter().filter(|row| row.0 == "GET" && row.1 != "/live").map(|row| (row.1, row.3));
    let asked_for = [("/keys", "/keys?tenant=default"), ("/keys/{id}", "/keys/key_clerk?tenant=default")];
    let mut wrong = Vec::new();
    for (path, address) in pages.chain(asked_for) {
        let address = match path {
            "/messages/{id}/preview" => mail.clone(),
            _ => things.address(address),
        };
        let reply = stranger.get(&address).await;
        assert!(!reply.status.is_server_error(), "{address}: {}", reply.text);
        assert_eq!(told(&reply.text, &things, &address), None, "{address}: {}", reply.text);
        let mine = owner.get(&address).await;
        if told(&mine.text, &things, &address).is_some() == EVERYBODYS.contains(&path) {
            wrong.push(path);
        }
    }
    assert_eq!(wrong, [""; 0], "what their owner is shown there is otherwise than said above");
}

#[tokio::test] // REQ SE-1
async fn no_stream_shows_another_tenant_anything_of_ours() {
    let (house, things, _) = ours().await;
    let stranger = Browser::of(&house, "foreign").await;
    let first = async |browser: &Browser<'_>, address: &str| {
        let (_, mut stream) = stream(browser, address, "").await;
        let piece = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
        piece.expect("a stream begins at once, or ends").map(|piece| piece.unwrap().to_vec())
    };
    let piece = async |browser: &Browser<'_>, address: &str| {
        String::from_utf8(first(browser, address).await.unwrap_or_default()).unwrap()
    };
    for address in shown().map(|address| things.address(address)) {
        let text = piece(&stranger, &address).await;
        assert_eq!(told(&text, &things, &address), None, "{address}: {text}");
    }
    let mine = piece(&Browser::of(&house, "admin").await, "/messages").await;
    assert!(mine.contains("canary"), "a stream that would have shown it: {mine}");
}

type Fields = &'static [(&'static str, &'static str)];

/// What is filled in where an empty form would be refused or change nothing for its owner.
const FILLED: &[(&str, Fields)] = &[
    ("/dead/decide", &[("act", "discard"), ("id", "DEAD"), ("note", "x"), ("sure", "1")]),
    ("/dead/decide", &[("act", "discard"), ("all", "1"), ("count", "9"), ("note", "x"), ("sure", "1")]),
    ("/dead/letter/{id}", &[("step", "save"), ("version", "2"), ("to", "https://crm.example/new")]),
    ("/campaigns/new", &[("name", "x"), ("channel", "mail"), ("template", "greeting")]),
    ("/campaigns/{id}/edit", &[("name", "x")]),
    ("/campaigns/{id}/list", &[("pasted", "to;name\nx@example.com;x\n")]),
    // The same list, as the page that asks about its columns keeps it.
    (
        "/campaigns/{id}/import",
        &[("list", "dG87bmFtZQp4QGV4YW1wbGUuY29tO3gK"), ("column-0", "to"), ("column-1", "=name")],
    ),
    ("/campaigns/{id}/schedule", &[("at", "2027-06-01T09:00")]),
    ("/templates/{name}", &[("text", "x"), ("based_on", "2")]),
    ("/templates/{name}/preview", &[("text", "{{ a }}"), ("payload", "a: 1")]),
    ("/channels/{name}/hold", &[("reason", "x"), ("destination", "elsewhere")]),
    ("/channels/{name}/open", &[("reason", "x"), ("destination", "elsewhere")]),
    ("/channels/{name}/close", &[("destination", "canary")]),
    ("/learning/try", &[("suggestion", "SUGGESTION")]),
    ("/learning/accept", &[("suggestion", "SUGGESTION")]),
    ("/alerts/{id}/acknowledge", &[("note", "x")]),
    ("/alerts/{id}/silence", &[("for", "1h")]),
    ("/keys", &[("role", "viewer"), ("label", "x"), ("tenant", "default")]),
    ("/keys/{id}/link", &[]),
    ("/keys/{id}/link", &[("tenant", "default")]),
    ("/keys/{id}/rotate", &[("overlap", "1h")]),
    ("/keys/{id}/rotate", &[("overlap", "1h"), ("tenant", "default")]),
    ("/keys/{id}/revoke", &[("sure", "yes")]),
    ("/keys/{id}/revoke", &[("sure", "yes"), ("tenant", "default")]),
];

/// What its owner does before, so that the form has something to do.
const BEFORE: &[(&str, &str, Fields)] = &[
    ("/campaigns/{id}/resume", "/campaigns/RUNNING/pause", &[]),
    ("/alerts/{id}/unsilence", "/alerts/ALERT/silence", &[("for", "1h")]),
];

/// Forms that change nothing of their owner's here: they only show something, are about whoever looks, or, as with those
/// that failed in a campaign, there is nothing to do.
const HARMLESS: &[&str] = &[
    "/messages/{id}/reveal",
    "/campaigns/{id}/list",
    "/campaigns/{id}/retry",
    "/learning/try",
    "/templates/{name}/preview",
    "/preferences",
];

/// Who is logged in, and links to log in with.
async fn sessions(house: &House) -> Vec<String> {
    let pick = Pick::All { after: None };
    let wanted = Wanted { shelf: Shelf::Session, tenant: None, pick, limit: 1_000 };
    house.store.docs(wanted).await.unwrap().into_iter().map(|doc| doc.id).collect()
}

#[tokio::test] // REQ SE-1
async fn no_form_of_another_tenant_changes_anything_of_ours() {
    let mut wrong = Vec::new();
    for (_, path, access, address) in ROWS.iter().filter(|row| row.0 == "POST") {
        if access.is_none() {
            continue;
        }
        let filled: Vec<Fields> = FILLED.iter().filter(|form| form.0 == *path).map(|form| form.1).collect();
        for fields in if filled.is_empty() { vec![&[] as Fields] } else { filled } {
            let (house, things, _) = ours().await;
            let owner = Browser::of(&house, "admin").await;
            if let Some((_, address, fields)) = BEFORE.iter().find(|form| form.0 == *path) {
                owner.post(&things.address(address), fields).await;
            }
            let page = owner.page("/learning").await;
            let (_, suggestion) = page.split_once("name=\"suggestion\" value=\"").unwrap();
            let suggestion = suggestion.split('"').next().unwrap();
            let fields: Vec<(&str, String)> = fields
                .iter()
                .map(|(name, value)| (*name, things.address(value).replace("SUGGESTION", suggestion)))
                .collect();
            let fields: Vec<(&str, &str)> =
                fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let address = things.address(address);

            let stranger = Browser::of(&house, "foreign").await;
            let (before, theirs) = (house.ours().await, sessions(&house).await);
            let reply = stranger.post(&address, &fields).await;
            let name = format!("{address} {fields:?}");
            assert!(!reply.status.is_server_error(), "{name}: {}", reply.text);
            assert_eq!(told(&reply.text, &things, &name), None, "{name}: {}", reply.text);
            if let Some(next) = reply.header("location") {
                let page = stranger.get(next).await;
                assert_eq!(told(&page.text, &things, &name), None, "{name}, then {next}: {}", page.text);
            }
            assert_eq!(house.ours().await, before, "{name} changed something");
            let after = sessions(&house).await;
            assert!(after.iter().all(|id| theirs.contains(id)), "{name} lets somebody in");
            assert!(*path == "/logout" || after.len() == theirs.len(), "{name} logs somebody out");

            let mine = owner.post(&address, &fields).await;
            let still = house.ours().await == before && sessions(&house).await.len() == theirs.len();
            if still != HARMLESS.contains(path) {
                wrong.push((name, mine.status));
            }
        }
    }
    assert_eq!(wrong, [], "what they change for their owner is otherwise than said above");
}
