//! Mails handed in over SMTP by clients that others wrote, to the real binary, and what arrives at the other end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../place/mod.rs"]
mod place;
mod postfix;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo::client::Payload;
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_channels::sandbox::smtp::{self, SmtpSandbox, Taken};
use pombo_kernel::secret::Secret;
use pombo_testbed::Cluster;
use serde_json::{Value, json};

use place::clients::{node, python, run};
use place::{Place, Server, drained};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PROVIDER_KEY: &str = "canary-secret-7719";

/// A Pombo that takes mails in, with channels that lead to pretend providers, and a key for an application.
struct House {
    place: Place,
    port: u16,
    key: String,
    server: Server,
}

impl House {
    async fn open(channels: &str, database: Option<&str>) -> House {
        let place = Place::new();
        let folder = place.folder.path().to_owned();
        std::fs::write(folder.join("secret"), PROVIDER_KEY).unwrap();
        certificate(&folder, "localhost");
        let port = TcpListener::bind(ANYWHERE).unwrap().local_addr().unwrap().port();
        let config = format!(
            "{channels}\n[channels.hook]\nkind = \"webhook\"\n[limits]\nattachment_bytes = 2000000\n[smtp]\n\
             listen = \"127.0.0.1:{port}\"\nhostname = \"pombo.example\"\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n"
        );
        std::fs::write(folder.join("pombo.toml"), config).unwrap();
        let server = match database {
            Some(url) => place.start_on(url),
            None => place.start(),
        };
        place.ready().await;
        let wish = json!({"role": "producer", "label": "application"});
        let made = place.client().post("/v1/keys", Payload::json(&wish)).await.unwrap();
        House { key: made["key"].as_str().unwrap().to_owned(), place, port, server }
    }

    fn certificate(&self) -> PathBuf {
        self.place.folder.path().join("cert.pem")
    }

    /// Tells a client where to go.
    fn direct(&self, mut client: Command) -> Command {
        client
            .env("SMTP_PORT", self.port.to_string())
            .env("SMTP_USER", "email")
            .env("SMTP_KEY", &self.key)
            .env("SMTP_CA", self.certificate());
        client
    }

    async fn messages(&self) -> Vec<Value> {
        drained(&self.place.client(), 0).await;
        self.place.client().get("/v1/messages?limit=500").await.unwrap()["items"].as_array().unwrap().clone()
    }

    /// A connection in the clear, past its greeting.
    fn plain(&self) -> Plain {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut plain = Plain(BufReader::new(stream));
        assert_eq!(plain.reply(), "220 pombo.example ESMTP Pombo");
        plain
    }

    /// The same, known by its key.
    fn known(&self) -> Plain {
        let mut plain = self.plain();
        let word = BASE64.encode(format!("\0email\0{}", self.key));
        assert!(plain.ask("EHLO test").starts_with("250 "));
        assert_eq!(plain.ask(&format!("AUTH PLAIN {word}")), "235 2.7.0 welcome");
        plain
    }
}

struct Plain(BufReader<TcpStream>);

impl Plain {
    fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The last line of the next reply; nothing if the server hung up.
    fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.is_empty() || line.as_bytes()[3] == b' ' {
                return line.trim_end().to_owned();
            }
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(&format!("{line}\r\n"));
        self.reply()
    }
}

