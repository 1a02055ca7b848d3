//! Where in the audit the records of one message are.
//!
//! No index leads from a message to its records: it would cost a row for each of them, on the way of every send. But the
//! rows of a message say most of it. The message and each row of its history name the block in which they were
//! written, so that what was accepted, settled, cancelled, expired, discarded or reprocessed is found by name. What lies
//! between two such blocks is looked for where the rows say that something happened: a claim just before its attempt
//! began, a message that was hastened when it became due, an edit when it replaced what was said, a report when it was
//! made.
//!
//! What is looked at is bounded, however large the store is: the blocks that are named; all between two of them if that
//! is not much; otherwise a piece around each of these times, and a larger one where the records that were found do not
//! join. Not found is therefore what no row tells of, if more lies around it than that: a claim that was given back
//! unsent long before the next one, and reports between the first and the last. An export, which reads all records of a
//! message's time, has these too.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use pombo_kernel::id::MessageId;
use pombo_kernel::message::StateName;
use pombo_kernel::time::{Span, Time};

use crate::StoreError;
use crate::audit::{Event, Record};

/// Gaps that are looked into together, from the newest on. Most messages have fewer.
const AT_ONCE: usize = 16;

/// So many records between two named blocks are looked at without asking where among them: about half a megabyte, as
/// much as two pieces.
const WHOLE: u64 = 4_096;

/// How long before its attempt a claim is made, at most, if nothing else happened: the engine begins with what it
/// claimed as soon as it has it.
const PROMPT: Span = Span::from_secs(2);

/// Edits between two steps that are looked for, the newest.
const EDITS: usize = 256;

/// What the rows of a message say of its records.
#[derive(Debug)]
pub(crate) struct Tracks {
    /// The name of the block of its acceptance.
    pub(crate) accepted: i64,
    /// When it was first due, and when its producer wanted it to be.
    pub(crate) due: Time,
    pub(crate) send_at: Option<Time>,
    /// Its history, in order.
    pub(crate) steps: Vec<Step>,
    /// Its edits: how many steps there were, and when.
    pub(crate) edits: Vec<(usize, Time)>,
    /// When the furthest report was made.
    pub(crate) heard: Option<Time>,
    /// Since when it is being sent.
    pub(crate) claimed: Option<Time>,
}

/// One row of a message's history.
#[derive(Debug)]
pub(crate) struct Step {
    /// The name of its block.
    pub(crate) block: i64,
    /// Of the attempt; 0 where there was none.
    pub(crate) number: i64,
    pub(crate) started_at: Time,
    pub(crate) finished_at: Time,
    pub(crate) next_due: Option<Time>,
    pub(crate) delay: Option<Span>,
}

impl Tracks {
    fn names(&self) -> Vec<i64> {
        let mut names: Vec<i64> =
            [self.accepted].into_iter().chain(self.steps.iter().map(|step| step.block)).collect();
        names.dedup();
        names
    }

    /// When the message was due after so many steps, if it waited then.
    fn due_after(&self, steps: usize) -> Option<Due> {
        let Some(last) = steps.checked_sub(1) else {
            return Some(Due { at: self.due, planned: self.send_at.unwrap_or(self.due) });
        };
        let step = self.steps.get(last)?;
        Some(Due { at: step.next_due?, planned: step.finished_at + step.delay.unwrap_or_default() })
    }
}

/// When a message was due, and when it would have been if nobody had hastened it, as far as its row says.
#[derive(Clone, Copy)]
struct Due {
    at: Time,
    planned: Time,
}

/// Where a block is in the chain. The end of the chain is a block without records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sequence: u64,
    pub(crate) position: u64,
    pub(crate) count: u64,
}

impl Place {
    fn records(self) -> Range<u64> {
        self.position..self.position + self.count
    }
}

/// The first block from `low` on and before `high` that is of that time or later, by sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seek {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) at: Time,
}

/// What was found in some pieces of the chain, and the positions of blocks that were sought, none where there is no such
/// block.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) records: Vec<(u64, Record)>,
    pub(crate) sought: Vec<Option<u64>>,
}

