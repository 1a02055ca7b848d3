//! SMTP replies as servers write them, and what each must come to.

use super::{Meaning, Rules, Scope, Verdict, read};
use crate::kind::ChannelKind;
use crate::reply::{Enhanced, Fault, FaultKind, Refusal, Reply, Stage};
use crate::time::Span;
use proptest::prelude::*;

use Verdict::{Permanent, SenderFault, Transient};

/// Whether the recipient stays out of later bulk sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recipient {
    Kept,
    Suppressed,
}
use Recipient::{Kept, Suppressed};

fn enhanced(text: &str) -> Option<Enhanced> {
    let mut parts = text.split('.').map(|part| part.parse::<u16>().unwrap());
    let class = u8::try_from(parts.next()?).unwrap();
    Some(Enhanced { class, subject: parts.next()?, detail: parts.next()? })
}

fn meaning(stage: Stage, code: u16, status: &str, text: &str) -> Meaning {
    let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
    let enhanced = if status.is_empty() { None } else { enhanced(status) };
    let refusal =
        Refusal { status: Some(code), enhanced, stage, text: text.to_owned(), ..Refusal::default() };
    rules.classify(&Reply::Refused(refusal)).unwrap()
}

fn check(code: u16, status: &str, text: &str, verdict: Verdict, category: &str, recipient: Recipient) {
    let meaning = meaning(Stage::Request, code, status, text);
    let seen = if meaning.suppress { Suppressed } else { Kept };
    assert_eq!(
        (meaning.verdict, meaning.category.as_str(), seen),
        (verdict, category, recipient),
        "{code} {status} {text} matched {:?}",
        meaning.rule
    );
}

fn wait(code: u16, status: &str, text: &str) -> Option<Span> {
    meaning(Stage::Request, code, status, text).wait
}

#[test] // REQ CF-5
fn gmail() {
    check(421, "4.3.0", "Temporary System Problem. Come back soon", Transient, "service_unavailable", Kept);
    check(421, "4.4.5", "Server busy, please hold on", Transient, "service_unavailable", Kept);
    check(
        421,
        "4.7.0",
        "Try again later, closing connection. (EHLO)",
        Transient,
        "service_unavailable",
        Kept,
    );
    let suspicious = "This mail is suspicious due to the very low reputation of the sending IP address";
    check(421, "4.7.0", suspicious, Transient, "poor_reputation", Kept);
    let suspicious = "This mail is suspicious due to the very low reputation of the sending domain";
    check(421, "4.7.0", suspicious, Transient, "poor_reputation", Kept);
    check(550, "5.7.1", suspicious, SenderFault, "blocklisted", Kept);
    let content = "Held back due to the nature of the content or the links within";
    check(421, "4.7.0", content, Permanent, "content_rejected", Kept);
    for code in ["4.7.26", "4.7.27", "4.7.30", "5.7.26"] {
        let text = "Your mail has been rate limited because it did not authenticate with SPF or DKIM";
        check(421, code, text, SenderFault, "sender_authentication", Kept);
    }
    let aligned = "Your mail has been rate limited since its From header is not aligned with its domains";
    check(421, "4.7.32", aligned, SenderFault, "sender_authentication", Kept);
    check(421, "5.7.32", aligned, SenderFault, "sender_authentication", Kept);
    check(
        421,
        "4.7.28",
        "We saw an unusual rate of unsolicited mail from you",
        Transient,
        "rate_limited",
        Kept,
    );
    check(421, "4.7.28", "We saw an unusual rate of mail from your range", Transient, "rate_limited", Kept);
    let twin = "An unusual number of mails carry the same Message-ID header";
    check(421, "4.7.28", twin, SenderFault, "duplicate_message_id", Kept);
    let quickly = "The person you write to is receiving mail too quickly right now";
    check(450, "4.2.1", quickly, Transient, "rate_limited", Kept);
    let at_a_rate = "That account is receiving mail at a rate that prevents further mail from arriving";
    check(450, "4.2.1", at_a_rate, Transient, "rate_limited", Kept);
    check(550, "5.2.1", at_a_rate, Transient, "rate_limited", Kept);
    check(452, "4.2.2", "The recipient's inbox is out of storage space", Transient, "mailbox_full", Kept);
    let inactive = "The recipient's inbox is out of storage space and inactive";
    check(552, "5.2.2", inactive, Permanent, "mailbox_disabled", Suppressed);
    check(452, "4.5.3", "Your mail has too many recipients", Transient, "too_many_recipients", Kept);
    check(550, "5.5.3", "Your mail has too many recipients", Transient, "too_many_recipients", Kept);
    check(552, "5.5.3", "Split the envelope", Transient, "too_many_recipients", Kept);
    let nobody = "The email account that you tried to reach does not exist. Please try double-checking it";
    check(550, "5.1.1", nobody, Permanent, "invalid_recipient", Suppressed);
    let idle = "The email account that you tried to reach is inactive";
    check(550, "5.2.1", idle, Permanent, "mailbox_disabled", Suppressed);
    let disabled = "The email account that you tried to reach is disabled";
    check(550, "5.2.1", disabled, Permanent, "mailbox_disabled", Suppressed);
    let nowhere = "We could not find the recipient domain. Look for typing errors";
    check(553, "5.1.2", nowhere, Permanent, "invalid_domain", Suppressed);
    check(550, "5.4.5", "Daily user sending limit exceeded", Transient, "daily_quota", Kept);
    check(550, "5.4.5", "Daily SMTP relay sending quota exceeded", Transient, "daily_quota", Kept);
    assert_eq!(wait(550, "5.4.5", "Daily user sending limit exceeded"), Some(Span::from_hours(24)));
    check(550, "5.7.1", "This message is likely unsolicited mail", SenderFault, "spam_suspected", Kept);
    check(550, "5.7.1", "This email has been rate limited", Transient, "rate_limited", Kept);
    check(550, "5.7.25", "The sending IP has no PTR record", SenderFault, "missing_ptr", Kept);
    let dmarc = "Refused because of the DMARC policy of example.com";
    check(550, "5.7.26", dmarc, SenderFault, "sender_authentication", Kept);
    let fails = "This mail fails to pass authentication checks";
    check(550, "5.7.26", fails, SenderFault, "sender_authentication", Kept);
    let policy = "The recipient's domain has a policy that prohibits the mail that you sent";
    check(550, "5.7.1", policy, Permanent, "recipient_policy", Suppressed);
    let policy = "Refused by a policy that prohibited this mail";
    check(550, "5.7.1", policy, Permanent, "recipient_policy", Suppressed);
    let security = "Blocked because its content presents a potential security issue";
    check(552, "5.7.0", security, Permanent, "content_rejected", Kept);
    let size = "Your message exceeded Google's message size limits";
    check(552, "5.3.4", size, Permanent, "message_too_large", Kept);
}

