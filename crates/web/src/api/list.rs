//! A page of messages, filtered.

use axum::response::Response;
use pombo_kernel::setup::EVENTS;
use pombo_store::Filter;

use super::page::{Paging, lines, yes_or_no};
use crate::auth::{Access, Role};
use crate::filter;
use crate::problem::Problem;
use crate::route::Call;
use crate::veil::{self, REVEAL, Seen};
use crate::view;

/// Messages that match every given filter, newest first.
///
/// A producer follows its own messages by reference; looking through everybody's takes another role.
pub(crate) async fn page(call: Call) -> Result<Response, Problem> {
    let mut paging = Paging::read(&call.head.uri, &[&filter::MESSAGES[..], &[REVEAL]].concat())?;
    let before = paging.before()?;
    let (tenant, within) = (call.caller.tenant.clone(), call.caller.channels.clone());
    let mut filter = Filter { tenant, within, ..Filter::default() };
    for name in filter::MESSAGES {
        paging.query.take(name, |value| filter::set(&mut filter, name, value));
    }
    let reveal = paging.query.take(REVEAL, yes_or_no);
    let filters = paging.query.filters();
    paging.query.end()?;
    let sight = veil::Sight::of(&call.door, &call.caller, reveal)?;
    if call.caller.role == Role::Producer && filter.reference.is_none() {
        let problem = call.caller.may(Access::Look).err().unwrap_or_else(Problem::internal);
        let hint = format!("ask for `?reference=…`, or {}", problem.hint);
        return Err(Problem { hint: hint.into(), ..problem });
    }
    // Events about messages are messages, too, and there are more of them: whoever wants to see them says so.
    if filter.channel.is_none() && filter.reference.is_none() && filter.recipient.is_none() {
        filter.without = EVENTS.parse().ok();
    }
    let setup = call.door.setup();
    let page = call.door.store().page(filter, before, paging.limit).await?;
    let seen = Seen { what: "messages", filters, count: Some(page.lines.len() as u64), ..Seen::default() };
    let veil = sight.seen(&call.door, &call.caller, seen).await?;
    Ok(lines(&page, |document, line| view::line(document, line, &setup, veil)))
}
