//! The real binary, as a person or a script calls it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on says so by failing")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;

/// A command in a folder of its own, without anything of this process's environment that it would look at.
fn pombo(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pombo"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["POMBO_", "EVOLUTION_", "SMTP_", "RESEND_", "TISS_"].iter().any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn said(output: &Output) -> Said {
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn run(folder: &Path, args: &[&str]) -> Said {
    said(&pombo(folder).args(args).output().unwrap())
}

/// Without a folder of its own: for commands that look at none.
fn plain(args: &[&str]) -> Said {
    run(tempfile::tempdir().unwrap().path(), args)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

#[test]
fn commands_that_use_no_secret_do_not_ask_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[channels.whatsapp]\nkind = \"evolution\"\nbase_url = \"${URL_OF_NONE}\"\napi_key = \"${KEY_OF_NONE}\"\n";
    std::fs::write(folder.path().join("pombo.toml"), config).unwrap();
    let claim = ["decide", "--claim-id", "CLM-001-1", "--error", "TIMEOUT", "--dry-run"];
    for args in [
        &["policy", "show"][..],
        &["policy", "preview", "whatsapp"],
        &["classify", "whatsapp", "503", "Service", "Unavailable"],
        &claim,
        &["store", "migrate"],
        &["store", "check"],
    ] {
        let said = run(folder.path(), args);
        assert_eq!(said.code, 0, "{args:?}: {}{}", said.out, said.err);
    }
    let said = run(folder.path(), &["config", "check"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.err.contains("KEY_OF_NONE"), "{}", said.err);
}

#[test]
fn wrong_usage_is_a_document_for_whoever_asked_for_json() {
    let said = plain(&["events", "--after", "x", "--json"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    let problem = &lines(&said.err)[0];
    assert_eq!(problem["code"], "BAD_USAGE");
    assert!(problem["detail"].as_str().unwrap().contains("the `position` of an event"), "{problem}");
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [
        &["nonsense"][..],
        &["send", "--channel", "a", "--to", "b"],
        &["send", "--channel", "a", "--to", "b", "--text", "x", "--content", "{}"],
        &["send", "--channel", "a", "--to", "b", "--content", "nonsense"],
        &["send", "--channel", "a", "--to", "b", "--text", "x", "--priority", "10"],
        &["messages", "show", "42"],
        &["classify", "smtp"],
        &["classify", "pigeon", "503"],
        &["serve", "--database-url", "mysql://a/b"],
        &["serve", "--database-url", "postgres://a/b", "--data", "x"],
        &["serve", "--smtp-listen", "nowhere"],
        &["serve", "--smtp-listen", "127.0.0.1:0", "--roles", "worker", "--database-url", "postgres://a/b"],
        &["serve", "--roles", "api"],
        &["serve", "--roles", "api,sender"],
        &["serve", "--roles", "api", "--lanes", "bulk", "--database-url", "postgres://a/b"],
        &["bench", "--nodes", "2"],
        &["serve", "--lanes", "fast"],
        &["messages", "list", "--server", "nonsense"],
        &[],
    ] {
        let said = plain(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(!said.err.is_empty() && said.out.is_empty(), "{args:?}: {}", said.out);
    }
    let said = plain(&["serve", "--roles", "worker", "--data", "x"]);
    assert!(said.err.starts_with("error: --roles needs PostgreSQL (BAD_USAGE): "), "{}", said.err);
    assert!(
        said.err.contains("\nhint: leave --roles out, or name a database with --database-url"),
        "{}",
        said.err
    );
}

#[test]
fn failure_exits_with_1_and_says_what_why_and_what_next() {
    let said = plain(&["messages", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.starts_with("error: no answer from http://127.0.0.1:1 (SERVER_UNREACHABLE): "),
        "{}",
        said.err
    );
    assert!(said.err.contains("\nhint: start one with `pombo serve`"), "{}", said.err);
    let said = plain(&["messages", "list", "--server", "http://127.0.0.1:1", "--json"]);
    assert_eq!(lines(&said.err)[0]["code"], "SERVER_UNREACHABLE");
}

#[test]
fn a_database_that_does_not_answer_is_named_without_its_password() {
    let said = plain(&["serve", "--database-url", "postgres://ana:canary@127.0.0.1:1/pombo"]);
    assert_eq!(said.code, 1);
    let what = "error: the store at postgres://ana@127.0.0.1:1/pombo cannot be used (STORE_UNAVAILABLE): cannot connect";
    assert!(said.err.starts_with(what), "{}", said.err);
    assert!(said.err.contains("\nhint: is PostgreSQL running there"), "{}", said.err);
    assert!(!said.err.contains("canary"), "{}", said.err);
}

#[test]
fn help_and_version_exit_with_0_and_help_has_examples() {
    for args in [&["--help"][..], &["--version"], &["help", "send"], &["send", "--help"]] {
        assert_eq!(plain(args).code, 0, "{args:?}");
    }
    for args in [
        &["send", "--help"][..],
        &["serve", "--help"],
        &["demo", "--help"],
        &["sandbox", "--help"],
        &["classify", "--help"],
        &["messages", "import", "--help"],
        &["policy", "preview", "--help"],
        &["templates", "put", "--help"],
        &["templates", "show", "--help"],
        &["templates", "render", "--help"],
        &["config", "check", "--help"],
    ] {
        assert!(plain(args).out.contains("Example"), "{args:?} has no example");
    }
}

#[test]
fn nothing_is_coloured_in_a_pipe() {
    for args in [&["policy", "preview", "smtp"][..], &["classify", "smtp", "550"], &["config", "check"]] {
        let said = plain(args);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(!said.out.contains('\x1b'), "{}", said.out);
    }
}

#[test] // REQ CF-1
fn classify_names_verdict_category_and_rule() {
    let said = plain(&["classify", "smtp", "550", "5.1.1", "user", "unknown", "--json"]);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&answer["verdict"], &answer["category"]), (&"permanent".into(), &"invalid_recipient".into()));
    let said = plain(&["classify", "resend", "--status", "429", "--json"]);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["verdict"], "transient");
}

#[test] // REQ CF-2
fn classify_reads_a_file_and_sums_up() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("errors"), "503 a\n\n404 b\n503 c\nwhat is this\n").unwrap();
    let said = run(folder.path(), &["classify", "webhook", "--file", "errors"]);
    assert!(said.out.ends_with("4 errors, 1 that no rule knows\n"), "{}", said.out);
    assert!(said.out.lines().nth(1).unwrap().starts_with("2      transient"), "{}", said.out);
    let said = run(folder.path(), &["classify", "webhook", "--file", "errors", "--json"]);
    assert_eq!(lines(&said.out).len(), 4);
    assert_eq!(run(folder.path(), &["classify", "webhook", "--file", "none"]).code, 1);
}

/// What a script does: an answer on standard input, a document back.
fn asked(kind: &str, input: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut child = pombo(folder.path())
        .args(["classify", kind])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let said = child.wait_with_output().unwrap();
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{input}: {said:?}"))
}

#[test] // REQ CF-1, CF-8
fn classify_reads_an_answer_from_standard_input_and_answers_in_json() {
    let check = |kind: &str, input: &str, verdict: &str, category: &str, code: &str, wait: Value| {
        let said = asked(kind, input);
        let seen = (&said["verdict"], &said["category"], &said["code"], &said["hint_seconds"]);
        assert_eq!(seen, (&verdict.into(), &category.into(), &code.into(), &wait), "{input}: {said}");
        assert!(said["rule"].is_string(), "{said}");
    };
    let reply = r#"{"reply": "550-5.1.1 no such\r\n550 5.1.1 user", "stage": "rcpt"}"#;
    check("smtp", reply, "permanent", "invalid_recipient", "550 5.1.1", Value::Null);
    let reply = r#"{"reply": "451 4.7.1 Greylisted, try again in 120 seconds"}"#;
    check("smtp", reply, "transient", "greylisted", "451 4.7.1", 120.into());
    let busy = r#"{"status": 429, "headers": {"RETRY-AFTER": ["7"]}, "body": "slow down"}"#;
    check("http", busy, "transient", "rate_limited", "429", 7.into());
    let absent = r#"{"status": 400, "body": {"response": {"message": [{"exists": false}]}}}"#;
    check("evolution", absent, "permanent", "invalid_recipient", "400", Value::Null);
    let glosa = r#"{"status": 200, "body": "<codigoGlosa>1412</codigoGlosa>"}"#;
    check("tiss", glosa, "transient", "authorizer_unavailable", "200 1412", Value::Null);
    let said = asked("tiss", r#"{"error": "TIMEOUT"}"#);
    assert_eq!((&said["verdict"], &said["code"]), (&"transient".into(), &Value::Null));
}

#[test] // REQ CF-1
fn classify_scores_a_file_against_what_its_lines_expect() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"reply": "550 5.1.1 unknown user", "expect": "permanent"}"#,
        r#"{"reply": "451 later", "expect": {"verdict": "transient", "category": "greylisted"}}"#,
        "421 busy",
        r#"{"reply": 1}"#,
        "{nonsense",
    ];
    std::fs::write(folder.path().join("errors"), lines.join("\n")).unwrap();
    let said = run(folder.path(), &["classify", "smtp", "--file", "errors"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.out.ends_with("2 lines that cannot be read\n1 of 2 as expected, 50.0 %\n"), "{}", said.out);
    assert!(said.out.contains("\n2     transient greylisted"), "{}", said.out);
    assert!(
        said.err.contains("line 4: `reply` is not text") && said.err.contains("line 5: "),
        "{}",
        said.err
    );
}

