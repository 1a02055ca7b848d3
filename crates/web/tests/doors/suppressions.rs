//! Suppressions: one entry a person, found however the address is written, and nobody guessed from the audit.

use axum::body::Body;
use http::StatusCode;
use pombo_store::Store;
use serde_json::{Value, json};

use crate::house::{House, Reply, request};

async fn import(house: &House, kind: &str, query: &str, body: impl Into<Body>) -> Reply {
    let call = request("POST", &format!("/v1/suppressions/import{query}"))
        .header("authorization", "Bearer key-operator")
        .header("content-type", kind);
    house.send(call.body(body.into()).unwrap()).await
}

async fn listed(house: &House, query: &str) -> Vec<Value> {
    let reply = house.get(&format!("/v1/suppressions{query}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()["items"].as_array().unwrap().clone()
}

#[tokio::test] // REQ BK-8
async fn a_person_has_one_entry_however_the_address_is_written() {
    let house = House::new().await;
    let wish =
        json!({"kind": "whatsapp", "recipient": "(11) 98765-4321", "reason": "opt_out", "note": "by phone"});
    let first = house.post("/v1/suppressions", &wish).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.text);
    assert_eq!(first.json()["recipient"], "+5511987654321");
    assert!(first.json()["id"].as_str().unwrap().starts_with("sup_"));
    let again = json!({"kind": "whatsapp", "recipient": "+55 11 8765-4321", "reason": "manual"});
    let again = house.post("/v1/suppressions", &again).await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, first.json()));
    for written in ["%2B5511987654321", "11%2098765-4321", "551187654321"] {
        let found = listed(&house, &format!("?recipient={written}")).await;
        assert_eq!(found, [first.json()], "{written}");
    }
    assert!(listed(&house, "?recipient=%2B5511987654322").await.is_empty());
    assert!(listed(&house, "?recipient=%2B5511987654321&reason=complaint").await.is_empty());
    assert!(listed(&house, "?recipient=nobody").await.is_empty());
}

