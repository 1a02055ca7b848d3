//! A message to create, as its caller writes it: read field by field, then checked against what is configured.
//!
//! Every problem is told at once, with the field, the reason and what to do, so that a caller mends a request
//! in one go. What passes becomes a [`Draft`], which cannot hold anything invalid.

mod read;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::attachment::{self, Blob};
use crate::content;
use crate::content::claim::is_claim_id;
use crate::kind::ChannelKind;
use crate::message::{Body, Draft, Json, Priority, QueueName};
use crate::name::{LaneName, TemplateName, Tenant};
use crate::policy::Overrides;
use crate::setup::{ChannelSetup, EVENTS, Limits, NOTICES, Setup};
use crate::time::{Span, Time};

pub use self::read::BadJson;

/// A message to create. Only `channel` and `to` are always needed, and one of `content` and `template`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Request {
    pub channel: String,
    pub to: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What the template is filled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The content for the channel's kind, kept as the text that it came as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// Changes to the channel's retry policy, within its bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Overrides>,
    /// Also to somebody on the suppression list, where the channel minds that for every message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_suppression: Option<bool>,
    /// The same key and the same request are the same message. HTTP callers give it as a header, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// What kind of problem it is: one for each way in which a caller's program would react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    InvalidField,
    UnknownChannel,
    TemplateNotFound,
    /// The channel's kind cannot express it.
    ContentNotAccepted,
    TooLarge,
    TimeInPast,
    /// The recipient is not to be written to.
    Suppressed,
}

/// One thing that keeps a message from being accepted: where, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    /// A path such as `to` or `content.headers.x-a`.
    pub field: Cow<'static, str>,
    pub reason: String,
    pub hint: String,
}

/// Why no draft was made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not JSON at all.
    NotJson(BadJson),
    /// At least one.
    Problems(Vec<Problem>),
}

/// A request that came as text and passed.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafted {
    pub draft: Draft,
    /// To be joined with a digest of the request, which is not computed here.
    pub idempotency_key: Option<String>,
    /// It goes to somebody on the suppression list, too.
    pub override_suppression: bool,
}

/// A time this little in the past is now: clocks differ, and requests travel.
const PAST_ALLOWANCE: Span = Span::from_mins(1);
const LONGEST_LIFE: Span = Span::from_hours(24 * 3650);
const WORDS_MAX: usize = 256;
const RECIPIENT_BYTES_MAX: usize = 4096;
const METADATA_BYTES_MAX: usize = 16 * 1024;
/// More than this many problems help nobody.
const PROBLEMS_MAX: usize = 20;

impl Setup {
    /// Makes a draft of a request as it came, or names everything that is wrong with it.
    ///
    /// A field of the wrong type is reported once, as such, beside the problems of the other fields; all of them
    /// in the order in which a message's fields are documented.
    pub fn draft_json(&self, json: &[u8], tenant: &Tenant, now: Time) -> Result<Drafted, Refused> {
        let (mut request, mut unread) = Request::read(json)?;
        let idempotency_key = request.idempotency_key.take();
        let override_suppression = request.override_suppression.unwrap_or(false);
        if let Some(problem) = idempotency_key.as_deref().and_then(bad_idempotency_key) {
            unread.push(problem);
        }
        let found = match self.draft(request, tenant, now) {
            Ok(draft) if unread.is_empty() => {
                return Ok(Drafted { draft, idempotency_key, override_suppression });
            }
            Ok(_) => Vec::new(),
            Err(found) => found,
        };
        let known = unread.len();
        for problem in found {
            let said = |earlier: &Problem| same_field(&earlier.field, &problem.field);
            if !unread[..known].iter().any(said) {
                unread.push(problem);
            }
        }
        unread.sort_by_key(|problem| read::place(&problem.field));
        unread.truncate(PROBLEMS_MAX);
        Err(Refused::Problems(unread))
    }

