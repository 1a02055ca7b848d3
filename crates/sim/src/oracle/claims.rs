//! Who holds what, who sends what, and how often the provider took it.

use std::collections::BTreeMap;
use std::sync::Arc;

use pombo_engine::core::SILENCE;
use pombo_kernel::message::{ClaimId, ClaimKey, Message, Progress};
use pombo_kernel::name::LaneName;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::{Claimed, Settled};

use super::walls::Probing;
use super::{Checked, Oracle, Tale, broken, hold};
use crate::provider::Said;

/// One hold on one message, from its claim to its end.
#[derive(Debug)]
pub(super) struct Claim {
    /// The position of its record. Its id is at most that, and more than the position of the claim before it.
    pub(super) from: u64,
    pub(super) start: Start,
    /// What was claimed, and how far it had come.
    message: Arc<Message>,
    progress: Progress,
    pub(super) end: Option<Event>,
    /// What it was to find out, if it was let through a hold or a breaker.
    pub(super) probing: Option<Probing>,
    /// The provider was called under it.
    pub(super) called: bool,
    /// What its holder heard, and what time it was there.
    pub(super) heard: Option<(Said, Time)>,
    /// The holder was told that its result is recorded.
    reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Claimed,
    TakenOver,
}

impl Claim {
    /// Whether something went wrong under it that may let the message be delivered once more.
    fn is_faulty(&self) -> bool {
        let doubtful = matches!(self.heard, Some((Said::Nothing | Said::CutOff | Said::SenderGone, _)));
        doubtful || self.end == Some(Event::TakenOver)
    }
}

/// One life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder(pub(crate) u64);

/// What a node has in hand, as seen from outside.
#[derive(Debug, Default)]
pub(super) struct Hands {
    claims: BTreeMap<ClaimKey, InHand>,
    /// The most slots that each lane has had, where it was told of others than it started with.
    slots: BTreeMap<LaneName, usize>,
    /// By its own clock, when it last gave a sign of life that became durable.
    alive_since: Option<Time>,
    /// How many jumps of the clock its signs of life know of, and at which record that was durable. What it claims from
    /// then on is its own for as long as it believes.
    sound: (u64, u64),
}

#[derive(Debug)]
struct InHand {
    lane: LaneName,
    /// The provider was called and has not answered.
    sending: bool,
}

impl Tale {
    /// Which of its claims has that id.
    pub(super) fn claim_at(&self, id: ClaimId) -> Option<usize> {
        let from = u64::try_from(id.0).unwrap_or(0);
        self.claims.iter().position(|claim| claim.from >= from)
    }

    pub(super) fn begin_claim(&mut self, from: u64, start: Start) {
        self.claims.push(Claim {
            from,
            start,
            message: self.message.clone(),
            progress: self.progress,
            end: None,
            probing: None,
            called: false,
            heard: None,
            reported: false,
        });
    }

    pub(super) fn end_claim(&mut self, event: Event) {
        if let Some(claim) = self.claims.last_mut() {
            claim.end = Some(event);
        }
    }
}

impl Oracle {
    fn claim(&mut self, key: ClaimKey) -> Option<&mut Claim> {
        let tale = self.tales.get_mut(&key.message)?;
        let index = tale.claim_at(key.claim)?;
        tale.claims.get_mut(index)
    }

    /// A node learned that it holds these messages.
    pub(crate) fn handed(&mut self, holder: Holder, claimed: &[Claimed]) -> Checked {
        for one in claimed {
            let name = self.name(one.message.id);
            let Some(claim) = self.claim(one.key) else {
                return broken(2, format_args!("{name} was given out under a claim that is not durable"));
            };
            let as_it_was = one.message == claim.message && one.progress == claim.progress;
            hold!(0, as_it_was, "{name} was given out as {one:?}, and was {claim:?}");
            let (told, stood) =
                (one.probe.map(|probe| probe.kind), claim.probing.map(|probing| probing.kind));
            hold!(8, told == stood, "{name} was given out as a probe of {told:?}, and there stood {stood:?}");
            let hands = self.holders.entry(holder).or_default();
            let lane = one.message.queue.lane.clone();
            hands.claims.insert(one.key, InHand { lane, sending: false });
        }
        Ok(())
    }

    /// A node learned that a sign of life, given at that time by its clock, is durable.
    pub(crate) fn alive(&mut self, holder: Holder, since: Time, jumps: u64) {
        let position = self.position;
        let hands = self.holders.entry(holder).or_default();
        if jumps > hands.sound.0 {
            hands.sound = (jumps, position);
        }
        hands.alive_since = hands.alive_since.max(Some(since));
    }

    /// A node has read its configuration anew. What is under way goes on, also where it has fewer slots from now on.
    pub(crate) fn reloaded(&mut self, holder: Holder, setup: &Setup) {
        let hands = self.holders.entry(holder).or_default();
        for (lane, setup) in &setup.lanes {
            let slots = hands.slots.entry(lane.clone()).or_default();
            *slots = usize::from(setup.workers).max(*slots);
        }
    }

