//! What people are told of an alert, in their language.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::jump::BACK;
use super::{Alert, RuleName, Sample, Unit};
use crate::name::ChannelName;
use crate::notice::Letter;
use crate::time::{Span, Time};

/// Which language notices are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Language {
    #[default]
    #[serde(rename = "en")]
    En,
    #[serde(rename = "pt-BR")]
    PtBr,
}

/// Why people are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    Fired,
    Reminder,
    Resolved,
}

impl Why {
    /// As programs know it.
    pub fn kind(self) -> &'static str {
        match self {
            Why::Fired => "alert.fired",
            Why::Reminder => "alert.reminder",
            Why::Resolved => "alert.resolved",
        }
    }
}

impl Language {
    /// A number with so many digits behind the mark that the language has for it.
    pub fn number(self, value: f64, digits: usize) -> String {
        let text = format!("{value:.digits$}");
        match self {
            Language::En => text,
            Language::PtBr => text.replace('.', ","),
        }
    }

    /// A part of 1, in hundredths: `12.5 %`, or `12,5 %`.
    pub fn share(self, value: f64) -> String {
        let text = self.number(value * 100.0, 1);
        let whole = text.strip_suffix('0').and_then(|text| text.strip_suffix(['.', ',']));
        format!("{} %", whole.unwrap_or(&text))
    }
}

/// One of the two, by how many there are.
pub(crate) fn counted<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// A number as people read it: `120`, `12.5 %`, `6m12s`, `8.2 σ`, `300 MB`.
pub fn shown(unit: Unit, value: f64, language: Language) -> String {
    match unit {
        Unit::Count => format!("{value:.0}"),
        Unit::Share => language.share(value),
        Unit::Time => {
            let span = Span::from_millis(1).scaled(value);
            let whole = Span::from_secs(span.millis() / 1_000);
            if span.millis() < 10_000 { span.to_string() } else { whole.to_string() }
        }
        Unit::Deviations => format!("{} σ", language.number(value, 1)),
        Unit::Megabytes => format!("{value:.0} MB"),
    }
}

