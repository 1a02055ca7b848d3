//! When a message that waits after a failure will likely have been sent: what history says, for whoever reads it.

mod foresee;

use std::sync::Arc;

use pombo_kernel::learn::{Counts, Curve};
use pombo_kernel::message::{Attempt, AttemptOutcome, QueueName, State};
use pombo_kernel::time::{Span, Time};
use pombo_store::learning::{Learnt, Lesson};
use pombo_store::{Store, StoreError, Story};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;

use self::foresee::{Foreseen, Waits, foresee};
use crate::Door;

/// How old what is remembered may be.
const REMEMBERED: Span = Span::from_secs(30);

/// What retries have taught, as it was read last.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Option<(Time, Arc<[Learnt]>)>>);

impl Remembered {
    async fn learnt(&self, store: &dyn Store, now: Time) -> Result<Arc<[Learnt]>, StoreError> {
        // Held while it is read, so that of many who ask at once one reads.
        let mut held = self.0.lock().await;
        if let Some((at, learnt)) = &*held
            && now >= *at
            && now.since(*at) < REMEMBERED
        {
            return Ok(Arc::clone(learnt));
        }
        let learnt: Arc<[Learnt]> = store.learnt(None, now).await?.into();
        *held = Some((now, Arc::clone(&learnt)));
        Ok(learnt)
    }
}

/// What a message has beyond what happened.
#[derive(Serialize)]
pub(crate) struct Foretold {
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<PredictionView>,
}

/// What is likely, as far as history tells.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Prediction")]
pub(crate) struct PredictionView {
    /// By when it has likely been sent; null where that is not likely, or too little is known.
    likely_by: Option<Time>,
    /// The chance that it is sent by then, or by its last attempt where that is not likely; null where too little is known.
    chance: Option<f64>,
    /// How many retries like the next one are on record.
    samples: u64,
    /// The same in a sentence.
    reason: String,
}

/// What is likely to become of a message.
pub(crate) async fn foretold(door: &Door, story: &Story) -> Result<Foretold, StoreError> {
    let nothing = Foretold { prediction: None };
    let State::Pending { due } = story.state else { return Ok(nothing) };
    let round = story.progress.round;
    let failed = |it: &&Attempt| it.round == round && it.outcome == AttemptOutcome::Retry;
    let Some(last) = story.attempts.iter().rev().find(failed) else { return Ok(nothing) };
    let (setup, queue) = (door.setup(), &story.message.queue);
    let Some((channel, failure)) = setup.channels.get(&queue.channel).zip(last.failure.as_ref()) else {
        return Ok(nothing);
    };
    let policy = match &story.message.body.retry {
        Some(changes) => &channel.policy.with(changes),
        None => &channel.policy,
    };
    let learnt = door.remembered().learnt(door.store(), door.now()).await?;
    let waits = Waits {
        policy,
        attempts: story.progress.attempts,
        failed_at: last.finished_at,
        next: due.max(door.now()),
        expires_at: story.message.expires_at,
    };
    let curve = curve(&learnt, queue, &failure.category);
    Ok(Foretold { prediction: Some(told(foresee(waits, &curve), &failure.category)) })
}

/// What is known of such failures at the message's own destination, or on the whole channel where that is too little.
fn curve(learnt: &[Learnt], queue: &QueueName, category: &str) -> Curve {
    let (mut here, mut anywhere) = (Curve::default(), Curve::default());
    for it in learnt.iter().filter(|it| it.channel == queue.channel && it.tenant == queue.tenant) {
        let Lesson::Trial { category: after, destination, cell } = &it.lesson else { continue };
        if after == category {
            let counts = Counts { tried: it.tried, passed: it.passed };
            anywhere.add(*cell, counts);
            if destination.as_deref() == Some(&*queue.destination) {
                here.add(*cell, counts);
            }
        }
    }
    if here.total().tried >= Counts::ENOUGH { here } else { anywhere }
}

fn told(foreseen: Foreseen, category: &str) -> PredictionView {
    let going_by = |counts: Counts| {
        format!(
            "going by {} retries like it after `{category}`, of which {} passed",
            counts.tried, counts.passed
        )
    };
    match foreseen {
        Foreseen::TooFew(counts) => PredictionView {
            likely_by: None,
            chance: None,
            samples: counts.tried,
            reason: format!(
                "{} retries after `{category}` are on record, and {} are needed to say more",
                counts.tried,
                Counts::ENOUGH
            ),
        },
        Foreseen::Likely { by, chance, counts } => PredictionView {
            likely_by: Some(by),
            chance: Some(chance),
            samples: counts.tried,
            reason: format!("{:.0} % likely to have been sent by then, {}", chance * 100.0, going_by(counts)),
        },
        Foreseen::Unlikely { last, chance, counts } => PredictionView {
            likely_by: None,
            chance: Some(chance),
            samples: counts.tried,
            reason: format!(
                "{:.0} % likely to have been sent by its last attempt, about {last}, {}",
                chance * 100.0,
                going_by(counts)
            ),
        },
    }
}
