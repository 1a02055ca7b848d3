//! How a campaign is made and changed: a form, with what is wrong beside its fields and what was typed still there.

use http::{Method, StatusCode};
use maud::{Markup, html};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::TemplateName;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{SHOW, find};
use crate::dash::campaigns::{Campaign, address};
use crate::dash::filled::{Field, Filled};
use crate::dash::form::Form;
use crate::dash::parts::{empty, form};
use crate::dash::sheet::Sheet;
use crate::dash::visit::{Reply, Visit};
use crate::dash::words::Lang;
use crate::problem::{Code, Problem};

const CREATE: &str = "/v1/campaigns";
const TEMPLATE: &str = "/v1/templates/{name}";
/// Templates that can be chosen from.
const TEMPLATES: usize = 500;
/// Names that are tried for a template that is made on the way.
const NAMES: usize = 20;

/// Every field that can be wrong beside itself.
const FIELDS: [&str; 13] = [
    "name",
    "channel",
    "template",
    "subject",
    "text",
    "payload",
    "throttle_min_seconds",
    "throttle_max_seconds",
    "window",
    "weight",
    "max_failure_rate",
    "expires_after",
    "lane",
];

#[derive(Deserialize)]
struct Templates {
    items: Vec<TemplateHead>,
}

#[derive(Deserialize)]
struct TemplateHead {
    name: String,
}

/// The days of a week, by their name in the API and in words.
pub(super) fn days(lang: Lang) -> [(&'static str, &'static str); 7] {
    [
        ("mon", lang.say("Mon", "seg")),
        ("tue", lang.say("Tue", "ter")),
        ("wed", lang.say("Wed", "qua")),
        ("thu", lang.say("Thu", "qui")),
        ("fri", lang.say("Fri", "sex")),
        ("sat", lang.say("Sat", "sáb")),
        ("sun", lang.say("Sun", "dom")),
    ]
}

/// The form for a new one.
pub(crate) async fn new(visit: Visit) -> Result<Sheet, Problem> {
    let usual = [
        ("throttle_min_seconds", "15".to_owned()),
        ("throttle_max_seconds", "25".to_owned()),
        ("weight", "1".to_owned()),
        ("max_failure_rate", "50".to_owned()),
    ];
    let asked = [("template", visit.asked("template").unwrap_or_default())];
    let days = days(visit.lang()).map(|(day, _)| ("days", day.to_owned()));
    creating(&visit, &Form::of_pairs(usual.into_iter().chain(asked).chain(days)), None).await
}

