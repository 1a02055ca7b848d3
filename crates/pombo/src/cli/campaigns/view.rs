//! How campaigns look on a terminal.

use pombo_kernel::time::{Span, Time};
use serde_json::Value;

use crate::cli::operations::{number, word};
use crate::cli::out::{self, Paint, Table};
use crate::cli::{Shared, when};

/// More bad lines than this are counted, not printed.
const PROBLEMS_SHOWN: usize = 10;

pub(super) fn time(of: &Value, key: &str) -> Option<Time> {
    of[key].as_str()?.parse().ok()
}

fn seconds(of: &Value, key: &str) -> Option<Span> {
    of[key].as_f64().map(|seconds| Span::from_secs(1).scaled(seconds))
}

pub(super) fn state_paint(paint: Paint, text: &str) -> String {
    match text.trim_end() {
        "completed" | "sent" => paint.green(text),
        "running" | "queued" => paint.cyan(text),
        "paused" | "scheduled" => paint.yellow(text),
        "failed" | "invalid" => paint.red(text),
        _ => paint.dim(text),
    }
}

/// `12 of 100 sent, 1 failed`.
pub(super) fn progress(campaign: &Value) -> String {
    let counts = &campaign["counts"];
    let mut text = format!("{} of {} sent", number(counts, "sent"), number(counts, "recipients"));
    for what in ["failed", "suppressed", "cancelled"] {
        if number(counts, what) > 0 {
            text.push_str(&format!(", {} {what}", number(counts, what)));
        }
    }
    text
}

/// `running`, or `paused by itself: 60 % of the last 20 failed`.
fn state_words(campaign: &Value, now: Time) -> String {
    let note = out::tame(word(campaign, "pause_note"));
    let note = if note.is_empty() { note } else { format!(": {note}") };
    match (word(campaign, "state"), word(campaign, "pause_reason")) {
        ("paused", "operator") => match time(campaign, "start_at") {
            Some(at) => format!("paused{note}; it was to start {}", when::at(at, now)),
            None => format!("paused{note}"),
        },
        ("paused", "cancelling") => "being cancelled".to_owned(),
        ("paused", _) => format!("paused by itself{note}"),
        ("scheduled", _) => match time(campaign, "start_at") {
            Some(at) => format!("scheduled for {}", when::at(at, now)),
            None => "scheduled".to_owned(),
        },
        (state, _) => state.to_owned(),
    }
}

/// Where a campaign stands, in a line.
pub(super) fn standing(campaign: &Value, now: Time) -> String {
    let state = state_words(campaign, now);
    let article = if state == "draft" { "a " } else { "" };
    let mut text = format!("{} is {article}{state}", word(campaign, "id"));
    if number(&campaign["counts"], "recipients") > 0 {
        text.push_str(&format!("; {}", progress(campaign)));
    }
    if matches!(word(campaign, "state"), "running" | "scheduled") {
        if let Some(limits) = limits(&campaign["limits"]) {
            text.push_str(&format!("; {limits}"));
        }
        if let Some(eta) = time(campaign, "eta") {
            text.push_str(&format!("; ends {}", when::at(eta, now)));
        }
        if let Some(waits) = waits(campaign) {
            text.push_str(&format!("; waits: {waits}"));
        }
    }
    text
}

/// `about 37 min; pauses itself after 48 min`.
fn limits(limits: &Value) -> Option<String> {
    let (estimated, soft) = (seconds(limits, "estimated_seconds")?, seconds(limits, "soft_seconds")?);
    Some(format!("about {}; pauses itself after {}", when::about(estimated), when::about(soft)))
}

pub(super) fn campaigns() -> Table {
    Table::new(["id", "state", "sent", "failed", "name", "channel", "created"])
        .painted(1, state_paint)
        .cut(4, 10)
        .spare([6, 5, 3])
}

pub(super) fn campaign_row(table: &mut Table, it: &Value) {
    let counts = &it["counts"];
    let text = |name: &str| out::tame(word(it, name));
    table.row([
        text("id"),
        text("state"),
        format!("{}/{}", number(counts, "sent"), number(counts, "recipients")),
        number(counts, "failed").to_string(),
        text("name"),
        text("channel"),
        text("created_at"),
    ]);
}

pub(super) fn recipients() -> Table {
    Table::new(["number", "to", "state", "why", "message"])
        .painted(2, state_paint)
        .cut(3, 16)
        .cut(1, 16)
        .spare([4])
}

pub(super) fn recipient_row(table: &mut Table, it: &Value) {
    let text = |name: &str| out::tame(word(it, name));
    table.row([
        number(it, "number").to_string(),
        text("to"),
        text("state"),
        text("reason"),
        text("message_id"),
    ]);
}

