//! Traces of requests: each is a span in its caller's trace, and what it brings in takes that trace along.

use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;
use pombo_kernel::message::Draft;
use pombo_kernel::name::ChannelName;
use pombo_kernel::trace::{self, Context, Fact, Kind, Moment, Span, SpanId, Tracer};
use pombo_store::{Accepted, Conflict, Store, StoreError};

/// What became of drafts, each in its place.
pub(crate) type Answers = Vec<Result<Accepted, Conflict>>;

/// A request that is being answered.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    tracer: Arc<dyn Tracer>,
    /// Where this request stands.
    at: Context,
    /// The caller's span.
    parent: Option<SpanId>,
    from: Moment,
    /// Each message begins a trace of its own, which names this one: one trace of a million messages is of use to nobody.
    apart: bool,
}

impl Trail {
    /// The request's, where anybody keeps traces.
    pub(crate) fn of(head: &Parts) -> Option<&Trail> {
        head.extensions.get()
    }

    pub(crate) fn begin(tracer: &Arc<dyn Tracer>, caller: Option<&Context>) -> Trail {
        Trail {
            at: tracer.begin(caller),
            parent: caller.map(|caller| caller.span),
            from: tracer.now(),
            tracer: tracer.clone(),
            apart: false,
        }
    }

    /// The same for a request that may bring in any number of messages.
    pub(crate) fn apart(self) -> Trail {
        Trail { apart: true, ..self }
    }

    /// The request is answered.
    pub(crate) fn end(self, name: String, facts: Vec<(&'static str, Fact)>, fault: Option<String>) {
        if self.at.sampled {
            let until = self.tracer.now();
            self.tracer.record(Span {
                at: self.at,
                parent: self.parent,
                link: None,
                name: name.into(),
                kind: Kind::Server,
                from: self.from,
                until,
                facts,
                fault,
            });
        }
    }

    /// Stores messages, each with its place in a trace.
    pub(crate) async fn accept(
        &self,
        store: &dyn Store,
        mut drafts: Vec<Draft>,
    ) -> Result<Answers, StoreError> {
        let from = self.tracer.now();
        let shared = (!self.apart).then(|| self.at.at(self.tracer.span_id()));
        let place = |draft: &mut Draft| {
            let place = shared.clone().unwrap_or_else(|| self.tracer.begin(None));
            draft.body.trace = Some(Box::new(place.clone()));
            (place, draft.queue.channel.clone())
        };
        let places: Vec<(Context, ChannelName)> = drafts.iter_mut().map(place).collect();
        let answers = store.accept(drafts).await;
        let spans = if self.apart { places.len() } else { 1 };
        for (n, (place, channel)) in places.iter().enumerate().take(spans) {
            if place.sampled {
                let answer = answers.as_deref().ok().and_then(|answers| answers.get(n));
                let mut facts = vec![
                    ("messaging.system", Fact::from("pombo")),
                    ("messaging.destination.name", channel.to_string().into()),
                ];
                match answer {
                    Some(Ok(accepted)) => {
                        facts.push(("messaging.message.id", accepted.id.to_string().into()));
                    }
                    Some(Err(_)) => facts.push(("pombo.refused", "idempotency_conflict".into())),
                    None => {}
                }
                if !self.apart && places.len() > 1 {
                    let count = i64::try_from(places.len()).unwrap_or(i64::MAX);
                    facts.push(("messaging.batch.message_count", Fact::Number(count)));
                }
                self.tracer.record(Span {
                    at: place.clone(),
                    parent: (!self.apart).then_some(self.at.span),
                    link: self.apart.then(|| self.at.clone()),
                    name: "accept".into(),
                    kind: Kind::Internal,
                    from,
                    until: self.tracer.now(),
                    facts,
                    fault: answers.is_err().then(|| "not_stored".to_owned()),
                });
            }
        }
        answers
    }
}

/// What a caller says of its trace.
pub(crate) fn said(headers: &HeaderMap) -> Option<Context> {
    let parent = headers.get(trace::PARENT)?.to_str().ok()?;
    // More than one of them is one list, in this order.
    let states: Vec<&str> =
        headers.get_all(trace::STATE).iter().filter_map(|value| value.to_str().ok()).collect();
    Context::read(parent, (!states.is_empty()).then(|| states.join(",")).as_deref())
}
