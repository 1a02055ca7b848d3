//! What a Resend answers.

use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;

pub(crate) use crate::parts::receiver::{Receiver, reset};

impl Receiver {
    /// Reads one request and answers with these bytes, then holds the connection open.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Receiver {
        let answer: Arc<[u8]> = answer.into().into();
        Receiver::start(move |mut stream, seen| {
            let answer = answer.clone();
            async move {
                if seen.read(&mut stream).await.is_some() {
                    let _ = stream.write_all(&answer).await;
                    std::future::pending::<()>().await;
                }
            }
        })
        .await
    }

    /// Answers every request with this status and JSON.
    pub(crate) async fn saying(status: u16, body: &str) -> Receiver {
        Receiver::answering(http(status, "", body)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// An answer of that status, with more header lines and a JSON body.
pub(crate) fn http(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}
