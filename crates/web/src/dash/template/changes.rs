//! Two versions side by side: which lines went, and which came.

use maud::{Markup, html};
use pombo_kernel::template::Part;

use super::Words;
use crate::dash::templates::part;
use crate::dash::words::Lang;

/// Lines around a change that are shown with it.
const AROUND: usize = 3;
/// So many pairs of lines are compared; where there are more, all of one is taken for gone and all of the other for new.
const PAIRS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// The lines of both, in order, as few gone and new as can be.
fn compared<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (from, to) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut lines: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    if from.len().saturating_mul(to.len()) > PAIRS_MAX {
        lines.extend(from.iter().map(|line| Line::Gone(line)));
        lines.extend(to.iter().map(|line| Line::New(line)));
    } else {
        // How many lines the ends of the two have in common, from each pair of places on.
        let width = to.len() + 1;
        let mut common = vec![0_u32; (from.len() + 1) * width];
        for i in (0..from.len()).rev() {
            for j in (0..to.len()).rev() {
                common[i * width + j] = match from[i] == to[j] {
                    true => common[(i + 1) * width + j + 1] + 1,
                    false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < from.len() || j < to.len() {
            match (from.get(i), to.get(j)) {
                (Some(a), Some(b)) if a == b => {
                    lines.push(Line::Same(a));
                    (i, j) = (i + 1, j + 1);
                }
                (Some(a), b) if b.is_none() || common[(i + 1) * width + j] >= common[i * width + j + 1] => {
                    lines.push(Line::Gone(a));
                    i += 1;
                }
                (_, Some(b)) => {
                    lines.push(Line::New(b));
                    j += 1;
                }
                (_, None) => break,
            }
        }
    }
    lines.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    lines
}

/// What is shown of them: the changes with a few lines around, and nothing for what was passed over.
fn shown<'a>(lines: &[Line<'a>]) -> Vec<Option<Line<'a>>> {
    let changed: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !matches!(line, Line::Same(_)))
        .map(|(at, _)| at)
        .collect();
    let mut all = Vec::new();
    let mut next = 0;
    for at in changed {
        let from = at.saturating_sub(AROUND).max(next);
        if from > next {
            all.push(None);
        }
        let to = (at + AROUND + 1).min(lines.len());
        all.extend(lines[from.min(to)..to].iter().copied().map(Some));
        next = next.max(to);
    }
    if next < lines.len() {
        all.push(None);
    }
    all
}

/// How `new` differs from `old`, part by part.
pub(super) fn between(lang: Lang, old: &Words, new: &Words) -> Markup {
    let parts = Part::ALL.into_iter().filter_map(|one| {
        let (old, new) = (old.part(one).unwrap_or_default(), new.part(one).unwrap_or_default());
        (old != new).then(|| (one, compared(old, new)))
    });
    let parts: Vec<_> = parts.collect();
    let title = lang.say(
        format!("From version {} to {}", old.version, new.version),
        format!("Da versão {} à {}", old.version, new.version),
    );
    let removed = lang.say("removed:", "removida:");
    let added = lang.say("added:", "acrescentada:");
    html! {
        section .card aria-labelledby="changes-title" {
            header { h2 #changes-title { (title) } }
            @if parts.is_empty() { p { (lang.say("They say the same.", "Dizem o mesmo.")) } }
            @for (one, lines) in &parts {
                h3 { (part(lang, one.as_str())) }
                div .changes {
                    @for line in shown(lines) { @match line {
                        None => div .skipped { "⋯" },
                        Some(Line::Same(text)) => div { span aria-hidden="true" { "  " } (text) },
                        Some(Line::Gone(text)) => div .gone { span aria-hidden="true" { "− " } span .unseen { (removed) " " } (text) },
                        Some(Line::New(text)) => div .new { span aria-hidden="true" { "+ " } span .unseen { (added) " " } (text) },
                    } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_stay_are_found_again() {
        use Line::{Gone, New, Same};
        let cases: [(&str, &str, &[Line<'_>]); 5] = [
            ("a\nb\nc", "a\nx\nc", &[Same("a"), Gone("b"), New("x"), Same("c")]),
            ("", "a", &[New("a")]),
            ("a", "", &[Gone("a")]),
            ("a\nb", "b\nc", &[Gone("a"), Same("b"), New("c")]),
            ("a\na", "a", &[Same("a"), Gone("a")]),
        ];
        for (old, new, lines) in cases {
            assert_eq!(compared(old, new), lines, "{old:?} {new:?}");
        }
    }

    #[test]
    fn what_is_far_from_a_change_is_passed_over() {
        let old: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let mut new = old.clone();
        new[10] = "x".to_owned();
        let (old, new) = (old.join("\n"), new.join("\n"));
        let lines = compared(&old, &new);
        let shown = shown(&lines);
        assert_eq!((shown.first(), shown.last()), (Some(&None), Some(&None)));
        assert_eq!(shown.len(), 2 + 3 + 2 + 3);
    }

    proptest::proptest! {
        #[test]
        fn the_two_can_be_read_out_of_it(old in "[ab\n]{0,40}", new in "[ab\n]{0,40}") {
            let lines = compared(&old, &new);
            let before: Vec<&str> = lines.iter().filter_map(|it| match it { Line::Same(text) | Line::Gone(text) => Some(*text), Line::New(_) => None }).collect();
            let after: Vec<&str> = lines.iter().filter_map(|it| match it { Line::Same(text) | Line::New(text) => Some(*text), Line::Gone(_) => None }).collect();
            proptest::prop_assert_eq!(before, old.lines().collect::<Vec<_>>());
            proptest::prop_assert_eq!(after, new.lines().collect::<Vec<_>>());
        }
    }
}
