//! Who is told when something is wrong, and from when on it is: `[alerts]`, `[alerts.RULE]` and `[notices.NAME]`.

use std::collections::BTreeMap;

use pombo_kernel::alert::{self, Language, Plan, RuleName, Severity, Unit};
use pombo_kernel::content;
use pombo_kernel::name::{ChannelName, NoticeName};
use pombo_kernel::notice::{Letter, Target};
use pombo_kernel::time::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use toml::{Table, Value};

use super::channel::Channel;
use super::environment::joined;
use super::problem::suggestion;
use super::section::Reading;

/// What alerts are looked at over, at most.
const WINDOW_MAX: Span = Span::from_hours(24);
const WINDOW_MIN: Span = Span::from_secs(10);

/// When something counts as wrong: how often it is looked at, and each rule by its name.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(super) struct Alerts {
    /// How often everything is looked at, for example "10s".
    #[schemars(default = "usual_every")]
    every: Span,
    #[schemars(flatten)]
    rules: BTreeMap<String, AlertRule>,
}

fn usual_every() -> Span {
    Plan::default().every
}

/// What is said of one rule; all else is as usual.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct AlertRule {
    /// Whether it is looked at; true or false.
    enabled: bool,
    /// How bad it is: "info", "warning" or "critical".
    severity: Option<Severity>,
    /// It is wrong above this: a number such as 100, a share such as "10%", or a length of time such as "5m".
    above: Option<Threshold>,
    /// It is over at this or below, for example 80.
    resolve_at: Option<Threshold>,
    /// What it is measured over, for example "1h".
    window: Option<Span>,
    /// Fewer than so many messages say nothing, for example 20.
    least: Option<u64>,
    /// It must be wrong for so long, for example "1m".
    r#for: Option<Span>,
    /// It must be over for so long, for example "5m".
    resolve_after: Option<Span>,
    /// How often people are reminded until somebody acknowledges, for example "4h"; "0s" for never.
    repeat: Option<Span>,
    /// Who is told, by the names of [notices]; all whom its severity concerns if this is left out.
    notify: Option<Vec<NoticeName>>,
}

impl Default for AlertRule {
    fn default() -> AlertRule {
        AlertRule {
            enabled: true,
            severity: None,
            above: None,
            resolve_at: None,
            window: None,
            least: None,
            r#for: None,
            resolve_after: None,
            repeat: None,
            notify: None,
        }
    }
}

/// Somebody who is told, through a channel.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Notice {
    /// The channel that notices go through, for example "smtp".
    channel: ChannelName,
    /// Who gets them there: an e-mail address, a phone number, a URL.
    to: String,
    /// Whatever is less grave is kept from them: "info", "warning" or "critical".
    #[serde(default = "usual_severity")]
    min_severity: Severity,
    /// The name of those who are told instead, if these cannot be reached.
    #[serde(default)]
    fallback: Option<NoticeName>,
    /// How long a notice may be on its way before the fallback gets it, for example "2m".
    #[serde(default = "usual_patience")]
    fallback_after: Span,
    /// What it is written in: "en" or "pt-BR".
    #[serde(default)]
    language: Language,
}

fn usual_severity() -> Severity {
    Severity::Info
}

fn usual_patience() -> Span {
    Span::from_mins(2)
}

/// A number, a share (`"10%"`) or a length of time (`"5m"`), as the rule has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Threshold {
    Number(f64),
    Words(String),
}

impl JsonSchema for Threshold {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Threshold".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "description": "a number, a share such as \"10%\", or a length of time such as \"5m\""
        })
    }
}

