use std::collections::BTreeMap;

use super::*;
use crate::block::BlockKind;
use crate::message::FailureReason;

/// The start of an hour.
const T0: Time = Time::from_millis(1_800_000_000_000);
const TICK: Span = Span::from_secs(10);
const WINDOW: Span = Span::from_hours(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Good,
    /// Between the number at which it is over and the one above which it is wrong.
    Middling,
    Bad,
}
use Level::{Bad, Good, Middling};

/// A store that is measured every ten seconds, without the store.
struct World {
    rule: Rule,
    now: Time,
    meter: Meter,
    counted: BTreeMap<(i64, Key), i64>,
    watches: BTreeMap<String, Watch>,
    firing: Vec<Alert>,
}

fn pick<T>(level: Level, good: T, middling: T, bad: T) -> T {
    match level {
        Good => good,
        Middling => middling,
        Bad => bad,
    }
}

fn channel() -> ChannelName {
    "smtp".parse().unwrap()
}

fn key(what: What, detail: &str) -> Key {
    Key { tenant: Tenant::default(), channel: Some(channel()), what, detail: detail.to_owned() }
}

impl World {
    fn new(rule: Rule) -> World {
        let meter = Meter::default();
        let (counted, watches) = (BTreeMap::new(), BTreeMap::new());
        World { rule, now: T0, meter, counted, watches, firing: Vec::new() }
    }

    fn of(name: RuleName) -> World {
        World::new(Rule::usual(name))
    }

    fn count(&mut self, what: What, detail: &str, count: i64) {
        *self.counted.entry((self.now.hour(), key(what, detail))).or_default() += count;
    }

    /// What a rule finds at that level.
    fn facts(&mut self, level: Level) -> Facts {
        let (tenant, channel, now) = (Tenant::default(), channel(), self.now);
        let due = |mins: u64| Queue {
            tenant: Tenant::default(),
            channel: self::channel(),
            past_due: mins,
            oldest_due: (mins > 0).then(|| now - Span::from_mins(mins)),
        };
        let block = |kind| Blocked {
            tenant: Tenant::default(),
            channel: self::channel(),
            destination: None,
            is_whole: true,
            kind,
            reason: "401 from the provider".to_owned(),
            since: now,
        };
        let only_bad = |good: usize| if level == Bad { 1 } else { good };
        let mut facts = Facts::default();
        match self.rule.name {
            RuleName::DeadLetters => facts.dead.push(Dead {
                tenant,
                channel,
                category: "invalid_recipient".to_owned(),
                text: "550 user unknown".to_owned(),
                count: pick(level, 3, 90, 130),
                newest: "msg_1".to_owned(),
                last_at: now,
            }),
            RuleName::FailureRate => {
                self.count(What::Sent, "", pick(level, 100, 91, 50));
                self.count(What::Failed, "", pick(level, 0, 9, 50));
            }
            RuleName::MaxRetries | RuleName::PermanentErrors => {
                let (reason, middling) = match self.rule.name {
                    RuleName::MaxRetries => (FailureReason::MaxRetriesExceeded, 45),
                    _ => (FailureReason::PermanentError, 135),
                };
                let failed = pick(level, 0, middling, 500);
                self.count(What::Sent, "", 1_000 - failed);
                self.count(What::Failed, "", failed);
                self.count(What::FailedFor, reason.as_str(), failed);
            }
            RuleName::TemplateFailing => {
                self.count(What::SentByTemplate, "welcome", pick(level, 100, 55, 5));
                self.count(What::FailedByTemplate, "welcome", pick(level, 0, 45, 95));
            }
            RuleName::ProcessingTime => {
                let span = Span::from_secs(pick(level, 2, 270, 360));
                facts.queues.push(Queue { oldest_due: Some(now - span), ..due(1) });
            }
            RuleName::PastDue => {
                facts.queues.push(Queue {
                    past_due: pick(level, 5, 45, 60),
                    oldest_due: Some(now),
                    ..due(1)
                });
            }
            RuleName::NoScheduling => match level {
                // Some wait and some are tried.
                Good => {
                    self.count(What::Attempts, "", 1);
                    facts.queues.push(due(0));
                }
                Middling => facts.queues.push(due(5)),
                Bad => facts.queues.push(due(60)),
            },
            RuleName::DecisionTime => {
                facts.decisions.push((tenant, Span::from_millis(pick(level, 20, 900, 1_500)), 3));
            }
            RuleName::ClaimDeadline => {
                facts.claims.extend((0..only_bad(0)).map(|_| Claims {
                    tenant: Tenant::default(),
                    channel: self::channel(),
                    count: 2,
                    soonest: now + Span::from_hours(20),
                    message: "msg_1".to_owned(),
                }));
            }
            RuleName::ChannelHeld => {
                facts.blocks.extend((0..only_bad(0)).map(|_| block(BlockKind::Hold)));
            }
            RuleName::BreakerOpen => {
                facts.blocks.extend((0..only_bad(0)).map(|_| block(BlockKind::Breaker)));
            }
            RuleName::Anomaly => {
                // Six an hour is usual. Four standard deviations lie between the two numbers.
                facts.usual = vec![Usual { key: key(What::AttemptFailed, "timeout"), hours: vec![6; 30] }];
                facts.usual_hours = 30;
                self.count(What::AttemptFailed, "timeout", pick(level, 0, 0, 2));
                if level == Middling {
                    // Twenty in an hour, as long as it lasts.
                    let so_far = self.meter.over(WINDOW, now).map(|(_, count)| count).sum::<u64>();
                    self.count(What::AttemptFailed, "timeout", i64::from(so_far < 19));
                }
            }
            RuleName::StoreUnwritable => {
                facts.unwritable = (level == Bad).then(|| (Span::from_secs(12), "disk full".to_owned()));
            }
            RuleName::AuditBroken => facts.audit_broken = (level == Bad).then(|| "block 7".to_owned()),
            RuleName::DiskLow => facts.disk_used = Some(pick(level, 0.5, 0.89, 0.93)),
            RuleName::LogLarge => facts.log_mb = Some(pick(level, 18.4, 230.0, 300.0)),
            RuleName::ClockJumped => {
                // Two readings of a clock are never taken in the very same moment.
                let moved = pick(level, Span::from_millis(1), Span::from_secs(5), Span::from_secs(90));
                facts.jump = Some(Jump::Ahead(moved));
            }
        }
        facts
    }

