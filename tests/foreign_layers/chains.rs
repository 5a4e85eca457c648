//! Whole chains: everything at once, in several orders, as written, with no wrapper, no map and no glue in between.

use std::{
    future::{Ready, ready},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::json;
use toolstack::{
    BoxError, Refusal, RefusalKind, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
    layer::{CatchErrorLayer, CatchPanicLayer, TimeoutLayer, VisibilityLayer, calls, gate_async, map_call},
    middleware::from_fn,
    model::{Context, Outcome, ToolSpec},
    testing::Recorder,
};
use tower::{
    ServiceBuilder,
    buffer::BufferLayer,
    filter::FilterLayer,
    limit::{ConcurrencyLimitLayer, RateLimitLayer},
    load_shed::LoadShedLayer,
    retry::{Policy, RetryLayer},
    spawn_ready::SpawnReadyLayer,
    util::{MapRequestLayer, MapResponseLayer, option_layer},
};
use tower_resilience::{
    bulkhead::BulkheadLayer, cache::CacheLayer, chaos::ChaosLayer, circuitbreaker::CircuitBreakerLayer, coalesce::CoalesceLayer,
    executor::ExecutorLayer, fallback::FallbackLayer, hedge::HedgeLayer, ratelimiter::RateLimiterLayer, timelimiter::TimeLimiterLayer,
};

use super::{
    bench::{LONG, Work, ask, keep, pass_on, tools},
    resilience::resilience,
};

const SECOND: Duration = Duration::from_secs(1);
const CALLS: usize = 50;

#[derive(Clone)]
struct Again(usize);

impl<E> Policy<ToolCall, ToolResponse, E> for Again {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, E>) -> Option<Ready<()>> {
        self.0 = self.0.checked_sub(usize::from(result.is_err()))?;
        result.is_err().then(|| ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

fn only_good(call: ToolCall) -> Result<ToolCall, BoxError> {
    let bad = call.name() == "work" && call.arguments.value().is_ok_and(|value| value["bad"] == true);
    if bad { Err(Refusal::new(RefusalKind::LimitExceeded, "Too bad.").with_by("only_good").into()) } else { Ok(call) }
}

fn same_call(call: ToolCall) -> ToolCall {
    call
}

fn same_response(response: ToolResponse) -> ToolResponse {
    response
}

fn no_relay_in_lists(tool: &ToolSpec, context: &Context) -> bool {
    tool.name != *"relay" || context.session() != Some("plain")
}

fn key(call: &ToolCall) -> (String, String) {
    (call.name().to_string(), call.arguments.as_json().unwrap_or_default().to_owned())
}

/// The layers by a word each, so that an order is a list of words.
macro_rules! layer {
    (ask) => {
        gate_async("ask", ask)
    };
    (buffer) => {
        calls(BufferLayer::new(64))
    };
    (bulkhead) => {
        BulkheadLayer::builder().max_concurrent_calls(64).max_wait_duration(LONG).build().unwrap()
    };
    (catch_error) => {
        CatchErrorLayer::new().classify(resilience)
    };
    (catch_panic) => {
        CatchPanicLayer::new()
    };
    (filter) => {
        calls(FilterLayer::new(only_good))
    };
    (from_fn) => {
        from_fn(pass_on)
    };
    (limit) => {
        ConcurrencyLimitLayer::new(1)
    };
    (load_shed) => {
        LoadShedLayer::new()
    };
    (map_call) => {
        map_call("keep", keep)
    };
    (map_request) => {
        calls(MapRequestLayer::new(same_call))
    };
    (map_response) => {
        calls(MapResponseLayer::new(same_response))
    };
    (option) => {
        option_layer(Some(ConcurrencyLimitLayer::new(64)))
    };
    (our_timeout) => {
        TimeoutLayer::new(LONG)
    };
    (rate) => {
        calls(ServiceBuilder::new().buffer(64).layer(RateLimitLayer::new(1_000, SECOND)))
    };
    (retry) => {
        calls(RetryLayer::new(Again(2)))
    };
    (spawn_ready) => {
        calls(ServiceBuilder::new().buffer(64).layer(SpawnReadyLayer::new()))
    };
    (timeout) => {
        tower::timeout::TimeoutLayer::new(SECOND)
    };
    (visibility) => {
        VisibilityLayer::new(no_relay_in_lists)
    };
}

/// One order: what it does is the same whatever the order is.
macro_rules! orders {
    ($($name:ident: [$($word:ident)*];)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let work = Work::new();
            let recorder = Recorder::new();
            let chain = ServiceBuilder::new().layer(recorder.layer("all")) $(.layer(layer!($word)))*;
            serves(chain.service(tools(&work)).into_stack(), &work, &recorder).await;
        }
    )*};
}

/// Calls, lists, refusals of every sort, and fifty calls at once that run one at a time.
async fn serves(stack: Stack, work: &Work, recorder: &Recorder) {
    let outcome = async |arguments| stack.call_tool("work", arguments).await.outcome();
    assert_eq!(outcome(json!({ "n": 1 })).await, Outcome::Completed);
    assert_eq!(outcome(json!({ "fail": true })).await, Outcome::ToolError);
    assert_eq!(outcome(json!({ "panic": true })).await, RefusalKind::Internal.into());
    assert_eq!(outcome(json!({ "bad": true })).await, RefusalKind::LimitExceeded.into());
    assert_eq!(outcome(json!({ "sleep_ms": 2_000 })).await, RefusalKind::Timeout.into());
    assert_eq!(stack.call_tool("nonesuch", json!({})).await.outcome(), RefusalKind::UnknownTool.into());
    assert_eq!(work.now(), 0);

    let lists = |session: &str| stack.run_list(toolstack::ListTools::new().with_context(Context::new().with_session(session)));
    assert_eq!(lists("plain").await.names().collect::<Vec<_>>(), ["work"]);
    assert_eq!(lists("full").await.names().collect::<Vec<_>>(), ["relay", "work"]);
    assert_eq!(stack.describe().await.tools().len(), 2);

    let answers = join_all((0..CALLS).map(|n| stack.call_tool("work", json!({ "n": n, "yields": 2 })))).await;
    assert!(answers.iter().all(ToolResponse::is_completed), "{answers:?}");
    let turn = (0..CALLS).map(|n| ToolCall::new("work", json!({ "turn": n })).with_id(n.to_string())).collect();
    for (n, answer) in stack.run_calls(turn).await.iter().enumerate() {
        assert_eq!((&answer.id, answer.outcome()), (&n.to_string().into(), Outcome::Completed));
    }
    assert_eq!(work.peak(), 1);
    assert_eq!(recorder.starts("all"), recorder.outcomes("all").len(), "whatever began has ended");
}

orders! {
    ours_outermost: [
        catch_panic visibility map_call our_timeout ask from_fn catch_error
        timeout load_shed option buffer retry filter rate map_request map_response spawn_ready bulkhead limit
    ];
    ours_innermost: [
        timeout load_shed option buffer retry filter rate map_request map_response spawn_ready bulkhead limit
        catch_panic visibility map_call our_timeout ask from_fn
    ];
    ours_between_each: [
        catch_panic timeout visibility load_shed option from_fn buffer retry map_call filter our_timeout rate map_request ask map_response
        spawn_ready bulkhead catch_error limit
    ];
    the_other_way_round: [
        limit catch_error bulkhead catch_error spawn_ready map_response map_request rate timeout retry filter buffer option load_shed
        catch_error from_fn ask our_timeout map_call visibility catch_panic
    ];
    by_name: [
        buffer bulkhead catch_error catch_panic from_fn ask limit load_shed map_call map_request map_response option our_timeout rate
        spawn_ready timeout retry filter visibility
    ];
}

/// Every layer of tower-resilience that is a layer, in one chain with ours and tower's. Those that want `Error: Clone` stand around
/// `catch_error`.
#[tokio::test(start_paused = true)]
async fn every_layer_of_resilience_in_one_chain() {
    let work = Work::new();
    let recorder = Recorder::new();
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("all"))
        .layer(layer!(catch_panic))
        .layer(layer!(catch_error))
        .layer(calls(FallbackLayer::<ToolCall, ToolResponse, _>::builder().value_fn(cupboard).handle(|_| false).build()))
        .layer(layer!(visibility))
        .layer(RateLimiterLayer::per_second(10_000).build().unwrap())
        .layer(CircuitBreakerLayer::standard().build().unwrap())
        .timeout(LONG)
        .layer(layer!(bulkhead))
        .layer(ExecutorLayer::current())
        .layer(layer!(ask))
        .layer(calls(CacheLayer::builder().max_size(1).key_extractor(key).build().unwrap()))
        .layer(calls(CoalesceLayer::new(key)))
        .layer(HedgeLayer::new(LONG))
        .layer(layer!(catch_error))
        .layer(TimeLimiterLayer::builder().timeout_duration(SECOND).build())
        .layer(layer!(catch_error))
        .layer(ChaosLayer::builder().latency_rate(0.0).build())
        .layer(layer!(filter))
        .concurrency_limit(1)
        .service(tools(&work))
        .into_stack();
    serves(stack, &work, &recorder).await;
}

fn cupboard() -> ToolResponse {
    ToolResponse::text("from a cupboard")
}

/// The methods of `ServiceBuilder` itself, ours and tower's mixed, as the issue writes them.
#[tokio::test(start_paused = true)]
async fn the_chain_as_it_is_written_with_methods() {
    let work = Work::new();
    let recorder = Recorder::new();
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("all"))
        .catch_panic()
        .visibility(no_relay_in_lists)
        .gate_async("ask", ask)
        .call_timeout(LONG)
        .timeout(SECOND)
        .load_shed()
        .calls(BufferLayer::new(64))
        .calls(ServiceBuilder::new().retry(Again(2)).filter(only_good))
        .calls(ServiceBuilder::new().buffer(64).rate_limit(1_000, SECOND))
        .calls(ServiceBuilder::new().map_request(same_call).map_response(same_response))
        .option_layer(Some(ConcurrencyLimitLayer::new(64)))
        .calls(ServiceBuilder::new().buffer(64).layer(SpawnReadyLayer::new()))
        .concurrency_limit(1)
        .service(tools(&work));
    serves(stack.into_stack(), &work, &recorder).await;
}
