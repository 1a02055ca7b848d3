//! What is well and what is not, about a configuration, a store and the machine that they are on: pure judgements, and
//! the few looks at files that they need.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use pombo_kernel::time::{Span, Time};
use pombo_store::glance::{Damage, Glance};
use serde::Serialize;
use toml::{Table, Value};

use crate::config::Config;
use crate::meter::Disk;

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    /// It works, and somebody should see to it.
    Warn,
    Wrong,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Wrong => "wrong",
        }
    }
}

/// One thing that was looked at. Where it is not well, `hint` says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Finding {
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Finding {
        Finding { name, status: Status::Ok, detail: detail.into(), hint: None }
    }

    pub(crate) fn warn(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding { name, status: Status::Warn, detail: detail.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn wrong(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding { name, status: Status::Wrong, detail: detail.into(), hint: Some(hint.into()) }
    }
}

/// Which channels can send, as far as the configuration goes.
pub(crate) fn channels(config: &Config) -> Finding {
    let (ready, unready): (Vec<_>, Vec<_>) =
        config.channels.iter().partition(|(_, channel)| channel.unready().is_none());
    let names = |list: &[(&_, &_)]| {
        list.iter()
            .map(|(name, _): &(&pombo_kernel::name::ChannelName, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (ready.len(), unready.len()) {
        (_, 0) => Finding::ok("channels", format!("set up: {}", names(&ready))),
        (0, _) => Finding::wrong(
            "channels",
            format!("none is set up: {}", names(&unready)),
            "`pombo config check` says what each one lacks; until then their messages wait",
        ),
        _ => Finding::warn(
            "channels",
            format!("set up: {}; not set up: {}", names(&ready), names(&unready)),
            "`pombo config check` says what they lack; until then their messages wait, or remove them",
        ),
    }
}

/// What a short look at the store has found.
pub(crate) fn store(place: &str, seen: &Glance) -> Vec<Finding> {
    const STORE: &str = "store";
    let mut found = Vec::new();
    let used = if seen.in_use { ", in use by a server" } else { "" };
    found.push(match &seen.unwritable {
        None => Finding::ok(STORE, format!("{place}, schema {}{used}", seen.schema)),
        Some(why) => Finding::wrong(
            STORE,
            format!("{place} cannot be written: {why}"),
            "let the user that runs Pombo write there; on PostgreSQL name the primary, and run `pombo store migrate`",
        ),
    });
    found.push(match &seen.damage {
        Damage::None => Finding::ok("integrity", "pages and indexes hold together"),
        Damage::NotOurs => Finding::ok("integrity", "the database sees to its own pages"),
        Damage::NotKnown => Finding::ok(
            "integrity",
            "nothing wrong was found in ten seconds; `pombo store check` looks at all of it",
        ),
        Damage::Found(what) => Finding::wrong(
            "integrity",
            format!("the file is damaged: {what}"),
            "stop the server, keep a copy of the folder, and go back to the last backup",
        ),
    });
    if let Some(pause) = &seen.paused {
        found.push(Finding::warn(
            "sending",
            format!("paused since {}: {}", pause.since, pause.why),
            "see what waits, cancel what was sent already, then `pombo store resume`",
        ));
    }
    found
}

/// Whether something can be written into a folder, and what time its disk has.
pub(crate) fn write_test(folder: &Path) -> (Option<Finding>, Option<Time>) {
    let written =
        tempfile::Builder::new().prefix(".pombo-doctor-").tempfile_in(folder).and_then(|mut file| {
            file.write_all(&[0; 4096])?;
            file.as_file().sync_all()?;
            file.as_file().metadata()?.modified()
        });
    match written {
        Ok(at) => {
            let since = at.duration_since(std::time::UNIX_EPOCH).ok();
            let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
            (None, millis.map(Time::from_millis))
        }
        Err(error) => {
            let hint = "let the user that runs Pombo write there, and see that its disk is neither full nor read-only";
            let detail = format!("nothing can be written into {}: {error}", folder.display());
            (Some(Finding::wrong("store", detail, hint)), None)
        }
    }
}

const MIB: u64 = 1024 * 1024;

/// Whether the disk has room. What is left must hold the largest burst until somebody comes.
pub(crate) fn disk(disk: Disk) -> Finding {
    let said = format!("{} of {} are free", size(disk.free), size(disk.total));
    let hint = "make room, or move the folder: a full disk pauses sending and refuses new messages";
    match disk.free {
        free if free < 200 * MIB => Finding::wrong("disk", said, hint),
        free if free < 1024 * MIB || free < disk.total / 10 => Finding::warn("disk", said, hint),
        _ => Finding::ok("disk", said),
    }
}

fn size(bytes: u64) -> String {
    match bytes / MIB {
        mib if mib >= 10 * 1024 => format!("{} GiB", mib / 1024),
        mib => format!("{mib} MiB"),
    }
}

/// No version of Pombo is older.
const EARLIEST: Time = Time::from_millis(1_735_689_600_000);
/// How far two clocks may be apart.
const APART: Span = Span::from_secs(2);

/// Whether this machine's clock can be right, held against those of others and against what was written before.
pub(crate) fn clock(now: Time, others: &[(&str, Time)], latest: Option<Time>) -> Finding {
    const CLOCK: &str = "clock";
    const NTP: &str = "let an NTP service set the clock, here and on the machine of the database";
    if now < EARLIEST {
        return Finding::wrong(CLOCK, format!("it says {now}, which is long ago"), NTP);
    }
    if let Some(latest) = latest.filter(|latest| *latest > now + APART) {
        let ahead = latest.since(now);
        let detail = format!(
            "the last record in the store was written at {latest}, {ahead} from now: it was set back"
        );
        let hint = format!("{NTP}; messages may wait until the time has come again");
        return match ahead > Span::from_mins(1) {
            true => Finding::wrong(CLOCK, detail, hint),
            false => Finding::warn(CLOCK, detail, hint),
        };
    }
    for (whose, time) in others {
        let apart = time.since(now).max(now.since(*time));
        if apart > APART {
            return Finding::warn(CLOCK, format!("it is {apart} away from that of {whose}"), NTP);
        }
    }
    let agrees =
        others.iter().map(|(whose, _)| format!(", and agrees with that of {whose}")).collect::<String>();
    Finding::ok(CLOCK, format!("it says {now}{agrees}"))
}

/// Keys that name files which anybody may read.
const PUBLIC: [&str; 3] = ["ca_file", "client_cert_file", "anchors_file"];

/// The files of secrets that a configuration names, wherever they stand in it.
pub(crate) fn secret_files(text: &str, folder: &Path) -> Vec<PathBuf> {
    fn gather(table: &Table, files: &mut Vec<PathBuf>) {
        for (key, value) in table {
            match value {
                Value::Table(table) => gather(table, files),
                Value::Array(items) => {
                    items.iter().filter_map(Value::as_table).for_each(|table| gather(table, files));
                    let named = items.iter().filter_map(Value::as_str).filter(|_| key.ends_with("_files"));
                    files.extend(named.map(PathBuf::from));
                }
                Value::String(file) if is_secret(key) => files.push(file.into()),
                _ => {}
            }
        }
    }
    let mut files = Vec::new();
    gather(&toml::from_str::<Table>(text).unwrap_or_default(), &mut files);
    files.into_iter().map(|file| folder.join(file)).collect()
}

fn is_secret(key: &str) -> bool {
    key == "tls_key" || (key.ends_with("_file") && !PUBLIC.contains(&key))
}

/// Whether others on this machine can read what they should not. A file in a folder that others cannot enter is safe,
/// whatever its own mode is.
pub(crate) fn permissions(files: &[PathBuf]) -> Finding {
    let found: Vec<_> = files.iter().filter_map(|file| Some((file, others_can_read(file)?))).collect();
    let open: Vec<String> =
        found.iter().filter(|(_, open)| *open).map(|(file, _)| file.display().to_string()).collect();
    if open.is_empty() {
        let detail = match found.len() {
            0 => "there are no files with secrets".to_owned(),
            count => format!("files that are nobody else's: {count}"),
        };
        return Finding::ok("secrets", detail);
    }
    let detail = format!("every user of this machine can read {}", open.join(", "));
    Finding::wrong("secrets", detail, format!("chmod o-rwx {}", open.join(" ")))
}

/// Nothing if there is no such file.
#[cfg(unix)]
fn others_can_read(file: &Path) -> Option<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    let file = file.canonicalize().ok()?;
    let mode = |path: &Path| path.metadata().map(|found| found.permissions().mode()).ok();
    let mut above = file.ancestors().skip(1);
    Some(mode(&file)? & 0o004 != 0 && above.all(|folder| mode(folder).is_none_or(|mode| mode & 0o001 != 0)))
}

#[cfg(not(unix))]
fn others_can_read(_: &Path) -> Option<bool> {
    None
}

/// Whether a door can be opened at that address, or is open already.
pub(crate) fn listening(name: &'static str, address: SocketAddr, answered: bool, shields: bool) -> Finding {
    let free = TcpListener::bind(address);
    match free {
        Err(error) if error.kind() == ErrorKind::AddrInUse && answered => {}
        Ok(_) => {}
        Err(error) => {
            let hint = "stop what else listens there, or choose another address in the configuration";
            return Finding::wrong(name, format!("{address} cannot be listened on: {error}"), hint);
        }
    }
    if !shields && !address.ip().is_loopback() {
        let detail = format!("{address} can be reached from other machines, in the clear");
        let hint = "put a proxy with TLS in front, or listen on 127.0.0.1; see docs/guides/security.md";
        return Finding::warn(name, detail, hint);
    }
    Finding::ok(name, format!("{address}{}", if answered { "" } else { ", free" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn later(millis: u64) -> Time {
        NOW + Span::from_millis(millis)
    }

    #[test]
    fn a_clock_is_held_against_others_and_against_what_was_written() {
        for (others, latest, status, word) in [
            (vec![], None, Status::Ok, "it says"),
            (vec![("the disk", later(1_900))], Some(NOW), Status::Ok, "agrees with that of the disk"),
            (vec![("the database", later(2_100))], None, Status::Warn, "2s100ms away"),
            (vec![], Some(later(5_000)), Status::Warn, "set back"),
            (vec![("the disk", NOW)], Some(later(3_600_000)), Status::Wrong, "set back"),
        ] {
            let found = clock(NOW, &others, latest);
            assert_eq!(found.status, status, "{found:?}");
            assert!(found.detail.contains(word), "{found:?}");
        }
        assert_eq!(clock(Time::from_millis(0), &[], None).status, Status::Wrong);
    }

    #[test]
    fn a_disk_is_full_before_nothing_is_left() {
        let status = |free: u64, total: u64| disk(Disk { free: free * MIB, total: total * MIB }).status;
        assert_eq!(status(100, 1_000), Status::Wrong);
        assert_eq!(status(900, 10_000), Status::Warn);
        assert_eq!(status(9_000, 100_000), Status::Warn, "less than a tenth");
        assert_eq!(status(11_000, 100_000), Status::Ok);
    }

    #[test]
    fn files_of_secrets_are_found_wherever_they_stand() {
        let text = "[store]\ndatabase_url_file = 'db.url'\n[smtp]\ntls_cert = 'a.pem'\ntls_key = 'b.pem'\n\
                    [channels.m]\nca_file = 'ca.pem'\npassword_file = '/run/p'\ndkim = { key_file = 'dkim.pem' }";
        let mut files = secret_files(text, Path::new("/etc/pombo"));
        files.sort();
        let expected = ["/etc/pombo/b.pem", "/etc/pombo/db.url", "/etc/pombo/dkim.pem", "/run/p"];
        assert_eq!(files, expected.map(PathBuf::from));
    }

    #[cfg(unix)]
    #[test] // REQ SE-2
    fn a_secret_that_everybody_can_read_is_wrong() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "x").unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let files = [file.clone(), "/nowhere".into()];
        for (folder_mode, file_mode, status) in [
            (0o755, 0o640, Status::Ok),
            (0o755, 0o644, Status::Wrong),
            (0o700, 0o644, Status::Ok),
            (0o711, 0o604, Status::Wrong),
        ] {
            set(folder.path(), folder_mode);
            set(&file, file_mode);
            let found = permissions(&files);
            assert_eq!(found.status, status, "{folder_mode:o} {file_mode:o}: {found:?}");
            assert_eq!(found.hint.is_some_and(|hint| hint.starts_with("chmod")), status == Status::Wrong);
        }
        assert_eq!(permissions(&[]).status, Status::Ok);
    }

    #[test]
    fn an_address_that_is_taken_by_something_else_is_wrong() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert_eq!(listening("http", address, false, false).status, Status::Wrong);
        assert_eq!(listening("http", address, true, false).status, Status::Ok, "it is our server");
        drop(taken);
        assert_eq!(listening("http", address, false, false).status, Status::Ok);
        let open = listening("http", "0.0.0.0:0".parse().unwrap(), false, false);
        assert_eq!(open.status, Status::Warn, "{open:?}");
        assert_eq!(listening("smtp", "0.0.0.0:0".parse().unwrap(), false, true).status, Status::Ok);
    }

    #[test]
    fn what_is_wrong_with_a_store_is_told_with_what_to_do() {
        let well = Glance {
            schema: 6,
            in_use: false,
            unwritable: None,
            damage: Damage::None,
            now: None,
            latest: None,
            paused: None,
        };
        let statuses = |seen: &Glance| store("x", seen).iter().map(|found| found.status).collect::<Vec<_>>();
        assert_eq!(statuses(&well), [Status::Ok, Status::Ok]);
        let damaged = Glance { damage: Damage::Found("row missing".into()), ..well.clone() };
        assert_eq!(statuses(&damaged), [Status::Ok, Status::Wrong]);
        let standby = Glance { unwritable: Some("a standby".into()), damage: Damage::NotOurs, ..well };
        assert_eq!(statuses(&standby), [Status::Wrong, Status::Ok]);
        assert!(
            store("x", &standby).iter().all(|found| found.hint.is_some() == (found.status != Status::Ok))
        );
    }
}
