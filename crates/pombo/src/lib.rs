//! Pombo: a durable outbound delivery engine.
//!
//! The binary is a thin shell around this library: configuration, the clock, the wiring of store, engine and
//! doors, and the command line.

pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
mod demo;
pub mod log;
pub mod node;
