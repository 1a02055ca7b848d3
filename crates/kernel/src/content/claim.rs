//! The content of a claim: a request to a health insurer's TISS web service, in any of four forms.
//!
//! A request may come as a whole SOAP envelope, as the service's own element (`loteGuiasWS`), as a file of the
//! standard (`mensagemTISS`), or as what it is about alone (`loteGuias`). The channel makes an envelope of each.

use serde::Deserialize;
use serde_json::Value;

use super::{Found, present};
use crate::xml::{self, Element};

/// The namespace of all messages, the same in every version of the standard.
pub const TISS_NAMESPACE: &str = "http://www.ans.gov.br/padroes/tiss/schemas";
/// The namespace of SOAP 1.1.
pub const SOAP_NAMESPACE: &str = "http://schemas.xmlsoap.org/soap/envelope/";
/// The prefix that our own envelopes use.
pub const SOAP_PREFIX: &str = "soapenv:";
/// From an envelope down to the number of a guide.
const OUTLINE_DEPTH: usize = 7;
const GUIDES_MAX: usize = 100;

/// The content of a message to a TISS channel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimContent {
    pub xml: String,
}

/// Says how much there is and nothing of what it says.
impl std::fmt::Debug for ClaimContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimContent").field("xml_bytes", &self.xml.len()).finish()
    }
}

/// One service of the standard, by the names that its messages have.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// The element that the body of an envelope holds.
    pub request: &'static str,
    /// The part of it that is neither header nor hash.
    pub payload: &'static str,
    /// What a file calls that part.
    pub in_file: &'static str,
    /// `tipoTransacao` of a request.
    pub transaction: &'static str,
    /// The element that the body of an answer holds.
    pub answer: &'static str,
    /// A good answer gives a protocol number, without which nothing proves that the request was taken.
    pub gives_protocol: bool,
}

const fn service(
    [request, payload, in_file, transaction, answer]: [&'static str; 5],
    gives_protocol: bool,
) -> Service {
    Service { request, payload, in_file, transaction, answer, gives_protocol }
}

#[rustfmt::skip]
pub const SERVICES: [Service; 12] = [
    service(["loteGuiasWS", "loteGuias", "loteGuias", "ENVIO_LOTE_GUIAS", "protocoloRecebimentoWS"], true),
    service(["solicitacaoStatusProtocoloWS", "solicitacaoStatusProtocolo", "solicitacaoStatusProtocolo", "SOLIC_STATUS_PROTOCOLO", "situacaoProtocoloWS"], false),
    service(["pedidoElegibilidadeWS", "pedidoElegibilidade", "verificaElegibilidade", "VERIFICA_ELEGIBILIDADE", "respostaElegibilidadeWS"], false),
    service(["solicitacaoProcedimentoWS", "solicitacaoProcedimento", "solicitacaoProcedimento", "SOLICITACAO_PROCEDIMENTOS", "autorizacaoProcedimentoWS"], false),
    service(["solicitacaoStatusAutorizacaoWS", "solicitacaoStatusAutorizacao", "solicitaStatusAutorizacao", "SOLICITA_STATUS_AUTORIZACAO", "situacaoAutorizacaoWS"], false),
    service(["cancelaGuiaWS", "cancelaGuia", "cancelaGuia", "CANCELA_GUIA", "reciboCancelaGuiaWS"], false),
    service(["loteAnexoWS", "loteAnexo", "loteAnexos", "ENVIO_ANEXO", "protocoloRecebimentoAnexoWS"], true),
    service(["envioDocumentoWS", "envioDOcumento", "envioDocumentos", "ENVIO_DOCUMENTO", "reciboDocumentosWS"], false),
    service(["loteRecursoGlosaWS", "loteRecurso", "recursoGlosa", "RECURSO_GLOSA", "protocoloRecebimentoRecursoWS"], true),
    service(["solicitacaoStatusRecursoGlosaWS", "solicitacaoStatusProtocoloRecurso", "solicitacaoStatusRecursoGlosa", "SOLIC_STATUS_RECURSO_GLOSA", "situacaoProtocoloRecursoWS"], false),
    service(["solicitacaoDemonstrativoRetornoWS", "solicitacaoDemonstrativoRetorno", "solicitacaoDemonstrativoRetorno", "SOLIC_DEMONSTRATIVO_RETORNO", "demonstrativoRetornoWS"], false),
    service(["comunicacaoBeneficiarioWS", "comunicacaoBeneficiario", "comunicacaoInternacao", "COMUNICACAO_BENEFICIARIO", "reciboComunicacaoWS"], false),
];

/// How much of a request its caller wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A whole SOAP envelope.
    Envelope,
    /// The service's element, as the body of an envelope holds it.
    Request,
    /// A `mensagemTISS` file.
    File,
    /// What the request is about, without header and hash.
    Payload,
}

