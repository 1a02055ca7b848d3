//! Campaigns: one template to many people, at a pace. Doors write down what is wanted; a node does it.

mod preview;
mod request;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use pombo_kernel::campaign::letter::KIND;
use pombo_kernel::campaign::waiting::never;
use pombo_kernel::campaign::{Campaign, PauseReason, Refused, State, StateName};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::operation::{Kind, Operation, Stage};
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Pick, Shelf, Shelved, Wanted};
use pombo_store::{TemplateVersion, roster};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use self::preview::PreviewView;
pub(crate) use self::request::{
    CampaignChange, CampaignPauseRequest, CampaignRequest, CampaignRetryRequest, ScheduleRequest,
    StartRequest,
};
use self::request::{NOTE_BYTES, OTHER_HOURS, Wish, expires_after};
use super::fields::Fields;
use super::news::News;
use super::operations;
use super::page::{Paging, after_cursor, page};
use crate::auth::Caller;
use crate::campaign::{self, CampaignView, PREFIX};
use crate::course::Courses;
use crate::key::hex;
use crate::problem::{Code, FieldError, Problem};
use crate::route::Call;
use crate::veil::Sight;
use crate::{Door, body, filter, idempotency, pin, shelf, view};

/// What a campaign says to everybody. It is written with every send.
const PAYLOAD_BYTES: usize = 32 * 1024;
/// Beside the payload.
const BODY_BYTES: usize = 64 * 1024;
/// Campaigns that are looked at for one page; those that do not match are passed over.
const LOOKED_AT: usize = 2_000;
const AT_ONCE: usize = 200;
const LIST_DIGEST_BYTES: usize = 128;
/// Recipients that are struck off together.
const STRUCK: usize = 1_000;

/// Campaigns, the newest first.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let mut paging = Paging::read(&call.head.uri, &["state"])?;
    let mut after = paging.after()?;
    let state = paging.query.take("state", |text| {
        filter::one_of(text, StateName::ALL, StateName::as_str, "a state of a campaign")
    });
    let Paging { limit, query, .. } = paging;
    query.end()?;
    let (door, caller, setup, now) = (&call.door, &call.caller, call.door.setup(), call.door.now());
    let mut courses = Courses::default();
    let (mut found, mut looked) = (Vec::new(), 0);
    let next = loop {
        let (tenant, pick) = (Some(caller.tenant.clone()), Pick::All { after: after.take() });
        let docs = door.store().docs(Wanted { shelf: Shelf::Campaign, tenant, pick, limit: AT_ONCE }).await?;
        let mut rest = docs.iter();
        while found.len() < limit
            && let Some(doc) = rest.next()
        {
            looked += 1;
            after = Some((doc.leaf.order, doc.id.clone()));
            let matches = |it: &Campaign| {
                caller.sees(&it.channel) && state.is_none_or(|state| it.state.name() == state)
            };
            if let Some(campaign) = roster::read(doc).filter(matches) {
                let course = courses.of(door.store(), &setup, &campaign, now).await?;
                let outlook = course.outlook(door.store(), &doc.id, &campaign).await?;
                found.push(CampaignView::of(&doc.id, &campaign, &outlook, now));
            }
        }
        if docs.len() < AT_ONCE && rest.next().is_none() {
            break None;
        }
        if found.len() == limit || looked >= LOOKED_AT {
            break after.map(|(order, id)| after_cursor(order, &id));
        }
    };
    page(found, next)
}

/// One campaign, with how far it has come.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let (doc, campaign) = find(&call.door, &call.caller, &call.name).await?;
    answer(&call.door, StatusCode::OK, &doc.id, &campaign).await
}

