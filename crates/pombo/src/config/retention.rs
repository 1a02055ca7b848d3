//! How long things are kept once they have ended.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::ChannelName;
use pombo_kernel::retention::{CLAIMS_MIN, KEPT_MIN, Keep, Kept, Plan, too_little};
use pombo_kernel::setup::EVENTS;
use pombo_kernel::time::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::channel::Channel;
use super::environment::joined;
use super::section::Reading;

/// Operations, alerts that are over and notices that arrived are kept for so long if nothing is said.
const OPERATIONS: Span = Span::from_hours(30 * 24);

/// What is kept of messages that have ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Messages {
    /// Those that were sent: "all", for a time after that such as "90d", or the last of each channel, { last = 100 }.
    pub sent: Option<Share>,
    /// Dead letters that nobody has decided about: "all", "365d" or { last = 50 }.
    pub failed: Option<Share>,
    /// Those that were cancelled: "all", "90d" or { last = 100 }.
    pub cancelled: Option<Share>,
    /// Dead letters that were given up: "all", "90d" or { last = 100 }.
    pub discarded: Option<Share>,
}

/// How long things are kept once they have ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Retention {
    /// Messages that were sent: "all", for a time after that such as "90d", or the last of each channel, { last = 100 }.
    pub sent: Option<Share>,
    /// Dead letters that nobody has decided about: "all", "365d" or { last = 50 }.
    pub failed: Option<Share>,
    /// Messages that were cancelled: "all", "90d" or { last = 100 }.
    pub cancelled: Option<Share>,
    /// Dead letters that were given up: "all", "90d" or { last = 100 }.
    pub discarded: Option<Share>,
    /// Campaigns that are over, with their lists: "all" or a time such as "365d".
    pub campaigns: Option<Share>,
    /// Operations, alerts that are over and notices that arrived: "all" or a time such as "30d".
    pub operations: Option<Share>,
    /// Retry decisions of claims: "all" or a time of at least "1826d".
    pub decisions: Option<Share>,
}

/// What is kept, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(Keep);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        struct Written;
        impl<'de> Visitor<'de> for Written {
            type Value = Share;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("\"all\", a time such as \"90d\", or { last = 100 }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Share, E> {
                match text {
                    "all" => Ok(Share(Keep::All)),
                    text => text.parse().map(|span| Share(Keep::For(span))).map_err(|_| {
                        E::custom(format!("`{text}` is no time; write \"all\", \"90d\" or {{ last = 100 }}"))
                    }),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Share, A::Error> {
                let entry = map.next_entry::<String, u64>()?;
                match (entry, map.next_key::<String>()?) {
                    (Some((key, last)), None) if key == "last" => Ok(Share(Keep::Last(last))),
                    _ => Err(A::Error::custom("only `last` can stand here; for example { last = 100 }")),
                }
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Kept".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "\"all\", a time after the end such as \"90d\", or the last ones.",
            "oneOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "required": ["last"],
                    "maxProperties": 1,
                },
            ],
        })
    }
}

/// The sections of channels, which are read once the channels are known.
pub(super) fn take(table: &mut Table) -> BTreeMap<String, Value> {
    let channels = table.get_mut("channels").and_then(Value::as_table_mut);
    let channels = channels
        .into_iter()
        .flatten()
        .filter_map(|(name, channel)| Some((name.clone(), channel.as_table_mut()?.remove("retention")?)));
    channels.collect()
}

