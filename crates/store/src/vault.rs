//! What is personal, sealed on its way into a store and opened on its way out.
//!
//! A sealed value is the byte 1, the id of its key (4 bytes), a salt (16 bytes), and what AES-256-GCM makes of it with
//! its tag (16 bytes more). Each value has a key of its own, made from the master key, the salt and its place in the
//! store, so that no two share a nonce; and since the place is authenticated as well, a value that somebody puts into
//! another row does not open there. In a column of texts it is written in base64 after a mark.
//!
//! Whatever is found by an address is found by a hash under the store's secret, and that is sealed, too. So another
//! key means other values, and the same hashes.
//!
//! A store is sealed or it is not. Without keys nothing here changes a byte.

pub(crate) mod opening;
pub mod rekeying;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use pombo_kernel::attachment::Digest;
use pombo_kernel::id::MessageKey;
use pombo_kernel::name::{CampaignName, Tenant};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;

use crate::StoreError;
use crate::moving::hex;
use crate::shelf::Shelf;

/// A sealed value begins with it. JSON never does.
const SEALED: u8 = 1;
const ID: usize = 4;
const SALT: usize = 16;
const HEAD: usize = 1 + ID + SALT;
const TAG: usize = 16;

/// What stands before a sealed value in a column of texts, and before a text of somebody's that begins with the mark.
const MARK: char = '\u{2}';
const SEALED_TEXT: &str = "\u{2}s";
const PLAIN_TEXT: &str = "\u{2}p";

/// Which key sealed a value: made from the key itself, and of no use to whoever wants to know that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; ID]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

struct Key {
    id: KeyId,
    master: hmac::Key,
}

impl Key {
    fn new(bytes: &[u8; 32]) -> Key {
        let master = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let named = hmac::sign(&master, b"pombo key id 1");
        let mut id = [0; ID];
        id.copy_from_slice(&named.as_ref()[..ID]);
        Key { id: KeyId(id), master }
    }

    /// The cipher of one value.
    fn cipher(&self, salt: &[u8], place: &[u8]) -> LessSafeKey {
        let mut context = hmac::Context::with_key(&self.master);
        context.update(salt);
        context.update(place);
        let bytes = context.sign();
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes.as_ref()).expect("a digest of 32 bytes"))
    }
}

/// The keys that somebody gave: what is written is sealed with the first, and what any of them sealed can be read.
#[derive(Clone)]
pub struct Keys(Arc<Bunch>);

struct Bunch {
    current: Key,
    previous: Vec<Key>,
    seed: hmac::Key,
    drawn: AtomicU64,
}

/// Only which they are.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl Keys {
    /// `entropy` must be another one each time: salts come from it.
    pub fn new(current: &[u8; 32], previous: &[[u8; 32]], entropy: &[u8; 32]) -> Keys {
        Keys(Arc::new(Bunch {
            current: Key::new(current),
            previous: previous.iter().map(Key::new).collect(),
            seed: hmac::Key::new(hmac::HMAC_SHA256, entropy),
            drawn: AtomicU64::new(0),
        }))
    }

    /// A key as people write it: 32 bytes in base64, with or without space around.
    pub fn read(text: &str) -> Option<[u8; 32]> {
        STANDARD.decode(text.trim()).ok()?.try_into().ok()
    }

    /// By which new values are sealed.
    pub fn current(&self) -> KeyId {
        self.0.current.id
    }

    /// All of them, the current one first.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        [&self.0.current].into_iter().chain(&self.0.previous).map(|key| key.id)
    }

    fn salt(&self) -> [u8; SALT] {
        let drawn = self.0.drawn.fetch_add(1, Ordering::Relaxed);
        let mut salt = [0; SALT];
        salt.copy_from_slice(&hmac::sign(&self.0.seed, &drawn.to_le_bytes()).as_ref()[..SALT]);
        salt
    }

    fn seal(&self, spot: &Spot<'_>, plain: &[u8]) -> Vec<u8> {
        let (salt, place) = (self.salt(), spot.bytes());
        let key = &self.0.current;
        let mut sealed = Vec::with_capacity(HEAD + plain.len() + TAG);
        sealed.push(SEALED);
        sealed.extend(key.id.0);
        sealed.extend(salt);
        sealed.extend(plain);
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let tag = key
            .cipher(&salt, &place)
            .seal_in_place_separate_tag(nonce, Aad::from(&place), &mut sealed[HEAD..])
            .expect("a value is shorter than 64 GiB");
        sealed.extend(tag.as_ref());
        sealed
    }

    fn open(&self, spot: &Spot<'_>, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        let of = key_of(sealed).ok_or_else(|| spot.refused("is cut off"))?;
        let bunch = &*self.0;
        let key = [&bunch.current].into_iter().chain(&bunch.previous).find(|key| key.id == of);
        let key = key.ok_or_else(|| spot.refused(&format!("is sealed with key {of}, which is not given")))?;
        let (place, salt) = (spot.bytes(), &sealed[1 + ID..HEAD]);
        let mut plain = sealed[HEAD..].to_vec();
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let opened = key.cipher(salt, &place).open_in_place(nonce, Aad::from(&place), &mut plain);
        let length = opened.map_err(|_| spot.refused("was changed, or sealed for another place"))?.len();
        plain.truncate(length);
        Ok(plain)
    }
}

