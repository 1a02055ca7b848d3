//! Hands many mails in over SMTP, for the benchmark: `mails ADDRESS SESSIONS MAILS FILE`.
//!
//! As `smtp-source` does, which cannot log in: sessions that stay open, one command at a time, and a recipient of its
//! own for each mail. Each mail is the one in the file, whose lines end in CR LF, under a `Message-ID` of its own, as
//! applications give it. If `AUTH_PLAIN` is set, each session logs in with it once. The first answer that is not the
//! expected one ends everything. Built from the standard library alone, so that `rustc` is all it needs.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_mins(1);

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, sessions, mails, file] = arguments.as_slice() else {
        return Err("usage: mails ADDRESS SESSIONS MAILS FILE".into());
    };
    let (sessions, mails): (u64, u64) = (sessions.parse()?, mails.parse()?);
    let mail = stuffed(&fs::read_to_string(file)?);
    let login = env::var("AUTH_PLAIN").ok();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let work = || -> Outcome {
            let mut session = Session::open(address, login.as_deref())?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= mails {
                    return session.ask("QUIT\r\n", "221");
                }
                session.send(number, &mail)?;
            }
        };
        let handles: Vec<_> = (0..sessions).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| "a session panicked")?)
    })
}

/// The mail as it goes over the wire: a dot at the start of a line is doubled, and one alone ends it.
fn stuffed(mail: &str) -> String {
    let mut wire = String::new();
    for line in mail.lines() {
        let dot = if line.starts_with('.') { "." } else { "" };
        let _ = write!(wire, "{dot}{line}\r\n");
    }
    wire + ".\r\n"
}

struct Session {
    stream: BufReader<TcpStream>,
    line: String,
}

impl Session {
    fn open(address: &str, login: Option<&str>) -> Outcome<Session> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut session = Session { stream: BufReader::new(stream), line: String::new() };
        session.expect("220")?;
        session.ask("EHLO bench.example\r\n", "250")?;
        if let Some(login) = login {
            session.ask(&format!("AUTH PLAIN {login}\r\n"), "235")?;
        }
        Ok(session)
    }

    fn send(&mut self, number: u64, mail: &str) -> Outcome {
        self.ask("MAIL FROM:<mail@clinic.example>\r\n", "250")?;
        self.ask(&format!("RCPT TO:<{number}paciente@example.net>\r\n"), "250")?;
        self.ask("DATA\r\n", "354")?;
        let process = process::id();
        self.ask(&format!("Message-ID: <{number}.{process}@bench.example>\r\n{mail}"), "250")
    }

    fn ask(&mut self, words: &str, code: &str) -> Outcome {
        self.stream.get_mut().write_all(words.as_bytes())?;
        self.expect(code)
    }

    /// Reads an answer to its last line, which has no hyphen after its code.
    fn expect(&mut self, code: &str) -> Outcome {
        loop {
            self.line.clear();
            self.stream.read_line(&mut self.line)?;
            if !self.line.starts_with(code) {
                return Err(format!("{code} was expected, and this came: {:?}", self.line).into());
            }
            if self.line.as_bytes().get(3) != Some(&b'-') {
                return Ok(());
            }
        }
    }
}
