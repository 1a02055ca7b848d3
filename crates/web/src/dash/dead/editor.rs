//! One dead letter, put right: what it says is changed, checked, compared, and sent again.

use http::{Method, StatusCode};
use maud::{Markup, html};
use pombo_kernel::time::Time;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::document::{Document, pretty};
use super::field::{Field, Input, Wrongs};
use super::remedy::Remedy;
use super::{LETTER, difference};
use crate::dash::form::Form;
use crate::dash::messages::meaning;
use crate::dash::parts::{self, asking_form, badge, capital, encoded, form as ours, time};
use crate::dash::session::Flash;
use crate::dash::sheet::Sheet;
use crate::dash::visit::{Reply, Visit};
use crate::dash::words::Lang;
use crate::problem::{Code, Problem};
use crate::veil::Veil;

const RETRY: &str = "/v1/messages/{id}/retry";
const REVEALED: &str = "reveal=true";
/// The documents that a message can have.
const DOCUMENTS: [&str; 2] = ["payload", "content"];

/// So much of a dead letter of the API as is edited.
#[derive(Deserialize)]
struct Letter {
    id: String,
    state: String,
    channel: String,
    version: u32,
    last_error: Option<LastError>,
    #[serde(flatten)]
    said: Said,
    revisions: Vec<Revision>,
}

#[derive(Deserialize)]
struct LastError {
    category: String,
    text: String,
}

/// What a message says, and to whom.
#[derive(Deserialize)]
struct Said {
    to: String,
    template: Option<String>,
    payload: Option<Value>,
    content: Option<Value>,
}

impl Said {
    fn document(&self, name: &str) -> Option<&Value> {
        if name == "payload" { self.payload.as_ref() } else { self.content.as_ref() }
    }
}

/// What it said before an edit.
#[derive(Deserialize)]
struct Revision {
    version: u32,
    replaced_at: Time,
    by: String,
    note: Option<String>,
    #[serde(flatten)]
    said: Said,
}

/// How persons are shown to whoever edits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Persons {
    /// The role hides them: what is hidden can be replaced, and not sent back.
    Hidden,
    Seen,
}

/// What stands in the fields.
struct Typed {
    to: String,
    documents: Vec<(&'static str, Document)>,
    note: String,
}

impl Typed {
    /// As it is before anything was typed.
    fn of(letter: &Letter, persons: Persons) -> Typed {
        if persons == Persons::Hidden {
            return Typed { to: String::new(), documents: Vec::new(), note: String::new() };
        }
        let document = |name| Some((name, Document::of(letter.said.document(name)?)));
        let documents = DOCUMENTS.into_iter().filter_map(document).collect();
        Typed { to: letter.said.to.clone(), documents, note: String::new() }
    }

    fn sent(form: &Form) -> Typed {
        let document = |name| Some((name, Document::sent(form, name)?));
        let documents = DOCUMENTS.into_iter().filter_map(document).collect();
        Typed { to: form.get("to").trim().to_owned(), documents, note: form.get("note").trim().to_owned() }
    }

