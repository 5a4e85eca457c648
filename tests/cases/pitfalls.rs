//! The pitfalls of tower stacks for tool calls: one number each, with a test that fails when the rule behind it is broken.

use std::{
    collections::HashMap,
    convert::Infallible,
    error::Error,
    fmt,
    future::{pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context as Task, Poll},
    thread::ThreadId,
    time::Duration,
};

use futures_util::{
    future::{BoxFuture, join_all},
    poll,
};
use serde_json::json;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use toolstack::{
    BoxError, ListTools, Refusal, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, Tool, ToolCall, ToolResponse,
    describe::{Describe, Description, Note},
    layer::{
        CatchErrorLayer, CatchPanicLayer, Ending, Policy, PolicyLayer, Step, TimeoutLayer, VisibilityLayer, after,
        around::{self, Policed, Site},
        calls, catch_error, catch_panic, closures, gate, gate_async, gate_tool, map_call, map_list, map_result, named, timeout,
    },
    middleware::{Next, from_fn},
    model::{Arguments, Content, Context, Outcome, Principal, ToolList, ToolResult, ToolSpec},
    operation::View,
    router,
    stack::{Reentry, ToolStack},
    testing::{Behaviour, Controlled, Probe, Recorder, Strict, StrictError},
    tool::{Handler, ToolEntry, ToolService, blocking_tool_fn, sync_tool_fn, tool_fn},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, buffer::BufferLayer, limit::ConcurrencyLimitLayer, util::BoxCloneSyncService};
use tracing::Instrument;
use tracing_core::span;

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn call(name: &str) -> ToolCall {
    ToolCall::new(name, json!({}))
}

fn probe_router() -> (Probe, Router) {
    let probe = Probe::new();
    let router = Router::new().tool(probe.tool("probe"));
    (probe, router)
}

fn sleeper(time: Duration) -> Router {
    Router::new().tool(tool_fn("sleep", move || async move { tokio::time::sleep(time).await }))
}

/// What hangs fails, and does not hold up the other tests.
async fn soon<F: Future>(answer: F) -> F::Output {
    tokio::time::timeout(HOUR * 100, answer).await.expect("it hangs")
}

fn count(answers: &[ToolResponse], outcome: Outcome) -> usize {
    answers.iter().filter(|answer| answer.outcome() == outcome).count()
}

async fn ask(_: ToolCall) -> Result<(), Refusal> {
    tokio::task::yield_now().await;
    Ok(())
}

async fn pass_on<E>(call: ToolCall, next: Next<E>) -> Result<ToolResponse, E> {
    next.run(call).await
}

fn allow(_: &mut ToolCall) -> Result<(), Refusal> {
    Ok(())
}

fn allow_tool(_: &ToolCall, _: &ToolEntry) -> Result<(), Refusal> {
    Ok(())
}

fn hear(_: &Ending<'_>) {}

fn keep(_: &mut ToolCall) {}

fn keep_list(_: &mut ToolList, _: &Context) {}

fn keep_result(_: &mut ToolResult) {}

fn show(_: &ToolSpec, _: &Context) -> bool {
    true
}

/// Runs a check for each layer of this crate. Functions and not closures, so that each is of one type in all checks.
macro_rules! each_layer {
    ($check:ident) => {
        $check!(after: after("after", hear));
        $check!(calls: calls(tower::layer::util::Identity::new()));
        $check!(catch_panic: CatchPanicLayer::new());
        $check!(from_fn: from_fn(pass_on));
        $check!(gate: gate("gate", allow));
        $check!(gate_async: gate_async("gate_async", ask));
        $check!(gate_tool: gate_tool("gate_tool", allow_tool));
        $check!(map_call: map_call("map_call", keep));
        $check!(map_list: map_list("map_list", keep_list));
        $check!(map_result: map_result("map_result", keep_result));
        $check!(named: named("named", tower::layer::util::Identity::new()));
        $check!(recorder: Recorder::new().layer("place"));
        $check!(timeout: TimeoutLayer::new(HOUR).idle(HOUR));
        $check!(visibility: VisibilityLayer::new(show));
    };
}

// 1. Build once, clone per call.

/// Counts how often it is laid around something.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<AtomicUsize>);

impl<S> Layer<S> for Counted {
    type Service = S;

    fn layer(&self, inner: S) -> S {
        self.0.fetch_add(1, Ordering::SeqCst);
        inner
    }
}

#[tokio::test(start_paused = true)]
async fn a01_a_layer_is_laid_once_however_often_the_stack_is_used() {
    let counted = Counted::default();
    let nested = Router::new().tool(Probe::new().tool("a").layer(counted.clone())).layer(counted.clone());
    let stack = ServiceBuilder::new()
        .layer(counted.clone())
        .layer(calls(counted.clone()))
        .layer(named("counted", counted.clone()))
        .gate_tool("any", |_, _| Ok(()))
        .service(Router::new().nest("n", nested).tool(Probe::new().tool("b").layer(counted.clone())));
    assert_eq!(counted.0.load(Ordering::SeqCst), 6);

    let erased = Stack::new(stack.clone());
    for name in ["b", "n.a"] {
        assert!(stack.call_tool(name, json!({})).await.is_completed());
        assert!(stack.clone().oneshot(call(name)).await.unwrap().is_completed());
        assert!(erased.clone().call_tool(name, json!({})).await.is_completed());
        assert_eq!(stack.run_calls(vec![call(name), call(name)]).await.len(), 2);
    }
    assert_eq!(stack.list_tools().await.tools().len(), 2);
    assert!(erased.describe().await.refusal().is_none());
    assert_eq!(counted.0.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a01_a_limit_of_one_holds_through_all_ways_in_together() {
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new().concurrency_limit(1).service(Router::new().tool(controlled.tool("held")));
    let erased = Stack::new(stack.clone());
    let ways: Vec<BoxFuture<'static, ToolResponse>> = vec![
        Box::pin(stack.call_tool("held", json!({}))),
        Box::pin({
            let answer = stack.clone().oneshot(call("held"));
            async move { answer.await.unwrap() }
        }),
        Box::pin({
            let answers = stack.run_calls(vec![call("held")]);
            async move { answers.await.remove(0).response }
        }),
        Box::pin(erased.call_tool("held", json!({}))),
        Box::pin({
            let task = tokio::spawn(erased.call_tool("held", json!({})));
            async move { task.await.unwrap() }
        }),
    ];
    let number = ways.len();
    let (answers, ()) = tokio::join!(join_all(ways), async {
        for _ in 0..number {
            let held = controlled.next().await;
            tokio::time::sleep(MILLI).await;
            held.respond(ToolResponse::text("done"));
        }
    });
    assert_eq!((count(&answers, Outcome::Completed), controlled.peak()), (number, 1));
}

// 2. Readiness belongs to the instance.

#[tokio::test(start_paused = true)]
async fn a02_the_instance_that_was_polled_is_the_one_that_is_called() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let (_, router) = probe_router();
            let strict = Strict::with_capacity(router, 2);
            let mut service = $layer.layer(strict.clone());
            // Twice: the first call of a layer that looks at tools asks for the catalog.
            for _ in 0..2 {
                let ready = ServiceExt::<ToolCall>::ready(&mut service).await.unwrap();
                let other = ready.clone();
                let answer = ready.call(call("probe"));
                let beside = other.oneshot(call("probe"));
                assert!(answer.await.unwrap().is_completed(), stringify!($name));
                assert!(beside.await.unwrap().is_completed(), stringify!($name));
            }
            let many = soon(join_all((0..20).map(|_| service.clone().oneshot(call("probe"))))).await;
            assert!(many.iter().all(|answer| answer.as_ref().is_ok_and(ToolResponse::is_completed)), stringify!($name));
            assert!(ServiceExt::<ListTools>::oneshot(service.clone(), ListTools::new()).await.unwrap().refusal().is_none());
            drop(service);
            let tally = strict.tally();
            assert_eq!((tally.violations, tally.in_flight, strict.free()), (0, 0, Some(2)), stringify!($name));
            assert!(tally.peak <= 2, stringify!($name));
        }};
    }
    each_layer!(check);
    check!(catch_error: CatchErrorLayer::new());
}

