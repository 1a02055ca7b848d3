//! Tells teams of their dead letters: follows the audit, gathers what fell, and owes each team one digest at a time.
//!
//! What is gathered, and how far in the audit that goes, is one document, so that each dead letter counts once whatever
//! happens to a node. A digest is in that document before it is owed, and is owed under a key of its team and time: the
//! same again is the same notice. Of two nodes that believe to follow, one changes the document and the other begins anew.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::alert::Plan;
use pombo_kernel::cause;
use pombo_kernel::dice::Dice;
use pombo_kernel::digest::{self, Digest, Fallen, Gathering, Team};
use pombo_kernel::kpi::Family;
use pombo_kernel::message::FailureReason;
use pombo_kernel::name::{TeamName, Tenant};
use pombo_kernel::notice::Notice;
use pombo_kernel::setup::{NOTICES, Setup};
use pombo_kernel::time::{Clock, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve, Shelved};
use pombo_store::{Line, Store, StoreError};
use pombo_web::{event, notice, shelf};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, info};

use crate::follower::{AT_ONCE, Follower, Following, Rest, Turn};

/// Messages that are read together: each may be large.
const MESSAGES: usize = 32;
/// A busy store moves all the time: there is at most one round in this time.
const PACE: Duration = Duration::from_millis(500);
/// Where the place in the audit is kept, and where what is gathered.
const CURSOR: &str = "digests";
const GATHERED: &str = "digests.gathered";

/// The one who tells teams. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Digester(JoinHandle<()>);

impl Drop for Digester {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Digester {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Digester {
        let holder = Dice::seeded(seed).next_u64();
        Digester(tokio::spawn(Work::new(store, setup, clock, holder).run()))
    }
}

/// What is gathered, as a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Gathered {
    /// Everything before was taken in.
    position: u64,
    teams: BTreeMap<TeamName, Gathering>,
    /// Digests that were made, until it is sure that they are owed to those who are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owed: Vec<Digest>,
}

impl Gathered {
    fn due(&self) -> Option<Time> {
        self.teams.values().filter_map(Gathering::due).min()
    }
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
    follower: Follower,
    /// As this node last read or wrote it, with its version; 0 if there is none.
    gathered: Option<(u32, Gathered)>,
    /// Nobody is to be told, and what was gathered is gone.
    at_rest: bool,
}

impl Following for Work {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn forget(&mut self) {
        self.gathered = None;
        self.follower.forget();
    }

    async fn round(&mut self) -> Result<Rest, StoreError> {
        let setup = self.setup.borrow().clone();
        if setup.alerts.teams.is_empty() {
            self.rest().await?;
            return Ok(Rest::News(PACE));
        }
        self.at_rest = false;
        let now = self.clock.now();
        let (version, gathered) = self.gathered().await?;
        let turn = self.follower.turn(gathered.position, now).await?;
        let (version, gathered) = match turn {
            Turn::Kept | Turn::Idle => (version, gathered),
            Turn::Taken => {
                // Somebody else may have gathered until now.
                self.gathered = None;
                self.gathered().await?
            }
            Turn::Others(wait) => {
                self.gathered = None;
                return Ok(Rest::Until(wait));
            }
        };
        let records = if turn == Turn::Idle { Vec::new() } else { self.follower.records().await? };
        let more = records.len() == AT_ONCE;
        let mut next = gathered.clone();
        self.take(&setup, &mut next, &records, now).await?;
        // While there is more to take in, it belongs to the same digest.
        if !more {
            step(&mut next, &setup.alerts.teams, now);
        }
        let last = records.last().map(|(last, _)| last + 1);
        let acted = next != gathered;
        if acted {
            next.position = last.unwrap_or(next.position);
            if !self.keep(version, next).await? {
                self.forget();
                return Ok(Rest::None);
            }
            self.owe(&setup.alerts).await?;
        }
        if let Some(last) = last {
            self.follower.moved(last, acted, now).await?;
        }
        let due = self.gathered.as_ref().and_then(|(_, gathered)| gathered.due());
        Ok(match due {
            _ if more => Rest::None,
            Some(due) => Rest::NewsWithin(PACE, due.since(now)),
            None => Rest::News(PACE),
        })
    }
}

