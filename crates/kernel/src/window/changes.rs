//! Days on which clocks are put forward or back, wherever that is done and by however much.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::date;
use proptest::prelude::*;

use super::*;
use crate::block::Gate;
use crate::campaign::line::{Line, LineRules};
use crate::id::{MessageId, MessageKey};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// Where clocks are or were put, in which years: by an hour, half an hour or two, at midnight or later, and once by a
/// day, which was left out.
const PLACES: [(&str, i16, i16); 18] = [
    ("America/Sao_Paulo", 1990, 2017),
    ("America/New_York", 1990, 2035),
    ("Europe/Lisbon", 1990, 2035),
    ("Europe/Dublin", 1990, 2035),
    ("Australia/Lord_Howe", 1990, 2035),
    ("Africa/Casablanca", 2012, 2025),
    ("Africa/Cairo", 2023, 2035),
    ("Atlantic/Azores", 1990, 2035),
    ("America/Havana", 1990, 2035),
    ("America/Asuncion", 1990, 2022),
    ("America/Nuuk", 2025, 2035),
    ("America/St_Johns", 2012, 2035),
    ("America/Caracas", 2007, 2015),
    ("Asia/Beirut", 1995, 2035),
    ("Asia/Tehran", 1995, 2020),
    ("Asia/Pyongyang", 2015, 2017),
    ("Antarctica/Troll", 2006, 2035),
    ("Pacific/Apia", 2010, 2019),
];

fn stamp(text: &str) -> Time {
    text.parse().unwrap()
}

/// The first time after so much of its years that clocks are put there.
fn change(place: (&str, i16, i16), part: f64) -> (Zone, Time) {
    let (name, first, last) = place;
    let zone: Zone = name.parse().unwrap();
    let [begin, end] = [date(first, 1, 1), date(last, 1, 1)]
        .map(|day| day.to_zoned(TimeZone::UTC).unwrap().timestamp().as_millisecond());
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    let from = begin + ((end - begin) as f64 * part) as i64;
    let from = Timestamp::from_millisecond(from).unwrap();
    // One of which only the name of the time changes is none.
    let shifts = |at: Timestamp| {
        let before = zone.0.to_offset(at - jiff::SignedDuration::from_secs(1));
        zone.0.to_offset(at) != before
    };
    let at = zone.0.following(from).map(|change| change.timestamp()).find(|at| shifts(*at));
    (zone.clone(), Time::from_millis(at.expect(name).as_millisecond()))
}

/// The clock on the wall at a moment: the date, and the minute of it.
fn wall(zone: &Zone, at: Time) -> (civil::Date, u16) {
    let zoned = zone.zoned(at);
    (zoned.date(), u16::try_from(i32::from(zoned.hour()) * 60 + i32::from(zoned.minute())).unwrap())
}

/// How often a minute of a date comes there: once, or never or twice where clocks are put.
fn times(zone: &Zone, date: civil::Date, minute: u16) -> u8 {
    let (hour, minute) = (i8::try_from(minute / 60).unwrap(), i8::try_from(minute % 60).unwrap());
    match zone.0.to_ambiguous_timestamp(date.at(hour, minute, 0, 0)).offset() {
        AmbiguousOffset::Unambiguous { .. } => 1,
        AmbiguousOffset::Gap { .. } => 0,
        AmbiguousOffset::Fold { .. } => 2,
    }
}

/// One date, as somebody sees it who looks each minute.
#[derive(Debug, Default)]
struct Seen {
    minutes: usize,
    /// In which of its minutes it was open, as they went by.
    open: Vec<(usize, u16)>,
    sends: u32,
}