/// The audit chain, as a search asks for it.
pub(crate) trait Chain {
    /// The places of named blocks, as far as they have one yet, and the end of the chain.
    fn places(&mut self, names: &[i64]) -> Result<(HashMap<i64, Place>, Place), StoreError>;

    /// The message's records in the blocks that have some of these positions, and where blocks of these times begin.
    fn look(&mut self, id: MessageId, pieces: &[Range<u64>], seeks: &[Seek]) -> Result<Seen, StoreError>;
}

/// The records of a message before that position, the newest first, at most so many.
pub(crate) fn search(
    chain: &mut impl Chain,
    id: MessageId,
    tracks: &Tracks,
    before: u64,
    max: usize,
) -> Result<Vec<(u64, Record)>, StoreError> {
    let (places, end) = chain.places(&tracks.names())?;
    let mut gaps = gaps(tracks, &places, end);
    gaps.retain(|gap| gap.below.position < before);
    let mut found = BTreeMap::new();
    for some in gaps.rchunks(AT_ONCE) {
        found.extend(look_into(chain, id, some)?);
        // Whatever else there is comes before all of these.
        if found.range(..before).count() >= max {
            break;
        }
    }
    found.split_off(&before);
    Ok(found.into_iter().rev().take(max).collect())
}

/// The records of the named blocks below these gaps, and of the gaps.
fn look_into(
    chain: &mut impl Chain,
    id: MessageId,
    gaps: &[Gap],
) -> Result<BTreeMap<u64, Record>, StoreError> {
    let above = gaps.last().map(|gap| gap.above.records());
    let pieces = merged(gaps.iter().map(Gap::at_first).chain(above).collect());
    let signs: Vec<(&Gap, Sign)> = gaps
        .iter()
        .filter(|gap| gap.between() > WHOLE)
        .flat_map(|gap| gap.signs.iter().map(move |sign| (gap, *sign)))
        .collect();
    let seeks: Vec<Seek> = signs.iter().map(|(gap, sign)| gap.seek(*sign)).collect();
    let seen = chain.look(id, &pieces, &seeks)?;
    let mut found: BTreeMap<u64, Record> = seen.records.into_iter().collect();
    for reach in [Reach::Near, Reach::Far] {
        let wanted =
            signs.iter().zip(&seen.sought).filter(|((gap, sign), _)| gap.wants(*sign, reach, &found));
        let pieces = merged(wanted.map(|((gap, _), at)| gap.around(*at, reach)).collect());
        if !pieces.is_empty() {
            found.extend(chain.look(id, &pieces, &[])?.records);
        }
    }
    Ok(found)
}

/// What something in a gap is found by: a time at which a row says that it happened, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// It was claimed about then.
    Claim(Time),
    /// It could have been claimed from then on, and was so later.
    Wait(Time),
    /// Somebody made it due.
    Haste(Time),
    Edit(Time),
    /// A provider spoke of it then, or soon after.
    Report(Time),
}

/// How many records are looked at around a sign, to either side.
///
/// A claim is some commits before its attempt, of each node one or two. The commits of a node that sends 10,000 a second
/// have a few hundred records each, so that the near piece has it; the far one is for many nodes whose clocks do
/// not quite agree. It is about two megabytes, in which a database looks for sixteen bytes without sending them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Near = 1_024,
    Far = 8_192,
}

/// What lies between two named blocks that follow each other, or after the last one.
#[derive(Debug)]
struct Gap {
    below: Place,
    above: Place,
    /// When the attempt began that ends it, or that is under way.
    started: Option<Time>,
    signs: Vec<Sign>,
}

impl Gap {
    /// Records that are in neither of its blocks.
    fn between(&self) -> u64 {
        self.above.position.saturating_sub(self.below.records().end)
    }

    /// What is looked at whatever the rows say.
    fn at_first(&self) -> Range<u64> {
        match self.between() {
            0 => self.below.records(),
            few if few <= WHOLE => self.below.position..self.above.position,
            _ => self.below.records(),
        }
    }

