//! Applications that speak to the store by SQL, and the real binary that does what they ask.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use pombo::client::Payload;
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_kernel::id::MessageId;
use pombo_testbed::{Cluster, Database, psql};
use serde_json::json;
use tokio::time::{sleep, timeout};

use place::{Place, Server, sink};

/// Far more than any of it takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node with the channels `crm` and `mail`, and an application's role on its database.
struct House {
    place: Place,
    provider: ResendSandbox,
    database: Database,
    role: String,
    server: Option<Server>,
}

impl House {
    async fn new() -> House {
        let place = Place::new();
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let provider = ResendSandbox::start(here, &resend::Options::default()).await.unwrap();
        let file = place.folder.path().join("pombo.toml");
        let mut config = std::fs::read_to_string(&file).unwrap();
        config.push_str(&format!(
            "[channels.mail]\nkind = \"resend\"\nbase_url = \"{}\"\napi_key_file = \"key\"\n\
             from = \"shop@example.com\"\n\
             [channels.mail.retry]\ndelays = [\"100ms\", \"100ms\", \"100ms\"]\n",
            provider.url()
        ));
        std::fs::write(&file, config).unwrap();
        std::fs::write(file.with_file_name("key"), "re_x").unwrap();
        let database = Cluster::shared().database();
        let name = database.ask("SELECT current_database()");
        // A login that may no more than it must.
        database.ask(&format!("CREATE ROLE node_{name} LOGIN NOINHERIT CREATEROLE"));
        database.ask(&format!("GRANT CREATE ON DATABASE {name} TO node_{name}"));
        let server = Some(place.start_on(&as_role(&database, &format!("node_{name}"))));
        place.ready().await;
        let role = format!("shop_{name}");
        database.ask(&format!("CREATE ROLE {role} LOGIN IN ROLE pombo_app"));
        let house = House { place, provider, database, role, server };
        house.sees("SELECT count(*) FROM channel", "2").await;
        let template = json!({"subject": "Oi", "text": "Oi, {{ name }}"});
        house.place.client().put("/v1/templates/welcome_user", Payload::json(&template)).await.unwrap();
        house
    }

    fn app(&self, sql: &str) -> String {
        let said =
            psql(&as_role(&self.database, &self.role), &format!("SET search_path = public, pombo; {sql}"));
        said.unwrap_or_else(|error| panic!("{sql}: {error}")).trim_end().to_owned()
    }

    /// Waits until the application gets that answer.
    async fn sees(&self, sql: &str, answer: &str) {
        let mut said = String::new();
        let seen = timeout(PATIENCE, async {
            loop {
                said = self.app(sql);
                if said == answer {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        });
        if seen.await.is_err() {
            panic!("{sql}: {said} and never {answer}: {}", self.place.said());
        }
    }
}

fn as_role(database: &Database, role: &str) -> String {
    database.url().replacen("postgres@", &format!("{role}@"), 1)
}

impl Drop for House {
    fn drop(&mut self) {
        drop(self.server.take());
        for role in [self.role.clone(), self.role.replacen("shop_", "node_", 1)] {
            let _ = psql(self.database.url(), &format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-5
async fn what_an_application_enqueues_in_its_transaction_is_sent_when_it_commits_and_only_then() {
    let house = House::new().await;
    let sink = sink().await;
    let call = |n: u32| {
        let url = sink.url("/ok");
        format!(
            "SELECT enqueue('crm', '{url}', content => '{{\"body\": {{\"n\": {n}}}}}', reference => 'n-{n}')"
        )
    };
    house.app(&format!("BEGIN; {}; ROLLBACK", call(1)));
    let sent = house.app(&format!(
        "BEGIN; CREATE TEMP TABLE own (n int); INSERT INTO own VALUES (2); {}; COMMIT",
        call(2)
    ));
    let id: MessageId = sent.parse().unwrap();
    let client = house.place.client();
    let arrived = timeout(PATIENCE, async {
        while sink.count(&id.to_string()).accepted == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    });
    arrived.await.unwrap_or_else(|_| panic!("it never arrived: {}", house.place.said()));
    let message = client.get(&format!("/v1/messages/{id}")).await.unwrap();
    assert_eq!(message["reference"], "n-2");
    assert_eq!(sink.stats().total, 1, "what was rolled back is not sent");
    // What only a node can tell is told as well.
    let unfit = house.app(&call(3).replace("'crm', '", "'crm', 'not a URL "));
    let why = format!("SELECT why LIKE 'to %' FROM refused WHERE message_uuid(key, nonce) = '{unfit}'");
    house.sees(&why, "t").await;
    // Many at once, one after the other.
    let many = format!("{} FROM generate_series(1, 300)", call(4));
    house.app(&many);
    let all = timeout(PATIENCE, async {
        while sink.stats().total < 301 {
            sleep(Duration::from_millis(20)).await;
        }
    });
    all.await.unwrap_or_else(|_| panic!("only {} of 301: {}", sink.stats().total, house.place.said()));
    let said = house.place.said();
    assert!(!said.contains("permission denied") && !said.contains("row-level security"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-5
async fn an_email_enqueued_by_sql_is_filled_in_sent_and_followed_by_sql() {
    let house = House::new().await;
    let user = "6f1a0f5e-9d2b-4c1e-8a77-0123456789ab";
    let id = house.app(&format!(
        "SELECT enqueue_email('{user}', 'welcome_user', 'ana@example.com', '{{\"name\": \"Ana\"}}')"
    ));
    let row = format!(
        "SELECT status, retries, max_retries, user_id, resend_id IS NOT NULL FROM email_queue WHERE id = '{id}'"
    );
    house.sees(&row, &format!("sent|0|3|{user}|t")).await;
    let mails = house.provider.mails();
    assert_eq!(mails[0]["text"], "Oi, Ana");
    assert_eq!(
        house.app(&format!("SELECT status, attempt FROM email_logs WHERE queue_id = '{id}'")),
        "sent|1"
    );

    // One that waits for its hour is marked as failed, and still waits for it.
    let later = house.app(&format!(
        "SELECT enqueue_email('{user}', 'welcome_user', 'bia@example.com', '{{\"name\": \"Bia\"}}', p_send_at => now() + interval '1 hour')"
    ));
    let row = format!("SELECT status, retries, error_message FROM email_queue WHERE id = '{later}'");
    house.sees(&row, "pending|0|").await;
    house.app(&format!("SELECT mark_email_failed('{later}', 'Teste de retry')"));
    house.sees(&row, "pending|1|Teste de retry").await;
    let message: MessageId = later.parse().unwrap();
    let shown = house.place.client().get(&format!("/v1/messages/{message}")).await.unwrap();
    assert_eq!(shown["attempts"][0]["category"], "marked_failed", "{shown}");
    assert_eq!(shown["next_attempt_at"], shown["send_at"], "{shown}");

    let none = house.app(&format!("SELECT enqueue_email('{user}', 'no_such', 'ana@example.com', '{{}}')"));
    let row = format!(
        "SELECT status, error_message LIKE 'template there is no template%' FROM email_queue WHERE id = '{none}'"
    );
    house.sees(&row, "failed|t").await;
}
