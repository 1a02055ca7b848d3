//! What a look over a whole store finds: whether what it holds can be true.

use std::collections::{BTreeMap, BTreeSet};

use pombo_kernel::campaign::Campaign;
use pombo_kernel::id::MessageId;
use serde::Serialize;

use crate::audit::Verified;
use crate::dead::CauseId;
use crate::moving::Table;
use crate::vault::rekeying::Opened;
use crate::{Pause, StoreError};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checkup {
    pub schema: u32,
    /// The schema that this version of Pombo works with.
    pub schema_known: u32,
    pub rows: Vec<Counted>,
    pub audit_blocks: u64,
    pub audit_records: u64,
    pub paused: Option<Pause>,
    /// Nothing where the pages are damaged, or the store is a part of a copy.
    pub encryption: Option<Opened>,
    /// Empty if all is well.
    pub faults: Vec<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    pub table: Table,
    pub count: u64,
}

/// Something that cannot be, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub what: String,
    pub hint: &'static str,
}

pub(crate) const RESTORE: &str = "stop the server, keep a copy of the store, and go back to the last backup";

/// What can be asked of a store to judge it. All of it is answered as of one moment.
pub(crate) trait Evidence {
    /// The keys that a question finds.
    fn ask(&mut self, question: Question) -> Result<Vec<i64>, StoreError>;
    /// The messages that are being sent, by the journal.
    fn held(&mut self) -> Result<BTreeSet<i64>, StoreError>;
    fn id_of(&mut self, key: i64) -> Result<Option<MessageId>, StoreError>;
    fn lists(&mut self) -> Result<Vec<List>, StoreError>;
    /// How many more messages wait, in queues and orders, than were counted, where there are any of either.
    fn waiting(&mut self) -> Result<Vec<(Place, i64)>, StoreError>;
    /// Where each of these messages belongs.
    fn places(&mut self, keys: &BTreeSet<i64>) -> Result<Vec<Place>, StoreError>;
}

/// Tenant, lane and channel.
pub(crate) type Place = (String, String, String);

/// A campaign and its recipients.
pub(crate) struct List {
    pub(crate) campaign: String,
    /// Its document.
    pub(crate) body: String,
    /// How many are pending, queued, sent, failed, cancelled, suppressed and invalid.
    pub(crate) counts: [u64; 7],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Unplaced,
    Double,
    Stray,
    Order,
    Gaps,
    Blobs,
    Letters,
    Recipients,
    Directory,
    /// Finds causes, not messages.
    Causes,
}

/// Holds queues, journal, orders, histories and campaigns against each other.
pub(crate) fn judge(store: &mut dyn Evidence) -> Result<Vec<Fault>, StoreError> {
    let mut faults = Vec::new();
    let unplaced: BTreeSet<i64> = store.ask(Question::Unplaced)?.into_iter().collect();
    let held = store.held()?;
    let lost: Vec<i64> = unplaced.difference(&held).copied().collect();
    report(store, &mut faults, &lost, "neither finished nor waiting nor being sent")?;
    let twice: Vec<i64> = held.difference(&unplaced).copied().collect();
    report(store, &mut faults, &twice, "being sent, and at the same time waiting or finished or unknown")?;
    let rest = [
        (Question::Double, "waiting in more than one place"),
        (Question::Stray, "waiting, and missing, finished or at another step"),
        (Question::Order, "in an order of which not exactly one message may go"),
        (Question::Gaps, "without a step of their history"),
        (Question::Blobs, "without an attachment that they have"),
        (Question::Letters, "failed and missing among the dead letters, or there without having failed"),
        (Question::Recipients, "of recipients who stand elsewhere than they do"),
        (Question::Directory, "missing where they are looked for by recipient, or there for another one"),
    ];
    for (question, what) in rest {
        let found = store.ask(question)?;
        report(store, &mut faults, &found, what)?;
    }
    let miscounted = store.ask(Question::Causes)?;
    if let Some(first) = miscounted.first() {
        let what = format!(
            "causes that do not have as many dead letters as were counted: {} ({}, …)",
            miscounted.len(),
            CauseId(*first)
        );
        faults.push(Fault { what, hint: RESTORE });
    }
    judge_campaigns(&store.lists()?, &held, &mut faults);
    judge_depths(store, &held, &mut faults)?;
    Ok(faults)
}

