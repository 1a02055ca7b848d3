//! What differs between two texts, line beside line.

use maud::{Markup, html};

use crate::dash::words::Lang;

/// Lines around a difference that are shown with it.
const AROUND: usize = 3;
/// Texts whose lines cannot be paired within so many steps are shown as one against the other.
const STEPS_MAX: usize = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row<'a> {
    Same(&'a str),
    /// A line that went, one that came, or one that became another.
    Other(Option<&'a str>, Option<&'a str>),
    /// So many lines that are the same, left out.
    Skipped(usize),
}

/// The rows of two texts side by side, without what is far from any difference.
pub(super) fn rows<'a>(before: &'a str, after: &'a str) -> Vec<Row<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_core, new_core) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut all: Vec<Row<'a>> = old[..head].iter().map(|line| Row::Same(line)).collect();
    all.extend(core(old_core, new_core));
    all.extend(old[old.len() - tail..].iter().map(|line| Row::Same(line)));
    folded(all)
}

/// The rows of what lies between the first difference and the last.
fn core<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let (mut gone, mut come): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    if old.len().saturating_mul(new.len()) > STEPS_MAX {
        paired(&mut rows, &mut old.to_vec(), &mut new.to_vec());
        return rows;
    }
    // How many lines two ends of the texts have in common, in order.
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            paired(&mut rows, &mut gone, &mut come);
            rows.push(Row::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
            gone.push(old[i]);
            i += 1;
        } else {
            come.push(new[j]);
            j += 1;
        }
    }
    gone.extend(&old[i..]);
    come.extend(&new[j..]);
    paired(&mut rows, &mut gone, &mut come);
    rows
}

/// Lines that went beside those that came in their place.
fn paired<'a>(rows: &mut Vec<Row<'a>>, gone: &mut Vec<&'a str>, come: &mut Vec<&'a str>) {
    for place in 0..gone.len().max(come.len()) {
        rows.push(Row::Other(gone.get(place).copied(), come.get(place).copied()));
    }
    gone.clear();
    come.clear();
}

/// Leaves out what is the same, but for some lines around each difference.
fn folded(all: Vec<Row<'_>>) -> Vec<Row<'_>> {
    let near: Vec<bool> = (0..all.len())
        .map(|place| {
            let around = &all[place.saturating_sub(AROUND)..all.len().min(place + AROUND + 1)];
            around.iter().any(|row| matches!(row, Row::Other(..)))
        })
        .collect();
    let mut rows = Vec::new();
    for (row, near) in all.into_iter().zip(near) {
        match (near, rows.last_mut()) {
            (true, _) => rows.push(row),
            (false, Some(Row::Skipped(count))) => *count += 1,
            (false, _) => rows.push(Row::Skipped(1)),
        }
    }
    rows
}

/// What two lines have in common at their beginning and at their end, and what lies between in each.
fn parted<'a>(before: &'a str, after: &'a str) -> (&'a str, &'a str, &'a str, &'a str) {
    let head: usize =
        before.chars().zip(after.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (old, new) = (&before[head..], &after[head..]);
    let tail: usize =
        old.chars().rev().zip(new.chars().rev()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    (&before[..head], &old[..old.len() - tail], &new[..new.len() - tail], &old[old.len() - tail..])
}

/// The difference as a table, before on the left and after on the right.
pub(super) fn drawn(lang: Lang, caption: &str, before: &str, after: &str) -> Markup {
    let rows = rows(before, after);
    html! {
        table .diff {
            caption { (caption) }
            thead { tr { th scope="col" { (lang.say("Before", "Antes")) } th scope="col" { (lang.say("After", "Depois")) } } }
            tbody { @for row in &rows {
                @match row {
                    Row::Same(line) => tr { td { (line) } td { (line) } },
                    Row::Skipped(count) => tr .fold { td colspan="2" { "⋯ " (lang.count(*count as u64, ("line is the same", "lines are the same"), ("linha igual", "linhas iguais"))) } },
                    Row::Other(Some(before), Some(after)) => {
                        @let (head, old, new, tail) = parted(before, after);
                        tr { td .gone { (head) del { (old) } (tail) } td .come { (head) ins { (new) } (tail) } }
                    }
                    Row::Other(before, after) => tr {
                        @match before { Some(line) => td .gone { del { (line) } }, None => td {} }
                        @match after { Some(line) => td .come { ins { (line) } }, None => td {} }
                    },
                }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_changed_stands_beside_what_it_was() {
        assert_eq!(
            rows("a\nb\nc", "a\nB\nc"),
            [Row::Same("a"), Row::Other(Some("b"), Some("B")), Row::Same("c")]
        );
        assert_eq!(rows("a", "a\nb"), [Row::Same("a"), Row::Other(None, Some("b"))]);
        assert_eq!(rows("a\nb\nc", "a\nc"), [Row::Same("a"), Row::Other(Some("b"), None), Row::Same("c")]);
    }

    #[test]
    fn what_is_far_from_a_difference_is_left_out() {
        let before: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let after = before.join("\n").replace("10", "ten");
        let before = before.join("\n");
        let rows = rows(&before, &after);
        assert_eq!((rows.first(), rows.last()), (Some(&Row::Skipped(7)), Some(&Row::Skipped(6))));
        assert_eq!(rows.len(), 9);
    }

    #[test]
    fn what_changed_within_a_line_is_marked_by_itself() {
        assert_eq!(parted("+5511987", "+5521987"), ("+55", "1", "2", "1987"));
        assert_eq!(parted("aa", "aaa"), ("aa", "", "a", ""));
        let html = drawn(Lang::En, "To", "<b>1", "<b>2").into_string();
        assert!(html.contains("&lt;b&gt;<del>1</del>") && html.contains("&lt;b&gt;<ins>2</ins>"), "{html}");
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_from_the_rows(old in "[abc\n]{0,24}", new in "[abc\n]{0,24}") {
            let (before, after): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let rows = core(&before, &after);
            let left = rows.iter().filter_map(|row| match row {
                Row::Same(line) => Some(*line),
                Row::Other(line, _) => *line,
                Row::Skipped(_) => None,
            });
            let right = rows.iter().filter_map(|row| match row {
                Row::Same(line) => Some(*line),
                Row::Other(_, line) => *line,
                Row::Skipped(_) => None,
            });
            prop_assert_eq!(left.collect::<Vec<_>>(), before);
            prop_assert_eq!(right.collect::<Vec<_>>(), after);
        }

        #[test]
        fn lines_of_any_letters_can_be_parted(old in ".{0,12}", new in ".{0,12}") {
            let (head, gone, come, tail) = parted(&old, &new);
            prop_assert_eq!(format!("{head}{gone}{tail}"), old.as_str());
            prop_assert_eq!(format!("{head}{come}{tail}"), new.as_str());
        }
    }
}
