//! Clients that others wrote. `scripts/setup` installs them; a test whose client is not there fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the scripts are that use them.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients")
}

/// Where they are installed.
pub(crate) fn installed() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("clients");
    assert!(folder.join("installed").exists(), "the clients are not there: run scripts/setup");
    folder
}

/// A script for Node.
pub(crate) fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", installed().join("node_modules")).arg(scripts().join(script));
    command
}

/// A script for Python.
pub(crate) fn python(script: &str) -> Command {
    let mut command = Command::new(installed().join("python/bin/python"));
    command.arg(scripts().join(script));
    command
}

/// Runs a client to its end, without holding up the servers that it speaks to; what it said.
pub(crate) async fn run(mut client: Command) -> String {
    let run = move || client.output().unwrap_or_else(|error| panic!("{client:?}: {error}"));
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(run).await.unwrap();
    let said = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{status}\n{said}\n{}", String::from_utf8_lossy(&stderr));
    said
}
