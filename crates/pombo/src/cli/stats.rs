//! `pombo stats`: what was counted, of all time or in a range, and how well it goes.

use clap::{Args, ValueEnum};
use pombo_kernel::time::{Span, Time};
use pombo_kernel::window::Zone;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  pombo stats\n  pombo stats --since 7d --by day\n  pombo stats --since 24h --channel mail --json\n  pombo stats --campaign cmp_…"
)]
pub(crate) struct Stats {
    /// From then on: a time, or how long ago, for example 24h or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Until then; now if left out
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// How long one line of the table is
    #[arg(long, value_name = "STEP")]
    by: Option<Step>,
    /// Where days and weeks begin [default: America/Sao_Paulo]
    #[arg(long, value_name = "NAME")]
    time_zone: Option<String>,
    /// Only of this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Only of this template
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// How far this campaign is
    #[arg(long, value_name = "ID", conflicts_with_all = ["since", "until", "by", "time_zone", "channel", "template"])]
    campaign: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    Hour,
    Day,
    Week,
}

impl Step {
    fn as_str(self) -> &'static str {
        match self {
            Step::Hour => "hour",
            Step::Day => "day",
            Step::Week => "week",
        }
    }
}

const COUNTS: [&str; 7] = ["accepted", "waiting", "sent", "failed", "cancelled", "discarded", "retries"];

/// How many characters the longest bar has.
const BAR: usize = 20;

pub(crate) async fn run(args: Stats, shared: &Shared) -> Result<(), Trouble> {
    let mut query = Serializer::new(String::new());
    let given = [
        ("since", args.since.as_deref()),
        ("until", args.until.as_deref()),
        ("step", args.by.map(Step::as_str)),
        ("time_zone", args.time_zone.as_deref()),
        ("channel", args.channel.as_deref()),
        ("template", args.template.as_deref()),
        ("campaign", args.campaign.as_deref()),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let stats = shared.client()?.get(&format!("/v1/stats?{}", query.finish())).await?;
    if shared.json {
        out::document(&stats);
        return Ok(());
    }
    if stats["campaign"].is_object() {
        campaign(&stats["campaign"]);
    } else if stats["series"].is_array() {
        range(&stats).iter().for_each(out::line);
    } else {
        all_time(&stats);
    }
    if let Some(reason) = stats["paused"]["reason"].as_str() {
        out::note(format!("nothing is sent: {reason}; `pombo store resume` lets it go on"));
    }
    Ok(())
}

fn all_time(stats: &Value) {
    let [accepted, waiting, sent, failed, cancelled, discarded, retries] = COUNTS;
    let headings = ["channel", accepted, waiting, sent, failed, cancelled, discarded, retries];
    let mut table = Table::new(headings).cut(0, 8);
    let channels = stats["channels"].as_object().into_iter().flatten();
    let channels = channels.map(|(name, counts)| (name.as_str(), counts));
    for (name, counts) in channels.chain([("all", &stats["total"])]) {
        let [a, b, c, d, e, f, g] = COUNTS.map(|what| count(&counts[what]));
        table.row([name.to_owned(), a, b, c, d, e, f, g]);
    }
    table.print();
}

fn campaign(campaign: &Value) {
    let name = campaign["name"].as_str().unwrap_or_default();
    out::line(format!("{} ({})", out::tame(name), text(&campaign["state"])));
    let headings =
        ["recipients", "pending", "queued", "sent", "failed", "cancelled", "suppressed", "delivered"];
    let mut table = Table::new(headings);
    let [a, b, c, d, e, f, g, _] = headings.map(|what| count(&campaign[what]));
    table.row([a, b, c, d, e, f, g, share(&campaign["delivery_rate"])]);
    table.print();
}

/// Everything that is known of a range, as lines.
fn range(stats: &Value) -> Vec<String> {
    let (paint, room) = (Paint::stdout(), out::width().unwrap_or(usize::MAX));
    let mut lines = Vec::new();
    let mut show = |title: &str, table: &Table| {
        if !table.is_empty() {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend((!title.is_empty()).then(|| paint.bold(title)));
            lines.extend(table.lines_within(room, paint));
        }
    };
    show("", &series(stats));
    show("Figures", &kpis(stats));
    show("Attempts", &attempts(stats));
    show("Errors of attempts", &errors(stats));
    show("Templates", &templates(stats));
    let took = &stats["time_to_delivery"];
    if took["sent"].as_u64().is_some_and(|sent| sent > 0) {
        let [mean, half, most] = ["mean_seconds", "p50_seconds", "p95_seconds"].map(|it| lasting(&took[it]));
        lines.push(String::new());
        lines.push(format!("Time to delivery: {mean} on average, half within {half}, 95 % within {most}"));
    }
    lines
}

fn series(stats: &Value) -> Table {
    let points = items(&stats["series"]);
    let zone: Zone = stats["time_zone"].as_str().and_then(|zone| zone.parse().ok()).unwrap_or_default();
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Time>().ok()).unwrap_or_default();
    let until = time(&stats["until"]);
    let step = text(&stats["step"]);
    let most = points.iter().filter_map(|point| point["sent"].as_u64()).max().unwrap_or(0);
    let mut table =
        Table::new([step.as_str(), "accepted", "sent", "failed", "retries", "delivered", "mean time", ""])
            .spare([7, 6, 4]);
    for point in points {
        let start = time(&point["start"]);
        let label = if step == "hour" { zone.said(start, until) } else { zone.day(start).to_string() };
        table.row([
            label,
            count(&point["accepted"]),
            count(&point["sent"]),
            count(&point["failed"]),
            count(&point["retries"]),
            share(&point["delivery_rate"]),
            lasting(&point["mean_seconds"]),
            bar(point["sent"].as_u64().unwrap_or(0), most),
        ]);
    }
    table
}