#[tokio::test] // REQ BK-8
async fn an_entry_can_be_taken_off_the_list_once() {
    let house = House::new().await;
    let wish = json!({"kind": "email", "recipient": "Ana <Ana@Clinica.Example>"});
    let made = house.post("/v1/suppressions", &wish).await.json();
    assert_eq!((&made["recipient"], &made["reason"]), (&json!("Ana@clinica.example"), &json!("manual")));
    let path = format!("/v1/suppressions/{}", made["id"].as_str().unwrap());
    assert_eq!(house.call("DELETE", &path, "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(house.call("DELETE", &path, "").await.code(), "NOT_FOUND");
    assert!(listed(&house, "").await.is_empty());
    assert_eq!(house.post("/v1/suppressions", &wish).await.status, StatusCode::CREATED);
}

#[tokio::test] // REQ BK-8
async fn the_audit_names_nobody() {
    let house = House::new().await;
    let wish =
        json!({"kind": "whatsapp", "recipient": "+5511987654321", "source": "canary", "note": "canary"});
    let made = house.post("/v1/suppressions", &wish).await.json();
    let path = format!("/v1/suppressions/{}", made["id"].as_str().unwrap());
    house.call("DELETE", &path, "").await;
    let records = house.store.audit(0, 100).await.unwrap();
    let of_it: Vec<_> = records.iter().filter(|(_, it)| it.detail.contains("sup_")).collect();
    assert_eq!(of_it.len(), 2);
    for (_, record) in of_it {
        assert!(record.detail.contains(made["id"].as_str().unwrap()), "{}", record.detail);
        for personal in ["5511987654321", "987654321", "canary"] {
            assert!(!format!("{record:?}").contains(personal), "{record:?}");
        }
    }
}

#[tokio::test] // REQ BK-8
async fn what_is_wrong_is_told_at_once() {
    let house = House::new().await;
    let wish = json!({"kind": "pigeon", "recipient": "", "reason": "spite", "colour": 1});
    let reply = house.post("/v1/suppressions", &wish).await;
    for field in ["kind", "recipient", "reason", "colour"] {
        reply.refused("INVALID_FIELD", field);
    }
    let odd = house
        .post("/v1/suppressions", &json!({"kind": "whatsapp", "recipient": "ana@clinica.example"}))
        .await;
    odd.refused("INVALID_FIELD", "recipient");
    house.get("/v1/suppressions?kind=pigeon").await.refused("INVALID_FIELD", "kind");
}

#[tokio::test] // REQ BK-8
async fn lists_are_filtered_and_come_in_pages() {
    let house = House::new().await;
    let lines: String = (0..700)
        .map(|n| {
            let (kind, to) = match n % 2 {
                0 => ("email", format!("a{n}@clinica.example")),
                _ => ("whatsapp", format!("+551198{n:07}")),
            };
            format!("{}\n", json!({"kind": kind, "recipient": to, "reason": "hard_bounce"}))
        })
        .collect();
    let reply = import(&house, "application/x-ndjson", "", lines).await;
    let told = reply.json();
    assert_eq!((&told["lines"], &told["added"], &told["refused"]), (&json!(700), &json!(700), &json!(0)));
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let reply = house.get(&format!("/v1/suppressions?kind=email&limit=100{cursor}")).await.json();
        for item in reply["items"].as_array().unwrap() {
            assert_eq!(item["kind"], "email");
            assert!(seen.insert(item["recipient"].as_str().unwrap().to_owned()), "{item} comes twice");
        }
        match reply["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 350);
}

#[tokio::test] // REQ BK-8
async fn a_file_is_taken_line_by_line_and_its_bad_lines_are_told() {
    let house = House::new().await;
    let long = "x".repeat(70_000);
    let csv = format!(
        "\u{feff}Recipient,Reason,Note\r\nana@clinica.example,opt_out,\"said \"\"no\"\", twice\"\r\n\r\nnobody,,\r\n\
         bia@clinica.example,spite,\r\nANA@clinica.example,,\r\n{long},,\r\na,b,c,d\r\ncai@clinica.example,,"
    );
    let reply = import(&house, "text/csv; charset=utf-8", "?kind=email&reason=complaint", csv).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let told = reply.json();
    let numbers = ["lines", "added", "known", "refused"].map(|name| told[name].as_u64().unwrap());
    assert_eq!(numbers, [7, 2, 1, 4], "{told}");
    let lines: Vec<u64> =
        told["errors"].as_array().unwrap().iter().map(|error| error["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [4, 5, 7, 8], "{told}");
    assert_eq!(told["errors"][0]["code"], "INVALID_FIELD");
    let ana = &listed(&house, "?recipient=ana@clinica.example").await[0];
    assert_eq!((&ana["reason"], &ana["note"]), (&json!("opt_out"), &json!("said \"no\", twice")));
    assert_eq!(listed(&house, "?recipient=cai@clinica.example").await[0]["reason"], "complaint");
}

#[tokio::test] // REQ BK-8
async fn a_file_is_read_as_the_list_of_a_campaign_is() {
    let many = "\u{feff}sep=;\r\nNome;Telefone;REASON;Note\r\nJo\u{e3}o;(11) 98765-4321;opt_out;\"a;\nb\"\r\n\
                Ana;;;\r\nEva;5,51199E+12;;\r\nBia;=\"11987654322\";;\r\n";
    let latin1: Vec<u8> = many[3..].chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    for (kind, body) in [("text/csv", many.as_bytes().to_vec()), ("text/csv; charset=latin1", latin1)] {
        let house = House::new().await;
        let told = import(&house, kind, "?reason=manual", body).await.json();
        assert_eq!((&told["added"], &told["refused"]), (&json!(2), &json!(2)), "{told}");
        assert_eq!(told["passed_over"], json!(["Nome"]));
        let errors = &told["errors"];
        assert_eq!((&errors[0]["line"], &errors[1]["line"]), (&json!(5), &json!(6)), "{told}");
        assert!(errors[0]["reason"].as_str().unwrap().contains("`Telefone` is empty"), "{told}");
        assert!(errors[1]["reason"].as_str().unwrap().contains("spreadsheet has rounded"), "{told}");
        let joao = &listed(&house, "?recipient=%2B5511987654321").await[0];
        assert_eq!((&joao["kind"], &joao["reason"]), (&json!("whatsapp"), &json!("opt_out")));
        assert_eq!(listed(&house, "?recipient=%2B5511987654322").await[0]["reason"], "manual");
    }
    let house = House::new().await;
    let list = r#"["ana@x.example", {"to": "11987654321"}, {"recipient": "bia@x.example", "reason": "complaint", "nome": "Bia"}, {"to": "x"}]"#;
    let told = import(&house, "application/json", "", list).await.json();
    assert_eq!((&told["added"], &told["refused"]), (&json!(3), &json!(1)), "{told}");
    assert_eq!(told["passed_over"], json!(["nome"]));
    let both = "email,telefone\nana@x.example,11987654321\n";
    for (query, kind) in [("?to=telefone", "whatsapp"), ("?kind=email", "email")] {
        let house = House::new().await;
        assert_eq!(import(&house, "text/csv", query, both).await.json()["added"], 1, "{query}");
        assert_eq!(listed(&house, "").await[0]["kind"], kind);
    }
}

#[tokio::test] // REQ BK-8
async fn an_export_can_be_imported() {
    let house = House::new().await;
    for wish in [
        json!({"kind": "email", "recipient": "ana@clinica.example", "note": "a, \"b\"", "source": "import"}),
        json!({"kind": "whatsapp", "recipient": "+5511987654321", "reason": "invalid_recipient"}),
        json!({"kind": "email", "recipient": "=1+bia@clinica.example", "note": "=HYPERLINK(\"x\")", "source": "'@crm"}),
    ] {
        let made = house.post("/v1/suppressions", &wish).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    }
    let export = house.get("/v1/suppressions/export").await;
    assert_eq!(export.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(export.text.lines().count(), 4, "{}", export.text);
    let cells = ",'=1+bia@clinica.example,manual,''@crm,\"'=HYPERLINK(\"\"x\"\")\",";
    assert!(export.text.contains(cells), "nothing for a spreadsheet to compute: {}", export.text);
    assert!(export.text.contains(",+5511987654321,"), "{}", export.text);
    let other = House::new().await;
    let told = import(&other, "text/csv", "", export.text).await.json();
    assert_eq!((&told["added"], &told["refused"]), (&json!(3), &json!(0)), "{told}");
    let bare =
        |item: &Value| ["kind", "recipient", "reason", "source", "note"].map(|name| item[name].clone());
    let mut theirs: Vec<_> = listed(&other, "").await.iter().map(bare).map(|it| format!("{it:?}")).collect();
    let mut ours: Vec<_> = listed(&house, "").await.iter().map(bare).map(|it| format!("{it:?}")).collect();
    theirs.sort();
    ours.sort();
    assert_eq!(theirs, ours);
}

#[tokio::test] // REQ BK-8
async fn a_file_that_cannot_be_read_is_refused() {
    let house = House::new().await;
    for (kind, body) in [
        ("text/csv", "kind,reason\nemail,opt_out\n"),
        ("text/csv", "email,telefone\na@x.example,11987654321\n"),
        ("text/csv", "kind,\"recipient\n"),
        ("text/csv", "\u{0}"),
        ("application/json", "{}"),
    ] {
        import(&house, kind, "", body).await.refused("INVALID_FIELD", "body");
    }
    assert_eq!(import(&house, "text/plain", "", "[]").await.code(), "UNSUPPORTED_MEDIA_TYPE");
    let told = import(&house, "application/x-ndjson", "", "{\n[]\n\u{1}\n").await.json();
    assert_eq!((&told["refused"], &told["added"]), (&json!(3), &json!(0)), "{told}");
    let told = import(&house, "application/x-ndjson", "", vec![b'"', 0xff, b'"', b'\n']).await.json();
    assert_eq!(told["refused"], 1);
}
