//! A store, a time, and the few words in which the cases speak.

use std::sync::{Arc, OnceLock};

use pombo_kernel::backoff::Wait;
use pombo_kernel::block::{Block, BlockChange, Gate};
use pombo_kernel::classify::{Scope, Verdict};
use pombo_kernel::dice::Dice;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::lifecycle::{self, Next};
use pombo_kernel::message::{
    Actor, Attempt, AttemptFailure, Body, ClaimKey, Draft, FailureReason, Idempotency, Priority, Progress,
    QueueName, State, StateName,
};
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::core::{Core, Reading};
use pombo_store::memory::Memory;
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::sqlite::Sqlite;
use pombo_store::vault::Keys;
use pombo_store::{
    Accepted, Ask, Cancelled, Claimed, Conflict, Counted, Filter, Line, NodeId, Place, Repeat, Settled,
    Settlement, Story, Vitals,
};
use pombo_testbed::{Cluster, Database};

/// A store that the suite can make.
pub(crate) trait Fresh: Core + Sized {
    /// Where it lives; goes when this is dropped.
    type Home;
    fn fresh(dice: Dice) -> (Self, Self::Home);
    /// One that seals what is personal, where it can.
    fn sealed(dice: Dice) -> (Self, Self::Home) {
        Self::fresh(dice)
    }
    /// What it should answer like.
    fn model(dice: Dice) -> Memory {
        Memory::new(dice)
    }
}

impl Fresh for Memory {
    type Home = ();
    fn fresh(dice: Dice) -> (Memory, ()) {
        (Memory::new(dice), ())
    }
}

impl Fresh for Sqlite {
    type Home = tempfile::TempDir;
    fn fresh(dice: Dice) -> (Sqlite, tempfile::TempDir) {
        let folder = folder();
        (Sqlite::open(folder.path(), dice, &[7; 32]).unwrap(), folder)
    }
    fn sealed(dice: Dice) -> (Sqlite, tempfile::TempDir) {
        let folder = folder();
        (Sqlite::open_with(folder.path(), dice, &[7; 32], Some(&keys())).unwrap(), folder)
    }
}

impl Fresh for Postgres {
    type Home = Database;
    fn fresh(dice: Dice) -> (Postgres, Database) {
        let database = migrated();
        (opened(&database, dice, None), database)
    }
    fn sealed(dice: Dice) -> (Postgres, Database) {
        let database = migrated();
        (opened(&database, dice, Some(keys())), database)
    }
    fn model(dice: Dice) -> Memory {
        Memory::shared(dice)
    }
}

fn opened(database: &Database, dice: Dice, keys: Option<Keys>) -> Postgres {
    let target = Target::parse(database.url()).unwrap().with_keys(keys);
    Postgres::open(&target, dice, &[7; 32], Sealing::AtCommit).unwrap()
}

fn keys() -> Keys {
    Keys::new(&[1; 32], &[], &[2; 32])
}

/// A database that has the schema: a copy of one that got it, since that takes longer.
pub(crate) fn migrated() -> Database {
    static TEMPLATE: OnceLock<Database> = OnceLock::new();
    let template = TEMPLATE.get_or_init(|| {
        let database = Cluster::shared().database();
        drop(opened(&database, Dice::seeded(0), None));
        database
    });
    Cluster::shared().database_from(template)
}

/// When every case starts.
pub(crate) const START: Time = Time::from_millis(1_800_000_000_000);

pub(crate) const ONE: NodeId = NodeId(1);
pub(crate) const TWO: NodeId = NodeId(2);

/// A store and what time it is. Each verb commits, unless it says otherwise.
pub(crate) struct World<C: Fresh> {
    // Before its home, so that it is closed first.
    pub(crate) core: C,
    pub(crate) now: Time,
    reader: C::Reader,
    commits: u64,
    _home: C::Home,
}

impl<C: Fresh> World<C> {
    pub(crate) fn new() -> World<C> {
        let (core, home) = C::fresh(Dice::seeded(11));
        World::with(core, home)
    }

    /// A store that is encrypted.
    pub(crate) fn sealed() -> World<C> {
        let (core, home) = C::sealed(Dice::seeded(11));
        World::with(core, home)
    }

    fn with(core: C, home: C::Home) -> World<C> {
        World { reader: core.reader().unwrap(), core, now: START, commits: 0, _home: home }
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now + span;
    }

