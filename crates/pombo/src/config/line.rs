//! What campaigns have to mind on a channel: hours, by name or as they are, gaps and caps.

use std::collections::BTreeMap;

use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::name::BadName;
use pombo_kernel::time::Span;
use pombo_kernel::window::{Window, Zone};
use toml::{Table, Value};

use super::channel::{Channel, Common};
use super::environment::joined;
use super::problem::suggestion;
use super::section::Reading;

/// A gap longer than a day would let nothing through.
const GAP_MAX_SECONDS: f64 = 86_400.0;

/// What all channels can refer to.
#[derive(Debug, Default)]
pub(super) struct Hours {
    pub(super) time_zone: Zone,
    windows: BTreeMap<String, Window>,
}

impl Hours {
    pub(super) fn read(reading: &mut Reading, time_zone: Option<Value>, windows: Option<Value>) -> Hours {
        let time_zone = time_zone.map(|value| value.as_str().unwrap_or_default().parse::<Zone>());
        if let Some(Err(bad)) = &time_zone {
            let words = bad.to_string();
            let (what, hint) = words.split_once("; ").unwrap_or((&words, "for example UTC"));
            reading.problems.say("time_zone", what, hint);
        }
        let mut hours =
            Hours { time_zone: time_zone.and_then(Result::ok).unwrap_or_default(), ..Hours::default() };
        for (name, table) in super::sections::<WindowName>(reading, "windows", windows) {
            let window = hours.window(reading, &format!("windows.{}", name.0), table);
            // One that cannot be read is there all the same, so that whoever names it hears of one problem only.
            hours.windows.insert(name.0, window.unwrap_or_else(always));
        }
        hours
    }

    /// The hours of a channel: those of that name, or those that stand there.
    pub(super) fn of_channel(&self, reading: &mut Reading, here: &str, value: Value) -> Option<Window> {
        let name = match value {
            Value::String(name) => name,
            Value::Table(table) => return self.window(reading, here, table),
            other => {
                let what = format!("hours are expected here, not {}", other.type_str());
                let hint = "name one of [windows], or write { hours = \"08:00-20:00\" }";
                reading.problems.say(here, what, hint);
                return None;
            }
        };
        let found = self.windows.get(&name).cloned();
        if found.is_none() {
            let hint = match self.windows.is_empty() {
                true => format!("add [windows.{name}] with `hours`"),
                false => suggestion(&name, self.windows.keys().map(String::as_str)),
            };
            reading.problems.say(here, format!("there are no hours of the name `{name}`"), hint);
        }
        found
    }

    fn window(&self, reading: &mut Reading, here: &str, mut table: Table) -> Option<Window> {
        let zone = || Value::String(self.time_zone.to_string());
        table.entry("time_zone").or_insert_with(zone);
        let required = Table::from_iter([("hours".to_owned(), Value::String("00:00-24:00".to_owned()))]);
        let window: Option<Window> = reading.section_with(here, table, &required);
        if window.as_ref().is_some_and(|window| window.days.is_empty()) {
            let hint = "name days such as \"mon\"; leave `days` out for all of them";
            reading.problems.say(joined(here, "days"), "there is no day on which it is open", hint);
        }
        window
    }
}

fn always() -> Window {
    let text = r#"{"hours": "00:00-24:00"}"#;
    serde_json::from_str(text).expect("these are hours")
}

/// Names of hours follow the rule of all names.
struct WindowName(String);

impl std::str::FromStr for WindowName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<WindowName, BadName> {
        text.parse::<pombo_kernel::name::LaneName>().map(|_| WindowName(text.to_owned()))
    }
}

pub(super) fn check(reading: &mut Reading, path: &str, common: &Common) {
    let gap = common.line_gap_seconds.unwrap_or(1.0);
    if !(gap > 0.0 && gap <= GAP_MAX_SECONDS) {
        let hint = "more than 0 and at most 86400; leave it out for no gap";
        reading.problems.say(joined(path, "line_gap_seconds"), format!("{gap} is out of bounds"), hint);
    }
}

/// What stores are told.
pub(super) fn rules(channel: &Channel, time_zone: &Zone) -> LineRules {
    LineRules {
        gap: channel.common.line_gap_seconds.map(|seconds| Span::from_secs(1).scaled(seconds)),
        daily_cap: channel.common.daily_cap.map(Into::into),
        window: channel.window.clone(),
        time_zone: time_zone.clone(),
    }
}
