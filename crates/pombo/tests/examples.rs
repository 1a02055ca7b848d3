//! The examples of the page for clients, run as they stand there against the real binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../examples/client.rs"]
mod client;
mod place;

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pombo::client::Payload;
use serde_json::{Value, json};

use place::clients::run;
use place::{Place, Server};

const PAGES: [&str; 2] = ["clients.md", "clients.pt-BR.md"];

/// The blocks of code on the page, with their languages.
fn blocks(page: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let mut parts = text.split("\n```");
    parts.next();
    let mut blocks = Vec::new();
    while let Some(block) = parts.next() {
        let (language, code) = block.split_once('\n').unwrap();
        blocks.push((language.to_owned(), format!("{code}\n")));
        parts.next();
    }
    blocks
}

/// The only block, or that one of several, in a language.
fn block(language: &str, which: usize) -> String {
    let found: Vec<_> = blocks(PAGES[0]).into_iter().filter(|(it, _)| it == language).collect();
    found[which].1.clone()
}

async fn house() -> (Place, Server) {
    let place = Place::new();
    let config = "[events]\nallow_private = true\n[channels.crm]\nkind = \"webhook\"\n";
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
    let server = place.start();
    place.ready().await;
    (place, server)
}

/// A program in a file of that name.
fn program(place: &Place, with: &str, name: &str, code: &str) -> Command {
    let file = place.folder.path().join(name);
    std::fs::write(&file, code).unwrap();
    let mut command = Command::new(with);
    command.arg(file).env("POMBO_SERVER", place.url()).env("POMBO_API_KEY", place::KEY);
    command
}

async fn told(place: &Place, reference: &str) -> Value {
    let path = format!("/v1/messages?reference={reference}");
    let items = place.client().get(&path).await.unwrap()["items"].clone();
    assert_eq!(items.as_array().map(Vec::len), Some(1), "run twice, it is still one message: {items}");
    items[0].clone()
}

#[test]
fn both_languages_show_the_same_code() {
    let pages = PAGES.map(blocks);
    assert_eq!(pages[0], pages[1]);
    let languages: Vec<_> = pages[0].iter().map(|(language, _)| language.as_str()).collect();
    assert_eq!(languages, ["sh", "python", "python", "ts", "ts", "rust"]);
}

#[test]
fn the_rust_on_the_page_is_the_example_that_is_run() {
    let example = include_str!("../examples/client.rs").replace("pub(crate) async fn", "async fn");
    let code = block("rust", 0);
    assert!(example.contains(&code), "examples/client.rs and the page are not the same:\n{code}");
}

#[tokio::test] // REQ IN-1
async fn a_shell_a_python_and_a_typescript_program_do_what_they_say() {
    let (place, _server) = house().await;
    for (with, name, language) in
        [("bash", "a.sh", "sh"), ("python3", "a.py", "python"), ("node", "a.mjs", "ts")]
    {
        let code = block(language, 0);
        for _ in 0..2 {
            let said = run(program(&place, with, name, &code)).await;
            let end = name.split('.').next_back().unwrap().replace("mjs", "ts");
            let message = told(&place, &format!("order-1841-{end}")).await;
            let id = message["id"].as_str().unwrap();
            assert!(said.contains(&format!("created {id}")), "{name}: {said}");
            assert!(said.contains("message.accepted"), "{name}: {said}");
            assert!(said.contains("dead letters 0") || said.contains("{\"items\":[]"), "{name}: {said}");
        }
    }
}

#[tokio::test] // REQ IN-1
async fn a_rust_program_does_what_it_says() {
    let (place, _server) = house().await;
    for _ in 0..2 {
        client::talk(&place.url(), place::KEY).await.unwrap();
        told(&place, "order-1841-rs").await;
    }
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test] // REQ ML-7
async fn receivers_take_what_is_signed_and_refuse_what_is_not() {
    let (place, _server) = house().await;
    for (with, name, language) in [("python3", "b.py", "python"), ("node", "b.mjs", "ts")] {
        let code = block(language, 1);
        for (good, expected) in [(true, Some("verified webhook.test")), (false, None)] {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            let wish = json!({"url": format!("http://127.0.0.1:{port}/"), "events": ["message.held"]});
            let webhook = place.client().post("/v1/webhooks", Payload::json(&wish)).await.unwrap();
            let secret = webhook["secret"].as_str().unwrap();
            let secret =
                if good { secret.to_owned() } else { "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned() };
            let mut command = program(&place, with, name, &code);
            command.env("WEBHOOK_SECRET", secret).env("PORT", port.to_string());
            let mut receiver = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
            let output = receiver.0.stdout.take().unwrap();
            let path = format!("/v1/webhooks/{}/test", webhook["id"].as_str().unwrap());
            listening(port).await;
            place.client().post(&path, Payload::default()).await.unwrap();
            let read = tokio::task::spawn_blocking(move || BufReader::new(output).lines().next());
            let line = tokio::time::timeout(Duration::from_secs(30), read).await.unwrap().unwrap();
            assert_eq!(line.map(Result::unwrap).as_deref(), expected, "{name}");
        }
    }
}

/// Waits until somebody listens there, without taking the one connection that it may wait for.
async fn listening(port: u16) {
    let wanted = format!(":{port:04X}");
    for _ in 0..1_500 {
        let open = std::fs::read_to_string("/proc/net/tcp").unwrap();
        if open.lines().any(|line| line.contains(&wanted) && line.contains(" 0A ")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody listens on {port}");
}
