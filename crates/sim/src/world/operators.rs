//! Operators, and what they do about messages that failed or wait: sometimes two at once, sometimes too late.

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Json, QueueName};
use pombo_kernel::name::Tenant;
use pombo_store::Filter;
use pombo_store::audit::{Event, Record};
use pombo_store::core::Reading;
use pombo_store::dead::{Act, Edit, Ruling};
use pombo_store::shelf::Shelve;

use super::World;
use crate::call::{Call, Caller, ana, eve};
use crate::chance::Chance;
use crate::house::Lasting;
use crate::oracle::{Checked, hold};
use crate::plan::{CHANNELS, DESTINATIONS, NEIGHBOUR};

impl<C: Lasting> World<C> {
    /// Sets out to have a ruling done, in so many milliseconds.
    pub(super) fn ask_ruling(&mut self, ruling: Ruling, after: u64) {
        let ruling = self.oracle.ask_ruling(ruling, self.clock_now());
        let names: Vec<String> = ruling.ids.iter().map(|id| self.oracle.name(*id)).collect();
        let number = ruling.note.clone().unwrap_or_default();
        self.note(format_args!("wish {number}: {:?} {}", ruling.act, names.join(", ")));
        self.call(Caller::Outside, Call::Rule(ruling), after);
    }

    pub(super) fn ask_edit(&mut self, edit: Edit, after: u64) {
        let edit = self.oracle.ask_edit(edit);
        let number = edit.note.clone().unwrap_or_default();
        self.note(format_args!("wish {number}: edit {}", self.oracle.name(edit.id)));
        self.call(Caller::Outside, Call::Edit(edit), after);
    }

    /// An operator decides about dead letters, and sometimes another about the same ones.
    pub(super) fn rule_letters(&mut self) -> Checked {
        let ids = self.pick_letters()?;
        let Some(first) = ids.first().copied() else { return Ok(()) };
        let act = self.pick_act();
        let tenant = self.oracle.tenant_of(first);
        // The document is the default tenant's.
        let with = (self.dice.one_in(3) && tenant == Tenant::default()).then(|| self.oracle.sweep());
        self.ask_ruling(ruling(&tenant, act, ids.clone(), with.clone()), 0);
        match self.dice.below(8) {
            // The same once more, as when somebody is impatient.
            0 => self.ask_ruling(ruling(&tenant, act, ids, with), 0),
            1 => {
                let act = self.pick_act();
                self.ask_ruling(ruling(&tenant, act, ids, with), 0);
            }
            2 => self.edit(first),
            _ => {}
        }
        Ok(())
    }

    fn pick_act(&mut self) -> Act {
        if self.dice.one_in(4) { Act::Discard } else { Act::Reprocess }
    }

    /// One dead letter, several, all of a cause; or what is perhaps not dead.
    fn pick_letters(&mut self) -> Checked<Vec<MessageId>> {
        let dead = self.oracle.dead();
        let all = self.oracle.ids();
        if all.is_empty() || dead.is_empty() && !self.dice.one_in(4) {
            return Ok(Vec::new());
        }
        Ok(match self.dice.below(8) {
            _ if dead.is_empty() => vec![*self.dice.pick(&all)],
            0 => vec![*self.dice.pick(&all), *self.dice.pick(&dead)],
            1 | 2 => self.letters_of_a_cause()?,
            3 | 4 => (0..self.dice.between(2, 5)).map(|_| *self.dice.pick(&dead)).collect(),
            _ => vec![*self.dice.pick(&dead)],
        })
    }

    fn letters_of_a_cause(&mut self) -> Checked<Vec<MessageId>> {
        let Some(house) = &mut self.house else { return Ok(Vec::new()) };
        let tenant = self.dice.pick(&self.plan.tenants).clone();
        let groups = house.reader.groups(&tenant, usize::MAX)?;
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let group = self.dice.pick(&groups);
        let filter = Filter { tenant, cause: Some(group.id), ..Filter::default() };
        let lines = house.reader.page(&filter, None, 1_000)?.lines;
        let ids: Vec<MessageId> = lines.iter().map(|line| line.message.id).collect();
        hold!(1, ids.len() as u64 == group.count, "{group:?} lists {} dead letters", ids.len());
        Ok(ids)
    }

