//! Tower's own layers.
//!
//! The generic ones (timeout, limits, load shed, `option_layer`, `map_err`) stand in the chain directly. Those that fix their request or
//! response type, or run a closure on one of them, go into `calls`. `rate_limit` and `spawn_ready` are not `Clone`, so tower wants a buffer
//! outside them; the pair goes into one `calls`.

use std::{
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Semaphore;
use toolstack::{
    BoxError, Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    layer::calls,
    middleware::from_fn,
    model::{Outcome, ToolResult},
    testing::{Behaviour, Strict},
};
use tower::{
    Service, ServiceBuilder, ServiceExt,
    buffer::BufferLayer,
    filter::{AsyncFilterLayer, FilterLayer},
    limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer},
    load_shed::LoadShedLayer,
    retry::{Policy, RetryLayer},
    steer::Steer,
    timeout::TimeoutLayer,
    util::{
        AndThenLayer, BoxCloneSyncService, BoxCloneSyncServiceLayer, MapErrLayer, MapFutureLayer, MapRequestLayer, MapResponseLayer,
        MapResultLayer, ThenLayer, option_layer,
    },
};

use super::bench::{LONG, Place, Work, ask, is_stack, keep, ours, pass_on, places, relay, rows, show, tools};

const SECOND: Duration = Duration::from_secs(1);

/// Tries again, this many times: on errors, and on outcomes that are errors, which is how a tool fails.
#[derive(Clone)]
struct Again(usize);

impl<E> Policy<ToolCall, ToolResponse, E> for Again {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, E>) -> Option<Ready<()>> {
        let failed = result.as_ref().map_or(true, |response| response.outcome().is_error());
        self.0 = self.0.checked_sub(usize::from(failed))?;
        failed.then(|| ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

fn is_bad(call: &ToolCall) -> bool {
    call.name() != "relay" && call.arguments.value().is_ok_and(|value| value["bad"] == true)
}

/// What a stranger's layer may fail with.
#[derive(Debug, thiserror::Error)]
#[error("connection to db:5432 as admin failed: password hunter2")]
struct Stranger;

fn only_good(call: ToolCall) -> Result<ToolCall, BoxError> {
    if is_bad(&call) { Err(Refusal::new(RefusalKind::LimitExceeded, "Too bad.").with_by("only_good").into()) } else { Ok(call) }
}

fn unless_strange(call: ToolCall) -> Result<ToolCall, Stranger> {
    if is_bad(&call) { Err(Stranger) } else { Ok(call) }
}

async fn only_good_later(call: ToolCall) -> Result<ToolCall, BoxError> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    only_good(call)
}

fn denied<E>(error: E) -> Refusal
where
    E: Into<BoxError>,
{
    Refusal::new(RefusalKind::Denied, "No.").with_source(error)
}

/// An error that says what it amounts to, as `?` makes it one of any type.
fn refused<T>(error: impl Into<BoxError>) -> Result<T, BoxError> {
    Err(denied(error).into())
}

fn boxed<F: Future + Send + 'static>(answer: F) -> BoxFuture<'static, F::Output> {
    Box::pin(answer)
}

async fn within_a_second<F, E>(answer: F) -> Result<ToolResponse, BoxError>
where
    F: Future<Output = Result<ToolResponse, E>>,
    E: Into<BoxError>,
{
    tokio::time::timeout(SECOND, answer).await?.map_err(Into::into)
}

fn unless_failed<E: Into<BoxError>>(result: Result<ToolResponse, E>) -> Result<ToolResponse, BoxError> {
    let response = result.map_err(Into::into)?;
    if response.outcome() == Outcome::ToolError { refused(Stranger) } else { Ok(response) }
}

async fn unless_it_failed<E: Into<BoxError>>(result: Result<ToolResponse, E>) -> Result<ToolResponse, BoxError> {
    unless_failed(result)
}

async fn unless_this_failed(response: ToolResponse) -> Result<ToolResponse, BoxError> {
    unless_failed::<BoxError>(Ok(response))
}

fn to_work(mut call: ToolCall) -> ToolCall {
    if call.name() == "old" {
        call.rename("work");
    }
    call
}

fn unchanged(response: ToolResponse) -> ToolResponse {
    response
}

mod passes {
    use super::*;