/// Makes a draft: 201. The same key and request again answer with the same campaign.
pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let (setup, now) = (door.setup(), door.now());
    let limit = PAYLOAD_BYTES + BODY_BYTES;
    let text = body::json(&door, &head.headers, body, limit).await?;
    let key = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, &text));
    let mut fields = Fields::read(&text)?;
    let channel = fields.line("channel", 64).map(|asked| setup.channel_named(&asked, &caller.tenant));
    if channel.is_none() {
        fields.missing("channel", "GET /v1/channels and `pombo channels list` show them");
    }
    let channel = channel.and_then(|named| named.map_err(|problem| fields.refuse(problem.into())).ok());
    let zone = channel.map(|channel| channel.line.time_zone.clone()).unwrap_or_default();
    let wish = Wish::read(&mut fields, PAYLOAD_BYTES, &zone, now);
    wish.meets(channel.map(|channel| &**channel), &mut fields, now);
    if wish.name.is_none() {
        fields.missing("name", "say in a few words what it is about");
    }
    if let Some(channel) = channel {
        caller.may_use(&channel.name)?;
        if let Some(error) = unfit(channel.kind) {
            fields.refuse(error);
        }
    }
    let kind = channel.map(|channel| channel.kind).filter(|kind| unfit(*kind).is_none());
    let template = template(&door, &caller.tenant, kind, &mut fields).await?;
    if template.is_none() {
        fields.missing("template", "GET /v1/templates and `pombo templates list` show them");
    }
    let lane = match fields.line("lane", 64) {
        None => Some(setup.lane_of(Some(KIND))),
        Some(asked) => setup.lane_named(&asked).map_err(|problem| fields.refuse(problem.into())).ok(),
    };
    let (throttle, expires_after) = (wish.throttle(&mut fields), expires_after(&mut fields));
    // It only tells one request from another.
    fields.line("list_digest", LIST_DIGEST_BYTES);
    fields.end()?;
    let (Some(name), Some(channel), Some(lane), Some(template)) =
        (wish.name.clone(), channel, lane, template)
    else {
        return Err(Problem::internal());
    };
    let place = (channel.name.clone(), lane);
    let mut campaign = Campaign::new(name, place, (template.name, template.version), caller.actor(), now);
    campaign.throttle = throttle;
    wish.apply(&mut campaign)?;
    campaign.expires_after = expires_after;
    campaign.request = key.as_ref().map(|key| hex(&key.fingerprint));
    let id = match &key {
        Some(key) => idempotency::place(&[caller.tenant.as_str(), &key.key])[..32].to_owned(),
        None => format!("{:012x}{}", now.millis() & 0xffff_ffff_ffff, hex(&door.entropy()()[..10])),
    };
    let id = format!("{PREFIX}{id}");
    if key.is_some() {
        // Of an earlier one of the same key that was removed, somebody may be left.
        strike(&door, &caller.tenant, &id.parse().map_err(|_| Problem::internal())?).await?;
    }
    let created = match shelf::put(door.store(), campaign::begin(&caller.tenant, &id, &campaign)).await? {
        Shelved::Done { .. } => {
            tracing::info!(campaign = id, key_id = caller.key_id, "campaign created");
            answer(&door, StatusCode::CREATED, &id, &campaign).await?
        }
        Shelved::Conflict(found) => {
            let same = |it: &Campaign| key.is_some() && it.request == campaign.request;
            let earlier = found.as_ref().and_then(roster::read).filter(same);
            let earlier = earlier.ok_or_else(|| idempotency::conflict(&format!("which made {id}")))?;
            idempotency::replayed(answer(&door, StatusCode::CREATED, &id, &earlier).await?)
        }
    };
    Ok(placed(created, &id))
}

