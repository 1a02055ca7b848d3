//! Who sees persons: whom messages are for, what they say, and what was said about them.
//!
//! Whatever shows a person to a caller is written through a [`Veil`], here and nowhere else. Some roles see through it
//! only if they ask to, may do so, and have left a record first.

use std::borrow::Cow;

use http::Uri;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::mask::{self, MaskedRole};
use pombo_kernel::message::{Body, Json};
use pombo_kernel::name::ChannelName;
use pombo_kernel::setup::Setup;
use pombo_store::audit::{Event, Record};
use pombo_store::transition::act_of;
use serde_json::{Map, Value, json};

use crate::api::page::{Query, yes_or_no};
use crate::auth::{Caller, Role};
use crate::event::Told;
use crate::problem::{Code, Problem};
use crate::{Door, shelf};

/// The parameter by which a caller asks to see persons.
pub(crate) const REVEAL: &str = "reveal";

/// What stands between a caller and persons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Veil {
    /// Nothing: it sees what there is.
    Lifted,
    /// It sees that there is somebody, and not whom.
    Drawn,
}

impl Veil {
    /// What a caller sees who did not ask for more.
    pub(crate) fn of(caller: &Caller, setup: &Setup) -> Veil {
        let role = match caller.role {
            Role::Producer => None,
            Role::Viewer => Some(MaskedRole::Viewer),
            Role::Operator => Some(MaskedRole::Operator),
            Role::Admin => Some(MaskedRole::Admin),
        };
        match role.is_some_and(|role| setup.masked.contains(&role)) {
            true => Veil::Drawn,
            false => Veil::Lifted,
        }
    }

    /// Whom something is for, on a channel of that kind.
    pub(crate) fn recipient(self, kind: Option<ChannelKind>, to: &str) -> Cow<'_, str> {
        match self {
            Veil::Lifted => to.into(),
            Veil::Drawn => mask::recipient(kind, to),
        }
    }

    /// What a message says, or what it was filled with.
    pub(crate) fn document(self, json: Option<&Json>) -> Option<Cow<'_, Json>> {
        json.map(|json| match self {
            Veil::Lifted => Cow::Borrowed(json),
            Veil::Drawn => {
                // What is kept can be read; if it cannot be, nothing of it is shown.
                let value: Value = serde_json::from_str(json.text()).unwrap_or_default();
                Cow::Owned(Json::from_value(&mask::shape(&value)))
            }
        })
    }

    /// The text of a part of it, as mail has them.
    pub(crate) fn text(self, text: &str) -> &str {
        match self {
            Veil::Lifted => text,
            Veil::Drawn => mask::HIDDEN,
        }
    }

    /// What somebody said about a message.
    pub(crate) fn about<'a>(self, text: &'a str, said: &Body) -> Cow<'a, str> {
        match self {
            Veil::Lifted => text.into(),
            Veil::Drawn => mask::about(text, said),
        }
    }

    /// Words of somebody's own: a note, or an id of another system, which should name nobody and may.
    pub(crate) fn words(self, text: &str) -> Cow<'_, str> {
        match self {
            Veil::Lifted => text.into(),
            Veil::Drawn => mask::personal(text),
        }
    }

    /// What happened, of a message that says this. Who it was for is not part of it.
    pub(crate) fn event(self, told: &mut Told, said: Option<&Body>) {
        let nothing = Body::default();
        for (name, value) in told.data.iter_mut().filter(|_| self == Veil::Drawn) {
            let Value::String(text) = value else { continue };
            let seen = match name.as_str() {
                "error" => self.about(text, said.unwrap_or(&nothing)),
                "user_id" | "note" | "pause_note" => self.words(text),
                _ => continue,
            };
            *value = seen.into_owned().into();
        }
    }
}

/// What a caller asks to see of persons, before it is known what there is.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Sight {
    veil: Veil,
    /// It is to be lifted for this once.
    lift: bool,
}

impl Sight {
    /// What a request asks for whose parameter said so. Refuses whoever may not see more than their role.
    pub(crate) fn of(door: &Door, caller: &Caller, reveal: Option<bool>) -> Result<Sight, Problem> {
        let veil = Veil::of(caller, &door.setup());
        let lift = veil == Veil::Drawn && reveal.unwrap_or_default();
        match lift && !caller.reveal {
            false => Ok(Sight { veil, lift }),
            true => Err(Problem::new(
                Code::RevealNotAllowed,
                "this key may not reveal whom messages are for and what they say",
                format!("have an admin allow it with `pombo keys set {} --reveal`", caller.key_id),
            )),
        }
    }

    /// The same, of an address that takes no other parameter.
    pub(crate) fn read(door: &Door, caller: &Caller, uri: &Uri) -> Result<Sight, Problem> {
        let mut query = Query::read(uri, &[REVEAL])?;
        let reveal = query.take(REVEAL, yes_or_no);
        query.end()?;
        Sight::of(door, caller, reveal)
    }

    /// The veil to write an answer through. If it is lifted for this answer, who sees what is on record by then.
    pub(crate) async fn seen(self, door: &Door, caller: &Caller, what: Seen<'_>) -> Result<Veil, Problem> {
        if !self.lift {
            return Ok(self.veil);
        }
        let record = what.record(door, caller);
        shelf::note(door.store(), &caller.tenant, record).await?;
        tracing::info!(key_id = caller.key_id, what = what.what, count = what.count, "persons were revealed");
        Ok(Veil::Lifted)
    }
}

/// What somebody gets to see, for the record: which and how many, never who.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen<'a> {
    pub(crate) what: &'static str,
    pub(crate) message: Option<(MessageId, &'a ChannelName)>,
    pub(crate) campaign: Option<&'a str>,
    /// How a list was narrowed down, as the caller wrote it.
    pub(crate) filters: Vec<(String, String)>,
    /// How many there are in the answer, if that is known before it is written.
    pub(crate) count: Option<u64>,
}

impl Seen<'_> {
    fn record(&self, door: &Door, caller: &Caller) -> Record {
        let filters = self.filters.iter().map(|(name, value)| {
            let value = match name.as_str() {
                "recipient" => mask::recipient(None, value),
                _ => mask::personal(value),
            };
            (name.clone(), Value::from(value.into_owned()))
        });
        let filters: Map<String, Value> = filters.collect();
        let mut detail = Map::from_iter([("what".to_owned(), self.what.into())]);
        let more = [("campaign", json!(self.campaign)), ("count", json!(self.count))];
        detail
            .extend(more.into_iter().filter(|(_, it)| !it.is_null()).map(|(name, it)| (name.to_owned(), it)));
        if !filters.is_empty() {
            detail.insert("filters".to_owned(), filters.into());
        }
        let record = act_of(Event::Revealed, &caller.tenant, &caller.actor(), &detail.into(), door.now());
        match self.message {
            None => record,
            Some((id, channel)) => Record { message: Some(id), channel: channel.to_string(), ..record },
        }
    }
}
