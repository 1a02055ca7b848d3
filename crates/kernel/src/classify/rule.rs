//! One rule: what to look for in a failed reply, and what it then means. Plain data until it is compiled.

use std::fmt;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Facts, Scope, Verdict, bare, plain};
use crate::reply::{Enhanced, FaultKind, Stage};
use crate::time::Span;

/// A rule of classification. Every matcher that it gives must match; at least one is given.
///
/// The built-in tables and the rules of a channel's configuration are the same type, so that whatever we can
/// say about a provider, a user can say as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A short name, by which the rule is cited: `smtp:greylisted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// HTTP status or SMTP code: 429, "5xx", "520-527", or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<OneOf>,
    /// Enhanced status code, SMTP only: "5.1.1", "4.x.x", "5.7.606-649", or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enhanced: Option<OneOf>,
    /// The provider's name for the error, exactly, in any case. Numbers may be "1201-1218" or "13xx".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OneOf>,
    /// What broke on the way, when no reply came: "timeout", "tls", …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<OneOf>,
    /// Where in the dialogue it was said: "request", "greeting", "auth", "mail", "rcpt", "data".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<OneOf>,
    /// Words of the reply or of its name, in any case; of a list, any one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<OneOf>,
    /// Words of the reply or of its name, in any case; of a list, every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains_all: Option<OneOf>,
    /// A regular expression, in any case, over the reply's words on one line, followed by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    pub verdict: Verdict,
    /// A short stable slug: `rate_limited`.
    pub category: String,
    /// It counts against the destination's health.
    #[serde(default)]
    pub destination_fault: bool,
    /// Keep the recipient out of later bulk sends. Only with the verdict `permanent`.
    #[serde(default)]
    pub suppress: bool,
    /// The provider says that it has this very message already: counted as sent if an earlier attempt's outcome
    /// is unknown, and treated by the verdict otherwise.
    #[serde(default)]
    pub already_delivered: bool,
    /// What is held, with the verdict `sender_fault`.
    #[serde(default)]
    pub scope: Scope,
    /// The least time to let pass before the next try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
    /// A sentence for whoever reads the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Rule {
    /// A rule with that answer and no question yet: it needs one, such as a name or words, to be of use.
    pub fn new(verdict: Verdict, category: impl Into<String>) -> Rule {
        Rule {
            id: None,
            status: None,
            enhanced: None,
            name: None,
            fault: None,
            stage: None,
            contains: None,
            contains_all: None,
            matches: None,
            verdict,
            category: category.into(),
            destination_fault: false,
            suppress: false,
            already_delivered: false,
            scope: Scope::default(),
            wait: None,
            note: None,
        }
    }
}

/// One text or number, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOf(pub Vec<String>);

impl Serialize for OneOf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => serializer.serialize_str(one),
            many => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OneOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOf, D::Error> {
        struct Seen;
        impl<'de> de::Visitor<'de> for Seen {
            type Value = OneOf;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, or a list of them")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOf, E> {
                Ok(OneOf(vec![text.to_owned()]))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<OneOf, E> {
                Ok(OneOf(vec![number.to_string()]))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<OneOf, E> {
                Ok(OneOf(vec![number.to_string()]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<OneOf, A::Error> {
                let mut all = Vec::new();
                while let Some(OneOf(items)) = list.next_element()? {
                    all.extend(items);
                }
                Ok(OneOf(all))
            }
        }
        deserializer.deserialize_any(Seen)
    }
}

impl JsonSchema for OneOf {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OneOf".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a text or a number, or a list of them",
            "anyOf": [
                {"type": ["string", "integer"]},
                {"type": "array", "minItems": 1, "items": {"type": ["string", "integer"]}}
            ]
        })
    }
}

