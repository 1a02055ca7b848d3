//! HTTP requests that go to a judged address, once, within one deadline.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Full;
use pombo_kernel::reply::{Fault, FaultKind, Reply};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Sleep;
use tokio_rustls::TlsConnector;
use url::{Host, Position, Url};

use crate::guard::Guard;
use crate::line::{End, Line, fault};
use crate::pool::Pool;
use crate::resolve::Resolver;

/// The most that is read of an answer's body, unless a channel needs more. It is never decompressed.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long the body of a success may take, which nobody needs.
const SPARE_BODY_TIME: Duration = Duration::from_millis(500);
/// Of a name with many addresses, how many are tried.
const ADDRESSES_MAX: usize = 4;

/// What of a success the caller needs. A refusal is always read, as far as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Its head says all: the body is read only so that the connection can be used again.
    Head,
    /// What counts stands in its body.
    Body,
}

/// An answer, as far as it was read.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// The body was read to its end.
    pub whole: bool,
}

/// The certificate by which we show who we are, with its key.
#[derive(Debug)]
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

#[derive(Clone)]
pub struct Client {
    guard: Guard,
    resolver: Resolver,
    tls: TlsConnector,
    pool: Arc<Pool>,
    body_bytes_max: usize,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that trusts `roots`, and shows that certificate where it is asked for one.
    pub fn new(
        guard: Guard,
        resolver: Resolver,
        roots: RootCertStore,
        identity: Option<Identity>,
    ) -> Result<Client, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key)?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Client { guard, resolver, tls, pool: Arc::default(), body_bytes_max: BODY_BYTES_MAX })
    }

    /// The same client, for answers that may be longer than most.
    pub fn reading_up_to(self, body_bytes_max: usize) -> Client {
        Client { body_bytes_max, ..self }
    }

    /// Makes one request and reads its answer, all within `deadline`. A redirect is an answer like any other.
    ///
    /// A body that breaks or dawdles is kept as far as it came.
    ///
    /// `Err` is how the attempt ended without an answer: unreachable if no byte of the request left us,
    /// doubtful if one may have.
    pub async fn call(
        &self,
        url: &Url,
        request: Request<Full<Bytes>>,
        need: Need,
        deadline: Duration,
    ) -> Result<Answer, Reply> {
        let origin = &url[..Position::BeforePath];
        let mut timer = pin!(tokio::time::sleep(deadline));
        let mut line = match self.pool.take(origin) {
            Some(line) => line,
            None => match within(timer.as_mut(), self.open(url, deadline)).await {
                Some(Ok(line)) => line,
                Some(Err(fault)) => return Err(Reply::Unreachable(fault)),
                None => return Err(Reply::Unreachable(late("no connection"))),
            },
        };
        let broken = |line: &Line, fault: Fault| {
            if line.has_spoken() { Reply::Doubtful(fault) } else { Reply::Unreachable(fault) }
        };
        let answer = match within(timer.as_mut(), line.ask(request)).await {
            Some(Ok(answer)) => answer,
            Some(Err(fault)) => return Err(broken(&line, fault)),
            None => return Err(broken(&line, late("no answer"))),
        };

        let (head, incoming) = answer.into_parts();
        let mut body = Vec::new();
        let reading = line.read(incoming, self.body_bytes_max, &mut body);
        let end = if head.status.is_success() && need == Need::Head {
            within(timer, async { tokio::time::timeout(SPARE_BODY_TIME, reading).await.ok() }).await.flatten()
        } else {
            within(timer, reading).await
        };
        let whole = matches!(end, Some(End::Whole));
        if whole {
            self.pool.park(origin, line);
        }
        Ok(Answer { status: head.status, headers: head.headers, body, whole })
    }

    /// Resolves, judges, connects. Only addresses that the guard lets through are ever tried.
    async fn open(&self, url: &Url, deadline: Duration) -> Result<Line, Fault> {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(fault(FaultKind::BadContent, "the URL has no host"));
        };
        let addresses = match host {
            Host::Ipv4(v4) => vec![SocketAddr::new(v4.into(), port)],
            Host::Ipv6(v6) => vec![SocketAddr::new(v6.into(), port)],
            Host::Domain(name) => self.resolver.addresses(name, port).await?,
        };
        let permitted = self.permitted(url.host_str().unwrap_or_default(), &addresses)?;
        let tls = (url.scheme() == "https").then(|| server_name(&host)).transpose()?;

        // One address that swallows packets must not use up the time of the others, or of the answer.
        let share = deadline / 2 / u32::try_from(permitted.len()).unwrap_or(1).max(1);
        let mut last = late("no connection");
        for address in permitted {
            let tls = tls.clone().map(|name| (&self.tls, name));
            match tokio::time::timeout(share, Line::open(address, tls)).await {
                Ok(Ok(mut line)) => {
                    self.pool.register(&mut line);
                    return Ok(line);
                }
                Ok(Err(fault)) => last = fault,
                Err(_) => last = late("no connection"),
            }
        }
        Err(last)
    }

    fn permitted(&self, host: &str, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, Fault> {
        let mut special = None;
        let mut permitted = Vec::new();
        for address in addresses {
            match self.guard.judge(host, address.ip()) {
                Ok(()) => permitted.push(*address),
                Err(why) => special = Some(why),
            }
        }
        match special {
            Some(why) if permitted.is_empty() => {
                let text =
                    format!("the host is at a {} address, which this channel does not send to", why.as_str());
                Err(fault(FaultKind::AddressBlocked, text))
            }
            _ => {
                permitted.truncate(ADDRESSES_MAX);
                Ok(permitted)
            }
        }
    }
}

