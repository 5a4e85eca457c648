//! Where the layer stands: what breaks when it is moved.

use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt,
    layer::{
        AuthenticateLayer, CatchPanicLayer, RedactLayer, VisibilityLayer,
        audit::{ArgumentsDigest, AuditEnding, TracingSink},
        gate, map_call,
        redact::Redactor,
    },
    stack::ToolStack,
    testing::{Behaviour, Probe, Strict},
};
use tower::{Layer, ServiceBuilder};

use super::{audit, one, records};

async fn rules(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

fn router() -> Router {
    Router::new().tool(Probe::new().tool("probe"))
}

#[tokio::test]
async fn j01_audit_stands_outside_what_refuses() {
    let no = || gate("no", |_| Err(Refusal::new(RefusalKind::Denied, "No.")));
    let (layer, mut log) = audit();
    let right = ServiceBuilder::new().layer(layer).layer(no()).service(router());
    right.call_tool("probe", json!({})).await;
    assert_eq!(one(&mut log).ending, AuditEnding::Refused);
    assert!(rules(&right).await.is_empty());

    let (layer, mut log) = audit();
    let wrong = ServiceBuilder::new().layer(no()).layer(layer).service(router());
    wrong.call_tool("probe", json!({})).await;
    assert_eq!(records(&mut log), []);
    assert_eq!(rules(&wrong).await, ["refused-unseen"]);
}

#[tokio::test]
async fn j01_audit_stands_outside_what_finds_out_who_asks() {
    let (layer, mut log) = audit();
    let right = ServiceBuilder::new().layer(layer).layer(AuthenticateLayer::new()).service(router());
    right.call_tool("probe", json!({})).await;
    assert_eq!(one(&mut log).refusal, Some(RefusalKind::Unauthenticated));
    assert!(rules(&right).await.is_empty());

    let (layer, mut log) = audit();
    let wrong = ServiceBuilder::new().layer(AuthenticateLayer::new()).layer(layer).service(router());
    wrong.call_tool("probe", json!({})).await;
    assert_eq!(records(&mut log), []);
    assert_eq!(rules(&wrong).await, ["refused-unseen"]);
}

#[tokio::test]
async fn j01_audit_stands_outside_visibility_and_no_tool_is_hidden_from_it() {
    let hidden = || VisibilityLayer::new(|_, _| false);
    let (layer, mut log) = audit();
    let right = ServiceBuilder::new().layer(layer).layer(hidden()).service(router());
    right.call_tool("probe", json!({})).await;
    let record = one(&mut log);
    assert_eq!((record.refusal, record.fingerprint.is_some()), (Some(RefusalKind::UnknownTool), true));
    assert!(rules(&right).await.is_empty());

    let (layer, mut log) = audit();
    let wrong = ServiceBuilder::new().layer(hidden()).layer(layer).service(router());
    wrong.call_tool("probe", json!({})).await;
    assert_eq!(records(&mut log), []);
    assert_eq!(rules(&wrong).await, ["refused-unseen"]);
}

#[tokio::test]
async fn j01_audit_stands_outside_what_rewrites() {
    let rewrite = || map_call("rewrite", |call| call.arguments = json!({ "n": 2 }).into());
    let asked = Some(ArgumentsDigest::of(&json!({ "n": 1 }).into(), None));
    let (layer, mut log) = audit();
    let right = ServiceBuilder::new().layer(layer).layer(rewrite()).service(router());
    right.call_tool("probe", json!({ "n": 1 })).await;
    assert_eq!(one(&mut log).arguments_digest, asked);
    assert!(rules(&right).await.is_empty());

    let (layer, mut log) = audit();
    let wrong = ServiceBuilder::new().layer(rewrite()).layer(layer).service(router());
    wrong.call_tool("probe", json!({ "n": 1 })).await;
    assert_ne!(one(&mut log).arguments_digest, asked);
    assert_eq!(rules(&wrong).await, ["rewritten-unseen"]);
}

#[tokio::test]
async fn j01_audit_stands_inside_catch_panic_and_says_what_panicked() {
    let strict = Strict::new(router());
    strict.behave(Behaviour::PanicInFuture);
    let (layer, mut log) = audit();
    CatchPanicLayer::new().layer(layer.layer(strict.clone())).call_tool("probe", json!({})).await;
    assert_eq!(one(&mut log).ending, AuditEnding::Panicked);

    // Outside, a panic is a refusal like others.
    let (layer, mut log) = audit();
    layer.layer(CatchPanicLayer::new().layer(strict)).call_tool("probe", json!({})).await;
    assert_eq!(one(&mut log).ending, AuditEnding::Refused);
}

#[tokio::test]
async fn audit_stands_on_either_side_of_redaction_and_of_other_observers() {
    let stacks = || {
        let (layer, log) = audit();
        (layer.and(TracingSink::new()), RedactLayer::new(Redactor::new()), log)
    };
    let (layer, redact, _log) = stacks();
    assert!(rules(&ServiceBuilder::new().layer(layer).layer(redact).service(router())).await.is_empty());
    let (layer, redact, _log) = stacks();
    let (other, _other_log) = audit();
    assert!(rules(&ServiceBuilder::new().layer(redact).layer(layer).layer(other).service(router())).await.is_empty());
}

#[tokio::test]
async fn what_is_looked_at_for_the_record_alone_is_not_judged() {
    let (layer, mut log) = audit();
    let router = Router::new().tool(Probe::new().tool("old"));
    let handle = router.handle();
    let rename = map_call("rename", |call| call.rename("new"));
    let stack = ServiceBuilder::new().layer(layer).layer(rename).service(router);
    handle.insert(Probe::new().tool("new")).unwrap();
    assert!(stack.call_tool("old", json!({})).await.is_completed(), "a renamed call runs: nobody judged it by its old name");
    assert_eq!(one(&mut log).tool.as_deref(), Some("old"));
}
