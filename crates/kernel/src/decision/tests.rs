use proptest::prelude::*;

use super::*;

/// 2025-01-12T10:40:00Z, as in the worked example.
const NOW: Time = Time::from_millis(1_736_678_400_000);

fn question(error: &str) -> Question {
    Question {
        claim_id: "CLM-001-123".to_owned(),
        submission_error: error.to_owned(),
        retry_count: None,
        last_submission_time: None,
    }
}

fn decided(error: &str, retry_count: u32) -> Decision {
    rolled(error, retry_count, 7)
}

fn rolled(error: &str, retry_count: u32, seed: u64) -> Decision {
    decide(&question(error), retry_count, &Policy::claims(), NOW, &mut Dice::seeded(seed))
}

fn read(document: Value) -> Result<Question, Vec<Wrong>> {
    let Value::Object(mut members) = document else { panic!("a document is an object") };
    Question::read(Asked::of(&mut members))
}

/// The first code, and the field that it is about.
fn refused(document: Value) -> (&'static str, &'static str) {
    let wrong = read(document).unwrap_err();
    (wrong[0].code.as_str(), wrong[0].field)
}

#[test] // REQ RD-1, RP-2; seed scenario 1, worked example 9.1
fn a_timeout_after_one_retry_waits_eight_to_twelve_minutes() {
    for seed in 0..1_000 {
        let decision = rolled("TIMEOUT - Connection timeout after 30s", 1, seed);
        let minutes = decision.backoff_minutes.unwrap();
        assert!((8..=12).contains(&minutes), "{minutes}");
        assert_eq!(decision.next_retry_time, Some(NOW + Span::from_mins(minutes)));
        assert!(decision.should_retry);
        assert_eq!((decision.retry_count, decision.max_retries), (2, 5));
        assert_eq!(decision.retry_reason, "Transient error, retry 2 of 5");
        assert_eq!(decision.error_classification.as_deref(), Some("TRANSIENT"));
        assert_eq!((decision.code, decision.error_type), (None, None));
    }
}

#[test] // REQ RD-3, RP-3; seed scenario 2, worked example 9.2
fn the_limit_ends_it_before_the_error_is_looked_at() {
    for count in [5, 6, 1_000, u32::MAX] {
        for error in ["TIMEOUT", "INVALID_PATIENT_DATA", "the dog ate it"] {
            let decision = decided(error, count);
            assert_eq!(decision.code, Some(Never::MaxRetriesExceeded));
            assert!(!decision.should_retry);
            assert_eq!((decision.retry_count, decision.max_retries), (count, 5));
            assert_eq!((decision.backoff_minutes, decision.next_retry_time), (None, None));
            assert_eq!(decision.error_classification, None);
        }
    }
    assert!(decided("TIMEOUT", 4).should_retry);
}

#[test] // REQ RD-3; seed scenario 3, worked example 9.3
fn a_permanent_error_ends_it_at_the_first_failure() {
    let decision = decided("INVALID_PATIENT_DATA - CPF inválido", 0);
    assert_eq!(decision.code, Some(Never::PermanentError));
    assert_eq!(decision.error_type.as_deref(), Some("INVALID_PATIENT_DATA"));
    assert_eq!(decision.error_classification.as_deref(), Some("PERMANENT"));
    assert!(!decision.should_retry);
    assert_eq!((decision.retry_count, decision.next_retry_time), (0, None));
    assert_eq!(decision.retry_reason, "Permanent error, no retry: INVALID_PATIENT_DATA");
}

#[test] // REQ RP-2; seed scenarios 4 and 5
fn every_retry_waits_within_its_bounds_and_reaches_them() {
    for (count, low, high) in [(0, 5, 6), (1, 8, 12), (2, 16, 24), (3, 32, 48), (4, 64, 96)] {
        let waits: Vec<u64> =
            (0..2_000).map(|seed| rolled("TIMEOUT", count, seed).backoff_minutes.unwrap()).collect();
        assert_eq!((waits.iter().min(), waits.iter().max()), (Some(&low), Some(&high)), "retry {count}");
    }
}

