//! What a store says of itself, one line for each thing, in words that every version has.

use pombo_kernel::message::{Draft, Idempotency, State};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::core::{Core, Reading};
use pombo_store::roster::Roster;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_store::{By, StatsWanted};
use pombo_store::{Filter, Repeat};

use crate::world::{START, draft};

/// NUL, the character that stands before an escaped one, and a few that are nobody's business.
pub(crate) const ODD: &str = "\0a\u{1}0'ç\u{1}";

/// Idempotency keys that some golden store knows: tenant, key, and what the request's digest repeats.
const KEYS: [(&str, &str, u8); 11] = [
    ("default", "k-sent", 4),
    ("default", "k-failed", 4),
    ("default", "k-cancelled", 4),
    ("default", "k-retrying", 4),
    ("default", "k-waiting", 4),
    ("default", "k-dying", 4),
    ("default", "k-first", 4),
    ("default", "k-second", 4),
    ("default", "order-1", 3),
    ("default", "gone", 1),
    ("acme", ODD, 1),
];

/// Sorted. What was not committed is forgotten.
pub(crate) fn told(core: &mut impl Core) -> Vec<String> {
    let mut lines = Vec::new();
    let mut reader = core.reader().unwrap();
    for tenant in ["default", "acme"].map(|tenant| tenant.parse::<Tenant>().unwrap()) {
        let of_tenant = Filter { tenant: tenant.clone(), ..Filter::default() };
        for line in reader.page(&of_tenant, None, 1_000).unwrap().lines {
            let id = line.message.id;
            let story = reader.story(&tenant, id).unwrap().unwrap();
            let message = &story.message;
            let queue = &message.queue;
            lines.push(format!(
                "message {id} tenant={} lane={} channel={} destination={:?} campaign={:?} priority={} send_at={:?} \
                 expires_at={:?} ordering_key={:?} body={}",
                queue.tenant,
                queue.lane,
                queue.channel,
                queue.destination,
                queue.campaign.as_ref().map(ToString::to_string),
                message.priority.get(),
                message.send_at.map(Time::millis),
                message.expires_at.map(Time::millis),
                message.ordering_key,
                serde_json::to_string(&message.body).unwrap(),
            ));
            let state = match &story.state {
                State::Pending { due } => format!("pending due={}", due.millis()),
                State::Sending { since, .. } => format!("sending since={}", since.millis()),
                State::Sent { at, receipt } => {
                    format!("sent at={} id={:?} code={:?}", at.millis(), receipt.provider_id, receipt.code)
                }
                State::Failed { at, reason } => format!("failed at={} reason={reason:?}", at.millis()),
                State::Cancelled { at, by } => format!("cancelled at={} by={:?}", at.millis(), by.0),
                State::Discarded { at, by } => format!("discarded at={} by={:?}", at.millis(), by.0),
            };
            let progress = story.progress;
            lines.push(format!(
                "state {id} {state} updated_at={} round={} attempts={} crashes={} steps={}",
                story.updated_at.millis(),
                progress.round,
                progress.attempts,
                progress.crashes,
                progress.steps,
            ));
            for (nth, attempt) in story.attempts.iter().enumerate() {
                let failure = attempt.failure.as_ref().map(|failure| serde_json::to_string(failure).unwrap());
                lines.push(format!(
                    "attempt {id} {nth} round={} number={} started_at={} finished_at={} outcome={:?} failure={} \
                     next_delay={:?} explanation={:?} policy={:?}",
                    attempt.round,
                    attempt.number,
                    attempt.started_at.millis(),
                    attempt.finished_at.millis(),
                    attempt.outcome,
                    failure.unwrap_or_default(),
                    attempt.next_delay.map(|delay| delay.millis()),
                    attempt.explanation,
                    attempt.policy,
                ));
            }
            if let Some(word) = &story.delivery {
                lines.push(format!(
                    "delivery {id} {:?} at={} {:?}",
                    word.state,
                    word.at.millis(),
                    word.detail
                ));
            }
            for deed in &story.deeds {
                lines.push(format!(
                    "deed {id} {:?} at={} by={:?} {:?}",
                    deed.what,
                    deed.at.millis(),
                    deed.by.0,
                    deed.note
                ));
            }
            for was in reader.revisions(&tenant, id).unwrap() {
                lines.push(format!(
                    "revision {id} {} replaced_at={} by={:?} note={:?} body={}",
                    was.version,
                    was.replaced_at.millis(),
                    was.by.0,
                    was.note,
                    serde_json::to_string(&was.body).unwrap(),
                ));
            }
        }
        for group in reader.groups(&tenant, 100).unwrap() {
            lines.push(format!(
                "group {tenant} {} {} {:?} count={} newest={}",
                group.channel, group.category, group.text, group.count, group.newest
            ));
        }
        for template in reader.templates(&tenant, None, 100).unwrap() {
            for was in reader.template_versions(&tenant, &template.name, None, 100).unwrap() {
                let text = &was.template.text;
                lines.push(format!(
                    "template {tenant} {} {} by={:?} text={text:?}",
                    was.name, was.version, was.by.0
                ));
            }
        }
        let all = Wanted {
            shelf: Shelf::Campaign,
            tenant: Some(tenant.clone()),
            pick: Pick::All { after: None },
            limit: 100,
        };
        for doc in reader.docs(&all).unwrap() {
            let (tenant, campaign) = (tenant.clone(), doc.id.parse().unwrap());
            for one in
                reader.recipients(&Roster { tenant, campaign, standing: None, after: 0, limit: 100 }).unwrap()
            {
                lines.push(format!(
                    "recipient {} {} line={} to={:?} payload={} {:?} reason={:?} message={:?}",
                    doc.id,
                    one.number,
                    one.line,
                    one.to,
                    one.payload.map(|payload| serde_json::to_string(&payload).unwrap()).unwrap_or_default(),
                    one.standing,
                    one.reason,
                    one.message.map(|id| id.to_string()),
                ));
            }
        }
    }
    for shelf in Shelf::ALL {
        let all = Wanted { shelf, tenant: None, pick: Pick::All { after: None }, limit: 100 };
        for doc in reader.docs(&all).unwrap() {
            lines.push(format!(
                "doc {shelf:?} {} {:?} version={} order={} topic={:?} due={:?} updated_at={} body={}",
                doc.tenant,
                doc.id,
                doc.version,
                doc.leaf.order,
                doc.leaf.topic,
                doc.leaf.due.map(Time::millis),
                doc.updated_at.millis(),
                doc.leaf.body,
            ));
        }
    }
    for (place, block) in reader.blocks().unwrap() {
        let destination = place.destination.as_deref();
        lines.push(format!(
            "block {} {destination:?} {:?}",
            place.channel,
            serde_json::to_string(&block).unwrap()
        ));
    }
    for tally in reader.tallies().unwrap() {
        lines.push(format!("tally {} {} {:?} {}", tally.tenant, tally.channel, tally.what, tally.count));
    }
    let every = StatsWanted { tenant: None, since: Time::default(), until: Time::MAX, by: By::Hour };
    for it in reader.stats(&every).unwrap() {
        lines.push(format!(
            "stat {} {} {:?} {:?} {:?} count={} sum={}",
            it.hour.millis(),
            it.tenant,
            it.channel.map(|channel| channel.to_string()),
            it.what,
            it.detail,
            it.count,
            it.sum
        ));
    }
    for it in reader.backlog(START).unwrap() {
        lines.push(format!("backlog {} {} {} waiting={}", it.tenant, it.lane, it.channel, it.waiting));
    }
    for (position, record) in reader.audit(0, 100_000).unwrap() {
        lines.push(format!(
            "audit {position:03} {:?} at={} message={:?} {:?}>{:?} {} {} {:?} {}",
            record.event,
            record.at.millis(),
            record.message.map(|id| id.to_string()),
            record.from,
            record.to,
            record.tenant,
            record.channel,
            record.actor,
            record.detail
        ));
    }
    let verified = reader.verify().unwrap();
    assert_eq!(verified.broken, None);
    lines.push(format!("chain blocks={} records={}", verified.blocks, verified.records));
    for (tenant, key, digest) in KEYS {
        let mut again = Draft {
            idempotency: Some(Idempotency { key: key.into(), fingerprint: [digest; 16] }),
            ..draft()
        };
        again.queue.tenant = tenant.parse().unwrap();
        let accepted = core.accept(again, START).unwrap().unwrap();
        if accepted.repeat == Repeat::Same {
            lines.push(format!("key {tenant} {key:?} {}", accepted.id));
        }
    }
    core.reopen().unwrap();
    lines.sort();
    lines
}