#[test] // REQ CF-5
fn microsoft() {
    check(421, "4.3.2", "Service not available, closing the channel", Transient, "service_unavailable", Kept);
    for code in ["RP-001", "RP-002", "RP-003"] {
        let text = format!("({code}) The mail server limit on connections was exceeded");
        check(421, "", &text, Transient, "poor_reputation", Kept);
    }
    check(450, "4.7.3", "Organization queue quota exceeded", Transient, "rate_limited", Kept);
    check(451, "4.7.500", "Server busy. Please hold on", Transient, "temporary_failure", Kept);
    for status in ["4.7.650", "4.7.651"] {
        let text = "Your server has been temporarily rate limited due to IP reputation";
        check(451, status, text, Transient, "poor_reputation", Kept);
    }
    for (code, status) in [(451, "4.7.850"), (421, "4.7.871"), (550, "4.7.899")] {
        check(code, status, "Access denied, please try again later", Transient, "rate_limited", Kept);
    }
    check(452, "4.3.1", "Insufficient system resources", Transient, "service_unavailable", Kept);
    let unavailable = "Requested action not taken: mailbox unavailable";
    check(550, "5.5.0", unavailable, Permanent, "invalid_recipient", Suppressed);
    check(550, "5.1.10", "Recipient not found by lookup", Permanent, "invalid_recipient", Suppressed);
    let denied = "Recipient address rejected: Access denied";
    check(550, "5.4.1", denied, Permanent, "invalid_recipient", Suppressed);
    let listed = "Part of your provider's network is on our block list (S3150)";
    check(550, "5.7.1", listed, Transient, "poor_reputation", Kept);
    for status in ["5.7.606", "5.7.620", "5.7.649"] {
        check(550, status, "Access denied, banned sending IP [192.0.2.1]", SenderFault, "blocklisted", Kept);
    }
    check(550, "5.7.511", "Access denied, banned sender [192.0.2.1]", SenderFault, "blocklisted", Kept);
    let spamhaus = "Service unavailable, client host [192.0.2.1] blocked using Spamhaus (AS16012611)";
    check(550, "5.7.1", spamhaus, SenderFault, "blocklisted", Kept);
    let dmarc = "Access denied: the sending domain does not pass DMARC verification";
    check(550, "5.7.509", dmarc, SenderFault, "sender_authentication", Kept);
    let level = "The domain does not meet the required authentication level";
    check(550, "5.7.515", level, SenderFault, "sender_authentication", Kept);
    for status in ["5.2.121", "5.2.122"] {
        let text = "The recipient is over the limit of messages that it takes per hour";
        check(554, status, text, Transient, "rate_limited", Kept);
    }
    check(552, "5.2.2", "The recipient's mailbox is full", Permanent, "mailbox_full", Kept);
    check(554, "5.2.2", "mailbox full", Permanent, "mailbox_full", Kept);
    for code in ["SC-001", "SC-004", "OU-001", "OU-002", "DY-001", "DY-002"] {
        let text = format!("{code} Mail rejected for policy reasons");
        check(550, "", &text, SenderFault, "blocklisted", Kept);
    }
}