fn kpis(stats: &Value) -> Table {
    let mut table =
        Table::new(["figure", "value", "target", "over", "", "in the range"]).painted(4, |paint, text| {
            match text.trim_end() {
                "met" => paint.green(text),
                _ => paint.red(text),
            }
        });
    for kpi in items(&stats["kpis"]) {
        if kpi["value"].is_null() && kpi["value_in_range"].is_null() {
            continue;
        }
        let written = if kpi["unit"] == "seconds" { lasting } else { share };
        let met = match kpi["met"].as_bool() {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        };
        table.row([
            text(&kpi["id"]).replace('_', " "),
            written(&kpi["value"]),
            format!("{} {}", text(&kpi["comparison"]), written(&kpi["target"])),
            format!("a {}", text(&kpi["period"])),
            met.to_owned(),
            written(&kpi["value_in_range"]),
        ]);
    }
    table
}

fn attempts(stats: &Value) -> Table {
    let mut table = Table::new(["number", "made", "sent", "rate", "mean wait"]);
    for tries in items(&stats["attempts"]) {
        let wait = lasting(&tries["mean_wait_seconds"]);
        table.row([
            text(&tries["number"]),
            count(&tries["made"]),
            count(&tries["sent"]),
            share(&tries["rate"]),
            wait,
        ]);
    }
    table
}

fn errors(stats: &Value) -> Table {
    let errors = items(&stats["errors"]);
    let most = errors.iter().filter_map(|error| error["count"].as_u64()).max().unwrap_or(0);
    let mut table = Table::new(["category", "count", "share", ""]).cut(0, 12).spare([3]);
    for error in errors {
        let bar = bar(error["count"].as_u64().unwrap_or(0), most);
        table.row([text(&error["category"]), count(&error["count"]), share(&error["share"]), bar]);
    }
    table
}

fn templates(stats: &Value) -> Table {
    let mut table = Table::new(["template", "sent", "failed", "failing"]).cut(0, 12);
    for template in items(&stats["templates"]) {
        let rate = share(&template["failure_rate"]);
        table.row([text(&template["template"]), count(&template["sent"]), count(&template["failed"]), rate]);
    }
    table
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    out::tame(value.as_str().unwrap_or_default())
}

fn count(value: &Value) -> String {
    value.as_u64().unwrap_or_default().to_string()
}