impl Threshold {
    /// The number in that unit, or how it is written.
    fn in_unit(&self, unit: Unit) -> Result<f64, &'static str> {
        let (hint, value) = match (unit, self) {
            (Unit::Count | Unit::Deviations | Unit::Megabytes, Threshold::Number(number)) => {
                ("at least 0", Some(*number))
            }
            (Unit::Count | Unit::Deviations, _) => ("write a number, for example 100", None),
            (Unit::Megabytes, _) => ("write millions of bytes as a number, for example 256", None),
            (Unit::Share, Threshold::Number(number)) => {
                ("from 0 to 1, or a string such as \"10%\"", Some(*number).filter(|share| *share <= 1.0))
            }
            (Unit::Share, Threshold::Words(words)) => {
                let percent = words.trim().strip_suffix('%').and_then(|text| text.trim().parse::<f64>().ok());
                let share = percent.map(|percent| percent / 100.0).filter(|share| *share <= 1.0);
                ("write a share, for example \"10%\"", share)
            }
            (Unit::Time, Threshold::Words(words)) => {
                let span = words.parse::<Span>().ok();
                ("write a length of time, for example \"5m\"", span.map(|span| span.seconds() * 1_000.0))
            }
            (Unit::Time, _) => ("write a length of time, for example \"5m\"", None),
        };
        value.filter(|value| value.is_finite() && *value >= 0.0).ok_or(hint)
    }
}

/// What is configured of alerts and notices.
pub(super) fn read(
    reading: &mut Reading,
    alerts: Option<Value>,
    notices: Option<Value>,
    channels: &BTreeMap<ChannelName, Channel>,
) -> Plan {
    let targets = read_targets(reading, notices, channels);
    let mut plan = Plan { targets, ..Plan::default() };
    let mut table = alerts.and_then(|value| reading.table("alerts", value)).unwrap_or_default();
    if let Some(every) = table.remove("every") {
        match every.as_str().and_then(|text| text.parse::<Span>().ok()) {
            Some(every) if every >= Span::from_millis(100) && every <= Span::from_mins(10) => {
                plan.every = every;
            }
            _ => reading.problems.say("alerts.every", "out of bounds", "from \"100ms\" to \"10m\""),
        }
    }
    for (name, value) in table {
        let here = joined("alerts", &name);
        let known = || RuleName::ALL.iter().map(|rule| rule.as_str());
        let Some(rule) = RuleName::ALL.iter().find(|rule| rule.as_str() == name) else {
            let hint = suggestion(&name, known().chain(["every"]));
            reading.problems.say(here, "there is no such rule", hint);
            continue;
        };
        let Some(table) = reading.table(&here, value) else { continue };
        let said: AlertRule = reading.section(&here, table);
        match said.enabled {
            true => {
                let rule = settle(reading, &here, &alert::Rule::usual(*rule), said, &plan.targets);
                plan.rules.insert(rule.name, rule);
            }
            false => drop(plan.rules.remove(rule)),
        }
    }
    plan
}

/// The rule with what was said of it.
fn settle(
    reading: &mut Reading,
    here: &str,
    usual: &alert::Rule,
    said: AlertRule,
    targets: &BTreeMap<NoticeName, Target>,
) -> alert::Rule {
    let unit = usual.name.unit();
    let mut number = |key: &str, said: Option<&Threshold>| match said?.in_unit(unit) {
        Ok(value) => Some(value),
        Err(hint) => {
            reading.problems.say(joined(here, key), "not a threshold of this rule", hint);
            None
        }
    };
    let above = number("above", said.above.as_ref());
    let resolve_at = number("resolve_at", said.resolve_at.as_ref());
    // Where only the threshold moves, the end moves along.
    let along = |above: f64| if usual.above > 0.0 { above * usual.resolve_at / usual.above } else { 0.0 };
    let resolve_at = resolve_at.or(above.map(along)).unwrap_or(usual.resolve_at);
    let above = above.unwrap_or(usual.above);
    if resolve_at > above {
        let hint = "at most `above`, or what is over would be wrong at the same time";
        reading.problems.say(joined(here, "resolve_at"), "higher than `above`", hint);
    }
    let window = said.window.unwrap_or(usual.window);
    if said.window.is_some() && !usual.name.has_window() {
        let hint = "leave it out: this rule looks at how things stand";
        reading.problems.say(joined(here, "window"), "has no effect", hint);
    } else if said.window.is_some_and(|window| window < WINDOW_MIN || window > WINDOW_MAX) {
        reading.problems.say(joined(here, "window"), "out of bounds", "from \"10s\" to \"24h\"");
    }
    check_names(reading, &joined(here, "notify"), said.notify.as_deref().unwrap_or_default(), targets);
    let repeat = said.repeat.map_or(usual.repeat, |repeat| Some(repeat).filter(|it| *it > Span::ZERO));
    alert::Rule {
        name: usual.name,
        severity: said.severity.unwrap_or(usual.severity),
        above,
        resolve_at,
        window,
        least: said.least.unwrap_or(usual.least),
        hold: said.r#for.unwrap_or(usual.hold),
        calm: said.resolve_after.unwrap_or(usual.calm),
        repeat,
        notify: said.notify,
    }
}

