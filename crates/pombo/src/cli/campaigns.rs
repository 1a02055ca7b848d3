//! `pombo campaigns`: one template to many people, from a list to a report.

mod create;
pub(super) mod lists;
mod view;
mod watch;

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use http::Method;
use pombo_kernel::classify::Rules;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::time::{Clock as _, Time};
use serde_json::{Map, Value, json};

use self::create::{Create, create, cut_off};
use self::lists::{Failed, List, Source};
use super::dead::agreed;
use super::operations::{Bar, ended, number, word};
use super::out;
use super::reveal::{Reveal, hides};
use super::{Shared, Trouble, when};
use crate::client::{Client, ClientError, Payload};
use crate::clock::SystemClock;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List campaigns, the newest first
    #[command(after_help = "Examples:
  pombo campaigns list --state running
  pombo campaigns list --all --json")]
    List {
        /// draft, scheduled, running, paused, completed or cancelled
        #[arg(long)]
        state: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Make a campaign, with its list if one is given
    #[command(after_help = "Examples:
  pombo campaigns create --name Natal --channel whatsapp --template natal clientes.csv
  pombo campaigns create --name Natal --channel whatsapp --template natal --csv clientes.csv --to celular --var loja=Centro
  pombo campaigns create --name Aviso --channel mail --template aviso --json-file people.ndjson --min 5 --max 10 --start
  export-people | pombo campaigns create --name Aviso --channel mail --template aviso --csv - --schedule '2026-12-01 09:00'

The list is CSV with a heading, a JSON array, or one JSON object a line. The column or member `to` (or phone, telefone,
celular, whatsapp, email, …) is the address; the others are variables of the template. A list that cannot be used
creates nothing. Lines by which nobody can be written to are told, kept in the report, and left out.")]
    Create(Box<Create>),
    /// Add people to a campaign's list; whoever is there already is not added again
    #[command(after_help = "An upload that broke off is simply repeated.

Examples:
  pombo campaigns add cmp_… late.csv
  pombo campaigns add cmp_… - --format ndjson < late.ndjson")]
    Add {
        /// The campaign's id: cmp_…
        id: String,
        #[command(flatten)]
        list: List,
    },
    /// Change a campaign's name, pace, hours or limit of failures
    #[command(after_help = "Examples:
  pombo campaigns set cmp_… --min 30 --max 60
  pombo campaigns set cmp_… --window 09:00-18:00
  pombo campaigns set cmp_… --days mon,tue,wed,thu,fri
  pombo campaigns set cmp_… --no-window

What is not said of its hours stays as it is.")]
    Set {
        /// The campaign's id: cmp_…
        id: String,
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        pace: Pace,
        /// Send at any hour
        #[arg(long, conflicts_with_all = ["window", "days", "time_zone", "holidays"])]
        no_window: bool,
    },
    /// What it would do: counts, time, and some messages as they would be sent; nothing is changed
    Preview {
        /// The campaign's id: cmp_…
        id: String,
        #[command(flatten)]
        reveal: Reveal,
    },
    /// Start it
    #[command(after_help = "On a terminal you are shown what it will do, and asked.

Examples:
  pombo campaigns start cmp_…
  pombo campaigns start cmp_… --yes && pombo campaigns watch cmp_…")]
    Start {
        /// The campaign's id: cmp_…
        id: String,
        /// Show what it would do, and do not start it
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Start it later
    #[command(after_help = "Examples:
  pombo campaigns schedule cmp_… '2026-12-01 09:00'           in this machine's time zone
  pombo campaigns schedule cmp_… 2026-12-01T09:00:00-03:00")]
    Schedule {
        /// The campaign's id: cmp_…
        id: String,
        /// When
        #[arg(value_parser = when::typed)]
        at: Time,
    },
    /// Let nothing more set out; a message that is on its way arrives
    Pause {
        /// The campaign's id: cmp_…
        id: String,
        /// Why, for whoever looks
        #[arg(long)]
        note: Option<String>,
    },
    /// Let a paused campaign go on, with fresh time limits
    Resume {
        /// The campaign's id: cmp_…
        id: String,
    },
    /// End it for good; whoever was not written to is not
    Cancel {
        /// The campaign's id: cmp_…
        id: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Go on with those who are pending, or also with those whose message failed
    #[command(after_help = "Examples:
  pombo campaigns retry cmp_…
  pombo campaigns retry cmp_… --failed

Failed messages get a new round of attempts, at the campaign's pace; it comes back once all of them wait for it. Whoever
is on the suppression list by now is left out. See first why they failed: pombo campaigns recipients cmp_… --state failed")]
    Retry {
        /// The campaign's id: cmp_…
        id: String,
        /// Also those whose message failed
        #[arg(long)]
        failed: bool,
    },
    /// Show one campaign
    Show {
        /// The campaign's id: cmp_…
        id: String,
    },
    /// Follow a campaign to its end; Ctrl-C leaves it running
    #[command(after_help = "On a terminal a bar, in a pipe a line (with --json an object) for every change.
Exit 0 once it is completed; 1 if it was cancelled, or stopped by itself and needs somebody. While an operator has
paused it, it is waited for.

Example:
  pombo campaigns watch cmp_…")]
    Watch {
        /// The campaign's id: cmp_…
        id: String,
    },
    /// List the people of a campaign, each with what became of them
    #[command(after_help = "Examples:
  pombo campaigns recipients cmp_… --state failed
  pombo campaigns recipients cmp_… --all --json > people.ndjson")]
    Recipients {
        /// The campaign's id: cmp_…
        id: String,
        /// pending, queued, sent, failed, cancelled, suppressed or invalid
        #[arg(long)]
        state: Option<String>,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reveal: Reveal,
    },
    /// Write everybody with what became of them as CSV, or with --json as an object a line: to a file, or to standard output
    #[command(after_help = "Examples:
  pombo campaigns report cmp_… report.csv
  pombo campaigns report cmp_… | head
  pombo campaigns report cmp_… --json | jq -r 'select(.state == \"failed\") | .to'")]
    Report {
        /// The campaign's id: cmp_…
        id: String,
        /// The file [default: standard output]
        file: Option<PathBuf>,
        #[command(flatten)]
        reveal: Reveal,
    },
    /// Remove a draft that never began, with its list
    Remove {
        /// The campaign's id: cmp_…
        id: String,
    },
}

/// How much of a list.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// Most to list
    #[arg(long, default_value_t = 50, conflicts_with = "all")]
    limit: usize,
    /// Everything, page by page
    #[arg(long)]
    all: bool,
}

/// How fast, and when.
#[derive(Debug, Default, Args)]
pub(crate) struct Pace {
    /// Shortest wait from the end of one send to the start of the next, in seconds, at least 3 [default: 15]
    #[arg(long, value_name = "SECONDS", visible_alias = "throttle-min")]
    min: Option<f64>,
    /// Longest such wait [default: 25]
    #[arg(long, value_name = "SECONDS", visible_alias = "throttle-max")]
    max: Option<f64>,
    /// Hours in which it sends, for example 08:00-20:00 [default: all day]
    #[arg(long, value_name = "HOURS")]
    window: Option<String>,
    /// Days on which it sends, for example mon,tue,wed,thu,fri [default: all]
    #[arg(long, value_name = "DAYS", value_delimiter = ',')]
    days: Option<Vec<String>>,
    /// Whose clock the hours are read from [default: the server's `time_zone`]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Dates on which it does not send, for example 2026-12-25,2027-01-01
    #[arg(long, value_name = "DATES", value_delimiter = ',')]
    holidays: Option<Vec<String>>,
    /// How many turns it gets in its lane where others get one, 1 to 100 [default: 1]
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// It pauses by itself when this share of its last sends failed, for example 0.2, or `never` [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    max_failure_rate: Option<Share>,
}

/// A share of failures; none for whatever the share.
#[derive(Clone, Copy, Debug)]
struct Share(Option<f64>);

fn share(text: &str) -> Result<Share, String> {
    match text {
        "never" => Ok(Share(None)),
        text => text
            .parse()
            .map(|share| Share(Some(share)))
            .map_err(|_| "write for example 0.2, or never".to_owned()),
    }
}

impl Pace {
    /// The hours that were said, over those that there are; nothing if none were said.
    fn hours_over(&self, window: &Value) -> Option<Value> {
        let parts = said([
            ("hours", json!(self.window)),
            ("days", json!(self.days)),
            ("time_zone", json!(self.time_zone)),
            ("holidays", json!(self.holidays)),
        ]);
        if parts.is_empty() {
            return None;
        }
        let mut window = window.as_object().cloned().unwrap_or_default();
        window.extend(parts);
        window.entry("hours").or_insert_with(|| json!("00:00-24:00"));
        Some(Value::Object(window))
    }

    /// As the API wants it, over the hours that there are; what was not said is left out.
    fn document(&self, window: &Value) -> Map<String, Value> {
        let window = self.hours_over(window);
        let mut pace = said([
            ("throttle_min_seconds", json!(self.min)),
            ("throttle_max_seconds", json!(self.max)),
            ("window", json!(window)),
            ("weight", json!(self.weight)),
        ]);
        pace.extend(self.max_failure_rate.map(|Share(share)| ("max_failure_rate".to_owned(), json!(share))));
        pace
    }
}

fn said<const N: usize>(parts: [(&str, Value); N]) -> Map<String, Value> {
    let said = parts.into_iter().filter(|(_, value)| !value.is_null());
    said.map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    perform(verb, shared)
        .await
        .map_err(|trouble| Trouble { hint: trouble.hint.as_deref().map(spoken), ..trouble })
}

/// A hint for whoever writes requests, for whoever types commands.
fn spoken(hint: &str) -> String {
    const WORDS: [(&str, &str); 3] = [
        ("to=COLUMN", "--to COLUMN"),
        ("encoding=latin1", "--encoding latin1"),
        ("`{\"failed\": true}` to /retry", "`pombo campaigns retry ID --failed`"),
    ];
    WORDS.iter().fold(hint.to_owned(), |hint, (said, typed)| hint.replace(said, typed))
}

async fn perform(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List { state, page } => {
            let state = state.map(|state| ("state", state));
            let mut table = view::campaigns();
            let more =
                pages(&client, "/v1/campaigns", state.into_iter().collect(), &page, |it| match shared.json {
                    true => out::object(it),
                    false => view::campaign_row(&mut table, it),
                });
            let more = more.await?;
            view::print(&table, "no campaign matches", more, shared);
            Ok(())
        }
        Verb::Create(args) => create(&client, *args, shared).await,
        Verb::Add { id, list } => {
            let source = list.open()?;
            let file = source.name().to_owned();
            let told = upload(&client, &id, source).await.map_err(|failed| cut_off(failed, &id, &file))?;
            view::listed(&told, shared);
            Ok(())
        }
        Verb::Set { id, name, pace, no_window } => {
            // Hours are changed as a whole.
            let window = match pace.hours_over(&Value::Null) {
                Some(_) => client.get(&path(&id)).await?["window"].take(),
                None => Value::Null,
            };
            let mut changes = pace.document(&window);
            if let Some(name) = name {
                changes.insert("name".to_owned(), json!(name));
            }
            if no_window {
                changes.insert("window".to_owned(), Value::Null);
            }
            if changes.is_empty() {
                return Err(
                    Trouble::usage("nothing to change").hint("say what, for example --min 30 --max 60")
                );
            }
            let payload = Payload::json(&Value::Object(changes));
            let answer = client.call(Method::PATCH, &path(&id), payload).await?;
            shown(&client, &client.parse(&answer)?, shared).await
        }
        Verb::Preview { id, reveal } => preview(&client, &id, reveal, shared).await,
        Verb::Start { id, dry_run: true, .. } => preview(&client, &id, Reveal::default(), shared).await,
        Verb::Start { id, yes, .. } => {
            if !yes && !may_start(&client, &id).await? {
                out::note("nothing was started");
                return Ok(());
            }
            told(&act(&client, &id, "start", json!({})).await?, shared)
        }
        Verb::Schedule { id, at } => told(&act(&client, &id, "schedule", json!({"at": at})).await?, shared),
        Verb::Pause { id, note } => {
            let wish = Value::Object(said([("note", json!(note))]));
            told(&act(&client, &id, "pause", wish).await?, shared)
        }
        Verb::Resume { id } => told(&act(&client, &id, "resume", json!({})).await?, shared),
        Verb::Cancel { id, yes } => {
            if !yes && asked() {
                let campaign = client.get(&path(&id)).await?;
                out::note(format!("{}; to cancel it is final", view::progress(&campaign)));
                if !agreed() {
                    out::note("nothing was changed");
                    return Ok(());
                }
            }
            told(&act(&client, &id, "cancel", json!({})).await?, shared)
        }
        Verb::Retry { id, failed } => {
            let answer = act(&client, &id, "retry", json!({"failed": failed})).await?;
            let Some(operation) = answer["operation_id"].as_str() else { return told(&answer, shared) };
            let bar = Bar::new(shared.json);
            let ended = ended(&client, operation, &bar).await;
            bar.clear();
            let ended = ended?;
            if !shared.json {
                let failed = number(&answer["counts"], "failed");
                let left_out = match number(&ended, "done") < failed {
                    true => failures(&client, &id, &Page { limit: 0, all: true }).await?.suppressed,
                    false => 0,
                };
                out::note(view::retried(number(&ended, "done"), failed, left_out));
            }
            let mut campaign = client.get(&path(&id)).await?;
            campaign["operation_id"] = json!(operation);
            told(&campaign, shared)?;
            match word(&ended, "state") {
                "done" => Ok(()),
                state => {
                    let what = format!("not all who failed got a new round: {operation} is {state}");
                    Err(Trouble::new(what, "RETRY_INCOMPLETE")
                        .why(word(&ended, "reason"))
                        .hint(format!("`pombo operations show {operation}` says more")))
                }
            }
        }
        Verb::Show { id } => shown(&client, &client.get(&path(&id)).await?, shared).await,
        Verb::Watch { id } => watch::watch(&client, &id, shared).await,
        Verb::Recipients { id, state, page, reveal } => {
            let filter = state.map(|state| ("state", state)).into_iter().chain(reveal.pair()).collect();
            let mut table = view::recipients();
            let mut hidden = false;
            let path = format!("{}/recipients", path(&id));
            let more = pages(&client, &path, filter, &page, |it| {
                hidden |= hides(&out::field(it, "to"));
                match shared.json {
                    true => out::object(it),
                    false => view::recipient_row(&mut table, it),
                }
            });
            let more = more.await?;
            view::print(&table, "nobody matches", more, shared);
            reveal.hint(hidden && !shared.json);
            Ok(())
        }
        Verb::Report { id, file, reveal } => report(&client, &id, file.as_deref(), reveal, shared).await,
        Verb::Remove { id } => {
            client.call(Method::DELETE, &path(&id), Payload::default()).await?;
            match shared.json {
                true => out::document(&json!({"id": id, "removed": true})),
                false => out::line(format!("{id} is removed")),
            }
            Ok(())
        }
    }
}

