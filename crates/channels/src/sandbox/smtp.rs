//! A mail server that takes what it is told to take.
//!
//! The local part of the recipient says what becomes of a mail: see [`SCRIPTS`]. It keeps nothing but its count,
//! unless it is asked to keep the mails too.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::future::pending;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo_kernel::dice::Dice;
use pombo_kernel::secret::Secret;
use rustls::ServerConfig;
use serde::Serialize;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::door;
use super::{Clock, Count};

const LINE_BYTES_MAX: u64 = 16 * 1024;
const MAIL_BYTES_MAX: usize = 50 * 1000 * 1000;

/// What a recipient's local part makes the server do. After `+` it may go on as it likes: `flaky+ana@x`.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("ok@", "takes it, as it does for every name that is not in this list"),
    ("greylist@", "451 4.7.1 at the first try, and takes it from the second on"),
    ("flaky@", "451 4.3.0 at the first two tries, then takes it"),
    ("random@", "takes 70 in a hundred, and answers the others with 451 4.3.0"),
    ("busy@", "421 4.3.2, and hangs up"),
    ("rate@", "450 4.2.1: receiving mail at a rate that prevents more"),
    ("full@", "552 5.2.2: the mailbox is full"),
    ("unknown@", "550 5.1.1: no such mailbox"),
    ("spam@", "550 5.7.1 after the mail was read"),
    ("blocked@", "554 5.7.1: our address is on a block list"),
    ("slow@", "takes it, and answers late"),
    ("drop@", "hangs up before the mail"),
    ("reset@", "reads the mail, takes it and hangs up without a reply"),
    ("hang@", "reads the mail, does not take it and never answers"),
];

#[derive(Clone)]
pub struct Options {
    /// The server's certificate: STARTTLS is offered with it.
    pub tls: Option<Arc<ServerConfig>>,
    /// Speak TLS from the first byte on.
    pub implicit: bool,
    /// The one user who may send; anybody, without one.
    pub user: Option<(String, Secret)>,
    /// The largest mail that is taken, in bytes.
    pub size: Option<u64>,
    /// Whether several commands may come at once.
    pub pipelining: bool,
    /// So many mails in a hundred are turned away for now, whoever they are for.
    pub fail_percent: u8,
    /// How long `slow@` takes to answer.
    pub slow: Duration,
    /// How long `greylist@` asks to wait, in seconds.
    pub greylist_seconds: u32,
    /// Where to append one line for each mail that is taken: Message-ID, how often, milliseconds.
    pub log: Option<PathBuf>,
    /// Without one, the log's times are 0.
    pub clock: Option<Clock>,
    /// Keep the mails, to look at.
    pub keep: bool,
    /// For scripts that roll dice.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tls: None,
            implicit: false,
            user: None,
            size: Some(40_000_000),
            pipelining: true,
            fail_percent: 0,
            slow: Duration::from_secs(2),
            greylist_seconds: 60,
            log: None,
            clock: None,
            keep: false,
            seed: 0,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("log", &self.log).field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// Everything that the server saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    pub connections: u64,
    /// Recipients that were named, whatever became of them.
    pub recipients: u64,
    /// Mails that arrived whole, whatever became of them.
    pub total: u64,
    pub accepted: u64,
    /// Different Message-IDs among the accepted.
    pub distinct: u64,
    /// Accepted beyond the first of each Message-ID.
    pub duplicates: u64,
    pub logins_refused: u64,
}