/// Names of notices must be those of somebody.
pub(super) fn check_names(
    reading: &mut Reading,
    here: &str,
    names: &[NoticeName],
    targets: &BTreeMap<NoticeName, Target>,
) {
    for name in names.iter().filter(|name| !targets.contains_key(*name)) {
        unknown(reading, here, name, targets.keys());
    }
}

fn unknown<'a>(
    reading: &mut Reading,
    here: &str,
    name: &NoticeName,
    known: impl Iterator<Item = &'a NoticeName>,
) {
    let hint = suggestion(name.as_str(), known.map(NoticeName::as_str));
    let what = format!("there are no notices of the name `{name}`");
    reading.problems.say(here, what, format!("{hint}; or add [notices.{name}]"));
}

fn read_targets(
    reading: &mut Reading,
    value: Option<Value>,
    channels: &BTreeMap<ChannelName, Channel>,
) -> BTreeMap<NoticeName, Target> {
    let mut targets = BTreeMap::new();
    let required = ["channel", "to"].map(|key| (key.to_owned(), Value::String("x".to_owned())));
    let required = Table::from_iter(required);
    let mut names = Vec::new();
    for (name, table) in super::sections::<NoticeName>(reading, "notices", value) {
        let here = format!("notices.{name}");
        names.push(name.clone());
        let Some(notice) = reading.section_with::<Notice>(&here, table, &required) else { continue };
        check_target(reading, &here, &notice, channels);
        let Notice { channel, to, min_severity, fallback, fallback_after: patience, language } = notice;
        let target = Target { name: name.clone(), channel, to, min_severity, fallback, patience, language };
        targets.insert(name, target);
    }
    for target in targets.values() {
        let Some(fallback) = &target.fallback else { continue };
        let here = format!("notices.{}.fallback", target.name);
        if *fallback == target.name {
            reading.problems.say(here, "these are the same", "name others, or leave it out");
        } else if !names.contains(fallback) {
            unknown(reading, &here, fallback, names.iter());
        }
    }
    targets
}

