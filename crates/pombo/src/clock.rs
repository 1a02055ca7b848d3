//! The one place that reads the clock and rolls real dice. Everything else is handed a time and a seed.
#![allow(clippy::disallowed_methods, reason = "this is where time and chance enter")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pombo_kernel::time::{Clock, Time};
use tracing::warn;

/// How far wall and monotonic time may part before the wall is believed.
const TOLERANCE_MS: i64 = 1_000;

/// Wall time that does not twitch: it advances with the monotonic clock, and follows the wall only when the two
/// are more than a second apart (the machine slept, or somebody set the clock).
///
/// Small corrections of the wall would otherwise make intervals negative or let two things swap their order.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    /// Wall time less time since `start`, in milliseconds.
    offset: AtomicI64,
}

impl SystemClock {
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now(), offset: AtomicI64::new(wall_ms()) }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let elapsed = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        let before = self.offset.load(Ordering::Relaxed);
        match offset(before, elapsed, wall_ms()) {
            Offset::Kept => Time::from_millis(elapsed.saturating_add(before)),
            Offset::Moved(new) => {
                // One of the threads that see the jump records it, and says so once.
                let first = self.offset.compare_exchange(before, new, Ordering::Relaxed, Ordering::Relaxed);
                if first.is_ok() {
                    warn!(jump_ms = new - before, "the clock jumped; following it");
                }
                Time::from_millis(elapsed.saturating_add(new))
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Time that goes on evenly from the wall time at its start, whatever becomes of the wall, and also while the machine
/// sleeps.
///
/// For those who learn the true time elsewhere: a wall that is set wrong must not mislead them until they look again,
/// and a lease that ran out while the machine slept must not seem to hold.
#[derive(Debug)]
pub struct SteadyClock {
    /// Wall time less steady time, in milliseconds, at the start.
    offset: i64,
}

impl SteadyClock {
    pub fn new() -> SteadyClock {
        SteadyClock { offset: wall_ms().saturating_sub(steady_ms()) }
    }
}

impl Default for SteadyClock {
    fn default() -> SteadyClock {
        SteadyClock::new()
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Time {
        Time::from_millis(steady_ms().saturating_add(self.offset))
    }

    fn elapsed(&self) -> Duration {
        steady()
    }
}

fn steady_ms() -> i64 {
    i64::try_from(steady().as_millis()).unwrap_or(i64::MAX)
}

fn steady() -> Duration {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    // Not every system says for how long it slept.
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(id);
    let whole = |part: i64| u64::try_from(part).unwrap_or_default();
    Duration::from_secs(whole(time.tv_sec)) + Duration::from_nanos(whole(time.tv_nsec))
}

#[derive(Debug, PartialEq, Eq)]
enum Offset {
    Kept,
    Moved(i64),
}

/// What the offset between the clocks should be from now on.
fn offset(before: i64, elapsed_ms: i64, wall_ms: i64) -> Offset {
    let now = wall_ms.saturating_sub(elapsed_ms);
    let apart = now.saturating_sub(before).saturating_abs();
    if apart > TOLERANCE_MS { Offset::Moved(now) } else { Offset::Kept }
}

fn wall_ms() -> i64 {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => millis(since),
        Err(before) => -millis(before.duration()),
    }
}

/// Time since its start, for measuring. It knows no dates.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// 256 bits that nobody can guess, from the operating system.
///
/// Without them no key can be made and no audit block sealed, so a system that has none is not one to go on in.
pub fn entropy() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// A seed for dice.
pub fn seed() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = entropy();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_corrections_of_the_wall_are_ignored() {
        assert_eq!(offset(5_000, 100, 5_100), Offset::Kept);
        assert_eq!(offset(5_000, 100, 6_100), Offset::Kept);
        assert_eq!(offset(5_000, 100, 4_100), Offset::Kept);
    }

    #[test]
    fn a_jump_of_more_than_a_second_is_followed_either_way() {
        assert_eq!(offset(5_000, 100, 6_101), Offset::Moved(6_001));
        assert_eq!(offset(5_000, 100, 4_099), Offset::Moved(3_999));
        assert_eq!(offset(i64::MAX, 0, i64::MIN), Offset::Moved(i64::MIN));
    }

    #[test]
    fn the_clock_tells_the_time_and_never_steps_back_by_itself() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        assert!((last.millis() - wall_ms()).abs() <= TOLERANCE_MS);
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_steady_clock_begins_with_the_wall_and_never_steps_back() {
        let clock = SteadyClock::new();
        let mut last = clock.now();
        assert!((last.millis() - wall_ms()).abs() <= TOLERANCE_MS);
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn entropy_is_new_each_time() {
        assert_ne!(entropy(), entropy());
        assert_ne!(seed(), seed());
    }
}
