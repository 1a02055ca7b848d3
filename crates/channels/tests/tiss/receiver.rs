//! What an operator answers.

use tokio::io::AsyncWriteExt as _;

pub(crate) use crate::parts::receiver::{Receiver, reset};

impl Receiver {
    /// Answers every request with these bytes, on as many connections as it takes.
    pub(crate) async fn answering(answer: Vec<u8>) -> Receiver {
        Receiver::start(move |mut stream, seen| {
            let answer = answer.clone();
            async move {
                while seen.read(&mut stream).await.is_some() {
                    let _ = stream.write_all(&answer).await;
                }
            }
        })
        .await
    }

    /// Answers with this status and body, framed as it should be.
    pub(crate) async fn saying(status: u16, kind: &str, body: &[u8]) -> Receiver {
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        Receiver::answering([head.as_bytes(), body].concat()).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/tiss", self.address)
    }

    /// The body of the only request.
    pub(crate) fn body(&self) -> Vec<u8> {
        let requests = self.seen();
        assert_eq!(requests.len(), 1);
        requests[0].1.clone()
    }
}
