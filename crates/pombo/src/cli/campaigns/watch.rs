//! A campaign followed to its end.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pombo_kernel::time::{Clock as _, Time};
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{path, view};
use crate::cli::operations::{number, word};
use crate::cli::out::{self, Paint};
use crate::cli::{Shared, Trouble, when};
use crate::client::{Client, ClientError};
use crate::clock::SystemClock;

/// From one redraw to the next.
const BEAT: Duration = Duration::from_millis(250);
/// Beats from one look to the next: while events tell of progress, and while they do not.
const BEATS_TOLD: u32 = 40;
const BEATS_UNTOLD: u32 = 4;
/// How long events are left alone after they broke off.
const STREAM_RETRY: Duration = Duration::from_secs(5);
/// How many looks in a row a server may be away for.
const LOOKS_WITHOUT_ANSWER: u32 = 60;

/// What the stream of events lets a watcher know.
enum Said {
    /// It is followed, or not any more.
    Followed(bool),
    /// The campaign as it is now.
    Progress(Value),
    /// Something happened to it.
    Look,
}

/// Follows a campaign until it ends or needs somebody. Whoever interrupts it leaves it running.
pub(super) async fn watch(client: &Client, id: &str, shared: &Shared) -> Result<(), Trouble> {
    let campaign = client.get(&path(id)).await?;
    if word(&campaign, "state") == "draft" {
        return Err(Trouble::new(format!("{id} was not started"), "CAMPAIGN_STATE")
            .why("it is a draft")
            .hint(format!("start it with `pombo campaigns start {id}`")));
    }
    let (tell, told) = mpsc::channel(16);
    let channel = word(&campaign, "channel").to_owned();
    let listening = tokio::spawn(listen(shared.client()?, id.to_owned(), channel, tell));
    let screen = Screen::new(shared.json);
    let ended = tokio::select! {
        ended = to_its_end(client, id, campaign, told, &screen) => ended,
        _ = tokio::signal::ctrl_c() => {
            screen.clear();
            out::note(format!(
                "the campaign goes on; follow it with `pombo campaigns watch {id}`, or stop it with \
                 `pombo campaigns pause {id}`"
            ));
            return Ok(());
        }
    };
    listening.abort();
    screen.clear();
    let campaign = ended?;
    if !shared.json {
        out::line(view::standing(&campaign, screen.clock.now()));
        super::next(client, &campaign).await?;
    }
    match word(&campaign, "state") {
        "completed" => Ok(()),
        _ => Err(Trouble::told()),
    }
}

/// It ended, or does not go on before somebody has looked into it.
fn is_over(campaign: &Value) -> bool {
    match word(campaign, "state") {
        "completed" | "cancelled" | "draft" => true,
        "paused" => !matches!(word(campaign, "pause_reason"), "operator" | "cancelling"),
        _ => false,
    }
}

