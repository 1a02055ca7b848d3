//! What retries have shown: how often one passes, by the error before it, its number and the time waited.
//!
//! Everything here is a sum of small counters. A store adds one trial at a time to a row, rows of several places add up
//! to those of a wider one, and nothing ever reads a history again.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::Span;

/// A length of time as counters tell it apart: two to the octave, from 100 ms to two days.
///
/// The bounds are 100 ms and 150 ms, doubled again and again. What is shorter than the first is bucket 0, and what is
/// longer than the last belongs to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u8);

impl Bucket {
    /// How many there are.
    pub const COUNT: u8 = 43;
    pub const FIRST: Bucket = Bucket(0);
    pub const LAST: Bucket = Bucket(Bucket::COUNT - 1);

    /// The one that this length of time lies in.
    pub fn of(span: Span) -> Bucket {
        let Some(octave) = (span.millis() / 100).checked_ilog2() else { return Bucket::FIRST };
        let upper = span >= Span::from_millis(150).doubled(octave);
        let index = 1 + 2 * octave + u32::from(upper);
        Bucket(u8::try_from(index).unwrap_or(u8::MAX)).min(Bucket::LAST)
    }

    pub fn all() -> impl DoubleEndedIterator<Item = Bucket> + Clone {
        (0..Bucket::COUNT).map(Bucket)
    }

    pub fn new(index: u8) -> Option<Bucket> {
        (index < Bucket::COUNT).then_some(Bucket(index))
    }

    pub const fn index(self) -> u8 {
        self.0
    }

    /// The shortest length of time in it, and the first that is too long for it. The last one's end only says where
    /// another would begin.
    pub fn bounds(self) -> (Span, Span) {
        (self.from(), Bucket(self.0 + 1).from())
    }

    fn from(self) -> Span {
        let Some(step) = self.0.checked_sub(1) else { return Span::ZERO };
        let base = if step % 2 == 0 { Span::from_millis(100) } else { Span::from_millis(150) };
        base.doubled(u32::from(step / 2))
    }
}

/// Written as the shortest length of time in it.
impl Serialize for Bucket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.from().serialize(serializer)
    }
}

/// Any length of time names the bucket that it lies in.
impl<'de> Deserialize<'de> for Bucket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bucket, D::Error> {
        Span::deserialize(deserializer).map(Bucket::of)
    }
}

impl JsonSchema for Bucket {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bucket".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = Span::json_schema(generator);
        json_schema!({
            "type": "string",
            "description": "the shortest length of time in a bucket; two buckets to the octave",
            "pattern": span.get("pattern")
        })
    }
}

/// What counters tell apart of a retry, besides the error before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Which attempt of its round it was: 2 is the first retry, and 8 stands for all from there on.
    pub attempt: u8,
    /// The time from the end of the attempt before it to its beginning.
    pub wait: Bucket,
    /// The time from the first failure of its round to its beginning.
    pub elapsed: Bucket,
}

impl Cell {
    pub const ATTEMPTS: std::ops::RangeInclusive<u8> = 2..=8;

    /// Where a retry is counted. `attempt` counts within the round, from 1.
    pub fn of(attempt: u16, wait: Span, elapsed: Span) -> Cell {
        let (least, most) = (*Cell::ATTEMPTS.start(), *Cell::ATTEMPTS.end());
        let attempt = u8::try_from(attempt).unwrap_or(most).clamp(least, most);
        // Nobody can have waited longer than it has been failing.
        Cell { attempt, wait: Bucket::of(wait), elapsed: Bucket::of(elapsed.max(wait)) }
    }

    /// How long it had been failing when the wait began, as far as the two buckets can tell.
    pub fn before(self) -> Span {
        let middle = |bucket: Bucket| {
            let (from, to) = bucket.bounds();
            (from.millis() + to.millis()) / 2
        };
        let (from, to) = self.elapsed.bounds();
        Span::from_millis(match (self.attempt, self.wait == self.elapsed) {
            (2, _) => 0,
            // Two moments of one bucket are less than its width apart.
            (_, true) => (to.millis() - from.millis()) * 2 / 5,
            (_, false) => middle(self.elapsed) - middle(self.wait),
        })
    }
}

/// One retry that ended, passed or not.
///
/// A retry that does not count (a fault of ours, a probe that found the destination still down) is no trial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trial {
    /// The category of the failure before it: what was known when its wait was chosen.
    pub category: String,
    pub cell: Cell,
    pub passed: bool,
}

impl Trial {
    /// The name of the counter row that it is added to, the same for ever: `timeout/2/14/14`.
    pub fn key(&self) -> String {
        key(&self.category, self.cell)
    }

