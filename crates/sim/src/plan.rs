//! What one seed plays: who is there, what is configured, what is asked for, and what can go wrong.
//!
//! Each kind of fault is in about half of the plans, so that every combination comes up, and so that promises which
//! hold only without a certain fault can be checked where it is absent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pombo_kernel::adapt::Adaptive;
use pombo_kernel::breaker;
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::campaign::throttle::Throttle;
use pombo_kernel::classify::Rules;
use pombo_kernel::dice::Dice;
use pombo_kernel::flow::Rate;
use pombo_kernel::guard::Guard;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Body, Draft, Idempotency, Priority, QueueName};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, Tenant};
use pombo_kernel::policy::{Delays, Overrides, Policy};
use pombo_kernel::retention::{self, Keep, Kept};
use pombo_kernel::secret::Secret;
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, ReceiptCheck, Setup};
use pombo_kernel::time::{Span, Time};
use pombo_kernel::window::{Day, Window};
use pombo_store::roster;
use pombo_store::shelf::{Doc, Leaf};

use crate::chance::Chance;

/// When every run starts.
pub(crate) const START: Time = Time::from_millis(1_800_000_000_000);

pub(crate) const CHANNELS: [&str; 2] = ["crm", "bank"];
pub(crate) const DESTINATIONS: [&str; 2] = ["a.example", "b.example"];
/// Whose messages there are, besides the default tenant's.
pub(crate) const NEIGHBOUR: &str = "neighbour";
/// How far a node's clock may be off without anybody's correcting it.
pub(crate) const BEARABLE_SKEW: u64 = 3_000;
/// On an embedded store there is one node; several share a database.
const MOST_NODES: u64 = 5;
const LANES: [&str; 2] = ["default", "bulk"];

/// Which faults a run has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) node_crash: bool,
    pub(crate) process_crash: bool,
    /// One commit in so many fails; none if nothing is said.
    pub(crate) commit: Option<u64>,
    pub(crate) clock_jump: bool,
    /// A node is stopped by the system for a while and does not know it.
    pub(crate) freeze: bool,
    /// A node does not reach the store for a while, and does not hear what the store did for it.
    pub(crate) cut_off: bool,
    /// Nodes read their configuration anew, and have more slots or fewer.
    pub(crate) reload: bool,
    pub(crate) graceful_stop: bool,
    pub(crate) lost_acknowledgement: bool,
    pub(crate) cancel: bool,
    pub(crate) operator: bool,
    /// Everything is paused for a while, as after a backup was put back.
    pub(crate) pause: bool,
    /// Operators deal with dead letters, and let messages go at once.
    pub(crate) letters: bool,
    /// Somebody of one tenant tries what only another's operators may.
    pub(crate) stranger: bool,
    /// Providers report on what they took: late, twice, out of order, or before they answer.
    pub(crate) reports: bool,
    /// How many look after the campaigns, each as if alone.
    pub(crate) conductors: u64,
    /// Destinations are down for a while.
    pub(crate) outage: bool,
    /// Somebody asks providers how they are.
    pub(crate) asking: bool,
    /// The longest time, in milliseconds, that a call or an answer is on its way.
    pub(crate) slowest_hop: u64,
    /// How far a node's clock may be off, in milliseconds. Where that is more than a lease can bear, nodes go by the
    /// store's clock, as they do on a database.
    pub(crate) skew: u64,
    /// How many replies out of a hundred are not simply "accepted".
    pub(crate) refusals: u64,
}

/// One wish of a producer: messages that are asked for together.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) at: u64,
    pub(crate) drafts: Vec<Draft>,
}

/// A campaign that somebody makes, starts and watches.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    pub(crate) name: CampaignName,
    pub(crate) at: u64,
    pub(crate) people: u64,
    /// Operators pause it now and then, or call it off.
    pub(crate) pauses: bool,
    /// Its hours, or its line's, begin then.
    pub(crate) opens_at: Option<Time>,
    pub(crate) tenant: Tenant,
    pub(crate) draft: Campaign,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    /// The default one, and in half of the plans a neighbour.
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) lanes: Vec<LaneName>,
    pub(crate) setup: Arc<Setup>,
    pub(crate) faults: Faults,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) drives: Vec<Drive>,
    /// What keepers let go of, if there are any.
    pub(crate) retention: Option<Arc<retention::Rules>>,
    /// From then on nothing goes wrong any more.
    pub(crate) calm_at: u64,
}

