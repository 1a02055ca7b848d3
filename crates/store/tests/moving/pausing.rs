//! Stores that are not the one that was here last, and wait for a person: backups, copies of a file, dumps.

use super::*;

#[test] // fault 13
fn a_backup_is_the_store_and_waits_for_a_person() {
    let (home, scene, before) = furnished_folder();
    let database = Cluster::shared().database();
    let kept = folder();
    // Both while a writer has the store.
    let mut used = sqlite(home.path());
    let of_folder = kept.path().join("one");
    in_folder(home.path()).back_up(&of_folder, START, &mut |_| ()).unwrap();
    works(&mut used).accept(draft());
    drop(used);
    let mut used = postgres(&database);
    let scene_there = furnish(&mut used);
    let before_there = portrait(&used);
    let of_database = kept.path().join("two");
    in_database(&database).back_up(&of_database, START, &mut |_| ()).unwrap();
    works(&mut used).accept(draft());
    for (place, before, scene) in [(of_folder, before, scene), (of_database, before_there, scene_there)] {
        healthy(&in_folder(&place));
        let mut core = sqlite(&place);
        let found = portrait(&core);
        let why = &found.paused.as_ref().unwrap().why;
        assert!(why.contains("this is a backup of") && why.contains("may have been sent"), "{why}");
        assert_eq!(Portrait { paused: None, ..found }, before);
        assert_eq!(works(&mut core).claim(NodeId(1), 10), []);
        assert_eq!(core.take_over(NodeId(1), 10, START).unwrap(), []);
        core.resume(&Actor("ana".into()), START).unwrap();
        goes_on(&mut core, &scene);
        let again = in_folder(home.path()).back_up(&place, START, &mut |_| ()).unwrap_err();
        assert!(matches!(again, MoveError::NotEmpty { .. }), "a backup never overwrites");
    }
    drop(used);
}

#[test] // fault 13
fn a_file_that_is_put_back_from_a_copy_waits_for_a_person() {
    let home = folder();
    let file = home.path().join("pombo.db");
    works(&mut sqlite(home.path())).accept(draft());
    let old = std::fs::read(&file).unwrap();
    // It is used on, for some minutes.
    let mut core = sqlite(home.path());
    let mut w = works(&mut core);
    for minute in 1..4 {
        w.now = START + mins(minute);
        w.accept(draft());
    }
    drop(core);
    assert_eq!(sqlite(home.path()).reader().unwrap().paused().unwrap(), None);
    std::fs::write(&file, old).unwrap();
    let mut core = sqlite(home.path());
    assert_eq!(works(&mut core).claim(NodeId(1), 10), []);
    let why = core.reader().unwrap().paused().unwrap().unwrap().why;
    assert!(why.contains("not the file that was here last"), "{why}");
    // And still, until somebody says so.
    drop(core);
    let mut core = sqlite(home.path());
    assert_eq!(works(&mut core).claim(NodeId(1), 10), []);
    assert!(core.resume(&Actor("ana".into()), START + mins(9)).unwrap());
    assert_eq!(works(&mut core).claim(NodeId(1), 10).len(), 1);
    drop(core);
    assert_eq!(works(&mut sqlite(home.path())).claim(NodeId(2), 10), [], "it was claimed already");
    assert_eq!(sqlite(home.path()).reader().unwrap().paused().unwrap(), None);
    // A folder that begins anew has nothing that could be sent twice.
    std::fs::remove_file(&file).unwrap();
    let mut core = sqlite(home.path());
    works(&mut core).accept(draft());
    assert_eq!(works(&mut core).claim(NodeId(1), 10).len(), 1);
}

#[test] // fault 13
fn a_database_that_came_out_of_a_dump_waits_for_a_person_and_a_failover_does_not() {
    let cluster = Cluster::own();
    let database = cluster.database();
    let mut core = postgres(&database);
    works(&mut core).accept(draft());
    drop(core);
    assert_eq!(postgres(&database).reader().unwrap().paused().unwrap(), None);
    let restored = Cluster::shared().database();
    let dump = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("pg_dump --no-owner '{}' | psql -qX '{}'", database.url(), restored.url()))
        .output()
        .unwrap();
    assert!(dump.status.success(), "{dump:?}");
    let mut core = postgres(&restored);
    assert_eq!(works(&mut core).claim(NodeId(1), 10), []);
    let why = core.reader().unwrap().paused().unwrap().unwrap().why;
    assert!(why.contains("restored from a dump"), "{why}");
    assert!(core.resume(&Actor("ana".into()), START).unwrap());
    assert_eq!(works(&mut core).claim(NodeId(1), 10).len(), 1);
    drop(core);
    assert_eq!(postgres(&restored).reader().unwrap().paused().unwrap(), None);
    // A standby that takes over is the same store.
    let standby = cluster.standby();
    let name = database.url().rsplit('/').next().unwrap();
    let promoted = format!("{}/{name}", standby.url());
    cluster.kill();
    pombo_testbed::psql(&promoted, "SELECT pg_promote()").unwrap();
    let target = Target::parse(&promoted).unwrap();
    let mut core = Postgres::open(&target, Dice::seeded(3), &SECRET, Sealing::AtCommit).unwrap();
    assert_eq!(core.reader().unwrap().paused().unwrap(), None);
    assert_eq!(works(&mut core).claim(NodeId(1), 10).len(), 1);
}

#[test]
fn an_operator_pauses_and_resumes_a_store_that_nobody_serves() {
    let (home, ..) = furnished_folder();
    let database = Cluster::shared().database();
    furnish(&mut postgres(&database));
    let ana = Actor("ana".into());
    for home in [in_folder(home.path()), in_database(&database)] {
        home.pause("maintenance", &ana, START, &[1; 32]).unwrap();
        assert_eq!(home.check(&mut |_| ()).unwrap().paused.unwrap().why, "maintenance");
        assert!(home.resume(&ana, START, &[2; 32]).unwrap());
        assert!(!home.resume(&ana, START, &[3; 32]).unwrap());
        healthy(&home);
    }
    let used = sqlite(home.path());
    let refused = in_folder(home.path()).resume(&ana, START, &[1; 32]).unwrap_err();
    assert!(matches!(refused, MoveError::InUse(_)), "{refused}");
    drop(used);
    let nowhere = in_folder(&home.path().join("none")).resume(&ana, START, &[1; 32]).unwrap_err();
    assert!(matches!(nowhere, MoveError::NoStore(_)), "{nowhere}");
}
