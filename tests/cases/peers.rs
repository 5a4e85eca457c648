//! What goes wrong in the peer that comes closest, each with a test that it does not go wrong here.
//!
//! Four of the faults belong to parts that are not here yet, and are tested with them:
//!
//! - F3: a router for OAuth that drops the layers put on before it. There is no HTTP face yet.
//! - F6: a missing scope answered without a challenge. The challenge is a field of the refusal already; the face is not there.
//! - F14: what an authentication layer knows does not reach the tool. The layers that authenticate come later; that values handed inward
//!   arrive is tested here.
//! - F15: a part of the secret published as the client's name. Same.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{body::Body, extract::State, routing::post};
use futures_util::{future::join_all, poll};
use serde_json::json;
use tokio::sync::Semaphore;
use toolstack::{
    BoxError, Refusal, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, Tool, ToolCall, ToolResponse,
    layer::{CatchErrorLayer, TimeoutLayer, VisibilityLayer, after, calls, gate, gate_async, gate_tool, map_call},
    middleware::{Next, from_fn},
    model::{Context, Outcome, Principal, TaskHandle},
    stack::{Reentry, ToolStack},
    testing::{Behaviour, Controlled, Probe, Recorder, Strict},
    tool::{State as ToolState, blocking_tool_fn, sync_tool_fn, tool_fn, tool_fn_with_state},
};
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt,
    buffer::BufferLayer,
    limit::{ConcurrencyLimitLayer, RateLimitLayer},
    util::BoxCloneSyncService,
};
use tower_resilience::{bulkhead::BulkheadLayer, circuitbreaker::CircuitBreakerLayer, ratelimiter::RateLimiterLayer};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn call(name: &str) -> ToolCall {
    ToolCall::new(name, json!({}))
}

fn by(subject: &str) -> Context {
    Context::new().with_principal(Principal::new(subject))
}

