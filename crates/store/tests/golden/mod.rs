//! Stores of every earlier schema, as code of their time wrote them, and what that code said of them.
//!
//! `told` is what [`told::told`] said when it was compiled with that code, so that nobody has to guess what was meant.

pub(crate) mod told;

use std::collections::BTreeSet;

use pombo_kernel::attachment::Blob;
use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, FailureReason, State, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Walk;
use pombo_store::core::{Core, Reading};
use pombo_store::dead::{Act, Ruled, Ruling};
use pombo_store::shelf::{Doc, Pick, Shelf, Wanted};
use pombo_store::{Ask, Filter, Line, NodeId, Reported, Settled, anchor, suppression};

use crate::world::{End, START, settlement};
use told::{ODD, told};

/// Such a store, and what it says of itself.
pub(crate) struct Golden {
    pub(crate) schema: u32,
    /// SQL that makes it.
    pub(crate) dump: &'static str,
    told: &'static str,
}

macro_rules! golden {
    ($store:literal, $schema:literal) => {
        Golden {
            schema: $schema,
            dump: include_str!(concat!($store, "-", $schema, ".sql")),
            told: include_str!(concat!($store, "-", $schema, ".txt")),
        }
    };
}

/// No code wrote schema 2: it came with schema 3.
#[allow(dead_code, reason = "each suite has one kind of store")]
pub(crate) const SQLITE: [Golden; 8] = [
    golden!("sqlite", 1),
    Golden {
        schema: 2,
        dump: concat!(
            include_str!("sqlite-1.sql"),
            include_str!("../../sql/sqlite/migrations/0002.sql"),
            "PRAGMA user_version = 2;"
        ),
        told: include_str!("sqlite-1.txt"),
    },
    golden!("sqlite", 3),
    golden!("sqlite", 4),
    golden!("sqlite", 5),
    golden!("sqlite", 6),
    golden!("sqlite", 7),
    golden!("sqlite", 8),
];

/// The present schema as it was for half an hour: where the directory ends had no key.
#[allow(dead_code, reason = "each suite has one kind of store")]
pub(crate) const SQLITE_9_AT_FIRST: Golden = Golden {
    schema: 9,
    dump: concat!(
        include_str!("sqlite-8.sql"),
        "CREATE TABLE directory (
           slice INTEGER NOT NULL,
           recipient INTEGER NOT NULL,
           key INTEGER NOT NULL,
           PRIMARY KEY (slice, recipient, key)
         ) STRICT, WITHOUT ROWID;
         CREATE TABLE directory_end (key INTEGER NOT NULL) STRICT;
         INSERT INTO directory (slice, recipient, key)
         SELECT slice, recipient, key FROM message ORDER BY slice, recipient, key;
         INSERT INTO directory_end (key) SELECT coalesce(max(key), 0) FROM message;
         DROP INDEX message_by_recipient;
         DROP INDEX audit_by_position;
         PRAGMA user_version = 9;"
    ),
    told: include_str!("sqlite-8.txt"),
};

#[allow(dead_code, reason = "each suite has one kind of store")]
pub(crate) const POSTGRES: [Golden; 4] =
    [golden!("postgres", 1), golden!("postgres", 2), golden!("postgres", 3), golden!("postgres", 4)];

/// A day after everything in them.
const LATER: Time = Time::from_millis(START.millis() + 86_400_000);
const YEARS_LATER: Time = Time::from_millis(1_860_000_000_000);

fn tenants() -> [Tenant; 2] {
    ["default", "acme"].map(|tenant| tenant.parse().unwrap())
}

impl Golden {
    /// Holds what the store says by now against what it said then.
    pub(crate) fn is_told_by(&self, core: &mut impl Core) {
        let kind = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let then: Vec<&str> = self.told.lines().collect();
        let kinds: BTreeSet<String> = then.iter().map(|line| kind(line)).collect();
        let now: Vec<String> = told(core).into_iter().filter(|line| kinds.contains(&kind(line))).collect();
        let now: Vec<&str> = now.iter().map(String::as_str).collect();
        let lost: Vec<_> = then.iter().filter(|line| !now.contains(line)).collect();
        let new: Vec<_> = now.iter().filter(|line| !then.contains(line)).collect();
        assert!(lost.is_empty() && new.is_empty(), "schema {}: lost {lost:#?}, new {new:#?}", self.schema);
        assert_eq!(now, then, "schema {}", self.schema);
        self.holds_together(&mut core.reader().unwrap());
    }

    /// Signed ends are places of the chain, whoever is suppressed is found by their address, and attachments are there.
    fn holds_together(&self, reader: &mut impl Reading) {
        for doc in docs(reader, Shelf::Anchor) {
            let (_, anchor) = anchor::read(&doc).unwrap();
            let mut walk = Walk::default();
            walk.on(&reader.chain(0, usize::try_from(anchor.sequence).unwrap()).unwrap());
            assert_eq!(walk.tip, anchor.tip());
        }
        for doc in docs(reader, Shelf::Suppression) {
            let entry = suppression::read(&doc).unwrap();
            assert_eq!(doc.id, suppression::place(entry.kind, &entry.recipient));
        }
        if self.told.contains("rich.example") {
            let file = Blob::of(vec![7_u8; 100]);
            assert_eq!(reader.blob(file.digest).unwrap().as_deref(), Some(&[7_u8; 100][..]));
        }
    }
}

