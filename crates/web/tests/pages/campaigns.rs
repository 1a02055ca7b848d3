//! Campaigns: from a list out of a spreadsheet to the one that runs, as somebody with a browser does it.

use http::StatusCode;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::house::{House, Reply, request};
use crate::markup::{elements, is_sound};

const LIST: &str = "Cliente;Contato;Obs\nAna;ana@clinica.example;x\nBia;nobody;y\nAna S;ANA@clinica.example;z\n\
                    Caio;caio@clinica.example;\n";

async fn furnished() -> House {
    let house = House::new().await;
    let template = json!({"subject": "Olá", "text": "Olá, {{ nome }}! {{ loja }}"});
    house.put_template("ola", &template).await;
    house
}

/// Sends a form with a file in it, as a browser does.
async fn upload(browser: &Browser<'_>, path: &str, file: &[u8]) -> Reply {
    let csrf = browser.csrf().await;
    let head = format!(
        "--edge\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n--edge\r\nContent-Disposition: form-data; \
         name=\"file\"; filename=\"clientes.csv\"\r\nContent-Type: text/csv\r\n\r\n"
    );
    let body = [head.as_bytes(), file, b"\r\n--edge--\r\n"].concat();
    let call = request("POST", path)
        .header("accept", "text/html")
        .header("accept-language", browser.lang)
        .header("host", "pombo.example")
        .header("sec-fetch-site", "same-origin")
        .header("cookie", browser.cookie.clone().unwrap())
        .header("content-type", "multipart/form-data; boundary=edge");
    browser.house.send_elsewhere(call.body(body.into()).unwrap()).await
}

/// What stands in a hidden field.
fn hidden(page: &str, name: &str) -> String {
    let fields = elements(page).into_iter().filter(|it| it.name == "input");
    let mut own = fields.filter(|it| it.attributes.get("name").is_some_and(|own| own == name));
    own.next().unwrap_or_else(|| panic!("{name}: {page}")).attributes["value"].clone()
}

/// What is chosen in a list.
fn chosen(page: &str, name: &str) -> String {
    let (_, rest) =
        page.split_once(&format!("<select name=\"{name}\"")).unwrap_or_else(|| panic!("{name}: {page}"));
    let (list, _) = rest.split_once("</select>").unwrap();
    let option = elements(list.split_once('>').unwrap().1)
        .into_iter()
        .find(|it| it.attributes.contains_key("selected"));
    option.unwrap().attributes["value"].clone()
}

const GOOD: [(&str, &str); 6] = [
    ("name", "Natal"),
    ("channel", "mail"),
    ("template", "ola"),
    ("payload", "loja: Loja do Centro"),
    ("throttle_min_seconds", "15"),
    ("throttle_max_seconds", "25"),
];

/// A draft, by its id.
async fn draft(browser: &Browser<'_>, changes: &[(&str, &str)]) -> String {
    let fields: Vec<(&str, &str)> = GOOD.iter().chain(changes).copied().collect();
    let reply = browser.post("/campaigns/new", &fields).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    let place = reply.header("location").unwrap().to_owned();
    place.strip_prefix("/campaigns/").unwrap().strip_suffix("/list").unwrap().to_owned()
}

async fn campaign(house: &House, id: &str) -> Value {
    house.get(&format!("/v1/campaigns/{id}")).await.json()
}

