//! What an operator answered, found by the names of its elements, wherever its software puts them.

use pombo_kernel::content::claim::Service;
use pombo_kernel::reply::{FaultKind, Receipt, Refusal, Reply};
use pombo_kernel::xml::{Step, walk};

use super::hash::Hashes;
use crate::answer::{hints, is_lost_on_the_way, words};
use crate::client::Answer;
use crate::line::fault;

/// How much of a receipt's note is kept.
const NOTE_BYTES_MAX: usize = 1024;
/// The standard allows twelve characters; some operators take more.
const PROTOCOL_CHARS_MAX: usize = 64;
const DENIALS_MAX: usize = 200;

/// What the answer says, as far as it was read.
#[derive(Debug, Default)]
struct Said {
    /// The answer's own element is there.
    answered: bool,
    protocol: Option<String>,
    /// A whole request was refused, with code and words.
    error: Option<(String, String)>,
    /// The header names a denial, which counts where nothing else does.
    failure: Option<String>,
    /// A fault's word or code, and its words.
    fault: Option<(String, String)>,
    /// Denials inside of what was received: the guide, if it is about one, and the code.
    denials: Vec<(Option<String>, String)>,
    /// Single facts for the note, such as the status of a protocol.
    notes: Vec<String>,
}

/// What the operator's answer to a request of this service comes to.
pub(super) fn read(answer: &Answer, service: &Service) -> Reply {
    let text = decoded(&answer.body);
    let mut said = Said::default();
    let read = Said::read(&text, service, &mut said);
    let broken = Hashes::of(&text).is_ok_and(|hashes| hashes.is_broken());
    let status = answer.status.as_u16();
    if !answer.status.is_success() {
        let Some((name, said)) = said.refusal() else {
            let perhaps_sent = is_lost_on_the_way(answer.status);
            let refusal = refused(answer, String::new(), words(text.as_bytes()), broken);
            return Reply::Refused(Refusal { perhaps_sent, ..refusal });
        };
        return Reply::Refused(refused(answer, name, said, broken));
    }
    if service.gives_protocol
        && let Some(protocol) = said.protocol.take()
    {
        if read.is_err() || !answer.whole {
            said.notes.push("the answer broke off after its protocol".to_owned());
        }
        let note = said.note("received", broken);
        let hints = hints(&answer.headers);
        return Reply::Accepted(Receipt { provider_id: Some(protocol), code: Some(status), note, hints });
    }
    let doubt = |words: &str| {
        let text = format!("the operator answered {status} {words}: perhaps it took the request");
        Reply::Doubtful(fault(FaultKind::Protocol, text))
    };
    if !answer.whole {
        return doubt("and broke off");
    }
    if read.is_err() {
        return doubt("with something that is not readable as XML");
    }
    if let Some((name, text)) = said.refusal() {
        return Reply::Refused(refused(answer, name, text, broken));
    }
    if service.gives_protocol || !said.answered {
        return doubt("without what the service should give");
    }
    let protocol = said.protocol.take().map(|protocol| format!("protocol {protocol}"));
    said.notes.splice(0..0, protocol);
    let note = said.note("answered", broken);
    Reply::Accepted(Receipt { provider_id: None, code: Some(status), note, hints: hints(&answer.headers) })
}

fn refused(answer: &Answer, name: String, mut text: String, broken: bool) -> Refusal {
    if broken {
        text.push_str(" (the answer's hash is not that of its values)");
    }
    Refusal {
        status: Some(answer.status.as_u16()),
        name: Some(name).filter(|name| !name.is_empty()),
        text: words(text.as_bytes()),
        hints: hints(&answer.headers),
        ..Refusal::default()
    }
}

