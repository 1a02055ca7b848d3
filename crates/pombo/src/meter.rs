//! What is measured of the process and of where its store is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pombo_engine::Engine;
use pombo_kernel::time::Clock;
use pombo_store::meter::{Family, Sheet, gauge, show};
use pombo_store::shell::Readership;
use prometheus::{PullingGauge, Registry};

use crate::clock::SystemClock;

/// What a folder on a disk has, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// That this process may fill.
    pub(crate) free: u64,
    pub(crate) total: u64,
}

impl Disk {
    pub(crate) fn of(folder: &Path) -> std::io::Result<Disk> {
        let disk = rustix::fs::statvfs(folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Disk { free: bytes(disk.f_bavail), total: bytes(disk.f_blocks) })
    }
}

/// Shows when the process began and what it is.
pub(crate) fn show_process(registry: &Registry) {
    let started = gauge("process_start_time_seconds", "When the process began, in seconds since 1970.");
    started.set(SystemClock::new().now().millis() / 1_000);
    show(registry, started);
    let build = Family::gauge("pombo_build_info", "Which version runs; always 1.", &["version"]);
    let lay_out = |[build]: &[Family; 1]| vec![build.with([([env!("CARGO_PKG_VERSION")], 1.0)])];
    show(registry, Sheet::new([build], lay_out));
}

/// Shows how large the files of an embedded store are, and how much room their disk has. It is looked up when somebody
/// asks.
pub(crate) fn show_folder(registry: &Registry, folder: &Path) {
    let families = [
        Family::gauge("pombo_store_file_bytes", "How large the store's files are.", &["file"]),
        Family::gauge("pombo_store_disk_free_bytes", "Room that is left on the store's disk.", &[]),
        Family::gauge("pombo_store_disk_bytes", "Room that there is on the store's disk in all.", &[]),
    ];
    let folder = folder.to_owned();
    let lay_out = move |[files, free, total]: &[Family; 3]| {
        let size = |name: &str| number(std::fs::metadata(folder.join(name)).map_or(0, |file| file.len()));
        let disk = Disk::of(&folder).ok();
        vec![
            files.with([(["database"], size("pombo.db")), (["wal"], size("pombo.db-wal"))]),
            free.with(disk.iter().map(|disk| ([], number(disk.free)))),
            total.with(disk.iter().map(|disk| ([], number(disk.total)))),
        ]
    };
    show(registry, Sheet::new(families, lay_out));
}

/// Whoever tells how many readers there are, and how many of them read.
pub(crate) type Ask = Box<dyn Fn() -> Readership + Send + Sync>;

/// Shows the readers of a store, by whom they are for.
pub(crate) fn show_readers(registry: &Registry, pools: Vec<(&'static str, Ask)>) {
    let families = [
        Family::gauge("pombo_store_readers_busy", "Readers of the store that read just now.", &["for"]),
        Family::gauge("pombo_store_readers", "Readers of the store that there are.", &["for"]),
    ];
    let lay_out = move |[busy, total]: &[Family; 2]| {
        let pools = || pools.iter().map(|(name, ask)| (*name, ask()));
        vec![
            busy.with(pools().map(|(name, readers)| ([name], number(readers.busy as u64)))),
            total.with(pools().map(|(name, readers)| ([name], number(readers.total as u64)))),
        ]
    };
    show(registry, Sheet::new(families, lay_out));
}

/// Shows how far a database's clock, which decides everything, is ahead of this machine's.
pub(crate) fn show_clock(registry: &Registry, database: Arc<dyn Clock>) {
    let wall = SystemClock::new();
    let ahead = move || seconds(database.now().millis() - wall.now().millis());
    let help = "How far the database's clock is ahead of this machine's.";
    pulled(registry, "pombo_store_clock_ahead_seconds", help, ahead);
}

/// Shows how far the clock that everything goes by was set since now, ahead or back.
pub(crate) fn show_jumps(registry: &Registry, clock: Arc<dyn Clock>) {
    let read = |clock: &dyn Clock| (clock.now().millis(), clock.elapsed().as_secs_f64());
    let (time, elapsed) = read(&*clock);
    let moved = move || {
        let (now, passed) = read(&*clock);
        seconds(now - time) - (passed - elapsed)
    };
    let help = "How far the clock was set since the process began, beyond what has passed.";
    pulled(registry, "pombo_clock_moved_seconds", help, moved);
}

/// Shows whether the engine has stopped sending for want of a durable sign of life.
pub(crate) fn show_engine(registry: &Registry, engine: &Arc<Engine>) {
    let engine = Arc::clone(engine);
    let help = "Whether nothing is sent because no sign of life could be written for 30 seconds.";
    pulled(registry, "pombo_engine_silent", help, move || f64::from(u8::from(engine.is_silent())));
}

/// Shows how many spans of traces were not handed on.
pub(crate) fn show_traces(registry: &Registry, lost: Arc<AtomicU64>) {
    let family =
        Family::counter("pombo_trace_spans_lost_total", "Spans that no collector took in time.", &[]);
    let lay_out =
        move |[family]: &[Family; 1]| vec![family.with([([], number(lost.load(Ordering::Relaxed)))])];
    show(registry, Sheet::new([family], lay_out));
}

fn pulled(registry: &Registry, name: &str, help: &str, value: impl Fn() -> f64 + Send + Sync + 'static) {
    let gauge = PullingGauge::new(name, help, Box::new(value)).expect("names of metrics are fixed and sound");
    show(registry, gauge);
}

#[allow(clippy::cast_precision_loss, reason = "a scrape tells numbers as floats")]
fn number(count: u64) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss, reason = "a scrape tells numbers as floats")]
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1_000.0
}
