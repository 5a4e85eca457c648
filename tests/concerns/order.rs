//! The recommended order: for each place that matters, what breaks when a layer is moved.

use serde_json::json;
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall,
    describe::{Duty, Note},
    layer::{
        PinLayer, Policy, PolicyLayer, RedactLayer, SessionLayer, Site, Step, ValidateLayer, VisibilityLayer, gate, map_call, map_result,
        redact::{Detector, Redactor},
        validate::Repair,
    },
    model::{Content, Context},
    operation::View,
    stack::ToolStack,
    store::{MemorySessions, SessionLimits, SessionOwner},
    testing::Probe,
};
use tower::ServiceBuilder;

async fn rules(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

#[tokio::test]
async fn j01_a_session_is_resolved_inside_what_sets_its_handle() {
    let store = MemorySessions::new(SessionLimits::new(4));
    store.open_as("mine", SessionOwner::Anyone, ()).unwrap();
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
async fn j01_a_session_is_resolved_inside_visibility() {
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

fn validated(probe: &Probe) -> toolstack::Tool<Probe> {
    probe.tool("probe").input_schema(&json!({ "type": "object", "properties": { "n": { "minimum": 0 } } }))
}

#[tokio::test]
async fn j01_arguments_are_checked_inside_what_changes_them() {
    let rewrite = || map_call("rewrite", |call| call.arguments = json!({ "n": -1 }).into());
    let probe = Probe::new();

    let right = ServiceBuilder::new().layer(rewrite()).layer(ValidateLayer::json_schema()).service(Router::new().tool(validated(&probe)));
    assert_eq!(right.call_tool("probe", json!({})).await.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
    assert!(rules(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(rewrite()).service(Router::new().tool(validated(&probe)));
    assert!(wrong.call_tool("probe", json!({})).await.is_completed());
    assert_eq!(rules(&wrong).await, ["rewrite-after-decision"]);
}

#[tokio::test]
async fn j01_arguments_are_checked_inside_visibility_and_put_right_outside_what_judges_them() {
    let hidden = VisibilityLayer::new(|_, _| false);
    let right = ServiceBuilder::new()
        .layer(hidden.clone())
        .layer(ValidateLayer::json_schema())
        .service(Router::new().tool(validated(&Probe::new())));
    assert_eq!(right.call_tool("probe", json!({ "n": -1 })).await.refusal().unwrap().kind(), RefusalKind::UnknownTool);
    assert!(rules(&right).await.is_empty());

    let wrong =
        ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(hidden).service(Router::new().tool(validated(&Probe::new())));
    assert_eq!(wrong.call_tool("probe", json!({ "n": -1 })).await.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
    assert_eq!(rules(&wrong).await, ["decision-before-visibility"]);

    let repair = ValidateLayer::json_schema().repair(Repair::new());
    let decide = || gate("decide", |_| Ok(()));
    let right = ServiceBuilder::new().layer(repair.clone()).layer(decide()).service(Router::new());
    assert!(rules(&right).await.is_empty());
    let wrong = ServiceBuilder::new().layer(decide()).layer(repair).service(Router::new());
    assert_eq!(rules(&wrong).await, ["rewrite-after-decision"]);
}

/// A layer that asks a person, as far as `lint` knows.
struct Asks;

impl Policy for Asks {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("asks").duty(Duty::Decides).duty(Duty::Asks))
    }

    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        Step::Pass
    }
}

#[tokio::test]
async fn j01_arguments_are_checked_outside_what_asks_a_person() {
    let right = ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(PolicyLayer::new(Asks)).service(Router::new());
    assert!(rules(&right).await.is_empty());
    let wrong = ServiceBuilder::new().layer(PolicyLayer::new(Asks)).layer(ValidateLayer::json_schema()).service(Router::new());
    assert_eq!(rules(&wrong).await, ["ask-before-validation"]);
}

#[tokio::test]
async fn j01_results_are_redacted_outside_whatever_adds_to_them() {
    let redactor = Redactor::new().detector(Detector::literal("vault", "hunter2"));
    let add = || map_result("sign", |result| result.push(Content::text("signed hunter2")));
    let router = || Router::new().tool(Probe::new().tool("probe"));
    let shows =
        async |stack: &dyn Fn() -> toolstack::Stack| stack().call_tool("probe", json!({})).await.as_text().unwrap().contains("hunter2");

    let right = ServiceBuilder::new().layer(RedactLayer::new(redactor.clone())).layer(add()).service(router());
    assert!(rules(&right).await.is_empty());
    assert!(!shows(&|| right.clone().into_stack()).await);

    let wrong = ServiceBuilder::new().layer(add()).layer(RedactLayer::new(redactor.clone())).service(router());
    assert_eq!(rules(&wrong).await, ["change-after-redaction"]);
    assert!(shows(&|| wrong.clone().into_stack()).await);

    let decide = || gate("decide", |_| Ok(()));
    let to_tool = RedactLayer::new(Redactor::new()).to_tool(redactor);
    let wrong = ServiceBuilder::new().layer(decide()).layer(to_tool).service(router());
    assert_eq!(rules(&wrong).await, ["rewrite-after-decision"]);
}
