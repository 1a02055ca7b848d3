use std::time::Duration;

use pombo_channels::sandbox::tiss::{TissOptions, TissSandbox};
use pombo_channels::tiss::{Encoding, HashCase, Tiss, TissSettings};
use pombo_channels::{Channel as _, Health};
use pombo_kernel::classify::Verdict;
use pombo_kernel::reply::{FaultKind, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    PATIENCE, accepted, channel, doubtful, lot, meaning, refused, send, send_within, settings, with_login,
};

const SHORT: Duration = Duration::from_secs(2);

async fn operator_with(options: &TissOptions) -> TissSandbox {
    TissSandbox::start("127.0.0.1:0".parse().unwrap(), options).await.unwrap()
}

async fn operator() -> TissSandbox {
    operator_with(&TissOptions::default()).await
}

#[tokio::test]
async fn a_lot_is_taken_once_and_its_protocol_can_be_asked_about() {
    let operator = operator().await;
    let channel = channel(&operator.url());
    let receipt = accepted(send(&channel, &lot("77")).await);
    let protocol = receipt.provider_id.unwrap();
    assert_eq!((protocol.len(), receipt.note), (12, None));
    let refusal = refused(send(&channel, &lot("77")).await);
    assert_eq!(refusal.name.as_deref(), Some("1308"));
    let stats = operator.stats();
    assert_eq!((stats.total, stats.accepted, stats.duplicates, stats.invalid), (2, 1, 1, 0));
    assert_eq!(operator.lot("77").protocol, Some(protocol.clone()));

    let query = |protocol: &str| {
        format!(
            "<solicitacaoStatusProtocolo><numeroProtocolo>{protocol}</numeroProtocolo></solicitacaoStatusProtocolo>"
        )
    };
    let note = accepted(send(&channel, &query(&protocol)).await).note.unwrap();
    assert_eq!(note, format!("protocol {protocol}; status 2 em análise"));
    assert!(accepted(send(&channel, &query("1")).await).note.unwrap().contains("7 não localizado"));
}

#[tokio::test]
async fn every_service_is_answered() {
    let operator = operator().await;
    let channel = channel(&operator.url());
    for xml in [
        "<verificaElegibilidade/>",
        "<solicitacaoProcedimento/>",
        "<solicitaStatusAutorizacao/>",
        "<cancelaGuia/>",
        "<loteAnexo><numeroLote>1</numeroLote></loteAnexo>",
        "<envioDocumentos/>",
        "<recursoGlosa/>",
        "<solicitacaoStatusRecursoGlosa/>",
        "<solicitacaoDemonstrativoRetorno/>",
        "<comunicacaoInternacao/>",
    ] {
        accepted(send(&channel, xml).await);
    }
    assert_eq!(operator.stats().queries, 10);
}

#[tokio::test]
async fn the_number_of_a_lot_is_its_script() {
    use Verdict::{Permanent, SenderFault, Transient};
    let operator = operator().await;
    let channel = channel(&operator.url());
    for (number, name, verdict) in [
        ("71001", "1001", Permanent),
        ("71017", "1017", Permanent),
        ("71201", "1201", SenderFault),
        ("71412", "1412", Transient),
        ("75053", "5053", Permanent),
        ("79001", "ErroInesperadoServidor", Transient),
        ("79002", "LoginInvalido", SenderFault),
        ("79003", "HashInvalido", Permanent),
        ("79004", "SchemaInvalido", Permanent),
        ("79005", "VersaoInvalida", SenderFault),
    ] {
        let reply = send(&channel, &lot(number)).await;
        assert_eq!(meaning(&reply).verdict, verdict, "{number}");
        assert_eq!(refused(reply).name.as_deref(), Some(name), "{number}");
    }
    assert_eq!(operator.stats().accepted, 0);

    let note = accepted(send(&channel, &lot("79101")).await).note.unwrap();
    assert_eq!(note, "received with denials: 1104; guide G-9: 1307, 1801");
    accepted(send(&channel, &lot("79102")).await);
    for (number, kind) in [
        ("79103", FaultKind::ConnectionReset),
        ("79105", FaultKind::Protocol),
        ("79110", FaultKind::Protocol),
    ] {
        assert_eq!(doubtful(&send(&channel, &lot(number)).await), kind);
        // What nobody knew is known at the second try.
        assert_eq!(refused(send(&channel, &lot(number)).await).name.as_deref(), Some("1308"), "{number}");
    }
    assert_eq!(doubtful(&send_within(&channel, &lot("79104"), SHORT).await), FaultKind::Timeout);
    assert!(operator.lot("79104").protocol.is_some());
    assert_eq!(refused(send(&channel, &lot("79106")).await).status, Some(500));
    assert_eq!(refused(send(&channel, &lot("79107")).await).status, Some(503));
    assert_eq!(refused(send(&channel, &lot("79108")).await).name, None);
    assert_eq!(refused(send(&channel, &lot("79109")).await).status, Some(500));
    accepted(send(&channel, &lot("79109")).await);
    assert_eq!(operator.stats().duplicates, 3);
    accepted(send(&channel, &lot("1001")).await);
}

