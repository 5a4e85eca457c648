//! What the benches share: one small tool, the ways to call it, and the six layers that stand for a real stack.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each bench uses some of it")]

use std::{
    cell::Cell,
    convert::Infallible,
    pin::pin,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, Tool, ToolCall, ToolResponse,
    describe::Note,
    layer::{Ending, Policy, PolicyLayer, Site, Step},
    model::{Arguments, Outcome},
    operation::View,
    stack::ToolStack,
    tool::{Handler, sync_tool_fn, tool_fn},
};
use tower::{Service, ServiceBuilder};

/// What a call is made of.
pub const NAME: &str = "add";
pub const TEXT: &str = r#"{"a":1,"b":2}"#;

#[derive(Deserialize, JsonSchema)]
pub struct Add {
    pub a: i64,
    pub b: i64,
}

/// The limit: the same arguments and the same text of the result, and nothing in between.
#[inline(never)]
pub fn bare(text: &str) -> String {
    let args: Add = serde_json::from_str(text).expect("arguments");
    itoa::Buffer::new().format(args.a + args.b).to_owned()
}

pub fn add_sync(name: &str) -> Tool<impl Handler + use<>> {
    sync_tool_fn(name, |args: Add| args.a + args.b)
}

pub fn add_async(name: &str) -> Tool<impl Handler + use<>> {
    tool_fn(name, |args: Add| async move { args.a + args.b })
}

/// A router of `tools` tools, one of which is [`NAME`].
pub fn router<H: Handler>(tools: usize, tool: fn(&str) -> Tool<H>) -> Router {
    (1..tools).fold(Router::new().tool(tool(NAME)), |router, i| router.tool(tool(&format!("tool_{i}"))))
}

pub fn call(text: &str) -> ToolCall {
    ToolCall::new(NAME, Arguments::from_text(text))
}

/// One call, from the text of its arguments to the response, through this one instance.
#[inline]
pub fn answer<S>(service: &mut S, text: &str) -> ToolResponse
where
    S: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug>,
{
    operate(service, || call(text))
}

/// One operation through this one instance, without a runtime. Only a first call is polled twice.
#[inline]
pub fn operate<S, Op>(service: &mut S, operation: impl FnOnce() -> Op) -> S::Response
where
    S: Service<Op, Error: std::fmt::Debug>,
{
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(matches!(service.poll_ready(cx), Poll::Ready(Ok(()))), "not ready");
    let mut future = pin!(service.call(operation()));
    loop {
        if let Poll::Ready(response) = future.as_mut().poll(cx) {
            return response.expect("no error");
        }
    }
}

/// Passes everything.
pub struct Through;

impl Policy for Through {
    type State = ();

    fn note(&self) -> Option<Note> {
        None
    }

    #[inline]
    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        Step::Pass
    }
}

/// Counts how calls end, on counters of each thread's own. It stands in for telemetry, which is not there yet: it has an `after`, and
/// its layer is shared.
#[derive(Default)]
pub struct Counts {
    shards: [Shard; 8],
}

#[derive(Default)]
#[repr(align(128))]
struct Shard {
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Shard {
    fn mine(shards: &[Self; 8]) -> &Self {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
        let mine = MINE.get();
        let mine = if mine == usize::MAX { THREADS.fetch_add(1, Ordering::Relaxed) % 8 } else { mine };
        MINE.set(mine);
        &shards[mine]
    }
}

impl Counts {
    pub fn completed(&self) -> u64 {
        self.shards.iter().map(|shard| shard.completed.load(Ordering::Relaxed)).sum()
    }
}

impl Policy for Counts {
    type State = ();

    fn note(&self) -> Option<Note> {
        None
    }

    #[inline]
    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(_) => Step::Continue(()),
            _ => Step::Pass,
        }
    }

    #[inline]
    fn after(&self, (): (), ending: Ending<'_>) {
        let shard = Shard::mine(&self.shards);
        let counter = if ending.outcome() == Outcome::Completed { &shard.completed } else { &shard.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Denies by source and name, as a short list of rules does.
pub fn allowed(call: &ToolCall, tool: &toolstack::tool::ToolEntry) -> Result<(), Refusal> {
    let denied = !tool.source().trusted || call.name().starts_with("admin.") || tool.spec().has_tag("never");
    if denied { Err(Refusal::new(RefusalKind::Denied, "No.").with_by("rules")) } else { Ok(()) }
}

/// Six layers of a real stack: what catches panics, counts, catches errors, hides, decides and bounds the time.
#[allow(clippy::implied_bounds_in_impls, reason = "the lint overlooks the type of the error")]
pub fn six_layers(router: Router) -> impl ToolStack + Service<ToolCall, Response = ToolResponse, Error = Infallible> {
    ServiceBuilder::new()
        .catch_panic()
        .layer(PolicyLayer::new(Counts::default()))
        .catch_error()
        .visibility(|tool, _| !tool.has_tag("hidden"))
        .gate_tool("rules", allowed)
        .call_timeout(Duration::from_secs(30))
        .service(router)
}

/// The same layer twenty times around a service.
#[macro_export]
macro_rules! twenty {
    ($layer:expr, $inner:expr) => {{
        let layer = $layer;
        macro_rules! five {
            ($builder:expr) => {
                $builder.layer(layer.clone()).layer(layer.clone()).layer(layer.clone()).layer(layer.clone()).layer(layer.clone())
            };
        }
        five!(five!(five!(five!(tower::ServiceBuilder::new())))).service($inner)
    }};
}

/// Polls to the end without a runtime, what waits for nothing that comes from elsewhere.
pub fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}
