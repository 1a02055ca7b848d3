//! What each rule sees in what was measured.

use std::collections::BTreeMap;

use super::jump::Jump;
use super::meter::{Key, Meter, What};
use super::{Rule, RuleName, Sample, Seen, Subject};
use crate::block::BlockKind;
use crate::message::FailureReason;
use crate::name::{ChannelName, Tenant};
use crate::time::{Span, Time};

/// Hours of the past that must be known before anything counts as unusual.
const USUAL_LEAST: usize = 24;
/// What is unusual is also so many times as much as usual.
const UNUSUAL_TIMES: f64 = 3.0;

/// What an alert is about that concerns retry decisions.
pub const DECISIONS: &str = "retry-decisions";

/// What waits in a channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub tenant: Tenant,
    pub channel: ChannelName,
    pub past_due: u64,
    /// Since when whoever has waited longest should be on its way.
    pub oldest_due: Option<Time>,
}

/// Something stands in front of a channel, or of a destination of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocked {
    pub tenant: Tenant,
    pub channel: ChannelName,
    pub destination: Option<String>,
    /// Nothing else goes through the channel either: the block is the channel's, or that of its only destination.
    pub is_whole: bool,
    pub kind: BlockKind,
    pub reason: String,
    pub since: Time,
}

/// Dead letters of one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Dead {
    pub tenant: Tenant,
    pub channel: ChannelName,
    pub category: String,
    pub text: String,
    pub count: u64,
    pub newest: String,
    pub last_at: Time,
}

/// Claims that wait and whose deadline is near.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    pub tenant: Tenant,
    pub channel: ChannelName,
    pub count: u64,
    pub soonest: Time,
    pub message: String,
}

/// How often a category came up in hours of the past that are like this one, where it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Usual {
    pub key: Key,
    pub hours: Vec<u64>,
}

/// Everything that rules go by, at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub queues: Vec<Queue>,
    pub blocks: Vec<Blocked>,
    pub dead: Vec<Dead>,
    pub claims: Vec<Claims>,
    /// How long retry decisions took, by tenant: the slowest, and of how many.
    pub decisions: Vec<(Tenant, Span, u64)>,
    pub usual: Vec<Usual>,
    /// How many such hours of the past there are. In those that `usual` does not list nothing came up.
    pub usual_hours: usize,
    /// Nothing is sent, by somebody's order, for this reason.
    pub paused: Option<String>,
    /// How long the store has not been writable, and why.
    pub unwritable: Option<(Span, String)>,
    /// Where the audit does not hold.
    pub audit_broken: Option<String>,
    /// The share of the store's disk that is used.
    pub disk_used: Option<f64>,
    /// How large the embedded store's log is, in millions of bytes.
    pub log_mb: Option<f64>,
    /// The clock that everything goes by was set since the last look.
    pub jump: Option<Jump>,
}

/// What the rules see.
pub fn judge(rules: &BTreeMap<RuleName, Rule>, facts: &Facts, meter: &Meter, now: Time) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    for rule in rules.values() {
        let judge = Judge { rule, facts, meter, now };
        match rule.name {
            RuleName::DeadLetters => judge.dead_letters(&mut seen),
            RuleName::FailureRate => judge.ended(&mut seen, None),
            RuleName::MaxRetries => judge.ended(&mut seen, Some(FailureReason::MaxRetriesExceeded)),
            RuleName::PermanentErrors => judge.ended(&mut seen, Some(FailureReason::PermanentError)),
            RuleName::TemplateFailing => judge.templates(&mut seen),
            RuleName::ProcessingTime => judge.processing(&mut seen),
            RuleName::PastDue => judge.past_due(&mut seen),
            RuleName::NoScheduling => judge.scheduling(&mut seen),
            RuleName::DecisionTime => judge.decisions(&mut seen),
            RuleName::ClaimDeadline => judge.claims(&mut seen),
            RuleName::ChannelHeld => judge.blocks(&mut seen, &[BlockKind::Hold, BlockKind::Operator]),
            RuleName::BreakerOpen => judge.blocks(&mut seen, &[BlockKind::Breaker]),
            RuleName::Anomaly => judge.anomalies(&mut seen),
            RuleName::StoreUnwritable | RuleName::AuditBroken | RuleName::DiskLow | RuleName::LogLarge => {
                judge.house(&mut seen);
            }
            RuleName::ClockJumped => judge.clock(&mut seen),
        }
    }
    seen
}

