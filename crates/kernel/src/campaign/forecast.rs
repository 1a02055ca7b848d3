//! When a campaign will have reached everybody.
//!
//! Time is walked through from one change to the next (hours that open or close, midnights of a daily cap, campaigns of
//! the same line that begin or end) and never from message to message, so that a campaign of a million costs no more
//! than the days that it takes. Between two changes everybody sends at the mean pace.

use crate::time::{Span, Time};
use crate::window::Window;

use super::line::{Line, LineRules};
use super::throttle::SEND;
use super::waiting::Waiting;
use super::{Campaign, State};

/// Nobody plans beyond that.
pub const HORIZON: Span = Span::from_hours(5 * 366 * 24);
/// How often it is asked what those leave each other who share a line.
const ROUNDS: usize = 8;

/// What a campaign's future depends on, beside itself.
#[derive(Clone, Debug)]
pub struct Outlook<'a> {
    pub rules: &'a LineRules,
    pub line: &'a Line,
    /// The other campaigns of the line that run or will.
    pub others: Vec<&'a Campaign>,
    /// When the messages are due that wait for another try.
    pub retries: Vec<Time>,
    /// What keeps all messages of the channel from going, whoever sent them.
    pub stop: Option<Waiting>,
}

impl Campaign {
    /// When everybody will have been reached: the end of the last send, if no more fails. None where there is nobody
    /// left, while it is paused or over, while nobody can say how long the channel is held, and for whatever takes longer
    /// than [`HORIZON`].
    pub fn eta(&self, outlook: &Outlook<'_>, now: Time) -> Option<Time> {
        if matches!(self.state, State::Paused { .. } | State::Completed { .. } | State::Cancelled { .. }) {
            return None;
        }
        let from = match &outlook.stop {
            None => now,
            Some(Waiting { until, .. }) => until.as_ref().copied()?.max(now),
        };
        let Outlook { rules, line, .. } = outlook;
        let shared = rules.gap.is_some() || rules.daily_cap.is_some();
        let others = outlook.others.iter().filter(|_| shared);
        let own = Course::of(self, &outlook.retries, now);
        if own.is_done() {
            return own.last_end;
        }
        let courses: Vec<_> =
            std::iter::once(own).chain(others.map(|other| Course::of(other, &[], now))).collect();
        let hold = rules.gap.map(|gap| SEND + gap);
        let line_free = line.gap_over(rules).unwrap_or_else(|| {
            let set_out = courses.iter().filter_map(|course| course.last_end).max();
            set_out.unwrap_or(now + SEND) + rules.gap.unwrap_or_default()
        });
        let today = rules.daily_cap.map(|cap| u64::from(cap.saturating_sub(line.sends_on(rules, from))));
        Walk { rules, courses, hold, line_free, today, at: from }.end()
    }
}

/// A campaign on its way through time.
struct Course<'a> {
    window: Option<&'a Window>,
    /// The open hours that it is in, or the next ones.
    hours: (Time, Time),
    /// It has not begun before.
    start: Time,
    /// From the start of one send to the start of the next.
    cycle: Span,
    weight: u32,
    /// Its next send does not set out before.
    ready: Time,
    /// Who can be written to as soon as it is ready.
    people: u64,
    /// Those whose message is due later, the last one first.
    later: Vec<Time>,
    /// How many it has sent on the way.
    sent: u64,
    /// When the last of those that are on their way or were sent has arrived.
    last_end: Option<Time>,
}

/// What a course does between two changes.
struct Stretch {
    course: usize,
    first: Time,
    every: Span,
    most: u64,
}

impl Stretch {
    /// How many set out before then.
    fn before(&self, until: Time) -> u64 {
        until.since(self.first).millis().div_ceil(self.every.millis().max(1)).min(self.most)
    }

    /// When the one of that number sets out, from 1 on.
    fn nth(&self, n: u64) -> Time {
        self.first + times(self.every, n.saturating_sub(1))
    }
}

fn times(span: Span, n: u64) -> Span {
    Span::from_millis(span.millis().saturating_mul(n))
}

