//! The input that is kept: a folder for each target, a file for each input.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Sign, Target};

/// Where the folders lie.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// All that is kept for a target, in the order of the files' names, and what is made.
///
/// # Errors
/// Where its folder cannot be read.
pub fn seeds(target: &Target, corpus: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(corpus.join(target.name))? {
        files.push(entry?.path());
    }
    files.sort();
    let kept = files.iter().map(std::fs::read).collect::<io::Result<Vec<_>>>()?;
    Ok(kept.into_iter().chain((target.made)()).collect())
}

/// Writes all that a target begins with to a folder, and the words that mean something to it to a file beside it, as
/// libFuzzer wants its dictionaries.
///
/// # Errors
/// Where something cannot be read or written.
pub fn copy(target: &Target, corpus: &Path, to: &Path) -> io::Result<()> {
    let folder = to.join(target.name);
    std::fs::create_dir_all(&folder)?;
    for (number, seed) in seeds(target, corpus)?.iter().enumerate() {
        std::fs::write(folder.join(format!("{number:04}")), seed)?;
    }
    let word = |word: &&str| {
        let bytes = word.bytes().map(|byte| match byte {
            b'"' | b'\\' | 0..b' ' | 0x7f.. => format!("\\x{byte:02x}"),
            _ => char::from(byte).to_string(),
        });
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    std::fs::write(
        to.join(format!("{}.dict", target.name)),
        target.words.iter().map(word).collect::<String>(),
    )
}

/// Keeps input on which a target failed, under a name that the input gives it.
///
/// # Errors
/// Where it cannot be written.
pub fn keep(target: &Target, corpus: &Path, input: &[u8]) -> io::Result<PathBuf> {
    let folder = corpus.join(target.name);
    std::fs::create_dir_all(&folder)?;
    for known in std::fs::read_dir(&folder)? {
        let known = known?.path();
        if std::fs::read(&known)? == input {
            return Ok(known);
        }
    }
    let file = folder.join(format!("failed-{:016x}", Sign::of(input).0));
    std::fs::write(&file, input)?;
    Ok(file)
}