async fn creating(visit: &Visit, typed: &Form, problem: Option<&Problem>) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let sheet = Sheet::new(lang.say("New campaign", "Nova campanha"));
    let channels = channels(visit);
    if channels.is_empty() {
        return Ok(sheet.still(html! { section .card { (empty(
            lang.say("There is no channel that writes to persons", "Não há canal que escreva a pessoas"),
            lang.say("A campaign goes through WhatsApp or e-mail. Add such a channel to the configuration first.", "Uma campanha vai por WhatsApp ou e-mail. Primeiro acrescente um canal desses à configuração."),
            Some("pombo channels list"),
        )) } }));
    }
    let filled = Filled { lang, form: typed, problem };
    let found: Templates = visit.ask("/v1/templates", "", &format!("limit={TEMPLATES}")).await?;
    let none = (String::new(), lang.say("choose a template", "escolha um modelo").to_owned());
    let templates = found.items.iter().map(|it| (it.name.clone(), it.name.clone()));
    let templates: Vec<_> = [none].into_iter().chain(templates).collect();
    let setup = visit.door().setup();
    let lanes = setup.lanes.keys().map(|lane| (lane.to_string(), lane.to_string()));
    let lanes: Vec<_> = [(String::new(), lang.say("the usual one", "a de costume").to_owned())]
        .into_iter()
        .chain(lanes)
        .collect();
    let content = html! {
        (filled.trouble(&FIELDS))
        section .card {
            header { h2 { (lang.say("What it is", "O que é")) } }
            div .filters {
                (filled.input(Field { label: lang.say("Name", "Nome"), name: "name", required: true, hint: Some(lang.say("For people: what it is about.", "Para pessoas: do que se trata.")), ..Field::default() }))
                (filled.choice(Field { label: lang.say("Channel", "Canal"), name: "channel", ..Field::default() }, &channels))
                (filled.choice(Field { label: lang.say("Template", "Modelo"), name: "template", hint: Some(lang.say("Its latest version is kept for the whole campaign.", "A versão mais recente vale para toda a campanha.")), ..Field::default() }, &templates))
            }
            details .more open[typed.given("text").is_some() || found.items.is_empty()] {
                summary { (lang.say("Or write the text here", "Ou escreva o texto aqui")) }
                div .stack {
                    (filled.input(Field { label: lang.say("Subject, for e-mail", "Assunto, para e-mail"), name: "subject", ..Field::default() }))
                    (filled.area(Field { label: lang.say("Text", "Texto"), name: "text", hint: Some(lang.say("Gaps such as {{ nome }} are filled from the columns of the list. It is kept as a template of its own.", "Lacunas como {{ nome }} são preenchidas pelas colunas da lista. Fica guardado como um modelo próprio.")), ..Field::default() }, 5))
                }
            }
            (everybody(&filled))
        }
        (manners(&filled, &visit.look().zone.to_string(), &html! {
            (filled.input(Field { label: lang.say("Give up a message after", "Desistir de uma mensagem após"), name: "expires_after", hint: Some(lang.say("For example 48h; never if left empty.", "Por exemplo 48h; nunca, se vazio.")), ..Field::default() }))
            (filled.choice(Field { label: lang.say("Lane", "Fila"), name: "lane", ..Field::default() }, &lanes))
        }))
        div .row {
            button .primary type="submit" { (lang.say("Create the draft", "Criar o rascunho")) }
            a .button href="/campaigns" { (lang.say("Back", "Voltar")) }
            span .quiet { (lang.say("Nothing is sent yet. The list comes next.", "Nada é enviado ainda. A lista vem a seguir.")) }
        }
    };
    let sheet =
        sheet.still(html! { div .filling { (form(visit.look(), "/campaigns/new", None, &content)) } });
    Ok(Sheet { status: problem.map(|_| StatusCode::UNPROCESSABLE_ENTITY), ..sheet })
}

/// The channels that can have campaigns, of those that whoever looks may use.
fn channels(visit: &Visit) -> Vec<(String, String)> {
    let setup = visit.door().setup();
    let fit = |kind: ChannelKind| !matches!(kind, ChannelKind::Tiss | ChannelKind::Webhook);
    let own = visit.caller().channels_in(&setup).filter(|it| fit(it.kind));
    own.map(|it| (it.name.to_string(), format!("{} ({})", it.name, it.kind))).collect()
}

/// What the template says to everybody.
fn everybody(filled: &Filled<'_>) -> Markup {
    let lang = filled.lang;
    filled.area(
        Field {
            label: lang.say("What the template says to everybody", "O que o modelo diz a todos"),
            name: "payload",
            hint: Some(lang.say(
                "One a line, as loja: Centro. Columns of the list say the rest.",
                "Um por linha, como loja: Centro. As colunas da lista dizem o resto.",
            )),
            ..Field::default()
        },
        2,
    )
}

