//! The embedded store: one file, one writer, full durability.
//!
//! A message row is written once. What waits stands in the small `ready` table; a claim moves messages from there
//! into one journal row, and a settlement appends to `history`. So `sending` is the open journal less what is
//! settled, and after a crash exactly those messages are in doubt. A message that is accepted and claimed in the
//! same commit never touches `ready` at all.

pub(crate) mod backup;
pub(crate) mod checking;
mod claims;
mod dead;
mod directory;
mod erase;
mod file;
pub(crate) mod glance;
mod learning;
mod log;
pub(crate) mod moving;
mod pausing;
mod prune;
mod reader;
mod receipts;
pub(crate) mod rekeying;
mod roster;
mod rows;
mod settling;
mod shelf;
mod stats;
mod templates;
mod tracks;

use std::path::Path;
use std::sync::Arc;

use pombo_kernel::block::Block;
use pombo_kernel::delivery::Report;
use pombo_kernel::dice::Dice;
use pombo_kernel::erasure::Pseudonyms;
use pombo_kernel::id::{IdMaker, MessageId, MessageKey};
use pombo_kernel::message::{Actor, ClaimKey, Draft, Message, QueueName};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::{Span, Time};
use rusqlite::{OptionalExtension, Params, Row, params};

use crate::audit::{Gathered, Line, Record, Tip};
use crate::board::{Board, Fresh, QueueId, rank};
use crate::claiming::Claiming as _;
use crate::core::Core;
use crate::courses::Courses as _;
use crate::dead::{Edit, Edited, Hastened, Ruling, Verdicts};
use crate::erase::{Erase, Erased, Erasing as _};
use crate::learning::Names;
use crate::meter::Counts;
use crate::prune::{Lapsed, Prune, Pruned, Ripe};
use crate::roster::{Enlist, Enlisted, Feed, NotDone};
use crate::shelf::{Shelf, Shelve, Shelved};
use crate::stats::{Entry, Ledger};
use crate::transition;
use crate::vault::Keys;
use crate::vault::opening::first_secret;
use crate::walls::Walls;
use crate::{
    Accepted, Ask, Cancelled, Claimed, Conflict, Finding, NodeId, Pause, Place, Put, Repeat, Reported,
    Settled, Settlement, StoreError,
};
use claims::Claims;
use directory::Directory;
use file::File;
pub(crate) use file::make_folder;
pub use reader::Reader;

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/sqlite/", $name, ".sql"))
    };
}
use sql;

/// The writer of an embedded store.
#[derive(Debug)]
pub struct Sqlite {
    file: File,
    dice: Dice,
    ids: IdMaker,
    board: Board,
    claims: Claims,
    tip: Tip,
    /// The audit records of the group that is being written.
    records: Gathered,
    /// What the group adds to the counters.
    ledger: Ledger,
    /// By what the week's counters are told apart.
    names: Names,
    /// What the last commit has added to them, for whoever shows it.
    counts: Vec<Entry>,
    directory: Directory,
    next_deadline: Option<Time>,
    /// When it was last noted how far the chain has come.
    noted: Option<Time>,
    /// Somebody asked for a sweep.
    sweep: bool,
    /// What came of the last one.
    swept: Option<Result<(), StoreError>>,
}

impl Sqlite {
    /// Opens the store in that folder, making it if need be.
    ///
    /// Refused while another process has it open, and when a newer version of Pombo has written it. `entropy` becomes
    /// the secret of a store that is new.
    pub fn open(folder: &Path, dice: Dice, entropy: &[u8; 32]) -> Result<Sqlite, StoreError> {
        Sqlite::open_with(folder, dice, entropy, None)
    }

    /// Opens a store that is sealed with these keys, or makes one that will be.
    pub fn open_with(
        folder: &Path,
        dice: Dice,
        entropy: &[u8; 32],
        keys: Option<&Keys>,
    ) -> Result<Sqlite, StoreError> {
        let mut file = File::open(folder, &first_secret(keys, entropy))?;
        moving::refuse_unfinished(&file.db)?;
        file.unlock(keys, entropy)?;
        let mut store = Sqlite {
            file,
            ids: IdMaker::after(MessageKey(0), dice.clone()),
            dice,
            board: Board::default(),
            claims: Claims::default(),
            tip: Tip::default(),
            records: Gathered::default(),
            ledger: Ledger::default(),
            names: Names::default(),
            counts: Vec::new(),
            directory: Directory::default(),
            next_deadline: None,
            noted: None,
            sweep: false,
            swept: None,
        };
        store.load(Life::New)?;
        Ok(store)
    }

