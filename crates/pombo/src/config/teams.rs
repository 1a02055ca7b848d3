//! Who looks after which dead letters: `[teams.NAME]`.

use std::collections::{BTreeMap, BTreeSet};

use pombo_kernel::alert::Plan;
use pombo_kernel::digest::{GATHER, Team as Settled};
use pombo_kernel::message::FailureReason;
use pombo_kernel::name::{ChannelName, NoticeName, TeamName};
use pombo_kernel::time::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Value;

use super::alerts::check_names;
use super::channel::Channel;
use super::environment::joined;
use super::problem::suggestion;
use super::section::Reading;

const GATHER_MIN: Span = Span::from_secs(1);
const GATHER_MAX: Span = Span::from_hours(24);

/// People who are told of dead letters, in digests: of those that fit all that is said here. Whoever says more is asked
/// first, and whoever says nothing gets what nobody else does.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Team {
    /// Who is told, by the names of [notices]; the one of the team's own name if this is left out.
    notify: Option<Vec<NoticeName>>,
    /// Only claims: of channels for them, and those that others submit; true or false.
    claims: Option<bool>,
    /// Only of these channels, for example ["claims"].
    channels: Option<BTreeSet<ChannelName>>,
    /// Only those that failed for one of these reasons, for example ["max_retries_exceeded"].
    reasons: Option<BTreeSet<FailureReason>>,
    /// Only those whose last error was of one of these categories, for example ["invalid_patient_data"].
    categories: Option<BTreeSet<String>>,
    /// How long dead letters are gathered into one notice, and while it goes on, for example ["5m", "15m", "1h"].
    gather: Option<Vec<Span>>,
}

/// The teams that are configured, and the built-in ones whose name somebody has who can be told; whoever says most of
/// which letters are theirs first.
pub(super) fn read(
    reading: &mut Reading,
    value: Option<Value>,
    plan: &Plan,
    channels: &BTreeMap<ChannelName, Channel>,
) -> Vec<Settled> {
    let mut teams = BTreeMap::new();
    for (name, table) in super::sections::<TeamName>(reading, "teams", value) {
        let here = joined("teams", name.as_str());
        let said: Team = reading.section(&here, table);
        let team = settle(reading, &here, name, said, plan, channels);
        teams.insert(team.name.clone(), team);
    }
    for built_in in Settled::built_in() {
        let told = plan.targets.get(built_in.name.as_str());
        if let (Some(target), false) = (told, teams.contains_key(&built_in.name)) {
            let notify = vec![target.name.clone()];
            teams.insert(built_in.name.clone(), Settled { notify, ..built_in });
        }
    }
    let mut teams: Vec<_> = teams.into_values().collect();
    teams.sort_by_key(|team| std::cmp::Reverse(team.says()));
    teams
}

fn settle(
    reading: &mut Reading,
    here: &str,
    name: TeamName,
    said: Team,
    plan: &Plan,
    channels: &BTreeMap<ChannelName, Channel>,
) -> Settled {
    let Team { notify, claims, channels: own, reasons, categories, gather } = said;
    let notify = notify.unwrap_or_else(|| name.as_str().parse().into_iter().collect());
    if notify.is_empty() {
        reading.problems.say(joined(here, "notify"), "nobody", "name at least one of [notices]");
    }
    check_names(reading, &joined(here, "notify"), &notify, &plan.targets);
    for channel in own.iter().flatten().filter(|channel| !channels.contains_key(*channel)) {
        let hint = suggestion(channel.as_str(), channels.keys().map(ChannelName::as_str));
        reading.problems.say(joined(here, "channels"), format!("there is no channel `{channel}`"), hint);
    }
    let gather = gather.unwrap_or_else(|| GATHER.into());
    if gather.is_empty() || gather.iter().any(|span| *span < GATHER_MIN || *span > GATHER_MAX) {
        let hint = "one length of time or more, each from \"1s\" to \"24h\"";
        reading.problems.say(joined(here, "gather"), "out of bounds", hint);
    }
    // What a built-in name stands for holds until something else is said.
    let silent = claims.is_none() && own.is_none() && reasons.is_none() && categories.is_none();
    let built_in = Settled::built_in().into_iter().find(|team| silent && team.name == name);
    if let Some(team) = built_in {
        return Settled { notify, gather, ..team };
    }
    let lower = |category: String| category.to_ascii_lowercase();
    Settled {
        name,
        notify,
        claims: claims.unwrap_or_default(),
        channels: own.unwrap_or_default(),
        reasons: reasons.unwrap_or_default(),
        categories: categories.unwrap_or_default().into_iter().map(lower).collect(),
        gather,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Source};

    const NOTICES: &str = "[channels.void]\nkind = \"null\"\n[channels.claims]\nkind = \"tiss\"\n\
        [notices.ops]\nchannel = \"void\"\nto = \"x\"\n[notices.billing]\nchannel = \"void\"\nto = \"y\"\n";

    fn read(text: &str) -> Result<Vec<Settled>, Vec<String>> {
        let text = format!("{NOTICES}{text}");
        match Config::parse(&text, Source::default(), &Environment::default()) {
            Ok(config) => Ok(config.alerts.teams),
            Err(problems) => Err(problems.0.into_iter().map(|it| it.path).collect()),
        }
    }

    #[test] // REQ DL-5
    fn a_built_in_team_is_there_as_soon_as_somebody_of_its_name_can_be_told() {
        let teams = read("").unwrap();
        assert_eq!(teams.iter().map(|team| team.name.as_str()).collect::<Vec<_>>(), ["billing"]);
        assert!(teams[0].claims && teams[0].reasons.contains(&FailureReason::MaxRetriesExceeded));
        assert_eq!(teams[0].notify[0].as_str(), "billing");
        assert_eq!(teams[0].gather, GATHER);
    }

    #[test] // REQ DL-5
    fn whoever_says_more_of_which_letters_are_theirs_comes_first() {
        let teams = read(
            "[teams.administrator]\nnotify = [\"ops\"]\n\
             [teams.claims-desk]\nnotify = [\"ops\"]\nchannels = [\"claims\"]\n\
             [teams.billing]\nnotify = [\"ops\", \"billing\"]\ngather = [\"1m\"]\n\
             [teams.front]\nnotify = [\"ops\"]\ncategories = [\"INVALID_PATIENT_DATA\"]\nreasons = [\"expired\"]\n\
             channels = [\"claims\"]\n",
        );
        let teams = teams.unwrap();
        let names: Vec<_> = teams.iter().map(|team| team.name.as_str()).collect();
        assert_eq!(names, ["front", "billing", "claims-desk", "administrator"]);
        assert!(teams[0].categories.contains("invalid_patient_data"));
        assert!(teams[1].claims && teams[1].gather == [Span::from_mins(1)], "what its name stands for");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_path() {
        for (text, path) in [
            ("[teams.a]", "teams.a.notify"),
            ("[teams.a]\nnotify = []", "teams.a.notify"),
            ("[teams.a]\nnotify = [\"opps\"]", "teams.a.notify"),
            ("[teams.ops]\nchannels = [\"smoke\"]", "teams.ops.channels"),
            ("[teams.ops]\nreasons = [\"bad luck\"]", "teams.ops.reasons"),
            ("[teams.ops]\ngather = []", "teams.ops.gather"),
            ("[teams.ops]\ngather = [\"5m\", \"2d\"]", "teams.ops.gather"),
            ("[teams.ops]\ncolour = 1", "teams.ops.colour"),
        ] {
            assert_eq!(read(text).unwrap_err(), [path], "{text}");
        }
    }
}
