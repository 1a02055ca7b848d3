//! Policies tried before anybody trusts them: on pretend outages, or held against what was recorded. What is played, and
//! how, is `kernel::rehearsal`, as in `pombo simulate`; no time passes, and nothing is sent.

mod asked;
mod drawn;

use std::collections::BTreeSet;

use maud::{Markup, html};
use pombo_kernel::learn::{Counts, Curve};
use pombo_kernel::rehearsal::{
    Act, Comparison, Played, Replayed, Scenario, Verdict, adaptive, fixed, replay,
};
use pombo_kernel::time::Span;
use serde::Deserialize;

use self::asked::{Asked, Pick, Way, picks};
use self::drawn::{Held, act, swatch};
use super::filled::{Field, Filled};
use super::parts::{self, Tone, badge, copied, with_query};
use super::sheet::Sheet;
use super::visit::Visit;
use super::words::Lang;
use crate::problem::{Code, Problem};

pub(crate) const HERE: &str = "/learning/simulate";

/// So many messages are played, unless a policy tries so often that it takes fewer: a page has to answer at once.
const MESSAGES: usize = 4_000;
/// So many retries each act may make.
const RETRIES: usize = 20_000;
/// The same address shows the same.
const SEED: u64 = 1;

#[derive(Deserialize)]
struct Learning {
    curves: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    channel: String,
    category: String,
    cells: Curve,
}

pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let picks = picks(&visit);
    let mut asked = Asked::read(&visit.head().uri, &picks);
    let recorded = match asked.way {
        Way::History => visit.ask::<Learning>("/v1/learning", "", "").await?.curves,
        _ => Vec::new(),
    };
    let shown = match asked.way {
        Way::History => held(&visit, &mut asked, &picks, &recorded).await,
        _ => played(&visit, &mut asked, &picks).await,
    };
    let wrong = asked.problem();
    let sheet = Sheet::new(lang.say("Try a policy", "Experimentar uma política"))
        .still(html! { p .hint { (lang.say(
            "What a policy would come to, with adaptive waits and without them. No time passes, and nothing is sent.",
            "No que uma política daria, com esperas adaptativas e sem elas. Nenhum tempo passa, e nada é enviado.",
        )) } })
        .still(html! { (ways(lang, &asked)) (form(&visit, &asked, &picks, &recorded, wrong.as_ref())) });
    Ok(match (shown, wrong) {
        (_, Some(problem)) => Sheet { status: Some(problem.code.status()), ..sheet },
        (Ok(parts), None) => parts.into_iter().fold(sheet, Sheet::still),
        (Err(problem), None) if problem.code == Code::Overloaded => {
            let told = html! { div .flash.bad role="alert" { p { (lang.say(
                "Another simulation is being computed, and this server does one at a time. Try again in a moment.",
                "Outra simulação está sendo calculada, e este servidor faz uma por vez. Tente de novo em um instante.",
            )) } } };
            Sheet { status: Some(problem.code.status()), ..sheet.still(told) }
        }
        (Err(problem), None) => return Err(problem),
    })
}

/// What a policy can be tried on; whoever goes from one to another keeps the policy.
fn ways(lang: Lang, asked: &Asked) -> Markup {
    let policy = asked.form.get("policy");
    html! {
        nav .pick.wrap aria-label=(lang.say("What to try it on", "Em que experimentar")) {
            @for way in Way::ALL {
                @let pairs = [("policy", policy), ("try", way.name())].map(|(name, value)| (name.to_owned(), value.to_owned()));
                a .button href=(with_query(HERE, pairs)) aria-current=[(way == asked.way).then_some("page")] { (title(lang, way)) }
            }
        }
    }
}

fn title(lang: Lang, way: Way) -> &'static str {
    match way {
        Way::Published => lang.say("Published scenarios", "Cenários publicados"),
        Way::Down => lang.say("Down for a while", "Fora do ar"),
        Way::Flapping => lang.say("Up and down", "Instável"),
        Way::Limit => lang.say("Rate limit", "Limite de ritmo"),
        Way::History => lang.say("Recorded retries", "Tentativas registradas"),
    }
}