/// The key of a sealed value; none if it is none.
fn key_of(value: &[u8]) -> Option<KeyId> {
    let long_enough = value.len() >= HEAD + TAG && value.first() == Some(&SEALED);
    value.get(1..1 + ID).filter(|_| long_enough)?.try_into().ok().map(KeyId)
}

/// Where a value belongs: the place for which it is sealed, the same in every kind of store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spot<'a> {
    /// What a message says.
    Body(MessageKey),
    /// What it said before, by version.
    Revision(MessageKey, u32),
    /// Why an attempt failed, by step.
    Failure(MessageKey, u32),
    Explanation(MessageKey, u32),
    /// What a provider said last.
    Detail(MessageKey),
    /// What dead letters have in common.
    Cause(i64),
    /// A recipient's address, and what tells them from others of the list.
    Address(&'a Tenant, &'a CampaignName, u64),
    Payload(&'a Tenant, &'a CampaignName, u64),
    /// A document, by the id that its row has.
    Doc(u8, &'a str, &'a str),
    /// An attachment, by the name that its row has.
    Blob(&'a [u8]),
    /// Under which everything is hashed.
    Secret,
}

impl Spot<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        let text = |bytes: &mut Vec<u8>, text: &[u8]| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text);
        };
        match self {
            Spot::Body(key) => {
                bytes.push(1);
                bytes.extend(key.0.to_le_bytes());
            }
            Spot::Revision(key, nth) | Spot::Failure(key, nth) | Spot::Explanation(key, nth) => {
                bytes.push(match self {
                    Spot::Revision(..) => 2,
                    Spot::Failure(..) => 3,
                    _ => 4,
                });
                bytes.extend(key.0.to_le_bytes());
                bytes.extend(nth.to_le_bytes());
            }
            Spot::Detail(key) => {
                bytes.push(5);
                bytes.extend(key.0.to_le_bytes());
            }
            Spot::Cause(id) => {
                bytes.push(6);
                bytes.extend(id.to_le_bytes());
            }
            Spot::Address(tenant, campaign, number) | Spot::Payload(tenant, campaign, number) => {
                bytes.push(if matches!(self, Spot::Address(..)) { 7 } else { 8 });
                text(&mut bytes, tenant.as_str().as_bytes());
                text(&mut bytes, campaign.as_str().as_bytes());
                bytes.extend(number.to_le_bytes());
            }
            Spot::Doc(shelf, tenant, id) => {
                bytes.extend([9, *shelf]);
                text(&mut bytes, tenant.as_bytes());
                text(&mut bytes, id.as_bytes());
            }
            Spot::Blob(name) => {
                bytes.push(10);
                text(&mut bytes, name);
            }
            Spot::Secret => bytes.push(11),
        }
        bytes
    }

    /// For people: what cannot be read, and nothing of what it says.
    fn refused(&self, why: &str) -> StoreError {
        let what = match self {
            Spot::Body(key) => format!("the body of message {}", key.0),
            Spot::Revision(key, version) => format!("version {version} of message {}", key.0),
            Spot::Failure(key, seq) | Spot::Explanation(key, seq) => {
                format!("step {seq} of message {}", key.0)
            }
            Spot::Detail(key) => format!("the delivery of message {}", key.0),
            Spot::Cause(id) => format!("the cause {id}"),
            Spot::Address(_, campaign, number) | Spot::Payload(_, campaign, number) => {
                format!("recipient {number} of campaign {campaign}")
            }
            Spot::Doc(shelf, ..) => format!("a document of shelf {shelf}"),
            Spot::Blob(_) => "an attachment".to_owned(),
            Spot::Secret => "the store's secret".to_owned(),
        };
        StoreError::Broken(format!("{what} {why}"))
    }
}

