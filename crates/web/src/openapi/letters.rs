//! Dead letters, operations and suppressions.

use super::entry::{
    CURSOR, Entry, IDEMPOTENCY, LIMIT, NDJSON, Param, REPLAYED, REVEAL, entry, json, param, said, silent,
    text, written,
};
use super::messages::filters;
use super::request::{
    CauseIdText, EditRequest, MessageIdText, Nothing, OperationIdText, RulingRequest, SuppressionIdText,
    VersionTag,
};
use crate::api::dead::{Count, GroupView, LetterLine, LetterStory, Results};
use crate::api::operations::OperationView;
use crate::api::page::Page;
use crate::api::suppressions::{ImportView, SuppressionRequest, SuppressionView};
use crate::problem::Code;
use pombo_kernel::delivery::Delivery;
use pombo_kernel::name::{CampaignName, ChannelName, LaneName};
use pombo_kernel::suppression::{Family, Reason};
use pombo_kernel::time::Time;
use schemars::JsonSchema;

const ID: Param = param::<MessageIdText>("id", "The message's id.");
const OPERATION: Param = param::<OperationIdText>("id", "`opr_` and 32 hexadecimal digits.");

/// What became of letters by their ids, or how many there would be.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "RulingAnswer")]
#[allow(dead_code)]
enum Ruled {
    Done(Results),
    Counted(Count),
}

const LOCATION: (&str, &str) = ("Location", "Where to follow the operation.");