    /// One look.
    fn tick(&mut self, level: Level) -> Vec<Change> {
        let facts = self.facts(level);
        let since = self.meter.since(WINDOW, self.now).hour();
        let counts = self.counted.iter().filter(|((hour, _), _)| *hour >= since);
        let counts: Vec<_> = counts
            .map(|((hour, key), count)| (Time::from_millis(hour * 3_600_000), key.clone(), *count))
            .collect();
        self.meter.take(counts, WINDOW, self.now);
        // What lies in a document comes back from it.
        self.meter = serde_json::from_str(&serde_json::to_string(&self.meter).unwrap()).unwrap();
        let rules = BTreeMap::from([(self.rule.name, self.rule.clone())]);
        let seen = judge(&rules, &facts, &self.meter, self.now);
        let changes = round(&rules, &mut self.watches, &self.firing, &seen, self.now);
        for change in &changes {
            let alert = Alert::read(&serde_json::to_string(change.alert()).unwrap()).unwrap();
            self.firing.retain(|known| known.id() != alert.id());
            self.firing.extend(alert.is_firing().then_some(alert));
        }
        self.now = self.now + TICK;
        changes
    }

    /// What people are told in that time, and when.
    fn told(&mut self, span: Span, level: impl Fn(usize) -> Level) -> Vec<(Time, Why)> {
        let mut told = Vec::new();
        let ticks = usize::try_from(span.millis() / TICK.millis()).unwrap();
        for nth in 0..ticks {
            let now = self.now;
            for change in self.tick(level(nth)) {
                told.extend(match change {
                    Change::Fire(_) => Some((now, Why::Fired)),
                    Change::Remind(_) => Some((now, Why::Reminder)),
                    Change::Resolve(_) => Some((now, Why::Resolved)),
                    Change::Go(_) => None,
                });
            }
        }
        told
    }

    fn whys(&mut self, span: Span, level: impl Fn(usize) -> Level) -> Vec<Why> {
        self.told(span, level).into_iter().map(|(_, why)| why).collect()
    }
}

/// How long it takes until good times show in what a rule sees.
fn memory(rule: &Rule) -> Span {
    if rule.name.is_counted() { rule.window } else { Span::ZERO }
}

