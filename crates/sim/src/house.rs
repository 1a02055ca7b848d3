//! The store of a run: a real core behind its real shell and writer, with commits that fail on order, and a
//! process that can end at any moment.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use pombo_kernel::block::Block;
use pombo_kernel::delivery::Report;
use pombo_kernel::dice::Dice;
use pombo_kernel::erasure::Pseudonyms;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, ClaimKey, Draft};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::core::Core;
use pombo_store::dead::{Edit, Edited, Hastened, Ruling, Verdicts};
use pombo_store::erase::{Erase, Erased};
use pombo_store::memory::Memory;
use pombo_store::prune::{Lapsed, Prune, Pruned, Ripe};
use pombo_store::roster::{Enlist, Enlisted, Feed, NotDone};
use pombo_store::shelf::{Shelve, Shelved};
use pombo_store::shell::{Shell, Writer};
use pombo_store::sqlite::Sqlite;
use pombo_store::{
    Accepted, Ask, Cancelled, Claimed, Conflict, Finding, NodeId, Pause, Place, Put, Reported, Settled,
    Settlement, StoreError,
};

/// A core whose durable part outlives its process.
pub(crate) trait Lasting: Core + Sized {
    /// What a first process finds.
    fn first(folder: &Path, dice: Dice) -> Result<Self, StoreError>;
    /// What the next process finds, when the one that read with `reader` is gone.
    fn again(folder: &Path, reader: Self::Reader, dice: Dice) -> Result<Self, StoreError>;
}

const SECRET: [u8; 32] = [7; 32];
/// What an embedded store is called in its folder.
const FILE: &str = "pombo.db";

/// The file of a store in which nothing has happened yet. It is made once: to make it takes longer than many a seed.
static NEW: OnceLock<Vec<u8>> = OnceLock::new();

fn new_file() -> Result<Vec<u8>, StoreError> {
    let unavailable = |error: std::io::Error| StoreError::Unavailable(error.to_string());
    let folder = tempfile::tempdir().map_err(unavailable)?;
    drop(Sqlite::open(folder.path(), Dice::seeded(0), &SECRET)?);
    std::fs::read(folder.path().join(FILE)).map_err(unavailable)
}

impl Lasting for Sqlite {
    fn first(folder: &Path, dice: Dice) -> Result<Sqlite, StoreError> {
        let file = match NEW.get() {
            Some(file) => file,
            None => {
                let file = new_file()?;
                NEW.get_or_init(|| file)
            }
        };
        std::fs::write(folder.join(FILE), file)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Sqlite::open(folder, dice, &SECRET)
    }

    fn again(folder: &Path, reader: Self::Reader, dice: Dice) -> Result<Sqlite, StoreError> {
        drop(reader);
        Sqlite::open(folder, dice, &SECRET)
    }
}

impl Lasting for Memory {
    fn first(_: &Path, dice: Dice) -> Result<Memory, StoreError> {
        Ok(Memory::new(dice))
    }

    fn again(_: &Path, reader: Self::Reader, dice: Dice) -> Result<Memory, StoreError> {
        Ok(Memory::found(&reader, dice))
    }
}

/// The wall clock of everybody: it goes only as the run says.
#[derive(Debug)]
pub(crate) struct WallClock(AtomicI64);

impl WallClock {
    pub(crate) fn at(time: Time) -> WallClock {
        WallClock(AtomicI64::new(time.millis()))
    }

    pub(crate) fn set(&self, time: Time) {
        self.0.store(time.millis(), Ordering::Relaxed);
    }
}

impl Clock for WallClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A node's own clock, which is off by one of these.
#[derive(Debug)]
pub(crate) struct SkewedClock {
    pub(crate) wall: Arc<WallClock>,
    pub(crate) ahead: Span,
    pub(crate) behind: Span,
}

impl Clock for SkewedClock {
    fn now(&self) -> Time {
        self.wall.now() + self.ahead - self.behind
    }
}

/// What the next commit comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    /// It fails, and nothing of the group is durable.
    Undone,
    /// It fails, and the group is durable all the same.
    Done,
}

