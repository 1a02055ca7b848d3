//! The real binary, offered several times what it can hold and send: it refuses in words before memory or disk grows,
//! and what it accepted arrives, also if it is killed in the middle.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "hostile/memory.rs"]
mod memory;
mod place;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use pombo::client::Payload;
use pombo_channels::sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Barrier;

use memory::peak_kb;
use place::{KEY, Place, WORKERS, all_sent, drained, read_store, sink};

/// Callers that come at once, each with a body of this size: more than eight times what bodies may take together.
const CALLERS: usize = 128;
const BODY_BYTES: usize = 9_000_000;
const ROOM_BYTES: usize = 128 << 20;
/// Messages that may wait to be written.
const WAITING_BYTES: usize = 64 << 20;
/// The program itself, the cache of the store, and what the allocator has not given back.
const REST_BYTES: usize = 192 << 20;
const WAVES: usize = 2;
/// Callers with small messages, one after another, meanwhile.
const SMALL_CALLERS: usize = 4;
const SMALL_EACH: usize = 250;
/// So many a second may go to the provider, until everything may.
const RATE: usize = 1;

fn configure(place: &Place, rate: Option<usize>) {
    let rate = rate.map(|rate| format!("rate = \"{rate}/s\"\n")).unwrap_or_default();
    let config = format!(
        "[limits]\ncontent_bytes = {BODY_BYTES}\nrequest_bytes = {}\n[lanes.default]\nworkers = {WORKERS}\n\
         [channels.crm]\nkind = \"webhook\"\nallow_private = true\nattempt_timeout = \"60s\"\n{rate}",
        2 * BODY_BYTES
    );
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
}

struct Answer {
    status: u16,
    headers: String,
    body: Value,
}

impl Answer {
    /// The id of the message if it was accepted; nothing if it was refused as it should be.
    fn accepted(&self) -> Option<String> {
        let Answer { status, headers, body } = self;
        if *status == 202 {
            return Some(body["id"].as_str().unwrap().to_owned());
        }
        assert!(matches!(status, 429 | 503), "{status}: {headers}{body}");
        assert!(headers.contains("content-type: application/problem+json\r\n"), "{headers}");
        let wait = headers.lines().find_map(|line| line.strip_prefix("retry-after: "));
        assert!(wait.is_some_and(|wait| wait.parse::<u32>().is_ok()), "{headers}");
        assert_eq!(body["status"], *status, "{body}");
        for part in ["type", "title", "code", "detail", "hint"] {
            assert!(body[part].as_str().is_some_and(|text| !text.is_empty()), "no {part}: {body}");
        }
        None
    }
}

async fn read(mut from: OwnedReadHalf) -> io::Result<Answer> {
    let (mut bytes, mut head): (_, Option<(usize, usize)>) = (Vec::new(), None);
    loop {
        if let Some((end, length)) = head
            && bytes.len() >= end + length
        {
            let headers = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
            let body = serde_json::from_slice(&bytes[end..end + length]).unwrap();
            return Ok(Answer { status, headers, body });
        }
        if from.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let (None, Some(end)) = (head, bytes.windows(4).position(|four| four == b"\r\n\r\n")) {
            let headers = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            head = Some((end + 4, length.parse().unwrap()));
        }
    }
}

/// Hands one message in, and stops halfway to wait for the others, where there are some.
///
/// Whoever is refused need not send the rest, nor be able to: the answer counts.
async fn post(at: SocketAddr, key: &str, body: Bytes, together: Option<&Barrier>) -> io::Result<Answer> {
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\nidempotency-key: {key}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let begun = async {
        let (from, mut to) = TcpStream::connect(at).await?.into_split();
        let mut reading = Box::pin(read(from));
        let half = async {
            to.write_all(head.as_bytes()).await?;
            to.write_all(&body[..body.len() / 2]).await
        };
        let answer = tokio::select! {
            answer = &mut reading => Some(answer?),
            _ = half => None,
        };
        io::Result::Ok((reading, to, answer))
    };
    let begun = begun.await;
    if let Some(together) = together {
        // All are there; and somebody has looked.
        together.wait().await;
        together.wait().await;
    }
    let (reading, mut to, answer) = begun?;
    if let Some(answer) = answer {
        return Ok(answer);
    }
    let rest = async {
        let _ = to.write_all(&body[body.len() / 2..]).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = reading => answer,
        () = rest => unreachable!("it never ends"),
    }
}

