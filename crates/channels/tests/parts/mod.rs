//! What the channels' tests have in common: servers made by hand, and an authority for their certificates.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod authority;
pub(crate) mod receiver;
