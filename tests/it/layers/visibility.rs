use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use toolstack::{
    ListTools, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::VisibilityLayer,
    model::{Context, Principal, ToolSpec},
    testing::{Behaviour, Controlled, Probe, StrictError},
    tool::sync_tool_fn,
};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::{hold, kind, poll, ready, settle, strict};

fn no_admin(tool: &ToolSpec, context: &Context) -> bool {
    !tool.has_tag("admin") || context.principal().has_scope("admin")
}

fn admin() -> Context {
    Context::new().with_principal(Principal::new("root").scope("admin"))
}

fn json(response: &ToolResponse) -> String {
    format!("{} {:?}", serde_json::to_string(response).unwrap(), response.refusal())
}

#[tokio::test]
async fn a_hidden_tool_is_answered_as_unknown() {
    let probe = Probe::new();
    let tools = Router::new().tool(probe.tool("reset").tag("admin")).tool(sync_tool_fn("ping", || "pong"));
    let stack = ServiceBuilder::new().layer(VisibilityLayer::new(no_admin)).service(tools);

    let hidden = stack.call_tool("reset", ()).await;
    let unknown = stack.call_tool("tesre", ()).await;
    assert_eq!(json(&hidden), json(&unknown).replace("tesre", "reset"));
    assert_eq!(json(&hidden), json(&Router::new().call_tool("reset", ()).await));
    assert_eq!(probe.runs(), 0);
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["ping"]);

    assert!(stack.run_call(ToolCall::new("reset", ()).with_context(admin())).await.is_completed());
    assert_eq!(stack.run_list(ListTools::new().with_context(admin())).await.names().collect::<Vec<_>>(), ["ping", "reset"]);
}

#[tokio::test]
async fn lists_and_calls_agree_for_every_tool_and_everybody() {
    let mut tools = Router::new();
    for n in 0..30 {
        let tool = Probe::new().tool(&format!("t{n}"));
        tools = tools.tool(if n % 3 == 0 { tool.tag("admin") } else { tool });
    }
    let stack = ServiceBuilder::new().layer(VisibilityLayer::new(no_admin)).service(tools);
    for context in [Context::new(), admin()] {
        let list = stack.run_list(ListTools::new().with_context(context.clone())).await;
        let listed: BTreeSet<_> = list.names().collect();
        for n in 0..30 {
            let name = format!("t{n}");
            let answer = stack.run_call(ToolCall::new(&name, ()).with_context(context.clone())).await;
            assert_eq!(answer.is_completed(), listed.contains(name.as_str()), "{name}");
        }
    }
}

#[tokio::test]
async fn a_tool_that_is_added_or_removed_later_is_judged_like_any_other() {
    let tools = Router::new().tool(sync_tool_fn("ping", || "pong"));
    let handle = tools.handle();
    let stack = ServiceBuilder::new().layer(VisibilityLayer::new(no_admin)).service(tools);
    assert!(stack.call_tool("ping", ()).await.is_completed());

    handle.insert(sync_tool_fn("reset", || "done").tag("admin")).unwrap();
    handle.insert(sync_tool_fn("pong", || "ping")).unwrap();
    assert_eq!(kind(&stack.call_tool("reset", ()).await), Some(RefusalKind::UnknownTool));
    assert!(stack.call_tool("pong", ()).await.is_completed());
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["ping", "pong"]);

    // The same name, for administrators from now on.
    handle.replace(sync_tool_fn("ping", || "pong").tag("admin")).unwrap();
    assert_eq!(kind(&stack.call_tool("ping", ()).await), Some(RefusalKind::UnknownTool));
    assert!(handle.remove("pong"));
    assert_eq!(kind(&stack.call_tool("pong", ()).await), Some(RefusalKind::UnknownTool));
    assert_eq!(stack.list_tools().await.names().count(), 0);
    assert!(stack.run_call(ToolCall::new("reset", ()).with_context(admin())).await.is_completed());
}

#[tokio::test]
async fn the_predicate_sees_names_as_they_are_at_its_place() {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let layer = |place: &'static str| {
        let seen = Arc::clone(&seen);
        VisibilityLayer::new(move |tool: &ToolSpec, _: &Context| {
            seen.lock().unwrap().insert(format!("{place}: {}", tool.name));
            true
        })
    };
    let git = Router::new().tool(sync_tool_fn("status", || "clean")).layer(layer("within"));
    let stack = ServiceBuilder::new().layer(layer("outside")).service(Router::new().nest("git", git));
    assert!(stack.call_tool("git.status", ()).await.is_completed());
    stack.list_tools().await;
    let seen: Vec<_> = seen.lock().unwrap().iter().cloned().collect();
    assert_eq!(seen, ["outside: git.status", "within: status"]);
}

