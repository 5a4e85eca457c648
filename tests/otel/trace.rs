use opentelemetry::trace::SpanId;
use serde_json::json;
use toolstack::{
    Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    layer::{TelemetryLayer, telemetry::Metrics},
    model::{Context, InputRequired, RawObject, Resume, TraceContext},
    testing::Probe,
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;
use tracing::Instrument;

use super::{only, set_up, spans_of};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn traced(name: &str) -> ToolCall {
    let mut trace = TraceContext::new(PARENT);
    trace.tracestate = Some("rojo=00f067aa0ba902b7".into());
    trace.baggage = Some("user=ada".into());
    ToolCall::new(name, json!({})).with_context(Context::new().with_trace(trace))
}

#[tokio::test]
async fn h12_a_span_continues_the_trace_that_the_request_brings_and_links_to_where_it_came_in() {
    set_up();
    let stack =
        ServiceBuilder::new().layer(TelemetryLayer::new().remote_parents()).service(Router::new().tool(Probe::new().tool("continued")));
    let request = tracing::info_span!("POST /mcp", gen_ai.tool.name = "request_of_continued");
    stack.run_call(traced("continued")).instrument(request).await;

    let (span, request) = (only(spans_of("continued")), only(spans_of("request_of_continued")));
    assert_eq!(span.span_context.trace_id().to_string(), TRACE);
    assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
    assert!(span.parent_span_is_remote);
    assert_eq!(span.links.iter().map(|link| &link.span_context).collect::<Vec<_>>(), [&request.span_context]);
}

#[tokio::test]
async fn a_client_s_trace_is_not_continued_unless_that_is_wanted() {
    set_up();
    let stack = ServiceBuilder::new().telemetry(&Metrics::new()).service(Router::new().tool(Probe::new().tool("not_continued")));
    stack.run_call(traced("not_continued")).await;
    let span = only(spans_of("not_continued"));
    assert_ne!(span.span_context.trace_id().to_string(), TRACE);
    assert_eq!(span.parent_span_id, SpanId::INVALID);
}

#[tokio::test]
async fn a_trace_that_is_none_is_as_if_there_were_none() {
    set_up();
    let stack =
        ServiceBuilder::new().layer(TelemetryLayer::new().remote_parents()).service(Router::new().tool(Probe::new().tool("badly_traced")));
    let call = ToolCall::new("badly_traced", json!({})).with_context(Context::new().with_trace(TraceContext::new("00-zz-zz-01")));
    assert!(stack.run_call(call).await.is_completed());
    assert_eq!(only(spans_of("badly_traced")).parent_span_id, SpanId::INVALID);
}

#[tokio::test]
async fn h12_there_is_one_span_of_a_call_however_many_layers_would_make_one() {
    set_up();
    let (outer, inner) = (Metrics::new(), Metrics::new());
    let tools = Router::new().tool(Probe::new().tool("once")).layer(TelemetryLayer::new().metrics(&inner));
    let stack = ServiceBuilder::new().telemetry(&outer).service(tools);
    stack.call_tool("once", json!({})).await;
    assert_eq!(spans_of("once").len(), 1);
    assert_eq!((outer.snapshot().lifetime().total(), inner.snapshot().lifetime().total()), (1, 1));
}

#[tokio::test]
async fn what_a_tool_sends_on_names_its_own_span_and_keeps_the_rest() {
    set_up();
    let seen = sync_tool_fn("sends_on", |context: Context| {
        let trace = context.trace().cloned().unwrap();
        format!("{}|{}|{}", trace.traceparent.unwrap(), trace.tracestate.unwrap_or_default(), trace.baggage.unwrap_or_default())
    });
    let stack = ServiceBuilder::new().layer(TelemetryLayer::new().remote_parents()).service(Router::new().tool(seen));
    let answer = stack.run_call(traced("sends_on")).await;
    let span = only(spans_of("sends_on"));
    let own = format!("00-{TRACE}-{}-01|rojo=00f067aa0ba902b7|user=ada", span.span_context.span_id());
    assert_eq!(answer.as_text().as_deref(), Some(own.as_str()));
}

#[tokio::test]
async fn h12_a_call_that_comes_back_with_an_answer_is_in_the_same_trace() {
    set_up();
    let asks = Probe::answering(|call| {
        if call.context.resume().is_some() {
            ToolResponse::text("done")
        } else {
            ToolResponse::InputRequired(Box::new(InputRequired::new("state")))
        }
    });
    let stack = ServiceBuilder::new().layer(TelemetryLayer::new().remote_parents()).service(Router::new().tool(asks.tool("asks")));
    stack.run_call(traced("asks")).await;
    let mut again = traced("asks");
    again.context = again.context.with_resume(Resume::new(Some("state".into()), RawObject::new()));
    assert!(stack.run_call(again).await.is_completed());
    let spans = spans_of("asks");
    assert_eq!(spans.len(), 2);
    assert!(spans.iter().all(|span| span.span_context.trace_id().to_string() == TRACE));
    assert!(spans.iter().all(|span| span.status == opentelemetry::trace::Status::Unset), "to ask is no error");
}
