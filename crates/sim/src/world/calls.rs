//! Between everybody and the store: calls that take their time, answers that may get lost, and trying again.

use pombo_engine::core::Event;
use pombo_kernel::breaker::Sign;
use pombo_kernel::message::Idempotency;
use pombo_store::dead::Hastened;
use pombo_store::{Accepted, Ask, Cancelled, Repeat, Reported, StoreError, TurnedOver};

use super::{Happening, World};
use crate::call::{Answered, Call, Caller, Pending};
use crate::chance::Chance;
use crate::house::Lasting;
use crate::oracle::{Checked, Holder};
use crate::provider::Said;

/// How long the engine's shell waits before it writes a result again, in milliseconds.
const FIRST_RETRY: u64 = 200;
const SLOWEST_RETRY: u64 = 5_000;
/// How long it waits before it asks again for work.
const ASK_AGAIN: u64 = 500;
/// How often a report is brought that nobody knows what to do with.
const MOST_REPORTS: u32 = 5;

impl<C: Lasting> World<C> {
    /// A call sets out; it reaches the store in a while.
    pub(super) fn call(&mut self, caller: Caller, call: Call, after: u64) {
        let hop = self.hop();
        self.later(after + hop, Happening::Call(caller, call));
    }

    /// A call has reached the store, if there is one.
    pub(super) fn make_call(&mut self, caller: Caller, call: Call) {
        if let Caller::Life(number) = caller {
            let Some(life) = self.lives.get(&number) else { return };
            if life.cut_until > self.now
                && let Some(unreached) = call.unreached()
            {
                let notices = self.dice.below(5_000);
                self.later(notices, Happening::Answer(caller, call, unreached));
                return;
            }
        }
        let Some(house) = &self.house else {
            if caller == Caller::Outside {
                self.try_again(call);
            }
            return;
        };
        match &call {
            Call::Examine(finding) => self.oracle.told_of(&finding.place, finding.vitals.sign == Sign::Ill),
            Call::Lift(place) => self.oracle.told_of(place, false),
            _ => {}
        }
        let pending = Pending::start(house.shell.clone(), caller, call);
        self.sequence += 1;
        self.pending.insert(self.sequence, pending);
        let delay = if self.dice.one_in(8) { self.dice.below(40) } else { self.dice.below(3) };
        self.turn_at(self.now + delay);
    }

    /// After a turn of the writer: sends every answer on its way, and checks what it promises at once.
    pub(super) fn collect_answers(&mut self) -> Checked {
        let mut answers = Vec::new();
        for (number, pending) in &mut self.pending {
            if let Some(answered) = pending.poll() {
                answers.push((*number, answered));
            }
        }
        for (number, answered) in answers {
            let Some(pending) = self.pending.remove(&number) else { continue };
            self.check_answer(&pending.call, &answered)?;
            let hop = self.hop();
            self.later(hop, Happening::Answer(pending.caller, pending.call, answered));
        }
        Ok(())
    }

