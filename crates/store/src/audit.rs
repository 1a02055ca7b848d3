//! The audit chain: every transition, in order, so that a change made afterwards shows.
//!
//! A block is what one commit recorded. Its hash covers the hash of the block before it and a *leaf* for each
//! record, the digest of a random salt and the record's bytes. A record can therefore be erased, leaving its
//! leaf, and the chain still verifies; and a leaf tells nothing of what was erased.
//!
//! The bytes are fixed from the first release on; see `docs/reference/audit.md`.

use std::borrow::Cow;

use pombo_kernel::id::MessageId;
use pombo_kernel::message::StateName;
use pombo_kernel::time::Time;
use serde::Serialize;
use sha2::{Digest, Sha256};

pub type Hash = [u8; 32];
pub type Salt = [u8; 16];

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Accepted = 1,
    Claimed = 2,
    Sent = 3,
    RetryScheduled = 4,
    Failed = 5,
    Held = 6,
    Released = 7,
    Cancelled = 8,
    Expired = 9,
    Discarded = 10,
    Reprocessed = 11,
    TakenOver = 12,
    /// What the provider reported of a sent message went further.
    Delivery = 13,
    /// A dead letter was put right.
    Edited = 14,
    /// What waited is due now.
    Hastened = 15,
    Blocked = 20,
    Unblocked = 21,
    /// Nothing is sent from then on.
    Paused = 22,
    Resumed = 23,
    KeyAdded = 30,
    KeyChanged = 31,
    KeyRemoved = 32,
    TemplatePut = 40,
    WebhookPut = 42,
    WebhookRemoved = 43,
    SuppressionPut = 44,
    SuppressionRemoved = 45,
    /// A retry decision: it is tried again.
    RetryDecided = 50,
    /// A retry decision: there were enough tries.
    RetriesExhausted = 51,
    /// A retry decision: no try can help.
    PermanentErrorFound = 52,
    /// Work on many messages, or on a channel.
    OperationStarted = 60,
    OperationEnded = 61,
    CampaignCreated = 70,
    CampaignChanged = 71,
    CampaignScheduled = 72,
    CampaignStarted = 73,
    CampaignPaused = 74,
    CampaignResumed = 75,
    /// Everybody was reached or given up.
    CampaignCompleted = 76,
    CampaignCancelled = 77,
    CampaignRemoved = 78,
    RecipientsListed = 79,
    /// Something is wrong.
    AlertFired = 80,
    /// It is no longer.
    AlertResolved = 81,
    AlertAcknowledged = 82,
    AlertSilenced = 83,
    AlertUnsilenced = 84,
    /// Somebody saw persons whom their role hides.
    Revealed = 85,
    /// Everything of one person was erased.
    Erased = 86,
    /// Somebody took a copy of many records.
    Exported = 87,
    /// Messages left as retention asks.
    Pruned = 88,
    /// The end of the chain was signed.
    Anchored = 89,
    /// Somebody came to the dashboard.
    LoggedIn = 90,
    LoggedOut = 91,
    /// What is personal was sealed with another key, or with none.
    Rekeyed = 92,
    /// Figures were sent to whom they are for.
    ReportSent = 93,
    /// Somebody accepted a rule, which decides from then on.
    RuleAccepted = 94,
    RuleRemoved = 95,
}

