//! Reads the tree and refuses what a reviewer should not have to catch.
//!
//! Each rule is a test of its own, so that the name of a failure says what is wrong. What is only worth a look
//! is printed, past the test runner's capture, and fails nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::SplitWhitespace;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Which of our crates each one may name, in any kind of dependency.
const EDGES: [(&str, &[&str]); 9] = [
    ("pombo-kernel", &[]),
    ("pombo-store", &["pombo-kernel", "pombo-testbed"]),
    ("pombo-channels", &["pombo-kernel", "pombo-testbed"]),
    ("pombo-engine", &["pombo-kernel", "pombo-store", "pombo-channels"]),
    ("pombo-web", &["pombo-kernel", "pombo-store"]),
    (
        "pombo",
        &["pombo-kernel", "pombo-store", "pombo-channels", "pombo-engine", "pombo-web", "pombo-testbed"],
    ),
    ("pombo-sim", &["pombo-kernel", "pombo-store", "pombo-engine"]),
    ("pombo-fuzz", &["pombo-kernel", "pombo-store", "pombo-channels", "pombo-web", "pombo"]),
    ("pombo-testbed", &[]),
];

/// What a crate must not build on. Tests may: they have to look behind the seams.
const STRANGERS: [(&str, &[&str]); 6] = [
    ("pombo-store", &["axum", "hyper", "hyper-util", "lettre", "reqwest"]),
    ("pombo-channels", &["axum", "rusqlite", "tokio-postgres"]),
    ("pombo-engine", &["axum", "hyper", "hyper-util", "lettre", "reqwest", "rusqlite", "tokio-postgres"]),
    ("pombo-web", &["lettre", "reqwest", "rusqlite", "tokio-postgres"]),
    ("pombo", &["axum", "lettre", "rusqlite", "tokio-postgres"]),
    ("pombo-sim", &["axum", "hyper", "hyper-util", "lettre", "reqwest"]),
];

/// Pure crates, without a clock, chance, logs, SQL or network of their own.
const KERNEL: &[&str] = &[
    "base64",
    "hmac",
    "jiff",
    "minijinja",
    "quick-xml",
    "regex",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
    "toml",
    "url",
];
const KERNEL_TESTS: &[&str] = &["divan", "proptest"];

const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are built in two majors, since others of our dependencies have not moved on.
const IN_TWO_MAJORS: &[&str] = &[
    "base64",
    "bit-vec",
    "bitflags",
    "const-oid",
    "fallible-iterator",
    "getrandom",
    "nom",
    "syn",
    "synstructure",
    "wasi",
    "windows-sys",
];

/// Names that say nothing of what is inside.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"];

const LONG_FILE_LINES: usize = 800;

#[test]
fn every_source_file_is_named_by_a_module() {
    let mut reached = BTreeSet::new();
    for package in ours() {
        for target in list(package, "targets") {
            follow_modules(Path::new(text(target, "src_path")), Place::Root, &mut reached);
        }
    }
    // A client for the tests and what cargo-fuzz runs, each in a workspace of its own.
    for first in ["tests/clients/resend-rs/src/main.rs", "fuzz/fuzz_targets/any.rs"] {
        follow_modules(&ROOT.join(first), Place::Root, &mut reached);
    }
    let stray = rust_files().filter(|file| !reached.contains(&ROOT.join(file)));
    refuse(stray.map(|file| file.display().to_string()), "name it with `mod`, or delete it");
}

#[test]
fn the_kernel_depends_on_pure_crates_only() {
    let allowed = |dependency: &&Value| match dependency["kind"].as_str() {
        None => KERNEL.contains(&text(dependency, "name")),
        Some("dev") => KERNEL.iter().chain(KERNEL_TESTS).any(|name| *name == text(dependency, "name")),
        Some(_) => false,
    };
    let kernel = ours().find(|package| text(package, "name") == "pombo-kernel").expect("there is a kernel");
    let others = list(kernel, "dependencies").filter(|it| !allowed(it)).map(|it| text(it, "name").to_owned());
    refuse(others, "keep the kernel pure; if this crate is, add it to the list in this test");
}

