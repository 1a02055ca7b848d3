//! Reading the model: always its last committed state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::Block;
use pombo_kernel::erasure::{Bookmark, Seeker};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Idempotency, State};
use pombo_kernel::name::{ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::time::Time;

use super::{CounterKey, Model, Row, Spot, locked};
use crate::audit::{self, Record};
use crate::core::Reading;
use crate::dead::{Group, Revision};
use crate::erase::Sought;
use crate::learning::{Learnt, weeks};
use crate::prune::{Prune, Ripe};
use crate::roster::{Recipient, Roster};
use crate::shelf::{Doc, Shelf, Wanted};
use crate::stats::{self, PAST_DUE_SEEN, Sum};
use crate::{
    Backlog, Counted, Filter, Line, Measured, PAGE_SCAN, Page, Pause, Place, StatsWanted, StoreError, Story,
    Tally, TemplateVersion,
};

#[derive(Clone, Debug)]
pub struct MemoryReader {
    committed: Arc<Mutex<Model>>,
}

impl MemoryReader {
    pub(super) fn of(committed: Arc<Mutex<Model>>) -> MemoryReader {
        MemoryReader { committed }
    }

    pub(super) fn committed(&self) -> Arc<Mutex<Model>> {
        self.committed.clone()
    }
}

impl Reading for MemoryReader {
    fn story(&mut self, tenant: &Tenant, id: MessageId) -> Result<Option<Story>, StoreError> {
        let model = locked(&self.committed);
        Ok(model.row(tenant, id).map(|row| Story {
            message: row.message.clone(),
            state: row.state.clone(),
            progress: row.progress,
            updated_at: row.updated_at(),
            attempts: row.attempts.clone(),
            delivery: row.delivery.clone(),
            version: row.version(),
            deeds: row.deeds.clone(),
        }))
    }

    fn page(
        &mut self,
        filter: &Filter,
        before: Option<MessageKey>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let model = locked(&self.committed);
        let mut left = model.messages.iter().rev().filter(|(key, row)| {
            row.message.queue.tenant == filter.tenant && before.is_none_or(|before| **key < before)
        });
        let mut page = Page { lines: Vec::new(), next: None };
        for (key, row) in left.by_ref().take(PAGE_SCAN) {
            let line = line(row);
            if filter.matches(&line) {
                page.lines.push(line);
            }
            page.next = Some(*key);
            if page.lines.len() >= limit {
                break;
            }
        }
        if left.next().is_none() {
            page.next = None;
        }
        Ok(page)
    }

    fn lines(&mut self, ids: &[MessageId]) -> Result<Vec<Line>, StoreError> {
        let model = locked(&self.committed);
        let found = |id: &MessageId| {
            model.messages.get(&id.key()).filter(|row| row.message.id == *id).map(|row| line(row))
        };
        Ok(ids.iter().filter_map(found).collect())
    }

    fn first(&mut self, tenant: &Tenant, given: &Idempotency) -> Result<Option<MessageId>, StoreError> {
        let model = locked(&self.committed);
        let found = model.idempotency.get(&(tenant.clone(), given.key.clone()));
        Ok(found.filter(|(fingerprint, _)| *fingerprint == given.fingerprint).map(|(_, id)| *id))
    }

    fn underway(
        &mut self,
        tenant: &Tenant,
        within: &[ChannelName],
        until: Time,
        limit: usize,
    ) -> Result<Vec<Line>, StoreError> {
        let model = locked(&self.committed);
        let own = |row: &&Arc<Row>| {
            let queue = &row.message.queue;
            queue.tenant == *tenant && within.contains(&queue.channel) && row.standing == Spot::Queued
        };
        let place = |row: &Row| match row.state {
            State::Sending { .. } => Some((None, row.message.id.key())),
            State::Pending { due } if due <= until => Some((Some(due), row.message.id.key())),
            _ => None,
        };
        let mut found: Vec<_> =
            model.messages.values().filter(own).filter_map(|row| Some((place(row)?, line(row)))).collect();
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().take(limit).map(|(_, line)| line).collect())
    }

    fn revisions(&mut self, tenant: &Tenant, id: MessageId) -> Result<Vec<Revision>, StoreError> {
        let model = locked(&self.committed);
        Ok(model.row(tenant, id).map(|row| row.revisions.clone()).unwrap_or_default())
    }

    fn groups(&mut self, tenant: &Tenant, limit: usize) -> Result<Vec<Group>, StoreError> {
        Ok(locked(&self.committed).groups(tenant, limit))
    }

    fn doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError> {
        let place = (shelf, tenant.clone(), id.to_owned());
        Ok(locked(&self.committed).docs.get(&place).cloned())
    }

    fn docs(&mut self, wanted: &Wanted) -> Result<Vec<Doc>, StoreError> {
        Ok(locked(&self.committed).wanted(wanted))
    }

    fn recipients(&mut self, roster: &Roster) -> Result<Vec<Recipient>, StoreError> {
        Ok(locked(&self.committed).recipients(roster))
    }

    fn seek(&mut self, seeker: &Seeker, from: Bookmark, max: usize) -> Result<Sought, StoreError> {
        Ok(locked(&self.committed).seek(seeker, from, max))
    }

    fn tallies(&mut self) -> Result<Vec<Tally>, StoreError> {
        let model = locked(&self.committed);
        let counted = model.counters.iter().filter_map(|((hour, tenant, channel, what, _), sum)| {
            let channel = channel.clone().filter(|_| *hour == 0 && Counted::ALL.contains(what))?;
            Some(Tally { tenant: tenant.clone(), channel, what: *what, count: sum.count.unsigned_abs() })
        });
        Ok(counted.collect())
    }

    fn stats(&mut self, wanted: &StatsWanted) -> Result<Vec<Measured>, StoreError> {
        let model = locked(&self.committed);
        let (from, until) = wanted.hours();
        let measured = model.counters.iter().filter_map(|((hour, tenant, channel, what, detail), sum)| {
            let is_wanted = (from..until).contains(hour)
                && !what.is_lesson()
                && wanted.tenant.as_ref().is_none_or(|wanted| wanted == tenant);
            is_wanted.then(|| Measured {
                hour: stats::start_of(*hour),
                tenant: tenant.clone(),
                channel: channel.clone(),
                what: *what,
                detail: detail.clone(),
                count: sum.count,
                sum: sum.ms,
            })
        });
        let Some(pieces) = wanted.pieces() else { return Ok(measured.collect()) };
        let mut summed: BTreeMap<Measured, (i64, i64)> = BTreeMap::new();
        for it in measured {
            let place = pieces.partition_point(|first| *first <= it.hour.hour()).saturating_sub(1);
            let piece = Measured { hour: stats::start_of(pieces[place]), count: 0, sum: 0, ..it.clone() };
            let (count, sum) = summed.entry(piece).or_default();
            (*count, *sum) = (*count + it.count, *sum + it.sum);
        }
        Ok(summed.into_iter().map(|(piece, (count, sum))| Measured { count, sum, ..piece }).collect())
    }

    fn learnt(&mut self, tenant: Option<&Tenant>, now: Time) -> Result<Vec<Learnt>, StoreError> {
        Ok(locked(&self.committed).learnt(&weeks(now), tenant))
    }

    fn backlog(&mut self, now: Time) -> Result<Vec<Backlog>, StoreError> {
        let model = locked(&self.committed);
        let of_all = |((_, tenant, channel, what, lane), sum): (&CounterKey, &Sum)| {
            let channel = channel.clone().filter(|_| *what == Counted::Waiting && sum.count > 0)?;
            let lane: LaneName = lane.parse().ok()?;
            let late = model.queued().filter(|(message, due)| {
                let queue = &message.queue;
                *due <= now
                    && queue.campaign.is_none()
                    && (&queue.tenant, &queue.lane, &queue.channel) == (tenant, &lane, &channel)
            });
            let late: Vec<Time> = late.map(|(_, due)| due).collect();
            Some(Backlog {
                tenant: tenant.clone(),
                waiting: sum.count.unsigned_abs(),
                past_due: (late.len() as u64).min(PAST_DUE_SEEN),
                oldest_due: late.into_iter().min(),
                lane,
                channel,
            })
        };
        let mut all: Vec<Backlog> = model.counters.iter().filter_map(of_all).collect();
        all.sort();
        Ok(all)
    }

    fn audit(&mut self, from: u64, max: usize) -> Result<Vec<(u64, Record)>, StoreError> {
        let model = locked(&self.committed);
        let blocks = model.chain.iter().filter(|block| block.position + u64::from(block.count) > from);
        let records = blocks.flat_map(|block| audit::records(block.position, &block.entries));
        Ok(records.filter(|(position, _)| *position >= from).take(max).collect())
    }

    fn audit_of(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        before: u64,
        max: usize,
    ) -> Result<Option<Vec<(u64, Record)>>, StoreError> {
        let model = locked(&self.committed);
        if model.row(tenant, id).is_none() {
            return Ok(None);
        }
        let blocks = model.chain.iter().filter(|block| block.position < before).rev();
        let records = blocks.flat_map(|block| {
            let own: Vec<_> = audit::records_of(block.position, &block.entries, id).collect();
            own.into_iter().rev()
        });
        Ok(Some(records.filter(|(position, _)| *position < before).take(max).collect()))
    }

    fn chain(&mut self, from: u64, max: usize) -> Result<Vec<audit::Block>, StoreError> {
        let model = locked(&self.committed);
        let blocks = model.chain.iter().filter(|block| block.sequence >= from);
        Ok(blocks.take(max.min(audit::PIECE_BLOCKS)).map(|block| (**block).clone()).collect())
    }

    fn paused(&mut self) -> Result<Option<Pause>, StoreError> {
        Ok(locked(&self.committed).paused.clone())
    }

    fn ripe(&mut self, prune: &Prune, max: usize, now: Time) -> Result<Ripe, StoreError> {
        Ok(locked(&self.committed).ripe(prune, max, now))
    }

    fn blocks(&mut self) -> Result<Vec<(Place, Block)>, StoreError> {
        let model = locked(&self.committed);
        Ok(model.blocks.iter().map(|(place, block)| (place.clone(), block.clone())).collect())
    }

    fn template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        version: Option<u32>,
    ) -> Result<Option<TemplateVersion>, StoreError> {
        let model = locked(&self.committed);
        let versions = model.versions(tenant, name);
        Ok(match version {
            None => versions.last().cloned(),
            Some(version) => versions.iter().find(|it| it.version == version).cloned(),
        })
    }

    fn templates(
        &mut self,
        tenant: &Tenant,
        after: Option<&TemplateName>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError> {
        let model = locked(&self.committed);
        let own = model
            .templates
            .iter()
            .filter(|((whose, name), _)| whose == tenant && after.is_none_or(|after| name > after));
        Ok(own.filter_map(|(_, versions)| versions.last().cloned()).take(limit).collect())
    }

    fn template_versions(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError> {
        let model = locked(&self.committed);
        let older = model.versions(tenant, name).iter().rev();
        let older = older.filter(|it| before.is_none_or(|before| it.version < before));
        Ok(older.take(limit).cloned().collect())
    }

    fn blob(&mut self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(locked(&self.committed).blobs.get(&digest).cloned())
    }
}

pub(super) fn line(row: &Row) -> Line {
    Line {
        message: row.message.clone(),
        state: row.state.clone(),
        progress: row.progress,
        updated_at: row.updated_at(),
        last_failure: row.attempts.iter().rev().find_map(|attempt| attempt.failure.clone()),
        delivery: row.delivery.clone(),
    }
}
