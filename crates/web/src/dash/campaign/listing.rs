//! How a list comes in: a file or pasted lines, then what its columns are, and then everybody on it.
//!
//! Between the two pages the list is kept nowhere but on the second one, as a field of its form.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use maud::{Markup, html};
use pombo_kernel::listing::{Glance, glance};
use pombo_kernel::suppression::Family;
use pombo_kernel::template::{Compiled, Template};
use serde::Deserialize;
use serde_json::Value;

use super::find;
use crate::api;
use crate::dash::campaigns::{Campaign, address};
use crate::dash::form::Form;
use crate::dash::parts::{self, file_form, form, query};
use crate::dash::reasons;
use crate::dash::sheet::Sheet;
use crate::dash::template::Words;
use crate::dash::visit::{Reply, Visit};
use crate::dash::words::Lang;
use crate::problem::{FieldError, Problem};

const IMPORT: &str = "/v1/campaigns/{id}/recipients";
/// The largest list that is taken here. What is larger is streamed by the command line, whatever its length.
const LIST_BYTES: usize = 8 * 1024 * 1024;
/// Values of a column that are shown.
const SAMPLES: usize = 3;
/// The column of addresses, as a choice and in the list that is handed on.
const TO: &str = "to";

/// What became of the lines.
#[derive(Deserialize)]
struct Imported {
    added: u64,
    duplicates: u64,
    invalid: u64,
}

/// Where the list is handed in.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let campaign = find(&visit).await?;
    handing(&visit, &campaign, None, "").await
}

async fn handing(
    visit: &Visit,
    campaign: &Campaign,
    problem: Option<&Problem>,
    pasted: &str,
) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let base = address(&campaign.id);
    let needed = needed(visit, campaign).await;
    let needed: Vec<&String> = needed.iter().filter(|name| !campaign.payload.contains_key(*name)).collect();
    let content = html! {
        section .card {
            p { (lang.say(
                "A CSV file with a heading, as a spreadsheet saves it. Commas, semicolons and tabs, UTF-8 and Latin-1 are told apart by themselves. On the next page you say what each column is.",
                "Um arquivo CSV com cabeçalho, como uma planilha salva. Vírgulas, ponto e vírgula e tabulação, UTF-8 e Latin-1 são reconhecidos sozinhos. Na próxima página você diz o que é cada coluna.",
            )) }
            @if !needed.is_empty() {
                p { (lang.say("The template needs, for each person:", "O modelo precisa, para cada pessoa:")) " " span .chips { @for name in &needed { code { (name) } " " } } }
            }
            div .field {
                label for="f-file" { (lang.say("File", "Arquivo")) }
                input id="f-file" type="file" name="file" accept=".csv,.txt,text/csv,text/plain" aria-describedby="file-hint";
                p .hint #file-hint { (lang.say("Up to 8 MB. Longer lists go by ", "Até 8 MB. Listas maiores vão por ")) code { "pombo campaigns add " (campaign.id) " FILE" } "." }
            }
            details .more open[!pasted.is_empty()] {
                summary { (lang.say("Or paste the lines", "Ou cole as linhas")) }
                div .field {
                    label for="f-pasted" { (lang.say("Lines, the first with the names of the columns", "Linhas, a primeira com os nomes das colunas")) }
                    textarea id="f-pasted" name="pasted" rows="8" spellcheck="false" placeholder="celular;nome" { "\n" (pasted) }
                }
            }
            div .row {
                button .primary type="submit" { (lang.say("Next: its columns", "A seguir: as colunas")) }
                a .button href=(base) { (lang.say("Back", "Voltar")) }
            }
        }
    };
    let title =
        lang.say(format!("Recipients for {}", campaign.name), format!("Destinatários de {}", campaign.name));
    let sheet = Sheet::new(title).still(told(lang, problem)).still(file_form(
        visit.look(),
        &format!("{base}/list"),
        None,
        &content,
    ));
    Ok(Sheet { status: problem.map(|problem| problem.code.status()), ..sheet })
}

/// What is wrong with a list as a whole.
fn told(lang: Lang, problem: Option<&Problem>) -> Markup {
    html! { @if let Some(problem) = problem {
        div .flash.bad role="alert" {
            @for FieldError { reason, hint, .. } in &problem.errors {
                p { strong { (sentence(lang, reason)) } } p { span lang="en" { (hint) } }
            }
            @if problem.errors.is_empty() {
                p { strong { (lang.problem(problem.code)) } } p { span lang="en" { (problem.detail) } } p { span lang="en" { (problem.hint) } }
            }
        }
    } }
}

/// `line 3: …`, with the line in the reader's language.
fn sentence(lang: Lang, reason: &str) -> Markup {
    let line = reason.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    match line.filter(|(line, _)| line.bytes().all(|byte| byte.is_ascii_digit())) {
        Some((line, reason)) => {
            html! { (lang.say("line", "linha")) " " (line) ": " (reasons::said(lang, reason)) }
        }
        None => reasons::said(lang, reason),
    }
}

