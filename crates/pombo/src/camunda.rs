//! Workers for process engines: the retry decision as jobs of Camunda 8 and external tasks of Camunda 7.
//!
//! An engine hands out a task for a while, and once more if nobody answers in that time. The decision is on record
//! before the engine is told, so whoever gets the task next tells it the same.

mod eight;
mod line;
mod seven;
mod task;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::decision::{Decision, Question};
use pombo_kernel::dice::Dice;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Clock;
use pombo_store::meter::Retries;
use pombo_store::{Store, StoreError};
use pombo_web::decision::{self, Asker};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use self::eight::Eight;
use self::line::{Failed, Line, Login, Tokens};
use self::seven::Seven;
use self::task::{Outcome, Task};
use crate::config::camunda::Auth;
use crate::config::{Camunda7, Camunda8, Config};

/// How long an engine may take to answer, beyond the time that it was asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The first wait after a failure; each one after that is twice as long.
const TROUBLE_FIRST: Duration = Duration::from_millis(200);
const TROUBLE_MAX: Duration = Duration::from_secs(30);
/// Between questions that an engine answered with nothing: not all of them wait as they are asked to.
const NOTHING_THERE: Duration = Duration::from_millis(200);
/// How often a decision is tried to be recorded before the task is given back.
const RECORDINGS: u32 = 4;
/// How long to wait before a worker that ended by itself is started again.
const STARTED_AGAIN: Duration = Duration::from_secs(5);

/// An engine that hands out tasks and takes answers.
trait Engine: fmt::Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// Where it is, for the log.
    fn place(&self) -> &str;

    /// How long a task is ours.
    fn lock(&self) -> Duration;

    /// Up to `max` tasks, as soon as there are some; none after a while.
    fn fetch(&self, max: usize) -> impl Future<Output = Result<Vec<Task>, Failed>> + Send;

    fn tell(&self, task: &Task, outcome: &Outcome) -> impl Future<Output = Result<(), Failed>> + Send;
}

/// Who decides, and by what.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) setup: watch::Receiver<Arc<Setup>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) meter: Retries,
}

impl Desk {
    /// The decision on record. A store that is busy is asked again a few times.
    async fn decide(&self, question: &Question, by: &'static str) -> Result<Decision, StoreError> {
        let asker = Asker { tenant: Tenant::default(), actor: Actor(by.to_owned()) };
        let mut tries = 1;
        loop {
            let policy = self.setup.borrow().claims.clone();
            match decision::decide(&*self.store, &*self.clock, &policy, question, &asker, &self.meter).await {
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) if tries < RECORDINGS => {
                    debug!(%error, tries, "a decision was not recorded, and is tried again");
                    sleep(TROUBLE_FIRST * tries).await;
                    tries += 1;
                }
                decided => return decided,
            }
        }
    }
}

/// The workers of one node. They end when this is dropped: what is under way is finished, nothing more is fetched.
#[derive(Debug)]
pub(crate) struct Workers {
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts those that are configured. One whose settings cannot be used says so, and the others work.
    pub(crate) fn start(config: &Config, desk: &Desk, seed: u64) -> Workers {
        let stop = watch::Sender::new(false);
        let mut dice = Dice::seeded(seed);
        let mut running = Vec::new();
        if let Some(settings) = &config.camunda8 {
            let max = usize::from(settings.max_jobs.get());
            running.extend(begin(settings.line(desk, &mut dice), max, desk, &stop, dice.next_u64()));
        }
        if let Some(settings) = &config.camunda7 {
            let max = usize::from(settings.max_tasks.get());
            running.extend(begin(settings.line(&mut dice), max, desk, &stop, dice.next_u64()));
        }
        Workers { stop, running }
    }

    /// Fetches nothing more, and waits up to `grace` for what is under way.
    pub(crate) async fn stop(self, grace: Duration) {
        self.stop.send_replace(true);
        let ending = async {
            for worker in self.running {
                let _ = worker.await;
            }
        };
        if timeout(grace, ending).await.is_err() {
            warn!("a process engine did not answer in time; it hands out again what was not told");
        }
    }
}

