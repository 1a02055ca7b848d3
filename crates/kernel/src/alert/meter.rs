//! What happened in the last while, from counters that only ever grow within their hour.

use serde::{Deserialize, Serialize};

use crate::name::{ChannelName, Tenant};
use crate::time::{Span, Time};

/// Of late it is known to this step when something came, ...
const STEP: Span = Span::from_secs(10);
const STEP_MS: i64 = 10_000;
/// ... for so many of them, and before that to so many parts of the window.
const STEPS: i64 = 60;
/// However many templates and categories there are: what comes beyond is not looked after.
const LINES_MAX: usize = 4_000;
const HOUR_MS: i64 = 3_600_000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Sent,
    Failed,
    Attempts,
    /// By the reason.
    FailedFor,
    /// By the category.
    AttemptFailed,
    /// By the template.
    SentByTemplate,
    FailedByTemplate,
    /// Attempts by how long after they were due they had ended, in the seconds that it took at least.
    EndedAfter,
    /// Retry decisions, by what was decided.
    Decided,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub tenant: Tenant,
    /// None of what concerns no channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    pub what: What,
    #[serde(default)]
    pub detail: String,
}

/// One counter over the last while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    key: Key,
    /// How much was counted in which hour, as far as that was taken in.
    taken: Vec<(i64, i64)>,
    /// How much came in which step since the epoch.
    came: Vec<(i64, i64)>,
}

/// Counters over the last while. Part of a document, so that a restart keeps its windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    /// Everything before this was taken in.
    at: Time,
    /// When an attempt was counted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempted: Option<Time>,
    /// By their keys, which rise.
    lines: Vec<Line>,
}

impl Meter {
    /// From when on the store's counts are needed: the hour of the last look, or the window's first.
    pub fn since(&self, window: Span, now: Time) -> Time {
        let from = self.at.max(now - window).min(now);
        Time::from_millis(from.hour() * HOUR_MS)
    }

    /// Takes in how much the store has counted so far in each hour that [`since`](Meter::since) asks for; whether
    /// anything was new.
    pub fn take(
        &mut self,
        counts: impl IntoIterator<Item = (Time, Key, i64)>,
        window: Span,
        now: Time,
    ) -> bool {
        let mut news = false;
        for (hour, key, count) in counts {
            let nth = match self.lines.binary_search_by(|line| line.key.cmp(&key)) {
                Ok(nth) => nth,
                Err(_) if self.lines.len() >= LINES_MAX => continue,
                Err(nth) => {
                    self.lines.insert(nth, Line { key, taken: Vec::new(), came: Vec::new() });
                    nth
                }
            };
            let line = &mut self.lines[nth];
            let hour = hour.hour();
            let before = line.taken.iter().find(|(of, _)| *of == hour).map_or(0, |(_, count)| *count);
            if count <= before {
                continue;
            }
            news = true;
            line.taken.retain(|(of, _)| *of != hour);
            line.taken.push((hour, count));
            // What an earlier hour still had to tell came at its end at the latest.
            let end = now.millis().min((hour + 1) * HOUR_MS - 1);
            if line.key.what == What::Attempts {
                self.attempted = self.attempted.max(Some(Time::from_millis(end)));
            }
            let came = end.div_euclid(STEP_MS);
            match line.came.last_mut().filter(|(at, _)| *at >= came) {
                Some((_, sum)) => *sum += count - before,
                None => line.came.push((came, count - before)),
            }
        }
        let hour = now.hour() - 1;
        for line in &mut self.lines {
            line.taken.retain(|(of, _)| *of >= hour);
            line.came = fewer(&line.came, window, now);
        }
        self.lines.retain(|line| !line.taken.is_empty() || !line.came.is_empty());
        self.at = now;
        news
    }

    /// What was counted in the window that ends now, where anything was.
    pub fn over(&self, window: Span, now: Time) -> impl Iterator<Item = (&Key, u64)> {
        let oldest = step_of(now - window);
        self.lines.iter().filter_map(move |line| {
            let sum: i64 = line.came.iter().filter(|(at, _)| *at >= oldest).map(|(_, count)| count).sum();
            Some((&line.key, u64::try_from(sum).ok().filter(|sum| *sum > 0)?))
        })
    }

    /// When an attempt was counted last, as far as is known.
    pub fn attempted(&self) -> Option<Time> {
        self.attempted
    }
}

fn step_of(time: Time) -> i64 {
    time.millis().div_euclid(STEP_MS)
}

/// What came within the window, with what is not of late put together: as if it had come at the end of its part.
fn fewer(came: &[(i64, i64)], window: Span, now: Time) -> Vec<(i64, i64)> {
    let parts = i64::try_from(window.millis() / STEP.millis()).unwrap_or(i64::MAX);
    let part = (parts / STEPS).max(1);
    let (oldest, late) = (step_of(now - window), step_of(now) - STEPS);
    let mut fewer: Vec<(i64, i64)> = Vec::new();
    for (at, count) in came.iter().filter(|(at, _)| *at >= oldest) {
        let end = at.div_euclid(part) * part + part - 1;
        let at = if end < late { end } else { *at };
        match fewer.last_mut().filter(|(last, _)| *last >= at) {
            Some((_, sum)) => *sum += count,
            None => fewer.push((at, *count)),
        }
    }
    fewer
}
