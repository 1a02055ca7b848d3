//! Filters by name, as callers write them: in an address, or in a document.

use std::collections::BTreeMap;

use pombo_kernel::delivery::Delivery;
use pombo_kernel::message::StateName;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::Operation;
use pombo_store::Filter;

use crate::api::page::{Wrong, parsed};
use crate::problem::{Code, FieldError};

/// The filters of messages.
pub(crate) const MESSAGES: [&str; 12] = led_by("state");

/// The filters of dead letters, which are all in one state.
pub(crate) const LETTERS: [&str; 12] = led_by("cause");

const SHARED: [&str; 11] = [
    "channel",
    "lane",
    "type",
    "template",
    "campaign",
    "recipient",
    "reference",
    "category",
    "delivery",
    "since",
    "until",
];

const fn led_by(first: &'static str) -> [&'static str; 12] {
    let mut all = [first; 12];
    let mut index = 0;
    while index < SHARED.len() {
        all[index + 1] = SHARED[index];
        index += 1;
    }
    all
}

/// Sets the filter of that name, or says what is wrong with it.
pub(crate) fn set(filter: &mut Filter, name: &str, value: &str) -> Result<(), Wrong> {
    match name {
        "state" => filter.state = Some(one_of(value, StateName::ALL, StateName::as_str, "a state")?),
        "channel" => filter.channel = Some(parsed(value)?),
        "lane" => filter.lane = Some(parsed(value)?),
        "campaign" => filter.campaign = Some(parsed(value)?),
        "type" => filter.kind = Some(short(value)?),
        "template" => filter.template = Some(short(value)?),
        "recipient" => filter.recipient = Some(short(value)?),
        "reference" => filter.reference = Some(short(value)?),
        "category" => filter.category = Some(short(value)?),
        "delivery" => {
            filter.delivery =
                Some(one_of(value, Delivery::ALL, Delivery::as_str, "anything that providers report")?);
        }
        "cause" => filter.cause = Some(parsed(value)?),
        "since" => filter.since = Some(parsed(value)?),
        "until" => filter.until = Some(parsed(value)?),
        _ => return Err(("is not a filter".to_owned(), format!("there are {}", LETTERS.join(", ")))),
    }
    Ok(())
}

/// Whether dead letters can be filtered by that.
pub(crate) fn known(name: &str) -> Result<(), Wrong> {
    match LETTERS.contains(&name) {
        true => Ok(()),
        false => Err(("is not a filter".to_owned(), format!("there are {}", LETTERS.join(", ")))),
    }
}

/// What is wrong with one of the filters in a document.
pub(crate) fn wrong(name: &str, (reason, hint): Wrong) -> FieldError {
    let field = format!("filter.{}", name.chars().take(64).collect::<String>()).into();
    FieldError { code: Code::InvalidField, field, reason, hint }
}

/// The dead letters of a tenant that match what is written; every problem at once.
pub(crate) fn letters(
    tenant: &Tenant,
    written: &BTreeMap<String, String>,
) -> Result<Filter, Vec<FieldError>> {
    let mut filter = Filter { tenant: tenant.clone(), state: Some(StateName::Failed), ..Filter::default() };
    let mut errors = Vec::new();
    for (name, value) in written {
        let read = known(name).and_then(|()| set(&mut filter, name, value));
        if let (Err(reason), true) = (read, errors.len() < 20) {
            errors.push(wrong(name, reason));
        }
    }
    if errors.is_empty() { Ok(filter) } else { Err(errors) }
}

/// The dead letters that an operation is about; nothing if it has a filter that this version does not know.
pub fn of_operation(tenant: &Tenant, operation: &Operation) -> Option<Filter> {
    let within = operation.within.clone().map(Into::into);
    letters(tenant, &operation.filter).ok().map(|filter| Filter { within, ..filter })
}

pub(crate) fn one_of<T: Copy>(
    text: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    what: &str,
) -> Result<T, Wrong> {
    all.iter().copied().find(|it| name(*it) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|it| name(*it)).collect();
        (format!("is not {what}"), format!("one of {}", names.join(", ")))
    })
}

fn short(text: &str) -> Result<String, Wrong> {
    match text.len() <= 4096 {
        true => Ok(text.to_owned()),
        false => Err(("is longer than 4096 bytes".to_owned(), "give the exact value to look for".to_owned())),
    }
}
