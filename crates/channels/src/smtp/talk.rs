//! One connection to one server, and the dialogue on it.
//!
//! Written by hand because each refusal must be told with its stage, in any alphabet, and because a reply that
//! is lost after the end of a message leaves another doubt than one that is lost before.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo_kernel::reply::{Enhanced, Fault, FaultKind, Receipt, Refusal, Reply, Stage};
use pombo_kernel::secret::Secret;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::mail::Mail;
use super::said::{Heard, REPLY_BYTES_MAX, Said, hear, heard_in_part};
use super::tls::{Connectors, Tls};
use crate::line::{fault, fault_of_io};
use crate::pool::Idle;

/// The most that is kept of the words by which a server confirms.
const QUEUE_ID_BYTES_MAX: usize = 200;

/// How servers are spoken to.
pub(super) struct Manner {
    pub(super) tls: Tls,
    pub(super) connectors: Connectors,
    /// How we call ourselves; our address on the connection, if nothing is said.
    pub(super) hello: Option<String>,
    pub(super) login: Option<Login>,
}

#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) username: Secret,
    pub(super) password: Secret,
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// What the server said that it can do.
#[derive(Clone, Debug, Default)]
struct Offers {
    starttls: bool,
    pipelining: bool,
    utf8: bool,
    eight_bit: bool,
    /// The largest mail that it takes; 0 where it says no number.
    size: Option<u64>,
    auth: Vec<String>,
}

pub(super) struct Talk {
    wire: Box<dyn Wire>,
    /// What was read and not yet understood.
    inbox: Vec<u8>,
    offers: Offers,
    hello: String,
    born: u64,
    /// Every command has its reply, so that another one may follow.
    at_rest: bool,
    /// The end of a message has gone out, and its reply has not come.
    in_doubt: bool,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("offers", &self.offers).finish_non_exhaustive()
    }
}

/// How a mail fared.
pub(super) enum Fate {
    Told(Reply),
    /// The connection was closed, or about to be, before the mail was begun. A fresh one may do.
    Stale(Reply),
}

impl Talk {
    /// Connects to exactly this address and goes through the dialogue up to where mail can be handed over.
    pub(super) async fn open(address: SocketAddr, host: &str, manner: &Manner) -> Result<Talk, Reply> {
        let broken = |error: std::io::Error| Reply::Unreachable(fault_of_io(&error));
        let tcp = TcpStream::connect(address).await.map_err(broken)?;
        // Without it a small command waits for the server's delayed acknowledgement. Failing is harmless.
        let _ = tcp.set_nodelay(true);
        let hello = match &manner.hello {
            Some(name) => name.clone(),
            None => tcp.local_addr().map(|local| literal(local.ip())).map_err(broken)?,
        };
        let wire: Box<dyn Wire> = match manner.tls {
            Tls::Implicit => encrypted(tcp, &manner.connectors.verifying, host).await?,
            _ => Box::new(tcp),
        };
        let mut talk = Talk {
            wire,
            inbox: Vec::new(),
            offers: Offers::default(),
            hello,
            born: 0,
            at_rest: false,
            in_doubt: false,
        };
        talk.hear(Stage::Greeting).await?;
        talk.hello().await?;
        talk = talk.secured(host, manner).await?;
        if let Some(login) = &manner.login {
            talk.log_in(login).await?;
        }
        Ok(talk)
    }

    async fn hello(&mut self) -> Result<(), Reply> {
        let said = match self.ask(Stage::Greeting, &format!("EHLO {}", self.hello)).await {
            // A server older than its extensions.
            Err(Reply::Refused(Refusal { status: Some(500 | 502), .. })) => {
                self.ask(Stage::Greeting, &format!("HELO {}", self.hello)).await?;
                self.offers = Offers::default();
                return Ok(());
            }
            said => said?,
        };
        self.offers = Offers::read(&said);
        Ok(())
    }