/// A rule that cannot be used: which one, what is wrong with it, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {index}: {problem}; {hint}")]
pub struct BadRule {
    /// Its place in the list that was given, from 0.
    pub index: usize,
    /// The key at fault; none when it is the rule as a whole.
    pub field: Option<&'static str>,
    pub problem: String,
    pub hint: &'static str,
}

/// What is wrong with one rule, before its place is known.
type Flaw = (Option<&'static str>, String, &'static str);

/// A rule, made ready to be matched many times.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// `smtp:greylisted`, `channel:0`.
    pub(super) id: String,
    pub(super) rule: Rule,
    status: Option<Vec<Numbers>>,
    enhanced: Option<Vec<EnhancedPattern>>,
    name: Option<Vec<NamePattern>>,
    fault: Option<Vec<FaultKind>>,
    stage: Option<Vec<Stage>>,
    any: Option<Vec<String>>,
    all: Vec<String>,
    expression: Option<Expression>,
}

impl Compiled {
    pub(super) fn new(origin: &str, index: usize, rule: &Rule) -> Result<Compiled, BadRule> {
        let compiled = Compiled::built_in(origin, index, rule)?;
        match compiled.expression.as_ref().map(Expression::compile) {
            Some(Err(flaw)) => Err(bad(index, flaw)),
            Some(Ok(_)) | None => Ok(compiled),
        }
    }

    /// Of a rule that is part of the program. Its expression is known to be one, and is compiled when first asked:
    /// most never are.
    pub(super) fn built_in(origin: &str, index: usize, rule: &Rule) -> Result<Compiled, BadRule> {
        compile(origin, index, rule).map_err(|flaw| bad(index, flaw))
    }

    /// Cheap comparisons first: most rules are ruled out by a number before any text is read.
    pub(super) fn matches(&self, facts: &Facts<'_>) -> bool {
        fits(self.fault.as_deref(), facts.fault, |kind, seen| *kind == seen)
            && fits(self.status.as_deref(), facts.status, |numbers, seen| numbers.hold(seen))
            && fits(self.enhanced.as_deref(), facts.enhanced, |pattern, seen| pattern.hold(seen))
            && fits(self.stage.as_deref(), facts.stage, |stage, seen| *stage == seen)
            && fits(self.name.as_deref(), facts.name, |pattern, seen| pattern.hold(seen))
            && self.any.as_ref().is_none_or(|any| any.iter().any(|words| facts.words.contains(words)))
            && self.all.iter().all(|words| facts.words.contains(words))
            && self.expression.as_ref().is_none_or(|expression| expression.is_match(&facts.words))
    }
}

fn bad(index: usize, (field, problem, hint): Flaw) -> BadRule {
    BadRule { index, field, problem, hint }
}

/// No pattern asks for nothing; patterns ask for a fact that one of them fits.
fn fits<P, F: Copy>(patterns: Option<&[P]>, fact: Option<F>, hold: impl Fn(&P, F) -> bool) -> bool {
    match (patterns, fact) {
        (None, _) => true,
        (Some(patterns), Some(fact)) => patterns.iter().any(|pattern| hold(pattern, fact)),
        (Some(_), None) => false,
    }
}

