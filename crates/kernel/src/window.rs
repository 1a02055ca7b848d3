//! Hours in which something may be done: of some days, in some time zone, and not on holidays.

#[cfg(test)]
mod changes;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{self, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::{Span, Time};

/// How far ahead an open hour is looked for.
const DAYS_AHEAD: usize = 800;
/// Hours that nobody sees open for so long are taken for a mistake.
const YEAR: Span = Span::from_hours(366 * 24);

/// When it is open. Written as `{"hours": "08:00-20:00", "days": ["mon", "sat"], "time_zone": "America/Sao_Paulo",
/// "holidays": ["2026-12-25"]}`; every part but the hours can be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SendingWindow")]
pub struct Window {
    pub hours: Hours,
    #[serde(default = "every_day")]
    pub days: BTreeSet<Day>,
    #[serde(default)]
    pub time_zone: Zone,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub holidays: BTreeSet<Date>,
}

fn every_day() -> BTreeSet<Day> {
    Day::ALL.into_iter().collect()
}

impl Window {
    /// When it opens next; nothing if it is open. [`Time::MAX`] if it does not within two years.
    pub fn opens(&self, now: Time) -> Option<Time> {
        match self.next(now) {
            Some((from, _)) if from <= now => None,
            Some((from, _)) => Some(from),
            None => Some(Time::MAX),
        }
    }

