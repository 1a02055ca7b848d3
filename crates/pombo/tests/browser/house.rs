//! A clinic's Pombo: the real binary with a channel of each usual kind, pretend providers, and a day behind it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use http::Method;
use pombo::clock::SystemClock;
use pombo_channels::sandbox::Sandbox;
use pombo_channels::sandbox::evolution::{self, EvolutionSandbox};
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_kernel::time::Clock as _;
use pombo_web::dash::PAGES;
use serde_json::{Value, json};

use crate::history;
use crate::place::clients::{installed, run};
use crate::place::{KEY, Place, Server, binary, sink};

const CONFIG: &str = r#"
[dashboard]
time_zone = "America/Sao_Paulo"
[channels.crm]
kind = "webhook"
allow_private = true
[channels.crm.retry]
delays = ["300ms", "300ms"]
[channels.crm.breaker]
failures = 0
percent = 0
[channels.bank]
kind = "webhook"
allow_private = true
[channels.claims]
kind = "tiss"
url = "http://127.0.0.1:9/tiss"
registro_ans = "123456"
provider = "0001"
[channels.mail]
kind = "resend"
base_url = "RESEND"
api_key_file = "resend"
from = "Clínica Sol <contato@clinica.example>"
[channels.whatsapp]
kind = "evolution"
base_url = "EVOLUTION"
instance = "sandbox"
api_key_file = "evolution"
[alerts]
every = "1s"
[alerts.dead_letters]
above = 5
[alerts.disk_low]
enabled = false
"#;

/// What is no page of its own: a stream, mails in their frames, files.
const ASIDE: [&str; 6] = [
    "/live",
    "/messages/{id}/preview",
    "/campaigns/{id}/sample",
    "/campaigns/{id}/report",
    "/templates/{name}/preview",
    "/audit/export",
];

pub(crate) struct House {
    place: Place,
    sink: Sandbox,
    _evolution: EvolutionSandbox,
    _resend: ResendSandbox,
    _server: Server,
}

impl House {
    pub(crate) async fn new() -> House {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let time = SystemClock::new();
        let evolution = EvolutionSandbox::start(local, evolution::Options::default()).await.unwrap();
        let options =
            resend::Options { clock: Some(Arc::new(move || time.now())), ..resend::Options::default() };
        let resend = ResendSandbox::start(local, &options).await.unwrap();
        let place = Place::new();
        let config = CONFIG.replace("RESEND", &resend.url()).replace("EVOLUTION", &evolution.url());
        for (file, text) in
            [("pombo.toml", config.as_str()), ("evolution", "sandbox"), ("resend", "re_sandbox")]
        {
            std::fs::write(place.folder.path().join(file), text).unwrap();
        }
        history::lived(&place.data()).await;
        let server = place.start();
        place.ready().await;
        House { place, sink: sink().await, _evolution: evolution, _resend: resend, _server: server }
    }

    /// Goes that walk, in a browser. Where there is no browser it fails.
    pub(crate) async fn walk(&self, name: &str) {
        let mut command = Command::new("node");
        let walks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/walks.cjs");
        let target = installed().parent().unwrap().to_owned();
        let place = json!({
            "url": self.place.url(),
            "key": KEY,
            "link": self.link().await,
            "sink": self.sink.url("").trim_end_matches('/'),
            "screenshots": target.join("screenshots"),
            "pages": pages(),
        });
        command.env("NODE_PATH", installed().join("node_modules")).env("POMBO_PLACE", place.to_string());
        command.arg(walks).arg(name);
        println!("{}", run(command).await);
    }

    /// What the terminal prints for whoever wants to come in without typing a key.
    async fn link(&self) -> String {
        let mut command = Command::new(binary());
        command
            .args(["keys", "link", "--json"])
            .env("POMBO_SERVER", self.place.url())
            .env("POMBO_API_KEY", KEY);
        let link: Value = serde_json::from_str(&run(command).await).unwrap();
        link["path"].as_str().unwrap().to_owned()
    }
}

/// The pages that people look at, as the server's table has them.
fn pages() -> Vec<&'static str> {
    let seen = PAGES.iter().filter(|page| page.method() == Method::GET && page.access().is_some());
    seen.map(|page| page.path).filter(|path| !ASIDE.contains(path)).collect()
}