    /// A node calls the provider, at `now` by its own clock.
    pub(crate) fn called(&mut self, holder: Holder, claimed: &Claimed, key: &str, now: Time) -> Checked {
        let name = self.name(claimed.message.id);
        let (knows, from) = self.holders.get(&holder).map(|hands| hands.sound).unwrap_or_default();
        let jumps = self.jumps;
        let Some(claim) = self.claim(claimed.key) else {
            return broken(2, format_args!("{name} is sent under a claim that is not durable"));
        };
        hold!(5, !claim.called, "{name} is sent twice under one claim");
        hold!(5, claim.start == Start::Claimed, "{name} was taken over, and is sent without a new attempt");
        claim.called = true;
        let (end, keyed) = (claim.end, claim.progress.keyed);
        // Leases are kept by the clock: at a jump one may be lost that its holder still believes in.
        let sound = knows == jumps && claim.from >= from;
        hold!(4, end.is_none() || !sound, "{name} is sent under a claim that ended with {end:?}");
        let alive = claimed.message.expires_at.is_none_or(|deadline| deadline > now);
        hold!(8, alive, "{name} is sent after its deadline");
        let hands = self.holders.entry(holder).or_default();
        let silent = hands.alive_since.is_none_or(|since| now.since(since) >= SILENCE);
        hold!(4, !silent, "{name} is sent by a node without a recent sign of life");
        if let Some(in_hand) = hands.claims.get_mut(&claimed.key) {
            in_hand.sending = true;
        }
        self.check_key(claimed, keyed, key)?;
        self.check_slots(holder, &claimed.message.queue.lane)
    }

    /// A slot is taken until the result is durable, and while the provider is being called.
    fn check_slots(&self, holder: Holder, lane: &LaneName) -> Checked {
        let Some(hands) = self.holders.get(&holder) else { return Ok(()) };
        let of_lane = hands.claims.iter().filter(|(_, in_hand)| in_hand.lane == *lane);
        let taken = of_lane.filter(|(key, in_hand)| in_hand.sending || self.is_open(**key)).count();
        let at_first = self.plan.setup.lanes.get(lane).map_or(0, |lane| usize::from(lane.workers));
        let slots = hands.slots.get(lane).copied().unwrap_or(0).max(at_first);
        hold!(13, taken <= slots, "{taken} are under way on lane {lane}, which has {slots} slots");
        Ok(())
    }

    fn is_open(&self, key: ClaimKey) -> bool {
        let Some(tale) = self.tales.get(&key.message) else { return false };
        let claim = tale.claim_at(key.claim).and_then(|index| tale.claims.get(index));
        claim.is_some_and(|claim| claim.end.is_none())
    }

    /// The provider took a message.
    pub(crate) fn taken(&mut self, key: ClaimKey) -> Checked {
        let name = self.name(key.message);
        let Some(tale) = self.tales.get_mut(&key.message) else {
            return broken(2, format_args!("the provider took {name}, which was never accepted"));
        };
        let this = tale.claim_at(key.claim);
        // Whoever reprocesses a message wants it sent once more. What is sent under the same key is the same sending,
        // also when it goes on in another round.
        let keyed_at = |index: usize| tale.claims.get(index).map(|claim| claim.progress.keyed);
        let keyed = this.and_then(keyed_at).unwrap_or_default();
        let others = tale.claims.iter().enumerate().filter(|(index, _)| Some(*index) != this);
        let others = others.filter(|(_, claim)| claim.progress.keyed == keyed);
        let faulty = others.filter(|(_, claim)| claim.is_faulty()).count();
        // The provider is called at most once a claim, so only other claims can have delivered it before.
        let late = this.and_then(|index| tale.claims.get(index)).is_some_and(Claim::is_faulty);
        let allowed = 1 + faulty + usize::from(late);
        let taken = tale.taken.entry(keyed).or_default();
        *taken += 1;
        hold!(11, *taken <= allowed, "{name} was delivered {taken} times, with {faulty} faults");
        Ok(())
    }

    /// A node heard what became of its attempt, at `now` by its own clock.
    pub(crate) fn heard(&mut self, holder: Holder, key: ClaimKey, said: Said, now: Time) {
        if let Some(claim) = self.claim(key)
            && claim.heard.is_none()
        {
            claim.heard = Some((said, now));
        }
        let hands = self.holders.entry(holder).or_default();
        if let Some(in_hand) = hands.claims.get_mut(&key) {
            in_hand.sending = false;
        }
    }

    /// A node's time is up: whatever it still sends is in doubt.
    pub(crate) fn interrupted(&mut self, holder: Holder, now: Time) {
        let hands = self.holders.entry(holder).or_default();
        let sending: Vec<ClaimKey> =
            hands.claims.iter().filter(|(_, in_hand)| in_hand.sending).map(|(key, _)| *key).collect();
        for key in sending {
            self.heard(holder, key, Said::CutOff, now);
        }
    }

    /// The node is gone, and with it whatever it had in hand.
    pub(crate) fn gone(&mut self, holder: Holder) {
        self.holders.remove(&holder);
    }

    /// A node was told what became of its result, or of what it gave back.
    pub(crate) fn settled(&mut self, key: ClaimKey, settled: Settled) -> Checked {
        let name = self.name(key.message);
        let Some(claim) = self.claim(key) else {
            return broken(2, format_args!("{name} was settled under a claim that is not durable"));
        };
        let own_end = !matches!(claim.end, None | Some(Event::TakenOver));
        match settled {
            Settled::Done => {
                hold!(2, claim.end.is_some(), "{name} was said to be settled, and that is not durable");
                hold!(4, own_end, "{name} was settled under a claim that ended with {:?}", claim.end);
                hold!(4, !claim.reported, "{name} was settled twice under one claim");
                claim.reported = true;
            }
            Settled::Stale => {
                hold!(4, claim.end.is_some(), "{name} could not be settled under a valid claim");
            }
        }
        Ok(())
    }
}
