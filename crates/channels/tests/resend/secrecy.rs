use pombo_channels::Channel as _;
use pombo_channels::resend::{Resend, ResendSettings};
use pombo_kernel::reply::Reply;
use pombo_kernel::secret::Secret;

use crate::receiver::{Receiver, reset};
use crate::{SHORT, envelope, settings};

const CONTENT: &str =
    r#"{"subject":"canary-subject","text":"canary-text","headers":{"X-A":"canary-header"}}"#;

fn guarded(base_url: &str, batch: bool) -> ResendSettings {
    ResendSettings {
        api_key: Some(Secret::new("canary-key")),
        receipt_secret: Some(Secret::new("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")),
        batch,
        ..settings(base_url)
    }
}

#[tokio::test] // REQ SE-2
async fn nothing_secret_or_personal_is_in_what_we_write_ourselves() {
    let silent = Receiver::answering("").await;
    let rude = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    let vague = Receiver::saying(200, "{}").await;
    let envelope = envelope("canary-idempotency", "canary@x.example", CONTENT);
    let bad = crate::envelope("k", "canary@x.example", r#"{"subject":"canary\r\n","text":"t"}"#);
    let mut seen = format!("{envelope:?}");
    for url in [silent.url(), rude.url(), vague.url(), "http://127.0.0.1:1".to_owned()] {
        for batch in [false, true] {
            let settings = guarded(&url, batch);
            let channel = Resend::new(&settings).unwrap();
            seen += &format!("{settings:?}{channel:?}");
            for envelope in [&envelope, &bad] {
                let reply = channel.send(envelope, SHORT).await;
                assert!(!matches!(reply, Reply::Accepted(_)));
                seen += &format!("{reply:?}");
            }
            seen += &format!("{:?}", channel.probe(SHORT).await);
        }
    }
    for canary in ["canary", "AAECAwQF"] {
        assert!(!seen.contains(canary), "{canary}: {seen}");
    }
}
