//! Work that only computes: one piece at a time, and where it holds up no request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::problem::{Code, Problem};

/// How long somebody waits until the one before is done. A piece takes a fraction of that.
const PATIENCE: Duration = Duration::from_secs(1);

/// Room for one piece of some kind.
#[derive(Debug)]
pub(crate) struct Stage {
    room: Arc<Semaphore>,
    /// What is computed there, as in "another simulation".
    what: &'static str,
}

impl Stage {
    pub(crate) fn new(what: &'static str) -> Stage {
        Stage { room: Arc::new(Semaphore::new(1)), what }
    }

    /// Computes it, or says that others are before. Whoever goes away meanwhile still has the room until it is done.
    pub(crate) async fn play<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let room = timeout(PATIENCE, Arc::clone(&self.room).acquire_owned()).await;
        let room = room.map_err(|_| self.busy())?.map_err(|_| Problem::internal())?;
        let playing = spawn_blocking(move || {
            let played = work();
            drop(room);
            played
        });
        playing.await.map_err(|_| Problem::internal())
    }

    fn busy(&self) -> Problem {
        let what = self.what;
        let detail = format!(
            "another {what} is being computed, and one at a time is enough for a server that has messages to send"
        );
        Problem::new(Code::Overloaded, detail, "try again in a moment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_is_played_at_a_time_and_the_next_is_told_so() {
        let stage = Stage::new("sum");
        let room = Arc::clone(&stage.room).try_acquire_owned().unwrap();
        assert_eq!(stage.play(|| ()).await.unwrap_err().code, Code::Overloaded);
        drop(room);
        assert_eq!(stage.play(|| 7).await, Ok(7), "and after that there is room again");
    }

    #[tokio::test]
    async fn a_panic_leaves_the_room_free() {
        let stage = Stage::new("sum");
        let fell = stage.play(|| -> u8 { panic!("on purpose") }).await;
        assert_eq!(fell.unwrap_err().code, Code::Internal);
        assert_eq!(stage.play(|| 7).await, Ok(7));
    }
}
