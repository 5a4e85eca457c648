//! What finds out who asks stands outside whatever goes by it.

use serde_json::json;
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall,
    layer::{
        AuthenticateLayer, VisibilityLayer, gate, map_call,
        permission::{Effect, PermissionLayer, Rules},
    },
    stack::ToolStack,
    testing::Probe,
};
use tower::ServiceBuilder;

use super::{token, tokens};

async fn rules(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

fn call() -> ToolCall {
    ToolCall::new("probe", json!({})).with_context(token("ada-t0ken").context)
}

#[tokio::test]
async fn j01_who_asks_is_found_out_outside_visibility() {
    let authenticate = || AuthenticateLayer::new().bearer(tokens());
    let visible = || VisibilityLayer::new(|_, context| context.principal().subject == "ada");
    let router = || Router::new().tool(Probe::new().tool("probe"));

    let right = ServiceBuilder::new().layer(authenticate()).layer(visible()).service(router());
    assert!(right.run_call(call()).await.is_completed());
    assert!(rules(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(visible()).layer(authenticate()).service(router());
    assert_eq!(wrong.run_call(call()).await.refusal().unwrap().kind(), RefusalKind::UnknownTool);
    assert_eq!(rules(&wrong).await, ["caller-before-identity"]);
}

#[tokio::test]
async fn j01_who_asks_is_found_out_outside_permission() {
    let authenticate = || AuthenticateLayer::new().bearer(tokens());
    let rules_for_ada = || Rules::from_json(r#"{"rules":[{"id":"ada","effect":"allow","principal":{"subjects":["ada"]}}]}"#).unwrap();
    let permission = || PermissionLayer::new(rules_for_ada(), Effect::Deny);
    let router = || Router::new().tool(Probe::new().tool("probe"));

    let right = ServiceBuilder::new().layer(authenticate()).layer(permission()).service(router());
    assert!(right.run_call(call()).await.is_completed());
    assert!(rules(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(permission()).layer(authenticate()).service(router());
    assert_eq!(wrong.run_call(call()).await.refusal().unwrap().kind(), RefusalKind::Denied);
    assert_eq!(rules(&wrong).await, ["caller-before-identity"]);
}

#[tokio::test]
async fn what_goes_by_nobody_may_stand_on_either_side() {
    let authenticate = || AuthenticateLayer::new().bearer(tokens());
    let router = || Router::new().tool(Probe::new().tool("probe"));
    let outside = ServiceBuilder::new().layer(gate("open", |_| Ok(()))).layer(authenticate()).service(router());
    assert!(rules(&outside).await.is_empty());
    let inside = ServiceBuilder::new().layer(authenticate()).layer(map_call("rewrite", |_| {})).service(router());
    assert!(rules(&inside).await.is_empty());
}
