//! Many nodes on one PostgreSQL.
//!
//! Each process has a core like that of the embedded store: it knows the queues, not the messages, and writes in
//! groups. What nodes must agree on is in the database and is looked at there, in the transaction that acts on it: a
//! claim takes rows that nobody else is taking, a settlement shows a journal row that nobody has taken over, and
//! blocks do not change between a look at them and the claim that obeys them.

mod accepting;
mod advice;
pub(crate) mod checking;
mod claims;
pub mod clock;
mod dead;
mod erase;
pub(crate) mod glance;
pub mod inbox;
mod learning;
mod link;
mod migrate;
mod month;
pub(crate) mod moving;
mod news;
mod pausing;
mod prune;
mod reader;
mod receipts;
pub(crate) mod rekeying;
mod roster;
mod rows;
mod scratch;
mod settling;
mod shelf;
mod slot;
mod start;
mod stats;
mod templates;
mod tracks;
mod upkeep;
mod walls;
mod writes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pombo_kernel::block::Block;
use pombo_kernel::delivery::Report;
use pombo_kernel::dice::Dice;
use pombo_kernel::erasure::Pseudonyms;
use pombo_kernel::id::{IdMaker, MessageId, MessageKey, Slot};
use pombo_kernel::message::{Actor, ClaimKey, Draft};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::{Span, Time};

use crate::audit::{self, Record};
use crate::board::{Board, QueueId};
use crate::claiming::Claiming as _;
use crate::core::Core;
use crate::courses::Courses as _;
use crate::dead::{CauseId, Edit, Edited, Hastened, Ruling, Verdicts};
use crate::erase::{Erase, Erased, Erasing as _};
use crate::learning::Names;
use crate::meter::Counts;
use crate::prune::{Lapsed, Prune, Pruned, Ripe};
use crate::roster::{Enlist, Enlisted, Feed, NotDone};
use crate::shelf::{Shelve, Shelved};
use crate::stats::{Entry, Ledger};
use crate::vault::Vault;
use crate::vault::opening::first_secret;
use crate::walls::Walls as _;
use crate::{
    Accepted, Ask, Cancelled, Claimed, Conflict, Finding, NodeId, Pause, Place, Put, Reported, Settled,
    Settlement, StoreError,
};
use claims::Claims;
pub use link::Target;
use link::{Driver, Kind, Link, Step};
pub use migrate::{ANOTHER_VERSION, EARLIER_STORE};
pub use reader::Reader;
pub use scratch::{Scratch, Server};
pub use start::{Options, Started, start};
use walls::Guard;
use writes::Writes;

/// What an administrator runs where Pombo's own role may not make others.
pub const ROLES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres/roles.sql"));

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres/", $name, ".sql"))
    };
}
use sql;

/// Others are believed to have written nothing for this long; word of them comes earlier.
const LOOK_EVERY: Span = Span::from_secs(1);
/// Not even word of others makes it look more often.
const LOOK_REST: Span = Span::from_millis(20);
/// How often everything is looked at, though no other node said a word: one may have put back what it had taken long ago.
const LOOK_WHOLE: Span = Span::from_secs(10);
const LATE_COMMIT: Span = Span::from_secs(2);
/// Seats without rows whose beginning is kept.
const EMPTY_SEATS: usize = 1_000;
/// So many rows of a table are sent while others of the group are being put together.
const AHEAD: usize = 500;

/// Who makes the audit a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// The node that is elected for it, a moment after each commit.
    ByUpkeep,
    /// Each commit itself, so that whoever reads next sees its records. Nodes would wait for each other.
    AtCommit,
}

