//! What to do about a cause of dead letters, in plain words.

use crate::dash::parts::Tone;
use crate::dash::words::Lang;

/// What kind of work a cause is. The order is that in which it is best done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// Something is wrong with us: sent again before that is put right, everything fails again.
    Mend,
    /// Nobody knows whether it went out.
    Check,
    /// The message has to say something else, or go to somebody else.
    Correct,
    /// It was the other side, and has passed or will pass.
    Resend,
    /// Nothing will come of it.
    GiveUp,
}

impl Work {
    pub(crate) const ALL: [Work; 5] = [Work::Mend, Work::Check, Work::Correct, Work::Resend, Work::GiveUp];

    /// As an address names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Mend => "mend",
            Work::Check => "check",
            Work::Correct => "correct",
            Work::Resend => "resend",
            Work::GiveUp => "give-up",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }

    pub(crate) fn words(self, lang: Lang) -> &'static str {
        match self {
            Work::Mend => lang.say("Fix on our side", "Consertar do nosso lado"),
            Work::Check => lang.say("Check first", "Conferir antes"),
            Work::Correct => lang.say("Correct and resubmit", "Corrigir e reenviar"),
            Work::Resend => lang.say("Send again", "Enviar de novo"),
            Work::GiveUp => lang.say("Give up", "Desistir"),
        }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Work::Mend => Tone::Bad,
            Work::Check => Tone::Held,
            Work::Correct | Work::Resend => Tone::Wait,
            Work::GiveUp => Tone::Quiet,
        }
    }
}

/// What is suggested: the kind of work, and a sentence about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remedy {
    pub(crate) work: Work,
    en: &'static str,
    pt: &'static str,
}

impl Remedy {
    /// For an error of that category. One that nobody knows is to be looked at.
    pub(crate) fn of(category: &str) -> Remedy {
        let row = REMEDIES.iter().find(|(categories, _)| categories.contains(&category));
        row.map_or(LOOK, |(_, remedy)| *remedy)
    }

    pub(crate) fn said(self, lang: Lang) -> &'static str {
        lang.say(self.en, self.pt)
    }
}

const fn to(work: Work, en: &'static str, pt: &'static str) -> Remedy {
    Remedy { work, en, pt }
}

const LOOK: Remedy = to(
    Work::Check,
    "Read what the provider answered on one of them; then send one again, or correct it.",
    "Leia em uma delas o que o provedor respondeu; depois reenvie uma, ou corrija.",
);