/// A layer that does not wait takes no second permit for its call: with one permit it would wait for itself.
#[tokio::test(start_paused = true)]
async fn a02_the_permit_that_readiness_took_is_the_one_that_is_used() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let (_, router) = probe_router();
            let mut service = $layer.layer(ConcurrencyLimitLayer::new(1).layer(router));
            for _ in 0..3 {
                let answer = ServiceExt::<ToolCall>::ready(&mut service).await.unwrap().call(call("probe"));
                let answer = tokio::time::timeout(HOUR, answer).await.expect(stringify!($name));
                assert!(answer.unwrap().is_completed(), stringify!($name));
            }
        }};
    }
    each_layer!(check);
}

/// Runs a check for each layer of this crate that is ready at once, whatever is within.
macro_rules! each_layer_that_is_ready_at_once {
    ($check:ident) => {
        $check!(from_fn: from_fn(pass_on));
        $check!(gate_async: gate_async("gate_async", ask));
        $check!(gate_tool: gate_tool("gate_tool", allow_tool));
        $check!(timeout: TimeoutLayer::new(HOUR * 2));
        $check!(visibility: VisibilityLayer::new(show));
    };
}

/// What was polled on one instance says nothing of its clone.
#[tokio::test(start_paused = true)]
async fn a02_a_clone_of_a_ready_instance_is_not_taken_for_ready() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let (_, router) = probe_router();
            let strict = Strict::with_capacity(router, 2);
            let mut service = $layer.layer(strict.clone());
            assert!(soon(service.clone().oneshot(call("probe"))).await.unwrap().is_completed(), stringify!($name));
            let ready = ServiceExt::<ToolCall>::ready(&mut service).await.unwrap();
            let mut other = ready.clone();
            let (one, two) = tokio::join!(ready.call(call("probe")), other.call(call("probe")));
            assert!(one.unwrap().is_completed() && two.unwrap().is_completed(), stringify!($name));
            assert_eq!(strict.tally().violations, 0, stringify!($name));
        }};
    }
    each_layer_that_is_ready_at_once!(check);
}

/// An instance within that was polled stands in the queue of a limit. It goes with the call: left behind, it would get the permit that
/// the call waits for.
#[tokio::test(start_paused = true)]
async fn a02_the_place_in_a_queue_goes_with_the_call() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let (_, router) = probe_router();
            let strict = Strict::with_capacity(router, 1);
            let mut service = $layer.layer(strict.clone());
            assert!(soon(service.clone().oneshot(call("probe"))).await.unwrap().is_completed(), stringify!($name));
            let mut holder = strict.clone();
            let _ = ServiceExt::<ToolCall>::ready(&mut holder).await.unwrap();

            let mut answer = Box::pin(ServiceExt::<ToolCall>::ready(&mut service).await.unwrap().call(call("probe")));
            assert!(poll!(&mut answer).is_pending(), stringify!($name));
            drop(holder);
            let answer = tokio::time::timeout(HOUR, answer).await.expect(stringify!($name));
            assert!(answer.unwrap().is_completed(), stringify!($name));
            assert_eq!(strict.free(), Some(1), stringify!($name));
        }};
    }
    each_layer_that_is_ready_at_once!(check);
}

// 3. A ready and uncalled clone starves others.

