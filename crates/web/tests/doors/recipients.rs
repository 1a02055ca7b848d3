//! Lists of recipients: bad lines are told and kept, nobody is listed twice, and a report says what became of everybody.

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::Span;
use pombo_store::audit::Event;
use pombo_store::roster::{Feed, Serving};
use pombo_store::{Store, StoreError};
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use crate::campaigns::{claimed, fed, settled};
use crate::dead::bury;
use crate::house::{House, Reply, key, request};

/// A draft of a campaign whose template says hello by name.
async fn campaign(house: &House, channel: &str) -> String {
    house.put_template("hello", &json!({"subject": "Hello", "text": "Hello {{ name }}"})).await;
    let wish = json!({"name": "c", "channel": channel, "template": "hello"});
    let reply = house.post("/v1/campaigns", &wish).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    reply.json()["id"].as_str().unwrap().to_owned()
}

async fn list(house: &House, id: &str, kind: &str, query: &str, body: impl Into<Body>) -> Reply {
    let call = request("POST", &format!("/v1/campaigns/{id}/recipients{query}"))
        .header("authorization", "Bearer key-operator")
        .header("content-type", kind);
    house.send(call.body(body.into()).unwrap()).await
}

fn counts(told: &Value) -> [u64; 3] {
    ["added", "duplicates", "invalid"].map(|name| told[name].as_u64().unwrap())
}

