//! Events as they happen: a stream of server-sent events that can be taken up where it broke off.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::request::Parts;
use http::{HeaderValue, header};
use pombo_kernel::name::ChannelName;
use pombo_kernel::subscription::matches;
use pombo_store::audit::Record;
use pombo_store::shelf::Shelf;
use pombo_store::{Line, StoreError, roster};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::page::{Query, parsed};
use crate::Door;
use crate::auth::{Access, Caller, Role, bearer};
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::veil::Veil;
use crate::{campaign, event};

/// Followers that there may be at once, half of them one tenant's: each of them reads the audit for itself.
pub(crate) const FOLLOWERS: usize = 200;
/// Records that are looked at together.
const AT_ONCE: usize = 256;
/// A busy store moves all the time: a follower looks at most so often.
const PACE: Duration = Duration::from_millis(100);
/// Something is said at least so often, so that whoever stands in between keeps the line open.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Messages that are read together: each may be large.
const MESSAGES: usize = 32;
/// How often it is told how far a campaign has come, at most.
const PROGRESS: Duration = Duration::from_secs(1);
/// How often it is seen whether the key still opens this.
const LOOK_AT_KEY: Duration = Duration::from_secs(5);
const TYPES_MAX: usize = 50;

/// Tells the caller what happens from now on, or from where an earlier stream broke off.
///
/// The stream ends when the node stops, when the key does, when the store cannot be read, and when the caller reads too
/// slowly; whoever comes back with the last id misses nothing.
pub(crate) async fn follow(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, .. } = call;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let ask = Ask::read(&head, &caller)?;
    let Some(seat) = door.0.followers.take(&caller.tenant) else {
        let hint = "end a stream that is not needed, or come back after the time in Retry-After";
        let detail = "as many streams are open already as this tenant may have beside others";
        return Err(Problem::new(Code::Overloaded, detail, hint));
    };
    let from = match ask.after {
        Some(after) => u64::try_from(after.saturating_add(1)).unwrap_or(0),
        None => *door.store().watch().borrow(),
    };
    let key = bearer(&head.headers)?.to_owned();
    let (sender, receiver) = mpsc::channel(1);
    let follower = Follower { door, caller, ask, from, key, sender, moved: BTreeSet::new() };
    tokio::spawn(async move {
        follower.run().await;
        drop(seat);
    });
    let chunks = stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        receiver.recv().await.map(|chunk| (Ok::<_, Infallible>(chunk), receiver))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // A proxy that collects answers before it passes them on would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Which events are asked for.
struct Ask {
    /// The last one that was seen; -1 before the first of all.
    after: Option<i64>,
    types: Vec<String>,
    channel: Option<ChannelName>,
    reference: Option<String>,
}

impl Ask {
    fn read(head: &Parts, caller: &Caller) -> Result<Ask, Problem> {
        let mut query = Query::read(&head.uri, &["after", "types", "channel", "reference"])?;
        let position = |text: &str| {
            let position = text.trim().parse().ok().filter(|position| *position >= -1);
            position.ok_or_else(|| {
                let hint = "hand back the id of the last event as it came; -1 starts with the first of all";
                ("is not the id of an event".to_owned(), hint.to_owned())
            })
        };
        let mut after = query.take("after", position);
        let types = query.take("types", |text| {
            let types: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
            let unknown = |pattern: &String| {
                event::unknown_type(pattern).filter(|_| !matches(pattern, event::PROGRESS))
            };
            match types.iter().find_map(unknown) {
                Some(wrong) => Err(wrong),
                None if types.len() > TYPES_MAX => {
                    let hint = "use a group, such as message.*";
                    Err((format!("names more than {TYPES_MAX} types"), hint.to_owned()))
                }
                None => Ok(types),
            }
        });
        let channel: Option<ChannelName> = query.take("channel", parsed);
        let reference = query.take("reference", |text| match text.len() <= 1_024 {
            true => Ok(text.to_owned()),
            false => {
                let hint = "give the exact value to look for";
                Err(("is longer than 1024 bytes".to_owned(), hint.to_owned()))
            }
        });
        // A browser that reconnects repeats the address and adds the header.
        if let Some(last) = head.headers.get("last-event-id").filter(|value| !value.is_empty()) {
            match position(last.to_str().unwrap_or_default()) {
                Ok(last) => after = Some(last),
                Err((reason, hint)) => return Err(Problem::field("last-event-id", reason, hint)),
            }
        }
        query.end()?;
        let ask = Ask { after, types: types.unwrap_or_default(), channel, reference };
        ask.allowed(caller).map(|()| ask)
    }

