use std::str::FromStr;

use opentelemetry::{
    Context as OtelContext,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::model::{Context, TraceContext};

/// Puts a new span into the trace that the request brings, where that is wanted, and tells what is within which span it is in.
pub(super) fn enter(span: &Span, context: &mut Context, remote_parents: bool) {
    if remote_parents && let Some(remote) = context.trace().and_then(parse) {
        let ambient = Span::current().context().span().span_context().clone();
        let trace = remote.trace_id();
        // Without the bridge to OpenTelemetry there is no parent to set.
        if span.set_parent(OtelContext::new().with_remote_span_context(remote)).is_ok() && ambient.is_valid() && ambient.trace_id() != trace
        {
            span.add_link(ambient);
        }
    }
    let own = span.context().span().span_context().clone();
    if own.is_valid() {
        let baggage = context.trace().and_then(|trace| trace.baggage.clone());
        let mut trace = TraceContext::new(write(&own));
        trace.tracestate = Some(own.trace_state().header()).filter(|state| !state.is_empty());
        trace.baggage = baggage;
        context.set_trace(trace);
    }
}

/// The longest `tracestate` that is read, in bytes: what the standard asks to be passed on at least.
const STATE_BYTES: usize = 512;

/// Reads a `traceparent` of [version 00](https://www.w3.org/TR/trace-context/#version-format). One that is anything else is none.
fn parse(trace: &TraceContext) -> Option<SpanContext> {
    let parent = trace.traceparent.as_deref()?.as_bytes();
    let [b'0', b'0', b'-', rest @ ..] = parent else { return None };
    let (trace_id, rest) = hex(rest, 32)?;
    let (span_id, rest) = hex(rest.strip_prefix(b"-")?, 16)?;
    let (flags, rest) = hex(rest.strip_prefix(b"-")?, 2)?;
    if !rest.is_empty() {
        return None;
    }
    let state = trace.tracestate.as_deref().filter(|state| state.len() <= STATE_BYTES);
    let state = state.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let parsed = SpanContext::new(TraceId::from_hex(trace_id).ok()?, SpanId::from_hex(span_id).ok()?, flags, true, state);
    parsed.is_valid().then_some(parsed)
}

/// So many digits, lower case, and what follows.
fn hex(text: &[u8], digits: usize) -> Option<(&str, &[u8])> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let lower = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    lower.then(|| std::str::from_utf8(digits).ok().map(|digits| (digits, rest)))?
}

fn write(span: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_written_as_it_was_read() {
        let read = parse(&TraceContext::new(PARENT)).unwrap();
        assert!(read.is_remote() && read.is_sampled());
        assert_eq!(write(&read), PARENT);
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let no_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let long = format!("{PARENT}-00");
        let (upper, version) = (PARENT.to_uppercase(), PARENT.replacen("00", "ff", 1));
        let signed = PARENT.replace("4bf9", "+bf9");
        for wrong in ["", "00", "00-", zeros, no_span, &long, &upper, &version, &signed, &PARENT[..54], "00-é", &PARENT.replace('-', "_")]
        {
            assert_eq!(parse(&TraceContext::new(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn a_tracestate_that_is_too_long_or_wrong_is_left_out() {
        for wrong in ["no equals sign".to_owned(), format!("a={}", "x".repeat(STATE_BYTES))] {
            let mut trace = TraceContext::new(PARENT);
            trace.tracestate = Some(wrong);
            assert_eq!(parse(&trace).unwrap().trace_state().header(), "");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in ".{0,80}", state in ".{0,80}") {
            let mut trace = TraceContext::new(text);
            trace.tracestate = Some(state);
            let _ = parse(&trace);
        }
    }
}