fn check_target(
    reading: &mut Reading,
    here: &str,
    notice: &Notice,
    channels: &BTreeMap<ChannelName, Channel>,
) {
    let Some(channel) = channels.get(&notice.channel) else {
        let hint = suggestion(notice.channel.as_str(), channels.keys().map(ChannelName::as_str));
        let what = format!("there is no channel `{}`", notice.channel);
        return reading.problems.say(joined(here, "channel"), what, hint);
    };
    let blank = Letter { subject: "x".to_owned(), text: "x".to_owned(), ..Letter::default() };
    let Some(content) = blank.content(channel.kind()) else {
        let what = format!("a channel of the kind {} carries no letters", channel.kind());
        return reading.problems.say(
            joined(here, "channel"),
            what,
            "name one for mail, WhatsApp or webhooks",
        );
    };
    for problem in content::check(channel.kind(), &notice.to, &content).err().into_iter().flatten() {
        let key = if problem.field == "to" { "to" } else { "channel" };
        reading.problems.say(joined(here, key), problem.reason, problem.hint);
    }
    if notice.fallback_after < Span::from_secs(1) || notice.fallback_after > Span::from_hours(24) {
        reading.problems.say(joined(here, "fallback_after"), "out of bounds", "from \"1s\" to \"24h\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Source};

    const NOTICES: &str = "[channels.crm]\nkind = \"webhook\"\n[channels.void]\nkind = \"null\"\n\
        [channels.claims]\nkind = \"tiss\"\n\
        [notices.ops]\nchannel = \"crm\"\nto = \"https://ops.example/\"\nfallback = \"night\"\n\
        [notices.night]\nchannel = \"void\"\nto = \"x\"\nmin_severity = \"critical\"\n";

    fn read(text: &str) -> Result<Plan, Vec<String>> {
        let text = format!("{NOTICES}{text}");
        match Config::parse(&text, Source::default(), &Environment::default()) {
            Ok(config) => Ok(config.alerts),
            Err(problems) => Err(problems.0.into_iter().map(|it| it.path).collect()),
        }
    }

    #[test] // REQ OB-4
    fn every_rule_is_there_unless_it_is_switched_off_and_thresholds_are_in_its_unit() {
        let plan = read(
            "[alerts]\nevery = \"1s\"\n[alerts.dead_letters]\nabove = 5\nnotify = [\"ops\"]\n\
             [alerts.failure_rate]\nabove = \"20%\"\nwindow = \"10m\"\nfor = \"0s\"\nrepeat = \"0s\"\n\
             [alerts.processing_time]\nabove = \"10m\"\n[alerts.disk_low]\nenabled = false\n",
        );
        let plan = plan.unwrap();
        assert_eq!(plan.every, Span::from_secs(1));
        assert_eq!(plan.rules.len(), RuleName::ALL.len() - 1);
        let of = |name| &plan.rules[&name];
        assert_eq!((of(RuleName::DeadLetters).above, of(RuleName::DeadLetters).resolve_at), (5.0, 4.0));
        let rate = of(RuleName::FailureRate);
        assert_eq!(
            (rate.above, rate.window, rate.hold, rate.repeat),
            (0.2, Span::from_mins(10), Span::ZERO, None)
        );
        assert!((rate.resolve_at - 0.16).abs() < 1e-9, "the end moves along");
        assert_eq!(of(RuleName::ProcessingTime).above, 600_000.0);
        let told = |rule| plan.told(of(rule)).iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
        assert_eq!(told(RuleName::DeadLetters), ["ops"]);
        assert_eq!(told(RuleName::PastDue), ["ops"], "a warning");
        assert_eq!(told(RuleName::FailureRate), ["night", "ops"], "critical");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_path() {
        for (text, paths) in [
            ("[alerts.dead_leters]\nabove = 1", &["alerts.dead_leters"][..]),
            ("[alerts.dead_letters]\nabove = \"5m\"", &["alerts.dead_letters.above"]),
            ("[alerts.failure_rate]\nabove = 10", &["alerts.failure_rate.above"]),
            ("[alerts.processing_time]\nabove = 5", &["alerts.processing_time.above"]),
            ("[alerts.dead_letters]\nabove = 5\nresolve_at = 6", &["alerts.dead_letters.resolve_at"]),
            ("[alerts.dead_letters]\nwindow = \"1h\"", &["alerts.dead_letters.window"]),
            ("[alerts.failure_rate]\nwindow = \"48h\"", &["alerts.failure_rate.window"]),
            ("[alerts.dead_letters]\nnotify = [\"nobody\"]", &["alerts.dead_letters.notify"]),
            ("[alerts.dead_letters]\ncolour = 1", &["alerts.dead_letters.colour"]),
            ("[alerts]\nevery = \"1h\"", &["alerts.every"]),
            ("[notices.a]\nchannel = \"cram\"\nto = \"x\"", &["notices.a.channel"]),
            ("[notices.a]\nchannel = \"crm\"\nto = \"nowhere\"", &["notices.a.to"]),
            ("[notices.a]\nchannel = \"claims\"\nto = \"x\"", &["notices.a.channel"]),
            ("[notices.a]\nchannel = \"void\"", &["notices.a.to"]),
            ("[notices.a]\nchannel = \"void\"\nto = \"x\"\nfallback = \"a\"", &["notices.a.fallback"]),
            ("[notices.a]\nchannel = \"void\"\nto = \"x\"\nfallback = \"b\"", &["notices.a.fallback"]),
        ] {
            assert_eq!(read(text).unwrap_err(), paths, "{text}");
        }
    }
}
