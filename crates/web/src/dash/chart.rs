//! Charts: pure functions from numbers to markup. A chart has a box of fixed height, so that nothing moves when it
//! fills; its words are text beside it, so that they keep their size; and its numbers can be read as a table.

use maud::{Markup, html};

use super::parts;
use super::words::Lang;

/// One kind of thing that is counted, by its class in the stylesheet and in words.
#[derive(Clone, Copy)]
pub(crate) struct Kind<'a> {
    pub(crate) class: &'a str,
    pub(crate) words: &'a str,
}

/// What was counted in one step of time, by kind, the lowest first.
pub(crate) struct Column {
    /// When it was.
    pub(crate) label: String,
    /// The same, as short as an axis needs it.
    pub(crate) tick: String,
    pub(crate) counts: Vec<u64>,
}

/// Counts over time, one on top of the other.
pub(crate) fn columns(lang: Lang, caption: &str, kinds: &[Kind<'_>], steps: &[Column]) -> Markup {
    let sums = || steps.iter().map(|step| step.counts.iter().sum::<u64>());
    let top = round_up(sums().max().unwrap_or(0));
    let total = sums().sum::<u64>();
    let width = steps.len().max(1) * 10;
    html! {
        figure .chart {
            figcaption {
                span .name { (caption) }
                span .legend { @for kind in kinds { span class=(format!("key {}", kind.class)) { (kind.words) } } }
            }
            div .plot {
                div .scale aria-hidden="true" { span { (lang.number(top)) } span { (lang.number(top / 2)) } span { "0" } }
                svg viewBox=(format!("0 0 {width} 100")) preserveAspectRatio="none" role="img"
                    aria-label=(format!("{caption}: {}", lang.number(total))) {
                    @for y in [0, 50] { line .grid x1="0" x2=(width) y1=(y) y2=(y) {} }
                    @for (place, step) in steps.iter().enumerate() {
                        g { title { (spoken(lang, kinds, step)) }
                            rect .touch x=(place * 10) y="0" width="10" height="100" {}
                            @for (class, y, height) in stacked(kinds, &step.counts, top) {
                                rect class=(class) x=(place * 10 + 1) width="8" y=(y) height=(height) {}
                            }
                        }
                    }
                    line .axis x1="0" x2=(width) y1="100" y2="100" {}
                }
                div .ticks aria-hidden="true" { @for tick in ticks(steps) { span { (tick) } } }
            }
            details .numbers {
                summary { (lang.say("Show the numbers", "Ver os números")) }
                @let names: Vec<String> = [lang.say("Time", "Hora").to_owned()].into_iter().chain(kinds.iter().map(|kind| format!("#{}", kind.words))).collect();
                @let names: Vec<&str> = names.iter().map(String::as_str).collect();
                @let filled = steps.iter().filter(|step| step.counts.iter().any(|count| *count > 0));
                @let rows: Vec<Markup> = filled.map(|step| html! { tr {
                    th scope="row" { (step.label) }
                    @for count in &step.counts { td .num { (lang.number(*count)) } }
                } }).collect();
                (parts::table(caption, &names, &rows))
            }
        }
    }
}

fn spoken(lang: Lang, kinds: &[Kind<'_>], step: &Column) -> String {
    let counts =
        kinds.iter().zip(&step.counts).map(|(kind, count)| format!("{} {}", lang.number(*count), kind.words));
    format!("{}: {}", step.label, counts.collect::<Vec<_>>().join(", "))
}

/// Where each part of a column stands: class, top and height, in hundredths of the box.
fn stacked<'a>(kinds: &[Kind<'a>], counts: &[u64], top: u64) -> Vec<(&'a str, String, String)> {
    let mut below = 0;
    let mut parts = Vec::new();
    for (kind, count) in kinds.iter().zip(counts).filter(|(_, count)| **count > 0) {
        below += count;
        // What there is can be seen, however little it is.
        let height = part_of(*count, top).max(1.5);
        parts.push((kind.class, decimals(100.0 - part_of(below, top).max(1.5)), decimals(height)));
    }
    parts
}

#[allow(clippy::cast_precision_loss)]
fn part_of(count: u64, top: u64) -> f64 {
    if top == 0 { 0.0 } else { count as f64 * 100.0 / top as f64 }
}

pub(super) fn decimals(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The next number that reads well on an axis.
pub(super) fn round_up(most: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        for step in [2, 4, 10] {
            if let Some(top) = unit.checked_mul(step).filter(|top| *top >= most) {
                return top;
            }
        }
        match unit.checked_mul(10) {
            Some(next) => unit = next,
            None => return u64::MAX,
        }
    }
}

/// The words under an axis: five at most, evenly apart.
fn ticks(steps: &[Column]) -> Vec<&str> {
    let last = steps.len().saturating_sub(1);
    let few = last.min(4);
    let mut places: Vec<usize> = (0..=few).map(|nth| (nth * last).checked_div(few).unwrap_or(0)).collect();
    places.dedup();
    places.into_iter().filter_map(|place| steps.get(place)).map(|step| step.tick.as_str()).collect()
}

