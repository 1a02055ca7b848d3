//! What is learnt, as it is looked up, counted and read.

use std::collections::HashMap;

use pombo_kernel::id::MessageKey;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};

use super::link::{Row, Step};
use super::{Postgres, rows, sql};
use crate::learning::{Learnt, Names, Past, follows, told, week_of};
use crate::{Counted, Place, Settlement, StoreError};

impl Postgres {
    /// The failures that these settlements' attempts follow, where they follow any. Most were read with their message.
    pub(super) fn pasts(
        &mut self,
        settlements: &[Settlement],
    ) -> Result<HashMap<MessageKey, Past>, StoreError> {
        let (mut keys, mut rounds): (Vec<i64>, Vec<i16>) = (Vec::new(), Vec::new());
        let mut pasts = HashMap::new();
        for settlement in settlements {
            let held = self.claims.valid(settlement.key);
            let Some(held) = held.filter(|held| follows(&held.message, settlement, held.progress)) else {
                continue;
            };
            let key = held.message.id.key();
            if let Some(failed) = self.claims.past(held) {
                let failure = rows::failure_in(&self.vault, (key, failed.steps - 1), &failed.failure)?;
                let (ended_at, first_ended_at) = (failed.ended_at, failed.first_ended_at);
                pasts.insert(key, Past { failure, ended_at, first_ended_at });
            } else {
                keys.push(key.0);
                rounds.push(i16::try_from(held.progress.round).unwrap_or(i16::MAX));
            }
        }
        if keys.is_empty() {
            return Ok(pasts);
        }
        for row in &self.ask_one(sql!("history_past"), vec![keys.into(), rounds.into()])? {
            let (key, seq) = (rows::key(row, 0)?, rows::number::<i32, u32>(row, 1)?);
            let Some(failure) = rows::failure(&self.vault, (key, seq), row, 3)? else { continue };
            let (ended_at, first_ended_at) = (rows::time(row, 2)?, rows::time(row, 4)?);
            pasts.insert(key, Past { failure, ended_at, first_ended_at });
        }
        Ok(pasts)
    }

    /// Has the names by which the week's counters are told apart.
    pub(super) fn know_names(&mut self, now: Time) -> Result<(), StoreError> {
        if !self.names.are_of(now) {
            let (sql, values) = ask_learnt(&[week_of(now)], None);
            let found = self.ask_one(sql, values)?;
            self.names = Names::read(learnt(&found)?, now);
        }
        Ok(())
    }

    pub(super) fn learn_outage(&mut self, place: &Place, lasted: Span, now: Time) -> Result<(), StoreError> {
        self.know_names(now)?;
        self.ledger.outage_ended(place, lasted, &mut self.names);
        Ok(())
    }
}

pub(super) fn ask_learnt(weeks: &[i64], whose: Option<&Tenant>) -> Step {
    let weeks: Vec<i32> = weeks.iter().map(|week| i32::try_from(*week).unwrap_or(i32::MAX)).collect();
    let whose = whose.map(|tenant| tenant.as_str().to_owned());
    (sql!("tally_learnt"), vec![weeks.into(), (Counted::Trial as i16).into(), whose.into()])
}

pub(super) fn learnt(found: &[Row]) -> Result<Vec<Learnt>, StoreError> {
    let read = |row: &Row| -> Result<_, StoreError> {
        let Some(what) = Counted::from_code(rows::get::<i16>(row, 2)?.into()) else { return Ok(None) };
        let (tenant, channel, detail) = (rows::name(row, 0)?, rows::name(row, 1)?, rows::text(row, 3)?);
        Ok(Some((tenant, channel, what, detail, rows::get(row, 4)?, rows::get(row, 5)?)))
    };
    let found = found.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(told(found.into_iter().flatten()))
}
