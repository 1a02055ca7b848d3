//! The audit: how often the end of its chain is signed, and with what.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use pombo_kernel::secret::Secret;
use pombo_kernel::time::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Value;

use super::channel;
use super::section::Reading;
use crate::anchors::key::Signer;

/// How the audit chain is signed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// The end of the chain is signed at least so often while something happens, for example "1h"; a day at most.
    pub anchor_every: Span,
    /// And after so many records, for example 100000.
    pub anchor_records: NonZeroU64,
    /// The private key that signs, Ed25519 in PEM: "${AUDIT_SIGNING_KEY}". An embedded store makes one of its own; nodes on
    /// a database sign nothing without one.
    pub signing_key: Option<Secret>,
    /// A file that holds it, instead of `signing_key`.
    pub signing_key_file: Option<PathBuf>,
    /// A file that anchors are copied to, one a line; best on another machine's disk. An embedded store has
    /// `anchors.ndjson` in its folder.
    pub anchors_file: Option<PathBuf>,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit {
            anchor_every: Span::from_hours(1),
            anchor_records: NonZeroU64::new(100_000).unwrap_or(NonZeroU64::MIN),
            signing_key: None,
            signing_key_file: None,
            anchors_file: None,
        }
    }
}

const SHORTEST: Span = Span::from_secs(1);
const LONGEST: Span = Span::from_hours(24);

pub(super) fn read(reading: &mut Reading, value: Option<Value>, folder: &Path) -> Audit {
    let table = value.and_then(|value| reading.table("audit", value)).unwrap_or_default();
    let mut audit: Audit = reading.section("audit", table);
    if !(SHORTEST..=LONGEST).contains(&audit.anchor_every) {
        let what = format!("not from {SHORTEST} to {LONGEST}");
        reading.problems.say("audit.anchor_every", what, "for example \"1h\"");
    }
    let file = audit.signing_key_file.take();
    let given = audit.signing_key.take();
    let here = if file.is_some() { "audit.signing_key_file" } else { "audit.signing_key" };
    audit.signing_key = channel::secret(reading, "audit", "signing_key", given, file.as_deref(), folder);
    let told = reading.problems.0.iter().any(|problem| problem.path == here);
    if !told && let Some(Err(why)) = audit.signing_key.as_ref().map(|key| Signer::read(key.expose())) {
        reading.problems.say(here, why, "make one: openssl genpkey -algorithm ed25519 -out audit.key");
    }
    audit.anchors_file = audit.anchors_file.map(|file| folder.join(file));
    audit
}

#[cfg(test)]
pub(super) mod tests {
    use crate::config::{Config, Environment, Source};

    pub(crate) const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----";

    fn read(section: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let environment = variables.iter().copied().collect::<Environment>();
        let read = Config::parse(&format!("[audit]\n{section}"), Source::default(), &environment);
        read.map_err(|problems| {
            problems.0.into_iter().map(|it| format!("{}: {}", it.path, it.what)).collect()
        })
    }

    #[test]
    fn the_key_comes_from_outside_the_file_and_is_one() {
        let key = r#"signing_key = "${KEY}""#;
        assert!(read(key, &[("KEY", KEY)]).unwrap().audit.signing_key.is_some());
        assert!(read("", &[]).unwrap().audit.signing_key.is_none());
        assert_eq!(read(key, &[]).unwrap_err(), ["audit.signing_key: the variable `KEY` is not set"]);
        let wrong = read(key, &[("KEY", "canary")]).unwrap_err();
        assert_eq!(wrong, ["audit.signing_key: not a private key in PEM (PKCS #8)"]);
        let wrong = read(&format!("signing_key = '''{KEY}'''"), &[]).unwrap_err();
        assert_eq!(wrong, ["audit.signing_key: a secret stands in the file"]);
        let wrong = read("signing_key_file = 'not-there.pem'", &[]).unwrap_err();
        assert!(wrong[0].starts_with("audit.signing_key_file: not-there.pem cannot be read"), "{wrong:?}");
    }

    #[test]
    fn the_chain_is_signed_once_a_day_at_least() {
        for (wrong, path) in [
            ("anchor_every = '25h'", "audit.anchor_every"),
            ("anchor_every = '10ms'", "audit.anchor_every"),
            ("anchor_records = 0", "audit.anchor_records"),
            ("every = '1h'", "audit.every"),
        ] {
            let found = read(wrong, &[]).unwrap_err();
            assert!(found.len() == 1 && found[0].starts_with(path), "{wrong}: {found:?}");
        }
    }
}
