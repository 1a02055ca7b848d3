//! Numbers for Prometheus: what this node measured, and what the store says of everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use pombo_kernel::block::{Block, BlockKind};
use pombo_kernel::campaign;
use pombo_kernel::kpi::share;
use pombo_kernel::name::{ChannelName, LaneName};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Span, Time};
use pombo_store::meter::{Family, Sheet, show};
use pombo_store::shelf::{Doc, Pick, Shelf, Wanted};
use pombo_store::{Backlog, By, Counted, Place, StatsWanted, Store, StoreError, Tally, roster};
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TextEncoder};

use crate::Door;
use crate::problem::{Code, Problem};

/// However often somebody scrapes, the store is asked this often at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same for what costs more and changes less.
const LOOK_SELDOM: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(2);
/// The newest campaigns, which are looked at to count those that run.
const CAMPAIGNS: usize = 200;
/// What the rate of success is taken over.
const DAY: Span = Span::from_hours(24);

/// When the store was last asked, by the clock that knows no dates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    often: Option<Duration>,
    seldom: Option<Duration>,
}

/// What the store says of everything, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Nothing if the store could not be asked.
    now: Option<Standing>,
    success: Option<f64>,
    campaigns: Option<usize>,
}

#[derive(Debug)]
struct Standing {
    depths: BTreeMap<(LaneName, ChannelName), Depth>,
    channels: BTreeMap<ChannelName, Blocked>,
    letters: BTreeMap<ChannelName, u64>,
    paused: bool,
}

/// What waits in one lane for one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Depth {
    waiting: u64,
    past_due: u64,
    oldest: Span,
}

/// What stands in front of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Blocked {
    held: bool,
    broken: bool,
    /// Destinations apart from each other, by [`KINDS`].
    destinations: [u64; KINDS.len()],
}

const KINDS: [(BlockKind, &str); 5] = [
    (BlockKind::Hold, "hold"),
    (BlockKind::Breaker, "breaker"),
    (BlockKind::Ramp, "ramp"),
    (BlockKind::Pause, "pause"),
    (BlockKind::Operator, "operator"),
];

