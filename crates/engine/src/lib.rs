//! The hands: claim, send, settle.
//!
//! [`core`] decides what to do next, without a clock, a task or a socket of its own; [`shell`] does it.

pub mod core;
pub mod decide;
mod health;
mod lease;
mod prepare;
pub mod shell;

pub use health::Watchmen;
pub use shell::Engine;