/// What the campaign's template names.
async fn needed(visit: &Visit, campaign: &Campaign) -> BTreeSet<String> {
    let version = format!("version={}", campaign.template_version);
    let found: Result<Template, _> =
        visit.ask("/v1/templates/{name}", &campaign.template, &version).await.map(Words::into);
    let compiled = found.ok().and_then(|template| Compiled::new(template).ok());
    let setup = visit.door().setup();
    let kind = setup.channels.get(campaign.channel.as_str()).map(|channel| channel.kind);
    compiled.zip(kind).map(|(compiled, kind)| compiled.variables(kind)).unwrap_or_default()
}

/// The kind of address that the campaign's channel writes to.
fn family(visit: &Visit, campaign: &Campaign) -> Option<Family> {
    visit.door().setup().channels.get(campaign.channel.as_str()).and_then(|channel| Family::of(channel.kind))
}

fn seen(visit: &Visit, campaign: &Campaign, list: &Bytes) -> Result<Glance, Problem> {
    glance(list, None, family(visit, campaign)).map_err(api::listing::unreadable)
}

/// Takes the list in, and asks what its columns are.
pub(crate) async fn upload(visit: Visit, typed: Form) -> Result<Reply, Problem> {
    let campaign = find(&visit).await?;
    let pasted = typed.get("pasted").trim();
    let list = typed.file("file").or_else(|| (!pasted.is_empty()).then(|| Bytes::from(pasted.to_owned())));
    let nothing = || Problem::field("file", "is missing", "choose a file, or paste the lines");
    let looked = match &list {
        None => Err(nothing()),
        Some(list) if list.len() > LIST_BYTES => Err(crate::body::too_large(LIST_BYTES)),
        Some(list) => seen(&visit, &campaign, list),
    };
    match (list, looked) {
        (Some(list), Ok(glance)) => {
            Ok(Reply::Sheet(mapping(&visit, &campaign, (&list, &glance), None, None).await?))
        }
        (_, Err(problem)) => Ok(Reply::Sheet(handing(&visit, &campaign, Some(&problem), pasted).await?)),
        (None, Ok(_)) => Err(nothing()),
    }
}

/// What a column is taken for, as a choice writes it: the address, a variable, or nothing.
fn guess(glance: &Glance, needed: &BTreeSet<String>, place: usize) -> String {
    let own = &glance.columns[place];
    if glance.to == Some(place) {
        return TO.to_owned();
    }
    if let Some(name) = needed.iter().find(|name| glance.column(name) == Some(place)) {
        return format!("={name}");
    }
    // A column of something that the template looks into.
    let within = own.split_once('.').is_some_and(|(first, _)| needed.contains(first));
    if within { format!("={own}") } else { String::new() }
}

async fn mapping(
    visit: &Visit,
    campaign: &Campaign,
    (list, glance): (&Bytes, &Glance),
    typed: Option<&Form>,
    problem: Option<&Problem>,
) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let base = address(&campaign.id);
    let needed = needed(visit, campaign).await;
    let chosen: Vec<String> = (0..glance.columns.len())
        .map(|place| {
            typed.map_or_else(
                || guess(glance, &needed, place),
                |typed| typed.get(&format!("column-{place}")).to_owned(),
            )
        })
        .collect();
    let lacking = needed.iter().filter(|name| {
        let fed =
            |choice: &String| choice.strip_prefix('=').is_some_and(|it| it.split('.').next() == Some(name));
        !campaign.payload.contains_key(*name) && !chosen.iter().any(fed)
    });
    let lacking: Vec<&String> = lacking.collect();
    let rows: Vec<Markup> = glance.columns.iter().enumerate().map(|(place, own)| {
        let (name, choice) = (format!("column-{place}"), &chosen[place]);
        let label = lang.say(format!("What column {} is", place + 1), format!("O que é a coluna {}", place + 1));
        let mut options = vec![
            (String::new(), lang.say("leave it out", "deixar de fora").to_owned()),
            (TO.to_owned(), lang.say("the recipient", "o destinatário").to_owned()),
        ];
        options.extend(needed.iter().map(|name| (format!("={name}"), lang.say(format!("variable {name}"), format!("variável {name}")))));
        if !own.is_empty() && !needed.contains(own) {
            options.push((format!("={own}"), lang.say(format!("keep as {own}"), format!("manter como {own}"))));
        }
        let samples: Vec<&str> = glance.rows.iter().map(|row| row[place].as_str()).filter(|it| !it.is_empty()).take(SAMPLES).collect();
        html! { tr {
            th scope="row" { @if own.is_empty() { span .quiet { (lang.say("column", "coluna")) " " (place + 1) } } @else { (own) } }
            td { @if samples.is_empty() { (parts::none()) } @for sample in samples { small .sample { (sample) } } }
            td { select name=(name) aria-label=(label) {
                @for (value, words) in &options { option value=(value) selected[value == choice] { (words) } }
            } }
        } }
    }).collect();
    let title = lang.say("What the columns are", "O que são as colunas");
    let content = html! {
        input type="hidden" name="list" value=(URL_SAFE_NO_PAD.encode(list));
        section .card {
            header { h2 { (title) } span .quiet { (lang.count(glance.columns.len() as u64, ("column", "columns"), ("coluna", "colunas"))) } }
            @if !chosen.iter().any(|choice| choice == TO) {
                p .flash.bad { (lang.say("Say which column has the recipients: none looks like it.", "Diga qual coluna tem os destinatários: nenhuma parece ter.")) }
            }
            @if !lacking.is_empty() {
                p .flash.note {
                    (lang.say("No column and nothing that is said to everybody gives", "Nenhuma coluna nem o que é dito a todos dá")) " "
                    span .chips { @for name in &lacking { code { (name) } " " } }
                    (lang.say("which the template names.", "que o modelo usa."))
                }
            }
            (parts::table(title, &[lang.say("Column", "Coluna"), lang.say("For example", "Por exemplo"), lang.say("Is", "É")], &rows))
        }
        div .row {
            button .primary type="submit" { (lang.say("Add everybody on it", "Adicionar todos")) }
            a .button href=(format!("{base}/list")) { (lang.say("Another list", "Outra lista")) }
            span .quiet { (lang.say("Nobody is added twice. Nothing is sent yet.", "Ninguém é adicionado duas vezes. Nada é enviado ainda.")) }
        }
    };
    let heading =
        lang.say(format!("Recipients for {}", campaign.name), format!("Destinatários de {}", campaign.name));
    let sheet = Sheet::new(heading)
        .still(told(lang, problem))
        .still(html! { div .filling { (form(visit.look(), &format!("{base}/import"), None, &content)) } });
    Ok(Sheet { status: problem.map(|problem| problem.code.status()), ..sheet })
}

