use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kind::ChannelKind;
use crate::template::{Compiled, Template};

const WHATSAPP: ChannelKind = ChannelKind::Evolution;
const NULL: ChannelKind = ChannelKind::Null;

fn template(text: &str) -> Compiled {
    let subject = Some("s".to_owned());
    Compiled::new(Template { subject, text: Some(text.into()), ..Template::default() }).unwrap()
}

fn terms(kind: ChannelKind, text: &str, common: Value) -> Terms {
    let Value::Object(common) = common else { panic!("{common}") };
    Terms { kind, template: template(text), common }
}

fn asked(format: Format) -> Ask {
    Ask { format, to: None, delimiter: None, encoding: None, columns: None }
}

fn read(ask: Ask, terms: Terms, pieces: &[&[u8]]) -> (Vec<Listed>, Result<(), Unreadable>) {
    let mut reader = Reader::new(ask, terms);
    let mut lines = Vec::new();
    let mut run = || {
        pieces.iter().try_for_each(|piece| reader.push(piece, &mut lines))?;
        reader.finish(&mut lines)
    };
    let done = run();
    (lines, done)
}

/// A line in short: its number, the address, and the payload or what is wrong.
fn brief(listed: &Listed) -> (u64, String, String) {
    match &listed.of {
        Ok(person) => {
            let payload = person.payload.as_ref().map(|payload| payload.text().to_owned());
            (listed.line, person.to.clone(), payload.unwrap_or_default())
        }
        Err(refusal) => (listed.line, refusal.to.clone(), format!("! {}", refusal.reason)),
    }
}

/// What becomes of a list whose template needs nothing.
fn all(format: Format, kind: ChannelKind, list: &[u8]) -> Vec<(u64, String, String)> {
    let (lines, done) = read(asked(format), terms(kind, "x", json!({})), &[list]);
    assert_eq!(done, Ok(()), "{}", String::from_utf8_lossy(list));
    lines.iter().map(brief).collect()
}

fn csv(list: &str) -> Vec<(u64, String, String)> {
    all(Format::Csv, NULL, list.as_bytes())
}

fn refused(ask: Ask, kind: ChannelKind, list: &[u8]) -> String {
    let (lines, done) = read(ask, terms(kind, "x", json!({})), &[list]);
    assert_eq!(lines, [], "nothing is given back of a list that is refused");
    done.unwrap_err().to_string()
}

#[track_caller]
fn same(got: &[(u64, String, String)], wanted: &[(u64, &str, &str)]) {
    let got: Vec<(u64, &str, &str)> = got.iter().map(|(line, to, rest)| (*line, &**to, &**rest)).collect();
    assert_eq!(got, wanted);
}

