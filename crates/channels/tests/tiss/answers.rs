use pombo_kernel::classify::Verdict;
use pombo_kernel::reply::{FaultKind, Reply};

use crate::receiver::Receiver;
use crate::{NAMESPACE, accepted, channel, doubtful, lot, meaning, refused, send};

async fn answered(status: u16, body: &[u8]) -> Reply {
    asked(&lot("77"), status, body).await
}

async fn asked(xml: &str, status: u16, body: &[u8]) -> Reply {
    let operator = Receiver::saying(status, "text/xml; charset=iso-8859-1", body).await;
    send(&channel(&operator.url()), xml).await
}

/// An answer of the service for lots.
fn receipt(inner: &str) -> String {
    format!(
        "<?xml version='1.0' encoding='ISO-8859-1'?><S:Envelope xmlns:S='http://schemas.xmlsoap.org/soap/envelope/'>\
         <S:Body><protocoloRecebimentoWS xmlns='{NAMESPACE}'><cabecalho/><recebimentoLote>{inner}</recebimentoLote>\
         </protocoloRecebimentoWS></S:Body></S:Envelope>"
    )
}

fn protocol(inner: &str) -> String {
    receipt(&format!(
        "<protocoloRecebimento><registroANS>123456</registroANS><numeroLote>77</numeroLote><detalheProtocolo>\
         <numeroProtocolo> 4711 </numeroProtocolo>{inner}</detalheProtocolo></protocoloRecebimento>"
    ))
}

fn denial(code: &str) -> String {
    format!(
        "<motivoGlosa><codigoGlosa>{code}</codigoGlosa><descricaoGlosa>Maria da Silva</descricaoGlosa></motivoGlosa>"
    )
}

fn fault(detail: &str) -> String {
    format!(
        "<S:Envelope xmlns:S='x'><S:Body><S:Fault><faultcode>S:Server</faultcode><faultstring>Ocorreu algo</faultstring>{detail}</S:Fault></S:Body></S:Envelope>"
    )
}

#[tokio::test]
async fn a_protocol_is_the_receipt() {
    let receipt = accepted(answered(200, protocol("").as_bytes()).await);
    assert_eq!((receipt.provider_id.as_deref(), receipt.code, receipt.note), (Some("4711"), Some(200), None));
}

#[tokio::test]
async fn denials_of_what_was_received_stand_in_the_receipt_without_names() {
    let guide = format!(
        "<dadosGuias><numeroGuiaPrestador>G-9</numeroGuiaPrestador><dadosBeneficiario><numeroCarteira>55</numeroCarteira></dadosBeneficiario>\
         <glosaGuia>{}</glosaGuia><procedimentosRealizados><procedimentoRealizado><glosasProcedimento>{}{}\
         </glosasProcedimento></procedimentoRealizado></procedimentosRealizados></dadosGuias>\
         <dadosGuias><numeroGuiaPrestador>G-10</numeroGuiaPrestador><glosaGuia>{}</glosaGuia></dadosGuias>",
        denial("1307"),
        denial("1801"),
        denial("1307"),
        denial("1017"),
    );
    let lot = format!("<glosaProtocolo><motivosGlosa>{}</motivosGlosa></glosaProtocolo>", denial("1104"));
    let answer = protocol(&format!("{lot}<dadosGuiasProtocolo>{guide}</dadosGuiasProtocolo>"));
    let receipt = accepted(answered(200, answer.as_bytes()).await);
    assert_eq!(receipt.provider_id.as_deref(), Some("4711"));
    let note = receipt.note.unwrap();
    assert_eq!(note, "received with denials: 1104; guide G-9: 1307, 1801; guide G-10: 1017");
}

#[tokio::test]
async fn a_note_is_bounded() {
    let many: String = (0..5_000)
        .map(|i| format!("<dadosGuias><numeroGuiaPrestador>{i}</numeroGuiaPrestador><glosaGuia>{}</glosaGuia></dadosGuias>", denial("1801")))
        .collect();
    let receipt = accepted(answered(200, protocol(&many).as_bytes()).await);
    assert!(receipt.note.unwrap().len() <= 1024);
}