#[rustfmt::skip]
const REMEDIES: &[(&[&str], Remedy)] = &[
    (&["unauthorized", "forbidden", "invalid_api_key", "invalid_permission", "login_refused", "invalid_login", "proxy_unauthorized"], to(
        Work::Mend,
        "Renew the channel's key or password, release the channel, then send these again.",
        "Renove a chave ou senha do canal, libere o canal e depois reenvie estas.",
    )),
    (&["unverified_sender", "sender_authentication", "sender_rejected", "missing_ptr", "helo_rejected", "relay_denied", "invalid_from"], to(
        Work::Mend,
        "Put the sender right: its address, its verified domain, SPF, DKIM and DMARC. Then send these again.",
        "Acerte o remetente: endereço, domínio verificado, SPF, DKIM e DMARC. Depois reenvie estas.",
    )),
    (&["blocklisted", "poor_reputation", "spam_suspected", "policy_rejected"], to(
        Work::Mend,
        "Our address has a bad name there. See to that first; sending more makes it worse.",
        "Nosso endereço está malvisto por lá. Resolva isso antes; enviar mais só piora.",
    )),
    (&["account_suspended", "account_quota", "daily_quota", "monthly_quota", "unlicensed", "meta_account"], to(
        Work::Mend,
        "Put our account with the provider in order, or wait for its next period. Then send these again.",
        "Regularize nossa conta no provedor, ou espere o próximo período. Depois reenvie estas.",
    )),
    (&["instance_closed", "instance_logged_out", "unknown_instance", "instance_not_loaded"], to(
        Work::Mend,
        "Connect the WhatsApp instance again (scan its QR code), then send these again.",
        "Conecte de novo a instância de WhatsApp (leia o QR code) e depois reenvie estas.",
    )),
    (&["not_configured", "unknown_route", "redirected", "wrong_address", "certificate", "tls", "dns_not_found", "address_blocked", "method_not_allowed", "provider_contract", "registry_or_version", "webhook_removed"], to(
        Work::Mend,
        "Put the channel's settings right: address, certificate, what was agreed with the provider. Test the channel, then send these again.",
        "Acerte a configuração do canal: endereço, certificado, o que foi combinado com o provedor. Teste o canal e depois reenvie estas.",
    )),
    (&["template_error", "template_rejected"], to(
        Work::Correct,
        "Put the template right, or the values that it is filled with. An edited letter takes the template's latest version.",
        "Acerte o modelo, ou os dados que o preenchem. Uma mensagem corrigida usa a versão mais nova do modelo.",
    )),
    (&["interrupted", "outcome_unknown", "duplicate_message_id", "idempotency_conflict", "invalid_idempotency_key", "no_message_key", "request_in_progress", "resource_locked"], to(
        Work::Check,
        "It may have arrived. Ask the provider or whoever should have it, then send again or discard.",
        "Pode ter chegado. Confira com o provedor ou com quem deveria receber; depois reenvie ou descarte.",
    )),
    (&["invalid_recipient", "invalid_domain", "address_rejected", "cannot_be_routed", "routing_loop", "gone", "not_found"], to(
        Work::Correct,
        "Look the address up and correct it, then resubmit. If there is no other, discard.",
        "Confira e corrija o endereço, depois reenvie. Se não houver outro, descarte.",
    )),
    (&["mailbox_disabled", "accepts_no_mail", "opted_out", "recipient_policy"], to(
        Work::GiveUp,
        "Whoever it is for does not take it. Reach them by another way, and discard it with a note.",
        "Quem deveria receber não aceita. Fale por outro meio e descarte com uma observação.",
    )),
    (&["invalid_content", "bad_content", "content_rejected", "message_too_large", "media_unavailable", "validation_error", "unprocessable", "bad_request", "unsupported_media_type", "invalid_message", "rejected", "security_error"], to(
        Work::Correct,
        "Read in the answer what the provider does not take. Correct that, check the difference, and resubmit.",
        "Leia na resposta o que o provedor não aceita. Corrija, confira a diferença e reenvie.",
    )),
    (&["invalid_patient_data", "insurance_expired", "paperwork"], to(
        Work::Correct,
        "Have the registration desk correct the patient's data, then resubmit.",
        "Peça ao cadastro que corrija os dados do paciente, depois reenvie.",
    )),
    (&["invalid_procedure_code", "items", "dates", "pricing", "clinical", "authorization_denied", "denied"], to(
        Work::Correct,
        "Have billing correct the claim: procedure, dates, values, authorisation. Then resubmit.",
        "Peça ao faturamento que corrija a guia: procedimento, datas, valores, autorização. Depois reenvie.",
    )),
    (&["duplicate_claim", "pending_analysis"], to(
        Work::Check,
        "The payer has it already. Look it up there before anything is sent again.",
        "O convênio já a tem. Consulte lá antes de reenviar qualquer coisa.",
    )),
    (&["recipient_frequency", "conversation_window"], to(
        Work::Check,
        "This person may not be written to just now. Wait for their answer, or send an approved template.",
        "Não se pode escrever a esta pessoa agora. Espere a resposta dela, ou envie um modelo aprovado.",
    )),
    (&["expired"], to(
        Work::Check,
        "Its time has passed. Send it again only if it still makes sense to whoever gets it; else discard.",
        "O prazo passou. Reenvie só se ainda fizer sentido para quem recebe; senão, descarte.",
    )),
    (&["timeout", "request_timeout", "socket_timeout", "gateway_timeout", "connection_refused", "connection_reset", "connection_error", "connection_limit", "network_error", "socket_closed", "instance_connecting", "dns_failure", "bad_gateway", "service_unavailable", "server_error", "bare_exception", "meta_error", "protocol_error", "authorizer_unavailable", "transfer_incomplete", "too_early", "temporary_failure", "refused_at_greeting", "greylisted", "batch_refused", "command_rejected"], to(
        Work::Resend,
        "The other side was down. Test the channel; if it answers, send these again, one ahead of the others.",
        "O outro lado estava fora do ar. Teste o canal; se responder, reenvie estas, uma antes das outras.",
    )),
    (&["rate_limited", "too_many_recipients", "mailbox_full", "mailbox_unavailable"], to(
        Work::Resend,
        "Send these again later, at a slower pace.",
        "Reenvie mais tarde, num ritmo mais lento.",
    )),
    (&["marked_failed"], to(
        Work::Check,
        "Somebody set it aside by hand. Read the note before you send it again.",
        "Alguém a separou à mão. Leia a observação antes de reenviar.",
    )),
];

#[cfg(test)]
mod tests {
    use pombo_kernel::classify::Rules;
    use pombo_kernel::kind::ChannelKind;

    use super::*;

    #[test] // REQ DL-2
    fn every_category_of_a_built_in_rule_has_a_remedy_of_its_own() {
        let without: Vec<String> = ChannelKind::ALL
            .iter()
            .filter_map(|kind| Rules::for_kind(*kind, &[]).ok())
            .flat_map(|rules| rules.iter().map(|(_, rule)| rule.category.to_string()).collect::<Vec<_>>())
            .filter(|category| !["", "accepted", "unknown"].contains(&category.as_str()))
            .filter(|category| Remedy::of(category) == LOOK)
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn a_category_has_one_remedy() {
        let mut all: Vec<&str> =
            REMEDIES.iter().flat_map(|(categories, _)| categories.iter().copied()).collect();
        let before = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), before);
    }

    #[test]
    fn what_nobody_knows_is_to_be_looked_at() {
        assert_eq!(Remedy::of("own_rule").work, Work::Check);
        assert_eq!(Work::of_name("resend"), Some(Work::Resend));
        assert_eq!(Work::of_name("nothing"), None);
    }
}
