//! The dialogue with a mail client, and what becomes of its mails, for whoever tries bytes on them. Never in a release.

use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::time::Time;

use super::letter::{Way, drafts, trace_of};
use super::session::{LINE_BYTES_MAX, Letter, Tls};
use super::stage::{SIZE, Stage};

/// The most that a session may hold of what came, beside the piece that it is just given.
pub const HELD_MAX: usize = SIZE + LINE_BYTES_MAX;

/// What a client was told and what it handed in.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub said: Vec<u8>,
    /// From whom, to whom, and the mail.
    pub letters: Vec<(String, Vec<String>, Vec<u8>)>,
    pub over: bool,
    /// The most that was held at once; not what the pieces are compared by.
    pub most: usize,
}

/// A dialogue in which these pieces arrive, one after the other. The user `email` with the key `good` is known.
pub fn dialogue(pieces: &[&[u8]], encryption: bool) -> Told {
    let mut stage = Stage::new(if encryption { Tls::Offered } else { Tls::Never });
    pieces.iter().for_each(|piece| stage.hear(piece));
    let letters = stage.letters.into_iter().map(|letter| (letter.from, letter.to, letter.mail));
    Told { said: stage.said, letters: letters.collect(), over: stage.over, most: stage.most }
}

/// How many messages a mail becomes; or the code by which it is refused.
///
/// # Errors
/// The reply's code.
pub fn drafted(
    setup: &Setup,
    channel: &ChannelSetup,
    (from, to, mail): (String, Vec<String>, Vec<u8>),
    now: Time,
) -> Result<usize, u16> {
    let way = Way { name: "pombo.example".to_owned(), encrypted: true, now, chance: [7; 32] };
    let _ = trace_of(&mail);
    drafts(setup, channel, Letter { from, to, mail }, &way)
        .map(|made| made.drafts.len())
        .map_err(|reply| reply.code)
}
