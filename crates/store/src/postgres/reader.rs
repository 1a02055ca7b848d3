//! Reading beside the writer, on a connection of its own: a slow reader never holds up a send.
//!
//! What a tenant asks for is read under the tenant's row level security, so that a filter somebody forgets shows
//! nothing rather than somebody else's rows. Only everybody's documents, the journal and what belongs to nobody are read as the engine.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::Block;
use pombo_kernel::delivery::LastWord;
use pombo_kernel::erasure::{Bookmark, Seeker};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{ClaimId, Idempotency, Progress, State, StateName};
use pombo_kernel::name::{ChannelName, TemplateName, Tenant};
use pombo_kernel::time::Time;

use super::link::{self, Driver, Kind, Link, Row, Target};
use super::pausing::PAUSED;
use super::rows::{self, Step, Stored};
use super::{dead, learning, prune, roster, shelf, sql, stats, templates};
use crate::audit::{self, Record};
use crate::core::Reading;
use crate::dead::{Group, Revision};
use crate::erase::Sought;
use crate::learning::{Learnt, weeks};
use crate::prune::{Prune, Ripe};
use crate::roster::{Recipient, Roster};
use crate::shelf::{Doc, Shelf, Wanted};
use crate::tracks::search;
use crate::vault::{Spot, Vault};
use crate::{
    Backlog, Filter, Line, Measured, PAGE_SCAN, Page, Pause, Place, StatsWanted, StoreError, Story, Tally,
    TemplateVersion,
};

/// Audit blocks read at once.
const BLOCKS_AT_ONCE: usize = 64;

/// Messages of which a page reads everything at once.
const LINES_AT_ONCE: usize = 500;

/// Stretches of 19 hours in which a page looks for a recipient at once: some seven weeks.
const STRETCHES_AT_ONCE: i64 = 64;

/// The stretch of 19 hours in which a message was accepted.
pub(super) const fn stretch(key: MessageKey) -> i64 {
    key.0 >> 47
}

pub struct Reader {
    driver: Driver,
    target: Target,
    /// Opened by the first read, and again by the next one after it was lost.
    link: Option<Link>,
    pub(super) vault: Arc<Vault>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("link", &self.link).finish_non_exhaustive()
    }
}

/// Whose rows a read sees.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    Tenant(&'a Tenant),
    Everybodys,
}

impl Whose<'_> {
    /// What makes the rest of a transaction see these and no others.
    pub(super) fn step(self) -> link::Step {
        match self {
            Whose::Tenant(tenant) => (sql!("read_as_tenant"), vec![tenant.as_str().into()]),
            Whose::Everybodys => (sql!("read_as_engine"), vec![]),
        }
    }
}

/// Which messages are being sent: by key and steps, since a message that was settled stays listed for as long as
/// another of its batch is not.
pub(super) type Journal = HashMap<(MessageKey, u32), (ClaimId, Time)>;

impl Reader {
    pub(super) fn new(driver: Driver, target: Target, vault: Arc<Vault>) -> Reader {
        Reader { driver, target, link: None, vault }
    }

    /// Reads with one view of the database, in one journey. The transaction ends with it, whatever happens.
    pub(super) fn read(
        &mut self,
        whose: Whose<'_>,
        asked: Vec<link::Step>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let link = match self.link.take().filter(|link| !link.is_closed()) {
            Some(link) => link,
            None => Link::open(&self.driver, &self.target, Kind::Reader)?,
        };
        let link = self.link.insert(link);
        let mut steps = link.begin();
        steps.push(whose.step());
        let before = steps.len();
        steps.extend(asked);
        steps.push(("COMMIT", vec![]));
        let mut rows = link.pipeline(steps)?;
        rows.pop();
        Ok(rows.split_off(before))
    }

    pub(super) fn one(&mut self, whose: Whose<'_>, asked: link::Step) -> Result<Vec<Row>, StoreError> {
        Ok(self.read(whose, vec![asked])?.pop().unwrap_or_default())
    }

    /// Keys that may match, newest first. They are anybody's: their messages are read as the tenant.
    fn candidates(
        &mut self,
        filter: &Filter,
        before: MessageKey,
        limit: usize,
    ) -> Result<Vec<MessageKey>, StoreError> {
        let since = filter.since.map_or(MessageKey(0), MessageKey::at);
        let bounds = || vec![before.0.into(), since.0.into(), counted(limit).into()];
        let hashed = |text: &str| self.vault.hash(filter.tenant.as_str(), text);
        let asked = if let Some(reference) = &filter.reference {
            let mut values = bounds();
            values.push(hashed(reference).into());
            (sql!("page_by_reference"), values)
        } else if let Some(recipient) = &filter.recipient {
            let hash = hashed(recipient);
            return self.candidates_to(hash, since, before, limit);
        } else if let Some(cause) = filter.cause {
            let mut values = bounds();
            values.push(cause.0.into());
            (sql!("page_by_cause"), values)
        } else if filter.state == Some(StateName::Failed) {
            (sql!("page_dead"), bounds())
        } else {
            (sql!("page_newest"), bounds())
        };
        keys(&self.one(Whose::Everybodys, asked)?)
    }

