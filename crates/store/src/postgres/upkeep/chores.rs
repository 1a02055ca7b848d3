//! Cleaning: dead rows, months that come and go, counters to add up, and a word to whoever is in the way.

use std::collections::HashMap;
use std::time::Duration;

use pombo_kernel::retention::KEYS_KEPT;
use pombo_kernel::time::{Span, Time};
use tracing::{debug, info, warn};

use super::super::link::{Link, Row, Step};
use super::super::migrate;
use super::super::month::{BY_MONTH, Month};
use super::super::sql;
use crate::StoreError;
use crate::rows::members;

/// What is written and deleted all the time, with how many dead rows are too many if hardly any other is there.
///
/// Autovacuum comes once a minute at best; a burst makes a million dead rows in that time.
const LIVE: [(&str, i64); 13] = [
    ("ready", 5_000),
    ("ordered", 5_000),
    ("expiry", 5_000),
    ("inbox", 5_000),
    ("command", 5_000),
    ("claim", 250),
    ("tally_added", 2_000),
    ("cause_added", 2_000),
    ("flow", 1_000),
    ("node", 1_000),
    ("office", 1_000),
    ("board", 1_000),
    ("audit_tip", 1_000),
];
/// Of these, those that a backlog makes large, in the order of `upkeep_rows`, with about how many bytes a row of
/// them needs in table and indexes, or more, and from how many bytes on it is worth writing one anew. Vacuum makes
/// room for new rows and gives back hardly any.
const GROWING: [(&str, i64, i64); 5] = [
    ("ready", 100, MIB / 4),
    ("ordered", 180, MIB),
    ("expiry", 80, MIB),
    ("inbox", 65_536, MIB),
    // Its rows are large, and come and go so fast that it has this size while much is sent.
    ("claim", 65_536, 32 * MIB),
];
const MIB: i64 = 1 << 20;
/// That many rows are written anew in a moment.
const FEW_ROWS: i64 = 10_000;
/// Between one time and the next that a table is written anew, or that this is tried.
const SHRINK_EVERY: Span = Span::from_secs(5);
/// Everybody waits for a table that is being written anew, and for one that somebody waits for in order to do so.
/// So it is only asked, some times, whether nobody uses it just now; what is dead is not read; and it is given up if it
/// takes too long all the same.
const QUICKLY: Duration = Duration::from_millis(100);
const ASK_TIMES: u8 = 20;
const ASK_AGAIN: Duration = Duration::from_millis(10);
/// How long to leave a table alone that could not be cleaned.
const REST: Span = Span::from_secs(2);
const REST_MAX: Span = Span::from_mins(1);

const HOLDERS_EVERY: Span = Span::from_mins(1);
const MONTHS_EVERY: Span = Span::from_hours(1);
const FOLD_EVERY: Span = Span::from_secs(5);
const BLOBS_AT_ONCE: usize = 100;
/// Rows of each table, so that nobody waits for long.
const TRACES_AT_ONCE: i64 = 1_000;

/// What was done when, by the database's clock.
pub(super) struct Chores {
    retention: Option<Span>,
    /// What writing a table anew may take.
    quickly: Duration,
    holders: Option<Time>,
    months: Option<Time>,
    folded: Option<Time>,
    /// Tables that were written anew, or nearly, since when and for how long they are left as they are.
    shrunk: HashMap<&'static str, (Time, Span)>,
    /// Tables that a vacuum did not help, since when and for how long they are left alone.
    resting: HashMap<&'static str, (Time, Span)>,
}

/// Whether it is time again; also when the clock was set back.
fn again(last: &mut Option<Time>, every: Span, now: Time) -> bool {
    let due = last.is_none_or(|last| now < last || now.since(last) >= every);
    if due {
        *last = Some(now);
    }
    due
}

impl Chores {
    pub(super) fn new(retention: Option<Span>) -> Chores {
        Chores {
            retention,
            quickly: QUICKLY,
            holders: None,
            months: None,
            folded: None,
            shrunk: HashMap::new(),
            resting: HashMap::new(),
        }
    }