const RULING: &str = "By ids it is done at once; by a filter it becomes an operation, which a node works on.";

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/v1/dead-letters", "list_dead_letters", "Lists dead letters, newest first")
        .query(filters!(param::<CauseIdText>("cause", "Of this cause."); LIMIT, CURSOR, REVEAL))
        .answers(&[said::<Page<LetterLine>>(200, "A page of dead letters, each with its cause.")])
        .codes(&[Code::RevealNotAllowed]),
    entry("GET", "/v1/dead-letters/groups", "list_dead_letter_groups", "Dead letters by cause, the largest group first")
        .query(&[LIMIT, CURSOR])
        .answers(&[said::<Page<GroupView>>(200, "The largest groups; there are no further pages.")]),
    entry("POST", "/v1/dead-letters/reprocess", "reprocess_dead_letters", "Sends dead letters again, as a new round")
        .about(RULING)
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<RulingRequest>("RulingRequest", r#"{"filter": {"channel": "crm"}, "note": "the receiver was fixed", "dry_run": true}"#)])
        .answers(&[
            said::<Ruled>(200, "What became of each; or, on a dry run, how many there are.").with(&[REPLAYED]),
            said::<OperationView<'_>>(202, "The operation.").with(&[LOCATION, REPLAYED])
                .leads_to(&[("read_operation", "id"), ("cancel_operation", "id")]),
        ])
        .codes(&[Code::BatchTooLarge, Code::IdempotencyConflict]),
    entry("POST", "/v1/dead-letters/discard", "discard_dead_letters", "Gives dead letters up for good")
        .about(RULING)
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<RulingRequest>("RulingRequest", r#"{"filter": {"until": "2026-01-01T00:00:00Z"}, "note": "obsolete", "dry_run": true}"#)])
        .answers(&[
            said::<Ruled>(200, "What became of each; or, on a dry run, how many there are.").with(&[REPLAYED]),
            said::<OperationView<'_>>(202, "The operation.").with(&[LOCATION, REPLAYED])
                .leads_to(&[("read_operation", "id"), ("cancel_operation", "id")]),
        ])
        .codes(&[Code::BatchTooLarge, Code::IdempotencyConflict]),
    entry("GET", "/v1/dead-letters/{id}", "read_dead_letter", "One dead letter: every round, what people did, what it said before")
        .about("It is also shown when it is no longer dead; `cause` is null then.")
        .names(&[ID])
        .query(&[REVEAL])
        .answers(&[said::<LetterStory>(200, "The letter.").with(&[("ETag", "Its version.")])])
        .codes(&[Code::RevealNotAllowed]),
    entry("PATCH", "/v1/dead-letters/{id}", "edit_dead_letter", "Changes what a dead letter says")
        .about("It is checked as a new message of its channel would be. The version that you saw is required, as `version` or in `If-Match`. An edit sends nothing. On a dry run nothing changes, either: the answer is the letter as it is, or what would be wrong.")
        .names(&[ID])
        .headers(&[param::<VersionTag>("If-Match", "The ETag of the letter that you saw.")])
        .needs(&[json::<EditRequest>("EditRequest", r#"{"to": "https://crm.example/hooks/new", "version": 1, "note": "the address was mistyped"}"#)])
        .answers(&[said::<LetterStory>(200, "The letter as it is now.").with(&[("ETag", "Its version.")])])
        .codes(&[
            Code::NotDead,
            Code::VersionConflict,
            Code::BodyTooLarge,
            Code::UnknownChannel,
            Code::TemplateNotFound,
            Code::TemplateError,
            Code::ContentNotAccepted,
            Code::TimeInPast,
        ]),
    entry("GET", "/v1/operations", "list_operations", "Operations, the newest first")
        .query(&[LIMIT, CURSOR])
        .answers(&[said::<Page<OperationView<'_>>>(200, "A page of operations.")]),
    entry("GET", "/v1/operations/{id}", "read_operation", "One operation, and how far it has come")
        .names(&[OPERATION])
        .answers(&[said::<OperationView<'_>>(200, "The operation.")]),
    entry("POST", "/v1/operations/{id}/cancel", "cancel_operation", "Ends an operation")
        .about("What it did stays done.")
        .names(&[OPERATION])
        .takes(&[json::<Nothing>("Nothing", "{}")])
        .answers(&[said::<OperationView<'_>>(200, "The operation, cancelled.")])
        .codes(&[Code::NotCancellable]),
    entry("GET", "/v1/suppressions", "list_suppressions", "Who is not written to any more, newest first")
        .about("A page examines a bounded number of entries, so it can be short and still have a `next_cursor`.")
        .query(&[
            param::<Family>("kind", "By this kind of address."),
            param::<Reason>("reason", "For this reason."),
            param::<String>("recipient", "On this person, however the address is written."),
            LIMIT,
            CURSOR,
            REVEAL,
        ])
        .answers(&[said::<Page<SuppressionView>>(200, "A page of suppressions.")])
        .codes(&[Code::RevealNotAllowed]),
    entry("POST", "/v1/suppressions", "create_suppression", "Puts somebody on the list")
        .about("Each person has one entry: again is no error, and what is there stays as it is.")
        .needs(&[json::<SuppressionRequest>("SuppressionRequest", r#"{"kind": "email", "recipient": "ana@clinica.example", "reason": "opt_out"}"#)])
        .answers(&[
            said::<SuppressionView>(200, "The entry that was there.").leads_to(&[("remove_suppression", "id")]),
            said::<SuppressionView>(201, "The new entry.").leads_to(&[("remove_suppression", "id")]),
        ]),
    entry("POST", "/v1/suppressions/import", "import_suppressions", "Puts everybody in a file on the list")
        .about("Up to a million lines, which are stored as they come in: CSV with a heading, or one JSON object a line, with the fields of a suppression. An export can be imported.")
        .query(&[
            param::<Family>("kind", "Of lines that name none."),
            param::<Reason>("reason", "Of lines that name none; `manual` unless given."),
        ])
        .needs(&[
            text("text/csv", "kind,recipient,reason\nemail,ana@clinica.example,opt_out\n"),
            text(NDJSON, "{\"kind\": \"whatsapp\", \"recipient\": \"+55 11 98765-4321\"}\n"),
        ])
        .answers(&[said::<ImportView>(200, "What became of the lines.")])
        .codes(&[Code::BatchTooLarge]),
    entry("GET", "/v1/suppressions/export", "export_suppressions", "The whole list as CSV")
        .query(&[REVEAL])
        .answers(&[written(200, "text/csv", "A heading, and one line for each entry.")])
        .codes(&[Code::RevealNotAllowed]),
    entry("DELETE", "/v1/suppressions/{id}", "remove_suppression", "Takes an entry off the list")
        .names(&[param::<SuppressionIdText>("id", "`sup_` and 32 hexadecimal digits.")])
        .answers(&[silent(204, "Whoever it was about can be written to again.")]),
];
