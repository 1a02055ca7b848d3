//! Reading what strangers send without building all of it up in memory first: a number in a list takes two bytes on the
//! wire and sixteen times as many as a value.

use std::fmt;
use std::marker::PhantomData;

use pombo_kernel::request::BadJson;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest text of a member that is built up as a value.
const VALUE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The members of an object that somebody knows, each still as text. Others are passed over.
#[derive(Debug)]
pub(super) struct Members<'a>(Vec<(&'static str, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Nothing if it is JSON and no object.
    pub(super) fn read(
        json: &'a [u8],
        known: &'static [&'static str],
    ) -> Result<Option<Members<'a>>, BadJson> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        if json.trim_ascii_start().first() != Some(&b'{') {
            IgnoredAny::deserialize(&mut reader)?;
            reader.end()?;
            return Ok(None);
        }
        let members = Known(known).deserialize(&mut reader)?;
        reader.end()?;
        Ok(Some(members))
    }

    /// A member that is there and not null.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let place = self.0.iter().rposition(|(known, _)| *known == name)?;
        let (_, raw) = self.0.swap_remove(place);
        Some(raw).filter(|raw| raw.get() != "null")
    }
}

/// A member as a value; nothing if it is too long or too deep for one.
pub(super) fn value(raw: &RawValue) -> Option<Value> {
    let text = raw.get();
    if text.len() > VALUE_BYTES_MAX {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The names that matter, and how to read an object that has them.
struct Known(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Known {
    type Value = Members<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Members<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Known {
    type Value = Members<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
        let mut found: Vec<(&'static str, &'de RawValue)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let Some(known) = self.0.iter().copied().find(|known| *known == name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = map.next_value()?;
            // Given twice, the last one counts.
            found.retain(|(earlier, _)| *earlier != known);
            found.push((known, value));
        }
        Ok(Members(found))
    }
}

/// A list of at most so many. A longer one is read to its end and cut, with one more to show it.
#[derive(Debug)]
pub(super) struct Few<T, const MOST: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Few<T, MOST>, D::Error> {
        struct List<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
            type Value = Few<T, MOST>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Few<T, MOST>, S::Error> {
                let mut few = Vec::new();
                while few.len() <= MOST {
                    match list.next_element()? {
                        Some(item) => few.push(item),
                        None => return Ok(Few(few)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Few(few))
            }
        }
        deserializer.deserialize_seq(List(PhantomData))
    }
}

/// A file's bytes, written as text in base64, as a list of numbers, or as Node writes a buffer.
#[derive(Debug)]
pub(super) enum FileBytes {
    Base64(String),
    Plain(Vec<u8>),
}

impl<'de> Deserialize<'de> for FileBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileBytes, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = FileBytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64, or a list of bytes")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<FileBytes, E> {
                Ok(FileBytes::Base64(text.split_ascii_whitespace().collect()))
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<FileBytes, S::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = list.next_element()? {
                    bytes.push(byte);
                }
                Ok(FileBytes::Plain(bytes))
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<FileBytes, M::Error> {
                let mut bytes = None;
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "data" => bytes = Some(map.next_value()?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                bytes.map(FileBytes::Plain).ok_or_else(|| M::Error::missing_field("data"))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["a", "b"];

    fn read(json: &str) -> Option<Vec<(&'static str, String)>> {
        let members = Members::read(json.as_bytes(), KNOWN).unwrap()?;
        Some(members.0.into_iter().map(|(name, raw)| (name, raw.get().to_owned())).collect())
    }

    #[test]
    fn members_that_nobody_knows_are_passed_over_and_the_last_of_two_counts() {
        let read = read(r#" {"x": [[1]], "a": {"b": 1}, "\u0062": null, "a": 2} "#).unwrap();
        assert_eq!(read, [("b", "null".to_owned()), ("a", "2".to_owned())]);
        let mut members = Members::read(br#"{"a": 1, "b": null}"#, KNOWN).unwrap().unwrap();
        assert_eq!(members.take("a").map(RawValue::get), Some("1"));
        assert!(members.take("a").is_none() && members.take("b").is_none());
    }

    #[test]
    fn what_is_no_object_is_told_from_what_is_no_json() {
        for other in ["[]", "7", "null", "\"{\""] {
            assert_eq!(read(other), None, "{other}");
        }
        for bad in ["", "{", "{\"a\": }", "{} {}", "[1] 2", "{\"a\": \"\u{1}\"}"] {
            assert!(Members::read(bad.as_bytes(), KNOWN).is_err(), "{bad}");
        }
        assert!(Members::read(b"{\"a\": \"\xff\"}", KNOWN).is_err());
    }

    #[test]
    fn a_long_list_is_cut_and_shows_that_it_was() {
        let few = |json: &str| serde_json::from_str::<Few<u8, 2>>(json).unwrap().0;
        assert_eq!(few("[1, 2]"), [1, 2]);
        assert_eq!(few("[1, 2, 3, 4, [5]]"), [1, 2, 3]);
    }

    #[test]
    fn a_value_is_built_only_if_it_is_short_and_flat() {
        let raw = |text: String| RawValue::from_string(text).unwrap();
        assert!(value(&raw("[1, 2]".to_owned())).is_some());
        assert!(value(&raw(format!("[{}1]", "1,".repeat(VALUE_BYTES_MAX / 2)))).is_none());
        assert!(value(&raw(format!("{}{}", "[".repeat(500), "]".repeat(500)))).is_none());
    }
}
