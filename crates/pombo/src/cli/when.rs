//! Times and lengths of time as people say them, in the zone of whoever sits here.

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use pombo_kernel::time::{Span, Time};

/// `40 s`, `36 min`, `2 h 5 min` or `3 d 4 h`: as exact as an estimate deserves.
pub(crate) fn about(span: Span) -> String {
    let seconds = span.millis().div_ceil(1_000);
    let minutes = (seconds + 30) / 60;
    let hours = (minutes + 30) / 60;
    let two = |large: u64, unit: &str, small: u64, part: &str| match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {part}"),
    };
    match () {
        () if seconds < 90 => format!("{seconds} s"),
        () if minutes < 90 => format!("{minutes} min"),
        () if hours < 36 => two(minutes / 60, "h", minutes % 60, "min"),
        () => two(hours / 24, "d", hours % 24, "h"),
    }
}

/// `today at 14:32`, `tomorrow at 09:10`, or the date; by this machine's clock and zone.
pub(crate) fn at(time: Time, now: Time) -> String {
    at_in(time, now, &TimeZone::system())
}

fn at_in(time: Time, now: Time, zone: &TimeZone) -> String {
    let local = |time: Time| Timestamp::from_millisecond(time.millis()).map(|it| it.to_zoned(zone.clone()));
    let (Ok(then), Ok(now)) = (local(time), local(now)) else { return "no foreseeable day".to_owned() };
    let clock = then.strftime("%H:%M");
    match then.date() {
        date if date == now.date() => format!("today at {clock}"),
        date if now.date().tomorrow().is_ok_and(|tomorrow| date == tomorrow) => {
            format!("tomorrow at {clock}")
        }
        date => format!("{} {date} at {clock}", then.strftime("%a")),
    }
}

/// A point in time as it is typed: RFC 3339, or date and time of day in this machine's zone.
pub(crate) fn typed(text: &str) -> Result<Time, String> {
    typed_in(text, &TimeZone::system())
}

fn typed_in(text: &str, zone: &TimeZone) -> Result<Time, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let local = text.parse::<civil::DateTime>().ok().filter(|_| text.contains(':'));
    let zoned = local.and_then(|local| zone.to_zoned(local).ok());
    zoned.map(|it| Time::from_millis(it.timestamp().as_millisecond())).ok_or_else(|| {
        "write for example '2026-12-01 09:00' in your own time zone, or 2026-12-01T09:00:00-03:00".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> TimeZone {
        TimeZone::get("America/Sao_Paulo").unwrap()
    }

    #[test]
    fn lengths_are_as_exact_as_an_estimate_deserves() {
        for (seconds, words) in [
            (0, "0 s"),
            (22, "22 s"),
            (2_200, "37 min"),
            (2_860, "48 min"),
            (5_400, "1 h 30 min"),
            (7_200, "2 h"),
            (22_000_000, "254 d 15 h"),
        ] {
            assert_eq!(about(Span::from_secs(seconds)), words);
        }
    }

    #[test]
    fn days_are_those_of_the_place() {
        let now: Time = "2026-11-16T23:30:00Z".parse().unwrap(); // 20:30 there
        let at = |time: &str| at_in(time.parse().unwrap(), now, &zone());
        assert_eq!(at("2026-11-17T02:59:00Z"), "today at 23:59");
        assert_eq!(at("2026-11-17T11:00:00Z"), "tomorrow at 08:00");
        assert_eq!(at("2026-11-24T11:00:00Z"), "Tue 2026-11-24 at 08:00");
        assert_eq!(at_in(Time::MAX, now, &zone()), "no foreseeable day");
    }

    #[test]
    fn a_time_without_a_zone_is_that_of_the_place() {
        let nine: Time = "2026-12-01T12:00:00Z".parse().unwrap();
        for text in
            ["2026-12-01 09:00", "2026-12-01T09:00:00", "2026-12-01T09:00:00-03:00", "2026-12-01T12:00:00Z"]
        {
            assert_eq!(typed_in(text, &zone()), Ok(nine), "{text}");
        }
        for text in ["2026-12-01", "09:00", "tomorrow", ""] {
            assert!(typed_in(text, &zone()).is_err(), "{text}");
        }
    }
}