#[test]
fn crates_depend_on_each_other_only_as_the_map_allows() {
    let names: BTreeSet<&str> = ours().map(|package| text(package, "name")).collect();
    let mut wrong = Vec::new();
    for package in ours() {
        let name = text(package, "name");
        let Some((_, may)) = EDGES.iter().find(|(from, _)| *from == name) else {
            wrong.push(format!("{name} is not on the map"));
            continue;
        };
        let dependencies = list(package, "dependencies").map(|it| text(it, "name"));
        let forbidden = dependencies.filter(|to| names.contains(to) && !may.contains(to));
        wrong.extend(forbidden.map(|to| format!("{name} -> {to}")));
    }
    refuse(wrong, "ARCHITECTURE.md says which crate may know which; change both or neither");
}

#[test]
fn crates_keep_to_their_own_trade() {
    let mut wrong = Vec::new();
    for (name, never) in STRANGERS {
        for package in ours().filter(|package| text(package, "name") == name) {
            let built_on = list(package, "dependencies").filter(|it| it["kind"].is_null());
            let strangers = built_on.map(|it| text(it, "name")).filter(|it| never.contains(it));
            wrong.extend(strangers.map(|it| format!("{name} -> {it}")));
        }
    }
    refuse(wrong, "SQL belongs in store, providers' protocols in channels, HTTP doors in web");
}

#[test]
fn only_tests_use_the_testbed() {
    let uses = |package: &&Value| {
        let mut needs = list(package, "dependencies");
        needs.any(|it| text(it, "name") == "pombo-testbed" && it["kind"] != "dev")
    };
    let users = ours().filter(uses).map(|package| text(package, "name").to_owned());
    refuse(users, "what ships must not carry what tests are made with: a dev-dependency");
}

#[test]
fn planted_bugs_are_for_the_simulators_tests_alone() {
    let mut wrong = Vec::new();
    for package in ours() {
        let name = text(package, "name");
        let switched_on = |dependency: &&Value| list(dependency, "features").any(|it| it == "planted");
        for dependency in list(package, "dependencies").filter(switched_on) {
            if name != "pombo-sim" || dependency["kind"] != "dev" {
                wrong.push(format!("{name} -> {}", text(dependency, "name")));
            }
        }
        let by_default = package["features"]["default"].as_array().into_iter().flatten();
        if by_default.filter_map(Value::as_str).any(|feature| feature.contains("planted")) {
            wrong.push(format!("{name}, by default"));
        }
    }
    refuse(wrong, "a bug that can be switched on must not be in any build that somebody runs");
}

#[test]
fn what_only_fuzzing_needs_is_in_no_build_that_ships() {
    let mut wrong = Vec::new();
    for package in ours() {
        let name = text(package, "name");
        for dependency in list(package, "dependencies") {
            let opens = list(dependency, "features").any(|it| it == "fuzz");
            if (opens && name != "pombo-fuzz") || text(dependency, "name") == "pombo-fuzz" {
                wrong.push(format!("{name} -> {}", text(dependency, "name")));
            }
        }
        let features = package["features"].as_object().into_iter().flatten();
        let opened = features.filter(|(_, implied)| implied.to_string().contains("fuzz"));
        wrong.extend(opened.map(|(feature, _)| format!("{name}, by `{feature}`")));
    }
    refuse(wrong, "only pombo-fuzz switches `fuzz` on, and nobody builds on pombo-fuzz");
}

