//! Many letters at once: what would be touched, then a confirmation, then the deed.

use http::{Method, StatusCode};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::field::{Field, Input, Wrongs};
use super::letters::FILTERS;
use super::remedy::Remedy;
use super::{Cause, DISCARD, REPROCESS, letters_said};
use crate::api::operations;
use crate::dash::form::Form;
use crate::dash::messages::{meaning, short};
use crate::dash::parts::{self, Tone, badge, capital, empty, encoded, table};
use crate::dash::session::Flash;
use crate::dash::sheet::Sheet;
use crate::dash::visit::{Reply, Visit};
use crate::dash::words::Lang;
use crate::problem::Problem;

/// From so many letters on it is suggested that one goes first, as the API does by itself.
const CANARY_FROM: u64 = 10;
const PACE_MAX: u32 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Reprocess,
    Discard,
}

impl Act {
    fn of_name(name: &str) -> Option<Act> {
        match name {
            "reprocess" => Some(Act::Reprocess),
            "discard" => Some(Act::Discard),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Act::Reprocess => "reprocess",
            Act::Discard => "discard",
        }
    }

    fn route(self) -> &'static str {
        match self {
            Act::Reprocess => REPROCESS,
            Act::Discard => DISCARD,
        }
    }
}

/// What somebody wants to do, and with which letters.
struct Choice {
    act: Act,
    which: Which,
}

enum Which {
    Ids(Vec<String>),
    /// Filters by name; none of them is every dead letter.
    Filter(Vec<(String, String)>),
}

impl Choice {
    /// As it stands in an address. Nothing chosen is no choice: all letters are meant by saying so.
    fn asked(visit: &Visit) -> Option<Choice> {
        let pairs = visit.query();
        let act = Act::of_name(&visit.asked("act")?)?;
        let ids = pairs.iter().filter(|(name, _)| name == "id").map(|(_, id)| id.clone()).collect();
        let filter = pairs.iter().filter(|(name, _)| FILTERS.contains(&name.as_str())).cloned().collect();
        Choice::of(act, ids, filter, visit.asked("all").is_some())
    }

    /// As a form sends it.
    fn sent(form: &Form) -> Option<Choice> {
        let act = Act::of_name(form.get("act"))?;
        let ids = form.all("id").map(str::to_owned).collect();
        let given = |name: &&'static str| Some(((*name).to_owned(), form.given(name)?.to_owned()));
        Choice::of(act, ids, FILTERS.iter().filter_map(given).collect(), form.given("all").is_some())
    }

    fn of(act: Act, ids: Vec<String>, filter: Vec<(String, String)>, all: bool) -> Option<Choice> {
        let which = match (ids.is_empty(), filter.is_empty()) {
            (false, _) => Which::Ids(ids),
            (true, true) if !all => return None,
            (true, _) => Which::Filter(filter),
        };
        Some(Choice { act, which })
    }

    /// Which letters, as the API is asked about them.
    fn wish(&self) -> Map<String, Value> {
        let (name, value) = match &self.which {
            Which::Ids(ids) => ("ids", json!(ids)),
            Which::Filter(filter) => {
                let filter = filter.iter().map(|(name, value)| (name.clone(), value.clone().into()));
                ("filter", Value::Object(filter.collect()))
            }
        };
        Map::from_iter([(name.to_owned(), value)])
    }

    /// How many there are, with a few of them. Nothing is touched.
    async fn count(&self, visit: &Visit) -> Result<Count, Problem> {
        let mut wish = self.wish();
        wish.insert("dry_run".to_owned(), true.into());
        let counted = visit.act(Method::POST, self.act.route(), "", &wish.into()).await?;
        serde_json::from_value(counted).map_err(|_| Problem::internal())
    }

    fn cause(&self) -> Option<&str> {
        let Which::Filter(filter) = &self.which else { return None };
        filter.iter().find(|(name, _)| name == "cause").map(|(_, cause)| cause.as_str())
    }

    /// Where one came from, most likely.
    fn back(&self) -> String {
        match (&self.which, self.cause()) {
            (_, Some(cause)) => format!("/dead/{}", encoded(cause)),
            (Which::Filter(filter), None) => parts::with_query("/dead/letters", filter.clone()),
            (Which::Ids(_), None) => "/dead/letters".to_owned(),
        }
    }
}

