//! XML from strangers, read step by step within fixed bounds.
//!
//! Nothing is ever fetched, defined or expanded: a document type is refused, and of entities only the five that
//! XML itself defines are known. A document that is read is one well-formed element, nested at most
//! [`DEPTH_MAX`] deep.

use std::borrow::Cow;
use std::ops::Range;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};

pub const DEPTH_MAX: usize = 64;
/// Telling attributes apart takes the square of their number.
const ATTRIBUTES_MAX: usize = 64;

/// One step through a document, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Open(Tag<'a>),
    /// Character data, decoded. What stands between two tags may come in several pieces.
    Text(Cow<'a, str>),
    /// The end of the element that was opened last, with where it starts and what it holds.
    Close {
        tag: Tag<'a>,
        inner: Range<usize>,
        outer: Range<usize>,
    },
    /// A processing instruction inside the element.
    Instruction,
}

/// The start of an element. Places are bytes of the text that was walked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// With its prefix.
    pub name: &'a str,
    /// As they were written.
    pub attributes: &'a str,
    /// 0 for the root.
    pub depth: usize,
}

impl<'a> Tag<'a> {
    /// The name without its prefix.
    pub fn local(&self) -> &'a str {
        self.name.rsplit_once(':').map_or(self.name, |(_, local)| local)
    }

    /// The prefix with its colon, or nothing.
    pub fn prefix(&self) -> &'a str {
        &self.name[..self.name.len() - self.local().len()]
    }

    /// The prefixes that it declares, each with its colon (nothing for the default), and what they stand for.
    pub fn namespaces(&self) -> Vec<(String, String)> {
        let start = BytesStart::from_content(format!("x{}", self.attributes), 1);
        let mut found = Vec::new();
        for attribute in start.attributes().flatten() {
            let key: &str = attribute.key.as_ref();
            let prefix = match key.strip_prefix("xmlns") {
                Some("") => String::new(),
                Some(rest) if rest.len() > 1 && rest.starts_with(':') => format!("{}:", &rest[1..]),
                _ => continue,
            };
            found.push((prefix, attribute.value.as_ref().to_owned()));
        }
        found
    }
}

/// Why a text is not taken as XML: in a few words that repeat nothing of it, and the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (line {line})")]
pub struct BadXml {
    pub reason: &'static str,
    pub line: usize,
}

/// Walks through a document, and tells each step as soon as it is known to be sound.
///
/// What was told before an error stays told: whoever walks decides what half a document is worth.
pub fn walk<'a>(text: &'a str, mut tell: impl FnMut(Step<'a>)) -> Result<(), BadXml> {
    // The reader passes over byte order marks without counting them.
    let first = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut reader = Reader::from_str(&text[first..]);
    let mut open: Vec<(Tag<'a>, Range<usize>)> = Vec::new();
    let mut roots = 0;
    loop {
        let start = first + place(&reader);
        let bad = |reason| BadXml { reason, line: line(text, start) };
        let event = reader.read_event().map_err(|_| bad("it is not well-formed"))?;
        let end = first + place(&reader);
        match event {
            Event::Start(_) | Event::Empty(_) if open.is_empty() && roots > 0 => {
                return Err(bad("it has more than one root element"));
            }
            Event::Start(_) if open.len() >= DEPTH_MAX => return Err(bad("it is nested too deeply")),
            Event::Start(_) => {
                let tag = tag(&text[start + 1..end - 1], open.len()).map_err(bad)?;
                roots += usize::from(open.is_empty());
                tell(Step::Open(tag.clone()));
                open.push((tag, start..end));
            }
            Event::Empty(_) => {
                let tag = tag(&text[start + 1..end - 2], open.len()).map_err(bad)?;
                roots += usize::from(open.is_empty());
                tell(Step::Open(tag.clone()));
                tell(Step::Close { tag, inner: end..end, outer: start..end });
            }
            Event::End(_) => {
                let Some((tag, opened)) = open.pop() else { return Err(bad("it is not well-formed")) };
                tell(Step::Close { tag, inner: opened.end..start, outer: opened.start..end });
            }
            Event::Text(text) if open.is_empty() => {
                if !text.trim().is_empty() {
                    return Err(bad("it has text outside its element"));
                }
            }
            Event::CData(_) | Event::GeneralRef(_) if open.is_empty() => {
                return Err(bad("it has text outside its element"));
            }
            Event::Text(text) => tell(Step::Text(allowed(text.xml10_content()).map_err(bad)?)),
            Event::CData(text) => tell(Step::Text(allowed(text.xml10_content()).map_err(bad)?)),
            Event::GeneralRef(reference) => {
                let text = match reference.resolve_char_ref() {
                    Ok(Some(char)) => Cow::Owned(char.to_string()),
                    Ok(None) => match resolve_xml_entity(&reference) {
                        Some(text) => Cow::Borrowed(text),
                        None => return Err(bad("it uses an entity that XML does not define")),
                    },
                    Err(_) => return Err(bad("it refers to a character that does not exist")),
                };
                tell(Step::Text(allowed(text).map_err(bad)?));
            }
            Event::DocType(_) => return Err(bad("it has a DOCTYPE, which is never read")),
            Event::PI(_) if !open.is_empty() => tell(Step::Instruction),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof if !open.is_empty() => return Err(bad("it breaks off before its end")),
            Event::Eof if roots == 0 => return Err(bad("it has no element")),
            Event::Eof => return Ok(()),
        }
    }
}

/// An element of a document, with those of its children that were kept.
#[derive(Clone, Debug)]
pub struct Element<'a> {
    pub tag: Tag<'a>,
    /// Where its content stands.
    pub inner: Range<usize>,
    /// Where it stands itself.
    pub outer: Range<usize>,
    /// Its own text, without that of its children.
    pub text: String,
    pub children: Vec<Element<'a>>,
}

