//! The recipients of a campaign: how a list comes in, and what became of everybody on it.

mod import;

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::response::Response;
use futures_util::stream;
use http::{HeaderMap, header};
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::classify::in_words;
use pombo_kernel::delivery::Delivery;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{Body, FailureReason, State};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::suppression::Reason;
use pombo_kernel::time::Time;
use pombo_store::Line;
use pombo_store::roster::{Recipient, Roster};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use self::import::{ImportView, RecipientsRequest, import, terms};
use super::campaigns::find;
use super::csv::{self, inert, quoted};
use super::page::{Paging, after_cursor, bad_cursor, page, yes_or_no};
use crate::problem::Problem;
use crate::route::Call;
use crate::veil::{REVEAL, Seen, Sight, Veil};
use crate::view::{LastError, Members};
use crate::{Door, filter, suppression};

/// Recipients that a report reads together.
const AT_ONCE: usize = 500;

/// Somebody on a campaign's list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recipient")]
pub(crate) struct RecipientView<'a> {
    /// The place on the list, from 1 on.
    number: u64,
    /// Where it stood in what was read.
    line: u64,
    /// In one form; of a line by which nobody can be written to, what stood there.
    to: Cow<'a, str>,
    state: Standing,
    /// Why this one was not reached, or not yet, in plain words.
    reason: Option<String>,
    /// By which reason the suppression list has this one by now, whose message failed: no retry writes to them.
    suppressed: Option<Reason>,
    /// Attempts of the message, in all its rounds.
    attempts: Option<u32>,
    #[schemars(with = "Option<String>")]
    message_id: Option<MessageId>,
    /// What the template says to this one alone.
    #[schemars(with = "Map<String, Value>")]
    variables: Members<'a>,
    /// What went wrong at the last attempt that failed.
    last_error: Option<LastError<'a>>,
    sent_at: Option<Time>,
    /// How far the provider says that the message has come since it was sent.
    #[schemars(with = "Option<String>")]
    delivery: Option<Delivery>,
}

/// Everybody on a campaign's list, in its order: a page, or all of it as CSV.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let mut paging = Paging::read(&call.head.uri, &["state", "format", REVEAL])?;
    let state = paging.query.take("state", |text| {
        filter::one_of(text, Standing::ALL, Standing::as_str, "a state of a recipient")
    });
    let format = paging.query.take("format", |text| match text {
        "csv" => Ok(true),
        "json" => Ok(false),
        _ => Err(("is not a format".to_owned(), "json or csv".to_owned())),
    });
    let (doc, campaign) = find(&call.door, &call.caller, &call.name).await?;
    let after = paging.after()?;
    let reveal = paging.query.take(REVEAL, yes_or_no);
    let Paging { limit, query, .. } = paging;
    let filters = query.filters();
    query.end()?;
    let (door, caller) = (&call.door, &call.caller);
    let sight = Sight::of(door, caller, reveal)?;
    let list = List::of(door, doc.tenant, &doc.id, &campaign, state)?;
    let seen = Seen { what: "recipients", campaign: Some(&doc.id), filters, ..Seen::default() };
    if format.unwrap_or_else(|| wants_csv(&call.head.headers)) {
        let count = Some(campaign.roll.recipients).filter(|_| state.is_none());
        let veil = sight.seen(door, caller, Seen { count, ..seen }).await?;
        return list.report(veil).await;
    }
    let after = match after {
        None => 0,
        Some((number, of)) if of == doc.id => u64::try_from(number).map_err(|_| bad_cursor())?,
        Some(_) => return Err(bad_cursor()),
    };
    let mut rows = list.some(after, limit + 1).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| more).map(|row| row.recipient.number);
    let next = last.and_then(|last| i64::try_from(last).ok()).map(|last| after_cursor(last, &doc.id));
    let veil = sight.seen(door, caller, Seen { count: Some(rows.len() as u64), ..seen }).await?;
    page(rows.iter().map(|row| row.view(veil)).collect(), next)
}

fn wants_csv(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    // Whoever names both gets what comes first.
    let named =
        kinds.find(|kind| ["text/csv", "application/json"].iter().any(|it| kind.eq_ignore_ascii_case(it)));
    named.is_some_and(|kind| kind.eq_ignore_ascii_case("text/csv"))
}

