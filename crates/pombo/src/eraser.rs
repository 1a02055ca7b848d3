//! Erases everything of one person, piece by piece. Where it stands is in the operation's document, so that whoever
//! goes on after a death begins where the last piece ended; and a piece that is done twice finds nothing the second time.
//!
//! Nobody is told who it is: the document has a keyed hash, and so has whatever it leaves behind.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::erasure::{
    Bond, Bookmark, Counts, ERASED, Erasure, Seeker, Step, Trace, WHY_SPARED, WHY_UNKNOWN,
};
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Actor;
use pombo_kernel::name::ChannelName;
use pombo_kernel::operation::Operation;
use pombo_kernel::setup::{EVENTS, Setup};
use pombo_kernel::suppression::Suppression;
use pombo_kernel::time::Clock;
use pombo_store::audit::{Event, Record};
use pombo_store::erase::{Erase, Sought};
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::{Filter, Store, StoreError, transition};
use pombo_web::{operation, suppression};
use serde_json::json;

use crate::clock::Stopwatch;

/// Rows that are looked at in one read, if they can be read in time.
const LOOK: usize = 1_000;
/// What is erased in one transaction.
const AT_ONCE: usize = 50;
/// Documents read at once.
const PAPERS: usize = 200;
/// From one try at what is being sent to the next.
const WAIT: Duration = Duration::from_millis(500);

/// One erasure, at work.
pub(crate) struct Eraser {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The channels that are set up, by which claims are known.
    kinds: HashMap<ChannelName, ChannelKind>,
    /// Where it is written down how far it is; nowhere, if it only counts in a store that is to stay as it is.
    doc: Option<Doc>,
    operation: Operation,
    erasure: Erasure,
    seeker: Seeker,
    /// Rows that the next read looks at.
    look: usize,
}

/// Why one who erases stops.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It is done.
    Done,
    /// Somebody cancelled it, or another goes on with it.
    Elsewhere,
}

impl Eraser {
    /// Takes up an erasure that this version understands, and goes on writing into its document, if it has one.
    pub(crate) fn take_up(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        setup: &Setup,
        doc: Option<Doc>,
        operation: Operation,
    ) -> Option<Eraser> {
        let erasure = Erasure::clone(operation.erasure.as_deref()?);
        let seeker = Seeker::new(store.pseudonyms(), erasure.tenant.clone(), erasure.person.clone());
        let kinds = setup.channels.values().map(|channel| (channel.name.clone(), channel.kind)).collect();
        Some(Eraser { store, clock, kinds, doc, operation, erasure, seeker, look: LOOK })
    }

    /// Goes on to the end, and tells how far it is.
    pub(crate) async fn run(
        mut self,
        tell: &mut (dyn FnMut(&Erasure) + Send),
    ) -> Result<Stopped, StoreError> {
        // Others see that somebody is at it.
        if !self.save(None).await? {
            return Ok(Stopped::Elsewhere);
        }
        while self.erasure.step != Step::Done {
            let record = self.piece().await?;
            if !self.save(record).await? {
                return Ok(Stopped::Elsewhere);
            }
            tell(&self.erasure);
        }
        Ok(Stopped::Done)
    }