fn form(
    visit: &Visit,
    asked: &Asked,
    picks: &[Pick],
    recorded: &[Recorded],
    problem: Option<&Problem>,
) -> Markup {
    let lang = visit.lang();
    let filled = Filled { lang, form: &asked.form, problem };
    let policies: Vec<(String, String)> =
        picks.iter().map(|it| (it.value.clone(), it.words.clone())).collect();
    html! {
        form .card method="get" action=(HERE) aria-label=(title(lang, asked.way)) {
            @if problem.is_some() {
                div .flash.bad role="alert" { p { strong { (lang.say("Nothing was computed", "Nada foi calculado")) } ": " (lang.say("a field cannot be accepted.", "um campo não pode ser aceito.")) } }
            }
            input type="hidden" name="try" value=(asked.way.name());
            // The words of a scenario need room.
            div class=(if asked.way == Way::Published { "filters roomy" } else { "filters" }) {
                (filled.choice(Field { label: lang.say("Policy", "Política"), name: "policy", ..Field::default() }, &policies))
                (fields(visit, &filled, asked.way, recorded))
                div .row { button .primary type="submit" { (lang.say("Simulate", "Simular")) } }
            }
        }
    }
}

fn fields(visit: &Visit, filled: &Filled<'_>, way: Way, recorded: &[Recorded]) -> Markup {
    let lang = visit.lang();
    let example = lang.say("for example 30s, 5m or 1h30m", "por exemplo 30s, 5m ou 1h30m");
    let length = |label: &str, name: &str| {
        filled.input(Field { label, name, hint: Some(example), required: true, ..Field::default() })
    };
    let number = |label: &str, name: &str, hint: Option<&str>| {
        filled.input(Field { label, name, hint, keys: Some("numeric"), required: true, ..Field::default() })
    };
    let lasts = || length(lang.say("For how long", "Por quanto tempo"), "lasts");
    let crowd = || {
        html! {
            (number(lang.say("Messages a minute", "Mensagens por minuto"), "arrivals", None))
            (number(lang.say("Never pass, of a hundred", "Nunca passam, de cada cem"), "permanent", Some(lang.say("their error does not say so", "e o erro não o diz"))))
        }
    };
    html! {
        @match way {
            Way::Published => {
                @let scenarios: Vec<(String, String)> = Scenario::PUBLISHED.iter().map(|name| ((*name).to_owned(), format!("{name}: {}", scenario_words(lang, name)))).collect();
                (filled.choice(Field { label: lang.say("Scenario", "Cenário"), name: "scenario", ..Field::default() }, &scenarios))
            },
            Way::Down => {
                (length(lang.say("Down for at least", "Fora por no mínimo"), "from"))
                (length(lang.say("At most", "No máximo"), "to"))
                (crowd())
            },
            Way::Flapping => {
                (length(lang.say("Down for, on average", "Fora por, em média"), "down"))
                (length(lang.say("Up for, on average", "De volta por, em média"), "up"))
                (lasts())
                (crowd())
            },
            Way::Limit => {
                (number(lang.say("Taken a minute", "Aceitas por minuto"), "takes", None))
                (lasts())
                (crowd())
            },
            Way::History => {
                @let [channels, categories] = known(visit, recorded);
                @let choice = |all: &str, known: &BTreeSet<String>| -> Vec<(String, String)> { [(String::new(), all.to_owned())].into_iter().chain(known.iter().map(|it| (it.clone(), it.clone()))).collect() };
                (filled.choice(Field { label: lang.say("Channel", "Canal"), name: "channel", ..Field::default() }, &choice(lang.say("all channels", "todos os canais"), &channels)))
                (filled.choice(Field { label: lang.say("After failures of", "Depois de falhas de"), name: "category", ..Field::default() }, &choice(lang.say("any category", "qualquer categoria"), &categories)))
            },
        }
    }
}

fn scenario_words(lang: Lang, name: &str) -> &'static str {
    match name {
        "blips" => lang.say("down for 2 s to 1 min", "fora por 2 s a 1 min"),
        "restart" => lang.say("down for about 10 min", "fora por uns 10 min"),
        "outage" => lang.say("down for about 2 h", "fora por umas 2 h"),
        "flapping" => lang.say("an hour of 90 s down, 45 s up", "uma hora de 90 s fora, 45 s de volta"),
        "rate-limit" => lang.say("60 a minute taken, 120 arrive", "60 por minuto aceitas, 120 chegam"),
        _ => lang.say("all of these, 5 in 100 never pass", "de tudo um pouco, 5 em 100 nunca passam"),
    }
}