impl<'a> Element<'a> {
    pub fn local(&self) -> &'a str {
        self.tag.local()
    }

    /// The first child of this name, whatever its prefix.
    pub fn child(&self, local: &str) -> Option<&Element<'a>> {
        self.children.iter().find(|child| child.local() == local)
    }

    /// The text at the end of a path of names, without blanks around it.
    pub fn value(&self, path: &[&str]) -> Option<&str> {
        let end = path.iter().try_fold(self, |element, name| element.child(name))?;
        Some(end.text.trim())
    }
}

/// The upper part of a document: its elements down to `depth`. What is below is checked and not kept.
pub fn outline(text: &str, depth: usize) -> Result<Element<'_>, BadXml> {
    let mut open: Vec<Element<'_>> = Vec::new();
    let (mut root, mut below, mut instructed) = (None, 0, false);
    walk(text, |step| match step {
        Step::Open(tag) if tag.depth > depth => below += 1,
        Step::Open(tag) => {
            open.push(Element { tag, inner: 0..0, outer: 0..0, text: String::new(), children: Vec::new() });
        }
        Step::Text(text) if below == 0 => {
            if let Some(element) = open.last_mut() {
                element.text.push_str(&text);
            }
        }
        Step::Text(_) => {}
        Step::Close { tag, .. } if tag.depth > depth => below -= 1,
        Step::Close { inner, outer, .. } => {
            let Some(mut element) = open.pop() else { return };
            (element.inner, element.outer) = (inner, outer);
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => root = Some(element),
            }
        }
        Step::Instruction => instructed = true,
    })?;
    if instructed {
        return Err(BadXml { reason: "it has a processing instruction", line: 1 });
    }
    root.ok_or(BadXml { reason: "it has no element", line: 1 })
}

