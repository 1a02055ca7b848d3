//! The files under `deploy/`, as far as they can be tried without a systemd or a Docker that runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use place::{Place, binary};

/// Where the unit expects the binary.
const INSTALLED: &str = "/usr/local/bin/pombo";
/// What `--grace` is unless it is given.
const GRACE_SECONDS: u64 = 30;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn all(pattern: &str, text: &str) -> Vec<String> {
    let found = Regex::new(pattern).unwrap();
    found.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// What a checker says against a file; nothing if it is content.
fn complaints(checker: &mut Command) -> String {
    let name = checker.get_program().to_owned();
    let run = checker.output();
    let run = run.unwrap_or_else(|error| panic!("{}: {error}; scripts/setup installs it", name.display()));
    let said = [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if run.status.success() { String::new() } else { format!("{}\n{said}", run.status) }
}

#[test]
fn systemd_understands_the_unit_and_finds_it_well_shut_in() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("pombo.service");
    let text = read("deploy/pombo.service");
    assert!(text.contains(INSTALLED));
    std::fs::write(&unit, text.replace(INSTALLED, binary().to_str().unwrap())).unwrap();
    let mut verify = Command::new("systemd-analyze");
    // Otherwise it succeeds though it ignores what it does not know.
    verify.args(["verify", "--recursive-errors=no"]).arg(&unit);
    assert_eq!(complaints(&mut verify), "");
    let mut security = Command::new("systemd-analyze");
    // From 0, which can do nothing, to 100, which can do everything.
    security.args(["security", "--no-pager", "--offline=true", "--threshold=20"]).arg(&unit);
    assert_eq!(complaints(&mut security), "");
    let stop: u64 = all(r"(?m)^TimeoutStopSec=(\d+)$", &text)[0].parse().unwrap();
    assert!(stop > GRACE_SECONDS, "systemd would kill it while it still waits for what is being sent");
}

#[test]
fn the_compose_file_is_well_formed_and_waits_longer_than_the_grace() {
    const RULES: &str = "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}";
    let mut lint = Command::new("yamllint");
    lint.args(["--strict", "--config-data", RULES]).arg(root().join("deploy/compose.yaml"));
    assert_eq!(complaints(&mut lint), "");
    let text = read("deploy/compose.yaml");
    for file in all(r"(?m)^ +dockerfile: (\S+)$", &text) {
        assert!(root().join(&file).is_file(), "there is no {file}");
    }
    for image in all(r"(?m)^ +image: (\S+)$", &text) {
        assert!(is_plain_and_pinned(&image), "{image}");
    }
    let stop: u64 = all(r"(?m)^ +stop_grace_period: (\d+)s$", &text)[0].parse().unwrap();
    assert!(stop > GRACE_SECONDS, "Docker would kill it while it still waits for what is being sent");
    assert!(!text.contains("privileged: true"));
    for secret in all(r"(?m)^ +\w*(?:PASSWORD|KEY|SECRET)\w*:(.*)$", &text) {
        assert!(secret.is_empty() || secret.starts_with(" ${"), "a secret stands in the file: {secret}");
    }
}

/// A name and a version; neither a registry's address nor whatever is the latest today.
fn is_plain_and_pinned(image: &str) -> bool {
    Regex::new(r"^[a-z]+:[0-9a-z][0-9a-z.-]*$").unwrap().is_match(image) && !image.ends_with(":latest")
}

#[test]
fn the_image_is_built_from_locked_sources_that_exist_and_does_not_run_as_root() {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let mut stages = BTreeSet::new();
    for line in all(r"(?m)^FROM (.+)$", &text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(is_plain_and_pinned(words[0]) || stages.contains(words[0]), "{line}");
        stages.extend(words.get(2).map(|name| (*name).to_owned()));
    }
    let sent = read("deploy/Dockerfile.dockerignore");
    let sent: BTreeSet<&str> = sent.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for line in all(r"(?m)^COPY (.+)$", &text) {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(stage) = words[0].strip_prefix("--from=") {
            assert!(stages.contains(stage), "there is no stage {stage}");
            continue;
        }
        words.pop();
        for source in words {
            assert!(root().join(source).exists(), "there is no {source}");
            assert!(sent.contains(source), "{source} is not sent to the builder");
        }
    }
    let builds = all(r"(?m)^RUN (cargo .+)$", &text);
    assert!(!builds.is_empty() && builds.iter().all(|build| build.contains("--locked")), "{builds:?}");
    let user = all(r"(?m)^USER (\d+):\d+$", &text);
    assert!(user.last().is_some_and(|user| user != "0"), "it would run as root");
    let end = text.rfind("\nUSER ").unwrap();
    assert!(!text[end..].contains("\nRUN ") && !text[end..].contains("\nFROM "));
}

#[tokio::test]
async fn the_images_health_check_tells_a_server_that_is_ready_from_one_that_is_not_there() {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let check = all(r"(?m)^HEALTHCHECK .*CMD (\[.+\])$", &text);
    let check: Vec<String> = serde_json::from_str(&check[0]).unwrap();
    let place = Place::new();
    let port = place.url().rsplit(':').next().unwrap().to_owned();
    let asks = || {
        let words: Vec<String> = check.iter().map(|word| word.replace("7662", &port)).collect();
        complaints(Command::new(&words[0]).args(&words[1..]))
    };
    assert_ne!(asks(), "");
    let server = place.start();
    place.ready().await;
    assert_eq!(asks(), "");
    assert!(server.terminate().await.success());
}

#[test]
fn every_variable_that_the_compose_file_sets_is_in_the_reference() {
    let reference = ["configuration", "cli"].map(|name| read(&format!("docs/reference/{name}.md"))).concat();
    let compose = read("deploy/compose.yaml");
    let node = &compose[compose.find("\n  pombo:").unwrap()..];
    let variables = all(r"(?m)^ {6}([A-Z][A-Z_]+):", node);
    assert!(variables.len() > 3, "{variables:?}");
    for variable in variables {
        assert!(reference.contains(&format!("`{variable}`")), "{variable} is not in the reference");
    }
}
