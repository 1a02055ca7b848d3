//! Alerts: what is wrong now, what was, what to do about it, and who looks after it.

use http::Method;
use maud::{Markup, html};
use pombo_kernel::alert::{RuleName, State};
use pombo_kernel::time::Time;
use serde::Deserialize;

use super::alert::{self, Fired};
use super::form::Form;
use super::messages::{meaning, short};
use super::parts::{self, Tone, ago, badge, empty, encoded, facts, form, linked, none, pager, table, time};
use super::sheet::Sheet;
use super::visit::{Reply, Visit};
use super::words::Lang;
use crate::problem::Problem;

/// Alerts that are over, on one page.
const PAST: usize = 25;

#[derive(Deserialize)]
struct Page {
    items: Vec<Fired>,
    next_cursor: Option<String>,
}

/// An alert with what people were told of it.
#[derive(Deserialize)]
struct Story {
    #[serde(flatten)]
    fired: Fired,
    notices: Vec<Notice>,
}

#[derive(Deserialize)]
struct Notice {
    to: String,
    via: Option<String>,
    state: String,
    subject: String,
    message: Option<String>,
    why: Option<String>,
    created_at: Time,
}

/// What is wrong, then what was.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let asked: Vec<(String, String)> =
        visit.query().into_iter().filter(|(name, _)| name == "cursor").collect();
    let later = !asked.is_empty();
    let pairs = [("state", "resolved".to_owned()), ("limit", PAST.to_string())];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(asked.clone());
    let past: Page = visit.ask("/v1/alerts", "", &parts::query(pairs)).await?;
    let over = html! {
        section .card aria-labelledby="past-title" {
            header { h2 #past-title { (lang.say("What is over", "O que passou")) } }
            @if past.items.is_empty() { p .quiet { (lang.say("Nothing on this page.", "Nada nesta página.")) } }
            @else { (rows(&visit, State::Resolved, lang.say("What is over", "O que passou"), &past.items)) }
        }
        (pager(lang, "/alerts", &asked, past.next_cursor.as_deref()))
    };
    let sheet = Sheet::new(lang.say("Alerts", "Alertas"));
    if later {
        return Ok(sheet.still(over));
    }
    let mut firing: Page = visit.ask("/v1/alerts", "", "state=firing").await?;
    alert::worst_first(&mut firing.items);
    firing.items.sort_by_key(|it| it.acknowledged.is_some());
    let open = html! {
        section .card aria-labelledby="open-title" {
            header { h2 #open-title { (lang.say("What is wrong now", "O que está errado agora")) } }
            @if firing.items.is_empty() {
                (empty(
                    lang.say("Nothing is wrong", "Nada está errado"),
                    lang.say(
                        "Pombo looks every few seconds: at failure rates, what waits too long, held channels, open breakers, deadlines of claims, the store and its disk. What it finds appears here, and people are told.",
                        "O Pombo olha a cada poucos segundos: taxas de falha, o que espera demais, canais retidos, disjuntores abertos, prazos de guias, o armazenamento e o disco. O que ele achar aparece aqui, e as pessoas são avisadas.",
                    ),
                    Some("pombo alerts rules"),
                ))
            } @else { (rows(&visit, State::Firing, lang.say("What is wrong now", "O que está errado agora"), &firing.items)) }
        }
    };
    Ok(sheet.live("open", open).live("past", over))
}

fn rows(visit: &Visit, state: State, title: &str, alerts: &[Fired]) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let columns = [
        lang.say("Severity", "Gravidade"),
        lang.say("What", "O quê"),
        lang.say("State", "Estado"),
        lang.say("Since", "Desde"),
        match state {
            State::Firing => lang.say("Last seen", "Visto por último"),
            State::Resolved => lang.say("Over", "Passou"),
        },
    ];
    let rows: Vec<Markup> = alerts
        .iter()
        .map(|it| {
            html! { tr {
                td { (alert::severity(lang, it)) }
                th scope="row" .prose { a href=(href(&it.id)) { (alert::said(lang, it)) } small { code { (it.rule.as_str()) } } }
                td { (alert::standing(lang, it)) @if let Some(by) = &it.acknowledged { small { (by.by.0) } } }
                td { (ago(look, it.first_seen)) }
                td { (ago(look, it.resolved_at.unwrap_or(it.last_seen))) }
            } }
        })
        .collect();
    table(title, &columns, &rows)
}

fn href(id: &str) -> String {
    format!("/alerts/{}", encoded(id))
}

