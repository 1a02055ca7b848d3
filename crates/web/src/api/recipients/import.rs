//! A list that comes in, as a stream of any length: read, judged and stored a piece at a time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::response::Response;
use bytes::Bytes;
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::recipient::Listed;
use pombo_kernel::listing::{Ask, Reader, Terms};
use pombo_kernel::name::{CampaignName, ChannelName};
use pombo_kernel::template::Compiled;
use pombo_store::StoreError;
use pombo_store::roster::{Enlist, Enlisted, NotDone};
use pombo_store::shelf::Doc;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::api::campaigns::{find, missing, wrong_state};
use crate::api::listing;
use crate::api::page::Query;
use crate::auth::Caller;
use crate::campaign::{self, CampaignView};
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{Door, body, view};

/// Lines, or bytes of them, that are handed to the store together.
const GROUP_LINES: usize = 1_000;
const GROUP_BYTES: usize = 1024 * 1024;
/// Bytes that are read at one go: what comes in one piece must not become a hundred thousand lines at once.
const READ_BYTES: usize = 16 * 1024;
/// Lines that are told of; others are counted, and the list shows them.
const PROBLEMS_TOLD: usize = 100;
/// A store that is overloaded slows a list down for this long before it is refused.
const OVERLOAD_TRIES: u32 = 100;
const OVERLOAD_WAIT: Duration = Duration::from_millis(100);

/// Whom to write to. The schema of the request in JSON; what is read is judged line by line.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
pub(crate) enum RecipientsRequest {
    List(Vec<RecipientItem>),
    Object { recipients: Vec<RecipientItem> },
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
pub(crate) enum RecipientItem {
    /// The address alone.
    Address(String),
    Person(RecipientRequest),
}

/// Somebody to write to. Whatever stands beside `to` is what the template says to this one alone.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct RecipientRequest {
    /// The address, as people write it.
    to: String,
    /// Another place for what the template says to this one alone.
    variables: Option<Map<String, Value>>,
    #[schemars(flatten)]
    more: Map<String, Value>,
}

/// What became of the lines.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecipientsAdded")]
pub(crate) struct ImportView {
    added: u64,
    /// Those who are on the list already, or stood earlier in this one.
    duplicates: u64,
    /// Lines by which nobody can be written to. They are kept on the list, with the reason, each of them once.
    invalid: u64,
    /// What is wrong with the first hundred of them.
    problems: Vec<LineProblem>,
    campaign: CampaignView,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecipientProblem")]
struct LineProblem {
    /// From 1 on, as editors count; of a JSON list, the place in it.
    line: u64,
    /// What stood there as an address.
    to: String,
    reason: String,
}

/// Adds everybody on a list to a campaign's.
///
/// Lines are stored as they come in: if the list breaks off, what came before counts, and it can be sent again, since
/// whoever is there already is a duplicate.
pub(crate) async fn import(call: Call) -> Result<Response, Problem> {
    if call.door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let Call { door, caller, head, body, name } = call;
    let mut query = Query::read(&head.uri, &[&listing::OPTIONS[..], &[listing::COLUMNS]].concat())?;
    let ask = listing::ask(&head.headers, &mut query)?;
    let ask = Ask { columns: listing::columns(&mut query), ..ask };
    query.end()?;
    let (doc, campaign) = find(&door, &caller, &name).await?;
    campaign.can_enlist().map_err(|_| wrong_state(&campaign, "given recipients"))?;
    let terms = terms(&door, &doc, &campaign).await?;
    let Ok(_place) = door.0.streams.clone().try_acquire_owned() else {
        let hint = "send it again after the time in Retry-After";
        return Err(Problem::new(Code::Overloaded, "too many streams are open; nothing was stored", hint));
    };
    let channel = campaign.channel;
    let campaign = doc.id.parse().map_err(|_| Problem::internal())?;
    let mut import = Import { door, caller, campaign, channel, counts: [0; 3], problems: Vec::new() };
    let reader = Reader::new(ask, terms);
    let done = import.take(reader, body.into_data_stream()).await;
    done.map_err(|problem| import.broken_off(problem))?;
    let Import { door, caller, counts: [added, duplicates, invalid], problems, .. } = import;
    tracing::info!(
        campaign = doc.id,
        added,
        duplicates,
        invalid,
        key_id = caller.key_id,
        "recipients were listed"
    );
    let (doc, campaign) = find(&door, &caller, &name).await?;
    let campaign = campaign::seen(door.store(), &door.setup(), &doc.id, &campaign, door.now()).await?;
    view::ok(&ImportView { added, duplicates, invalid, problems, campaign })
}

/// What lines of a campaign's list are judged by.
pub(crate) async fn terms(door: &Door, doc: &Doc, campaign: &Campaign) -> Result<Terms, Problem> {
    let setup = door.setup();
    let kind = setup.channel_named(campaign.channel.as_str(), &doc.tenant).map(|channel| channel.kind);
    let kind = kind.map_err(|problem| Problem::fields(vec![problem.into()]))?;
    let (tenant, name) = (doc.tenant.clone(), campaign.template.clone());
    let template = door.store().template(tenant, name, Some(campaign.template_version)).await?;
    let template = template.and_then(|it| Compiled::new(it.template).ok()).ok_or_else(|| {
        let detail = format!("template `{}` cannot be used", campaign.template);
        Problem::new(Code::TemplateError, detail, "put it again, and change the campaign to the new version")
    })?;
    Ok(Terms { kind, template, common: campaign.payload.clone() })
}

struct Import {
    door: Door,
    caller: Arc<Caller>,
    campaign: CampaignName,
    channel: ChannelName,
    /// Added, duplicates, invalid.
    counts: [u64; 3],
    problems: Vec<LineProblem>,
}

impl Import {
    async fn take(&mut self, mut reader: Reader, mut stream: BodyDataStream) -> Result<(), Problem> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        loop {
            let piece = timeout(self.door.0.patience.stream, body::piece(&mut stream)).await;
            let piece = piece.map_err(|_| body::too_slow())?.map_err(listing::broken_off)?;
            if self.door.is_closing() {
                return Err(Problem::shutting_down());
            }
            let Some(mut piece) = piece else { break };
            while !piece.is_empty() {
                let part = piece.split_to(piece.len().min(READ_BYTES));
                bytes += part.len();
                (reader, lines) = read(reader, lines, Some(part)).await?;
                while lines.len() >= GROUP_LINES || bytes >= GROUP_BYTES {
                    let rest = lines.split_off(lines.len().min(GROUP_LINES));
                    self.store(std::mem::replace(&mut lines, rest)).await?;
                    bytes = 0;
                }
            }
        }
        (_, lines) = read(reader, lines, None).await?;
        self.store(lines).await
    }

