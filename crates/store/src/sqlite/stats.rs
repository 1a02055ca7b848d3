//! Counters, as they are written and read.

use std::collections::BTreeMap;

use pombo_kernel::name::{ChannelName, LaneName, Tenant};
use pombo_kernel::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::file::Db;
use super::moving::open_claims;
use super::{Sqlite, rows, sql};
use crate::rows::{members, whole};
use crate::stats::{Entry, Late, PAST_DUE_SEEN, backlog_of, start_of};
use crate::{Backlog, Counted, Measured, StatsWanted, StoreError, Tally};

impl Sqlite {
    /// Writes what the group adds to the counters, each once.
    pub(super) fn write_counters(&mut self, now: Time) -> Result<(), StoreError> {
        self.counts.extend(self.ledger.take());
        for entry in &self.counts {
            self.file.begin()?;
            add(&self.file.db, entry, now)?;
        }
        Ok(())
    }
}

fn add(db: &Connection, entry: &Entry, now: Time) -> Result<(), StoreError> {
    let channel = entry.channel.as_ref().map_or("", ChannelName::as_str);
    let mut statement = db.prepare_cached(sql!("tally_add"))?;
    for hour in entry.what.hours(now) {
        statement.execute(params![
            hour,
            entry.tenant.as_str(),
            channel,
            entry.what as u8,
            entry.detail,
            entry.sum.count,
            entry.sum.ms
        ])?;
    }
    Ok(())
}

pub(super) fn tallies(db: &Connection) -> Result<Vec<Tally>, StoreError> {
    let read = |row: &Row<'_>| -> rusqlite::Result<_> {
        let Some(what) = Counted::from_code(row.get(2)?) else { return Ok(None) };
        let (tenant, channel, count) = (rows::name(row, 0)?, rows::name(row, 1)?, row.get::<_, i64>(3)?);
        Ok(Some(Tally { tenant, channel, what, count: count.unsigned_abs() }))
    };
    Ok(rows::all(db, sql!("tally_all"), [], read)?.into_iter().flatten().collect())
}

pub(super) fn hours(db: &Connection, wanted: &StatsWanted) -> Result<Vec<Measured>, StoreError> {
    let (from, until) = wanted.hours();
    let read = |row: &Row<'_>| -> rusqlite::Result<_> {
        let what = Counted::from_code(row.get(3)?).filter(|what| !what.is_lesson());
        let Some(what) = what else { return Ok(None) };
        let of_none = row.get_ref(2)?.as_str()?.is_empty();
        Ok(Some(Measured {
            hour: start_of(row.get(0)?),
            tenant: rows::name(row, 1)?,
            channel: if of_none { None } else { Some(rows::name(row, 2)?) },
            what,
            detail: row.get(4)?,
            count: row.get(5)?,
            sum: row.get(6)?,
        }))
    };
    let whose = wanted.tenant.as_ref().map(Tenant::as_str);
    let Some(pieces) = wanted.pieces() else {
        let measured = rows::all(db, sql!("tally_hours"), params![from, until, whose], read)?;
        return Ok(measured.into_iter().flatten().collect());
    };
    let mut measured = Vec::new();
    let ends = pieces.iter().skip(1).copied().chain([until]);
    for (first, end) in pieces.iter().zip(ends) {
        measured.extend(rows::all(db, sql!("tally_piece"), params![first, end, whose], read)?);
    }
    Ok(measured.into_iter().flatten().collect())
}

pub(super) fn backlog(db: &Connection, now: Time) -> Result<Vec<Backlog>, StoreError> {
    let depths = rows::all(db, sql!("tally_waiting"), [Counted::Waiting as u8], |row| {
        let count: i64 = row.get(3)?;
        Ok(((rows::name(row, 0)?, rows::name(row, 1)?, rows::name(row, 2)?), count.unsigned_abs()))
    })?;
    Ok(backlog_of(depths, &late(db, now)?))
}

type Place = (Tenant, LaneName, ChannelName);

/// What could have gone by now, of no campaign, by leaps from seat to seat.
fn late(db: &Connection, now: Time) -> Result<BTreeMap<Place, Late>, StoreError> {
    let mut late: BTreeMap<Place, Late> = BTreeMap::new();
    let mut seats = db.prepare_cached(sql!("ready_seat"))?;
    let mut counting = db.prepare_cached(sql!("ready_late"))?;
    let mut queue_get = db.prepare_cached(sql!("queue_get"))?;
    let (mut queue, mut rank): (i64, i64) = (0, 0);
    let mut known: Option<(i64, Option<Place>)> = None;
    loop {
        let seat = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, rows::time(row, 2)?));
        let Some(next) = seats.query_row([queue, rank], seat).optional()? else { return Ok(late) };
        let first: Time;
        (queue, rank, first) = next;
        if first > now {
            continue;
        }
        if known.as_ref().is_none_or(|(of, _)| *of != queue) {
            let place = queue_get.query_row([queue], |row| {
                let place = (rows::name(row, 0)?, rows::name(row, 1)?, rows::name(row, 2)?);
                Ok(Some(place).filter(|_| row.get(3) == Ok(false)))
            })?;
            known = Some((queue, place));
        }
        let Some((_, Some(place))) = &known else { continue };
        let found = late.entry(place.clone()).or_insert(Late { count: 0, oldest: first });
        found.oldest = found.oldest.min(first);
        let most = whole(PAST_DUE_SEEN - found.count);
        if most > 0 {
            let count: i64 =
                counting.query_row(params![queue, rank, now.millis(), most], |row| row.get(0))?;
            found.count += count.unsigned_abs();
        }
    }
}

/// Counts what waits in a store that was written before that was counted.
pub(super) fn count_waiting(db: &Db) -> Result<(), StoreError> {
    let waiting = rows::all(db, sql!("waiting_all"), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut counts: BTreeMap<i64, i64> = waiting.into_iter().collect();
    for claim in open_claims(db)? {
        let list = claim.last().map_or(Ok(&[][..]), |list| list.bytes())?;
        for (key, ..) in members(list) {
            let stored = rows::stored(db, key)?;
            *counts.entry(stored.map_or(0, |stored| stored.queue)).or_default() += 1;
        }
    }
    let mut put = db.prepare_cached(sql!("waiting_put"))?;
    for (queue, count) in counts {
        put.execute(params![queue, Counted::Waiting as u8, count])?;
    }
    Ok(())
}
