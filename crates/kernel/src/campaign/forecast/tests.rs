use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::campaign::throttle::Throttle;
use crate::campaign::{Flight, PauseReason};
use crate::id::{MessageId, MessageKey};
use crate::message::Actor;
use crate::turns::Weight;

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

fn window(hours: &str) -> Option<Window> {
    serde_json::from_str(&format!(r#"{{"hours": "{hours}", "time_zone": "UTC"}}"#)).unwrap()
}

fn message(n: i64) -> MessageId {
    MessageId::new(MessageKey(n << 30), 7)
}

/// At the usual pace: 22 seconds from one start to the next.
fn draft(recipients: u64) -> Campaign {
    let place = ("whatsapp".parse().unwrap(), "bulk".parse().unwrap());
    let template = ("retorno".parse().unwrap(), 1);
    let mut campaign = Campaign::new("Retorno".into(), place, template, Actor("key_1".into()), START);
    campaign.enlisted([recipients, 0, 0]);
    campaign
}

fn running(recipients: u64) -> Campaign {
    let mut campaign = draft(recipients);
    campaign.start(START).unwrap();
    campaign
}

/// A Monday, 11:00.
const START: Time = Time::from_millis(1_780_311_600_000);

fn line() -> LineRules {
    LineRules { time_zone: "UTC".parse().unwrap(), ..LineRules::default() }
}

fn eta_among(campaign: &Campaign, rules: &LineRules, others: &[&Campaign], now: Time) -> Option<Time> {
    let line = Line::default();
    let outlook = Outlook { rules, line: &line, others: others.to_vec(), retries: Vec::new(), stop: None };
    campaign.eta(&outlook, now)
}

fn eta(campaign: &Campaign, rules: &LineRules) -> Option<Time> {
    eta_among(campaign, rules, &[], START)
}

#[test] // REQ BK-7
fn a_draft_is_foretold_from_now_and_a_scheduled_one_from_its_time() {
    let mut campaign = draft(100);
    // The wait after the last one keeps nobody.
    let takes = secs(99 * 22 + 2);
    assert_eq!(eta(&campaign, &line()), Some(START + takes));
    let later = START + Span::from_hours(30);
    campaign.schedule(later).unwrap();
    assert_eq!(eta(&campaign, &line()), Some(later + takes));
    assert_eq!(eta(&draft(0), &line()), None);
}

#[test] // REQ BK-7
fn nothing_is_foretold_of_one_that_does_not_go_on() {
    let mut campaign = running(3);
    campaign.pause(PauseReason::Operator, String::new(), &Actor("key_1".into()), START).unwrap();
    assert_eq!(eta(&campaign, &line()), None);
    campaign.start(START).unwrap();
    assert!(eta(&campaign, &line()).is_some());
    let (rules, line) = (line(), Line::default());
    let stop = |until| {
        let reason = super::super::waiting::WaitReason::ChannelHeld;
        let stop = Some(Waiting { reason, until, words: "401".into() });
        campaign.eta(&Outlook { rules: &rules, line: &line, others: vec![], retries: vec![], stop }, START)
    };
    assert_eq!(stop(None), None, "nobody knows when the channel is released");
    assert_eq!(stop(Some(START + secs(60))), Some(START + secs(60 + 46)));
}

#[test] // REQ BK-7
fn the_end_is_foreseen_through_nights_and_daily_caps() {
    let mut campaign = running(100);
    campaign.window = window("08:00-11:30");
    // The first sends of half an hour, one each 22 seconds: 82. The wait of the last is over by the morning.
    assert_eq!(eta(&campaign, &line()), Some(time("2026-06-02T08:00:00Z") + secs(17 * 22 + 2)));
    campaign.window = None;
    let rules = LineRules { daily_cap: Some(40), ..line() };
    // 40 today, 40 tomorrow, 20 on the third day.
    assert_eq!(eta(&campaign, &rules), Some(time("2026-06-03T00:00:00Z") + secs(19 * 22 + 2)));
}

#[test] // REQ BK-6, BK-7
fn a_cap_that_is_partly_used_leaves_less_for_today() {
    let rules = LineRules { daily_cap: Some(40), ..line() };
    let used = (0..35).fold(Line::default(), |line, n| line.started(message(n), &rules, START));
    let campaign = running(40);
    let outlook = Outlook { rules: &rules, line: &used, others: vec![], retries: vec![], stop: None };
    let tomorrow = time("2026-06-02T00:00:00Z");
    assert_eq!(campaign.eta(&outlook, START), Some(tomorrow + secs(34 * 22 + 2)));
}

#[test] // REQ BK-6, BK-7
fn a_lines_gap_slows_one_down_and_two_take_turns() {
    let campaign = running(10);
    let rules = LineRules { gap: Some(secs(58)), ..line() };
    assert_eq!(eta(&campaign, &rules), Some(START + secs(9 * 60 + 2)));
    let other = running(10);
    let both = eta_among(&campaign, &rules, &[&other], START);
    assert_eq!(both, Some(START + secs(18 * 60 + 2)));
    let short = running(2);
    let short = eta_among(&campaign, &rules, &[&short], START);
    assert_eq!(short, Some(START + secs(11 * 60 + 2)), "whoever is done leaves the line");
    let mut mighty = running(100);
    mighty.weight = Weight::new(3).unwrap();
    let rare = eta_among(&campaign, &rules, &[&mighty], START);
    assert_eq!(rare, Some(START + secs(9 * 240 + 2)), "one turn of four");
    // Where there is room for both, one comes upon the other now and then, and waits a little.
    let narrow = LineRules { gap: Some(secs(3)), ..line() };
    let met = eta_among(&campaign, &narrow, &[&other], START).unwrap();
    assert!((9 * 22 + 2..9 * 23 + 2).contains(&(met.since(START).millis() / 1_000)), "{met}");
}

#[test] // REQ BK-6, BK-7
fn campaigns_of_a_line_share_its_cap_while_they_are_open() {
    let campaign = running(10);
    let rules = LineRules { daily_cap: Some(10), ..line() };
    let mut other = running(100);
    assert_eq!(
        eta_among(&campaign, &rules, &[&other], START),
        Some(time("2026-06-02T00:00:00Z") + secs(4 * 22 + 2))
    );
    other.window = window("13:00-14:00");
    assert_eq!(eta_among(&campaign, &rules, &[&other], START), Some(START + secs(9 * 22 + 2)));
    let mut tomorrow = draft(100);
    tomorrow.schedule(time("2026-06-02T00:00:00Z")).unwrap();
    assert_eq!(eta_among(&campaign, &rules, &[&tomorrow], START), Some(START + secs(9 * 22 + 2)));
}

#[test] // REQ BK-6, BK-7
fn both_windows_count_and_hours_that_never_meet_have_no_end() {
    let mut campaign = running(100);
    campaign.window = window("09:00-11:10");
    let rules = LineRules { window: window("10:50-20:00"), ..line() };
    // 28 in the ten minutes of today, 55 in the twenty of tomorrow, 17 on the third day.
    assert_eq!(eta(&campaign, &rules), Some(time("2026-06-03T10:50:00Z") + secs(16 * 22 + 2)));
    let apart = LineRules { window: window("12:00-20:00"), ..line() };
    assert_eq!(eta(&campaign, &apart), None);
}

#[test] // REQ BK-7
fn the_last_one_waits_for_its_next_try() {
    let mut campaign = running(1);
    campaign.fed(1, 0, 0, START);
    campaign.started(Flight { message: message(1), claim: 1, since: START }, true);
    let soon = START + secs(1);
    assert_eq!(eta_among(&campaign, &line(), &[], soon), Some(START + secs(2)), "it is on its way");
    campaign.ended(message(1), super::super::End::Retry, 0, START + secs(2));
    let due = START + Span::from_hours(2);
    let (rules, line) = (line(), Line::default());
    let outlook = Outlook { rules: &rules, line: &line, others: vec![], retries: vec![due], stop: None };
    assert_eq!(campaign.eta(&outlook, START), Some(due + secs(2)));
    campaign.window = window("08:00-12:30");
    let morning = time("2026-06-02T08:00:00Z");
    assert_eq!(campaign.eta(&outlook, START), Some(morning + secs(2)));
}

#[test] // REQ BK-7
fn a_million_is_foretold_as_the_days_it_takes() {
    let mut campaign = running(1_000_000);
    campaign.window = window("08:00-20:00");
    let rules = LineRules { gap: Some(secs(5)), window: window("07:00-21:00"), ..line() };
    // 9 of 12 hours are left today; 1,964 a day after that.
    let (today, daily) = (9 * 3600u64.div_ceil(22), (12 * 3600u64).div_ceil(22));
    let today = today.min((9 * 3600u64).div_ceil(22));
    let days = (1_000_000 - today).div_ceil(daily);
    let last = 1_000_000 - today - (days - 1) * daily;
    let morning = time("2026-06-01T08:00:00Z") + Span::from_hours(24 * days);
    assert_eq!(eta(&campaign, &rules), Some(morning + secs((last - 1) * 22 + 2)));
    let capped = LineRules { daily_cap: Some(100), ..rules };
    assert_eq!(eta(&campaign, &capped), None, "27 years are nothing that can be foretold");
}

/// One campaign of a case, and when messages of it are due that wait for another try.
#[derive(Clone, Debug)]
struct Case {
    rules: LineRules,
    campaigns: Vec<Campaign>,
    retries: Vec<Time>,
    sent_today: u32,
}

/// The same, message by message and second by second.
fn by_hand(case: &Case, people: u64) -> Option<Time> {
    struct Sender<'a> {
        campaign: &'a Campaign,
        dues: Vec<Time>,
        ready: Time,
        pass: u64,
        served: u64,
    }
    let Case { rules, campaigns, retries, sent_today } = case;
    let mut senders: Vec<Sender<'_>> = Vec::new();
    for (n, campaign) in campaigns.iter().enumerate() {
        let (own, people) =
            if n == 0 { (retries.as_slice(), people) } else { (&[][..], campaign.roll.left()) };
        let own = &own[..own.len().min(usize::try_from(people).unwrap())];
        let mut dues = vec![Time::default(); usize::try_from(people).unwrap() - own.len()];
        dues.extend(own);
        let start = match campaign.state {
            State::Scheduled { start_at } => start_at,
            _ => START,
        };
        senders.push(Sender { campaign, dues, ready: campaign.free_at.max(start), pass: 0, served: 0 });
    }
    let (mut at, mut line_free, mut turns, mut passed) = (START, START, 0, 0);
    let mut sent: BTreeMap<String, u32> =
        BTreeMap::from([(rules.time_zone.day(START).to_string(), *sent_today)]);
    while at < START + Span::from_hours(24 * 400) {
        let day = sent.entry(rules.time_zone.day(at).to_string()).or_default();
        let spent = rules.daily_cap.is_some_and(|cap| *day >= cap).then(|| rules.time_zone.tomorrow(at));
        let shut = rules.window.as_ref().and_then(|window| window.opens(at));
        if let Some(later) = spent.max(shut).max(Some(line_free).filter(|free| *free > at)) {
            at = later;
            continue;
        }
        let next = |sender: &Sender<'_>| {
            let due = sender.dues.iter().min()?;
            let at = at.max(sender.ready).max(*due);
            Some(sender.campaign.window.as_ref().and_then(|window| window.opens(at)).unwrap_or(at))
        };
        let whose = senders
            .iter()
            .enumerate()
            .filter_map(|(n, it)| Some((next(it)?, it.pass.max(passed), it.served, n)))
            .min()?;
        if whose.0 > at {
            at = whose.0;
            continue;
        }
        let sender = &mut senders[whose.3];
        let first = (0..sender.dues.len()).min_by_key(|n| sender.dues[*n]).unwrap();
        sender.dues.remove(first);
        turns += 1;
        passed = whose.1;
        (sender.pass, sender.served) = (passed + 1_000_000 / u64::from(sender.campaign.weight.get()), turns);
        sender.ready = at + sender.campaign.throttle.cycle();
        line_free = rules.gap.map_or(START, |gap| at + SEND + gap);
        *day += 1;
        if whose.3 == 0 && sender.dues.is_empty() {
            return Some(at + SEND);
        }
    }
    None
}

