//! DKIM signatures (RFC 6376, RFC 8463): relaxed on both sides, so that a relay may fold and refill lines.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo_kernel::content::Problem;
use pombo_kernel::time::Time;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SigningKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// What is signed of a mail's head, where it is there.
const SIGNED: [&str; 11] = [
    "from",
    "to",
    "subject",
    "date",
    "message-id",
    "reply-to",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "list-unsubscribe",
    "list-unsubscribe-post",
];
/// Signed once more than they are there, so that nobody can add a second one.
const SEALED: [&str; 5] = ["from", "to", "subject", "date", "reply-to"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DkimSettings {
    /// The domain that answers for the mail, for example "clinic.example".
    pub domain: String,
    /// The name of the key in the domain's DNS: `<selector>._domainkey.<domain>`.
    pub selector: String,
    /// A PEM file with the private key: RSA of 2048 bits or more, or Ed25519.
    pub key_file: Option<PathBuf>,
}

/// Signs mails for one domain with one key.
pub(super) struct Signer {
    domain: String,
    selector: String,
    key: Arc<dyn SigningKey>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl Signer {
    pub(super) fn new(settings: &DkimSettings) -> Result<Signer, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |field: &str, reason: String, hint: &str| {
            problems.push(Problem { field: format!("dkim.{field}"), reason, hint: hint.to_owned() });
        };
        for (field, name) in [("domain", &settings.domain), ("selector", &settings.selector)] {
            if !is_dns_name(name) {
                wrong(field, "is not a name in DNS".to_owned(), "write it as in DNS, such as clinic.example");
            }
        }
        let key = match &settings.key_file {
            None => Err("is missing".to_owned()),
            Some(file) => PrivateKeyDer::from_pem_file(file)
                .map_err(|error| format!("cannot be read: {error}"))
                .and_then(|key| {
                    rustls::crypto::ring::sign::any_supported_type(&key)
                        .map_err(|_| "holds no key that can be used".to_owned())
                })
                .and_then(|key| {
                    let fits =
                        matches!(key.algorithm(), SignatureAlgorithm::RSA | SignatureAlgorithm::ED25519);
                    if fits { Ok(key) } else { Err("is neither an RSA nor an Ed25519 key".to_owned()) }
                }),
        };
        if let Err(reason) = &key {
            wrong("key_file", reason.clone(), "make one with: openssl genrsa -out dkim.pem 2048");
        }
        match key {
            Ok(key) if problems.is_empty() => {
                Ok(Signer { domain: settings.domain.clone(), selector: settings.selector.clone(), key })
            }
            _ => Err(problems),
        }
    }

    /// The header to put before a mail of whole lines; nothing if the key cannot sign, which it then never can.
    pub(super) fn header(&self, mail: &[u8], now: Time) -> Option<String> {
        let end = mail.windows(4).position(|lines| lines == b"\r\n\r\n")?;
        let (head, body) = (&mail[..end], &mail[end + 4..]);
        let fields = fields(head);
        let there = |name: &str| fields.iter().any(|(field, _)| field == name);
        let mut names: Vec<&str> = SIGNED.into_iter().filter(|name| there(name)).collect();
        names.extend(SEALED);
        let body_hash = BASE64.encode(Sha256::digest(relaxed_body(body)));
        let (algorithm, scheme) = match self.key.algorithm() {
            SignatureAlgorithm::RSA => ("rsa-sha256", SignatureScheme::RSA_PKCS1_SHA256),
            _ => ("ed25519-sha256", SignatureScheme::ED25519),
        };
        let value = format!(
            "v=1; a={algorithm}; c=relaxed/relaxed;\r\n d={}; s={};\r\n t={};\r\n h={};\r\n bh={body_hash};\r\n b=",
            self.domain,
            self.selector,
            now.millis().div_euclid(1000),
            names.join(":\r\n  "),
        );

        let mut signed = Vec::new();
        for (i, name) in names.iter().enumerate() {
            // The second mention of a name stands for a second header, which is usually not there.
            let before = names[..i].iter().filter(|other| *other == name).count();
            if let Some((_, text)) = fields.iter().filter(|(field, _)| field == name).nth(before) {
                signed.extend_from_slice(name.as_bytes());
                signed.push(b':');
                signed.extend_from_slice(text);
                signed.extend_from_slice(b"\r\n");
            }
        }
        signed.extend_from_slice(b"dkim-signature:");
        signed.extend_from_slice(&relaxed_value(value.as_bytes()));

        let signer = self.key.choose_scheme(&[scheme])?;
        let signature = match scheme {
            SignatureScheme::ED25519 => signer.sign(&Sha256::digest(signed)),
            _ => signer.sign(&signed),
        };
        let signature = BASE64.encode(signature.ok()?);
        let lines: Vec<&str> =
            (0..signature.len()).step_by(72).map(|i| &signature[i..signature.len().min(i + 72)]).collect();
        Some(format!("DKIM-Signature: {value}{}\r\n", lines.join("\r\n  ")))
    }
}

fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// The headers of a mail, each with its lower-case name and its relaxed value. Of several of one name the last comes
/// first, as it is signed first.
fn fields(head: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
    for line in head.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        match fields.last_mut() {
            Some((_, value)) if line.starts_with(b" ") || line.starts_with(b"\t") => {
                value.extend_from_slice(line);
            }
            _ => {
                let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
                let name = String::from_utf8_lossy(&line[..colon]).trim_end().to_ascii_lowercase();
                fields.push((name, line.get(colon + 1..).unwrap_or_default().to_vec()));
            }
        }
    }
    fields.iter_mut().for_each(|(_, value)| *value = relaxed_value(value));
    fields.reverse();
    fields
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// A header's value on one line, with single blanks and none at its ends.
fn relaxed_value(value: &[u8]) -> Vec<u8> {
    let words = value.split(|b| is_blank(*b) || matches!(b, b'\r' | b'\n')).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

/// A body with single blanks, none at the ends of lines, and no empty lines at its own.
fn relaxed_body(body: &[u8]) -> Vec<u8> {
    let mut relaxed = Vec::with_capacity(body.len());
    let mut empty_lines = 0;
    for line in body.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        let end = line.iter().rposition(|b| !is_blank(*b)).map_or(0, |last| last + 1);
        if end == 0 {
            empty_lines += 1;
            continue;
        }
        for _ in 0..empty_lines {
            relaxed.extend_from_slice(b"\r\n");
        }
        empty_lines = 0;
        let mut blank = false;
        for byte in &line[..end] {
            if !is_blank(*byte) {
                relaxed.push(*byte);
            } else if !blank {
                relaxed.push(b' ');
            }
            blank = is_blank(*byte);
        }
        relaxed.extend_from_slice(b"\r\n");
    }
    relaxed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // RFC 6376, section 3.4.5
    fn relaxed_is_as_the_standard_shows_it() {
        let head = b"A: X\r\nB : Y\t\r\n\tZ  ";
        let expected = [("b".to_owned(), b"Y Z".to_vec()), ("a".to_owned(), b"X".to_vec())];
        assert_eq!(fields(head), expected);
        assert_eq!(relaxed_body(b" C \r\nD \t E\r\n\r\n\r\n"), b" C\r\nD E\r\n");
        assert_eq!(relaxed_body(b"\r\n\r\n"), b"");
        assert_eq!(relaxed_body(b""), b"");
        assert_eq!(relaxed_body(b"\r\na"), b"\r\na\r\n");
    }
}