#[tokio::test]
async fn what_is_not_in_order_is_refused_by_its_word() {
    let options = TissOptions {
        registro_ans: Some("123456".to_owned()),
        login: Some(("clinica".to_owned(), "senha-41".to_owned())),
        encoding: Encoding::Utf8,
        hash_case: Some(HashCase::Upper),
        ..TissOptions::default()
    };
    let operator = operator_with(&options).await;
    let good = TissSettings {
        encoding: Encoding::Utf8,
        hash_encoding: Encoding::Utf8,
        hash_case: HashCase::Upper,
        ..with_login(&operator.url())
    };
    accepted(send(&Tiss::new(&good).unwrap(), &lot("1")).await);
    for (settings, word) in [
        (TissSettings { hash_encoding: Encoding::Latin1, ..good.clone() }, "HashInvalido"),
        (TissSettings { hash_case: HashCase::Lower, ..good.clone() }, "HashInvalido"),
        (TissSettings { registro_ans: Some("654321".to_owned()), ..good.clone() }, "DestinatarioInvalido"),
        (TissSettings { password_md5: true, ..good.clone() }, "LoginInvalido"),
        (TissSettings { login: None, password: None, ..good.clone() }, "LoginInvalido"),
    ] {
        let refusal = refused(send(&Tiss::new(&settings).unwrap(), &lot("2")).await);
        assert_eq!(refusal.name.as_deref(), Some(word));
    }
    assert_eq!((operator.stats().invalid, operator.stats().accepted), (5, 1));
}

#[tokio::test]
async fn an_outage_and_bad_luck_can_be_ordered() {
    let operator = operator().await;
    let channel = channel(&operator.url());
    operator.outage(true);
    assert_eq!(refused(send(&channel, &lot("1")).await).status, Some(503));
    assert!(matches!(channel.probe(PATIENCE).await, Health::Sick(Reply::Refused(_))));
    let reply = raw(
        &operator,
        "POST /outage?on=0 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(matches!(channel.probe(PATIENCE).await, Health::Reachable(_)));
    accepted(send(&channel, &lot("1")).await);
    let stats = raw(&operator, "GET /stats?lot=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(stats.ends_with(r#"{"received":1,"protocol":"100000000001"}"#), "{stats}");
    operator.stop().await;

    let unlucky = operator_with(&TissOptions { fail_percent: 50, seed: 1, ..TissOptions::default() }).await;
    let channel = crate::channel(&unlucky.url());
    let mut taken = 0;
    for number in 0..40 {
        taken += u64::from(matches!(send(&channel, &lot(&number.to_string())).await, Reply::Accepted(_)));
    }
    assert_eq!(unlucky.stats().accepted, taken);
    assert!((5..36).contains(&taken), "{taken}");
}

async fn raw(operator: &TissSandbox, request: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(operator.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn requests_at_the_same_time_arrive_once_each() {
    let operator = operator().await;
    let channel = std::sync::Arc::new(Tiss::new(&settings(&operator.url())).unwrap());
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let channel = channel.clone();
            tokio::spawn(async move {
                for i in 0..10 {
                    accepted(send(&channel, &lot(&format!("{worker}{i:02}"))).await);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let stats = operator.stats();
    assert_eq!((stats.total, stats.accepted, stats.duplicates), (80, 80, 0));
}