#[tokio::test] // REQ CF-6
async fn a_refused_lot_carries_its_code_and_means_what_the_table_says() {
    use Verdict::{Permanent, SenderFault, Transient};
    for (code, verdict, category) in [
        ("1001", Permanent, "invalid_patient_data"),
        ("1023", Permanent, "invalid_patient_data"),
        ("5048", Permanent, "invalid_patient_data"),
        ("1003", Permanent, "insurance_expired"),
        ("1017", Permanent, "insurance_expired"),
        ("1024", Permanent, "insurance_expired"),
        ("1410", Permanent, "authorization_denied"),
        ("1403", Permanent, "authorization_denied"),
        ("3014", Permanent, "authorization_denied"),
        ("1308", Permanent, "duplicate_claim"),
        ("5053", Permanent, "duplicate_claim"),
        ("1702", Permanent, "duplicate_claim"),
        ("1801", Permanent, "invalid_procedure_code"),
        ("5036", Permanent, "invalid_procedure_code"),
        ("1412", Transient, "authorizer_unavailable"),
        ("3160", Transient, "timeout"),
        ("5009", Transient, "transfer_incomplete"),
        ("1427", Transient, "pending_analysis"),
        ("1201", SenderFault, "provider_contract"),
        ("5018", SenderFault, "certificate"),
        ("5028", SenderFault, "registry_or_version"),
        ("5014", Permanent, "invalid_message"),
        ("3148", Permanent, "invalid_message"),
        ("1330", Permanent, "paperwork"),
    ] {
        let error = format!(
            "<mensagemErro><codigoGlosa>{code}</codigoGlosa><descricaoGlosa>às 15:04 de 503</descricaoGlosa></mensagemErro>"
        );
        let latin1: Vec<u8> = receipt(&error).chars().map(|c| u8::try_from(c).unwrap()).collect();
        let reply = answered(200, &latin1).await;
        let meaning = meaning(&reply);
        let refusal = refused(reply);
        assert_eq!((refusal.status, refusal.name.as_deref()), (Some(200), Some(code)));
        assert_eq!(refusal.text, "às 15:04 de 503");
        assert_eq!((meaning.verdict, meaning.category.as_str()), (verdict, category), "{code}");
    }
}

#[tokio::test] // REQ RD-2
async fn an_empty_error_is_retried() {
    for error in [
        "<mensagemErro/>",
        "<mensagemErro><codigoGlosa></codigoGlosa><descricaoGlosa> </descricaoGlosa></mensagemErro>",
    ] {
        let reply = answered(200, receipt(error).as_bytes()).await;
        assert_eq!(meaning(&reply).verdict, Verdict::UnknownTransient);
        let refusal = refused(reply);
        assert_eq!((refusal.name, refusal.text.as_str()), (None, ""));
    }
}

#[tokio::test]
async fn a_fault_is_found_wherever_it_stands() {
    use Verdict::{Permanent, SenderFault, Transient};
    for (word, verdict, category) in [
        ("ErroInesperadoServidor", Transient, "server_error"),
        ("LoginInvalido", SenderFault, "invalid_login"),
        ("RemetenteInvalido", SenderFault, "provider_contract"),
        ("DestinatarioInvalido", SenderFault, "provider_contract"),
        ("VersaoInvalida", SenderFault, "registry_or_version"),
        ("HashInvalido", Permanent, "invalid_message"),
        ("SchemaInvalido", Permanent, "invalid_message"),
    ] {
        let ws = format!("<a:tissFaultWS xmlns:a='x'><a:tissFault>{word}</a:tissFault></a:tissFaultWS>");
        for (status, body) in [
            (500, fault(&format!("<detail>{ws}</detail>"))),
            (500, format!("<e><b>{ws}</b></e>")),
            (200, format!("<e><b>{ws}</b></e>")),
            (200, fault(&format!("<detail>{ws}</detail>"))),
        ] {
            let reply = answered(status, body.as_bytes()).await;
            let meaning = meaning(&reply);
            assert_eq!((meaning.verdict, meaning.category.as_str()), (verdict, category), "{body}");
            let refusal = refused(reply);
            assert_eq!((refusal.status, refusal.name.as_deref()), (Some(status), Some(word)), "{body}");
        }
    }
}

