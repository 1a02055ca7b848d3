//! What is wrong with a field or a line, in the reader's language. The API says it in English; what is not known here is
//! shown as it is, and marked as English.

use maud::{Markup, html};

use super::words::Lang;
use crate::problem::FieldError;

/// Sentences that stand alone.
const WHOLE: &[(&str, &str)] = &[
    ("is missing", "está faltando"),
    ("is not a length of time", "não é uma duração"),
    ("is not a whole number from 1 to 1000000", "não é um número inteiro de 1 a 1000000"),
    ("is not a whole number from 0 to 100", "não é um número inteiro de 0 a 100"),
    ("must be longer than nothing", "deve durar mais que nada"),
    ("must not be shorter than the shortest", "não pode ser menor que o mínimo"),
    ("must be at most 7d, a week", "pode ser no máximo 7d, uma semana"),
    (
        "comes and goes more than a thousand times: make it shorter",
        "vai e volta mais de mil vezes: diminua a duração",
    ),
    ("brings more than a million messages at once", "traz mais de um milhão de mensagens de uma vez"),
    (
        "brings more messages at once than a page can play: use `pombo simulate`",
        "traz mais mensagens de uma vez do que uma página consegue simular: use `pombo simulate`",
    ),
    ("is not a number of seconds", "não é um número de segundos"),
    (
        "must be at least 3: a line that sends faster is soon blocked",
        "deve ser pelo menos 3: uma linha que envia mais rápido logo é bloqueada",
    ),
    ("must not be less than throttle_min_seconds", "não pode ser menor que a espera mínima"),
    ("must be at most 86400", "pode ser no máximo 86400, um dia"),
    ("is never open", "nunca está aberta"),
    ("is not text", "não é texto"),
    ("is not an object", "não é um objeto"),
    ("has no part at all", "não tem nenhuma parte"),
    ("is not a name for a template", "não é um nome de modelo"),
    ("has a line break or control character", "tem uma quebra de linha ou caractere de controle"),
    ("is not a number above 0 and at most 1", "não é um número acima de 0 e de no máximo 1"),
    ("is not a length of time up to ten years", "não é uma duração de até dez anos"),
    ("there is no address", "não há endereço"),
    ("it is longer than 64 KiB", "é maior que 64 KiB"),
    ("a quote is opened and never closed", "uma aspa foi aberta e nunca fechada"),
    (
        "something follows a closing quote; write a quote within quotes twice",
        "há algo depois de uma aspa que fecha; escreva duas vezes a aspa dentro de aspas",
    ),
    (
        "a spreadsheet has rounded this number, and its last digits are lost: format the column as text, fill it in again and export it anew",
        "uma planilha arredondou este número, e os últimos dígitos se perderam: formate a coluna como texto, preencha de novo e exporte outra vez",
    ),
    (
        "the number has neither country code nor DDD: write 11 98765-4321 or +55 11 98765-4321",
        "o número não tem código do país nem DDD: escreva 11 98765-4321 ou +55 11 98765-4321",
    ),
    (
        "the number begins with 0: write the country code after a +, as in +55 11 98765-4321",
        "o número começa com 0: escreva o código do país depois de um +, como em +55 11 98765-4321",
    ),
    (
        "this is an e-mail address or an unknown JID, not a phone number",
        "isto é um e-mail ou um JID desconhecido, não um telefone",
    ),
    (
        "not a phone number: needs country code or DDD and 8 or 9 digits, as in 11 98765-4321",
        "não é um telefone: faltam o código do país ou DDD e 8 ou 9 dígitos, como em 11 98765-4321",
    ),
    ("not an e-mail address: there is no @ in it", "não é um e-mail: não tem @"),
    (
        "not an e-mail address: write it as ana@clinica.example",
        "não é um e-mail: escreva como ana@clinica.example",
    ),
    (
        "not one e-mail address: write each on a line of its own",
        "não é um e-mail só: escreva cada um na sua linha",
    ),
    ("all its attempts failed", "todas as tentativas falharam"),
    ("it could not be sent in time", "não pôde ser enviada a tempo"),
    ("nobody knows whether it was sent", "ninguém sabe se foi enviada"),
    ("there is nobody on the list", "não há ninguém na lista"),
    ("the first line looks like data, not like a header", "a primeira linha parece dado, não cabeçalho"),
    ("the file is in UTF-16", "o arquivo está em UTF-16"),
    ("the file is a workbook, not text", "o arquivo é uma planilha, não texto"),
    (
        "the file has zero bytes: it is in UTF-16, or no text",
        "o arquivo tem bytes zero: está em UTF-16, ou não é texto",
    ),
];

