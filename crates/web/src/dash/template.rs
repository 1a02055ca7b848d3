//! One template: what its versions say, what comes of them, and where the next one is written.

mod changes;
mod preview;

use http::{Method, StatusCode};
use maud::{Markup, html};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::template::{Compiled, Part, Template};
use pombo_kernel::time::Time;
use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) use self::preview::{preview, try_out};
use super::filled::{Field, Filled};
use super::form::Form;
use super::parts::{ago, copied, facts, form, time};
use super::sheet::Sheet;
use super::templates::{Heads, address, part};
use super::visit::{Reply, Visit};
use super::words::Lang;
use crate::problem::{Code, Problem};

pub(crate) const SHOW: &str = "/v1/templates/{name}";
const VERSIONS: &str = "/v1/templates/{name}/versions";
/// Versions that are shown at once.
const LATEST: usize = 20;
const FIELDS: [&str; 5] = ["subject", "text", "html", "whatsapp", "payload"];

/// What a version of the API says.
#[derive(Deserialize)]
pub(crate) struct Words {
    name: String,
    version: u32,
    created_at: Time,
    created_by: String,
    subject: Option<String>,
    text: Option<String>,
    html: Option<String>,
    whatsapp: Option<String>,
}

impl From<Words> for Template {
    fn from(words: Words) -> Template {
        let Words { subject, text, html, whatsapp, .. } = words;
        Template { subject, text, html, whatsapp }
    }
}

impl Words {
    fn part(&self, part: Part) -> Option<&str> {
        let text = match part {
            Part::Subject => &self.subject,
            Part::Text => &self.text,
            Part::Html => &self.html,
            Part::Whatsapp => &self.whatsapp,
        };
        text.as_deref()
    }

    /// The form in which it is changed.
    fn typed(&self) -> Form {
        let parts =
            Part::ALL.into_iter().filter_map(|part| Some((part.as_str(), self.part(part)?.to_owned())));
        Form::of_pairs(parts.chain([("based_on", self.version.to_string())]))
    }
}

async fn find(visit: &Visit, version: Option<&str>) -> Result<Words, Problem> {
    let query =
        version.map(|version| format!("version={}", super::parts::encoded(version))).unwrap_or_default();
    visit.ask(SHOW, visit.name(), &query).await
}

/// What a template's page is made of.
struct Desk<'a> {
    name: &'a str,
    /// The version that is looked at; none of a template that is not there yet.
    words: Option<&'a Words>,
    versions: Option<&'a Heads>,
    typed: &'a Form,
    problem: Option<&'a Problem>,
}

pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let words = find(&visit, visit.asked("version").as_deref()).await?;
    let versions: Heads = visit.ask(VERSIONS, visit.name(), &format!("limit={LATEST}")).await?;
    let latest = versions.items.first().map_or(words.version, |head| head.version);
    let against = match visit.asked("against") {
        None => None,
        Some(version) => Some(find(&visit, Some(&version)).await?),
    };
    // An earlier one is saved as what comes after the latest.
    let typed = words.typed().with("based_on", &latest.to_string());
    let title = lang.say(format!("Template: {}", words.name), format!("Modelo: {}", words.name));
    let old = html! { @if words.version != latest {
        p .flash.note {
            (lang.say(format!("This is version {}. New messages get version {latest}, the latest.", words.version), format!("Esta é a versão {}. Novas mensagens recebem a versão {latest}, a mais recente.", words.version)))
            " " a href=(address(&words.name)) { (lang.say("To the latest", "Ir à mais recente")) }
        }
    } };
    let desk = Desk {
        name: &words.name,
        words: Some(&words),
        versions: Some(&versions),
        typed: &typed,
        problem: None,
    };
    let beside = html! { span .quiet { (lang.say("version", "versão")) " " (words.version) } };
    let sheet = Sheet::new(title).beside(beside).still(old);
    let sheet = match &against {
        Some(against) => sheet.still(changes::between(lang, against, &words)),
        None => sheet,
    };
    Ok(sheet.still(desk.laid_out(&visit)))
}

/// The page of a template that is not there yet, or could not be saved: with what was typed.
pub(crate) async fn editing(
    visit: &Visit,
    name: &str,
    typed: &Form,
    problem: Option<&Problem>,
) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let words: Option<Words> = visit.ask(SHOW, name, "").await.ok();
    let versions: Option<Heads> = visit.ask(VERSIONS, name, &format!("limit={LATEST}")).await.ok();
    let title = match &words {
        Some(_) => lang.say(format!("Template: {name}"), format!("Modelo: {name}")),
        None => lang.say(format!("New template: {name}"), format!("Novo modelo: {name}")),
    };
    let desk = Desk { name, words: words.as_ref(), versions: versions.as_ref(), typed, problem };
    let status = problem.map(|problem| match problem.code {
        Code::VersionConflict => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    });
    Ok(Sheet { status, ..Sheet::new(title).still(desk.laid_out(visit)) })
}