#[test]
fn whatever_the_embedded_store_keeps_the_other_keeps_too() {
    let tables = |dialect: &str| -> BTreeSet<String> {
        let folder = Path::new("crates/store/sql").join(dialect).join("migrations");
        let migrations = FILES.iter().filter(|file| file.starts_with(&folder));
        migrations.flat_map(|file| all_matches(r"(?m)^CREATE TABLE (\w+)", &read(file))).collect()
    };
    // What PostgreSQL has an index for.
    let index = |table: &String| ["directory", "directory_end"].contains(&table.as_str());
    let (embedded, shared) = (tables("sqlite"), tables("postgres"));
    assert!(embedded.contains("message"), "{embedded:?}");
    refuse(
        embedded.difference(&shared).filter(|table| !index(table)).cloned(),
        "the same noun in both dialects",
    );
}

#[test]
fn every_sql_file_is_named_by_the_store_of_its_dialect() {
    let unnamed = ["sqlite", "postgres"].iter().flat_map(|dialect| {
        let sources = Path::new("crates/store/src");
        let of_dialect = |file: &&PathBuf| {
            file.starts_with(sources.join(dialect)) || **file == sources.join(format!("{dialect}.rs"))
        };
        let code: String = FILES.iter().filter(of_dialect).map(read).collect();
        let folder = Path::new("crates/store/sql").join(dialect);
        let names = FILES.iter().filter_map(move |file| file.strip_prefix(&folder).ok());
        let names = names.map(|file| file.with_extension("").display().to_string());
        // Whole, or made of a prefix and the name of a table.
        let is_named = |name: &String| {
            let prefix = name.split_inclusive('_').next().unwrap_or(name);
            code.contains(&format!("\"{name}\"")) || code.contains(&format!("/{prefix}\""))
        };
        names.filter(|name| !is_named(name)).collect::<Vec<_>>()
    });
    refuse(unnamed, "a statement that nobody runs is deleted");
}

#[test]
fn every_error_code_has_an_entry_and_every_entry_a_code() {
    let codes: BTreeSet<String> = &codes_of_the_api() | &codes_of_the_command_line();
    let entries = all_matches(r"(?m)^#{2,3} `?([A-Z][A-Z0-9_]{3,})`?\s*$", &read("docs/errors.md"));
    let unexplained = codes.difference(&entries).map(|code| format!("{code}: no entry in docs/errors.md"));
    let unused = entries.difference(&codes).map(|code| format!("{code}: an entry, but not a code"));
    refuse(unexplained.chain(unused), "an entry is a heading with the code, and what, why and what next");
}

#[test]
fn every_configuration_key_is_in_the_reference() {
    const REFERENCE: &str = "docs/reference/configuration.md";
    let run = Command::new(env!("CARGO_BIN_EXE_pombo")).args(["config", "schema"]).output();
    let run = run.expect("the binary can be started");
    assert!(run.status.success(), "`pombo config schema`: {}", String::from_utf8_lossy(&run.stderr));
    let schema: Value = serde_json::from_slice(&run.stdout).expect("`pombo config schema` prints JSON");
    let keys = keys_below(&schema, &schema, "", 16);
    assert!(!keys.is_empty(), "`pombo config schema` names no key");
    let rows = all_matches(r"(?m)^\| `([a-z0-9_.<>\[\]]+)` \|", &read(REFERENCE));
    let missing = keys.difference(&rows).map(|key| format!("{key}: not in {REFERENCE}"));
    let stale = rows.difference(&keys).map(|key| format!("{key}: in {REFERENCE}, but not a key"));
    refuse(missing.chain(stale), "each key is the first cell of a row: | `lanes.<name>.workers` | …");
}

#[test]
fn no_file_or_module_has_an_empty_name() {
    let module = Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)").expect("a valid pattern");
    let mut wrong = Vec::new();
    for file in FILES.iter() {
        let stems = file.iter().map(|part| Path::new(part).file_stem().unwrap_or(part));
        if stems.filter_map(|stem| stem.to_str()).any(|stem| EMPTY_NAMES.contains(&stem)) {
            wrong.push(file.display().to_string());
        }
    }
    for file in rust_files() {
        let source = read(file);
        let names = module.captures_iter(&source).map(|found| found[1].to_owned());
        let empty = names.filter(|name| EMPTY_NAMES.contains(&name.as_str()));
        wrong.extend(empty.map(|name| format!("{}: mod {name}", file.display())));
    }
    refuse(wrong, "name the thing that is inside");
}

