//! Clusters come and go, and leave nothing behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pombo_testbed::Cluster;

fn answers(url: &str) -> bool {
    TcpStream::connect(url.rsplit('@').next().unwrap().split('/').next().unwrap()).is_ok()
}

#[test]
fn a_copy_has_what_its_template_had_and_goes_its_own_way() {
    let cluster = Cluster::shared();
    let template = cluster.database();
    template.ask("CREATE TABLE t (n int)");
    template.ask("INSERT INTO t VALUES (1)");
    let copy = cluster.database_from(&template);
    copy.ask("INSERT INTO t VALUES (2)");
    assert_eq!(copy.ask("SELECT n, n + 1 FROM t ORDER BY n"), "1|2\n2|3");
    assert_eq!(template.ask("SELECT n FROM t"), "1");
}

#[test]
fn a_database_is_dropped_though_somebody_is_connected() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let mut psql = Command::new("psql");
    psql.args(["--quiet", "--tuples-only", "--dbname", database.url()]);
    let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    psql.stdin.as_mut().unwrap().write_all(b"SELECT 'connected';\n").unwrap();
    let mut said = String::new();
    BufReader::new(psql.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said.trim(), "connected");
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    drop(database);
    let asked = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(cluster.database().ask(&asked), "0");
    drop(psql.stdin.take());
    psql.wait().unwrap();
}

#[test]
fn what_was_committed_outlives_a_restart_and_a_kill() {
    let cluster = Cluster::own();
    let database = cluster.database();
    database.ask("CREATE TABLE t (n int)");
    cluster.restart_immediate();
    database.ask("INSERT INTO t VALUES (1)");
    cluster.kill();
    cluster.start();
    assert_eq!(database.ask("SELECT n FROM t"), "1");
    cluster.stop();
    assert!(!answers(cluster.url()));
    cluster.start();
    assert_eq!(database.ask("SHOW fsync"), "on");
    let folder = database.ask("SHOW data_directory");
    let url = cluster.url().to_owned();
    drop(cluster);
    assert!(!answers(&url));
    assert!(!std::fs::exists(folder).unwrap());
}

fn started() -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pombo-testbed"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (child, url.trim().to_owned())
}

#[test]
fn the_program_ends_its_cluster_once_its_input_closes() {
    let (mut child, url) = started();
    assert!(answers(&url));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!answers(&url));
}

#[test]
fn a_killed_process_leaves_no_cluster_behind() {
    let (mut child, url) = started();
    assert!(answers(&url));
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..200 {
        if !answers(&url) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server is still there");
}
