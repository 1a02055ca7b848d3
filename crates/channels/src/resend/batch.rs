//! Mails that leave at the same moment share one call.
//!
//! Resend knows a repeated batch by one key for all of it. So a batch whose outcome is unknown is kept as it was,
//! and repeated whole, under the same key, when any of its mails is tried again.

mod memory;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use pombo_kernel::reply::{FaultKind, Refusal, Reply};
use pombo_kernel::time::Time;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, oneshot};

use self::memory::{Memory, Recalled};
use super::api::{accepted, is_word, no_id, read, refusal};
use super::mail::Mail;
use crate::BoxFuture;
use crate::answer::words;
use crate::client::Answer;
use crate::line::fault;

/// The most that Resend takes in one call.
const MAILS_MAX: usize = 100;
/// A mail that would make a batch larger than this waits for the next.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long the first mail waits for company.
const WINDOW: Duration = Duration::from_millis(5);
/// How much longer while a call is under way, since the next one would only crowd it.
const PATIENCE: Duration = Duration::from_millis(250);

/// The two ways to hand mails over.
pub(super) trait Post: Send + Sync + 'static {
    fn single<'a>(&'a self, key: &'a str, mail: Bytes, deadline: Duration) -> BoxFuture<'a, Reply>;

    fn batch<'a>(
        &'a self,
        key: &'a str,
        mails: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Answer, Reply>>;
}

/// Where mails gather, and what is remembered of batches that went wrong.
pub(super) struct Batches<P> {
    office: Arc<Office<P>>,
}

impl<P> fmt::Debug for Batches<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batches")
    }
}

struct Office<P> {
    post: Arc<P>,
    desk: Mutex<Desk>,
    /// Rings when a call ends and when a batch is full.
    bell: Notify,
}

#[derive(Default)]
struct Desk {
    /// Mails that wait for company, by the domain that they are sent from: what Resend has against a sender then
    /// concerns all of a batch.
    queues: BTreeMap<String, Vec<Member>>,
    calls: usize,
    memory: Memory,
}

/// One mail among others.
struct Member {
    key: String,
    mail: Bytes,
    at: Time,
    deadline: Duration,
    tell: oneshot::Sender<Turn>,
}

/// What comes of waiting.
enum Turn {
    /// Nobody came along: it goes by itself.
    Alone,
    Over(Reply),
}

/// A batch on its way for the first time, or again.
#[derive(Clone)]
struct Batch {
    key: String,
    body: Bytes,
    /// The keys of its mails, in order.
    members: Vec<String>,
    /// When it first left.
    at: Time,
}

/// What a batch's answer means for its mails' next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// It is over; nothing needs to be remembered.
    Over,
    /// Nothing was taken, and it may have been the company's fault.
    Alone,
    /// Nothing was taken, for reasons that concern no mail.
    Nothing,
    /// Perhaps it was taken.
    Doubt,
}

impl<P: Post> Batches<P> {
    pub(super) fn new(post: Arc<P>) -> Batches<P> {
        Batches { office: Arc::new(Office { post, desk: Mutex::default(), bell: Notify::new() }) }
    }

    /// Sends a mail, with others if there are any, all within `deadline`.
    pub(super) async fn send(&self, key: String, mail: Mail, now: Time, deadline: Duration) -> Reply {
        let domain = mail.domain.clone();
        let turn = self.turn(&key, mail, now, deadline);
        match tokio::time::timeout(deadline, turn).await {
            Ok(reply) => reply,
            Err(_) if self.office.desk().withdraw(&domain, &key) => {
                Reply::Unreachable(fault(FaultKind::Timeout, "no turn in time"))
            }
            Err(_) => Reply::Doubtful(fault(FaultKind::Timeout, "no answer in time")),
        }
    }