#[tokio::test] // REQ BK-7
async fn a_campaign_is_made_of_a_list_whose_columns_are_named_looked_at_started_paused_and_resumed() {
    let house = furnished().await;
    let browser = Browser::of(&house, "operator").await;
    let id = draft(
        &browser,
        &[("days", "mon"), ("hours_from", "00:00"), ("hours_until", "23:30"), ("max_failure_rate", "20")],
    )
    .await;
    let made = campaign(&house, &id).await;
    assert_eq!(
        (&made["payload"]["loja"], &made["max_failure_rate"]),
        (&json!("Loja do Centro"), &json!(0.2))
    );
    assert_eq!((&made["window"]["hours"], &made["window"]["days"]), (&json!("00:00-23:30"), &json!(["mon"])));
    let base = format!("/campaigns/{id}");
    let page = browser.page(&format!("{base}/list")).await;
    assert!(page.contains("<code>nome</code>") && !page.contains("<code>loja</code>"), "{page}");

    let reply = upload(&browser, &format!("{base}/list"), LIST.as_bytes()).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    is_sound(&reply.text, "mapping");
    assert!(reply.text.contains(">nobody<") && reply.text.contains(">Cliente<"), "{}", reply.text);
    assert_eq!(chosen(&reply.text, "column-1"), "to", "addresses are known by how they look");
    assert_eq!(
        (chosen(&reply.text, "column-0"), chosen(&reply.text, "column-2")),
        (String::new(), String::new())
    );
    let list = hidden(&reply.text, "list");

    // Whoever forgets a column is told, and what was chosen stays.
    let reply = browser
        .post(&format!("{base}/import"), &[("list", &list), ("column-1", "to"), ("column-2", "=Obs")])
        .await;
    assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(reply.text.contains("`nome` is not in the payload"), "{}", reply.text);
    assert_eq!(
        (chosen(&reply.text, "column-1").as_str(), chosen(&reply.text, "column-2").as_str()),
        ("to", "=Obs")
    );
    assert_eq!(campaign(&house, &id).await["counts"]["recipients"], 0);

    let fields = [("list", list.as_str()), ("column-0", "=nome"), ("column-1", "to"), ("column-2", "")];
    let reply = browser.post(&format!("{base}/import"), &fields).await;
    assert_eq!(reply.header("location"), Some(format!("{base}/preview").as_str()), "{}", reply.text);
    let page = browser.page(&format!("{base}/preview")).await;
    for words in [
        "2 people added, 1 repeated, 1 invalid line.",
        "not an e-mail address: there is no @ in it",
        "Start now: 2 people",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("Olá, Ana!"), "an operator sees no persons");
    let admin = Browser::of(&house, "admin").await;
    assert!(admin.page(&format!("{base}/preview")).await.contains("Olá, Ana! Loja do Centro"));
    let people = house.get(&format!("/v1/campaigns/{id}/recipients?state=pending")).await.json();
    assert_eq!(people["items"][0]["variables"], json!({"nome": "Ana"}), "what is left out is not kept");

    for (verb, state) in [("start", "running"), ("pause", "paused"), ("resume", "running")] {
        let reply = browser.post(&format!("{base}/{verb}"), &[("back", &base)]).await;
        assert_eq!(reply.header("location"), Some(base.as_str()), "{verb}: {}", reply.text);
        assert_eq!(campaign(&house, &id).await["state"], state, "{verb}");
        let page = browser.page(&base).await;
        is_sound(&page, verb);
        assert!(page.contains(&format!("</svg>{state}</span>")), "{verb}: {page}");
    }
    let page = admin.page(&format!("{base}/recipients?state=invalid")).await;
    assert!(page.contains("nobody") && page.contains("line 3") && !page.contains("caio@"), "{page}");
    let report = browser.get(&format!("{base}/report")).await;
    assert_eq!(report.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(
        report.text.starts_with("number,line,to,state") && report.text.contains(",invalid,"),
        "{}",
        report.text
    );
}

#[tokio::test] // REQ BK-2
async fn a_wrong_pace_is_told_beside_its_field_and_what_was_typed_stays() {
    let house = furnished().await;
    for (lang, words) in [
        ("en", "must be at least 3: a line that sends faster is soon blocked"),
        ("pt-BR", "deve ser pelo menos 3: uma linha que envia mais rápido logo é bloqueada"),
    ] {
        let browser = Browser { lang, ..Browser::of(&house, "operator").await };
        let fields = [
            ("name", "Natal <b>"),
            ("channel", "mail"),
            ("throttle_min_seconds", "2,5"),
            ("throttle_max_seconds", "soon"),
            ("days", "sat"),
        ];
        let reply = browser.post("/campaigns/new", &fields).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
        is_sound(&reply.text, "new");
        let page = reply.text;
        let after =
            page.split_once("id=\"throttle_min_seconds-wrong\"").unwrap_or_else(|| panic!("{page}")).1;
        assert!(
            after.starts_with(&format!("><p>{words}")) || lang == "en" && after.contains(words),
            "{after}"
        );
        assert!(
            page.contains("id=\"throttle_max_seconds-wrong\"") && page.contains("id=\"template-wrong\""),
            "{page}"
        );
        assert_eq!(hidden(&page, "throttle_min_seconds"), "2,5");
        assert_eq!(hidden(&page, "throttle_max_seconds"), "soon");
        assert_eq!(hidden(&page, "name"), "Natal &lt;b&gt;");
        let ticked: Vec<String> = elements(&page)
            .into_iter()
            .filter(|it| it.attributes.contains_key("checked"))
            .map(|it| it.attributes["value"].clone())
            .collect();
        assert_eq!(ticked, ["sat"]);
    }
    assert_eq!(house.get("/v1/campaigns").await.json()["items"], json!([]));
}

#[tokio::test]
async fn lines_can_be_pasted_and_a_list_that_cannot_be_read_says_why() {
    let house = furnished().await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "operator").await };
    let id = draft(&browser, &[]).await;
    let place = format!("/campaigns/{id}/list");
    for (file, words) in [
        (&b"PK\x03\x04 a workbook"[..], "linha 1: o arquivo é uma planilha, não texto"),
        (b"ana@clinica.example;Ana\n", "linha 1: a primeira linha parece dado, não cabeçalho"),
        (b"", "está faltando"),
    ] {
        let reply = upload(&browser, &place, file).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(reply.text.contains(words), "{words}: {}", reply.text);
    }
    let reply = browser.post(&place, &[("pasted", "E-mail;NOME\r\nana@clinica.example;Ana <i>\r\n")]).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    is_sound(&reply.text, "mapping");
    assert_eq!(
        (chosen(&reply.text, "column-0").as_str(), chosen(&reply.text, "column-1").as_str()),
        ("to", "=nome")
    );
    let list = hidden(&reply.text, "list");
    for bad in [&[("column-1", "=nome")][..], &[("column-0", "to"), ("column-1", "to")]] {
        let fields: Vec<(&str, &str)> = bad.iter().copied().chain([("list", list.as_str())]).collect();
        let reply = browser.post(&format!("/campaigns/{id}/import"), &fields).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{bad:?}");
    }
    let fields = [("list", list.as_str()), ("column-0", "to"), ("column-1", "=nome")];
    let reply = browser.post(&format!("/campaigns/{id}/import"), &fields).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    assert_eq!(campaign(&house, &id).await["counts"]["pending"], 1);
}