    /// Messages to a recipient, stretch by stretch from the newest on.
    fn candidates_to(
        &mut self,
        recipient: i64,
        since: MessageKey,
        before: MessageKey,
        limit: usize,
    ) -> Result<Vec<MessageKey>, StoreError> {
        let span = self.one(Whose::Everybodys, (sql!("page_span"), vec![]))?;
        let ends = |row| Ok::<_, StoreError>((rows::get(row, 0)?, rows::get(row, 1)?));
        let (Some(oldest), Some(newest)) = span.first().map_or(Ok((None, None)), ends)? else {
            return Ok(Vec::new());
        };
        let last = stretch(since.max(MessageKey(oldest)));
        let mut next = stretch(before.min(MessageKey(newest)));
        let mut found = Vec::new();
        while next >= last && found.len() < limit {
            let until = last.max(next - STRETCHES_AT_ONCE + 1);
            // The bound on keys says which months to look into.
            let from = since.0.max(until << 47);
            let values = vec![
                before.0.into(),
                from.into(),
                counted(limit - found.len()).into(),
                recipient.into(),
                (until..=next).collect::<Vec<i64>>().into(),
            ];
            found.extend(keys(&self.one(Whose::Everybodys, (sql!("page_by_recipient"), values))?)?);
            next = until - 1;
        }
        Ok(found)
    }

    /// Those of the messages with these keys that may be seen, as a list shows them.
    fn lines_of(
        &mut self,
        whose: Whose<'_>,
        keys: &[MessageKey],
        journal: &Journal,
    ) -> Result<HashMap<MessageKey, Line>, StoreError> {
        let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
        let of_keys = |sql| (sql, vec![keys.clone().into()]);
        let asked = vec![
            of_keys(sql!("history_last")),
            of_keys(sql!("history_failure")),
            of_keys(sql!("delivery_get")),
            of_keys(sql!("message_get")),
        ];
        let found = self.read(whose, asked)?;
        let [steps, failures, words, messages] = found.as_slice() else { return Err(unanswered()) };
        let vault = &self.vault;
        let mut steps = by_key(steps, 18, |row| rows::step(vault, row))?;
        let failure =
            |row: &Row| rows::failure(vault, (rows::key(row, 0)?, rows::number::<i32, u32>(row, 2)?), row, 1);
        let mut failures = by_key(failures, 0, failure)?;
        let mut words = by_key(words, 3, |row| rows::last_word(vault, row))?;
        let line = |row: &Row| {
            let stored = rows::stored(vault, row)?;
            let key = stored.message.id.key();
            let last = steps.remove(&key);
            let state = state(&stored, last.as_ref(), journal);
            Ok(Line {
                delivery: delivery(&state, words.remove(&key)),
                updated_at: stored.updated_at(&state, last.as_ref()),
                progress: last.map_or(Progress::default(), |step| step.progress),
                message: Arc::new(stored.message),
                state,
                last_failure: failures.remove(&key).flatten(),
            })
        };
        by_key(messages, 0, line)
    }
}

/// As many answers as questions are promised.
pub(super) fn unanswered() -> StoreError {
    StoreError::Broken("a statement was not answered".into())
}

