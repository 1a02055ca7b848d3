//! Counts of all time, per channel and in all.

use std::collections::BTreeMap;

use axum::response::Response;
use pombo_store::Counted;
use serde::{Serialize, Serializer};

use super::store::PauseView;
use crate::problem::Problem;
use crate::route::Call;
use crate::view;

/// How often each thing happened.
#[derive(Clone, Copy, Default)]
struct Counts([u64; Counted::ALL.len()]);

impl Counts {
    fn add(&mut self, what: Counted, count: u64) {
        if let Some(place) = Counted::ALL.iter().position(|known| *known == what) {
            self.0[place] = self.0[place].saturating_add(count);
        }
    }

    fn of(&self, what: Counted) -> u64 {
        Counted::ALL.iter().position(|known| *known == what).map_or(0, |place| self.0[place])
    }

    /// Accepted and not at an end: pending or being sent.
    fn waiting(&self) -> u64 {
        let ends = [Counted::Sent, Counted::Failed, Counted::Cancelled, Counted::Discarded];
        self.of(Counted::Accepted).saturating_sub(ends.into_iter().map(|end| self.of(end)).sum())
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = Counted::ALL.into_iter().map(|what| (what.as_str(), self.of(what)));
        serializer.collect_map(counts.chain([("waiting", self.waiting())]))
    }
}

/// What happened to the tenant's messages, by channel.
pub(crate) async fn stats(call: Call) -> Result<Response, Problem> {
    #[derive(Serialize)]
    struct Document {
        total: Counts,
        channels: BTreeMap<String, Counts>,
        /// Why nothing is sent, if nothing is.
        paused: Option<PauseView>,
    }
    let tallies = call.door.store().tallies().await?;
    let paused = call.door.store().paused().await?.map(PauseView::from);
    let mut document = Document { total: Counts::default(), channels: BTreeMap::new(), paused };
    for tally in tallies {
        if tally.tenant == call.caller.tenant {
            document.total.add(tally.what, tally.count);
            let channel = document.channels.entry(tally.channel.as_str().to_owned()).or_default();
            channel.add(tally.what, tally.count);
        }
    }
    view::ok(&document)
}
