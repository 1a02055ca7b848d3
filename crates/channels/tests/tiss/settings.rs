use pombo_channels::Channel as _;
use pombo_channels::tiss::{ProviderKind, Tiss, TissServices, TissSettings};
use pombo_kernel::secret::Secret;

use crate::{PATIENCE, envelope, lot, settings, with_login};

const URL: &str = "https://tiss.example/ws";

fn wrong(change: impl FnOnce(&mut TissSettings), expected: &[&str]) {
    let mut settings = with_login(URL);
    change(&mut settings);
    let problems = Tiss::new(&settings).expect_err(expected[0]);
    assert!(problems.iter().all(|problem| !problem.reason.is_empty() && !problem.hint.is_empty()));
    let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, expected);
}

#[test]
fn settings_that_no_operator_could_mean_are_named_all_at_once() {
    wrong(|it| it.url = None, &["url"]);
    wrong(|it| it.url = Some("ftp://x/".parse().unwrap()), &["url"]);
    let lots = TissServices { lote_guias: Some("mailto:a@b".parse().unwrap()), ..TissServices::default() };
    wrong(|it| it.services = lots, &["services.lote_guias"]);
    wrong(|it| it.registro_ans = Some("12345".into()), &["registro_ans"]);
    wrong(|it| it.provider = Some("123456789012345".into()), &["provider"]);
    wrong(|it| it.provider_kind = ProviderKind::Cnpj, &["provider"]);
    wrong(|it| it.provider_kind = ProviderKind::Cpf, &["provider"]);
    wrong(|it| it.padrao = "04.01.00".into(), &["padrao"]);
    wrong(|it| it.login = Some("u".repeat(21)), &["login"]);
    wrong(|it| it.login = None, &["login"]);
    wrong(|it| it.password = None, &["password"]);
    wrong(|it| it.password = Some(Secret::new("p".repeat(33))), &["password"]);
    wrong(|it| it.utc_offset = "BRT".into(), &["utc_offset"]);
    wrong(|it| it.ca_file = Some("nowhere.pem".into()), &["ca_file"]);
    wrong(|it| it.client_cert_file = Some("nowhere.pem".into()), &["client_key_file"]);
    wrong(|it| it.client_key_file = Some("nowhere.pem".into()), &["client_cert_file"]);
    wrong(
        |it| (it.padrao, it.utc_offset, it.login) = ("x".into(), "x".into(), None),
        &["padrao", "login", "utc_offset"],
    );
}

#[test]
fn good_settings_are_taken() {
    for change in [
        |it: &mut TissSettings| it.utc_offset = "+00:00".into(),
        |it: &mut TissSettings| {
            (it.provider, it.provider_kind) = (Some("12345678000195".into()), ProviderKind::Cnpj);
        },
        |it: &mut TissSettings| {
            (it.provider, it.provider_kind) = (Some("12345678901".into()), ProviderKind::Cpf);
        },
        |it: &mut TissSettings| (it.password, it.password_md5) = (Some(Secret::new("p".repeat(60))), true),
        |it: &mut TissSettings| it.padrao = "4.03.00".into(),
    ] {
        let mut settings = with_login(URL);
        change(&mut settings);
        Tiss::new(&settings).unwrap_or_else(|problems| panic!("{problems:?}"));
    }
}

#[tokio::test] // REQ SE-2
async fn nothing_secret_or_personal_is_shown() {
    let settings = TissSettings {
        login: Some("login-canary".into()),
        password: Some(Secret::new("password-canary")),
        ..settings("http://127.0.0.1:9/canary-path")
    };
    let channel = Tiss::new(&settings).unwrap();
    let claim = lot("1").replace("João", "patient-canary");
    let mut shown = format!("{channel:?} {:?}", settings.password);
    for xml in [
        claim.clone(),
        claim.replace("</ans:nome>", "</canary>"),
        claim.replace("<ans:numeroLote>1", "<ans:numeroLote>canary-canary"),
    ] {
        let envelope = envelope(&xml);
        shown += &format!("{envelope:?} {:?}", channel.send(&envelope, PATIENCE).await);
    }
    assert!(!shown.contains("canary"), "{shown}");
}
