//! SMTP submission (RFC 6409): an application hands in mails as to any mail server, and gains durable retry.
//!
//! The user is the name of a channel, the password is a key. A mail is confirmed once there is a durable message for
//! each of its recipients. [`session`] decides what is said; here is whoever listens, reads and writes.

mod command;
mod data;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod letter;
mod parts;
mod reply;
mod session;
#[cfg(any(test, feature = "fuzz"))]
mod stage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Draft;
use pombo_kernel::name::ChannelName;
use pombo_kernel::secret::Secret;
use pombo_kernel::setup::ChannelSetup;
use pombo_kernel::trace::Fact;
use pombo_store::StoreError;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use self::letter::{Drafts, Way, literal};
use self::reply::Reply;
use self::session::{Act, Letter, Session, Terms, Tls};
use crate::Door;
use crate::auth::{Access, Caller};
use crate::problem::{Code, Problem};
use crate::suppression;
use crate::trail::Trail;

/// What is configured of this door. A change takes effect with the next connection.
#[derive(Clone, Default)]
pub struct Manner {
    /// Who the server says that it is; its address, if nothing is said.
    pub name: Option<String>,
    /// Its certificate: STARTTLS is offered with it.
    pub tls: Option<Arc<ServerConfig>>,
    /// TLS from the first byte on, instead of STARTTLS.
    pub implicit_tls: bool,
    /// Keys may come in the clear, also from other machines.
    pub allow_plaintext_auth: bool,
}

impl fmt::Debug for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manner")
            .field("name", &self.name)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// What clients may cost us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections open at once, in all and from one address. Further ones are told to come back.
    pub connections: usize,
    pub connections_per_address: usize,
    /// Recipients of one mail.
    pub recipients: usize,
    /// For a client to become known, from its first byte on; and for each of its steps on the way.
    pub welcome: Duration,
    pub stranger_command: Duration,
    /// For the next command of a client that is known, and for it to take what we say.
    pub command: Duration,
    /// For a whole mail.
    pub mail: Duration,
    /// For a client that is known and hands in nothing.
    pub idle: Duration,
    /// How long mails under way may take to end once the server stops.
    pub grace: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: 1_000,
            connections_per_address: 100,
            recipients: 100,
            welcome: Duration::from_secs(60),
            stranger_command: Duration::from_secs(30),
            command: Duration::from_secs(300),
            mail: Duration::from_secs(600),
            idle: Duration::from_secs(3_600),
            grace: Duration::from_secs(30),
        }
    }
}

/// Read at once.
const PIECE_BYTES: usize = 16 * 1024;
/// How long we listen to whoever was told goodbye.
const FAREWELL: Duration = Duration::from_secs(1);
/// A mail takes its share of the room that all requests have in such steps.
const SHARE_BYTES: u32 = 64 * 1024;
/// What its copies take at most: with the largest mail it must fit into the room.
const COPIES_BYTES_MAX: usize = 48 * 1024 * 1024;
/// The largest mail whatever is configured, since a channel must still be able to send it.
const MAIL_BYTES_MAX: usize = 39_000_000;

/// Serves until `shutdown` ends; then lets the mails that are being read end, says goodbye to everybody, and returns.
pub async fn serve(
    listener: TcpListener,
    door: Door,
    manner: watch::Receiver<Arc<Manner>>,
    bounds: Bounds,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(bounds.connections));
    let crowd = Arc::new(Crowd::default());
    let (stop, stopping) = watch::channel(());
    let mut shutdown = pin!(shutdown);
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = &mut shutdown => break,
        };
        match taken {
            Ok((stream, peer)) => {
                let place = places.clone().try_acquire_owned().ok();
                let seat = Crowd::enter(&crowd, peer.ip(), bounds.connections_per_address);
                let host = Host {
                    door: door.clone(),
                    manner: manner.borrow().clone(),
                    bounds,
                    peer,
                    stopping: stopping.clone(),
                };
                tokio::spawn(async move {
                    match (place, seat) {
                        (Some(place), Some(seat)) => host.welcome(stream, place, seat).await,
                        _ => turn_away(stream).await,
                    }
                });
            }
            Err(error) => {
                // It went away, or there are no more file descriptors: some will be free again in a moment.
                tracing::warn!(%error, "cannot take on a connection for SMTP");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    drop(stopping);
    stop.send_replace(());
    if timeout(bounds.grace, stop.closed()).await.is_err() {
        tracing::warn!(
            open = stop.receiver_count(),
            "mails were still being read at the end of the grace period"
        );
    }
    Ok(())
}

async fn turn_away(mut stream: TcpStream) {
    let words = b"421 4.7.0 too many connections; come back in a moment\r\n";
    let _ = timeout(FAREWELL, stream.write_all(words)).await;
}

/// How many connections each address has.
#[derive(Debug, Default)]
struct Crowd(Mutex<BTreeMap<IpAddr, usize>>);

impl Crowd {
    fn enter(crowd: &Arc<Crowd>, address: IpAddr, most: usize) -> Option<Seat> {
        let address = address.to_canonical();
        let mut there = crowd.there();
        let seats = there.entry(address).or_default();
        if *seats >= most {
            return None;
        }
        *seats += 1;
        Some(Seat { crowd: crowd.clone(), address })
    }

    fn there(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection of an address, until it is dropped.
struct Seat {
    crowd: Arc<Crowd>,
    address: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut there = self.crowd.there();
        if let Some(seats) = there.get_mut(&self.address) {
            *seats -= 1;
            if *seats == 0 {
                there.remove(&self.address);
            }
        }
    }
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Whoever looks after one connection.
struct Host {
    door: Door,
    manner: Arc<Manner>,
    bounds: Bounds,
    peer: SocketAddr,
    stopping: watch::Receiver<()>,
}

/// Why a conversation is over.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over
    }
}

impl From<tokio::time::error::Elapsed> for Over {
    fn from(_: tokio::time::error::Elapsed) -> Over {
        Over
    }
}

/// How patient we are, by what the client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Stranger,
    Known,
    Mail,
}