/// Says where the campaign is.
fn placed(mut response: Response, id: &str) -> Response {
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/campaigns/{id}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// Why channels of that kind take no campaigns, if they do not.
fn unfit(kind: ChannelKind) -> Option<FieldError> {
    let writes_to_persons = !matches!(kind, ChannelKind::Tiss | ChannelKind::Webhook);
    (!writes_to_persons).then(|| FieldError {
        code: Code::ContentNotAccepted,
        field: "channel".into(),
        reason: format!("is of the kind {kind}, which writes to no persons"),
        hint: "choose one of the kind evolution, smtp or resend".to_owned(),
    })
}

/// The latest version of the template that is named, if it says something for that kind of channel.
async fn template(
    door: &Door,
    tenant: &Tenant,
    kind: Option<ChannelKind>,
    fields: &mut Fields,
) -> Result<Option<TemplateVersion>, Problem> {
    let Some(asked) = fields.line("template", 64) else { return Ok(None) };
    let found = pin::look_up(door.store(), tenant, &asked).await?;
    let found = found.and_then(|latest| match kind.and_then(|kind| pin::lacks(kind, &latest)) {
        Some(problem) => Err(problem),
        None => Ok(latest),
    });
    Ok(found.map_err(|problem| fields.refuse(problem.into())).ok())
}

/// Changes what is given and leaves the rest.
pub(crate) async fn change(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let (setup, now) = (door.setup(), door.now());
    let limit = PAYLOAD_BYTES + BODY_BYTES;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, limit).await?)?;
    let (doc, campaign) = find(&door, &caller, &name).await?;
    let channel = setup.channels.get(&campaign.channel);
    let zone = channel.map(|channel| channel.line.time_zone.clone()).unwrap_or_default();
    let wish = Wish::read(&mut fields, PAYLOAD_BYTES, &zone, now);
    wish.meets(channel.map(|channel| &**channel), &mut fields, now);
    let kind = channel.map(|channel| channel.kind);
    let template = template(&door, &caller.tenant, kind, &mut fields).await?;
    fields.end()?;
    let words = template.is_some() || wish.payload.is_some();
    let (doc, campaign) = altered(&door, &caller, doc, |campaign, _| {
        if matches!(campaign.state, State::Completed { .. } | State::Cancelled { .. }) {
            return Err(wrong_state(campaign, "changed"));
        }
        if words && campaign.has_begun() {
            let hint =
                "what it says stays as it is once it has begun; pace, window and name can still change";
            return Err(Problem { hint: hint.into(), ..wrong_state(campaign, "given other words") });
        }
        let mut changed = wish.apply(campaign)?;
        if let Some(latest) = &template {
            let before = (campaign.template.clone(), campaign.template_version);
            (campaign.template, campaign.template_version) = (latest.name.clone(), latest.version);
            if before != (campaign.template.clone(), campaign.template_version) {
                changed.push("template");
            }
        }
        Ok((!changed.is_empty()).then(|| (Event::CampaignChanged, json!({ "changed": changed }))))
    })
    .await?;
    answer(&door, StatusCode::OK, &doc.id, &campaign).await
}

/// Takes a draft away with its list. One that has begun stays for the record.
pub(crate) async fn remove(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, name, .. } = call;
    let (store, tenant, by) = (door.store(), &caller.tenant, caller.actor());
    let found = find(&door, &caller, &name).await;
    let list: CampaignName = name.parse().map_err(|_| missing())?;
    match found {
        Ok((doc, _)) => {
            shelf::change(store, Some(doc), |doc| {
                let (doc, campaign) =
                    doc.and_then(|doc| Some((doc, roster::read(doc)?))).ok_or_else(missing)?;
                if campaign.has_begun() {
                    return Err(wrong_state(&campaign, "removed"));
                }
                Ok((Some(campaign::remove(doc, &campaign, &by, door.now())), ()))
            })
            .await?;
        }
        // Whoever removed it may have died before the list was gone.
        Err(problem) => {
            if store.doc(Shelf::Campaign, tenant.clone(), name.clone()).await?.is_none() {
                strike(&door, tenant, &list).await?;
            }
            return Err(problem);
        }
    }
    strike(&door, tenant, &list).await?;
    tracing::info!(campaign = name, key_id = caller.key_id, "campaign removed");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Takes everybody off a list that no campaign has any more.
async fn strike(door: &Door, tenant: &Tenant, list: &CampaignName) -> Result<(), Problem> {
    while door.store().strike(tenant.clone(), list.clone(), STRUCK).await? > 0 {}
    Ok(())
}

/// What would be sent, to how many, and until when. Nothing is changed.
pub(crate) async fn preview(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let sight = Sight::read(&door, &caller, &head.uri)?;
    Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?.end()?;
    let (doc, campaign) = find(&door, &caller, &name).await?;
    view::ok(&preview::of(&door, &doc, &campaign, None, (&caller, sight)).await?)
}

/// Begins a campaign, now or at a time.
pub(crate) async fn start(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let at = request::at(&mut fields, door.now());
    let dry_run = fields.flag("dry_run").unwrap_or(false);
    fields.end()?;
    let (doc, campaign) = find(&door, &caller, &name).await?;
    if dry_run {
        let sight = Sight::of(&door, &caller, None)?;
        return view::ok(&preview::of(&door, &doc, &campaign, at, (&caller, sight)).await?);
    }
    begin(&door, &caller, doc, at).await
}