    /// A producer follows its own messages by reference; following everybody's takes another role.
    fn allowed(&self, caller: &Caller) -> Result<(), Problem> {
        if caller.role == Role::Producer && self.reference.is_none() {
            let problem = caller.may(Access::Look).err().unwrap_or_else(Problem::internal);
            let hint = format!("ask for `?reference=…`, or {}", problem.hint);
            return Err(Problem { hint: hint.into(), ..problem });
        }
        self.channel.as_ref().map_or(Ok(()), |channel| caller.may_use(channel))
    }

    fn wants(&self, record: &Record) -> bool {
        self.wants_type(event::kind(record.event)) && self.wants_channel(record)
    }

    fn wants_type(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|pattern| matches(pattern, kind))
    }

    fn wants_channel(&self, record: &Record) -> bool {
        self.channel.as_ref().is_none_or(|channel| channel.as_str() == record.channel)
    }

    /// Whether that caller is to be told how far campaigns have come. Who follows a reference follows that alone.
    fn wants_progress(&self, caller: &Caller) -> bool {
        self.reference.is_none() && self.wants_type(event::PROGRESS) && Access::Look.allows(caller.role)
    }

    /// Whether it is about what the reference names: a message that carries it, or the claim of a decision.
    fn wants_subject(&self, record: &Record, line: Option<&Line>) -> bool {
        let Some(wanted) = &self.reference else { return true };
        match event::claim(record) {
            Some(claim) => claim == *wanted,
            None => line.and_then(|line| line.message.body.reference.as_ref()) == Some(wanted),
        }
    }
}

/// One caller's stream.
struct Follower {
    door: Door,
    caller: Arc<Caller>,
    ask: Ask,
    /// Where it goes on.
    from: u64,
    key: String,
    sender: mpsc::Sender<Bytes>,
    /// Campaigns that have moved since it was last told how far they have come.
    moved: BTreeSet<String>,
}

/// Nobody reads, or not fast enough.
struct Gone;

