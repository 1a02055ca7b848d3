//! Nothing that must not be seen shows in what we write ourselves.

use pombo_channels::Channel as _;
use pombo_channels::evolution::{Evolution, EvolutionSettings};
use pombo_channels::sandbox::evolution::{Hook, Options};
use pombo_kernel::reply::Reply;
use pombo_kernel::secret::Secret;

use crate::receiver::{Receiver, reset};
use crate::{PATIENCE, envelope, sandbox_with, settings};

const KEY: &str = "canary-key-41";
const TO: &str = "5511987650666";
const TEXT: &str = "canary-text-43";

fn clean(shown: &str) {
    for canary in [KEY, TO, "87650666", TEXT, "canary"] {
        assert!(!shown.contains(canary), "{canary} shows in {shown}");
    }
}

#[tokio::test]
async fn neither_key_nor_number_nor_text_shows_in_debug_output_or_faults() {
    let silent = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    let nobody = Receiver::start(|stream, _| async move { reset(stream) }).await;
    let odd = Receiver::saying(201, "nonsense").await;
    for url in [silent.url(), nobody.url(), odd.url(), "http://127.0.0.1:1".to_owned()] {
        let settings = EvolutionSettings {
            api_key: Some(Secret::new(KEY)),
            receipt_secret: Some(Secret::new("canary-receipt")),
            ..settings(&url)
        };
        let channel = Evolution::new(&settings).unwrap();
        clean(&format!("{settings:?} {channel:?} {channel:#?}"));
        for content in [format!(r#"{{"text":"{TEXT}"}}"#), format!(r#"{{"text":"{TEXT}","x":1}}"#)] {
            let envelope = envelope(TO, &content);
            clean(&format!("{envelope:?}"));
            let reply = channel.send(&envelope, PATIENCE).await;
            assert!(matches!(reply, Reply::Unreachable(_) | Reply::Doubtful(_)), "{reply:?}");
            clean(&format!("{reply:?}"));
        }
        clean(&format!("{:?}", channel.probe(PATIENCE).await));
    }
}

#[tokio::test]
async fn the_sandbox_shows_no_more() {
    let hook = Hook {
        url: "http://127.0.0.1:1/".parse().unwrap(),
        headers: [("authorization".to_owned(), "canary-receipt".to_owned())].into(),
        by_events: false,
    };
    let options = Options { api_key: Secret::new(KEY), hook: Some(hook), ..Options::default() };
    clean(&format!("{options:?}"));
    let sandbox = sandbox_with(options).await;
    let channel = EvolutionSettings { api_key: Some(Secret::new(KEY)), ..settings(&sandbox.url()) };
    let content = format!(r#"{{"text":"{TEXT}"}}"#);
    Evolution::new(&channel).unwrap().send(&envelope(TO, &content), PATIENCE).await;
    assert_eq!(sandbox.sent().len(), 1);
    clean(&format!("{sandbox:?} {:?}", sandbox.sent()));
}
