//! What an operator's answer says, found by the local names of its elements.
//!
//! Not a parser: it reads no entities but the five that XML knows, stops at a DOCTYPE, and goes so deep and so
//! far and no further. What it cannot make out is text.

const BYTES_MAX: usize = 1 << 18;
const DEPTH_MAX: usize = 64;

/// The telling parts of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// A denial (glosa) code or a fault word: why the whole of it was refused.
    pub(super) name: Option<String>,
    /// The protocol under which a lot was received.
    pub(super) protocol: Option<String>,
    /// Descriptions and fault texts; of a page that has none, all of its words.
    pub(super) words: String,
}

/// Reads an answer. A denial inside a protocol is part of a lot that was received, and no refusal.
pub(super) fn read(body: &str) -> Found {
    let mut found = Found::default();
    let (mut told, mut all) = (String::new(), String::new());
    let (mut fault, mut denial, mut weak) = (None, None, None);
    texts(body, |path, text| {
        let leaf = path.last().copied().unwrap_or_default();
        let within = |name: &str| path.iter().any(|element| element.eq_ignore_ascii_case(name));
        let whole = within("mensagemErro") || !within("protocoloRecebimento") && !within("detalheProtocolo");
        match leaf.to_ascii_lowercase().as_str() {
            "tissfault" => fault = fault.take().or_else(|| Some(text.to_owned())),
            "codigoglosa" if whole => denial = denial.take().or_else(|| Some(text.to_owned())),
            "falhanegocio" | "codigoerro" | "motivoglosa" if whole => {
                weak = weak.take().or_else(|| Some(text.to_owned()));
            }
            "numeroprotocolo" => found.protocol = found.protocol.take().or_else(|| Some(text.to_owned())),
            "descricaoglosa" | "descricaoerro" | "faultstring" | "text" | "mensagem" => {
                push(&mut told, text);
            }
            _ => {}
        }
        push(&mut all, text);
    });
    found.name = fault.or(denial).or(weak);
    found.words = if told.is_empty() && found.name.is_none() { all } else { told };
    found
}

fn push(words: &mut String, text: &str) {
    if !words.is_empty() {
        words.push(' ');
    }
    words.push_str(text);
}

/// Hands every text that is not blank to `visit`, with the local names of the elements that it stands in.
fn texts<'a>(body: &'a str, mut visit: impl FnMut(&[&'a str], &str)) {
    let mut rest = &body[..body.floor_char_boundary(BYTES_MAX)];
    let mut path: Vec<&str> = Vec::new();
    let mut text = String::new();
    loop {
        let (before, markup) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
        unescape(before, &mut text);
        if let Some(raw) = markup.strip_prefix("<![CDATA[") {
            let end = raw.find("]]>").unwrap_or(raw.len());
            text.push_str(&raw[..end]);
            rest = raw.get(end + 3..).unwrap_or_default();
            continue;
        }
        if !text.trim().is_empty() {
            visit(&path, text.trim());
        }
        text.clear();
        rest = if let Some(comment) = markup.strip_prefix("<!--") {
            comment.find("-->").map_or("", |end| &comment[end + 3..])
        } else if markup.is_empty()
            || markup
                .get(..9)
                .is_some_and(|m| m.eq_ignore_ascii_case("<!DOCTYPE") && path.is_empty() && !html(markup))
        {
            return;
        } else {
            let end = tag_end(markup);
            let tag = markup[1..end].trim_end_matches('/');
            match tag.as_bytes() {
                [b'?' | b'!', ..] => {}
                [b'/', ..] => {
                    path.pop();
                }
                _ if markup[..end].ends_with('/') => {}
                _ if path.len() == DEPTH_MAX => return,
                _ => path.push(local(tag)),
            }
            markup.get(end + 1..).unwrap_or_default()
        };
    }
}

/// A page of a proxy may say what it is; only XML's own declarations can hold entities.
fn html(markup: &str) -> bool {
    markup.get(9..14).is_some_and(|name| name.trim().eq_ignore_ascii_case("html"))
}

/// Where a tag ends, which a quoted `>` does not.
fn tag_end(markup: &str) -> usize {
    let mut quote = None;
    let end = markup.bytes().position(|b| match (quote, b) {
        (None, b'>') => true,
        (None, b'"' | b'\'') => {
            quote = Some(b);
            false
        }
        (Some(open), b) => {
            if open == b {
                quote = None;
            }
            false
        }
        _ => false,
    });
    end.unwrap_or(markup.len())
}

/// `ans:codigoGlosa xmlns:ans="…"` is a `codigoGlosa`.
fn local(tag: &str) -> &str {
    let name = tag.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default()
}

fn unescape(text: &str, into: &mut String) {
    let mut parts = text.split('&');
    into.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let known = part.split_once(';').and_then(|(name, rest)| Some((entity(name)?, rest)));
        match known {
            Some((c, rest)) => {
                into.push(c);
                into.push_str(rest);
            }
            None => {
                into.push('&');
                into.push_str(part);
            }
        }
    }
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(body: &str, name: Option<&str>, protocol: Option<&str>, words: &str) {
        let found = read(body);
        let seen = (found.name.as_deref(), found.protocol.as_deref(), found.words.as_str());
        assert_eq!(seen, (name, protocol, words), "{body}");
    }

    #[test] // REQ CF-6
    fn a_refused_lot_and_a_fault_are_found_by_local_name() {
        check(
            "<?xml version='1.0'?><s:Body a='>'><ans:mensagemErro><ans:codigoGlosa> 1308 </ans:codigoGlosa>\
             <ans:descricaoGlosa>Guia j&#225; &amp; <![CDATA[<tida>]]></ans:descricaoGlosa></ans:mensagemErro></s:Body>",
            Some("1308"),
            None,
            "Guia já & <tida>",
        );
        check(
            "<Fault><faultcode>x</faultcode><faultstring>no</faultstring><detail><t:tissFaultWS>\
             <t:tissFault>LoginInvalido</t:tissFault></t:tissFaultWS></detail></Fault>",
            Some("LoginInvalido"),
            None,
            "no",
        );
        check("<a><falhaNegocio>5001</falhaNegocio></a>", Some("5001"), None, "");
        check("<a><b/><codigoGlosa/><!-- <codigoGlosa>1</codigoGlosa> --></a>", None, None, "");
        check("<!DOCTYPE html><html><h1>503 Busy</h1></html>", None, None, "503 Busy");
        check("plain", None, None, "plain");
    }

    #[test] // REQ CF-6
    fn denials_inside_a_protocol_refuse_nothing() {
        let body = "<protocoloRecebimento><numeroProtocolo>77</numeroProtocolo><glosaProtocolo><motivosGlosa>\
                    <motivoGlosa><codigoGlosa>1308</codigoGlosa></motivoGlosa></motivosGlosa></glosaProtocolo>\
                    </protocoloRecebimento>";
        let found = read(body);
        assert_eq!((found.name, found.protocol.as_deref()), (None, Some("77")));
    }

    #[test]
    fn declarations_and_depth_end_the_reading() {
        let body = "<!DOCTYPE a [<!ENTITY b \"c\">]><codigoGlosa>1308</codigoGlosa>";
        assert_eq!(read(body), Found::default());
        assert_eq!(read(&"<a>".repeat(100_000)), Found::default());
        assert_eq!(read("<codigoGlosa>&b;</codigoGlosa>").name.as_deref(), Some("&b;"));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(body in prop_oneof!["\\PC*", "([<>/!&;#x'\"a:\\[\\]-]|é|CDATA|DOCTYPE| ){0,60}"]) {
            let _ = read(&body);
        }
    }
}
