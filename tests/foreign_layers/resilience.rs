//! One row for each layer of tower-resilience.
//!
//! The generic ones stand in the chain directly. Cache, coalesce, fallback and retry fix their request, as does a breaker that looks at
//! responses; they go into `calls`.
//!
//! What lies with that crate, and not with this one:
//!
//! - Its errors are its own types, and mostly generic over the error within, which they show as text and not as a `source()`. So
//!   `CatchErrorLayer::classify` names the type, and where layers that fail stand within each other, a `catch_error` between them keeps
//!   the inner error to be seen.
//! - `hedge` and `coalesce` want `Error: Clone`, which tower's `BoxError` is not: within them stands what does not fail, or `catch_error`.
//! - `executor` runs calls on tasks of their own, which go on when the call is dropped.
//! - A call that `coalesce` joins to another polls without pause, so that paused time stands still meanwhile.
//! - `router` is no layer: it spreads calls over several stacks, and is itself a stack.

use std::{convert::Infallible, error::Error, time::Duration};

use serde_json::json;
use toolstack::{
    BoxError, Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    layer::{CatchErrorLayer, calls},
    middleware::from_fn,
    model::Outcome,
};
use tower::{ServiceBuilder, filter::FilterLayer, timeout::TimeoutLayer};
use tower_resilience::{
    adaptive::{AdaptiveLimiterLayer, Aimd},
    bulkhead::{BulkheadError, BulkheadLayer},
    cache::CacheLayer,
    chaos::ChaosLayer,
    circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer},
    coalesce::CoalesceLayer,
    executor::{ExecutorError, ExecutorLayer},
    fallback::FallbackLayer,
    hedge::HedgeLayer,
    outlier::{OutlierDetectionError, OutlierDetectionLayer, OutlierDetector},
    ratelimiter::{RateLimiterLayer, RateLimiterServiceError},
    retry::RetryLayer,
    router::WeightedRouter,
    timelimiter::{TimeLimiterError, TimeLimiterLayer},
};

use super::bench::{LONG, Place, Work, ask, is_stack, keep, ours, pass_on, places, relay, rows, show, tools};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

