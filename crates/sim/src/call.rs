//! Calls on the store that are under way, and what comes of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pombo_engine::core::Refill;
use pombo_kernel::block::Block;
use pombo_kernel::delivery::Report;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, ClaimKey, Draft};
use pombo_kernel::name::{CampaignName, ChannelName, Tenant};
use pombo_kernel::suppression::Reason;
use pombo_kernel::time::Time;
use pombo_store::core::Core;
use pombo_store::dead::{Edit, Edited, Hastened, Ruling, Verdicts};
use pombo_store::prune::{Prune, Ripe};
use pombo_store::roster::{Enlist, Feed};
use pombo_store::shelf::Shelve;
use pombo_store::shell::Shell;
use pombo_store::{
    Accepted, Ask, Cancelled, Claimed, Conflict, Finding, NodeId, Place, Reported, Settled, Settlement,
    Store, StoreError, TurnedOver,
};

/// Who called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A life of a node.
    Life(u64),
    /// A producer or an operator, who outlives the process.
    Outside,
}

/// What is wanted of the store.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// Whoever gives a sign of life knows of so many jumps of the clock.
    Heartbeat {
        node: NodeId,
        until: Time,
        since: Time,
        jumps: u64,
    },
    TakeOver {
        node: NodeId,
        max: usize,
    },
    Claim(Ask),
    StopClaims(NodeId),
    Settle {
        settlements: Vec<Settlement>,
        refill: Refill,
        tries: u32,
    },
    Release {
        keys: Vec<ClaimKey>,
        tries: u32,
    },
    LeaveOut {
        key: ClaimKey,
        reason: Reason,
        tries: u32,
    },
    Accept {
        drafts: Vec<Draft>,
        tries: u32,
    },
    Cancel {
        tenant: Tenant,
        id: MessageId,
        by: Actor,
    },
    Rule(Ruling),
    Edit(Edit),
    Hasten {
        tenant: Tenant,
        id: MessageId,
        by: Actor,
    },
    Report {
        channel: ChannelName,
        report: Report,
        tries: u32,
    },
    Pause,
    Resume,
    Hold(Place, Time),
    Examine(Finding),
    Lift(Place),
    Shelve(Shelve),
    Enlist(Enlist),
    Feed(Feed),
    Cut(Tenant, CampaignName),
    LetGo(Prune, Ripe),
    Lapse {
        max: usize,
    },
}

/// What the store answered.
#[derive(Debug)]
pub(crate) enum Answered {
    Nothing(Result<(), StoreError>),
    Claimed(Result<Vec<Claimed>, StoreError>),
    Settled(Result<Vec<Settled>, StoreError>),
    TurnedOver(Result<TurnedOver, StoreError>),
    Accepted(Result<Vec<Result<Accepted, Conflict>>, StoreError>),
    Cancelled(Result<Cancelled, StoreError>),
    Ruled(Result<Verdicts, StoreError>),
    Edited(Result<Edited, StoreError>),
    Hastened(Result<Hastened, StoreError>),
    Lifted(Result<bool, StoreError>),
    Reported(Result<Vec<Reported>, StoreError>),
}

/// A call that the store has not answered yet.
pub(crate) struct Pending {
    pub(crate) caller: Caller,
    pub(crate) call: Call,
    answer: Pin<Box<dyn Future<Output = Answered>>>,
}

