use serde_json::json;
use toolstack::{
    ListTools, Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::calls,
    testing::{Behaviour, Controlled},
    tool::sync_tool_fn,
};
use tower::{
    BoxError, Service, ServiceBuilder, ServiceExt, buffer::BufferLayer, filter::FilterLayer, limit::ConcurrencyLimitLayer,
    load_shed::LoadShedLayer,
};

use super::{hold, kind, poll, ready, settle, strict};

fn nothing(_: ToolCall) -> Result<ToolCall, BoxError> {
    Err(Refusal::new(RefusalKind::Denied, "nothing passes").into())
}

#[tokio::test]
async fn a_layer_for_calls_sees_calls_and_no_list() {
    let (strict, probe) = strict(None);
    let stack = ServiceBuilder::new().layer(calls(FilterLayer::new(nothing))).service(strict.clone());
    assert_eq!(kind(&stack.call_tool("probe", ()).await), Some(RefusalKind::Denied));
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["probe"]);
    assert_eq!(stack.describe().await.tools().len(), 1);
    assert_eq!((probe.runs(), strict.tally().violations), (0, 0));
}

#[tokio::test]
async fn calls_that_use_up_a_limit_leave_lists_alone() {
    let controlled = Controlled::new();
    let layers = ServiceBuilder::new().layer(LoadShedLayer::new()).layer(ConcurrencyLimitLayer::new(1)).into_inner();
    let stack = ServiceBuilder::new().layer(calls(layers)).service(Router::new().tool(controlled.tool("wait")));
    let running = tokio::spawn(stack.call_tool("wait", ()));
    let held = controlled.next().await;
    assert_eq!(kind(&stack.call_tool("wait", ()).await), Some(RefusalKind::Overloaded));
    assert_eq!(stack.list_tools().await.names().count(), 1);
    held.respond(ToolResponse::text("done"));
    assert!(running.await.unwrap().is_completed());
}

#[tokio::test]
async fn one_worker_serves_the_calls_of_all_clones() {
    let stack = ServiceBuilder::new()
        .layer(calls(BufferLayer::new(8)))
        .layer(calls(ConcurrencyLimitLayer::new(1)))
        .service(Router::new().tool(sync_tool_fn("ping", || "pong")));
    let answers: Vec<_> = (0..40).map(|_| tokio::spawn(stack.clone().call_tool("ping", json!({})))).collect();
    for answer in answers {
        assert!(answer.await.unwrap().is_completed());
    }
}

#[tokio::test]
async fn errors_pass_and_calls_and_lists_are_polled_apart() {
    let (strict, _) = strict(Some(1));
    let stack = ServiceBuilder::new().layer(calls(tower::layer::util::Identity::new())).service(strict.clone());
    let mut both = stack.clone();
    let _: &mut _ = ready(&mut both).await;
    assert_eq!(strict.free(), Some(0));
    // The list needs a permit of its own.
    let mut list = Box::pin(stack.clone().oneshot(ListTools::new()));
    assert!(poll(&mut list).is_pending());
    assert!(both.call(ToolCall::new("probe", ())).await.unwrap().is_completed());
    assert_eq!(list.await.unwrap().names().count(), 1);
    assert_eq!(strict.tally().violations, 0);

    strict.behave(Behaviour::Fail);
    assert!(stack.clone().oneshot(ToolCall::new("probe", ())).await.is_err());
    strict.behave(Behaviour::ReadinessFails);
    assert!(stack.clone().oneshot(ListTools::new()).await.is_err());
}

#[tokio::test]
async fn a_call_that_is_dropped_in_the_queue_is_not_made() {
    let (strict, probe) = strict(Some(1));
    let stack = ServiceBuilder::new().layer(calls(BufferLayer::new(8))).service(strict.clone());
    let holder = hold(&strict).await;
    let first = tokio::spawn(stack.clone().oneshot(ToolCall::new("probe", ()).with_id("first")));
    let dropped = tokio::spawn(stack.clone().oneshot(ToolCall::new("probe", ()).with_id("dropped")));
    let last = tokio::spawn(stack.clone().oneshot(ToolCall::new("probe", ()).with_id("last")));
    settle().await;
    dropped.abort();
    settle().await;
    drop(holder);
    assert!(first.await.unwrap().unwrap().is_completed());
    assert!(last.await.unwrap().unwrap().is_completed());
    let ids: Vec<_> = probe.calls().iter().map(|call| call.id.to_string()).collect();
    assert_eq!(ids, ["first", "last"]);
    assert_eq!(strict.free(), Some(1));
}