/// UTF-8 where the bytes are that, and ISO-8859-1 otherwise, whatever the answer declares: text with accents in
/// the one is next to never valid in the other, and declarations are often wrong.
pub(crate) fn decoded(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

impl Said {
    fn read(text: &str, service: &Service, said: &mut Said) -> Result<(), pombo_kernel::xml::BadXml> {
        let mut path: Vec<&str> = Vec::new();
        let mut value = String::new();
        let mut guide: Option<String> = None;
        walk(text, |step| match step {
            Step::Open(tag) => {
                value.clear();
                path.push(tag.local());
                said.opened(&path, service);
            }
            Step::Text(text) => value.push_str(&text),
            Step::Close { .. } => {
                let local = path.pop().unwrap_or_default();
                let text = value.trim();
                match local {
                    "numeroGuiaPrestador" | "numeroGuiaRecurso" | "numeroGuiaOrigem" => guide = code(text),
                    "dadosGuias" | "dadosGuiasOdonto" | "guias" => guide = None,
                    _ if !text.is_empty() => said.closed(&path, local, text, guide.as_ref()),
                    _ => {}
                }
                value.clear();
            }
            Step::Instruction => {}
        })
    }

    /// Name and words of the refusal, if it is one.
    fn refusal(&mut self) -> Option<(String, String)> {
        let failure = self.failure.take();
        match self.fault.take().or(self.error.take()) {
            Some((name, text)) if name.is_empty() => Some((failure.unwrap_or_default(), text)),
            None => failure.map(|code| (code, String::new())),
            named => named,
        }
    }

    fn opened(&mut self, path: &[&str], service: &Service) {
        match path.last().copied().unwrap_or_default() {
            "mensagemErro" => _ = self.error.get_or_insert_default(),
            "Fault" | "tissFaultWS" => _ = self.fault.get_or_insert_default(),
            name => self.answered |= name == service.answer,
        }
    }

    /// Notes what an element without children says; `path` leads to it.
    fn closed(&mut self, path: &[&str], local: &str, text: &str, guide: Option<&String>) {
        let parent = path.last().copied().unwrap_or_default();
        let within = |name: &str| path.contains(&name);
        let of_request =
            within("mensagemErro") || (parent == "codigoGlosa" && within("respostaElegibilidade"));
        match local {
            "numeroProtocolo" | "nrProtocoloRecebimento" | "nrProtocoloRecursoGlosa" => {
                let usable =
                    text.chars().count() <= PROTOCOL_CHARS_MAX && !text.chars().any(char::is_control);
                if usable && self.protocol.is_none() {
                    self.protocol = Some(text.to_owned());
                }
            }
            // The enumerated word says more than the code of the fault around it.
            "tissFault" => self.fault.get_or_insert_default().0 = bounded(text),
            "faultcode" => name(&mut self.fault, unprefixed(text)),
            "Value" if parent == "Code" && within("Fault") => name(&mut self.fault, unprefixed(text)),
            "faultstring" => self.fault.get_or_insert_default().1 = text.to_owned(),
            "Text" if parent == "Reason" && within("Fault") => {
                self.fault.get_or_insert_default().1 = text.to_owned();
            }
            "codigoErro" => name(&mut self.error, text),
            "descricaoErro" => self.error.get_or_insert_default().1 = text.to_owned(),
            "codigoGlosa" if of_request => name(&mut self.error, text),
            "descricaoGlosa" if of_request => self.error.get_or_insert_default().1 = text.to_owned(),
            "falhaNegocio" => self.failure = code(text),
            "codigoGlosa" | "tipoGlosa" => {
                let denial = (guide.cloned(), code(text).unwrap_or_default());
                if self.denials.len() < DENIALS_MAX && !self.denials.contains(&denial) {
                    self.denials.push(denial);
                }
            }
            "statusProtocolo" | "situacaoProtocolo" | "situacaoDemonstrativo" => {
                self.notes.extend(stated("status", text, &PROTOCOL_STATUS));
            }
            "statusSolicitacao" => self.notes.extend(stated("authorization", text, &AUTHORIZATION_STATUS)),
            "respostaSolicitacao" if text == "S" => self.notes.push("eligible".to_owned()),
            "respostaSolicitacao" => self.notes.push("not eligible".to_owned()),
            "statusCancelamento" => self.notes.extend(stated("cancellation", text, &[])),
            _ => {}
        }
    }

    /// One line for the operator of this house: codes and numbers, nothing about a patient.
    fn note(self, done: &str, broken: bool) -> Option<String> {
        let mut parts = self.notes;
        if !self.denials.is_empty() {
            let mut groups: Vec<(Option<&str>, Vec<&str>)> = Vec::new();
            for (guide, code) in &self.denials {
                match groups.iter_mut().find(|(of, _)| *of == guide.as_deref()) {
                    Some((_, codes)) => codes.push(code),
                    None => groups.push((guide.as_deref(), vec![code])),
                }
            }
            let groups: Vec<String> = groups
                .iter()
                .map(|(guide, codes)| {
                    let of = guide.map_or(String::new(), |guide| format!("guide {guide}: "));
                    format!("{of}{}", codes.join(", "))
                })
                .collect();
            parts.push(format!("{done} with denials: {}", groups.join("; ")));
        }
        if broken {
            parts.push("the answer's hash is not that of its values".to_owned());
        }
        let mut note = parts.join("; ");
        if note.len() > NOTE_BYTES_MAX {
            note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX - 4));
            note.push('…');
        }
        (!note.is_empty()).then_some(note)
    }
}

const PROTOCOL_STATUS: [&str; 9] = [
    "recebido",
    "em análise",
    "liberado para pagamento",
    "encerrado sem pagamento",
    "analisado, aguardando liberação",
    "pago",
    "não localizado",
    "aguardando complemento",
    "cancelado",
];
const AUTHORIZATION_STATUS: [&str; 7] = [
    "autorizado",
    "em análise",
    "negado",
    "aguardando justificativa",
    "aguardando documentos",
    "cancelado",
    "autorizado parcialmente",
];

/// `status 2 em análise`, in the standard's own words.
fn stated(what: &str, text: &str, known: &[&str]) -> Option<String> {
    let number: usize = text.parse().ok().filter(|number| *number < 100)?;
    let meaning = number.checked_sub(1).and_then(|index| known.get(index));
    Some(meaning.map_or(format!("{what} {number}"), |meaning| format!("{what} {number} {meaning}")))
}

/// Gives an error its name, unless it has one already.
fn name(error: &mut Option<(String, String)>, text: &str) {
    let error = error.get_or_insert_default();
    if error.0.is_empty() {
        error.0 = bounded(text);
    }
}

fn bounded(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

fn unprefixed(text: &str) -> &str {
    text.rsplit_once(':').map_or(text, |(_, local)| local)
}

/// A code or number of the standard: at most twenty plain characters, and nothing that could be a name.
fn code(text: &str) -> Option<String> {
    let code: String =
        text.chars().filter(|c| c.is_ascii_alphanumeric() || "-./_".contains(*c)).take(20).collect();
    (!code.is_empty()).then_some(code)
}
