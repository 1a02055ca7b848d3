use std::collections::BTreeSet;
use std::path::Path;

use pombo_kernel::classify::Verdict;
use pombo_kernel::reply::{Refusal, Reply};
use serde_json::Value as Json;

use super::*;

fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, Problems> {
    Config::parse(text, Source::default(), &environment.iter().copied().collect())
}

pub(super) fn good(text: &str) -> Config {
    load(text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The text is refused, with exactly these paths, and each part is said of the first one.
pub(super) fn check(text: &str, paths: &[&str], parts: &[&str]) {
    let Problems(problems) = load(text, &[]).expect_err(text);
    let found: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(found, paths, "{text}\n{problems:#?}");
    let said = problems[0].to_string();
    for part in parts {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    for problem in &problems {
        assert!(!problem.hint.is_empty() && !problem.what.is_empty(), "{problem:?}");
        assert!(!problem.what.contains('\n'), "{problem:?}");
    }
}

#[test]
fn without_a_file_there_is_one_channel_of_each_kind() {
    let config = good("");
    let channels: Vec<(&str, &str, Option<String>)> = config
        .channels
        .iter()
        .map(|(name, channel)| (name.as_str(), channel.kind().as_str(), channel.unready()))
        .collect();
    let unready = |variables: &str| Some(format!("not set up: set {variables}"));
    assert_eq!(
        channels,
        [
            ("claims", "tiss", unready("TISS_URL")),
            ("email", "smtp", unready("SMTP_URL")),
            ("resend", "resend", unready("RESEND_API_KEY")),
            ("webhook", "webhook", None),
            ("whatsapp", "evolution", unready("EVOLUTION_BASE_URL, EVOLUTION_API_KEY, EVOLUTION_INSTANCE")),
        ]
    );
    let setup = config.setup();
    let workers: Vec<(&str, u16)> =
        setup.lanes.iter().map(|(name, lane)| (name.as_str(), lane.workers)).collect();
    assert_eq!(workers, [("bulk", 16), ("default", 16), ("events", 16), ("notices", 4), ("realtime", 64)]);
    assert_eq!(setup.lane_of(Some("send_bulk_messages")).as_str(), "bulk");
    assert_eq!(setup.lane_of(Some("execute_side_effect")).as_str(), "realtime");
    assert_eq!(setup.lane_of(None).as_str(), "default");
    assert_eq!(config.channels().unwrap().len(), 6, "and the one that tells of events");
}

#[test]
fn well_known_variables_set_the_channels_up() {
    let environment = [
        ("EVOLUTION_BASE_URL", "https://evolution.example"),
        ("EVOLUTION_API_KEY", "k"),
        ("EVOLUTION_INSTANCE", "clinic"),
        ("SMTP_URL", "smtps://u:p@mail.example:465"),
        ("RESEND_API_KEY", "re_1"),
        ("RESEND_BASE_URL", "http://127.0.0.1:9"),
        ("TISS_URL", "https://tiss.example/ws"),
    ];
    let config = load("", &environment).unwrap_or_else(|problems| panic!("{problems}"));
    for channel in config.channels.values() {
        assert_eq!(channel.unready(), None);
    }
    let destinations: Vec<String> = config
        .setup()
        .channels
        .values()
        .map(|it| it.destination.of("https://host.example/", None).to_string())
        .collect();
    assert_eq!(destinations, ["tiss.example", "", "https://host.example/", "", "host.example", "clinic"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("re_1"), "a secret is shown: {shown}");
}

#[test]
fn the_documented_file_is_understood() {
    let text = r#"
        profile = "production"
        [lanes.realtime]
        workers = 64
        [[routes]]
        type = "send_bulk_messages"
        lane = "bulk"
        [channels.whatsapp]
        kind = "evolution"
        base_url = "https://evolution.example"
        instance = "clinic"
        api_key = "${EVOLUTION_API_KEY}"
        policy = "whatsapp"
        on_unknown_outcome = "hold"
        [channels.crm]
        kind = "webhook"
        allow_private = true
        secret = "${CRM_WEBHOOK_SECRET}"
        [policies.whatsapp]
        delays = ["5s", "30s", "5m"]
        [policies.smtp]
        base = "1s"
        cap = "300s"
        attempts = 5
        jitter = 0.25
        [[channels.whatsapp.rules]]
        status = 418
        contains = "teapot"
        verdict = "permanent"
        category = "teapot"
    "#;
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let environment = [("EVOLUTION_API_KEY", "k"), ("CRM_WEBHOOK_SECRET", secret)];
    let config = load(text, &environment).unwrap_or_else(|problems| panic!("{problems}"));
    let setup = config.setup();
    let whatsapp = &setup.channels["whatsapp"];
    assert_eq!(whatsapp.on_unknown_outcome, pombo_kernel::lifecycle::OnUnknownOutcome::Hold);
    let refusal = Refusal { status: Some(418), text: "a Teapot".into(), ..Refusal::default() };
    let meaning = whatsapp.rules.classify(&Reply::Refused(refusal)).unwrap();
    assert_eq!((meaning.verdict, meaning.category.as_str()), (Verdict::Permanent, "teapot"));
}

#[test] // REQ RP-5
fn the_profile_selects_the_built_in_values() {
    assert_eq!(good("profile = 'development'").policy("smtp").unwrap().attempts, 3);
    assert_eq!(good("").policy("smtp").unwrap().attempts, 5);
    let source = Source { profile: Some(Profile::Development), file: None };
    let config = Config::parse("profile = 'production'", source, &Environment::default()).unwrap();
    assert_eq!(config.policy("smtp").unwrap().attempts, 3);
    check("profile = 'staging'", &["profile"], &["is no profile", "`production`, `development`"]);
}

#[test]
fn every_problem_is_told_at_once() {
    let text = r#"
        profil = "production"
        [lanes.bulk]
        worker = 3
        [lanes.realtime]
        workers = 0
        [channels.crm]
        kind = "webhook"
        allow_private = "yes"
        attempt_timeout = "soon"
        instance = "x"
        [channels.mail]
        kind = "smpt"
        [channels.bare]
        [policies.smtp]
        jitter = 2.0
        [[routes]]
        type = "a"
        lane = "fast"
        [limits]
        content_bytes = 0
        [server]
        listen = "here"
    "#;
    check(
        text,
        &[
            "channels.bare.kind",
            "channels.crm.allow_private",
            "channels.crm.attempt_timeout",
            "channels.crm.instance",
            "channels.mail.kind",
            "lanes.bulk.worker",
            "lanes.realtime.workers",
            "limits.content_bytes",
            "policies.smtp.jitter",
            "profil",
            "routes[0].lane",
            "server.listen",
        ],
        &["missing", "`evolution`"],
    );
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    check("lans = 1", &["lans"], &["unknown key", "did you mean `lanes`?"]);
    check("[lanes.bulk]\nworker = 1", &["lanes.bulk.worker"], &["did you mean `workers`?"]);
    check("[channels.a]\nkind = 'null'\npolicie = 'x'", &["channels.a.policie"], &["did you mean `policy`?"]);
    check("[policies.smtp]\nbse = '1s'", &["policies.smtp.bse"], &["did you mean `base`?"]);
    check("[limits]\nbatch = 1", &["limits.batch"], &["`batch_items`"]);
    check(
        "[channels.a]\nkind = 'null'\ninstance = 'x'",
        &["channels.a.instance"],
        &["a channel of kind `null` has no such key", "a setting of kind `evolution`"],
    );
}

#[test]
fn values_of_the_wrong_type_say_what_belongs_there() {
    check("[lanes.bulk]\nworkers = 'many'", &["lanes.bulk.workers"], &["invalid type", "Sends in flight"]);
    check("lanes = 3", &["lanes"], &["a section is expected here, not integer", "[lanes]"]);
    check("[lanes]\nbulk = 3", &["lanes.bulk"], &["[lanes.bulk]"]);
    check("routes = 'x'", &["routes"], &["[[routes]]"]);
    check("routes = [1]", &["routes[0]"], &["a section is expected"]);
    check("[lanes.Bulk]", &["lanes.Bulk"], &["not a name", "lower-case"]);
    check(
        "[policies.smtp]\nbase = '5'",
        &["policies.smtp.base"],
        &["not a length of time", "hint: write for example"],
    );
    check("[channels.a]\nkind = 3", &["channels.a.kind"], &["3 is no kind of channel"]);
    check(
        "[channels.a]\nkind = 'evolution'\nbase_url = 'nonsense'",
        &["channels.a.base_url"],
        &["relative URL", "https://evolution.example"],
    );
    check(
        "[channels.a]\nkind = 'tiss'\nurl = 'ftp://a'",
        &["channels.a.url"],
        &["not an address of the web", "https://host/path"],
    );
    check("[channels.a]\nkind = 'smtp'\nurl = 'https://a'", &["channels.a.url"], &["mail server"]);
    check(
        "[channels.a]\nkind = 'null'\nattempt_timeout = '1h'",
        &["channels.a.attempt_timeout"],
        &["at most 10m"],
    );
    check("[channels.a]\nkind = 'webhook'\nallow = ['?']", &["channels.a.allow"], &[]);
}

#[test]
fn a_file_that_is_not_toml_names_the_line() {
    let source = Source { file: Some("pombo.toml".into()), profile: None };
    let Problems(problems) = Config::parse("a = 1\nb = \n", source, &Environment::default()).unwrap_err();
    assert_eq!(problems[0].path, "pombo.toml:2");
    let missing = Source { file: Some("/nowhere/pombo.toml".into()), profile: None };
    let Problems(problems) = Config::load(missing, &Environment::default()).unwrap_err();
    assert!(problems[0].what.starts_with("cannot be read"), "{problems:?}");
}

#[test]
fn a_variable_that_is_missing_is_named() {
    let text = "[channels.a]\nkind = 'evolution'\nbase_url = '${BASE}'\napi_key = '${KEY}'\ninstance = '${'";
    check(
        text,
        &["channels.a.api_key", "channels.a.base_url", "channels.a.instance"],
        &["the variable `KEY` is not set", "set KEY"],
    );
    let config = load("[channels.a]\nkind = 'evolution'\ninstance = 'x$${Y}-${Z}'", &[("Z", "z")]).unwrap();
    assert_eq!(&*config.setup().channels["a"].destination.of("", None), "x${Y}-z");
}

#[test]
fn a_secret_in_the_file_is_refused() {
    check(
        "[channels.crm]\nkind = 'webhook'\nsecret = 'whsec_abc'",
        &["channels.crm.secret"],
        &["a secret stands in the file", "\"${CRM_SECRET}\"", "`secret_file`"],
    );
    check("[channels.e]\nkind = 'evolution'\napi_key = 'k'", &["channels.e.api_key"], &["${E_API_KEY}"]);
    check(
        "[channels.m]\nkind = 'smtp'\nurl = 'smtp://u:p@h'",
        &["channels.m.url"],
        &["a password stands in the file"],
    );
    assert!(load("[channels.m]\nkind = 'smtp'\nurl = 'smtp://u:${P}@h'", &[("P", "p")]).is_ok());
    let apart = "[channels.m]\nkind = 'smtp'\nurl = 'smtp://u@h'\npassword = '${P}'";
    assert!(load(apart, &[("P", "p")]).is_ok());
    check(
        "[channels.m]\nkind = 'smtp'\nurl = 'smtp://${U}:p@h'",
        &["channels.m.url"],
        &["the variable `U` is not set"],
    );
}

#[test]
fn a_secret_can_stand_in_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pombo.toml");
    std::fs::write(folder.path().join("key"), " k1 \n").unwrap();
    std::fs::write(folder.path().join("empty"), "\n").unwrap();
    let read = |key: &str| {
        let text = format!("[channels.e]\nkind = 'evolution'\napi_key_file = '{key}'");
        std::fs::write(&file, text).unwrap();
        let source = Source { file: Some(file.clone()), profile: None };
        Config::load(source, &Environment::default())
    };
    let config = read("key").unwrap();
    let channel::Settings::Evolution(settings) = &config.channels["e"].settings else { panic!() };
    assert_eq!(settings.api_key.as_ref().unwrap().expose(), "k1");
    for (key, part) in [("empty", "is empty"), ("none", "cannot be read")] {
        let Problems(problems) = read(key).unwrap_err();
        assert_eq!(problems[0].path, "channels.e.api_key_file");
        assert!(problems[0].what.contains(part), "{problems:?}");
    }
    let both = "[channels.e]\nkind = 'evolution'\napi_key = '${K}'\napi_key_file = 'key'";
    let Problems(problems) = load(both, &[("K", "k")]).unwrap_err();
    assert_eq!(problems[0].path, "channels.e.api_key_file");
}

#[test]
fn a_webhook_secret_that_cannot_sign_is_refused() {
    let text = "[channels.crm]\nkind = 'webhook'\nsecret = '${S}'";
    let Problems(problems) = load(text, &[("S", "short")]).unwrap_err();
    assert_eq!(problems[0].path, "channels.crm.secret");
    assert!(!problems[0].to_string().contains("short"));
}

#[test]
fn variables_override_the_file() {
    let environment = [
        ("POMBO_LANES__REALTIME__WORKERS", "8"),
        ("POMBO_PROFILE", "development"),
        ("POMBO_SERVER", "http://elsewhere"),
        ("POMBO_API_KEY", "k"),
        ("POMBO_ADMIN_KEY", "k"),
        ("POMBO_LOG", "debug"),
        ("POMBO_SERVER__LISTEN", "0.0.0.0:80"),
        ("POMBO_POLICIES__WHATSAPP__DELAYS", "[\"1s\", \"2s\"]"),
        ("POMBO_POLICIES__SMTP__JITTER", "0.5"),
        ("POMBO_CHANNELS__WEBHOOK__ALLOW_PRIVATE", "true"),
        ("POMBO_CHANNELS__WHATSAPP__API_KEY", "12345"),
        ("POMBO_CHANNELS__WHATSAPP__BASE_URL", "http://127.0.0.1:1"),
    ];
    let config =
        load("[lanes.realtime]\nworkers = 64", &environment).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.lanes["realtime"].workers.get(), 8);
    assert_eq!(config.profile, Profile::Development);
    assert_eq!(config.server.listen.port(), 80);
    assert_eq!(config.policy("whatsapp").unwrap().attempts, 3);
    let channel::Settings::Webhook(webhook) = &config.channels["webhook"].settings else { panic!() };
    assert!(webhook.allow_private);
    let channel::Settings::Evolution(evolution) = &config.channels["whatsapp"].settings else { panic!() };
    assert_eq!(evolution.api_key.as_ref().unwrap().expose(), "12345");
}

#[test]
fn a_bad_override_names_its_place() {
    let Problems(problems) =
        load("", &[("POMBO_LANES__BULK__WORKERS", "many"), ("POMBO_LANS__A__B", "1")]).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["lanes.bulk.workers", "lans"]);
    let Problems(problems) = load("", &[("POMBO_LANES__BULK__WORKER", "1")]).unwrap_err();
    assert_eq!(problems[0].hint, "set by POMBO_LANES__BULK__WORKER; did you mean `workers`?");
}

#[test] // REQ RP-6
fn a_claims_policy_that_cannot_fit_in_a_day_is_refused() {
    check(
        "[policies.claims]\nattempts = 12",
        &["policies.claims.attempts"],
        &["takes up to", "must fit in 24 h"],
    );
    check(
        "[channels.c]\nkind = 'tiss'\n[channels.c.retry]\nattempts = 12",
        &["channels.c.retry.attempts"],
        &["must fit in 24 h"],
    );
    check(
        "[channels.c]\nkind = 'tiss'\npolicy = 'slow'\n[policies.slow]\ndelays = ['23h', '2h']",
        &["channels.c.policy"],
        &["`slow` takes up to 1d1h", "must fit in 24 h"],
    );
}

#[test]
fn a_policy_of_ones_own_must_be_complete() {
    assert_eq!(good("[policies.mine]\ndelays = ['1s', '2s']").policy("mine").unwrap().attempts, 3);
    let mine = good("[policies.mine]\nattempts = 4\nbase = '1s'\njitter = 0.1");
    assert_eq!(mine.policy("mine").unwrap().longest(), Span::from_millis(7_700));
    check("[policies.mine]\nattempts = 4", &["policies.mine"], &["not complete", "`attempts` and `base`"]);
    check("[policies.smpt]\nattempts = 4", &["policies.smpt"], &["did you mean `smtp`?"]);
    check(
        "[policies.smtp]\nbase = '1s'\ndelays = ['1s']",
        &["policies.smtp.base"],
        &["together with `delays`"],
    );
    check(
        "[policies.smtp]\nattempts = 0\nfloor = '1h'",
        &["policies.smtp.attempts", "policies.smtp.floor"],
        &["at least 1"],
    );
    check(
        "[channels.a]\nkind = 'null'\npolicy = 'mine'",
        &["channels.a.policy"],
        &["no policy `mine`", "[policies.mine]"],
    );
}

#[test]
fn routes_and_limits_are_checked_against_each_other() {
    check("[[routes]]\ntype = 'a'", &["routes[0].lane"], &["missing", "The lane's name"]);
    check(
        "[[routes]]\ntype = 'a'\nlane = 'bluk'",
        &["routes[0].lane"],
        &["no lane `bluk`", "did you mean `bulk`?"],
    );
    let twice = "[[routes]]\ntype = 'a'\nlane = 'bulk'\n[[routes]]\ntype = 'a'\nlane = 'default'";
    check(twice, &["routes[1].type"], &["earlier route"]);
    let own = good("[lanes.vip]\n[[routes]]\ntype = 'a'\nlane = 'vip'");
    assert_eq!(own.setup().lane_of(Some("a")).as_str(), "vip");
    assert_eq!(own.lanes["vip"].workers.get(), 16);
    check("[limits]\nrequest_bytes = 5", &["limits.request_bytes"], &["smaller than `content_bytes`"]);
    check("[limits]\nattachment_bytes = 99999999", &["limits.attachment_bytes"], &["held in memory"]);
    check("[limits]\nbatch_items = 0", &["limits.batch_items"], &["nothing would fit"]);
}

#[test] // REQ CF-1
fn bad_rules_name_their_place() {
    let rule = |body: &str| format!("[channels.a]\nkind = 'webhook'\n[[channels.a.rules]]\n{body}");
    let means = "verdict = 'permanent'\ncategory = 'x'";
    check(
        &rule("status = 400"),
        &["channels.a.rules[0].category", "channels.a.rules[0].verdict"],
        &["missing"],
    );
    check(&rule(means), &["channels.a.rules[0]"], &["no matcher"]);
    check(&rule(&format!("stats = 1\n{means}")), &["channels.a.rules[0].stats"], &["did you mean `status`?"]);
    check(
        &rule(&format!("matches = '('\n{means}")),
        &["channels.a.rules[0].matches"],
        &["not a regular expression"],
    );
    check(
        &rule("status = true\nverdict = 'maybe'\ncategory = 'x'"),
        &["channels.a.rules[0].status", "channels.a.rules[0].verdict"],
        &[],
    );
    check("[channels.a]\nkind = 'webhook'\nrules = 3", &["channels.a.rules"], &["a list is expected"]);
}

#[test]
fn a_reload_reads_the_same_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pombo.toml");
    std::fs::write(&file, "[lanes.bulk]\nworkers = 3").unwrap();
    let environment = Environment::default();
    let source = Source { file: Some(file.clone()), profile: None };
    let config = Config::load(source, &environment).unwrap();
    std::fs::write(&file, "[lanes.bulk]\nworkers = 4").unwrap();
    assert_eq!(config.reload(&environment).unwrap().lanes["bulk"].workers.get(), 4);
    std::fs::write(&file, "[lanes.bulk]\nworker = 4").unwrap();
    assert_eq!(config.reload(&environment).unwrap_err().0[0].path, "lanes.bulk.worker");
}

