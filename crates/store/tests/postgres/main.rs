//! What only a store that many processes share can be asked.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod campaigns;
mod connection;
mod dead;
mod enqueuing;
#[path = "../golden/mod.rs"]
mod golden;
mod node;
mod nodes;
mod reading;
mod reporting;
mod shelving;
mod surface;
mod tenants;
mod upgrade;
#[path = "../conformance/world.rs"]
#[allow(dead_code, reason = "the conformance suite has more words than are needed here")]
mod world;
