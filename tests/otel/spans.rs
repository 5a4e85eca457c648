use futures_util::FutureExt;
use opentelemetry::trace::{SpanKind, Status};
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
    layer::{
        TelemetryLayer, gate,
        telemetry::{Metrics, WireAttributes},
    },
    model::{Context, Principal},
    testing::{Controlled, Probe},
    tool::tool_fn,
};
use tower::ServiceBuilder;

use super::{SPANS, attribute, only, set_up, spans_of};

fn stack(tools: Router) -> Stack {
    set_up();
    ServiceBuilder::new().catch_panic().telemetry(&Metrics::new()).service(tools).into_stack()
}

#[tokio::test]
async fn a_call_is_one_span_with_the_names_of_the_conventions() {
    let stack = stack(Router::new().tool(Probe::new().tool("named")));
    let mut call = ToolCall::new("named", json!({ "password": "hunter2" }));
    call.id = "call-7".into();
    stack.run_call(call).await;

    let span = only(spans_of("named"));
    assert_eq!((span.name.as_ref(), &span.span_kind, &span.status), ("execute_tool named", &SpanKind::Internal, &Status::Unset));
    assert_eq!(attribute(&span, "gen_ai.operation.name").unwrap(), "execute_tool");
    assert_eq!(attribute(&span, "gen_ai.tool.type").unwrap(), "function");
    assert_eq!(attribute(&span, "gen_ai.tool.call.id").unwrap(), "call-7");
    assert_eq!(attribute(&span, "toolstack.outcome").unwrap(), "completed");
    for absent in ["error.type", "mcp.method.name", "mcp.session.id", "gen_ai.conversation.id", "gen_ai.tool.call.arguments"] {
        assert_eq!(attribute(&span, absent), None, "{absent}");
    }
    assert!(!format!("{span:?}").contains("hunter2"));
}

