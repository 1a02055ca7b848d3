//! The filters and tests that a template can use. Each filter is charged for the bytes that it handles, so that a
//! loop over a long text cannot take long, nor fill the memory.

use jiff::civil::Date;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, escape_formatter, tests};

use super::said;

pub(super) const FILTERS: [&str; 21] = [
    "abs",
    "brl",
    "capitalize",
    "count",
    "d",
    "date_br",
    "default",
    "e",
    "escape",
    "first",
    "join",
    "last",
    "length",
    "lower",
    "replace",
    "round",
    "safe",
    "title",
    "trim",
    "truncate",
    "upper",
];
pub(super) const HINT: &str = "there are abs, brl, capitalize, date_br, default, escape, first, join, last, length, \
                               lower, replace, round, safe, title, trim, truncate and upper";

pub(super) const TESTS: [&str; 9] =
    ["defined", "undefined", "none", "odd", "even", "number", "string", "sequence", "mapping"];
pub(super) const TESTS_HINT: &str =
    "there are defined, undefined, none, odd, even, number, string, sequence and mapping";

/// Bytes that the filters of one part may handle in all.
const WORK_BYTES: usize = 8 * 1024 * 1024;

pub(super) fn add(to: &mut Environment<'static>) {
    to.add_filter("upper", |state: &mut State, it: &Value| made(state, text(it)?.to_uppercase()));
    to.add_filter("lower", |state: &mut State, it: &Value| made(state, text(it)?.to_lowercase()));
    to.add_filter("trim", |state: &mut State, it: &Value| made(state, text(it)?.trim().to_owned()));
    to.add_filter("title", |state: &mut State, it: &Value| made(state, title(&text(it)?)));
    to.add_filter("capitalize", |state: &mut State, it: &Value| made(state, capitalized(&text(it)?)));
    to.add_filter("replace", replace);
    to.add_filter("truncate", truncate);
    to.add_filter("join", join);
    to.add_filter("escape", escape);
    to.add_filter("e", escape);
    to.add_filter("safe", |state: &mut State, it: &Value| {
        made(state, text(it)?).map(Value::from_safe_string)
    });
    to.add_filter("default", default);
    to.add_filter("d", default);
    to.add_filter("length", length);
    to.add_filter("count", length);
    to.add_filter("first", |it: &Value| end(it, |_| 0));
    to.add_filter("last", |it: &Value| end(it, |length| length - 1));
    to.add_filter("round", round);
    to.add_filter("abs", |it: &Value| number(it).map(f64::abs).map(plain));
    to.add_filter("brl", |it: &Value| brl(number(it)?));
    to.add_filter("date_br", date_br);
    to.add_test("defined", tests::is_defined);
    to.add_test("undefined", tests::is_undefined);
    to.add_test("none", tests::is_none);
    to.add_test("odd", tests::is_odd);
    to.add_test("even", tests::is_even);
    to.add_test("number", tests::is_number);
    to.add_test("string", tests::is_string);
    to.add_test("sequence", tests::is_sequence);
    to.add_test("mapping", tests::is_mapping);
}

/// Writes a value into the message: words and numbers. Nothing, a list or an object is a slip of whoever wrote
/// the template or the payload.
pub(super) fn write(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => Err(said("has no value (null)")),
        ValueKind::String | ValueKind::Number | ValueKind::Bool | ValueKind::Undefined => {
            escape_formatter(out, state, value)
        }
        _ => Err(said("is a list or an object, not text")),
    }
}

/// Bytes handled so far.
#[derive(Default)]
struct Work(usize);

fn charge(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let work = state.get_or_insert_extension(Work::default());
    work.0 = work.0.saturating_add(bytes);
    if work.0 > WORK_BYTES { Err(Error::from(ErrorKind::OutOfFuel)) } else { Ok(()) }
}

/// A filter's text, paid for.
fn made(state: &mut State<'_, '_>, text: String) -> Result<String, Error> {
    charge(state, text.len().max(16))?;
    Ok(text)
}

/// A value as words.
fn text(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number | ValueKind::Bool => Ok(value.to_string()),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::None => Err(said("has no value (null)")),
        _ => Err(said("is a list or an object, not text")),
    }
}

fn number(value: &Value) -> Result<f64, Error> {
    let number: Option<f64> = match value.kind() {
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::String => value.as_str().and_then(|text| text.trim().parse().ok()),
        _ => f64::try_from(value.clone()).ok(),
    };
    number.filter(|number| number.is_finite()).ok_or_else(|| said("is not a number"))
}

