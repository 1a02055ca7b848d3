//! CSV, cut into records as its bytes come, and the header that says what their fields are.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::{Ask, Cut, Own, RECORD_BYTES_MAX, TOO_LONG, Unreadable, Wanted};
use crate::suppression::Family;

pub(super) const HEADER_HINT: &str = "begin with a line that names the columns, such as telefone;nome";
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
const COLUMNS_MAX: usize = 500;
/// How deep a dotted name nests.
const PARTS_MAX: usize = 8;

/// So much may be read again where quotes do not close. From then on none spans lines that were read before, so that a
/// file of such quotes costs no more than twice its length.
const REREAD_MAX: usize = 64 * RECORD_BYTES_MAX;
pub(super) const LIKE_DATA: &str = "the first line looks like data, not like a header";
const NEVER_CLOSED: &str = "a quote is opened and never closed";
const AFTER_QUOTE: &str = "something follows a closing quote; write a quote within quotes twice";

/// Cuts bytes into records: lines, but for line breaks within quotes.
///
/// Where a quote makes no sense, the line that it stands on is given up, and reading goes on with the next line: one
/// stray quote must not swallow a file.
pub(super) struct Records {
    /// Any of the usual ones until the header is read.
    delimiter: Option<u8>,
    buffer: Vec<u8>,
    /// Where the record begins that is looked for, and how far it was looked at.
    from: usize,
    at: usize,
    place: Place,
    /// Of the record's beginning, from 1 on.
    line: u64,
    /// Line breaks within the record, and where its first line ends.
    breaks: u64,
    first_end: Option<usize>,
    /// A carriage return came last; a line feed after it is the same line break.
    returned: bool,
    /// How far was read before a record was given up.
    seen: usize,
    /// Bytes that were read again for that reason.
    reread: usize,
}

/// Where in a record the next byte stands.
#[derive(Clone, Copy)]
enum Place {
    Field,
    Plain,
    Quoted,
    /// After a quote that closes, unless it is the first of two.
    Closed,
    /// The rest of the line is passed over.
    Lost(&'static str),
}

impl Records {
    pub(super) fn new(delimiter: Option<u8>) -> Records {
        Records {
            delimiter,
            buffer: Vec::new(),
            from: 0,
            at: 0,
            place: Place::Field,
            line: 1,
            breaks: 0,
            first_end: None,
            returned: false,
            seen: 0,
            reread: 0,
        }
    }

    pub(super) fn delimit(&mut self, delimiter: u8) {
        self.delimiter = Some(delimiter);
    }

    /// Adds bytes, with line feeds for line breaks of all kinds.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.from);
        self.at -= self.from;
        self.first_end = self.first_end.map(|end| end - self.from);
        self.seen = self.seen.saturating_sub(self.from);
        self.from = 0;
        self.buffer.reserve(piece.len());
        for byte in piece {
            let same_break = std::mem::replace(&mut self.returned, *byte == b'\r') && *byte == b'\n';
            if !same_break {
                self.buffer.push(if *byte == b'\r' { b'\n' } else { *byte });
            }
        }
    }