impl Plan {
    /// Operators have dice of their own, so that a run without them goes as it went before there were any.
    pub(crate) fn roll(dice: &mut Dice, operators: &mut Dice) -> Plan {
        // Most people have one node.
        let nodes = if dice.one_in(3) { 1 } else { dice.between(2, MOST_NODES) };
        let nodes = usize::try_from(nodes).unwrap_or(1);
        let neighbour = dice.one_in(2).then(|| NEIGHBOUR.parse().ok()).flatten();
        let tenants: Vec<Tenant> = [Tenant::default()].into_iter().chain(neighbour).collect();
        let faults = Faults {
            node_crash: dice.one_in(2),
            process_crash: dice.one_in(2),
            commit: *dice.pick(&[None, None, Some(40), Some(5)]),
            clock_jump: dice.one_in(3),
            freeze: dice.one_in(2),
            cut_off: dice.one_in(3),
            reload: dice.one_in(3),
            graceful_stop: dice.one_in(2),
            lost_acknowledgement: dice.one_in(2),
            cancel: dice.one_in(2),
            operator: dice.one_in(2),
            pause: dice.one_in(4),
            letters: operators.one_in(2),
            stranger: dice.one_in(2),
            reports: dice.one_in(2),
            conductors: dice.between(1, 2),
            outage: dice.one_in(2),
            asking: dice.one_in(2),
            slowest_hop: *dice.pick(&[20, 200, 2_000, 20_000, 80_000]),
            skew: *dice.pick(&[0, 0, 500, BEARABLE_SKEW, 300_000]),
            refusals: *dice.pick(&[10, 30, 60]),
        };
        let calm_at = dice.between(15_000, 110_000);
        let lanes: Vec<LaneName> = LANES.iter().filter_map(|name| name.parse().ok()).collect();
        let setup = Arc::new(setup(&lanes, faults.reports, dice));
        let wishes = wishes(&tenants, &lanes, &setup, calm_at, dice);
        Plan { nodes, tenants, lanes, setup, faults, wishes, drives: Vec::new(), retention: None, calm_at }
    }

    /// Adds campaigns, with dice of their own, so that a run without any goes as it went before there were any.
    pub(crate) fn add_drives(&mut self, dice: &mut Dice) {
        let channel = *dice.pick(&CHANNELS);
        let count = dice.between(1, 2);
        let tenant = dice.pick(&self.tenants).clone();
        let drives = (0..count).filter_map(|n| drive(n, &tenant, channel, &self.lanes, self.calm_at, dice));
        self.drives = drives.collect();
        let mut rules = LineRules::default();
        if dice.one_in(2) {
            rules.gap = Some(Span::from_millis(dice.between(1_000, 12_000)));
        }
        if dice.one_in(3) {
            self.add_hours(&mut rules, dice);
        }
        // Days are long, so few runs have several, and not many.
        if dice.one_in(64) {
            let people: u64 = self.drives.iter().map(|drive| drive.people).sum();
            rules.daily_cap = u32::try_from(dice.between(people / 2 + 1, people + 1)).ok();
        }
        if !rules.is_free() {
            let mut setup = Setup::clone(&self.setup);
            if let Some(channel) = setup.channels.get_mut(channel) {
                Arc::make_mut(channel).line = rules;
            }
            self.setup = Arc::new(setup);
        }
    }

    /// Adds keepers, with dice of their own, so that a run without any goes as it went before there were any.
    pub(crate) fn add_keepers(&mut self, dice: &mut Dice) {
        let channels = CHANNELS.iter().filter_map(|name| name.parse::<ChannelName>().ok());
        let rules = channels.map(|channel| {
            let (sent, failed) = (keep(dice), keep(dice));
            (channel, Kept { sent, failed, cancelled: keep(dice), discarded: keep(dice) })
        });
        self.retention = Some(Arc::new(rules.collect()));
    }

    /// Hours that begin while the run goes on: those of the line, or of one campaign.
    fn add_hours(&mut self, rules: &mut LineRules, dice: &mut Dice) {
        let minutes = dice.between(1, 4);
        let opens_at = Some(START + Span::from_mins(minutes));
        // A run starts at eight.
        let (Ok(hours), Ok(time_zone)) = (format!("08:0{minutes}-24:00").parse(), "UTC".parse()) else {
            return;
        };
        let days = Day::ALL.into_iter().collect();
        let window = Some(Window { hours, days, time_zone, holidays: BTreeSet::new() });
        if dice.one_in(2) {
            rules.window = window;
            self.drives.iter_mut().for_each(|drive| drive.opens_at = opens_at);
        } else if let Some(drive) = self.drives.first_mut() {
            (drive.draft.window, drive.opens_at) = (window, opens_at);
        }
    }

