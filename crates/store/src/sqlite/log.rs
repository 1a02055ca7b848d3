//! The write-ahead log, read before SQLite reads it.
//!
//! SQLite takes the first frame that it cannot verify for the end of the log. After a crash that is right: the end is
//! whatever was being written. A frame that was spoilt in the middle looks the same to it, and whatever was committed
//! behind that frame is gone without a word.
//!
//! The two can be told apart, because a commit is flushed before anything is written behind it. A frame that was
//! made on top of a commit therefore shows that the commit, and all before it, had been on disk. So does the index
//! beside the log (`pombo.db-shm`), which is told of a commit after its flush. Whatever is missing then was lost, not
//! cut short. [`keep`] flushes what a process left that was killed, so that this also holds of commits which only the
//! next process finds.
//!
//! What no frame and no index speaks of can still be lost unseen: the last commit, where the index is gone as well.
//!
//! A store that is about to serve gives its log the size that it will have: see [`fill`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use super::file;
use crate::StoreError;
use crate::home::Salvaged;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;
/// As stores' pages are made, and were made once, for a log that cannot say it any more.
const PAGE_BYTES: [usize; 2] = [4_096, 8_192];
/// Of the index: its layout, and how long one of its two copies of the header is.
const INDEX_VERSION: u32 = 3_007_000;
const INDEX_HEADER_BYTES: usize = 48;

/// Two running sums, as SQLite makes them over pairs of words.
type Sums = [u32; 2];

/// A log that once held more than can be read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Everything before this byte is whole.
    pub(super) at: u64,
    /// At least so many commits cannot be read.
    pub(super) commits: u64,
}

impl Damage {
    fn error(&self, folder: &Path) -> StoreError {
        let Damage { at, commits } = self;
        let behind = if *commits == 1 { "a commit".to_owned() } else { format!("{commits} commits") };
        StoreError::Damaged {
            why: format!(
                "{} is spoilt at byte {at}, and {behind} or more behind it cannot be read",
                of(folder).display()
            ),
            hint: "look after the disk, keep a copy of the folder, and go back to the last backup; \
                   `pombo store salvage` goes on without what is lost"
                .to_owned(),
        }
    }
}

fn of(folder: &Path) -> PathBuf {
    folder.join(format!("{}-wal", file::NAME))
}

fn index_of(folder: &Path) -> PathBuf {
    folder.join(format!("{}-shm", file::NAME))
}

fn failed(folder: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    |error| StoreError::Unavailable(format!("cannot read {}: {error}", of(folder).display()))
}

/// Makes what the log has durable, and refuses one that is damaged. For whoever has the folder to himself, before
/// SQLite opens it.
pub(super) fn keep(folder: &Path) -> Result<(), StoreError> {
    match look(folder).map_err(failed(folder))? {
        Some(damage) => Err(damage.error(folder)),
        None => Ok(()),
    }
}

/// The same beside whoever has the folder. A log that is being written may look like anything, and its writer has
/// looked at it before.
pub(super) fn keep_beside(folder: &Path) -> Result<(), StoreError> {
    if look(folder).map_err(failed(folder))?.is_none() {
        return Ok(());
    }
    match file::lock(folder)? {
        Some(_mine) => keep(folder),
        None => Ok(()),
    }
}

/// Cuts the log off where it is damaged and keeps a copy of it; nothing if it is not. For whoever has the folder to
/// himself.
pub(super) fn cut(folder: &Path) -> Result<Option<Salvaged>, StoreError> {
    let cut = || -> io::Result<Option<Salvaged>> {
        let Some(Damage { at, commits }) = look(folder)? else { return Ok(None) };
        let copy = (1..)
            .map(|n| folder.join(format!("{}-wal.damaged-{n}", file::NAME)))
            .find(|copy| !copy.exists())
            .unwrap_or_else(|| folder.join("damaged"));
        // Whatever it dies at, the damage is told of again or is gone.
        fs::copy(of(folder), &copy)?;
        File::open(&copy)?.sync_all()?;
        File::open(folder)?.sync_all()?;
        if let Err(error) = fs::remove_file(index_of(folder))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let log = OpenOptions::new().write(true).open(of(folder))?;
        log.set_len(at)?;
        log.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(Some(Salvaged { at, commits, copy }))
    };
    cut().map_err(|error| StoreError::Unavailable(format!("cannot cut {}: {error}", of(folder).display())))
}

