//! A retry policy as a timeline: pure functions from its schedule to markup. The picture has its words and numbers in
//! it as text, and all of them once more in a table.

use maud::{Markup, html};
use pombo_kernel::backoff::{Step, schedule};
use pombo_kernel::policy::{Delays, Policy};
use pombo_kernel::time::Span;

use super::chart::decimals;
use super::parts;
use super::words::Lang;

/// Attempts that are drawn, and rows of the table: of more, the first ones and the last.
const DRAWN: usize = 40;
/// The first retry stands so far from the first attempt, as a part of the line.
const FIRST_APART: f64 = 0.06;
/// Words under the line keep this much of its length apart.
const APART: f64 = 18.0;

/// Everything there is to say of a policy in one line: `5 attempts: 1 s, doubling up to 5 min, ±25%`.
pub(crate) fn summary(lang: Lang, policy: &Policy) -> String {
    let attempts = lang.count(policy.attempts.into(), ("attempt", "attempts"), ("tentativa", "tentativas"));
    let waits = match &policy.delays {
        Delays::Listed(list) => list.iter().map(|wait| exact(lang, *wait)).collect::<Vec<_>>().join(", "),
        Delays::Doubling { base } => {
            let (base, cap) = (exact(lang, *base), exact(lang, policy.cap));
            lang.say(format!("{base}, doubling up to {cap}"), format!("{base}, dobrando até {cap}"))
        }
    };
    let swing =
        if policy.jitter > 0.0 { format!(", ±{}", lang.percent(policy.jitter)) } else { String::new() };
    if policy.attempts > 1 { format!("{attempts}: {waits}{swing}") } else { attempts }
}

/// A length of time to the hundredth of a second where it is short: what jitter does to it has to be seen.
pub(crate) fn exact(lang: Lang, span: Span) -> String {
    match span.millis() {
        0 => "0 s".to_owned(),
        ms if ms < 60_000 && ms % 10 == 0 => {
            format!("{} s", lang.say(decimals(span.seconds()), decimals(span.seconds()).replace('.', ",")))
        }
        _ => lang.span(span),
    }
}

/// From the one to the other; one of them where they are the same.
pub(crate) fn between(lang: Lang, from: Span, to: Span) -> String {
    match from == to {
        true => exact(lang, from),
        false => format!("{} – {}", exact(lang, from), exact(lang, to)),
    }
}

/// How long it takes in all, from the first attempt to the last.
pub(crate) fn total(lang: Lang, policy: &Policy) -> String {
    let end = schedule(policy).last().map_or((Span::ZERO, Span::ZERO), |last| (last.earliest, last.latest));
    between(lang, end.0, end.1)
}

/// One attempt on the line: which one, where it is without jitter, and between which places it swings, in hundredths.
#[derive(Debug, PartialEq)]
struct Mark {
    number: u16,
    at: f64,
    from: f64,
    to: f64,
    /// How long after the first attempt, without jitter.
    after: Span,
}

/// How much the line is stretched towards its beginning, where attempts are close together: at least so that the first
/// retry stands apart from what it follows.
fn stretch(first: Span, end: Span) -> f64 {
    match first.seconds() / end.seconds() {
        part if part > 0.0 && part < 1.0 => (FIRST_APART.ln() / part.ln()).min(0.5),
        _ => 0.5,
    }
}

/// Where the attempts stand.
fn marks(policy: &Policy, steps: &[Step]) -> Vec<Mark> {
    let end = steps.last().map_or(Span::ZERO, |last| last.latest);
    let power = stretch(steps.first().map_or(Span::ZERO, |first| first.earliest), end);
    let place = |after: Span| match end {
        Span::ZERO => 2.0,
        end => 2.0 + 96.0 * (after.seconds() / end.seconds()).powf(power),
    };
    let first = Mark { number: 1, at: place(Span::ZERO), from: 2.0, to: 2.0, after: Span::ZERO };
    let mut after = Span::ZERO;
    let rest = steps.iter().map(|step| {
        after = after + step.nominal.clamp(policy.floor, policy.cap.max(policy.floor));
        Mark {
            number: step.number,
            at: place(after),
            from: place(step.earliest),
            to: place(step.latest),
            after,
        }
    });
    [first].into_iter().chain(rest).collect()
}

