//! Clients that others wrote for other systems, against the real binary: it stands in for those systems, and the
//! clients are told nothing but its address and a key.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use pombo::client::Payload;
use pombo_channels::sandbox::evolution::{self, EvolutionSandbox};
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_channels::sandbox::smtp::{self, SmtpSandbox};
use pombo_kernel::secret::Secret;
use pombo_testbed::Cluster;
use serde_json::{Value, json};

use place::clients::{installed, node, python, run, scripts};
use place::{Place, Server, drained};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PROVIDER_KEY: &str = "canary-secret-7719";

/// A place whose channels lead to pretend providers, and a key for an application.
struct House {
    place: Place,
    key: String,
    _server: Server,
}

impl House {
    /// With these channels; on an embedded store, or on that database.
    async fn open(channels: &str, database: Option<&str>) -> House {
        let place = Place::new();
        let secret = place.folder.path().join("secret");
        std::fs::write(&secret, PROVIDER_KEY).unwrap();
        let config = channels.replace("SECRET", secret.to_str().unwrap());
        std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
        let server = match database {
            Some(url) => place.start_on(url),
            None => place.start(),
        };
        place.ready().await;
        let wish = json!({"role": "producer", "label": "application"});
        let made = place.client().post("/v1/keys", Payload::json(&wish)).await.unwrap();
        House { key: made["key"].as_str().unwrap().to_owned(), place, _server: server }
    }

    /// Tells a client of Resend where to go.
    fn direct(&self, mut client: Command) -> Command {
        client
            .env("RESEND_BASE_URL", self.place.url())
            .env("RESEND_API_URL", self.place.url())
            .env("RESEND_API_KEY", &self.key)
            .env("RESEND_RATE_LIMIT", "1000");
        client
    }

    async fn messages(&self) -> Vec<Value> {
        drained(&self.place.client(), 0).await;
        self.place.client().get("/v1/messages?limit=500").await.unwrap()["items"].as_array().unwrap().clone()
    }
}

async fn resend() -> (ResendSandbox, String) {
    let options =
        resend::Options { api_key: Some(Secret::new(PROVIDER_KEY)), rate: 0, ..resend::Options::default() };
    let sandbox = ResendSandbox::start(ANYWHERE, &options).await.unwrap();
    let channel = format!(
        "[channels.resend]\nkind = \"resend\"\nbase_url = \"{}\"\napi_key_file = \"SECRET\"\nrate = \"100/s\"\n\
         from = \"Clínica <mail@clinic.example>\"\n",
        sandbox.url()
    );
    (sandbox, channel)
}

async fn smtp() -> (SmtpSandbox, String) {
    let options = smtp::Options { keep: true, ..smtp::Options::default() };
    let sandbox = SmtpSandbox::start(ANYWHERE, &options).await.unwrap();
    let channel = format!("[channels.email]\nkind = \"smtp\"\nurl = \"{}\"\ntls = \"none\"\n", sandbox.url());
    (sandbox, channel)
}

/// What a client of Resend must have been told, whichever it is.
fn as_from_resend(said: &str) -> Value {
    let said: Value = serde_json::from_str(said).unwrap();
    assert_eq!(said["again"], said["sent"], "the same mail under the same key: {said}");
    assert_eq!(said["batch_again"], said["batch"]);
    assert_eq!(said["batch"].as_array().map(Vec::len), Some(2));
    assert_eq!(said["permissive"], json!({"sent": 1, "errors": [0]}));
    for (what, name) in [
        ("conflict", "invalid_idempotent_request"),
        ("batch_conflict", "invalid_idempotent_request"),
        ("invalid", "validation_error"),
        ("missing", "missing_required_field"),
        ("strict", "validation_error"),
        ("stranger", "validation_error"),
    ] {
        assert_eq!(said[what], name, "{what}: {said}");
    }
    assert_eq!(said["limited"]["name"], "rate_limit_exceeded", "{said}");
    assert_eq!(said["limited"]["remaining"], 0);
    assert!(said["limited"]["reset"].as_u64().is_some_and(|seconds| seconds > 0), "{said}");
    let event = said["event"].as_str().unwrap();
    assert!(["queued", "sent"].contains(&event), "{event}");
    said
}

