//! What can be done about a channel: tested, held, released; its breaker opened and closed.

use http::Method;
use maud::{Markup, html};
use pombo_kernel::operation::Found;
use pombo_kernel::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Channel, Items, Wall, href};
use crate::dash::form::Form;
use crate::dash::parts::{Tone, ago, asking_form, badge, field, form};
use crate::dash::session::Flash;
use crate::dash::visit::{Look, Reply, Visit};
use crate::dash::words::Lang;
use crate::problem::Problem;

/// How many operations are looked at for the last test.
const LOOKED_AT: usize = 50;

/// A test, as far as it is shown.
#[derive(Deserialize)]
pub(super) struct Tested {
    kind: String,
    channel: Option<String>,
    state: String,
    result: Option<Found>,
    by: String,
    created_at: Time,
}

/// The last test of the channel, if it was lately.
pub(super) async fn tested(visit: &Visit, channel: &str) -> Result<Option<Tested>, Problem> {
    let found: Items<Tested> = visit.ask("/v1/operations", "", &format!("limit={LOOKED_AT}")).await?;
    Ok(found.items.into_iter().find(|it| it.kind == "test_channel" && it.channel.as_deref() == Some(channel)))
}

pub(super) fn told(look: &Look, tested: Option<&Tested>) -> Markup {
    let lang = look.lang;
    let Some(it) = tested else { return html! {} };
    html! {
        section .card aria-labelledby="test-title" {
            header { h2 #test-title { (lang.say("Last test", "Último teste")) } span .quiet { (ago(look, it.created_at)) " " (lang.say("by", "por")) " " (it.by) } }
            @match &it.result {
                Some(found) => div .row { (verdict(lang, found.ok)) span { (found.detail) } span .quiet { (found.latency_ms) " ms" } },
                None if it.state == "running" => p { (badge(Tone::Wait, lang.say("asking", "perguntando"))) " " (lang.say("No node has answered yet.", "Nenhum nó respondeu ainda.")) },
                None => p { (badge(Tone::Bad, lang.say("no answer", "sem resposta"))) " " (lang.say("No node took the test up. Is one running that sends?", "Nenhum nó assumiu o teste. Há algum rodando que envia?")) },
            }
        }
    }
}

fn verdict(lang: Lang, ok: Option<bool>) -> Markup {
    match ok {
        Some(true) => badge(Tone::Ok, lang.say("it is well", "está bem")),
        Some(false) => badge(Tone::Bad, lang.say("it is not well", "não está bem")),
        None => badge(Tone::Quiet, lang.say("cannot be asked", "não dá para perguntar")),
    }
}

/// The button that lets messages pass again, where something stands in the way that a person can lift.
pub(super) fn way_out(visit: &Visit, channel: &str, destination: Option<&str>, wall: Wall) -> Markup {
    let (lang, look, here) = (visit.lang(), visit.look(), href(channel));
    let destination =
        html! { @if let Some(to) = destination { input type="hidden" name="destination" value=(to); } };
    let deed = |verb: &str, question: &str, words: &str| {
        let content = html! { (destination) button type="submit" { (words) } };
        asking_form(look, &format!("{here}/{verb}"), Some(&here), question, &content)
    };
    if !visit.may(&Method::POST, "/v1/channels/{name}/release") {
        return html! {};
    }
    match wall {
        Wall::None | Wall::Unready => html! {},
        Wall::Operator | Wall::Fault | Wall::Pause => deed(
            "release",
            lang.say("Let messages go on?", "Deixar as mensagens seguirem?"),
            lang.say("Release", "Liberar"),
        ),
        Wall::Breaker | Wall::Ramp => deed(
            "close",
            lang.say(
                "Close the breaker? Everything that waits goes at once.",
                "Fechar o disjuntor? Tudo o que espera sai de uma vez.",
            ),
            lang.say("Close the breaker", "Fechar o disjuntor"),
        ),
    }
}

/// What stops a channel, for those who may.
pub(super) fn forms(visit: &Visit, channel: &Channel) -> Markup {
    let (lang, look, here) = (visit.lang(), visit.look(), href(&channel.name));
    if !visit.may(&Method::POST, "/v1/channels/{name}/hold") {
        return html! {};
    }
    let only = |id: &str| {
        html! {
            div .field {
                label for=(id) { (lang.say("Destination", "Destino")) }
                input id=(id) name="destination" autocomplete="off" placeholder=(lang.say("the whole channel", "o canal inteiro"));
            }
        }
    };
    html! {
        div .two {
            section .card aria-labelledby="hold-title" {
                header { h2 #hold-title { (lang.say("Hold it", "Reter")) } }
                p .quiet { (lang.say("Messages are accepted and wait, until somebody releases them. Nothing is lost, and no attempt is used up.", "As mensagens são aceitas e esperam até alguém liberar. Nada se perde e nenhuma tentativa é gasta.")) }
                (form(look, &format!("{here}/hold"), Some(&here), &html! { div .filters {
                    div .field {
                        label for="hold-reason" { (lang.say("Reason", "Motivo")) }
                        input #hold-reason name="reason" required maxlength="500" autocomplete="off";
                    }
                    (only("hold-destination"))
                    div .row { button .danger type="submit" { (lang.say("Hold", "Reter")) } }
                } }))
            }
            section .card aria-labelledby="open-title" {
                header { h2 #open-title { (lang.say("Open its breaker", "Abrir o disjuntor")) } }
                p .quiet { (lang.say("As if the destination were down: messages wait, and one of them tries it after the time that you give.", "Como se o destino estivesse fora do ar: as mensagens esperam, e uma delas tenta depois do tempo dado.")) }
                (form(look, &format!("{here}/open"), Some(&here), &html! { div .filters {
                    (field(lang.say("Reason", "Motivo"), "reason", "", None))
                    (only("open-destination"))
                    div .field {
                        label for="open-for" { (lang.say("First probe after", "Primeira sonda após")) }
                        select #open-for name="for" { @for (value, words) in waits(lang) { option value=(value) { (words) } } }
                    }
                    div .row { button type="submit" { (lang.say("Open", "Abrir")) } }
                } }))
            }
        }
    }
}

fn waits(lang: Lang) -> [(&'static str, &'static str); 5] {
    [
        ("", lang.say("as configured", "como configurado")),
        ("5m", "5 min"),
        ("30m", "30 min"),
        ("2h", "2 h"),
        ("12h", "12 h"),
    ]
}

async fn did(visit: &Visit, path: &'static str, body: &Value, words: &str) -> Reply {
    let done = visit.act(Method::POST, path, visit.name(), body).await;
    visit.back_to(href(visit.name()), done.map(|_| words.to_owned()))
}

/// Has its messages wait.
pub(crate) async fn hold(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let words = visit.lang().say("It is held: its messages wait.", "Está retido: as mensagens esperam.");
    let body = given.document(&["reason", "destination"]);
    Ok(did(&visit, "/v1/channels/{name}/hold", &body, words).await)
}

/// Lets its messages go on.
pub(crate) async fn release(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let words = visit.lang().say("It is released: messages go on.", "Liberado: as mensagens seguem.");
    Ok(did(&visit, "/v1/channels/{name}/release", &given.document(&["destination"]), words).await)
}

/// Takes it for down.
pub(crate) async fn open(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let words = visit
        .lang()
        .say("Its breaker is open: messages wait.", "O disjuntor está aberto: as mensagens esperam.");
    let body = given.document(&["reason", "destination", "for"]);
    Ok(did(&visit, "/v1/channels/{name}/open", &body, words).await)
}

/// Takes it for well: all that waits goes at once.
pub(crate) async fn close(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let words =
        visit.lang().say("The breaker is closed: messages go on.", "Disjuntor fechado: as mensagens seguem.");
    Ok(did(&visit, "/v1/channels/{name}/close", &given.document(&["destination"]), words).await)
}

/// Asks the provider how it is. What it says stands on the page; here it is told whether it said anything in time.
pub(crate) async fn test(visit: Visit, _: Form) -> Result<Reply, Problem> {
    let lang = visit.lang();
    let done = visit.act(Method::POST, "/v1/channels/{name}/test", visit.name(), &json!({})).await;
    let found = match done {
        Ok(document) => serde_json::from_value::<Found>(document).ok(),
        Err(problem) => return Ok(visit.back_to(href(visit.name()), Err(problem))),
    };
    let (good, text) = match found.as_ref().map(|found| found.ok) {
        Some(Some(true)) => {
            (true, lang.say("The provider answers: all is well.", "O provedor responde: tudo bem."))
        }
        Some(Some(false)) => {
            (false, lang.say("The provider is not well; see below.", "O provedor não está bem; veja abaixo."))
        }
        Some(None) => (
            true,
            lang.say(
                "This provider offers no way to ask how it is.",
                "Este provedor não oferece um jeito de perguntar como está.",
            ),
        ),
        None => (
            false,
            lang.say(
                "No node has taken the test up yet. What it finds will stand here.",
                "Nenhum nó assumiu o teste ainda. O que achar aparecerá aqui.",
            ),
        ),
    };
    Ok(Reply::To(href(visit.name()), Some(Flash { good, text: text.to_owned() })))
}
