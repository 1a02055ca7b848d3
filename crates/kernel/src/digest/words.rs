//! What a team is told of its dead letters, in its language.

use serde_json::json;

use super::{Cause, Digest};
use crate::alert::{Language, counted};
use crate::name::ChannelName;
use crate::notice::{Letter, Page, Part, Row};
use crate::time::Time;
use crate::window::Zone;

/// The letter with a digest. `link` is where people can look at dead letters; times are of that zone.
pub fn letter(digest: &Digest, link: Option<&str>, zone: &Zone, language: Language) -> Letter {
    let words = Words::of(language);
    let clock = |at: Time| zone.written(at, "%Y-%m-%d %H:%M:%S");
    let (team, count) = (&digest.team, digest.count);
    let letters = counted(count, words.letter, words.letters);
    let still = if digest.goes_on { words.more } else { "" };
    let title = format!("{team}: {still}{count} {letters}");
    let shown: u64 = digest.causes.iter().map(|cause| cause.count).sum();
    let row = |cause: &Cause| {
        let channel = cause.channel.as_ref().map_or(words.claims, ChannelName::as_str);
        let text = if cause.text.is_empty() { String::new() } else { format!(": {}", cause.text) };
        let message = cause.message.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
        Row {
            line: format!("{} × {channel}, {}, {}{text}{message}", cause.count, cause.reason, cause.category),
            cells: vec![
                cause.count.to_string(),
                channel.to_owned(),
                cause.reason.to_string(),
                cause.category.clone(),
                cause.text.clone(),
                clock(cause.last_at),
                cause.message.clone().unwrap_or_default(),
            ],
        }
    };
    let mut rows: Vec<Row> = digest.causes.iter().map(row).collect();
    if let Some(beyond @ 1..) = count.checked_sub(shown) {
        let line = format!("{beyond} × {}", words.beyond);
        rows.push(Row { cells: vec![beyond.to_string(), words.beyond.to_owned()], line });
    }
    let page = Page {
        title: title.clone(),
        intro: vec![
            format!("{}{count} {letters}.", words.now),
            format!("{}: {}", words.first, clock(digest.first_at)),
            format!("{}: {} ({zone})", words.last, clock(digest.last_at)),
        ],
        parts: vec![Part {
            heading: words.causes.to_owned(),
            columns: words.columns.map(str::to_owned).into(),
            rows,
        }],
        outro: link
            .map(|link| format!("{}: {link}", words.look))
            .into_iter()
            .chain([
                format!("{}: pombo dead groups", words.command),
                format!("{} {}.", words.next, clock(digest.next_at)),
            ])
            .collect(),
    };
    let data = json!({
        "type": "dead_letters.digest",
        "timestamp": digest.at,
        "data": {
            "team": team,
            "count": count,
            "first_at": digest.first_at,
            "last_at": digest.last_at,
            "goes_on": digest.goes_on,
            "next_at": digest.next_at,
            "causes": digest.causes,
            "link": link,
        },
    });
    Letter { subject: format!("[Pombo] {title}"), text: page.text(), html: Some(page.html()), data }
}

struct Words {
    letter: &'static str,
    letters: &'static str,
    more: &'static str,
    now: &'static str,
    first: &'static str,
    last: &'static str,
    causes: &'static str,
    columns: [&'static str; 7],
    beyond: &'static str,
    /// Claims that others submit.
    claims: &'static str,
    look: &'static str,
    command: &'static str,
    next: &'static str,
}

impl Words {
    fn of(language: Language) -> Words {
        match language {
            Language::En => Words {
                letter: "dead letter",
                letters: "dead letters",
                more: "still more, ",
                now: "New and waiting for somebody to decide: ",
                first: "First seen",
                last: "Last seen",
                causes: "By cause",
                columns: ["Count", "Channel", "Reason", "Category", "Sample", "Last seen", "Message"],
                beyond: "of other causes",
                claims: "claims of others",
                look: "Look",
                command: "Command",
                next: "Should it go on, the next digest comes at",
            },
            Language::PtBr => Words {
                letter: "mensagem morta",
                letters: "mensagens mortas",
                more: "continua, mais ",
                now: "Novas e à espera de uma decisão: ",
                first: "Vista primeiro",
                last: "Vista por último",
                causes: "Por causa",
                columns: [
                    "Quantidade",
                    "Canal",
                    "Motivo",
                    "Categoria",
                    "Amostra",
                    "Vista por último",
                    "Mensagem",
                ],
                beyond: "de outras causas",
                claims: "contas de terceiros",
                look: "Ver",
                command: "Comando",
                next: "Se continuar, o próximo resumo vem às",
            },
        }
    }
}
