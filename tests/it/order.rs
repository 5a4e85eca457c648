//! The recommended order: for each place that matters, what breaks when a layer is moved.

use serde_json::json;
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall,
    layer::{PinLayer, SessionLayer, VisibilityLayer},
    model::Context,
    stack::ToolStack,
    store::{MemorySessions, Owner, SessionLimits},
    testing::Probe,
};
use tower::ServiceBuilder;

async fn rules(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

#[tokio::test]
async fn a_session_is_resolved_inside_what_sets_its_handle() {
    let store = MemorySessions::new(SessionLimits::new(4));
    store.open_as("mine", Owner::Anyone, ()).unwrap();
    let sessions = SessionLayer::new(store).required("session_id");
    let pin = PinLayer::session("session_id");
    let probe = Probe::new();
    let tool = || probe.tool("probe").input_schema(&json!({ "type": "object", "properties": { "session_id": {} } }));
    let call = || ToolCall::new("probe", json!({})).with_context(Context::new().with_session("mine"));

    let right = ServiceBuilder::new().layer(pin.clone()).layer(sessions.clone()).service(Router::new().tool(tool()));
    assert!(right.run_call(call()).await.is_completed());
    assert!(rules(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(sessions).layer(pin).service(Router::new().tool(tool()));
    assert_eq!(wrong.run_call(call()).await.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
    assert_eq!(rules(&wrong).await, ["rewrite-after-decision"]);
}

#[tokio::test]
async fn a_session_is_resolved_inside_visibility() {
    let sessions = SessionLayer::new(MemorySessions::new(SessionLimits::new(4))).required("session_id");
    let hidden = VisibilityLayer::new(|_, _| false);
    let router = || Router::new().tool(Probe::new().tool("probe"));

    let right = ServiceBuilder::new().layer(hidden.clone()).layer(sessions.clone()).service(router());
    assert_eq!(right.call_tool("probe", json!({})).await.refusal().unwrap().kind(), RefusalKind::UnknownTool);
    assert!(rules(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(sessions).layer(hidden).service(router());
    assert_eq!(wrong.call_tool("probe", json!({})).await.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
    assert_eq!(rules(&wrong).await, ["decision-before-visibility"]);
}
