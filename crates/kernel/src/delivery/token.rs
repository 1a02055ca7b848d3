//! The words by which a provider that cannot sign shows who it is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::secret::Secret;
use crate::time::Time;

/// Whether these words show that their sender knows the secret: the secret itself, or a JSON Web Token that is
/// signed with it by HMAC-SHA256 and has not run out.
///
/// Digests are compared instead of words, so that the time it takes says nothing of how much was right.
pub fn shown(secret: &Secret, words: &str, now: Time) -> bool {
    let secret = secret.expose();
    !secret.is_empty() && (Sha256::digest(secret) == Sha256::digest(words) || signed(secret, words, now))
}

fn signed(secret: &str, token: &str, now: Time) -> bool {
    #[derive(Deserialize)]
    struct Header {
        alg: String,
    }
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    fn part<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
    let read = || {
        let (said, signature) = token.rsplit_once('.')?;
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
        mac.update(said.as_bytes());
        mac.verify_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let (header, claims) = said.split_once('.')?;
        let header: Header = part(header)?;
        let claims: Claims = part(claims)?;
        Some(header.alg == "HS256" && claims.exp * 1_000.0 > now.millis() as f64)
    };
    read().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_700_000_000_000);

    fn token(header: &str, claims: &str, secret: &str) -> String {
        let said = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(said.as_bytes());
        format!("{said}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    fn believed(words: &str) -> bool {
        shown(&Secret::new("correct horse"), words, NOW)
    }

    #[test]
    fn the_secret_itself_is_believed_and_nothing_near_it() {
        assert!(believed("correct horse"));
        for wrong in ["", "correct hors", "correct horse ", "Correct horse", "."] {
            assert!(!believed(wrong), "{wrong}");
        }
        assert!(!shown(&Secret::new(""), "", NOW), "an empty secret is nobody's");
    }

    #[test]
    fn the_published_token_is_reproduced() {
        let known = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";
        let made = token(
            r#"{"alg":"HS256","typ":"JWT"}"#,
            r#"{"sub":"1234567890","name":"John Doe","iat":1516239022}"#,
            "your-256-bit-secret",
        );
        assert_eq!(made, known);
    }

    #[test]
    fn a_token_is_believed_while_it_lasts() {
        let header = r#"{"alg":"HS256","typ":"JWT"}"#;
        let lasting = r#"{"iat":1699999990,"exp":1700000590,"app":"evolution","action":"webhook"}"#;
        assert!(believed(&token(header, lasting, "correct horse")));
        assert!(!believed(&token(header, lasting, "another")));
        for (header, claims) in [
            (header, r#"{"exp":1700000000}"#),
            (header, r#"{"iat":1699999990}"#),
            (header, r#"{"exp":"soon"}"#),
            (header, "{}"),
            (r#"{"alg":"none"}"#, lasting),
            (r#"{"alg":"HS512"}"#, lasting),
        ] {
            assert!(!believed(&token(header, claims, "correct horse")), "{header} {claims}");
        }
        let whole = token(header, lasting, "correct horse");
        let (unsigned, _) = whole.rsplit_once('.').unwrap();
        assert!(!believed(&format!("{unsigned}.")) && !believed(unsigned));
    }
}
