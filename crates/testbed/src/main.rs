//! Starts a cluster, says where it is, and ends it once its own input closes.

use std::io::{Read as _, Write as _};

fn main() -> std::io::Result<()> {
    let cluster = pombo_testbed::Cluster::in_memory();
    writeln!(std::io::stdout(), "{}", cluster.url())?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
