//! The door for mail of a running node.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pombo_web::Door;
use pombo_web::smtp::{self, Bounds, Manner};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::config::{Config, Problems, Smtp};

/// A door that listens. Dropping it stops nothing well; call [`stop`](Submission::stop).
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) address: SocketAddr,
    manner: watch::Sender<Arc<Manner>>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<io::Result<()>>,
}

/// A door that could be opened.
#[derive(Debug)]
pub(crate) struct Ready {
    listener: TcpListener,
    address: SocketAddr,
    manner: Manner,
    bounds: Bounds,
}

impl Submission {
    /// Takes the address, so that a node that cannot be reached does not begin to send.
    pub(crate) async fn ready(smtp: &Smtp, listen: SocketAddr, grace: Duration) -> io::Result<Ready> {
        let manner = smtp.manner().map_err(|problem| io::Error::other(problem.what))?;
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        Ok(Ready { listener, address, manner, bounds: Bounds { grace, ..smtp.bounds() } })
    }

    pub(crate) fn open(ready: Ready, door: Door) -> Submission {
        let Ready { listener, address, manner, bounds } = ready;
        if manner.allow_plaintext_auth && !address.ip().is_loopback() {
            warn!("keys may come in the clear over SMTP: see smtp.allow_plaintext_auth");
        }
        let manner = watch::Sender::new(Arc::new(manner));
        let (stop, stopping) = oneshot::channel();
        let serving = smtp::serve(listener, door, manner.subscribe(), bounds, async {
            let _ = stopping.await;
        });
        info!(%address, "taking mails in over SMTP");
        Submission { address, manner, stop, server: tokio::spawn(serving) }
    }

    /// What was configured anew takes effect with the next connection; an address with the next start.
    pub(crate) fn reload(&self, before: &Config, now: &Config) -> Result<(), Problems> {
        let manner = now.smtp.manner().map_err(|problem| Problems(vec![problem]))?;
        if before.smtp.bounds() != now.smtp.bounds() {
            warn!("other bounds of SMTP connections take effect with the next start");
        }
        self.manner.send_replace(Arc::new(manner));
        Ok(())
    }

    /// Says goodbye to everybody, once the mails that are being read have ended.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        match self.server.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "the SMTP door did not close well"),
            Err(error) => warn!(%error, "the SMTP door did not close well"),
        }
    }
}