fn compile(origin: &str, index: usize, rule: &Rule) -> Result<Compiled, Flaw> {
    let id = match &rule.id {
        Some(id) if slug(id) => format!("{origin}:{id}"),
        Some(id) => {
            let hint = "write lower-case letters, digits, `-` and `_`, at most 64";
            return Err((Some("id"), format!("`id` is {id:?}"), hint));
        }
        None => format!("{origin}:{index}"),
    };
    if !slug(&rule.category) {
        let hint = "write a short slug such as \"rate_limited\": lower-case letters, digits, `-` and `_`";
        return Err((Some("category"), format!("`category` is {:?}", rule.category), hint));
    }
    if rule.suppress && rule.verdict != Verdict::Permanent {
        let problem = "`suppress` is set, but the verdict is not \"permanent\"".to_owned();
        return Err((Some("suppress"), problem, "leave `suppress` out, or make the verdict \"permanent\""));
    }
    let compiled = Compiled {
        id,
        status: list("status", rule.status.as_ref(), "write 429, \"5xx\" or \"520-527\"", |text| {
            Numbers::read(text).ok_or_else(|| format!("{text:?} is not a status"))
        })?,
        enhanced: list(
            "enhanced",
            rule.enhanced.as_ref(),
            "write \"5.1.1\", \"4.x.x\" or \"5.7.606-649\"",
            |text| {
                EnhancedPattern::read(text).ok_or_else(|| format!("{text:?} is not an enhanced status code"))
            },
        )?,
        name: list("name", rule.name.as_ref(), "write the provider's error name", |text| {
            NamePattern::read(text).ok_or_else(|| "an empty name matches nothing".to_owned())
        })?,
        fault: list("fault", rule.fault.as_ref(), "write one of those names", variant)?,
        stage: list("stage", rule.stage.as_ref(), "write one of those names", variant)?,
        any: list("contains", rule.contains.as_ref(), "write words to look for", words)?,
        all: list("contains_all", rule.contains_all.as_ref(), "write words to look for", words)?
            .unwrap_or_default(),
        expression: rule.matches.as_deref().map(Expression::read).transpose()?,
        rule: rule.clone(),
    };
    let nothing_asked = compiled.status.is_none()
        && compiled.enhanced.is_none()
        && compiled.name.is_none()
        && compiled.fault.is_none()
        && compiled.stage.is_none()
        && compiled.any.is_none()
        && compiled.all.is_empty()
        && compiled.expression.is_none();
    if nothing_asked {
        let hint =
            "give at least one of status, enhanced, name, fault, stage, contains, contains_all, matches";
        return Err((None, "it has no matcher, so it would match every error".to_owned(), hint));
    }
    Ok(compiled)
}

fn list<T>(
    field: &'static str,
    given: Option<&OneOf>,
    hint: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Vec<T>>, Flaw> {
    let Some(OneOf(items)) = given else { return Ok(None) };
    if items.is_empty() {
        return Err((Some(field), format!("`{field}` is an empty list, which matches nothing"), hint));
    }
    let read = |text: &String| {
        read(text).map_err(|problem| (Some(field), format!("`{field}` cannot be read: {problem}"), hint))
    };
    items.iter().map(read).collect::<Result<Vec<T>, Flaw>>().map(Some)
}

fn variant<T: de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let deserializer: de::value::StrDeserializer<'_, de::value::Error> = text.into_deserializer();
    T::deserialize(deserializer).map_err(|e| e.to_string())
}

fn words(text: &str) -> Result<String, String> {
    let words = plain(text);
    if words.trim().is_empty() { Err("empty words are in every reply".to_owned()) } else { Ok(words) }
}

/// What `matches` asks for.
#[derive(Clone, Debug)]
struct Expression {
    bare: String,
    compiled: OnceLock<Regex>,
}

impl Expression {
    fn read(text: &str) -> Result<Expression, Flaw> {
        if text.is_empty() {
            return Err(unfit("`matches` is empty, which matches every reply".to_owned()));
        }
        // The words that it is held against have no accents.
        let bare = text.chars().flat_map(|c| if c.is_ascii() { Some(c) } else { plain_letter(c) }).collect();
        Ok(Expression { bare, compiled: OnceLock::new() })
    }

    fn compile(&self) -> Result<&Regex, Flaw> {
        if let Some(regex) = self.compiled.get() {
            return Ok(regex);
        }
        let built = RegexBuilder::new(&self.bare).case_insensitive(true).size_limit(1 << 20).build();
        let regex = built.map_err(|error| {
            let said = error.to_string();
            let reason = said.lines().last().unwrap_or_default().trim_start_matches("error: ");
            unfit(format!("`matches` is not a regular expression: {reason}"))
        })?;
        Ok(self.compiled.get_or_init(|| regex))
    }

