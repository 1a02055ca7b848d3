//! The benchmark command, in small: what it prints, not how fast it is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by failing")]

use std::process::Command;

use pombo_testbed::Cluster;
use serde_json::Value;

/// The lines that the command prints in a folder of its own, which it leaves as it found it.
fn bench(args: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--jobs", "500", "--single", "64", "--latency", "10", "--ready", "100", "--retry", "20"];
    let done = Command::new(env!("CARGO_BIN_EXE_pombo"))
        .arg("bench")
        .args(args)
        .args(small)
        .args(["--backlog", "500", "--workers", "50"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left behind");
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check(line: &Value, name: &str, jobs: u64, audit_records: u64) {
    assert_eq!(line["store"], "sqlite", "{line}");
    assert_eq!(line["durability"], "wal, synchronous=FULL, audit record per transition", "{line}");
    check_figures(line, name, jobs, audit_records);
}

fn check_figures(line: &Value, name: &str, jobs: u64, audit_records: u64) {
    assert_eq!(line["name"], name, "{line}");
    assert_eq!((line["jobs"].as_u64(), line["audit_records"].as_u64()), (Some(jobs), Some(audit_records)));
    for field in ["seconds", "jobs_per_s"] {
        assert!(line[field].as_f64().unwrap() > 0.0, "{field}: {line}");
    }
    for field in ["cpu_us_per_job", "peak_rss_mib"] {
        assert!(line.get(field).is_some_and(|value| value.is_number() || value.is_null()), "{field}: {line}");
    }
}

#[test]
fn every_workload_prints_a_line_with_its_fields() {
    let lines = bench(&["W1", "W1s", "W2", "W3", "W4", "W5"]);
    assert_eq!(lines.len(), 6);
    check(&lines[0], "W1", 500, 500);
    check(&lines[1], "W1s", 64, 64);
    check(&lines[2], "W2", 500, 1_500);
    check(&lines[3], "W3", 10, (128 + 10) * 3);
    check(&lines[4], "W4", 100, 500 + 100 * 3);
    check(&lines[5], "W5", 20, 20 + 60 * 2);
    assert!(lines.iter().all(|line| line["door"] == "process"));
    assert_eq!((lines[2]["calls"].as_u64(), lines[5]["calls"].as_u64()), (Some(500), Some(60)));
    for field in ["return_to_start_ms", "call_to_start_ms"] {
        assert!(lines[3][field]["p99"].is_number(), "{}", lines[3]);
    }
}

#[test]
fn the_http_door_and_http_out_give_the_same_lines() {
    let lines = bench(&["w1", "W1s", "HTTP", "HTTPs", "--door", "http", "--runs", "2"]);
    assert_eq!(lines.len(), 8);
    check(&lines[0], "W1", 500, 500);
    check(&lines[5], "W1s", 64, 64);
    check(&lines[2], "HTTP", 500, 1_500);
    check(&lines[7], "HTTPs", 64, 192);
    assert!(lines.iter().all(|line| line["door"] == "http"));
    assert_eq!((lines[3]["run"].as_u64(), lines[4]["run"].as_u64()), (Some(1), Some(2)));
    assert_eq!(lines[2]["calls"].as_u64(), Some(500));
}

#[test]
fn two_nodes_on_postgresql_do_the_same_and_leave_no_database_behind() {
    let database = Cluster::shared().database();
    let lines = bench(&["W1", "W1s", "W2", "W4", "W5", "--nodes", "2", "--database-url", database.url()]);
    assert_eq!(lines.len(), 5);
    check_figures(&lines[0], "W1", 500, 500);
    check_figures(&lines[1], "W1s", 64, 64);
    check_figures(&lines[2], "W2", 500, 1_500);
    check_figures(&lines[3], "W4", 100, 500 + 100 * 3);
    check_figures(&lines[4], "W5", 20, 20 + 60 * 2);
    for line in &lines {
        assert_eq!((&line["store"], &line["nodes"]), (&"postgres".into(), &2.into()), "{line}");
        let durability = line["durability"].as_str().unwrap();
        assert!(
            durability.contains("fsync=off") && durability.contains("synchronous_commit="),
            "{durability}"
        );
        assert!(line["server_cpu_us_per_job"].is_number(), "the server is on this machine: {line}");
    }
    let left = database.ask("SELECT count(*) FROM pg_database WHERE datname LIKE 'pombo_bench_%'");
    assert_eq!(left, "0");
}
