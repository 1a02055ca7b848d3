//! From a claim as its caller wrote it to the envelope that goes out.

use std::ops::Range;

use pombo_kernel::content::claim::{Claim, Form, SOAP_NAMESPACE, SOAP_PREFIX, TISS_NAMESPACE};
use pombo_kernel::id::MessageId;
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Time;
use quick_xml::escape::partial_escape;
use schemars::JsonSchema;
use serde::Deserialize;

use super::hash::{Encoding, HashCase, Hashes};

/// What becomes of the hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HashRule {
    /// One that was given must be right; one that is missing is put in.
    #[default]
    Auto,
    /// It is always put in, whatever was given.
    Compute,
    /// It must be given, and be right.
    Verify,
}

/// Who we are to the operator, and how it wants its letters.
pub(super) struct Writer {
    /// The element and the value by which the operator knows the provider.
    pub(super) provider: Option<(&'static str, String)>,
    pub(super) registro_ans: Option<String>,
    pub(super) padrao: String,
    pub(super) login: Option<(String, Secret)>,
    pub(super) offset_ms: i64,
    pub(super) encoding: Encoding,
    pub(super) hash_encoding: Encoding,
    pub(super) hash_case: HashCase,
    pub(super) hash: HashRule,
}

/// Why no letter was written. The words repeat nothing of the claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// The message is wrong.
    Content(String),
    /// The channel lacks a setting.
    Settings(&'static str),
}

fn content<T>(reason: impl Into<String>) -> Result<T, Unwritten> {
    Err(Unwritten::Content(reason.into()))
}

impl Writer {
    /// The bytes of the envelope for a claim: the same for every attempt of a message.
    pub(super) fn write(
        &self,
        xml: &str,
        claim: &Claim<'_>,
        to: &str,
        id: MessageId,
    ) -> Result<Vec<u8>, Unwritten> {
        self.check_operator(claim, to)?;
        let given = self.check_hash(xml, claim)? && claim.header.is_some();
        let letter = match claim.form {
            Form::Envelope | Form::Request => self.complete(xml, claim, id, given)?,
            Form::File | Form::Payload => self.compose(xml, claim, id)?,
        };
        encode(&letter, self.encoding)
    }

    /// A claim that goes to another operator than it is for tells a stranger about a patient.
    fn check_operator(&self, claim: &Claim<'_>, to: &str) -> Result<(), Unwritten> {
        let Some(own) = &self.registro_ans else { return Ok(()) };
        let header = claim.header.as_ref();
        if header
            .and_then(|header| header.value(&["destino", "registroANS"]))
            .is_some_and(|given| given != own)
        {
            return content("the destino of the claim is another operator than this channel's registro_ans");
        }
        let is_number = to.len() == 6 && to.bytes().all(|b| b.is_ascii_digit());
        if is_number && to != own {
            return content("`to` is another operator than this channel's registro_ans");
        }
        Ok(())
    }

    /// Whether the claim carries a hash that may stay. One that is wrong would be refused by the operator, and
    /// means that the claim is not what its author hashed.
    fn check_hash(&self, xml: &str, claim: &Claim<'_>) -> Result<bool, Unwritten> {
        if self.hash == HashRule::Compute && !claim.signed {
            return Ok(false);
        }
        let Ok(hashes) = Hashes::of(&xml[claim.root.outer.clone()]) else {
            return content("the XML cannot be read");
        };
        let name = |encoding| if encoding == Encoding::Utf8 { "UTF-8" } else { "ISO-8859-1" };
        let other = if self.hash_encoding == Encoding::Utf8 { Encoding::Latin1 } else { Encoding::Utf8 };
        if hashes.carried.is_none() {
            return match self.hash {
                HashRule::Verify => {
                    content("the claim carries no hash, and this channel is set to verify one")
                }
                _ => Ok(false),
            };
        }
        if hashes.holds_in(self.hash_encoding) {
            return Ok(true);
        }
        if hashes.holds_in(other) {
            return content(format!(
                "the claim's hash was made over {}, and this channel's hash_encoding is {}",
                name(other),
                name(self.hash_encoding)
            ));
        }
        content(
            "the claim's hash is not that of its values: it was changed after it was hashed, or hashed wrongly",
        )
    }

