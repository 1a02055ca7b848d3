//! Example templates, compiled into the program.

use pombo_kernel::template::Template;

/// A file for each, of the same shape that `pombo templates put --file` reads.
const FILES: [(&str, &str); 6] = [
    ("email_change", include_str!("../templates/email_change.toml")),
    ("invite_user", include_str!("../templates/invite_user.toml")),
    ("magic_link", include_str!("../templates/magic_link.toml")),
    ("password_recovery", include_str!("../templates/password_recovery.toml")),
    ("signup_confirmation", include_str!("../templates/signup_confirmation.toml")),
    ("welcome_user", include_str!("../templates/welcome_user.toml")),
];

/// Templates to begin with, by name: what a sign-up needs, in Portuguese, for e-mail and WhatsApp.
pub fn examples() -> Vec<(&'static str, Template)> {
    FILES
        .into_iter()
        .map(|(name, file)| (name, toml::from_str(file).expect("a test reads them all")))
        .collect()
}

#[cfg(test)]
mod tests {
    use pombo_kernel::kind::ChannelKind;
    use pombo_kernel::template::Compiled;
    use serde_json::{Value, json};

    use super::*;

    fn rendered(name: &str, payload: &Value) -> [Value; 2] {
        let (_, template) = examples().into_iter().find(|(it, _)| *it == name).unwrap();
        let compiled = Compiled::new(template).unwrap();
        [ChannelKind::Resend, ChannelKind::Evolution].map(|kind| compiled.render(kind, payload).unwrap())
    }

    #[test]
    fn the_welcome_takes_the_payload_of_the_system_that_it_comes_from() {
        let [mail, whatsapp] = rendered("welcome_user", &json!({"user_data": {"full_name": "Test User"}}));
        assert_eq!(mail["subject"], "Boas-vindas, Test User!");
        for part in [&mail["text"], &mail["html"], &whatsapp["text"]] {
            assert!(part.as_str().unwrap().contains("Test User"), "{part}");
        }
    }

    #[test]
    fn every_example_renders_for_mail_and_whatsapp_and_escapes_in_html() {
        let payload = json!({
            "user_data": {"full_name": "Ana <Souza>"},
            "confirmation_url": "https://app.example/c?a=1&b=2",
            "action_url": "https://app.example/a",
            "invited_by": "Rui",
            "organization": "Clínica Boa Vista",
            "new_email": "nova@example.com",
        });
        for (name, template) in examples() {
            assert_eq!(template.parts().count(), 4, "{name}");
            let [mail, whatsapp] = rendered(name, &payload);
            let html = mail["html"].as_str().unwrap();
            assert!(html.contains("Ana &lt;Souza&gt;") && html.contains("viewport"), "{name}");
            assert!(whatsapp["text"].as_str().unwrap().contains("Ana <Souza>"), "{name}");
            assert!(mail["subject"].as_str().unwrap().len() < 100, "{name}");
        }
    }

    #[test]
    fn an_example_without_its_payload_says_what_is_missing() {
        for (name, template) in examples() {
            let error = Compiled::new(template).unwrap().render(ChannelKind::Smtp, &json!({})).unwrap_err();
            assert!(error.to_string().contains("is not in the payload"), "{name}: {error}");
        }
    }
}
