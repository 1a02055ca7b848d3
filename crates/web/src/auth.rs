//! Who calls, and what they may do.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderMap, header};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Actor;
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::{ChannelSetup, EVENTS, Setup};
use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::{Code, Problem};

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Hands in messages and follows its own by id or reference.
    Producer,
    /// Looks, and changes nothing.
    Viewer,
    /// Works on messages and channels.
    Operator,
    /// Does everything, also with keys. Only an admin can be asked for what concerns all channels of a tenant, so its
    /// key is bound to none.
    Admin,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Producer, Role::Viewer, Role::Operator, Role::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

/// What a route asks of whoever calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any valid key.
    Any,
    /// Handing in and taking back messages.
    Send,
    /// Reading one message, or searching among all of them.
    Follow,
    /// Reading what concerns everything: channels, counts.
    Look,
    /// Changing what concerns everything.
    Operate,
    /// Changing what concerns everybody.
    Administer,
}

impl Access {
    pub fn allows(self, role: Role) -> bool {
        match (self, role) {
            (_, Role::Admin) | (Access::Any | Access::Follow, _) => true,
            (Access::Send, role) => matches!(role, Role::Producer | Role::Operator),
            (Access::Look, role) => matches!(role, Role::Viewer | Role::Operator),
            (Access::Operate, role) => role == Role::Operator,
            (Access::Administer, _) => false,
        }
    }

    /// The roles that have it, for a hint.
    fn roles(self) -> String {
        let roles: Vec<_> =
            Role::ALL.into_iter().filter(|role| self.allows(*role)).map(Role::as_str).collect();
        match roles.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => roles.concat(),
        }
    }
}

/// The holder of a valid key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub key_id: String,
    pub label: String,
    pub tenant: Tenant,
    pub role: Role,
    /// The channels that it may see and use; all of its tenant if there is no list.
    pub channels: Option<Arc<[ChannelName]>>,
    /// Which channel serves requests that name only a kind, by the name of the kind.
    pub defaults: BTreeMap<String, ChannelName>,
    /// Whether it may see persons whom its role hides, if it says so.
    pub reveal: bool,
    pub(crate) digest: Digest,
}

/// The digest of a key, which no log shows: that of a weak one could be guessed from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

impl Caller {
    /// How the audit names them.
    pub fn actor(&self) -> Actor {
        match self.label.as_str() {
            "" => Actor(self.key_id.clone()),
            label => Actor(format!("{label} ({})", self.key_id)),
        }
    }

    pub(crate) fn may(&self, access: Access) -> Result<(), Problem> {
        if access.allows(self.role) {
            return Ok(());
        }
        let detail = format!("this key has the role {}", self.role);
        Err(Problem::new(Code::Forbidden, detail, format!("use a key with the role {}", access.roles())))
    }

    /// Whether messages of that channel are this caller's to see.
    pub fn sees(&self, channel: &ChannelName) -> bool {
        self.channels.as_ref().is_none_or(|own| own.contains(channel))
    }

    /// Refuses a channel that is not among those of the key, whether there is one of that name or not.
    pub(crate) fn may_use(&self, channel: &ChannelName) -> Result<(), Problem> {
        match self.sees(channel) {
            true => Ok(()),
            false => Err(Problem::new(
                Code::Forbidden,
                format!("this key is not for the channel `{channel}`"),
                "use a key for that channel, or have an admin widen this one with `pombo keys set`",
            )),
        }
    }

    /// Refuses a key that is bound to some channels: this concerns others, too.
    pub(crate) fn may_use_all(&self) -> Result<(), Problem> {
        match &self.channels {
            None => Ok(()),
            Some(_) => Err(Problem::new(
                Code::Forbidden,
                "this key is for some channels only, and this concerns all of them",
                "use a key that is not bound to channels",
            )),
        }
    }

    /// Refuses an admin of a tenant other than the house's own: this concerns all tenants.
    pub(crate) fn may_keep_house(&self) -> Result<(), Problem> {
        match self.tenant == Tenant::default() {
            true => Ok(()),
            false => Err(Problem::new(
                Code::Forbidden,
                "this concerns other tenants",
                format!("use an admin key of the tenant `{}`", Tenant::default()),
            )),
        }
    }

    /// The channel of a kind that serves a request which names none: the one that the key names, else the first by
    /// name among those that it may use.
    pub fn default_channel(&self, kind: ChannelKind, setup: &Setup) -> Option<Arc<ChannelSetup>> {
        let named = self.defaults.get(kind.as_str());
        let fits = |channel: &&Arc<ChannelSetup>| {
            channel.kind == kind && named.is_none_or(|named| *named == channel.name)
        };
        self.channels_in(setup).find(fits).cloned()
    }

    /// The channels that it may send through, by name.
    pub(crate) fn channels_in<'a>(&self, setup: &'a Setup) -> impl Iterator<Item = &'a Arc<ChannelSetup>> {
        setup.channels.values().filter(move |channel| {
            channel.tenant == self.tenant && channel.name.as_str() != EVENTS && self.sees(&channel.name)
        })
    }
}

/// The key that a request shows.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Err(unauthorized("there is no Authorization header"));
    };
    let key = value.to_str().ok().and_then(|text| text.split_once(' ')).and_then(|(scheme, key)| {
        let key = key.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
    });
    key.ok_or_else(|| unauthorized("the Authorization header is not `Bearer KEY`"))
}

pub(crate) fn unauthorized(detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    const HOW: &str = "pass `Authorization: Bearer KEY`; the first start of `pombo serve` prints an admin key, and \
                       POMBO_ADMIN_KEY sets it; `pombo keys create` makes others";
    Problem::new(Code::Unauthorized, detail, HOW)
}