#[test] // REQ CF-5
fn yahoo_and_apple() {
    let deferred = "[TSS04] Messages from 192.0.2.1 temporarily deferred due to complaints";
    check(421, "4.7.0", deferred, Transient, "poor_reputation", Kept);
    assert_eq!(wait(421, "4.7.0", deferred), Some(Span::from_hours(2)));
    check(421, "", "Max message per connection reached, reconnect", Transient, "connection_limit", Kept);
    check(450, "", "User is receiving mail too quickly", Transient, "rate_limited", Kept);
    check(451, "", "Resources temporarily unavailable", Transient, "temporary_failure", Kept);
    let from = "Message not accepted due to unresolvable RFC.5321 from domain";
    check(451, "", from, Transient, "sender_rejected", Kept);
    check(554, "", from, SenderFault, "sender_rejected", Kept);
    check(
        552,
        "",
        "1 Requested mail action aborted, mailbox not found",
        Permanent,
        "invalid_recipient",
        Suppressed,
    );
    let account = "delivery error: dd This user doesn't have a yahoo.com account";
    check(554, "", account, Permanent, "invalid_recipient", Suppressed);
    let disabled = "delivery error: this mailbox is disabled (554.30)";
    check(554, "", disabled, Permanent, "mailbox_disabled", Suppressed);
    for code in ["[BL21]", "[BL23]"] {
        let text = format!("{code} Connections not accepted from addresses on Spamhaus");
        check(553, "5.7.1", &text, SenderFault, "blocklisted", Kept);
    }
    for code in ["[TSS09]", "[TSS11]"] {
        let text = format!("{code} All messages from 192.0.2.1 will be permanently deferred");
        check(553, "5.7.2", &text, SenderFault, "poor_reputation", Kept);
    }
    check(554, "5.7.9", "Message not accepted for policy reasons", Permanent, "content_rejected", Kept);
    check(554, "", "[PH01] Message not allowed for policy reasons", Permanent, "content_rejected", Kept);
    check(
        550,
        "5.7.9",
        "This mail is refused: sender is unauthenticated",
        SenderFault,
        "sender_authentication",
        Kept,
    );

    check(421, "4.7.1", "Messages deferred due to excessive volume", Transient, "rate_limited", Kept);
    check(552, "5.2.2", "someone@icloud.com: user is over quota", Permanent, "mailbox_full", Kept);
    check(550, "5.1.6", "Recipient no longer on server", Permanent, "invalid_recipient", Suppressed);
    for code in [550, 554] {
        check(
            code,
            "5.7.1",
            "[CS01] Message rejected due to local policy",
            SenderFault,
            "spam_suspected",
            Kept,
        );
    }
}