fn fails() -> Tool<impl toolstack::tool::Handler> {
    sync_tool_fn("fails", || -> Result<String, &'static str> { Err("no such file") })
}

// F1. State of layers is lost between requests.

/// A server makes a service for each request from one factory. All of them share one stack.
#[tokio::test(start_paused = true)]
async fn f01_a_service_for_each_request_shares_the_state_of_every_layer() {
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new()
        .layer(CatchErrorLayer::new())
        .layer(BulkheadLayer::builder().max_concurrent_calls(2).max_wait_duration(HOUR).build().unwrap())
        .layer(calls(BufferLayer::new(64)))
        .concurrency_limit(1)
        .service(Router::new().tool(controlled.tool("held")))
        .into_stack();
    let factory = move || stack.clone();
    let requests = join_all((0..50).map(|_| factory().run_call(call("held"))));
    let (answers, ()) = tokio::join!(requests, async {
        for _ in 0..50 {
            controlled.next().await.respond(ToolResponse::text("done"));
        }
    });
    assert!(answers.iter().all(ToolResponse::is_completed), "{answers:?}");
    assert_eq!(controlled.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn f01_a_rate_limit_counts_all_requests_of_a_web_service_together() {
    async fn serve(State(stack): State<Stack>) -> String {
        stack.call_tool("probe", json!({})).await.outcome().to_string()
    }
    let probe = Probe::new();
    let limited = |error: &(dyn std::error::Error + 'static)| {
        let limited = error.to_string() == "rate limit exceeded";
        limited.then(|| Refusal::new(RefusalKind::RateLimited, "Later.").with_by("rate"))
    };
    let rate = RateLimiterLayer::builder().limit_for_period(3).refresh_period(HOUR).timeout_duration(Duration::ZERO).build().unwrap();
    let stack = ServiceBuilder::new()
        .layer(CatchErrorLayer::new().classify(limited))
        .layer(calls(rate))
        .service(Router::new().tool(probe.tool("probe")))
        .into_stack();
    let app = axum::Router::new().route("/", post(serve)).with_state(stack);
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        let request = axum::http::Request::post("/").body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        outcomes.push(String::from_utf8(body.to_vec()).unwrap());
    }
    assert_eq!(outcomes, ["completed", "completed", "completed", "rate_limited", "rate_limited"]);
    assert_eq!(probe.runs(), 3);
}

// F2. A second layer discards the first.

#[tokio::test(start_paused = true)]
async fn f02_a_second_layer_keeps_the_first() {
    let recorder = Recorder::new();
    let both = |name: &str| [format!("{name} one"), format!("{name} two")];
    let [tool_one, tool_two] = both("tool").map(|place| recorder.layer(place));
    let [router_one, router_two] = both("router").map(|place| recorder.layer(place));
    let [stack_one, stack_two] = both("stack").map(|place| recorder.layer(place));
    let router = Router::new().tool(Probe::new().tool("probe").layer(tool_one).layer(tool_two)).layer(router_one).layer(router_two);
    let stack = ServiceBuilder::new().layer(stack_one).layer(stack_two).service(router);
    assert!(stack.call_tool("probe", json!({})).await.is_completed());
    for place in ["tool", "router", "stack"].into_iter().flat_map(both) {
        assert_eq!((recorder.starts(&place), recorder.outcomes(&place)), (1, vec![Outcome::Completed]), "{place}");
    }

    // A layer around a stack that was closed off stands outside what is in it.
    let around = recorder.layer("around").layer(stack.into_stack());
    assert!(around.call_tool("probe", json!({})).await.is_completed());
    assert_eq!((recorder.starts("around"), recorder.starts("stack one"), recorder.starts("tool two")), (1, 2, 2));
}

/// A tool that is added after a layer stands outside it, and one that is added before, within: nothing is dropped silently.
#[tokio::test(start_paused = true)]
async fn f02_what_a_router_has_keeps_its_layers_when_more_is_added() {
    let recorder = Recorder::new();
    let router = Router::new()
        .tool(Probe::new().tool("before"))
        .layer(recorder.layer("layer"))
        .tool(Probe::new().tool("after"))
        .nest("n", Router::new().tool(Probe::new().tool("nested")).layer(recorder.layer("nested layer")))
        .merge(Router::new().tool(Probe::new().tool("merged")).layer(recorder.layer("merged layer")));
    for name in ["before", "after", "n.nested", "merged"] {
        assert!(router.call_tool(name, json!({})).await.is_completed(), "{name}");
    }
    assert_eq!(recorder.trace(), "layer> layer< nested layer> nested layer< merged layer> merged layer<");
}

// F4. An error that a tool tells is counted as success.

#[tokio::test(start_paused = true)]
async fn f04_an_observer_does_not_count_a_failure_as_success() {
    let recorder = Recorder::new();
    let router = Router::new()
        .tool(Probe::new().tool("fine"))
        .tool(fails())
        .tool(tool_fn("slow", pending::<()>).layer(tower::timeout::TimeoutLayer::new(MILLI)))
        .tool(Probe::new().tool("shut").layer(gate("shut", |_| Err(Refusal::new(RefusalKind::Denied, "No.").with_by("shut")))))
        .tool(sync_tool_fn("panics", || -> String { panic!("as it was told") }));
    let stack = ServiceBuilder::new().layer(recorder.layer("audit")).service(router);
    for name in ["fine", "fails", "slow", "shut", "panics", "unknown"] {
        stack.call_tool(name, json!({})).await;
    }
    stack.run_call(ToolCall::new("fine", toolstack::model::Arguments::from_text("{"))).await;
    let expected = [
        Outcome::Completed,
        Outcome::ToolError,
        Outcome::Refused(RefusalKind::Timeout),
        Outcome::Refused(RefusalKind::Denied),
        Outcome::Refused(RefusalKind::Internal),
        Outcome::Refused(RefusalKind::UnknownTool),
    ];
    assert_eq!(recorder.outcomes("audit")[..6], expected);
    assert!(expected[1..].iter().all(|outcome| outcome.is_error()) && !expected[0].is_error());
}

/// Three refusals that one code would lump together: denied, bad arguments, unknown tool.
#[tokio::test(start_paused = true)]
async fn f04_denied_is_neither_unknown_nor_bad_arguments() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Named {
        name: String,
    }
    let recorder = Recorder::new();
    let tool = sync_tool_fn("greet", |args: Named| args.name);
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("audit"))
        .gate("no_bob", |call| {
            let bob = call.arguments.value().is_ok_and(|value| value["name"] == "bob");
            if bob { Err(Refusal::new(RefusalKind::Denied, "Not Bob.").with_by("no_bob")) } else { Ok(()) }
        })
        .service(Router::new().tool(tool));
    stack.call_tool("greet", json!({ "name": "bob" })).await;
    stack.call_tool("greet", json!({ "nam": "ada" })).await;
    stack.call_tool("greed", json!({ "name": "ada" })).await;
    assert_eq!(
        recorder.outcomes("audit"),
        [RefusalKind::Denied, RefusalKind::InvalidArguments, RefusalKind::UnknownTool].map(Outcome::from)
    );
}

