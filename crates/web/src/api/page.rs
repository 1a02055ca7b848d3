//! Pages of lists: what is asked for in the address, and where the next page begins.

use std::fmt;
use std::str::FromStr;

use axum::response::Response;
use http::{StatusCode, Uri};
use pombo_kernel::id::MessageKey;
use pombo_store::Line;
use pombo_store::shelf::Doc;
use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::{Code, FieldError, Problem};
use crate::veil::REVEAL;
use crate::view;

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 500;

/// A reason and a hint.
pub(crate) type Wrong = (String, String);

/// What stands behind the `?` of an address, read name by name, with every problem told at once.
pub(crate) struct Query {
    given: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

impl Query {
    /// Reads the parameters; those without a value count as left out. Names other than these are problems.
    pub(crate) fn read(uri: &Uri, names: &[&str]) -> Result<Query, Problem> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Ok(axum::extract::Query(pairs)) = pairs else {
            return Err(Problem::field("query", "cannot be read", "percent-encode the values, in UTF-8"));
        };
        let mut query = Query { given: Vec::new(), errors: Vec::new() };
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            match names.contains(&name.as_str()) {
                true => query.given.push((name, value)),
                false => {
                    let hint = match names {
                        [] => "this address takes none".to_owned(),
                        names => format!("there are {}", names.join(", ")),
                    };
                    query.wrong(&name, ("is not a parameter of this address".to_owned(), hint));
                }
            }
        }
        Ok(query)
    }

    /// What was given under that name, the last one if several were, as `read` understands it.
    pub(crate) fn take<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, Wrong>) -> Option<T> {
        let value =
            self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.clone())?;
        match read(&value) {
            Ok(read) => Some(read),
            Err(wrong) => {
                self.wrong(name, wrong);
                None
            }
        }
    }

    /// What a list is narrowed down by, as it was written.
    pub(crate) fn filters(&self) -> Vec<(String, String)> {
        let filters = self.given.iter().filter(|(name, _)| !["limit", "cursor", REVEAL].contains(&&**name));
        filters.cloned().collect()
    }

    fn wrong(&mut self, name: &str, (reason, hint): Wrong) {
        if self.errors.len() < 20 {
            let field = name.chars().take(64).collect::<String>().into();
            self.errors.push(FieldError { code: Code::InvalidField, field, reason, hint });
        }
    }

    /// All was read; whatever was wrong is told.
    pub(crate) fn end(self) -> Result<(), Problem> {
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(Problem::fields(self.errors)),
        }
    }
}

/// How a list is asked for: how many at once, from where on, and by which filters, which are left to be read.
///
/// Whoever reads it must call `query.end()` when the filters are read.
pub(crate) struct Paging {
    pub(crate) limit: usize,
    /// As it came; see [`Paging::after`] and [`Paging::before`].
    pub(crate) cursor: Option<String>,
    pub(crate) query: Query,
}

impl Paging {
    pub(crate) fn read(uri: &Uri, filters: &[&str]) -> Result<Paging, Problem> {
        let mut query = Query::read(uri, &[filters, &["limit", "cursor"]].concat())?;
        let limit = query.take("limit", limit).unwrap_or(LIMIT_DEFAULT);
        let cursor = query.take("cursor", |text| Ok(text.to_owned()));
        Ok(Paging { limit, cursor, query })
    }

    /// Where a list of documents goes on.
    pub(crate) fn after(&self) -> Result<Option<(i64, String)>, Problem> {
        self.cursor.as_deref().map(|text| after(text).ok_or_else(bad_cursor)).transpose()
    }

    /// Where a list of messages goes on.
    pub(crate) fn before(&self) -> Result<Option<MessageKey>, Problem> {
        self.cursor.as_deref().map(|text| before(text).ok_or_else(bad_cursor)).transpose()
    }

    /// The documents of this page, and the cursor of the next one, from one document more than the limit.
    pub(crate) fn cut(&self, mut found: Vec<Doc>) -> (Vec<Doc>, Option<String>) {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| more).map(|last| after_cursor(last.leaf.order, &last.id));
        (found, next)
    }
}

/// A page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// To be given back as `cursor` for what comes next; null at the end.
    pub(crate) next_cursor: Option<String>,
}

pub(crate) fn page<T: Serialize>(items: Vec<T>, next_cursor: Option<String>) -> Result<Response, Problem> {
    view::ok(&Page { items, next_cursor })
}

