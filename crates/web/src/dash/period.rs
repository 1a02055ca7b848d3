//! How far back a list looks.

use pombo_kernel::time::{Span, Time};

use super::visit::Look;
use super::words::Lang;

const PERIODS: [(&str, Span); 4] = [
    ("1h", Span::from_hours(1)),
    ("24h", Span::from_hours(24)),
    ("7d", Span::from_hours(7 * 24)),
    ("30d", Span::from_hours(30 * 24)),
];

/// When a period of that name began; nothing where there is none, which is all time.
pub(crate) fn since(look: &Look, name: &str) -> Option<Time> {
    let (_, span) = PERIODS.iter().find(|(known, _)| *known == name)?;
    Some(look.now - *span)
}

/// What can be chosen, by value and words; all time first.
pub(crate) fn choices(lang: Lang) -> Vec<(String, String)> {
    let all = (String::new(), lang.say("all time", "todo o tempo").to_owned());
    let periods = PERIODS.iter().map(|(name, span)| {
        ((*name).to_owned(), format!("{} {}", lang.say("last", "últimas"), lang.span(*span)))
    });
    [all].into_iter().chain(periods).collect()
}
