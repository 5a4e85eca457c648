use opentelemetry::{Value, metrics::MeterProvider as _};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, HistogramDataPoint, MetricData},
};
use serde_json::json;
use toolstack::{
    Router, StackExt, ToolCall, ToolResponse,
    layer::{TelemetryLayer, telemetry::WireAttributes},
    testing::Probe,
};
use tower::ServiceBuilder;

/// The points of a histogram: its attributes and how many were recorded, sorted.
fn points(exporter: &InMemoryMetricExporter, name: &str) -> Vec<(Vec<(String, String)>, u64)> {
    let all = exporter.get_finished_metrics().unwrap();
    let metric = all.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics()).find(|metric| metric.name() == name);
    let Some(metric) = metric else { return Vec::new() };
    assert_eq!(metric.unit(), "s");
    let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else { panic!("{name} is no histogram of seconds") };
    let point = |point: &HistogramDataPoint<f64>| {
        let bounds: Vec<_> = point.bounds().collect();
        assert_eq!(bounds, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0]);
        let mut attributes: Vec<_> = point.attributes().map(|one| (one.key.to_string(), text(&one.value))).collect();
        attributes.sort();
        (attributes, point.count())
    };
    let mut points: Vec<_> = histogram.data_points().map(point).collect();
    points.sort();
    points
}

fn text(value: &Value) -> String {
    value.to_string()
}

fn attributes(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn durations_are_recorded_under_the_names_of_the_conventions() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    let layer = TelemetryLayer::new().without_spans().meter(&provider.meter("toolstack"));
    let tools = Router::new().tool(Probe::new().tool("works")).tool(Probe::answering(|_| ToolResponse::error("no")).tool("fails"));
    let stack = ServiceBuilder::new().layer(layer).service(tools);

    for name in ["works", "works", "fails", "made_up_1", "made_up_2"] {
        stack.call_tool(name, json!({})).await;
    }
    stack.list_tools().await;
    let mut wired = ToolCall::new("works", json!({}));
    wired.context.extensions_mut().insert(WireAttributes::new("tools/call"));
    stack.run_call(wired).await;
    provider.force_flush().unwrap();

    let operation = ("gen_ai.operation.name", "execute_tool");
    assert_eq!(
        points(&exporter, "gen_ai.execute_tool.duration"),
        [
            (attributes(&[("error.type", "tool_error"), operation, ("gen_ai.tool.name", "fails")]), 1),
            (attributes(&[("error.type", "unknown_tool"), operation, ("gen_ai.tool.name", "(unknown)")]), 2),
            (attributes(&[operation, ("gen_ai.tool.name", "works")]), 3),
        ]
    );
    assert_eq!(
        points(&exporter, "mcp.server.operation.duration"),
        [(attributes(&[operation, ("gen_ai.tool.name", "works"), ("mcp.method.name", "tools/call")]), 1)]
    );
}