#[test]
fn config_check_accepts_the_example_and_tells_every_problem_of_a_bad_file() {
    let folder = tempfile::tempdir().unwrap();
    let example = run(folder.path(), &["config", "example"]);
    std::fs::write(folder.path().join("pombo.toml"), &example.out).unwrap();
    let said = run(folder.path(), &["config", "check"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.starts_with("OK: pombo.toml, profile production"), "{}", said.out);

    std::fs::write(folder.path().join("bad.toml"), "[lanes.bulk]\nworker = 1\n[channels.a]\nkind = 'x'\n")
        .unwrap();
    let said = run(folder.path(), &["config", "check", "--config", "bad.toml"]);
    assert_eq!(said.code, 1);
    assert_eq!(
        said.err,
        "error: bad.toml cannot be used (CONFIG_INVALID): 2 problems\n  \
         channels.a.kind: \"x\" is no kind of channel\n    \
         hint: one of `evolution`, `smtp`, `resend`, `tiss`, `webhook`, `null`\n  \
         lanes.bulk.worker: unknown key\n    \
         hint: did you mean `workers`?\n"
    );
    let said = run(folder.path(), &["config", "check", "--config", "bad.toml", "--json"]);
    assert_eq!(said.code, 1);
    assert_eq!(lines(&said.out)[0]["problems"].as_array().unwrap().len(), 2);
    assert_eq!(run(folder.path(), &["serve", "--config", "bad.toml"]).code, 1);
    assert_eq!(run(folder.path(), &["config", "check", "--config", "none.toml"]).code, 1);
}

#[test]
fn the_schema_is_json_and_names_the_sections() {
    let schema: Value = serde_json::from_str(&plain(&["config", "schema"]).out).unwrap();
    for section in ["profile", "lanes", "routes", "channels", "policies", "limits", "server"] {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
}

#[test] // REQ RP-5
fn policies_follow_the_profile_and_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let attempts = |args: &[&str]| {
        let said = run(folder.path(), &[&["policy", "show", "smtp", "--json"], args].concat());
        serde_json::from_str::<Value>(&said.out).unwrap()["attempts"].as_u64()
    };
    assert_eq!(attempts(&[]), Some(5));
    assert_eq!(attempts(&["--profile", "development"]), Some(3));
    std::fs::write(folder.path().join("pombo.toml"), "[policies.smtp]\nattempts = 7\n").unwrap();
    assert_eq!(attempts(&[]), Some(7));
    let said = run(folder.path(), &["policy", "preview", "smpt"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("did you mean `smtp`?"), "{}", said.err);
}

#[test]
fn completions_are_printed_for_a_shell() {
    assert!(plain(&["completions", "bash"]).out.contains("_pombo()"));
    assert_eq!(plain(&["completions", "telegraph"]).code, 2);
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = pombo(Path::new(".")).args(["config", "schema"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    assert!(child.wait().unwrap().success());
}

/// A server that is stopped, come what may.
struct Server {
    child: Child,
    url: String,
    key: String,
    log_lines: Receiver<String>,
}

impl Server {
    /// Starts on a free port, and reads the address from its log and the key from its first words.
    fn start(folder: &Path) -> Server {
        let mut child = pombo(folder)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let (mut url, mut key) = (String::new(), String::new());
        while url.is_empty() || key.is_empty() {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended early");
            if let Some(found) = line.strip_prefix("admin key, shown only now: ") {
                key = found.trim().to_owned();
            } else if let Ok(event) = serde_json::from_str::<Value>(&line)
                && let Some(address) = event["address"].as_str()
            {
                url = format!("http://{address}");
            }
        }
        Server { child, url, key, log_lines: Server::read_on(log) }
    }

    /// Somebody must go on reading, or the log would be dropped; and what is read is shown if a test fails.
    fn read_on(log: BufReader<ChildStderr>) -> Receiver<String> {
        let (tell, log_lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                println!("{line}");
                let _ = tell.send(line);
            }
        });
        log_lines
    }

    /// Waits until the log says so.
    fn logs(&self, words: &str) {
        while !self.log_lines.recv_timeout(Duration::from_secs(20)).expect(words).contains(words) {}
    }

    fn call(&self, folder: &Path, args: &[&str]) -> Said {
        let mut command = pombo(folder);
        command.args(args).env("POMBO_SERVER", &self.url).env("POMBO_API_KEY", &self.key);
        said(&command.output().unwrap())
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Its exit code; its log ends with it.
    fn end(&mut self) -> i32 {
        loop {
            match self.log_lines.recv_timeout(Duration::from_secs(30)) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const QUICK: &str = "[channels.crm]\nkind = 'webhook'\nallow_private = true\n\
    [channels.crm.retry]\ndelays = ['50ms', '50ms']\n[channels.nowhere]\nkind = 'null'\n";

/// Pretend receivers, stopped at the end.
struct Sandbox {
    child: Child,
    url: String,
}

impl Sandbox {
    fn start(folder: &Path) -> Sandbox {
        let mut child = pombo(folder)
            .args(["sandbox", "--listen", "127.0.0.1:0", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
        Sandbox { child, url }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test] // REQ IN-2
fn messages_are_sent_followed_listed_held_and_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("pombo.toml"), QUICK).unwrap();
    let sandbox = Sandbox::start(folder);
    let mut server = Server::start(folder);
    let send = |path: &str, more: &[&str]| {
        let to = format!("{}{path}", sandbox.url);
        let args = ["send", "--channel", "crm", "--to", &to, "--content", "{\"body\": {\"a\": 1}}"];
        server.call(folder, &[&args[..], more].concat())
    };

    let sent = send("/flaky?fail=2", &["--wait", "--reference", "r-1"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let told: Vec<&str> = sent.out.lines().collect();
    assert_eq!(told.len(), 5, "{}", sent.out);
    assert!(told[0].ends_with("accepted") && told[1].contains("attempt 1 retry 503"), "{}", sent.out);
    assert!(told[3].contains("attempt 3 sent") && told[4].ends_with(" sent"), "{}", sent.out);

    let failed = send("/status/404", &["--wait"]);
    assert_eq!(failed.code, 1);
    assert!(failed.out.trim_end().ends_with("failed: permanent_error"), "{}", failed.out);
    let failed = send("/status/404", &["--wait", "--json"]);
    assert_eq!(lines(&failed.out)[0]["failure_reason"], "permanent_error");

    let listed = server.call(folder, &["messages", "list", "--state", "failed", "--json"]);
    let listed = lines(&listed.out);
    assert_eq!(listed.len(), 2);
    let id = listed[0]["id"].as_str().unwrap();
    let shown = server.call(folder, &["messages", "show", id]);
    assert!(shown.out.contains("failed (permanent_error)") && shown.out.contains("404"), "{}", shown.out);
    let by_reference = server.call(folder, &["messages", "list", "--reference", "r-1"]);
    assert_eq!(by_reference.out.lines().count(), 2, "{}", by_reference.out);

    let refused = send("/ok", &["--lane", "fast"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("(INVALID_FIELD)") && refused.err.contains("hint: "), "{}", refused.err);

    assert_eq!(server.call(folder, &["channels", "hold", "crm", "--reason", "lunch"]).code, 0);
    let channels = server.call(folder, &["channels", "list"]);
    assert!(channels.out.contains("held") && channels.out.contains("lunch"), "{}", channels.out);
    let waiting = send("/ok", &["--json"]);
    let waiting = lines(&waiting.out)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.call(folder, &["messages", "cancel", &waiting]).code, 0);
    let again = server.call(folder, &["messages", "cancel", &waiting]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("(NOT_CANCELLABLE)"), "{}", again.err);
    assert_eq!(server.call(folder, &["channels", "release", "crm"]).code, 0);

    let locked = said(&pombo(folder).args(["messages", "list", "--server", &server.url]).output().unwrap());
    assert_eq!(locked.code, 1);
    assert!(locked.err.contains("(UNAUTHORIZED)"), "{}", locked.err);

    server.signal("-TERM");
    assert_eq!(server.end(), 0);
}

#[test] // REQ IN-1, ML-3
fn an_import_reports_bad_lines_and_can_be_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("pombo.toml"), QUICK).unwrap();
    let mut server = Server::start(folder);
    let mut file = String::new();
    for n in 0..1_200 {
        file.push_str(&format!("{{\"channel\": \"nowhere\", \"to\": \"x{n}\", \"content\": {{}}}}\n"));
    }
    file.push_str("\nnonsense\n{\"channel\": \"none\", \"to\": \"x\", \"content\": {}}\n");
    std::fs::write(folder.join("many.ndjson"), &file).unwrap();
    let first = server.call(folder, &["messages", "import", "many.ndjson"]);
    assert_eq!(first.code, 1, "{}", first.err);
    assert_eq!(first.out, "1200 accepted, 2 failed\n", "{}", first.err);
    assert!(first.err.contains("line 1202: ") && first.err.contains("(INVALID_JSON)"), "{}", first.err);
    assert!(first.err.contains("line 1203: ") && first.err.contains("(UNKNOWN_CHANNEL)"), "{}", first.err);
    let again = server.call(folder, &["messages", "import", "many.ndjson", "--json"]);
    let sums = lines(&again.out).pop().unwrap();
    assert_eq!(sums, serde_json::json!({"accepted": 0, "already_accepted": 1200, "failed": 2}));
    let good: String = file.lines().take(3).map(|line| format!("{line}\n")).collect();
    let mut child = pombo(folder)
        .args(["messages", "import", "-", "--again"])
        .env("POMBO_SERVER", &server.url)
        .env("POMBO_API_KEY", &server.key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(good.as_bytes()).unwrap();
    let output = said(&child.wait_with_output().unwrap());
    assert_eq!((output.code, output.out.as_str()), (0, "3 accepted, 0 failed\n"));
    let listed = server.call(folder, &["messages", "list", "--all", "--json"]);
    assert_eq!(lines(&listed.out).len(), 1_203);
    server.signal("-INT");
    assert_eq!(server.end(), 0);
}

#[test]
fn the_key_is_made_once_and_a_reload_takes_effect_unless_the_file_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("pombo.toml"), QUICK).unwrap();
    let mut server = Server::start(folder);
    assert!(server.key.starts_with("pombo_") && server.key.len() == 6 + 64, "{}", server.key);
    let channels = |server: &Server| {
        let said = server.call(folder, &["channels", "list", "--json"]);
        lines(&said.out).iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(channels(&server), ["crm", "events", "nowhere"]);
    std::fs::write(folder.join("pombo.toml"), "[channels.crm]\nkind = 'pigeon'\n").unwrap();
    server.signal("-HUP");
    server.logs("the configuration was not changed");
    assert_eq!(channels(&server), ["crm", "events", "nowhere"]);
    std::fs::write(folder.join("pombo.toml"), format!("{QUICK}[channels.third]\nkind = 'null'\n")).unwrap();
    server.signal("-HUP");
    server.logs("is in effect");
    assert_eq!(channels(&server), ["crm", "events", "nowhere", "third"]);
    server.signal("-TERM");
    assert_eq!(server.end(), 0);

    // The second start makes no key, the old one still opens, and one from the environment is added.
    let key = "a-key-that-the-operator-chose-herself";
    let mut second = pombo(folder)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("POMBO_ADMIN_KEY", key)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(second.stderr.take().unwrap());
    let url = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended early");
        assert!(!line.contains("admin key"), "{line}");
        let event: Value = serde_json::from_str(&line).unwrap();
        if let Some(address) = event["address"].as_str() {
            break format!("http://{address}");
        }
    };
    let log_lines = Server::read_on(log);
    let mut again = Server { child: second, url, key: server.key.clone(), log_lines };
    assert_eq!(channels(&again).len(), 4);
    again.key = key.to_owned();
    assert_eq!(channels(&again).len(), 4);
    again.signal("-TERM");
    assert_eq!(again.end(), 0);
}

#[test] // REQ IN-6
fn the_demonstration_tells_a_whole_story_and_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(folder.path(), &["demo", "--listen", "127.0.0.1:0", "--messages", "24", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let events = lines(&said.out);
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    for name in ["started", "accepted", "sent", "retry_scheduled", "failed", "held", "blocked", "ended"] {
        assert!(of(name) > 0, "nothing was {name}:\n{}", said.out);
    }
    let campaign = |event: &&Value| event["event"] == "sent" && event["reference"] == "campanha";
    assert!(of("campaign_started") == 1 && events.iter().any(|event| campaign(&event)), "{}", said.out);
    let sums = &events.last().unwrap()["sums"];
    assert!(sums["sent"].as_u64().unwrap() > 0 && sums["dead_letters"].as_u64().unwrap() > 0, "{sums}");
}

#[test]
fn templates_are_put_tried_and_sent_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("pombo.toml"), QUICK).unwrap();
    let mut server = Server::start(folder);
    let put = server.call(folder, &["templates", "put", "--examples"]);
    assert_eq!((put.code, put.out.lines().count()), (0, 6), "{}", put.err);
    std::fs::write(folder.join("oi.html"), "<b>{{ nome }}</b>").unwrap();
    let args = ["templates", "put", "oi", "--subject", "Oi {{ nome }}", "--html", "@oi.html"];
    for _ in 0..2 {
        assert_eq!(server.call(folder, &args).out, "oi is at version 1\n");
    }
    std::fs::write(folder.join("oi.toml"), "text = 'Oi, {{ nome }}'").unwrap();
    assert_eq!(server.call(folder, &["templates", "put", "--file", "oi.toml"]).out, "oi is at version 2\n");
    let versions = server.call(folder, &["templates", "show", "oi", "--versions", "--json"]);
    assert_eq!(
        lines(&versions.out).iter().map(|it| it["version"].as_u64()).collect::<Vec<_>>(),
        [Some(2), Some(1)]
    );
    let first = ["templates", "render", "oi", "--var", "nome=A&B", "--version", "1", "--json"];
    assert_eq!(lines(&server.call(folder, &first).out)[0]["content"]["html"], "<b>A&amp;B</b>");
    let lacking = server.call(folder, &["templates", "render", "oi"]);
    assert_eq!(lacking.code, 1);
    assert!(
        lacking.err.contains("(TEMPLATE_ERROR): template `oi` version 2: text, line 1: `nome`"),
        "{}",
        lacking.err
    );

    let send = ["send", "--channel", "nowhere", "--to", "x", "--template", "oi", "--wait", "--json"];
    let sent = server.call(folder, &[&send[..], &["--var", "nome=Ana"]].concat());
    assert_eq!(
        (sent.code, &lines(&sent.out)[0]["template_version"]),
        (0, &serde_json::json!(2)),
        "{}",
        sent.err
    );
    let failed = server.call(folder, &send);
    assert_eq!(failed.code, 1);
    assert_eq!(lines(&failed.out)[0]["last_error"]["category"], "template_error");
    let unknown = server.call(folder, &["send", "--channel", "nowhere", "--to", "x", "--template", "io"]);
    assert!(unknown.code == 1 && unknown.err.contains("(TEMPLATE_NOT_FOUND)"), "{}", unknown.err);
    for args in [
        &["templates", "put"][..],
        &["templates", "put", "oi"],
        &["templates", "render", "oi", "--var", "nome"],
        &["send", "--channel", "a", "--to", "b", "--text", "x", "--var", "a=1"],
    ] {
        assert_eq!(server.call(folder, args).code, 2, "{args:?}");
    }
    server.signal("-INT");
    assert_eq!(server.end(), 0);
}
