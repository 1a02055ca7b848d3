use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn text(source: &str) -> Template {
    Template { text: Some(source.into()), ..Template::default() }
}

fn rendered(source: &str, payload: &Value) -> Result<String, String> {
    let compiled = Compiled::new(text(source)).map_err(|problems| problems[0].reason.clone())?;
    let content = compiled.render(ChannelKind::Evolution, payload).map_err(|error| error.to_string())?;
    Ok(content["text"].as_str().unwrap().to_owned())
}

fn refused(source: &str) -> Problem {
    Compiled::new(text(source)).unwrap_err().remove(0)
}

#[test]
fn only_small_templates_without_loops_are_sure_to_be_rendered_in_no_time() {
    let brief = |source: &str, bytes| Compiled::new(text(source)).unwrap().is_brief(bytes);
    assert!(brief("Olá, {{ nome }}!", 1_024));
    assert!(!brief("Olá, {{ nome }}!", 1_025));
    assert!(!brief("{%- for a in b %}{% endfor %}", 2));
    assert!(!brief(&"x".repeat(16 * 1024 + 1), 2));
    let halves = Template { subject: Some("x".repeat(9_000)), ..text(&"x".repeat(9_000)) };
    assert!(!Compiled::new(halves).unwrap().is_brief(2), "all parts count");
}

#[test]
fn a_template_is_filled_with_the_payload() {
    let payload =
        json!({"user_data": {"full_name": "Ana"}, "items": [{"name": "um"}, {"name": "dois"}], "n": 2});
    for (source, result) in [
        ("Olá, {{ user_data.full_name }}!", "Olá, Ana!"),
        ("{% for item in items %}{{ loop.index }}. {{ item.name|upper }} {% endfor %}", "1. UM 2. DOIS "),
        ("{% if n > 1 and 'x' not in ['a', 'b'] %}{{ n + 1 }}{% else %}-{% endif %}", "3"),
        ("{% set nome = user_data.full_name %}{{ nome }}{{ apelido|default('') }}", "Ana"),
        ("{{ 'sim' if apelido is defined else 'não' }}", "não"),
        ("{{ user_data.full_name|truncate(2) }} {{ ['a', 'b']|join(', ') }}", "A… a, b"),
        ("{{ items|length }} {{ 'a-b'|replace('-', '+') }} {{ 'ana maria'|title }}", "2 a+b Ana Maria"),
        ("{{ 7.256|round(1) }} {{ -3|abs }} {{ (items|last).name }}", "7.3 3 dois"),
    ] {
        assert_eq!(rendered(source, &payload).as_deref(), Ok(result), "{source}");
    }
}

#[test]
fn money_and_dates_are_written_as_in_brazil() {
    for (value, written) in [
        (json!(1234.56), "R$ 1.234,56"),
        (json!("0.5"), "R$ 0,50"),
        (json!(1_000_000), "R$ 1.000.000,00"),
        (json!(-12.3), "-R$ 12,30"),
        (json!(999.999), "R$ 1.000,00"),
    ] {
        assert_eq!(rendered("{{ v|brl }}", &json!({"v": value})).as_deref(), Ok(written));
    }
    for date in ["2026-01-31", "2026-01-31T23:59:00Z", "2026-01-31 10:00"] {
        assert_eq!(rendered("{{ v|date_br }}", &json!({"v": date})).as_deref(), Ok("31/01/2026"));
    }
    let wrong = rendered("{{ v|date_br }}", &json!({"v": "segredo-secreto"})).unwrap_err();
    assert_eq!(wrong, "text, line 1: `v|date_br` is not a date such as 2026-01-31");
}

#[test] // RELIABILITY 54
fn a_name_that_the_payload_lacks_is_an_error_that_names_it_and_no_value() {
    let payload = json!({"user": {"secret": "canary"}, "none": null, "list": ["canary"]});
    for (source, reason) in [
        ("a\n{{ nome }}", "text, line 2: `nome` is not in the payload"),
        ("{{ user.nome }}", "text, line 1: `user.nome` is not in the payload"),
        ("{{ user.a.b }}", "text, line 1: `user.a` is not in the payload"),
        ("{% if nome %}x{% endif %}", "text, line 1: `nome` is not in the payload"),
        ("{% for x in nomes %}x{% endfor %}", "text, line 1: `nomes` is not in the payload"),
        ("{{ user.nome|upper }}", "text, line 1: `user.nome|upper` is not in the payload"),
        ("{{ none }}", "text, line 1: `none` has no value (null)"),
        ("{{ list }}", "text, line 1: `list` is a list or an object, not text"),
        ("{{ user }}", "text, line 1: `user` is a list or an object, not text"),
        ("{{ user.secret - 1 }}", "text, line 1: `user.secret - 1` cannot be computed from this payload"),
    ] {
        let error = rendered(source, &payload).unwrap_err();
        assert!(!error.contains("canary"), "{error}");
        assert_eq!(error, reason, "{source}");
    }
}

