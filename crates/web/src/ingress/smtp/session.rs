//! The dialogue with one client: what was said in, what to say and do out. Nothing here waits or reads a clock.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use pombo_kernel::content;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::secret::Secret;

use super::command::{Command, Mechanism};
use super::data::{Data, Read, Unfit};
use super::reply::Reply;

/// The longest command, its end included. The longest that is any use is an answer to AUTH.
pub(super) const LINE_BYTES_MAX: usize = 4 * 1024;
/// Mistakes in one session. Whoever makes more is no mail client.
const MISTAKES_MAX: usize = 20;
/// Logins in one session that led nowhere.
const LOGINS_MAX: usize = 3;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What the session is like from outside.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Who we say that we are.
    pub(super) name: String,
    /// The largest mail.
    pub(super) size: usize,
    /// The most recipients of one mail.
    pub(super) recipients: usize,
    pub(super) tls: Tls,
    /// Whether a password may come in the clear.
    pub(super) plaintext_auth: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// There is no certificate.
    Never,
    Offered,
    On,
}

/// What has to be done, in order.
#[derive(Debug)]
pub(super) enum Act {
    Say(Reply),
    /// Say it, and hang up.
    End(Reply),
    /// Say it, shake hands, and tell the session by [`Session::secured`].
    StartTls(Reply),
    /// See who it is, and tell the session by [`Session::known`] or [`Session::unknown`].
    LogIn {
        channel: String,
        key: Secret,
    },
    /// Store the mail, tell the session by [`Session::taken`], and only then say what became of it.
    Take(Letter),
}

/// A mail with its envelope.
#[derive(PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) from: String,
    pub(super) to: Vec<String>,
    pub(super) mail: Vec<u8>,
}

/// Says how much there is, and nothing of it.
impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Letter({} recipients, {} bytes)", self.to.len(), self.mail.len())
    }
}

#[derive(Debug)]
enum Mode {
    Commands,
    /// The answer to AUTH PLAIN, or to the first question of AUTH LOGIN, is next.
    Plain,
    User,
    Password {
        user: String,
    },
    Data(Data),
    /// Somebody else has to say something first.
    Waiting,
}

#[derive(Debug)]
struct Envelope {
    from: String,
    to: Vec<String>,
}

pub(super) struct Session {
    terms: Terms,
    /// What came and was not understood yet.
    inbox: Vec<u8>,
    /// The line that is being read is too long already.
    skipping: bool,
    mode: Mode,
    hello: Option<String>,
    /// What the channel is like that the client may send through.
    channel: Option<ChannelKind>,
    envelope: Option<Envelope>,
    mistakes: usize,
    logins: usize,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("terms", &self.terms)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(terms: Terms) -> Session {
        Session {
            terms,
            inbox: Vec::new(),
            skipping: false,
            mode: Mode::Commands,
            hello: None,
            channel: None,
            envelope: None,
            mistakes: 0,
            logins: 0,
        }
    }

    pub(super) fn greeting(&self) -> Reply {
        Reply::bare(220, vec![format!("{} ESMTP Pombo", self.terms.name).into()])
    }

    /// Takes in what came. What has to be done about it, [`Session::next`] says.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// The next thing to do; none until more was said.
    pub(super) fn next(&mut self) -> Option<Act> {
        if let Mode::Data(data) = &mut self.mode {
            let read = data.read(&self.inbox);
            return match read {
                Read::More => {
                    self.inbox.clear();
                    None
                }
                Read::Endless => Some(Act::End(too_large(self.terms.size))),
                Read::End(used) => {
                    self.inbox.drain(..used);
                    Some(self.letter())
                }
            };
        }
        if matches!(self.mode, Mode::Waiting) {
            return None;
        }
        let line = self.line()?;
        let act = match (line, std::mem::replace(&mut self.mode, Mode::Commands)) {
            (Err(reply), _) => self.mistake(reply),
            (Ok(line), Mode::Commands) => match Command::read(&line) {
                Ok(command) => self.obey(command),
                Err(reply) => self.mistake(reply),
            },
            (Ok(line), step) => self.answered(&line, step),
        };
        Some(act)
    }

    /// A mail is being read.
    pub(super) fn in_mail(&self) -> bool {
        matches!(self.mode, Mode::Data(_))
    }

    pub(super) fn name(&self) -> &str {
        &self.terms.name
    }

    pub(super) fn is_known(&self) -> bool {
        self.channel.is_some()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.terms.tls == Tls::On
    }

    /// What it holds in memory of the client's.
    pub(super) fn held(&self) -> usize {
        let mail = if let Mode::Data(data) = &self.mode { data.bytes() } else { 0 };
        mail + self.inbox.len()
    }

    /// From here on everything is encrypted, and what was said before counts for nothing (RFC 3207): somebody in
    /// between may have said it.
    pub(super) fn secured(&mut self) {
        let terms = Terms { tls: Tls::On, ..self.terms.clone() };
        *self = Session { mistakes: self.mistakes, logins: self.logins, ..Session::new(terms) };
    }

