//! Where traces go. Without an address none are kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};
use pombo_channels::client::roots;
use pombo_kernel::secret::Secret;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Value;
use url::Url;

use super::channel::web_address;
use super::environment::joined;
use super::section::Reading;

const HERE: &str = "traces";

/// Traces of requests and messages, for a collector that speaks OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// Where the collector takes OTLP over HTTP, without `/v1/traces`, for example "http://127.0.0.1:4318".
    #[schemars(with = "Option<String>")]
    pub endpoint: Option<Url>,
    /// Which part of the traces that begin here is recorded, from 0 to 1, for example 0.1.
    pub sample: f64,
    /// Headers by which the collector knows us, for example { authorization = "${OTLP_AUTHORIZATION}" }.
    pub headers: BTreeMap<String, Secret>,
    /// A PEM file of certificates to trust besides the web's.
    pub ca_file: Option<PathBuf>,
}

impl Default for Traces {
    fn default() -> Traces {
        Traces { endpoint: None, sample: 1.0, headers: BTreeMap::new(), ca_file: None }
    }
}

pub(super) fn read(reading: &mut Reading, value: Option<Value>, folder: &Path) -> Traces {
    let table = value.and_then(|value| reading.table(HERE, value)).unwrap_or_default();
    let mut traces: Traces = reading.section(HERE, table);
    web_address(reading, &joined(HERE, "endpoint"), traces.endpoint.as_ref());
    if !(0.0..=1.0).contains(&traces.sample) {
        let hint = "from 0, none, to 1, all; for example 0.1";
        reading.problems.say(joined(HERE, "sample"), format!("{} is no part of all", traces.sample), hint);
    }
    let headers = joined(HERE, "headers");
    for (name, value) in &traces.headers {
        let here = joined(&headers, name);
        let fits =
            HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value.expose()).is_ok();
        if !fits {
            reading.problems.say(here, "cannot be a header", "use plain ASCII on one line");
        } else if !reading.origins.outside(&here) {
            let hint = "write \"${OTLP_AUTHORIZATION}\" or the like, and set that variable";
            reading.problems.say(here, "a secret stands in the file", hint);
        }
    }
    traces.ca_file = traces.ca_file.map(|file| folder.join(file));
    if let Err(reason) = roots(traces.ca_file.as_deref()) {
        let hint = "name a readable PEM file of certificates";
        reading.problems.say(joined(HERE, "ca_file"), format!("cannot be used: {reason}"), hint);
    }
    traces
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Environment, Source};

    fn load(text: &str) -> Result<Config, Vec<String>> {
        let environment: Environment = [("KEY", "Bearer canary")].into_iter().collect();
        Config::parse(text, Source::default(), &environment)
            .map_err(|problems| problems.0.into_iter().map(|problem| problem.path).collect())
    }

    #[test] // REQ OB-2
    fn no_address_no_traces_and_with_one_all_of_them() {
        assert_eq!(load("").unwrap().traces.endpoint, None);
        let text =
            "[traces]\nendpoint = \"http://127.0.0.1:4318\"\nheaders = { authorization = \"${KEY}\" }\n";
        let config = load(text).unwrap();
        assert!((config.traces.sample - 1.0).abs() < f64::EPSILON);
        assert_eq!(config.traces.headers["authorization"].expose(), "Bearer canary");
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn whatever_cannot_be_used_is_told_by_its_path() {
        let text = "[traces]\nendpoint = \"ftp://x\"\nsample = 1.5\nca_file = \"nowhere.pem\"\nport = 1\n\
                    [traces.headers]\nauthorization = \"in the file\"\n\"a b\" = \"${KEY}\"\n";
        assert_eq!(
            load(text).unwrap_err(),
            [
                "traces.ca_file",
                "traces.endpoint",
                "traces.headers.a b",
                "traces.headers.authorization",
                "traces.port",
                "traces.sample"
            ]
        );
    }
}
