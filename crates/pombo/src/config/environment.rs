//! What the environment adds to the file: `${NAME}` in its strings, and `POMBO_SECTION__KEY` in its place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::problem::{Problem, Problems};

/// The variables that configuration is read with. Handed in, so that a test needs no process of its own.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    needs: Needs,
}

/// What of a configuration is used, and must therefore be there in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Needs {
    #[default]
    Everything,
    /// Where the store is.
    Store,
    /// Policies and rules, which say nothing secret.
    Rules,
}

impl Needs {
    fn includes(self, path: &str) -> bool {
        match self {
            Needs::Everything => true,
            Needs::Store => path.starts_with("store.") || path.starts_with("encryption."),
            Needs::Rules => false,
        }
    }
}

/// The values stay hidden: many of them are credentials.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Names that begin as an override does, and mean something else.
const RESERVED: [&str; 7] = [
    "POMBO_SERVER",
    "POMBO_API_KEY",
    "POMBO_ADMIN_KEY",
    "POMBO_LOG",
    "POMBO_CONFIG",
    "POMBO_DATA",
    "POMBO_DATABASE_URL",
];

const PREFIX: &str = "POMBO_";

impl Environment {
    /// The variables of this process; those that are not text are passed over.
    pub fn of_process() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        std::env::vars_os().filter_map(text).collect()
    }

    /// For one who uses only a part: a variable that another part names need not be set.
    #[must_use]
    pub fn for_use_of(self, needs: Needs) -> Environment {
        Environment { needs, ..self }
    }

    /// A variable's value; one that is set to nothing counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The overrides: variable, path of keys, value. `scalars` are the keys that stand outside any section.
    fn overrides<'a>(&'a self, scalars: &[&str]) -> impl Iterator<Item = (&'a str, Vec<String>, &'a str)> {
        self.variables.iter().filter_map(move |(name, value)| {
            let path = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
            let keys: Vec<String> = path.split("__").map(str::to_owned).collect();
            let meant = keys.len() > 1 || scalars.contains(&path.as_str());
            let reserved = RESERVED.contains(&name.as_str());
            (meant && !reserved).then_some((name.as_str(), keys, value.as_str()))
        })
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Environment {
        let variables = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Environment { variables, needs: Needs::Everything }
    }
}

/// Where values came from, by path, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// Strings that hold something from the environment: the whole of each, and what came from there.
    expanded: BTreeMap<String, Vec<String>>,
    /// Values that are a variable's text.
    overridden: BTreeMap<String, Override>,
    /// Strings that name a variable which is not set, where nobody needs it.
    forgiven: BTreeSet<String>,
}

#[derive(Debug)]
struct Override {
    variable: String,
    text: String,
}

/// Nothing shorter is a secret, and much that is shorter stands in any sentence.
const SECRET_BYTES_MIN: usize = 4;
/// What is shorter than this may also be a part of one of our own words, as "prod" is of "production".
const PART_BYTES_MIN: usize = 8;

impl Origins {
    /// The value does not stand in the file as it is.
    pub(super) fn outside(&self, path: &str) -> bool {
        self.expanded.contains_key(path) || self.overridden.contains_key(path)
    }

    /// The variable that the value is the text of.
    pub(super) fn variable(&self, path: &str) -> Option<&str> {
        self.overridden.get(path).map(|it| it.variable.as_str())
    }

    /// Nobody needs the value, so nothing is wrong with it.
    pub(super) fn forgiven(&self, path: &str) -> bool {
        self.forgiven.contains(path)
    }

    /// The value there counts as one from outside, and what of it may be a secret.
    pub(super) fn note_outside(&mut self, path: impl Into<String>, secret: Option<&str>) {
        self.expanded.entry(path.into()).or_default().extend(secret.map(str::to_owned));
    }

