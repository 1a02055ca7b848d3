//! What operators ask for: rulings about dead letters, edits, and messages that should go at once.
//!
//! Every wish has a number, which is its note. The audit repeats it, so that each act can be held against what was
//! asked for, and each answer against what was done.

use std::collections::BTreeMap;
use std::sync::Arc;

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Message, Progress, State, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::audit::{Event, Record};
use pombo_store::core::Reading;
use pombo_store::dead::{
    Act, CauseId, Deed, Edit, Edited, Group, Revision, Ruled, Ruling, Verdicts, What, cause_of,
};
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
use pombo_store::{Claimed, Line};

use super::{Checked, Oracle, Tale, broken, field, hold};

/// The document that some rulings depend on.
const SWEEP: &str = "sweep";

/// What the engine is called in the audit: it is not an operator.
const ENGINE: &str = "pombo";

#[derive(Debug)]
enum Wish {
    Rule(Ruling),
    Edit(Edit),
}

/// What operators asked for, and what the audit says of it.
#[derive(Debug, Default)]
pub(super) struct Desk {
    wishes: Vec<Wish>,
    granted: BTreeMap<(usize, MessageId), Event>,
    /// The wishes that changed the document, each of which made a version of it.
    sweeps: Vec<usize>,
    /// What providers were shown, and for which message and round it stands.
    keys: BTreeMap<String, (MessageId, u16)>,
}

impl Desk {
    fn add(&mut self, wish: Wish) -> usize {
        self.wishes.push(wish);
        self.wishes.len() - 1
    }

    /// An act that the audit tells of: what it was asked for with.
    fn grant(&mut self, id: MessageId, record: &Record) -> Checked<&Wish> {
        let number = field(&record.detail, "reason").and_then(|number| number.parse().ok());
        let Some((number, wish)) = number.and_then(|number: usize| Some((number, self.wishes.get(number)?)))
        else {
            return broken(3, format_args!("nobody asked for that: {record:?}"));
        };
        let (by, of_it) = match wish {
            Wish::Rule(ruling) => {
                let swept = ruling.with.is_none() || self.sweeps.last() == Some(&number);
                hold!(4, swept, "done without the document that it depends on: {record:?}");
                (&ruling.by, ruling.ids.contains(&id))
            }
            Wish::Edit(edit) => (&edit.by, edit.id == id),
        };
        hold!(3, of_it && record.actor == by.0, "nobody asked for that: {record:?}");
        let again = self.granted.insert((number, id), record.event);
        hold!(3, again.is_none(), "asked for once and done twice: {record:?}");
        Ok(wish)
    }

    /// The document was changed.
    pub(super) fn sweep(&mut self, record: &Record) -> Checked {
        let number = field(&record.detail, "wish").and_then(|number| number.parse().ok());
        let Some(Wish::Rule(Ruling { with: Some(with), .. })) =
            number.and_then(|number: usize| self.wishes.get(number))
        else {
            return broken(12, format_args!("nobody asked for that: {record:?}"));
        };
        let expected = expectation(self.sweeps.len());
        hold!(4, with.expect == expected, "changed where {expected:?} was to be expected: {record:?}");
        self.sweeps.extend(number);
        Ok(())
    }
}

/// What somebody expects who has seen so many versions.
fn expectation(versions: usize) -> Expect {
    match u32::try_from(versions).unwrap_or(u32::MAX) {
        0 => Expect::Nothing,
        version => Expect::Version(version),
    }
}

fn number_of(note: Option<&String>) -> usize {
    note.and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
}

impl Tale {
    pub(super) fn version(&self) -> u32 {
        1 + u32::try_from(self.revisions.len()).unwrap_or(u32::MAX - 1)
    }

    /// Checks an act of an operator against what was asked for, and moves on.
    pub(super) fn check_deed(&mut self, desk: &mut Desk, position: u64, record: &Record) -> Checked {
        hold!(3, record.actor != ENGINE, "only operators do that: {record:?}");
        let note = field(&record.detail, "reason").map(str::to_owned);
        let by = Actor(record.actor.clone());
        let what = match (record.event, desk.grant(self.message.id, record)?) {
            (Event::Reprocessed, Wish::Rule(Ruling { act: Act::Reprocess, .. })) => {
                self.begin_round(position, record)?;
                What::Reprocessed
            }
            (Event::Discarded, Wish::Rule(Ruling { act: Act::Discard, .. })) => {
                self.progress.steps += 1;
                What::Discarded
            }
            (Event::Edited, Wish::Edit(edit)) => {
                let version = self.version();
                hold!(4, edit.version == version, "an edit of version {version}: {record:?}, {edit:?}");
                let told = field(&record.detail, "version").and_then(|version| version.parse().ok());
                hold!(12, told == Some(version + 1), "it was version {version}: {record:?}");
                let body = self.message.body.clone();
                self.revisions.push(Revision { version, body, replaced_at: record.at, by, note });
                let (queue, body) = (Arc::new(edit.queue.clone()), edit.body.clone());
                self.message = Arc::new(Message { queue, body, ..(*self.message).clone() });
                self.edited = true;
                return Ok(());
            }
            _ => return broken(3, format_args!("something else was asked for: {record:?}")),
        };
        self.deeds.push(Deed { at: record.at, what, by, note });
        Ok(())
    }

