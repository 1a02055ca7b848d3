//! Evolution, Resend, webhooks and claims: bodies and names as providers send them.

use super::{Meaning, Rules, Scope, Verdict, read};
use crate::kind::ChannelKind;
use crate::reply::{Fault, FaultKind, Refusal, Reply};
use crate::time::Span;

use ChannelKind::{Evolution, Resend, Tiss, Webhook};
use Verdict::{Permanent, SenderFault, Transient, UnknownTransient};

fn meaning(kind: ChannelKind, status: u16, name: Option<&str>, text: &str) -> Meaning {
    let rules = Rules::for_kind(kind, &[]).unwrap();
    let name = name.map(str::to_owned);
    rules
        .classify(&Reply::Refused(Refusal {
            status: Some(status),
            name,
            text: text.to_owned(),
            ..Refusal::default()
        }))
        .unwrap()
}

fn same(seen: &Meaning, verdict: Verdict, category: &str, case: &str) {
    assert_eq!((seen.verdict, seen.category.as_str()), (verdict, category), "{case} matched {:?}", seen.rule);
}

fn check_status(kind: ChannelKind, status: u16, verdict: Verdict, category: &str) {
    same(&meaning(kind, status, None, ""), verdict, category, &format!("{kind} {status}"));
}

#[test] // REQ CF-3
fn statuses_mean_the_same_for_every_http_kind() {
    for kind in [Evolution, Resend, Webhook] {
        check_status(kind, 400, Permanent, "bad_request");
        check_status(kind, 404, Permanent, "not_found");
        check_status(kind, 422, Permanent, "unprocessable");
        check_status(kind, 408, Transient, "request_timeout");
        check_status(kind, 425, Transient, "too_early");
        check_status(kind, 429, Transient, "rate_limited");
        check_status(kind, 500, Transient, "server_error");
        check_status(kind, 502, Transient, "bad_gateway");
        check_status(kind, 503, Transient, "service_unavailable");
        check_status(kind, 504, Transient, "gateway_timeout");
        check_status(kind, 520, Transient, "server_error");
        check_status(kind, 401, SenderFault, "unauthorized");
        check_status(kind, 403, SenderFault, "forbidden");
        check_status(kind, 418, UnknownTransient, "unknown");
        assert!(meaning(kind, 503, None, "").destination_fault);
        assert!(!meaning(kind, 429, None, "").destination_fault);
        // Every sender domain of a Resend account has the same key.
        let scope = if kind == Resend { Scope::Channel } else { Scope::Destination };
        assert_eq!(meaning(kind, 401, None, "").scope, scope, "{kind}");
    }
}

#[test] // REQ CF-3
fn faults_on_the_way() {
    let check = |kind: ChannelKind, fault: FaultKind, verdict: Verdict, blames_destination: bool| {
        let rules = Rules::for_kind(kind, &[]).unwrap();
        let fault = Fault { kind: fault, text: "connection closed, 503 timeout".to_owned() };
        for reply in [Reply::Unreachable(fault.clone()), Reply::Doubtful(fault.clone())] {
            let seen = rules.classify(&reply).unwrap();
            assert_eq!(
                (seen.verdict, seen.destination_fault),
                (verdict, blames_destination),
                "{kind} {fault:?}"
            );
            assert!(seen.rule.as_deref().is_some_and(|rule| !rule.starts_with("evolution")), "{seen:?}");
        }
    };
    for kind in ChannelKind::ALL {
        for fault in [
            FaultKind::Dns,
            FaultKind::DnsNotFound,
            FaultKind::ConnectionRefused,
            FaultKind::ConnectionReset,
            FaultKind::Timeout,
            FaultKind::Tls,
            FaultKind::Protocol,
        ] {
            check(kind, fault, Transient, true);
        }
        check(kind, FaultKind::Interrupted, Transient, false);
        check(kind, FaultKind::AddressBlocked, Permanent, false);
        check(kind, FaultKind::BadContent, Permanent, false);
        check(kind, FaultKind::Template, Permanent, false);
        check(kind, FaultKind::WebhookRemoved, Permanent, false);
        check(kind, FaultKind::NotConfigured, SenderFault, false);
    }
}

