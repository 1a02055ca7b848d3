//! Lists of people on their way to a campaign: looked over here, then sent in piece by piece.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use pombo_kernel::listing::{self, Terms};
use pombo_kernel::template::{Compiled, Template};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::cli::{Trouble, import};
use crate::client::{Client, ClientError, Pieces};

/// How much of a list is looked at before anything is made of it.
const HEAD_BYTES: usize = 256 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces that are read before they can be sent.
const PIECES_AHEAD: usize = 4;
/// From one redraw of the bar to the next.
const BEAT: Duration = Duration::from_millis(200);

/// A list and how it is to be read.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// The list: CSV with a heading, JSON, or one JSON object a line; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

/// A list that may be there, by any of its names.
#[derive(Debug, Args)]
pub(crate) struct People {
    /// The list: CSV with a heading, JSON, or one JSON object a line; `-` is standard input
    #[arg(conflicts_with_all = ["csv", "json_file"])]
    file: Option<PathBuf>,
    /// The list as CSV with a heading; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json_file", "format"])]
    csv: Option<PathBuf>,
    /// The list as a JSON array, or one JSON object a line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delimiter", "encoding"])]
    json_file: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Reading {
    /// The column or member that has the address [default: found out]
    #[arg(long, value_name = "COLUMN")]
    to: Option<String>,
    /// What stands between two fields of CSV, for example ';' or tab [default: found out]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<String>,
    /// How characters of CSV are written: utf-8 or latin1 [default: found out]
    #[arg(long)]
    encoding: Option<String>,
    /// What the list is [default: by its name, else by how it begins]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Csv,
    Json,
    Ndjson,
}

impl Format {
    fn media(self) -> &'static str {
        match self {
            Format::Csv => "text/csv",
            Format::Json => "application/json",
            Format::Ndjson => "application/x-ndjson",
        }
    }

    /// What a list is by its name, and by how it begins.
    fn of(file: &Path, head: &[u8]) -> Format {
        let named = file.extension().and_then(|it| it.to_str()).map(str::to_ascii_lowercase);
        if matches!(named.as_deref(), Some("csv" | "tsv" | "txt")) {
            return Format::Csv;
        }
        let start = head.trim_ascii_start();
        match start.first() {
            Some(b'[') => Format::Json,
            Some(b'{') => {
                let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let object = serde_json::from_slice::<serde_json::Map<String, Value>>(line);
                // A line that is an object of its own is one of many, unless it holds them all.
                match object {
                    Ok(object) if !object.contains_key("recipients") => Format::Ndjson,
                    _ => Format::Json,
                }
            }
            _ => Format::Csv,
        }
    }
}

impl People {
    /// The list, if there is one.
    pub(super) fn list(&self) -> Result<Option<Source>, Trouble> {
        let People { file, csv, json_file, reading } = self;
        let (file, format) = match (file, csv, json_file) {
            (Some(file), ..) => (file, None),
            (_, Some(file), _) => (file, Some(Format::Csv)),
            (.., Some(file)) => (file, None),
            (None, None, None) => return Ok(None),
        };
        let reading = Reading { format: format.or(reading.format), ..reading.clone() };
        let list = List { file: file.clone(), reading };
        let source = list.open()?;
        if json_file.is_some() && source.format == Format::Csv {
            return Err(Trouble::usage(format!("{} is not JSON", file.display()))
                .hint("a JSON list begins with [ or {; for CSV write --csv"));
        }
        Ok(Some(source))
    }
}

/// A list that is open: its beginning is read, and the rest follows.
pub(crate) struct Source {
    file: PathBuf,
    name: String,
    head: Bytes,
    rest: Box<dyn Read + Send>,
    /// The head is all there is.
    whole: bool,
    /// Of a file; nobody knows how long a pipe is.
    length: Option<u64>,
    format: Format,
    reading: Reading,
}

impl List {
    pub(crate) fn open(&self) -> Result<Source, Trouble> {
        let name = self.file.display().to_string();
        let unreadable = |error| Trouble::new(format!("{name} cannot be read"), "FILE_UNREADABLE").why(error);
        let (mut rest, length): (Box<dyn Read + Send>, Option<u64>) = match self.file == Path::new("-") {
            true => (Box::new(std::io::stdin()), None),
            false => {
                let file = std::fs::File::open(&self.file).map_err(unreadable)?;
                let length = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
                (Box::new(file), length)
            }
        };
        let mut head = Vec::new();
        rest.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(unreadable)?;
        let whole = head.len() < HEAD_BYTES;
        let format = self.reading.format.unwrap_or_else(|| Format::of(&self.file, &head));
        let (file, reading) = (self.file.clone(), self.reading.clone());
        Ok(Source { file, name, head: head.into(), rest, whole, length, format, reading })
    }
}