    /// The open hours that `now` lies in, or the next ones.
    pub(crate) fn next(&self, now: Time) -> Option<(Time, Time)> {
        let mut date = self.time_zone.date(now);
        for _ in 0..DAYS_AHEAD {
            let open = self.days.iter().any(|day| day.0 == date.weekday());
            if open && !self.holidays.contains(&Date(date)) {
                match self.time_zone.hours(date, self.hours)? {
                    Some((from, to)) if now < to => return Some((from, to)),
                    _ => {}
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// When all of them are open at the same time next, which may be now; none if they are not within a year.
    pub fn together(windows: &[&Window], now: Time) -> Option<Time> {
        let mut at = now;
        while at.since(now) <= YEAR {
            match windows.iter().filter_map(|window| window.opens(at)).max() {
                None => return Some(at),
                Some(later) => at = later,
            }
        }
        None
    }
}

/// `09:00-18:00 America/Sao_Paulo`, and the days where those are not all.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.hours, self.time_zone)?;
        if self.days.is_empty() {
            write!(f, " on no day")?;
        } else if self.days.len() < Day::ALL.len() {
            let days: Vec<_> = self.days.iter().map(|day| day.as_str()).collect();
            write!(f, " on {}", days.join(", "))?;
        }
        Ok(())
    }
}

/// From one minute of the day to another, the last one excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: u16,
    to: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not hours of a day; write for example 08:00-20:00, the end after the start, at most 24:00")]
pub struct BadHours;

impl FromStr for Hours {
    type Err = BadHours;
    fn from_str(text: &str) -> Result<Hours, BadHours> {
        let (from, to) = text.split_once('-').ok_or(BadHours)?;
        let (from, to) = (minute(from).ok_or(BadHours)?, minute(to).ok_or(BadHours)?);
        if from < to { Ok(Hours { from, to }) } else { Err(BadHours) }
    }
}

/// The minute of a day that is written `08:00`; `24:00` is its end.
fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
    (minutes < 60 && hours * 60 + minutes <= 24 * 60).then_some(hours * 60 + minutes)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hours { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

/// A minute of the day, on the clock of wherever somebody is. Written `08:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute(u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time of day; write for example 08:00, from 00:00 to 23:59")]
pub struct BadMinute;

impl FromStr for Minute {
    type Err = BadMinute;
    fn from_str(text: &str) -> Result<Minute, BadMinute> {
        minute(text).filter(|minute| *minute < 24 * 60).map(Minute).ok_or(BadMinute)
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// A day of the week, by its first three letters in English.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day(Weekday);

impl Day {
    pub const ALL: [Day; 7] = [
        Day(Weekday::Monday),
        Day(Weekday::Tuesday),
        Day(Weekday::Wednesday),
        Day(Weekday::Thursday),
        Day(Weekday::Friday),
        Day(Weekday::Saturday),
        Day(Weekday::Sunday),
    ];

    fn as_str(self) -> &'static str {
        ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][usize::from(self.nth())]
    }

    fn nth(self) -> u8 {
        self.0.to_monday_zero_offset().unsigned_abs()
    }
}

impl PartialOrd for Day {
    fn partial_cmp(&self, other: &Day) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Day {
    fn cmp(&self, other: &Day) -> std::cmp::Ordering {
        self.nth().cmp(&other.nth())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a day of the week; write mon, tue, wed, thu, fri, sat or sun")]
pub struct BadDay;

impl FromStr for Day {
    type Err = BadDay;
    fn from_str(text: &str) -> Result<Day, BadDay> {
        Day::ALL.into_iter().find(|day| day.as_str() == text).ok_or(BadDay)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(civil::Date);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a date; write for example 2026-12-25")]
pub struct BadDate;

impl FromStr for Date {
    type Err = BadDate;
    fn from_str(text: &str) -> Result<Date, BadDate> {
        let date: civil::Date = text.parse().map_err(|_| BadDate)?;
        // The parser takes more forms than one.
        if date.to_string() == text { Ok(Date(date)) } else { Err(BadDate) }
    }
}

impl Date {
    pub fn weekday(self) -> Day {
        Day(self.0.weekday())
    }

    /// The date so many days later, or earlier.
    pub fn plus(self, days: i32) -> Date {
        Date(self.0.saturating_add(jiff::Span::new().days(days)))
    }

    /// The first of its month.
    pub fn first_of_month(self) -> Date {
        Date(self.0.first_of_month())
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A time zone by its name in the IANA database, of which a copy is part of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time zone; write a name such as America/Sao_Paulo or UTC")]
pub struct BadZone;

impl Default for Zone {
    /// Where most of those are for whom Pombo was made.
    fn default() -> Zone {
        Zone(TimeZone::get("America/Sao_Paulo").unwrap_or(TimeZone::UTC))
    }
}

impl Zone {
    /// The date that it is there.
    pub fn day(&self, now: Time) -> Date {
        Date(self.date(now))
    }

    /// When that minute of that day is there; where clocks are put forward over it, the first moment after.
    pub fn moment(&self, date: Date, minute: Minute) -> Time {
        self.at(date.0, minute.0).unwrap_or(Time::MAX)
    }

    /// When that day begins there.
    pub fn start(&self, date: Date) -> Time {
        self.moment(date, Minute(0))
    }

    /// When the day of `now` began there.
    pub fn today(&self, now: Time) -> Time {
        self.at(self.date(now), 0).unwrap_or(now)
    }

    /// When the week of `now` began there, on a Monday.
    pub fn this_week(&self, now: Time) -> Time {
        let date = self.date(now);
        let days = i64::from(date.weekday().to_monday_zero_offset());
        let monday = date.checked_sub(jiff::Span::new().days(days)).ok();
        monday.and_then(|monday| self.at(monday, 0)).unwrap_or(now)
    }

    /// When the day after `now` begins there.
    pub fn tomorrow(&self, now: Time) -> Time {
        self.date(now).tomorrow().ok().and_then(|date| self.at(date, 0)).unwrap_or(Time::MAX)
    }

    /// That moment as people there say it: `today 09:00`, `tomorrow 09:00`, or with the date.
    pub fn said(&self, at: Time, now: Time) -> String {
        let (date, today) = (self.date(at), self.date(now));
        let clock = self.zoned(at).strftime("%H:%M").to_string();
        match date {
            date if date == today => format!("today {clock}"),
            date if today.tomorrow().is_ok_and(|tomorrow| date == tomorrow) => format!("tomorrow {clock}"),
            date => format!("{} {date} {clock}", date.strftime("%a")),
        }
    }

    /// That moment as it is there, by a pattern of `strftime`; nothing for a pattern that makes no sense.
    pub fn written(&self, at: Time, pattern: &str) -> String {
        jiff::fmt::strtime::format(pattern, &self.zoned(at)).unwrap_or_default()
    }

    fn date(&self, now: Time) -> civil::Date {
        self.zoned(now).date()
    }

    fn zoned(&self, now: Time) -> jiff::Zoned {
        let stamp = Timestamp::from_millisecond(now.millis()).unwrap_or_default();
        stamp.to_zoned(self.0.clone())
    }

    /// That minute of the date, the first time that it comes; where clocks are put forward over it, the first moment
    /// after.
    fn at(&self, date: civil::Date, minute: u16) -> Option<Time> {
        self.spot(date, minute).map(Spot::first)
    }

    /// Those hours of the date: one stretch, in which the clock shows nothing else. `Some(None)` where they are none,
    /// since the date ends before them or is left out altogether.
    ///
    /// Where clocks are put forward over all of them, they are as long as ever from the first moment after, so that a
    /// day is not left out; where they are put back into them, so much longer. Of hours that begin or end within those
    /// that come twice, only the stretch counts that has all of them.
    #[allow(clippy::option_option, reason = "outside of the calendar there is nothing more to look for")]
    fn hours(&self, date: civil::Date, hours: Hours) -> Option<Option<(Time, Time)>> {
        let (from, to) = (self.spot(date, hours.from)?, self.spot(date, hours.to)?);
        let end = to.first();
        let begin = match from {
            Spot::Twice { second, back, .. } if back < second && second < end => second,
            _ => from.first(),
        };
        if begin < end {
            return Some(Some((begin, end)));
        }
        let length = Span::from_mins(u64::from(hours.to - hours.from));
        Some((self.date(begin) == date).then(|| (begin, begin + length)))
    }

    /// When the clock shows that minute of the date.
    fn spot(&self, date: civil::Date, minute: u16) -> Option<Spot> {
        let (date, minute) = if minute == 24 * 60 { (date.tomorrow().ok()?, 0) } else { (date, minute) };
        let (hour, minute) = (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
        let found = self.0.to_ambiguous_timestamp(date.at(hour, minute, 0, 0));
        let time = |stamp: Timestamp| Time::from_millis(stamp.as_millisecond());
        // Both of what it may mean lie around the moment at which clocks are put.
        let earlier = found.earlier().ok()?;
        let put = || self.0.following(earlier).next().map(|change| time(change.timestamp()));
        Some(match found.offset() {
            AmbiguousOffset::Unambiguous { .. } => Spot::Once(time(earlier)),
            AmbiguousOffset::Gap { .. } => Spot::Once(put()?),
            AmbiguousOffset::Fold { .. } => {
                Spot::Twice { first: time(earlier), second: time(found.later().ok()?), back: put()? }
            }
        })
    }
}

/// When a clock shows something.
#[derive(Clone, Copy, Debug)]
enum Spot {
    /// Then; or, where clocks are put forward over it, the first moment after.
    Once(Time),
    /// Before clocks are put back, and after.
    Twice { first: Time, second: Time, back: Time },
}

impl Spot {
    fn first(self) -> Time {
        match self {
            Spot::Once(time) | Spot::Twice { first: time, .. } => time,
        }
    }
}

impl FromStr for Zone {
    type Err = BadZone;
    fn from_str(text: &str) -> Result<Zone, BadZone> {
        TimeZone::get(text).map(Zone).map_err(|_| BadZone)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

macro_rules! written {
    ($($type:ident, $name:literal, $schema:tt;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

written! {
    Hours, "Hours", {"type": "string", "pattern": r"^\d{2}:\d{2}-\d{2}:\d{2}$", "examples": ["08:00-20:00"]};
    Minute, "Minute", {"type": "string", "pattern": r"^\d{2}:\d{2}$", "examples": ["08:00"]};
    Day, "Day", {"type": "string", "enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]};
    Date, "Date", {"type": "string", "format": "date"};
    Zone, "TimeZone", {"type": "string", "examples": ["America/Sao_Paulo"]};
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the first hour on.
    pub(super) fn daily() -> Window {
        window(r#"{"hours": "00:00-24:00"}"#)
    }

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn window(text: &str) -> Window {
        serde_json::from_str(text).unwrap()
    }

    #[test] // REQ BK-6
    fn it_opens_in_the_hours_of_its_days_in_its_zone() {
        let weekdays = window(
            r#"{"hours": "08:00-20:00", "days": ["mon", "tue", "wed", "thu", "fri"], "holidays": ["2026-12-25"]}"#,
        );
        for (now, opens) in [
            ("2026-12-23T14:00:00Z", None),                         // Wednesday, 11:00 there
            ("2026-12-23T10:59:00Z", Some("2026-12-23T11:00:00Z")), // 07:59
            ("2026-12-23T23:00:00Z", Some("2026-12-24T11:00:00Z")), // 20:00
            ("2026-12-25T14:00:00Z", Some("2026-12-28T11:00:00Z")), // a holiday before a weekend
        ] {
            assert_eq!(weekdays.opens(time(now)), opens.map(time), "{now}");
        }
    }

    #[test] // REQ BK-6
    fn clocks_that_are_put_forward_move_it_along() {
        let early = window(r#"{"hours": "02:30-03:30", "time_zone": "America/New_York"}"#);
        // On 2027-03-14 there is no half past two there: the first moment after.
        let opens = early.opens(time("2027-03-14T06:00:00Z")).unwrap();
        assert_eq!(opens, time("2027-03-14T07:00:00Z"));
        assert_eq!(early.opens(time("2027-03-14T07:29:59Z")), None);
        let manaus = window(r#"{"hours": "08:00-24:00", "time_zone": "America/Manaus"}"#);
        assert_eq!(manaus.opens(time("2026-06-01T04:00:00Z")), Some(time("2026-06-01T12:00:00Z")));
        assert_eq!(manaus.opens(time("2026-06-01T03:59:59Z")), None);
    }

    #[test] // REQ BK-6
    fn several_open_together_when_all_of_them_do() {
        let (day, early) = (
            window(r#"{"hours": "09:00-18:00", "time_zone": "UTC"}"#),
            window(r#"{"hours": "06:00-12:00", "days": ["mon"], "time_zone": "UTC"}"#),
        );
        let night = window(r#"{"hours": "20:00-24:00", "time_zone": "UTC"}"#);
        let never = Window { days: BTreeSet::new(), ..day.clone() };
        // A Tuesday.
        let now = time("2026-06-02T10:00:00Z");
        let together = |windows: &[&Window]| Window::together(windows, now);
        for (windows, opens) in [
            (&[][..], Some("2026-06-02T10:00:00Z")),
            (&[&day], Some("2026-06-02T10:00:00Z")),
            (&[&day, &early], Some("2026-06-08T09:00:00Z")),
            (&[&day, &night], None),
            (&[&never], None),
        ] {
            assert_eq!(together(windows), opens.map(time), "{windows:?}");
        }
        // The one evening on which both are open is far away.
        let holidays = (0..300).map(|n| {
            Date("2026-06-02".parse::<civil::Date>().unwrap().saturating_add(jiff::Span::new().days(n)))
        });
        let late = Window { holidays: holidays.collect(), ..night.clone() };
        let wanted = time("2027-03-29T20:00:00Z");
        assert_eq!(Window::together(&[&night, &late], now), Some(wanted));
    }

    #[test] // REQ BK-6
    fn hours_and_moments_are_said_with_their_place() {
        let weekdays = window(r#"{"hours": "09:00-18:00", "days": ["mon", "tue"]}"#);
        assert_eq!(weekdays.to_string(), "09:00-18:00 America/Sao_Paulo on mon, tue");
        let daily = window(r#"{"hours": "09:00-18:00", "time_zone": "UTC"}"#);
        assert_eq!(daily.to_string(), "09:00-18:00 UTC");
        let now = time("2026-06-02T01:00:00Z"); // 22:00 of the day before there
        let said = |at: &str| Zone::default().said(time(at), now);
        assert_eq!(said("2026-06-02T02:30:00Z"), "today 23:30");
        assert_eq!(said("2026-06-02T12:00:00Z"), "tomorrow 09:00");
        assert_eq!(said("2026-06-08T12:00:00Z"), "Mon 2026-06-08 09:00");
    }

    #[test]
    fn what_it_is_not_is_said() {
        for bad in ["8-20", "20:00-08:00", "08:00-24:01", "08:60-09:00", "+8:00-09:00", ""] {
            assert_eq!(bad.parse::<Hours>(), Err(BadHours), "{bad}");
        }
        for bad in ["8:00", "24:00", "08:60", "08", ""] {
            assert_eq!(bad.parse::<Minute>(), Err(BadMinute), "{bad}");
        }
        assert_eq!("Mon".parse::<Day>(), Err(BadDay));
        assert_eq!("2026-13-01".parse::<Date>(), Err(BadDate));
        assert_eq!("Brasilia".parse::<Zone>(), Err(BadZone));
        let text =
            r#"{"hours":"08:00-20:00","days":["mon","sun"],"time_zone":"UTC","holidays":["2026-12-25"]}"#;
        assert_eq!(serde_json::to_string(&window(text)).unwrap(), text);
    }
}
