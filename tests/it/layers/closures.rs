use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use toolstack::{
    ListTools, Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{Ending, after, gate, gate_async, gate_tool, map_call, map_list, map_result},
    model::{Context, InputRequired, Outcome, Principal, TaskHandle},
    testing::{Behaviour, Controlled, Probe},
    tool::sync_tool_fn,
};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::{hold, kind, poll, ready, settle, strict};

const HOUR: Duration = Duration::from_secs(3600);

fn denied() -> Refusal {
    Refusal::new(RefusalKind::Denied, "no").with_by("rules")
}

/// A layer of each way to decide, which denies calls with `"deny": true`.
macro_rules! gates {
    (|$gate:ident, $name:ident| $test:block) => {{
        let deny = |call: &ToolCall| if call.arguments.as_json().unwrap().contains("true") { Err(denied()) } else { Ok(()) };
        {
            let ($gate, $name) = (gate("rules", move |call| deny(call)), "gate");
            $test
        }
        {
            let $name = "gate_async";
            let $gate = gate_async("rules", move |call| {
                let decision = deny(&call);
                async move {
                    tokio::task::yield_now().await;
                    decision
                }
            });
            $test
        }
        {
            let ($gate, $name) = (gate_tool("rules", move |call, _| deny(call)), "gate_tool");
            $test
        }
    }};
}

