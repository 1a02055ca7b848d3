//! Campaigns by the real binary's own commands: from a list to a report.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use place::{Place, Server, binary};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A place with a channel that takes everything, and a template.
async fn ready() -> (Place, Server) {
    let place = Place::new();
    let file = place.folder.path().join("pombo.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{config}[channels.hall]\nkind = \"null\"\n")).unwrap();
    let server = place.start();
    place.ready().await;
    done(&place, &["templates", "put", "natal", "--text", "Olá, {{ nome }}! Até {{ loja }}."]).await;
    (place, server)
}

fn file(place: &Place, name: &str, words: impl AsRef<[u8]>) -> String {
    let path: PathBuf = place.folder.path().join(name);
    std::fs::write(&path, words).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs a command against a server: what it printed, what it noted, and how it ended.
async fn run(server: &str, args: &[&str], input: &[u8]) -> (String, String, Option<i32>) {
    let mut command = Command::new(binary());
    command.args(args).env("POMBO_SERVER", server).env("POMBO_API_KEY", place::KEY).env("TZ", "UTC");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_vec();
    let run = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        // A command that does not read it has no use for it.
        let _ = child.stdin.take().unwrap().write_all(&input);
        child.wait_with_output().unwrap()
    });
    let Output { status, stdout, stderr } = run.await.unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.code())
}

async fn pombo(place: &Place, args: &[&str]) -> (String, String, Option<i32>) {
    run(&place.url(), args, b"").await
}

/// What a command that succeeds printed.
async fn done(place: &Place, args: &[&str]) -> String {
    let (said, noted, code) = pombo(place, args).await;
    assert_eq!(code, Some(0), "{args:?}: {said}{noted}");
    said
}

async fn json(place: &Place, args: &[&str]) -> Vec<Value> {
    let said = done(place, &[args, &["--json"]].concat()).await;
    serde_json::Deserializer::from_str(&said).into_iter().map(Result::unwrap).collect()
}

const CREATE: [&str; 8] =
    ["campaigns", "create", "--name", "Natal", "--channel", "hall", "--template", "natal"];