/// What somebody sees of a window who looks each minute around a change of the clock, and sends as much as a day's cap
/// allows.
fn watch(window: &Window, cap: u32, around: Time) -> BTreeMap<civil::Date, Seen> {
    let rules = LineRules {
        daily_cap: Some(cap),
        window: Some(window.clone()),
        time_zone: window.time_zone.clone(),
        ..LineRules::default()
    };
    let mut line = Line::default();
    let mut dates: BTreeMap<civil::Date, Seen> = BTreeMap::new();
    let (mut promised, mut was_open) = (None, true);
    let start = around.millis().div_euclid(MINUTE_MS) * MINUTE_MS - 2 * DAY_MS;
    for now in (start..start + 4 * DAY_MS).step_by(60_000).map(Time::from_millis) {
        let (date, minute) = wall(&window.time_zone, now);
        let seen = dates.entry(date).or_default();
        let opens = window.opens(now);
        match opens {
            None => {
                assert!(was_open || promised == Some(now), "it opens at {now}, and {promised:?} was said");
                seen.open.push((seen.minutes, minute));
            }
            Some(at) => {
                assert!(at > now, "{at} is not after {now}");
                assert!(was_open || promised == opens, "at {now} {at} is said, and {promised:?} before");
            }
        }
        (promised, was_open) = (opens, opens.is_none());
        while opens.is_none() && line.gate(&rules, now) == Gate::Open {
            line = line.started(MessageId::new(MessageKey(1 << 30), 7), &rules, now);
            seen.sends += 1;
        }
        seen.minutes += 1;
    }
    // Of the first and the last date not all was seen.
    dates.pop_first();
    dates.pop_last();
    dates
}

/// What whoever wrote the hours expects of one date.
fn expect(window: &Window, cap: u32, date: civil::Date, seen: &Seen) {
    let (zone, hours) = (&window.time_zone, window.hours);
    if !window.days.contains(&Day(date.weekday())) {
        assert_eq!((seen.open.len(), seen.sends), (0, 0), "{date} is none of its days");
        return;
    }
    let nominal = usize::from(hours.to - hours.from);
    let there: Vec<u8> = (hours.from..hours.to).map(|minute| times(zone, date, minute)).collect();
    let missing = there.iter().filter(|times| **times == 0).count();
    let twice = there.iter().filter(|times| **times == 2).count();
    if missing == nominal && times(zone, date, 24 * 60 - 1) == 0 {
        assert_eq!((seen.open.len(), seen.sends), (0, 0), "{date} ended before");
        return;
    }
    let ((Some(first), Some(last)), length) = ((seen.open.first(), seen.open.last()), seen.open.len()) else {
        panic!("it does not open on {date}");
    };
    assert_eq!(last.0 - first.0 + 1, length, "it opens more than once on {date}: {:?}", seen.open);
    assert_eq!(seen.sends, cap, "the cap of {date}");
    if missing == nominal {
        // All of it was left out: as long, from the first moment after.
        assert_eq!(length, nominal, "{date}");
        assert_eq!(times(zone, date, first.1 - 1), 0, "{date}: it opens at minute {}", first.1);
        return;
    }
    for (_, minute) in &seen.open {
        assert!((hours.from..hours.to).contains(minute), "{date}: open at minute {minute}");
    }
    // A repeated hour that is open from its start to its end is so both times.
    let whole = twice > 0
        && (hours.from == 0 || times(zone, date, hours.from - 1) != 2)
        && (hours.to == 24 * 60 || times(zone, date, hours.to) != 2);
    let expected = nominal - missing + if whole { twice } else { 0 };
    assert_eq!(length, expected, "{date}");
}

proptest! {
    // Each of them looks some thousand times.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test] // REQ BK-6
    fn wherever_clocks_are_put_it_opens_once_on_each_of_its_days_and_only_in_its_hours(
        place in prop::sample::select(PLACES.to_vec()),
        part in 0.0..1.0_f64,
        near in any::<bool>(),
        (from, length) in (0..1440_u16, 1..1440_u16),
        (sooner, short) in (0..150_i64, 1..180_u16),
        days in prop_oneof![Just(127_u8), 1..128_u8],
        cap in 1..4_u32,
    ) {
        let (zone, at) = change(place, part);
        // Half of them begin about when clocks are put, and are not long.
        let (_, minute) = wall(&zone, at - Span::from_millis(1));
        let close = u16::try_from((i64::from(minute) + 75 - sooner).clamp(0, 1439)).unwrap();
        let (from, length) = if near { (close, short) } else { (from, length) };
        let hours = Hours { from, to: (from + length).min(1440) };
        let days = Day::ALL.into_iter().filter(|day| days & (1 << day.nth()) != 0).collect();
        let window = Window { hours, days, time_zone: zone, holidays: BTreeSet::new() };
        for (date, seen) in watch(&window, cap, at) {
            expect(&window, cap, date, &seen);
        }
    }
}

