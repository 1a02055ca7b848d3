//! Finished mails: their heads, and what becomes of them before they go on.

use pombo_kernel::mime::{finish, head};

use super::house::{NOW, SETUP};
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "From: Ana <ana@clinica.example>\r\n",
    "To: b@x.example\r\n",
    "Bcc: c@x.example\r\n",
    "Resent-Bcc: c@x.example\n",
    "Subject: =?utf-8?q?Ol=C3=A1?=\r\n",
    "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n",
    "Message-ID: <m1@x.example>\r\n",
    "Received: from a by b\r\n",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
    "Content-Type: multipart/mixed; boundary=m\r\n",
    "Content-Transfer-Encoding: base64\r\n",
    "Content-Disposition: attachment; filename=\"../a.pdf\"\r\n",
    "--m\r\n",
    "--m--\r\n",
    "\r\n\r\n",
    " \tfolded",
    "x :",
];

pub(super) fn run(bytes: &[u8]) -> Sign {
    let (fields, end) = head(bytes);
    assert!(end <= bytes.len());
    for field in &fields {
        assert!(!field.name().is_empty() && !field.text().contains(['\r', '\n']), "{field:?}");
    }
    let finished = finish(bytes, "", "<id@x.example>", NOW);
    assert_eq!(finish(&finished, "", "<id@x.example>", NOW), finished, "what is finished stays as it is");
    let (fields, end) = head(&finished);
    let has = |name: &str| fields.iter().any(|field| field.is(name));
    assert!(has("date") && has("message-id") && !has("bcc") && !has("resent-bcc"), "{fields:?}");
    assert!(finished[end..].starts_with(b"\r\n"), "an empty line ends the head");
    let bare = |at: usize| match finished[at] {
        b'\n' => at == 0 || finished[at - 1] != b'\r',
        b'\r' => finished.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    assert!(!(0..finished.len()).any(bare), "every line ends in CR LF, and nothing else does");

    let made = ["email", "resend"].map(|channel| {
        let channel = SETUP.channels.get(channel).unwrap();
        let to = vec!["b@x.example".to_owned(), "c@x.example".to_owned()];
        let letter = ("a@clinic.example".to_owned(), to, bytes.to_vec());
        let made = pombo_web::smtp::fuzz::drafted(&SETUP, channel, letter, NOW);
        assert!(
            made.is_ok_and(|count| count == 2) || made.is_err_and(|code| (400..600).contains(&code)),
            "{made:?}"
        );
        made.err()
    });
    Sign::of((fields.len().min(6), has("received"), made))
}
