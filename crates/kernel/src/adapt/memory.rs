//! What was learned, ready to be asked at the end of an attempt.

use std::collections::HashMap;

use super::Fit;
use crate::learn::{Cell, Counts, Curve};
use crate::name::ChannelName;

/// All that is known at one moment, read off the counters beforehand, since whoever asks is in a hurry.
///
/// The narrowest place that enough is known of speaks: this error at this destination, this error on the channel, all
/// errors of the channel.
#[derive(Clone, Debug, Default)]
pub struct Memory(HashMap<ChannelName, Channel>);

#[derive(Clone, Debug)]
struct Channel {
    all: Fit,
    by_category: HashMap<String, Fit>,
    by_destination: HashMap<String, HashMap<String, Fit>>,
}

/// One row of counters and where it was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub channel: ChannelName,
    /// Nothing for what was counted for no destination of its own.
    pub destination: Option<String>,
    /// The category of the failure before these retries.
    pub category: String,
    pub cell: Cell,
    pub counts: Counts,
}

impl Memory {
    /// Adds up rows. Every retry must be in one of them, and in no more than one.
    pub fn of(rows: impl IntoIterator<Item = Seen>) -> Memory {
        #[derive(Default)]
        struct Sums {
            all: Curve,
            by_category: HashMap<String, Curve>,
            by_destination: HashMap<String, HashMap<String, Curve>>,
        }
        let mut sums = HashMap::<ChannelName, Sums>::new();
        for Seen { channel, destination, category, cell, counts } in rows {
            let sum = sums.entry(channel).or_default();
            sum.all.add(cell, counts);
            sum.by_category.entry(category.clone()).or_default().add(cell, counts);
            if let Some(destination) = destination {
                let errors = sum.by_destination.entry(destination).or_default();
                errors.entry(category).or_default().add(cell, counts);
            }
        }
        let enough = |curve: &Curve| curve.total().tried >= Counts::ENOUGH;
        let fits = |curves: HashMap<String, Curve>| -> HashMap<String, Fit> {
            let known = curves.into_iter().filter(|(_, curve)| enough(curve));
            known.map(|(name, curve)| (name, Fit::of(&curve))).collect()
        };
        let channel = |sum: Sums| Channel {
            all: Fit::of(&sum.all),
            by_category: fits(sum.by_category),
            by_destination: sum
                .by_destination
                .into_iter()
                .map(|(name, curves)| (name, fits(curves)))
                .collect(),
        };
        Memory(sums.into_iter().map(|(name, sum)| (name, channel(sum))).collect())
    }

    /// What is known of retries after such a failure: of the narrowest place with enough of them, else of the channel.
    pub fn about(&self, channel: &ChannelName, destination: &str, category: &str) -> Option<&Fit> {
        let channel = self.0.get(channel)?;
        let here = channel.by_destination.get(destination).and_then(|errors| errors.get(category));
        Some(here.or_else(|| channel.by_category.get(category)).unwrap_or(&channel.all))
    }
}