/// How a store seals and names what is personal. One that is plain does neither.
#[derive(Clone, Debug)]
pub(crate) struct Vault {
    keys: Option<Keys>,
    secret: Secret,
}

#[derive(Clone)]
struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Vault {
    /// A store that is not sealed.
    pub(crate) fn plain(secret: [u8; 32]) -> Vault {
        Vault { keys: None, secret: Secret(secret) }
    }

    /// For whoever looks at nothing personal.
    pub(crate) fn blind() -> Vault {
        Vault::plain([0; 32])
    }

    fn sealed(keys: Keys, secret: [u8; 32]) -> Vault {
        Vault { keys: Some(keys), secret: Secret(secret) }
    }

    /// The key of this store's hashes.
    pub(crate) fn secret(&self) -> &[u8; 32] {
        &self.secret.0
    }

    pub(crate) fn seal<'p>(&self, spot: &Spot<'_>, plain: impl Into<Cow<'p, [u8]>>) -> Cow<'p, [u8]> {
        let plain = plain.into();
        match &self.keys {
            None => plain,
            Some(keys) => Cow::Owned(keys.seal(spot, &plain)),
        }
    }

    pub(crate) fn open<'s>(&self, spot: &Spot<'_>, stored: &'s [u8]) -> Result<Cow<'s, [u8]>, StoreError> {
        match (&self.keys, stored.first()) {
            (None, _) => Ok(Cow::Borrowed(stored)),
            (Some(keys), Some(&SEALED)) => keys.open(spot, stored).map(Cow::Owned),
            (Some(_), _) => Err(spot.refused("is not sealed, in a store that is")),
        }
    }

    pub(crate) fn seal_text<'p>(&self, spot: &Spot<'_>, plain: impl Into<Cow<'p, str>>) -> Cow<'p, str> {
        let plain = plain.into();
        match &self.keys {
            Some(keys) => {
                let sealed = keys.seal(spot, plain.as_bytes());
                Cow::Owned(SEALED_TEXT.to_owned() + &STANDARD_NO_PAD.encode(sealed))
            }
            None if plain.starts_with(MARK) => Cow::Owned(PLAIN_TEXT.to_owned() + &plain),
            None => plain,
        }
    }

    pub(crate) fn open_text(&self, spot: &Spot<'_>, stored: String) -> Result<String, StoreError> {
        let Some(keys) = &self.keys else {
            let plain = stored.strip_prefix(PLAIN_TEXT).map(str::to_owned);
            return Ok(plain.unwrap_or(stored));
        };
        let text = stored.strip_prefix(SEALED_TEXT);
        let text = text.ok_or_else(|| spot.refused("is not sealed, in a store that is"))?;
        let bytes = STANDARD_NO_PAD.decode(text).map_err(|_| spot.refused("is cut off"))?;
        String::from_utf8(keys.open(spot, &bytes)?).map_err(|_| spot.refused("is no text"))
    }

    /// A hash under the store's secret, as short as a number.
    pub(crate) fn hash(&self, whose: &str, text: &str) -> i64 {
        crate::rows::keyed_hash(self.secret(), whose, text)
    }

    /// What stands for something in a sealed store where others can look for it, and which tells nothing to whoever does
    /// not have the secret.
    fn name(&self, of: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, self.secret()));
        for part in [&[of.as_bytes()], parts].concat() {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut name = [0; 32];
        name.copy_from_slice(context.sign().as_ref());
        name
    }

    /// By which an attachment is found.
    pub(crate) fn blob_name(&self, digest: &Digest) -> [u8; 32] {
        if self.keys.is_none() { digest.0 } else { self.name("blob", &[&digest.0]) }
    }

    /// What tells a recipient from others of the list, as the row has it.
    pub(crate) fn person<'p>(&self, tenant: &Tenant, key: &'p str) -> Cow<'p, str> {
        if self.keys.is_none() {
            return Cow::Borrowed(key);
        }
        Cow::Owned(hex(&self.name("person", &[tenant.as_str().as_bytes(), key.as_bytes()])))
    }

    /// A recipient's address as its row has it. What tells them from others is sealed with it: the name in its place
    /// cannot be turned back.
    pub(crate) fn seal_address<'p>(&self, spot: &Spot<'_>, address: &'p str, key: &str) -> Cow<'p, str> {
        match &self.keys {
            None => self.seal_text(spot, address),
            Some(_) => Cow::Owned(self.seal_text(spot, paired(address, key)).into_owned()),
        }
    }

    pub(crate) fn open_address(&self, spot: &Spot<'_>, stored: String) -> Result<String, StoreError> {
        let opened = self.open_text(spot, stored)?;
        if self.keys.is_none() {
            return Ok(opened);
        }
        unpaired(&opened).map(|(address, _)| address.to_owned()).ok_or_else(|| spot.refused("is cut off"))
    }

    /// The id under which a document stands in its row.
    pub(crate) fn doc_id<'p>(&self, shelf: Shelf, tenant: &Tenant, id: &'p str) -> Cow<'p, str> {
        if self.keys.is_none() || !names_person(shelf as u8) {
            return Cow::Borrowed(id);
        }
        Cow::Owned(hex(&self.name("doc", &[&[shelf as u8], tenant.as_str().as_bytes(), id.as_bytes()])))
    }

    /// What a document says, as its row has it under `stored_id`.
    pub(crate) fn seal_doc<'p>(
        &self,
        shelf: Shelf,
        tenant: &Tenant,
        (id, stored_id): (&str, &str),
        body: &'p str,
    ) -> Cow<'p, str> {
        let shelf = shelf as u8;
        if self.keys.is_none() || !is_personal(shelf) {
            return Cow::Borrowed(body);
        }
        let spot = Spot::Doc(shelf, tenant.as_str(), stored_id);
        let text = if names_person(shelf) { Cow::Owned(paired(id, body)) } else { Cow::Borrowed(body) };
        Cow::Owned(self.seal_text(&spot, text).into_owned())
    }

    /// The id of a document, and what it says.
    pub(crate) fn open_doc(
        &self,
        shelf: u8,
        tenant: &Tenant,
        stored_id: String,
        body: String,
    ) -> Result<(String, String), StoreError> {
        if self.keys.is_none() || !is_personal(shelf) {
            return Ok((stored_id, body));
        }
        let spot = Spot::Doc(shelf, tenant.as_str(), &stored_id);
        let opened = self.open_text(&spot, body)?;
        if !names_person(shelf) {
            return Ok((stored_id, opened));
        }
        let (id, body) = unpaired(&opened).ok_or_else(|| spot.refused("is cut off"))?;
        Ok((id.to_owned(), body.to_owned()))
    }
}

