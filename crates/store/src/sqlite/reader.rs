//! Reading beside the writer, on a connection of its own: a slow reader never holds up a send.

use std::path::Path;
use std::sync::Arc;

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::Block;
use pombo_kernel::delivery::LastWord;
use pombo_kernel::erasure::{Bookmark, Seeker};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Idempotency, Progress, State, StateName};
use pombo_kernel::name::{ChannelName, TemplateName, Tenant};
use pombo_kernel::time::Time;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::file::Db;
use super::rows::{self, Step, Stored};
use super::{dead, directory, erase, learning, moving, prune, roster, shelf, sql, stats, templates, tracks};
use crate::audit::{self, Record};
use crate::board::{QueueId, TRIED, rank};
use crate::core::{Over, Reading};
use crate::dead::{Group, Revision};
use crate::erase::Sought;
use crate::learning::{Learnt, weeks};
use crate::prune::{Prune, Ripe};
use crate::roster::{Recipient, Roster};
use crate::shelf::{Doc, Shelf, Wanted};
use crate::tracks::search;
use crate::vault::Vault;
use crate::{
    Backlog, Filter, Line, Measured, PAGE_SCAN, Page, Pause, Place, StatsWanted, StoreError, Story, Tally,
    TemplateVersion,
};

#[derive(Debug)]
pub struct Reader {
    db: Db,
}

impl Reader {
    pub(super) fn open(path: &Path, vault: Vault) -> Result<Reader, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.set_prepared_statement_cache_capacity(64);
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        db.execute_batch("PRAGMA cache_size = -4096; PRAGMA busy_timeout = 2000; PRAGMA query_only = ON;")?;
        Ok(Reader { db: Db::new(db, vault) })
    }

    /// Reads with one view of the file, whatever the writer does meanwhile.
    fn at_once<T>(&mut self, read: impl FnOnce(&Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.db.prepare_cached("BEGIN")?.execute([])?;
        let result = read(self);
        let ended = self.db.prepare_cached("COMMIT")?.execute([]);
        let result = result?;
        ended?;
        Ok(result)
    }

    fn state(&self, stored: &Stored, last: Option<&Step>) -> Result<State, StoreError> {
        if let Some(state) = last.and_then(Step::state) {
            return Ok(state);
        }
        let message = &stored.message;
        let key = message.id.key();
        let due = last.and_then(|step| step.next_due).unwrap_or(stored.due);
        let place = params![stored.queue, rank(message.priority), due.millis(), key.0];
        let ready = self.db.prepare_cached(sql!("ready_has"))?.exists(place)?;
        if ready || self.waits_in_order(stored)? {
            return Ok(State::Pending { due });
        }
        let mut sending = None;
        for (claim, _, at, members) in rows::journal(&self.db)? {
            if rows::members(&members).any(|(member, _, _)| member == key) {
                sending = Some(State::Sending { claim, since: at });
            }
        }
        sending.ok_or_else(|| StoreError::Broken(format!("message {} is nowhere", message.id)))
    }

    /// What a provider said later; there is nothing to look for where it gave no id.
    fn delivery(&self, key: MessageKey, state: &State) -> Result<Option<LastWord>, StoreError> {
        match state {
            State::Sent { receipt, .. } if receipt.provider_id.is_some() => rows::delivery(&self.db, key),
            _ => Ok(None),
        }
    }

    fn waits_in_order(&self, stored: &Stored) -> Result<bool, StoreError> {
        let Some(ordering_key) = &stored.message.ordering_key else { return Ok(false) };
        let place = params![stored.message.queue.tenant.as_str(), ordering_key, stored.message.id.key().0];
        let active =
            self.db.prepare_cached(sql!("ordered_active"))?.query_row(place, |row| row.get(0)).optional()?;
        Ok(active == Some(false))
    }

    fn line(&self, key: MessageKey) -> Result<Option<Line>, StoreError> {
        let Some(stored) = rows::stored(&self.db, key)? else { return Ok(None) };
        let last = rows::last_step(&self.db, key)?;
        let state = self.state(&stored, last.as_ref())?;
        let mut last_failure = last.as_ref().and_then(|step| step.failure.clone());
        if last_failure.is_none() && last.as_ref().is_some_and(|step| step.progress.steps > 1) {
            last_failure = rows::history(&self.db, key)?.into_iter().rev().find_map(|step| step.failure);
        }
        Ok(Some(Line {
            delivery: self.delivery(key, &state)?,
            updated_at: stored.updated_at(&state, last.as_ref()),
            progress: last.map_or(Progress::default(), |step| step.progress),
            message: Arc::new(stored.message),
            state,
            last_failure,
        }))
    }

    /// What waits in these channels and is due, whoever has waited longest first.
    fn due(
        &self,
        tenant: &Tenant,
        within: &[ChannelName],
        until: Time,
        limit: usize,
    ) -> Result<Vec<MessageKey>, StoreError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut queues = self.db.prepare_cached(sql!("queue_of"))?;
        let mut ready = self.db.prepare_cached(sql!("ready_due"))?;
        let mut found: Vec<(i64, MessageKey)> = Vec::new();
        for channel in within {
            let ids = queues.query_map(params![tenant.as_str(), channel.as_str()], |row| row.get(0))?;
            for queue in ids.collect::<Result<Vec<QueueId>, _>>()? {
                for rank in 0..2 * TRIED {
                    let rows = ready.query_map(params![queue, rank, until.millis(), most], |row| {
                        Ok((row.get(0)?, MessageKey(row.get(1)?)))
                    })?;
                    found.extend(rows.collect::<Result<Vec<_>, _>>()?);
                }
                found.sort_unstable();
                found.truncate(limit);
            }
        }
        Ok(found.into_iter().map(|(_, key)| key).collect())
    }

    /// Keys that may match, newest first, and whether there may be more.
    fn candidates(
        &self,
        filter: &Filter,
        before: MessageKey,
        limit: usize,
    ) -> Result<Candidates, StoreError> {
        let since = filter.since.map_or(MessageKey(0), MessageKey::at);
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> Result<Vec<MessageKey>, StoreError> {
            let mut statement = self.db.prepare_cached(sql)?;
            let keys = statement.query_map(params, |row| Ok(MessageKey(row.get(0)?)))?;
            Ok(keys.collect::<Result<_, _>>()?)
        };
        let keys = if let Some(reference) = &filter.reference {
            read(sql!("page_by_reference"), &[&before.0, &since.0, &most, reference])?
        } else if let Some(recipient) = &filter.recipient {
            let hash = self.db.vault.hash(filter.tenant.as_str(), recipient);
            directory::find(&self.db, hash, (since, before), limit)?
        } else if let Some(cause) = filter.cause {
            read(sql!("page_by_cause"), &[&before.0, &since.0, &most, &cause.0])?
        } else if filter.state == Some(StateName::Failed) {
            read(sql!("page_dead"), &[&before.0, &since.0, &most])?
        } else {
            read(sql!("page_newest"), &[&before.0, &since.0, &most])?
        };
        let more = keys.len() >= limit;
        Ok(Candidates { keys, more })
    }
}