#[test]
fn no_test_is_set_aside() {
    let lines = lines_with(rust_files(), r"#\[\s*(ignore\b|cfg_attr\([^\]]*,\s*ignore\b)");
    refuse(lines, "a test that does not run protects nothing: make it quick, or delete it");
}

#[test]
fn nothing_is_left_unfinished() {
    let pattern = concat!(r"\b(to", r"do|unimplemen", r"ted)!\s*[(\[{]|\bFIX", r"ME\b");
    refuse(lines_with(rust_files(), pattern), "finish it, or leave it out and say so in the changelog");
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    let pattern = r"(?:^|[^\w.-])/(?:root|work|home)/";
    let lines = lines_with(FILES.iter().map(PathBuf::as_path), pattern);
    refuse(lines, "use a relative path, or one from the environment");
}

#[test]
fn every_dependency_has_a_licence_that_we_allow() {
    let packages = list(metadata(), "packages");
    let refused = packages.filter(|package| !package["license"].as_str().is_some_and(licence_is_allowed));
    let described = refused.map(|package| {
        let licence = package["license"].as_str().unwrap_or("no licence expression");
        format!("{} {}: {licence}", text(package, "name"), text(package, "version"))
    });
    refuse(described, "choose another crate, or add the licence to the list in this test and say why");
}

