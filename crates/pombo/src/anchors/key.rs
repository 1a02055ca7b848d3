//! The key that signs anchors: Ed25519, in a PEM file as other tools make and read it.

use std::fmt;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pombo_kernel::time::Time;
use pombo_store::anchor::{Anchor, Hex, statement};
use pombo_store::audit::Tip;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::clock;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";
/// What stands before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

pub(crate) struct Signer(Ed25519KeyPair);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public())
    }
}

impl Signer {
    /// Reads a PEM text, or says what is wrong with it, without repeating any of it.
    pub(crate) fn read(pem: &str) -> Result<Signer, &'static str> {
        let inner = pem.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        let inner = inner.ok_or("not a private key in PEM (PKCS #8)")?;
        let digits: String = inner.split_whitespace().collect();
        let der = STANDARD.decode(digits).map_err(|_| "a PEM text that is damaged")?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        pair.map(Signer).map_err(|_| "a private key of another kind than Ed25519")
    }

    pub(crate) fn public(&self) -> Hex<32> {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        Hex(key)
    }

    pub(crate) fn sign(&self, tip: &Tip, at: Time) -> Anchor {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.0.sign(&statement(tip, at)).as_ref());
        Anchor {
            sequence: tip.sequence,
            position: tip.position,
            hash: Hex(tip.hash),
            at,
            key: self.public(),
            signature: Hex(signature),
        }
    }
}

/// Whether the key that an anchor names has signed it.
pub(crate) fn is_signed(anchor: &Anchor) -> bool {
    let said = statement(&anchor.tip(), anchor.at);
    UnparsedPublicKey::new(&ED25519, anchor.key.0).verify(&said, &anchor.signature.0).is_ok()
}

fn pem(seed: &[u8; 32]) -> String {
    let der = [&PKCS8[..], seed].concat();
    format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der))
}

/// The key in a file, which is made if there is none, for its owner alone.
pub(super) fn kept(file: &Path) -> Result<Signer, String> {
    let said = |error: std::io::Error| format!("{}: {error}", file.display());
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = pem(&clock::entropy());
            make(file, &text).map_err(said)?;
            text
        }
        read => read.map_err(said)?,
    };
    Signer::read(&text).map_err(|why| format!("{} is {why}", file.display()))
}

/// Makes a file for its owner alone, whole or not at all.
fn make(file: &Path, text: &str) -> std::io::Result<()> {
    let part = file.with_extension("part");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut made = options.open(&part)?;
    made.write_all(text.as_bytes())?;
    made.sync_all()?;
    std::fs::rename(part, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time::from_millis(1_800_000_000_000);
    const TIP: Tip = Tip { sequence: 7, position: 21, hash: [5; 32] };

    #[test] // REQ AU-1
    fn a_signature_holds_for_what_was_signed_and_nothing_else() {
        let anchor = Signer::read(&pem(&[9; 32])).unwrap().sign(&TIP, AT);
        assert!(is_signed(&anchor));
        let read: Anchor = serde_json::from_str(&serde_json::to_string(&anchor).unwrap()).unwrap();
        assert!(is_signed(&read) && read == anchor);
        let other = Signer::read(&pem(&[8; 32])).unwrap();
        for forged in [
            Anchor { sequence: 6, ..anchor.clone() },
            Anchor { position: 20, ..anchor.clone() },
            Anchor { hash: Hex([6; 32]), ..anchor.clone() },
            Anchor { at: Time::default(), ..anchor.clone() },
            Anchor { key: other.public(), ..anchor.clone() },
            Anchor { signature: other.sign(&TIP, AT).signature, ..anchor },
        ] {
            assert!(!is_signed(&forged), "{forged:?}");
        }
    }

    #[test]
    fn the_bytes_and_the_key_are_those_of_the_reference() {
        // RFC 8032, 7.1, the first test: this secret has this public key.
        let seed =
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60".parse::<Hex<32>>().unwrap();
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(Signer::read(&pem(&seed.0)).unwrap().public().to_string(), public);
        let said = statement(&TIP, AT);
        assert_eq!(said.len(), 15 + 8 + 8 + 32 + 8);
        assert_eq!(&said[..15], b"pombo anchor 1\0");
        assert_eq!(said[15..31], [7, 0, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(said[63..], AT.millis().to_le_bytes());
    }

    #[test]
    fn what_is_no_key_is_told_without_being_repeated() {
        let rsa = format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(b"canary that is no key at all"));
        for (text, why) in [
            ("canary", "not a private key in PEM (PKCS #8)"),
            ("-----BEGIN PRIVATE KEY-----\ncanary!\n-----END PRIVATE KEY-----", "a PEM text that is damaged"),
            (&rsa, "a private key of another kind than Ed25519"),
        ] {
            assert_eq!(Signer::read(text).unwrap_err(), why);
        }
        let signer = Signer::read(&pem(&[9; 32])).unwrap();
        assert_eq!(format!("{signer:?}"), format!("Signer({})", signer.public()));
    }

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.key");
        let first = kept(&file).unwrap().public();
        assert_eq!(kept(&file).unwrap().public(), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // A part that a death has left behind stands in nobody's way.
        std::fs::write(folder.path().join("other.part"), "half a key").unwrap();
        assert!(kept(&folder.path().join("other.key")).is_ok());
        std::fs::write(&file, "canary").unwrap();
        let why = kept(&file).unwrap_err();
        assert!(why.contains("not a private key") && !why.contains("canary"), "{why}");
    }
}
