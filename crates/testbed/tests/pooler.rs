//! A pooler shares few sessions among many clients, and can be replaced.

use pombo_testbed::{Cluster, Pooler};

#[test]
fn clients_reach_the_database_through_it_before_and_after_it_is_replaced() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let pooler = Pooler::start(cluster, "");
    let through = pombo_testbed::psql(&pooler.url(&database), "SELECT current_database()");
    assert_eq!(through, pombo_testbed::psql(database.url(), "SELECT current_database()"));
    // Each time the one that answers is the new one: the old one would be gone a moment later.
    for _ in 0..10 {
        pooler.restart();
        let through = pombo_testbed::psql(&pooler.url(&database), "SELECT 1 + 1");
        assert_eq!(through.as_deref(), Ok("2\n"));
    }
}
