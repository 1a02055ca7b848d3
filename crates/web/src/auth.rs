//! Who calls, and what they may do.
//!
//! A key is a long random text; the store keeps its digest alone. Looking a digest up tells nothing about a key
//! by its timing, since nobody can choose a key by its digest.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderMap, header};
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::{Store, StoreError};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, watch};

use crate::problem::{Code, Problem};

/// What the store keeps of a key.
pub fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Hands in messages and follows its own by id or reference.
    Producer,
    /// Looks, and changes nothing.
    Viewer,
    /// Works on messages and channels.
    Operator,
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
        let roles = Role::ALL.into_iter().filter(|role| self.allows(*role)).map(Role::as_str);
        roles.collect::<Vec<_>>().join(", ")
    }
}

/// The holder of a valid key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub key_id: String,
    pub label: String,
    pub tenant: Tenant,
    pub role: Role,
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
        Err(Problem::new(
            Code::Forbidden,
            detail,
            format!("use a key with one of the roles {}", access.roles()),
        ))
    }
}

type ByDigest = BTreeMap<[u8; 32], Arc<Caller>>;

/// A key that is not known is looked for in the store this often at most.
const LOOK_AGAIN: Span = Span::from_secs(1);
/// A key that is known is trusted this long without asking the store again.
const TRUST: Span = Span::from_secs(5);

/// The keys of the store, remembered, so that a request costs no read.
#[derive(Debug)]
pub(crate) struct Keys {
    known: watch::Sender<Arc<ByDigest>>,
    /// When they were last read; held while they are being read.
    read_at: Mutex<Option<Time>>,
}

impl Keys {
    pub(crate) fn new() -> Keys {
        Keys { known: watch::Sender::new(Arc::default()), read_at: Mutex::new(None) }
    }

    /// Who calls with these headers.
    pub(crate) async fn caller(
        &self,
        headers: &HeaderMap,
        store: &dyn Store,
        clock: &dyn Clock,
    ) -> Result<Arc<Caller>, Problem> {
        let digest = digest(bearer(headers)?);
        let found = self.known.borrow().get(&digest).cloned();
        match found {
            Some(caller) => match self.read_at.try_lock() {
                // Whoever comes first after a while reads anew, so that a key that was taken away ends.
                Ok(mut read_at) if older(*read_at, TRUST, clock.now()) => {
                    match self.read(&mut read_at, store, clock).await {
                        Ok(()) => self.known.borrow().get(&digest).cloned().ok_or_else(refused),
                        Err(_) => Ok(caller),
                    }
                }
                _ => Ok(caller),
            },
            None => {
                let mut read_at = self.read_at.lock().await;
                let found = self.known.borrow().get(&digest).cloned();
                if let Some(caller) = found {
                    return Ok(caller);
                }
                if !older(*read_at, LOOK_AGAIN, clock.now()) {
                    return Err(refused());
                }
                self.read(&mut read_at, store, clock).await?;
                self.known.borrow().get(&digest).cloned().ok_or_else(refused)
            }
        }
    }

    async fn read(
        &self,
        read_at: &mut Option<Time>,
        store: &dyn Store,
        clock: &dyn Clock,
    ) -> Result<(), StoreError> {
        let keys = store.keys().await;
        *read_at = Some(clock.now());
        let known = keys?.into_iter().filter_map(|key| {
            let Ok(role) = key.role.parse() else {
                tracing::warn!(
                    key_id = key.id,
                    role = key.role,
                    "a key has a role that this version does not know"
                );
                return None;
            };
            let caller = Caller { key_id: key.id, label: key.label, tenant: key.tenant, role };
            Some((key.digest, Arc::new(caller)))
        });
        self.known.send_replace(Arc::new(known.collect()));
        Ok(())
    }
}

/// Whether that long has passed since, or nobody can tell because the clock stepped back.
fn older(read_at: Option<Time>, span: Span, now: Time) -> bool {
    read_at.is_none_or(|at| at > now || now.since(at) >= span)
}

const HOW: &str = "pass `Authorization: Bearer KEY`; the first start of `pombo serve` prints an admin key, \
                   and POMBO_ADMIN_KEY sets it";

fn refused() -> Problem {
    Problem::new(Code::Unauthorized, "the key is not known", HOW)
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Err(Problem::new(Code::Unauthorized, "there is no Authorization header", HOW));
    };
    let key = value.to_str().ok().and_then(|text| text.split_once(' ')).and_then(|(scheme, key)| {
        let key = key.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
    });
    key.ok_or_else(|| Problem::new(Code::Unauthorized, "the Authorization header is not `Bearer KEY`", HOW))
}
