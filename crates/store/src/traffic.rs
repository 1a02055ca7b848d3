//! How much goes where, kept in memory by every store: rates, the retries' budget, and each destination's health.
//!
//! None of it is durable. After a restart a rate begins anew, a budget is full, and the meters are empty; blocks, which
//! are durable, carry what must not be forgotten.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pombo_kernel::block::{Block, BlockKind, Gate};
use pombo_kernel::breaker::Meter;
use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::classify::Scope;
use pombo_kernel::flow::{Budget, Flow, Rate};
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::QueueName;
use pombo_kernel::name::ChannelName;
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;
use pombo_kernel::turns::Weight;

use crate::{Place, Vitals};

/// How messages may go through channels, where that is out of the ordinary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// How fast.
    pub rates: BTreeMap<ChannelName, Rate>,
    /// What campaigns have to mind.
    pub lines: BTreeMap<ChannelName, LineRules>,
    /// How many turns their queues have where others have one.
    pub weights: BTreeMap<ChannelName, Weight>,
}

impl FromIterator<(ChannelName, Rate)> for Rates {
    fn from_iter<I: IntoIterator<Item = (ChannelName, Rate)>>(rates: I) -> Rates {
        Rates { rates: rates.into_iter().collect(), ..Rates::default() }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    rates: Arc<Rates>,
    /// What providers said of their own limits, which is better known than what we were told.
    learned: HashMap<ChannelName, Rate>,
    flows: HashMap<Place, Flow>,
    /// Of destinations that had retries lately; of the others the budget is full.
    budgets: HashMap<Place, Budget>,
    meters: HashMap<Place, Meter>,
}

impl Traffic {
    /// Takes over the configured rates; whether they changed.
    pub(crate) fn bound(&mut self, rates: &Arc<Rates>) -> bool {
        let changed = !Arc::ptr_eq(&self.rates, rates) && self.rates != *rates;
        self.rates = Arc::clone(rates);
        changed
    }

    /// Nothing bounds anything.
    pub(crate) fn is_free(&self) -> bool {
        self.rates.rates.is_empty()
    }

    /// How fast messages may pass a place, where that is bounded.
    fn rate(&self, place: &Place, block: Option<&Block>, now: Time) -> Option<Rate> {
        let ramp = match block.map(|block| block.gate(now)) {
            #[cfg(feature = "planted")]
            Some(Gate::Flow(_)) if planted::is(planted::Bug::RampIgnored) => None,
            Some(Gate::Flow(rate)) => Some(rate),
            _ => None,
        };
        let own = (place.destination.is_none()).then(|| {
            let said = self.rates.rates.get(&place.channel)?;
            Some(*self.learned.get(&place.channel).unwrap_or(said))
        });
        [ramp, own.flatten()].into_iter().flatten().min()
    }

    /// What campaigns have to mind on a channel.
    pub(crate) fn rules(&self, channel: &ChannelName) -> Option<&LineRules> {
        self.rates.lines.get(channel)
    }

    /// How many turns a queue has where an ordinary one has one, if its campaign has that weight.
    pub(crate) fn weight(&self, channel: &ChannelName, campaign: Option<Weight>) -> u32 {
        let channel = self.rates.weights.get(channel).copied().unwrap_or_default();
        channel.get().saturating_mul(campaign.unwrap_or_default().get())
    }

    /// Something bounds how fast messages pass a place.
    pub(crate) fn bounds(&self, place: &Place, block: Option<&Block>, now: Time) -> bool {
        self.rate(place, block, now).is_some()
    }

    pub(crate) fn flow(&self, place: &Place) -> Flow {
        self.flows.get(place).copied().unwrap_or_default()
    }

    /// How far a place has come, as others know.
    pub(crate) fn set_flow(&mut self, place: Place, flow: Flow) {
        self.flows.insert(place, flow);
    }

    /// Forgets how far places have come, but for those.
    pub(crate) fn keep_flows(&mut self, of: impl Fn(&Place) -> bool) {
        self.flows.retain(|place, _| of(place));
    }

