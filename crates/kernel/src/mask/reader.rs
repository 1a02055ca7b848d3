//! Hides persons from some of those who read, while the store keeps what was written.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::personal;
use crate::content;
use crate::kind::ChannelKind;

/// Stands for what a reader does not get to see. Whatever is hidden has it, so that it can be known again.
pub const HIDDEN: &str = "•••";

/// Those whose keys can be kept from seeing persons. A producer is not among them: it wrote what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaskedRole {
    Viewer,
    Operator,
    Admin,
}

impl MaskedRole {
    /// Who is kept from it unless somebody says otherwise. Applications come with the keys of admins, too, and read
    /// back whom they wrote to.
    pub fn usual() -> BTreeSet<MaskedRole> {
        [MaskedRole::Viewer, MaskedRole::Operator].into()
    }
}

/// Whether something in it was hidden from whoever wrote it: it must not take the place of what is really there.
pub fn is_hidden(text: &str) -> bool {
    text.contains(HIDDEN)
}

/// Whom a message is for, as much as is needed to tell one from another: the domain of an address, the area and the last
/// digits of a number, the host of a URL. What is no person's (the operator that claims go to) stays.
pub fn recipient(kind: Option<ChannelKind>, to: &str) -> Cow<'_, str> {
    if kind == Some(ChannelKind::Tiss) {
        return to.into();
    }
    let inner = to.trim();
    let inner = inner.strip_suffix('>').and_then(|it| it.rsplit_once('<')).map_or(inner, |(_, it)| it);
    if inner.contains("://") {
        return match content::host(inner) {
            none if none.is_empty() => HIDDEN.into(),
            host => {
                let scheme = inner.split("://").next().unwrap_or_default();
                format!("{scheme}://{host}/{HIDDEN}").into()
            }
        };
    }
    if let Some((local, domain)) = inner.rsplit_once('@') {
        let plain = domain.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-'));
        // What is as short as that is all told by its beginning.
        let first = local.chars().next().filter(|_| local.chars().nth(2).is_some());
        let first = first.map(String::from).unwrap_or_default();
        return match plain && !domain.is_empty() {
            true => format!("{first}{HIDDEN}@{domain}").into(),
            false => HIDDEN.into(),
        };
    }
    number(inner).unwrap_or_else(|| HIDDEN.to_owned()).into()
}

/// A phone number, as it is written in Brazil if it is one of there.
fn number(text: &str) -> Option<String> {
    let written = |c: char| c.is_ascii_digit() || matches!(c, ' ' | '+' | '-' | '.' | '(' | ')');
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !text.chars().all(written) || !(8..=15).contains(&digits.len()) {
        return None;
    }
    let (head, last) = digits.split_at(digits.len() - 4);
    let (country, rest) = match head.strip_prefix("55") {
        Some(rest) if matches!(digits.len(), 12 | 13) => ("+55 ", rest),
        _ => ("", head),
    };
    // An area, perhaps the nine of mobile numbers, and four digits that are hidden.
    Some(match (rest.len(), rest.get(..2), rest.get(2..3)) {
        (7, Some(area), Some("9")) if !text.starts_with('+') || !country.is_empty() => {
            format!("{country}{area} 9••••-{last}")
        }
        (6, Some(area), _) if !text.starts_with('+') || !country.is_empty() => {
            format!("{country}{area} ••••-{last}")
        }
        _ => format!("{HIDDEN}{last}"),
    })
}

/// The form of a document without what it says: members keep their names, texts and numbers become [`HIDDEN`].
pub fn shape(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(_) | Value::String(_) => HIDDEN.into(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(members) => shapes(members).into(),
    }
}

/// The same for members. A name that looks like a person is hidden as well.
pub fn shapes(members: &Map<String, Value>) -> Map<String, Value> {
    members.iter().map(|(name, value)| (personal(name).into_owned(), shape(value))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test] // REQ AU-3
    fn a_recipient_can_be_told_from_others_and_not_written_to() {
        for (to, masked) in [
            ("+5511987654321", "+55 11 9••••-4321"),
            ("5511987654321", "+55 11 9••••-4321"),
            ("+55 (11) 98765-4321", "+55 11 9••••-4321"),
            ("(11) 98765-4321", "11 9••••-4321"),
            ("551134567890", "+55 11 ••••-7890"),
            ("1134567890", "11 ••••-7890"),
            ("+12025550123", "•••0123"),
            ("12345678909", "•••8909"),
            ("ana.souza@clinica.com.br", "a•••@clinica.com.br"),
            ("Ana Souza <ana.souza@clinica.com.br>", "a•••@clinica.com.br"),
            ("ab@clinica.com.br", "•••@clinica.com.br"),
            ("5511987654321@s.whatsapp.net", "5•••@s.whatsapp.net"),
            ("https://user:secret@crm.example:8443/hook?token=x", "https://crm.example:8443/•••"),
            ("Maria da Silva", "•••"),
            ("x@Maria da Silva", "•••"),
            ("http://", "•••"),
            ("", "•••"),
        ] {
            assert_eq!(recipient(None, to), masked, "{to}");
        }
        assert_eq!(recipient(Some(ChannelKind::Tiss), "amil"), "amil");
    }

    #[test] // REQ AU-3
    fn a_document_keeps_its_form_and_says_nothing() {
        let said = json!({"nome": "Ana", "idade": 41, "vip": true, "pai": null, "tel": ["+5511987654321"],
                          "ana@clinic.example": {"cpf": 12_345_678_909_u64}});
        let form = json!({"nome": "•••", "idade": "•••", "vip": true, "pai": null, "tel": ["•••"],
                          "a***@clinic.example": {"cpf": "•••"}});
        assert_eq!(shape(&said), form);
    }

    proptest! {
        #[test]
        fn whatever_is_hidden_is_known_again_and_hides_half_at_least(to in "[0-9+() .-]{0,20}|[a-z.]{1,20}@[a-z]{1,9}[.]com|\\PC{0,40}") {
            let masked = recipient(None, &to);
            prop_assert!(is_hidden(&masked), "{to}: {masked}");
            let digits: String = to.chars().filter(char::is_ascii_digit).collect();
            let left = masked.chars().filter(char::is_ascii_digit).count();
            prop_assert!(digits.len() < 8 || to.contains('@') || to.contains("://") || left + 4 <= digits.len(), "{to}: {masked}");
        }
    }
}