/// A mail that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub from: String,
    pub to: String,
    pub message_id: String,
    /// Its bytes, the doubled dots single again; empty unless they are kept.
    pub mail: Vec<u8>,
    pub encrypted: bool,
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct SmtpSandbox {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl SmtpSandbox {
    /// Listens on `address`, where port 0 means any free one.
    pub async fn start(address: SocketAddr, options: &Options) -> io::Result<SmtpSandbox> {
        let log = match &options.log {
            None => None,
            Some(path) => Some(std::fs::OpenOptions::new().create(true).append(true).open(path)?),
        };
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let book = Book { log, ..Book::default() };
        let shared = Arc::new(Shared {
            options: options.clone(),
            book: Mutex::new(book),
            dice: Mutex::new(Dice::seeded(options.seed)),
            outage: AtomicBool::new(false),
        });
        let server = tokio::spawn(serve(listener, shared.clone()));
        Ok(SmtpSandbox { address, shared, server })
    }

    /// The address as a channel's `url`.
    pub fn url(&self) -> String {
        let scheme = if self.shared.options.implicit { "smtps" } else { "smtp" };
        format!("{scheme}://{}", self.address)
    }

    pub fn stats(&self) -> Stats {
        self.shared.book().stats
    }

    /// How often a recipient was named, and how many mails were taken for them.
    pub fn count(&self, recipient: &str) -> Count {
        self.shared.book().counts.get(recipient).copied().unwrap_or_default()
    }

    /// The mails that were taken, oldest first; none unless they are kept.
    pub fn taken(&self) -> Vec<Taken> {
        self.shared.book().taken.clone()
    }

    /// While it lasts, everybody is turned away with 421, at the door or at their next mail.
    pub fn outage(&self, on: bool) {
        self.shared.outage.store(on, Ordering::Relaxed);
    }

    /// Hangs up on everybody and stops listening.
    pub async fn stop(mut self) {
        self.server.abort();
        // The error only says that it was aborted.
        let _ = (&mut self.server).await;
    }
}

impl Drop for SmtpSandbox {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Shared {
    options: Options,
    book: Mutex<Book>,
    dice: Mutex<Dice>,
    outage: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

#[derive(Debug, Default)]
struct Book {
    stats: Stats,
    /// By recipient.
    counts: HashMap<String, Count>,
    /// By Message-ID, how often each was taken.
    ids: HashMap<String, u32>,
    taken: Vec<Taken>,
    log: Option<File>,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roll(&self) -> u64 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).below(100)
    }

    fn take(&self, taken: Taken) {
        let now = self.options.clock.as_ref().map_or(0, |clock| clock().millis());
        let mut book = self.book();
        book.stats.accepted += 1;
        book.counts.entry(taken.to.clone()).or_default().accepted += 1;
        let times = {
            let times = book.ids.entry(taken.message_id.clone()).or_default();
            *times += 1;
            *times
        };
        if times == 1 {
            book.stats.distinct += 1;
        } else {
            book.stats.duplicates += 1;
        }
        if let Some(log) = &mut book.log {
            // What cannot be written is not counted on.
            let _ = writeln!(log, "{} {times} {now}", taken.message_id);
        }
        if self.options.keep {
            book.taken.push(taken);
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    door::welcome(listener, |stream| {
        shared.book().stats.connections += 1;
        host(stream, shared.clone())
    })
    .await;
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// One guest, and what has been said so far.
struct Visit {
    wire: BufReader<Box<dyn Wire>>,
    shared: Arc<Shared>,
    encrypted: bool,
    logged_in: bool,
    from: Option<String>,
    to: Option<(String, Script)>,
}

/// What happens to a mail of which the end has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Take,
    Slow,
    Spam,
    Reset,
    Hang,
    Drop,
}

/// Why a visit is over.
struct Over;

type Step<T> = Result<T, Over>;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over
    }
}

async fn host(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let implicit = shared.options.tls.clone().filter(|_| shared.options.implicit);
    let encrypted = implicit.is_some();
    let wire: Box<dyn Wire> = match implicit {
        None => Box::new(stream),
        Some(config) => match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => Box::new(stream),
            Err(_) => return,
        },
    };
    let logged_in = shared.options.user.is_none();
    let wire = BufReader::new(wire);
    let mut visit = Visit { wire, shared, encrypted, logged_in, from: None, to: None };
    let _ = visit.receive().await;
}

impl Visit {
    async fn receive(&mut self) -> Step<()> {
        self.be_there().await?;
        self.say("220 sandbox.example ESMTP").await?;
        loop {
            let line = self.line().await?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match verb.to_ascii_uppercase().as_str() {
                "EHLO" => self.offer().await?,
                "HELO" => self.say("250 sandbox.example").await?,
                "STARTTLS" => self.secure().await?,
                "AUTH" => self.log_in(rest).await?,
                "MAIL" => self.mail_from(rest).await?,
                "RCPT" => self.rcpt_to(rest).await?,
                "DATA" => self.data().await?,
                "RSET" => {
                    (self.from, self.to) = (None, None);
                    self.say("250 2.0.0 as if nothing had been said").await?;
                }
                "NOOP" => self.say("250 2.0.0 still here").await?,
                "QUIT" => {
                    self.say("221 2.0.0 goodbye").await?;
                    return Err(Over);
                }
                _ => self.say("500 5.5.1 no such command").await?,
            }
        }
    }

