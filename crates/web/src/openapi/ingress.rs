//! The doors in the manner of other systems, with the shapes that those have.

#![allow(dead_code)]

use std::collections::BTreeMap;

use pombo_kernel::time::Time;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::entry::{Answer, Entry, IDEMPOTENCY, Param, entry, json, param, said, silent};
use super::request::PathText;
use crate::ingress::Surface;

/// One text, or several.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// A mail, as clients of Resend write it.
#[derive(JsonSchema)]
struct ResendMail {
    from: String,
    to: OneOrMany,
    cc: Option<OneOrMany>,
    bcc: Option<OneOrMany>,
    reply_to: Option<OneOrMany>,
    subject: String,
    html: Option<String>,
    text: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    attachments: Option<Vec<Map<String, Value>>>,
    tags: Option<Vec<ResendTag>>,
    /// A time, or words such as `in 1 hour`.
    scheduled_at: Option<String>,
}

#[derive(JsonSchema)]
struct ResendTag {
    name: String,
    value: Option<String>,
}

/// Several mails.
#[derive(JsonSchema)]
#[schemars(transparent)]
struct ResendMails(#[schemars(length(min = 1, max = 100))] Vec<ResendMail>);

#[derive(JsonSchema)]
struct ResendId {
    /// The message's id, as a UUID.
    #[schemars(with = "uuid::Uuid")]
    id: String,
}

mod uuid {
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    pub(super) struct Uuid;

    impl JsonSchema for Uuid {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Uuid".into()
        }
        fn inline_schema() -> bool {
            true
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "string", "format": "uuid"})
        }
    }
}

/// The ids of those that were taken, and what is wrong with the others.
#[derive(JsonSchema)]
struct ResendIds {
    data: Vec<ResendId>,
    /// With `x-batch-validation: permissive` alone.
    #[schemars(skip_serializing_if = "Option::is_none")]
    errors: Vec<ResendItemError>,
}

#[derive(JsonSchema)]
struct ResendItemError {
    index: u32,
    message: String,
}

/// A mail as Resend shows it.
#[derive(JsonSchema)]
struct ResendMailShown {
    object: String,
    #[schemars(with = "uuid::Uuid")]
    id: String,
    from: String,
    to: Vec<String>,
    cc: Vec<String>,
    bcc: Vec<String>,
    reply_to: Vec<String>,
    subject: String,
    html: Option<String>,
    text: Option<String>,
    created_at: Time,
    scheduled_at: Option<Time>,
    last_event: String,
}

/// A mail that was called back.
#[derive(JsonSchema)]
struct ResendTouched {
    object: String,
    #[schemars(with = "uuid::Uuid")]
    id: String,
}

/// What is wrong, as Resend says it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ResendError {
    status_code: u16,
    message: String,
    name: String,
}

/// A text for WhatsApp, as clients of Evolution write it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct EvolutionText {
    number: String,
    text: String,
    delay: Option<u32>,
    link_preview: Option<bool>,
    quoted: Option<Map<String, Value>>,
    mentioned: Option<Vec<String>>,
    mentions_every_one: Option<bool>,
}

/// A file for WhatsApp, as clients of Evolution write it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct EvolutionMedia {
    number: String,
    /// `image`, `video`, `audio` or `document`.
    mediatype: String,
    /// A link, or base64.
    media: String,
    mimetype: Option<String>,
    file_name: Option<String>,
    caption: Option<String>,
    delay: Option<u32>,
    quoted: Option<Map<String, Value>>,
    mentioned: Option<Vec<String>>,
    mentions_every_one: Option<bool>,
}

/// What Evolution answers for a message that it took.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct EvolutionTaken {
    key: EvolutionKey,
    push_name: String,
    status: String,
    message: Map<String, Value>,
    message_type: String,
    message_timestamp: i64,
    instance_id: String,
    source: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct EvolutionKey {
    remote_jid: String,
    from_me: bool,
    /// The message's id.
    id: String,
}

/// What is wrong, as Evolution says it.
#[derive(JsonSchema)]
struct EvolutionError {
    status: u16,
    error: String,
    response: EvolutionSaid,
}

#[derive(JsonSchema)]
struct EvolutionSaid {
    message: Value,
}

/// The arguments of the function.
#[derive(JsonSchema)]
struct EnqueueEmail {
    p_user_id: Option<Value>,
    p_template_type: String,
    p_recipient_email: String,
    p_payload: Option<Map<String, Value>>,
    p_channel: Option<String>,
    p_send_at: Option<Time>,
    p_expires_after: Option<String>,
    p_idempotency_key: Option<String>,
}

/// What is wrong, as PostgREST says it, or the gateway in front of it, which has no code.
#[derive(JsonSchema)]
struct PostgrestError {
    #[schemars(skip_serializing_if = "Option::is_none", with = "String")]
    code: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    details: Option<String>,
    hint: Option<String>,
    message: String,
}

/// What became of the e-mails that were due.
#[derive(JsonSchema)]
struct ProcessedQueue {
    processed: u64,
    sent: u64,
    failed: u64,
    pending: u64,
}

