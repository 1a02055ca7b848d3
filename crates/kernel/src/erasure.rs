//! Erasing one person: who it is, where they may be found, and how far the work has come.
//!
//! Nothing that is kept while somebody is erased, or after, says who it was. A person is a keyed hash of the address in
//! its one form, and whatever might be about them is hashed the same way and compared.

use std::sync::LazyLock;

use hmac::{Hmac, KeyInit, Mac};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::id::{MessageId, MessageKey};
use crate::message::Body;
use crate::name::{CampaignName, ChannelName, Tenant};
use crate::suppression::{Family, reached};
use crate::time::{Span, Time};

/// What stands where something of a person was.
pub const ERASED: &str = "[erased]";

/// How long a claim is kept, whoever asks: five years, with their leap days.
pub const CLAIMS_KEPT: Span = Span::from_hours(24 * 1_826);

/// Why a claim is not erased before.
pub const WHY_SPARED: &str = "a claim is kept for five years to meet a legal duty (LGPD, art. 16, I)";

/// Why what may be a claim is not.
pub const WHY_UNKNOWN: &str =
    "nobody can tell whether it is a claim, which is kept for five years: its channel is not set up any more";

/// Messages that came with an earlier time than they were seen with are looked for so far back.
const LATE: Span = Span::from_hours(1);

/// Spared messages that are listed; of more there is a count.
const LISTED: usize = 1_000;

/// The key of a store's pseudonyms. It only hashes, and is never shown.
#[derive(Clone)]
pub struct Pseudonyms(Hmac<Sha256>);

impl std::fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pseudonyms")
    }
}

/// A person, without saying who.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ErasedPerson")]
pub struct Person {
    /// The kind of their address; null if it is none of a known kind, and is compared as it was written.
    pub kind: Option<Family>,
    /// A keyed hash of the address in its one form. Only this store can make it.
    pub hash: String,
}

impl Pseudonyms {
    pub fn new(secret: &[u8; 32]) -> Pseudonyms {
        let mut mac = Hmac::new_from_slice(secret).expect("a key may have any length");
        mac.update(b"pombo person 1\0");
        Pseudonyms(mac)
    }

    /// What stands for somebody of a tenant's, given what tells them from others.
    pub fn hash(&self, tenant: &Tenant, kind: Option<Family>, person: &str) -> String {
        let mut mac = self.0.clone();
        for part in [tenant.as_str(), kind.map_or("", Family::as_str)] {
            mac.update(part.as_bytes());
            mac.update(b"\n");
        }
        mac.update(person.as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whoever is reached by that address, however it is written; nobody by an empty one.
    pub fn person(&self, tenant: &Tenant, address: &str) -> Option<Person> {
        let address = address.trim();
        let known = |family: Family| Some((Some(family), family.person(&family.normalised(address)?)));
        // A JID would pass for an e-mail address.
        let (kind, person) = known(Family::Whatsapp)
            .or_else(|| known(Family::Email))
            .or_else(|| (!address.is_empty()).then(|| (None, address.to_owned())))?;
        Some(Person { kind, hash: self.hash(tenant, kind, &person) })
    }
}

/// How a message has to do with a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bond {
    /// It goes to them, alone or among others.
    Reaches,
    /// It goes to others, and names their address.
    Names,
}

/// Whether something is about one person.
#[derive(Clone, Debug)]
pub struct Seeker {
    pseudonyms: Pseudonyms,
    tenant: Tenant,
    person: Person,
}

/// What may be an address: of e-mail, or a phone number however it is written.
static ADDRESSES: LazyLock<Regex> = LazyLock::new(|| {
    let mail = r"[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]+@[\p{L}\p{N}](?:[\p{L}\p{N}.-]*[\p{L}\p{N}])?";
    let phone = r"\+?\(?\d[\d ().-]{6,24}\d";
    Regex::new(&format!("{mail}|{phone}")).expect("a fixed pattern")
});

impl Seeker {
    pub fn new(pseudonyms: Pseudonyms, tenant: Tenant, person: Person) -> Seeker {
        Seeker { pseudonyms, tenant, person }
    }

    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Whether it is their address.
    pub fn is(&self, address: &str) -> bool {
        let address = address.trim();
        let person = match self.person.kind {
            None => Some(address.to_owned()),
            Some(family) => family.normalised(address).map(|it| family.person(&it)),
        };
        person.is_some_and(|it| self.pseudonyms.hash(&self.tenant, self.person.kind, &it) == self.person.hash)
    }

