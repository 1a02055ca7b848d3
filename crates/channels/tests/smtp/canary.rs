use std::time::Duration;

use pombo_channels::Channel as _;
use pombo_channels::smtp::{Smtp, SmtpSettings};
use pombo_kernel::reply::Reply;
use pombo_kernel::secret::Secret;

use crate::{PATIENCE, envelope, sandbox, settings};

#[tokio::test]
async fn neither_secrets_nor_people_show_in_our_own_words() {
    let server = sandbox().await;
    let address = server.address;
    let with = |url: String| SmtpSettings {
        from: Some("canary-from <canary@x.example>".to_owned()),
        ..settings(&url)
    };
    let given = SmtpSettings {
        username: Some("canary-user".to_owned()),
        password: Some(Secret::new("canary-password")),
        ..with(format!("smtp://{address}"))
    };
    let in_url = with(format!("smtp://canary-user:canary-password@{address}"));
    let content = r#"{"subject":"canary","text":"canary","headers":{"X":"canary\r\n"}}"#;
    let short = r#"{"subject":"canary","text":"canary"}"#;
    for settings in [given, in_url] {
        let channel = Smtp::new(&settings).unwrap();
        assert!(!format!("{settings:?}").contains("canary"), "{settings:?}");
        assert!(!format!("{channel:?}").contains("canary"), "{channel:?}");
        for (to, content, deadline) in [
            ("canary@example.net", content, PATIENCE),
            ("canary@example.net", short, PATIENCE),
            ("canary\r\n@example.net", short, PATIENCE),
            ("canary@example.net", "canary", PATIENCE),
            ("canary@example.net", short, Duration::ZERO),
        ] {
            let envelope = envelope("m", to, content);
            assert!(!format!("{envelope:?}").contains("canary"));
            let Reply::Unreachable(fault) = channel.send(&envelope, deadline).await else { panic!("sent") };
            assert!(!fault.text.contains("canary"), "{fault:?}");
        }
    }
    let problems = Smtp::new(&SmtpSettings {
        from: Some("canary".to_owned()),
        tls: Some(pombo_channels::smtp::Tls::Opportunistic),
        ..settings("smtp://canary-user:canary-password@mail.example")
    })
    .unwrap_err();
    assert!(problems.len() == 2 && !format!("{problems:?}").contains("canary"), "{problems:?}");
}
