//! What servers reply, for whoever tries bytes on it. Never in a release.

use pombo_kernel::reply::{Refusal, Stage};

use super::said::{self, Heard};

/// What some bytes amount to.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// A whole reply: how many bytes it took, whether it says yes, its lines, and how it reads as a refusal.
    Whole {
        used: usize,
        positive: bool,
        lines: Vec<String>,
        refusal: Refusal,
    },
    More,
    Noise,
}

/// Reads the reply at the head of the bytes.
pub fn reply(bytes: &[u8]) -> Reply {
    match said::hear(bytes) {
        Heard::Whole(said, used) => Reply::Whole {
            used,
            positive: said.is_positive(),
            lines: said.lines().collect(),
            refusal: said.refusal(Stage::Data),
        },
        Heard::More => Reply::More,
        Heard::Noise => Reply::Noise,
    }
}

/// What a reply says that broke off, if its code says no.
pub fn broken_off(bytes: &[u8]) -> Option<Refusal> {
    said::heard_in_part(bytes).map(|said| said.refusal(Stage::Data))
}