#[tokio::test]
async fn other_faults_keep_their_words() {
    let refusal = refused(answered(500, fault("").as_bytes()).await);
    assert_eq!((refusal.name.as_deref(), refusal.text.as_str()), (Some("Server"), "Ocorreu algo"));
    let newer = "<e:Fault xmlns:e='x'><e:Code><e:Value>e:Receiver</e:Value></e:Code><e:Reason><e:Text>Caiu</e:Text></e:Reason></e:Fault>";
    let refusal = refused(answered(500, newer.as_bytes()).await);
    assert_eq!((refusal.name.as_deref(), refusal.text.as_str()), (Some("Receiver"), "Caiu"));
    let own = "<r><codigoErro>1001</codigoErro><descricaoErro>Carteira</descricaoErro></r>";
    let reply = answered(200, own.as_bytes()).await;
    assert_eq!(meaning(&reply).category, "invalid_patient_data");
    assert_eq!(refused(reply).text, "Carteira");
    let header = "<protocoloRecebimentoWS><cabecalho><falhaNegocio>1017</falhaNegocio></cabecalho></protocoloRecebimentoWS>";
    assert_eq!(refused(answered(200, header.as_bytes()).await).name.as_deref(), Some("1017"));
}

#[tokio::test]
async fn a_status_alone_is_a_refusal_in_the_pages_words() {
    use Verdict::{SenderFault, Transient};
    for (status, verdict) in [
        (401, SenderFault),
        (403, SenderFault),
        (404, SenderFault),
        (302, SenderFault),
        (429, Transient),
        (502, Transient),
        (503, Transient),
    ] {
        let reply = answered(status, "<html><br>Manutenção".as_bytes()).await;
        assert_eq!(meaning(&reply).verdict, verdict, "{status}");
        let refusal = refused(reply);
        assert_eq!((refusal.status, refusal.name), (Some(status), None));
        assert_eq!(refusal.text, "<html><br>Manutenção");
    }
}

#[tokio::test] // REQ ML-5
async fn a_gateway_that_lost_the_operator_cannot_say_that_the_claim_was_not_taken() {
    for (status, body, doubt) in [
        (502, "<html>Bad Gateway</html>", true),
        (504, "", true),
        (524, "<html>A timeout occurred</html>", true),
        (503, "<html>Manutenção</html>", false),
        (500, "<r><codigoErro>1001</codigoErro></r>", false),
        (504, "<e:Fault xmlns:e='x'><faultcode>Server</faultcode></e:Fault>", false),
    ] {
        let refusal = refused(answered(status, body.as_bytes()).await);
        assert_eq!(refusal.perhaps_sent, doubt, "{status} {body}");
    }
}

#[tokio::test] // REQ ML-5
async fn a_success_that_proves_nothing_leaves_doubt() {
    let cut = protocol("");
    let cut = &cut[..cut.find("4711").unwrap() + 2];
    for body in [
        "",
        "ok",
        "<html><body><br>Bem-vindo</body></html>",
        "<html><body>Bem-vindo</body></html>",
        &receipt(""),
        &protocol("").replace(" 4711 ", ""),
        cut,
        "<!DOCTYPE a><protocoloRecebimentoWS><numeroProtocolo>1</numeroProtocolo></protocoloRecebimentoWS>",
        "{\"numeroProtocolo\": 1}",
    ] {
        let reply = answered(200, body.as_bytes()).await;
        assert_eq!(doubtful(&reply), FaultKind::Protocol, "{body}");
        assert_eq!(meaning(&reply).verdict, Verdict::Transient);
    }
}