/// The channels that can be chosen, and the categories on record.
fn known(visit: &Visit, recorded: &[Recorded]) -> [BTreeSet<String>; 2] {
    let own = super::policies::channels(visit).into_iter().map(|it| it.name.to_string());
    let channels = own.chain(recorded.iter().map(|it| it.channel.clone())).collect();
    [channels, recorded.iter().map(|it| it.category.clone()).collect()]
}

type Parts = Result<Vec<Markup>, Problem>;

/// Plays trouble, and shows what became of the messages.
async fn played(visit: &Visit, asked: &mut Asked, picks: &[Pick]) -> Parts {
    let lang = visit.lang();
    let (pick, scenario) = (asked.policy(picks), asked.scenario());
    let (Some(pick), Some(scenario)) = (pick, scenario) else { return Ok(Vec::new()) };
    let Some(messages) = scenario.affordable(&pick.policy, MESSAGES, RETRIES) else {
        let field = if asked.way == Way::Published { "policy" } else { "arrivals" };
        asked.refuse(field, "brings more messages at once than a page can play: use `pombo simulate`");
        return Ok(Vec::new());
    };
    let (policy, trouble) = (pick.policy.clone(), scenario.typical());
    let work = move || {
        let stage = Comparison::new(&scenario, messages, scenario.slot(&policy), SEED);
        (stage.of(&policy), stage.messages())
    };
    let (played, count) = visit.door().stage().play(work).await?;
    let failed = played.first().map_or(0, |it| it.outcome.failed);
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let facts = lang.say(
        format!(
            "{} messages were played, {} of which failed at first.",
            lang.number(count),
            lang.number(failed)
        ),
        format!(
            "{} mensagens simuladas, {} delas falharam primeiro.",
            lang.number(count),
            lang.number(failed)
        ),
    );
    Ok(vec![
        html! { section .card aria-labelledby="came-title" {
            header { h2 #came-title { (lang.say("What came of it", "No que deu")) } span .quiet { (pick.words) } }
            p .big { (sentence(lang, &played)) }
            (table(lang, &played))
            p .hint { (facts) " " (meaning(lang)) }
            @if let Some(command) = asked.command(pick, messages) { p .hint { (lang.say("The same at a terminal: ", "O mesmo no terminal: ")) (copied(&command)) } }
        } },
        drawn::recovery(lang, &played),
        drawn::load(lang, &played, trouble),
    ])
}

/// In one sentence: what adaptive waits would have changed.
fn sentence(lang: Lang, played: &[Played; 3]) -> String {
    let [fixed, _, taught] = played;
    let (was, is) = (lang.percent(fixed.outcome.share()), lang.percent(taught.outcome.share()));
    let recovered = match was == is {
        true => lang.say(
            format!("With adaptive waits {is} recover, as without them"),
            format!("Com esperas adaptativas {is} se recuperam, como sem elas"),
        ),
        false => lang.say(
            format!("With adaptive waits {is} recover instead of {was}"),
            format!("Com esperas adaptativas {is} se recuperam em vez de {was}"),
        ),
    };
    let (before, after) = (fixed.outcome.wasted, taught.outcome.wasted);
    let spared = before.saturating_sub(after);
    let wasted = match (before, after.cmp(&before)) {
        (0, _) => lang
            .say("no retry fails in either case", "nenhuma nova tentativa falha em nenhum dos casos")
            .to_owned(),
        (_, std::cmp::Ordering::Less) => {
            let share = lang.percent(share(spared, before));
            lang.say(
                format!("with {share} fewer failed retries"),
                format!("com {share} menos novas tentativas que falham"),
            )
        }
        (_, std::cmp::Ordering::Equal) => {
            lang.say("with as many failed retries", "com tantas novas tentativas que falham").to_owned()
        }
        (_, std::cmp::Ordering::Greater) => {
            let share = lang.percent(share(after - before, before));
            lang.say(
                format!("with {share} more failed retries"),
                format!("com {share} mais novas tentativas que falham"),
            )
        }
    };
    let half = |it: &Played| it.outcome.time_to(0.5).map(|time| lang.span(time));
    let time = match (half(fixed), half(taught)) {
        (Some(was), Some(is)) if was != is => lang.say(
            format!("; half of them after {is} instead of {was}"),
            format!("; metade delas em {is} em vez de {was}"),
        ),
        (None, Some(is)) => lang.say(
            format!("; half of them after {is}, which the fixed waits never reach"),
            format!("; metade delas em {is}, o que as esperas fixas nunca alcançam"),
        ),
        _ => String::new(),
    };
    format!("{recovered}, {wasted}{time}.")
}

#[allow(clippy::cast_precision_loss)]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn table(lang: Lang, played: &[Played; 3]) -> Markup {
    let columns = [
        lang.say("Waits", "Esperas"),
        lang.say("#Recovered", "#Recuperadas"),
        "#p50",
        "#p90",
        "#p99",
        lang.say("#Wasted", "#Desperdício"),
        lang.say("Against fixed", "Contra a fixa"),
    ];
    let rows: Vec<Markup> = played
        .iter()
        .map(|it| {
            let (words, class) = act(lang, it.act);
            let time = |share| time(lang, it.outcome.time_to(share));
            html! { tr {
                th scope="row" .nowrap { (swatch(class)) " " (words) }
                td .num { (lang.percent(it.outcome.share())) }
                td .num { (time(0.5)) }
                td .num { (time(0.9)) }
                td .num { (time(0.99)) }
                td .num { (lang.decimal(it.outcome.wasted_each(), 2)) }
                td { @match it.verdict { Some(verdict) => (judged(lang, verdict)), None => (parts::none()) } }
            } }
        })
        .collect();
    parts::table(lang.say("What came of it", "No que deu"), &columns, &rows)
}

