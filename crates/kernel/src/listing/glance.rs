//! A first look at a table, for somebody who then says what its columns are.

use super::csv::{self, LIKE_DATA, Records, folded};
use super::text::Text;
use super::{Encoding, Unreadable, address};
use crate::suppression::Family;

/// Lines that are shown, and that a guess goes by.
const SHOWN: usize = 5;

/// What a table begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    pub delimiter: u8,
    /// What its header calls them.
    pub columns: Vec<String>,
    /// The first lines that have as many fields as the header, field by field.
    pub rows: Vec<Vec<String>>,
    /// The column of addresses, if one looks like it: by its name, or by what stands in it.
    pub to: Option<usize>,
}

impl Glance {
    /// The column that seems to be meant by that name, whatever its capitals, accents and blanks.
    pub fn column(&self, name: &str) -> Option<usize> {
        let exactly = self.columns.iter().position(|column| column == name);
        exactly.or_else(|| self.columns.iter().position(|column| folded(column) == folded(name)))
    }
}

/// Looks at the beginning of a table whose addresses are of that kind.
pub fn glance(list: &[u8], encoding: Option<Encoding>, family: Option<Family>) -> Result<Glance, Unreadable> {
    let mut text = Text::new(encoding);
    let mut records = Records::new(None);
    records.push(text.begin(list)?);
    let mut announced = None;
    let mut head: Option<(u8, Vec<String>, Option<usize>)> = None;
    let mut rows: Vec<Vec<String>> = Vec::new();
    while let Some((line, record)) = records.next(true) {
        let words = match (record.and_then(|record| text.read(record)), &head) {
            (Ok(words), _) if words.trim().is_empty() => continue,
            (Ok(words), _) => words,
            (Err(why), None) => return Err(Unreadable::new(line, why, csv::HEADER_HINT)),
            (Err(_), Some(_)) => continue,
        };
        let Some((delimiter, columns, _)) = &head else {
            if let Some(delimiter) = csv::announced(line, &words) {
                announced = Some(delimiter);
                continue;
            }
            let tables = csv::tables(&words, announced);
            let known = |(_, names): &(u8, Vec<String>)| csv::addresses(names, None, family);
            let best = tables.iter().position(|table| !known(table).is_empty()).unwrap_or(0);
            let Some((delimiter, columns)) = tables.into_iter().nth(best) else { break };
            if columns.iter().any(|name| csv::is_data(name)) {
                return Err(Unreadable::new(line, LIKE_DATA, csv::HEADER_HINT));
            }
            let to = csv::addresses(&columns, None, family);
            records.delimit(delimiter);
            head = Some((delimiter, columns, Some(to).filter(|to| to.len() == 1).map(|to| to[0])));
            continue;
        };
        let fields: Vec<String> =
            csv::fields(&words, *delimiter).iter().map(|field| field.trim().to_owned()).collect();
        if fields.len() == columns.len() && fields.iter().any(|field| !field.is_empty()) {
            rows.push(fields);
        }
        if rows.len() == SHOWN {
            break;
        }
    }
    let Some((delimiter, columns, named)) = head else {
        return Err(Unreadable::new(1, "there is nobody on the list", "write a line for each recipient"));
    };
    let to = named.or_else(|| likeliest(&columns, &rows, family?));
    Ok(Glance { delimiter, columns, rows, to })
}

/// The column with most addresses in it, if there is any.
fn likeliest(columns: &[String], rows: &[Vec<String>], family: Family) -> Option<usize> {
    let good = |place: usize| rows.iter().filter(|row| address(family, &row[place]).is_ok()).count();
    let counted = (0..columns.len()).map(|place| (good(place), place));
    let best = counted.max_by_key(|(good, place)| (*good, std::cmp::Reverse(*place)))?;
    Some(best).filter(|(good, _)| *good > 0).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(list: &[u8], family: Family) -> Glance {
        glance(list, None, Some(family)).unwrap()
    }

    #[test]
    fn a_table_is_shown_as_its_header_and_first_lines_have_it() {
        let list =
            "\u{feff}sep=;\nNome;Celular;\n\nAna;11 98765-4321;x\nshort;1\n\"Silva; Bia\";11 91234-5678;\n";
        let glance = seen(list.as_bytes(), Family::Whatsapp);
        assert_eq!((glance.delimiter, glance.to), (b';', Some(1)));
        assert_eq!(glance.columns, ["Nome", "Celular", ""]);
        assert_eq!(glance.rows, [["Ana", "11 98765-4321", "x"], ["Silva; Bia", "11 91234-5678", ""]]);
        assert_eq!(
            (glance.column("nome"), glance.column("NOME "), glance.column("city")),
            (Some(0), Some(0), None)
        );
    }

    #[test]
    fn addresses_are_known_by_how_they_look_where_the_header_does_not_say() {
        let list = b"A,B,C\nAna,x,ana@clinica.example\nBia,y,bia@clinica.example\n";
        assert_eq!(seen(list, Family::Email).to, Some(2));
        assert_eq!(seen(list, Family::Whatsapp).to, None);
        assert_eq!(seen(b"tel,phone\n11987654321,11987654321\n", Family::Whatsapp).to, Some(0));
    }

    #[test]
    fn latin_1_is_read_as_it_is_meant() {
        let glance = seen(b"E-mail;Cora\xe7\xe3o\nana@x.example;S\xe3o\n", Family::Email);
        assert_eq!((glance.columns[1].as_str(), glance.rows[0][1].as_str()), ("Coração", "São"));
    }

    #[test]
    fn what_is_no_table_is_told() {
        for (list, what) in [
            (&b""[..], "nobody"),
            (b"\n \n", "nobody"),
            (b"PK\x03\x04rest", "workbook"),
            (b"ana@x.example;Ana\n", "like data"),
        ] {
            let why = glance(list, None, Some(Family::Email)).unwrap_err();
            assert!(why.what.contains(what), "{why}");
        }
    }
}