    async fn secured(mut self, host: &str, manner: &Manner) -> Result<Talk, Reply> {
        let connector = match manner.tls {
            Tls::Implicit | Tls::None => return Ok(self),
            Tls::Starttls => &manner.connectors.verifying,
            Tls::Opportunistic => &manner.connectors.lenient,
        };
        if !self.offers.starttls {
            return match manner.tls {
                Tls::Opportunistic => Ok(self),
                _ => Err(Reply::Unreachable(fault(FaultKind::Tls, "the server does not offer STARTTLS"))),
            };
        }
        match self.ask(Stage::Greeting, "STARTTLS").await {
            Ok(_) => {}
            Err(Reply::Refused(_)) if manner.tls == Tls::Opportunistic => return Ok(self),
            Err(reply) => return Err(reply),
        }
        if !self.inbox.is_empty() {
            // Said in the clear, to be read as if it had been said under TLS.
            return Err(Reply::Unreachable(fault(FaultKind::Protocol, "the server spoke out of turn")));
        }
        self.at_rest = false;
        let plain = std::mem::replace(&mut self.wire, Box::new(tokio::io::empty()));
        self.wire = encrypted(plain, connector, host).await?;
        self.hello().await?;
        Ok(self)
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Reply> {
        let (username, password) = (login.username.expose(), login.password.expose());
        let offered = |name: &str| self.offers.auth.iter().any(|offer| offer == name);
        let lines = if offered("PLAIN") {
            vec![format!("AUTH PLAIN {}", BASE64.encode(format!("\0{username}\0{password}")))]
        } else if offered("LOGIN") {
            vec!["AUTH LOGIN".to_owned(), BASE64.encode(username), BASE64.encode(password)]
        } else {
            let text = "the server offers neither AUTH PLAIN nor AUTH LOGIN";
            return Err(Reply::Unreachable(fault(FaultKind::NotConfigured, text)));
        };
        for line in &lines {
            let said =
                self.ask(Stage::Auth, line).await.map_err(|reply| without_secrets(reply, login, line))?;
            if said.code < 300 {
                return Ok(());
            }
        }
        Err(Reply::Unreachable(fault(FaultKind::Protocol, "the server keeps asking who we are")))
    }

    /// Asks for nothing, to see that the server is there.
    pub(super) async fn noop(&mut self) -> Result<String, Reply> {
        let said = self.ask(Stage::Request, "NOOP").await?;
        Ok(format!("{} {}", said.code, said.words()))
    }

    /// Hands one mail over, and never again.
    pub(super) async fn deliver(&mut self, mail: &Mail) -> Fate {
        if let Some(refusal) = self.cannot_take(mail) {
            return Fate::Told(Reply::Refused(refusal));
        }
        let mut options = String::new();
        if self.offers.size.is_some() {
            options.push_str(&format!(" SIZE={}", mail.size));
        }
        if mail.utf8 {
            options.push_str(" BODY=8BITMIME SMTPUTF8");
        } else if mail.eight_bit && self.offers.eight_bit {
            // A server that does not say so gets it all the same, as it would from others: most can.
            options.push_str(" BODY=8BITMIME");
        }
        let commands = [
            (Stage::Mail, format!("MAIL FROM:<{}>{options}\r\n", mail.from)),
            (Stage::Rcpt, format!("RCPT TO:<{}>\r\n", mail.to)),
            (Stage::Data, "DATA\r\n".to_owned()),
        ];
        self.at_rest = false;
        if self.offers.pipelining {
            let all: String = commands.iter().map(|(_, command)| command.as_str()).collect();
            if let Err(fault) = self.say(all.as_bytes()).await {
                return Fate::Stale(Reply::Unreachable(fault));
            }
        }
        for (stage, command) in &commands {
            let said = async {
                if !self.offers.pipelining {
                    self.say(command.as_bytes()).await.map_err(Reply::Unreachable)?;
                }
                self.hear(*stage).await
            };
            match said.await {
                Ok(said) if *stage == Stage::Data && said.code != 354 => {
                    let what = fault(FaultKind::Protocol, "the server did not ask for the mail");
                    return Fate::Told(Reply::Unreachable(what));
                }
                Ok(_) => {}
                Err(reply) if *stage == Stage::Mail && is_goodbye(&reply) => return Fate::Stale(reply),
                Err(reply) => return Fate::Told(reply),
            }
        }
        Fate::Told(self.hand_over(mail).await.map_or_else(|reply| reply, Reply::Accepted))
    }

    async fn hand_over(&mut self, mail: &Mail) -> Result<Receipt, Reply> {
        let broken = |error: &std::io::Error| Reply::Unreachable(fault_of_io(error));
        let mut rest = mail.data.as_slice();
        while !rest.is_empty() {
            let written = match self.wire.write(rest).await {
                Ok(0) => Err(Reply::Unreachable(hung_up())),
                Ok(written) => Ok(written),
                Err(error) => Err(broken(&error)),
            };
            match written {
                Ok(written) => rest = &rest[written..],
                // It may have said why before it hung up.
                Err(reply) => return Err(self.last_words(Stage::Data).await.unwrap_or(reply)),
            }
        }
        self.in_doubt = true;
        let flushed = self.wire.flush().await;
        let said = match flushed {
            Err(error) => Err(broken(&error)),
            Ok(()) => self.hear(Stage::Data).await,
        };
        let said = said.map_err(|reply| match reply {
            Reply::Unreachable(fault) => Reply::Doubtful(fault),
            reply => reply,
        })?;
        self.in_doubt = false;
        self.at_rest = true;
        let mut words = said.words();
        words.truncate(words.floor_char_boundary(QUEUE_ID_BYTES_MAX));
        let provider_id = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
        Ok(Receipt { provider_id, code: Some(said.code), ..Receipt::default() })
    }

    /// What the server would answer, if it said beforehand that it cannot take such a mail.
    fn cannot_take(&self, mail: &Mail) -> Option<Refusal> {
        let refusal = |status, detail: (u16, u16), stage, text: String| Refusal {
            status: Some(status),
            enhanced: Some(Enhanced { class: 5, subject: detail.0, detail: detail.1 }),
            stage,
            text,
            ..Refusal::default()
        };
        let most = self.offers.size.filter(|most| *most > 0 && mail.size as u64 > *most);
        if let Some(most) = most {
            let text =
                format!("message size {} exceeds the {most} bytes that the server announced", mail.size);
            return Some(refusal(552, (3, 4), Stage::Mail, text));
        }
        (mail.utf8 && !self.offers.utf8).then(|| {
            let text = "an address is not ASCII, and the server does not offer SMTPUTF8".to_owned();
            refusal(553, (6, 7), Stage::Rcpt, text)
        })
    }

    /// Whether an end that was never answered may have arrived.
    pub(super) fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Sends one command and waits for a reply that does not refuse it.
    async fn ask(&mut self, stage: Stage, command: &str) -> Result<Said, Reply> {
        self.at_rest = false;
        self.say(format!("{command}\r\n").as_bytes()).await.map_err(Reply::Unreachable)?;
        let said = self.hear(stage).await?;
        self.at_rest = true;
        Ok(said)
    }

    async fn say(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let said = async {
            self.wire.write_all(bytes).await?;
            self.wire.flush().await
        };
        said.await.map_err(|error| fault_of_io(&error))
    }

    async fn hear(&mut self, stage: Stage) -> Result<Said, Reply> {
        let mut ended = None;
        loop {
            match hear(&self.inbox) {
                Heard::Whole(said, used) => {
                    self.inbox.drain(..used);
                    return if said.is_positive() {
                        Ok(said)
                    } else {
                        Err(Reply::Refused(said.refusal(stage)))
                    };
                }
                Heard::Noise => ended = Some(fault(FaultKind::Protocol, "the server does not speak SMTP")),
                Heard::More if self.inbox.len() >= REPLY_BYTES_MAX => {
                    ended = Some(fault(FaultKind::Protocol, "a reply has no end"));
                }
                Heard::More => {}
            }
            if let Some(fault) = ended {
                let part = heard_in_part(&self.inbox);
                return Err(
                    part.map_or(Reply::Unreachable(fault), |said| Reply::Refused(said.refusal(stage)))
                );
            }
            let room = REPLY_BYTES_MAX - self.inbox.len();
            match (&mut self.wire).take(room as u64).read_buf(&mut self.inbox).await {
                Ok(0) => ended = Some(hung_up()),
                Ok(_) => {}
                Err(error) => ended = Some(fault_of_io(&error)),
            }
        }
    }

    /// A refusal that lies unread on a connection that has just broken.
    async fn last_words(&mut self, stage: Stage) -> Option<Reply> {
        match self.hear(stage).await {
            Err(reply @ Reply::Refused(_)) => Some(reply),
            _ => None,
        }
    }
}

impl Idle for Talk {
    /// Nothing is outstanding, and the server has neither hung up nor said that it will.
    fn is_free(&mut self) -> bool {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        self.at_rest
            && self.inbox.is_empty()
            && Pin::new(&mut self.wire).poll_read(&mut context, &mut buffer).is_pending()
    }