/// Begins a campaign at a time.
pub(crate) async fn schedule(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let at = request::at(&mut fields, door.now());
    if at.is_none() {
        fields.missing("at", "write for example \"2026-01-31T10:20:30Z\"");
    }
    fields.end()?;
    let (doc, _) = find(&door, &caller, &name).await?;
    begin(&door, &caller, doc, at).await
}

async fn begin(door: &Door, caller: &Caller, doc: Doc, at: Option<Time>) -> Result<Response, Problem> {
    let (doc, campaign) = altered(door, caller, doc, |campaign, now| {
        let what = if at.is_some() { "scheduled" } else { "started" };
        if !matches!(campaign.state, State::Draft | State::Scheduled { .. }) {
            return Err(wrong_state(campaign, what));
        }
        can_ever_send(door, caller, campaign, at.unwrap_or(now))?;
        match at.filter(|at| *at > now) {
            Some(at) => {
                campaign.schedule(at).map_err(|refused| refusal(campaign, refused, what))?;
                Ok(Some((Event::CampaignScheduled, json!({"start_at": at}))))
            }
            None => {
                campaign.start(now).map_err(|refused| refusal(campaign, refused, what))?;
                Ok(Some((Event::CampaignStarted, json!({"recipients": campaign.roll.left()}))))
            }
        }
    })
    .await?;
    answer(door, StatusCode::OK, &doc.id, &campaign).await
}

/// One whose channel is gone from the configuration would only stop again, and one without hours would never send.
fn can_ever_send(door: &Door, caller: &Caller, campaign: &Campaign, from: Time) -> Result<(), Problem> {
    let setup = door.setup();
    let channel = setup.channel_named(campaign.channel.as_str(), &caller.tenant);
    let channel = channel.map_err(|problem| Problem::fields(vec![problem.into()]))?;
    match never(campaign.window.as_ref(), &channel.line, from) {
        None => Ok(()),
        Some(why) => Err(Problem::field("window", why, OTHER_HOURS)),
    }
}

/// Lets nothing more set out.
pub(crate) async fn pause(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let note = fields.remark("note", NOTE_BYTES);
    fields.end()?;
    let (doc, _) = find(&door, &caller, &name).await?;
    let by = caller.actor();
    let (doc, campaign) = altered(&door, &caller, doc, |campaign, now| {
        let (reason, said) = (PauseReason::Operator, note.clone().unwrap_or_default());
        campaign.pause(reason, said, &by, now).map_err(|refused| refusal(campaign, refused, "paused"))?;
        Ok(Some((Event::CampaignPaused, json!({"reason": reason, "note": note}))))
    })
    .await?;
    answer(&door, StatusCode::OK, &doc.id, &campaign).await
}

/// Lets it go on with whoever is still to be reached.
pub(crate) async fn resume(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?.end()?;
    let (doc, _) = find(&door, &caller, &name).await?;
    let (doc, campaign) = altered(&door, &caller, doc, |campaign, now| {
        resumed(&door, &caller, (campaign, "resumed"), now).map(Some)
    })
    .await?;
    answer(&door, StatusCode::OK, &doc.id, &campaign).await
}

fn resumed(
    door: &Door,
    caller: &Caller,
    (campaign, what): (&mut Campaign, &str),
    now: Time,
) -> Result<(Event, Value), Problem> {
    if !matches!(campaign.state, State::Paused { .. }) {
        return Err(wrong_state(campaign, what));
    }
    can_ever_send(door, caller, campaign, now)?;
    campaign.start(now).map_err(|refused| refusal(campaign, refused, what))?;
    Ok((Event::CampaignResumed, json!({"recipients": campaign.roll.left()})))
}