#[test]
fn licence_expressions_are_read_as_written() {
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0"] {
        assert!(licence_is_allowed(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT WITH Odd-exception", "MIT MIT"] {
        assert!(!licence_is_allowed(bad), "{bad}");
    }
}

#[test]
fn no_other_crate_is_built_in_two_majors() {
    let mut majors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let entry = Regex::new(r#"name = "([^"]+)"\nversion = "([^"]+)""#).expect("a valid pattern");
    for found in entry.captures_iter(&read("Cargo.lock")) {
        majors.entry(found[1].to_owned()).or_default().insert(major(&found[2]));
    }
    let twice = majors.into_iter().filter(|(_, majors)| majors.len() > 1).map(|(name, _)| name);
    let new = twice.filter(|name| !IN_TWO_MAJORS.contains(&name.as_str()));
    refuse(
        new,
        "use the major that is there already; if that cannot be, add the crate to the list in this test",
    );
}

#[test]
fn every_dependency_is_locked_and_comes_from_the_registry() {
    let registry = r#"^source = "registry\+https://github.com/rust-lang/crates.io-index"$"#;
    let registry = Regex::new(registry).expect("a valid pattern");
    let lock = read("Cargo.lock");
    let elsewhere = lock.lines().filter(|line| line.starts_with("source = ") && !registry.is_match(line));
    let unlocked = ["scripts/test", "scripts/prove"].into_iter().flat_map(|script| {
        let building = Regex::new(r"^[^#]*\bcargo (build|fetch|run|test)\b").expect("a valid pattern");
        let lines: Vec<String> = read(script).lines().map(str::to_owned).collect();
        lines.into_iter().filter(move |line| building.is_match(line) && !line.contains("--locked"))
    });
    refuse(elsewhere.map(str::to_owned).chain(unlocked), "what is built is what was looked at: --locked");
}

#[test]
fn the_bill_of_materials_has_every_crate_of_the_binary_as_it_is_locked() {
    let run = |program: &str, words: &[&str]| {
        let run = Command::new(program).args(words).current_dir(&*ROOT).output();
        let run = run.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    let bill: Value = serde_json::from_str(&run("python3", &["scripts/sbom"])).expect("JSON");
    assert_eq!((text(&bill, "bomFormat"), text(&bill, "specVersion")), ("CycloneDX", "1.6"));
    let of = |part: &Value| format!("{} {}", text(part, "name"), text(part, "version"));
    let linked = list(&bill, "components").filter(|part| part["scope"] == "required").map(of);
    let linked: BTreeSet<String> = linked.chain([of(&bill["metadata"]["component"])]).collect();
    let edges = ["--package=pombo", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}"];
    let tree = run("cargo", &[&["tree", "--locked"], &edges[..]].concat());
    let built = tree.lines().filter_map(|line| line.split_once(" v"));
    let built = built.map(|(name, rest)| format!("{name} {}", rest.split(' ').next().unwrap_or(rest)));
    let missing = built.filter(|crate_| !linked.contains(crate_));
    let lock = read("Cargo.lock");
    let wrong = list(&bill, "components").filter(|part| {
        let entry = format!("name = \"{}\"\nversion = \"{}\"\n", text(part, "name"), text(part, "version"));
        let entry = lock.split("[[package]]\n").find(|it| it.starts_with(&entry));
        let checksum = part["hashes"][0]["content"].as_str();
        let ours = text(part, "name").starts_with("pombo-") || text(part, "name") == "sqlite";
        !ours && !checksum.is_some_and(|sum| entry.is_some_and(|entry| entry.contains(sum)))
    });
    assert!(linked.iter().any(|part| part.starts_with("sqlite ")), "SQLite comes inside a crate");
    refuse(missing.chain(wrong.map(of)), "scripts/sbom lists what `cargo tree` says, as Cargo.lock has it");
}

#[test]
fn no_crate_of_ours_may_have_unsafe_code() {
    assert!(read("Cargo.toml").contains("\nunsafe_code = \"forbid\"\n"), "the workspace forbids it");
    let crates = FILES.iter().filter(|file| file.starts_with("crates") && file.ends_with("Cargo.toml"));
    let crates = crates.filter(|file| file.iter().count() == 3);
    let lax = crates.filter(|file| !read(file).contains("\n[lints]\nworkspace = true\n"));
    refuse(lax.map(|file| file.display().to_string()), "say `[lints] workspace = true`");
    refuse(lines_with(rust_files(), r"allow\([^)]*unsafe_code"), "nothing here needs it");
}

/// One place may: mail that goes to strangers' servers is better encrypted for anybody than not at all.
#[test]
fn certificates_are_always_looked_at() {
    let ours = rust_files().filter(|file| !file.ends_with("channels/src/smtp/tls.rs"));
    let lax = concat!(r"\.dangerous", r"\(\)|danger_", "accept_invalid");
    refuse(lines_with(ours, lax), "a connection knows whom it talks to");
    let keys = all_matches(r"(?m)^\| `([a-z0-9_.<>\[\]]+)` \|", &read("docs/reference/configuration.md"));
    assert!(keys.contains("server.listen"), "{keys:?}");
    let lax = Regex::new("insecure|verify|skip|trust_all|allow_invalid").expect("a valid pattern");
    refuse(keys.into_iter().filter(|key| lax.is_match(key)), "no setting switches it off");
}

/// The pages that say what was proved and how.
#[test]
fn what_is_said_to_be_tested_is() {
    const PAGE: &str = "docs/reliability.md";
    let page = read(PAGE);
    let known: BTreeSet<String> = rust_files()
        .filter(|file| file.starts_with("crates"))
        .flat_map(|file| all_matches(r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?(?:async )?fn (\w+)", &read(file)))
        .collect();
    let named = all_matches(r"`([a-z0-9]+(?:_[a-z0-9]+){3,})`", &page);
    assert!(named.len() > 100, "{} tests are named", named.len());
    refuse(named.difference(&known).cloned(), "there is no test of that name: the page must not promise it");
    let section = |title: &str| page.split(title).nth(1).and_then(|rest| rest.split("\n## ").next());
    let faults = section("\n## Failure modes\n").expect("the page lists failure modes");
    let rows: BTreeSet<String> = all_matches(r"(?m)^\| (\d+) \| .+ \| .+ \|$", faults);
    refuse((1..=63).map(|n| n.to_string()).filter(|n| !rows.contains(n)), "each failure mode has a row");
    let risks = section("\n## Security\n").expect("the page lists risks");
    let risks: Vec<&str> = risks.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(risks.len(), 18, "each risk has a row");
    let silent = faults.lines().chain(risks).filter(|line| line.starts_with("| ") && !line.contains('`'));
    let silent = silent.filter(|line| !line.contains("**no test**") && !line.starts_with("| # |"));
    refuse(silent.map(str::to_owned), "a row names its tests, or says **no test**");
}

/// A warning only: the crates that pull an old major are mostly not ours to change.
#[test]
fn two_majors_of_one_crate_are_worth_a_look() {
    let mut majors: BTreeMap<&str, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    for package in list(metadata(), "packages") {
        let line = majors.entry(text(package, "name")).or_default();
        line.entry(major(text(package, "version"))).or_default().insert(text(package, "id"));
    }
    for (name, lines) in majors.iter().filter(|(_, lines)| lines.len() > 1) {
        let line = |(major, ids): (&String, &BTreeSet<&str>)| {
            let pulled_by: Vec<&str> = ids.iter().flat_map(|id| dependents(id)).collect();
            format!("{major} (through {})", pulled_by.join(", "))
        };
        let lines: Vec<String> = lines.iter().map(line).collect();
        warn(&format!("more than one major of {name}: {}", lines.join("; ")));
    }
}

/// A warning only: some files are long for a reason.
#[test]
fn long_files_are_worth_a_look() {
    for file in rust_files() {
        let lines = read(file).lines().count();
        if lines > LONG_FILE_LINES {
            warn(&format!("{} has {lines} lines: look for a second noun", file.display()));
        }
    }
}

#[test]
fn both_readmes_open_with_the_two_commands() {
    let mut wrong = Vec::new();
    for file in ["README.md", "README.pt-BR.md"] {
        let page = read(file);
        let first_block = page.split("```").nth(1).unwrap_or_default();
        for command in ["cargo run --release -- demo", "scripts/test"] {
            if !first_block.lines().any(|line| line.trim_start().starts_with(command)) {
                wrong.push(format!("{file}: `{command}` is not in the first code block"));
            }
        }
    }
    refuse(wrong, "a reader should be able to try it within a minute");
}

#[test]
fn documents_link_to_files_that_exist() {
    let link = Regex::new(r"\]\(([^)#\s]+)(?:#[^)]*)?\)").expect("a valid pattern");
    let mut broken = Vec::new();
    for file in FILES.iter().filter(|file| file.extension().is_some_and(|it| it == "md")) {
        let folder = file.parent().unwrap_or(Path::new(""));
        for found in link.captures_iter(&read(file)) {
            let target = &found[1];
            if !target.contains("://") && !ROOT.join(folder).join(target).exists() {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
    }
    refuse(broken, "links are relative to the document that they stand in");
}

// The tree.

static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is where this test was built")
});

/// Every file of the project, relative to its root: what git knows or would add, else what lies there.
static FILES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let mut files = files_by_git().unwrap_or_else(|| files_by_walking(&ROOT));
    files.retain(|file| ROOT.join(file).is_file());
    files.sort();
    assert!(!files.is_empty(), "no files found under {}", ROOT.display());
    files
});

/// What cargo says of the workspace and all that it is built on, or why it says nothing.
static METADATA: LazyLock<Result<Value, String>> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let run = Command::new(cargo).args(arguments).current_dir(&*ROOT).output().map_err(|e| e.to_string())?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    serde_json::from_slice(&run.stdout).map_err(|e| e.to_string())
});

fn metadata() -> &'static Value {
    METADATA.as_ref().unwrap_or_else(|error| panic!("cargo metadata: {error}"))
}

