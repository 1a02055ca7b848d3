//! What a receiver of webhooks answers.

use tokio::io::AsyncWriteExt as _;

pub(crate) use crate::parts::receiver::{Receiver, reset};

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

impl Receiver {
    /// Reads one request and answers with these bytes, then holds the connection open.
    pub(crate) async fn answering(answer: &'static str) -> Receiver {
        Receiver::start(move |mut stream, seen| async move {
            seen.read(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}
