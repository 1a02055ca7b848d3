//! The configuration file. What it refuses it explains, and no secret of the environment is in the explanation.

use std::path::PathBuf;

use pombo::config::{Config, EXAMPLE, Environment, Problems, Source};

use super::text;
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "[channels.x]\nkind = \"webhook\"\n",
    "[channels.x]\nkind = \"smtp\"\nurl = \"smtps://u:p@mail.example\"\n",
    "[channels.x]\nkind = \"smtp\"\nurl = \"smtps://u:${SECRET}@mail.example\"\n",
    "[channels.x.retry]\nattempts = 3\n",
    "[[channels.x.rules]]\nstatus = 429\nverdict = \"retry\"\n",
    "[lanes.x]\nworkers = 4\n",
    "[[routes]]\ntype = \"a\"\nlane = \"bulk\"\n",
    "[policies.x]\n",
    "[windows.x]\nhours = \"08:00-18:00\"\n",
    "[retention]\nsent = \"30d\"\n",
    "[alerts]\n",
    "[notices.x]\nchannel = \"x\"\nto = \"a@x.example\"\n",
    "[store]\ndatabase_url = \"${SECRET}\"\n",
    "[encryption]\nkey = \"${SECRET}\"\n",
    "profile = \"development\"\n",
    "time_zone = \"America/Sao_Paulo\"\n",
    "${SECRET}",
    "$${",
    "\"10/s\"",
    "\"48h\"",
    "10.0.0.0/8",
    "{ last = 100 }",
    "true",
    "'''",
];

/// The settings that are secrets by themselves.
const SECRETS: [&str; 9] = [
    "api_key",
    "client_secret",
    "database_url",
    "key",
    "password",
    "previous_secret",
    "receipt_secret",
    "secret",
    "signing_key",
];

const CANARY: &str = "c4n4ry-s3cr3t-0123456789";

/// The example, as it is and with everything switched on that it leaves out; and with a secret in the place of each of
/// its texts, one after the other.
pub(super) fn made() -> Vec<Vec<u8>> {
    let all = EXAMPLE.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    });
    let all = all.collect::<Vec<_>>().join("\n");
    let mut seeds = vec![EXAMPLE.as_bytes().to_vec(), all.as_bytes().to_vec()];
    // Each section by itself, so that changes of one are not drowned by the rest.
    for part in all.split("\n\n").filter(|part| part.contains('=')) {
        seeds.push(part.as_bytes().to_vec());
        let settings: Vec<&str> = part.lines().filter(|line| !line.starts_with('#')).collect();
        for (number, line) in settings.iter().enumerate() {
            let mut quoted = line.splitn(3, '"');
            if let (Some(before), Some(_), Some(after)) = (quoted.next(), quoted.next(), quoted.next()) {
                let told = format!("{before}\"${{SECRET}}\"{after}");
                let [above, below] =
                    [&settings[..number], &settings[number + 1..]].map(|lines| lines.join("\n"));
                seeds.push([above, told, below].join("\n").into_bytes());
            }
        }
    }
    seeds
}

/// Whether a variable may stand in another place than that of a secret, such as a route's type: then whoever wrote the
/// file wants it shown. Problems do not show it even so, since what they are about may stand in the wrong place.
fn in_the_open(file: &str) -> bool {
    let hidden = |line: &str| {
        let (key, value) = line.split_once(" = ").unwrap_or_default();
        let address = value.split_once("://u:${SECRET}@");
        let password = address.is_some_and(|(scheme, host)| !scheme.contains('/') && !host.contains("${"));
        match key {
            "url" => password,
            _ => SECRETS.contains(&key) && matches!(value, "\"${SECRET}\"" | "\"${DATABASE_URL}\""),
        }
    };
    let mut variables = file.lines().filter(|line| line.contains("${"));
    !variables.all(hidden) || file.contains("'''") || file.contains("\"\"\"")
}

pub(super) fn run(bytes: &[u8]) -> Sign {
    let file = text(bytes);
    let environment: Environment =
        [("SECRET", CANARY), ("DATABASE_URL", CANARY), ("POMBO_ENCRYPTION_KEY", CANARY)]
            .into_iter()
            .collect();
    // Files that it names are looked for in a folder that is not there.
    let source = Source { file: Some(PathBuf::from("no-such-folder/pombo.toml")), profile: None };
    match Config::parse(&file, source, &environment) {
        Ok(config) => {
            let shown = format!("{config:?}");
            assert!(!shown.contains(CANARY) || in_the_open(&file), "{shown}");
            let setup = config.setup();
            assert!(setup.lanes.contains_key("default") && !setup.channels.is_empty());
            Sign::of((config.channels.len().min(4), config.lanes.len(), setup.routes.len()))
        }
        Err(problems) => {
            let shown = problems.to_string();
            assert!(!shown.contains(CANARY), "{shown}");
            let Problems(list) = &problems;
            assert!(!list.is_empty() && !shown.is_empty());
            let whats = list.iter().map(|problem| problem.to_string().chars().take(40).collect::<String>());
            Sign::of(whats.take(3).collect::<Vec<_>>())
        }
    }
}
