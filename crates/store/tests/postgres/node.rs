//! One of several processes on one database, as far as a core goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

use pombo_kernel::block::Block;
use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, ClaimKey, Draft};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::core::{Core, Reading};
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::{Accepted, Ask, Cancelled, Claimed, NodeId, Place, Rates, Settled, Settlement, StoreError};
use pombo_testbed::Database;

use crate::world::{End, START, settlement};

pub(crate) struct Node {
    pub(crate) core: Postgres,
    pub(crate) now: Time,
    id: NodeId,
    commits: u64,
    looks: i64,
    /// Whether one of those who race with it fell.
    fell: Arc<AtomicBool>,
}

/// Lets the nodes do that at the same moment, each on a thread of its own. If one falls the others do too, instead of
/// waiting for it for ever.
///
/// One race at a time: a machine with two cores has room for no more, and whoever waits too long is taken for dead.
pub(crate) fn together<T: Send>(nodes: &mut [Node], work: impl Fn(usize, &mut Node) -> T + Sync) -> Vec<T> {
    static RACE: Mutex<()> = Mutex::new(());
    let _alone = RACE.lock().unwrap_or_else(PoisonError::into_inner);
    let (fell, all_there) = (Arc::new(AtomicBool::new(false)), Barrier::new(nodes.len()));
    thread::scope(|scope| {
        let (work, all_there) = (&work, &all_there);
        let mut threads = Vec::new();
        for (n, node) in nodes.iter_mut().enumerate() {
            node.fell = Arc::clone(&fell);
            let falls = Falls(Arc::clone(&fell));
            threads.push(scope.spawn(move || {
                let _falls = falls;
                all_there.wait();
                work(n, node)
            }));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Tells the others of a panic.
struct Falls(Arc<AtomicBool>);

impl Drop for Falls {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

impl Node {
    /// Joins the others on that database.
    pub(crate) fn on(database: &Database, id: i64) -> Node {
        Node::at(database.url(), id)
    }

    pub(crate) fn at(url: &str, id: i64) -> Node {
        let target = Target::parse(url).unwrap();
        // The same dice everywhere: what must differ may not hang on chance.
        let entropy = [u8::try_from(id).unwrap(); 32];
        Node::with(Postgres::open(&target, Dice::seeded(11), &entropy, Sealing::AtCommit).unwrap(), id)
    }

    pub(crate) fn with(core: Postgres, id: i64) -> Node {
        Node { core, now: START, id: NodeId(id), commits: 0, looks: 0, fell: Arc::default() }
    }

    /// Work and its commit, begun anew as often as it meets another, as the shell does.
    pub(crate) fn group<T>(
        &mut self,
        mut work: impl FnMut(&mut Postgres, Time) -> Result<T, StoreError>,
    ) -> T {
        for _ in 0..100 {
            assert!(!self.fell.load(Ordering::SeqCst), "another node fell");
            self.commits += 1;
            let mut entropy = [0; 32];
            entropy[..8].copy_from_slice(&self.commits.to_le_bytes());
            entropy[8..16].copy_from_slice(&self.id.0.to_le_bytes());
            let answer = work(&mut self.core, self.now);
            match answer.and_then(|answer| self.core.commit(self.now, &entropy).map(|_| answer)) {
                Ok(answer) => return answer,
                Err(StoreError::Again(_)) => self.core.reopen().unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("it met others a hundred times in a row");
    }

    pub(crate) fn accept(&mut self, drafts: &[Draft]) -> Vec<MessageId> {
        let accepted = self.group(|core, now| core.accept_all(drafts, now));
        accepted.into_iter().map(|accepted| accepted.unwrap().id).collect()
    }

    pub(crate) fn offer(&mut self, draft: &Draft) -> Result<Accepted, pombo_store::Conflict> {
        self.group(|core, now| core.accept(draft.clone(), now))
    }

    /// Hears of what others did, then claims.
    pub(crate) fn claim(&mut self, max: usize) -> Vec<Claimed> {
        self.look();
        self.claim_unaware(max)
    }

    /// Hears of what others did. It would not look twice at the same moment, so it is each time a little earlier.
    pub(crate) fn look(&mut self) {
        self.looks += 1;
        self.core.look(Time::from_millis(self.now.millis() - self.looks)).unwrap();
    }

    /// Claims with what the node knows, having heard nothing.
    pub(crate) fn claim_unaware(&mut self, max: usize) -> Vec<Claimed> {
        self.claim_at(max, Rates::default())
    }

    pub(crate) fn claim_at(&mut self, max: usize, rates: Rates) -> Vec<Claimed> {
        let ask = Ask { node: self.id, lane: Default::default(), max, rates: Arc::new(rates) };
        self.group(|core, now| core.claim(&ask, now))
    }

    pub(crate) fn settle(&mut self, claimed: &Claimed, end: End) -> Settled {
        let settlement = settlement(claimed, end, self.now);
        self.group(|core, now| core.settle(settlement.clone(), now))
    }

    pub(crate) fn settle_all(&mut self, claimed: &[Claimed], end: End) -> Vec<Settled> {
        let settlements: Vec<Settlement> =
            claimed.iter().map(|claimed| settlement(claimed, end, self.now)).collect();
        self.group(|core, now| core.settle_all(&settlements, now))
    }

    pub(crate) fn release(&mut self, key: ClaimKey) -> Settled {
        self.group(|core, now| core.release(key, now))
    }

    pub(crate) fn cancel(&mut self, id: MessageId) -> Cancelled {
        self.group(|core, now| core.cancel(&Tenant::default(), id, &Actor("ana".into()), now))
    }

    pub(crate) fn expire(&mut self, max: usize) -> usize {
        self.group(|core, now| core.expire(max, now))
    }

    pub(crate) fn block(&mut self, place: &Place, block: &Block) {
        self.group(|core, now| core.block(place, block.clone(), &Actor("ana".into()), now));
    }

    pub(crate) fn unblock(&mut self, place: &Place) -> bool {
        self.group(|core, now| core.unblock(place, &Actor("ana".into()), now))
    }

    pub(crate) fn heartbeat(&mut self, lease: Span) {
        let (id, until) = (self.id, self.now + lease);
        self.group(|core, _| core.heartbeat(id, until));
    }

    pub(crate) fn take_over(&mut self, max: usize) -> Vec<Claimed> {
        let id = self.id;
        self.group(|core, now| core.take_over(id, max, now))
    }

    pub(crate) fn reader(&self) -> impl Reading + use<> {
        self.core.reader().unwrap()
    }
}