#[test] // REQ CF-3, CF-7
fn a_channel_that_is_not_set_up_is_held_as_a_whole_and_bad_certificates_are_not_retried_hotly() {
    let rules = Rules::for_kind(Webhook, &[]).unwrap();
    let of = |kind| rules.classify(&Reply::Unreachable(Fault { kind, text: String::new() })).unwrap();
    assert_eq!(of(FaultKind::NotConfigured).scope, Scope::Channel);
    assert_eq!(of(FaultKind::Tls).wait, Some(Span::from_mins(5)));
    assert_eq!(of(FaultKind::AddressBlocked).category, "address_blocked");
    assert_eq!(of(FaultKind::Interrupted).category, "interrupted");
}

fn evolution(status: u16, message: &str, verdict: Verdict, category: &str) {
    let body = format!(r#"{{"status":{status},"error":"Bad Request","response":{{"message":{message}}}}}"#);
    same(&meaning(Evolution, status, None, &body), verdict, category, &body);
}

#[test] // REQ CF-3
fn evolution_is_read_by_its_body() {
    let absent = r#"[{"jid":"5511999990000@s.whatsapp.net","exists":false,"number":"5511999990000"}]"#;
    evolution(400, absent, Permanent, "invalid_recipient");
    evolution(400, r#"[{"exists" : false}]"#, Permanent, "invalid_recipient");
    assert!(meaning(Evolution, 400, None, absent).suppress);
    assert!(meaning(Evolution, 400, None, "number is not on WhatsApp").suppress);

    evolution(400, r#"["Error: Connection Closed"]"#, Transient, "socket_closed");
    evolution(500, r#""Connection Closed""#, Transient, "socket_closed");
    evolution(500, r#"["Error: Connection Closed"]"#, Transient, "socket_closed");
    evolution(400, r#"["Error: Timed Out"]"#, Transient, "socket_timeout");
    evolution(500, r#"["Error: Timed Out"]"#, Transient, "socket_timeout");
    evolution(400, r#""Cannot read properties of undefined (reading 'find')""#, Transient, "socket_closed");
    let not_loaded = r#""Cannot read properties of undefined (reading 'textMessage')""#;
    evolution(500, not_loaded, Transient, "instance_not_loaded");
    assert!(meaning(Evolution, 400, None, "Error: Connection Closed").destination_fault);

    evolution(404, r#"["The \"clinic\" instance does not exist"]"#, SenderFault, "unknown_instance");
    evolution(
        404,
        r#"["The \"timed out connection\" instance does not exist"]"#,
        SenderFault,
        "unknown_instance",
    );
    evolution(404, r#"["Cannot POST /message/sendTxt/clinic"]"#, SenderFault, "unknown_route");
    evolution(401, r#""Unauthorized""#, SenderFault, "unauthorized");
    evolution(400, r#"["Error: Instance logged out"]"#, SenderFault, "instance_logged_out");
    let licence = r#"{"error":"service not activated","code":"LICENSE_REQUIRED","message":"register first"}"#;
    same(&meaning(Evolution, 503, None, licence), SenderFault, "unlicensed", licence);

    evolution(400, r#"[["instance requires property \"text\""]]"#, Permanent, "invalid_content");
    evolution(400, r#"["Text is required"]"#, Permanent, "invalid_content");
    evolution(400, r#"["Owned media must be a url or base64"]"#, Permanent, "invalid_content");
    evolution(400, r#"["[object Object]"]"#, Permanent, "bad_request");
    evolution(400, r#"["Unique constraint failed"]"#, Permanent, "bad_request");
    evolution(500, r#"["AxiosError: Request failed with status code 404"]"#, Permanent, "media_unavailable");
    evolution(500, r#"["AxiosError: Request failed with status code 403"]"#, Permanent, "media_unavailable");
    evolution(500, r#"["AxiosError: Request failed with status code 429"]"#, Transient, "media_unavailable");
    evolution(500, r#"["AxiosError: Request failed with status code 503"]"#, Transient, "media_unavailable");
    evolution(500, r#"["AxiosError: timeout of 9000ms"]"#, Transient, "media_unavailable");
    evolution(500, r#"["something else"]"#, Transient, "server_error");
}

#[test] // REQ CF-3
fn an_unknown_400_of_evolution_says_that_it_may_have_been_sent() {
    let rules = Rules::for_kind(Evolution, &[]).unwrap();
    let seen = meaning(Evolution, 400, None, "PrismaClientKnownRequestError");
    let note = rules.rule(&seen.rule.unwrap()).unwrap().note.clone().unwrap();
    assert!(note.contains("may have sent"));
}

#[test] // REQ CF-3
fn a_201_without_a_key_is_a_failure() {
    check_status(Evolution, 201, Transient, "no_message_key");
    let check = |code: u32, verdict: Verdict, category: &str| {
        let body = format!(
            r#"{{"message":"(#{code}) no","type":"OAuthException","code":{code},"fbtrace_id":"A1b2"}}"#
        );
        let rules = Rules::for_kind(Evolution, &[]).unwrap();
        let seen = rules.classify(&read::http(Evolution, 201, &[], &body)).unwrap();
        same(&seen, verdict, category, &body);
    };
    check(131_026, Permanent, "invalid_recipient");
    check(131_047, Permanent, "conversation_window");
    check(131_050, Permanent, "opted_out");
    check(131_051, Permanent, "invalid_content");
    check(100, Permanent, "invalid_content");
    check(132_001, Permanent, "template_rejected");
    check(130_429, Transient, "rate_limited");
    check(131_049, Transient, "recipient_frequency");
    check(131_016, Transient, "server_error");
    check(2, Transient, "server_error");
    check(190, SenderFault, "meta_account");
    check(131_031, SenderFault, "meta_account");
    check(368, SenderFault, "meta_account");
    check(613, Transient, "rate_limited");
    check(132_068, Permanent, "template_rejected");
    check(139_999, UnknownTransient, "meta_error");
}

#[test] // REQ CF-3
fn resend_is_read_by_the_name_of_its_error() {
    let check = |name: &str, status: u16, verdict: Verdict, category: &str| {
        let body = format!(r#"{{"statusCode":{status},"message":"…","name":"{name}"}}"#);
        same(&meaning(Resend, status, Some(name), &body), verdict, category, name);
    };
    check("validation_error", 400, Permanent, "validation_error");
    check("validation_error", 422, Permanent, "validation_error");
    check("validation_error", 403, SenderFault, "unverified_sender");
    check("invalid_idempotency_key", 400, Permanent, "invalid_idempotency_key");
    check("missing_api_key", 401, SenderFault, "invalid_api_key");
    check("restricted_api_key", 401, SenderFault, "invalid_api_key");
    check("invalid_api_key", 403, SenderFault, "invalid_api_key");
    check("suspended_api_key", 403, SenderFault, "invalid_api_key");
    check("invalid_permission", 403, SenderFault, "invalid_permission");
    check("email_above_quota", 403, SenderFault, "account_quota");
    check("not_found", 404, Permanent, "not_found");
    check("method_not_allowed", 405, Permanent, "method_not_allowed");
    check("invalid_idempotent_request", 409, Permanent, "idempotency_conflict");
    check("concurrent_idempotent_requests", 409, Transient, "request_in_progress");
    check("resource_locked", 409, Transient, "resource_locked");
    check("invalid_attachment", 422, Permanent, "validation_error");
    check("invalid_from_address", 422, Permanent, "invalid_from");
    check("invalid_access", 422, Permanent, "validation_error");
    check("invalid_parameter", 422, Permanent, "validation_error");
    check("invalid_region", 422, Permanent, "validation_error");
    check("missing_required_field", 422, Permanent, "validation_error");
    check("missing_required_parameter", 422, Permanent, "validation_error");
    check("rate_limit_exceeded", 429, Transient, "rate_limited");
    check("daily_quota_exceeded", 429, Transient, "daily_quota");
    check("monthly_quota_exceeded", 429, SenderFault, "monthly_quota");
    check("security_error", 451, Permanent, "security_error");
    check("application_error", 500, Transient, "server_error");
    check("internal_server_error", 500, Transient, "server_error");
    check("service_unavailable", 500, Transient, "service_unavailable");
    check("service_unavailable", 503, Transient, "service_unavailable");
    check("brand_new_error", 409, UnknownTransient, "unknown");
    check("brand_new_error", 422, Permanent, "unprocessable");
    let key = meaning(Resend, 400, Some("validation_error"), "API key is invalid");
    same(&key, SenderFault, "invalid_api_key", "an invalid key under another name");
    assert_eq!(meaning(Resend, 429, Some("daily_quota_exceeded"), "").wait, Some(Span::from_hours(8)));
}

#[test] // REQ CF-3
fn a_webhook_that_is_gone_or_moved_is_not_tried_again() {
    check_status(Webhook, 410, Permanent, "gone");
    for status in [301, 302, 303, 307, 308] {
        check_status(Webhook, status, Permanent, "redirected");
    }
    check_status(Resend, 301, SenderFault, "redirected");
}

fn glosa(codes: &[u16], verdict: Verdict, category: &str) {
    for code in codes {
        // The envelope's digits must not be taken for a status.
        let seen =
            meaning(Tiss, 200, Some(&code.to_string()), "recusado em 2025-03-15 15:03:50, protocolo 5030504");
        same(&seen, verdict, category, &format!("glosa {code}"));
    }
}

#[test] // REQ CF-6
fn denial_codes_stand_for_the_named_errors() {
    let patient = [1001, 1002, 1011, 1013, 1020, 1021, 1022, 1023, 1320, 5048];
    glosa(&patient, Permanent, "invalid_patient_data");
    let insurance = [1003, 1004, 1005, 1006, 1009, 1014, 1016, 1017, 1018, 1019, 1024];
    glosa(&insurance, Permanent, "insurance_expired");
    let authorization = [
        1007, 1410, 1012, 1025, 1407, 1409, 1413, 1420, 1421, 3141, 1321, 1401, 1402, 1415, 1430, 1431, 1432,
        1433, 1613, 1614, 1615, 1815, 1909, 2015, 2115, 2206, 2707, 2812, 1403, 1404, 1405, 1406, 1414, 1437,
        1408, 1423, 1820, 2712, 1425, 1428, 1818, 2710, 2815, 3002, 1426, 1438, 3109, 3145, 1814, 1840, 2706,
        3014,
    ];
    glosa(&authorization, Permanent, "authorization_denied");
    let duplicate = [1308, 1305, 1702, 1739, 1741, 1742, 1711, 1807, 3007, 2607, 1419, 3123, 3101, 5053];
    glosa(&duplicate, Permanent, "duplicate_claim");
    let procedure = [
        1801, 2701, 3001, 2601, 1318, 1309, 5058, 1802, 1803, 1821, 1808, 1824, 2505, 2716, 2001, 2101, 2201,
        2301, 2401, 2501, 2801, 3150, 5035, 5036,
    ];
    glosa(&procedure, Permanent, "invalid_procedure_code");
}

#[test] // REQ CF-6
fn denial_codes_without_a_name_keep_their_verdict() {
    glosa(&[1412], Transient, "authorizer_unavailable");
    glosa(&[3160], Transient, "timeout");
    glosa(&[5008, 5009, 5010, 5012], Transient, "transfer_incomplete");
    glosa(&[1427, 1736], Transient, "pending_analysis");
    glosa(&[1201, 1210, 1218, 3100], SenderFault, "provider_contract");
    glosa(&[5003, 5006, 5018, 5022], SenderFault, "certificate");
    glosa(&[5027, 5028], SenderFault, "registry_or_version");
    glosa(&[5001, 5002, 5007, 5014, 5015, 1101, 1104, 3148], Permanent, "invalid_message");
    glosa(&[1301, 1399], Permanent, "paperwork");
    glosa(&[1501], Permanent, "clinical");
    glosa(&[1601], Permanent, "dates");
    glosa(&[1701], Permanent, "pricing");
    glosa(&[1901, 2499], Permanent, "items");
    same(&meaning(Tiss, 200, Some("9999"), ""), UnknownTransient, "unknown", "a code of no table");
}

#[test] // REQ CF-6
fn soap_faults_and_names_in_the_text() {
    let check = |status: u16, name: Option<&str>, text: &str, verdict: Verdict, category: &str| {
        same(&meaning(Tiss, status, name, text), verdict, category, &format!("{status} {name:?} {text}"));
    };
    check(500, Some("ErroInesperadoServidor"), "", Transient, "server_error");
    check(500, Some("LoginInvalido"), "15:03:50", SenderFault, "invalid_login");
    check(500, Some("RemetenteInvalido"), "", SenderFault, "provider_contract");
    check(500, Some("DestinatarioInvalido"), "", SenderFault, "provider_contract");
    check(500, Some("VersaoInvalida"), "", SenderFault, "registry_or_version");
    check(500, Some("HashInvalido"), "15:03:50", Permanent, "invalid_message");
    check(500, None, "<tissFault>SchemaInvalido</tissFault>", Permanent, "invalid_message");
    check(500, None, "Duplicate_Claim after TIMEOUT", Permanent, "duplicate_claim");
    check(200, Some("INSURANCE_EXPIRED"), "", Permanent, "insurance_expired");
    check(500, None, "rate_limit", Transient, "rate_limited");
    check(503, None, "", Transient, "service_unavailable");
    check(401, None, "503", SenderFault, "unauthorized");
    check(404, None, "", SenderFault, "wrong_address");
    check(400, None, "no idea", UnknownTransient, "unknown");
    check(200, None, "", UnknownTransient, "unknown");
}

#[test] // REQ CF-7
fn what_a_probe_of_an_instance_saw_holds_it_or_waits_for_it() {
    let of = |name: &str| {
        let refusal = Refusal { name: Some(name.to_owned()), ..Refusal::default() };
        Rules::for_kind(Evolution, &[]).unwrap().classify(&Reply::Refused(refusal)).unwrap()
    };
    same(&of("instance_close"), SenderFault, "instance_closed", "closed");
    same(&of("instance_absent"), SenderFault, "instance_closed", "absent");
    same(&of("instance_connecting"), Transient, "instance_connecting", "connecting");
}

#[test] // REQ CF-7, CF-8
fn what_is_common_to_an_account_holds_the_account_and_what_is_a_domains_holds_the_domain() {
    let of = |name: &str, status: u16, text: &str| meaning(Resend, status, Some(name), text);
    for (name, status) in [
        ("missing_api_key", 401),
        ("suspended_api_key", 403),
        ("invalid_permission", 403),
        ("monthly_quota_exceeded", 429),
        ("daily_quota_exceeded", 429),
        ("rate_limit_exceeded", 429),
        ("brand_new_error", 403),
    ] {
        assert_eq!(of(name, status, "").scope, Scope::Channel, "{name}");
    }
    let unverified = of("validation_error", 403, "The example.com domain is not verified");
    assert_eq!((unverified.verdict, unverified.scope), (SenderFault, Scope::Destination));
}

#[test] // REQ CF-6
fn words_of_an_operator_count_only_in_an_answer() {
    let said = |status: u16, text: &str| meaning(Tiss, status, None, text);
    same(&said(500, "Carteira inv\u{e1}lida"), Permanent, "invalid_patient_data", "with a status");
    same(&said(200, "Servi\u{fffd}o indispon\u{fffd}vel"), Transient, "service_unavailable", "undecodable");
    let free = read::error(Tiss, "Carteira inv\u{e1}lida");
    let seen = Rules::for_kind(Tiss, &[]).unwrap().classify(&free).unwrap();
    same(&seen, UnknownTransient, "unknown", "free text");
}
