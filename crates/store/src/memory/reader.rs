//! Reading the model: always its last committed state.

use std::sync::{Arc, Mutex};

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::Block;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::State;
use pombo_kernel::name::{ChannelName, TemplateName, Tenant};
use pombo_kernel::time::Time;

use super::{Model, Row, Spot, locked};
use crate::audit::{self, Record, Tip};
use crate::core::Reading;
use crate::dead::{Group, Revision};
use crate::roster::{Recipient, Roster};
use crate::shelf::{Doc, Shelf, Wanted};
use crate::{Filter, Line, PAGE_SCAN, Page, Pause, Place, StoreError, Story, Tally, TemplateVersion};

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
        let found =
            |id: &MessageId| model.messages.get(&id.key()).filter(|row| row.message.id == *id).map(line);
        Ok(ids.iter().filter_map(found).collect())
    }

    fn underway(
        &mut self,
        tenant: &Tenant,
        within: &[ChannelName],
        until: Time,
        limit: usize,
    ) -> Result<Vec<Line>, StoreError> {
        let model = locked(&self.committed);
        let own = |row: &&Row| {
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

    fn tallies(&mut self) -> Result<Vec<Tally>, StoreError> {
        let model = locked(&self.committed);
        let tally = |((tenant, channel, what), count): (&(_, _, _), &u64)| Tally {
            tenant: Tenant::clone(tenant),
            channel: ChannelName::clone(channel),
            what: *what,
            count: *count,
        };
        Ok(model.tallies.iter().map(tally).collect())
    }

    fn audit(&mut self, from: u64, max: usize) -> Result<Vec<(u64, Record)>, StoreError> {
        let model = locked(&self.committed);
        let records = model.chain.iter().flat_map(|block| audit::records(block.position, &block.entries));
        Ok(records.filter(|(position, _)| *position >= from).take(max).collect())
    }

    fn verify(&mut self) -> Result<audit::Verified, StoreError> {
        let model = locked(&self.committed);
        let mut tip = Tip::default();
        for block in &model.chain {
            match tip.follow(block) {
                Ok(next) => tip = next,
                Err(broken) => {
                    let (blocks, records) = (tip.sequence, tip.position);
                    return Ok(audit::Verified { blocks, records, broken: Some(broken) });
                }
            }
        }
        Ok(audit::Verified { blocks: tip.sequence, records: tip.position, broken: None })
    }

    fn paused(&mut self) -> Result<Option<Pause>, StoreError> {
        Ok(locked(&self.committed).paused.clone())
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
