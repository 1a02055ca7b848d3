//! The power cut while the real binary is under load: nothing that was acknowledged may be lost.
//!
//! The data folder, or that of the PostgreSQL it works on, is on an ext4 image. A cut makes the file system drop
//! whatever was not flushed; then the processes are killed and the image mounted anew, as after a power failure. The
//! control does the same to a binary that flushes too seldom, and must lose something: so the test is known to see a
//! loss.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pombo_kernel::dice::Dice;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Time;
use pombo_store::StoreError;
use pombo_store::home::Home;
use pombo_store::sqlite::Sqlite;
use pombo_testbed::{Cluster, kill_server, psql};

use place::witness::Witness;
use place::{Mount, Place, Told, all_arrive, all_arrive_on, binary, lost, produce, sink};

const IMAGE_MB: u64 = 128;
/// So much may come in between two cuts.
const CUT_MB: u64 = 8;
/// Enough for every run; `POMBO_POWER_CUTS` asks for more.
const CUTS: u64 = 5;
/// The same on PostgreSQL, whose own recovery takes a while.
const CUTS_POSTGRES: u64 = 2;
/// What a new cluster and the log of its first minutes take.
const CLUSTER_MB: u64 = 1_024;
const PRODUCERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, RELIABILITY 6
async fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let cuts = std::env::var("POMBO_POWER_CUTS").map_or(CUTS, |text| text.parse().unwrap());
    let place = Place::new();
    let disk = Mount::ext4(place.folder.path(), IMAGE_MB + CUT_MB * cuts);
    let data = disk.folder.join("data");
    let mut witness = Witness::start().await;
    let told = Told::default();
    let urls = [witness.sink.url("/slow?ms=3"), witness.sink.url("/flaky?fail=1")];
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|name| tokio::spawn(produce(place.client(), name, urls.clone(), told.clone())))
        .collect();
    let mut dice = Dice::seeded(2_027);
    for cut in 0..cuts {
        let server = place.start_with(Command::new(binary()), &data);
        // The first cut comes with the first acknowledgement: the folder itself has to be on disk by then.
        told.at_least(told.count() + 1).await;
        if cut > 0 {
            told.at_least(told.count() + 50).await;
            tokio::time::sleep(Duration::from_millis(dice.below(600))).await;
        }
        let cut = || {
            disk.cut(&[server.pid()]);
            server.kill();
        };
        witness.death(cut).await;
        disk.back();
    }
    let server = place.start_with(Command::new(binary()), &data);
    let (ids, repeated) = all_arrive(&place, server, &data, 0, &told, producers, &witness.sink).await;
    assert!(ids.len() >= 200, "too little load to prove anything: {}", ids.len());
    let repeats = witness.repeats();
    assert_eq!(repeats.again.iter().sum::<usize>(), repeated);
    println!("result power cuts={cuts} messages={} lost=0 repeated={repeated} {repeats}", ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, RELIABILITY 6
async fn a_power_cut_under_postgresql_loses_nothing_that_was_acknowledged() {
    // Nobody is left who could come back. How long others wait to be sure of that, the tests of nodes show.
    const ALL_DEAD: &str = "UPDATE pombo.node SET lease_until = 0";
    let cuts = std::env::var("POMBO_POWER_CUTS").map_or(CUTS_POSTGRES, |text| text.parse().unwrap());
    let place = Place::new();
    let below = reached_by_all();
    let disk = Mount::ext4(below.path(), CLUSTER_MB + CUT_MB * cuts);
    let cluster = Cluster::own_on(&disk.folder);
    let database = cluster.database();
    assert_eq!(database.ask("SHOW fsync"), "on");
    let mut witness = Witness::start().await;
    let told = Told::default();
    let urls = [witness.sink.url("/slow?ms=3"), witness.sink.url("/flaky?fail=1")];
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|name| tokio::spawn(produce(place.client(), name, urls.clone(), told.clone())))
        .collect();
    let mut dice = Dice::seeded(2_028);
    for cut in 0..cuts {
        let server = place.start_on(database.url());
        // The first cut comes with the first acknowledgement, as above.
        told.at_least(told.count() + 1).await;
        if cut > 0 {
            told.at_least(told.count() + 100).await;
            tokio::time::sleep(Duration::from_millis(dice.below(600))).await;
        }
        let postmaster = cluster.postmaster();
        let cut = || {
            disk.cut(&[server.pid(), postmaster]);
            kill_server(postmaster);
            server.kill();
        };
        witness.death(cut).await;
        disk.back();
        cluster.start();
        database.ask(ALL_DEAD);
    }
    let server = place.start_on(database.url());
    let (ids, repeated) =
        all_arrive_on(&place, server, database.url(), &told, producers, &witness.sink).await;
    assert!(ids.len() >= 100, "too little load to prove anything: {}", ids.len());
    let repeats = witness.repeats();
    assert_eq!(repeats.again.iter().sum::<usize>(), repeated);
    println!("result power_postgres cuts={cuts} messages={} lost=0 repeated={repeated} {repeats}", ids.len());
}