/// At which pace, when, and when it stops by itself.
fn manners(filled: &Filled<'_>, zone: &str, more: &Markup) -> Markup {
    let lang = filled.lang;
    let given = |name: &str| filled.form.given(name).is_some();
    let narrowed = filled.form.all("days").count() < 7
        || given("hours_from")
        || given("hours_until")
        || given("holidays");
    let wrong = |names: &[&str]| {
        filled
            .problem
            .is_some_and(|problem| problem.errors.iter().any(|it| names.contains(&it.field.as_ref())))
    };
    let number = |label, name, hint| Field {
        label,
        name,
        hint: Some(hint),
        keys: Some("decimal"),
        ..Field::default()
    };
    html! {
        section .card {
            header { h2 { (lang.say("Pace", "Ritmo")) } }
            div .filters {
                (filled.input(number(lang.say("Wait at least, in seconds", "Esperar no mínimo, em segundos"), "throttle_min_seconds", lang.say("From the end of one send to the start of the next; not below 3.", "Do fim de um envio ao início do próximo; não menos que 3."))))
                (filled.input(number(lang.say("Wait at most, in seconds", "Esperar no máximo, em segundos"), "throttle_max_seconds", lang.say("The wait is drawn evenly between the two: 15 and 25 are usual.", "A espera é sorteada entre os dois: 15 e 25 são o usual."))))
            }
        }
        section .card {
            details .more open[narrowed || wrong(&["window"])] {
                summary { (lang.say("Sending hours", "Horário de envio")) }
                div .stack {
                    (filled.wrong("window"))
                    div .filters {
                        (filled.input(Field { label: lang.say("From", "Das"), name: "hours_from", kind: "time", ..Field::default() }))
                        (filled.input(Field { label: lang.say("Until", "Até as"), name: "hours_until", kind: "time", hint: Some(lang.say("Left empty: all day.", "Vazio: o dia todo.")), ..Field::default() }))
                        (filled.input(Field { label: lang.say("Time zone", "Fuso horário"), name: "time_zone", hint: Some(&lang.say(format!("{zone} unless given."), format!("{zone} se vazio."))), ..Field::default() }))
                        (filled.input(Field { label: lang.say("Not on these days", "Menos nestes dias"), name: "holidays", hint: Some(lang.say("For example 2026-12-25, 2027-01-01.", "Por exemplo 2026-12-25, 2027-01-01.")), ..Field::default() }))
                    }
                    (filled.ticks(lang.say("Days", "Dias"), "days", &days(lang)))
                }
            }
            details .more open[wrong(&["weight", "max_failure_rate", "expires_after", "lane"])] {
                summary { (lang.say("More settings", "Mais opções")) }
                div .filters {
                    (filled.input(number(lang.say("Pause once so many % of the last sends failed", "Pausar quando tantos % dos últimos envios falharem"), "max_failure_rate", lang.say("Never if left empty.", "Nunca, se vazio."))))
                    (filled.input(number(lang.say("Weight", "Peso"), "weight", lang.say("How many turns it gets where another campaign gets one.", "Quantas vezes ela vai onde outra campanha vai uma."))))
                    (more)
                }
            }
        }
    }
}

/// What was typed, as the API wants it.
fn wish(typed: &Form) -> Result<Map<String, Value>, Problem> {
    let mut wish = Map::new();
    for name in ["name", "channel", "template", "lane", "expires_after"] {
        if let Some(text) = typed.given(name) {
            wish.insert(name.to_owned(), text.into());
        }
    }
    for name in ["throttle_min_seconds", "throttle_max_seconds", "weight"] {
        if let Some(text) = typed.given(name) {
            wish.insert(name.to_owned(), number(text));
        }
    }
    let rate = match typed.given("max_failure_rate") {
        None => Value::Null,
        Some(text) => number(text.trim_end_matches('%').trim())
            .as_f64()
            .map_or_else(|| text.into(), |percent| json!(percent / 100.0)),
    };
    wish.insert("max_failure_rate".to_owned(), rate);
    wish.insert("window".to_owned(), window(typed));
    wish.insert("payload".to_owned(), Value::Object(said(typed.get("payload"))?));
    Ok(wish)
}

