//! Reads one table of the file into its type, one key at a time, so that one bad value hides no other.

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::environment::{Origins, joined};
use super::problem::{Problems, suggestion};

/// A key that a section has, with its description.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    about: String,
}

/// The keys of a section, from the very type that it is read into.
pub(super) fn keys_of<T: JsonSchema>() -> Vec<Key> {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    let properties = schema.as_object().and_then(|object| object.get("properties")?.as_object());
    let about =
        |value: &serde_json::Value| value["description"].as_str().unwrap_or_default().replace('\n', " ");
    properties
        .into_iter()
        .flatten()
        .map(|(name, value)| Key { name: name.clone(), about: about(value) })
        .collect()
}

/// What reading a file gathers on the way.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) origins: Origins,
    pub(super) problems: Problems,
}

impl Reading {
    /// The section's values; the default in the place of every value that is absent or wrong.
    pub(super) fn section<T: JsonSchema + DeserializeOwned + Default>(
        &mut self,
        path: &str,
        table: Table,
    ) -> T {
        self.section_with(path, table, &Table::new()).unwrap_or_default()
    }

    /// The section's values, where `required` holds stand-ins for the keys that have no default.
    ///
    /// Nothing if one of those is missing or wrong.
    pub(super) fn section_with<T: JsonSchema + DeserializeOwned>(
        &mut self,
        path: &str,
        table: Table,
        required: &Table,
    ) -> Option<T> {
        let keys = keys_of::<T>();
        let mut good = Table::new();
        for (name, value) in table {
            let here = joined(path, &name);
            let Some(key) = keys.iter().find(|key| key.name == name) else {
                self.unknown(&here, &name, keys.iter().map(|key| key.name.as_str()));
                continue;
            };
            if let Some(value) = self.fitting::<T>(&here, key, value, required) {
                good.insert(name, value);
            }
        }
        for name in required.keys().filter(|name| !good.contains_key(*name)) {
            let here = joined(path, name);
            if !self.problems.0.iter().any(|problem| problem.path == here) {
                let about = keys.iter().find(|key| key.name == *name).map_or("", |key| key.about.as_str());
                self.problems.say(here, "missing", hint_of(about));
            }
        }
        Value::Table(good).try_into().ok()
    }

    /// The value, if the section can be read with it alone. A variable's text may stand for another type.
    fn fitting<T: DeserializeOwned>(
        &mut self,
        here: &str,
        key: &Key,
        value: Value,
        required: &Table,
    ) -> Option<Value> {
        let read = |value: &Value| {
            let mut alone = required.clone();
            alone.insert(key.name.clone(), value.clone());
            Value::Table(alone).try_into::<T>().map(drop)
        };
        let error = match read(&value) {
            Ok(()) => return Some(value),
            Err(error) => error,
        };
        if self.origins.variable(here).is_some()
            && let Some(typed) = value.as_str().and_then(typed)
            && read(&typed).is_ok()
        {
            return Some(typed);
        }
        if self.problems.0.iter().any(|problem| problem.path == here) {
            return None;
        }
        let (what, hint) = match error.message().split_once("; ") {
            Some((what, hint)) => (what.to_owned(), hint.to_owned()),
            None => (error.message().to_owned(), hint_of(&key.about)),
        };
        self.problems.say(here, what, hint);
        None
    }

    pub(super) fn unknown<'a>(&mut self, here: &str, name: &str, known: impl Iterator<Item = &'a str>) {
        let hint = match self.origins.variable(here) {
            Some(variable) => format!("set by {variable}; {}", suggestion(name, known)),
            None => suggestion(name, known),
        };
        self.problems.say(here, "unknown key", hint);
    }

    /// The table that must stand here.
    pub(super) fn table(&mut self, path: &str, value: Value) -> Option<Table> {
        match value {
            Value::Table(table) => Some(table),
            other => {
                self.problems.say(
                    path,
                    format!("a section is expected here, not {}", other.type_str()),
                    format!("write [{path}] and its keys below"),
                );
                None
            }
        }
    }

    /// The list of tables that must stand here.
    pub(super) fn tables(&mut self, path: &str, value: Value) -> Vec<(String, Table)> {
        let Value::Array(items) = value else {
            let what = format!("a list is expected here, not {}", value.type_str());
            self.problems.say(path, what, format!("write [[{path}]] and its keys below"));
            return Vec::new();
        };
        let numbered = items.into_iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item));
        numbered.filter_map(|(here, item)| Some((here.clone(), self.table(&here, item)?))).collect()
    }
}

fn hint_of(about: &str) -> String {
    if about.is_empty() { "see `pombo config example`".to_owned() } else { about.to_owned() }
}

/// A variable's text as TOML would read it: `8`, `true`, `["5s"]`.
fn typed(text: &str) -> Option<Value> {
    let mut table: Table = toml::from_str(&format!("value = {text}")).ok()?;
    table.remove("value")
}