fn files_by_git() -> Option<Vec<PathBuf>> {
    if !ROOT.join(".git").exists() {
        return None;
    }
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(&*ROOT)
        .output()
        .ok()
        .filter(|run| run.status.success())?;
    let names = String::from_utf8(listing.stdout).ok()?;
    Some(names.split_terminator('\0').map(PathBuf::from).collect())
}

fn files_by_walking(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the tree can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            let skipped = [".git", "pombo-data", "target"].iter().any(|name| entry.file_name() == *name);
            if !skipped {
                files.extend(files_by_walking(&path));
            }
        } else {
            files.push(path.strip_prefix(&*ROOT).expect("below the root").to_owned());
        }
    }
    files
}

fn rust_files() -> impl Iterator<Item = &'static Path> {
    FILES.iter().map(PathBuf::as_path).filter(|file| file.extension().is_some_and(|it| it == "rs"))
}

/// The text of a file; empty if it is not text.
fn read(file: impl AsRef<Path>) -> String {
    let path = ROOT.join(file);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8(bytes).unwrap_or_default()
}

fn lines_with<'a>(files: impl Iterator<Item = &'a Path>, pattern: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).expect("a valid pattern");
    let mut found = Vec::new();
    for file in files {
        for (number, line) in read(file).lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
            found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
        }
    }
    found
}

