//! Where the layer stands, reason by reason: what works, what breaks once two are swapped, and that `lint` names it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt,
    describe::{Duty, Note},
    layer::{
        Policy, PolicyLayer, Site, Step, TimeoutLayer, VisibilityLayer, calls, map_call,
        permission::{Approval, ApprovalRequest, Effect, PermissionLayer, Rules},
    },
    operation::View,
    stack::ToolStack,
    testing::Probe,
};
use tower::{ServiceBuilder, limit::ConcurrencyLimitLayer, retry::RetryLayer};

use super::{kind, rules, text};

async fn broken(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

/// A layer that asks about everything, and counts; the person takes an hour.
fn asking() -> (PermissionLayer, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let layer = PermissionLayer::new(Rules::empty(), Effect::Ask).ask_within(Duration::from_secs(9000)).ask(move |_: ApprovalRequest| {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(Approval::once())
        }
    });
    (layer, asked)
}

fn tools() -> Router {
    Router::new().tool(Probe::new().tool("t"))
}

#[tokio::test]
async fn permission_stands_inside_what_changes_the_call() {
    let etc = || {
        PermissionLayer::new(
            rules(&json!([{ "id": "etc", "effect": "deny", "arguments": [{ "path": "/path", "prefix": "/etc" }] }])),
            Effect::Allow,
        )
    };
    let rewrite = || map_call("rewrite", |call| call.arguments = json!({ "path": "/etc/passwd" }).into());
    let right = ServiceBuilder::new().layer(rewrite()).layer(etc()).service(tools());
    let response = right.call_tool("t", json!({ "path": "/srv/a" })).await;
    assert_eq!(text(&response), "Execution of 't' is denied: by the rule `etc`.");
    assert!(broken(&right).await.is_empty());
    // Swapped, it is the permit that does not hold, and calls that are fine fail as well.
    let swapped = ServiceBuilder::new().layer(etc()).layer(rewrite()).service(tools());
    let response = swapped.call_tool("t", json!({ "path": "/srv/a" })).await;
    assert_eq!((kind(&response), response.refusal().unwrap().by()), (Some(RefusalKind::Denied), "router"));
    assert_eq!(broken(&swapped).await, ["rewrite-after-decision"]);
}

#[tokio::test(start_paused = true)]
async fn permission_stands_outside_the_timeout() {
    let timeout = || TimeoutLayer::new(Duration::from_secs(30));
    let right = ServiceBuilder::new().layer(asking().0).layer(timeout()).service(tools());
    assert!(right.call_tool("t", json!({})).await.is_completed());
    assert!(broken(&right).await.is_empty());
    let swapped = ServiceBuilder::new().layer(timeout()).layer(asking().0).service(tools());
    assert_eq!(kind(&swapped.call_tool("t", json!({})).await), Some(RefusalKind::Timeout));
    assert_eq!(broken(&swapped).await, ["wait-on-the-clock"]);
}

#[tokio::test(start_paused = true)]
async fn j01_permission_stands_outside_limits_and_what_repeats() {
    let right = ServiceBuilder::new().layer(asking().0).layer(ConcurrencyLimitLayer::new(1)).service(tools());
    assert!(broken(&right).await.is_empty());
    let swapped = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).layer(asking().0).service(tools());
    assert_eq!(broken(&swapped).await, ["wait-within-limit"]);

    #[derive(Clone)]
    struct Twice(bool);
    impl<Req: Clone, Res, E> tower::retry::Policy<Req, Res, E> for Twice {
        type Future = std::future::Ready<()>;
        fn retry(&mut self, _: &mut Req, _: &mut Result<Res, E>) -> Option<Self::Future> {
            std::mem::take(&mut self.0).then(|| std::future::ready(()))
        }
        fn clone_request(&mut self, request: &Req) -> Option<Req> {
            Some(request.clone())
        }
    }
    let retry = || calls(RetryLayer::new(Twice(true)));
    let (layer, asked) = asking();
    let right = ServiceBuilder::new().layer(layer).layer(retry()).service(tools());
    assert!(right.call_tool("t", json!({})).await.is_completed());
    assert_eq!((asked.load(Ordering::SeqCst), broken(&right).await), (1, vec![]));
    let (layer, asked) = asking();
    let swapped = ServiceBuilder::new().layer(retry()).layer(layer).service(tools());
    assert!(swapped.call_tool("t", json!({})).await.is_completed());
    assert_eq!((asked.load(Ordering::SeqCst), broken(&swapped).await), (2, vec!["wait-repeated"]));
}

