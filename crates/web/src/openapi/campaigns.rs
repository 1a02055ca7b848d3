//! Campaigns.

use pombo_kernel::campaign::StateName;
use pombo_kernel::campaign::recipient::Standing;
use schemars::JsonSchema;

use super::entry::{
    CURSOR, Entry, IDEMPOTENCY, LIMIT, NDJSON, Param, REPLAYED, REVEAL, entry, json, param, said, silent,
    text, written,
};
use super::request::{CampaignIdText, Nothing};
use crate::api::campaigns::{
    CampaignChange, CampaignPauseRequest, CampaignRequest, CampaignRetryRequest, PreviewView, RetriedView,
    ScheduleRequest, StartRequest,
};
use crate::api::page::Page;
use crate::api::recipients::{ImportView, RecipientView, RecipientsRequest};
use crate::campaign::CampaignView;
use crate::problem::Code;

const CAMPAIGN: Param = param::<CampaignIdText>("id", "`cmp_` and 32 hexadecimal digits.");

/// The campaign as it is now, or what it would do.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "StartedCampaign")]
#[allow(dead_code, clippy::large_enum_variant)]
enum Started {
    Campaign(CampaignView),
    Preview(PreviewView),
}

/// What a list is answered as.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[allow(dead_code)]
enum ReportFormat {
    Json,
    Csv,
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/v1/campaigns", "list_campaigns", "Campaigns, the newest first")
        .about("A page examines a bounded number of campaigns, so it can be short and still have a `next_cursor`.")
        .query(&[param::<StateName>("state", "In this state."), LIMIT, CURSOR])
        .answers(&[said::<Page<CampaignView>>(200, "A page of campaigns.")]),
    entry("POST", "/v1/campaigns", "create_campaign", "Makes a draft of a campaign")
        .about("The latest version of the template is the one that will be sent. Recipients are listed next, and then it is started.")
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<CampaignRequest>("CampaignRequest", r#"{"name": "Autumn check-ups", "channel": "whatsapp", "template": "check-up", "throttle_min_seconds": 15, "throttle_max_seconds": 25, "window": {"hours": "08:00-20:00", "days": ["mon", "tue", "wed", "thu", "fri"]}}"#)])
        .answers(&[said::<CampaignView>(201, "The draft.").with(&[("Location", "Where it is."), REPLAYED]).leads_to(&[
            ("read_campaign", "id"),
            ("change_campaign", "id"),
            ("add_recipients", "id"),
            ("list_recipients", "id"),
            ("preview_campaign", "id"),
            ("start_campaign", "id"),
            ("schedule_campaign", "id"),
            ("pause_campaign", "id"),
            ("resume_campaign", "id"),
            ("cancel_campaign", "id"),
            ("retry_campaign", "id"),
            ("remove_campaign", "id"),
        ])])
        .codes(&[Code::IdempotencyConflict, Code::UnknownChannel, Code::TemplateNotFound, Code::ContentNotAccepted]),
    entry("GET", "/v1/campaigns/{id}", "read_campaign", "One campaign, and how far it has come")
        .names(&[CAMPAIGN])
        .answers(&[said::<CampaignView>(200, "The campaign.")]),
    entry("PATCH", "/v1/campaigns/{id}", "change_campaign", "Changes a campaign that is not over")
        .about("Template and payload only before it has begun; a template that is named is pinned anew.")
        .names(&[CAMPAIGN])
        .needs(&[json::<CampaignChange>("CampaignChange", r#"{"throttle_min_seconds": 30, "throttle_max_seconds": 60}"#)])
        .answers(&[said::<CampaignView>(200, "The campaign as it is now.")])
        .codes(&[Code::CampaignState, Code::TemplateNotFound, Code::ContentNotAccepted]),
    entry("DELETE", "/v1/campaigns/{id}", "remove_campaign", "Removes a campaign that never began, with its list")
        .names(&[CAMPAIGN])
        .answers(&[silent(204, "It is gone.")])
        .codes(&[Code::CampaignState]),
    entry("GET", "/v1/campaigns/{id}/recipients", "list_recipients", "Everybody on a campaign's list, and what became of them")
        .about("In the order of the list. With `Accept: text/csv` or `format=csv`, the whole of it as a file.")
        .names(&[CAMPAIGN])
        .query(&[
            param::<Standing>("state", "In this state."),
            param::<ReportFormat>("format", "`csv` for the whole list as a file; a page of JSON otherwise."),
            LIMIT,
            CURSOR,
            REVEAL,
        ])
        .answers(&[
            said::<Page<RecipientView<'_>>>(200, "A page of recipients, or all of them as CSV: number, line, to, state, reason, attempts, sent_at, delivery, message_id."),
            written(200, "text/csv", ""),
        ])
        .codes(&[Code::RevealNotAllowed]),
    entry("POST", "/v1/campaigns/{id}/recipients", "add_recipients", "Adds a list to a campaign's")
        .about("A stream of any length, stored as it comes in. A line by which nobody can be written to is told and kept; whoever is on the list already is a duplicate, so that a list that broke off can be sent again. CSV begins with a header; what its other columns say, or the other members of an object, are variables of the template.")
        .names(&[CAMPAIGN])
        .query(&[
            param::<String>("to", "The column or member with the addresses; found out unless given."),
            param::<String>("delimiter", "Of CSV: one of `,` `;` `|` and `tab`; found out unless given."),
            param::<String>("encoding", "Of CSV: `utf-8` or `latin1`; found out unless given."),
            param::<String>("columns", "Of CSV: a JSON list of what its columns are called here, in order, whatever its header says; null for one that is left out. `[\"to\", \"name\", null]`."),
        ])
        .needs(&[
            json::<RecipientsRequest>("RecipientsRequest", r#"[{"to": "+55 11 98765-4321", "name": "Ana"}, {"to": "+55 11 98765-4322", "variables": {"name": "Bia"}}]"#),
            text(NDJSON, "{\"to\": \"+55 11 98765-4321\", \"name\": \"Ana\"}\n"),
            text("text/csv", "telefone;name\n11 98765-4321;Ana\n"),
        ])
        .answers(&[said::<ImportView>(200, "What became of the lines.")])
        .codes(&[Code::CampaignState, Code::UnknownChannel, Code::TemplateError]),
    entry("POST", "/v1/campaigns/{id}/preview", "preview_campaign", "What a campaign would do")
        .about("Nothing is changed or sent.")
        .names(&[CAMPAIGN])
        .query(&[REVEAL])
        .takes(&[json::<Nothing>("Nothing", "{}")])
        .answers(&[said::<PreviewView>(200, "Whom it would reach, with what, and until when.")])
        .codes(&[Code::RevealNotAllowed, Code::UnknownChannel, Code::TemplateError]),
    entry("POST", "/v1/campaigns/{id}/start", "start_campaign", "Starts a campaign, now or at a time")
        .names(&[CAMPAIGN])
        .takes(&[json::<StartRequest>("CampaignStartRequest", "{}")])
        .answers(&[said::<Started>(200, "The campaign as it is now; or, on a dry run, its preview.")])
        .codes(&[Code::CampaignState, Code::NoRecipients, Code::TimeInPast, Code::UnknownChannel, Code::TemplateError]),
    entry("POST", "/v1/campaigns/{id}/schedule", "schedule_campaign", "Starts a campaign at a time")
        .names(&[CAMPAIGN])
        .needs(&[json::<ScheduleRequest>("CampaignScheduleRequest", r#"{"at": "2030-03-01T08:00:00-03:00"}"#)])
        .answers(&[said::<CampaignView>(200, "The campaign as it is now.")])
        .codes(&[Code::CampaignState, Code::NoRecipients, Code::TimeInPast, Code::UnknownChannel]),
    entry("POST", "/v1/campaigns/{id}/pause", "pause_campaign", "Lets nothing more of a campaign set out")
        .about("A message that is on its way goes to its end.")
        .names(&[CAMPAIGN])
        .takes(&[json::<CampaignPauseRequest>("CampaignPauseRequest", r#"{"note": "the line was asked to slow down"}"#)])
        .answers(&[said::<CampaignView>(200, "The campaign, paused.")])
        .codes(&[Code::CampaignState]),
    entry("POST", "/v1/campaigns/{id}/resume", "resume_campaign", "Lets a campaign go on")
        .about("Its time limits are counted anew from whoever is still to be reached.")
        .names(&[CAMPAIGN])
        .takes(&[json::<Nothing>("Nothing", "{}")])
        .answers(&[said::<CampaignView>(200, "The campaign, running.")])
        .codes(&[Code::CampaignState, Code::NoRecipients]),
    entry("POST", "/v1/campaigns/{id}/cancel", "cancel_campaign", "Ends a campaign for good")
        .about("What was made ahead is called back. What was sent stays sent.")
        .names(&[CAMPAIGN])
        .takes(&[json::<Nothing>("Nothing", "{}")])
        .answers(&[
            said::<CampaignView>(200, "The campaign, cancelled."),
            said::<CampaignView>(202, "The campaign, which is being cancelled: `pause_reason` is `cancelling` until it is."),
        ])
        .codes(&[Code::CampaignState]),
    entry("POST", "/v1/campaigns/{id}/retry", "retry_campaign", "Goes on with whoever is pending, and with those who failed if asked to")
        .about("At the same pace. Those who failed get a new round by an operation.")
        .names(&[CAMPAIGN])
        .headers(&[IDEMPOTENCY])
        .takes(&[json::<CampaignRetryRequest>("CampaignRetryRequest", r#"{"failed": true}"#)])
        .answers(&[
            said::<RetriedView>(200, "The campaign, running."),
            said::<RetriedView>(202, "The campaign, and the operation that takes up those who failed.").with(&[REPLAYED]),
        ])
        .codes(&[Code::CampaignState, Code::NoRecipients, Code::IdempotencyConflict]),
];