/// Has `layer` wait in a call until told, with one permit within: others get it meanwhile.
async fn waits_without_a_permit<L>(layer: L, let_go: &Notify)
where
    L: Layer<Strict>,
    L::Service: Service<ToolCall, Response = ToolResponse, Error = StrictError>,
{
    let (probe, router) = probe_router();
    let strict = Strict::with_capacity(router, 1);
    let mut service = layer.layer(strict.clone());
    let waiting = ServiceExt::<ToolCall>::ready(&mut service).await.unwrap().call(call("probe"));
    let mut waiting = Box::pin(waiting);
    assert!(poll!(&mut waiting).is_pending());
    assert_eq!(strict.free(), Some(1), "no permit is held during the wait, by the future or by the instance left behind");
    let other = tokio::time::timeout(HOUR, strict.clone().oneshot(call("probe"))).await;
    assert!(other.expect("others go on meanwhile").unwrap().is_completed());

    let_go.notify_one();
    assert!(waiting.await.unwrap().is_completed());
    let tally = strict.tally();
    assert_eq!((probe.runs(), tally.violations, strict.free()), (2, 0, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a03_a_layer_that_waits_holds_no_permit() {
    let let_go = Arc::new(Notify::new());
    let asked = Arc::clone(&let_go);
    let ask = gate_async("ask", move |_| {
        let asked = Arc::clone(&asked);
        async move {
            asked.notified().await;
            Ok(())
        }
    });
    waits_without_a_permit(ask, &let_go).await;

    let asked = Arc::clone(&let_go);
    let function = from_fn(move |call: ToolCall, next: Next<StrictError>| {
        let asked = Arc::clone(&asked);
        async move {
            asked.notified().await;
            next.run(call).await
        }
    });
    waits_without_a_permit(function, &let_go).await;
}

/// A hundred people are asked at once; the one permit within serves whoever has an answer.
#[tokio::test(start_paused = true)]
async fn a03_an_hour_of_consent_costs_nobody_a_minute() {
    let (_, router) = probe_router();
    let stack = ServiceBuilder::new()
        .gate_async("ask", async |call: ToolCall| {
            if call.context.session() == Some("slow") {
                tokio::time::sleep(HOUR).await;
            }
            Ok(())
        })
        .concurrency_limit(1)
        .service(router);
    let slow: Vec<_> = (0..100).map(|_| stack.run_call(call("probe").with_context(Context::new().with_session("slow")))).collect();
    let slow = tokio::spawn(join_all(slow));
    tokio::task::yield_now().await;
    let quick = tokio::time::timeout(MILLI, stack.call_tool("probe", json!({}))).await;
    assert!(quick.expect("the permit is free").is_completed());
    assert_eq!(count(&slow.await.unwrap(), Outcome::Completed), 100);
}

#[tokio::test(start_paused = true)]
async fn a03_an_instance_that_is_dropped_ready_gives_its_permit_back() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let (_, router) = probe_router();
            let strict = Strict::with_capacity(router, 1);
            let mut service = $layer.layer(strict.clone());
            assert!(soon(service.clone().oneshot(call("probe"))).await.unwrap().is_completed(), stringify!($name));
            let _ = ServiceExt::<ToolCall>::ready(&mut service).await.unwrap();
            drop(service);
            assert_eq!(strict.free(), Some(1), stringify!($name));
        }};
    }
    each_layer!(check);
}

// 4. Tower's timeout does not bound the wait for readiness.

#[tokio::test(start_paused = true)]
async fn a04_our_timeout_bounds_the_wait_for_a_permit_and_tower_s_does_not() {
    let six = |stack: Stack| async move { join_all((0..6).map(|_| stack.call_tool("sleep", json!({})))).await };

    let tower = ServiceBuilder::new().timeout(MILLI * 50).concurrency_limit(1).service(sleeper(MILLI * 40));
    assert_eq!(count(&six(tower.into_stack()).await, Outcome::Completed), 6);

    let ours = ServiceBuilder::new().call_timeout(MILLI * 50).concurrency_limit(1).service(sleeper(MILLI * 40));
    let answers = six(ours.into_stack()).await;
    assert_eq!((count(&answers, Outcome::Completed), count(&answers, RefusalKind::Timeout.into())), (1, 5));
}

/// What stands around single tools is waited for within the call, so that any timeout around the stack counts it.
#[tokio::test(start_paused = true)]
async fn a04_the_wait_for_a_tool_s_own_limit_counts_for_any_timeout() {
    let tool = tool_fn("sleep", async || tokio::time::sleep(MILLI * 40).await).layer(ConcurrencyLimitLayer::new(1));
    let stack = ServiceBuilder::new().timeout(MILLI * 50).service(Router::new().tool(tool));
    let answers = join_all((0..6).map(|_| stack.call_tool("sleep", json!({})))).await;
    assert_eq!((count(&answers, Outcome::Completed), count(&answers, RefusalKind::Timeout.into())), (1, 5));
}

// 5. `RateLimit` is not `Clone`.

#[tokio::test(start_paused = true)]
async fn a05_a_rate_limit_behind_a_buffer_is_a_stack_for_any_number_of_callers() {
    let (probe, router) = probe_router();
    let stack = ServiceBuilder::new().layer(calls(ServiceBuilder::new().buffer(16).rate_limit(2, HOUR))).service(router);
    let began = tokio::time::Instant::now();
    let answers = join_all((0..6).map(|_| stack.call_tool("probe", json!({})))).await;
    assert_eq!((count(&answers, Outcome::Completed), probe.runs()), (6, 6));
    assert_eq!(began.elapsed().as_secs() / 3600, 2, "two now, two after an hour, two after another");
}

#[tokio::test(start_paused = true)]
async fn a05_a_shed_rate_limit_is_told_as_overload() {
    let (probe, router) = probe_router();
    let limit = calls(ServiceBuilder::new().load_shed().buffer(1).rate_limit(1, HOUR));
    let stack = ServiceBuilder::new().layer(limit).service(router);
    let answers = join_all((0..6).map(|_| stack.call_tool("probe", json!({})))).await;
    let shed = count(&answers, RefusalKind::Overloaded.into());
    assert!(shed > 0 && shed + count(&answers, Outcome::Completed) == 6, "{answers:?}");
    assert_eq!(probe.runs() + shed, 6);
}

// 6. Buffers.

/// Panics in `call`, once.
fn panics_once() -> PolicyLayer<closures::MapCall<impl Fn(&mut ToolCall) + Send + Sync + 'static>> {
    let armed = Arc::new(AtomicUsize::new(1));
    map_call("broken", move |_| assert!(armed.swap(0, Ordering::SeqCst) == 0, "as it was told"))
}