    /// What was asked for under that reference.
    pub(crate) fn wished(&self, reference: &str) -> Option<&Draft> {
        let mut drafts = self.wishes.iter().flat_map(|wish| &wish.drafts);
        drafts.find(|draft| draft.body.reference.as_deref() == Some(reference))
    }

    pub(crate) fn channel(&self, name: &ChannelName) -> Option<&ChannelSetup> {
        self.setup.channels.get(name).map(|channel| &**channel)
    }
}

fn setup(lanes: &[LaneName], reports: bool, dice: &mut Dice) -> Setup {
    let doubling = Delays::Doubling { base: Span::from_millis(dice.between(200, 2_000)) };
    let listed = Delays::Listed(vec![Span::from_secs(2), Span::from_secs(9)]);
    let mut channels = BTreeMap::new();
    let breaker = if dice.one_in(2) { touchy(dice) } else { breaker::Limits::default() };
    let bounded = dice.one_in(3).then(|| *dice.pick(&CHANNELS));
    for (name, delays, on_unknown_outcome) in
        [(CHANNELS[0], doubling, OnUnknownOutcome::Resend), (CHANNELS[1], listed, OnUnknownOutcome::Hold)]
    {
        let (Ok(name), Ok(policy_name)) = (name.parse::<ChannelName>(), name.parse()) else { continue };
        let Ok(rules) = Rules::for_kind(ChannelKind::Webhook, &[]) else { continue };
        let policy = Policy {
            name: policy_name,
            attempts: u16::try_from(dice.between(1, 5)).unwrap_or(1),
            delays,
            floor: Span::from_millis(100),
            cap: Span::from_secs(15),
            jitter: *dice.pick(&[0.0, 0.25]),
            max_hint: Span::from_secs(dice.between(20, 120)),
            expires_after: None,
            adaptive: Adaptive::Off,
        };
        let channel = ChannelSetup {
            name: name.clone(),
            kind: ChannelKind::Webhook,
            tenant: Tenant::default(),
            policy,
            rules,
            on_unknown_outcome,
            destination: match dice.below(3) {
                0 => Destination::Sender { default: DESTINATIONS[0].into() },
                _ => Destination::Fixed(DESTINATIONS[0].into()),
            },
            attempt_timeout: Span::from_secs(*dice.pick(&[3, 10, 30, 75])),
            unready: None,
            receipts: reports.then(|| ReceiptCheck::Token(Secret::new("said"))),
            line: LineRules::default(),
            suppressions: pombo_kernel::setup::Suppressions::default(),
            care: Care {
                breaker,
                rate: (bounded == Some(name.as_str())).then(|| Rate::from_milli(dice.between(1_000, 20_000))),
                learns: true,
                probe_every: None,
                forgives: false,
                ..Care::default()
            },
        };
        channels.insert(name, Arc::new(channel));
    }
    let lanes = lanes.iter().map(|lane| {
        let workers = u16::try_from(dice.between(1, 3)).unwrap_or(1);
        (lane.clone(), LaneSetup { workers })
    });
    Setup {
        channels,
        lanes: lanes.collect(),
        routes: Vec::new(),
        limits: Limits::default(),
        subscribers: Guard::default(),
        claims: Policy::claims(),
        alerts: Arc::default(),
        masked: BTreeSet::new(),
        retention: Default::default(),
        dashboard: pombo_kernel::setup::Dashboard::default(),
    }
}

/// Short, as things are kept.
fn keep(dice: &mut Dice) -> Keep {
    match dice.below(4) {
        0 => Keep::All,
        // Within an hour of its end nothing goes for its number: only where the clock jumps.
        1 => Keep::Last(dice.below(3)),
        _ => Keep::For(Span::from_millis(dice.between(500, 20_000))),
    }
}