#[test] // REQ RP-2; seed scenario 5
fn jitter_is_spread_evenly() {
    let mut seen = [0u32; 25];
    for seed in 0..33_000 {
        let minutes = rolled("TIMEOUT", 3, seed).backoff_minutes.unwrap();
        seen[usize::try_from(minutes).unwrap() - 32 + 4] += 1;
    }
    // 32 to 48: a minute inside comes up once in sixteen, and one at either end half as often.
    let inside = &seen[5..20];
    assert!(inside.iter().all(|n| (1_850..2_280).contains(n)), "{seen:?}");
    assert!([seen[4], seen[20]].iter().all(|n| (880..1_190).contains(n)), "{seen:?}");
}

#[test] // REQ CF-6; seed scenarios 6 and 7
fn errors_are_classified_by_the_names_in_them() {
    let class = |error: &str| decided(error, 0).error_classification.unwrap();
    for name in ["INVALID_PATIENT_DATA", "INSURANCE_EXPIRED", "AUTHORIZATION_DENIED", "DUPLICATE_CLAIM"] {
        assert_eq!(class(&format!("503 TIMEOUT {}", name.to_lowercase())), "PERMANENT");
    }
    for name in ["connection_error", "SERVICE_UNAVAILABLE", "network_error", "RATE_LIMIT", "504"] {
        assert_eq!(class(&format!("submission failed: {name}")), "TRANSIENT");
    }
    let unknown = decided("something nobody has seen", 1);
    assert_eq!(unknown.error_classification.as_deref(), Some("UNKNOWN_TRANSIENT"));
    assert!(unknown.should_retry);
    assert_eq!(unknown.retry_reason, "Transient error, retry 2 of 5");
    assert_eq!(decided("glosa 1308: guia ja apresentada", 0).error_type.as_deref(), Some("DUPLICATE_CLAIM"));
    // However much is said before it.
    let late = format!("{} DUPLICATE_CLAIM", "x".repeat(20_000));
    assert_eq!(class(&late), "PERMANENT");
}

#[test] // REQ RD-4; seed scenario 8
fn the_same_question_is_known_by_the_same_id_and_gets_the_same_dice() {
    let (asked, at) = (question("TIMEOUT"), Some(NOW));
    assert_eq!(asked.id(1), question("TIMEOUT").id(1));
    let roll = |question: &Question, count| {
        decide(question, count, &Policy::claims(), NOW, &mut question.id(count).dice())
    };
    assert_eq!(roll(&asked, 3), roll(&question("TIMEOUT"), 3));
    let others = [
        question("TIMEOUT "),
        Question { claim_id: "CLM-001-124".into(), ..question("TIMEOUT") },
        Question { last_submission_time: at, ..question("TIMEOUT") },
        Question { last_submission_time: at.map(|at| at + Span::from_millis(1)), ..question("TIMEOUT") },
    ];
    let mut ids: Vec<String> = others.iter().map(|other| other.id(1).to_string()).collect();
    ids.extend([asked.id(0).to_string(), asked.id(1).to_string()]);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    assert!(ids.iter().all(|id| id.len() == 64));
}

#[test] // REQ RD-1, RD-4
fn a_question_without_a_count_repeats_the_last_one_while_its_retry_is_to_come() {
    let asked = question("TIMEOUT");
    let (id, decision) = (asked.id(1).to_string(), decided("TIMEOUT", 1));
    let next = decision.next_retry_time.unwrap();
    assert!(asked.repeats(&decision, &id, NOW));
    assert!(!asked.repeats(&decision, &id, next));
    assert!(!question("503").repeats(&decision, &id, NOW));
    // Who names the submission is recognised by it however late.
    let named = Question { last_submission_time: Some(NOW), ..asked };
    assert!(named.repeats(&decision, &named.id(1).to_string(), next));
    let ended = decided("DUPLICATE_CLAIM", 1);
    let asked = question("DUPLICATE_CLAIM");
    assert!(asked.repeats(&ended, &asked.id(1).to_string(), next));
}

#[test] // REQ RD-2
fn a_claim_id_is_checked_as_a_whole() {
    for good in ["CLM-001-1234567890", "CLM--1", "CLM-a-b c-çã-9", "CLM-1-2"] {
        assert!(is_claim_id(good), "{good}");
    }
    let long = format!("CLM-{}-1", "x".repeat(195));
    for bad in ["", "CLM-1", "CLM-1-", "clm-1-2", "XCLM-1-2", "CLM-1-2x", "CLM-1-٣", "CLM-\n-1", &long] {
        assert!(!is_claim_id(bad), "{bad}");
    }
}

