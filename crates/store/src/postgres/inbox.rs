//! What applications ask for by SQL, in transactions of their own: messages to be made, and things to be done with them.
//!
//! The functions of the schema check what SQL can check and give out the id. Whoever has the configuration judges the
//! rest ([`Inbox`] is what it works with), and the answer is written in one group with whatever else is being written.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Draft};
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::ChannelSetup;
use pombo_kernel::time::{Span, Time};
use tokio::sync::Notify;

use super::link::Row;
use super::reader::{Reader, Whose};
use super::settling::Taken;
use super::{Postgres, rows, sql};
use crate::shell::Shell;
use crate::{Answer, Claimed, Conflict, NodeId, Repeat, Settlement, StoreError};

/// A command that could not be carried out for so long is forgotten: the message is always being sent.
const COMMAND_PATIENCE: Span = Span::from_hours(1);

/// A message that an application wants sent. Its id is given out already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub id: MessageId,
    pub tenant: Tenant,
    /// As `POST /v1/messages` takes it.
    pub json: String,
    pub fingerprint: [u8; 16],
}

/// An application says that a message failed: it counts as an attempt that did, with these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkFailed {
    number: i64,
    at: Time,
    pub tenant: Tenant,
    pub message: MessageId,
    pub words: String,
    pub by: Actor,
}

/// What waits to be looked at, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub requests: Vec<Request>,
    pub failures: Vec<MarkFailed>,
}

/// A request and what became of it: a draft, or why there can be none.
pub type Judged = (Request, Result<Draft, String>);

/// Says what follows for a message that was marked as failed.
pub type Decide = Box<dyn FnMut(&MarkFailed, &Claimed, Time) -> Settlement + Send>;

/// What whoever looks after the inbox works with.
pub trait Inbox: Send + Sync + fmt::Debug {
    /// Up to so many of each kind.
    fn waiting(&self, max: usize) -> Answer<'_, Waiting>;

    /// Makes messages of what was judged well, each under the id that was given out, and keeps the reason for what was
    /// not. What another node has taken meanwhile is left to it. How many there were.
    fn admit(&self, judged: Vec<Judged>) -> Answer<'_, usize>;

    /// Carries out what was asked for; what concerns a message that cannot be touched now stays for later. How many were
    /// carried out.
    fn mark_failed(&self, failures: Vec<MarkFailed>, decide: Decide) -> Answer<'_, usize>;

    /// Says which channels are configured, for those who ask by SQL.
    fn declare(&self, channels: Vec<Arc<ChannelSetup>>) -> Answer<'_, ()>;

    /// Comes back when there was word that something waits.
    fn rung(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The inbox of a store.
#[derive(Clone, Debug)]
pub struct Tray {
    shell: Shell<Postgres>,
    bell: Arc<Notify>,
}

impl Tray {
    /// `bell` is the core's own: see [`Postgres::bell`].
    pub fn of(shell: Shell<Postgres>, bell: Arc<Notify>) -> Tray {
        Tray { shell, bell }
    }
}

impl Inbox for Tray {
    fn waiting(&self, max: usize) -> Answer<'_, Waiting> {
        self.shell.read(move |reader| reader.inbox(max))
    }

    fn admit(&self, judged: Vec<Judged>) -> Answer<'_, usize> {
        self.shell.work(move |core, now| core.admit(&judged, now))
    }

    fn mark_failed(&self, failures: Vec<MarkFailed>, mut decide: Decide) -> Answer<'_, usize> {
        self.shell.work(move |core, now| core.mark_failed(&failures, &mut decide, now))
    }

    fn declare(&self, channels: Vec<Arc<ChannelSetup>>) -> Answer<'_, ()> {
        self.shell.work(move |core, _| core.declare(&channels))
    }

    fn rung(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.bell.notified())
    }
}

impl Reader {
    pub fn inbox(&mut self, max: usize) -> Result<Waiting, StoreError> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let asked = [sql!("inbox_some"), sql!("command_some")]
            .map(|sql| (sql, vec![max.into()]))
            .into_iter()
            .collect();
        let mut found = self.read(Whose::Everybodys, asked)?.into_iter();
        let requests = found.next().unwrap_or_default().iter().map(request).collect::<Result<_, _>>()?;
        let failures = found.next().unwrap_or_default().iter().map(failure).collect::<Result<_, _>>()?;
        Ok(Waiting { requests, failures })
    }
}

fn request(row: &Row) -> Result<Request, StoreError> {
    Ok(Request {
        id: rows::id(row, 0, 1)?,
        tenant: rows::name(row, 2)?,
        json: rows::get(row, 3)?,
        fingerprint: rows::bytes(row, 4)?,
    })
}

fn failure(row: &Row) -> Result<MarkFailed, StoreError> {
    Ok(MarkFailed {
        number: rows::get(row, 0)?,
        at: rows::time(row, 1)?,
        tenant: rows::name(row, 2)?,
        message: rows::id(row, 3, 4)?,
        words: rows::get(row, 5)?,
        by: Actor(rows::get(row, 6)?),
    })
}

impl Postgres {
    /// Rung whenever a look finds something in the inbox.
    pub fn bell(&self) -> Arc<Notify> {
        self.bell.clone()
    }