    pub(super) fn known(&mut self, kind: ChannelKind) {
        self.channel = Some(kind);
        self.mode = Mode::Commands;
    }

    /// Who the client says to be is refused for that reason.
    pub(super) fn unknown(&mut self, reply: Reply) -> Act {
        self.mode = Mode::Commands;
        self.logins += 1;
        if self.logins >= LOGINS_MAX || reply.code == 421 {
            return Act::End(reply);
        }
        Act::Say(reply)
    }

    /// The mail was stored, or could not be.
    pub(super) fn taken(&mut self) {
        self.mode = Mode::Commands;
    }

    /// The next line without its end, if it is complete.
    fn line(&mut self) -> Option<Result<Vec<u8>, Reply>> {
        let Some(end) = self.inbox.iter().position(|byte| *byte == b'\n') else {
            if self.inbox.len() >= LINE_BYTES_MAX {
                self.skipping = true;
                self.inbox.clear();
            }
            return None;
        };
        let mut line: Vec<u8> = self.inbox.drain(..=end).collect();
        line.pop();
        if std::mem::take(&mut self.skipping) || line.len() >= LINE_BYTES_MAX {
            return Some(Err(Reply::new(500, "5.5.2", "the line is too long")));
        }
        if line.pop() != Some(b'\r') {
            return Some(Err(Reply::new(500, "5.5.2", "end every line with CR LF")));
        }
        Some(Ok(line))
    }

    fn mistake(&mut self, reply: Reply) -> Act {
        self.mode = Mode::Commands;
        self.mistakes += 1;
        if self.mistakes >= MISTAKES_MAX {
            return Act::End(Reply::new(421, "4.7.0", "too many mistakes: goodbye"));
        }
        Act::Say(reply)
    }

    fn obey(&mut self, command: Command) -> Act {
        let ok = |words: &'static str| Act::Say(Reply::new(250, "2.0.0", words));
        match command {
            Command::Hello { name, extended } => {
                (self.hello, self.envelope) = (Some(name), None);
                Act::Say(self.offers(extended))
            }
            Command::StartTls => self.start_tls(),
            Command::Auth { mechanism, initial } => self.auth(mechanism, initial.as_deref()),
            Command::Mail { from, size } => self.mail(from, size),
            Command::Rcpt { to } => self.rcpt(to),
            Command::Data => self.data(),
            Command::Rset => {
                self.envelope = None;
                ok("forgotten")
            }
            Command::Noop => ok("still here"),
            Command::Vrfy => Act::Say(Reply::new(252, "2.1.5", "send it some mail, and see")),
            Command::Help => {
                let words = "AUTH PLAIN or LOGIN: the user is a channel's name, the password is a key";
                Act::Say(Reply::new(214, "2.0.0", words))
            }
            Command::Quit => Act::End(Reply::new(221, "2.0.0", "goodbye")),
        }
    }

    fn offers(&self, extended: bool) -> Reply {
        let mut lines: Vec<Cow<'static, str>> = vec![self.terms.name.clone().into()];
        if extended {
            lines.extend(["PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES"].map(Cow::from));
            lines.push(format!("SIZE {}", self.terms.size).into());
            if self.terms.tls == Tls::Offered {
                lines.push("STARTTLS".into());
            }
            if self.may_log_in() {
                lines.push("AUTH PLAIN LOGIN".into());
            }
            lines.push("HELP".into());
        }
        Reply::bare(250, lines)
    }

    fn may_log_in(&self) -> bool {
        self.terms.tls == Tls::On || self.terms.plaintext_auth
    }

    fn start_tls(&mut self) -> Act {
        match self.terms.tls {
            Tls::Never => self.mistake(Reply::new(
                502,
                "5.5.1",
                "there is no certificate here: configure [smtp] tls_cert",
            )),
            Tls::On => self.mistake(Reply::new(503, "5.5.1", "it is encrypted already")),
            Tls::Offered => {
                // What came with it was said in the clear, to be read as if it had not been.
                self.inbox.clear();
                self.mode = Mode::Waiting;
                Act::StartTls(Reply::new(220, "2.0.0", "go ahead"))
            }
        }
    }

    fn auth(&mut self, mechanism: Mechanism, initial: Option<&str>) -> Act {
        if self.hello.is_none() {
            return self.mistake(Reply::new(503, "5.5.1", "say EHLO first"));
        }
        if self.channel.is_some() {
            return self.mistake(Reply::new(503, "5.5.1", "you are known already"));
        }
        if !self.may_log_in() {
            let words = match self.terms.tls {
                Tls::Never => "a key must not come in the clear: configure [smtp] tls_cert and tls_key",
                _ => "a key must not come in the clear: say STARTTLS first",
            };
            return self.mistake(Reply::new(538, "5.7.11", words));
        }
        let (step, question) = match mechanism {
            Mechanism::Plain => (Mode::Plain, ""),
            Mechanism::Login => (Mode::User, "VXNlcm5hbWU6"),
        };
        match initial {
            // An empty one is written so (RFC 4954).
            Some(initial) => self.answered(if initial == "=" { b"" } else { initial.as_bytes() }, step),
            None => {
                self.mode = step;
                Act::Say(Reply::bare(334, vec![question.into()]))
            }
        }
    }