    async fn turn(&self, key: &str, mail: Mail, now: Time, deadline: Duration) -> Reply {
        let (tell, told) = oneshot::channel();
        // What waiting may take is taken off, so that a call ends before those who wait for it give up.
        let deadline = deadline.saturating_sub(WINDOW + PATIENCE).max(deadline / 2);
        let json = mail.json.clone();
        let turn = {
            let mut desk = self.office.desk();
            match desk.memory.recall(key, now) {
                Recalled::Alone => Some(Turn::Alone),
                Recalled::Reply(reply) => Some(Turn::Over(reply)),
                Recalled::Doubt(batch) => {
                    if desk.memory.wait(key, tell) {
                        desk.calls += 1;
                        tokio::spawn(self.office.clone().repeat(batch, deadline));
                    }
                    None
                }
                Recalled::Nothing => {
                    let member = Member { key: key.to_owned(), mail: mail.json, at: now, deadline, tell };
                    self.office.join(&mut desk, mail.domain, member);
                    None
                }
            }
        };
        let turn = match turn {
            Some(turn) => turn,
            None => told.await.unwrap_or_else(|_| {
                let text = "the batch was given up before it was answered";
                Turn::Over(Reply::Doubtful(fault(FaultKind::Interrupted, text)))
            }),
        };
        match turn {
            Turn::Alone => self.office.post.single(key, json, deadline).await,
            Turn::Over(reply) => reply,
        }
    }
}

impl Desk {
    /// Takes a mail out of its queue; says whether it was still there.
    fn withdraw(&mut self, domain: &str, key: &str) -> bool {
        let Some(queue) = self.queues.get_mut(domain) else { return false };
        let before = queue.len();
        queue.retain(|member| member.key != key);
        queue.len() < before
    }

    /// The next batch of a queue, without those who have left; an emptied queue is taken away.
    fn take(&mut self, domain: &str) -> Vec<Member> {
        let Some(queue) = self.queues.get_mut(domain) else { return Vec::new() };
        queue.retain(|member| !member.tell.is_closed());
        let mut bytes = 0;
        let fits = queue.iter().take(MAILS_MAX).take_while(|member| {
            bytes += member.mail.len() + 1;
            bytes <= BODY_BYTES_MAX
        });
        // One that is too large for any batch goes alone.
        let count = fits.count().max(1).min(queue.len());
        let members = queue.drain(..count).collect();
        if queue.is_empty() {
            self.queues.remove(domain);
        }
        members
    }
}

impl<P: Post> Office<P> {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, desk: &mut Desk, domain: String, member: Member) {
        let queue = desk.queues.entry(domain.clone()).or_default();
        queue.push(member);
        match queue.len() {
            1 => drop(tokio::spawn(self.clone().gather(domain))),
            MAILS_MAX => self.bell.notify_waiters(),
            _ => {}
        }
    }

    /// Waits for company, then sends what has gathered.
    async fn gather(self: Arc<Self>, domain: String) {
        tokio::time::sleep(WINDOW).await;
        let bell = self.bell.notified();
        let crowded = {
            let desk = self.desk();
            desk.calls > 0 && desk.queues.get(&domain).is_some_and(|queue| queue.len() < MAILS_MAX)
        };
        if crowded {
            // Whether it rang or not makes no difference: it is time to go.
            let _ = tokio::time::timeout(PATIENCE, bell).await;
        }
        loop {
            let mut desk = self.desk();
            let mut members = desk.take(&domain);
            match members.len() {
                0 => return,
                1 => drop(members.pop().map(|member| member.tell.send(Turn::Alone))),
                _ => {
                    desk.calls += 1;
                    tokio::spawn(self.clone().carry(members));
                }
            }
        }
    }

    /// Sends a batch for the first time.
    async fn carry(self: Arc<Self>, members: Vec<Member>) {
        let batch = Batch::of(&members);
        let deadline = members.iter().map(|member| member.deadline).min().unwrap_or_default();
        let result = self.post.batch(&batch.key, batch.body.clone(), deadline).await;
        let (replies, after) = judge(&result, members.len());
        let mut desk = self.desk();
        let mut left = Vec::new();
        match after {
            After::Doubt => desk.memory.doubt(batch.clone()),
            After::Alone => desk.memory.alone(&batch.members),
            After::Over | After::Nothing => {}
        }
        for (member, reply) in members.into_iter().zip(replies) {
            // Whoever has left finds the reply when it comes back.
            let told = member.tell.send(Turn::Over(reply.clone())).is_ok();
            if !told || matches!(reply, Reply::Doubtful(_)) {
                left.push((member.key, reply));
            }
        }
        if after == After::Over && !left.is_empty() {
            desk.memory.over(left);
        }
        self.done(desk);
    }

    /// Sends a batch again, exactly as it was.
    async fn repeat(self: Arc<Self>, batch: Batch, deadline: Duration) {
        let result = self.post.batch(&batch.key, batch.body.clone(), deadline).await;
        let (replies, after) = judge(&result, batch.members.len());
        let mut desk = self.desk();
        let again = result.as_ref().is_ok_and(|answer| answer.status.is_server_error());
        for (key, tell) in desk.memory.back(&batch.key, again) {
            if let Some(at) = batch.members.iter().position(|member| *member == key) {
                let _ = tell.send(Turn::Over(replies[at].clone()));
            }
        }
        match after {
            After::Over => desk.memory.over(batch.members.into_iter().zip(replies).collect()),
            After::Alone => desk.memory.alone(&batch.members),
            After::Nothing | After::Doubt => {}
        }
        self.done(desk);
    }

    fn done(&self, mut desk: MutexGuard<'_, Desk>) {
        desk.calls -= 1;
        self.bell.notify_waiters();
    }
}