impl Work {
    fn new(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        holder: u64,
    ) -> Work {
        let follower = Follower::new(Arc::clone(&store), CURSOR, holder);
        Work { store, setup, clock, follower, gathered: None, at_rest: false }
    }

    /// While nobody is to be told, nothing is gathered; what fell by then is not told later.
    async fn rest(&mut self) -> Result<(), StoreError> {
        if !self.at_rest {
            let wish = wish(Expect::Any, None);
            if self.store.doc(wish.shelf, wish.tenant.clone(), wish.id.clone()).await?.is_some() {
                shelf::put(&*self.store, wish).await?;
            }
            self.forget();
            self.at_rest = true;
        }
        Ok(())
    }

    /// What is gathered, with its version. The first time, from now on; digests that somebody could not owe any more are.
    async fn gathered(&mut self) -> Result<(u32, Gathered), StoreError> {
        if let Some(known) = &self.gathered {
            return Ok(known.clone());
        }
        let doc = self.store.doc(Shelf::Cursor, Tenant::default(), GATHERED.to_owned()).await?;
        let read = doc.and_then(|doc| Some((doc.version, serde_json::from_str(&doc.leaf.body).ok()?)));
        let begun = || (0, Gathered { position: *self.store.watch().borrow(), ..Gathered::default() });
        let (version, gathered): (u32, Gathered) = read.unwrap_or_else(begun);
        if version == 0 && !self.keep(0, gathered.clone()).await? {
            return Err(StoreError::Again("somebody else begins to gather".to_owned()));
        }
        if version > 0 {
            self.gathered = Some((version, gathered));
        }
        if self.gathered.as_ref().is_some_and(|(_, gathered)| !gathered.owed.is_empty()) {
            let plan = Arc::clone(&self.setup.borrow().alerts);
            self.owe(&plan).await?;
        }
        self.gathered.clone().ok_or_else(|| StoreError::Again("somebody else gathers".to_owned()))
    }

    /// Writes down what is gathered, from that version on; false if somebody else has.
    async fn keep(&mut self, version: u32, gathered: Gathered) -> Result<bool, StoreError> {
        let expect = if version == 0 { Expect::Nothing } else { Expect::Version(version) };
        let body = serde_json::to_string(&gathered).unwrap_or_default();
        self.gathered = match shelf::put(&*self.store, wish(expect, Some(body))).await? {
            Shelved::Done { version } => Some((version, gathered)),
            Shelved::Conflict(_) => None,
        };
        Ok(self.gathered.is_some())
    }

    /// Owes the digests that were made, and forgets them when that is sure.
    async fn owe(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let Some((version, gathered)) = self.gathered.clone() else { return Ok(()) };
        if gathered.owed.is_empty() {
            return Ok(());
        }
        let wishes: Vec<Shelve> = gathered.owed.iter().flat_map(|digest| told(digest, plan)).collect();
        if !wishes.is_empty() {
            self.store.shelve(wishes).await?;
        }
        for Digest { team, count, goes_on, .. } in &gathered.owed {
            info!(%team, count, goes_on, "a digest of dead letters was made");
        }
        if !self.keep(version, Gathered { owed: Vec::new(), ..gathered }).await? {
            debug!("somebody else gathers");
        }
        Ok(())
    }

