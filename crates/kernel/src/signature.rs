//! Standard Webhooks signatures, version 1: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::secret::Secret;

/// A key that signs and verifies, made once and used for every message.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(hidden)")
    }
}

impl SigningKey {
    /// The key that a secret stands for: base64 of 24 to 64 bytes, with or without `whsec_` in front.
    ///
    /// A shorter one is refused, since a secret that can be guessed signs for anybody.
    pub fn from_secret(secret: &Secret) -> Option<SigningKey> {
        let text = secret.expose();
        let bytes = STANDARD_PAD_INDIFFERENT.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok()?;
        (24..=64).contains(&bytes.len()).then(|| Hmac::new_from_slice(&bytes).ok().map(SigningKey)).flatten()
    }

    fn digest(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

/// The secret that these bytes make, as it is handed to whoever verifies.
pub fn secret(bytes: &[u8; 32]) -> String {
    format!("whsec_{}", STANDARD.encode(bytes))
}

/// The value of `webhook-signature`: one signature a key, so that a receiver may know either of two keys
/// while one replaces the other.
pub fn sign(keys: &[SigningKey], id: &str, timestamp: &str, body: &[u8]) -> String {
    let mut value = String::with_capacity(keys.len() * 48);
    for key in keys {
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str("v1,");
        STANDARD.encode_string(key.digest(id, timestamp, body).finalize().into_bytes(), &mut value);
    }
    value
}

/// Whether any signature in `header` is this key's. Takes the same time whatever is wrong; signatures of
/// other versions are passed over.
pub fn verify(key: &SigningKey, id: &str, timestamp: &str, body: &[u8], header: &str) -> bool {
    header.split(' ').filter_map(|part| part.strip_prefix("v1,")).any(|text| {
        STANDARD
            .decode(text)
            .is_ok_and(|claimed| key.digest(id, timestamp, body).verify_slice(&claimed).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const SIGNATURE: &str = "v1,zM805ub/HuNgRQquf7DOmQTAXz4paUhBB8MyV0LLA4M=";
    const BODY: &[u8] = br#"{"a":1}"#;

    fn key(text: &str) -> Option<SigningKey> {
        SigningKey::from_secret(&Secret::new(text))
    }

    #[test]
    fn the_published_vector_is_reproduced() {
        let key = key(SECRET).unwrap();
        assert_eq!(sign(std::slice::from_ref(&key), "msg_test", "1700000000", BODY), SIGNATURE);
        assert!(verify(&key, "msg_test", "1700000000", BODY, SIGNATURE));
        assert!(verify(&key, "msg_test", "1700000000", BODY, &format!("v2,x v1,AAAA {SIGNATURE}")));
    }

    #[test]
    fn a_change_anywhere_breaks_the_signature() {
        let key = key(SECRET).unwrap();
        assert!(!verify(&key, "msg_tesu", "1700000000", BODY, SIGNATURE));
        assert!(!verify(&key, "msg_test", "1700000001", BODY, SIGNATURE));
        assert!(!verify(&key, "msg_test", "1700000000", br#"{"a":2}"#, SIGNATURE));
        assert!(!verify(&key, "msg_test", "1700000000", BODY, &SIGNATURE.replace("v1,", "v1a,")));
        assert!(!verify(&key, "msg_test", "1700000000", BODY, ""));
    }

    #[test]
    fn during_a_rotation_either_key_verifies() {
        let old = key(SECRET).unwrap();
        let new = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let both = sign(&[new.clone(), old.clone()], "m", "1", BODY);
        assert_eq!(both.split(' ').count(), 2);
        assert!(verify(&old, "m", "1", BODY, &both) && verify(&new, "m", "1", BODY, &both));
    }

    #[test]
    fn a_secret_is_base64_of_24_to_64_bytes() {
        for good in
            [SECRET, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
        {
            assert!(key(good).is_some(), "{good}");
        }
        assert!(key(&secret(&[7; 32])).is_some_and(|_| secret(&[7; 32]).starts_with("whsec_")));
        let long = "AAAA".repeat(22);
        for bad in ["", "whsec_", "whsec_AAAA", "correct horse battery staple!!!!!!!!!!!", long.as_str()] {
            assert!(key(bad).is_none(), "{bad}");
        }
    }
}