/// A client of Resend, of that name, against a Pombo that sends through Resend.
async fn through_resend(name: &str, client: Command) {
    let (provider, channel) = resend().await;
    let house = House::open(&channel, None).await;
    let said = as_from_resend(&run(house.direct(client)).await);
    let messages = house.messages().await;
    assert_eq!(messages.len(), 4, "one, two of a list, and one of a list with a mistake: {messages:?}");
    assert!(messages.iter().all(|message| message["state"] == "sent"), "{messages:?}");

    let id = said["sent"].as_str().unwrap();
    let mails = provider.mails();
    assert_eq!(mails.len(), 4, "and each of them once");
    let first = format!("{name}-1@x.example");
    let mail = mails.iter().find(|mail| mail["to"][0] == first.as_str()).unwrap();
    assert_eq!(
        *mail,
        json!({
            "from": "Clínica <mail@clinic.example>", "to": [first, format!("Bia <{name}-2@x.example>")],
            "cc": [format!("{name}-3@x.example")], "bcc": [format!("{name}-4@x.example")],
            "reply_to": ["answers@clinic.example"], "subject": "Olá", "html": "<p>oi</p>", "text": "oi",
            "headers": {"X-Entity-Ref-ID": name}, "tags": [{"name": "client", "value": name}],
            "attachments": [{"filename": "a.txt", "content": "aGk=", "content_type": "text/plain"}],
        })
    );
    let message = house.place.client().get(&format!("/v1/messages/{id}")).await.unwrap();
    assert_eq!(message["state"], "sent", "the id is the message's, in every door");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3, ML-3
async fn resends_client_for_node_finds_resend() {
    through_resend("node", node("resend.cjs")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3, ML-3
async fn resends_client_for_python_finds_resend() {
    through_resend("python", python("resend_client.py")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3, ML-3
async fn resends_client_for_rust_finds_resend() {
    let target = installed().join("resend-rs");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    build.args(["build", "--quiet", "--locked"]).current_dir(scripts().join("resend-rs"));
    run({
        build.env("CARGO_TARGET_DIR", &target);
        build
    })
    .await;
    through_resend("rust", Command::new(target.join("debug/resend-client"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn a_client_of_resend_sends_over_smtp_and_every_recipient_gets_the_mail() {
    let (provider, channel) = smtp().await;
    let house = House::open(&channel, None).await;
    as_from_resend(&run(house.direct(node("resend.cjs"))).await);
    let messages = house.messages().await;
    assert_eq!(messages.len(), 7, "a message for each recipient: {messages:?}");
    assert!(messages.iter().all(|message| message["state"] == "sent"), "{messages:?}");
    let taken = provider.taken();
    for to in 1..=4 {
        let to = format!("node-{to}@x.example");
        let mails: Vec<_> = taken.iter().filter(|taken| taken.to == to).collect();
        assert_eq!(mails.len(), 1, "{to}");
        let mail = String::from_utf8(mails[0].mail.clone()).unwrap();
        let head = mail.split("\r\n\r\n").next().unwrap().replace("\r\n ", " ");
        assert!(head.contains("\r\nTo: node-1@x.example, Bia <node-2@x.example>\r\n"), "{head}");
        assert!(head.contains("\r\nCc: node-3@x.example\r\n"), "{head}");
        assert!(head.contains("\r\nReply-To: answers@clinic.example\r\n"), "{head}");
        assert!(head.contains("X-Entity-Ref-ID: node"), "{head}");
        assert!(!mail.contains("node-4@"), "whoever is hidden stays so");
        assert_eq!(mails[0].from, "mail@clinic.example");
    }
}

/// The commands of an application's own documentation, with another address and another key.
async fn queue_commands(database: Option<&str>) {
    let (provider, channel) = resend().await;
    let house = House::open(&channel, database).await;
    let template = json!({"subject": "Bem-vindo", "text": "Olá, {{ user_data.full_name }}!"});
    let client = house.place.client();
    client.put("/v1/templates/welcome_user", Payload::json(&template)).await.unwrap();
    let commands = std::fs::read_to_string(scripts().join("queue.sh")).unwrap();
    let here = house.place.url();
    let commands = commands.replace("http://localhost:54321", &here).replace("SERVICE_ROLE_KEY", &house.key);
    let mut bash = Command::new("bash");
    bash.args(["-euc", &commands]);
    let said = run(bash).await;
    let (id, counts) = said.split_at(38);
    let id: String = serde_json::from_str(id).unwrap();
    let counts: Value = serde_json::from_str(counts).unwrap();
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((count("failed"), count("pending")), (0, 0), "{counts}");
    assert!(count("processed") <= 1 && count("sent") == count("processed"), "{counts}");
    let message = client.get(&format!("/v1/messages/{id}")).await.unwrap();
    assert_eq!((&message["state"], &message["user_id"]), (&json!("sent"), &json!("USER_UUID")), "{message}");
    let mails = provider.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!(
        (&mails[0]["to"], &mails[0]["text"]),
        (&json!(["test@example.com"]), &json!("Olá, Test User!"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn the_commands_of_an_email_queue_at_supabase_work_on_the_embedded_store() {
    queue_commands(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn the_commands_of_an_email_queue_at_supabase_work_on_postgresql() {
    let database = Cluster::shared().database();
    queue_commands(Some(database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn what_is_said_to_evolution_arrives_on_whatsapp() {
    let options = evolution::Options {
        api_key: Secret::new(PROVIDER_KEY),
        receipt_gap: Duration::from_millis(20),
        ..evolution::Options::default()
    };
    let provider = EvolutionSandbox::start(ANYWHERE, options).await.unwrap();
    let channel = format!(
        "[channels.whatsapp]\nkind = \"evolution\"\nbase_url = \"{}\"\ninstance = \"sandbox\"\napi_key_file = \"SECRET\"\n",
        provider.url()
    );
    let house = House::open(&channel, None).await;
    let post = async |route: &str, body: Value| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--write-out", "\n%{http_code}"])
            .args(["--header", &format!("apikey: {}", house.key)])
            .args(["--header", "Content-Type: application/json", "--data", &body.to_string()])
            .arg(format!("{}/message/{route}/sandbox", house.place.url()));
        let said = run(curl).await;
        let (document, status) = said.rsplit_once('\n').unwrap();
        assert_eq!(status, "201", "{document}");
        serde_json::from_str::<Value>(document).unwrap()
    };
    let text = post("sendText", json!({"number": "5511987654321", "text": "oi"})).await;
    let media = json!({"number": "5511987654322", "mediatype": "image", "media": "aGk=", "caption": "veja"});
    let media = post("sendMedia", media).await;
    let messages = house.messages().await;
    for answer in [text, media] {
        assert_eq!(answer["status"], "PENDING");
        let sent = messages.iter().find(|message| message["id"] == answer["key"]["id"]).unwrap();
        assert_eq!(sent["state"], "sent", "the key's id is the message's: {sent}");
    }
    let mut bodies: Vec<Value> = provider.sent().into_iter().map(|sent| sent.body).collect();
    bodies.sort_by_key(|body| body["number"].to_string());
    assert_eq!((&bodies[0]["number"], &bodies[0]["text"]), (&json!("5511987654321"), &json!("oi")));
    assert_eq!((&bodies[1]["media"], &bodies[1]["caption"]), (&json!("aGk="), &json!("veja")));
}