/// Those that are shown of many, in order.
fn some<T>(all: &[T]) -> Vec<&T> {
    let few = all.len() <= DRAWN;
    let (head, tail) = if few { (all.len(), 0) } else { (DRAWN - 1, 1) };
    all.iter().take(head).chain(all.iter().skip(all.len() - tail)).collect()
}

/// The places of the words under the line: the first and the last, and as many between as have room.
fn labelled(marks: &[&Mark]) -> Vec<usize> {
    let Some(last) = marks.len().checked_sub(1) else { return Vec::new() };
    let mut chosen = vec![0];
    let mut before = marks[0].at;
    for (place, mark) in marks.iter().enumerate().take(last).skip(1) {
        if mark.at - before >= APART && marks[last].at - mark.at >= APART {
            before = mark.at;
            chosen.push(place);
        }
    }
    chosen.extend((last > 0).then_some(last));
    chosen
}

fn percent(place: f64) -> String {
    format!("{}%", decimals(place))
}

/// The attempts of one round on a line of time, each with the band that it swings in.
pub(crate) fn strip(lang: Lang, policy: &Policy) -> Markup {
    let steps = schedule(policy);
    let marks = marks(policy, &steps);
    let drawn = some(&marks);
    let words = labelled(&drawn);
    let bounds = |mark: &Mark| {
        let step = steps.iter().find(|step| step.number == mark.number);
        step.map_or((Span::ZERO, Span::ZERO), |step| (step.earliest, step.latest))
    };
    let said = |mark: &Mark| {
        let (earliest, latest) = bounds(mark);
        let when = between(lang, earliest, latest);
        lang.say(
            format!("attempt {}: {when} after the first", mark.number),
            format!("tentativa {}: {when} depois da primeira", mark.number),
        )
    };
    let anchor = |mark: &Mark| if mark.at > 93.0 { "end" } else { "middle" };
    // Numbers stand over the line where they do not run into each other.
    let crowded =
        |place: usize| place > 0 && drawn[place].at - drawn[place - 1].at < 3.0 && place + 1 < drawn.len();
    html! {
        svg .strip width="100%" height="76" role="img" aria-label=(summary(lang, policy)) {
            line .axis x1="2%" x2="98%" y1="38" y2="38" {}
            @for (place, mark) in drawn.iter().enumerate() {
                g {
                    title { (said(mark)) }
                    @if mark.to > mark.from {
                        rect .band x=(percent(mark.from)) width=(percent(mark.to - mark.from)) y="27" height="22" rx="4" {}
                    }
                    circle cx=(percent(mark.at)) cy="38" r="5" {}
                    @if !crowded(place) { text .nth x=(percent(mark.at)) y="18" text-anchor="middle" { (mark.number) } }
                    @if words.contains(&place) { text x=(percent(mark.at)) y="68" text-anchor=(anchor(mark)) { (exact(lang, mark.after)) } }
                }
            }
        }
    }
}

/// The same in numbers.
pub(crate) fn numbers(lang: Lang, policy: &Policy) -> Markup {
    let steps = schedule(policy);
    let shown = some(&steps);
    let columns = [
        lang.say("Attempt", "Tentativa"),
        lang.say("#Wait before it", "#Espera antes"),
        lang.say("#With jitter", "#Com variação"),
        lang.say("#After the first", "#Depois da primeira"),
    ];
    let mut rows = vec![html! { tr {
        th scope="row" { "1" } td .num { (parts::none()) } td .num { (parts::none()) } td .num { (exact(lang, Span::ZERO)) }
    } }];
    rows.extend(shown.iter().map(|step| {
        html! { tr {
            th scope="row" { (step.number) }
            td .num { (exact(lang, step.nominal)) }
            td .num { (between(lang, step.shortest, step.longest)) }
            td .num { (between(lang, step.earliest, step.latest)) }
        } }
    }));
    let title = lang.say("Schedule", "Agenda");
    html! { (parts::table(&format!("{title}: {}", policy.name), &columns, &rows)) }
}