// F5. A cancelled call leaves no record.

#[tokio::test(start_paused = true)]
async fn f05_a_call_that_is_dropped_is_recorded_with_who_made_it() {
    let recorder = Recorder::new();
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("outside"))
        .call_timeout(HOUR)
        .layer(recorder.layer("inside"))
        .concurrency_limit(1)
        .service(Router::new().tool(controlled.tool("held")));

    // The client goes away.
    let mut gone = Box::pin(stack.run_call(call("held").with_context(by("ada"))));
    assert!(poll!(&mut gone).is_pending());
    drop(gone);
    assert_eq!(recorder.outcomes("outside"), [Outcome::Cancelled]);
    assert_eq!(controlled.next().await.call().context.principal().subject, "ada");

    // A timeout further out drops what is within: cancelled there, a timeout outside.
    assert_eq!(stack.call_tool("held", json!({})).await.outcome(), RefusalKind::Timeout.into());
    assert_eq!(recorder.outcomes("outside")[1..], [RefusalKind::Timeout.into()]);
    assert_eq!(recorder.outcomes("inside"), [Outcome::Cancelled, Outcome::Cancelled]);
    assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 2));
}

/// An abort of the task that runs a call is a drop like any other.
#[tokio::test(start_paused = true)]
async fn f05_a_task_that_is_aborted_records_its_call() {
    let recorder = Recorder::new();
    let stack = ServiceBuilder::new().layer(recorder.layer("audit")).service(Router::new().tool(tool_fn("hangs", pending::<()>)));
    let task = tokio::spawn(stack.call_tool("hangs", json!({})));
    tokio::task::yield_now().await;
    assert_eq!((recorder.starts("audit"), recorder.outcomes("audit").len()), (1, 0));
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(recorder.outcomes("audit"), [Outcome::Cancelled]);
}

// F7. Lists show what cannot be called.

#[tokio::test(start_paused = true)]
async fn f07_what_is_listed_is_what_can_be_called_for_everybody() {
    let probe = Probe::new();
    let names = ["admin", "open", "private"];
    let mut router = Router::new();
    for name in names {
        router = router.tool(probe.tool(name).tag(name));
    }
    let allowed = |tool: &toolstack::model::ToolSpec, context: &Context| tool.has_tag("open") || context.principal().has_scope(&tool.name);
    let stack = ServiceBuilder::new().layer(VisibilityLayer::new(allowed)).service(router).into_stack();
    let people = [
        Context::new(),
        by("ada"),
        Context::new().with_principal(Principal::new("root").scope("admin")),
        Context::new().with_principal(Principal::new("all").scope("admin").scope("private")),
    ];
    let mut seen = Vec::new();
    for context in people {
        let listed = stack.run_list(toolstack::ListTools::new().with_context(context.clone())).await;
        for name in names {
            let before = probe.runs();
            let answer = stack.run_call(call(name).with_context(context.clone())).await;
            assert_eq!(answer.is_completed(), listed.get(name).is_some(), "{name} for {context:?}");
            assert_eq!(probe.runs() - before, usize::from(listed.get(name).is_some()));
            if listed.get(name).is_none() {
                assert_eq!(answer.outcome(), RefusalKind::UnknownTool.into());
                assert_eq!(answer.as_text().unwrap(), format!("Unknown tool: {name}"));
            }
        }
        seen.push(listed.tools().len());
    }
    assert_eq!(seen, [1, 1, 2, 3]);
}

