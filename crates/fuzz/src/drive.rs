//! Plays a target with what is kept, then with changes of it, until there were enough or somebody says that it is time.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use pombo_kernel::dice::Dice;

use crate::change::changed;
use crate::{Sign, Target, corpus};

/// So much input that led somewhere new is remembered and changed further.
const POOL_MAX: usize = 4_096;

/// How a target is to be played.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The same one plays the same input in the same order.
    pub seed: u64,
    /// How often, beside once with each of what is kept.
    pub runs: u64,
    pub corpus: &'a Path,
    /// Where each input is written before it is played, for what ends the process.
    pub careful: Option<&'a Path>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub kept: usize,
    pub runs: u64,
    /// Different kinds of outcomes.
    pub signs: usize,
}

/// Input on which a target failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub target: &'static str,
    pub input: Vec<u8>,
    pub why: String,
    /// Where it is kept now.
    pub file: Option<PathBuf>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.target, self.why)?;
        let shown = &self.input[..self.input.len().min(2_000)];
        writeln!(f, "input ({} bytes): \"{}\"", self.input.len(), shown.escape_ascii())?;
        match &self.file {
            Some(file) => write!(f, "kept as {}; mend it, and leave the file there", file.display()),
            None => write!(f, "it could not be written to the corpus"),
        }
    }
}

/// Plays it. `goes_on` is asked before each run.
///
/// # Errors
/// The first input on which the target failed; it is in the corpus then.
pub fn run(target: &Target, plan: &Plan<'_>, mut goes_on: impl FnMut() -> bool) -> Result<Done, Box<Failed>> {
    let fail = |input: &[u8], why: String| {
        let file = corpus::keep(target, plan.corpus, input).ok();
        Box::new(Failed { target: target.name, input: input.to_vec(), why, file })
    };
    let play = |input: &[u8]| {
        if let Some(file) = plan.careful {
            std::fs::write(file, input).map_err(|error| fail(input, error.to_string()))?;
        }
        let played = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        played.map_err(|panic| fail(input, words(&*panic)))
    };
    let mut pool = corpus::seeds(target, plan.corpus).map_err(|error| fail(b"", error.to_string()))?;
    if pool.is_empty() {
        return Err(fail(b"", "there is nothing in the corpus to begin with".to_owned()));
    }
    let (kept, mut signs, mut runs) = (pool.len(), std::collections::BTreeSet::<Sign>::new(), 0);
    for input in &pool {
        signs.insert(play(input)?);
    }
    let mut dice = Dice::seeded(plan.seed);
    while runs < plan.runs && goes_on() {
        runs += 1;
        let [one, other] =
            [(); 2].map(|()| usize::try_from(dice.below(pool.len() as u64)).unwrap_or_default());
        let input = changed(&pool[one], &pool[other], target.words, target.bytes_max, &mut dice);
        if signs.insert(play(&input)?) && pool.len() < POOL_MAX {
            pool.push(input);
        }
    }
    Ok(Done { kept, runs, signs: signs.len() })
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}
