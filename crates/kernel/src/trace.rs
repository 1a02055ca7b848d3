//! Traces: which request a message belongs to, in the words of W3C Trace Context, and what was done for it, and when.
//!
//! A trace has an id, and each stretch of work in it is a *span* with an id of its own. A [`Context`] says where in a
//! trace something stands; it comes in by headers, is kept with a message, and goes out by headers again.

use std::borrow::Cow;
use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::id::MessageId;
use crate::message::{ClaimKey, Message};
use crate::time::Time;

/// The header that names trace and span.
pub const PARENT: &str = "traceparent";
/// The header with what tracing systems on the way tell each other.
pub const STATE: &str = "tracestate";

/// More than this of the latter is not passed on by anybody who keeps to the standard.
const STATE_BYTES_MAX: usize = 512;
const NANOS_A_MILLI: u64 = 1_000_000;

/// All that was done for one request, wherever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(NonZeroU128);

/// One stretch of work in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

impl TraceId {
    fn of(high: u64, low: u64) -> TraceId {
        TraceId(NonZeroU128::new((u128::from(high) << 64) | u128::from(low)).unwrap_or(NonZeroU128::MIN))
    }
}

impl SpanId {
    fn of(bits: u64) -> SpanId {
        SpanId(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MIN))
    }

    /// That of an attempt: whoever has its claim knows it, so that nobody needs to keep it from begin to end.
    #[allow(clippy::cast_sign_loss, reason = "bits are bits")]
    pub fn of_attempt(key: ClaimKey) -> SpanId {
        let claim = Dice::seeded(key.claim.0 as u64).next_u64();
        SpanId::of(mixed(halves(key.message).1 ^ claim))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where in which trace something stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Context {
    pub trace: TraceId,
    pub span: SpanId,
    /// Whether it is recorded. Whoever begins a trace decides that, and all others do likewise.
    pub sampled: bool,
    pub state: Option<String>,
}

impl Context {
    /// What the headers say; nothing if they do not say it as the standard wants it.
    pub fn read(parent: &str, state: Option<&str>) -> Option<Context> {
        // What is written in other characters is cut nowhere below.
        let (version, rest) = parent.trim().split_at_checked(3).filter(|_| parent.is_ascii())?;
        let (known, more) = rest.split_at_checked(52)?;
        // Later versions may say more behind what this one says.
        let allowed = match version {
            "00-" => more.is_empty(),
            _ => more.is_empty() || more.starts_with('-'),
        };
        let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let [trace, span, flags] = known.split('-').collect::<Vec<_>>().try_into().ok()?;
        let sizes = [&version[..2], trace, span, flags].map(str::len) == [2, 32, 16, 2];
        let plain = [&version[..2], trace, span, flags].iter().all(|part| hex(part));
        if !allowed || !sizes || !plain || !version.ends_with('-') || version == "ff-" {
            return None;
        }
        let sent = |text: &&str| {
            (1..=STATE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b))
        };
        Some(Context {
            trace: TraceId(NonZeroU128::new(u128::from_str_radix(trace, 16).ok()?)?),
            span: SpanId(NonZeroU64::new(u64::from_str_radix(span, 16).ok()?)?),
            sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
            state: state.map(str::trim).filter(sent).map(str::to_owned),
        })
    }

    /// What the header says.
    pub fn parent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }

    /// The same trace, at another span.
    pub fn at(&self, span: SpanId) -> Context {
        Context { span, ..self.clone() }
    }

    /// The trace of a message that came with none: its id says which, so that all attempts are in the same.
    fn of(message: MessageId, share: Share) -> Context {
        let (high, low) = halves(message);
        let trace = TraceId::of(mixed(high), mixed(low));
        Context { trace, span: SpanId::of(mixed(high ^ low)), sampled: share.takes(trace), state: None }
    }
}

impl From<Context> for String {
    fn from(context: Context) -> String {
        match &context.state {
            None => context.parent(),
            Some(state) => format!("{} {state}", context.parent()),
        }
    }
}

impl TryFrom<String> for Context {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Context, &'static str> {
        let (parent, state) = match text.split_once(' ') {
            Some((parent, state)) => (parent, Some(state)),
            None => (&*text, None),
        };
        Context::read(parent, state).ok_or("no place in a trace")
    }
}

#[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
fn halves(id: MessageId) -> (u64, u64) {
    ((id.bits() >> 64) as u64, id.bits() as u64)
}

fn mixed(bits: u64) -> u64 {
    Dice::seeded(bits).next_u64()
}

/// Which part of the traces that begin here is recorded: from 0, none, to 1, all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl Share {
    /// Whether this one is. Every node says the same of it.
    #[allow(clippy::cast_possible_truncation, reason = "the lower half is as even as all of it")]
    fn takes(self, trace: TraceId) -> bool {
        Dice::seeded(trace.0.get() as u64).unit() < self.0
    }
}

/// A point in time as fine as traces tell it: nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl From<Time> for Moment {
    fn from(time: Time) -> Moment {
        Moment(u64::try_from(time.millis()).unwrap_or_default().saturating_mul(NANOS_A_MILLI))
    }
}

/// Whose work a span is, as seen from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Our own.
    Internal,
    /// Somebody asked us.
    Server,
    /// We asked somebody.
    Client,
}

/// Something that is known of a span. Never whom a message is for, nor what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    Text(Cow<'static, str>),
    Number(i64),
}

impl From<String> for Fact {
    fn from(text: String) -> Fact {
        Fact::Text(text.into())
    }
}