    /// What differs from what the letter says, as the API takes it, and what cannot be read.
    fn changes(&self, letter: &Letter, persons: Persons, lang: Lang) -> (Map<String, Value>, Wrongs) {
        let (mut changes, mut wrongs) = (Map::new(), Wrongs::default());
        match (persons, self.to.as_str()) {
            (Persons::Hidden, "") => {}
            (Persons::Seen, "") => wrongs.own("to", lang.say("Say whom it is for", "Diga para quem é")),
            (Persons::Seen, to) if to == letter.said.to => {}
            (_, to) => {
                changes.insert("to".to_owned(), to.into());
            }
        }
        for (name, document) in &self.documents {
            let before = letter.said.document(name).cloned().unwrap_or_default();
            match document.value(&before, lang) {
                Ok(value) if value == before => {}
                Ok(value) => {
                    changes.insert((*name).to_owned(), value);
                }
                Err(words) => wrongs.own(name, words),
            }
        }
        (changes, wrongs)
    }
}

async fn find(visit: &Visit, revealed: bool) -> Result<Letter, Problem> {
    visit.ask(LETTER, visit.name(), if revealed { REVEALED } else { "" }).await
}

fn persons(visit: &Visit, revealed: bool) -> Persons {
    match Veil::of(visit.caller(), &visit.door().setup()) {
        Veil::Drawn if !revealed => Persons::Hidden,
        _ => Persons::Seen,
    }
}

fn here(letter: &Letter) -> String {
    format!("/dead/letter/{}", encoded(&letter.id))
}

/// The letter with its fields, for those who may change it, and what it said before.
pub(crate) async fn letter(visit: Visit) -> Result<Sheet, Problem> {
    let letter = find(&visit, false).await?;
    let persons = persons(&visit, false);
    let typed = Typed::of(&letter, persons);
    let sheet = headed(&visit, &letter).live("standing", standing(&visit, &letter));
    let sheet = match letter.state.as_str() {
        "failed" if visit.may(&Method::PATCH, LETTER) => {
            sheet.still(editor(&visit, &letter, &typed, persons, Wrongs::default()))
        }
        _ => sheet,
    };
    Ok(sheet.still(versions(&visit, &letter)))
}

fn headed(visit: &Visit, letter: &Letter) -> Sheet {
    let (lang, to) = (visit.lang(), &letter.said.to);
    let beside = html! { a .button href=(format!("/messages/{}", encoded(&letter.id))) { (lang.say("What happened to it", "O que aconteceu com ela")) } };
    Sheet::new(lang.say(format!("Correct the message to {to}"), format!("Corrigir a mensagem para {to}")))
        .beside(beside)
}

/// Where it stands, and what is suggested.
fn standing(visit: &Visit, letter: &Letter) -> Markup {
    let lang = visit.lang();
    let dead = letter.state == "failed";
    html! {
        section .card aria-label=(lang.say("State", "Estado")) {
            div .row {
                (parts::state(lang, &letter.state))
                strong { (letter.channel) }
                span .quiet { (lang.say("version", "versão")) " " (letter.version) }
            }
            @if !dead {
                p .big { (lang.say("It is no longer dead, so it cannot be changed.", "Ela não está mais morta, então não pode ser mudada.")) }
            } @else if let Some(error) = &letter.last_error {
                @let remedy = Remedy::of(&error.category);
                p .big { (capital(&meaning(visit, &letter.channel, &error.category))) "." }
                p { (badge(remedy.work.tone(), remedy.work.words(lang))) " " (remedy.said(lang)) }
                pre { (error.text) }
            }
        }
    }
}

fn editor(visit: &Visit, letter: &Letter, typed: &Typed, persons: Persons, mut wrongs: Wrongs) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let hidden = persons == Persons::Hidden;
    let masked = lang.say(
        format!("Your role sees it masked, as {}. Leave this empty to keep it.", letter.said.to),
        format!("Seu papel a vê mascarada, como {}. Deixe vazio para manter.", letter.said.to),
    );
    let to = Field {
        name: "to",
        id: "f-to",
        label: html! { (lang.say("Recipient", "Destinatário")) },
        value: &typed.to,
        input: Input::Line,
        hint: hidden.then_some(masked.as_str()),
        wrong: wrongs.take("to"),
    };
    let note = Field {
        name: "note",
        id: "f-note",
        label: html! { (lang.say("What was put right, and why", "O que foi corrigido, e por quê")) },
        value: &typed.note,
        input: Input::Line,
        hint: Some(lang.say(
            "Goes to the audit with your name. No personal data.",
            "Vai para a auditoria com seu nome. Sem dados pessoais.",
        )),
        wrong: wrongs.take("note"),
    };
    let documents: Vec<Markup> = typed
        .documents
        .iter()
        .map(|(name, document)| {
            html! {
                fieldset .stack {
                    legend { (titled(lang, name, letter.said.template.as_deref())) }
                    (document.drawn(lang, name, &mut wrongs))
                }
            }
        })
        .collect();
    let content = html! {
        input type="hidden" name="version" value=(letter.version);
        @if persons == Persons::Seen && Veil::of(visit.caller(), &visit.door().setup()) == Veil::Drawn {
            input type="hidden" name="revealed" value="true";
        }
        div .stack {
            (wrongs.rest(lang))
            (to.drawn(lang))
            @for document in &documents { (document) }
            (note.drawn(lang))
            div .row { button .primary type="submit" name="step" value="check" { (lang.say("Check and compare", "Conferir e comparar")) } }
            p .hint { (lang.say("Nothing is saved or sent yet: first you see the difference.", "Nada é salvo nem enviado ainda: antes você vê a diferença.")) }
        }
    };
    html! {
        section .card aria-labelledby="editor-title" {
            header { h2 #editor-title { (lang.say("What it says", "O que ela diz")) } }
            @if hidden { (covered(visit, letter)) }
            (ours(look, &here(letter), None, &content))
        }
    }
}

/// What is hidden, and how it is uncovered.
fn covered(visit: &Visit, letter: &Letter) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    html! {
        @for name in DOCUMENTS {
            @if let Some(value) = letter.said.document(name) {
                details .more { summary { (titled(lang, name, letter.said.template.as_deref())) } (parts::json(value)) }
            }
        }
        @if visit.caller().reveal {
            p { (lang.say("Your role hides personal data. Reveal it to correct what the message says; that is put on record.", "Seu papel esconde dados pessoais. Revele-os para corrigir o que a mensagem diz; isso fica registrado.")) }
            (asking_form(look, &here(letter), None, lang.say("Show whom this message is for and what it says? This is put on record.", "Mostrar para quem é esta mensagem e o que ela diz? Isto fica registrado."), &html! {
                button type="submit" name="step" value="reveal" { (lang.say("Reveal personal data", "Revelar dados pessoais")) }
            }))
        } @else {
            p { (lang.say("Your key hides personal data and may not reveal it: you can give another recipient. To change what the message says, ask somebody whose key may.", "Sua chave esconde dados pessoais e não pode revelá-los: você pode dar outro destinatário. Para mudar o que a mensagem diz, fale com alguém cuja chave possa.")) }
        }
    }
}

