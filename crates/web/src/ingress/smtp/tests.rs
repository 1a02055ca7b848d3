//! Dialogues, without a wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo_kernel::breaker;
use pombo_kernel::classify::Rules;
use pombo_kernel::guard::Guard;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, Setup};
use pombo_kernel::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::letter::{Drafts, Way, drafts};
use super::reply::Reply;
use super::session::{LINE_BYTES_MAX, Letter, Session, Terms, Tls};
use super::stage::{SIZE, Stage, terms};

const NOW: Time = Time::from_millis(1_700_000_000_000);

impl Stage {
    /// The codes of the replies so far.
    fn codes(&self) -> Vec<u16> {
        let text = String::from_utf8(self.said.clone()).unwrap();
        assert!(text.is_empty() || text.ends_with("\r\n"));
        let last = text.split_terminator("\r\n").filter(|line| line.as_bytes().get(3) == Some(&b' '));
        last.map(|line| line[..3].parse().unwrap()).collect()
    }
}

fn talk(tls: Tls, lines: &[&str]) -> Stage {
    let mut stage = Stage::new(tls);
    for line in lines {
        stage.hear(format!("{line}\r\n").as_bytes());
    }
    stage
}

fn plain(user: &str, key: &str) -> String {
    BASE64.encode(format!("\0{user}\0{key}"))
}

fn auth() -> String {
    format!("AUTH PLAIN {}", plain("email", "good"))
}

fn check(lines: &[&str], codes: &[u16]) -> Stage {
    let stage = talk(Tls::Never, lines);
    assert_eq!(stage.codes(), codes, "{lines:?}: {}", String::from_utf8_lossy(&stage.said));
    stage
}

#[test] // REQ IN-3
fn a_mail_is_handed_in_for_all_recipients_that_were_accepted() {
    let stage = check(
        &[
            "EHLO app.example",
            &auth(),
            "MAIL FROM:<a@x.example> SIZE=500 BODY=8BITMIME",
            "RCPT TO:<b@x.example>",
            "RCPT TO:<nobody>",
            "RCPT TO:<c@x.example>",
            "RCPT TO:<c@X.EXAMPLE>",
            "RCPT TO:<d@x.example>",
            "RCPT TO:<e@x.example>",
            "DATA",
            "Subject: s\r\n\r\n..a\r\n.",
            "QUIT",
        ],
        &[250, 235, 250, 250, 553, 250, 250, 250, 452, 354, 250, 221],
    );
    let letter = &stage.letters[0];
    assert_eq!(
        (letter.from.as_str(), letter.to.join(" ")),
        ("a@x.example", "b@x.example c@x.example d@x.example".into())
    );
    assert_eq!(letter.mail, b"Subject: s\r\n\r\n.a\r\n");
    let offers = String::from_utf8(stage.said).unwrap();
    for offer in
        ["250-PIPELINING", "250-8BITMIME", "250-ENHANCEDSTATUSCODES", "250-SIZE 1000", "250-AUTH PLAIN LOGIN"]
    {
        assert!(offers.contains(&format!("{offer}\r\n")), "{offer}: {offers}");
    }
    assert!(!offers.contains("STARTTLS"));
}

#[test] // REQ IN-3, SE-1
fn nothing_goes_without_a_key() {
    check(
        &["EHLO a", "MAIL FROM:<a@x>", "RCPT TO:<b@x>", "DATA", "VRFY b", "NOOP", "HELP", "RSET"],
        &[250, 530, 503, 503, 252, 250, 214, 250],
    );
    check(&["AUTH PLAIN AA==", "HELO a", &auth()], &[503, 250, 235]);
    let wrong = format!("AUTH PLAIN {}", plain("email", "bad"));
    let stage =
        check(&["EHLO a", &wrong, &wrong, "MAIL FROM:<a@x>", &wrong, "NOOP"], &[250, 535, 535, 530, 535]);
    assert!(stage.over, "three guesses are enough");
}

#[test] // REQ IN-3
fn both_ways_to_log_in_with_and_without_an_initial_answer() {
    let (user, good) = (BASE64.encode("email"), BASE64.encode("good"));
    check(&["EHLO a", &auth(), &auth()], &[250, 235, 503]);
    check(&["EHLO a", "AUTH PLAIN", &plain("email", "good")], &[250, 334, 235]);
    check(&["EHLO a", "AUTH LOGIN", &user, &good], &[250, 334, 334, 235]);
    check(&["EHLO a", &format!("AUTH LOGIN {user}"), &good], &[250, 334, 235]);
    check(&["EHLO a", "AUTH LOGIN", "*", "NOOP"], &[250, 334, 501, 250]);
    check(&["EHLO a", "AUTH PLAIN", "!", "NOOP"], &[250, 334, 501, 250]);
    check(&["EHLO a", "AUTH PLAIN =", "NOOP"], &[250, 501, 250]);
    let other = BASE64.encode("root\0email\0good");
    check(&["EHLO a", &format!("AUTH PLAIN {other}")], &[250, 501]);
    check(&["EHLO a", "AUTH CRAM-MD5"], &[250, 504]);
}