/// Everything that the pattern's first group catches.
fn all_matches(pattern: &str, source: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("a valid pattern");
    pattern.captures_iter(source).map(|found| found[1].to_owned()).collect()
}

// Modules.

/// Where a file stands decides where its own modules lie.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// A crate's first file, or one that `#[path]` names: its modules lie beside it.
    Root,
    /// `a.rs` or `a/mod.rs`: its modules lie in `a/`.
    Module,
}

fn follow_modules(file: &Path, place: Place, reached: &mut BTreeSet<PathBuf>) {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if !reached.insert(file.clone()) {
        return;
    }
    let beside = file.parent().expect("a file has a folder");
    let inside = if place == Place::Root || file.ends_with("mod.rs") {
        beside.to_owned()
    } else {
        file.with_extension("")
    };
    for (name, path) in modules_of(&read(&file)) {
        let (candidates, place) = match path {
            Some(path) => (vec![beside.join(path)], Place::Root),
            None => {
                let usual = vec![inside.join(format!("{name}.rs")), inside.join(&name).join("mod.rs")];
                (usual, Place::Module)
            }
        };
        for candidate in candidates.iter().filter(|candidate| candidate.is_file()) {
            follow_modules(candidate, place, reached);
        }
    }
}

/// The modules that a source names but does not hold, each with its `#[path]` if it has one.
fn modules_of(source: &str) -> Vec<(String, Option<String>)> {
    let attributes = r#"(?:#\[(?:path\s*=\s*"([^"]+)"|[^\]]*)\]\s*)*"#;
    let pattern = format!(r"(?m)^\s*{attributes}(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;");
    let pattern = Regex::new(&pattern).expect("a valid pattern");
    let named = pattern.captures_iter(source);
    named.map(|found| (found[2].to_owned(), found.get(1).map(|path| path.as_str().to_owned()))).collect()
}

// Cargo's view.

fn ours() -> impl Iterator<Item = &'static Value> {
    list(metadata(), "packages").filter(|package| package["source"].is_null())
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[field].as_array().unwrap_or_else(|| panic!("cargo metadata has no list {field}")).iter()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("cargo metadata has no text {field}"))
}

/// The part of a version within which Cargo takes versions for compatible: `1`, `0.8`, `0.0.3`.
fn major(version: &str) -> String {
    let mut parts = Vec::new();
    for part in version.split('.') {
        parts.push(part);
        if part != "0" {
            break;
        }
    }
    parts.join(".")
}

fn dependents(id: &str) -> Vec<&'static str> {
    let needs = |node: &&Value| list(node, "deps").any(|dependency| text(dependency, "pkg") == id);
    let ids: BTreeSet<&str> =
        list(&metadata()["resolve"], "nodes").filter(needs).map(|node| text(node, "id")).collect();
    let packages = list(metadata(), "packages").filter(|package| ids.contains(text(package, "id")));
    packages.map(|package| text(package, "name")).collect()
}