    rows! {
        and_then: calls(AndThenLayer::new(unless_this_failed)) => passes();
        boxed_clone_sync: calls(BoxCloneSyncServiceLayer::new(TimeoutLayer::new(SECOND))) => passes();
        buffer: calls(BufferLayer::new(8)) => passes();
        concurrency_limit: ConcurrencyLimitLayer::new(2) => passes();
        filter: calls(FilterLayer::new(only_good)) => passes();
        filter_async: calls(AsyncFilterLayer::new(only_good_later)) => passes();
        global_concurrency_limit: GlobalConcurrencyLimitLayer::new(2) => passes();
        load_shed: LoadShedLayer::new() => passes();
        map_err: MapErrLayer::new(denied) => passes();
        map_future: calls(MapFutureLayer::new(boxed)) => passes();
        map_request: calls(MapRequestLayer::new(to_work)) => passes();
        map_response: calls(MapResponseLayer::new(unchanged)) => passes();
        map_result: calls(MapResultLayer::new(unless_failed)) => passes();
        no_layer_by_option: option_layer(None::<ConcurrencyLimitLayer>) => passes();
        a_layer_by_option: option_layer(Some(ConcurrencyLimitLayer::new(2))) => passes();
        a_timeout_by_option: ServiceBuilder::new().option_layer(Some(TimeoutLayer::new(SECOND))).load_shed() => passes();
        rate_limit_behind_a_buffer: calls(ServiceBuilder::new().buffer(8).rate_limit(100, SECOND)) => passes();
        retry: calls(RetryLayer::new(Again(2))) => passes();
        spawn_ready_behind_a_buffer: calls(ServiceBuilder::new().buffer(8).layer(tower::spawn_ready::SpawnReadyLayer::new())) => passes();
        then: calls(ThenLayer::new(unless_it_failed)) => passes();
        timeout: TimeoutLayer::new(SECOND) => passes();
    }
}

mod refuses {
    use super::*;

    rows! {
        and_then: calls(AndThenLayer::new(unless_this_failed))
            => refuses(&json!({ "fail": true }), RefusalKind::Denied);
        boxed_clone_sync: calls(BoxCloneSyncServiceLayer::new(TimeoutLayer::new(SECOND)))
            => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);
        filter_with_a_refusal: calls(FilterLayer::new(only_good)) => refuses(&json!({ "bad": true }), RefusalKind::LimitExceeded);
        filter_with_an_error_of_its_own: calls(FilterLayer::new(unless_strange)) => refuses(&json!({ "bad": true }), RefusalKind::Internal);
        filter_async: calls(AsyncFilterLayer::new(only_good_later)) => refuses(&json!({ "bad": true }), RefusalKind::LimitExceeded);
        map_err_to_a_refusal: ServiceBuilder::new().map_err(denied).timeout(SECOND)
            => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Denied);
        map_future: calls(MapFutureLayer::new(within_a_second)) => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);
        map_result: calls(MapResultLayer::new(unless_failed)) => refuses(&json!({ "fail": true }), RefusalKind::Denied);
        a_timeout_by_option: ServiceBuilder::new().option_layer(Some(TimeoutLayer::new(SECOND))).load_shed()
            => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);
        retry_that_gives_up: calls(ServiceBuilder::new().retry(Again(2)).filter(only_good))
            => refuses(&json!({ "bad": true }), RefusalKind::LimitExceeded);
        then: calls(ThenLayer::new(unless_it_failed)) => refuses(&json!({ "fail": true }), RefusalKind::Denied);
        timeout: TimeoutLayer::new(SECOND) => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);
        timeout_within_a_buffer: calls(ServiceBuilder::new().buffer(8).timeout(SECOND))
            => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);

        load_shed: ServiceBuilder::new().load_shed().concurrency_limit(1) => refuses_while_one_runs(RefusalKind::Overloaded);
        load_shed_of_a_global_limit: ServiceBuilder::new().load_shed().layer(GlobalConcurrencyLimitLayer::new(1))
            => refuses_while_one_runs(RefusalKind::Overloaded);
        load_shed_of_a_limit_by_option: ServiceBuilder::new().load_shed().option_layer(Some(ConcurrencyLimitLayer::new(1)))
            => refuses_while_one_runs(RefusalKind::Overloaded);
    }

    /// The queue has one place and its worker one call in hand, which waits for the limit: what comes then is shed.
    #[tokio::test(start_paused = true)]
    async fn load_shed_of_a_full_buffer() {
        for place in places!(calls(ServiceBuilder::new().load_shed().buffer(1).concurrency_limit(1))) {
            let call = |n: u8| place.stack.run_call(place.call(json!({ "sleep_ms": 1_000, "n": n })));
            let answers = futures_util::future::join_all((0..10).map(call)).await;
            let shed = answers.iter().filter(|answer| answer.outcome() == RefusalKind::Overloaded.into()).count();
            let done = answers.iter().filter(|answer| answer.is_completed()).count();
            assert!(shed > 0 && done > 0 && shed + done == 10, "{shed} are shed and {done} done: {answers:?}");
            assert_eq!(place.work.peak(), 1);
        }
    }

    /// A worker that has ended answers every later call, and does not hang.
    #[tokio::test(start_paused = true)]
    async fn buffer_whose_worker_has_ended() {
        for place in places!(calls(ServiceBuilder::new().buffer(8).map_request(|call: ToolCall| {
            assert!(!is_bad(&call), "as it was told: hunter2");
            call
        }))) {
            let first = place.stack.run_call(place.call(json!({ "bad": true }))).await;
            assert_eq!(first.refusal().unwrap().kind(), RefusalKind::Internal);
            place.refuses_after(&[], RefusalKind::Internal).await;
        }
    }

    /// An error of readiness ends the task that waits for it, and is told.
    #[tokio::test(start_paused = true)]
    async fn spawn_ready_whose_service_is_never_ready() {
        let strict = Strict::new(Router::new().tool(Work::new().tool()));
        let layer = calls(ServiceBuilder::new().buffer(8).layer(tower::spawn_ready::SpawnReadyLayer::new()));
        let stack = ServiceBuilder::new().layer(layer).service(strict.clone());
        assert!(stack.call_tool("work", json!({})).await.is_completed());
        strict.behave(Behaviour::ReadinessFails);
        for _ in 0..3 {
            let answer = stack.call_tool("work", json!({})).await;
            assert_eq!(answer.refusal().unwrap().kind(), RefusalKind::Internal);
        }
        assert_eq!(strict.tally().calls, 1, "what is not ready is not called");
    }
}