    /// Makes a draft of a request, or names everything that is wrong with it.
    ///
    /// A channel of another tenant is as unknown as one that does not exist, so that nobody learns of it. Whether a
    /// template exists is not known here: whoever has the store resolves it, and pins the version.
    pub fn draft(&self, mut request: Request, tenant: &Tenant, now: Time) -> Result<Draft, Vec<Problem>> {
        let mut found = Found::default();
        let channel = self.channel_named(&request.channel, tenant).map_err(|it| found.problems.push(it)).ok();
        let mut said = Said::default();
        if request.to.len() > RECIPIENT_BYTES_MAX {
            found.invalid("to", "is longer than 4096 bytes", "give one recipient");
        } else {
            said = found.check_content(&mut request, channel.map(|channel| &**channel), &self.limits);
        }
        found.words("type", request.kind.as_deref());
        found.words("reference", request.reference.as_deref());
        if channel.is_some_and(|channel| channel.kind == ChannelKind::Tiss) {
            found.claim_id(request.reference.as_deref());
        }
        found.words("user_id", request.user_id.as_deref());
        found.words("ordering_key", request.ordering_key.as_deref());
        found.object("metadata", request.metadata.as_ref(), METADATA_BYTES_MAX);
        let lane = self.lane(&request, &mut found);
        let priority = request.priority.map_or(Some(Priority::default()), Priority::new);
        if priority.is_none() {
            found.invalid("priority", "is not a whole number from 0 to 9", "9 goes first; 5 if left out");
        }
        let send_at = found.send_at(request.send_at, now);
        let expires_at = found.expires_at(&request, channel.map(|channel| &**channel), send_at, now);
        if let (Some(retry), Some(channel)) = (&request.retry, channel) {
            for refused in channel.policy.refuses(retry) {
                let field = format!("retry.{}", refused.field);
                let hint = format!(
                    "policy `{}` sets the bounds; ask for less, or leave it out",
                    channel.policy.name
                );
                found.add(Code::InvalidField, field, refused.problem, hint);
            }
        }
        let (Some(channel), Some(lane), Some(priority), []) = (channel, lane, priority, &*found.problems)
        else {
            found.problems.truncate(PROBLEMS_MAX);
            return Err(found.problems);
        };
        Ok(Draft {
            id: None,
            queue: QueueName {
                tenant: tenant.clone(),
                lane,
                channel: channel.name.clone(),
                destination: channel.destination.of(&request.to, said.content.as_ref()),
                campaign: None,
            },
            priority,
            send_at,
            expires_at,
            ordering_key: request.ordering_key,
            idempotency: None,
            body: Body {
                to: request.to,
                kind: request.kind,
                content: request.content,
                template: request.template,
                template_version: None,
                payload: request.payload,
                reference: request.reference,
                user_id: request.user_id,
                metadata: request.metadata,
                retry: request.retry,
                trace: None,
            },
            blobs: said.blobs,
        })
    }

    fn lane(&self, request: &Request, found: &mut Found) -> Option<LaneName> {
        let Some(asked) = &request.lane else { return Some(self.lane_of(request.kind.as_deref())) };
        self.lane_named(asked).map_err(|problem| found.problems.push(problem)).ok()
    }

    /// The lane of that name.
    pub fn lane_named(&self, asked: &str) -> Result<LaneName, Problem> {
        let open = |name: &&LaneName| name.as_str() != NOTICES;
        let known = self.lanes.get_key_value(asked).map(|(name, _)| name).filter(open).cloned();
        known.ok_or_else(|| {
            let reason = format!("there is no lane {}", quoted(asked));
            let hint = one_of(asked, self.lanes.keys().filter(open).map(LaneName::as_str));
            Problem { code: Code::InvalidField, field: "lane".into(), reason, hint }
        })
    }

    /// The tenant's channel of that name. One of another tenant is as unknown as one that does not exist.
    pub fn channel_named(&self, asked: &str, tenant: &Tenant) -> Result<&Arc<ChannelSetup>, Problem> {
        let own = |channel: &&Arc<ChannelSetup>| channel.tenant == *tenant && channel.name.as_str() != EVENTS;
        self.channels.get(asked).filter(own).ok_or_else(|| {
            let names = self.channels.values().filter(own).map(|channel| channel.name.as_str());
            let (reason, hint) = match asked {
                "" => ("is missing".to_owned(), one_of("", names)),
                _ => (format!("there is no channel {}", quoted(asked)), one_of(asked, names)),
            };
            Problem { code: Code::UnknownChannel, field: "channel".into(), reason, hint }
        })
    }
}

/// What is wrong with an idempotency key, if anything.
pub fn bad_idempotency_key(key: &str) -> Option<Problem> {
    let fits = (1..=WORDS_MAX).contains(&key.len()) && key.bytes().all(|b| (b' '..=b'~').contains(&b));
    if fits && key.trim() == key {
        return None;
    }
    Some(Problem {
        code: Code::InvalidField,
        field: "idempotency_key".into(),
        reason: "is not 1 to 256 visible ASCII characters".into(),
        hint: "use a UUID, or your own id for what this message is about".into(),
    })
}

/// What a message says, once it was checked.
#[derive(Default)]
struct Said {
    content: Option<Value>,
    blobs: Vec<Blob>,
}

/// There is no template of that name; names that there are, for a hint.
pub fn no_template<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> Problem {
    let mut hint = one_of(asked, names);
    if hint.starts_with("none") {
        hint = "put one with `pombo templates put`, or send the finished words as `content`".to_owned();
    }
    let reason = format!("there is no template {}", quoted(asked));
    Problem { code: Code::TemplateNotFound, field: "template".into(), reason, hint }
}

