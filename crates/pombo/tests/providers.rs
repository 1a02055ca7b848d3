//! Every kind of channel through the real binary, against pretend providers that keep their own count.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../channels/tests/parts/authority.rs"]
#[allow(dead_code, reason = "the channels' tests use more of it")]
mod authority;
mod place;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo::clock::SystemClock;
use pombo_channels::sandbox::evolution::{self, EvolutionSandbox, Hook, State};
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_channels::sandbox::smtp::{self, SmtpSandbox};
use pombo_channels::sandbox::tiss::{TissOptions, TissSandbox};
use pombo_kernel::secret::Secret;
use pombo_kernel::time::{Clock as _, Time};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

use authority::Authority;
use place::{Place, Server, binary, ended, follow, send};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const EVOLUTION_KEY: &str = "canary-secret-evolution-8841";
const EVOLUTION_TOKEN: &str = "canary-secret-token-8842";
const RESEND_KEY: &str = "re_canary-secret_8843";
const RESEND_SECRET: &str = "whsec_Y2FuYXJ5LXNlY3JldC1yZXNlbmQtODg0NA==";
const SMTP_PASSWORD: &str = "canary-secret-smtp-8845";
const TISS_PASSWORD: &str = "canary-secret-tiss-8846";

struct Providers {
    evolution: EvolutionSandbox,
    resend: ResendSandbox,
    tiss: TissSandbox,
    smtp: SmtpSandbox,
}

impl Providers {
    /// All of them; those that report do so to the server of that place.
    async fn start(place: &Place) -> Providers {
        let report = |channel: &str| format!("{}/v1/receipts/{channel}", place.url());
        let token = BTreeMap::from([("authorization".to_owned(), format!("Bearer {EVOLUTION_TOKEN}"))]);
        let hook = Hook { url: report("whatsapp").parse().unwrap(), headers: token, by_events: false };
        let time = SystemClock::new();
        Providers {
            evolution: EvolutionSandbox::start(
                ANYWHERE,
                evolution::Options {
                    api_key: Secret::new(EVOLUTION_KEY),
                    hook: Some(hook),
                    receipt_gap: Duration::from_millis(20),
                    ..evolution::Options::default()
                },
            )
            .await
            .unwrap(),
            resend: ResendSandbox::start(
                ANYWHERE,
                &resend::Options {
                    api_key: Some(Secret::new(RESEND_KEY)),
                    reports: Some((report("resend"), Secret::new(RESEND_SECRET))),
                    clock: Some(Arc::new(move || time.now())),
                    ..resend::Options::default()
                },
            )
            .await
            .unwrap(),
            tiss: TissSandbox::start(
                ANYWHERE,
                &TissOptions {
                    login: Some(("clinic".to_owned(), TISS_PASSWORD.to_owned())),
                    ..TissOptions::default()
                },
            )
            .await
            .unwrap(),
            smtp: SmtpSandbox::start(
                ANYWHERE,
                &smtp::Options {
                    user: Some(("clinic".to_owned(), Secret::new(SMTP_PASSWORD))),
                    keep: true,
                    greylist_seconds: 1,
                    ..smtp::Options::default()
                },
            )
            .await
            .unwrap(),
        }
    }

    fn config(&self) -> String {
        format!(
            r#"
[channels.whatsapp]
kind = "evolution"
base_url = "{}"
instance = "sandbox"
api_key = "${{EVOLUTION_KEY}}"
receipt_secret = "${{EVOLUTION_TOKEN}}"
probe_every = "1s"
[channels.whatsapp.retry]
delays = ["20ms", "20ms", "20ms"]
[channels.resend]
kind = "resend"
base_url = "{}"
api_key = "${{RESEND_KEY}}"
from = "Clínica <mail@clinic.example>"
receipt_secret = "${{RESEND_SECRET}}"
rate = "50/s"
[channels.resend.retry]
delays = ["20ms", "20ms", "20ms"]
[channels.claims]
kind = "tiss"
url = "{}"
registro_ans = "123456"
provider = "0001"
login = "clinic"
password = "${{TISS_PASSWORD}}"
[channels.claims.retry]
base = "20ms"
floor = "20ms"
cap = "50ms"
[channels.email]
kind = "smtp"
url = "smtp://{}"
tls = "none"
username = "clinic"
password = "${{SMTP_PASSWORD}}"
from = "Clínica <mail@clinic.example>"
[channels.email.retry]
base = "20ms"
cap = "50ms"
"#,
            self.evolution.url(),
            self.resend.url(),
            self.tiss.url(),
            self.smtp.address,
        )
    }
}

