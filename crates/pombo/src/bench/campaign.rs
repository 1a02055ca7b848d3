//! A campaign in full swing, to see whether others wait for it.

use std::sync::Arc;

use pombo_engine::decide::{self, End};
use pombo_kernel::adapt::Memory;
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::recipient::{Listed, Person};
use pombo_kernel::dice::Dice;
use pombo_kernel::message::{Actor, Draft};
use pombo_kernel::name::{CampaignName, LaneName, Tenant};
use pombo_kernel::reply::{Refusal, Reply};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span};
use pombo_store::roster::{self, Enlist, Feed, Serving};
use pombo_store::shelf::{Doc, Expect, Shelf, Shelve, Shelved};
use pombo_store::{Ask, NodeId, Store};

use super::Progress;
use super::stand::{CHANNEL, draft, failed};
use crate::cli::Trouble;

const ID: &str = "cmp_bench";
/// The lane that it has for itself, as campaigns usually do.
pub(super) const LANE: &str = "bulk";
const PIECE: u64 = 1_000;
/// Made before their turn, as the conductor does.
const AHEAD: u64 = 16;
/// Beyond those of the messages that are timed.
const NUMBERS: u64 = 20_000_000;
/// Over how long the retries are due.
const SPREAD: Span = Span::from_mins(10);
/// Whoever tries them first; not one of the engines.
const NODE: NodeId = NodeId(1);

/// Makes a campaign with so many recipients run, so many of its messages between two attempts.
pub(super) async fn prepare(
    store: &dyn Store,
    clock: &dyn Clock,
    setup: &Setup,
    model: &Draft,
    recipients: u64,
    retrying: u64,
    progress: &Progress,
) -> Result<(), Trouble> {
    let (tenant, name): (Tenant, CampaignName) = (Tenant::default(), ID.parse().expect("a fixed name"));
    let now = clock.now();
    let text = format!(
        r#"{{"name": "bench", "channel": "{CHANNEL}", "lane": "{LANE}", "template": "bench", "template_version": 1,
        "throttle_min_seconds": 3, "throttle_max_seconds": 4, "created_at": "{now}", "created_by": "bench",
        "state": "draft"}}"#
    );
    let blank: Campaign = serde_json::from_str(&text)
        .map_err(|error| Trouble::new("the benchmark's campaign is refused", "INTERNAL").why(error))?;
    put(store, &tenant, Expect::Nothing, &blank).await?;
    progress.begin("W6 listing recipients", recipients);
    for first in (1..=recipients).step_by(PIECE.try_into().unwrap_or(1)) {
        let lines: Vec<Listed> = (first..(first + PIECE).min(recipients + 1)).map(listed).collect();
        progress.add(lines.len() as u64);
        let wish = Enlist { tenant: tenant.clone(), campaign: name.clone(), lines, by: Actor::engine() };
        refused(store.enlist(wish).await.map_err(failed)?.map(drop))?;
    }
    change(store, &tenant, |campaign| campaign.start(now).unwrap_or_default()).await?;
    let lane: LaneName = LANE.parse().expect("a fixed name");
    let serving = |number: u64| {
        let mut message = draft(model, NUMBERS + number);
        (message.queue.lane, message.queue.campaign) = (lane.clone(), Some(name.clone()));
        (number, Serving::Message(Box::new(message)))
    };
    let servings = (1..=retrying + AHEAD).map(serving);
    let feed = Feed { tenant: tenant.clone(), campaign: name.clone(), servings: servings.collect() };
    refused(store.feed(feed).await.map_err(failed)?)?;
    progress.begin("W6 first attempts", retrying);
    store.heartbeat(NODE, now + Span::from_hours(1)).await.map_err(failed)?;
    let channel = setup.channels.get(CHANNEL).map(|channel| &**channel);
    let mut dice = Dice::seeded(6);
    for n in 0..retrying {
        let ask = Ask { node: NODE, lane: lane.clone(), max: 1, rates: Arc::default() };
        let claimed = store.claim(ask).await.map_err(failed)?;
        let text = "planned failure".to_owned();
        let reply = Reply::Refused(Refusal { status: Some(503), text, ..Refusal::default() });
        for claimed in &claimed {
            let now = clock.now();
            let end = End::Reply(reply.clone());
            let mut settlement =
                decide::settlement(claimed, channel, &Memory::default(), end, now, now, &mut dice);
            if let pombo_kernel::lifecycle::Next::Retry { due, .. } = &mut settlement.next {
                *due = now + Span::from_millis(SPREAD.millis() * (n + 1) / retrying.max(1));
            }
            store.settle(vec![settlement]).await.map_err(failed)?;
        }
        // Nobody waits three seconds a thousand times.
        change(store, &tenant, |campaign| campaign.free_at = now).await?;
        progress.add(1);
    }
    store.stop_claims(NODE).await.map_err(failed)
}

fn listed(number: u64) -> Listed {
    let address = format!("+55119{number:08}");
    Listed { line: number + 1, of: Ok(Person { to: address.clone(), key: address, payload: None }) }
}

async fn put(store: &dyn Store, tenant: &Tenant, expect: Expect, campaign: &Campaign) -> Result<(), Trouble> {
    let (shelf, tenant, id) = (Shelf::Campaign, tenant.clone(), ID.to_owned());
    let leaf = Some(roster::leaf(campaign));
    let wish = Shelve { shelf, tenant, id, expect, leaf, record: None };
    match store.shelve(vec![wish]).await.map_err(failed)?.pop() {
        Some(Shelved::Done { .. }) => Ok(()),
        _ => Err(Trouble::new("the benchmark's campaign changed meanwhile", "INTERNAL")),
    }
}

async fn change(
    store: &dyn Store,
    tenant: &Tenant,
    change: impl FnOnce(&mut Campaign),
) -> Result<(), Trouble> {
    let doc: Option<Doc> = store.doc(Shelf::Campaign, tenant.clone(), ID.into()).await.map_err(failed)?;
    let found = doc.as_ref().and_then(|doc| Some((doc.version, roster::read(doc)?)));
    let Some((version, mut campaign)) = found else {
        return Err(Trouble::new("the benchmark's campaign is gone", "INTERNAL"));
    };
    change(&mut campaign);
    put(store, tenant, Expect::Version(version), &campaign).await
}

fn refused<E: std::fmt::Debug>(done: Result<(), E>) -> Result<(), Trouble> {
    done.map_err(|why| {
        Trouble::new("the benchmark's campaign is refused", "INTERNAL").why(format!("{why:?}"))
    })
}