#[test] // REQ SE-1
fn a_key_is_not_taken_in_the_clear_from_elsewhere() {
    let stage = talk(
        Tls::Offered,
        &["EHLO a", &auth(), "STARTTLS", "MAIL FROM:<a@x>", "EHLO a", "STARTTLS", &auth()],
    );
    assert_eq!(stage.codes(), [250, 538, 220, 530, 250, 503, 235]);
    let text = String::from_utf8(stage.said).unwrap();
    let (before, after) = text.split_once("220 ").unwrap();
    assert!(before.contains("STARTTLS\r\n") && !before.contains("AUTH PLAIN"), "{before}");
    assert!(!after.contains("250-STARTTLS") && after.contains("250-AUTH PLAIN LOGIN"), "{after}");
    let never = Terms { plaintext_auth: false, ..terms(Tls::Never) };
    let mut stage = Stage { session: Session::new(never), ..Stage::new(Tls::Never) };
    stage.hear(format!("EHLO a\r\n{}\r\nSTARTTLS\r\n", auth()).as_bytes());
    assert_eq!(stage.codes(), [250, 538, 502]);
}

#[test] // REQ SE-2
fn what_is_said_before_the_handshake_counts_for_nothing_after_it() {
    let mut stage = Stage::new(Tls::Offered);
    let injected = format!("EHLO a\r\nSTARTTLS\r\nEHLO a\r\n{}\r\nMAIL FROM:<e@x>\r\n", auth());
    stage.hear(injected.as_bytes());
    assert_eq!(stage.codes(), [250, 220]);
    stage.hear(b"MAIL FROM:<a@x.example>\r\n");
    assert_eq!(stage.codes(), [250, 220, 530]);
}

#[test] // REQ SE-2
fn whatever_is_too_long_or_broken_is_refused_and_costs_nothing() {
    let mut stage = Stage::new(Tls::Never);
    for _ in 0..1_000 {
        stage.hear(&[b'x'; 1_024]);
    }
    assert!(stage.most <= LINE_BYTES_MAX && stage.codes().is_empty());
    stage.hear(b"\r\nNOOP\r\nNOOP\nNOOP\rNOOP\r\n");
    assert_eq!(stage.codes(), [500, 250, 500, 500]);
    let stage = talk(Tls::Never, &["x"; 30]);
    assert_eq!((stage.codes().len(), stage.codes().last(), stage.over), (20, Some(&421), true));
    let (big, auth) = ("x".repeat(SIZE), auth());
    let ready = ["EHLO a", &auth, "MAIL FROM:<a@x.example>", "RCPT TO:<b@x.example>", "DATA"];
    let stage = check(&[&ready[..], &[&big, ".", "NOOP"]].concat(), &[250, 235, 250, 250, 354, 552, 250]);
    assert!(stage.letters.is_empty());
    let mut stage = talk(Tls::Never, &ready);
    for _ in 0..1_000 {
        stage.hear(&[b'x'; 64]);
    }
    assert!(stage.over && stage.most <= SIZE, "{}", stage.most);
    check(
        &["EHLO a", &auth, "MAIL FROM:<a@x> SIZE=1001", "MAIL FROM:<a@x>", "MAIL FROM:<a@x>", "DATA"],
        &[250, 235, 552, 250, 503, 554],
    );
}

/// Lines that clients say, and some that they should not.
fn said() -> impl Strategy<Value = String> {
    let command = prop_oneof![
        Just("EHLO a".to_owned()),
        Just(auth()),
        Just("MAIL FROM:<a@x.example>".to_owned()),
        Just("RCPT TO:<b@x.example>".to_owned()),
        Just("RCPT TO:<c@x.example>".to_owned()),
        Just("DATA".to_owned()),
        Just("Subject: s\r\n\r\nhi\r\n..\r\n.".to_owned()),
        Just(".".to_owned()),
        Just("RSET".to_owned()),
        Just("NOOP".to_owned()),
        "[ -~]{0,20}",
    ];
    let session = prop::collection::vec(command, 0..20).prop_map(|lines| lines.join("\r\n") + "\r\n");
    session.prop_map(|rest| {
        format!("EHLO a\r\n{}\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\n{rest}", auth())
    })
}