    pub(crate) fn commit(&mut self) -> u64 {
        self.commits += 1;
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&self.commits.to_le_bytes());
        self.core.commit(self.now, &entropy).unwrap()
    }

    /// Goes back to what is durable.
    pub(crate) fn reopen(&mut self) {
        self.core.reopen().unwrap();
        self.reader = self.core.reader().unwrap();
    }

    pub(crate) fn offer(&mut self, draft: Draft) -> Result<Accepted, Conflict> {
        let answer = self.core.accept(draft, self.now).unwrap();
        self.commit();
        answer
    }

    pub(crate) fn accept(&mut self, draft: Draft) -> MessageId {
        let accepted = self.offer(draft).unwrap();
        assert_eq!(accepted.repeat, Repeat::First);
        accepted.id
    }

    /// Accepts several in one commit.
    pub(crate) fn accept_all(&mut self, drafts: impl IntoIterator<Item = Draft>) -> Vec<MessageId> {
        let now = self.now;
        let ids = drafts.into_iter().map(|draft| self.core.accept(draft, now).unwrap().unwrap().id).collect();
        self.commit();
        ids
    }

    pub(crate) fn claim(&mut self, max: usize) -> Vec<Claimed> {
        self.claim_as(ONE, "default", max)
    }

    pub(crate) fn claim_as(&mut self, node: NodeId, lane: &str, max: usize) -> Vec<Claimed> {
        let taken = self.claim_uncommitted(node, lane, max);
        self.commit();
        taken
    }

    pub(crate) fn claim_uncommitted(&mut self, node: NodeId, lane: &str, max: usize) -> Vec<Claimed> {
        self.core
            .claim(&Ask { node, lane: lane.parse().unwrap(), max, rates: Default::default() }, self.now)
            .unwrap()
    }

    /// Claims the one message that can be claimed.
    pub(crate) fn claim_one(&mut self) -> Claimed {
        let mut taken = self.claim(10);
        assert_eq!(taken.len(), 1, "{taken:?}");
        taken.remove(0)
    }

    /// Which messages a claim would get next, in order.
    pub(crate) fn claimed_ids(&mut self, max: usize) -> Vec<MessageId> {
        self.claim(max).iter().map(|claimed| claimed.message.id).collect()
    }

    pub(crate) fn heartbeat(&mut self, node: NodeId, lease: Span) {
        self.core.heartbeat(node, self.now + lease).unwrap();
        self.commit();
    }

    pub(crate) fn take_over(&mut self, node: NodeId, max: usize) -> Vec<Claimed> {
        let taken = self.core.take_over(node, max, self.now).unwrap();
        self.commit();
        taken
    }

    pub(crate) fn settle(&mut self, claimed: &Claimed, end: End) -> Settled {
        self.settle_with(settlement(claimed, end, self.now))
    }

    pub(crate) fn settle_with(&mut self, settlement: Settlement) -> Settled {
        let answer = self.core.settle(settlement, self.now).unwrap();
        self.commit();
        answer
    }

    /// Accepts a message and takes it to that end.
    pub(crate) fn through(&mut self, draft: Draft, end: End) -> MessageId {
        let id = self.accept(draft);
        let claimed = self.claim(1_000).into_iter().find(|claimed| claimed.message.id == id).unwrap();
        assert_eq!(self.settle(&claimed, end), Settled::Done);
        id
    }

    pub(crate) fn release(&mut self, key: ClaimKey) -> Settled {
        let answer = self.core.release(key, self.now).unwrap();
        self.commit();
        answer
    }

    pub(crate) fn leave_out(&mut self, claimed: &Claimed, reason: &str) -> Settled {
        let answer = self.core.leave_out(claimed.key, reason, self.now).unwrap();
        self.commit();
        answer
    }

    pub(crate) fn cancel(&mut self, id: MessageId) -> Cancelled {
        self.cancel_as(&Tenant::default(), id, "ana")
    }

    pub(crate) fn cancel_as(&mut self, tenant: &Tenant, id: MessageId, by: &str) -> Cancelled {
        let answer = self.core.cancel(tenant, id, &Actor(by.into()), self.now).unwrap();
        self.commit();
        answer
    }

    pub(crate) fn expire(&mut self, max: usize) -> usize {
        let count = self.core.expire(max, self.now).unwrap();
        self.commit();
        count
    }

    pub(crate) fn block(&mut self, place: &Place, block: Block) {
        self.core.block(place, block, &Actor("ana".into()), self.now).unwrap();
        self.commit();
    }

    pub(crate) fn unblock(&mut self, place: &Place) -> bool {
        let answer = self.core.unblock(place, &Actor("ana".into()), self.now).unwrap();
        self.commit();
        answer
    }

    pub(crate) fn next_due(&mut self) -> Option<Time> {
        self.core.next_due(&LaneName::default(), self.now).map(|due| due.max(self.now))
    }

    pub(crate) fn read(&mut self) -> &mut C::Reader {
        &mut self.reader
    }

    pub(crate) fn story(&mut self, id: MessageId) -> Story {
        self.reader.story(&Tenant::default(), id).unwrap().unwrap()
    }

    pub(crate) fn state(&mut self, id: MessageId) -> State {
        self.story(id).state
    }

    pub(crate) fn is(&mut self, id: MessageId, state: StateName) {
        assert_eq!(self.state(id).name(), state);
    }

    /// Every message that matches, page by page.
    pub(crate) fn list(&mut self, filter: &Filter, limit: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut before: Option<MessageKey> = None;
        loop {
            let page = self.reader.page(filter, before, limit).unwrap();
            assert!(page.lines.len() <= limit);
            lines.extend(page.lines);
            let Some(next) = page.next else { return lines };
            assert!(before.is_none_or(|before| next < before), "a page that leads nowhere");
            before = Some(next);
        }
    }

    pub(crate) fn listed(&mut self, filter: &Filter) -> Vec<MessageId> {
        self.list(filter, 100).iter().map(|line| line.message.id).collect()
    }

    pub(crate) fn audit(&mut self) -> Vec<Record> {
        self.reader.audit(0, usize::MAX).unwrap().into_iter().map(|(_, record)| record).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        self.audit().iter().map(|record| record.event).collect()
    }

    pub(crate) fn tally(&mut self, what: Counted) -> u64 {
        let tallies = self.reader.tallies().unwrap();
        tallies.iter().filter(|tally| tally.what == what).map(|tally| tally.count).sum()
    }

    /// What stands in the way; a ramp does not, it only slows.
    pub(crate) fn blocks(&mut self) -> Vec<(Place, Block)> {
        let now = self.now;
        let stands = |block: &Block| !matches!(block.gate(now), Gate::Open | Gate::Flow(_));
        self.reader.blocks().unwrap().into_iter().filter(|(_, block)| stands(block)).collect()
    }

    pub(crate) fn ramps(&mut self) -> Vec<Place> {
        let now = self.now;
        let ramp = |block: &Block| matches!(block.gate(now), Gate::Flow(_));
        let blocks = self.reader.blocks().unwrap().into_iter();
        blocks.filter(|(_, block)| ramp(block)).map(|(place, _)| place).collect()
    }
}

