use std::fmt::Write as _;
use std::process::{Command, Output};

use pombo_kernel::reply::{FaultKind, Reply};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::io::AsyncWriteExt as _;

use crate::receiver::Receiver;
use crate::{channel, lot, send, unreachable};

const LIMIT_BYTES: u64 = 256 << 20;

fn laughs() -> String {
    let mut entities = String::from("<!ENTITY a 'ha'>");
    for level in 1..30 {
        let before = if level == 1 { "a".to_owned() } else { format!("a{}", level - 1) };
        let _ = write!(entities, "<!ENTITY a{level} '{}'>", format!("&{before};").repeat(10));
    }
    format!("<!DOCTYPE x [{entities}]><x><numeroProtocolo>&a29;</numeroProtocolo></x>")
}

fn corpus() -> Vec<Vec<u8>> {
    let deep =
        format!("{}<numeroProtocolo>1</numeroProtocolo>{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let wide: String = (0..50_000).map(|i| format!(" a{i}='x'")).collect();
    vec![
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
    ]
}

#[tokio::test] // REQ SE-2
async fn hostile_answers_are_bounded_and_never_taken_for_a_protocol() {
    for body in corpus() {
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

#[tokio::test] // REQ SE-2
async fn hostile_claims_are_never_sent() {
    let operator = Receiver::saying(200, "text/xml", b"<x/>").await;
    let hostile =
        |xml: &String| ["<!DOCTYPE", "<a><a>", " a9='x'", "&undefined;"].iter().any(|it| xml.contains(it));
    let corpus: Vec<String> =
        corpus().into_iter().filter_map(|body| String::from_utf8(body).ok()).filter(hostile).collect();
    for attack in &corpus {
        let reply = send(&channel(&operator.url()), &lot("1").replace("João", attack)).await;
        let (kind, text) = unreachable(&reply);
        assert_eq!(kind, FaultKind::BadContent, "{attack:.80}");
        assert!(text.len() < 300, "{text}");
    }
    assert_eq!((corpus.len(), operator.seen().len()), (6, 0));
}

/// Runs a command in a process that may have no more memory of its own than the limit.
fn limited(command: &str, arguments: &[&str]) -> Output {
    let mut run = Command::new("prlimit");
    run.arg(format!("--data={LIMIT_BYTES}"))
        .arg(command)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("prlimit: {error}; it is part of util-linux"))
}

#[test] // REQ SE-2
fn the_attacks_are_withstood_within_256_megabytes() {
    let greedy = limited("dd", &["if=/dev/zero", "of=/dev/null", "bs=300M", "count=1"]);
    assert!(!greedy.status.success(), "the limit holds nobody back, so it would show nothing");

    let own = std::env::current_exe().unwrap();
    let attacks = [
        "attack::hostile_answers_are_bounded_and_never_taken_for_a_protocol",
        "attack::hostile_claims_are_never_sent",
    ];
    let run = limited(own.to_str().unwrap(), &["--exact", "--test-threads=1", attacks[0], attacks[1]]);
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("2 passed"), "{}: {said}", run.status);
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