impl Desk<'_> {
    fn laid_out(&self, visit: &Visit) -> Markup {
        let may = visit.may(&Method::PUT, SHOW);
        let lang = visit.lang();
        html! {
            @if may { (form(visit.look(), &address(self.name), None, &html! { div .story { div { (self.editor(lang)) } div { (self.outcome(lang, true)) } } })) }
            @else { div .story { div { (self.read_only(lang)) } div { (self.outcome(lang, false)) } } }
            (self.history(visit))
        }
    }

    fn editor(&self, lang: Lang) -> Markup {
        let filled = Filled { lang, form: self.typed, problem: self.problem };
        let field =
            |name, hint| Field { label: part(lang, name), name, hint: Some(hint), ..Field::default() };
        html! {
            (filled.trouble(&FIELDS))
            section .card aria-labelledby="editor-title" {
                header { h2 #editor-title { (lang.say("What it says", "O que ele diz")) } }
                input type="hidden" name="based_on" value=(self.typed.get("based_on"));
                (filled.input(field("subject", lang.say("Of a mail. One line.", "De um e-mail. Uma linha."))))
                (filled.area(field("text", lang.say("Of a mail without HTML, and of WhatsApp where that has no words of its own.", "De um e-mail sem HTML, e do WhatsApp quando este não tem texto próprio.")), 8))
                (filled.area(field("whatsapp", lang.say("Only where it differs from the text.", "Só onde difere do texto.")), 5))
                (filled.area(field("html", lang.say("Of a mail. What is filled in is escaped.", "De um e-mail. O que é preenchido é escapado.")), 10))
                div .row {
                    button .primary type="submit" { @match self.words { Some(_) => (lang.say("Save as a new version", "Gravar como nova versão")), None => (lang.say("Save", "Gravar")) } }
                    a .button href="/templates" { (lang.say("Back", "Voltar")) }
                    span .hint { (lang.say("Gaps are written {{ nome }}.", "Lacunas se escrevem {{ nome }}.")) }
                }
            }
        }
    }

    fn read_only(&self, lang: Lang) -> Markup {
        html! {
            section .card aria-labelledby="editor-title" {
                header { h2 #editor-title { (lang.say("What it says", "O que ele diz")) } }
                @if let Some(words) = self.words { @for one in Part::ALL { @if let Some(text) = words.part(one) {
                    h3 { (part(lang, one.as_str())) } pre { (text) }
                } } }
            }
        }
    }

    /// What comes of it. The frame is filled by the form's second button, or shows the version that there is.
    fn outcome(&self, lang: Lang, trying: bool) -> Markup {
        let filled = Filled { lang, form: &self.tried(), problem: self.problem };
        let kinds = [
            ("smtp".to_owned(), lang.say("E-mail", "E-mail").to_owned()),
            ("evolution".to_owned(), "WhatsApp".to_owned()),
        ];
        let src = self.words.map(|words| format!("{}/preview?version={}", address(self.name), words.version));
        html! {
            section .card aria-labelledby="outcome-title" {
                header { h2 #outcome-title { (lang.say("What comes of it", "O que sai dele")) } }
                @if trying {
                    (filled.choice(Field { label: lang.say("As", "Como"), name: "kind", ..Field::default() }, &kinds))
                    (filled.area(Field { label: lang.say("Filled with, as JSON", "Preenchido com, em JSON"), name: "payload", ..Field::default() }, 5))
                    div .row { button type="submit" formaction=(format!("{}/preview", address(self.name))) formtarget="preview" formnovalidate { (lang.say("Preview", "Prévia")) }
                        span .hint { (lang.say("Nothing is saved or sent.", "Nada é gravado ou enviado.")) } }
                }
                iframe .letter name="preview" sandbox="" title=(lang.say("Preview", "Prévia")) src=[src] {}
            }
        }
    }

    /// What was typed, with something to fill the gaps with where nothing was.
    fn tried(&self) -> Form {
        let typed = self.typed.clone();
        if typed.given("payload").is_some() {
            return typed;
        }
        let kind = if typed.given("subject").is_some() { "smtp" } else { "evolution" };
        let payload = serde_json::to_string_pretty(&made_up(&written(&typed))).unwrap_or_default();
        typed.with("payload", &payload).with("kind", kind)
    }

    fn history(&self, visit: &Visit) -> Markup {
        let (lang, look) = (visit.lang(), visit.look());
        let (Some(words), Some(versions)) = (self.words, self.versions) else { return html! {} };
        let base = address(self.name);
        html! {
            div .two {
                section .card aria-labelledby="versions-title" {
                    header { h2 #versions-title { (lang.say("Versions", "Versões")) } }
                    ul .versions { @for head in &versions.items {
                        li {
                            a href=(format!("{base}?version={}", head.version)) aria-current=[(head.version == words.version).then_some("true")] { (lang.say("Version", "Versão")) " " (head.version) }
                            span .quiet { (ago(look, head.created_at)) " " (lang.say("by", "por")) " " (head.created_by) }
                            @if head.version != words.version {
                                a href=(format!("{base}?version={}&against={}", words.version, head.version)) { (lang.say(format!("Compare with {}", words.version), format!("Comparar com {}", words.version))) }
                            }
                        }
                    } }
                    @if versions.next_cursor.is_some() { p .quiet { (lang.say("There are earlier ones:", "Há anteriores:")) " " (copied(&format!("pombo templates show {} --versions", self.name))) } }
                }
                section .card aria-labelledby="known-title" {
                    header { h2 #known-title { (lang.say("Details", "Detalhes")) } }
                    (facts(vec![
                        (lang.say("Name", "Nome"), copied(&words.name)),
                        (lang.say("Saved", "Gravado"), html! { (time(look, words.created_at)) " " span .quiet { (lang.say("by", "por")) " " (words.created_by) } }),
                        (lang.say("Used by", "Usado por"), html! { a href=(format!("/messages?template={}", super::parts::encoded(self.name))) { (lang.say("its messages", "as mensagens dele")) } }),
                    ]))
                    @if visit.may(&Method::POST, "/v1/campaigns") {
                        p { a .button href=(format!("/campaigns/new?template={}", super::parts::encoded(self.name))) { (lang.say("New campaign with it", "Nova campanha com ele")) } }
                    }
                }
            }
        }
    }
}

/// What was typed, part by part; a part that is empty is none. Browsers end lines in their own way.
fn written(typed: &Form) -> Template {
    let part = |part: Part| {
        let text = typed.get(part.as_str()).replace("\r\n", "\n");
        (!text.trim().is_empty()).then_some(text)
    };
    Template {
        subject: part(Part::Subject),
        text: part(Part::Text),
        html: part(Part::Html),
        whatsapp: part(Part::Whatsapp),
    }
}

/// The same as the API wants it.
fn document(template: &Template) -> Map<String, Value> {
    let parts = Part::ALL
        .into_iter()
        .filter_map(|part| Some((part.as_str().to_owned(), template.part(part)?.into())));
    parts.collect()
}

/// Something for every gap: its own name.
fn made_up(template: &Template) -> Value {
    let Ok(compiled) = Compiled::new(template.clone()) else { return Value::Object(Map::new()) };
    // Such a channel takes every part.
    let names = compiled.variables(ChannelKind::Null);
    names.into_iter().map(|name| (name.clone(), Value::from(name))).collect::<Map<_, _>>().into()
}

/// Saves what was typed as the next version.
pub(crate) async fn save(visit: Visit, typed: Form) -> Result<Reply, Problem> {
    let lang = visit.lang();
    let name = visit.name().to_owned();
    let latest: Option<Words> = match visit.ask(SHOW, &name, "").await {
        Ok(words) => Some(words),
        Err(problem) if problem.code == Code::NotFound => None,
        Err(problem) => return Err(problem),
    };
    let version = latest.map(|words| words.version);
    let latest = version.map(|version| version.to_string()).unwrap_or_default();
    if latest != typed.get("based_on") {
        let problem = Problem::new(
            Code::VersionConflict,
            format!("version {latest} was saved while you wrote"),
            "compare the two below; if you save once more, yours comes after it",
        );
        let typed = typed.with("based_on", &latest);
        return Ok(Reply::Sheet(editing(&visit, &name, &typed, Some(&problem)).await?));
    }
    match visit.act(Method::PUT, SHOW, &name, &Value::Object(document(&written(&typed)))).await {
        Ok(saved) if version.is_some_and(|version| saved["version"] == version) => Ok(Reply::done(
            address(&name),
            lang.say(
                "It says the same as before: no new version.",
                "Diz o mesmo que antes: nenhuma nova versão.",
            ),
        )),
        Ok(saved) => {
            let version = &saved["version"];
            Ok(Reply::done(
                address(&name),
                lang.say(
                    format!("Version {version} is saved. New messages get it."),
                    format!("A versão {version} foi gravada. Novas mensagens a recebem."),
                ),
            ))
        }
        Err(problem) if problem.errors.is_empty() => Err(problem),
        Err(problem) => Ok(Reply::Sheet(editing(&visit, &name, &typed, Some(&problem)).await?)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_gap_is_filled_with_its_own_name() {
        let template = Template {
            subject: Some("{{ nome }}".into()),
            whatsapp: Some("{{ loja }} {{ nome }}".into()),
            ..Template::default()
        };
        assert_eq!(made_up(&template), json!({"loja": "loja", "nome": "nome"}));
        assert_eq!(made_up(&Template { text: Some("{{ oops".into()), ..Template::default() }), json!({}));
    }

    #[test]
    fn what_is_empty_is_no_part_and_lines_end_as_elsewhere() {
        let typed = Form::of_pairs([("text", "a\r\nb".to_owned()), ("html", " \r\n".to_owned())]);
        assert_eq!(written(&typed), Template { text: Some("a\nb".into()), ..Template::default() });
    }
}
