//! Links by which somebody comes to the dashboard without typing a key: for whoever an admin hands one to, once.

use axum::response::Response;
use http::StatusCode;
use pombo_kernel::time::Time;
use schemars::JsonSchema;
use serde::Serialize;

use super::keys::{ended, find, only_tenant, tenant};
use crate::dash::{LINK_LASTS, link_path, make_link};
use crate::key::Standing;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::view;

/// What stands for the id of the key that asks.
const OWN: &str = "own";

/// A link that lets somebody in, once.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoginLink")]
pub(crate) struct LinkView {
    /// In whose name it lets in: the id of a key.
    key: String,
    /// The address at this server: a path.
    path: String,
    /// The whole address, where `server.public_url` is set.
    url: Option<String>,
    expires_at: Time,
}

/// Makes a link for the holder of a key: 201, with its address, this once.
pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, name, .. } = call;
    let tenant = tenant(&caller, only_tenant(&head.uri)?)?;
    let id = if name == OWN { caller.key_id.as_str() } else { name.as_str() };
    let (doc, key) = find(&door, &tenant, id).await?;
    let now = door.now();
    if key.standing(now) != Standing::Active {
        return Err(ended(&key));
    }
    let digest = key.digest(&doc).ok_or_else(Problem::internal)?;
    if !door.setup().dashboard.enabled {
        let hint = "set `enabled = true` under [dashboard]";
        return Err(Problem::new(Code::NotFound, "this server has no dashboard", hint));
    }
    let path = link_path(&make_link(door.store(), &digest, door.entropy(), now).await?);
    let url =
        door.setup().alerts.public_url.as_ref().map(|url| format!("{}{path}", url.trim_end_matches('/')));
    tracing::info!(key_id = key.id, by = caller.key_id, "a link to log in was made");
    let view = LinkView { key: key.id, path, url, expires_at: now + LINK_LASTS };
    let text = serde_json::to_vec(&view).map_err(|_| Problem::internal())?;
    Ok(view::answer(StatusCode::CREATED, text))
}