/// Reads what is kept in general, and what each channel says of its own.
pub(super) fn read(
    reading: &mut Reading,
    general: Option<Value>,
    own: &BTreeMap<String, Value>,
    channels: &BTreeMap<ChannelName, Channel>,
) -> Plan {
    let table = general.and_then(|value| reading.table("retention", value)).unwrap_or_default();
    let general: Retention = reading.section("retention", table);
    let Retention { sent, failed, cancelled, discarded, campaigns, operations, decisions } = general;
    let general = Messages { sent, failed, cancelled, discarded };
    // For claims it is read as meant for the rest, unless it is long enough for them, too.
    check(reading, "retention", general, None);
    let mut rules: Vec<(ChannelName, Kept)> = Vec::new();
    for (name, channel) in channels {
        let here = format!("channels.{name}.retention");
        let table = own.get(name.as_str()).and_then(|value| reading.table(&here, value.clone()));
        let messages: Messages = reading.section(&here, table.unwrap_or_default());
        check(reading, &here, messages, Some(channel.kind()));
        rules.push((name.clone(), kept(messages, general, channel.kind())));
    }
    // Tellings of events: Pombo's own channel.
    rules.extend(EVENTS.parse().map(|name| (name, kept(Messages::default(), general, ChannelKind::Webhook))));
    Plan {
        rules: rules.into_iter().collect(),
        campaigns: span(reading, "campaigns", campaigns, KEPT_MIN),
        operations: span(reading, "operations", operations.or(Some(Share(Keep::For(OPERATIONS)))), KEPT_MIN),
        decisions: span(reading, "decisions", decisions, CLAIMS_MIN),
    }
}

/// Months go whole, with the claims in them.
pub(super) fn check_months(
    reading: &mut Reading,
    keep: Option<Span>,
    channels: &BTreeMap<ChannelName, Channel>,
) {
    let claims = channels.values().any(|it| it.kind() == ChannelKind::Tiss);
    if keep.is_some_and(|keep| keep < CLAIMS_MIN) && claims {
        let what = "is less than the five years (1826d) that claims are kept by law, and months go whole";
        let hint = "leave it out, and say in [retention] what is kept of other channels";
        reading.problems.say("store.keep", what, hint);
    }
}

/// What a channel says of each state, else what is said in general.
fn kept(own: Messages, general: Messages, kind: ChannelKind) -> Kept {
    let of = |own: Option<Share>, general: Option<Share>| {
        let general = general.map_or(Keep::All, |share| share.0);
        let general = if too_little(general, Some(kind)).is_none() { general } else { Keep::All };
        own.map_or(general, |share| share.0)
    };
    Kept {
        sent: of(own.sent, general.sent),
        failed: of(own.failed, general.failed),
        cancelled: of(own.cancelled, general.cancelled),
        discarded: of(own.discarded, general.discarded),
    }
}

fn check(reading: &mut Reading, path: &str, messages: Messages, kind: Option<ChannelKind>) {
    let Messages { sent, failed, cancelled, discarded } = messages;
    for (key, share) in
        [("sent", sent), ("failed", failed), ("cancelled", cancelled), ("discarded", discarded)]
    {
        let Some(Share(keep)) = share else { continue };
        if let Some(why) = too_little(keep, Some(kind.unwrap_or(ChannelKind::Null))) {
            let hint = match kind {
                Some(ChannelKind::Tiss) => {
                    "\"all\" or \"1826d\" and more: guides, attempts and answers may be asked for that long"
                }
                _ => "\"1h\" at least; \"all\" keeps everything",
            };
            reading.problems.say(joined(path, key), why, hint);
        }
    }
}