    async fn be_there(&mut self) -> Step<()> {
        if self.shared.outage.load(Ordering::Relaxed) {
            self.say("421 4.3.2 sandbox.example is out of service").await?;
            return Err(Over);
        }
        Ok(())
    }

    async fn offer(&mut self) -> Step<()> {
        let options = &self.shared.options;
        let mut lines = vec!["sandbox.example".to_owned(), "8BITMIME".to_owned(), "SMTPUTF8".to_owned()];
        lines.push("ENHANCEDSTATUSCODES".to_owned());
        lines.extend(options.size.map(|size| format!("SIZE {size}")));
        lines.extend(options.pipelining.then(|| "PIPELINING".to_owned()));
        lines.extend((options.tls.is_some() && !self.encrypted).then(|| "STARTTLS".to_owned()));
        lines.extend(options.user.is_some().then(|| "AUTH PLAIN LOGIN".to_owned()));
        let last = lines.len() - 1;
        let all: String = lines
            .iter()
            .enumerate()
            .map(|(i, line)| format!("250{}{line}\r\n", if i == last { ' ' } else { '-' }))
            .collect();
        self.wire.write_all(all.as_bytes()).await?;
        Ok(self.wire.flush().await?)
    }

    async fn secure(&mut self) -> Step<()> {
        let Some(config) = self.shared.options.tls.clone().filter(|_| !self.encrypted) else {
            return self.say("502 5.5.1 no TLS here").await;
        };
        self.say("220 2.0.0 go ahead").await?;
        let plain: Box<dyn Wire> = Box::new(tokio::io::empty());
        let plain = std::mem::replace(&mut self.wire, BufReader::new(plain));
        let stream = TlsAcceptor::from(config).accept(plain.into_inner()).await?;
        self.wire = BufReader::new(Box::new(stream));
        self.encrypted = true;
        Ok(())
    }

    async fn log_in(&mut self, rest: &str) -> Step<()> {
        let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
        let (user, password) = match mechanism.to_ascii_uppercase().as_str() {
            "PLAIN" => {
                let words = if initial.is_empty() { self.prompt("334 ").await? } else { decoded(initial) };
                let mut parts = words.split('\0').skip(1).map(str::to_owned);
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
            }
            "LOGIN" => (self.prompt("334 VXNlcm5hbWU6").await?, self.prompt("334 UGFzc3dvcmQ6").await?),
            _ => return self.say("504 5.5.4 no such mechanism").await,
        };
        let known = self.shared.options.user.as_ref();
        if known.is_some_and(|(name, secret)| *name == user && secret.expose() == password) {
            self.logged_in = true;
            return self.say("235 2.7.0 welcome").await;
        }
        self.shared.book().stats.logins_refused += 1;
        self.say("535 5.7.8 user name and password not accepted").await
    }

    async fn prompt(&mut self, words: &str) -> Step<String> {
        self.say(words).await?;
        Ok(decoded(&self.line().await?))
    }

    async fn mail_from(&mut self, rest: &str) -> Step<()> {
        self.be_there().await?;
        if !self.logged_in {
            return self.say("530 5.7.0 authentication required").await;
        }
        let Some(from) = bracketed(rest) else { return self.say("501 5.5.4 not a sender").await };
        let size = rest.split_once("SIZE=").and_then(|(_, size)| size.split(' ').next()?.parse::<u64>().ok());
        if size > self.shared.options.size.filter(|_| size.is_some()) {
            return self.say("552 5.3.4 message size exceeds fixed limit").await;
        }
        self.from = Some(from);
        self.to = None;
        self.say("250 2.1.0 ok").await
    }