impl Host {
    async fn welcome(self, stream: TcpStream, _place: OwnedSemaphorePermit, _seat: Seat) {
        let _counted = self.door.meter().smtp_connection();
        let _ = stream.set_nodelay(true);
        let name = match (&self.manner.name, stream.local_addr()) {
            (Some(name), _) => name.clone(),
            (None, Ok(address)) => literal(address.ip().to_canonical()),
            (None, Err(_)) => return,
        };
        let tls = match (&self.manner.tls, self.manner.implicit_tls) {
            (None, _) => Tls::Never,
            (Some(_), false) => Tls::Offered,
            (Some(_), true) => Tls::On,
        };
        let terms = Terms {
            name,
            size: self.door.setup().limits.attachment_bytes.min(MAIL_BYTES_MAX),
            recipients: self.bounds.recipients,
            tls,
            plaintext_auth: self.manner.allow_plaintext_auth || self.peer.ip().to_canonical().is_loopback(),
        };
        let talk = async {
            let wire: Box<dyn Wire> = match tls {
                Tls::On => self.encrypted(Box::new(stream)).await?,
                _ => Box::new(stream),
            };
            let door = self.door.clone();
            Talk {
                host: &self,
                door: &door,
                wire,
                session: Session::new(terms),
                guest: None,
                room: None,
                out: Vec::new(),
            }
            .run()
            .await
        };
        // It ends when somebody hangs up, which is nothing to tell.
        let _: Result<(), Over> = talk.await;
    }

    async fn encrypted(&self, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>, Over> {
        let config = self.manner.tls.clone().ok_or(Over)?;
        let stream = timeout(self.bounds.stranger_command, TlsAcceptor::from(config).accept(wire)).await??;
        Ok(Box::new(stream))
    }
}

/// A client that is known.
struct Guest {
    caller: Arc<Caller>,
    channel: ChannelName,
}

struct Talk<'a> {
    host: &'a Host,
    door: &'a Door,
    wire: Box<dyn Wire>,
    session: Session,
    guest: Option<Guest>,
    /// What this client holds of the room that all have together.
    room: Option<SemaphorePermit<'a>>,
    out: Vec<u8>,
}