/// All numbers, in the text format that Prometheus reads.
pub(crate) async fn metrics(door: Door) -> Result<Response, Problem> {
    look(&door).await;
    let (inner, meter) = (&door.0, door.meter());
    meter.holding(
        crate::ROOM_BYTES - inner.room.available_permits(),
        crate::STREAMS - inner.streams.available_permits(),
        inner.followers.taken(),
    );
    let families = meter.registry().gather();
    let text = TextEncoder::new().encode_to_string(&families).map_err(|error| {
        tracing::error!(%error, "the metrics cannot be written");
        Problem::new(Code::Internal, "the metrics cannot be written", "look at the server's log")
    })?;
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Asks the store, unless somebody has just done so. A store that does not answer has nothing to show, and whatever the
/// node knows by itself is told all the same.
async fn look(door: &Door) {
    let meter = door.meter();
    let mut looked = meter.looked().lock().await;
    let elapsed = door.elapsed();
    let stale = |last: Option<Duration>, every| last.is_none_or(|last| elapsed.saturating_sub(last) >= every);
    if stale(looked.often, LOOK_EVERY) {
        let asked = tokio::time::timeout(PATIENCE, standing(door.store(), &door.setup(), door.now())).await;
        meter.seen().now = asked.ok().and_then(Result::ok);
        looked.often = Some(elapsed);
    }
    if stale(looked.seldom, LOOK_SELDOM) {
        let asked = async { tokio::join!(success(door.store(), door.now()), running(door.store())) };
        let (success, campaigns) = match tokio::time::timeout(PATIENCE, asked).await {
            Ok((success, campaigns)) => (success.ok().flatten(), campaigns.ok()),
            Err(_) => (None, None),
        };
        let mut seen = meter.seen();
        (seen.success, seen.campaigns) = (success, campaigns);
        looked.seldom = Some(elapsed);
    }
}

async fn standing(store: &dyn Store, setup: &Setup, now: Time) -> Result<Standing, StoreError> {
    let (backlog, blocks) = tokio::try_join!(store.backlog(now), store.blocks())?;
    let (tallies, paused) = tokio::try_join!(store.tallies(), store.paused())?;
    Ok(Standing {
        depths: depths(backlog, now),
        channels: blocked(&blocks, setup),
        letters: dead_letters(tallies),
        paused: paused.is_some(),
    })
}

fn depths(backlog: Vec<Backlog>, now: Time) -> BTreeMap<(LaneName, ChannelName), Depth> {
    let mut depths: BTreeMap<_, Depth> = BTreeMap::new();
    for Backlog { lane, channel, waiting, past_due, oldest_due, .. } in backlog {
        let depth = depths.entry((lane, channel)).or_default();
        depth.waiting += waiting;
        depth.past_due += past_due;
        depth.oldest = depth.oldest.max(oldest_due.map_or(Span::ZERO, |due| now.since(due)));
    }
    depths
}

/// Every channel, with what stands in front of it. One that has a single destination is that destination.
fn blocked(blocks: &[(Place, Block)], setup: &Setup) -> BTreeMap<ChannelName, Blocked> {
    let mut channels: BTreeMap<ChannelName, Blocked> =
        setup.channels.keys().map(|name| (name.clone(), Blocked::default())).collect();
    for (Place { channel, destination }, block) in blocks {
        let Some(found) = channels.get_mut(channel) else { continue };
        let single = setup.channels.get(channel).is_some_and(|channel| channel.destination.is_single());
        if destination.is_none() || single {
            found.held |= matches!(block.kind, BlockKind::Hold | BlockKind::Operator);
            found.broken |= block.kind == BlockKind::Breaker;
        }
        if destination.is_some()
            && let Some(place) = KINDS.iter().position(|(kind, _)| *kind == block.kind)
        {
            found.destinations[place] += 1;
        }
    }
    channels
}

/// How many letters are dead by now: those that died, less those that somebody has seen to.
fn dead_letters(tallies: Vec<Tally>) -> BTreeMap<ChannelName, u64> {
    let mut letters: BTreeMap<ChannelName, (u64, u64)> = BTreeMap::new();
    for Tally { channel, what, count, .. } in tallies {
        let (died, left) = letters.entry(channel).or_default();
        match what {
            Counted::Failed => *died += count,
            Counted::Reprocessed | Counted::Discarded => *left += count,
            _ => {}
        }
    }
    letters.into_iter().map(|(channel, (died, left))| (channel, died.saturating_sub(left))).collect()
}

/// Of the messages that had a retry in the last day, how many were sent after it; nothing if none had one.
async fn success(store: &dyn Store, now: Time) -> Result<Option<f64>, StoreError> {
    let wanted = StatsWanted { tenant: None, since: now - DAY, until: now, by: By::Piece(Vec::new()) };
    let (mut retried, mut sent) = (0, 0);
    for measured in store.stats(wanted).await? {
        let count = measured.count.unsigned_abs();
        match (measured.what, measured.detail.as_str()) {
            (Counted::AttemptNumbered, "2") => retried += count,
            (Counted::SentOnAttempt, number) if number != "1" => sent += count,
            _ => {}
        }
    }
    Ok(share(sent, retried))
}

async fn running(store: &dyn Store) -> Result<usize, StoreError> {
    let pick = Pick::All { after: None };
    let docs = store.docs(Wanted { shelf: Shelf::Campaign, tenant: None, pick, limit: CAMPAIGNS }).await?;
    let runs = |doc: &&Doc| {
        roster::read(doc).is_some_and(|campaign| matches!(campaign.state, campaign::State::Running { .. }))
    };
    Ok(docs.iter().filter(runs).count())
}

impl Seen {
    /// Lays out what was last seen whenever somebody looks.
    pub(crate) fn show(seen: &Arc<Mutex<Seen>>, registry: &Registry) {
        let families = [
            Family::gauge(
                "pombo_messages_waiting",
                "Messages that have not ended, whenever they are due.",
                &["lane", "channel"],
            ),
            Family::gauge(
                "pombo_messages_past_due",
                "Messages that could have gone by now, as far as 1000 for each tenant; campaigns are left out.",
                &["lane", "channel"],
            ),
            Family::gauge(
                "pombo_oldest_past_due_seconds",
                "How long the message that has waited longest is past due.",
                &["lane", "channel"],
            ),
            Family::gauge(
                "pombo_channel_held",
                "Whether a fault of ours or an operator holds the channel.",
                &["channel"],
            ),
            Family::gauge(
                "pombo_channel_breaker_open",
                "Whether the channel's destination counts as down.",
                &["channel"],
            ),
            Family::gauge(
                "pombo_destinations_blocked",
                "Destinations of the channel that messages wait for, by what stands in front of them.",
                &["channel", "kind"],
            ),
            Family::gauge("pombo_dead_letters", "Dead letters that wait for an operator.", &["channel"]),
            Family::gauge("pombo_sending_paused", "Whether nothing is sent, by anybody's word.", &[]),
            Family::gauge("pombo_store_readable", "Whether the store answered the last look.", &[]),
            Family::gauge("pombo_campaigns_running", "Campaigns that run, among the 200 newest.", &[]),
            Family::gauge(
                "retry_success_rate",
                "Of the messages that had a retry in the last 24 hours, the part that was sent after it.",
                &[],
            ),
        ];
        let seen = Arc::clone(seen);
        let lay_out = move |families: &[Family; 11]| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).lay_out(families)
        };
        show(registry, Sheet::new(families, lay_out));
    }

    fn lay_out(&self, families: &[Family; 11]) -> Vec<MetricFamily> {
        let [
            waiting,
            past_due,
            oldest,
            held,
            broken,
            destinations,
            letters,
            paused,
            readable,
            campaigns,
            success,
        ] = families;
        let standing = || self.now.iter();
        let depth = |family: &Family, number: fn(&Depth) -> f64| {
            family.with(
                standing()
                    .flat_map(|now| &now.depths)
                    .map(|((lane, channel), depth)| ([lane.as_str(), channel.as_str()], number(depth))),
            )
        };
        let channels = || standing().flat_map(|now| &now.channels);
        let channel = |family: &Family, is: fn(&Blocked) -> bool| {
            family.with(channels().map(|(name, blocked)| ([name.as_str()], f64::from(u8::from(is(blocked))))))
        };
        vec![
            depth(waiting, |depth| number(depth.waiting)),
            depth(past_due, |depth| number(depth.past_due)),
            depth(oldest, |depth| depth.oldest.to_std().as_secs_f64()),
            channel(held, |blocked| blocked.held),
            channel(broken, |blocked| blocked.broken),
            destinations.with(channels().flat_map(|(name, blocked)| {
                let kinds = KINDS.into_iter().map(|(_, kind)| kind).zip(blocked.destinations);
                kinds.map(move |(kind, count)| ([name.as_str(), kind], number(count)))
            })),
            letters.with(
                standing()
                    .flat_map(|now| &now.letters)
                    .map(|(channel, count)| ([channel.as_str()], number(*count))),
            ),
            paused.with(standing().map(|now| ([], f64::from(u8::from(now.paused))))),
            readable.with([([], f64::from(u8::from(self.now.is_some())))]),
            campaigns.with(self.campaigns.iter().map(|count| ([], number(*count as u64)))),
            success.with([([], self.success.unwrap_or(f64::NAN))]),
        ]
    }
}

#[allow(clippy::cast_precision_loss, reason = "a scrape tells numbers as floats")]
fn number(count: u64) -> f64 {
    count as f64
}