struct Candidates {
    keys: Vec<MessageKey>,
    more: bool,
}

impl Reading for Reader {
    fn end_when(&mut self, over: Over) {
        // It fails for want of memory only, and then the read goes without.
        let _ = self.db.end_when(Some(over));
    }

    fn rest(&mut self) {
        let _ = self.db.end_when(None);
        // The word that ends a view can be cut off like any other.
        if !self.db.is_autocommit() {
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }

    fn story(&mut self, tenant: &Tenant, id: MessageId) -> Result<Option<Story>, StoreError> {
        self.at_once(|reader| {
            let found = rows::stored(&reader.db, id.key())?
                .filter(|stored| stored.message.id == id && stored.message.queue.tenant == *tenant);
            let Some(stored) = found else { return Ok(None) };
            let steps = rows::history(&reader.db, id.key())?;
            let state = reader.state(&stored, steps.last())?;
            Ok(Some(Story {
                version: dead::version(&reader.db, id.key())?,
                deeds: steps.iter().filter_map(Step::deed).collect(),
                delivery: reader.delivery(id.key(), &state)?,
                updated_at: stored.updated_at(&state, steps.last()),
                progress: steps.last().map_or(Progress::default(), |step| step.progress),
                attempts: steps.into_iter().filter_map(Step::attempt).collect(),
                message: Arc::new(stored.message),
                state,
            }))
        })
    }

    fn page(
        &mut self,
        filter: &Filter,
        before: Option<MessageKey>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let until = filter.until.map_or(MessageKey(i64::MAX), MessageKey::at);
        let mut cursor = before.unwrap_or(until).min(until);
        self.at_once(|reader| {
            let mut lines = Vec::new();
            let mut examined = 0;
            loop {
                let chunk = limit.clamp(50, 500).min(PAGE_SCAN - examined);
                let Candidates { keys, more } = reader.candidates(filter, cursor, chunk)?;
                for key in &keys {
                    cursor = *key;
                    examined += 1;
                    let Some(line) = reader.line(*key)?.filter(|line| filter.matches(line)) else { continue };
                    lines.push(line);
                    if lines.len() == limit {
                        return Ok(Page { lines, next: Some(cursor) });
                    }
                }
                if !more {
                    return Ok(Page { lines, next: None });
                }
                if examined >= PAGE_SCAN {
                    return Ok(Page { lines, next: Some(cursor) });
                }
            }
        })
    }

    fn lines(&mut self, ids: &[MessageId]) -> Result<Vec<Line>, StoreError> {
        self.at_once(|reader| {
            let found = |id: &MessageId| {
                Ok::<_, StoreError>(reader.line(id.key())?.filter(|line| line.message.id == *id))
            };
            ids.iter().filter_map(|id| found(id).transpose()).collect()
        })
    }

    fn first(&mut self, tenant: &Tenant, given: &Idempotency) -> Result<Option<MessageId>, StoreError> {
        let mut statement = self.db.prepare_cached(sql!("find_idempotency"))?;
        let found = statement.query_row(params![tenant.as_str(), given.key], |row| {
            Ok((rows::id(row, 0, 1)?, row.get::<_, Vec<u8>>(2)?))
        });
        Ok(found.optional()?.filter(|(_, fingerprint)| *fingerprint == given.fingerprint).map(|(id, _)| id))
    }

    fn underway(
        &mut self,
        tenant: &Tenant,
        within: &[ChannelName],
        until: Time,
        limit: usize,
    ) -> Result<Vec<Line>, StoreError> {
        self.at_once(|reader| {
            let mut keys: Vec<MessageKey> = Vec::new();
            for (_, _, _, members) in rows::journal(&reader.db)? {
                keys.extend(rows::members(&members).map(|(key, _, _)| key));
            }
            keys.sort_unstable();
            let mut lines = Vec::new();
            for key in keys {
                let sending = |line: &Line| {
                    let queue = &line.message.queue;
                    let own = queue.tenant == *tenant && within.contains(&queue.channel);
                    own && line.state.name() == StateName::Sending
                };
                lines.extend(reader.line(key)?.filter(sending));
                if lines.len() == limit {
                    return Ok(lines);
                }
            }
            for key in reader.due(tenant, within, until, limit - lines.len())? {
                lines.extend(reader.line(key)?);
            }
            Ok(lines)
        })
    }

    fn revisions(&mut self, tenant: &Tenant, id: MessageId) -> Result<Vec<Revision>, StoreError> {
        dead::revisions(&self.db, tenant, id)
    }

    fn groups(&mut self, tenant: &Tenant, limit: usize) -> Result<Vec<Group>, StoreError> {
        self.at_once(|reader| dead::groups(&reader.db, tenant, limit))
    }

    fn doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError> {
        shelf::one(&self.db, shelf, tenant, id)
    }

    fn docs(&mut self, wanted: &Wanted) -> Result<Vec<Doc>, StoreError> {
        shelf::some(&self.db, wanted)
    }

    fn recipients(&mut self, roster: &Roster) -> Result<Vec<Recipient>, StoreError> {
        roster::page(&self.db, roster)
    }

    fn seek(&mut self, seeker: &Seeker, from: Bookmark, max: usize) -> Result<Sought, StoreError> {
        erase::seek(&self.db, seeker, from, max)
    }

    fn tallies(&mut self) -> Result<Vec<Tally>, StoreError> {
        stats::tallies(&self.db)
    }

    fn stats(&mut self, wanted: &StatsWanted) -> Result<Vec<Measured>, StoreError> {
        stats::hours(&self.db, wanted)
    }

    fn learnt(&mut self, tenant: Option<&Tenant>, now: Time) -> Result<Vec<Learnt>, StoreError> {
        self.at_once(|reader| learning::learnt(&reader.db, &weeks(now), tenant))
    }

    fn backlog(&mut self, now: Time) -> Result<Vec<Backlog>, StoreError> {
        self.at_once(|reader| stats::backlog(&reader.db, now))
    }

    fn audit(&mut self, from: u64, max: usize) -> Result<Vec<(u64, Record)>, StoreError> {
        let mut statement = self.db.prepare_cached(sql!("audit_from"))?;
        let mut blocks = statement.query([i64::try_from(from).unwrap_or(i64::MAX)])?;
        let mut found = Vec::new();
        while let Some(row) = blocks.next()? {
            let position: i64 = row.get(0)?;
            let entries = row.get_ref(1)?.as_blob().map_err(|error| StoreError::Broken(error.to_string()))?;
            let records =
                audit::records(position.unsigned_abs(), entries).filter(|(position, _)| *position >= from);
            found.extend(records.take(max - found.len()));
            if found.len() == max {
                break;
            }
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
        self.at_once(|reader| {
            let Some(tracks) = tracks::of(&reader.db, tenant, id)? else { return Ok(None) };
            search(&mut tracks::Blocks(&reader.db), id, &tracks, before, max).map(Some)
        })
    }

    fn chain(&mut self, from: u64, max: usize) -> Result<Vec<audit::Block>, StoreError> {
        rows::audit_blocks(&self.db, from, max.min(audit::PIECE_BLOCKS))
    }

    fn paused(&mut self) -> Result<Option<Pause>, StoreError> {
        moving::paused(&self.db)
    }

    fn ripe(&mut self, prune: &Prune, max: usize, now: Time) -> Result<Ripe, StoreError> {
        prune::ripe(&self.db, prune, max, now)
    }

    fn blocks(&mut self) -> Result<Vec<(Place, Block)>, StoreError> {
        rows::blocks(&self.db)
    }

    fn template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        version: Option<u32>,
    ) -> Result<Option<TemplateVersion>, StoreError> {
        templates::one(&self.db, tenant, name, version)
    }

    fn templates(
        &mut self,
        tenant: &Tenant,
        after: Option<&TemplateName>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError> {
        templates::latest(&self.db, tenant, after, limit)
    }

    fn template_versions(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError> {
        templates::versions(&self.db, tenant, name, before, limit)
    }

    fn blob(&mut self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        templates::blob(&self.db, digest)
    }
}