#[tokio::test]
async fn permission_stands_inside_visibility() {
    let deny = || PermissionLayer::new(Rules::empty(), Effect::Deny);
    let hide = || VisibilityLayer::new(|_, _| false);
    let right = ServiceBuilder::new().layer(hide()).layer(deny()).service(tools());
    assert_eq!(text(&right.call_tool("t", json!({})).await), "Unknown tool: t");
    assert!(broken(&right).await.is_empty());
    let swapped = ServiceBuilder::new().layer(deny()).layer(hide()).service(tools());
    assert_eq!(kind(&swapped.call_tool("t", json!({})).await), Some(RefusalKind::Denied));
    assert_eq!(broken(&swapped).await, ["decision-before-visibility"]);
}

/// Refuses calls without a path.
struct Validate;

impl Policy for Validate {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("validate").duty(Duty::Validates))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(call) if !call.arguments.object().is_ok_and(|object| object.contains_key("path")) => {
                Step::refuse(Refusal::new(RefusalKind::InvalidArguments, "no path").with_by("validate"))
            }
            _ => Step::Pass,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c09_nobody_is_asked_about_a_call_that_cannot_run() {
    let (layer, asked) = asking();
    let right = ServiceBuilder::new().layer(PolicyLayer::new(Validate)).layer(layer).service(tools());
    assert_eq!(kind(&right.call_tool("t", json!({})).await), Some(RefusalKind::InvalidArguments));
    assert_eq!((asked.load(Ordering::SeqCst), broken(&right).await), (0, vec![]));
    let (layer, asked) = asking();
    let swapped = ServiceBuilder::new().layer(layer).layer(PolicyLayer::new(Validate)).service(tools());
    assert_eq!(kind(&swapped.call_tool("t", json!({})).await), Some(RefusalKind::InvalidArguments));
    assert_eq!((asked.load(Ordering::SeqCst), broken(&swapped).await), (1, vec!["ask-before-validation"]));
}

#[tokio::test]
async fn b12_an_approver_that_is_never_asked_and_a_question_for_nobody_are_named() {
    let allow_all = || PermissionLayer::new(Rules::empty(), Effect::Allow);
    let ask = || PermissionLayer::new(Rules::empty(), Effect::Ask).ask(async |_: ApprovalRequest| Ok(Approval::deny()));
    let shadowed = ServiceBuilder::new().layer(allow_all()).layer(ask()).service(tools());
    assert_eq!(broken(&shadowed).await, ["allow-all-outside-ask"]);
    // It is named, and does not happen: the inner layer asks all the same.
    assert_eq!(text(&shadowed.call_tool("t", json!({})).await), "User denied execution of 't'.");

    let unreachable = ServiceBuilder::new().layer(allow_all().ask(async |_: ApprovalRequest| Ok(Approval::once()))).service(tools());
    assert_eq!(broken(&unreachable).await, ["unreachable-approver"]);
    let nobody = ServiceBuilder::new().layer(PermissionLayer::new(Rules::empty(), Effect::Ask)).service(tools());
    assert_eq!(broken(&nobody).await, ["nobody-to-ask"]);
    assert!(broken(&ServiceBuilder::new().layer(ask()).service(tools())).await.is_empty());
    assert!(broken(&ServiceBuilder::new().layer(allow_all()).service(tools())).await.is_empty());
}

#[tokio::test]
async fn the_layer_says_what_it_is_set_to() {
    let set = rules(&json!([{ "id": "s3cret-rule", "effect": "deny" }]));
    let stack = ServiceBuilder::new().layer(PermissionLayer::new(set, Effect::Ask).audit_only()).service(tools());
    let description = stack.describe().await;
    assert_eq!(description.layers()[0].to_string(), "permission (rules: 1, unmatched: ask, asks: nobody, mode: audit only)");
}