fn begin<E: Engine>(
    engine: Result<E, String>,
    max: usize,
    desk: &Desk,
    stop: &watch::Sender<bool>,
    seed: u64,
) -> Option<JoinHandle<()>> {
    match engine {
        Ok(engine) => {
            let worker = Worker {
                engine: Arc::new(engine),
                desk: desk.clone(),
                dice: Arc::new(Mutex::new(Dice::seeded(seed))),
                max,
            };
            Some(tokio::spawn(worker.kept_up(stop.subscribe())))
        }
        Err(why) => {
            error!(worker = E::NAME, why, "a worker for a process engine cannot be started");
            None
        }
    }
}

impl Camunda8 {
    fn line(&self, desk: &Desk, dice: &mut Dice) -> Result<Eight, String> {
        let missing = || "the configuration is not complete".to_owned();
        let login = match self.auth {
            Auth::None => Login::Nobody,
            Auth::Basic => {
                let (name, password) =
                    self.username.as_ref().zip(self.password.as_ref()).ok_or_else(missing)?;
                Login::basic(name, password)
            }
            Auth::Oidc => Login::Tokens(Box::new(Tokens {
                url: self.token_url.clone().ok_or_else(missing)?,
                client_id: self.client_id.clone().ok_or_else(missing)?,
                client_secret: self.client_secret.clone().ok_or_else(missing)?,
                audience: self.audience.clone(),
                scope: self.scope.clone(),
                clock: desk.clock.clone(),
                current: Mutex::new(None),
            })),
        };
        Ok(Eight {
            line: Line::new(self.base_url.clone().ok_or_else(missing)?, self.ca_file.as_deref(), login)?,
            kind: self.kind.clone(),
            worker: self.worker.clone().unwrap_or_else(|| made_up(dice)),
            lock: self.job_timeout.to_std(),
            poll: self.request_timeout.to_std(),
            language: self.language,
        })
    }
}

impl Camunda7 {
    fn line(&self, dice: &mut Dice) -> Result<Seven, String> {
        let base = self.base_url.clone().ok_or_else(|| "the configuration is not complete".to_owned())?;
        let login = match (&self.username, &self.password) {
            (Some(name), Some(password)) => Login::basic(name, password),
            _ => Login::Nobody,
        };
        Ok(Seven {
            line: Line::new(base, self.ca_file.as_deref(), login)?,
            topic: self.topic.clone(),
            worker_id: self.worker_id.clone().unwrap_or_else(|| made_up(dice)),
            lock: self.lock_duration.to_std(),
            poll: self.request_timeout.to_std(),
            language: self.language,
        })
    }
}

/// A worker's name that no other node has.
fn made_up(dice: &mut Dice) -> String {
    format!("pombo-{:016x}", dice.next_u64())
}

#[derive(Debug)]
struct Worker<E> {
    engine: Arc<E>,
    desk: Desk,
    dice: Arc<Mutex<Dice>>,
    max: usize,
}

impl<E> Clone for Worker<E> {
    fn clone(&self) -> Worker<E> {
        Worker {
            engine: self.engine.clone(),
            desk: self.desk.clone(),
            dice: self.dice.clone(),
            max: self.max,
        }
    }
}

impl<E: Engine> Worker<E> {
    /// Works until it is stopped. A fault in the worker itself costs some seconds, never the node.
    async fn kept_up(self, mut stop: watch::Receiver<bool>) {
        info!(worker = E::NAME, engine = self.engine.place(), "tasks of a process engine are worked on");
        loop {
            let Err(ended) = tokio::spawn(self.clone().work(stop.clone())).await else { return };
            error!(
                worker = E::NAME,
                panicked = ended.is_panic(),
                "a worker ended by itself, and is started again"
            );
            if timeout(STARTED_AGAIN, stopped(&mut stop)).await.is_ok() {
                return;
            }
        }
    }

