//! Pombo's hands: claim, send, settle.
