//! A look over the store in a database, beside whoever uses it.

use std::collections::BTreeSet;
use std::sync::Arc;

use pombo_kernel::id::{MessageId, MessageKey};

use super::link::{Driver, Kind, Link, Row};
use super::moving::{at_one_moment, counts, expect_store, meta};
use super::pausing::{COPYING, PAUSED};
use super::reader::Reader;
use super::rekeying::DatabaseExchange;
use super::{Target, migrate, rows, sql};
use crate::audit::Tip;
use crate::checking::{
    Checkup, Counted, Evidence, List, Place, Question, chain_fault, judge, unfinished_copy,
};
use crate::core::Reading;
use crate::home::Trail;
use crate::moving::MoveError;
use crate::rows::members;
use crate::vault::{Keys, Vault, rekeying};
use crate::{Pause, StoreError, audit, stats};

/// Reads everything and changes nothing. `tell` hears what it is at.
pub(crate) fn check(
    address: &Target,
    keys: Option<&Keys>,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Checkup, MoveError> {
    let driver = Driver::start()?;
    let link = Link::open(&driver, address, Kind::Upkeep)?;
    expect_store(&link, address)?;
    tell("messages");
    at_one_moment(&link)?;
    let paused = meta(&link, PAUSED)?.map(|bytes| Pause::read(&bytes)).transpose()?;
    let counted = counts(&link)?.into_iter();
    let rows = counted.map(|(table, count)| Counted { table, count }).collect();
    let mut faults = match meta(&link, COPYING)? {
        Some(_) => vec![unfinished_copy()],
        None => judge(&mut Beside(&link))?,
    };
    link.query("COMMIT", Vec::new())?;
    let encryption = match meta(&link, COPYING)? {
        Some(_) => None,
        None => {
            let (opened, wrong) = rekeying::check(&mut DatabaseExchange::open(address)?, keys, tell)?;
            faults.extend(wrong);
            Some(opened)
        }
    };
    tell("the audit chain");
    let verified = Reader::new(driver, address.clone(), Arc::new(Vault::blind())).verify()?;
    faults.extend(chain_fault(&verified));
    let audit::Verified { blocks, records, .. } = verified;
    Ok(Checkup {
        schema: migrate::SCHEMA,
        schema_known: migrate::SCHEMA,
        rows,
        audit_blocks: blocks,
        audit_records: records,
        paused,
        encryption,
        faults,
    })
}

/// The audit chain. Where it ends is written in a row of its own, which whoever cuts it off may forget.
pub(crate) fn trail(address: &Target) -> Result<Trail, MoveError> {
    let driver = Driver::start()?;
    let link = Link::open(&driver, address, Kind::Upkeep)?;
    expect_store(&link, address)?;
    let found = link.query(sql!("audit_end"), Vec::new())?;
    let row =
        found.first().ok_or_else(|| StoreError::Broken("the end of the audit chain is missing".into()))?;
    let (sequence, position) = (rows::number::<i64, u64>(row, 0)?, rows::number::<i64, u64>(row, 1)?);
    let end = Tip { sequence, position, hash: rows::bytes(row, 2)? };
    let reader = Reader::new(driver, address.clone(), Arc::new(Vault::blind()));
    Ok(Trail { reader: Box::new(reader), end, noted: Some(end) })
}

fn place(row: &Row) -> Result<Place, StoreError> {
    Ok((rows::text(row, 0)?, rows::text(row, 1)?, rows::text(row, 2)?))
}

struct Beside<'a>(&'a Link);

impl Beside<'_> {
    fn keys(&self, sql: &'static str) -> Result<Vec<i64>, StoreError> {
        self.0.query(sql, Vec::new())?.iter().map(|row| rows::get(row, 0)).collect()
    }
}

impl Evidence for Beside<'_> {
    fn ask(&mut self, question: Question) -> Result<Vec<i64>, StoreError> {
        self.keys(match question {
            Question::Unplaced => sql!("checking/unplaced"),
            Question::Double => sql!("checking/double"),
            Question::Stray => sql!("checking/stray"),
            Question::Order => sql!("checking/order"),
            Question::Gaps => sql!("checking/gaps"),
            Question::Blobs => sql!("checking/blobs"),
            Question::Letters => sql!("checking/letters"),
            Question::Recipients => sql!("checking/recipients"),
            // An index, which the database sees to.
            Question::Directory => return Ok(Vec::new()),
            Question::Causes => sql!("checking/causes"),
        })
    }

    fn held(&mut self) -> Result<BTreeSet<i64>, StoreError> {
        let mut held = BTreeSet::new();
        for row in &self.0.query(sql!("checking/journal"), Vec::new())? {
            let (mut keys, mut steps) = (Vec::new(), Vec::new());
            for (key, _, step) in members(rows::get(row, 0)?) {
                keys.push(key.0);
                steps.push(i32::try_from(step).unwrap_or(i32::MAX));
            }
            for open in &self.0.query(sql!("checking/unsettled"), vec![keys.into(), steps.into()])? {
                held.insert(rows::get(open, 0)?);
            }
        }
        Ok(held)
    }

    fn id_of(&mut self, key: i64) -> Result<Option<MessageId>, StoreError> {
        let found = self.0.query(sql!("checking/nonce"), vec![key.into()])?;
        found.first().map(|row| Ok(MessageId::new(MessageKey(key), rows::get(row, 0)?))).transpose()
    }

    fn lists(&mut self) -> Result<Vec<List>, StoreError> {
        let read = |row| {
            let mut counts = [0; 7];
            for (nth, count) in counts.iter_mut().enumerate() {
                *count = rows::number::<i64, u64>(row, nth + 2)?;
            }
            Ok(List { campaign: rows::text(row, 0)?, body: rows::text(row, 1)?, counts })
        };
        self.0.query(sql!("checking/lists"), Vec::new())?.iter().map(read).collect()
    }

    fn waiting(&mut self) -> Result<Vec<(Place, i64)>, StoreError> {
        let asked = vec![(stats::Counted::Waiting as i16).into()];
        let read = |row| Ok((place(row)?, rows::get(row, 3)?));
        self.0.query(sql!("checking/waiting"), asked)?.iter().map(read).collect()
    }

    fn places(&mut self, keys: &BTreeSet<i64>) -> Result<Vec<Place>, StoreError> {
        let keys: Vec<i64> = keys.iter().copied().collect();
        self.0.query(sql!("checking/places"), vec![keys.into()])?.iter().map(place).collect()
    }
}
