//! Simulations as drawings: pure functions from outcomes to markup. What they show stands in a table beneath them, and
//! lines differ by their strokes as well as by their colour.

use maud::{Markup, html};
use pombo_kernel::rehearsal::{Act, Course, Moment, Outcome, Played, Replayed, SLOTS};
use pombo_kernel::time::Span;

use crate::dash::chart::{decimals, round_up};
use crate::dash::parts;
use crate::dash::words::Lang;

/// How wide and how high a drawing is, in units of its own.
const WIDE: f64 = 600.0;
const HIGH: f64 = 100.0;
/// Points at which a curve is looked at.
const POINTS: u32 = 240;
/// Rows of a table beneath a drawing, at most.
const ROWS: usize = 20;

/// A line of time from nothing to a length that reads well.
#[derive(Clone, Copy)]
struct Axis {
    end: Span,
}

impl Axis {
    /// Long enough for that, in four equal parts.
    fn until(span: Span) -> Axis {
        const SECONDS: [u64; 20] = [
            1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
            172_800, 604_800,
        ];
        let part = SECONDS.into_iter().find(|part| part * 4_000 >= span.millis());
        let end = part.map_or(span, |part| Span::from_secs(part * 4));
        Axis { end }
    }

    fn x(self, at: Span) -> f64 {
        (at.seconds() / self.end.seconds().max(0.001)).min(1.0) * WIDE
    }

    fn ticks(self, lang: Lang) -> [String; 5] {
        [0, 1, 2, 3, 4].map(|part| match Span::from_millis(self.end.millis() / 4 * part) {
            Span::ZERO => "0".to_owned(),
            at => lang.span(at),
        })
    }
}

fn y(share: f64) -> f64 {
    HIGH - share.clamp(0.0, 1.0) * HIGH
}

/// How an act is called, and by which class it is drawn.
pub(super) fn act(lang: Lang, act: Act) -> (&'static str, &'static str) {
    match act {
        Act::Fixed => (lang.say("fixed", "fixa"), "act-fixed"),
        Act::New => (lang.say("adaptive, new", "adaptativa, sem histórico"), "act-new"),
        Act::Taught => (lang.say("adaptive", "adaptativa"), "act-taught"),
    }
}

/// The stroke of an act, beside its name.
pub(super) fn swatch(class: &str) -> Markup {
    html! { svg .swatch viewBox="0 0 26 8" aria-hidden="true" { path class=(format!("curve {class}")) d="M0 4H26" {} } }
}

/// A figure: its name, who is in it, what is drawn, and the same in numbers.
struct Figure<'a> {
    id: &'a str,
    name: &'a str,
    /// What can be read from it, in a sentence.
    told: &'a str,
    legend: Markup,
    drawn: Markup,
    columns: Vec<&'a str>,
    rows: Vec<Markup>,
}

impl Figure<'_> {
    fn markup(self, lang: Lang) -> Markup {
        let Figure { id, name, told, legend, drawn, columns, rows } = self;
        html! {
            section .card aria-labelledby=(id) {
                figure .chart {
                    figcaption { h2 id=(id) { (name) } span .legend { (legend) } }
                    p .hint { (told) }
                    (drawn)
                    details .numbers {
                        summary { (lang.say("Show the numbers", "Ver os números")) }
                        (parts::table(name, &columns, &rows))
                    }
                }
            }
        }
    }
}

/// One field of a drawing with its scales. Its words are a title and a description, and numbers stand beside it.
fn plot(
    lang: Lang,
    axis: Axis,
    scale: [String; 3],
    id: &str,
    (title, told): (&str, &str),
    inside: &Markup,
) -> Markup {
    let (named, described) = (format!("{id}-t"), format!("{id}-d"));
    html! {
        div .plot {
            div .scale aria-hidden="true" { @for words in scale { span { (words) } } }
            svg viewBox=(format!("0 0 {WIDE} {HIGH}")) preserveAspectRatio="none" role="img"
                aria-labelledby=(named) aria-describedby=(described) {
                title id=(named) { (title) }
                desc id=(described) { (told) }
                @for y in [0, 50] { line .grid x1="0" x2="600" y1=(y) y2=(y) {} }
                (inside)
                line .axis x1="0" x2="600" y1="100" y2="100" {}
            }
            div .ticks aria-hidden="true" { @for tick in axis.ticks(lang) { span { (tick) } } }
        }
    }
}

