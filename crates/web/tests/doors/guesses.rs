use std::time::Duration;

use pombo_kernel::time::Span;
use pombo_web::{Bounds, serve_within};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::house::House;

/// A caller with one connection.
struct Line(BufReader<TcpStream>);

struct Heard {
    status: u16,
    retry_after: Option<String>,
    text: String,
}

impl Line {
    async fn ask(&mut self, keys: &[String]) -> Vec<Heard> {
        let asked: String = keys
            .iter()
            .map(|key| format!("GET /v1/stats HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"))
            .collect();
        self.0.get_mut().write_all(asked.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        for _ in keys {
            heard.push(tokio::time::timeout(Duration::from_secs(30), self.hear()).await.unwrap());
        }
        heard
    }

    async fn hear(&mut self) -> Heard {
        let (mut status, mut length, mut retry_after) = (0, 0, None);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            match line.trim_end().split_once(": ") {
                _ if line == "\r\n" => break,
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("retry-after", value)) => retry_after = Some(value.to_owned()),
                Some(_) => {}
                None => status = line.split(' ').nth(1).unwrap().parse().unwrap(),
            }
        }
        let mut text = vec![0; length];
        self.0.read_exact(&mut text).await.unwrap();
        Heard { status, retry_after, text: String::from_utf8(text).unwrap() }
    }
}

#[tokio::test] // REQ SE-1
async fn ten_thousand_guesses_from_one_address_are_told_to_wait_and_a_good_key_works_all_the_while() {
    let house = House::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve_within(
        listener,
        house.router.clone(),
        Bounds::default(),
        std::future::pending::<()>(),
    ));
    let mut line = Line(BufReader::new(TcpStream::connect(address).await.unwrap()));
    let mut told = [0; 2];
    for group in 0..100 {
        let mut keys: Vec<String> = (0..100).map(|n| format!("pombo_{group:04x}{n:04x}ffff")).collect();
        keys.push("key-viewer".to_owned());
        let mut heard = line.ask(&keys).await;
        assert_eq!(heard.pop().unwrap().status, 200, "a good key works from anywhere at any time");
        for heard in heard {
            match heard.status {
                401 => told[0] += 1,
                429 => {
                    told[1] += 1;
                    assert_eq!(heard.retry_after.as_deref(), Some("6"));
                    assert!(heard.text.contains("TOO_MANY_FAILURES"), "{}", heard.text);
                }
                other => panic!("{other}: {}", heard.text),
            }
        }
    }
    assert_eq!(told, [20, 9_980]);
    house.clock.pass(Span::from_secs(6));
    let again = ["pombo_one".to_owned(), "pombo_two".to_owned()];
    let heard: Vec<u16> = line.ask(&again).await.iter().map(|heard| heard.status).collect();
    assert_eq!(heard, [401, 429]);
    server.abort();
}
