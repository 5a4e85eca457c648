//! However an operation ends, it has one record, which says how.

use std::task::{Context, Poll};

use futures_util::FutureExt;
use serde_json::json;
use toolstack::{
    ListTools, Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{
        CatchErrorLayer, CatchPanicLayer, TimeoutLayer,
        audit::{AuditEnding, AuditRecord},
        gate, gate_async,
    },
    model::{InputRequired, Outcome, TaskHandle},
    testing::{Behaviour, Controlled, Probe, Strict},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};

use super::{audit, one, records};

type Said<'a> = (AuditEnding, Outcome, Option<RefusalKind>, Option<&'a str>, u32);

fn said(record: &AuditRecord) -> Said<'_> {
    (record.ending, record.outcome, record.refusal, record.by.as_deref(), record.attempts)
}

fn call() -> ToolCall {
    ToolCall::new("probe", json!({}))
}

#[tokio::test]
async fn a01_whatever_a_tool_answers_is_recorded_once_as_what_it_is() {
    for (response, outcome, is_error) in [
        (ToolResponse::text("ok"), Outcome::Completed, false),
        (ToolResponse::error("no"), Outcome::ToolError, true),
        (Refusal::new(RefusalKind::ToolError, "no").into(), Outcome::ToolError, true),
        (ToolResponse::InputRequired(Box::new(InputRequired::new("s"))), Outcome::InputRequired, false),
        (ToolResponse::Task(Box::new(TaskHandle::new("t"))), Outcome::Task, false),
    ] {
        let (layer, mut log) = audit();
        let stack = layer.layer(Router::new().tool(Probe::answering(move |_| response.clone()).tool("probe")));
        stack.run_call(call()).await;
        let record = one(&mut log);
        assert_eq!(said(&record), (AuditEnding::Answered, outcome, None, None, 1));
        assert_eq!((record.is_error, record.operation.as_str()), (is_error, "tools/call"));
    }
}

#[tokio::test]
async fn a02_a_refusal_within_is_recorded_outside_with_its_layer_and_one_outside_is_not() {
    let (outer, mut seen) = audit();
    let (inner, mut unseen) = audit();
    let no = gate("no", |_| Err(Refusal::new(RefusalKind::Denied, "No.").with_by("no")));
    let stack = ServiceBuilder::new().layer(outer).layer(no).layer(inner).service(Router::new().tool(Probe::new().tool("probe")));
    stack.run_call(call()).await;
    assert_eq!(said(&one(&mut seen)), (AuditEnding::Refused, RefusalKind::Denied.into(), Some(RefusalKind::Denied), Some("no"), 0));
    assert_eq!(records(&mut unseen), []);
}

#[tokio::test]
async fn a06_an_unknown_tool_is_recorded_by_the_name_that_was_called() {
    let (layer, mut log) = audit();
    layer.layer(Router::new()).call_tool("no_such_tool", json!({})).await;
    let record = one(&mut log);
    assert_eq!(said(&record), (AuditEnding::Refused, RefusalKind::UnknownTool.into(), Some(RefusalKind::UnknownTool), Some("router"), 0));
    assert_eq!((record.tool.as_deref(), record.fingerprint, record.source), (Some("no_such_tool"), None, None));
}

#[tokio::test]
async fn a01_an_error_of_another_layer_is_recorded_as_such_and_once_it_is_caught_as_a_refusal() {
    let strict = Strict::new(Router::new().tool(Probe::new().tool("probe")));
    strict.behave(Behaviour::Fail);
    let (layer, mut log) = audit();
    layer.layer(strict.clone()).oneshot(call()).await.unwrap_err();
    assert_eq!(said(&one(&mut log)), (AuditEnding::Failed, RefusalKind::Internal.into(), Some(RefusalKind::Internal), None, 1));

    let (layer, mut log) = audit();
    layer.layer(CatchErrorLayer::new().layer(strict)).run_call(call()).await;
    let record = one(&mut log);
    assert_eq!((record.ending, record.refusal), (AuditEnding::Refused, Some(RefusalKind::Internal)));
}

#[tokio::test]
async fn a01_a_panic_is_recorded_and_passes_on() {
    let strict = Strict::new(Router::new().tool(Probe::new().tool("probe")));
    strict.behave(Behaviour::PanicInFuture);
    let (layer, mut log) = audit();
    let stack = CatchPanicLayer::new().layer(layer.layer(strict));
    assert_eq!(stack.run_call(call()).await.refusal().unwrap().kind(), RefusalKind::Internal);
    assert_eq!(said(&one(&mut log)), (AuditEnding::Panicked, RefusalKind::Internal.into(), None, None, 1));

    // The router catches a tool's.
    let (layer, mut log) = audit();
    let stack = layer.layer(Router::new().tool(Probe::answering(|_| panic!("as it was told to")).tool("probe")));
    stack.run_call(call()).await;
    assert_eq!(said(&one(&mut log)), (AuditEnding::Refused, RefusalKind::Internal.into(), Some(RefusalKind::Internal), Some("router"), 1));
}