#[tokio::test(start_paused = true)]
async fn a06_a_panic_below_a_buffer_ends_it_unless_it_is_caught_below_it() {
    let (_, router) = probe_router();
    let open = ServiceBuilder::new().layer(calls(BufferLayer::new(4))).layer(panics_once()).service(router.clone());
    for _ in 0..3 {
        let answer = open.call_tool("probe", json!({})).await;
        assert_eq!(answer.outcome(), RefusalKind::Internal.into());
        assert!(!answer.as_text().unwrap().contains("as it was told"));
    }
    assert_eq!(open.lint().await.iter().map(|fault| fault.rule).collect::<Vec<_>>(), ["panic-ends-queue"]);

    let closed = ServiceBuilder::new().layer(calls(BufferLayer::new(4))).catch_panic().layer(panics_once()).service(router);
    assert_eq!(closed.call_tool("probe", json!({})).await.outcome(), RefusalKind::Internal.into());
    for _ in 0..3 {
        assert!(closed.call_tool("probe", json!({})).await.is_completed());
    }
    assert!(closed.lint().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a06_a_panic_of_a_tool_leaves_the_worker_alone() {
    let router = Router::new()
        .tool(tool_fn("later", async || -> String { panic!("as it was told") }))
        .tool(sync_tool_fn("at_once", || -> String { panic!("as it was told") }))
        .tool(Probe::new().tool("probe"));
    let stack = ServiceBuilder::new().layer(calls(BufferLayer::new(4))).service(router);
    for name in ["later", "at_once"] {
        assert_eq!(stack.call_tool(name, json!({})).await.outcome(), RefusalKind::Internal.into());
        assert!(stack.call_tool("probe", json!({})).await.is_completed(), "after {name}");
    }
}

/// Once the service of a worker fails, all later callers get clones of one error. What it is shows through them.
#[tokio::test(start_paused = true)]
async fn a06_the_error_that_a_worker_hands_to_all_keeps_its_kind() {
    let (_, router) = probe_router();
    let strict = Strict::new(router);
    let closed_shop = |_: StrictError| BoxError::from(Refusal::new(RefusalKind::SessionClosed, "Closed.").with_by("shop"));
    let stack = ServiceBuilder::new().layer(calls(ServiceBuilder::new().buffer(4).map_err(closed_shop))).service(strict.clone());
    strict.behave(Behaviour::ReadinessFails);
    let answers = join_all((0..4).map(|_| stack.call_tool("probe", json!({})))).await;
    assert_eq!(count(&answers, RefusalKind::SessionClosed.into()), 4, "{answers:?}");
    assert_eq!(strict.tally().calls, 0);
}

// 7. Errors.

#[derive(Debug, thiserror::Error)]
#[error("at /etc/secret: password hunter2")]
struct Wrapped(#[source] BoxError);

#[derive(Debug, thiserror::Error)]
#[error("at /etc/secret: password hunter2")]
struct Stranger;

fn known_errors() -> [(fn() -> BoxError, RefusalKind); 5] {
    [
        (|| tower::timeout::error::Elapsed::new().into(), RefusalKind::Timeout),
        (|| tower::load_shed::error::Overloaded::new().into(), RefusalKind::Overloaded),
        (|| Refusal::new(RefusalKind::StepUp, "Sign in again.").into(), RefusalKind::StepUp),
        (|| BoxError::from(Box::new(Refusal::new(RefusalKind::Denied, "No.")) as BoxError), RefusalKind::Denied),
        (|| Stranger.into(), RefusalKind::Internal),
    ]
}

/// At every place where errors are closed off, under any wrapping, an error becomes what it is; a text that nobody knows stays here.
#[tokio::test(start_paused = true)]
async fn a07_every_place_that_closes_errors_off_knows_them_under_any_wrapping() {
    for (error, kind) in known_errors() {
        let failing = || {
            let strict = Strict::new(probe_router().1);
            strict.behave(Behaviour::Fail);
            ServiceBuilder::new().map_err(move |_: StrictError| Wrapped(Box::new(Wrapped(error())))).service(strict)
        };
        let by_layer = failing();
        let closed = ServiceBuilder::new().catch_error().service(failing());
        let tool = Tool::from_service(Probe::new().tool("probe").spec().clone(), failing());
        let answers = [
            by_layer.run_call(call("probe")).await,
            Stack::new(failing()).run_call(call("probe")).await,
            closed.oneshot(call("probe")).await.unwrap_or_else(|never| match never {}),
            Router::new().tool(tool).run_call(call("probe")).await,
            failing().run_calls(vec![call("probe")]).await.remove(0).response,
        ];
        for answer in answers {
            let refusal = answer.refusal().unwrap();
            assert_eq!(refusal.kind(), kind);
            let read = format!("{answer:?}{refusal}{}", answer.as_text().unwrap());
            assert!(!read.contains("hunter2"), "{read}");
        }
    }
}

/// A list that fails is closed off in the same way.
#[tokio::test(start_paused = true)]
async fn a07_a_list_that_fails_says_why() {
    let stack = ServiceBuilder::new().load_shed().concurrency_limit(1).service(probe_router().1);
    let mut held = stack.clone();
    let _held = ServiceExt::<ToolCall>::ready(&mut held).await.unwrap().call(call("probe"));
    assert_eq!(stack.list_tools().await.refusal().unwrap().kind(), RefusalKind::Overloaded);
    assert_eq!(stack.into_stack().list_tools().await.refusal().unwrap().kind(), RefusalKind::Overloaded);
}

#[tokio::test(start_paused = true)]
async fn a07_an_operator_s_classifier_sees_what_this_crate_does_not_know() {
    let strict = Strict::new(probe_router().1);
    strict.behave(Behaviour::Fail);
    let classify =
        |error: &(dyn Error + 'static)| error.is::<StrictError>().then(|| Refusal::new(RefusalKind::BreakerOpen, "Later.").with_by("mine"));
    let stack = ServiceBuilder::new()
        .layer(CatchErrorLayer::new().classify(classify))
        .map_err(|error: StrictError| Wrapped(error.into()))
        .service(strict);
    let answer = stack.call_tool("probe", json!({})).await;
    let refusal = answer.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), refusal.message()), (RefusalKind::BreakerOpen, "mine", "Later."));
    assert!(Error::source(refusal).is_some(), "the operator still has the error itself");
}

// 8. `BoxError` is not the public error type.

fn is_stack<S: ToolStack>(_: S) {}

fn never_fails<S>(service: S) -> S
where
    S: Service<ToolCall, Error = Infallible> + Service<ListTools, Error = Infallible> + Service<Describe, Error = Infallible>,
{
    service
}

/// Spawns what is generic over the stack, as a server does.
fn serve<S: ToolStack>(stack: S) -> tokio::task::JoinHandle<(ToolResponse, ToolList, Vec<toolstack::run::Answered>)> {
    tokio::spawn(async move {
        let answers = stack.run_calls(vec![call("probe")]).await;
        (stack.call_tool("probe", json!({})).await, stack.list_tools().await, answers)
    })
}

#[tokio::test(start_paused = true)]
async fn a08_what_is_public_ends_in_no_box_and_spawns() {
    let (probe, router) = probe_router();
    let boxed = ServiceBuilder::new().timeout(HOUR).load_shed().layer(calls(BufferLayer::new(4))).service(router.clone());
    let _ = never_fails(router.clone());
    never_fails(Stack::new(boxed.clone()));
    never_fails(CatchErrorLayer::new().layer(boxed.clone()));
    let _ = never_fails(Router::new().nest("n", router.clone().layer(tower::timeout::TimeoutLayer::new(HOUR))));
    let guarded = ServiceBuilder::new()
        .gate_async("ask", async |_| Ok(()))
        .call_timeout(HOUR)
        .layer(from_fn(async |call: ToolCall, next: Next<BoxError>| next.run(call).await))
        .service(boxed);
    let (answer, list, answers) = serve(guarded).await.unwrap();
    assert!(answer.is_completed() && answers[0].response.is_completed());
    assert_eq!((list.tools().len(), probe.runs()), (1, 2));
}

// 9. Layers are generic over the error within.

/// Says at compile time that the layer keeps the error type, whatever it is; the error comes out as it went in.
async fn keeps_the_error<L, S>(layer: L, inner: S, name: &str)
where
    S: Service<ToolCall>,
    L: Layer<S>,
    L::Service: Service<ToolCall, Response = ToolResponse, Error = S::Error>,
    S::Error: fmt::Debug + PartialEq + From<Odd>,
{
    let error = layer.layer(inner).oneshot(call("probe")).await.unwrap_err();
    assert_eq!(error, S::Error::from(Odd(7)), "{name}");
}

/// An error with no virtue but that it is one: no `Clone`, no `From`.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("odd")]
struct Odd(u8);

#[tokio::test(start_paused = true)]
async fn a09_our_layers_take_any_error_and_keep_it() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let strict = Strict::new(probe_router().1);
            strict.behave(Behaviour::Fail);
            let odd = ServiceBuilder::new().map_err(|_: StrictError| Odd(7)).service(strict);
            keeps_the_error($layer, odd, stringify!($name)).await;
        }};
    }
    each_layer!(check);
}

