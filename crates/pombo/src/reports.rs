//! Sends reports when they are due, each period once.
//!
//! How far a report has been sent is a document. What people are sent is owed under a key of report and period before
//! that document changes, so that after any interruption it is sent, and of two nodes that do the same one has done
//! nothing.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use pombo_kernel::message::Actor;
use pombo_kernel::report::Report;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::shelf::Shelved;
use pombo_store::{Store, StoreError};
use pombo_web::report::{self, Sent};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, info};

/// However far away the next one is, it is looked so often: clocks are put, and nodes sleep.
const LOOK_ANYWAY: Span = Span::from_mins(1);
/// How long to wait when the store cannot be used.
const TROUBLE: Span = Span::from_secs(5);

/// The one who sends reports. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reporter(JoinHandle<()>);

impl Drop for Reporter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reporter {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
    ) -> Reporter {
        Reporter(tokio::spawn(Work { store, setup, clock }.run()))
    }
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
}

impl Work {
    /// Goes on until the store closes.
    async fn run(mut self) {
        loop {
            self.setup.mark_unchanged();
            let wait = match self.round().await {
                Ok(next) => next.map(|next| next.since(self.clock.now()).min(LOOK_ANYWAY)),
                Err(error @ (StoreError::Closed | StoreError::Broken(_))) => {
                    return crate::follower::stopped("reports", &error);
                }
                Err(error) => {
                    debug!(%error, "reports wait to be sent");
                    Some(TROUBLE)
                }
            };
            let due = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait.to_std()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                changed = self.setup.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Sends what is due; when something may be next, if anything is configured.
    async fn round(&self) -> Result<Option<Time>, StoreError> {
        let setup = self.setup.borrow().clone();
        let mut next: Option<Time> = None;
        for report in setup.alerts.reports.values() {
            let now = self.clock.now();
            self.send(&setup, report, now).await?;
            next = [next, Some(report.schedule.next(now))].into_iter().flatten().min();
        }
        Ok(next)
    }

    async fn send(&self, setup: &Setup, report: &Report, now: Time) -> Result<(), StoreError> {
        let known = report::sent(&*self.store, &report.name).await?;
        let Some((doc, sent)) = known else {
            // What ended before anybody wanted a report is not reported.
            let until = report.schedule.latest(now).until;
            let wish = report::note(&report.name, None, Sent { until, at: None }, None);
            return self.store.shelve(vec![wish]).await.map(drop);
        };
        let Some(period) = report.schedule.owed(sent.until, now) else { return Ok(()) };
        let figures = report::figures(&*self.store, setup, report, &period).await?;
        let key = period.until.millis().to_string();
        let owed = report::owe(report, &period, &figures, &setup.alerts, &key, now);
        let mut wishes: Vec<_> = owed.into_iter().map(|(_, wish)| wish).collect();
        let record = report::record(report, &period, &Actor::engine(), now);
        let sent = Sent { until: period.until, at: Some(now) };
        wishes.push(report::note(&report.name, Some(&doc), sent, Some(record)));
        match self.store.shelve(wishes).await?.pop() {
            Some(Shelved::Done { .. }) => {
                info!(report = %report.name, first = %period.first, last = %period.last, "a report was sent");
            }
            _ => debug!(report = %report.name, "somebody else sent the report"),
        }
        Ok(())
    }
}