    /// Whether their address stands somewhere in a text.
    pub fn named(&self, text: &str) -> bool {
        // An address of no known kind cannot be told from other words.
        self.person.kind.is_some() && ADDRESSES.find_iter(text).any(|found| self.is(found.as_str()))
    }

    /// How a message that says this has to do with them.
    pub fn bond(&self, body: &Body) -> Option<Bond> {
        if reached(body).iter().any(|(_, to)| self.is(to)) {
            return Some(Bond::Reaches);
        }
        let said = [&body.content, &body.payload, &body.metadata].into_iter().flatten().map(|it| it.text());
        let mut texts = said.chain(body.user_id.as_deref()).chain(body.reference.as_deref());
        texts.any(|text| self.named(text)).then_some(Bond::Names)
    }
}

/// Where something of a person may be, in the order in which it is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// Lists of campaigns, first: whoever is taken off them gets no message any more.
    #[default]
    Lists,
    /// What applications have handed in by SQL, and is not taken in yet.
    Inbox,
    /// The same, where it cannot be taken in.
    Refused,
    Messages,
    /// What messages said before they were edited.
    Revisions,
}

impl Room {
    /// The one that is looked into next.
    pub fn next(self) -> Option<Room> {
        match self {
            Room::Lists => Some(Room::Inbox),
            Room::Inbox => Some(Room::Refused),
            Room::Refused => Some(Room::Messages),
            Room::Messages => Some(Room::Revisions),
            Room::Revisions => None,
        }
    }
}

/// How far somebody has looked: everything up to there, in the order of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    pub room: Room,
    /// The list's or the message's number; none at the door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<i64>,
    /// The recipient's or the version's.
    #[serde(default)]
    pub then: i64,
}

impl Bookmark {
    pub fn at(room: Room) -> Bookmark {
        Bookmark { room, ..Bookmark::default() }
    }
}

/// Something of a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Trace {
    Message {
        id: MessageId,
        channel: ChannelName,
        bond: Bond,
    },
    /// What a message said that says something else by now.
    Revision {
        id: MessageId,
        version: u32,
        channel: ChannelName,
        bond: Bond,
    },
    Recipient {
        campaign: CampaignName,
        number: u64,
    },
    /// What an application has handed in by SQL: waiting, or refused.
    Request {
        room: Room,
        key: i64,
    },
}

/// How many of each there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "ErasedCounts")]
pub struct Counts {
    /// Messages with all that is known of them: attempts, revisions, reports, idempotency keys.
    pub messages: u64,
    /// Those of them that still waited, and were cancelled first.
    pub cancelled: u64,
    /// Those of them that told a webhook of another of them.
    pub events: u64,
    /// Attachments that no other message has.
    pub attachments: u64,
    /// Earlier versions of messages that are somebody else's by now.
    pub revisions: u64,
    /// Places on lists of campaigns.
    pub recipients: u64,
    /// Requests by SQL that were not taken in.
    pub requests: u64,
    /// Entries of the suppression list, of which a keyed hash and the reason stay.
    pub suppressions: u64,
    /// Operations that had the address as a filter.
    pub operations: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.messages += more.messages;
        self.cancelled += more.cancelled;
        self.events += more.events;
        self.attachments += more.attachments;
        self.revisions += more.revisions;
        self.recipients += more.recipients;
        self.requests += more.requests;
        self.suppressions += more.suppressions;
        self.operations += more.operations;
    }
}

/// A message that was left as it is, though it is about the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SparedMessage")]
pub struct Spared {
    #[schemars(with = "String")]
    pub id: MessageId,
    pub channel: ChannelName,
    /// Until when.
    pub until: Time,
    pub why: String,
}