    /// For tests about what is written anew, however slow the machine is.
    #[cfg(test)]
    pub(super) fn patient(self) -> Chores {
        Chores { quickly: Duration::from_secs(60), ..self }
    }

    /// Does what is due. A chore that fails does not keep the others from being done, unless the connection is gone.
    pub(super) fn round(&mut self, link: &Link, now: Time) -> Result<(), StoreError> {
        told("dead rows could not be removed", link, self.vacuum(link, now))?;
        if again(&mut self.holders, HOLDERS_EVERY, now) {
            told("nobody knows what is in the way of cleaning", link, name_the_oldest_holder(link))?;
        }
        if again(&mut self.months, MONTHS_EVERY, now) {
            told("the partitions of the coming months could not be made", link, make_months(link, now))?;
            if let Some(retention) = self.retention {
                told("old months could not be dropped", link, drop_months(link, retention, now))?;
            }
        }
        if again(&mut self.folded, FOLD_EVERY, now) {
            told("counters could not be added up", link, fold(link))?;
        }
        Ok(())
    }

    /// Removes dead rows where there are too many, so that what is live stays small.
    pub(super) fn vacuum(&mut self, link: &Link, now: Time) -> Result<(), StoreError> {
        let sizes = sizes(link)?;
        for (table, floor) in LIVE {
            let Some(size) = sizes.get(table) else { continue };
            if size.dead < floor + size.live / 5 {
                self.resting.remove(table);
                self.shrink(link, table, size, now)?;
                continue;
            }
            if rests(&self.resting, table, now) {
                continue;
            }
            vacuum(link, table)?;
            let Some(left) = self::sizes(link)?.remove(table) else { continue };
            if left.dead > size.dead / 2 {
                // Somebody may still see them. They stay until that ends, however often we come.
                let rest = self.resting.get(table).map_or(REST, |(_, rest)| rest.doubled(1).min(REST_MAX));
                self.resting.insert(table, (now, rest));
            } else {
                self.resting.remove(table);
                self.shrink(link, table, &left, now)?;
            }
        }
        Ok(())
    }

    /// Writes a table anew, with its indexes, that a backlog has left large. Others wait for it, for some
    /// milliseconds; where it would have to wait itself, it is left for later.
    fn shrink(&mut self, link: &Link, table: &'static str, size: &Size, now: Time) -> Result<(), StoreError> {
        let Some(nth) = GROWING.iter().position(|(name, ..)| *name == table) else { return Ok(()) };
        let (_, a_row, large) = GROWING[nth];
        let is_small = |rows: i64| size.bytes <= 2 * rows * a_row;
        if size.bytes < large || is_small(size.live) || rests(&self.shrunk, table, now) {
            return Ok(());
        }
        // What the server has counted is behind while much is deleted, and forgotten when it crashes.
        let most = FEW_ROWS + 1;
        let found = as_engine(link, vec![(sql!("upkeep_rows"), vec![most.into()])])?;
        let rows = found.iter().flatten().next().map_or(most, |row| row.get(nth));
        if rows > FEW_ROWS || is_small(rows) {
            return Ok(());
        }
        vacuum(link, table)?;
        let (mut alone, quickly) = (false, self.quickly.as_millis());
        let done = migrate::within(link, |link| {
            lock_if_unused(link, table)?;
            alone = true;
            link.script(&format!(
                "SET LOCAL enable_seqscan = off; SET LOCAL statement_timeout = '{quickly}ms'"
            ))?;
            link.script(&format!("CLUSTER pombo.{table} USING {table}_pkey"))
        });
        let rest = if alone && done.is_err() { REST_MAX } else { SHRINK_EVERY };
        self.shrunk.insert(table, (now, rest));
        match done {
            Err(error) if link.is_closed() => Err(error),
            Err(error) => {
                debug!(%error, table, "a table stays large for now");
                Ok(())
            }
            Ok(()) => {
                debug!(table, bytes = size.bytes, rows, "a table that a backlog had left was written anew");
                Ok(())
            }
        }
    }
}

