//! What is configured, as doors and engine need to know it: plain data, settled and checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::alert;
use crate::breaker;
use crate::campaign::line::LineRules;
use crate::classify::{Rules, Scope};
use crate::content;
use crate::flow::Rate;
use crate::guard::Guard;
use crate::kind::ChannelKind;
use crate::kpi::Family;
use crate::lifecycle::OnUnknownOutcome;
use crate::mask::MaskedRole;
use crate::name::{ChannelName, LaneName, Tenant};
use crate::policy::{Policy, Profile};
use crate::retention;
use crate::secret::Secret;
use crate::signature::SigningKey;
use crate::time::Span;
use crate::turns::Weight;
use crate::window::Zone;

/// The name of the channel, and of its lane, that takes events to whoever subscribed to them. No message of a caller
/// goes through it.
pub const EVENTS: &str = "events";

/// The name of the lane that notices to people go through. No message of a caller goes through it.
pub const NOTICES: &str = "notices";

#[derive(Clone, Debug)]
pub struct Setup {
    pub channels: BTreeMap<ChannelName, Arc<ChannelSetup>>,
    pub lanes: BTreeMap<LaneName, LaneSetup>,
    /// The first route whose type matches decides the lane; `default` otherwise.
    pub routes: Vec<Route>,
    pub limits: Limits,
    /// Where subscribers to events may be.
    pub subscribers: Guard,
    /// What retry decisions go by.
    pub claims: Policy,
    /// What people are told of, and how.
    pub alerts: Arc<alert::Plan>,
    /// Whose keys see persons masked.
    pub masked: BTreeSet<MaskedRole>,
    /// How long things are kept once they have ended.
    pub retention: Arc<retention::Plan>,
    pub dashboard: Dashboard,
}

/// The pages for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Dashboard {
    pub enabled: bool,
    /// Whose clock the times on them are of.
    pub zone: Zone,
    /// Every policy that there is, whether a channel goes by it or not.
    pub policies: Arc<[Policy]>,
}

impl Default for Dashboard {
    fn default() -> Dashboard {
        let policies = Policy::BUILT_IN.iter().filter_map(|name| Policy::built_in(name, Profile::default()));
        Dashboard { enabled: true, zone: Zone::default(), policies: policies.collect() }
    }
}

#[derive(Clone, Debug)]
pub struct ChannelSetup {
    pub name: ChannelName,
    pub kind: ChannelKind,
    pub tenant: Tenant,
    pub policy: Policy,
    pub rules: Rules,
    pub on_unknown_outcome: OnUnknownOutcome,
    pub destination: Destination,
    /// Longest time that one attempt may take.
    pub attempt_timeout: Span,
    /// Why nothing can be sent through it, and what to do; none if it can.
    pub unready: Option<String>,
    /// How its destinations are looked after.
    pub care: Care,
    /// What campaigns have to mind.
    pub line: LineRules,
    /// Whom the suppression list keeps from being written to.
    pub suppressions: Suppressions,
    /// How the provider's own reports are told from a stranger's; none are taken without it.
    pub receipts: Option<ReceiptCheck>,
}

/// Which messages the suppression list stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Suppressions {
    /// Those of campaigns.
    #[default]
    Bulk,
    /// All but those that say that they go all the same.
    All,
}

/// How a channel looks after its destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Care {
    pub breaker: breaker::Limits,
    /// How fast messages may go through the whole channel.
    pub rate: Option<Rate>,
    /// What the provider says of its limit takes the place of `rate`, which nobody chose.
    pub learns: bool,
    /// How many turns its queues have in their lanes where others have one.
    pub weight: Weight,
    /// How often the provider is asked how it is.
    pub probe_every: Option<Span>,
    /// Whoever cannot be reached for good stays off the suppression list.
    pub forgives: bool,
}