impl Source {
    /// What a person would type to name it again.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Looks at how the list begins, by what the server knows of the channel and the template.
    ///
    /// What is not known here is left to the server to judge.
    pub(super) async fn check(
        &self,
        client: &Client,
        channel: &str,
        template: &str,
        common: &Value,
    ) -> Result<(), Trouble> {
        let channels = client.get("/v1/channels").await?;
        let mut channels = channels["items"].as_array().into_iter().flatten();
        let kind =
            channels.find(|it| it["name"] == *channel).and_then(|it| it["kind"].as_str()?.parse().ok());
        let segment: String = url::form_urlencoded::byte_serialize(template.as_bytes()).collect();
        let template = client.get(&format!("/v1/templates/{segment}")).await?;
        let part = |name: &str| template[name].as_str().map(str::to_owned);
        let (subject, text, html, whatsapp) = (part("subject"), part("text"), part("html"), part("whatsapp"));
        let template = Compiled::new(Template { subject, text, html, whatsapp });
        let (Some(kind), Ok(template)) = (kind, template) else { return Ok(()) };
        let common = common.as_object().cloned().unwrap_or_default();
        let mut reader = listing::Reader::new(self.ask()?, Terms { kind, template, common });
        let mut lines = Vec::new();
        let read = reader.push(&self.head, &mut lines);
        let read = read.and_then(|()| if self.whole { reader.finish(&mut lines) } else { Ok(()) });
        read.map_err(|unreadable| {
            let why = format!("line {}: {}", unreadable.line, unreadable.what);
            Trouble::new(format!("{} cannot be used as a list", self.name), "LIST_UNREADABLE")
                .why(why)
                .hint(&unreadable.hint)
        })
    }

    fn ask(&self) -> Result<listing::Ask, Trouble> {
        let Reading { to, encoding, .. } = &self.reading;
        let format = match self.format {
            Format::Csv => listing::Format::Csv,
            Format::Json => listing::Format::Json,
            Format::Ndjson => listing::Format::Ndjson,
        };
        let encoding = encoding.as_deref().map(|name| {
            listing::Encoding::named(name).ok_or_else(|| {
                Trouble::usage(format!("`{name}` is no encoding")).hint("write utf-8 or latin1")
            })
        });
        let delimiter = self.reading.delimiter()?;
        Ok(listing::Ask { format, to: to.clone(), delimiter, encoding: encoding.transpose()?, columns: None })
    }

    /// By what the same list is known again, read in the same way: all its bytes, or of a pipe how it begins.
    pub(super) fn digest(&self) -> Result<String, Trouble> {
        let mut hash = Sha256::new();
        let unreadable =
            |error| Trouble::new(format!("{} cannot be read", self.name), "FILE_UNREADABLE").why(error);
        match self.length {
            Some(_) => {
                let mut file = std::fs::File::open(&self.file).map_err(unreadable)?;
                let mut piece = vec![0; PIECE_BYTES];
                loop {
                    match file.read(&mut piece).map_err(unreadable)? {
                        0 => break,
                        read => hash.update(&piece[..read]),
                    }
                }
            }
            None => hash.update(&self.head),
        }
        hash.update(self.reading.to.as_deref().unwrap_or_default());
        Ok(import::hex(&hash.finalize()))
    }

    /// Where it is sent, with how it is to be read.
    fn address(&self, place: &str, more: &[(&str, Option<String>)]) -> Result<String, Trouble> {
        let ask = self.ask()?;
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in more {
            query.extend_pairs(value.iter().map(|value| (name, value)));
        }
        let delimiter = ask.delimiter.map(|byte| char::from(byte).to_string());
        for (name, value) in
            [("to", &ask.to), ("delimiter", &delimiter), ("encoding", &self.reading.encoding)]
        {
            query.extend_pairs(value.iter().map(|value| (name, value)));
        }
        let query = query.finish();
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(format!("{place}{mark}{query}"))
    }
}

impl Reading {
    fn delimiter(&self) -> Result<Option<u8>, Trouble> {
        match self.delimiter.as_deref() {
            None => Ok(None),
            Some("tab" | "\\t" | "\t") => Ok(Some(b'\t')),
            Some(one) => match one.as_bytes() {
                [byte] if byte.is_ascii() => Ok(Some(*byte)),
                _ => Err(Trouble::usage(format!("`{one}` cannot stand between two fields"))
                    .hint("write one character, such as ';' or ',', or tab")),
            },
        }
    }
}

