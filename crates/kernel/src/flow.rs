//! How fast messages may follow each other, decided without a clock: rates, and what is left of them.
//!
//! A [`Flow`] remembers one moment: when the next message is due at an even pace. So it costs nothing to keep, and
//! a pace that changes on the way needs no bookkeeping.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::{Span, Time};

/// Messages per second, held in thousandths. Written as `10/s`, `90/m` or `500/h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// A rate of so many thousandths of a message a second; at least one.
    pub const fn from_milli(per_1000_seconds: u64) -> Rate {
        Rate(if per_1000_seconds == 0 { 1 } else { per_1000_seconds })
    }

    pub const fn per_second(count: u64) -> Rate {
        Rate::from_milli(count.saturating_mul(1_000))
    }

    pub const fn milli(self) -> u64 {
        self.0
    }

    /// This rate times `part` over `whole`.
    pub const fn scaled(self, part: u64, whole: u64) -> Rate {
        Rate::from_milli(self.0.saturating_mul(part) / if whole == 0 { 1 } else { whole })
    }

    /// From one message to the next, in microseconds.
    const fn gap(self) -> i64 {
        (1_000_000_000 / self.0).cast_signed()
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (unit, seconds) in [("s", 1), ("m", 60), ("h", 3_600)] {
            let count = self.0 * seconds;
            if count >= 1_000 && count.is_multiple_of(1_000) {
                return write!(f, "{}/{unit}", count / 1_000);
            }
        }
        write!(f, "{}/h", self.0 * 36 / 10)
    }
}

impl std::str::FromStr for Rate {
    type Err = BadRate;
    fn from_str(text: &str) -> Result<Rate, BadRate> {
        let (count, unit) = text.split_once('/').ok_or(BadRate)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => return Err(BadRate),
        };
        let count: u64 = count.trim().parse().map_err(|_| BadRate)?;
        let milli = count.checked_mul(1_000).ok_or(BadRate)? / seconds;
        if (1..=1_000_000_000).contains(&milli) { Ok(Rate(milli)) } else { Err(BadRate) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a rate; write for example 10/s, 90/m or 500/h")]
pub struct BadRate;

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rate".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]+/[smh]$"})
    }
}

/// A rate as the number that it is, for what is stored.
pub(crate) mod exact {
    use super::Rate;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
        rate.map(Rate::milli).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Rate>, D::Error> {
        Ok(Option::<u64>::deserialize(reader)?.map(Rate::from_milli))
    }
}

/// Messages that are due within this time may go together, so that a fast flow is not cut into single claims.
const TOGETHER: i64 = 50_000;

/// Those who share a flow do not all have the same time, and some act on what they read a while ago.
const SET_BACK: i64 = 60_000_000;

/// An even flow: when its next message is due, in microseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    next: i64,
    /// When it was last used.
    at: i64,
}

impl Flow {
    /// As two numbers, for whoever keeps it.
    pub fn parts(self) -> (i64, i64) {
        (self.next, self.at)
    }

    pub fn from_parts(next: i64, at: i64) -> Flow {
        Flow { next, at }
    }

    /// A flow that has no room for that long.
    pub fn shut(now: Time, span: Span) -> Flow {
        Flow { next: micros(now + span).saturating_add(TOGETHER), at: micros(now) }
    }

    /// When the next message is due. A flow that was last used far in the future begins anew: the clock was set back,
    /// and nobody waits for it to catch up. A little is no sign of that: whoever else sends there may be ahead.
    fn next(self, now: Time) -> i64 {
        if self.is_set_back(now) { micros(now) } else { self.next }
    }

    fn is_set_back(self, now: Time) -> bool {
        self.at.saturating_sub(micros(now)) > SET_BACK
    }

    /// How many messages may go at once at `now`.
    pub fn room(self, rate: Rate, now: Time) -> usize {
        let ahead = self.next(now) - micros(now);
        if ahead > TOGETHER {
            return 0;
        }
        usize::try_from((TOGETHER - ahead.max(0)) / rate.gap().max(1) + 1).unwrap_or(usize::MAX)
    }

