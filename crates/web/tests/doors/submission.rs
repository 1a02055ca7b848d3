//! Mails handed in over SMTP, by clients that behave and clients that do not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo_kernel::setup::{ChannelSetup, Suppressions};
use pombo_store::StoreError;
use pombo_web::Patience;
use pombo_web::smtp::{Bounds, Manner, serve};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::house::{House, key, setup};
use crate::traces::{Kept, taken_along};

struct Open {
    address: SocketAddr,
    house: House,
    _manner: watch::Sender<Arc<Manner>>,
}

async fn open(bounds: Bounds) -> Open {
    let house = House::with(setup(), Patience::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let manner =
        watch::Sender::new(Arc::new(Manner { name: Some("pombo.example".into()), ..Manner::default() }));
    tokio::spawn(serve(listener, house.door.clone(), manner.subscribe(), bounds, std::future::pending()));
    Open { address, house, _manner: manner }
}

struct Line(BufReader<TcpStream>);

impl Open {
    async fn line(&self) -> Line {
        Line(BufReader::new(TcpStream::connect(self.address).await.unwrap()))
    }

    /// A client that has logged in.
    async fn known(&self) -> Line {
        let mut line = self.line().await;
        line.reply().await;
        line.ask("EHLO a").await;
        assert!(line.log_in("mail", "key-producer").await.starts_with("235 "));
        line
    }
}

impl Line {
    async fn say(&mut self, text: &str) {
        // It may have hung up, which its last words will tell.
        let _ = self.0.get_mut().write_all(text.as_bytes()).await;
    }

    /// The last line of the next reply; nothing once the server has hung up.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(Duration::from_secs(60), self.0.read_line(&mut line)).await;
            read.expect("the server answers or hangs up").ok();
            if line.is_empty() || line.as_bytes()[3] == b' ' {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn ask(&mut self, line: &str) -> String {
        self.say(&format!("{line}\r\n")).await;
        self.reply().await
    }

    async fn log_in(&mut self, user: &str, key: &str) -> String {
        self.ask(&format!("AUTH PLAIN {}", BASE64.encode(format!("\0{user}\0{key}")))).await
    }

    /// Hands in a mail up to its end, and says what became of it.
    async fn mail(&mut self, mail: &str) -> String {
        self.say("MAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\n").await;
        for code in ["250", "250", "354"] {
            let reply = self.reply().await;
            assert!(reply.starts_with(code), "{reply}");
        }
        self.ask(&format!("{mail}\r\n.")).await
    }
}

#[tokio::test] // REQ IN-3, SE-1
async fn who_may_send_through_a_channel_may_hand_in_mails_for_it() {
    let server = open(Bounds::default()).await;
    let bound =
        pombo_web::key::KeyDoc { channels: Some(vec!["crm".parse().unwrap()]), ..key("bound", "producer") };
    server.house.add_key("default", &bound).await;
    for (user, key, code) in [
        ("mail", "key-producer", "235"),
        ("mail", "key-operator", "235"),
        ("mail", "key-viewer", "535"),
        ("mail", "key-foreign", "535"),
        ("mail", "key-bound", "535"),
        ("mail", "key-nobody", "535"),
        ("crm", "key-producer", "535"),
        ("nowhere", "key-producer", "535"),
        ("", "", "535"),
    ] {
        let mut line = server.line().await;
        assert_eq!(line.reply().await, "220 pombo.example ESMTP Pombo");
        line.ask("EHLO a").await;
        let reply = line.log_in(user, key).await;
        assert!(reply.starts_with(code), "{user} {key}: {reply}");
        let reply = line.ask("MAIL FROM:<a@x.example>").await;
        assert_eq!(reply.starts_with("250"), code == "235", "{user} {key}: {reply}");
    }
    let mut line = server.known().await;
    let reply = line.mail("Subject: s\r\n\r\nhi").await;
    assert!(reply.starts_with("250 2.0.0 accepted as msg_"), "{reply}");
    let id = reply.rsplit(' ').next().unwrap();
    let message = server.house.get(&format!("/v1/messages/{id}")).await.json();
    assert_eq!((&message["channel"], &message["to"]), (&"mail".into(), &"b@x.example".into()));
    assert_eq!(message["content"]["subject"], "s");
}

#[tokio::test] // REQ SE-1
async fn whoever_guesses_at_keys_is_sent_away() {
    let server = open(Bounds::default()).await;
    let mut last = String::new();
    for n in 0..30 {
        let mut line = server.line().await;
        line.reply().await;
        line.ask("EHLO a").await;
        last = line.log_in("mail", &format!("guess-{n}")).await;
        if last.starts_with("421") {
            assert_eq!(line.reply().await, "", "and the line is cut");
            break;
        }
        assert!(last.starts_with("535"), "{last}");
    }
    assert!(last.starts_with("421 4.7.0 "), "{last}");
    server.known().await;
}

#[tokio::test] // REQ IN-3
async fn nothing_is_confirmed_that_is_not_stored() {
    let server = open(Bounds::default()).await;
    for (mood, code) in [
        (StoreError::Unavailable("disk full".into()), "451 4.3.0 "),
        (StoreError::Overloaded, "421 4.3.2 "),
        (StoreError::Closed, "421 4.3.2 "),
    ] {
        let mut line = server.known().await;
        server.house.store.feel(Some(mood));
        let reply = line.mail("Subject: s\r\n\r\nhi").await;
        server.house.store.feel(None);
        assert!(reply.starts_with(code), "{reply}");
        if code.starts_with("451") {
            assert!(line.mail("Subject: s\r\n\r\nhi").await.starts_with("250"), "the next may go through");
        } else {
            assert_eq!(line.reply().await, "");
        }
    }
    assert_eq!(server.house.stored().await, 1);
}

#[tokio::test] // REQ SE-1
async fn a_key_that_ends_ends_its_sessions() {
    let server = open(Bounds::default()).await;
    let mut line = server.known().await;
    let id = server.house.get("/v1/keys").await.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["label"] == "producer")
        .map(|key| key["id"].as_str().unwrap().to_owned())
        .unwrap();
    let reply = server.house.call("DELETE", &format!("/v1/keys/{id}"), "").await;
    assert!(reply.status.is_success(), "{}", reply.text);
    let reply = line.mail("Subject: s\r\n\r\nhi").await;
    assert!(reply.starts_with("554 5.7.1 "), "{reply}");
    assert_eq!(server.house.stored().await, 0);
}

#[tokio::test] // REQ SE-2
async fn whoever_is_slow_is_sent_away_and_nobody_waits_for_them() {
    let soon = Duration::from_secs(1);
    let bounds = Bounds { stranger_command: soon, welcome: soon * 2, mail: soon, ..Bounds::default() };
    let server = open(bounds).await;
    let (mut mute, mut slow) = (server.line().await, server.line().await);
    for line in [&mut mute, &mut slow] {
        assert!(line.reply().await.starts_with("220"));
    }
    let mut busy = server.known().await;
    busy.say("MAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\n").await;
    for _ in 0..3 {
        busy.reply().await;
    }
    // A byte now and then, to be always about to say something.
    let drip = async {
        loop {
            for line in [&mut slow, &mut busy] {
                line.say("x").await;
            }
            tokio::time::sleep(soon / 6).await;
        }
    };
    let _ = tokio::time::timeout(soon * 4, drip).await;
    for line in [&mut mute, &mut slow, &mut busy] {
        assert_eq!(line.reply().await, "421 4.4.2 that took too long: goodbye");
        assert_eq!(line.reply().await, "");
    }
    assert_eq!(server.house.stored().await, 0);
}

#[tokio::test] // REQ SE-2
async fn connections_are_bounded_by_address_and_in_all() {
    for bounds in [
        Bounds { connections: 2, ..Bounds::default() },
        Bounds { connections_per_address: 2, ..Bounds::default() },
    ] {
        let server = open(bounds).await;
        let (mut one, mut two, mut three) = (server.line().await, server.line().await, server.line().await);
        assert!(one.reply().await.starts_with("220"));
        assert!(two.reply().await.starts_with("220"));
        assert!(three.reply().await.starts_with("421 4.7.0 "));
        assert!(one.ask("QUIT").await.starts_with("221"));
        assert_eq!(one.reply().await, "");
        let free = async {
            while !server.line().await.reply().await.starts_with("220") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), free)
            .await
            .expect("a place that is free again is given away");
    }
}

