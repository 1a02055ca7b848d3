//! What a campaign would do, before it does it.

use std::collections::{BTreeSet, HashSet};

use futures_util::future::try_join_all;
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::campaign::waiting::Waiting;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::listing::Terms;
use pombo_kernel::mask;
use pombo_kernel::message::Json;
use pombo_kernel::name::Tenant;
use pombo_kernel::suppression::Family;
use pombo_kernel::template::Compiled;
use pombo_kernel::time::Time;
use pombo_store::Store;
use pombo_store::roster::{Recipient, Roster};
use pombo_store::shelf::{Doc, Pick, Shelf, Wanted};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::api::recipients::terms;
use crate::auth::Caller;
use crate::campaign::LimitsView;
use crate::course::{self, Course};
use crate::problem::Problem;
use crate::veil::{Seen, Sight, Veil};
use crate::{Door, suppression};

/// Recipients that are looked at, and how many of them together.
const LOOKED_AT: u64 = 10_000;
const AT_ONCE: usize = 500;
/// A suppression list with fewer entries than this is read once, instead of being asked for each recipient.
const SHORT_LIST: usize = 1_000;
/// Entries of a longer one that are asked for at the same time.
const LOOK_UPS: usize = 32;
const SAMPLES: usize = 3;
/// Where nobody is left to be reached, samples are of the first on the list who could be.
const SAMPLES_AMONG: usize = 50;

/// What a campaign would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CampaignPreview")]
pub(crate) struct PreviewView {
    /// Everybody on the list.
    recipients: u64,
    /// Lines by which nobody can be written to.
    invalid: u64,
    /// Those of `suppressed_checked` who are not to be written to now, and those who were left out before.
    suppressed: u64,
    /// How many of those who are still to be reached were looked up on the suppression list.
    suppressed_checked: u64,
    /// Lines that repeat somebody.
    duplicates: u64,
    /// What the first three who are still to be reached would get; if nobody is, what the first three on the list got.
    samples: Vec<SampleView>,
    limits: LimitsView,
    /// When the last recipient would have been reached, as a campaign's `eta`; of one that is paused, as if it went on now.
    eta: Option<Time>,
    first_send_at: Option<Time>,
    /// What the first send would wait for, if it began now; or that it would never begin.
    waiting: Option<Waiting>,
    variables: VariablesView,
}

/// What one recipient would get.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CampaignSample")]
struct SampleView {
    to: String,
    /// The content; null if it cannot be made.
    content: Option<Value>,
    /// Why not.
    error: Option<String>,
}

/// What the template names, and what it is given.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CampaignVariables")]
struct VariablesView {
    /// Everything that the template names, also where it could do without.
    needed: BTreeSet<String>,
    /// What the payload or some recipient has.
    given: BTreeSet<String>,
    /// What the template names and somebody lacks, among those who were looked at.
    missing: BTreeSet<String>,
}

/// Looks at the campaign as if it began then, or now.
pub(super) async fn of(
    door: &Door,
    doc: &Doc,
    campaign: &Campaign,
    at: Option<Time>,
    (caller, sight): (&Caller, Sight),
) -> Result<PreviewView, Problem> {
    let (store, setup, now) = (door.store(), door.setup(), door.now());
    let Terms { kind, template, .. } = terms(door, doc, campaign).await?;
    let mut looked = Looked::at_nobody(campaign, template, kind);
    let suppressed = Suppressed::of(store, &doc.tenant, kind).await?;
    // Those who have a message already, and then those who will.
    for standing in [Standing::Queued, Standing::Pending] {
        look(door, doc, campaign, (&mut looked, &suppressed), standing).await?;
    }
    if looked.people == 0 {
        looked.at_past(campaign, &page(door, doc, None, 0, SAMPLES_AMONG).await?);
    }
    let count = Some(looked.samples.len() as u64);
    let seen = Seen { what: "preview", campaign: Some(&doc.id), count, ..Seen::default() };
    let veil = sight.seen(door, caller, seen).await?;
    let course = Course::of(store, &setup, campaign, now).await?;
    let outlook = course.outlook(store, &doc.id, campaign).await?;
    let mut planned = campaign.clone();
    // One that has begun keeps to its own time.
    let _ = at.map(|at| planned.schedule(at));
    let begun = course::begun(&planned, now);
    let waiting = match &begun {
        Some((begun, from)) if *from == now => begun.waiting(&outlook, now),
        _ => planned.waiting(&outlook, now),
    };
    let samples = {
        let (template, people) = (looked.template.clone(), std::mem::take(&mut looked.samples));
        let campaign = campaign.clone();
        door.0.press.play(move || samples(&template, kind, &campaign, &people, veil)).await?
    };
    let roll = &campaign.roll;
    Ok(PreviewView {
        recipients: roll.recipients,
        invalid: roll.invalid,
        suppressed: roll.suppressed + looked.suppressed,
        suppressed_checked: if Family::of(kind).is_some() { looked.people } else { 0 },
        duplicates: roll.duplicates,
        limits: LimitsView::of(campaign),
        eta: begun.as_ref().and_then(|(begun, from)| begun.eta(&outlook, *from)),
        first_send_at: begun.and_then(|(begun, from)| begun.next_send(&outlook, from)),
        waiting,
        samples,
        variables: VariablesView { needed: looked.needed, given: looked.given, missing: looked.missing },
    })
}

