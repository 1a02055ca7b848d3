//! Logs, which must never hold up the engine: a reader that stops reading, or a disk that is full, costs lines, not
//! deliveries.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pombo_store::meter::counter;
use prometheus::IntCounter;
use tracing::{Level, error};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait for the reader before new ones are dropped.
const WAITING_MAX: usize = 8_192;

/// How long an ending process waits for the reader to take the last lines.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What is logged unless `POMBO_LOG` says otherwise.
pub const DEFAULT_FILTER: &str = "info";

/// Sends the program's logs to standard error: for people on a terminal, as JSON elsewhere.
///
/// `filter` reads like `info` or `pombo_engine=debug,info`. Keep the result until the end: dropping it writes
/// what is still waiting.
pub fn start(filter: Option<&str>) -> Result<Log, BadFilter> {
    let text = filter.unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::try_new(text).map_err(|error| BadFilter(text.to_owned(), error.to_string()))?;
    let terminal = io::stderr().is_terminal();
    let (writer, log) = writer(io::stderr(), WAITING_MAX, if terminal { said_lost } else { json_lost });
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    if terminal {
        let subscriber = subscriber.with_ansi(!plain).with_target(false).compact().finish();
        let _ = tracing::subscriber::set_global_default(subscriber);
    } else {
        let subscriber = subscriber.json().flatten_event(true).with_current_span(false).finish();
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
    std::panic::set_hook(Box::new(panicked));
    Ok(log)
}

/// A panic is one line of the log that says where it was; with `RUST_BACKTRACE`, also by which way.
///
/// What it says is left out unless it is the same for everybody: a text that is cut where it must not be, or a value
/// that was not expected, is part of the words of a panic, and may be a person's.
fn panicked(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string);
    let said = panic.payload().downcast_ref::<&'static str>();
    let thread = std::thread::current();
    let way = Backtrace::capture();
    let way = (way.status() == BacktraceStatus::Captured).then(|| way.to_string());
    match tracing::enabled!(Level::ERROR) {
        true => error!(at, said, thread = thread.name(), way, "a part of the program panicked"),
        // Whoever wants no log still wants to know of this.
        false => {
            let (at, way) = (at.unwrap_or_default(), way.unwrap_or_default());
            let _ = writeln!(io::stderr(), "a part of the program panicked at {at}\n{way}");
        }
    }
}

/// How the reader is told of lines that it missed.
type Lost = fn(u64) -> String;

fn said_lost(lines: u64) -> String {
    format!("{lines} log lines were dropped, since nobody read them or they could not be written\n")
}

fn json_lost(lines: u64) -> String {
    format!("{{\"level\":\"WARN\",\"message\":\"log lines were dropped\",\"lines\":{lines}}}\n")
}

/// A filter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log filter {0:?} cannot be read: {1}")]
pub struct BadFilter(pub String, pub String);

