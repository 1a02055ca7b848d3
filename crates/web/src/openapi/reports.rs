//! Reports.

use pombo_kernel::alert::Language;
use pombo_kernel::name::ReportName;
use pombo_kernel::window::Date;
use schemars::JsonSchema;

use super::entry::{Entry, Param, entry, json, param, said};
use crate::api::page::Page;
use crate::api::reports::{ReportView, SentView, StoryView};
use crate::problem::Code;

const NAME: Param = param::<ReportName>("name", "As it is configured.");

/// Which time it is about.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct ReportRequest {
    /// A day of it; the last one that has ended unless given.
    date: Option<Date>,
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/v1/reports", "list_reports", "Which reports people are sent, and when")
        .answers(&[said::<Page<ReportView<'_>>>(200, "All of them, in one page.")])
        .codes(&[Code::InvalidField]),
    entry("GET", "/v1/reports/{name}", "read_report", "What a report says")
        .about("Of the last day, week or month that has ended, or of the one in which a date lies.")
        .names(&[NAME])
        .query(&[
            param::<Date>("date", "A day of the time that it is about."),
            param::<Language>("language", "What `text` is written in."),
        ])
        .answers(&[said::<StoryView>(200, "The figures, and the text that people are sent.")]),
    entry("POST", "/v1/reports/{name}/send", "send_report", "Sends a report at once")
        .about("To those who get it anyway. When it is next due does not change by it.")
        .names(&[NAME])
        .takes(&[json::<ReportRequest>("ReportRequest", r#"{"date": "2026-11-15"}"#)])
        .answers(&[said::<SentView>(202, "The notices that were handed in.")]),
];