#[tokio::test]
async fn h11_a_failed_call_has_the_status_and_the_type_of_its_error() {
    let refuse = gate("refuse", |call| match call.name().as_str() {
        "refused" => Err(Refusal::new(RefusalKind::Denied, "hunter2").with_by("refuse")),
        _ => Ok(()),
    });
    set_up();
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new().catch_panic().telemetry(&Metrics::new()).layer(refuse).service(
        Router::new()
            .tool(Probe::answering(|_| ToolResponse::error("hunter2")).tool("fails"))
            .tool(Probe::answering(|_| panic!("hunter2")).tool("panics"))
            .tool(Probe::new().tool("refused"))
            .tool(controlled.tool("dropped")),
    );
    for name in ["fails", "panics", "refused"] {
        stack.call_tool(name, json!({})).await;
    }
    assert!(Box::pin(stack.call_tool("dropped", json!({}))).as_mut().now_or_never().is_none());
    for (name, kind, by) in [
        ("fails", "tool_error", None),
        ("panics", "internal", Some("router")),
        ("refused", "denied", Some("refuse")),
        ("dropped", "cancelled", None),
    ] {
        let span = only(spans_of(name));
        assert_eq!(span.status, Status::error(""), "{name}");
        assert_eq!(attribute(&span, "error.type").as_deref(), Some(kind));
        assert_eq!(attribute(&span, "toolstack.outcome").as_deref(), Some(kind));
        assert_eq!(attribute(&span, "toolstack.refused_by").as_deref(), by);
        assert!(!format!("{span:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn what_a_face_knows_of_the_wire_makes_it_a_server_s_span() {
    let stack = stack(Router::new().tool(Probe::new().tool("wired")));
    let mut call = ToolCall::new("wired", json!({})).with_context(Context::new().with_session("s-1"));
    let wire = WireAttributes::new("tools/call").protocol_version("2025-11-25").request_id("7").transport("tcp");
    let wire = wire.network_protocol("http", "1.1").client("127.0.0.1:4711".parse().unwrap());
    call.context.extensions_mut().insert(wire);
    stack.run_call(call).await;

    let span = only(spans_of("wired"));
    assert_eq!((span.name.as_ref(), &span.span_kind), ("execute_tool wired", &SpanKind::Server));
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-11-25"),
        ("jsonrpc.request.id", "7"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("client.port", "4711"),
    ] {
        assert_eq!(attribute(&span, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(attribute(&span, "mcp.session.id"), None, "who knows the session may be able to join it");
}

#[tokio::test]
async fn the_session_is_recorded_where_that_is_wanted() {
    set_up();
    let stack = ServiceBuilder::new()
        .layer(TelemetryLayer::new().record_session())
        .service(Router::new().tool(Probe::new().tool("in_session")).tool(Probe::new().tool("in_wired_session")));
    let context = Context::new().with_session("s-1").with_principal(Principal::new("ada"));
    stack.run_call(ToolCall::new("in_session", json!({})).with_context(context.clone())).await;
    let mut wired = ToolCall::new("in_wired_session", json!({})).with_context(context);
    wired.context.extensions_mut().insert(WireAttributes::new("tools/call"));
    stack.run_call(wired).await;
    assert_eq!(attribute(&only(spans_of("in_session")), "gen_ai.conversation.id").as_deref(), Some("s-1"));
    assert_eq!(attribute(&only(spans_of("in_wired_session")), "mcp.session.id").as_deref(), Some("s-1"));
}

#[tokio::test]
async fn a_name_that_a_model_makes_up_is_in_no_span() {
    let stack = stack(Router::new());
    let mut call = ToolCall::new("hunter2-made-up", json!({}));
    call.id = "made-up-call".into();
    stack.run_call(call).await;
    let spans = SPANS.get_finished_spans().unwrap();
    let span = only(spans.into_iter().filter(|span| attribute(span, "gen_ai.tool.call.id").as_deref() == Some("made-up-call")).collect());
    assert_eq!((span.name.as_ref(), attribute(&span, "gen_ai.tool.name")), ("execute_tool", None));
    assert!(!format!("{span:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_call_id_is_cut_to_a_length_that_spans_can_have() {
    let stack = stack(Router::new().tool(Probe::new().tool("long_id")));
    let mut call = ToolCall::new("long_id", json!({}));
    call.id = "é".repeat(10_000).into();
    stack.run_call(call).await;
    assert_eq!(attribute(&only(spans_of("long_id")), "gen_ai.tool.call.id").unwrap().chars().count(), 128);
}

#[tokio::test]
async fn a_layer_without_spans_makes_none() {
    set_up();
    let metrics = Metrics::new();
    let layer = TelemetryLayer::new().metrics(&metrics).without_spans();
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(Probe::new().tool("unseen")));
    stack.call_tool("unseen", json!({})).await;
    assert_eq!((spans_of("unseen").len(), metrics.snapshot().lifetime().total()), (0, 1));
}

#[tokio::test]
async fn what_a_tool_does_is_within_its_span_also_when_it_is_dropped() {
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            tracing::info_span!("left", gen_ai.tool.name = "left_behind").in_scope(|| {});
        }
    }
    let stack = stack(Router::new().tool(tool_fn("leaves", async || {
        let _leaves = Leaves;
        tokio::task::yield_now().await;
        std::future::pending::<&str>().await
    })));
    stack.list_tools().await;
    let mut call = Box::pin(stack.call_tool("leaves", json!({})));
    for _ in 0..3 {
        assert!(futures_util::poll!(call.as_mut()).is_pending());
    }
    drop(call);
    let outer = only(spans_of("leaves"));
    assert_eq!(only(spans_of("left_behind")).parent_span_id, outer.span_context.span_id());
}

#[tokio::test]
async fn a_tool_that_calls_another_is_the_parent_of_its_span_and_a_first_call_is_no_exception() {
    let tools = Router::new()
        .tool(Probe::new().tool("called_within"))
        .tool(tool_fn("calls_within", async |stack: toolstack::stack::Reentry| stack.call_tool("called_within", json!({})).await));
    let stack = stack(tools);
    assert!(stack.call_tool("calls_within", json!({})).await.is_completed());
    let (outer, inner) = (only(spans_of("calls_within")), only(spans_of("called_within")));
    assert_eq!(inner.parent_span_id, outer.span_context.span_id());
    assert_eq!(inner.span_context.trace_id(), outer.span_context.trace_id());
}