/// Shows a campaign, and what one would do next.
async fn shown(client: &Client, campaign: &Value, shared: &Shared) -> Result<(), Trouble> {
    view::show(campaign, now(), shared);
    if !shared.json {
        next(client, campaign).await?;
    }
    Ok(())
}

/// Says what one would do next.
async fn next(client: &Client, campaign: &Value) -> Result<(), Trouble> {
    let could = word(campaign, "state") == "completed" && number(&campaign["counts"], "failed") > 0;
    let again = match could {
        true => {
            let some = failures(client, word(campaign, "id"), &Page { limit: PAGE_MAX, all: false }).await?;
            some.hopeless < some.seen || some.more
        }
        false => false,
    };
    view::next(campaign, again).iter().for_each(out::note);
    Ok(())
}

/// Those whose message failed, as far as they were looked at.
struct Failures {
    seen: u64,
    /// Of these, whoever is on the suppression list by now: nothing is sent to them again.
    suppressed: u64,
    /// Of these, whoever is on it, or will be in a moment by what went wrong.
    hopeless: u64,
    more: bool,
}

async fn failures(client: &Client, id: &str, page: &Page) -> Result<Failures, Trouble> {
    let (mut seen, mut suppressed, mut hopeless) = (0, 0, 0);
    let rules: Vec<_> = [ChannelKind::Evolution, ChannelKind::Smtp, ChannelKind::Resend]
        .into_iter()
        .filter_map(|kind| Rules::for_kind(kind, &[]).ok())
        .collect();
    let fills_the_list = |category: &str| {
        let mut rules = rules.iter().flat_map(Rules::iter);
        rules.any(|(_, rule)| rule.suppress && rule.category == category)
    };
    let filter = vec![("state", "failed".to_owned())];
    let place = format!("{}/recipients", path(id));
    let more = pages(client, &place, filter, page, |it| {
        seen += 1;
        let listed = !it["suppressed"].is_null();
        suppressed += u64::from(listed);
        hopeless += u64::from(listed || fills_the_list(word(&it["last_error"], "category")));
    })
    .await?;
    Ok(Failures { seen, suppressed, hopeless, more })
}

