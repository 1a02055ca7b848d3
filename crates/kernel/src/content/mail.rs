//! The content of an e-mail, over SMTP or through Resend.

use serde_json::{Map, Value};

use super::{Found, is_base64, present, web_address};
use crate::kind::ChannelKind;

/// The longest line that RFC 5322 lets a mail have.
const SUBJECT_BYTES_MAX: usize = 998;
const ADDRESSES_MAX: usize = 50;
const NOT_AN_ADDRESS: &str = "is not an e-mail address";
const ADDRESS_HINT: &str = "write ana@clinic.example";

pub(super) fn check(found: &mut Found, kind: ChannelKind, to: &str, content: &Value) {
    const EVERY: &[&str] = &["subject", "text", "html", "attachments", "headers", "from", "reply_to"];
    const RESEND: &[&str] = &["cc", "bcc", "also_to", "tags"];
    // Over SMTP a message has one recipient; what its mail shows of others sends it to none of them.
    const SMTP: &[&str] = &["shown_to", "shown_cc"];
    if mailbox(to).is_none() {
        found.add("to", NOT_AN_ADDRESS, ADDRESS_HINT);
    }
    if kind == ChannelKind::Smtp && content.get("mime").is_some() {
        return finished(found, content);
    }
    let known = [EVERY, if kind == ChannelKind::Resend { RESEND } else { SMTP }].concat();
    let Some(members) = found.members("content", content, &known) else { return };
    match found.line("content", members, "subject") {
        Some(subject) if subject.len() > SUBJECT_BYTES_MAX => {
            found.add("content.subject", "is longer than 998 bytes", "shorten it");
        }
        Some(subject) if !subject.trim().is_empty() => {}
        Some(_) => found.add("content.subject", "is empty", "write a subject"),
        None if present(members, "subject").is_none() => {
            found.add("content.subject", "is missing", "write a subject");
        }
        None => {}
    }
    let says = ["text", "html"].map(|name| found.text("content", members, name));
    if says.iter().flatten().all(|text| text.is_empty()) {
        found.add("content", "has neither text nor html", "write at least one of them");
    }
    if found.text("content", members, "from").is_some_and(|from| mailbox(from).is_none()) {
        found.add("content.from", NOT_AN_ADDRESS, ADDRESS_HINT);
    }
    let lists = match kind {
        ChannelKind::Resend => ["cc", "bcc", "also_to"].as_slice(),
        _ => SMTP,
    };
    for name in lists.iter().chain(&["reply_to"]) {
        addresses(found, name, present(members, name));
    }
    if present(members, "tags").is_some_and(|tags| kind == ChannelKind::Resend && !are_tags(tags)) {
        found.add(
            "content.tags",
            "is not a list of tags",
            "write [{\"name\": \"…\", \"value\": \"…\"}] with letters, digits, _ and -",
        );
    }
    found.headers(members, reserved_in_mail);
    attachments(found, kind, present(members, "attachments"));
}

/// A mail that its writer has finished, beside what lists show of it. It goes out as it is.
fn finished(found: &mut Found, content: &Value) {
    let Some(members) = found.members("content", content, &["mime", "subject", "from", "return_path"]) else {
        return;
    };
    if !found.text("content", members, "mime").is_some_and(|mime| !mime.is_empty() && is_base64(mime)) {
        found.add(
            "content.mime",
            "is not a mail in base64",
            "encode the whole mail, head and body, as base64",
        );
    }
    found.line("content", members, "subject");
    for (name, may_be_empty) in [("from", false), ("return_path", true)] {
        let given = found.text("content", members, name);
        if given.is_some_and(|text| mailbox(text).is_none() && !(may_be_empty && text.is_empty())) {
            found.add(format!("content.{name}"), NOT_AN_ADDRESS, ADDRESS_HINT);
        }
    }
}