impl Batch {
    fn of(members: &[Member]) -> Batch {
        let mut digest = Sha256::new();
        let mut body = BytesMut::new();
        for (i, member) in members.iter().enumerate() {
            digest.update(member.key.as_bytes());
            digest.update(b"\n");
            body.put_u8(if i == 0 { b'[' } else { b',' });
            body.put(member.mail.clone());
        }
        body.put_u8(b']');
        let key = digest.finalize().iter().fold("batch-".to_owned(), |key, byte| format!("{key}{byte:02x}"));
        Batch {
            key,
            body: body.freeze(),
            members: members.iter().map(|member| member.key.clone()).collect(),
            at: members.iter().map(|member| member.at).min().unwrap_or_default(),
        }
    }
}

/// A reply for each of `count` mails, and what their next try should know.
fn judge(result: &Result<Answer, Reply>, count: usize) -> (Vec<Reply>, After) {
    let same = |reply: Reply, after| (vec![reply; count], after);
    let answer = match result {
        Err(reply @ Reply::Doubtful(_)) => return same(reply.clone(), After::Doubt),
        Err(reply) => return same(reply.clone(), After::Nothing),
        Ok(answer) => answer,
    };
    if answer.status.is_success() {
        return match read::<Taken>(answer) {
            Some(taken) => (one_by_one(taken, answer, count), After::Over),
            None => same(Reply::Doubtful(no_id()), After::Doubt),
        };
    }
    let refusal = refusal(answer);
    let reused = refusal.name.as_deref() == Some("invalid_idempotent_request");
    match answer.status.as_u16() {
        // It is some mail's fault, and nobody says whose: the others must not pay for it.
        status @ (400 | 413 | 422 | 451) => {
            same(Reply::Refused(refused_together(refusal, status)), After::Alone)
        }
        status @ 409 if reused => same(Reply::Refused(refused_together(refusal, status)), After::Alone),
        408 | 409 | 500..=599 => same(Reply::Refused(refusal), After::Doubt),
        _ => same(Reply::Refused(refusal), After::Nothing),
    }
}

fn refused_together(refusal: Refusal, status: u16) -> Refusal {
    let name = refusal.name.as_deref().unwrap_or("no name");
    let told = &refusal.text;
    let text = format!("the batch was refused ({status}, {name}); each mail is tried alone next: {told}");
    Refusal { status: None, text: words(text.as_bytes()), name: Some("batch_refused".to_owned()), ..refusal }
}

#[derive(Deserialize)]
struct Taken {
    data: Vec<Id>,
    #[serde(default)]
    errors: Option<Vec<Wrong>>,
}

#[derive(Deserialize)]
struct Id {
    #[serde(default)]
    id: Option<String>,
}

#[derive(Deserialize)]
struct Wrong {
    index: usize,
    #[serde(default)]
    message: String,
}

/// Mails with an error are named by their place; the ids are those of the others, in order.
fn one_by_one(taken: Taken, answer: &Answer, count: usize) -> Vec<Reply> {
    let wrong: BTreeMap<usize, String> =
        taken.errors.into_iter().flatten().map(|wrong| (wrong.index, wrong.message)).collect();
    let mut ids = taken.data.into_iter();
    let reply = |place: usize| match wrong.get(&place) {
        Some(message) => Reply::Refused(Refusal {
            status: Some(422),
            name: Some("validation_error".to_owned()),
            text: words(message.as_bytes()),
            ..Refusal::default()
        }),
        None => match ids.next().and_then(|found| found.id).filter(|id| is_word(id)) {
            Some(id) => accepted(id, answer),
            None => Reply::Doubtful(no_id()),
        },
    };
    (0..count).map(reply).collect()
}

#[cfg(test)]
mod tests;
