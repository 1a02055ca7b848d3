//! The database's clock, as a node knows it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::{Clock, Span, Time};

/// Differences up to this are made good by standing still; a clock that was set back further is followed at once.
const PATIENCE: Span = Span::from_secs(1);

/// Local time, corrected to the database's, which decides leases and due times for all nodes.
///
/// It stands still rather than step back by a little, as each look at the database would otherwise make it do.
#[derive(Debug)]
pub struct DatabaseClock {
    local: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What to add to the local time.
    ahead_ms: i64,
    told: Time,
}

impl DatabaseClock {
    /// Agrees with the local clock until it is told otherwise.
    pub fn new(local: Arc<dyn Clock>) -> DatabaseClock {
        DatabaseClock { local, state: Mutex::default() }
    }

    /// What time it is here, to be shown to [`DatabaseClock::saw`] with the answer.
    pub fn local(&self) -> Time {
        self.local.now()
    }

    /// Takes note of what the database's clock said in answer to a question that was asked at this local time.
    ///
    /// It looked at some moment between then and now. What is known already is believed as long as that allows, so that
    /// an answer which was long on its way moves nothing.
    pub fn saw(&self, database: Time, asked: Time) {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::ClockUnfollowed) {
            return;
        }
        let ahead_of = |local: Time| database.millis().saturating_sub(local.millis());
        let (least, most) = (ahead_of(self.local.now()), ahead_of(asked));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ahead_ms = state.ahead_ms.clamp(least, most.max(least));
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Time {
        let local = self.local.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Time::from_millis(local.millis().saturating_add(state.ahead_ms));
        if now > state.told || state.told.since(now) > PATIENCE {
            state.told = now;
        }
        state.told
    }

    fn elapsed(&self) -> Duration {
        self.local.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn now(&self) -> Time {
            Time::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn the_databases_clock_is_followed_and_a_small_correction_never_goes_back() {
        let hand = Arc::new(Hand::default());
        let clock = DatabaseClock::new(hand.clone());
        let at = |local: i64| {
            hand.0.store(local, Ordering::Relaxed);
            clock.now().millis()
        };
        assert_eq!(at(1_000), 1_000);
        // Asked at 1000, answered by 1200: the database is 800 to 1000 ahead, so 800 at least.
        hand.0.store(1_200, Ordering::Relaxed);
        clock.saw(Time::from_millis(2_000), Time::from_millis(1_000));
        assert_eq!(at(1_200), 2_000);
        // An answer that was long on its way agrees with that, whenever the database looked.
        hand.0.store(1_300, Ordering::Relaxed);
        clock.saw(Time::from_millis(2_050), Time::from_millis(1_200));
        assert_eq!(at(1_300), 2_100);
        // It turns out to be only 600 ahead: time stands until that is made good.
        clock.saw(Time::from_millis(1_900), Time::from_millis(1_300));
        assert_eq!((at(1_300), at(1_400), at(1_500), at(1_600)), (2_100, 2_100, 2_100, 2_200));
        hand.0.store(1_500, Ordering::Relaxed);
        // Another server, an hour behind, is followed at once.
        clock.saw(Time::from_millis(1_500 - 3_600_000), Time::from_millis(1_500));
        assert_eq!((at(1_500), at(1_600)), (1_500 - 3_600_000, 1_600 - 3_600_000));
    }
}