    pub fn counts(&self) -> Counts {
        Counts { tried: 1, passed: u64::from(self.passed) }
    }
}

/// The name of a counter row.
pub fn key(category: &str, cell: Cell) -> String {
    format!("{category}/{}/{}/{}", cell.attempt, cell.wait.index(), cell.elapsed.index())
}

/// Which category and cell a counter row is about; nothing if it is no such name.
pub fn parse_key(key: &str) -> Option<(&str, Cell)> {
    let mut parts = key.rsplitn(4, '/');
    let mut number = || parts.next()?.parse::<u8>().ok();
    let elapsed = Bucket::new(number()?)?;
    let wait = Bucket::new(number()?)?;
    let attempt = number().filter(|attempt| Cell::ATTEMPTS.contains(attempt))?;
    let category = parts.next().filter(|category| !category.is_empty())?;
    Some((category, Cell { attempt, wait, elapsed }))
}

/// How many retries there were, and how many of them passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub tried: u64,
    pub passed: u64,
}

impl Counts {
    /// Whether a number of tries is enough to say anything from.
    pub const ENOUGH: u64 = 20;

    pub fn estimate(self) -> Estimate {
        Estimate::of(self)
    }
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, other: Counts) -> Counts {
        Counts {
            tried: self.tried.saturating_add(other.tried),
            passed: self.passed.saturating_add(other.passed),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(iter: I) -> Counts {
        iter.fold(Counts::default(), Add::add)
    }
}

/// One row of counters, as it is listed and exported: one JSON object a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The category of the failure before these retries.
    pub category: String,
    pub attempt: u8,
    pub wait: Bucket,
    pub elapsed: Bucket,
    pub tried: u64,
    pub passed: u64,
}

impl Row {
    pub fn new(category: &str, cell: Cell, counts: Counts) -> Row {
        let Cell { attempt, wait, elapsed } = cell;
        let Counts { tried, passed } = counts;
        Row { category: category.to_owned(), attempt, wait, elapsed, tried, passed }
    }

    pub fn cell(&self) -> Cell {
        let attempt = self.attempt.clamp(*Cell::ATTEMPTS.start(), *Cell::ATTEMPTS.end());
        Cell { attempt, wait: self.wait, elapsed: self.elapsed.max(self.wait) }
    }

    pub fn counts(&self) -> Counts {
        Counts { tried: self.tried, passed: self.passed.min(self.tried) }
    }
}

/// What is known of retries after one kind of failure, in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve(BTreeMap<Cell, Counts>);

impl Curve {
    pub fn add(&mut self, cell: Cell, counts: Counts) {
        if counts.tried > 0 {
            *self.0.entry(cell).or_default() += counts;
        }
    }

    /// Adds what is known of another place, or of another kind of failure.
    pub fn merge(&mut self, other: &Curve) {
        other.cells().for_each(|(cell, counts)| self.add(cell, counts));
    }

    pub fn cells(&self) -> impl Iterator<Item = (Cell, Counts)> + '_ {
        self.0.iter().map(|(cell, counts)| (*cell, *counts))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it in one number.
    pub fn total(&self) -> Counts {
        self.0.values().copied().sum()
    }

    /// By the number of the attempt.
    pub fn by_attempt(&self) -> BTreeMap<u8, Counts> {
        self.by(|cell| cell.attempt)
    }

    /// By the time that was waited.
    pub fn by_wait(&self) -> BTreeMap<Bucket, Counts> {
        self.by(|cell| cell.wait)
    }

    /// By the time since the first failure. Its `passed` are the times to recovery.
    pub fn by_elapsed(&self) -> BTreeMap<Bucket, Counts> {
        self.by(|cell| cell.elapsed)
    }

    fn by<K: Ord>(&self, side: impl Fn(Cell) -> K) -> BTreeMap<K, Counts> {
        let mut sums = BTreeMap::<K, Counts>::new();
        self.cells().for_each(|(cell, counts)| *sums.entry(side(cell)).or_default() += counts);
        sums
    }
}

impl FromIterator<(Cell, Counts)> for Curve {
    fn from_iter<I: IntoIterator<Item = (Cell, Counts)>>(rows: I) -> Curve {
        let mut curve = Curve::default();
        rows.into_iter().for_each(|(cell, counts)| curve.add(cell, counts));
        curve
    }
}

/// One row of a curve, where the category is known from around it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CurveRow")]
struct CurveRow {
    attempt: u8,
    wait: Bucket,
    elapsed: Bucket,
    tried: u64,
    passed: u64,
}

