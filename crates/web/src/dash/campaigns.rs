//! Campaigns: how far each has come, the newest first.

use maud::{Markup, html};
use pombo_kernel::campaign::StateName;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::window::Window;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::chart;
use super::parts::{self, Tone, ago, badge, empty, encoded, pager, query, table};
use super::sheet::Sheet;
use super::visit::{Look, Visit};
use super::words::Lang;
use crate::problem::Problem;

/// A campaign of the API.
#[derive(Deserialize)]
pub(crate) struct Campaign {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) channel: String,
    pub(crate) lane: String,
    pub(crate) template: String,
    pub(crate) template_version: u32,
    pub(crate) payload: Map<String, Value>,
    pub(crate) throttle_min_seconds: f64,
    pub(crate) throttle_max_seconds: f64,
    pub(crate) window: Option<Window>,
    pub(crate) weight: u32,
    pub(crate) max_failure_rate: Option<f64>,
    pub(crate) expires_after: Option<Span>,
    pub(crate) state: String,
    pub(crate) pause_reason: Option<String>,
    pub(crate) pause_note: Option<String>,
    pub(crate) start_at: Option<Time>,
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
    pub(crate) rate_per_hour: Option<f64>,
    pub(crate) eta: Option<Time>,
    pub(crate) next_send_at: Option<Time>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) in_flight: bool,
    pub(crate) created_at: Time,
    pub(crate) created_by: String,
    pub(crate) started_at: Option<Time>,
    pub(crate) finished_at: Option<Time>,
}

#[derive(Deserialize)]
pub(crate) struct Counts {
    pub(crate) recipients: u64,
    pub(crate) pending: u64,
    pub(crate) queued: u64,
    pub(crate) sent: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) suppressed: u64,
    pub(crate) invalid: u64,
    pub(crate) duplicates: u64,
}

impl Counts {
    /// Those with whom it is done, one way or another.
    pub(crate) fn over(&self) -> u64 {
        self.sent + self.failed + self.cancelled + self.suppressed
    }

    /// Those who are still to be reached.
    pub(crate) fn left(&self) -> u64 {
        self.pending + self.queued
    }
}

#[derive(Deserialize)]
pub(crate) struct Limits {
    pub(crate) estimated_seconds: u64,
    pub(crate) soft_seconds: u64,
    pub(crate) hard_seconds: u64,
    #[serde(default)]
    pub(crate) used_seconds: u64,
}

#[derive(Deserialize)]
pub(crate) struct Waiting {
    pub(crate) reason: String,
    pub(crate) until: Option<Time>,
    pub(crate) words: String,
}

#[derive(Deserialize)]
struct Campaigns {
    items: Vec<Campaign>,
    next_cursor: Option<String>,
}

pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let known = |name: &str| ["state", "cursor"].contains(&name);
    let asked: Vec<_> = visit.query().into_iter().filter(|(name, _)| known(name)).collect();
    let found: Campaigns = visit.ask("/v1/campaigns", "", &query(asked.clone())).await?;
    let given = |name: &str| asked.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let rows: Vec<Markup> = found.items.iter().map(|campaign| row(visit.look(), campaign)).collect();
    let title = lang.say("Campaigns", "Campanhas");
    let columns = [
        lang.say("Campaign", "Campanha"),
        lang.say("State", "Estado"),
        lang.say("Progress", "Andamento"),
        lang.say("#An hour", "#Por hora"),
        lang.say("Next send", "Próximo envio"),
        lang.say("Ends about", "Termina por volta de"),
        lang.say("Created", "Criada"),
    ];
    let may = visit.may(&http::Method::POST, "/v1/campaigns");
    let html = html! {
        section .card {
            @if !rows.is_empty() { (table(title, &columns, &rows)) }
            @else if found.next_cursor.is_some() { p .quiet { (lang.say("None of those that were looked at. There are older ones.", "Nenhuma entre as que foram vistas. Há mais antigas.")) } }
            @else { (nothing(lang, given("state").is_some(), may)) }
        }
        (pager(lang, "/campaigns", &asked, found.next_cursor.as_deref()))
    };
    let beside = html! { @if may { a .button.primary href="/campaigns/new" { (lang.say("New campaign", "Nova campanha")) } } };
    let sheet = Sheet::new(title).beside(beside).still(states(lang, given("state")));
    Ok(if given("cursor").is_none() { sheet.live("list", html) } else { sheet.still(html) })
}

/// The way to those in one state.
fn states(lang: Lang, chosen: Option<&str>) -> Markup {
    let link = |value: Option<&str>, words: &str| {
        let href = value.map_or_else(|| "/campaigns".to_owned(), |value| format!("/campaigns?state={value}"));
        html! { a .button href=(href) aria-current=[(value == chosen).then_some("true")] { (words) } }
    };
    html! {
        div .pick.wrap role="group" aria-label=(lang.say("State", "Estado")) {
            (link(None, lang.say("All", "Todas")))
            @for state in [StateName::Running, StateName::Paused, StateName::Scheduled, StateName::Draft, StateName::Completed, StateName::Cancelled] {
                (link(Some(state.as_str()), &parts::capital(state_words(lang, state.as_str()))))
            }
        }
    }
}

