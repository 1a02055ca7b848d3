//! What a report says, in the language of whoever reads it.

use serde_json::{Value, json};

use super::{Every, Figure, Figures, Part as Share, Period};
use crate::alert::Language;
use crate::kpi::{Family, Kpi, Unit};
use crate::notice::{Letter, Page, Part, Row};
use crate::time::{Span, Time};

/// The letter with a report's figures. `link` is where people can look further.
pub fn letter(
    figures: &Figures,
    period: &Period,
    link: Option<&str>,
    language: Language,
    now: Time,
) -> Letter {
    let page = page(figures, period, link, language);
    let data = json!({
        "type": "report",
        "timestamp": now,
        "data": serde_json::to_value(figures).unwrap_or(Value::Null),
    });
    let (subject, text) = (format!("[Pombo] {}", page.title), page.text());
    Letter { subject, text, html: Some(page.html()), data }
}

fn page(figures: &Figures, period: &Period, link: Option<&str>, language: Language) -> Page {
    let words = Words::of(language);
    let dates = match period.first == period.last {
        true => period.first.to_string(),
        false => format!("{} – {}", period.first, period.last),
    };
    let kind = match figures.every {
        Every::Day => words.kinds[0],
        Every::Week => words.kinds[1],
        Every::Month => words.kinds[2],
    };
    let rate =
        |share: Option<f64>| share.map_or_else(|| words.none.to_owned(), |share| language.share(share));
    let row = |label: &str, value: String| Row {
        line: format!("{label}: {value}"),
        cells: vec![label.to_owned(), value],
    };
    let part = |share: &Share| format!("{} ({})", share.count, rate(share.share));
    let totals = &figures.totals;
    let [accepted, sent, failed, cancelled, delivery] = words.totals;
    let [retries, retried, rescued, success] = words.retries;
    let effect = &figures.retries;
    let mut effects = vec![
        row(retries, totals.retries.to_string()),
        row(retried, effect.retried.to_string()),
        row(rescued, effect.sent_after_retry.to_string()),
        row(success, rate(effect.success_rate)),
    ];
    effects.extend(effect.attempts.iter().map(|it| {
        row(
            &format!("{} {}", words.attempt, it.number),
            format!("{} {}, {} {} ({})", it.made, words.made, it.sent, words.sent, rate(it.rate)),
        )
    }));
    let channels = figures.channels.iter().map(|it| {
        let counts = [it.sent, it.failed, it.permanent_errors, it.exhausted_retries];
        let named = words.counts.iter().zip(counts).map(|(name, count)| format!("{count} {name}"));
        Row {
            line: format!("{}: {}", it.channel, named.collect::<Vec<_>>().join(", ")),
            cells: std::iter::once(it.channel.to_string())
                .chain(counts.map(|count| count.to_string()))
                .collect(),
        }
    });
    let causes = figures.causes.iter().map(|it| {
        let text = if it.text.is_empty() { String::new() } else { format!(": {}", it.text) };
        Row {
            line: format!("{} × {}, {}{text}", it.count, it.channel, it.category),
            cells: vec![it.count.to_string(), it.channel.to_string(), it.category.clone(), it.text.clone()],
        }
    });
    let table = |heading: &str, columns: &[&str], rows: Vec<Row>| Part {
        heading: heading.to_owned(),
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows,
    };
    let two = &["", ""];
    let given_up = vec![
        row(words.permanent, part(&figures.permanent_errors)),
        row(words.exhausted, part(&figures.exhausted_retries)),
    ];
    let mut channel_columns = vec![words.channel];
    channel_columns.extend(words.counts);
    Page {
        title: format!("{kind} {}: {dates}", figures.report),
        intro: vec![format!("{dates}, {}.", figures.time_zone)],
        parts: vec![
            table(
                words.headings[0],
                two,
                vec![
                    row(accepted, totals.accepted.to_string()),
                    row(sent, totals.sent.to_string()),
                    row(failed, totals.failed.to_string()),
                    row(cancelled, totals.cancelled.to_string()),
                    row(delivery, rate(totals.delivery_rate)),
                ],
            ),
            table(words.headings[1], two, given_up),
            table(words.headings[2], two, effects),
            table(
                words.headings[3],
                &words.figure_columns,
                figures.kpis.iter().map(|it| figure(it, &words, language)).collect(),
            ),
            table(words.headings[4], &channel_columns, channels.collect()),
            table(
                words.headings[5],
                &words.error_columns,
                figures.errors.iter().map(|it| row(&it.category, it.count.to_string())).collect(),
            ),
            table(
                &format!("{} ({})", words.headings[6], figures.dead_letters),
                &words.cause_columns,
                causes.collect(),
            ),
        ],
        outro: link
            .map(|link| format!("{}: {link}", words.look))
            .into_iter()
            .chain([format!(
                "{}: pombo reports show {} --date {}",
                words.command, figures.report, period.first
            )])
            .collect(),
    }
}