#[cfg(test)]
mod tests {
    use pombo_kernel::policy::{Overrides, Profile};

    use super::*;

    fn built_in(name: &str) -> Policy {
        Policy::built_in(name, Profile::Production).unwrap()
    }

    #[test]
    fn a_policy_is_said_in_one_line() {
        assert_eq!(summary(Lang::En, &built_in("smtp")), "5 attempts: 1 s, doubling up to 5 min, ±25%");
        assert_eq!(summary(Lang::Pt, &built_in("whatsapp")), "4 tentativas: 5 s, 30 s, 5 min");
    }

    #[test] // REQ RP-1
    fn the_numbers_of_smtp_are_those_that_were_published() {
        let html = numbers(Lang::En, &built_in("smtp")).into_string();
        for words in ["0.75 s – 1.25 s", "1.5 s – 2.5 s", "3 s – 5 s", "6 s – 10 s", "11.25 s – 18.75 s"]
        {
            assert!(html.contains(words), "{words}: {html}");
        }
    }

    #[test] // REQ RP-2
    fn the_numbers_of_claims_are_those_that_were_published() {
        let html = numbers(Lang::Pt, &built_in("claims")).into_string();
        for words in [
            "5 min – 6 min",
            "8 min – 12 min",
            "16 min – 24 min",
            "32 min – 48 min",
            "1 h 4 min – 1 h 36 min",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
        assert_eq!(total(Lang::En, &built_in("claims")), "2 h 5 min – 3 h 6 min");
    }

    #[test]
    fn an_attempt_stands_within_its_band_and_all_of_them_on_the_line() {
        for name in Policy::BUILT_IN {
            let policy = built_in(name);
            let marks = marks(&policy, &schedule(&policy));
            assert_eq!(marks.len(), usize::from(policy.attempts), "{name}");
            for mark in &marks {
                assert!(mark.from <= mark.at + 0.001 && mark.at <= mark.to + 0.001, "{name}: {mark:?}");
                assert!(mark.from >= 2.0 && mark.to <= 98.001, "{name}: {mark:?}");
            }
        }
    }

    #[test]
    fn the_first_retry_stands_apart_however_long_the_last_one_waits() {
        for name in Policy::BUILT_IN {
            let policy = built_in(name);
            let marks = marks(&policy, &schedule(&policy));
            assert!(marks[1].at - marks[0].at > 5.0, "{name}: {marks:?}");
        }
    }

    #[test]
    fn what_does_not_swing_has_no_band() {
        assert!(!strip(Lang::En, &built_in("whatsapp")).into_string().contains("band"));
        assert_eq!(strip(Lang::En, &built_in("smtp")).into_string().matches("\"band\"").count(), 4);
    }

    #[test]
    fn a_policy_of_a_thousand_attempts_is_drawn_with_its_first_ones_and_its_last() {
        let many = built_in("smtp").with(&Overrides { attempts: Some(1_000), ..Overrides::default() });
        let html = strip(Lang::En, &many).into_string();
        assert_eq!(html.matches("<circle").count(), DRAWN);
        assert!(html.contains("attempt 1000:") && html.len() < 20_000, "{}", html.len());
        assert_eq!(numbers(Lang::En, &many).into_string().matches("<tr>").count(), DRAWN + 2);
    }

    #[test]
    fn one_attempt_alone_is_a_point() {
        let once = built_in("whatsapp").with(&Overrides { attempts: Some(1), ..Overrides::default() });
        assert_eq!(strip(Lang::En, &once).into_string().matches("<circle").count(), 1);
        assert_eq!((summary(Lang::En, &once), total(Lang::En, &once)), ("1 attempt".into(), "0 s".into()));
    }
}
