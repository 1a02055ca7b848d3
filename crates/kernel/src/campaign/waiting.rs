//! Why a campaign does not send at this moment, and when it will.

use schemars::JsonSchema;
use serde::Serialize;

use crate::block::{Block, BlockKind, Gate};
use crate::message::slugs;
use crate::time::Time;
use crate::window::{Window, Zone};

use super::forecast::Outlook;
use super::line::LineRules;
use super::{Campaign, State};

slugs! {
    /// What a campaign waits for.
    WaitReason {
        /// The wait after its last send.
        Pace = 1 "pace",
        /// Its own hours.
        Window = 2 "window",
        /// The hours of its channel.
        LineWindow = 3 "line_window",
        /// The sends of the day are used up.
        DailyCap = 4 "daily_cap",
        /// The channel's gap, or another campaign's message on it.
        LineGap = 5 "line_gap",
        /// Everybody who is left waits for another try.
        Retry = 6 "retry",
        /// The channel takes no messages.
        ChannelHeld = 7 "channel_held",
        /// The channel's breaker is open.
        Breaker = 8 "breaker",
        /// Nothing is sent at all.
        AllPaused = 9 "all_paused",
        /// There is no hour in which it may send.
        Never = 10 "never",
    }
}

impl WaitReason {
    /// What it waits for is part of sending one by one, and not worth a word where something else comes after it.
    fn is_usual(self) -> bool {
        matches!(self, WaitReason::Pace | WaitReason::LineGap | WaitReason::Retry)
    }
}

/// What a campaign waits for, until when, and the same in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CampaignWaiting")]
pub struct Waiting {
    pub reason: WaitReason,
    /// When it goes on; null if nobody can say.
    pub until: Option<Time>,
    /// For people, with the time zone that is meant.
    pub words: String,
}

impl Waiting {
    /// For what stands in front of a whole channel; nothing if messages pass.
    pub fn behind(block: &Block, zone: &Zone, now: Time) -> Option<Waiting> {
        let Gate::Shut { until } = block.gate(now) else { return None };
        let (reason, what) = match block.kind {
            BlockKind::Breaker => (WaitReason::Breaker, "the channel's breaker is open"),
            BlockKind::Pause => (WaitReason::ChannelHeld, "the provider asked for a pause"),
            BlockKind::Hold | BlockKind::Operator | BlockKind::Ramp => {
                (WaitReason::ChannelHeld, "the channel is held")
            }
        };
        let then = until.map_or("until somebody releases it".to_owned(), |until| {
            let what = if block.kind.is_probed() { "tried again" } else { "goes on" };
            format!("{what} {} {zone}", zone.said(until, now))
        });
        Some(Waiting { reason, until, words: format!("{what}: {}; {then}", block.reason) })
    }

    /// For an operator who stopped everything.
    pub fn all_paused(why: &str) -> Waiting {
        let words = format!("nothing is sent at all: {why}; `pombo store resume` lets it go on");
        Waiting { reason: WaitReason::AllPaused, until: None, words }
    }
}

/// Why there is no hour in which a campaign with these hours may send on a line with these rules; nothing if there is.
pub fn never(window: Option<&Window>, rules: &LineRules, now: Time) -> Option<String> {
    let both: Vec<&Window> = window.into_iter().chain(&rules.window).collect();
    if Window::together(&both, now).is_some() {
        return None;
    }
    let open = |window: &Window| Window::together(&[window], now).is_some();
    Some(match (window, &rules.window) {
        (Some(own), Some(line)) if open(own) && open(line) => {
            format!(
                "its sending hours {own} and those of its channel, {line}, have no moment in common within a year"
            )
        }
        (Some(own), _) if !open(own) => format!("its sending hours {own} do not open within a year"),
        (_, Some(line)) => format!("the sending hours of its channel, {line}, do not open within a year"),
        _ => "its sending hours do not open within a year".to_owned(),
    })
}