fn titled(lang: Lang, document: &str, template: Option<&str>) -> String {
    match (document, template) {
        ("payload", Some(template)) => lang.say(
            format!("What template {template} is filled with"),
            format!("Com que o modelo {template} é preenchido"),
        ),
        ("payload", None) => lang.say("Payload", "Dados").to_owned(),
        _ => lang.say("Content", "Conteúdo").to_owned(),
    }
}

/// What it said before each edit, and how that differs from what came then.
fn versions(visit: &Visit, letter: &Letter) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let later = letter.revisions.iter().skip(1).map(|revision| &revision.said).chain([&letter.said]);
    let edits: Vec<_> = letter.revisions.iter().zip(later).collect();
    html! { @if !edits.is_empty() {
        section .card aria-labelledby="versions-title" {
            header { h2 #versions-title { (lang.say("Earlier versions", "Versões anteriores")) } }
            @for (revision, then) in edits.into_iter().rev() {
                details .more {
                    summary {
                        (lang.say("version", "versão")) " " (revision.version) " → " (revision.version + 1) " · "
                        (lang.say("by", "por")) " " (revision.by) " · " (time(look, revision.replaced_at))
                        @if let Some(note) = &revision.note { ": " q { (note) } }
                    }
                    (compared(lang, &revision.said, then))
                }
            }
        }
    } }
}

/// What differs, part by part.
fn compared(lang: Lang, before: &Said, after: &Said) -> Markup {
    let text = |said: &Said, name: &str| said.document(name).map(pretty).unwrap_or_default();
    html! {
        @if before.to != after.to { (difference::drawn(lang, lang.say("Recipient", "Destinatário"), &before.to, &after.to)) }
        @for name in DOCUMENTS {
            @let (old, new) = (text(before, name), text(after, name));
            @if old != new { (difference::drawn(lang, &titled(lang, name, after.template.as_deref()), &old, &new)) }
        }
    }
}

/// What a form asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Reveal,
    /// Back to the fields, as they were filled in.
    Edit,
    Check,
    Save,
    Submit,
}

impl Step {
    fn of(form: &Form) -> Option<Step> {
        Some(match form.get("step") {
            "reveal" => Step::Reveal,
            "edit" => Step::Edit,
            "check" => Step::Check,
            "save" => Step::Save,
            "submit" => Step::Submit,
            _ => return None,
        })
    }
}