/// A hidden tool and one that does not exist are answered alike, also to a tool that calls, and within a nested router.
#[tokio::test(start_paused = true)]
async fn f07_a_hidden_tool_cannot_be_told_from_none() {
    let probe = Probe::new();
    let hide = || VisibilityLayer::new(|tool: &toolstack::model::ToolSpec, _: &Context| !tool.has_tag("hidden"));
    let relay = tool_fn("relay", |stack: Reentry, tool: toolstack::model::Arguments| async move {
        let tool = tool.value().unwrap()["tool"].as_str().unwrap().to_owned();
        stack.call_tool(tool, json!({})).await
    });
    let nested = Router::new().tool(probe.tool("secret").tag("hidden")).layer(hide());
    let router = Router::new().tool(probe.tool("secret").tag("hidden")).tool(relay).nest("n", nested);
    let stack = ServiceBuilder::new().layer(hide()).service(router).into_stack();
    for (hidden, none) in [("secret", "nonesuch"), ("n.secret", "n.nonesuch")] {
        let alike = |answer: &ToolResponse, name: &str| {
            let refusal = answer.refusal().unwrap();
            (refusal.kind(), refusal.by().to_owned(), answer.as_text().unwrap().replace(name, "it"), format!("{:?}", refusal.challenge()))
        };
        let direct = [stack.call_tool(hidden, json!({})).await, stack.call_tool(none, json!({})).await];
        assert_eq!(alike(&direct[0], hidden), alike(&direct[1], none));
        let through = |tool: &str| stack.call_tool("relay", json!({ "tool": tool }));
        assert_eq!(alike(&through(hidden).await, hidden), alike(&through(none).await, none));
        assert_eq!(alike(&through(hidden).await, hidden), alike(&direct[0], hidden));
    }
    assert_eq!(probe.runs(), 0);
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["relay"]);
}

// F8. Own layers do not stack with others.

#[tokio::test(start_paused = true)]
async fn f08_guards_observers_and_others_layers_stand_in_any_order_at_a_stack_a_router_and_a_tool() {
    let recorder = Recorder::new();
    let probe = Probe::new();
    let rate = || calls(ServiceBuilder::new().buffer(4).layer(RateLimitLayer::new(100, HOUR)));
    let foreign = || tower::timeout::TimeoutLayer::new(HOUR);
    let tool = probe
        .tool("probe")
        .layer(gate("guard", |_| Ok(())))
        .layer(foreign())
        .layer(rate())
        .layer(recorder.layer("tool"))
        .layer(ConcurrencyLimitLayer::new(1));
    let router = Router::new().tool(tool).layer(recorder.layer("router")).layer(foreign()).layer(gate("guard", |_| Ok(()))).layer(rate());
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("outside"))
        .timeout(HOUR)
        .layer(gate_tool("scope", |_, _| Ok(())))
        .layer(rate())
        .layer(recorder.layer("inside"))
        .load_shed()
        .concurrency_limit(2)
        .service(router);
    assert!(stack.call_tool("probe", json!({})).await.is_completed());
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["probe"]);
    for place in ["tool", "router", "outside", "inside"] {
        assert_eq!(recorder.outcomes(place)[0], Outcome::Completed, "{place}");
    }
}

// F9. Retry and breaker never fire.

fn failed<E>(result: &Result<ToolResponse, E>) -> bool {
    result.as_ref().map_or(true, |response| response.outcome().is_error())
}

#[derive(Clone)]
struct Again(usize);

