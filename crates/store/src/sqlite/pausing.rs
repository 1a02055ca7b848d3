//! A store that waits for a person: because it was told to, or because its file is older than what was here last.
//!
//! Beside the file lies a note of how far its audit chain had come. A file that is put back from some copy ends before
//! it. (Whoever puts the whole folder back puts the note back as well; copies by `pombo store backup` know what they
//! are.)

use std::fs;
use std::path::{Path, PathBuf};

use pombo_kernel::message::Actor;
use pombo_kernel::time::{Span, Time};
use rusqlite::params;

use super::moving::{PAUSED, paused};
use super::{Sqlite, rows, sql};
use crate::anchor::Hex;
use crate::audit::Tip;
use crate::moving::hex;
use crate::transition;
use crate::walls::Walls;
use crate::{Pause, StoreError};

/// How often the note is written.
const NOTE_EVERY: Span = Span::from_secs(60);

impl Sqlite {
    pub(super) fn pause_all(&mut self, pause: &Pause, by: &Actor) -> Result<(), StoreError> {
        self.write(sql!("meta_put"), params![PAUSED, pause.bytes()?])?;
        self.record(transition::paused(pause, by));
        self.board.paused = true;
        Ok(())
    }

    pub(super) fn resume_all(&mut self, by: &Actor, now: Time) -> Result<bool, StoreError> {
        if self.write(sql!("meta_delete"), [PAUSED])? == 0 {
            return Ok(false);
        }
        self.record(transition::resumed(by, now));
        self.board.paused = false;
        Ok(true)
    }

    /// Learns whether the store is paused, and pauses it if its file is not the one that was here last.
    pub(super) fn load_pause(&mut self) -> Result<(), StoreError> {
        self.board.paused = paused(&self.file.db)?.is_some();
        if self.board.paused || self.tip == Tip::default() {
            return Ok(());
        }
        let Some(Note { sequence, hash, .. }) = read_note(&note_of(self.file.path())) else { return Ok(()) };
        let block = rows::audit_blocks(&self.file.db, sequence.saturating_sub(1), 1)?.pop();
        let other = block.is_some_and(|block| block.sequence + 1 == sequence && hex(&block.hash) != hash);
        if self.tip.sequence >= sequence && !other {
            return Ok(());
        }
        let ended = rows::audit_blocks(&self.file.db, self.tip.sequence.saturating_sub(1), 1)?.pop();
        let pause = Pause {
            since: ended.map_or(Time::default(), |block| block.at),
            why: format!(
                "pombo.db is not the file that was here last: it ends after {} commits, of {sequence} or more; what \
                 waits in it may have been sent since it was copied",
                self.tip.sequence
            ),
        };
        self.pause_all(&pause, &Actor::engine())
    }

    /// Notes how far the chain has come, once that is durable. Nothing depends on it, so a failure is no matter.
    pub(super) fn note_tip(&mut self, now: Time) {
        if self.noted.is_some_and(|at| at <= now && now.since(at) < NOTE_EVERY) {
            return;
        }
        self.noted = Some(now);
        self.write_note();
    }

    fn write_note(&self) {
        let note = note_of(self.file.path());
        let fresh = note.with_extension("tip.new");
        let Tip { sequence, position, hash } = &self.tip;
        let text = format!("{sequence} {} {position}\n", hex(hash));
        let _ = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &note));
    }
}

impl Drop for Sqlite {
    /// Whoever wrote something and ends in peace leaves a note of all of it.
    fn drop(&mut self) {
        if self.noted.is_some() {
            self.write_note();
        }
    }
}

fn note_of(db: &Path) -> PathBuf {
    db.with_extension("tip")
}

struct Note {
    /// The number of commits, and the hash after the last of them.
    sequence: u64,
    hash: String,
    /// The number of records; earlier versions did not note it.
    position: Option<u64>,
}

/// Nothing if there is no note, or half a one.
fn read_note(path: &Path) -> Option<Note> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.strip_suffix('\n')?.split(' ');
    let (sequence, hash) = (words.next()?.parse().ok()?, words.next()?.to_owned());
    let position = words.next().map(str::parse).transpose().ok()?;
    (hash.len() == 64).then_some(Note { sequence, hash, position })
}

/// How far the chain of that file had come when it was last noted, beside the file itself.
pub(super) fn noted(db: &Path) -> Option<Tip> {
    let Note { sequence, hash, position } = read_note(&note_of(db))?;
    Some(Tip { sequence, position: position?, hash: hash.parse::<Hex<32>>().ok()?.0 })
}
