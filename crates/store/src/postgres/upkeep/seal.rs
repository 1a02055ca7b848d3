//! Making the audit a chain. Commits of all nodes leave their records beside it; one node at a time links them.

use pombo_kernel::time::Time;

use super::super::link::{Link, Row, Step};
use super::super::sql;
use crate::StoreError;
use crate::audit::Tip;

/// Rows sealed in one transaction.
const AT_ONCE: i64 = 64;

/// Seals whatever is not sealed, in the order in which it was committed, and answers with the position after the last
/// sealed record. Those who do this at the same time wait for each other.
pub(in crate::postgres) fn seal(link: &Link) -> Result<u64, StoreError> {
    loop {
        let mut steps = link.begin();
        steps.extend(next());
        let done = link.pipeline(steps).and_then(|rows| {
            let (mut steps, sealed) = sealed(&rows[rows.len() - 2..])?;
            steps.push(("COMMIT", Vec::new()));
            link.pipeline(steps).map(|_| sealed)
        });
        match done {
            Ok((position, count)) if count < AT_ONCE => return Ok(position),
            Ok(_) => {}
            Err(error) => {
                if !link.is_closed() {
                    link.query("ROLLBACK", Vec::new())?;
                }
                return Err(error);
            }
        }
    }
}

/// The same within a transaction that is open.
pub(in crate::postgres) fn seal_within(link: &Link) -> Result<u64, StoreError> {
    loop {
        let (steps, (position, count)) = sealed(&link.pipeline(next())?)?;
        link.pipeline(steps)?;
        if count < AT_ONCE {
            return Ok(position);
        }
    }
}

/// Holds the end of the chain and reads what comes next. The second statement sees what whoever held it before wrote.
fn next() -> Vec<Step> {
    vec![(sql!("audit_lock"), Vec::new()), (sql!("audit_unsealed"), vec![AT_ONCE.into()])]
}

/// What makes these rows a part of the chain; then its end, and how many they are.
fn sealed(rows: &[Vec<Row>]) -> Result<(Vec<Step>, (u64, i64)), StoreError> {
    let broken = || StoreError::Broken("the end of the audit chain cannot be read".to_owned());
    let [end, waiting] = rows else { return Err(broken()) };
    let end = end.first().ok_or_else(broken)?;
    let mut tip = Tip {
        sequence: unsigned(end, 0)?,
        position: unsigned(end, 1)?,
        hash: end.try_get::<_, &[u8]>(2).ok().and_then(|hash| hash.try_into().ok()).ok_or_else(broken)?,
    };
    if waiting.is_empty() {
        return Ok((Vec::new(), (tip.position, 0)));
    }
    let (mut batches, mut sequences) = (Vec::new(), Vec::new());
    let (mut positions, mut hashes) = (Vec::new(), Vec::new());
    for row in waiting {
        let count = u32::try_from(row.get::<_, i32>(2)).map_err(|_| broken())?;
        let (block, next) = tip.seal_encoded(row.get(3), count, Time::from_millis(row.get(1)));
        batches.push(row.get::<_, i64>(0));
        sequences.push(signed(block.sequence));
        positions.push(signed(block.position));
        hashes.push(block.hash.to_vec());
        tip = next;
    }
    let moved = vec![signed(tip.sequence).into(), signed(tip.position).into(), tip.hash.as_slice().into()];
    let steps = vec![
        (sql!("audit_seal"), vec![batches.into(), sequences.into(), positions.into(), hashes.into()]),
        (sql!("audit_move"), moved),
    ];
    Ok((steps, (tip.position, i64::try_from(waiting.len()).unwrap_or(i64::MAX))))
}

pub(super) fn unsigned(row: &Row, column: usize) -> Result<u64, StoreError> {
    u64::try_from(row.get::<_, i64>(column))
        .map_err(|_| StoreError::Broken("the audit chain ends before its start".to_owned()))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