impl Campaign {
    /// What keeps a campaign that runs from sending now; and of any that is not over, that it never will.
    pub fn waiting(&self, outlook: &Outlook<'_>, now: Time) -> Option<Waiting> {
        if matches!(self.state, State::Completed { .. } | State::Cancelled { .. }) {
            return None;
        }
        if let Some(words) = never(self.window.as_ref(), outlook.rules, now) {
            return Some(Waiting { reason: WaitReason::Never, until: None, words });
        }
        if self.flight.is_some() || self.roll.left() == 0 || !matches!(self.state, State::Running { .. }) {
            return None;
        }
        if let Some(stop) = &outlook.stop {
            return Some(stop.clone());
        }
        let (mut at, mut reason) = (now, None);
        while let Some((hurdle, until)) = self.hurdle(outlook, at) {
            let told = reason.filter(|reason: &WaitReason| !reason.is_usual()).unwrap_or(hurdle);
            reason = Some(told);
            match until {
                Some(until) if until < Time::MAX => at = until,
                _ => {
                    return Some(Waiting {
                        reason: told,
                        until: None,
                        words: self.words(told, outlook, None, now),
                    });
                }
            }
        }
        let reason = reason?;
        Some(Waiting { reason, until: Some(at), words: self.words(reason, outlook, Some(at), now) })
    }

    /// When the next message of one that runs may set out; none while one is under way, or if nobody can say.
    pub fn next_send(&self, outlook: &Outlook<'_>, now: Time) -> Option<Time> {
        let sends = matches!(self.state, State::Running { .. }) && self.roll.left() > 0;
        if !sends || self.flight.is_some() {
            return None;
        }
        self.waiting(outlook, now).map_or(Some(now), |waiting| waiting.until)
    }

    /// What of all that is in its way at that time is there longest; none if nothing is.
    fn hurdle(&self, outlook: &Outlook<'_>, at: Time) -> Option<(WaitReason, Option<Time>)> {
        let Outlook { rules, line, retries, .. } = outlook;
        // Nobody is left but those who wait for another try.
        let tried = self.roll.pending == 0 && self.roll.queued <= retries.len() as u64;
        let retry = retries.iter().min().copied().filter(|_| tried);
        let gap = line.gap_over(rules);
        let hurdles = [
            (WaitReason::Pace, Some(self.free_at)),
            (WaitReason::Retry, retry.or(Some(at))),
            (WaitReason::LineGap, gap),
            (WaitReason::Window, self.window.as_ref().and_then(|window| window.opens(at)).or(Some(at))),
            (WaitReason::LineWindow, rules.window.as_ref().and_then(|window| window.opens(at)).or(Some(at))),
            (WaitReason::DailyCap, line.spent_until(rules, at).or(Some(at))),
        ];
        let in_the_way = hurdles.into_iter().filter(|(_, until)| until.is_none_or(|until| at < until));
        in_the_way.max_by_key(|(_, until)| until.unwrap_or(Time::MAX))
    }

    fn words(&self, reason: WaitReason, outlook: &Outlook<'_>, until: Option<Time>, now: Time) -> String {
        let rules = outlook.rules;
        let zone = &rules.time_zone;
        let opens = |what: &str, window: Option<&Window>| {
            let Some(window) = window else { return what.to_owned() };
            let then = until.map(|until| format!("; opens {}", window.time_zone.said(until, now)));
            format!("{what} {window}{}", then.unwrap_or_default())
        };
        let then = || until.map(|until| format!("{} {zone}", zone.said(until, now))).unwrap_or_default();
        match reason {
            WaitReason::Window => opens("sending hours", self.window.as_ref()),
            WaitReason::LineWindow => opens("sending hours of the channel", rules.window.as_ref()),
            WaitReason::DailyCap => {
                let cap = rules.daily_cap.unwrap_or_default();
                format!("the channel's {cap} sends of a day are used up; goes on {}", then())
            }
            WaitReason::LineGap if until.is_none() => {
                "another campaign's message is on the same channel".into()
            }
            WaitReason::LineGap => {
                let gap = rules.gap.unwrap_or_default();
                format!("the channel's gap of {gap} after each send")
            }
            WaitReason::Retry => format!("whoever is left waits for another try; the next is due {}", then()),
            _ => "the wait after the last send".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