#[test] // REQ CF-5
fn generic_servers() {
    check(450, "4.2.0", "Recipient address rejected: Greylisted", Transient, "greylisted", Kept);
    check(451, "4.7.1", "Greylisting in action, please come back", Transient, "greylisted", Kept);
    check(450, "4.1.1", "unverified address: verification in progress", Transient, "temporary_failure", Kept);
    for code in [550, 554] {
        let text = "Service unavailable; Client host [192.0.2.1] blocked using bl.example.org";
        check(code, "5.7.1", text, SenderFault, "blocklisted", Kept);
    }
    let dbl = "Message contains a domain blocked using dbl.spamhaus.org";
    check(554, "5.7.1", dbl, Permanent, "content_rejected", Kept);
    let uribl = "A link was blocked, see lookup.uribl.com";
    check(554, "5.7.1", uribl, Permanent, "content_rejected", Kept);
    for text in ["mx1.example.com: poor reputation of 192.0.2.1", "No SMTP service here"] {
        check(554, "", text, Transient, "refused_at_greeting", Kept);
        assert_eq!(meaning(Stage::Greeting, 554, "", text).category, "refused_at_greeting");
    }
    assert_eq!(meaning(Stage::Greeting, 554, "5.3.2", "not today").verdict, Transient);
    let table = "User unknown in virtual mailbox table";
    check(550, "5.1.1", table, Permanent, "invalid_recipient", Suppressed);
    check(554, "5.7.1", "<a@b.example>: Relay access denied", SenderFault, "relay_denied", Kept);
    check(550, "", "relaying denied", SenderFault, "relay_denied", Kept);
    check(553, "", "that domain is not in my list of allowed rcpthosts", SenderFault, "relay_denied", Kept);
    check(552, "5.1.1", "Recipient overquota OFR_417", Permanent, "mailbox_full", Kept);
    check(421, "", "Too many connections from your address", Transient, "connection_limit", Kept);
    let terra = "5.1.1 <a@terra.com.br>: Recipient address rejected";
    check(550, "5.1.1", terra, Permanent, "invalid_recipient", Suppressed);
    let cloudmark = "cmsmtp 5.7.1 192.0.2.1 blocked using cm-csi";
    check(554, "", cloudmark, SenderFault, "blocklisted", Kept);
    check(450, "4.4.1", "Connection timeout", Transient, "service_unavailable", Kept);
}

#[test] // REQ CF-4
fn basic_codes_without_words() {
    for code in [421, 450, 451, 452, 454, 455, 499] {
        assert_eq!(meaning(Stage::Request, code, "", "").verdict, Transient, "{code}");
    }
    for code in [500, 501, 502, 503, 504, 521, 550, 551, 552, 553, 554, 555, 556, 599] {
        assert_eq!(meaning(Stage::Request, code, "", "").verdict, Permanent, "{code}");
    }
    for code in [530, 534, 535, 538] {
        check(code, "", "", SenderFault, "login_refused", Kept);
    }
    check(552, "", "", Permanent, "mailbox_full", Kept);
    check(556, "", "Domain accepts no mail", Permanent, "accepts_no_mail", Suppressed);
}

#[test] // REQ CF-4
fn a_4_x_x_is_transient_whatever_the_basic_code() {
    for code in [421, 450, 500, 550, 552, 554] {
        check(
            code,
            "4.9.9",
            "no",
            Transient,
            if code == 421 { "service_unavailable" } else { "temporary_failure" },
            Kept,
        );
    }
    check(550, "4.1.1", "user unknown", Transient, "temporary_failure", Kept);
    check(554, "4.7.1", "listed in dbl.example.org", Transient, "temporary_failure", Kept);
    check(550, "4.7.0", "a potential security issue", Transient, "temporary_failure", Kept);
    check(554, "4.7.1", "Relay access denied", SenderFault, "relay_denied", Kept);
    check(450, "4.7.1", "Client host blocked using bl.example.org", SenderFault, "blocklisted", Kept);
}

#[test] // REQ CF-4
fn a_4yz_stays_transient_under_a_5_x_x() {
    check(450, "5.1.1", "user unknown", Transient, "temporary_failure", Kept);
    check(421, "5.7.1", "not now", Transient, "service_unavailable", Kept);
    check(454, "4.7.0", "Temporary authentication failure", Transient, "temporary_failure", Kept);
    check(451, "4.7.24", "SPF lookup: temporary error in DNS", Transient, "temporary_failure", Kept);
}

#[test] // REQ CF-5
fn passing_words_win_over_a_5_x_x() {
    check(550, "5.7.1", "Sending rate limit reached", Transient, "rate_limited", Kept);
    check(554, "5.3.0", "Please try again later", Transient, "temporary_failure", Kept);
    check(550, "5.2.0", "Mailbox temporarily unavailable", Transient, "temporary_failure", Kept);
    check(550, "", "Mailbox busy", Transient, "temporary_failure", Kept);
    check(554, "5.7.0", "Message deferred", Transient, "temporary_failure", Kept);
    check(550, "5.7.1", "You are graylisted", Transient, "greylisted", Kept);
    check(550, "5.7.0", "Too many messages from you", Transient, "rate_limited", Kept);
    check(550, "5.2.1", "The mailbox is temporarily disabled", Transient, "temporary_failure", Kept);
    check(550, "5.7.0", "Blocked for good, do not try again later", Permanent, "rejected", Kept);
}