/// Adds everybody on the list, with the columns as they were said to be.
pub(crate) async fn import(visit: Visit, typed: Form) -> Result<Reply, Problem> {
    let campaign = find(&visit).await?;
    let gone = |_| Problem::field("list", "is missing", "hand the list in again");
    let list = Bytes::from(URL_SAFE_NO_PAD.decode(typed.get("list")).map_err(gone)?);
    let glance = seen(&visit, &campaign, &list)?;
    let columns: Vec<Option<&str>> = (0..glance.columns.len())
        .map(|place| match typed.get(&format!("column-{place}")) {
            TO => Some(TO),
            choice => choice.strip_prefix('='),
        })
        .collect();
    let added = async {
        if columns.iter().flatten().filter(|name| **name == TO).count() != 1 {
            return Err(Problem::field("to", "is missing", "choose exactly one column of recipients"));
        }
        let pairs =
            [("columns", Value::from(columns).to_string()), ("delimiter", delimiter(glance.delimiter))];
        let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        let asked = query(pairs.map(|(name, value)| (name.to_owned(), value)));
        visit.hand::<Imported>(IMPORT, visit.name(), &asked, ("text/csv", list.clone())).await
    };
    match added.await {
        Err(problem) if problem.errors.is_empty() => Err(problem),
        Err(problem) => Ok(Reply::Sheet(
            mapping(&visit, &campaign, (&list, &glance), Some(&typed), Some(&problem)).await?,
        )),
        Ok(Imported { added, duplicates, invalid }) => {
            let lang = visit.lang();
            let words = [
                lang.count(
                    added,
                    ("person added", "people added"),
                    ("pessoa adicionada", "pessoas adicionadas"),
                ),
                lang.count(duplicates, ("repeated", "repeated"), ("repetida", "repetidas")),
                lang.count(
                    invalid,
                    ("invalid line", "invalid lines"),
                    ("linha inválida", "linhas inválidas"),
                ),
            ];
            Ok(Reply::done(format!("{}/preview", address(&campaign.id)), format!("{}.", words.join(", "))))
        }
    }
}

/// As the API wants it; one that is not usual is told by the list itself.
fn delimiter(byte: u8) -> String {
    match byte {
        b'\t' => "tab".to_owned(),
        b',' | b';' | b'|' => char::from(byte).to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_guessed_by_what_the_template_needs() {
        let list = "Nome;Celular;Obs;loja.cidade\nAna;11 98765-4321;x;Santos\n";
        let glance = glance(list.as_bytes(), None, Some(Family::Whatsapp)).unwrap();
        let needed = BTreeSet::from(["nome".to_owned(), "loja".to_owned()]);
        let guesses: Vec<String> = (0..4).map(|place| guess(&glance, &needed, place)).collect();
        assert_eq!(guesses, ["=nome", "to", "", "=loja.cidade"]);
    }

    #[test]
    fn a_line_is_told_in_the_readers_language() {
        assert_eq!(
            sentence(Lang::Pt, "line 1: there is nobody on the list").into_string(),
            "linha 1: não há ninguém na lista"
        );
        assert_eq!(sentence(Lang::En, "is missing").into_string(), "is missing");
    }
}