#[tokio::test] // REQ SE-2
async fn garbage_and_floods_are_answered_within_bounds() {
    let server = open(Bounds::default()).await;
    let mut line = server.line().await;
    line.reply().await;
    let flood = "x".repeat(1 << 20);
    line.say(&format!("{flood}\r\n")).await;
    assert!(line.reply().await.starts_with("500 5.5.2 "));
    let mut web = server.line().await;
    web.reply().await;
    web.say(&("GET / HTTP/1.1\r\nHost: x\r\n".to_owned() + &"X-A: b\r\n".repeat(100))).await;
    let mut said = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), web.0.read_to_end(&mut said)).await;
    read.expect("it hangs up on whoever speaks something else").ok();
    let mut known = server.known().await;
    let reply = known.mail(&"0123456789\r\n".repeat(4_000)).await;
    assert!(reply.starts_with("552 5.3.4 "), "{reply}");
    assert!(known.mail("Subject: s\r\n\r\nhi").await.starts_with("250"), "and the next one is taken");
    let reply = known.mail(&"0123456789\r\n".repeat(1_000_000)).await;
    assert!(reply.starts_with("552 5.3.4 "), "{reply}");
    assert_eq!(known.reply().await, "", "nobody reads a flood to its end");
}

#[tokio::test] // REQ BK-8
async fn a_mail_to_somebody_on_the_suppression_list_is_refused_where_the_channel_minds_it() {
    let server = open(Bounds::default()).await;
    let entry = serde_json::json!({"kind": "email", "recipient": "b@x.example"});
    server.house.post("/v1/suppressions", &entry).await;
    assert!(server.known().await.mail("Subject: s\r\n\r\nt").await.starts_with("250 "));
    let mut strict = setup();
    let mail = strict.channels.get_mut("mail").unwrap();
    *mail = Arc::new(ChannelSetup { suppressions: Suppressions::All, ..(**mail).clone() });
    server.house.setup.send_replace(Arc::new(strict));
    let reply = server.known().await.mail("Subject: s\r\n\r\nt").await;
    assert_eq!(reply, "550 5.7.1 a recipient is on the suppression list");
    assert_eq!(server.house.stored().await, 1);
}