/// One alert.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let story: Story = visit.ask("/v1/alerts/{id}", visit.name(), "").await?;
    let it = &story.fired;
    let sheet = Sheet::new(lang.say("Alert", "Alerta"))
        .beside(html! { code .quiet title=(it.id) { (short(&it.id)) } })
        .live("alert", standing(&visit, it));
    let sheet = match visit.wants_page() {
        true => sheet.still(answers(&visit, it)),
        false => sheet,
    };
    Ok(sheet.live(
        "more",
        html! { div .two {
            div .stack { (samples(&visit, it)) (told(&visit, &story.notices)) }
            (known(&visit, it))
        } },
    ))
}

/// What is wrong, and what to do.
fn standing(visit: &Visit, it: &Fired) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let open = it.state == State::Firing;
    html! {
        section class=(if open { format!("card urgent {}", alert::tone(it).class()) } else { "card".to_owned() }) aria-label=(lang.say("State", "Estado")) {
            div .row {
                (alert::severity(lang, it)) (alert::standing(lang, it))
                span .quiet { (lang.say("since", "desde")) " " (ago(look, it.first_seen)) }
                @if let Some(at) = it.resolved_at { span .quiet { (lang.say("over", "passou")) " " (ago(look, at)) } }
            }
            @let said = alert::said(lang, it);
            // A sentence that begins with the name of a channel begins as it is spelt.
            p .big { @if it.channel.is_some() { (said) } @else { (parts::capital(&said)) } "." }
            @if let Some(by) = &it.acknowledged {
                p { (lang.say("Looked after by ", "Em cuidado por ")) strong { (by.by.0) } " " span .quiet { (ago(look, by.at)) } @if let Some(note) = &by.note { ": " q { (note) } } }
            }
            @if let Some(silence) = it.silenced.as_ref().filter(|_| open) {
                p { (lang.say("Silenced by ", "Silenciado por ")) strong { (silence.by.0) } (lang.say(" until ", " até ")) (time(look, silence.until)) @if let Some(note) = &silence.note { ": " q { (note) } } }
            }
            @if open {
                h2 { (lang.say("What to do", "O que fazer")) }
                p { (remedy(lang, it.rule)) }
                div .row { (ways(lang, it)) }
            }
        }
    }
}