/// Those of a campaign's list who stand where they are looked for.
struct List {
    door: Door,
    tenant: Tenant,
    campaign: CampaignName,
    /// What is looked for in the store; everything if there is none.
    standings: Option<Vec<Standing>>,
    /// Nobody is written to any more, and whoever had no message yet is cancelled.
    over: bool,
    /// Of its channel, if that is still there.
    kind: Option<ChannelKind>,
}

impl List {
    fn of(
        door: &Door,
        tenant: Tenant,
        id: &str,
        campaign: &Campaign,
        state: Option<Standing>,
    ) -> Result<List, Problem> {
        // A cancellation counts those who had no message, and writes nothing to each of them.
        let over = campaign.roll.pending == 0 && campaign.roll.cancelled > 0;
        let standings = state.map(|state| match state {
            Standing::Pending if over => Vec::new(),
            Standing::Cancelled if over => vec![Standing::Cancelled, Standing::Pending],
            state => vec![state],
        });
        let kind = door.setup().channels.get(&campaign.channel).map(|channel| channel.kind);
        let campaign = id.parse().map_err(|_| Problem::internal())?;
        Ok(List { door: door.clone(), tenant, campaign, standings, over, kind })
    }

    /// The next ones after that number, each with its message.
    async fn some(&self, after: u64, limit: usize) -> Result<Vec<Row>, Problem> {
        let store = self.door.store();
        let wanted = |standing| Roster {
            tenant: self.tenant.clone(),
            campaign: self.campaign.clone(),
            standing,
            after,
            limit,
        };
        let mut found = match &self.standings {
            None => store.recipients(wanted(None)).await?,
            Some(standings) => {
                let mut found = Vec::new();
                for standing in standings {
                    found.extend(store.recipients(wanted(Some(*standing))).await?);
                }
                found.sort_unstable_by_key(|it| it.number);
                found
            }
        };
        found.truncate(limit);
        let ids: Vec<MessageId> = found.iter().filter_map(|it| it.message).collect();
        let lines = if ids.is_empty() { Vec::new() } else { store.lines(ids).await? };
        let mut lines: BTreeMap<MessageId, Line> =
            lines.into_iter().map(|line| (line.message.id, line)).collect();
        let rows = found.into_iter().map(|mut recipient| {
            if self.over && recipient.standing == Standing::Pending {
                recipient.standing = Standing::Cancelled;
            }
            let line = recipient.message.and_then(|id| lines.remove(&id));
            let attempts = line.as_ref().map(|line| u32::from(line.progress.attempts));
            Row { recipient, line, kind: self.kind, attempts, suppressed: None }
        });
        let mut rows: Vec<Row> = rows.collect();
        for row in &mut rows {
            self.complete(row).await?;
        }
        Ok(rows)
    }

    /// Adds what the list and the messages' last words do not say.
    async fn complete(&self, row: &mut Row) -> Result<(), Problem> {
        let store = self.door.store();
        let Some(line) = &row.line else { return Ok(()) };
        if line.progress.round > 0
            && let Some(story) = store.story(self.tenant.clone(), line.message.id).await?
        {
            // Those that do not count have the number of the next one that does.
            let mut rounds = BTreeMap::new();
            for attempt in story.attempts.iter().filter(|it| it.round < line.progress.round) {
                let last: &mut u16 = rounds.entry(attempt.round).or_default();
                *last = attempt.number.max(*last);
            }
            row.attempts = row.attempts.map(|now| now + rounds.into_values().map(u32::from).sum::<u32>());
        }
        if row.recipient.standing == Standing::Failed
            && let Some(kind) = self.kind
        {
            let listed = suppression::of(store, &self.tenant, kind, &row.recipient.to).await?;
            row.suppressed = listed.map(|entry| entry.reason);
        }
        Ok(())
    }

    /// All of them as CSV. Whatever is wrong with the store is told before the first byte.
    async fn report(self, veil: Veil) -> Result<Response, Problem> {
        const HEAD: &str =
            "number,line,to,state,reason,attempts,sent_at,delivery,message_id,provider_text\r\n";
        let first = self.some(0, AT_ONCE).await?;
        let rest = stream::unfold(Some((self, Ok(first))), move |reading| async move {
            let (list, rows) = reading?;
            let rows: Vec<Row> = match rows {
                Ok(rows) => rows,
                Err(problem) => return Some((Err(problem), None)),
            };
            let text: String = rows.iter().map(|row| row.csv(veil)).collect();
            let last = rows.last().filter(|_| rows.len() == AT_ONCE).map(|row| row.recipient.number);
            let next = match last {
                None => None,
                Some(after) => {
                    let rows = list.some(after, AT_ONCE).await;
                    Some((list, rows))
                }
            };
            Some((Ok(text), next))
        });
        Ok(csv::file("recipients.csv", HEAD, rest))
    }
}

