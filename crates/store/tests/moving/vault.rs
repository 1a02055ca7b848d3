//! Stores that are encrypted: what can be found in their files, and how they come by another key.

use std::path::PathBuf;

use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::recipient::{Listed, Person};
use pombo_kernel::message::Json;
use pombo_kernel::suppression::Family;
use pombo_store::StoreError;
use pombo_store::audit::Event;
use pombo_store::roster::{self, Enlist};
use pombo_store::suppression;
use pombo_store::vault::Keys;
use pombo_store::vault::rekeying::{Aim, Rekeyed, Turning};

use super::*;

const ONE: [u8; 32] = [11; 32];
const TWO: [u8; 32] = [22; 32];

fn keys(current: [u8; 32], previous: &[[u8; 32]]) -> Keys {
    Keys::new(&current, previous, &[5; 32])
}

/// A place for a store of either kind.
enum Ground {
    Folder(tempfile::TempDir),
    Database(Database),
}

impl Ground {
    fn both() -> [Ground; 2] {
        [Ground::Folder(folder()), Ground::Database(Cluster::shared().database())]
    }

    fn home(&self, keys: Option<Keys>) -> Home {
        match self {
            Ground::Folder(folder) => in_folder(folder.path()),
            Ground::Database(database) => in_database(database),
        }
        .with_keys(keys)
    }

    fn sql(&self, statement: &str) {
        match self {
            Ground::Folder(folder) => {
                let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
                db.execute_batch(statement).unwrap();
            }
            Ground::Database(database) => {
                let schema = "SET search_path = pombo; ";
                database.ask(&format!("{schema}{statement}"));
            }
        }
    }
}

/// Does something with the store there, if it can be opened.
fn at<T>(home: &Home, work: impl Doing<T>) -> Result<T, StoreError> {
    match home {
        Home::Embedded(folder) => {
            Ok(work.with(&mut Sqlite::open_with(folder, Dice::seeded(3), &SECRET, folder.keys())?))
        }
        Home::Postgres(target) => {
            Ok(work.with(&mut Postgres::open(target, Dice::seeded(3), &SECRET, Sealing::AtCommit)?))
        }
    }
}

/// What can be done with a store of either kind.
trait Doing<T> {
    fn with<C: Core>(self, core: &mut C) -> T;
}

struct Furnish;
impl Doing<(Scene, Portrait)> for Furnish {
    fn with<C: Core>(self, core: &mut C) -> (Scene, Portrait) {
        let scene = furnish(core);
        (scene, told(core))
    }
}

struct Look;
impl Doing<Portrait> for Look {
    fn with<C: Core>(self, core: &mut C) -> Portrait {
        told(core)
    }
}

struct GoOn(Scene);
impl Doing<()> for GoOn {
    fn with<C: Core>(self, core: &mut C) {
        goes_on(core, &self.0);
    }
}

/// Everything that can be read, but that it was rekeyed.
fn told(core: &impl Core) -> Portrait {
    let mut portrait = portrait(core);
    portrait.audit.retain(|(_, record)| record.event != Event::Rekeyed);
    portrait
}

fn rekey(home: &Home, aim: Aim) -> Rekeyed {
    home.rekey(aim, &Actor("ana".into()), START, &[9; 32], &mut |_| ()).unwrap().unwrap()
}

fn refusal(home: &Home) -> (String, String) {
    match at(home, Look) {
        Err(StoreError::Locked { why, hint }) => (why, hint),
        other => panic!("{other:?}"),
    }
}