    fn is_match(&self, words: &str) -> bool {
        self.compile().is_ok_and(|regex| regex.is_match(words))
    }
}

fn unfit(problem: String) -> Flaw {
    (Some("matches"), problem, "test it with `pombo classify`, or use `contains` for plain words")
}

fn plain_letter(c: char) -> Option<char> {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => bare(lower),
        _ => Some(c),
    }
}

fn slug(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

/// Numbers from one to another: `418`, `5xx`, `850-899`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    first: u32,
    last: u32,
}

impl Numbers {
    fn read(text: &str) -> Option<Numbers> {
        let text = text.trim();
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (digits(first)?, digits(last)?),
            None => {
                let head = text.trim_end_matches(['x', 'X']);
                let open = text.len() - head.len();
                (
                    digits(&format!("{head}{}", "0".repeat(open)))?,
                    digits(&format!("{head}{}", "9".repeat(open)))?,
                )
            }
        };
        (first <= last).then_some(Numbers { first, last })
    }

    fn hold(self, number: impl Into<u32>) -> bool {
        (self.first..=self.last).contains(&number.into())
    }
}

/// A number as written with digits alone: no sign, no blank.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `5.1.1`, `4.x.x`, `x.7.26`, `5.7.606-649`.
#[derive(Clone, Copy, Debug)]
struct EnhancedPattern([Option<Numbers>; 3]);

impl EnhancedPattern {
    fn read(text: &str) -> Option<EnhancedPattern> {
        let part = |text: &str| match text {
            "x" | "X" => Some(None),
            _ => Numbers::read(text).map(Some),
        };
        let mut parts = text.trim().split('.');
        let read = [part(parts.next()?)?, part(parts.next()?)?, part(parts.next()?)?];
        parts.next().is_none().then_some(EnhancedPattern(read))
    }

    fn hold(&self, code: Enhanced) -> bool {
        let parts = [u16::from(code.class), code.subject, code.detail];
        self.0.iter().zip(parts).all(|(numbers, part)| numbers.is_none_or(|numbers| numbers.hold(part)))
    }
}

#[derive(Clone, Debug)]
enum NamePattern {
    Word(String),
    Numbers(Numbers),
}

