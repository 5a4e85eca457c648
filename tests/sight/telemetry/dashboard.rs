use std::time::Duration;

use serde_json::{Value, json};
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt,
    layer::{gate, telemetry::Metrics},
    testing::{Controlled, Probe},
    tool::tool_fn,
};
use tower::ServiceBuilder;

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn the_dashboard_has_the_keys_of_adr_003() {
    let metrics = Metrics::new();
    let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new().tool(Probe::new().tool("works")));
    stack.call_tool("works", json!({})).await;
    stack.call_tool("none", json!({})).await;

    let dashboard = serde_json::to_value(metrics.dashboard()).unwrap();
    assert_eq!(keys(&dashboard), ["timestamp", "tools", "total_calls"]);
    assert_eq!(
        keys(&dashboard["tools"]["works"]),
        [
            "calls",
            "error_count",
            "latency_avg_ms",
            "latency_max_ms",
            "latency_min_ms",
            "latency_p50_ms",
            "latency_p95_ms",
            "latency_p99_ms",
            "success_rate",
            "top_errors",
        ]
    );
    assert_eq!(dashboard["total_calls"], 2);
    assert_eq!(dashboard["tools"]["works"]["top_errors"], json!([]));
    assert_eq!(dashboard["tools"]["(unknown)"]["top_errors"], json!([{ "type": "unknown_tool", "count": 1 }]));
    humantime::parse_rfc3339(dashboard["timestamp"].as_str().unwrap()).unwrap();
}

#[tokio::test]
async fn the_five_most_frequent_errors_are_named_and_shares_have_four_decimals() {
    let metrics = Metrics::new();
    let kinds = RefusalKind::ALL.into_iter().filter(|kind| !matches!(kind, RefusalKind::Cancelled | RefusalKind::ToolError));
    let kinds: Vec<_> = kinds.take(7).collect();
    let refuse = {
        let kinds = kinds.clone();
        gate("refuse", move |call| match call.arguments.value().ok().and_then(|all| all["kind"].as_u64()) {
            Some(kind) => Err(Refusal::new(kinds[usize::try_from(kind).unwrap()], "no").with_by("refuse")),
            None => Ok(()),
        })
    };
    let stack = ServiceBuilder::new().telemetry(&metrics).layer(refuse).service(Router::new().tool(Probe::new().tool("works")));
    for (kind, _) in kinds.iter().enumerate() {
        for _ in 0..=kind {
            stack.call_tool("works", json!({ "kind": kind })).await;
        }
    }
    stack.call_tool("works", json!({})).await;
    stack.call_tool("works", json!({})).await;

    let seen = metrics.dashboard();
    let tool = &seen.tools["works"];
    let top: Vec<_> = tool.top_errors.iter().map(|error| (error.kind.as_str(), error.count)).collect();
    let expected: Vec<_> = (2..7).rev().map(|kind| (kinds[kind].as_str(), kind as u64 + 1)).collect();
    assert_eq!(top, expected);
    assert_eq!((tool.calls, tool.error_count), (30, 28));
    assert!((tool.success_rate - 0.0667).abs() < f64::EPSILON, "{}", tool.success_rate);
}

#[tokio::test]
async fn a_call_that_was_dropped_is_neither_an_error_nor_a_success() {
    let metrics = Metrics::new();
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new().tool(controlled.tool("held")));
    drop(futures_util::FutureExt::now_or_never(Box::pin(stack.call_tool("held", json!({})))));
    let seen = metrics.dashboard();
    let tool = &seen.tools["held"];
    assert_eq!((tool.calls, tool.error_count, tool.top_errors.len()), (1, 0, 0));
    assert!((tool.success_rate - 1.0).abs() < f64::EPSILON);
}

#[tokio::test(start_paused = true)]
async fn milliseconds_have_two_decimals_and_the_window_is_ten_thousand_calls_of_all_tools_together() {
    let metrics = Metrics::new();
    let waits = |name: &str, micros| {
        tool_fn(name, move || async move {
            tokio::time::sleep(Duration::from_micros(micros)).await;
            "done"
        })
    };
    let tools = Router::new().tool(waits("rare", 7_000)).tool(waits("often", 1_000));
    let stack = ServiceBuilder::new().telemetry(&metrics).service(tools);
    stack.call_tool("rare", json!({})).await;
    let dashboard = metrics.dashboard();
    assert!((dashboard.tools["rare"].latency_avg_ms - 7.0).abs() < 0.011);

    for _ in 0..10_000 {
        stack.call_tool("often", json!({})).await;
    }
    let dashboard = metrics.dashboard();
    assert_eq!((dashboard.total_calls, dashboard.tools.keys().map(String::as_str).collect::<Vec<_>>()), (10_000, vec!["often"]));
    assert_eq!(metrics.snapshot().tools["rare"].lifetime.total(), 1, "the counts remember what the window forgot");
}

#[tokio::test]
async fn get_metrics_answers_the_shape_of_adr_003_and_counts_itself() {
    let metrics = Metrics::new();
    let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new().tool(Probe::new().tool("works")).tool(metrics.tool()));
    stack.call_tool("works", json!({})).await;
    let answer = stack.call_tool("get_metrics", json!({})).await;
    let answer: Value = serde_json::from_str(&answer.as_text().unwrap()).unwrap();
    assert_eq!(keys(&answer), ["runtime_metrics", "tool_telemetry"]);
    assert_eq!(answer["tool_telemetry"]["tools"]["works"]["calls"], 1);
    assert_eq!(answer["runtime_metrics"]["in_flight"], 1, "the call that asks runs");
    assert_eq!(answer["runtime_metrics"]["outcomes"]["completed"], 1);

    let again = stack.call_tool("get_metrics", json!({})).await;
    let again: Value = serde_json::from_str(&again.as_text().unwrap()).unwrap();
    assert_eq!(again["runtime_metrics"]["tools"]["get_metrics"]["calls"], 1);
    assert!(stack.list_tools().await.get("get_metrics").unwrap().annotations.is_read_only());
}