    /// The flow after `count` messages went at `now`.
    pub fn after(self, count: usize, rate: Rate, now: Time) -> Flow {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let (next, now_us) = (self.next(now), micros(now));
        let at = if self.is_set_back(now) { now_us } else { now_us.max(self.at) };
        Flow { next: next.max(now_us).saturating_add(rate.gap().saturating_mul(count)), at }
    }

    /// When there is room again, as seen at `now`.
    pub fn opens(self, now: Time) -> Time {
        Time::from_millis((self.next(now).saturating_sub(TOGETHER).saturating_add(999)).div_euclid(1_000))
    }
}

fn micros(time: Time) -> i64 {
    time.millis().saturating_mul(1_000)
}

/// What retries may take of one destination's traffic before new messages: a share of the first attempts, and a
/// floor. So neither starves the other; what nobody else wants is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Thousandths of a retry.
    saved: u64,
    at: Time,
}

const RETRY: u64 = 1_000;
/// One retry for every five first attempts.
const SHARE: u64 = RETRY / 5;
/// Ten a second whatever the traffic.
const FLOOR_PER_MS: u64 = 10 * RETRY / 1_000;
const SAVED_MAX: u64 = 100 * RETRY;

impl Default for Budget {
    fn default() -> Budget {
        Budget { saved: SAVED_MAX, at: Time::default() }
    }
}

impl Budget {
    fn now(self, now: Time) -> Budget {
        let earned = now.since(self.at).millis().saturating_mul(FLOOR_PER_MS);
        Budget { saved: self.saved.saturating_add(earned).min(SAVED_MAX), at: self.at.max(now) }
    }

    /// How many retries may go before what is new.
    pub fn room(self, now: Time) -> usize {
        usize::try_from(self.now(now).saved / RETRY).unwrap_or(usize::MAX)
    }

    /// The budget after some first attempts and some retries went.
    pub fn after(self, first: usize, retries: usize, now: Time) -> Budget {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let budget = self.now(now);
        let earned = count(first).saturating_mul(SHARE);
        let spent = count(retries).saturating_mul(RETRY);
        let saved = budget.saved.saturating_add(earned).saturating_sub(spent).min(SAVED_MAX);
        Budget { saved, ..budget }
    }
}

/// What a provider's rate-limit headers say when they come with a success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// How many it takes a second, a little less to be safe.
    pub rate: Option<Rate>,
    /// It takes nothing more for so long.
    pub pause: Option<Span>,
}