#[test] // REQ SE-2
fn only_html_is_escaped_and_a_payload_cannot_add_markup_or_gaps() {
    let template = Template {
        subject: Some("Oi {{ n }}".into()),
        text: Some("{{ n }}".into()),
        html: Some("<b>{{ n }}</b>{{ n|safe }}".into()),
        whatsapp: None,
    };
    let compiled = Compiled::new(template).unwrap();
    let content = compiled.render(ChannelKind::Smtp, &json!({"n": "<i>'{{ n }}'&"})).unwrap();
    assert_eq!(
        content,
        json!({
            "subject": "Oi <i>'{{ n }}'&",
            "text": "<i>'{{ n }}'&",
            "html": "<b>&lt;i&gt;&#x27;{{ n }}&#x27;&amp;</b><i>'{{ n }}'&",
        })
    );
}

#[test] // REQ SE-2
fn a_subject_is_one_line() {
    let template =
        Template { subject: Some("\n Oi {{ n }}\n".into()), text: Some("x".into()), ..Template::default() };
    let compiled = Compiled::new(template).unwrap();
    let subject = |n: &str| compiled.render(ChannelKind::Resend, &json!({ "n": n }));
    assert_eq!(subject("Ana").unwrap()["subject"], "Oi Ana");
    let error = subject("Ana\r\nBcc: eve@example.com").unwrap_err().to_string();
    assert_eq!(error, "subject: the result has a line break or control character");
}

#[test]
fn each_kind_takes_its_parts_and_a_template_without_them_says_so() {
    let payload = json!({});
    let whole = Template {
        subject: Some("s".into()),
        text: Some("t".into()),
        html: Some("h".into()),
        whatsapp: Some("w".into()),
    };
    let of = |template: &Template, kind| Compiled::new(template.clone()).unwrap().render(kind, &payload);
    assert_eq!(of(&whole, ChannelKind::Evolution).unwrap(), json!({"text": "w"}));
    assert_eq!(of(&whole, ChannelKind::Smtp).unwrap(), json!({"subject": "s", "text": "t", "html": "h"}));
    assert_eq!(of(&whole, ChannelKind::Own).unwrap()["whatsapp"], "w");
    assert_eq!(of(&text("t"), ChannelKind::Evolution).unwrap(), json!({"text": "t"}));
    for (template, kind, what) in [
        (text("t"), ChannelKind::Smtp, "`subject`, and `text` or `html`"),
        (
            Template { html: Some("h".into()), ..Template::default() },
            ChannelKind::Evolution,
            "`whatsapp` or `text`",
        ),
        (whole.clone(), ChannelKind::Tiss, "has no body for tiss"),
        (whole, ChannelKind::Webhook, "has no body for webhook"),
    ] {
        let error = of(&template, kind).unwrap_err().to_string();
        assert!(error.starts_with("has no body for") && error.contains(what), "{error}");
    }
}

#[test]
fn every_part_is_checked_and_every_problem_told_at_once() {
    assert_eq!(Compiled::new(Template::default()).unwrap_err()[0].field, "template");
    let template = Template {
        subject: Some("{{ a".into()),
        text: Some(" ".into()),
        html: Some("\n{% if a %}".into()),
        whatsapp: Some("{{ a|shout }}".into()),
    };
    let problems = Compiled::new(template).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["subject", "text", "html", "whatsapp"]);
    assert!(problems[3].reason.contains("no filter `shout`"), "{problems:?}");
    assert!(problems.iter().all(|problem| !problem.hint.is_empty()));
}

#[test] // REQ SE-2
fn what_could_grow_or_reach_out_is_not_in_the_language() {
    for source in [
        "{{ a ~ a }}",
        "{{ a + a }}",
        "{{ 'x' * 100000000 }}",
        "{{ 9 ** 99999 }}",
        "{{ [a, a]|join }}",
        "{{ {'a': a} }}",
        "{% set a %}{{ a }}{{ a }}{% endset %}",
        "{% filter upper %}x{% endfilter %}",
        "{% autoescape false %}x{% endautoescape %}",
        "{{ range(9) }}",
        "{{ a.items() }}",
        "{% do a() %}",
        "{{ a[1:] }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% macro m() %}{{ m() }}{% endmacro %}",
        "{{ a|replace(*a) }}",
        "{{ a|map('upper') }}",
        "{{ a is callable }}",
        "{% if a %}{{ b ~ c }}{% endif %}",
        "{% for x in a if x ~ x %}{% endfor %}",
        "{{ a|default(b ~ b) }}",
    ] {
        let problem = refused(source);
        assert_eq!(problem.field, "text", "{source}");
        assert!(problem.reason.starts_with("line 1"), "{source}: {}", problem.reason);
    }
}

/// Runs something that must end soon, whatever it does.
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    ended.recv_timeout(Duration::from_secs(20)).expect("it must have ended long ago")
}