fn time(lang: Lang, time: Option<Span>) -> Markup {
    time.map_or_else(parts::none, |time| html! { (lang.span(time)) })
}

fn judged(lang: Lang, verdict: Verdict) -> Markup {
    let (tone, words) = match verdict {
        Verdict::Both => (Tone::Ok, lang.say("less waste, sooner", "menos desperdício, antes")),
        Verdict::LessWaste => (Tone::Ok, lang.say("less waste", "menos desperdício")),
        Verdict::Sooner => (Tone::Ok, lang.say("sooner", "antes")),
        Verdict::OutOfReach => (Tone::Quiet, lang.say("out of reach", "fora de alcance")),
        Verdict::Alike => (Tone::Wait, lang.say("alike", "igual")),
        Verdict::Worse => (Tone::Bad, lang.say("worse", "pior")),
    };
    badge(tone, words)
}

fn meaning(lang: Lang) -> &'static str {
    lang.say(
        "p50, p90, p99: the time from the first failure within which that many of a hundred were delivered, – if fewer ever were. Wasted: failed retries for each message that failed at first. Adaptive, new: nothing known at first; adaptive: after as many earlier messages of the same kind. Less waste, sooner: at least 30% of either, and no fewer recovered; out of reach: nobody could have had it inside the policy's bounds.",
        "p50, p90, p99: o tempo desde a primeira falha em que tantas de cada cem foram entregues, – se nunca chegou a tantas. Desperdício: novas tentativas que falharam por mensagem que falhou primeiro. Adaptativa, sem histórico: nada se sabe no começo; adaptativa: depois de outras tantas mensagens do mesmo tipo. Menos desperdício, antes: ao menos 30% de um ou de outro, sem recuperar menos; fora de alcance: ninguém conseguiria dentro dos limites da política.",
    )
}