/// Two texts in one.
fn paired(first: &str, second: &str) -> String {
    format!("{}:{first}{second}", first.len())
}

fn unpaired(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

/// Whether documents of that shelf may say something of persons, or hold secrets.
fn is_personal(shelf: u8) -> bool {
    let personal = [Shelf::Webhook, Shelf::Suppression, Shelf::Decision, Shelf::Operation, Shelf::Alert];
    personal.iter().any(|it| *it as u8 == shelf)
}

/// Whether their ids are made from an address.
fn names_person(shelf: u8) -> bool {
    shelf == Shelf::Suppression as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Spot<'static> = Spot::Body(MessageKey(7));

    fn keys(current: u8, previous: &[u8]) -> Keys {
        let previous: Vec<[u8; 32]> = previous.iter().map(|byte| [*byte; 32]).collect();
        Keys::new(&[current; 32], &previous, &[9; 32])
    }

    fn sealed(keys: Keys) -> Vault {
        Vault::sealed(keys, [3; 32])
    }

    #[test]
    fn a_plain_store_gets_what_it_is_given_byte_for_byte() {
        let plain = Vault::plain([3; 32]);
        for bytes in [&b""[..], b"{}", b"\x01\x02", &[1; 100]] {
            assert_eq!(plain.seal(&PLACE, bytes), bytes);
            assert_eq!(plain.open(&PLACE, bytes).unwrap(), bytes);
        }
        let (tenant, digest) = (Tenant::default(), Digest([5; 32]));
        assert_eq!(plain.person(&tenant, "key"), "key");
        assert_eq!(plain.blob_name(&digest), digest.0);
        assert_eq!(plain.doc_id(Shelf::Suppression, &tenant, "id"), "id");
    }

    #[test]
    fn no_text_of_anybodys_is_taken_for_a_sealed_one() {
        let plain = Vault::plain([3; 32]);
        for text in ["", "ana", "\u{2}", "\u{2}s", "\u{2}p", "\u{2}sAAAA", "\u{1}\u{2}"] {
            let stored = plain.seal_text(&PLACE, text);
            assert!(!stored.starts_with(SEALED_TEXT), "{stored:?}");
            assert_eq!(stored == text, !text.starts_with(MARK), "only those that could be mistaken change");
            assert_eq!(plain.open_text(&PLACE, stored.into_owned()).unwrap(), text);
        }
    }

    #[test] // REQ AU-3
    fn what_was_sealed_opens_in_its_place_alone_and_only_with_its_key() {
        let vault = sealed(keys(1, &[]));
        let (body, text) = (vault.seal(&PLACE, &b"Maria"[..]), vault.seal_text(&PLACE, "Maria"));
        assert_eq!(body.len(), HEAD + 5 + TAG);
        assert!(!body.windows(5).any(|window| window == b"Maria") && !text.contains("Maria"));
        assert_eq!(&*vault.open(&PLACE, &body).unwrap(), b"Maria");
        assert_eq!(vault.open_text(&PLACE, text.clone().into_owned()).unwrap(), "Maria");
        let (tenant, campaign) = (Tenant::default(), "cmp_1".parse::<CampaignName>().unwrap());
        for other in [
            Spot::Body(MessageKey(8)),
            Spot::Revision(MessageKey(7), 0),
            Spot::Failure(MessageKey(7), 0),
            Spot::Explanation(MessageKey(7), 0),
            Spot::Detail(MessageKey(7)),
            Spot::Cause(7),
            Spot::Address(&tenant, &campaign, 7),
            Spot::Payload(&tenant, &campaign, 7),
            Spot::Doc(3, "default", "7"),
            Spot::Blob(&[7]),
            Spot::Secret,
        ] {
            assert!(vault.open(&other, &body).is_err(), "{other:?}");
            assert!(vault.open_text(&other, text.clone().into_owned()).is_err(), "{other:?}");
        }
        for at in 0..body.len() {
            let mut changed = body.to_vec();
            changed[at] ^= 1;
            assert!(vault.open(&PLACE, &changed).is_err(), "byte {at}");
            assert!(vault.open(&PLACE, &body[..at]).is_err(), "cut at {at}");
        }
        let error = sealed(keys(2, &[])).open(&PLACE, &body).unwrap_err().to_string();
        assert!(error.contains("which is not given") && !error.contains("Maria"), "{error}");
        assert_eq!(&*sealed(keys(2, &[1])).open(&PLACE, &body).unwrap(), b"Maria");
        assert!(vault.open(&PLACE, b"{}").is_err(), "nothing plain is believed in a sealed store");
        assert!(vault.open_text(&PLACE, "{}".to_owned()).is_err());
    }

    #[test]
    fn the_same_value_is_never_sealed_alike_and_its_names_stay_with_another_key() {
        let (one, two) = (sealed(keys(1, &[])), sealed(keys(2, &[1])));
        assert_ne!(one.seal(&PLACE, &b"x"[..]), one.seal(&PLACE, &b"x"[..]));
        let tenant = Tenant::default();
        assert_eq!(one.person(&tenant, "55119"), two.person(&tenant, "55119"));
        assert_ne!(one.person(&tenant, "55119"), one.person(&"acme".parse().unwrap(), "55119"));
        assert_eq!(one.blob_name(&Digest([5; 32])), two.blob_name(&Digest([5; 32])));
        let (id, other) =
            (one.doc_id(Shelf::Suppression, &tenant, "a"), one.doc_id(Shelf::Campaign, &tenant, "a"));
        assert!(id.len() == 64 && other == "a", "only those that are made from an address");
        let stored = one.seal_doc(Shelf::Suppression, &tenant, ("a", &id), "{}");
        let opened =
            two.open_doc(Shelf::Suppression as u8, &tenant, id.clone().into_owned(), stored.into_owned());
        assert_eq!(opened.unwrap(), ("a".to_owned(), "{}".to_owned()), "its own id comes back");
    }

    #[test]
    fn a_key_is_read_as_people_write_it_and_never_shown() {
        assert_eq!(Keys::read("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n"), Some([1; 32]));
        for wrong in ["", "AQ==", "not base64", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"] {
            assert_eq!(Keys::read(wrong), None, "{wrong}");
        }
        let shown = format!("{:?} {:?}", keys(1, &[2]), sealed(keys(1, &[])));
        assert!(!shown.contains("1, 1, 1") && !shown.contains("3, 3, 3"), "{shown}");
    }
}