fn every(check: impl Fn(RuleName)) {
    RuleName::ALL.iter().for_each(|name| check(*name));
}

const HOUR: Span = Span::from_hours(1);

#[test] // REQ OB-4
fn every_rule_is_silent_while_all_is_well() {
    every(|name| assert_eq!(World::of(name).whys(Span::from_hours(3), |_| Good), [], "{name}"));
}

#[test] // REQ OB-4
fn every_rule_fires_once_after_it_has_held_and_resolves_once_after_it_was_calm() {
    every(|name| {
        let mut world = World::of(name);
        let rule = world.rule.clone();
        world.told(HOUR, |_| Good);
        let began = world.now;
        let told = world.told(HOUR, |_| Bad);
        let [(fired, Why::Fired)] = told[..] else { panic!("{name}: {told:?}") };
        // Counts of an hour need a while to rise.
        let slack = match rule.name {
            name if name.is_counted() => Span::from_mins(40),
            // Something was tried until then.
            RuleName::NoScheduling => Span::from_mins(10),
            _ => Span::ZERO,
        };
        assert!(fired.since(began) >= rule.hold, "{name} waits as long as it must hold");
        assert!(fired.since(began) <= rule.hold + slack + TICK, "{name}: {}", fired.since(began));
        let ended = world.now;
        let told = world.told(Span::from_hours(3), |_| Good);
        let [(resolved, Why::Resolved)] = told[..] else { panic!("{name}: {told:?}") };
        assert!(resolved.since(ended) >= rule.calm, "{name}");
        assert!(resolved.since(ended) <= rule.calm + memory(&rule) + Span::from_mins(2), "{name}");
        assert_eq!(world.firing, [], "{name}");
        assert!(world.watches.is_empty(), "{name}: nothing is remembered for ever");
    });
}

#[test] // REQ OB-4
fn no_rule_fires_for_less_than_it_must_hold() {
    for name in [RuleName::ProcessingTime, RuleName::PastDue, RuleName::DiskLow, RuleName::LogLarge] {
        let mut world = World::of(name);
        // Five ticks of six, again and again.
        let told = world.whys(Span::from_hours(2), |nth| if nth % 6 == 5 { Good } else { Bad });
        assert_eq!(told, [], "{name}");
    }
}

#[test] // REQ OB-4
fn a_number_that_wavers_around_its_threshold_is_one_alert() {
    every(|name| {
        let mut world = World::of(name);
        world.rule.repeat = None;
        let first = world.whys(HOUR, |_| Bad);
        assert_eq!(first, [Why::Fired], "{name}");
        let told = world.whys(HOUR, |nth| if nth % 2 == 0 { Bad } else { Middling });
        assert_eq!(told, [], "{name}");
        // Even all is well now and then, for less than it must be calm.
        if world.rule.calm > TICK && !name.is_counted() {
            let told = world.whys(HOUR, |nth| if nth % 3 == 0 { Bad } else { Good });
            assert_eq!(told, [], "{name}");
        }
    });
}

#[test] // REQ OB-4
fn what_lies_between_neither_fires_nor_ends_an_alert() {
    // Where one is too many, there is nothing between.
    let between = RuleName::ALL.iter().filter(|name| {
        let rule = Rule::usual(**name);
        rule.resolve_at < rule.above && !matches!(name, RuleName::StoreUnwritable)
    });
    for name in between {
        let mut world = World::of(*name);
        world.rule.repeat = None;
        assert_eq!(world.whys(HOUR, |_| Middling), [], "{name}");
        assert_eq!(world.whys(HOUR, |_| Bad), [Why::Fired], "{name}");
        assert_eq!(world.whys(HOUR, |_| Middling), [], "{name}");
    }
}

#[test]
fn people_are_reminded_until_somebody_acknowledges() {
    let mut world = World::of(RuleName::ChannelHeld);
    let told = world.whys(Span::from_hours(13), |_| Bad);
    assert_eq!(told, [Why::Fired, Why::Reminder, Why::Reminder, Why::Reminder], "every four hours");
    let by = Actor("key_1".to_owned());
    world.firing[0].acknowledged = Some(Acknowledged { by, at: world.now, note: None });
    assert_eq!(world.whys(Span::from_hours(13), |_| Bad), []);
    assert_eq!(world.whys(HOUR, |_| Good), [Why::Resolved], "its end is told all the same");
}

