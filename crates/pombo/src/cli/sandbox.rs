//! `pombo sandbox`: pretend providers alone, with fault scripts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Clock as _;
use serde_json::json;
use url::Url;

use super::out::{self, Paint};
use super::serve::Signals;
use super::{Shared, Trouble};
use crate::clock::SystemClock;
use crate::providers::{Behaviour, Providers};

#[derive(Debug, Args)]
#[command(
    after_help = "Serves a webhook sink, an Evolution API, a Resend, a TISS operator and an SMTP server. What a
message is for says what becomes of it: the list is printed at the start, with the variables that
set up a Pombo to speak to them. SANDBOX_SECRET makes the webhook sink check signatures.

Examples:
  pombo sandbox
  pombo sandbox --fail-percent 20 --report-to http://127.0.0.1:7662
  pombo send --channel webhook --to 'http://127.0.0.1:7663/flaky?fail=2' --content '{\"body\": 1}' --wait
  curl -X POST 'http://127.0.0.1:7664/outage?on=1'     Evolution is down until on=0
  curl http://127.0.0.1:7663/stats"
)]
pub(crate) struct Sandbox {
    /// Where the webhook sink listens; the others use the four ports after it. Port 0 is any free ones
    #[arg(long, default_value = "127.0.0.1:7663", value_name = "ADDR")]
    listen: SocketAddr,
    /// Append one line for each webhook taken: id, times received, milliseconds
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Fail so many in a hundred of the messages that no script speaks of
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    fail_percent: u8,
    /// Report what was delivered, bounced or read to the Pombo there
    #[arg(long, value_name = "URL")]
    report_to: Option<Url>,
}

pub(crate) async fn run(args: Sandbox, shared: &Shared) -> Result<(), Trouble> {
    let mut signals = Signals::listen()?;
    let time = SystemClock::new();
    let secret = std::env::var("SANDBOX_SECRET").ok().filter(|secret| !secret.is_empty());
    let how = Behaviour {
        webhook_secret: secret.map(Secret::new),
        log: args.log,
        fail_percent: args.fail_percent,
        report_to: args.report_to,
    };
    let now = Arc::new(move || time.now());
    let providers = Providers::start(args.listen, &how, now).await.map_err(|error| {
        Trouble::new(format!("the sandbox cannot start on {}", args.listen), "ADDRESS_UNAVAILABLE")
            .why(error)
            .hint("choose another address with --listen; the four ports after it must be free, too")
    })?;
    if shared.json {
        let urls: serde_json::Map<String, serde_json::Value> =
            providers.kinds().into_iter().map(|(kind, url, _)| (kind.to_string(), json!(url))).collect();
        let variables: serde_json::Map<String, serde_json::Value> =
            providers.variables().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        out::object(&json!({"url": providers.webhook.url(""), "urls": urls, "variables": variables}));
    } else {
        greet(&providers, Paint::stdout());
    }
    signals.next_stop().await;
    let stats = providers.stats();
    providers.stop().await;
    if shared.json {
        out::object(&stats);
    } else {
        out::line("");
        for (kind, stats) in stats.as_object().into_iter().flatten() {
            out::line(format!("{kind:<10} {stats}"));
        }
    }
    Ok(())
}

fn greet(providers: &Providers, paint: Paint) {
    for (kind, url, scripts) in providers.kinds() {
        out::line(format!("{} on {}", paint.bold(&format!("pretend {kind}")), paint.cyan(&url)));
        for (script, does) in scripts {
            out::line(format!("  {script:<22} {}", paint.dim(does)));
        }
        out::line("");
    }
    out::line(paint.bold("A Pombo that speaks to them (in another terminal)"));
    for (name, value) in providers.variables() {
        out::line(format!("  export {name}='{value}'"));
    }
    out::line("  pombo serve");
    out::line("");
    out::line(
        paint.dim("A webhook channel must say allow_private = true to reach the sink. Ctrl-C stops all."),
    );
}