impl Event {
    pub const ALL: [Event; 58] = [
        Event::Accepted,
        Event::Claimed,
        Event::Sent,
        Event::RetryScheduled,
        Event::Failed,
        Event::Held,
        Event::Released,
        Event::Cancelled,
        Event::Expired,
        Event::Discarded,
        Event::Reprocessed,
        Event::TakenOver,
        Event::Delivery,
        Event::Edited,
        Event::Hastened,
        Event::Blocked,
        Event::Unblocked,
        Event::Paused,
        Event::Resumed,
        Event::KeyAdded,
        Event::KeyChanged,
        Event::KeyRemoved,
        Event::TemplatePut,
        Event::WebhookPut,
        Event::WebhookRemoved,
        Event::SuppressionPut,
        Event::SuppressionRemoved,
        Event::RetryDecided,
        Event::RetriesExhausted,
        Event::PermanentErrorFound,
        Event::OperationStarted,
        Event::OperationEnded,
        Event::CampaignCreated,
        Event::CampaignChanged,
        Event::CampaignScheduled,
        Event::CampaignStarted,
        Event::CampaignPaused,
        Event::CampaignResumed,
        Event::CampaignCompleted,
        Event::CampaignCancelled,
        Event::CampaignRemoved,
        Event::RecipientsListed,
        Event::AlertFired,
        Event::AlertResolved,
        Event::AlertAcknowledged,
        Event::AlertSilenced,
        Event::AlertUnsilenced,
        Event::Revealed,
        Event::Erased,
        Event::Exported,
        Event::Pruned,
        Event::Anchored,
        Event::LoggedIn,
        Event::LoggedOut,
        Event::Rekeyed,
        Event::ReportSent,
        Event::RuleAccepted,
        Event::RuleRemoved,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Event::Accepted => "accepted",
            Event::Claimed => "claimed",
            Event::Sent => "sent",
            Event::RetryScheduled => "retry_scheduled",
            Event::Failed => "failed",
            Event::Held => "held",
            Event::Released => "released",
            Event::Cancelled => "cancelled",
            Event::Expired => "expired",
            Event::Discarded => "discarded",
            Event::Reprocessed => "reprocessed",
            Event::TakenOver => "taken_over",
            Event::Delivery => "delivery",
            Event::Edited => "edited",
            Event::Hastened => "hastened",
            Event::Blocked => "blocked",
            Event::Unblocked => "unblocked",
            Event::Paused => "paused",
            Event::Resumed => "resumed",
            Event::KeyAdded => "key_added",
            Event::KeyChanged => "key_changed",
            Event::KeyRemoved => "key_removed",
            Event::TemplatePut => "template_put",
            Event::WebhookPut => "webhook_put",
            Event::WebhookRemoved => "webhook_removed",
            Event::SuppressionPut => "suppression_put",
            Event::SuppressionRemoved => "suppression_removed",
            Event::RetryDecided => "retry_decided",
            Event::RetriesExhausted => "retries_exhausted",
            Event::PermanentErrorFound => "permanent_error_found",
            Event::OperationStarted => "operation_started",
            Event::OperationEnded => "operation_ended",
            Event::CampaignCreated => "campaign_created",
            Event::CampaignChanged => "campaign_changed",
            Event::CampaignScheduled => "campaign_scheduled",
            Event::CampaignStarted => "campaign_started",
            Event::CampaignPaused => "campaign_paused",
            Event::CampaignResumed => "campaign_resumed",
            Event::CampaignCompleted => "campaign_completed",
            Event::CampaignCancelled => "campaign_cancelled",
            Event::CampaignRemoved => "campaign_removed",
            Event::RecipientsListed => "recipients_listed",
            Event::AlertFired => "alert_fired",
            Event::AlertResolved => "alert_resolved",
            Event::AlertAcknowledged => "alert_acknowledged",
            Event::AlertSilenced => "alert_silenced",
            Event::AlertUnsilenced => "alert_unsilenced",
            Event::Revealed => "revealed",
            Event::Erased => "erased",
            Event::Exported => "exported",
            Event::Pruned => "pruned",
            Event::Anchored => "anchored",
            Event::LoggedIn => "logged_in",
            Event::LoggedOut => "logged_out",
            Event::Rekeyed => "rekeyed",
            Event::ReportSent => "report_sent",
            Event::RuleAccepted => "rule_accepted",
            Event::RuleRemoved => "rule_removed",
        }
    }
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One transition of one message, or one act of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record<T = String> {
    pub event: Event,
    pub at: Time,
    pub message: Option<MessageId>,
    pub from: Option<StateName>,
    pub to: Option<StateName>,
    pub tenant: T,
    pub channel: T,
    pub actor: T,
    /// What else belongs to it, as JSON text: attempt number, verdict, reason, next time.
    pub detail: T,
}

/// A record whose words are borrowed from its message: most are written once and read by nobody before.
pub type Line<'a> = Record<Cow<'a, str>>;

impl From<Line<'_>> for Record {
    fn from(line: Line<'_>) -> Record {
        let Record { event, at, message, from, to, tenant, channel, actor, detail } = line;
        Record {
            event,
            at,
            message,
            from,
            to,
            tenant: tenant.into_owned(),
            channel: channel.into_owned(),
            actor: actor.into_owned(),
            detail: detail.into_owned(),
        }
    }
}

const VERSION: u8 = 1;
const FULL: u8 = 0;
const ERASED: u8 = 1;
/// Where in a record's bytes its message stands.
const MESSAGE_AT: usize = 12;

impl<T: AsRef<str>> Record<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        let state = |state: Option<StateName>| state.map_or(0, StateName::code);
        out.extend([VERSION, self.event as u8, state(self.from), state(self.to)]);
        out.extend(self.at.millis().to_le_bytes());
        out.extend(self.message.map_or(0, MessageId::bits).to_be_bytes());
        for text in [&self.tenant, &self.channel, &self.actor, &self.detail].map(AsRef::as_ref) {
            let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
            out.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend(text);
        }
    }
}