/// What somebody does about an alert of that rule.
fn remedy(lang: Lang, rule: RuleName) -> Markup {
    use RuleName as R;
    let words = match rule {
        R::DeadLetters => lang.say(
            "Go through the dead letters by cause, the largest group first: mend the cause, then reprocess the group, or discard what is no longer of use.",
            "Veja as mensagens mortas por causa, o maior grupo primeiro: corrija a causa e reprocesse o grupo, ou descarte o que não serve mais.",
        ),
        R::FailureRate | R::PermanentErrors => lang.say(
            "See what the failed messages have in common. One error category points to a cause on our side (addresses, a template, credentials) or at the provider; what is mended can be reprocessed.",
            "Veja o que as mensagens que falharam têm em comum. Uma só categoria de erro aponta para uma causa nossa (endereços, um modelo, credenciais) ou do provedor; o corrigido pode ser reprocessado.",
        ),
        R::MaxRetries => lang.say(
            "The provider was away for longer than the policy waits. See how the channel stands now; once it is well, reprocess the dead letters. If this happens often, give the policy more attempts.",
            "O provedor ficou fora por mais tempo do que a política espera. Veja como o canal está; quando estiver bem, reprocesse as mensagens mortas. Se acontece muito, dê mais tentativas à política.",
        ),
        R::ProcessingTime | R::PastDue => lang.say(
            "More comes in than goes out. See whether a channel is slow or its rate is too low, whether a lane needs more workers, and whether all nodes are running.",
            "Entra mais do que sai. Veja se um canal está lento ou com ritmo baixo demais, se uma fila precisa de mais trabalhadores e se todos os nós estão rodando.",
        ),
        R::TemplateFailing => lang.say(
            "Look at the template's last change and at what its messages failed with. A new version puts it right for messages to come; the dead ones can be corrected and resubmitted.",
            "Olhe a última mudança do modelo e com que erro as mensagens falharam. Uma versão nova corrige as próximas; as mortas podem ser corrigidas e reenviadas.",
        ),
        R::NoScheduling => lang.say(
            "Nobody sends. See that a node with the role of a worker runs and that the store is not paused: `pombo doctor` says what is wrong.",
            "Ninguém envia. Veja se há um nó rodando com o papel de trabalhador e se o armazenamento não está pausado: `pombo doctor` diz o que há.",
        ),
        R::DecisionTime => lang.say(
            "The store or the machine is slow. `pombo doctor` looks at disk, memory and load.",
            "O armazenamento ou a máquina está lento. `pombo doctor` olha disco, memória e carga.",
        ),
        R::ClaimDeadline => lang.say(
            "These claims end unsent if nothing happens. See what holds the channel up; if the operator's system is down, submit them by its portal before the deadline.",
            "Estas guias terminam sem envio se nada for feito. Veja o que segura o canal; se o sistema da operadora está fora do ar, envie pelo portal dela antes do prazo.",
        ),
        R::ChannelHeld => lang.say(
            "Read the reason on the channel's page and mend it: mostly a key that was changed, an instance that is logged out, or a person who held it. Then release it.",
            "Leia o motivo na página do canal e corrija: em geral uma chave trocada, uma instância desconectada, ou alguém que reteve. Depois libere.",
        ),
        R::BreakerOpen => lang.say(
            "The destination is down. Messages wait and follow by themselves once it is back; tell whoever runs it if it lasts.",
            "O destino está fora do ar. As mensagens esperam e seguem sozinhas quando voltar; avise quem o mantém se demorar.",
        ),
        R::Anomaly => lang.say(
            "This error comes up far more often than at this hour on other days. Look at the newest messages with it for what has changed: at the provider, in a list, in a template.",
            "Este erro aparece muito mais do que nesta hora em outros dias. Olhe as mensagens mais novas com ele e o que mudou: no provedor, numa lista, num modelo.",
        ),
        R::StoreUnwritable => lang.say(
            "Nothing can be accepted or recorded. See to the disk or the database; `pombo doctor` says which.",
            "Nada pode ser aceito ou registrado. Cuide do disco ou do banco de dados; `pombo doctor` diz qual.",
        ),
        R::AuditBroken => lang.say(
            "Somebody or something changed the record. Keep the store as it is, take a copy, and find out with `pombo audit verify` where the chain breaks.",
            "Alguém ou algo mudou o registro. Guarde o armazenamento como está, faça uma cópia e descubra com `pombo audit verify` onde a cadeia quebra.",
        ),
        R::DiskLow => lang.say(
            "Make room: a larger disk, or shorter retention. `pombo prune` removes what has ended.",
            "Libere espaço: um disco maior, ou retenção menor. `pombo prune` remove o que já terminou.",
        ),
        R::LogLarge => lang.say(
            "Somebody reads the store's file all the time, so that its log cannot start over: usually a backup that takes long or stands still, or another program that has `pombo.db` open; or very many pages and requests at once. Let it finish or end it; the log then shrinks by itself.",
            "Alguém lê o arquivo o tempo todo, e o log não pode recomeçar: quase sempre um backup demorado ou parado, ou outro programa com `pombo.db` aberto; ou páginas e pedidos demais ao mesmo tempo. Deixe terminar ou encerre; depois o log diminui sozinho.",
        ),
        R::ClockJumped => lang.say(
            "Somebody or NTP set the clock, the machine slept, or another database server answers now. `pombo doctor` says whether the time is right; let an NTP service keep it so. If it was right before, set it back. After a jump ahead, see what went too early; after one back, `pombo messages retry` sends at once what should not wait.",
            "Alguém ou o NTP acertou o relógio, a máquina dormiu, ou agora responde outro servidor de banco de dados. `pombo doctor` diz se a hora está certa; deixe um serviço de NTP cuidar disso. Se antes estava certa, volte o relógio. Se adiantou, veja o que saiu cedo demais; se voltou, `pombo messages retry` envia na hora o que não deve esperar.",
        ),
    };
    parts::prose(words)
}

/// The pages that it concerns.
fn ways(lang: Lang, it: &Fired) -> Markup {
    use RuleName as R;
    let channel = it.channel.as_ref().map(|name| encoded(name.as_str()));
    let narrowed = channel.as_ref().map(|name| format!("channel={name}&")).unwrap_or_default();
    let about = it.about.as_deref().map(encoded).unwrap_or_default();
    let search = match it.rule {
        R::TemplateFailing => Some(format!("{narrowed}template={about}&state=failed")),
        R::Anomaly => Some(format!("{narrowed}category={about}")),
        R::FailureRate | R::MaxRetries | R::PermanentErrors if channel.is_some() => {
            Some(format!("{narrowed}state=failed"))
        }
        R::ClaimDeadline | R::ProcessingTime | R::PastDue | R::NoScheduling => {
            Some(format!("{narrowed}state=pending"))
        }
        _ => None,
    };
    let dead = matches!(it.rule, R::DeadLetters | R::FailureRate | R::MaxRetries | R::PermanentErrors);
    html! {
        @if let Some(name) = &channel { a .button href=(format!("/channels/{name}")) { (lang.say("The channel", "O canal")) } }
        @if let Some(search) = &search { a .button href=(format!("/messages?{search}")) { (lang.say("The messages", "As mensagens")) } }
        @if dead && parts::exists("/dead") {
            a .button href=(parts::with_query("/dead", it.channel.iter().map(|name| ("channel".to_owned(), name.to_string())))) { (lang.say("The dead letters", "As mensagens mortas")) }
        }
        @if it.rule == R::TemplateFailing && parts::exists("/templates/{name}") { a .button href=(format!("/templates/{about}")) { (lang.say("The template", "O modelo")) } }
        @if it.rule == R::AuditBroken { a .button href="/audit/chain" { (lang.say("The chain", "A cadeia")) } }
    }
}