    fn born(&mut self) -> &mut u64 {
        &mut self.born
    }
}

/// Takes leave, if that is possible without waiting.
impl Drop for Talk {
    fn drop(&mut self) {
        if self.at_rest {
            let mut context = Context::from_waker(Waker::noop());
            let said = Pin::new(&mut self.wire).poll_write(&mut context, b"QUIT\r\n");
            if matches!(said, Poll::Ready(Ok(_))) {
                let _ = Pin::new(&mut self.wire).poll_flush(&mut context);
            }
        }
    }
}

impl Offers {
    fn read(said: &Said) -> Offers {
        let mut offers = Offers::default();
        for line in said.lines().skip(1).map(|line| line.to_ascii_uppercase()) {
            let (word, rest) = line.split_once([' ', '=']).unwrap_or((&line, ""));
            match word {
                "STARTTLS" => offers.starttls = true,
                "PIPELINING" => offers.pipelining = true,
                "SMTPUTF8" => offers.utf8 = true,
                "8BITMIME" => offers.eight_bit = true,
                "SIZE" => offers.size = Some(rest.trim().parse().unwrap_or(0)),
                "AUTH" => offers.auth.extend(rest.split_whitespace().map(str::to_owned)),
                _ => {}
            }
        }
        offers
    }
}

async fn encrypted<S: Wire + 'static>(
    stream: S,
    connector: &TlsConnector,
    host: &str,
) -> Result<Box<dyn Wire>, Reply> {
    let name = ServerName::try_from(host.trim_end_matches('.').to_owned())
        .map_err(|_| Reply::Unreachable(fault(FaultKind::Tls, "no certificate can be for this host name")))?;
    match connector.connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(Reply::Unreachable(fault_of_io(&error))),
    }
}

fn hung_up() -> Fault {
    fault(FaultKind::ConnectionReset, "the server hung up")
}

/// Whether the server closes, or has closed, what was idle.
fn is_goodbye(reply: &Reply) -> bool {
    match reply {
        Reply::Unreachable(fault) => fault.kind == FaultKind::ConnectionReset,
        Reply::Refused(refusal) => refusal.status == Some(421),
        _ => false,
    }
}

/// Servers may repeat the line that they did not like.
fn without_secrets(reply: Reply, login: &Login, line: &str) -> Reply {
    let Reply::Refused(mut refusal) = reply else { return reply };
    let sent = line.rsplit(' ').next().unwrap_or(line);
    for secret in [sent, login.password.expose()] {
        if !secret.is_empty() && sent != "LOGIN" {
            refusal.text = refusal.text.replace(secret, "…");
        }
    }
    Reply::Refused(refusal)
}

/// An address as a name, for machines that have none (RFC 5321, 4.1.3).
fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => format!("[{v4}]"),
        IpAddr::V6(v6) => format!("[IPv6:{v6}]"),
    }
}