    /// Fetches as many tasks as it has hands for, and answers each by itself.
    async fn work(self, mut stop: watch::Receiver<bool>) {
        let mut under_way = JoinSet::new();
        let mut failures = 0;
        loop {
            while under_way.try_join_next().is_some() {}
            let free = self.max.saturating_sub(under_way.len());
            if free == 0 {
                under_way.join_next().await;
                continue;
            }
            let fetched = tokio::select! {
                fetched = self.engine.fetch(free) => fetched,
                () = stopped(&mut stop) => break,
            };
            let pause = match fetched {
                Ok(tasks) => {
                    if failures > 0 {
                        info!(worker = E::NAME, engine = self.engine.place(), "the engine answers again");
                    }
                    failures = 0;
                    let pause = if tasks.is_empty() { NOTHING_THERE } else { Duration::ZERO };
                    for task in tasks {
                        under_way.spawn(self.clone().answer(task));
                    }
                    pause
                }
                Err(failed) => {
                    self.complain(&failed, failures);
                    failures += 1;
                    self.pause(failures).await
                }
            };
            if timeout(pause, stopped(&mut stop)).await.is_ok() {
                break;
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// The first of a row of failures is told; the rest would say the same.
    fn complain(&self, failed: &Failed, before: u32) {
        let (worker, engine) = (E::NAME, self.engine.place());
        match failed {
            Failed::Passing(why) if before == 0 => {
                warn!(worker, engine, why, "the engine gives no tasks for now");
            }
            Failed::Gone(why) | Failed::Refused(why) if before == 0 => {
                error!(worker, engine, why, "the engine refuses this worker: check its address and login");
            }
            Failed::Passing(why) | Failed::Gone(why) | Failed::Refused(why) => {
                debug!(worker, engine, why, before, "the engine still gives no tasks");
            }
        }
    }

    /// Longer with every failure, and never the same for two workers.
    async fn pause(&self, failures: u32) -> Duration {
        let nominal = TROUBLE_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(TROUBLE_MAX);
        nominal.mul_f64(0.5 + self.dice.lock().await.unit())
    }

    /// Decides on one task and tells the engine, as long as the task is ours.
    async fn answer(self, task: Task) {
        let lock = self.engine.lock();
        if timeout(lock, self.decided_and_told(&task)).await.is_err() {
            warn!(
                worker = E::NAME,
                task = task.key,
                "the engine was not told in time, and hands it out again"
            );
        }
    }

    async fn decided_and_told(&self, task: &Task) {
        let mut outcome = match task.question() {
            Err(why) => {
                warn!(worker = E::NAME, task = task.key, why, "a task cannot be decided on");
                Outcome::unreadable(why)
            }
            Ok(question) => match self.desk.decide(&question, E::NAME).await {
                Ok(decision) => Outcome::Decided(Box::new(decision)),
                Err(error) => {
                    warn!(worker = E::NAME, task = task.key, %error, "a task waits for the store");
                    Outcome::later(task, "Pombo cannot record decisions for now".to_owned())
                }
            },
        };
        let mut failures = 0;
        loop {
            match self.engine.tell(task, &outcome).await {
                Ok(()) => return,
                // After an answer that was lost it was probably we who did it.
                Err(Failed::Gone(why)) => {
                    debug!(
                        worker = E::NAME,
                        task = task.key,
                        why,
                        failures,
                        "the engine needs no answer any more"
                    );
                    return;
                }
                Err(Failed::Refused(why)) => match outcome {
                    Outcome::Decided(_) => {
                        warn!(worker = E::NAME, task = task.key, why, "the engine did not take a decision");
                        outcome = Outcome::not_taken(task, &why);
                    }
                    Outcome::Failed { .. } => {
                        error!(
                            worker = E::NAME,
                            task = task.key,
                            why,
                            "the engine takes no answer to a task"
                        );
                        return;
                    }
                },
                Err(Failed::Passing(why)) => {
                    debug!(worker = E::NAME, task = task.key, why, failures, "the engine is told again");
                    failures += 1;
                    sleep(self.pause(failures).await).await;
                }
            }
        }
    }
}

/// Comes back when it is time to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
