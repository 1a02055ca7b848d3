//! What an Evolution answers.

use tokio::io::AsyncWriteExt as _;

pub(crate) use crate::parts::receiver::{Receiver, reset};

pub(crate) const KEY: &str =
    r#"{"key":{"remoteJid":"5511987654321@s.whatsapp.net","fromMe":true,"id":"3EB0AA"}}"#;

impl Receiver {
    /// Answers each request with the next of these, and every further one with the last.
    pub(crate) async fn answering(answers: Vec<Vec<u8>>) -> Receiver {
        Receiver::start(move |mut stream, seen| {
            let answers = answers.clone();
            async move {
                while seen.read(&mut stream).await.is_some() {
                    let answer = &answers[seen.seen().len().min(answers.len()) - 1];
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Answers every request so.
    pub(crate) async fn saying(status: u16, body: &str) -> Receiver {
        Receiver::answering(vec![answer(status, body)]).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

pub(crate) fn answer(status: u16, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