    /// Puts in what is missing and touches nothing else. With its hash, a claim goes as it came.
    fn complete(
        &self,
        xml: &str,
        claim: &Claim<'_>,
        id: MessageId,
        given: bool,
    ) -> Result<String, Unwritten> {
        let Some(request) = &claim.request else { return content("the claim has no request") };
        let (start, end) = match claim.form {
            Form::Envelope => (String::new(), String::new()),
            _ => (envelope_start(&declaration(claim)), envelope_end()),
        };
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        if !given {
            let at = |place: usize| place..place;
            match &claim.header {
                None => changes.push((at(request.inner.start), self.header(claim, id)?)),
                Some(header)
                    if header.child("loginSenhaPrestador").is_none() && claim.form != Form::Envelope =>
                {
                    changes.push((at(header.inner.end), self.login(claim.prefix)));
                }
                Some(_) => {}
            }
            let unhashed = changed(xml, claim.root.outer.clone(), &changes);
            let place = claim.hash.as_ref().map_or(at(request.inner.end), |hash| hash.outer.clone());
            changes.push((place, self.hash_of(&unhashed, claim.prefix)?));
        }
        Ok(start + &changed(xml, claim.root.outer.clone(), &changes) + &end)
    }

    /// Writes header and envelope around the payload, under the names that a web service has for it.
    fn compose(&self, xml: &str, claim: &Claim<'_>, id: MessageId) -> Result<String, Unwritten> {
        let (prefix, service, payload) = (claim.prefix, claim.service, &claim.payload);
        let mut declared = declaration(claim);
        if claim.form == Form::File {
            for (name, stands_for) in &claim.namespaces {
                declared = declare(declared, name, stands_for);
            }
        }
        let header = match &claim.header {
            None => self.header(claim, id)?,
            Some(header) => {
                let login = header.child("loginSenhaPrestador").is_none().then(|| self.login(prefix));
                let place = header.inner.end..header.inner.end;
                changed(xml, header.outer.clone(), &[(place, login.unwrap_or_default())])
            }
        };
        let own = payload.tag.prefix();
        let message = format!(
            "{header}<{own}{name}{attributes}>{inner}</{own}{name}>",
            name = service.payload,
            attributes = payload.tag.attributes.trim_end(),
            inner = &xml[payload.inner.clone()],
        );
        let request = service.request;
        let whole = |hash: &str| {
            let start = envelope_start(&declared);
            format!("{start}<{prefix}{request}>{message}{hash}</{prefix}{request}>{}", envelope_end())
        };
        let hash = self.hash_of(&whole(""), prefix)?;
        Ok(whole(&hash))
    }

    fn header(&self, claim: &Claim<'_>, id: MessageId) -> Result<String, Unwritten> {
        let Some((kind, provider)) = &self.provider else {
            return Err(Unwritten::Settings(
                "the claim has no cabecalho: set provider, so that Pombo can write it",
            ));
        };
        let Some(registro_ans) = &self.registro_ans else {
            return Err(Unwritten::Settings(
                "the claim has no cabecalho: set registro_ans, so that Pombo can write it",
            ));
        };
        let p = claim.prefix;
        let (date, hour) = self.registered(id);
        let inner = [
            element(
                p,
                "identificacaoTransacao",
                &[
                    field(p, "tipoTransacao", claim.service.transaction),
                    field(p, "sequencialTransacao", &sequence(id)),
                    field(p, "dataRegistroTransacao", &date),
                    field(p, "horaRegistroTransacao", &hour),
                ],
            ),
            element(p, "origem", &[element(p, "identificacaoPrestador", &[field(p, kind, provider)])]),
            element(p, "destino", &[field(p, "registroANS", registro_ans)]),
            field(p, "Padrao", &self.padrao),
            self.login(p),
        ];
        Ok(element(p, "cabecalho", &inner))
    }

    fn login(&self, prefix: &str) -> String {
        let Some((login, password)) = &self.login else { return String::new() };
        let fields =
            [field(prefix, "loginPrestador", login), field(prefix, "senhaPrestador", password.expose())];
        element(prefix, "loginSenhaPrestador", &fields)
    }