/// Ends it for good: 200 once nothing of it is left to send, 202 if that takes longer.
pub(crate) async fn cancel(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?.end()?;
    let (doc, _) = find(&door, &caller, &name).await?;
    let by = caller.actor();
    let (doc, campaign) = altered(&door, &caller, doc, |campaign, now| {
        if is_cancelling(campaign) {
            return Ok(None);
        }
        let reason = PauseReason::Cancelling;
        campaign
            .pause(reason, String::new(), &by, now)
            .map_err(|refused| refusal(campaign, refused, "cancelled"))?;
        if campaign.roll.queued > 0 || campaign.flight.is_some() {
            return Ok(Some((Event::CampaignPaused, json!({ "reason": reason }))));
        }
        campaign.cancelled(&by, now);
        let roll = &campaign.roll;
        let detail = json!({"sent": roll.sent, "failed": roll.failed, "cancelled": roll.cancelled});
        Ok(Some((Event::CampaignCancelled, detail)))
    })
    .await?;
    tracing::info!(campaign = doc.id, key_id = caller.key_id, "campaign cancelled");
    let ended = async {
        let mut news = News::of(&door);
        loop {
            news.mark();
            let (_, campaign) = find(&door, &caller, &doc.id).await?;
            if !is_cancelling(&campaign) {
                return Ok::<_, Problem>(campaign);
            }
            news.next().await?;
        }
    };
    if !is_cancelling(&campaign) {
        return answer(&door, StatusCode::OK, &doc.id, &campaign).await;
    }
    match tokio::time::timeout(door.0.patience.cancel, ended).await {
        Ok(ended) => answer(&door, StatusCode::OK, &doc.id, &ended?).await,
        Err(_) => answer(&door, StatusCode::ACCEPTED, &doc.id, &campaign).await,
    }
}

fn is_cancelling(campaign: &Campaign) -> bool {
    matches!(campaign.state, State::Paused { reason: PauseReason::Cancelling, .. })
}

/// A campaign that goes on, and the operation that takes up those who failed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RetriedCampaign")]
pub(crate) struct RetriedView {
    #[serde(flatten)]
    campaign: CampaignView,
    /// What gives those who failed a new round; null if that was not asked for, or nobody failed.
    operation_id: Option<String>,
}

/// Goes on with whoever is pending, and with those who failed if that is asked for, at the same pace.
///
/// The operation is written down first: a key that stands for something else changes nothing, and a request that was
/// done before is not done to a campaign that somebody has paused since.
pub(crate) async fn retry(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let text = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    let mut fields = Fields::read(&text)?;
    let failed = fields.flag("failed").unwrap_or(false);
    fields.end()?;
    let request = [name.as_bytes(), &text].concat();
    let key = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, &request));
    let (mut doc, mut campaign) = find(&door, &caller, &name).await?;
    let mut begun = match &key {
        Some(key) => operations::earlier(&door, &caller, key, Kind::Reprocess).await?,
        None => None,
    };
    if begun.is_none() {
        let letters = failed && campaign.roll.failed > 0;
        let go_on = |campaign: &mut Campaign, now: Time| match campaign.state {
            State::Running { .. } | State::Completed { .. } if letters => Ok(None),
            State::Paused { .. } => resumed(&door, &caller, (campaign, "retried"), now).map(Some),
            _ => Err(wrong_state(campaign, "retried")),
        };
        go_on(&mut campaign.clone(), door.now())?;
        if letters {
            let wanted = reprocess(&caller, &doc.id, &campaign, door.now());
            begun = Some(operations::begin(&door, &caller, key, wanted).await?);
        }
        if begun.as_ref().is_none_or(|begun| !begun.replayed) {
            (doc, campaign) = altered(&door, &caller, doc, go_on).await?;
        }
    }
    let status = if begun.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    let replayed = begun.as_ref().is_some_and(|begun| begun.replayed);
    let campaign = campaign::seen(door.store(), &door.setup(), &doc.id, &campaign, door.now()).await?;
    let document = serde_json::to_vec(&RetriedView { campaign, operation_id: begun.map(|begun| begun.id) });
    let response = view::answer(status, document.map_err(|_| Problem::internal())?);
    Ok(if replayed { idempotency::replayed(response) } else { response })
}

/// A new round for the dead letters of a campaign. No letter goes first alone: the campaign stops by itself if too many
/// fail again.
fn reprocess(caller: &Caller, id: &str, campaign: &Campaign, now: Time) -> Operation {
    let filter = [("campaign", id), ("channel", campaign.channel.as_str())];
    Operation {
        filter: filter.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        within: caller.channels.as_ref().map(|within| within.to_vec()),
        ..Operation::new(Kind::Reprocess, Stage::Rest, caller.actor(), now)
    }
}