/// Small and quick, as campaigns go.
fn drive(
    n: u64,
    tenant: &Tenant,
    channel: &str,
    lanes: &[LaneName],
    calm_at: u64,
    dice: &mut Dice,
) -> Option<Drive> {
    let min = dice.between(3, 5);
    let throttle = Throttle::new(Some(min as f64), Some((min + dice.below(5)) as f64)).ok()?;
    let lane = dice.pick(lanes);
    let body = format!(
        r#"{{"name": "drive", "channel": "{channel}", "lane": "{lane}", "template": "hello", "template_version": 1,
        "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}}"#
    );
    let leaf = Leaf { order: 0, topic: None, due: None, body };
    let (tenant, id) = (tenant.clone(), String::new());
    let mut draft = roster::read(&Doc { tenant: tenant.clone(), id, version: 1, updated_at: START, leaf })?;
    draft.throttle = throttle;
    draft.max_failure_rate = dice.one_in(2).then_some(0.5);
    draft.expires_after = dice.one_in(4).then(|| Span::from_secs(dice.between(20, 120)));
    Some(Drive {
        name: format!("cmp_{n}").parse().ok()?,
        at: dice.below(calm_at / 2),
        people: if dice.one_in(4) { dice.between(17, 22) } else { dice.between(1, 9) },
        pauses: dice.one_in(2),
        opens_at: None,
        tenant,
        draft,
    })
}

/// Limits that a few messages can reach.
fn touchy(dice: &mut Dice) -> breaker::Limits {
    breaker::Limits {
        failures: u16::try_from(dice.between(2, 4)).unwrap_or(2),
        percent: 40,
        volume: 4,
        lasting: Span::ZERO,
        first_probe: Span::from_millis(dice.between(500, 5_000)),
        slowest_probe: Span::from_secs(dice.between(10, 60)),
    }
}

fn wishes(tenants: &[Tenant], lanes: &[LaneName], setup: &Setup, calm_at: u64, dice: &mut Dice) -> Vec<Wish> {
    let count = if dice.one_in(5) { dice.between(16, 40) } else { dice.between(3, 16) };
    // Sometimes everything at once, sometimes spread out.
    let spread = *dice.pick(&[100, calm_at / 2, calm_at]);
    let mut wishes = Vec::new();
    for n in 0..count {
        let at = dice.between(0, spread);
        let size = if dice.one_in(4) { dice.between(2, 4) } else { 1 };
        let tenant = dice.pick(tenants).clone();
        let names = (0..size).map(|m| format!("w{n}.{m}"));
        let drafts: Vec<Draft> =
            names.filter_map(|name| draft(&name, at, &tenant, lanes, setup, dice)).collect();
        // Somebody else's message under the same key is another message.
        let other = tenants.iter().find(|other| **other != tenant).filter(|_| dice.one_in(4));
        if let (Some(other), Some(first)) = (other, drafts.first()) {
            let mut theirs = first.clone();
            theirs.queue.tenant = other.clone();
            theirs.body.reference = Some(format!("x{n}"));
            wishes.push(Wish { at: dice.between(0, spread), drafts: vec![theirs] });
        }
        wishes.push(Wish { at, drafts });
    }
    wishes
}

fn draft(
    name: &str,
    at: u64,
    tenant: &Tenant,
    lanes: &[LaneName],
    setup: &Setup,
    dice: &mut Dice,
) -> Option<Draft> {
    let channel = setup.channels.get(*dice.pick(&CHANNELS))?;
    let said = START + Span::from_millis(at);
    let attempts = u16::try_from(dice.between(1, u64::from(channel.policy.attempts))).unwrap_or(1);
    let retry = dice.one_in(6).then(|| Overrides { attempts: Some(attempts), ..Overrides::default() });
    let key = || Idempotency { key: format!("key-{name}"), fingerprint: [1; 16] };
    Some(Draft {
        id: None,
        queue: QueueName {
            tenant: tenant.clone(),
            lane: dice.pick(lanes).clone(),
            channel: channel.name.clone(),
            destination: (*dice.pick(&DESTINATIONS)).into(),
            campaign: None,
        },
        priority: Priority::new(u8::try_from(dice.below(10)).unwrap_or(5)).unwrap_or_default(),
        send_at: dice.one_in(5).then(|| said + Span::from_millis(dice.between(0, 60_000))),
        expires_at: dice.one_in(4).then(|| said + Span::from_millis(dice.between(500, 90_000))),
        ordering_key: dice.one_in(4).then(|| format!("order-{}", dice.below(2))),
        idempotency: (!dice.one_in(4)).then(key),
        body: Body { to: "someone".into(), reference: Some(name.to_owned()), retry, ..Body::default() },
        blobs: Vec::new(),
    })
}
