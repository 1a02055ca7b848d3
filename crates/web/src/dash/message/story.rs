//! What happened to a message, from its beginning to what is next, as one would tell it.

use maud::{Markup, html};
use pombo_kernel::time::{Span, Time};

use super::{Attempt, Deed, Prediction, Revision, Story};
use crate::dash::explained::{self, Why};
use crate::dash::messages::meaning;
use crate::dash::parts::{Tone, ago, capital, sign, time};
use crate::dash::visit::Visit;
use crate::dash::words::Lang;

/// One thing that happened.
struct Scene {
    at: Time,
    tone: Tone,
    /// How long it took, where that is known.
    took: Option<Span>,
    html: Markup,
}

pub(super) fn timeline(visit: &Visit, story: &Story) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let mut scenes = vec![accepted(lang, story)];
    scenes.extend(story.attempts.iter().map(|attempt| tried(visit, story, attempt)));
    scenes.extend(story.deeds.iter().map(|deed| done(lang, deed)));
    scenes.extend(story.revisions.iter().map(|revision| edited(lang, revision)));
    scenes.extend(reported(lang, story));
    // What happened at one moment stays in the order in which it is told.
    scenes.sort_by_key(|scene| scene.at);
    let next = story.next_attempt_at.map(|at| html! {
        li class=(Tone::Wait.class()) {
            span .sign { (sign(Tone::Wait)) }
            p .said { @if story.attempts.is_empty() { (lang.say("It is tried for the first time", "A primeira tentativa é")) } @else { (lang.say("It is tried again", "A próxima tentativa é")) } " " strong { (ago(look, at)) } }
            @if let Some(prediction) = &story.prediction { p .said { (foretold(visit, prediction)) } }
            p .when { (lang.say("unless its channel is held, down or asked to wait", "a não ser que o canal esteja retido, fora do ar ou tenha pedido espera")) }
        }
    });
    html! {
        section .card aria-labelledby="story-title" {
            header { h2 #story-title { (lang.say("What happened", "O que aconteceu")) } }
            ol .timeline {
                @for scene in &scenes {
                    li class=(scene.tone.class()) {
                        span .sign { (sign(scene.tone)) }
                        (scene.html)
                        p .when { (time(look, scene.at)) @if let Some(took) = scene.took { span { (lang.say("took", "levou")) " " (lang.span(took)) } } }
                    }
                }
                @if let Some(next) = next { (next) }
            }
        }
    }
}

/// What history says of it, in a sentence.
fn foretold(visit: &Visit, prediction: &Prediction) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let samples = lang.number(prediction.samples);
    html! {
        @match (prediction.likely_by, prediction.chance) {
            (Some(by), Some(chance)) => {
                (lang.say("It has likely been sent", "Provavelmente terá sido enviada")) " " strong { (ago(look, by)) } " "
                (lang.say(format!("({}, going by {samples} retries like it)", lang.percent(chance)), format!("({}, por {samples} novas tentativas como esta)", lang.percent(chance))))
            }
            (None, Some(chance)) => {
                (lang.say(format!("It is not likely to be sent: {} by its last attempt, going by {samples} retries like it", lang.percent(chance)), format!("Não é provável que seja enviada: {} até a última tentativa, por {samples} novas tentativas como esta", lang.percent(chance))))
            }
            _ => (lang.say("Too few retries like it are on record to say when it will be sent", "Há poucas novas tentativas como esta registradas para dizer quando será enviada")),
        }
    }
}

fn accepted(lang: Lang, story: &Story) -> Scene {
    let (channel, lane) = (&story.channel, &story.lane);
    let words = lang.say(
        format!("Accepted for channel {channel}, lane {lane}"),
        format!("Aceita para o canal {channel}, fila {lane}"),
    );
    Scene { at: story.created_at, tone: Tone::Quiet, took: None, html: html! { p .said { (words) } } }
}

/// Which attempt it was. One that did not count has no number of its own, so it is told without.
fn named(lang: Lang, attempt: &Attempt) -> String {
    let first = capital(&lang.ordinal(attempt.number));
    let round = match attempt.round {
        0 => String::new(),
        round => lang.say(format!(" (round {})", round + 1), format!(" ({}ª rodada)", round + 1)),
    };
    lang.say(format!("{first} attempt{round}"), format!("{first} tentativa{round}"))
}

