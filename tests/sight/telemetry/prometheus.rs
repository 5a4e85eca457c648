use serde_json::json;
use toolstack::{Router, ServiceBuilderExt, StackExt, layer::telemetry::Metrics, testing::Probe};
use tower::ServiceBuilder;

#[tokio::test]
async fn the_text_has_each_metric_with_its_labels_and_cumulative_buckets() {
    let metrics = Metrics::new();
    let stack = ServiceBuilder::new().telemetry(&metrics).service(Router::new().tool(Probe::new().tool("works")));
    for name in ["works", "works", "none"] {
        stack.call_tool(name, json!({})).await;
    }
    stack.list_tools().await;

    let text = metrics.prometheus();
    for line in [
        "# TYPE toolstack_calls counter",
        "toolstack_calls_total{tool=\"works\",outcome=\"completed\"} 2",
        "toolstack_calls_total{tool=\"(unknown)\",outcome=\"unknown_tool\"} 1",
        "toolstack_calls_in_flight{tool=\"works\"} 0",
        "# UNIT toolstack_call_duration_seconds seconds",
        "toolstack_call_duration_seconds_count{tool=\"works\"} 2",
        "toolstack_call_duration_seconds_bucket{le=\"0.01\",tool=\"works\"} 2",
        "toolstack_call_duration_seconds_bucket{le=\"300.0\",tool=\"works\"} 2",
        "toolstack_call_duration_seconds_bucket{le=\"+Inf\",tool=\"works\"} 2",
        "toolstack_lists_total{outcome=\"completed\"} 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|there| there == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("none"), "what a model makes up is no label");
}
