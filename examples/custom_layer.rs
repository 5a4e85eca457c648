//! Two layers of one's own: a policy on the machine of this crate, and a service by hand.
//!
//! Run with `cargo run --example custom_layer`.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context as Task, Poll},
};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt,
    describe::{Duty, Note},
    layer::{Ending, Policy, PolicyLayer, Site, Step},
    operation::{Operation, Reply, View},
    tool::{State, sync_tool_fn, sync_tool_fn_with_state, tool_fn},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// A policy: counts how the calls of each tool end. The machine sees to it that every call that begins is counted once, when it is dropped
/// or panics too.
#[derive(Default)]
struct Ledger {
    counts: Mutex<BTreeMap<String, u32>>,
}

impl Policy for Ledger {
    /// What a call carries from its beginning to its end: here, the tool.
    type State = String;

    fn note(&self) -> Option<Note> {
        Some(Note::new("ledger"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step<String> {
        match request {
            View::Call(call) => Step::Continue(call.name().to_string()),
            _ => Step::Pass,
        }
    }

    fn after(&self, tool: String, ending: Ending<'_>) {
        let line = format!("{tool} {}", ending.outcome().as_str());
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(line).or_default() += 1;
    }
}

/// A service by hand, since no machine calls twice: calls again what was turned away before it ran.
#[derive(Clone, Copy)]
struct AgainLayer {
    times: u32,
}

impl<S> Layer<S> for AgainLayer {
    type Service = Again<S>;

    fn layer(&self, inner: S) -> Again<S> {
        Again { inner, times: self.times }
    }
}

#[derive(Clone)]
struct Again<S> {
    inner: S,
    times: u32,
}

/// One `impl` for calls, lists and descriptions.
impl<S, Op> Service<Op> for Again<S>
where
    Op: Operation + Clone,
    S: Service<Op, Response = Op::Response, Error: Send, Future: Send> + Clone + Send + 'static,
{
    type Response = Op::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Op::Response, S::Error>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut request: Op) -> Self::Future {
        if let View::Describe(describe) = request.view() {
            describe.note::<Self, S>(Note::new("again").duty(Duty::Repeats).setting("times", self.times));
        }
        // The instance that was polled ready is the one to call; a clone, which was not, takes its place.
        let fresh = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, fresh);
        let mut left = self.times;
        Box::pin(async move {
            loop {
                let mut response = inner.call(request.clone()).await?;
                if left == 0 || !never_ran(&Op::reply(&mut response)) {
                    return Ok(response);
                }
                left -= 1;
                ServiceExt::<Op>::ready(&mut inner).await?;
            }
        })
    }
}

/// Only what says of itself that it did not run is safe to repeat. A result, a question to a person and a task are none of it.
fn never_ran(reply: &Reply<'_>) -> bool {
    match reply {
        Reply::Call(response) => response.refusal().is_some_and(|refusal| refusal.kind() == RefusalKind::Overloaded),
        _ => false,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let busy = Arc::new(AtomicU32::new(2));
    let flaky =
        |State(busy): State<Arc<AtomicU32>>| match busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |busy| busy.checked_sub(1)) {
            Ok(_) => Err(Refusal::new(RefusalKind::Overloaded, "Busy; call again in a moment.")),
            Err(_) => Ok("done"),
        };
    let tools = Router::new()
        .tool(sync_tool_fn("ping", || "pong"))
        .tool(sync_tool_fn_with_state("flaky", busy.clone(), flaky))
        .tool(tool_fn("endless", std::future::pending::<()>));

    let ledger = Arc::new(Ledger::default());
    let stack =
        ServiceBuilder::new().catch_panic().layer(PolicyLayer::shared(ledger.clone())).layer(AgainLayer { times: 2 }).service(tools);
    println!("{}", stack.describe().await);
    assert!(stack.lint().await.is_empty());

    // Turned away twice, run at the third.
    assert_eq!(stack.call_tool("flaky", json!({})).await.as_text().as_deref(), Some("done"));
    // Turned away three times, which is once too often.
    busy.store(3, Ordering::Relaxed);
    assert_eq!(stack.call_tool("flaky", json!({})).await.refusal().map(Refusal::kind), Some(RefusalKind::Overloaded));
    assert!(stack.call_tool("ping", json!({})).await.is_completed());
    // Dropped before it ends.
    assert!(futures_util::FutureExt::now_or_never(stack.call_tool("endless", json!({}))).is_none());

    let counts = ledger.counts.lock().unwrap_or_else(PoisonError::into_inner);
    for (line, count) in &*counts {
        println!("{count} × {line}");
    }
    let expected = [("endless cancelled", 1), ("flaky completed", 1), ("flaky overloaded", 1), ("ping completed", 1)];
    assert!(counts.iter().map(|(line, count)| (line.as_str(), *count)).eq(expected));
}