/// A number with a point or a comma; what is none is left as it is, for the API to say so.
fn number(text: &str) -> Value {
    let text = text.replace(',', ".");
    if let Ok(whole) = text.parse::<u64>() {
        return whole.into();
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map_or_else(|| text.into(), Value::from)
}

/// The hours that were typed; null for always.
fn window(typed: &Form) -> Value {
    let days: Vec<&str> = typed.all("days").collect();
    let (from, until) = (typed.given("hours_from"), typed.given("hours_until"));
    let holidays =
        typed.get("holidays").split([',', ';', ' ', '\n']).map(str::trim).filter(|day| !day.is_empty());
    let holidays: Vec<&str> = holidays.collect();
    let every_day = days.is_empty() || days.len() == 7;
    if from.is_none() && until.is_none() && holidays.is_empty() && every_day {
        return Value::Null;
    }
    // A browser writes the end of a day as its beginning.
    let until = until.filter(|until| *until != "00:00").unwrap_or("24:00");
    let mut window =
        Map::from_iter([("hours".to_owned(), format!("{}-{until}", from.unwrap_or("00:00")).into())]);
    if !every_day {
        window.insert("days".to_owned(), json!(days));
    }
    if let Some(zone) = typed.given("time_zone") {
        window.insert("time_zone".to_owned(), zone.into());
    }
    if !holidays.is_empty() {
        window.insert("holidays".to_owned(), json!(holidays));
    }
    Value::Object(window)
}

/// What is said to everybody: a line each, or a JSON object.
fn said(text: &str) -> Result<Map<String, Value>, Problem> {
    if text.trim_start().starts_with('{') {
        let hint = "write one a line, as loja: Centro, or a JSON object";
        return serde_json::from_str(text).map_err(|_| Problem::field("payload", "is not an object", hint));
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| match line.split_once([':', '=']) {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok((name.trim().to_owned(), value.trim().into()))
            }
            _ => {
                Err(Problem::field("payload", format!("`{line}` names no value"), "write it as loja: Centro"))
            }
        })
        .collect()
}

pub(crate) async fn create(visit: Visit, typed: Form) -> Result<Reply, Problem> {
    let mut typed = typed;
    let made = async {
        if let (None, Some(_)) = (typed.given("template"), typed.given("text")) {
            let name = own_template(&visit, &typed).await?;
            typed = typed.clone().with("template", &name).with("text", "").with("subject", "");
        }
        visit.act(Method::POST, CREATE, "", &Value::Object(wish(&typed)?)).await
    };
    match made.await {
        Ok(campaign) => {
            let id = campaign["id"].as_str().unwrap_or_default().to_owned();
            let words = visit.lang().say(
                "The draft is there. Now list whom it writes to.",
                "O rascunho está pronto. Agora liste a quem ela escreve.",
            );
            Ok(Reply::done(format!("{}/list", address(&id)), words))
        }
        Err(problem) if problem.errors.is_empty() => Err(problem),
        Err(problem) => Ok(Reply::Sheet(creating(&visit, &typed, Some(&problem)).await?)),
    }
}

/// Keeps the text that was typed as a template, under a name that nothing else has.
async fn own_template(visit: &Visit, typed: &Form) -> Result<String, Problem> {
    let plain: String = typed.get("name").to_lowercase().chars().map(letter).collect();
    let plain: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let base: String = format!("campaign-{}", plain.join("-")).chars().take(56).collect();
    let base = base.trim_end_matches('-').to_owned();
    for nth in 1..=NAMES {
        let name = if nth == 1 { base.clone() } else { format!("{base}-{nth}") };
        let name: TemplateName = name.parse().map_err(|_| Problem::internal())?;
        match visit.ask::<Value>(TEMPLATE, name.as_str(), "").await {
            Ok(_) => continue,
            Err(problem) if problem.code != Code::NotFound => return Err(problem),
            Err(_) => {}
        }
        let mut words =
            Map::from_iter([("text".to_owned(), Value::from(typed.get("text").replace("\r\n", "\n")))]);
        words.extend(typed.given("subject").map(|subject| ("subject".to_owned(), subject.into())));
        visit.act(Method::PUT, TEMPLATE, name.as_str(), &Value::Object(words)).await?;
        return Ok(name.to_string());
    }
    Err(Problem::field(
        "text",
        "cannot be kept: there are too many templates of this name",
        "give the campaign another name",
    ))
}

