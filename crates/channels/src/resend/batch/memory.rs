//! What is remembered of batches, for their mails' next try. It is bounded, and does not outlive the process.

use std::collections::BTreeMap;

use pombo_kernel::reply::Reply;
use pombo_kernel::time::{Span, Time};
use tokio::sync::oneshot;

use super::{Batch, Turn};

/// How long Resend knows a key.
const KEY_LIFE: Span = Span::from_hours(24);
const BATCHES_MAX: usize = 400;
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// A batch that was refused so often by a fault of the server may hold a mail that causes it.
const REPEATS_MAX: u8 = 2;

#[derive(Default)]
pub(super) struct Memory {
    /// The oldest first.
    notes: BTreeMap<u64, Note>,
    /// Which note speaks of a mail.
    places: BTreeMap<String, u64>,
    next: u64,
    /// Of the bodies that are kept.
    bytes: usize,
}

enum Note {
    /// Perhaps it was taken; it is sent again as it was.
    Doubt { batch: Batch, refusals: u8, waiting: Option<Vec<(String, oneshot::Sender<Turn>)>> },
    /// Its mails go alone from now on.
    Alone(Vec<String>),
    /// Resend has answered for these.
    Over(BTreeMap<String, Reply>),
}

pub(super) enum Recalled {
    Nothing,
    Alone,
    Reply(Reply),
    Doubt(Batch),
}

impl Memory {
    /// What is known of a mail that is to be sent now.
    pub(super) fn recall(&mut self, key: &str, now: Time) -> Recalled {
        let Some((place, note)) =
            self.places.get(key).and_then(|place| Some((*place, self.notes.get(place)?)))
        else {
            return Recalled::Nothing;
        };
        match note {
            Note::Alone(_) => Recalled::Alone,
            Note::Over(replies) => {
                replies.get(key).map_or(Recalled::Nothing, |reply| Recalled::Reply(reply.clone()))
            }
            Note::Doubt { batch, .. } if now.since(batch.at) < KEY_LIFE => Recalled::Doubt(batch.clone()),
            Note::Doubt { batch, .. } => {
                // Its key says nothing to Resend any more, while a mail's own may.
                let members = batch.members.clone();
                self.forget(place);
                self.alone(&members);
                Recalled::Alone
            }
        }
    }

    /// Lets the sender of a mail wait for its batch's repetition; says whether that has yet to start.
    pub(super) fn wait(&mut self, key: &str, tell: oneshot::Sender<Turn>) -> bool {
        let note = self.places.get(key).and_then(|place| self.notes.get_mut(place));
        let Some(Note::Doubt { waiting, .. }) = note else { return false };
        let first = waiting.is_none();
        waiting.get_or_insert_default().push((key.to_owned(), tell));
        first
    }

    /// A repetition came back: those who wait for it. A batch that was refused `again` and again is taken apart.
    pub(super) fn back(&mut self, batch_key: &str, again: bool) -> Vec<(String, oneshot::Sender<Turn>)> {
        let found = self.notes.iter_mut().find_map(|(place, note)| match note {
            Note::Doubt { batch, refusals, waiting } if batch.key == batch_key => {
                *refusals += u8::from(again);
                let apart = (*refusals >= REPEATS_MAX).then(|| batch.members.clone());
                Some((*place, waiting.take().unwrap_or_default(), apart))
            }
            _ => None,
        });
        let Some((place, waiting, apart)) = found else { return Vec::new() };
        if let Some(members) = apart {
            self.forget(place);
            self.alone(&members);
        }
        waiting
    }

    pub(super) fn doubt(&mut self, batch: Batch) {
        self.bytes += batch.body.len();
        let members = batch.members.clone();
        self.note(&members, Note::Doubt { batch, refusals: 0, waiting: None });
    }

    pub(super) fn alone(&mut self, members: &[String]) {
        self.note(members, Note::Alone(members.to_vec()));
    }

    pub(super) fn over(&mut self, replies: Vec<(String, Reply)>) {
        // A mail without an answer gains nothing from the same question: it goes alone.
        let (open, known): (Vec<_>, Vec<_>) =
            replies.into_iter().partition(|(_, reply)| matches!(reply, Reply::Doubtful(_)));
        let keys = |list: &[(String, Reply)]| list.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        if !open.is_empty() {
            self.alone(&keys(&open));
        }
        if !known.is_empty() {
            self.note(&keys(&known), Note::Over(known.into_iter().collect()));
        }
    }

    fn note(&mut self, members: &[String], note: Note) {
        let before: Vec<u64> = members.iter().filter_map(|key| self.places.get(key).copied()).collect();
        let place = self.next;
        self.next += 1;
        self.places.extend(members.iter().map(|key| (key.clone(), place)));
        self.notes.insert(place, note);
        // A note that speaks of nobody any more is only weight.
        for old in before {
            let spoken_of = self.notes.get(&old).is_some_and(|note| self.speaks(old, note));
            if !spoken_of {
                self.forget(old);
            }
        }
        while self.notes.len() > BATCHES_MAX || self.bytes > BYTES_MAX {
            let Some((&oldest, _)) = self.notes.first_key_value() else { return };
            self.forget(oldest);
        }
    }

    fn speaks(&self, place: u64, note: &Note) -> bool {
        note.members().any(|key| self.places.get(key) == Some(&place))
    }

    fn forget(&mut self, place: u64) {
        let Some(note) = self.notes.remove(&place) else { return };
        if let Note::Doubt { batch, .. } = &note {
            self.bytes -= batch.body.len();
        }
        for key in note.members() {
            if self.places.get(key) == Some(&place) {
                self.places.remove(key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize, usize) {
        (self.notes.len(), self.places.len(), self.bytes)
    }
}

impl Note {
    fn members(&self) -> Box<dyn Iterator<Item = &String> + '_> {
        match self {
            Note::Doubt { batch, .. } => Box::new(batch.members.iter()),
            Note::Alone(members) => Box::new(members.iter()),
            Note::Over(replies) => Box::new(replies.keys()),
        }
    }
}