#[test]
fn mail_without_a_relay_needs_no_address_and_stands_or_falls_with_the_recipients_domain() {
    let config = good("[channels.m]\nkind = 'smtp'\nmode = 'mx'\nhello = 'pombo.example'");
    let channel = &config.channels["m"];
    assert_eq!(channel.unready(), None);
    assert_eq!(&*channel.destination().of("Ana <ana@Example.NET>", None), "example.net");
    check("[channels.m]\nkind = 'smtp'\nmode = 'mx'", &["channels.m.hello"], &["pombo.clinic.example"]);
    check(
        "[channels.m]\nkind = 'smtp'\nurl = 'smtp://h'\n[channels.m.dkim]\ndomain = 'x.example'",
        &["channels.m.dkim.key_file", "channels.m.dkim.selector"],
        &["openssl genrsa"],
    );
}

#[test]
fn the_example_passes_its_own_check() {
    let config = good(EXAMPLE);
    let defaults = good("");
    assert_eq!(config.limits, defaults.limits);
    assert_eq!(config.server, defaults.server);
    assert_eq!(config.lanes, defaults.lanes);
    assert_eq!(config.routes, defaults.routes);
    assert_eq!(config.policy("smtp"), defaults.policy("smtp"));
    assert_eq!(config.policy("whatsapp"), defaults.policy("whatsapp"));
}