    fn answered(&mut self, line: &[u8], step: Mode) -> Act {
        if line == b"*" {
            return self.mistake(Reply::new(501, "5.7.0", "as you like"));
        }
        let Some(words) = BASE64.decode(line).ok().and_then(|words| String::from_utf8(words).ok()) else {
            return self.mistake(Reply::new(501, "5.5.2", "that is not base64"));
        };
        let (user, password) = match step {
            Mode::User => {
                self.mode = Mode::Password { user: words };
                return Act::Say(Reply::bare(334, vec!["UGFzc3dvcmQ6".into()]));
            }
            Mode::Password { user } => (user, words),
            _ => {
                let mut parts = words.split('\0');
                match (parts.next(), parts.next(), parts.next(), parts.next()) {
                    // For whom they speak, if they say so, must be themselves.
                    (Some(other), Some(user), Some(password), None) if other.is_empty() || other == user => {
                        (user.to_owned(), password.to_owned())
                    }
                    _ => {
                        return self.mistake(Reply::new(501, "5.5.2", "that is not an answer to AUTH PLAIN"));
                    }
                }
            }
        };
        self.mode = Mode::Waiting;
        Act::LogIn { channel: user, key: Secret::new(password) }
    }

    fn mail(&mut self, from: String, size: Option<usize>) -> Act {
        if self.channel.is_none() {
            return self.mistake(Reply::new(530, "5.7.0", "authenticate first"));
        }
        if self.envelope.is_some() {
            return self.mistake(Reply::new(503, "5.5.1", "one mail at a time: say RSET to begin anew"));
        }
        if size.is_some_and(|size| size > self.terms.size) {
            return Act::Say(too_large(self.terms.size));
        }
        self.envelope = Some(Envelope { from, to: Vec::new() });
        Act::Say(Reply::new(250, "2.1.0", "go on"))
    }

    fn rcpt(&mut self, to: String) -> Act {
        let (Some(kind), Some(envelope)) = (self.channel, &mut self.envelope) else {
            return self.mistake(Reply::new(503, "5.5.1", "say MAIL first"));
        };
        if let Some(problem) = content::check_recipient(kind, &to).first() {
            return Act::Say(Reply::new(
                553,
                "5.1.3",
                format!("the recipient {}: {}", problem.reason, problem.hint),
            ));
        }
        if envelope.to.iter().any(|known| same_mailbox(known, &to)) {
            return Act::Say(Reply::new(250, "2.1.5", "is among them"));
        }
        if envelope.to.len() >= self.terms.recipients {
            return Act::Say(Reply::new(452, "4.5.3", "too many recipients: send the others another copy"));
        }
        envelope.to.push(to);
        Act::Say(Reply::new(250, "2.1.5", "go on"))
    }

    fn data(&mut self) -> Act {
        match &self.envelope {
            None => self.mistake(Reply::new(503, "5.5.1", "say MAIL and RCPT first")),
            Some(envelope) if envelope.to.is_empty() => {
                self.mistake(Reply::new(554, "5.5.1", "no valid recipients"))
            }
            Some(_) => {
                self.mode = Mode::Data(Data::new(self.terms.size));
                Act::Say(Reply::bare(354, vec!["end it with a dot on a line of its own".into()]))
            }
        }
    }

    /// The mail that has just ended.
    fn letter(&mut self) -> Act {
        let mode = std::mem::replace(&mut self.mode, Mode::Commands);
        let (Mode::Data(data), Some(Envelope { from, to })) = (mode, self.envelope.take()) else {
            return self.mistake(Reply::new(503, "5.5.1", "say MAIL and RCPT first"));
        };
        match data.mail() {
            Ok(mail) => {
                self.mode = Mode::Waiting;
                Act::Take(Letter { from, to, mail })
            }
            Err(Unfit::TooLarge) => Act::Say(too_large(self.terms.size)),
            Err(Unfit::LongLine) => Act::Say(Reply::new(
                554,
                "5.6.0",
                "a line has more than 65536 bytes: encode it as quoted-printable or base64",
            )),
            Err(Unfit::Nul) => {
                Act::Say(Reply::new(554, "5.6.0", "a mail cannot have a zero byte: encode it as base64"))
            }
        }
    }
}

fn too_large(limit: usize) -> Reply {
    Reply::new(552, "5.3.4", format!("a mail has at most {limit} bytes here"))
}

/// Whether two addresses are one: domains are the same in any case, names before them need not be.
fn same_mailbox(one: &str, other: &str) -> bool {
    match (one.rsplit_once('@'), other.rsplit_once('@')) {
        (Some((local, domain)), Some((other, elsewhere))) => {
            local == other && domain.eq_ignore_ascii_case(elsewhere)
        }
        _ => one == other,
    }
}
