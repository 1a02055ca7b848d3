//! How long things are kept once they have ended.
//!
//! Nothing leaves by itself: what nobody gave a limit is kept for good. What is not finished is never given up, and
//! claims are kept for as long as the law may ask for them.

use std::collections::BTreeMap;

use crate::kind::ChannelKind;
use crate::message::StateName;
use crate::name::ChannelName;
use crate::time::{Span, Time};

/// For how long claims, what was decided about them and why, are kept at least: five years.
pub const CLAIMS_MIN: Span = Span::from_hours(1_826 * 24);
/// Nothing is kept for less: whoever follows events still looks at messages that have just ended.
pub const KEPT_MIN: Span = Span::from_hours(1);
/// For how long the same idempotency key finds its message again after that has ended, whether it is still there or not.
pub const KEYS_KEPT: Span = Span::from_hours(72);

/// What is kept of messages that ended in the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    #[default]
    All,
    /// Each for that long after its end.
    For(Span),
    /// The newest, by when they were accepted, so many of each tenant.
    Last(u64),
}

/// What is kept of a channel's messages, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub sent: Keep,
    pub failed: Keep,
    pub cancelled: Keep,
    pub discarded: Keep,
}

impl Kept {
    /// The ends that a message can have.
    pub const STATES: [StateName; 4] =
        [StateName::Sent, StateName::Failed, StateName::Cancelled, StateName::Discarded];

    /// What is kept of those in that state. What has not ended is kept.
    pub fn of(&self, state: StateName) -> Keep {
        match state {
            StateName::Sent => self.sent,
            StateName::Failed => self.failed,
            StateName::Cancelled => self.cancelled,
            StateName::Discarded => self.discarded,
            StateName::Pending | StateName::Sending => Keep::All,
        }
    }

    /// The same for each state that is picked, and all of the others.
    pub fn only(keep: Keep, picked: impl Fn(StateName) -> bool) -> Kept {
        Kept { sent: keep, failed: keep, cancelled: keep, discarded: keep }.where_picked(picked)
    }

    /// The same of each state that is picked, and all of the others.
    fn where_picked(self, picked: impl Fn(StateName) -> bool) -> Kept {
        let of = |state| if picked(state) { self.of(state) } else { Keep::All };
        Kept {
            sent: of(StateName::Sent),
            failed: of(StateName::Failed),
            cancelled: of(StateName::Cancelled),
            discarded: of(StateName::Discarded),
        }
    }

    fn keeps_all(&self) -> bool {
        *self == Kept::default()
    }
}

/// What is kept of messages, by channel. Of a channel that is not named everything is: nobody knows what it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(BTreeMap<ChannelName, Kept>);

impl FromIterator<(ChannelName, Kept)> for Rules {
    fn from_iter<T: IntoIterator<Item = (ChannelName, Kept)>>(some: T) -> Rules {
        Rules(some.into_iter().filter(|(_, kept)| !kept.keeps_all()).collect())
    }
}

impl Rules {
    pub fn of(&self, channel: &ChannelName, state: StateName) -> Keep {
        self.0.get(channel).map_or(Keep::All, |kept| kept.of(state))
    }

    pub fn keeps_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Messages that were accepted after that are all kept, whatever became of them; none such if some are counted.
    pub fn horizon(&self, now: Time) -> Option<Time> {
        let mut shortest = Span::from_millis(u64::MAX);
        for keep in self.0.values().flat_map(|kept| Kept::STATES.map(|state| kept.of(state))) {
            match keep {
                Keep::All => {}
                Keep::For(span) => shortest = shortest.min(span),
                Keep::Last(_) => return None,
            }
        }
        Some(now - shortest)
    }
}

/// Whether a message is given up that ended then, `newer` others of its tenant, channel and state being newer.
pub fn gives_up(keep: Keep, ended: Time, newer: u64, now: Time) -> bool {
    match keep {
        Keep::All => false,
        Keep::For(span) => now >= ended && now.since(ended) >= span,
        // Whatever is told of its end has to find it.
        Keep::Last(count) => newer >= count && now >= ended && now.since(ended) >= KEPT_MIN,
    }
}

