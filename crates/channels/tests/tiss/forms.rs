use std::cell::Cell;

use pombo_channels::Channel as _;
use pombo_channels::tiss::{Encoding, HashCase, HashRule, Tiss, TissServices, TissSettings};
use pombo_kernel::reply::FaultKind;
use pombo_kernel::xml::{Step, walk};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::receiver::Receiver;
use crate::{NAMESPACE, PATIENCE, accepted, channel, envelope, lot, send, settings, unreachable, with_login};

/// The hash of the known values, over either encoding: header, lot 77 and João.
const LATIN1: &str = "b2211d15987daedd80ae36db98766c4d";
const UTF8: &str = "5294b1925b04435461133fe302046f3b";

const OK: &str =
    "<a><protocoloRecebimentoWS><numeroProtocolo>900</numeroProtocolo></protocoloRecebimentoWS></a>";
const LOT: &str = "<ans:loteGuias><ans:numeroLote>77</ans:numeroLote>\n  <ans:guiasTISS><ans:guiaConsulta>João</ans:guiaConsulta></ans:guiasTISS></ans:loteGuias>";

fn header(sequence: &str) -> String {
    format!(
        "<ans:cabecalho><ans:identificacaoTransacao><ans:tipoTransacao>ENVIO_LOTE_GUIAS</ans:tipoTransacao>\
         <ans:sequencialTransacao>{sequence}</ans:sequencialTransacao><ans:dataRegistroTransacao>2025-01-31</ans:dataRegistroTransacao>\
         <ans:horaRegistroTransacao>10:20:30</ans:horaRegistroTransacao></ans:identificacaoTransacao>\
         <ans:origem><ans:identificacaoPrestador><ans:codigoPrestadorNaOperadora>0001</ans:codigoPrestadorNaOperadora>\
         </ans:identificacaoPrestador></ans:origem><ans:destino><ans:registroANS>123456</ans:registroANS></ans:destino>\
         <ans:Padrao>4.01.00</ans:Padrao></ans:cabecalho>"
    )
}

fn request(inner: &str) -> String {
    format!("<ans:loteGuiasWS xmlns:ans=\"{NAMESPACE}\">{inner}</ans:loteGuiasWS>")
}

fn whole(inner: &str) -> String {
    format!(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Body>{}\
         </soapenv:Body></soapenv:Envelope>",
        request(inner)
    )
}

fn file(inner: &str, hash: &str) -> String {
    format!(
        "<?xml version='1.0' encoding='ISO-8859-1'?>\n<ans:mensagemTISS xmlns:ans=\"{NAMESPACE}\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:schemaLocation=\"x y\">{}\
         <ans:prestadorParaOperadora>{inner}</ans:prestadorParaOperadora>\
         <ans:epilogo><ans:hash>{hash}</ans:hash></ans:epilogo></ans:mensagemTISS>",
        header("1")
    )
}

async fn operator() -> Receiver {
    Receiver::saying(200, "text/xml", OK.as_bytes()).await
}

/// What went out, as text, once the operator has taken it.
async fn sent(change: impl FnOnce(&mut TissSettings), xml: &str) -> String {
    let operator = operator().await;
    let mut settings = settings(&operator.url());
    change(&mut settings);
    let receipt = accepted(send(&Tiss::new(&settings).unwrap(), xml).await);
    assert_eq!(receipt.provider_id.as_deref(), Some("900"));
    let body = operator.body();
    String::from_utf8(body.clone()).unwrap_or_else(|_| body.iter().copied().map(char::from).collect())
}

/// The elements with text, in order: name and value.
fn values(xml: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut name, mut value) = (String::new(), String::new());
    walk(xml, |step| match step {
        Step::Open(tag) => {
            tag.local().clone_into(&mut name);
            value.clear();
        }
        Step::Text(text) => value.push_str(&text),
        Step::Close { .. } => {
            if !value.trim().is_empty() {
                found.push((name.clone(), std::mem::take(&mut value)));
            }
        }
        Step::Instruction => {}
    })
    .unwrap_or_else(|bad| panic!("{bad}: {xml}"));
    found
}

fn value(xml: &str, name: &str) -> String {
    let found: Vec<_> = values(xml).into_iter().filter(|(local, _)| local == name).collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0].1.clone()
}