/// The running log. Dropping it writes what is still waiting, as far as the reader takes it soon.
#[derive(Debug)]
pub struct Log {
    lines: SyncSender<Line>,
    dropped: IntCounter,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Lines that were dropped because nobody read them or they could not be written.
    pub fn dropped(&self) -> &IntCounter {
        &self.dropped
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        // A full queue has a stuck reader behind it: there is nobody to say the last words to.
        if self.lines.try_send(Line::Last(done)).is_ok() && written.recv_timeout(LAST_WORDS).is_ok() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}

#[derive(Debug)]
enum Line {
    Text(Vec<u8>),
    Last(SyncSender<()>),
}

/// Gives each event a buffer of its own, which joins the queue as one line.
#[derive(Clone, Debug)]
pub struct Writer {
    lines: SyncSender<Line>,
    dropped: IntCounter,
}

fn writer(out: impl Write + Send + 'static, waiting: usize, lost: Lost) -> (Writer, Log) {
    let (lines, queue) = sync_channel(waiting);
    let dropped = counter(
        "pombo_log_lines_dropped_total",
        "Log lines that were dropped, since nobody read them or they could not be written.",
    );
    let counter = dropped.clone();
    let thread =
        std::thread::Builder::new().name("log".into()).spawn(move || write_all(&queue, out, &counter, lost));
    let log = Log { lines: lines.clone(), dropped: dropped.clone(), thread: thread.ok() };
    (Writer { lines, dropped }, log)
}

fn write_all(queue: &Receiver<Line>, mut out: impl Write, dropped: &IntCounter, lost: Lost) {
    let mut told = 0;
    while let Ok(line) = queue.recv() {
        match line {
            Line::Text(text) => {
                if out.write_all(&text).is_err() {
                    dropped.inc();
                    continue;
                }
                let now = dropped.get();
                if now > told && out.write_all(lost(now - told).as_bytes()).is_ok() {
                    told = now;
                }
            }
            Line::Last(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
                return;
            }
        }
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Event<'a>;
    fn make_writer(&'a self) -> Event<'a> {
        Event { writer: self, text: Vec::new() }
    }
}

/// One event on its way into the queue.
#[derive(Debug)]
pub struct Event<'a> {
    writer: &'a Writer,
    text: Vec<u8>,
}

impl Write for Event<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return;
        }
        if self.writer.lines.try_send(Line::Text(text)).is_err() {
            self.writer.dropped.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::{Arc, Mutex};

    /// Set in the process that is to panic: to the filter of its log.
    const TO_PANIC: &str = "POMBO_TEST_PANIC";

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A reader that never reads: every write waits until the test lets go.
    struct Stuck(Arc<Mutex<()>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.0.lock());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_out_whole_and_the_last_ones_are_not_lost() {
        let kept = Kept::default();
        let (writer, log) = writer(kept.clone(), 10, json_lost);
        for n in 0..3 {
            let mut event = writer.make_writer();
            write!(event, "line ").unwrap();
            writeln!(event, "{n}").unwrap();
        }
        drop(log);
        assert_eq!(String::from_utf8(kept.0.lock().unwrap().clone()).unwrap(), "line 0\nline 1\nline 2\n");
    }

    #[test]
    fn a_stuck_reader_costs_lines_and_no_time() {
        let gate = Arc::new(Mutex::new(()));
        let shut = gate.lock().unwrap();
        let (writer, log) = writer(Stuck(Arc::clone(&gate)), 4, json_lost);
        for _ in 0..100 {
            writeln!(writer.make_writer(), "line").unwrap();
        }
        assert!(log.dropped().get() >= 95, "{}", log.dropped().get());
        drop(log);
        drop(shut);
    }

    /// A disk that has no room for the first lines.
    struct Full {
        refused: usize,
        then: Kept,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.refused > 0 {
                self.refused -= 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.then.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test] // RELIABILITY 60
    fn lines_that_could_not_be_written_are_counted_and_told_once_there_is_room() {
        let kept = Kept::default();
        let (writer, log) = writer(Full { refused: 2, then: kept.clone() }, 10, json_lost);
        let dropped = log.dropped().clone();
        for n in 0..4 {
            writeln!(writer.make_writer(), "line {n}").unwrap();
        }
        drop(log);
        assert_eq!(dropped.get(), 2);
        let said = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said, format!("line 2\n{}line 3\n", json_lost(2)));
    }

    #[test] // REQ AU-3
    fn a_panic_says_where_it_was_and_nothing_of_anybody() {
        if let Ok(filter) = std::env::var(TO_PANIC) {
            let _log = start(Some(&filter)).unwrap();
            let name = "Jo\u{e3}o Canario".to_owned();
            // In the middle of a letter, which the standard library tells together with the whole text.
            let cut = std::thread::spawn(move || name[..3].len()).join();
            assert!(cut.is_err());
            return;
        }
        for filter in ["info", "off"] {
            let child = Command::new(std::env::current_exe().unwrap())
                .args([
                    "log::tests::a_panic_says_where_it_was_and_nothing_of_anybody",
                    "--exact",
                    "--nocapture",
                ])
                .env(TO_PANIC, filter)
                .env_remove("RUST_BACKTRACE")
                .output()
                .unwrap();
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&child.stdout),
                String::from_utf8_lossy(&child.stderr)
            );
            assert!(child.status.success(), "{said}");
            assert!(said.contains("panicked") && said.contains("log.rs:"), "{said}");
            assert!(!said.contains("Canario"), "{said}");
        }
    }
}