#[tokio::test] // REQ OB-2, IN-3
async fn a_mail_that_names_its_trace_stays_in_it() {
    let server = open(Bounds::default()).await;
    let kept = Kept::at(&server.house);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let mut line = server.known().await;
    let head = format!("TraceParent: 00-{trace}-b7ad6b7169203331-01\r\nTracestate: a=1\r\nSubject: s");
    let reply = line.mail(&format!("{head}\r\n\r\nhi")).await;
    let along = taken_along(&server.house, reply.rsplit(' ').next().unwrap()).await.unwrap();
    assert_eq!((along.trace.to_string().as_str(), along.state.as_deref()), (trace, Some("a=1")));
    let reply = line.mail("Subject: s\r\n\r\nhi").await;
    let own = taken_along(&server.house, reply.rsplit(' ').next().unwrap()).await.unwrap();
    assert_ne!(own.trace, along.trace);
    line.ask("RSET").await;
    let spans = kept.spans();
    let named: Vec<&str> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(named, ["accept", "SMTP DATA", "accept", "SMTP DATA"]);
    assert_eq!((spans[0].parent, spans[0].at.clone()), (Some(spans[1].at.span), along));
}

#[tokio::test] // REQ OB-1
async fn mails_and_connections_are_counted() {
    let open = open(Bounds::default()).await;
    let mut line = open.known().await;
    assert!(line.mail("Subject: x\r\n\r\nbody").await.starts_with("250 "));
    open.house.store.feel(Some(StoreError::Unavailable("full".into())));
    assert!(line.mail("Subject: y\r\n\r\nbody").await.starts_with("451 "));
    open.house.store.feel(None);
    let text = open.house.get("/metrics").await.text;
    for told in [
        "pombo_smtp_connections 1",
        r#"pombo_smtp_mails_total{outcome="accepted"} 1"#,
        r#"pombo_smtp_mails_total{outcome="deferred"} 1"#,
    ] {
        assert!(text.lines().any(|line| line == told), "{told} in\n{text}");
    }
}