fn docs(reader: &mut impl Reading, shelf: Shelf) -> Vec<Doc> {
    let all = Wanted { shelf, tenant: None, pick: Pick::All { after: None }, limit: 100 };
    reader.docs(&all).unwrap()
}

fn lines(reader: &mut impl Reading) -> Vec<Line> {
    tenants()
        .into_iter()
        .flat_map(|tenant| reader.page(&Filter { tenant, ..Filter::default() }, None, 1_000).unwrap().lines)
        .collect()
}

fn in_state(reader: &mut impl Reading, state: StateName) -> BTreeSet<MessageId> {
    lines(reader).iter().filter(|line| line.state.name() == state).map(|line| line.message.id).collect()
}

/// Does everything that is still to be done: what was being sent is in doubt, what is dead is tried again, what waits
/// goes once it is due, each once, and then nothing waits.
pub(crate) fn goes_on(core: &mut impl Core) {
    let ana = Actor("ana".into());
    let mut commits = 10_000_u64;
    let mut commit = |core: &mut _, now| {
        commits += 1;
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&commits.to_le_bytes());
        Core::commit(core, now, &entropy).unwrap();
    };
    let mut reader = core.reader().unwrap();
    let delivered = Filter { delivery: Some(Delivery::Delivered), ..Filter::default() };
    for line in reader.page(&delivered, None, 10).unwrap().lines {
        let channel = &line.message.queue.channel;
        let report = |delivery| Report { provider_id: ODD.into(), delivery, at: Some(LATER), detail: None };
        assert_eq!(core.report(channel, &report(Delivery::Delivered), LATER).unwrap(), Reported::Kept);
        let read = core.report(channel, &report(Delivery::Read), LATER).unwrap();
        assert!(matches!(read, Reported::Moved { id, .. } if id == line.message.id), "{read:?}");
    }
    let lost = core.take_over(NodeId(5), 100, LATER).unwrap();
    commit(core, LATER);
    let taken: BTreeSet<_> = lost.iter().map(|claimed| claimed.message.id).collect();
    assert!(!taken.is_empty());
    let sending = |line: &&Line| line.state.name() == StateName::Sending;
    assert_eq!(taken, lines(&mut reader).iter().filter(sending).map(|line| line.message.id).collect());
    for claimed in &lost {
        assert_eq!(core.settle(settlement(claimed, End::Sent, LATER), LATER).unwrap(), Settled::Done);
    }
    commit(core, LATER);
    for tenant in tenants() {
        let dead = Filter { tenant: tenant.clone(), state: Some(StateName::Failed), ..Filter::default() };
        let page = reader.page(&dead, None, 100).unwrap();
        let ids: Vec<_> = page.lines.iter().map(|line| line.message.id).collect();
        let done = vec![Ruled::Done; ids.len()];
        let ruling = Ruling { tenant, ids, act: Act::Reprocess, by: ana.clone(), note: None, with: None };
        assert_eq!(core.rule(&ruling, LATER).unwrap(), Ok(done));
    }
    for (place, _) in reader.blocks().unwrap() {
        assert!(core.unblock(&place, &ana, LATER).unwrap());
    }
    commit(core, LATER);
    let waiting = in_state(&mut reader, StateName::Pending);
    let mut sent = BTreeSet::new();
    // Those of an order and of a campaign go one after the other, and one was to wait for years.
    for now in (1..=20).map(|hour| LATER + Span::from_hours(hour)).chain([YEARS_LATER]) {
        core.expire(100, now).unwrap();
        for lane in ["default", "bulk"] {
            let (lane, rates) = (lane.parse().unwrap(), Default::default());
            for claimed in core.claim(&Ask { node: NodeId(5), lane, max: 100, rates }, now).unwrap() {
                assert!(sent.insert(claimed.message.id), "{} went twice", claimed.message.id);
                assert_eq!(claimed.progress.doubtful, claimed.message.body.to == "doubtful");
                assert_eq!(core.settle(settlement(&claimed, End::Sent, now), now).unwrap(), Settled::Done);
            }
            commit(core, now);
        }
    }
    let late: BTreeSet<_> = waiting.difference(&sent).copied().collect();
    for line in lines(&mut reader).iter().filter(|line| waiting.contains(&line.message.id)) {
        match &line.state {
            State::Sent { .. } => assert!(sent.contains(&line.message.id)),
            State::Failed { reason, .. } => {
                assert_eq!((*reason, late.contains(&line.message.id)), (FailureReason::Expired, true));
            }
            other => panic!("{}: {other:?}", line.message.id),
        }
    }
    assert!(sent.is_subset(&waiting) && sent.len() > 3, "{sent:?}");
    assert_eq!(reader.backlog(LATER).unwrap().iter().map(|it| it.waiting).sum::<u64>(), 0);
    assert_eq!(reader.verify().unwrap().broken, None);
}
