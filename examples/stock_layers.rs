//! Tower's own layers in a stack, each at its work, and then all of them in one.
//!
//! Those that are generic over the request stand in the chain as they are. Those that fix it, or run a closure on one, go into `calls`.
//!
//! Run with `cargo run --example stock_layers`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
    layer::{calls, named},
    model::ToolResult,
    stack::ToolStack,
    tool::{State, sync_tool_fn, sync_tool_fn_with_state, tool_fn},
};
use tower::{BoxError, ServiceBuilder, limit::ConcurrencyLimitLayer, retry::Policy, spawn_ready::SpawnReadyLayer, util::option_layer};

const SECOND: Duration = Duration::from_secs(1);

/// `ping` answers, `slow` takes ten seconds, `flaky` is overloaded every other time.
fn tools() -> Router {
    let flaky = |State(runs): State<Arc<AtomicU32>>| match runs.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => Err(Refusal::new(RefusalKind::Overloaded, "Busy.")),
        _ => Ok("done"),
    };
    Router::new()
        .tool(sync_tool_fn("ping", || "pong"))
        .tool(tool_fn("slow", || tokio::time::sleep(10 * SECOND)))
        .tool(sync_tool_fn_with_state("flaky", Arc::default(), flaky))
}

/// Repeats what was not run. A policy for tool calls, so the layer goes into `calls`.
#[derive(Clone)]
struct OnceMore {
    left: bool,
}

impl<E> Policy<ToolCall, ToolResponse, E> for OnceMore {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, E>) -> Option<Self::Future> {
        let refusal = result.as_ref().ok()?.refusal()?;
        (refusal.kind() == RefusalKind::Overloaded && std::mem::take(&mut self.left)).then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

/// Refuses by an error: that of `filter` is boxed, and the refusal is found in it.
fn short(call: ToolCall) -> Result<ToolCall, BoxError> {
    match call.arguments.as_json()?.len() {
        0..=100 => Ok(call),
        _ => Err(Refusal::new(RefusalKind::LimitExceeded, "Too long.").with_by("short").into()),
    }
}

fn old_names(mut call: ToolCall) -> ToolCall {
    if call.name() == "ping_v1" {
        call.rename("ping");
    }
    call
}

fn signed(mut response: ToolResponse) -> ToolResponse {
    response.result_mut().into_iter().for_each(|result: &mut ToolResult| result.push("-- signed"));
    response
}

/// Makes the calls at once, and says how they ended and after how many seconds.
async fn run<S: ToolStack>(what: &str, stack: S, names: &[&str]) -> (Vec<&'static str>, u64) {
    let began = Instant::now();
    let answers = stack.run_calls(names.iter().map(|name| ToolCall::new(name, json!({}))).collect()).await;
    let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome().as_str()).collect();
    let seconds = began.elapsed().as_secs();
    println!("{what:<34} {seconds:>3} s  {}", outcomes.join(", "));
    // Whatever the layer does to calls, lists pass.
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["flaky", "ping", "slow"], "{what}");
    (outcomes, seconds)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let stack = || ServiceBuilder::new();

    let ended = run("timeout", stack().timeout(SECOND).service(tools()), &["ping", "slow"]).await;
    assert_eq!(ended, (vec!["completed", "timeout"], 1));

    let ended = run("concurrency_limit", stack().concurrency_limit(1).service(tools()), &["slow", "slow"]).await;
    assert_eq!(ended, (vec!["completed", "completed"], 20));

    let ended = run("load_shed outside a limit", stack().load_shed().concurrency_limit(1).service(tools()), &["slow", "slow"]).await;
    assert_eq!(ended, (vec!["completed", "overloaded"], 10));

    let queue = stack().layer(calls(stack().buffer(8))).concurrency_limit(2);
    let ended = run("buffer, and two at once", queue.service(tools()), &["slow", "slow", "slow"]).await;
    assert_eq!(ended, (vec!["completed"; 3], 20));

    let ended =
        run("rate_limit behind a buffer", stack().calls(stack().buffer(8).rate_limit(1, 60 * SECOND)).service(tools()), &["ping"; 3]);
    assert_eq!(ended.await, (vec!["completed"; 3], 120));

    let ended = run("retry", stack().calls(stack().retry(OnceMore { left: true })).service(tools()), &["flaky"]).await;
    assert_eq!(ended, (vec!["completed"], 0));

    let filtered = stack().calls(stack().filter(short)).service(tools());
    let refused = filtered.call_tool("ping", json!({ "text": "x".repeat(100) })).await;
    assert_eq!(refused.refusal().map(|refusal| (refusal.kind(), refusal.by())), Some((RefusalKind::LimitExceeded, "short")));
    assert_eq!(run("filter", filtered, &["ping"]).await.0, ["completed"]);

    let renamed = stack().calls(stack().map_request(old_names)).service(tools());
    assert_eq!(run("map_request", renamed, &["ping_v1", "ping"]).await.0, ["completed", "completed"]);

    let signing = stack().calls(stack().map_response(signed)).service(tools());
    assert_eq!(signing.call_tool("ping", json!({})).await.as_text().as_deref(), Some("pong\n-- signed"));
    assert_eq!(run("map_response", signing, &["ping"]).await.0, ["completed"]);

    let limit = |limited: bool| option_layer(limited.then(|| ConcurrencyLimitLayer::new(1)));
    assert_eq!(run("option_layer, with a limit", stack().layer(limit(true)).service(tools()), &["slow", "slow"]).await.1, 20);
    assert_eq!(run("option_layer, without", stack().layer(limit(false)).service(tools()), &["slow", "slow"]).await.1, 10);

    let spawning = stack().calls(stack().buffer(8).layer(SpawnReadyLayer::new()).concurrency_limit(1)).service(tools());
    assert_eq!(run("spawn_ready behind a buffer", spawning, &["slow", "slow"]).await, (vec!["completed", "completed"], 20));

    all_at_once().await;
}

async fn all_at_once() {
    let stack: Stack = ServiceBuilder::new()
        .catch_panic()
        .catch_error()
        .timeout(30 * SECOND)
        .layer(calls(ServiceBuilder::new().map_request(old_names).map_response(signed)))
        .layer(calls(ServiceBuilder::new().filter(short).retry(OnceMore { left: true })))
        .layer(calls(ServiceBuilder::new().buffer(8).rate_limit(100, SECOND).layer(SpawnReadyLayer::new())))
        .catch_panic() // a panic further in would end the worker of the buffer
        .layer(option_layer(Some(named("wide", ConcurrencyLimitLayer::new(8)).setting("max", 8))))
        .load_shed()
        .concurrency_limit(4)
        .service(tools())
        .into_stack();

    println!("\n{}", stack.describe().await);
    assert_eq!(stack.lint().await, []);
    assert_eq!(stack.call_tool("ping_v1", json!({})).await.as_text().as_deref(), Some("pong\n-- signed"));
    assert!(stack.call_tool("flaky", json!({})).await.is_completed());
    assert_eq!(stack.list_tools().await.tools().len(), 3);
}