fn span(reading: &mut Reading, key: &str, share: Option<Share>, least: Span) -> Option<Span> {
    let here = joined("retention", key);
    match share?.0 {
        Keep::All => None,
        Keep::For(span) if span >= least => Some(span),
        Keep::For(_) => {
            let why = match least == CLAIMS_MIN {
                true => "is less than the five years (1826d) that claims are kept by law",
                false => "is less than an hour",
            };
            reading.problems.say(here, why, "\"all\" keeps everything");
            None
        }
        Keep::Last(_) => {
            reading.problems.say(here, "cannot be counted", "write \"all\" or a time such as \"365d\"");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use pombo_kernel::message::StateName;

    use super::*;
    use crate::config::{Config, Environment, Source};

    const DAY: Span = Span::from_hours(24);
    const CHANNELS: &str = "[channels.mail]\nkind = 'null'\n[channels.guides]\nkind = 'tiss'\n";

    fn read(text: &str) -> Result<Config, Vec<String>> {
        let text = format!("{text}\n{CHANNELS}");
        let read = Config::parse(&text, Source::default(), &Environment::default());
        read.map_err(|problems| {
            problems.0.into_iter().map(|it| format!("{}: {}", it.path, it.what)).collect()
        })
    }

    fn of(config: &Config, channel: &str, state: StateName) -> Keep {
        config.setup().retention.rules.of(&channel.parse().unwrap(), state)
    }

    #[test] // REQ AU-2
    fn everything_is_kept_unless_somebody_says_otherwise() {
        let config = read("").unwrap();
        let plan = config.setup().retention;
        assert!(plan.rules.keeps_all());
        assert_eq!((plan.campaigns, plan.decisions), (None, None));
        assert_eq!(plan.operations, Some(Span::from_hours(30 * 24)));
        assert_eq!(read("[retention]\noperations = 'all'").unwrap().setup().retention.operations, None);
    }

    #[test] // REQ AU-2
    fn a_channel_says_what_it_keeps_and_the_rest_goes_by_what_is_said_in_general() {
        let text = "[retention]\nsent = '90d'\ncancelled = { last = 100 }\ncampaigns = '365d'\n\
                    [channels.mail.retention]\nsent = '1h'\nfailed = { last = 50 }";
        let config = read(text).unwrap();
        assert_eq!(of(&config, "mail", StateName::Sent), Keep::For(KEPT_MIN));
        assert_eq!(of(&config, "mail", StateName::Failed), Keep::Last(50));
        assert_eq!(of(&config, "mail", StateName::Cancelled), Keep::Last(100));
        assert_eq!(of(&config, "mail", StateName::Discarded), Keep::All);
        assert_eq!(of(&config, "events", StateName::Sent), Keep::For(Span::from_hours(90 * 24)));
        assert_eq!(config.setup().retention.campaigns, Some(Span::from_hours(365 * 24)));
    }

    #[test] // REQ AU-1, AU-2
    fn claims_are_never_kept_shorter_than_five_years() {
        let general = read("[retention]\nsent = '90d'\nfailed = '3650d'").unwrap();
        assert_eq!(of(&general, "guides", StateName::Sent), Keep::All, "meant for the others");
        assert_eq!(of(&general, "guides", StateName::Failed), Keep::For(Span::from_hours(3_650 * 24)));
        let own = |text: &str| read(&format!("[channels.guides.retention]\n{text}"));
        assert_eq!(of(&own("sent = '1826d'").unwrap(), "guides", StateName::Sent), Keep::For(CLAIMS_MIN));
        for wrong in ["sent = '1825d'", "sent = { last = 1000000 }"] {
            let found = own(wrong).unwrap_err();
            assert!(found.len() == 1 && found[0].contains("five years"), "{wrong}: {found:?}");
        }
        let found = read("[retention]\ndecisions = '365d'").unwrap_err();
        assert!(found[0].starts_with("retention.decisions: is less than the five years"), "{found:?}");
    }

    #[test]
    fn what_cannot_be_kept_that_way_is_refused_where_it_stands() {
        for (wrong, path) in [
            ("[retention]\nsent = '59m'", "retention.sent: is less than an hour"),
            ("[retention]\nsent = 'some'", "retention.sent: `some` is no time"),
            ("[retention]\nsent = { first = 1 }", "retention.sent: only `last`"),
            ("[retention]\nsent = 90", "retention.sent"),
            ("[retention]\ncampaigns = { last = 3 }", "retention.campaigns: cannot be counted"),
            ("[retention]\npending = '90d'", "retention.pending: unknown key"),
            (
                "[channels.mail.retention]\ncampaigns = '90d'",
                "channels.mail.retention.campaigns: unknown key",
            ),
            ("[channels.mail.retention]\nsent = '1m'", "channels.mail.retention.sent: is less than an hour"),
        ] {
            let found = read(wrong).unwrap_err();
            assert!(found.len() == 1 && found[0].starts_with(path), "{wrong}: {found:?}");
        }
        assert!(DAY > KEPT_MIN);
    }
}