    async fn store(&mut self, lines: Vec<Listed>) -> Result<(), Problem> {
        let Import { door, caller, campaign, channel, .. } = self;
        // A key that was taken away meanwhile, or is for other channels by now, ends the list.
        *caller = door.still_knows(caller).await?;
        caller.may_use(channel)?;
        if lines.is_empty() {
            return Ok(());
        }
        let (tenant, by) = (caller.tenant.clone(), caller.actor());
        let wish = Enlist { tenant, campaign: campaign.clone(), lines, by };
        let mut tries = 0;
        let became = loop {
            tries += 1;
            match door.store().enlist(wish.clone()).await {
                // The caller can wait: what comes next stays in its own hands meanwhile.
                Err(StoreError::Overloaded) if tries < OVERLOAD_TRIES && !door.is_closing() => {
                    tokio::time::sleep(OVERLOAD_WAIT).await;
                }
                became => break became?,
            }
        };
        let became = match became {
            Ok(became) => became,
            Err(NotDone::NotFound) => return Err(missing()),
            Err(NotDone::Refused(_)) => {
                let (_, now) = find(door, caller, campaign.as_str()).await?;
                return Err(wrong_state(&now, "given recipients"));
            }
        };
        for (line, what) in wish.lines.into_iter().zip(became) {
            self.counts[match what {
                Enlisted::Added => 0,
                Enlisted::Duplicate if line.of.is_ok() => 1,
                // Also one that stands there already: whoever sends a list is told all that is wrong with it.
                Enlisted::Duplicate | Enlisted::Invalid => 2,
            }] += 1;
            if let Err(refusal) = line.of
                && self.problems.len() < PROBLEMS_TOLD
            {
                let (to, reason) = (refusal.to, refusal.reason);
                self.problems.push(LineProblem { line: line.line, to, reason });
            }
        }
        Ok(())
    }

    /// What is wrong, and how far it came.
    fn broken_off(&self, problem: Problem) -> Problem {
        let [added, duplicates, invalid] = self.counts;
        if self.counts == [0; 3] {
            return problem;
        }
        let detail = format!(
            "{}; the lines before it are stored: {added} added, {duplicates} duplicates, {invalid} invalid",
            problem.detail
        );
        let hint = format!("{}; whoever is on the list already is not added twice", problem.hint);
        Problem { detail: detail.into(), hint: hint.into(), ..problem }
    }
}

/// Reads a piece, or the end, where it holds up nobody: templates may take their time.
async fn read(
    mut reader: Reader,
    mut lines: Vec<Listed>,
    piece: Option<Bytes>,
) -> Result<(Reader, Vec<Listed>), Problem> {
    let reading = spawn_blocking(move || {
        let read = match piece {
            Some(piece) => reader.push(&piece, &mut lines),
            None => reader.finish(&mut lines),
        };
        (reader, lines, read)
    });
    let (reader, lines, read) = reading.await.map_err(|_| Problem::internal())?;
    read.map_err(listing::unreadable)?;
    Ok((reader, lines))
}