// Licences.

type Words<'a> = Peekable<SplitWhitespace<'a>>;

/// Whether an SPDX expression can be met with licences that we allow. `/` is an older way to write OR.
fn licence_is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words) && words.next().is_none()
}

fn any_of(words: &mut Words<'_>) -> bool {
    let mut met = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        met |= all_of(words);
    }
    met
}

fn all_of(words: &mut Words<'_>) -> bool {
    let mut met = one_of(words);
    while words.next_if_eq(&"AND").is_some() {
        met &= one_of(words);
    }
    met
}

fn one_of(words: &mut Words<'_>) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        let met = any_of(words);
        return words.next_if_eq(&")").is_some() && met;
    }
    if words.next_if_eq(&"WITH").is_none() {
        return LICENCES.contains(&word);
    }
    let licence = format!("{word} WITH {}", words.next().unwrap_or_default());
    LICENCES.contains(&licence.as_str())
}

// Error codes.

/// All of them stand as string literals in one file.
fn codes_of_the_api() -> BTreeSet<String> {
    const SOURCE: &str = "crates/web/src/problem.rs";
    const METHODS: &[&str] = &["DELETE", "HEAD", "OPTIONS", "PATCH", "POST"];
    assert!(ROOT.join(SOURCE).is_file(), "{SOURCE} is missing: all error codes are string literals there");
    let mut codes = all_matches(r#""([A-Z][A-Z0-9_]{3,})""#, untested(&read(SOURCE)));
    codes.retain(|code| !METHODS.contains(&code.as_str()));
    assert!(!codes.is_empty(), "{SOURCE} holds no error code as a string literal");
    codes
}

/// Those that `Trouble::new` is given where something goes wrong.
fn codes_of_the_command_line() -> BTreeSet<String> {
    let pattern = r#"Trouble::new\([^;]*?,\s*"([A-Z][A-Z0-9_]{3,})""#;
    let ours = rust_files().filter(|file| file.starts_with("crates/pombo/src"));
    ours.flat_map(|file| all_matches(pattern, untested(&read(file)))).collect()
}

/// A source up to its tests.
fn untested(source: &str) -> &str {
    source.split("#[cfg(test)]").next().unwrap_or_default()
}

// Configuration.

/// The full path of each key below a node of a JSON schema: `lanes.<name>.workers`, `routes[].type`.
///
/// `depth` bounds how far a schema that refers to itself is followed.
fn keys_below(schema: &Value, node: &Value, path: &str, depth: u8) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    if !node.is_object() || depth == 0 {
        return keys;
    }
    let depth = depth - 1;
    if let Some(target) = node["$ref"].as_str().and_then(|it| schema.pointer(it.trim_start_matches('#'))) {
        keys.extend(keys_below(schema, target, path, depth));
    }
    for choices in ["allOf", "anyOf", "oneOf"].iter().filter_map(|word| node[word].as_array()) {
        keys.extend(choices.iter().flat_map(|choice| keys_below(schema, choice, path, depth)));
    }
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        let here = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let below = keys_below(schema, child, &here, depth);
        keys.extend(if below.is_empty() { BTreeSet::from([here]) } else { below });
    }
    keys.extend(keys_below(schema, &node["items"], &format!("{path}[]"), depth));
    keys.extend(keys_below(schema, &node["additionalProperties"], &format!("{path}.<name>"), depth));
    for child in node["patternProperties"].as_object().into_iter().flat_map(|it| it.values()) {
        keys.extend(keys_below(schema, child, &format!("{path}.<name>"), depth));
    }
    keys
}

// The verdict.

fn refuse(problems: impl IntoIterator<Item = String>, hint: &str) {
    let problems: Vec<String> = problems.into_iter().collect();
    assert!(problems.is_empty(), "\n  {}\nhint: {hint}\n", problems.join("\n  "));
}

/// Said whether or not the test runner shows what a passing test prints.
fn warn(what: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {what}");
}
