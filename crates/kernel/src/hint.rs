//! The wait that a provider asks for, read from what it sent. Never trusted further than a number: whoever
//! uses it bounds it.

use std::sync::OnceLock;

use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;
use regex::Regex;

use crate::time::{Span, Time};

/// The wait that a reply's headers ask for, counted from `now`.
///
/// `Retry-After` wins, in either of its forms. Else the longest of the rate-limit resets that apply: one whose
/// limit is not used up says when a window ends, not when to come back. What cannot be read, or lies in the
/// past, is no hint.
pub fn hint(headers: &[(String, String)], now: Time) -> Option<Span> {
    let values = |name: &'static str| {
        headers
            .iter()
            .filter(move |(given, _)| given.trim().eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    };
    if let Some(wait) = values("retry-after").find_map(|value| retry_after(value, now)) {
        return Some(wait);
    }
    let left = |name| values(name).find_map(whole).is_some_and(|remaining| remaining > 0);
    let reset = |name, remaining| {
        let wait = values(name).filter_map(|value| reset(value, now)).max();
        if left(remaining) { None } else { wait }
    };
    [
        values("ratelimit").filter_map(rate_limit).max(),
        reset("ratelimit-reset", "ratelimit-remaining"),
        reset("x-ratelimit-reset", "x-ratelimit-remaining"),
        reset("x-ratelimit-reset-after", "x-ratelimit-remaining"),
        reset("x-rate-limit-reset", "x-rate-limit-remaining"),
    ]
    .into_iter()
    .flatten()
    .max()
}

/// The time that an SMTP reply names for the next try: "try again in 300 seconds", "come back in 00:05:00".
///
/// A number counts only after words about trying again, since replies also say how long they waited for us.
pub fn greylist_wait(text: &str) -> Option<Span> {
    static NAMED: OnceLock<Regex> = OnceLock::new();
    let named = NAMED.get_or_init(|| {
        Regex::new(concat!(
            r"(?is)\b(?:again|re-?try|retried|retrying|come back|wait|re-?send|gr[ae]y-?list\w*|delay\w*|defer\w*",
            r"|novamente|aguarde|espere|tente|retorne|reenvie)\b",
            r"[^.;]{0,40}?\b(?:",
            r"(?:in|for|after|em|por|ap\x{f3}s) ([0-9]{1,3}):([0-9]{2}):([0-9]{2})\b",
            r"|([0-9]{1,15})\s?(?:(h)(?:ours?|oras?|rs?)?|(m)(?:in(?:ut[eo])?s?)?|(s)(?:e[cg](?:ond|undo)?s?)?)\b",
            r"(?:[ ,]{1,2}(?:(?:and|e) )?([0-9]{1,9})\s?(?:(m)in(?:ut[eo])?s?|(s)(?:e[cg](?:ond|undo)?s?)?)\b)?",
            r")"
        ))
        .expect("a fixed expression")
    });
    let found = named.captures(text)?;
    let number = |group: usize| found.get(group).and_then(|m| m.as_str().parse::<u64>().ok());
    if let (Some(hours), Some(minutes), Some(seconds)) = (number(1), number(2), number(3)) {
        return Some(Span::from_hours(hours) + Span::from_mins(minutes) + Span::from_secs(seconds));
    }
    let said = |group: usize| found.get(group).is_some();
    let count = number(4)?;
    let first = if said(5) {
        Span::from_hours(count)
    } else if said(6) {
        Span::from_mins(count)
    } else {
        Span::from_secs(count)
    };
    let rest =
        number(8).map_or(Span::ZERO, |n| if said(9) { Span::from_mins(n) } else { Span::from_secs(n) });
    Some(first + rest)
}

fn retry_after(value: &str, now: Time) -> Option<Span> {
    match whole(value) {
        Some(seconds) => Some(Span::from_secs(seconds)),
        None => until(http_date(value)?, now),
    }
}

