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
    pub(super) fn header(&self, mail: &str, now: Time) -> Option<String> {
        let (head, body) = mail.split_once("\r\n\r\n")?;
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

        let mut signed = String::new();
        for (i, name) in names.iter().enumerate() {
            // The second mention of a name stands for a second header, which is not there.
            let again = names[..i].contains(name);
            if let Some((_, text)) = fields.iter().find(|(field, _)| field == name).filter(|_| !again) {
                signed.push_str(&format!("{name}:{text}\r\n"));
            }
        }
        signed.push_str(&format!("dkim-signature:{}", relaxed_value(&value)));

        let signer = self.key.choose_scheme(&[scheme])?;
        let signature = match scheme {
            SignatureScheme::ED25519 => signer.sign(&Sha256::digest(signed)),
            _ => signer.sign(signed.as_bytes()),
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

/// The headers of a mail, each with its lower-case name and its relaxed value.
fn fields(head: &str) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in head.split("\r\n") {
        match fields.last_mut() {
            Some((_, value)) if line.starts_with([' ', '\t']) => value.push_str(line),
            _ => {
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                fields.push((name.trim_end().to_ascii_lowercase(), value.to_owned()));
            }
        }
    }
    fields.iter_mut().for_each(|(_, value)| *value = relaxed_value(value));
    fields
}

/// A header's value on one line, with single blanks and none at its ends.
fn relaxed_value(value: &str) -> String {
    let words = value.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// A body with single blanks, none at the ends of lines, and no empty lines at its own.
fn relaxed_body(body: &str) -> String {
    let mut relaxed = String::with_capacity(body.len());
    let mut empty_lines = 0;
    for line in body.split("\r\n") {
        let line = line.trim_end_matches([' ', '\t']);
        if line.is_empty() {
            empty_lines += 1;
            continue;
        }
        for _ in 0..empty_lines {
            relaxed.push_str("\r\n");
        }
        empty_lines = 0;
        let mut blank = false;
        for c in line.chars() {
            let is_blank = c == ' ' || c == '\t';
            if !is_blank {
                relaxed.push(c);
            } else if !blank {
                relaxed.push(' ');
            }
            blank = is_blank;
        }
        relaxed.push_str("\r\n");
    }
    relaxed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // RFC 6376, section 3.4.5
    fn relaxed_is_as_the_standard_shows_it() {
        let head = "A: X\r\nB : Y\t\r\n\tZ  ";
        let expected = [("a".to_owned(), "X".to_owned()), ("b".to_owned(), "Y Z".to_owned())];
        assert_eq!(fields(head), expected);
        assert_eq!(relaxed_body(" C \r\nD \t E\r\n\r\n\r\n"), " C\r\nD E\r\n");
        assert_eq!(relaxed_body("\r\n\r\n"), "");
        assert_eq!(relaxed_body(""), "");
        assert_eq!(relaxed_body("\r\na"), "\r\na\r\n");
    }
}