    /// The problem without what came from outside the file to its place, around it or within it: that may be a secret.
    ///
    /// Here and not where problems are told, since whoever tells of one would have to think of it.
    pub(super) fn unspoken(&self, problem: Problem) -> Problem {
        let near = |path: &str| within(path, &problem.path) || within(&problem.path, path);
        let expanded = self.expanded.iter().filter(|(path, _)| near(path)).flat_map(|(_, texts)| texts);
        let overridden = self.overridden.iter().filter(|(path, _)| near(path)).map(|(_, it)| &it.text);
        let mut texts: Vec<&String> =
            expanded.chain(overridden).filter(|text| text.len() >= SECRET_BYTES_MIN).collect();
        texts.sort_by_key(|text| Reverse(text.len()));
        let told = |words: String| {
            texts.iter().fold(words, |words, text| without(&without(&words, &format!("{text:?}")), text))
        };
        Problem { what: told(problem.what), hint: told(problem.hint), path: problem.path }
    }
}

/// `a.b` and `a[0]` are within `a`, as it is itself.
fn within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The words without the text, in whatever case it stands there; a word that only holds a short one stays.
fn without(words: &str, text: &str) -> String {
    let (found_in, sought) = (words.to_ascii_lowercase(), text.to_ascii_lowercase());
    let joins = |one: Option<char>, other: Option<char>| {
        one.is_some_and(char::is_alphanumeric) && other.is_some_and(char::is_alphanumeric)
    };
    let (mut out, mut from) = (String::with_capacity(words.len()), 0);
    for (at, _) in found_in.match_indices(&sought) {
        let end = at + sought.len();
        let (before, after) = (words[..at].chars().next_back(), words[end..].chars().next());
        let part = joins(before, text.chars().next()) || joins(text.chars().next_back(), after);
        if part && text.len() < PART_BYTES_MIN {
            continue;
        }
        out.push_str(&words[from..at]);
        out.push_str("the value");
        from = end;
    }
    out.push_str(&words[from..]);
    out
}

/// Puts the environment's values in the place of every `${NAME}`.
pub(super) fn expand(
    table: &mut Table,
    environment: &Environment,
    origins: &mut Origins,
    problems: &mut Problems,
) {
    for (key, value) in table.iter_mut() {
        expand_value(value, key, environment, origins, problems);
    }
}

fn expand_value(
    value: &mut Value,
    path: &str,
    environment: &Environment,
    origins: &mut Origins,
    problems: &mut Problems,
) {
    match value {
        Value::String(text) => match expanded(text, environment) {
            Ok(None) => {}
            Ok(Some(new)) => {
                *text = new.text;
                if !new.from_outside.is_empty() {
                    let texts = [text.clone()].into_iter().chain(new.from_outside);
                    origins.expanded.insert(path.to_owned(), texts.collect());
                }
            }
            Err(Unexpanded::Missing(names)) => {
                if !environment.needs.includes(path) {
                    origins.forgiven.insert(path.to_owned());
                }
                for name in names {
                    problems.say(
                        path,
                        format!("the variable `{name}` is not set"),
                        format!("set {name}, or write $${{{name}}} for the characters themselves"),
                    );
                }
                // Whatever else is wrong with the value is a consequence.
                origins.note_outside(path, None);
            }
            Err(Unexpanded::Unclosed) => {
                problems.say(
                    path,
                    "`${` without its `}`",
                    "write ${NAME}, or $${ for the characters themselves",
                );
            }
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                expand_value(item, &format!("{path}[{index}]"), environment, origins, problems);
            }
        }
        Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                expand_value(value, &format!("{path}.{key}"), environment, origins, problems);
            }
        }
        _ => {}
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Expanded {
    text: String,
    /// The variables' values in it; none where there was only `$${`, which stands for itself.
    from_outside: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Unexpanded {
    Missing(Vec<String>),
    Unclosed,
}

/// The text with its variables filled in; nothing if it has none.
fn expanded(text: &str, environment: &Environment) -> Result<Option<Expanded>, Unexpanded> {
    let mut out = String::with_capacity(text.len());
    let (mut from_outside, mut missing) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or(Unexpanded::Unclosed)?;
        let name = inside[..end].trim();
        match environment.get(name) {
            Some(value) => {
                out.push_str(value);
                from_outside.push(value.to_owned());
            }
            None => missing.push(name.to_owned()),
        }
        rest = &inside[end + 1..];
    }
    if !missing.is_empty() {
        return Err(Unexpanded::Missing(missing));
    }
    out.push_str(rest);
    let changed = out != text || !from_outside.is_empty();
    Ok(changed.then_some(Expanded { text: out, from_outside }))
}

