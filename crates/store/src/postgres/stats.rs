//! Counters, as they are written and read.

use std::collections::BTreeMap;

use pombo_kernel::name::{ChannelName, LaneName, Tenant};
use pombo_kernel::time::Time;

use super::link::{Row, Step};
use super::{Postgres, rows, sql};
use crate::rows::whole;
use crate::stats::{Late, PAST_DUE_SEEN, backlog_of, start_of};
use crate::{Backlog, Counted, Measured, StatsWanted, StoreError, Tally};

impl Postgres {
    /// What the group adds to the counters.
    pub(super) fn counted(&mut self, now: Time) -> Option<Step> {
        if self.ledger.is_empty() {
            return None;
        }
        let small = |hour: i64| i32::try_from(hour).unwrap_or(i32::MAX);
        let (mut hours, mut tenants, mut channels) = (Vec::new(), Vec::new(), Vec::new());
        let (mut whats, mut details) = (Vec::new(), Vec::new());
        let (mut counts, mut sums) = (Vec::new(), Vec::new());
        self.counts.extend(self.ledger.take());
        for entry in &self.counts {
            // What is kept for all time as well is added there when it is added up.
            hours.push(small(entry.what.hours(now).next().unwrap_or(0)));
            tenants.push(entry.tenant.as_str().to_owned());
            channels.push(entry.channel.as_ref().map_or("", ChannelName::as_str).to_owned());
            whats.push(entry.what as i16);
            details.push(rows::escaped(&entry.detail));
            counts.push(entry.sum.count);
            sums.push(entry.sum.ms);
        }
        let values = vec![
            hours.into(),
            tenants.into(),
            channels.into(),
            whats.into(),
            details.into(),
            counts.into(),
            sums.into(),
        ];
        Some((sql!("tally_add"), values))
    }
}

fn what(row: &Row, column: usize) -> Result<Option<Counted>, StoreError> {
    Ok(Counted::from_code(rows::get::<i16>(row, column)?.into()))
}

pub(super) fn tally(row: &Row) -> Result<Option<Tally>, StoreError> {
    let Some(what) = what(row, 2)? else { return Ok(None) };
    let (tenant, channel) = (rows::name(row, 0)?, rows::name(row, 1)?);
    let count = rows::number::<i64, u64>(row, 3)?;
    Ok(Some(Tally { tenant, channel, what, count }))
}

pub(super) fn hours(wanted: &StatsWanted) -> Step {
    let (from, until) = wanted.hours();
    let small = |hour| i32::try_from(hour).unwrap_or(i32::MAX);
    let whose = wanted.tenant.as_ref().map(|tenant| tenant.as_str().to_owned());
    let range = vec![small(from).into(), small(until).into(), whose.into()];
    match wanted.pieces() {
        None => (sql!("tally_hours"), range),
        Some(pieces) => {
            let pieces: Vec<i32> = pieces.into_iter().map(small).collect();
            (sql!("tally_pieces"), range.into_iter().chain([pieces.into()]).collect())
        }
    }
}

pub(super) fn measured(row: &Row) -> Result<Option<Measured>, StoreError> {
    let Some(what) = what(row, 3)?.filter(|what| !what.is_lesson()) else { return Ok(None) };
    let of_none = rows::text(row, 2)?.is_empty();
    Ok(Some(Measured {
        hour: start_of(rows::get::<i32>(row, 0)?.into()),
        tenant: rows::name(row, 1)?,
        channel: if of_none { None } else { Some(rows::name(row, 2)?) },
        what,
        detail: rows::text(row, 4)?,
        count: rows::get(row, 5)?,
        sum: rows::get(row, 6)?,
    }))
}

pub(super) fn ask_backlog(now: Time) -> Vec<Step> {
    let depths = (sql!("tally_waiting"), vec![(Counted::Waiting as i16).into()]);
    vec![depths, (sql!("ready_late"), vec![now.millis().into(), whole(PAST_DUE_SEEN).into()])]
}

pub(super) fn backlog(depths: &[Row], late: &[Row]) -> Result<Vec<Backlog>, StoreError> {
    let place = |row: &Row| -> Result<(Tenant, LaneName, ChannelName), StoreError> {
        Ok((rows::name(row, 0)?, rows::name(row, 1)?, rows::name(row, 2)?))
    };
    let depth = |row| Ok((place(row)?, rows::number::<i64, u64>(row, 3)?));
    let depths = depths.iter().map(depth).collect::<Result<Vec<_>, StoreError>>()?;
    let found = |row| {
        let late = Late { count: rows::number::<i64, u64>(row, 4)?, oldest: rows::time(row, 3)? };
        Ok((place(row)?, late))
    };
    let late = late.iter().map(found).collect::<Result<BTreeMap<_, _>, StoreError>>()?;
    Ok(backlog_of(depths, &late))
}