/// Makes room for new rows where dead ones are. What is free at the table's end is not cut off: for that, everybody who
/// uses the table would have to wait, or we for them.
fn vacuum(link: &Link, table: &str) -> Result<(), StoreError> {
    link.script(&format!("VACUUM (SKIP_LOCKED, TRUNCATE off) pombo.{table}"))
}

/// Whether a table is to be left alone; not when the clock was set back.
fn rests(tables: &HashMap<&'static str, (Time, Span)>, table: &str, now: Time) -> bool {
    tables.get(table).is_some_and(|(since, rest)| now >= *since && now.since(*since) < *rest)
}

/// Locks a table for the rest of the transaction in a moment in which nobody uses it, without standing in line: whoever
/// comes after one that stands there waits as well.
fn lock_if_unused(link: &Link, table: &str) -> Result<(), StoreError> {
    let seconds = ASK_AGAIN.as_secs_f64();
    link.script(&format!(
        "DO $$ BEGIN
           FOR nth IN 1..{ASK_TIMES} LOOP
             BEGIN
               LOCK TABLE pombo.{table} IN ACCESS EXCLUSIVE MODE NOWAIT;
               RETURN;
             EXCEPTION WHEN lock_not_available THEN
               PERFORM pg_sleep({seconds});
             END;
           END LOOP;
           RAISE lock_not_available USING MESSAGE = 'it is in use';
         END $$"
    ))
}

/// A table's rows, as far as the server has counted them, and bytes.
struct Size {
    dead: i64,
    live: i64,
    /// Of table and indexes.
    bytes: i64,
}

fn sizes(link: &Link) -> Result<HashMap<String, Size>, StoreError> {
    let names: Vec<_> = LIVE.iter().map(|(table, _)| *table).collect();
    let rows = link.query(sql!("upkeep_tables"), vec![names.into()])?;
    let size = |row: &Row| Size { dead: row.get(1), live: row.get(2), bytes: row.get(3) };
    Ok(rows.iter().map(|row| (row.get(0), size(row))).collect())
}

