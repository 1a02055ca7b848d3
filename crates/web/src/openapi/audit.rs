//! The audit.

use pombo_kernel::name::{CampaignName, ChannelName};
use pombo_kernel::time::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::entry::{CURSOR, Entry, LIMIT, NDJSON, Param, entry, param, said, written};
use super::request::MessageIdText;
use crate::api::audit::{AnchorView, RecordView, WalkView};
use crate::api::page::Page;

const MESSAGE: Param = param::<MessageIdText>("message", "Of this message.");
const CLAIM: Param = param::<String>(
    "claim",
    "Of messages with this reference, and of retry decisions on the claim of that name.",
);
const ACTOR: Param = param::<String>("actor", "By this one: `pombo`, a key's label or its id.");
const EVENT: Param = param::<String>(
    "event",
    "Only these, separated by commas: names of the audit such as `failed`, or types such as `message.failed` or `message.*`.",
);
const CHANNEL: Param = param::<ChannelName>("channel", "Of this channel.");
const CAMPAIGN: Param = param::<CampaignName>("campaign", "Of this campaign and its messages.");
const SINCE: Param = param::<Time>("since", "Not before this time.");
const UNTIL: Param = param::<Time>("until", "Before this time.");

/// How an export is written.
struct Format;

impl JsonSchema for Format {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ExportFormat".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": ["ndjson", "csv"], "default": "ndjson"})
    }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/v1/audit", "list_audit", "What happened and by whom, newest first")
        .about("A page examines a bounded number of records, so it can be short and still have a `next_cursor`.")
        .query(&[MESSAGE, CLAIM, ACTOR, EVENT, CHANNEL, CAMPAIGN, SINCE, UNTIL, LIMIT, CURSOR])
        .answers(&[said::<Page<RecordView>>(200, "A page of records.")]),
    entry("GET", "/v1/audit/export", "export_audit", "Records in order, as a file")
        .about("It is written while it is read, and ends with an error if it breaks off. In NDJSON each record has the \
            sequence of its block and the hash of that block besides. That records were taken is itself recorded.")
        .query(&[
            param::<Format>("format", "`ndjson` unless given."),
            MESSAGE,
            CLAIM,
            ACTOR,
            EVENT,
            CHANNEL,
            CAMPAIGN,
            SINCE,
            UNTIL,
        ])
        .answers(&[
            written(200, NDJSON, "One record a line, the oldest first."),
            written(200, "text/csv", "The same with a heading."),
        ]),
    entry("GET", "/v1/audit/verify", "verify_audit", "Checks a piece of the hash chain")
        .about("The chain of the whole store, whoever's the records are, from its start on. Hand back `next_cursor` \
            until there is none.")
        .query(&[param::<u64>("until", "Stop before this block, to compare the hash there with an anchor."), CURSOR])
        .answers(&[said::<WalkView>(200, "How far the chain holds.")]),
    entry("GET", "/v1/audit/anchors", "list_anchors", "Signed ends of the hash chain, newest first")
        .query(&[LIMIT, CURSOR])
        .answers(&[said::<Page<AnchorView>>(200, "A page of anchors.")]),
];
