//! From a host's name to its addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use pombo_kernel::reply::{Fault, FaultKind};

use crate::BoxFuture;

type Lookup = dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// How names are looked up: the system's way, unless told otherwise.
#[derive(Clone)]
pub struct Resolver(Arc<Lookup>);

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl Default for Resolver {
    fn default() -> Resolver {
        Resolver::new(|host, port| {
            Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
        })
    }
}

impl Resolver {
    /// A resolver of one's own. What it answers is judged like any other answer.
    pub fn new(
        lookup: impl Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync + 'static,
    ) -> Resolver {
        Resolver(Arc::new(lookup))
    }

    pub(crate) async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
        let found = (self.0)(host.to_owned(), port).await.map_err(|error| fault(&error))?;
        if found.is_empty() {
            return Err(Fault { kind: FaultKind::DnsNotFound, text: "the name has no address".to_owned() });
        }
        Ok(found)
    }
}

/// The system's resolver tells the two cases apart only in words; these are glibc's, musl's, macOS's and
/// Windows'. Whatever else it says is taken as passing.
fn fault(error: &io::Error) -> Fault {
    const ABSENT: [&str; 7] = [
        "name or service not known",
        "no address associated",
        "name does not resolve",
        "name has no usable address",
        "nodename nor servname provided",
        "no such host is known",
        "unknown host",
    ];
    let text = error.to_string();
    let lower = text.to_ascii_lowercase();
    let absent = error.kind() == io::ErrorKind::NotFound || ABSENT.iter().any(|words| lower.contains(words));
    Fault { kind: if absent { FaultKind::DnsNotFound } else { FaultKind::Dns }, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(words: &str) -> FaultKind {
        fault(&io::Error::other(format!("failed to lookup address information: {words}"))).kind
    }

    #[test]
    fn a_name_that_is_not_there_differs_from_a_server_that_does_not_answer() {
        assert_eq!(kind("Name or service not known"), FaultKind::DnsNotFound);
        assert_eq!(kind("No address associated with hostname"), FaultKind::DnsNotFound);
        assert_eq!(kind("Temporary failure in name resolution"), FaultKind::Dns);
        assert_eq!(kind("Non-recoverable failure in name resolution"), FaultKind::Dns);
        assert_eq!(kind("Try again"), FaultKind::Dns);
        assert_eq!(kind("something new"), FaultKind::Dns);
    }
}