/// Not on a disk where that can be had: these cases are about meaning, and flushing is slow.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Sent,
    Retry(Span),
    Failed(FailureReason),
    /// A fault of ours: a hold is put there.
    Held(Scope),
    /// As a retry, and the provider asked everyone for that pause.
    Paused(Scope, Span),
    /// As a retry, and nobody was reached: a hold that it probed goes on.
    Unreached(Span),
}

/// A settlement as the engine would make it, of an attempt that ends at `now`.
pub(crate) fn settlement(claimed: &Claimed, end: End, now: Time) -> Settlement {
    let before = claimed.progress;
    let counted = !matches!(end, End::Held(_));
    let progress = Progress {
        attempts: before.attempts + u16::from(counted),
        crashes: 0,
        steps: before.steps + 1,
        ..before
    };
    let lift = if claimed.probe.is_some() { BlockChange::Lift } else { BlockChange::Keep };
    let retry = |delay: Span| Next::Retry {
        due: now + delay,
        wait: Wait { delay, nominal: delay, swing: 0.0, hinted: false },
    };
    let (next, verdict, block) = match end {
        End::Sent => (Next::Sent(receipt()), None, lift),
        End::Retry(delay) => (retry(delay), Some(Verdict::Transient), lift),
        End::Failed(reason) => (Next::Failed(reason), Some(Verdict::Permanent), lift),
        End::Held(scope) => {
            let hold = Block::hold("401".into(), failed(claimed).map_or(0, |probes| probes + 1), now);
            (Next::Held { due: now }, Some(Verdict::SenderFault), BlockChange::Set(scope, hold))
        }
        End::Unreached(delay) => {
            let renew = |_| BlockChange::Renew("nobody".into());
            (retry(delay), Some(Verdict::UnknownTransient), claimed.probe.map_or(BlockChange::Keep, renew))
        }
        End::Paused(scope, span) => {
            let pause = Block::pause("429".into(), now + span, now);
            (retry(span), Some(Verdict::Transient), BlockChange::Set(scope, pause))
        }
    };
    let attempt = Attempt {
        round: before.round,
        number: before.attempts + 1,
        started_at: claimed.claimed_at,
        finished_at: now,
        outcome: next.outcome(),
        failure: verdict.map(failure),
        next_delay: match &next {
            Next::Retry { wait, .. } => Some(wait.delay),
            _ => None,
        },
        policy: verdict.map(|_| "some policy".to_owned()),
        explanation: match next {
            Next::Sent(_) => lifecycle::accepted(progress.attempts),
            _ => "because".into(),
        },
    };
    Settlement {
        key: claimed.key,
        attempt,
        next,
        progress,
        block,
        vitals: Vitals::default(),
        reported: true,
        chance: 0,
    }
}