/// Sentences that go on with something of their own.
const BEGUN: &[(&str, &str)] = &[
    ("the template cannot be filled: ", "o modelo não pode ser preenchido: "),
    ("the channel does not take what the template says: ", "o canal não aceita o que o modelo diz: "),
    ("there is no address: ", "não há endereço: "),
    ("on the suppression list ", "na lista de supressão "),
    ("all its attempts failed: ", "todas as tentativas falharam: "),
    ("cannot be read: ", "não pode ser lido: "),
    ("there is no template ", "não há modelo "),
    ("there is no channel ", "não há canal "),
    ("there is no policy ", "não há política "),
    ("there is no scenario ", "não há cenário "),
    ("there is nothing recorded of ", "não há nada registrado de "),
];

/// A reason in the reader's language, as far as it is known.
pub(crate) fn said(lang: Lang, reason: &str) -> Markup {
    if lang == Lang::En {
        return html! { (reason) };
    }
    if let Some((_, words)) = WHOLE.iter().find(|(whole, _)| *whole == reason) {
        return html! { (words) };
    }
    let begun = BEGUN.iter().find_map(|(begin, words)| Some((words, reason.strip_prefix(begin)?)));
    match begun {
        Some((words, rest)) => html! { (words) span lang="en" { (rest) } },
        None => html! { span lang="en" { (reason) } },
    }
}

/// What is wrong with a field, and what to do about it.
pub(crate) fn wrong(lang: Lang, error: &FieldError) -> Markup {
    let known = lang == Lang::Pt && WHOLE.iter().any(|(whole, _)| *whole == error.reason);
    html! {
        (said(lang, &error.reason))
        // The advice is in English alone, and not needed where the reason says all.
        @if !known && !error.hint.is_empty() { "; " span lang="en" { (error.hint) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_said_in_portuguese_and_the_rest_is_marked() {
        assert_eq!(said(Lang::Pt, "is missing").into_string(), "está faltando");
        assert_eq!(
            said(Lang::Pt, "there is no address: `celular` is empty").into_string(),
            "não há endereço: <span lang=\"en\">`celular` is empty</span>"
        );
        assert_eq!(said(Lang::Pt, "<b>").into_string(), "<span lang=\"en\">&lt;b&gt;</span>");
        assert_eq!(said(Lang::En, "is missing").into_string(), "is missing");
    }

    #[test]
    fn the_sentences_are_those_that_the_kernel_says() {
        use pombo_kernel::campaign::throttle::Throttle;
        use pombo_kernel::listing::address;
        use pombo_kernel::rehearsal::{Scenario, Trouble};
        use pombo_kernel::suppression::Family;
        use pombo_kernel::time::Span;
        let whole = |reason: &str| WHOLE.iter().any(|(whole, _)| *whole == reason);
        let trouble = |least: u64, most: u64| Trouble::Down {
            least: Span::from_secs(least),
            most: Span::from_secs(most),
        };
        let turning =
            Trouble::Flapping { lasts: Span::from_hours(1), down: Span::ZERO, up: Span::from_secs(1) };
        let crowd = Trouble::Limited { lasts: Span::from_hours(1), takes: 1e6 };
        for trouble in [trouble(0, 1), trouble(9, 1), trouble(1, 9_999_999), turning, crowd] {
            let wrong = Scenario::own(trouble).wrong();
            assert!(!wrong.is_empty() && wrong.iter().all(|it| whole(it.reason)), "{wrong:?}");
        }
        for (min, max) in [(2.0, 9.0), (9.0, 5.0), (9.0, 1e6)] {
            let said = Throttle::new(Some(min), Some(max)).unwrap_err().to_string();
            let (_, reason) = said.split_once(' ').unwrap();
            assert!(whole(reason), "{reason}");
        }
        for bad in ["", "5,51199E+12", "98765-4321", "+011987654321", "ana@x.example", "x"] {
            let reason = address(Family::Whatsapp, bad).unwrap_err();
            assert!(whole(reason), "{reason}");
        }
        for bad in ["", "ana", "ana@", "a@b.example, c@d.example"] {
            let reason = address(Family::Email, bad).unwrap_err();
            assert!(whole(reason), "{reason}");
        }
    }
}
