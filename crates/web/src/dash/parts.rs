//! What pages are put together from: times, states, tables, forms, lists that go on.

use maud::{Markup, html};
use pombo_kernel::time::Time;

use super::visit::Look;
use super::words::Lang;

/// How something stands. Never told by colour alone: each has its sign, and words beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Ok,
    Wait,
    Bad,
    Held,
    Quiet,
}

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Tone::Ok => "ok",
            Tone::Wait => "wait",
            Tone::Bad => "bad",
            Tone::Held => "held",
            Tone::Quiet => "off",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Tone::Ok => "M3 8.500l3.200 3.200L13 4.800",
            Tone::Wait => {
                "M8 4v4.300l2.800 1.700M8 1.800a6.200 6.200 0 1 1 0 12.400A6.200 6.200 0 0 1 8 1.800z"
            }
            Tone::Bad => "M4 4l8 8M12 4l-8 8",
            Tone::Held => "M5.500 3.500v9M10.500 3.500v9",
            Tone::Quiet => "M4 8h8",
        }
    }
}

/// A word with its tone.
pub(crate) fn badge(tone: Tone, words: &str) -> Markup {
    html! { span class=(format!("badge {}", tone.class())) { (sign(tone)) (words) } }
}

/// The sign of a tone alone, where words stand beside it.
pub(crate) fn sign(tone: Tone) -> Markup {
    stroke(tone.path())
}

fn stroke(path: &str) -> Markup {
    html! {
        svg viewBox="0 0 16 16" width="14" height="14" fill="none" stroke="currentColor" stroke-width="1.6"
            stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" { path d=(path) {} }
    }
}

/// A picture of the navigation.
pub(crate) fn icon(name: &str) -> Markup {
    stroke(match name {
        "overview" => "M2 9l3-4 3 5 3-7 3 5M2 14h12",
        "messages" => "M2 4h12v8H2zM2 4.500l6 4.500 6-4.500",
        "dead" => "M2 9.500h3.500l1 2h3l1-2H14M3.500 3h9L14 9.500V13H2V9.500z",
        "campaigns" => "M2 6.500v3l2 .3V12h2v-2l7 2.500v-9L6 6z",
        "templates" => "M4 2h6l3 3v9H4zM10 2v3h3M6 8h5M6 11h5",
        "channels" => "M3 4h3v3H3zM10 9h3v3h-3zM6 5.500h4.500V9M10 2.500h3v3h-3z",
        "policies" => "M2 12h1M5 12h2M10 12h4M2.500 9V4M6 9V6M12 9V3",
        "learning" => "M2 13c4 0 4-9 12-9M2 13h12M2 13V3",
        "alerts" => {
            "M8 2.500c2.800 0 4 2 4 4.500 0 2.500 1.500 4 1.500 4h-11S4 9.500 4 7c0-2.500 1.200-4.500 4-4.500zM6.800 13.500h2.400"
        }
        "audit" => "M4 2h8v12l-2-1.300L8 14l-2-1.300L4 14zM6 5.500h4M6 8.500h4",
        "keys" => "M6 10a3 3 0 1 0-3 3 3 3 0 0 0 3-3zM5.200 8l6-6M9.500 3.700l2.300 2.300",
        "menu" => "M2 4h12M2 8h12M2 12h12",
        _ => "M8 8h.01",
    })
}

/// A moment, with its name in UTC for whoever points at it.
pub(crate) fn time(look: &Look, at: Time) -> Markup {
    html! { time datetime=(at) title=(at) { (look.lang.moment(at, &look.zone)) } }
}

/// A moment that is more telling as how long ago it was, or how soon it is. Without script it is the moment itself.
pub(crate) fn ago(look: &Look, at: Time) -> Markup {
    html! { time datetime=(at) title=(at) data-ago { (look.lang.moment(at, &look.zone)) } }
}

/// A link to a page, where there is such a page; the words alone where there is none.
pub(crate) fn linked(pattern: &str, href: &str, words: Markup) -> Markup {
    match exists(pattern) {
        true => html! { a href=(href) { (words) } },
        false => words,
    }
}

/// Whether there is a page of that path.
pub(crate) fn exists(pattern: &str) -> bool {
    super::PAGES.iter().any(|page| page.path == pattern)
}

/// Words that begin a sentence.
pub(crate) fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

/// Words of ours in which what stands in backquotes is typed as it is.
pub(crate) fn prose(words: &str) -> Markup {
    html! { @for (place, part) in words.split('`').enumerate() {
        @if place % 2 == 0 { (part) } @else { code { (part) } }
    } }
}

/// What stands where nothing is known.
pub(crate) fn none() -> Markup {
    html! { span .quiet aria-hidden="true" { "–" } }
}

/// The state of a message.
pub(crate) fn state(lang: Lang, state: &str) -> Markup {
    let (tone, words) = match state {
        "pending" => (Tone::Wait, lang.say("waiting", "na fila")),
        "sending" => (Tone::Wait, lang.say("sending", "enviando")),
        "sent" => (Tone::Ok, lang.say("sent", "enviada")),
        "failed" => (Tone::Bad, lang.say("failed", "falhou")),
        "cancelled" => (Tone::Quiet, lang.say("cancelled", "cancelada")),
        "discarded" => (Tone::Quiet, lang.say("discarded", "descartada")),
        other => (Tone::Quiet, other),
    };
    badge(tone, words)
}

