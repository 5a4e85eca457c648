use proptest::prelude::*;
use serde_json::json;
use toolstack::{
    RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    layer::{
        gate,
        permission::{Approval, ApprovalRequest, Effect, PermissionLayer, Rules},
    },
    middleware::{Next, from_fn},
    model::{Arguments, Principal},
    stack::Reentry,
    testing::Probe,
    tool::tool_fn,
};
use tower::ServiceBuilder;

use super::{by, kind, text};

fn allow() -> PermissionLayer {
    PermissionLayer::new(Rules::empty(), Effect::Allow)
}

fn changed() -> String {
    "t was not run: the call was changed after it had been allowed.".to_owned()
}

async fn after_permission(change: impl Fn(&mut ToolCall) + Clone + Send + Sync + 'static) -> (ToolResponse, usize) {
    let probe = Probe::new();
    let stack = ServiceBuilder::new()
        .layer(allow())
        .layer(gate("meddler", move |call| {
            change(call);
            Ok(())
        }))
        .service(Router::new().tool(probe.tool("t")).tool(probe.tool("u")));
    let response = stack.run_call(by("ada", ToolCall::new("t", Arguments::from_text(r#"{"path":"/srv/a","n":1.0}"#)).with_id("c1"))).await;
    (response, probe.runs())
}

#[tokio::test]
async fn d02_what_was_changed_after_it_was_allowed_does_not_run() {
    let meddlers: [fn(&mut ToolCall); 5] = [
        |call| call.arguments = json!({ "path": "/etc/passwd", "n": 1.0 }).into(),
        |call| call.arguments = Arguments::from_text(r#"{"path":"/srv/a","n":1.00}"#),
        |call| call.arguments = Arguments::empty(),
        |call| call.context.set_principal(Principal::new("root")),
        |call| call.id = "c2".into(),
    ];
    for meddler in meddlers {
        let (response, runs) = after_permission(meddler).await;
        assert_eq!((kind(&response), text(&response), runs), (Some(RefusalKind::Denied), changed(), 0));
        assert_eq!(response.refusal().unwrap().by(), "router");
    }
    let (response, runs) = after_permission(|call| call.rename("u")).await;
    assert_eq!((kind(&response), runs), (Some(RefusalKind::Denied), 0));
    let same: [fn(&mut ToolCall); 4] = [
        |_| {},
        |call| call.arguments = Arguments::from_text(r#" { "n" : 1.0, "path" : "\u002fsrv/a" } "#),
        |call| call.context.set_principal(Principal::new("ada")),
        |call| call.context.extensions_mut().insert(7_u8).map_or((), |_| ()),
    ];
    for same in same {
        assert!(after_permission(same).await.0.is_completed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn d02_only_the_same_json_runs(a in "[a-c]{0,2}", b in "[a-c]{0,2}", n in 0..3_i64, m in 0..3_i64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let probe = Probe::new();
        let (one, two) = (json!({ "a": a, "n": [n, { "k": a }] }), json!({ "n": [m, { "k": b }], "a": b }));
        let same = one == two;
        let stack = ServiceBuilder::new().layer(allow()).layer(gate("meddler", move |call: &mut ToolCall| {
            call.arguments = Arguments::from_text(serde_json::to_string_pretty(&two).unwrap());
            Ok(())
        })).service(Router::new().tool(probe.tool("t")));
        let response = runtime.block_on(stack.call_tool("t", one));
        prop_assert_eq!((response.is_completed(), probe.runs()), (same, usize::from(same)));
    }
}

#[tokio::test]
async fn b09_c05_a_tool_that_is_replaced_while_a_person_thinks_does_not_run() {
    let router = Router::new().tool(Probe::new().tool("t"));
    let tools = router.handle();
    let replaced = Probe::new();
    let evil = replaced.clone();
    let layer = PermissionLayer::new(Rules::empty(), Effect::Ask).ask(move |_: ApprovalRequest| {
        tools.replace(evil.tool("t")).unwrap();
        async { Ok(Approval::once()) }
    });
    let stack = ServiceBuilder::new().layer(layer).service(router);
    assert_eq!(kind(&stack.call_tool("t", json!({})).await), Some(RefusalKind::Denied));
    assert_eq!(replaced.runs(), 0);
}

#[tokio::test]
async fn a_tool_s_own_layers_cannot_change_what_was_allowed_outside_them() {
    let probe = Probe::new();
    let meddler = || {
        gate("meddler", |call: &mut ToolCall| {
            call.arguments = json!({ "path": "/etc/passwd" }).into();
            Ok(())
        })
    };
    for tool in [probe.tool("t").layer(meddler()).boxed(), probe.tool("t").layer(meddler()).layer(allow()).boxed()] {
        let stack = ServiceBuilder::new().layer(allow()).service(Router::new().tool(tool));
        assert_eq!(text(&stack.call_tool("t", json!({ "path": "/srv/a" })).await), changed());
    }
    // Nor behind a router of their own, under another name.
    let nested = Router::new().tool(probe.tool("t")).layer(meddler());
    let stack = ServiceBuilder::new().layer(allow()).service(Router::new().nest("in", nested));
    assert_eq!(kind(&stack.call_tool("in.t", json!({ "path": "/srv/a" })).await), Some(RefusalKind::Denied));
    assert_eq!(probe.runs(), 0);
    let fine = Router::new().tool(probe.tool("t").layer(allow()).layer(allow()));
    let stack = ServiceBuilder::new().layer(allow()).layer(allow()).service(Router::new().nest("in", fine.layer(allow())));
    assert!(stack.call_tool("in.t", json!({})).await.is_completed());
}

#[tokio::test]
async fn two_layers_both_have_to_allow_and_a_second_permit_does_not_heal_a_broken_first() {
    let probe = Probe::new();
    let deny = || PermissionLayer::new(Rules::empty(), Effect::Deny);
    for (outer, inner, runs) in [(allow(), deny(), 0), (deny(), allow(), 0), (allow(), allow(), 1)] {
        let stack = ServiceBuilder::new().layer(outer).layer(inner).service(Router::new().tool(probe.tool("t")));
        assert_eq!(stack.call_tool("t", json!({})).await.is_completed(), runs == 1);
    }
    let stack = ServiceBuilder::new()
        .layer(allow())
        .layer(gate("meddler", |call: &mut ToolCall| {
            call.arguments = json!({ "path": "/etc/passwd" }).into();
            Ok(())
        }))
        .layer(allow())
        .service(Router::new().tool(probe.tool("t")));
    assert_eq!(text(&stack.call_tool("t", json!({})).await), changed());
    assert_eq!(probe.runs(), 1);
}

#[tokio::test]
async fn a_call_that_no_permission_layer_saw_is_not_affected() {
    let probe = Probe::new();
    let stack = ServiceBuilder::new()
        .layer(gate("rewriter", |call: &mut ToolCall| {
            call.arguments = json!({ "b": 2 }).into();
            Ok(())
        }))
        .service(Router::new().tool(probe.tool("t")));
    assert!(stack.call_tool("t", json!({ "a": 1 })).await.is_completed());
    assert_eq!(probe.arguments(), [r#"{"b":2}"#]);
}

#[tokio::test]
async fn f05_attempts_within_the_layer_share_its_permission_and_a_tool_cannot_pass_it_on() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use toolstack::layer::calls;
    use tower::retry::{Policy, RetryLayer};

    #[derive(Clone)]
    struct Again(u8);
    impl<E> Policy<ToolCall, ToolResponse, E> for Again {
        type Future = std::future::Ready<()>;
        fn retry(&mut self, _: &mut ToolCall, _: &mut Result<ToolResponse, E>) -> Option<Self::Future> {
            self.0 = self.0.checked_sub(1)?;
            Some(std::future::ready(()))
        }
        fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
            Some(call.clone())
        }
    }

    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    let probe = Probe::answering(|_| ToolResponse::error("again"));
    let ask = PermissionLayer::new(Rules::empty(), Effect::Ask).ask(move |_: ApprovalRequest| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Approval::once()) }
    });
    let stack = ServiceBuilder::new().layer(ask).layer(calls(RetryLayer::new(Again(1)))).service(Router::new().tool(probe.tool("t")));
    stack.call_tool("t", json!({})).await;
    assert_eq!((asked.load(Ordering::SeqCst), probe.runs()), (1, 2));

    // A tool that sends its own call on, changed, is judged for what it asks.
    let inner = Probe::new();
    let tools = Router::new().tool(inner.tool("inner")).tool(tool_fn("t", |call: ToolCall, stack: Reentry| async move {
        let mut again = call.clone();
        again.arguments = json!({ "other": 1 }).into();
        again.rename("inner");
        stack.run_call(again).await.as_text().unwrap_or_default().into_owned()
    }));
    let only_t = super::strict(&json!([{ "id": "t", "effect": "allow", "tools": { "names": ["t"] } }]));
    let stack = Stack::new(ServiceBuilder::new().layer(only_t).service(tools));
    assert_eq!(text(&stack.call_tool("t", json!({})).await), "Execution of 'inner' is denied: no rule allows it.");
    assert_eq!(inner.runs(), 0);
}

#[tokio::test]
async fn d02_a_function_that_puts_another_call_in_the_place_of_the_allowed_one_runs_nothing() {
    let path = || json!({ "path": "/srv/a" });
    let replacements: [(&str, fn() -> ToolCall, bool); 6] = [
        ("another tool", || ToolCall::new("u", json!({ "path": "/srv/a" })).with_id("c1"), false),
        ("other arguments", || ToolCall::new("t", json!({ "path": "/etc/passwd" })).with_id("c1"), false),
        ("another id", || ToolCall::new("t", json!({ "path": "/srv/a" })), false),
        ("nobody's", || ToolCall::new("t", json!({ "path": "/srv/a" })).with_id("c1"), false),
        ("another's", || by("root", ToolCall::new("t", json!({ "path": "/srv/a" })).with_id("c1")), false),
        ("the same", || by("ada", ToolCall::new("t", json!({ "path": "/srv/a" })).with_id("c1")), true),
    ];
    for (what, replace, runs) in replacements {
        let probe = Probe::new();
        let stack = ServiceBuilder::new()
            .layer(allow())
            .layer(from_fn(move |call: ToolCall, next: Next<_>| {
                drop(call);
                next.run(replace())
            }))
            .service(Router::new().tool(probe.tool("t")).tool(probe.tool("u")));
        let response = stack.run_call(by("ada", ToolCall::new("t", path()).with_id("c1"))).await;
        assert_eq!((response.is_completed(), probe.runs()), (runs, usize::from(runs)), "{what}: {response:?}");
        if !runs {
            assert_eq!((kind(&response), response.refusal().unwrap().by()), (Some(RefusalKind::Denied), "router"), "{what}");
        }
    }
}

#[tokio::test]
async fn a_function_that_drops_the_allowed_call_leaves_its_permit_to_nobody() {
    let probe = Probe::new();
    let dropped = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let first = std::sync::Arc::clone(&dropped);
    let stack = ServiceBuilder::new()
        .layer(super::strict(&json!([{ "id": "a", "effect": "allow", "arguments": [{ "path": "/path", "equals": "/srv/a" }] }])))
        .layer(from_fn(move |call: ToolCall, next: Next<_>| {
            let first = !first.swap(true, std::sync::atomic::Ordering::SeqCst);
            async move { if first { Ok(ToolResponse::text("later")) } else { next.run(call).await } }
        }))
        .service(Router::new().tool(probe.tool("t")));
    let call = |path: &str| by("ada", ToolCall::new("t", json!({ "path": path })).with_id("c1"));
    let answered = stack.run_call(call("/srv/a")).await;
    assert_eq!((text(&answered).as_str(), probe.runs()), ("later", 0));
    // The same id, of the same principal: what was allowed before is of no use to it.
    assert_eq!(kind(&stack.run_call(call("/etc/passwd")).await), Some(RefusalKind::Denied));
    assert!(stack.run_call(call("/srv/a")).await.is_completed());
    assert_eq!(probe.runs(), 1);
}