/// A table, or that there is nothing; and that there is more.
pub(super) fn print(table: &Table, none: &str, more: bool, shared: &Shared) {
    if shared.json {
        return;
    }
    match table.is_empty() {
        true => out::note(none),
        false => table.print(),
    }
    if more {
        out::note("there are more; --all shows them");
    }
}

/// What became of the lines of a list.
pub(super) fn listed(told: &Value, shared: &Shared) {
    if shared.json {
        return out::document(told);
    }
    let id = word(&told["campaign"], "id");
    let [added, duplicates, invalid] = ["added", "duplicates", "invalid"].map(|name| number(told, name));
    let state = word(&told["campaign"], "state");
    let state = if state == "draft" { String::new() } else { format!("; it is {state}") };
    out::line(format!("{id}: {added} added, {duplicates} there already, {invalid} invalid{state}"));
    problems(told);
    if invalid > 0 {
        out::note(format!("all of them: pombo campaigns recipients {id} --state invalid --all"));
    }
}

/// The first lines by which nobody can be written to.
pub(super) fn problems(told: &Value) {
    let all: Vec<&Value> = told["problems"].as_array().into_iter().flatten().collect();
    for it in all.iter().take(PROBLEMS_SHOWN) {
        let to = out::clipped(word(it, "to"), 40);
        let to = if to.is_empty() { to } else { format!("{to}: ") };
        out::note(format!("line {}: {to}{}", number(it, "line"), out::tame(word(it, "reason"))));
    }
    let more = number(told, "invalid").saturating_sub(all.len().min(PROBLEMS_SHOWN) as u64);
    if more > 0 {
        out::note(format!("and {more} more"));
    }
}

/// `1 line`, `2 lines`.
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What came of a new round for those whose message failed.
pub(super) fn retried(done: u64, failed: u64, left_out: u64) -> String {
    let listed = match left_out {
        0 => String::new(),
        1 => "; 1 of them is on the suppression list, and was left out".to_owned(),
        some => format!("; {some} of them are on the suppression list, and were left out"),
    };
    match done {
        0 => format!("nobody got a new round of {failed} who failed{listed}"),
        done => format!("a new round for {done} of {failed} who failed{listed}"),
    }
}

/// What one would do next; `again` if a retry would write to somebody who failed.
pub(super) fn next(campaign: &Value, again: bool) -> Vec<String> {
    let id = word(campaign, "id");
    let failed = number(&campaign["counts"], "failed") > 0;
    let why = format!("why some failed: pombo campaigns recipients {id} --state failed");
    let mut next = Vec::new();
    match word(campaign, "state") {
        "draft" if number(&campaign["counts"], "recipients") == 0 => {
            next.push(format!("give it a list: pombo campaigns add {id} FILE.csv"));
        }
        "draft" => next.push(format!(
            "look at it with `pombo campaigns preview {id}`, start it with `pombo campaigns start {id}`"
        )),
        "running" | "scheduled" => next.push(format!("follow it with `pombo campaigns watch {id}`")),
        "paused" if word(campaign, "pause_reason") == "cancelling" => {
            next.push(format!("follow it to its end with `pombo campaigns watch {id}`"));
        }
        "paused" => {
            next.extend(failed.then_some(why));
            next.push(format!("let it go on with `pombo campaigns resume {id}`"));
        }
        "completed" | "cancelled" => {
            next.push(format!("who received it: pombo campaigns report {id} report.csv"));
            let retry =
                if again { format!("; again: pombo campaigns retry {id} --failed") } else { String::new() };
            next.extend(failed.then(|| why + &retry));
        }
        _ => {}
    }
    next
}

struct Sheet(Paint);

impl Sheet {
    fn say(&self, what: &str, value: impl AsRef<str>) {
        if !value.as_ref().is_empty() {
            out::line(format!("{} {}", self.0.dim(&format!("  {what:<10}")), value.as_ref()));
        }
    }
}

