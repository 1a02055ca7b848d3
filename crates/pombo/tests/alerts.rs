//! Alerts from the outside: a provider goes down, people are told, and told again when it is back; also while the way to
//! them is what is down.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo_channels::sandbox::{Options, Sandbox};
use pombo_kernel::time::Clock as _;
use pombo_kernel::window::Zone;
use pombo_testbed::Cluster;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use place::{KEY, Place, binary, drained};

/// Takes whatever is posted, and remembers it.
#[derive(Clone)]
struct Receiver {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Value>>>,
    news: Arc<Notify>,
}

impl Receiver {
    async fn start() -> Receiver {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (address, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Value>>>::default());
        let news = Arc::<Notify>::default();
        let (hears, tells) = (Arc::clone(&heard), Arc::clone(&news));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (hears, tells) = (Arc::clone(&hears), Arc::clone(&tells));
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    let body = loop {
                        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            return;
                        }
                        if let Some(body) = body(&request) {
                            break body;
                        }
                    };
                    hears.lock().unwrap().push(body);
                    tells.notify_waiters();
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    let _ = stream.write_all(answer).await;
                });
            }
        });
        Receiver { address, heard, news }
    }

    fn url(&self) -> String {
        format!("http://{}/told", self.address)
    }

    /// How often it was told what of which rule, so far.
    fn told(&self) -> BTreeMap<(String, String), usize> {
        let mut told = BTreeMap::new();
        for letter in self.heard.lock().unwrap().iter() {
            let rule = letter["data"]["alert"]["rule"].as_str().unwrap_or_default().to_owned();
            *told.entry((rule, letter["type"].as_str().unwrap().to_owned())).or_default() += 1;
        }
        told
    }

    /// What it was told, once it was.
    async fn hears(&self, rule: &str, kind: &str) -> Value {
        self.hears_all(kind, 1, |letter| letter["data"]["alert"]["rule"] == rule).await.remove(0)
    }

    /// What it was told of that type and fits, once there are as many.
    async fn hears_all(&self, kind: &str, count: usize, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let told = async {
            loop {
                let news = self.news.notified();
                let found = self.letters(kind).into_iter().filter(&fits).collect::<Vec<_>>();
                if found.len() >= count {
                    return found;
                }
                news.await;
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(60), told).await;
        told.unwrap_or_else(|_| panic!("not within 60 s: {count} × {kind}; it heard {:?}", self.told()))
    }

    fn letters(&self, kind: &str) -> Vec<Value> {
        self.heard.lock().unwrap().iter().filter(|letter| letter["type"] == kind).cloned().collect()
    }
}

/// The body of a request that is all there.
fn body(request: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(request);
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    (rest.len() >= length).then(|| serde_json::from_str(&rest[..length]).unwrap())
}

fn configure(place: &Place, more: &str) {
    let config = format!(
        "[server]\npublic_url = \"https://pombo.clinic.example\"\n\
         [channels.crm]\nkind = \"webhook\"\nallow_private = true\n\
         [channels.crm.retry]\ndelays = [\"50ms\", \"50ms\", \"50ms\", \"50ms\", \"50ms\", \"50ms\", \"1s\", \"1s\"]\n\
         [channels.crm.breaker]\nfailures = 3\nlasting = \"0s\"\nfirst_probe = \"300ms\"\nslowest_probe = \"1s\"\n\
         [channels.hooks]\nkind = \"webhook\"\nallow_private = true\n\
         [channels.hooks.retry]\ndelays = [\"100ms\", \"100ms\"]\n\
         [channels.spare]\nkind = \"webhook\"\nallow_private = true\n\
         [alerts]\nevery = \"200ms\"\n[alerts.breaker_open]\nresolve_after = \"0s\"\n\
         [alerts.channel_held]\nresolve_after = \"0s\"\nnotify = [\"ops\"]\n\
         [alerts.dead_letters]\nabove = 2\nresolve_after = \"0s\"\n\
         [alerts.failure_rate]\nleast = 3\nwindow = \"10s\"\nfor = \"0s\"\nresolve_after = \"0s\"\n{more}"
    );
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
}