/// How many probes failed before the message that was let through as one.
pub(crate) fn failed(claimed: &Claimed) -> Option<u16> {
    claimed.probe.map(|probe| probe.failed)
}

pub(crate) fn receipt() -> Receipt {
    Receipt { provider_id: Some("re_1".into()), code: Some(200), ..Receipt::default() }
}

pub(crate) fn failure(verdict: Verdict) -> AttemptFailure {
    let category = match verdict {
        Verdict::SenderFault => "unauthorized",
        Verdict::Permanent => "invalid_recipient",
        Verdict::Transient | Verdict::UnknownTransient => "busy",
    };
    AttemptFailure {
        verdict,
        category: category.into(),
        code: Some("503".into()),
        text: "come back later".into(),
        perhaps_sent: false,
        rule: None,
    }
}

pub(crate) fn draft() -> Draft {
    Draft {
        id: None,
        queue: queue("crm", "crm.example"),
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        blobs: Vec::new(),
        body: Body { to: "someone".into(), ..Body::default() },
    }
}

pub(crate) fn queue(channel: &str, destination: &str) -> QueueName {
    QueueName {
        tenant: Tenant::default(),
        lane: LaneName::default(),
        channel: channel.parse().unwrap(),
        destination: destination.into(),
        campaign: None,
    }
}

pub(crate) fn to(destination: &str) -> Draft {
    Draft { queue: queue("crm", destination), ..draft() }
}

pub(crate) fn on_lane(lane: &str) -> Draft {
    Draft { queue: QueueName { lane: lane.parse().unwrap(), ..queue("crm", "crm.example") }, ..draft() }
}

pub(crate) fn of(tenant: &str) -> Draft {
    Draft { queue: QueueName { tenant: tenant.parse().unwrap(), ..queue("crm", "crm.example") }, ..draft() }
}

pub(crate) fn urgent(priority: u8) -> Draft {
    Draft { priority: Priority::new(priority).unwrap(), ..draft() }
}

pub(crate) fn in_order(key: &str) -> Draft {
    Draft { ordering_key: Some(key.into()), ..draft() }
}

pub(crate) fn once(key: &str, fingerprint: u8) -> Draft {
    Draft { idempotency: Some(Idempotency { key: key.into(), fingerprint: [fingerprint; 16] }), ..draft() }
}

pub(crate) fn later(span: Span) -> Draft {
    Draft { send_at: Some(START + span), ..draft() }
}

pub(crate) fn until(span: Span) -> Draft {
    Draft { expires_at: Some(START + span), ..draft() }
}

pub(crate) fn channel(name: &str) -> Place {
    Place { channel: name.parse().unwrap(), destination: None }
}

pub(crate) fn destination(channel: &str, destination: &str) -> Place {
    Place { channel: channel.parse().unwrap(), destination: Some(Arc::from(destination)) }
}

pub(crate) fn by_operator(now: Time) -> Block {
    Block::operator("maintenance".into(), now)
}

pub(crate) const fn secs(n: u64) -> Span {
    Span::from_secs(n)
}

pub(crate) const fn mins(n: u64) -> Span {
    Span::from_mins(n)
}
