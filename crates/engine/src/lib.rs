//! The hands: claim, send, settle.
//!
//! [`core`] decides what to do next, without a clock, a task or a socket of its own; [`shell`] does it.

pub mod core;
pub mod decide;
mod health;
mod lease;
mod log;
mod meter;
mod prepare;
pub mod shell;
mod trail;

pub use health::Watchmen;
pub use meter::Meter;
pub use shell::{Engine, Instruments};