/// The problems found so far.
#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
}

impl Found {
    fn add(
        &mut self,
        code: Code,
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problems.push(Problem { code, field: field.into(), reason: reason.into(), hint: hint.into() });
    }

    fn invalid(&mut self, field: &'static str, reason: impl Into<String>, hint: impl Into<String>) {
        self.add(Code::InvalidField, field, reason, hint);
    }

    /// A short text that is stored beside the message and searched for.
    fn words(&mut self, field: &'static str, text: Option<&str>) {
        let Some(text) = text else { return };
        if text.is_empty() || text.len() > 4 * WORDS_MAX || text.chars().count() > WORDS_MAX {
            self.invalid(field, "is not 1 to 256 characters long", "shorten it, or leave it out");
        } else if text.chars().any(char::is_control) {
            self.invalid(field, "has a line break or control character", "write it on one line");
        }
    }

    /// A claim is known to whoever asks about it by its id.
    fn claim_id(&mut self, reference: Option<&str>) {
        let hint = "give the claim's id, for example CLM-001-1234567890";
        match reference {
            None => self.invalid("reference", "is missing: a claim needs its id", hint),
            Some(id) if !is_claim_id(id) => {
                self.invalid("reference", "is not a claim's id (CLM-…- and digits)", hint);
            }
            Some(_) => {}
        }
    }

    fn object(&mut self, field: &'static str, json: Option<&Json>, bytes_max: usize) -> Option<Value> {
        let text = json?.text();
        if text.len() > bytes_max {
            let reason = format!("has {} bytes; at most {bytes_max} are taken", text.len());
            self.add(Code::TooLarge, field, reason, "store the large part elsewhere and send a link to it");
            return None;
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) if value.is_object() => Some(value),
            Ok(value) => {
                let what = read::what_is(&value);
                self.invalid(field, format!("is {what}, not an object"), "write {\"name\": \"value\"}");
                None
            }
            Err(error) => {
                let reason = format!("cannot be read: {}", read::reason(&error));
                self.invalid(field, reason, "write plain JSON, nested at most 100 levels deep");
                None
            }
        }
    }

    /// The one thing to say: a template with its payload, or the content itself, which it gives back.
    fn check_content(
        &mut self,
        request: &mut Request,
        channel: Option<&ChannelSetup>,
        limits: &Limits,
    ) -> Said {
        self.object("payload", request.payload.as_ref(), limits.content_bytes);
        if let Some(template) = &request.template {
            if template.parse::<TemplateName>().is_err() {
                self.problems.push(no_template(template, std::iter::empty()));
            }
            if request.content.is_some() {
                self.invalid("content", "is given beside a template", "give one of `content` and `template`");
            }
            if let Some(channel) = channel {
                for problem in content::check_recipient(channel.kind, &request.to) {
                    self.add(Code::InvalidField, problem.field, problem.reason, problem.hint);
                }
            }
            return Said::default();
        }
        self.finished_content(request, channel, limits).unwrap_or_default()
    }

    /// Checks content as a caller wrote it, and takes its large attachments out.
    fn finished_content(
        &mut self,
        request: &mut Request,
        channel: Option<&ChannelSetup>,
        limits: &Limits,
    ) -> Option<Said> {
        if request.payload.is_some() {
            self.invalid("payload", "is given without a template", "put data of your own in `metadata`");
        }
        let Some(content) = &request.content else {
            let hint = channel.map_or("write {\"text\": \"…\"}, or what the channel's kind takes", example);
            self.invalid("content", "is missing", hint);
            return None;
        };
        let kind = channel.map(|channel| channel.kind);
        let files = kind.and_then(attachment::field);
        let most = if files.is_some() { limits.message_bytes() } else { limits.content_bytes };
        if content.text().len() > most {
            self.object("content", Some(content), limits.content_bytes);
            return None;
        }
        let mut value = match serde_json::from_str::<Value>(content.text()) {
            Ok(value) => value,
            Err(error) => {
                let reason = format!("cannot be read: {}", read::reason(&error));
                self.invalid("content", reason, "write plain JSON, nested at most 100 levels deep");
                return None;
            }
        };
        let channel = channel?;
        for problem in content::check(channel.kind, &request.to, &value).err().unwrap_or_default() {
            let of_content = problem.field.starts_with("content");
            let code = if of_content { Code::ContentNotAccepted } else { Code::InvalidField };
            let reason = match of_content {
                true => format!("{} (channel `{}`, kind {})", problem.reason, channel.name, channel.kind),
                false => problem.reason,
            };
            self.add(code, shortened(problem.field), reason, problem.hint);
        }
        let mut blobs = Vec::new();
        if let Some(field) = files {
            let bytes = attachment::bytes_in(channel.kind, &mut value);
            if bytes > limits.attachment_bytes {
                let most = limits.attachment_bytes;
                let reason = format!("holds {bytes} bytes of files; at most {most} are taken");
                self.add(Code::TooLarge, field, reason, "send a link to the file instead");
                return None;
            }
            blobs = attachment::take_out(channel.kind, &mut value);
            if !blobs.is_empty() {
                request.content = Some(Json::from_value(&value));
            }
            let left = request.content.as_ref().filter(|content| content.text().len() > limits.content_bytes);
            self.object("content", left, limits.content_bytes);
        }
        Some(Said { content: Some(value), blobs })
    }

    fn send_at(&mut self, asked: Option<Time>, now: Time) -> Option<Time> {
        let asked = asked?;
        if asked + PAST_ALLOWANCE < now {
            let reason = format!("{asked} is in the past; it is now {now}");
            self.add(
                Code::TimeInPast,
                "send_at",
                reason,
                "give a time to come, or leave it out to send at once",
            );
        }
        (asked > now).then_some(asked)
    }

    /// What the message says, else what its channel's policy says, counted from when it may first be sent.
    fn expires_at(
        &mut self,
        request: &Request,
        channel: Option<&ChannelSetup>,
        send_at: Option<Time>,
        now: Time,
    ) -> Option<Time> {
        let by_policy = channel.and_then(|channel| channel.policy.expires_after);
        let in_retry = request.retry.as_ref().and_then(|retry| retry.expires_after);
        let (field, asked) = match (request.expires_after, in_retry) {
            (Some(_), Some(_)) => {
                self.invalid("retry.expires_after", "is given twice", "keep `expires_after` alone");
                return None;
            }
            (Some(asked), None) => ("expires_after", asked),
            (None, Some(asked)) => ("retry.expires_after", asked),
            (None, None) => return by_policy.map(|span| send_at.unwrap_or(now) + span),
        };
        if asked == Span::ZERO {
            self.invalid(field, "is no time at all", "write for example \"48h\"");
        } else if asked > LONGEST_LIFE {
            self.invalid(field, "is longer than ten years", "leave it out to keep trying by policy alone");
        } else if field == "expires_after" && by_policy.is_some_and(|most| asked > most) {
            let most = by_policy.unwrap_or_default();
            self.invalid(
                field,
                format!("is longer than {most}, the channel's own"),
                "ask for less, or leave it out",
            );
        } else if send_at.is_some_and(|send_at| now + asked <= send_at) {
            self.invalid(
                field,
                "ends before `send_at`",
                "it counts from now: make it longer, or send earlier",
            );
        }
        Some(now + asked)
    }
}

