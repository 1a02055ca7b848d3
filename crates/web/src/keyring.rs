//! The keys of the store, remembered, so that a request costs no read.
//!
//! A key is a long random text; the store keeps its digest alone. Looking a digest up tells nothing about a key
//! by its timing, since nobody can choose a key by its digest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::Extensions;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::StoreError;
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelved, Wanted};
use tokio::sync::{Mutex, watch};

use crate::Door;
use crate::auth::{Caller, Digest, unauthorized};
use crate::guesses::{Guess, Guesses, Peer};
use crate::key::{KeyDoc, Standing, digest};
use crate::problem::{Code, Problem};

/// A key that is not known is looked for in the store this often at most.
const LOOK_AGAIN: Span = Span::from_secs(1);
/// A key that is known is trusted this long without asking the store again.
const TRUST: Span = Span::from_secs(5);
/// The use of a key is written down this often at most.
const NOTE_USE: Span = Span::from_mins(1);
/// Keys of all tenants that a node knows. Beyond it the oldest ones open nothing, and the log says so.
const KEYS_MAX: usize = 100_000;

/// A key as it is remembered.
#[derive(Debug)]
struct Known {
    caller: Arc<Caller>,
    key: KeyDoc,
    /// Its place on the shelf.
    place: String,
    /// When its use was last written down, in milliseconds.
    noted: AtomicI64,
}

type ByDigest = BTreeMap<[u8; 32], Arc<Known>>;

type LastRead = (Time, Result<(), StoreError>);

#[derive(Debug)]
pub(crate) struct Keyring {
    known: watch::Sender<Arc<ByDigest>>,
    /// When they were last read, and why not if they could not be; held while they are being read.
    last_read: Mutex<Option<LastRead>>,
    guesses: Guesses,
}

impl Keyring {
    pub(crate) fn new() -> Keyring {
        let known = watch::Sender::new(Arc::default());
        Keyring { known, last_read: Mutex::new(None), guesses: Guesses::default() }
    }

    fn get(&self, digest: &[u8; 32]) -> Option<Arc<Known>> {
        self.known.borrow().get(digest).cloned()
    }
}

impl Door {
    /// Who holds this key, if it opens anything, and from where the request comes, if that is known.
    ///
    /// A key that was revoked ends within five seconds, also if another node was told, and one that expires at that
    /// moment. While the store cannot be read, keys that were known go on working: a message that cannot be stored is
    /// refused anyway, and nobody is told that a good key is bad.
    pub(crate) async fn caller_by_key(
        &self,
        key: &str,
        from: Option<IpAddr>,
    ) -> Result<Arc<Caller>, Problem> {
        match self.known(&digest(key)).await? {
            Some(known) => {
                standing(&known, self.now())?;
                self.note_use(&known);
                Ok(known.caller.clone())
            }
            None => Err(self.wrong_guess(key, from, "the key is not known")),
        }
    }

    /// Takes note of a secret that opens nothing, and says so, or that there were too many.
    pub(crate) fn wrong_guess(&self, secret: &str, from: Option<IpAddr>, said: &'static str) -> Problem {
        match self.0.keyring.guesses.wrong(secret, from, self.now()) {
            Guess::Counted => unauthorized(said),
            Guess::TooMany => Problem::new(
                Code::TooManyFailures,
                "too many keys that are not known came from here, or begin like this one",
                "correct the key, and wait as long as Retry-After says; keys that are good work all the while",
            ),
        }
    }

    /// Who holds the key of that digest, if it opens anything: for sessions, which are of a key that was shown before.
    pub(crate) async fn caller_by_digest(&self, digest: &[u8; 32]) -> Result<Arc<Caller>, Problem> {
        let known = self.known(digest).await?;
        let known = known.ok_or_else(|| unauthorized("this key is not known any more"))?;
        standing(&known, self.now())?;
        self.note_use(&known);
        Ok(known.caller.clone())
    }

    /// Who holds a key by now that opened something when a long request began: it may have ended since, and it may be
    /// for other channels.
    pub(crate) async fn still_knows(&self, caller: &Caller) -> Result<Arc<Caller>, Problem> {
        self.caller_by_digest(&caller.digest.0).await
    }

    async fn known(&self, digest: &[u8; 32]) -> Result<Option<Arc<Known>>, Problem> {
        let ring = &self.0.keyring;
        match ring.get(digest) {
            Some(known) => match ring.last_read.try_lock() {
                // Whoever comes first after a while reads anew, so that a key that was taken away ends.
                Ok(mut last_read) if older(read_at(&last_read), TRUST, self.now()) => {
                    match self.read_keys(&mut last_read).await {
                        Ok(()) => Ok(ring.get(digest)),
                        Err(_) => Ok(Some(known)),
                    }
                }
                _ => Ok(Some(known)),
            },
            None => {
                let mut last_read = ring.last_read.lock().await;
                if let Some(found) = ring.get(digest) {
                    return Ok(Some(found));
                }
                if older(read_at(&last_read), LOOK_AGAIN, self.now()) {
                    self.read_keys(&mut last_read).await?;
                    return Ok(ring.get(digest));
                }
                // Nobody knows whether a key is good while the keys cannot be read.
                if let Some((_, Err(error))) = &*last_read {
                    return Err(error.clone().into());
                }
                Ok(None)
            }
        }
    }

