//! How a running Pombo is watched: its metrics as Prometheus reads them, and what `pombo doctor` says of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod doctor;
mod metrics;
#[path = "../place/mod.rs"]
mod place;