/// What the run tells the core, and what the core lets it know.
#[derive(Debug)]
struct Weather {
    fate: AtomicU8,
    /// The earliest time that the writer was told to wake at.
    wake: AtomicI64,
}

impl Weather {
    fn heard(&self, time: Option<Time>) -> Option<Time> {
        if let Some(time) = time {
            self.wake.fetch_min(time.millis(), Ordering::Relaxed);
        }
        time
    }
}

/// A core whose commits fail on order.
pub(crate) struct Fallible<C> {
    core: C,
    weather: Arc<Weather>,
}

pub(crate) struct House<C: Lasting> {
    pub(crate) shell: Arc<Shell<Fallible<C>>>,
    writer: Writer<Fallible<C>>,
    pub(crate) reader: C::Reader,
    weather: Arc<Weather>,
}

impl<C: Lasting> fmt::Debug for House<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").finish_non_exhaustive()
    }
}

/// When the writer should have its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nap {
    /// In so many milliseconds.
    For(u64),
    /// When it is so late, or earlier if the clock is stepped.
    Until(Time),
    /// When a job comes.
    Idle,
}

impl<C: Lasting> House<C> {
    pub(crate) fn open(core: C, clock: Arc<WallClock>, mut dice: Dice) -> Result<House<C>, StoreError> {
        let reader = core.reader()?;
        let weather =
            Arc::new(Weather { fate: AtomicU8::new(Fate::Fine as u8), wake: AtomicI64::new(i64::MAX) });
        let core = Fallible { core, weather: weather.clone() };
        let entropy = move || {
            let mut bytes = [0; 32];
            for part in bytes.chunks_mut(8) {
                part.copy_from_slice(&dice.next_u64().to_le_bytes());
            }
            bytes
        };
        let (shell, writer) = Shell::with_writer(core, clock, Box::new(entropy))?;
        Ok(House { shell: Arc::new(shell), writer, reader, weather })
    }

    /// One turn of the writer. False when there is no further one.
    pub(crate) fn turn(&mut self, fate: Fate) -> bool {
        self.weather.fate.store(fate as u8, Ordering::Relaxed);
        let goes_on = self.writer.turn();
        self.weather.fate.store(Fate::Fine as u8, Ordering::Relaxed);
        goes_on
    }

    /// The writer looks at the clock at least once a second, which a run need not: it knows when the clock jumps.
    pub(crate) fn nap(&mut self) -> Nap {
        self.weather.wake.store(i64::MAX, Ordering::Relaxed);
        let nap = self.writer.nap().millis();
        let wake = self.weather.wake.load(Ordering::Relaxed);
        match nap {
            // It did not ask the core: it waits to try the store again.
            1.. if wake == i64::MAX && pombo_store::Store::health(&*self.shell).is_err() => Nap::For(nap),
            1.. if wake == i64::MAX => Nap::Idle,
            1.. => Nap::Until(Time::from_millis(wake)),
            0 => Nap::For(0),
        }
    }

    /// The process is gone. What is left is what was durable.
    pub(crate) fn crash(self) -> C::Reader {
        self.reader
    }
}

impl<C: Core> Core for Fallible<C> {
    type Reader = C::Reader;

    fn commit(&mut self, now: Time, entropy: &[u8; 32]) -> Result<u64, StoreError> {
        let fate = self.weather.fate.swap(Fate::Fine as u8, Ordering::Relaxed);
        let failed = || Err(StoreError::Unavailable("the commit failed".into()));
        if fate == Fate::Undone as u8 {
            return failed();
        }
        let position = self.core.commit(now, entropy)?;
        if fate == Fate::Done as u8 { failed() } else { Ok(position) }
    }

    fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time> {
        self.weather.heard(self.core.next_due(lane, now))
    }

    fn next_deadline(&self) -> Option<Time> {
        self.weather.heard(self.core.next_deadline())
    }

    fn accept(&mut self, draft: Draft, now: Time) -> Result<Result<Accepted, Conflict>, StoreError> {
        self.core.accept(draft, now)
    }