impl<'a> Course<'a> {
    fn of(campaign: &'a Campaign, retries: &[Time], now: Time) -> Course<'a> {
        let cycle = campaign.throttle.cycle();
        let start = match campaign.state {
            State::Scheduled { start_at } => start_at,
            _ => now,
        };
        // One that is on its way is taken to need as long as any other.
        let set_out = campaign.flight.map(|flight| flight.since.max(now - SEND));
        let left = campaign.roll.left() - u64::from(set_out.is_some()).min(campaign.roll.left());
        let mut later: Vec<Time> = retries.iter().copied().filter(|due| *due > now).collect();
        later.sort_unstable_by(|one, other| other.cmp(one));
        later.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        Course {
            window: campaign.window.as_ref(),
            hours: (Time::default(), Time::default()),
            start,
            cycle,
            weight: campaign.weight.get(),
            ready: set_out.map_or(campaign.free_at, |at| at + cycle).max(start),
            people: left - later.len() as u64,
            later,
            sent: 0,
            last_end: set_out.map(|at| at + SEND),
        }
    }

    /// What so many sends count where turns are taken by weight.
    fn turns(&self, sends: u64) -> u64 {
        sends.saturating_mul(1_000) / u64::from(self.weight)
    }

    fn is_done(&self) -> bool {
        self.people == 0 && self.later.is_empty()
    }

    /// Whether it could send now, and when that changes.
    fn look(&mut self, at: Time) -> (bool, Time) {
        while self.later.last().is_some_and(|due| *due <= at) {
            self.later.pop();
            self.people += 1;
        }
        if at < self.start {
            return (false, self.start);
        }
        let due = self.later.last().copied().unwrap_or(Time::MAX);
        let (open, until) = is_open(self.window, &mut self.hours, at);
        (open && self.people > 0, until.min(due))
    }
}

/// Whether it is open, and when that changes. `hours` is what was last found.
fn is_open(window: Option<&Window>, hours: &mut (Time, Time), at: Time) -> (bool, Time) {
    let Some(window) = window else { return (true, Time::MAX) };
    if hours.1 <= at {
        *hours = window.next(at).unwrap_or((Time::MAX, Time::MAX));
    }
    if hours.0 <= at { (true, hours.1) } else { (false, hours.0) }
}

/// The part of a line that each takes who could send once in so long: what they want, if that is less than their share
/// by weight, and of the rest a share.
fn parts(cycles: &[f64], weights: &[f64], hold: f64) -> Vec<f64> {
    let mut parts: Vec<f64> = cycles.iter().map(|cycle| hold / cycle).collect();
    let (mut hungry, mut rest): (Vec<usize>, f64) = ((0..parts.len()).collect(), 1.0);
    loop {
        let share = rest / hungry.iter().map(|n| weights[*n]).sum::<f64>();
        let (sated, others): (Vec<usize>, Vec<usize>) =
            hungry.iter().partition(|n| parts[**n] <= share * weights[**n]);
        if sated.is_empty() {
            hungry.iter().for_each(|n| parts[*n] = share * weights[*n]);
        }
        if sated.is_empty() || others.is_empty() {
            return parts;
        }
        rest -= sated.iter().map(|n| parts[*n]).sum::<f64>();
        hungry = others;
    }
}

/// All campaigns of a line on their way through time. The first is the one that is asked for.
struct Walk<'a> {
    rules: &'a LineRules,
    courses: Vec<Course<'a>>,
    /// How long one send keeps the line from the next, where the line has a gap.
    hold: Option<Span>,
    line_free: Time,
    /// How many the line takes today, where it has a cap.
    today: Option<u64>,
    at: Time,
}