/// A letter as it may stand in a name: without its accent, and what is none as a dash.
fn letter(c: char) -> char {
    match c {
        'á' | 'à' | 'â' | 'ã' | 'ä' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'í' | 'ì' | 'î' | 'ï' => 'i',
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' => 'o',
        'ú' | 'ù' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    }
}

/// The form of one that there is.
pub(crate) async fn edit(visit: Visit) -> Result<Sheet, Problem> {
    let campaign = find(&visit).await?;
    let lang = visit.lang();
    let said = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let plain = campaign
        .payload
        .iter()
        .all(|(name, value)| !value.is_object() && !name.contains([':', '=']) && !said(value).contains('\n'));
    let payload = match plain {
        true => campaign
            .payload
            .iter()
            .map(|(name, value)| format!("{name}: {}", said(value)))
            .collect::<Vec<_>>()
            .join("\n"),
        false => serde_json::to_string_pretty(&campaign.payload).unwrap_or_default(),
    };
    let mut pairs = vec![
        ("name", campaign.name.clone()),
        ("template", campaign.template.clone()),
        ("payload", payload),
        (
            "throttle_min_seconds",
            lang.decimal(campaign.throttle_min_seconds, 3)
                .trim_end_matches('0')
                .trim_end_matches(['.', ','])
                .to_owned(),
        ),
        (
            "throttle_max_seconds",
            lang.decimal(campaign.throttle_max_seconds, 3)
                .trim_end_matches('0')
                .trim_end_matches(['.', ','])
                .to_owned(),
        ),
        ("weight", campaign.weight.to_string()),
        (
            "max_failure_rate",
            campaign
                .max_failure_rate
                .map(|rate| format!("{}", (rate * 1_000.0).round() / 10.0))
                .unwrap_or_default(),
        ),
    ];
    match &campaign.window {
        None => pairs.extend(days(lang).map(|(day, _)| ("days", day.to_owned()))),
        Some(window) => {
            let hours = window.hours.to_string();
            let (from, until) = hours.split_once('-').unwrap_or_default();
            let until = if until == "24:00" { "00:00" } else { until };
            let holidays: Vec<String> = window.holidays.iter().map(ToString::to_string).collect();
            pairs.extend([("hours_from", from.to_owned()), ("hours_until", until.to_owned())]);
            pairs.extend([("time_zone", window.time_zone.to_string()), ("holidays", holidays.join(", "))]);
            pairs.extend(window.days.iter().map(|day| ("days", day.to_string())));
        }
    }
    changing(&visit, &campaign, &Form::of_pairs(pairs), None).await
}

async fn changing(
    visit: &Visit,
    campaign: &Campaign,
    typed: &Form,
    problem: Option<&Problem>,
) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let filled = Filled { lang, form: typed, problem };
    let found: Templates = visit.ask("/v1/templates", "", &format!("limit={TEMPLATES}")).await?;
    let mut templates: Vec<_> = found.items.into_iter().map(|it| (it.name.clone(), it.name)).collect();
    if !templates.iter().any(|(name, _)| *name == campaign.template) {
        templates.insert(0, (campaign.template.clone(), campaign.template.clone()));
    }
    let base = address(&campaign.id);
    let content = html! {
        (filled.trouble(&FIELDS))
        section .card {
            header { h2 { (lang.say("What it is", "O que é")) } }
            div .filters { (filled.input(Field { label: lang.say("Name", "Nome"), name: "name", required: true, ..Field::default() }))
                @if campaign.started_at.is_none() { (filled.choice(Field { label: lang.say("Template", "Modelo"), name: "template", ..Field::default() }, &templates)) } }
            @if campaign.started_at.is_none() { (everybody(&filled)) }
            @else { p .hint { (lang.say("What it says stays as it is once it has begun; name, pace and hours can still change.", "O que ela diz fica como está depois que começou; nome, ritmo e horário ainda podem mudar.")) } }
        }
        (manners(&filled, &visit.look().zone.to_string(), &html! {}))
        div .row {
            button .primary type="submit" { (lang.say("Save", "Salvar")) }
            a .button href=(base) { (lang.say("Back", "Voltar")) }
        }
    };
    let title = lang.say(format!("Change: {}", campaign.name), format!("Alterar: {}", campaign.name));
    let sheet = Sheet::new(title)
        .still(html! { div .filling { (form(visit.look(), &format!("{base}/edit"), None, &content)) } });
    Ok(Sheet { status: problem.map(|_| StatusCode::UNPROCESSABLE_ENTITY), ..sheet })
}

