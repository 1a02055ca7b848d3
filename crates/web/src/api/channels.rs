//! Channels and what stands in front of them.

use std::sync::Arc;

use axum::response::Response;
use pombo_kernel::adapt::Adaptive;
use pombo_kernel::block::{Block, BlockKind, Gate};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::policy::{Delays, Policy};
use pombo_kernel::setup::ChannelSetup;
use pombo_kernel::time::{Span, Time};
use pombo_store::Place;
use schemars::JsonSchema;
use serde::Serialize;

use super::fields::Fields;
use crate::Door;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{body, view};

const BODY_BYTES: usize = 16 * 1024;

/// A channel: its policy, and whether messages pass.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Channel")]
pub(crate) struct ChannelView<'a> {
    name: &'a str,
    #[schemars(with = "ChannelKind")]
    kind: &'static str,
    policy: PolicyView<'a>,
    #[serde(flatten)]
    standing: Standing,
    /// Destinations of the channel that wait by themselves.
    destinations: Vec<DestinationView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Destination")]
struct DestinationView {
    #[schemars(with = "String")]
    destination: Arc<str>,
    #[serde(flatten)]
    standing: Standing,
}

/// Whether messages pass, and if not, why, until when, and what to do.
#[derive(Default, Serialize, JsonSchema)]
struct Standing {
    #[schemars(extend("enum" = ["ok", "held", "paused", "open", "recovering"]))]
    state: &'static str,
    reason: Option<String>,
    hint: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
    breaker: BreakerView,
}

/// The circuit breaker of a channel or destination.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Breaker")]
struct BreakerView {
    /// `closed`, `open`, `half_open` (a message may try whether it is back) or `recovering`.
    #[schemars(extend("enum" = ["closed", "open", "half_open", "recovering"]))]
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_probe_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_probes: Option<u16>,
}

impl Default for BreakerView {
    fn default() -> BreakerView {
        BreakerView { state: "closed", next_probe_at: None, failed_probes: None }
    }
}

impl BreakerView {
    fn of(block: &Block, now: Time) -> BreakerView {
        match (block.kind, block.gate(now)) {
            (BlockKind::Breaker, gate) => BreakerView {
                state: if gate == Gate::Probe { "half_open" } else { "open" },
                next_probe_at: block.until,
                failed_probes: Some(block.probes),
            },
            (BlockKind::Ramp, Gate::Flow(_)) => BreakerView { state: "recovering", ..BreakerView::default() },
            _ => BreakerView::default(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
struct PolicyView<'a> {
    name: &'a str,
    attempts: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    delays: Option<&'a [Span]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Span>,
    floor: Span,
    cap: Span,
    jitter: f64,
    max_hint: Span,
    expires_after: Option<Span>,
    /// Whether waits go by what retries have taught: `false`, `true`, or `"advice"` where it is only said.
    adaptive: Adaptive,
}

impl<'a> From<&'a Policy> for PolicyView<'a> {
    fn from(policy: &'a Policy) -> PolicyView<'a> {
        let (delays, base) = match &policy.delays {
            Delays::Listed(delays) => (Some(delays.as_slice()), None),
            Delays::Doubling { base } => (None, Some(*base)),
        };
        PolicyView {
            name: policy.name.as_str(),
            attempts: policy.attempts,
            delays,
            base,
            floor: policy.floor,
            cap: policy.cap,
            jitter: policy.jitter,
            max_hint: policy.max_hint,
            expires_after: policy.expires_after,
            adaptive: policy.adaptive,
        }
    }
}

impl Standing {
    fn open() -> Standing {
        Standing { state: "ok", ..Standing::default() }
    }

    fn behind(block: &Block, place: &Place, now: Time) -> Standing {
        if block.gate(now) == Gate::Open {
            return Standing::open();
        }
        let release = match &place.destination {
            None => format!("`pombo channels release {}`", place.channel),
            Some(to) => format!("`pombo channels release {} --destination {to}`", place.channel),
        };
        let close = release.replace(" release ", " close ");
        let (state, hint) = match block.kind {
            BlockKind::Operator => ("held", format!("an operator held it; {release} lets it go on")),
            BlockKind::Hold => (
                "held",
                format!("mend what the reason names; one message probes it from time to time, or {release}"),
            ),
            BlockKind::Pause => {
                ("paused", format!("the provider asked for this pause; it ends by itself, or {release}"))
            }
            BlockKind::Breaker => (
                "open",
                format!("one message tries it from time to time and the rest follow, or {close} lets all go"),
            ),
            BlockKind::Ramp => {
                ("recovering", format!("it is back, and is not overrun; {close} lets all go at once"))
            }
        };
        Standing {
            state,
            reason: Some(block.reason.clone()),
            hint: Some(hint),
            since: Some(block.since),
            until: block.until,
            breaker: BreakerView::of(block, now),
        }
    }
}

fn channel_view<'a>(channel: &'a ChannelSetup, blocks: &[(Place, Block)], now: Time) -> ChannelView<'a> {
    let mut standing = Standing::open();
    let mut destinations = Vec::new();
    for (place, block) in blocks.iter().filter(|(place, _)| place.channel == channel.name) {
        let found = Standing::behind(block, place, now);
        match &place.destination {
            None => standing = found,
            Some(destination) if found.state != "ok" => {
                destinations.push(DestinationView { destination: destination.clone(), standing: found });
            }
            Some(_) => {}
        }
    }
    if let Some(unready) = &channel.unready {
        let reason = Some("the channel is not set up".to_owned());
        standing = Standing { state: "held", reason, hint: Some(unready.clone()), ..Standing::default() };
    }
    ChannelView {
        name: channel.name.as_str(),
        kind: channel.kind.as_str(),
        policy: (&channel.policy).into(),
        standing,
        destinations,
    }
}

/// The channels of a tenant.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Channels")]
pub(crate) struct ChannelsView<'a> {
    items: Vec<ChannelView<'a>>,
}