#[test] // REQ AU-3
fn a_plain_store_is_encrypted_gets_another_key_and_is_plain_again_without_a_word_lost() {
    for ground in Ground::both() {
        let (scene, before) = at(&ground.home(None), Furnish).unwrap();
        let sealed = ground.home(Some(keys(ONE, &[])));
        let done = rekey(&sealed, Aim::Sealed);
        assert!(done.changed > 20 && done.changed <= done.rows && !done.resumed, "{done:?}");
        assert_eq!(at(&sealed, Look).unwrap(), before);
        healthy(&sealed);
        let again = rekey(&sealed, Aim::Sealed);
        assert_eq!((again.changed, &again.key), (0, &done.key), "there is nothing left to do");

        let other = ground.home(Some(keys(TWO, &[ONE])));
        assert_eq!(at(&other, Look).unwrap(), before, "what the previous key sealed can be read");
        assert_eq!(other.seal().unwrap().keys.len(), 2, "both are in use from the first start on");
        let turned = rekey(&other, Aim::Sealed);
        assert_eq!(turned.changed, done.changed);
        let only = ground.home(Some(keys(TWO, &[])));
        assert_eq!(only.seal().unwrap().keys, [turned.key.clone().unwrap()]);
        assert_eq!(at(&only, Look).unwrap(), before);
        healthy(&only);

        let back = rekey(&only, Aim::Plain);
        assert_eq!((back.changed, &back.key), (done.changed, &None));
        let plain = ground.home(None);
        assert_eq!(at(&plain, Look).unwrap(), before);
        let events = at(&plain, Audit).unwrap();
        let rekeyed = events.iter().filter(|record| record.event == Event::Rekeyed);
        let told: Vec<&str> = rekeyed.map(|record| record.detail.as_str()).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].contains(done.key.as_ref().unwrap()) && told[3].contains("\"none\""), "{told:?}");
        at(&plain, GoOn(scene)).unwrap();
        healthy(&plain);
    }
}

struct Audit;
impl Doing<Vec<Record>> for Audit {
    fn with<C: Core>(self, core: &mut C) -> Vec<Record> {
        let records = core.reader().unwrap().audit(0, 100_000).unwrap();
        records.into_iter().map(|(_, record)| record).collect()
    }
}

#[test] // REQ AU-3
fn a_store_that_is_encrypted_from_the_start_goes_on_and_moves_like_any_other() {
    let (home, database) = (folder(), Cluster::shared().database());
    let from = in_folder(home.path()).with_keys(Some(keys(ONE, &[])));
    let (scene, before) = at(&from, Furnish).unwrap();
    let backup = folder();
    // Neither a backup nor a look over it needs the key.
    let blind = in_folder(home.path());
    blind.back_up(&backup.path().join("copy"), START, &mut |_| ()).unwrap();
    healthy(&blind);
    let found = from.check(&mut |_| ()).unwrap().encryption.unwrap();
    assert!(found.seal.encrypted && found.opened.unwrap() > 20, "{found:?}");
    let kept = in_folder(&backup.path().join("copy")).with_keys(Some(keys(ONE, &[])));
    assert_eq!(at(&kept, Look).unwrap(), Portrait { paused: kept_pause(&kept), ..before_of(&from) });

    let to = in_database(&database).with_keys(Some(keys(ONE, &[])));
    let refused = blind.copy_to(&in_database(&database), START, &mut |_| ()).unwrap_err();
    assert!(matches!(refused, MoveError::Store(StoreError::Locked { .. })), "{refused:?}");
    copied(&from, &to);
    assert_eq!(at(&to, Look).unwrap(), before);
    let back = folder();
    let there = in_folder(&back.path().join("store"));
    in_database(&database).back_up(&back.path().join("store"), START, &mut |_| ()).unwrap();
    let there = there.with_keys(Some(keys(ONE, &[])));
    assert_eq!(Portrait { paused: None, ..at(&there, Look).unwrap() }, before);
    at(&to, GoOn(scene)).unwrap();
    healthy(&to);
}

fn kept_pause(home: &Home) -> Option<Pause> {
    home.check(&mut |_| ()).unwrap().paused
}

fn before_of(home: &Home) -> Portrait {
    at(home, Look).unwrap()
}