/// A part of a whole, in per cent.
fn share(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// How long something took, as exactly as anybody wants to know.
fn lasting(seconds: &Value) -> String {
    let Some(seconds) = seconds.as_f64() else { return "-".to_owned() };
    let span = Span::from_millis(1_000).scaled(seconds);
    match span.millis() {
        ..1_000 => span.to_string(),
        1_000..60_000 => format!("{seconds:.1}s"),
        _ => Span::from_secs(span.millis() / 1_000).to_string(),
    }
}

fn bar(part: u64, whole: u64) -> String {
    let length = pombo_kernel::kpi::share(part, whole)
        .map_or(0, |share| Span::from_millis(BAR as u64).scaled(share).millis());
    "█".repeat(usize::try_from(length).unwrap_or(0).max(usize::from(part > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test] // REQ OB-3
    fn a_range_is_shown_step_by_step_with_bars_and_figures() {
        let stats = json!({
            "since": "2026-11-14T03:00:00Z", "until": "2026-11-16T03:00:00Z", "step": "day",
            "time_zone": "America/Sao_Paulo",
            "series": [
                {"start": "2026-11-14T03:00:00Z", "accepted": 10, "sent": 8, "failed": 2, "retries": 3,
                 "delivery_rate": 0.8, "mean_seconds": 0.25},
                {"start": "2026-11-15T03:00:00Z", "accepted": 0, "sent": 1, "failed": 0, "retries": 0,
                 "delivery_rate": 1.0, "mean_seconds": 3723.5},
            ],
            "kpis": [
                {"id": "final_delivery", "unit": "share", "period": "day", "comparison": ">", "target": 0.98,
                 "value": 1.0, "met": true, "value_in_range": 0.818},
                {"id": "mean_time_to_delivery", "unit": "seconds", "period": "day", "comparison": "<",
                 "target": 300.0, "value": 3723.5, "met": false, "value_in_range": 413.9},
                {"id": "retry_success", "unit": "share", "period": "day", "comparison": ">=", "target": 0.8,
                 "value": null, "met": null, "value_in_range": null},
            ],
            "attempts": [
                {"number": "1", "made": 11, "sent": 7, "rate": 0.636, "mean_wait_seconds": null},
                {"number": "2", "made": 3, "sent": 2, "rate": 0.667, "mean_wait_seconds": 61.2},
            ],
            "errors": [{"category": "busy", "count": 4, "share": 0.8}, {"category": "odd\u{1b}", "count": 1, "share": 0.2}],
            "templates": [],
            "time_to_delivery": {"sent": 9, "mean_seconds": 413.9, "p50_seconds": 0.5, "p95_seconds": 7200.0},
        });
        let expected = [
            "DAY         ACCEPTED  SENT  FAILED  RETRIES  DELIVERED  MEAN TIME",
            "2026-11-14  10        8     2       3        80.0 %     250ms      ████████████████████",
            "2026-11-15  0         1     0       0        100.0 %    1h2m3s     ███",
            "",
            "Figures",
            "FIGURE                 VALUE    TARGET    OVER           IN THE RANGE",
            "final delivery         100.0 %  > 98.0 %  a day  met     81.8 %",
            "mean time to delivery  1h2m3s   < 5m      a day  missed  6m53s",
            "",
            "Attempts",
            "NUMBER  MADE  SENT  RATE    MEAN WAIT",
            "1       11    7     63.6 %  -",
            "2       3     2     66.7 %  1m1s",
            "",
            "Errors of attempts",
            "CATEGORY  COUNT  SHARE",
            "busy      4      80.0 %  ████████████████████",
            "odd       1      20.0 %  █████",
            "",
            "Time to delivery: 6m53s on average, half within 500ms, 95 % within 2h",
        ];
        assert_eq!(range(&stats), expected);
    }

    #[test]
    fn whatever_was_sent_has_a_bar_that_can_be_seen() {
        assert_eq!(
            (bar(0, 100), bar(1, 1_000_000), bar(5, 5).chars().count()),
            (String::new(), "█".into(), BAR)
        );
    }
}