impl Walk<'_> {
    fn end(mut self) -> Option<Time> {
        let horizon = self.at + HORIZON;
        let mut hours = (Time::default(), Time::default());
        let mut midnight = self.midnight();
        while self.at < horizon {
            if self.at >= midnight {
                self.today = self.rules.daily_cap.map(u64::from);
                midnight = self.midnight();
            }
            let (open, change) = is_open(self.rules.window.as_ref(), &mut hours, self.at);
            if !open || self.today == Some(0) {
                self.at = if open { midnight } else { change };
                continue;
            }
            let until = self.stretch(change.min(midnight).min(horizon));
            if self.courses[0].is_done() {
                return self.courses[0].last_end;
            }
            self.at = until;
        }
        None
    }

    fn midnight(&self) -> Time {
        self.rules.daily_cap.map_or(Time::MAX, |_| self.rules.time_zone.tomorrow(self.at))
    }

    /// Goes on to the next change; when that is.
    fn stretch(&mut self, mut until: Time) -> Time {
        let mut senders = Vec::with_capacity(self.courses.len());
        for (index, course) in self.courses.iter_mut().enumerate() {
            let (sends, change) = course.look(self.at);
            until = until.min(change);
            if sends {
                senders.push(index);
            }
        }
        let stretches = self.shared(&senders);
        if self.hold.is_some() && stretches.len() > 1 {
            // Whoever has come to the end leaves the line to the others.
            let ends = stretches.iter().map(|it| it.first + times(it.every, it.most));
            until = until.min(ends.min().unwrap_or(until));
        }
        let (until, counts) = self.capped(&stretches, until);
        for (stretch, count) in stretches.iter().zip(counts).filter(|(_, count)| *count > 0) {
            let course = &mut self.courses[stretch.course];
            let last = stretch.nth(count);
            course.people -= count;
            course.sent += count;
            course.ready = last + course.cycle;
            course.last_end = Some(last + SEND);
            self.line_free = self.hold.map_or(self.line_free, |hold| self.line_free.max(last + hold));
        }
        until
    }

    /// How those who can send do it together: whoever is ready first goes first, and the line is shared by weight among
    /// those who want more of it than there is.
    fn shared(&self, senders: &[usize]) -> Vec<Stretch> {
        let mut ready: Vec<(Time, u64, usize)> = senders
            .iter()
            .map(|index| {
                let course = &self.courses[*index];
                (course.ready.max(self.at), course.turns(course.sent), *index)
            })
            .collect();
        ready.sort_unstable();
        let turns = self.hold.map(|hold| self.turns(senders, hold)).unwrap_or_default();
        let mut free = self.line_free;
        let stretch = |(ready, _, course): (Time, u64, usize)| {
            let Course { cycle, people, .. } = self.courses[course];
            let (first, every) = match self.hold {
                Some(hold) => {
                    let first = ready.max(free);
                    free = first + hold;
                    (
                        first,
                        turns.iter().find(|(index, _)| *index == course).map_or(cycle, |(_, every)| *every),
                    )
                }
                None => (ready, cycle),
            };
            Stretch { course, first, every, most: people }
        };
        ready.into_iter().map(stretch).collect()
    }

    /// From one turn to the next of each of them, where a send keeps the line for so long.
    #[allow(clippy::cast_precision_loss)]
    fn turns(&self, senders: &[usize], hold: Span) -> Vec<(usize, Span)> {
        let hold = hold.millis().max(1) as f64;
        let courses: Vec<&Course<'_>> = senders.iter().map(|index| &self.courses[*index]).collect();
        let alone: Vec<f64> = courses.iter().map(|it| (it.cycle.millis() as f64).max(hold)).collect();
        let weights: Vec<f64> = courses.iter().map(|it| f64::from(it.weight)).collect();
        let mut cycles = alone.clone();
        let mut taken = parts(&cycles, &weights, hold);
        // Whoever comes upon another's send waits for half of it in the mean, which leaves more to the others; so on
        // until that changes little.
        for _ in 0..if courses.len() > 1 { ROUNDS } else { 0 } {
            let all: f64 = taken.iter().sum();
            for (n, cycle) in cycles.iter_mut().enumerate() {
                // One that is ready before the line is free has its turn as soon as that is.
                let busy = if alone[n] > hold { (all - taken[n]) / (1.0 - taken[n]) } else { 0.0 };
                *cycle = (*cycle + alone[n] + busy.clamp(0.0, 1.0) * hold / 2.0) / 2.0;
            }
            taken = parts(&cycles, &weights, hold);
        }
        let every = taken.iter().map(|part| Span::from_millis(1).scaled(hold / part));
        senders.iter().copied().zip(every).collect()
    }

    /// How many each sends until then, or until the day's cap is reached, and when that is.
    fn capped(&mut self, stretches: &[Stretch], until: Time) -> (Time, Vec<u64>) {
        let counts = |until: Time| -> Vec<u64> { stretches.iter().map(|it| it.before(until)).collect() };
        let all = |until: Time| -> u64 { stretches.iter().map(|it| it.before(until)).sum() };
        let Some(today) = self.today else { return (until, counts(until)) };
        if all(until) < today {
            self.today = Some(today - all(until));
            return (until, counts(until));
        }
        let (mut short, mut enough) = (self.at, until);
        while enough.since(short).millis() > 1 {
            let half = short + Span::from_millis(enough.since(short).millis() / 2);
            if all(half) < today { short = half } else { enough = half }
        }
        let mut counts = counts(enough);
        // Of those who set out at the same moment, the ones whose turn it was not stay for tomorrow.
        while counts.iter().sum::<u64>() > today {
            let last = (0..counts.len()).filter(|n| counts[*n] > 0).max_by_key(|n| {
                let course = &self.courses[stretches[*n].course];
                (stretches[*n].nth(counts[*n]), course.turns(course.sent + counts[*n]))
            });
            if let Some(last) = last {
                counts[last] -= 1;
            }
        }
        self.today = Some(0);
        (enough, counts)
    }
}

#[cfg(test)]
mod tests;
