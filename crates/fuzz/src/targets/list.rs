//! Lists of recipients: CSV of any program, and JSON.

use pombo_kernel::campaign::recipient::Listed;
use pombo_kernel::dice::Dice;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::listing::{Ask, Encoding, Format, Reader, Terms, Unreadable, address};
use pombo_kernel::suppression::Family;
use pombo_kernel::template::{Compiled, Template};

use crate::Sign;
use crate::change::pieces;

pub(super) const WORDS: &[&str] = &[
    "telefone;nome\n",
    "email,nome\r\n",
    "to",
    "+55 11 98765-4321",
    "11987654321",
    "5,51199E+12",
    "ana@clinica.example",
    "{\"to\":\"ana@x.example\",\"nome\":\"Ana\"}",
    "{\"recipients\":[",
    "]}",
    "\"\"",
    "=\"11987654321\"",
    "\u{a0}",
    "sep=;\n",
    "a.b",
    "\t",
];

/// How the first byte wants the list to be read.
fn asked(choice: u8) -> (Ask, ChannelKind) {
    let format = [Format::Csv, Format::Json, Format::Ndjson][usize::from(choice % 3)];
    let kind = [ChannelKind::Smtp, ChannelKind::Evolution, ChannelKind::Null][usize::from(choice / 3 % 3)];
    let delimiter = [None, Some(b';'), Some(b','), Some(b'\t')][usize::from(choice / 9 % 4)];
    let encoding = [None, None, Some(Encoding::Utf8), Some(Encoding::Latin1)][usize::from(choice / 36 % 4)];
    // Somebody may have said what the columns are.
    let columns = (choice >= 144).then(|| vec![Some("to".to_owned()), None, Some("nome".to_owned())]);
    (Ask { format, to: None, delimiter, encoding, columns }, kind)
}

fn terms(kind: ChannelKind) -> Terms {
    let text = "Oi {{ nome|default('cliente') }}".to_owned();
    let template = Template { subject: Some("s".into()), text: Some(text), ..Template::default() };
    Terms { kind, template: Compiled::new(template).unwrap(), common: serde_json::Map::new() }
}

fn read(choice: u8, pieces: &[&[u8]]) -> (Vec<Listed>, Result<(), Unreadable>) {
    let (ask, kind) = asked(choice);
    let mut reader = Reader::new(ask, terms(kind));
    let mut lines = Vec::new();
    let mut all = || {
        pieces.iter().try_for_each(|piece| reader.push(piece, &mut lines))?;
        reader.finish(&mut lines)
    };
    let done = all();
    (lines, done)
}

pub(super) fn run(bytes: &[u8]) -> Sign {
    let Some((choice, list)) = bytes.split_first() else { return Sign(0) };
    let whole = read(*choice, &[list]);
    let cut = read(*choice, &pieces(list, &mut Dice::seeded(Sign::of(bytes).0)));
    assert_eq!(whole, cut, "whole, and cut into pieces");
    let (lines, done) = &whole;
    assert!(lines.iter().is_sorted_by_key(|line| line.line), "lines come in their order");
    for line in lines {
        match &line.of {
            Err(refusal) => {
                assert!(!refusal.reason.is_empty() && refusal.to.chars().count() <= 100, "{refusal:?}");
            }
            Ok(person) => {
                assert!(!person.to.is_empty() && !person.to.contains(char::is_control), "{person:?}");
                let family = Family::of(asked(*choice).1);
                let again = family.map(|family| address(family, &person.to));
                assert!(again.is_none_or(|again| again.as_ref() == Ok(&person.to)), "{person:?}");
            }
        }
    }
    let good = lines.iter().filter(|line| line.of.is_ok()).count();
    let why = done.as_ref().err().map(|why| why.what.chars().take(24).collect::<String>());
    Sign::of((choice % 9, good.min(3), (lines.len() - good).min(3), why))
}
