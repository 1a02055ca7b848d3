//! What one decision costs: `cargo bench -p pombo-kernel`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on says so by failing")]

use std::collections::BTreeMap;
use std::sync::Arc;

use divan::{Bencher, black_box};
use pombo_kernel::backoff;
use pombo_kernel::classify::Rules;
use pombo_kernel::decision::{Asked, Question, decide};
use pombo_kernel::dice::Dice;
use pombo_kernel::guard::Guard;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::{self, Case, Certainty, Failure, Heard, Outcome};
use pombo_kernel::listing::{Ask, Format, Reader, Terms};
use pombo_kernel::message::Progress;
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Enhanced, Receipt, Refusal, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, Setup};
use pombo_kernel::template::{Compiled, Template};
use pombo_kernel::time::{Span, Time};

fn main() {
    divan::main();
}

const NOW: Time = Time::from_millis(1_800_000_000_000);

fn policy() -> Policy {
    Policy::built_in("webhook", Profile::Production).unwrap()
}

/// An answer that most rules of the kind have to be tried for.
fn refusal(kind: ChannelKind) -> Reply {
    let (status, enhanced, text) = match kind {
        ChannelKind::Smtp => {
            (452, Some(Enhanced { class: 4, subject: 2, detail: 2 }), "4.2.2 the mailbox is over its quota")
        }
        ChannelKind::Tiss => {
            (500, None, "<soap:Fault><faultstring>tempo esgotado</faultstring></soap:Fault>")
        }
        _ => (503, None, r#"{"error": "the service is unavailable, come back later"}"#),
    };
    Reply::Refused(Refusal { status: Some(status), enhanced, text: text.to_owned(), ..Refusal::default() })
}

#[divan::bench(args = ChannelKind::ALL)]
fn classify(bencher: Bencher<'_, '_>, kind: ChannelKind) {
    let (rules, reply) = (Rules::for_kind(kind, &[]).unwrap(), refusal(kind));
    bencher.bench_local(|| rules.classify(black_box(&reply)));
}

#[divan::bench(args = [0, 6])]
fn backoff_wait(bencher: Bencher<'_, '_>, retry: u16) {
    let (policy, mut dice) = (policy(), Dice::seeded(1));
    bencher.bench_local(|| backoff::wait(&policy, black_box(retry), None, &mut dice));
}

/// A claim's retry decision: read, known by its id, classified, and its wait rolled.
#[divan::bench(args = ["TIMEOUT - Connection timeout after 30s", "glosa 1308: guia ja apresentada", "nobody knows"])]
fn retry_decision(bencher: Bencher<'_, '_>, error: &str) {
    let policy = Policy::claims();
    bencher.bench_local(|| {
        let asked = Asked {
            claim_id: Some("CLM-001-1234567890".into()),
            submission_error: Some(black_box(error).into()),
            retry_count: Some(1.into()),
            last_submission_time: None,
        };
        let question = Question::read(asked).unwrap();
        let mut dice = question.id(1).dice();
        decide(&question, 1, &policy, NOW, &mut dice)
    });
}

#[divan::bench]
fn settle_sent(bencher: Bencher<'_, '_>) {
    let policy = policy();
    settle(bencher, &policy, &Outcome::Sent(Receipt::default()));
}

#[divan::bench]
fn settle_retry(bencher: Bencher<'_, '_>) {
    let rules = Rules::for_kind(ChannelKind::Webhook, &[]).unwrap();
    let meaning = rules.classify(&refusal(ChannelKind::Webhook)).unwrap();
    let failure = Failure {
        meaning,
        hint: None,
        certainty: Certainty::NotSent,
        heard: Heard::Provider,
        summary: "503 the service is unavailable".to_owned(),
    };
    settle(bencher, &policy(), &Outcome::Failed(failure));
}

fn settle(bencher: Bencher<'_, '_>, policy: &Policy, outcome: &Outcome) {
    let mut dice = Dice::seeded(1);
    let case = Case {
        progress: Progress::default(),
        expires_at: None,
        policy,
        on_unknown: lifecycle::OnUnknownOutcome::Resend,
        probe: None,
        health: Default::default(),
        past: Default::default(),
    };
    bencher
        .with_inputs(|| outcome.clone())
        .bench_local_values(|outcome| lifecycle::settle(case, outcome, NOW, &mut dice));
}

fn setup() -> Setup {
    let name: pombo_kernel::name::ChannelName = "crm".parse().unwrap();
    let channel = ChannelSetup {
        name: name.clone(),
        kind: ChannelKind::Webhook,
        tenant: Tenant::default(),
        policy: policy(),
        rules: Rules::for_kind(ChannelKind::Webhook, &[]).unwrap(),
        on_unknown_outcome: lifecycle::OnUnknownOutcome::Resend,
        destination: Destination::Fixed("".into()),
        attempt_timeout: Span::from_secs(30),
        unready: None,
        receipts: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care::default(),
    };
    Setup {
        channels: BTreeMap::from([(name, Arc::new(channel))]),
        lanes: BTreeMap::from([("default".parse().unwrap(), LaneSetup { workers: 16 })]),
        routes: Vec::new(),
        limits: Limits::default(),
        subscribers: Guard::default(),
        claims: Policy::claims(),
        alerts: Arc::default(),
        masked: std::collections::BTreeSet::new(),
        retention: Default::default(),
        dashboard: pombo_kernel::setup::Dashboard::default(),
    }
}

/// From the text of a request to a message that can be stored.
#[divan::bench(args = [200, 20_000])]
fn read_request(bencher: Bencher<'_, '_>, bytes: usize) {
    let (setup, tenant) = (setup(), Tenant::default());
    let text = format!(
        r#"{{"channel":"crm","to":"https://crm.example/hook","reference":"order 7","content":{{"body":{{"pad":"{}"}}}}}}"#,
        "x".repeat(bytes)
    );
    bencher.bench_local(|| setup.draft_json(black_box(text.as_bytes()), &tenant, NOW).unwrap());
}

/// A thousand lines of a campaign's list: cut, addresses judged, and the template filled for each.
#[divan::bench(args = [ChannelKind::Evolution, ChannelKind::Smtp])]
fn thousand_recipients(bencher: Bencher<'_, '_>, kind: ChannelKind) {
    let text =
        "Olá, {{ nome }}! Sua consulta é em {{ data|date_br }} com {{ medico|default(\"a equipe\") }}.";
    let template =
        Template { subject: Some("Consulta".into()), text: Some(text.into()), ..Template::default() };
    let terms =
        Terms { kind, template: Compiled::new(template).unwrap(), common: serde_json::Map::default() };
    let to = |n: u32| match kind {
        ChannelKind::Smtp => format!("pessoa.{n}@clinica.example"),
        _ => format!("(11) 9{:04}-{:04}", 8_000 + n / 10_000, n % 10_000),
    };
    let head = "to;nome;data;medico\n".to_owned();
    let list: String =
        [head].into_iter().chain((0..1_000).map(|n| format!("{};Ana Lima;2026-11-16;\n", to(n)))).collect();
    bencher.bench_local(|| {
        let ask = Ask { format: Format::Csv, to: None, delimiter: None, encoding: None, columns: None };
        let (mut reader, mut lines) = (Reader::new(ask, terms.clone()), Vec::new());
        reader.push(black_box(list.as_bytes()), &mut lines).unwrap();
        reader.finish(&mut lines).unwrap();
        assert!(lines.len() == 1_000 && lines.iter().all(|line| line.of.is_ok()));
        lines.len()
    });
}
