//! What the smaller requests look like. What is read is judged field by field; a test holds these against it.

#![allow(dead_code)]

use std::collections::BTreeMap;

use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::{ChannelName, LaneName};
use pombo_kernel::policy::Overrides;
use pombo_kernel::time::{Span, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

macro_rules! narrow {
    ($($(#[$doc:meta])* $name:ident = $schema:tt,)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

narrow! {
    Limit = {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    IdempotencyKey = {"type": "string", "minLength": 1, "maxLength": 256},
    MessageIdText = {"type": "string", "pattern": "^msg_[0-9a-f]{32}$"},
    CauseIdText = {"type": "string", "pattern": "^cause_[0-9a-f]{16}$"},
    CampaignIdText = {"type": "string", "pattern": "^cmp_[0-9a-f]{32}$"},
    OperationIdText = {"type": "string", "pattern": "^opr_[0-9a-f]{32}$"},
    KeyIdText = {"type": "string", "pattern": "^key_[0-9a-f]{16}$"},
    AlertIdText = {"type": "string", "pattern": "^alr_[0-9a-f]{32}$"},
    AlertStateText = {"type": "string", "enum": ["firing", "resolved", "all"]},
    WebhookIdText = {"type": "string", "pattern": "^whk_[0-9a-f]{24}$"},
    SuppressionIdText = {"type": "string", "pattern": "^sup_[0-9a-f]{32}$"},
    ClaimIdText = {"type": "string", "pattern": "^CLM-.*-[0-9]+$", "maxLength": 200},
    EventPosition = {"type": "integer", "minimum": -1},
    VersionTag = {"type": "string", "pattern": "^\"[0-9]+\"$"},
    /// As a caller reads it in the path.
    PathText = {"type": "string", "minLength": 1},
}

/// A message to create: for whom, through which channel, and its content or its template.
#[derive(JsonSchema)]
pub(super) struct MessageRequest {
    /// A configured channel.
    channel: ChannelName,
    /// The recipient, by the channel's kind; for a webhook the URL.
    #[schemars(length(min = 1, max = 4096))]
    to: String,
    /// A name for this sort of message; routes choose a lane by it.
    #[schemars(length(max = 256))]
    r#type: Option<String>,
    /// Instead of content: a template, which is filled with `payload`.
    template: Option<String>,
    payload: Option<Map<String, Value>>,
    /// What is sent, by the channel's kind.
    content: Option<Value>,
    lane: Option<LaneName>,
    /// 0 to 9, 9 first; 5 unless given.
    #[schemars(range(min = 0, max = 9))]
    priority: Option<u8>,
    /// Not before this time.
    send_at: Option<Time>,
    /// Given up if still unsent after this time.
    expires_after: Option<Span>,
    /// Your own id for it, to find it by.
    #[schemars(length(max = 256))]
    reference: Option<String>,
    #[schemars(length(max = 256))]
    user_id: Option<String>,
    /// Messages with the same key go one at a time, in the order of acceptance.
    #[schemars(length(max = 256))]
    ordering_key: Option<String>,
    /// Kept and given back, not looked at.
    metadata: Option<Map<String, Value>>,
    /// Changes to the channel's policy for this message.
    retry: Option<Overrides>,
    /// Also to somebody on the suppression list, where the channel minds that for every message.
    override_suppression: Option<bool>,
    /// As the header of that name.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
}

/// Messages to create, each on its own.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(super) struct MessageList(#[schemars(length(max = 10_000))] Vec<MessageRequest>);

/// Why, for whoever looks.
#[derive(JsonSchema)]
pub(super) struct RetryRequest {
    #[schemars(length(min = 1, max = 500))]
    note: Option<String>,
}

/// What is to change about a dead letter: `to`, `payload` or `content`.
#[derive(JsonSchema)]
pub(super) struct EditRequest {
    #[schemars(length(min = 1, max = 4096))]
    to: Option<String>,
    payload: Option<Value>,
    /// Takes the place of a template and its payload.
    content: Option<Value>,
    #[schemars(length(min = 1, max = 500))]
    note: Option<String>,
    /// The version that you saw; or give it in `If-Match`.
    #[schemars(range(min = 1))]
    version: Option<u32>,
    /// Only says whether it could be done: nothing changes.
    dry_run: Option<bool>,
}

/// Which dead letters, and how: `ids` or `filter`.
#[derive(JsonSchema)]
pub(super) struct RulingRequest {
    /// Done at once.
    #[schemars(length(min = 1, max = 1000))]
    ids: Option<Vec<String>>,
    /// The filters of `GET /v1/dead-letters`, each as text; `{}` is every dead letter. Done as an operation.
    filter: Option<BTreeMap<String, String>>,
    /// Why; in the audit with your name.
    #[schemars(length(min = 1, max = 500))]
    note: Option<String>,
    /// Only says how many there are.
    dry_run: Option<bool>,
    /// With a filter: letters a minute, at most.
    #[schemars(range(min = 1, max = 1_000_000))]
    rate_per_minute: Option<u32>,
    /// Reprocess with a filter: so many go first, and the others only once these were sent.
    #[schemars(range(min = 0, max = 100))]
    canary: Option<u32>,
}

/// Nothing is read here.
#[derive(JsonSchema)]
pub(super) struct Nothing {}

#[derive(JsonSchema)]
pub(super) struct HoldRequest {
    /// Why, for whoever wonders why nothing is sent.
    #[schemars(length(min = 1, max = 500))]
    reason: String,
    /// One destination alone; left out, the whole channel.
    #[schemars(length(min = 1, max = 256))]
    destination: Option<String>,
}

#[derive(JsonSchema)]
pub(super) struct PlaceRequest {
    /// One destination alone; left out, the whole channel.
    #[schemars(length(min = 1, max = 256))]
    destination: Option<String>,
}

#[derive(JsonSchema)]
pub(super) struct OpenRequest {
    #[schemars(length(min = 1, max = 500))]
    reason: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    destination: Option<String>,
    /// How long until the first message tries it.
    r#for: Option<Span>,
}

/// The parts of a template, at least one of them.
#[derive(JsonSchema)]
pub(super) struct TemplateRequest {
    #[schemars(length(min = 1))]
    subject: Option<String>,
    #[schemars(length(min = 1))]
    text: Option<String>,
    #[schemars(length(min = 1))]
    html: Option<String>,
    #[schemars(length(min = 1))]
    whatsapp: Option<String>,
}

#[derive(JsonSchema)]
pub(super) struct RenderRequest {
    payload: Option<Map<String, Value>>,
    kind: Option<ChannelKind>,
    /// Instead of `kind`: a channel, whose kind it is.
    channel: Option<ChannelName>,
    version: Option<u32>,
    /// Words to try instead of any version: `subject`, `text`, `html` and `whatsapp`, as they are put. There need be no
    /// template of that name.
    draft: Option<TemplateRequest>,
}

/// An answer as it came, or what is known of it, and of which kind or channel.
#[derive(JsonSchema)]
pub(super) struct ClassificationRequest {
    /// A kind of channel, or `http`.
    kind: Option<String>,
    /// A channel, whose own rules come first.
    channel: Option<String>,
    /// What an SMTP server said.
    reply: Option<String>,
    /// An error in any words.
    error: Option<String>,
    /// The status of an HTTP answer.
    #[schemars(range(min = 100, max = 599))]
    status: Option<u16>,
    headers: Option<BTreeMap<String, String>>,
    body: Option<Value>,
    /// For example `5.1.1`.
    enhanced: Option<String>,
    name: Option<String>,
    /// Where in the dialogue it was said.
    stage: Option<String>,
    /// What broke, if no answer came.
    fault: Option<String>,
}

#[derive(JsonSchema)]
pub(super) struct WebhookRequest {
    /// Where events are posted to.
    #[schemars(length(min = 1, max = 2048))]
    url: String,
    /// What it is.
    #[schemars(length(max = 500))]
    description: Option<String>,
    /// Types such as `message.sent`, `message.*` or `*`; left out, those that end a message's way.
    #[schemars(length(max = 100))]
    events: Option<Vec<String>>,
    /// Only events of these channels; left out, of all.
    #[schemars(length(max = 100))]
    channels: Option<Vec<ChannelName>>,
    enabled: Option<bool>,
}

/// What is to change about a webhook. What is left out stays.
#[derive(JsonSchema)]
pub(super) struct WebhookChange {
    #[schemars(length(min = 1, max = 2048))]
    url: Option<String>,
    #[schemars(length(max = 500))]
    description: Option<String>,
    #[schemars(length(max = 100))]
    events: Option<Vec<String>>,
    #[schemars(length(max = 100))]
    channels: Option<Vec<ChannelName>>,
    enabled: Option<bool>,
}

#[derive(JsonSchema)]
pub(super) struct SecretRequest {
    /// How long the old secret signs beside the new one; 24 h if left out, 30 days at most.
    overlap: Option<Span>,
}

#[derive(JsonSchema)]
pub(super) struct PauseRequest {
    /// Why, for whoever wonders why nothing is sent.
    #[schemars(length(min = 1, max = 500))]
    reason: String,
}
