//! What people are sent regularly: `[reports.NAME]`.

use std::collections::BTreeMap;

use pombo_kernel::alert::{Language, Plan};
use pombo_kernel::name::{NoticeName, ReportName, Tenant};
use pombo_kernel::report::{Every, Report as Settled, Schedule};
use pombo_kernel::window::{Day, Minute, Zone};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};

use super::alerts::check_names;
use super::environment::joined;
use super::section::Reading;

/// Figures of a day, a week or a month, sent when it has ended.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    /// How long a time it is about: "day", "week" or "month"; a report called daily, weekly or monthly says it by that.
    #[serde(default)]
    every: Option<Every>,
    /// The time of day at which it is sent, for example "08:00".
    #[serde(default = "usual_minute")]
    at: Minute,
    /// The day on which a week begins and its report is sent, for example "mon".
    #[serde(default)]
    day: Option<String>,
    /// Whose midnight and time of day it is, for example "America/Sao_Paulo"; `time_zone` of the file if left out.
    #[serde(default)]
    time_zone: Option<Zone>,
    /// Who gets it, by the names of [notices], for example ["ops"].
    notify: Vec<NoticeName>,
    /// What it is written in: "en" or "pt-BR"; what each of them reads if left out.
    #[serde(default)]
    language: Option<Language>,
    /// Whose messages it is about, for example "default".
    #[serde(default)]
    tenant: Tenant,
}

fn usual_minute() -> Minute {
    "08:00".parse().expect("a time of day")
}

const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// A day of the week by its name or the first three letters of it.
fn day(text: &str) -> Option<Day> {
    let short = if DAYS.contains(&text) { &text[..3] } else { text };
    short.parse().ok()
}

pub(super) fn read(
    reading: &mut Reading,
    value: Option<Value>,
    plan: &Plan,
) -> BTreeMap<ReportName, Settled> {
    let mut reports = BTreeMap::new();
    let required = Table::from_iter([("notify".to_owned(), Value::Array(Vec::new()))]);
    for (name, table) in super::sections::<ReportName>(reading, "reports", value) {
        let here = joined("reports", name.as_str());
        let Some(said) = reading.section_with::<Report>(&here, table, &required) else { continue };
        if said.notify.is_empty() && !reading.problems.0.iter().any(|it| it.path == joined(&here, "notify")) {
            reading.problems.say(joined(&here, "notify"), "nobody", "name at least one of [notices]");
        }
        check_names(reading, &joined(&here, "notify"), &said.notify, &plan.targets);
        let named = match name.as_str() {
            "daily" => Some(Every::Day),
            "weekly" => Some(Every::Week),
            "monthly" => Some(Every::Month),
            _ => None,
        };
        let every = said.every.or(named).unwrap_or_else(|| {
            let hint = "write \"day\", \"week\" or \"month\"; or call it daily, weekly or monthly";
            reading.problems.say(joined(&here, "every"), "missing", hint);
            Every::Day
        });
        let weekday = said.day.as_deref().map(day);
        match weekday {
            Some(None) => {
                let hint = "write mon, tue, wed, thu, fri, sat or sun";
                reading.problems.say(joined(&here, "day"), "not a day of the week", hint);
            }
            Some(Some(_)) if every != Every::Week => {
                let hint = "leave it out: only a weekly report has a day";
                reading.problems.say(joined(&here, "day"), "has no effect", hint);
            }
            _ => {}
        }
        let schedule = Schedule {
            every,
            day: weekday.flatten().unwrap_or(Day::ALL[0]),
            at: said.at,
            zone: said.time_zone.unwrap_or_else(|| plan.zone.clone()),
        };
        let Report { notify, language, tenant, .. } = said;
        reports.insert(name.clone(), Settled { name, tenant, schedule, notify, language });
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Source};

    const NOTICES: &str = "time_zone = \"America/Manaus\"\n[channels.void]\nkind = \"null\"\n\
        [notices.ops]\nchannel = \"void\"\nto = \"x\"\n";

    fn read(text: &str) -> Result<BTreeMap<ReportName, Settled>, Vec<String>> {
        let text = format!("{NOTICES}{text}");
        match Config::parse(&text, Source::default(), &Environment::default()) {
            Ok(config) => Ok(config.alerts.reports),
            Err(problems) => Err(problems.0.into_iter().map(|it| it.path).collect()),
        }
    }

    #[test] // REQ OB-6
    fn a_report_needs_to_know_only_who_gets_it() {
        let reports = read(
            "[reports.daily]\nnotify = [\"ops\"]\n\
             [reports.weekly]\nnotify = [\"ops\"]\nday = \"friday\"\nat = \"17:30\"\ntime_zone = \"UTC\"\n\
             [reports.board]\nnotify = [\"ops\"]\nevery = \"month\"\nlanguage = \"pt-BR\"\ntenant = \"clinic\"\n",
        );
        let reports = reports.unwrap();
        let Schedule { every, at, zone, .. } = &reports["daily"].schedule;
        assert_eq!(
            (*every, at.to_string(), zone.to_string()),
            (Every::Day, "08:00".into(), "America/Manaus".into())
        );
        let weekly = &reports["weekly"].schedule;
        assert_eq!(
            (weekly.every, weekly.day.to_string(), weekly.at.to_string()),
            (Every::Week, "fri".into(), "17:30".into())
        );
        assert_eq!(weekly.zone.to_string(), "UTC");
        let board = &reports["board"];
        assert_eq!(
            (board.schedule.every, board.language, board.tenant.as_str()),
            (Every::Month, Some(Language::PtBr), "clinic")
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_path() {
        for (text, path) in [
            ("[reports.daily]", "reports.daily.notify"),
            ("[reports.daily]\nnotify = []", "reports.daily.notify"),
            ("[reports.daily]\nnotify = [\"opps\"]", "reports.daily.notify"),
            ("[reports.mine]\nnotify = [\"ops\"]", "reports.mine.every"),
            ("[reports.daily]\nnotify = [\"ops\"]\nat = \"24:00\"", "reports.daily.at"),
            ("[reports.daily]\nnotify = [\"ops\"]\nday = \"mon\"", "reports.daily.day"),
            ("[reports.weekly]\nnotify = [\"ops\"]\nday = \"holiday\"", "reports.weekly.day"),
            ("[reports.daily]\nnotify = [\"ops\"]\ntime_zone = \"Brasilia\"", "reports.daily.time_zone"),
            ("[reports.daily]\nnotify = [\"ops\"]\ncolour = 1", "reports.daily.colour"),
        ] {
            assert_eq!(read(text).unwrap_err(), [path], "{text}");
        }
    }
}