#[tokio::test]
async fn a_tool_hidden_within_a_nested_router_is_unknown_outside_by_its_outside_name() {
    let git = Router::new().tool(sync_tool_fn("push", || "pushed").tag("admin")).layer(VisibilityLayer::new(no_admin));
    let stack = Router::new().nest("git", git);
    assert_eq!(json(&stack.call_tool("git.push", ()).await), json(&Router::new().call_tool("git.push", ()).await));
    assert_eq!(stack.list_tools().await.names().count(), 0);
    assert!(stack.run_call(ToolCall::new("git.push", ()).with_context(admin())).await.is_completed());
}

#[tokio::test]
async fn what_only_a_fallback_answers_is_in_no_list_and_so_unknown() {
    let fallback = tower::service_fn(|_: ToolCall| async { Ok::<_, BoxError>(ToolResponse::text("anything")) });
    let tools = Router::new().fallback(fallback);
    assert!(tools.call_tool("anything", ()).await.is_completed());
    let stack = ServiceBuilder::new().layer(VisibilityLayer::new(|_, _| true)).service(tools);
    assert_eq!(kind(&stack.call_tool("anything", ()).await), Some(RefusalKind::UnknownTool));
}

#[tokio::test]
async fn two_predicates_are_both_asked() {
    let tools = Router::new().tool(sync_tool_fn("a", || "")).tool(sync_tool_fn("b", || "")).tool(sync_tool_fn("c", || ""));
    let stack = ServiceBuilder::new()
        .layer(VisibilityLayer::new(|tool, _| tool.name != "a"))
        .layer(VisibilityLayer::new(|tool, _| tool.name != "b"))
        .service(tools);
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["c"]);
    for (name, known) in [("a", false), ("b", false), ("c", true)] {
        assert_eq!(stack.call_tool(name, ()).await.is_completed(), known);
    }
}

#[tokio::test]
async fn the_first_calls_at_once_learn_the_tools_together() {
    let controlled = Controlled::new();
    let tools = Router::new().tool(controlled.tool("wait")).tool(sync_tool_fn("reset", || "done").tag("admin"));
    let stack = ServiceBuilder::new().layer(VisibilityLayer::new(no_admin)).concurrency_limit(4).service(tools);
    let calls: Vec<_> = (0..20).map(|n| tokio::spawn(stack.call_tool(if n % 2 == 0 { "wait" } else { "reset" }, ()))).collect();
    for _ in 0..10 {
        controlled.next().await.respond(ToolResponse::text("done"));
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().is_completed(), n % 2 == 0);
    }
    assert!(controlled.peak() <= 4);
}

#[tokio::test]
async fn a_first_call_that_is_dropped_anywhere_leaves_the_layer_working() {
    for polls in 0..6 {
        let (strict, _) = strict(Some(1));
        let service = ServiceBuilder::new().layer(VisibilityLayer::new(|_, _| true)).service(strict.clone());
        let holder = hold(&strict).await;
        let mut call = Box::pin(service.clone().oneshot(ToolCall::new("probe", ())));
        for _ in 0..polls {
            assert!(poll(&mut call).is_pending());
        }
        drop(call);
        drop(holder);
        settle().await;
        assert_eq!(strict.free(), Some(1));
        assert!(service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap().is_completed());
    }
}

#[tokio::test]
async fn an_error_within_passes_as_it_is_and_one_while_learning_is_a_refusal() {
    let (strict, probe) = strict(None);
    let service = ServiceBuilder::new().layer(VisibilityLayer::new(|_, _| true)).service(strict.clone());
    strict.behave(Behaviour::NeverReady);
    let mut first = service.clone();
    let mut call = Box::pin(ready(&mut first).await.call(ToolCall::new("probe", ())));
    assert!(poll(&mut call).is_pending());
    strict.behave(Behaviour::ReadinessFails);
    assert_eq!(kind(&call.await.unwrap()), Some(RefusalKind::Internal));

    // It learns with the next call.
    strict.behave(Behaviour::Answer);
    assert!(service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap().is_completed());
    for behaviour in [Behaviour::Fail, Behaviour::ReadinessFails] {
        strict.behave(behaviour);
        let _: StrictError = service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap_err();
    }
    assert_eq!((probe.runs(), strict.tally().violations), (1, 0));
}

#[tokio::test]
async fn a_hidden_tool_is_refused_while_nothing_within_is_ready() {
    let (strict, _) = strict(Some(1));
    let service = ServiceBuilder::new().layer(VisibilityLayer::new(|_, _| false)).service(strict.clone());
    assert_eq!(kind(&service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap()), Some(RefusalKind::UnknownTool));
    let _holder = hold(&strict).await;
    assert_eq!(kind(&service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap()), Some(RefusalKind::UnknownTool));
}
