//! A cluster with automatic failover comes up, loses its primary, and leaves nothing behind.

use pombo_testbed::Patroni;

#[test]
fn another_member_is_promoted_with_everything_that_was_committed() {
    let cluster = Patroni::start();
    let first = cluster.primary();
    cluster.ask("postgres", "CREATE TABLE t (n int)");
    assert_ne!(cluster.ask("postgres", "SHOW synchronous_standby_names"), "");
    for n in 0..20 {
        cluster.ask("postgres", &format!("INSERT INTO t VALUES ({n})"));
    }
    cluster.kill(first);
    let second = cluster.primary();
    assert_ne!(second, first);
    assert_eq!(cluster.ask("postgres", "SELECT count(*) FROM t"), "20");
}