impl<E> tower::retry::Policy<ToolCall, ToolResponse, E> for Again {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, E>) -> Option<Self::Future> {
        let failed = failed(result);
        self.0 = self.0.checked_sub(usize::from(failed))?;
        failed.then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

/// What a layer fails with is an `Err` to the layers around it until it is closed off; what a tool fails with shows in the outcome.
#[tokio::test(start_paused = true)]
async fn f09_retry_and_breaker_see_both_kinds_of_failure() {
    let probe = Probe::answering(|_| ToolResponse::error("as it was told"));
    let stack =
        ServiceBuilder::new().layer(calls(tower::retry::RetryLayer::new(Again(2)))).service(Router::new().tool(probe.tool("probe")));
    assert_eq!(stack.call_tool("probe", json!({})).await.outcome(), Outcome::ToolError);
    assert_eq!(probe.runs(), 3);

    for within_is_closed in [false, true] {
        let strict = Strict::new(Router::new().tool(Probe::new().tool("probe")));
        strict.behave(Behaviour::Fail);
        macro_rules! breaker {
            () => {
                CircuitBreakerLayer::builder()
                    .failure_classifier(|result: &Result<ToolResponse, _>| failed(result))
                    .consecutive_failures(3)
                    .wait_duration_in_open(HOUR)
                    .build()
                    .unwrap()
            };
        }
        let stack = if within_is_closed {
            ServiceBuilder::new().layer(calls(breaker!())).catch_error().service(strict.clone()).into_stack()
        } else {
            ServiceBuilder::new().layer(calls(breaker!())).service(strict.clone()).into_stack()
        };
        for _ in 0..5 {
            assert_eq!(stack.call_tool("probe", json!({})).await.outcome(), RefusalKind::Internal.into());
        }
        assert_eq!(strict.tally().calls, 3, "the breaker opened");
    }
}

// F10. Errors of readiness are swallowed.

/// Panics when it is called without being ready, and can be broken for good.
#[derive(Clone)]
struct Insists {
    broken: Arc<AtomicUsize>,
    called: Arc<AtomicUsize>,
    ready: bool,
}

impl Service<ToolCall> for Insists {
    type Response = ToolResponse;
    type Error = BoxError;
    type Future = std::future::Ready<Result<ToolResponse, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        if self.broken.load(Ordering::SeqCst) > 0 {
            return std::task::Poll::Ready(Err(Refusal::new(RefusalKind::SessionClosed, "It is closed.").with_by("insists").into()));
        }
        self.ready = true;
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: ToolCall) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        self.called.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(ToolResponse::text("ok")))
    }
}

#[tokio::test(start_paused = true)]
async fn f10_a_tool_that_is_not_ready_is_not_called_and_says_why() {
    let insists = Insists { broken: Arc::default(), called: Arc::default(), ready: false };
    let tool = Tool::from_service(Probe::new().tool("probe").spec().clone(), insists.clone());
    let layered = Tool::from_service(Probe::new().tool("layered").spec().clone(), insists.clone())
        .layer(gate_async("ask", async |_| Ok(())))
        .layer(tower::timeout::TimeoutLayer::new(HOUR));
    let router = Router::new().tool(tool).tool(layered).fallback(insists.clone());
    let names = ["probe", "layered", "unknown"];
    for name in names {
        assert!(router.call_tool(name, json!({})).await.is_completed(), "{name}");
    }
    insists.broken.store(1, Ordering::SeqCst);
    for name in names {
        let answer = router.call_tool(name, json!({})).await;
        assert_eq!((answer.outcome(), answer.as_text().as_deref()), (RefusalKind::SessionClosed.into(), Some("It is closed.")), "{name}");
    }
    assert_eq!(insists.called.load(Ordering::SeqCst), 3);

    insists.broken.store(0, Ordering::SeqCst);
    for name in names {
        assert!(router.call_tool(name, json!({})).await.is_completed(), "{name} has come round");
    }
}

/// A stack is as ready as what is in it, where no layer waits: load is shed around it.
#[tokio::test(start_paused = true)]
async fn f10_readiness_reaches_the_outermost_layer() {
    let strict = Strict::with_capacity(Router::new().tool(tool_fn("hangs", pending::<()>)), 1);
    let stack = ServiceBuilder::new().load_shed().catch_error().map_call("keep", |_| {}).catch_panic().service(strict.clone());
    let mut first = Box::pin(stack.call_tool("hangs", json!({})));
    assert!(poll!(&mut first).is_pending());
    let second = tokio::time::timeout(HOUR, stack.call_tool("hangs", json!({}))).await.expect("load is shed at once");
    assert_eq!(second.outcome(), RefusalKind::Overloaded.into());
    assert_eq!(strict.tally().calls, 1);
}

// F11. What is known of tools goes stale.

