//! The pretend providers together: one of each kind, for the demonstration and for trying things out.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pombo_channels::sandbox::evolution::{self, EvolutionSandbox, Hook};
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_channels::sandbox::smtp::{self, SmtpSandbox};
use pombo_channels::sandbox::tiss::{self, TissOptions, TissSandbox};
use pombo_channels::sandbox::{self, Clock, Sandbox};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::secret::Secret;
use serde_json::{Value, json};
use url::Url;

use crate::clock;

/// What receipts of the pretend Evolution carry, and what those of the pretend Resend are signed with.
pub(crate) const EVOLUTION_TOKEN: &str = "sandbox-receipts";
pub(crate) const RESEND_SECRET: &str = "whsec_c2FuZGJveC1yZWNlaXB0cy1vZi1yZXNlbmQ=";
pub(crate) const RESEND_KEY: &str = "re_sandbox";

/// How the providers behave beyond their scripts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    /// Signs what the webhook sink is sent; it checks nothing without one.
    pub(crate) webhook_secret: Option<Secret>,
    /// Where the webhook sink appends a line for each message taken.
    pub(crate) log: Option<PathBuf>,
    /// Of a hundred messages that no script speaks of, so many fail in passing; the webhook sink has scripts instead.
    pub(crate) fail_percent: u8,
    /// The Pombo that Evolution and Resend report to, if any.
    pub(crate) report_to: Option<Url>,
}

/// Whom a message is for, and what then becomes of it.
type Scripts = &'static [(&'static str, &'static str)];

/// All of them, running.
pub(crate) struct Providers {
    pub(crate) webhook: Sandbox,
    pub(crate) evolution: EvolutionSandbox,
    pub(crate) resend: ResendSandbox,
    pub(crate) tiss: TissSandbox,
    pub(crate) smtp: SmtpSandbox,
}

impl Providers {
    /// The webhook sink on `first`, the others on the ports after it in the order of [`Providers::kinds`]; each on any
    /// free port if that of `first` is 0.
    pub(crate) async fn start(first: SocketAddr, how: &Behaviour, now: Clock) -> io::Result<Providers> {
        let port = |n: u16| match first.port() {
            0 => Ok(first),
            port => port.checked_add(n).map(|port| SocketAddr::new(first.ip(), port)).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, "there are not enough ports after this one")
            }),
        };
        let report = |channel: &str| how.report_to.as_ref()?.join(&format!("/v1/receipts/{channel}")).ok();
        let token = BTreeMap::from([("authorization".to_owned(), format!("Bearer {EVOLUTION_TOKEN}"))]);
        let hook = report("whatsapp").map(|url| Hook { url, headers: token, by_events: false });
        let seed = clock::seed;
        let sink = sandbox::Options {
            secret: how.webhook_secret.clone(),
            log: how.log.clone(),
            clock: Some(Arc::clone(&now)),
            seed: seed(),
        };
        let evolution = evolution::Options {
            hook,
            fail_percent: how.fail_percent,
            seed: seed(),
            ..evolution::Options::default()
        };
        let resend = resend::Options {
            api_key: Some(Secret::new(RESEND_KEY)),
            fail_percent: how.fail_percent.into(),
            reports: report("resend").map(|url| (url.to_string(), Secret::new(RESEND_SECRET))),
            clock: Some(Arc::clone(&now)),
            seed: seed(),
            ..resend::Options::default()
        };
        let tiss =
            TissOptions { fail_percent: how.fail_percent.into(), seed: seed(), ..TissOptions::default() };
        let smtp = smtp::Options {
            fail_percent: how.fail_percent,
            greylist_seconds: 5,
            clock: Some(now),
            seed: seed(),
            ..smtp::Options::default()
        };
        Ok(Providers {
            webhook: Sandbox::start(port(0)?, &sink).await?,
            evolution: EvolutionSandbox::start(port(1)?, evolution).await?,
            resend: ResendSandbox::start(port(2)?, &resend).await?,
            tiss: TissSandbox::start(port(3)?, &tiss).await?,
            smtp: SmtpSandbox::start(port(4)?, &smtp).await?,
        })
    }

    /// Each with its address and its scripts.
    pub(crate) fn kinds(&self) -> [(ChannelKind, String, Scripts); 5] {
        [
            (ChannelKind::Webhook, self.webhook.url(""), sandbox::SCRIPTS),
            (ChannelKind::Evolution, self.evolution.url(), evolution::SCRIPTS),
            (ChannelKind::Resend, self.resend.url(), resend::SCRIPTS),
            (ChannelKind::Tiss, self.tiss.url(), tiss::SCRIPTS),
            (ChannelKind::Smtp, self.smtp.url(), smtp::SCRIPTS),
        ]
    }

    /// The variables that set a Pombo's channels up to speak to them.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("EVOLUTION_BASE_URL", self.evolution.url()),
            ("EVOLUTION_INSTANCE", "sandbox".to_owned()),
            ("EVOLUTION_API_KEY", "sandbox".to_owned()),
            ("EVOLUTION_RECEIPT_SECRET", EVOLUTION_TOKEN.to_owned()),
            ("SMTP_URL", self.smtp.url()),
            ("SMTP_FROM", "Clínica Sol <contato@clinica.example>".to_owned()),
            ("RESEND_BASE_URL", self.resend.url()),
            ("RESEND_API_KEY", RESEND_KEY.to_owned()),
            ("RESEND_FROM", "Clínica Sol <contato@clinica.example>".to_owned()),
            ("RESEND_RECEIPT_SECRET", RESEND_SECRET.to_owned()),
            ("TISS_URL", self.tiss.url()),
        ]
    }

    /// What each was sent, as it counted itself.
    pub(crate) fn stats(&self) -> Value {
        json!({
            "webhook": self.webhook.stats(),
            "evolution": self.evolution.stats(),
            "resend": self.resend.stats(),
            "tiss": self.tiss.stats(),
            "smtp": self.smtp.stats(),
        })
    }

    pub(crate) async fn stop(self) {
        self.webhook.stop().await;
        self.evolution.stop().await;
        self.resend.stop().await;
        self.tiss.stop().await;
        self.smtp.stop().await;
    }
}
