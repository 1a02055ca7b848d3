//! A look over the store in a folder, beside whoever uses it.

use std::collections::BTreeSet;
use std::path::Path;

use pombo_kernel::id::{MessageId, MessageKey};
use rusqlite::Connection;

use super::moving::{COPYING, counts, expect_store, looking, meta, open_claims, paused};
use super::pausing::noted;
use super::{Reader, file, rekeying as rekeyed, rows, sql};
use crate::checking::{
    Checkup, Counted, Evidence, Fault, List, Place, Question, RESTORE, chain_fault, judge, unfinished_copy,
};
use crate::core::Reading;
use crate::home::Trail;
use crate::moving::MoveError;
use crate::rows::members;
use crate::vault::{Keys, Vault, rekeying};
use crate::{StoreError, audit, stats};

/// Reads everything and changes nothing. `tell` hears what it is at.
pub(crate) fn check(
    folder: &Path,
    keys: Option<&Keys>,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Checkup, MoveError> {
    expect_store(folder)?;
    let db = looking(folder)?;
    tell("pages and indexes");
    let mut faults = damage(&db)?;
    let mut checkup = Checkup {
        schema: file::SCHEMA,
        schema_known: file::SCHEMA,
        rows: Vec::new(),
        audit_blocks: 0,
        audit_records: 0,
        paused: None,
        encryption: None,
        faults: Vec::new(),
    };
    // In a file whose pages are damaged, nothing else can be told from what is true.
    if faults.is_empty() {
        tell("messages");
        db.execute_batch("BEGIN")?;
        let counted = counts(&db)?.into_iter();
        checkup.rows = counted.map(|(table, count)| Counted { table, count }).collect();
        checkup.paused = paused(&db)?;
        if meta(&db, COPYING)?.is_some() {
            faults.push(unfinished_copy());
        } else {
            faults.extend(judge(&mut Beside(&db))?);
            let (opened, wrong) = rekeying::check(&mut rekeyed::Beside(&db), keys, tell)?;
            checkup.encryption = Some(opened);
            faults.extend(wrong);
        }
        db.execute_batch("COMMIT")?;
        tell("the audit chain");
        let verified = Reader::open(&folder.join(file::NAME), Vault::blind())?.verify()?;
        let audit::Verified { blocks, records, .. } = verified;
        (checkup.audit_blocks, checkup.audit_records) = (blocks, records);
        faults.extend(chain_fault(&verified));
    }
    checkup.faults = faults;
    Ok(checkup)
}

/// The audit chain. What is wrong with the rest of the file is another question.
pub(crate) fn trail(folder: &Path) -> Result<Trail, MoveError> {
    expect_store(folder)?;
    let db = looking(folder)?;
    let reader = Box::new(Reader::open(&folder.join(file::NAME), Vault::blind())?);
    Ok(Trail { reader, end: rows::tip(&db)?, noted: noted(&folder.join(file::NAME)) })
}

/// What is wrong with the file itself.
fn damage(db: &Connection) -> Result<Vec<Fault>, StoreError> {
    let said = rows::all(db, "PRAGMA integrity_check(20)", [], |row| row.get::<_, String>(0));
    let said = match said {
        Err(StoreError::Broken(why)) => vec![why],
        other => other?,
    };
    let wrong = said.into_iter().filter(|line| line != "ok");
    Ok(wrong.map(|line| Fault { what: format!("the file is damaged: {line}"), hint: RESTORE }).collect())
}

struct Beside<'a>(&'a Connection);

impl Evidence for Beside<'_> {
    fn ask(&mut self, question: Question) -> Result<Vec<i64>, StoreError> {
        let sql = match question {
            Question::Unplaced => sql!("checking/unplaced"),
            Question::Double => sql!("checking/double"),
            Question::Stray => sql!("checking/stray"),
            Question::Order => sql!("checking/order"),
            Question::Gaps => sql!("checking/gaps"),
            Question::Blobs => sql!("checking/blobs"),
            Question::Letters => sql!("checking/letters"),
            Question::Recipients => sql!("checking/recipients"),
            Question::Directory => sql!("checking/directory"),
            Question::Causes => sql!("checking/causes"),
        };
        rows::all(self.0, sql, [], |row| row.get(0))
    }

    fn held(&mut self) -> Result<BTreeSet<i64>, StoreError> {
        let mut held = BTreeSet::new();
        for claim in open_claims(self.0)? {
            let list = claim.last().map_or(Ok(&[][..]), |list| list.bytes())?;
            held.extend(members(list).map(|(key, ..)| key.0));
        }
        Ok(held)
    }

    fn id_of(&mut self, key: i64) -> Result<Option<MessageId>, StoreError> {
        Ok(rows::head(self.0, MessageKey(key))?.map(|head| head.id))
    }

    fn lists(&mut self) -> Result<Vec<List>, StoreError> {
        rows::all(self.0, sql!("checking/lists"), [], |row| {
            let mut counts = [0; 7];
            for (nth, count) in counts.iter_mut().enumerate() {
                *count = row.get::<_, i64>(nth + 2)?.unsigned_abs();
            }
            Ok(List { campaign: row.get(0)?, body: row.get(1)?, counts })
        })
    }

    fn waiting(&mut self) -> Result<Vec<(Place, i64)>, StoreError> {
        rows::all(self.0, sql!("checking/waiting"), [stats::Counted::Waiting as u8], |row| {
            Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?))
        })
    }

    fn places(&mut self, keys: &BTreeSet<i64>) -> Result<Vec<Place>, StoreError> {
        let mut places = Vec::new();
        for key in keys {
            places.extend(rows::head(self.0, MessageKey(*key))?.map(|head| {
                let queue = &head.name;
                let [tenant, lane, channel] =
                    [queue.tenant.as_str(), queue.lane.as_str(), queue.channel.as_str()].map(str::to_owned);
                (tenant, lane, channel)
            }));
        }
        Ok(places)
    }
}