    async fn rcpt_to(&mut self, rest: &str) -> Step<()> {
        if self.from.is_none() {
            return self.say("503 5.5.1 who is it from?").await;
        }
        if self.to.is_some() {
            return self.say("452 4.5.3 too many recipients").await;
        }
        let Some(to) = bracketed(rest) else { return self.say("501 5.1.3 not a recipient").await };
        let tries = {
            let mut book = self.shared.book();
            book.stats.recipients += 1;
            let count = book.counts.entry(to.clone()).or_default();
            count.received += 1;
            count.received
        };
        let options = &self.shared.options;
        let unlucky = options.fail_percent > 0 && self.shared.roll() < u64::from(options.fail_percent);
        let local = to.split(['@', '+']).next().unwrap_or_default();
        let refusal = match local {
            _ if unlucky => Some("451 4.3.0 out of luck, try again later".to_owned()),
            "greylist" if tries == 1 => Some(format!(
                "451 4.7.1 greylisted, please try again in {} seconds",
                options.greylist_seconds
            )),
            "flaky" if tries <= 2 => Some("451 4.3.0 not yet, try again later".to_owned()),
            "random" if self.shared.roll() >= 70 => Some("451 4.3.0 out of luck, try again later".to_owned()),
            "rate" => {
                Some("450 4.2.1 The user is receiving mail at a rate that prevents more mail".to_owned())
            }
            "full" => Some("552 5.2.2 The mailbox is full".to_owned()),
            "unknown" => Some("550 5.1.1 The mailbox does not exist".to_owned()),
            "blocked" => {
                Some("554 5.7.1 Service unavailable; client host [192.0.2.1] blocked using a list".to_owned())
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.say(&refusal).await;
        }
        if local == "busy" {
            self.say("421 4.3.2 Service not available, closing").await?;
            return Err(Over);
        }
        let script = match local {
            "slow" => Script::Slow,
            "spam" => Script::Spam,
            "reset" => Script::Reset,
            "hang" => Script::Hang,
            "drop" => Script::Drop,
            _ => Script::Take,
        };
        self.to = Some((to, script));
        self.say("250 2.1.5 ok").await
    }

    async fn data(&mut self) -> Step<()> {
        let (Some(from), Some((to, script))) = (self.from.take(), self.to.take()) else {
            return self.say("503 5.5.1 no valid recipients").await;
        };
        if script == Script::Drop {
            return Err(Over);
        }
        self.say("354 go ahead").await?;
        let mail = self.mail().await?;
        let number = {
            let mut book = self.shared.book();
            book.stats.total += 1;
            book.stats.total
        };
        if self.shared.options.size.is_some_and(|most| mail.len() as u64 > most) {
            return self.say("552 5.3.4 message size exceeds fixed limit").await;
        }
        let taken = Taken {
            from,
            to,
            message_id: message_id(&mail),
            mail: if self.shared.options.keep { mail } else { Vec::new() },
            encrypted: self.encrypted,
        };
        match script {
            Script::Spam => return self.say("550 5.7.1 This message is likely unsolicited mail").await,
            Script::Hang => pending().await,
            _ => self.shared.take(taken),
        }
        match script {
            Script::Reset => return Err(Over),
            Script::Slow => tokio::time::sleep(self.shared.options.slow).await,
            _ => {}
        }
        self.say(&format!("250 2.0.0 ok: queued as S{number:08}")).await
    }

    /// Reads up to the line with nothing but a dot. Only CRLF ends a line: whatever else looks like an end is
    /// part of the mail.
    async fn mail(&mut self) -> Step<Vec<u8>> {
        let mut mail = Vec::new();
        let mut start = 0;
        loop {
            let room = (MAIL_BYTES_MAX - mail.len().min(MAIL_BYTES_MAX)) as u64;
            if (&mut self.wire).take(room).read_until(b'\n', &mut mail).await? == 0 {
                return Err(Over);
            }
            if !mail.ends_with(b"\r\n") {
                continue;
            }
            if &mail[start..] == b".\r\n" {
                mail.truncate(start);
                return Ok(mail);
            }
            if mail[start..].starts_with(b".") {
                mail.remove(start);
            }
            start = mail.len();
        }
    }

    async fn line(&mut self) -> Step<String> {
        let mut line = Vec::new();
        (&mut self.wire).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if !line.ends_with(b"\n") {
            return Err(Over);
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    async fn say(&mut self, line: &str) -> Step<()> {
        self.wire.write_all(format!("{line}\r\n").as_bytes()).await?;
        Ok(self.wire.flush().await?)
    }
}

/// The address in `FROM:<ana@x> SIZE=10`.
fn bracketed(rest: &str) -> Option<String> {
    let (address, _) = rest.split_once('<')?.1.split_once('>')?;
    Some(address.to_owned())
}

fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&BASE64.decode(text).unwrap_or_default()).into_owned()
}

fn message_id(mail: &[u8]) -> String {
    let head = mail.split(|b| *b == b'\n').take_while(|line| !line.trim_ascii().is_empty());
    let named = |line: &[u8]| {
        let line = String::from_utf8_lossy(line).into_owned();
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("message-id").then(|| value.trim().to_owned())
    };
    head.filter_map(named).next().unwrap_or_default()
}