/// One step on the way from what was typed to what is sent.
pub(crate) async fn change(visit: Visit, form: Form) -> Result<Reply, Problem> {
    let lang = visit.lang();
    let Some(step) = Step::of(&form) else {
        let text = lang.say("Nothing was changed.", "Nada foi mudado.").to_owned();
        let back = format!("/dead/letter/{}", encoded(visit.name()));
        return Ok(Reply::To(back, Some(Flash { good: false, text })));
    };
    let revealed = step == Step::Reveal || form.given("revealed").is_some();
    let letter = find(&visit, revealed).await?;
    let persons = persons(&visit, revealed);
    if letter.state != "failed" {
        let text = lang.say(
            "It is no longer dead: somebody else has dealt with it. Your change was not saved.",
            "Ela não está mais morta: outra pessoa já cuidou dela. Sua mudança não foi salva.",
        );
        let back = format!("/messages/{}", encoded(&letter.id));
        return Ok(Reply::To(back, Some(Flash { good: false, text: text.to_owned() })));
    }
    let typed = if step == Step::Reveal { Typed::of(&letter, persons) } else { Typed::sent(&form) };
    if matches!(step, Step::Reveal | Step::Edit) {
        return Ok(Reply::Sheet(filled(&visit, &letter, &typed, persons, Wrongs::default())));
    }
    let again = |wrongs: Wrongs| {
        let sheet = filled(&visit, &letter, &typed, persons, wrongs);
        Ok(Reply::Sheet(Sheet { status: Some(StatusCode::UNPROCESSABLE_ENTITY), ..sheet }))
    };
    if form.get("version").parse() != Ok(letter.version) {
        return Ok(Reply::Sheet(overtaken(&visit, &letter, &typed, persons)));
    }
    let (changes, mut wrongs) = typed.changes(&letter, persons, lang);
    if changes.is_empty() && wrongs.is_empty() {
        wrongs.own(
            "",
            lang.say(
                "Nothing differs from what it says. To send it as it is, use “Send again” on its page",
                "Nada difere do que ela diz. Para enviá-la como está, use “Enviar de novo” na página dela",
            ),
        );
        return again(wrongs);
    }
    let mut wish = changes.clone();
    wish.insert("version".to_owned(), letter.version.into());
    if !typed.note.is_empty() {
        wish.insert("note".to_owned(), typed.note.as_str().into());
    }
    if step == Step::Check || !wrongs.is_empty() {
        wish.insert("dry_run".to_owned(), true.into());
    }
    let wish = Value::Object(wish);
    if !wrongs.is_empty() {
        // What can be read is checked all the same, so that everything is told at once.
        if !changes.is_empty()
            && let Err(problem) = visit.act(Method::PATCH, LETTER, &letter.id, &wish).await
        {
            wrongs.also(problem);
        }
        return again(wrongs);
    }
    match visit.act(Method::PATCH, LETTER, &letter.id, &wish).await {
        Ok(_) if step == Step::Check => Ok(Reply::Sheet(proposed(&visit, &letter, &changes, &form))),
        Ok(edited) => {
            sent(&visit, &letter, step, &typed, edited["version"].as_u64().unwrap_or_default()).await
        }
        Err(problem) if problem.code == Code::VersionConflict => {
            let letter = find(&visit, revealed).await?;
            Ok(Reply::Sheet(overtaken(&visit, &letter, &typed, persons)))
        }
        Err(problem) => again(Wrongs::told(problem)),
    }
}

/// The fields as they were filled in.
fn filled(visit: &Visit, letter: &Letter, typed: &Typed, persons: Persons, wrongs: Wrongs) -> Sheet {
    headed(visit, letter)
        .still(standing(visit, letter))
        .still(editor(visit, letter, typed, persons, wrongs))
        .still(versions(visit, letter))
}