fn plain(number: f64) -> Value {
    // Without a fraction it is written as a whole number; beyond this, floats have no single units any more.
    #[allow(clippy::cast_possible_truncation, reason = "checked on the line itself")]
    if number.fract() == 0.0 && number.abs() < 9e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

fn replace(state: &mut State<'_, '_>, it: &Value, from: &str, to: &str) -> Result<String, Error> {
    let text = text(it)?;
    // Counted first, so that nothing large is made to be thrown away.
    let hits = text.matches(from).count();
    charge(state, text.len().saturating_add(hits.saturating_mul(to.len())))?;
    Ok(text.replace(from, to))
}

/// At most so many characters; where some are left out, the last one is an ellipsis.
fn truncate(state: &mut State<'_, '_>, it: &Value, most: usize) -> Result<String, Error> {
    let text = made(state, text(it)?)?;
    if text.chars().nth(most).is_none() {
        return Ok(text);
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    Ok(format!("{}…", head.trim_end()))
}

fn join(state: &mut State<'_, '_>, it: &Value, between: Option<&str>) -> Result<String, Error> {
    let between = between.unwrap_or_default();
    let mut joined = String::new();
    for (place, item) in items(it)?.enumerate() {
        let item = text(&item)?;
        charge(state, 16 + item.len() + between.len())?;
        if place > 0 {
            joined.push_str(between);
        }
        joined.push_str(&item);
    }
    Ok(joined)
}

fn escape(state: &mut State<'_, '_>, it: &Value) -> Result<Value, Error> {
    if it.is_safe() {
        return Ok(it.clone());
    }
    let text = text(it)?;
    charge(state, text.len())?;
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#x27;"),
            c => escaped.push(c),
        }
    }
    made(state, escaped).map(Value::from_safe_string)
}

/// The other value where there is none, or null.
fn default(it: &Value, other: Option<Value>) -> Value {
    match it.is_undefined() || it.is_none() {
        true => other.unwrap_or_else(|| Value::from("")),
        false => it.clone(),
    }
}

fn length(state: &mut State<'_, '_>, it: &Value) -> Result<usize, Error> {
    if it.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    charge(state, it.as_str().map_or(16, str::len))?;
    it.len().ok_or_else(|| said("has no length"))
}

fn items(it: &Value) -> Result<impl Iterator<Item = Value>, Error> {
    match it.kind() {
        ValueKind::Seq | ValueKind::Iterable => it.try_iter(),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        _ => Err(said("is not a list")),
    }
}

fn end(it: &Value, place: fn(usize) -> usize) -> Result<Value, Error> {
    drop(items(it)?);
    let length = it.len().filter(|length| *length > 0).ok_or_else(|| said("is empty"))?;
    it.get_item_by_index(place(length))
}

fn round(it: &Value, digits: Option<i32>) -> Result<Value, Error> {
    let scale = 10f64.powi(digits.unwrap_or(0).clamp(0, 9));
    Ok(plain((number(it)? * scale).round() / scale))
}

/// Money in Brazil: `R$ 1.234,56`.
fn brl(amount: f64) -> Result<String, Error> {
    if amount.abs() > 1e13 {
        return Err(said("is too large for an amount"));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded on the line above")]
    let cents = (amount.abs() * 100.0).round() as u64;
    let whole = (cents / 100).to_string();
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push('.');
        }
        grouped.push(digit);
    }
    let sign = if amount < 0.0 && cents > 0 { "-" } else { "" };
    Ok(format!("{sign}R$ {grouped},{:02}", cents % 100))
}

/// The date as it is written in Brazil: 31/01/2026. Of a time, the date that stands in it.
fn date_br(it: &Value) -> Result<String, Error> {
    let text = text(it)?;
    let date: Option<Date> = text.get(..10).and_then(|date| date.parse().ok());
    let rest = text.get(10..).unwrap_or_default();
    match date.filter(|_| rest.is_empty() || rest.starts_with(['T', ' '])) {
        Some(date) => Ok(format!("{:02}/{:02}/{:04}", date.day(), date.month(), date.year())),
        None => Err(said("is not a date such as 2026-01-31")),
    }
}

fn title(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(capitalized).collect()
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars.flat_map(char::to_lowercase)).collect()
}