/// Passes on a failure that leaves no connection, and tells of others.
fn told(what: &str, link: &Link, done: Result<(), StoreError>) -> Result<(), StoreError> {
    match done {
        Err(error) if link.is_closed() => Err(error),
        Err(error) => {
            warn!(%error, "{what}; it is tried again later");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// What keeps the server from removing dead rows, and what a person can do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) what: String,
    /// A process, or a name.
    pub(super) name: String,
    pub(super) seconds: Option<i64>,
    transactions: i64,
}

impl Holder {
    fn remedy(&self) -> &'static str {
        match self.what.as_str() {
            "session" => "end its transaction, or the session with pg_terminate_backend(pid)",
            "standby" => "end the long query on the standby, or turn hot_standby_feedback off there",
            "prepared transaction" => "COMMIT PREPARED or ROLLBACK PREPARED it",
            _ => "have its reader catch up, or drop it with pg_drop_replication_slot",
        }
    }
}

pub(super) fn oldest_holder(link: &Link) -> Result<Option<Holder>, StoreError> {
    let rows = link.query(sql!("upkeep_holders"), Vec::new())?;
    Ok(rows.first().map(|row| Holder {
        what: row.get(0),
        name: row.get(1),
        seconds: row.get(2),
        transactions: row.get::<_, Option<i64>>(3).unwrap_or_default(),
    }))
}

fn name_the_oldest_holder(link: &Link) -> Result<(), StoreError> {
    if let Some(holder) = oldest_holder(link)? {
        warn!(
            what = holder.what,
            name = holder.name,
            seconds = holder.seconds,
            transactions = holder.transactions,
            hint = holder.remedy(),
            "an old transaction keeps PostgreSQL from removing dead rows, which makes everything slower"
        );
    }
    Ok(())
}

fn make_months(link: &Link, now: Time) -> Result<(), StoreError> {
    if migrate::owns(link)? { migrate::make_months(link, now) } else { Ok(()) }
}

/// Adds up what groups have added to the counters, so that whoever reads them has little to add.
pub(super) fn fold(link: &Link) -> Result<(), StoreError> {
    as_engine(link, vec![(sql!("tally_fold"), Vec::new()), (sql!("cause_fold"), Vec::new())]).map(drop)
}

/// Drops whole months that ended long enough ago and of which everything is finished: with the messages, their
/// history and whatever else is known of them. The audit stays.
pub(super) fn drop_months(link: &Link, retention: Span, now: Time) -> Result<(), StoreError> {
    let partitions = link.query(sql!("month_all"), Vec::new())?;
    for month in partitions.iter().filter_map(|row| Month::named(row.get(0))) {
        if month.plus(1).start() + retention > now || !migrate::owns(link)? || is_unfinished(link, month)? {
            continue;
        }
        while drop_traces(link, month, now)? {}
        let names = BY_MONTH.map(|table| format!("{table}_{}", month.name())).join(", ");
        migrate::within(link, |link| link.script(&format!("DROP TABLE IF EXISTS {names}")))?;
        info!(month = month.name(), "messages older than the retention were dropped");
        while drop_unused_blobs(link)? == BLOBS_AT_ONCE {}
    }
    Ok(())
}

/// Removes some of what else is known of a month's messages; whether there may be more. Idempotency keys stay for as long
/// as if all of it had ended now.
fn drop_traces(link: &Link, month: Month, now: Time) -> Result<bool, StoreError> {
    let (from, to) = month.keys();
    let until = (now + KEYS_KEPT).millis();
    let values = vec![from.0.into(), to.0.into(), TRACES_AT_ONCE.into(), until.into()];
    let found = as_engine(link, vec![(sql!("month_traces"), values)])?;
    Ok(found.iter().flatten().next().is_some_and(|row| row.get::<_, i64>(0) > 0))
}

/// Drops some attachments that no message has any more, and answers how many it found. Whoever accepts a message with
/// one of them just now waits for a moment, and stores it again.
fn drop_unused_blobs(link: &Link) -> Result<usize, StoreError> {
    let mut steps = link.begin();
    steps.push((sql!("read_as_engine"), Vec::new()));
    steps.push((sql!("blob_unused"), vec![i64::try_from(BLOBS_AT_ONCE).unwrap_or(i64::MAX).into()]));
    let found = link.pipeline(steps)?.pop().unwrap_or_default();
    let digests: Vec<Vec<u8>> = found.iter().map(|row| row.get(0)).collect();
    link.pipeline(vec![(sql!("blob_drop"), vec![digests.into()]), ("COMMIT", Vec::new())])?;
    Ok(found.len())
}

fn is_unfinished(link: &Link, month: Month) -> Result<bool, StoreError> {
    let (from, to) = month.keys();
    let asked =
        vec![(sql!("month_unfinished"), vec![from.0.into(), to.0.into()]), (sql!("claim_all"), Vec::new())];
    let found = as_engine(link, asked)?;
    let [waits, journal] = &found[..] else { return Ok(true) };
    let in_flight = |members_of: &[u8]| members(members_of).any(|(key, ..)| key >= from && key < to);
    Ok(!waits.is_empty() || journal.iter().any(|row| in_flight(row.get("members"))))
}

/// Does steps in one transaction that may see and change every tenant's rows, as the owner of the tables may not.
fn as_engine(link: &Link, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, StoreError> {
    let mut all = link.begin();
    all.push((sql!("read_as_engine"), Vec::new()));
    let before = all.len();
    all.extend(steps);
    all.push(("COMMIT", Vec::new()));
    let mut rows = link.pipeline(all)?;
    rows.pop();
    Ok(rows.split_off(before))
}
