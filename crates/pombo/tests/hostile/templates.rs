//! Templates that mean to take all time and all memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use http::Method;
use pombo::client::{Client, ClientError, Payload, Refusal};
use pombo::clock::SystemClock;
use pombo_channels::sandbox::evolution::{EvolutionSandbox, Options};
use pombo_kernel::secret::Secret;
use pombo_kernel::time::{Clock as _, Span, Time};
use serde_json::{Value, json};

use crate::hang::time;
use crate::memory::peak_kb;
use crate::place::{Place, Server, binary};
use crate::{ended, follow, place, send};

const KEY: &str = "canary-secret-5503";
/// Those that are rendered at once may each hold a few times the 8 MB that filters may handle.
const GROWTH_KB_MAX: u64 = 160 * 1024;
/// For one to be refused or to die. Generous: they take a few seconds together.
const PATIENCE: Span = Span::from_secs(60);
/// How often each is sent.
const COPIES: usize = 2;

/// Refused when they are put.
fn unwritten() -> Vec<String> {
    vec![
        "{{ 'x' * 1000000000 }}".to_owned(),
        "{{ long * 1000000000 }}".to_owned(),
        "{% for a in range(1000000000) %}x{% endfor %}".to_owned(),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        "{% for a in many recursive %}{{ loop(many) }}{% endfor %}".to_owned(),
        "{% include 'bomb' %}".to_owned(),
        "{% set x = long %}{% for a in many %}{% set x = x ~ x %}{% endfor %}".to_owned(),
        format!("{}x{}", "{% if a %}".repeat(5_000), "{% endif %}".repeat(5_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        "x".repeat(200_000),
    ]
}

/// Sound to look at, and without an end that anybody would wait for.
const ENDLESS: &[&str] = &[
    "{% for a in many %}{% for b in many %}{% for c in many %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for a in many %}{% for b in many %}{% if many == same %}{% endif %}{% endfor %}{% endfor %}",
    "{% for a in many %}{% for b in many %}{% if 'x' in many %}{% endif %}{% endfor %}{% endfor %}",
    "{% for a in many %}{{ long }}{% endfor %}",
    "{% for a in many %}{% if long|upper == 'a' %}{% endif %}{% endfor %}",
    "{% for a in many %}{% if many|join(',') == 'a' %}{% endif %}{% endfor %}",
    "{{ long|replace('y', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') }}",
    "{{ many|join(long) }}",
];

async fn put(client: &Client, name: &str, text: &str) -> Result<Value, ClientError> {
    let answer = client
        .call(Method::PUT, &format!("/v1/templates/{name}"), Payload::json(&json!({"text": text})))
        .await?;
    client.parse(&answer)
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Refusal {
    match answer {
        Err(ClientError::Refused(refusal)) => *refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

fn is_plain(refusal: &Refusal) {
    assert!((400..500).contains(&refusal.status), "{refusal:?}");
    assert!(refusal.hint.as_deref().is_some_and(|hint| !hint.is_empty()), "{refusal:?}");
    assert!(format!("{refusal:?}").len() < 4_000, "it repeats too much: {refusal:?}");
}

/// When the first attempt began and ended.
fn span(message: &Value) -> [Time; 2] {
    ["started_at", "finished_at"].map(|name| time(&message["attempts"][0][name]))
}

/// A pretend Evolution, and a place whose only channel leads there.
async fn evolution() -> (EvolutionSandbox, Place, Server) {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = Options { api_key: Secret::new(KEY), ..Options::default() };
    let provider = EvolutionSandbox::start(anywhere, options).await.unwrap();
    let place = place(&format!(
        "[channels.whatsapp]\nkind = \"evolution\"\nbase_url = \"{}\"\ninstance = \"sandbox\"\napi_key = \"${{PROVIDER_KEY}}\"\n",
        provider.url()
    ));
    let mut command = Command::new(binary());
    command.env("PROVIDER_KEY", KEY);
    let server = place.start_with(command, &place.data());
    place.ready().await;
    (provider, place, server)
}

fn message(template: &str, n: usize, payload: &Value) -> Value {
    let to = format!("+55119{:08}", 88_770_100 + n);
    json!({"channel": "whatsapp", "to": to, "template": template, "payload": payload})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ SE-2, RELIABILITY 54
async fn templates_that_take_seconds_hold_up_nobody_else() {
    let (_provider, place, server) = evolution().await;
    let client = place.client();
    put(&client, "plain", "Oi {{ name }}").await.unwrap();
    put(&client, "long", ENDLESS[2]).await.unwrap();
    let many: Vec<u32> = (0..1_200).collect();
    let mut bombs = Vec::new();
    for n in 0..8 {
        bombs.push(send(&client, &message("long", n, &json!({"many": many}))).await);
    }
    follow(&client, &bombs[0], |it| it["state"] != "pending").await;
    let plain = send(&client, &message("plain", 5, &json!({"name": "Ana"}))).await;
    assert_eq!(follow(&client, &plain, ended).await["state"], "sent");
    let plain = client.get(&format!("/v1/messages/{plain}")).await.unwrap();
    let mut last = Time::default();
    for bomb in &bombs {
        let dead = follow(&client, bomb, ended).await;
        assert_eq!(dead["last_error"]["category"], "template_error");
        last = last.max(span(&dead)[1]);
    }
    assert!(span(&plain)[1] < last, "it came after all of them: {plain}");
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ SE-2, RELIABILITY 54
async fn template_bombs_are_refused_or_die_small_and_soon_and_call_nobody() {
    let (provider, place, server) = evolution().await;
    let client = place.client();
    put(&client, "plain", "Oi {{ name }} {{ n }}").await.unwrap();
    let mut numbers = 0..;
    let mut plain = async || {
        let n = numbers.next().unwrap();
        send(&client, &message("plain", n, &json!({"name": "Ana", "n": n}))).await
    };
    let first = plain().await;
    follow(&client, &first, ended).await;
    let clock = SystemClock::new();
    let before = peak_kb(server.pid());

    for text in unwritten() {
        is_plain(&refusal(put(&client, "unwritten", &text).await));
    }
    let many: Vec<u32> = (0..800).collect();
    let payload = json!({"many": many, "same": many, "long": "y".repeat(200_000)});
    let (mut bombs, mut ordinary) = (Vec::new(), vec![first]);
    for (n, text) in ENDLESS.iter().enumerate() {
        let name = format!("endless-{n}");
        put(&client, &name, text).await.unwrap();
        let wish = json!({"payload": payload, "kind": "evolution"});
        let asked = clock.now();
        let render = client.post(&format!("/v1/templates/{name}/render"), Payload::json(&wish)).await;
        assert!(clock.now().since(asked) < PATIENCE, "{text}");
        let render = refusal(render);
        is_plain(&render);
        assert_eq!(render.code, "TEMPLATE_ERROR", "{render:?}");
        for copy in 0..COPIES {
            bombs.push(send(&client, &message(&name, copy, &payload)).await);
            ordinary.push(plain().await);
        }
    }
    // A payload of very many values is a bomb as well; one that is larger than a message may be never comes in.
    bombs.push(send(&client, &message("plain", 1, &json!({"name": vec![0; 6_000], "n": 1}))).await);
    let deep = (0..120).fold(json!(1), |deep, _| json!([deep]));
    bombs.push(send(&client, &message("plain", 1, &json!({"name": deep, "n": 1}))).await);
    for length in [300_000, 20_000_000] {
        let huge = message("plain", 1, &json!({"name": "x".repeat(length), "n": 1}));
        is_plain(&refusal(client.post("/v1/messages", Payload::json(&huge)).await));
    }

    for id in &bombs {
        let dead = follow(&client, id, ended).await;
        assert_eq!(
            (dead["state"].as_str(), dead["failure_reason"].as_str()),
            (Some("failed"), Some("permanent_error")),
            "{dead}"
        );
        assert_eq!(
            (dead["last_error"]["category"].as_str(), dead["attempt_count"].as_u64()),
            (Some("template_error"), Some(1))
        );
        let [began, died] = span(&dead);
        assert!(died.since(began) < PATIENCE, "{dead}");
        let text = dead["last_error"]["text"].as_str().unwrap();
        let clear = ["too many steps", "more than 262144 bytes", "more than 5000 values", "is a list"];
        assert!(clear.iter().any(|words| text.contains(words)) && text.len() < 300, "{text}");
    }
    for id in &ordinary {
        let message = follow(&client, id, ended).await;
        assert_eq!(message["state"], "sent", "{message}");
    }
    let growth = peak_kb(server.pid()) - before;
    println!("{} bombs and {} others, {growth} KB", bombs.len(), ordinary.len());
    assert!(growth < GROWTH_KB_MAX, "memory grew by {growth} KB");
    let stats = provider.stats();
    assert_eq!(
        (stats.received, stats.sent, stats.malformed),
        (ordinary.len() as u64, ordinary.len() as u64, 0)
    );
    assert!(server.terminate().await.success());
}
