use std::fmt;

use tokio::time::Instant;
use tower_layer::Layer;
use tracing::Span;

use super::{metrics::Metrics, places::LISTS, span};
use crate::{
    describe::{Duty, Note},
    layer::around::{Ending, Policed, Policy, PolicyLayer, Site, Step},
    model::{Context, Outcome},
    operation::{Reply, View},
};

/// Makes a span of each operation and counts it; see the [module](super).
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone, Debug)]
pub struct TelemetryLayer {
    policy: Telemetry,
}

/// What a [`TelemetryLayer`] does.
#[derive(Clone)]
pub struct Telemetry {
    metrics: Metrics,
    spans: bool,
    session: bool,
    #[cfg(feature = "opentelemetry")]
    remote_parents: bool,
    #[cfg(feature = "opentelemetry")]
    meter: Option<std::sync::Arc<super::meter::Instruments>>,
}

impl TelemetryLayer {
    /// Spans, and counts of its own.
    pub fn new() -> Self {
        Self {
            policy: Telemetry {
                metrics: Metrics::new(),
                spans: true,
                session: false,
                #[cfg(feature = "opentelemetry")]
                remote_parents: false,
                #[cfg(feature = "opentelemetry")]
                meter: None,
            },
        }
    }

    /// Counts there.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.policy.metrics = metrics.clone();
        self
    }

    /// Makes no spans.
    pub fn without_spans(mut self) -> Self {
        self.policy.spans = false;
        self
    }

    /// Has the session's id in spans: `mcp.session.id` where a face left [`WireAttributes`](super::WireAttributes), and
    /// `gen_ai.conversation.id` elsewhere. Without this it is left out, since whoever knows it may be able to join the session.
    pub fn record_session(mut self) -> Self {
        self.policy.session = true;
        self
    }

    /// Continues the trace whose `traceparent` a request brings, where the `tracing-opentelemetry` layer is installed; the span that is
    /// current becomes a link.
    ///
    /// Without this, spans belong to the span that is current. Who sends a `traceparent` decides whether a trace is sampled, and which one
    /// it is: continue only those of clients that may.
    #[cfg(feature = "opentelemetry")]
    pub fn remote_parents(mut self) -> Self {
        self.policy.remote_parents = true;
        self
    }

    /// Records how long operations took through this meter: `gen_ai.execute_tool.duration`, and `mcp.server.operation.duration` for those
    /// with [`WireAttributes`](super::WireAttributes); and `toolstack.calls.in_flight`, how many calls run.
    ///
    /// This is slower than the counts that are there in any case: the meter looks up the attributes each time.
    #[cfg(feature = "opentelemetry")]
    pub fn meter(mut self, meter: &opentelemetry::metrics::Meter) -> Self {
        self.policy.meter = Some(super::meter::Instruments::new(meter).into());
        self
    }

    /// Where it counts.
    pub(crate) fn counts(&self) -> &Metrics {
        &self.policy.metrics
    }

    pub(crate) fn into_policy(self) -> Telemetry {
        self.policy
    }
}

impl Default for TelemetryLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for TelemetryLayer {
    type Service = Policed<S, Telemetry>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

/// An operation that began.
#[derive(Debug)]
pub struct Begun {
    place: u32,
    started: Instant,
    span: Option<Span>,
    #[cfg(feature = "opentelemetry")]
    wire: bool,
}

impl Policy for Telemetry {
    type State = Begun;

    const OBSERVES: bool = true;

    fn note(&self) -> Option<Note> {
        let note = Note::new("telemetry").duty(Duty::Observes).setting("spans", self.spans);
        #[cfg(feature = "opentelemetry")]
        let note = note.setting("remote_parents", self.remote_parents).setting("meter", self.meter.is_some());
        Some(note)
    }

    #[inline]
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Begun> {
        match request {
            View::Call(call) => {
                let span = || span::of_call(&call.id, &call.context, site.tool, self.session);
                let span = self.wants_span(&call.context).then(span).flatten();
                self.begin(self.metrics.place(site.tool), span, &mut call.context)
            }
            View::List(list) => {
                let span = self.wants_span(&list.context).then(|| span::of_list(&list.context, self.session)).flatten();
                self.begin(LISTS, span, &mut list.context)
            }
            View::Describe(_) => Step::Pass,
        }
    }

    #[inline]
    fn span<'a>(&'a self, begun: &'a Begun) -> Option<&'a Span> {
        begun.span.as_ref()
    }

    #[inline]
    fn after(&self, begun: Begun, ending: Ending<'_>) {
        let outcome = ending.outcome();
        let took = self.metrics.end(begun.place, begun.started, outcome);
        if let Some(span) = &begun.span {
            span::end(span, outcome, refused_by(&ending, outcome));
        }
        #[cfg(feature = "opentelemetry")]
        if let Some(meter) = &self.meter {
            meter.end(&self.metrics, begun.place, begun.wire, took, outcome);
        }
        let _ = took;
    }
}

impl Telemetry {
    /// Not where a layer further out made one of this operation.
    #[inline]
    fn wants_span(&self, context: &Context) -> bool {
        self.spans && !context.is_traced()
    }

    #[inline]
    fn begin(&self, place: u32, span: Option<Span>, context: &mut Context) -> Step<Begun> {
        if let Some(span) = &span {
            self.enter_trace(span, context);
        }
        self.metrics.begin(place);
        #[cfg(feature = "opentelemetry")]
        if let Some(meter) = &self.meter {
            meter.begin(place);
        }
        Step::Continue(Begun {
            place,
            started: context.started(),
            span,
            #[cfg(feature = "opentelemetry")]
            wire: self.meter.is_some() && super::WireAttributes::of(context).is_some(),
        })
    }

    /// There is a span of this operation from now on, and in the trace that it belongs to.
    #[cold]
    fn enter_trace(&self, span: &Span, context: &mut Context) {
        context.set_traced();
        #[cfg(feature = "opentelemetry")]
        super::remote::enter(span, context, self.remote_parents);
        let _ = span;
    }
}

/// The layer that refused. What a tool said of itself is no layer's refusal.
fn refused_by<'a>(ending: &'a Ending<'_>, outcome: Outcome) -> Option<&'a str> {
    let refusal = match ending {
        Ending::Reply(Reply::Call(response)) => response.refusal(),
        Ending::Reply(Reply::List(list)) => list.refusal(),
        _ => None,
    };
    refusal.filter(|_| matches!(outcome, Outcome::Refused(_))).map(crate::Refusal::by)
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("metrics", &self.metrics).field("spans", &self.spans).finish_non_exhaustive()
    }
}
