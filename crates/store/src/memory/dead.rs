//! Dead letters of the model.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, FailureReason, Message, Progress, State, StateName};
use pombo_kernel::name::Tenant;
#[cfg(feature = "planted")]
use pombo_kernel::planted::{self, Bug};
use pombo_kernel::time::Time;

use super::reader::line;
use super::{Model, Spot};
use crate::dead::{
    Act, CauseId, Deed, Edit, Edited, Group, Hastened, Revision, Ruled, Ruling, Verdicts, What, cause_of,
};
use crate::shelf::Shelved;
use crate::transition;

impl Model {
    pub(super) fn hasten(&mut self, tenant: &Tenant, id: MessageId, by: &Actor, now: Time) -> Hastened {
        let Some(row) = self.row(tenant, id) else { return Hastened::NotFound };
        let State::Pending { due } = row.state else { return Hastened::NotWaiting(row.state.name()) };
        let message = row.message.clone();
        if due > now {
            self.records.push(transition::hastened(&message, by, now));
            self.enter(&message, State::Pending { due: now });
        }
        Hastened::Done
    }

    pub(super) fn rule(&mut self, ruling: &Ruling, now: Time) -> Verdicts {
        if let Some(wish) = &ruling.with {
            let shelved = self.shelve(wish, now);
            #[cfg(feature = "planted")]
            let shelved =
                if planted::is(Bug::DocumentIgnored) { Shelved::Done { version: 0 } } else { shelved };
            if let Shelved::Conflict(found) = shelved {
                return Err(found.map(Box::new));
            }
        }
        Ok(ruling.ids.iter().map(|id| self.rule_one(ruling, *id, now)).collect())
    }

    fn rule_one(&mut self, ruling: &Ruling, id: MessageId, now: Time) -> Ruled {
        let Some(row) = self.row(&ruling.tenant, id) else { return Ruled::NotFound };
        let State::Failed { reason, .. } = row.state else { return Ruled::NotDead(row.state.name()) };
        let (by, note) = (&ruling.by, ruling.note.as_deref());
        let message = row.message.clone();
        let what = match ruling.act {
            Act::Discard => {
                self.records.push(transition::discarded(&message, by, note, now));
                self.ledger.discarded(&message.queue);
                self.give_up(&message, State::Discarded { at: now, by: by.clone() }, now);
                What::Discarded
            }
            Act::Reprocess => {
                self.reprocess(&message, reason, by, note, now);
                What::Reprocessed
            }
        };
        if let Some(row) = self.row_mut(id.key()) {
            row.deeds.push(Deed { at: now, what, by: by.clone(), note: ruling.note.clone() });
        }
        Ruled::Done
    }

    fn reprocess(
        &mut self,
        message: &Message,
        reason: FailureReason,
        by: &Actor,
        note: Option<&str>,
        now: Time,
    ) {
        let waits = self.key_is_taken(message);
        self.turns_given += 1;
        let turn = self.turns_given;
        let Some(row) = self.row_mut(message.id.key()) else { return };
        let round = row.progress.round.saturating_add(1);
        let keeps_key =
            reason == FailureReason::OutcomeUnknown && row.edited_at_step != Some(row.progress.steps);
        #[cfg(feature = "planted")]
        let keeps_key = keeps_key && !planted::is(Bug::KeyForgotten);
        let attempts = 0;
        #[cfg(feature = "planted")]
        let attempts = if planted::is(Bug::AttemptsKept) { row.progress.attempts } else { attempts };
        row.progress = Progress {
            round,
            attempts,
            crashes: 0,
            steps: row.progress.steps.saturating_add(1),
            doubtful: row.progress.doubtful,
            keyed: if keeps_key { row.progress.keyed } else { round },
        };
        let expires_at = message.expires_at.map(|at| now + at.since(row.round_since));
        #[cfg(feature = "planted")]
        let expires_at = if planted::is(Bug::DeadlineKept) { message.expires_at } else { expires_at };
        row.message = Arc::new(Message { expires_at, ..message.clone() });
        row.round_since = now;
        row.moved_at = now;
        row.delivery = None;
        #[cfg(feature = "planted")]
        let turn = if planted::is(Bug::PlaceKept) { row.turn } else { turn };
        row.turn = turn;
        row.standing = if waits { Spot::Waiting } else { Spot::Queued };
        row.state = State::Pending { due: now };
        let message = row.message.clone();
        self.records.push(transition::reprocessed(&message, round, by, note, now));
        #[cfg(feature = "planted")]
        if planted::is(Bug::RulingUnrecorded) {
            self.records.pop();
        }
        self.ledger.reprocessed(&message.queue);
        self.course_reprocessed(&message, now);
    }

    pub(super) fn edit(&mut self, edit: &Edit, now: Time) -> Edited {
        let Some(row) = self.row(&edit.tenant, edit.id) else { return Edited::NotFound };
        let (state, version) = (row.state.name(), row.version());
        if state != StateName::Failed {
            return Edited::NotDead(state);
        }
        if version != edit.version {
            return Edited::Stale { version };
        }
        let queue = self.queue(edit.queue.clone());
        self.blob_uses.extend(edit.blobs.iter().map(|blob| (blob.digest, edit.id.key())));
        self.blobs.extend(edit.blobs.iter().map(|blob| (blob.digest, blob.bytes.clone())));
        let Some(row) = self.row_mut(edit.id.key()) else { return Edited::NotFound };
        let (by, note) = (edit.by.clone(), edit.note.clone());
        let body = row.message.body.clone();
        row.revisions.push(Revision { version, body, replaced_at: now, by, note });
        row.edited_at_step = Some(row.progress.steps);
        row.message = Arc::new(Message { queue, body: edit.body.clone(), ..(*row.message).clone() });
        let message = row.message.clone();
        self.records.push(transition::edited(&message, version + 1, &edit.by, edit.note.as_deref(), now));
        Edited::Done { version: version + 1 }
    }

    pub(super) fn groups(&self, tenant: &Tenant, limit: usize) -> Vec<Group> {
        let mut groups: BTreeMap<CauseId, Group> = BTreeMap::new();
        // The oldest first, so that the newest has the last word.
        for row in self.messages.values().filter(|row| row.message.queue.tenant == *tenant) {
            let (State::Failed { at, .. }, Some(cause)) = (&row.state, cause_of(&line(row))) else {
                continue;
            };
            let group = groups.entry(cause.id).or_insert_with(|| Group {
                id: cause.id,
                channel: row.message.queue.channel.clone(),
                category: cause.category,
                text: cause.text,
                count: 0,
                newest: row.message.id,
                last_at: *at,
                first_at: *at,
            });
            (group.newest, group.last_at) = (row.message.id, *at);
            group.count += 1;
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| (Reverse(group.count), group.id));
        groups.truncate(limit);
        groups
    }
}
