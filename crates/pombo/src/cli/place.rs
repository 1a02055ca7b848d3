//! Where the store is: `--data` or `--database-url`.

use std::path::PathBuf;

use clap::Args;
use pombo_kernel::secret::Secret;
use pombo_store::postgres::Target;

use super::Trouble;
use crate::config::Config;
use crate::node::{NodeError, Place};

const DEFAULT: &str = "./pombo-data";

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Where the embedded store lives [default: ./pombo-data]
    #[arg(long, env = "POMBO_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// A PostgreSQL store, which any number of nodes share: postgres://user:password@host/database
    // Taken as it is: a refusal by the parser would repeat the password.
    #[arg(long, env = "POMBO_DATABASE_URL", hide_env_values = true, value_name = "URL", value_parser = secret)]
    database_url: Option<Secret>,
}

#[allow(clippy::unnecessary_wraps, reason = "what a parser of values looks like")]
pub(super) fn secret(url: &str) -> Result<Secret, String> {
    Ok(Secret::new(url))
}

/// What to say of an address that cannot be read.
pub(super) fn unreadable(why: String) -> Trouble {
    Trouble::usage("--database-url cannot be used")
        .why(why)
        .hint("write postgres://user:password@host:5432/database")
}

impl PlaceArgs {
    /// The place that is named here, else the one of the configuration, else the usual folder.
    ///
    /// Two names for it are refused, wherever they stand: messages would otherwise wait unseen in the other one.
    pub(crate) fn place(&self, config: &Config) -> Result<Place, Trouble> {
        let data = self.data.as_ref().filter(|data| !data.as_os_str().is_empty());
        let url = self.database_url.as_ref().filter(|url| !url.expose().is_empty());
        let target = url.map(|url| Target::parse(url.expose())).transpose().map_err(unreadable)?;
        let named = if target.is_some() { "--database-url" } else { "store.database_url" };
        let place = match (data, target.or_else(|| config.database.clone())) {
            (Some(_), Some(_)) => Err(Trouble::usage(format!("--data and {named} name two stores")).hint(
                "keep one of them; POMBO_DATA and POMBO_DATABASE_URL in the environment count as well",
            )),
            (None, Some(target)) => Ok(Place::Postgres(target)),
            (Some(data), None) => Ok(Place::Embedded(data.clone().into())),
            (None, None) => Ok(Place::Embedded(PathBuf::from(DEFAULT).into())),
        };
        let place = place?;
        match config.encryption.keys() {
            Ok(keys) => Ok(place.with_keys(keys)),
            Err(error) => Err(NodeError::Store { place, error }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Source};

    const URL: &str = "postgres://ana:canary@db.example/pombo";

    fn place(data: Option<&str>, url: Option<&str>, configured: &str) -> Result<String, Trouble> {
        let environment = [("PW", "canary")].into_iter().collect::<Environment>();
        let config = Config::parse(configured, Source::default(), &environment)?;
        let args = PlaceArgs { data: data.map(Into::into), database_url: url.map(Secret::new) };
        args.place(&config).map(|place| place.to_string())
    }

    #[test]
    fn a_database_that_is_named_anywhere_outranks_the_usual_folder() {
        let shown = "postgres://ana@db.example:5432/pombo";
        let configured = "[store]\ndatabase_url = 'postgres://bea:${PW}@other.example/pombo'";
        assert_eq!(place(None, None, "").unwrap(), "./pombo-data");
        assert_eq!(place(Some("/var/lib/pombo"), None, "").unwrap(), "/var/lib/pombo");
        assert_eq!(place(None, Some(URL), "").unwrap(), shown);
        assert_eq!(place(None, None, configured).unwrap(), "postgres://bea@other.example:5432/pombo");
        assert_eq!(place(None, Some(URL), configured).unwrap(), shown, "the command line outranks the file");
        assert_eq!(place(Some(""), Some(""), "").unwrap(), "./pombo-data", "set to nothing is not set");
    }

    #[test]
    fn two_names_for_the_store_are_refused() {
        for (url, configured) in [(Some(URL), ""), (None, "[store]\ndatabase_url = 'postgres://db/pombo'")] {
            let trouble = place(Some("./pombo-data"), url, configured).unwrap_err();
            assert!(trouble.what.contains("two stores"), "{trouble:?}");
            assert_eq!(trouble.code, "BAD_USAGE");
        }
    }

    #[test]
    fn an_address_that_cannot_be_read_is_not_repeated() {
        let trouble = place(None, Some("mysql://ana:canary@db/x"), "").unwrap_err();
        assert!(!format!("{trouble:?}").contains("canary"));
    }
}
