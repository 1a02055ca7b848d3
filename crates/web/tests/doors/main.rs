//! The HTTP API from outside, against a store in memory.

// Clippy knows functions marked as tests, not what they share.
#![allow(clippy::unwrap_used)]

mod batch;
mod campaigns;
mod dead;
mod decisions;
mod events;
mod guesses;
mod hostile;
mod house;
mod ingress;
mod keys;
mod matrix;
mod messages;
mod openapi;
mod operate;
mod operations;
mod problems;
mod receipts;
mod recipients;
mod server;
mod submission;
mod suppressions;
mod templates;
mod webhooks;
