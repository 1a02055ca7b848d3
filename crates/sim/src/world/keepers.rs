//! Whoever lets go of what retention gives up: two, each as if alone. What one sees may long be gone, or be sent again,
//! when it is to be removed.

use pombo_kernel::id::MessageKey;
use pombo_kernel::message::Actor;
use pombo_store::core::Reading;
use pombo_store::prune::{Effect, Prune, Walk};

use super::{Happening, World};
use crate::call::{Call, Caller};
use crate::chance::Chance;
use crate::house::Lasting;
use crate::oracle::Checked;

/// How long a keeper rests at most, in milliseconds.
const SLOWEST: u64 = 4_000;

impl<C: Lasting> World<C> {
    /// A keeper looks at some messages, and has removed what it finds.
    pub(super) fn keep(&mut self, walk: Walk) -> Checked {
        let now = self.clock_now();
        let (Some(rules), Some(house)) = (self.plan.retention.clone(), &mut self.house) else {
            // It begins anew with its process.
            self.later(SLOWEST, Happening::Keep(Walk::default()));
            return Ok(());
        };
        let max = *self.dice.pick(&[1, 3, 1_000]);
        let begins = walk == Walk::default();
        let prune = Prune { rules: rules.clone(), by: Actor::engine(), effect: Effect::Remove, walk };
        let ripe = house.reader.ripe(&prune, max, now)?;
        let found: Vec<MessageKey> = ripe.keys().collect();
        let next = ripe.next.clone();
        self.oracle.looked(&rules, now, &found, begins && next.is_none())?;
        if !found.is_empty() {
            self.note(format_args!("a keeper finds {} to be let go of", found.len()));
            self.call(Caller::Outside, Call::LetGo(prune, ripe), 0);
        }
        if !self.calm && self.dice.one_in(4) {
            self.call(Caller::Outside, Call::Lapse { max }, 0);
        }
        let rest = self.dice.between(200, SLOWEST);
        self.later(rest, Happening::Keep(next.unwrap_or_default()));
        Ok(())
    }
}
