//! What people may ask for who were written to: that everything of them is erased.

use axum::response::Response;
use pombo_kernel::erasure::{Counts, Erasure, Person, Spared};
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Kind, Operation, Stage};
use schemars::JsonSchema;
use serde::Serialize;

use super::fields::Fields;
use super::operations::begin;
use crate::problem::Problem;
use crate::route::Call;
use crate::{body, idempotency};

const BODY_BYTES: usize = 16 * 1024;
const RECIPIENT_BYTES: usize = 1_000;
const REASON_BYTES: usize = 500;

/// Whose data is to be erased. The schema of the request; what is read is judged field by field.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct EraseRequest {
    /// The address, however it is written: of e-mail, a phone number, or whatever else messages went to.
    #[schemars(length(min = 1, max = 1000))]
    recipient: String,
    /// Why, for the audit. Addresses and numbers in it are masked.
    #[schemars(length(min = 1, max = 500))]
    reason: Option<String>,
    /// Only count what would be erased.
    dry_run: Option<bool>,
    /// Also messages to others that name the address.
    mentions: Option<bool>,
    /// Whose store; only admins of the tenant `default` may name another than their own.
    tenant: Option<Tenant>,
}

/// What was erased where, and what was spared and why.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Erasure")]
pub struct ErasureView<'a> {
    person: &'a Person,
    tenant: &'a Tenant,
    /// Nothing is erased: the numbers say what would be.
    dry_run: bool,
    /// Messages to others that name the address are erased, too.
    mentions: bool,
    /// What was erased.
    erased: Counts,
    /// Messages to others that name the address and were left as they are.
    named: u64,
    /// Messages that were left as they are by law; at most 1,000 of them are listed.
    spared: &'a [Spared],
    spared_count: u64,
    /// Messages that are waited for, since they are being sent.
    being_sent: usize,
    /// How long nothing could be written while the store's file was rewritten. Null before, and for a database.
    swept_ms: Option<u64>,
}

impl<'a> ErasureView<'a> {
    pub fn of(erasure: &'a Erasure) -> ErasureView<'a> {
        ErasureView {
            person: &erasure.person,
            tenant: &erasure.tenant,
            dry_run: erasure.dry_run,
            mentions: erasure.mentions,
            erased: erasure.counts,
            named: erasure.named,
            spared: &erasure.spared,
            spared_count: erasure.spared_count,
            being_sent: erasure.waiting.len(),
            swept_ms: erasure.swept_ms,
        }
    }
}

/// Erases everything of one person: 202 with the operation that does it, whose end is the report.
///
/// The address is not kept: what stands for it is a keyed hash.
pub(crate) async fn erase(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let recipient = fields.line("recipient", RECIPIENT_BYTES);
    let reason = fields.remark("reason", REASON_BYTES);
    let dry_run = fields.flag("dry_run").unwrap_or(false);
    let mentions = fields.flag("mentions").unwrap_or(false);
    let named = fields.text("tenant", 64);
    let tenant: Option<Tenant> = named.as_ref().and_then(|name| name.parse().ok());
    if named.is_some() && tenant.is_none() {
        fields.wrong("tenant", "is not the name of a tenant", "lower-case letters, digits, - and _");
    }
    let tenant = tenant.unwrap_or_else(|| caller.tenant.clone());
    let person = recipient.as_ref().and_then(|to| door.store().pseudonyms().person(&tenant, to));
    if person.is_none() {
        fields.missing("recipient", "write for example ana@clinica.example, or +55 11 98765-4321");
    }
    fields.end()?;
    if tenant != caller.tenant {
        caller.may_keep_house()?;
    }
    let person = person.ok_or_else(Problem::internal)?;
    // A digest of the request would tell who it is to whoever tries all numbers.
    let said = format!("{}\n{}\n{dry_run}\n{mentions}", tenant, person.hash);
    let key = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, said.as_bytes()));
    let erasure = Erasure::new(tenant, person, dry_run, mentions);
    let wanted = Operation {
        note: reason,
        erasure: Some(Box::new(erasure)),
        ..Operation::new(Kind::Erase, Stage::Erasing, caller.actor(), door.now())
    };
    begin(&door, &caller, key, wanted).await?.answer()
}
