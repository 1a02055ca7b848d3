//! A short run of every target, with input that is kept and changes of it; and the driver itself.

// Clippy knows functions marked as tests, not what they share.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;

use pombo_fuzz::drive::{Done, Plan, run};
use pombo_fuzz::{Sign, TARGETS, Target, corpus, target};

/// All that is kept, in bytes.
const CORPUS_BYTES_MAX: u64 = 300_000;

fn play(name: &str) {
    let target = target(name).unwrap();
    let folder = corpus::folder();
    let asked = std::env::var("POMBO_FUZZ_RUNS").ok().and_then(|text| text.parse().ok());
    let plan = Plan { seed: 1, runs: asked.unwrap_or(target.short_runs), corpus: &folder, careful: None };
    match run(target, &plan, || true) {
        Ok(done) => {
            println!("result fuzz target={name} kept={} runs={} signs={}", done.kept, done.runs, done.signs);
        }
        Err(failed) => panic!("{failed}"),
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            play(stringify!($name));
        })*

        #[test]
        fn every_target_is_played() {
            let played = BTreeSet::from([$(stringify!($name)),*]);
            let known: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(played, known);
        }
    };
}

targets! {
    address answer config door hint list mail ndjson receipt request smtp_reply submission template trace word xml
}

#[test]
fn every_folder_of_the_corpus_has_a_target_and_all_of_it_is_small() {
    let mut bytes = 0;
    for folder in std::fs::read_dir(corpus::folder()).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(target(&name).is_some(), "{name}");
        let files = std::fs::read_dir(folder).unwrap();
        bytes += files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
    }
    assert!(bytes < CORPUS_BYTES_MAX, "{bytes} bytes");
}

/// One that falls over when it meets a number that it did not expect.
const BRITTLE: Target = Target {
    name: "brittle",
    run: |bytes| {
        let words = String::from_utf8_lossy(bytes);
        let number = words.split(' ').filter_map(|word| word.parse::<u64>().ok()).max();
        assert!(number != Some(65_536), "too large by one");
        Sign::of(number.map(u64::checked_ilog2))
    },
    words: &[],
    made: || vec![b"take 17 of them".to_vec()],
    bytes_max: 100,
    short_runs: 0,
};

#[test]
fn what_breaks_is_found_told_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("brittle")).unwrap();
    let plan = Plan { seed: 1, runs: 20_000, corpus: folder.path(), careful: None };
    let failed = run(&BRITTLE, &plan, || true).unwrap_err();
    assert!(failed.why.contains("too large by one"), "{failed}");
    let kept = std::fs::read(failed.file.as_ref().unwrap()).unwrap();
    assert_eq!(kept, failed.input);
    assert!(failed.to_string().contains("65536"), "{failed}");
    // From now on it is played first.
    let none = Plan { runs: 0, ..plan };
    assert_eq!(run(&BRITTLE, &none, || true).unwrap_err().input, kept);
}

#[test]
fn what_a_target_begins_with_is_copied_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let target = target("config").unwrap();
    corpus::copy(target, &corpus::folder(), folder.path()).unwrap();
    let copied = std::fs::read_dir(folder.path().join("config")).unwrap().count();
    assert_eq!(copied, corpus::seeds(target, &corpus::folder()).unwrap().len());
    let words = std::fs::read_to_string(folder.path().join("config.dict")).unwrap();
    assert_eq!(words.lines().count(), target.words.len());
    assert!(words.lines().any(|line| line == r#""profile = \x22development\x22\x0a""#), "{words}");
}

#[test]
fn the_same_seed_plays_the_same() {
    let folder = corpus::folder();
    let play = |seed| {
        let plan = Plan { seed, runs: 300, corpus: &folder, careful: None };
        run(target("hint").unwrap(), &plan, || true).unwrap()
    };
    assert_eq!(play(1), play(1));
    let Done { runs, .. } =
        run(target("hint").unwrap(), &Plan { seed: 1, runs: 300, corpus: &folder, careful: None }, || false)
            .unwrap();
    assert_eq!(runs, 0, "it ends when it is time");
}