/// Seconds from now, or a moment: no window is thirty years long, so size tells which.
fn reset(value: &str, now: Time) -> Option<Span> {
    const EPOCH_SECONDS: u64 = 1_000_000_000;
    const EPOCH_MILLIS: u64 = 1_000_000_000_000;
    let (number, part) = match value.split_once('.') {
        Some((number, fraction)) => (whole(number)?, u64::from(whole(fraction)? > 0)),
        None => (whole(value)?, 0),
    };
    let number = number.saturating_add(part);
    if number < EPOCH_SECONDS {
        return Some(Span::from_secs(number));
    }
    let millis = if number < EPOCH_MILLIS { number.saturating_mul(1_000) } else { number };
    until(Time::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)), now)
}

/// The draft's one field, `"default";r=0;t=30`: the longest `t` of the limits that have nothing left.
fn rate_limit(value: &str) -> Option<Span> {
    let limits = outside_quotes(value, ',').into_iter().filter_map(|limit| {
        let parameters = outside_quotes(limit, ';');
        let named = |key: &str| {
            let values = parameters.iter().filter_map(|p| p.split_once('='));
            values
                .filter(|(name, _)| name.trim().eq_ignore_ascii_case(key))
                .find_map(|(_, v)| whole(v.trim()))
        };
        if named("r").is_some_and(|remaining| remaining > 0) { None } else { named("t").map(Span::from_secs) }
    });
    limits.max()
}

fn outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c: char| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
    .collect()
}

/// A number written with digits alone; one that is too large is the largest there is.
fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn until(moment: Time, now: Time) -> Option<Span> {
    (moment > now).then(|| moment.since(now))
}

