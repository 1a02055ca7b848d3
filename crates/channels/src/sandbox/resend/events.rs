//! Reports of what became of a mail, signed and posted in order.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use pombo_kernel::secret::Secret;
use pombo_kernel::signature::{SigningKey, sign};
use pombo_kernel::time::Time;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use url::{Position, Url};

use crate::BoxFuture;
use crate::client::{Client, Need, roots};
use crate::guard::Guard;
use crate::resolve::Resolver;
use crate::sandbox::Clock;

const DEADLINE: Duration = Duration::from_secs(15);

pub(super) type Poster = BoxFuture<'static, ()>;

pub(super) struct Events {
    clock: Option<Clock>,
    out: mpsc::UnboundedSender<Value>,
}

impl Events {
    /// Where reports are handed in, and the work of posting them.
    pub(super) fn start(url: &str, secret: &Secret, clock: Option<Clock>) -> io::Result<(Events, Poster)> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
        let url = Url::parse(url).map_err(|_| wrong("the address for reports is not a URL"))?;
        let key = SigningKey::from_secret(secret)
            .ok_or_else(|| wrong("the secret is not base64 of 24 to 64 bytes"))?;
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let roots = roots(None).map_err(|error| wrong(&error))?;
        let client = Client::new(guard, Resolver::default(), roots, None).map_err(io::Error::other)?;
        let (out, queue) = mpsc::unbounded_channel();
        let poster = Box::pin(post(client, url, key, clock.clone(), queue));
        Ok((Events { clock, out }, poster))
    }

    /// Reports what the script has in store for a mail that was taken.
    pub(super) fn taken(&self, id: &str, mail: &Value, script: &str) {
        let kinds: &[&str] = match script {
            "bounced" => &["email.sent", "email.bounced"],
            "complained" => &["email.sent", "email.delivered", "email.complained"],
            _ => &["email.sent", "email.delivered"],
        };
        let at = now(self.clock.as_ref());
        for kind in kinds {
            let mut data = json!({"email_id": id, "created_at": at, "from": mail["from"], "to": mail["to"],
                "subject": mail["subject"]});
            if *kind == "email.bounced" {
                let message = "The recipient's server says that there is no such mailbox.";
                data["bounce"] = json!({"type": "Permanent", "subType": "NoEmail", "message": message});
            }
            // Nobody listens any more once the sandbox stops.
            let _ = self.out.send(json!({"type": kind, "created_at": at, "data": data}));
        }
    }
}

async fn post(
    client: Client,
    url: Url,
    key: SigningKey,
    clock: Option<Clock>,
    mut queue: mpsc::UnboundedReceiver<Value>,
) {
    let mut count = 0;
    while let Some(event) = queue.recv().await {
        count += 1;
        let body = Bytes::from(event.to_string());
        let (id, at) = (format!("msg_{count}"), now(clock.as_ref()).millis().div_euclid(1000).to_string());
        let request = Request::post(&url[Position::BeforePath..Position::AfterQuery])
            .header("host", &url[Position::BeforeHost..Position::BeforePath])
            .header("content-type", "application/json")
            .header("content-length", body.len())
            .header("svix-id", &id)
            .header("svix-timestamp", &at)
            .header("svix-signature", sign(std::slice::from_ref(&key), &id, &at, &body))
            .body(Full::new(body));
        // A report that does not arrive is lost, as it would be after Resend's own retries.
        if let Ok(request) = request {
            let _ = client.call(&url, request, Need::Head, DEADLINE).await;
        }
    }
}

fn now(clock: Option<&Clock>) -> Time {
    clock.map_or(Time::default(), |clock| clock())
}