#[tokio::test(start_paused = true)]
async fn f11_a_tool_that_is_added_later_is_judged_by_what_it_is() {
    let router = Router::new().tool(Probe::new().tool("reads").read_only());
    let handle = router.handle();
    let reads_only = gate_tool("reads_only", |_, tool| {
        let reads = tool.spec().annotations.is_read_only();
        if reads { Ok(()) } else { Err(Refusal::new(RefusalKind::Denied, "It changes things.").with_by("reads_only")) }
    });
    let stack = ServiceBuilder::new()
        .visibility(|tool, _| !tool.has_tag("hidden"))
        .layer(reads_only)
        .timeout(HOUR)
        .service(Router::new().merge(router))
        .into_stack();
    let outcome = async |name: &str| stack.call_tool(name, json!({})).await.outcome();
    assert_eq!(outcome("reads").await, Outcome::Completed);
    assert_eq!(outcome("later").await, RefusalKind::UnknownTool.into());

    handle.insert(Probe::new().tool("later").read_only()).unwrap();
    assert_eq!(outcome("later").await, Outcome::Completed);
    handle.replace(Probe::new().tool("later").destructive()).unwrap();
    assert_eq!(outcome("later").await, RefusalKind::Denied.into());
    handle.replace(Probe::new().tool("later").read_only().tag("hidden")).unwrap();
    assert_eq!(outcome("later").await, RefusalKind::UnknownTool.into());
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["reads"]);
    handle.replace(Probe::new().tool("later").read_only()).unwrap();
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["later", "reads"]);
    assert!(handle.remove("later"));
    assert_eq!(outcome("later").await, RefusalKind::UnknownTool.into());
}

/// Between judgement and run the tool is replaced: what runs is not what was judged, so nothing runs.
#[tokio::test(start_paused = true)]
async fn f11_a_judgement_does_not_carry_over_to_another_tool_of_the_name() {
    let (harmless, harmful) = (Probe::new(), Probe::new());
    let router = Router::new().tool(harmless.tool("tool").read_only());
    let handle = router.handle();
    let stack = ServiceBuilder::new()
        .gate_tool("reads_only", |_, tool| {
            let reads = tool.spec().annotations.is_read_only();
            if reads { Ok(()) } else { Err(Refusal::new(RefusalKind::Denied, "It changes things.").with_by("reads_only")) }
        })
        .gate_async("ask", async |_| {
            tokio::time::sleep(HOUR).await;
            Ok(())
        })
        .service(router);
    let (answer, ()) = tokio::join!(stack.call_tool("tool", json!({})), async {
        tokio::time::sleep(MILLI).await;
        handle.replace(harmful.tool("tool").destructive()).unwrap();
    });
    assert_eq!(answer.outcome(), RefusalKind::Denied.into());
    assert_eq!((harmless.runs(), harmful.runs()), (0, 0));
}

// F12. Work beside the stack.

/// A call that goes on elsewhere answers with a handle. What it does there through the stack is seen by every layer, and limited.
#[tokio::test(start_paused = true)]
async fn f12_what_a_long_running_call_does_later_passes_the_layers_too() {
    let recorder = Recorder::new();
    let controlled = Controlled::new();
    let start = tool_fn("start", |stack: Reentry| async move {
        tokio::spawn(async move { stack.call_tool("step", json!({})).await });
        ToolResponse::Task(Box::new(TaskHandle::new("t1")))
    });
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("audit"))
        .call_timeout(HOUR)
        .concurrency_limit(1)
        .service(Router::new().tool(start).tool(controlled.tool("step")))
        .into_stack();
    for _ in 0..3 {
        assert_eq!(stack.call_tool("start", json!({})).await.outcome(), Outcome::Task);
    }
    for _ in 0..3 {
        let held = controlled.next().await;
        assert_eq!(controlled.in_flight(), 1, "the limit holds for them too");
        held.respond(ToolResponse::text("done"));
    }
    while recorder.outcomes("audit").len() < 6 {
        tokio::task::yield_now().await;
    }
    assert_eq!(recorder.outcomes("audit").iter().filter(|outcome| **outcome == Outcome::Completed).count(), 3);
    assert_eq!(recorder.outcomes("audit").iter().filter(|outcome| **outcome == Outcome::Task).count(), 3);
}