fn percents() -> [String; 3] {
    ["100%", "50%", "0"].map(str::to_owned)
}

/// A line that only goes up, drawn where it changes.
fn climbing(axis: Axis, share: impl Fn(Span) -> f64) -> String {
    let mut path = format!("M0 {}", decimals(y(0.0)));
    let mut last = decimals(y(0.0));
    for point in 1..=POINTS {
        let at = axis.end.scaled(f64::from(point) / f64::from(POINTS));
        let now = decimals(y(share(at)));
        if now != last {
            path.push_str(&format!("H{}V{now}", decimals(axis.x(at))));
            last = now;
        }
    }
    path + &format!("H{}", decimals(WIDE))
}

/// The share that was delivered after all, by how long after its first failure.
pub(super) fn recovery(lang: Lang, played: &[Played]) -> Markup {
    let last = played.iter().filter_map(|it| it.outcome.times.last()).max().copied().unwrap_or_default();
    let axis = Axis::until(last);
    let name = lang.say("Recovered over time", "Recuperadas ao longo do tempo");
    let told = lang.say(
        "The share of the messages that failed at first which had been delivered, by the time since their first failure. The sooner a line is high, the better.",
        "A parte das mensagens que falharam primeiro e já tinham sido entregues, pelo tempo desde a primeira falha. Quanto antes a linha estiver alta, melhor.",
    );
    let ends =
        played.iter().map(|it| format!("{} {}", act(lang, it.act).0, lang.percent(it.outcome.share())));
    let said = ends.collect::<Vec<_>>().join("; ");
    let inside = html! { @for it in played {
        @let (words, class) = act(lang, it.act);
        g { title { (words) ": " (lang.percent(it.outcome.share())) } path class=(format!("curve {class}")) d=(climbing(axis, |at| it.outcome.by(at))) {} }
    } };
    let times = (1..=12_u64).map(|part| Span::from_millis(axis.end.millis() / 12 * part));
    let rows = times.map(|at| {
        html! { tr {
            th scope="row" { (lang.span(at)) }
            @for it in played { td .num { (lang.percent(it.outcome.by(at))) } }
        } }
    });
    let names: Vec<String> = played.iter().map(|it| format!("#{}", act(lang, it.act).0)).collect();
    let columns =
        [lang.say("Within", "Em até")].into_iter().chain(names.iter().map(String::as_str)).collect();
    let drawn = html! { div .tall { (plot(lang, axis, percents(), "recovery", (name, &said), &inside)) } };
    Figure {
        id: "recovery-title",
        name,
        told,
        legend: keys(lang, played),
        drawn,
        columns,
        rows: rows.collect(),
    }
    .markup(lang)
}

fn keys(lang: Lang, played: &[Played]) -> Markup {
    html! { @for it in played { @let (words, class) = act(lang, it.act); span .sample { (swatch(class)) (words) } } }
}