    fn seek(&self, sign: Sign) -> Seek {
        let (Sign::Claim(at) | Sign::Wait(at) | Sign::Haste(at) | Sign::Edit(at) | Sign::Report(at)) = sign;
        Seek { low: self.below.sequence + 1, high: self.above.sequence, at }
    }

    /// The piece of it around a block that was sought; its end, where there is none.
    fn around(&self, at: Option<u64>, reach: Reach) -> Range<u64> {
        let (at, reach) = (at.unwrap_or(self.above.position), reach as u64);
        at.saturating_sub(reach).max(self.below.records().end)
            ..at.saturating_add(reach).min(self.above.position)
    }

    /// Whether there is still something to be looked for around a sign.
    fn wants(&self, sign: Sign, reach: Reach, found: &BTreeMap<u64, Record>) -> bool {
        let region = self.below.position..self.above.records().end.max(self.below.records().end);
        let records: Vec<&Record> = found.range(region).map(|(_, record)| record).collect();
        let is = |event: Event, at: Time| records.iter().any(|it| it.event == event && it.at == at);
        match sign {
            Sign::Claim(_) => !self.is_told(&records),
            Sign::Wait(_) => reach == Reach::Near || !self.is_told(&records),
            // A row does not always say when it would have been due: it is looked for where it would be, and no further.
            Sign::Haste(at) => reach == Reach::Near && !is(Event::Hastened, at),
            Sign::Edit(at) => !is(Event::Edited, at),
            Sign::Report(_) => !is_heard(&records),
        }
    }

    /// Whether these records say how it came from one block to the other: each begins where the one before ended, and the
    /// attempt follows a claim.
    fn is_told(&self, records: &[&Record]) -> bool {
        let join = records.windows(2).all(|two| two[0].to == two[1].from);
        let sends = |record: &&Record, started: Time| {
            record.to == Some(StateName::Sending) && record.at + PROMPT >= started
        };
        join && self.started.is_none_or(|started| records.iter().any(|record| sends(record, started)))
    }
}

