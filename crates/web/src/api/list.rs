//! A page of messages, filtered.

use axum::extract::Query;
use axum::response::Response;
use http::{StatusCode, Uri};
use pombo_kernel::delivery::Delivery;
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::StateName;
use pombo_store::Filter;

use crate::auth::{Access, Caller, Role};
use crate::problem::{Code, FieldError, Problem};
use crate::route::Call;
use crate::view;

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 500;

/// Messages that match every given filter, newest first.
///
/// A producer follows its own messages by reference; looking through everybody's takes another role.
pub(crate) async fn page(call: Call) -> Result<Response, Problem> {
    let ask = Ask::read(&call.head.uri, &call.caller)?;
    if call.caller.role == Role::Producer && ask.filter.reference.is_none() {
        let problem = call.caller.may(Access::Look).err().unwrap_or_else(Problem::internal);
        let hint = format!("ask for `?reference=…`, or {}", problem.hint);
        return Err(Problem { hint: hint.into(), ..problem });
    }
    let setup = call.door.setup();
    let page = call.door.store().page(ask.filter, ask.before, ask.limit).await?;
    let mut document = Vec::with_capacity(512 * (page.lines.len() + 1));
    document.extend_from_slice(b"{\"items\":[");
    for (index, line) in page.lines.iter().enumerate() {
        if index > 0 {
            document.push(b',');
        }
        view::line(&mut document, line, &setup);
    }
    let next = page.next.map_or_else(|| "null".to_owned(), |key| format!("\"{}\"", cursor(key)));
    document.extend_from_slice(format!("],\"next_cursor\":{next}}}").as_bytes());
    Ok(view::answer(StatusCode::OK, document))
}

struct Ask {
    filter: Filter,
    before: Option<MessageKey>,
    limit: usize,
}

impl Ask {
    fn read(uri: &Uri, caller: &Caller) -> Result<Ask, Problem> {
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Err(Problem::field("query", "cannot be read", "percent-encode the values, in UTF-8"));
        };
        let mut filter = Filter { tenant: caller.tenant.clone(), ..Filter::default() };
        let mut ask = Ask { filter: Filter::default(), before: None, limit: LIMIT_DEFAULT };
        let mut errors = Vec::new();
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            let read = match name.as_str() {
                "state" => state(&value).map(|state| filter.state = Some(state)),
                "channel" => parsed(&value).map(|channel| filter.channel = Some(channel)),
                "lane" => parsed(&value).map(|lane| filter.lane = Some(lane)),
                "campaign" => parsed(&value).map(|campaign| filter.campaign = Some(campaign)),
                "type" => short(value).map(|kind| filter.kind = Some(kind)),
                "template" => short(value).map(|template| filter.template = Some(template)),
                "recipient" => short(value).map(|recipient| filter.recipient = Some(recipient)),
                "reference" => short(value).map(|reference| filter.reference = Some(reference)),
                "category" => short(value).map(|category| filter.category = Some(category)),
                "delivery" => delivery(&value).map(|delivery| filter.delivery = Some(delivery)),
                "since" => parsed(&value).map(|since| filter.since = Some(since)),
                "until" => parsed(&value).map(|until| filter.until = Some(until)),
                "limit" => limit(&value).map(|limit| ask.limit = limit),
                "cursor" => {
                    ask.before = Some(read_cursor(&value)?);
                    Ok(())
                }
                _ => Err(("is not a filter".to_owned(), FILTERS.to_owned())),
            };
            if let (Err((reason, hint)), true) = (read, errors.len() < 20) {
                let field = name.chars().take(64).collect::<String>().into();
                errors.push(FieldError { code: Code::InvalidField, field, reason, hint });
            }
        }
        match errors.is_empty() {
            true => Ok(Ask { filter, ..ask }),
            false => Err(Problem::fields(errors)),
        }
    }
}

const FILTERS: &str = "there are state, channel, lane, type, template, campaign, recipient, reference, category, \
                       delivery, since, until, and limit and cursor";

/// A reason and a hint.
type Wrong = (String, String);

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Wrong> {
    text.parse().map_err(|error: T::Err| {
        let said = error.to_string();
        match said.split_once("; ") {
            Some((reason, hint)) => (format!("is {reason}"), hint.to_owned()),
            None => ("is not a name".to_owned(), said),
        }
    })
}

fn state(text: &str) -> Result<StateName, Wrong> {
    let found = StateName::ALL.iter().copied().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = StateName::ALL.iter().map(|state| state.as_str()).collect();
        ("is not a state".to_owned(), format!("one of {}", names.join(", ")))
    })
}

fn delivery(text: &str) -> Result<Delivery, Wrong> {
    let found = Delivery::ALL.iter().copied().find(|delivery| delivery.as_str() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = Delivery::ALL.iter().map(|delivery| delivery.as_str()).collect();
        ("is nothing that providers report".to_owned(), format!("one of {}", names.join(", ")))
    })
}

fn short(text: String) -> Result<String, Wrong> {
    match text.len() <= 4096 {
        true => Ok(text),
        false => Err(("is longer than 4096 bytes".to_owned(), "give the exact value to look for".to_owned())),
    }
}

fn limit(text: &str) -> Result<usize, Wrong> {
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| {
        let hint = format!("{LIMIT_DEFAULT} if left out; use next_cursor for more");
        (format!("is not a number from 1 to {LIMIT_MAX}"), hint)
    })
}

/// Where the next page starts. Callers hand it back and look no further into it.
fn cursor(key: MessageKey) -> String {
    format!("before_{:016x}", key.0)
}

fn read_cursor(text: &str) -> Result<MessageKey, Problem> {
    let digits = text
        .strip_prefix("before_")
        .filter(|digits| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    let key = digits.and_then(|digits| i64::from_str_radix(digits, 16).ok()).filter(|key| *key >= 0);
    key.map(MessageKey).ok_or_else(|| {
        Problem::new(
            Code::InvalidCursor,
            "this cursor was not given by a list of messages",
            "hand back next_cursor as it came, or leave it out to start with the newest",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_the_journey_and_others_are_refused() {
        for key in [0, 1, 1 << 40, i64::MAX] {
            assert_eq!(read_cursor(&cursor(MessageKey(key))), Ok(MessageKey(key)));
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
            assert_eq!(read_cursor(bad).unwrap_err().code, Code::InvalidCursor, "{bad}");
        }
    }
}