type Seen<'a> = &'a (dyn Error + 'static);

/// What stands within is a router, or layers that fail with a box.
macro_rules! is {
    ($error:expr, $type:ident, $pattern:pat) => {
        matches!($error.downcast_ref::<$type<Infallible>>(), Some($pattern))
            || matches!($error.downcast_ref::<$type<BoxError>>(), Some($pattern))
    };
}

/// What an operator writes once for all of them.
pub(super) fn resilience(error: Seen<'_>) -> Option<Refusal> {
    let (kind, by) = if error.is::<BulkheadError>() {
        (RefusalKind::Overloaded, "bulkhead")
    } else if error.is::<OutlierDetectionError>() {
        (RefusalKind::BreakerOpen, "outlier")
    } else if is!(error, CircuitBreakerError, CircuitBreakerError::OpenCircuit) {
        (RefusalKind::BreakerOpen, "circuit_breaker")
    } else if is!(error, RateLimiterServiceError, RateLimiterServiceError::RateLimited) {
        (RefusalKind::RateLimited, "rate_limiter")
    } else if is!(error, TimeLimiterError, TimeLimiterError::Timeout) {
        (RefusalKind::Timeout, "time_limiter")
    } else if is!(error, ExecutorError, ExecutorError::TaskCancelled) {
        (RefusalKind::Cancelled, "executor")
    } else {
        return None;
    };
    Some(Refusal::new(kind, "Not now.").with_by(by))
}

fn classified() -> ServiceBuilder<tower::layer::util::Stack<CatchErrorLayer, tower::layer::util::Identity>> {
    ServiceBuilder::new().layer(CatchErrorLayer::new().classify(resilience))
}

fn key(call: &ToolCall) -> (String, String) {
    (call.name().to_string(), call.arguments.as_json().unwrap_or_default().to_owned())
}

fn adaptive(limit: usize) -> AdaptiveLimiterLayer<Aimd> {
    let limits = Aimd::builder().initial_limit(limit).min_limit(limit).max_limit(limit);
    AdaptiveLimiterLayer::new(limits.build().unwrap())
}

fn bulkhead(limit: usize) -> BulkheadLayer {
    BulkheadLayer::builder().max_concurrent_calls(limit).max_wait_duration(LONG).build().unwrap()
}

fn cache() -> CacheLayer<ToolCall, (String, String)> {
    CacheLayer::builder().max_size(100).key_extractor(key).build().unwrap()
}

fn rate_limiter(calls: usize) -> RateLimiterLayer {
    RateLimiterLayer::builder().limit_for_period(calls).refresh_period(HOUR).timeout_duration(Duration::ZERO).build().unwrap()
}

fn time_limiter() -> TimeLimiterLayer {
    TimeLimiterLayer::builder().timeout_duration(SECOND).build()
}

fn failed<E>(result: &Result<ToolResponse, E>) -> bool {
    result.as_ref().map_or(true, |response| response.outcome().is_error())
}

/// Opens at the second call that ends in an error, whether a layer or the tool itself says so.
macro_rules! breaker {
    () => {
        calls(
            CircuitBreakerLayer::builder().failure_classifier(failed).consecutive_failures(2).wait_duration_in_open(HOUR).build().unwrap(),
        )
    };
}

macro_rules! outlier {
    () => {{
        let detector = OutlierDetector::new().max_ejection_percent(100).base_ejection_duration(HOUR);
        detector.register("only", 2);
        calls(
            OutlierDetectionLayer::builder()
                .failure_classifier(failed)
                .detector(detector)
                .instance_name("only")
                .error_on_ejection()
                .build()
                .unwrap(),
        )
    }};
}

fn only_good(call: ToolCall) -> Result<ToolCall, BoxError> {
    let bad = call.name() != "relay" && call.arguments.value().is_ok_and(|value| value["bad"] == true);
    if bad { Err(Refusal::new(RefusalKind::LimitExceeded, "Too bad.").with_by("only_good").into()) } else { Ok(call) }
}

fn why_bad(call: &ToolCall) -> BoxError {
    only_good(call.clone()).unwrap_err()
}

mod passes {
    use super::*;

    rows! {
        adaptive_limiter: adaptive(2) => passes();
        bulkhead_that_waits: bulkhead(2) => passes();
        cached: calls(cache()) => passes();
        chaos_of_latency: ChaosLayer::builder().latency_rate(1.0).min_latency(SECOND).max_latency(SECOND).build() => passes();
        circuit_breaker: CircuitBreakerLayer::standard().build().unwrap() => passes();
        circuit_breaker_by_outcome: breaker!() => passes();
        coalesce: calls(CoalesceLayer::new(key)) => passes();
        executor: ExecutorLayer::current() => passes();
        fallback: calls(FallbackLayer::value(ToolResponse::text("from a cupboard"))) => passes();
        hedge: HedgeLayer::new(SECOND) => passes();
        outlier_detection: outlier!() => passes();
        rate_limit: rate_limiter(1_000) => passes();
        retry: calls(RetryLayer::<ToolCall, ToolResponse, _>::builder().max_attempts(3).fixed_backoff(SECOND).build()) => passes();
        time_limit: time_limiter() => passes();
    }

    /// `WeightedRouter` spreads over stacks, and layers stand around it as around any other.
    #[tokio::test(start_paused = true)]
    async fn weighted_router() {
        let (one, two) = (Work::new(), Work::new());
        let spread = WeightedRouter::builder().route(tools(&one), 1).route(tools(&two), 1).build();
        let stack = ServiceBuilder::new().catch_panic().gate("any", |_| Ok(())).timeout(SECOND).concurrency_limit(1).service(spread);
        is_stack(stack.clone());
        for _ in 0..4 {
            assert!(stack.call_tool("work", json!({})).await.is_completed());
        }
        assert_eq!((one.runs(), two.runs()), (2, 2));
        assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["relay", "work"]);
    }
}

mod refuses {
    use super::*;

    rows! {
        bulkhead_that_is_full: classified().layer(BulkheadLayer::builder().max_concurrent_calls(1).reject_when_full().build().unwrap())
            => refuses_while_one_runs(RefusalKind::Overloaded);
        circuit_breaker_that_opened: classified().layer(breaker!())
            => refuses_after(&[json!({ "fail": true }), json!({ "fail": true })], RefusalKind::BreakerOpen);
        outlier_that_was_ejected: classified().layer(outlier!())
            => refuses_after(&[json!({ "fail": true }), json!({ "fail": true })], RefusalKind::BreakerOpen);
        rate_limit_that_is_used_up: classified().layer(calls(rate_limiter(2)))
            => refuses_after(&[json!({ "n": 1 }), json!({ "n": 2 })], RefusalKind::RateLimited);
        time_limit: classified().layer(time_limiter()) => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);

