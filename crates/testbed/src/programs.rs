//! PostgreSQL's own programs: where they are, and as whom they run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where Debian's packages put them, below a folder for each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder with `initdb` and its like: the newest that Debian's packages brought, else what is in the path.
pub(crate) fn folder() -> PathBuf {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let newest = numbered.filter(|(_, bin)| bin.join("initdb").exists()).max().map(|(_, bin)| bin);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || std::env::split_paths(&path).find(|bin| bin.join("initdb").exists());
    newest.or_else(in_path).unwrap_or_else(|| {
        panic!(
            "error: PostgreSQL's server is not installed: no initdb in {DEBIAN}/*/bin or in the path\n\
             hint: run scripts/setup, which installs it, then try again"
        )
    })
}

/// One of the programs, run as ourselves.
pub(crate) fn client(name: &str) -> Command {
    let mut command = Command::new(folder().join(name));
    command.stdin(Stdio::null());
    command
}

/// One of the programs, run as whoever may own a cluster: the server refuses to run as root.
pub(crate) fn server(name: &str) -> Command {
    as_server(folder().join(name))
}

/// Any program, run as whoever may own a cluster.
pub(crate) fn as_server(program: impl AsRef<OsStr>) -> Command {
    let mut command = match user() {
        None => Command::new(program),
        Some(_) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
            command
        }
    };
    // A folder that the server's user may not enter would only be complained about.
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Gives a folder to whoever will run the server.
pub(crate) fn hand_over(folder: &Path) {
    if let Some((user, group)) = user() {
        std::os::unix::fs::chown(folder, Some(user), Some(group))
            .unwrap_or_else(|error| panic!("error: cannot give {} to postgres: {error}", folder.display()));
    }
}

/// The ids of `postgres` if we are root, else nothing.
fn user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> Option<u32> {
        let run = Command::new("id").args(arguments).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(run.stdout).ok()?.trim().parse().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    let ids = id(&["-u", "postgres"]).zip(id(&["-g", "postgres"]));
    Some(ids.unwrap_or_else(|| {
        panic!(
            "error: there is no user postgres, and PostgreSQL refuses to run as root\n\
             hint: run scripts/setup, which installs PostgreSQL with its user, or run the tests as yourself"
        )
    }))
}

/// What the program printed.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_owned();
    let run = command.output().map_err(|error| format!("cannot run {}: {error}", name.display()))?;
    if run.status.success() {
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&run.stderr);
        Err(format!("{} ended with {}: {}", name.display(), run.status, said.trim()))
    }
}

/// The processes that this one started and that have not ended.
pub(crate) fn children(parent: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_child = |entry: &std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|id| id.trim() == parent))
    };
    processes.filter(is_child).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a process has ended, be it that nobody has asked how.
pub(crate) fn is_gone(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_none_or(|state| state.trim_start().starts_with(['Z', 'X']))
}

/// A folder in memory where there is one, else that of temporary files.
pub(crate) fn memory() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() }
}