/// The writer of a store on PostgreSQL.
#[derive(Debug)]
pub struct Postgres {
    driver: Driver,
    target: Target,
    link: Link,
    /// A transaction is open.
    begun: bool,
    /// The rows of the group have an audit row to name.
    named: bool,
    dice: Dice,
    ids: IdMaker,
    /// By which the process is known to the others.
    holder: i64,
    slot: Slot,
    slot_since: Time,
    /// Engines of this process that have shown a sign of life.
    nodes: HashSet<NodeId>,
    board: Board,
    /// Where each queue and rank begins, as far as is known.
    firsts: HashMap<(QueueId, i64), Time>,
    /// When all of it was last looked at.
    looked_whole: Option<Time>,
    claims: Claims,
    /// The audit records of the group that is being written.
    records: Vec<Record>,
    /// What the group adds to the counters.
    ledger: Ledger,
    /// By what the week's counters are told apart.
    names: Names,
    /// What the last commit has added to them, for whoever shows it.
    counts: Vec<Entry>,
    /// How many letters more or less of each cause.
    letters: BTreeMap<(Tenant, CauseId), i64>,
    writes: Writes,
    leases: HashMap<NodeId, Time>,
    guard: Guard,
    /// What the next group has to have of the blocks before any document.
    guard_first: Guard,
    /// The version of the blocks that the board has.
    version: i64,
    /// The group changes blocks.
    moved: bool,
    /// Bounded places through which nobody else sends before the commit.
    flows: HashSet<Place>,
    docs: roster::Docs,
    vault: Arc<Vault>,
    next_deadline: Option<Time>,
    looked: Option<Time>,
    look_took: Span,
    nudged: bool,
    /// Reopened, and nothing was committed since.
    mending: bool,
    /// Rung when a look finds something in the inbox.
    bell: Arc<tokio::sync::Notify>,
    /// The group leaves something for others to do.
    leaves_work: bool,
    /// The end of the audit chain, as far as is known.
    position: Arc<AtomicU64>,
    sealing: Sealing,
    beside: Beside,
}

/// What works beside the writer, where anything does.
#[derive(Debug, Default)]
struct Beside {
    news: Option<news::News>,
    upkeep: Option<Arc<upkeep::Upkeep>>,
    clock: Option<Arc<clock::DatabaseClock>>,
}

impl Postgres {
    /// Opens the store in that database, making or upgrading its schema if need be.
    ///
    /// `entropy` becomes the secret of a store that is new, and makes this process one of a kind.
    pub fn open(
        target: &Target,
        dice: Dice,
        entropy: &[u8; 32],
        sealing: Sealing,
    ) -> Result<Postgres, StoreError> {
        let (driver, keys) = (Driver::start()?, target.keys());
        let owner = Link::open(&driver, target, Kind::Owner)?;
        migrate::migrate(&owner, &first_secret(keys, entropy))?;
        advice::log(&owner)?;
        pausing::refuse_unfinished(&owner)?;
        let link = Link::open(&driver, target, Kind::Writer)?;
        let vault = Arc::new(migrate::unlock(&link, keys, entropy)?);
        let [.., a, b, c, d, e, f, g, h] = *entropy;
        let holder = i64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let slot = slot::take(&link, holder)?;
        let mut store = Postgres {
            driver,
            target: target.clone(),
            link,
            begun: false,
            named: false,
            ids: IdMaker::after(MessageKey(0), dice.clone()).within(slot),
            dice,
            holder,
            slot,
            slot_since: migrate::now(&owner)?,
            nodes: HashSet::new(),
            board: Board::default(),
            firsts: HashMap::new(),
            looked_whole: None,
            claims: Claims::default(),
            records: Vec::new(),
            ledger: Ledger::default(),
            names: Names::default(),
            counts: Vec::new(),
            letters: BTreeMap::new(),
            writes: Writes::new(vault.clone()),
            leases: HashMap::new(),
            guard: Guard::None,
            guard_first: Guard::None,
            version: -1,
            moved: false,
            flows: HashSet::new(),
            docs: roster::Docs::default(),
            vault,
            next_deadline: None,
            looked: None,
            look_took: Span::from_millis(0),
            nudged: false,
            mending: false,
            bell: Arc::default(),
            leaves_work: false,
            position: Arc::default(),
            sealing,
            beside: Beside::default(),
        };
        store.load()?;
        Ok(store)
    }