#[test] // REQ OB-4
fn a_clock_that_is_set_tells_which_way_by_how_much_and_what_that_means() {
    let rules = BTreeMap::from([(RuleName::ClockJumped, Rule::usual(RuleName::ClockJumped))]);
    let fired = |jump| {
        let facts = Facts { jump, ..Facts::default() };
        let seen = judge(&rules, &facts, &Meter::default(), T0);
        let changes = round(&rules, &mut BTreeMap::new(), &[], &seen, T0);
        changes.first().map(|change| change.alert().clone())
    };
    let [second, day] = [Span::from_secs(1), Span::from_hours(24)];
    assert_eq!(fired(None), None);
    assert_eq!(fired(Some(Jump::Ahead(second))), None, "the log says so, and nobody is woken");
    let (ahead, back) = (fired(Some(Jump::Ahead(day))).unwrap(), fired(Some(Jump::Back(day))).unwrap());
    assert_ne!(ahead.id(), back.id(), "a clock that is set wrong and then right is two alerts");
    assert_eq!((ahead.severity, ahead.subject.to_string()), (Severity::Warning, "clock-ahead".to_owned()));
    let said = |alert: &Alert| [Language::En, Language::PtBr].map(|language| sentence(alert, language));
    assert_eq!(
        said(&ahead),
        [
            "the clock jumped ahead by 1d (more than 10s): what was due by then goes now",
            "o relógio adiantou 1d (mais de 10s): o que tinha hora até lá sai agora"
        ]
    );
    assert_eq!(
        said(&back),
        [
            "the clock went back by 1d (more than 10s): what is due waits longer",
            "o relógio voltou 1d (mais de 10s): o que tem hora espera mais"
        ]
    );
    assert_eq!(back.samples[0].text, format!("it says {T0}, and would have said {}", T0 + day));
}

#[test] // REQ OB-4
fn time_that_the_clock_leapt_over_is_none_in_which_nothing_was_tried() {
    let rules = BTreeMap::from([(RuleName::NoScheduling, Rule::usual(RuleName::NoScheduling))]);
    let still = |jump| {
        let queue = Queue {
            tenant: Tenant::default(),
            channel: channel(),
            past_due: 3,
            oldest_due: Some(T0 - Span::from_hours(20)),
        };
        let facts = Facts { queues: vec![queue], jump, ..Facts::default() };
        judge(&rules, &facts, &Meter::default(), T0)[0].value
    };
    let hours = |hours: u32| f64::from(hours) * 3_600_000.0;
    assert_eq!(still(None), hours(20));
    assert_eq!(still(Some(Jump::Ahead(Span::from_hours(24)))), 0.0, "it was due in a time that never was");
    assert_eq!(still(Some(Jump::Back(Span::from_hours(24)))), hours(20));
}

#[test] // REQ OB-4
fn a_clock_that_is_set_back_holds_up_no_alert_no_end_and_no_reminder() {
    let back = Span::from_hours(30);
    // Wrong since a moment, and then the clock is set back: the wait begins anew.
    let mut world = World::of(RuleName::DiskLow);
    world.tick(Bad);
    world.now = world.now - back;
    assert_eq!(world.whys(Span::from_mins(2), |_| Bad), [Why::Fired]);
    world.now = world.now - back;
    assert_eq!(
        world.whys(Span::from_hours(5), |_| Bad),
        [Why::Reminder, Why::Reminder],
        "at once, and in 4 h"
    );
    assert!(world.firing[0].last_seen <= world.now);
    // Over since a moment.
    world.tick(Good);
    world.now = world.now - back;
    assert_eq!(world.whys(Span::from_mins(2), |_| Good), [Why::Resolved]);
    // Nodes whose clocks differ a little do not remind each other.
    world.tick(Bad);
    assert_eq!(world.whys(Span::from_mins(2), |_| Bad), [Why::Fired]);
    world.now = world.now - Span::from_secs(100);
    assert_eq!(world.whys(Span::from_mins(1), |_| Bad), []);
}

#[test]
fn nobody_is_reminded_of_what_is_silent_until_the_silence_ends() {
    let mut world = World::of(RuleName::ChannelHeld);
    world.tick(Bad);
    let until = world.now + Span::from_hours(10);
    world.firing[0].silenced =
        Some(Silenced { until, by: Actor("key_1".to_owned()), at: world.now, note: None });
    assert_eq!(world.told(Span::from_hours(12), |_| Bad), [(until, Why::Reminder)]);
}

