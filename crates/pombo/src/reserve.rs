//! Room on the disk of an embedded store that nothing uses, for the day on which there is none left.
//!
//! A full disk has no room for what would make room: removing messages has to be written down, too. Whoever has nothing
//! else to delete deletes this file; the server goes on, and messages can be pruned.

use std::fs::{File, remove_file};
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use tracing::debug;

use crate::meter::Disk;

/// The file's name in the folder of a store.
const NAME: &str = "pombo.reserve";
/// As much as a full log needs to be carried over, and as much again.
const BYTES: u64 = 32 * 1024 * 1024;
/// It is not taken from a disk that has less than so many times as much.
const LEFT: u64 = 10;

/// Sets the room aside where there is enough of it. What cannot be had is not missed today.
pub(crate) fn keep(folder: &Path) {
    match reserved(folder) {
        Ok(true) => {}
        Ok(false) => debug!("the disk has too little room for a reserve"),
        Err(error) => debug!(%error, "no room could be reserved"),
    }
}

fn reserved(folder: &Path) -> io::Result<bool> {
    let path = folder.join(NAME);
    if path.metadata().is_ok_and(|file| file.len() >= BYTES) {
        return Ok(true);
    }
    if Disk::of(folder)?.free < LEFT * BYTES {
        return Ok(false);
    }
    let taken = File::create(&path).and_then(|file| Ok(fallocate(file, FallocateFlags::empty(), 0, BYTES)?));
    if taken.is_err() {
        let _ = remove_file(&path);
    }
    taken.map(|()| true)
}
