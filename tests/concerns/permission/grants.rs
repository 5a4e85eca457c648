use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall,
    layer::permission::{Approval, ApprovalRequest, ArgumentRule, DecidedBy, Effect, PermissionHandle, PermissionLayer, Rules, Scope},
    model::{Arguments, Context, Principal},
    store::{Grant, GrantScope, GrantStore, MemoryGrants, Owner, ToolIdentity},
    testing::Probe,
};
use tower::{BoxError, Layer, ServiceBuilder};

use super::{by, guarded, kind, rules, text};

const HOUR: Duration = Duration::from_secs(3600);

/// A layer that asks about everything, answers all with this, and counts how often it asked.
fn counted(approval: Approval) -> (PermissionLayer, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let layer = PermissionLayer::new(Rules::empty(), Effect::Ask).ask(move |_: ApprovalRequest| {
        count.fetch_add(1, Ordering::SeqCst);
        let approval = approval.clone();
        async move { Ok(approval) }
    });
    (layer, asked)
}

fn call(arguments: &str) -> ToolCall {
    ToolCall::new("t", Arguments::from_text(arguments))
}

#[tokio::test]
async fn c05_an_answer_for_the_same_call_is_for_the_same_arguments_and_none_are_not_any() {
    let (layer, asked) = counted(Approval::allow_for(Scope::Call, HOUR));
    let stack = guarded(layer, &Probe::new(), &["t", "u"]);
    for (call, asks) in [
        (call("{}"), 1),
        (call(" { } "), 1),
        (call(r#"{"a":1}"#), 2),
        (call(r#"{ "a": 1 }"#), 2),
        (call(r#"{"a":1.0}"#), 3),
        (call("{}").with_id("reused"), 3),
        (ToolCall::new("u", json!({})), 4),
        (by("ada", call("{}")), 5),
        (by("ada", call("{}")), 5),
    ] {
        assert!(stack.run_call(call).await.is_completed());
        assert_eq!(asked.load(Ordering::SeqCst), asks);
    }
}

#[tokio::test]
async fn c05_an_answer_for_a_tool_is_for_one_principal_and_one_definition_from_one_source() {
    let (layer, asked) = counted(Approval::allow_for(Scope::Tool, HOUR));
    let router = Router::new().tool(Probe::new().tool("t")).tool(Probe::new().tool("other.t"));
    let tools = router.handle();
    let stack = layer.layer(router);
    let mut asks = 0;
    let mut expect = async |call: ToolCall, new: bool| {
        asks += usize::from(new);
        assert!(stack.run_call(call).await.is_completed());
        assert_eq!(asked.load(Ordering::SeqCst), asks);
    };
    let from = |issuer: &str| {
        let mut principal = Principal::new("ada");
        principal.issuer = Some(issuer.to_owned());
        call("{}").with_context(Context::new().with_principal(principal))
    };
    expect(by("ada", call("{}")), true).await;
    expect(by("ada", call(r#"{"a":1}"#)), false).await;
    expect(by("eve", call("{}")), true).await;
    expect(from("elsewhere"), true).await;
    expect(call("{}"), true).await;
    expect(call("{}").with_context(Context::new().with_session("s")), true).await;
    expect(by("ada", ToolCall::new("other.t", json!({}))), true).await;
    // The same definition registered anew is the same tool; another definition, or another source, is not.
    tools.replace(Probe::new().tool("t")).unwrap();
    expect(by("ada", call("{}")), false).await;
    tools.replace(Probe::new().tool("t").describe("Does something else.")).unwrap();
    expect(by("ada", call("{}")), true).await;
    tools.replace(Probe::new().tool("t").source(toolstack::tool::Source::foreign("evil"))).unwrap();
    expect(by("ada", call("{}")), true).await;
}

#[tokio::test]
async fn an_answer_for_a_pattern_covers_what_surely_fits_it() {
    let scope = Scope::Arguments(vec![ArgumentRule::within("/path", "/srv").unwrap()]);
    let (layer, asked) = counted(Approval::allow_for(scope, HOUR));
    let stack = guarded(layer, &Probe::new(), &["t"]);
    for (arguments, asks) in [
        (r#"{"path":"/srv/a"}"#, 1),
        (r#"{"path":"/srv/b"}"#, 1),
        (r#"{"path":"/srv/../etc"}"#, 2),
        (r#"{"path":["/srv/a"]}"#, 3),
        ("{}", 4),
        ("[]", 5),
        (r#"{"path":"/srv/c"}"#, 5),
    ] {
        stack.run_call(call(arguments)).await;
        assert_eq!(asked.load(Ordering::SeqCst), asks, "{arguments}");
    }
    let empty = GrantScope::Arguments(Vec::new());
    assert!(!empty.covers(&Arguments::empty()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_with_its_time_and_can_be_revoked_before() {
    let (layer, asked) = counted(Approval::allow_for(Scope::Tool, HOUR).because("for now"));
    let handle = layer.handle();
    let stack = guarded(layer, &Probe::new(), &["t"]);
    stack.run_call(by("ada", call("{}"))).await;
    tokio::time::advance(HOUR - Duration::from_secs(5)).await;
    stack.run_call(by("ada", call("{}"))).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(handle.list_grants(None).await.unwrap().is_empty());
    stack.run_call(by("ada", call("{}"))).await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    let owner = Owner::of(&Context::new().with_principal(Principal::new("ada")));
    let grants = handle.list_grants(Some(&owner)).await.unwrap();
    assert_eq!((grants.len(), grants[0].reason.as_deref(), grants[0].tool.name.as_str()), (1, Some("for now"), "t"));
    assert!(handle.list_grants(Some(&Owner::of(&Context::new()))).await.unwrap().is_empty());
    let json = serde_json::to_string(&grants[0]).unwrap();
    assert_eq!(serde_json::from_str::<Grant>(&json).unwrap(), grants[0]);
    assert!(handle.revoke(&grants[0].id).await.unwrap() && !handle.revoke(&grants[0].id).await.unwrap());
    stack.run_call(by("ada", call("{}"))).await;
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_remembered_no_is_a_no_and_beats_a_remembered_yes() {
    let (layer, asked) = counted(Approval::deny_for(Scope::Call, HOUR).because("no"));
    let handle = layer.handle();
    let probe = Probe::new();
    let stack = guarded(layer, &probe, &["t"]);
    for _ in 0..2 {
        assert_eq!(text(&stack.run_call(call("{}")).await), "User denied execution of 't'. Reason: no");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let mut yes = handle.list_grants(None).await.unwrap().remove(0);
    (yes.effect, yes.scope, yes.id) = (toolstack::store::GrantEffect::Allow, GrantScope::Tool, "yes".to_owned());
    handle.grants().add(yes).await.unwrap();
    assert_eq!(kind(&stack.run_call(call("{}")).await), Some(RefusalKind::Denied));
    assert!(stack.run_call(call(r#"{"a":1}"#)).await.is_completed());
}

#[tokio::test]
async fn what_a_rule_denies_is_denied_whatever_is_remembered_and_what_has_to_be_asked_is() {
    let (layer, asked) = counted(Approval::allow_for(Scope::Tool, HOUR));
    let handle = layer.handle();
    let stack = guarded(layer, &Probe::new(), &["t"]);
    stack.run_call(call("{}")).await;
    handle.set_rules(rules(&json!([{ "id": "d", "effect": "deny", "arguments": [{ "path": "/a", "equals": 1, "missing": "differs" }] }])));
    assert_eq!(kind(&stack.run_call(call(r#"{"a":1}"#)).await), Some(RefusalKind::Denied));
    assert!(stack.run_call(call("{}")).await.is_completed());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    handle.set_rules(rules(&json!([{ "id": "k", "effect": "ask", "remember": false }, { "id": "l", "effect": "ask" }])));
    for _ in 0..2 {
        assert!(stack.run_call(call("{}")).await.is_completed());
    }
    assert_eq!((asked.load(Ordering::SeqCst), handle.list_grants(None).await.unwrap().len()), (3, 1));
}

/// A store that is down.
struct Down;

impl GrantStore for Down {
    fn add(&self, _: Grant) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Err("s3cret host is down".into()) })
    }
    fn find<'a>(&'a self, _: &'a Owner, _: &'a ToolIdentity) -> BoxFuture<'a, Result<Vec<Grant>, BoxError>> {
        Box::pin(async { Err("s3cret host is down".into()) })
    }
    fn list<'a>(&'a self, _: Option<&'a Owner>) -> BoxFuture<'a, Result<Vec<Grant>, BoxError>> {
        Box::pin(async { Err("s3cret host is down".into()) })
    }
    fn revoke<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool, BoxError>> {
        Box::pin(async { Err("s3cret host is down".into()) })
    }
}

#[tokio::test]
async fn a_store_that_is_down_closes_and_nobody_is_said_to_have_said_no() {
    let (layer, asked) = counted(Approval::once());
    let probe = Probe::new();
    let response = guarded(layer.grants(Down), &probe, &["t"]).run_call(call("{}")).await;
    assert_eq!(kind(&response), Some(RefusalKind::Internal));
    assert!(!text(&response).contains("s3cret") && !text(&response).contains("User"));
    assert_eq!((asked.load(Ordering::SeqCst), probe.runs()), (0, 0));
}

#[tokio::test]
async fn a_store_is_bounded_and_what_it_does_not_take_is_asked_again() {
    let (layer, asked) = counted(Approval::allow_for(Scope::Call, HOUR));
    let layer = layer.grants(MemoryGrants::with_max(2));
    let handle: PermissionHandle = layer.handle();
    let stack = guarded(layer, &Probe::new(), &["t"]);
    for n in 0..5 {
        assert!(stack.run_call(call(&format!(r#"{{"n":{n}}}"#))).await.is_completed());
    }
    assert_eq!(handle.list_grants(None).await.unwrap().len(), 2);
    stack.run_call(call(r#"{"n":0}"#)).await;
    stack.run_call(call(r#"{"n":4}"#)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn an_observer_hears_who_decided() {
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = Arc::clone(&heard);
    let (layer, _) = counted(Approval::allow_for(Scope::Tool, HOUR));
    let layer = layer.observe(move |decided| {
        record.lock().unwrap().push(match decided.by {
            DecidedBy::Person => "person",
            DecidedBy::Grant(_) => "grant",
            _ => "other",
        });
    });
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(Probe::new().tool("t")));
    stack.run_call(call("{}")).await;
    stack.run_call(call("{}")).await;
    assert_eq!(*heard.lock().unwrap(), ["person", "grant"]);
}
