use http::StatusCode;
use pombo_kernel::message::{Actor, Draft, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::Store;
use pombo_store::anchor::{Anchor, Hex};
use pombo_web::event;
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use crate::dead::dead;
use crate::house::{House, NOW, Reply, key};

const CANARY: &str = "https://crm.example/canary-hook";

async fn page(house: &House, query: &str) -> (Vec<Value>, Option<String>) {
    let reply = house.get(&format!("/v1/audit?{query}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let page = reply.json();
    (page["items"].as_array().unwrap().clone(), page["next_cursor"].as_str().map(str::to_owned))
}

/// Everything that is found, page after page.
async fn found(house: &House, query: &str) -> Vec<Value> {
    let (mut all, mut cursor) = page(house, query).await;
    while let Some(next) = cursor {
        let (more, after) = page(house, &format!("{query}&cursor={next}")).await;
        all.extend(more);
        cursor = after;
    }
    all
}

fn each<'a>(records: &'a [Value], field: &str) -> Vec<&'a str> {
    records.iter().map(|record| record[field].as_str().unwrap_or_default()).collect()
}

fn positions(records: &[Value]) -> Vec<u64> {
    records.iter().map(|record| record["position"].as_u64().unwrap()).collect()
}

/// Hours with a little of everything: the ids of a dead letter and of a message that waits.
async fn furnished() -> (House, String, String) {
    let house = House::new().await;
    let letter = dead(&house, &json!({"reference": "CLM-1-1", "to": CANARY}), "no canary lives here").await;
    house.clock.pass(Span::from_hours(72));
    let waiting = house.created(&json!({"channel": "null", "to": CANARY, "reference": "CLM-2-2"})).await;
    let question = json!({"claimId": "CLM-1-1", "submissionError": "TIMEOUT", "retryCount": 1});
    assert_eq!(house.post("/v1/retry-decisions", &question).await.status, StatusCode::OK);
    let edit = json!({"to": "https://crm.example/new-canary", "version": 1, "note": "put right"});
    let path = format!("/v1/dead-letters/{letter}");
    let reply = house.call_as("operator", "PATCH", &path, edit.to_string()).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    house.put_template("greeting", &json!({"subject": "hi", "text": "hi"})).await;
    (house, letter, waiting)
}

#[tokio::test] // REQ AU-1
async fn records_are_listed_newest_first_and_pages_join() {
    let (house, ..) = furnished().await;
    let all = found(&house, "").await;
    let end = *house.store.watch().borrow();
    assert_eq!(positions(&all), (0..end).rev().collect::<Vec<_>>(), "an admin of the house sees all of them");
    for limit in [1, 2, 3, 500] {
        assert_eq!(found(&house, &format!("limit={limit}")).await, all, "{limit}");
    }
    let newest = &all[0];
    assert_eq!(newest["event"], "template_put");
    assert_eq!(
        (&newest["type"], &newest["actor"]),
        (&json!("template.put"), &json!("operator (key_operator)"))
    );
    assert_eq!(newest["detail"], json!({"template": "greeting", "version": 1}));
}

#[tokio::test] // REQ AU-1
async fn records_are_found_by_message_claim_actor_event_channel_and_time() {
    let (house, letter, waiting) = furnished().await;
    let of_letter = found(&house, &format!("message={letter}")).await;
    assert_eq!(each(&of_letter, "event"), ["edited", "failed", "claimed", "accepted"]);
    assert_eq!((&of_letter[1]["from"], &of_letter[1]["to"]), (&json!("sending"), &json!("failed")));
    assert_eq!(of_letter[1]["detail"]["category"], "rejected");
    assert_eq!(each(&found(&house, &format!("message={waiting}")).await, "event"), ["accepted"]);

    // A claim: its messages by their reference, and the decisions on it.
    let of_claim = found(&house, "claim=CLM-1-1").await;
    assert_eq!(each(&of_claim, "event"), ["edited", "retry_decided", "failed", "claimed", "accepted"]);
    assert_eq!(of_claim[1]["detail"]["claimId"], "CLM-1-1");
    assert_eq!(found(&house, "claim=CLM-9-9").await, [Value::Null; 0]);
    let both = found(&house, &format!("claim=CLM-1-1&message={letter}")).await;
    assert_eq!(both, of_letter);
    assert_eq!(found(&house, &format!("claim=CLM-1-1&message={waiting}")).await, [Value::Null; 0]);

    for actor in ["operator", "key_operator", "operator%20(key_operator)"] {
        let by = found(&house, &format!("actor={actor}")).await;
        assert_eq!(each(&by, "event"), ["template_put", "edited"], "{actor}");
    }
    assert_eq!(found(&house, "actor=operat").await, [Value::Null; 0]);
    for event in ["failed", "message.failed", "edited,failed", "message.edited,%20failed"] {
        let events = found(&house, &format!("event={event}")).await;
        assert!(each(&events, "event").iter().all(|it| ["failed", "edited"].contains(it)), "{event}");
        assert!(each(&events, "event").contains(&"failed"), "{event}");
    }
    let messages = found(&house, "event=message.*").await;
    assert_eq!(each(&messages, "event"), ["edited", "accepted", "failed", "claimed", "accepted"]);
    assert_eq!(each(&found(&house, "channel=null").await, "message"), [waiting.as_str()]);

    let later = NOW + Span::from_hours(1);
    let (since, until) =
        (found(&house, &format!("since={later}")).await, found(&house, &format!("until={later}")).await);
    assert_eq!(each(&since, "event"), ["template_put", "edited", "retry_decided", "accepted"]);
    assert_eq!(since.len() + until.len(), found(&house, "").await.len());
    let none = format!("since={later}&until={}", NOW + Span::from_hours(2));
    assert_eq!(found(&house, &none).await, [Value::Null; 0]);
}

#[tokio::test] // REQ AU-1
async fn records_are_found_by_campaign_and_by_the_messages_of_it() {
    let (house, ..) = furnished().await;
    let wish = json!({"name": "may", "channel": "mail", "template": "greeting"});
    let made = house.post("/v1/campaigns", &wish).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let told = event::test("x", NOW);
    let event = event::delivery(&Tenant::default(), "x", &told);
    let (channel, campaign) = ("mail".parse().unwrap(), Some(id.parse().unwrap()));
    let draft = Draft { queue: QueueName { channel, campaign, ..event.queue.clone() }, ..event };
    house.store.accept(vec![draft]).await.unwrap().pop().unwrap().unwrap();
    let of_campaign = found(&house, &format!("campaign={id}")).await;
    assert_eq!(each(&of_campaign, "event"), ["accepted", "campaign_created"]);
    assert_eq!(found(&house, &format!("campaign=cmp_{}", "0".repeat(32))).await, [Value::Null; 0]);
}

/// More messages of others than a page looks at.
async fn crowd(house: &House) {
    for _ in 0..55 {
        let many: Vec<Value> = (0..200).map(|_| crate::house::message(&json!({}))).collect();
        let reply = house.post("/v1/messages/batch", &Value::Array(many)).await;
        assert!(reply.status.is_success(), "{}", reply.text);
    }
}

#[tokio::test] // REQ AU-1
async fn the_first_page_of_a_message_has_its_records_however_many_others_there_are() {
    let house = House::new().await;
    let letter = dead(&house, &json!({"reference": "CLM-1-1"}), "no canary lives here").await;
    crowd(&house).await;
    let edit = json!({"to": "https://crm.example/new-canary", "version": 1, "note": "put right"});
    let path = format!("/v1/dead-letters/{letter}");
    let reply = house.call_as("operator", "PATCH", &path, edit.to_string()).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    crowd(&house).await;

    let (all, next) = page(&house, &format!("message={letter}")).await;
    assert_eq!((each(&all, "event"), next), (vec!["edited", "failed", "claimed", "accepted"], None));
    for limit in [1, 2, 3, 4] {
        assert_eq!(found(&house, &format!("message={letter}&limit={limit}")).await, all, "{limit}");
    }
    let (some, next) = page(&house, &format!("message={letter}&limit=2")).await;
    assert_eq!(some, all[..2]);
    let (rest, end) = page(&house, &format!("message={letter}&limit=2&cursor={}", next.unwrap())).await;
    assert_eq!((rest.as_slice(), end), (&all[2..], None));

    // With other filters it is the same message.
    for (filters, expected) in [
        ("event=failed,edited", &["edited", "failed"][..]),
        ("actor=operator", &["edited"]),
        ("claim=CLM-1-1&event=claimed", &["claimed"]),
        ("claim=CLM-9-9", &[]),
        ("channel=crm", &["edited", "failed", "claimed", "accepted"]),
        ("channel=null", &[]),
        ("since=2100-01-01T00:00:00Z", &[]),
    ] {
        let (some, next) = page(&house, &format!("message={letter}&{filters}")).await;
        assert_eq!((each(&some, "event"), next), (expected.to_vec(), None), "{filters}");
    }
    let foreign = house.call_as("foreign", "GET", &format!("/v1/audit?message={letter}"), "").await;
    assert_eq!(foreign.json()["items"], json!([]), "{}", foreign.text);
}

#[tokio::test]
async fn a_page_looks_at_a_bounded_number_of_records_and_goes_on_where_it_stopped() {
    let house = House::new().await;
    let first = house.created(&json!({"reference": "first"})).await;
    crowd(&house).await;
    let (records, cursor) = page(&house, "actor=nobody").await;
    assert_eq!(records, [Value::Null; 0]);
    let (records, end) = page(&house, &format!("actor=nobody&cursor={}", cursor.unwrap())).await;
    assert_eq!((records, end), (Vec::new(), None));
    assert_eq!(each(&found(&house, &format!("message={first}")).await, "message"), [first.as_str()]);
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_told_by_field() {
    let house = House::new().await;
    for (query, field) in [
        ("message=x", "message"),
        ("event=message.flown", "event"),
        ("event=faild", "event"),
        ("since=yesterday", "since"),
        ("channel=A%20B", "channel"),
        ("colour=red", "colour"),
        ("limit=0", "limit"),
    ] {
        house.get(&format!("/v1/audit?{query}")).await.refused("INVALID_FIELD", field);
    }
    house.get("/v1/audit/export?format=xlsx").await.refused("INVALID_FIELD", "format");
    house.get("/v1/audit/verify?until=x").await.refused("INVALID_FIELD", "until");
    for path in ["/v1/audit", "/v1/audit/verify", "/v1/audit/anchors"] {
        let reply = house.get(&format!("{path}?cursor=before_0000000000000001")).await;
        assert_eq!(reply.code(), "INVALID_CURSOR", "{path}");
    }
}

#[tokio::test] // REQ AU-1
async fn no_door_changes_a_record() {
    let (house, ..) = furnished().await;
    let before = found(&house, "").await;
    for path in ["/v1/audit", "/v1/audit/export", "/v1/audit/verify", "/v1/audit/anchors", "/v1/audit/0"] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let reply = house.call(method, path, "{}").await;
            assert!(["METHOD_NOT_ALLOWED", "NOT_FOUND"].contains(&reply.code().as_str()), "{method} {path}");
        }
    }
    assert_eq!(found(&house, "").await, before);
}