#[test] // REQ AU-3
fn a_key_that_is_missing_wrong_or_not_needed_is_refused_with_what_to_do() {
    for ground in Ground::both() {
        let sealed = ground.home(Some(keys(ONE, &[])));
        at(&sealed, Furnish).unwrap();
        let id = sealed.seal().unwrap().keys.remove(0);
        let (why, hint) = refusal(&ground.home(None));
        assert!(why.contains(&id) && why.contains("no key is given") && hint.contains("key_file"), "{why}");
        let (why, hint) = refusal(&ground.home(Some(keys(TWO, &[]))));
        assert!(why.contains(&id) && why.contains("only key") && hint.contains("previous"), "{why}; {hint}");
        let wrong = ground.home(Some(keys(TWO, &[]))).check(&mut |_| ()).unwrap().faults;
        assert!(wrong.iter().any(|fault| fault.what.contains(&id)), "{wrong:?}");
        let refused = ground
            .home(Some(keys(TWO, &[])))
            .rekey(Aim::Sealed, &Actor("ana".into()), START, &[9; 32], &mut |_| ())
            .unwrap_err();
        assert!(matches!(refused, MoveError::Store(StoreError::Locked { .. })), "{refused:?}");
        at(&sealed, Look).unwrap();
    }
    for ground in Ground::both() {
        at(&ground.home(None), Furnish).unwrap();
        let (why, hint) = refusal(&ground.home(Some(keys(ONE, &[]))));
        assert!(why.contains("not encrypted") && hint.contains("pombo store rekey"), "{why}; {hint}");
    }
}

#[test] // REQ AU-3
fn a_value_that_was_moved_to_another_row_or_changed_is_refused() {
    // Each in a way that both databases understand.
    let tricks = [
        "UPDATE message SET body = (SELECT body FROM message ORDER BY key LIMIT 1)",
        "UPDATE revision SET body = (SELECT body FROM message ORDER BY key LIMIT 1)",
        "UPDATE history SET failure = (SELECT failure FROM history WHERE failure IS NOT NULL ORDER BY key LIMIT 1)",
        "UPDATE recipient SET address = (SELECT address FROM recipient ORDER BY roster, number LIMIT 1)",
        "UPDATE doc SET body = '{}' WHERE shelf = 2",
    ];
    for ground in Ground::both() {
        let home = ground.home(Some(keys(ONE, &[])));
        at(&home, Furnish).unwrap();
        let row_security = ["message", "revision", "history", "recipient", "doc"];
        if matches!(ground, Ground::Database(_)) {
            for table in row_security {
                ground.sql(&format!("ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY"));
            }
        }
        healthy(&home);
        for trick in tricks {
            ground.sql(trick);
            let found = home.check(&mut |_| ()).unwrap().faults;
            let found = found.iter().find(|fault| fault.what.contains("do not open"));
            assert!(found.is_some(), "{trick}");
        }
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| at(&home, Look)));
        assert!(!matches!(read, Ok(Ok(_))), "what was moved is not read");
    }
}