/// What is wrong, in one sentence.
pub fn sentence(alert: &Alert, language: Language) -> String {
    let unit = alert.rule.unit();
    let (value, above) = (shown(unit, alert.value, language), shown(unit, alert.above, language));
    let (count, of, window) = (alert.count, alert.of.unwrap_or(alert.count), alert.window);
    let detail = alert.subject.detail.as_deref().unwrap_or_default();
    let channel = alert.subject.channel.as_ref().map_or(detail, ChannelName::as_str);
    use RuleName as R;
    match language {
        Language::En => {
            let messages = counted(of, "message", "messages");
            match alert.rule {
                R::DeadLetters => {
                    let letters = counted(count, "dead letter waits", "dead letters wait");
                    format!("{value} {letters} for somebody to decide (more than {above})")
                }
                R::FailureRate => {
                    format!(
                        "{channel}: {value} of {of} {messages} failed within {window} (more than {above})"
                    )
                }
                R::ProcessingTime => {
                    format!(
                        "{channel}: a message has been due for {value} and is not sent (more than {above})"
                    )
                }
                R::PastDue => {
                    let are = counted(count, "message is", "messages are");
                    format!("{value} {are} past due (more than {above})")
                }
                R::TemplateFailing => format!(
                    "{channel}: template {detail}: {value} of {of} {messages} failed within {window} (more than {above})"
                ),
                R::NoScheduling => {
                    let are = counted(count, "message is", "messages are");
                    format!("nothing was tried for {value} although {count} {are} due (more than {above})")
                }
                R::MaxRetries => format!(
                    "{channel}: {value} of {of} {messages} used up their attempts within {window} (more than {above})"
                ),
                R::PermanentErrors => format!(
                    "{channel}: {value} of {of} {messages} met a permanent error within {window} (more than {above})"
                ),
                R::DecisionTime => format!("a retry decision took {value} (more than {above})"),
                R::ClaimDeadline => {
                    let wait = counted(count, "claim waits, and its", "claims wait, and their");
                    format!("{channel}: {value} {wait} deadline ends within {window}")
                }
                R::ChannelHeld => format!("{channel} is held: its messages wait"),
                R::BreakerOpen if count == 1 => {
                    format!("{channel}: a breaker is open: what is behind it is down")
                }
                R::BreakerOpen => {
                    format!("{channel}: {value} breakers are open: what is behind them is down")
                }
                R::Anomaly => {
                    let times = counted(count, "time", "times");
                    format!(
                        "{channel}: {detail} came up {count} {times} within {window}, {value} above what is usual at this hour"
                    )
                }
                R::StoreUnwritable => format!("the store could not be written for {value}"),
                R::AuditBroken => "the audit chain does not hold".to_owned(),
                R::DiskLow => format!("the store's disk is {value} full (more than {above})"),
                R::LogLarge => format!(
                    "the store's log has grown to {value} (more than {above}): somebody keeps reading its file"
                ),
                R::ClockJumped if detail == BACK => {
                    format!("the clock went back by {value} (more than {above}): what is due waits longer")
                }
                R::ClockJumped => {
                    format!(
                        "the clock jumped ahead by {value} (more than {above}): what was due by then goes now"
                    )
                }
            }
        }
        Language::PtBr => {
            let messages = counted(of, "mensagem", "mensagens");
            match alert.rule {
                R::DeadLetters => {
                    let letters = counted(count, "mensagem morta espera", "mensagens mortas esperam");
                    format!("{value} {letters} uma decisão (mais de {above})")
                }
                R::FailureRate => {
                    format!("{channel}: {value} de {of} {messages} com falha em {window} (mais de {above})")
                }
                R::ProcessingTime => {
                    format!("{channel}: uma mensagem venceu há {value} e não foi enviada (mais de {above})")
                }
                R::PastDue => {
                    let are = counted(count, "mensagem está atrasada", "mensagens estão atrasadas");
                    format!("{value} {are} (mais de {above})")
                }
                R::TemplateFailing => format!(
                    "{channel}: modelo {detail}: {value} de {of} {messages} com falha em {window} (mais de {above})"
                ),
                R::NoScheduling => {
                    let have = counted(count, "mensagem tenha", "mensagens tenham");
                    format!("nada foi tentado há {value}, embora {count} {have} vencido (mais de {above})")
                }
                R::MaxRetries => format!(
                    "{channel}: {value} de {of} {messages} sem mais tentativas em {window} (mais de {above})"
                ),
                R::PermanentErrors => format!(
                    "{channel}: {value} de {of} {messages} com erro permanente em {window} (mais de {above})"
                ),
                R::DecisionTime => format!("uma decisão de retry levou {value} (mais de {above})"),
                R::ClaimDeadline => {
                    let wait =
                        counted(count, "conta espera, e o prazo dela", "contas esperam, e o prazo delas");
                    format!("{channel}: {value} {wait} termina em {window}")
                }
                R::ChannelHeld => format!("{channel} está retido: as mensagens dele esperam"),
                R::BreakerOpen if count == 1 => {
                    format!("{channel}: um disjuntor está aberto: o que está atrás dele caiu")
                }
                R::BreakerOpen => {
                    format!("{channel}: {value} disjuntores abertos: o que está atrás deles caiu")
                }
                R::Anomaly => {
                    let times = counted(count, "vez", "vezes");
                    format!(
                        "{channel}: {detail} ocorreu {count} {times} em {window}, {value} acima do normal para esta hora"
                    )
                }
                R::StoreUnwritable => format!("não foi possível gravar por {value}"),
                R::AuditBroken => "a cadeia de auditoria não confere".to_owned(),
                R::DiskLow => format!("o disco está {value} cheio (mais de {above})"),
                R::LogLarge => format!(
                    "o log do armazenamento cresceu para {value} (mais de {above}): alguém continua lendo o arquivo"
                ),
                R::ClockJumped if detail == BACK => {
                    format!("o relógio voltou {value} (mais de {above}): o que tem hora espera mais")
                }
                R::ClockJumped => {
                    format!("o relógio adiantou {value} (mais de {above}): o que tinha hora até lá sai agora")
                }
            }
        }
    }
}

