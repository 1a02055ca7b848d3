//! Pombo's doors.
