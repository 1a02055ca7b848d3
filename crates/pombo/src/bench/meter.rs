//! What a workload costs: time, CPU and memory of this process, and CPU of a database server beside it.

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
    server: Option<u32>,
    server_cpu: Option<f64>,
}

/// What it came to. CPU and memory are unknown where there is no `/proc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    /// CPU seconds of the whole process, user and system.
    pub(crate) cpu: Option<f64>,
    /// The same of the server and all its children, those that are gone included.
    pub(crate) server_cpu: Option<f64>,
    pub(crate) peak_mib: Option<f64>,
}

impl Meter {
    /// Starts, and forgets the peak of whatever ran before. `server` is the process that a server consists of.
    pub(crate) fn start(server: Option<u32>) -> Meter {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let server_cpu = server.and_then(family_cpu);
        Meter { cpu: own_cpu(), server, server_cpu, watch: Stopwatch::start() }
    }

    pub(crate) fn stop(&self) -> Cost {
        let time = self.watch.elapsed();
        let since = |now: Option<f64>, before: Option<f64>| now.zip(before).map(|(now, before)| now - before);
        let cpu = since(own_cpu(), self.cpu);
        let server_cpu = since(self.server.and_then(family_cpu), self.server_cpu);
        Cost { time, cpu, server_cpu, peak_mib: memory_mib("VmHWM:") }
    }
}

/// What `/proc` knows of a process.
struct Process {
    name: String,
    parent: u32,
    /// CPU seconds, user and system.
    cpu: f64,
    /// Those of its children that are gone.
    gone: f64,
}

impl Process {
    fn of(process: &str) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name comes second, in brackets, and may hold anything.
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
        Some(Process {
            name: head.split_once('(')?.1.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            cpu: (ticks(11)? + ticks(12)?) / TICKS,
            gone: (ticks(13)? + ticks(14)?) / TICKS,
        })
    }
}

/// CPU seconds since this process began.
fn own_cpu() -> Option<f64> {
    Process::of("self").map(|process| process.cpu)
}

/// CPU seconds of a process and its children.
fn family_cpu(parent: u32) -> Option<f64> {
    let Process { cpu, gone, .. } = Process::of(&parent.to_string())?;
    let processes =
        std::fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let children = processes
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|name| Process::of(&name))
        .filter(|process| process.parent == parent);
    Some(cpu + gone + children.map(|child| child.cpu).sum::<f64>())
}

/// The process that a PostgreSQL on this machine consists of, by that of one of its sessions.
pub(crate) fn postmaster(session: i32) -> Option<u32> {
    let session = Process::of(&session.to_string()).filter(|it| it.name == "postgres")?;
    let parent = Process::of(&session.parent.to_string()).filter(|it| it.name == "postgres");
    parent.map(|_| session.parent)
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