mod state_holds {
    use super::*;

    rows! {
        concurrency_limit: ConcurrencyLimitLayer::new(1) => runs_one_at_a_time();
        global_concurrency_limit: GlobalConcurrencyLimitLayer::new(1) => runs_one_at_a_time();
        a_limit_by_option: option_layer(Some(ConcurrencyLimitLayer::new(1))) => runs_one_at_a_time();
        a_limit_behind_a_buffer: calls(ServiceBuilder::new().buffer(8).concurrency_limit(1)) => runs_one_at_a_time();
        a_limit_in_a_box: calls(BoxCloneSyncServiceLayer::new(ConcurrencyLimitLayer::new(1))) => runs_one_at_a_time();
        a_limit_behind_spawn_ready: calls(
            ServiceBuilder::new().buffer(8).layer(tower::spawn_ready::SpawnReadyLayer::new()).concurrency_limit(1)
        ) => runs_one_at_a_time();
        a_limit_with_a_timeout_around_it: ServiceBuilder::new().timeout(SECOND).concurrency_limit(1) => runs_one_at_a_time();
        a_limit_with_a_retry_around_it: calls(ServiceBuilder::new().retry(Again(2)).concurrency_limit(1)) => runs_one_at_a_time();
        rate_limit_behind_a_buffer: calls(ServiceBuilder::new().buffer(8).rate_limit(1, SECOND)) => fifty_take(SECOND * 49);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn concurrency_limit_on_threads() {
        for place in places!(ConcurrencyLimitLayer::new(1)) {
            place.runs_one_at_a_time_on_threads().await;
        }
    }

    /// A semaphore that several stacks share holds through all of them together.
    #[tokio::test(start_paused = true)]
    async fn global_concurrency_limit_of_two_stacks() {
        let (work, semaphore) = (Work::new(), Arc::new(Semaphore::new(1)));
        let stack = || {
            let limit = GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&semaphore));
            ServiceBuilder::new().layer(limit).service(tools(&work))
        };
        let (one, two) = (stack(), stack());
        let calls = (0..50).map(|n| (if n % 2 == 0 { &one } else { &two }).call_tool("work", json!({ "sleep_ms": 1 })));
        assert!(futures_util::future::join_all(calls).await.iter().all(ToolResponse::is_completed));
        assert_eq!((work.runs(), work.peak()), (50, 1));
    }
}

mod acts {
    use super::*;

    fn signed(mut response: ToolResponse) -> ToolResponse {
        if let Some(result) = response.result_mut().filter(|result| result.as_text().is_some_and(|text| !text.ends_with("signed"))) {
            result.push("signed");
        }
        response
    }

    rows! {
        map_response: calls(MapResponseLayer::new(signed)) => reads(&json!({ "n": 1 }), "did {\"n\":1}\nsigned");
        map_result_of_an_error: calls(
            ServiceBuilder::new()
                .map_result(|result: Result<ToolResponse, BoxError>| {
                    Ok::<_, BoxError>(result.unwrap_or_else(|_| ToolResult::text("from a cupboard").into()))
                })
                .timeout(SECOND)
        ) => reads(&json!({ "sleep_ms": 2_000 }), "from a cupboard");
        retry_of_a_tool_that_fails: calls(RetryLayer::new(Again(2))) => ends(&json!({ "fail": true }), Outcome::ToolError, 3);
    }

