use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo_channels::smtp::{DkimSettings, Smtp, SmtpSettings};
use rcgen::{KeyPair, PublicKeyData as _};
use sha2::{Digest as _, Sha256};

use crate::{accepted, sandbox, send, settings};

/// Checks a mail's first signature against a key, by RFC 6376 and RFC 8463, knowing nothing of how it was made.
fn verify(mail: &str, key: &[u8]) -> Result<(), &'static str> {
    let (head, body) = mail.split_once("\r\n\r\n").ok_or("no body")?;
    let unfolded = head.replace("\r\n ", " ").replace("\r\n\t", " ");
    let headers: Vec<(String, &str)> = unfolded
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), value))
        .collect();
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, signature) = headers.iter().find(|(name, _)| name == "dkim-signature").ok_or("not signed")?;
    let tag = |name: &str| {
        let tags = signature.split(';').filter_map(|tag| tag.split_once('='));
        let found = tags.into_iter().find(|(tag, _)| tag.trim() == name);
        found.map(|(_, value)| value.split_whitespace().collect::<String>()).ok_or("a tag is missing")
    };
    if tag("c")? != "relaxed/relaxed" {
        return Err("another form");
    }

    let mut lines: Vec<String> = body
        .split("\r\n")
        .map(|line| {
            let squeezed = squeeze(line);
            if line.starts_with([' ', '\t']) && !squeezed.is_empty() {
                format!(" {squeezed}")
            } else {
                squeezed
            }
        })
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let canonical: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    if BASE64.encode(Sha256::digest(canonical)) != tag("bh")? {
        return Err("the body was changed");
    }

    let mut signed = String::new();
    let mut rest = headers.clone();
    for name in tag("h")?.split(':').map(str::to_lowercase) {
        if let Some(at) = rest.iter().rposition(|(other, _)| *other == name) {
            signed.push_str(&format!("{name}:{}\r\n", squeeze(rest.remove(at).1)));
        }
    }
    let value = tag("b")?;
    let start = signature.rfind("b=").ok_or("no signature")? + 2;
    signed.push_str(&format!("dkim-signature:{}", squeeze(&signature[..start])));

    let value = BASE64.decode(value).map_err(|_| "not base64")?;
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let (scheme, message) = match tag("a")?.as_str() {
        "rsa-sha256" => (rustls::SignatureScheme::RSA_PKCS1_SHA256, signed.into_bytes()),
        "ed25519-sha256" => (rustls::SignatureScheme::ED25519, Sha256::digest(signed).to_vec()),
        _ => return Err("another algorithm"),
    };
    let (_, verifiers) =
        algorithms.mapping.iter().find(|(other, _)| *other == scheme).ok_or("not supported")?;
    let good = verifiers.iter().any(|verifier| verifier.verify_signature(key, &message, &value).is_ok());
    if good { Ok(()) } else { Err("the signature does not match") }
}

#[test]
fn the_check_agrees_with_the_standards_own_example() {
    // RFC 8463, appendix A.
    let key = BASE64.decode("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=").unwrap();
    let mail = "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=football.example.com; \
        i=@football.example.com;\r\n q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n subject : date : \
        message-id : from : subject : date;\r\n bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n \
        b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus\r\n Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==\r\n\
        From: Joe SixPack <joe@football.example.com>\r\nTo: Suzie Q <suzie@shopping.example.net>\r\n\
        Subject: Is dinner ready?\r\nDate: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
        Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n\r\n\
        Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";
    assert_eq!(verify(mail, &key), Ok(()));
    assert!(verify(&mail.replace("dinner", "lunch"), &key).is_err());
    assert_eq!(verify(&mail.replace("hungry", "angry"), &key), Err("the body was changed"));
}

async fn signed_with(key_file: &Path, content: &str) -> String {
    let server = sandbox().await;
    let dkim = DkimSettings {
        domain: "clinic.example".to_owned(),
        selector: "pombo".to_owned(),
        key_file: Some(key_file.to_owned()),
    };
    let channel = Smtp::new(&SmtpSettings { dkim: Some(dkim), ..settings(&server.url()) }).unwrap();
    let envelope = crate::envelope("m", "Ana Souza <ana@example.net>", content);
    accepted(pombo_channels::Channel::send(&channel, &envelope, crate::PATIENCE).await);
    String::from_utf8(server.taken().remove(0).mail).unwrap()
}

const MAILS: [&str; 3] = [
    r#"{"subject":"Hello","text":"How  are you? \n\n\n"}"#,
    r#"{"subject":"Olá, amanhã às nove horas da manhã, na clínica da esquina de sempre","html":"<p>é</p>","text":"é","reply_to":"b@clinic.example"}"#,
    r#"{"subject":"s","text":"t","attachments":[{"filename":"a b.pdf","content":"AAAA"}],"headers":{"List-Unsubscribe":"<https://x.example/>"}}"#,
];

#[tokio::test]
async fn an_ed25519_signature_holds_and_a_change_breaks_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dkim.pem");
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    std::fs::write(&file, key.serialize_pem()).unwrap();
    for content in MAILS {
        let mail = signed_with(&file, content).await;
        assert_eq!(verify(&mail, key.der_bytes()), Ok(()), "{mail}");
        assert!(mail.starts_with(
            "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=clinic.example; s=pombo;"
        ));
        for changed in [
            mail.replace("clinic.example>\r\n", "clinic.evil>\r\n"),
            mail.replace("From: ", "From: Eve "),
            mail.replace("\r\nTo: ", "\r\nSubject: other\r\nTo: "),
            format!("{mail}more\r\n"),
        ] {
            assert!(verify(&changed, key.der_bytes()).is_err(), "{changed}");
        }
    }
}

#[tokio::test] // REQ IN-3
async fn a_finished_mail_is_signed_as_it_stands_with_whatever_its_writer_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dkim.pem");
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    std::fs::write(&file, key.serialize_pem()).unwrap();
    let raw = "Received: a\r\nTo: ana@example.net\r\nTO : bia@example.net\r\nFrom: b@clinic.example\r\nSubject: ol\u{e1}\r\n\t dear\r\n\r\n\u{e9}  x \r\n.\r\n";
    let mail = signed_with(&file, &serde_json::json!({"mime": BASE64.encode(raw)}).to_string()).await;
    assert_eq!(verify(&mail, key.der_bytes()), Ok(()), "{mail}");
    assert!(mail.ends_with("\r\n\u{e9}  x \r\n.\r\n"), "{mail}");
    assert!(verify(&mail.replace("bia@", "eve@"), key.der_bytes()).is_err());
}

#[tokio::test]
async fn an_rsa_signature_holds_with_either_form_of_key_file() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let run = Command::new("openssl")
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("openssl is there");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    };
    run(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "pkcs8.pem"]);
    run(&["rsa", "-in", "pkcs8.pem", "-traditional", "-out", "pkcs1.pem"]);
    run(&["rsa", "-in", "pkcs8.pem", "-RSAPublicKey_out", "-outform", "DER", "-out", "public.der"]);
    let key = std::fs::read(folder.path().join("public.der")).unwrap();
    for file in ["pkcs8.pem", "pkcs1.pem"] {
        for content in MAILS {
            let mail = signed_with(&folder.path().join(file), content).await;
            assert_eq!(verify(&mail, &key), Ok(()), "{mail}");
        }
    }
}

#[tokio::test]
async fn without_a_key_nothing_is_signed() {
    let server = sandbox().await;
    accepted(send(&crate::channel(&server.url()), "m", "ana@example.net").await);
    assert!(!String::from_utf8(server.taken().remove(0).mail).unwrap().contains("DKIM"));
}
