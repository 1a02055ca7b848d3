//! Making a campaign from a list, so that nothing half-made stays behind.

use clap::Args;
use http::Method;
use pombo_kernel::time::{Span, Time};
use serde_json::{Value, json};

use super::lists::{self, Failed, Source};
use super::{Pace, act, may_start, next, now, path, said, upload, view};
use crate::cli::operations::{number, word};
use crate::cli::out;
use crate::cli::templates::Filling;
use crate::cli::{Shared, Trouble, when};
use crate::client::{Client, ClientError, Payload};

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What people call it
    #[arg(long)]
    name: String,
    /// The channel that it goes through
    #[arg(long)]
    channel: String,
    /// The template that it says; its latest version is kept for the whole campaign
    #[arg(long)]
    template: String,
    #[command(flatten)]
    people: lists::People,
    #[command(flatten)]
    filling: Filling,
    #[command(flatten)]
    pace: Pace,
    /// The lane that works on it [default: that of the type send_bulk_messages]
    #[arg(long)]
    lane: Option<String>,
    /// Give a message up that is still unsent so long after its turn came, for example 2h
    #[arg(long, value_name = "SPAN")]
    expires_after: Option<String>,
    /// An id of your own for this request, so that it makes one campaign however often it is sent
    #[arg(long, value_name = "ID")]
    idempotency_key: Option<String>,
    /// Start it as soon as its list is there
    #[arg(long, conflicts_with = "schedule")]
    start: bool,
    /// Start it then, for example '2026-12-01 09:00'
    #[arg(long, value_name = "TIME", value_parser = when::typed)]
    schedule: Option<Time>,
    /// Do not ask before it starts
    #[arg(long, short)]
    yes: bool,
}

/// A time this little in the past is now, for the server as well.
const PAST_ALLOWANCE: Span = Span::from_mins(1);

pub(super) async fn create(client: &Client, args: Create, shared: &Shared) -> Result<(), Trouble> {
    let list = args.people.list()?;
    if list.is_none() && (args.start || args.schedule.is_some()) {
        return Err(Trouble::usage("a campaign without a list cannot be started")
            .hint("name a file, for example --csv people.csv"));
    }
    if let Some(at) = args.schedule.filter(|at| *at + PAST_ALLOWANCE < now()) {
        return Err(Trouble::usage(format!("{at} is in the past; it is now {}", now()))
            .hint("nothing was created; give a time to come, or --start"));
    }
    // Whatever is wrong with the file as a whole is said before anything is made of it.
    let payload = if args.filling.is_empty() { Value::Null } else { args.filling.payload()? };
    if let Some(list) = &list {
        list.check(client, &args.channel, &args.template, &payload).await?;
    }
    let mut wish = args.pace.document(&Value::Null);
    wish.extend(said([
        ("name", json!(args.name)),
        ("channel", json!(args.channel)),
        ("template", json!(args.template)),
        ("payload", payload),
        ("lane", json!(args.lane)),
        ("expires_after", json!(args.expires_after)),
    ]));
    if let (Some(list), Some(_)) = (&list, &args.idempotency_key) {
        wish.insert("list_digest".to_owned(), json!(list.digest()?));
    }
    let payload =
        Payload { idempotency_key: args.idempotency_key.clone(), ..Payload::json(&Value::Object(wish)) };
    let made = client.post_once("/v1/campaigns", payload).await;
    let (mut campaign, replayed) = made.map_err(another_request)?;
    let id = word(&campaign, "id").to_owned();
    let mut answer = json!({"added": 0, "duplicates": 0, "invalid": 0, "problems": []});
    if replayed {
        out::note(format!("{id} was made before by this key"));
        if !matches!(word(&campaign, "state"), "draft" | "scheduled") {
            // Its list is what it was, and it was started: nothing is left to repeat.
            answer["campaign"] = campaign;
            return created(client, &answer, false, shared).await;
        }
    }
    let listed = list.is_some();
    if let Some(list) = list {
        answer = filled(client, &id, !replayed, list, shared).await?;
        campaign = answer["campaign"].take();
    }
    let stays = |trouble: Trouble| match shared.json {
        true => trouble,
        false => {
            out::note(format!("{id} is a draft, with its list"));
            trouble
        }
    };
    if let Some(at) = args.schedule {
        let done = act(client, &id, "schedule", json!({"at": at})).await;
        campaign = done.map_err(|error| stays(error.into()))?;
    } else if args.start {
        if !args.yes && !may_start(client, &id).await.map_err(stays)? {
            out::note("it was not started");
        } else {
            let done = act(client, &id, "start", json!({})).await;
            campaign = done.map_err(|error| stays(error.into()))?;
        }
    }
    answer["campaign"] = campaign;
    created(client, &answer, listed, shared).await
}

/// What came of making a campaign.
async fn created(client: &Client, answer: &Value, listed: bool, shared: &Shared) -> Result<(), Trouble> {
    if listed {
        view::listed(answer, shared);
    } else if shared.json {
        out::document(answer);
    } else {
        out::line(view::standing(&answer["campaign"], now()));
    }
    match shared.json {
        true => Ok(()),
        false => next(client, &answer["campaign"]).await,
    }
}

/// A key that made another campaign, or this one with another list: nothing is added to that one in silence.
fn another_request(error: ClientError) -> Trouble {
    let is_conflict =
        matches!(&error, ClientError::Refused(refusal) if refusal.code == "IDEMPOTENCY_CONFLICT");
    let trouble = Trouble::from(error);
    match is_conflict {
        true => trouble.hint(
            "nothing was changed: a repeat is the same command with the same list. Take another key for another \
             campaign, or add people to that one with `pombo campaigns add ID FILE`",
        ),
        false => trouble,
    }
}

/// The list of a campaign. If the list is refused, so is a campaign that was just made for it; one that was there
/// before, or a list that fails for another reason, leaves it as it is.
async fn filled(
    client: &Client,
    id: &str,
    is_new: bool,
    list: Source,
    shared: &Shared,
) -> Result<Value, Trouble> {
    let file = list.name().to_owned();
    let trouble = match upload(client, id, list).await {
        Ok(told) if number(&told, "added") + number(&told, "duplicates") > 0 => return Ok(told),
        Ok(told) => {
            if !shared.json {
                view::problems(&told);
            }
            Trouble::new("the list holds nobody who can be written to", "NO_RECIPIENTS")
                .why(format!("{}, none with a good address", view::count(number(&told, "invalid"), "line")))
                .hint("is the right column the address? --to COLUMN names it")
        }
        Err(failed) if !failed.is_of_the_list() => return Err(cut_off(failed, id, &file)),
        Err(failed) => cut_off(failed, id, &file),
    };
    if !is_new {
        out::note(format!("{id} was there before, and stays"));
        return Err(trouble);
    }
    match client.call(Method::DELETE, &path(id), Payload::default()).await {
        Ok(_) => out::note("nothing was created"),
        Err(_) => out::note(format!("the draft {id} stays; `pombo campaigns remove {id}` removes it")),
    }
    Err(trouble)
}

/// Why a list is not there, or not all of it, and what to do.
pub(super) fn cut_off(failed: Failed, id: &str, file: &str) -> Trouble {
    let whole = failed.is_final();
    let trouble = Trouble::from(failed);
    if whole {
        return trouble;
    }
    let hint = format!(
        "{id} has the lines that arrived; send the list again with `pombo campaigns add {id} {file}`: nobody is added twice"
    );
    Trouble { what: format!("the list did not arrive to its end: {}", trouble.what), ..trouble }.hint(hint)
}
