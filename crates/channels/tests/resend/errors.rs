use pombo_channels::{Channel as _, Health};
use pombo_kernel::classify::Verdict::{self, Permanent, SenderFault, Transient, UnknownTransient};
use pombo_kernel::reply::{FaultKind, Reply};
use serde_json::json;

use crate::receiver::Receiver;
use crate::{PATIENCE, accepted, channel, doubtful, meaning, refused, send};

async fn check(name: &str, status: u16, message: &str, verdict: Verdict, category: &str) {
    let body = json!({"statusCode": status, "message": message, "name": name}).to_string();
    let receiver = Receiver::saying(status, &body).await;
    let reply = send(&channel(&receiver.url()), "k", "ana@x.example").await;
    let found = meaning(&reply);
    assert_eq!((found.verdict, found.category.as_str()), (verdict, category), "{status} {name}");
    let refusal = refused(reply);
    assert_eq!(refusal.status, Some(status));
    assert_eq!((refusal.name.as_deref(), refusal.text.as_str()), (Some(name), message));
    assert!(!refusal.perhaps_sent);
}

#[tokio::test] // REQ CF-3
async fn every_error_of_resend_gets_its_verdict() {
    check("validation_error", 400, "We found an error", Permanent, "validation_error").await;
    check("validation_error", 422, "We found an error", Permanent, "validation_error").await;
    check("validation_error", 422, "Invalid `to` field.", Permanent, "invalid_recipient").await;
    check("validation_error", 403, "The x domain is not verified", SenderFault, "unverified_sender").await;
    check("validation_error", 400, "API key is invalid", SenderFault, "invalid_api_key").await;
    check("invalid_idempotency_key", 400, "1-256 chars", Permanent, "invalid_idempotency_key").await;
    check("missing_api_key", 401, "Missing API key", SenderFault, "invalid_api_key").await;
    check("restricted_api_key", 401, "only send", SenderFault, "invalid_api_key").await;
    check("invalid_api_key", 403, "API key is invalid", SenderFault, "invalid_api_key").await;
    check("suspended_api_key", 403, "Suspended", SenderFault, "invalid_api_key").await;
    check("invalid_permission", 403, "No", SenderFault, "invalid_permission").await;
    check("email_above_quota", 403, "No", SenderFault, "account_quota").await;
    check("not_found", 404, "No", Permanent, "not_found").await;
    check("method_not_allowed", 405, "No", Permanent, "method_not_allowed").await;
    check("invalid_idempotent_request", 409, "No", Permanent, "idempotency_conflict").await;
    check("concurrent_idempotent_requests", 409, "No", Transient, "request_in_progress").await;
    check("resource_locked", 409, "No", Transient, "resource_locked").await;
    check("invalid_attachment", 422, "No", Permanent, "validation_error").await;
    check("invalid_from_address", 422, "No", Permanent, "invalid_from").await;
    check("invalid_access", 422, "No", Permanent, "validation_error").await;
    check("invalid_parameter", 422, "No", Permanent, "validation_error").await;
    check("invalid_region", 422, "No", Permanent, "validation_error").await;
    check("missing_required_field", 422, "No", Permanent, "validation_error").await;
    check("missing_required_parameter", 422, "No", Permanent, "validation_error").await;
    check("rate_limit_exceeded", 429, "No", Transient, "rate_limited").await;
    check("daily_quota_exceeded", 429, "No", Transient, "daily_quota").await;
    check("monthly_quota_exceeded", 429, "No", SenderFault, "monthly_quota").await;
    check("security_error", 451, "No", Permanent, "security_error").await;
    check("application_error", 500, "No", Transient, "server_error").await;
    check("internal_server_error", 500, "No", Transient, "server_error").await;
    check("service_unavailable", 500, "No", Transient, "service_unavailable").await;
    check("service_unavailable", 503, "No", Transient, "service_unavailable").await;
    check("brand_new_error", 409, "No", UnknownTransient, "unknown").await;
}

#[tokio::test] // REQ CF-3
async fn an_error_that_is_not_resends_is_judged_by_its_status() {
    for (status, body, verdict) in [
        (502, "<html>Bad gateway</html>", Transient),
        (504, "", Transient),
        (429, "slow down", Transient),
        (401, "null", SenderFault),
        (403, "[1]", SenderFault),
        (400, "{\"message\":1,\"name\":\"a b\"}", Permanent),
    ] {
        let receiver = Receiver::saying(status, body).await;
        let reply = send(&channel(&receiver.url()), "k", "ana@x.example").await;
        assert_eq!(meaning(&reply).verdict, verdict, "{status}");
        let refusal = refused(reply);
        assert_eq!((refusal.name, refusal.text.as_str()), (None, body));
    }
}

#[tokio::test] // REQ ML-5
async fn a_success_that_names_no_mail_is_a_doubt() {
    for body in
        ["", "{}", "null", "{\"id\":7}", "{\"id\":\"\"}", "{\"id\":\"a b\"}", "<html>", "{\"id\":\"x\"", "[]"]
    {
        let receiver = Receiver::saying(200, body).await;
        let reply = send(&channel(&receiver.url()), "k", "ana@x.example").await;
        assert_eq!(doubtful(&reply), FaultKind::Protocol, "{body}");
        assert_eq!(meaning(&reply).verdict, Transient);
        assert_eq!(receiver.requests().len(), 1);
    }
    let receiver = Receiver::saying(202, "{\"object\":\"email\",\"id\":\"x\"}").await;
    assert_eq!(accepted(send(&channel(&receiver.url()), "k", "ana@x.example").await).code, Some(202));
}

#[tokio::test]
async fn a_probe_tells_a_known_key_from_an_unknown_one() {
    let ask = |status: u16, body: &'static str| async move {
        let receiver = Receiver::saying(status, body).await;
        let health = channel(&receiver.url()).probe(PATIENCE).await;
        let request = receiver.requests().remove(0);
        assert!(request.starts_with("GET /domains HTTP/1.1\r\n"), "{request}");
        assert!(
            request.contains("authorization: Bearer re_test_123\r\n") && !request.contains("idempotency")
        );
        health
    };
    assert!(matches!(ask(200, "{\"data\":[]}").await, Health::Ready(_)));
    let only_sends = r#"{"statusCode":401,"name":"restricted_api_key","message":"only send"}"#;
    assert!(matches!(ask(401, only_sends).await, Health::Reachable(_)));
    for (status, body, verdict) in [
        (401, r#"{"name":"missing_api_key","message":"m"}"#, SenderFault),
        (403, r#"{"name":"invalid_api_key","message":"m"}"#, SenderFault),
        (400, r#"{"name":"validation_error","message":"API key is invalid"}"#, SenderFault),
        (500, r#"{"name":"application_error","message":"m"}"#, Transient),
        (301, "", SenderFault),
    ] {
        match ask(status, body).await {
            Health::Sick(reply @ Reply::Refused(_)) => {
                assert_eq!(meaning(&reply).verdict, verdict, "{status}");
            }
            other => panic!("{status}: {other:?}"),
        }
    }
    let nowhere = channel("http://127.0.0.1:1/");
    assert!(matches!(nowhere.probe(PATIENCE).await, Health::Sick(Reply::Unreachable(_))));
}
