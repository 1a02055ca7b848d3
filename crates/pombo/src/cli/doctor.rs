//! `pombo doctor`: looks at everything that a server needs, and says what to do.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use clap::Args;
use http::Method;
use pombo_kernel::time::Clock as _;
use pombo_store::home::Home;
use pombo_store::moving::MoveError;
use serde_json::{Value, json};

use super::operations::word;
use super::out::{self, Paint};
use super::place::PlaceArgs;
use super::{ConfigArgs, Shared, Trouble, store, wait_for};
use crate::client::{Client, ClientError, DEFAULT_SERVER, Payload};
use crate::clock::SystemClock;
use crate::config::{Config, Environment, Needs};
use crate::doctor::{self, Finding, Status};
use crate::meter::Disk;

#[derive(Debug, Args)]
#[command(
    after_help = "It changes no setting and no message, works with the server running or stopped, and exits with 1 if something is
wrong. With a key in POMBO_API_KEY that may operate, a running server also asks its channels' providers how they
are, as `pombo channels test` does; that it was asked is in the audit.

Examples:
  pombo doctor
  pombo doctor --config /etc/pombo/pombo.toml --data /var/lib/pombo --json"
)]
pub(crate) struct Doctor {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

pub(crate) fn run(args: &Doctor, shared: &Shared) -> Result<(), Trouble> {
    let mut findings = Vec::new();
    let config = configuration(args, &mut findings);
    let home = config.as_ref().map(|config| args.place.place(config)).transpose()?;
    if let Some(config) = &config {
        findings.push(doctor::channels(config));
    }
    let mut files = secret_files(args);
    if let Some(home) = &home {
        look_at_store(home, &mut findings, &mut files);
    }
    findings.push(doctor::permissions(&files));
    let answered = wait_for_server(&address(shared, config.as_ref()), &mut findings)?;
    if let Some(config) = &config {
        doors(config, answered, &mut findings);
    }
    let worst = findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Ok);
    match shared.json {
        true => out::document(&json!({"ok": worst != Status::Wrong, "checks": findings})),
        false => show(&findings, worst),
    }
    if worst == Status::Wrong { Err(Trouble::told()) } else { Ok(()) }
}

/// The configuration; if it cannot be used, as much of it as says where the store is.
fn configuration(args: &Doctor, findings: &mut Vec<Finding>) -> Option<Config> {
    let source = args.config.source();
    let name = source
        .file
        .as_ref()
        .map_or_else(|| "no file, defaults".to_owned(), |file| file.display().to_string());
    let environment = Environment::of_process();
    match Config::load(source.clone(), &environment) {
        Ok(config) => {
            findings.push(Finding::ok("configuration", name));
            Some(config)
        }
        Err(problems) => {
            for problem in problems.0 {
                let detail = format!("{}: {}", problem.path, problem.what);
                findings.push(Finding::wrong("configuration", detail, problem.hint));
            }
            Config::load(source, &environment.for_use_of(Needs::Store)).ok()
        }
    }
}

/// Files with secrets that the configuration names, as far as it can be read.
fn secret_files(args: &Doctor) -> Vec<PathBuf> {
    let Some(file) = args.config.source().file else { return Vec::new() };
    let folder = file.parent().unwrap_or(Path::new(""));
    std::fs::read_to_string(&file).map(|text| doctor::secret_files(&text, folder)).unwrap_or_default()
}

fn look_at_store(home: &Home, findings: &mut Vec<Finding>, files: &mut Vec<PathBuf>) {
    let glance = home.glance();
    let mut clocks = Vec::new();
    if let Home::Embedded(folder) = home {
        let (unwritable, time) = match folder.is_dir() {
            true => doctor::write_test(folder),
            false => (None, None),
        };
        findings.extend(unwritable);
        clocks.extend(time.map(|time| ("the disk", time)));
        if let Ok(disk) = Disk::of(existing(folder)) {
            findings.push(doctor::disk(disk));
        }
        files.push(folder.join("pombo.db"));
    }
    let latest = match glance {
        Ok(seen) => {
            findings.extend(doctor::store(&home.to_string(), &seen));
            findings.push(encryption(home));
            clocks.extend(seen.now.map(|time| ("the database", time)));
            seen.latest
        }
        Err(error) => {
            findings.push(unusable(home, error));
            None
        }
    };
    findings.push(doctor::clock(SystemClock::new().now(), &clocks, latest));
}

/// Whether the keys of the configuration are those of the store.
fn encryption(home: &Home) -> Finding {
    const ENCRYPTION: &str = "encryption";
    match home.unlocks() {
        Ok(seal) if !seal.encrypted => {
            Finding::ok(ENCRYPTION, "off: what the store holds can be read by whoever has it")
        }
        Ok(seal) if seal.keys.len() > 1 => Finding::warn(
            ENCRYPTION,
            format!("the store is encrypted with keys {}", seal.keys.join(" and ")),
            "run `pombo store rekey` so that the first is enough",
        ),
        Ok(seal) => {
            Finding::ok(ENCRYPTION, format!("the store is encrypted with key {}", seal.keys.join("")))
        }
        Err(error) => Finding { name: ENCRYPTION, ..unusable(home, error) },
    }
}

fn unusable(home: &Home, error: MoveError) -> Finding {
    let missing = matches!(error, MoveError::NoStore(_));
    let old = matches!(error, MoveError::Schema { have, want, .. } if have < want);
    let Trouble { what, why, hint, .. } = store::trouble(home, error);
    let detail = why.map_or(what.clone(), |why| format!("{what}: {why}"));
    let hint = hint.unwrap_or_default();
    match (missing, old) {
        (true, _) => {
            Finding::warn("store", detail, "the first `pombo serve` makes it, or `pombo store migrate`")
        }
        (_, true) => {
            Finding::warn("store", detail, "the next `pombo serve` brings it up to date; make a backup first")
        }
        _ => Finding::wrong("store", detail, hint),
    }
}

