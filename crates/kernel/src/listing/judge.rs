//! Whether somebody can be written to by a line: an address of the channel's kind, and all that the template needs.

use serde_json::{Map, Value};

use super::csv::Head;
use super::{Own, Unreadable};
use crate::campaign::recipient::{Listed, Person, Refusal, merged};
use crate::content;
use crate::kind::ChannelKind;
use crate::message::Json;
use crate::suppression::Family;
use crate::template::Compiled;

/// The longest address of a channel that has a kind of its own.
const ADDRESS_BYTES_MAX: usize = 512;

/// How much of a bad address is kept.
const SHOWN_MAX: usize = 100;

/// What lines are judged by.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Of the channel that the messages go through.
    pub kind: ChannelKind,
    pub template: Compiled,
    /// What the template says to everybody.
    pub common: Map<String, Value>,
}

pub(super) struct Judge {
    terms: Terms,
}

impl Judge {
    pub(super) fn new(terms: Terms) -> Judge {
        Judge { terms }
    }

    pub(super) fn line(&self, line: u64, to: &str, own: Own) -> Listed {
        let of = self.person(to, own).map_err(|reason| Refusal { to: shown(to), reason });
        Listed { line, of }
    }

    fn person(&self, to: &str, own: Own) -> Result<Person, String> {
        let (to, key) = self.address(to)?;
        let payload = (!own.is_empty()).then(|| Json::from_value(&Value::Object(own.clone())));
        let content = self.filled(own)?;
        content::check(self.terms.kind, &to, &content).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(|it| format!("{} {}", it.field, it.reason)).collect();
            format!("the channel does not take what the template says: {}", told.join("; "))
        })?;
        Ok(Person { to, key, payload })
    }

    /// What the template says to somebody.
    fn filled(&self, own: Own) -> Result<Value, String> {
        let payload = Value::Object(merged(&self.terms.common, own));
        let filled = self.terms.template.render(self.terms.kind, &payload);
        filled.map_err(|error| format!("the template cannot be filled: {error}"))
    }

    /// Refuses a table that lacks a column without which the template cannot be filled: all its lines would be bad.
    pub(super) fn try_template(&self, line: u64, head: &Head, own: &Own) -> Result<(), Unreadable> {
        let Err(why) = self.filled(own.clone()) else { return Ok(()) };
        let given = |name: &String| head.begins(name) || self.terms.common.contains_key(name);
        let names = self.terms.template.variables(self.terms.kind);
        let lacking = names.iter().filter(|name| !given(name));
        let lacking: Vec<String> = lacking.map(|name| format!("`{name}`")).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let hint =
            format!("add what is missing as a column, or to the campaign's payload: {}", lacking.join(", "));
        Err(Unreadable::new(line, why, hint))
    }

    /// The one form of an address, and what tells this person from others.
    fn address(&self, written: &str) -> Result<(String, String), String> {
        let Some(family) = Family::of(self.terms.kind) else {
            let to = written.trim();
            return match to.len() {
                0 => Err(NOTHING.to_owned()),
                1..=ADDRESS_BYTES_MAX if !to.chars().any(char::is_control) => {
                    Ok((to.to_owned(), to.to_owned()))
                }
                1..=ADDRESS_BYTES_MAX => Err("the address has a line break or control character".to_owned()),
                _ => Err(format!("the address is longer than {ADDRESS_BYTES_MAX} bytes")),
            };
        };
        let to = address(family, written)?;
        let key = family.person(&to);
        Ok((to, key))
    }
}

/// The one form of an address, however a person or a spreadsheet has written it; or what is wrong with it.
pub fn address(family: Family, written: &str) -> Result<String, &'static str> {
    let tidy = tidy(written);
    match family {
        _ if tidy.is_empty() => Err(NOTHING),
        Family::Whatsapp => phone(&tidy),
        Family::Email => mail(&tidy),
    }
}

const NOTHING: &str = "there is no address";

fn phone(written: &str) -> Result<String, &'static str> {
    if is_spoilt(written) {
        return Err(
            "a spreadsheet has rounded this number, and its last digits are lost: format the column as text, \
                    fill it in again and export it anew",
        );
    }
    let digits = written.bytes().filter(u8::is_ascii_digit).count();
    let jid = written.contains('@');
    if !jid && !written.starts_with('+') && (8..10).contains(&digits) {
        return Err("the number has neither country code nor DDD: write 11 98765-4321 or +55 11 98765-4321");
    }
    // Once more, as the whole number that it is taken for: that has to be as long as numbers of its country are.
    let whole = Family::Whatsapp.normalised(written).filter(|it| Family::Whatsapp.normalised(it).is_some());
    match whole {
        Some(number) if number.starts_with("+0") => {
            Err("the number begins with 0: write the country code after a +, as in +55 11 98765-4321")
        }
        Some(number) => Ok(number),
        None if jid => Err("this is an e-mail address or an unknown JID, not a phone number"),
        None => Err("not a phone number: needs country code or DDD and 8 or 9 digits, as in 11 98765-4321"),
    }
}

fn mail(written: &str) -> Result<String, &'static str> {
    let read = |text: &str| Family::Email.normalised(text);
    let whole = read(written).and_then(|whole| match tidy(&whole) {
        bare if bare == whole => Some(whole),
        // There are quotes within angle brackets, too.
        bare => read(&bare).filter(|it| tidy(it) == *it),
    });
    whole.ok_or(match written.matches('@').count() {
        0 => "not an e-mail address: there is no @ in it",
        1 => "not an e-mail address: write it as ana@clinica.example",
        _ => "not one e-mail address: write each on a line of its own",
    })
}

/// `5,51199E+12`: what is left of a long number that a spreadsheet has taken for a measurement.
fn is_spoilt(written: &str) -> bool {
    let Some((mantissa, exponent)) = written.split_once(['E', 'e']) else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(exponent.strip_prefix('+').unwrap_or(exponent))
        && mantissa.split([',', '.']).count() <= 2
        && mantissa.split([',', '.']).all(digits)
}

/// An address without what programs put around it: blanks that cannot be seen, the marks by which spreadsheets keep a
/// number as text, and the decimals of a number that was none.
fn tidy(written: &str) -> String {
    let plain = written.chars().filter_map(|c| match c {
        '\u{a0}' | '\u{2007}' | '\u{202f}' => Some(' '),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => None,
        c => Some(c),
    });
    let plain: String = plain.collect();
    let mut bare = plain.trim();
    if let Some(formula) = bare.strip_prefix("=\"").and_then(|rest| rest.strip_suffix('"')) {
        bare = formula;
    }
    bare = bare.strip_prefix('\'').unwrap_or(bare).trim();
    let whole = bare.strip_suffix(".0").filter(|whole| whole.bytes().all(|byte| byte.is_ascii_digit()));
    whole.unwrap_or(bare).to_owned()
}

/// What is kept of a bad address: enough to find it in the file.
fn shown(to: &str) -> String {
    to.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect()
}