async fn exported(house: &House, who: &str, query: &str) -> Reply {
    let reply = house.call_as(who, "GET", &format!("/v1/audit/export?{query}"), "").await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply
}

#[tokio::test] // REQ AU-1
async fn an_export_is_in_order_has_its_place_in_the_chain_and_is_itself_recorded() {
    let (house, letter, _) = furnished().await;
    let mut listed = found(&house, "").await;
    listed.reverse();
    let reply = exported(&house, "admin", "").await;
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(reply.header("content-disposition"), Some("attachment; filename=\"audit.ndjson\""));
    let lines = reply.lines();
    assert_eq!(positions(&lines), positions(&listed));
    let blocks = house.store.chain(0, usize::MAX).await.unwrap();
    for (line, listed) in lines.iter().zip(&listed) {
        let position = line["position"].as_u64().unwrap();
        let block = blocks.iter().rfind(|block| block.position <= position).unwrap();
        assert_eq!(
            (line["block"].as_u64(), line["hash"].as_str()),
            (Some(block.sequence), Some(&*Hex(block.hash).to_string()))
        );
        let mut plain = line.clone();
        for linked in ["block", "hash"] {
            plain.as_object_mut().unwrap().remove(linked);
        }
        assert_eq!(plain, *listed);
    }
    let (records, _) = page(&house, "limit=1").await;
    assert_eq!((&records[0]["event"], &records[0]["type"]), (&json!("exported"), &json!("data.exported")));
    assert_eq!(records[0]["actor"], "admin (key_admin)");
    assert_eq!(records[0]["detail"], json!({"what": "audit", "format": "ndjson", "filters": {}}));

    let later = NOW + Span::from_hours(1);
    let query = format!("message={letter}&since={later}&format=csv&actor=operator");
    let csv = exported(&house, "viewer", &query).await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let lines: Vec<&str> = csv.text.split("\r\n").collect();
    assert_eq!(lines[0], "position,at,event,type,message,from,to,channel,actor,detail");
    assert_eq!((lines.len(), lines[2]), (3, ""), "{}", csv.text);
    assert!(
        lines[1]
            .contains(&format!(",edited,message.edited,{letter},failed,failed,crm,operator (key_operator),"))
    );
    assert!(lines[1].ends_with(r#"{""reason"":""put right"",""version"":2}""#), "{}", lines[1]);
    let (records, _) = page(&house, "limit=1").await;
    let filters = json!({"message": letter, "since": later, "actor": "operator"});
    assert_eq!(records[0]["detail"], json!({"what": "audit", "format": "csv", "filters": filters}));
    assert_eq!(exported(&house, "admin", "claim=CLM-9-9").await.text, "");
}

#[tokio::test] // REQ SE-1
async fn whoever_exports_gets_what_the_key_may_see() {
    let (house, ..) = furnished().await;
    let foreign = exported(&house, "foreign", "").await;
    assert_eq!(foreign.lines(), [Value::Null; 0], "{}", foreign.text);
    let viewer = exported(&house, "viewer", "").await.lines();
    assert!(!viewer.is_empty() && each(&viewer, "type").iter().all(|kind| !kind.starts_with("key.")));
}

#[tokio::test] // promise 16
async fn nothing_personal_stands_in_the_audit_or_comes_out_of_it() {
    let (house, ..) = furnished().await;
    // Somebody types a number where an id is asked for.
    exported(&house, "admin", "claim=%2B5511987654321&format=csv").await;
    for text in [house.get("/v1/audit?limit=500").await.text, exported(&house, "admin", "").await.text] {
        assert!(!text.contains("canary") && !text.contains("987654321"), "{text}");
    }
}

#[tokio::test] // REQ AU-1
async fn the_chain_is_verified_piece_by_piece_and_stops_where_it_is_told_to() {
    let (house, ..) = furnished().await;
    let verified = house.store.verify().await.unwrap();
    let first = house.get("/v1/audit/verify?until=2").await.json();
    assert_eq!((first["blocks"].as_u64(), &first["broken"]), (Some(2), &Value::Null));
    assert_eq!(first["hash"], Hex(house.store.chain(1, 1).await.unwrap()[0].hash).to_string());
    let mut told = first;
    while let Some(cursor) = told["next_cursor"].as_str().map(str::to_owned) {
        told = house.get(&format!("/v1/audit/verify?cursor={cursor}")).await.json();
    }
    assert_eq!(told["blocks"], verified.blocks);
    assert_eq!((&told["records"], &told["of"]), (&json!(verified.records), &json!(verified.records)));
    // A chain that should have come from elsewhere does not hold.
    let forged = format!("tip_{:016x}{:016x}{}", 1, 1, "ab".repeat(32));
    let told = house.get(&format!("/v1/audit/verify?cursor={forged}")).await.json();
    assert_eq!((&told["broken"]["block"], &told["next_cursor"]), (&json!(1), &Value::Null), "{told}");
}

#[tokio::test] // REQ AU-1
async fn signed_ends_are_listed_newest_first_and_told_to_everybody() {
    let house = House::new().await;
    for number in 1..=5u64 {
        let anchor = Anchor {
            sequence: number * 10,
            position: number * 100,
            hash: Hex([1; 32]),
            at: NOW + Span::from_hours(number),
            key: Hex([2; 32]),
            signature: Hex([3; 64]),
        };
        house.store.shelve(vec![anchor.put(number, &Actor::engine())]).await.unwrap();
    }
    // What is noted beside them is no anchor.
    let broken = pombo_store::audit::Break { block: 3, what: "it is missing" };
    house.store.shelve(vec![pombo_store::anchor::note(Some(&broken), Time::default())]).await.unwrap();
    assert_eq!(
        pombo_store::anchor::broken(&*house.store).await.unwrap().as_deref(),
        Some("audit block 3: it is missing")
    );
    let mut numbers = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = house.get(&format!("/v1/audit/anchors?limit=2&cursor={cursor}")).await.json();
        numbers.extend(page["items"].as_array().unwrap().iter().map(|it| it["number"].as_u64().unwrap()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    let told = house.call_as("foreign", "GET", "/v1/audit?event=audit.anchored&limit=1", "").await.json();
    assert_eq!(told["items"][0]["detail"]["signature"], "03".repeat(64));
    assert_eq!(told["items"][0]["detail"]["position"], 500);
}

#[tokio::test] // REQ SE-1, AU-1
async fn a_key_finds_the_records_of_its_tenant_and_channels_and_no_others() {
    let house = House::new().await;
    for (name, channel) in [("of-crm", "crm"), ("of-null", "null")] {
        let channels = Some(vec![channel.parse().unwrap()]);
        house.add_key("default", &KeyDoc { channels, ..key(name, "operator") }).await;
    }
    for channel in ["crm", "null"] {
        house.created(&json!({"channel": channel, "to": CANARY})).await;
    }
    house.put_template("greeting", &json!({"subject": "hi", "text": "hi"})).await;
    let theirs = json!({"channel": "theirs", "to": "https://their.example/", "content": {"body": {}}});
    let sent = house.call_as("foreign", "POST", "/v1/messages", theirs.to_string()).await;
    assert_eq!(sent.status, StatusCode::ACCEPTED, "{}", sent.text);
    let records = |who: &'static str, path: &'static str| {
        let house = &house;
        async move {
            let reply = house.call_as(who, "GET", path, "").await;
            assert_eq!(reply.status, StatusCode::OK, "{who} {path}: {}", reply.text);
            match path.contains("export") {
                true => {
                    reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
                }
                false => reply.json()["items"].as_array().unwrap().clone(),
            }
        }
    };
    for path in ["/v1/audit?limit=500", "/v1/audit/export?format=ndjson"] {
        for (who, channel) in [("of-crm", "crm"), ("of-null", "null"), ("foreign", "theirs")] {
            let found = records(who, path).await;
            assert!(found.iter().any(|it| it["channel"] == channel), "{who} {path}: {found:?}");
            let strange = found.iter().find(|it| {
                let other = it["channel"].as_str().is_some_and(|name| !name.is_empty() && name != channel);
                other || who != "foreign" && it["channel"] != channel
            });
            assert_eq!(strange, None, "{who} {path}");
        }
        let own = records("operator", path).await;
        assert!(own.iter().all(|it| it["channel"] != "theirs"), "{path}");
        assert!(own.iter().any(|it| it["event"] == "template_put"), "{path}");
        let foreign = records("foreign", path).await;
        assert!(foreign.iter().all(|it| it["event"] != "template_put"), "{path}: {foreign:?}");
    }
}