    /// The next record that has ended, with the number of its first line; the last one may lack its line break.
    pub(super) fn next(&mut self, ended: bool) -> Option<(u64, Cut<'_>)> {
        while let Some(byte) = self.buffer.get(self.at).copied() {
            let lost = matches!(self.place, Place::Lost(_));
            if self.at - self.from >= RECORD_BYTES_MAX && !lost {
                match self.first_end {
                    Some(_) => return Some(self.give_up(NEVER_CLOSED)),
                    None => self.place = Place::Lost(TOO_LONG),
                }
            }
            self.at += 1;
            let delimits = match self.delimiter {
                Some(delimiter) => byte == delimiter,
                None => DELIMITERS.contains(&byte),
            };
            self.place = match (self.place, byte) {
                (Place::Lost(why), b'\n') => return Some(self.refuse(why)),
                (Place::Lost(why), _) => {
                    self.from = self.at;
                    Place::Lost(why)
                }
                (Place::Quoted, b'"') => Place::Closed,
                (Place::Quoted, b'\n') if self.at <= self.seen && self.reread > REREAD_MAX => {
                    return Some(self.refuse(NEVER_CLOSED));
                }
                (Place::Quoted, b'\n') => {
                    self.breaks += 1;
                    self.first_end.get_or_insert(self.at);
                    Place::Quoted
                }
                (Place::Quoted, _) | (Place::Closed | Place::Field, b'"') => Place::Quoted,
                (_, b'\n') => return Some(self.cut(self.at - 1)),
                _ if delimits => Place::Field,
                (Place::Closed, _) if self.first_end.is_some() => return Some(self.give_up(AFTER_QUOTE)),
                (Place::Closed, _) => Place::Lost(AFTER_QUOTE),
                (Place::Field | Place::Plain, _) => Place::Plain,
            };
        }
        match self.place {
            _ if !ended => None,
            Place::Lost(why) => Some(self.refuse(why)),
            _ if self.from == self.at => None,
            Place::Quoted if self.first_end.is_some() => Some(self.give_up(NEVER_CLOSED)),
            Place::Quoted => Some(self.refuse(NEVER_CLOSED)),
            Place::Field | Place::Plain | Place::Closed => Some(self.cut(self.at)),
        }
    }

    fn cut(&mut self, end: usize) -> (u64, Cut<'_>) {
        let (line, from) = (self.line, self.from);
        self.restart(self.at, 1 + self.breaks);
        (line, Ok(&self.buffer[from..end]))
    }

    fn refuse(&mut self, why: &'static str) -> (u64, Cut<'_>) {
        let line = self.line;
        self.restart(self.at, 1);
        (line, Err(why))
    }

    /// Refuses the record's first line, and reads on behind it.
    fn give_up(&mut self, why: &'static str) -> (u64, Cut<'_>) {
        let end = self.first_end.unwrap_or(self.at);
        self.seen = self.seen.max(self.at);
        self.reread += self.at - end;
        self.at = end;
        self.refuse(why)
    }

    fn restart(&mut self, from: usize, lines: u64) {
        self.from = from;
        self.line += lines;
        self.breaks = 0;
        self.first_end = None;
        self.place = Place::Field;
    }
}

/// The fields of a record, without their quotes.
pub(super) fn fields(record: &str, delimiter: u8) -> Vec<Cow<'_, str>> {
    let delimiter = char::from(delimiter);
    let mut fields = Vec::new();
    let mut rest = record;
    loop {
        let field = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(delimiter).unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                rest = after;
                Cow::Borrowed(field)
            }
            Some(quoted) => {
                let (field, after) = unquoted(quoted);
                // Nothing, unless another delimiter is being tried.
                let (more, after) = after.split_at(after.find(delimiter).unwrap_or(after.len()));
                rest = after;
                if more.is_empty() { field } else { Cow::Owned(format!("{field}{more}")) }
            }
        };
        fields.push(field);
        match rest.strip_prefix(delimiter) {
            Some(more) => rest = more,
            None => return fields,
        }
    }
}

/// What stands before the closing quote, and what behind it.
fn unquoted(quoted: &str) -> (Cow<'_, str>, &str) {
    let mut from = 0;
    let mut doubled = false;
    while let Some(at) = quoted[from..].find('"').map(|at| from + at) {
        if !quoted[at + 1..].starts_with('"') {
            let field = &quoted[..at];
            let field = if doubled { field.replace("\"\"", "\"").into() } else { field.into() };
            return (field, &quoted[at + 1..]);
        }
        doubled = true;
        from = at + 2;
    }
    (quoted.into(), "")
}