struct Judge<'a> {
    rule: &'a Rule,
    facts: &'a Facts,
    meter: &'a Meter,
    now: Time,
}

impl Judge<'_> {
    fn see(&self, out: &mut Vec<Seen>, subject: Subject, value: f64, count: u64, samples: Vec<Sample>) {
        out.push(Seen { rule: self.rule.name, subject, value, count, of: None, samples });
    }

    fn share(&self, out: &mut Vec<Seen>, subject: Subject, count: u64, of: u64, samples: Vec<Sample>) {
        if of >= self.rule.least.max(1) {
            let value = number(count) / number(of);
            out.push(Seen { rule: self.rule.name, subject, value, count, of: Some(of), samples });
        }
    }

    /// The largest causes of dead letters in a channel, or in all of a tenant's.
    fn causes(&self, tenant: &Tenant, channel: Option<&ChannelName>) -> Vec<Sample> {
        let own = |dead: &&Dead| dead.tenant == *tenant && channel.is_none_or(|it| dead.channel == *it);
        let mut causes: Vec<&Dead> = self.facts.dead.iter().filter(own).collect();
        causes.sort_by_key(|dead| std::cmp::Reverse(dead.count));
        let sample = |dead: &Dead| Sample {
            channel: Some(dead.channel.clone()),
            what: dead.category.clone(),
            text: dead.text.clone(),
            count: dead.count,
            message: Some(dead.newest.clone()),
            last_at: Some(dead.last_at),
        };
        causes.into_iter().map(sample).collect()
    }

    fn dead_letters(&self, out: &mut Vec<Seen>) {
        let mut counts: BTreeMap<&Tenant, u64> = BTreeMap::new();
        for dead in &self.facts.dead {
            *counts.entry(&dead.tenant).or_default() += dead.count;
        }
        for (tenant, count) in counts {
            self.see(out, Subject::house(tenant.clone()), number(count), count, self.causes(tenant, None));
        }
    }

    /// Of the messages that ended, how many failed, for that reason or for any; and of retry decisions, how many said so.
    fn ended(&self, out: &mut Vec<Seen>, reason: Option<FailureReason>) {
        let mut ends: BTreeMap<(&Tenant, Option<&ChannelName>), (u64, u64)> = BTreeMap::new();
        for (key, count) in self.meter.over(self.rule.window, self.now) {
            let (failed, all) = ends.entry((&key.tenant, key.channel.as_ref())).or_default();
            let is_it = reason.is_some_and(|reason| key.detail == reason.as_str());
            match (key.what, reason) {
                (What::Sent, _) => *all += count,
                (What::Failed, None) => (*failed, *all) = (*failed + count, *all + count),
                (What::Failed, Some(_)) => *all += count,
                (What::FailedFor, Some(_)) if is_it => *failed += count,
                (What::Decided, Some(_)) if is_it => (*failed, *all) = (*failed + count, *all + count),
                (What::Decided, Some(_)) => *all += count,
                _ => {}
            }
        }
        for ((tenant, channel), (failed, all)) in ends {
            let (subject, samples) = match channel {
                Some(channel) => {
                    (Subject::channel(tenant.clone(), channel.clone()), self.causes(tenant, Some(channel)))
                }
                None => {
                    let detail = Some(DECISIONS.to_owned());
                    (Subject { detail, ..Subject::house(tenant.clone()) }, Vec::new())
                }
            };
            self.share(out, subject, failed, all, samples);
        }
    }

    fn templates(&self, out: &mut Vec<Seen>) {
        let mut ends: BTreeMap<(&Tenant, &ChannelName, &str), (u64, u64)> = BTreeMap::new();
        for (key, count) in self.meter.over(self.rule.window, self.now) {
            let Some(channel) = &key.channel else { continue };
            let place = (&key.tenant, channel, key.detail.as_str());
            match key.what {
                What::SentByTemplate => ends.entry(place).or_default().1 += count,
                What::FailedByTemplate => {
                    let (failed, all) = ends.entry(place).or_default();
                    (*failed, *all) = (*failed + count, *all + count);
                }
                _ => {}
            }
        }
        for ((tenant, channel, template), (failed, all)) in ends {
            let subject = Subject {
                detail: Some(template.to_owned()),
                ..Subject::channel(tenant.clone(), channel.clone())
            };
            self.share(out, subject, failed, all, self.causes(tenant, Some(channel)));
        }
    }

    fn is_blocked(&self, channel: &ChannelName) -> bool {
        self.facts.blocks.iter().any(|block| block.is_whole && block.channel == *channel)
    }

    /// How long it took at most of late, or takes whoever has waited longest. What waits behind a block has an alert of
    /// its own.
    fn processing(&self, out: &mut Vec<Seen>) {
        let mut slowest: BTreeMap<(&Tenant, &ChannelName), (f64, u64)> = BTreeMap::new();
        let mut slow = |tenant, channel, took: f64, count: u64| {
            let (most, all) = slowest.entry((tenant, channel)).or_default();
            *most = most.max(took);
            *all += if took > self.rule.above { count } else { 0 };
        };
        for (key, count) in self.meter.over(self.rule.window, self.now) {
            let least: Option<u64> = key.detail.parse().ok().filter(|_| key.what == What::EndedAfter);
            if let (Some(channel), Some(least)) = (&key.channel, least) {
                // It took longer than that.
                slow(&key.tenant, channel, millis(Span::from_secs(least)) + 1.0, count);
            }
        }
        for queue in &self.facts.queues {
            let Some(due) = queue.oldest_due else { continue };
            slow(&queue.tenant, &queue.channel, millis(self.now.since(due)), 1);
        }
        for ((tenant, channel), (took, count)) in slowest {
            if !self.is_blocked(channel) {
                let subject = Subject::channel(tenant.clone(), channel.clone());
                self.see(out, subject, took, count, Vec::new());
            }
        }
    }

    fn past_due(&self, out: &mut Vec<Seen>) {
        let mut tenants: BTreeMap<&Tenant, Vec<&Queue>> = BTreeMap::new();
        for queue in self.facts.queues.iter().filter(|queue| queue.past_due > 0) {
            tenants.entry(&queue.tenant).or_default().push(queue);
        }
        for (tenant, mut queues) in tenants {
            queues.sort_by_key(|queue| std::cmp::Reverse(queue.past_due));
            let count = queues.iter().map(|queue| queue.past_due).sum();
            let sample = |queue: &Queue| Sample {
                channel: Some(queue.channel.clone()),
                what: "past_due".to_owned(),
                count: queue.past_due,
                last_at: queue.oldest_due,
                ..Sample::default()
            };
            let samples = queues.into_iter().map(sample).collect();
            self.see(out, Subject::house(tenant.clone()), number(count), count, samples);
        }
    }

    /// Something should be on its way and nothing has been tried, by anybody. In time that the clock leapt over nobody
    /// could.
    fn scheduling(&self, out: &mut Vec<Seen>) {
        let free = self.facts.queues.iter().filter(|queue| !self.is_blocked(&queue.channel));
        let (mut oldest, mut count) = (None, 0);
        for (due, queue) in free.filter_map(|queue| Some((queue.oldest_due?, queue))) {
            oldest = Some(oldest.unwrap_or(due).min(due));
            count += queue.past_due;
        }
        let Some(due) = oldest else { return };
        let still = self.now.since(self.meter.attempted().map_or(due, |last| last.max(due)));
        let leapt = self.facts.jump.map_or(Span::ZERO, Jump::leapt);
        let still = Span::from_millis(still.millis().saturating_sub(leapt.millis()));
        let paused = self.facts.paused.iter().map(|why| Sample {
            what: "paused".to_owned(),
            text: why.clone(),
            ..Sample::default()
        });
        self.see(out, Subject::house(Tenant::default()), millis(still), count, paused.collect());
    }

    fn decisions(&self, out: &mut Vec<Seen>) {
        for (tenant, slowest, of) in self.facts.decisions.iter().filter(|it| it.2 >= self.rule.least) {
            self.see(out, Subject::house(tenant.clone()), millis(*slowest), *of, Vec::new());
        }
    }

    fn claims(&self, out: &mut Vec<Seen>) {
        for claims in &self.facts.claims {
            let sample = Sample {
                channel: Some(claims.channel.clone()),
                what: "deadline".to_owned(),
                text: claims.soonest.to_string(),
                count: claims.count,
                message: Some(claims.message.clone()),
                last_at: None,
            };
            let subject = Subject::channel(claims.tenant.clone(), claims.channel.clone());
            self.see(out, subject, number(claims.count), claims.count, vec![sample]);
        }
    }

    fn blocks(&self, out: &mut Vec<Seen>, kinds: &[BlockKind]) {
        let mut channels: BTreeMap<(&Tenant, &ChannelName), Vec<&Blocked>> = BTreeMap::new();
        for block in self.facts.blocks.iter().filter(|block| kinds.contains(&block.kind)) {
            channels.entry((&block.tenant, &block.channel)).or_default().push(block);
        }
        for ((tenant, channel), mut blocks) in channels {
            blocks.sort_by_key(|block| (block.destination.is_some(), block.since));
            let count = blocks.len() as u64;
            let sample = |block: &Blocked| Sample {
                channel: Some(channel.clone()),
                what: block.destination.clone().unwrap_or_else(|| channel.to_string()),
                text: block.reason.clone(),
                count: 1,
                message: None,
                last_at: Some(block.since),
            };
            let samples = blocks.into_iter().map(sample).collect();
            self.see(out, Subject::channel(tenant.clone(), channel.clone()), number(count), count, samples);
        }
    }

    /// A category that comes up far more often than in hours like this one: by so many standard deviations, and at least
    /// three times as often. Counts spread by their root even where the past was perfectly even.
    fn anomalies(&self, out: &mut Vec<Seen>) {
        for (key, count) in self.meter.over(self.rule.window, self.now) {
            let of_channel = key.channel.as_ref().filter(|_| key.what == What::AttemptFailed);
            let Some(channel) = of_channel.filter(|_| count >= self.rule.least) else { continue };
            let usual = self.facts.usual.iter().find(|usual| usual.key == *key);
            let mut past = usual.map(|usual| usual.hours.clone()).unwrap_or_default();
            past.resize(self.facts.usual_hours.max(past.len()), 0);
            if past.len() < USUAL_LEAST {
                continue;
            }
            let (mean, deviation) = spread(past);
            let hours = self.rule.window.seconds() / 3_600.0;
            let (mean, deviation) = (mean * hours, deviation * hours.sqrt());
            let value = (number(count) - mean) / deviation.max(mean.sqrt()).max(1.0);
            if number(count) < UNUSUAL_TIMES * mean {
                continue;
            }
            let subject = Subject {
                detail: Some(key.detail.clone()),
                ..Subject::channel(key.tenant.clone(), channel.clone())
            };
            let mut samples = self.causes(&key.tenant, Some(channel));
            samples.retain(|sample| sample.what == key.detail);
            self.see(out, subject, value, count, samples);
        }
    }

    /// Ahead and back are two matters: of a clock that was set wrong and then right, both are told.
    fn clock(&self, out: &mut Vec<Seen>) {
        let Some(jump) = self.facts.jump else { return };
        let sample = Sample {
            what: "clock".to_owned(),
            text: format!("it says {}, and would have said {}", self.now, jump.undone(self.now)),
            count: 1,
            last_at: Some(self.now),
            ..Sample::default()
        };
        let subject = Subject { detail: Some(jump.as_str().to_owned()), ..Subject::house(Tenant::default()) };
        self.see(out, subject, millis(jump.span()), 1, vec![sample]);
    }

    fn house(&self, out: &mut Vec<Seen>) {
        let said = |what: &str, text: &str| {
            vec![Sample { what: what.to_owned(), text: text.to_owned(), count: 1, ..Sample::default() }]
        };
        let facts = self.facts;
        let found = match self.rule.name {
            RuleName::StoreUnwritable => {
                facts.unwritable.as_ref().map(|(span, why)| (millis(*span), said("unavailable", why)))
            }
            RuleName::AuditBroken => facts.audit_broken.as_ref().map(|why| (1.0, said("broken", why))),
            RuleName::LogLarge => facts.log_mb.map(|mb| (mb, Vec::new())),
            _ => facts.disk_used.map(|used| (used, Vec::new())),
        };
        if let Some((value, samples)) = found {
            self.see(out, Subject::house(Tenant::default()), value, 1, samples);
        }
    }
}

/// Mean and standard deviation, without the greatest tenth: one earlier outage is not what is usual.
fn spread(mut hours: Vec<u64>) -> (f64, f64) {
    hours.sort_unstable();
    hours.truncate(hours.len() - hours.len() / 10);
    let count = number(hours.len() as u64).max(1.0);
    let mean = hours.iter().map(|it| number(*it)).sum::<f64>() / count;
    let variance = hours.iter().map(|it| (number(*it) - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

/// Counts are far below where this would lose anything.
#[allow(clippy::cast_precision_loss)]
fn number(count: u64) -> f64 {
    count as f64
}

fn millis(span: Span) -> f64 {
    number(span.millis())
}