    /// An operator puts a dead letter right, and often reprocesses it then.
    pub(super) fn edit_letter(&mut self) {
        let (dead, all) = (self.oracle.dead(), self.oracle.ids());
        let among = if self.dice.one_in(8) { all } else { dead };
        if among.is_empty() {
            return;
        }
        let id = *self.dice.pick(&among);
        self.edit(id);
        if self.dice.one_in(4) {
            self.edit(id);
        }
        if self.dice.one_in(2) {
            let after = self.dice.below(2_000);
            let tenant = self.oracle.tenant_of(id);
            self.ask_ruling(ruling(&tenant, Act::Reprocess, vec![id], None), after);
        }
    }

    /// Another recipient, who is perhaps elsewhere, or other words, or another channel.
    fn edit(&mut self, id: MessageId) {
        let Some((message, version)) = self.oracle.seen(id) else { return };
        let (mut body, mut queue) = (message.body.clone(), QueueName::clone(&message.queue));
        match self.dice.below(5) {
            0 | 1 => {
                body.to = format!("someone {}", self.dice.below(3));
                queue.destination = (*self.dice.pick(&DESTINATIONS)).into();
            }
            2 | 3 => body.content = Json::from_text(format!("{{\"n\":{}}}", self.dice.below(3))).ok(),
            _ => queue.channel = self.dice.pick(&CHANNELS).parse().unwrap_or(queue.channel),
        }
        let (tenant, by) = (queue.tenant.clone(), ana());
        self.ask_edit(Edit { tenant, id, version, queue, body, blobs: Vec::new(), by, note: None }, 0);
    }

    pub(super) fn hasten_something(&mut self) {
        let (waiting, all) = (self.oracle.waiting(), self.oracle.ids());
        let among = if waiting.is_empty() || self.dice.one_in(6) { all } else { waiting };
        if !among.is_empty() {
            let id = *self.dice.pick(&among);
            self.note(format_args!("somebody wants {} to go at once", self.oracle.name(id)));
            let tenant = self.oracle.tenant_of(id);
            self.call(Caller::Outside, Call::Hasten { tenant, id, by: ana() }, 0);
        }
    }

    /// Somebody of another tenant knows the id of a message, and tries to do something about it.
    pub(super) fn trespass(&mut self) {
        let ids = self.oracle.ids();
        if ids.is_empty() {
            return;
        }
        let id = *self.dice.pick(&ids);
        let Some((message, version)) = self.oracle.seen(id) else { return };
        let tenant = stranger_to(&message.queue.tenant);
        self.note(format_args!("{tenant} wants to do something about {}", self.oracle.name(id)));
        let by = eve();
        let call = match self.dice.below(4) {
            0 => Call::Cancel { tenant, id, by },
            1 => Call::Hasten { tenant, id, by },
            2 => {
                let act = self.pick_act();
                Call::Rule(Ruling { by, ..ruling(&tenant, act, vec![id], None) })
            }
            _ => {
                let mut queue = QueueName::clone(&message.queue);
                queue.tenant = tenant.clone();
                let body = message.body.clone();
                Call::Edit(Edit { tenant, id, version, queue, body, blobs: Vec::new(), by, note: None })
            }
        };
        self.call(Caller::Outside, call, 0);
    }

    /// Somebody may stand by who acts as soon as a message is dead.
    pub(super) fn watch_letters(&mut self, record: &Record) {
        let died = matches!(record.event, Event::Failed | Event::Expired);
        if let Some(id) = record.message
            && died
            && !self.calm
            && self.plan.faults.letters
            && self.dice.one_in(8)
        {
            let act = self.pick_act();
            let tenant = self.oracle.tenant_of(id);
            self.ask_ruling(ruling(&tenant, act, vec![id], None), 0);
        }
    }

    /// The providers are well again, so everything that failed is to be sent once more.
    pub(super) fn reprocess_all(&mut self) {
        for tenant in self.plan.tenants.clone() {
            let mut dead = self.oracle.dead();
            dead.retain(|id| self.oracle.tenant_of(*id) == tenant);
            if !dead.is_empty() {
                self.ask_ruling(ruling(&tenant, Act::Reprocess, dead, None), 0);
            }
        }
    }
}

/// A tenant that is not this one; there need be nothing else of it.
fn stranger_to(tenant: &Tenant) -> Tenant {
    let neighbour = NEIGHBOUR.parse().unwrap_or_default();
    if *tenant == neighbour { Tenant::default() } else { neighbour }
}

fn ruling(tenant: &Tenant, act: Act, ids: Vec<MessageId>, with: Option<Shelve>) -> Ruling {
    Ruling { tenant: tenant.clone(), ids, act, by: ana(), note: None, with }
}
