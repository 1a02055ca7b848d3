//! The message to one recipient of a campaign, made as if a caller had asked for it.

use serde_json::{Map, Value};

use super::Campaign;
use super::recipient::merged;
use crate::message::{Draft, Json};
use crate::name::{CampaignName, Tenant};
use crate::request::{Problem, Request};
use crate::setup::Setup;
use crate::time::Time;

/// The type of messages to many people, by which their lane is found where a campaign names none.
pub const KIND: &str = "send_bulk_messages";

/// Why no message can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// For this recipient.
    Recipient(String),
    /// For anybody: the campaign cannot be sent as it is.
    Campaign(String),
}

impl Campaign {
    /// What the template is filled with for one recipient: what it says to everybody, and over it what is this one's own.
    pub fn payload_for(&self, own: Option<&Json>) -> Map<String, Value> {
        let own = own.and_then(|own| serde_json::from_str::<Map<String, Value>>(own.text()).ok());
        merged(&self.payload, own.unwrap_or_default())
    }

    /// The message to one recipient.
    pub fn draft(
        &self,
        setup: &Setup,
        (tenant, name): (&Tenant, &CampaignName),
        to: &str,
        own: Option<&Json>,
        now: Time,
    ) -> Result<Draft, Unfit> {
        let payload = self.payload_for(own);
        let request = Request {
            channel: self.channel.to_string(),
            to: to.to_owned(),
            kind: Some(KIND.to_owned()),
            template: Some(self.template.to_string()),
            payload: (!payload.is_empty()).then(|| Value::Object(payload).into()),
            lane: Some(self.lane.to_string()),
            expires_after: self.expires_after,
            ..Request::default()
        };
        let mut draft = setup.draft(request, tenant, now).map_err(|problems| unfit(&problems))?;
        draft.queue.campaign = Some(name.clone());
        draft.body.template_version = Some(self.template_version);
        Ok(draft)
    }
}

/// Whether what is wrong is wrong with everybody's message.
fn unfit(problems: &[Problem]) -> Unfit {
    let of_one = |problem: &&Problem| matches!(&*problem.field, "to" | "payload");
    let words = |problem: &Problem| format!("{}: {}", problem.field, problem.reason);
    match problems.iter().find(|problem| !of_one(problem)) {
        Some(problem) => Unfit::Campaign(words(problem)),
        None => Unfit::Recipient(problems.iter().map(words).collect::<Vec<_>>().join("; ")),
    }
}