/// Observers and gates stand on either side of a layer that fails, with no map in between. The compiler alone looks at this: what the
/// closures would build is never run.
#[test]
fn a09_no_order_of_ours_and_others_is_ruled_out_by_types() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let _ = || {
                is_stack(ServiceBuilder::new().timeout(HOUR).layer($layer).service(Router::new()));
                is_stack(ServiceBuilder::new().layer($layer).timeout(HOUR).layer($layer).load_shed().service(Router::new()));
                is_stack(
                    Router::new()
                        .tool(Probe::new().tool("probe").layer($layer).layer(tower::timeout::TimeoutLayer::new(HOUR)).layer($layer)),
                );
            };
        }};
    }
    each_layer!(check);
    check!(catch_error: CatchErrorLayer::new());
}

// 10. Two kinds of failure.

#[tokio::test(start_paused = true)]
async fn a10_an_observer_tells_a_tool_that_failed_from_machinery_that_did() {
    let seen: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    let recorder = Recorder::new();
    let router = Router::new()
        .tool(sync_tool_fn("fine", || "fine"))
        .tool(sync_tool_fn("fails", || -> Result<String, &'static str> { Err("no such file") }))
        .tool(tool_fn("hangs", pending::<()>));
    let observer = {
        let seen = Arc::clone(&seen);
        after("observer", move |ending| seen.lock().unwrap().push(ending.outcome()))
    };
    // The observer stands outside a layer that answers with `Err`, the recorder outside the one that closes errors off.
    let stack = ServiceBuilder::new().layer(recorder.layer("closed")).catch_error().layer(observer).timeout(MILLI).service(router);
    for name in ["fine", "fails", "hangs", "unknown"] {
        stack.call_tool(name, json!({})).await;
    }
    let expected =
        [Outcome::Completed, Outcome::ToolError, Outcome::Refused(RefusalKind::Timeout), Outcome::Refused(RefusalKind::UnknownTool)];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(recorder.outcomes("closed"), expected);
}

// 11. Type erasure.

fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}

#[tokio::test(start_paused = true)]
async fn a11_a_finished_stack_is_shared_without_unsafe() {
    let (probe, router) = probe_router();
    let chain = ServiceBuilder::new().timeout(HOUR).layer(calls(BufferLayer::new(4))).concurrency_limit(1).service(router);
    let stack = Stack::new(chain);
    is_shared(&stack);
    is_shared(&BoxCloneSyncService::<ToolCall, ToolResponse, Infallible>::new(stack.clone()));

    let shared = Arc::new(stack);
    let tasks = (0..4).map(|_| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { Stack::clone(&shared).call_tool("probe", json!({})).await })
    });
    assert!(join_all(tasks).await.into_iter().all(|answer| answer.unwrap().is_completed()));
    assert_eq!(probe.runs(), 4);
    assert!(include_str!("../../src/lib.rs").contains("#![forbid(unsafe_code)]"));
}

// 12. Futures have names, and finish when they are dropped.

/// Compiles only while these futures can be named by those who wrap them.
#[tokio::test(start_paused = true)]
async fn a12_the_future_of_a_layer_that_does_not_wait_has_a_name_and_no_box() {
    fn observed<F>(
        layer: &PolicyLayer<closures::After<F>>,
    ) -> around::ResponseFuture<router::ResponseFuture, ToolCall, closures::After<F>, Infallible>
    where
        F: Fn(&toolstack::layer::Ending<'_>) + Send + Sync + 'static,
    {
        layer.layer(probe_router().1).call(call("probe"))
    }
    let caught: catch_panic::ResponseFuture<router::ResponseFuture, ToolCall> =
        CatchPanicLayer::new().layer(probe_router().1).call(call("probe"));
    let closed: catch_error::ResponseFuture<router::ResponseFuture, ToolCall> =
        CatchErrorLayer::new().layer(probe_router().1).call(call("probe"));
    let timed: timeout::ResponseFuture<Router, ToolCall> = TimeoutLayer::new(HOUR).layer(probe_router().1).call(call("probe"));
    assert!(observed(&after("after", |_| {})).await.unwrap().is_completed());
    assert!(caught.await.unwrap().is_completed() && closed.await.unwrap().is_completed() && timed.await.unwrap().is_completed());
}

#[tokio::test(start_paused = true)]
async fn a12_a_future_that_is_dropped_is_recorded_once_wherever_it_stands() {
    let recorder = Recorder::new();
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("outer"))
        .call_timeout(HOUR)
        .concurrency_limit(1)
        .layer(recorder.layer("inner"))
        .service(Router::new().tool(controlled.tool("held")));

    // Before it is polled: nothing has begun within.
    drop(stack.run_call(call("held")));
    assert_eq!(recorder.starts("inner"), 0);

    // While it runs, and while it waits for a permit.
    {
        let mut runs = Box::pin(stack.run_call(call("held")));
        assert!(poll!(&mut runs).is_pending());
        let mut waits = Box::pin(stack.run_call(call("held")));
        assert!(poll!(&mut waits).is_pending());
        assert_eq!(controlled.in_flight(), 1);
    }
    assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 1));
    assert_eq!(recorder.outcomes("inner"), [Outcome::Cancelled]);
    assert_eq!(recorder.outcomes("outer").len(), recorder.starts("outer"));
    assert!(recorder.outcomes("outer").iter().all(|outcome| *outcome == Outcome::Cancelled));

    let (answer, ()) = tokio::join!(stack.call_tool("held", json!({})), async {
        // The dropped one arrived before.
        let _ = controlled.next().await;
        controlled.next().await.respond(ToolResponse::text("done"));
    });
    assert!(answer.is_completed(), "the permits are free again: {answer:?}");
}

