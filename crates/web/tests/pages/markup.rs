//! Reads pages as far as is needed to say what is on them: elements and their attributes, in order.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// The elements of a page. Ours are written in one way: every attribute has its value in double quotes, or none.
pub(crate) fn elements(html: &str) -> Vec<Element> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if rest.starts_with(['/', '!']) {
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        assert!(!name.is_empty(), "a bare < in {}", &rest[..rest.len().min(80)]);
        rest = &rest[end..];
        let mut attributes = BTreeMap::new();
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('>') {
                rest = after;
                break;
            }
            let end = rest.find(['=', '>', ' ']).expect("an element ends");
            let attribute = rest[..end].to_owned();
            rest = &rest[end..];
            let value = match rest.strip_prefix("=\"") {
                Some(quoted) => {
                    let (value, after) = quoted.split_once('"').expect("a value ends");
                    rest = after;
                    value.to_owned()
                }
                None => String::new(),
            };
            attributes.insert(attribute, value);
        }
        found.push(Element { name, attributes });
    }
    found
}

/// Elements that pages are made of. Whatever else appears came from somebody else.
const KNOWN: &[&str] = &[
    "a",
    "article",
    "aside",
    "body",
    "button",
    "caption",
    "circle",
    "code",
    "dd",
    "del",
    "desc",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "form",
    "g",
    "h1",
    "h2",
    "h3",
    "head",
    "header",
    "html",
    "iframe",
    "img",
    "input",
    "ins",
    "label",
    "legend",
    "li",
    "line",
    "link",
    "main",
    "meta",
    "nav",
    "ol",
    "option",
    "p",
    "path",
    "polyline",
    "pre",
    "q",
    "rect",
    "script",
    "section",
    "select",
    "small",
    "span",
    "strong",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "text",
    "textarea",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "ul",
];

/// Nothing on the page runs, looks or leads anywhere but by our own doing.
pub(crate) fn is_sound(html: &str, path: &str) {
    let all = elements(html);
    for element in &all {
        assert!(KNOWN.contains(&element.name.as_str()), "{path}: <{}>", element.name);
        for (name, value) in &element.attributes {
            assert!(!name.starts_with("on") && name != "style", "{path}: {name}={value}");
            let address = ["href", "src", "action", "formaction"].contains(&name.as_str());
            assert!(!address || value.starts_with('/') || value.starts_with('#'), "{path}: {name}={value}");
        }
    }
    let count = |name: &str| all.iter().filter(|element| element.name == name).count();
    assert_eq!((count("h1"), count("main"), count("script"), count("head")), (1, 1, 1, 1), "{path}");
    let script = all.iter().find(|element| element.name == "script").unwrap();
    assert!(script.attributes["src"].starts_with("/assets/pombo-"), "{path}");
    assert!(html.contains("</script>") && html.contains("<script type=\"module\""), "{path}");
    // Every field has words, and every id is that of one element.
    let mut ids: Vec<&String> = all.iter().filter_map(|element| element.attributes.get("id")).collect();
    let labels: Vec<&String> =
        all.iter().filter(|it| it.name == "label").filter_map(|it| it.attributes.get("for")).collect();
    for field in all.iter().filter(|it| ["input", "select", "textarea"].contains(&it.name.as_str())) {
        let hidden = field.attributes.get("type").is_some_and(|kind| kind == "hidden");
        let named = field.attributes.contains_key("aria-label")
            || field.attributes.get("id").is_some_and(|id| labels.contains(&id));
        assert!(hidden || named, "{path}: {field:?} has no label");
    }
    let before = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), before, "{path}: an id is there twice");
}
