//! What a group of messages costs in each verb of the embedded store, on disk and durable: `cargo bench -p
//! pombo-store`. Each run makes its store in the current folder and removes it.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on says so by failing")]

use divan::Bencher;
use divan::counter::ItemsCount;
use pombo_kernel::block::BlockChange;
use pombo_kernel::dice::Dice;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Attempt, AttemptOutcome, Body, Draft, Json, Priority, Progress, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::{Span, Time};
use pombo_store::core::{Core, Reading};
use pombo_store::sqlite::Sqlite;
use pombo_store::{Ask, Claimed, Filter, NodeId, Settlement};
use tempfile::TempDir;

fn main() {
    divan::main();
}

const NOW: Time = Time::from_millis(1_800_000_000_000);
const GROUPS: [usize; 2] = [32, 1_000];

struct Bench {
    store: Sqlite,
    now: Time,
    commits: u64,
    _folder: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir_in(".").unwrap();
        let store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
        Bench { store, now: NOW, commits: 0, _folder: folder }
    }

    fn commit(&mut self) {
        self.commits += 1;
        self.now = self.now + Span::from_millis(1);
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&self.commits.to_le_bytes());
        self.store.commit(self.now, &entropy).unwrap();
    }

    fn accept(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            self.store.accept(draft, self.now).unwrap().unwrap();
        }
        self.commit();
    }

    fn claim(&mut self, max: usize) -> Vec<Claimed> {
        let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max, rates: Default::default() };
        let claimed = self.store.claim(&ask, self.now).unwrap();
        self.commit();
        claimed
    }

    fn settle(&mut self, settlements: Vec<Settlement>) {
        for settlement in settlements {
            self.store.settle(settlement, self.now).unwrap();
        }
        self.commit();
    }
}

fn drafts(count: usize) -> Vec<Draft> {
    let queue = QueueName {
        tenant: Tenant::default(),
        lane: "default".parse().unwrap(),
        channel: "crm".parse().unwrap(),
        destination: "crm.example".into(),
        campaign: None,
    };
    let draft = |number: usize| Draft {
        id: None,
        queue: queue.clone(),
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        body: Body {
            to: "https://crm.example/hook".to_owned(),
            content: Json::from_text(format!(r#"{{"i":{number},"pad":"{}"}}"#, "x".repeat(180))).ok(),
            ..Body::default()
        },
        blobs: Vec::new(),
    };
    (0..count).map(draft).collect()
}

fn sent(claimed: &[Claimed], now: Time) -> Vec<Settlement> {
    let sent = |claimed: &Claimed| Settlement {
        key: claimed.key,
        vitals: Default::default(),
        reported: false,
        chance: 0,
        attempt: Attempt {
            round: 0,
            number: 1,
            started_at: now,
            finished_at: now,
            outcome: AttemptOutcome::Sent,
            failure: None,
            next_delay: None,
            explanation: String::new(),
            policy: None,
        },
        next: Next::Sent(Receipt::default()),
        progress: Progress { attempts: 1, steps: 1, ..Progress::default() },
        block: BlockChange::Keep,
    };
    claimed.iter().map(sent).collect()
}

#[divan::bench(args = GROUPS, sample_count = 50, sample_size = 1)]
fn accept(bencher: Bencher<'_, '_>, group: usize) {
    let mut bench = Bench::new();
    bencher
        .counter(ItemsCount::new(group))
        .with_inputs(|| drafts(group))
        .bench_local_values(|drafts| bench.accept(drafts));
}

#[divan::bench(args = GROUPS, sample_count = 50, sample_size = 1)]
fn claim(bencher: Bencher<'_, '_>, group: usize) {
    let mut bench = Bench::new();
    for _ in 0..60 {
        bench.accept(drafts(group));
    }
    bencher.counter(ItemsCount::new(group)).bench_local(|| bench.claim(group));
}

#[divan::bench(args = GROUPS, sample_count = 50, sample_size = 1)]
fn settle(bencher: Bencher<'_, '_>, group: usize) {
    let mut bench = Bench::new();
    let mut claimed: Vec<Vec<Settlement>> = (0..60)
        .map(|_| {
            bench.accept(drafts(group));
            sent(&bench.claim(group), NOW)
        })
        .collect();
    bencher.counter(ItemsCount::new(group)).bench_local(|| bench.settle(claimed.pop().unwrap_or_default()));
}

#[divan::bench(args = [50, 500])]
fn page(bencher: Bencher<'_, '_>, limit: usize) {
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.accept(drafts(1_000));
    }
    let mut reader = bench.store.reader().unwrap();
    let filter = Filter { tenant: Tenant::default(), ..Filter::default() };
    bencher.counter(ItemsCount::new(limit)).bench_local(|| reader.page(&filter, None, limit).unwrap());
}