fn some_window() -> impl Strategy<Value = Option<Window>> {
    proptest::option::of((0..22u32, 1..8u32)).prop_map(|hours| {
        let (from, length) = hours?;
        window(&format!("{from:02}:00-{:02}:30", (from + length).min(23)))
    })
}

fn some_campaign() -> impl Strategy<Value = Campaign> {
    let start = proptest::option::of(0..200_000u64);
    (1..25u64, 3..2_000u32, some_window(), 1..4u32, start, 0..900u64).prop_map(
        |(people, wait, window, weight, start, wait_left)| {
            let mut campaign = draft(people);
            campaign.throttle = Throttle::new(Some(wait.into()), Some(wait.into())).unwrap();
            campaign.window = window;
            campaign.weight = Weight::new(weight).unwrap();
            match start {
                Some(start) => campaign.schedule(START + secs(start)).unwrap(),
                None => campaign.start(START).unwrap(),
            }
            campaign.free_at = START + secs(wait_left);
            campaign
        },
    )
}

fn some_case(others: usize) -> impl Strategy<Value = Case> {
    let campaigns = proptest::collection::vec(some_campaign(), 1..=others + 1);
    let rules = (proptest::option::of(0..180u64), proptest::option::of(1..12u32), some_window());
    let retries = proptest::collection::vec(1..300_000u64, 0..4);
    (campaigns, rules, retries, 0..12u32).prop_map(
        |(campaigns, (gap, daily_cap, window), retries, sent_today)| {
            let rules = LineRules { gap: gap.map(secs), daily_cap, window, ..line() };
            let people = usize::try_from(campaigns[0].roll.left()).unwrap();
            let mut retries: Vec<Time> =
                retries.into_iter().take(people).map(|due| START + secs(due)).collect();
            retries.sort_unstable();
            Case { rules, campaigns, retries, sent_today }
        },
    )
}