#[tokio::test]
async fn a_lot_alone_gets_header_hash_and_envelope() {
    let operator = operator().await;
    let channel = Tiss::new(&with_login(&operator.url())).unwrap();
    accepted(send(&channel, LOT).await);
    let (head, body) = operator.seen().remove(0);
    let head = head.to_lowercase();
    assert!(head.starts_with("post /tiss http/1.1\r\n"), "{head}");
    for line in [
        "soapaction: \"\"\r\n",
        "content-type: text/xml; charset=iso-8859-1\r\n",
        "accept-encoding: identity\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let text: String = body.iter().copied().map(char::from).collect();
    assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><soapenv:Envelope"), "{text}");
    assert!(
        text.contains("<soapenv:Body><ans:loteGuiasWS><ans:cabecalho>"),
        "bare, without an operation: {text}"
    );
    let names: Vec<String> =
        values(&text).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        names[..11],
        [
            "tipoTransacao=ENVIO_LOTE_GUIAS",
            names[1].as_str(),
            "dataRegistroTransacao=2025-01-31",
            "horaRegistroTransacao=10:20:30",
            "codigoPrestadorNaOperadora=0001",
            "registroANS=123456",
            "Padrao=4.01.00",
            "loginPrestador=clinica",
            "senhaPrestador=senha-41",
            "numeroLote=77",
            "guiaConsulta=João"
        ]
    );
    let sequence = names[1].strip_prefix("sequencialTransacao=").unwrap();
    assert!((1..=12).contains(&sequence.len()) && sequence.bytes().all(|b| b.is_ascii_digit()), "{sequence}");
    assert_eq!(value(&text, "hash").len(), 32);
    assert!(text.ends_with("</ans:hash></ans:loteGuiasWS></soapenv:Body></soapenv:Envelope>"), "{text}");
}

#[tokio::test]
async fn every_attempt_of_a_message_sends_the_same_bytes() {
    let operator = operator().await;
    let channel = channel(&operator.url());
    for minutes in [0, 90] {
        let mut envelope = envelope(LOT);
        envelope.now = pombo_kernel::time::Time::from_millis(envelope.now.millis() + minutes * 60_000);
        accepted(channel.send(&envelope, PATIENCE).await);
    }
    let requests = operator.seen();
    assert_eq!(requests[0].1, requests[1].1);
}

#[tokio::test]
async fn the_hash_is_the_known_one_in_each_encoding_and_case() {
    let inner = header("1") + LOT;
    for (hash_encoding, hash_case, expected) in [
        (Encoding::Latin1, HashCase::Lower, LATIN1.to_owned()),
        (Encoding::Latin1, HashCase::Upper, LATIN1.to_uppercase()),
        (Encoding::Utf8, HashCase::Lower, UTF8.to_owned()),
    ] {
        for xml in [whole(&inner), request(&inner), file(LOT, "")] {
            let change =
                |it: &mut TissSettings| (it.hash_encoding, it.hash_case) = (hash_encoding, hash_case);
            assert_eq!(value(&sent(change, &xml).await, "hash"), expected, "{xml}");
        }
    }
}

#[tokio::test]
async fn a_message_with_its_right_hash_goes_as_it_came() {
    let hashed = format!("{}{LOT}<ans:hash>{}</ans:hash>", header("1"), LATIN1.to_uppercase());
    let login = |it: &mut TissSettings| {
        *it = TissSettings { login: Some("u".into()), ..with_login(it.url.as_ref().unwrap().as_str()) }
    };
    assert!(sent(login, &whole(&hashed)).await.ends_with(&whole(&hashed)));
    assert!(sent(login, &request(&hashed)).await.contains(&request(&hashed)));
    let signed =
        format!("{hashed}<Signature xmlns=\"http://www.w3.org/2000/09/xmldsig#\"><x>y</x></Signature>");
    assert!(sent(login, &request(&signed)).await.contains(&request(&signed)));
    // A file takes another form, so that its hash is made anew where the login comes in.
    let as_service = sent(login, &file(LOT, LATIN1)).await;
    assert_eq!(value(&as_service, "loginPrestador"), "u");
    assert_ne!(value(&as_service, "hash"), LATIN1);
    let as_service = sent(|_| {}, &file(LOT, LATIN1)).await;
    assert_eq!(value(&as_service, "hash"), LATIN1);
    assert!(!as_service.contains("epilogo") && !as_service.contains("mensagemTISS"), "{as_service}");
}

