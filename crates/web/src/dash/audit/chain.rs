//! Whether the record is whole: the signed ends of the chain, and a walk over it from its beginning.

use maud::{Markup, html};
use pombo_kernel::time::Time;
use serde::Deserialize;

use crate::dash::parts::{Tone, ago, badge, copied, encoded, prose, table, time};
use crate::dash::sheet::Sheet;
use crate::dash::visit::Visit;
use crate::problem::Problem;

/// Anchors that are listed.
const LISTED: usize = 10;
/// Pieces of the chain that are looked at for one page, which is to be there within a tenth of a second.
const PIECES: usize = 4;

#[derive(Deserialize)]
struct Anchors {
    items: Vec<Anchor>,
}

#[derive(Deserialize)]
struct Anchor {
    number: u64,
    position: u64,
    hash: String,
    at: Time,
    key: String,
}

/// How far the chain was found to hold.
#[derive(Deserialize)]
struct Walked {
    records: u64,
    of: u64,
    broken: Option<Broken>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Broken {
    block: u64,
    reason: String,
}

/// What is known of the chain's end, in a line.
pub(super) async fn end(visit: &Visit) -> Result<Markup, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let anchors: Anchors = visit.ask("/v1/audit/anchors", "", "limit=1").await?;
    Ok(html! {
        p .row {
            @match anchors.items.first() {
                Some(last) => {
                    (badge(Tone::Ok, lang.say("signed", "assinada")))
                    span { (lang.say(
                        format!("The chain was last signed at record {}", lang.number(last.position)),
                        format!("A cadeia foi assinada pela última vez no registro {}", lang.number(last.position)),
                    )) }
                    span .quiet { (ago(look, last.at)) }
                },
                None => {
                    (badge(Tone::Wait, lang.say("not signed yet", "ainda sem assinatura")))
                    span .quiet { (lang.say("The end of the chain has not been signed yet.", "O fim da cadeia ainda não foi assinado.")) }
                },
            }
            a href="/audit/chain" { (lang.say("Check the chain", "Conferir a cadeia")) }
        }
    })
}

/// The chain: what it is for, how far it holds, and who signed its ends.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let anchors: Anchors = visit.ask("/v1/audit/anchors", "", &format!("limit={LISTED}")).await?;
    let walked = match visit.asked("check") {
        None => None,
        Some(_) => Some(walk(&visit).await?),
    };
    let title = lang.say("Signed ends", "Fins assinados");
    let rows: Vec<Markup> = anchors
        .items
        .iter()
        .map(|it| {
            html! { tr {
                th scope="row" .num { (it.number) }
                td { (time(look, it.at)) }
                td .num { (lang.number(it.position)) }
                td { code .clip title=(it.hash) { (it.hash) } }
                td { code .clip title=(it.key) { (it.key) } }
            } }
        })
        .collect();
    let columns = [
        "#Nº",
        lang.say("When", "Quando"),
        lang.say("#Records", "#Registros"),
        lang.say("Hash", "Hash"),
        lang.say("Public key", "Chave pública"),
    ];
    let html = html! {
        section .card aria-labelledby="walk-title" {
            header { h2 #walk-title { (lang.say("Does it hold?", "Está íntegra?")) } }
            p { (lang.say(
                "Every record is bound to those before it, so that a change shows. This walks over them from the first one, as far as one look goes.",
                "Cada registro é ligado aos anteriores, então uma mudança aparece. Isto percorre os registros desde o primeiro, até onde uma olhada alcança.",
            )) }
            @if let Some(walked) = &walked { (found(&visit, walked)) }
            @else { a .button.primary href="/audit/chain?check=1" { (lang.say("Check now", "Conferir agora")) } }
            p .hint { (prose(lang.say(
                "What only signatures can show, that the newest records were cut off, is checked from outside with",
                "O que só as assinaturas mostram, que os registros mais novos foram cortados, confere-se de fora com",
            ))) " " (copied("pombo audit verify")) }
        }
        section .card aria-labelledby="anchors-title" {
            header { h2 #anchors-title { (title) } }
            @if rows.is_empty() { p .quiet { (lang.say("None yet: the first one is made after some hours or some thousand records.", "Nenhum ainda: o primeiro é feito após algumas horas ou alguns milhares de registros.")) } }
            @else { (table(title, &columns, &rows)) }
        }
    };
    Ok(Sheet::new(lang.say("Audit chain", "Cadeia de auditoria")).still(html))
}

/// Looks at some pieces, from the beginning or from where an earlier look ended.
async fn walk(visit: &Visit) -> Result<Walked, Problem> {
    let mut cursor = visit.asked("cursor");
    let mut looked = 0;
    loop {
        let query = cursor.as_ref().map(|cursor| format!("cursor={}", encoded(cursor))).unwrap_or_default();
        let walked: Walked = visit.ask("/v1/audit/verify", "", &query).await?;
        looked += 1;
        if walked.broken.is_some() || walked.next_cursor.is_none() || looked == PIECES {
            return Ok(walked);
        }
        cursor = walked.next_cursor;
    }
}

fn found(visit: &Visit, walked: &Walked) -> Markup {
    let lang = visit.lang();
    let (records, of) = (lang.number(walked.records), lang.number(walked.of));
    html! {
        @match (&walked.broken, &walked.next_cursor) {
            (Some(broken), _) => p role="alert" {
                (badge(Tone::Bad, lang.say("broken", "quebrada"))) " "
                (lang.say(format!("Block {} does not hold: {}.", broken.block, broken.reason), format!("O bloco {} não confere: {}.", broken.block, broken.reason)))
            },
            (None, Some(next)) => {
                p { (badge(Tone::Wait, lang.say("so far it holds", "até aqui íntegra"))) " " (lang.say(format!("{records} of {of} records."), format!("{records} de {of} registros."))) }
                p { a .button.primary href=(format!("/audit/chain?check=1&cursor={}", encoded(next))) { (lang.say("Go on", "Continuar")) } }
            },
            (None, None) => p role="status" {
                (badge(Tone::Ok, lang.say("it holds", "íntegra"))) " "
                (lang.say(format!("All {records} records, from the first to the last."), format!("Todos os {records} registros, do primeiro ao último.")))
            },
        }
    }
}