    /// What the store has said must be true from now on, whether or not anybody hears it.
    fn check_answer(&mut self, call: &Call, answered: &Answered) -> Checked {
        match (call, answered) {
            (Call::Accept { drafts, .. }, Answered::Accepted(Ok(results))) => {
                for (draft, result) in drafts.iter().zip(results) {
                    match result {
                        Ok(Accepted { id, .. }) => self.oracle.told_accepted(draft, *id)?,
                        Err(conflict) => self.oracle.told_conflict(draft, conflict.first)?,
                    }
                }
                Ok(())
            }
            (Call::Settle { settlements, .. }, Answered::TurnedOver(Ok(TurnedOver { settled, .. }))) => {
                let keys = settlements.iter().map(|settlement| settlement.key);
                keys.zip(settled).try_for_each(|(key, settled)| self.oracle.settled(key, *settled))
            }
            (Call::Release { keys, .. }, Answered::Settled(Ok(settled))) => {
                keys.iter().zip(settled).try_for_each(|(key, settled)| self.oracle.settled(*key, *settled))
            }
            (Call::LeaveOut { key, .. }, Answered::Settled(Ok(settled))) => {
                settled.iter().try_for_each(|settled| self.oracle.settled(*key, *settled))
            }
            (Call::Cancel { tenant, id, .. }, Answered::Cancelled(Ok(cancelled))) => {
                self.oracle.told_foreigner(tenant, *id, *cancelled == Cancelled::NotFound)?;
                match &mut self.house {
                    Some(house) if *cancelled == Cancelled::Done => {
                        self.oracle.told_cancelled(&mut house.reader, *id)
                    }
                    _ => Ok(()),
                }
            }
            (Call::Hasten { tenant, id, .. }, Answered::Hastened(Ok(hastened))) => {
                self.oracle.told_foreigner(tenant, *id, *hastened == Hastened::NotFound)
            }
            (Call::Report { report, .. }, Answered::Reported(Ok(reported))) => {
                reported.iter().try_for_each(|reported| self.oracle.told_reported(report, *reported))
            }
            (Call::Rule(ruling), Answered::Ruled(Ok(verdicts))) => match &mut self.house {
                Some(house) => self.oracle.told_ruled(&mut house.reader, ruling, verdicts),
                None => Ok(()),
            },
            (Call::Edit(edit), Answered::Edited(Ok(edited))) => match &mut self.house {
                Some(house) => self.oracle.told_edited(&mut house.reader, edit, *edited),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// An answer has reached whoever called.
    pub(super) fn answer(&mut self, caller: Caller, call: Call, answered: Answered) -> Checked {
        match caller {
            Caller::Outside => {
                self.answer_outside(call, &answered);
                Ok(())
            }
            Caller::Life(life) => self.answer_life(life, call, answered),
        }
    }

    fn answer_outside(&mut self, call: Call, answered: &Answered) {
        let name = call.name();
        let failed = match answered {
            Answered::Accepted(Err(error)) | Answered::Nothing(Err(error)) => Some(error),
            Answered::Cancelled(Err(error)) | Answered::Lifted(Err(error)) => Some(error),
            Answered::Ruled(Err(error)) | Answered::Edited(Err(error)) => Some(error),
            Answered::Hastened(Err(error)) | Answered::Reported(Err(error)) => Some(error),
            _ => None,
        };
        if let Some(error) = failed {
            self.note(format_args!("{name} failed: {error}"));
            return self.try_again(call);
        }
        if let Answered::Reported(Ok(reported)) = answered
            && reported.contains(&Reported::Unknown)
        {
            // It came before our own result; the door keeps it for a while.
            return self.try_again(call);
        }
        let Call::Accept { mut drafts, tries } = call else { return };
        if !self.calm && self.plan.faults.lost_acknowledgement && self.dice.one_in(3) {
            self.note(format_args!("an acknowledgement is lost"));
            return self.try_again(Call::Accept { drafts, tries });
        }
        if let Answered::Accepted(Ok(results)) = answered {
            let again = results.iter().flatten().filter(|accepted| accepted.repeat == Repeat::Same).count();
            self.note(format_args!("a producer hears of {} ({again} known before)", results.len()));
        }
        // Now and then the same key comes again, sometimes for something else.
        if !self.calm && tries == 0 && self.dice.one_in(6) {
            drafts.retain(|draft| draft.idempotency.is_some());
            for draft in &mut drafts {
                if self.dice.one_in(2)
                    && let Some(Idempotency { fingerprint, .. }) = &mut draft.idempotency
                {
                    *fingerprint = [2; 16];
                }
            }
            let later = self.dice.below(20_000);
            self.call(Caller::Outside, Call::Accept { drafts, tries: 1 }, later);
        }
    }

    /// Producers come back under the same key; without one, they give up soon.
    fn try_again(&mut self, call: Call) {
        let after = self.dice.between(200, 3_000);
        match call {
            Call::Accept { mut drafts, tries } => {
                if tries > 0 {
                    drafts.retain(|draft| draft.idempotency.is_some());
                }
                if !drafts.is_empty() {
                    self.call(Caller::Outside, Call::Accept { drafts, tries: tries + 1 }, after);
                }
            }
            // An operator who was not heard asks again.
            Call::Lift(_) | Call::Resume => self.call(Caller::Outside, call, after),
            Call::Report { channel, report, tries } if tries < MOST_REPORTS => {
                let call = Call::Report { channel, report, tries: tries + 1 };
                self.call(Caller::Outside, call, after);
            }
            Call::Rule(ruling) => self.ask_ruling(ruling, after),
            Call::Edit(edit) => self.ask_edit(edit, after),
            _ => {}
        }
    }

    fn answer_life(&mut self, life: u64, call: Call, answered: Answered) -> Checked {
        let Some(now) = self.life_now(life) else { return Ok(()) };
        if let Some(until) = self.frozen_until(life) {
            self.later_at(until, Happening::Answer(Caller::Life(life), call, answered));
            return Ok(());
        }
        let caller = Caller::Life(life);
        let cut_until = self.lives.get(&life).map(|life| life.cut_until);
        let answered = match cut_until.filter(|until| *until > self.now) {
            // On a database, a node's own writer gives back what it claimed and was not told of. Here there is one
            // writer for all, so that whoever claims is told late.
            Some(until) if call.is_told_late() => {
                self.later_at(until, Happening::Answer(caller, call, answered));
                return Ok(());
            }
            Some(_) => call.unreached().unwrap_or(answered),
            None => answered,
        };
        match (call, answered) {
            (Call::Heartbeat { since, jumps, .. }, Answered::Nothing(Ok(()))) => {
                self.oracle.alive(Holder(life), since, jumps);
                self.tell(life, Event::Alive { since })
            }
            (Call::Claim(Ask { lane, max: asked, .. }), Answered::Claimed(result)) => match result {
                Ok(claimed) => {
                    self.oracle.handed(Holder(life), &claimed)?;
                    self.tell(life, Event::Claimed { lane, asked, claimed })
                }
                Err(StoreError::Closed | StoreError::Broken(_)) => Ok(()),
                Err(_) => self.tell(life, Event::ClaimFailed { lane, asked }),
            },
            (Call::TakeOver { .. }, Answered::Claimed(Ok(lost))) => {
                for claimed in &lost {
                    self.oracle.heard(Holder(life), claimed.key, Said::SenderGone, now);
                }
                self.tell(life, Event::TakenOver(lost))
            }
            (Call::Settle { settlements, refill, tries }, Answered::TurnedOver(result)) => match result {
                Ok(TurnedOver { claimed, .. }) => {
                    self.oracle.handed(Holder(life), &claimed)?;
                    let keys = settlements.iter().map(|settlement| settlement.key).collect();
                    self.tell(life, Event::TurnedOver { keys, claimed, term: refill.term })
                }
                Err(_) => {
                    let call = Call::Settle { settlements, refill, tries: tries + 1 };
                    self.call(caller, call, retry_after(tries));
                    Ok(())
                }
            },
            (Call::Release { keys, tries }, Answered::Settled(result)) => match result {
                Ok(_) => self.tell(life, Event::Released(keys)),
                Err(_) => {
                    self.call(caller, Call::Release { keys, tries: tries + 1 }, retry_after(tries));
                    Ok(())
                }
            },
            (Call::LeaveOut { key, reason, tries }, Answered::Settled(result)) => match result {
                Ok(_) => self.tell(life, Event::Released(vec![key])),
                Err(_) => {
                    let call = Call::LeaveOut { key, reason, tries: tries + 1 };
                    self.call(caller, call, retry_after(tries));
                    Ok(())
                }
            },
            _ => Ok(()),
        }
    }

    pub(super) fn claim_later(&mut self, life: u64, ask: Ask) {
        self.call(Caller::Life(life), Call::Claim(ask), ASK_AGAIN);
    }
}

fn retry_after(tries: u32) -> u64 {
    FIRST_RETRY.saturating_mul(1 << tries.min(10)).min(SLOWEST_RETRY)
}
