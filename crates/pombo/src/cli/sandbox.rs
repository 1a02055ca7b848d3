//! `pombo sandbox`: pretend providers alone, with fault scripts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pombo_channels::sandbox::{Options, SCRIPTS, Sandbox as Providers};
use pombo_channels::secret::Secret;
use pombo_kernel::time::Clock as _;
use serde_json::json;

use super::out::{self, Paint};
use super::serve::Signals;
use super::{Shared, Trouble};
use crate::clock::{self, SystemClock};

#[derive(Debug, Args)]
#[command(after_help = "The path of a request says what becomes of it; the list is printed at the start.
SANDBOX_SECRET makes it check signatures.

Examples:
  pombo sandbox
  pombo send --channel webhook --to 'http://127.0.0.1:7663/flaky?fail=2' --content '{\"body\": 1}' --wait
  curl http://127.0.0.1:7663/stats")]
pub(crate) struct Sandbox {
    /// Where to listen; port 0 is any free one
    #[arg(long, default_value = "127.0.0.1:7663", value_name = "ADDR")]
    listen: SocketAddr,
    /// Append one line for each message taken: id, times received, milliseconds
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

pub(crate) async fn run(args: Sandbox, shared: &Shared) -> Result<(), Trouble> {
    let mut signals = Signals::listen()?;
    let time = SystemClock::new();
    let options = Options {
        secret: std::env::var("SANDBOX_SECRET").ok().filter(|secret| !secret.is_empty()).map(Secret::new),
        log: args.log,
        clock: Some(Arc::new(move || time.now())),
        seed: clock::seed(),
    };
    let sandbox = Providers::start(args.listen, &options).await.map_err(|error| {
        Trouble::new(format!("the sandbox cannot start on {}", args.listen), "ADDRESS_UNAVAILABLE")
            .why(error)
            .hint("choose another address with --listen")
    })?;
    let url = sandbox.url("");
    if shared.json {
        out::object(&json!({"url": url}));
    } else {
        let paint = Paint::stdout();
        out::line(format!("{} on {url}", paint.bold("pretend providers")));
        for (script, does) in SCRIPTS {
            out::line(format!("  {script:<22} {}", paint.dim(does)));
        }
        out::line(paint.dim("A channel must say allow_private = true to reach it. Ctrl-C stops it."));
    }
    signals.next_stop().await;
    let stats = sandbox.stats();
    sandbox.stop().await;
    if shared.json {
        out::object(&stats);
    } else {
        out::line(format!("\n{}", serde_json::to_string(&stats).unwrap_or_default()));
    }
    Ok(())
}