/// The attempts that the provider sees, act by act on the same scale, while the trouble lasts and after it.
pub(super) fn load(lang: Lang, played: &[Played], trouble: Span) -> Markup {
    let slot = played.first().map_or(Span::ZERO, |it| it.outcome.slot);
    // The last slot is all that is later, which is no moment.
    let slots = |outcome: &Outcome| {
        outcome.load.iter().take(SLOTS - 1).rposition(|count| *count > 0).unwrap_or(0) + 1
    };
    let used = played.iter().map(|it| slots(&it.outcome)).max().unwrap_or(1);
    let axis = Axis::until(times(slot, used).max(trouble));
    let top = round_up(played.iter().map(|it| most(&it.outcome)).max().unwrap_or(0));
    let name = lang.say("Load on the provider", "Carga no provedor");
    let each = lang.span(slot);
    let told = lang.say(
        format!("Attempts of all messages in every {each} since the trouble began, all outages one upon the other. The ground is shaded as long as the longest of them lasts."),
        format!("Tentativas de todas as mensagens a cada {each} desde o começo do problema, todas as quedas sobrepostas. O fundo é sombreado enquanto dura a mais longa."),
    );
    let drawn = html! { div .panels { @for it in played {
        @let (words, class) = act(lang, it.act);
        @let peak = lang.number(most(&it.outcome));
        @let later = it.outcome.load.last().copied().unwrap_or(0);
        @let said = lang.say(format!("{} attempts in all, at most {peak} in {each}", lang.number(sum(&it.outcome))), format!("{} tentativas ao todo, no máximo {peak} em {each}", lang.number(sum(&it.outcome))));
        div .panel {
            p .row { (swatch(class)) strong { (words) } span .quiet { (said) @if later > 0 { ", " (lang.say(format!("{} later than is drawn", lang.number(later)), format!("{} depois do que se vê", lang.number(later)))) } } }
            (plot(lang, axis, [lang.number(top), lang.number(top / 2), "0".to_owned()], class, (words, &said), &html! {
                path .shade d=(format!("M0 0H{}V100H0Z", decimals(axis.x(trouble)))) {}
                path class=(format!("mass {class}")) d=(bars(axis, slot, &it.outcome.load[..used.min(SLOTS - 1)], top)) {}
            }))
        }
    } } };
    let group = used.div_ceil(ROWS);
    let rows = (0..used).step_by(group).map(|from| html! { tr {
        th scope="row" { (lang.span(times(slot, from))) " – " (lang.span(times(slot, from + group))) }
        @for it in played { td .num { (lang.number(it.outcome.load.iter().take(SLOTS - 1).skip(from).take(group).sum())) } }
    } });
    let names: Vec<String> = played.iter().map(|it| format!("#{}", act(lang, it.act).0)).collect();
    let columns = [lang.say("Time", "Tempo")].into_iter().chain(names.iter().map(String::as_str)).collect();
    let figure = Figure {
        id: "load-title",
        name,
        told: &told,
        legend: html! {},
        drawn,
        columns,
        rows: rows.collect(),
    };
    figure.markup(lang)
}

fn times(slot: Span, count: usize) -> Span {
    Span::from_millis(slot.millis().saturating_mul(count as u64))
}

fn sum(outcome: &Outcome) -> u64 {
    outcome.load.iter().sum()
}

fn most(outcome: &Outcome) -> u64 {
    outcome.load.iter().take(SLOTS - 1).copied().max().unwrap_or(0)
}

/// Columns without gaps, as one shape.
#[allow(clippy::cast_precision_loss)]
fn bars(axis: Axis, slot: Span, load: &[u64], top: u64) -> String {
    let mut path = "M0 100".to_owned();
    for (place, count) in load.iter().enumerate() {
        let high = decimals(y(*count as f64 / top.max(1) as f64));
        path.push_str(&format!("V{high}H{}", decimals(axis.x(times(slot, place + 1)))));
    }
    path + "V100Z"
}

/// One way to wait, held against a record.
pub(super) struct Held {
    pub(super) act: Act,
    pub(super) replayed: Replayed,
}

