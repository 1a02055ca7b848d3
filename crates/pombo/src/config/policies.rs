//! Retry policies as the file names them, and whether channels can follow them.

use std::collections::BTreeMap;

use pombo_kernel::adapt::Adaptive;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::{ChannelName, PolicyName};
use pombo_kernel::policy::{Delays, Overrides, Policy, Profile};
use pombo_kernel::time::Span;
use toml::Value;

use super::channel::{self, Channel};
use super::environment::joined;
use super::problem::{listed, suggestion};
use super::section::Reading;
use super::sections;

pub(super) fn read_policies(
    reading: &mut Reading,
    value: Option<Value>,
    profile: Profile,
) -> BTreeMap<PolicyName, Policy> {
    let built_in = Policy::BUILT_IN.iter().filter_map(|name| Policy::built_in(name, profile));
    let mut policies: BTreeMap<_, _> = built_in.map(|policy| (policy.name.clone(), policy)).collect();
    for (name, table) in sections::<PolicyName>(reading, "policies", value) {
        let path = format!("policies.{name}");
        let before = reading.problems.0.len();
        let changes = channel::read_overrides(reading, &path, table);
        let base = match policies.get(&name) {
            Some(policy) => policy.clone(),
            None => {
                incomplete(reading, &path, &name, &changes);
                blank(&name)
            }
        };
        let policy = base.with(&changes);
        if reading.problems.0.len() == before {
            check_policy(reading, &path, &policy);
        }
        policies.insert(name, policy);
    }
    policies
}

/// A policy of one's own says at least how often and when.
fn incomplete(reading: &mut Reading, path: &str, name: &PolicyName, changes: &Overrides) {
    if changes.delays.is_some() || (changes.attempts.is_some() && changes.base.is_some()) {
        return;
    }
    let known = Policy::BUILT_IN;
    let near = suggestion(name.as_str(), known);
    let near =
        if near.starts_with("did you mean") { near } else { format!("built in are {}", listed(known)) };
    let hint = format!("give `delays`, or `attempts` and `base`; {near}");
    reading.problems.say(path, "a new policy that is not complete", hint);
}

fn blank(name: &PolicyName) -> Policy {
    let day = Span::from_hours(24);
    Policy {
        name: name.clone(),
        attempts: 1,
        delays: Delays::Listed(Vec::new()),
        floor: Span::ZERO,
        cap: day,
        jitter: 0.0,
        max_hint: day,
        expires_after: None,
        adaptive: Adaptive::Off,
    }
}

fn check_policy(reading: &mut Reading, path: &str, policy: &Policy) {
    for bad in policy.problems() {
        let what = match bad.problem.contains("24 h") {
            true => format!("the whole schedule takes up to {}", policy.longest()),
            false => "out of bounds".to_owned(),
        };
        reading.problems.say(joined(path, bad.field), what, bad.problem);
    }
}

/// The policy that a channel follows, with its own changes; nothing if there is none of that name.
pub(super) fn effective(channel: &Channel, policies: &BTreeMap<PolicyName, Policy>) -> Option<Policy> {
    policies.get(channel.policy()).map(|policy| policy.with(&channel.retry))
}

pub(super) fn check_channel_policies(
    reading: &mut Reading,
    channels: &BTreeMap<ChannelName, Channel>,
    policies: &BTreeMap<PolicyName, Policy>,
) {
    for (name, channel) in channels {
        let path = format!("channels.{name}");
        let Some(policy) = effective(channel, policies) else {
            let what = format!("there is no policy `{}`", channel.policy());
            let hint = suggestion(channel.policy(), policies.keys().map(PolicyName::as_str));
            let hint = format!("{hint}; or add [policies.{}]", channel.policy());
            reading.problems.say(joined(&path, "policy"), what, hint);
            continue;
        };
        if channel.retry != Overrides::default() {
            check_policy(reading, &joined(&path, "retry"), &policy);
        }
        // The built-in check knows claims by the policy's name; a claims channel may follow another one.
        let day = Span::from_hours(24);
        let unchecked = policy.name.as_str() != channel::default_policy(ChannelKind::Tiss);
        if channel.kind() == ChannelKind::Tiss && unchecked && policy.longest() > day {
            let what = format!("the whole schedule of `{}` takes up to {}", policy.name, policy.longest());
            reading.problems.say(
                joined(&path, "policy"),
                what,
                "a claim's whole schedule must fit in 24 h, so that the 48 h deadline leaves time to act",
            );
        }
    }
}
