//! Messages, templates, classifications and retry decisions.

use pombo_kernel::classify::read::Explained;
use pombo_kernel::decision::Decision;
use pombo_kernel::delivery::Delivery;
use pombo_kernel::message::StateName;
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName};
use pombo_kernel::time::Time;

use super::entry::{
    CURSOR, Entry, IDEMPOTENCY, LIMIT, NDJSON, Param, REPLAYED, REVEAL, entry, json, param, said, text,
    written,
};
use super::request::{
    ClaimIdText, ClassificationRequest, MessageIdText, MessageList, MessageRequest, RenderRequest,
    RetryRequest, TemplateRequest,
};
use crate::api::batch::ItemsView;
use crate::api::decisions::{DecisionRequest, DecisionView};
use crate::api::page::Page;
use crate::api::templates::{Full, Head, Rendered};
use crate::problem::Code;
use crate::view::{MessageLine, MessageStory};

const ID: Param = param::<MessageIdText>("id", "`msg_` and 32 hexadecimal digits, or the same as a UUID.");
const TEMPLATE: Param = param::<TemplateName>("name", "The template's name.");

/// Why a message is not accepted, beside a field that is no good.
const UNFIT: &[Code] = &[
    Code::IdempotencyConflict,
    Code::BodyTooLarge,
    Code::UnknownChannel,
    Code::TemplateNotFound,
    Code::TemplateError,
    Code::ContentNotAccepted,
    Code::TimeInPast,
    Code::RecipientSuppressed,
];

/// The filters that messages and dead letters have in common.
macro_rules! filters {
    ($($own:expr),* ; $($last:expr),*) => {
        &[
            $($own,)*
            param::<ChannelName>("channel", "Of this channel."),
            param::<LaneName>("lane", "Of this lane."),
            param::<String>("type", "Of this type."),
            param::<String>("template", "With this template."),
            param::<CampaignName>("campaign", "Of this campaign."),
            param::<String>("recipient", "Exactly this `to`."),
            param::<String>("reference", "Your own id."),
            param::<String>("category", "Of the last failure."),
            param::<Delivery>("delivery", "What the provider reported."),
            param::<Time>("since", "Accepted at this time or later."),
            param::<Time>("until", "Accepted before this time."),
            $($last,)*
        ]
    };
}
pub(super) use filters;