/// When hours are open that begin on that date.
fn open(hours: &str, zone: &str, date: &str) -> (Time, Time) {
    let zone: Zone = zone.parse().unwrap();
    let start = zone.start(date.parse().unwrap());
    let window = Window { hours: hours.parse().unwrap(), time_zone: zone, ..tests::daily() };
    window.next(start).unwrap()
}

#[test] // REQ BK-6
fn hours_that_clocks_are_put_forward_over_begin_and_end_at_the_first_moment_after() {
    // On 2027-03-14 two o'clock is three there, at 07:00 UTC.
    for (hours, from, to) in [
        ("02:30-03:30", "07:00", "07:30"),
        ("01:30-02:30", "06:30", "07:00"),
        ("01:30-03:30", "06:30", "07:30"),
        // All of it is left out: it is as long as ever.
        ("02:10-02:50", "07:00", "07:40"),
        ("02:30-03:00", "07:00", "07:30"),
    ] {
        let at = |minute: &str| stamp(&format!("2027-03-14T{minute}:00Z"));
        assert_eq!(open(hours, "America/New_York", "2027-03-14"), (at(from), at(to)), "{hours}");
    }
}

#[test] // REQ BK-6
fn an_hour_that_comes_twice_opens_nothing_twice() {
    // On 2026-11-01 two o'clock is one there, at 06:00 UTC.
    for (hours, from, to) in [
        ("00:30-01:30", "04:30", "05:30"),
        ("01:10-01:50", "05:10", "05:50"),
        // From the second time on: between, the clock shows times that are not its hours.
        ("01:30-02:30", "06:30", "07:30"),
        ("01:00-02:30", "05:00", "07:30"),
        ("00:30-02:30", "04:30", "07:30"),
    ] {
        let at = |minute: &str| stamp(&format!("2026-11-01T{minute}:00Z"));
        let window = open(hours, "America/New_York", "2026-11-01");
        assert_eq!(window, (at(from), at(to)), "{hours}");
        let (next, _) = Window { hours: hours.parse().unwrap(), ..ny() }.next(window.1).unwrap();
        assert!(next >= stamp("2026-11-02T05:00:00Z"), "{hours} opens again at {next}");
    }
}

fn ny() -> Window {
    Window { time_zone: "America/New_York".parse().unwrap(), ..tests::daily() }
}

#[test] // REQ BK-6
fn at_midnight_and_by_half_an_hour_it_is_the_same() {
    for (hours, zone, date, from, to) in [
        // The last hour of 2018-02-17 comes twice, midnight of 2018-11-04 does not come.
        ("23:30-24:00", "America/Sao_Paulo", "2018-02-17", "2018-02-18T02:30:00Z", "2018-02-18T03:00:00Z"),
        ("20:00-23:30", "America/Sao_Paulo", "2018-02-17", "2018-02-17T22:00:00Z", "2018-02-18T01:30:00Z"),
        ("00:00-00:30", "America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-04T03:30:00Z"),
        ("00:00-24:00", "America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),
        // The first hour comes twice, and a whole day has both.
        ("00:00-24:00", "Atlantic/Azores", "2026-10-25", "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"),
        // From two to half past two, and back.
        ("02:10-04:00", "Australia/Lord_Howe", "2026-10-04", "2026-10-03T15:30:00Z", "2026-10-03T17:00:00Z"),
        ("01:40-03:00", "Australia/Lord_Howe", "2026-04-05", "2026-04-04T15:10:00Z", "2026-04-04T16:30:00Z"),
    ] {
        assert_eq!(open(hours, zone, date), (stamp(from), stamp(to)), "{hours} {zone} {date}");
    }
}

#[test] // REQ BK-6
fn a_day_that_is_left_out_is_none_of_its_days() {
    // After 2011-12-29, a Thursday, came the Saturday there.
    let fridays = window(r#"{"hours": "08:00-20:00", "days": ["fri"], "time_zone": "Pacific/Apia"}"#);
    let thursday = stamp("2011-12-29T20:00:00Z");
    assert_eq!(fridays.opens(thursday), Some(stamp("2012-01-05T18:00:00Z")));
}

fn window(text: &str) -> Window {
    serde_json::from_str(text).unwrap()
}
