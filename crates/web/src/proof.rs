//! Whether a report comes from the provider that it is of.
//!
//! Providers have no key of ours. Each shows what its channel's configuration says that it must: some words in a
//! header, or a signature over the body.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, header};
use pombo_kernel::delivery::{resend, token};
use pombo_kernel::name::ChannelName;
use pombo_kernel::setup::{ChannelSetup, ReceiptCheck};
use pombo_kernel::signature::SigningKey;
use pombo_kernel::time::{Span, Time};

use crate::problem::{Code, Problem};
use crate::{Door, body};

/// The largest body that a provider may send.
const BODY_MAX: usize = 1024 * 1024;

/// A channel that takes no reports is complained of this often at most.
const COMPLAIN: Span = Span::from_secs(60);

/// What a provider sent that has shown who it is.
pub(crate) struct Proven {
    pub(crate) door: Door,
    pub(crate) channel: Arc<ChannelSetup>,
    pub(crate) body: Bytes,
}

/// Lets a report in if its sender shows what the channel of that name asks for.
///
/// A channel that there is not, one that takes no reports and one that asks for something else are all refused in
/// the same words and at the same point, so that nobody learns from an answer which channels there are.
pub(crate) async fn proven(door: Door, name: &str, head: &Parts, body: Body) -> Result<Proven, Problem> {
    let channel = name.parse::<ChannelName>().ok().and_then(|name| door.setup().channels.get(&name).cloned());
    let check = channel.as_ref().and_then(|channel| channel.receipts.as_ref());
    let (headers, now) = (&head.headers, door.now());
    let body = match Signature::of(headers) {
        Some(signature) => {
            let body = body::json(&door, headers, body, BODY_MAX).await?;
            match check {
                Some(ReceiptCheck::Signature(key)) if signature.is_of(key, &body, now) => Some(body),
                _ => None,
            }
        }
        None => match check {
            Some(ReceiptCheck::Token(secret)) if words(headers).any(|it| token::shown(secret, it, now)) => {
                Some(body::json(&door, headers, body, BODY_MAX).await?)
            }
            _ => None,
        },
    };
    match (channel, body) {
        (Some(channel), Some(body)) => Ok(Proven { door, channel, body }),
        (channel, _) => {
            if let Some(channel) = channel.filter(|channel| channel.receipts.is_none())
                && door.0.complaints.is_due(now)
            {
                tracing::warn!(
                    channel = %channel.name,
                    "somebody reports deliveries of a channel that takes no reports; set its receipt_secret"
                );
            }
            Err(refused())
        }
    }
}

/// The headers in which a provider may show words that it was given.
fn words(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, words) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(words.trim())
    });
    let bare = ["apikey", "x-receipt-token"].into_iter().filter_map(|name| headers.get(name)?.to_str().ok());
    bearer.into_iter().chain(bare)
}

/// A Standard Webhooks signature, under either of the names that its headers go by.
struct Signature<'a> {
    id: &'a str,
    timestamp: &'a str,
    signature: &'a str,
}

impl Signature<'_> {
    fn of(headers: &HeaderMap) -> Option<Signature<'_>> {
        ["svix", "webhook"].into_iter().find_map(|prefix| {
            let part = |name: &str| headers.get(format!("{prefix}-{name}"))?.to_str().ok();
            Some(Signature { id: part("id")?, timestamp: part("timestamp")?, signature: part("signature")? })
        })
    }

    fn is_of(&self, key: &SigningKey, body: &[u8], now: Time) -> bool {
        resend::verified(key, self.id, self.timestamp, self.signature, body, now).is_ok()
    }
}

/// When the log last spoke of a channel that takes no reports: a stranger must not be able to fill it.
#[derive(Debug)]
pub(crate) struct Complaints(AtomicI64);

impl Complaints {
    pub(crate) fn new() -> Complaints {
        Complaints(AtomicI64::new(i64::MIN))
    }

    fn is_due(&self, now: Time) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let due = last == i64::MIN || now.since(Time::from_millis(last)) >= COMPLAIN;
        due && self.0.compare_exchange(last, now.millis(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

fn refused() -> Problem {
    Problem::new(
        Code::Unauthorized,
        "nothing shows that this comes from the provider of a channel that takes reports",
        "set the channel's receipt_secret here and at the provider, which then signs, or sends it as \
         `Authorization: Bearer SECRET`",
    )
}