    /// Reads into memory what is kept there: queues with something to do, blocks, flows; not messages.
    fn load(&mut self) -> Result<(), StoreError> {
        self.forget_group();
        self.names = Names::default();
        self.claims.forget_all();
        pausing::notice_restore(&self.link)?;
        let last = self.link.query(sql!("message_last"), Vec::new())?;
        let last = last.first().map_or(Ok(MessageKey(0)), |row| rows::key(row, 0))?;
        self.ids = IdMaker::after(last, Dice::seeded(self.dice.next_u64())).within(self.slot);
        self.board = Board::default();
        self.version = -1;
        (self.looked, self.looked_whole) = (None, None);
        self.forget_docs();
        self.look_at_all(Time::default())
    }

    /// Forgets what the group would have written.
    fn forget_group(&mut self) {
        (self.begun, self.named, self.moved, self.leaves_work) = (false, false, false, false);
        self.guard = Guard::None;
        self.flows.clear();
        self.docs.forget_group();
        self.records.clear();
        self.ledger.clear();
        self.letters.clear();
        self.writes = Writes::new(self.vault.clone());
    }

    fn link(&self) -> &Link {
        &self.link
    }

    /// Opens the group's transaction, if it is not open.
    fn begin(&mut self) -> Result<(), StoreError> {
        if !self.begun {
            self.link.pipeline(self.link.begin())?;
            self.begun = true;
        }
        Ok(())
    }

    /// Asks within the group's transaction, opening it on the way if need be.
    fn ask(&mut self, mut steps: Vec<Step>) -> Result<Vec<Vec<link::Row>>, StoreError> {
        if self.begun {
            return self.link.pipeline(steps);
        }
        let mut all = self.link.begin();
        let before = all.len();
        all.append(&mut steps);
        let mut answers = self.link.pipeline(all)?;
        self.begun = true;
        Ok(answers.split_off(before))
    }

    fn ask_one(&mut self, sql: &'static str, values: Vec<link::Value>) -> Result<Vec<link::Row>, StoreError> {
        Ok(self.ask(vec![(sql, values)])?.pop().unwrap_or_default())
    }

