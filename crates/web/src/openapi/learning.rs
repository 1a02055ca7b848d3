//! What retries have taught, and the rules that come of it.

use pombo_kernel::name::ChannelName;

use super::entry::{Entry, Param, entry, json, param, said, silent};
use crate::api::learning::LearningView;
use crate::api::page::Page;
use crate::api::rules::{Origin, RuleRequest, RuleView, SuggestionView, TrialView};
use crate::problem::Code;

const CHANNEL: Param = param::<ChannelName>("channel", "Of this channel alone.");
const RULE: Param = param::<String>("id", "`rule_` and 16 hexadecimal digits.");

const WRITTEN: &str = r#"{"channel": "email", "rule": {"contains": "engine is cold", "verdict": "transient", "category": "engine_cold"}}"#;

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/v1/learning", "learning", "How likely the next attempt is to pass, and how long outages last")
        .about(
            "By channel and the category of the failure before. What happened in the last eight weeks counts, and what \
             was tried fewer than `enough` times says so instead of a chance.",
        )
        .query(&[
            CHANNEL,
            param::<String>("category", "After failures of this category alone."),
            param::<String>("destination", "At this destination alone."),
        ])
        .answers(&[said::<LearningView>(200, "The curves and the outages.")]),
    entry("GET", "/v1/rules", "list_rules", "The rules that say what errors mean, in the order in which they are tried")
        .query(&[CHANNEL, param::<Origin>("origin", "Of this origin alone.")])
        .answers(&[said::<Page<RuleView>>(200, "All of them, in one page.")]),
    entry("GET", "/v1/rules/suggestions", "suggest_rules", "Errors that no rule knows, and what history suggests")
        .query(&[CHANNEL])
        .answers(&[said::<Page<SuggestionView>>(200, "The most frequent first, in one page.")]),
    entry("POST", "/v1/rules", "accept_rule", "Accepts a rule, suggested or written out")
        .about(
            "It comes after the configuration's rules and before the built-in ones, the newest first, and all nodes go \
             by it within seconds. Messages that failed already stay as they are.",
        )
        .needs(&[json::<RuleRequest>("RuleRequest", r#"{"suggestion": "sug_0123456789abcdef"}"#)])
        .answers(&[
            said::<RuleView>(200, "The rule that is there already."),
            said::<RuleView>(201, "The rule."),
        ])
        .codes(&[Code::NotFound, Code::TooManyRules]),
    entry("POST", "/v1/rules/try", "try_rule", "Says what a rule would change in the dead letters that there are")
        .about("Looks at the last error of the newest 2,000 dead letters of the channel, and changes nothing.")
        .needs(&[json::<RuleRequest>("RuleRequest", WRITTEN)])
        .answers(&[said::<TrialView>(200, "How many it would have decided, and what was decided then.")])
        .codes(&[Code::NotFound]),
    entry("DELETE", "/v1/rules/{id}", "remove_rule", "Takes back a rule that was accepted")
        .names(&[RULE])
        .answers(&[silent(204, "It is gone, and all nodes know within seconds.")]),
];