#[test] // REQ AU-3
fn a_rekeying_that_is_cut_off_anywhere_goes_on_where_it_was() {
    for ground in Ground::both() {
        let (scene, before) = at(&ground.home(None), Furnish).unwrap();
        let sealed = ground.home(Some(keys(ONE, &[])));
        let cut = |home: &Home, aim: Aim, after: usize| {
            let mut pieces = 0;
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                home.rekey(aim, &Actor("ana".into()), START, &[9; 32], &mut |far| {
                    pieces += usize::from(matches!(far, Turning::Rows { .. }));
                    assert!(pieces < after, "cut off on purpose");
                })
            }));
            assert!(done.is_err(), "it came to its end");
        };
        for after in [1, 2, 1, 3] {
            cut(&sealed, Aim::Sealed, after);
            let (why, hint) = refusal(&sealed);
            assert!(why.contains("did not come to its end") && hint.contains("rekey` again"), "{why}");
            let found = sealed.check(&mut |_| ()).unwrap();
            assert!(found.faults.iter().any(|fault| fault.what.contains("on its way")), "{found:?}");
            let copy = folder();
            let copied = sealed.copy_to(&in_folder(copy.path()), START, &mut |_| ());
            assert!(matches!(copied, Err(MoveError::Store(StoreError::Locked { .. }))), "{copied:?}");
        }
        assert!(rekey(&sealed, Aim::Sealed).resumed);
        assert_eq!(at(&sealed, Look).unwrap(), before);
        // From one key to another it can be served meanwhile.
        let other = ground.home(Some(keys(TWO, &[ONE])));
        cut(&other, Aim::Sealed, 3);
        assert_eq!(at(&other, Look).unwrap(), before);
        assert!(rekey(&other, Aim::Sealed).resumed);
        let only = ground.home(Some(keys(TWO, &[])));
        healthy(&only);
        // Half on the way back, somebody thinks better of it.
        cut(&only, Aim::Plain, 3);
        refusal(&only);
        rekey(&only, Aim::Sealed);
        assert_eq!(at(&only, Look).unwrap(), before);
        healthy(&only);
        at(&only, GoOn(scene)).unwrap();
    }
}

#[test]
fn nodes_with_both_keys_go_on_while_one_replaces_the_other_and_none_while_a_store_is_encrypted() {
    let ground = Ground::Database(Cluster::shared().database());
    at(&ground.home(None), Furnish).unwrap();
    let sealed = ground.home(Some(keys(ONE, &[])));
    rekey(&sealed, Aim::Sealed);
    let both = ground.home(Some(keys(TWO, &[ONE])));
    let Home::Postgres(target) = &both else { panic!("a database") };
    let mut node = Postgres::open(target, Dice::seeded(3), &SECRET, Sealing::AtCommit).unwrap();
    let mut w = Works { core: &mut node, now: START + mins(2), commits: 5_000 };
    let early = w.accept(to("early@clinica.example"));
    rekey(&both, Aim::Sealed);
    let late = w.accept(to("late@clinica.example"));
    for id in [early, late] {
        assert!(w.core.reader().unwrap().story(&Tenant::default(), id).unwrap().is_some());
    }
    w.core.heartbeat(NodeId(1), w.now + mins(10)).unwrap();
    w.commit();
    let refused = both.rekey(Aim::Plain, &Actor("ana".into()), START, &[9; 32], &mut |_| ()).unwrap_err();
    let MoveError::Store(StoreError::Locked { why, .. }) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("nodes are at work"), "{why}");
    assert!(!both.seal().unwrap().turning, "nothing was begun");
}

const PHONE: &str = "5511987654321";
const MAIL: &str = "maria.canario@clinica.example";
const NAME: &str = "Maria Canária";
const CPF: &str = "390.533.447-05";

/// Every form in which one of them could stand in a file.
fn canaries() -> Vec<String> {
    use base64::Engine as _;
    let mut all = Vec::new();
    for text in [PHONE, MAIL, NAME, CPF] {
        all.push(text.to_owned());
        // In base64 it depends on where it begins; what touches its neighbours is left out.
        for before in 0..3 {
            let padded = [vec![b' '; before], text.as_bytes().to_vec()].concat();
            let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(padded);
            let cut = [0, 2, 3][before];
            all.push(encoded[cut..encoded.len() - 2].to_owned());
        }
    }
    all
}

fn files_under(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files_under(&entry.path(), into),
            kind if kind.is_file() => into.push(entry.path()),
            _ => {}
        }
    }
}

/// The files under a folder in which one of them stands.
fn found_in(folder: &Path) -> Vec<String> {
    let (canaries, mut files) = (canaries(), Vec::new());
    files_under(folder, &mut files);
    assert!(!files.is_empty());
    let mut found = Vec::new();
    for file in files {
        // Some come and go.
        let Ok(bytes) = std::fs::read(&file) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        for canary in canaries.iter().filter(|canary| text.contains(canary.as_str())) {
            found.push(format!("{}: {canary}", file.display()));
        }
    }
    found
}