impl NamePattern {
    fn read(text: &str) -> Option<NamePattern> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        Some(match Numbers::read(text) {
            Some(numbers) => NamePattern::Numbers(numbers),
            None => NamePattern::Word(text.to_owned()),
        })
    }

    fn hold(&self, name: &str) -> bool {
        match self {
            NamePattern::Word(word) => word.eq_ignore_ascii_case(name.trim()),
            NamePattern::Numbers(numbers) => digits(name.trim()).is_some_and(|number| numbers.hold(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Rule, toml::de::Error> {
        toml::from_str(text)
    }

    fn compiled(text: &str) -> Result<Compiled, BadRule> {
        Compiled::new("channel", 0, &read(text).unwrap())
    }

    const MEANS: &str = "verdict = 'permanent'\ncategory = 'teapot'\n";

    #[test] // REQ CF-1
    fn a_user_writes_a_rule_as_four_plain_lines() {
        let text = "status = 418\ncontains = \"teapot\"\nverdict = \"permanent\"\ncategory = \"teapot\"";
        let rule = read(text).unwrap();
        assert_eq!(rule.status, Some(OneOf(vec!["418".to_owned()])));
        assert_eq!((rule.verdict, rule.category.as_str()), (Verdict::Permanent, "teapot"));
        assert_eq!(compiled(text).unwrap().id, "channel:0");
    }

    #[test] // REQ CF-1
    fn a_rule_that_cannot_be_used_says_what_why_and_what_next() {
        let check = |text: &str, field: Option<&str>, part: &str| {
            let bad = compiled(&format!("{text}\n{}", if text.contains("category") { "" } else { MEANS }));
            let bad = bad.expect_err(text);
            assert_eq!(bad.field, field, "{text}");
            let said = bad.to_string();
            assert!(said.contains(part) && said.contains("; ") && !said.contains('\n'), "{said}");
        };
        check("", None, "no matcher");
        check("matches = '(unclosed'", Some("matches"), "not a regular expression: unclosed group");
        check("matches = ''", Some("matches"), "every reply");
        check("contains = ' '", Some("contains"), "empty words");
        check("contains_all = []", Some("contains_all"), "empty list");
        check("status = 'teapot'", Some("status"), "not a status");
        check("status = '500-400'", Some("status"), "not a status");
        check("status = -1", Some("status"), "not a status");
        check("enhanced = '5.1'", Some("enhanced"), "not an enhanced status code");
        check("enhanced = '5.1.1.1'", Some("enhanced"), "not an enhanced status code");
        check("name = ''", Some("name"), "empty name");
        check("fault = 'flood'", Some("fault"), "unknown variant `flood`, expected one of `dns`");
        check("stage = 'curtain'", Some("stage"), "unknown variant `curtain`");
        check("id = 'Ação'\nstatus = 1", Some("id"), "`id` is");
        check("status = 1\nverdict = 'transient'\ncategory = ''", Some("category"), "rate_limited");
        check(
            "status = 1\nsuppress = true\nverdict = 'transient'\ncategory = 'a'",
            Some("suppress"),
            "permanent",
        );
    }

    #[test] // REQ CF-1
    fn unknown_keys_and_verdicts_are_refused() {
        for bad in ["stats = 1", "status = true", "status = 1.5", "scope = 'world'", "wait = 'soon'"] {
            assert!(read(&format!("{bad}\n{MEANS}")).is_err(), "{bad}");
        }
        assert!(read("status = 1\nverdict = 'maybe'\ncategory = 'a'").is_err());
        assert!(read("status = 1\ncategory = 'a'").is_err());
    }

    #[test]
    fn numbers_are_single_open_or_from_one_to_another() {
        let check = |text: &str, expected: Option<(u32, u32)>| {
            assert_eq!(Numbers::read(text).map(|n| (n.first, n.last)), expected, "{text}");
        };
        check("418", Some((418, 418)));
        check("5xx", Some((500, 599)));
        check("13xx", Some((1300, 1399)));
        check("850-899", Some((850, 899)));
        for bad in ["", "x", "xx", "5xx-6xx", "+5", "-5", "5-", "99999999999", "5x5", "٥"] {
            check(bad, None);
        }
    }

    #[test]
    fn enhanced_patterns_leave_parts_open() {
        let check = |pattern: &str, code: (u8, u16, u16), expected: bool| {
            let code = Enhanced { class: code.0, subject: code.1, detail: code.2 };
            assert_eq!(EnhancedPattern::read(pattern).unwrap().hold(code), expected, "{pattern} {code}");
        };
        check("5.7.1", (5, 7, 1), true);
        check("5.7.1", (5, 7, 10), false);
        check("4.x.x", (4, 2, 900), true);
        check("4.x.x", (5, 2, 1), false);
        check("x.7.26", (4, 7, 26), true);
        check("5.7.606-649", (5, 7, 649), true);
        check("5.7.606-649", (5, 7, 650), false);
    }

    #[test]
    fn a_rule_survives_writing_and_reading() {
        let text =
            format!("id = 'a'\nstatus = [400, '5xx']\ncontains = 'b'\nwait = '5m'\nnote = 'c'\n{MEANS}");
        let rule = read(&text).unwrap();
        assert_eq!(read(&toml::to_string(&rule).unwrap()).unwrap(), rule);
        let schema = serde_json::to_value(schemars::schema_for!(Rule)).unwrap();
        assert_eq!(schema["additionalProperties"], serde_json::Value::Bool(false));
    }
}