    /// Asks one thing, reads each row of the answer as it comes, and sends others along that are not waited for before
    /// the next is asked.
    fn ask_ahead(
        &mut self,
        step: Step,
        ahead: Vec<Step>,
        each: impl FnMut(&link::Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.begin()?;
        self.link.query_ahead(step, ahead, each)
    }

    /// Has the server begin with these while the rest of the group is being put together.
    fn go_ahead(&mut self, mut steps: Vec<Step>) -> Result<(), StoreError> {
        if steps.is_empty() {
            return Ok(());
        }
        if !self.begun {
            steps.splice(0..0, self.link.begin());
        }
        self.begun = true;
        self.link.go_ahead(steps)
    }

    /// What writes the results that the group has so far.
    fn settled_ahead(&mut self) -> Vec<Step> {
        let steps = self.writes.take_history();
        self.naming(steps)
    }

    /// The same for what was accepted.
    fn accepted_ahead(&mut self) -> Vec<Step> {
        let steps = self.writes.take_messages();
        self.naming(steps)
    }

    /// Statements whose rows name the group's audit row, which has its number by then.
    fn naming(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        if !steps.is_empty() && !std::mem::replace(&mut self.named, true) {
            steps.insert(0, (sql!("audit_next"), Vec::new()));
        }
        steps
    }

    /// Writes what the group has gathered, for whoever must read it before the commit.
    fn flush(&mut self, now: Time) -> Result<(), StoreError> {
        self.store_fresh(now);
        let steps = self.gathered();
        if !steps.is_empty() {
            self.ask(steps)?;
        }
        Ok(())
    }

    fn gathered(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.named && (self.writes.names_batch() || !self.records.is_empty()) {
            steps.push((sql!("audit_next"), Vec::new()));
            self.named = true;
        }
        self.leaves_work |= !self.writes.ready.is_empty() || self.docs.has_news();
        steps.append(&mut self.writes.take());
        steps.append(&mut self.docs.take());
        steps
    }

    fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    /// The leases that are to be written. They are kept until the commit: one that failed is written with the next,
    /// since a lease says only what it says.
    fn leased(&self) -> Option<Step> {
        if self.leases.is_empty() {
            return None;
        }
        let (ids, until): (Vec<i64>, Vec<i64>) =
            self.leases.iter().map(|(node, until)| (node.0, until.millis())).unzip();
        Some((sql!("node_lease"), vec![ids.into(), until.into()]))
    }

    /// Makes a waiting message claimable: a row in `ready`.
    fn put_ready(&mut self, id: QueueId, rank: i64, due: Time, key: MessageKey, steps: u32, now: Time) {
        self.writes.ready(id, rank, due, key, steps);
        self.board.note_row(id, rank, due, now);
        self.firsts.entry((id, rank)).and_modify(|first| *first = due.min(*first)).or_insert(due);
    }

    /// Turns what is left of the group's own messages into rows of `ready`.
    fn store_fresh(&mut self, now: Time) {
        for id in self.board.take_fresh_queues() {
            self.make_ready(id, now);
        }
    }

    fn make_ready(&mut self, id: QueueId, now: Time) {
        let queue = self.board.queue(id);
        queue.fresh_due = None;
        for fresh in std::mem::take(&mut queue.fresh) {
            self.put_ready(id, fresh.rank, fresh.due, fresh.key, 0, now);
        }
    }

    fn note_deadline(&mut self, at: Time) {
        self.next_deadline = Some(self.next_deadline.map_or(at, |next| next.min(at)));
    }

    /// Learns what others wrote: what waits where, blocks, deadlines, campaigns, the time.
    fn look_at_all(&mut self, now: Time) -> Result<(), StoreError> {
        let asked = self.beside.clock.as_ref().map(|clock| clock.local());
        let whole = self.nudged
            || self.firsts.is_empty()
            || self.looked_whole.is_none_or(|then| now < then || now.since(then) >= LOOK_WHOLE);
        let look = if whole { (sql!("look"), Vec::new()) } else { self.ask_known(now) };
        let found = self.link.query(look.0, look.1)?;
        let Some((facts, seats)) = found.split_first() else { return Err(reader::unanswered()) };
        let (clock, version): (Time, i64) = (rows::time(facts, 0)?, rows::get(facts, 1)?);
        if let (Some(keeper), Some(asked)) = (&self.beside.clock, asked) {
            keeper.saw(clock, asked);
        }
        self.next_deadline = rows::some_time(facts, 2)?;
        if rows::get::<Option<bool>>(facts, 4)?.unwrap_or(false) {
            self.bell.notify_one();
        }
        self.position.fetch_max(rows::number::<i64, u64>(facts, 3)?, Ordering::Relaxed);
        let seat = |row| Ok::<_, StoreError>((rows::get(row, 0)?, rows::get(row, 1)?, rows::time(row, 2)?));
        let heads = seats.iter().map(seat).collect::<Result<Vec<(QueueId, i64, Time)>, _>>()?;
        let mut unknown: Vec<QueueId> =
            heads.iter().map(|(queue, ..)| *queue).filter(|queue| !self.board.knows(*queue)).collect();
        unknown.dedup();
        if !unknown.is_empty() {
            for row in &self.link.query(sql!("queue_some"), vec![unknown.into()])? {
                self.add_queue(row)?;
            }
        }
        self.learn_changes(rows::some_time(facts, 5)?, now)?;
        self.board.replace_rows(&heads, now);
        let new = heads.iter().any(|(queue, rank, _)| !self.firsts.contains_key(&(*queue, *rank)));
        if whole && self.firsts.len() > heads.len() + EMPTY_SEATS {
            self.firsts.clear();
        }
        self.firsts.extend(heads.into_iter().map(|(queue, rank, due)| ((queue, rank), due)));
        // Beside a seat that was not known there may be others.
        self.looked_whole = if whole { Some(now) } else { self.looked_whole.filter(|_| !new) };
        if version != self.version {
            self.load_blocks(version, now)?;
        }
        if clock.since(self.slot_since) > slot::RENEWAL {
            self.renew_slot()?;
            self.slot_since = clock;
        }
        if let (Some(keeper), Some(asked)) = (&self.beside.clock, asked) {
            self.look_took = keeper.local().since(asked);
        }
        (self.looked, self.nudged) = (Some(now), false);
        Ok(())
    }

    /// A look at the seats that are known, each from where it began, and at what is between them. The rows before were
    /// taken: while somebody reads for long the server cannot forget them, and a look would walk past all of them.
    fn ask_known(&self, now: Time) -> Step {
        let (mut queues, mut ranks, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        for ((queue, rank), due) in &self.firsts {
            queues.push(*queue);
            ranks.push(i16::try_from(*rank).unwrap_or(i16::MAX));
            // What was taken was due. Somebody else's row may be due now, before what waits for tomorrow, or a little
            // earlier and committed a little later.
            firsts.push(((*due).min(now) - LATE_COMMIT).millis());
        }
        (sql!("look_known"), vec![queues.into(), ranks.into(), firsts.into()])
    }

    /// How long not to look at all: with many queues a look takes long, and the writer has other things to do.
    fn look_rest(&self) -> Span {
        LOOK_REST.max(Span::from_millis(self.look_took.millis().saturating_mul(10)))
    }

    fn add_queue(&mut self, row: &link::Row) -> Result<(), StoreError> {
        let (id, weight): (QueueId, i32) = (rows::get(row, 0)?, rows::get(row, 6)?);
        if !self.board.knows(id) {
            self.board.add(id, rows::queue_name(row, 1)?, weight.unsigned_abs().max(1));
        }
        Ok(())
    }
}

/// Does one thing in a transaction of its own.
fn alone(link: &Link, step: Step) -> Result<Vec<link::Row>, StoreError> {
    let mut steps = link.begin();
    let nth = steps.len();
    steps.extend([step, ("COMMIT", Vec::new())]);
    Ok(link.pipeline(steps)?.swap_remove(nth))
}

impl Core for Postgres {
    type Reader = Reader;

    fn accept(&mut self, draft: Draft, now: Time) -> Result<Result<Accepted, Conflict>, StoreError> {
        one(self.accept_all(&[draft], now)?)
    }

    fn accept_all(
        &mut self,
        drafts: &[Draft],
        now: Time,
    ) -> Result<Vec<Result<Accepted, Conflict>>, StoreError> {
        self.accept_some(drafts, now)
    }

    fn claim(&mut self, ask: &Ask, now: Time) -> Result<Vec<Claimed>, StoreError> {
        if self.board.traffic.bound(&ask.rates) {
            self.board.reseat_all(now);
        }
        self.end_pauses(now)?;
        self.guard_blocks(Guard::Shared, now)?;
        self.claim_by_turns(ask, now)
    }

    fn heartbeat(&mut self, node: NodeId, lease_until: Time) -> Result<(), StoreError> {
        self.nodes.insert(node);
        let lease = self.leases.entry(node).or_default();
        *lease = lease_until.max(*lease);
        Ok(())
    }

    fn take_over(&mut self, node: NodeId, max: usize, now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.take_over_lost(node, max, now)
    }

    fn settle(&mut self, settlement: Settlement, now: Time) -> Result<Settled, StoreError> {
        one(self.settle_all(&[settlement], now)?)
    }

    fn settle_all(&mut self, settlements: &[Settlement], now: Time) -> Result<Vec<Settled>, StoreError> {
        self.settle_some(settlements, now)
    }

    fn disown(&mut self, key: ClaimKey) {
        self.claims.disowned.push(key);
    }

    fn release(&mut self, key: ClaimKey, now: Time) -> Result<Settled, StoreError> {
        one(self.release_all(&[key], now)?)
    }

    fn release_all(&mut self, keys: &[ClaimKey], now: Time) -> Result<Vec<Settled>, StoreError> {
        self.release_some(keys, now)
    }

    fn leave_out(&mut self, key: ClaimKey, reason: &str, now: Time) -> Result<Settled, StoreError> {
        self.leave_out_one(key, reason, now)
    }

    fn report(&mut self, channel: &ChannelName, report: &Report, now: Time) -> Result<Reported, StoreError> {
        one(self.report_some(channel, std::slice::from_ref(report), now)?)
    }

    fn report_all(
        &mut self,
        channel: &ChannelName,
        reports: &[Report],
        now: Time,
    ) -> Result<Vec<Reported>, StoreError> {
        self.report_some(channel, reports, now)
    }

    fn cancel(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Cancelled, StoreError> {
        self.cancel_one(tenant, id, by, None, now)
    }

    fn hasten(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Hastened, StoreError> {
        self.hasten_one(tenant, id, by, now)
    }

    fn rule(&mut self, ruling: &Ruling, now: Time) -> Result<Verdicts, StoreError> {
        self.rule_all(ruling, now)
    }

    fn edit(&mut self, edit: &Edit, now: Time) -> Result<Edited, StoreError> {
        self.edit_one(edit, now)
    }

    fn shelve(&mut self, wish: &Shelve, now: Time) -> Result<Shelved, StoreError> {
        self.shelve_one(wish, now)
    }

    fn enlist(&mut self, wish: &Enlist, now: Time) -> Result<Result<Vec<Enlisted>, NotDone>, StoreError> {
        self.enlist_lines(wish, now)
    }

    fn feed(&mut self, feed: &Feed, now: Time) -> Result<Result<(), NotDone>, StoreError> {
        self.feed_all(feed, now)
    }

    fn strike(&mut self, tenant: &Tenant, campaign: &CampaignName, max: usize) -> Result<usize, StoreError> {
        self.strike_some(tenant, campaign, max)
    }

    fn cut(&mut self, tenant: &Tenant, campaign: &CampaignName, now: Time) -> Result<bool, StoreError> {
        self.cut_off(tenant, campaign, now)
    }

    fn prune(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Result<Pruned, StoreError> {
        self.prune_some(prune, ripe, now)
    }

    fn lapse(&mut self, after: Option<MessageKey>, max: usize, now: Time) -> Result<Lapsed, StoreError> {
        self.lapse_some(after, max, now)
    }

    fn pseudonyms(&self) -> Pseudonyms {
        Pseudonyms::new(self.vault.secret())
    }

    fn erase(&mut self, wish: &Erase, now: Time) -> Result<Erased, StoreError> {
        self.erase_all(wish, now)
    }

    fn expire(&mut self, max: usize, now: Time) -> Result<usize, StoreError> {
        if self.next_deadline.is_none_or(|next| next > now) {
            return Ok(0);
        }
        self.expire_some(max, now)
    }

    fn block(&mut self, place: &Place, block: Block, by: &Actor, now: Time) -> Result<(), StoreError> {
        self.block_for(place, block, by, now)
    }

    fn unblock(&mut self, place: &Place, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.unblock_for(place, by, now)
    }

    fn examine(&mut self, finding: &Finding, now: Time) -> Result<(), StoreError> {
        self.look_into(finding, now)
    }

    fn pause(&mut self, pause: &Pause, by: &Actor) -> Result<(), StoreError> {
        self.pause_all(pause, by)
    }

    fn resume(&mut self, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.resume_all(by, now)
    }

    fn put_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Result<Put, StoreError> {
        self.put_one_template(tenant, name, template, by, now)
    }

    fn commit(&mut self, now: Time, entropy: &[u8; 32]) -> Result<u64, StoreError> {
        self.counts.clear();
        self.part_with_disowned(now)?;
        self.store_fresh(now);
        let mut steps = self.gathered();
        if !self.records.is_empty() {
            let entries = audit::encoded(&self.records, entropy);
            let count = i32::try_from(self.records.len()).unwrap_or(i32::MAX);
            steps.push((sql!("audit_insert"), vec![now.millis().into(), count.into(), entries.into()]));
        }
        steps.extend(self.leased());
        steps.extend(self.counted(now));
        steps.extend(self.counted_letters());
        steps.extend(self.flowed());
        if self.moved {
            steps.push((sql!("board_move"), Vec::new()));
        }
        let wrote = !steps.is_empty();
        if !wrote && !self.begun {
            return Ok(self.position.load(Ordering::Relaxed));
        }
        let records = !self.records.is_empty();
        if records && self.sealing == Sealing::AtCommit {
            self.ask(steps)?;
            let position = upkeep::seal_within(&self.link)?;
            self.position.fetch_max(position, Ordering::Relaxed);
            steps = Vec::new();
        }
        steps.push(("COMMIT", Vec::new()));
        self.ask(steps)?;
        if self.moved {
            self.version += 1;
        }
        if (self.moved || self.leaves_work)
            && let Some(news) = &self.beside.news
        {
            news.tell();
        }
        if records && let Some(upkeep) = &self.beside.upkeep {
            upkeep.wake();
        }
        self.forget_group();
        self.leases.clear();
        self.mending = false;
        self.claims.unlock();
        Ok(self.position.load(Ordering::Relaxed))
    }

    fn tell(&mut self, counts: &Counts) {
        counts.add(self.counts.drain(..));
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        // Once more without a commit in between: whatever is wrong may be the session's.
        let again = std::mem::replace(&mut self.mending, true);
        // Also where the session is given up: otherwise what it has locked is not free before the server sees it leave.
        let rolled_back =
            !self.link.is_closed() && self.link.pipeline(vec![("ROLLBACK", Vec::new())]).is_ok();
        let anew = again || !rolled_back;
        if anew {
            self.link = Link::open(&self.driver, &self.target, Kind::Writer)?;
        }
        // First of all: what failed may have failed because a table is no longer as we know it.
        migrate::refuse_another(&alone(&self.link, migrate::schema())?)?;
        if anew {
            self.renew_slot()?;
        }
        self.load()
    }

    fn check(&mut self, now: Time) -> Result<(), StoreError> {
        let moment = now.millis().to_le_bytes().to_vec();
        alone(&self.link, (sql!("meta_touch"), vec![moment.into()])).map(drop)
    }

    fn nudge(&mut self) {
        self.nudged = true;
    }

    fn look(&mut self, now: Time) -> Result<(), StoreError> {
        let rest = if self.nudged { self.look_rest() } else { LOOK_EVERY.max(self.look_rest()) };
        let soon = |looked: Time| now >= looked && now.since(looked) < rest;
        if self.looked.is_some_and(soon) {
            return Ok(());
        }
        self.look_at_all(now)
    }

    fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time> {
        self.board.next_due(lane, now)
    }

    fn next_deadline(&self) -> Option<Time> {
        let look = self.looked.filter(|_| self.nudged).map(|looked| looked + self.look_rest());
        [look, self.next_deadline].into_iter().flatten().min()
    }

    fn reader(&self) -> Result<Reader, StoreError> {
        Ok(Reader::new(self.driver.clone(), self.target.clone(), self.vault.clone()))
    }
}

impl Drop for Postgres {
    /// Leaves the slot and its offices to whoever comes next, and what its engines could not settle, if the database can
    /// still be told; else their leases end.
    fn drop(&mut self) {
        if !self.link.is_closed() {
            let _ = self.link.query("ROLLBACK", Vec::new());
            let nodes: Vec<i64> = self.nodes.iter().map(|node| node.0).collect();
            let _ = self.link.alone(sql!("node_end"), vec![nodes.into()]);
            let _ = self.link.alone(sql!("slot_free"), vec![self.holder.into()]);
        }
        if let Some(upkeep) = &self.beside.upkeep {
            upkeep.end();
        }
    }
}

/// The answer to a question of one part.
fn one<T>(mut answers: Vec<T>) -> Result<T, StoreError> {
    answers.pop().ok_or_else(reader::unanswered)
}