fn spoken() -> Body {
    let json = |text: String| Json::from_text(text).ok();
    Body {
        to: PHONE.into(),
        content: json(format!(r#"{{"text": "{NAME}, {CPF}"}}"#)),
        payload: json(format!(r#"{{"name": "{NAME}", "cpf": "{CPF}", "mail": "{MAIL}"}}"#)),
        metadata: json(format!(r#"{{"patient": "{NAME}"}}"#)),
        user_id: Some(MAIL.into()),
        ..Body::default()
    }
}

struct Plant;
impl Doing<()> for Plant {
    /// Brings persons into every place that may hold one.
    fn with<C: Core>(self, core: &mut C) {
        let mut w = works(core);
        let personal = || Draft { body: spoken(), ..draft() };
        w.accept(Draft { send_at: Some(START + mins(90)), ..personal() });
        let mut with_letter = personal();
        with_letter.blobs.push(Blob::of(format!("Prezada {NAME}, {CPF}").repeat(500).into_bytes()));
        w.sent_as(with_letter, "provider-1");
        let said =
            Report { detail: Some(format!("{MAIL}: mailbox of {NAME} is full")), ..report("provider-1") };
        assert!(matches!(
            w.core.report(&"crm".parse().unwrap(), &said, w.now).unwrap(),
            Reported::Moved { .. }
        ));
        w.commit();
        let dead = w.accept(personal());
        let claimed = w.claim(NodeId(1), 10).pop().unwrap();
        let mut failed = settlement(&claimed, End::Failed(FailureReason::PermanentError), w.now);
        let words = format!("no such person {NAME} at {PHONE}");
        failed.attempt.failure.as_mut().unwrap().text.clone_from(&words);
        failed.attempt.explanation = words;
        assert_eq!(w.core.settle(failed, w.now).unwrap(), Settled::Done);
        w.commit();
        let edit = Edit {
            tenant: Tenant::default(),
            id: dead,
            version: 1,
            queue: queue("crm", "clinica.example"),
            body: Body { to: MAIL.into(), ..spoken() },
            blobs: Vec::new(),
            by: Actor("ana".into()),
            note: None,
        };
        assert_eq!(w.core.edit(&edit, w.now).unwrap(), Edited::Done { version: 2 });
        w.commit();
        let place = suppression::place(Family::Whatsapp, PHONE);
        for (shelf, id) in [(Shelf::Suppression, place), (Shelf::Operation, "opr_1".to_owned())] {
            let body = format!(r#"{{"address": "{PHONE}", "recipient": "{MAIL}", "note": "{NAME}"}}"#);
            let leaf = Some(Leaf { order: 1, topic: None, due: None, body });
            let tenant = Tenant::default();
            let wish = Shelve { shelf, tenant, id: id.clone(), expect: Expect::Nothing, leaf, record: None };
            assert_eq!(w.core.shelve(&wish, w.now).unwrap(), Shelved::Done { version: 1 });
            w.commit();
            let found = w.core.reader().unwrap().doc(shelf, &Tenant::default(), &id).unwrap().unwrap();
            assert_eq!(found.id, id, "who knows the address finds it");
        }
        let text = r#"{"name": "Spring", "channel": "crm", "lane": "bulk", "template": "spring",
            "template_version": 1, "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
        let made: Campaign = serde_json::from_str(text).unwrap();
        let (shelf, tenant, leaf) = (Shelf::Campaign, Tenant::default(), Some(roster::leaf(&made)));
        let wish = Shelve { shelf, tenant, id: "cmp_1".into(), expect: Expect::Nothing, leaf, record: None };
        w.core.shelve(&wish, w.now).unwrap();
        w.commit();
        let payload = Json::from_text(format!(r#"{{"name": "{NAME}", "cpf": "{CPF}"}}"#)).ok();
        let of = Ok(Person { to: PHONE.into(), key: PHONE.into(), payload });
        let (tenant, campaign) = (Tenant::default(), "cmp_1".parse().unwrap());
        let lines = vec![Listed { line: 1, of }];
        let wish = Enlist { tenant, campaign, lines, by: Actor("ana".into()) };
        w.core.enlist(&wish, w.now).unwrap().unwrap();
        w.commit();
        let filter = Filter { recipient: Some(PHONE.into()), ..Filter::default() };
        let found = w.core.reader().unwrap().page(&filter, None, 10).unwrap().lines.len();
        assert_eq!(found, 2, "messages are found by whom they are for");
    }
}

#[test] // REQ AU-3
fn no_file_of_an_encrypted_folder_tells_of_anybody() {
    let home = folder();
    at(&in_folder(home.path()), Plant).unwrap();
    let plain = found_in(home.path());
    assert!(
        [PHONE, MAIL, NAME, CPF].iter().all(|it| plain.iter().any(|found| found.ends_with(it))),
        "{plain:?}"
    );
    let home = folder();
    let place = in_folder(home.path()).with_keys(Some(keys(ONE, &[])));
    let Home::Embedded(inside) = &place else { panic!("a folder") };
    let mut core = Sqlite::open_with(inside, Dice::seeded(3), &SECRET, inside.keys()).unwrap();
    Plant.with(&mut core);
    // While it is at work, log and all.
    assert_eq!(found_in(home.path()), Vec::<String>::new());
    drop(core);
    assert_eq!(found_in(home.path()), Vec::<String>::new());
}

#[test] // REQ AU-3
fn nothing_of_what_was_plain_remains_in_a_folder_once_it_is_encrypted() {
    let home = folder();
    at(&in_folder(home.path()), Plant).unwrap();
    assert!(!found_in(home.path()).is_empty());
    let place = in_folder(home.path()).with_keys(Some(keys(ONE, &[])));
    rekey(&place, Aim::Sealed);
    assert_eq!(found_in(home.path()), Vec::<String>::new());
    healthy(&place);
}

#[test] // REQ AU-3
fn no_file_of_a_server_tells_of_anybody_whose_store_was_encrypted_from_the_start() {
    let cluster = Cluster::own();
    let database = cluster.database();
    let data = PathBuf::from(database.ask("SHOW data_directory").trim());
    let place = in_database(&database).with_keys(Some(keys(ONE, &[])));
    at(&place, Plant).unwrap();
    database.ask("CHECKPOINT");
    assert!(data.join("pg_wal").is_dir());
    assert_eq!(found_in(&data), Vec::<String>::new());
    // The same search finds them where nothing is sealed.
    let plain = cluster.database();
    at(&in_database(&plain), Plant).unwrap();
    plain.ask("CHECKPOINT");
    let found = found_in(&data);
    for place in ["pg_wal", "base"] {
        assert!(found.iter().any(|it| it.contains(place) && it.ends_with(PHONE)), "{place}: {found:?}");
    }
}

#[test]
fn whoever_asks_by_sql_is_told_that_it_is_encrypted() {
    let database = Cluster::shared().database();
    at(&in_database(&database).with_keys(Some(keys(ONE, &[]))), Plant).unwrap();
    database.ask("INSERT INTO pombo.channel VALUES ('crm', 'smtp', 'default', 3, true, true)");
    let shown = database.ask(
        "SELECT string_agg(DISTINCT concat_ws(' ', status, recipient_email, payload, error_message), ', ')
         FROM pombo.email_queue",
    );
    let sealed = "[encrypted] \"[encrypted]\"";
    assert_eq!(shown.trim(), format!("failed {sealed} [encrypted], pending {sealed}, sent {sealed}"));
    let logged = database.ask("SELECT DISTINCT recipient_email FROM pombo.email_logs");
    assert_eq!(logged.trim(), "[encrypted]");
}
