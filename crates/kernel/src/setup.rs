//! What is configured, as doors and engine need to know it: plain data, settled and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::classify::Rules;
use crate::kind::ChannelKind;
use crate::lifecycle::OnUnknownOutcome;
use crate::name::{ChannelName, LaneName, Tenant};
use crate::policy::Policy;
use crate::time::Span;

#[derive(Clone, Debug)]
pub struct Setup {
    pub channels: BTreeMap<ChannelName, Arc<ChannelSetup>>,
    pub lanes: BTreeMap<LaneName, LaneSetup>,
    /// The first route whose type matches decides the lane; `default` otherwise.
    pub routes: Vec<Route>,
    pub limits: Limits,
}

#[derive(Clone, Debug)]
pub struct ChannelSetup {
    pub name: ChannelName,
    pub kind: ChannelKind,
    pub tenant: Tenant,
    pub policy: Policy,
    pub rules: Rules,
    pub on_unknown_outcome: OnUnknownOutcome,
    /// What a fault is common to, where the recipient does not decide it: an instance, an account, a relay.
    pub destination: Arc<str>,
    /// Longest time that one attempt may take.
    pub attempt_timeout: Span,
    /// Why nothing can be sent through it, and what to do; none if it can.
    pub unready: Option<String>,
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
    /// Largest request body, in bytes; an NDJSON stream is not bound by it.
    pub request_bytes: usize,
    /// Most messages in one JSON array.
    pub batch_items: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { content_bytes: 256 * 1024, request_bytes: 8 * 1024 * 1024, batch_items: 10_000 }
    }
}

impl Setup {
    /// The lane for messages of that type.
    pub fn lane_of(&self, kind: Option<&str>) -> LaneName {
        let routed = kind.and_then(|kind| self.routes.iter().find(|route| route.kind == kind));
        routed.map_or_else(LaneName::default, |route| route.lane.clone())
    }
}
