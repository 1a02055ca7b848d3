//! Points in time and lengths of time, in whole milliseconds, as types that cannot be mixed up.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time: milliseconds since the Unix epoch, UTC.
///
/// The kernel never asks for the time; whoever calls it says what time it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    pub const MAX: Time = Time(i64::MAX);

    pub const fn from_millis(millis: i64) -> Time {
        Time(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// The length of time from `earlier` to `self`; nothing if `earlier` is in fact later.
    pub fn since(self, earlier: Time) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The start of the hour that this moment lies in, as hours since the epoch.
    pub const fn hour(self) -> i64 {
        self.0.div_euclid(3_600_000)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub_unsigned(span.0))
    }
}

/// RFC 3339 in UTC with milliseconds: `2026-01-31T10:20:30.000Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(stamp) => write!(f, "{stamp:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl FromStr for Time {
    type Err = BadTime;
    fn from_str(text: &str) -> Result<Time, BadTime> {
        text.parse::<jiff::Timestamp>().map(|stamp| Time(stamp.as_millisecond())).map_err(|_| BadTime)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time; write RFC 3339 with a zone, for example 2026-01-31T10:20:30Z")]
pub struct BadTime;

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// A length of time in milliseconds. Written as `500ms`, `30s`, `5m`, `48h`, `7d` or a sum (`1h30m`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    pub const ZERO: Span = Span(0);

    pub const fn from_millis(millis: u64) -> Span {
        Span(millis)
    }

    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000))
    }

    pub const fn from_mins(mins: u64) -> Span {
        Span(mins.saturating_mul(60_000))
    }

    pub const fn from_hours(hours: u64) -> Span {
        Span(hours.saturating_mul(3_600_000))
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    /// In seconds, for people.
    #[allow(clippy::cast_precision_loss)]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }

    /// This length times two to the power of `doublings`, as far as the number can hold it.
    pub fn doubled(self, doublings: u32) -> Span {
        let factor = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
        Span(self.0.saturating_mul(factor))
    }

    /// This length times a factor of at least zero, to the nearest millisecond.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn scaled(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor.max(0.0)).round() as u64)
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(iter: I) -> Span {
        iter.fold(Span::ZERO, Add::add)
    }
}

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, size) in UNITS {
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a length of time; write for example 500ms, 30s, 5m, 48h or 7d")]
pub struct BadSpan;

impl FromStr for Span {
    type Err = BadSpan;
    fn from_str(text: &str) -> Result<Span, BadSpan> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(BadSpan);
        }
        let mut total = 0u64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(BadSpan)?;
            let number: u64 = rest[..digits].parse().map_err(|_| BadSpan)?;
            rest = &rest[digits..];
            let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let size = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters]).ok_or(BadSpan)?.1;
            rest = rest[letters..].trim_start();
            total = number.checked_mul(size).and_then(|part| total.checked_add(part)).ok_or(BadSpan)?;
        }
        Ok(Span(total))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "a length of time: 500ms, 30s, 5m, 48h, 7d",
            "pattern": r"^\s*(\d+(ms|s|m|h|d)\s*)+$"
        })
    }
}

/// Where the time comes from. The one implementation that reads a real clock lives in the binary.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Time;

    /// How long ago some moment was that stays the same: as fine as the clock can tell, for measuring how long something
    /// takes. It knows no dates.
    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.now().millis().unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_read_as_people_write_them() {
        let check =
            |text: &str, millis: u64| assert_eq!(text.parse::<Span>().unwrap().millis(), millis, "{text}");
        check("500ms", 500);
        check("30s", 30_000);
        check("5m", 300_000);
        check("48h", 172_800_000);
        check("1h30m", 5_400_000);
        check("7d", 604_800_000);
        for bad in ["", "5", "m", "5x", "-5s", "5 5", "99999999999999999999d", "1.5s"] {
            assert_eq!(bad.parse::<Span>(), Err(BadSpan), "{bad}");
        }
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        let time: Time = "2026-01-31T07:20:30-03:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-01-31T10:20:30.000Z");
        assert!("2026-01-31".parse::<Time>().is_err());
    }

    proptest! {
        #[test]
        fn spans_survive_writing_and_reading(millis in 0u64..=u64::MAX / 2) {
            let span = Span::from_millis(millis);
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
    }
}