    /// What is left when everything but the flows is forgotten.
    pub(crate) fn flows_alone(&self) -> Traffic {
        Traffic { flows: self.flows.clone(), ..Traffic::default() }
    }

    /// How many messages may pass a place at once; all of them where nothing bounds it.
    pub(crate) fn room(&self, place: &Place, block: Option<&Block>, now: Time) -> usize {
        match self.rate(place, block, now) {
            None => usize::MAX,
            Some(rate) => self.flow(place).room(rate, now),
        }
    }

    /// When there is room at a place again.
    pub(crate) fn opens(&self, place: &Place, now: Time) -> Time {
        self.flow(place).opens(now)
    }

    /// So many messages passed a place. Says whether that leaves no room for others.
    pub(crate) fn passed(&mut self, place: &Place, block: Option<&Block>, count: usize, now: Time) -> bool {
        let Some(rate) = self.rate(place, block, now) else { return false };
        let flow = self.flows.entry(place.clone()).or_default();
        *flow = flow.after(count, rate, now);
        flow.room(rate, now) == 0
    }

    /// How many retries may go to a destination before what is new.
    pub(crate) fn retry_room(&self, place: &Place, now: Time) -> usize {
        self.budget(place).room(now)
    }

    /// What retries to a destination may take.
    pub(crate) fn budget(&self, place: &Place) -> Budget {
        self.budgets.get(place).copied().unwrap_or_default()
    }

    /// First attempts and retries set out.
    pub(crate) fn charged(&mut self, place: &Place, first: usize, retries: usize, now: Time) {
        match self.budgets.get_mut(place) {
            Some(budget) => *budget = budget.after(first, retries, now),
            None if retries > 0 => {
                self.budgets.insert(place.clone(), Budget::default().after(first, retries, now));
            }
            None => {}
        }
    }

    /// Takes an attempt's sign of health into account; why the destination counts as down from now on, if it does.
    pub(crate) fn note(
        &mut self,
        place: &Place,
        block: Option<&Block>,
        vitals: &Vitals,
        message: MessageKey,
        now: Time,
    ) -> Option<String> {
        if let Some(rate) = vitals.rate {
            self.learned.insert(place.channel.clone(), rate);
        }
        let meter = match self.meters.get_mut(place) {
            Some(meter) => meter,
            None => self.meters.entry(place.clone()).or_default(),
        };
        let ramping = block.is_some_and(|block| block.kind == BlockKind::Ramp);
        let limits = if ramping { vitals.limits.on_ramp() } else { vitals.limits };
        meter.note(vitals.sign, message, &limits, now)
    }

    /// What a place took of late; a channel that is not measured itself, what its destinations took together.
    pub(crate) fn steady(&self, place: &Place, now: Time) -> Option<Rate> {
        if let Some(meter) = self.meters.get(place) {
            return Some(meter.steady(now));
        }
        let within = |at: &Place| place.destination.is_none() && at.channel == place.channel;
        let parts =
            self.meters.iter().filter(|(at, _)| within(at)).map(|(_, meter)| meter.steady(now).milli());
        parts.reduce(u64::saturating_add).map(Rate::from_milli)
    }

    /// A place starts with a clean sheet.
    pub(crate) fn forget(&mut self, place: &Place) {
        self.meters.remove(place);
        self.flows.remove(place);
    }
}

/// The two places where a block stops a queue: its channel, and its destination there.
pub(crate) fn places(queue: &QueueName) -> [Place; 2] {
    [None, Some(queue.destination.clone())]
        .map(|destination| Place { channel: queue.channel.clone(), destination })
}

/// Whoever asked at that moment, as a witness like a message: each asking is one of its own.
pub(crate) fn witness(now: Time) -> MessageKey {
    MessageKey(now.millis().saturating_neg())
}

/// The one of a queue's two places that a scope means.
pub(crate) fn at(places: &[Place; 2], scope: Scope) -> &Place {
    match scope {
        Scope::Channel => &places[0],
        Scope::Destination => &places[1],
    }
}