#[derive(Deserialize)]
struct Count {
    count: u64,
    at_least: bool,
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    id: String,
    channel: String,
    to: String,
    cause: Option<Cause>,
}

#[derive(Deserialize)]
struct Results {
    done: u64,
    skipped: u64,
}

/// What was filled in, and what is wrong about it.
#[derive(Default)]
struct Filled {
    note: String,
    pace: String,
    canary: bool,
    sure: bool,
    wrongs: Wrongs,
}

impl Filled {
    fn of(form: &Form) -> Filled {
        Filled {
            note: form.get("note").to_owned(),
            pace: form.get("rate_per_minute").trim().to_owned(),
            canary: form.given("canary").is_some(),
            sure: form.given("sure").is_some(),
            wrongs: Wrongs::default(),
        }
    }

    /// Says what is wrong before anything is asked of the API.
    fn check(&mut self, act: Act, lang: Lang) {
        if act == Act::Discard && self.note.trim().is_empty() {
            self.wrongs.own(
                "note",
                lang.say(
                    "Say why these are given up: it stays on record",
                    "Diga por que se desiste destas: fica registrado",
                ),
            );
        }
        if act == Act::Discard && !self.sure {
            self.wrongs.own(
                "sure",
                lang.say(
                    "Tick this if they are to be given up for good",
                    "Marque isto se elas devem ser descartadas de vez",
                ),
            );
        }
        let pace = self.pace.parse::<u32>();
        if !self.pace.is_empty() && !pace.is_ok_and(|pace| (1..=PACE_MAX).contains(&pace)) {
            self.wrongs.own(
                "rate_per_minute",
                lang.say(
                    "A whole number from 1 to 1000000, or nothing",
                    "Um número inteiro de 1 a 1000000, ou nada",
                ),
            );
        }
    }
}

/// What would be touched, and what has to be said before it is.
pub(crate) async fn confirm(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let Some(choice) = Choice::asked(&visit) else {
        return Ok(Sheet::new(lang.say("Nothing is ticked", "Nada está marcado")).still(html! { section .card { (empty(
            lang.say("Tick the letters first", "Marque antes as mensagens"),
            lang.say("Go back, tick those that are meant, and press the button again. A whole cause has buttons of its own.", "Volte, marque as que quer e aperte o botão de novo. Uma causa inteira tem botões próprios."),
            None,
        )) p .row { a .button href="/dead/letters" { (lang.say("To the letters", "Às mensagens")) } a .button href="/dead" { (lang.say("To the causes", "Às causas")) } } } }));
    };
    let counted = choice.count(&visit).await?;
    let canary = counted.at_least || counted.count > CANARY_FROM;
    Ok(sheet(&visit, &choice, &counted, Filled { canary, ..Filled::default() }, None))
}

/// Does what was confirmed.
pub(crate) async fn decide(visit: Visit, form: Form) -> Result<Reply, Problem> {
    let lang = visit.lang();
    let Some(choice) = Choice::sent(&form) else {
        let text = lang
            .say("Nothing was ticked, so nothing was done.", "Nada estava marcado, então nada foi feito.");
        return Ok(Reply::To("/dead".to_owned(), Some(Flash { good: false, text: text.to_owned() })));
    };
    let mut filled = Filled::of(&form);
    filled.check(choice.act, lang);
    let counted = choice.count(&visit).await?;
    let known = form.get("count").parse::<u64>().ok();
    let told = match (choice.act, &choice.which) {
        // Whoever discards has seen how many.
        (Act::Discard, Which::Filter(_)) if known.is_none_or(|known| counted.count > known) => {
            Some(lang.say(
                "There are more of them than when this page was made. Look again before you confirm.",
                "Há mais delas do que quando esta página foi feita. Olhe de novo antes de confirmar.",
            ))
        }
        _ => None,
    };
    if told.is_some() || !filled.wrongs.is_empty() {
        return Ok(Reply::Sheet(again(sheet(&visit, &choice, &counted, filled, told))));
    }
    let once = form.given("once");
    // The ticked ones are asked for all the same: whoever clicks twice is told again what the first click did.
    if let (Which::Filter(_), 0) = (&choice.which, counted.count) {
        return Ok(match begun(&visit, once).await {
            Some(operation) => done(&choice, &operation, lang)?,
            None => faster(&choice, lang),
        });
    }
    let mut wish = choice.wish();
    if !filled.note.trim().is_empty() {
        wish.insert("note".to_owned(), filled.note.trim().into());
    }
    if let Which::Filter(_) = choice.which {
        if let Ok(pace) = filled.pace.parse::<u32>() {
            wish.insert("rate_per_minute".to_owned(), pace.into());
        }
        if choice.act == Act::Reprocess {
            wish.insert("canary".to_owned(), u32::from(filled.canary).into());
        }
    }
    match visit.act_once(once, choice.act.route(), &wish.into()).await {
        Ok(answer) => done(&choice, &answer, lang),
        Err(problem) if problem.errors.iter().any(|error| error.field == "filter.cause") => {
            Ok(faster(&choice, lang))
        }
        Err(problem) => {
            filled.wrongs = Wrongs::told(problem);
            Ok(Reply::Sheet(again(sheet(&visit, &choice, &counted, filled, None))))
        }
    }
}