/// Changes what was typed otherwise.
pub(crate) async fn change(visit: Visit, typed: Form) -> Result<Reply, Problem> {
    let campaign = find(&visit).await?;
    let changed = async {
        let mut wish = wish(&typed)?;
        for name in ["channel", "lane", "expires_after"] {
            wish.remove(name);
        }
        if campaign.started_at.is_some() {
            wish.remove("payload");
        }
        // A template that is named is pinned anew, which nobody asked for who left it as it was.
        if campaign.started_at.is_some() || typed.given("template") == Some(&campaign.template) {
            wish.remove("template");
        }
        visit.act(Method::PATCH, SHOW, visit.name(), &Value::Object(wish)).await
    };
    match changed.await {
        Ok(_) => Ok(Reply::done(
            address(visit.name()),
            visit.lang().say("The campaign was changed.", "A campanha foi alterada."),
        )),
        Err(problem) if problem.errors.is_empty() => Err(problem),
        Err(problem) => Ok(Reply::Sheet(changing(&visit, &campaign, &typed, Some(&problem)).await?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(pairs: &[(&'static str, &str)]) -> Form {
        Form::of_pairs(pairs.iter().map(|(name, value)| (*name, (*value).to_owned())))
    }

    #[test]
    fn numbers_are_read_with_point_or_comma_and_what_is_none_is_left_to_be_refused() {
        let wish = wish(&typed(&[
            ("throttle_min_seconds", "2,5"),
            ("throttle_max_seconds", "soon"),
            ("weight", "3"),
            ("max_failure_rate", "20 %"),
        ]))
        .unwrap();
        assert_eq!(wish["throttle_min_seconds"], json!(2.5));
        assert_eq!(wish["throttle_max_seconds"], json!("soon"));
        assert_eq!((&wish["weight"], &wish["max_failure_rate"]), (&json!(3), &json!(0.2)));
    }

    #[test]
    fn no_hours_are_always() {
        let all = days(Lang::En).map(|(day, _)| ("days", day));
        assert_eq!(window(&typed(&all)), Value::Null);
        assert_eq!(window(&typed(&[])), Value::Null);
        let some = typed(&[
            ("hours_from", "08:00"),
            ("hours_until", "00:00"),
            ("days", "mon"),
            ("days", "sat"),
            ("holidays", "2026-12-25, 2027-01-01"),
        ]);
        assert_eq!(
            window(&some),
            json!({"hours": "08:00-24:00", "days": ["mon", "sat"], "holidays": ["2026-12-25", "2027-01-01"]})
        );
    }

    #[test]
    fn what_is_said_to_everybody_is_a_line_each() {
        assert_eq!(
            Value::Object(said("loja: Centro\n\nurl = https://x.example/?a=b\n").unwrap()),
            json!({"loja": "Centro", "url": "https://x.example/?a=b"})
        );
        assert_eq!(Value::Object(said("{\"a\": {\"b\": 1}}").unwrap()), json!({"a": {"b": 1}}));
        assert!(said("just words").is_err() && said("{oops").is_err());
    }
}
