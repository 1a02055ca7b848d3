//! Names that people give to things, checked once, so that the rest of the program can trust them.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 64 lower-case letters, digits, `-` or `_`, and starts with a letter or digit")]
pub struct BadName;

fn check(text: &str) -> Result<(), BadName> {
    let fits = (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        && text.as_bytes()[0].is_ascii_alphanumeric();
    if fits { Ok(()) } else { Err(BadName) }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<$name, BadName> {
                check(text).map(|()| $name(text.into()))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"})
            }
        }
    )*};
}

names! {
    /// Whose message it is.
    Tenant,
    /// A configured outlet.
    ChannelName,
    /// A worker pool with its own capacity.
    LaneName,
    /// When to try again and when to stop.
    PolicyName,
    /// A template, a recipient list and a pace.
    CampaignName,
    /// Words with gaps, by the name that messages call them.
    TemplateName,
    /// Somebody who is told when something is wrong.
    NoticeName,
    /// People who look after some of the dead letters.
    TeamName,
    /// Figures that people are sent regularly.
    ReportName,
}

impl Default for Tenant {
    fn default() -> Tenant {
        Tenant("default".into())
    }
}

impl Default for LaneName {
    fn default() -> LaneName {
        LaneName("default".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_short() {
        for good in ["whatsapp", "crm-2", "a", "0_x"] {
            assert_eq!(good.parse::<ChannelName>().map(|n| n.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "-a", "A", "a b", "ação", "a\n", &"x".repeat(65)] {
            assert_eq!(bad.parse::<ChannelName>(), Err(BadName), "{bad:?}");
        }
    }
}