    /// Takes in what fell.
    async fn take(
        &self,
        setup: &Setup,
        gathered: &mut Gathered,
        records: &[(u64, Record)],
        now: Time,
    ) -> Result<(), StoreError> {
        let new = records.iter().filter(|(position, _)| *position >= gathered.position);
        let new: Vec<&Record> = new.map(|(_, record)| record).filter(|it| Fell::read(it).is_some()).collect();
        for records in new.chunks(MESSAGES) {
            let ids = records.iter().filter_map(|record| record.message);
            let lines = event::lines(&*self.store, ids).await?;
            for record in records {
                let line = record.message.and_then(|id| lines.get(&id));
                // What becomes of a notice is looked after elsewhere.
                if line.is_some_and(|line| line.message.queue.lane.as_str() == NOTICES) {
                    continue;
                }
                let Some(fallen) = fallen(setup, record, line) else { continue };
                if let Some(team) = Team::of(&setup.alerts.teams, &fallen) {
                    gathered.teams.entry(team.name.clone()).or_default().take(team, fallen, now);
                }
            }
        }
        Ok(())
    }
}

/// Goes on to that time. Teams that are no longer there, or have nothing to be told, are forgotten.
fn step(gathered: &mut Gathered, teams: &[Team], now: Time) {
    gathered.teams.retain(|name, gathering| {
        let Some(team) = teams.iter().find(|team| team.name == *name) else { return false };
        gathered.owed.extend(gathering.step(team, now));
        gathering.due().is_some()
    });
}

/// What people are told of a digest.
fn told(digest: &Digest, plan: &Plan) -> Vec<Shelve> {
    let team = plan.teams.iter().find(|team| team.name == digest.team);
    let targets = team.into_iter().flat_map(|team| &team.notify).filter_map(|name| plan.targets.get(name));
    let link = plan.page("dead");
    let wish = |target: &pombo_kernel::notice::Target| {
        let letter = digest::letter(digest, link.as_deref(), &plan.zone, target.language);
        let about = format!("team.{}", digest.team);
        let notice = Notice::new(&about, target.name.clone(), Tenant::default(), letter, digest.at);
        notice::owe(&format!("team·{}·{}·{}", digest.team, digest.at.millis(), target.name), &notice)
    };
    targets.map(wish).collect()
}

fn wish(expect: Expect, body: Option<String>) -> Shelve {
    Shelve {
        shelf: Shelf::Cursor,
        tenant: Tenant::default(),
        id: GATHERED.to_owned(),
        expect,
        leaf: body.map(|body| Leaf { order: 0, topic: None, due: None, body }),
        record: None,
    }
}

/// What the audit says of something that fell.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fell {
    reason: Option<FailureReason>,
    category: Option<String>,
    /// Of decisions about claims that others submit.
    claim_id: Option<String>,
    error_type: Option<String>,
    submission_error: Option<String>,
}

impl Fell {
    fn read(record: &Record) -> Option<Fell> {
        let reason = match record.event {
            Event::Failed | Event::Expired => None,
            Event::RetriesExhausted => Some(FailureReason::MaxRetriesExceeded),
            Event::PermanentErrorFound => Some(FailureReason::PermanentError),
            _ => return None,
        };
        let fell: Fell = serde_json::from_str(&record.detail).ok()?;
        Some(Fell { reason: reason.or(fell.reason), ..fell })
    }
}

/// A dead letter, or a claim of others that is not submitted again.
fn fallen(setup: &Setup, record: &Record, line: Option<&Line>) -> Option<Fallen> {
    let Fell { reason, category, claim_id, error_type, submission_error } = Fell::read(record)?;
    let (reason, channel) = (reason?, record.channel.parse().ok());
    let category = category.or(error_type.map(|name| name.to_ascii_lowercase()));
    let failure = line.and_then(|line| line.last_failure.as_ref());
    let text = failure.map(|failure| failure.text.as_str()).or(submission_error.as_deref());
    Some(Fallen {
        is_claim: setup.family(channel.as_ref()) == Some(Family::Claims),
        channel,
        category: category.unwrap_or_else(|| reason.as_str().to_owned()),
        reason,
        text: cause::normalised(text.unwrap_or_default()),
        message: record.message.map(|id| id.to_string()).or(claim_id),
        at: record.at,
    })
}
