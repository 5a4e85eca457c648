use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt,
    layer::{VisibilityLayer, gate, telemetry::Metrics},
    model::Outcome,
    testing::Probe,
};
use tower::ServiceBuilder;

#[tokio::test]
async fn a02_what_is_refused_is_seen_from_outside_and_not_from_within() {
    let refuse = || gate("refuse", |_| Err(Refusal::new(RefusalKind::Denied, "no").with_by("refuse")));
    let (outside, within) = (Metrics::new(), Metrics::new());
    let router = || Router::new().tool(Probe::new().tool("works"));

    let right = ServiceBuilder::new().telemetry(&outside).layer(refuse()).service(router());
    right.call_tool("works", json!({})).await;
    assert_eq!(outside.snapshot().tools["works"].lifetime.of(Outcome::Refused(RefusalKind::Denied)), 1);
    assert_eq!(right.lint().await, []);

    let wrong = ServiceBuilder::new().layer(refuse()).telemetry(&within).service(router());
    wrong.call_tool("works", json!({})).await;
    assert_eq!(within.snapshot().lifetime().total(), 0);
    assert_eq!(wrong.lint().await.iter().map(|fault| fault.rule).collect::<Vec<_>>(), ["refused-unseen"]);
}

#[tokio::test]
async fn what_visibility_hides_is_counted_outside_it() {
    let metrics = Metrics::new();
    let stack = ServiceBuilder::new()
        .telemetry(&metrics)
        .layer(VisibilityLayer::new(|_, _| false))
        .service(Router::new().tool(Probe::new().tool("hidden")));
    stack.call_tool("hidden", json!({})).await;
    assert_eq!(metrics.snapshot().tools["hidden"].lifetime.of(Outcome::Refused(RefusalKind::UnknownTool)), 1);
    assert_eq!(stack.lint().await, []);

    let both = Metrics::new();
    let inner = ServiceBuilder::new().telemetry(&metrics).layer(VisibilityLayer::new(|_, _| true)).telemetry(&both).service(Router::new());
    assert_eq!(inner.lint().await, [], "where one stands outside, another may look at what runs");
}
