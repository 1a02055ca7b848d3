//! Speaks to Pombo through the crate `resend-rs`, and says what came of it, for the test that runs this.
//! RESEND_BASE_URL and RESEND_API_KEY say where and as whom.

use resend_rs::idempotent::IdempotentTrait as _;
use resend_rs::types::{BatchValidation, CreateAttachment, CreateEmailBaseOptions, Tag};
use resend_rs::{Error, Resend, Result};
use serde_json::{Value, json};

fn mail(to: &[&str]) -> CreateEmailBaseOptions {
    CreateEmailBaseOptions::new("Clínica <mail@clinic.example>", to.iter().copied(), "Olá")
        .with_html("<p>oi</p>")
}

/// The name of what was wrong.
fn name<T>(result: Result<T>) -> Value {
    match result {
        Ok(_) => json!("nothing"),
        Err(Error::Resend(error)) => json!(error.name),
        Err(error) => json!(error.to_string()),
    }
}

fn main() -> Result<()> {
    let resend = Resend::default();
    let full = || {
        mail(&["rust-1@x.example", "Bia <rust-2@x.example>"])
            .with_cc("rust-3@x.example")
            .with_bcc("rust-4@x.example")
            .with_reply("answers@clinic.example")
            .with_text("oi")
            .with_header("X-Entity-Ref-ID", "rust")
            .with_tag(Tag::new("client", "rust"))
            .with_attachment(
                CreateAttachment::from_content(b"hi".to_vec())
                    .with_filename("a.txt")
                    .with_content_type("text/plain"),
            )
            .with_idempotency_key("rust-one")
    };
    let sent = resend.emails.send(full())?.id;
    let again = resend.emails.send(full())?.id;
    let conflict = resend.emails.send(mail(&["rust-5@x.example"]).with_idempotency_key("rust-one"));
    let event = resend.emails.get(&sent)?.last_event;

    let many = || vec![mail(&["rust-b1@x.example"]), mail(&["rust-b2@x.example"])];
    let ids = |key: &str| -> Result<Vec<String>> {
        let sent = resend.batch.send(many().with_idempotency_key(key))?;
        Ok(sent.into_iter().map(|it| it.id.to_string()).collect())
    };
    let batch = ids("rust-many")?;
    let batch_again = ids("rust-many")?;
    let batch_conflict = resend.batch.send(many().split_off(1).with_idempotency_key("rust-many"));
    let mixed = || vec![mail(&["nobody"]), mail(&["rust-b3@x.example"])];
    let strict = resend.batch.send(mixed());
    let permissive = resend.batch.send_with_batch_validation(mixed(), BatchValidation::Permissive)?;
    let errors: Vec<i32> = permissive.errors.iter().map(|it| it.index).collect();

    let stranger = Resend::new("re_somebody_elses");
    let unknown = stranger.emails.send(mail(&["rust-5@x.example"]));
    let limited = (0..60).find_map(|_| match stranger.emails.send(mail(&["rust-5@x.example"])) {
        // The crate keeps nothing of such an answer but these.
        Err(Error::RateLimit { ratelimit_limit, ratelimit_remaining, ratelimit_reset }) => Some(json!({
            "name": "rate_limit_exceeded",
            "limit": ratelimit_limit, "remaining": ratelimit_remaining, "reset": ratelimit_reset,
        })),
        _ => None,
    });
    println!(
        "{}",
        json!({
            "sent": sent, "again": again, "conflict": name(conflict), "event": event,
            "invalid": name(resend.emails.send(mail(&["nobody"]))),
            "missing": name(resend.emails.send(CreateEmailBaseOptions::new("a@clinic.example", ["rust-5@x.example"], ""))),
            "batch": batch, "batch_again": batch_again, "batch_conflict": name(batch_conflict),
            "strict": name(strict), "permissive": {"sent": permissive.data.len(), "errors": errors},
            "stranger": name(unknown), "limited": limited,
        })
    );
    Ok(())
}