/// The folder, or the nearest above it that there is.
fn existing(folder: &Path) -> &Path {
    let mut above = folder.ancestors().filter(|it| !it.as_os_str().is_empty());
    above.find(|it| it.is_dir()).unwrap_or(Path::new("."))
}

/// Where the server is: as it was named, else where the configuration has it listen.
fn address(shared: &Shared, config: Option<&Config>) -> String {
    let Some(config) = config.filter(|_| shared.server == DEFAULT_SERVER) else {
        return shared.server.clone();
    };
    let mut listen = config.server.listen;
    if listen.ip().is_unspecified() {
        listen.set_ip(if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    format!("http://{listen}")
}

/// Asks the server how it is, if there is one; whether one answered.
fn wait_for_server(server_at: &str, findings: &mut Vec<Finding>) -> Result<bool, Trouble> {
    let key = std::env::var("POMBO_API_KEY").ok().filter(|key| !key.is_empty());
    let client = Client::new(server_at, key.as_deref())?;
    let mut answered = false;
    wait_for(async {
        answered = server(&client, findings).await;
        if answered {
            probe(&client, key.is_some(), findings).await;
        }
        Ok(())
    })?;
    Ok(answered)
}

async fn server(client: &Client, findings: &mut Vec<Finding>) -> bool {
    const SERVER: &str = "server";
    let at = client.server();
    let (document, ready) = match client.get("/readyz").await {
        Ok(document) => (document, true),
        Err(ClientError::Refused(refusal)) => (Value::Object(refusal.rest.clone()), false),
        Err(ClientError::Unreachable { .. }) => {
            findings.push(Finding::ok(SERVER, format!("none answers at {at}")));
            return false;
        }
        Err(error) => {
            let hint = "name the server with --server or POMBO_SERVER";
            findings.push(Finding::warn(SERVER, error.to_string(), hint));
            return false;
        }
    };
    let hint = "see its log, `pombo channels list` and `pombo store check`";
    let checks = document["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ill = checks.iter().filter(|check| check["ok"] == false);
    let said: Vec<String> =
        ill.map(|check| format!("{}: {}", word(check, "name"), word(check, "detail"))).collect();
    findings.push(match (ready, said.is_empty()) {
        (true, true) => Finding::ok(SERVER, format!("{at} is ready")),
        (true, false) => Finding::warn(SERVER, format!("{at} is ready; {}", said.join("; ")), hint),
        (false, _) => Finding::wrong(SERVER, format!("{at} is not ready; {}", said.join("; ")), hint),
    });
    true
}

/// Has the server ask the providers of its channels how they are.
async fn probe(client: &Client, keyed: bool, findings: &mut Vec<Finding>) {
    const PROVIDERS: &str = "providers";
    if !keyed {
        let hint = "set POMBO_API_KEY to an operator's key to have them asked";
        findings.push(Finding::warn(PROVIDERS, "not asked, for want of a key", hint));
        return;
    }
    let channels = match client.get("/v1/channels").await {
        Ok(channels) => channels,
        Err(error) => {
            let Trouble { what, hint, .. } = error.into();
            findings.push(Finding::warn(PROVIDERS, what, hint.unwrap_or_default()));
            return;
        }
    };
    let names: Vec<&str> =
        channels["items"].as_array().into_iter().flatten().map(|item| word(item, "name")).collect();
    let mut well = 0;
    for name in &names {
        let segment: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let asked =
            client.call(Method::POST, &format!("/v1/channels/{segment}/test"), Payload::default()).await;
        let found = asked.and_then(|answer| client.parse::<Value>(&answer));
        match found {
            Ok(found) if found["ok"] == false => {
                let detail = format!("{name}: {}", word(&found, "detail"));
                let hint =
                    format!("`pombo channels list` says what waits; try `pombo channels test {name}` again");
                findings.push(Finding::warn(PROVIDERS, detail, hint));
            }
            Ok(_) => well += 1,
            Err(error) => {
                let Trouble { what, hint, .. } = error.into();
                findings.push(Finding::warn(PROVIDERS, format!("{name}: {what}"), hint.unwrap_or_default()));
            }
        }
    }
    if well == names.len() {
        findings.push(Finding::ok(PROVIDERS, format!("asked, as far as they can be: {well} channels")));
    }
}

fn doors(config: &Config, answered: bool, findings: &mut Vec<Finding>) {
    findings.push(doctor::listening("http", config.server.listen, answered, false));
    if let Some(address) = config.smtp.listen {
        let shields = config.smtp.tls_cert.is_some() && !config.smtp.allow_plaintext_auth;
        findings.push(doctor::listening("smtp", address, answered, shields));
    }
}

fn show(findings: &[Finding], worst: Status) {
    let paint = Paint::stdout();
    let painted = |status: Status| {
        let text = format!("{:<5}", status.as_str());
        match status {
            Status::Ok => paint.green(&text),
            Status::Warn => paint.yellow(&text),
            Status::Wrong => paint.red(&text),
        }
    };
    for Finding { name, status, detail, hint } in findings {
        out::line(format!("{} {name:<13} {detail}", painted(*status)));
        if let Some(hint) = hint {
            out::line(format!("      {} {hint}", paint.cyan("hint:")));
        }
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    out::line(match worst {
        Status::Ok => paint.green("all is well"),
        Status::Warn => format!("it works; {} to see to", count(Status::Warn)),
        Status::Wrong => format!("{} wrong, {} to see to", count(Status::Wrong), count(Status::Warn)),
    });
}