/// Written as a list of rows: `[{"attempt":2,"wait":"4s800ms","elapsed":"4s800ms","tried":312,"passed":221}]`.
impl Serialize for Curve {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.cells().map(|(cell, counts)| CurveRow {
            attempt: cell.attempt,
            wait: cell.wait,
            elapsed: cell.elapsed,
            tried: counts.tried,
            passed: counts.passed,
        }))
    }
}

impl<'de> Deserialize<'de> for Curve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Curve, D::Error> {
        let read = |row: CurveRow| {
            if row.passed > row.tried {
                return Err(de::Error::custom("more passed than were tried"));
            }
            if !Cell::ATTEMPTS.contains(&row.attempt) {
                return Err(de::Error::custom("a retry is attempt 2 to 8"));
            }
            let cell = Cell { attempt: row.attempt, wait: row.wait, elapsed: row.elapsed };
            Ok((cell, Counts { tried: row.tried, passed: row.passed }))
        };
        Vec::<CurveRow>::deserialize(deserializer)?.into_iter().map(read).collect()
    }
}

impl JsonSchema for Curve {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Curve".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Vec<CurveRow>>()
    }
}

/// How likely a retry is to pass, as far as counting can tell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "basis", rename_all = "snake_case")]
pub enum Estimate {
    /// Fewer than [`Counts::ENOUGH`] tries: nothing is said.
    TooFew { tried: u64, passed: u64 },
    /// The share that passed, and where the true chance lies in 95 of 100 such cases (Wilson).
    Counted { tried: u64, passed: u64, chance: f64, low: f64, high: f64 },
}

/// How many standard deviations to either side hold 95 of 100 cases.
const Z: f64 = 1.96;

impl Estimate {
    #[allow(clippy::cast_precision_loss)]
    pub fn of(counts: Counts) -> Estimate {
        let Counts { tried, passed } = counts;
        if tried < Counts::ENOUGH {
            return Estimate::TooFew { tried, passed };
        }
        let (n, chance) = (tried as f64, passed.min(tried) as f64 / tried as f64);
        let spread = Z * (chance * (1.0 - chance) / n + Z * Z / (4.0 * n * n)).sqrt();
        let (middle, scale) = (chance + Z * Z / (2.0 * n), 1.0 + Z * Z / n);
        let bound = |value: f64| (value / scale).clamp(0.0, 1.0);
        Estimate::Counted { tried, passed, chance, low: bound(middle - spread), high: bound(middle + spread) }
    }

    pub fn counts(self) -> Counts {
        match self {
            Estimate::TooFew { tried, passed } | Estimate::Counted { tried, passed, .. } => {
                Counts { tried, passed }
            }
        }
    }