fn tried(visit: &Visit, story: &Story, attempt: &Attempt) -> Scene {
    let (lang, look) = (visit.lang(), visit.look());
    let took = attempt.finished_at.since(attempt.started_at);
    let why = explained::read(&attempt.explanation);
    let (tone, counted) = match attempt.outcome.as_str() {
        "sent" => (Tone::Ok, true),
        "failed" => (Tone::Bad, true),
        "held" => (Tone::Held, false),
        _ => (Tone::Wait, true),
    };
    let name = match counted {
        true => named(lang, attempt),
        false => lang.say("An attempt that does not count", "Uma tentativa que não conta").to_owned(),
    };
    let meant = attempt.category.as_ref().map(|category| meaning(visit, &story.channel, category));
    let (foreign, said) = (matches!(why, Why::Other(_)), why.said(lang, &look.zone));
    let html = html! {
        p .said {
            strong { (name) }
            @match (&meant, attempt.outcome.as_str()) {
                (_, "sent") => { ": " (said) "." },
                (Some(meant), _) => { " " (lang.say("failed", "falhou")) ": " (meant) "." },
                (None, _) => { " " (lang.say("failed", "falhou")) "." },
            }
        }
        @if attempt.outcome != "sent" {
            p .said lang=[foreign.then_some("en")] { (said) "." }
            @if attempt.perhaps_sent { p .said { (lang.say("It may have been sent all the same.", "Pode ter sido enviada mesmo assim.")) } }
        }
        @if attempt.code.is_some() || attempt.error.is_some() {
            details .numbers {
                summary { (lang.say("What the provider answered", "O que o provedor respondeu")) @if let Some(code) = &attempt.code { " · " code { (code) } } }
                @if let Some(error) = &attempt.error { pre { (error) } }
                @if let Some(category) = &attempt.category { p .hint { (lang.say("category", "categoria")) " " code { (category) } } }
            }
        }
    };
    Scene { at: attempt.finished_at, tone, took: Some(took), html }
}

fn by(lang: Lang, who: &str, note: Option<&str>) -> Markup {
    html! {
        " " (lang.say("by", "por")) " " (who)
        @if let Some(note) = note { ": " q { (note) } }
    }
}

fn done(lang: Lang, deed: &Deed) -> Scene {
    let (tone, words) = match deed.what.as_str() {
        "reprocessed" => (Tone::Wait, lang.say("Sent again", "Reenviada")),
        "discarded" => (Tone::Quiet, lang.say("Discarded", "Descartada")),
        "cancelled" => (Tone::Quiet, lang.say("Cancelled", "Cancelada")),
        other => (Tone::Quiet, other),
    };
    let html = html! { p .said { strong { (words) } (by(lang, &deed.by, deed.note.as_deref())) } };
    Scene { at: deed.at, tone, took: None, html }
}

fn edited(lang: Lang, revision: &Revision) -> Scene {
    let words = lang.say(
        format!("Corrected; version {} is kept", revision.version),
        format!("Corrigida; a versão {} foi guardada", revision.version),
    );
    let html = html! { p .said { strong { (words) } (by(lang, &revision.by, revision.note.as_deref())) } };
    Scene { at: revision.replaced_at, tone: Tone::Quiet, took: None, html }
}

/// What the provider told later.
fn reported(lang: Lang, story: &Story) -> Option<Scene> {
    let (state, at) = (story.delivery.as_ref()?, story.delivery_at?);
    let tone = match state.as_str() {
        "bounced" | "complained" => Tone::Bad,
        "delayed" | "delivery_delayed" => Tone::Wait,
        _ => Tone::Ok,
    };
    let html = html! {
        p .said { (lang.say("The provider reports", "O provedor relata")) ": " strong { (crate::dash::messages::delivery(lang, state)) } }
        @if let Some(detail) = &story.delivery_detail { pre { (detail) } }
    };
    Some(Scene { at, tone, took: None, html })
}