/// Somebody else was faster: what was typed stays, beside what it says now.
fn overtaken(visit: &Visit, letter: &Letter, typed: &Typed, persons: Persons) -> Sheet {
    let (lang, look) = (visit.lang(), visit.look());
    let told = html! {
        section .card.urgent.bad role="alert" aria-labelledby="overtaken-title" {
            header { h2 #overtaken-title { (lang.say("Somebody else has changed this letter meanwhile", "Outra pessoa mudou esta mensagem enquanto isso")) } }
            @if let Some(last) = letter.revisions.last() {
                p { (last.by) ", " (time(look, last.replaced_at)) @if let Some(note) = &last.note { ": " q { (note) } } }
                (compared(lang, &last.said, &letter.said))
            }
            p { (lang.say(
                "Nothing of yours was saved. What you typed is still in the fields; check it again to see how it differs from what the letter says now.",
                "Nada do que você fez foi salvo. O que você digitou ainda está nos campos; confira de novo para ver como difere do que a mensagem diz agora.",
            )) }
            p { a .button href=(here(letter)) { (lang.say("Begin anew from what it says now", "Recomeçar do que ela diz agora")) } }
        }
    };
    let sheet = headed(visit, letter)
        .still(told)
        .still(editor(visit, letter, typed, persons, Wrongs::default()))
        .still(versions(visit, letter));
    Sheet { status: Some(StatusCode::CONFLICT), ..sheet }
}

/// The difference, to be confirmed.
fn proposed(visit: &Visit, letter: &Letter, changes: &Map<String, Value>, form: &Form) -> Sheet {
    let (lang, look) = (visit.lang(), visit.look());
    let document = |name: &str| changes.get(name).or(letter.said.document(name)).cloned();
    let after = Said {
        to: changes.get("to").and_then(Value::as_str).unwrap_or(&letter.said.to).to_owned(),
        template: letter.said.template.clone(),
        payload: document("payload"),
        content: document("content"),
    };
    let kept = form.fields().filter(|(name, _)| !["csrf", "step", "back"].contains(name));
    let content = html! {
        @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
        div .row {
            button .primary type="submit" name="step" value="submit" { (lang.say("Save and send again", "Salvar e reenviar")) }
            button type="submit" name="step" value="save" { (lang.say("Save only", "Só salvar")) }
            button type="submit" name="step" value="edit" { (lang.say("Go on editing", "Continuar editando")) }
        }
    };
    let title = lang.say("Is this what you mean?", "É isto que você quer?");
    Sheet::new(title).still(html! {
        section .card aria-labelledby="compared-title" {
            header { h2 #compared-title { (lang.say("Before and after", "Antes e depois")) } }
            (compared(lang, &letter.said, &after))
            @if let Some(note) = form.given("note") { p { (lang.say("Note", "Observação")) ": " q { (note) } } }
            p .hint { (lang.say("It was checked as a new message would be. What it said until now is kept as an earlier version.", "Foi conferida como uma mensagem nova seria. O que ela dizia até agora fica guardado como versão anterior.")) }
            (ours(look, &here(letter), None, &content))
        }
    })
}

/// Has it sent, once it is saved.
async fn sent(
    visit: &Visit,
    letter: &Letter,
    step: Step,
    typed: &Typed,
    version: u64,
) -> Result<Reply, Problem> {
    let lang = visit.lang();
    if step == Step::Save {
        let text = lang.say(
            format!("Saved as version {version}. It is not sent yet."),
            format!("Salva como versão {version}. Ainda não foi enviada."),
        );
        return Ok(Reply::done(here(letter), text));
    }
    let note = if typed.note.is_empty() { json!({}) } else { json!({"note": typed.note}) };
    let to = format!("/messages/{}", encoded(&letter.id));
    match visit.act(Method::POST, RETRY, &letter.id, &note).await {
        Ok(_) => Ok(Reply::done(to, lang.say(
            format!("Corrected (version {version}) and on its way again. While it waits, it can still be cancelled here."),
            format!("Corrigida (versão {version}) e a caminho de novo. Enquanto espera, ainda pode ser cancelada aqui."),
        ))),
        Err(problem) => {
            let why = visit.look().trouble(&problem).text;
            let text = lang.say(
                format!("Saved as version {version}, but not sent: {why}"),
                format!("Salva como versão {version}, mas não enviada: {why}"),
            );
            Ok(Reply::To(to, Some(Flash { good: false, text })))
        }
    }
}