    /// Reads into memory what is kept there: queues, blocks, the open journal; not messages.
    fn load(&mut self, life: Life) -> Result<(), StoreError> {
        self.records.clear();
        self.ledger.clear();
        self.names = Names::default();
        self.tip = rows::tip(&self.file.db)?;
        let last: Option<i64> = self.one(sql!("message_last"), [], |row| row.get(0))?.flatten();
        self.ids = IdMaker::after(MessageKey(last.unwrap_or(0)), Dice::seeded(self.dice.next_u64()));
        self.directory = Directory::of(&self.file.db)?;
        self.next_deadline = self.one(sql!("expiry_next"), [], |row| rows::time(row, 0))?;
        self.board = Board::default();
        self.load_pause()?;
        for (id, name, weight) in rows::queues(&self.file.db)? {
            self.board.add(id, name, weight);
        }
        for (place, block) in rows::blocks(&self.file.db)? {
            self.board.put_block(&place, block, Time::default());
        }
        for shelf in [Shelf::Campaign, Shelf::Line] {
            for doc in shelf::every(&self.file.db, shelf)? {
                #[cfg(feature = "planted")]
                let doc = crate::roster::found(doc);
                self.board.shelved(shelf, &doc.tenant, &doc.id, Some(&doc), Time::default());
            }
        }
        if life == Life::New {
            self.board.probe_all();
        }
        let mut last = 0;
        while let Some(id) = self.one(sql!("ready_next_queue"), [last], |row| row.get(0))? {
            self.find_next_due(id, u32::MAX, Time::from_millis(0))?;
            last = id;
        }
        self.load_claims()
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.file.db.prepare_cached(sql)?;
        Ok(statement.query_row(params, read).optional()?)
    }

    /// Runs a statement inside the group's transaction, beginning it if need be.
    fn write(&mut self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        self.file.begin()?;
        Ok(self.file.db.prepare_cached(sql)?.execute(params)?)
    }

    fn queue(&mut self, name: &QueueName) -> Result<(QueueId, Arc<QueueName>), StoreError> {
        if let Some(id) = self.board.find(name) {
            return Ok((id, self.board.queue(id).name.clone()));
        }
        let campaign = name.campaign.as_ref().map_or("", |campaign| campaign.as_str());
        self.write(
            sql!("queue_insert"),
            params![
                name.tenant.as_str(),
                name.lane.as_str(),
                name.channel.as_str(),
                &*name.destination,
                campaign
            ],
        )?;
        let id = self.file.db.last_insert_rowid();
        Ok((id, self.board.add(id, name.clone(), 1)))
    }

    /// The audit block that the group becomes.
    fn block_number(&self) -> i64 {
        i64::try_from(self.tip.sequence).unwrap_or(i64::MAX)
    }

    /// Makes a waiting message claimable: a row in `ready`.
    fn put_ready(
        &mut self,
        id: QueueId,
        rank: i64,
        due: Time,
        key: MessageKey,
        steps: u32,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(sql!("ready_insert"), params![id, rank, due.millis(), key.0, steps])?;
        self.board.note_row(id, rank, due, now);
        Ok(())
    }

    fn note_deadline(&mut self, at: Time) {
        self.next_deadline = Some(self.next_deadline.map_or(at, |next| next.min(at)));
    }

    /// Makes what the group did durable, with its audit block.
    fn commit_group(&mut self, now: Time, entropy: &[u8; 32]) -> Result<u64, StoreError> {
        self.counts.clear();
        self.store_fresh(now)?;
        if self.records.is_empty() && self.ledger.is_empty() && !self.file.writing() {
            return Ok(self.tip.position);
        }
        let mut tip = self.tip;
        if !self.records.is_empty() {
            let count = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
            let (block, next) = self.tip.seal_encoded(self.records.take(entropy), count, now);
            tip = next;
            self.write(
                sql!("audit_insert"),
                params![
                    i64::try_from(block.sequence).unwrap_or(i64::MAX),
                    i64::try_from(block.position).unwrap_or(i64::MAX),
                    block.at.millis(),
                    block.count,
                    block.hash.as_slice(),
                    block.entries,
                ],
            )?;
        }
        self.write_counters(now)?;
        if self.directory.is_due() {
            self.directory.enter(&self.file.db)?;
        }
        self.file.commit()?;
        self.tip = tip;
        self.note_tip(now);
        Ok(self.tip.position)
    }

