use std::{collections::BTreeMap, time::Duration};

use futures_util::FutureExt;
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    layer::{
        TelemetryLayer, gate, map_call,
        telemetry::{Metrics, OTHER_TOOLS, Snapshot, UNKNOWN_TOOL},
    },
    model::Outcome,
    testing::{Behaviour, Controlled, Probe, Strict},
    tool::{sync_tool_fn, tool_fn},
};
use tower::{Layer, ServiceBuilder, ServiceExt};

/// How often each outcome was counted, of all tools that are not zero.
fn outcomes(snapshot: &Snapshot, tool: &str) -> BTreeMap<&'static str, u64> {
    snapshot
        .tools
        .get(tool)
        .map(|stats| stats.lifetime.iter().map(|(outcome, count)| (outcome.as_str(), count)).collect())
        .unwrap_or_default()
}

#[tokio::test]
async fn h11_every_way_to_end_is_counted_once_under_its_name() {
    let metrics = Metrics::new();
    let controlled = Controlled::new();
    let strict = Strict::new(
        Router::new()
            .tool(Probe::new().tool("works"))
            .tool(Probe::answering(|_| ToolResponse::error("no")).tool("fails"))
            .tool(Probe::answering(|_| panic!("as it was told to")).tool("panics"))
            .tool(controlled.tool("held")),
    );
    let closed = gate("closed", |call| {
        if call.arguments.object().is_ok_and(|all| all.contains_key("closed")) {
            Err(Refusal::new(RefusalKind::Denied, "closed").with_by("closed"))
        } else {
            Ok(())
        }
    });
    let stack = ServiceBuilder::new().catch_panic().catch_error().telemetry(&metrics).layer(closed).service(strict.clone());

    stack.call_tool("works", json!({})).await;
    stack.call_tool("works", json!({ "closed": true })).await;
    stack.call_tool("fails", json!({})).await;
    stack.call_tool("panics", json!({})).await;
    stack.call_tool("no_such_tool", json!({})).await;
    let mut held = Box::pin(stack.call_tool("held", json!({})));
    assert!(held.as_mut().now_or_never().is_none());
    assert_eq!((metrics.snapshot().in_flight(), metrics.snapshot().tools["held"].in_flight), (1, 1));
    drop(held);
    for behaviour in [Behaviour::Fail, Behaviour::PanicInCall, Behaviour::PanicInFuture] {
        strict.behave(behaviour);
        stack.call_tool("works", json!({})).await;
    }

    let seen = metrics.snapshot();
    assert_eq!(outcomes(&seen, "works"), BTreeMap::from([("completed", 1), ("denied", 1), ("internal", 3)]));
    assert_eq!(outcomes(&seen, "fails"), BTreeMap::from([("tool_error", 1)]));
    assert_eq!(outcomes(&seen, "panics"), BTreeMap::from([("internal", 1)]));
    assert_eq!(outcomes(&seen, "held"), BTreeMap::from([("cancelled", 1)]));
    assert_eq!(outcomes(&seen, UNKNOWN_TOOL), BTreeMap::from([("unknown_tool", 1)]));
    assert_eq!(seen.in_flight(), 0);
    assert_eq!(seen.lifetime().total(), 9);
}

#[tokio::test]
async fn lists_are_counted_apart_and_descriptions_not_at_all() {
    let metrics = Metrics::new();
    let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new().tool(Probe::new().tool("works")));
    stack.list_tools().await;
    stack.describe().await;
    let seen = metrics.snapshot();
    assert_eq!((seen.lists.lifetime.of(Outcome::Completed), seen.lists.lifetime.total()), (1, 1));
    assert!(seen.tools.is_empty());
}

#[tokio::test]
async fn names_that_a_model_makes_up_are_one_label() {
    let metrics = Metrics::new();
    let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new());
    for number in 0..1_000 {
        stack.call_tool(&format!("made_up_{number}"), json!({})).await;
    }
    let seen = metrics.snapshot();
    assert_eq!(seen.tools.keys().collect::<Vec<_>>(), [UNKNOWN_TOOL]);
    assert_eq!(seen.tools[UNKNOWN_TOOL].lifetime.total(), 1_000);
}

#[tokio::test]
async fn tools_without_a_place_of_their_own_are_one_label() {
    let metrics = Metrics::with_bounds(100, 2);
    let tools = (0..20).fold(Router::new(), |tools, number| tools.tool(Probe::new().tool(&format!("tool_{number}"))));
    let stack = ServiceBuilder::new().telemetry(&metrics).service(tools);
    for round in 0..3 {
        for number in 0..20 {
            stack.call_tool(&format!("tool_{number}"), json!({ "round": round })).await;
        }
    }
    let seen = metrics.snapshot();
    assert_eq!(seen.tools.keys().collect::<Vec<_>>(), [OTHER_TOOLS, "tool_0", "tool_1"]);
    assert_eq!((seen.tools["tool_0"].lifetime.total(), seen.tools[OTHER_TOOLS].lifetime.total()), (3, 54));
}