/// The letter that tells of an alert. `link` is where people can look at it.
pub fn letter(alert: &Alert, id: &str, why: Why, link: Option<&str>, language: Language) -> Letter {
    let words = Words::of(language);
    let sentence = sentence(alert, language);
    let head = match why {
        Why::Fired => words.severities[usize::from(alert.severity.code()) - 1],
        Why::Reminder => words.still,
        Why::Resolved => words.resolved,
    };
    let unit = alert.rule.unit();
    let mut text = format!("{sentence}.\n\n");
    let mut say = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{name}: {value}\n"));
        }
    };
    say(words.rule, alert.rule.as_str());
    say(words.about, &alert.subject.to_string());
    say(words.first, &alert.first_seen.to_string());
    say(words.last, &alert.last_seen.to_string());
    say(words.over, &alert.resolved_at.map(|at: Time| at.to_string()).unwrap_or_default());
    say(words.peak, &shown(unit, alert.peak, language));
    say(
        words.count,
        &alert.of.map_or_else(|| alert.count.to_string(), |of| format!("{} / {of}", alert.count)),
    );
    for sample in &alert.samples {
        say(words.sample, &line(sample));
    }
    say(words.link, link.unwrap_or_default());
    say(words.command, &format!("pombo alerts show {id}"));
    let data = json!({
        "type": why.kind(),
        "timestamp": match why {
            Why::Fired => alert.fired_at,
            Why::Reminder => alert.told_at,
            Why::Resolved => alert.resolved_at.unwrap_or(alert.last_seen),
        },
        "data": {
            "id": id,
            "summary": sentence,
            "alert": serde_json::to_value(alert).unwrap_or(Value::Null),
            "link": link,
        },
    });
    Letter { subject: format!("[Pombo] {head}: {sentence}"), text, html: None, data }
}

fn line(sample: &Sample) -> String {
    let channel = sample.channel.as_ref().map(|channel| format!("{channel} ")).unwrap_or_default();
    let count = if sample.count > 1 { format!(" ×{}", sample.count) } else { String::new() };
    let text = if sample.text.is_empty() { String::new() } else { format!(": {}", sample.text) };
    let message = sample.message.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
    format!("{channel}{}{count}{text}{message}", sample.what)
}

struct Words {
    severities: [&'static str; 3],
    still: &'static str,
    resolved: &'static str,
    rule: &'static str,
    about: &'static str,
    first: &'static str,
    last: &'static str,
    over: &'static str,
    peak: &'static str,
    count: &'static str,
    sample: &'static str,
    link: &'static str,
    command: &'static str,
}

impl Words {
    fn of(language: Language) -> Words {
        match language {
            Language::En => Words {
                severities: ["info", "warning", "critical"],
                still: "still",
                resolved: "resolved",
                rule: "Rule",
                about: "About",
                first: "First seen",
                last: "Last seen",
                over: "Resolved",
                peak: "Highest",
                count: "Count",
                sample: "Sample",
                link: "Look",
                command: "Command",
            },
            Language::PtBr => Words {
                severities: ["informação", "aviso", "crítico"],
                still: "continua",
                resolved: "resolvido",
                rule: "Regra",
                about: "Sobre",
                first: "Visto primeiro",
                last: "Visto por último",
                over: "Resolvido",
                peak: "Máximo",
                count: "Quantidade",
                sample: "Amostra",
                link: "Ver",
                command: "Comando",
            },
        }
    }
}
