use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pombo_channels::sandbox::smtp::Options;
use pombo_channels::smtp::{Smtp, SmtpSettings};
use pombo_kernel::reply::FaultKind;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::server::{Server, read_to};
use crate::{
    accepted, channel, doubtful, refused, sandbox, sandbox_with, send, send_within, settings, unreachable,
};

#[tokio::test]
async fn mails_that_follow_each_other_share_a_connection() {
    for pipelining in [true, false] {
        let server = sandbox_with(Options { pipelining, ..Options::default() }).await;
        let channel = channel(&server.url());
        for i in 0..20 {
            accepted(send(&channel, &format!("m{i}"), "ana@example.net").await);
        }
        let stats = server.stats();
        assert_eq!((stats.connections, stats.distinct, stats.duplicates), (1, 20, 0));
        // After a refusal one starts anew.
        assert_eq!(refused(send(&channel, "n", "unknown@example.net").await).status, Some(550));
        accepted(send(&channel, "o", "ana@example.net").await);
        assert_eq!(server.stats().connections, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_more_connections_than_allowed_and_no_mail_twice() {
    let server = sandbox().await;
    let three = SmtpSettings { connections: 3.try_into().unwrap(), ..settings(&server.url()) };
    let channel = Arc::new(Smtp::new(&three).unwrap());
    let workers: Vec<_> = (0..16)
        .map(|worker| {
            let channel = channel.clone();
            tokio::spawn(async move {
                for i in 0..25 {
                    accepted(send(&channel, &format!("m{worker}-{i}"), "ana@example.net").await);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let stats = server.stats();
    assert_eq!((stats.total, stats.distinct, stats.duplicates), (400, 400, 0));
    assert!(stats.connections <= 3, "{stats:?}");
}

#[tokio::test]
async fn who_waits_for_a_connection_waits_within_the_deadline() {
    let server = sandbox().await;
    let one = SmtpSettings { connections: 1.try_into().unwrap(), ..settings(&server.url()) };
    let channel = Smtp::new(&one).unwrap();
    let long = Duration::from_secs(2);
    let (held, waited) = tokio::join!(
        send_within(&channel, "a", "hang@example.net", long),
        send_within(&channel, "b", "ana@example.net", Duration::from_millis(200)),
    );
    assert_eq!(doubtful(&held), FaultKind::Timeout);
    assert_eq!(unreachable(&waited), FaultKind::Timeout);
    accepted(send(&channel, "c", "ana@example.net").await);
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_is_not_used_again() {
    let (hang_up, told) = watch::channel(0);
    let (tell, mut gone) = mpsc::unbounded_channel();
    let mails = Arc::new(AtomicUsize::new(0));
    let seen = mails.clone();
    let server = Server::start(move |mut stream, _| {
        let (mut told, tell, seen) = (told.clone(), tell.clone(), seen.clone());
        told.mark_unchanged();
        async move {
            for answer in ["220 x", "250 x", "250 x", "250 x", "354 x"] {
                stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
                let end: &[u8] = if answer == "354 x" { b"\r\n.\r\n" } else { b"\r\n" };
                if read_to(&mut stream, end).await.is_none() {
                    return;
                }
            }
            seen.fetch_add(1, Ordering::SeqCst);
            stream.write_all(b"250 x\r\n").await.unwrap();
            told.changed().await.unwrap();
            stream.write_all(b"421 4.4.2 idle too long\r\n").await.unwrap();
            drop(stream);
            tell.send(()).unwrap();
        }
    })
    .await;
    let channel = channel(&server.url());
    for i in 0..5 {
        accepted(send(&channel, &format!("m{i}"), "ana@example.net").await);
        hang_up.send(i).unwrap();
        gone.recv().await.unwrap();
        // A round trip of our own: whatever the kernel knew before it, the runtime knows after it.
        drop(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(mails.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn a_goodbye_to_the_next_mail_is_answered_with_a_fresh_connection() {
    for goodbye in ["421 4.7.0 max messages per connection\r\n", ""] {
        let server = Server::start(move |mut stream, _| async move {
            for answer in ["220 x", "250 x", "250 x", "250 x", "354 x", "250 x"] {
                stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
                let end: &[u8] = if answer == "354 x" { b"\r\n.\r\n" } else { b"\r\n" };
                if read_to(&mut stream, end).await.is_none() {
                    return;
                }
            }
            // It has heard the next MAIL.
            let _ = stream.write_all(goodbye.as_bytes()).await;
        })
        .await;
        let channel = channel(&server.url());
        for i in 0..3 {
            accepted(send(&channel, &format!("m{i}"), "ana@example.net").await);
        }
        assert_eq!(server.connections(), 3, "{goodbye:?}");
    }
}

#[tokio::test] // REQ ML-5
async fn a_lost_reply_is_never_answered_by_sending_again() {
    let server = sandbox().await;
    let channel = channel(&server.url());
    accepted(send(&channel, "first", "ana@example.net").await);
    assert_eq!(doubtful(&send(&channel, "second", "reset@example.net").await), FaultKind::ConnectionReset);
    let stats = server.stats();
    assert_eq!((stats.total, stats.accepted, stats.duplicates, stats.connections), (2, 2, 0, 1));
    // The next attempt is recognised by its id.
    assert_eq!(doubtful(&send(&channel, "second", "reset@example.net").await), FaultKind::ConnectionReset);
    assert_eq!(server.stats().duplicates, 1);
}

#[test]
fn a_channel_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(sandbox());
    let channel = channel(&server.url());
    accepted(runtime.block_on(send(&channel, "a", "ana@example.net")));
    drop(runtime);
    // It holds an idle connection, which is closed without a word.
    drop(channel);
    assert_eq!(server.stats().accepted, 1);
}
