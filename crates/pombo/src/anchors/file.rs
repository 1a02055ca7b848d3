//! Copies of anchors in a file, one a line, so that they are found where nobody who can write to the database can.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use pombo_store::anchor::Anchor;

/// More than any line has.
const TAIL: u64 = 4_096;

/// How far the last anchor in the file reaches; 0 if there is none. A line that was cut off is none.
pub(super) fn last(path: &Path) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let tail = String::from_utf8_lossy(&tail);
    let anchors = tail.lines().filter_map(|line| serde_json::from_str::<Anchor>(line).ok());
    Ok(anchors.map(|anchor| anchor.sequence).max().unwrap_or(0))
}

/// Adds anchors at the end, and comes back when they are on disk.
pub(super) fn append(path: &Path, anchors: &[Anchor]) -> io::Result<()> {
    if anchors.is_empty() {
        return Ok(());
    }
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
    // A line that was cut off stays alone.
    let mut end = [b'\n'];
    if file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut end)?;
    }
    let mut text = if end == *b"\n" { String::new() } else { "\n".to_owned() };
    for anchor in anchors {
        text.push_str(&serde_json::to_string(anchor).map_err(io::Error::other)?);
        text.push('\n');
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

/// The anchors of a file, and the numbers of lines that are none.
pub(crate) fn read(path: &Path) -> io::Result<(Vec<Anchor>, Vec<usize>)> {
    let (mut anchors, mut bad) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(BufReader::new(File::open(path)?).split(b'\n')) {
        let line = line?;
        match serde_json::from_slice(&line) {
            Ok(anchor) => anchors.push(anchor),
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => bad.push(number),
        }
    }
    Ok((anchors, bad))
}

#[cfg(test)]
mod tests {
    use pombo_kernel::time::Time;
    use pombo_store::anchor::Hex;

    use super::*;

    fn anchor(sequence: u64) -> Anchor {
        let (hash, key, signature) = (Hex([1; 32]), Hex([2; 32]), Hex([3; 64]));
        Anchor { sequence, position: sequence, hash, at: Time::default(), key, signature }
    }

    #[test]
    fn copies_are_added_and_the_last_one_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anchors.ndjson");
        assert_eq!(last(&path).unwrap(), 0);
        append(&path, &[]).unwrap();
        assert!(!path.exists());
        for n in 1..=20 {
            append(&path, &[anchor(2 * n), anchor(2 * n + 1)]).unwrap();
            assert_eq!(last(&path).unwrap(), 2 * n + 1);
        }
        assert_eq!(read(&path).unwrap().0.len(), 40);
    }

    #[test]
    fn a_line_that_was_cut_off_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anchors.ndjson");
        append(&path, &[anchor(3)]).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"sequence\":4,").unwrap();
        assert_eq!(last(&path).unwrap(), 3);
        append(&path, &[anchor(4)]).unwrap();
        let (anchors, bad) = read(&path).unwrap();
        assert_eq!((anchors, bad), (vec![anchor(3), anchor(4)], vec![2]));
    }
}
