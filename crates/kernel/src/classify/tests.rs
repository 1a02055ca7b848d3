//! What holds for every kind and every table.

use std::collections::HashSet;

use super::{OneOf, Rule, Rules, Scope, Verdict};
use crate::kind::ChannelKind;
use crate::reply::{Enhanced, Fault, FaultKind, Receipt, Refusal, Reply, Stage};
use proptest::prelude::*;

fn refused(status: u16, text: &str) -> Reply {
    Reply::Refused(Refusal { status: Some(status), text: text.to_owned(), ..Refusal::default() })
}

fn rule(text: &str) -> Rule {
    toml::from_str(text).unwrap()
}

#[test] // REQ CF-1
fn every_built_in_table_loads_and_names_each_rule_once() {
    for kind in ChannelKind::ALL {
        let rules = Rules::for_kind(kind, &[]).unwrap();
        let ids: Vec<&str> = rules.iter().map(|(id, _)| id).collect();
        let unique: HashSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "{kind}");
        assert!(rules.iter().all(|(_, rule)| rule.id.is_some()), "{kind}");
        assert!(ids.len() > 10, "{kind}");
        let given: Vec<Rule> = rules.iter().map(|(_, rule)| rule.clone()).collect();
        assert_eq!(Rules::check(&given), [], "{kind}");
    }
}

#[test] // REQ CF-5, CF-7
fn only_a_permanent_error_suppresses_and_only_our_fault_or_our_limit_has_a_wide_scope() {
    for kind in ChannelKind::ALL {
        for (id, rule) in Rules::for_kind(kind, &[]).unwrap().iter() {
            assert!(!rule.suppress || rule.verdict == Verdict::Permanent, "{id}");
            let limit = ["rate_limited", "daily_quota"].contains(&rule.category.as_str());
            let ours = rule.verdict == Verdict::SenderFault || limit;
            assert!(rule.scope == Scope::Destination || ours, "{id}");
            assert!(!rule.destination_fault || rule.verdict == Verdict::Transient, "{id}");
        }
    }
}

#[test] // REQ CF-1
fn the_smtp_table_never_reads_the_words_of_a_fault() {
    let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
    for (id, rule) in rules.iter() {
        assert!(rule.fault.is_some() || rule.status.is_some() || rule.enhanced.is_some(), "{id}");
    }
}

#[test] // REQ CF-1
fn a_channels_own_rule_comes_first() {
    let teapot = rule("status = 418\ncontains = 'Teapot'\nverdict = 'permanent'\ncategory = 'teapot'");
    let ours = rule("id = 'busy'\nstatus = '5xx'\nverdict = 'permanent'\ncategory = 'busy'\nwait = '1h'");
    let rules = Rules::for_kind(ChannelKind::Evolution, &[teapot, ours.clone()]).unwrap();
    let of = |reply: &Reply| rules.classify(reply).unwrap();

    let seen = of(&refused(418, "I am a\n teaPOT"));
    assert_eq!((seen.category.as_str(), seen.rule.as_deref()), ("teapot", Some("channel:0")));
    assert_eq!(of(&refused(418, "kettle")).verdict, Verdict::UnknownTransient);
    let seen = of(&refused(503, ""));
    assert_eq!((seen.verdict, seen.rule.as_deref()), (Verdict::Permanent, Some("channel:busy")));
    assert_eq!(rules.rule("channel:busy"), Some(&ours));
    assert_eq!(rules.iter().next().map(|(id, _)| id), Some("channel:0"));
}