/// What an earlier click on the same page has begun.
async fn begun(visit: &Visit, once: Option<&str>) -> Option<Value> {
    let id = operations::id_of_key(visit.caller().tenant.as_str(), once?);
    visit.ask("/v1/operations/{id}", &id, "").await.ok()
}

/// A form that has to be filled in anew.
fn again(sheet: Sheet) -> Sheet {
    Sheet { status: Some(StatusCode::UNPROCESSABLE_ENTITY), ..sheet }
}

/// Somebody else has dealt with them.
fn faster(choice: &Choice, lang: Lang) -> Reply {
    let text = lang.say(
        "None of them is dead any more: somebody else has dealt with them. Nothing was changed.",
        "Nenhuma delas está mais morta: outra pessoa já cuidou delas. Nada foi mudado.",
    );
    let back = if choice.cause().is_some() { "/dead".to_owned() } else { choice.back() };
    Reply::To(back, Some(Flash { good: false, text: text.to_owned() }))
}

fn done(choice: &Choice, answer: &Value, lang: Lang) -> Result<Reply, Problem> {
    let Which::Ids(ids) = &choice.which else {
        let id = answer["id"].as_str().ok_or_else(Problem::internal)?;
        let text = lang.say(
            "It has begun. This page shows how far it is; it goes on if you leave.",
            "Começou. Esta página mostra o andamento; continua mesmo que você saia.",
        );
        return Ok(Reply::done(format!("/operations/{}", encoded(id)), text));
    };
    let results: Results = serde_json::from_value(answer.clone()).map_err(|_| Problem::internal())?;
    if results.done == 0 {
        return Ok(faster(choice, lang));
    }
    let number = lang.number(results.done);
    let mut text = match (choice.act, results.done) {
        (Act::Reprocess, 1) => {
            lang.say("1 letter is on its way again.", "1 mensagem está a caminho de novo.").to_owned()
        }
        (Act::Reprocess, _) => lang.say(
            format!("{number} letters are on their way again."),
            format!("{number} mensagens estão a caminho de novo."),
        ),
        (Act::Discard, 1) => lang.say("1 letter was discarded.", "1 mensagem foi descartada.").to_owned(),
        (Act::Discard, _) => lang.say(
            format!("{number} letters were discarded."),
            format!("{number} mensagens foram descartadas."),
        ),
    };
    if results.skipped > 0 {
        let skipped = lang.number(results.skipped);
        text.push_str(&lang.say(
            format!(" {skipped} had been dealt with by somebody else and stay as they are."),
            format!(" {skipped} já tinham sido resolvidas por outra pessoa e ficam como estão."),
        ));
    }
    let back = match ids.as_slice() {
        [one] => format!("/messages/{}", encoded(one)),
        _ => choice.back(),
    };
    Ok(Reply::done(back, text))
}