/// Why a list did not get there.
pub(crate) enum Failed {
    /// It cannot be read here.
    Unfit(Trouble),
    /// The server refused it, or could not be reached to the end.
    Server(ClientError),
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

impl Failed {
    /// The same list would be refused again.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Failed::Unfit(_) => true,
            // A list that broke off, a key that is not good, one that came too slowly: none of it is the list's fault.
            Failed::Server(ClientError::Refused(refusal)) => {
                !matches!(refusal.status, 400 | 401 | 408 | 429 | 500..)
            }
            Failed::Server(_) | Failed::Interrupted => false,
        }
    }

    /// What is wrong lies in the list, and not in the campaign or in whoever sends it.
    pub(super) fn is_of_the_list(&self) -> bool {
        match self {
            Failed::Unfit(_) => true,
            Failed::Server(ClientError::Refused(refusal)) => matches!(refusal.status, 413 | 415 | 422),
            Failed::Server(_) | Failed::Interrupted => false,
        }
    }
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Trouble {
        match failed {
            Failed::Unfit(trouble) => trouble,
            Failed::Server(error) => Trouble::from(error),
            Failed::Interrupted => Trouble::new("it was interrupted", "INTERRUPTED"),
        }
    }
}

/// Sends a list in, whatever its length, with a few pieces of it in memory; what became of its lines.
pub(crate) async fn upload(
    client: &Client,
    place: &str,
    more: &[(&str, Option<String>)],
    list: Source,
) -> Result<Value, Failed> {
    let address = list.address(place, more).map_err(Failed::Unfit)?;
    let (media, bar) = (list.format.media(), import::progress(list.length));
    let (give, from) = mpsc::channel(PIECES_AHEAD);
    // A thread of its own: reading a pipe can take for ever, and sending must go on meanwhile.
    std::thread::spawn(move || feed(list, &give));
    let pieces = Pieces::new(from);
    let taken = pieces.taken();
    let sending = client.upload(&address, media, pieces);
    let beating = async {
        loop {
            bar.set_position(taken.load(Ordering::Relaxed));
            tokio::time::sleep(BEAT).await;
        }
    };
    let answer = tokio::select! {
        answer = sending => answer.map_err(Failed::Server),
        () = beating => Err(Failed::Interrupted),
        _ = tokio::signal::ctrl_c() => Err(Failed::Interrupted),
    };
    bar.finish_and_clear();
    answer
}

/// Reads a list to its end, or until nobody wants more of it.
fn feed(list: Source, give: &mpsc::Sender<std::io::Result<Bytes>>) {
    let Source { head, mut rest, .. } = list;
    if give.blocking_send(Ok(head)).is_err() {
        return;
    }
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = match rest.read(&mut piece) {
            Ok(0) => return,
            Ok(read) => {
                piece.truncate(read);
                Ok(Bytes::from(piece))
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let ended = read.is_err();
        if give.blocking_send(read).is_err() || ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_known_by_its_name_or_by_how_it_begins() {
        let check = |file: &str, head: &str, format: Format| {
            assert_eq!(Format::of(Path::new(file), head.as_bytes()), format, "{file} {head}");
        };
        check("people.csv", "[a],b\n", Format::Csv);
        check("-", "to;nome\n", Format::Csv);
        check("-", "", Format::Csv);
        check("people.json", "\n [{\"to\": 1}]", Format::Json);
        check("people.json", "{\"recipients\": [1]}", Format::Json);
        check("-", "{\n\"recipients\": [1]}", Format::Json);
        check("people.ndjson", "{\"to\": 1}\n{\"to\": 2}\n", Format::Ndjson);
        check("-", "{\"to\": 1}", Format::Ndjson);
    }

    #[test]
    fn only_what_is_wrong_with_the_list_itself_is_held_against_it() {
        let refused = |status| {
            let refusal = crate::client::Refusal { status, ..Default::default() };
            Failed::Server(ClientError::Refused(Box::new(refusal)))
        };
        for (status, last, of_the_list) in [
            (422, true, true),
            (413, true, true),
            (415, true, true),
            (403, true, false),
            (404, true, false),
            (409, true, false),
            (400, false, false),
            (401, false, false),
            (408, false, false),
            (429, false, false),
            (503, false, false),
        ] {
            let failed = refused(status);
            assert_eq!((failed.is_final(), failed.is_of_the_list()), (last, of_the_list), "{status}");
        }
        let away = ClientError::Unreachable { server: String::new(), why: String::new() };
        for failed in [Failed::Interrupted, Failed::Server(away)] {
            assert!(!failed.is_final() && !failed.is_of_the_list());
        }
    }

    #[test]
    fn a_delimiter_is_one_character() {
        let reading = |text: Option<&str>| Reading {
            to: None,
            delimiter: text.map(str::to_owned),
            encoding: None,
            format: None,
        };
        assert_eq!(reading(None).delimiter(), Ok(None));
        assert_eq!(reading(Some(";")).delimiter(), Ok(Some(b';')));
        assert_eq!(reading(Some("tab")).delimiter(), Ok(Some(b'\t')));
        for bad in ["", ";;", "é"] {
            assert_eq!(reading(Some(bad)).delimiter().unwrap_err().code, "BAD_USAGE");
        }
    }
}