fn counted(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn keys(rows: &[Row]) -> Result<Vec<MessageKey>, StoreError> {
    rows.iter().map(|row| rows::key(row, 0)).collect()
}

/// What was found for each key, which stands in that column.
fn by_key<T>(
    rows: &[Row],
    column: usize,
    mut read: impl FnMut(&Row) -> Result<T, StoreError>,
) -> Result<HashMap<MessageKey, T>, StoreError> {
    rows.iter().map(|row| Ok((rows::key(row, column)?, read(row)?))).collect()
}

pub(super) fn journal(rows: &[Row]) -> Result<Journal, StoreError> {
    let mut journal = Journal::new();
    for row in rows {
        let (claim, at, members) = rows::journal(row)?;
        journal.extend(rows::members(members).map(|(key, _, steps)| ((key, steps), (claim, at))));
    }
    Ok(journal)
}

/// Where a message stands. What has not ended and is not being sent waits.
fn state(stored: &Stored, last: Option<&Step>, journal: &Journal) -> State {
    if let Some(state) = last.and_then(Step::state) {
        return state;
    }
    let steps = last.map_or(0, |step| step.progress.steps);
    match journal.get(&(stored.message.id.key(), steps)) {
        Some((claim, since)) => State::Sending { claim: *claim, since: *since },
        None => State::Pending { due: last.and_then(|step| step.next_due).unwrap_or(stored.due) },
    }
}

/// What a provider said later; nothing where it gave no id.
fn delivery(state: &State, word: Option<LastWord>) -> Option<LastWord> {
    word.filter(|_| matches!(state, State::Sent { receipt, .. } if receipt.provider_id.is_some()))
}

impl Reading for Reader {
    fn story(&mut self, tenant: &Tenant, id: MessageId) -> Result<Option<Story>, StoreError> {
        let key = id.key();
        let one = || vec![vec![key.0].into()];
        let asked = vec![
            (sql!("claim_find"), vec![key.0.to_le_bytes().as_slice().into()]),
            Whose::Tenant(tenant).step(),
            (sql!("history_of"), vec![key.0.into()]),
            (sql!("delivery_get"), one()),
            (sql!("revision_last"), one()),
            (sql!("message_get"), one()),
        ];
        let found = self.read(Whose::Everybodys, asked)?;
        let [sending, _, steps, words, revisions, messages] = found.as_slice() else {
            return Err(unanswered());
        };
        let stored = messages.first().map(|row| rows::stored(&self.vault, row)).transpose()?;
        let mine = |stored: &Stored| stored.message.id == id && stored.message.queue.tenant == *tenant;
        let Some(stored) = stored.filter(mine) else { return Ok(None) };
        let steps = steps.iter().map(|row| rows::step(&self.vault, row)).collect::<Result<Vec<_>, _>>()?;
        let state = state(&stored, steps.last(), &journal(sending)?);
        let word = words.first().map(|row| rows::last_word(&self.vault, row)).transpose()?;
        Ok(Some(Story {
            version: dead::version(revisions.first())?,
            deeds: steps.iter().filter_map(Step::deed).collect(),
            delivery: delivery(&state, word),
            updated_at: stored.updated_at(&state, steps.last()),
            progress: steps.last().map_or(Progress::default(), |step| step.progress),
            attempts: steps.into_iter().filter_map(Step::attempt).collect(),
            message: Arc::new(stored.message),
            state,
        }))
    }

    /// In short reads. The journal comes first: a message that is settled after that has ended, or come further than
    /// the journal says, by the time that its history is read; so every line is true of some moment of the call.
    fn page(
        &mut self,
        filter: &Filter,
        before: Option<MessageKey>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let until = filter.until.map_or(MessageKey(i64::MAX), MessageKey::at);
        let mut cursor = before.unwrap_or(until).min(until);
        let journal = journal(&self.one(Whose::Everybodys, (sql!("claim_all"), vec![]))?)?;
        let mut lines = Vec::new();
        let mut examined = 0;
        let mut chunk = limit.clamp(50, LINES_AT_ONCE);
        loop {
            chunk = chunk.min(PAGE_SCAN - examined);
            let keys = self.candidates(filter, cursor, chunk)?;
            let mut found = self.lines_of(Whose::Tenant(&filter.tenant), &keys, &journal)?;
            for key in &keys {
                cursor = *key;
                let Some(line) = found.remove(key).filter(|line| filter.matches(line)) else { continue };
                lines.push(line);
                if lines.len() == limit {
                    return Ok(Page { lines, next: Some(cursor) });
                }
            }
            examined += keys.len();
            if keys.len() < chunk {
                return Ok(Page { lines, next: None });
            }
            if examined >= PAGE_SCAN {
                return Ok(Page { lines, next: Some(cursor) });
            }
            chunk = LINES_AT_ONCE;
        }
    }

    fn lines(&mut self, ids: &[MessageId]) -> Result<Vec<Line>, StoreError> {
        let journal = journal(&self.one(Whose::Everybodys, (sql!("claim_all"), vec![]))?)?;
        let keys: BTreeSet<MessageKey> = ids.iter().map(|id| id.key()).collect();
        let keys: Vec<MessageKey> = keys.into_iter().collect();
        let mut found = HashMap::new();
        for some in keys.chunks(LINES_AT_ONCE) {
            found.extend(self.lines_of(Whose::Everybodys, some, &journal)?);
        }
        let line = |id: &MessageId| found.get(&id.key()).filter(|line| line.message.id == *id).cloned();
        Ok(ids.iter().filter_map(line).collect())
    }

    fn first(&mut self, tenant: &Tenant, given: &Idempotency) -> Result<Option<MessageId>, StoreError> {
        let digests = vec![rows::idempotency_digest(tenant, &given.key)];
        // No tenant reads the table; the digest has the tenant in it.
        let found = self.one(Whose::Everybodys, (sql!("idempotency_find"), vec![digests.into()]))?;
        let Some(row) = found.first() else { return Ok(None) };
        let same = rows::get::<Vec<u8>>(row, 3)? == given.fingerprint;
        if same { rows::id(row, 1, 2).map(Some) } else { Ok(None) }
    }

    fn underway(
        &mut self,
        tenant: &Tenant,
        within: &[ChannelName],
        until: Time,
        limit: usize,
    ) -> Result<Vec<Line>, StoreError> {
        let channels: Vec<&str> = within.iter().map(ChannelName::as_str).collect();
        let values =
            vec![tenant.as_str().into(), channels.into(), until.millis().into(), counted(limit).into()];
        // With one view, so that what is taken up meanwhile is neither missed nor seen twice.
        let asked = vec![(sql!("claim_all"), vec![]), (sql!("ready_due"), values)];
        let found = self.read(Whose::Everybodys, asked)?;
        let [claims, ready] = found.as_slice() else { return Err(unanswered()) };
        let (journal, due) = (journal(claims)?, keys(ready)?);
        let mut sending: Vec<MessageKey> = journal.keys().map(|(key, _)| *key).collect();
        sending.sort_unstable();
        let mut lines = Vec::new();
        for some in sending.chunks(LINES_AT_ONCE).chain([&due[..]]) {
            let mut found = self.lines_of(Whose::Tenant(tenant), some, &journal)?;
            let meant = |line: &Line| {
                let state = line.state.name();
                let waits = state == StateName::Pending && due.contains(&line.message.id.key());
                within.contains(&line.message.queue.channel) && (waits || state == StateName::Sending)
            };
            lines.extend(some.iter().filter_map(|key| found.remove(key)).filter(meant));
        }
        lines.truncate(limit);
        Ok(lines)
    }

    fn revisions(&mut self, tenant: &Tenant, id: MessageId) -> Result<Vec<Revision>, StoreError> {
        let values = vec![id.key().0.into(), id.nonce().into(), tenant.as_str().into()];
        let found = self.one(Whose::Tenant(tenant), (sql!("revision_of"), values))?;
        found.iter().map(|row| dead::revision(&self.vault, id.key(), row)).collect()
    }

    fn groups(&mut self, tenant: &Tenant, limit: usize) -> Result<Vec<Group>, StoreError> {
        let values = vec![tenant.as_str().into(), counted(limit).into()];
        let found = self.one(Whose::Tenant(tenant), (sql!("cause_groups"), values))?;
        found.iter().map(|row| dead::group(&self.vault, row)).collect()
    }

    fn doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError> {
        let found = self.one(Whose::Tenant(tenant), shelf::one(&self.vault, shelf, tenant, id))?;
        found.first().map(|row| shelf::read(&self.vault, shelf, row)).transpose()
    }

    fn docs(&mut self, wanted: &Wanted) -> Result<Vec<Doc>, StoreError> {
        let whose = wanted.tenant.as_ref().map_or(Whose::Everybodys, Whose::Tenant);
        let found = self.one(whose, shelf::some(&self.vault, wanted))?;
        found.iter().map(|row| shelf::read(&self.vault, wanted.shelf, row)).collect()
    }

    fn recipients(&mut self, wanted: &Roster) -> Result<Vec<Recipient>, StoreError> {
        let found = self.one(Whose::Tenant(&wanted.tenant), roster::page(wanted))?;
        found.iter().map(|row| roster::recipient(&self.vault, wanted, row)).collect()
    }

    fn seek(&mut self, seeker: &Seeker, from: Bookmark, max: usize) -> Result<Sought, StoreError> {
        self.sought(seeker, from, max)
    }

    fn tallies(&mut self) -> Result<Vec<Tally>, StoreError> {
        let found = self.one(Whose::Everybodys, (sql!("tally_all"), vec![]))?;
        found.iter().filter_map(|row| stats::tally(row).transpose()).collect()
    }

    fn stats(&mut self, wanted: &StatsWanted) -> Result<Vec<Measured>, StoreError> {
        let whose = wanted.tenant.as_ref().map_or(Whose::Everybodys, Whose::Tenant);
        let found = self.one(whose, stats::hours(wanted))?;
        found.iter().filter_map(|row| stats::measured(row).transpose()).collect()
    }

    fn learnt(&mut self, tenant: Option<&Tenant>, now: Time) -> Result<Vec<Learnt>, StoreError> {
        let whose = tenant.map_or(Whose::Everybodys, Whose::Tenant);
        learning::learnt(&self.one(whose, learning::ask_learnt(&weeks(now), tenant))?)
    }

    fn backlog(&mut self, now: Time) -> Result<Vec<Backlog>, StoreError> {
        let found = self.read(Whose::Everybodys, stats::ask_backlog(now))?;
        let [depths, late] = found.as_slice() else { return Err(unanswered()) };
        stats::backlog(depths, late)
    }

    fn audit(&mut self, mut from: u64, max: usize) -> Result<Vec<(u64, Record)>, StoreError> {
        let mut found = Vec::new();
        while found.len() < max {
            let wanted = max - found.len();
            let at_once = wanted.min(BLOCKS_AT_ONCE);
            let first = i64::try_from(from).unwrap_or(i64::MAX);
            let values =
                vec![first.into(), first.saturating_add(counted(wanted)).into(), counted(at_once).into()];
            let blocks = self.one(Whose::Everybodys, (sql!("audit_from"), values))?;
            for block in &blocks {
                let position = rows::number::<i64, u64>(block, 0)?;
                let records = audit::records(position, rows::get(block, 1)?);
                found.extend(records.filter(|(at, _)| *at >= from).take(max - found.len()));
            }
            let Some(last) = blocks.last().filter(|_| blocks.len() == at_once) else { break };
            let next = rows::number::<i64, u64>(last, 0)? + u64::from(rows::number::<i32, u32>(last, 2)?);
            if next <= from {
                break; // It is the last block, and ends before.
            }
            from = next;
        }
        Ok(found)
    }

    fn audit_of(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        before: u64,
        max: usize,
    ) -> Result<Option<Vec<(u64, Record)>>, StoreError> {
        let Some(tracks) = self.tracks(tenant, id)? else { return Ok(None) };
        search(self, id, &tracks, before, max).map(Some)
    }

    fn chain(&mut self, from: u64, max: usize) -> Result<Vec<audit::Block>, StoreError> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let (most, bytes) = (max.min(audit::PIECE_BLOCKS), audit::PIECE_BYTES);
        let values = vec![from.into(), counted(most).into(), counted(bytes).into()];
        let blocks = self.one(Whose::Everybodys, (sql!("audit_all"), values))?;
        blocks.iter().map(rows::audit_block).collect()
    }

    fn ripe(&mut self, prune: &Prune, max: usize, now: Time) -> Result<Ripe, StoreError> {
        let values = vec![prune.before(now).0.into(), counted(Prune::looks(max)).into()];
        let some = self.one(Whose::Everybodys, (sql!("prune_look"), values))?;
        prune::ripe(&some, prune, max, now)
    }

    fn blocks(&mut self) -> Result<Vec<(Place, Block)>, StoreError> {
        let found = self.one(Whose::Everybodys, (sql!("block_all"), vec![]))?;
        found.iter().map(|row| rows::block(row).map(|(place, block, _)| (place, block))).collect()
    }

    fn paused(&mut self) -> Result<Option<Pause>, StoreError> {
        let found = self.one(Whose::Everybodys, (sql!("meta_get"), vec![PAUSED.into()]))?;
        found.first().map(|row| Pause::read(rows::get(row, 0)?)).transpose()
    }

    fn template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        version: Option<u32>,
    ) -> Result<Option<TemplateVersion>, StoreError> {
        let found = self.one(Whose::Tenant(tenant), templates::one(tenant, name, version))?;
        found.first().map(templates::version).transpose()
    }

    fn templates(
        &mut self,
        tenant: &Tenant,
        after: Option<&TemplateName>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError> {
        let after = after.map_or("", TemplateName::as_str);
        let values = vec![tenant.as_str().into(), after.into(), counted(limit).into()];
        let found = self.one(Whose::Tenant(tenant), (sql!("template_latest"), values))?;
        found.iter().map(templates::version).collect()
    }

    fn template_versions(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError> {
        let asked = templates::versions(tenant, name, before, counted(limit));
        self.one(Whose::Tenant(tenant), asked)?.iter().map(templates::version).collect()
    }

    fn blob(&mut self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        let name = self.vault.blob_name(&digest);
        let found = self.one(Whose::Everybodys, (sql!("blob_get"), vec![name.as_slice().into()]))?;
        let opened = |row| rows::opened(&self.vault, &Spot::Blob(&name), row, 0);
        found.first().map(|row| opened(row).map(Arc::from)).transpose()
    }
}

#[cfg(test)]
mod tests;
