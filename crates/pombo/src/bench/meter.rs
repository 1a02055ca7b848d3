//! What a workload costs this process: time, CPU and memory.

use std::path::Path;
use std::time::Duration;

use crate::clock::Stopwatch;

/// Ticks of a CPU second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

/// Runs from its start to `stop`.
#[derive(Debug)]
pub(crate) struct Meter {
    watch: Stopwatch,
    cpu: Option<f64>,
}

/// What it came to. CPU and memory are unknown where there is no `/proc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    /// CPU seconds of the whole process, user and system.
    pub(crate) cpu: Option<f64>,
    pub(crate) peak_mib: Option<f64>,
}

impl Meter {
    /// Starts, and forgets the peak of whatever ran before.
    pub(crate) fn start() -> Meter {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        Meter { cpu: cpu(), watch: Stopwatch::start() }
    }

    pub(crate) fn stop(&self) -> Cost {
        let time = self.watch.elapsed();
        let cpu = cpu().zip(self.cpu).map(|(now, before)| now - before);
        Cost { time, cpu, peak_mib: memory_mib("VmHWM:") }
    }
}

/// CPU seconds since the process began.
fn cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name comes second, in brackets, and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// A line of `/proc/self/status`, such as `VmRSS:`.
pub(crate) fn memory_mib(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

/// The kind of file system that a folder is on, by the mount that holds it.
pub(crate) fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let holding = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        folder.starts_with(place).then_some((place.len(), kind))
    });
    // Of two mounts on one place the later one is seen.
    holding.max_by_key(|(length, _)| *length).map(|(_, kind)| kind.to_owned())
}
