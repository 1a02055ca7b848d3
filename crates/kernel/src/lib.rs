//! Pombo's decisions: types and pure functions of (state, event, time, dice).
//!
//! Nothing here waits, reads a clock, rolls dice that it was not handed, logs, or touches a file or a network.

pub mod alert;
pub mod attachment;
pub mod backoff;
pub mod block;
pub mod breaker;
pub mod campaign;
pub mod cause;
pub mod classify;
pub mod content;
pub mod decision;
pub mod delivery;
pub mod dice;
pub mod flow;
pub mod guard;
pub mod hint;
pub mod id;
pub mod kind;
pub mod kpi;
pub mod lifecycle;
pub mod listing;
pub mod mask;
pub mod message;
pub mod mime;
pub mod name;
pub mod notice;
pub mod operation;
#[cfg(feature = "planted")]
pub mod planted;
pub mod policy;
pub mod reply;
pub mod request;
pub mod secret;
pub mod setup;
pub mod signature;
pub mod subscription;
pub mod suppression;
pub mod template;
pub mod time;
pub mod trace;
pub mod turns;
pub mod window;
pub mod xml;
