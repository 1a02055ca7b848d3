//! What applications enqueue by SQL: judged as at the HTTP door, and handed to the store under the ids that they got.

use std::sync::Arc;
use std::time::Duration;

use pombo_engine::decide;
use pombo_kernel::dice::Dice;
use pombo_kernel::message::{Draft, Idempotency};
use pombo_kernel::request::{Problem, Refused};
use pombo_kernel::setup::{EVENTS, Setup};
use pombo_store::postgres::inbox::{Decide, Inbox, Judged, Request};
use pombo_store::{Store, StoreError};
use pombo_web::pin_templates;
use pombo_web::suppression::stops;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

/// Requests that are looked at together.
const AT_ONCE: usize = 256;
/// Whoever enqueues right after another sends no word of it, so there is another look this long after the last one
/// that found something.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The store looks every second whether something is here, and rings; this is for what nobody has thought of.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// How long to wait when the store cannot be used.
const TROUBLE: Duration = Duration::from_secs(1);

/// The one who looks after the inbox. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Clerk(JoinHandle<()>);

impl Drop for Clerk {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Clerk {
    /// Several nodes may have one each: what one takes, the others leave.
    pub(crate) fn start(
        inbox: Arc<dyn Inbox>,
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        seed: u64,
    ) -> Clerk {
        Clerk(tokio::spawn(async move {
            let mut work = Work { inbox, store, setup, declared: None, seed: Dice::seeded(seed) };
            let mut busy = false;
            loop {
                let wait = match work.round().await {
                    Ok(0) if busy => LOOK_AGAIN,
                    Ok(0) => LOOK_ANYWAY,
                    Ok(_) => Duration::ZERO,
                    Err(StoreError::Closed) => return,
                    Err(error) => {
                        debug!(%error, "the inbox waits");
                        sleep(TROUBLE).await;
                        continue;
                    }
                };
                busy = wait == Duration::ZERO;
                let inbox = work.inbox.clone();
                tokio::select! {
                    _ = timeout(wait, inbox.rung()) => {}
                    changed = work.setup.changed() => if changed.is_err() { return },
                }
            }
        }))
    }
}

struct Work {
    inbox: Arc<dyn Inbox>,
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    /// The configuration that those who ask by SQL know of.
    declared: Option<Arc<Setup>>,
    seed: Dice,
}

impl Work {
    /// Looks once; how much there was to do.
    async fn round(&mut self) -> Result<usize, StoreError> {
        let setup = self.setup.borrow_and_update().clone();
        if self.declared.as_ref().is_none_or(|declared| !Arc::ptr_eq(declared, &setup)) {
            // Nobody but Pombo itself sends through the channel of events.
            let own = setup.channels.values().filter(|channel| channel.name.as_str() != EVENTS);
            self.inbox.declare(own.cloned().collect()).await?;
            self.declared = Some(setup.clone());
        }
        let waiting = self.inbox.waiting(AT_ONCE).await?;
        let mut done = 0;
        if !waiting.requests.is_empty() {
            let judged = judge(&*self.store, &setup, waiting.requests).await?;
            done += self.inbox.admit(judged).await?;
        }
        if !waiting.failures.is_empty() {
            let mut dice = Dice::seeded(self.seed.next_u64());
            let decide: Decide = Box::new(move |failure, claimed, now| {
                let channel = setup.channels.get(&claimed.message.queue.channel);
                info!(message_id = %failure.message, by = failure.by.0, "marked as failed by SQL");
                decide::marked_failed(
                    claimed,
                    channel.map(|it| &**it),
                    &failure.words,
                    &failure.by,
                    now,
                    &mut dice,
                )
            });
            done += self.inbox.mark_failed(waiting.failures, decide).await?;
        }
        Ok(done)
    }
}

/// Makes a draft of each request, or says why there can be none.
async fn judge(store: &dyn Store, setup: &Setup, requests: Vec<Request>) -> Result<Vec<Judged>, StoreError> {
    let judge = |request: Request| {
        let verdict = draft(setup, &request);
        (request, verdict)
    };
    let mut judged: Vec<Judged> = requests.into_iter().map(judge).collect();
    let mut drafts: Vec<Draft> = judged.iter().filter_map(|(_, verdict)| verdict.clone().ok()).collect();
    let found = pin_templates(store, setup, &mut drafts).await?;
    let sound = judged.iter_mut().filter(|(_, verdict)| verdict.is_ok());
    for ((request, verdict), (draft, problem)) in sound.zip(drafts.into_iter().zip(found)) {
        let problem = match problem {
            None => stops(store, setup, std::slice::from_ref(&draft)).await?.filter(|_| !overrides(request)),
            problem => problem,
        };
        *verdict = problem.map_or(Ok(draft), |problem| Err(said(&problem)));
    }
    Ok(judged)
}

/// Whether it goes to somebody on the suppression list, too.
fn overrides(request: &Request) -> bool {
    let read = pombo_kernel::request::Request::read(request.json.as_bytes());
    read.is_ok_and(|(request, _)| request.override_suppression == Some(true))
}

/// Times count from when the application asked, however long nobody has looked.
fn draft(setup: &Setup, request: &Request) -> Result<Draft, String> {
    let asked_at = request.id.key().time();
    match setup.draft_json(request.json.as_bytes(), &request.tenant, asked_at) {
        Ok(drafted) => {
            let key = drafted.idempotency_key;
            let idempotency = key.map(|key| Idempotency { key, fingerprint: request.fingerprint });
            Ok(Draft { idempotency, ..drafted.draft })
        }
        Err(Refused::NotJson(bad)) => Err(bad.to_string()),
        Err(Refused::Problems(problems)) => Err(problems.iter().map(said).collect::<Vec<_>>().join("; ")),
    }
}

fn said(problem: &Problem) -> String {
    format!("{} {} ({})", problem.field, problem.reason, problem.hint)
}
