//! The dashboard from outside, against a store in memory: what pages say, to whom, and what they refuse.

// Clippy knows functions marked as tests, not what they share.
#![allow(clippy::unwrap_used)]

mod browser;
mod campaigns;
mod forms;
mod golden;
mod hostile;
#[path = "../doors/house.rs"]
#[allow(dead_code)]
mod house;
mod learning;
mod letters;
mod live;
mod markup;
mod matrix;
mod scene;
mod sessions;
mod simulate;
mod templates;
mod tenants;
mod upkeep;