impl From<&'static str> for Fact {
    fn from(text: &'static str) -> Fact {
        Fact::Text(text.into())
    }
}

/// One stretch of work that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub at: Context,
    /// The span that it is a part of; none for the first of a trace.
    pub parent: Option<SpanId>,
    /// Another trace that it came of.
    pub link: Option<Context>,
    pub name: Cow<'static, str>,
    pub kind: Kind,
    pub from: Moment,
    pub until: Moment,
    pub facts: Vec<(&'static str, Fact)>,
    /// What went wrong, by its category.
    pub fault: Option<String>,
}

/// Who records spans, where anybody does. Those who work never wait for it: what it cannot take is dropped and counted.
pub trait Tracer: Send + Sync + fmt::Debug {
    fn now(&self) -> Moment;

    /// Bits that nobody else gets.
    fn chance(&self) -> u64;

    fn share(&self) -> Share;

    fn record(&self, span: Span);

    fn span_id(&self) -> SpanId {
        SpanId::of(self.chance())
    }

    /// A span of our own in the caller's trace, or the first of a new one.
    fn begin(&self, caller: Option<&Context>) -> Context {
        match caller {
            Some(caller) => caller.at(self.span_id()),
            None => {
                let trace = TraceId::of(self.chance(), self.chance());
                let sampled = self.share().takes(trace);
                Context { trace, span: self.span_id(), sampled, state: None }
            }
        }
    }

    /// Where a message stands: in the trace that it came with, or in its own.
    fn of(&self, message: &Message) -> Context {
        match &message.body.trace {
            Some(kept) => (**kept).clone(),
            None => Context::of(message.id, self.share()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageKey;
    use crate::message::ClaimId;
    use proptest::prelude::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test] // REQ OB-2
    fn a_place_in_a_trace_is_read_and_written_as_the_standard_says() {
        let context = Context::read(PARENT, Some(" congo=t61rcWkgMzE,rojo=00f067aa0ba902b7 ")).unwrap();
        assert_eq!(context.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span.to_string(), "b7ad6b7169203331");
        assert!(context.sampled);
        assert_eq!(context.state.as_deref(), Some("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"));
        assert_eq!(context.parent(), PARENT);
        assert!(!Context::read(&PARENT.replace("-01", "-02"), None).unwrap().sampled);
        // A later version may add to what this one has.
        let later = PARENT.replacen("00", "cc", 1);
        assert_eq!(Context::read(&format!("{later}-what-will-be"), None).unwrap().parent(), PARENT);
        assert!(Context::read(&later, None).is_some());
    }

    #[test]
    fn what_the_standard_does_not_allow_is_no_place_in_a_trace() {
        let wrong = [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT[..54],
            &format!("{PARENT}-00"),
            &format!("{PARENT}."),
            &PARENT.replacen("00", "ff", 1),
            &PARENT.replacen("00", "0g", 1),
            &PARENT.replace('-', "_"),
            &PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            &PARENT.replace("b7ad6b7169203331", "b7ad6b716920333"),
            &PARENT.replacen("0a", "é", 1),
            &PARENT.replacen("00-", "€", 1),
            &PARENT.replacen("00-", "é-", 1),
            &PARENT.replace("-01", "-+1"),
        ];
        for text in wrong {
            assert_eq!(Context::read(text, None), None, "{text}");
        }
        for state in ["", " ", "a=\u{7f}", "a=é", &"x".repeat(513)] {
            assert_eq!(Context::read(PARENT, Some(state)).unwrap().state, None, "{state:?}");
        }
    }

    #[test]
    fn it_is_kept_as_one_short_text() {
        for state in [None, Some("a=1,b=2 3")] {
            let context = Context::read(PARENT, state).unwrap();
            let kept = serde_json::to_string(&context).unwrap();
            assert_eq!(kept, format!("\"{PARENT}{}\"", state.map(|it| format!(" {it}")).unwrap_or_default()));
            assert_eq!(serde_json::from_str::<Context>(&kept).unwrap(), context);
        }
    }

    #[test]
    fn a_message_without_a_trace_has_one_of_its_own_for_all_its_attempts() {
        let id = |n| MessageId::new(MessageKey(n), 7);
        assert_eq!(Context::of(id(1), Share(1.0)), Context::of(id(1), Share(1.0)));
        assert_ne!(Context::of(id(1), Share(1.0)).trace, Context::of(id(2), Share(1.0)).trace);
        let attempt = |message, claim| SpanId::of_attempt(ClaimKey { message, claim: ClaimId(claim) });
        assert_eq!(attempt(id(1), 1), attempt(id(1), 1));
        assert_ne!(attempt(id(1), 1), attempt(id(1), 2));
        assert_ne!(attempt(id(1), 1), attempt(id(2), 1));
    }

    #[test]
    fn the_share_says_how_many_are_recorded() {
        let sampled = |share: f64| {
            (0..10_000)
                .filter(|n| Context::of(MessageId::new(MessageKey(*n), 0), Share(share)).sampled)
                .count()
        };
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 10_000));
        assert!((900..1_100).contains(&sampled(0.1)), "{}", sampled(0.1));
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_read_or_left(parent in any::<String>(), state in any::<String>()) {
            if let Some(context) = Context::read(&parent, Some(&state)) {
                let kept = String::from(context.clone());
                prop_assert_eq!(Context::try_from(kept).unwrap(), context);
            }
        }
    }
}