#[test] // REQ CF-5
fn blame_wins_over_passing_words_and_never_suppresses() {
    check(
        550,
        "5.7.1",
        "Your IP address is temporarily blocked, listed by an RBL",
        SenderFault,
        "blocklisted",
        Kept,
    );
    check(550, "5.7.23", "SPF validation failed", SenderFault, "sender_authentication", Kept);
    check(550, "", "Rejected: DKIM signature did not verify", SenderFault, "sender_authentication", Kept);
    check(550, "", "message violates DMARC", SenderFault, "sender_authentication", Kept);
    check(550, "5.7.1", "Authentication required", SenderFault, "login_refused", Kept);
    check(535, "5.7.8", "Username and password not accepted", SenderFault, "login_refused", Kept);
    check(
        550,
        "5.1.8",
        "Sender address rejected: domain does not exist",
        SenderFault,
        "sender_rejected",
        Kept,
    );
    check(550, "5.1.8", "Sender <a@b.example> does not exist", SenderFault, "sender_rejected", Kept);
    check(550, "5.7.1", "Your account has been suspended", SenderFault, "account_suspended", Kept);
    check(550, "5.7.502", "Access denied", SenderFault, "blocklisted", Kept);
    assert_eq!(meaning(Stage::Auth, 550, "5.7.1", "no").verdict, SenderFault);
    assert_eq!(meaning(Stage::Mail, 550, "5.1.1", "user unknown").verdict, SenderFault);
}

#[test] // REQ CF-5, CF-7
fn a_fault_of_the_client_holds_the_relay_and_a_fault_of_the_sender_its_domain() {
    let scope = |code: u16, status: &str, text: &str| {
        let seen = meaning(Stage::Request, code, status, text);
        assert_eq!((seen.verdict, seen.destination_fault), (SenderFault, false), "{text}");
        seen.scope
    };
    for (code, status, text) in [
        (535, "5.7.8", "Username and password not accepted"),
        (554, "5.7.1", "Relay access denied"),
        (554, "5.7.1", "Client host [192.0.2.1] blocked using zen.example"),
        (550, "5.7.25", "no PTR record"),
        (550, "5.7.1", "your account is suspended"),
    ] {
        assert_eq!(scope(code, status, text), Scope::Channel, "{text}");
    }
    for (code, status, text) in [
        (550, "5.7.26", "fails to pass authentication checks: DMARC policy"),
        (550, "5.1.8", "Sender address rejected: Domain not found"),
        (554, "", "Message rejected: Email address is not verified"),
    ] {
        assert_eq!(scope(code, status, text), Scope::Destination, "{text}");
    }
}

#[test] // REQ CF-5
fn portuguese_is_read_with_and_without_its_accents_and_when_they_were_lost() {
    for text in
        ["Usuário inexistente", "usuario inexistente", "usu\u{fffd}rio inexistente", "UsuÃ¡rio inexistente"]
    {
        check(550, "5.1.1", text, Permanent, "invalid_recipient", Suppressed);
        check(550, "", text, Permanent, "invalid_recipient", Suppressed);
    }
    check(550, "", "Usuário ou senha inválidos", SenderFault, "login_refused", Kept);
    check(550, "", "Remetente inexistente", SenderFault, "sender_rejected", Kept);
}

#[test] // REQ CF-4
fn an_enhanced_code_alone_tells_a_refusal_from_a_delay() {
    let of = |text: &str| {
        let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
        rules.classify(&read::error(ChannelKind::Smtp, text)).unwrap().verdict
    };
    assert_eq!((of("5.1.1 unknown user"), of("4.2.1 not now")), (Permanent, Transient));
}

#[test] // REQ CF-5
fn a_550_is_permanent_when_nothing_says_otherwise() {
    check(550, "", "Requested action not taken", Permanent, "mailbox_unavailable", Kept);
    check(550, "5.7.1", "Message refused", Permanent, "policy_rejected", Kept);
    check(550, "5.1.1", "", Permanent, "invalid_recipient", Suppressed);
    check(550, "", "No such user here", Permanent, "invalid_recipient", Suppressed);
}

