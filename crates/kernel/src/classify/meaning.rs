//! What a category says to somebody who reads a report, and knows neither rules nor providers.

use crate::alert::Language;
use crate::kind::ChannelKind;

/// What a category means where messages go to persons; its own words, where it is known to nobody but the channel's
/// rules.
pub fn in_words(kind: ChannelKind, category: &str) -> String {
    said(kind, category, Language::En)
}

/// The same in that language.
pub fn said(kind: ChannelKind, category: &str, language: Language) -> String {
    let say = |en: &str, pt: &str| match language {
        Language::En => en.to_owned(),
        Language::PtBr => pt.to_owned(),
    };
    if (kind, category) == (ChannelKind::Evolution, "invalid_recipient") {
        return say("the number is not on WhatsApp", "o número não está no WhatsApp");
    }
    let found = WORDS.iter().find(|(known, ..)| *known == category);
    found.map_or_else(|| category.replace('_', " "), |(_, en, pt)| say(en, pt))
}

/// The categories of built-in rules for channels that write to persons.
const WORDS: &[(&str, &str, &str)] = &[
    // About the recipient.
    ("invalid_recipient", "there is nobody at this address", "não há ninguém neste endereço"),
    (
        "invalid_domain",
        "the part behind the @ does not exist, or takes no mail",
        "a parte depois do @ não existe ou não recebe e-mail",
    ),
    ("accepts_no_mail", "this address accepts no mail", "este endereço não aceita e-mail"),
    (
        "address_rejected",
        "the recipient's server refuses this address",
        "o servidor do destinatário recusa este endereço",
    ),
    ("mailbox_disabled", "the mailbox is closed", "a caixa postal está fechada"),
    ("mailbox_full", "the mailbox is full", "a caixa postal está cheia"),
    ("mailbox_unavailable", "the mailbox cannot be reached", "a caixa postal não está acessível"),
    ("cannot_be_routed", "no way leads to this address", "nenhum caminho leva a este endereço"),
    (
        "routing_loop",
        "the recipient's mail goes round in circles",
        "o e-mail do destinatário anda em círculos",
    ),
    (
        "recipient_policy",
        "the recipient's server does not take mail from us for this address",
        "o servidor do destinatário não aceita nosso e-mail para este endereço",
    ),
    ("recipient_frequency", "this person was written to too often", "esta pessoa recebeu mensagens demais"),
    ("opted_out", "this person wants no messages of this kind", "esta pessoa não quer mensagens deste tipo"),
    (
        "conversation_window",
        "this person has not written within 24 hours, so only an approved template may be sent",
        "esta pessoa não escreveu nas últimas 24 horas, então só um modelo aprovado pode ser enviado",
    ),
    // About the message.
    (
        "invalid_content",
        "the provider does not take what the message says",
        "o provedor não aceita o que a mensagem diz",
    ),
    (
        "bad_content",
        "what the message says does not suit the channel",
        "o que a mensagem diz não serve para o canal",
    ),
    (
        "content_rejected",
        "the recipient's server refuses what the message says",
        "o servidor do destinatário recusa o que a mensagem diz",
    ),
    ("message_too_large", "the message is too large", "a mensagem é grande demais"),
    ("media_unavailable", "an attachment could not be fetched", "um anexo não pôde ser obtido"),
    ("template_error", "the template could not be filled", "o modelo não pôde ser preenchido"),
    ("template_rejected", "the provider refuses the template", "o provedor recusa o modelo"),
    ("spam_suspected", "the message was taken for spam", "a mensagem foi tomada por spam"),
    (
        "validation_error",
        "the provider does not take the message as it is",
        "o provedor não aceita a mensagem como ela está",
    ),
    (
        "unprocessable",
        "the provider does not take the message as it is",
        "o provedor não aceita a mensagem como ela está",
    ),
    (
        "bad_request",
        "the provider does not take the message as it is",
        "o provedor não aceita a mensagem como ela está",
    ),
    (
        "unsupported_media_type",
        "the provider does not take this kind of content",
        "o provedor não aceita este tipo de conteúdo",
    ),
    ("invalid_from", "the sender's address is not valid", "o endereço do remetente não é válido"),
    (
        "duplicate_message_id",
        "the server takes it for a message that it has seen",
        "o servidor acha que já viu esta mensagem",
    ),
    (
        "rejected",
        "the recipient's server refuses the message",
        "o servidor do destinatário recusa a mensagem",
    ),
    (
        "policy_rejected",
        "the recipient's server refuses the message by its policy",
        "o servidor do destinatário recusa a mensagem por política própria",
    ),
    (
        "security_error",
        "the provider refuses the message for security reasons",
        "o provedor recusa a mensagem por segurança",
    ),
    // About us.
    ("unauthorized", "the provider does not accept our key", "o provedor não aceita nossa chave"),
    ("forbidden", "the provider does not allow us this", "o provedor não nos permite isto"),
    ("proxy_unauthorized", "a proxy on the way does not accept us", "um proxy no caminho não nos aceita"),
    ("invalid_api_key", "the provider does not accept our key", "o provedor não aceita nossa chave"),
    ("invalid_permission", "our key may not do this", "nossa chave não pode fazer isto"),
    (
        "login_refused",
        "the mail server does not accept our login",
        "o servidor de e-mail não aceita nosso login",
    ),
    (
        "account_suspended",
        "our account with the provider is suspended",
        "nossa conta no provedor está suspensa",
    ),
    ("account_quota", "our account with the provider is used up", "nossa conta no provedor se esgotou"),
    ("daily_quota", "our limit for the day is used up", "nosso limite do dia se esgotou"),
    ("monthly_quota", "our limit for the month is used up", "nosso limite do mês se esgotou"),
    ("unlicensed", "Evolution has no licence", "a Evolution está sem licença"),
    ("unknown_instance", "there is no such WhatsApp instance", "esta instância de WhatsApp não existe"),
    ("unknown_route", "the provider's address is not right", "o endereço do provedor não está certo"),
    ("redirected", "the provider's address is not right", "o endereço do provedor não está certo"),
    ("not_configured", "the channel is not configured", "o canal não está configurado"),
    (
        "instance_closed",
        "the WhatsApp instance is not connected",
        "a instância de WhatsApp não está conectada",
    ),
    (
        "instance_logged_out",
        "the WhatsApp instance is logged out",
        "a instância de WhatsApp está desconectada da conta",
    ),
    (
        "meta_account",
        "something is wrong with our WhatsApp account",
        "há algo errado com nossa conta do WhatsApp",
    ),
    (
        "unverified_sender",
        "the sender's domain is not verified",
        "o domínio do remetente não está verificado",
    ),
    (
        "sender_authentication",
        "the sender's domain is not authenticated (SPF, DKIM, DMARC)",
        "o domínio do remetente não está autenticado (SPF, DKIM, DMARC)",
    ),
    (
        "sender_rejected",
        "the server refuses the sender's address",
        "o servidor recusa o endereço do remetente",
    ),
    (
        "poor_reputation",
        "the server does not trust our reputation",
        "o servidor não confia em nossa reputação",
    ),
    ("blocklisted", "our address is on a block list", "nosso endereço está numa lista de bloqueio"),
    (
        "missing_ptr",
        "our mail server's address has no name",
        "o endereço do nosso servidor de e-mail não tem nome",
    ),
    (
        "helo_rejected",
        "the server does not accept our mail server's name",
        "o servidor não aceita o nome do nosso servidor de e-mail",
    ),
    (
        "relay_denied",
        "the mail server does not pass our mail on",
        "o servidor de e-mail não repassa nosso e-mail",
    ),
    // About the provider, or the way there.
    (
        "dns_failure",
        "the provider's name could not be looked up",
        "o nome do provedor não pôde ser consultado",
    ),
    ("dns_not_found", "the provider's name does not exist", "o nome do provedor não existe"),
    ("connection_refused", "the provider could not be reached", "não foi possível alcançar o provedor"),
    ("connection_reset", "the connection to the provider broke", "a conexão com o provedor caiu"),
    ("connection_limit", "the provider allows no more connections", "o provedor não permite mais conexões"),
    ("timeout", "the provider did not answer in time", "o provedor não respondeu a tempo"),
    ("request_timeout", "the provider did not answer in time", "o provedor não respondeu a tempo"),
    ("socket_timeout", "the provider did not answer in time", "o provedor não respondeu a tempo"),
    ("gateway_timeout", "the provider did not answer in time", "o provedor não respondeu a tempo"),
    ("socket_closed", "WhatsApp's connection was closed", "a conexão do WhatsApp foi fechada"),
    (
        "instance_connecting",
        "the WhatsApp instance is still connecting",
        "a instância de WhatsApp ainda está conectando",
    ),
    (
        "instance_not_loaded",
        "the WhatsApp instance is not running",
        "a instância de WhatsApp não está em execução",
    ),
    (
        "tls",
        "no secure connection to the provider was possible",
        "não foi possível uma conexão segura com o provedor",
    ),
    (
        "protocol_error",
        "the provider answered in a way that makes no sense",
        "o provedor respondeu de um jeito que não faz sentido",
    ),
    ("no_message_key", "the provider did not confirm the message", "o provedor não confirmou a mensagem"),
    (
        "address_blocked",
        "the provider's address may not be reached from here",
        "o endereço do provedor não pode ser alcançado daqui",
    ),
    (
        "interrupted",
        "sending was interrupted, and nobody knows whether it was sent",
        "o envio foi interrompido, e ninguém sabe se foi feito",
    ),
    ("rate_limited", "the provider asked for a slower pace", "o provedor pediu um ritmo mais lento"),
    ("too_many_recipients", "the provider asked for a slower pace", "o provedor pediu um ritmo mais lento"),
    ("too_early", "the provider was not ready", "o provedor não estava pronto"),
    (
        "greylisted",
        "the recipient's server asked to come back later",
        "o servidor do destinatário pediu para voltar mais tarde",
    ),
    (
        "temporary_failure",
        "the recipient's server could not take it just then",
        "o servidor do destinatário não pôde receber naquele momento",
    ),
    (
        "refused_at_greeting",
        "the server took no mail just then",
        "o servidor não recebia e-mail naquele momento",
    ),
    ("bad_gateway", "the provider had a failure", "o provedor teve uma falha"),
    ("service_unavailable", "the provider was not available", "o provedor estava indisponível"),
    ("server_error", "the provider had a failure", "o provedor teve uma falha"),
    ("bare_exception", "the provider had a failure", "o provedor teve uma falha"),
    ("meta_error", "WhatsApp had a failure", "o WhatsApp teve uma falha"),
    ("not_found", "the provider does not know what was asked for", "o provedor não conhece o que foi pedido"),
    (
        "method_not_allowed",
        "the provider does not know what was asked for",
        "o provedor não conhece o que foi pedido",
    ),
    (
        "command_rejected",
        "the mail server does not understand what was asked for",
        "o servidor de e-mail não entende o que foi pedido",
    ),
    (
        "batch_refused",
        "the provider refused several messages together",
        "o provedor recusou várias mensagens juntas",
    ),
    (
        "request_in_progress",
        "the provider is still busy with an earlier try",
        "o provedor ainda está ocupado com uma tentativa anterior",
    ),
    (
        "resource_locked",
        "the provider is still busy with an earlier try",
        "o provedor ainda está ocupado com uma tentativa anterior",
    ),
    (
        "invalid_idempotency_key",
        "the provider does not take our key for this message",
        "o provedor não aceita nossa chave para esta mensagem",
    ),
    (
        "idempotency_conflict",
        "the provider has another message under the same key",
        "o provedor tem outra mensagem com a mesma chave",
    ),
    ("webhook_removed", "the webhook was removed", "o webhook foi removido"),
    ("unknown", "it failed for a reason that is not known", "falhou por um motivo desconhecido"),
    // By hand.
    ("marked_failed", "somebody marked it as failed", "alguém a marcou como falha"),
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
                let known = WORDS.iter().any(|(category, ..)| *category == rule.category);
                assert!(known, "{id}: {} has no words", rule.category);
            }
        }
        assert_eq!(in_words(ChannelKind::Evolution, "invalid_recipient"), "the number is not on WhatsApp");
        assert_eq!(in_words(ChannelKind::Smtp, "invalid_recipient"), "there is nobody at this address");
        assert_eq!(in_words(ChannelKind::Null, "own_rule"), "own rule");
    }
}
