//! Documents of strangers: SOAP answers, claims, and what only looks like them.

use http::{HeaderMap, StatusCode};
use pombo_channels::client::Answer;
use pombo_channels::tiss;
use pombo_kernel::classify::read;
use pombo_kernel::content::claim::{Claim, SERVICES};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::reply::Reply;
use pombo_kernel::xml::{DEPTH_MAX, Step, outline, walk};

use super::answer::{bounded, storable};
use super::text;
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>",
    "<!DOCTYPE x [<!ENTITY a \"b\">]>",
    "&a;",
    "&lt;",
    "&#0;",
    "&#x110000;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<a>",
    "</a>",
    "<a/>",
    " xmlns:p='urn:p'",
    "<soapenv:Fault><faultstring>",
    "<ans:protocoloRecebimentoWS>",
    "<ans:numeroProtocolo>7</ans:numeroProtocolo>",
    "<ans:codigoGlosa>1308</ans:codigoGlosa>",
    "<ans:hash>0123456789abcdef0123456789abcdef</ans:hash>",
    "<ans:loteGuiasWS>",
    "<ans:mensagemTISS>",
    "<ans:cabecalho>",
];

pub(super) fn run(bytes: &[u8]) -> Sign {
    let decoded = text(bytes);
    let walked = walked(&decoded);
    let claim = Claim::read(&decoded);
    assert!(walked || claim.is_err(), "what is no XML is no claim");
    let [first, ..] = [bytes.first().copied().unwrap_or_default()];
    let service = &SERVICES[usize::from(first) % SERVICES.len()];
    let mut signs = vec![u8::from(walked), u8::from(claim.is_ok())];
    for (status, whole) in [(200, true), (200, false), (500, true)] {
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: bytes.to_vec(),
            whole,
        };
        let reply = tiss::fuzz::read(&answer, service);
        storable(&reply);
        // A protocol is the only proof that a claim was taken.
        if let Reply::Accepted(receipt) = &reply {
            assert_eq!(status, 200);
            assert!(!service.gives_protocol || receipt.provider_id.is_some(), "{receipt:?}");
        }
        bounded(&read::http(ChannelKind::Tiss, status, &[], &decoded));
        signs.push(match reply {
            Reply::Accepted(_) => 0,
            Reply::Refused(_) => 1,
            Reply::Unreachable(_) => 2,
            Reply::Doubtful(_) => 3,
        });
    }
    Sign::of(signs)
}

/// Whether it is sound; each element is told once, inside the one that holds it.
fn walked(document: &str) -> bool {
    let (mut open, mut roots) = (Vec::new(), Vec::new());
    let done = walk(document, |step| match step {
        Step::Open(tag) => {
            assert_eq!(tag.depth, open.len());
            assert!(tag.depth <= DEPTH_MAX && !tag.local().is_empty());
            let _ = tag.namespaces();
            open.push(tag);
        }
        Step::Text(text) => assert!(!text.contains('\0')),
        Step::Close { tag, inner, outer } => {
            assert_eq!(open.pop().map(|opened| opened.name), Some(tag.name));
            assert!(outer.start <= inner.start && inner.start <= inner.end && inner.end <= outer.end);
            assert!(document.get(outer.clone()).is_some() && document.get(inner).is_some());
            if open.is_empty() {
                roots.push(outer);
            }
        }
        Step::Instruction => {}
    });
    if let Err(bad) = done {
        assert!(bad.line >= 1 && bad.line <= document.matches('\n').count() + 1, "{bad}");
        return false;
    }
    assert_eq!((open.len(), roots.len()), (0, 1), "a document has one root, and it ends");
    // The root alone is the same document, without what stands around it.
    assert!(walk(&document[roots[0].clone()], |_| ()).is_ok());
    if let Ok(root) = outline(document, 2) {
        assert_eq!(root.outer, roots[0]);
    }
    true
}