#[test]
fn an_alert_whose_rule_was_taken_away_is_over() {
    let mut world = World::of(RuleName::ChannelHeld);
    world.tick(Bad);
    let changes = round(&BTreeMap::new(), &mut world.watches, &world.firing, &[], world.now);
    assert!(matches!(&changes[..], [Change::Resolve(alert)] if !alert.is_firing()), "{changes:?}");
    assert!(world.watches.is_empty());
}

#[test]
fn the_same_trouble_is_the_same_alert_however_often_it_is_written_and_another_is_not() {
    let mut world = World::of(RuleName::ChannelHeld);
    let mut again = World::of(RuleName::ChannelHeld);
    let fired = |changes: Vec<Change>| changes[0].alert().id();
    assert_eq!(fired(world.tick(Bad)), fired(again.tick(Bad)));
    let mut later = World::of(RuleName::ChannelHeld);
    later.tick(Good);
    assert_ne!(fired(later.tick(Bad)), world.firing[0].id());
}

#[test]
fn an_alert_says_how_bad_it_was_and_what_it_is_about() {
    let mut world = World::of(RuleName::DeadLetters);
    world.told(Span::from_mins(5), |_| Bad);
    world.told(Span::from_mins(5), |_| Middling);
    let alert = &world.firing[0];
    assert_eq!((alert.peak, alert.value, alert.count), (130.0, 90.0, 90));
    assert_eq!(alert.samples[0].text, "550 user unknown");
    for language in [Language::En, Language::PtBr] {
        let letter = letter(alert, "alr_1", Why::Fired, Some("https://pombo.example/alerts/alr_1"), language);
        for part in ["dead_letters", "invalid_recipient ×90: 550 user unknown (msg_1)", "alr_1"] {
            assert!(letter.text.contains(part), "{}", letter.text);
        }
        assert!(letter.text.contains("https://pombo.example/alerts/alr_1"));
        assert_eq!(letter.data["type"], "alert.fired");
        assert_eq!(letter.data["data"]["alert"]["peak"], 130.0);
    }
}

#[test]
fn every_rule_has_words_in_every_language() {
    every(|name| {
        let mut world = World::of(name);
        world.told(HOUR, |_| Bad);
        let alert = &world.firing[0];
        let said = [Language::En, Language::PtBr].map(|language| sentence(alert, language));
        assert_ne!(said[0], said[1], "{name}");
        assert!(!said.iter().any(|words| words.contains("  ") || words.starts_with(':')), "{said:?}");
    });
}

#[test] // REQ OB-4
fn numbers_and_counts_are_said_as_the_language_says_them() {
    let mut world = World::of(RuleName::FailureRate);
    world.told(HOUR, |_| Bad);
    let alert = |rule, value, count| Alert { rule, value, count, of: Some(count), ..world.firing[0].clone() };
    let said = |alert: &Alert| [Language::En, Language::PtBr].map(|language| sentence(alert, language));
    let [en, pt] = said(&alert(RuleName::FailureRate, 0.902, 41));
    assert!(en.contains("90.2 % of 41 messages") && pt.contains("90,2 % de 41 mensagens"), "{en}; {pt}");
    let [en, pt] = said(&alert(RuleName::Anomaly, 8.25, 1));
    assert!(en.contains("1 time within") && en.contains("8.2 σ"), "{en}");
    assert!(pt.contains("1 vez em") && pt.contains("8,2 σ"), "{pt}");
    let [en, pt] = said(&Alert { above: 256.0, ..alert(RuleName::LogLarge, 300.2, 1) });
    assert!(
        en.contains("to 300 MB (more than 256 MB)") && pt.contains("para 300 MB (mais de 256 MB)"),
        "{en}; {pt}"
    );
    let whole = [shown(Unit::Share, 0.1, Language::En), shown(Unit::Share, 1.0, Language::PtBr)];
    assert_eq!(whole, ["10 %", "100 %"]);
    for (rule, one, many, uma, muitas) in [
        (
            RuleName::DeadLetters,
            "1 dead letter waits",
            "2 dead letters wait",
            "1 mensagem morta espera",
            "2 mensagens mortas esperam",
        ),
        (
            RuleName::PastDue,
            "1 message is past due",
            "2 messages are",
            "1 mensagem está atrasada",
            "2 mensagens estão",
        ),
        (
            RuleName::NoScheduling,
            "1 message is due",
            "2 messages are due",
            "1 mensagem tenha",
            "2 mensagens tenham",
        ),
        (
            RuleName::ClaimDeadline,
            "1 claim waits, and its",
            "2 claims wait, and their",
            "1 conta espera",
            "2 contas esperam",
        ),
        (RuleName::MaxRetries, "of 1 message ", "of 2 messages ", "de 1 mensagem ", "de 2 mensagens "),
    ] {
        for (value, count, words) in [(1.0, 1, [one, uma]), (2.0, 2, [many, muitas])] {
            for (said, words) in said(&alert(rule, value, count)).iter().zip(words) {
                assert!(said.contains(words), "{said}: {words}");
            }
        }
    }
}