/// The form of today, and the two that RFC 9110 still asks recipients to read.
fn http_date(value: &str) -> Option<Time> {
    if let Ok(stamp) = DateTimeParser::new().parse_timestamp(value) {
        return Some(Time::from_millis(stamp.as_millisecond()));
    }
    let old = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let moment = old.iter().find_map(|form| DateTime::strptime(form, value).ok())?;
    let stamp = TimeZone::UTC.to_timestamp(moment).ok()?;
    Some(Time::from_millis(stamp.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Time {
        "1994-11-06T08:49:07Z".parse().unwrap()
    }

    fn of(headers: &[(&str, &str)]) -> Option<Span> {
        let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        hint(&headers, now())
    }

    fn check(header: &str, value: &str, secs: Option<u64>) {
        assert_eq!(of(&[(header, value)]), secs.map(Span::from_secs), "{header}: {value}");
    }

    #[test] // REQ CF-8
    fn retry_after_is_read_in_both_forms() {
        check("retry-after", "120", Some(120));
        check("Retry-After", " 120 ", Some(120));
        check("retry-after", "0", Some(0));
        check("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT", Some(30));
        check("retry-after", "Sunday, 06-Nov-94 08:49:37 GMT", Some(30));
        check("retry-after", "Sun Nov  6 08:49:37 1994", Some(30));
    }

    #[test] // REQ CF-8
    fn a_past_date_and_garbage_are_no_hint() {
        for bad in
            ["", "-1", "+5", "soon", "1e9", "1.5", "Sun, 06 Nov 1994 08:48:00 GMT", "06 Nov", "\u{0665}"]
        {
            check("retry-after", bad, None);
        }
        check("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT", None);
        assert_eq!(hint(&[], now()), None);
    }

    #[test] // REQ CF-8
    fn a_number_too_large_is_the_longest_wait() {
        check("retry-after", "99999999999999999999999999", Some(u64::MAX));
        assert_eq!(of(&[("ratelimit-reset", "99999999999999999999999999")]), Some(Time::MAX.since(now())));
    }

    #[test] // REQ CF-8
    fn a_reset_is_seconds_or_a_moment_by_its_size() {
        check("ratelimit-reset", "30", Some(30));
        check("ratelimit-reset", "1.5", Some(2));
        check("x-ratelimit-reset", "30", Some(30));
        let headers = [("x-ratelimit-reset".to_owned(), "1700000030".to_owned())];
        assert_eq!(hint(&headers, Time::from_millis(1_700_000_000_000)), Some(Span::from_secs(30)));
        assert_eq!(hint(&headers, Time::from_millis(1_700_000_031_000)), None);
        let headers = [("x-ratelimit-reset".to_owned(), "1700000030000".to_owned())];
        assert_eq!(hint(&headers, Time::from_millis(1_700_000_000_000)), Some(Span::from_secs(30)));
        check("x-ratelimit-reset", "-30", None);
        check("x-ratelimit-reset", "later", None);
    }

    #[test] // REQ CF-8
    fn the_one_field_form_takes_the_longest_of_the_limits_used_up() {
        check("ratelimit", r#""default";r=0;t=30"#, Some(30));
        check("ratelimit", r#""default";t=30"#, Some(30));
        check("ratelimit", r#""default";r=50;t=30"#, None);
        check("ratelimit", r#""burst";r=0;t=5, "day;t=9,";r=0;t=60, "month";r=7;t=9999"#, Some(60));
        check("ratelimit", "limit=100, remaining=0", None);
    }

    #[test] // REQ CF-8
    fn a_window_with_something_left_asks_for_no_wait() {
        assert_eq!(of(&[("x-ratelimit-remaining", "12"), ("x-ratelimit-reset", "3600")]), None);
        let used_up = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "3600")];
        assert_eq!(of(&used_up), Some(Span::from_hours(1)));
    }

    #[test] // REQ CF-8
    fn retry_after_wins_over_every_reset() {
        let reset = [("ratelimit-reset", "600"), ("x-ratelimit-reset", "900"), ("ratelimit", "a;r=0;t=700")];
        assert_eq!(of(&reset), Some(Span::from_secs(900)));
        assert_eq!(of(&[&reset[..], &[("retry-after", "7")]].concat()), Some(Span::from_secs(7)));
        assert_eq!(of(&[&reset[..], &[("retry-after", "rubbish")]].concat()), Some(Span::from_secs(900)));
    }

    #[test] // REQ CF-8
    fn a_greylisting_reply_that_names_a_time() {
        let check = |text: &str, secs: Option<u64>| {
            assert_eq!(greylist_wait(text), secs.map(Span::from_secs), "{text}");
        };
        check("4.7.1 Greylisted, please try again in 300 seconds", Some(300));
        check("Greylisting in effect, come back in 00:04:59", Some(299));
        check("Try again in 5 minutes", Some(300));
        check("Greylisted at 12:30:00, try again in 5 minutes", Some(300));
        check("please retry after 1 hour", Some(3_600));
        check("wait 10 min and resend", Some(600));
        check("greylisted for 90s", Some(90));
        check("try again in 1 minute, 30 seconds", Some(90));
        check("try again in 1 minute and 30 seconds", Some(90));
        check("please try\r\n again in\n15 minutes", Some(900));
        check("Limite excedido, tente novamente em 2 horas", Some(7_200));
        check("aguarde 5 minutos e 10 segundos", Some(310));
        check("Greylisted, try again later", None);
        check("connection timed out after 30 seconds", None);
        check("retry 5 times", None);
        check("wait until 3 messages have left", None);
        check("mailbox limit is 300 seconds; try again", None);
        check("", None);
        assert!(greylist_wait("retry in 999999999999999 hours").is_some());
    }

    proptest! {
        #[test] // REQ CF-8
        fn no_header_makes_it_panic(
            name in prop::sample::select(vec!["retry-after", "ratelimit", "ratelimit-reset", "x-ratelimit-reset"]),
            value in prop_oneof!["\\PC*", "[0-9.:;=,rt\" -]{0,40}", "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4,6} [0-9:]{8} GMT"],
            at in any::<i64>(),
        ) {
            let _ = hint(&[(name.to_owned(), value)], Time::from_millis(at));
        }

        #[test] // REQ CF-8
        fn any_number_of_seconds_is_taken_as_it_stands(secs in 0u64..=1_000_000_000) {
            prop_assert_eq!(of(&[("retry-after", &secs.to_string())]), Some(Span::from_secs(secs)));
        }

        #[test] // REQ CF-8
        fn no_text_makes_it_panic(text in prop_oneof!["\\PC*", "(retry|again|wait) [0-9:hms ]{0,30}"]) {
            let _ = greylist_wait(&text);
        }
    }
}