const SILENCES: [&str; 6] = ["30m", "1h", "2h", "8h", "1d", "7d"];

/// What somebody may answer, while it goes on.
fn answers(visit: &Visit, it: &Fired) -> Markup {
    let (lang, look, here) = (visit.lang(), visit.look(), href(&it.id));
    if it.state != State::Firing || !visit.may(&Method::POST, "/v1/alerts/{id}/acknowledge") {
        return html! {};
    }
    let note = |id: &str| {
        html! {
            div .field { label for=(id) { (lang.say("Note", "Anotação")) } input id=(id) name="note" maxlength="1000" autocomplete="off"; }
        }
    };
    html! {
        div .two {
            @if it.acknowledged.is_none() {
                section .card aria-labelledby="ack-title" {
                    header { h2 #ack-title { (lang.say("Look after it", "Cuidar disto")) } }
                    p .quiet { (lang.say("Others see that you do, and nobody is reminded any more.", "Os outros veem que você cuida, e ninguém mais é lembrado.")) }
                    (form(look, &format!("{here}/acknowledge"), Some(&here), &html! { div .filters {
                        (note("ack-note"))
                        div .row { button .primary type="submit" { (lang.say("Acknowledge", "Assumir")) } }
                    } }))
                }
            }
            section .card aria-labelledby="silence-title" {
                header { h2 #silence-title { (lang.say("Silence it", "Silenciar")) } }
                p .quiet { (lang.say("Nobody is told anything of it for a while, this time or the next.", "Ninguém é avisado dele por um tempo, desta vez ou da próxima.")) }
                (form(look, &format!("{here}/silence"), Some(&here), &html! { div .filters {
                    div .field {
                        label for="silence-for" { (lang.say("For", "Por")) }
                        select #silence-for name="for" { @for span in SILENCES { option value=(span) selected[span == "2h"] { (span_said(lang, span)) } } }
                    }
                    (note("silence-note"))
                    div .row { button type="submit" { (lang.say("Silence", "Silenciar")) } }
                } }))
                @if it.silenced.is_some() {
                    (form(look, &format!("{here}/unsilence"), Some(&here), &html! { button type="submit" { (lang.say("End the silence", "Encerrar o silêncio")) } }))
                }
            }
        }
    }
}

fn span_said(lang: Lang, text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), |span| lang.span(span))
}

fn samples(visit: &Visit, it: &Fired) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    html! {
        section .card aria-labelledby="samples-title" {
            header { h2 #samples-title { (lang.say("Samples", "Amostras")) } }
            @if it.samples.is_empty() { p .quiet { (lang.say("This alert has none.", "Este alerta não tem.")) } }
            @for sample in &it.samples {
                div .stack {
                    p .row {
                        strong { (sample_said(visit, it, &sample.what)) }
                        @if sample.count > 1 { span .quiet { (lang.count(sample.count, ("time", "times"), ("vez", "vezes"))) } }
                        @if let Some(at) = sample.last_at { span .quiet { (ago(look, at)) } }
                        @if let Some(id) = &sample.message { a href=(format!("/messages/{}", encoded(id))) { (lang.say("a message", "uma mensagem")) } }
                    }
                    @if !sample.text.is_empty() { pre { (sample.text) } }
                }
            }
        }
    }
}

/// A category in words, where it is one of a channel.
fn sample_said(visit: &Visit, it: &Fired, what: &str) -> String {
    match &it.channel {
        Some(channel) => parts::capital(&meaning(visit, channel.as_str(), what)),
        None => what.replace('_', " "),
    }
}