#[tokio::test]
async fn a_wrong_hash_is_not_sent() {
    let operator = operator().await;
    let with = |hash: &str| format!("{}{LOT}<ans:hash>{hash}</ans:hash>", header("1"));
    let bad = "0".repeat(32);
    for (rule, xml, reason) in [
        (HashRule::Auto, whole(&with(&bad)), "not that of its values"),
        (HashRule::Auto, request(&with(&bad)), "not that of its values"),
        (HashRule::Auto, file(LOT, &bad), "not that of its values"),
        (HashRule::Verify, request(&with(&bad)), "not that of its values"),
        (HashRule::Auto, request(&with(UTF8)), "over UTF-8"),
        (HashRule::Verify, request(&(header("1") + LOT)), "carries no hash"),
        (HashRule::Verify, LOT.to_owned(), "carries no hash"),
    ] {
        let channel = Tiss::new(&TissSettings { hash: rule, ..settings(&operator.url()) }).unwrap();
        let reply = send(&channel, &xml).await;
        let (kind, text) = unreachable(&reply);
        assert_eq!(kind, FaultKind::BadContent);
        assert!(text.contains(reason), "{text}");
    }
    assert_eq!(operator.seen().len(), 0);
    let computed = sent(|it| it.hash = HashRule::Compute, &request(&with(&bad))).await;
    assert_eq!(value(&computed, "hash"), LATIN1);
}

#[tokio::test]
async fn what_is_missing_is_put_in_and_nothing_else_changes() {
    let bare = request(LOT);
    let text = sent(|_| {}, &bare).await;
    assert_eq!(value(&text, "tipoTransacao"), "ENVIO_LOTE_GUIAS");
    assert!(text.contains(LOT), "{text}");
    // A hash over a lot without its header is right, and yet not the message's.
    let hash = "<ans:hash>cb23998bbab08c1de6d82b64095024be</ans:hash>";
    let early = sent(|_| {}, &request(&format!("{LOT}{hash}"))).await;
    assert_eq!(value(&early, "registroANS"), "123456");
    // Without any declaration, with another prefix, and without one.
    for xml in [LOT.to_owned(), LOT.replace("ans:", "t:"), LOT.replace("ans:", ""), format!("\u{feff}{LOT}")]
    {
        let text = sent(|_| {}, &xml).await;
        assert_eq!(text.matches(NAMESPACE).count(), 1, "{text}");
        assert!(text.contains(xml.trim_start_matches('\u{feff}')), "{text}");
    }
    let declared = LOT.replacen("<ans:loteGuias>", &format!("<ans:loteGuias xmlns:ans='{NAMESPACE}'>"), 1);
    assert_eq!(value(&sent(|_| {}, &declared).await, "numeroLote"), "77");
    // What a file declares at its root goes along.
    assert!(sent(|_| {}, &file(LOT, "")).await.contains("XMLSchema-instance"));
}

#[tokio::test]
async fn a_service_is_addressed_by_its_own_names() {
    for (xml, request, payload, transaction) in [
        (
            "<verificaElegibilidade><numeroCarteira>1</numeroCarteira></verificaElegibilidade>",
            "pedidoElegibilidadeWS",
            "pedidoElegibilidade",
            "VERIFICA_ELEGIBILIDADE",
        ),
        (
            "<recursoGlosa a='1'><x>1</x></recursoGlosa>",
            "loteRecursoGlosaWS",
            "loteRecurso a='1'",
            "RECURSO_GLOSA",
        ),
        ("<loteAnexos><numeroLote>1</numeroLote></loteAnexos>", "loteAnexoWS", "loteAnexo", "ENVIO_ANEXO"),
        ("<cancelaGuia/>", "cancelaGuiaWS", "cancelaGuia", "CANCELA_GUIA"),
        (
            "<solicitacaoProcedimento/>",
            "solicitacaoProcedimentoWS",
            "solicitacaoProcedimento",
            "SOLICITACAO_PROCEDIMENTOS",
        ),
        (
            "<solicitacaoStatusProtocolo/>",
            "solicitacaoStatusProtocoloWS",
            "solicitacaoStatusProtocolo",
            "SOLIC_STATUS_PROTOCOLO",
        ),
    ] {
        let operator = operator().await;
        let _ = send(&channel(&operator.url()), xml).await;
        let text = String::from_utf8(operator.body()).unwrap();
        assert!(text.contains(&format!("<{request}>")) && text.contains(&format!("<{payload}>")), "{text}");
        assert_eq!(value(&text, "tipoTransacao"), transaction);
    }
}

#[tokio::test]
async fn a_service_may_have_an_address_of_its_own() {
    let (main, status) = (operator().await, operator().await);
    let services =
        TissServices { status_protocolo: Some(status.url().parse().unwrap()), ..TissServices::default() };
    let channel = Tiss::new(&TissSettings { services, ..settings(&main.url()) }).unwrap();
    let _ = send(&channel, "<solicitacaoStatusProtocolo/>").await;
    accepted(send(&channel, LOT).await);
    assert_eq!((main.seen().len(), status.seen().len()), (1, 1));
}