fn certificate(folder: &Path, name: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", &format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output()
        .expect("openssl is there: scripts/setup brings it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

async fn mail_server() -> (SmtpSandbox, String) {
    let options = smtp::Options { keep: true, ..smtp::Options::default() };
    let sandbox = SmtpSandbox::start(ANYWHERE, &options).await.unwrap();
    let channel = format!(
        "[channels.email]\nkind = \"smtp\"\nurl = \"{}\"\ntls = \"none\"\n[channels.email.retry]\nbase = \"50ms\"\n",
        sandbox.url()
    );
    (sandbox, channel)
}

/// What arrived for one recipient, and where it had been before.
fn arrived(provider: &SmtpSandbox, to: &str) -> Vec<(Taken, String)> {
    let taken = provider.taken().into_iter().filter(|taken| taken.to == to);
    let split = |taken: Taken| {
        let end =
            taken.mail.windows(3).position(|bytes| bytes[..2] == *b"\r\n" && bytes[2] != b'\t').unwrap() + 2;
        let trace = String::from_utf8(taken.mail[..end].to_vec()).unwrap();
        assert!(trace.starts_with("Received: by pombo.example (Pombo) with ESMTP"), "{trace}");
        (Taken { mail: taken.mail[end..].to_vec(), ..taken }, trace)
    };
    taken.map(split).collect()
}

/// Python's smtplib against a Pombo that sends by SMTP.
async fn smtplib_and_smtp(database: Option<&str>) {
    let (provider, channel) = mail_server().await;
    let house = House::open(&channel, database).await;
    let said: Value = serde_json::from_str(&run(house.direct(python("smtp_client.py"))).await).unwrap();
    assert_eq!(
        said["offers"],
        json!(["8bitmime", "auth", "enhancedstatuscodes", "help", "pipelining", "size"])
    );
    assert_eq!(said["refused"], json!({"nobody": 553}), "and the others were taken: {said}");
    assert_eq!((&said["again"], &said["other"], &said["latin"]), (&json!({}), &json!({}), &json!({})));
    for (what, code) in [
        ("announced", 552),
        ("large", 552),
        ("after", 250),
        ("keyless", 530),
        ("stranger", 535),
        ("channel", 535),
        ("kind", 535),
    ] {
        assert_eq!(said[what], code, "{what}: {said}");
    }
    assert_eq!(said["nobody"], json!({"nobody": 553}));
    assert_eq!(said["injected"], json!(["214", "221"]), "what came before the handshake counts for nothing");

    let messages = house.messages().await;
    assert_eq!(
        messages.len(),
        4,
        "a repeat is no message, another mail under the same id is one: {messages:?}"
    );
    assert!(messages.iter().all(|message| message["state"] == "sent"), "{messages:?}");
    let raw = String::from_utf8(BASE64.decode(said["raw"].as_str().unwrap()).unwrap()).unwrap();
    let open = raw.replace("Bcc: hidden@x.example\r\n", "");
    assert_ne!(raw, open);
    for to in ["ana@x.example", "bia@x.example"] {
        let mails = arrived(&provider, to);
        assert_eq!(mails.len(), if to.starts_with("ana") { 2 } else { 1 });
        let (taken, trace) =
            mails.iter().find(|(taken, _)| taken.mail == open.as_bytes()).expect("byte for byte");
        assert_eq!(
            (taken.from.as_str(), taken.message_id.as_str()),
            ("mail@clinic.example", "<python-1@clinic.example>")
        );
        assert!(trace.contains("with ESMTPSA id grp_"), "{trace}");
    }
    let (latin, _) = &arrived(&provider, "latin@x.example")[0];
    let sent = BASE64.decode(said["latin_raw"].as_str().unwrap()).unwrap();
    let body = sent.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    assert!(latin.mail.starts_with(&sent[..body]) && latin.mail.ends_with(&sent[body..]), "{latin:?}");
    assert!(latin.from.is_empty() && latin.message_id.starts_with("<grp_"), "{latin:?}");

    let group = messages.iter().find(|message| message["to"] == "bia@x.example").unwrap();
    let path = format!("/v1/messages/{}", group["id"].as_str().unwrap());
    let message = house.place.client().get(&path).await.unwrap();
    assert_eq!(
        (&message["content"]["subject"], &message["content"]["from"]),
        (&json!("Olá, Ana"), &json!("Clínica <mail@clinic.example>"))
    );
    assert!(message["content"]["mime"]["blob"].is_string(), "the mail itself is kept apart: {message}");
    assert_eq!(message["metadata"]["group"], message["reference"]);
    assert!(!house.place.said().contains(&house.key), "no key is logged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3, ML-3
async fn what_smtplib_hands_in_arrives_byte_for_byte() {
    smtplib_and_smtp(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3, ML-3
async fn what_smtplib_hands_in_arrives_byte_for_byte_by_way_of_postgresql() {
    let database = Cluster::shared().database();
    smtplib_and_smtp(Some(database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn nodemailer_hands_in_mails_over_a_pool_of_connections() {
    let (provider, channel) = mail_server().await;
    let house = House::open(&channel, None).await;
    let said: Value = serde_json::from_str(&run(house.direct(node("smtp_client.cjs"))).await).unwrap();
    assert_eq!(said["accepted"], json!(["node-1@x.example", "node-2@x.example", "node-3@x.example"]));
    assert!(said["response"].as_str().unwrap().starts_with("250 2.0.0 accepted as grp_"), "{said}");
    assert_eq!((&said["large"], &said["stranger"]), (&json!(552), &json!(535)));
    assert_eq!(house.messages().await.len(), 7);
    for n in 1..=7 {
        let mails = arrived(&provider, &format!("node-{n}@x.example"));
        let [(taken, _)] = &mails[..] else { panic!("{n}: {mails:?}") };
        let text = String::from_utf8(taken.mail.clone()).unwrap();
        assert!(!text.contains("node-3@"), "a blind copy is blind: {text}");
        assert_eq!(n <= 3, taken.message_id == said["id"].as_str().unwrap(), "{}", taken.message_id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn curl_and_swaks_hand_in_mails() {
    let (provider, channel) = mail_server().await;
    let house = House::open(&channel, None).await;
    let mail = house.place.folder.path().join("mail");
    std::fs::write(&mail, "From: mail@clinic.example\nSubject: curl\n\nhi\n.\n\n.x\n").unwrap();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--ssl-reqd", "--cacert", house.certificate().to_str().unwrap()])
        .args([
            "--url",
            &format!("smtp://localhost:{}", house.port),
            "--user",
            &format!("email:{}", house.key),
        ])
        .args(["--mail-from", "mail@clinic.example", "--mail-rcpt", "curl@x.example", "--upload-file"])
        .arg(&mail);
    run(curl).await;
    let swaks = |mechanism: &str| {
        let mut swaks = Command::new("swaks");
        swaks
            .args([
                "--server",
                "127.0.0.1",
                "--port",
                &house.port.to_string(),
                "--pipeline",
                "--auth",
                mechanism,
            ])
            .args(["--auth-user", "email", "--auth-password", &house.key, "--from", "mail@clinic.example"])
            .args(["--to", &format!("{mechanism}@x.example"), "--body", "swaks was here"]);
        swaks
    };
    run(swaks("PLAIN")).await;
    run(swaks("LOGIN")).await;
    assert_eq!(house.messages().await.len(), 3);
    let (taken, trace) = &arrived(&provider, "curl@x.example")[0];
    let text = String::from_utf8(taken.mail.clone()).unwrap();
    assert!(text.starts_with("From: mail@clinic.example\r\nSubject: curl\r\nDate: "), "{text}");
    // Curl ends a text that does not end in CR LF with an empty line.
    assert!(text.ends_with("\r\n\r\nhi\r\n.\r\n\r\n.x\r\n\r\n"), "{text}");
    assert!(trace.contains("with ESMTPSA id"), "{trace}");
    for to in ["PLAIN@x.example", "LOGIN@x.example"] {
        let (taken, trace) = &arrived(&provider, to)[0];
        assert!(
            taken.mail.windows(14).any(|bytes| bytes == b"swaks was here")
                && trace.contains("with ESMTPA id")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn postfix_hands_everything_on_as_the_guide_says() {
    let (provider, channel) = mail_server().await;
    let house = House::open(&channel, None).await;
    let (port, certificate, key) = (house.port, house.certificate(), house.key.clone());
    let start = move || postfix::start(port, &certificate, &key);
    let postfix = tokio::task::spawn_blocking(start).await.unwrap();
    let mail = house.place.folder.path().join("mail");
    std::fs::write(&mail, "From: mail@clinic.example\r\nSubject: relayed\r\n\r\n.hi\r\n").unwrap();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--url", &format!("smtp://127.0.0.1:{}", postfix.port())])
        .args([
            "--mail-from",
            "bounces@clinic.example",
            "--mail-rcpt",
            "a@x.example",
            "--mail-rcpt",
            "b@y.example",
        ])
        .arg("--upload-file")
        .arg(&mail);
    run(curl).await;
    for to in ["a@x.example", "b@y.example"] {
        let here = async {
            while arrived(&provider, to).is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), here)
            .await
            .unwrap_or_else(|_| panic!("{}", postfix.log()));
        let (taken, trace) = &arrived(&provider, to)[0];
        let text = String::from_utf8(taken.mail.clone()).unwrap();
        assert!(text.starts_with("Received: from ") && text.contains("\r\nSubject: relayed\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n.hi\r\n"), "{text}");
        assert_eq!(taken.from, "bounces@clinic.example");
        assert!(trace.contains("with ESMTPSA id"), "{trace}");
    }
    assert!(
        postfix.log().contains("relay=localhost[127.0.0.1]")
            && postfix.log().contains("250 2.0.0 accepted as")
    );
    tokio::task::spawn_blocking(move || drop(postfix)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn through_resend_a_mail_has_the_parts_that_it_came_with() {
    let options =
        resend::Options { api_key: Some(Secret::new(PROVIDER_KEY)), rate: 0, ..resend::Options::default() };
    let provider = ResendSandbox::start(ANYWHERE, &options).await.unwrap();
    let channel = format!(
        "[channels.email]\nkind = \"resend\"\nbase_url = \"{}\"\napi_key_file = \"secret\"\nrate = \"100/s\"\n",
        provider.url()
    );
    let house = House::open(&channel, None).await;
    let said: Value = serde_json::from_str(&run(house.direct(node("smtp_client.cjs"))).await).unwrap();
    assert_eq!((&said["large"], &said["stranger"]), (&json!(552), &json!(535)), "{said}");
    let messages = house.messages().await;
    assert_eq!(messages.iter().filter(|message| message["state"] == "sent").count(), 7, "{messages:?}");
    let mails = provider.mails();
    let mail = mails.iter().find(|mail| mail["to"] == json!(["node-3@x.example"])).unwrap();
    assert_eq!((&mail["from"], &mail["subject"]), (&json!("Clínica <mail@clinic.example>"), &json!("Olá")));
    assert_eq!((mail["text"].as_str().unwrap().trim_end(), &mail["html"]), ("oi\n.", &json!("<p>oi</p>")));
    let names: Vec<&str> =
        mail["attachments"].as_array().unwrap().iter().map(|it| it["filename"].as_str().unwrap()).collect();
    assert_eq!(names, ["b.png", "a.txt"]);
    assert_eq!(mail["attachments"][1]["content"], BASE64.encode("x".repeat(5000)));
    assert_eq!(mail["attachments"][0]["content_id"], "logo");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3, promise 1
async fn a_mail_that_was_confirmed_survives_a_kill_right_after() {
    let (provider, channel) = mail_server().await;
    provider.outage(true);
    let mut house = House::open(&channel, None).await;
    let confirmed = {
        let mut plain = house.known();
        let many = "MAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nRCPT TO:<c@x.example>\r\nDATA\r\n";
        plain.say(many);
        let codes: Vec<String> = (0..4).map(|_| plain.reply()[..3].to_owned()).collect();
        assert_eq!(codes, ["250", "250", "250", "354"], "pipelined");
        plain.ask("Subject: s\r\n\r\nhi\r\n.")
    };
    house.server.kill();
    assert!(confirmed.starts_with("250 2.0.0 accepted as grp_"), "{confirmed}");
    provider.outage(false);
    house.server = house.place.start();
    house.place.ready().await;
    let messages = house.messages().await;
    assert_eq!(messages.len(), 2);
    for to in ["b@x.example", "c@x.example"] {
        assert_eq!(arrived(&provider, to).len(), 1, "{to}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ IN-3
async fn a_stop_lets_a_mail_end_and_says_goodbye_to_the_rest() {
    let (provider, channel) = mail_server().await;
    let mut house = House::open(&channel, None).await;
    let (mut idle, mut busy) = (house.known(), house.known());
    busy.say("MAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\n");
    let codes: Vec<String> = (0..3).map(|_| busy.reply()[..3].to_owned()).collect();
    assert_eq!(codes, ["250", "250", "354"]);
    busy.say("Subject: s\r\n");
    house.server.signal("-TERM");
    assert!(idle.reply().starts_with("421 4.3.2 "), "whoever has nothing under way is told");
    let last = busy.ask("\r\nhi\r\n.");
    assert!(last.starts_with("250 2.0.0 accepted as msg_"), "{last}");
    assert!(busy.reply().starts_with("421 4.3.2 "));
    assert!(house.server.ended().await.success());
    house.server = house.place.start();
    house.place.ready().await;
    assert_eq!(house.messages().await.len(), 1);
    assert_eq!(arrived(&provider, "b@x.example").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ SE-1
async fn a_new_certificate_is_shown_after_a_reload_and_a_bad_one_changes_nothing() {
    let (provider, channel) = mail_server().await;
    let house = House::open(&channel, None).await;
    let shown = || {
        let mut openssl = Command::new("openssl");
        openssl.args([
            "s_client",
            "-starttls",
            "smtp",
            "-connect",
            &format!("127.0.0.1:{}", house.port),
            "-brief",
        ]);
        let said = openssl.stdin(std::process::Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&said.stderr).into_owned()
    };
    let folder = house.place.folder.path();
    let becomes = async |name: &str| {
        for _ in 0..200 {
            if shown().contains(&format!("CN = {name}")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{}\n{}", shown(), house.place.said());
    };
    becomes("localhost").await;
    certificate(folder, "renewed");
    house.server.signal("-HUP");
    becomes("renewed").await;

    // From the first byte on.
    let file = folder.join("pombo.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{config}implicit_tls = true\n")).unwrap();
    house.server.signal("-HUP");
    let curl = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--cacert", house.certificate().to_str().unwrap()])
            .args([
                "--url",
                &format!("smtps://localhost:{}", house.port),
                "--user",
                &format!("email:{}", house.key),
            ])
            .args(["--mail-from", "mail@clinic.example", "--mail-rcpt", "curl@x.example", "--upload-file"])
            .arg(&file);
        curl.output().unwrap().status.success()
    };
    for _ in 0..200 {
        if curl() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(house.messages().await.len(), 1);
    assert!(arrived(&provider, "curl@x.example")[0].1.contains("with ESMTPSA id"));
    std::fs::write(&file, config).unwrap();
    house.server.signal("-HUP");
    becomes("renewed").await;

    std::fs::write(folder.join("key.pem"), "no key").unwrap();
    house.server.signal("-HUP");
    for _ in 0..200 {
        if house.place.said().contains("smtp.tls_key") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(house.place.said().contains("smtp.tls_key"), "{}", house.place.said());
    becomes("renewed").await;
}
