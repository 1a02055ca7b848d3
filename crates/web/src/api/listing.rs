//! Lists that come in: how a request says what they are, and what is said of one that cannot be read.

use http::{HeaderMap, header};
use pombo_kernel::listing::{Ask, Encoding, Format, Unreadable};

use super::page::{Query, Wrong};
use crate::body::{self, Media};
use crate::problem::{Code, Problem};

/// By which the address of a request says how its list is to be read.
pub(crate) const OPTIONS: [&str; 3] = ["to", "delimiter", "encoding"];
/// Where the columns of a table are called otherwise than its header calls them.
pub(crate) const COLUMNS: &str = "columns";

/// How the list is to be read, by what the request says of it.
pub(crate) fn ask(headers: &HeaderMap, query: &mut Query) -> Result<Ask, Problem> {
    let (format, charset) = match charset(headers)? {
        Some(charset) => (Format::Csv, charset),
        None => {
            match body::media(headers).map_err(|problem| Problem { hint: MEDIA_HINT.into(), ..problem })? {
                Media::Json => (Format::Json, None),
                Media::Ndjson => (Format::Ndjson, None),
            }
        }
    };
    let to = query.take("to", |text| Ok(text.to_owned()));
    let delimiter = query.take("delimiter", delimiter);
    let encoding = query.take("encoding", |text| Encoding::named(text).ok_or_else(unknown_encoding));
    Ok(Ask { format, to, delimiter, encoding: encoding.or(charset), columns: None })
}

/// What the columns are called here, in order, and null for one that is left out: a JSON list in the address.
pub(crate) fn columns(query: &mut Query) -> Option<Vec<Option<String>>> {
    query.take(COLUMNS, |text| {
        let hint = "write for example [\"to\", \"name\", null], one for each column";
        serde_json::from_str(text).map_err(|_| ("is not a list of names".to_owned(), hint.to_owned()))
    })
}

const MEDIA_HINT: &str =
    "send `Content-Type: text/csv` with a header, `application/json` or `application/x-ndjson`";

/// The encoding that CSV names, if it names one; nothing if the body is no CSV.
fn charset(headers: &HeaderMap) -> Result<Option<Option<Encoding>>, Problem> {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    if !parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("text/csv")) {
        return Ok(None);
    }
    let named =
        parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("charset"));
    let Some((_, name)) = named else { return Ok(Some(None)) };
    let known = Encoding::named(name.trim_matches('"'));
    known.map(|known| Some(Some(known))).ok_or_else(|| {
        let detail = format!("the body is `{}`", text.chars().take(100).collect::<String>());
        Problem::new(Code::UnsupportedMediaType, detail, unknown_encoding().1)
    })
}

fn unknown_encoding() -> Wrong {
    ("is not an encoding that is read".to_owned(), "utf-8 or latin1; it is found out if left out".to_owned())
}

fn delimiter(text: &str) -> Result<u8, Wrong> {
    match text {
        "," | ";" | "|" | "\t" => Ok(text.as_bytes()[0]),
        "tab" => Ok(b'\t'),
        _ => Err((
            "is not a delimiter".to_owned(),
            "one of , ; | and tab; it is found out if left out".to_owned(),
        )),
    }
}

pub(crate) fn unreadable(why: Unreadable) -> Problem {
    Problem::field("body", format!("line {}: {}", why.line, why.what), why.hint)
}

/// A list that came to its end too early, and not by a fault of what it says.
pub(crate) fn broken_off(problem: Problem) -> Problem {
    let detail = "the list broke off before its end";
    Problem { detail: detail.into(), hint: "send the whole list again".into(), ..problem }
}