fn server_name(host: &Host<&str>) -> Result<ServerName<'static>, Fault> {
    match host {
        Host::Ipv4(v4) => Ok(ServerName::IpAddress(IpAddr::V4(*v4).into())),
        Host::Ipv6(v6) => Ok(ServerName::IpAddress(IpAddr::V6(*v6).into())),
        Host::Domain(name) => ServerName::try_from((*name).trim_end_matches('.').to_owned())
            .map_err(|_| fault(FaultKind::Tls, "no certificate can be for this host name")),
    }
}

fn late(what: &str) -> Fault {
    fault(FaultKind::Timeout, format!("{what} in time"))
}

/// What `work` comes to, unless the timer ends first. Work that is done when both are wins.
async fn within<T>(timer: Pin<&mut Sleep>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = timer => None,
    }
}

/// The certificates that we trust: the web's, and those in `file` besides.
pub fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let Some(file) = file else { return Ok(roots) };
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.len() == before { Err("it holds no certificate".to_owned()) } else { Ok(roots) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Options, Sandbox};

    async fn call(client: &Client, url: &Url) {
        let request = Request::post("/ok").header("host", "x").body(Full::default()).unwrap();
        client.call(url, request, Need::Head, Duration::from_secs(20)).await.unwrap();
    }

    async fn client_and_sink() -> (Client, Sandbox, Url) {
        let sink = Sandbox::start("127.0.0.1:0".parse().unwrap(), &Options::default()).await.unwrap();
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let client = Client::new(guard, Resolver::default(), roots(None).unwrap(), None).unwrap();
        let url = Url::parse(&sink.url("/ok")).unwrap();
        (client, sink, url)
    }

    #[tokio::test]
    async fn a_connection_is_kept_for_a_few_seconds_and_used_for_a_minute() {
        let (client, sink, url) = client_and_sink().await;
        let pass = |seconds: u64| (0..seconds).for_each(|_| client.pool.tick());
        call(&client, &url).await;
        pass(2);
        assert_eq!(client.pool.idle(), 1);
        pass(4);
        assert_eq!(client.pool.idle(), 0);

        for _ in 0..50 {
            call(&client, &url).await;
            pass(1);
        }
        assert_eq!(sink.stats().connections, 2);
        for _ in 0..20 {
            call(&client, &url).await;
            pass(1);
        }
        assert_eq!(sink.stats().connections, 3);
    }

    #[tokio::test]
    async fn time_passes_for_idle_connections_by_itself() {
        let (client, _sink, url) = client_and_sink().await;
        call(&client, &url).await;
        assert_eq!(client.pool.idle(), 1);
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(client.pool.idle(), 0);
    }
}