        // What they pass on from within keeps its kind, where they pass errors on as they are, or `catch_error` stands within.
        chaos_of_errors: calls(ServiceBuilder::new()
            .layer(ChaosLayer::builder()
                .error_fn(why_bad)
                .error_rate(0.0)
                .build())
            .filter(only_good)) => refuses(&json!({ "bad": true }), RefusalKind::LimitExceeded);
        hedge_around_a_timeout: ServiceBuilder::new().layer(HedgeLayer::new(HOUR)).layer(CatchErrorLayer::new()).timeout(SECOND)
            => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);
        retry_that_gives_up: calls(ServiceBuilder::new()
            .layer(RetryLayer::<ToolCall, ToolResponse, BoxError>::builder().max_attempts(3).fixed_backoff(SECOND).build())
            .timeout(SECOND)) => refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Timeout);
        cache_does_not_keep_an_error: ServiceBuilder::new().layer(calls(cache())).layer(CatchErrorLayer::new())
            .layer(calls(FilterLayer::new(only_good))) => refuses(&json!({ "bad": true }), RefusalKind::LimitExceeded);
    }

    /// An error rate of one: every call fails with what the operator injects.
    #[tokio::test(start_paused = true)]
    async fn chaos_of_nothing_but_errors() {
        let refusal = |_: &ToolCall| BoxError::from(Refusal::new(RefusalKind::OutcomeUnknown, "Who knows.").with_by("chaos"));
        for place in
            places!(calls(ServiceBuilder::new().layer(ChaosLayer::builder().error_fn(refusal).error_rate(1.0).build()).timeout(SECOND)))
        {
            place.ends(&json!({}), RefusalKind::OutcomeUnknown.into(), 0).await;
        }
    }

    /// A task that panics is told as one that was cancelled. The router catches the panic of a tool before that.
    #[tokio::test(start_paused = true)]
    async fn executor_whose_task_panics() {
        let stack = classified()
            .layer(ExecutorLayer::current())
            .layer(toolstack::layer::map_call("broken", |call| assert!(call.name() != "work", "as it was told")))
            .service(tools(&Work::new()));
        let answer = stack.call_tool("work", json!({})).await;
        assert_eq!((answer.outcome(), answer.refusal().unwrap().by()), (Outcome::Cancelled, "executor"));

        let stack = classified().layer(ExecutorLayer::current()).service(tools(&Work::new()));
        assert_eq!(stack.call_tool("work", json!({ "panic": true })).await.outcome(), RefusalKind::Internal.into());
    }

    /// The one who runs the call for all gives up: the others are told so.
    #[tokio::test(start_paused = true)]
    async fn coalesce_whose_leader_is_dropped() {
        let stack = ServiceBuilder::new().layer(calls(CoalesceLayer::new(key))).service(tools(&Work::new()));
        let arguments = json!({ "yields": 1_000 });
        let mut leader = Box::pin(stack.call_tool("work", arguments.clone()));
        let mut other = Box::pin(stack.call_tool("work", arguments));
        assert!(futures_util::poll!(&mut leader).is_pending() && futures_util::poll!(&mut other).is_pending());
        drop(leader);
        assert_eq!(other.await.outcome(), RefusalKind::Internal.into());
    }

    /// Without a classifier it is an error that nobody knows: it is told to the operator, and not to the model.
    #[tokio::test(start_paused = true)]
    async fn whatever_nobody_classifies_is_internal() {
        for place in places!(time_limiter()) {
            place.refuses(&json!({ "sleep_ms": 2_000 }), RefusalKind::Internal).await;
        }
    }
}

mod state_holds {
    use super::*;