/// What the fields of the records are.
pub(super) struct Head {
    pub(super) delimiter: u8,
    /// Where each field goes: the parts of a variable's name. Of the address, and of what is left out, none.
    columns: Vec<Vec<String>>,
    to: usize,
    /// What the column of addresses is called.
    name: String,
    /// The kind of address that it is named after, if it is.
    pub(super) family: Option<Family>,
}

impl Head {
    pub(super) fn read(line: u64, words: &str, ask: &Ask, wanted: &Wanted) -> Result<Head, Unreadable> {
        let family = wanted.family;
        let wrong = |what: String, hint: &str| Err(Unreadable::new(line, what, hint));
        let mut tables = tables(words, ask.delimiter);
        // What the header calls them, for whoever looks for something in the file.
        let mut own: Vec<String> = Vec::new();
        if let Some(called) = &ask.columns {
            let most = tables.first().map_or(0, |(_, names)| names.len());
            tables.retain(|(_, names)| names.len() == called.len());
            if tables.is_empty() {
                let what = format!("there are {most} columns, and {} were named", called.len());
                return wrong(what, "name every column in order, and leave out by null what is not needed");
            }
            if tables.iter().flat_map(|(_, names)| names).any(|name| is_data(name)) {
                return wrong(LIKE_DATA.to_owned(), HEADER_HINT);
            }
            tables.truncate(1);
            let called = called.iter().map(|name| name.as_deref().unwrap_or_default().trim().to_owned());
            if let Some((_, names)) = tables.first_mut() {
                own = std::mem::replace(names, called.collect());
            }
        }
        let found = tables.iter().map(|(_, names)| addresses(names, ask.to.as_deref(), family));
        let best = found.enumerate().find(|(_, places)| !places.is_empty());
        let (table, places) = best.unwrap_or_default();
        let Some((delimiter, names)) = tables.into_iter().nth(table) else {
            return wrong("there is no header".to_owned(), HEADER_HINT);
        };
        if names.iter().any(|name| is_data(name)) {
            return wrong(LIKE_DATA.to_owned(), HEADER_HINT);
        }
        let listed = || {
            let shown: Vec<String> = names.iter().take(20).map(|name| quoted(name)).collect();
            shown.join(", ")
        };
        let to = match places.as_slice() {
            [one] => *one,
            [] => {
                let wanted = match (&ask.to, family) {
                    (Some(name), _) => format!("no column is called {}", quoted(name)),
                    (None, Some(Family::Whatsapp)) => "no column is known to hold phone numbers".to_owned(),
                    (None, Some(Family::Email)) => "no column is known to hold e-mail addresses".to_owned(),
                    (None, None) => "no column is called `to`".to_owned(),
                };
                let hint = "name the column of addresses `to`, or say which it is: to=COLUMN";
                return wrong(format!("{wanted}; there are {}", listed()), hint);
            }
            several => {
                let names: Vec<String> = several.iter().map(|place| quoted(&names[*place])).collect();
                let what = format!("the addresses could be in any of {}", names.join(", "));
                return wrong(what, "say which it is: to=COLUMN");
            }
        };
        if names.len() > COLUMNS_MAX {
            let what = format!("there are {} columns; at most {COLUMNS_MAX} are read", names.len());
            return wrong(what, "leave out those that the template does not need");
        }
        let mut columns = Vec::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            if name.is_empty() && ask.columns.is_some() {
                columns.push(Vec::new());
                continue;
            }
            let parts: Vec<String> = name.split('.').map(|part| part.trim().to_owned()).collect();
            if parts.iter().any(String::is_empty) {
                let what = match name.is_empty() {
                    true => format!("column {} has no name", place + 1),
                    false => format!("the name {} has nothing before or behind a dot", quoted(name)),
                };
                return wrong(what, "name every column, and leave out empty ones");
            }
            if parts.len() > PARTS_MAX {
                return wrong(format!("the name {} has too many dots", quoted(name)), "nest less deeply");
            }
            columns.push(parts);
        }
        if let Some((one, other)) = clash(&columns) {
            let what = match one == other {
                true => format!("two columns are called {}", quoted(&one)),
                false => format!("{} cannot be a value and hold {} as well", quoted(&one), quoted(&other)),
            };
            return wrong(what, "give each column a name of its own");
        }
        columns[to].clear();
        rename(&mut columns, &wanted.names);
        let name = own.get(to).filter(|name| !name.is_empty()).unwrap_or(&names[to]).clone();
        Ok(Head { delimiter, columns, to, family: named_after(&names[to]), name })
    }

    /// The address of a record, and what else it says: nothing for an empty field where everybody is told something.
    pub(super) fn row<'a>(&self, fields: &'a [Cow<'_, str>], common: &Own) -> Result<(&'a str, Own), String> {
        if fields.len() != self.columns.len() {
            let (has, wanted) = (fields.len(), self.columns.len());
            let missing =
                if has < wanted { "are missing, or a line break" } else { "are too many, or a delimiter" };
            return Err(format!(
                "it has {has} fields where the header has {wanted}: some {missing} within a field lacks quotes"
            ));
        }
        let mut own = Own::new();
        for (parts, field) in self.columns.iter().zip(fields) {
            let value = match field.trim() {
                "" if is_said(common, parts) => continue,
                "" => Value::Null,
                text => Value::from(text),
            };
            put(&mut own, parts, value);
        }
        match fields[self.to].trim() {
            "" => Err(format!("there is no address: {} is empty", quoted(&self.name))),
            to => Ok((to, own)),
        }
    }

    /// Whether records have a value of that name, or within it.
    pub(super) fn begins(&self, name: &str) -> bool {
        self.columns.iter().any(|parts| parts.first().is_some_and(|first| first == name))
    }
}

