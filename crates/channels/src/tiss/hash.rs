//! The hash that every TISS message ends with: MD5 over its values.

use md5::{Digest as _, Md5};
use pombo_kernel::xml::{BadXml, Step, walk};
use schemars::JsonSchema;
use serde::Deserialize;

/// The bytes that stand for characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Encoding {
    #[default]
    #[serde(rename = "iso-8859-1")]
    Latin1,
    #[serde(rename = "utf-8")]
    Utf8,
}

/// How the hash is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HashCase {
    #[default]
    Lower,
    Upper,
}

/// The hash of a message in either encoding, in lower case, and the one that it carries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hashes {
    latin1: String,
    utf8: String,
    /// As it was written; nothing if there is none, or an empty one.
    pub(crate) carried: Option<String>,
}

impl Hashes {
    /// Reads the values of a message, which may be in an envelope, in a file, or bare.
    ///
    /// Every value counts in document order, decoded, unless it is empty or blank. The hash itself, what surrounds
    /// it and signatures do not, nor does anything in an envelope outside of its body. A character that ISO-8859-1
    /// lacks counts as `?`, as it does for most receivers.
    pub(crate) fn of(xml: &str) -> Result<Hashes, BadXml> {
        let (mut latin1, mut utf8) = (Md5::new(), Md5::new());
        let mut value = String::new();
        let mut carried = String::new();
        let (mut envelope, mut skipped) = (false, None);
        let mut in_hash = false;
        let mut flush = |value: &mut String| {
            if !value.trim().is_empty() {
                utf8.update(value.as_bytes());
                latin1.update(value.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect::<Vec<u8>>());
            }
            value.clear();
        };
        walk(xml, |step| match step {
            Step::Open(tag) => {
                flush(&mut value);
                let local = tag.local();
                envelope |= tag.depth == 0 && local == "Envelope";
                let outside = envelope && tag.depth == 1 && local != "Body";
                if skipped.is_none() && (outside || is_apart(local)) {
                    skipped = Some(tag.depth);
                }
                in_hash = local == "hash";
            }
            Step::Text(text) if in_hash => carried.push_str(&text),
            Step::Text(text) if skipped.is_none() => value.push_str(&text),
            Step::Close { tag, .. } => {
                flush(&mut value);
                in_hash = false;
                if skipped == Some(tag.depth) {
                    skipped = None;
                }
            }
            Step::Text(_) | Step::Instruction => {}
        })?;
        let carried = Some(carried.trim().to_owned()).filter(|hash| !hash.is_empty());
        Ok(Hashes { latin1: hex(latin1), utf8: hex(utf8), carried })
    }

    pub(crate) fn in_encoding(&self, encoding: Encoding) -> &str {
        match encoding {
            Encoding::Latin1 => &self.latin1,
            Encoding::Utf8 => &self.utf8,
        }
    }

    /// Whether the hash that it carries is its own, in this encoding and in any case.
    pub(crate) fn holds_in(&self, encoding: Encoding) -> bool {
        self.carried.as_ref().is_some_and(|hash| hash.eq_ignore_ascii_case(self.in_encoding(encoding)))
    }

    /// Whether it carries a hash that is not its own, in whatever encoding it was made.
    pub(crate) fn is_broken(&self) -> bool {
        self.carried.is_some() && !self.holds_in(Encoding::Latin1) && !self.holds_in(Encoding::Utf8)
    }
}

fn is_apart(local: &str) -> bool {
    ["hash", "epilogo", "Signature", "Signatures", "assinaturaDigital"].contains(&local)
}

fn hex(hash: Md5) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The MD5 of a text, as operators want passwords.
pub(crate) fn md5_hex(text: &str) -> String {
    hex(Md5::new_with_prefix(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATIN1: &str = "b2211d15987daedd80ae36db98766c4d";
    const UTF8: &str = "5294b1925b04435461133fe302046f3b";

    fn check(xml: &str, latin1: &str, utf8: &str) {
        let hashes = Hashes::of(xml).unwrap();
        assert_eq!(
            (hashes.in_encoding(Encoding::Latin1), hashes.in_encoding(Encoding::Utf8)),
            (latin1, utf8),
            "{xml}"
        );
    }

    const REQUEST: &str = "<ans:loteGuiasWS><ans:cabecalho><a>ENVIO_LOTE_GUIAS</a><a>1</a><a>2025-01-31</a>\
        <a>10:20:30</a> <a>0001</a>\n\t<a>123456</a><a/><a>4.01.00</a></ans:cabecalho><b>77</b><b>João</b>";

    #[test]
    fn the_known_values_have_the_known_hash() {
        check(&format!("{REQUEST}</ans:loteGuiasWS>"), LATIN1, UTF8);
        let entities = REQUEST.replace("João", "Jo&#227;o").replace("0001", "<![CDATA[0001]]>");
        check(&format!("{entities}</ans:loteGuiasWS>"), LATIN1, UTF8);
    }

    #[test]
    fn hash_epilogue_signature_and_envelope_do_not_count() {
        let more = "<hash>x</hash><Signature><a>y</a><b><c>z</c></b></Signature></ans:loteGuiasWS>";
        check(&format!("{REQUEST}{more}"), LATIN1, UTF8);
        let soap = format!(
            "<s:Envelope><s:Header><t>token</t></s:Header><s:Body>{REQUEST}{more}</s:Body></s:Envelope>"
        );
        check(&soap, LATIN1, UTF8);
        check(&format!("<m>{REQUEST}</ans:loteGuiasWS><epilogo><hash>x</hash></epilogo></m>"), LATIN1, UTF8);
        assert_eq!(Hashes::of(&soap).unwrap().carried.as_deref(), Some("x"));
    }

    #[test]
    fn a_carried_hash_is_checked_in_any_case() {
        for (hash, latin1, utf8) in [(LATIN1, true, false), (UTF8, false, true), ("0", false, false)] {
            let xml = format!("{REQUEST}<hash> {} </hash></ans:loteGuiasWS>", hash.to_uppercase());
            let hashes = Hashes::of(&xml).unwrap();
            let held =
                (hashes.holds_in(Encoding::Latin1), hashes.holds_in(Encoding::Utf8), hashes.is_broken());
            assert_eq!(held, (latin1, utf8, !latin1 && !utf8));
        }
        assert!(!Hashes::of("<a>b<hash/></a>").unwrap().is_broken());
    }

    #[test]
    fn a_character_beyond_latin_1_counts_as_a_question_mark() {
        let hashes = Hashes::of("<a>€</a>").unwrap();
        assert_eq!(hashes.in_encoding(Encoding::Latin1), md5_hex("?"));
        assert_eq!(hashes.in_encoding(Encoding::Utf8), md5_hex("€"));
    }
}
