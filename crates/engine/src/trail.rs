//! What traces tell of a message's way: how long it waited, and what each attempt did.
//!
//! ```text
//! wait                        due, until it was claimed
//! attempt                     claimed, until its result is durable
//! ├ prepare                   template, attachments
//! ├ send                      the provider, which is told of this span
//! └ settle                    the commit
//! ```

use std::sync::Arc;

use pombo_kernel::lifecycle::Next;
use pombo_kernel::reply::Reply;
use pombo_kernel::trace::{Context, Fact, Kind, Moment, Span, SpanId, TraceId, Tracer};
use pombo_store::{Claimed, Settled, Settlement};

/// Where the way of every message is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Trail(pub(crate) Arc<dyn Tracer>);

/// An attempt that is under way.
#[derive(Debug)]
pub(crate) struct Leg<'a> {
    tracer: &'a dyn Tracer,
    claimed: &'a Claimed,
    /// Where the message stands.
    message: Context,
    send: SpanId,
    /// When what is being done began.
    since: Moment,
}

impl Trail {
    pub(crate) fn leg<'a>(&'a self, claimed: &'a Claimed) -> Leg<'a> {
        let tracer = &*self.0;
        let message = tracer.of(&claimed.message);
        Leg { tracer, claimed, message, send: tracer.span_id(), since: tracer.now() }
    }

    pub(crate) fn now(&self) -> Moment {
        self.0.now()
    }

    /// A result is durable, or came too late. It began to be written at `from`. The trace that tells of it.
    pub(crate) fn settled(
        &self,
        claimed: &Claimed,
        settlement: &Settlement,
        settled: Settled,
        from: Moment,
    ) -> Option<TraceId> {
        let leg = self.leg(claimed);
        if !leg.message.sampled {
            return None;
        }
        let until = leg.tracer.now();
        leg.wait();
        let attempt = SpanId::of_attempt(claimed.key);
        let outcome = match settled {
            Settled::Stale => "stale",
            Settled::Done => settlement.attempt.outcome.as_str(),
        };
        let mut facts = vec![
            ("pombo.attempt.number", Fact::Number(settlement.attempt.number.into())),
            ("pombo.attempt.outcome", outcome.into()),
        ];
        match &settlement.next {
            Next::Retry { due, .. } => facts.push(("pombo.retry.due", due.to_string().into())),
            Next::Failed(reason) => facts.push(("pombo.failure.reason", reason.as_str().into())),
            Next::Sent(_) | Next::Held { .. } => {}
        }
        let fault = settlement.attempt.failure.as_ref().map(|failure| failure.category.clone());
        let span = leg.span("settle", leg.tracer.span_id(), Some(attempt));
        leg.tracer.record(Span { from, until, ..span });
        let span = leg.span("attempt", attempt, Some(leg.message.span));
        let facts = span.facts.into_iter().chain(facts).collect();
        let from = settlement.attempt.started_at.into();
        leg.tracer.record(Span { from, until, facts, fault, ..span });
        Some(leg.message.trace)
    }
}

impl Leg<'_> {
    /// It is ready to be sent.
    pub(crate) fn prepared(&mut self) {
        self.passed("prepare", Kind::Internal, self.tracer.span_id(), Vec::new(), None);
    }

    /// What the provider is told, where there is anything to tell.
    pub(crate) fn told(&self) -> Option<Context> {
        match self.message.sampled {
            true => Some(self.message.at(self.send)),
            // Its caller wants to know, even if nobody records it here.
            false => self.claimed.message.body.trace.as_ref().map(|_| self.message.clone()),
        }
    }

    /// It was sent, or not.
    pub(crate) fn sent(&mut self, reply: &Reply) {
        let (said, status) = match reply {
            Reply::Accepted(receipt) => ("accepted", receipt.code),
            Reply::Refused(refusal) => ("refused", refusal.status),
            Reply::Unreachable(_) => ("unreachable", None),
            Reply::Doubtful(_) => ("doubtful", None),
        };
        let mut facts = vec![("pombo.reply", Fact::from(said))];
        facts.extend(status.map(|status| ("pombo.reply.status", Fact::Number(status.into()))));
        let fault = (!matches!(reply, Reply::Accepted(_))).then(|| said.to_owned());
        self.passed("send", Kind::Client, self.send, facts, fault);
    }

    /// How long it waited for its turn. Of a message that brought no trace, the first wait is where its own begins.
    fn wait(&self) {
        let first = self.claimed.message.body.trace.is_none() && self.claimed.progress.steps == 0;
        let span = match first {
            true => self.span("wait", self.message.span, None),
            false => self.span("wait", self.tracer.span_id(), Some(self.message.span)),
        };
        let from = self.claimed.due.max(self.claimed.message.created_at()).into();
        self.tracer.record(Span { from, until: Moment::from(self.claimed.claimed_at).max(from), ..span });
    }

    /// A part of the attempt is over, and the next begins.
    fn passed(
        &mut self,
        name: &'static str,
        kind: Kind,
        id: SpanId,
        facts: Vec<(&'static str, Fact)>,
        fault: Option<String>,
    ) {
        let (from, until) = (self.since, self.tracer.now());
        self.since = until;
        if self.message.sampled {
            let span = self.span(name, id, Some(SpanId::of_attempt(self.claimed.key)));
            let facts = span.facts.into_iter().chain(facts).collect();
            self.tracer.record(Span { from, until, kind, facts, fault, ..span });
        }
    }

    fn span(&self, name: &'static str, id: SpanId, parent: Option<SpanId>) -> Span {
        let message = &self.claimed.message;
        Span {
            at: self.message.at(id),
            parent,
            link: None,
            name: name.into(),
            kind: Kind::Internal,
            from: self.since,
            until: self.since,
            facts: vec![
                ("messaging.system", "pombo".into()),
                ("messaging.destination.name", message.queue.channel.to_string().into()),
                ("messaging.message.id", message.id.to_string().into()),
                ("pombo.lane", message.queue.lane.to_string().into()),
            ],
            fault: None,
        }
    }
}
