//! Campaigns of the real binary, killed while it sends, against a pretend Evolution that keeps its own times.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo::clock::SystemClock;
use pombo_channels::sandbox::evolution::{EvolutionSandbox, Options, Visit};
use pombo_kernel::dice::Dice;
use pombo_kernel::lifecycle::MAX_CRASHES;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Clock, Span};
use pombo_store::core::{Core, Reading};
use pombo_store::roster;
use pombo_store::shelf::{Expect, Shelf, Shelve};
use pombo_store::sqlite::Sqlite;
use pombo_testbed::{Cluster, Database};
use serde_json::{Value, json};

use place::{Place, Server, Trail, read_trail, read_trail_in, sealed};

/// The fastest pace that there is.
const PACE_SECONDS: u64 = 3;
/// How long the pretend Evolution takes to answer, where it is told to be slow.
const SLOW: Duration = Duration::from_millis(400);
/// Ends of numbers: as the sandbox reads them.
const QUICK: u32 = 1_111;
const SLOW_ANSWER: u32 = 504;
const TWICE_UNAVAILABLE: u32 = 503;
const HANGS_UP_ONCE: u32 = 598;

async fn evolution() -> EvolutionSandbox {
    evolution_as_slow(SLOW).await
}

async fn evolution_as_slow(slow: Duration) -> EvolutionSandbox {
    let options = Options { slow, clock: Some(Arc::new(SystemClock::new())), ..Options::default() };
    EvolutionSandbox::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options).await.unwrap()
}

/// A place whose only channel leads to the pretend Evolution.
fn place(evolution: &EvolutionSandbox) -> Place {
    let place = Place::new();
    let delays = ["100ms"; 8].map(|delay| format!("\"{delay}\"")).join(", ");
    let config = format!(
        "[channels.zap]\nkind = \"evolution\"\nbase_url = \"{}\"\ninstance = \"sandbox\"\napi_key_file = \"key\"\n\
         attempt_timeout = \"30s\"\n[channels.zap.retry]\ndelays = [{delays}]\n",
        evolution.url()
    );
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
    std::fs::write(place.folder.path().join("key"), "sandbox").unwrap();
    place
}

/// A number that ends so.
fn number(nth: usize, end: u32) -> String {
    format!("+55119{:04}{end:04}", 8_000 + nth)
}

/// Starts a campaign to these numbers, whose messages say nothing but its name.
async fn start(client: &Client, name: &str, numbers: &[String]) -> String {
    start_with(client, name, numbers, json!({})).await
}

async fn start_with(client: &Client, name: &str, numbers: &[String], terms: Value) -> String {
    let post = async |path: &str, body: Value| client.post(path, Payload::json(&body)).await.unwrap();
    client.put("/v1/templates/name", Payload::json(&json!({"whatsapp": "{{ name }}"}))).await.unwrap();
    let campaign = json!({
        "name": name, "channel": "zap", "template": "name", "payload": {"name": name},
        "throttle_min_seconds": PACE_SECONDS, "throttle_max_seconds": PACE_SECONDS,
    });
    let id = post("/v1/campaigns", campaign).await["id"].as_str().unwrap().to_owned();
    let list: Vec<Value> = numbers.iter().map(|to| json!({"to": to})).collect();
    let listed = post(&format!("/v1/campaigns/{id}/recipients"), json!(list)).await;
    assert_eq!(listed["added"], numbers.len());
    post(&format!("/v1/campaigns/{id}/start"), terms).await;
    id
}

