//! Which servers a mail is handed to, and where they are.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use pombo_kernel::id::MessageId;
use pombo_kernel::reply::{Enhanced, Fault, FaultKind, Refusal, Reply, Stage};

use crate::guard::Guard;
use crate::line::fault;
use crate::resolve::Resolver;

/// Of a domain with many servers, how many are tried in one attempt.
const HOSTS_MAX: usize = 3;
/// Of a server with many addresses, how many are tried.
const ADDRESSES_MAX: usize = 4;

/// How the way to a server is found.
#[derive(Debug)]
pub(super) enum Route {
    /// One server takes every mail. Its name is the administrator's word, so it may be anywhere.
    Relay { host: String, port: u16, resolver: Resolver },
    /// The servers of each recipient's domain, which strangers choose.
    Mx { port: u16, guard: Guard, dns: Box<Dns> },
}

impl Route {
    /// The servers to try, the best first.
    pub(super) async fn hosts(&self, domain: &str, id: MessageId) -> Result<Vec<String>, Reply> {
        match self {
            Route::Relay { host, .. } => Ok(vec![host.clone()]),
            Route::Mx { dns, .. } => dns.exchanges(domain, id).await,
        }
    }

    /// Where a server is. Only addresses that the guard lets through are ever tried.
    pub(super) async fn addresses(&self, host: &str) -> Result<Vec<SocketAddr>, Fault> {
        let open = Guard { allow_private: true, allow: Vec::new() };
        let (found, guard) = match self {
            Route::Relay { port, resolver, .. } => {
                let found = match host.parse::<IpAddr>() {
                    Ok(address) => vec![SocketAddr::new(address, *port)],
                    Err(_) => resolver.addresses(host, *port).await?,
                };
                (found, &open)
            }
            Route::Mx { port, guard, dns } => (dns.addresses(host, *port).await?, guard),
        };
        let judged = |address: &SocketAddr| guard.judge(host, address.ip());
        let permitted: Vec<_> =
            found.iter().copied().filter(|a| judged(a).is_ok()).take(ADDRESSES_MAX).collect();
        match found.iter().find_map(|address| judged(address).err()) {
            Some(why) if permitted.is_empty() => {
                let text = format!(
                    "the server is at a {} address, which this channel does not send to",
                    why.as_str()
                );
                Err(fault(FaultKind::AddressBlocked, text))
            }
            _ => Ok(permitted),
        }
    }
}

/// The name servers: the system's, unless one is named.
pub(super) struct Dns {
    server: Option<SocketAddr>,
    /// Made when it is first needed, since it belongs to a runtime.
    resolver: OnceLock<TokioResolver>,
}

impl fmt::Debug for Dns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dns").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Dns {
    pub(super) fn new(server: Option<SocketAddr>) -> Dns {
        Dns { server, resolver: OnceLock::new() }
    }

    fn resolver(&self) -> Result<&TokioResolver, Fault> {
        if let Some(resolver) = self.resolver.get() {
            return Ok(resolver);
        }
        let builder = match self.server {
            None => TokioResolver::builder_tokio(),
            Some(server) => {
                let mut ways = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                ways.iter_mut().for_each(|way| way.port = server.port());
                let server = NameServerConfig::new(server.ip(), true, ways.into());
                let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
                Ok(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()))
            }
        };
        let made = builder.and_then(|builder| builder.build()).map_err(|error| fault_of(&error))?;
        Ok(self.resolver.get_or_init(|| made))
    }

    /// The mail servers of a domain, by preference; those of equal preference in an order that differs from
    /// message to message. A domain without any is its own.
    async fn exchanges(&self, domain: &str, id: MessageId) -> Result<Vec<String>, Reply> {
        let resolver = self.resolver().map_err(Reply::Unreachable)?;
        let found = match resolver.mx_lookup(format!("{domain}.")).await {
            Ok(found) => found,
            Err(error) if error.is_no_records_found() && !error.is_nx_domain() => {
                return Ok(vec![domain.to_owned()]);
            }
            Err(error) => return Err(Reply::Unreachable(fault_of(&error))),
        };
        let mut hosts: Vec<(u16, u64, String)> = Vec::new();
        for record in found.answers() {
            let RData::MX(mx) = &record.data else { continue };
            let host = mx.exchange.to_ascii().trim_end_matches('.').to_ascii_lowercase();
            let mut hasher = DefaultHasher::new();
            (id.bits(), &host).hash(&mut hasher);
            hosts.push((mx.preference, hasher.finish(), host));
        }
        if hosts.is_empty() {
            return Ok(vec![domain.to_owned()]);
        }
        hosts.sort();
        let hosts: Vec<String> = hosts
            .into_iter()
            .map(|(_, _, host)| host)
            .filter(|host| !host.is_empty())
            .take(HOSTS_MAX)
            .collect();
        if hosts.is_empty() {
            // RFC 7505: one record that names the root.
            return Err(Reply::Refused(Refusal {
                status: Some(556),
                enhanced: Some(Enhanced { class: 5, subject: 1, detail: 10 }),
                stage: Stage::Rcpt,
                text: "the recipient's domain accepts no mail (null MX)".to_owned(),
                ..Refusal::default()
            }));
        }
        Ok(hosts)
    }

    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
        let found = self.resolver()?.lookup_ip(format!("{host}.")).await.map_err(|error| fault_of(&error))?;
        let addresses: Vec<_> = found.iter().map(|address| SocketAddr::new(address, port)).collect();
        if addresses.is_empty() {
            return Err(fault(FaultKind::DnsNotFound, "the server's name has no address"));
        }
        Ok(addresses)
    }
}

/// A name that is not there, told from name servers that do not answer. In our words: the library's repeat the
/// name, which is part of an address.
fn fault_of(error: &NetError) -> Fault {
    match error {
        error if error.is_no_records_found() => fault(FaultKind::DnsNotFound, "the name does not exist"),
        NetError::Timeout => fault(FaultKind::Dns, "the name servers did not answer in time"),
        NetError::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            fault(FaultKind::Dns, "the name servers did not answer in time")
        }
        NetError::Dns(_) => fault(FaultKind::Dns, "the name servers could not answer"),
        _ => fault(FaultKind::Dns, "the name servers could not be asked"),
    }
}