/// What is kept of everything. A span counts from an end; none keeps all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub rules: Rules,
    /// Campaigns that are completed or cancelled, with their lists.
    pub campaigns: Option<Span>,
    /// Operations, alerts that are over and notices that arrived.
    pub operations: Option<Span>,
    /// Retry decisions of claims.
    pub decisions: Option<Span>,
}

/// What somebody wants removed by hand: what retention gives up, or whatever ended longer ago; of one channel or all, in one
/// state or any. Dead letters go only where they are named, since nobody has decided about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    pub channel: Option<ChannelName>,
    pub state: Option<StateName>,
    pub older_than: Option<Span>,
}

impl Wish {
    /// What is kept when it is done; why not, if claims or what has just ended would go. `kind` tells what a channel is.
    pub fn rules(
        &self,
        plan: &Plan,
        channels: &BTreeMap<ChannelName, ChannelKind>,
    ) -> Result<Rules, &'static str> {
        let picked = |state: StateName| match self.state {
            Some(wanted) => state == wanted,
            None => self.older_than.is_none() || state != StateName::Failed,
        };
        let Some(span) = self.older_than else {
            let named = |name: &ChannelName| self.channel.as_ref().is_none_or(|wanted| wanted == name);
            let rules = plan.rules.0.iter().filter(|(name, _)| named(name));
            return Ok(rules.map(|(name, kept)| (name.clone(), kept.where_picked(picked))).collect());
        };
        let keep = Keep::For(span);
        let kept = Kept::only(keep, picked);
        match &self.channel {
            Some(name) => match too_little(keep, channels.get(name).copied()) {
                Some(why) => Err(why),
                None => Ok(Rules::from_iter([(name.clone(), kept)])),
            },
            None if span < KEPT_MIN => Err("is less than an hour"),
            None => {
                let fits = channels.iter().filter(|(_, kind)| too_little(keep, Some(**kind)).is_none());
                Ok(fits.map(|(name, _)| (name.clone(), kept)).collect())
            }
        }
    }
}