/// A recipient, and the message that was made, if it is still there.
struct Row {
    recipient: Recipient,
    line: Option<Line>,
    kind: Option<ChannelKind>,
    attempts: Option<u32>,
    suppressed: Option<Reason>,
}

impl Row {
    fn sent_at(&self) -> Option<Time> {
        match self.line.as_ref().map(|line| &line.state) {
            Some(State::Sent { at, .. }) => Some(*at),
            _ => None,
        }
    }

    fn view(&self, veil: Veil) -> RecipientView<'_> {
        let Recipient { number, line, to, payload, standing, message, .. } = &self.recipient;
        let failure =
            self.line.as_ref().and_then(|line| Some((line.last_failure.as_ref()?, &line.message.body)));
        RecipientView {
            number: *number,
            line: *line,
            to: veil.recipient(self.kind, to),
            state: *standing,
            reason: self.reason(veil),
            suppressed: self.suppressed,
            attempts: self.attempts,
            message_id: *message,
            variables: Members(veil.document(payload.as_ref())),
            last_error: failure.map(|(failure, said)| LastError::of(failure, said, veil)),
            sent_at: self.sent_at(),
            delivery: self.delivery(),
        }
    }

    fn delivery(&self) -> Option<Delivery> {
        self.line.as_ref().and_then(|line| line.delivery.as_ref()).map(|word| word.state)
    }

    /// Why this one was not reached, or not yet, in plain words.
    fn reason(&self, veil: Veil) -> Option<String> {
        if let Some(reason) = &self.recipient.reason {
            // It may repeat what stands on the line.
            let Recipient { to, payload, standing, .. } = &self.recipient;
            let said = Body { to: to.clone(), payload: payload.clone(), ..Body::default() };
            return Some(match standing {
                Standing::Suppressed => format!("on the suppression list ({reason})"),
                _ => veil.about(reason, &said).into_owned(),
            });
        }
        let line = self.line.as_ref()?;
        let failure = line.last_failure.as_ref();
        let failed = failure.map(|it| in_words(self.kind.unwrap_or(ChannelKind::Null), &it.category));
        let ended = match line.state {
            State::Sent { .. } | State::Cancelled { .. } => return None,
            State::Failed { reason, .. } => match reason {
                FailureReason::PermanentError => None,
                FailureReason::MaxRetriesExceeded => Some("all its attempts failed"),
                FailureReason::Expired => Some("it could not be sent in time"),
                FailureReason::OutcomeUnknown => Some("nobody knows whether it was sent"),
            },
            _ => None,
        };
        match (ended, failed) {
            (Some(ended), Some(failed)) => Some(format!("{ended}: {failed}")),
            (ended, failed) => failed.or(ended.map(str::to_owned)),
        }
    }

    fn csv(&self, veil: Veil) -> String {
        let Recipient { number, line, to, standing, message, .. } = &self.recipient;
        let message_line = self.line.as_ref();
        let sent = self.sent_at();
        let failure = message_line.and_then(|line| line.last_failure.as_ref()).filter(|_| sent.is_none());
        let said = message_line.map(|line| &line.message.body);
        let words = failure.zip(said).map(|(failure, said)| veil.about(&failure.text, said));
        let cells = [
            number.to_string(),
            line.to_string(),
            inert(&veil.recipient(self.kind, to)).into_owned(),
            standing.to_string(),
            inert(&self.reason(veil).unwrap_or_default()).into_owned(),
            self.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
            sent.map(|at| at.to_string()).unwrap_or_default(),
            self.delivery().map(|state| state.to_string()).unwrap_or_default(),
            message.map(|id| quoted(&id.to_string()).into_owned()).unwrap_or_default(),
            inert(&words.unwrap_or_default()).into_owned(),
        ];
        format!("{}\r\n", cells.join(","))
    }
}
