//! What becomes of a mail: a message for each of its recipients.
//!
//! Through a channel of the kind `smtp` the mail goes out as it came in, so its bytes are kept as one file that all
//! messages share. Resend takes no finished mails, so there it is taken apart.

use std::net::IpAddr;

use mail_parser::{Address, MessageParser};
use pombo_kernel::attachment;
use pombo_kernel::content::mailbox;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{Draft, Idempotency, Json};
use pombo_kernel::mime;
use pombo_kernel::request::{self, Request};
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::time::Time;
use pombo_kernel::trace::{self, Context};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::parts;
use super::reply::Reply;
use super::session::Letter;
use crate::key::hex;

/// Servers that a mail may have passed. One that has passed more goes in circles.
const HOPS_MAX: usize = 50;
const SUBJECT_BYTES_MAX: usize = 998;
const WORDS_BYTES_MAX: usize = 256;

/// How a mail came here.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Who we say that we are.
    pub(super) name: String,
    pub(super) encrypted: bool,
    pub(super) now: Time,
    /// For the name of the mail's messages together, where it brings none of its own.
    pub(super) chance: [u8; 32],
}

/// What lists show of a mail.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) from: Option<String>,
    pub(super) subject: String,
    id: Option<String>,
}

/// The messages of a mail, and what they are called together.
#[derive(Debug)]
pub(super) struct Drafts {
    pub(super) drafts: Vec<Draft>,
    pub(super) group: String,
}

/// Makes the messages of a mail, or says why there can be none.
pub(super) fn drafts(
    setup: &Setup,
    channel: &ChannelSetup,
    letter: Letter,
    way: &Way,
) -> Result<Drafts, Reply> {
    let Letter { from: return_path, to, mail } = letter;
    let (fields, _) = mime::head(&mail);
    if fields.iter().filter(|field| field.is("received")).count() > HOPS_MAX {
        return Err(Reply::new(554, "5.4.6", "the mail goes in circles"));
    }
    let shown = shown(&mail);
    let fingerprint: [u8; 32] = Sha256::digest(&mail).into();
    // The same mail again belongs to the same group, so that what is missing of it joins the rest.
    let seed = match &shown.id {
        None => way.chance,
        Some(id) => Sha256::new()
            .chain_update(channel.name.as_str())
            .chain_update([0])
            .chain_update(id)
            .chain_update([0])
            .chain_update(fingerprint)
            .finalize()
            .into(),
    };
    let group = format!("grp_{}", hex(&seed[..16]));
    let (content, blob) = match channel.kind {
        ChannelKind::Resend => (parts::content(&mail, &shown)?, None),
        _ => {
            let domain = return_path.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
            let id = format!("<{group}@{domain}>");
            let finished = mime::finish(&mail, &trace(&group, way), &id, way.now);
            drop(mail);
            let (mime, blob) = attachment::held(finished);
            let mut content = Map::from_iter([
                ("mime".to_owned(), mime),
                ("subject".to_owned(), json!(shown.subject)),
                ("return_path".to_owned(), json!(return_path)),
            ]);
            content.extend(shown.from.as_ref().map(|from| ("from".to_owned(), json!(from))));
            (Value::Object(content), blob)
        }
    };
    let mut drafts = same_to_all(setup, channel, &to, &content, blob, &shown, &group, way.now)?;
    if let Some(id) = &shown.id {
        for draft in &mut drafts {
            draft.idempotency = Some(repeat(channel, id, &draft.body.to, &fingerprint));
        }
    }
    Ok(Drafts { drafts, group })
}