fn sheet(visit: &Visit, choice: &Choice, counted: &Count, filled: Filled, told: Option<&str>) -> Sheet {
    let lang = visit.lang();
    let some = lang.number(counted.count) + if counted.at_least { "+" } else { "" };
    let title = match (choice.act, counted.count) {
        (Act::Reprocess, 1) => lang.say("Send 1 dead letter again?", "Reenviar 1 mensagem morta?").to_owned(),
        (Act::Reprocess, _) => {
            lang.say(format!("Send {some} dead letters again?"), format!("Reenviar {some} mensagens mortas?"))
        }
        (Act::Discard, 1) => lang.say("Discard 1 dead letter?", "Descartar 1 mensagem morta?").to_owned(),
        (Act::Discard, _) => {
            lang.say(format!("Discard {some} dead letters?"), format!("Descartar {some} mensagens mortas?"))
        }
    };
    let sheet = Sheet::new(title);
    let sheet = match told {
        Some(told) => sheet.still(html! { p .flash.bad role="alert" { (told) } }),
        None => sheet,
    };
    if counted.count == 0 {
        return sheet.still(html! { section .card { (empty(
            lang.say("None of them is dead any more", "Nenhuma delas está mais morta"),
            lang.say("They were sent again, corrected or discarded, perhaps by somebody else.", "Foram reenviadas, corrigidas ou descartadas, talvez por outra pessoa."),
            None,
        )) p { a href="/dead" { (lang.say("To the causes", "Às causas")) } } } });
    }
    sheet.still(
        html! { div .two { (asked(visit, choice, counted, filled)) (touched(visit, choice, counted)) } },
    )
}