/// What people were told.
fn told(visit: &Visit, notices: &[Notice]) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let title = lang.say("Who was told", "Quem foi avisado");
    let rows: Vec<Markup> = notices.iter().map(|it| html! { tr {
        th scope="row" { (it.to) @if let Some(via) = it.via.as_ref().filter(|via| **via != it.to) { small { (lang.say("by way of", "por meio de")) " " (via) } } }
        td { (notice_state(lang, &it.state)) @if let Some(why) = &it.why { small { (why) } } }
        td .prose { @match &it.message { Some(id) => a href=(format!("/messages/{}", encoded(id))) { (it.subject) }, None => (it.subject) } }
        td { (ago(look, it.created_at)) }
    } }).collect();
    html! {
        section .card aria-labelledby="told-title" {
            header { h2 #told-title { (title) } }
            @if rows.is_empty() {
                p .quiet { (lang.say("Nobody: no notices are set up for it. ", "Ninguém: não há avisos configurados para ele. ")) (parts::prose(lang.say("`[notices.NAME]` in the configuration says who is.", "`[notices.NOME]` na configuração diz quem é."))) }
            } @else {
                (table(title, &[lang.say("Who", "Quem"), lang.say("State", "Estado"), lang.say("What", "O quê"), lang.say("When", "Quando")], &rows))
            }
        }
    }
}

fn notice_state(lang: Lang, state: &str) -> Markup {
    match state {
        "sent" => badge(Tone::Ok, lang.say("told", "avisado")),
        "handed" => badge(Tone::Wait, lang.say("on its way", "a caminho")),
        "owed" => badge(Tone::Wait, lang.say("to be told", "a avisar")),
        "lost" => badge(Tone::Bad, lang.say("not reached", "não alcançado")),
        other => badge(Tone::Quiet, other),
    }
}

fn known(visit: &Visit, it: &Fired) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let [value, above, peak] = it.numbers(lang);
    let mut rows = vec![
        (lang.say("Rule", "Regra"), html! { code { (it.rule.as_str()) } }),
        (
            lang.say("Channel", "Canal"),
            match &it.channel {
                Some(name) => html! { a href=(format!("/channels/{}", encoded(name.as_str()))) { (name) } },
                None => none(),
            },
        ),
    ];
    if let Some(about) = &it.about {
        let words = html! { (about) };
        rows.push((
            lang.say("About", "Sobre"),
            match it.rule {
                RuleName::TemplateFailing => {
                    linked("/templates/{name}", &format!("/templates/{}", encoded(about)), words)
                }
                _ => words,
            },
        ));
    }
    rows.push((lang.say("Now", "Agora"), html! { (value) }));
    rows.push((lang.say("Wrong above", "Errado acima de"), html! { (above) }));
    rows.push((lang.say("At its worst", "No pior momento"), html! { (peak) }));
    if let Some((count, of)) = it.of_how_many() {
        let words = lang.say(
            format!("{} of {}", lang.number(count), lang.number(of)),
            format!("{} de {}", lang.number(count), lang.number(of)),
        );
        rows.push((lang.say("Concerns", "Diz respeito a"), html! { (words) }));
    }
    rows.push((lang.say("First seen", "Visto pela primeira vez"), time(look, it.first_seen)));
    rows.push((lang.say("Told", "Avisado"), time(look, it.fired_at)));
    rows.push((lang.say("Last seen", "Visto por último"), time(look, it.last_seen)));
    if let Some(at) = it.resolved_at {
        rows.push((lang.say("Over", "Passou"), time(look, at)));
    }
    html! {
        section .card aria-labelledby="known-title" {
            header { h2 #known-title { (lang.say("Details", "Detalhes")) } }
            (facts(rows))
        }
    }
}

async fn answered(visit: &Visit, path: &'static str, body: &serde_json::Value, words: &str) -> Reply {
    let done = visit.act(Method::POST, path, visit.name(), body).await;
    visit.back_to(href(visit.name()), done.map(|_| words.to_owned()))
}

/// Somebody looks after it.
pub(crate) async fn acknowledge(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let words = visit
        .lang()
        .say("You look after it: nobody is reminded any more.", "Você cuida disto: ninguém mais é lembrado.");
    Ok(answered(&visit, "/v1/alerts/{id}/acknowledge", &given.document(&["note"]), words).await)
}

/// Nobody is told of it for a while.
pub(crate) async fn silence(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let words = visit.lang().say("It is silenced.", "Está silenciado.");
    Ok(answered(&visit, "/v1/alerts/{id}/silence", &given.document(&["for", "note"]), words).await)
}

/// People are told again.
pub(crate) async fn unsilence(visit: Visit, _: Form) -> Result<Reply, Problem> {
    let words = visit.lang().say("People are told of it again.", "As pessoas voltam a ser avisadas.");
    Ok(answered(&visit, "/v1/alerts/{id}/unsilence", &serde_json::json!({}), words).await)
}