/// The time of the outer call bounds what its tool calls; a blocking tool learns that nobody waits any more.
#[tokio::test(start_paused = true)]
async fn f12_a_bound_of_the_outer_call_reaches_the_calls_within() {
    let deadlines: Arc<Mutex<Vec<Option<Duration>>>> = Arc::default();
    let relay = tool_fn("relay", |stack: Reentry| async move { stack.call_tool("look", json!({})).await });
    let look =
        tool_fn_with_state("look", Arc::clone(&deadlines), |ToolState(seen): ToolState<Arc<Mutex<Vec<_>>>>, context: Context| async move {
            seen.lock().unwrap().push(context.remaining());
        });
    let stack = ServiceBuilder::new().layer(TimeoutLayer::new(HOUR)).service(Router::new().tool(relay).tool(look)).into_stack();
    assert!(stack.call_tool("relay", json!({})).await.is_completed());
    assert_eq!(*deadlines.lock().unwrap(), [Some(HOUR)]);
}

#[tokio::test]
async fn f12_a_blocking_tool_learns_that_its_call_was_dropped() {
    let (told, tells) = std::sync::mpsc::channel();
    let started = Arc::new(Semaphore::new(0));
    let begun = Arc::clone(&started);
    let tool = blocking_tool_fn("blocks", move |cancellation: toolstack::model::Cancellation| {
        begun.add_permits(1);
        while !cancellation.is_cancelled() {
            std::thread::yield_now();
        }
        told.send(()).unwrap();
    });
    let stack = Router::new().tool(tool);
    let task = tokio::spawn(stack.call_tool("blocks", json!({})));
    started.acquire().await.unwrap().forget();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(tells.recv_timeout(Duration::from_secs(60)), Ok(()));
}

// F13. Predicates that cannot wait, give no reason and change nothing.

#[tokio::test(start_paused = true)]
async fn f13_a_predicate_may_wait_give_a_reason_and_change_the_call() {
    let probe = Probe::new();
    let remote = gate_async("remote", async |call: ToolCall| {
        tokio::time::sleep(MILLI * 20).await;
        match call.context.principal().subject.as_str() {
            "ada" => Ok(()),
            other => Err(Refusal::new(RefusalKind::Denied, format!("{other} may not.")).with_by("remote").with_retry_after(HOUR)),
        }
    });
    let confine = gate("confine", |call| {
        let mut value = call.arguments.value().map_err(Refusal::internal)?.clone();
        let path = value["path"].as_str().unwrap_or_default().trim_start_matches('/');
        value["path"] = format!("/home/{path}").into();
        call.arguments = value.into();
        Ok(())
    });
    let rewrite = from_fn(async |mut call: ToolCall, next: Next<_>| {
        tokio::task::yield_now().await;
        call.rename("probe");
        next.run(call).await
    });
    let stack = ServiceBuilder::new().layer(rewrite).layer(confine).layer(remote).service(Router::new().tool(probe.tool("probe")));

    let asked = |subject: &str| ToolCall::new("old_name", json!({ "path": "/etc" })).with_context(by(subject));
    assert!(stack.run_call(asked("ada")).await.is_completed());
    assert_eq!(probe.arguments(), [r#"{"path":"/home/etc"}"#]);

    let answer = stack.run_call(asked("bob")).await;
    let refusal = answer.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), refusal.message()), (RefusalKind::Denied, "remote", "bob may not."));
    assert_eq!(refusal.retry_after(), Some(HOUR));
    assert_eq!(probe.runs(), 1);
}

// F14, as far as it is here.

