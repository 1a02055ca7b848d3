//! Whoever wants to be told of events: where, of what, and how they know that it is us.
//!
//! A document on its shelf. A delivery names its subscription and reads it when it is sent, so that a new address or
//! secret takes effect for what waits.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::name::ChannelName;
use crate::secret::Secret;
use crate::signature::SigningKey;
use crate::time::{Span, Time};

/// Secrets that sign at the same time, at most.
const SECRETS_MAX: usize = 3;

/// What is told when a subscription names no events: the ends that a message can have.
pub const USUAL: [&str; 4] = ["message.sent", "message.failed", "message.cancelled", "message.discarded"];

/// A subscription to events. Whatever a newer version writes here is kept as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subscription {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Types such as `message.sent`, or `message.*`; [`USUAL`] if there are none.
    #[serde(default)]
    pub events: Vec<String>,
    /// Only events of these channels; of all if there are none.
    #[serde(default)]
    pub channels: Vec<ChannelName>,
    /// The one that is valid now first, then those that are on their way out.
    pub secrets: Vec<Signer>,
    /// Since when and why nothing is told; none if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
    /// Events from this position on.
    pub since: u64,
    pub created_at: Time,
    #[serde(default)]
    pub created_by: String,
    /// A digest of the request that made it, where that had an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A secret that signs, for good or until it is let go.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Signer {
    #[serde(serialize_with = "exposed")]
    pub secret: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// The store has to keep the words themselves, since they sign; nobody else gets to see them.
fn exposed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("until", &self.until).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    pub at: Time,
    pub reason: String,
}

impl Subscription {
    /// Reads the text of a document; nothing if it cannot be understood.
    pub fn read(body: &str) -> Option<Subscription> {
        serde_json::from_str(body).ok()
    }

    pub fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether it is told of an event of that type, at that position, in that channel if it has one.
    pub fn wants(&self, event: &str, channel: &str, position: u64) -> bool {
        let of_type = match self.events.is_empty() {
            true => USUAL.contains(&event),
            false => self.events.iter().any(|pattern| matches(pattern, event)),
        };
        let of_channel =
            self.channels.is_empty() || self.channels.iter().any(|wanted| wanted.as_str() == channel);
        self.disabled.is_none() && position >= self.since && of_type && of_channel
    }

    /// What signs at that time.
    pub fn signers(&self, now: Time) -> Vec<SigningKey> {
        self.lasting(now).filter_map(|signer| SigningKey::from_secret(&signer.secret)).collect()
    }

    /// Signs with another secret from now on, and with those before it for as long as they lasted, but no longer than
    /// `overlap`.
    pub fn rotate(&mut self, secret: Secret, overlap: Span, now: Time) {
        let end = now + overlap;
        let old = self.lasting(now).map(|signer| {
            let until = signer.until.map_or(end, |until| until.min(end));
            Signer { secret: signer.secret.clone(), until: Some(until) }
        });
        let old: Vec<Signer> = old.filter(|signer| signer.until > Some(now)).collect();
        self.secrets = vec![Signer { secret, until: None }];
        self.secrets.extend(old.into_iter().take(SECRETS_MAX - 1));
    }

    fn lasting(&self, now: Time) -> impl Iterator<Item = &Signer> {
        self.secrets.iter().filter(move |signer| signer.until.is_none_or(|until| until > now))
    }
}

/// Whether a type fits a pattern: itself, a group with a star such as `message.*`, or a star alone.
pub fn matches(pattern: &str, event: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(group) => event.starts_with(group),
        None => pattern == event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{sign, verify};

    const ONE: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const TWO: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn subscription() -> Subscription {
        let text = format!(
            r#"{{"url":"https://a.example","secrets":[{{"secret":"{ONE}"}}],"since":7,
            "created_at":"2026-01-31T10:20:30.000Z","colour":"blue"}}"#
        );
        Subscription::read(&text).unwrap()
    }

    #[test] // REQ ML-7
    fn it_is_told_of_what_it_asked_for_and_of_nothing_else() {
        let usual = subscription();
        for event in USUAL {
            assert!(usual.wants(event, "crm", 7), "{event}");
        }
        assert!(!usual.wants("message.accepted", "crm", 7) && !usual.wants("message.sent", "crm", 6));
        let some = Subscription {
            events: vec!["message.*".into(), "RetryScheduledEvent".into()],
            channels: vec!["crm".parse().unwrap()],
            ..subscription()
        };
        assert!(some.wants("message.held", "crm", 7) && some.wants("RetryScheduledEvent", "crm", 7));
        assert!(!some.wants("message.held", "mail", 7) && !some.wants("channel.blocked", "crm", 7));
        assert!(!some.wants("store.paused", "", 7), "what is of no channel is of none of its channels");
        let off = Disabled { at: NOW, reason: "gone".into() };
        assert!(!Subscription { disabled: Some(off), ..subscription() }.wants("message.sent", "crm", 7));
        assert!(matches("*", "key.added") && !matches("message", "message.sent"));
    }

    #[test] // REQ ML-7
    fn after_a_rotation_both_secrets_sign_until_the_overlap_is_over() {
        let mut it = subscription();
        it.rotate(Secret::new(TWO), Span::from_hours(1), NOW);
        let old = SigningKey::from_secret(&Secret::new(ONE)).unwrap();
        let new = SigningKey::from_secret(&Secret::new(TWO)).unwrap();
        let during = sign(&it.signers(NOW), "m", "1", b"x");
        assert!(verify(&old, "m", "1", b"x", &during) && verify(&new, "m", "1", b"x", &during));
        let after = sign(&it.signers(NOW + Span::from_hours(1)), "m", "1", b"x");
        assert!(!verify(&old, "m", "1", b"x", &after) && verify(&new, "m", "1", b"x", &after));
        it.rotate(Secret::new(ONE), Span::ZERO, NOW);
        assert_eq!(it.signers(NOW).len(), 1, "without an overlap the old ones end at once");
        for _ in 0..5 {
            it.rotate(Secret::new(TWO), Span::from_hours(1), NOW);
        }
        assert_eq!(it.signers(NOW).len(), SECRETS_MAX);
    }

    #[test] // REQ SE-2
    fn secrets_are_kept_and_not_shown_and_what_is_not_known_survives() {
        let it = subscription();
        assert!(!format!("{it:?}").contains("AAEC"));
        let again = Subscription::read(&it.written()).unwrap();
        assert_eq!((again.signers(NOW).len(), &again), (1, &it));
        assert_eq!(again.rest["colour"], "blue");
    }
}
