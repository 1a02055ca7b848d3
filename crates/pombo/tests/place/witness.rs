//! A sink that writes down what arrives and when, and the faults that came in between by the same clock.
//!
//! What came twice is judged by this alone: neither the store nor its audit is asked.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pombo::clock::SteadyClock;
use pombo_channels::sandbox::{Options, Sandbox};
use pombo_kernel::time::{Clock as _, Span, Time};
use tempfile::NamedTempFile;

use super::WORKERS;

pub(crate) struct Witness {
    pub(crate) sink: Sandbox,
    clock: Arc<SteadyClock>,
    log: NamedTempFile,
    deaths: Vec<Death>,
}

/// The end of the only one who sends.
struct Death {
    at: Time,
    /// Requests that the sink had not answered yet.
    open: u64,
}

impl Witness {
    pub(crate) async fn start() -> Witness {
        let (clock, log) = (Arc::new(SteadyClock::new()), NamedTempFile::new().unwrap());
        let hand = clock.clone();
        let options = Options {
            log: Some(log.path().to_owned()),
            clock: Some(Arc::new(move || hand.now())),
            ..Options::default()
        };
        let sink = Sandbox::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options).await.unwrap();
        Witness { sink, clock, log, deaths: Vec::new() }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Kills the only one who sends, and waits until all that it had sent has been written down: whatever comes later was
    /// sent by another.
    pub(crate) async fn death(&mut self, kill: impl FnOnce()) {
        let open = self.sink.stats().open_requests;
        kill();
        self.rest().await;
        self.deaths.push(Death { at: self.now(), open });
    }

    /// Waits until nobody is connected. Whoever stood at the door before us has been let in when we are.
    async fn rest(&self) {
        let address = self.sink.address;
        let last = move || {
            let mut last = TcpStream::connect(address).unwrap();
            last.shutdown(Shutdown::Write).unwrap();
            last.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // Closed by the sink, politely or not.
            let _ = std::io::copy(&mut last, &mut std::io::sink());
        };
        tokio::task::spawn_blocking(last).await.unwrap();
        for _ in 0..10_000 {
            if self.sink.stats().open_connections == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("somebody is still connected: {:?}", self.sink.stats());
    }

    /// When each message arrived.
    pub(crate) fn arrivals(&self) -> Arrivals {
        let arrivals = Arrivals::read(&std::fs::read_to_string(&self.log).unwrap());
        let stats = self.sink.stats();
        assert_eq!((stats.log_failures, stats.without_id), (0, 0));
        assert_eq!(arrivals.0.len(), usize::try_from(stats.distinct).unwrap());
        arrivals
    }

    /// What came again across the deaths, of which nobody was to have more under way than slots.
    pub(crate) fn repeats(&self) -> Repeats {
        let deaths: Vec<Time> = self.deaths.iter().map(|death| death.at).collect();
        let mut again = vec![0; deaths.len()];
        for one in self.arrivals().again(&deaths, Span::default()) {
            // It has been in doubt since the first of them.
            again[one.over.start] += 1;
        }
        let open = self.deaths.iter().map(|death| usize::try_from(death.open).unwrap()).collect();
        let repeats = Repeats { again, open };
        for (n, count) in repeats.again.iter().enumerate() {
            assert!(*count <= WORKERS, "{count} came again across death {n}, with {WORKERS} slots");
        }
        assert!(repeats.open.iter().all(|open| *open <= WORKERS), "{repeats}: more under way than slots");
        repeats
    }
}

/// For each death how many messages came again across it, and how many requests were open.
pub(crate) struct Repeats {
    pub(crate) again: Vec<usize>,
    pub(crate) open: Vec<usize>,
}

/// As a report has it.
impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (again, open) = (most_and_median(&self.again), most_and_median(&self.open));
        let slots = WORKERS;
        write!(f, "slots={slots} again_max={} again_median={} ", again.0, again.1)?;
        write!(f, "open_max={} open_median={}", open.0, open.1)
    }
}

fn most_and_median(counts: &[usize]) -> (usize, usize) {
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    (counts.last().copied().unwrap_or(0), counts.get(counts.len() / 2).copied().unwrap_or(0))
}

/// When each message arrived, by the sink's log.
pub(crate) struct Arrivals(pub(crate) HashMap<String, Vec<Time>>);

/// A message that came once more.
pub(crate) struct Again {
    pub(crate) at: Time,
    /// The faults since it came before.
    pub(crate) over: Range<usize>,
}

impl Arrivals {
    pub(crate) fn read(log: &str) -> Arrivals {
        let mut came: HashMap<String, Vec<Time>> = HashMap::new();
        for line in log.lines() {
            let mut words = line.split(' ');
            let (id, at) = (words.next().unwrap(), words.nth(1).unwrap());
            came.entry(id.to_owned()).or_default().push(Time::from_millis(at.parse().unwrap()));
        }
        Arrivals(came)
    }

    /// Whatever came more than once. It fails if there was no fault in between.
    ///
    /// What was on its way at a fault may be written down so much later.
    pub(crate) fn again(&self, faults: &[Time], slack: Span) -> Vec<Again> {
        let mut again = Vec::new();
        for (id, times) in &self.0 {
            for pair in times.windows(2) {
                let first = faults.partition_point(|at| *at + slack < pair[0]);
                let past = faults.partition_point(|at| *at < pair[1]);
                assert!(first < past, "{id} came at {} and at {}, and no fault in between", pair[0], pair[1]);
                again.push(Again { at: pair[1], over: first..past });
            }
        }
        again
    }
}