#[test] // REQ SE-2: an infinite loop, a giant repeat, a huge payload end soon and small
fn bombs_end_soon_and_small() {
    let many: Vec<u32> = (0..2_490).collect();
    let long = "x".repeat(200_000);
    let quotes = "'".repeat(200_000);
    let payload = json!({ "many": many, "same": many, "long": long, "quotes": quotes });
    for source in [
        "{% for a in many %}{% for b in many %}{% for c in many %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in many %}{% for b in many %}{% if many == same %}{% endif %}{% endfor %}{% endfor %}",
        "{% for a in many %}{% for b in many %}{% if 'x' in many %}{% endif %}{% endfor %}{% endfor %}",
        "{% for a in many %}{{ long }}{% endfor %}",
        "{% for a in many %}{% if long|upper == 'a' %}{% endif %}{% endfor %}",
        "{% for a in many %}{% if many|join(',') == 'a' %}{% endif %}{% endfor %}",
        "{{ long|replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') }}",
        "{% for a in many %}{% if quotes|e|upper|e == 'a' %}{% endif %}{% endfor %}",
        "{{ many|join(long) }}",
    ] {
        let payload = payload.clone();
        let error = soon(move || rendered(source, &payload).unwrap_err());
        assert!(
            error.contains("too many steps") || error.contains("more than 262144 bytes"),
            "{source}: {error}"
        );
    }
    let html =
        Template { subject: Some("s".into()), html: Some("{{ quotes }}".into()), ..Template::default() };
    let error = Compiled::new(html).unwrap().render(ChannelKind::Smtp, &payload).unwrap_err().to_string();
    assert!(error.contains("more than 262144 bytes"), "{error}");
}

#[test] // REQ SE-2: a step that compares two lists takes as long as they are
fn a_payload_of_very_many_values_is_refused() {
    let list = |length: usize| json!({ "list": vec![0; length] });
    assert_eq!(rendered("{{ list|length }}", &list(PAYLOAD_VALUES_MAX - 2)), Ok("4998".into()));
    let error = rendered("{{ list|length }}", &list(PAYLOAD_VALUES_MAX)).unwrap_err();
    assert_eq!(error, "the payload holds more than 5000 values");
}

#[test] // REQ SE-2
fn deep_nesting_is_refused_and_never_overflows() {
    for source in [
        format!("{}x{}", "{% if a %}".repeat(5_000), "{% endif %}".repeat(5_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{{{{ {}a }}}}", "not ".repeat(20_000)),
        format!("{{{{ {}a }}}}", "- ".repeat(20_000)),
        format!("{{{{ a{} }}}}", ".a".repeat(20_000)),
        format!("{{{{ a{} }}}}", "|upper".repeat(10_000)),
        format!("{{{{ 1{} }}}}", " - 1".repeat(20_000)),
        format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(9_000)),
    ] {
        let problem = soon(move || Compiled::new(text(&source)).map(drop));
        assert!(problem.is_err());
    }
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    assert!(rendered("{{ a }}", &json!({ "a": deep })).unwrap_err().contains("is a list"));
}

proptest! {
    #[test] // REQ SE-2
    fn whatever_is_written_is_refused_or_rendered_within_bounds(source in "(\\{\\{|\\}\\}|\\{%|%\\}|[a-c. |~+*()'\\[\\]-]|for|in|if|endif|endfor|set|default|join|upper){0,24}", n in "\\PC{0,20}") {
        if let Ok(compiled) = Compiled::new(text(&source)) {
            match compiled.render(ChannelKind::Evolution, &json!({"a": n, "b": [n, n], "c": {"a": 1}})) {
                Ok(content) => prop_assert!(content["text"].as_str().unwrap().len() <= OUTPUT_BYTES_MAX),
                Err(error) => prop_assert!(error.to_string().starts_with("text"), "{}", error),
            }
        }
    }

    #[test] // REQ SE-2
    fn a_payload_never_changes_what_is_around_it(name in "\\PC{0,40}") {
        let payload = json!({ "name": name });
        prop_assert_eq!(rendered("<{{ name }}>", &payload), Ok(format!("<{name}>")));
    }
}

#[test] // REQ BK-7
fn the_names_that_a_template_looks_up_are_those_of_the_parts_for_the_channel() {
    let template = Template {
        subject: Some("{{ title }}".into()),
        text: Some(
            "{% set hi = greeting %}{{ hi }} {{ person.name }}{% for item in items %}{{ item }}{% endfor %}"
                .into(),
        ),
        whatsapp: Some("{{ nick|default('you') }}".into()),
        html: None,
    };
    let compiled = Compiled::new(template).unwrap();
    let names = |kind| compiled.variables(kind).into_iter().collect::<Vec<_>>();
    assert_eq!(names(ChannelKind::Smtp), ["greeting", "items", "person", "title"]);
    assert_eq!(names(ChannelKind::Evolution), ["nick"]);
}