/// Looks at recipients who stand there.
async fn look(
    door: &Door,
    doc: &Doc,
    campaign: &Campaign,
    (looked, suppressed): (&mut Looked, &Suppressed),
    standing: Standing,
) -> Result<(), Problem> {
    let mut after = 0;
    while looked.people < LOOKED_AT {
        let recipients = page(door, doc, Some(standing), after, AT_ONCE).await?;
        let Some(last) = recipients.last() else { break };
        after = last.number;
        looked.suppressed += suppressed.among(door.store(), doc, looked.kind, &recipients).await?;
        recipients.iter().for_each(|recipient| looked.at(campaign, recipient));
        if recipients.len() < AT_ONCE {
            break;
        }
    }
    Ok(())
}

/// Who is not to be written to: everybody who is, where they are few.
enum Suppressed {
    /// Where the list has an entry.
    Short(HashSet<String>),
    Long,
}

impl Suppressed {
    async fn of(store: &dyn Store, tenant: &Tenant, kind: ChannelKind) -> Result<Suppressed, Problem> {
        if Family::of(kind).is_none() {
            return Ok(Suppressed::Short(HashSet::new()));
        }
        let (tenant, pick) = (Some(tenant.clone()), Pick::All { after: None });
        let entries =
            store.docs(Wanted { shelf: Shelf::Suppression, tenant, pick, limit: SHORT_LIST }).await?;
        Ok(match entries.len() < SHORT_LIST {
            true => {
                let known = entries.into_iter().filter(|entry| suppression::read(entry).is_some());
                Suppressed::Short(known.map(|entry| entry.id).collect())
            }
            false => Suppressed::Long,
        })
    }

    /// How many of them there are among these.
    async fn among(
        &self,
        store: &dyn Store,
        doc: &Doc,
        kind: ChannelKind,
        recipients: &[Recipient],
    ) -> Result<u64, Problem> {
        let tenant = &doc.tenant;
        let Some(family) = Family::of(kind) else { return Ok(0) };
        match self {
            Suppressed::Short(places) => {
                let is_there = |to: &str| {
                    family.normalised(to).is_some_and(|to| {
                        places.contains(&suppression::place(family, &to))
                            || places.contains(&suppression::hidden_place(store, tenant, family, &to))
                    })
                };
                Ok(recipients.iter().filter(|it| is_there(&it.to)).count() as u64)
            }
            Suppressed::Long => {
                let mut count = 0;
                for some in recipients.chunks(LOOK_UPS) {
                    let entries = some.iter().map(|it| suppression::of(store, tenant, kind, &it.to));
                    count += try_join_all(entries).await?.iter().flatten().count();
                }
                Ok(count as u64)
            }
        }
    }
}

async fn page(
    door: &Door,
    doc: &Doc,
    standing: Option<Standing>,
    after: u64,
    limit: usize,
) -> Result<Vec<Recipient>, Problem> {
    let campaign = doc.id.parse().map_err(|_| Problem::internal())?;
    let roster = Roster { tenant: doc.tenant.clone(), campaign, standing, after, limit };
    Ok(door.store().recipients(roster).await?)
}

/// What was found among those who are still to be reached.
struct Looked {
    template: Compiled,
    kind: ChannelKind,
    people: u64,
    suppressed: u64,
    /// Whom samples are for.
    samples: Vec<Recipient>,
    needed: BTreeSet<String>,
    given: BTreeSet<String>,
    missing: BTreeSet<String>,
}

impl Looked {
    /// At nobody yet: what the payload lacks would be missing.
    fn at_nobody(campaign: &Campaign, template: Compiled, kind: ChannelKind) -> Looked {
        let needed = template.variables(kind);
        let given: BTreeSet<String> = campaign.payload.keys().cloned().collect();
        let missing = match campaign.roll.recipients {
            0 => needed.difference(&given).cloned().collect(),
            _ => BTreeSet::new(),
        };
        Looked { template, kind, people: 0, suppressed: 0, samples: Vec::new(), needed, given, missing }
    }

    /// Nobody is left: what some got, or would have got.
    fn at_past(&mut self, campaign: &Campaign, recipients: &[Recipient]) {
        recipients.iter().filter(|it| it.standing != Standing::Invalid).for_each(|it| self.at(campaign, it));
        self.people = 0;
    }

    fn at(&mut self, campaign: &Campaign, recipient: &Recipient) {
        self.people += 1;
        let payload = campaign.payload_for(recipient.payload.as_ref());
        let lacks = self.needed.iter().filter(|name| !payload.contains_key(*name)).cloned();
        self.missing.extend(lacks);
        if self.samples.len() < SAMPLES {
            self.samples.push(recipient.clone());
        }
        self.given.extend(payload.into_iter().map(|(name, _)| name));
    }
}

/// What these would get. To whom persons are hidden, it is made of what stands for them.
fn samples(
    template: &Compiled,
    kind: ChannelKind,
    campaign: &Campaign,
    people: &[Recipient],
    veil: Veil,
) -> Vec<SampleView> {
    let sample = |recipient: &Recipient| {
        let render =
            |payload: Option<&Json>| template.render(kind, &Value::Object(campaign.payload_for(payload)));
        let (content, error) = match render(recipient.payload.as_ref()) {
            Ok(content) if veil == Veil::Drawn => {
                let hidden = render(veil.document(recipient.payload.as_ref()).as_deref());
                // What stands for a number cannot be counted with.
                (Some(hidden.unwrap_or_else(|_| mask::shape(&content))), None)
            }
            Ok(content) => (Some(content), None),
            Err(error) => (None, Some(veil.words(&error.to_string()).into_owned())),
        };
        SampleView { to: veil.recipient(Some(kind), &recipient.to).into_owned(), content, error }
    };
    people.iter().map(sample).collect()
}