    /// The share that passed, where enough were tried.
    pub fn chance(self) -> Option<f64> {
        match self {
            Estimate::TooFew { .. } => None,
            Estimate::Counted { chance, .. } => Some(chance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell(attempt: u16, wait_secs: u64, elapsed_secs: u64) -> Cell {
        Cell::of(attempt, Span::from_secs(wait_secs), Span::from_secs(elapsed_secs))
    }

    fn counts(tried: u64, passed: u64) -> Counts {
        Counts { tried, passed }
    }

    #[test] // REQ LN-1
    fn buckets_go_from_a_tenth_of_a_second_to_two_days_two_to_the_octave() {
        let starts: Vec<u64> = Bucket::all().take(6).map(|bucket| bucket.bounds().0.millis()).collect();
        assert_eq!(starts, [0, 100, 150, 200, 300, 400]);
        assert!(
            Bucket::LAST.bounds().0 < Span::from_hours(48) && Bucket::LAST.bounds().1 > Span::from_hours(48)
        );
        for (span, index) in [(0, 0), (99, 0), (100, 1), (149, 1), (150, 2), (u64::MAX, 42)] {
            assert_eq!(Bucket::of(Span::from_millis(span)).index(), index, "{span}");
        }
        assert_eq!((Bucket::new(42), Bucket::new(43)), (Some(Bucket::LAST), None));
    }

    #[test] // REQ LN-1
    fn the_name_of_a_counter_is_the_same_for_ever() {
        let trial = Trial { category: "timeout".into(), cell: cell(2, 10, 10), passed: true };
        assert_eq!(trial.key(), "timeout/2/14/14");
        assert_eq!(parse_key("timeout/2/14/14"), Some(("timeout", trial.cell)));
        for bad in
            ["", "timeout", "timeout/2/14", "/2/14/14", "timeout/1/14/14", "timeout/2/43/43", "t/9/1/1"]
        {
            assert_eq!(parse_key(bad), None, "{bad}");
        }
    }

    #[test] // REQ LN-1
    fn late_attempts_count_together_and_no_wait_is_longer_than_all_the_time() {
        assert_eq!(cell(300, 1, 5).attempt, 8);
        assert_eq!(cell(3, 60, 30), cell(3, 60, 60));
        assert_eq!(cell(2, 60, 60).before(), Span::ZERO);
        assert_eq!(Bucket::of(cell(3, 30, 90).before()), Bucket::of(Span::from_secs(60)));
        assert_eq!(Bucket::of(cell(3, 30, 35).before()), Bucket::of(Span::from_secs(5)));
    }

    #[test] // REQ LN-1
    fn a_curve_is_the_sum_of_its_rows_and_tells_each_side_apart() {
        let mut curve: Curve =
            [(cell(2, 5, 5), counts(10, 4)), (cell(3, 30, 35), counts(6, 3))].into_iter().collect();
        let other: Curve =
            [(cell(2, 5, 5), counts(10, 5)), (cell(2, 60, 60), counts(0, 0))].into_iter().collect();
        curve.merge(&other);
        assert_eq!(curve.total(), counts(26, 12));
        assert_eq!(curve.by_attempt(), BTreeMap::from([(2, counts(20, 9)), (3, counts(6, 3))]));
        assert_eq!(curve.by_wait()[&Bucket::of(Span::from_secs(5))], counts(20, 9));
        assert_eq!(curve.by_elapsed()[&Bucket::of(Span::from_secs(35))], counts(6, 3));
        assert_eq!(curve.cells().count(), 2, "what was never tried is no row");
    }

    #[test] // REQ LN-1
    fn a_curve_is_written_as_rows_that_people_can_read() {
        let curve: Curve = [(cell(2, 5, 5), counts(312, 221))].into_iter().collect();
        let text = serde_json::to_string(&curve).unwrap();
        assert_eq!(text, r#"[{"attempt":2,"wait":"4s800ms","elapsed":"4s800ms","tried":312,"passed":221}]"#);
        assert_eq!(serde_json::from_str::<Curve>(&text).unwrap(), curve);
        let more = r#"[{"attempt":2,"wait":"5s","elapsed":"5s","tried":1,"passed":2}]"#;
        assert!(serde_json::from_str::<Curve>(more).unwrap_err().to_string().contains("more passed"));
        let first = r#"[{"attempt":1,"wait":"5s","elapsed":"5s","tried":1,"passed":1}]"#;
        assert!(serde_json::from_str::<Curve>(first).unwrap_err().to_string().contains("attempt 2 to 8"));
    }

    #[test] // REQ LN-1
    fn too_few_tries_say_nothing_and_many_say_it_with_an_interval() {
        assert_eq!(counts(19, 19).estimate(), Estimate::TooFew { tried: 19, passed: 19 });
        let Estimate::Counted { chance, low, high, .. } = counts(100, 71).estimate() else { panic!() };
        assert!((chance - 0.71).abs() < 1e-9 && (low - 0.6146).abs() < 1e-3 && (high - 0.7899).abs() < 1e-3);
    }

    proptest! {
        #[test] // REQ LN-1
        fn every_length_of_time_lies_in_its_bucket(millis in 0u64..400_000_000) {
            let span = Span::from_millis(millis);
            let bucket = Bucket::of(span);
            let (from, to) = bucket.bounds();
            prop_assert!(from <= span && (span < to || bucket == Bucket::LAST));
            prop_assert_eq!(Bucket::of(from), bucket, "its beginning stands for it in JSON");
        }

        #[test] // REQ LN-1
        fn every_key_is_read_as_it_was_written(
            category in "[a-z_/]{1,20}", attempt in 2u16..20, wait in 0u64..300_000_000, more in 0u64..300_000_000,
        ) {
            let cell = Cell::of(attempt, Span::from_millis(wait), Span::from_millis(wait + more));
            let written = key(&category, cell);
            prop_assert_eq!(parse_key(&written), Some((category.as_str(), cell)));
        }

        #[test] // REQ LN-1
        fn an_interval_holds_its_share_and_narrows_with_more_tries(tried in 20u64..5_000, share in 0.0f64..1.0) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let passed = (tried as f64 * share) as u64;
            let Estimate::Counted { chance, low, high, .. } = counts(tried, passed).estimate() else { panic!() };
            prop_assert!(low <= chance + 1e-12 && chance <= high + 1e-12);
            let Estimate::Counted { low: l, high: h, .. } = counts(tried * 10, passed * 10).estimate() else { panic!() };
            prop_assert!(h - l < high - low);
        }
    }
}
