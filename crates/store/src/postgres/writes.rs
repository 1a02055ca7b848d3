//! What a group writes, gathered so that each table is told once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{AttemptOutcome, ClaimId, Draft, FailureReason, Message, Progress, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};

use super::link::Step;
use super::{rows, sql};
use crate::board::QueueId;
use crate::dead::Cause;
use crate::vault::{Spot, Vault};
use crate::{NodeId, StoreError};

#[derive(Debug)]
pub(super) struct Writes {
    vault: Arc<Vault>,
    messages: Messages,
    plain_messages: PlainMessages,
    history: History,
    plain_history: PlainHistory,
    pub(super) ready: Ready,
    pub(super) claims: Claims,
    pub(super) settled_claims: Vec<i64>,
    /// Journal rows that lost members, and what is left of each.
    pub(super) shrunk: HashMap<ClaimId, Vec<u8>>,
    pub(super) deadlines: Pairs,
    pub(super) void_deadlines: Pairs,
    pub(super) ordered: Ordered,
    pub(super) receipts: Receipts,
    pub(super) letters: Letters,
    /// Causes of those letters, by their ids: tenant, channel, category, text.
    pub(super) causes: BTreeMap<i64, [String; 4]>,
}

/// A row of `history`.
pub(super) struct Row<'a> {
    pub(super) key: MessageKey,
    pub(super) tenant: &'a Tenant,
    pub(super) seq: u32,
    pub(super) outcome: u8,
    pub(super) number: u16,
    pub(super) progress: Progress,
    pub(super) started_at: Time,
    pub(super) finished_at: Time,
    pub(super) reason: Option<FailureReason>,
    pub(super) next_due: Option<Time>,
    pub(super) delay: Option<Span>,
    pub(super) failure: Option<String>,
    pub(super) receipt: Option<String>,
    pub(super) explanation: Option<&'a str>,
    pub(super) policy: Option<&'a str>,
    pub(super) actor: Option<&'a str>,
}