/// A campaign of three people and three odd lines, at the fastest pace.
async fn made(place: &Place) -> String {
    let list = "to;nome\n11 98765-4321;Ana\nbia@x;Bia\n;Nobody\n11 98765-4321;Ana again\ncaio;Caio\nduda;\n";
    let list = file(place, "people.csv", list);
    let pace = ["--csv", &list, "--var", "loja=sábado", "--min", "3", "--max", "3"];
    let told = json(place, &[&CREATE[..], &pace].concat()).await.remove(0);
    assert_eq!(
        (&told["added"], &told["duplicates"], &told["invalid"]),
        (&3.into(), &1.into(), &2.into()),
        "{told}"
    );
    told["campaign"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test] // REQ BK-4, BK-7
async fn a_campaign_goes_from_a_list_to_a_report() {
    let (place, _server) = ready().await;
    let id = made(&place).await;
    let preview = done(&place, &["campaigns", "preview", &id]).await;
    assert!(preview.contains("Olá, Ana! Até sábado."), "{preview}");
    assert!(preview.contains("pauses itself after 2 min"), "{preview}");
    assert!(preview.contains("2 invalid lines, 1 repeated"), "{preview}");
    let (said, noted, code) = pombo(&place, &["campaigns", "watch", &id]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(noted.contains("it is a draft") && noted.contains("campaigns start"), "{noted}");

    let started = done(&place, &["campaigns", "start", &id]).await;
    assert!(started.starts_with(&format!("{id} is running; 0 of 3 sent")), "{started}");
    let seen = json(&place, &["campaigns", "watch", &id]).await;
    let counts: Vec<u64> = seen.iter().map(|it| it["counts"]["sent"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted() && counts.last() == Some(&3), "{counts:?}");
    assert_eq!(seen.last().unwrap()["state"], "completed");
    let watched = done(&place, &["campaigns", "watch", &id]).await;
    assert!(watched.ends_with(&format!("{id} is completed; 3 of 3 sent\n")), "{watched}");

    let report = place.folder.path().join("report.csv");
    let said = done(&place, &["campaigns", "report", &id, report.to_str().unwrap()]).await;
    assert!(said.contains("has 5 lines"), "{said}");
    let report = std::fs::read_to_string(report).unwrap();
    assert_eq!(report.lines().filter(|line| line.contains(",sent,")).count(), 3, "{report}");
    assert_eq!(done(&place, &["campaigns", "report", &id]).await, report);
    let objects = json(&place, &["campaigns", "report", &id]).await;
    let states: Vec<&str> = objects.iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["sent", "sent", "invalid", "sent", "invalid"], "one object a line");
    let file = place.folder.path().join("report.ndjson");
    let told = json(&place, &["campaigns", "report", &id, file.to_str().unwrap()]).await.remove(0);
    assert_eq!(told["lines"], 5);
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept.lines().all(|line| line.starts_with('{')) && kept.lines().count() == 5, "{kept}");
    let invalid = json(&place, &["campaigns", "recipients", &id, "--state", "invalid"]).await;
    let lines: Vec<u64> = invalid.iter().map(|it| it["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [4, 7], "as an editor counts");
    let listed = done(&place, &["campaigns", "list", "--state", "completed"]).await;
    assert!(listed.contains(&id) && listed.contains("3/3"), "{listed}");
}

#[tokio::test] // REQ BK-4
async fn a_list_that_cannot_be_used_creates_nothing() {
    let (place, _server) = ready().await;
    let var = ["--var", "loja=sábado"];
    let lists: [(&[u8], &[&str], &str); 6] = [
        (b"", &var, "nobody on the list"),
        (b"to,nome\n", &var, "nobody on the list"),
        (b"+55 11 98765-4321,Ana\n", &var, "looks like data"),
        (b"quem,nome\na,Ana\n", &var, "--to COLUMN"),
        (b"to,nome\na,Ana\n", &[], "loja"),
        (b"to,nome\n,Ana\n,Bia\n", &var, "NO_RECIPIENTS"),
    ];
    for (words, more, why) in lists {
        let list = file(&place, "bad.csv", words);
        let (said, noted, code) = pombo(&place, &[&CREATE[..], &["--csv", &list], more].concat()).await;
        assert_eq!(code, Some(1), "{why}: {said}{noted}");
        assert!(noted.contains(why), "{why}: {noted}");
        assert_eq!(said, "", "{why}");
    }
    let list = file(&place, "good.csv", "to,nome\na,Ana\n");
    for (wrong, why) in [
        (&["--min", "2"][..], "at least 3"),
        (&["--min", "20", "--max", "10"], "must not be less"),
        (&["--window", "20:00-08:00"], "window"),
    ] {
        let (_, noted, code) = pombo(&place, &[&CREATE[..], &["--csv", &list], &var, wrong].concat()).await;
        assert_eq!(code, Some(1), "{noted}");
        assert!(noted.contains(why), "{why}: {noted}");
    }
    assert_eq!(json(&place, &["campaigns", "list"]).await, Vec::<Value>::new());
}

#[tokio::test] // REQ BK-4
async fn lists_come_as_csv_of_any_spreadsheet_and_as_json() {
    let (place, _server) = ready().await;
    let latin = [&b"to;nome;loja\na;Jo\xe3o;\"Centro; Sul\"\n"[..]].concat();
    let lists: [(&str, &[u8]); 4] = [
        ("latin1.csv", &latin),
        ("tabs.txt", b"\xef\xbb\xbfto\tnome\tloja\r\na\tJo\xc3\xa3o\tCentro; Sul\r\n"),
        ("people.json", br#"[{"to": "a", "nome": "Jo\u00e3o", "loja": "Centro; Sul"}]"#),
        ("people.ndjson", b"{\"to\": \"a\", \"nome\": \"Jo\xc3\xa3o\", \"loja\": \"Centro; Sul\"}\n"),
    ];
    for (name, words) in lists {
        let list = file(&place, name, words);
        let told = json(&place, &[&CREATE[..], &[&list]].concat()).await.remove(0);
        assert_eq!(told["added"], 1, "{name}: {told}");
        let id = told["campaign"]["id"].as_str().unwrap();
        let preview = done(&place, &["campaigns", "preview", id]).await;
        assert!(preview.contains("Olá, João! Até Centro; Sul."), "{name}: {preview}");
    }
    let more = [&CREATE[..], &["--json-file", "-", "--to", "quem", "--json"]].concat();
    let (said, noted, code) = run(&place.url(), &more, br#"[{"quem": "a", "nome": "A", "loja": "B"}]"#).await;
    assert_eq!(code, Some(0), "{said}{noted}");
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["added"], 1);
}

#[tokio::test] // REQ BK-4
async fn an_operator_adds_changes_schedules_pauses_resumes_cancels_and_removes() {
    let (place, _server) = ready().await;
    let id = made(&place).await;
    let late = file(&place, "late.csv", "to,nome\nduda,Duda\ncaio,Caio\n");
    let said = done(&place, &["campaigns", "add", &id, &late]).await;
    assert_eq!(said, format!("{id}: 1 added, 1 there already, 0 invalid\n"));
    let pace = ["--min", "600", "--max", "900", "--weight", "3", "--max-failure-rate", "never"];
    let set = [&["campaigns", "set", &id][..], &pace].concat();
    let changed = json(&place, &set).await.remove(0);
    assert_eq!(
        (&changed["throttle_max_seconds"], &changed["weight"], &changed["max_failure_rate"]),
        (&900.0.into(), &3.into(), &Value::Null)
    );
    let year: u16 = changed["created_at"].as_str().unwrap()[..4].parse().unwrap();
    let day = format!("{}-12-01", year + 1);
    let said = done(&place, &["campaigns", "schedule", &id, &format!("{day} 09:00")]).await;
    assert!(said.contains("is scheduled for") && said.contains(&format!("{day} at 09:00")), "{said}");
    let said = done(&place, &["campaigns", "start", &id]).await;
    assert!(said.contains("is running"), "{said}");
    let said = done(&place, &["campaigns", "pause", &id, "--note", "lunch"]).await;
    assert!(said.contains("is paused: lunch"), "{said}");
    let shown = done(&place, &["campaigns", "show", &id]).await;
    assert!(shown.contains("paused: lunch") && shown.contains("600 to 900 s after each send"), "{shown}");
    assert!(shown.contains("3 where others have one"), "{shown}");
    done(&place, &["campaigns", "resume", &id]).await;
    let (_, noted, code) = pombo(&place, &["campaigns", "remove", &id]).await;
    assert_eq!(code, Some(1));
    assert!(noted.contains("CAMPAIGN_STATE"), "{noted}");
    done(&place, &["campaigns", "cancel", &id]).await;
    let (said, _, code) = pombo(&place, &["campaigns", "watch", &id]).await;
    assert_eq!(code, Some(1), "a campaign that was cancelled is not done: {said}");
    assert!(said.contains("is cancelled"), "{said}");

    let id = made(&place).await;
    let (_, noted, code) = pombo(&place, &["campaigns", "resume", &id]).await;
    assert_eq!(code, Some(1));
    assert!(noted.contains("CAMPAIGN_STATE"), "{noted}");
    assert_eq!(done(&place, &["campaigns", "remove", &id]).await, format!("{id} is removed\n"));
    let (_, noted, code) = pombo(&place, &["campaigns", "show", &id]).await;
    assert_eq!(code, Some(1));
    assert!(noted.contains("NOT_FOUND"), "{noted}");
}

/// Answers a request with 200.
async fn answer(listener: &TcpListener, body: &str) -> String {
    answer_with(listener, "200 OK", body).await
}

/// Answers a request, once all of it is there; the status may have headers after it.
async fn answer_with(listener: &TcpListener, status: &str, body: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut seen = String::new();
    let mut piece = vec![0; 4096];
    loop {
        let length = stream.read(&mut piece).await.unwrap();
        seen += &String::from_utf8_lossy(&piece[..length]);
        if !seen.contains("transfer-encoding: chunked") || seen.ends_with("0\r\n\r\n") {
            break;
        }
    }
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length");
    stream.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    seen.lines().next().unwrap().to_owned()
}

/// Makes a campaign of a server that answers its creation and its list like this; what was noted, and what was asked
/// for after the list.
async fn refused_list(created: &'static str, listed: &'static str) -> (String, Option<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("people.csv");
    std::fs::write(&list, "to,nome\na,Ana\n").unwrap();
    let server = tokio::spawn(async move {
        answer(&listener, r#"{"items": [{"name": "hall", "kind": "null"}]}"#).await;
        answer(&listener, r#"{"name": "natal", "text": "Olá, {{ nome }}"}"#).await;
        answer_with(&listener, created, r#"{"id": "cmp_1", "state": "draft"}"#).await;
        answer_with(&listener, listed, r#"{"title": "No", "code": "NO"}"#).await;
        answer_with(&listener, "204 No Content", "").await
    });
    let args = [&CREATE[..], &[list.to_str().unwrap(), "--idempotency-key", "june"]].concat();
    let (said, noted, code) = run(&url, &args, b"").await;
    assert_eq!((said.as_str(), code), ("", Some(1)), "{noted}");
    // Whatever it asked for is answered by now.
    match server.is_finished() {
        true => (noted, Some(server.await.unwrap())),
        false => {
            server.abort();
            (noted, None)
        }
    }
}

#[tokio::test] // REQ BK-4
async fn a_draft_goes_with_its_list_only_if_it_was_made_for_it_and_the_list_itself_is_refused() {
    let (made, found) = ("201 Created", "201 Created\r\nidempotency-replayed: true");
    let (noted, asked) = refused_list(made, "422 Unprocessable Content").await;
    assert_eq!(asked.as_deref(), Some("DELETE /v1/campaigns/cmp_1 HTTP/1.1"));
    assert!(noted.contains("nothing was created"), "{noted}");
    let (noted, asked) = refused_list(found, "422 Unprocessable Content").await;
    assert_eq!(asked, None, "{noted}");
    assert!(noted.contains("cmp_1 was there before, and stays"), "{noted}");
    for status in ["400 Bad Request", "401 Unauthorized", "408 Request Timeout"] {
        let (noted, asked) = refused_list(made, status).await;
        assert_eq!(asked, None, "{status}: {noted}");
        assert!(noted.contains("pombo campaigns add cmp_1"), "{status}: {noted}");
    }
}

#[tokio::test] // REQ ML-3
async fn a_key_makes_one_campaign_of_one_list_and_a_repeat_finishes_it() {
    let (place, _server) = ready().await;
    let [one, other] = [("one.csv", "to,Nome\na,Ana\nb,Bia\n"), ("other.csv", "to,Nome\nc,Caio\n")]
        .map(|(name, words)| file(&place, name, words));
    let create = |list: &str, more: &[&str]| {
        let own = [list, "--var", "loja=já", "--idempotency-key", "june"];
        [&CREATE[..], &own, more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let made = async |list: &str, more: &[&str]| {
        let args = create(list, more);
        pombo(&place, &args.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    let (said, noted, code) = made(&one, &[]).await;
    assert_eq!(code, Some(0), "{noted}");
    let id = said.split(':').next().unwrap().to_owned();
    // As if the first had been cut off before the end of its list: whoever is missing is added, nobody twice.
    let (said, noted, code) = made(&one, &[]).await;
    assert_eq!((code, said.trim()), (Some(0), &*format!("{id}: 0 added, 2 there already, 0 invalid")));
    assert!(noted.contains("was made before by this key"), "{noted}");
    let (said, noted, code) = made(&other, &[]).await;
    assert_eq!((said.as_str(), code), ("", Some(1)), "{noted}");
    assert!(noted.contains("IDEMPOTENCY_CONFLICT") && noted.contains(&id), "{noted}");
    assert!(noted.contains("nothing was changed") && noted.contains("campaigns add"), "{noted}");
    let counted = json(&place, &["campaigns", "show", &id]).await.remove(0)["counts"]["recipients"].clone();
    assert_eq!(counted, 2);
    // A repeat of one that has begun says where it stands, and does nothing more.
    let (_, noted, code) = made(&one, &["--start"]).await;
    assert_eq!(code, Some(0), "{noted}");
    let (said, noted, code) = made(&one, &["--start"]).await;
    assert_eq!(code, Some(0), "{noted}");
    assert!(said.starts_with(&format!("{id} is running")), "{said}");
    assert!(noted.contains("campaigns watch") && !noted.contains("campaigns start"), "{noted}");
}

#[tokio::test] // REQ BK-4, BK-8
async fn a_retry_that_nobody_is_left_for_says_why_and_is_not_offered() {
    let campaign = r#"{"id": "cmp_1", "state": "completed", "operation_id": "opr_1", "counts": {"recipients": 3, "sent": 1, "failed": 2}}"#;
    let done = r#"{"id": "opr_1", "state": "done", "done": 0, "skipped": 2}"#;
    for (second, says, offered) in [
        (
            "\"opt_out\"",
            "nobody got a new round of 2 who failed; 2 of them are on the suppression list",
            false,
        ),
        ("null, \"last_error\": {\"category\": \"timeout\"}", "; 1 of them is on the suppression list", true),
        // The list has not heard of it yet, and will.
        ("null, \"last_error\": {\"category\": \"invalid_recipient\"}", "; 1 of them is on", false),
    ] {
        let people = format!(
            r#"{{"items": [{{"number": 1, "suppressed": "invalid_recipient"}}, {{"number": 2, "suppressed": {second}}}]}}"#
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            for body in [campaign, done, &people, campaign, campaign, &people] {
                answer(&listener, body).await;
            }
        });
        let (said, noted, code) = run(&url, &["campaigns", "retry", "cmp_1", "--failed"], b"").await;
        assert_eq!(code, Some(0), "{said}{noted}");
        assert!(noted.contains(says), "{noted}");
        let (_, noted, code) = run(&url, &["campaigns", "show", "cmp_1"], b"").await;
        assert_eq!(code, Some(0), "{noted}");
        assert!(noted.contains("why some failed"), "{noted}");
        assert_eq!(noted.contains("retry cmp_1 --failed"), offered, "{noted}");
        server.await.unwrap();
    }
}

#[tokio::test] // REQ BK-4
async fn a_retry_whose_operation_does_not_end_well_has_failed() {
    let halted = r#"{"id": "opr_1", "state": "halted", "done": 2, "reason": "it was enough"}"#;
    for (status, operation, why) in
        [("200 OK", halted, "it was enough"), ("404 Not Found", r#"{"title": "Gone", "code": "NO"}"#, "Gone")]
    {
        for more in [&[][..], &["--json"]] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let server = tokio::spawn(async move {
                answer(&listener, r#"{"id": "cmp_1", "state": "running", "operation_id": "opr_1"}"#).await;
                answer_with(&listener, status, operation).await;
                answer(&listener, r#"{"id": "cmp_1", "state": "running"}"#).await;
            });
            let args = [&["campaigns", "retry", "cmp_1", "--failed"][..], more].concat();
            let (said, noted, code) = run(&url, &args, b"").await;
            server.abort();
            assert_eq!(code, Some(1), "{more:?}: {said}{noted}");
            assert!(noted.contains(why), "{more:?}: {noted}");
        }
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_says_how_it_is_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("people.csv");
    std::fs::write(&list, "to,nome\n".to_owned() + &"a,Ana\n".repeat(500_000)).unwrap();
    let list = list.to_str().unwrap().to_owned();
    let server = tokio::spawn(async move {
        let channels = answer(&listener, r#"{"items": [{"name": "hall", "kind": "null"}]}"#).await;
        let template = answer(&listener, r#"{"name": "natal", "text": "Olá, {{ nome }}"}"#).await;
        let created = answer(&listener, r#"{"id": "cmp_1", "state": "draft"}"#).await;
        let (mut upload, _) = listener.accept().await.unwrap();
        let mut seen = vec![0; 65_536];
        upload.read_exact(&mut seen).await.unwrap();
        drop(upload);
        [channels, template, created, String::from_utf8_lossy(&seen).lines().next().unwrap().to_owned()]
    });
    let (said, noted, code) = run(&url, &[&CREATE[..], &[&list]].concat(), b"").await;
    assert_eq!((said.as_str(), code), ("", Some(1)), "{noted}");
    let repeat = format!("pombo campaigns add cmp_1 {list}");
    assert!(noted.contains("did not arrive to its end") && noted.contains(&repeat), "{noted}");
    let asked = server.await.unwrap();
    assert_eq!(asked[2], "POST /v1/campaigns HTTP/1.1");
    assert_eq!(asked[3], "POST /v1/campaigns/cmp_1/recipients HTTP/1.1");
}

#[tokio::test] // REQ BK-6
async fn hours_are_changed_in_part_and_what_a_campaign_waits_for_is_shown() {
    let (place, _server) = ready().await;
    let id = made(&place).await;
    let set = async |more: &[&str]| {
        let told = json(&place, &[&["campaigns", "set", &id], more].concat()).await.remove(0);
        (told["created_at"].as_str().unwrap().to_owned(), told["window"].clone())
    };
    let (made_at, window) = set(&["--days", "mon,tue,wed,thu,fri,sat,sun", "--time-zone", "UTC"]).await;
    assert_eq!(window["hours"], "00:00-24:00");
    // Hours that are not now.
    let hour: u32 = made_at[11..13].parse().unwrap();
    let later = format!("{:02}:00-{0:02}:30", (hour + 3) % 24);
    assert_eq!(set(&["--window", &later]).await.1["time_zone"], "UTC", "the rest stays");
    let preview = done(&place, &["campaigns", "preview", &id]).await;
    let waits = format!("sending hours {later} UTC; opens ");
    assert!(preview.contains(&waits), "{preview}");
    let started = done(&place, &["campaigns", "start", &id]).await;
    assert!(started.contains(&format!("; waits: {waits}")), "{started}");
    let shown = done(&place, &["campaigns", "show", &id]).await;
    assert!(shown.contains(&waits), "{shown}");
    done(&place, &["campaigns", "pause", &id]).await;
    let shown = done(&place, &["campaigns", "show", &id]).await;
    assert!(shown.contains("not while it is paused") && !shown.contains(&waits), "{shown}");
    let (_, noted, code) = pombo(&place, &["campaigns", "set", &id, "--no-window", "--days", "mon"]).await;
    assert_eq!(code, Some(2), "{noted}");
}

#[tokio::test] // REQ BK-4
async fn a_campaign_for_a_time_that_is_over_is_not_created() {
    let (place, _server) = ready().await;
    let list = file(&place, "people.csv", "to,nome\na,Ana\n");
    let past = ["--csv", &list, "--var", "loja=já", "--schedule", "2020-01-01 09:00"];
    let (said, noted, code) = pombo(&place, &[&CREATE[..], &past].concat()).await;
    assert_eq!((said.as_str(), code), ("", Some(2)), "{noted}");
    assert!(noted.contains("in the past") && noted.contains("nothing was created"), "{noted}");
    assert_eq!(json(&place, &["campaigns", "list"]).await, Vec::<Value>::new());
}