    /// When the message was accepted, in the operator's time: unlike the time of an attempt it never changes, and
    /// so neither does the hash.
    fn registered(&self, id: MessageId) -> (String, String) {
        let here = Time::from_millis(id.key().time().millis() + self.offset_ms).to_string();
        (here.get(..10).unwrap_or_default().to_owned(), here.get(11..19).unwrap_or_default().to_owned())
    }

    fn hash_of(&self, xml: &str, prefix: &str) -> Result<String, Unwritten> {
        let Ok(hashes) = Hashes::of(xml) else { return content("the XML cannot be read") };
        let hash = hashes.in_encoding(self.hash_encoding);
        let hash = if self.hash_case == HashCase::Upper { hash.to_uppercase() } else { hash.to_owned() };
        Ok(field(prefix, "hash", &hash))
    }
}

/// Up to twelve digits that are the same for every attempt, and differ between messages as far as twelve can.
fn sequence(id: MessageId) -> String {
    id.key().0.rem_euclid(1_000_000_000_000).to_string()
}

pub(crate) fn field(prefix: &str, name: &str, value: &str) -> String {
    format!("<{prefix}{name}>{}</{prefix}{name}>", partial_escape(value))
}

pub(crate) fn element(prefix: &str, name: &str, inner: &[String]) -> String {
    format!("<{prefix}{name}>{}</{prefix}{name}>", inner.concat())
}

/// The declaration of the standard's prefix, where its caller left it to us.
fn declaration(claim: &Claim<'_>) -> String {
    match claim.namespace(claim.prefix) {
        None => declare(String::new(), claim.prefix, TISS_NAMESPACE),
        Some(_) if claim.form == Form::Payload => declare(String::new(), claim.prefix, TISS_NAMESPACE),
        Some(_) => String::new(),
    }
}

/// Adds a declaration; of a prefix that is declared twice, the last one counts.
fn declare(declared: String, prefix: &str, stands_for: &str) -> String {
    let name = match prefix.trim_end_matches(':') {
        "" => " xmlns=\"".to_owned(),
        name => format!(" xmlns:{name}=\""),
    };
    let before = match declared.split_once(&name) {
        Some((before, rest)) => format!("{before}{}", rest.split_once('"').map_or("", |(_, after)| after)),
        None => declared,
    };
    format!("{before}{name}{}\"", stands_for.replace('"', "&quot;"))
}

pub(crate) fn envelope_start(declared: &str) -> String {
    let own = declare(declared.to_owned(), SOAP_PREFIX, SOAP_NAMESPACE);
    format!("<{SOAP_PREFIX}Envelope{own}><{SOAP_PREFIX}Body>")
}

pub(crate) fn envelope_end() -> String {
    format!("</{SOAP_PREFIX}Body></{SOAP_PREFIX}Envelope>")
}

/// A part of a text with some places in it replaced, in whatever order they are given.
fn changed(text: &str, part: Range<usize>, changes: &[(Range<usize>, String)]) -> String {
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_by_key(|(place, _)| place.start);
    let mut made = String::with_capacity(part.len() + 512);
    let mut at = part.start;
    for (place, new) in changes {
        made.push_str(&text[at..place.start]);
        made.push_str(new);
        at = place.end;
    }
    made.push_str(&text[at..part.end]);
    made
}

/// The document's bytes, with a declaration that says what they are.
///
/// A character that ISO-8859-1 lacks is written as a reference, which means the same everywhere but in CDATA.
pub(crate) fn encode(xml: &str, encoding: Encoding) -> Result<Vec<u8>, Unwritten> {
    if encoding == Encoding::Utf8 {
        return Ok(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{xml}").into_bytes());
    }
    let foreign = |part: &str| part.chars().any(|c| u8::try_from(c).is_err());
    let sections = xml.split("<![CDATA[").skip(1);
    if sections.filter_map(|section| section.split("]]>").next()).any(foreign) {
        return content("a CDATA section has a character that ISO-8859-1 lacks; write it outside of CDATA");
    }
    let mut bytes = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>".to_vec();
    for char in xml.chars() {
        match u8::try_from(char) {
            Ok(byte) => bytes.push(byte),
            Err(_) => bytes.extend(format!("&#{};", u32::from(char)).into_bytes()),
        }
    }
    Ok(bytes)
}