/// The campaign of that id, if it is the caller's to see.
pub(crate) async fn find(door: &Door, caller: &Caller, id: &str) -> Result<(Doc, Campaign), Problem> {
    // No id is longer, and none that is can be looked for.
    if !id.starts_with(PREFIX) || id.len() > 64 {
        return Err(missing());
    }
    let doc = door.store().doc(Shelf::Campaign, caller.tenant.clone(), id.to_owned()).await?;
    let found = doc.and_then(|doc| roster::read(&doc).map(|campaign| (doc, campaign)));
    found.filter(|(_, campaign)| caller.sees(&campaign.channel)).ok_or_else(missing)
}

pub(crate) fn missing() -> Problem {
    let hint =
        "ids look like `cmp_` and 32 hex digits; GET /v1/campaigns and `pombo campaigns list` show them";
    Problem::new(Code::NotFound, "there is no campaign with this id", hint)
}

/// Changes a campaign from what was read, in the caller's name.
async fn altered(
    door: &Door,
    caller: &Caller,
    doc: Doc,
    act: impl Fn(&mut Campaign, Time) -> Result<Option<(Event, Value)>, Problem>,
) -> Result<(Doc, Campaign), Problem> {
    let now = door.now();
    let by = caller.actor();
    let altered = campaign::alter(door.store(), doc, (&by, now), |campaign| act(campaign, now)).await?;
    altered.ok_or_else(missing)
}

async fn answer(door: &Door, status: StatusCode, id: &str, campaign: &Campaign) -> Result<Response, Problem> {
    let seen = campaign::seen(door.store(), &door.setup(), id, campaign, door.now()).await?;
    Ok(view::answer(status, serde_json::to_vec(&seen).map_err(|_| Problem::internal())?))
}

fn refusal(campaign: &Campaign, refused: Refused, what: &str) -> Problem {
    match refused {
        Refused::State(_) => wrong_state(campaign, what),
        Refused::Nobody => nobody(),
    }
}

/// A campaign in that state cannot be `what`.
pub(crate) fn wrong_state(campaign: &Campaign, what: &str) -> Problem {
    let hint = match (&campaign.state, what) {
        (State::Draft, "paused" | "resumed" | "retried") => {
            "it has not begun, and nothing of it sets out before it is started"
        }
        (State::Draft, _) => "list its recipients and start it; a draft can also be changed and removed",
        (State::Scheduled { .. }, "removed") => "cancel it; it stays for the record",
        (State::Scheduled { .. }, "resumed" | "retried") => {
            "it begins by itself at its time; start it to begin now"
        }
        (State::Scheduled { .. }, _) => "start it at once, schedule it for another time, or cancel it",
        (State::Running { .. }, "started" | "scheduled" | "resumed") => {
            "it runs already, and nothing is left to do; watch it, or pause it"
        }
        (State::Running { .. }, "retried") => {
            "it runs, and goes on with those who are pending; `{\"failed\": true}` to /retry writes again to those who failed"
        }
        (State::Running { .. }, "removed") => "cancel it; it stays for the record",
        (State::Running { .. }, _) => "pause it first, or cancel it",
        (State::Paused { reason: PauseReason::Cancelling, .. }, _) => {
            "it is being cancelled; look again in a moment, and make another one"
        }
        (State::Paused { .. }, "removed") => "cancel it; it stays for the record",
        (State::Paused { .. }, _) => "resume it, or cancel it",
        (State::Completed { .. }, _) if campaign.roll.failed > 0 => {
            "it is over; `{\"failed\": true}` to /retry writes again to those who failed, and another campaign to others"
        }
        (State::Completed { .. }, _) => "it is over; make another one",
        (State::Cancelled { .. }, _) => "it is over for good; make another one",
    };
    let state = campaign.state.name().as_str();
    let problem =
        Problem::new(Code::CampaignState, format!("the campaign is {state}, and cannot be {what}"), hint);
    Problem { state: Some(state), ..problem }
}

/// There is nobody whom it could write to.
pub(crate) fn nobody() -> Problem {
    let hint = "list recipients with POST /v1/campaigns/{id}/recipients or `pombo campaigns add ID FILE`";
    Problem::new(Code::NoRecipients, Refused::Nobody.to_string(), hint)
}
