//! `pombo demo`: the demonstration, told as it happens.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pombo_kernel::time::Span;
use serde_json::json;

use super::out::{self, Paint};
use super::serve::{Signals, start_log};
use super::{Shared, Trouble};
use crate::demo::Stage;
use crate::demo::cast::{ACTS, SHOW};
use crate::demo::story::{Scene, Sums};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pombo demo                    until Ctrl-C
  pombo demo --for 20s
  pombo demo --messages 50 --json > events.ndjson
  pombo demo --data ./demo      keep the store, to look around in it later")]
pub(crate) struct Demo {
    /// Keep the store in this folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address of the HTTP API; another port if it is taken
    #[arg(long, default_value = "127.0.0.1:7662", value_name = "ADDR")]
    listen: SocketAddr,
    /// End by itself after this time [default: 15s in a pipe, never on a terminal]
    #[arg(long = "for", value_name = "SPAN")]
    duration: Option<Span>,
    /// End by itself when this many messages were handed in and have come to rest
    #[arg(long, value_name = "N")]
    messages: Option<u64>,
}

/// In a pipe nobody can press Ctrl-C comfortably.
const IN_A_PIPE: Span = Span::from_secs(15);
/// How often the sums are said between the lines.
const SUMS_EVERY: Duration = Duration::from_secs(5);
/// How long the last messages may take to come to rest.
const LAST_MESSAGES: Duration = Duration::from_secs(20);

pub(crate) async fn run(args: Demo, shared: &Shared) -> Result<(), Trouble> {
    // The story is told by this command; the log would tell it twice.
    let _log = start_log(Some("off"))?;
    let mut signals = Signals::listen()?;
    let temporary = tempfile::Builder::new().prefix("pombo-demo-").tempdir();
    let temporary = temporary.map_err(|error| {
        Trouble::new("there is no temporary folder", "FILE_UNREADABLE").why(error).hint("use --data")
    })?;
    let data = args.data.clone().unwrap_or_else(|| temporary.path().to_owned());
    let mut stage = Stage::start(&data, args.listen).await?;
    let teller = Teller::new(shared.json);
    teller.greet(&stage);
    // What a kept store went through before is another story.
    let position = *stage.node.store.watch().borrow();
    let mut tale = Tale { teller, position, sums: Sums::default() };
    stage.begin().await?;
    let ended = tell(&mut stage, &mut tale, &args, &mut signals).await;
    let (url, key, campaign) = (stage.node.url(), stage.key.clone(), stage.campaign.clone());
    let stopped = stage.stop().await;
    tale.teller.finish(&tale.sums, &url, (&key, &campaign), args.data.as_deref());
    ended.and(stopped)
}

/// Hands messages in and tells what becomes of them, until it is time to end.
async fn tell(stage: &mut Stage, tale: &mut Tale, args: &Demo, signals: &mut Signals) -> Result<(), Trouble> {
    let terminal = std::io::stdout().is_terminal();
    let limit = match (args.duration, args.messages) {
        (Some(limit), _) => Some(limit),
        (None, None) if !terminal => Some(IN_A_PIPE),
        (None, _) => None,
    };
    let mut end = std::pin::pin!(after(limit.map(Span::to_std)));
    let mut sums = tokio::time::interval(SUMS_EVERY);
    sums.tick().await;
    let mut news = stage.node.store.watch();
    let mut handed_in = 0u64;
    let mut next = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
    loop {
        tale.catch_up(stage).await?;
        if args.messages.is_some_and(|most| handed_in >= most) && tale.sums.at_rest(handed_in) {
            return Ok(());
        }
        tokio::select! {
            () = signals.next_stop() => return Ok(()),
            () = &mut end => return Ok(()),
            reason = stage.node.broken() => {
                return Err(Trouble::new("the store failed", "STORE_FAILED").why(reason));
            }
            _ = sums.tick() => tale.teller.sums(&tale.sums),
            _ = news.changed() => {}
            () = &mut next => {
                if args.messages.is_none_or(|most| handed_in < most) {
                    stage.produce().await?;
                    handed_in += 1;
                    next.set(tokio::time::sleep(Duration::from_millis(stage.pause_ms())));
                } else {
                    // Everything is handed in; what still retries gets its time, within reason.
                    next.set(tokio::time::sleep(Duration::MAX));
                    end.set(after(Some(LAST_MESSAGES)));
                }
            }
        }
    }
}

async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// How far the story is told.
struct Tale {
    teller: Teller,
    position: u64,
    sums: Sums,
}

impl Tale {
    async fn catch_up(&mut self, stage: &Stage) -> Result<(), Trouble> {
        let store = &*stage.node.store;
        let lost = |error| Trouble::new("the store cannot be read", "STORE_UNAVAILABLE").why(error);
        loop {
            let records = store.audit(self.position, 500).await.map_err(lost)?;
            if records.is_empty() {
                return Ok(());
            }
            for (position, record) in records {
                self.position = position + 1;
                if let Some(scene) = Scene::of(store, position, &record).await.map_err(lost)? {
                    self.sums.add(&scene, &record);
                    self.teller.scene(&scene);
                }
            }
            self.teller.beat(&self.sums);
        }
    }
}