pub(super) fn show(campaign: &Value, now: Time, shared: &Shared) {
    if shared.json {
        return out::document(campaign);
    }
    let paint = Paint::stdout();
    let sheet = Sheet(paint);
    let text = |name: &str| out::tame(word(campaign, name));
    out::line(format!("{} {}", paint.bold(word(campaign, "id")), text("name")));
    let state = word(campaign, "state");
    sheet.say(
        "state",
        state_paint(paint, state) + state_words(campaign, now).strip_prefix(state).unwrap_or_default(),
    );
    sheet.say("goes by", format!("channel {}, lane {}", text("channel"), text("lane")));
    sheet.say(
        "says",
        format!("template {} version {}", text("template"), number(campaign, "template_version")),
    );
    sheet.say("pace", pace(campaign));
    sheet.say("hours", hours(&campaign["window"]));
    let weight = number(campaign, "weight");
    sheet.say("turns", if weight > 1 { format!("{weight} where others have one") } else { String::new() });
    let counts = &campaign["counts"];
    let parts = ["sent", "failed", "queued", "pending", "suppressed", "cancelled"]
        .into_iter()
        .filter(|name| number(counts, name) > 0)
        .map(|name| format!("{} {name}", number(counts, name)))
        .collect::<Vec<_>>()
        .join(", ");
    let people = number(counts, "recipients");
    sheet.say("people", if parts.is_empty() { people.to_string() } else { format!("{people}: {parts}") });
    let (invalid, duplicates) = (number(counts, "invalid"), number(counts, "duplicates"));
    if invalid + duplicates > 0 {
        sheet.say("left out", format!("{}, {duplicates} repeated", count(invalid, "invalid line")));
    }
    let over = matches!(state, "completed" | "cancelled");
    if people > 0 && !over {
        let used = seconds(&campaign["limits"], "used_seconds").filter(|used| *used > Span::ZERO);
        let used = used.map(|used| format!(" ({} so far)", when::about(used))).unwrap_or_default();
        sheet.say("time", limits(&campaign["limits"]).map(|it| it + &used).unwrap_or_default());
    }
    if state == "running" {
        sheet.say("next send", next_send(campaign, now).unwrap_or_default());
    }
    sheet.say("waits", waits(campaign).unwrap_or_default());
    sheet.say("ends", ends(campaign, now));
    let share = campaign["max_failure_rate"].as_f64().filter(|_| !over);
    sheet.say("stops if", share.map(|share| format!("{:.0} % fail", share * 100.0)).unwrap_or_default());
    sheet.say("gives up", text("expires_after"));
    sheet.say("made", format!("{} by {}", text("created_at"), text("created_by")));
    sheet.say("started", text("started_at"));
    sheet.say("ended", text("finished_at"));
}

/// `15 to 25 s after each send, about 164 an hour`.
fn pace(campaign: &Value) -> String {
    let (min, max) = (&campaign["throttle_min_seconds"], &campaign["throttle_max_seconds"]);
    let (min, max) = (min.as_f64().unwrap_or_default(), max.as_f64().unwrap_or_default());
    let wait = if min < max { format!("{min} to {max} s") } else { format!("{min} s") };
    let rate = campaign["rate_per_hour"].as_f64().filter(|rate| *rate > 0.0);
    let rate = rate.map(|rate| format!(", about {rate:.0} an hour")).unwrap_or_default();
    format!("{wait} after each send{rate}")
}