/// The header cut by each delimiter that could be meant, the one that makes most columns first.
pub(super) fn tables(words: &str, given: Option<u8>) -> Vec<(u8, Vec<String>)> {
    let mut tables: Vec<(u8, Vec<String>)> = (DELIMITERS.iter().copied())
        .filter(|delimiter| given.is_none_or(|given| given == *delimiter))
        .chain(given.filter(|given| !DELIMITERS.contains(given)))
        .map(|delimiter| {
            (delimiter, fields(words, delimiter).iter().map(|name| name.trim().to_owned()).collect())
        })
        .collect();
    tables.sort_by_key(|(_, names): &(_, Vec<String>)| std::cmp::Reverse(names.len()));
    tables
}

fn put(own: &mut Own, parts: &[String], value: Value) {
    match parts {
        [] => {}
        [name] => {
            own.insert(name.clone(), value);
        }
        [name, rest @ ..] => {
            let within = own.entry(name.as_str()).or_insert_with(|| Value::Object(Own::new()));
            if let Value::Object(within) = within {
                put(within, rest, value);
            }
        }
    }
}

fn is_said(common: &Own, parts: &[String]) -> bool {
    match parts {
        [] => false,
        [name] => common.get(name).is_some_and(|value| !value.is_null()),
        [name, rest @ ..] => common.get(name).and_then(Value::as_object).is_some_and(|it| is_said(it, rest)),
    }
}

/// Two columns of which one cannot be beside the other.
fn clash(columns: &[Vec<String>]) -> Option<(String, String)> {
    let mut sorted: Vec<&Vec<String>> = columns.iter().filter(|parts| !parts.is_empty()).collect();
    sorted.sort();
    let pair = sorted.windows(2).find(|pair| pair[1].starts_with(pair[0]))?;
    Some((pair[0].join("."), pair[1].join(".")))
}