/// A line of how something went, without words: what it says must stand beside it. Where nothing is known it breaks off.
pub(crate) fn sparkline(values: &[Option<f64>]) -> Markup {
    let known = || values.iter().flatten().copied().filter(|value| value.is_finite());
    let (low, high) =
        known().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let range = high - low;
    let y = |value: f64| if range > 0.0 { 21.0 - (value - low) / range * 18.0 } else { 12.0 };
    let mut runs: Vec<Vec<String>> = vec![Vec::new()];
    for (place, value) in values.iter().enumerate() {
        match value {
            Some(value) if value.is_finite() => {
                let point = format!("{},{}", place * 10, decimals(y(*value)));
                if let Some(run) = runs.last_mut() {
                    run.push(point);
                }
            }
            _ => runs.push(Vec::new()),
        }
    }
    let width = values.len().saturating_sub(1).max(1) * 10;
    html! {
        svg .spark viewBox=(format!("0 0 {width} 24")) preserveAspectRatio="none" aria-hidden="true" {
            @for run in runs.iter().filter(|run| !run.is_empty()) {
                // A point alone is drawn as a line to itself, whose ends are round.
                @let points: Vec<&str> = if run.len() == 1 { run.iter().chain(run).map(String::as_str).collect() } else { run.iter().map(String::as_str).collect() };
                polyline points=(points.join(" ")) {}
            }
        }
    }
}

/// How much of a whole something is, as a bar beside words that say the same.
pub(crate) fn meter(share: f64, class: &str) -> Markup {
    let filled = share.clamp(0.0, 1.0) * 100.0;
    html! {
        svg class=(format!("meter {class}")) viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
            rect .all width="100" height="6" {}
            rect .some width=(decimals(filled)) height="6" {}
        }
    }
}

/// Parts of a whole side by side, by class and count; what is left of the whole stays empty. Words must say the same.
pub(crate) fn stacked_bar(label: &str, parts: &[(&str, u64)], whole: u64) -> Markup {
    let mut from = 0;
    let placed = parts.iter().filter(|(_, count)| *count > 0).map(|(class, count)| {
        let x = part_of(from, whole);
        from += count;
        (*class, decimals(x), decimals(part_of(*count, whole)))
    });
    let placed: Vec<_> = placed.collect();
    html! {
        svg .bar-of viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect .all width="100" height="10" {}
            @for (class, x, width) in placed { rect class=(class) x=(x) width=(width) height="10" {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind<'_>; 2] =
        [Kind { class: "ok", words: "sent" }, Kind { class: "bad", words: "failed" }];

    fn steps(counts: &[[u64; 2]]) -> Vec<Column> {
        let step = |(n, counts): (usize, &[u64; 2])| Column {
            label: format!("{n}:00"),
            tick: n.to_string(),
            counts: counts.to_vec(),
        };
        counts.iter().enumerate().map(step).collect()
    }

    #[test]
    fn the_axis_ends_at_a_number_that_reads_well() {
        for (most, top) in [(0, 2), (2, 2), (3, 4), (5, 10), (11, 20), (39, 40), (41, 100), (1_999, 2_000)] {
            assert_eq!(round_up(most), top, "{most}");
        }
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_column_is_as_high_as_what_it_counts() {
        assert_eq!(
            stacked(&KINDS, &[50, 25], 100),
            [("ok", "50".to_owned(), "50".to_owned()), ("bad", "25".to_owned(), "25".to_owned())]
        );
        assert_eq!(stacked(&KINDS, &[0, 0], 100), []);
    }

    #[test]
    fn what_is_hardly_anything_can_still_be_seen() {
        assert_eq!(stacked(&KINDS, &[0, 1], 100_000), [("bad", "98.5".to_owned(), "1.5".to_owned())]);
    }

    #[test]
    fn five_words_at_most_stand_under_an_axis() {
        let hours = steps(&[[1, 0]; 24]);
        assert_eq!(ticks(&hours), ["0", "5", "11", "17", "23"]);
        assert_eq!(ticks(&steps(&[[1, 0]; 2])), ["0", "1"]);
        assert_eq!(ticks(&[]), Vec::<&str>::new());
    }

    #[test]
    fn the_numbers_of_a_chart_can_be_read_as_a_table() {
        let html = columns(Lang::Pt, "Tráfego", &KINDS, &steps(&[[1_200, 3], [0, 0]])).into_string();
        assert!(html.contains(r#"<td class="num">1.200</td><td class="num">3</td>"#), "{html}");
        assert!(!html.contains("style="), "{html}");
    }

    #[test]
    fn the_parts_of_a_bar_stand_side_by_side() {
        let html = stacked_bar("half", &[("ok", 50), ("off", 0), ("bad", 25)], 200).into_string();
        assert!(html.contains(r#"<rect class="ok" x="0" width="25" height="10">"#), "{html}");
        assert!(html.contains(r#"<rect class="bad" x="25" width="12.5" height="10">"#), "{html}");
        assert!(!html.contains("off"), "{html}");
    }

    #[test]
    fn a_line_breaks_off_where_nothing_is_known() {
        let html = sparkline(&[Some(1.0), Some(3.0), None, Some(2.0)]).into_string();
        assert!(html.contains(r#"points="0,21 10,3""#), "{html}");
        assert!(html.contains(r#"points="30,12 30,12""#), "{html}");
        assert!(!sparkline(&[]).into_string().contains("polyline"));
    }
}