/// Lays the overrides over the file's values, as text; what type a text must have is known where it is read.
///
/// A name in a variable has no `-` and no lower case, so an existing key that differs only there is meant.
pub(super) fn override_with(
    table: &mut Table,
    environment: &Environment,
    scalars: &[&str],
    origins: &mut Origins,
    problems: &mut Problems,
) {
    for (variable, keys, value) in environment.overrides(scalars) {
        let path = if keys.iter().any(String::is_empty) { None } else { put(table, &keys, value) };
        match path {
            Some(path) => {
                let (variable, text) = (variable.to_owned(), value.to_owned());
                origins.overridden.insert(path, Override { variable, text });
            }
            None => {
                let what = format!("the variable `{variable}` names no value");
                problems.say(variable, what, "write POMBO_SECTION__NAME__KEY; lists are set in the file");
            }
        }
    }
}

/// Puts a value at the end of a path of keys and says which path that is; nothing if a list or a value is in
/// the way.
fn put(table: &mut Table, keys: &[String], value: &str) -> Option<String> {
    let (first, rest) = keys.split_first()?;
    let key = known_spelling(table, first);
    if rest.is_empty() {
        table.insert(key.clone(), Value::String(value.to_owned()));
        return Some(key);
    }
    let below = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new())).as_table_mut()?;
    put(below, rest, value).map(|below| joined(&key, &below))
}

fn known_spelling(table: &Table, key: &str) -> String {
    let same = |known: &&String| known.replace('-', "_").eq_ignore_ascii_case(key);
    table.keys().find(same).cloned().unwrap_or_else(|| key.to_owned())
}

/// `a` and `b` are `a.b`.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Option<&str>, Unexpanded>) {
        let environment = [("HOST", "h.example"), ("EMPTY", "")].into_iter().collect();
        let got = expanded(text, &environment).map(|it| it.map(|new| new.text));
        assert_eq!(got, expected.map(|it| it.map(str::to_owned)), "{text}");
    }

    #[test]
    fn variables_are_filled_in_and_can_be_escaped() {
        check("plain $ text", Ok(None));
        check("https://${HOST}/a", Ok(Some("https://h.example/a")));
        check("${HOST}${ HOST }", Ok(Some("h.exampleh.example")));
        check("$${HOST}", Ok(Some("${HOST}")));
        check("$${HOST} is ${HOST}", Ok(Some("${HOST} is h.example")));
        check("${NONE} ${EMPTY}", Err(Unexpanded::Missing(vec!["NONE".into(), "EMPTY".into()])));
        check("${HOST", Err(Unexpanded::Unclosed));
    }

    #[test]
    fn an_override_finds_a_key_that_a_variable_cannot_spell() {
        let mut table: Table = toml::from_str("[channels.ops-webhook]\nkind = 'webhook'").unwrap();
        let environment = [("POMBO_CHANNELS__OPS_WEBHOOK__TENANT", "a"), ("POMBO_SERVER", "x")];
        let (mut origins, mut problems) = (Origins::default(), Problems::default());
        override_with(&mut table, &environment.into_iter().collect(), &[], &mut origins, &mut problems);
        assert_eq!(problems, Problems::default());
        assert_eq!(table["channels"]["ops-webhook"]["tenant"].as_str(), Some("a"));
        assert_eq!(
            origins.variable("channels.ops-webhook.tenant"),
            Some("POMBO_CHANNELS__OPS_WEBHOOK__TENANT")
        );
    }

    #[test]
    fn an_override_into_a_list_is_refused() {
        let mut table: Table = toml::from_str("[[routes]]\ntype = 'a'").unwrap();
        let environment = [("POMBO_ROUTES__0__LANE", "bulk"), ("POMBO_LANES____WORKERS", "1")];
        let (mut origins, mut problems) = (Origins::default(), Problems::default());
        override_with(&mut table, &environment.into_iter().collect(), &[], &mut origins, &mut problems);
        let paths: Vec<&str> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["POMBO_LANES____WORKERS", "POMBO_ROUTES__0__LANE"]);
    }
}