    /// It starts once more: as if it had just been accepted, behind whoever waits, and under a key of its own unless
    /// the provider may still know the last one.
    fn begin_round(&mut self, position: u64, record: &Record) -> Checked {
        let round = self.progress.round + 1;
        let told = field(&record.detail, "round").and_then(|round| round.parse().ok());
        hold!(12, told == Some(round), "round {round} begins: {record:?}");
        let repeats = self.reason == "outcome_unknown" && !self.edited;
        self.progress = Progress {
            round,
            attempts: 0,
            crashes: 0,
            steps: self.progress.steps + 1,
            doubtful: self.progress.doubtful,
            keyed: if repeats { self.progress.keyed } else { round },
        };
        let expires_at = self.message.expires_at.map(|at| record.at + at.since(self.round_since));
        self.message = Arc::new(Message { expires_at, ..(*self.message).clone() });
        self.round_since = record.at;
        self.due = record.at;
        self.turn = position;
        self.edited = false;
        Ok(())
    }

    /// Checks that somebody let it go at once, and moves on.
    pub(super) fn check_hastened(&mut self, record: &Record) -> Checked {
        hold!(3, record.actor != ENGINE, "only operators do that: {record:?}");
        let due = field(&record.detail, "due").and_then(|due| due.parse().ok()).map(Time::from_millis);
        hold!(12, due == Some(record.at) && self.due > record.at, "it was due at {}: {record:?}", self.due);
        self.due = record.at;
        Ok(())
    }
}

impl Oracle {
    /// Messages that failed and wait for an operator.
    pub(crate) fn dead(&self) -> Vec<MessageId> {
        self.in_state(StateName::Failed)
    }

    pub(crate) fn waiting(&self) -> Vec<MessageId> {
        self.in_state(StateName::Pending)
    }

    fn in_state(&self, state: StateName) -> Vec<MessageId> {
        self.tales.iter().filter(|(_, tale)| tale.state == state && !tale.gone).map(|(id, _)| *id).collect()
    }

    /// A message and its version, as an operator sees them now.
    pub(crate) fn seen(&self, id: MessageId) -> Option<(Arc<Message>, u32)> {
        self.tales.get(&id).map(|tale| (tale.message.clone(), tale.version()))
    }

    /// What is needed to change the document that the ruling depends on, as it is now.
    pub(crate) fn sweep(&self) -> Shelve {
        let (order, topic, due, body) = (0, None, None, String::new());
        Shelve {
            shelf: Shelf::Operation,
            tenant: Tenant::default(),
            id: SWEEP.into(),
            expect: expectation(self.desk.sweeps.len()),
            leaf: Some(Leaf { order, topic, due, body }),
            record: None,
        }
    }

    /// Numbers a ruling that an operator is about to ask for.
    pub(crate) fn ask_ruling(&mut self, mut ruling: Ruling, now: Time) -> Ruling {
        let number = self.desk.wishes.len();
        ruling.note = Some(number.to_string());
        if let Some(Shelve { leaf: Some(leaf), record, .. }) = &mut ruling.with {
            leaf.body = format!("{{\"wish\":{number}}}");
            *record = Some(Record {
                event: Event::OperationStarted,
                at: now,
                message: None,
                from: None,
                to: None,
                tenant: ruling.tenant.as_str().to_owned(),
                channel: String::new(),
                actor: ruling.by.0.clone(),
                detail: leaf.body.clone(),
            });
        }
        self.desk.add(Wish::Rule(ruling.clone()));
        ruling
    }

    /// Numbers an edit that an operator is about to ask for.
    pub(crate) fn ask_edit(&mut self, mut edit: Edit) -> Edit {
        edit.note = Some(self.desk.wishes.len().to_string());
        self.desk.add(Wish::Edit(edit.clone()));
        edit
    }