    /// Turns what is left of the group's own messages into rows of `ready`.
    fn store_fresh(&mut self, now: Time) -> Result<(), StoreError> {
        for id in self.board.take_fresh_queues() {
            self.store_fresh_of_queue(id, now)?;
        }
        Ok(())
    }

    fn store_fresh_of_queue(&mut self, id: QueueId, now: Time) -> Result<(), StoreError> {
        let queue = self.board.queue(id);
        queue.fresh_due = None;
        let fresh = std::mem::take(&mut queue.fresh);
        if fresh.is_empty() {
            return Ok(());
        }
        self.file.begin()?;
        let mut insert = self.file.db.prepare_cached(sql!("ready_insert"))?;
        for Fresh { rank, due, key, .. } in fresh {
            insert.execute(params![id, rank, due.millis(), key.0, 0])?;
            self.board.note_row(id, rank, due, now);
        }
        Ok(())
    }
}

impl Walls for Sqlite {
    fn board(&mut self) -> &mut Board {
        &mut self.board
    }

    fn record(&mut self, record: Record) {
        self.records.push(&record);
    }

    fn note(&mut self, line: Line<'_>) {
        self.records.push(&line);
    }

    fn write_block(&mut self, place: &Place, block: &Block) -> Result<(), StoreError> {
        let body = rows::json(block)?;
        let destination = place.destination.as_deref().unwrap_or("");
        self.write(sql!("block_put"), params![place.channel.as_str(), destination, body])?;
        Ok(())
    }

    fn erase_block(&mut self, place: &Place) -> Result<(), StoreError> {
        let destination = place.destination.as_deref().unwrap_or("");
        self.write(sql!("block_delete"), params![place.channel.as_str(), destination])?;
        Ok(())
    }

    fn outage_ended(&mut self, place: &Place, lasted: Span, now: Time) -> Result<(), StoreError> {
        self.learn_outage(place, lasted, now)
    }
}

impl Core for Sqlite {
    type Reader = Reader;

    fn accept(&mut self, draft: Draft, now: Time) -> Result<Result<Accepted, Conflict>, StoreError> {
        let tenant = &draft.queue.tenant;
        if let Some(given) = &draft.idempotency {
            let found = self.one(sql!("find_idempotency"), params![tenant.as_str(), given.key], |row| {
                Ok((rows::id(row, 0, 1)?, row.get::<_, Vec<u8>>(2)?))
            })?;
            if let Some((id, fingerprint)) = found {
                let same = fingerprint == given.fingerprint;
                return Ok(if same {
                    Ok(Accepted { id, repeat: Repeat::Same })
                } else {
                    Err(Conflict { first: id })
                });
            }
        }
        let (queue, name) = self.queue(&draft.queue)?;
        let id = draft.id.unwrap_or_else(|| self.ids.next(now));
        let key = id.key();
        let due = draft.send_at.map_or(now, |at| at.max(now));
        let vault = &self.file.db.vault;
        let recipient = vault.hash(name.tenant.as_str(), &draft.body.to);
        let body = rows::body(vault, key, &draft.body)?;
        let (slice, block) = (self.directory.next_slice(), self.block_number());
        self.write(
            sql!("accept_message"),
            params![
                key.0,
                id.nonce(),
                queue,
                draft.priority.get(),
                due.millis(),
                draft.send_at.map(Time::millis),
                draft.expires_at.map(Time::millis),
                draft.ordering_key,
                draft.body.kind,
                draft.body.template,
                draft.body.reference,
                slice,
                recipient,
                block,
                body,
            ],
        )?;
        self.directory.note(&self.file.db, key)?;
        if let Some(given) = &draft.idempotency {
            self.write(
                sql!("accept_idempotency"),
                params![name.tenant.as_str(), given.key, key.0, id.nonce(), given.fingerprint.as_slice()],
            )?;
        }
        if let Some(at) = draft.expires_at {
            self.write(sql!("expiry_insert"), params![at.millis(), key.0])?;
            self.note_deadline(at);
        }
        self.put_blobs(key, &draft.blobs)?;
        let message = Arc::new(Message {
            id,
            queue: name.clone(),
            priority: draft.priority,
            send_at: draft.send_at,
            expires_at: draft.expires_at,
            ordering_key: draft.ordering_key,
            body: draft.body,
        });
        self.note(transition::acceptance(&message, now));
        self.ledger.accepted(&name);
        if self.enter_order(&message)? == Order::Goes {
            let fresh = Fresh { rank: rank(message.priority), due, key, message };
            self.board.push_fresh(queue, fresh, now);
        }
        Ok(Ok(Accepted { id, repeat: Repeat::First }))
    }

