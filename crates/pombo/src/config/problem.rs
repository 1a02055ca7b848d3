//! What is wrong with a configuration: all of it, each with its place and a way out.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong: where, what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The key at fault, such as `lanes.bulk.workers`; or the file, where the fault is the file's.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { path: path.into(), what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  hint: {}", self.path, self.what, self.hint)
    }
}

/// Everything that is wrong with a configuration, in the order of its paths. Never empty as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    pub(super) fn say(&mut self, path: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) {
        self.0.push(Problem::new(path, what, hint));
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let gap = if number == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// "did you mean `workers`?", where one of the known words is near enough; else all of them, if they are few.
pub(crate) fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let near = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min();
    match near {
        Some((_, candidate)) => format!("did you mean `{candidate}`?"),
        None => format!("one of {}", listed(known)),
    }
}

/// `a`, `b`, `c`.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_suggested_and_otherwise_all_are_listed() {
        let known = ["workers", "weight"];
        assert_eq!(suggestion("worker", known), "did you mean `workers`?");
        assert_eq!(suggestion("wokrers", known), "did you mean `workers`?");
        assert_eq!(suggestion("colour", known), "one of `workers`, `weight`");
        assert_eq!(suggestion("colour", []), "one of none");
    }
}
