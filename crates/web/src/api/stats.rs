//! Counts of all time, per channel and in all.

use std::collections::BTreeMap;

use axum::response::Response;
use pombo_store::Counted;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

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

    /// Begun, or begun again, and not at an end: pending or being sent. What is discarded had failed before.
    fn waiting(&self) -> u64 {
        let sum = |counted: &[Counted]| counted.iter().map(|what| self.of(*what)).sum::<u64>();
        let ended = sum(&[Counted::Sent, Counted::Failed, Counted::Cancelled]);
        sum(&[Counted::Accepted, Counted::Reprocessed]).saturating_sub(ended)
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = Counted::ALL.into_iter().map(|what| (what.as_str(), self.of(what)));
        serializer.collect_map(counts.chain([("waiting", self.waiting())]))
    }
}

impl JsonSchema for Counts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Counts".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = || Counted::ALL.into_iter().map(Counted::as_str).chain(["waiting"]);
        let count = json!({"type": "integer", "minimum": 0});
        let properties: Map<String, Value> = names().map(|name| (name.to_owned(), count.clone())).collect();
        let required: Vec<&str> = names().collect();
        json_schema!({"type": "object", "properties": properties, "required": required})
    }
}

/// Counts of all time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stats")]
pub(crate) struct StatsView {
    total: Counts,
    channels: BTreeMap<String, Counts>,
    /// Why nothing is sent, if nothing is.
    paused: Option<PauseView>,
}

/// What happened to the tenant's messages, by channel.
pub(crate) async fn stats(call: Call) -> Result<Response, Problem> {
    let tallies = call.door.store().tallies().await?;
    let paused = call.door.store().paused().await?.map(PauseView::from);
    let mut document = StatsView { total: Counts::default(), channels: BTreeMap::new(), paused };
    for tally in tallies {
        if tally.tenant == call.caller.tenant && call.caller.sees(&tally.channel) {
            document.total.add(tally.what, tally.count);
            let channel = document.channels.entry(tally.channel.as_str().to_owned()).or_default();
            channel.add(tally.what, tally.count);
        }
    }
    view::ok(&document)
}