    /// Writes down how far it is; false if the document is not as it was left.
    async fn save(&mut self, record: Option<Record>) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let next = self.operation.clone().erasing(self.erasure.clone(), now);
        if let Some(doc) = &mut self.doc {
            let mut wish = operation::change(doc, &next, &Actor::engine(), now);
            wish.record = wish.record.or(record);
            let leaf = wish.leaf.clone();
            let Some(Shelved::Done { version }) = self.store.shelve(vec![wish]).await?.pop() else {
                return Ok(false);
            };
            doc.version = version;
            doc.leaf = leaf.unwrap_or(doc.leaf.clone());
        }
        self.operation = next;
        Ok(true)
    }

    /// Does one piece; what is to be recorded of it, if anything is.
    async fn piece(&mut self) -> Result<Option<Record>, StoreError> {
        match self.erasure.step {
            Step::Papers => {
                self.suppressions().await?;
                self.operations().await?;
                self.erasure.step = Step::Search(Bookmark::default());
            }
            Step::Search(from) | Step::SearchAgain(from) => self.search(from).await?,
            Step::Wait => self.wait().await?,
            Step::Record => {
                self.erasure.step = Step::Sweep;
                return Ok(Some(self.record()));
            }
            Step::Sweep => {
                let watch = Stopwatch::start();
                self.store.sweep().await?;
                self.erasure.swept_ms = Some(u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX));
                self.erasure.step = Step::Done;
            }
            Step::Done => {}
        }
        Ok(None)
    }

    /// Reads the next rows; fewer from now on, if it takes too long to read so many. They may be large, and the disk slow.
    async fn seek(&mut self, from: Bookmark) -> Result<Sought, StoreError> {
        loop {
            match self.store.seek(self.seeker.clone(), from, self.look).await {
                Err(StoreError::TooLong) if self.look > 1 => self.look /= 2,
                sought => return sought,
            }
        }
    }

    /// Looks into the next rows, and erases what is there.
    async fn search(&mut self, from: Bookmark) -> Result<(), StoreError> {
        let now = self.clock.now();
        let sought = self.seek(from).await?;
        let mut traces = Vec::new();
        for trace in sought.traces {
            if let Trace::Message { id, channel, bond } | Trace::Revision { id, channel, bond, .. } = &trace {
                let why = match self.kinds.get(channel) {
                    Some(ChannelKind::Tiss) => Some(WHY_SPARED),
                    Some(_) => None,
                    None => Some(WHY_UNKNOWN).filter(|_| channel.as_str() != EVENTS),
                };
                if why.is_some_and(|why| self.erasure.spare(*id, channel, why, now)) {
                    continue;
                }
                if *bond == Bond::Names && !self.erasure.mentions {
                    let first = matches!(self.erasure.step, Step::Search(_));
                    self.erasure.named += u64::from(first && matches!(trace, Trace::Message { .. }));
                    continue;
                }
            }
            traces.push(trace);
        }
        for some in traces.chunks(AT_ONCE) {
            self.erase(some.to_vec()).await?;
            for trace in some {
                if let Trace::Message { id, .. } = trace {
                    self.events(*id).await?;
                }
            }
        }
        self.erasure.looked(self.operation.created_at, sought.next);
        Ok(())
    }

    /// Erases what was found, or counts it.
    async fn erase(&mut self, traces: Vec<Trace>) -> Result<u64, StoreError> {
        if self.erasure.dry_run {
            let counts = foreseen(&traces);
            self.erasure.counts += counts;
            return Ok(counts.messages);
        }
        let channels: Vec<(MessageId, ChannelName)> = traces.iter().filter_map(channel_of).collect();
        let by = self.operation.by.clone();
        let wish = Erase { tenant: self.erasure.tenant.clone(), traces, by };
        let erased = self.store.erase(wish).await?;
        self.erasure.counts += erased.counts;
        for id in erased.left {
            let known = self.erasure.waiting.iter().any(|(waiting, _)| *waiting == id);
            let found = channels.iter().find(|(it, _)| *it == id).filter(|_| !known);
            self.erasure.waiting.extend(found.cloned());
        }
        Ok(erased.counts.messages)
    }

    /// What told webhooks of a message: it may have said whose it was.
    async fn events(&mut self, id: MessageId) -> Result<(), StoreError> {
        let channel: ChannelName = EVENTS.parse().expect("the built-in name is valid");
        let filter = Filter {
            tenant: self.erasure.tenant.clone(),
            channel: Some(channel.clone()),
            reference: Some(id.to_string()),
            ..Filter::default()
        };
        let mut before = None;
        loop {
            let page = self.store.page(filter.clone(), before, AT_ONCE).await?;
            let told = page.lines.iter().map(|line| Trace::Message {
                id: line.message.id,
                channel: channel.clone(),
                bond: Bond::Names,
            });
            let told: Vec<Trace> = told.collect();
            if !told.is_empty() {
                self.erasure.counts.events += self.erase(told).await?;
            }
            before = page.next;
            if before.is_none() {
                return Ok(());
            }
        }
    }

    /// Those that were being sent: they have ended by now, or are waited for.
    async fn wait(&mut self) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut self.erasure.waiting);
        let traces = waiting.iter().map(|(id, channel)| Trace::Message {
            id: *id,
            channel: channel.clone(),
            bond: Bond::Reaches,
        });
        let traces: Vec<Trace> = traces.collect();
        for some in traces.chunks(AT_ONCE) {
            self.erase(some.to_vec()).await?;
        }
        for (id, _) in &waiting {
            self.events(*id).await?;
        }
        match self.erasure.waiting.is_empty() {
            true => self.erasure.step = Step::Record,
            false => tokio::time::sleep(WAIT).await,
        }
        Ok(())
    }

    /// Their entry on the suppression list: who it is goes, and why they are not written to stays.
    async fn suppressions(&mut self) -> Result<(), StoreError> {
        let Some(kind) = self.erasure.person.kind else { return Ok(()) };
        let mut after = None;
        while let Some(docs) = self.papers(Shelf::Suppression, &mut after).await? {
            for doc in &docs {
                let Some(entry) = suppression::read(doc) else { continue };
                if entry.kind != kind || !self.seeker.is(&entry.recipient) {
                    continue;
                }
                self.erasure.counts.suppressions += 1;
                if self.erasure.dry_run {
                    continue;
                }
                let hidden = Suppression { recipient: ERASED.to_owned(), source: None, note: None, ..entry };
                let leaf =
                    Leaf { body: serde_json::to_string(&hidden).unwrap_or_default(), ..doc.leaf.clone() };
                let wish = |id: String, expect, leaf| Shelve {
                    shelf: Shelf::Suppression,
                    tenant: doc.tenant.clone(),
                    id,
                    expect,
                    leaf,
                    record: None,
                };
                // First the other, so that they are never off the list.
                let put = wish(suppression::hidden(&self.erasure.person.hash), Expect::Any, Some(leaf));
                let drop = wish(doc.id.clone(), Expect::Any, None);
                self.store.shelve(vec![put, drop]).await?;
            }
        }
        Ok(())
    }

    /// Operations that were asked for by the address.
    async fn operations(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        while let Some(docs) = self.papers(Shelf::Operation, &mut after).await? {
            for doc in &docs {
                let Some(mut found) = operation::read(doc) else { continue };
                let Some(recipient) = found.filter.get_mut("recipient") else { continue };
                if !self.seeker.is(recipient) {
                    continue;
                }
                ERASED.clone_into(recipient);
                self.erasure.counts.operations += 1;
                if !self.erasure.dry_run {
                    // One that goes on meanwhile is looked at once more by whoever erases again.
                    let wish = operation::change(doc, &found, &Actor::engine(), self.clock.now());
                    self.store.shelve(vec![wish]).await?;
                }
            }
        }
        Ok(())
    }

    /// The tenant's next documents of a shelf; none at its end.
    async fn papers(
        &self,
        shelf: Shelf,
        after: &mut Option<(i64, String)>,
    ) -> Result<Option<Vec<Doc>>, StoreError> {
        let (tenant, pick) = (Some(self.erasure.tenant.clone()), Pick::All { after: after.clone() });
        let docs = self.store.docs(Wanted { shelf, tenant, pick, limit: PAPERS }).await?;
        *after = docs.last().map(|last| (last.leaf.order, last.id.clone()));
        Ok((!docs.is_empty()).then_some(docs))
    }

    /// What the audit says of it: a keyed hash, and counts.
    fn record(&self) -> Record {
        let Erasure { tenant, person, counts, spared_count, .. } = &self.erasure;
        let id = self.doc.as_ref().map(|doc| doc.id.as_str());
        let mut detail = json!({"operation": id, "person": person.hash, "spared": spared_count});
        if let (Some(detail), Ok(serde_json::Value::Object(counts))) =
            (detail.as_object_mut(), serde_json::to_value(counts))
        {
            detail.extend(counts);
        }
        if let Some(reason) = &self.operation.note {
            detail["reason"] = reason.as_str().into();
        }
        transition::act_of(Event::Erased, tenant, &self.operation.by, &detail, self.clock.now())
    }
}

/// What would be erased.
fn foreseen(traces: &[Trace]) -> Counts {
    let count = |is: fn(&Trace) -> bool| traces.iter().filter(|it| is(it)).count() as u64;
    Counts {
        messages: count(|it| matches!(it, Trace::Message { .. })),
        revisions: count(|it| matches!(it, Trace::Revision { .. })),
        recipients: count(|it| matches!(it, Trace::Recipient { .. })),
        requests: count(|it| matches!(it, Trace::Request { .. })),
        ..Counts::default()
    }
}

fn channel_of(trace: &Trace) -> Option<(MessageId, ChannelName)> {
    match trace {
        Trace::Message { id, channel, .. } => Some((*id, channel.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
