//! What the sink was sent, counted by the sink.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;

use pombo_kernel::time::Time;
use serde::Serialize;

/// One message, as the sink saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    pub received: u32,
    pub accepted: u32,
}

/// Everything that the sink saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Requests that arrived whole, whatever became of them.
    pub total: u64,
    pub accepted: u64,
    /// Different ids among the accepted.
    pub distinct: u64,
    /// Accepted beyond the first of each id.
    pub duplicates: u64,
    pub bad_signatures: u64,
    /// Accepted without an id; they are in neither `distinct` nor `duplicates`.
    pub without_id: u64,
    pub connections: u64,
    /// Those that are open now.
    pub open_connections: u64,
    /// Requests that arrived whole and are not answered yet.
    pub open_requests: u64,
    /// Lines that could not be written to the log, which then proves nothing.
    pub log_failures: u64,
}

#[derive(Debug)]
pub(super) struct Tally {
    stats: Stats,
    counts: HashMap<String, Count>,
    /// Requests by what their senders call themselves.
    senders: HashMap<String, u64>,
    log: Option<File>,
}

impl Tally {
    pub(super) fn new(log: Option<File>) -> Tally {
        Tally { stats: Stats::default(), counts: HashMap::new(), senders: HashMap::new(), log }
    }

    pub(super) fn connected(&mut self) {
        self.stats.connections += 1;
        self.stats.open_connections += 1;
    }

    pub(super) fn disconnected(&mut self) {
        self.stats.open_connections -= 1;
    }

    pub(super) fn sent_by(&mut self, sender: &str) {
        match self.senders.get_mut(sender) {
            Some(count) => *count += 1,
            None => drop(self.senders.insert(sender.to_owned(), 1)),
        }
    }

    pub(super) fn received_from(&self, sender: &str) -> u64 {
        self.senders.get(sender).copied().unwrap_or_default()
    }

    /// Counts an arrival, and says the how many-th it is of its id.
    pub(super) fn received(&mut self, id: &str) -> u32 {
        self.stats.total += 1;
        self.stats.open_requests += 1;
        if id.is_empty() {
            return 1;
        }
        let count = match self.counts.get_mut(id) {
            Some(count) => count,
            None => self.counts.entry(id.to_owned()).or_default(),
        };
        count.received += 1;
        count.received
    }

    pub(super) fn answered(&mut self) {
        self.stats.open_requests -= 1;
    }

    pub(super) fn badly_signed(&mut self) {
        self.stats.bad_signatures += 1;
    }

    /// Counts and logs an acceptance. This comes before the answer, so that the count is never behind.
    pub(super) fn accepted(&mut self, id: &str, attempt: u32, now: Time) {
        self.stats.accepted += 1;
        match self.counts.get_mut(id) {
            None => self.stats.without_id += 1,
            Some(count) => {
                count.accepted += 1;
                if count.accepted == 1 {
                    self.stats.distinct += 1;
                } else {
                    self.stats.duplicates += 1;
                }
            }
        }
        if let Some(log) = &mut self.log
            && log.write_all(format!("{id} {attempt} {}\n", now.millis()).as_bytes()).is_err()
        {
            self.stats.log_failures += 1;
        }
    }

    pub(super) fn count(&self, id: &str) -> Count {
        self.counts.get(id).copied().unwrap_or_default()
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats
    }
}
