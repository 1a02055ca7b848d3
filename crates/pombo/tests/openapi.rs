//! What the OpenAPI document says, held against the real binary by somebody else's checker: schemathesis makes
//! requests of the document, good and bad ones, and looks at every answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use pombo::client::Payload;
use pombo_channels::sandbox::evolution::{self, EvolutionSandbox};
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_kernel::secret::Secret;
use serde_json::{Value, json};

use place::clients::{installed, run};
use place::{Place, Server};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PROVIDER_KEY: &str = "canary-secret-4471";

const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// A server with a channel of each kind that leads to a pretend provider, and something of everything in it.
struct House {
    place: Place,
    document: PathBuf,
    _server: Server,
    _providers: (ResendSandbox, EvolutionSandbox),
}

impl House {
    async fn open() -> House {
        let place = Place::new();
        let options =
            resend::Options { api_key: Some(Secret::new(PROVIDER_KEY)), rate: 0, ..Default::default() };
        let mail = ResendSandbox::start(ANYWHERE, &options).await.unwrap();
        let options = evolution::Options { api_key: Secret::new(PROVIDER_KEY), ..Default::default() };
        let phone = EvolutionSandbox::start(ANYWHERE, options).await.unwrap();
        let secret = place.folder.path().join("secret");
        std::fs::write(&secret, PROVIDER_KEY).unwrap();
        let config = format!(
            "[lanes.default]\nworkers = 8\n\
             [channels.crm]\nkind = \"webhook\"\nattempt_timeout = \"2s\"\n\
             [channels.null]\nkind = \"null\"\n\
             [channels.mail]\nkind = \"resend\"\nbase_url = \"{}\"\napi_key_file = {secret:?}\n\
             [channels.phone]\nkind = \"evolution\"\nbase_url = \"{}\"\ninstance = \"sandbox\"\napi_key_file = {secret:?}\n",
            mail.url(),
            phone.url(),
        );
        std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
        let server = place.start();
        place.ready().await;
        let client = place.client();
        let template = json!({"subject": "Olá", "text": "Olá, {{ nome }}"});
        client.put("/v1/templates/welcome", Payload::json(&template)).await.unwrap();
        let document = place.folder.path().join("openapi.json");
        let said = client.get("/openapi.json").await.unwrap();
        std::fs::write(&document, strict(said).to_string()).unwrap();
        House { place, document, _server: server, _providers: (mail, phone) }
    }

    async fn key(&self, role: &str) -> String {
        let wish = json!({ "role": role });
        let made = self.place.client().post("/v1/keys", Payload::json(&wish)).await.unwrap();
        made["key"].as_str().unwrap().to_owned()
    }

    /// Lets schemathesis try everything with that key; it fails if anything is not as described.
    async fn check(&self, key: &str, options: &[&str]) -> String {
        let mut command = Command::new(installed().join("python/bin/schemathesis"));
        command
            .current_dir(self.place.folder.path())
            .args(["--no-color", "run"])
            .arg(&self.document)
            .args(["--url", &self.place.url(), "--checks", CHECKS, "--seed", "1", "--no-shrink"])
            .args([
                "--header",
                &format!("Authorization: Bearer {key}"),
                "--header",
                &format!("apikey: {key}"),
            ])
            .args(["--suppress-health-check", "all", "--request-timeout", "30", "--warnings", "off"])
            // A stream without an end: whoever follows it waits, and it has tests of its own.
            .args(["--exclude-path", "/v1/events", "--continue-on-failure"])
            .args(options);
        run(command).await
    }
}

/// The document with no room for fields that it does not name, so that an answer with more than is described is found.
/// Problems keep theirs: some hold a decision as well.
fn strict(mut document: Value) -> Value {
    for (name, schema) in document["components"]["schemas"].as_object_mut().unwrap() {
        if name != "Problem"
            && schema.get("properties").is_some()
            && schema.get("additionalProperties").is_none()
        {
            schema["additionalProperties"] = false.into();
        }
    }
    document
}

#[tokio::test] // REQ IN-1
async fn a_checker_finds_no_server_error_and_no_answer_that_is_not_described() {
    // Whoever tries everything with keys may end the one that it comes with; so it does that last, in a house apart.
    let (house, apart) = (House::open().await, House::open().await);
    for (house, keys) in [(&house, "--exclude-path-regex"), (&apart, "--include-path-regex")] {
        let said = house.check(place::KEY, &["--max-examples", "20", keys, "^/v1/keys/"]).await;
        assert!(said.contains("No issues found"), "{said}");
    }
    for role in ["producer", "viewer"] {
        let key = house.key(role).await;
        let options = ["--max-examples", "3", "--phases", "examples,fuzzing"];
        let said = house.check(&key, &options).await;
        assert!(said.contains("No issues found"), "{role}: {said}");
    }
    assert!(!house.place.said().contains("panicked"), "{}", house.place.said());
}
