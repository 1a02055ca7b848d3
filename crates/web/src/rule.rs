//! Rules that people accepted while Pombo ran, as documents; and how they come to be a part of the setup.

use std::sync::Arc;

use pombo_kernel::classify::{ACCEPTED, Rule};
use pombo_kernel::message::Actor;
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Wanted};
use pombo_store::transition::act_of;
use pombo_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::key::hex;

/// So many rules may be accepted for one channel.
pub const RULES_MAX: usize = 100;
/// All that are read at once, of all channels.
const READ_MAX: usize = 10_000;

/// A rule that somebody accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// `rule_` and 16 hexadecimal digits: the same rule of the same channel has the same one.
    pub id: String,
    pub channel: ChannelName,
    pub rule: Rule,
    pub created_at: Time,
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Accepted {
    /// A rule as it is accepted now. It goes by an id of its own.
    pub fn new(channel: &ChannelName, rule: Rule, note: Option<String>, by: &Actor, now: Time) -> Accepted {
        let mut rule = Rule { id: None, ..rule };
        let mut digest = Sha256::new();
        digest.update(channel.as_str());
        digest.update([0]);
        digest.update(serde_json::to_vec(&rule).unwrap_or_default());
        let id = format!("rule_{}", hex(&digest.finalize()[..8]));
        rule.id = Some(id.clone());
        Accepted { id, channel: channel.clone(), rule, created_at: now, created_by: by.0.clone(), note }
    }

    pub fn read(doc: &Doc) -> Option<Accepted> {
        serde_json::from_str(&doc.leaf.body).ok()
    }

    /// How decisions cite it.
    pub fn cited(&self) -> String {
        format!("{ACCEPTED}:{}", self.id)
    }

    /// A wish to put it there, unless it is there already.
    pub fn put(&self, tenant: &Tenant) -> Shelve {
        let leaf = Leaf {
            order: self.created_at.millis(),
            topic: Some(self.channel.as_str().to_owned()),
            due: None,
            body: serde_json::to_string(self).unwrap_or_default(),
        };
        let by = Actor(self.created_by.clone());
        Shelve {
            shelf: Shelf::Rule,
            tenant: tenant.clone(),
            id: self.id.clone(),
            expect: Expect::Nothing,
            leaf: Some(leaf),
            record: Some(act_of(Event::RuleAccepted, tenant, &by, &self.detail(), self.created_at)),
        }
    }

    /// A wish to remove it, if it is still as it was read.
    pub fn removed(&self, doc: &Doc, by: &Actor, now: Time) -> Shelve {
        Shelve {
            shelf: Shelf::Rule,
            tenant: doc.tenant.clone(),
            id: doc.id.clone(),
            expect: Expect::Version(doc.version),
            leaf: None,
            record: Some(act_of(Event::RuleRemoved, &doc.tenant, by, &self.detail(), now)),
        }
    }

    fn detail(&self) -> serde_json::Value {
        json!({
            "rule": self.id,
            "channel": self.channel,
            "verdict": self.rule.verdict,
            "category": self.rule.category,
        })
    }
}

/// Every rule that was accepted for a tenant's channels, or for everybody's; the newest first, with its document.
pub async fn all(store: &dyn Store, tenant: Option<Tenant>) -> Result<Vec<(Doc, Accepted)>, StoreError> {
    let pick = Pick::All { after: None };
    let docs = store.docs(Wanted { shelf: Shelf::Rule, tenant, pick, limit: READ_MAX }).await?;
    let read = |doc: Doc| Accepted::read(&doc).map(|rule| (doc, rule));
    Ok(docs.into_iter().filter_map(read).collect())
}

/// The setup with these rules, each on its channel, the newest first: after what the configuration says, and before what
/// is built in. One that is for no channel of its tenant, or cannot be used by this version, changes nothing.
pub fn dressed(setup: &Setup, accepted: &[(Doc, Accepted)]) -> Setup {
    let mut setup = setup.clone();
    for channel in setup.channels.values_mut() {
        let own = |(doc, it): &&(Doc, Accepted)| doc.tenant == channel.tenant && it.channel == channel.name;
        let rules: Vec<Rule> = accepted.iter().filter(own).map(|(_, it)| it.rule.clone()).collect();
        let (rules, bad) = channel.rules.accepting(&rules);
        for flaw in bad {
            tracing::warn!(channel = %channel.name, %flaw, "a rule that was accepted cannot be used");
        }
        Arc::make_mut(channel).rules = rules;
    }
    setup
}