/// Makes the log as long as so many pages need, with zeros behind what it has: a flush into a file that grows takes
/// half as long again, as it has to note where the new blocks are. Where there is no room, the log stays as it was.
///
/// SQLite takes the first zeros for the end. For whoever has the folder to himself.
pub(super) fn fill(folder: &Path, pages: u64, page_bytes: u32) -> Result<(), StoreError> {
    let until = HEADER_BYTES as u64 + pages * (FRAME_HEADER_BYTES as u64 + u64::from(page_bytes));
    let fill = || -> io::Result<()> {
        let mut log = OpenOptions::new().write(true).open(of(folder))?;
        let had = log.seek(io::SeekFrom::End(0))?;
        if had >= until {
            return Ok(());
        }
        let zeros = io::repeat(0).take(until - had);
        let filled = io::copy(&mut BufReader::with_capacity(1 << 18, zeros), &mut log);
        let flushed = filled.and_then(|_| log.sync_all());
        if flushed.is_err() {
            log.set_len(had)?;
        }
        flushed
    };
    fill().map_err(|error| StoreError::Unavailable(format!("cannot fill {}: {error}", of(folder).display())))
}

fn look(folder: &Path) -> io::Result<Option<Damage>> {
    // The index first: a log that grows meanwhile has more than that, not less.
    let index = match fs::read(index_of(folder)) {
        Ok(bytes) => Index::read(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let log = match File::open(of(folder)) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    log.sync_all()?;
    judge(&mut BufReader::with_capacity(1 << 18, log), index)
}

/// How the log begins.
#[derive(Clone, Copy)]
struct Header {
    page_bytes: usize,
    order: Order,
    salts: [u8; 8],
    sums: Sums,
}

/// In which order the sums take the bytes of a word.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

const NATIVE: Order = if cfg!(target_endian = "big") { Order::Big } else { Order::Little };

impl Header {
    /// Nothing if SQLite would not take it for the beginning of a log.
    fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let order = match word(bytes, 0) {
            MAGIC => Order::Little,
            magic if magic == MAGIC | 1 => Order::Big,
            _ => return None,
        };
        let page_bytes = word(bytes, 8) as usize;
        let sums = summed(order, [0, 0], &bytes[..24]);
        let plausible = page_bytes.is_power_of_two() && (512..=65_536).contains(&page_bytes);
        let salts = bytes[16..24].try_into().ok()?;
        (plausible && sums == [word(bytes, 24), word(bytes, 28)]).then_some(Header {
            page_bytes,
            order,
            salts,
            sums,
        })
    }
}

/// What a frame says of itself.
#[derive(Clone, Copy)]
struct Frame {
    page: u32,
    /// It is the last of a commit.
    commits: bool,
    salts: [u8; 8],
    sums: Sums,
}

impl Frame {
    fn read(bytes: &[u8]) -> Frame {
        let mut salts = [0; 8];
        salts.copy_from_slice(&bytes[8..16]);
        Frame {
            page: word(bytes, 0),
            commits: word(bytes, 4) != 0,
            salts,
            sums: [word(bytes, 16), word(bytes, 20)],
        }
    }
}

/// What the index knows: so many frames of the log with these salts were committed and flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Index {
    frames: u64,
    salts: [u8; 8],
}