#[test] // REQ CF-5
fn a_full_mailbox_is_transient_under_4yz_and_permanent_without_suppression_under_5yz() {
    check(452, "4.2.2", "over quota", Transient, "mailbox_full", Kept);
    check(452, "", "mailbox is full", Transient, "mailbox_full", Kept);
    check(552, "5.2.2", "over quota", Permanent, "mailbox_full", Kept);
    check(550, "", "the mailbox of the recipient is full", Permanent, "mailbox_full", Kept);
}

#[test] // REQ CF-5
fn an_address_refused_before_the_recipient_was_named_suppresses_nobody() {
    assert!(meaning(Stage::Rcpt, 553, "", "not allowed").suppress);
    assert!(!meaning(Stage::Mail, 553, "", "not allowed").suppress);
}

#[test] // REQ CF-5
fn a_phrase_is_found_across_folded_lines() {
    let folded =
        "4.7.0 [192.0.2.1] suspicious due to the very low\r\n421-4.7.0 reputation of the\n4.7.0   sending IP";
    check(421, "4.7.0", folded, Transient, "poor_reputation", Kept);
}

#[test] // REQ CF-8
fn a_greylisting_reply_waits_as_long_as_it_says_or_five_minutes() {
    assert_eq!(wait(451, "4.7.1", "Greylisted, see our page"), Some(Span::from_mins(5)));
    assert_eq!(wait(451, "4.7.1", "Greylisted, try again in 600 seconds"), Some(Span::from_mins(10)));
    assert_eq!(wait(450, "", "Please retry in 2 minutes"), Some(Span::from_mins(2)));
    assert_eq!(wait(550, "5.1.1", "No such user, try again in 2 minutes"), None);
}

#[test] // REQ CF-4
fn a_handshake_that_fails_is_transient_and_keeps_the_policys_delay() {
    let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
    let fault = Fault { kind: FaultKind::Tls, text: "certificate expired".to_owned() };
    let meaning = rules.classify(&Reply::Unreachable(fault)).unwrap();
    assert_eq!((meaning.verdict, meaning.wait), (Transient, None));
}

fn any_words() -> impl Strategy<Value = String> {
    let real = prop::sample::select(vec![
        "try again later",
        "user unknown",
        "mailbox full",
        "blocked using bl.example",
        "spf fail",
        "does not exist",
        "account disabled",
        "no such user",
        "authentication required",
        "policy that prohibits",
        "virus",
        "blocked by recipient",
        "dbl.example",
        "potential security issue",
        "temporarily",
        "5.1.1",
    ]);
    prop_oneof!["\\PC*", prop::collection::vec(real, 0..4).prop_map(|words| words.join(" "))]
}

proptest! {
    #[test] // REQ CF-4
    fn a_4yz_is_permanent_only_where_a_rule_names_its_words(
        code in 400u16..500, class in 2u8..6, subject in 0u16..9, detail in 0u16..1000, text in any_words(),
    ) {
        let enhanced = Some(Enhanced { class, subject, detail });
        let refusal = Refusal { status: Some(code), enhanced, text, ..Refusal::default() };
        let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
        let meaning = rules.classify(&Reply::Refused(refusal)).unwrap();
        prop_assert!(meaning.verdict != Permanent || meaning.rule.as_deref() == Some("smtp:gmail-content"));
        prop_assert!(!meaning.suppress);
    }

    #[test] // REQ CF-4
    fn a_4_x_x_is_never_permanent_and_never_suppresses(
        code in 400u16..600, subject in 0u16..9, detail in 0u16..1000, text in any_words(),
    ) {
        let enhanced = Some(Enhanced { class: 4, subject, detail });
        let refusal = Refusal { status: Some(code), enhanced, text, ..Refusal::default() };
        let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
        let meaning = rules.classify(&Reply::Refused(refusal)).unwrap();
        prop_assert!(meaning.verdict != Permanent, "{:?}", meaning);
    }

    #[test] // REQ CF-4
    fn every_4yz_and_5yz_is_known(code in 400u16..600, text in any_words()) {
        let refusal = Refusal { status: Some(code), text, ..Refusal::default() };
        let rules = Rules::for_kind(ChannelKind::Smtp, &[]).unwrap();
        prop_assert!(rules.classify(&Reply::Refused(refusal)).unwrap().rule.is_some());
    }
}