/// Holds a policy against what was recorded.
async fn held(visit: &Visit, asked: &mut Asked, picks: &[Pick], recorded: &[Recorded]) -> Parts {
    let lang = visit.lang();
    let pick = asked.policy(picks);
    let [channels, categories] = known(visit, recorded);
    let (channel, category) = (chosen(asked, "channel", &channels), chosen(asked, "category", &categories));
    let (Some(pick), Some(channel), Some(category)) = (pick, channel, category) else {
        return Ok(Vec::new());
    };
    let is = |wanted: &str, it: &str| wanted.is_empty() || wanted == it;
    let mut curve = Curve::default();
    for it in recorded.iter().filter(|it| is(&channel, &it.channel) && is(&category, &it.category)) {
        curve.merge(&it.cells);
    }
    let Counts { tried, passed } = curve.total();
    let policy = pick.policy.clone();
    let work = move || {
        let ways = [(Act::Fixed, fixed(&policy)), (Act::Taught, adaptive(&policy))];
        let held =
            ways.into_iter().map(|(act, policy)| Some(Held { act, replayed: replay(&policy, &curve)? }));
        held.collect::<Option<Vec<Held>>>()
    };
    let Some(held) = visit.door().stage().play(work).await? else {
        let words = lang.say(
            format!(
                "{} recorded retries are too few to say anything: at least {} are needed.",
                lang.number(tried),
                Counts::ENOUGH
            ),
            format!(
                "{} novas tentativas registradas são poucas para dizer algo: precisa de pelo menos {}.",
                lang.number(tried),
                Counts::ENOUGH
            ),
        );
        let title = lang.say("Too little is on record", "Há pouco registrado");
        return Ok(vec![html! { section .card { (parts::empty(title, &words, Some("pombo learning"))) } }]);
    };
    let by = lang.say(
        format!("By {} recorded retries, {} of which passed.", lang.number(tried), lang.number(passed)),
        format!(
            "Por {} novas tentativas registradas, das quais {} deram certo.",
            lang.number(tried),
            lang.number(passed)
        ),
    );
    Ok(vec![
        html! { section .card aria-labelledby="came-title" {
            header { h2 #came-title { (lang.say("What it would have come to, from the worst case to the best", "No que teria dado, do pior caso ao melhor")) } span .quiet { (pick.words) } }
            (range_table(lang, &held))
            p { (by) " " (lang.say(
                "A record only shows the moments that were tried. At worst trouble ended just before a retry found it gone, and never for messages that were given up; at best just after the retry before it, and at once for those. The truth lies between, and the further a policy is from the one that made the record, the wider that is.",
                "O registro só mostra os momentos em que se tentou. No pior caso o problema acabou logo antes da tentativa que o encontrou acabado, e nunca para as mensagens abandonadas; no melhor, logo depois da tentativa anterior, e na hora para essas. A verdade está no meio, e quanto mais longe a política estiver da que fez o registro, mais larga é a faixa.",
            )) }
            @if let Some(command) = asked.command(pick, 0) { p .hint { (lang.say("The same at a terminal: ", "O mesmo no terminal: ")) (copied(&command)) } }
        } },
        drawn::bounds(lang, &held),
        drawn::tries(lang, &held),
    ])
}

/// What was chosen of what there is; all of it where nothing was.
fn chosen(asked: &mut Asked, field: &'static str, known: &BTreeSet<String>) -> Option<String> {
    let wanted = asked.form.get(field).trim().to_owned();
    let there = wanted.is_empty() || known.contains(&wanted);
    if !there {
        asked.refuse(field, format!("there is nothing recorded of `{wanted}`"));
    }
    there.then_some(wanted)
}

fn range_table(lang: Lang, held: &[Held]) -> Markup {
    let columns = [
        lang.say("Waits", "Esperas"),
        lang.say("#Recovered", "#Recuperadas"),
        lang.say("#Half within", "#Metade em"),
        lang.say("#Nine of ten within", "#Nove de dez em"),
        lang.say("#Wasted", "#Desperdício"),
    ];
    let range =
        |worst: String, best: String| if worst == best { worst } else { format!("{worst} – {best}") };
    let never = || lang.say("never", "nunca").to_owned();
    let time = |time: Option<Span>| time.map_or_else(never, |time| lang.span(time));
    let rows: Vec<Markup> = held
        .iter()
        .map(|it| {
            let (words, class) = act(lang, it.act);
            let Replayed { worst, best, .. } = &it.replayed;
            html! { tr {
                th scope="row" .nowrap { (swatch(class)) " " (words) }
                td .num { (range(lang.percent(worst.recovered), lang.percent(best.recovered))) }
                td .num { (range(time(worst.median), time(best.median))) }
                td .num { (range(time(worst.p90), time(best.p90))) }
                td .num { (range(lang.decimal(worst.wasted_each, 2), lang.decimal(best.wasted_each, 2))) }
            } }
        })
        .collect();
    parts::table(lang.say("What it would have come to", "No que teria dado"), &columns, &rows)
}
