use pombo_channels::Channel as _;
use pombo_kernel::reply::{FaultKind, Reply};
use proptest::prelude::*;
use serde_json::json;

use crate::{PATIENCE, channel, envelope, sandbox};

/// Text that would like to be a line of its own.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\0".to_owned()),
        Just(".\r\n".to_owned()),
        Just("\r\n.\r\n".to_owned()),
        Just("\n.\n".to_owned()),
        Just("\r.\r".to_owned()),
        Just("\u{2028}".to_owned()),
        Just("RCPT TO:<eve@example.net>".to_owned()),
        Just("Bcc: eve@example.net".to_owned()),
        Just("MAIL FROM:<eve@example.net>".to_owned()),
        Just("> SIZE=1".to_owned()),
        "[ -~é]{0,12}",
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test] // REQ SE-2
    fn whatever_is_in_a_message_one_mail_arrives_for_one_recipient(
        to in prop_oneof![Just("ana@example.net".to_owned()), hostile().prop_map(|text| format!("ana@example.net{text}"))],
        from in prop_oneof![Just("a@clinic.example".to_owned()), hostile().prop_map(|text| format!("{text} <a@clinic.example>"))],
        subject in hostile(), text in hostile(), html in hostile(),
        name in prop_oneof![Just("X-Own".to_owned()), hostile()],
        value in hostile(), file in hostile(), kind in hostile(), id in hostile(), key in hostile(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = sandbox().await;
            let channel = channel(&server.url());
            let content = json!({
                "subject": subject, "text": text, "html": html, "from": from, "reply_to": [from],
                "headers": {name: value},
                "attachments": [{"filename": file, "content": "AA==", "content_type": kind, "content_id": id}],
            });
            let reply = channel.send(&envelope(&key, &to, &content.to_string()), PATIENCE).await;
            let stats = server.stats();
            match reply {
                Reply::Accepted(_) => {
                    prop_assert_eq!((stats.recipients, stats.total, stats.accepted), (1, 1, 1));
                    let taken = server.taken().remove(0);
                    prop_assert_eq!((taken.from.as_str(), taken.to.as_str()), ("a@clinic.example", "ana@example.net"));
                    let mail = String::from_utf8(taken.mail).unwrap();
                    let head = mail.split("\r\n\r\n").next().unwrap();
                    let names: Vec<_> = head
                        .split("\r\n")
                        .filter(|line| !line.starts_with([' ', '\t']))
                        .map(|line| line.split(':').next().unwrap().to_ascii_lowercase())
                        .collect();
                    let known = ["from", "to", "subject", "date", "message-id", "reply-to", "mime-version", "content-type"];
                    for name in known {
                        prop_assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{} in {}", name, head);
                    }
                    prop_assert_eq!(names.len(), known.len() + 1, "{}", head);
                    prop_assert!(!names.contains(&"bcc".to_owned()));
                }
                Reply::Unreachable(fault) => {
                    prop_assert_eq!(fault.kind, FaultKind::BadContent);
                    prop_assert!(!fault.text.contains("eve"), "{}", fault.text);
                    prop_assert_eq!(stats.connections, 0);
                }
                other => prop_assert!(false, "{:?}", other),
            }
            Ok(())
        })?;
    }
}