/// As it is foretold.
fn foretold(case: &Case) -> Option<Time> {
    let Case { rules, campaigns, retries, sent_today } = case;
    let line = (0..*sent_today).fold(Line::default(), |line, n| {
        line.started(message(n.into()), rules, START).ended(message(n.into()), START - Span::from_hours(1))
    });
    let others = campaigns[1..].iter().collect();
    let outlook = Outlook { rules, line: &line, others, retries: retries.clone(), stop: None };
    campaigns[0].eta(&outlook, START)
}

proptest! {
    #[test] // REQ BK-7
    fn one_alone_is_foretold_as_if_each_message_were_counted(case in some_case(0)) {
        let people = case.campaigns[0].roll.left();
        prop_assert_eq!(foretold(&case), by_hand(&case, people));
    }

    #[test] // REQ BK-7
    fn one_among_others_is_foretold_to_within_a_few_messages(case in some_case(3)) {
        let people = case.campaigns[0].roll.left();
        let gap = case.rules.gap.map_or(Span::ZERO, |gap| times(gap + SEND, 8));
        let slack = gap + times(case.campaigns[0].throttle.cycle(), 2);
        let at = foretold(&case).unwrap_or(Time::MAX);
        // Whose turn it is when a day begins is not foretold.
        let few = 2 + at.since(START).millis() / Span::from_hours(24).millis() / 2;
        let fewer = by_hand(&case, people.saturating_sub(few).max(1)).unwrap_or(Time::MAX);
        let more = by_hand(&case, people + few.min(1_000)).unwrap_or(Time::MAX);
        prop_assert!(fewer - slack <= at && at <= more + slack, "{fewer} <= {at} <= {more}");
    }
}