    /// The next request sees what was just changed here.
    pub(crate) async fn forget_keys(&self) {
        *self.0.keyring.last_read.lock().await = None;
    }

    async fn read_keys(&self, last_read: &mut Option<LastRead>) -> Result<(), StoreError> {
        let wanted =
            Wanted { shelf: Shelf::Key, tenant: None, pick: Pick::All { after: None }, limit: KEYS_MAX };
        let docs = self.store().docs(wanted).await;
        *last_read = Some((self.now(), docs.as_ref().map(drop).map_err(Clone::clone)));
        let docs = docs?;
        if docs.len() == KEYS_MAX {
            tracing::error!(
                keys = KEYS_MAX,
                "there are more keys than are read; the oldest ones open nothing"
            );
        }
        let before = self.0.keyring.known.borrow().clone();
        let known = docs.into_iter().filter_map(|doc| {
            let known = Known::read(doc)?;
            let digest = known.0;
            if let Some(before) = before.get(&digest) {
                known.1.noted.fetch_max(before.noted.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            Some((digest, Arc::new(known.1)))
        });
        self.0.keyring.known.send_replace(Arc::new(known.collect()));
        Ok(())
    }

    /// Writes down that a key was used: now and then, beside the request, and never failing it.
    fn note_use(&self, known: &Arc<Known>) {
        let now = self.now();
        let before = known.noted.load(Ordering::Relaxed);
        let due = older(Some(Time::from_millis(before)), NOTE_USE, now);
        if !due
            || known
                .noted
                .compare_exchange(before, now.millis(), Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        let (door, known) = (self.clone(), known.clone());
        tokio::spawn(async move {
            if let Err(error) = door.write_use(&known.caller.tenant, &known.place, now).await {
                tracing::debug!(key_id = known.caller.key_id, %error, "the use of a key was not written down");
            }
        });
    }

    /// Whoever changes the key at the same moment goes first: the next use is noted again.
    async fn write_use(&self, tenant: &Tenant, place: &str, now: Time) -> Result<(), StoreError> {
        let Some(doc) = self.store().doc(Shelf::Key, tenant.clone(), place.to_owned()).await? else {
            return Ok(());
        };
        let Some(key) = KeyDoc::read(&doc).filter(|key| key.last_used_at.is_none_or(|at| at < now)) else {
            return Ok(());
        };
        let used = KeyDoc { last_used_at: Some(now), ..key };
        let wish = used.shelved(tenant, place, Expect::Version(doc.version), None);
        let _: Vec<Shelved> = self.store().shelve(vec![wish]).await?;
        Ok(())
    }
}

fn read_at(last_read: &Option<LastRead>) -> Option<Time> {
    last_read.as_ref().map(|(at, _)| *at)
}

impl Known {
    fn read(doc: Doc) -> Option<([u8; 32], Known)> {
        let Some(key) = KeyDoc::read(&doc) else {
            tracing::warn!("a key cannot be read by this version, and opens nothing");
            return None;
        };
        let digest = key.digest(&doc)?;
        let Some(role) = key.known_role() else {
            tracing::warn!(
                key_id = key.id,
                role = key.role,
                "a key has a role that this version does not know"
            );
            return None;
        };
        let caller = Caller {
            key_id: key.id.clone(),
            label: key.label.clone(),
            tenant: doc.tenant,
            role,
            channels: key.channels.clone().map(Arc::from),
            defaults: key.defaults.clone(),
            reveal: key.may_reveal(),
            digest: Digest(digest),
        };
        let noted = AtomicI64::new(key.last_used_at.map_or(i64::MIN, Time::millis));
        Some((digest, Known { caller: Arc::new(caller), key, place: doc.id, noted }))
    }
}

fn standing(known: &Known, now: Time) -> Result<(), Problem> {
    match known.key.standing(now) {
        Standing::Active => Ok(()),
        Standing::Expired => Err(unauthorized("this key has expired")),
        Standing::Revoked => Err(unauthorized("this key was revoked")),
    }
}

/// Whether that long has passed since, or nobody can tell because the clock stepped back.
fn older(at: Option<Time>, span: Span, now: Time) -> bool {
    at.is_none_or(|at| at > now || now.since(at) >= span)
}

/// Where a request comes from, if the server knows.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<Peer>().map(|peer| peer.0)
}
