//! The network between a client and a cluster does what it is told.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pombo_testbed::{Cluster, Proxy, psql};

#[test]
fn what_is_said_through_it_is_passed_on_held_back_lost_or_cut_off() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let proxy = Proxy::start(cluster);
    let url = proxy.url(&database);
    let ask = |sql: &str| psql(&url, sql).map(|said| said.trim().to_owned());
    const LARGE: &str = "SELECT length(repeat('x', 3000000)), repeat('x', 3000000)";
    assert_eq!(ask(LARGE).map(|said| said.len()), Ok("3000000|".len() + 3_000_000));

    const TELL: &str = "LISTEN news; NOTIFY news";
    assert!(ask(TELL).is_ok_and(|said| said.contains("notification \"news\"")));
    assert_eq!(proxy.swallowed(), 0);
    proxy.deafen();
    assert_eq!(ask(TELL), Ok(String::new()));
    assert_eq!(proxy.swallowed(), 1);
    assert_eq!(ask("SELECT 1"), Ok("1".to_owned()), "nothing else is lost");

    proxy.silence();
    let (tell, told) = channel();
    let silent = url.clone();
    let asking = std::thread::spawn(move || tell.send(psql(&silent, "SELECT 2")));
    assert_eq!(told.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
    proxy.pass();
    assert_eq!(told.recv().map(|said| said.map(|said| said.trim().to_owned())), Ok(Ok("2".to_owned())));
    assert!(asking.join().is_ok_and(|sent| sent.is_ok()));

    proxy.cut();
    assert!(ask("SELECT 3").is_err());
    proxy.pass();
    assert_eq!(ask("SELECT 3"), Ok("3".to_owned()));
    drop(proxy);
    assert!(ask("SELECT 4").is_err());
}

#[test]
fn whoever_is_connected_stays_where_it_is_when_others_are_led_elsewhere() {
    let (here, there) = (Cluster::shared(), Cluster::in_memory());
    let (mine, theirs) = (here.database(), there.database());
    let proxy = Proxy::start(here);
    let who = "SELECT inet_server_port()";
    let port = |cluster: &Cluster| cluster.url().rsplit(':').next().map(str::to_owned);
    let said = |url: &str| psql(url, who).ok().map(|said| said.trim().to_owned());
    assert_eq!(said(&proxy.url(&mine)), port(here));
    let url = proxy.url(&mine);
    mine.ask("CREATE TABLE held ()");
    const WAIT: &str = "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_class WHERE relname = 'held') LOOP
        PERFORM pg_sleep(0.01); END LOOP; END $$";
    let asking = std::thread::spawn(move || psql(&url, &format!("{WAIT}; SELECT inet_server_port()")));
    let connected =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'DO $$%'";
    while mine.ask(connected) == "0" {
        assert!(!asking.is_finished());
    }
    proxy.lead_to(&there);
    assert_eq!(said(&proxy.url(&theirs)), port(&there));
    mine.ask("DROP TABLE held");
    let stayed = asking.join().ok().and_then(Result::ok);
    assert_eq!(stayed.map(|said| said.trim().to_owned()), port(here));
}
