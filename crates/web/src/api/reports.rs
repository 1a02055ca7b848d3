//! Reports: which there are, what they say, and sending one at once.

use axum::response::Response;
use http::StatusCode;
use pombo_kernel::alert::Language;
use pombo_kernel::name::{NoticeName, ReportName};
use pombo_kernel::report::{self, Every, Figures, Period, Report};
use pombo_kernel::time::Time;
use pombo_kernel::window::{Date, Day, Minute};
use schemars::JsonSchema;
use serde::Serialize;

use super::fields::Fields;
use super::page::{Query, Wrong, page, parsed};
use crate::auth::Caller;
use crate::key::hex;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{Door, body, report as reports, view};

const BODY_BYTES: usize = 16 * 1024;

/// A report that people are sent regularly.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Report")]
pub(crate) struct ReportView<'a> {
    name: &'a ReportName,
    every: Every,
    at: Minute,
    /// The day on which a week begins, and its report is sent.
    day: Option<Day>,
    time_zone: String,
    /// Each target's own if null.
    language: Option<Language>,
    /// The names of those who get it.
    notify: &'a [NoticeName],
    next_at: Time,
    /// When it was last sent by itself.
    last_sent_at: Option<Time>,
    /// What ended by then was sent, or was over before the report was new; null until somebody has looked.
    done_until: Option<Time>,
}

/// What a report says of its time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReportStory")]
pub(crate) struct StoryView {
    /// The first day and the last one.
    first: Date,
    last: Date,
    /// Whether that time has ended.
    complete: bool,
    #[serde(flatten)]
    figures: Figures,
    /// As people read it.
    subject: String,
    text: String,
}

/// A report that is on its way.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReportSent")]
pub(crate) struct SentView {
    report: ReportName,
    first: Date,
    last: Date,
    notices: Vec<SentNotice>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReportNotice")]
pub(crate) struct SentNotice {
    id: String,
    to: NoticeName,
}

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, .. } = call;
    Query::read(&head.uri, &[])?.end()?;
    caller.may_use_all()?;
    let setup = door.setup();
    let mut items = Vec::new();
    for report in setup.alerts.reports.values().filter(|it| it.tenant == caller.tenant) {
        let schedule = &report.schedule;
        let sent = reports::sent(door.store(), &report.name).await?.map(|(_, sent)| sent);
        items.push(ReportView {
            name: &report.name,
            every: schedule.every,
            at: schedule.at,
            day: Some(schedule.day).filter(|_| schedule.every == Every::Week),
            time_zone: schedule.zone.to_string(),
            language: report.language,
            notify: &report.notify,
            next_at: schedule.next(door.now()),
            last_sent_at: sent.and_then(|sent| sent.at),
            done_until: sent.map(|sent| sent.until),
        });
    }
    page(items, None)
}

/// A report's figures: of the last time that has ended, or of the one in which a date lies.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, name, .. } = call;
    let mut query = Query::read(&head.uri, &["date", "language"])?;
    let date = query.take("date", parsed::<Date>);
    let language = query.take("language", language);
    query.end()?;
    let (report, now) = (own(&door, &caller, &name)?, door.now());
    let period = period(&report, date, now).map_err(|(why, hint)| Problem::field("date", why, hint))?;
    let setup = door.setup();
    let figures = reports::figures(door.store(), &setup, &report, &period).await?;
    let language = language.or(report.language).unwrap_or_default();
    let link = setup.alerts.page("");
    let letter = report::letter(&figures, &period, link.as_deref(), language, now);
    view::ok(&StoryView {
        first: period.first,
        last: period.last,
        complete: period.until <= now,
        figures,
        subject: letter.subject,
        text: letter.text,
    })
}

/// Sends a report at once, to those who get it anyway.
pub(crate) async fn send(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let date = fields.text("date", 50).and_then(|text| match text.parse::<Date>() {
        Ok(date) => Some(date),
        Err(bad) => {
            let (why, hint) = told(&bad.to_string());
            fields.wrong("date", why, hint);
            None
        }
    });
    fields.end()?;
    let (report, now) = (own(&door, &caller, &name)?, door.now());
    let period = period(&report, date, now).map_err(|(why, hint)| Problem::field("date", why, hint))?;
    let setup = door.setup();
    let figures = reports::figures(door.store(), &setup, &report, &period).await?;
    let key = hex(&door.entropy()()[..16]);
    let mut owed = reports::owe(&report, &period, &figures, &setup.alerts, &key, now);
    if let Some((_, first)) = owed.first_mut() {
        first.record = Some(reports::record(&report, &period, &caller.actor(), now));
    }
    let notices = owed.iter().map(|(to, wish)| SentNotice { id: wish.id.clone(), to: to.clone() }).collect();
    door.store().shelve(owed.into_iter().map(|(_, wish)| wish).collect()).await?;
    tracing::info!(report = %report.name, key_id = caller.key_id, "a report was sent by hand");
    let (first, last) = (period.first, period.last);
    let document = serde_json::to_vec(&SentView { report: report.name.clone(), first, last, notices });
    Ok(view::answer(StatusCode::ACCEPTED, document.map_err(|_| Problem::internal())?))
}

/// The last period that has ended, or the one in which a date lies, if that has begun.
fn period(report: &Report, date: Option<Date>, now: Time) -> Result<Period, Wrong> {
    let Some(date) = date else { return Ok(report.schedule.latest(now)) };
    let period = report.schedule.period(date);
    match period.since < now {
        true => Ok(period),
        false => Err(("is yet to come".to_owned(), "name a day of the past, or today".to_owned())),
    }
}

fn language(text: &str) -> Result<Language, Wrong> {
    match text {
        "en" => Ok(Language::En),
        "pt-BR" => Ok(Language::PtBr),
        _ => Err(("is no language of reports".to_owned(), "there are en and pt-BR".to_owned())),
    }
}

/// What is wrong and what to write instead, from words that say both.
fn told(words: &str) -> Wrong {
    let (why, hint) = words.split_once("; ").unwrap_or((words, ""));
    (format!("is {why}"), hint.to_owned())
}

fn own(door: &Door, caller: &Caller, name: &str) -> Result<Report, Problem> {
    caller.may_use_all()?;
    let setup = door.setup();
    let found = setup.alerts.reports.get(name).filter(|report| report.tenant == caller.tenant);
    found.cloned().ok_or_else(|| {
        let hint = "GET /v1/reports and `pombo reports list` show them; [reports.NAME] makes one";
        Problem::new(Code::NotFound, "there is no report of this name", hint)
    })
}
