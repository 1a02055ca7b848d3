//! Encryption at rest: whether what is personal is sealed in the store, and with which key.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pombo_kernel::secret::Secret;
use pombo_store::StoreError;
use pombo_store::vault::Keys;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Value;

use super::channel;
use super::section::Reading;
use crate::clock;

/// How long a command may take to print a key.
const PATIENCE: Duration = Duration::from_secs(30);

const HINT: &str = "make one: openssl rand -base64 32";

/// With which key recipients and contents are sealed in the store; with none they are not.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Encryption {
    /// The key, 32 bytes in base64: "${POMBO_ENCRYPTION_KEY}".
    pub key: Option<Secret>,
    /// A file that holds it, instead of `key`.
    pub key_file: Option<PathBuf>,
    /// A program that prints it, with its arguments, instead of `key`, for example ["vault", "read", "-field=key",
    /// "secret/pombo"]. It is asked when the store is opened.
    pub key_command: Option<Vec<String>>,
    /// Keys that values were sealed with before: they can still be read. For example ["${OLD_ENCRYPTION_KEY}"].
    pub previous: Vec<Secret>,
    /// Files that hold such keys.
    pub previous_files: Vec<PathBuf>,
}

/// Reads the section: its files are read here, its command is asked when the store is opened.
pub(super) fn read(reading: &mut Reading, value: Option<Value>, folder: &Path) -> Encryption {
    let table = value.and_then(|value| reading.table("encryption", value)).unwrap_or_default();
    let mut read: Encryption = reading.section("encryption", table);
    let file = read.key_file.take();
    let here = if file.is_some() { "encryption.key_file" } else { "encryption.key" };
    let (given, named) = (read.key.take(), file.is_some());
    let one = given.is_some() || named;
    read.key = channel::secret(reading, "encryption", "key", given, file.as_deref(), folder);
    expect_key(reading, here, read.key.as_ref());
    if let Some(command) = &read.key_command {
        let path = "encryption.key_command";
        if one {
            reading.problems.say(path, "given together with `key` or `key_file`", "keep one of them");
        } else if command.first().is_none_or(String::is_empty) {
            reading.problems.say(path, "names no program", "write [\"program\", \"argument\"]");
        }
    }
    for (nth, key) in read.previous.iter().enumerate() {
        let path = format!("encryption.previous[{nth}]");
        if reading.origins.outside(&path) {
            expect_key(reading, &path, Some(key));
        } else {
            let hint = "write \"${OLD_ENCRYPTION_KEY}\" and set that variable, or use `previous_files`";
            reading.problems.say(path, "a secret stands in the file", hint);
        }
    }
    for (nth, file) in std::mem::take(&mut read.previous_files).iter().enumerate() {
        let path = format!("encryption.previous_files[{nth}]");
        match std::fs::read_to_string(folder.join(file)) {
            Ok(text) => {
                let key = Secret::new(text.trim());
                expect_key(reading, &path, Some(&key));
                read.previous.push(key);
            }
            Err(error) => {
                let what = format!("{} cannot be read: {error}", file.display());
                reading.problems.say(path, what, "name a file that this user may read");
            }
        }
    }
    if !one && read.key_command.is_none() && !read.previous.is_empty() {
        let what = "there are previous keys, and none to write with";
        reading.problems.say(
            "encryption.key",
            what,
            "give one, or `pombo store rekey --to-plain` with the last",
        );
    }
    read
}

/// Says so if it is no key. One whose variable is not set has been spoken of already.
fn expect_key(reading: &mut Reading, path: &str, key: Option<&Secret>) {
    let told = reading.problems.0.iter().any(|problem| problem.path == path);
    if !told && key.is_some_and(|key| Keys::read(key.expose()).is_none()) {
        reading.problems.say(path, "not 32 bytes in base64", HINT);
    }
}

impl Encryption {
    /// The keys; none if nothing is to be sealed. Asks the command, if there is one.
    pub fn keys(&self) -> Result<Option<Keys>, StoreError> {
        let key = match (&self.key, &self.key_command) {
            (Some(key), _) => key.clone(),
            (None, Some(command)) => printed(command)?,
            (None, None) => return Ok(None),
        };
        let read =
            |key: &Secret| Keys::read(key.expose()).ok_or_else(|| no_key("it is not 32 bytes in base64"));
        let previous = self.previous.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Keys::new(&read(&key)?, &previous, &clock::entropy())))
    }
}