/// The example with every setting switched on, and of each pair that excludes itself the first.
fn everything() -> String {
    let on = EXAMPLE
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line));
    on.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_names_every_key_and_no_other() {
    let table: Table = toml::from_str(&everything()).unwrap();
    let mut named = BTreeSet::new();
    paths(&Value::Table(table), "", &mut named);
    let schema = Config::schema();
    let mut known = keys_below(&schema, &schema, "");
    // What is kept can be said in a word, or as so many.
    let whole = |path: String| path.strip_suffix(".last").map_or(path.clone(), str::to_owned);
    (known, named) = (known.into_iter().map(whole).collect(), named.into_iter().map(whole).collect());
    // The keys of `retry` are those of a policy, and are shown there.
    known.retain(|path| !path.starts_with("channels.<name>.retry.") || path.ends_with(".attempts"));
    // Hours stand there by their name, too.
    known.insert("channels.<name>.window".to_owned());
    assert_eq!(named.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the schema");
    assert_eq!(known.difference(&named).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the example");
}

#[test]
fn the_example_is_valid_with_everything_switched_on() {
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let environment = [
        ("CRM_WEBHOOK_SECRET", secret),
        ("CRM_WEBHOOK_SECRET_BEFORE", secret),
        ("EVOLUTION_API_KEY", "k"),
        ("EVOLUTION_RECEIPT_SECRET", "k"),
        ("RESEND_API_KEY", "k"),
        ("SMTP_PASSWORD", "p"),
        ("RESEND_RECEIPT_SECRET", secret),
        ("CLAIMS_PASSWORD", "p"),
        ("CAMUNDA8_PASSWORD", "p"),
        ("CAMUNDA8_CLIENT_SECRET", "s"),
        ("CAMUNDA7_PASSWORD", "p"),
        ("OTLP_AUTHORIZATION", "Bearer k"),
        ("DATABASE_URL", "postgres://pombo:p@db.example/pombo"),
        ("AUDIT_SIGNING_KEY", audit::tests::KEY),
        ("POMBO_ENCRYPTION_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    ];
    // But for files and programs, which are not there.
    let there = |line: &&str| {
        !line.contains("_file = ")
            && !["tls_cert", "tls_key", "key_command", "previous_files"].iter().any(|it| line.starts_with(it))
    };
    let text: Vec<String> = everything().lines().filter(there).map(str::to_owned).collect();
    let config = load(&text.join("\n"), &environment);
    config.unwrap_or_else(|problems| panic!("{problems}"));
}

const NAMED: [&str; 8] =
    ["lanes", "channels", "policies", "windows", "alerts", "notices", "teams", "reports"];

fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        // Whatever names they have, they are one key.
        Value::Table(table) if path != "traces.headers" => {
            for (key, value) in table {
                let key = if NAMED.contains(&path) && value.is_table() { "<name>" } else { key };
                paths(value, &joined(path, key), found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            items.iter().for_each(|item| paths(item, &format!("{path}[]"), found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// The keys below a node of the schema; none if it is a plain value.
fn keys_below(schema: &Json, node: &Json, path: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    if let Some(target) = node["$ref"].as_str().and_then(|it| schema.pointer(it.trim_start_matches('#'))) {
        keys.extend(keys_below(schema, target, path));
    }
    for choices in ["anyOf", "oneOf"].iter().filter_map(|word| node[word].as_array()) {
        keys.extend(choices.iter().flat_map(|choice| keys_below(schema, choice, path)));
    }
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        let here = joined(path, name);
        let below = keys_below(schema, child, &here);
        keys.extend(if below.is_empty() { BTreeSet::from([here]) } else { below });
    }
    keys.extend(keys_below_all(schema, &node["items"], &format!("{path}[]")));
    keys.extend(keys_below_all(schema, &node["additionalProperties"], &format!("{path}.<name>")));
    for child in node["patternProperties"].as_object().into_iter().flat_map(|it| it.values()) {
        keys.extend(keys_below(schema, child, &format!("{path}.<name>")));
    }
    keys
}

fn keys_below_all(schema: &Json, node: &Json, path: &str) -> BTreeSet<String> {
    if node.is_object() { keys_below(schema, node, path) } else { BTreeSet::new() }
}

#[test]
fn the_schema_refuses_unknown_keys_everywhere() {
    let schema = Config::schema();
    assert_eq!(schema["additionalProperties"], Json::Bool(false));
    for shape in schema.pointer("/$defs/Channel/oneOf").and_then(Json::as_array).unwrap() {
        assert_eq!(shape["additionalProperties"], Json::Bool(false), "{shape}");
        assert!(shape["properties"]["kind"]["const"].is_string());
    }
    assert_eq!(schema["properties"].as_object().unwrap().len(), SECTIONS.len());
    for section in SECTIONS {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
}

#[test]
fn relative_files_start_from_the_folder_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pombo.toml");
    std::fs::write(&file, "[channels.a]\nkind = 'webhook'\nca_file = 'none.pem'").unwrap();
    let source = Source { file: Some(file), profile: None };
    let Problems(problems) = Config::load(source, &Environment::default()).unwrap_err();
    assert_eq!(problems[0].path, "channels.a.ca_file");
    assert!(Path::new("none.pem").is_relative());
}

#[test]
fn a_value_from_outside_is_never_repeated() {
    let file = "[channels.m]\nkind = 'smtp'\nurl = 'smtp://u:${PW}@mail.example:25'";
    let problems = load(file, &[("PW", "Sup3r/S3cret#1")]).unwrap_err();
    let said = problems.to_string();
    assert!(said.contains("channels.m.url") && !said.contains("S3cret"), "{said}");

    let notice = "[notices.ops]\nto = 'ops@clinic.example'\n";
    let cases = [
        ("profile = '?'", "profile"),
        (&format!("{notice}channel = '?'"), "notices.ops.channel"),
        (&format!("{notice}channel = 'email'\nfallback = '?'"), "notices.ops.fallback"),
        ("[alerts.failure_rate]\nnotify = ['?']", "alerts.failure_rate.notify"),
        ("[teams.a]\nchannels = ['?']", "teams.a.channels"),
        ("[teams.a]\nreasons = ['?']", "teams.a.reasons"),
        ("[[routes]]\ntype = 'a'\nlane = '?'", "routes[0].lane"),
        ("[channels.a]\nkind = '?'", "channels.a.kind"),
        ("[channels.a]\nkind = 'null'\npolicy = '?'", "channels.a.policy"),
        ("[channels.a]\nkind = 'null'\nwindow = '?'", "channels.a.window"),
        ("[channels.a]\nkind = 'webhook'\nca_file = '?'", "channels.a.ca_file"),
        ("[channels.a]\nkind = 'evolution'\nurl = '?://a'", "channels.a.url"),
        ("time_zone = '?'", "time_zone"),
    ];
    for (file, path) in cases {
        let told =
            |value: &str| load(&file.replace('?', value), &[("PW", "s3cret")]).expect_err(path).to_string();
        assert!(told("mistyped").contains(path), "{path}");
        let said = told("a${PW}b");
        assert!(said.contains(path) && !said.contains("s3cret"), "{said}");
    }
    // What stands in the file is told as it stands there, and so are words of ours that only begin like the value.
    check("profile = 'mistyped'", &["profile"], &["mistyped"]);
    check(
        "[teams.a]\nnotify = []\nchannels = ['mistyped']",
        &["teams.a.channels", "teams.a.notify"],
        &["mistyped"],
    );
    let said = load("profile = '${P}'", &[("P", "prod")]).unwrap_err().to_string();
    assert!(said.contains("the value is no profile") && said.contains("`production`"), "{said}");
}

#[test]
fn a_database_may_stand_in_the_file_and_its_password_may_not() {
    let shown = |text: &str, environment: &[(&str, &str)]| {
        let config = load(text, environment).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(!format!("{config:?}").contains("canary"));
        config.database.map(|target| target.shown())
    };
    let with = |url: &str| format!("[store]\ndatabase_url = '{url}'");
    assert_eq!(shown("", &[]), None);
    let db = || Some("postgres://ana@db.example:5432/pombo".to_owned());
    assert_eq!(shown(&with("postgres://ana@db.example/pombo"), &[]), db());
    assert_eq!(shown(&with("postgres://ana:${PW}@db.example/pombo"), &[("PW", "canary")]), db());
    let variable = [("POMBO_STORE__DATABASE_URL", "postgres://ana:canary@db.example/pombo")];
    assert_eq!(shown("", &variable), db());
    for url in ["postgres://ana:canary@db.example/pombo", "postgres://db.example/pombo?password=canary"] {
        check(&with(url), &["store.database_url"], &["a secret stands in the file", "STORE_DATABASE_URL"]);
    }
    check(&with("mysql://db.example/pombo"), &["store.database_url"], &["postgres://"]);
    let broken = load(&with("${URL}"), &[("URL", "mysql://ana:canary@db/x")]).unwrap_err().to_string();
    assert!(!broken.contains("canary"), "{broken}");
}

#[test]
fn a_database_may_be_named_in_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("url"), "postgres://ana:canary@db.example/pombo\n").unwrap();
    let source = Source { file: Some(folder.path().join("pombo.toml")), profile: None };
    let text = "[store]\ndatabase_url_file = 'url'";
    let config = Config::parse(text, source, &Environment::default()).unwrap();
    assert_eq!(config.database.unwrap().shown(), "postgres://ana@db.example:5432/pombo");
}

#[test] // REQ ML-10
fn events_have_a_channel_and_a_lane_of_their_own_that_no_file_can_take() {
    let config = good(
        "[events]\nallow = ['10.0.0.0/8']\nattempt_timeout = '5s'\n[lanes.events]\nworkers = 2\n[policies.events]\nattempts = 3",
    );
    let setup = config.setup();
    let channel = &setup.channels["events"];
    assert_eq!((channel.kind.as_str(), channel.policy.attempts), ("webhook", 3));
    assert_eq!(channel.attempt_timeout, Span::from_secs(5));
    assert_eq!(setup.lanes["events"].workers, 2);
    let url = |text: &str| text.parse::<url::Url>().unwrap();
    assert_eq!(setup.subscribers.judge_url(&url("http://10.1.2.3/")), Ok(()));
    assert!(setup.subscribers.judge_url(&url("http://192.168.1.1/")).is_err());
    check("[channels.events]\nkind = 'webhook'", &["channels.events"], &["Pombo's own", "[policies.events]"]);
    check("[events]\nallow_privat = true", &["events.allow_privat"], &["did you mean `allow_private`?"]);
    check("[events]\nca_file = 'none.pem'", &["events.ca_file"], &["PEM"]);
    check("[events]\nattempt_timeout = '0s'", &["events.attempt_timeout"], &["more than nothing"]);
}

#[test]
fn whoever_uses_a_part_needs_the_variables_of_that_part_only() {
    let text = "[channels.whatsapp]\nkind = 'evolution'\nbase_url = '${URL}'\napi_key = '${KEY}'\n\
                [store]\ndatabase_url = '${DATABASE_URL}'\n[policies.whatsapp]\nattempts = 3";
    let load = |text: &str, needs| {
        Config::parse(text, Source::default(), &Environment::default().for_use_of(needs)).map_err(
            |Problems(problems)| {
                let paths: BTreeSet<String> = problems.into_iter().map(|it| it.path).collect();
                paths.into_iter().collect::<Vec<_>>()
            },
        )
    };
    let all = ["channels.whatsapp.api_key", "channels.whatsapp.base_url", "store.database_url"];
    assert_eq!(load(text, Needs::Everything).unwrap_err(), all);
    assert_eq!(load(text, Needs::Store).unwrap_err(), ["store.database_url"]);
    assert_eq!(load(text, Needs::Rules).unwrap().policy("whatsapp").unwrap().attempts, 3);
    let wrong = text.replace("attempts = 3", "attempts = 'x'");
    assert_eq!(load(&wrong, Needs::Rules).unwrap_err(), ["policies.whatsapp.attempts"]);
}