async fn to_its_end(
    client: &Client,
    id: &str,
    mut campaign: Value,
    mut told: Receiver<Said>,
    screen: &Screen,
) -> Result<Value, ClientError> {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut since_look, mut followed, mut unanswered) = (0, false, 0);
    let mut shown = Value::Null;
    loop {
        if changed(&shown, &campaign) {
            screen.changed(&campaign);
            shown = campaign.clone();
        }
        if is_over(&campaign) {
            return Ok(campaign);
        }
        let look = tokio::select! {
            said = told.recv() => match said {
                Some(Said::Progress(now)) => {
                    campaign = now;
                    is_over(&campaign)
                }
                Some(Said::Look) => true,
                Some(Said::Followed(now)) => {
                    followed = now;
                    true
                }
                None => {
                    // Only if it panicked; there are still looks.
                    followed = false;
                    beats.tick().await;
                    true
                }
            },
            _ = beats.tick() => {
                screen.redraw(&campaign);
                since_look += 1;
                since_look >= if followed { BEATS_TOLD } else { BEATS_UNTOLD }
            }
        };
        if look {
            since_look = 0;
            match client.get(&path(id)).await {
                Ok(now) => (campaign, unanswered) = (now, 0),
                // Nodes come and go; the campaign stays.
                Err(ClientError::Unreachable { .. }) if unanswered < LOOKS_WITHOUT_ANSWER => unanswered += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// What is told of: counts, state, and what it waits for beyond its pace.
fn changed(before: &Value, now: &Value) -> bool {
    view::waits(before) != view::waits(now)
        || ["counts", "state", "pause_reason", "start_at"].into_iter().any(|name| before[name] != now[name])
}

/// Follows the events of campaigns, again and again, for as long as somebody wants to know.
async fn listen(client: Client, id: String, channel: String, tell: Sender<Said>) {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("types", "campaign.*")
        .append_pair("channel", &channel)
        .finish();
    let path = format!("/v1/events?{query}");
    while !tell.is_closed() {
        if let Ok(mut events) = client.events(&path, None).await {
            let _ = tell.send(Said::Followed(true)).await;
            while let Ok(Some(event)) = events.next().await {
                let said = event.data.and_then(|data| serde_json::from_str(&data).ok());
                if let Some(said) = said.and_then(|event| about(&event, &id)) {
                    let _ = tell.send(said).await;
                }
            }
            let _ = tell.send(Said::Followed(false)).await;
        }
        sleep(STREAM_RETRY).await;
    }
}

/// What an event means to whoever watches this campaign.
fn about(event: &Value, id: &str) -> Option<Said> {
    let data = &event["data"];
    if word(data, "id") != id && word(data, "campaign") != id {
        return None;
    }
    let whole = word(event, "type") == "campaign.progress" && data["counts"].is_object();
    Some(if whole { Said::Progress(data.clone()) } else { Said::Look })
}

/// A bar on a terminal; else a line for every change.
struct Screen {
    bar: ProgressBar,
    json: bool,
    clock: SystemClock,
}

impl Screen {
    fn new(json: bool) -> Screen {
        use std::io::IsTerminal as _;
        let seen = !json && std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let bar = match seen {
            true => ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:10.cyan/dim} {wide_msg}") {
            bar.set_style(style);
        }
        Screen { bar, json, clock: SystemClock::new() }
    }

    /// Something happened.
    fn changed(&self, campaign: &Value) {
        match (self.json, self.bar.is_hidden()) {
            (true, _) => out::object(campaign),
            (false, true) => {
                let now = self.clock.now();
                let state = view::state_paint(Paint::stdout(), word(campaign, "state"));
                out::line(format!("{now} {state} {}", words(campaign, now)));
            }
            (false, false) => self.redraw(campaign),
        }
    }

    /// Time went by.
    fn redraw(&self, campaign: &Value) {
        if self.bar.is_hidden() {
            return;
        }
        let counts = &campaign["counts"];
        let past = ["sent", "failed", "suppressed", "cancelled"].map(|name| number(counts, name));
        self.bar.set_length(number(counts, "recipients"));
        self.bar.set_position(past.iter().sum());
        let state = word(campaign, "state");
        let state = if state == "running" { String::new() } else { format!("{state} · ") };
        self.bar.set_message(format!("{state}{}", words(campaign, self.clock.now())));
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// `12 of 100 sent, 1 failed · 87 left · next in 12 s · ends today at 14:32 · 164/h`.
fn words(campaign: &Value, now: Time) -> String {
    let counts = &campaign["counts"];
    let mut parts = vec![view::progress(campaign)];
    let left = number(counts, "pending") + number(counts, "queued");
    if left > 0 {
        parts.push(format!("{left} left"));
    }
    match word(campaign, "state") {
        "running" => {
            let next = || view::next_send(campaign, now).map(|next| format!("next {next}"));
            parts.extend(view::waits(campaign).or_else(next));
            parts.extend(view::time(campaign, "eta").map(|eta| format!("ends {}", when::at(eta, now))));
            parts.extend(campaign["rate_per_hour"].as_f64().map(|rate| format!("{rate:.0}/h")));
        }
        "scheduled" => {
            parts.extend(view::time(campaign, "start_at").map(|at| format!("starts {}", when::at(at, now))));
        }
        _ => parts.extend(campaign["pause_note"].as_str().map(out::tame).filter(|note| !note.is_empty())),
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use pombo_kernel::time::Span;
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_over_when_it_ended_or_needs_somebody() {
        let check = |state: &str, reason: &str, over: bool| {
            assert_eq!(is_over(&json!({"state": state, "pause_reason": reason})), over, "{state} {reason}");
        };
        check("running", "", false);
        check("scheduled", "", false);
        check("completed", "", true);
        check("cancelled", "", true);
        check("paused", "operator", false);
        check("paused", "cancelling", false);
        for reason in ["time_limit", "failure_rate", "trouble"] {
            check("paused", reason, true);
        }
    }

    #[test]
    fn only_this_campaigns_events_count() {
        let event = |kind: &str, data: Value| json!({"type": kind, "data": data});
        let whole = event("campaign.progress", json!({"id": "cmp_1", "counts": {}}));
        assert!(matches!(about(&whole, "cmp_1"), Some(Said::Progress(_))));
        assert!(about(&whole, "cmp_2").is_none());
        let act = event("campaign.paused", json!({"campaign": "cmp_1", "reason": "operator"}));
        assert!(matches!(about(&act, "cmp_1"), Some(Said::Look)));
    }

    #[test] // REQ BK-7
    fn a_line_tells_how_far_it_is_and_what_comes_next() {
        let now = Time::from_millis(1_780_000_000_000);
        let mut it = json!({
            "state": "running", "rate_per_hour": 163.6, "next_send_at": now + Span::from_secs(12),
            "counts": {"recipients": 100, "sent": 12, "failed": 1, "pending": 84, "queued": 3},
        });
        assert_eq!(words(&it, now), "12 of 100 sent, 1 failed · 87 left · next in 12 s · 164/h");
        let before = it.clone();
        let words = "sending hours 09:00-18:00 UTC; opens tomorrow 09:00";
        it["waiting"] = json!({"reason": "window", "until": now + Span::from_hours(9), "words": words});
        assert_eq!(super::words(&it, now), format!("12 of 100 sent, 1 failed · 87 left · {words} · 164/h"));
        assert!(changed(&before, &it));
        it["state"] = json!("paused");
        it["pause_note"] = json!("lunch");
        assert_eq!(super::words(&it, now), "12 of 100 sent, 1 failed · 87 left · lunch");
    }
}