/// Holds what was counted as waiting against what waits or is being sent.
fn judge_depths(
    store: &mut dyn Evidence,
    held: &BTreeSet<i64>,
    faults: &mut Vec<Fault>,
) -> Result<(), StoreError> {
    let mut beyond: BTreeMap<Place, i64> = store.waiting()?.into_iter().collect();
    for place in store.places(held)? {
        *beyond.entry(place).or_default() += 1;
    }
    let wrong = beyond.iter().filter(|(_, beyond)| **beyond != 0);
    let wrong: Vec<String> =
        wrong.map(|((tenant, lane, channel), _)| format!("{tenant}/{lane}/{channel}")).collect();
    if !wrong.is_empty() {
        let what = "lanes and channels that do not have as many messages waiting as were counted";
        faults.push(named(what, &wrong));
    }
    Ok(())
}

/// A fault, with some examples of where.
fn named<T: AsRef<str>>(what: &str, all: &[T]) -> Fault {
    let more = if all.len() > EXAMPLES { ", …" } else { "" };
    let examples: Vec<&str> = all.iter().take(EXAMPLES).map(AsRef::as_ref).collect();
    Fault { what: format!("{what}: {} ({}{more})", all.len(), examples.join(", ")), hint: RESTORE }
}

/// Holds campaigns against their recipients and against what is being sent.
fn judge_campaigns(lists: &[List], held: &BTreeSet<i64>, faults: &mut Vec<Fault>) {
    let (mut miscounted, mut stuck) = (Vec::new(), Vec::new());
    for list in lists {
        // One that a newer version wrote says nothing to this one.
        let Ok(Campaign { roll, flight, .. }) = serde_json::from_str(&list.body) else { continue };
        let counted = [
            roll.pending,
            roll.queued,
            roll.sent,
            roll.failed,
            roll.cancelled,
            roll.suppressed,
            roll.invalid,
        ];
        let mut counts = list.counts;
        if roll.pending == 0 {
            // Of one that was cancelled, those whose turn never came count as cancelled and stand as they stood.
            counts[4] += std::mem::take(&mut counts[0]);
        }
        if counted != counts || roll.recipients != counted[..6].iter().sum::<u64>() {
            miscounted.push(list.campaign.as_str());
        }
        if flight.is_some_and(|flight| !held.contains(&flight.message.key().0)) {
            stuck.push(list.campaign.as_str());
        }
    }
    let found = [
        (miscounted, "do not have as many recipients in each standing as were counted"),
        (stuck, "wait for the end of a message that is not being sent"),
    ];
    for (ids, what) in found.into_iter().filter(|(ids, _)| !ids.is_empty()) {
        faults.push(named(&format!("campaigns that {what}"), &ids));
    }
}

/// How many examples are named.
const EXAMPLES: usize = 3;

fn report(
    store: &mut dyn Evidence,
    faults: &mut Vec<Fault>,
    keys: &[i64],
    what: &str,
) -> Result<(), StoreError> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut examples = Vec::new();
    for key in keys.iter().take(EXAMPLES) {
        let id = store.id_of(*key)?;
        examples.push(id.map_or_else(|| format!("key {key}"), |id| id.to_string()));
    }
    let more = if keys.len() > EXAMPLES { ", …" } else { "" };
    let what = format!("messages that are {what}: {} ({}{more})", keys.len(), examples.join(", "));
    faults.push(Fault { what, hint: RESTORE });
    Ok(())
}

/// What a broken audit chain means.
pub(crate) fn chain_fault(verified: &Verified) -> Option<Fault> {
    let hint =
        "records were changed or lost after they were written: compare with a backup, and find out who could";
    verified.broken.map(|broken| Fault { what: broken.to_string(), hint })
}

/// A copy that did not come to its end.
pub(crate) fn unfinished_copy() -> Fault {
    Fault {
        what: "it holds a part of a copy that did not come to its end, and cannot be served from".to_owned(),
        hint: "run the same `pombo store copy` again; it goes on where it stopped",
    }
}