/// What producers were told.
#[derive(Clone, Default)]
struct Told {
    accepted: Arc<AtomicUsize>,
}

impl Told {
    fn note(&self, answer: &Answer) -> Option<String> {
        let id = answer.accepted();
        self.accepted.fetch_add(usize::from(id.is_some()), Ordering::SeqCst);
        id
    }
}

fn message(url: &str, filling: usize) -> Bytes {
    let body = json!({"channel": "crm", "to": url, "content": {"body": {"filling": "x".repeat(filling)}}});
    body.to_string().into()
}

/// Callers who all come at once; what each was told in the end, and what of it is an id.
struct Wave {
    callers: Vec<tokio::task::JoinHandle<(String, io::Result<Option<String>>)>>,
    together: Arc<Barrier>,
}

impl Wave {
    fn start(at: SocketAddr, nth: usize, large: &Bytes, told: &Told) -> Wave {
        let together = Arc::new(Barrier::new(CALLERS + 1));
        let callers = (0..CALLERS).map(|caller| {
            let (large, told, together) = (large.clone(), told.clone(), together.clone());
            tokio::spawn(async move {
                let key = format!("large-{nth}-{caller}");
                let answer = post(at, &key, large, Some(&together)).await;
                (key, answer.map(|answer| told.note(&answer)))
            })
        });
        Wave { callers: callers.collect(), together }
    }

    /// Waits until all of them are there, with half of what they want to say; then lets them go on.
    async fn gathered(&self, place: &Place) {
        self.together.wait().await;
        let text = scrape(place).await;
        let held = gauge(&text, "pombo_http_held_bytes");
        assert!(held <= ROOM_BYTES, "{held} bytes of bodies are held");
        assert!(
            held > ROOM_BYTES - 2 * BODY_BYTES,
            "only {held} bytes are held: too little to prove anything"
        );
        self.together.wait().await;
    }
}

async fn scrape(place: &Place) -> String {
    let text = place.client().call(Method::GET, "/metrics", Payload::default()).await.unwrap();
    String::from_utf8(text.to_vec()).unwrap()
}