    fn claim(&mut self, ask: &Ask, now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.core.claim(ask, now)
    }

    fn heartbeat(&mut self, node: NodeId, lease_until: Time) -> Result<(), StoreError> {
        self.core.heartbeat(node, lease_until)
    }

    fn take_over(&mut self, node: NodeId, max: usize, now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.core.take_over(node, max, now)
    }

    fn disown(&mut self, key: ClaimKey) {
        self.core.disown(key);
    }

    fn settle(&mut self, settlement: Settlement, now: Time) -> Result<Settled, StoreError> {
        self.core.settle(settlement, now)
    }

    fn release(&mut self, key: ClaimKey, now: Time) -> Result<Settled, StoreError> {
        self.core.release(key, now)
    }

    fn report(&mut self, channel: &ChannelName, report: &Report, now: Time) -> Result<Reported, StoreError> {
        self.core.report(channel, report, now)
    }

    fn leave_out(&mut self, key: ClaimKey, reason: &str, now: Time) -> Result<Settled, StoreError> {
        self.core.leave_out(key, reason, now)
    }

    fn cancel(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Cancelled, StoreError> {
        self.core.cancel(tenant, id, by, now)
    }

    fn hasten(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Hastened, StoreError> {
        self.core.hasten(tenant, id, by, now)
    }
    fn rule(&mut self, ruling: &Ruling, now: Time) -> Result<Verdicts, StoreError> {
        self.core.rule(ruling, now)
    }
    fn edit(&mut self, edit: &Edit, now: Time) -> Result<Edited, StoreError> {
        self.core.edit(edit, now)
    }
    fn shelve(&mut self, wish: &Shelve, now: Time) -> Result<Shelved, StoreError> {
        self.core.shelve(wish, now)
    }

    fn enlist(&mut self, wish: &Enlist, now: Time) -> Result<Result<Vec<Enlisted>, NotDone>, StoreError> {
        self.core.enlist(wish, now)
    }

    fn feed(&mut self, feed: &Feed, now: Time) -> Result<Result<(), NotDone>, StoreError> {
        self.core.feed(feed, now)
    }

    fn strike(&mut self, tenant: &Tenant, campaign: &CampaignName, max: usize) -> Result<usize, StoreError> {
        self.core.strike(tenant, campaign, max)
    }

    fn cut(&mut self, tenant: &Tenant, campaign: &CampaignName, now: Time) -> Result<bool, StoreError> {
        self.core.cut(tenant, campaign, now)
    }

    fn expire(&mut self, max: usize, now: Time) -> Result<usize, StoreError> {
        self.core.expire(max, now)
    }

    fn block(&mut self, place: &Place, block: Block, by: &Actor, now: Time) -> Result<(), StoreError> {
        self.core.block(place, block, by, now)
    }

    fn unblock(&mut self, place: &Place, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.core.unblock(place, by, now)
    }

    fn examine(&mut self, finding: &Finding, now: Time) -> Result<(), StoreError> {
        self.core.examine(finding, now)
    }

    fn prune(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Result<Pruned, StoreError> {
        self.core.prune(prune, ripe, now)
    }

    fn lapse(&mut self, after: Option<MessageKey>, max: usize, now: Time) -> Result<Lapsed, StoreError> {
        self.core.lapse(after, max, now)
    }

    fn pseudonyms(&self) -> Pseudonyms {
        self.core.pseudonyms()
    }

    fn erase(&mut self, wish: &Erase, now: Time) -> Result<Erased, StoreError> {
        self.core.erase(wish, now)
    }

    fn pause(&mut self, pause: &Pause, by: &Actor) -> Result<(), StoreError> {
        self.core.pause(pause, by)
    }

    fn resume(&mut self, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.core.resume(by, now)
    }

    fn put_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Result<Put, StoreError> {
        self.core.put_template(tenant, name, template, by, now)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.core.reopen()
    }

    fn check(&mut self, now: Time) -> Result<(), StoreError> {
        self.core.check(now)
    }

    fn reader(&self) -> Result<C::Reader, StoreError> {
        self.core.reader()
    }
}