impl Index {
    /// Nothing if it is unfinished, was spoilt, or is of another layout.
    fn read(bytes: &[u8]) -> Option<Index> {
        let header = bytes.get(..INDEX_HEADER_BYTES)?;
        let again = bytes.get(INDEX_HEADER_BYTES..2 * INDEX_HEADER_BYTES)?;
        let native = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&header[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        let whole = header == again
            && native(0) == INDEX_VERSION
            && header[12] == 1
            && summed(NATIVE, [0, 0], &header[..40]) == [native(40), native(44)];
        let salts = header[32..40].try_into().ok()?;
        whole.then(|| Index { frames: u64::from(native(16)), salts })
    }
}

/// Reads a log from its start.
fn judge(log: &mut (impl io::Read + io::Seek), index: Option<Index>) -> io::Result<Option<Damage>> {
    let mut start = [0; HEADER_BYTES];
    if !filled(log, &mut start)? {
        return Ok(None);
    }
    if let Some(header) = Header::read(&start) {
        return walk(log, Some(header), header.page_bytes, index);
    }
    for page_bytes in PAGE_BYTES {
        log.seek(io::SeekFrom::Start(HEADER_BYTES as u64))?;
        if let Some(damage) = walk(log, None, page_bytes, index)? {
            return Ok(Some(damage));
        }
    }
    Ok(None)
}

/// Reads what follows on the header.
fn walk(
    log: &mut impl io::Read,
    header: Option<Header>,
    page_bytes: usize,
    index: Option<Index>,
) -> io::Result<Option<Damage>> {
    let order = header.map_or(NATIVE, |header| header.order);
    let frame_bytes = FRAME_HEADER_BYTES + page_bytes;

    // The frames that follow on the header, and the sums after them, for as long as they do.
    let (mut whole, mut sums) = (0, header.map(|header| header.sums));
    let mut before: Option<Frame> = None;
    let (mut commits, mut spoken_for) = (0, false);
    let mut bytes = vec![0; frame_bytes];
    while filled(log, &mut bytes)? {
        let frame = Frame::read(&bytes);
        let salts = header.map_or(before.map(|before| before.salts), |header| Some(header.salts));
        let ours = frame.page != 0 && salts == Some(frame.salts);
        let follows = |sums: Sums| {
            let sums = summed(order, summed(order, sums, &bytes[..8]), &bytes[FRAME_HEADER_BYTES..]);
            ours && sums == frame.sums
        };
        if sums.is_some_and(follows) {
            whole += 1;
            sums = Some(frame.sums);
        } else {
            sums = None;
            // Made on top of the one before, which is beyond the hole. (A commit that is padded to the end of a sector
            // repeats its last frame, before it is flushed.)
            let on_top = before.filter(|before| before.salts == frame.salts && follows(before.sums));
            if on_top.is_some_and(|it| it.commits && !(frame.commits && frame.page == it.page)) {
                commits += 1;
            }
            // The header is flushed before any frame is written.
            spoken_for |= header.is_none() && on_top.is_some();
        }
        before = Some(frame);
    }
    let known = index.filter(|index| header.is_some_and(|header| header.salts == index.salts));
    let short = known.is_some_and(|index| whole < index.frames);
    let at = match header {
        Some(_) => HEADER_BYTES as u64 + whole * frame_bytes as u64,
        None => 0,
    };
    Ok((commits > 0 || spoken_for || short).then(|| Damage { at, commits: commits.max(1) }))
}

/// Whether there was enough to fill it.
fn filled(from: &mut impl io::Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The numbers of a log are big-endian, whatever the sums go by.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

fn summed(order: Order, sums: Sums, bytes: &[u8]) -> Sums {
    match order {
        Order::Little => add(sums, bytes, u32::from_le_bytes),
        Order::Big => add(sums, bytes, u32::from_be_bytes),
    }
}

fn add([mut one, mut two]: Sums, bytes: &[u8], number: impl Fn([u8; 4]) -> u32) -> Sums {
    for &[a, b, c, d, e, f, g, h] in bytes.as_chunks::<8>().0 {
        one = one.wrapping_add(number([a, b, c, d])).wrapping_add(two);
        two = two.wrapping_add(number([e, f, g, h])).wrapping_add(one);
    }
    [one, two]
}

#[cfg(test)]
mod tests;