/// Calls columns as they are wanted where only capitals differ, and nothing else could be meant.
fn rename(columns: &mut [Vec<String>], wanted: &BTreeSet<String>) {
    let firsts: BTreeSet<String> = columns.iter().filter_map(|parts| parts.first().cloned()).collect();
    for name in wanted.iter().filter(|name| !firsts.contains(*name)) {
        let alike = |other: &&String| other.to_lowercase() == name.to_lowercase();
        let mut found = firsts.iter().filter(alike);
        if let (Some(found), None) = (found.next(), found.next())
            && wanted.iter().filter(alike).count() == 1
        {
            let firsts = columns.iter_mut().filter_map(|parts| parts.first_mut());
            firsts.filter(|first| *first == found).for_each(|first| first.clone_from(name));
        }
    }
}

/// What stands between two fields, if this is the line by which Excel is told so.
pub(super) fn announced(line: u64, words: &str) -> Option<u8> {
    let words = words.trim_matches(['"', ' ']);
    let (key, delimiter) = words.split_at_checked(4).filter(|_| line == 1)?;
    match delimiter.as_bytes() {
        [delimiter] if key.eq_ignore_ascii_case("sep=") && delimiter.is_ascii() => Some(*delimiter),
        _ => None,
    }
}

/// The kind of address that a column is named after, if it is.
fn named_after(name: &str) -> Option<Family> {
    const PHONES: [&str; 16] = [
        "phone",
        "phonenumber",
        "telephone",
        "telefone",
        "numerodetelefone",
        "fone",
        "tel",
        "celular",
        "numerodecelular",
        "cel",
        "mobile",
        "whatsapp",
        "numerodewhatsapp",
        "zap",
        "numero",
        "number",
    ];
    const MAILS: [&str; 5] = ["email", "emailaddress", "enderecodeemail", "mail", "correioeletronico"];
    match folded(name).as_str() {
        phone if PHONES.contains(&phone) => Some(Family::Whatsapp),
        mail if MAILS.contains(&mail) => Some(Family::Email),
        _ => None,
    }
}

/// The places of the columns that can hold the addresses: one, if it is clear.
pub(super) fn addresses(names: &[String], asked: Option<&str>, family: Option<Family>) -> Vec<usize> {
    let places = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
        names.iter().enumerate().filter(|(_, name)| fits(name)).map(|(place, _)| place).collect()
    };
    if let Some(asked) = asked {
        let exactly = places(&|name| name == asked.trim());
        return if exactly.is_empty() { places(&|name| folded(name) == folded(asked)) } else { exactly };
    }
    for name in ["to", "recipient", "destinatario"] {
        let plainly = places(&|it| folded(it) == name);
        if !plainly.is_empty() {
            return plainly;
        }
    }
    places(&|name| named_after(name).is_some_and(|it| family.is_none_or(|family| it == family)))
}

/// Letters and digits alone, small and without accents, as a person compares names.
pub(super) fn folded(name: &str) -> String {
    let plain = |c: char| match c {
        'á' | 'à' | 'â' | 'ã' | 'ä' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'í' | 'ì' | 'î' | 'ï' => 'i',
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' => 'o',
        'ú' | 'ù' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        c => c,
    };
    name.chars().flat_map(char::to_lowercase).map(plain).filter(|c| c.is_alphanumeric()).collect()
}

/// Whether a name is somebody's address, which no column is called.
pub(super) fn is_data(name: &str) -> bool {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    Family::Email.normalised(name).is_some() || (digits >= 10 && Family::Whatsapp.normalised(name).is_some())
}

fn quoted(name: &str) -> String {
    let flat: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(40).collect();
    format!("`{flat}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_that_never_close_cost_no_more_than_their_length() {
        let mut records = Records::new(Some(b','));
        let list = "x\",\"y\n".repeat(300_000);
        records.push(list.as_bytes());
        let mut refused = 0;
        while let Some((_, cut)) = records.next(true) {
            refused += usize::from(cut.is_err());
        }
        assert!(refused > 290_000, "{refused}");
        assert!(records.reread <= REREAD_MAX + 2 * list.len(), "{}", records.reread);
    }
}