/// The erasure of a person, as it goes on and as it is told afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Erasure {
    pub tenant: Tenant,
    pub person: Person,
    /// Only count.
    #[serde(default)]
    pub dry_run: bool,
    /// Also messages to others that name the address.
    #[serde(default)]
    pub mentions: bool,
    #[serde(default)]
    pub counts: Counts,
    /// Messages to others that name the address, and were left as they are.
    #[serde(default)]
    pub named: u64,
    #[serde(default)]
    pub spared: Vec<Spared>,
    #[serde(default)]
    pub spared_count: u64,
    pub step: Step,
    /// Messages that were being sent when their turn came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<(MessageId, ChannelName)>,
    /// How long nothing could be written while the files were rewritten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swept_ms: Option<u64>,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The suppression list, and operations that are about them.
    Papers,
    /// What is found from there on.
    Search(Bookmark),
    /// Once more, for what came with an earlier time meanwhile.
    SearchAgain(Bookmark),
    /// Those that were being sent.
    Wait,
    /// It is to be written down that they were erased.
    Record,
    /// The files are rewritten without what was erased.
    Sweep,
    Done,
}

impl Erasure {
    pub fn new(tenant: Tenant, person: Person, dry_run: bool, mentions: bool) -> Erasure {
        Erasure {
            tenant,
            person,
            dry_run,
            mentions,
            counts: Counts::default(),
            named: 0,
            spared: Vec::new(),
            spared_count: 0,
            step: Step::Papers,
            waiting: Vec::new(),
            swept_ms: None,
        }
    }

    /// A message is not erased now: it is a claim, or perhaps one, and young.
    pub fn spare(&mut self, id: MessageId, channel: &ChannelName, why: &str, now: Time) -> bool {
        let until = id.key().time() + CLAIMS_KEPT;
        if until <= now {
            return false;
        }
        // It may be come by twice.
        if !self.spared.iter().any(|it| it.id == id) {
            self.spared_count += 1;
            if self.spared.len() < LISTED {
                let why = why.to_owned();
                self.spared.push(Spared { id, channel: channel.clone(), until, why });
            }
        }
        true
    }

    /// It was looked up to there, or through the whole room.
    pub fn looked(&mut self, began: Time, next: Option<Bookmark>) {
        self.step = match (self.step, next) {
            (Step::Search(_), Some(next)) => Step::Search(next),
            (Step::Search(at), None) => match at.room.next() {
                Some(room) => Step::Search(Bookmark::at(room)),
                // Nothing is erased that could come again.
                None if self.dry_run => Step::Done,
                None => Step::SearchAgain(Bookmark {
                    key: Some(MessageKey::at(began - LATE).0),
                    ..Bookmark::at(Room::Messages)
                }),
            },
            (Step::SearchAgain(_), Some(next)) => Step::SearchAgain(next),
            (Step::SearchAgain(_), None) => Step::Wait,
            (step, _) => step,
        };
    }
}

#[cfg(test)]
mod tests {
    use sha2::Digest;

    use super::*;

    #[test] // a plain hash of a number is no secret: there are too few numbers
    fn whoever_tries_every_number_finds_nobody_without_the_secret() {
        let tenant = Tenant::default();
        let ours = Pseudonyms::new(&[7; 32]);
        let written = |n: u32| format!("+55 11 98765-{n:04}");
        let hash = ours.person(&tenant, &written(4_321)).unwrap().hash;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let others =
            [[0; 32], [8; 32], *b"pombo person 1\0pombo person 1\0xx"].map(|it| Pseudonyms::new(&it));
        for n in 0..10_000 {
            let digits = format!("551198765{n:04}");
            let guesses =
                [digits.clone(), format!("+{digits}"), written(n), format!("default\nwhatsapp\n{digits}")];
            for guess in guesses {
                assert_ne!(hex(&Sha256::digest(guess.as_bytes())), hash, "{guess}");
            }
            for other in &others {
                assert_ne!(other.person(&tenant, &written(n)).unwrap().hash, hash, "{n}");
            }
        }
        // Whoever has the secret does find them, and in one tenant only.
        let found = (0..10_000).find(|n| ours.person(&tenant, &written(*n)).unwrap().hash == hash);
        assert_eq!(found, Some(4_321));
        assert_ne!(ours.person(&"other".parse().unwrap(), &written(4_321)).unwrap().hash, hash);
    }
}
