//! What no server may ever say.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use regex::bytes::Regex;

use super::KEY;

/// Part of every secret that tests make up, be it a provider's, a mail server's or a database's.
pub(crate) const CANARY: &str = "canary-secret";
/// Keys and signing secrets that the server makes, or that a provider would.
const MADE: &str = "pombo_[0-9a-f]{64}|whsec_[A-Za-z0-9+/]{24}";

/// How a word looks in other text: as it is, and at the three places that base64 gives it.
pub(crate) fn forms(word: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![word.as_bytes().to_vec()];
    for lead in 0..3usize {
        let text = [&b"xxx"[..lead], word.as_bytes()].concat();
        let whole = text.len() / 3 * 4;
        let first = (lead * 8).div_ceil(6);
        forms.push(BASE64_STANDARD.encode(&text).as_bytes()[first..whole].to_vec());
    }
    forms
}

/// The lines that hold a secret.
pub(crate) fn shown(said: &[u8]) -> Vec<String> {
    let words = [KEY, CANARY].into_iter().flat_map(forms);
    let words: Vec<String> = words.map(|form| regex::escape(&String::from_utf8(form).unwrap())).collect();
    let secret = Regex::new(&format!("{}|{MADE}", words.join("|"))).unwrap();
    let lines = said.split(|byte| *byte == b'\n').filter(|line| secret.is_match(line));
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}