/// The share that would have been delivered, between the worst case and the best.
pub(super) fn bounds(lang: Lang, held: &[Held]) -> Markup {
    let axis = reach(held);
    let name = lang.say("Recovered over time", "Recuperadas ao longo do tempo");
    let told = lang.say(
        "The share that would have been delivered, by the time since the first failure. The truth lies in the band: its upper edge is the best case, the broken one the worst.",
        "A parte que teria sido entregue, pelo tempo desde a primeira falha. A verdade está na faixa: a borda de cima é o melhor caso, a tracejada o pior.",
    );
    let drawn = html! { div .panels { @for it in held {
        @let (words, class) = act(lang, it.act);
        @let Replayed { worst, best, .. } = &it.replayed;
        @let said = lang.say(format!("{} to {} recovered", lang.percent(worst.recovered), lang.percent(best.recovered)), format!("de {} a {} recuperadas", lang.percent(worst.recovered), lang.percent(best.recovered)));
        div .panel {
            p .row { (swatch(class)) strong { (words) } span .quiet { (said) } }
            (plot(lang, axis, percents(), &format!("band-{class}"), (words, &said), &html! {
                path class=(format!("mass band {class}")) d=(band(axis, worst, best)) {}
                path class=(format!("curve {class} whole")) d=(climbing(axis, |at| by(best, at))) {}
                path class=(format!("curve {class} worst")) d=(climbing(axis, |at| by(worst, at))) {}
            }))
        }
    } } };
    let rows = moments(lang, held, |worst, best| (worst.recovered, best.recovered));
    let columns = moment_columns(lang, lang.say("#Recovered, at worst", "#Recuperadas, no pior caso"));
    Figure { id: "bounds-title", name, told, legend: html! {}, drawn, columns, rows }.markup(lang)
}

/// How many of the failed messages make each retry, between the worst case and the best.
pub(super) fn tries(lang: Lang, held: &[Held]) -> Markup {
    let axis = reach(held);
    let name = lang.say("Load on the provider", "Carga no provedor");
    let told = lang.say(
        "The share of the failed messages that make each retry: filled as many as in the best case, pale as many more as in the worst.",
        "A parte das mensagens com falha que faz cada nova tentativa: cheio o que é no melhor caso, claro o que ainda vem no pior.",
    );
    let drawn = html! { div .panels { @for it in held {
        @let (words, class) = act(lang, it.act);
        @let Replayed { worst, best, .. } = &it.replayed;
        @let sum = |course: &Course| lang.decimal(course.moments.iter().map(|it| it.tried).sum(), 2);
        @let said = lang.say(format!("{} to {} retries for each failed message", sum(best), sum(worst)), format!("de {} a {} novas tentativas por mensagem com falha", sum(best), sum(worst)));
        div .panel {
            p .row { (swatch(class)) strong { (words) } span .quiet { (said) } }
            (plot(lang, axis, percents(), &format!("tries-{class}"), (words, &said), &html! {
                path class=(format!("mass band {class}")) d=(pillars(axis, &worst.moments)) {}
                path class=(format!("mass {class}")) d=(pillars(axis, &best.moments)) {}
            }))
        }
    } } };
    let rows = moments(lang, held, |worst, best| (worst.tried, best.tried));
    let columns = moment_columns(lang, lang.say("#Tried, at worst", "#Tentadas, no pior caso"));
    Figure { id: "tries-title", name, told, legend: html! {}, drawn, columns, rows }.markup(lang)
}

fn reach(held: &[Held]) -> Axis {
    let last = held.iter().filter_map(|it| it.replayed.worst.moments.last()).map(|it| it.at).max();
    Axis::until(last.unwrap_or_default().scaled(1.02))
}

fn by(course: &Course, at: Span) -> f64 {
    let made = course.moments.iter().rev().find(|moment| moment.at <= at);
    made.map_or(0.0, |moment| moment.recovered)
}

/// What lies between the two: up along the one and back along the other.
fn band(axis: Axis, worst: &Course, best: &Course) -> String {
    let mut path = "M0 100".to_owned();
    for moment in &best.moments {
        path.push_str(&format!("H{}V{}", decimals(axis.x(moment.at)), decimals(y(moment.recovered))));
    }
    path.push_str(&format!("H{}", decimals(WIDE)));
    for moment in worst.moments.iter().rev() {
        path.push_str(&format!("V{}H{}", decimals(y(moment.recovered)), decimals(axis.x(moment.at))));
    }
    path + "V100Z"
}