fn serve(place: &Place, config: &str) -> Server {
    serve_by(Command::new(binary()), place, config)
}

fn serve_by(mut command: Command, place: &Place, config: &str) -> Server {
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
    command
        .env("EVOLUTION_KEY", EVOLUTION_KEY)
        .env("EVOLUTION_TOKEN", EVOLUTION_TOKEN)
        .env("RESEND_KEY", RESEND_KEY)
        .env("RESEND_SECRET", RESEND_SECRET)
        .env("SMTP_PASSWORD", SMTP_PASSWORD)
        .env("TISS_PASSWORD", TISS_PASSWORD)
        .env("POMBO_LOG", "debug");
    place.start_with(command, &place.data())
}

fn lot(number: &str) -> String {
    format!(
        "<ans:loteGuias xmlns:ans=\"http://www.ans.gov.br/padroes/tiss/schemas\"><ans:numeroLote>{number}</ans:numeroLote>\
         <ans:guiasTISS><ans:guiaConsulta><ans:beneficiario>Canário Oitenta</ans:beneficiario></ans:guiaConsulta>\
         </ans:guiasTISS></ans:loteGuias>"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ CF-3, CF-5, CF-6, ML-9, OB-2
async fn every_channel_delivers_fails_plainly_and_keeps_persons_and_secrets_to_itself() {
    let place = Place::new();
    let providers = Providers::start(&place).await;
    let alerts = "[alerts]\nevery = \"100ms\"\n[alerts.dead_letters]\nabove = 1\n";
    let server = serve(&place, &(alerts.to_owned() + &providers.config()));
    place.ready().await;
    let client = place.client();
    let template =
        json!({"subject": "Oi {{ name }}", "text": "Oi {{ name }}", "whatsapp": "Oi *{{ name }}*"});
    client.call(http::Method::PUT, "/v1/templates/oi", Payload::json(&template)).await.unwrap();

    let words = json!({"text": "canary-words-9901"});
    let mail = json!({"subject": "canary-subject-9902", "text": "canary-words-9901"});
    let claim = |number: &str| json!({"xml": lot(number)});
    let payload = json!({"name": "Canário"});
    let phone = |to: &str| json!({"channel": "whatsapp", "to": to, "content": words});
    let by_mail = |channel: &str, to: &str| json!({"channel": channel, "to": to, "content": mail});
    let by_claim = |number: &str| json!({"channel": "claims", "to": "operadora", "reference": format!("CLM-A-{number}"), "content": claim(number)});
    let templated =
        |channel: &str, to: &str| json!({"channel": channel, "to": to, "template": "oi", "payload": payload});
    let sent = "sent";
    let cases: Vec<(Value, &str, Option<&str>)> = vec![
        (phone("+55 (11) 98877-6655"), sent, None),
        (templated("whatsapp", "+5511988776644"), sent, None),
        (phone("+5511988770503"), sent, None),
        (phone("+5511988770404"), "failed", Some("invalid_recipient")),
        (by_mail("email", "canary.person@clients.example"), sent, None),
        (templated("email", "canary.person@clients.example"), sent, None),
        (by_mail("email", "greylist@clients.example"), sent, None),
        (by_mail("email", "unknown@clients.example"), "failed", Some("invalid_recipient")),
        (by_mail("resend", "canary.person@clients.example"), sent, None),
        (templated("resend", "canary.person@clients.example"), sent, None),
        (by_mail("resend", "flaky@clients.example"), sent, None),
        (by_mail("resend", "invalid@clients.example"), "failed", None),
        (by_claim("70100"), sent, None),
        (by_claim("79109"), sent, None),
        (by_claim("79103"), sent, None),
        (by_claim("71001"), "failed", Some("invalid_patient_data")),
    ];
    for (request, state, category) in &cases {
        let id = send(&client, request).await;
        let message = follow(&client, &id, ended).await;
        assert_eq!(message["state"], **state, "{message}");
        if let Some(category) = category {
            assert_eq!(message["last_error"]["category"], **category, "{message}");
        }
        let error = message["last_error"]["text"].as_str().unwrap_or_default();
        for canary in ["988770404", "canary", "unknown@"] {
            assert!(!error.contains(canary), "a person shows in {error}");
        }
    }

    // Lost after it was taken, refused as a duplicate at the second try: it was accepted.
    let lost = follow(&client, &send(&client, &by_claim("89103")).await, ended).await;
    assert_eq!((lost["state"].as_str(), lost["attempt_count"].as_u64()), (Some("sent"), Some(2)), "{lost}");
    assert_eq!(providers.tiss.lot("89103").received, 2);

    // A template that cannot be rendered calls nobody.
    let before = providers.resend.stats();
    let broken =
        json!({"channel": "resend", "to": "canary.person@clients.example", "template": "oi", "payload": {}});
    let dead = follow(&client, &send(&client, &broken).await, ended).await;
    assert_eq!(
        (dead["state"].as_str(), dead["failure_reason"].as_str()),
        (Some("failed"), Some("permanent_error"))
    );
    assert_eq!(dead["last_error"]["category"], "template_error", "{dead}");
    assert_eq!(providers.resend.stats().total, before.total);

    // What providers report later moves `delivery`, and nothing else.
    for (request, delivery) in [
        (phone("+5511988776633"), "read"),
        (phone("+5511988770463"), "failed"),
        (by_mail("resend", "ok@clients.example"), "delivered"),
        (by_mail("resend", "bounced@clients.example"), "bounced"),
        (by_mail("resend", "complained@clients.example"), "complained"),
    ] {
        let id = send(&client, &request).await;
        let message = follow(&client, &id, |message| message["delivery"] == delivery).await;
        assert_eq!(message["state"], "sent");
    }
    let forged =
        client.post("/v1/receipts/whatsapp", Payload::json(&json!({"event": "messages.update"}))).await;
    assert!(forged.is_err(), "a report without the token is refused");

    alert(&client, "dead_letters", None, "firing").await;
    let mut told = Vec::new();
    for path in ["/metrics", "/v1/audit?limit=500", "/v1/alerts"] {
        let answer = client.call(http::Method::GET, path, Payload::default()).await.unwrap();
        told.push((path, String::from_utf8(answer.to_vec()).unwrap()));
    }
    assert!(told[0].1.contains("whatsapp") && told[1].1.contains("sent"), "there is something to look at");
    assert!(told[1].1.contains("\"next_cursor\":null"), "all of the audit is looked at");
    assert!(server.terminate().await.success());
    let said = place.said();
    assert!(said.contains("\"sent\"") || said.contains("retry scheduled"), "there is a log to look at");
    let canaries = [
        EVOLUTION_KEY,
        EVOLUTION_TOKEN,
        RESEND_KEY,
        "canary-secret-resend",
        RESEND_SECRET,
        SMTP_PASSWORD,
        TISS_PASSWORD,
        "canary-words",
        "canary-subject",
        "canary.person",
        "98877",
        "Canário",
        "unknown@",
    ];
    for canary in canaries {
        let line = said.lines().find(|line| line.contains(canary));
        assert_eq!(line, None, "`{canary}` shows in the log");
        for (path, answer) in &told {
            let line = answer.lines().find(|line| line.contains(canary));
            assert_eq!(line, None, "`{canary}` shows in {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ SE-2
async fn whatever_the_environment_says_of_proxies_messages_go_straight_to_whom_they_are_for() {
    let (place, sink) = (Place::new(), place::sink().await);
    let providers = Providers::start(&place).await;
    let hooks = "[channels.crm]\nkind = \"webhook\"\nallow_private = true\n";
    // Bound, so that nobody else gets it, and closed, since nobody listens.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind(ANYWHERE).unwrap();
    let proxy = format!("http://{}", closed.local_addr().unwrap());
    let mut command = Command::new(binary());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, &proxy).env(name.to_lowercase(), &proxy);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    let server = serve_by(command, &place, &(hooks.to_owned() + &providers.config()));
    place.ready().await;
    let client = place.client();
    let words = json!({"subject": "oi", "text": "oi"});
    for message in [
        json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": 1}}),
        json!({"channel": "whatsapp", "to": "+5511988776655", "content": {"text": "oi"}}),
        json!({"channel": "resend", "to": "ana@clients.example", "content": words}),
        json!({"channel": "email", "to": "ana@clients.example", "content": words}),
        json!({"channel": "claims", "to": "operadora", "reference": "CLM-A-70100", "content": {"xml": lot("70100")}}),
    ] {
        let message = follow(&client, &send(&client, &message).await, ended).await;
        let went = (message["state"].as_str(), message["attempt_count"].as_u64());
        assert_eq!(went, (Some("sent"), Some(1)), "{message}");
    }
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ CF-7, CB-2
async fn a_logged_out_instance_holds_its_channel_and_goes_on_by_itself_once_it_is_back() {
    let place = Place::new();
    let providers = Providers::start(&place).await;
    providers.evolution.set_state(State::Close);
    let _server = serve(&place, &providers.config());
    place.ready().await;
    let client = place.client();
    let channel = || async {
        let list = client.get("/v1/channels").await.unwrap();
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().find(|it| it["name"] == "whatsapp").unwrap()
    };
    let mut held = channel().await;
    for _ in 0..500 {
        if held["destinations"][0]["state"] == "held" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        held = channel().await;
    }
    assert_eq!(held["destinations"][0]["state"], "held", "{held}");
    assert_eq!(held["destinations"][0]["destination"], "sandbox");

    let request = json!({"channel": "whatsapp", "to": "+5511988776655", "content": {"text": "oi"}});
    let id = send(&client, &request).await;
    let waits = client.get(&format!("/v1/messages/{id}")).await.unwrap();
    assert_eq!(
        (waits["state"].as_str(), waits["attempt_count"].as_u64()),
        (Some("pending"), Some(0)),
        "{waits}"
    );

    providers.evolution.set_state(State::Open);
    let message = follow(&client, &id, ended).await;
    assert_eq!((message["state"].as_str(), message["attempt_count"].as_u64()), (Some("sent"), Some(1)));
    assert_eq!(channel().await["state"], "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ CB-1; RELIABILITY 31, 34
async fn an_outage_of_one_destination_loses_nothing_delays_nobody_else_and_ends_without_a_herd() {
    const PACE: Duration = Duration::from_millis(20);
    const BEFORE: usize = 250;
    const DURING: usize = 500;
    let place = Place::new();
    let (bad, good) = (start_evolution().await, start_evolution().await);
    let channel = |name: &str, url: String| {
        format!(
            "[channels.{name}]\nkind = \"evolution\"\nbase_url = \"{url}\"\ninstance = \"sandbox\"\n\
             api_key = \"${{EVOLUTION_KEY}}\"\nprobe_every = \"1h\"\n\
             [channels.{name}.breaker]\nlasting = \"1s\"\nfirst_probe = \"500ms\"\nslowest_probe = \"1s\"\n\
             [channels.{name}.retry]\ndelays = [\"1s\", \"2s\", \"4s\"]\n"
        )
    };
    let config = format!("{}{}", channel("bad", bad.url()), channel("good", good.url()));
    let _server = serve(&place, &config);
    place.ready().await;
    let client = place.client();

    // One message to each every 20 ms, in three parts: quiet times, the outage, and after it.
    let mut ticks = tokio::time::interval(PACE);
    let mut made = 0usize;
    let mut most_behind = 0u64;
    let mut produce = async |count: usize, made: &mut usize, most_behind: &mut u64| {
        for _ in 0..count {
            ticks.tick().await;
            *made += 1;
            for name in ["bad", "good"] {
                let to = format!("+55119{:04}1234", 6_000 + *made);
                send(&client, &json!({"channel": name, "to": to, "content": {"text": "oi"}})).await;
            }
            *most_behind = (*most_behind).max(*made as u64 - good.stats().sent);
        }
    };
    produce(BEFORE, &mut made, &mut most_behind).await;
    bad.set_outage(true);
    let (clock, calls_before) = (SystemClock::new(), bad.stats().received);
    let down = clock.now();
    produce(DURING, &mut made, &mut most_behind).await;
    let calls = bad.stats().received - calls_before;
    // Those until it is known to be down, and then one now and again.
    let (first, probes) = (180, clock.now().since(down).millis() / 500);
    assert!(
        calls < first + probes,
        "the breaker spares a destination that is down: {calls} calls for {DURING} messages"
    );
    assert!(most_behind < 60, "the other destination was {most_behind} messages behind");
    let waiting = made as u64 - bad.stats().sent;
    assert!(waiting >= DURING as u64 - 5, "{waiting} wait");

    bad.set_outage(false);
    let mut samples = vec![(clock.now(), bad.stats().sent)];
    let (wanted, mut moved) = (made as u64, 0);
    while bad.stats().sent < wanted {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let sent = bad.stats().sent;
        moved = if sent > samples.last().unwrap().1 { samples.len() } else { moved };
        samples.push((clock.now(), sent));
        if samples.len() - moved == 600 {
            let failed = client.get("/v1/messages?state=failed").await.unwrap();
            let pending = client.get("/v1/messages?state=pending").await.unwrap();
            panic!("{sent} of {wanted}, and none for a minute; failed {failed}, pending {pending}");
        }
    }
    // In no stretch of three seconds more than twice the pace of quiet times, which was at most 50 a second.
    for (n, (from, before)) in samples.iter().enumerate() {
        let later =
            samples[n..].iter().take_while(|(at, _)| at.since(*from).millis() <= 3_000).last().unwrap();
        let allowed = 100 * later.0.since(*from).millis().max(1_000) / 1_000 + 10;
        assert!(later.1 - before <= allowed, "{} within {}", later.1 - before, later.0.since(*from));
    }
    let dead = client.get("/v1/messages?state=failed").await.unwrap();
    assert_eq!(dead["items"], json!([]), "nothing is dead because of waiting");
    assert_eq!((bad.stats().sent, good.stats().sent), (wanted, wanted));
}

async fn start_evolution() -> EvolutionSandbox {
    let options = evolution::Options { api_key: Secret::new(EVOLUTION_KEY), ..evolution::Options::default() };
    EvolutionSandbox::start(ANYWHERE, options).await.unwrap()
}

/// Alerts that are raised as soon as there is reason to, and over as soon as there is none.
const AT_ONCE: &str = "[alerts]\nevery = \"100ms\"\n[alerts.channel_held]\nfor = \"0s\"\nresolve_after = \"0s\"\n\
                       [alerts.breaker_open]\nfor = \"0s\"\nresolve_after = \"0s\"\n";

/// Looks at the alerts of that rule, about that channel or about all, until one is in that state.
async fn alert(client: &Client, rule: &str, channel: Option<&str>, state: &str) -> Value {
    let mut seen = Value::Null;
    for _ in 0..1_500 {
        seen = client.get(&format!("/v1/alerts?state={state}")).await.unwrap();
        let mut items = seen["items"].as_array().unwrap().iter();
        if let Some(found) = items.find(|it| it["rule"] == rule && it["channel"] == json!(channel)) {
            return found.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no {state} {rule} of {channel:?}: {seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ CF-7, OB-4; RELIABILITY 61
async fn a_key_that_the_provider_no_longer_takes_holds_the_channel_and_raises_an_alert_and_nothing_dies() {
    const MESSAGES: usize = 5;
    let with_key =
        |key: &str| evolution::Options { api_key: Secret::new(key), ..evolution::Options::default() };
    let provider = EvolutionSandbox::start(ANYWHERE, with_key(EVOLUTION_KEY)).await.unwrap();
    let (address, url) = (provider.address, provider.url());
    let place = Place::new();
    let config = format!(
        "{AT_ONCE}[channels.whatsapp]\nkind = \"evolution\"\nbase_url = \"{url}\"\ninstance = \"sandbox\"\n\
         api_key = \"${{EVOLUTION_KEY}}\"\nprobe_every = \"1h\"\n\
         [channels.whatsapp.retry]\ndelays = [\"20ms\", \"20ms\"]\n"
    );
    let server = serve(&place, &config);
    place.ready().await;
    let client = place.client();
    let request = json!({"channel": "whatsapp", "to": "+5511988776655", "content": {"text": "oi"}});
    let sent = follow(&client, &send(&client, &request).await, ended).await;
    assert_eq!(sent["state"], "sent", "{sent}");

    provider.stop().await;
    let strict = EvolutionSandbox::start(address, with_key("another")).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..MESSAGES {
        ids.push(send(&client, &request).await);
    }
    let raised = alert(&client, "channel_held", Some("whatsapp"), "firing").await;
    let why = raised["samples"][0]["text"].as_str().unwrap();
    assert!(why.starts_with("401") && why.contains("check the channel's key"), "{raised}");
    let list = client.get("/v1/channels").await.unwrap();
    let whatsapp = list["items"].as_array().unwrap().iter().find(|it| it["name"] == "whatsapp").unwrap();
    let held = &whatsapp["destinations"][0];
    assert_eq!((&held["destination"], &held["state"]), (&json!("sandbox"), &json!("held")), "{list}");
    for id in &ids {
        let waits = follow(&client, id, |message| message["state"] == "pending").await;
        assert_eq!(waits["attempt_count"], 0, "{waits}");
        assert!(waits["attempts"].as_array().unwrap().len() <= 1, "what is held is not tried again: {waits}");
    }
    assert_eq!(client.get("/v1/dead-letters").await.unwrap()["items"], json!([]));

    // The key counts again, and somebody says so.
    strict.stop().await;
    let provider = EvolutionSandbox::start(address, with_key(EVOLUTION_KEY)).await.unwrap();
    let freed = json!({"destination": "sandbox"});
    client.post("/v1/channels/whatsapp/release", Payload::json(&freed)).await.unwrap();
    for id in &ids {
        let message = follow(&client, id, ended).await;
        assert_eq!(message["state"], "sent", "{message}");
    }
    assert_eq!(provider.stats().sent, MESSAGES as u64, "each of them once");
    let over = alert(&client, "channel_held", Some("whatsapp"), "resolved").await;
    assert_eq!(over["id"], raised["id"]);
    assert!(server.terminate().await.success());
}

/// A receiver that shows a certificate, takes everything from whoever believes it, and counts who came.
struct Shop {
    address: SocketAddr,
    shows: Arc<Mutex<Arc<ServerConfig>>>,
    visits: Arc<AtomicUsize>,
}

impl Shop {
    async fn start(certificate: Arc<ServerConfig>) -> Shop {
        let listener = TcpListener::bind(ANYWHERE).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shows, visits) = (Arc::new(Mutex::new(certificate)), Arc::<AtomicUsize>::default());
        let (shown, counted) = (Arc::clone(&shows), Arc::clone(&visits));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let acceptor = TlsAcceptor::from(Arc::clone(&shown.lock().unwrap()));
                tokio::spawn(async move {
                    let Ok(mut tls) = acceptor.accept(stream).await else { return };
                    let mut request = [0; 4_096];
                    while tls.read(&mut request).await.is_ok_and(|count| count > 0) {
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                        let _ = tls.write_all(answer).await;
                    }
                });
            }
        });
        Shop { address, shows, visits }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ CB-1, CF-3, OB-4; RELIABILITY 23
async fn a_certificate_that_is_not_good_opens_the_breaker_and_raises_an_alert_and_is_not_tried_hotly() {
    const FIRST: usize = 3;
    const LATER: usize = 3;
    let (authority, place) = (Authority::new(), Place::new());
    let expired = authority.shown_by("127.0.0.1", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let misnamed = authority.shown_by("other.example", |_| {});
    let shops = [("expired", Shop::start(expired).await), ("misnamed", Shop::start(misnamed).await)];
    let sound = Shop::start(authority.shown_by("127.0.0.1", |_| {})).await;
    let channels = ["expired", "misnamed", "sound"].map(|name| {
        format!(
            "[channels.{name}]\nkind = \"webhook\"\nallow_private = true\nca_file = \"{}\"\n\
             [channels.{name}.retry]\ndelays = [\"20ms\", \"20ms\", \"20ms\"]\n\
             [channels.{name}.breaker]\nfailures = {FIRST}\nlasting = \"0s\"\nfirst_probe = \"1h\"\nslowest_probe = \"1h\"\n",
            authority.file().display()
        )
    });
    let server = serve(&place, &format!("{AT_ONCE}{}", channels.concat()));
    place.ready().await;
    let client = place.client();
    let clock = SystemClock::new();

    for (name, shop) in &shops {
        let hook = json!({"channel": name, "to": format!("https://{}/hook", shop.address), "content": {"body": "oi"}});
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for _ in 0..FIRST {
            first.push(send(&client, &hook).await);
        }
        let raised = alert(&client, "breaker_open", Some(name), "firing").await;
        for _ in 0..LATER {
            later.push(send(&client, &hook).await);
        }
        // Whoever comes after them in the same lane has gone, so they had their turn.
        let next = json!({"channel": "sound", "to": format!("https://{}/hook", sound.address), "content": {"body": "oi"}});
        let next = follow(&client, &send(&client, &next).await, ended).await;
        assert_eq!(next["state"], "sent", "{next}");
        for id in &first {
            let waits = client.get(&format!("/v1/messages/{id}")).await.unwrap();
            let (state, tried) = (waits["state"].as_str(), waits["attempt_count"].as_u64());
            assert_eq!((state, tried), (Some("pending"), Some(1)), "{name}: {waits}");
            assert_eq!(waits["last_error"]["category"], "tls", "{name}: {waits}");
            let due: Time = waits["next_attempt_at"].as_str().unwrap().parse().unwrap();
            assert!(due.since(clock.now()).millis() > 4 * 60_000, "{name}: {waits}");
        }
        for id in &later {
            let waits = client.get(&format!("/v1/messages/{id}")).await.unwrap();
            let (state, tried) = (waits["state"].as_str(), waits["attempt_count"].as_u64());
            assert_eq!((state, tried), (Some("pending"), Some(0)), "{name}: {waits}");
        }
        assert_eq!(shop.visits.load(Ordering::SeqCst), FIRST, "{name}: one visit a message, and no more");

        // It is renewed, and somebody says so.
        *shop.shows.lock().unwrap() = authority.shown_by("127.0.0.1", |_| {});
        client.post(&format!("/v1/channels/{name}/close"), Payload::default()).await.unwrap();
        for id in &later {
            let message = follow(&client, id, ended).await;
            assert_eq!(message["state"], "sent", "{name}: {message}");
        }
        let over = alert(&client, "breaker_open", Some(name), "resolved").await;
        assert_eq!(over["id"], raised["id"]);
    }
    assert_eq!(client.get("/v1/dead-letters").await.unwrap()["items"], json!([]));
    assert!(server.terminate().await.success());
}