    fn accept_group(
        &mut self,
        drafts: &mut Vec<Draft>,
        now: Time,
    ) -> Result<Vec<Result<Accepted, Conflict>>, StoreError> {
        drafts.drain(..).map(|draft| self.accept(draft, now)).collect()
    }

    fn claim(&mut self, ask: &Ask, now: Time) -> Result<Vec<Claimed>, StoreError> {
        if self.board.traffic.bound(&ask.rates) {
            self.board.reseat_all(now);
        }
        self.end_pauses(now)?;
        self.claim_by_turns(ask, now)
    }

    fn heartbeat(&mut self, node: NodeId, lease_until: Time) -> Result<(), StoreError> {
        let lease = self.claims.leases.entry(node).or_default();
        *lease = lease_until.max(*lease);
        Ok(())
    }

    fn take_over(&mut self, node: NodeId, max: usize, now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.take_over_lost(node, max, now)
    }

    fn settle(&mut self, settlement: Settlement, now: Time) -> Result<Settled, StoreError> {
        self.settle_one(&settlement, now)
    }

    fn settle_all(&mut self, settlements: &[Settlement], now: Time) -> Result<Vec<Settled>, StoreError> {
        settlements.iter().map(|settlement| self.settle_one(settlement, now)).collect()
    }

    fn disown(&mut self, key: ClaimKey) {
        self.claims.disown(key);
    }

    fn release(&mut self, key: ClaimKey, now: Time) -> Result<Settled, StoreError> {
        self.release_one(key, now)
    }

    fn leave_out(&mut self, key: ClaimKey, reason: &str, now: Time) -> Result<Settled, StoreError> {
        self.leave_out_one(key, reason, now)
    }

    fn report(&mut self, channel: &ChannelName, report: &Report, now: Time) -> Result<Reported, StoreError> {
        self.report_one(channel, report, now)
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
        Pseudonyms::new(self.file.db.vault.secret())
    }

    fn erase(&mut self, wish: &Erase, now: Time) -> Result<Erased, StoreError> {
        self.erase_all(wish, now)
    }

    fn sweep(&mut self) {
        self.sweep = true;
    }

    fn swept(&mut self) -> Result<(), StoreError> {
        let unknown = || Err(StoreError::Unavailable("it has not been swept yet".to_owned()));
        self.swept.take().unwrap_or_else(unknown)
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
        let position = self.commit_group(now, entropy)?;
        // Once for each time that it is asked for: everybody waits meanwhile, whether it succeeds or not.
        if std::mem::take(&mut self.sweep) {
            self.swept = Some(erase::sweep(&self.file.db, self.file.path()));
        }
        Ok(position)
    }

    fn tell(&mut self, counts: &Counts) {
        counts.add(self.counts.drain(..));
    }

    fn warm_up(&mut self) {
        self.file.fill_log();
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.file.reopen()?;
        self.load(Life::Same)
    }

    fn check(&mut self, now: Time) -> Result<(), StoreError> {
        self.write(sql!("meta_put"), params!["checked", now.millis().to_le_bytes()])?;
        self.file.commit()
    }

    fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time> {
        self.board.next_due(lane, now)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.next_deadline
    }

    fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(self.file.path(), self.file.db.vault.clone())
    }
}

/// Whether the process is new to the file, or only reads it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    New,
    Same,
}

/// Whether a message may go, as far as its ordering key is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Goes,
    Waits,
}