#[tokio::test]
async fn what_is_dropped_is_recorded_whether_it_was_polled_or_not() {
    let controlled = Controlled::new();
    let (layer, mut log) = audit();
    let mut stack = layer.layer(Router::new().tool(controlled.tool("probe")));
    // The first call learns the catalog: dropped before that, and meanwhile, and after.
    drop(ServiceExt::<ToolCall>::ready(&mut stack).await.unwrap().call(call()));
    assert_eq!(said(&one(&mut log)), (AuditEnding::Dropped, Outcome::Cancelled, None, None, 0));

    let mut running = ServiceExt::<ToolCall>::ready(&mut stack).await.unwrap().call(call());
    assert!((&mut running).now_or_never().is_none());
    assert_eq!(controlled.in_flight(), 1);
    drop(running);
    assert_eq!(said(&one(&mut log)), (AuditEnding::Dropped, Outcome::Cancelled, None, None, 1));

    drop(ServiceExt::<ToolCall>::ready(&mut stack).await.unwrap().call(call()));
    assert_eq!(said(&one(&mut log)), (AuditEnding::Dropped, Outcome::Cancelled, None, None, 1));
    let record = {
        drop(ServiceExt::<ListTools>::ready(&mut stack).await.unwrap().call(ListTools::new()));
        one(&mut log)
    };
    assert_eq!((record.operation.as_str(), record.ending), ("tools/list", AuditEnding::Dropped));
}

#[tokio::test]
async fn what_is_dropped_while_the_stack_is_not_ready_is_recorded() {
    let controlled = Controlled::new();
    let (layer, mut log) = audit();
    let stack =
        ServiceBuilder::new().layer(layer).layer(ConcurrencyLimitLayer::new(1)).service(Router::new().tool(controlled.tool("probe")));
    // The only permit.
    let mut first = Box::pin(stack.run_call(call()));
    assert!((&mut first).now_or_never().is_none());

    let mut second = stack.clone();
    let polled = Service::<ToolCall>::poll_ready(&mut second, &mut Context::from_waker(futures_util::task::noop_waker_ref()));
    assert!(matches!(polled, Poll::Ready(Ok(()))), "what observes the tool is ready at once");
    drop(second.call(call()));
    assert_eq!(said(&one(&mut log)), (AuditEnding::Dropped, Outcome::Cancelled, None, None, 0));
    let mut third = Box::pin(stack.run_call(call()));
    assert!((&mut third).now_or_never().is_none());
    drop(third);
    assert_eq!(said(&one(&mut log)), (AuditEnding::Dropped, Outcome::Cancelled, None, None, 0));
    drop(first);
    assert_eq!(said(&one(&mut log)), (AuditEnding::Dropped, Outcome::Cancelled, None, None, 1));
}

#[tokio::test]
async fn what_is_dropped_before_the_tool_was_looked_at_is_recorded() {
    let strict = Strict::new(Router::new().tool(Probe::new().tool("probe")));
    strict.behave(Behaviour::NeverReady);
    let (layer, mut log) = audit();
    assert!(layer.layer(strict).run_call(call()).now_or_never().is_none());
    let record = one(&mut log);
    assert_eq!(said(&record), (AuditEnding::Dropped, Outcome::Cancelled, None, None, 0));
    assert_eq!((record.tool.as_deref(), record.fingerprint), (Some("probe"), None));
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_recorded_as_what_ended_it() {
    let (layer, mut log) = audit();
    let second = std::time::Duration::from_secs(1);
    let stack = ServiceBuilder::new()
        .layer(layer)
        .layer(TimeoutLayer::new(second))
        .layer(gate_async("think", async |_| std::future::pending().await))
        .service(Router::new().tool(Probe::new().tool("probe")));
    stack.run_call(call()).await;
    let record = one(&mut log);
    assert_eq!(said(&record), (AuditEnding::Refused, RefusalKind::Timeout.into(), Some(RefusalKind::Timeout), Some("timeout"), 0));
    assert_eq!((record.total, record.waiting, record.running), (second, None, None));
}

#[tokio::test]
async fn lists_are_recorded_and_descriptions_are_not() {
    let (layer, mut log) = audit();
    let stack = layer.layer(Router::new().tool(Probe::new().tool("a")).tool(Probe::new().tool("b")));
    stack.list_tools().await;
    assert!(stack.describe().await.to_string().contains("audit (to: channel)"));
    let record = one(&mut log);
    assert_eq!((record.operation.as_str(), record.tools, record.result_bytes), ("tools/list", Some(2), None));
    assert_eq!((record.tool, record.call, record.arguments_digest), (None, None, None));
    assert_eq!((record.ending, record.outcome), (AuditEnding::Answered, Outcome::Completed));
}