proptest! {
    #[test] // REQ SE-2
    fn no_bytes_make_it_stumble(bytes in prop::collection::vec(any::<u8>(), 0..2_000), tls in any::<bool>()) {
        let mut stage = Stage::new(if tls { Tls::Offered } else { Tls::Never });
        stage.hear(b"EHLO a\r\n");
        stage.hear(&bytes);
        prop_assert!(stage.letters.is_empty());
    }

    #[test] // REQ IN-3
    fn pipelined_is_the_same_as_one_at_a_time(text in said(), cut in 1..40usize) {
        let (mut whole, mut cuts) = (Stage::new(Tls::Never), Stage::new(Tls::Never));
        whole.hear(text.as_bytes());
        for piece in text.as_bytes().chunks(cut) {
            cuts.hear(piece);
        }
        prop_assert_eq!(&whole.said, &cuts.said);
        prop_assert_eq!(&whole.letters, &cuts.letters);
    }
}

fn setup(kind: ChannelKind) -> Setup {
    let name = "email".parse().unwrap();
    let channel = ChannelSetup {
        name,
        kind,
        tenant: Tenant::default(),
        policy: Policy::built_in("smtp", Profile::Production).unwrap(),
        rules: Rules::for_kind(kind, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::default(),
        destination: Destination::Sender { default: "x".into() },
        attempt_timeout: pombo_kernel::time::Span::from_secs(30),
        unready: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care { breaker: breaker::Limits::default(), ..Care::default() },
        receipts: None,
    };
    Setup {
        channels: [(channel.name.clone(), std::sync::Arc::new(channel))].into(),
        lanes: [("default".parse().unwrap(), LaneSetup { workers: 1 })].into(),
        routes: Vec::new(),
        limits: Limits::default(),
        subscribers: Guard::default(),
        claims: Policy::claims(),
        alerts: std::sync::Arc::default(),
        masked: pombo_kernel::mask::MaskedRole::usual(),
        retention: Default::default(),
        dashboard: pombo_kernel::setup::Dashboard::default(),
    }
}

fn made(kind: ChannelKind, mail: &str, to: &[&str], chance: u8) -> Result<Drafts, Reply> {
    let setup = setup(kind);
    let channel = setup.channels.values().next().unwrap().clone();
    let way = Way { name: "pombo.example".to_owned(), encrypted: true, now: NOW, chance: [chance; 32] };
    let to = to.iter().map(|to| (*to).to_owned()).collect();
    let letter = Letter { from: "bounce@b.example".to_owned(), to, mail: mail.as_bytes().to_vec() };
    drafts(&setup, &channel, letter, &way)
}

fn content(drafts: &Drafts, n: usize) -> Value {
    serde_json::from_str(drafts.drafts[n].body.content.as_ref().unwrap().text()).unwrap()
}

const MAIL: &str = "From: =?utf-8?q?Cl=C3=ADnica?= <mail@clinic.example>\r\nSubject: =?utf-8?q?Ol=C3=A1?=\r\n =?utf-8?q?,_oi?=\r\n\
    Message-ID: <m1@app.example>\r\nDate: Tue, 14 Nov 2023 22:13:20 +0000\r\nBcc: c@x.example\r\nX-Ref: 7\r\n\r\nbody\r\n";

#[test] // REQ IN-3
fn a_mail_becomes_a_message_for_each_recipient_with_the_same_bytes() {
    let made = made(ChannelKind::Smtp, MAIL, &["b@x.example", "c@x.example"], 1).unwrap();
    let first = content(&made, 0);
    assert_eq!(first, content(&made, 1));
    assert_eq!(
        (&first["from"], &first["subject"], &first["return_path"]),
        (&json!("Clínica <mail@clinic.example>"), &json!("Olá, oi"), &json!("bounce@b.example"))
    );
    let mail = String::from_utf8(BASE64.decode(first["mime"].as_str().unwrap()).unwrap()).unwrap();
    let trace = format!(
        "Received: by pombo.example (Pombo) with ESMTPSA id {};\r\n\tTue, 14 Nov 2023 22:13:20 +0000\r\n",
        made.group
    );
    assert_eq!(mail, trace + &MAIL.replace("Bcc: c@x.example\r\n", ""));
    for draft in &made.drafts {
        assert_eq!(draft.body.reference.as_ref(), Some(&made.group));
        assert_eq!(&*draft.queue.destination, "clinic.example");
        let metadata: Value = serde_json::from_str(draft.body.metadata.as_ref().unwrap().text()).unwrap();
        assert_eq!(metadata, json!({"group": made.group, "message_id": "m1@app.example"}));
    }
}

#[test] // REQ IN-3
fn a_large_mail_is_one_file_that_all_messages_share() {
    let mail = format!("{MAIL}{}", "0123456789\r\n".repeat(1_000));
    let made = made(ChannelKind::Smtp, &mail, &["b@x.example", "c@x.example"], 1).unwrap();
    let [one, two] = &made.drafts[..] else { panic!("{made:?}") };
    assert_eq!((one.blobs.len(), &one.blobs), (1, &two.blobs));
    assert_eq!(
        content(&made, 1)["mime"],
        json!({"blob": one.blobs[0].digest.to_string(), "size": one.blobs[0].bytes.len()})
    );
    assert!(
        one.blobs[0].bytes.ends_with(b"body\r\n0123456789\r\n")
            || one.blobs[0].bytes.ends_with(b"0123456789\r\n")
    );
}

#[test] // REQ ML-3
fn the_same_mail_again_is_known_by_its_id_and_another_mail_is_not() {
    let key = |mail: &str, chance| {
        let made = made(ChannelKind::Smtp, mail, &["b@x.example", "c@x.example"], chance).unwrap();
        (made.drafts.iter().map(|draft| draft.idempotency.clone()).collect::<Vec<_>>(), made.group)
    };
    let (first, group) = key(MAIL, 1);
    assert_ne!(first[0].as_ref().unwrap().key, first[1].as_ref().unwrap().key);
    assert_eq!(key(MAIL, 2), (first.clone(), group));
    let (other, _) = key(&MAIL.replace("body", "else"), 2);
    assert_eq!(other[0].as_ref().unwrap().key, first[0].as_ref().unwrap().key);
    assert_ne!(other[0], first[0]);
    let nameless = MAIL.replace("Message-ID: <m1@app.example>\r\n", "");
    assert_eq!(key(&nameless, 1).0, [None, None]);
    assert_ne!(key(&nameless, 1).1, key(&nameless, 2).1);
}

#[test] // REQ IN-3
fn for_resend_a_mail_is_taken_apart() {
    let mail = "From: Clinic <mail@clinic.example>\r\nTo: b@x.example\r\nReply-To: r@clinic.example\r\nSubject: s\r\n\
        Message-ID: <m2@app.example>\r\nIn-Reply-To: <m0@x>\r\nX-Ref: 7\r\nReceived: from a by b\r\n\
        Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: multipart/related; boundary=r\r\n\r\n\
        --r\r\nContent-Type: multipart/alternative; boundary=a\r\n\r\n--a\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\r\nol=E1\r\n--a\r\nContent-Type: text/html\r\n\r\n<img src=\"cid:logo\">\r\n--a--\r\n\
        --r\r\nContent-Type: image/png\r\nContent-ID: <logo>\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw==\r\n--r--\r\n\
        --m\r\nContent-Type: application/pdf; name=\"../a.pdf\"\r\nContent-Disposition: attachment\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nJVBERg==\r\n--m--\r\n";
    let made = made(ChannelKind::Resend, mail, &["b@x.example"], 1).unwrap();
    assert_eq!(
        content(&made, 0),
        json!({
            "from": "Clinic <mail@clinic.example>", "subject": "s", "text": "olá", "html": "<img src=\"cid:logo\">",
            "reply_to": ["r@clinic.example"], "headers": {"In-Reply-To": "<m0@x>", "X-Ref": "7"},
            "attachments": [
                {"filename": "attachment-1.bin", "content": "iVBORw==", "content_type": "image/png", "content_id": "logo"},
                {"filename": ".._a.pdf", "content": "JVBERg==", "content_type": "application/pdf"},
            ],
        })
    );
    assert_eq!(made.drafts[0].body.reference, None);
}

#[test] // REQ IN-3
fn what_a_channel_cannot_carry_is_refused_in_words() {
    let signed = MAIL.replace("X-Ref: 7", "Content-Type: multipart/signed; boundary=b");
    let circles = "Received: from a by b\r\n".repeat(51) + MAIL;
    for (kind, mail, code) in [
        (ChannelKind::Resend, signed.as_str(), 554),
        (ChannelKind::Resend, "Subject: s\r\n\r\nhi\r\n", 554),
        (ChannelKind::Resend, "From: a@x.example\r\n\r\nno subject\r\n", 554),
        (ChannelKind::Smtp, circles.as_str(), 554),
    ] {
        assert_eq!(made(kind, mail, &["b@x.example"], 1).unwrap_err().code, code, "{mail}");
    }
    assert!(made(ChannelKind::Smtp, &signed, &["b@x.example"], 1).is_ok());
    assert!(made(ChannelKind::Smtp, "no head", &["b@x.example"], 1).is_ok());
}
