//! Events, webhooks and receipts.

use pombo_kernel::name::ChannelName;

use super::entry::{
    CURSOR, Entry, IDEMPOTENCY, LIMIT, Param, REPLAYED, entry, json, param, said, silent, written,
};
use super::request::{
    EventPosition, Nothing, PathText, SecretRequest, WebhookChange, WebhookIdText, WebhookRequest,
};
use crate::api::page::Page;
use crate::api::receipts::Counts;
use crate::api::webhooks::{TestView, WebhookView};
use crate::problem::Code;
use serde_json::{Map, Value};

const WEBHOOK: Param = param::<WebhookIdText>("id", "`whk_` and 24 hexadecimal digits.");
const CHANNEL: Param = param::<ChannelName>("channel", "The channel whose provider it is.");
const SIGNATURE: &[Param] = &[
    param::<String>("webhook-id", "With a signature by Standard Webhooks; `svix-id` says the same."),
    param::<String>("webhook-timestamp", "Or `svix-timestamp`."),
    param::<String>("webhook-signature", "Or `svix-signature`."),
];
const REPORT: &str = "Whatever is no report on a message is answered as well, and left alone. A channel that there is not and one that takes no reports are UNAUTHORIZED, too.";

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/v1/events", "follow_events", "What happens, as it happens")
        .about("Server-sent events that do not end by themselves. Come back with the last id, and nothing is missed. `campaign.progress` has no id and no place among them: it tells how a campaign stands, at most once a second.")
        .query(&[
            param::<EventPosition>("after", "Events after the one with this id; -1 starts with the first of all; from now on unless given."),
            param::<String>("types", "Only these, separated by commas: `message.failed`, `message.*`."),
            param::<ChannelName>("channel", "Only of this channel."),
            param::<String>("reference", "Only of messages with this reference, and retry decisions on the claim of that name. A producer must name it."),
        ])
        .headers(&[param::<EventPosition>("Last-Event-ID", "As `after`, which it outranks.")])
        .answers(&[written(200, "text/event-stream", "Events, each with `id`, `event` and `data`, a JSON document.")]),
    entry("GET", "/v1/webhooks", "list_webhooks", "Webhooks, the newest first")
        .query(&[LIMIT, CURSOR])
        .answers(&[said::<Page<WebhookView>>(200, "A page of webhooks.")]),
    entry("POST", "/v1/webhooks", "create_webhook", "Tells somebody of events from now on")
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<WebhookRequest>("WebhookRequest", r#"{"url": "https://crm.example/pombo", "events": ["message.failed"]}"#)])
        .answers(&[said::<WebhookView>(201, "The webhook, with its secret, which is shown this once.").with(&[REPLAYED]).leads_to(&[
            ("read_webhook", "id"),
            ("change_webhook", "id"),
            ("rotate_webhook_secret", "id"),
            ("test_webhook", "id"),
            ("remove_webhook", "id"),
        ])])
        .codes(&[Code::TooManyWebhooks, Code::IdempotencyConflict]),
    entry("GET", "/v1/webhooks/{id}", "read_webhook", "One webhook")
        .names(&[WEBHOOK])
        .answers(&[said::<WebhookView>(200, "The webhook.")]),
    entry("PATCH", "/v1/webhooks/{id}", "change_webhook", "Changes a webhook")
        .names(&[WEBHOOK])
        .needs(&[json::<WebhookChange>("WebhookChange", r#"{"enabled": false}"#)])
        .answers(&[said::<WebhookView>(200, "The webhook as it is now.")]),
    entry("DELETE", "/v1/webhooks/{id}", "remove_webhook", "Removes a webhook")
        .about("What waits for it becomes a dead letter.")
        .names(&[WEBHOOK])
        .answers(&[silent(204, "It is gone.")]),
    entry("POST", "/v1/webhooks/{id}/rotate-secret", "rotate_webhook_secret", "Signs with a new secret")
        .names(&[WEBHOOK])
        .takes(&[json::<SecretRequest>("SecretRequest", r#"{"overlap": "24h"}"#)])
        .answers(&[said::<WebhookView>(200, "The webhook, with its new secret, which is shown this once.")]),
    entry("POST", "/v1/webhooks/{id}/test", "test_webhook", "Sends a webhook an event that means nothing")
        .names(&[WEBHOOK])
        .headers(&[IDEMPOTENCY])
        .takes(&[json::<Nothing>("Nothing", "{}")])
        .answers(&[said::<TestView>(202, "The message that carries it.").with(&[REPLAYED])]),
    entry("POST", "/v1/receipts/{channel}", "report_delivery", "Takes what a provider reports")
        .about(REPORT)
        .names(&[CHANNEL])
        .headers(SIGNATURE)
        .needs(&[json::<Map<String, Value>>("Receipt", r#"{"type": "email.delivered", "data": {"email_id": "56761188-7520-42d8-8898-ff6fc54ce618"}}"#)])
        .answers(&[said::<Counts>(200, "What became of the reports.")]),
    entry("POST", "/v1/receipts/{channel}/{event}", "report_delivery_of", "The same, for providers that write the event's name behind the address")
        .about(REPORT)
        .names(&[CHANNEL, param::<PathText>("event", "Not looked at: the body says it as well.")])
        .headers(SIGNATURE)
        .needs(&[json::<Map<String, Value>>("Receipt", r#"{"event": "messages.update", "instance": "main", "data": {}}"#)])
        .answers(&[said::<Counts>(200, "What became of the reports.")]),
];