/// Waits until a campaign is as wanted; as it stands then.
async fn until(client: &Client, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1_500 {
        let campaign = client.get(&format!("/v1/campaigns/{id}")).await.unwrap();
        if wanted(&campaign) {
            return campaign;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came to that: {:?}", client.get(&format!("/v1/campaigns/{id}")).await);
}

/// Leaves a campaign a second of its time, while nobody has its store open.
fn leave_a_second(place: &Place, id: &str) {
    let mut store = Sqlite::open(&place.data(), Dice::seeded(1), &[7; 32]).unwrap();
    let doc = store.reader().unwrap().doc(Shelf::Campaign, &Tenant::default(), id).unwrap().unwrap();
    let mut campaign = roster::read(&doc).unwrap();
    campaign.run.used = Span::from_millis(campaign.limits().hard.millis() - 1_000);
    let (shelf, tenant, leaf) = (Shelf::Campaign, Tenant::default(), Some(roster::leaf(&campaign)));
    let (id, expect) = (id.to_owned(), Expect::Version(doc.version));
    let now = SystemClock::new().now();
    store.shelve(&Shelve { shelf, tenant, id, expect, leaf, record: None }, now).unwrap();
    store.commit(now, &[9; 32]).unwrap();
}

/// Waits until a campaign has written to everybody; as it stands then.
async fn completed(client: &Client, id: &str) -> Value {
    let path = format!("/v1/campaigns/{id}");
    let mut events = client.events("/v1/events?types=campaign.completed", None).await.unwrap();
    let ended = async {
        loop {
            let campaign = client.get(&path).await.unwrap();
            if campaign["state"] == "completed" {
                return campaign;
            }
            assert_eq!(campaign["state"], "running", "{campaign}");
            events.next().await.unwrap().unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(180), ended).await.expect("it was never complete")
}

/// Waits until such a request has come and is not answered yet.
async fn under_way(evolution: &EvolutionSandbox, such: impl Fn(&Visit) -> bool) {
    let came = tokio::time::timeout(Duration::from_secs(60), evolution.under_way(such));
    assert!(came.await.is_ok(), "nothing is being sent");
}

/// Of one campaign, nothing began before the pause after what came before it. How many requests there were.
fn keeps_its_pace(evolution: &EvolutionSandbox, name: &str) -> usize {
    let visits: Vec<Visit> = evolution.visits().into_iter().filter(|visit| visit.text == name).collect();
    for pair in visits.windows(2) {
        let ended = pair[0].ended.unwrap();
        assert!(pair[1].started >= ended, "{name}: two at once");
        let gap = pair[1].started.since(ended);
        assert!(gap >= Span::from_secs(PACE_SECONDS), "{name}: {gap} from one send to the next");
    }
    visits.len()
}

/// How often each number was written to by a campaign.
fn reached(evolution: &EvolutionSandbox, name: &str) -> HashMap<String, usize> {
    let mut reached = HashMap::new();
    for sent in evolution.sent().iter().filter(|sent| sent.body["text"] == name) {
        *reached.entry(sent.number.clone()).or_default() += 1;
    }
    reached
}

/// Everybody on the list was written to by one message, or that was being sent at too many deaths; and nobody more
/// often than the message was in doubt. How many came again.
async fn accounted_for(
    client: &Client,
    evolution: &EvolutionSandbox,
    trail: &Trail,
    (id, name): (&str, &str),
) -> usize {
    let list = client.get(&format!("/v1/campaigns/{id}/recipients?limit=500")).await.unwrap();
    let reached = reached(evolution, name);
    let mut repeated = 0;
    for recipient in list["items"].as_array().unwrap() {
        let message = recipient["message_id"].as_str().unwrap();
        let doubts = trail.takeovers.get(message).copied().unwrap_or(0);
        let digits = recipient["to"].as_str().unwrap().trim_start_matches('+');
        let times = reached.get(digits).copied().unwrap_or(0);
        match recipient["state"].as_str().unwrap() {
            "sent" => assert!(times >= 1 && trail.sent[message] == 1, "{recipient}"),
            "failed" => assert!(doubts >= usize::from(MAX_CRASHES), "{recipient}: {doubts}"),
            _ => panic!("{recipient}"),
        }
        assert!(times <= 1 + doubts, "{recipient} was written to {times} times, and in doubt {doubts}");
        repeated += times.saturating_sub(1);
    }
    repeated
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ BK-2, BK-4
async fn a_campaign_keeps_its_pace_through_retries_a_kill_and_a_restart() {
    let evolution = evolution().await;
    let place = place(&evolution);
    let server = place.start();
    place.ready().await;
    let ends = [QUICK, TWICE_UNAVAILABLE, SLOW_ANSWER, HANGS_UP_ONCE, QUICK];
    let numbers: Vec<String> = ends.iter().enumerate().map(|(nth, end)| number(nth, *end)).collect();
    let id = start(&place.client(), "one", &numbers).await;
    under_way(&evolution, |visit| visit.number.ends_with("0504")).await;
    server.kill();
    let server = place.start();
    place.ready().await;
    let campaign = completed(&place.client(), &id).await;
    assert_eq!(campaign["counts"]["sent"], 5, "{campaign}");
    // Five, two that were not available, one that hung up, and the one that was in doubt.
    assert_eq!(keeps_its_pace(&evolution, "one"), 9);
    assert_eq!(reached(&evolution, "one").values().sum::<usize>(), 6, "one came again");
    assert!(server.terminate().await.success());
    let trail = read_trail_in(&place.data());
    assert_eq!(trail.accepted, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ BK-3, BK-7, BK-8
async fn a_campaign_starts_at_its_time_is_cancelled_minds_the_list_to_the_last_and_is_cut_off() {
    let evolution = evolution_as_slow(Duration::from_secs(4)).await;
    let place = place(&evolution);
    let server = place.start();
    place.ready().await;
    let client = &place.client();
    let later = async {
        let at = SystemClock::new().now() + Span::from_secs(2);
        let id = start_with(client, "later", &[number(1, QUICK)], json!({"at": at})).await;
        let state = client.get(&format!("/v1/campaigns/{id}")).await.unwrap()["state"].clone();
        assert!(state == "scheduled" || SystemClock::new().now() >= at, "{state}");
        until(client, &id, |it| it["state"] == "completed").await;
        let visits = evolution.visits();
        assert!(visits.iter().filter(|visit| visit.text == "later").all(|visit| visit.started >= at));
    };
    let cancelled = async {
        let numbers = [number(11, SLOW_ANSWER), number(12, QUICK), number(13, QUICK)];
        let id = start(client, "cancelled", &numbers).await;
        under_way(&evolution, |visit| visit.text == "cancelled").await;
        client.post(&format!("/v1/campaigns/{id}/cancel"), Payload::json(&json!({}))).await.unwrap();
        let it = until(client, &id, |it| it["state"] == "cancelled").await;
        let counts =
            ["sent", "cancelled", "queued", "pending"].map(|name| it["counts"][name].as_u64().unwrap());
        assert_eq!(counts, [1, 2, 0, 0], "what was on its way went to its end");
        id
    };
    let unwanted = async {
        let numbers = [number(21, SLOW_ANSWER), number(22, QUICK), number(23, QUICK)];
        let id = start(client, "unwanted", &numbers).await;
        under_way(&evolution, |visit| visit.text == "unwanted").await;
        // All messages are made by now.
        let line = json!({"kind": "whatsapp", "recipient": numbers[1], "reason": "opt_out"}).to_string();
        let listed = client.post("/v1/suppressions/import", Payload::lines(line.into())).await.unwrap();
        assert_eq!(listed["added"], 1, "{listed}");
        let it = completed(client, &id).await;
        assert_eq!((&it["counts"]["sent"], &it["counts"]["suppressed"]), (&json!(2), &json!(1)), "{it}");
        let path = format!("/v1/campaigns/{id}/recipients?state=suppressed");
        let left_out = &client.get(&path).await.unwrap()["items"][0];
        assert_eq!(left_out["to"], numbers[1]);
        assert_eq!(left_out["reason"], "on the suppression list (opt_out)");
    };
    let (_, cancelled, _) = tokio::join!(later, cancelled, unwanted);
    assert_eq!(keeps_its_pace(&evolution, "cancelled"), 1);
    assert_eq!(keeps_its_pace(&evolution, "unwanted"), 2, "nobody called for whoever was left out");

    let id = start(client, "cut", &[number(31, QUICK), number(32, SLOW_ANSWER)]).await;
    until(client, &id, |it| it["counts"]["sent"] == 1).await;
    assert!(server.terminate().await.success());
    leave_a_second(&place, &id);
    let server = place.start();
    place.ready().await;
    let it = until(client, &id, |it| it["state"] == "paused").await;
    assert_eq!(it["pause_reason"], "time_limit", "{it}");
    assert!(it["pause_note"].as_str().unwrap().starts_with("one send did not end"), "{it}");
    assert_eq!(evolution.visits().iter().filter(|visit| visit.text == "cut").count(), 2);
    assert_eq!(client.get(&format!("/v1/campaigns/{cancelled}")).await.unwrap()["state"], "cancelled");
    assert!(server.terminate().await.success());
}

/// Four campaigns at once, so that one of them is being sent most of the time, although each rests three seconds after
/// each send: twenty kills take a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ BK-4
async fn killed_twenty_times_nobody_is_left_out_and_at_most_one_a_kill_and_campaign_comes_again() {
    const KILLS: usize = 20;
    const EACH: usize = 8;
    let evolution = evolution().await;
    let place = place(&evolution);
    let mut server = place.start();
    place.ready().await;
    let names = ["one", "two", "three", "four"];
    let mut campaigns = Vec::new();
    for (nth, name) in names.into_iter().enumerate() {
        let numbers: Vec<String> = (0..EACH).map(|n| number(nth * EACH + n, SLOW_ANSWER)).collect();
        campaigns.push((start(&place.client(), name, &numbers).await, name));
    }
    for _ in 0..KILLS {
        under_way(&evolution, |_| true).await;
        server.kill();
        server = place.start();
        place.ready().await;
    }
    let client = place.client();
    for (id, _) in &campaigns {
        completed(&client, id).await;
    }
    let mut repeated = 0;
    let trail = {
        assert!(server.terminate().await.success());
        read_trail_in(&place.data())
    };
    assert_eq!(trail.accepted, names.len() * EACH, "never two messages for one recipient");
    let server = place.start();
    place.ready().await;
    for (id, name) in &campaigns {
        keeps_its_pace(&evolution, name);
        let again = accounted_for(&client, &evolution, &trail, (id, name)).await;
        assert!(again <= KILLS, "{name}: {again} came again");
        repeated += again;
    }
    assert!(repeated >= KILLS / 4, "only {repeated} came again: the kills hit nothing");
    println!("result campaigns kills={KILLS} messages={} lost=0 repeated={repeated}", names.len() * EACH);
    assert!(server.terminate().await.success());
}

/// A node of the database, with the id by which that knows it.
async fn node(place: &Place, database: &Database, known: &[String]) -> (Server, String) {
    let server = place.start_on(database.url());
    place.ready().await;
    for _ in 0..3_000 {
        let ids = database.ask("SELECT id FROM pombo.node");
        if let Some(id) = ids.lines().find(|id| !known.iter().any(|known| known == id)) {
            return (server, id.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the node shows no sign of life: {}", place.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ BK-2, BK-4
async fn two_nodes_keep_one_pace_and_one_goes_on_where_the_other_died() {
    let database = Cluster::shared().database();
    let evolution = evolution().await;
    let (here, there) = (place(&evolution), place(&evolution));
    let (dying, id) = node(&here, &database, &[]).await;
    let (server, _) = node(&there, &database, std::slice::from_ref(&id)).await;
    let client = there.client();
    let names = ["one", "two", "three", "four"];
    let mut campaigns = Vec::new();
    for (nth, name) in names.into_iter().enumerate() {
        let mut numbers: Vec<String> = (0..6).map(|n| number(nth * 10 + n, SLOW_ANSWER)).collect();
        numbers.push(number(nth * 10 + 6, TWICE_UNAVAILABLE));
        campaigns.push((start(&client, name, &numbers).await, name));
    }
    // It dies while something is its own.
    let holds = format!("SELECT count(*) FROM pombo.claim WHERE node = {id}");
    for round in 0.. {
        assert!(round < 200, "the node never does anything: {}", here.said());
        under_way(&evolution, |_| true).await;
        dying.signal("-STOP");
        if database.ask(&holds) != "0" {
            break;
        }
        dying.signal("-CONT");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    dying.kill();
    for (id, _) in &campaigns {
        completed(&client, id).await;
    }
    sealed(database.url()).await;
    let trail = read_trail(database.url());
    assert_eq!(trail.accepted, 28, "never two messages for one recipient");
    let mut repeated = 0;
    for (id, name) in &campaigns {
        keeps_its_pace(&evolution, name);
        repeated += accounted_for(&client, &evolution, &trail, (id, name)).await;
    }
    assert!(repeated <= names.len(), "{repeated} came again");
    assert!(server.terminate().await.success());
}