/// Tells it to whoever listens: a person at a terminal, a file, or a program.
struct Teller {
    json: bool,
    paint: Paint,
    /// The sums, kept in the last line of a terminal.
    bar: Option<ProgressBar>,
}

impl Teller {
    fn new(json: bool) -> Teller {
        let lively = !json && std::io::stdout().is_terminal();
        let bar = lively.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Teller { json, paint: Paint::stdout(), bar }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| out::line(text)),
            None => out::line(text),
        }
    }

    fn greet(&self, stage: &Stage) {
        let url = stage.node.url();
        if self.json {
            return out::object(
                &json!({"event": "started", "url": url, "key": stage.key, "login_link": stage.link}),
            );
        }
        let paint = self.paint;
        self.say(&format!("{} at {}, with pretend providers:", paint.bold("Pombo"), paint.cyan(&url)));
        for act in &ACTS {
            self.say(&format!("  {:<9} {:<26} {}", act.channel, act.host(), paint.dim(act.about)));
        }
        self.say(&format!(
            "  and a campaign of WhatsApp messages, {}, to a list of six:",
            paint.bold(SHOW.name)
        ));
        for (to, _, about) in SHOW.audience {
            self.say(&format!("  {:<9} {to:<26} {}", "", paint.dim(about)));
        }
        self.say("");
        if let Some(link) = &stage.link {
            self.say(&format!("Open it in a browser: {}", paint.cyan(link)));
            self.say("");
        }
        self.say(&paint.dim("Meanwhile, in another terminal:"));
        self.say(&format!("  export POMBO_SERVER={url} POMBO_API_KEY={}", stage.key));
        self.say(&format!("  pombo campaigns watch {}", stage.campaign));
        self.say("  pombo messages list --state failed");
        self.say("  pombo dead groups");
        self.say("  pombo send --channel whatsapp --to +5511987650503 --text 'Olá!' --wait");
        self.say("  pombo channels list");
        self.say("  curl -H \"Authorization: Bearer $POMBO_API_KEY\" $POMBO_SERVER/v1/channels");
        self.say("");
    }

    fn scene(&self, scene: &Scene) {
        if self.json {
            out::object(scene);
        } else {
            self.say(&scene.line(self.paint));
        }
    }

    /// Keeps the last line of a terminal up to date.
    fn beat(&self, sums: &Sums) {
        if let Some(bar) = &self.bar {
            bar.set_message(sums.line());
        }
    }

    /// Says the sums now and then, where there is no last line to keep them in.
    fn sums(&self, sums: &Sums) {
        if !self.json && self.bar.is_none() {
            out::line(format!("-- {}", sums.line()));
        }
    }

    fn finish(&self, sums: &Sums, url: &str, (key, campaign): (&str, &str), data: Option<&std::path::Path>) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.json {
            return out::object(&json!({"event": "ended", "sums": sums}));
        }
        out::line("");
        out::line(self.paint.bold("What happened"));
        sums.lines(self.paint).iter().for_each(out::line);
        out::line("");
        out::line(self.paint.bold("What to try next"));
        let mut tips = vec![
            ("pombo policy preview webhook".to_owned(), "when a real webhook is tried again"),
            ("pombo classify webhook 503".to_owned(), "what an error means, and which rule says so"),
        ];
        match data {
            Some(data) => {
                let data = data.display();
                tips.push((format!("pombo demo --data {data}"), "go on with the same store"));
                let with_key = |command: &str| format!("POMBO_API_KEY={key} pombo {command}");
                tips.push((with_key("dead groups"), "its dead letters, by cause"));
                let report = format!("campaigns report {campaign}");
                tips.push((with_key(&report), "whom the campaign reached, and whom not, and why"));
            }
            None => {
                tips.push((
                    "pombo demo --data ./demo".to_owned(),
                    "keep the store, and look around in it later",
                ));
                tips.push(("pombo serve".to_owned(), "the engine for real use"));
            }
        }
        tips.push(("pombo campaigns list".to_owned(), "while a demo or a server runs"));
        tips.push(("pombo dead groups".to_owned(), "while a demo or a server runs"));
        let again = format!("curl -H \"Authorization: Bearer $POMBO_API_KEY\" {url}/v1/messages");
        tips.push((again, "while a demo or a server runs"));
        let width =
            tips.iter().map(|(command, _)| command.len()).filter(|width| *width < 60).max().unwrap_or(0);
        for (command, why) in tips {
            out::line(format!("  {command:<width$}  {}", self.paint.dim(&format!("# {why}"))));
        }
    }
}