impl Record {
    fn decode(bytes: &[u8]) -> Option<Record> {
        let mut bytes = Bytes(bytes);
        let [version, event, from, to] = bytes.take()?;
        if version != VERSION {
            return None;
        }
        let at = Time::from_millis(i64::from_le_bytes(bytes.take()?));
        let message = MessageId::from_bits(u128::from_be_bytes(bytes.take()?));
        let mut text = || -> Option<String> {
            let length = u16::from_le_bytes(bytes.take()?);
            Some(String::from_utf8_lossy(bytes.cut(usize::from(length))?).into_owned())
        };
        Some(Record {
            event: Event::ALL.into_iter().find(|known| *known as u8 == event)?,
            at,
            message,
            from: StateName::from_code(from),
            to: StateName::from_code(to),
            tenant: text()?,
            channel: text()?,
            actor: text()?,
            detail: text()?,
        })
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn cut(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.cut(N)?.try_into().ok()
    }
}

/// The records of one commit, sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub sequence: u64,
    /// The position of its first record.
    pub position: u64,
    pub at: Time,
    pub count: u32,
    pub hash: Hash,
    /// The entries, one after another.
    pub entries: Vec<u8>,
}

/// Where a chain ends, and so where its next block goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// The sequence of the next block.
    pub sequence: u64,
    /// The position of the next record.
    pub position: u64,
    pub hash: Hash,
}

impl Tip {
    /// Seals records into the next block. `entropy` must be new for every block and unguessable.
    pub fn seal(&self, records: &[Record], at: Time, entropy: &[u8; 32]) -> (Block, Tip) {
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        self.seal_encoded(encoded(records, entropy), count, at)
    }

    /// Seals entries that were encoded before into the next block. There are `count` of them.
    pub fn seal_encoded(&self, entries: Vec<u8>, count: u32, at: Time) -> (Block, Tip) {
        let mut chain = Chain::start(self, at, count as usize);
        for entry in self::entries(&entries).flatten() {
            chain.leaf(&entry.leaf());
        }
        let hash = chain.end();
        let block = Block { sequence: self.sequence, position: self.position, at, count, hash, entries };
        let tip = Tip { sequence: self.sequence + 1, position: self.position + u64::from(count), hash };
        (block, tip)
    }

    /// Follows the chain by one block, if the block truly continues it.
    pub fn follow(&self, block: &Block) -> Result<Tip, Break> {
        let wrong = |what| Break { block: block.sequence, what };
        if (block.sequence, block.position) != (self.sequence, self.position) {
            return Err(wrong("a block is missing, or out of its place"));
        }
        let mut chain = Chain::start(self, block.at, block.count as usize);
        let mut found = 0;
        for entry in entries(&block.entries) {
            let entry = entry.ok_or(wrong("its records cannot be read"))?;
            chain.leaf(&entry.leaf());
            found += 1;
        }
        if found != block.count {
            return Err(wrong("it holds more or fewer records than it says"));
        }
        if chain.end() != block.hash {
            return Err(wrong("its records are not the ones that were written"));
        }
        Ok(Tip {
            sequence: self.sequence + 1,
            position: self.position + u64::from(block.count),
            hash: block.hash,
        })
    }
}

/// How many bytes of entries are read at once, so that a long chain takes no more memory than a short one. A block that
/// is larger is read alone.
pub(crate) const PIECE_BYTES: usize = 4 * 1024 * 1024;

/// Blocks that are read at once.
pub(crate) const PIECE_BLOCKS: usize = 2_048;

/// A check of a chain from its start, piece by piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// How far the chain holds.
    pub tip: Tip,
    pub broken: Option<Break>,
}

impl Walk {
    /// Goes on by these blocks, which begin where it stands; false if there is nowhere to go from here.
    pub fn on(&mut self, blocks: &[Block]) -> bool {
        for block in blocks {
            match self.tip.follow(block) {
                Ok(next) => self.tip = next,
                Err(broken) => {
                    self.broken = Some(broken);
                    return false;
                }
            }
        }
        !blocks.is_empty()
    }

    pub fn verified(&self) -> Verified {
        Verified { blocks: self.tip.sequence, records: self.tip.position, broken: self.broken }
    }
}

/// Records as the entries of a block, salted, in whichever place of the chain that will be. `entropy` must be new
/// for every block and unguessable.
pub fn encoded(records: &[Record], entropy: &[u8; 32]) -> Vec<u8> {
    let mut entries = Vec::with_capacity(records.len() * 128);
    for (index, record) in (0u64..).zip(records) {
        push_entry(&mut entries, &salt(entropy, index), record);
    }
    entries
}