impl Pending {
    /// Makes the call: the store has its job when this returns.
    pub(crate) fn start<C: Core + 'static>(store: Arc<Shell<C>>, caller: Caller, call: Call) -> Pending {
        let said = call.clone();
        let answer = Box::pin(async move {
            match said {
                Call::Heartbeat { node, until, .. } => Answered::Nothing(store.heartbeat(node, until).await),
                Call::TakeOver { node, max } => Answered::Claimed(store.take_over(node, max).await),
                Call::Claim(ask) => Answered::Claimed(store.claim(ask).await),
                Call::StopClaims(node) => Answered::Nothing(store.stop_claims(node).await),
                Call::Settle { settlements, refill, .. } => {
                    Answered::TurnedOver(store.turn_over(settlements, refill.asks).await)
                }
                Call::Release { keys, .. } => Answered::Settled(store.release(keys).await),
                Call::LeaveOut { key, reason, .. } => {
                    let left_out = store.leave_out(key, reason.to_string()).await;
                    Answered::Settled(left_out.map(|settled| vec![settled]))
                }
                Call::Accept { drafts, .. } => Answered::Accepted(store.accept(drafts).await),
                Call::Cancel { tenant, id, by } => Answered::Cancelled(store.cancel(tenant, id, by).await),
                Call::Rule(ruling) => Answered::Ruled(store.rule(ruling).await),
                Call::Edit(edit) => Answered::Edited(store.edit(edit).await),
                Call::Hasten { tenant, id, by } => Answered::Hastened(store.hasten(tenant, id, by).await),
                Call::Report { channel, report, .. } => {
                    Answered::Reported(store.report(channel, vec![report]).await)
                }
                Call::Pause => Answered::Nothing(store.pause("a backup was put back".into(), ana()).await),
                Call::Resume => Answered::Lifted(store.resume(ana()).await),
                Call::Hold(place, now) => {
                    let reason = "maintenance".into();
                    let block = Block::operator(reason, now);
                    Answered::Nothing(store.block(place, block, ana()).await)
                }
                Call::Examine(finding) => Answered::Nothing(store.examine(finding).await),
                Call::Lift(place) => Answered::Lifted(store.unblock(place, ana()).await),
                Call::Shelve(wish) => Answered::Nothing(store.shelve(vec![wish]).await.map(drop)),
                Call::Enlist(wish) => Answered::Nothing(store.enlist(wish).await.map(drop)),
                Call::Feed(feed) => Answered::Nothing(store.feed(feed).await.map(drop)),
                Call::Cut(tenant, campaign) => Answered::Nothing(store.cut(tenant, campaign).await.map(drop)),
                Call::LetGo(prune, ripe) => Answered::Nothing(store.let_go(prune, ripe).await.map(drop)),
                Call::Lapse { max } => Answered::Nothing(store.lapse(None, max).await.map(drop)),
            }
        });
        let mut pending = Pending { caller, call, answer };
        // Nothing is answered before the writer's turn; this only hands the job over.
        let early = pending.poll();
        debug_assert!(early.is_none(), "answered before the writer's turn: {early:?}");
        pending
    }

    pub(crate) fn poll(&mut self) -> Option<Answered> {
        match self.answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answered) => Some(answered),
            Poll::Pending => None,
        }
    }
}

pub(crate) fn ana() -> Actor {
    Actor("ana".into())
}

/// Somebody of one tenant who tries what only another's operators may.
pub(crate) fn eve() -> Actor {
    Actor("eve".into())
}

impl Call {
    /// What a node hears that does not reach the store; none where it need not: whoever waits there is told here.
    pub(crate) fn unreached(&self) -> Option<Answered> {
        let error = StoreError::Unavailable("no connection".into());
        match self {
            Call::StopClaims(_) => None,
            Call::Claim(_) | Call::TakeOver { .. } => Some(Answered::Claimed(Err(error))),
            Call::Settle { .. } => Some(Answered::TurnedOver(Err(error))),
            Call::Release { .. } | Call::LeaveOut { .. } => Some(Answered::Settled(Err(error))),
            _ => Some(Answered::Nothing(Err(error))),
        }
    }

    /// Whether its answer comes late rather than never: whoever called may hold messages that nothing else tells of, or
    /// believes that it takes no more.
    pub(crate) fn is_told_late(&self) -> bool {
        match self {
            Call::Claim(_) | Call::TakeOver { .. } | Call::StopClaims(_) => true,
            Call::Settle { refill, .. } => !refill.asks.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Call::Heartbeat { .. } => "heartbeat",
            Call::TakeOver { .. } => "take over",
            Call::Claim(_) => "claim",
            Call::StopClaims(_) => "stop claims",
            Call::Settle { .. } => "settle",
            Call::Release { .. } => "release",
            Call::LeaveOut { .. } => "leave out",
            Call::Accept { .. } => "accept",
            Call::Cancel { .. } => "cancel",
            Call::Rule(_) => "rule",
            Call::Edit(_) => "edit",
            Call::Hasten { .. } => "hasten",
            Call::Report { .. } => "report",
            Call::Pause => "pause",
            Call::Resume => "resume",
            Call::Hold(..) => "hold",
            Call::Examine(_) => "examine",
            Call::Lift(_) => "lift",
            Call::Shelve(_) => "shelve",
            Call::Enlist(_) => "enlist",
            Call::Feed(_) => "feed",
            Call::Cut(..) => "cut",
            Call::LetGo(..) => "let go",
            Call::Lapse { .. } => "lapse",
        }
    }
}
