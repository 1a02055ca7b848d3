//! Metrics of the real binary, read by those who are to read them: promtool and Prometheus.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::Method;
use pombo::client::{Client, Payload};
use pombo_testbed::Cluster;
use regex::Regex;
use serde_json::{Value, json};

use crate::place::{Place, drained, sink};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

async fn scrape(client: &Client) -> String {
    let text = client.call(Method::GET, "/metrics", Payload::default()).await.unwrap();
    String::from_utf8(text.to_vec()).unwrap()
}

/// What is told once all of these have come to their values.
async fn scraped(client: &Client, wanted: &[(&str, f64)]) -> String {
    let mut text = String::new();
    let wrong = |text: &str| wanted.iter().find(|(name, count)| value(text, name) != Some(*count));
    for _ in 0..3_000 {
        text = scrape(client).await;
        if wrong(&text).is_none() {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never {:?}:\n{text}", wrong(&text));
}

/// The value behind a name with its labels.
fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(found, _)| found == name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// What promtool has against a text, line by line.
fn complaints(text: &str) -> Vec<String> {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool: {error}; scripts/setup installs it"));
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    let said = [said.stdout, said.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    said.lines().map(str::to_owned).collect()
}

/// The one thing that promtool may say: the name is what billing systems expect.
const MINUTES: &str = r#"backoff_duration_minutes use base unit "seconds" instead of "minutes""#;

fn names(text: &str) -> BTreeSet<String> {
    let types = Regex::new(r"(?m)^# TYPE (\S+) ").unwrap();
    types.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// Names that the reference explains.
fn documented() -> BTreeSet<String> {
    let page = read("docs/reference/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let name = Regex::new(r"`([a-z_]+)`").unwrap();
    let firsts = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    firsts
        .flat_map(|cell| name.captures_iter(&cell).map(|found| found[1].to_owned()).collect::<Vec<_>>())
        .collect()
}

#[tokio::test] // REQ OB-1
async fn prometheus_reads_what_happened_and_nobody_is_named() {
    let (place, sink) = (Place::new(), sink().await);
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let send = async |script: &str| {
        let body = json!({
            "channel": "crm", "to": sink.url(script), "reference": "canary-reference", "type": "canary_type",
            "content": {"body": {"name": "Canary Silva", "cpf": "390.533.447-05"}},
            "metadata": {"phone": "+5511987654321"},
        });
        client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    };
    for _ in 0..5 {
        send("/ok?canary=ana@canary.example").await;
    }
    send("/flaky?fail=1").await;
    send("/status/410").await;
    let claim = json!({"claimId": "CLM-CANARY-1", "submissionError": "TIMEOUT canary", "retryCount": 1});
    client.post("/v1/retry-decisions", Payload::json(&claim)).await.unwrap();
    drained(&client, 7).await;

    // What is committed is counted a moment later, and the slot is free a moment after that.
    let wanted = [
        (r#"pombo_messages_total{channel="crm",event="accepted"}"#, 7.0),
        (r#"pombo_messages_total{channel="crm",event="sent"}"#, 6.0),
        (r#"pombo_message_failures_total{channel="crm",reason="permanent_error"}"#, 1.0),
        (r#"pombo_attempts_total{channel="crm",number="1",outcome="sent"}"#, 5.0),
        (r#"pombo_attempts_total{channel="crm",number="2",outcome="sent"}"#, 1.0),
        (r#"pombo_delivery_seconds_count{channel="crm"}"#, 6.0),
        (r#"pombo_attempt_seconds_count{channel="crm"}"#, 8.0),
        (r#"pombo_dead_letters{channel="crm"}"#, 1.0),
        (r#"retry_scheduled_total{source="messages"}"#, 1.0),
        (r#"retry_scheduled_total{source="decisions"}"#, 1.0),
        (r#"permanent_errors_total{source="messages"}"#, 1.0),
        (r#"retry_analysis_duration_seconds_count{source="messages"}"#, 2.0),
        (r#"backoff_duration_minutes_count{source="messages"}"#, 1.0),
        ("retry_success_rate", 1.0),
        (r#"pombo_lane_slots{lane="default"}"#, 16.0),
        (r#"pombo_lane_slots_busy{lane="default"}"#, 0.0),
        ("pombo_store_writable", 1.0),
        ("pombo_log_lines_dropped_total", 0.0),
    ];
    let text = scraped(&client, &wanted).await;
    assert_eq!(complaints(&text), [MINUTES]);
    assert!(!text.to_lowercase().contains("canary"), "{text}");
    for personal in ["390.533", "987654321", "silva", &sink.url("/ok")] {
        assert!(!text.contains(personal), "{personal} is told:\n{text}");
    }
    assert!(value(&text, "pombo_store_disk_free_bytes").unwrap() > 0.0);
    assert!(value(&text, r#"pombo_store_file_bytes{file="database"}"#).unwrap() > 0.0);
    assert!(value(&text, "process_start_time_seconds").unwrap() > 1.7e9);

    let prometheus = Prometheus::start(&place.url());
    prometheus.answers(r#"sum(pombo_messages_total{event="sent"})"#, 6.0).await;
    prometheus.answers("sum(retry_scheduled_total)", 2.0).await;
    prometheus
        .answers(r#"histogram_quantile(0.5, sum by (le) (pombo_delivery_seconds_bucket)) > bool 0"#, 1.0)
        .await;
    prometheus.rules_are_well().await;
    for expression in dashboard() {
        prometheus.understands(&expression).await;
    }
    drop(prometheus);
    assert!(server.terminate().await.success());
}

#[tokio::test] // REQ OB-1
async fn a_node_on_postgresql_tells_the_same_and_its_clock() {
    let (place, sink) = (Place::new(), sink().await);
    let database = Cluster::shared().database();
    let server = place.start_on(database.url());
    place.ready().await;
    let client = place.client();
    for script in ["/ok", "/flaky?fail=1"] {
        let body = json!({"channel": "crm", "to": sink.url(script), "content": {"body": {}}});
        client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    }
    drained(&client, 2).await;
    let wanted = [
        (r#"pombo_messages_total{channel="crm",event="sent"}"#, 2.0),
        (r#"pombo_attempts_total{channel="crm",number="2",outcome="sent"}"#, 1.0),
        (r#"pombo_store_readers{for="doors"}"#, 4.0),
        (r#"pombo_store_readers{for="pages"}"#, 4.0),
        (r#"pombo_store_readers{for="engine"}"#, 4.0),
        ("pombo_store_readable", 1.0),
    ];
    let text = scraped(&client, &wanted).await;
    assert_eq!(complaints(&text), [MINUTES]);
    let unknown: Vec<String> = names(&text).difference(&documented()).cloned().collect();
    assert!(unknown.is_empty(), "not in docs/reference/metrics.md: {unknown:?}");
    assert!(value(&text, "pombo_store_clock_ahead_seconds").unwrap().abs() < 5.0, "{text}");
    assert!(server.terminate().await.success());
}

#[tokio::test] // REQ SE-1
async fn a_key_is_asked_for_where_that_is_configured_from_the_next_reload_on() {
    let place = Place::new();
    let file = place.folder.path().join("pombo.toml");
    let open = std::fs::read_to_string(&file).unwrap();
    let server = place.start();
    place.ready().await;
    let stranger = Client::new(&place.url(), None).unwrap();
    scrape(&stranger).await;
    std::fs::write(&file, format!("[metrics]\nrequire_key = true\n{open}")).unwrap();
    server.signal("-HUP");
    let mut asked = stranger.call(Method::GET, "/metrics", Payload::default()).await;
    for _ in 0..500 {
        if asked.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        asked = stranger.call(Method::GET, "/metrics", Payload::default()).await;
    }
    let refused = format!("{:?}", asked.expect_err("it was configured"));
    assert!(refused.contains("UNAUTHORIZED"), "{refused}");
    scrape(&place.client()).await;
    assert!(server.terminate().await.success());
}

#[tokio::test] // REQ OB-1
async fn the_reference_explains_every_metric_and_no_other() {
    let place = Place::new();
    let server = place.start();
    place.ready().await;
    let text = scrape(&place.client()).await;
    let page = documented();
    let unknown: Vec<String> = names(&text).difference(&page).cloned().collect();
    assert!(unknown.is_empty(), "not in docs/reference/metrics.md: {unknown:?}");
    // Some are told only once something has happened. All stand where they are made.
    let sources = [
        "engine/src/meter.rs",
        "store/src/meter/counts.rs",
        "store/src/meter/retries.rs",
        "store/src/shell/meter.rs",
        "web/src/meter.rs",
        "web/src/api/metrics.rs",
        "pombo/src/meter.rs",
        "pombo/src/log.rs",
    ]
    .map(|file| read(&format!("crates/{file}")))
    .concat();
    let stale: Vec<&String> = page.iter().filter(|name| !sources.contains(&format!("\"{name}\""))).collect();
    assert!(stale.is_empty(), "in docs/reference/metrics.md, and nobody makes them: {stale:?}");
    let literal = Regex::new(r#""(pombo_[a-z_]+)""#).unwrap();
    let made =
        literal.captures_iter(&sources).map(|found| found[1].to_owned()).filter(|name| !name.ends_with('_'));
    let missing: BTreeSet<String> = made.filter(|name| !page.contains(name)).collect();
    assert!(missing.is_empty(), "not in docs/reference/metrics.md: {missing:?}");
    assert!(server.terminate().await.success());
}

/// Every expression of the dashboard, with its variables filled in.
fn dashboard() -> Vec<String> {
    fn gather(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| match (name.as_str(), value) {
                ("expr", Value::String(text)) => found.push(text.clone()),
                _ => gather(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    gather(&serde_json::from_str(&read("deploy/grafana/pombo.json")).unwrap(), &mut found);
    assert!(found.len() > 20, "{found:?}");
    found.into_iter().map(|text| text.replace("$job", "pombo").replace("$__rate_interval", "5m")).collect()
}

/// Every metric that rules and dashboard speak of is one of ours.
#[test]
fn rules_and_dashboard_speak_of_metrics_that_there_are() {
    let page = documented();
    let words = Regex::new(r"\b((?:pombo|retry|max_retries|permanent|backoff|process)_[a-z_]+)\b").unwrap();
    let rules = read("deploy/prometheus/alerts.yml");
    let rules = rules
        .lines()
        .filter(|line| !line.contains("summary:") && !line.contains("action:"))
        .map(str::to_owned);
    let texts: Vec<String> = rules.chain(dashboard()).collect();
    let mut seen = 0;
    for text in &texts {
        for found in words.captures_iter(text) {
            let name = found[1].to_owned();
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|part| name.strip_suffix(part))
                .unwrap_or(&name);
            assert!(page.contains(base) || page.contains(&name), "there is no {name}: {text}");
            seen += 1;
        }
    }
    assert!(seen > 50, "only {seen} were looked at");
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(root().join("deploy/prometheus/alerts.yml"))
        .output()
        .unwrap_or_else(|error| panic!("promtool: {error}; scripts/setup installs it"));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// A Prometheus that scrapes one node, with the rules under `deploy/`.
struct Prometheus {
    process: Child,
    client: Client,
    folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(node: &str) -> Prometheus {
        let folder = tempfile::tempdir().unwrap();
        let rules = root().join("deploy/prometheus/alerts.yml").canonicalize().unwrap();
        let target = node.strip_prefix("http://").unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs: [{{job_name: pombo, static_configs: [{{targets: [\"{target}\"]}}]}}]\n",
            rules.display()
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={free}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus: {error}; scripts/setup installs it"));
        let client = Client::new(&format!("http://{free}"), None).unwrap();
        Prometheus { process, client, folder }
    }

    async fn query(&self, expression: &str) -> Option<Value> {
        let words: String = url::form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        self.client.get(&format!("/api/v1/query?query={words}")).await.ok()
    }

    /// Waits until a query gives this one number.
    async fn answers(&self, expression: &str, expected: f64) {
        let mut last = None;
        for _ in 0..300 {
            last = self.query(expression).await;
            let found = last.as_ref().and_then(|answer| answer["data"]["result"][0]["value"][1].as_str());
            if found.and_then(|found| found.parse::<f64>().ok()) == Some(expected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{expression} is not {expected}: {last:?}\n{}", self.log());
    }

    async fn understands(&self, expression: &str) {
        let answer = self.query(expression).await;
        assert!(answer.is_some_and(|answer| answer["status"] == "success"), "{expression}\n{}", self.log());
    }

    /// Waits until every rule was evaluated, and none with an error.
    async fn rules_are_well(&self) {
        let mut last = Value::Null;
        for _ in 0..300 {
            last = self.client.get("/api/v1/rules").await.unwrap_or_default();
            let rules = last["data"]["groups"][0]["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
            let errors: Vec<&Value> = rules.iter().filter(|rule| rule["health"] == "err").collect();
            assert!(errors.is_empty(), "{errors:?}");
            if rules.len() > 10 && rules.iter().all(|rule| rule["health"] == "ok") {
                let firing = rules.iter().filter(|rule| rule["state"] == "firing");
                assert_eq!(firing.count(), 0, "nothing is wrong with the node: {rules:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the rules were not evaluated: {last}\n{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