async fn send(client: &Client, to: &str) {
    let body = json!({"channel": "crm", "to": to, "content": {"body": {"canary": "ana@clinic.example"}}});
    client.post("/v1/messages", Payload::json(&body)).await.unwrap();
}

/// What the command line says of alerts.
fn pombo(place: &Place, args: &[&str]) -> String {
    said(place, &[&["alerts"], args].concat())
}

/// What the command line says.
fn said(place: &Place, args: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(args).env("POMBO_SERVER", place.url()).env("POMBO_API_KEY", KEY);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn firing(client: &Client) -> usize {
    client.get("/v1/alerts?state=firing").await.unwrap()["items"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-4, fault 61
async fn a_provider_that_goes_down_is_told_once_acknowledged_and_told_again_when_it_is_back() {
    let (ops, sandbox) = (Receiver::start().await, place::sink().await);
    let place = Place::new();
    configure(&place, &format!("[notices.ops]\nchannel = \"hooks\"\nto = \"{}\"\n", ops.url()));
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let (address, down) = (sandbox.address, sandbox.url("/ok"));
    for _ in 0..3 {
        send(&client, &sandbox.url("/gone")).await;
    }
    let letter = ops.hears("dead_letters", "alert.fired").await;
    let (data, alert) = (&letter["data"], &letter["data"]["alert"]);
    assert!(data["summary"].as_str().unwrap().starts_with("3 dead letters wait"), "{letter}");
    assert_eq!((&alert["value"], &alert["severity"]), (&json!(3.0), &json!("warning")));
    assert_eq!((&alert["samples"][0]["what"], &alert["samples"][0]["count"]), (&json!("gone"), &json!(3)));
    let id = data["id"].as_str().unwrap();
    assert_eq!(data["link"], format!("https://pombo.clinic.example/alerts/{id}"));
    let rate = ops.hears("failure_rate", "alert.fired").await;
    assert_eq!((&rate["data"]["alert"]["channel"], &rate["data"]["alert"]["of"]), (&json!("crm"), &json!(3)));

    drop(sandbox);
    for _ in 0..3 {
        send(&client, &down).await;
    }
    let letter = ops.hears("breaker_open", "alert.fired").await;
    let id = letter["data"]["id"].as_str().unwrap();
    assert!(pombo(&place, &["ack", id, "--note", "they know"]).contains("is acknowledged"));
    let shown = pombo(&place, &["show", id]);
    for words in ["breaker_open", "crm", "they know", "to ops"] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(pombo(&place, &["list"]).contains(id));
    assert!(pombo(&place, &["rules"]).contains("failure_rate"));

    // A life later it is still the same alert, and nobody is told of it anew.
    server.kill();
    let server = place.start();
    place.ready().await;
    let back = Sandbox::start(address, &Options::default()).await.unwrap();
    let letter = ops.hears("breaker_open", "alert.resolved").await;
    assert_eq!(letter["data"]["id"], id);
    assert_eq!(letter["data"]["alert"]["acknowledged"]["note"], "they know");
    let discard = json!({"filter": {"channel": "crm"}, "note": "a test"});
    client.post("/v1/dead-letters/discard", Payload::json(&discard)).await.unwrap();
    ops.hears("dead_letters", "alert.resolved").await;
    ops.hears("failure_rate", "alert.resolved").await;
    assert_eq!(firing(&client).await, 0);
    assert!(ops.told().values().all(|times| *times == 1), "{:?}", ops.told());
    assert!(!format!("{:?}", ops.heard.lock().unwrap()).contains("canary"), "nobody's data is told");
    assert!(!place.said().contains("ana@clinic.example"));
    let events = client.get("/v1/audit?event=alert_acknowledged").await.unwrap();
    assert_eq!(events["items"].as_array().unwrap().len(), 1, "{events}");
    drop(back);
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-4, fault 40
async fn while_the_way_to_people_is_down_the_fallback_gets_the_notice_from_whichever_node() {
    const MESSAGES: usize = 500;
    let (spare, sandbox, cluster) = (Receiver::start().await, place::sink().await, Cluster::own());
    let database = cluster.database();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let nodes = [Place::new(), Place::new()];
    for place in &nodes {
        let notices = format!(
            "[notices.ops]\nchannel = \"hooks\"\nto = \"http://{closed}/\"\nfallback = \"spare\"\n\
             [notices.spare]\nchannel = \"spare\"\nto = \"{}\"\n\
             [channels.work]\nkind = \"webhook\"\nallow_private = true\n",
            spare.url()
        );
        configure(place, &notices);
    }
    let servers = nodes.each_ref().map(|place| place.start_on(database.url()));
    for place in &nodes {
        place.ready().await;
    }
    let client = nodes[0].client();
    let hold = json!({"reason": "moving house"});
    client.post("/v1/channels/crm/hold", Payload::json(&hold)).await.unwrap();
    let work = json!({"channel": "work", "to": sandbox.url("/ok"), "content": {"body": 1}});
    client.post("/v1/messages/batch", Payload::json(&json!(vec![work; MESSAGES]))).await.unwrap();
    let letter = spare.hears("channel_held", "alert.fired").await;
    assert_eq!(letter["data"]["alert"]["samples"][0]["text"], "moving house");
    let id = letter["data"]["id"].as_str().unwrap();
    let notices = client.get(&format!("/v1/alerts/{id}")).await.unwrap()["notices"].clone();
    assert_eq!(notices[0]["to"], "ops");
    assert_eq!(notices[0]["passed"][0]["via"], "ops", "{notices}");
    client.post("/v1/channels/crm/release", Payload::default()).await.unwrap();
    spare.hears("channel_held", "alert.resolved").await;
    assert!(spare.told().values().all(|times| *times == 1), "{:?}", spare.told());
    let dead = client.get("/v1/dead-letters").await.unwrap();
    assert_eq!(dead["items"], json!([]), "what became of notices is nobody's to decide");
    drained(&client, MESSAGES).await;
    let sent = client.get("/v1/messages?channel=work&state=sent&limit=500").await.unwrap();
    let sent = sent["items"].as_array().unwrap();
    let at_once = sent.iter().filter(|message| message["attempt_count"] == 1).count();
    assert_eq!((sent.len(), at_once), (MESSAGES, MESSAGES), "whatever becomes of notices, messages go on");
    for server in servers {
        assert!(server.terminate().await.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ DL-5
async fn an_outage_with_hundreds_of_dead_letters_is_one_digest_for_the_team_and_then_a_later_one() {
    let (team, sandbox) = (Receiver::start().await, place::sink().await);
    let place = Place::new();
    let config = format!(
        "[notices.ops]\nchannel = \"hooks\"\nto = \"{}\"\n\
         [teams.administrator]\nnotify = [\"ops\"]\ngather = [\"10s\", \"15s\", \"1h\"]\n",
        team.url()
    );
    configure(&place, &config);
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let down = json!({"channel": "crm", "to": sandbox.url("/gone"), "content": {"body": {"canary": "ana@clinic.example"}}});
    let mut failures = client.events("/v1/events?types=message.failed", None).await.unwrap();
    client.post("/v1/messages/batch", Payload::json(&json!(vec![down.clone(); 300]))).await.unwrap();
    let dead = async {
        for _ in 0..300 {
            failures.next().await.unwrap().unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), dead).await.expect("all of them are dead letters");
    let groups = client.get("/v1/dead-letters/groups").await.unwrap();
    assert_eq!(groups["items"][0]["count"], 300, "{groups}");
    // Whoever gathers them dies in the midst of it.
    server.kill();
    let server = place.start();
    place.ready().await;
    let first = team.hears_all("dead_letters.digest", 1, |_| true).await.remove(0);
    let data = &first["data"];
    assert_eq!(
        (&data["team"], &data["count"], &data["goes_on"]),
        (&json!("administrator"), &json!(300), &json!(false))
    );
    assert_eq!((&data["causes"][0]["category"], &data["causes"][0]["count"]), (&json!("gone"), &json!(300)));
    assert_eq!(data["link"], "https://pombo.clinic.example/dead");
    client.post("/v1/messages/batch", Payload::json(&json!(vec![down; 5]))).await.unwrap();
    let later = team.hears_all("dead_letters.digest", 2, |_| true).await.remove(1);
    // Whether it goes on depends on how soon the first one arrived; virtual time shows that elsewhere.
    assert_eq!(&later["data"]["count"], &json!(5), "{later}");
    assert_eq!(team.letters("dead_letters.digest").len(), 2);
    assert!(!format!("{:?}", team.heard.lock().unwrap()).contains("ana@clinic"), "nobody's data is told");
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-6
async fn a_report_arrives_once_across_restarts_and_again_when_somebody_asks_for_it() {
    let (chief, place) = (Receiver::start().await, Place::new());
    let now = pombo::clock::SystemClock::new().now();
    // Somewhere it is noon, so that no day ends meanwhile.
    let east = 12 - now.hour().rem_euclid(24);
    let zone = if east > 0 { format!("Etc/GMT-{east}") } else { format!("Etc/GMT+{}", -east) };
    let tomorrow = zone.parse::<Zone>().unwrap().day(now).plus(1);
    let write = |every: &str| {
        let config = format!(
            "[notices.ops]\nchannel = \"hooks\"\nto = \"{}\"\nlanguage = \"pt-BR\"\n\
             [reports.mine]\nnotify = [\"ops\"]\nat = \"00:00\"\ntime_zone = \"{zone}\"\n{every}\n",
            chief.url()
        );
        configure(&place, &config);
    };
    // The last week ended six days ago, and its report is not sent, since nobody wanted one then.
    write(&format!("every = \"week\"\nday = \"{}\"", tomorrow.weekday()));
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let looked = async {
        while client.get("/v1/reports").await.unwrap()["items"][0]["done_until"].is_null() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looked).await.expect("somebody looks when it is due");
    server.kill();
    // From now on by the day: yesterday's is due.
    write("every = \"day\"");
    let server = place.start();
    let report = chief.hears_all("report", 1, |_| true).await.remove(0);
    assert_eq!((&report["data"]["report"], &report["data"]["every"]), (&json!("mine"), &json!("day")));
    let yesterday = tomorrow.plus(-2).to_string();
    place.ready().await;
    let until = client.get("/v1/reports").await.unwrap()["items"][0]["done_until"].clone();
    assert_eq!(report["data"]["until"], until);
    // That it arrived is on record before the next death.
    drained(&client, 1).await;
    server.kill();
    let server = place.start();
    place.ready().await;
    let sent = said(&place, &["reports", "send", "mine"]);
    assert!(sent.contains(&format!("mine of {yesterday} is on its way to ops")), "{sent}");
    assert_eq!(chief.hears_all("report", 2, |_| true).await.len(), 2, "one by itself, and one by hand");
    let records = client.get("/v1/audit?event=report_sent").await.unwrap();
    let by: Vec<_> = records["items"].as_array().unwrap().iter().map(|it| it["actor"].clone()).collect();
    assert_eq!((by.len(), &by[1]), (2, &json!("pombo")), "{records}");
    assert!(said(&place, &["reports", "list"]).contains("mine"));
    let shown = said(&place, &["reports", "show", "mine", "--date", &yesterday, "--language", "pt-BR"]);
    assert!(shown.contains("Relatório diário mine") && shown.contains("Indicadores e metas"), "{shown}");
    assert!(server.terminate().await.success());
}

#[test]
fn a_length_of_time_that_cannot_be_read_is_refused_with_words_before_anybody_is_asked() {
    let output =
        Command::new(binary()).args(["alerts", "silence", "alr_1", "--for", "2horas"]).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(
        words.contains("--for") && words.contains("not a length of time") && words.contains("2h"),
        "{words}"
    );
}