impl Follower {
    async fn run(mut self) {
        let mut news = self.door.store().watch();
        let mut closing = self.door.0.closing.subscribe();
        let mut heartbeat = interval(HEARTBEAT);
        let mut look = interval(LOOK_AT_KEY);
        look.tick().await;
        let mut progress = interval(PROGRESS);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if !self.moved.is_empty() && progress.tick().now_or_never().is_some() {
                match self.progress().await {
                    Ok(text) if text.is_empty() => {}
                    Ok(text) => {
                        if self.send(text).await.is_err() {
                            return;
                        }
                    }
                    Err(_) => return,
                }
            }
            if look.tick().now_or_never().is_some() && !self.still_may().await {
                return;
            }
            if *closing.borrow_and_update() {
                return;
            }
            news.mark_unchanged();
            let (chunk, seen) = match self.next().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::debug!(%error, "a stream of events ends");
                    return;
                }
            };
            if !chunk.is_empty() && self.send(chunk).await.is_err() {
                return;
            }
            if self.sender.is_closed() {
                return;
            }
            if seen == AT_ONCE {
                continue;
            }
            tokio::select! {
                changed = news.changed() => match changed {
                    Ok(()) => sleep(PACE).await,
                    Err(_) => return,
                },
                _ = progress.tick(), if !self.moved.is_empty() => progress.reset_immediately(),
                _ = heartbeat.tick() => if self.send(self.alive()).await.is_err() { return },
                _ = look.tick() => if !self.still_may().await { return },
                _ = closing.changed() => return,
                () = self.sender.closed() => return,
            }
        }
    }

    /// A sign of life, with the place that was reached, also where nothing there was for this caller.
    fn alive(&self) -> String {
        match self.from.checked_sub(1) {
            Some(last) => format!(": alive\nid: {last}\n\n"),
            None => ": alive\n\n".to_owned(),
        }
    }

    /// The next events for this caller as they are sent, and how many records were looked at.
    async fn next(&mut self) -> Result<(String, usize), StoreError> {
        let store = self.door.store();
        let records = store.audit(self.from, AT_ONCE).await?;
        let Some((last, _)) = records.last() else { return Ok((String::new(), 0)) };
        let (seen, next) = (records.len(), last + 1);
        let setup = self.door.setup();
        let veil = Veil::of(&self.caller, &setup);
        let progress = self.ask.wants_progress(&self.caller);
        let moves =
            |record: &Record| progress && event::moves_campaign(record) && self.ask.wants_channel(record);
        let wanted: Vec<&(u64, Record)> = records
            .iter()
            .filter(|(_, record)| self.ask.wants(record) || moves(record))
            .filter(|(_, record)| event::may_see(record, &self.caller, &setup))
            .collect();
        let (mut text, mut moved) = (String::new(), Vec::new());
        for some in wanted.chunks(MESSAGES) {
            let lines = event::lines(store, some.iter().filter_map(|(_, record)| record.message)).await?;
            for (position, record) in some {
                let line = record.message.and_then(|id| lines.get(&id));
                if moves(record) {
                    moved.extend(event::campaign(record, line));
                }
                if !self.ask.wants(record) || !self.ask.wants_subject(record, line) {
                    continue;
                }
                let mut told = event::told(*position, record, line);
                veil.event(&mut told, line.map(|line| &line.message.body));
                let json = serde_json::to_string(&told).unwrap_or_default();
                // Writing into memory cannot fail.
                let _ = write!(text, "id: {position}\nevent: {}\ndata: {json}\n\n", told.r#type);
            }
        }
        self.moved.extend(moved);
        self.from = next;
        Ok((text, seen))
    }

    /// How far campaigns have come that have moved. It has no id: whoever comes back asks for what happened, and is told
    /// how it stands.
    async fn progress(&mut self) -> Result<String, StoreError> {
        let (store, setup, now) = (self.door.store(), self.door.setup(), self.door.now());
        let mut text = String::new();
        for id in std::mem::take(&mut self.moved) {
            let doc = store.doc(Shelf::Campaign, self.caller.tenant.clone(), id.clone()).await?;
            let Some(campaign) = doc.as_ref().and_then(roster::read) else { continue };
            if !self.caller.sees(&campaign.channel) {
                continue;
            }
            let seen = campaign::seen(store, &setup, &id, &campaign, now).await?;
            let mut told = event::progress(&seen, now);
            Veil::of(&self.caller, &setup).event(&mut told, None);
            let json = serde_json::to_string(&told).unwrap_or_default();
            // Writing into memory cannot fail.
            let _ = write!(text, "event: {}\ndata: {json}\n\n", event::PROGRESS);
        }
        Ok(text)
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        let sending = self.sender.send(Bytes::from(text));
        match timeout(self.door.0.patience.stream, sending).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }

    /// Whether the key is still good for what it was good for; what it may see can have changed.
    async fn still_may(&mut self) -> bool {
        match self.door.caller_by_key(&self.key, None).await {
            Ok(caller) => {
                let may = self.ask.allowed(&caller).is_ok();
                self.caller = caller;
                may
            }
            Err(problem) => matches!(problem.code, Code::StoreUnavailable | Code::ReadTooLong),
        }
    }
}
