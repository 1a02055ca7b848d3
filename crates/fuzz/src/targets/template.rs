//! Templates and what they are filled with: a source, and a payload behind a line of three equal signs.

use std::time::{Duration, Instant};

use pombo_kernel::kind::ChannelKind;
use pombo_kernel::template::{Compiled, OUTPUT_BYTES_MAX, RenderError, Template};
use serde_json::Value;

use super::{parts, text};
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "\n===\n",
    "{{ nome }}",
    "{{ nome|default('x') }}",
    "{% for x in lista %}",
    "{% endfor %}",
    "{% if a %}",
    "{% elif b == c %}",
    "{% else %}",
    "{% endif %}",
    "{% set x = nome %}",
    "{% macro m() %}{% endmacro %}",
    "{% include 'text' %}",
    "{% import 'text' as t %}",
    "{# ",
    " #}",
    "{%- raw -%}",
    "{% endraw %}",
    "|replace('a', 'aaaaaaaa')",
    "|truncate(3)",
    "|join(', ')",
    "|date_br",
    "|brl",
    "|safe",
    "|length",
    "|round(2)",
    "a ~ b",
    "a * 9999999999",
    "range(1000000000)",
    "[1]*1000000",
    "lista[0].nome",
    "not in",
    "{\"nome\":\"Ana <b>\",\"lista\":[1,2,3],\"a\":true,\"b\":1,\"c\":1.5}",
];

/// Far longer than any of it may take, on a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(20);

#[allow(clippy::disallowed_methods, reason = "how long it takes is what is asked")]
pub(super) fn run(bytes: &[u8]) -> Sign {
    let begun = Instant::now();
    let parts = parts(bytes);
    let source = text(parts[0]).into_owned();
    let payload =
        parts.get(1).and_then(|json| serde_json::from_slice::<Value>(json).ok()).unwrap_or_default();
    let template = Template {
        subject: Some("s".to_owned()),
        text: Some(source.clone()),
        html: Some(source.clone()),
        ..Template::default()
    };
    let sign = match Compiled::new(template) {
        Err(problems) => {
            assert!((1..=4).contains(&problems.len()), "{problems:?}");
            for problem in &problems {
                assert!(!problem.reason.is_empty() && !problem.hint.is_empty(), "{problem}");
                assert!(problem.reason.len() < 1_000, "{problem}");
            }
            Sign::of((
                "bad",
                problems[0].reason.chars().filter(|c| c.is_alphabetic()).take(30).collect::<String>(),
            ))
        }
        Ok(compiled) => filled(&compiled, &source, &payload),
    };
    assert!(begun.elapsed() < PATIENCE, "it took {:?}", begun.elapsed());
    sign
}

fn filled(compiled: &Compiled, source: &str, payload: &Value) -> Sign {
    assert!(compiled.variables(ChannelKind::Smtp).iter().all(|name| source.contains(name)));
    let rendered = compiled.render(ChannelKind::Smtp, payload);
    assert_eq!(rendered, compiled.render(ChannelKind::Smtp, payload), "the same twice");
    match rendered {
        Ok(content) => {
            let of = |part: &str| content[part].as_str().unwrap_or_default().to_owned();
            let (words, html) = (of("text"), of("html"));
            assert!(words.len() + html.len() <= OUTPUT_BYTES_MAX);
            // Markup comes of the template alone, unless it says that its payload is to be trusted with it.
            if !source.contains('<') && !source.contains("safe") && !source.contains('\\') {
                assert!(!html.contains('<'), "{html}");
            }
            Sign::of(("filled", words.len().checked_ilog2(), html.len() == words.len()))
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty() && said.len() < 1_000, "{said}");
            let kind = match error {
                RenderError::NoBody(_) => 0,
                RenderError::PayloadTooLarge => 1,
                RenderError::Part { .. } => 2,
            };
            Sign::of((kind, said.chars().filter(|c| c.is_alphabetic()).take(40).collect::<String>()))
        }
    }
}
