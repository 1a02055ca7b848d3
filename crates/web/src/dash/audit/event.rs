//! What the audit calls things, in the reader's language.

use pombo_store::audit::Event;

use crate::dash::words::Lang;

/// An event by its name; one that is not known is shown as it was written.
pub(crate) fn said(lang: Lang, name: &str) -> String {
    let known = Event::ALL.into_iter().find(|event| event.as_str() == name);
    lang.say(None, known.map(portuguese)).map_or_else(|| name.replace('_', " "), str::to_owned)
}

fn portuguese(event: Event) -> &'static str {
    match event {
        Event::Accepted => "aceita",
        Event::Claimed => "em envio",
        Event::Sent => "enviada",
        Event::RetryScheduled => "nova tentativa marcada",
        Event::Failed => "falhou",
        Event::Held => "devolvida à fila, sem contar",
        Event::Released => "devolvida sem envio",
        Event::Cancelled => "cancelada",
        Event::Expired => "prazo vencido",
        Event::Discarded => "descartada",
        Event::Reprocessed => "reprocessada",
        Event::TakenOver => "assumida por outro nó",
        Event::Delivery => "relato do provedor",
        Event::Edited => "corrigida",
        Event::Hastened => "adiantada",
        Event::Blocked => "canal bloqueado",
        Event::Unblocked => "canal desbloqueado",
        Event::Paused => "envio pausado",
        Event::Resumed => "envio retomado",
        Event::KeyAdded => "chave criada",
        Event::KeyChanged => "chave alterada",
        Event::KeyRemoved => "chave revogada",
        Event::TemplatePut => "modelo gravado",
        Event::WebhookPut => "webhook gravado",
        Event::WebhookRemoved => "webhook removido",
        Event::SuppressionPut => "supressão gravada",
        Event::SuppressionRemoved => "supressão removida",
        Event::RetryDecided => "decisão: tentar de novo",
        Event::RetriesExhausted => "decisão: tentativas esgotadas",
        Event::PermanentErrorFound => "decisão: erro permanente",
        Event::OperationStarted => "operação iniciada",
        Event::OperationEnded => "operação terminada",
        Event::CampaignCreated => "campanha criada",
        Event::CampaignChanged => "campanha alterada",
        Event::CampaignScheduled => "campanha agendada",
        Event::CampaignStarted => "campanha iniciada",
        Event::CampaignPaused => "campanha pausada",
        Event::CampaignResumed => "campanha retomada",
        Event::CampaignCompleted => "campanha concluída",
        Event::CampaignCancelled => "campanha cancelada",
        Event::CampaignRemoved => "campanha removida",
        Event::RecipientsListed => "destinatários listados",
        Event::AlertFired => "alerta disparado",
        Event::AlertResolved => "alerta resolvido",
        Event::AlertAcknowledged => "alerta assumido",
        Event::AlertSilenced => "alerta silenciado",
        Event::AlertUnsilenced => "silêncio encerrado",
        Event::Revealed => "dados revelados",
        Event::Erased => "dados apagados",
        Event::Exported => "registros exportados",
        Event::Pruned => "retenção aplicada",
        Event::Anchored => "cadeia assinada",
        Event::LoggedIn => "entrou no painel",
        Event::LoggedOut => "saiu do painel",
        Event::Rekeyed => "chave de cifra trocada",
        Event::ReportSent => "relatório enviado",
        Event::RuleAccepted => "regra aceita",
        Event::RuleRemoved => "regra removida",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_told_from_every_other() {
        for lang in Lang::ALL {
            let mut words: Vec<String> = Event::ALL.iter().map(|event| said(lang, event.as_str())).collect();
            words.sort();
            words.dedup();
            assert_eq!(words.len(), Event::ALL.len());
        }
    }

    #[test]
    fn an_event_of_a_newer_version_is_shown_as_it_was_written() {
        assert_eq!(said(Lang::Pt, "moon_landed"), "moon landed");
        assert_eq!(
            (said(Lang::En, "key_added"), said(Lang::Pt, "key_added")),
            ("key added".into(), "chave criada".into())
        );
    }
}