#[test] // REQ BK-7
fn any_of_the_usual_delimiters_is_found_in_the_header() {
    for delimiter in [",", ";", "\t", "|"] {
        let list = "to/nome\na/Ana\n".replace('/', delimiter);
        same(&csv(&list), &[(2, "a", r#"{"nome":"Ana"}"#)]);
    }
    // By the columns that it makes, not by what stands within quotes or within a name.
    same(&csv("to;\"a,b,c\"\nx;\"1;2\""), &[(2, "x", r#"{"a,b,c":"1;2"}"#)]);
    same(&csv("to|nome, idade, cidade\nx|1"), &[(2, "x", r#"{"nome, idade, cidade":"1"}"#)]);
    same(&csv("to\na\nb"), &[(2, "a", ""), (3, "b", "")]);
}

#[test]
fn a_delimiter_that_is_given_is_the_only_one() {
    let ask = Ask { delimiter: Some(b';'), ..asked(Format::Csv) };
    let (lines, done) = read(ask, terms(NULL, "x", json!({})), &[b"to;a,b,c\n1;2"]);
    assert_eq!((lines.iter().map(brief).collect::<Vec<_>>().len(), done), (1, Ok(())));
    let ask = Ask { delimiter: Some(b'\t'), ..asked(Format::Csv) };
    assert!(refused(ask, NULL, b"to,a\n1,2").contains("no column is called `to`"));
}

#[test] // REQ BK-7
fn quotes_hold_delimiters_breaks_and_quotes() {
    let list = "to,nome\r\n\"a\",\"Ana, \"\"a \r\nprimeira\"\"\"\r\nb,\"\"\r\nc,Ana \"Bia\" Lima\r\n";
    same(
        &csv(list),
        &[
            (2, "a", r#"{"nome":"Ana, \"a \nprimeira\""}"#),
            (4, "b", r#"{"nome":null}"#),
            (5, "c", r#"{"nome":"Ana \"Bia\" Lima"}"#),
        ],
    );
}

#[test]
fn a_line_break_is_one_however_it_is_written() {
    for ends in ["\n", "\r\n", "\r"] {
        let list = "to,n\na,1\n\nb,2\n \nc,3".replace('\n', ends);
        let lines: Vec<u64> = csv(&list).iter().map(|(line, ..)| *line).collect();
        assert_eq!(lines, [2, 4, 6], "{ends:?}");
    }
}

#[test] // REQ BK-7
fn a_quote_that_makes_no_sense_costs_its_line_alone() {
    let list = "to,n\na,\"open\nb,2\nc,3\n\"d\"x,4\ne,5\n\"f,\n6\"g\nh,7\ni,\"end";
    let got = csv(list);
    // The quote of line 2 meets that of line 5, where it makes no sense; line 8 is what is left of lines 7 and 8.
    let short: Vec<(u64, &str)> =
        got.iter().map(|(line, to, why)| (*line, why.get(..10).unwrap_or(to))).collect();
    let wanted = [
        (2, "! somethin"),
        (3, "b"),
        (4, "c"),
        (5, "! somethin"),
        (6, "e"),
        (7, "! somethin"),
        (8, "! it has 1"),
        (9, "h"),
    ];
    assert_eq!(short[..8], wanted);
    assert_eq!(got[8], (10, String::new(), "! a quote is opened and never closed".into()));
}

#[test]
fn a_quote_that_is_never_closed_does_not_swallow_the_file() {
    let mut list = "to,n\na,\"open\n".to_owned();
    for n in 0..20_000 {
        list.push_str(&format!("b{n},{n}\n"));
    }
    let got = csv(&list);
    assert_eq!((got.len(), got[0].0, got[20_000].0), (20_001, 2, 20_002));
    assert!(got[0].2.contains("never closed"));
    assert!(got[1..].iter().all(|(_, to, rest)| to.starts_with('b') && rest.starts_with('{')));
}

#[test] // REQ BK-7
fn a_line_with_too_few_or_too_many_fields_is_refused_with_its_number() {
    let got = csv("to,a,b\nx,1\ny,1,2\nz,1,2,3\n,,\n");
    assert_eq!(got.len(), 3, "a row of nothing is a blank line");
    assert!(got[0].0 == 2 && got[0].2.starts_with("! it has 2 fields where the header has 3"), "{got:?}");
    assert!(got[2].0 == 4 && got[2].2.starts_with("! it has 4 fields where the header has 3"), "{got:?}");
}

#[test]
fn what_is_longer_than_a_record_may_be_is_refused_alone() {
    let long = "x".repeat(RECORD_BYTES_MAX);
    let list = format!("to,n\na,{long}\nb,1\n\"c\",\"{long}\"\nd,1");
    let got = csv(&list);
    let tells: Vec<_> = got.iter().map(|(line, _, rest)| (*line, rest.starts_with('!'))).collect();
    assert_eq!(tells, [(2, true), (3, false), (4, true), (5, false)]);
    let list = format!("[\"a\",{{\"to\":\"b\",\"n\":\"{long}\"}},\"c\"]");
    let got = all(Format::Json, NULL, list.as_bytes());
    assert_eq!(got[1], (2, String::new(), format!("! {TOO_LONG}")));
    assert_eq!(got.len(), 3);
    let got = all(Format::Ndjson, NULL, format!("\"a\"\n\"{long}\"\n\"c\"").as_bytes());
    assert_eq!((got.len(), &*got[1].2), (3, "! it is longer than 64 KiB"));
    let reason = refused(asked(Format::Csv), NULL, format!("to,{long}\na,1").as_bytes());
    assert!(reason.starts_with("line 1: it is longer than 64 KiB"), "{reason}");
}

#[test] // REQ BK-7
fn latin_1_is_read_from_the_line_on_that_shows_it() {
    let latin = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    let list = latin("n\u{fa}mero;nome\n11987654321;Jos\u{e9}\n11987654322;\u{80} 5\n");
    same(
        &all(Format::Csv, WHATSAPP, &list),
        &[(2, "+5511987654321", r#"{"nome":"José"}"#), (3, "+5511987654322", r#"{"nome":"€ 5"}"#)],
    );
    let list = [b"to;nome\na;Ana\n".as_slice(), &latin("b;Jo\u{e3}o\n")].concat();
    same(&all(Format::Csv, NULL, &list), &[(2, "a", r#"{"nome":"Ana"}"#), (3, "b", r#"{"nome":"João"}"#)]);
    // Whoever names it is believed.
    let ask = Ask { encoding: Some(Encoding::Latin1), ..asked(Format::Csv) };
    let (lines, _) = read(ask, terms(NULL, "x", json!({})), &["to;n\na;é".as_bytes()]);
    assert_eq!(brief(&lines[0]).2, r#"{"n":"Ã©"}"#);
}

#[test]
fn a_line_that_is_not_utf_8_among_lines_that_are_is_refused() {
    let list = [b"to;n\na;Jo\xc3\xa3o\nb;Jo\xe3o\nc;Ana\n".as_slice()].concat();
    let got = all(Format::Csv, NULL, &list);
    assert!(
        got[1].0 == 3 && got[1].2.starts_with("! it is not UTF-8, which the lines before it are"),
        "{got:?}"
    );
    assert_eq!((&*got[0].2, &*got[2].2), (r#"{"n":"João"}"#, r#"{"n":"Ana"}"#));
    let ask = Ask { encoding: Some(Encoding::Utf8), ..asked(Format::Csv) };
    let (lines, done) = read(ask, terms(NULL, "x", json!({})), &[b"to\n\xe3\nb"]);
    assert!(done.is_ok() && lines[0].of.is_err() && lines[1].of.is_ok(), "{lines:?}");
}

#[test]
fn a_mark_of_utf_8_is_no_part_of_the_first_name() {
    same(&csv("\u{feff}to,n\na,1"), &[(2, "a", r#"{"n":"1"}"#)]);
    same(&all(Format::Json, NULL, "\u{feff}[\"a\"]".as_bytes()), &[(1, "a", "")]);
    same(&csv("to\na"), &[(2, "a", "")]);
}

#[test]
fn what_is_no_text_is_refused_with_what_to_do() {
    for list in [
        b"\xff\xfet\0o\0\n\0".as_slice(),
        b"\xfe\xff\0t\0o\0\n",
        b"t\0o\0,\0n\0\n\0",
        b"PK\x03\x04\x14\0\x06\0",
        b"\xd0\xcf\x11\xe0\xa1\xb1",
    ] {
        let told = refused(asked(Format::Csv), WHATSAPP, list);
        assert!(told.contains("save it as \"CSV UTF-8\""), "{told}");
    }
    assert!(refused(asked(Format::Csv), NULL, b"\xff\xfet\0").contains("UTF-16"));
}

#[test] // REQ BK-7
fn the_column_of_addresses_is_known_by_many_names() {
    for name in
        ["to", "TO", "Telefone", "CELULAR", "whatsapp", "Número", "numero", "phone", "Phone number", "fone"]
    {
        let got = all(Format::Csv, WHATSAPP, format!("nome;{name}\nAna;11987654321").as_bytes());
        same(&got, &[(2, "+5511987654321", r#"{"nome":"Ana"}"#)]);
    }
    for name in ["email", "E-mail", "e_mail", "Mail", "destinatário"] {
        let got = all(Format::Csv, ChannelKind::Smtp, format!("{name};telefone\na@x.example;1").as_bytes());
        same(&got, &[(2, "a@x.example", r#"{"telefone":"1"}"#)]);
    }
    let ask = Ask { to: Some("contato 2".into()), ..asked(Format::Csv) };
    let (lines, _) = read(ask, terms(NULL, "x", json!({})), &["to;Contato 2\na;b".as_bytes()]);
    assert_eq!(brief(&lines[0]), (2, "b".into(), r#"{"to":"a"}"#.into()));
}

#[test] // REQ BK-7
fn a_list_without_a_header_is_refused_as_a_whole() {
    let csv = |kind, list: &str| refused(asked(Format::Csv), kind, list.as_bytes());
    for (kind, list) in [
        (WHATSAPP, "11987654321;Ana\n11987654322;Bia"),
        (WHATSAPP, "+55 11 98765-4321\n"),
        (ChannelKind::Smtp, "ana@x.example,email\n"),
    ] {
        let told = csv(kind, list);
        assert!(told.starts_with("line 1: the first line looks like data"), "{told}");
        assert!(!told.contains("98765") && !told.contains("ana@"), "{told}");
    }
    for (kind, list, says) in [
        (
            WHATSAPP,
            "nome;idade\nAna;5",
            "no column is known to hold phone numbers; there are `nome`, `idade`",
        ),
        (ChannelKind::Resend, "nome;telefone\nAna;5", "no column is known to hold e-mail addresses"),
        (
            WHATSAPP,
            "telefone;celular\n1;2",
            "could be in any of `telefone`, `celular`; say which it is: to=COLUMN",
        ),
        (NULL, "to;nome;nome\n1;2;3", "two columns are called `nome`"),
        (NULL, "to;;nome\n1;2;3", "column 2 has no name"),
        (NULL, "to;a;a.b\n1;2;3", "`a` cannot be a value and hold `a.b` as well"),
        (NULL, "to;a..b\n1;2", "has nothing before or behind a dot"),
        (NULL, "to;a.a.a.a.a.a.a.a.a\n1;2", "too many dots"),
        (NULL, "to,\"n\na,b", "a quote is opened and never closed"),
        (NULL, "to;nome\n", "there is nobody on the list"),
        (NULL, "", "there is nobody on the list"),
    ] {
        let told = csv(kind, list);
        assert!(told.contains(says), "{list}: {told}");
    }
    let ask = Ask { to: Some("fone".into()), ..asked(Format::Csv) };
    assert!(
        refused(ask, WHATSAPP, b"telefone\n1").contains("no column is called `fone`; there are `telefone`")
    );
}

#[test]
fn a_dotted_name_nests_and_an_empty_field_says_nothing() {
    let common = json!({"clinica": "Vida", "user_data": {"plan": "A", "city": "Santos"}});
    let list = b"to;user_data.full_name;user_data.city;clinica;obs\na;Ana;;;\n";
    let (lines, _) = read(asked(Format::Csv), terms(NULL, "x", common.clone()), &[list]);
    assert_eq!(brief(&lines[0]).2, r#"{"obs":null,"user_data":{"full_name":"Ana"}}"#);
    let text =
        "{{ user_data.full_name }} {{ user_data.city }} {{ clinica }}{% if obs %} {{ obs }}{% endif %}";
    let (lines, done) = read(asked(Format::Csv), terms(NULL, text, common), &[list]);
    assert!(done.is_ok() && lines[0].of.is_ok(), "{lines:?}");
}

#[test] // REQ BK-7
fn somebody_whom_the_template_lacks_words_for_is_refused_by_name() {
    let list = b"to;nome\na;Ana\nb;\nc;Caio\n";
    let (lines, done) = read(asked(Format::Csv), terms(NULL, "oi\n{{ nome }}", json!({})), &[list]);
    assert_eq!(done, Ok(()));
    let told = brief(&lines[1]).2;
    assert_eq!((lines[0].of.is_ok(), lines[2].of.is_ok()), (true, true));
    assert_eq!(told, "! the template cannot be filled: text, line 2: `nome` has no value (null)");
    let list = br#"[{"to": "a", "nome": "Ana"}, {"to": "b"}]"#;
    let (lines, _) = read(asked(Format::Json), terms(NULL, "{{ nome }}", json!({})), &[list]);
    assert_eq!(
        brief(&lines[1]).2,
        "! the template cannot be filled: text, line 1: `nome` is not in the payload"
    );
    // What everybody is told serves where the line says nothing.
    let (lines, _) = read(asked(Format::Json), terms(NULL, "{{ nome }}", json!({"nome": "amigo"})), &[list]);
    assert!(lines.iter().all(|line| line.of.is_ok()), "{lines:?}");
}

#[test] // REQ BK-7
fn a_table_without_a_column_that_the_template_needs_is_refused_as_a_whole() {
    let list: &[&[u8]] = &[b"to;Nomes\na;Ana\nb;Bia\n"];
    let (lines, done) = read(asked(Format::Csv), terms(NULL, "{{ nome }}", json!({})), list);
    let told = done.unwrap_err().to_string();
    assert!(lines.is_empty() && told.contains("`nome` is not in the payload"), "{told}");
    assert!(
        told.ends_with("add what is missing as a column, or to the campaign's payload: `nome`"),
        "{told}"
    );
    // One that it can do without is not needed.
    let text = "{{ nome|default(\"oi\") }}";
    assert!(read(asked(Format::Csv), terms(NULL, text, json!({})), list).1.is_ok());
}

#[test] // REQ BK-7
fn a_column_fills_what_the_template_calls_by_other_capitals() {
    let check = |head: &str, text: &str, payload: &str| {
        let list = format!("{head}\na;Ana;Bia\n");
        let (lines, done) = read(asked(Format::Csv), terms(NULL, text, json!({})), &[list.as_bytes()]);
        assert_eq!(done, Ok(()), "{head}");
        assert_eq!(brief(&lines[0]).2, payload, "{head}");
    };
    check("to;NOME;x", "{{ nome }}", r#"{"nome":"Ana","x":"Bia"}"#);
    check("to;nome;x", "{{ Nome }}", r#"{"Nome":"Ana","x":"Bia"}"#);
    check("to;User.first;User.last", "{{ user.first }}", r#"{"user":{"first":"Ana","last":"Bia"}}"#);
    // Where more than one could be meant, every name stays as it is.
    check("to;Nome;nome", "{{ nome }}", r#"{"Nome":"Ana","nome":"Bia"}"#);
    check("to;Nome;NOME", "{{ nome|default('x') }}", r#"{"NOME":"Bia","Nome":"Ana"}"#);
    check("to;Nome;x", "{{ nome|default('x') }}{{ NOME|default('x') }}", r#"{"Nome":"Ana","x":"Bia"}"#);
}

#[test] // REQ BK-7
fn excels_line_about_the_delimiter_is_understood() {
    for first in ["sep=;", "SEP=;", "\"sep=;\"", "\u{feff}sep=;"] {
        let list = format!("{first}\r\nto;a,b,c\r\nx;1");
        same(&csv(&list), &[(3, "x", r#"{"a,b,c":"1"}"#)]);
    }
    same(&csv("sep=\t\nto\ta\nx\t1"), &[(3, "x", r#"{"a":"1"}"#)]);
    // Only where Excel looks for it, and what was asked for counts more.
    assert!(refused(asked(Format::Csv), NULL, b"\nsep=;\nto;a\n").contains("no column is called `to`"));
    let ask = Ask { delimiter: Some(b'|'), ..asked(Format::Csv) };
    let (lines, _) = read(ask, terms(NULL, "x", json!({})), &[b"sep=;\nto|a\nx|1"]);
    assert_eq!(brief(&lines[0]), (3, "x".into(), r#"{"a":"1"}"#.into()));
}

#[test] // REQ BK-7
fn an_empty_address_is_told_with_its_line_and_column() {
    let got = all(Format::Csv, WHATSAPP, b"nome;Celular\nAna; \nBia;11987654321\n");
    same(
        &got,
        &[(2, "", "! there is no address: `Celular` is empty"), (3, "+5511987654321", r#"{"nome":"Bia"}"#)],
    );
}

#[test] // REQ BK-7
fn phone_numbers_are_kept_in_one_form_or_refused_with_the_reason() {
    let one = |to: &str| all(Format::Ndjson, WHATSAPP, json!(to).to_string().as_bytes()).remove(0);
    for (written, kept) in [
        ("(11) 98765-4321", "+5511987654321"),
        ("5511987654321", "+5511987654321"),
        (" +55 11 98765\u{2011}4321\u{200e}", "+5511987654321"),
        ("11\u{a0}98765\u{a0}4321", "+5511987654321"),
        ("'11987654321", "+5511987654321"),
        ("=\"11987654321\"", "+5511987654321"),
        ("5511987654321.0", "+5511987654321"),
        ("+1 202 555 0123", "+12025550123"),
        ("1203@g.us", "1203@g.us"),
    ] {
        assert_eq!(one(written).1, kept, "{written}: {}", one(written).2);
        assert_eq!(one(written).2, "", "{written}");
    }
    for (written, says) in [
        ("", "there is no address"),
        ("5,51199E+12", "a spreadsheet has rounded this number"),
        ("5.51199e12", "a spreadsheet has rounded this number"),
        ("98765-4321", "neither country code nor DDD"),
        ("8765-4321", "neither country code nor DDD"),
        ("00 55 11 98765-4321", "begins with 0"),
        ("55119876543210", "not a phone number: needs country code or DDD and 8 or 9 digits"),
        ("12", "not a phone number"),
        ("Ana", "not a phone number"),
        ("ana@x.example", "an e-mail address"),
        ("11987654321 / 11987654322", "not a phone number"),
    ] {
        let (_, to, told) = one(written);
        assert!(told.starts_with('!') && told.contains(says), "{written}: {told}");
        assert_eq!(to, written, "it is shown as it stood there");
    }
    let numbers = all(Format::Json, WHATSAPP, b"[{\"to\": 5511987654321}, {\"to\": 5.511987654321e12}]");
    assert!(numbers.iter().all(|(_, to, _)| to == "+5511987654321"), "{numbers:?}");
}

#[test] // REQ BK-7
fn one_person_has_one_key_however_the_address_is_written() {
    let keys = |kind, list: &str| -> Vec<String> {
        let (lines, _) = read(asked(Format::Ndjson), terms(kind, "x", json!({})), &[list.as_bytes()]);
        lines.into_iter().map(|line| line.of.unwrap().key).collect()
    };
    let [one, other] = keys(WHATSAPP, "\"+55 11 8765-4321\"\n\"11987654321\"").try_into().unwrap();
    assert_eq!(one, other);
    let [one, other] =
        keys(ChannelKind::Smtp, "\"Ana <ANA@x.example>\"\n\"ana@X.example\"").try_into().unwrap();
    assert_eq!(one, other);
}

#[test] // REQ BK-7
fn e_mail_addresses_are_kept_in_one_form_or_refused_with_the_reason() {
    let one = |to: &str| all(Format::Ndjson, ChannelKind::Smtp, json!(to).to_string().as_bytes()).remove(0);
    assert_eq!(one("Ana <Ana@Clinica.EXAMPLE>").1, "Ana@clinica.example");
    for (written, says) in [
        ("ana", "there is no @"),
        ("ana@", "write it as"),
        ("a@x.example; b@x.example", "each on a line of its own"),
    ] {
        assert!(one(written).2.contains(says), "{written}: {}", one(written).2);
    }
}

#[test]
fn a_channel_of_its_own_kind_takes_any_words_as_an_address() {
    let one = |to: &str| all(Format::Ndjson, NULL, json!(to).to_string().as_bytes()).remove(0);
    assert_eq!(one("  room 7 ").1, "room 7");
    assert_eq!(one(&"x".repeat(512)).2, "");
    for bad in ["", "  ", "a\u{0}b", &*"x".repeat(513)] {
        assert!(one(bad).2.starts_with('!'), "{bad:?}");
        assert!(!one(bad).1.contains('\0') && one(bad).1.len() <= 100);
    }
}

#[test]
fn what_the_channel_would_not_take_is_refused_now() {
    let template =
        Template { subject: Some("{{ s }}".into()), text: Some("t".into()), ..Template::default() };
    let terms =
        Terms { kind: ChannelKind::Smtp, template: Compiled::new(template).unwrap(), common: Map::new() };
    let list = br#"[{"to": "a@x.example", "s": "oi"}, {"to": "b@x.example", "s": " "}]"#;
    let (lines, _) = read(asked(Format::Json), terms, &[list]);
    assert!(lines[0].of.is_ok());
    assert!(brief(&lines[1]).2.contains("content.subject is empty"), "{lines:?}");
}

#[test] // REQ BK-7
fn json_is_read_as_a_list_as_an_object_with_one_and_line_by_line() {
    let people = r#"{"to":"a","nome":"Ana"}, {"to": "b", "variables": {"nome": "B, ]\"}", "x": [1, {"y": "{"}]}}, "c" "#;
    let wanted =
        [(1, "a", r#"{"nome":"Ana"}"#), (2, "b", r#"{"nome":"B, ]\"}","x":[1,{"y":"{"}]}"#), (3, "c", "")];
    same(&all(Format::Json, NULL, format!(" [ {people} ] ").as_bytes()), &wanted);
    same(&all(Format::Json, NULL, format!("{{\n\"recipients\" : [{people}]}}\n").as_bytes()), &wanted);
    same(&all(Format::Ndjson, NULL, br#"{"recipient": "a", "x": 1}"#), &[(1, "a", r#"{"x":1}"#)]);
    let lines = "{\"to\":\"a\",\"nome\":\"Ana\"}\r\n\r\n\"c\"";
    same(&all(Format::Ndjson, NULL, lines.as_bytes()), &[(1, "a", r#"{"nome":"Ana"}"#), (3, "c", "")]);
}

#[test]
fn an_element_that_makes_no_sense_is_refused_alone() {
    let list = br#"[{"to" "a"}, 7, null, {"to": {}}, {"phone": "1"}, ["to"], "ok", true]"#;
    let got = all(Format::Json, NULL, list);
    let told: Vec<&str> = got.iter().map(|(.., rest)| rest.as_str()).collect();
    assert!(told[0].contains("not JSON") && told[3].contains("`to` is not text"), "{told:?}");
    assert!(
        told[4].contains("has no `to`") && told[1].contains("neither an object nor an address"),
        "{told:?}"
    );
    assert!(told[2].starts_with('!') && told[5].starts_with('!'), "{told:?}");
    assert_eq!(got[6].1, "ok");
}

#[test]
fn json_that_cannot_be_read_on_says_where() {
    for (list, says, before) in [
        ("", "the body is empty", 0),
        ("7", "not a list", 0),
        ("{\"to\": \"a\"}", "without a list of `recipients`", 0),
        ("{\"recipients\": 7}", "`recipients` is not a list", 0),
        ("{\"recipients\": [\"a\"], \"x\": 1}", "beside `recipients`", 1),
        ("{\"recipients\": [\"a\"]", "ends before the list does", 1),
        ("[\"a\",\n\"b\"", "ends before the list does", 2),
        ("[\"a\",\n\"b\" \"c\"]", "line 2: a comma is missing", 2),
        ("[\"a\",]", "an element is missing", 1),
        ("[\"a\"]]", "something follows", 1),
        ("[]", "there is nobody on the list", 0),
    ] {
        let (lines, done) = read(asked(Format::Json), terms(NULL, "x", json!({})), &[list.as_bytes()]);
        let told = done.unwrap_err().to_string();
        assert!(told.contains(says), "{list}: {told}");
        assert_eq!(lines.len(), before, "{list}");
    }
}

/// Texts of the kind that makes readers stumble.
fn lists() -> impl Strategy<Value = Vec<u8>> {
    let bits = prop::sample::select(vec![
        b"to".as_slice(),
        b"to;n\n",
        b"to,n\r\n",
        b"telefone",
        b"\"",
        b"\"\"",
        b",",
        b";",
        b"\n",
        b"\r",
        b"\r\n",
        b"a",
        b"11987654321",
        b"\xc3\xa3",
        b"\xe3",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\\",
        b":",
        b"{\"to\":\"a\"}",
        b"\"recipients\"",
        b" ",
        b"\0",
    ]);
    let mixed = prop::collection::vec(bits, 0..60).prop_map(|bits| bits.concat());
    prop_oneof![4 => mixed, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn where_pieces_end_makes_no_difference(
        list in lists(),
        head in prop::sample::select(vec!["", "to;n\n", "to,n\r\n", "[", "{\"recipients\":["]),
        cuts in prop::collection::vec(0usize..300, 0..8),
        format in prop::sample::select(vec![Format::Csv, Format::Json, Format::Ndjson]),
        kind in prop::sample::select(vec![NULL, WHATSAPP, ChannelKind::Smtp]),
    ) {
        let list = [head.as_bytes(), &list].concat();
        let whole = read(asked(format), terms(kind, "x", json!({})), &[&list]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(list.len())).collect();
        cuts.extend([0, list.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &list[cut[0]..cut[1]]).collect();
        prop_assert_eq!(&read(asked(format), terms(kind, "x", json!({})), &pieces), &whole);
        let bytes: Vec<&[u8]> = list.chunks(1).collect();
        prop_assert_eq!(&read(asked(format), terms(kind, "x", json!({})), &bytes), &whole);
        // No line stands before another, and what is kept of an address can be stored anywhere.
        let (lines, _) = whole;
        prop_assert!(lines.windows(2).all(|pair| pair[0].line < pair[1].line));
        for line in &lines {
            prop_assert!(!brief(line).1.contains('\0'));
        }
    }
}

#[test] // REQ BK-7
fn columns_are_called_as_whoever_sends_the_list_says() {
    let named = |names: &[Option<&str>]| {
        let columns = names.iter().map(|name| name.map(str::to_owned)).collect();
        Ask { columns: Some(columns), ..asked(Format::Csv) }
    };
    let list = "Cliente;Fone 2;Obs;;Obs\nAna;11 98765-4321;x;y;z\nBia;;;;\n".as_bytes();
    let ask = named(&[Some("nome"), Some("to"), None, Some("loja.cidade"), None]);
    let (lines, done) = read(ask, terms(WHATSAPP, "{{ nome }}", json!({})), &[list]);
    assert_eq!(done, Ok(()));
    let own = "{\"loja\":{\"cidade\":\"y\"},\"nome\":\"Ana\"}";
    let lines: Vec<_> = lines.iter().map(brief).collect();
    same(&lines, &[(2, "+5511987654321", own), (3, "", "! there is no address: `Fone 2` is empty")]);
    for (names, what) in [
        (&[Some("to"), None][..], "there are 5 columns, and 2 were named"),
        (&[Some("nome"), None, None, None, None], "no column is known to hold phone numbers"),
        (&[Some("to"), Some("a"), Some("a"), None, None], "two columns are called `a`"),
    ] {
        assert!(refused(named(names), WHATSAPP, list).contains(what), "{what}");
    }
    let data = b"ana@x.example;Ana\n";
    assert!(refused(named(&[Some("to"), Some("nome")]), NULL, data).contains("looks like data"));
}
