//! What an approver may make of a call, and what was settled before it was asked.

use serde_json::json;
use toolstack::{
    RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    layer::{
        HooksLayer, PinLayer, SessionLayer, ValidateLayer,
        permission::{Approval, ApprovalRequest, Effect, PermissionLayer, Reentry, Rules},
    },
    model::{Arguments, Context, Outcome, RawObject, Resume},
    store::{MemorySessions, SessionLimits, SessionOwner},
    testing::Probe,
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

use super::{kind, text};

/// A layer whose approver gives these arguments.
fn editing(arguments: &str) -> PermissionLayer {
    let arguments = Arguments::from_text(arguments);
    PermissionLayer::new(Rules::empty(), Effect::Ask).ask(move |_: ApprovalRequest| {
        let arguments = arguments.clone();
        async { Ok(Approval::edited(arguments)) }
    })
}

fn call(arguments: &str) -> ToolCall {
    ToolCall::new("t", Arguments::from_text(arguments)).with_context(Context::new().with_session("s1"))
}

fn changes(response: &ToolResponse, argument: &str, what: &str) {
    let expected =
        format!("'t' was not run: the answer to the question of approval changes '{argument}', which was settled before it was asked.");
    assert_eq!((kind(response), text(response)), (Some(RefusalKind::Denied), expected), "{what}");
    assert_eq!(response.refusal().unwrap().by(), "permission");
}

#[tokio::test]
async fn d02_an_approver_s_edit_does_not_change_what_is_pinned() {
    for (edit, runs) in [
        (r#"{"session_id":"s1","text":"edited"}"#, true),
        (r#"{ "text": "edited", "session_id" : "\u0073\u0031" }"#, true),
        (r#"{"session_id":"s2","text":"edited"}"#, false),
        (r#"{"text":"edited"}"#, false),
        (r#"{"session_id":null}"#, false),
        (r#"{"session_id":"s1","session_id":"s2"}"#, false),
        (r#"["s1"]"#, false),
        ("{", false),
    ] {
        let probe = Probe::new();
        let stack =
            ServiceBuilder::new().layer(PinLayer::session("session_id")).layer(editing(edit)).service(Router::new().tool(probe.tool("t")));
        let response = stack.run_call(call(r#"{"session_id":"another","text":"x"}"#)).await;
        assert_eq!(probe.runs(), usize::from(runs), "{edit}");
        if runs {
            assert_eq!(probe.arguments(), [edit]);
        } else {
            changes(&response, "session_id", edit);
        }
    }
    // A pinned argument that the call and its tool do not have is not given to them by an edit either.
    let probe = Probe::new();
    let stack = ServiceBuilder::new()
        .layer(PinLayer::session("session_id"))
        .layer(editing(r#"{"session_id":"s2"}"#))
        .service(Router::new().tool(probe.tool("t")));
    changes(&stack.run_call(call("{}")).await, "session_id", "added");
    // Without a layer that owns it, an argument is an approver's to change.
    let stack = ServiceBuilder::new().layer(editing(r#"{"session_id":"s2"}"#)).service(Router::new().tool(probe.tool("t")));
    assert!(stack.run_call(call(r#"{"session_id":"s1"}"#)).await.is_completed());
    assert_eq!(probe.arguments(), [r#"{"session_id":"s2"}"#]);
}

#[tokio::test]
async fn d02_an_approver_s_edit_does_not_change_a_handle_that_was_resolved() {
    let sessions = MemorySessions::new(SessionLimits::new(10));
    for id in ["s1", "s2"] {
        sessions.open_as(id, SessionOwner::Anyone, ()).unwrap();
    }
    let by_name = || SessionLayer::new(sessions.clone()).argument("session_id");
    let by_closure = || {
        SessionLayer::new(sessions.clone())
            .extract("inner", |call| call.arguments.value().ok()?.pointer("/at/session")?.as_str().map(str::to_owned))
    };
    for (what, layer, before, after, changed) in [
        ("another", by_name(), r#"{"session_id":"s1"}"#, r#"{"session_id":"s2"}"#, Some("session_id")),
        ("one where there was none", by_name(), "{}", r#"{"session_id":"s2"}"#, Some("session_id")),
        ("none where there was one", by_name(), r#"{"session_id":"s1"}"#, "{}", Some("session_id")),
        ("something else", by_name(), r#"{"session_id":"s1","n":1}"#, r#"{"session_id":"s1","n":2}"#, None),
        ("another, deeper", by_closure(), r#"{"at":{"session":"s1"}}"#, r#"{"at":{"session":"s2"}}"#, Some("inner")),
        ("something else, deeper", by_closure(), r#"{"at":{"session":"s1"}}"#, r#"{"at":{"session":"s1","n":1}}"#, None),
    ] {
        let probe = Probe::new();
        let stack = ServiceBuilder::new().layer(layer).layer(editing(after)).service(Router::new().tool(probe.tool("t")));
        let response = stack.run_call(call(before)).await;
        assert_eq!(probe.runs(), usize::from(changed.is_none()), "{what}");
        if let Some(changed) = changed {
            changes(&response, changed, what);
        }
    }
}

#[tokio::test]
async fn d02_an_edit_that_comes_with_an_answer_given_apart_is_held_to_it_too() {
    let layer = PermissionLayer::new(Rules::empty(), Effect::Ask).ask_by_reentry(Reentry::new().answered_apart());
    let handle = layer.handle();
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(PinLayer::session("session_id")).layer(layer).service(Router::new().tool(probe.tool("t")));
    let asked = stack.run_call(call(r#"{"session_id":"s1"}"#)).await;
    let ToolResponse::InputRequired(asked) = asked else { panic!("{asked:?}") };
    let pending = handle.pending().unwrap().list().await.unwrap();
    handle.answer(&pending[0].id, Approval::edited(json!({ "session_id": "s2" }))).await.unwrap();
    let context = Context::new().with_session("s1").with_resume(Resume::new(asked.state, RawObject::new()));
    changes(&stack.run_call(call(r#"{"session_id":"s1"}"#).with_context(context)).await, "session_id", "apart");
    assert_eq!(probe.runs(), 0);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    n: u8,
}

fn count() -> Router {
    Router::new().tool(sync_tool_fn("t", |count: Count| count.n.to_string()).destructive())
}

#[tokio::test]
async fn an_edit_is_validated_by_a_second_layer_within_and_that_order_is_no_fault() {
    let rules = || editing(r#"{"n":"many"}"#);
    let once = ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(rules()).service(count());
    // The tool itself refuses what it cannot read; the layer outside did not see it.
    let response = once.run_call(call(r#"{"n":1}"#)).await;
    assert_eq!(response.outcome(), Outcome::Refused(RefusalKind::InvalidArguments));
    assert_ne!(response.refusal().unwrap().by(), "validate");
    let twice =
        ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(rules()).layer(ValidateLayer::json_schema()).service(count());
    assert_eq!(twice.run_call(call(r#"{"n":1}"#)).await.refusal().unwrap().by(), "validate");
    assert!(twice.lint().await.is_empty(), "{:?}", twice.lint().await);
}

#[tokio::test]
async fn what_changes_arguments_within_a_pin_is_a_fault_of_the_order() {
    let hooks = || {
        HooksLayer::new().before("other_session", |call| {
            call.set_arguments(json!({ "session_id": "s2" }));
            Ok(())
        })
    };
    let probe = Probe::new();
    let tools = || Router::new().tool(probe.tool("t"));
    let pin = || PinLayer::session("session_id");
    let right = Stack::new(ServiceBuilder::new().layer(hooks()).layer(pin()).service(tools()));
    let swapped = Stack::new(ServiceBuilder::new().layer(pin()).layer(hooks()).service(tools()));
    for (stack, fault, seen) in [(right, None, "s1"), (swapped, Some("rewrite-after-pin"), "s2")] {
        stack.run_call(call(r#"{"session_id":"s3"}"#)).await;
        let faults: Vec<_> = stack.lint().await.iter().map(|fault| fault.rule).collect();
        assert_eq!(faults, Vec::from_iter(fault));
        assert_eq!(probe.calls().pop().unwrap().arguments.object().unwrap()["session_id"], seen);
    }
}