#[tokio::test]
async fn bytes_are_as_the_operator_wants_them() {
    let odd = LOT.replace("João", "João € 5");
    let latin1 = sent(|_| {}, &odd).await;
    assert!(latin1.contains("Jo\u{e3}o &#8364; 5"), "{latin1}");
    let utf8 = sent(|it| it.encoding = Encoding::Utf8, &odd).await;
    assert!(
        utf8.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>") && utf8.contains("João € 5"),
        "{utf8}"
    );
    let section = LOT.replace("João", "<![CDATA[€]]>");
    let operator = operator().await;
    let reply = send(&channel(&operator.url()), &section).await;
    assert!(unreachable(&reply).1.contains("CDATA"));
    assert!(sent(|it| it.encoding = Encoding::Utf8, &section).await.contains("<![CDATA[€]]>"));
}

#[tokio::test]
async fn a_password_may_be_sent_as_its_md5() {
    let change = |it: &mut TissSettings| {
        *it = TissSettings { password_md5: true, ..with_login(it.url.as_ref().unwrap().as_str()) }
    };
    let text = sent(change, LOT).await;
    // printf senha-41 | md5sum
    assert_eq!(value(&text, "senhaPrestador"), "89c7d36dc184cfd5c05add05b18fcdb6");
    assert!(!text.contains("senha-41"));
}

#[tokio::test]
async fn a_claim_for_another_operator_stays_here() {
    let operator = operator().await;
    let channel = channel(&operator.url());
    let other = request(&(header("1").replace("123456", "999999") + LOT));
    assert_eq!(unreachable(&send(&channel, &other).await).0, FaultKind::BadContent);
    let mut addressed = envelope(LOT);
    addressed.to = "999999".to_owned();
    assert_eq!(unreachable(&channel.send(&addressed, PATIENCE).await).0, FaultKind::BadContent);
    assert_eq!(operator.seen().len(), 0);
    addressed.to = "123456".to_owned();
    accepted(channel.send(&addressed, PATIENCE).await);
}

#[tokio::test]
async fn a_header_that_cannot_be_written_is_the_channels_fault() {
    let operator = operator().await;
    let bare = TissSettings { url: Some(operator.url().parse().unwrap()), ..TissSettings::default() };
    let channel = Tiss::new(&bare).unwrap();
    let reply = send(&channel, LOT).await;
    assert_eq!(unreachable(&reply).0, FaultKind::NotConfigured);
    assert!(unreachable(&reply).1.contains("provider"));
    accepted(send(&channel, &whole(&(header("1") + LOT))).await);
}

#[test] // REQ SE-2
fn no_setting_and_no_claim_makes_more_than_one_request_or_element() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (operator, taken) = (runtime.block_on(operator()), Cell::new(0));
    let inputs = ("[!-~é]{1,20}", "[!-~é]{1,32}", "[!-~é]{1,14}", "\\PC{0,30}|[\r\n<>&'\" ]{0,20}");
    TestRunner::new(ProptestConfig::with_cases(64))
        .run(&inputs, |(login, password, code, value_in)| {
            let settings = TissSettings {
                login: Some(login.clone()),
                password: Some(pombo_kernel::secret::Secret::new(&password)),
                provider: Some(code.clone()),
                encoding: Encoding::Utf8,
                ..settings(&operator.url())
            };
            let Ok(channel) = Tiss::new(&settings) else { return Ok(()) };
            let xml = LOT.replace("João", &value_in);
            if !matches!(runtime.block_on(send(&channel, &xml)), pombo_kernel::reply::Reply::Accepted(_)) {
                return Ok(());
            }
            let count = taken.get() + 1;
            taken.set(count);
            let requests = operator.seen();
            prop_assert_eq!(requests.len(), count);
            let text = String::from_utf8(requests[count - 1].1.clone()).unwrap();
            prop_assert_eq!(value(&text, "loginPrestador"), login);
            prop_assert_eq!(value(&text, "senhaPrestador"), password);
            prop_assert_eq!(value(&text, "codigoPrestadorNaOperadora"), code);
            Ok(())
        })
        .unwrap();
    assert!(taken.get() > 10, "{taken:?}");
}

#[tokio::test]
async fn content_that_is_no_claim_is_not_sent() {
    let operator = operator().await;
    let channel = channel(&operator.url());
    for content in [
        "",
        "{}",
        "[1]",
        r#"{"xml": 1}"#,
        r#"{"xml": "<canary-77/>"}"#,
        r#"{"xml": "<!DOCTYPE a><loteGuias/>"}"#,
    ] {
        let mut envelope = envelope(&lot("1"));
        envelope.content = content.to_owned();
        let reply = channel.send(&envelope, PATIENCE).await;
        assert_eq!(unreachable(&reply).0, FaultKind::BadContent, "{content}");
        assert!(!format!("{reply:?}").contains("canary"));
    }
    assert_eq!(operator.connections(), 0);
}
