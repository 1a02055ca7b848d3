//! Documents that are over: operations, alerts and their notices, decisions of long ago, and campaigns with their lists.

use std::collections::BTreeSet;

use pombo_kernel::campaign::State;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::retention::Plan;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::{StoreError, roster, transition};
use pombo_web::campaign;
use serde_json::json;

use super::{Did, Stage, Work};

/// Documents that are looked at together.
const AT_ONCE: usize = 100;
/// Tenants that keys are looked through for.
const KEYS: usize = 10_000;
/// Comes after every id.
const LAST_ID: &str = "\u{10ffff}\u{10ffff}";

/// What is looked at, in this order.
const SHELVES: [Shelf; 4] = [Shelf::Operation, Shelf::Alert, Shelf::Decision, Shelf::Campaign];

/// How far a walk over the shelves has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    nth: usize,
    /// Whose come next; none before anybody was looked for.
    tenants: Option<Vec<Tenant>>,
    /// The document after which to go on.
    after: Option<(i64, String)>,
}

impl Work {
    /// One page of one tenant's documents on one shelf.
    pub(super) async fn shelf(&mut self, place: Place, plan: &Plan, now: Time) -> Result<Did, StoreError> {
        let Some(shelf) = SHELVES.get(place.nth).copied() else { return Ok(Did::End) };
        let next = Place { nth: place.nth + 1, ..Place::default() };
        let Some(keep) = kept(shelf, plan) else {
            self.stage = Stage::Shelves(next);
            return Ok(Did::Step(0));
        };
        let mut tenants = match place.tenants {
            Some(tenants) => tenants,
            None => self.tenants().await?,
        };
        let Some(tenant) = tenants.last().cloned() else {
            self.stage = Stage::Shelves(next);
            return Ok(Did::Step(0));
        };
        // What is younger than that has not ended long enough ago.
        let youngest = order(shelf, now - keep);
        let after = Some(place.after.unwrap_or((youngest, LAST_ID.to_owned())));
        let wanted =
            Wanted { shelf, tenant: Some(tenant.clone()), pick: Pick::All { after }, limit: AT_ONCE };
        let docs = self.store.docs(wanted).await?;
        let after = docs.last().filter(|_| docs.len() == AT_ONCE).map(|it| (it.leaf.order, it.id.clone()));
        let over: Vec<&Doc> = docs.iter().filter(|doc| is_over(shelf, doc, keep, now)).collect();
        let removed = match (shelf, over.first()) {
            (Shelf::Campaign, Some(doc)) => return self.campaign(doc, now).await,
            _ => self.remove(shelf, &tenant, &over, now).await?,
        };
        if after.is_none() {
            tenants.pop();
        }
        self.stage = Stage::Shelves(Place { nth: place.nth, tenants: Some(tenants), after });
        Ok(self.did(name(shelf).to_owned(), removed))
    }

    /// Whoever may have documents: those with channels or keys.
    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        let pick = Pick::All { after: None };
        let keys = self.store.docs(Wanted { shelf: Shelf::Key, tenant: None, pick, limit: KEYS }).await?;
        let setup = self.setup.borrow().clone();
        let channels = setup.channels.values().map(|channel| channel.tenant.clone());
        let all: BTreeSet<Tenant> =
            channels.chain(keys.into_iter().map(|key| key.tenant)).chain([Tenant::default()]).collect();
        Ok(all.into_iter().collect())
    }

    /// Removes documents, with a record of how many.
    async fn remove(
        &self,
        shelf: Shelf,
        tenant: &Tenant,
        over: &[&Doc],
        now: Time,
    ) -> Result<u64, StoreError> {
        let said = json!({ name(shelf): over.len() });
        let mut record = Some(transition::act_of(Event::Pruned, tenant, &Actor::engine(), &said, now));
        let wishes: Vec<Shelve> = over
            .iter()
            .map(|doc| Shelve {
                shelf,
                tenant: tenant.clone(),
                id: doc.id.clone(),
                expect: Expect::Version(doc.version),
                leaf: None,
                record: record.take(),
            })
            .collect();
        if wishes.is_empty() {
            return Ok(0);
        }
        let done = self.store.shelve(wishes).await?;
        Ok(done.iter().filter(|it| matches!(it, Shelved::Done { .. })).count() as u64)
    }

    /// Removes a campaign. That its list must follow is written down before.
    async fn campaign(&mut self, doc: &Doc, now: Time) -> Result<Did, StoreError> {
        let (Some(campaign), Ok(list)) = (roster::read(doc), doc.id.parse()) else { return Ok(Did::Step(0)) };
        let version = self.lease.as_ref().map_or(0, |(version, _)| *version);
        if !self.hold(version, Some((doc.tenant.clone(), list)), now).await? {
            return Ok(Did::Step(0));
        }
        let wish = campaign::remove(doc, &campaign, &Actor::engine(), now);
        let done = self.store.shelve(vec![wish]).await?;
        let removed = done.iter().any(|it| matches!(it, Shelved::Done { .. }));
        Ok(self.did("campaigns".to_owned(), removed.into()))
    }
}

/// For how long documents of a shelf are kept, if not for good.
fn kept(shelf: Shelf, plan: &Plan) -> Option<Span> {
    match shelf {
        Shelf::Operation | Shelf::Alert => plan.operations,
        Shelf::Decision => plan.decisions,
        Shelf::Campaign => plan.campaigns,
        _ => None,
    }
}

fn name(shelf: Shelf) -> &'static str {
    match shelf {
        Shelf::Operation => "operations",
        Shelf::Alert => "alerts",
        Shelf::Decision => "decisions",
        _ => "documents",
    }
}

/// The order of a document that was made then.
fn order(shelf: Shelf, at: Time) -> i64 {
    match shelf {
        // Decisions of one moment have an order among themselves.
        Shelf::Decision => at.millis().saturating_mul(1_000).saturating_add(999),
        _ => at.millis(),
    }
}

/// Whether it ended long enough ago. What is due has not ended.
fn is_over(shelf: Shelf, doc: &Doc, keep: Span, now: Time) -> bool {
    let ended = match shelf {
        Shelf::Campaign => roster::read(doc).and_then(|campaign| match campaign.state {
            State::Completed { finished_at } | State::Cancelled { finished_at, .. } => Some(finished_at),
            _ => None,
        }),
        _ => Some(doc.updated_at).filter(|_| doc.leaf.due.is_none()),
    };
    ended.is_some_and(|ended| now >= ended && now.since(ended) >= keep)
}