/// A request, taken apart. Places are bytes of the text that it was read from.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    pub form: Form,
    pub service: &'static Service,
    pub root: Element<'a>,
    /// The service's element, in the forms that have one.
    pub request: Option<Element<'a>>,
    pub header: Option<Element<'a>>,
    pub payload: Element<'a>,
    /// The hash as it was given, which may be empty.
    pub hash: Option<Element<'a>>,
    /// Somebody signed it, so that not a character may change.
    pub signed: bool,
    /// The prefix of the standard's elements, with its colon.
    pub prefix: &'a str,
    /// The prefixes that are declared where the payload stands.
    pub namespaces: Vec<(String, String)>,
}

/// Why a text is no request: the reason, and what to do about it.
pub type Unfit = (String, &'static str);

fn unfit<T>(reason: impl Into<String>, hint: &'static str) -> Result<T, Unfit> {
    Err((reason.into(), hint))
}

/// Whether a text is a claim's id: `CLM-`, anything, `-` and digits.
pub fn is_claim_id(text: &str) -> bool {
    let Some((head, digits)) = text.rsplit_once('-') else { return false };
    head.starts_with("CLM-") && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

pub(super) fn check(found: &mut Found, to: &str, content: &Value) {
    if to.trim().is_empty() || to.len() > 128 || to.chars().any(char::is_control) {
        found.add(
            "to",
            "is not the name of an operator",
            "write the operator's name as the channel is configured",
        );
    }
    let Some(members) = found.members("content", content, &["xml"]) else { return };
    match found.text("content", members, "xml") {
        None if present(members, "xml").is_some() => {}
        Some(xml) if !xml.trim().is_empty() => {
            if let Err((reason, hint)) = Claim::read(xml.strip_prefix('\u{FEFF}').unwrap_or(xml)) {
                found.add("content.xml", reason, hint);
            }
        }
        _ => found.add("content.xml", "is missing or empty", "give the claim's XML"),
    }
}

impl<'a> Claim<'a> {
    /// Takes a request apart, or says why it is none that a TISS service could take.
    pub fn read(xml: &'a str) -> Result<Claim<'a>, Unfit> {
        let root = match xml::outline(xml, OUTLINE_DEPTH) {
            Ok(root) => root,
            Err(bad) => {
                return unfit(format!("cannot be used as XML: {bad}"), "give one well-formed element");
            }
        };
        let claim = match root.local() {
            "Envelope" => Claim::of_envelope(root),
            "mensagemTISS" => Claim::of_file(root),
            name if SERVICES.iter().any(|service| service.request == name) => {
                let namespaces = root.tag.namespaces();
                Claim::of_request(Form::Request, root.clone(), root, namespaces)
            }
            name => match SERVICES.iter().find(|it| it.payload == name || it.in_file == name) {
                Some(service) => Ok(Claim {
                    form: Form::Payload,
                    service,
                    prefix: root.tag.prefix(),
                    namespaces: root.tag.namespaces(),
                    payload: root.clone(),
                    request: None,
                    header: None,
                    hash: None,
                    signed: false,
                    root,
                }),
                None => unfit(
                    "has a root element that no TISS service takes",
                    "give a SOAP envelope, an element such as loteGuiasWS, a mensagemTISS file, or loteGuias",
                ),
            },
        }?;
        claim.check_namespace()?;
        if let Some(header) = &claim.header {
            check_header(header, claim.service)?;
        }
        check_payload(&claim.payload)?;
        Ok(claim)
    }

    fn of_envelope(root: Element<'a>) -> Result<Claim<'a>, Unfit> {
        let mut namespaces = root.tag.namespaces();
        if lookup(&namespaces, root.tag.prefix()) != Some(SOAP_NAMESPACE) {
            return unfit(
                "is not a SOAP 1.1 envelope",
                "declare http://schemas.xmlsoap.org/soap/envelope/, or leave the envelope out",
            );
        }
        let Some(body) = root.child("Body") else {
            return unfit("has an envelope without a Body", "put the request into it");
        };
        let [request] = body.children.as_slice() else {
            return unfit(
                "has not exactly one element in its Body",
                "put the request there, and nothing else",
            );
        };
        let request = request.clone();
        namespaces.extend(body.tag.namespaces());
        namespaces.extend(request.tag.namespaces());
        Claim::of_request(Form::Envelope, root, request, namespaces)
    }

    fn of_request(
        form: Form,
        root: Element<'a>,
        request: Element<'a>,
        namespaces: Vec<(String, String)>,
    ) -> Result<Claim<'a>, Unfit> {
        let Some(service) = SERVICES.iter().find(|service| service.request == request.local()) else {
            return unfit(
                "has a request in its Body that no TISS service takes",
                "put an element such as loteGuiasWS there, without an operation around it",
            );
        };
        let Some(payload) = request.child(service.payload).cloned() else {
            return unfit(format!("has no {} in its {}", service.payload, service.request), "put it there");
        };
        let header = request.child("cabecalho").cloned();
        if header.is_none() && form == Form::Envelope {
            return unfit("has no cabecalho", "write one, or leave the envelope out: Pombo then writes both");
        }
        let hash = request.child("hash").cloned();
        let signed = is_signed(&request);
        if signed && (header.is_none() || hash.as_ref().is_none_or(|hash| hash.text.trim().is_empty())) {
            return unfit("is signed and not complete", "put in header and hash before it is signed");
        }
        let prefix = request.tag.prefix();
        Ok(Claim {
            form,
            service,
            root,
            request: Some(request),
            header,
            payload,
            hash,
            signed,
            prefix,
            namespaces,
        })
    }

    fn of_file(root: Element<'a>) -> Result<Claim<'a>, Unfit> {
        if is_signed(&root) {
            return unfit(
                "is a signed file, whose signature cannot hold in the form of a web service",
                "give the signed loteGuiasWS, or the file without its signature",
            );
        }
        let Some(sent) = root.child("prestadorParaOperadora") else {
            return unfit("has no prestadorParaOperadora", "a provider's message to an operator has one");
        };
        let found = match sent.children.as_slice() {
            [payload] => {
                SERVICES.iter().find(|it| it.in_file == payload.local()).map(|it| (it, payload.clone()))
            }
            _ => None,
        };
        let Some((service, payload)) = found else {
            return unfit(
                "has not exactly one known message in its prestadorParaOperadora",
                "put one there, such as loteGuias",
            );
        };
        let mut namespaces = root.tag.namespaces();
        namespaces.extend(sent.tag.namespaces());
        let header = root.child("cabecalho").cloned();
        let hash = root.child("epilogo").and_then(|it| it.child("hash")).cloned();
        let prefix = root.tag.prefix();
        let form = Form::File;
        Ok(Claim {
            form,
            service,
            root,
            request: None,
            header,
            payload,
            hash,
            signed: false,
            prefix,
            namespaces,
        })
    }

    /// What a prefix stands for where the payload is; nothing if nobody said.
    pub fn namespace(&self, prefix: &str) -> Option<&str> {
        lookup(&self.namespaces, prefix)
    }

    fn check_namespace(&self) -> Result<(), Unfit> {
        let hint = "declare http://www.ans.gov.br/padroes/tiss/schemas, or no prefix at all";
        let may_lack = self.form != Form::Envelope && self.prefix != SOAP_PREFIX;
        match self.namespace(self.prefix) {
            Some(TISS_NAMESPACE) => Ok(()),
            None if may_lack => Ok(()),
            _ => unfit("is not in the namespace of TISS", hint),
        }
    }
}

fn lookup<'n>(namespaces: &'n [(String, String)], prefix: &str) -> Option<&'n str> {
    namespaces.iter().rev().find(|(known, _)| known == prefix).map(|(_, stands_for)| stands_for.as_str())
}

fn is_signed(element: &Element<'_>) -> bool {
    ["Signature", "Signatures", "assinaturaDigital"].iter().any(|name| element.child(name).is_some())
}

/// `4.01.00`, never `04.01.00`.
pub fn is_version(text: &str) -> bool {
    let digits = |part: &str, count| part.len() == count && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = text.split('.').collect();
    matches!(parts[..], [major, minor, patch] if digits(major, 1) && digits(minor, 2) && digits(patch, 2))
}

/// So many digits and nothing else.
pub fn is_number(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())
}

fn check_header(header: &Element<'_>, service: &Service) -> Result<(), Unfit> {
    let transaction = |name| header.value(&["identificacaoTransacao", name]).unwrap_or_default();
    if transaction("tipoTransacao") != service.transaction {
        let reason = format!("has a tipoTransacao in its cabecalho that is not {}", service.transaction);
        return unfit(reason, "write that one: the service asks for it");
    }
    if !(1..=12).contains(&transaction("sequencialTransacao").chars().count()) {
        return unfit(
            "has a sequencialTransacao that is not 1 to 12 characters long",
            "number the transaction",
        );
    }
    if !header.value(&["destino", "registroANS"]).is_some_and(|number| is_number(number, 6)) {
        return unfit(
            "has a registroANS in its destino that is not six digits",
            "write the operator's number",
        );
    }
    if !header.value(&["Padrao"]).is_some_and(is_version) {
        return unfit("has a Padrao that is not like 4.01.00", "write the version of the standard");
    }
    let provider = |name| header.value(&["origem", "identificacaoPrestador", name]);
    let known = match (provider("CNPJ"), provider("CPF"), provider("codigoPrestadorNaOperadora")) {
        (Some(cnpj), None, None) => cnpj.len() == 14 && cnpj.bytes().all(|b| b.is_ascii_alphanumeric()),
        (None, Some(cpf), None) => is_number(cpf, 11),
        (None, None, Some(code)) => (1..=14).contains(&code.chars().count()),
        _ => false,
    };
    if !known {
        return unfit(
            "does not say in its origem which provider it is from",
            "write one of CNPJ (14 characters), CPF (11 digits), codigoPrestadorNaOperadora (at most 14)",
        );
    }
    let login = |name| header.value(&["loginSenhaPrestador", name]).map_or(0, |text| text.chars().count());
    if login("loginPrestador") > 20 || login("senhaPrestador") > 32 {
        return unfit(
            "has a login that is too long",
            "loginPrestador has at most 20 characters, senhaPrestador 32",
        );
    }
    Ok(())
}

/// What every operator would refuse a lot for.
fn check_payload(payload: &Element<'_>) -> Result<(), Unfit> {
    if !matches!(payload.local(), "loteGuias" | "loteAnexo" | "loteAnexos") {
        return Ok(());
    }
    let number = payload.value(&["numeroLote"]).unwrap_or_default();
    if !(1..=12).contains(&number.chars().count()) {
        return unfit("has a numeroLote that is not 1 to 12 characters long", "number the lot");
    }
    if payload.local() != "loteGuias" {
        return Ok(());
    }
    let Some(guides) = payload.child("guiasTISS").filter(|guides| !guides.children.is_empty()) else {
        return unfit("has a lot without guides", "put at least one into its guiasTISS");
    };
    if guides.children.len() > GUIDES_MAX {
        return unfit("has more than 100 guides in its lot", "send them as several lots");
    }
    let kind = guides.children[0].local();
    if guides.children.iter().any(|guide| guide.local() != kind) {
        return unfit("has guides of several types in its lot", "send one lot for each type");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;
    use super::*;
    use crate::kind::ChannelKind;
    use serde_json::json;

    const LOT: &str = "<ans:loteGuias><ans:numeroLote>77</ans:numeroLote><ans:guiasTISS><ans:guiaConsulta/></ans:guiasTISS></ans:loteGuias>";
    const HEADER: &str = "<ans:cabecalho><ans:identificacaoTransacao><ans:tipoTransacao>ENVIO_LOTE_GUIAS</ans:tipoTransacao>\
        <ans:sequencialTransacao>1</ans:sequencialTransacao></ans:identificacaoTransacao>\
        <ans:origem><ans:identificacaoPrestador><ans:codigoPrestadorNaOperadora>0001</ans:codigoPrestadorNaOperadora>\
        </ans:identificacaoPrestador></ans:origem><ans:destino><ans:registroANS>123456</ans:registroANS></ans:destino>\
        <ans:Padrao>4.01.00</ans:Padrao></ans:cabecalho>";

    fn request(header: &str, lot: &str) -> String {
        format!(
            "<ans:loteGuiasWS xmlns:ans='{TISS_NAMESPACE}'>{header}{lot}<ans:hash>h</ans:hash></ans:loteGuiasWS>"
        )
    }

    fn envelope(body: &str) -> String {
        format!("<s:Envelope xmlns:s='{SOAP_NAMESPACE}'><s:Body>{body}</s:Body></s:Envelope>")
    }

    fn file(header: &str, sent: &str) -> String {
        format!(
            "<ans:mensagemTISS xmlns:ans='{TISS_NAMESPACE}'>{header}<ans:prestadorParaOperadora>{sent}\
             </ans:prestadorParaOperadora><ans:epilogo><ans:hash>h</ans:hash></ans:epilogo></ans:mensagemTISS>"
        )
    }

    fn wrong(xml: &str, reason: &str) {
        match Claim::read(xml) {
            Ok(claim) => panic!("{xml} is a {:?}", claim.form),
            Err((why, hint)) => assert!(why.contains(reason) && !hint.is_empty(), "{xml}: {why}"),
        }
    }

    #[test]
    fn a_request_may_come_in_four_forms() {
        let plain = LOT.replace("ans:", "");
        for (xml, form) in [
            (envelope(&request(HEADER, LOT)), Form::Envelope),
            (request(HEADER, LOT), Form::Request),
            (request("", LOT), Form::Request),
            (format!("<?xml version='1.0'?><!-- x -->\n{}\n", file(HEADER, LOT)), Form::File),
            (LOT.to_owned(), Form::Payload),
            (plain, Form::Payload),
        ] {
            let claim = Claim::read(&xml).unwrap_or_else(|(why, _)| panic!("{xml}: {why}"));
            assert_eq!((claim.form, claim.service.request), (form, "loteGuiasWS"));
            assert!(xml[claim.payload.outer.clone()].contains("numeroLote>77<"), "{xml}");
            assert_eq!(claim.hash.is_some(), form != Form::Payload, "{xml}");
        }
    }

    #[test]
    fn every_service_is_known_by_its_request_its_payload_and_its_name_in_a_file() {
        for service in SERVICES.iter().skip(1) {
            let lot = "<numeroLote>1</numeroLote>";
            for name in [service.payload, service.in_file] {
                let xml = format!("<{name}>{lot}</{name}>");
                assert_eq!(Claim::read(&xml).unwrap().service, service, "{xml}");
            }
            let (outer, inner) = (service.request, service.payload);
            let xml = format!("<{outer}><{inner}>{lot}</{inner}></{outer}>");
            assert_eq!(Claim::read(&xml).unwrap().service, service, "{xml}");
        }
    }

    #[test]
    fn what_no_operator_would_take_is_refused_with_its_reason() {
        wrong("<a/>", "root element");
        wrong("<a", "cannot be used as XML");
        wrong("<loteGuias><?php x?></loteGuias>", "processing instruction");
        wrong(&envelope(&request("", LOT)), "no cabecalho");
        wrong(&envelope("<a/><b/>"), "exactly one");
        wrong(&envelope("<tissLoteGuias_Operation/>"), "no TISS service");
        wrong(
            &envelope(&request(HEADER, LOT))
                .replace(SOAP_NAMESPACE, "http://www.w3.org/2003/05/soap-envelope"),
            "1.1",
        );
        wrong(&request(HEADER, ""), "no loteGuias");
        wrong(&request(HEADER, LOT).replace(TISS_NAMESPACE, "urn:x"), "namespace");
        wrong(&envelope(&request(HEADER, LOT).replace("xmlns:ans", "xmlns:b")), "namespace");
        wrong(&LOT.replace("ans:", SOAP_PREFIX), "namespace");
        wrong(&file(HEADER, ""), "exactly one known message");
        wrong(
            &file(HEADER, LOT).replace("prestadorParaOperadora", "operadoraParaPrestador"),
            "prestadorParaOperadora",
        );
        wrong(&file(HEADER, LOT).replace("</ans:mensagemTISS>", "<Signature/></ans:mensagemTISS>"), "signed");
        let signed = request(HEADER, LOT).replace("</ans:loteGuiasWS>", "<Signature/></ans:loteGuiasWS>");
        assert!(Claim::read(&signed).unwrap().signed);
        wrong(&signed.replace("<ans:hash>h</ans:hash>", ""), "not complete");
    }

    #[test]
    fn a_header_is_held_against_the_standard() {
        for (before, after, reason) in [
            ("ENVIO_LOTE_GUIAS", "CANCELA_GUIA", "tipoTransacao"),
            ("<ans:sequencialTransacao>1<", "<ans:sequencialTransacao>1234567890123<", "sequencialTransacao"),
            (">123456<", ">12345<", "registroANS"),
            (">4.01.00<", ">04.01.00<", "Padrao"),
            (">0001<", "><", "provider"),
            (">0001<", ">012345678901234<", "provider"),
            ("codigoPrestadorNaOperadora", "CPF", "provider"),
        ] {
            wrong(&request(&HEADER.replace(before, after), LOT), reason);
        }
        let long = format!(
            "<ans:loginSenhaPrestador><ans:loginPrestador>{}</ans:loginPrestador></ans:loginSenhaPrestador></ans:cabecalho>",
            "u".repeat(21)
        );
        wrong(&request(&HEADER.replace("</ans:cabecalho>", &long), LOT), "login");
    }

    #[test]
    fn a_lot_has_a_number_and_up_to_a_hundred_guides_of_one_type() {
        wrong(&LOT.replace(">77<", "><"), "numeroLote");
        wrong(&LOT.replace(">77<", ">1234567890123<"), "numeroLote");
        wrong(&LOT.replace("<ans:guiaConsulta/>", ""), "without guides");
        wrong(&LOT.replace("<ans:guiaConsulta/>", &"<ans:guiaConsulta/>".repeat(101)), "more than 100");
        wrong(
            &LOT.replace("<ans:guiaConsulta/>", "<ans:guiaConsulta/><ans:guiaHonorarios/>"),
            "several types",
        );
        assert!(Claim::read(&LOT.replace("<ans:guiaConsulta/>", &"<ans:guiaConsulta/>".repeat(100))).is_ok());
    }

    #[test] // REQ RD-2
    fn a_claims_id_begins_with_clm_and_ends_in_digits() {
        for good in ["CLM-001-1234567890", "CLM--1", "CLM-a-b-0"] {
            assert!(is_claim_id(good), "{good}");
        }
        for bad in ["", "CLM-1", "CLM-1-", "CLM-1-a", "clm-1-1", "XCLM-1-1", "CLM-1-1 ", "CLM-1-١"] {
            assert!(!is_claim_id(bad), "{bad}");
        }
    }

    #[test] // REQ SE-2
    fn the_door_takes_xml_without_a_doctype() {
        let kind = ChannelKind::Tiss;
        refused(kind, " ", &json!({}), &["to", "content.xml"]);
        refused(kind, "amil", &json!({"xml": 1}), &["content.xml"]);
        refused(kind, "amil", &json!({"xml": "<a/>"}), &["content.xml"]);
        let attack = json!({"xml": "<!DocType a [<!ENTITY b SYSTEM \"file:///\">]><loteGuias/>"});
        refused(kind, "amil", &attack, &["content.xml"]);
        refused(kind, "amil", &json!({"xml": LOT, "hash": "x"}), &["content.hash"]);
        refused(kind, "amil", &json!({"xml": LOT}), &[]);
    }
}