async fn items(house: &House, id: &str, query: &str) -> Vec<Value> {
    let reply = house.get(&format!("/v1/campaigns/{id}/recipients{query}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()["items"].as_array().unwrap().clone()
}

#[tokio::test] // REQ BK-7
async fn a_list_is_taken_line_by_line_and_its_bad_lines_are_told_and_kept() {
    let house = House::new().await;
    let id = campaign(&house, "mail").await;
    let csv = "E-mail;name;city\r\nAna@Clinica.Example;Ana;\"Santos, SP\"\r\n\r\nnobody;Bia;\r\n\
               ana@clinica.example;Ana again;\r\ncaio@clinica.example;;\r\nduda@clinica.example;Duda\r\n\
               eva@clinica.example;Eva;Rio\r\n";
    let reply = list(&house, &id, "text/csv; charset=utf-8", "", csv).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let told = reply.json();
    assert_eq!(counts(&told), [2, 1, 3], "{told}");
    let problems = told["problems"].as_array().unwrap();
    let lines: Vec<u64> = problems.iter().map(|it| it["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [4, 6, 7]);
    assert_eq!(
        (&problems[0]["to"], &problems[0]["reason"]),
        (&json!("nobody"), &json!("not an e-mail address: there is no @ in it"))
    );
    assert!(problems[1]["reason"].as_str().unwrap().contains("`name` has no value"), "{told}");
    let roll = &told["campaign"]["counts"];
    assert_eq!(
        (&roll["recipients"], &roll["pending"], &roll["duplicates"], &roll["invalid"]),
        (&json!(2), &json!(2), &json!(1), &json!(3))
    );
    let kept = items(&house, &id, "").await;
    assert_eq!(kept.len(), 5, "whoever repeats somebody is not on the list");
    assert_eq!(
        kept[0],
        json!({
            "number": 1, "line": 2, "to": "Ana@clinica.example", "state": "pending", "reason": null, "message_id": null,
            "variables": {"name": "Ana", "city": "Santos, SP"}, "last_error": null, "sent_at": null, "suppressed": null,
            "attempts": null, "delivery": null,
        })
    );
    assert_eq!((&kept[1]["state"], &kept[1]["to"]), (&json!("invalid"), &json!("nobody")));
    assert_eq!(kept[1]["reason"], problems[0]["reason"]);
    // Once more: nobody is listed twice.
    assert_eq!(counts(&list(&house, &id, "text/csv", "", csv).await.json())[..2], [0, 3]);
}

#[tokio::test] // REQ BK-7
async fn json_and_lines_of_json_are_lists_too() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let people = json!([{"to": "a", "name": "A"}, {"to": "b", "variables": {"name": "B"}}, {"to": "a", "name": "C"}, "c"]);
    let told = list(&house, &id, "application/json", "", people.to_string()).await.json();
    assert_eq!(counts(&told), [2, 1, 1]);
    assert_eq!(told["problems"][0]["line"], 4);
    let told =
        list(&house, &id, "application/json", "", json!({"recipients": people}).to_string()).await.json();
    assert_eq!(counts(&told), [0, 3, 1]);
    let lines = "{\"who\": \"d\", \"name\": \"D\"}\n{\n{\"who\": \"e\", \"name\": \"E\"}";
    let told = list(&house, &id, "application/x-ndjson", "?to=who", lines).await.json();
    assert_eq!((counts(&told), &told["problems"][0]["line"]), ([2, 0, 1], &json!(2)));
}

#[tokio::test] // REQ BK-7
async fn a_list_in_latin_1_is_read_whether_it_says_so_or_not() {
    let house = House::new().await;
    for (kind, query) in [
        ("text/csv", ""),
        ("text/csv; charset=ISO-8859-1", ""),
        ("text/csv", "?encoding=latin1&delimiter=;&to=to"),
    ] {
        let id = campaign(&house, "null").await;
        let told = list(&house, &id, kind, query, b"to;name\na;Jos\xe9\n".to_vec()).await;
        assert_eq!(counts(&told.json()), [1, 0, 0], "{}", told.text);
        assert_eq!(items(&house, &id, "").await[0]["variables"]["name"], "José");
    }
}

#[tokio::test] // REQ BK-7
async fn a_list_that_is_refused_leaves_nothing_behind() {
    let house = House::new().await;
    let id = campaign(&house, "mail").await;
    let many: String = (0..3_000).map(|n| format!("{n};a{n}@x.example\n")).collect();
    for (kind, body, says) in [
        ("text/csv", "ana@x.example;Ana\nbia@x.example;Bia\n".to_owned(), "looks like data"),
        ("text/csv", format!("number;address\n{many}"), "no column is known to hold e-mail addresses"),
        ("text/csv", format!("code;email\n{many}"), "`name` is not in the payload"),
        ("text/csv", "email;name\n".to_owned(), "nobody on the list"),
        ("text/csv", String::new(), "nobody on the list"),
        ("application/json", "[]".to_owned(), "nobody on the list"),
        ("application/json", "{\"to\": \"a\"}".to_owned(), "without a list of `recipients`"),
        (
            "application/json",
            "[{\"to\": \"a@x.example\", \"name\": \"A\"} {}]".to_owned(),
            "a comma is missing",
        ),
        ("text/csv", "\u{feff}".to_owned(), "nobody on the list"),
    ] {
        let reply = list(&house, &id, kind, "", body).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{says}: {}", reply.text);
        let about = reply.refused("INVALID_FIELD", "body");
        assert!(about["reason"].as_str().unwrap().contains(says), "{says}: {about}");
        assert!(!reply.text.contains("stored"), "{}", reply.text);
    }
    assert!(items(&house, &id, "").await.is_empty());
    let records = house.store.audit(0, 100).await.unwrap();
    assert!(records.iter().all(|(_, record)| record.event != Event::RecipientsListed));
    let counts = &house.get(&format!("/v1/campaigns/{id}")).await.json()["counts"];
    assert_eq!((&counts["invalid"], &counts["recipients"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn what_is_no_list_is_refused_before_it_is_read() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    for kind in ["application/pdf", "text/csv; charset=utf-16", "application/vnd.ms-excel"] {
        assert_eq!(list(&house, &id, kind, "", "to\na\n").await.code(), "UNSUPPORTED_MEDIA_TYPE", "{kind}");
    }
    let reply = list(&house, &id, "text/csv", "?delimiter=x&encoding=klingon&colour=1", "to\na\n").await;
    for field in ["delimiter", "encoding", "colour"] {
        reply.refused("INVALID_FIELD", field);
    }
    assert_eq!(list(&house, "cmp_none", "text/csv", "", "to\na\n").await.code(), "NOT_FOUND");
    house.get(&format!("/v1/campaigns/{id}/recipients?state=odd")).await.refused("INVALID_FIELD", "state");
    house.get(&format!("/v1/campaigns/{id}/recipients?format=xls")).await.refused("INVALID_FIELD", "format");
    house.door.close();
    assert_eq!(list(&house, &id, "text/csv", "", "to\na\n").await.code(), "SHUTTING_DOWN");
}

#[tokio::test] // REQ BK-7
async fn a_campaign_that_runs_takes_nobody_more_until_it_is_paused() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let one = |to: &str| json!([{"to": to, "name": "N"}]).to_string();
    assert_eq!(list(&house, &id, "application/json", "", one("a")).await.status, StatusCode::OK);
    assert_eq!(house.post(&format!("/v1/campaigns/{id}/start"), &json!({})).await.status, StatusCode::OK);
    let reply = list(&house, &id, "application/json", "", one("b")).await;
    assert_eq!((reply.code().as_str(), &reply.json()["state"]), ("CAMPAIGN_STATE", &json!("running")));
    assert_eq!(house.post(&format!("/v1/campaigns/{id}/pause"), &json!({})).await.status, StatusCode::OK);
    let told = list(&house, &id, "application/json", "", one("b")).await.json();
    assert_eq!(counts(&told), [1, 0, 0]);
}

#[tokio::test] // REQ BK-7
async fn the_same_list_again_changes_nothing_and_tells_what_is_wrong_with_it_again() {
    let house = House::new().await;
    let id = campaign(&house, "mail").await;
    let csv =
        "E-mail;name\r\nana@clinica.example;Ana\r\nnobody;Bia\r\nnobody;Bia\r\ncaio@clinica.example;Caio\r\n";
    let first = list(&house, &id, "text/csv", "", csv).await.json();
    assert_eq!(counts(&first), [2, 0, 2], "{first}");
    let kept = items(&house, &id, "").await;
    let again = list(&house, &id, "text/csv", "", csv).await.json();
    assert_eq!(counts(&again), [0, 2, 2], "{again}");
    assert_eq!(again["problems"], first["problems"]);
    assert_eq!(again["campaign"]["counts"]["invalid"], 2);
    assert_eq!(items(&house, &id, "").await, kept);
}

#[tokio::test] // REQ BK-7
async fn a_list_that_breaks_off_keeps_what_was_stored_and_can_be_sent_again() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let line = |n: u32| format!("{n};N\n");
    let lines: String = ["to;name\n".to_owned()].into_iter().chain((0..2_500).map(line)).collect();
    let cut = Bytes::from(lines.clone()).slice(..lines.len() / 2);
    let pieces = stream::iter([Ok(cut), Err(std::io::Error::other("gone"))]);
    let reply = list(&house, &id, "text/csv", "", Body::from_stream(pieces)).await;
    let problem = reply.json();
    assert!(problem["detail"].as_str().unwrap().contains("the lines before it are stored: "), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("not added twice"), "{problem}");
    let counted =
        house.get(&format!("/v1/campaigns/{id}")).await.json()["counts"]["recipients"].as_u64().unwrap();
    assert_eq!(counted, 1_000, "whole groups");
    let told = list(&house, &id, "text/csv", "", lines).await.json();
    assert_eq!(counts(&told), [2_500 - counted, counted, 0]);
    assert_eq!(told["campaign"]["counts"]["recipients"], 2_500);
}

#[tokio::test]
async fn a_store_that_is_overloaded_slows_a_list_down_and_one_that_is_gone_ends_it() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let people: Vec<_> = (0..3).map(|n| json!({"to": format!("p{n}"), "name": "N"}).to_string()).collect();
    // What is looked up first is answered; the store is in that mood when the list has come in.
    let (door, waits) = (house.store.clone(), people[1..].join("\n"));
    let first = Bytes::from(format!("{}\n", people[0]));
    let moods = [StoreError::Overloaded, StoreError::Unavailable("full".into())];
    for (mood, code) in moods.into_iter().zip(["", "STORE_UNAVAILABLE"]) {
        let (door, waits, first) = (door.clone(), waits.clone(), first.clone());
        let pieces = stream::iter([Ok::<_, std::io::Error>(first)]).chain(stream::once(async move {
            door.feel_for(Some(mood), 2);
            Ok(Bytes::from(waits))
        }));
        let reply = list(&house, &id, "application/x-ndjson", "", Body::from_stream(pieces)).await;
        house.store.feel(None);
        match code {
            "" => assert_eq!(counts(&reply.json()), [3, 0, 0], "{}", reply.text),
            code => assert_eq!(reply.code(), code),
        }
    }
}

#[tokio::test] // REQ SE-1
async fn a_key_that_is_for_other_channels_meanwhile_ends_a_list() {
    let house = House::new().await;
    let channels = Some(vec!["null".parse().unwrap()]);
    house.add_key("default", &KeyDoc { channels, ..key("shop", "operator") }).await;
    let id = campaign(&house, "null").await;
    let (reading, begun) = tokio::sync::oneshot::channel();
    let (narrow, narrowed) = tokio::sync::oneshot::channel();
    let pieces = stream::once(async move {
        reading.send(()).unwrap();
        narrowed.await.unwrap();
        Ok::<_, std::io::Error>(Bytes::from("{\"to\": \"a\", \"name\": \"A\"}\n"))
    });
    let call = request("POST", &format!("/v1/campaigns/{id}/recipients"))
        .header("authorization", "Bearer key-shop")
        .header("content-type", "application/x-ndjson")
        .body(Body::from_stream(pieces))
        .unwrap();
    let narrowing = async {
        begun.await.unwrap();
        let done = house.call("PATCH", "/v1/keys/key_shop", r#"{"channels": ["crm"]}"#).await;
        assert_eq!(done.status, StatusCode::OK, "{}", done.text);
        narrow.send(()).unwrap();
    };
    let (reply, ()) = tokio::join!(house.send(call), narrowing);
    assert_eq!(reply.code(), "FORBIDDEN", "{}", reply.text);
    assert!(items(&house, &id, "").await.is_empty());
}

#[tokio::test] // REQ BK-7
async fn recipients_come_in_pages_and_by_state() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let lines: String = (0..250)
        .map(|n| {
            format!(
                "{}\n",
                json!({"to": format!("p{n}"), "name": if n % 5 == 0 { Value::Null } else { json!("N") }})
            )
        })
        .collect();
    assert_eq!(counts(&list(&house, &id, "application/x-ndjson", "", lines).await.json()), [200, 0, 50]);
    let path = format!("/v1/campaigns/{id}/recipients");
    for (query, wanted) in [("", 250), ("&state=pending", 200), ("&state=invalid", 50), ("&state=sent", 0)] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = house.get(&format!("{path}?limit=60{query}{cursor}")).await.json();
            seen.extend(page["items"].as_array().unwrap().iter().map(|it| it["number"].as_u64().unwrap()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert!(seen.is_sorted() && seen.len() == wanted, "{query}: {seen:?}");
    }
    let other = campaign(&house, "null").await;
    let next = house.get(&format!("{path}?limit=1")).await.json()["next_cursor"].as_str().unwrap().to_owned();
    let stray = house.get(&format!("/v1/campaigns/{other}/recipients?cursor={next}")).await;
    assert_eq!(stray.code(), "INVALID_CURSOR");
}

#[tokio::test] // REQ BK-7
async fn a_report_says_who_was_reached_who_was_not_and_why() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let people = json!([
        {"to": "=1+1", "name": "A"}, {"to": "+5511987654321", "name": "B"}, {"to": "gone", "name": "C"}, {"to": "d"},
        {"to": "e", "name": "E"}
    ]);
    assert_eq!(
        counts(&list(&house, &id, "application/json", "", people.to_string()).await.json()),
        [4, 0, 1]
    );
    house.post(&format!("/v1/campaigns/{id}/start"), &json!({})).await;
    let servings = vec![(3, Serving::Suppressed("opt_out".into()))];
    let suppressed = Feed { tenant: Tenant::default(), campaign: id.parse().unwrap(), servings };
    house.store.feed(suppressed).await.unwrap().unwrap();
    fed(&house, &id).await;
    let first = claimed(&house).await;
    settled(&house, first, Next::Sent(Receipt::default())).await;
    house.clock.pass(Span::from_secs(30));
    assert_eq!(bury(&house, "@no such \"line\", says the provider").await, 1);
    let made = items(&house, &id, "").await;
    let [sent, failed, queued] = [0, 1, 4].map(|place: usize| made[place]["message_id"].as_str().unwrap());
    let path = format!("/v1/campaigns/{id}/recipients");
    let report = house.get(&format!("{path}?format=csv")).await;
    assert_eq!(report.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(report.header("content-disposition"), Some("attachment; filename=\"recipients.csv\""));
    let wanted = format!(
        "number,line,to,state,reason,attempts,sent_at,delivery,message_id,provider_text\r\n\
         1,1,'=1+1,sent,,1,2027-01-15T08:00:00.000Z,,{sent},\r\n\
         2,2,+5511987654321,failed,the recipient's server refuses the message,1,,,{failed},\"'@no such \"\"line\"\", says the provider\"\r\n\
         3,3,gone,suppressed,on the suppression list (opt_out),,,,,\r\n\
         4,4,d,invalid,\"the template cannot be filled: text, line 1: `name` is not in the payload\",,,,,\r\n\
         5,5,e,queued,,0,,,{queued},\r\n"
    );
    assert_eq!(report.text, wanted);
    let accept = request("GET", &format!("{path}?state=sent"))
        .header("authorization", "Bearer key-viewer")
        .header("accept", "text/csv, */*;q=0.1");
    let by_header = house.send(accept.body(Body::empty()).unwrap()).await;
    assert_eq!(by_header.text.lines().count(), 2, "{}", by_header.text);
    let kept = items(&house, &id, "?state=failed").await;
    assert_eq!((kept.len(), &kept[0]["last_error"]["category"]), (1, &json!("rejected")));
    assert_eq!(kept[0]["reason"], "the recipient's server refuses the message");
    let kept = items(&house, &id, "?state=sent").await;
    assert_eq!(kept[0]["sent_at"], "2027-01-15T08:00:00.000Z");
}

#[tokio::test] // REQ BK-4, BK-7
async fn a_report_counts_all_rounds_and_says_whom_no_retry_would_write_to() {
    let house = House::new().await;
    let id = campaign(&house, "mail").await;
    let people = json!([{"to": "ana@x.example", "name": "A"}]);
    list(&house, &id, "application/json", "", people.to_string()).await;
    house.post(&format!("/v1/campaigns/{id}/start"), &json!({})).await;
    fed(&house, &id).await;
    for round in 1..=3 {
        assert_eq!(bury(&house, "550 no").await, 1);
        let ana = &items(&house, &id, "").await[0];
        assert_eq!((&ana["attempts"], &ana["suppressed"]), (&json!(round), &Value::Null), "{ana}");
        if round < 3 {
            let wish = json!({"ids": [ana["message_id"]]});
            assert_eq!(house.post("/v1/dead-letters/reprocess", &wish).await.json()["done"], 1);
            house.clock.pass(Span::from_secs(60));
        }
    }
    house.post("/v1/suppressions", &json!({"kind": "email", "recipient": "ANA@x.example"})).await;
    assert_eq!(items(&house, &id, "").await[0]["suppressed"], "manual");
    let report = house.get(&format!("/v1/campaigns/{id}/recipients?format=csv")).await.text;
    assert!(report.contains(",failed,the recipient's server refuses the message,3,,,"), "{report}");
}

#[tokio::test] // REQ BK-7
async fn whoever_had_no_message_when_a_campaign_was_cancelled_is_shown_as_cancelled() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let people = json!([{"to": "a", "name": "A"}, {"to": "b", "name": "B"}, {"to": "c"}]);
    list(&house, &id, "application/json", "", people.to_string()).await;
    assert_eq!(items(&house, &id, "?state=pending").await.len(), 2);
    let reply = house.post(&format!("/v1/campaigns/{id}/cancel"), &json!({})).await;
    assert_eq!(reply.json()["state"], "cancelled", "{}", reply.text);
    let states = |items: Vec<Value>| {
        items.iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(items(&house, &id, "").await), ["cancelled", "cancelled", "invalid"]);
    assert_eq!(states(items(&house, &id, "?state=cancelled").await), ["cancelled", "cancelled"]);
    assert!(items(&house, &id, "?state=pending").await.is_empty());
    let report = house.get(&format!("/v1/campaigns/{id}/recipients?format=csv&state=cancelled")).await;
    assert!(report.text.contains("\r\n1,1,a,cancelled,,,,,,\r\n"), "{}", report.text);
}

#[tokio::test] // REQ BK-7
async fn a_report_that_breaks_off_does_not_look_whole() {
    let house = House::new().await;
    let id = campaign(&house, "null").await;
    let lines: String =
        (0..1_200).map(|n| format!("{}\n", json!({"to": format!("p{n}"), "name": "N"}))).collect();
    list(&house, &id, "application/x-ndjson", "", lines).await;
    let path = format!("/v1/campaigns/{id}/recipients?format=csv");
    assert_eq!(house.get(&path).await.text.lines().count(), 1_201);
    let call =
        request("GET", &path).header("authorization", "Bearer key-viewer").body(Body::empty()).unwrap();
    let service = hyper_util::service::TowerToHyperService::new(house.router.clone());
    let mut body =
        hyper::service::Service::call(&service, call).await.unwrap().into_body().into_data_stream();
    assert!(body.next().await.unwrap().is_ok());
    house.store.feel(Some(StoreError::Unavailable("gone".into())));
    let rest: Vec<_> = body.collect().await;
    assert!(rest.last().unwrap().is_err());
}

#[tokio::test] // REQ BK-7
async fn lists_are_seen_by_those_who_may_see_their_channel_and_their_tenant() {
    let house = House::new().await;
    let bound = |label: &str, channel: &str| KeyDoc {
        channels: Some(vec![channel.parse().unwrap()]),
        ..key(label, "operator")
    };
    house.add_key("default", &bound("bound", "null")).await;
    house.add_key("default", &bound("elsewhere", "crm")).await;
    let id = campaign(&house, "null").await;
    let path = format!("/v1/campaigns/{id}/recipients");
    let one = json!([{"to": "a", "name": "A"}]).to_string();
    for (who, adds, looks) in [
        ("viewer", StatusCode::FORBIDDEN, StatusCode::OK),
        ("producer", StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        ("operator", StatusCode::OK, StatusCode::OK),
        ("bound", StatusCode::OK, StatusCode::OK),
        ("elsewhere", StatusCode::NOT_FOUND, StatusCode::NOT_FOUND),
        ("foreign", StatusCode::NOT_FOUND, StatusCode::NOT_FOUND),
    ] {
        assert_eq!(house.call_as(who, "POST", &path, one.clone()).await.status, adds, "{who}");
        for path in [&path, &format!("{path}?format=csv")] {
            assert_eq!(house.call_as(who, "GET", path, "").await.status, looks, "{who} {path}");
        }
    }
}

#[tokio::test]
async fn nothing_of_a_person_stands_in_the_audit_of_a_list() {
    let house = House::new().await;
    let id = campaign(&house, "mail").await;
    let people = json!([{"to": "canary@x.example", "name": "canary"}, {"to": "canary", "name": "N"}]);
    assert_eq!(
        counts(&list(&house, &id, "application/json", "", people.to_string()).await.json()),
        [1, 0, 1]
    );
    let records = house.store.audit(0, 100).await.unwrap();
    assert!(records.iter().any(|(_, record)| record.event == Event::RecipientsListed));
    for (_, record) in records {
        assert!(!format!("{record:?}").contains("canary"), "{record:?}");
    }
}

#[tokio::test] // REQ BK-7
async fn columns_are_called_as_the_request_says_and_what_is_left_out_is_not_kept() {
    let house = House::new().await;
    let id = campaign(&house, "mail").await;
    let csv = "Cliente;Contato;Obs;\nAna;ana@clinica.example;secret;\n";
    let columns = |names: Value| {
        let plain = names.to_string();
        let escaped: String = plain.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("?columns={escaped}")
    };
    for (names, words) in [
        (json!(["name", "to"]), "there are 4 columns, and 2 were named"),
        (json!(["to", "to", null, null]), "the addresses could be in any of"),
        (json!([1]), "is not a list of names"),
    ] {
        let reply = list(&house, &id, "text/csv", &columns(names), csv).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(reply.text.contains(words), "{words}: {}", reply.text);
    }
    let told = list(&house, &id, "text/csv", &columns(json!(["name", "to", null, null])), csv).await.json();
    assert_eq!(counts(&told), [1, 0, 0], "{told}");
    assert_eq!(items(&house, &id, "").await[0]["variables"], json!({"name": "Ana"}));
}
