//! What goes wrong, when, and who writes meanwhile.

use crate::dice::Dice;
use crate::time::Span;

/// A kind of trouble, and the messages that meet it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// In a few words.
    pub says: String,
    pub trouble: Trouble,
    /// The share of messages that never pass, whatever the provider's health, and whose error does not say so.
    pub permanent: f64,
    /// Messages a minute while the trouble lasts.
    pub per_minute: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// Nothing passes for a time between these two, with short and long ones alike on a scale of doublings.
    Down { least: Span, most: Span },
    /// Up and down in turn, each for such a time on average, until all is well.
    Flapping { lasts: Span, down: Span, up: Span },
    /// So many a minute pass and no more, while more than that arrive.
    Limited { lasts: Span, takes: f64 },
    /// One of them at a time, as often as their weights say.
    OneOf(Vec<(u32, Trouble)>),
}

impl Scenario {
    /// The published ones, by name.
    pub const PUBLISHED: [&'static str; 6] =
        ["blips", "restart", "outage", "flapping", "rate-limit", "mixed"];

    pub fn published(name: &str) -> Option<Scenario> {
        let (secs, mins) = (Span::from_secs, Span::from_mins);
        let blips = Trouble::Down { least: secs(2), most: secs(60) };
        let restart = Trouble::Down { least: mins(8), most: mins(12) };
        let outage = Trouble::Down { least: mins(90), most: mins(150) };
        let flapping = Trouble::Flapping { lasts: mins(60), down: secs(90), up: secs(45) };
        let (says, trouble, permanent, per_minute) = match name {
            "blips" => ("down for 2 s to 1 min", blips, 0.0, 30.0),
            "restart" => ("down for about 10 min", restart, 0.0, 10.0),
            "outage" => ("down for about 2 h", outage, 0.0, 2.0),
            "flapping" => ("an hour of 90 s down, 45 s up", flapping, 0.0, 5.0),
            "rate-limit" => {
                let limited = Trouble::Limited { lasts: mins(10), takes: 60.0 };
                ("60 a minute taken, 120 arrive, for 10 min", limited, 0.0, 120.0)
            }
            "mixed" => {
                let all = vec![(80, blips), (15, restart), (1, outage), (4, flapping)];
                ("blips, restarts, outages and flapping; 5 % permanent", Trouble::OneOf(all), 0.05, 5.0)
            }
            _ => return None,
        };
        Some(Scenario { name: name.into(), says: says.into(), trouble, permanent, per_minute })
    }

    /// How long one episode lasts on average, for a scale of time.
    pub fn typical(&self) -> Span {
        fn of(trouble: &Trouble) -> Span {
            match trouble {
                Trouble::Down { most, .. } => *most,
                Trouble::Flapping { lasts, .. } | Trouble::Limited { lasts, .. } => *lasts,
                Trouble::OneOf(all) => all.iter().map(|(_, trouble)| of(trouble)).max().unwrap_or_default(),
            }
        }
        of(&self.trouble)
    }
}

/// One time of trouble, as it is played to every policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// When messages arrive, and whether each can ever pass.
    pub(super) arrivals: Vec<(Span, Passable)>,
    pub(super) sky: Sky,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passable {
    Yes,
    Never,
}

/// When the provider takes messages.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sky {
    /// Down from each first to each second time.
    Down(Vec<(Span, Span)>),
    /// So many a minute, with a few at once.
    Limited { takes: f64 },
}

impl Sky {
    /// When it next takes messages, from this time on, if that can be told.
    pub(super) fn up_from(&self, at: Span) -> Option<Span> {
        match self {
            Sky::Down(times) => {
                Some(times.iter().find(|(from, to)| (*from..*to).contains(&at)).map_or(at, |(_, to)| *to))
            }
            Sky::Limited { .. } => None,
        }
    }
}

/// Episodes with at least so many messages in all; the same for the same dice.
pub fn episodes(scenario: &Scenario, messages: usize, dice: &mut Dice) -> Vec<Episode> {
    let mut made = Vec::new();
    let mut arrived = 0;
    while arrived < messages {
        let episode = episode(scenario, &scenario.trouble, messages, dice);
        arrived += episode.arrivals.len();
        made.push(episode);
    }
    made
}

/// One time of trouble. Of more messages than `wanted` only so many are played where they do not feel each other: the
/// rest would fare alike.
fn episode(scenario: &Scenario, trouble: &Trouble, wanted: usize, dice: &mut Dice) -> Episode {
    let (lasts, sky) = match trouble {
        Trouble::Down { least, most } => {
            let times = most.seconds() / least.seconds().max(0.001);
            let lasts = least.scaled(times.powf(dice.unit()));
            (lasts, Sky::Down(vec![(Span::ZERO, lasts)]))
        }
        Trouble::Flapping { lasts, down, up } => {
            let mut times = Vec::new();
            let mut at = Span::ZERO;
            while at < *lasts {
                let until = at + about(*down, dice);
                times.push((at, until));
                at = until + about(*up, dice);
            }
            (*lasts, Sky::Down(times))
        }
        Trouble::Limited { lasts, takes } => (*lasts, Sky::Limited { takes: *takes }),
        Trouble::OneOf(all) => {
            let weights = all.iter().map(|(weight, _)| u64::from(*weight)).sum();
            let mut drawn = dice.below(weights);
            let chosen = all.iter().find(|(weight, _)| match drawn.checked_sub(u64::from(*weight)) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            });
            let Some((_, trouble)) = chosen else {
                return Episode { arrivals: Vec::new(), sky: Sky::Down(Vec::new()) };
            };
            return episode(scenario, trouble, wanted, dice);
        }
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let count = (scenario.per_minute * lasts.seconds() / 60.0 + dice.unit()).floor().max(1.0) as usize;
    let count = if matches!(sky, Sky::Down(_)) { count.min(wanted) } else { count };
    let mut arrivals: Vec<(Span, Passable)> = (0..count)
        .map(|_| {
            let at = lasts.scaled(dice.unit());
            let never = dice.unit() < scenario.permanent;
            (at, if never { Passable::Never } else { Passable::Yes })
        })
        .collect();
    arrivals.sort_by_key(|(at, _)| *at);
    Episode { arrivals, sky }
}

/// A length of time of this average: mostly shorter, now and then much longer.
fn about(average: Span, dice: &mut Dice) -> Span {
    average.scaled(-(1.0 - dice.unit()).ln()).max(Span::from_secs(1))
}
