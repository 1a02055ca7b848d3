//! Two languages side by side: what is said in one has to be said in the other, or it does not compile.

use http::HeaderMap;
use pombo_kernel::alert::Language;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::window::Zone;
use serde::{Deserialize, Serialize};

use crate::auth::Role;
use crate::problem::Code;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lang {
    #[default]
    En,
    Pt,
}

impl Lang {
    pub(crate) const ALL: [Lang; 2] = [Lang::En, Lang::Pt];

    /// What is said in this language.
    pub(crate) fn say<T>(self, en: T, pt: T) -> T {
        match self {
            Lang::En => en,
            Lang::Pt => pt,
        }
    }

    /// As documents name it.
    pub(crate) fn tag(self) -> &'static str {
        self.say("en", "pt-BR")
    }

    /// Its own name.
    pub(crate) fn name(self) -> &'static str {
        self.say("English", "Português")
    }

    pub(crate) fn of_tag(tag: &str) -> Option<Lang> {
        let primary = tag.split('-').next().unwrap_or_default();
        match () {
            () if primary.eq_ignore_ascii_case("pt") => Some(Lang::Pt),
            () if primary.eq_ignore_ascii_case("en") => Some(Lang::En),
            () => None,
        }
    }

    /// The one that a browser likes best of those that there are; English for whoever likes neither.
    pub(crate) fn of(headers: &HeaderMap) -> Lang {
        let text = headers.get(http::header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let wishes = text.unwrap_or_default().split(',').filter_map(|wish| {
            let (tag, rest) = wish.trim().split_once(';').unwrap_or((wish.trim(), ""));
            let weight =
                rest.trim().strip_prefix("q=").map_or(Some(1.0), |weight| weight.parse::<f64>().ok());
            Some((Lang::of_tag(tag)?, weight.filter(|weight| *weight > 0.0)?))
        });
        // Among equals the first one is meant.
        let best = wishes.fold(None, |best: Option<(Lang, f64)>, (lang, weight)| match best {
            Some((_, most)) if most >= weight => best,
            _ => Some((lang, weight)),
        });
        best.map_or_else(Lang::default, |(lang, _)| lang)
    }

    /// The same language as notices know it.
    pub(crate) fn language(self) -> Language {
        self.say(Language::En, Language::PtBr)
    }

    /// `1,234` or `1.234`.
    pub(crate) fn number(self, number: u64) -> String {
        let digits = number.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                text.push(self.say(',', '.'));
            }
            text.push(digit);
        }
        text
    }

    /// With that many places after the point, or the comma.
    pub(crate) fn decimal(self, number: f64, places: usize) -> String {
        let text = format!("{number:.places$}");
        self.say(text.clone(), text.replace('.', ","))
    }

    /// A part of a whole, as `98.4%`.
    pub(crate) fn percent(self, share: f64) -> String {
        let percent = share * 100.0;
        let whole = !(0.05..99.95).contains(&percent) || (percent - percent.round()).abs() < 0.05;
        // 100 % is only what is all, and 0 % what is nothing.
        let percent = match percent {
            most if (99.95..100.0).contains(&most) => return format!("> {}%", self.decimal(99.9, 1)),
            least if least > 0.0 && least < 0.05 => return format!("< {}%", self.decimal(0.1, 1)),
            percent => percent,
        };
        format!("{}%", self.decimal(percent, if whole { 0 } else { 1 }))
    }

    /// A length of time to two parts at most: `2.2 s`, `5 min`, `3 h 12 min`, `2 d 4 h`.
    pub(crate) fn span(self, span: Span) -> String {
        let ms = span.millis();
        let (s, min, h, d) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
        let two = |big: u64, unit: &str, small: u64, less: &str| match small {
            0 => format!("{big} {unit}"),
            small => format!("{big} {unit} {small} {less}"),
        };
        match () {
            () if ms < 1_000 => format!("{ms} ms"),
            () if s < 10 && ms % 1_000 >= 50 => format!("{} s", self.decimal(span.seconds(), 1)),
            () if s < 60 => format!("{s} s"),
            () if min < 60 => two(min, "min", if min < 10 { s % 60 } else { 0 }, "s"),
            () if h < 48 => two(h, "h", min % 60, "min"),
            () => two(d, "d", h % 24, "h"),
        }
    }

    /// How many of something, by its name for one and for several.
    pub(crate) fn count(self, number: u64, en: (&str, &str), pt: (&str, &str)) -> String {
        let (one, many) = self.say(en, pt);
        // Portuguese counts nothing as one: zero mensagem is said as zero mensagens in practice.
        format!("{} {}", self.number(number), if number == 1 { one } else { many })
    }

    /// `first`, `second` and so on, of something that is feminine in Portuguese.
    pub(crate) fn ordinal(self, number: u16) -> String {
        const EN: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "sixth"];
        const PT: [&str; 6] = ["primeira", "segunda", "terceira", "quarta", "quinta", "sexta"];
        let known = number.checked_sub(1).and_then(|place| self.say(EN, PT).get(usize::from(place)).copied());
        known.map_or_else(|| self.say(format!("{number}th"), format!("{number}ª")), str::to_owned)
    }

    /// `16/11/2026 14:03:22` there, or `2026-11-16 14:03:22`.
    pub(crate) fn moment(self, at: Time, zone: &Zone) -> String {
        zone.written(at, self.say("%Y-%m-%d %H:%M:%S", "%d/%m/%Y %H:%M:%S"))
    }

    pub(crate) fn role(self, role: Role) -> &'static str {
        match role {
            Role::Producer => self.say("producer", "produtor"),
            Role::Viewer => self.say("viewer", "leitor"),
            Role::Operator => self.say("operator", "operador"),
            Role::Admin => self.say("admin", "administrador"),
        }
    }

    /// What a kind of problem is, in a few words.
    pub(crate) fn problem(self, code: Code) -> &'static str {
        let pt = match code {
            Code::InvalidJson => "O corpo não é JSON",
            Code::InvalidCursor => "Esta página da lista não existe",
            Code::Unauthorized => "A chave não vale",
            Code::Forbidden => "Esta chave não pode fazer isto",
            Code::RevealNotAllowed => "Esta chave não pode revelar pessoas",
            Code::NotFound => "Isto não existe",
            Code::MethodNotAllowed => "O método não serve para este endereço",
            Code::RequestTimeout => "O pedido não chegou a tempo",
            Code::IdempotencyConflict => "A chave de idempotência é de outro pedido",
            Code::NotCancellable => "É tarde demais para cancelar",
            Code::NotDead => "Não é uma mensagem morta",
            Code::NotRetryable => "Não pode ser tentada agora",
            Code::VersionConflict => "Outra pessoa mudou isto enquanto isso",
            Code::TooManyWebhooks => "Já há tantos webhooks quanto pode haver",
            Code::TooManyRules => "Já há tantas regras aceitas quanto pode haver",
            Code::CampaignState => "A campanha está em outro estado",
            Code::AlertResolved => "O alerta já passou",
            Code::KeyEnded => "A chave já terminou",
            Code::LastAdminKey => "Nenhuma outra chave de administrador funciona",
            Code::BodyTooLarge => "É grande demais",
            Code::BatchTooLarge => "Há mensagens demais numa lista só",
            Code::UnsupportedMediaType => "Este tipo de conteúdo não é lido aqui",
            Code::InvalidField => "Um campo não pode ser aceito",
            Code::UnknownChannel => "Este canal não existe",
            Code::TemplateNotFound => "Este modelo não existe",
            Code::TemplateError => "O modelo não pode ser usado",
            Code::ContentNotAccepted => "O canal não aceita este conteúdo",
            Code::TimeInPast => "O momento já passou",
            Code::RecipientSuppressed => "Não se deve escrever a este destinatário",
            Code::NoRecipients => "Não há a quem escrever",
            Code::InvalidErrorMessage => "O erro está vazio ou não é texto",
            Code::MaxRetriesExceeded => "As tentativas se esgotaram",
            Code::PermanentError => "Nenhuma nova tentativa ajuda",
            Code::Overloaded => "Há coisas demais à espera",
            Code::TooManyFailures => "Chaves desconhecidas demais",
            Code::Internal => "Uma falha nossa",
            Code::ReadTooLong => "A leitura demora demais",
            Code::StoreUnavailable => "O armazenamento está indisponível",
            Code::ShuttingDown => "Este nó está parando",
        };
        self.say(code.title(), pt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_of_that_language_do() {
        assert_eq!(
            (Lang::En.number(1_234_567), Lang::Pt.number(1_234_567)),
            ("1,234,567".into(), "1.234.567".into())
        );
        assert_eq!((Lang::En.number(0), Lang::Pt.number(999)), ("0".into(), "999".into()));
        assert_eq!((Lang::En.percent(0.984), Lang::Pt.percent(0.984)), ("98.4%".into(), "98,4%".into()));
        assert_eq!((Lang::En.percent(1.0), Lang::En.percent(0.0)), ("100%".into(), "0%".into()));
    }

    #[test]
    fn what_is_nearly_all_is_not_all() {
        assert_eq!((Lang::En.percent(0.9999), Lang::Pt.percent(0.0001)), ("> 99.9%".into(), "< 0,1%".into()));
    }

    #[test]
    fn a_length_of_time_has_two_parts_at_most() {
        let said = |ms| Lang::Pt.span(Span::from_millis(ms));
        let cases = [(0, "0 ms"), (250, "250 ms"), (2_240, "2,2 s"), (12_900, "12 s"), (61_000, "1 min 1 s")];
        for (ms, words) in cases {
            assert_eq!(said(ms), words);
        }
        assert_eq!(
            (said(3_600_000), said(11_520_000), said(187_200_000)),
            ("1 h".into(), "3 h 12 min".into(), "2 d 4 h".into())
        );
    }

    #[test]
    fn a_browser_gets_the_language_that_it_likes_best() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::ACCEPT_LANGUAGE, text.parse().unwrap());
            Lang::of(&headers)
        };
        assert_eq!(of("pt-BR,pt;q=0.9,en;q=0.8"), Lang::Pt);
        assert_eq!(of("de, en;q=0.7, pt;q=0.9"), Lang::Pt);
        assert_eq!(of("en-GB, pt"), Lang::En);
        assert_eq!(of("pt;q=0, ja"), Lang::En);
        assert_eq!(Lang::of(&HeaderMap::new()), Lang::En);
    }

    #[test]
    fn every_problem_has_words_of_its_own_in_portuguese() {
        for code in Code::ALL {
            assert_ne!(Lang::Pt.problem(*code), code.title(), "{code:?}");
        }
    }
}