fn addresses(found: &mut Found, name: &str, value: Option<&Value>) {
    let field = format!("content.{name}");
    let list = match value {
        None => return,
        Some(Value::Array(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    if list.len() > ADDRESSES_MAX {
        found.add(&field, "has more than 50 addresses", "send more than one message");
    }
    if !list.iter().all(|item| item.as_str().is_some_and(|text| mailbox(text).is_some())) {
        found.add(&field, "is not an e-mail address, or a list of them", ADDRESS_HINT);
    }
}

fn are_tags(tags: &Value) -> bool {
    let word = |tag: &Map<String, Value>, name: &str| {
        tag.get(name).and_then(Value::as_str).is_some_and(|text| {
            (1..=256).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        })
    };
    tags.as_array().is_some_and(|list| {
        list.iter().all(|tag| {
            tag.as_object().is_some_and(|tag| tag.len() == 2 && word(tag, "name") && word(tag, "value"))
        })
    })
}

fn attachments(found: &mut Found, kind: ChannelKind, value: Option<&Value>) {
    // Resend can fetch an attachment by itself; over SMTP we would have to, on a stranger's word.
    const RESEND: &[&str] = &["filename", "content", "content_type", "content_id", "path"];
    let known = if kind == ChannelKind::Resend { RESEND } else { &RESEND[..4] };
    let Some(value) = value else { return };
    let Some(list) = value.as_array() else {
        found.add(
            "content.attachments",
            "is not a list",
            "write [{\"filename\": \"…\", \"content\": \"base64\"}]",
        );
        return;
    };
    for (i, item) in list.iter().enumerate() {
        let field = format!("content.attachments[{i}]");
        let Some(members) = found.members(&field, item, known) else { continue };
        found.line(&field, members, "content_type");
        found.line(&field, members, "content_id");
        let name = found.line(&field, members, "filename");
        let content = found.text(&field, members, "content");
        let path = if kind == ChannelKind::Resend { found.text(&field, members, "path") } else { None };
        if name.is_some_and(|name| name.is_empty() || name.contains(['/', '\\'])) {
            found.add(format!("{field}.filename"), "is not the name of a file", "leave out folders");
        } else if name.is_none() && path.is_none() && present(members, "filename").is_none() {
            found.add(format!("{field}.filename"), "is missing", "give the file a name");
        }
        if content.is_some_and(|content| !is_base64(content)) {
            found.add(format!("{field}.content"), "is not base64", "encode the file as base64");
        } else if content.is_none() && path.is_none() {
            found.add(format!("{field}.content"), "is missing", "encode the file as base64");
        }
        if path.is_some_and(|path| web_address(path).is_err()) {
            found.add(format!("{field}.path"), "is not an http or https URL", "write https://host/file");
        }
    }
}

/// Whether a header of this lower-case name is not the caller's to set: those that have a field of their own,
/// that Pombo writes, or that only a relay may write.
pub fn reserved_in_mail(name: &str) -> bool {
    const RESERVED: [&str; 14] = [
        "bcc",
        "cc",
        "date",
        "dkim-signature",
        "from",
        "message-id",
        "mime-version",
        "received",
        "reply-to",
        "resend-idempotency-key",
        "return-path",
        "sender",
        "subject",
        "to",
    ];
    RESERVED.contains(&name) || name.starts_with("content-") || name.starts_with("arc-")
}

/// The bare address in `ana@clinic.example` or `Ana <ana@clinic.example>`, if it looks like one.
pub fn mailbox(text: &str) -> Option<&str> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let address = match text.strip_suffix('>') {
        None => text,
        Some(rest) => {
            let (name, address) = rest.split_once('<')?;
            if name.contains(['>', '@']) {
                return None;
            }
            address
        }
    };
    let (local, domain) = address.split_once('@')?;
    let plain = |c: char| !c.is_whitespace() && !"<>()[],;:\"\\@".contains(c);
    let local_fits = (1..=64).contains(&local.len())
        && local.chars().all(plain)
        && local.split('.').all(|part| !part.is_empty());
    let domain_fits = domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || (!c.is_ascii() && plain(c)))
    });
    (local_fits && domain_fits && address.len() <= 254).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MAIL, refused};
    use crate::kind::ChannelKind;
    use serde_json::{Value, json};

    #[test]
    fn mail_needs_a_subject_words_and_a_sound_address() {
        let kind = ChannelKind::Smtp;
        let good = json!({"subject": "s", "text": "t"});
        for bad in [
            "",
            "ana",
            "@x",
            "ana@",
            "a@b@c",
            "ana@x\r\nbcc:e@x",
            "ana @x",
            "a..b@x",
            "ana@-x",
            "ana@x..y",
            "a,b@x",
            "<ana@x",
            "ana@x>",
            "Ana <ana@x",
            "Ana <ana@x> <b@x>",
            "a@x,b@x",
        ] {
            refused(kind, bad, &good, &["to"]);
        }
        refused(kind, MAIL, &json!({}), &["content.subject", "content"]);
        refused(kind, MAIL, &json!({"subject": "a\r\nBcc: e@x", "text": "t"}), &["content.subject"]);
        refused(kind, MAIL, &json!({"subject": 1, "text": "t"}), &["content.subject"]);
        refused(kind, MAIL, &json!({"subject": "s", "text": "t", "cc": MAIL}), &["content.cc"]);
        let shown =
            json!({"subject": "s", "text": "t", "shown_to": [MAIL, "a@x\r\nBcc: e@x"], "shown_cc": "x"});
        refused(kind, MAIL, &shown, &["content.shown_to", "content.shown_cc"]);
        let elsewhere = json!({"subject": "s", "text": "t", "shown_to": [MAIL]});
        refused(ChannelKind::Resend, MAIL, &elsewhere, &["content.shown_to"]);
        let attached = |file: Value| json!({"subject": "s", "text": "t", "attachments": [file]});
        refused(kind, MAIL, &attached(json!(1)), &["content.attachments[0]"]);
        refused(
            kind,
            MAIL,
            &attached(json!({"filename": "../x", "content": "!"})),
            &["content.attachments[0].filename", "content.attachments[0].content"],
        );
        let fetched = attached(json!({"filename": "x", "content": "AA==", "path": "https://x/"}));
        refused(kind, MAIL, &fetched, &["content.attachments[0].path"]);
        refused(
            ChannelKind::Resend,
            MAIL,
            &json!({"subject": "s", "html": "h", "bcc": ["x", 1]}),
            &["content.bcc"],
        );
    }

    #[test] // REQ IN-3
    fn a_finished_mail_is_taken_whole_over_smtp_alone() {
        let kind = ChannelKind::Smtp;
        let mail = json!({"mime": "QTogYg==", "subject": "", "from": "Ana <a@x.example>", "return_path": ""});
        refused(kind, MAIL, &mail, &[]);
        refused(kind, "ana", &mail, &["to"]);
        refused(
            ChannelKind::Resend,
            MAIL,
            &json!({"mime": "QTogYg==", "subject": "s", "text": "t"}),
            &["content.mime"],
        );
        for mime in [json!(""), json!("!"), json!({"blob": "00", "size": 1})] {
            let fields: &[&str] = if mime.is_object() { &["content.mime"; 2] } else { &["content.mime"] };
            refused(kind, MAIL, &json!({"mime": mime}), fields);
        }
        let both =
            json!({"mime": "QTogYg==", "text": "t", "from": "", "return_path": "a@b\r\nRCPT TO:<e@x>"});
        refused(kind, MAIL, &both, &["content.text", "content.from", "content.return_path"]);
    }
}
