//! What retries have taught: how likely the next is to pass, and how long outages last.

use std::collections::BTreeMap;

use axum::response::Response;
use pombo_kernel::learn::{Bucket, Counts, Curve, Estimate};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::time::{Span, Time};
use pombo_store::StoreError;
use pombo_store::learning::{Learnt, Lesson, read_since};
use schemars::JsonSchema;
use serde::Serialize;

use super::page::Query;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::route::Call;
use crate::{Door, view};

/// What was learnt.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Learning")]
pub(crate) struct LearningView {
    /// What happened before is forgotten.
    since: Time,
    /// So many retries are needed before a chance is said.
    enough: u64,
    curves: Vec<CurveView>,
    outages: Vec<OutagesView>,
}

/// Retries after failures of one category.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Learnt")]
pub(crate) struct CurveView {
    channel: String,
    /// Of the failure before the retry.
    category: String,
    all: Estimate,
    by_attempt: Vec<AttemptChance>,
    /// By the time from the end of the failure to the beginning of the retry.
    by_wait: Vec<TimeChance>,
    /// By the time from the first failure of its round. Those that passed are the times to recovery.
    by_elapsed: Vec<TimeChance>,
    /// The destinations that are told apart, the most tried first. One without a name stands for the rest.
    destinations: Vec<DestinationChance>,
    /// Everything, cell by cell, as `pombo simulate` reads it.
    cells: Curve,
}

/// By the number of the attempt in its round; 8 stands for all from there on.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AttemptChance {
    attempt: u8,
    estimate: Estimate,
}

/// By a length of time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TimeChance {
    from: Span,
    to: Span,
    estimate: Estimate,
}

/// At one destination.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DestinationChance {
    destination: Option<String>,
    estimate: Estimate,
}

/// Outages of a channel, or of one destination of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Outages")]
pub(crate) struct OutagesView {
    channel: String,
    destination: Option<String>,
    count: u64,
    /// How many lasted from so long to so long, the shortest first.
    lasted: Vec<OutageView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OutageLengths")]
pub(crate) struct OutageView {
    from: Span,
    to: Span,
    count: u64,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    channel: Option<ChannelName>,
    category: Option<String>,
    destination: Option<String>,
}

/// What the retries of the tenant's messages have taught, by channel and category.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let mut query = Query::read(&call.head.uri, &["channel", "category", "destination"])?;
    let channel = query.take("channel", |text| {
        text.parse::<ChannelName>()
            .map_err(|error| (error.to_string(), "GET /v1/channels lists them".to_owned()))
    });
    let category = query.take("category", |text| Ok(text.to_owned()));
    let destination = query.take("destination", |text| Ok(text.to_owned()));
    query.end()?;
    view::ok(&learning(&call.door, &call.caller, &Wanted { channel, category, destination }).await?)
}

async fn learning(door: &Door, caller: &Caller, wanted: &Wanted) -> Result<LearningView, Problem> {
    let now = door.now();
    let sees = |channel: &ChannelName| {
        caller.sees(channel) && wanted.channel.as_ref().is_none_or(|only| only == channel)
    };
    let is_there =
        |destination: &Option<String>| wanted.destination.is_none() || wanted.destination == *destination;
    let mut curves = BTreeMap::<(ChannelName, String), BTreeMap<Option<String>, Curve>>::new();
    let mut outages = BTreeMap::<(ChannelName, Option<String>), BTreeMap<Bucket, u64>>::new();
    let setup = door.setup();
    for Learnt { tenant, channel, lesson, tried, passed } in learnt(door, &caller.tenant, now).await? {
        if !sees(&channel) {
            continue;
        }
        match lesson {
            Lesson::Trial { category, destination, cell }
                if tenant == caller.tenant
                    && is_there(&destination)
                    && wanted.category.as_ref().is_none_or(|only| *only == category) =>
            {
                let places = curves.entry((channel, category)).or_default();
                places.entry(destination).or_default().add(cell, Counts { tried, passed });
            }
            Lesson::Outage { destination, lasted }
                if is_there(&destination)
                    && setup.channels.get(channel.as_str()).is_some_and(|it| it.tenant == caller.tenant) =>
            {
                *outages.entry((channel, destination)).or_default().entry(lasted).or_default() += tried;
            }
            _ => {}
        }
    }
    Ok(LearningView {
        since: read_since(now),
        enough: Counts::ENOUGH,
        curves: curves.into_iter().map(CurveView::of).collect(),
        outages: outages.into_iter().map(OutagesView::of).collect(),
    })
}

/// What a tenant's retries have taught, with the outages of all.
async fn learnt(door: &Door, tenant: &Tenant, now: Time) -> Result<Vec<Learnt>, StoreError> {
    let mut learnt = door.store().learnt(Some(tenant.clone()), now).await?;
    if *tenant != Tenant::default() {
        let all = door.store().learnt(Some(Tenant::default()), now).await?;
        learnt.extend(all.into_iter().filter(|it| matches!(it.lesson, Lesson::Outage { .. })));
    }
    Ok(learnt)
}

impl CurveView {
    fn of(
        ((channel, category), places): ((ChannelName, String), BTreeMap<Option<String>, Curve>),
    ) -> CurveView {
        let mut cells = Curve::default();
        places.values().for_each(|curve| cells.merge(curve));
        let mut destinations: Vec<_> = places
            .into_iter()
            .map(|(destination, curve)| DestinationChance { destination, estimate: curve.total().estimate() })
            .collect();
        destinations.sort_by_key(|it| std::cmp::Reverse(it.estimate.counts().tried));
        let times = |by: BTreeMap<Bucket, Counts>| by.into_iter().map(TimeChance::of).collect();
        CurveView {
            channel: channel.as_str().to_owned(),
            category,
            all: cells.total().estimate(),
            by_attempt: cells
                .by_attempt()
                .into_iter()
                .map(|(attempt, counts)| AttemptChance { attempt, estimate: counts.estimate() })
                .collect(),
            by_wait: times(cells.by_wait()),
            by_elapsed: times(cells.by_elapsed()),
            destinations,
            cells,
        }
    }
}

impl TimeChance {
    fn of((bucket, counts): (Bucket, Counts)) -> TimeChance {
        let (from, to) = bucket.bounds();
        TimeChance { from, to, estimate: counts.estimate() }
    }
}

impl OutagesView {
    fn of(
        ((channel, destination), lengths): ((ChannelName, Option<String>), BTreeMap<Bucket, u64>),
    ) -> OutagesView {
        let lasted = lengths.into_iter().map(|(bucket, count)| {
            let (from, to) = bucket.bounds();
            OutageView { from, to, count }
        });
        let lasted: Vec<OutageView> = lasted.collect();
        let count = lasted.iter().map(|it| it.count).sum();
        OutagesView { channel: channel.as_str().to_owned(), destination, count, lasted }
    }
}