/// A folder through which the user of a PostgreSQL server gets to what is below.
fn reached_by_all() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap()
}

fn told_as_damaged(data: &Path) -> bool {
    matches!(Sqlite::open(data, Dice::seeded(1), &[7; 32]), Err(StoreError::Damaged { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 6, the control
async fn the_same_cut_is_seen_to_lose_messages_where_commits_are_not_flushed() {
    const TRIES: usize = 8;
    if !cfg!(debug_assertions) {
        panic!("only a debug build can be told to flush too seldom: run this test without --release");
    }
    let mut tried = Vec::new();
    for _ in 0..TRIES {
        let place = Place::new();
        let disk = Mount::ext4(place.folder.path(), IMAGE_MB);
        let data = disk.folder.join("data");
        let sink = sink().await;
        let told = Told::default();
        let urls = [sink.url("/ok"), sink.url("/ok")];
        let mut command = Command::new(env!("CARGO_BIN_EXE_pombo"));
        command.env("POMBO_TEST_SYNCHRONOUS", "NORMAL");
        let server = place.start_with(command, &data);
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|name| tokio::spawn(produce(place.client(), name, urls.clone(), told.clone())))
            .collect();
        told.at_least(200).await;
        disk.cut(&[server.pid()]);
        told.give_up();
        server.kill();
        let mut ids = Vec::new();
        for producer in producers {
            ids.extend(producer.await.unwrap());
        }
        disk.back();
        // What reached the disk may show by itself that something is missing before it. What is left is counted then.
        let damaged = told_as_damaged(&data);
        if damaged {
            let (by, now) = (Actor::engine(), Time::from_millis(1_800_000_000_000));
            Home::Embedded(data.clone().into()).salvage(&by, now, &[7; 32]).unwrap().unwrap();
        }
        let lost = lost(&data, &ids);
        tried.push(format!("{lost} of {}", ids.len()));
        if lost > 0 {
            let (cuts, damaged) = (tried.len(), u8::from(damaged));
            println!(
                "result power_control cuts={cuts} lost={lost} handed_in={} damaged={damaged}",
                ids.len()
            );
            return;
        }
    }
    panic!("{TRIES} power cuts lost nothing, though nothing was flushed: {}", tried.join(", "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 6, the control
async fn the_same_cut_is_seen_to_lose_messages_where_postgresql_does_not_flush() {
    let (place, below) = (Place::new(), reached_by_all());
    let disk = Mount::ext4(below.path(), CLUSTER_MB);
    let cluster = Cluster::own_on(&disk.folder);
    let database = cluster.database();
    database.ask("ALTER SYSTEM SET fsync = off");
    cluster.stop();
    cluster.start();
    assert_eq!(database.ask("SHOW fsync"), "off");
    let sink = sink().await;
    let told = Told::default();
    let urls = [sink.url("/ok"), sink.url("/ok")];
    let server = place.start_on(database.url());
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|name| tokio::spawn(produce(place.client(), name, urls.clone(), told.clone())))
        .collect();
    told.at_least(200).await;
    let postmaster = cluster.postmaster();
    disk.cut(&[server.pid(), postmaster]);
    told.give_up();
    kill_server(postmaster);
    server.kill();
    let mut ids = Vec::new();
    for producer in producers {
        ids.extend(producer.await.unwrap());
    }
    disk.back();
    cluster.start();
    // The table itself may be among what is lost.
    let kept = psql(database.url(), "SELECT count(*) FROM pombo.message");
    let kept = kept.map_or(0, |count| count.trim().parse().unwrap());
    assert!(kept < ids.len(), "{kept} of {} are there, though nothing was flushed", ids.len());
    let lost = ids.len() - kept;
    println!("result power_control_postgres cuts=1 lost={lost} handed_in={}", ids.len());
}