    /// The tool fails in its first two runs; each call has two more tries.
    #[tokio::test(start_paused = true)]
    async fn retry_of_a_tool_that_comes_round() {
        for place in places!(calls(RetryLayer::new(Again(2)))) {
            let answer = place.stack.run_call(place.call(json!({ "fail_first": 2 }))).await;
            assert!(answer.is_completed(), "{answer:?}");
            assert_eq!(place.work.runs(), 3);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retry_tries_again_what_an_inner_layer_fails_with() {
        let tries = Arc::new(AtomicUsize::new(0));
        let flaky = {
            let tries = Arc::clone(&tries);
            move |call: ToolCall| {
                if tries.fetch_add(1, Ordering::SeqCst) < 2 { Err(Stranger) } else { Ok(call) }
            }
        };
        let stack = ServiceBuilder::new().layer(calls(ServiceBuilder::new().retry(Again(2)).filter(flaky))).service(tools(&Work::new()));
        assert!(stack.call_tool("work", json!({})).await.is_completed());
        assert_eq!(tries.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn map_request_renames_before_the_router_looks() {
        let stack = ServiceBuilder::new().layer(calls(MapRequestLayer::new(to_work))).service(tools(&Work::new()));
        assert_eq!(stack.call_tool("old", json!({})).await.as_text().as_deref(), Some("did {}"));
        assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["relay", "work"]);
    }

    /// Tower's `Steer` fixes its request type and is no layer: it answers a tool.
    #[tokio::test(start_paused = true)]
    async fn steer_answers_a_tool() {
        let backends = ["left", "right"]
            .map(|side| BoxCloneSyncService::new(tower::service_fn(move |_: ToolCall| ready(Ok::<_, BoxError>(ToolResponse::text(side))))));
        let pick = |call: &ToolCall, _: &[_]| usize::from(call.arguments.value().is_ok_and(|value| value["side"] == "right"));
        let spec = Work::new().tool().spec().clone();
        let tool = toolstack::Tool::from_service(spec, Steer::new(backends, pick));
        let stack = ServiceBuilder::new().catch_panic().timeout(SECOND).concurrency_limit(1).service(Router::new().tool(tool));
        for side in ["left", "right", "left"] {
            assert_eq!(stack.call_tool("work", json!({ "side": side })).await.as_text().as_deref(), Some(side));
        }
    }

    /// Calls that a tool makes go through the stack again, so that behind a limit of one the tool waits for itself. A bound on the
    /// time tells, and the permit is free afterwards.
    #[tokio::test(start_paused = true)]
    async fn a_tool_that_calls_tools_behind_a_limit_of_one_waits_for_itself() {
        let work = Work::new();
        let stack = ServiceBuilder::new().call_timeout(SECOND).concurrency_limit(1).service(tools(&work)).into_stack();
        let through_relay = || stack.call_tool("relay", json!({ "tool": "work", "arguments": {} }));
        assert_eq!(through_relay().await.outcome(), RefusalKind::Timeout.into());
        assert_eq!(work.runs(), 0);
        assert!(stack.call_tool("work", json!({})).await.is_completed());

        let stack = ServiceBuilder::new().call_timeout(SECOND).concurrency_limit(2).service(tools(&work)).into_stack();
        assert!(stack.call_tool("relay", json!({ "tool": "work", "arguments": {} })).await.is_completed());
    }

    /// A list takes the way beside a layer in `calls`, and through one that is generic.
    #[tokio::test(start_paused = true)]
    async fn lists_pass_by_what_stands_in_calls_and_through_what_does_not() {
        let beside = ServiceBuilder::new().layer(calls(ConcurrencyLimitLayer::new(1))).service(tools(&Work::new()));
        let through = ServiceBuilder::new().load_shed().layer(ConcurrencyLimitLayer::new(1)).service(tools(&Work::new()));
        let (mut held, mut held_too) = (beside.clone(), through.clone());
        let _held = ServiceExt::<ToolCall>::ready(&mut held).await.unwrap().call(ToolCall::new("work", json!({})));
        let _held_too = ServiceExt::<ToolCall>::ready(&mut held_too).await.unwrap().call(ToolCall::new("work", json!({})));
        assert_eq!(beside.list_tools().await.tools().len(), 2);
        assert_eq!(through.list_tools().await.refusal().unwrap().kind(), RefusalKind::Overloaded);
    }
}
