//! Reports: what is gathered for one, how far each has been sent, and what people are sent of it.

use pombo_kernel::alert::Plan;
use pombo_kernel::kpi::{Family, Sums};
use pombo_kernel::message::Actor;
use pombo_kernel::name::{NoticeName, ReportName, Tenant};
use pombo_kernel::notice::Notice;
use pombo_kernel::report::{self, Facts, Figures, Period, Report, Waiting};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Time;
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use pombo_store::transition::act_of;
use pombo_store::{By, Counted, Measured, StatsWanted, Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::notice;

/// Causes of dead letters that are counted, and that a report lists, the largest first.
const CAUSES: usize = 500;
const CAUSES_LISTED: usize = 10;

/// What there is to report of a period.
pub async fn figures(
    store: &dyn Store,
    setup: &Setup,
    report: &Report,
    period: &Period,
) -> Result<Figures, StoreError> {
    let (since, for_week) = report::counted_from(period);
    let (tenant, by) = (Some(report.tenant.clone()), By::Piece(vec![since, period.since]));
    let measured = store.stats(StatsWanted { tenant, since, until: period.until, by }).await?;
    let mut facts = Facts::default();
    let mut week = (Sums::default(), Sums::default());
    for it in &measured {
        let Some(family) = setup.family(it.channel.as_ref()) else { continue };
        it.add_to(of(&mut week, family));
        if it.hour >= period.since {
            take(&mut facts, it, family);
        }
    }
    facts.week = for_week.then_some(week);
    let groups = store.groups(report.tenant.clone(), CAUSES).await?;
    facts.dead = groups.iter().map(|group| group.count).sum();
    let waiting = groups.into_iter().take(CAUSES_LISTED).map(|group| Waiting {
        channel: group.channel,
        category: group.category,
        text: group.text,
        count: group.count,
    });
    facts.waiting = waiting.collect();
    Ok(Figures::of(report, period, facts))
}

fn of((messages, claims): &mut (Sums, Sums), family: Family) -> &mut Sums {
    match family {
        Family::Messages => messages,
        Family::Claims => claims,
    }
}

fn take(facts: &mut Facts, it: &Measured, family: Family) {
    let count = u64::try_from(it.count).unwrap_or_default();
    match it.what {
        Counted::Accepted => facts.accepted += count,
        Counted::Cancelled => facts.cancelled += count,
        Counted::Retries => facts.retries += count,
        Counted::AttemptFailed => *facts.errors.entry(it.detail.clone()).or_default() += count,
        _ => {}
    }
    match family {
        Family::Messages => it.add_to(&mut facts.messages),
        Family::Claims => it.add_to(&mut facts.claims),
    }
    if let Some(channel) = &it.channel {
        it.add_to(facts.channels.entry(channel.clone()).or_default());
    }
}

/// What people are sent: a wish for each of them. The same key is the same letter, however often it is wished for.
pub fn owe(
    report: &Report,
    period: &Period,
    figures: &Figures,
    plan: &Plan,
    key: &str,
    now: Time,
) -> Vec<(NoticeName, Shelve)> {
    let link = plan.page("");
    let about = format!("report.{}", report.name);
    let told = report.notify.iter().filter_map(|name| plan.targets.get(name)).map(|target| {
        let language = report.language.unwrap_or(target.language);
        let letter = report::letter(figures, period, link.as_deref(), language, now);
        let notice = Notice::new(&about, target.name.clone(), report.tenant.clone(), letter, now);
        let key = format!("report·{}·{key}·{}", report.name, target.name);
        (target.name.clone(), notice::owe(&key, &notice))
    });
    told.collect()
}

/// What the audit says of a report that was sent.
pub fn record(report: &Report, period: &Period, by: &Actor, now: Time) -> Record {
    let detail = json!({
        "report": report.name,
        "since": period.since,
        "until": period.until,
        "to": report.notify,
    });
    act_of(Event::ReportSent, &report.tenant, by, &detail, now)
}

/// How far a report has been sent. A document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The end of the last period that was sent, or passed over when the report was new.
    pub until: Time,
    /// When it was sent; nothing if it was passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

fn id(name: &ReportName) -> String {
    format!("report.{name}")
}

/// How far a report has been sent, with its document; nothing if nobody has looked yet.
pub async fn sent(store: &dyn Store, name: &ReportName) -> Result<Option<(Doc, Sent)>, StoreError> {
    let doc = store.doc(Shelf::Cursor, Tenant::default(), id(name)).await?;
    Ok(doc.and_then(|doc| serde_json::from_str(&doc.leaf.body).ok().map(|sent| (doc, sent))))
}

/// A wish to note how far it has been sent, from what was read.
pub fn note(name: &ReportName, before: Option<&Doc>, sent: Sent, record: Option<Record>) -> Shelve {
    Shelve {
        shelf: Shelf::Cursor,
        tenant: Tenant::default(),
        id: id(name),
        expect: before.map_or(Expect::Nothing, |doc| Expect::Version(doc.version)),
        leaf: Some(Leaf {
            order: 0,
            topic: None,
            due: None,
            body: serde_json::to_string(&sent).unwrap_or_default(),
        }),
        record,
    }
}
