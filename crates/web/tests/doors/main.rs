//! The HTTP API from outside, against a store in memory.

// Clippy knows functions marked as tests, not what they share.
#![allow(clippy::unwrap_used)]

mod alerts;
mod audit;
mod batch;
mod campaigns;
mod dead;
mod decisions;
mod events;
mod foretelling;
mod guesses;
mod hostile;
mod house;
mod ingress;
mod keys;
mod learning;
mod masking;
mod matrix;
mod messages;
mod metrics;
mod openapi;
mod operate;
mod operations;
mod privacy;
mod problems;
mod pruning;
mod receipts;
mod recipients;
mod reports;
mod server;
mod stats;
mod submission;
mod suppressions;
mod templates;
mod traces;
mod webhooks;