#[tokio::test(start_paused = true)]
async fn h08_a_call_takes_as_long_as_its_caller_waits_and_the_window_forgets_what_the_counts_remember() {
    let metrics = Metrics::with_bounds(2, 10);
    for seconds in [9_u64, 1, 3] {
        let wait = Duration::from_secs(seconds);
        let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new().tool(tool_fn("sleep", move || async move {
            tokio::time::sleep(wait).await;
            "slept"
        })));
        stack.call_tool("sleep", json!({})).await;
    }
    let seen = &metrics.snapshot().tools["sleep"];
    assert_eq!((seen.lifetime.total(), seen.window.total()), (3, 2));
    assert_eq!(seen.busy, Duration::from_secs(13));
    assert_eq!((seen.latency.min().unwrap(), seen.latency.max().unwrap()), (Duration::from_secs(1), Duration::from_secs(3)));
}

#[tokio::test]
async fn a_call_that_becomes_another_tool_s_is_counted_as_what_was_asked_for() {
    let metrics = Metrics::new();
    let stack = ServiceBuilder::new()
        .telemetry(&metrics)
        .layer(map_call("rename", |call| call.rename("new")))
        .service(Router::new().tool(Probe::new().tool("old")).tool(Probe::new().tool("new")));
    assert!(stack.call_tool("old", json!({})).await.is_completed());
    assert_eq!(metrics.snapshot().tools.keys().collect::<Vec<_>>(), ["old"]);
}

#[tokio::test]
async fn two_layers_of_one_stack_may_count_in_one_place_or_in_two() {
    let (one, two) = (Metrics::new(), Metrics::new());
    let stack = ServiceBuilder::new().telemetry(&one).telemetry(&two).service(Router::new().tool(Probe::new().tool("works")));
    for _ in 0..5 {
        stack.call_tool("works", json!({})).await;
    }
    for metrics in [&one, &two] {
        assert_eq!(metrics.snapshot().tools["works"].lifetime.of(Outcome::Completed), 5);
    }
    let stack = ServiceBuilder::new().telemetry(&one).telemetry(&one).service(Router::new().tool(Probe::new().tool("works")));
    stack.call_tool("works", json!({})).await;
    assert_eq!(one.snapshot().tools["works"].lifetime.total(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_many_threads_call_and_some_give_up() {
    const CALLS: u64 = 20_000;
    let metrics = Metrics::with_bounds(1_000, 10);
    let yields = tool_fn("yields", async || {
        tokio::task::yield_now().await;
        "done"
    });
    let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new().tool(yields).tool(sync_tool_fn("at_once", || "done")));
    let tasks: Vec<_> = (0..8_u64)
        .map(|task| {
            let stack = stack.clone();
            tokio::spawn(async move {
                for number in 0..CALLS / 8 {
                    let name = if number % 3 == 0 { "at_once" } else { "yields" };
                    let call = stack.clone().oneshot(ToolCall::new(name, json!({})));
                    if (number + task) % 5 == 0 {
                        let _ = call.now_or_never();
                    } else {
                        let _ = call.await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let seen = metrics.snapshot();
    assert_eq!((seen.lifetime().total(), seen.in_flight(), seen.window_calls()), (CALLS, 0, 1_000));
    assert!(seen.lifetime().cancelled() > 0 && seen.lifetime().of(Outcome::Completed) > seen.lifetime().cancelled());
}

#[test]
fn what_is_read_while_threads_come_and_go_is_never_more_than_there_was() {
    let metrics = Metrics::with_bounds(64, 4);
    let layer = TelemetryLayer::new().metrics(&metrics);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let layer = &layer;
            scope.spawn(move || {
                let stack = layer.layer(Router::new().tool(sync_tool_fn("at_once", || "done")));
                for _ in 0..200 {
                    assert!(stack.call_tool("at_once", json!({})).now_or_never().unwrap().is_completed());
                }
            });
            let seen = metrics.snapshot();
            assert!(seen.lifetime().total() <= 4_000 && seen.window_calls() <= 64);
        }
    });
    assert_eq!(metrics.snapshot().lifetime().total(), 4_000);
}

#[tokio::test]
async fn a_first_call_that_is_dropped_before_the_tools_are_known_is_counted_too() {
    let metrics = Metrics::new();
    let busy = tower::limit::ConcurrencyLimitLayer::new(1).layer(Router::new().tool(Probe::new().tool("works")));
    let mut holder = busy.clone();
    ServiceExt::<ToolCall>::ready(&mut holder).await.unwrap();
    let stack = TelemetryLayer::new().metrics(&metrics).layer(busy);
    assert!(Box::pin(stack.call_tool("works", json!({}))).as_mut().now_or_never().is_none());
    let seen = metrics.snapshot();
    assert_eq!((outcomes(&seen, UNKNOWN_TOOL), seen.in_flight()), (BTreeMap::from([("cancelled", 1)]), 0));
}