impl<'a> Row<'a> {
    /// What happens now to a message that has come so far, without an attempt.
    pub(super) fn of(message: &'a Message, outcome: u8, progress: Progress, now: Time) -> Row<'a> {
        Row {
            key: message.id.key(),
            tenant: &message.queue.tenant,
            seq: progress.steps,
            outcome,
            number: 0,
            progress,
            started_at: now,
            finished_at: now,
            reason: None,
            next_due: None,
            delay: None,
            failure: None,
            receipt: None,
            explanation: None,
            policy: None,
            actor: None,
        }
    }

    /// Whether the message was sent at the first attempt, as most are, and nothing more is to be said of it.
    fn is_plain(&self) -> bool {
        let first = Progress { attempts: 1, steps: 1, ..Progress::default() };
        let sent = self.outcome == AttemptOutcome::Sent.code() && self.seq == 0 && self.number == 1;
        let comes_back = self.next_due.is_some() || self.delay.is_some();
        let failed = self.reason.is_some() || self.failure.is_some();
        let said = self.explanation.is_some() || self.policy.is_some() || self.actor.is_some();
        sent && self.progress == first && !comes_back && !failed && !said
    }
}

/// Columns of one table. Taking them leaves none behind.
macro_rules! columns {
    ($(#[$doc:meta])* $name:ident, $sql:literal, $first:ident { $($column:ident: $type:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name { $($column: Vec<$type>,)+ }

        impl $name {
            pub(super) fn is_empty(&self) -> bool {
                self.$first.is_empty()
            }

            #[allow(dead_code, reason = "of some it does not matter")]
            fn len(&self) -> usize {
                self.$first.len()
            }

            fn take(&mut self, sql: &'static str, steps: &mut Vec<Step>) {
                if !self.is_empty() {
                    steps.push((sql, vec![$(std::mem::take(&mut self.$column).into(),)+]));
                }
            }

            #[allow(dead_code, reason = "some tables have two statements and name each")]
            fn insert(&mut self, steps: &mut Vec<Step>) {
                self.take(sql!($sql), steps);
            }
        }
    };
}

columns!(Messages, "message_insert", key {
    key: i64, nonce: i64, queue: i64, priority: i16, due: i64, send_at: Option<i64>, expires_at: Option<i64>,
    recipient: i64, referred: Option<i64>, tenant: String, ordering_key: Option<String>, kind: Option<String>,
    template: Option<String>, reference: Option<String>, body: Vec<u8>,
});
columns!(History, "history_insert", key {
    key: i64, started_at: i64, finished_at: i64, next_due: Option<i64>, delay: Option<i64>, seq: i32,
    outcome: i16, round: i16, number: i16, attempts: i16, crashes: i16, reason: Option<i16>, doubtful: bool,
    tenant: String, failure: Option<String>, receipt: Option<String>, explanation: Option<String>,
    policy: Option<String>, actor: Option<String>, keyed: i16, reprocessed_by: Option<String>,
});
columns!(
    /// Messages that say nothing but what every one must: fewer columns cost the server less.
    PlainMessages, "message_insert_plain", key {
    key: i64, nonce: i64, queue: i64, priority: i16, due: i64, recipient: i64, tenant: String, body: Vec<u8>,
});
columns!(
    /// First attempts that ended well, of which there is nothing to be said. The statement has the rest of their columns.
    PlainHistory, "history_insert_plain", key {
    key: i64, started_at: i64, finished_at: i64, tenant: String, receipt: Option<String>,
});
columns!(Ready, "ready_insert", key { queue: i64, rank: i16, due: i64, key: i64, steps: i32 });
columns!(Claims, "claim_insert", id { id: i64, node: i64, at: i64, members: Vec<u8>, });
columns!(Pairs, "expiry_insert", at { at: i64, key: i64 });
columns!(Receipts, "receipt_put", key { slice: i64, hash: i64, key: i64 });
columns!(Letters, "dead_insert", key { key: i64, cause: i64, tenant: String });
columns!(Ordered, "ordered_insert", key { digest: Vec<u8>, key: i64, active: bool, });

/// Numbers that PostgreSQL has only with a sign. Those beyond are cut: none of ours come near.
fn small(number: u16) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

fn steps_of(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Writes {
    pub(super) fn new(vault: Arc<Vault>) -> Writes {
        Writes {
            vault,
            messages: Messages::default(),
            plain_messages: PlainMessages::default(),
            history: History::default(),
            plain_history: PlainHistory::default(),
            ready: Ready::default(),
            claims: Claims::default(),
            settled_claims: Vec::new(),
            shrunk: HashMap::new(),
            deadlines: Pairs::default(),
            void_deadlines: Pairs::default(),
            ordered: Ordered::default(),
            receipts: Receipts::default(),
            letters: Letters::default(),
            causes: BTreeMap::new(),
        }
    }

    pub(super) fn message(
        &mut self,
        message: &Message,
        draft: &Draft,
        queue: QueueId,
        due: Time,
        hashes: (i64, Option<i64>),
    ) -> Result<(), StoreError> {
        let (tenant, of) = (message.queue.tenant.as_str().to_owned(), &message.body);
        let (body, priority) =
            (rows::body(&self.vault, message.id.key(), &draft.body)?, i16::from(message.priority.get()));
        let times = message.send_at.is_none() && message.expires_at.is_none();
        let words = message.ordering_key.is_none() && of.kind.is_none() && of.template.is_none();
        if times && words && of.reference.is_none() {
            let into = &mut self.plain_messages;
            into.key.push(message.id.key().0);
            into.nonce.push(message.id.nonce());
            into.queue.push(queue);
            into.priority.push(priority);
            into.due.push(due.millis());
            into.recipient.push(hashes.0);
            into.tenant.push(tenant);
            into.body.push(body);
            return Ok(());
        }
        let text = |text: &Option<String>| text.as_deref().map(rows::escaped);
        let into = &mut self.messages;
        into.key.push(message.id.key().0);
        into.nonce.push(message.id.nonce());
        into.queue.push(queue);
        into.priority.push(priority);
        into.due.push(due.millis());
        into.send_at.push(message.send_at.map(Time::millis));
        into.expires_at.push(message.expires_at.map(Time::millis));
        into.recipient.push(hashes.0);
        into.referred.push(hashes.1);
        into.tenant.push(tenant);
        into.ordering_key.push(text(&message.ordering_key));
        into.kind.push(text(&of.kind));
        into.template.push(text(&of.template));
        into.reference.push(text(&of.reference));
        into.body.push(body);
        Ok(())
    }

    pub(super) fn history(&mut self, row: &Row<'_>) {
        if row.is_plain() {
            let into = &mut self.plain_history;
            into.key.push(row.key.0);
            into.started_at.push(row.started_at.millis());
            into.finished_at.push(row.finished_at.millis());
            into.tenant.push(row.tenant.as_str().to_owned());
            into.receipt.push(row.receipt.clone());
            return;
        }
        let text = |text: Option<&str>| text.map(rows::escaped);
        let sealed = |spot, text: Option<&str>| text.map(|it| rows::sealed_text(&self.vault, &spot, it));
        let into = &mut self.history;
        into.key.push(row.key.0);
        into.started_at.push(row.started_at.millis());
        into.finished_at.push(row.finished_at.millis());
        into.next_due.push(row.next_due.map(Time::millis));
        into.delay.push(row.delay.map(|delay| i64::try_from(delay.millis()).unwrap_or(i64::MAX)));
        into.seq.push(steps_of(row.seq));
        into.outcome.push(i16::from(row.outcome));
        into.round.push(small(row.progress.round));
        into.number.push(small(row.number));
        into.attempts.push(small(row.progress.attempts));
        into.crashes.push(small(row.progress.crashes));
        into.reason.push(row.reason.map(|reason| i16::from(reason.code())));
        into.doubtful.push(row.progress.doubtful);
        into.tenant.push(row.tenant.as_str().to_owned());
        into.failure.push(sealed(Spot::Failure(row.key, row.seq), row.failure.as_deref()));
        into.receipt.push(row.receipt.clone());
        into.explanation.push(sealed(Spot::Explanation(row.key, row.seq), row.explanation));
        into.policy.push(text(row.policy));
        let reprocessed_by = row.actor.filter(|_| row.outcome == rows::REPROCESSED);
        into.actor.push(text(row.actor.filter(|_| reprocessed_by.is_none())));
        into.keyed.push(small(row.progress.keyed));
        into.reprocessed_by.push(text(reprocessed_by));
    }

    pub(super) fn ready(&mut self, queue: QueueId, rank: i64, due: Time, key: MessageKey, steps: u32) {
        self.ready.queue.push(queue);
        self.ready.rank.push(i16::try_from(rank).unwrap_or(i16::MAX));
        self.ready.due.push(due.millis());
        self.ready.key.push(key.0);
        self.ready.steps.push(steps_of(steps));
    }

    pub(super) fn claim(&mut self, id: ClaimId, node: NodeId, at: Time, members: Vec<u8>) {
        self.claims.id.push(id.0);
        self.claims.node.push(node.0);
        self.claims.at.push(at.millis());
        self.claims.members.push(members);
    }

    pub(super) fn deadline(&mut self, at: Time, key: MessageKey) {
        self.deadlines.at.push(at.millis());
        self.deadlines.key.push(key.0);
    }

    pub(super) fn void_deadline(&mut self, at: Time, key: MessageKey) {
        if let Some(nth) = self.deadlines.key.iter().position(|other| *other == key.0) {
            self.deadlines.at.swap_remove(nth);
            self.deadlines.key.swap_remove(nth);
        }
        self.void_deadlines.at.push(at.millis());
        self.void_deadlines.key.push(key.0);
    }

    pub(super) fn ordered(&mut self, digest: Vec<u8>, key: MessageKey, active: bool) {
        self.ordered.digest.push(digest);
        self.ordered.key.push(key.0);
        self.ordered.active.push(active);
    }

    pub(super) fn receipt(&mut self, slice: i64, hash: i64, key: MessageKey) {
        self.receipts.slice.push(slice);
        self.receipts.hash.push(hash);
        self.receipts.key.push(key.0);
    }

    pub(super) fn letter(&mut self, key: MessageKey, queue: &QueueName, cause: &Cause) {
        self.letters.key.push(key.0);
        self.letters.cause.push(cause.id.0);
        self.letters.tenant.push(queue.tenant.as_str().to_owned());
        self.causes.entry(cause.id.0).or_insert_with(|| cause_row(&self.vault, queue, cause));
    }

    /// Whether rows name the audit row that they belong to.
    pub(super) fn names_batch(&self) -> bool {
        self.accepted() > 0 || self.settled() > 0
    }

    /// How many messages wait to be written.
    pub(super) fn accepted(&self) -> usize {
        self.messages.len() + self.plain_messages.len()
    }

    /// How many rows of `history` do.
    pub(super) fn settled(&self) -> usize {
        self.history.len() + self.plain_history.len()
    }

    /// The statements that write what has been settled so far.
    pub(super) fn take_history(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.history.insert(&mut steps);
        self.plain_history.insert(&mut steps);
        steps
    }

    /// The statements that write what has been accepted so far.
    pub(super) fn take_messages(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.messages.insert(&mut steps);
        self.plain_messages.insert(&mut steps);
        steps
    }

    /// The statements that write everything, which is then gone from here.
    pub(super) fn take(&mut self) -> Vec<Step> {
        let mut steps = self.take_messages();
        steps.append(&mut self.take_history());
        self.claims.insert(&mut steps);
        if !self.shrunk.is_empty() {
            let (ids, members): (Vec<i64>, Vec<Vec<u8>>) =
                self.shrunk.drain().map(|(id, members)| (id.0, members)).unzip();
            steps.push((sql!("claim_shrink"), vec![ids.into(), members.into()]));
        }
        if !self.settled_claims.is_empty() {
            let ids = std::mem::take(&mut self.settled_claims);
            steps.push((sql!("claim_delete"), vec![ids.into()]));
        }
        self.ready.insert(&mut steps);
        self.void_deadlines.take(sql!("expiry_delete"), &mut steps);
        self.deadlines.insert(&mut steps);
        self.ordered.insert(&mut steps);
        self.receipts.insert(&mut steps);
        self.letters.insert(&mut steps);
        steps.extend(causes(std::mem::take(&mut self.causes)));
        steps
    }
}

/// What is known of a cause: tenant, channel, category, text.
pub(super) fn cause_row(vault: &Vault, queue: &QueueName, cause: &Cause) -> [String; 4] {
    let category = rows::escaped(&cause.category);
    let text = rows::sealed_text(vault, &Spot::Cause(cause.id.0), &cause.text);
    [queue.tenant.as_str().to_owned(), queue.channel.as_str().to_owned(), category, text]
}

/// The statement that makes these causes known.
pub(super) fn causes(some: BTreeMap<i64, [String; 4]>) -> Option<Step> {
    let (mut ids, mut columns) = (Vec::new(), [const { Vec::new() }; 4]);
    for (id, texts) in some {
        ids.push(id);
        columns.iter_mut().zip(texts).for_each(|(column, text)| column.push(text));
    }
    let [tenants, channels, categories, texts] = columns.map(Into::into);
    (!ids.is_empty()).then(|| (sql!("cause_put"), vec![ids.into(), tenants, channels, categories, texts]))
}
