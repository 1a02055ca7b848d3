//! The HTTP API under `/v1`, and the health checks beside it.

pub(crate) mod alerts;
pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod campaigns;
pub(crate) mod channels;
pub(crate) mod classify;
mod csv;
pub(crate) mod dead;
pub(crate) mod decisions;
pub(crate) mod events;
mod fields;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod list;
mod listing;
pub(crate) mod messages;
pub(crate) mod metrics;
mod news;
pub(crate) mod operations;
pub(crate) mod page;
pub(crate) mod receipts;
pub(crate) mod recipients;
pub(crate) mod stats;
pub(crate) mod store;
pub(crate) mod suppressions;
pub(crate) mod templates;
pub(crate) mod webhooks;