#[tokio::test]
async fn a_protocol_counts_even_if_the_answer_breaks_off_after_it() {
    let whole = protocol("<dadosGuiasProtocolo>");
    let cut = &whole[..whole.find("</detalheProtocolo>").unwrap()];
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{cut}", whole.len());
    let operator = Receiver::start(move |mut stream, seen| {
        let head = head.clone();
        async move {
            seen.read(&mut stream).await;
            tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
        }
    })
    .await;
    let receipt = accepted(send(&channel(&operator.url()), &lot("77")).await);
    assert_eq!(receipt.provider_id.as_deref(), Some("4711"));
    assert!(receipt.note.unwrap().contains("broke off"));
}

#[tokio::test]
async fn a_wrong_hash_in_an_answer_is_noted_and_changes_nothing() {
    let hashed = |answer: String| {
        answer.replace("</protocoloRecebimentoWS>", "<hash>00</hash></protocoloRecebimentoWS>")
    };
    let receipt_ = accepted(answered(200, hashed(protocol("")).as_bytes()).await);
    assert!(receipt_.note.unwrap().contains("hash"));
    let error = receipt("<mensagemErro><codigoGlosa>1001</codigoGlosa></mensagemErro>");
    let refusal = refused(answered(200, hashed(error).as_bytes()).await);
    assert_eq!(refusal.name.as_deref(), Some("1001"));
    assert!(refusal.text.contains("hash"));
}

#[tokio::test]
async fn questions_are_answered_in_the_note() {
    let status = |number: &str| {
        format!(
            "<situacaoProtocoloWS><situacaoProtocolo><situacaoDoProtocolo><lote><detalheLote><statusProtocolo>{number}\
                 </statusProtocolo><numeroProtocolo>4711</numeroProtocolo></detalheLote></lote></situacaoDoProtocolo>\
                 </situacaoProtocolo></situacaoProtocoloWS>"
        )
    };
    let query =
        "<solicitacaoStatusProtocolo><numeroProtocolo>4711</numeroProtocolo></solicitacaoStatusProtocolo>";
    for (number, expected) in
        [("1", "1 recebido"), ("2", "2 em análise"), ("6", "6 pago"), ("7", "7 não localizado")]
    {
        let receipt = accepted(asked(query, 200, status(number).as_bytes()).await);
        assert_eq!(receipt.note.unwrap(), format!("protocol 4711; status {expected}"));
        assert_eq!(receipt.provider_id, None);
    }
    let error = "<situacaoProtocoloWS><lote><mensagemErro><codigoGlosa>1001</codigoGlosa></mensagemErro></lote></situacaoProtocoloWS>";
    assert_eq!(refused(asked(query, 200, error.as_bytes()).await).name.as_deref(), Some("1001"));

    let eligible = "<verificaElegibilidade/>";
    let no = "<respostaElegibilidadeWS><respostaElegibilidade><reciboElegibilidade><nomeBeneficiario>Maria</nomeBeneficiario>\
              <respostaSolicitacao>N</respostaSolicitacao><motivosNegativa><motivoNegativa><codigoGlosa>1017</codigoGlosa>\
              </motivoNegativa></motivosNegativa></reciboElegibilidade></respostaElegibilidade></respostaElegibilidadeWS>";
    let note = accepted(asked(eligible, 200, no.as_bytes()).await).note.unwrap();
    assert_eq!(note, "not eligible; answered with denials: 1017");
    let error = "<respostaElegibilidadeWS><respostaElegibilidade><codigoGlosa><codigoGlosa>1001</codigoGlosa>\
                 <descricaoGlosa>x</descricaoGlosa></codigoGlosa></respostaElegibilidade></respostaElegibilidadeWS>";
    assert_eq!(refused(asked(eligible, 200, error.as_bytes()).await).name.as_deref(), Some("1001"));

    let authorized = "<autorizacaoProcedimentoWS><autorizacaoServico><statusSolicitacao>3</statusSolicitacao></autorizacaoServico></autorizacaoProcedimentoWS>";
    let note = accepted(asked("<solicitacaoProcedimento/>", 200, authorized.as_bytes()).await).note.unwrap();
    assert_eq!(note, "authorization 3 negado");
    assert_eq!(doubtful(&asked("<cancelaGuia/>", 200, b"<x/>").await), FaultKind::Protocol);
}
