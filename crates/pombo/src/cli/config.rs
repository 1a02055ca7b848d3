//! `pombo config`: check a file, write an example, print the schema.

use clap::Subcommand;
use pombo_kernel::policy::Profile;
use pombo_store::postgres::Target;
use serde_json::json;

use super::out::{self, Paint, Table};
use super::{ConfigArgs, Shared, Trouble};
use crate::config::{Config, EXAMPLE, Source};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Say whether the configuration can be used, and everything that is wrong with it
    #[command(
        after_help = "Examples:\n  pombo config check\n  pombo config check --config other.toml --json"
    )]
    Check {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Print a fully commented file
    #[command(after_help = "Example:\n  pombo config example > pombo.toml")]
    Example,
    /// Print the JSON schema of the file
    #[command(after_help = "Example:\n  pombo config schema > pombo.schema.json")]
    Schema,
}

pub(crate) fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    match verb {
        Verb::Check { config } => check(&config, shared),
        Verb::Example => {
            out::line(EXAMPLE.trim_end());
            Ok(())
        }
        Verb::Schema => {
            out::line(serde_json::to_string_pretty(&Config::schema()).unwrap_or_default());
            Ok(())
        }
    }
}

fn check(args: &ConfigArgs, shared: &Shared) -> Result<(), Trouble> {
    let source = args.source();
    let name = name_of(&source);
    match (args.load(), shared.json) {
        (Ok(config), true) => out::document(&summary(&config)),
        (Ok(config), false) => print(&config, &name),
        (Err(trouble), true) => {
            out::document(&json!({"ok": false, "problems": trouble.problems}));
            return Err(Trouble::told());
        }
        (Err(trouble), false) => return Err(Trouble { what: format!("{name} cannot be used"), ..trouble }),
    }
    Ok(())
}

fn name_of(source: &Source) -> String {
    source
        .file
        .as_ref()
        .map_or_else(|| "the configuration without a file".to_owned(), |f| f.display().to_string())
}

fn profile(config: &Config) -> &'static str {
    match config.profile {
        Profile::Production => "production",
        Profile::Development => "development",
    }
}

fn summary(config: &Config) -> serde_json::Value {
    let channels = config.channels.iter().map(|(name, channel)| {
        json!({
            "name": name,
            "kind": channel.kind(),
            "policy": channel.policy(),
            "tenant": channel.common.tenant,
            "unready": channel.unready(),
        })
    });
    let lanes = config.lanes.iter().map(|(name, lane)| json!({"name": name, "workers": lane.workers}));
    json!({
        "ok": true,
        "file": config.source.file,
        "profile": profile(config),
        "listen": config.server.listen,
        "database": config.database.as_ref().map(Target::shown),
        "lanes": lanes.collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
        "policies": config.policies.keys().collect::<Vec<_>>(),
    })
}

fn print(config: &Config, name: &str) {
    let paint = Paint::stdout();
    let ok = paint.green("OK");
    out::line(format!("{ok}: {name}, profile {}, listens on {}", profile(config), config.server.listen));
    if let Some(database) = &config.database {
        out::line(format!("store: {}", database.shown()));
    }
    let lanes: Vec<String> =
        config.lanes.iter().map(|(name, lane)| format!("{name} {}", lane.workers)).collect();
    out::line(format!("lanes (workers): {}", lanes.join(", ")));
    out::line("");
    let mut table = Table::new(["channel", "kind", "policy", "state"]);
    for (name, channel) in &config.channels {
        let state = channel.unready().unwrap_or_else(|| "ready".to_owned());
        table.row([name.to_string(), channel.kind().to_string(), channel.policy().to_owned(), state]);
    }
    table.print();
}
