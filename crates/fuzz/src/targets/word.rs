//! Single words: ids, times, lengths of time, hours, names, rates, places. What can be read can be written and read again.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use pombo_kernel::attachment::Digest;
use pombo_kernel::flow::Rate;
use pombo_kernel::id::MessageId;
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::time::{Span, Time};
use pombo_kernel::trace::Context;
use pombo_kernel::window::{Date, Day, Hours, Minute, Zone};
use pombo_store::anchor::{Anchor, Hex};
use pombo_store::dead::CauseId;
use pombo_store::home::Home;
use pombo_web::Role;

use super::text;
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "msg_0190163d86f07c2ba1d2e3f405162738",
    "0190163d-86f0-7c2b-a1d2-e3f405162738",
    "cause_0123456789abcdef",
    "2026-01-31T10:20:30.123Z",
    "2026-01-31T10:20:30-03:00",
    "+99999-12-31T23:59:59Z",
    "1h30m",
    "500ms",
    "10/s",
    "600/m",
    "08:00-18:00",
    "24:00",
    "mon",
    "2026-02-29",
    "America/Sao_Paulo",
    "postgres://pombo:secret@db.example/pombo",
    "sqlite:folder",
    "sha256:",
    "admin",
];

pub(super) const TRACE_WORDS: &[&str] = &[
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "-00",
    "cc-",
    "\n",
    "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
    "00000000000000000000000000000000",
];

fn round<T: FromStr + Display + PartialEq + Debug>(words: &str) -> bool
where
    T::Err: Debug,
{
    let Ok(read) = words.parse::<T>() else { return false };
    let written = read.to_string();
    match written.parse::<T>() {
        Ok(again) => assert_eq!(again, read, "{words:?} is written {written:?}"),
        Err(error) => panic!("{words:?} is written {written:?}, which cannot be read: {error:?}"),
    }
    true
}

pub(super) fn run(bytes: &[u8]) -> Sign {
    let words = text(bytes);
    let words = words.as_ref();
    let known = [
        round::<MessageId>(words),
        round::<CauseId>(words),
        round::<Time>(words),
        round::<Span>(words),
        round::<Hours>(words),
        round::<Minute>(words),
        round::<Day>(words),
        round::<Date>(words),
        round::<Zone>(words),
        round::<Digest>(words),
        round::<ChannelName>(words),
        round::<Tenant>(words),
        round::<Hex<32>>(words),
        words.parse::<Rate>().is_ok(),
        words.parse::<Role>().is_ok(),
        serde_json::from_str::<Anchor>(words).is_ok(),
    ];
    if words.matches(":secret@").count() == 1
        && let Ok(home @ Home::Postgres(_)) = words.parse::<Home>()
    {
        let shown = format!("{home} {home:?}");
        assert!(!shown.contains(":secret@"), "{shown}");
    }
    Sign::of(known)
}

/// Where in a trace something stands, by the two headers that say so.
pub(super) fn trace(bytes: &[u8]) -> Sign {
    let words = text(bytes);
    let (parent, state) = match words.split_once('\n') {
        Some((parent, state)) => (parent, Some(state)),
        None => (words.as_ref(), None),
    };
    let Some(context) = Context::read(parent, state) else { return Sign(0) };
    assert!(context.state.as_ref().is_none_or(|state| (1..=512).contains(&state.len())));
    assert_eq!(Context::try_from(String::from(context.clone())), Ok(context.clone()), "as it is kept");
    let passed_on = Context::read(&context.parent(), context.state.as_deref());
    assert_eq!(passed_on.as_ref(), Some(&context), "as it is passed on");
    Sign::of((context.sampled, context.state.is_some()))
}
