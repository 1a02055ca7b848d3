//! The HTTP API under `/v1`, and the health checks beside it.

pub(crate) mod batch;
pub(crate) mod channels;
pub(crate) mod classify;
mod fields;
pub(crate) mod health;
pub(crate) mod list;
pub(crate) mod messages;
pub(crate) mod receipts;
pub(crate) mod stats;
pub(crate) mod store;
pub(crate) mod templates;