fn push_entry<T: AsRef<str>>(entries: &mut Vec<u8>, salt: &Salt, record: &Record<T>) {
    entries.push(FULL);
    entries.extend(salt);
    let length_at = entries.len();
    entries.extend([0; 4]);
    record.encode(entries);
    let body_at = length_at + 4;
    let length = u32::try_from(entries.len() - body_at).unwrap_or(u32::MAX);
    entries[length_at..body_at].copy_from_slice(&length.to_le_bytes());
}

/// The records of a group that is being written, as the entries of its block. Their salts come last, since what nobody
/// can guess is drawn at the commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    entries: Vec<u8>,
    starts: Vec<usize>,
}

impl Gathered {
    pub(crate) fn push<T: AsRef<str>>(&mut self, record: &Record<T>) {
        self.starts.push(self.entries.len());
        push_entry(&mut self.entries, &Salt::default(), record);
    }

    #[cfg(feature = "planted")]
    pub(crate) fn pop(&mut self) {
        if let Some(start) = self.starts.pop() {
            self.entries.truncate(start);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.starts.clear();
    }

    /// The entries with their salts, as [`encoded`] makes them. Nothing is left.
    pub(crate) fn take(&mut self, entropy: &[u8; 32]) -> Vec<u8> {
        let mut entries = std::mem::take(&mut self.entries);
        for (index, start) in (0u64..).zip(self.starts.drain(..)) {
            entries[start + 1..][..size_of::<Salt>()].copy_from_slice(&salt(entropy, index));
        }
        entries
    }
}

/// Where a chain does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("audit block {block}: {what}")]
pub struct Break {
    pub block: u64,
    pub what: &'static str,
}

/// What a check of the whole chain found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    pub blocks: u64,
    pub records: u64,
    pub broken: Option<Break>,
}

struct Chain(Sha256);

impl Chain {
    fn start(tip: &Tip, at: Time, count: usize) -> Chain {
        let mut hash = Sha256::new();
        hash.update(b"pombo audit 1\0");
        hash.update(tip.hash);
        hash.update(tip.sequence.to_le_bytes());
        hash.update(tip.position.to_le_bytes());
        hash.update(at.millis().to_le_bytes());
        hash.update((count as u64).to_le_bytes());
        Chain(hash)
    }

    fn leaf(&mut self, leaf: &Hash) {
        self.0.update(leaf);
    }

    fn end(self) -> Hash {
        self.0.finalize().into()
    }
}

fn salt(entropy: &[u8; 32], index: u64) -> Salt {
    let mut hash = Sha256::new();
    hash.update(entropy);
    hash.update(index.to_le_bytes());
    let digest: Hash = hash.finalize().into();
    let mut salt = [0; 16];
    salt.copy_from_slice(&digest[..16]);
    salt
}

fn leaf(salt: &Salt, body: &[u8]) -> Hash {
    let mut hash = Sha256::new();
    hash.update(salt);
    hash.update(body);
    hash.finalize().into()
}

enum Entry<'a> {
    Full { salt: Salt, body: &'a [u8] },
    Erased { leaf: Hash },
}

impl Entry<'_> {
    fn leaf(&self) -> Hash {
        match self {
            Entry::Full { salt, body } => leaf(salt, body),
            Entry::Erased { leaf } => *leaf,
        }
    }
}

/// The entries of a block; a last `None` where the bytes make no sense.
fn entries(bytes: &[u8]) -> impl Iterator<Item = Option<Entry<'_>>> {
    let mut rest = Bytes(bytes);
    std::iter::from_fn(move || {
        if rest.0.is_empty() {
            return None;
        }
        let entry = (|| match rest.take()? {
            [FULL] => {
                let salt = rest.take()?;
                let length = u32::from_le_bytes(rest.take()?);
                Some(Entry::Full { salt, body: rest.cut(length as usize)? })
            }
            [ERASED] => Some(Entry::Erased { leaf: rest.take()? }),
            _ => None,
        })();
        if entry.is_none() {
            rest.0 = &[];
        }
        Some(entry)
    })
}

/// The readable records of a block with their positions; erased ones are passed over.
pub fn records(position: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, Record)> {
    (position..).zip(entries(bytes)).filter_map(|(position, entry)| match entry? {
        Entry::Full { body, .. } => Some((position, Record::decode(body)?)),
        Entry::Erased { .. } => None,
    })
}