#[test]
fn too_few_messages_say_nothing() {
    let mut world = World::of(RuleName::FailureRate);
    world.rule.least = 1_000_000;
    assert_eq!(world.whys(HOUR, |_| Bad), []);
}

#[test]
fn a_channel_that_is_blocked_has_no_second_alert_for_what_waits_there() {
    let mut facts = World::of(RuleName::NoScheduling).facts(Bad);
    facts.blocks = World::of(RuleName::ChannelHeld).facts(Bad).blocks;
    let rules = Rule::all();
    let seen = judge(&rules, &facts, &Meter::default(), T0);
    let rules: Vec<_> = seen.iter().map(|seen| seen.rule).collect();
    assert_eq!(rules, [RuleName::PastDue, RuleName::ChannelHeld]);
}

#[test] // REQ OB-4
fn an_attempt_that_ended_too_late_counts_as_one_that_still_waits() {
    let rules = BTreeMap::from([(RuleName::ProcessingTime, Rule::usual(RuleName::ProcessingTime))]);
    let seen = |least: &str| {
        let mut meter = Meter::default();
        meter.take([(T0, key(What::EndedAfter, least), 3)], Span::from_mins(5), T0);
        let seen = judge(&rules, &Facts::default(), &meter, T0);
        (seen[0].value > rules[&RuleName::ProcessingTime].above, seen[0].count)
    };
    assert_eq!(seen("60"), (false, 0), "more than a minute, up to five");
    assert_eq!(seen("300"), (true, 3), "more than five minutes");
}

#[test] // REQ OB-4
fn retry_decisions_that_end_in_nothing_are_seen_like_messages_that_do() {
    for (name, reason) in [
        (RuleName::MaxRetries, FailureReason::MaxRetriesExceeded),
        (RuleName::PermanentErrors, FailureReason::PermanentError),
    ] {
        let mut meter = Meter::default();
        let of = |detail: &str, count| (T0, Key { channel: None, ..key(What::Decided, detail) }, count);
        meter.take([of("retry", 30), of(reason.as_str(), 10)], WINDOW, T0);
        let rules = BTreeMap::from([(name, Rule::usual(name))]);
        let seen = judge(&rules, &Facts::default(), &meter, T0);
        assert_eq!((seen[0].count, seen[0].of, seen[0].value), (10, Some(40), 0.25));
        assert_eq!(seen[0].subject.detail.as_deref(), Some(DECISIONS));
    }
}

#[test]
fn what_never_came_up_before_is_unusual_too_once_the_past_is_known() {
    let mut meter = Meter::default();
    meter.take([(T0, key(What::AttemptFailed, "timeout"), 50)], WINDOW, T0 + Span::from_mins(5));
    let rules = BTreeMap::from([(RuleName::Anomaly, Rule::usual(RuleName::Anomaly))]);
    let seen = |hours| {
        let facts = Facts { usual_hours: hours, ..Facts::default() };
        judge(&rules, &facts, &meter, T0 + Span::from_mins(5))
    };
    assert_eq!(seen(3), [], "three hours are no past");
    assert_eq!(seen(30)[0].value, 50.0);
}