impl Talk<'_> {
    async fn run(mut self) -> Result<(), Over> {
        self.session.greeting().write(&mut self.out);
        let mut stopping = self.host.stopping.clone();
        let mut phase = Phase::Stranger;
        let mut left: Pin<Box<Sleep>> = Box::pin(sleep(self.host.bounds.welcome));
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            while let Some(act) = self.session.next() {
                self.act(act).await?;
            }
            self.flush().await?;
            let now = self.phase();
            if now != phase {
                phase = now;
                left = Box::pin(sleep(self.bound(phase)));
            }
            let step = match phase {
                Phase::Stranger => self.host.bounds.stranger_command,
                Phase::Known | Phase::Mail => self.host.bounds.command,
            };
            let read = tokio::select! {
                read = timeout(step, self.wire.read(&mut piece)) => read.ok(),
                () = &mut left => None,
                // Whoever stands between two mails can go; a mail that is being read is read to its end.
                _ = stopping.changed(), if phase != Phase::Mail => {
                    return self.end(&Reply::new(421, "4.3.2", "this server is stopping; come back in a moment")).await;
                }
            };
            let Some(read) = read else {
                return self.end(&Reply::new(421, "4.4.2", "that took too long: goodbye")).await;
            };
            let read = read?;
            if read == 0 {
                return Ok(());
            }
            if !self.makes_room(read) {
                return self.end(&no_room()).await;
            }
            self.session.hear(&piece[..read]);
        }
    }

    fn phase(&self) -> Phase {
        match (self.session.in_mail(), self.session.is_known()) {
            (true, _) => Phase::Mail,
            (false, true) => Phase::Known,
            (false, false) => Phase::Stranger,
        }
    }

    fn bound(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Stranger => self.host.bounds.welcome,
            Phase::Known => self.host.bounds.idle,
            Phase::Mail => self.host.bounds.mail,
        }
    }

    async fn act(&mut self, act: Act) -> Result<(), Over> {
        match act {
            Act::Say(reply) => {
                reply.write(&mut self.out);
                // Whoever asks much and listens to nothing does not make us remember it.
                if self.out.len() > PIECE_BYTES { self.flush().await } else { Ok(()) }
            }
            Act::End(reply) => {
                self.end(&reply).await?;
                Err(Over)
            }
            Act::StartTls(reply) => {
                reply.write(&mut self.out);
                self.flush().await?;
                let plain = std::mem::replace(&mut self.wire, Box::new(tokio::io::empty()));
                self.wire = self.host.encrypted(plain).await?;
                self.session.secured();
                Ok(())
            }
            Act::LogIn { channel, key } => {
                let act = self.log_in(&channel, &key).await;
                Box::pin(self.act(act)).await
            }
            Act::Take(letter) => {
                self.flush().await?;
                let reply = self.take(letter).await;
                self.room = None;
                self.session.taken();
                self.door.meter().mail(reply.code);
                let act = if reply.code == 421 { Act::End(reply) } else { Act::Say(reply) };
                Box::pin(self.act(act)).await
            }
        }
    }

    async fn flush(&mut self) -> Result<(), Over> {
        let out = std::mem::take(&mut self.out);
        if !out.is_empty() {
            timeout(self.host.bounds.command, async {
                self.wire.write_all(&out).await?;
                self.wire.flush().await
            })
            .await??;
        }
        Ok(())
    }

    async fn end(&mut self, reply: &Reply) -> Result<(), Over> {
        reply.write(&mut self.out);
        self.flush().await?;
        let leaving = async {
            self.wire.shutdown().await?;
            // What lies unread when we leave would tear the line, and our last words with it.
            let mut rest = vec![0; PIECE_BYTES];
            while self.wire.read(&mut rest).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        let _ = timeout(FAREWELL, leaving).await;
        Ok(())
    }

    /// Takes as much of the room as the mail needs with so many bytes more; not if others have it all.
    fn makes_room(&mut self, more: usize) -> bool {
        if !self.session.in_mail() {
            return true;
        }
        let needed = self.session.held() + more;
        loop {
            let held = self.room.as_ref().map_or(0, SemaphorePermit::num_permits);
            if held >= needed {
                return true;
            }
            let Ok(share) = self.door.0.room.try_acquire_many(SHARE_BYTES) else { return false };
            match &mut self.room {
                Some(room) => room.merge(share),
                None => self.room = Some(share),
            }
        }
    }

    async fn log_in(&mut self, channel: &str, key: &Secret) -> Act {
        let refused = |words: String| Reply::new(535, "5.7.8", words);
        let caller = match self.door.caller_by_key(key.expose(), Some(self.host.peer.ip())).await {
            Ok(caller) => caller,
            Err(problem) => return self.session.unknown(turned_down(&problem)),
        };
        let setup = self.door.setup();
        let found =
            setup.channels.get(channel).filter(|it| it.tenant == caller.tenant && caller.sees(&it.name));
        let allowed = match (caller.may(Access::Send), found) {
            (Err(problem), _) => Err(refused(format!("{}: {}", problem.detail, problem.hint))),
            (Ok(()), None) => {
                Err(refused("this key has no channel of that name: the user is a channel's name".to_owned()))
            }
            (Ok(()), Some(found)) if !sends_mail(found) => Err(refused(format!(
                "this channel is of the kind {}: mail goes through smtp and resend",
                found.kind
            ))),
            (Ok(()), Some(found)) => Ok(found),
        };
        match allowed {
            Err(reply) => self.session.unknown(reply),
            Ok(found) => {
                self.session.known(found.kind);
                self.guest = Some(Guest { caller, channel: found.name.clone() });
                Act::Say(Reply::new(235, "2.7.0", "welcome"))
            }
        }
    }

    /// Stores a mail, and says what became of it: nothing is confirmed before it is durable.
    async fn take(&mut self, letter: Letter) -> Reply {
        let Some(tracer) = self.door.0.tracer.get() else { return self.store(letter, None).await };
        let trail = Trail::begin(tracer, letter::trace_of(&letter.mail).as_ref());
        let reply = self.store(letter, Some(&trail)).await;
        let facts = vec![("pombo.reply.status", Fact::Number(reply.code.into()))];
        let fault = (reply.code >= 400).then(|| reply.code.to_string());
        trail.end("SMTP DATA".to_owned(), facts, fault);
        reply
    }

    async fn store(&mut self, letter: Letter, trail: Option<&Trail>) -> Reply {
        let Some(guest) = &self.guest else { return Reply::new(530, "5.7.0", "authenticate first") };
        match self.door.still_knows(&guest.caller).await {
            Ok(caller) if caller.sees(&guest.channel) => {}
            Ok(_) => return Reply::new(554, "5.7.1", "the key is not for this channel any more"),
            Err(problem) if problem.code == Code::Unauthorized => {
                return Reply::new(554, "5.7.1", "the key has ended");
            }
            Err(_) => return unavailable(),
        }
        let setup = self.door.setup();
        let Some(channel) = setup.channels.get(&guest.channel).filter(|channel| sends_mail(channel)).cloned()
        else {
            return Reply::new(451, "4.3.5", "the channel is not there any more");
        };
        // Beside the mail as it came: as it goes on, or its parts and what becomes of them.
        let copies = if channel.kind == ChannelKind::Resend { 4 } else { 1 };
        let bytes =
            u32::try_from(letter.mail.len().saturating_mul(copies).min(COPIES_BYTES_MAX)).unwrap_or(u32::MAX);
        let Ok(_room) = self.door.0.room.try_acquire_many(bytes) else { return no_room() };
        let way = Way {
            name: self.session.name().to_owned(),
            encrypted: self.session.is_encrypted(),
            now: self.door.now(),
            chance: self.door.entropy()(),
        };
        // A mail of some megabytes is not looked at in a moment, and others wait for this thread.
        let made = tokio::task::spawn_blocking(move || letter::drafts(&setup, &channel, letter, &way)).await;
        let Drafts { drafts, group } = match made {
            Ok(Ok(drafts)) => drafts,
            Ok(Err(reply)) => return reply,
            Err(_) => return Reply::new(451, "4.3.0", "a fault of ours; nothing was stored"),
        };
        match suppression::stops(self.door.store(), &self.door.setup(), &drafts).await {
            Ok(None) => {}
            // Of a mail to several it is all or nothing: who is left out silently would be missed by nobody.
            Ok(Some(_)) => return Reply::new(550, "5.7.1", "a recipient is on the suppression list"),
            Err(_) => return unavailable(),
        }
        match accept(self.door, drafts, trail).await {
            Ok(ids) if ids.len() == 1 => Reply::new(250, "2.0.0", format!("accepted as {}", ids[0])),
            Ok(ids) => Reply::new(250, "2.0.0", format!("accepted as {group}, {} messages", ids.len())),
            Err(StoreError::Overloaded | StoreError::Closed) => {
                Reply::new(421, "4.3.2", "too much is waiting; come back in a moment")
            }
            Err(error) => {
                tracing::warn!(%error, "a mail could not be stored");
                unavailable()
            }
        }
    }
}