/// Every channel of the caller's tenant, with its policy and whether messages pass.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let setup = call.door.setup();
    let blocks = call.door.store().blocks().await?;
    let now = call.door.now();
    let own = |channel: &&Arc<ChannelSetup>| {
        channel.tenant == call.caller.tenant && call.caller.sees(&channel.name)
    };
    let own = setup.channels.values().filter(own);
    view::ok(&ChannelsView { items: own.map(|channel| channel_view(channel, &blocks, now)).collect() })
}

/// Puts an operator's hold in front of a channel or of one destination; its messages wait, uncharged.
pub(crate) async fn hold(call: Call) -> Result<Response, Problem> {
    let channel = own_channel(&call)?;
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let reason = fields.remark("reason", 500);
    let destination = fields.line("destination", 256);
    if reason.is_none() {
        fields.wrong("reason", "is missing", "say why, for whoever wonders why nothing is sent");
    }
    fields.end()?;
    let place = Place { channel: channel.name.clone(), destination: destination.map(Arc::from) };
    let block = Block::operator(reason.unwrap_or_default(), door.now());
    door.store().block(place, block, caller.actor()).await?;
    tracing::info!(channel = %channel.name, key_id = caller.key_id, "held by an operator");
    standing(&door, &channel).await
}

/// Lifts whatever hold or pause stands in front of a channel or of one destination. None there is no error.
pub(crate) async fn release(call: Call) -> Result<Response, Problem> {
    let channel = own_channel(&call)?;
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let destination = fields.line("destination", 256);
    fields.end()?;
    let place = Place { channel: channel.name.clone(), destination: destination.map(Arc::from) };
    let lifted = door.store().unblock(place, caller.actor()).await?;
    tracing::info!(channel = %channel.name, key_id = caller.key_id, lifted, "released by an operator");
    standing(&door, &channel).await
}

/// Opens the breaker of a channel or of one destination, as if it were down: its messages wait, and one of them tries
/// it after a while.
pub(crate) async fn open(call: Call) -> Result<Response, Problem> {
    let channel = own_channel(&call)?;
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let reason = fields.remark("reason", 500);
    let destination = fields.line("destination", 256);
    let length = fields.line("for", 32);
    let length = length.map(|text| text.parse::<Span>());
    if matches!(length, Some(Err(_)) | Some(Ok(Span::ZERO))) {
        fields.wrong("for", "is not a length of time", "write for example \"30m\", or leave it out");
    }
    fields.end()?;
    let place = Place { channel: channel.name.clone(), destination: destination.map(Arc::from) };
    let now = door.now();
    let reason = reason.unwrap_or_else(|| "opened by an operator".to_owned());
    let block = Block::breaker(reason, &channel.care.breaker, now);
    let until = length.and_then(Result::ok).map_or(block.until, |length| Some(now + length));
    door.store().block(place, Block { until, ..block }, caller.actor()).await?;
    tracing::info!(channel = %channel.name, key_id = caller.key_id, "breaker opened by an operator");
    standing(&door, &channel).await
}

/// Closes the breaker of one destination, or every breaker of the channel: all that waits goes at once.
pub(crate) async fn close(call: Call) -> Result<Response, Problem> {
    let channel = own_channel(&call)?;
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let destination = fields.line("destination", 256);
    fields.end()?;
    let blocks = door.store().blocks().await?;
    let meant = blocks.into_iter().filter(|(place, block)| {
        let here = destination.is_none() || place.destination.as_deref() == destination.as_deref();
        place.channel == channel.name && here && matches!(block.kind, BlockKind::Breaker | BlockKind::Ramp)
    });
    let mut closed = 0;
    for (place, _) in meant {
        closed += usize::from(door.store().unblock(place, caller.actor()).await?);
    }
    tracing::info!(channel = %channel.name, key_id = caller.key_id, closed, "breakers closed by an operator");
    standing(&door, &channel).await
}

async fn standing(door: &Door, channel: &ChannelSetup) -> Result<Response, Problem> {
    let blocks = door.store().blocks().await?;
    view::ok(&channel_view(channel, &blocks, door.now()))
}

pub(crate) fn own_channel(call: &Call) -> Result<Arc<ChannelSetup>, Problem> {
    if let Ok(name) = call.name.parse() {
        call.caller.may_use(&name)?;
    }
    let setup = call.door.setup();
    let found = setup.channels.get(call.name.as_str()).filter(|channel| channel.tenant == call.caller.tenant);
    found.cloned().ok_or_else(|| {
        Problem::new(
            Code::NotFound,
            "there is no channel of this name",
            "GET /v1/channels and `pombo channels list` show them",
        )
    })
}