#[test]
fn one_earlier_outage_does_not_make_the_next_one_usual() {
    let mut hours = vec![5; 30];
    hours.extend([900, 700]);
    let mut world = World::of(RuleName::Anomaly);
    world.count(What::AttemptFailed, "timeout", 60);
    let counts: Vec<_> = world.counted.iter().map(|((_, key), count)| (T0, key.clone(), *count)).collect();
    world.meter.take(counts, WINDOW, T0);
    let facts = Facts {
        usual: vec![Usual { key: key(What::AttemptFailed, "timeout"), hours }],
        usual_hours: 32,
        ..Facts::default()
    };
    let rules = BTreeMap::from([(RuleName::Anomaly, world.rule)]);
    let seen = judge(&rules, &facts, &world.meter, T0);
    assert!(seen[0].value > 20.0, "{seen:?}");
}

#[test] // REQ OB-4
fn a_block_in_front_of_one_destination_among_many_does_not_hide_that_nothing_goes() {
    let rule = Rule::usual(RuleName::NoScheduling);
    let judged = |is_whole| {
        let queue = Queue {
            tenant: Tenant::default(),
            channel: channel(),
            past_due: 30,
            oldest_due: Some(T0 - Span::from_mins(30)),
        };
        let block = Blocked {
            tenant: Tenant::default(),
            channel: channel(),
            destination: Some("gone.example".to_owned()),
            is_whole,
            kind: BlockKind::Breaker,
            reason: String::new(),
            since: T0,
        };
        let facts = Facts { queues: vec![queue], blocks: vec![block], ..Facts::default() };
        judge(&BTreeMap::from([(rule.name, rule.clone())]), &facts, &Meter::default(), T0).len()
    };
    assert_eq!((judged(false), judged(true)), (1, 0));
}

mod metering {
    use super::*;

    fn sent(meter: &Meter, window: Span, now: Time) -> u64 {
        meter.over(window, now).filter(|(key, _)| key.what == What::Sent).map(|(_, count)| count).sum()
    }

    #[test]
    fn counts_are_taken_in_once_across_hours_and_leave_the_window_in_time() {
        let mut meter = Meter::default();
        let mut take = |now: Time, hour: u64, count: i64| {
            let start = T0 + Span::from_hours(hour);
            meter.take([(start, key(What::Sent, ""), count)], WINDOW, now);
            sent(&meter, WINDOW, now)
        };
        let at = |mins: u64| T0 + Span::from_mins(mins);
        assert_eq!(take(at(10), 0, 4), 4);
        assert_eq!(take(at(11), 0, 4), 4, "the same count again is nothing new");
        assert_eq!(take(at(59), 0, 9), 9);
        assert_eq!(take(at(61), 0, 10), 10, "what the last hour still had to say");
        assert_eq!(take(at(61), 1, 2), 12);
        assert_eq!(take(at(75), 1, 2), 8, "the first four are an hour ago");
        assert_eq!(take(at(200), 3, 1), 1);
    }

    #[test]
    fn after_a_long_absence_only_what_can_be_in_the_window_counts() {
        let mut meter = Meter::default();
        meter.take([(T0, key(What::Sent, ""), 100)], WINDOW, T0 + Span::from_mins(1));
        let now = T0 + Span::from_hours(5) + Span::from_mins(30);
        assert_eq!(meter.since(WINDOW, now), T0 + Span::from_hours(4));
        let counts =
            [(4, 7), (5, 3)].map(|(hour, count)| (T0 + Span::from_hours(hour), key(What::Sent, ""), count));
        meter.take(counts, WINDOW, now);
        assert_eq!(sent(&meter, WINDOW, now), 10);
        assert_eq!(sent(&meter, Span::from_mins(10), now), 3);
    }

    #[test]
    fn short_windows_are_exact_beside_long_ones_and_a_day_takes_little_room() {
        let day = Span::from_hours(24);
        let mut meter = Meter::default();
        let (mut now, mut count) = (T0, 0);
        for _ in 0..8_640 {
            now = now + Span::from_secs(10);
            count = if now.hour() == (now - Span::from_secs(10)).hour() { count + 1 } else { 1 };
            let hour = Time::from_millis(now.hour() * 3_600_000);
            meter.take([(hour, key(What::Sent, ""), count)], day, now);
        }
        assert_eq!(sent(&meter, Span::from_secs(10), now), 2, "this step and the one in which it began");
        assert_eq!(sent(&meter, Span::from_mins(5), now), 31);
        assert!((8_640..8_700).contains(&sent(&meter, day, now)));
        assert!(serde_json::to_string(&meter).unwrap().len() < 6_000, "one line, and not 8,640 numbers");
    }
}