fn hours(window: &Value) -> String {
    if !window.is_object() {
        return String::new();
    }
    let list = |name: &str| {
        let items = window[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        items.collect::<Vec<_>>().join(" ")
    };
    let mut text = word(window, "hours").to_owned();
    for (before, part) in
        [(" ", list("days")), (", ", word(window, "time_zone").into()), (", not on ", list("holidays"))]
    {
        if !part.is_empty() {
            text.push_str(before);
            text.push_str(&part);
        }
    }
    text
}

/// When the next message sets out, as far as it is known.
pub(super) fn next_send(campaign: &Value, now: Time) -> Option<String> {
    if campaign["in_flight"] == true {
        return Some("now".to_owned());
    }
    let at = time(campaign, "next_send_at")?;
    let wait = at.since(now);
    Some(match wait {
        Span::ZERO => "any moment".to_owned(),
        soon if soon < Span::from_hours(1) => format!("in {}", when::about(soon)),
        _ => when::at(at, now),
    })
}

/// What it waits for, where that is more than the time from one send to the next.
pub(super) fn waits(of: &Value) -> Option<String> {
    let waiting = &of["waiting"];
    let usual = matches!(word(waiting, "reason"), "" | "pace" | "line_gap");
    (!usual).then(|| out::tame(word(waiting, "words")))
}

/// When everybody will have been reached, or why nobody can say.
fn ends(campaign: &Value, now: Time) -> String {
    let counts = &campaign["counts"];
    let left = number(counts, "pending") + number(counts, "queued") > 0;
    match (time(campaign, "eta"), word(campaign, "state"), word(campaign, "pause_reason")) {
        (Some(eta), ..) => format!("about {}", when::at(eta, now)),
        (None, "paused", reason) if left && reason != "cancelling" => "not while it is paused".to_owned(),
        (None, "draft" | "scheduled" | "running", _) if left => "nobody can say".to_owned(),
        _ => String::new(),
    }
}

/// What a campaign would do.
pub(super) fn preview(preview: &Value, now: Time) {
    let paint = Paint::stdout();
    let sheet = Sheet(paint);
    let of = |name: &str| number(preview, name);
    let people = if of("recipients") == 1 { "person" } else { "people" };
    out::line(format!("{} {people} on the list", paint.bold(&of("recipients").to_string())));
    let left_out = [
        ("suppressed", format!("{} on the suppression list", of("suppressed"))),
        ("invalid", count(of("invalid"), "invalid line")),
        ("duplicates", format!("{} repeated", of("duplicates"))),
    ];
    let left_out = left_out.into_iter().filter(|(name, _)| of(name) > 0);
    sheet.say("left out", left_out.map(|(_, words)| words).collect::<Vec<_>>().join(", "));
    let looked_up = of("suppressed_checked");
    if looked_up > 0 && looked_up < of("recipients") {
        sheet.say(
            "checked",
            format!("the suppression list for {looked_up} of them, and again when their turn comes"),
        );
    }
    sheet.say("time", limits(&preview["limits"]).unwrap_or_default());
    let moment = |name: &str| time(preview, name).map(|at| when::at(at, now)).unwrap_or_default();
    sheet.say("first", moment("first_send_at"));
    sheet.say(
        "last",
        Some(moment("eta")).filter(|it| !it.is_empty()).map(|it| format!("about {it}")).unwrap_or_default(),
    );
    let waits = waits(preview).unwrap_or_default();
    let never = word(&preview["waiting"], "reason") == "never";
    sheet.say("waits", if never { paint.red(&waits) } else { waits });
    let names = |name: &str| {
        let items = preview["variables"][name].as_array().into_iter().flatten().filter_map(Value::as_str);
        items.collect::<Vec<_>>().join(", ")
    };
    sheet.say("variables", names("needed"));
    let missing = names("missing");
    if !missing.is_empty() {
        sheet.say("missing", paint.red(&missing));
    }
    for sample in preview["samples"].as_array().into_iter().flatten() {
        out::line(paint.dim(&format!("── to {}", out::tame(word(sample, "to")))));
        match sample["error"].as_str() {
            Some(error) => out::line(paint.red(&out::tame(error))),
            None => content(&sample["content"]),
        }
    }
}

/// A message as it would be sent: its texts, each under its name where there are several.
fn content(content: &Value) {
    let texts: Vec<(&String, &str)> = content
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, it)| Some((name, it.as_str()?)))
        .collect();
    if texts.is_empty() {
        out::line(content.to_string());
    }
    for (name, text) in &texts {
        for (number, line) in text.lines().enumerate() {
            let heading = if texts.len() > 1 && number == 0 { format!("{name}: ") } else { String::new() };
            out::line(format!("{heading}{}", out::tame(line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Time = Time::from_millis(1_780_000_000_000);

    fn campaign() -> Value {
        json!({
            "id": "cmp_1", "name": "Natal", "state": "running", "channel": "whatsapp", "pause_reason": null,
            "counts": {"recipients": 100, "sent": 12, "failed": 1, "pending": 84, "queued": 3},
            "limits": {"estimated_seconds": 2200, "soft_seconds": 2860, "hard_seconds": 3160, "used_seconds": 0},
            "throttle_min_seconds": 15.0, "throttle_max_seconds": 25.0, "rate_per_hour": 163.6,
            "created_at": "2026-11-16T11:00:00.000Z",
        })
    }

    #[test] // REQ BK-7
    fn a_line_says_where_it_stands_and_how_long_it_takes() {
        let mut it = campaign();
        let line = "cmp_1 is running; 12 of 100 sent, 1 failed; about 37 min; pauses itself after 48 min";
        assert_eq!(standing(&it, NOW), line);
        it["state"] = json!("paused");
        it["pause_reason"] = json!("failure_rate");
        it["pause_note"] = json!("60 % of the last 20 failed");
        let line = "cmp_1 is paused by itself: 60 % of the last 20 failed; 12 of 100 sent, 1 failed";
        assert_eq!(standing(&it, NOW), line);
        assert_eq!(pace(&it), "15 to 25 s after each send, about 164 an hour");
    }

    #[test]
    fn the_next_send_is_counted_down() {
        let mut it = campaign();
        let check = |it: &Value, words: Option<&str>| assert_eq!(next_send(it, NOW).as_deref(), words);
        check(&it, None);
        it["next_send_at"] = json!(NOW + Span::from_secs(12));
        check(&it, Some("in 12 s"));
        it["next_send_at"] = json!(NOW);
        check(&it, Some("any moment"));
        it["in_flight"] = json!(true);
        check(&it, Some("now"));
    }

    #[test]
    fn what_is_next_fits_the_state() {
        let check = |state: &str, reason: &str, failed: u64, again: bool, says: &[&str], not: &[&str]| {
            let it = json!({"id": "cmp_1", "state": state, "pause_reason": reason, "counts": {"recipients": 9, "failed": failed}});
            let next = next(&it, again).join("\n");
            assert!(says.iter().all(|word| next.contains(word)), "{state} {reason}: {next}");
            assert!(!not.iter().any(|word| next.contains(word)), "{state} {reason}: {next}");
        };
        check("draft", "", 0, false, &["preview cmp_1", "start cmp_1"], &["resume", "retry", "report"]);
        for state in ["running", "scheduled"] {
            check(state, "", 1, false, &["watch cmp_1"], &["start cmp_1", "resume", "retry"]);
        }
        check("paused", "operator", 0, false, &["resume cmp_1"], &["retry", "why some failed"]);
        check("paused", "failure_rate", 9, false, &["--state failed", "resume cmp_1"], &["retry"]);
        check("paused", "cancelling", 1, false, &["watch cmp_1"], &["resume", "retry"]);
        check("completed", "", 0, false, &["report cmp_1"], &["retry", "resume"]);
        check("completed", "", 2, true, &["report cmp_1", "retry cmp_1 --failed"], &["resume"]);
        check("completed", "", 2, false, &["report cmp_1", "--state failed"], &["retry"]);
        check("cancelled", "", 2, false, &["report cmp_1", "--state failed"], &["retry", "resume"]);
        let empty = json!({"id": "cmp_1", "state": "draft", "counts": {"recipients": 0}});
        assert_eq!(next(&empty, false), ["give it a list: pombo campaigns add cmp_1 FILE.csv"]);
    }

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!((count(0, "line"), count(1, "line")), ("0 lines".into(), "1 line".into()));
        assert_eq!(retried(3, 3, 0), "a new round for 3 of 3 who failed");
        let some =
            "a new round for 1 of 3 who failed; 2 of them are on the suppression list, and were left out";
        assert_eq!(retried(1, 3, 2), some);
    }

    #[test]
    fn why_is_cut_to_the_terminals_width() {
        let mut table = recipients();
        recipient_row(
            &mut table,
            &json!({"number": 1, "to": "+5511987654321", "state": "failed", "reason": "long ".repeat(60),
                "message_id": "msg_0197a4c1d2e3f405162738495a6b7c8d"}),
        );
        for width in [60, 80, 120] {
            let lines = table.lines_within(width, Paint::PLAIN);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert!(lines[1].contains("+5511987654321") && lines[1].contains("long"), "{lines:#?}");
        }
    }

    #[test] // REQ BK-7
    fn what_it_waits_for_is_told_unless_that_is_its_pace() {
        let mut it = campaign();
        assert_eq!((waits(&it), ends(&it, NOW)), (None, "nobody can say".into()));
        it["waiting"] = json!({"reason": "pace", "until": NOW, "words": "the wait after the last send"});
        assert_eq!(waits(&it), None);
        let words = "sending hours 09:00-18:00 America/Sao_Paulo; opens tomorrow 09:00";
        it["waiting"] = json!({"reason": "window", "until": NOW, "words": words});
        assert_eq!(waits(&it).as_deref(), Some(words));
        assert!(standing(&it, NOW).ends_with(&format!("; waits: {words}")), "{}", standing(&it, NOW));
        it["state"] = json!("paused");
        assert_eq!(ends(&it, NOW), "not while it is paused");
    }

    #[test]
    fn the_list_fits_on_eighty_columns() {
        let mut table = campaigns();
        let mut it = campaign();
        it["id"] = json!("cmp_0197a4c1d2e3f405162738495a6b7c8d");
        it["name"] = json!("a name that somebody was very proud of");
        it["counts"] = json!({"recipients": 1_000_000, "sent": 999_999, "failed": 123});
        campaign_row(&mut table, &it);
        let lines = table.lines_within(80, Paint::PLAIN);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].contains("999999/1000000") && lines[1].contains("a name"), "{lines:#?}");
    }

    #[test]
    fn hours_are_read_aloud() {
        let window = json!({"hours": "08:00-20:00", "days": ["mon", "tue"], "time_zone": "UTC", "holidays": ["2026-12-25"]});
        assert_eq!(hours(&window), "08:00-20:00 mon tue, UTC, not on 2026-12-25");
        assert_eq!(hours(&Value::Null), "");
    }
}