/// Whether the first report is among these records.
fn is_heard(records: &[&Record]) -> bool {
    let first = records.iter().find(|record| record.event == Event::Delivery);
    first.is_some_and(|record| !record.detail.contains(r#""before":"#))
}

/// The gaps of a message's records, in order. A block that has no place yet counts as if it were not there: its step is
/// told of in the gap before.
fn gaps(tracks: &Tracks, places: &HashMap<i64, Place>, end: Place) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    let names = [tracks.accepted].into_iter().chain(tracks.steps.iter().map(|step| step.block));
    for (steps, name) in names.enumerate() {
        if let Some(place) = places.get(&name) {
            if let Some(gap) = gaps.last_mut() {
                gap.above = *place;
            }
            gaps.push(Gap { below: *place, above: end, started: None, signs: Vec::new() });
        }
        let Some(gap) = gaps.last_mut() else { continue };
        let next = tracks.steps.get(steps);
        let started = match next {
            Some(step) => Some(step.started_at).filter(|_| step.number > 0),
            None => tracks.claimed,
        };
        gap.started = started.or(gap.started);
        gap.signs.extend(started.map(Sign::Claim));
        if let Some(due) = tracks.due_after(steps) {
            let until = started.or(next.map(|step| step.started_at));
            let waited = until.is_some_and(|until| until.since(due.at) > PROMPT);
            gap.signs.extend((due.at != due.planned).then_some(Sign::Haste(due.at)));
            gap.signs.extend(waited.then_some(Sign::Wait(due.at)));
        }
        let edits = tracks.edits.iter().rev().filter(|(after, _)| *after == steps).take(EDITS);
        gap.signs.extend(edits.map(|(_, at)| Sign::Edit(*at)));
        if let (None, Some(heard)) = (next, tracks.heard) {
            let sent = tracks.steps.last().map(|step| step.finished_at);
            gap.signs.extend([Some(heard), sent].into_iter().flatten().map(Sign::Report));
        }
    }
    gaps
}

/// The same pieces, in order and without overlaps.
fn merged(mut pieces: Vec<Range<u64>>) -> Vec<Range<u64>> {
    pieces.retain(|piece| !piece.is_empty());
    pieces.sort_unstable_by_key(|piece| piece.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match merged.last_mut() {
            Some(last) if piece.start <= last.end => last.end = last.end.max(piece.end),
            _ => merged.push(piece),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    /// A chain of very many blocks with two records each, of a millisecond each, and what was asked of it.
    struct Long {
        records: BTreeMap<u64, Record>,
        blocks: u64,
        looks: usize,
        looked_at: u64,
    }

    impl Chain for Long {
        fn places(&mut self, names: &[i64]) -> Result<(HashMap<i64, Place>, Place), StoreError> {
            let place = |sequence, count| Place { sequence, position: sequence * 2, count };
            // As on PostgreSQL, where a block gets its place a moment later.
            let sealed = names.iter().filter(|name| name.unsigned_abs() < self.blocks);
            Ok((sealed.map(|name| (*name, place(name.unsigned_abs(), 2))).collect(), place(self.blocks, 0)))
        }

        fn look(&mut self, _: MessageId, pieces: &[Range<u64>], seeks: &[Seek]) -> Result<Seen, StoreError> {
            self.looks += 1;
            let mut seen = Seen::default();
            for piece in pieces {
                assert!(piece.end <= self.blocks * 2, "{piece:?}");
                self.looked_at += piece.end - piece.start;
                let holding = piece.start / 2 * 2..piece.end.div_ceil(2) * 2;
                seen.records.extend(self.records.range(holding).map(|(at, record)| (*at, record.clone())));
            }
            let first = |seek: &Seek| (seek.low..seek.high).find(|sequence| at(*sequence) >= seek.at);
            seen.sought = seeks.iter().map(|seek| first(seek).map(|sequence| sequence * 2)).collect();
            Ok(seen)
        }
    }

    fn at(sequence: u64) -> Time {
        NOW + Span::from_millis(sequence)
    }

    fn id() -> MessageId {
        MessageId::from_bits(0x018b_cfe5_6800_7000_8000_0000_0000_0001).unwrap()
    }

    fn record(event: Event, block: u64, from: StateName, to: StateName) -> (u64, Record) {
        let record = Record {
            event,
            at: at(block),
            message: Some(id()),
            from: Some(from).filter(|_| event != Event::Accepted),
            to: Some(to),
            tenant: "default".into(),
            channel: "crm".into(),
            actor: "pombo".into(),
            detail: "{}".into(),
        };
        (block * 2 + 1, record)
    }

    fn attempt(block: u64, started: u64, next_due: Option<u64>) -> Step {
        Step {
            block: i64::try_from(block).unwrap(),
            number: 1,
            started_at: at(started),
            finished_at: at(block),
            next_due: next_due.map(at),
            delay: next_due.map(|due| Span::from_millis(due - block)),
        }
    }

    fn tracks(steps: Vec<Step>) -> Tracks {
        let (due, send_at) = (at(10), None);
        Tracks { accepted: 10, due, send_at, steps, edits: Vec::new(), heard: None, claimed: None }
    }

    use StateName::{Failed, Pending, Sending, Sent};

    fn long(records: &[(u64, Record)]) -> Long {
        Long { records: records.iter().cloned().collect(), blocks: 500_000, looks: 0, looked_at: 0 }
    }

    /// What is found, and in how many looks at how many records.
    fn found(chain: &mut Long, tracks: &Tracks) -> (Vec<Event>, usize, u64) {
        let found = search(chain, id(), tracks, u64::MAX, 100).unwrap();
        let events = found.iter().rev().map(|(_, record)| record.event).collect();
        (events, chain.looks, chain.looked_at)
    }

    fn retried() -> [(u64, Record); 5] {
        [
            record(Event::Accepted, 10, Pending, Pending),
            record(Event::Claimed, 100_000, Pending, Sending),
            record(Event::RetryScheduled, 200_000, Sending, Pending),
            record(Event::Claimed, 300_000, Pending, Sending),
            record(Event::Sent, 400_000, Sending, Sent),
        ]
    }

    // REQ AU-1
    #[test]
    fn a_claim_far_from_both_blocks_is_found_by_its_attempt_in_few_looks() {
        let steps = vec![attempt(200_000, 100_003, Some(300_000)), attempt(400_000, 300_001, None)];
        let (events, looks, looked_at) = found(&mut long(&retried()), &tracks(steps));
        let expected = [Event::Accepted, Event::Claimed, Event::RetryScheduled, Event::Claimed, Event::Sent];
        assert_eq!((events.as_slice(), looks), (&expected[..], 2));
        assert!(looked_at < 8_000, "{looked_at}");
    }

    #[test]
    fn a_claim_that_is_not_where_its_attempt_says_is_looked_for_further_off_and_then_left() {
        let steps = || vec![attempt(200_000, 101_500, Some(300_000)), attempt(400_000, 300_001, None)];
        let (events, looks, looked_at) = found(&mut long(&retried()), &tracks(steps()));
        assert_eq!((events.len(), looks), (5, 3));
        assert!(looked_at < 40_000, "{looked_at}");
        let mut without = retried().to_vec();
        without.remove(1);
        let (events, looks, looked_at) = found(&mut long(&without), &tracks(steps()));
        assert_eq!((events.len(), looks), (4, 3));
        assert!(looked_at < 60_000, "{looked_at}");
    }

    #[test]
    fn what_was_taken_over_is_looked_for_until_its_claim_is_there() {
        let records = [
            record(Event::Accepted, 10, Pending, Pending),
            record(Event::Claimed, 97_500, Pending, Sending),
            record(Event::TakenOver, 100_000, Sending, Sending),
            record(Event::Failed, 200_000, Sending, Failed),
        ];
        let (events, ..) = found(&mut long(&records), &tracks(vec![attempt(200_000, 100_000, None)]));
        assert_eq!(events, [Event::Accepted, Event::Claimed, Event::TakenOver, Event::Failed]);
    }

    #[test]
    fn a_block_that_has_no_place_yet_is_not_waited_for() {
        let mut chain = Long { blocks: 350_000, ..long(&retried()[..4]) };
        let steps = vec![attempt(200_000, 100_000, Some(300_000)), attempt(400_000, 300_000, None)];
        let (events, ..) = found(&mut chain, &tracks(steps));
        assert_eq!(events, [Event::Accepted, Event::Claimed, Event::RetryScheduled, Event::Claimed]);
        let steps = vec![attempt(400_000, 300_000, None)];
        let unsealed = Tracks { accepted: 450_000, ..tracks(steps) };
        assert_eq!(found(&mut chain, &unsealed).0, []);
    }

    #[test]
    fn very_many_steps_are_read_a_few_at_a_time() {
        let mut records = vec![record(Event::Accepted, 10, Pending, Pending)];
        let mut steps = Vec::new();
        for block in (1_000..101_000).step_by(100) {
            records.push(record(Event::Claimed, block - 50, Pending, Sending));
            records.push(record(Event::RetryScheduled, block, Sending, Pending));
            steps.push(attempt(block, block - 50, Some(block + 50)));
        }
        let (tracks, mut chain) = (tracks(steps), long(&records));
        let newest = search(&mut chain, id(), &tracks, u64::MAX, 10).unwrap();
        assert_eq!((newest.len(), chain.looks), (10, 1));
        assert!(chain.looked_at < 10_000, "{}", chain.looked_at);
        let (mut all, mut before) = (Vec::new(), u64::MAX);
        while let Some(last) = {
            let page = search(&mut chain, id(), &tracks, before, 7).unwrap();
            let last = page.last().map(|(position, _)| *position);
            all.extend(page);
            last
        } {
            before = last;
        }
        all.reverse();
        assert_eq!(all, records);
    }

    #[test]
    fn pieces_that_meet_are_one() {
        assert_eq!(merged(vec![7..9, 0..3, 3..5, 4..4, 8..12, 20..21]), [0..5, 7..12, 20..21]);
        assert_eq!(merged(vec![0..10, 2..3, 11..12]), [0..10, 11..12]);
    }
}