async fn upload(client: &Client, id: &str, list: Source) -> Result<Value, Failed> {
    lists::upload(client, &format!("{}/recipients", path(id)), &[], list).await
}

fn path(id: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/v1/campaigns/{id}")
}

fn now() -> Time {
    SystemClock::new().now()
}

async fn act(client: &Client, id: &str, verb: &str, wish: Value) -> Result<Value, ClientError> {
    client.post(&format!("{}/{verb}", path(id)), Payload::json(&wish)).await
}

/// Where a campaign stands after what was done to it. An answer may be the campaign, or carry it.
fn told(answer: &Value, shared: &Shared) -> Result<(), Trouble> {
    let campaign = Some(&answer["campaign"]).filter(|it| it.is_object()).unwrap_or(answer);
    match shared.json {
        true => out::document(answer),
        false => out::line(view::standing(campaign, now())),
    }
    Ok(())
}

/// Somebody is there who can be asked.
fn asked() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Shows what would happen.
async fn preview(client: &Client, id: &str, reveal: Reveal, shared: &Shared) -> Result<(), Trouble> {
    let preview = act(client, id, &reveal.at("preview"), json!({})).await?;
    match shared.json {
        true => out::document(&preview),
        false => {
            view::preview(&preview, now());
            reveal.hint(hides(&preview["samples"].to_string()));
        }
    }
    Ok(())
}