#[test] // REQ CF-1
fn every_bad_rule_is_reported_with_its_place() {
    let good = rule("status = 418\nverdict = 'permanent'\ncategory = 'teapot'");
    let open = Rule { status: None, ..good.clone() };
    let unnamed = Rule { category: String::new(), ..good.clone() };
    let list = [good, open, unnamed];
    assert_eq!(Rules::check(&list).iter().map(|bad| bad.index).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(Rules::for_kind(ChannelKind::Null, &list).unwrap_err().index, 1);
}

#[test] // REQ CF-1
fn all_matchers_of_a_rule_must_match() {
    let text = "stage = 'rcpt'\nname = ['a', '10-19']\ncontains_all = ['one', 'two']\nmatches = '^one'\n\
                verdict = 'permanent'\ncategory = 'all'";
    let rules = Rules::for_kind(ChannelKind::Null, &[rule(text)]).unwrap();
    let check = |stage: Stage, name: &str, text: &str, expected: bool| {
        let refusal =
            Refusal { stage, name: Some(name.to_owned()), text: text.to_owned(), ..Refusal::default() };
        let found = rules.classify(&Reply::Refused(refusal)).unwrap().rule.is_some();
        assert_eq!(found, expected, "{stage:?} {name} {text}");
    };
    check(Stage::Rcpt, "A", "ONE\ttwo", true);
    check(Stage::Rcpt, "15", "one two", true);
    check(Stage::Data, "a", "one two", false);
    check(Stage::Rcpt, "ab", "one two", false);
    check(Stage::Rcpt, "20", "one two", false);
    check(Stage::Rcpt, "a", "one", false);
    check(Stage::Rcpt, "a", "two one", false);
}

#[test] // REQ CF-2
fn what_no_rule_knows_is_retried() {
    let rules = Rules::for_kind(ChannelKind::Null, &[]).unwrap();
    let seen = rules.classify(&refused(400, "no")).unwrap();
    assert_eq!((seen.verdict, seen.category.as_str()), (Verdict::UnknownTransient, "unknown"));
    assert_eq!((seen.rule, seen.suppress, seen.destination_fault), (None, false, false));
}

#[test] // REQ CF-1
fn a_message_that_was_taken_is_not_classified() {
    let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
    assert_eq!(rules.classify(&Reply::Accepted(Receipt::default())), None);
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let text = prop_oneof!["\\PC*", "(?s).{0,200}", "[0-9. -]{0,20}\r\n[0-9é]{0,4}-[ -~]{0,80}"];
    let code = prop::option::of((any::<u8>(), any::<u16>(), any::<u16>()));
    let stage =
        prop::sample::select(vec![Stage::Request, Stage::Greeting, Stage::Auth, Stage::Rcpt, Stage::Data]);
    let refusal = (prop::option::of(any::<u16>()), code, prop::option::of("\\PC{0,20}"), stage, text.clone());
    let fault = prop::sample::select(vec![
        FaultKind::Dns,
        FaultKind::Tls,
        FaultKind::Timeout,
        FaultKind::Interrupted,
    ]);
    prop_oneof![
        refusal.prop_map(|(status, code, name, stage, text)| {
            let enhanced = code.map(|(class, subject, detail)| Enhanced { class, subject, detail });
            Reply::Refused(Refusal { status, enhanced, name, stage, text, ..Refusal::default() })
        }),
        (fault, text).prop_map(|(kind, text)| Reply::Doubtful(Fault { kind, text })),
    ]
}

proptest! {
    #[test] // REQ CF-1, CF-2
    fn any_reply_has_a_meaning_and_an_unknown_one_is_never_final(reply in any_reply()) {
        for kind in ChannelKind::ALL {
            let seen = Rules::for_kind(kind, &[]).unwrap().classify(&reply).unwrap();
            prop_assert!(seen.rule.is_some() || seen.verdict == Verdict::UnknownTransient);
            prop_assert!(!seen.suppress || seen.verdict == Verdict::Permanent);
            prop_assert!(!seen.category.is_empty());
        }
    }

    #[test] // REQ CF-1
    fn a_fault_is_read_by_its_kind_and_never_by_its_words(text in "\\PC*") {
        for kind in ChannelKind::ALL {
            let reply = Reply::Unreachable(Fault { kind: FaultKind::ConnectionReset, text: text.clone() });
            let seen = Rules::for_kind(kind, &[]).unwrap().classify(&reply).unwrap();
            prop_assert_eq!(seen.category, "connection_reset");
        }
    }

    #[test] // REQ CF-1
    fn no_text_makes_a_users_rule_panic(status in "\\PC{0,8}", enhanced in "[0-9x.-]{0,12}", regex in "\\PC{0,20}") {
        let mut odd = rule("verdict = 'transient'\ncategory = 'a'");
        odd.status = Some(OneOf(vec![status]));
        odd.enhanced = Some(OneOf(vec![enhanced]));
        odd.matches = Some(regex);
        let _ = Rules::for_kind(ChannelKind::Null, &[odd]);
    }
}