#[tokio::test(start_paused = true)]
async fn f14_what_a_layer_hands_inward_reaches_the_tool_by_its_type() {
    #[derive(Clone, PartialEq, Debug)]
    struct Tenant(&'static str);
    let probe = Probe::new();
    let stack = ServiceBuilder::new()
        .map_call("authenticate", |call| {
            call.context.set_principal(Principal::new("ada").scope("read"));
            call.context.extensions_mut().insert(Tenant("acme"));
        })
        .timeout(HOUR)
        .layer(calls(BufferLayer::new(4)))
        .service(Router::new().nest("n", Router::new().tool(probe.tool("probe").layer(map_call("keep", |_| {})))));
    assert!(stack.call_tool("n.probe", json!({})).await.is_completed());
    let context = probe.calls().remove(0).context;
    assert_eq!(context.extensions().get(), Some(&Tenant("acme")));
    assert!(context.principal().has_scope("read"));
}

// F16. Panics are caught only on request.

#[tokio::test(start_paused = true)]
async fn f16_a_panic_ends_its_own_call_and_no_other_by_default() {
    let recorder = Recorder::new();
    let router = Router::new()
        .tool(sync_tool_fn("at_once", || -> String { panic!("hunter2") }))
        .tool(tool_fn("later", async || -> String {
            tokio::task::yield_now().await;
            panic!("hunter2")
        }))
        .tool(Probe::new().tool("in_a_layer").layer(map_call("broken", |_| panic!("hunter2"))))
        .tool(Probe::new().tool("fine"));
    let stack = ServiceBuilder::new().layer(recorder.layer("audit")).concurrency_limit(1).service(router);
    for name in ["at_once", "later", "in_a_layer"] {
        let answer = stack.clone().oneshot(call(name)).await.unwrap();
        assert_eq!(answer.outcome(), RefusalKind::Internal.into(), "{name}");
        assert!(!answer.as_text().unwrap().contains("hunter2"), "{name}");
        assert!(stack.clone().oneshot(call("fine")).await.unwrap().is_completed(), "after {name} the permit is free");
    }
    let answers = stack.run_calls(["fine", "later", "at_once", "fine"].map(call).into()).await;
    let outcomes: Vec<_> = answers.iter().map(toolstack::run::Answered::outcome).collect();
    let internal = Outcome::Refused(RefusalKind::Internal);
    assert_eq!(outcomes, [Outcome::Completed, internal, internal, Outcome::Completed]);
    assert_eq!(recorder.starts("audit"), recorder.outcomes("audit").len());
}

#[tokio::test]
async fn f16_a_panic_on_a_thread_of_its_own_is_caught_too() {
    let stack = Router::new().tool(blocking_tool_fn("blocks", || -> String { panic!("hunter2") })).tool(Probe::new().tool("fine"));
    let answer = stack.call_tool("blocks", json!({})).await;
    assert_eq!(answer.outcome(), RefusalKind::Internal.into());
    assert!(!answer.as_text().unwrap().contains("hunter2"));
    assert!(stack.call_tool("fine", json!({})).await.is_completed());
}

/// A layer of the stack panics: every way in from this crate answers all the same, and an observer outside hears of it.
#[tokio::test(start_paused = true)]
async fn f16_a_panic_of_a_layer_is_answered_by_every_way_in() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observed = Arc::clone(&seen);
    let stack = ServiceBuilder::new()
        .layer(after("audit", move |ending| observed.lock().unwrap().push(ending.outcome())))
        .layer(map_call("broken", |_| panic!("hunter2")))
        .service(Router::new().tool(Probe::new().tool("probe")));
    assert_eq!(stack.call_tool("probe", json!({})).await.outcome(), RefusalKind::Internal.into());
    assert_eq!(stack.run_calls(vec![call("probe")]).await[0].outcome(), RefusalKind::Internal.into());
    assert_eq!(stack.into_stack().call_tool("probe", json!({})).await.outcome(), RefusalKind::Internal.into());
    assert_eq!(*seen.lock().unwrap(), [Outcome::Refused(RefusalKind::Internal); 3]);
}

// F17. `Sync` by `unsafe`.

#[tokio::test(start_paused = true)]
async fn f17_tools_and_stacks_are_sync_by_themselves() {
    fn is_shared<T: Clone + Send + Sync + 'static>(value: T) -> T {
        value
    }
    let boxed =
        BoxCloneSyncService::<ToolCall, ToolResponse, BoxError>::new(tower::service_fn(async |_: ToolCall| Ok(ToolResponse::text("ok"))));
    let tool = is_shared(Tool::from_service(Probe::new().tool("boxed").spec().clone(), is_shared(boxed))).boxed();
    let stack = is_shared(Router::new().tool(is_shared(tool)).into_stack());
    let answer = std::thread::scope(|scope| {
        let shared = &stack;
        scope.spawn(move || futures_util::future::FutureExt::now_or_never(shared.call_tool("boxed", json!({})))).join().unwrap()
    });
    assert!(answer.unwrap().is_completed());
    assert!(include_str!("../../src/lib.rs").contains("#![forbid(unsafe_code)]"));

    fn never_fails<S: ToolStack + Service<ToolCall, Error = Infallible>>(_: &S) {}
    never_fails(&stack);
}