/// Which messages of a channel a fault can be common to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// All of them: an instance, an operator, whatever the channel speaks to.
    Fixed(Arc<str>),
    /// Those for the host of one URL.
    Host,
    /// Those from one sender's domain; the channel's own where a message names none. The server that takes them
    /// is one for the whole channel.
    Sender { default: Arc<str> },
    /// Those for one recipient's domain, whose servers we speak to ourselves.
    Recipient,
    /// Those for one recipient, whoever that is.
    Each,
}

impl Destination {
    /// One server takes all that goes through the channel.
    pub fn is_single(&self) -> bool {
        matches!(self, Destination::Fixed(_) | Destination::Sender { .. })
    }

    /// Whom the message stands or falls with.
    pub fn of(&self, to: &str, content: Option<&Value>) -> Arc<str> {
        let domain = |mailbox: &str| {
            let address = content::mailbox(mailbox)?;
            Some(address.rsplit_once('@')?.1.to_ascii_lowercase())
        };
        match self {
            Destination::Fixed(name) => name.clone(),
            Destination::Host => content::host(to).into(),
            Destination::Each => to.into(),
            Destination::Recipient => domain(to).unwrap_or_default().into(),
            Destination::Sender { default } => {
                let from = content.and_then(|content| content.get("from")).and_then(Value::as_str);
                from.and_then(domain).map_or_else(|| default.clone(), Arc::from)
            }
        }
    }

    /// Where the health of whoever takes the messages is kept.
    pub fn health_scope(&self) -> Scope {
        match self {
            Destination::Sender { .. } => Scope::Channel,
            Destination::Fixed(_) | Destination::Host | Destination::Recipient | Destination::Each => {
                Scope::Destination
            }
        }
    }
}

/// What a report must show to be believed.
#[derive(Clone, Debug)]
pub enum ReceiptCheck {
    /// These words, in a header that the provider sends along.
    Token(Secret),
    /// A Standard Webhooks signature by this key.
    Signature(SigningKey),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSetup {
    /// Sends in flight at once.
    pub workers: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub kind: String,
    pub lane: LaneName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest content or payload of one message, in bytes.
    pub content_bytes: usize,
    /// Largest attachments of one message together, in bytes.
    pub attachment_bytes: usize,
    /// Largest request body, in bytes, unless one message with its attachments needs more; an NDJSON stream is not
    /// bound by it.
    pub request_bytes: usize,
    /// Most messages in one JSON array.
    pub batch_items: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            content_bytes: 256 * 1024,
            attachment_bytes: 25 * 1024 * 1024,
            request_bytes: 8 * 1024 * 1024,
            batch_items: 10_000,
        }
    }
}

impl Limits {
    /// The longest text that one message can need: content and payload, attachments as base64, and the rest.
    pub fn message_bytes(&self) -> usize {
        let apart = self.attachment_bytes.saturating_add(2) / 3 * 4;
        self.content_bytes.saturating_mul(2).saturating_add(apart).saturating_add(64 * 1024)
    }

    /// The longest request that is held in memory.
    pub fn body_bytes(&self) -> usize {
        self.request_bytes.max(self.message_bytes())
    }
}

impl Setup {
    /// By which figures what happens on a channel is judged; none for what Pombo tells of itself. What concerns no channel
    /// are decisions about claims. Notices, which go through any channel, are not counted.
    pub fn family(&self, channel: Option<&ChannelName>) -> Option<Family> {
        let Some(name) = channel else { return Some(Family::Claims) };
        match self.channels.get(name).map(|channel| channel.kind) {
            _ if name.as_str() == EVENTS => None,
            Some(ChannelKind::Tiss) => Some(Family::Claims),
            _ => Some(Family::Messages),
        }
    }

    /// The lane for messages of that type.
    pub fn lane_of(&self, kind: Option<&str>) -> LaneName {
        let routed = kind.and_then(|kind| self.routes.iter().find(|route| route.kind == kind));
        routed.map_or_else(LaneName::default, |route| route.lane.clone())
    }
}