#[tokio::test]
async fn a_text_that_is_written_on_the_way_becomes_a_template_of_its_own() {
    let house = furnished().await;
    let browser = Browser::of(&house, "operator").await;
    let typed =
        [("template", ""), ("name", "Promoção de Natal!"), ("subject", "Oi"), ("text", "Olá, {{ nome }}")];
    let first = campaign(&house, &draft(&browser, &typed).await).await;
    assert_eq!(first["template"], "campaign-promocao-de-natal");
    let second = campaign(&house, &draft(&browser, &typed).await).await;
    assert_eq!(second["template"], "campaign-promocao-de-natal-2", "what there is is not written over");
    let bad =
        browser.post("/campaigns/new", &[("name", "x"), ("channel", "mail"), ("text", "{{ oops")]).await;
    assert_eq!(bad.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(bad.text.contains("id=\"text-wrong\"") && bad.text.contains("{{ oops"), "{}", bad.text);
}

#[tokio::test]
async fn a_campaign_is_changed_scheduled_and_ended() {
    let house = furnished().await;
    let browser = Browser::of(&house, "operator").await;
    let id = draft(&browser, &[]).await;
    let base = format!("/campaigns/{id}");
    let people = json!([{"to": "ana@clinica.example", "nome": "Ana"}]);
    house.post(&format!("/v1/campaigns/{id}/recipients"), &people).await;
    house.put_template("ola", &json!({"subject": "Olá", "text": "Outro {{ nome }}"})).await;
    let page = browser.page(&format!("{base}/edit")).await;
    assert_eq!(
        (hidden(&page, "name"), hidden(&page, "throttle_min_seconds")),
        ("Natal".to_owned(), "15".to_owned())
    );
    let fields = [
        ("name", "Ano novo"),
        ("template", "ola"),
        ("payload", "loja: Sul"),
        ("throttle_min_seconds", "30"),
        ("throttle_max_seconds", "10"),
    ];
    let wrong = browser.post(&format!("{base}/edit"), &fields).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        (hidden(&wrong.text, "name"), hidden(&wrong.text, "throttle_max_seconds")),
        ("Ano novo".to_owned(), "10".to_owned())
    );
    let right = browser
        .post(&format!("{base}/edit"), &[&fields[..4], &[("throttle_max_seconds", "60")]].concat())
        .await;
    assert_eq!(right.status, StatusCode::SEE_OTHER, "{}", right.text);
    let now = campaign(&house, &id).await;
    assert_eq!(
        (&now["name"], &now["throttle_max_seconds"], &now["payload"]["loja"]),
        (&json!("Ano novo"), &json!(60.0), &json!("Sul"))
    );
    assert_eq!(now["template_version"], 1, "a template that was left as it was is not pinned anew");

    let preview = format!("{base}/preview");
    let past =
        browser.post(&format!("{base}/schedule"), &[("at", "2020-01-01T09:00"), ("back", &preview)]).await;
    assert_eq!(past.header("location"), Some(preview.as_str()));
    assert!(browser.page(&preview).await.contains("is in the past"));
    let reply =
        browser.post(&format!("{base}/schedule"), &[("at", "2027-06-01T09:00"), ("back", &preview)]).await;
    assert_eq!(reply.header("location"), Some(base.as_str()), "{}", reply.text);
    let now = campaign(&house, &id).await;
    assert_eq!((&now["state"], &now["start_at"]), (&json!("scheduled"), &json!("2027-06-01T12:00:00.000Z")));
    browser.post(&format!("{base}/cancel"), &[]).await;
    assert_eq!(campaign(&house, &id).await["state"], "cancelled");
    let page = browser.page(&base).await;
    assert!(page.contains("The campaign was cancelled.") && !page.contains("/resume\""), "{page}");

    let other = draft(&browser, &[]).await;
    let reply = browser.post(&format!("/campaigns/{other}/remove"), &[]).await;
    assert_eq!(reply.header("location"), Some("/campaigns"));
    assert_eq!(browser.get(&format!("/campaigns/{other}")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_list_of_campaigns_goes_on_page_by_page() {
    let house = furnished().await;
    for nth in 0..60 {
        let wish = json!({"name": format!("Campanha {nth}"), "channel": "mail", "template": "ola"});
        assert_eq!(house.post("/v1/campaigns", &wish).await.status, StatusCode::CREATED);
    }
    let browser = Browser::of(&house, "viewer").await;
    let page = browser.page("/campaigns").await;
    let rows = |page: &str| {
        elements(page).iter().filter(|it| it.name == "th" && it.attributes["scope"] == "row").count()
    };
    assert_eq!(rows(&page), 50);
    let next = elements(&page)
        .into_iter()
        .find(|it| it.attributes.get("rel").is_some_and(|rel| rel == "next"))
        .unwrap();
    assert_eq!(rows(&browser.page(&next.attributes["href"].replace("&amp;", "&")).await), 10);
    assert!(browser.page("/campaigns?state=running").await.contains("No campaign is in this state"));
    assert!(!page.contains("/campaigns/new"), "a viewer makes none");
}

#[tokio::test] // REQ SE-6
async fn a_form_with_a_file_is_refused_without_the_sessions_token() {
    let house = furnished().await;
    let browser = Browser::of(&house, "operator").await;
    let other = Browser::of(&house, "operator").await;
    let id = draft(&browser, &[]).await;
    let stolen = Browser { house: &house, cookie: browser.cookie.clone(), lang: "en" };
    let csrf = other.csrf().await;
    let body =
        format!("--edge\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n--edge--\r\n");
    let call = request("POST", &format!("/campaigns/{id}/list"))
        .header("accept", "text/html")
        .header("host", "pombo.example")
        .header("sec-fetch-site", "same-origin")
        .header("cookie", stolen.cookie.clone().unwrap())
        .header("content-type", "multipart/form-data; boundary=edge");
    assert_eq!(house.send_elsewhere(call.body(body.into()).unwrap()).await.status, StatusCode::FORBIDDEN);
}