/// The same, only of one message. The others are passed over without being read.
pub(crate) fn records_of(
    position: u64,
    bytes: &[u8],
    message: MessageId,
) -> impl Iterator<Item = (u64, Record)> {
    let id = message.bits().to_be_bytes();
    (position..).zip(entries(bytes)).filter_map(move |(position, entry)| match entry? {
        Entry::Full { body, .. } if body.get(MESSAGE_AT..MESSAGE_AT + id.len()) == Some(&id[..]) => {
            Some((position, Record::decode(body)?))
        }
        _ => None,
    })
}

/// The block's bytes with the records that `erase` picks replaced by their leaves. Its hash still holds.
pub fn erased(bytes: &[u8], mut erase: impl FnMut(&Record) -> bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    for entry in entries(bytes) {
        match entry? {
            Entry::Full { salt, body } if !Record::decode(body).is_some_and(|record| erase(&record)) => {
                out.push(FULL);
                out.extend(salt);
                out.extend(u32::try_from(body.len()).ok()?.to_le_bytes());
                out.extend(body);
            }
            gone => {
                out.push(ERASED);
                out.extend(gone.leaf());
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u128) -> Record {
        Record {
            event: Event::Accepted,
            at: Time::from_millis(1_700_000_000_000),
            message: MessageId::from_bits(0x018b_cfe5_6800_7000_8000_0000_0000_0000 | n),
            from: None,
            to: Some(StateName::Pending),
            tenant: "default".into(),
            channel: "crm".into(),
            actor: "pombo".into(),
            detail: format!("{{\"n\":{n}}}"),
        }
    }

    fn chain(blocks: u8) -> (Vec<Block>, Tip) {
        let mut tip = Tip::default();
        let sealed = (0..blocks)
            .map(|n| {
                let records: Vec<_> = (0..3).map(|i| record(u128::from(n) * 10 + i)).collect();
                let (block, next) = tip.seal(&records, Time::from_millis(i64::from(n)), &[n; 32]);
                tip = next;
                block
            })
            .collect();
        (sealed, tip)
    }

    fn verify(blocks: &[Block]) -> Result<Tip, Break> {
        blocks.iter().try_fold(Tip::default(), |tip, block| tip.follow(block))
    }

    #[test]
    fn records_that_are_gathered_one_by_one_are_the_same_entries() {
        let records: Vec<Record> = (1..=3).map(record).collect();
        let mut gathered = Gathered::default();
        for record in &records {
            gathered.push(record);
        }
        assert_eq!((gathered.len(), gathered.is_empty()), (3, false));
        assert_eq!(gathered.take(&[7; 32]), encoded(&records, &[7; 32]));
        assert_eq!((gathered.len(), gathered.take(&[7; 32])), (0, Vec::new()));
    }

    #[test] // REQ AU-1
    fn an_untouched_chain_holds_and_gives_its_records_back() {
        let (blocks, tip) = chain(4);
        assert_eq!(verify(&blocks), Ok(tip));
        let read: Vec<_> = records(blocks[1].position, &blocks[1].entries).collect();
        assert_eq!(read, [(3, record(10)), (4, record(11)), (5, record(12))]);
    }

    #[test] // REQ AU-1
    fn an_edit_a_deletion_and_a_swap_are_noticed() {
        let (blocks, _) = chain(4);
        for at in [20, 60, 90] {
            let mut edited = blocks.clone();
            edited[2].entries[at] ^= 1;
            assert_eq!(verify(&edited).unwrap_err().block, 2, "byte {at}");
        }
        let mut missing = blocks.clone();
        missing.remove(1);
        assert_eq!(verify(&missing).unwrap_err().block, 2);
        let mut swapped = blocks;
        swapped.swap(1, 2);
        assert!(verify(&swapped).is_err());
    }

    #[test] // REQ AU-3
    fn an_erased_record_leaves_the_chain_valid_and_is_gone() {
        let (mut blocks, tip) = chain(3);
        blocks[1].entries = erased(&blocks[1].entries, |record| record.detail.contains("11")).unwrap();
        assert_eq!(verify(&blocks), Ok(tip));
        let read: Vec<_> = records(3, &blocks[1].entries).map(|(position, _)| position).collect();
        assert_eq!(read, [3, 5]);
        assert!(!String::from_utf8_lossy(&blocks[1].entries).contains("11}"));
    }

    #[test]
    fn broken_bytes_are_reported_and_never_panic() {
        let (mut blocks, _) = chain(1);
        for length in 0..blocks[0].entries.len() {
            let mut cut = blocks[0].clone();
            cut.entries.truncate(length);
            assert!(Tip::default().follow(&cut).is_err());
        }
        blocks[0].entries = vec![7; 100];
        assert!(Tip::default().follow(&blocks[0]).is_err());
    }
}