    pub fn admit(&mut self, judged: &[Judged], now: Time) -> Result<usize, StoreError> {
        let keys: Vec<i64> = judged.iter().map(|(request, _)| request.id.key().0).collect();
        let steps =
            vec![(sql!("inbox_take"), vec![keys.clone().into()]), (sql!("message_has"), vec![keys.into()])];
        let found = self.ask(steps)?;
        let keys_of =
            |rows: &[Row]| rows.iter().map(|row| rows::key(row, 0)).collect::<Result<HashSet<_>, _>>();
        let [ours, clashing] = found.as_slice() else { return Err(super::reader::unanswered()) };
        let (ours, clashing) = (keys_of(ours)?, keys_of(clashing)?);
        let mut refused: Vec<(&Request, String)> = Vec::new();
        let (mut requests, mut drafts) = (Vec::new(), Vec::new());
        for (request, verdict) in judged.iter().filter(|(request, _)| ours.contains(&request.id.key())) {
            match verdict {
                Err(why) => refused.push((request, why.clone())),
                // Only a clock that was set back can make the same key twice.
                Ok(_) if clashing.contains(&request.id.key()) => {
                    refused.push((request, "its id was given out before; enqueue it again".to_owned()));
                }
                Ok(draft) => {
                    requests.push(request);
                    drafts.push(Draft { id: Some(request.id), ..draft.clone() });
                }
            }
        }
        for (request, accepted) in requests.into_iter().zip(self.accept_some(&drafts, now)?) {
            match accepted {
                Ok(accepted) if accepted.repeat == Repeat::First || accepted.id == request.id => {}
                Ok(accepted) => {
                    refused
                        .push((request, format!("the same was accepted before, as {}", accepted.id.uuid())));
                }
                Err(Conflict { first }) => refused.push((
                    request,
                    format!(
                        "its idempotency key was used for another request, which became {}",
                        first.uuid()
                    ),
                )),
            }
        }
        self.refuse(refused, now)?;
        Ok(ours.len())
    }

    fn refuse(&mut self, refused: Vec<(&Request, String)>, now: Time) -> Result<(), StoreError> {
        if refused.is_empty() {
            return Ok(());
        }
        let (mut keys, mut nonces, mut tenants) = (Vec::new(), Vec::new(), Vec::new());
        let (mut requests, mut reasons) = (Vec::new(), Vec::new());
        for (request, why) in refused {
            keys.push(request.id.key().0);
            nonces.push(request.id.nonce());
            tenants.push(request.tenant.as_str());
            requests.push(request.json.as_str());
            reasons.push(rows::escaped(&why));
        }
        let values = vec![
            keys.into(),
            nonces.into(),
            now.millis().into(),
            tenants.into(),
            requests.into(),
            reasons.into(),
        ];
        self.ask_one(sql!("refused_insert"), values).map(drop)
    }

    pub fn mark_failed(
        &mut self,
        failures: &[MarkFailed],
        decide: &mut dyn FnMut(&MarkFailed, &Claimed, Time) -> Settlement,
        now: Time,
    ) -> Result<usize, StoreError> {
        let numbers: Vec<i64> = failures.iter().map(|failure| failure.number).collect();
        let keys: Vec<i64> = failures.iter().map(|failure| failure.message.key().0).collect();
        let steps =
            vec![(sql!("command_lock"), vec![numbers.into()]), (sql!("inbox_has"), vec![keys.into()])];
        let found = self.ask(steps)?;
        let [ours, unborn] = found.as_slice() else { return Err(super::reader::unanswered()) };
        let ours = ours.iter().map(|row| rows::get(row, 0)).collect::<Result<HashSet<i64>, _>>()?;
        let unborn = unborn.iter().map(|row| rows::key(row, 0)).collect::<Result<HashSet<_>, _>>()?;
        let mut done = Vec::new();
        for failure in failures.iter().filter(|failure| ours.contains(&failure.number)) {
            let node = NodeId(self.holder);
            let over = match self.take_waiting(node, &failure.tenant, failure.message, now)? {
                Taken::Claimed(claimed) => {
                    let settlement = decide(failure, &claimed, now);
                    self.settle_some(&[settlement], now)?;
                    true
                }
                Taken::Nothing => !unborn.contains(&failure.message.key()),
                Taken::Busy => false,
            };
            if over || now.since(failure.at) > COMMAND_PATIENCE {
                done.push(failure.number);
            }
        }
        let count = done.len();
        if count > 0 {
            self.ask_one(sql!("command_delete"), vec![done.into()])?;
        }
        Ok(count)
    }

    pub fn declare(&mut self, channels: &[Arc<ChannelSetup>]) -> Result<(), StoreError> {
        let of = |part: fn(&ChannelSetup) -> &str| {
            channels.iter().map(|it| part(it).to_owned()).collect::<Vec<_>>()
        };
        let names = of(|it| it.name.as_str());
        let values = vec![
            names.clone().into(),
            of(|it| it.kind.as_str()).into(),
            of(|it| it.tenant.as_str()).into(),
            channels.iter().map(|it| i32::from(it.policy.attempts)).collect::<Vec<_>>().into(),
            channels.iter().map(|it| it.unready.is_none()).collect::<Vec<_>>().into(),
        ];
        self.ask(vec![(sql!("channel_put"), values), (sql!("channel_drop"), vec![names.into()])]).map(drop)
    }
}