fn place(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

fn line(text: &str, place: usize) -> usize {
    1 + text.as_bytes()[..place.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// What stands between the angle brackets, taken apart.
fn tag(content: &str, depth: usize) -> Result<Tag<'_>, &'static str> {
    let end = content.find(|c: char| c.is_ascii_whitespace()).unwrap_or(content.len());
    let (name, attributes) = content.split_at(end);
    if !is_name(name) {
        return Err("an element has no usable name");
    }
    let start = BytesStart::from_content(content, end);
    for (count, attribute) in start.attributes().enumerate() {
        let attribute = attribute.map_err(|_| "an attribute is not well-formed")?;
        if count >= ATTRIBUTES_MAX {
            return Err("an element has too many attributes");
        }
        let value: &str = attribute.value.as_ref();
        if !is_name(attribute.key.as_ref()) || value.contains('<') || !value.chars().all(is_allowed) {
            return Err("an attribute is not well-formed");
        }
    }
    Ok(Tag { name, attributes, depth })
}

/// A name of plain letters, as all the schemas that we read have.
fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    match name.split_once(':') {
        Some((prefix, local)) => part(prefix) && part(local),
        None => part(name),
    }
}

fn is_allowed(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

fn allowed(text: Cow<'_, str>) -> Result<Cow<'_, str>, &'static str> {
    if text.chars().all(is_allowed) { Ok(text) } else { Err("it has a character that XML does not allow") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(text: &str) -> Result<Vec<String>, BadXml> {
        let mut told = Vec::new();
        walk(text, |step| {
            told.push(match step {
                Step::Open(tag) => format!("<{}", tag.name),
                Step::Text(text) => text.into_owned(),
                Step::Close { tag, inner, outer } => {
                    format!("{}>{}|{}", tag.name, &text[inner], &text[outer])
                }
                Step::Instruction => "?".to_owned(),
            });
        })
        .map(|()| told)
    }

    fn refused(text: &str, reason: &str, line: usize) {
        let bad = steps(text).expect_err(text);
        assert!(bad.reason.contains(reason) && bad.line == line, "{text:?}: {bad}");
    }

    #[test]
    fn byte_order_marks_are_passed_over_and_places_stay_right() {
        let text = "\u{feff}\u{feff}<a><b/></a>";
        let mut closed = Vec::new();
        walk(text, |step| {
            if let Step::Close { outer, .. } = step {
                closed.push(&text[outer]);
            }
        })
        .unwrap();
        assert_eq!(closed, ["<b/>", "<a><b/></a>"]);
    }

    #[test]
    fn steps_come_in_order_with_their_places() {
        let text = "<?xml version='1.0' encoding='ISO-8859-1'?>\n<!-- x --><a y='1'>b<c:d/>e</a>\n";
        assert_eq!(
            steps(text).unwrap(),
            ["<a", "b", "<c:d", "c:d>|<c:d/>", "e", "a>b<c:d/>e|<a y='1'>b<c:d/>e</a>"]
        );
    }

    #[test]
    fn text_is_decoded_and_line_ends_are_one() {
        let told = steps("<a>x &amp;&#233;&#x20ac;<![CDATA[<&amp;]]>\r\n<?p q?></a>").unwrap();
        assert_eq!(told[1..told.len() - 1].concat(), "x &é€<&amp;\n?");
    }

    #[test] // REQ SE-2
    fn nothing_is_defined_fetched_or_expanded() {
        refused("<!DOCTYPE a><a/>", "DOCTYPE", 1);
        refused(
            "<?xml version='1.0'?>\n<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///x'>]><a>&b;</a>",
            "DOCTYPE",
            2,
        );
        refused("<a>&b;</a>", "entity", 1);
        refused("<a>&nbsp;</a>", "entity", 1);
        refused("<a>\n\n&#0;</a>", "does not exist", 3);
        refused("<a>&#1;</a>", "does not allow", 1);
        refused("<a>\u{1}</a>", "does not allow", 1);
        refused("<a b='\u{1}'/>", "attribute", 1);
    }

    #[test]
    fn half_a_document_and_two_documents_are_refused() {
        refused("", "no element", 1);
        refused("  <!-- x -->", "no element", 1);
        refused("<a><b></b>", "breaks off", 1);
        refused("<a/><b/>", "more than one", 1);
        refused("<a/>x", "outside", 1);
        refused("x<a/>", "outside", 1);
        refused("<a></b>", "well-formed", 1);
        refused("</a>", "well-formed", 1);
        refused("<a", "well-formed", 1);
        refused("<1/>", "name", 1);
        refused("<a:b:c/>", "name", 1);
        refused("<a b=c/>", "attribute", 1);
        refused("<a b='1' b='2'/>", "attribute", 1);
        refused("<a>a & b</a>", "well-formed", 1);
    }

    #[test] // REQ SE-2
    fn depth_and_attributes_are_bounded() {
        let deep = |levels: usize| format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
        assert!(steps(&deep(DEPTH_MAX)).is_ok());
        refused(&deep(DEPTH_MAX + 1), "deeply", 1);
        let wide: String = (0..100_000).map(|i| format!(" a{i}=''")).collect();
        refused(&format!("<a{wide}/>"), "too many", 1);
    }

    #[test]
    fn declared_prefixes_are_found() {
        let mut found = Vec::new();
        walk("<p:a xmlns='d' xmlns:p=\"urn:p\" x='y'/>", |step| {
            if let Step::Open(tag) = step {
                assert_eq!((tag.local(), tag.prefix()), ("a", "p:"));
                found = tag.namespaces();
            }
        })
        .unwrap();
        let pair = |prefix: &str, uri: &str| (prefix.to_owned(), uri.to_owned());
        assert_eq!(found, [pair("", "d"), pair("p:", "urn:p")]);
    }

    #[test]
    fn an_outline_keeps_the_upper_part() {
        let text = "<a>x<p:b> y <c>z<d/></c></p:b>w</a>";
        let root = outline(text, 1).unwrap();
        assert_eq!((root.local(), root.text.as_str(), root.value(&["b"])), ("a", "xw", Some("y")));
        assert_eq!(&text[root.child("b").unwrap().inner.clone()], " y <c>z<d/></c>");
        assert_eq!(outline(text, 2).unwrap().value(&["b", "c"]), Some("z"));
        assert_eq!(outline(text, 1).unwrap().value(&["b", "c"]), None);
        assert!(outline("<a><?b c?></a>", 1).unwrap_err().reason.contains("instruction"));
    }

    proptest! {
        #[test] // REQ SE-2
        fn no_text_makes_it_panic(text in "[<>/!?\\[\\]a:='\"&;#x0 \n-]{0,60}|\\PC{0,40}") {
            let _ = steps(&text);
        }

        #[test]
        fn a_document_is_told_once_and_whole(text in "(<a>|<b c='d'>|x|&lt;|</a>|</b>|<e/>){0,12}") {
            if let Ok(told) = steps(&text) {
                let opened = told.iter().filter(|step| step.starts_with('<') && step.len() == 2).count();
                let closed = told.iter().filter(|step| step.contains('|')).count();
                prop_assert_eq!(opened, closed);
            }
        }
    }
}
