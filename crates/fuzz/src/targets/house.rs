//! A door with a store in memory behind it, a clock that stands still, and a key for every role.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pombo::config::{Config, Environment, Source};
use pombo_kernel::dice::Dice;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Time};
use pombo_store::Store;
use pombo_store::memory::Memory;
use pombo_store::shelf::Expect;
use pombo_store::shell::Shell;
use pombo_web::key::{KeyDoc, hex};
use pombo_web::{Door, Patience, Role, digest, router};
use tokio::sync::watch;

pub(super) const NOW: Time = Time::from_millis(1_800_000_000_000);

/// One channel of each kind.
const CONFIG: &str = r#"
[channels.crm]
kind = "webhook"
secret = "${SIGNING_SECRET}"
[channels.email]
kind = "smtp"
url = "smtp://mail.example:25"
from = "a@clinic.example"
[channels.resend]
kind = "resend"
api_key = "${RESEND_API_KEY}"
from = "a@clinic.example"
receipt_secret = "${SIGNING_SECRET}"
[channels.whatsapp]
kind = "evolution"
base_url = "https://evolution.example"
api_key = "${EVOLUTION_API_KEY}"
instance = "clinic"
receipt_secret = "${RECEIPT_TOKEN}"
[channels.claims]
kind = "tiss"
url = "https://operator.example/tiss"
[channels.null]
kind = "null"
"#;

pub(super) static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let variables = [
        ("SIGNING_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        ("RESEND_API_KEY", "re_0123456789"),
        ("EVOLUTION_API_KEY", "evolution-key"),
        ("RECEIPT_TOKEN", "0123456789abcdef0123456789abcdef"),
    ];
    let environment: Environment = variables.into_iter().collect();
    let config = Config::parse(CONFIG, Source::default(), &environment);
    config.unwrap_or_else(|problems| panic!("{problems}")).setup()
});

#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Time {
        NOW
    }
}

/// One house; the same requests get the same answers in each.
pub(super) struct House {
    router: Router,
    store: Arc<Shell<Memory>>,
}

/// What a request was answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Reply {
    pub(super) fn kind(&self) -> &str {
        self.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default()
    }
}

impl House {
    pub(super) async fn new() -> House {
        let clock = Arc::new(Standing);
        let store = Shell::start(Memory::new(Dice::seeded(1)), clock.clone(), Box::new(chance(7))).unwrap();
        let store = Arc::new(store);
        for role in Role::ALL {
            let place = hex(&digest(&format!("key-{}", role.as_str())));
            let key = KeyDoc {
                id: format!("key_{}", role.as_str()),
                role: role.as_str().into(),
                label: role.as_str().into(),
                created_at: NOW,
                last_used_at: Some(NOW),
                ..KeyDoc::default()
            };
            let wish = key.shelved(&"default".parse().unwrap(), &place, Expect::Nothing, None);
            store.shelve(vec![wish]).await.unwrap();
        }
        let (_, setup) = watch::channel(Arc::new(SETUP.clone()));
        let chance = Mutex::new(chance(11));
        let entropy = Arc::new(move || chance.lock().unwrap()());
        let soon = Duration::from_millis(1);
        let patience = Patience { test: soon, queue: soon, cancel: soon, ..Patience::default() };
        let door = Door::with_patience(store.clone(), setup, clock, entropy, patience);
        House { router: router(door), store }
    }

    /// The answer to a request, as far as it comes to an end.
    pub(super) async fn ask(&self, request: Request<Body>) -> Reply {
        let response = TowerToHyperService::new(self.router.clone()).call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let endless = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let text = match endless {
            true => Bytes::new(),
            false => axum::body::to_bytes(body, usize::MAX).await.expect("an answer is whole"),
        };
        let text = String::from_utf8(text.to_vec()).expect("answers are UTF-8");
        Reply { status: head.status, headers: head.headers, text }
    }

    /// Ends it; a store that broke on the way is told.
    pub(super) async fn close(self) {
        assert_eq!(*self.store.broken().borrow(), None, "the store broke");
        self.store.close().await.unwrap();
    }
}

fn chance(seed: u64) -> impl FnMut() -> [u8; 32] + Send {
    let mut dice = Dice::seeded(seed);
    move || {
        let mut bytes = [0; 32];
        bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&dice.next_u64().to_le_bytes()));
        bytes
    }
}