    /// An operator was told what came of a ruling.
    pub(crate) fn told_ruled(
        &self,
        reader: &mut impl Reading,
        ruling: &Ruling,
        verdicts: &Verdicts,
    ) -> Checked {
        let number = number_of(ruling.note.as_ref());
        let swept = self.desk.sweeps.contains(&number);
        let Ok(verdicts) = verdicts else {
            let touched = ruling.ids.iter().any(|id| self.desk.granted.contains_key(&(number, *id)));
            hold!(4, !swept && !touched, "ruling {number} met a conflict, and was done");
            return Ok(());
        };
        hold!(2, swept == ruling.with.is_some(), "ruling {number} was done, and not its document");
        for (id, ruled) in ruling.ids.iter().zip(verdicts) {
            self.told_foreigner(&ruling.tenant, *id, *ruled == Ruled::NotFound)?;
        }
        for id in &ruling.ids {
            let name = self.name(*id);
            let of_it = ruling.ids.iter().zip(verdicts).filter(|(other, _)| *other == id);
            let done = of_it.filter(|(_, ruled)| **ruled == Ruled::Done).count();
            let event = self.desk.granted.get(&(number, *id));
            if done > 0 && event.is_none() {
                let deeds = reader.story(&ruling.tenant, *id)?.map(|story| story.deeds).unwrap_or_default();
                let durable = deeds.iter().any(|deed| deed.note == ruling.note);
                hold!(2, durable, "an operator was told of {name}, and that is not durable");
            }
            let told = usize::from(event.is_some());
            hold!(12, done == told, "{name} was ruled about {done} times, and by the audit: {event:?}");
        }
        Ok(())
    }

    /// An operator was told what came of an edit.
    pub(crate) fn told_edited(&self, reader: &mut impl Reading, edit: &Edit, edited: Edited) -> Checked {
        let name = self.name(edit.id);
        self.told_foreigner(&edit.tenant, edit.id, edited == Edited::NotFound)?;
        let granted = self.desk.granted.contains_key(&(number_of(edit.note.as_ref()), edit.id));
        let Edited::Done { version } = edited else {
            hold!(4, !granted, "{name} was edited, and whoever did so was told {edited:?}");
            return Ok(());
        };
        let story = reader.story(&edit.tenant, edit.id)?;
        let gone = self.tales.get(&edit.id).is_some_and(|tale| tale.gone);
        let durable = story.map_or(gone, |story| story.version >= version);
        hold!(2, durable, "an operator was told of {name}, and that is not durable");
        hold!(12, granted, "{name} was edited, and the audit does not say so");
        Ok(())
    }

    /// The provider is shown a key: one for each message and round that it stands for, and no other.
    pub(super) fn check_key(&mut self, claimed: &Claimed, keyed: u16, key: &str) -> Checked {
        let id = claimed.message.id;
        let stands = *self.desk.keys.entry(key.to_owned()).or_insert((id, keyed));
        hold!(11, stands == (id, keyed), "{} is sent as {key}, which stands for {stands:?}", self.name(id));
        let mut others = self.desk.keys.iter().filter(|(other, _)| *other != key);
        let other = others.find(|(_, stands)| **stands == (id, keyed));
        hold!(11, other.is_none(), "{} is sent as {key}, and was as {other:?}", self.name(id));
        Ok(())
    }

    /// Groups of a tenant's dead letters, against what the dead letters themselves say.
    pub(super) fn check_letters(
        &self,
        reader: &mut impl Reading,
        tenant: &Tenant,
        lines: &[Line],
    ) -> Checked {
        let mut counted: BTreeMap<CauseId, Group> = BTreeMap::new();
        // The newest come first.
        for line in lines {
            let (State::Failed { at, .. }, Some(cause)) = (&line.state, cause_of(line)) else { continue };
            let group = counted.entry(cause.id).or_insert_with(|| Group {
                id: cause.id,
                channel: line.message.queue.channel.clone(),
                category: cause.category,
                text: cause.text,
                count: 0,
                newest: line.message.id,
                last_at: *at,
                first_at: *at,
            });
            group.count += 1;
            group.first_at = *at;
        }
        let told = reader.groups(tenant, usize::MAX)?.into_iter().map(|group| (group.id, group));
        let told: BTreeMap<CauseId, Group> = told.collect();
        hold!(1, told == counted, "the groups of dead letters are {told:?}, and should be {counted:?}");
        Ok(())
    }

    /// The document that some rulings depend on, which nobody else sees.
    pub(super) fn check_sweeps(&self, reader: &mut impl Reading) -> Checked {
        for other in self.plan.tenants.iter().filter(|other| **other != Tenant::default()) {
            let theirs = reader.doc(Shelf::Operation, other, SWEEP)?;
            hold!(14, theirs.is_none(), "{other} is shown {theirs:?}");
        }
        let doc = reader.doc(Shelf::Operation, &Tenant::default(), SWEEP)?;
        let stands = doc.map(|doc| (doc.version as usize, doc.leaf.body));
        let last = self.desk.sweeps.last();
        let should = last.map(|number| (self.desk.sweeps.len(), format!("{{\"wish\":{number}}}")));
        hold!(12, stands == should, "the document is {stands:?}, and by the audit {should:?}");
        Ok(())
    }
}