/// What is wrong, as Supabase's functions say it.
#[derive(JsonSchema)]
struct FunctionError {
    code: String,
    message: String,
}

const INSTANCE: Param =
    param::<PathText>("instance", "The instance of an Evolution channel, or the channel's name.");
const MAIL: &str = r#"{"from": "Loja <loja@example.com>", "to": "ana@example.com", "subject": "Pedido 1841", "text": "A caminho."}"#;

pub(super) const ENTRIES: &[Entry] = &[
    entry("POST", "/emails", "resend_send", "Resend: takes one mail")
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<ResendMail>("ResendMail", MAIL)])
        .answers(&[said::<ResendId>(200, "It is stored.").leads_to(&[("resend_read", "id")])]),
    entry("POST", "/emails/batch", "resend_batch", "Resend: takes up to a hundred mails")
        .headers(&[IDEMPOTENCY, param::<String>("x-batch-validation", "`strict`: all or none. `permissive`: as many as there is nothing wrong with.")])
        .needs(&[json::<ResendMails>("ResendMails", r#"[{"from": "Loja <loja@example.com>", "to": "ana@example.com", "subject": "Pedido 1841", "text": "A caminho."}]"#)])
        .answers(&[said::<ResendIds>(200, "They are stored.")]),
    entry("GET", "/emails/{id}", "resend_read", "Resend: one mail, and how far it has come")
        .names(&[param::<PathText>("id", "What POST /emails answered.")])
        .answers(&[said::<ResendMailShown>(200, "The mail.")]),
    entry("POST", "/emails/{id}/cancel", "resend_cancel", "Resend: calls back a mail that was not sent yet")
        .names(&[param::<PathText>("id", "What POST /emails answered.")])
        .answers(&[
            said::<ResendTouched>(200, "It will not be sent."),
            said::<ResendError>(422, "It is too late for that."),
        ]),
    entry("POST", "/message/sendText/{instance}", "evolution_text", "Evolution: takes a text for WhatsApp")
        .names(&[INSTANCE])
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<EvolutionText>("EvolutionText", r#"{"number": "5511987654321", "text": "Olá"}"#)])
        .answers(&[said::<EvolutionTaken>(201, "It is stored.")]),
    entry("POST", "/message/sendMedia/{instance}", "evolution_media", "Evolution: takes a file for WhatsApp")
        .about("The same may come as a form (`multipart/form-data`), with the file in `file`.")
        .names(&[INSTANCE])
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<EvolutionMedia>("EvolutionMedia", r#"{"number": "5511987654321", "mediatype": "image", "media": "https://example.com/a.png"}"#)])
        .answers(&[said::<EvolutionTaken>(201, "It is stored.")]),
    entry("POST", "/rest/v1/rpc/enqueue_email", "supabase_enqueue", "Supabase: takes an e-mail for a template")
        .headers(&[
            IDEMPOTENCY,
            param::<String>("Prefer", "As PostgREST knows it."),
            param::<String>("Content-Profile", "`public`, or left out."),
        ])
        .needs(&[json::<EnqueueEmail>("EnqueueEmail", r#"{"p_user_id": "7", "p_template_type": "welcome", "p_recipient_email": "ana@example.com", "p_payload": {"nome": "Ana"}}"#)])
        .answers(&[said::<uuid::Uuid>(200, "The message's id alone, as a UUID.")]),
    entry("OPTIONS", "/rest/v1/rpc/enqueue_email", "supabase_enqueue_preflight", "Supabase: whether a browser may call")
        .answers(&[silent(204, "It may.")]),
    entry("POST", "/functions/v1/process-email-queue", "supabase_process", "Supabase: waits for e-mails that are due")
        .takes(&[json::<Map<String, Value>>("ProcessQueue", "{}")])
        .answers(&[said::<ProcessedQueue>(200, "What became of up to ten of them.")]),
    entry("OPTIONS", "/functions/v1/process-email-queue", "supabase_process_preflight", "Supabase: whether a browser may call")
        .answers(&[silent(204, "It may.")]),
];

/// How a surface says that something is wrong.
pub(super) fn refusals(surface: Surface, entry: &Entry) -> Vec<Answer> {
    let (has_name, has_body) = (!entry.names.is_empty(), !entry.bodies.is_empty());
    let mut statuses = vec![401, 429, 500, 503];
    let mut more = |those: &[u16], if_so: bool| statuses.extend(those.iter().filter(|_| if_so));
    match surface {
        Surface::Resend => {
            more(&[400], true);
            more(&[404], has_name);
            more(&[408, 409, 422], has_body);
        }
        Surface::Evolution => more(&[400, 403, 404, 408, 409, 413], true),
        Surface::Rest => more(&[400, 403, 404, 406, 408, 409, 413, 415], true),
        Surface::Function => more(&[403, 408, 413], true),
    }
    let said = |status: u16| match surface {
        Surface::Resend => said::<ResendError>(status, "What is wrong."),
        Surface::Evolution => said::<EvolutionError>(status, "What is wrong."),
        Surface::Rest => said::<PostgrestError>(status, "What is wrong."),
        Surface::Function => said::<FunctionError>(status, "What is wrong."),
    };
    statuses.into_iter().map(said).collect()
}