fn nothing(lang: Lang, filtered: bool, may: bool) -> Markup {
    if filtered {
        return empty(
            lang.say("No campaign is in this state", "Nenhuma campanha está neste estado"),
            lang.say(
                "Choose another one above, or look at all of them.",
                "Escolha outro acima, ou veja todas.",
            ),
            None,
        );
    }
    html! {
        (empty(
            lang.say("No campaigns yet", "Ainda não há campanhas"),
            lang.say(
                "A campaign writes one template to many people: one at a time, at a pace that keeps a WhatsApp line from being blocked. You bring a list as CSV; it tells you who received the message, who did not, and why.",
                "Uma campanha escreve um modelo a muitas pessoas: uma por vez, num ritmo que evita o bloqueio da linha de WhatsApp. Você traz uma lista em CSV; ela diz quem recebeu a mensagem, quem não, e por quê.",
            ),
            Some("pombo campaigns create --name Natal --channel whatsapp --template natal clientes.csv"),
        ))
        @if may { p .centred { a .button.primary href="/campaigns/new" { (lang.say("Create the first one", "Criar a primeira")) } } }
    }
}

fn row(look: &Look, campaign: &Campaign) -> Markup {
    let lang = look.lang;
    let counts = &campaign.counts;
    let waits = campaign.waiting.as_ref().filter(|waiting| waiting.reason != "pace");
    html! { tr {
        th scope="row" {
            a href=(address(&campaign.id)) { (campaign.name) }
            small { (campaign.channel) " · " (campaign.template) }
        }
        td {
            (state(lang, campaign))
            @if let Some(waiting) = waits { small { (lang.say("waits for ", "espera ")) (waits_for(lang, &waiting.reason)) } }
            @else if let Some(reason) = &campaign.pause_reason { small { (paused_by(lang, reason)) } }
            @if let Some(at) = campaign.start_at { small { (ago(look, at)) } }
        }
        td {
            @if counts.recipients > 0 {
                span .nowrap { (chart::meter(share(counts.over(), counts.recipients), "ok")) " " (lang.percent(share(counts.over(), counts.recipients))) }
                small {
                    (lang.say("sent", "enviadas")) " " (lang.number(counts.sent)) " " (lang.say("of", "de")) " " (lang.number(counts.recipients))
                    @if counts.failed > 0 { ", " span .bad-text { (lang.number(counts.failed)) " " (lang.say("failed", "com falha")) } }
                }
            } @else { span .quiet { (lang.say("no list yet", "sem lista ainda")) } }
        }
        td .num { @match campaign.rate_per_hour { Some(rate) => (lang.decimal(rate, 0)), None => (parts::none()) } }
        td {
            @if campaign.in_flight { (lang.say("sending now", "enviando agora")) }
            @else if let Some(at) = campaign.next_send_at { (ago(look, at)) }
            @else { (parts::none()) }
        }
        td { @match (campaign.finished_at, campaign.eta) {
            (Some(at), _) => { span .quiet { (lang.say("ended", "terminou")) " " } (ago(look, at)) },
            (None, Some(at)) => (ago(look, at)),
            (None, None) => (parts::none()),
        } }
        td { (ago(look, campaign.created_at)) }
    } }
}

/// Where a campaign's page is.
pub(crate) fn address(id: &str) -> String {
    format!("/campaigns/{}", encoded(id))
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn share(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}

fn state_words(lang: Lang, state: &str) -> &str {
    match state {
        "draft" => lang.say("draft", "rascunho"),
        "scheduled" => lang.say("scheduled", "agendada"),
        "running" => lang.say("running", "em andamento"),
        "paused" => lang.say("paused", "pausada"),
        "completed" => lang.say("completed", "concluída"),
        "cancelled" => lang.say("cancelled", "cancelada"),
        other => other,
    }
}

/// The state of a campaign.
pub(crate) fn state(lang: Lang, campaign: &Campaign) -> Markup {
    let alone =
        campaign.pause_reason.as_deref().is_some_and(|reason| !["operator", "cancelling"].contains(&reason));
    let tone = match campaign.state.as_str() {
        "completed" => Tone::Ok,
        "running" | "scheduled" => Tone::Wait,
        "paused" if alone => Tone::Bad,
        "paused" => Tone::Held,
        _ => Tone::Quiet,
    };
    badge(tone, state_words(lang, &campaign.state))
}

/// Why it does not go on.
pub(crate) fn paused_by(lang: Lang, reason: &str) -> &str {
    match reason {
        "operator" => lang.say("somebody paused it", "alguém pausou"),
        "time_limit" => lang.say("it took longer than it may", "levou mais tempo que o permitido"),
        "failure_rate" => lang.say("too many of the last sends failed", "envios demais falharam por último"),
        "cancelling" => lang.say("it is being cancelled", "está sendo cancelada"),
        "trouble" => lang.say("it cannot be sent as it is", "não pode ser enviada como está"),
        other => other,
    }
}

/// What it waits for.
pub(crate) fn waits_for(lang: Lang, reason: &str) -> &str {
    match reason {
        "pace" => lang.say("its pace: the wait after a send", "o ritmo: a espera após um envio"),
        "window" => lang.say("its sending hours", "o horário de envio dela"),
        "line_window" => lang.say("the sending hours of its channel", "o horário de envio do canal"),
        "daily_cap" => lang.say(
            "the next day: today's sends of the channel are used up",
            "o dia seguinte: os envios de hoje do canal se esgotaram",
        ),
        "line_gap" => lang.say("its turn on the channel", "a vez dela no canal"),
        "retry" => lang.say("another try of those who are left", "nova tentativa a quem falta"),
        "channel_held" => lang.say("its channel, which is held", "o canal, que está retido"),
        "breaker" => lang.say("its channel, whose breaker is open", "o canal, cujo disjuntor está aberto"),
        "all_paused" => lang.say("the whole store, which is paused", "o armazenamento, que está pausado"),
        "never" => lang.say(
            "an hour that never comes: its hours and those of its channel do not meet",
            "uma hora que nunca chega: o horário dela e o do canal não se encontram",
        ),
        other => other,
    }
}