#[test] // REQ RD-2; seed V4
fn what_cannot_be_answered_is_told_field_by_field() {
    let claim = "CLM-1-2";
    for empty in [json!(""), json!("  \n"), json!(null), json!(5)] {
        let document = json!({"claimId": claim, "submissionError": empty});
        assert_eq!(refused(document), ("INVALID_ERROR_MESSAGE", "submissionError"));
    }
    for count in [json!(-1), json!("1"), json!(1.5), json!(true)] {
        let document = json!({"claimId": claim, "submissionError": "x", "retryCount": count});
        assert_eq!(refused(document), ("INVALID_FIELD", "retryCount"));
    }
    for time in [json!("yesterday"), json!(5), json!("2025-01-12")] {
        let document = json!({"claimId": claim, "submissionError": "x", "lastSubmissionTime": time});
        assert_eq!(refused(document), ("INVALID_FIELD", "lastSubmissionTime"));
    }
    assert_eq!(refused(json!({"submissionError": "x"})), ("INVALID_FIELD", "claimId"));
    let long = "x".repeat(ERROR_BYTES_MAX + 1);
    assert_eq!(refused(json!({"claimId": claim, "submissionError": long})).0, "INVALID_FIELD");
    let all = json!({"claimId": "x", "retryCount": -1, "lastSubmissionTime": "x"});
    assert_eq!(read(all).unwrap_err().len(), 4);
}

#[test] // REQ RD-1
fn numbers_and_times_are_read_as_process_engines_write_them() {
    let base = json!({"claimId": "CLM-1-2", "submissionError": "x"});
    let with = |name: &str, value: Value| {
        let mut document = base.clone();
        document[name] = value;
        read(document).unwrap()
    };
    for (count, expected) in [(json!(0), 0), (json!(3.0), 3), (json!(5), 5), (json!(u64::MAX), u32::MAX)] {
        assert_eq!(with("retryCount", count).retry_count, Some(expected));
    }
    assert_eq!(with("retryCount", json!(null)).retry_count, None);
    for time in [
        "2025-01-12T10:40:00Z",
        "2025-01-12T07:40:00-03:00",
        "2025-01-12T10:40:00.000+0000",
        "2025-01-12T10:40:00",
        "2025-01-12T10:40",
    ] {
        assert_eq!(with("lastSubmissionTime", json!(time)).last_submission_time, Some(NOW), "{time}");
    }
}

#[test] // REQ RD-3
fn the_reason_is_in_the_language_that_was_asked_for() {
    for (header, language) in [
        ("pt", Language::Pt),
        ("pt-BR,pt;q=0.9,en;q=0.8", Language::Pt),
        ("en-US,en;q=0.9,pt;q=0.8", Language::En),
        ("de, pt;q=0.3", Language::Pt),
        ("en;q=0.2, PT-br;q=0.5", Language::Pt),
        ("*", Language::En),
        ("", Language::En),
        ("pt;q=0", Language::En),
    ] {
        assert_eq!(Language::accepted(header), language, "{header}");
    }
    assert_eq!(decided("TIMEOUT", 1).reason(Language::Pt), "Erro transiente, tentativa 2 de 5");
    assert_eq!(decided("x", 5).reason(Language::Pt), "Máximo de tentativas excedido: 5 de 5");
}

#[test] // REQ RD-6; seed 12.3, 7.1
fn events_have_the_fields_of_the_source_document() {
    let fields = |decision: &Decision| -> Vec<String> {
        let Value::Object(event) = decision.event(NOW - Span::from_mins(90)) else { panic!() };
        event.keys().cloned().collect()
    };
    let has = |decision: &Decision, wanted: &str| {
        let found = fields(decision);
        for field in wanted.split_whitespace() {
            assert!(found.iter().any(|known| known == field), "{field} in {found:?}");
        }
    };
    let captured = "timestamp claimId submissionError retryCount maxRetries retryReason executionTimeMs";
    let retry = decided("TIMEOUT", 1);
    has(&retry, captured);
    has(&retry, "errorClassification backoffMinutes nextRetryTime scheduledAt version");
    let ended = decided("TIMEOUT", 5);
    has(&ended, captured);
    has(&ended, "finalError totalAttempts totalDuration exceededAt severity");
    let event = ended.event(NOW - Span::from_mins(90));
    assert_eq!((&event["totalAttempts"], &event["totalDuration"]), (&json!(6), &json!("PT5400S")));
    let permanent = decided("DUPLICATE_CLAIM", 1);
    has(&permanent, captured);
    has(&permanent, "errorClassification errorType errorMessage detectedAt severity");
}

