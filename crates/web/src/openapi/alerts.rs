//! Alerts.

use pombo_kernel::alert::RuleName;
use pombo_kernel::name::ChannelName;
use schemars::JsonSchema;

use super::entry::{CURSOR, Entry, LIMIT, Param, entry, json, param, said};
use super::request::{AlertIdText, AlertStateText, Nothing};
use crate::api::alerts::{AlertView, RulesView, StoryView, TestView};
use crate::api::page::Page;
use crate::problem::Code;

const ALERT: Param = param::<AlertIdText>("id", "`alr_` and 32 hexadecimal digits.");

/// That somebody looks after it.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct AcknowledgeRequest {
    /// What is known, or done about it.
    note: Option<String>,
}

/// For how long nobody is told: `for` or `until`.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct SilenceRequest {
    /// A length of time such as `2h`, at most 30 days.
    r#for: Option<String>,
    until: Option<pombo_kernel::time::Time>,
    note: Option<String>,
}

/// Who is told that this is a test.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct AlertTestRequest {
    /// The name of a notice; all of them unless given.
    notice: Option<String>,
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/v1/alerts", "list_alerts", "What is wrong, and what was, the newest first")
        .about("A page examines a bounded number of alerts, so it can be short and still have a `next_cursor`. Those that fire come in one page.")
        .query(&[
            param::<AlertStateText>("state", "`firing`, `resolved`, or all."),
            param::<RuleName>("rule", "Of this rule."),
            param::<ChannelName>("channel", "About this channel."),
            LIMIT,
            CURSOR,
        ])
        .answers(&[said::<Page<AlertView<'_>>>(200, "A page of alerts.")]),
    entry("GET", "/v1/alerts/rules", "list_alert_rules", "When something counts as wrong, and who is told")
        .answers(&[said::<RulesView<'_>>(200, "Every rule.")])
        .codes(&[Code::InvalidField]),
    entry("POST", "/v1/alerts/test", "test_alerts", "Tells people that this is a test")
        .takes(&[json::<AlertTestRequest>("AlertTestRequest", r#"{"notice": "ops"}"#)])
        .answers(&[said::<TestView>(202, "What was handed in.")]),
    entry("GET", "/v1/alerts/{id}", "read_alert", "One alert, with what was told of it")
        .names(&[ALERT])
        .answers(&[said::<StoryView<'_>>(200, "The alert.")]),
    entry("POST", "/v1/alerts/{id}/acknowledge", "acknowledge_alert", "Says that somebody looks after it")
        .about("Nobody is reminded of it any more. Its end is told.")
        .names(&[ALERT])
        .takes(&[json::<AcknowledgeRequest>("AcknowledgeRequest", r#"{"note": "the provider knows"}"#)])
        .answers(&[said::<AlertView<'_>>(200, "The alert as it is now.")])
        .codes(&[Code::AlertResolved]),
    entry("POST", "/v1/alerts/{id}/silence", "silence_alert", "Tells nobody anything of it for a while")
        .about("Also if it ends and comes back meanwhile.")
        .names(&[ALERT])
        .needs(&[json::<SilenceRequest>("SilenceRequest", r#"{"for": "2h", "note": "maintenance"}"#)])
        .answers(&[said::<AlertView<'_>>(200, "The alert as it is now.")])
        .codes(&[Code::AlertResolved]),
    entry("POST", "/v1/alerts/{id}/unsilence", "unsilence_alert", "Ends a silence")
        .names(&[ALERT])
        .takes(&[json::<Nothing>("Nothing", "{}")])
        .answers(&[said::<AlertView<'_>>(200, "The alert as it is now.")])
        .codes(&[Code::AlertResolved]),
];
