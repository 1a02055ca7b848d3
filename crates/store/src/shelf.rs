//! Documents that are kept beside the messages: keys, webhooks, suppressions, decisions, operations.
//!
//! A document is a JSON text with an id, a version that rises with every change, and three ways to find it: by id, in
//! the order of its shelf or of its topic there, and by a time at which it is due. Whoever changes one says what is
//! expected there, so that of two who act at once one is told.

use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;

use crate::audit::Record;

/// What kind of document it is. The numbers are kept by stores, and never mean anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shelf {
    /// API keys, by the digest of the key.
    Key = 1,
    /// Whoever wants to be told of events.
    Webhook = 2,
    Suppression = 3,
    /// Retry decisions, by what was asked; the topic is the claim.
    Decision = 4,
    /// Work on many messages; due while it is under way.
    Operation = 5,
    /// How far a follower of the events has come.
    Cursor = 6,
    /// Campaigns, which claims and settlements of their messages change as well; due when somebody must see to them.
    Campaign = 7,
    /// How campaigns together use a channel, by its name; of the default tenant, whosever the channel is.
    Line = 8,
    /// Alerts, due while they fire or people are still to be told of them; and notices to people, due until they have arrived, whose topic is what they tell of.
    Alert = 9,
    /// Signed ends of the audit chain, by their number; and whether it held when somebody last looked.
    Anchor = 10,
    /// Who is logged in to the dashboard, and links by which somebody may log in, by the digest of a secret; of the
    /// default tenant, whosever they are, and due when they end.
    Session = 11,
    /// Rules that people accepted; the topic is the channel.
    Rule = 12,
}

impl Shelf {
    pub const ALL: [Shelf; 12] = [
        Shelf::Key,
        Shelf::Webhook,
        Shelf::Suppression,
        Shelf::Decision,
        Shelf::Operation,
        Shelf::Cursor,
        Shelf::Campaign,
        Shelf::Line,
        Shelf::Alert,
        Shelf::Anchor,
        Shelf::Session,
        Shelf::Rule,
    ];
}

/// A document as it stands on its shelf.
#[derive(Clone, Debug, PartialEq)]
pub struct Doc {
    pub tenant: Tenant,
    pub id: String,
    /// From 1 on; one more with every change.
    pub version: u32,
    pub updated_at: Time,
    pub leaf: Leaf,
}

/// What a document says and how it is found.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Lists go from the highest to the lowest; among equals by id, also from the highest.
    pub order: i64,
    /// Documents with the same topic can be listed apart from others.
    pub topic: Option<String>,
    pub due: Option<Time>,
    /// JSON.
    pub body: String,
}

/// What must be there for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Nothing,
    Version(u32),
    /// Whatever there is, or nothing.
    Any,
}

impl Expect {
    /// Whether that version, or nothing, is what is expected.
    pub(crate) fn fits(self, version: Option<u32>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Nothing => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        }
    }
}

/// Comes after every id: longer than any, and of the last character there is.
pub(crate) fn after_every_id() -> String {
    "\u{10ffff}".repeat(51)
}

/// A wish to put, change or remove a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Shelve {
    pub shelf: Shelf,
    pub tenant: Tenant,
    /// 1 to 200 bytes.
    pub id: String,
    pub expect: Expect,
    /// None removes it.
    pub leaf: Option<Leaf>,
    /// Goes to the audit with the change; nothing if the change is not made.
    pub record: Option<Record>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shelved {
    /// It was done; the version that it has now, or had when it was removed. 0 if there was nothing to remove.
    Done { version: u32 },
    /// Something else was there than expected: this.
    Conflict(Option<Doc>),
}

/// Which documents to list.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub shelf: Shelf,
    /// Everybody's if none.
    pub tenant: Option<Tenant>,
    pub pick: Pick,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// In the order of the shelf, after the document with that order and id. With everybody's documents `after` must
    /// not be given.
    All { after: Option<(i64, String)> },
    /// The same within a topic; needs a tenant.
    Topic { topic: String, after: Option<(i64, String)> },
    /// Due from a time on and before another, the earliest first, among equals by id; after the document that is due
    /// then and has that id.
    Due { from: Time, until: Time, after: Option<(Time, String)> },
}