impl Said {
    /// Reads `ratelimit-limit`, `-remaining` and `-reset`, with or without `x-` in front.
    ///
    /// Only a window of a second tells a rate: of a longer one nobody says how long it is as a whole.
    pub fn in_headers(hints: &[(String, String)]) -> Said {
        let number = |name: &str| {
            let value = hints.iter().find(|(key, _)| key.strip_prefix("x-").unwrap_or(key) == name)?;
            value.1.split([',', ';']).next()?.trim().parse::<u64>().ok()
        };
        let (Some(reset), remaining) = (number("ratelimit-reset"), number("ratelimit-remaining")) else {
            return Said::default();
        };
        // A reset that large is a moment, not a length of time, and a pause of days is no rate limit.
        if reset > 86_400 {
            return Said::default();
        }
        let rate = number("ratelimit-limit").filter(|limit| reset <= 1 && (1..=1_000_000).contains(limit));
        Said {
            rate: rate.map(|limit| Rate::per_second(limit).scaled(9, 10)),
            pause: (remaining == Some(0)).then(|| Span::from_secs(reset.max(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Time = Time::from_millis(1_000_000);

    #[test]
    fn whoever_is_a_little_behind_gets_no_room_that_another_has_used() {
        let (rate, noon) = (Rate::from_milli(100), Time::from_millis(1_800_000_000_000));
        let ahead = noon + Span::from_millis(5);
        let used = Flow::default().after(1, rate, ahead);
        assert_eq!(used.room(rate, noon), 0);
        let late = used.after(1, rate, noon);
        assert!(late.opens(noon) >= used.opens(noon) + Span::from_secs(9), "{late:?}");
        // A clock that was set back by an hour is another matter: nobody waits for that long.
        assert!(used.room(rate, Time::from_millis(noon.millis() - 3_600_000)) > 0);
    }

    #[test]
    fn a_rate_is_written_as_it_is_read() {
        for text in ["10/s", "90/m", "36/h", "1000000/s", "3/m"] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate), "{text} reads as {rate}");
        }
        assert_eq!("10/s".parse::<Rate>(), Ok(Rate::per_second(10)));
        for bad in ["", "10", "10/d", "-1/s", "0/s", "x/s", "1/h"] {
            assert_eq!(bad.parse::<Rate>(), Err(BadRate), "{bad}");
        }
    }

    #[test] // REQ CB-1
    fn a_flow_lets_messages_through_at_its_rate_and_no_faster() {
        let rate = Rate::per_second(20);
        let (mut flow, mut sent) = (Flow::default(), 0);
        for ms in 0..10_000u64 {
            let now = NOW + Span::from_millis(ms);
            let room = flow.room(rate, now);
            if room > 0 {
                assert!(flow.opens(now) <= now);
                flow = flow.after(room, rate, now);
                sent += room;
            } else {
                assert!(flow.opens(now) > now);
            }
        }
        assert!((199..=202).contains(&sent), "{sent}");
    }

    #[test]
    fn a_clock_that_is_set_back_stops_no_flow() {
        let rate = Rate::per_second(2);
        let tomorrow = NOW + Span::from_hours(24);
        let flow = Flow::default().after(1, rate, tomorrow);
        assert_eq!(flow.room(rate, NOW), 1);
        assert!(flow.opens(NOW) <= NOW);
        let flow = flow.after(1, rate, NOW);
        assert_eq!(
            [0, 500].map(|ms| flow.room(rate, NOW + Span::from_millis(ms))),
            [0, 1],
            "and at its pace"
        );
    }

    proptest! {
        #[test]
        fn in_no_second_does_more_than_the_rate_and_a_little_pass(
            rate in 1u64..500, steps in prop::collection::vec(0u64..120, 1..300),
        ) {
            let rate_of = Rate::per_second(rate);
            let (mut flow, mut now, mut passed) = (Flow::default(), NOW, Vec::new());
            for step in steps {
                now = now + Span::from_millis(step);
                let room = flow.room(rate_of, now);
                flow = flow.after(room, rate_of, now);
                passed.push((now, room));
            }
            for (start, _) in &passed {
                let second = passed.iter().filter(|(at, _)| at >= start && at.since(*start) < Span::from_secs(1));
                let count: usize = second.map(|(_, room)| room).sum();
                prop_assert!(count as u64 <= rate + rate / 20 + 2, "{} at {}", count, rate);
            }
        }

        #[test]
        fn retries_never_take_more_than_their_share_and_the_floor(
            steps in prop::collection::vec((0u64..500, 0usize..40, 0usize..40), 1..200),
        ) {
            let (mut budget, mut now) = (Budget::default().after(0, 100, NOW), NOW);
            let (mut first, mut retries) = (0, 0);
            for (step, new, wish) in steps {
                now = now + Span::from_millis(step);
                let may = budget.room(now).min(wish);
                budget = budget.after(new, may, now);
                first += new;
                retries += may;
                let most = now.since(NOW).millis() / 100 + first as u64 / 5 + 1;
                prop_assert!(retries as u64 <= most, "{} of {}", retries, most);
            }
        }
    }

    #[test]
    fn headers_tell_a_rate_only_for_a_second_and_a_pause_only_when_nothing_is_left() {
        let said = |pairs: &[(&str, &str)]| {
            let hints: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Said::in_headers(&hints)
        };
        let ten = [("ratelimit-limit", "10"), ("ratelimit-remaining", "3"), ("ratelimit-reset", "1")];
        assert_eq!(said(&ten), Said { rate: Some(Rate::per_second(9)), pause: None });
        let none =
            [("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "40")];
        assert_eq!(said(&none), Said { rate: None, pause: Some(Span::from_secs(40)) });
        assert_eq!(said(&[("ratelimit-remaining", "0")]), Said::default());
        assert_eq!(said(&[("ratelimit-reset", "1700000000"), ("ratelimit-remaining", "0")]), Said::default());
        assert_eq!(said(&[("ratelimit-reset", "x")]), Said::default());
    }
}
