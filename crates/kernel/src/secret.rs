//! Words that must not be seen.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// A key or password. It can be read from configuration and handed to a provider, and is never shown:
/// neither by `Debug`, nor by `Display` or serialisation, which it does not have.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The words themselves. Whoever asks keeps them out of logs, errors and stores.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "writeOnly": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_however_deep_it_lies() {
        let secret: Secret = serde_json::from_str("\"canary-41\"").unwrap();
        assert!(!format!("{:#?}", Some([(1, secret.clone())])).contains("canary"));
        assert_eq!(secret.expose(), "canary-41");
    }
}