/// Why that is too little to keep of a channel of that kind, or of one that nobody knows; nothing if it is not.
pub fn too_little(keep: Keep, kind: Option<ChannelKind>) -> Option<&'static str> {
    match (keep, kind) {
        (Keep::All, _) => None,
        (Keep::For(span), _) if span < KEPT_MIN => Some("is less than an hour"),
        (Keep::For(span), Some(ChannelKind::Tiss) | None) if span >= CLAIMS_MIN => None,
        (_, Some(ChannelKind::Tiss)) => {
            Some("is less than the five years (1826d) that claims are kept by law")
        }
        (_, None) => {
            Some("is less than five years (1826d), and nobody can tell whether claims went through it")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Time = Time::from_millis(1_800_000_000_000);
    const DAY: Span = Span::from_hours(24);

    fn name(name: &str) -> ChannelName {
        name.parse().unwrap()
    }

    #[test] // REQ AU-2
    fn a_message_is_kept_for_its_time_after_its_end_or_among_the_newest_or_for_good() {
        assert!(!gives_up(Keep::All, T0, u64::MAX, T0 + Span::from_hours(1_000_000)));
        assert!(!gives_up(Keep::For(DAY), T0, 0, T0 + Span::from_millis(DAY.millis() - 1)));
        assert!(gives_up(Keep::For(DAY), T0, 0, T0 + DAY));
        assert!(!gives_up(Keep::For(DAY), T0, 0, T0 - DAY), "a clock that was set back gives up nothing");
        assert!(!gives_up(Keep::Last(3), T0, 2, T0 + DAY));
        assert!(gives_up(Keep::Last(3), T0, 3, T0 + KEPT_MIN));
        assert!(!gives_up(Keep::Last(3), T0, 3, T0), "what has only just ended is still told of");
    }

    #[test] // REQ AU-2
    fn a_channel_without_rules_and_a_message_without_an_end_are_kept() {
        let kept = Kept { sent: Keep::For(DAY), ..Kept::default() };
        let rules = Rules::from_iter([(name("mail"), kept), (name("sms"), Kept::default())]);
        assert_eq!(rules.of(&name("mail"), StateName::Sent), Keep::For(DAY));
        for (channel, state) in [
            ("mail", StateName::Failed),
            ("mail", StateName::Pending),
            ("mail", StateName::Sending),
            ("sms", StateName::Sent),
            ("gone", StateName::Sent),
        ] {
            assert_eq!(rules.of(&name(channel), state), Keep::All, "{channel} {state}");
        }
        assert!(!rules.keeps_all() && Rules::from_iter([(name("sms"), Kept::default())]).keeps_all());
    }

    #[test]
    fn what_was_accepted_within_the_shortest_time_needs_no_look_unless_some_are_counted() {
        let of = |keep: [Keep; 2]| {
            let [sent, failed] = keep;
            Rules::from_iter([(name("mail"), Kept { sent, failed, ..Kept::default() })]).horizon(T0)
        };
        assert_eq!(of([Keep::For(DAY), Keep::For(KEPT_MIN)]), Some(T0 - KEPT_MIN));
        assert_eq!(of([Keep::For(DAY), Keep::All]), Some(T0 - DAY));
        assert_eq!(of([Keep::For(DAY), Keep::Last(50)]), None);
    }

    #[test] // REQ AU-2
    fn by_hand_goes_what_is_asked_for_and_neither_dead_letters_nor_claims_unawares() {
        let channels = [(name("mail"), ChannelKind::Smtp), (name("guides"), ChannelKind::Tiss)].into();
        let plan = Plan {
            rules: Rules::from_iter([(name("mail"), Kept::only(Keep::Last(3), |_| true))]),
            ..Plan::default()
        };
        let wish =
            |channel: Option<&str>, state, older_than| Wish { channel: channel.map(name), state, older_than };
        let rules = |wish: Wish| wish.rules(&plan, &channels);
        assert_eq!(rules(Wish::default()), Ok(plan.rules.clone()));
        assert!(rules(wish(Some("guides"), None, None)).unwrap().keeps_all());
        let sent = rules(wish(None, Some(StateName::Sent), None)).unwrap();
        assert_eq!(sent.of(&name("mail"), StateName::Sent), Keep::Last(3));
        assert_eq!(sent.of(&name("mail"), StateName::Failed), Keep::All);
        let old = rules(wish(None, None, Some(DAY))).unwrap();
        assert_eq!(old.of(&name("mail"), StateName::Cancelled), Keep::For(DAY));
        assert_eq!(old.of(&name("mail"), StateName::Failed), Keep::All);
        assert_eq!(old.of(&name("guides"), StateName::Sent), Keep::All);
        let dead = rules(wish(Some("mail"), Some(StateName::Failed), Some(DAY))).unwrap();
        assert_eq!(dead.of(&name("mail"), StateName::Failed), Keep::For(DAY));
        for refused in [
            wish(Some("guides"), None, Some(DAY)),
            wish(Some("unheard-of"), None, Some(DAY)),
            wish(None, None, Some(Span::from_mins(5))),
        ] {
            assert!(rules(refused.clone()).is_err(), "{refused:?}");
        }
        assert!(rules(wish(Some("unheard-of"), None, Some(CLAIMS_MIN))).is_ok());
    }

    #[test] // REQ AU-1, AU-2
    fn claims_are_kept_for_five_years_and_so_is_what_nobody_knows() {
        for kind in [Some(ChannelKind::Tiss), None] {
            assert_eq!(too_little(Keep::All, kind), None);
            assert_eq!(too_little(Keep::For(CLAIMS_MIN), kind), None);
            assert!(
                too_little(Keep::For(Span::from_hours(1_825 * 24)), kind).unwrap().contains("five years")
            );
            assert!(too_little(Keep::Last(1_000_000), kind).unwrap().contains("five years"));
        }
        assert_eq!(too_little(Keep::For(KEPT_MIN), Some(ChannelKind::Smtp)), None);
        assert_eq!(too_little(Keep::Last(0), Some(ChannelKind::Smtp)), None);
        assert!(
            too_little(Keep::For(Span::from_mins(59)), Some(ChannelKind::Smtp)).unwrap().contains("an hour")
        );
    }
}
