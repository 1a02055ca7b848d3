//! The HTTP API from outside, against a store in memory.

// Clippy knows functions marked as tests, not what they share.
#![allow(clippy::unwrap_used)]

mod batch;
mod house;
mod keys;
mod messages;
mod operate;
mod problems;
mod receipts;
mod server;
mod templates;
