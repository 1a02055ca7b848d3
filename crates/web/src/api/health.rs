//! Whether the process is alive, and whether it is of use.

use std::borrow::Cow;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use pombo_store::StoreError;

use crate::Door;
use crate::problem::{Code, Problem};
use crate::view;

const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// The process answers: there is nothing to restart.
pub(crate) async fn alive() -> Result<Response, Problem> {
    Ok(view::answer(StatusCode::OK, b"{\"status\":\"ok\"}".to_vec()))
}

/// Messages can be taken in: the store can be written and answers, and the node is not stopping.
pub(crate) async fn ready(door: Door) -> Result<Response, Problem> {
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let unready = |detail: Cow<'static, str>| {
        let hint = "look at the disk of the data folder, or at the database, and at the server's log";
        Err(Problem::new(Code::StoreUnavailable, detail, hint))
    };
    if door.store().broken().borrow().is_some() {
        return unready("the store failed; the server must be restarted".into());
    }
    // The store's own words, since whoever asks here wants to know what to do about it.
    match door.store().health() {
        Err(StoreError::Unavailable(why)) => {
            return unready(format!("the store cannot be written for now: {why}").into());
        }
        other => other?,
    }
    // A store that is paused takes messages in all the same. Why it is stays with those who have a key.
    match tokio::time::timeout(STORE_PATIENCE, door.store().paused()).await {
        Ok(Ok(None)) => Ok(view::answer(StatusCode::OK, b"{\"status\":\"ready\"}".to_vec())),
        Ok(Ok(Some(_))) => {
            let said = b"{\"status\":\"ready\",\"sending\":\"paused\"}";
            Ok(view::answer(StatusCode::OK, said.to_vec()))
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => unready("the store does not answer".into()),
    }
}