fn gauge(text: &str, name: &str) -> usize {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// What a folder's database has on disk.
fn stored(data: &Path) -> u64 {
    let size = |name: &str| std::fs::metadata(data.join(name)).map_or(0, |file| file.len());
    size("pombo.db") + size("pombo.db-wal")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, RELIABILITY 37
async fn what_is_too_much_is_refused_before_memory_grows_and_what_was_accepted_arrives_once_also_after_a_kill()
 {
    let place = Place::new();
    configure(&place, Some(RATE));
    let sink = sink().await;
    let server = place.start();
    place.ready().await;
    let at: SocketAddr = place.url().strip_prefix("http://").unwrap().parse().unwrap();
    let (told, url) = (Told::default(), sink.url("/ok"));
    let large = message(&url, BODY_BYTES - 1_000);
    let small: Vec<_> = (0..SMALL_CALLERS)
        .map(|caller| tokio::spawn(one_by_one(at, caller, message(&url, 200), told.clone())))
        .collect();
    let mut ids = Vec::new();
    for nth in 0..WAVES {
        let wave = Wave::start(at, nth, &large, &told);
        wave.gathered(&place).await;
        let mut refused = 0;
        for caller in wave.callers {
            let (_, answer) = caller.await.unwrap();
            match answer.expect("everybody is answered") {
                Some(id) => ids.push(id),
                None => refused += 1,
            }
        }
        assert!(refused >= CALLERS - ROOM_BYTES / BODY_BYTES, "only {refused} were refused");
        let text = scrape(&place).await;
        assert!(gauge(&text, "pombo_store_bytes_waiting") <= WAITING_BYTES);
    }
    let (large_taken, mut refused) = (ids.len(), WAVES * CALLERS - ids.len());
    for caller in small {
        ids.extend(caller.await.unwrap());
    }
    let gone = usize::try_from(sink.stats().total).unwrap();
    assert!(ids.len() >= 3 * gone, "{gone} of {} were sent already: not enough was offered", ids.len());
    let peak = usize::try_from(peak_kb(server.pid())).unwrap() * 1_024;
    // Each body as it came and as the message that was read from it, and the messages that wait.
    let bound = 2 * ROOM_BYTES + WAITING_BYTES + REST_BYTES;
    assert!(2 * bound < CALLERS * BODY_BYTES, "too little is offered to tell");
    assert!(peak < bound, "it had {peak} bytes at once, and its limits allow {bound}");
    let disk = usize::try_from(stored(&place.data())).unwrap();
    let taken_bytes = large_taken * BODY_BYTES + SMALL_CALLERS * SMALL_EACH * 4_096;
    assert!(disk < 2 * taken_bytes + (32 << 20), "{disk} bytes on disk for {taken_bytes} that were accepted");

    // Everything may go: all that was accepted arrives, each once, and nothing else.
    configure(&place, None);
    server.signal("-HUP");
    drained(&place.client(), ids.len()).await;
    each_arrived_once(&sink, &ids);

    // Once more, and killed while some have been told and others wait for it.
    let before = told.accepted.load(Ordering::SeqCst);
    let wave = Wave::start(at, WAVES, &large, &told);
    wave.gathered(&place).await;
    while told.accepted.load(Ordering::SeqCst) < before + 2 {
        assert!(wave.callers.iter().any(|caller| !caller.is_finished()), "everybody was answered already");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.kill();
    let server = place.start();
    place.ready().await;
    let (mut untold, mut last) = (0, 0);
    for caller in wave.callers {
        match caller.await.unwrap() {
            (_, Ok(Some(id))) => {
                last += 1;
                ids.push(id);
            }
            (_, Ok(None)) => refused += 1,
            // Nobody knows whether it was taken: the same again is the same message.
            (key, Err(_)) => {
                untold += 1;
                let answer = post(at, &key, large.clone(), None).await.unwrap();
                ids.push(answer.accepted().expect("there is room for one"));
            }
        }
    }
    drained(&place.client(), ids.len()).await;
    assert!(server.terminate().await.success());
    let repeated = all_sent(&read_store(&place.data(), &ids), &sink, &ids);
    assert!(repeated <= WORKERS, "{repeated} came again after one death");
    println!(
        "result overload kills=1 messages={} refused={refused} told_before_kill={last} untold={untold} lost=0 \
         repeated={repeated} peak_mb={} offered_at_once_mb={}",
        ids.len(),
        peak / 1_000_000,
        CALLERS * BODY_BYTES / 1_000_000
    );
}

/// Hands in small messages one after another, each until it is taken.
async fn one_by_one(at: SocketAddr, caller: usize, body: Bytes, told: Told) -> Vec<String> {
    let mut ids = Vec::new();
    for nth in 0..SMALL_EACH {
        let key = format!("small-{caller}-{nth}");
        loop {
            let answer = post(at, &key, body.clone(), None).await.expect("everybody is answered");
            if let Some(id) = told.note(&answer) {
                ids.push(id);
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    ids
}

fn each_arrived_once(sink: &Sandbox, ids: &[String]) {
    for id in ids {
        assert_eq!(sink.count(id).accepted, 1, "{id}");
    }
    let stats = sink.stats();
    assert_eq!(usize::try_from(stats.distinct).unwrap(), ids.len(), "something came that was refused");
    assert_eq!(usize::try_from(stats.total).unwrap(), ids.len());
}