    rows! {
        adaptive_limiter: adaptive(1) => runs_one_at_a_time();
        bulkhead_that_waits: bulkhead(1) => runs_one_at_a_time();
        bulkhead_with_backpressure: BulkheadLayer::builder().max_concurrent_calls(1).backpressure().build().unwrap() => runs_one_at_a_time();
        a_limit_below_an_executor: ServiceBuilder::new().layer(ExecutorLayer::current()).concurrency_limit(1) => runs_one_at_a_time();
        a_limit_below_a_breaker: ServiceBuilder::new().layer(CircuitBreakerLayer::standard().build().unwrap()).concurrency_limit(1)
            => runs_one_at_a_time();
        a_limit_below_a_hedge: ServiceBuilder::new().layer(HedgeLayer::new(HOUR)).concurrency_limit(1) => runs_one_at_a_time();
        cached: calls(cache()) => runs_once(&json!({ "n": 1 }));
        coalesce: calls(CoalesceLayer::new(key)) => runs_once_at_once(&json!({ "yields": 100 }));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn bulkhead_on_threads() {
        for place in places!(bulkhead(1)) {
            place.runs_one_at_a_time_on_threads().await;
        }
    }
}

mod acts {
    use super::*;

    rows! {
        fallback_for_an_error: calls(ServiceBuilder::new()
            .layer(FallbackLayer::<ToolCall, ToolResponse, BoxError>::value(ToolResponse::text("from a cupboard")))
            .timeout(SECOND)) => reads(&json!({ "sleep_ms": 2_000 }), "from a cupboard");
        retry_by_outcome: calls(RetryLayer::<ToolCall, ToolResponse, _>::builder()
            .max_attempts(3)
            .fixed_backoff(SECOND)
            .retry_on_response(|response: &ToolResponse| response.outcome().is_error())
            .build()) => ends(&json!({ "fail": true }), Outcome::ToolError, 3);
    }

    /// The first attempt is slow; the second starts after a second, and the first that answers counts.
    #[tokio::test(start_paused = true)]
    async fn hedge_makes_a_second_attempt() {
        for place in places!(HedgeLayer::new(SECOND)) {
            let answer = place.stack.run_call(place.call(json!({ "sleep_ms": 1_500 }))).await;
            assert!(answer.is_completed(), "{answer:?}");
            assert_eq!((place.work.runs(), place.work.now()), (2, 0));
        }
    }

    /// The time of an executor's task is not the caller's: it goes on when the call is dropped.
    #[tokio::test(start_paused = true)]
    async fn executor_goes_on_when_the_call_is_dropped() {
        let work = Work::new();
        let stack = ServiceBuilder::new().call_timeout(SECOND).layer(ExecutorLayer::current()).service(tools(&work));
        assert_eq!(stack.call_tool("work", json!({ "sleep_ms": 5_000 })).await.outcome(), RefusalKind::Timeout.into());
        assert_eq!(work.now(), 1);
        tokio::time::sleep(SECOND * 5).await;
        assert_eq!(work.now(), 0);
    }

    /// Each fails in its own way, one within the other, and every kind comes out.
    #[tokio::test(start_paused = true)]
    async fn several_with_catch_error_between_them() {
        let work = Work::new();
        let stack = classified()
            .layer(calls(rate_limiter(4)))
            .layer(classified().into_inner())
            .layer(breaker!())
            .layer(classified().into_inner())
            .layer(time_limiter())
            .layer(TimeoutLayer::new(HOUR))
            .service(Router::new().tool(work.tool()));
        let call = |arguments| stack.call_tool("work", arguments);
        assert!(call(json!({})).await.is_completed());
        assert_eq!(call(json!({ "sleep_ms": 2_000 })).await.outcome(), RefusalKind::Timeout.into());
        assert_eq!(call(json!({ "fail": true })).await.outcome(), Outcome::ToolError);
        assert_eq!(call(json!({})).await.outcome(), RefusalKind::BreakerOpen.into());
        assert_eq!(call(json!({})).await.outcome(), RefusalKind::RateLimited.into());
        assert_eq!(work.runs(), 3);
    }

    /// A handle of the layer sees the one state that all entries share.
    #[tokio::test(start_paused = true)]
    async fn a_handle_sees_the_state_of_the_stack() {
        let (limiter, handle) = RateLimiterLayer::builder().limit_for_period(10).refresh_period(HOUR).build_with_handle().unwrap();
        let stack = ServiceBuilder::new().layer(calls(limiter)).service(tools(&Work::new()));
        for _ in 0..3 {
            assert!(stack.call_tool("work", json!({})).await.is_completed());
        }
        assert_eq!(handle.available_permits(), 7);
    }
}