pub(super) const ENTRIES: &[Entry] = &[
    entry("POST", "/v1/messages", "create_message", "Accepts one message")
        .about("Answers once the message is durable. A repeat with the same Idempotency-Key and the same request answers with the first message as it is by then.")
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<MessageRequest>("MessageRequest", r#"{"channel": "crm", "to": "https://crm.example/hooks/pombo", "content": {"body": {"event": "order_paid", "order": 1841}}, "reference": "order-1841"}"#)])
        .answers(&[said::<MessageStory>(202, "The message, accepted.").with(&[REPLAYED]).leads_to(&[
            ("read_message", "id"),
            ("cancel_message", "id"),
            ("retry_message", "id"),
            ("read_dead_letter", "id"),
        ])])
        .codes(UNFIT),
    entry("GET", "/v1/messages", "list_messages", "Lists messages, newest first")
        .about("A producer must give `reference`. A page examines a bounded number of messages, so it can be short, or even empty, and still have a `next_cursor`.")
        .query(filters!(param::<StateName>("state", "In this state."); LIMIT, CURSOR, REVEAL))
        .answers(&[said::<Page<MessageLine>>(200, "A page of messages, without their attempts.")])
        .codes(&[Code::RevealNotAllowed]),
    entry("POST", "/v1/messages/batch", "create_messages", "Accepts many messages, each on its own")
        .about("A JSON list, or a stream of lines of any length, which is answered while it comes in. One that is refused leaves its neighbours untouched.")
        .headers(&[IDEMPOTENCY])
        .needs(&[
            json::<MessageList>("MessageList", r#"[{"channel": "crm", "to": "https://crm.example/hooks/pombo", "content": {"body": {"order": 1841}}}]"#),
            text(NDJSON, "{\"channel\": \"crm\", \"to\": \"https://crm.example/a\", \"content\": {\"body\": 1}}\n"),
        ])
        .answers(&[
            said::<ItemsView>(200, "One result for each item, in order; for a stream one a line."),
            written(200, NDJSON, ""),
        ])
        .codes(&[Code::BatchTooLarge]),
    entry("GET", "/v1/messages/{id}", "read_message", "One message with its attempts")
        .names(&[ID])
        .query(&[REVEAL])
        .answers(&[said::<MessageStory>(200, "The message.")])
        .codes(&[Code::RevealNotAllowed]),
    entry("POST", "/v1/messages/{id}/cancel", "cancel_message", "Cancels a message that still waits")
        .about("An attempt never starts after a cancel was answered.")
        .names(&[ID])
        .answers(&[said::<MessageStory>(200, "The message, cancelled.")])
        .codes(&[Code::NotCancellable]),
    entry("POST", "/v1/messages/{id}/retry", "retry_message", "Tries a message now")
        .about("A dead letter begins a new round; one that waits for its time or its next try is due at once.")
        .names(&[ID])
        .takes(&[json::<RetryRequest>("RetryRequest", r#"{"note": "the receiver is back"}"#)])
        .answers(&[said::<MessageStory>(200, "The message, due.")])
        .codes(&[Code::NotRetryable]),
    entry("GET", "/v1/templates", "list_templates", "The latest version of each template, by name")
        .query(&[LIMIT, CURSOR])
        .answers(&[said::<Page<Head<'_>>>(200, "A page of templates, without their words.")]),
    entry("GET", "/v1/templates/{name}", "read_template", "One version of a template")
        .names(&[TEMPLATE])
        .query(&[param::<u32>("version", "The latest unless given.")])
        .answers(&[said::<Full<'_>>(200, "The version.")]),
    entry("PUT", "/v1/templates/{name}", "put_template", "Puts a template")
        .about("A new version if it says something new; earlier ones stay.")
        .names(&[TEMPLATE])
        .needs(&[json::<TemplateRequest>("TemplateRequest", r#"{"subject": "Olá, {{ nome }}", "text": "Seu pedido chegou."}"#)])
        .answers(&[
            said::<Full<'_>>(200, "The latest version, which says the same."),
            said::<Full<'_>>(201, "The new version."),
        ])
        .codes(&[Code::TemplateError]),
    entry("GET", "/v1/templates/{name}/versions", "list_template_versions", "The versions of a template, newest first")
        .names(&[TEMPLATE])
        .query(&[LIMIT, CURSOR])
        .answers(&[said::<Page<Head<'_>>>(200, "A page of versions, without their words.")]),
    entry("POST", "/v1/templates/{name}/render", "render_template", "What comes of a template with a payload")
        .about("Nothing is sent or stored.")
        .names(&[TEMPLATE])
        .takes(&[json::<RenderRequest>("RenderRequest", r#"{"payload": {"nome": "Ana"}, "kind": "smtp"}"#)])
        .answers(&[said::<Rendered<'_>>(200, "The content that a channel would get.")])
        .codes(&[Code::TemplateError]),
    entry("POST", "/v1/classifications", "classify", "What an error would mean, without sending anything")
        .needs(&[json::<ClassificationRequest>("ClassificationRequest", r#"{"kind": "resend", "status": 429, "headers": {"retry-after": "120"}, "body": {"name": "rate_limit_exceeded"}}"#)])
        .answers(&[said::<Explained<'_>>(200, "Verdict, category and the rule that matched.")]),
    entry("POST", "/v1/retry-decisions", "decide", "Decides whether a claim is submitted again, and when")
        .about("The same question gets the decision that is on record. A limit that is reached and a permanent error are problems with the decision's own fields beside the usual ones.")
        .headers(&[param::<String>("Accept-Language", "`pt` for the reason in Portuguese.")])
        .needs(&[json::<DecisionRequest>("DecisionRequest", r#"{"claimId": "CLM-001-123", "submissionError": "TIMEOUT - Connection timeout after 30s", "retryCount": 1}"#)])
        .answers(&[said::<Decision>(200, "It is to be submitted again, at `nextRetryTime`.")])
        .codes(&[Code::InvalidErrorMessage, Code::MaxRetriesExceeded, Code::PermanentError]),
    entry("GET", "/v1/retry-decisions", "list_decisions", "The decisions on record")
        .about("A producer must name the claim.")
        .query(&[
            param::<ClaimIdText>("claimId", "Those on one claim, newest first."),
            param::<bool>("pending", "Those whose retry is still to come, the next one first."),
            LIMIT,
            CURSOR,
        ])
        .answers(&[said::<Page<DecisionView>>(200, "A page of decisions.")]),
];
