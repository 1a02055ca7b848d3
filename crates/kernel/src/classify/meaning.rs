//! What a category says to somebody who reads a report, and knows neither rules nor providers.

use crate::kind::ChannelKind;

/// What a category means where messages go to persons; its own words, where it is known to nobody but the channel's
/// rules.
pub fn in_words(kind: ChannelKind, category: &str) -> String {
    if (kind, category) == (ChannelKind::Evolution, "invalid_recipient") {
        return "the number is not on WhatsApp".to_owned();
    }
    let found = WORDS.iter().find(|(known, _)| *known == category);
    found.map_or_else(|| category.replace('_', " "), |(_, words)| (*words).to_owned())
}

/// The categories of built-in rules for channels that write to persons.
const WORDS: &[(&str, &str)] = &[
    // About the recipient.
    ("invalid_recipient", "there is nobody at this address"),
    ("invalid_domain", "the part behind the @ does not exist, or takes no mail"),
    ("accepts_no_mail", "this address accepts no mail"),
    ("address_rejected", "the recipient's server refuses this address"),
    ("mailbox_disabled", "the mailbox is closed"),
    ("mailbox_full", "the mailbox is full"),
    ("mailbox_unavailable", "the mailbox cannot be reached"),
    ("cannot_be_routed", "no way leads to this address"),
    ("routing_loop", "the recipient's mail goes round in circles"),
    ("recipient_policy", "the recipient's server does not take mail from us for this address"),
    ("recipient_frequency", "this person was written to too often"),
    ("opted_out", "this person wants no messages of this kind"),
    (
        "conversation_window",
        "this person has not written within 24 hours, so only an approved template may be sent",
    ),
    // About the message.
    ("invalid_content", "the provider does not take what the message says"),
    ("bad_content", "what the message says does not suit the channel"),
    ("content_rejected", "the recipient's server refuses what the message says"),
    ("message_too_large", "the message is too large"),
    ("media_unavailable", "an attachment could not be fetched"),
    ("template_error", "the template could not be filled"),
    ("template_rejected", "the provider refuses the template"),
    ("spam_suspected", "the message was taken for spam"),
    ("validation_error", "the provider does not take the message as it is"),
    ("unprocessable", "the provider does not take the message as it is"),
    ("bad_request", "the provider does not take the message as it is"),
    ("unsupported_media_type", "the provider does not take this kind of content"),
    ("invalid_from", "the sender's address is not valid"),
    ("duplicate_message_id", "the server takes it for a message that it has seen"),
    ("rejected", "the recipient's server refuses the message"),
    ("policy_rejected", "the recipient's server refuses the message by its policy"),
    ("security_error", "the provider refuses the message for security reasons"),
    // About us.
    ("unauthorized", "the provider does not accept our key"),
    ("forbidden", "the provider does not allow us this"),
    ("proxy_unauthorized", "a proxy on the way does not accept us"),
    ("invalid_api_key", "the provider does not accept our key"),
    ("invalid_permission", "our key may not do this"),
    ("login_refused", "the mail server does not accept our login"),
    ("account_suspended", "our account with the provider is suspended"),
    ("account_quota", "our account with the provider is used up"),
    ("daily_quota", "our limit for the day is used up"),
    ("monthly_quota", "our limit for the month is used up"),
    ("unlicensed", "Evolution has no licence"),
    ("unknown_instance", "there is no such WhatsApp instance"),
    ("unknown_route", "the provider's address is not right"),
    ("redirected", "the provider's address is not right"),
    ("not_configured", "the channel is not configured"),
    ("instance_closed", "the WhatsApp instance is not connected"),
    ("instance_logged_out", "the WhatsApp instance is logged out"),
    ("meta_account", "something is wrong with our WhatsApp account"),
    ("unverified_sender", "the sender's domain is not verified"),
    ("sender_authentication", "the sender's domain is not authenticated (SPF, DKIM, DMARC)"),
    ("sender_rejected", "the server refuses the sender's address"),
    ("poor_reputation", "the server does not trust our reputation"),
    ("blocklisted", "our address is on a block list"),
    ("missing_ptr", "our mail server's address has no name"),
    ("helo_rejected", "the server does not accept our mail server's name"),
    ("relay_denied", "the mail server does not pass our mail on"),
    // About the provider, or the way there.
    ("dns_failure", "the provider's name could not be looked up"),
    ("dns_not_found", "the provider's name does not exist"),
    ("connection_refused", "the provider could not be reached"),
    ("connection_reset", "the connection to the provider broke"),
    ("connection_limit", "the provider allows no more connections"),
    ("timeout", "the provider did not answer in time"),
    ("request_timeout", "the provider did not answer in time"),
    ("socket_timeout", "the provider did not answer in time"),
    ("gateway_timeout", "the provider did not answer in time"),
    ("socket_closed", "WhatsApp's connection was closed"),
    ("instance_connecting", "the WhatsApp instance is still connecting"),
    ("instance_not_loaded", "the WhatsApp instance is not running"),
    ("tls", "no secure connection to the provider was possible"),
    ("protocol_error", "the provider answered in a way that makes no sense"),
    ("no_message_key", "the provider did not confirm the message"),
    ("address_blocked", "the provider's address may not be reached from here"),
    ("interrupted", "sending was interrupted, and nobody knows whether it was sent"),
    ("rate_limited", "the provider asked for a slower pace"),
    ("too_many_recipients", "the provider asked for a slower pace"),
    ("too_early", "the provider was not ready"),
    ("greylisted", "the recipient's server asked to come back later"),
    ("temporary_failure", "the recipient's server could not take it just then"),
    ("refused_at_greeting", "the server took no mail just then"),
    ("bad_gateway", "the provider had a failure"),
    ("service_unavailable", "the provider was not available"),
    ("server_error", "the provider had a failure"),
    ("bare_exception", "the provider had a failure"),
    ("meta_error", "WhatsApp had a failure"),
    ("not_found", "the provider does not know what was asked for"),
    ("method_not_allowed", "the provider does not know what was asked for"),
    ("command_rejected", "the mail server does not understand what was asked for"),
    ("batch_refused", "the provider refused several messages together"),
    ("request_in_progress", "the provider is still busy with an earlier try"),
    ("resource_locked", "the provider is still busy with an earlier try"),
    ("invalid_idempotency_key", "the provider does not take our key for this message"),
    ("idempotency_conflict", "the provider has another message under the same key"),
    ("webhook_removed", "the webhook was removed"),
    ("unknown", "it failed for a reason that is not known"),
    // By hand.
    ("marked_failed", "somebody marked it as failed"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Rules;

    #[test] // REQ BK-7
    fn every_category_of_a_channel_that_writes_to_persons_has_words() {
        for kind in [ChannelKind::Evolution, ChannelKind::Smtp, ChannelKind::Resend] {
            let rules = Rules::for_kind(kind, &[]).unwrap();
            for (id, rule) in rules.iter() {
                let known = WORDS.iter().any(|(category, _)| *category == rule.category);
                assert!(known, "{id}: {} has no words", rule.category);
            }
        }
        assert_eq!(in_words(ChannelKind::Evolution, "invalid_recipient"), "the number is not on WhatsApp");
        assert_eq!(in_words(ChannelKind::Smtp, "invalid_recipient"), "there is nobody at this address");
        assert_eq!(in_words(ChannelKind::Null, "own_rule"), "own rule");
    }
}