/// Stores all messages of a mail. Where another mail came under the same id before, this one is new all the same.
async fn accept(door: &Door, drafts: Vec<Draft>, trail: Option<&Trail>) -> Result<Vec<String>, StoreError> {
    let answers = door.accept(drafts.clone(), trail).await?;
    let (mut ids, mut others) = (Vec::new(), Vec::new());
    for (answer, draft) in answers.into_iter().zip(drafts) {
        match answer {
            Ok(accepted) => ids.push(accepted.id.to_string()),
            Err(_) => others.push(Draft { idempotency: None, ..draft }),
        }
    }
    if !others.is_empty() {
        let answers = door.accept(others, trail).await?;
        ids.extend(answers.into_iter().flatten().map(|accepted| accepted.id.to_string()));
    }
    Ok(ids)
}

fn sends_mail(channel: &ChannelSetup) -> bool {
    matches!(channel.kind, ChannelKind::Smtp | ChannelKind::Resend)
}

fn turned_down(problem: &Problem) -> Reply {
    match problem.code {
        Code::Unauthorized => Reply::new(535, "5.7.8", "the password is not a key that is known here"),
        Code::TooManyFailures => Reply::new(421, "4.7.0", "too many keys that are not known came from here"),
        _ => Reply::new(454, "4.7.0", "the key cannot be looked up for now; come back in a moment"),
    }
}

fn unavailable() -> Reply {
    Reply::new(451, "4.3.0", "the store cannot be used for now; come back in a moment")
}

fn no_room() -> Reply {
    Reply::new(421, "4.3.2", "too many large mails are being read; come back in a moment")
}