#[allow(clippy::too_many_arguments, reason = "each is another part of a message")]
fn same_to_all(
    setup: &Setup,
    channel: &ChannelSetup,
    to: &[String],
    content: &Value,
    blob: Option<attachment::Blob>,
    shown: &Shown,
    group: &str,
    now: Time,
) -> Result<Vec<Draft>, Reply> {
    let mut metadata = Map::from_iter([("group".to_owned(), json!(group))]);
    metadata.extend(shown.id.as_ref().map(|id| ("message_id".to_owned(), json!(id))));
    // Content that refers to a file by its digest is no caller's to write: it is checked with a stand-in, and we know
    // that this file comes along.
    let stand_in = blob.is_some().then(|| {
        let mut content = content.clone();
        content["mime"] = json!("AAAA");
        content
    });
    let request = Request {
        channel: channel.name.to_string(),
        to: to.first().cloned().unwrap_or_default(),
        content: Some(Json::from_value(stand_in.as_ref().unwrap_or(content))),
        reference: (to.len() > 1).then(|| group.to_owned()),
        metadata: Some(Json::from_value(&Value::Object(metadata))),
        ..Request::default()
    };
    let mut first = setup.draft(request, &channel.tenant, now).map_err(|problems| refusal(&problems))?;
    if let Some(blob) = blob {
        first.body.content = Some(Json::from_value(content));
        first.blobs = vec![blob];
    }
    let from = json!({"from": shown.from});
    let copy = |to: &String| {
        let mut draft = first.clone();
        draft.queue.destination = channel.destination.of(to, Some(&from));
        draft.body.to.clone_from(to);
        draft
    };
    Ok(to.iter().map(copy).collect())
}

/// The same mail to the same person through the same channel is one message, if it can be told by its id: a client that
/// never heard that we have it hands it in again. Another mail under the same id is another message.
fn repeat(channel: &ChannelSetup, id: &str, to: &str, fingerprint: &[u8; 32]) -> Idempotency {
    let mut digest = Sha256::new();
    for part in [channel.name.as_str(), id, to] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let mut half = [0; 16];
    half.copy_from_slice(&fingerprint[..16]);
    // The character between cannot stand in a key that a caller of the API chooses.
    Idempotency { key: format!("smtp\u{1f}{}", hex(&digest.finalize())), fingerprint: half }
}

/// The trace that a mail says it belongs to.
pub(super) fn trace_of(mail: &[u8]) -> Option<Context> {
    let (fields, _) = mime::head(mail);
    let said = |name: &str| fields.iter().find(|field| field.is(name)).map(mime::Field::text);
    Context::read(&said(trace::PARENT)?, said(trace::STATE).as_deref())
}

/// Where the mail has been. Whose machine it came from stays between us: that would be told to every recipient.
fn trace(group: &str, way: &Way) -> String {
    let with = if way.encrypted { "ESMTPSA" } else { "ESMTPA" };
    format!("Received: by {} (Pombo) with {with} id {group};\r\n\t{}\r\n", way.name, mime::written(way.now))
}

fn shown(mail: &[u8]) -> Shown {
    let Some(head) = MessageParser::default().parse_headers(mail) else { return Shown::default() };
    let id = head.message_id().map(str::to_owned);
    let mut subject = plain(head.subject().unwrap_or_default());
    subject.truncate(subject.floor_char_boundary(SUBJECT_BYTES_MAX));
    let from = head.from().and_then(addresses).and_then(|mut list| list.drain(..).next());
    Shown { from, subject, id: id.filter(|id| (1..=4 * WORDS_BYTES_MAX).contains(&id.len())) }
}

/// The text on one line.
pub(super) fn plain(text: &str) -> String {
    text.split(|c: char| c.is_control() || c == ' ')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The addresses of a field, as the kernel writes them; none if one of them is no address.
pub(super) fn addresses(field: &Address<'_>) -> Option<Vec<String>> {
    let written = |address: &mail_parser::Addr<'_>| {
        let bare = address.address()?;
        let name: String = plain(address.name().unwrap_or_default()).replace(['<', '>', '@'], "");
        let full = if name.is_empty() { bare.to_owned() } else { format!("{name} <{bare}>") };
        mailbox(&full).is_some().then_some(full)
    };
    field.iter().map(written).collect()
}

fn refusal(problems: &[request::Problem]) -> Reply {
    let Some(problem) = problems.first() else { return Reply::new(554, "5.6.0", "the mail cannot be taken") };
    let (code, status) = match problem.code {
        request::Code::TooLarge => (552, "5.3.4"),
        _ => (554, "5.6.0"),
    };
    Reply::new(code, status, format!("{} {}: {}", problem.field, problem.reason, problem.hint))
}

/// An address as a name, for machines that have none (RFC 5321, 4.1.3).
pub(super) fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => format!("[{v4}]"),
        IpAddr::V6(v6) => format!("[IPv6:{v6}]"),
    }
}