/// A column for each retry.
fn pillars(axis: Axis, moments: &[Moment]) -> String {
    let pillar = |moment: &Moment| {
        let x = (axis.x(moment.at) - 4.0).max(0.0);
        format!("M{} 100V{}h8V100Z", decimals(x), decimals(y(moment.tried)))
    };
    moments.iter().map(pillar).collect()
}

fn moment_columns(lang: Lang, worst: &str) -> Vec<&str> {
    let best = lang.say("#At best", "#No melhor caso");
    vec![
        lang.say("Waits", "Esperas"),
        lang.say("#Retry", "#Nova tentativa"),
        lang.say("#After", "#Depois de"),
        worst,
        best,
    ]
}

fn moments(lang: Lang, held: &[Held], of: fn(&Moment, &Moment) -> (f64, f64)) -> Vec<Markup> {
    let mut rows = Vec::new();
    for it in held {
        let Replayed { worst, best, .. } = &it.replayed;
        for (place, (worst, best)) in worst.moments.iter().zip(&best.moments).enumerate().take(ROWS) {
            let (low, high) = of(worst, best);
            rows.push(html! { tr {
                th scope="row" { (act(lang, it.act).0) }
                td .num { (place + 1) }
                td .num { (lang.span(worst.at)) }
                td .num { (lang.percent(low)) }
                td .num { (lang.percent(high)) }
            } });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use pombo_kernel::policy::{Policy, Profile};
    use pombo_kernel::rehearsal::{Comparison, Scenario};

    use super::*;

    fn played(scenario: &str) -> [Played; 3] {
        let scenario = Scenario::published(scenario).unwrap();
        let policy = Policy::built_in("smtp", Profile::Production).unwrap();
        Comparison::new(&scenario, 500, scenario.slot(&policy), 1).of(&policy)
    }

    #[test]
    fn a_line_of_time_ends_at_a_length_that_reads_well() {
        for (secs, end) in [(1, 4), (4, 4), (5, 8), (70, 120), (700, 1_200), (3_700, 7_200), (9_000, 14_400)]
        {
            assert_eq!(Axis::until(Span::from_secs(secs)).end, Span::from_secs(end), "{secs}");
        }
        let axis = Axis::until(Span::from_mins(18));
        assert_eq!(axis.ticks(Lang::En), ["0", "5 min", "10 min", "15 min", "20 min"]);
        assert_eq!((axis.x(Span::from_mins(10)), axis.x(Span::from_hours(9))), (300.0, 600.0));
    }

    #[test]
    fn a_curve_is_drawn_only_where_it_changes() {
        let axis = Axis { end: Span::from_secs(240) };
        let share = |at: Span| if at >= Span::from_secs(60) { 0.5 } else { 0.0 };
        assert_eq!(climbing(axis, share), "M0 100H150V50H600");
    }

    #[test]
    fn drawings_are_light_and_are_told_in_words_and_numbers() {
        for lang in Lang::ALL {
            let played = played("outage");
            for html in [recovery(lang, &played), load(lang, &played, Span::from_mins(150))] {
                let html = html.into_string();
                assert!(
                    html.contains("<title") && html.contains("<desc") && html.contains("<table"),
                    "{html}"
                );
                assert!(html.len() < 12_000 && !html.contains("style="), "{} bytes", html.len());
            }
        }
    }

    #[test]
    fn what_was_tried_is_drawn_at_its_moment() {
        let axis = Axis { end: Span::from_secs(60) };
        let moment = |secs, tried, recovered| Moment { at: Span::from_secs(secs), tried, recovered };
        assert_eq!(pillars(axis, &[moment(30, 1.0, 0.5)]), "M296 100V0h8V100Z");
        let course = |recovered| Course {
            recovered,
            wasted_each: 0.0,
            median: None,
            p90: None,
            moments: vec![moment(30, 1.0, recovered)],
        };
        assert_eq!(band(axis, &course(0.25), &course(0.75)), "M0 100H300V25H600V75H300V100Z");
    }
}