/// Shows what would happen, and asks, if there is somebody to ask.
async fn may_start(client: &Client, id: &str) -> Result<bool, Trouble> {
    if !asked() {
        return Ok(true);
    }
    view::preview(&act(client, id, "preview", json!({})).await?, now());
    Ok(agreed())
}

/// As many as the API gives at once.
const PAGE_MAX: usize = 500;

/// Hands over what is listed, page by page. Whether there is more than was wanted.
async fn pages(
    client: &Client,
    path: &str,
    filter: Vec<(&str, String)>,
    page: &Page,
    mut each: impl FnMut(&Value),
) -> Result<bool, Trouble> {
    let mut left = if page.all { usize::MAX } else { page.limit };
    let mut cursor: Option<String> = None;
    while left > 0 {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &left.min(PAGE_MAX).to_string());
        query.extend_pairs(filter.iter().map(|(name, value)| (*name, value)));
        query.extend_pairs(cursor.iter().map(|cursor| ("cursor", cursor)));
        let found = client.get(&format!("{path}?{}", query.finish())).await?;
        let items = found["items"].as_array().into_iter().flatten();
        items.take(left).for_each(|item| {
            each(item);
            left -= 1;
        });
        cursor = found["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok(cursor.is_some())
}

/// Writes the report as it comes in: CSV, or an object a line. A file gets its name once it is whole.
async fn report(
    client: &Client,
    id: &str,
    file: Option<&Path>,
    reveal: Reveal,
    shared: &Shared,
) -> Result<(), Trouble> {
    let place = format!("{}/recipients", path(id));
    let bar = match file {
        Some(_) => super::import::progress(None),
        None => indicatif::ProgressBar::hidden(),
    };
    let unwritable = |error: std::io::Error| {
        let name = file.map_or("standard output".into(), Path::to_string_lossy);
        Trouble::new(format!("{name} cannot be written"), "FILE_UNWRITABLE").why(error)
    };
    let folder =
        file.and_then(Path::parent).filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut kept = file.map(|_| tempfile::NamedTempFile::new_in(folder)).transpose().map_err(unwritable)?;
    let mut lines = 0u64;
    let mut hidden = false;
    let mut write = |piece: &[u8]| {
        hidden |= hides(&String::from_utf8_lossy(piece));
        bar.inc(piece.len() as u64);
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        match &mut kept {
            Some(file) => file.write_all(piece),
            None => {
                out::bytes(piece);
                Ok(())
            }
        }
    };
    if shared.json {
        let mut written = Ok(());
        let filter = reveal.pair().into_iter().collect();
        pages(client, &place, filter, &Page { limit: 0, all: true }, |it| {
            if written.is_ok() {
                written = write(format!("{it}\n").as_bytes());
            }
        })
        .await?;
        written.map_err(unwritable)?;
    } else {
        let mut answer = client.download(&reveal.at(&format!("{place}?format=csv")), "text/csv").await?;
        while let Some(piece) = answer.next().await? {
            write(&piece).map_err(unwritable)?;
        }
        // The heading is nobody.
        lines = lines.saturating_sub(1);
    }
    bar.finish_and_clear();
    reveal.hint(hidden);
    if let (Some(kept), Some(file)) = (kept, file) {
        kept.persist(file).map_err(|error| unwritable(error.error))?;
        match shared.json {
            true => out::document(&json!({"file": file, "lines": lines})),
            false => out::line(format!("{} has {}", file.display(), view::count(lines, "line"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_is_sent() {
        assert_eq!(Value::Object(Pace::default().document(&Value::Null)), json!({}));
        let pace = Pace {
            min: Some(5.0),
            window: Some("08:00-20:00".into()),
            days: Some(vec!["mon".into()]),
            weight: Some(3),
            max_failure_rate: Some(share("never").unwrap()),
            ..Pace::default()
        };
        let window = json!({"hours": "08:00-20:00", "days": ["mon"]});
        let wanted =
            json!({"throttle_min_seconds": 5.0, "window": window, "weight": 3, "max_failure_rate": null});
        assert_eq!(Value::Object(pace.document(&Value::Null)), wanted);
    }

    #[test] // REQ BK-6
    fn what_is_not_said_of_the_hours_stays() {
        let days = Pace { days: Some(vec!["mon".into()]), ..Pace::default() };
        let all_day = json!({"hours": "00:00-24:00", "days": ["mon"]});
        assert_eq!(days.hours_over(&Value::Null), Some(all_day));
        let own = json!({"hours": "09:00-18:00", "days": ["sat", "sun"], "time_zone": "UTC"});
        let changed = json!({"hours": "09:00-18:00", "days": ["mon"], "time_zone": "UTC"});
        assert_eq!(days.hours_over(&own), Some(changed));
        let hours = Pace { window: Some("08:00-12:00".into()), ..Pace::default() };
        let changed = json!({"hours": "08:00-12:00", "days": ["sat", "sun"], "time_zone": "UTC"});
        assert_eq!(hours.hours_over(&own), Some(changed));
        assert_eq!(Pace::default().hours_over(&own), None);
    }
}