fn no_key(why: impl std::fmt::Display) -> StoreError {
    StoreError::Locked {
        why: format!("the encryption key could not be had: {why}"),
        hint: "look at [encryption] in the configuration; a key is made by `openssl rand -base64 32`"
            .to_owned(),
    }
}

/// What the command prints. What it says of its troubles goes where ours goes.
fn printed(command: &[String]) -> Result<Secret, StoreError> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| no_key("`key_command` names no program"))?;
    let failed = |why: &dyn std::fmt::Display| no_key(format!("`{program}` {why}"));
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| failed(&format!("cannot be run: {error}")))?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(PATIENCE).map_err(|_| failed(&"did not answer within 30 s"))?;
    let output = output.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&format!("ended with {}", output.status)));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| failed(&"printed no text"))?;
    Ok(Secret::new(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Source};

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const OLD: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

    fn parse(section: &str, variables: &[(&str, &str)]) -> Result<Encryption, Vec<String>> {
        let environment = variables.iter().copied().collect::<Environment>();
        let read = Config::parse(&format!("[encryption]\n{section}"), Source::default(), &environment);
        let said = |problems: crate::config::Problems| {
            problems.0.into_iter().map(|it| format!("{}: {}", it.path, it.what)).collect()
        };
        read.map(|config| config.encryption).map_err(said)
    }

    fn ids(read: &Encryption) -> Vec<String> {
        read.keys().unwrap().unwrap().ids().map(|id| id.to_string()).collect()
    }

    #[test] // REQ AU-3
    fn a_key_comes_from_the_environment_a_file_or_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pombo.key");
        std::fs::write(&file, format!("{KEY}\n")).unwrap();
        let all = [
            parse("key = '${POMBO_ENCRYPTION_KEY}'", &[("POMBO_ENCRYPTION_KEY", KEY)]),
            parse(&format!("key_file = '{}'", file.display()), &[]),
            parse(&format!("key_command = ['echo', '{KEY}']"), &[]),
            parse("", &[("POMBO_ENCRYPTION__KEY", KEY)]),
        ]
        .map(|read| ids(&read.unwrap()));
        assert!(all.iter().all(|ids| *ids == all[0] && ids.len() == 1), "{all:?}");
        let read = parse("key = '${A}'\nprevious = ['${B}']", &[("A", OLD), ("B", KEY)]).unwrap();
        assert_eq!(ids(&read)[1], all[0][0], "a previous key comes after the current one");
        let both = format!("key = '${{A}}'\nprevious_files = ['{}']", file.display());
        assert_eq!(ids(&parse(&both, &[("A", OLD)]).unwrap()), ids(&read));
        assert!(parse("", &[]).unwrap().keys().unwrap().is_none(), "no key, nothing sealed");
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_path_and_never_shown() {
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let cases: [Case<'_>; 8] = [
            (&format!("key = '{KEY}'"), &[], "encryption.key: a secret stands in the file"),
            ("key = '${A}'", &[("A", "c2hvcnQ=")], "encryption.key: not 32 bytes in base64"),
            ("key = '${A}'", &[], "encryption.key: the variable `A` is not set"),
            (
                "key_file = '/nowhere/pombo.key'",
                &[],
                "encryption.key_file: /nowhere/pombo.key cannot be read",
            ),
            ("key = '${A}'\nkey_command = ['x']", &[("A", KEY)], "encryption.key_command: given together"),
            ("key_command = []", &[], "encryption.key_command: names no program"),
            ("previous = ['${A}']", &[("A", KEY)], "encryption.key: there are previous keys"),
            (&format!("key_command = ['x']\nprevious = ['{KEY}']"), &[], "encryption.previous[0]: a secret"),
        ];
        for (section, variables, expected) in cases {
            let found = parse(section, variables).unwrap_err();
            assert!(found.iter().any(|it| it.starts_with(expected)), "{section}: {found:?}");
            assert!(!format!("{found:?}").contains(KEY), "{section}: {found:?}");
        }
        assert!(!format!("{:?}", parse("key = '${A}'", &[("A", KEY)]).unwrap()).contains(KEY));
    }

    #[test]
    fn a_command_that_fails_says_so_without_what_it_printed() {
        for (command, expected) in [
            ("['false']", "`false` ended with exit status: 1"),
            ("['echo', 'canary']", "it is not 32 bytes in base64"),
            ("['/nowhere/at-all']", "cannot be run"),
        ] {
            let read = parse(&format!("key_command = {command}"), &[]).unwrap();
            let error = read.keys().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("canary"), "{error}");
        }
    }
}