/// A table. Columns are names; one that begins with `#` is of numbers, and stands to the right.
pub(crate) fn table(caption: &str, columns: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div .wide role="group" aria-label=(caption) tabindex="0" {
            table {
                caption .unseen { (caption) }
                thead { tr { @for column in columns {
                    @match column.strip_prefix('#') {
                        Some(name) => th scope="col" .num { (name) },
                        None => th scope="col" { (column) },
                    }
                } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// A form, with what shows that it is ours, and the page to which it returns if something is wrong.
pub(crate) fn form(look: &Look, action: &str, back: Option<&str>, content: &Markup) -> Markup {
    html! {
        form method="post" action=(action) {
            (hidden(look, back))
            (content)
        }
    }
}

/// A form that asks before it is sent, where there is script.
pub(crate) fn asking_form(
    look: &Look,
    action: &str,
    back: Option<&str>,
    question: &str,
    content: &Markup,
) -> Markup {
    html! {
        form method="post" action=(action) data-confirm=(question) {
            (hidden(look, back))
            (content)
        }
    }
}

/// A form that may bring a file along.
pub(crate) fn file_form(look: &Look, action: &str, back: Option<&str>, content: &Markup) -> Markup {
    html! {
        form method="post" action=(action) enctype="multipart/form-data" {
            (hidden(look, back))
            (content)
        }
    }
}

fn hidden(look: &Look, back: Option<&str>) -> Markup {
    html! {
        input type="hidden" name="csrf" value=(look.csrf);
        @if let Some(back) = back { input type="hidden" name="back" value=(back); }
    }
}

/// A field with its label.
pub(crate) fn field(label: &str, name: &str, value: &str, hint: Option<&str>) -> Markup {
    let about = hint.map(|_| format!("{name}-hint"));
    html! {
        div .field {
            label for=(format!("f-{name}")) { (label) }
            input id=(format!("f-{name}")) name=(name) value=(value) autocomplete="off" aria-describedby=[about.as_ref()];
            @if let (Some(hint), Some(about)) = (hint, &about) { p .hint id=(about) { (hint) } }
        }
    }
}

/// A choice with its label, by value and words; the first one is usually that of no choice.
pub(crate) fn choice(label: &str, name: &str, options: &[(String, String)], chosen: &str) -> Markup {
    html! {
        div .field {
            label for=(format!("f-{name}")) { (label) }
            select id=(format!("f-{name}")) name=(name) {
                @for (value, words) in options { option value=(value) selected[value == chosen] { (words) } }
            }
        }
    }
}

/// The way to what comes next in a list, and back to its beginning. `pairs` are the filters of the page.
pub(crate) fn pager(lang: Lang, path: &str, pairs: &[(String, String)], next: Option<&str>) -> Markup {
    let later = pairs.iter().any(|(name, _)| name == "cursor");
    let kept = || pairs.iter().filter(|(name, _)| name != "cursor").cloned();
    html! {
        @if later || next.is_some() {
            nav .pager aria-label=(lang.say("Pages of the list", "Páginas da lista")) {
                @if later { a href=(with_query(path, kept())) { (lang.say("← Newest", "← Mais recentes")) } }
                @if let Some(next) = next {
                    a rel="next" href=(with_query(path, kept().chain([("cursor".to_owned(), next.to_owned())]))) { (lang.say("Older →", "Mais antigas →")) }
                }
            }
        }
    }
}

/// What a page says that has nothing to show: what will be here, and what makes something appear.
pub(crate) fn empty(title: &str, words: &str, command: Option<&str>) -> Markup {
    html! {
        div .empty {
            p { strong { (title) } }
            p { (words) }
            @if let Some(command) = command { (copied(command)) }
        }
    }
}

/// A text that is there to be copied.
pub(crate) fn copied(text: &str) -> Markup {
    html! { code .copy data-copy { (text) } }
}

/// A document, laid out.
pub(crate) fn json(value: &serde_json::Value) -> Markup {
    html! { pre .json { (serde_json::to_string_pretty(value).unwrap_or_default()) } }
}

/// Names and values of a thing.
pub(crate) fn facts(rows: Vec<(&str, Markup)>) -> Markup {
    html! { dl .facts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

/// A text as it may stand in an address.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
        out
    })
}

/// What stands behind the `?` of an address.
pub(crate) fn query(pairs: impl IntoIterator<Item = (String, String)>) -> String {
    let pairs = pairs.into_iter().map(|(name, value)| format!("{}={}", encoded(&name), encoded(&value)));
    pairs.collect::<Vec<_>>().join("&")
}

pub(crate) fn with_query(path: &str, pairs: impl IntoIterator<Item = (String, String)>) -> String {
    match query(pairs) {
        pairs if pairs.is_empty() => path.to_owned(),
        pairs => format!("{path}?{pairs}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_put_into_an_address_stays_one_value() {
        assert_eq!(encoded("a b&c=d/é\"<"), "a%20b%26c%3Dd%2F%C3%A9%22%3C");
        let pairs = [("to".to_owned(), "x@y.example".to_owned()), ("n".to_owned(), "1".to_owned())];
        assert_eq!(with_query("/messages", pairs), "/messages?to=x%40y.example&n=1");
        assert_eq!(with_query("/messages", []), "/messages");
    }

    #[test]
    fn what_strangers_write_is_shown_as_text() {
        let html = badge(Tone::Bad, "<script>alert(1)</script>\"").into_string();
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{html}");
    }
}