#[tokio::test]
async fn a_gate_lets_pass_or_refuses_and_what_it_refuses_does_not_run() {
    gates!(|layer, name| {
        let (strict, probe) = strict(Some(1));
        let stack = ServiceBuilder::new().layer(layer).service(strict.clone());
        assert!(stack.call_tool("probe", json!({ "deny": false })).await.is_completed(), "{name}");
        let refused = stack.call_tool("probe", json!({ "deny": true })).await;
        assert_eq!(refused.refusal().map(|refusal| (refusal.kind(), refusal.by())), Some((RefusalKind::Denied, "rules")), "{name}");
        assert_eq!(probe.arguments(), [r#"{"deny":false}"#], "{name}");
        assert_eq!((strict.free(), strict.tally().violations), (Some(1), 0), "{name}");
        assert_eq!(stack.list_tools().await.names().count(), 1, "{name}");
    });
}

#[tokio::test]
async fn an_error_within_a_gate_passes_as_it_is() {
    gates!(|layer, name| {
        let (strict, _) = strict(None);
        let stack = ServiceBuilder::new().layer(layer).service(strict.clone());
        assert!(stack.call_tool("probe", ()).await.is_completed(), "{name}");
        for behaviour in [Behaviour::Fail, Behaviour::ReadinessFails] {
            strict.behave(behaviour);
            assert!(stack.clone().oneshot(ToolCall::new("probe", ())).await.is_err(), "{name}");
        }
    });
}

#[tokio::test]
async fn a_gate_s_call_that_is_dropped_gives_everything_back() {
    gates!(|layer, name| {
        let (strict, probe) = strict(Some(1));
        let stack = ServiceBuilder::new().layer(layer).service(strict.clone());
        assert!(stack.call_tool("probe", ()).await.is_completed(), "{name}");
        strict.behave(Behaviour::Hang);
        for polls in 0..4 {
            let mut instance = stack.clone();
            let mut call = Box::pin(ready(&mut instance).await.call(ToolCall::new("probe", ())));
            for _ in 0..polls {
                assert!(poll(&mut call).is_pending(), "{name}");
            }
            drop((call, instance));
            assert_eq!((strict.free(), strict.tally().in_flight), (Some(1), 0), "{name} after {polls}");
        }
        assert_eq!(probe.runs(), 1, "{name}");
    });
}

#[tokio::test]
async fn a_gate_decides_about_each_of_many_calls_at_once() {
    gates!(|layer, name| {
        let controlled = Controlled::new();
        let stack = ServiceBuilder::new().layer(layer).concurrency_limit(5).service(Router::new().tool(controlled.tool("wait")));
        let calls: Vec<_> = (0..30).map(|n| tokio::spawn(stack.call_tool("wait", json!({ "deny": n % 3 == 0 })))).collect();
        for _ in 0..20 {
            controlled.next().await.respond(ToolResponse::text("done"));
        }
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(kind(&call.await.unwrap()), (n % 3 == 0).then_some(RefusalKind::Denied), "{name}");
        }
        assert!(controlled.peak() <= 5, "{name}");
    });
}

#[tokio::test]
async fn a_gate_may_change_the_call() {
    let probe = Probe::new();
    let layer = gate("sign", |call| {
        call.arguments = json!({ "signed": true }).into();
        call.context.extensions_mut().insert("signed");
        Ok(())
    });
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
    stack.call_tool("probe", json!({ "signed": false })).await;
    assert_eq!(probe.arguments(), [r#"{"signed":true}"#]);
    assert_eq!(probe.calls()[0].context.extensions().get(), Some(&"signed"));
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_waits_holds_no_permit_meanwhile() {
    let (strict, probe) = strict(Some(1));
    let layer = gate_async("ask", async |_| {
        tokio::time::sleep(HOUR).await;
        Ok(())
    });
    let stack = ServiceBuilder::new().layer(layer).service(strict.clone());
    let waiting = tokio::spawn(stack.call_tool("probe", ()));
    settle().await;
    assert_eq!(strict.free(), Some(1));
    assert!(strict.clone().oneshot(ToolCall::new("probe", ())).await.unwrap().is_completed());
    assert_eq!(probe.runs(), 1);
    assert!(waiting.await.unwrap().is_completed());
    assert_eq!((probe.runs(), strict.tally().violations), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_a_gate_waits_drops_the_wait() {
    let (strict, probe) = strict(Some(1));
    let waits = Arc::new(());
    let layer = gate_async("ask", {
        let waits = Arc::downgrade(&waits);
        move |_| {
            let waits = waits.upgrade();
            async move {
                tokio::time::sleep(HOUR).await;
                drop(waits);
                Ok(())
            }
        }
    });
    let stack = ServiceBuilder::new().layer(layer).service(strict.clone());
    let mut call = Box::pin(stack.clone().oneshot(ToolCall::new("probe", ())));
    assert!(poll(&mut call).is_pending());
    assert_eq!(Arc::strong_count(&waits), 2);
    drop(call);
    assert_eq!((Arc::strong_count(&waits), probe.runs(), strict.free()), (1, 0, Some(1)));
}

#[tokio::test]
async fn a_gate_by_tool_sees_the_tool_and_answers_as_the_router_does_for_none() {
    let tools = Router::new().tool(sync_tool_fn("read", || "text").read_only()).tool(sync_tool_fn("write", || "written"));
    let layer = gate_tool("read_only", |call, tool| {
        assert_eq!(*call.name(), *tool.spec().name);
        if tool.spec().annotations.is_read_only() && tool.source().trusted { Ok(()) } else { Err(denied()) }
    });
    let stack = ServiceBuilder::new().layer(layer).service(tools);
    assert!(stack.call_tool("read", ()).await.is_completed());
    assert_eq!(kind(&stack.call_tool("write", ()).await), Some(RefusalKind::Denied));
    let unknown = stack.call_tool("none", ()).await;
    assert_eq!(
        unknown.refusal().map(|refusal| (refusal.kind(), refusal.by(), refusal.message())),
        Some((RefusalKind::UnknownTool, "router", "Unknown tool: none"))
    );
}

#[tokio::test]
async fn after_hears_of_each_end_exactly_once() {
    let (strict, _) = strict(Some(1));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let stack = ServiceBuilder::new()
        .layer(after("hear", {
            let heard = Arc::clone(&heard);
            move |ending| {
                let sort = match ending {
                    Ending::Dropped => "dropped",
                    Ending::Failed(_) => "failed",
                    Ending::Panicked => "panicked",
                    _ => "reply",
                };
                heard.lock().unwrap().push((sort, ending.outcome()));
            }
        }))
        .service(strict.clone());
    let take = || std::mem::take(&mut *heard.lock().unwrap());
    let internal = Outcome::Refused(RefusalKind::Internal);

    stack.call_tool("probe", ()).await;
    stack.call_tool("none", ()).await;
    assert_eq!(take(), [("reply", Outcome::Completed), ("reply", Outcome::Refused(RefusalKind::UnknownTool))]);

    for behaviour in [Behaviour::Fail, Behaviour::PanicInCall, Behaviour::PanicInFuture, Behaviour::ReadinessFails] {
        strict.behave(behaviour);
        stack.call_tool("probe", ()).await;
    }
    // A call that never was begun has no end.
    assert_eq!(take(), [("failed", internal), ("panicked", internal), ("panicked", internal)]);

    strict.behave(Behaviour::Hang);
    for polls in 0..2 {
        let mut instance = stack.clone();
        let mut call = Box::pin(ready(&mut instance).await.call(ToolCall::new("probe", ())));
        (0..polls).for_each(|_| assert!(poll(&mut call).is_pending()));
        drop(call);
        assert_eq!(take(), [("dropped", Outcome::Cancelled)]);
    }
    stack.list_tools().await;
    assert_eq!(take(), []);
}

#[tokio::test]
async fn map_call_changes_calls_and_leaves_lists_alone() {
    let probe = Probe::new();
    let layer = map_call("old_names", |call| {
        if call.name() == "probe_v1" {
            call.rename("probe");
        }
    });
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
    assert!(stack.call_tool("probe_v1", ()).await.is_completed());
    assert!(stack.call_tool("probe", ()).await.is_completed());
    assert_eq!(kind(&stack.call_tool("probe_v2", ()).await), Some(RefusalKind::UnknownTool));
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["probe"]);
    assert_eq!(probe.runs(), 2);
}

#[tokio::test]
async fn map_result_sees_what_is_over_refusals_included_and_nothing_else() {
    let changed = Arc::new(AtomicUsize::new(0));
    let answers = [
        ToolResponse::text("a"),
        ToolResponse::error("b"),
        denied().into(),
        ToolResponse::InputRequired(Box::new(InputRequired::new("state"))),
        ToolResponse::Task(Box::new(TaskHandle::new("t1"))),
    ];
    for (answer, changes) in answers.into_iter().zip([1, 1, 1, 0, 0]) {
        let given = answer.clone();
        let layer = map_result("count", {
            let changed = Arc::clone(&changed);
            move |result| {
                changed.fetch_add(1, Ordering::SeqCst);
                result.push("more");
            }
        });
        let probe = Probe::answering(move |_| given.clone());
        let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
        let got = stack.call_tool("probe", ()).await;
        assert_eq!(changed.swap(0, Ordering::SeqCst), changes);
        assert_eq!(got.outcome(), answer.outcome());
        assert_eq!(got.as_text(), answer.as_text().map(|text| format!("{text}\nmore").into()));
    }
}

#[tokio::test]
async fn map_result_and_map_list_wait_for_what_is_within() {
    let (strict, _) = strict(Some(1));
    let layers =
        ServiceBuilder::new().layer(map_result("sign", |result| result.push("signed"))).layer(map_list("mark", |list, context| {
            let _ = list.meta.insert("for", &context.principal().subject);
        }));
    let stack = layers.service(strict.clone());
    let holder = hold(&strict).await;
    let mut call = Box::pin(stack.clone().oneshot(ToolCall::new("probe", ())));
    let ada = Context::new().with_principal(Principal::new("ada"));
    let mut list = Box::pin(stack.clone().oneshot(ListTools::new().with_context(ada)));
    assert!(poll(&mut call).is_pending() && poll(&mut list).is_pending());
    drop(holder);
    assert_eq!(call.await.unwrap().as_text().as_deref(), Some("ok\nsigned"));
    assert_eq!(list.await.unwrap().meta.get::<String>("for").unwrap().as_deref(), Some("ada"));
}

#[tokio::test]
async fn a_refusal_that_names_nobody_names_its_gate() {
    let no = || Refusal::new(RefusalKind::Denied, "No.");
    let router = || Router::new().tool(Probe::new().tool("probe"));
    let now = ServiceBuilder::new().layer(gate("now", move |_| Err(no()))).service(router());
    let later = ServiceBuilder::new().layer(gate_async("later", move |_| async move { Err(no()) })).service(router());
    let by_tool = ServiceBuilder::new().layer(gate_tool("by_tool", move |_, _| Err(no()))).service(router());
    let named = ServiceBuilder::new().layer(gate("now", move |_| Err(no().with_by("somebody")))).service(router());
    assert_eq!(now.call_tool("probe", json!({})).await.refusal().unwrap().by(), "now");
    assert_eq!(later.call_tool("probe", json!({})).await.refusal().unwrap().by(), "later");
    assert_eq!(by_tool.call_tool("probe", json!({})).await.refusal().unwrap().by(), "by_tool");
    assert_eq!(named.call_tool("probe", json!({})).await.refusal().unwrap().by(), "somebody");
}