// 13. Cloning the request.

#[derive(Clone)]
struct Again(usize);

impl<E> tower::retry::Policy<ToolCall, ToolResponse, E> for Again {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, E>) -> Option<Self::Future> {
        let failed = result.as_ref().map_or(true, |response| response.outcome().is_error());
        self.0 = self.0.checked_sub(usize::from(failed))?;
        failed.then(|| ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn a13_every_attempt_is_the_same_call_and_copies_nothing() {
    let probe = Probe::answering(|_| ToolResponse::error("again"));
    let stack =
        ServiceBuilder::new().layer(calls(tower::retry::RetryLayer::new(Again(2)))).service(Router::new().tool(probe.tool("probe")));
    let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    let mut asked = ToolCall::new("probe", Arguments::from_text(text)).with_id("c1");
    asked.context = Context::new().with_principal(Principal::new("ada"));
    asked.context.extensions_mut().insert(Arc::new("shared"));
    let shared = Arc::clone(asked.context.extensions().get::<Arc<&str>>().unwrap());

    assert_eq!(stack.run_call(asked.clone()).await.outcome(), Outcome::ToolError);
    let seen = probe.calls();
    assert_eq!(seen.len(), 3);
    for call in &seen {
        assert_eq!((&call.id, &call.context.principal().subject), (&asked.id, &"ada".to_owned()));
        assert!(std::ptr::eq(call.arguments.as_json().unwrap(), asked.arguments.as_json().unwrap()), "the text is shared");
        assert!(Arc::ptr_eq(call.context.extensions().get::<Arc<&str>>().unwrap(), &shared));
    }
}

/// A change that a layer makes in one attempt is no part of the next.
#[tokio::test(start_paused = true)]
async fn a13_a_clone_that_is_changed_leaves_the_original_alone() {
    let probe = Probe::answering(|_| ToolResponse::error("again"));
    let stack = ServiceBuilder::new()
        .layer(calls(tower::retry::RetryLayer::new(Again(2))))
        .map_call("add", |call| {
            let mut value = call.arguments.value().unwrap().clone();
            value["n"] = (value["n"].as_u64().unwrap() + 1).into();
            call.arguments = value.into();
        })
        .service(Router::new().tool(probe.tool("probe")));
    stack.call_tool("probe", json!({ "n": 0 })).await;
    assert_eq!(probe.arguments(), [r#"{"n":1}"#; 3]);
}

// 14. Order.

#[tokio::test(start_paused = true)]
async fn a14_the_first_of_a_builder_and_the_last_layer_call_are_outermost() {
    let recorder = Recorder::new();
    let tool = Probe::new().tool("probe").layer(recorder.layer("tool1")).layer(recorder.layer("tool2"));
    let nested = Router::new().tool(tool).layer(recorder.layer("router1")).layer(recorder.layer("router2"));
    let stack =
        ServiceBuilder::new().layer(recorder.layer("stack1")).layer(recorder.layer("stack2")).service(Router::new().nest("n", nested));

    assert!(stack.call_tool("n.probe", json!({})).await.is_completed());
    assert_eq!(recorder.trace(), "stack1> stack2> router2> router1> tool2> tool1> tool1< tool2< router1< router2< stack2< stack1<");

    let description = stack.describe().await;
    let names = |notes: &[Note]| notes.iter().map(|note| note.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(description.layers()), ["stack1", "stack2"]);
    assert_eq!(names(&description.tools()[0].layers), ["router2", "router1", "tool2", "tool1"]);
}

#[tokio::test(start_paused = true)]
async fn a14_an_order_that_lets_something_through_is_named() {
    let rules = |faults: Vec<toolstack::describe::Fault>| faults.into_iter().map(|fault| fault.rule).collect::<Vec<_>>();
    let router = || probe_router().1;
    let changed_after = ServiceBuilder::new().gate("judge", |_| Ok(())).map_call("change", |_| {}).service(router());
    assert_eq!(rules(changed_after.lint().await), ["rewrite-after-decision"]);
    let changed_before = ServiceBuilder::new().map_call("change", |_| {}).gate("judge", |_| Ok(())).service(router());
    assert!(changed_before.lint().await.is_empty());
    let told = ServiceBuilder::new().gate("judge", |_| Ok(())).visibility(|_, _| true).service(router());
    assert_eq!(rules(told.lint().await), ["decision-before-visibility"]);
    let within_a_tool = Router::new().tool(Probe::new().tool("t").layer(map_call("change", |_| {})).layer(gate("judge", |_| Ok(()))));
    assert_eq!(rules(within_a_tool.lint().await), ["rewrite-after-decision"]);
}

// 15. Limits by key.

/// One call at a time for each principal: what a layer of the next kind needs from the machine.
#[derive(Default)]
struct PerPrincipal {
    permits: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Policy for PerPrincipal {
    type State = OwnedSemaphorePermit;

    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new("per_principal"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step<Self::State> {
        if let View::Call(_) = request { Step::Wait } else { Step::Pass }
    }

    fn wait<'a>(&'a self, request: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step<Self::State>> {
        let View::Call(call) = request else { return Box::pin(ready(Step::Pass)) };
        // The anonymous principal has a subject too, which is empty: one bucket like any other.
        let key = call.context.principal().subject.clone();
        let permits = Arc::clone(self.permits.lock().unwrap().entry(key).or_insert_with(|| Arc::new(Semaphore::new(1))));
        Box::pin(async move { permits.acquire_owned().await.map_or_else(|closed| Step::refuse(Refusal::internal(closed)), Step::Continue) })
    }
}

#[tokio::test(start_paused = true)]
async fn a15_a_limit_by_key_holds_through_all_clones_and_nobody_is_one_key() {
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new()
        .layer(PolicyLayer::new(PerPrincipal::default()))
        .concurrency_limit(16)
        .service(Router::new().tool(controlled.tool("held")));
    let erased = Stack::new(stack.clone());
    let by = |subject: &str| {
        let context = if subject.is_empty() { Context::new() } else { Context::new().with_principal(Principal::new(subject)) };
        call("held").with_context(context)
    };
    let mut running: HashMap<&str, Vec<BoxFuture<'static, ToolResponse>>> = HashMap::new();
    for subject in ["ada", "bob", ""] {
        for n in 0..5 {
            let mut answer: BoxFuture<'static, ToolResponse> =
                if n % 2 == 0 { Box::pin(stack.run_call(by(subject))) } else { Box::pin(erased.run_call(by(subject))) };
            assert!(poll!(&mut answer).is_pending());
            running.entry(subject).or_default().push(answer);
        }
    }
    assert_eq!(controlled.in_flight(), 3, "one of each, and nobody counts as one");

    // A call that is dropped hands its permit on to the next of the same key.
    drop(running.get_mut("").unwrap().remove(0));
    let rest: Vec<_> = running.into_values().flatten().collect();
    let number = rest.len();
    let (answers, ()) = tokio::join!(join_all(rest), async {
        for _ in 0..=number {
            controlled.next().await.respond(ToolResponse::text("done"));
        }
    });
    assert_eq!((count(&answers, Outcome::Completed), controlled.peak()), (number, 3));
}

// 16. What hides backpressure.

#[tokio::test(start_paused = true)]
async fn a16_load_is_shed_directly_outside_the_limit_and_the_wrong_place_is_named() {
    async fn shed_of_two<S: ToolStack>(stack: &S) -> bool {
        let mut first = Box::pin(stack.call_tool("hangs", json!({})));
        assert!(poll!(&mut first).is_pending());
        let mut second = Box::pin(stack.call_tool("hangs", json!({})));
        match poll!(&mut second) {
            Poll::Ready(answer) => answer.outcome() == RefusalKind::Overloaded.into(),
            Poll::Pending => false,
        }
    }
    let hangs = || tool_fn("hangs", pending::<()>);
    let outside = ServiceBuilder::new().load_shed().concurrency_limit(1).service(Router::new().tool(hangs()));
    assert!(shed_of_two(&outside).await);
    assert!(outside.lint().await.is_empty());

    // A layer that may wait is ready at once, and so is a router whose tools have limits of their own.
    let apart =
        ServiceBuilder::new().load_shed().gate_async("ask", async |_| Ok(())).concurrency_limit(1).service(Router::new().tool(hangs()));
    let around_the_router = ServiceBuilder::new().load_shed().service(Router::new().tool(hangs().layer(ConcurrencyLimitLayer::new(1))));
    assert!(!shed_of_two(&apart).await && !shed_of_two(&around_the_router).await);
    for faults in [apart.lint().await, around_the_router.lint().await] {
        assert_eq!(faults.iter().map(|fault| fault.rule).collect::<Vec<_>>(), ["shed-of-nothing"]);
    }

    let around_the_tool =
        Router::new().tool(hangs().layer(ServiceBuilder::new().load_shed().layer(ConcurrencyLimitLayer::new(1)).into_inner()));
    assert!(shed_of_two(&around_the_tool).await);
}

// 17. What exists for HTTP only.

/// Panics where it is told to.
#[derive(Clone)]
struct Panics {
    at: &'static str,
    inner: Router,
}

impl<Op> Service<Op> for Panics
where
    Router: Service<Op, Error = Infallible, Future: Send + 'static>,
{
    type Response = <Router as Service<Op>>::Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        assert!(self.at != "poll_ready", "hunter2");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Op) -> Self::Future {
        assert!(self.at != "call", "hunter2");
        let (at, answer) = (self.at, self.inner.call(request));
        Box::pin(async move {
            assert!(at != "future", "hunter2");
            answer.await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a17_our_own_catch_panic_catches_readiness_call_and_future_of_calls_and_lists() {
    for at in ["poll_ready", "call", "future"] {
        let mut service = CatchPanicLayer::new().layer(Panics { at, inner: probe_router().1 });
        let answer = ServiceExt::<ToolCall>::ready(&mut service).await.unwrap().call(call("probe")).await.unwrap();
        let refusal = answer.refusal().unwrap();
        assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::Internal, "catch_panic"), "{at}");
        assert!(!answer.as_text().unwrap().contains("hunter2"), "{at}");
        assert!(Error::source(refusal).unwrap().to_string().contains("hunter2"), "the operator is told, {at}");
        let list = service.clone().oneshot(ListTools::new()).await.unwrap();
        assert_eq!(list.refusal().unwrap().kind(), RefusalKind::Internal, "{at}");

        // Without the layer, every face does the same.
        let open = Panics { at, inner: probe_router().1 };
        assert_eq!(open.call_tool("probe", json!({})).await.outcome(), RefusalKind::Internal.into(), "{at}");
        assert_eq!(open.list_tools().await.refusal().unwrap().kind(), RefusalKind::Internal, "{at}");
    }
}

// 18. Spans.

/// Which spans are entered, on each thread: as much of a subscriber as this needs.
#[derive(Clone, Default)]
struct Spans {
    open: Arc<Mutex<HashMap<ThreadId, Vec<span::Id>>>>,
    elsewhere: Arc<AtomicUsize>,
    number: Arc<AtomicUsize>,
    home: Option<ThreadId>,
    metadata: Arc<Mutex<Option<&'static tracing::Metadata<'static>>>>,
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        *self.metadata.lock().unwrap() = Some(attributes.metadata());
        span::Id::from_u64(self.number.fetch_add(1, Ordering::SeqCst) as u64 + 1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, id: &span::Id) {
        let thread = std::thread::current().id();
        self.elsewhere.fetch_add(usize::from(self.home != Some(thread)), Ordering::SeqCst);
        self.open.lock().unwrap().entry(thread).or_default().push(id.clone());
    }

    fn exit(&self, _: &span::Id) {
        self.open.lock().unwrap().entry(std::thread::current().id()).or_default().pop();
    }

    fn current_span(&self) -> span::Current {
        let current = self.open.lock().unwrap().get(&std::thread::current().id()).and_then(|open| open.last().cloned());
        match (current, *self.metadata.lock().unwrap()) {
            (Some(id), Some(metadata)) => span::Current::new(id, metadata),
            _ => span::Current::none(),
        }
    }
}

#[tokio::test]
async fn a18_a_tool_stands_in_the_caller_s_span_also_behind_a_buffer_and_on_a_thread() {
    let spans = Spans { home: Some(std::thread::current().id()), ..Spans::default() };
    let _default = tracing::subscriber::set_default(spans.clone());
    let where_am_i = || format!("{:?}", tracing::Span::current().id().map(|id| id.into_u64()));
    let router = Router::new().tool(tool_fn("here", move || async move { where_am_i() })).tool(blocking_tool_fn("on_a_thread", || "done"));
    let stack = ServiceBuilder::new()
        .layer(calls(BufferLayer::new(4)))
        .gate_async("ask", async |_| {
            tokio::task::yield_now().await;
            Ok(())
        })
        .service(router);

    let caller = tracing::info_span!("caller");
    let id = format!("{:?}", caller.id().map(|id| id.into_u64()));
    let here = stack.call_tool("here", json!({})).instrument(caller.clone()).await;
    assert_eq!(here.as_text().as_deref(), Some(id.as_str()));

    assert!(stack.call_tool("on_a_thread", json!({})).instrument(caller).await.is_completed());
    assert_eq!(spans.elsewhere.load(Ordering::SeqCst), 1, "the thread enters the span of the caller");
}

/// What goes on by itself still goes through the stack: a task of a tool has the way back, with who asked and how deep it stands.
#[tokio::test(start_paused = true)]
async fn a18_work_that_goes_on_as_a_task_calls_through_the_same_layers() {
    let recorder = Recorder::new();
    let probe = Probe::new();
    let start = tool_fn("start", |stack: Reentry| async move {
        tokio::spawn(async move {
            tokio::time::sleep(HOUR).await;
            stack.call_tool("probe", json!({})).await
        });
        "started"
    });
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("all"))
        .visibility(|tool, context| tool.name != *"probe" || context.principal().subject == "ada")
        .service(Router::new().tool(start).tool(probe.tool("probe")))
        .into_stack();
    let ada = Context::new().with_principal(Principal::new("ada"));
    let started = call("start").with_id("c1").with_context(ada);
    assert!(stack.run_call(started).await.is_completed());
    assert_eq!(recorder.trace(), "all> all<");
    tokio::time::sleep(HOUR * 2).await;
    assert_eq!(recorder.trace(), "all> all< all> all<");
    let inner = &probe.calls()[0].context;
    assert_eq!((inner.principal().subject.as_str(), inner.parent(), inner.depth()), ("ada", Some(&"c1".into()), 1));
}

// 19. Errors of readiness are terminal.

#[tokio::test(start_paused = true)]
async fn a19_an_error_of_readiness_is_told_and_the_failed_service_is_not_called() {
    let strict = Strict::new(probe_router().1);
    strict.behave(Behaviour::ReadinessFails);

    // A layer passes it on.
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            let mut service = $layer.layer(strict.clone());
            let told = match ServiceExt::<ToolCall>::ready(&mut service).await {
                Err(error) => Err(error),
                Ok(ready) => ready.call(call("probe")).await.map(drop),
            };
            assert!(matches!(told, Err(StrictError { .. })), stringify!($name));
        }};
    }
    each_layer!(check);

    // Whatever closes errors off answers it.
    let mut closed = CatchErrorLayer::new().layer(strict.clone());
    for _ in 0..2 {
        let answer = ServiceExt::<ToolCall>::ready(&mut closed).await.unwrap().call(call("probe")).await.unwrap();
        let refusal = answer.refusal().unwrap();
        assert_eq!(refusal.kind(), RefusalKind::Internal);
        assert!(Error::source(refusal).is_some_and(|source| source.is::<StrictError>()));
    }
    let tool = Tool::from_service(Probe::new().tool("probe").spec().clone(), strict.clone());
    let nested = Router::new().tool(Probe::new().tool("probe")).layer(tower::layer::layer_fn(|_| strict.clone()));
    for stack in [Stack::new(strict.clone()), Stack::new(Router::new().tool(tool)), Stack::new(nested)] {
        assert_eq!(stack.call_tool("probe", json!({})).await.outcome(), RefusalKind::Internal.into());
    }
    assert_eq!(strict.tally().calls, 0, "what is not ready is not called");

    // A later call has an instance of its own, and goes through once the service has come round.
    strict.behave(Behaviour::Answer);
    assert!(closed.oneshot(call("probe")).await.unwrap().is_completed());
    assert_eq!(strict.tally().violations, 0);
}

// 20. What every public type is.

/// A policy with no virtue of its own.
struct Bare;

impl Policy for Bare {
    type State = ();

    fn note(&self) -> Option<Note> {
        None
    }

    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        Step::Pass
    }
}

fn is_public<T: Clone + fmt::Debug + Send + Sync + 'static>(_: T) {}

fn is_future<F: Future + fmt::Debug + Send + 'static>(_: F) {}

#[tokio::test(start_paused = true)]
async fn a20_layers_and_services_are_clone_debug_send_and_sync() {
    macro_rules! check {
        ($name:ident: $layer:expr) => {{
            is_public(tower::layer::util::Stack::new(tower::layer::util::Identity::new(), $layer));
            let mut service = $layer.layer(Router::new());
            is_public(service.clone());
            let shown = format!("{service:?}");
            assert!(shown.contains("Router"), "{}: {shown}", stringify!($name));
            is_future(Service::<ToolCall>::call(&mut service, call("probe")));
            is_future(Service::<ListTools>::call(&mut service, ListTools::new()));
        }};
    }
    macro_rules! not_from_fn {
        (from_fn: $layer:expr) => {
            is_public(from_fn(async |call: ToolCall, next: Next<Infallible>| next.run(call).await));
        };
        ($name:ident: $layer:expr) => {
            check!($name: $layer);
        };
    }
    each_layer!(not_from_fn);
    check!(catch_error: CatchErrorLayer::new().classify(|_| None));
    check!(bare: PolicyLayer::new(Bare));

    let function = from_fn(async |call: ToolCall, next: Next<Infallible>| next.run(call).await).layer(Router::new());
    is_public(function.clone());
    is_future(function.clone().call(call("probe")));

    is_public(Router::new());
    is_public(Router::new().handle());
    is_public(Router::new().catalog());
    is_public(Router::new().catalog().changes());
    is_public(Router::new().into_stack());
    is_public(toolstack::run::Turn::new());
    is_public(Probe::new().tool("probe").boxed());
    is_public(Router::new().describe().await);
    is_future(Router::new().call(call("probe")));
    is_future(Service::<ToolCall>::call(&mut Router::new().into_stack(), call("probe")));
    fn is_public_type<T: Clone + fmt::Debug + Send + Sync + 'static>() {}
    is_public_type::<ToolService<Probe>>();
    is_public_type::<toolstack::tool::FromService<Router>>();
    is_public_type::<Policed<Stack, Bare>>();
    is_public_type::<Reentry>();
    is_public_type::<Refusal>();
    is_public_type::<(ToolCall, ToolResponse, ToolList, ListTools, Describe, Description, Context, Content)>();
    fn is_handler<T: Handler + Send + Sync>() {}
    is_handler::<Arc<dyn Handler>>();
}