#[test] // REQ OB-2, AU-3
fn what_is_recorded_holds_no_person_and_what_is_answered_is_as_it_was_asked() {
    let error = format!("TIMEOUT for ana@clinic.example, CPF 123.456.789-09 {}", "x".repeat(5_000));
    let decision = decided(&error, 0);
    assert!(!decision.original_error.contains("ana@") && !decision.original_error.contains("789-09"));
    assert!(decision.original_error.len() <= 1_000);
    assert!(!decision.event(NOW).to_string().contains("ana@"));
    let answer = decision.answering(&question(&error), Language::Pt);
    assert_eq!(answer.original_error, error);
    assert_eq!(answer.retry_reason, "Erro transiente, tentativa 1 de 5");
}

#[test] // REQ RD-1
fn an_answer_is_written_as_the_example_shows() {
    let answer = serde_json::to_value(decided("TIMEOUT", 1)).unwrap();
    for field in [
        "shouldRetry",
        "retryCount",
        "maxRetries",
        "backoffMinutes",
        "nextRetryTime",
        "retryReason",
        "errorClassification",
        "originalError",
    ] {
        assert!(answer.get(field).is_some(), "{field} in {answer}");
    }
    assert!(answer.get("code").is_none());
    let back: Decision = serde_json::from_value(answer).unwrap();
    assert_eq!(back, decided("TIMEOUT", 1));
    let newer = json!({"claimId": "CLM-1-2", "shouldRetry": false, "retryCount": 5, "maxRetries": 5,
        "retryReason": "", "originalError": "", "code": "MAX_RETRIES_EXCEEDED",
        "decidedAt": "2025-01-12T10:40:00Z", "of a later version": 1});
    let read: Decision = serde_json::from_value(newer).unwrap();
    assert_eq!(read.code, Some(Never::MaxRetriesExceeded));
}

proptest! {
    #[test] // REQ RD-1, RP-2; seed V3, V5
    fn every_wait_is_whole_minutes_within_the_policy_and_in_the_future(
        count in 0u32..5, error in "[a-z ]{1,30}", seed: u64, now in 0i64..4_000_000_000_000,
    ) {
        let (policy, now) = (Policy::claims(), Time::from_millis(now));
        let decision = decide(&question(&error), count, &policy, now, &mut Dice::seeded(seed));
        let minutes = decision.backoff_minutes.unwrap();
        let (low, high) = backoff::bounds(&policy, u16::try_from(count).unwrap());
        prop_assert!(low <= Span::from_mins(minutes) && Span::from_mins(minutes) <= high);
        prop_assert_eq!(decision.next_retry_time, Some(now + Span::from_mins(minutes)));
        prop_assert!(decision.next_retry_time.unwrap() > now);
        prop_assert_eq!(decision.retry_count, count + 1);
    }

    #[test] // REQ RD-2; seed V5
    fn whatever_the_policy_the_next_try_lies_in_the_future(
        base in 1u64..600_000, floor in 0u64..600_000, jitter in 0.0f64..1.0, count in 0u32..3, seed: u64,
    ) {
        let policy = Policy {
            attempts: 4,
            delays: crate::policy::Delays::Doubling { base: Span::from_millis(base) },
            floor: Span::from_millis(floor),
            jitter,
            ..Policy::claims()
        };
        let decision = decide(&question("TIMEOUT"), count, &policy, NOW, &mut Dice::seeded(seed));
        let wait = Span::from_mins(decision.backoff_minutes.unwrap());
        prop_assert!(decision.next_retry_time.unwrap() > NOW);
        prop_assert!(wait >= policy.floor && wait <= policy.cap);
    }

    #[test] // REQ CF-6
    fn any_text_is_decided_on(error in "\\PC{0,200}", count in 0u32..10) {
        let decision = decide(&question(&error), count, &Policy::claims(), NOW, &mut Dice::seeded(1));
        prop_assert_eq!(decision.should_retry, decision.code.is_none());
        prop_assert_eq!(decision.should_retry, decision.next_retry_time.is_some());
    }
}