fn figure(it: &Figure, words: &Words, language: Language) -> Row {
    let shown = |value: f64| match it.unit {
        Unit::Share => language.share(value),
        Unit::Seconds => Span::from_secs(1).scaled(value).to_string(),
    };
    let family = words.families[usize::from(it.family == Family::Claims)];
    let week = if it.over_week { words.over_week } else { "" };
    let name = format!("{} ({family}{week})", words.kpi(it.id));
    let value = it.value.map_or_else(|| words.none.to_owned(), shown);
    let target = format!("{} {}", it.comparison, shown(it.target));
    let met = match it.met {
        Some(true) => words.met,
        Some(false) => words.missed,
        None => words.none,
    };
    Row {
        line: match it.met {
            Some(_) => format!("{name}: {value}, {} {target}: {met}", words.target),
            None => format!("{name}: {value}, {} {target}", words.target),
        },
        cells: vec![name, value, target, met.to_owned()],
    }
}

struct Words {
    kinds: [&'static str; 3],
    headings: [&'static str; 7],
    totals: [&'static str; 5],
    permanent: &'static str,
    exhausted: &'static str,
    retries: [&'static str; 4],
    attempt: &'static str,
    made: &'static str,
    sent: &'static str,
    channel: &'static str,
    counts: [&'static str; 4],
    figure_columns: [&'static str; 4],
    error_columns: [&'static str; 2],
    cause_columns: [&'static str; 4],
    families: [&'static str; 2],
    over_week: &'static str,
    target: &'static str,
    met: &'static str,
    missed: &'static str,
    none: &'static str,
    look: &'static str,
    command: &'static str,
    kpis: [&'static str; 8],
}

impl Words {
    fn kpi(&self, kpi: Kpi) -> &'static str {
        let place = Kpi::ALL.iter().position(|it| *it == kpi).unwrap_or_default();
        self.kpis[place]
    }

    fn of(language: Language) -> Words {
        match language {
            Language::En => Words {
                kinds: ["Daily report", "Weekly report", "Monthly report"],
                headings: [
                    "Messages and claims",
                    "Given up",
                    "What retries come to",
                    "Figures and targets",
                    "By channel",
                    "Failures of attempts",
                    "Dead letters that wait now",
                ],
                totals: ["Accepted", "Sent", "Failed", "Cancelled", "Delivery rate"],
                permanent: "Permanent errors",
                exhausted: "Exhausted retries",
                retries: ["Retries", "Messages with a retry", "Sent after a retry", "Success with retry"],
                attempt: "Attempt",
                made: "made",
                sent: "sent",
                channel: "Channel",
                counts: ["sent", "failed", "permanent", "exhausted"],
                figure_columns: ["Figure", "Value", "Target", ""],
                error_columns: ["Category", "Count"],
                cause_columns: ["Count", "Channel", "Category", "Sample"],
                families: ["messages", "claims"],
                over_week: ", 7 days",
                target: "target",
                met: "met",
                missed: "missed",
                none: "nothing to judge by",
                look: "Look",
                command: "Command",
                kpis: [
                    "Final delivery",
                    "Mean time to delivery",
                    "Recovery of first failures",
                    "Definitive failures",
                    "Success with retry",
                    "Mean time to success",
                    "Permanent errors",
                    "Exhausted retries",
                ],
            },
            Language::PtBr => Words {
                kinds: ["Relatório diário", "Relatório semanal", "Relatório mensal"],
                headings: [
                    "Mensagens e contas",
                    "Sem sucesso",
                    "Efetividade do retry",
                    "Indicadores e metas",
                    "Por canal",
                    "Falhas de tentativas",
                    "Mensagens mortas que esperam agora",
                ],
                totals: ["Aceitas", "Enviadas", "Com falha", "Canceladas", "Taxa de entrega"],
                permanent: "Erros permanentes",
                exhausted: "Tentativas esgotadas",
                retries: ["Retries", "Mensagens com retry", "Enviadas após retry", "Sucesso com retry"],
                attempt: "Tentativa",
                made: "feitas",
                sent: "enviadas",
                channel: "Canal",
                counts: ["enviadas", "com falha", "permanentes", "esgotadas"],
                figure_columns: ["Indicador", "Valor", "Meta", ""],
                error_columns: ["Categoria", "Quantidade"],
                cause_columns: ["Quantidade", "Canal", "Categoria", "Amostra"],
                families: ["mensagens", "contas"],
                over_week: ", 7 dias",
                target: "meta",
                met: "atingida",
                missed: "não atingida",
                none: "nada a avaliar",
                look: "Ver",
                command: "Comando",
                kpis: [
                    "Entrega final",
                    "Tempo médio até a entrega",
                    "Recuperação de primeiras falhas",
                    "Falhas definitivas",
                    "Sucesso com retry",
                    "Tempo médio até o sucesso",
                    "Erros permanentes",
                    "Tentativas esgotadas",
                ],
            },
        }
    }
}
