//! A line: one channel, as all campaigns together use it.

use serde::{Deserialize, Serialize};

use crate::block::Gate;
use crate::id::MessageId;
#[cfg(feature = "planted")]
use crate::planted;
use crate::time::{Span, Time};
use crate::window::{Window, Zone};

/// What campaigns have to mind on a channel, each and all together. Messages of no campaign do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineRules {
    /// From the end of one send to the start of the next.
    pub gap: Option<Span>,
    /// Most sends on one day.
    pub daily_cap: Option<u32>,
    pub window: Option<Window>,
    /// Whose midnight ends a day.
    pub time_zone: Zone,
}

impl LineRules {
    pub fn is_free(&self) -> bool {
        self.gap.is_none() && self.daily_cap.is_none() && self.window.is_none()
    }
}

/// How a line stands. What a newer version adds is ignored by an older one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The message that is on its way, and the gap that is kept after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flight: Option<(MessageId, Span)>,
    /// Nothing sets out before.
    #[serde(default)]
    free_at: Time,
    /// The day that was last sent on, as it is written, and how much.
    #[serde(default)]
    day: String,
    #[serde(default)]
    sends: u32,
}

impl Line {
    pub fn gate(&self, rules: &LineRules, now: Time) -> Gate {
        let shut = |until| Gate::Shut { until };
        let Some(gap) = self.gap_over(rules) else { return shut(None) };
        let gap = Some(gap).filter(|over| now < *over);
        let cap = self.spent_until(rules, now);
        #[cfg(feature = "planted")]
        let (gap, cap) = (
            gap.filter(|_| !planted::is(planted::Bug::LineGapIgnored)),
            cap.filter(|_| !planted::is(planted::Bug::CapIgnored)),
        );
        let window = rules.window.as_ref().and_then(|window| window.opens(now));
        match [gap, cap, window].into_iter().flatten().max() {
            None => Gate::Open,
            until => shut(until),
        }
    }

    /// When the gap after the last send is over, where one is kept; nothing while a message is on its way.
    pub(super) fn gap_over(&self, rules: &LineRules) -> Option<Time> {
        match (rules.gap, &self.flight) {
            (None, _) => Some(Time::default()),
            (Some(_), None) => Some(self.free_at),
            (Some(_), Some(_)) => None,
        }
    }

    /// When the day's sends are used up at `now`: until when.
    pub(super) fn spent_until(&self, rules: &LineRules, now: Time) -> Option<Time> {
        let spent = rules.daily_cap.is_some_and(|cap| self.sends_on(rules, now) >= cap);
        spent.then(|| rules.time_zone.tomorrow(now))
    }

    /// How many were sent on the day that `now` lies in.
    pub fn sends_on(&self, rules: &LineRules, now: Time) -> u32 {
        if self.day == rules.time_zone.day(now).to_string() { self.sends } else { 0 }
    }

    /// A message sets out.
    #[must_use]
    pub fn started(self, message: MessageId, rules: &LineRules, now: Time) -> Line {
        let sends = self.sends_on(rules, now).saturating_add(1);
        let day = rules.time_zone.day(now).to_string();
        let flight = rules.gap.map(|gap| (message, gap)).or(self.flight);
        Line { flight, free_at: self.free_at, day, sends }
    }

    /// A message came back from its attempt.
    #[must_use]
    pub fn ended(self, message: MessageId, now: Time) -> Line {
        match self.flight {
            Some((under_way, gap)) if under_way == message => {
                Line { flight: None, free_at: self.free_at.max(now + gap), ..self }
            }
            _ => self,
        }
    }

    /// A message that set out at `since` was given back unsent.
    #[must_use]
    pub fn released(self, message: MessageId, since: Time, rules: &LineRules) -> Line {
        let counted = self.day == rules.time_zone.day(since).to_string();
        let sends = self.sends.saturating_sub(u32::from(counted));
        let flight = self.flight.filter(|(under_way, _)| *under_way != message);
        Line { flight, sends, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageKey;

    const NOW: Time = Time::from_millis(1_780_000_000_000);

    fn message(n: i64) -> MessageId {
        MessageId::new(MessageKey(n << 30), 7)
    }

    #[test] // REQ BK-6
    fn one_send_at_a_time_and_the_gap_after_it() {
        let rules = LineRules { gap: Some(Span::from_secs(5)), ..LineRules::default() };
        let line = Line::default().started(message(1), &rules, NOW);
        assert_eq!(line.gate(&rules, NOW + Span::from_hours(1)), Gate::Shut { until: None });
        let end = NOW + Span::from_secs(2);
        assert_eq!(line.clone().ended(message(2), end), line, "another's end is none of ours");
        let line = line.ended(message(1), end);
        assert_eq!(line.gate(&rules, end), Gate::Shut { until: Some(end + Span::from_secs(5)) });
        assert_eq!(line.gate(&rules, end + Span::from_secs(5)), Gate::Open);
    }

    #[test] // REQ BK-6
    fn a_day_has_so_many_sends_and_midnight_is_the_zones() {
        let rules = LineRules { daily_cap: Some(2), ..LineRules::default() };
        let now: Time = "2026-06-02T02:00:00Z".parse().unwrap(); // 23:00 of the day before there
        let line = Line::default().started(message(1), &rules, now);
        assert_eq!(line.gate(&rules, now), Gate::Open);
        let line = line.started(message(2), &rules, now);
        let midnight: Time = "2026-06-02T03:00:00Z".parse().unwrap();
        assert_eq!(line.gate(&rules, now), Gate::Shut { until: Some(midnight) });
        let back = line.clone().released(message(2), now, &rules);
        assert_eq!(back.gate(&rules, now), Gate::Open, "it was not sent");
        assert_eq!(line.gate(&rules, midnight), Gate::Open);
        let line = line.started(message(3), &rules, midnight).started(message(4), &rules, midnight);
        let back = line.released(message(2), now, &rules);
        assert_eq!(back.sends_on(&rules, midnight), 2, "it was of the day before");
    }

    #[test] // REQ BK-6
    fn the_latest_of_several_waits_counts() {
        let window = serde_json::from_str(r#"{"hours": "08:00-20:00", "time_zone": "UTC"}"#).unwrap();
        let rules = LineRules { gap: Some(Span::from_secs(5)), window: Some(window), ..LineRules::default() };
        let night: Time = "2026-06-02T20:00:00Z".parse().unwrap();
        let line = Line::default().started(message(1), &rules, night).ended(message(1), night);
        let morning: Time = "2026-06-03T08:00:00Z".parse().unwrap();
        assert_eq!(line.gate(&rules, night), Gate::Shut { until: Some(morning) });
    }
}