/// What would be touched.
fn touched(visit: &Visit, choice: &Choice, counted: &Count) -> Markup {
    let lang = visit.lang();
    let title = lang.say("Which", "Quais");
    let rows: Vec<Markup> = counted.samples.iter().map(|it| html! { tr {
        th scope="row" { a href=(format!("/messages/{}", encoded(&it.id))) title=(it.id) { code { (short(&it.id)) } } small { (it.channel) } }
        td { span .clip title=(it.to) { (it.to) } }
        @if choice.cause().is_none() { td .prose { @if let Some(cause) = &it.cause { (meaning(visit, &it.channel, &cause.category)) } @else { (parts::none()) } } }
    } }).collect();
    let mut columns = vec![lang.say("Letter", "Mensagem"), lang.say("To", "Para")];
    if choice.cause().is_none() {
        columns.push(lang.say("Why", "Por quê"));
    }
    let said = match &choice.which {
        Which::Ids(ids) => html! {
            p { (lang.say("Those that you ticked.", "As que você marcou.")) }
            @if (ids.len() as u64) > counted.count {
                p .wrong { (lang.count(ids.len() as u64 - counted.count, ("of them is no longer dead: somebody else was faster.", "of them are no longer dead: somebody else was faster."), ("delas não está mais morta: outra pessoa foi mais rápida.", "delas não estão mais mortas: outra pessoa foi mais rápida."))) }
            }
        },
        Which::Filter(filter) if filter.is_empty() => {
            html! { p { strong { (lang.say("Every dead letter that there is.", "Todas as mensagens mortas que há.")) } } }
        }
        Which::Filter(filter) => html! {
            p { (lang.say("Every dead letter with", "Todas as mensagens mortas com")) }
            ul .row { @for (name, value) in filter { li { (badge(Tone::Quiet, &format!("{}: {value}", named(lang, name)))) } } }
        },
    };
    let first = counted.samples.iter().find_map(|it| it.cause.as_ref()).filter(|_| choice.cause().is_some());
    html! {
        section .card aria-labelledby="which-title" {
            header { h2 #which-title { (title) } strong { (letters_said(lang, counted.count)) @if counted.at_least { "+" } } }
            (said)
            @if let Some(cause) = first {
                @if !cause.text.is_empty() { pre { (cause.text) } }
                p .quiet { (capital(Remedy::of(&cause.category).said(lang))) }
            }
            (table(title, &columns, &rows))
            @if counted.count > counted.samples.len() as u64 {
                p .hint { (lang.say(format!("The newest {} of them.", counted.samples.len()), format!("As {} mais novas delas.", counted.samples.len()))) }
            }
        }
    }
}

/// A filter by its name, as people say it.
fn named(lang: Lang, filter: &str) -> &str {
    match filter {
        "cause" => lang.say("cause", "causa"),
        "channel" => lang.say("channel", "canal"),
        "recipient" => lang.say("recipient", "destinatário"),
        "reference" => lang.say("reference", "referência"),
        "category" => lang.say("category", "categoria"),
        "template" => lang.say("template", "modelo"),
        "campaign" => lang.say("campaign", "campanha"),
        "type" => lang.say("type", "tipo"),
        "lane" => lang.say("lane", "fila"),
        "since" => lang.say("since", "desde"),
        "until" => lang.say("until", "até"),
        other => other,
    }
}

/// What has to be said.
fn asked(visit: &Visit, choice: &Choice, counted: &Count, mut filled: Filled) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let by_filter = matches!(choice.which, Which::Filter(_));
    let (note, pace, sure) =
        (filled.wrongs.take("note"), filled.wrongs.take("rate_per_minute"), filled.wrongs.take("sure"));
    let note = Field {
        name: "note",
        id: "f-note",
        label: match choice.act {
            Act::Discard => html! { (lang.say("Why? (required)", "Por quê? (obrigatório)")) },
            Act::Reprocess => html! { (lang.say("Note", "Observação")) },
        },
        value: &filled.note,
        input: Input::Line,
        hint: Some(lang.say(
            "Goes to the audit with your name. No personal data.",
            "Vai para a auditoria com seu nome. Sem dados pessoais.",
        )),
        wrong: note,
    };
    let pace = Field {
        name: "rate_per_minute",
        id: "f-pace",
        label: html! { (lang.say("Letters a minute, at most", "Mensagens por minuto, no máximo")) },
        value: &filled.pace,
        input: Input::Number,
        hint: Some(lang.say(
            "Empty: as fast as lanes, rates and breakers of the channel allow.",
            "Vazio: tão rápido quanto filas, limites e disjuntores do canal permitem.",
        )),
        wrong: pace,
    };
    let content = html! {
        input type="hidden" name="act" value=(choice.act.name());
        input type="hidden" name="count" value=(counted.count);
        input type="hidden" name="once" value=(visit.once());
        @match &choice.which {
            Which::Ids(ids) => @for id in ids { input type="hidden" name="id" value=(id); },
            Which::Filter(filter) => {
                input type="hidden" name="all" value="true";
                @for (name, value) in filter { input type="hidden" name=(name) value=(value); }
            }
        }
        div .stack {
            (filled.wrongs.rest(lang))
            (note.drawn(lang))
            @if choice.act == Act::Reprocess && by_filter {
                div .sure {
                    input #f-canary type="checkbox" name="canary" value="1" checked[filled.canary] aria-describedby="f-canary-hint";
                    label for="f-canary" { (lang.say("Send one ahead", "Enviar uma antes")) }
                    p .hint id="f-canary-hint" { (lang.say("The others follow once it has arrived. If it fails for the same reason, everything stops and the others stay as they are.", "As outras seguem quando ela chegar. Se falhar pelo mesmo motivo, tudo para e as outras ficam como estão.")) }
                }
            }
            @if by_filter { (pace.drawn(lang)) }
            @if choice.act == Act::Discard {
                div .sure {
                    input #f-sure type="checkbox" name="sure" value="1" checked[filled.sure] aria-describedby="f-sure-hint" aria-invalid=[(!sure.is_empty()).then_some("true")];
                    label for="f-sure" { (lang.say("Yes, give them up for good", "Sim, desistir delas de vez")) }
                    div id="f-sure-hint" {
                        @for it in &sure { p .wrong { (it.said(lang)) "." } }
                        p .hint { (lang.say("Discarded is final: this cannot be undone, and they can never be sent again. What they said and what happened stays in the store.", "Descartar é definitivo: não se desfaz, e elas nunca mais podem ser enviadas. O que diziam e o que aconteceu fica guardado.")) }
                    }
                }
            } @else {
                p .hint { (if by_filter {
                    lang.say("You can stop it while it runs. What was sent by then stays sent.", "Você pode parar enquanto estiver em andamento. O que já foi enviado continua enviado.")
                } else {
                    lang.say("Each begins a new round of attempts at once. While one still waits, it can be cancelled on its page.", "Cada uma começa já uma nova rodada de tentativas. Enquanto espera, pode ser cancelada na página dela.")
                }) }
            }
            div .row {
                @match choice.act {
                    Act::Reprocess => button .primary type="submit" { (lang.say("Send again", "Reenviar")) },
                    Act::Discard => button .danger type="submit" { (lang.say("Discard for good", "Descartar de vez")) },
                }
                a .button href=(choice.back()) { (lang.say("Leave them as they are", "Deixar como estão")) }
            }
        }
    };
    html! {
        section .card aria-labelledby="confirm-title" {
            header { h2 #confirm-title { (lang.say("Confirm", "Confirmar")) } }
            (parts::form(look, "/dead/decide", None, &content))
        }
    }
}