/// Content that a channel of this kind takes.
fn example(channel: &ChannelSetup) -> &'static str {
    use crate::kind::ChannelKind::{Evolution, Null, Own, Resend, Smtp, Tiss, Webhook};
    match channel.kind {
        Evolution => "write {\"text\": \"…\"} or {\"media\": {…}}",
        Smtp | Resend => "write {\"subject\": \"…\", \"text\": \"…\"}",
        Tiss => "write {\"xml\": \"…\"}",
        Webhook => "write {\"body\": {…}}",
        Null => "write {}",
        Own => "write what the channel's own code takes",
    }
}

/// A stranger's word, short enough to be repeated.
fn quoted(word: &str) -> String {
    let head: String = word.chars().take(64).flat_map(char::escape_debug).collect();
    let more = if word.chars().nth(64).is_some() { "…" } else { "" };
    format!("`{head}{more}`")
}

/// A path short enough to be repeated, with nothing in it that a terminal would act on.
fn shortened(field: String) -> String {
    let field = if field.contains(char::is_control) { field.escape_debug().to_string() } else { field };
    match field.char_indices().nth(128) {
        Some((end, _)) => format!("{}…", &field[..end]),
        None => field,
    }
}

/// Names the choices, the likeliest one first where the word looks like a slip of it.
fn one_of<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if let Some(meant) = nearest(word, names.iter().copied()) {
        return format!("did you mean `{meant}`?");
    }
    let mut listed: Vec<String> = names.iter().take(12).map(|name| format!("`{name}`")).collect();
    if names.len() > listed.len() {
        listed.push(format!("{} more", names.len() - listed.len()));
    }
    match listed.len() {
        0 => "none is configured yet".to_owned(),
        _ => format!("there are {}", listed.join(", ")),
    }
}

/// The name that at most two slips of the pen turn into the word, if there is one.
fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let (slips, name) = names.map(|name| (slips(word, name), name)).min()?;
    (slips <= 2 && slips * 3 <= word.chars().count()).then_some(name)
}

/// Levenshtein's distance.
fn slips(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Whether a problem of `field` says nothing new once one of `earlier` is known.
fn same_field(earlier: &str, field: &str) -> bool {
    field.strip_prefix(earlier).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