/// A page of messages, each written as `write` does: they are read as they are kept, and not taken apart on the way.
pub(crate) fn lines(found: &pombo_store::Page, write: impl Fn(&mut Vec<u8>, &Line)) -> Response {
    let mut document = Vec::with_capacity(640 * (found.lines.len() + 1));
    document.extend_from_slice(b"{\"items\":[");
    for (index, line) in found.lines.iter().enumerate() {
        if index > 0 {
            document.push(b',');
        }
        write(&mut document, line);
    }
    let next = found.next.map_or_else(|| "null".to_owned(), |key| format!("\"{}\"", before_cursor(key)));
    document.extend_from_slice(format!("],\"next_cursor\":{next}}}").as_bytes());
    view::answer(StatusCode::OK, document)
}

/// Where the next page of messages starts. Callers hand it back and look no further into it.
fn before_cursor(key: MessageKey) -> String {
    format!("before_{:016x}", key.0)
}

fn before(text: &str) -> Option<MessageKey> {
    let digits = text.strip_prefix("before_").filter(|digits| are_hex(digits, 16))?;
    i64::from_str_radix(digits, 16).ok().filter(|key| *key >= 0).map(MessageKey)
}

pub(crate) fn after_cursor(order: i64, id: &str) -> String {
    format!("after_{:016x}{}", order.cast_unsigned(), crate::key::hex(id.as_bytes()))
}

fn after(text: &str) -> Option<(i64, String)> {
    let digits = text.strip_prefix("after_").filter(|digits| digits.len() > 16 && digits.is_ascii())?;
    let (order, id) = digits.split_at(16);
    if !are_hex(order, 16) || !are_hex(id, id.len()) || id.len() % 2 != 0 {
        return None;
    }
    let bytes = (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).ok());
    let id = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
    Some((u64::from_str_radix(order, 16).ok()?.cast_signed(), id))
}

fn are_hex(digits: &str, length: usize) -> bool {
    digits.len() == length && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(crate) fn bad_cursor() -> Problem {
    Problem::new(
        Code::InvalidCursor,
        "this cursor was not given by this list",
        "hand back next_cursor as it came, or leave it out to start from the beginning",
    )
}

fn limit(text: &str) -> Result<usize, Wrong> {
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| {
        let hint = format!("{LIMIT_DEFAULT} if left out; use next_cursor for more");
        (format!("is not a number from 1 to {LIMIT_MAX}"), hint)
    })
}

/// A value that knows how to read itself, and what to say if it cannot: `reason; hint`.
pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, Wrong> {
    text.parse().map_err(|error: T::Err| {
        let said = error.to_string();
        match said.split_once("; ") {
            Some((reason, hint)) => (format!("is {reason}"), hint.to_owned()),
            None => ("is not a name".to_owned(), said),
        }
    })
}

/// `true` or `false`.
pub(crate) fn yes_or_no(text: &str) -> Result<bool, Wrong> {
    text.parse().map_err(|_| ("is not true or false".to_owned(), "write true, or leave it out".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_the_journey_and_others_are_refused() {
        for key in [0, 1, 1 << 40, i64::MAX] {
            assert_eq!(before(&before_cursor(MessageKey(key))), Some(MessageKey(key)));
        }
        let bad = [
            "",
            "x",
            "before_",
            "before_+000000000000001",
            "before_ffffffffffffffff",
            "before_0",
            "befere_é",
        ];
        for bad in bad {
            assert_eq!(before(bad), None, "{bad}");
        }
        for (order, id) in [(0, "a"), (i64::MIN, "é/ \n"), (i64::MAX, &*"x".repeat(200))] {
            assert_eq!(after(&after_cursor(order, id)), Some((order, id.to_owned())));
        }
        let bad =
            ["", "after_", "after_0000000000000000", "after_0000000000000000f", "after_0000000000000000ff"];
        for bad in bad {
            assert_eq!(after(bad), None, "{bad}");
        }
        assert_eq!(after("after_000000000000000é00"), None);
        assert_eq!(after("after_0000000000000000é0"), None);
    }

    #[test]
    fn everything_wrong_in_an_address_is_told_at_once() {
        let uri = "/v1/things?limit=0&colour=red&state=odd&empty=".parse().unwrap();
        let mut paging = Paging::read(&uri, &["state"]).unwrap();
        let state = paging.query.take("state", |_| Err::<(), _>(("is odd".to_owned(), "be even".to_owned())));
        assert_eq!(state, None);
        let problem = paging.query.end().unwrap_err();
        let fields: Vec<_> = problem.errors.iter().map(|error| error.field.as_ref()).collect();
        assert_eq!(fields, ["colour", "limit", "state"]);
        assert_eq!(problem.errors[0].hint, "there are state, limit, cursor");
    }
}
