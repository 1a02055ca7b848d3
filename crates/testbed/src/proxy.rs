//! A proxy before a cluster, and so a network that fails as a test wants it to.
//!
//! It reads what the server says message by message, as PostgreSQL's protocol has it after a start without TLS: one
//! byte for the kind, four for the length of what follows, themselves included.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use crate::{Cluster, Database};

/// Somebody has told something to those who listen.
const NOTIFICATION: u8 = b'A';

/// What stands between a client and a cluster. Whoever is connected is cut off when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

/// What becomes of what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    /// Notifications are lost, and nothing else.
    Deaf,
    /// Connections stay and new ones are made, but nothing gets through: what is said meanwhile arrives afterwards, as
    /// it does where packets are lost for a while.
    Silent,
    /// Whoever is connected, or connects, is hung up on.
    Cut,
    /// The proxy is gone.
    Closed,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    swallowed: AtomicU64,
}

#[derive(Debug)]
struct State {
    way: Way,
    to: SocketAddr,
    open: Vec<Weak<Pair>>,
}

/// A connection of a client, and ours to the server on its behalf.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    server: TcpStream,
}

impl Proxy {
    /// Starts one that lets everything through.
    pub fn start(cluster: &Cluster) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.unwrap_or_else(|error| panic!("error: no free port on 127.0.0.1: {error}"));
        let port = listener.local_addr().map(|address| address.port());
        let port = port.unwrap_or_else(|error| panic!("error: a listener without an address: {error}"));
        let state = State { way: Way::Open, to: address(cluster), open: Vec::new() };
        let (changed, swallowed) = (Condvar::new(), AtomicU64::new(0));
        let shared = Arc::new(Shared { state: Mutex::new(state), changed, swallowed });
        let host = shared.clone();
        thread::spawn(move || host.welcome(&listener));
        Proxy { port, shared }
    }

    /// A database of the cluster, through this.
    pub fn url(&self, database: &Database) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}?sslmode=disable", self.port, database.name)
    }

    /// Lets everything through from now on, also what was held back.
    pub fn pass(&self) {
        self.shared.turn(Way::Open);
    }

    /// Lets nothing through, and hangs up on nobody.
    pub fn silence(&self) {
        self.shared.turn(Way::Silent);
    }

    /// Loses notifications, and nothing else.
    pub fn deafen(&self) {
        self.shared.turn(Way::Deaf);
    }

    /// Hangs up on everybody.
    pub fn cut(&self) {
        self.shared.turn(Way::Cut);
    }

    /// Leads whoever connects from now on to another cluster. Those who are connected stay where they are.
    pub fn lead_to(&self, cluster: &Cluster) {
        self.shared.state().to = address(cluster);
    }

    /// How many notifications were lost.
    pub fn swallowed(&self) -> u64 {
        self.shared.swallowed.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.turn(Way::Closed);
        // Whoever listens looks once more, and ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn address(cluster: &Cluster) -> SocketAddr {
    let host = cluster.url().rsplit('@').next().unwrap_or_default();
    host.parse().unwrap_or_else(|error| panic!("error: {host}: {error}"))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, way: Way) {
        let mut state = self.state();
        state.way = way;
        if matches!(way, Way::Cut | Way::Closed) {
            for pair in state.open.drain(..).filter_map(|pair| pair.upgrade()) {
                pair.hang_up();
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// What is to become of something that is there to be passed on; waits while nothing is.
    fn way(&self) -> Way {
        let waited = self.changed.wait_while(self.state(), |state| state.way == Way::Silent);
        waited.unwrap_or_else(PoisonError::into_inner).way
    }

    fn welcome(self: Arc<Shared>, listener: &TcpListener) {
        for client in listener.incoming() {
            let mut state = self.state();
            match (state.way, client) {
                (Way::Closed, _) => return,
                (Way::Cut, _) | (_, Err(_)) => {}
                (_, Ok(client)) => {
                    // A server that is not there refuses, and so do we.
                    if let Ok(pair) = Pair::new(client, state.to) {
                        state.open.retain(|pair| pair.strong_count() > 0);
                        state.open.push(Arc::downgrade(&pair));
                        self.pump(pair);
                    }
                }
            }
        }
    }

    /// Passes on what either says until it has no more to say.
    fn pump(self: &Arc<Shared>, pair: Arc<Pair>) {
        let (shared, both) = (self.clone(), pair.clone());
        thread::spawn(move || {
            let _ = shared.ask(&both);
            let _ = both.server.shutdown(Shutdown::Write);
        });
        let shared = self.clone();
        thread::spawn(move || {
            let _ = shared.answer(&pair);
            pair.hang_up();
        });
    }

    fn ask(&self, pair: &Pair) -> io::Result<()> {
        let (mut from, mut to) = (&pair.client, &pair.server);
        let mut said = vec![0; 64 * 1024];
        loop {
            let length = from.read(&mut said)?;
            if length == 0 {
                return Ok(());
            }
            self.way();
            to.write_all(&said[..length])?;
        }
    }

    /// Ends with the server's last word, even if nobody is there to hear it: what it was asked before, it still does.
    fn answer(&self, pair: &Pair) -> io::Result<()> {
        let (mut from, mut to) = (BufReader::new(&pair.server), BufWriter::new(&pair.client));
        let mut heard = Ok(());
        while !from.fill_buf()?.is_empty() {
            let mut message = vec![0; 5];
            from.read_exact(&mut message)?;
            let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]);
            from.by_ref().take(u64::from(length).saturating_sub(4)).read_to_end(&mut message)?;
            if self.way() == Way::Deaf && message[0] == NOTIFICATION {
                self.swallowed.fetch_add(1, Ordering::SeqCst);
            } else {
                heard = heard.and_then(|()| to.write_all(&message));
            }
            if from.buffer().is_empty() {
                heard = heard.and_then(|()| to.flush());
            }
        }
        heard
    }
}

impl Pair {
    fn new(client: TcpStream, to: SocketAddr) -> io::Result<Arc<Pair>> {
        let server = TcpStream::connect(to)?;
        for side in [&client, &server] {
            side.set_nodelay(true)?;
        }
        Ok(Arc::new(Pair { client, server }))
    }

    /// Whoever has gone already cannot be hung up on.
    fn hang_up(&self) {
        for side in [&self.client, &self.server] {
            let _ = side.shutdown(Shutdown::Both);
        }
    }
}
