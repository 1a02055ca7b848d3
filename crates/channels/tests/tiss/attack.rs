use std::fmt::Write as _;

use pombo_kernel::reply::Reply;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::io::AsyncWriteExt as _;

use crate::receiver::Receiver;
use crate::{channel, lot, send};

fn laughs() -> String {
    let mut entities = String::from("<!ENTITY a 'ha'>");
    for level in 1..30 {
        let before = if level == 1 { "a".to_owned() } else { format!("a{}", level - 1) };
        let _ = write!(entities, "<!ENTITY a{level} '{}'>", format!("&{before};").repeat(10));
    }
    format!("<!DOCTYPE x [{entities}]><x><numeroProtocolo>&a29;</numeroProtocolo></x>")
}

#[tokio::test] // REQ SE-2
async fn hostile_answers_are_bounded_and_never_taken_for_a_protocol() {
    let deep =
        format!("{}<numeroProtocolo>1</numeroProtocolo>{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let wide: String = (0..50_000).map(|i| format!(" a{i}='x'")).collect();
    let corpus: Vec<Vec<u8>> = vec![
        b"<!DOCTYPE x SYSTEM 'http://127.0.0.1:1/x.dtd'><x><numeroProtocolo>1</numeroProtocolo></x>".to_vec(),
        b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x><numeroProtocolo>&e;</numeroProtocolo></x>".to_vec(),
        laughs().into_bytes(),
        deep.into_bytes(),
        format!("<x{wide}><numeroProtocolo>1</numeroProtocolo></x>").into_bytes(),
        b"<x><numeroProtocolo>&undefined;</numeroProtocolo></x>".to_vec(),
        format!("<x><numeroProtocolo>{}</numeroProtocolo></x>", "9".repeat(3_000_000)).into_bytes(),
        b"<x><numeroProtocolo>1\x01</numeroProtocolo></x>".to_vec(),
        b"\xff\xfe<\0x\0/\0>\0".to_vec(),
        b"<?xml version='1.0' encoding='utf-16'?><x/>".to_vec(),
        b"<![CDATA[<numeroProtocolo>1</numeroProtocolo>]]>".to_vec(),
        b"<x><!-- <numeroProtocolo>1</numeroProtocolo> --></x>".to_vec(),
        b"<x><?y <numeroProtocolo>1</numeroProtocolo> ?></x>".to_vec(),
        b"<x a='<numeroProtocolo>1</numeroProtocolo>'/>".to_vec(),
    ];
    for body in corpus {
        let operator = Receiver::saying(200, "text/xml", &body).await;
        let reply = send(&channel(&operator.url()), &lot("1")).await;
        let start = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        assert!(matches!(reply, Reply::Doubtful(_)), "{start}: {reply:?}");
        let operator = Receiver::saying(500, "text/xml", &body).await;
        let Reply::Refused(refusal) = send(&channel(&operator.url()), &lot("1")).await else {
            panic!("{start}")
        };
        assert!(refusal.text.len() <= 4096 && refusal.name.is_none_or(|name| name.len() <= 256), "{start}");
    }
}

#[tokio::test]
async fn encodings_that_are_not_what_they_say_are_read_all_the_same() {
    let error = |encoding: &str| {
        format!(
            "<?xml version='1.0' encoding='{encoding}'?><r><mensagemErro><codigoGlosa>1001</codigoGlosa><descricaoGlosa>Não</descricaoGlosa></mensagemErro></r>"
        )
    };
    let latin1 = |text: String| text.chars().map(|c| u8::try_from(c).unwrap()).collect::<Vec<u8>>();
    for body in [
        error("UTF-8").into_bytes(),
        error("ISO-8859-1").into_bytes(),
        latin1(error("UTF-8")),
        latin1(error("ISO-8859-1")),
        [b"\xEF\xBB\xBF".to_vec(), error("UTF-8").into_bytes()].concat(),
        error("UTF-8").replace("Não", "<![CDATA[Não]]>").into_bytes(),
    ] {
        let operator = Receiver::saying(200, "text/xml", &body).await;
        let refusal = crate::refused(send(&channel(&operator.url()), &lot("1")).await);
        assert_eq!((refusal.name.as_deref(), refusal.text.as_str()), (Some("1001"), "Não"));
    }
}

#[test] // REQ SE-2
fn no_bytes_make_the_channel_panic_or_say_too_much() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (give, answers) = std::sync::mpsc::channel::<Vec<u8>>();
    let answers = std::sync::Arc::new(std::sync::Mutex::new(answers));
    let operator = runtime.block_on(Receiver::start(move |mut stream, seen| {
        let answers = answers.clone();
        async move {
            while seen.read(&mut stream).await.is_some() {
                let body = answers.lock().unwrap().recv().unwrap();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            }
        }
    }));
    let channel = channel(&operator.url());
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "(<(S:Body|Fault|faultstring|numeroProtocolo|mensagemErro|codigoGlosa|hash)>|</(S:Body|Fault|codigoGlosa)>|&(amp|#0|x);|<!|\\?>|1001){0,10}"
            .prop_map(String::into_bytes),
    ];
    let bodies = proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    TestRunner::new(ProptestConfig::with_cases(128))
        .run(&bodies, |body| {
            give.send(body).unwrap();
            match runtime.block_on(send(&channel, &lot("1"))) {
                Reply::Refused(refusal) => prop_assert!(refusal.text.len() <= 4096),
                Reply::Accepted(receipt) => prop_assert!(receipt.provider_id.is_some()),
                Reply::Doubtful(_) => {}
                Reply::Unreachable(fault) => return Err(TestCaseError::fail(fault.text)),
            }
            Ok(())
        })
        .unwrap();
}
