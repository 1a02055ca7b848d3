//! Whom a campaign writes to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::{Json, slugs};

/// A line of a list, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Where it stood in what was read, from 1 on.
    pub line: u64,
    pub of: Result<Person, Refusal>,
}

impl Listed {
    /// What tells this line from others of the campaign: the person, or all that is known of a line by which nobody can
    /// be written to. So the same list again is the same lines again.
    pub fn key(&self) -> Cow<'_, str> {
        match &self.of {
            Ok(person) => Cow::Borrowed(&person.key),
            // No person's begins with a space.
            Err(Refusal { to, reason }) => Cow::Owned(format!(" {}\n{to}\n{reason}", self.line)),
        }
    }
}

/// Somebody who can be written to.
#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    /// The address in the one form that its family gives it.
    pub to: String,
    /// What tells this person from others of the campaign.
    pub key: String,
    /// A JSON object: what the template says to this one alone.
    pub payload: Option<Json>,
}

/// A line that nobody can be written to by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The address as it stood there, or what there was of it.
    pub to: String,
    pub reason: String,
}

/// What is said to everybody, and over it what is said to one alone. Objects of the same name become one.
pub fn merged(common: &Map<String, Value>, own: Map<String, Value>) -> Map<String, Value> {
    let mut all = common.clone();
    for (name, value) in own {
        let value = match (all.get(&name), value) {
            (Some(Value::Object(common)), Value::Object(own)) => Value::Object(merged(common, own)),
            (_, value) => value,
        };
        all.insert(name, value);
    }
    all
}

slugs! {
    /// Where a recipient of a campaign stands.
    #[schemars(rename = "RecipientState")]
    Standing {
        /// No message was made yet.
        Pending = 1 "pending",
        /// There is a message, and it waits or is being sent.
        Queued = 2 "queued",
        Sent = 3 "sent",
        Failed = 4 "failed",
        Cancelled = 5 "cancelled",
        /// Left out, since this person is not to be written to.
        Suppressed = 6 "suppressed",
        /// Nobody can be written to by that line.
        Invalid = 7 "invalid",
    }
}
