//! A closed stack: one for all, and the way for tools to call tools.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    layer::{TimeoutLayer, VisibilityLayer, gate, map_call},
    model::{Cancellation, Context, Origin, Outcome, Principal, Progress, ToolName, TraceContext},
    stack::Reentry,
    testing::{Behaviour, Controlled, Probe, Recorder, Strict},
    tool::{sync_tool_fn, tool_fn},
};
use tower::{Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};

const SECOND: Duration = Duration::from_secs(1);

fn kind(response: &ToolResponse) -> Option<RefusalKind> {
    response.refusal().map(Refusal::kind)
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Other {
    name: String,
}

/// Calls the tool that it is told to, and gives its answer.
fn calls_other() -> toolstack::Tool<impl toolstack::tool::Handler> {
    tool_fn("calls", |other: Other, stack: Reentry| async move { stack.call_tool(other.name, json!({ "from": "within" })).await })
}

fn other(name: &str) -> serde_json::Value {
    json!({ "name": name })
}

#[tokio::test]
async fn a_call_within_a_call_passes_every_layer_anew() {
    let recorder = Recorder::new();
    let probe = Probe::new();
    let tools = Router::new().tool(calls_other()).tool(probe.tool("probe"));
    let stack = Stack::new(ServiceBuilder::new().layer(recorder.layer("A")).service(tools));
    assert!(stack.call_tool("calls", other("probe")).await.is_completed());
    assert_eq!(recorder.trace(), "A> A> A< A<");
    assert_eq!(probe.arguments(), [r#"{"from":"within"}"#]);
}

#[tokio::test]
async fn a_call_within_a_call_is_judged_as_any_other_and_its_refusal_is_the_tool_s_to_read() {
    let probe = Probe::new();
    let tools = Router::new().tool(calls_other()).tool(probe.tool("secret").tag("admin")).tool(probe.tool("write"));
    let stack = Stack::new(
        ServiceBuilder::new()
            .layer(VisibilityLayer::new(|tool, _| !tool.has_tag("admin")))
            .layer(gate("no_write", |call| {
                let denied = || Refusal::new(RefusalKind::Denied, "no").with_by("no_write");
                if call.name() == "write" { Err(denied()) } else { Ok(()) }
            }))
            .service(tools),
    );
    for (name, expected) in [("secret", RefusalKind::UnknownTool), ("write", RefusalKind::Denied)] {
        assert_eq!(kind(&stack.call_tool("calls", other(name)).await), Some(expected));
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn layers_see_who_called_how_deep_and_from_where() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let look = map_call("look", {
        let seen = Arc::clone(&seen);
        move |call| {
            let context = &call.context;
            seen.lock().unwrap().push((
                call.name().to_string(),
                context.depth(),
                context.parent().map(ToString::to_string),
                context.origin(),
                context.principal().subject.clone(),
            ));
        }
    });
    let tools =
        Router::new().tool(calls_other()).tool(tool_fn("middle", |stack: Reentry| async move { stack.call_tool("leaf", ()).await }));
    let stack = Stack::new(ServiceBuilder::new().layer(look).service(tools.tool(sync_tool_fn("leaf", || "leaf"))));
    let context = Context::new().with_principal(Principal::new("ada")).with_origin(Origin::Person);
    let call = ToolCall::new("calls", other("middle")).with_id("c1").with_context(context);
    assert_eq!(stack.run_call(call).await.as_text().as_deref(), Some("leaf"));

    let seen = seen.lock().unwrap();
    let row = |n: usize| (seen[n].0.as_str(), seen[n].1, seen[n].2.as_deref(), seen[n].3, seen[n].4.as_str());
    assert_eq!(row(0), ("calls", 0, None, Origin::Person, "ada"));
    assert_eq!(row(1), ("middle", 1, Some("c1"), Origin::Program, "ada"));
    assert_eq!((seen[2].0.as_str(), seen[2].1, seen[2].3), ("leaf", 2, Origin::Program));
    assert!(seen[2].2.as_deref().is_some_and(|parent| parent.starts_with("local-")), "{:?}", seen[2]);
    assert_eq!(seen.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_the_caller_goes_on_and_what_belongs_to_the_one_call_does_not() {
    let probe = Probe::new();
    let stack = Stack::new(
        ServiceBuilder::new().layer(TimeoutLayer::new(30 * SECOND)).service(Router::new().tool(calls_other()).tool(probe.tool("probe"))),
    );
    let cancellation = Cancellation::new();
    let mut context = Context::new()
        .with_principal(Principal::new("ada").scope("s"))
        .with_session("session")
        .with_trace(TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
        .with_cancellation(cancellation.clone())
        .with_progress(Progress::new(|_| panic!("the progress of a call within is not that of its caller")));
    context.extensions_mut().insert("for this call");
    context.meta_mut().insert("progressToken", &1).unwrap();
    let began = tokio::time::Instant::now();
    stack.run_call(ToolCall::new("calls", other("probe")).with_context(context)).await;

    let calls = probe.calls();
    let within = &calls[0].context;
    assert!(within.principal().has_scope("s"));
    assert_eq!(within.session(), Some("session"));
    assert!(within.trace().is_some());
    assert_eq!(within.deadline(), Some(began + 30 * SECOND));
    assert_eq!(within.extensions().get::<&str>(), None);
    assert!(within.meta().is_empty());
    cancellation.cancel();
    assert!(within.cancellation().unwrap().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_outermost_call_bounds_all_within() {
    let controlled = Controlled::new();
    let tools = Router::new().tool(calls_other()).tool(controlled.tool("wait"));
    let stack = Stack::new(ServiceBuilder::new().layer(TimeoutLayer::deadline()).service(tools));
    let began = tokio::time::Instant::now();
    let context = Context::new().with_deadline(began + 5 * SECOND);
    let answer = stack.run_call(ToolCall::new("calls", other("wait")).with_context(context)).await;
    assert_eq!((kind(&answer), began.elapsed()), (Some(RefusalKind::Timeout), 5 * SECOND));
    assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 1));
}

#[tokio::test]
async fn dropping_the_outermost_call_drops_all_within() {
    let controlled = Controlled::new();
    let stack = Stack::new(Router::new().tool(calls_other()).tool(controlled.tool("wait")));
    let call = tokio::spawn(stack.call_tool("calls", other("wait")));
    let _held = controlled.next().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 1));
}

#[tokio::test]
async fn calls_within_calls_go_as_deep_as_the_stack_says() {
    let probe = Probe::new();
    let tools = || {
        let runs = probe.clone();
        let again = tool_fn("again", move |stack: Reentry, context: Context, call: ToolCall| {
            let runs = runs.clone();
            async move {
                let _ = toolstack::tool::Handler::call(&runs, call).await;
                let within = stack.call_tool("again", ()).await;
                if kind(&within) == Some(RefusalKind::LimitExceeded) { ToolResponse::text(context.depth().to_string()) } else { within }
            }
        });
        Router::new().tool(again)
    };
    for (max, stack) in
        [(Stack::MAX_DEPTH, Stack::new(tools())), (3, Stack::with_max_depth(tools(), 3)), (0, Stack::with_max_depth(tools(), 0))]
    {
        let before = probe.runs();
        assert_eq!(stack.call_tool("again", ()).await.as_text().as_deref(), Some(max.to_string().as_str()));
        assert_eq!(probe.runs() - before, usize::from(max) + 1);
    }

    let stack = Stack::with_max_depth(Router::new().tool(calls_other()), 0);
    let answer = stack.call_tool("calls", other("calls")).await;
    let refusal = answer.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::LimitExceeded, "stack"));
    assert_eq!(refusal.message(), "Calls within calls may go 0 levels deep; this one of calls would go deeper.");
}

#[tokio::test]
async fn a_tool_lists_what_it_may_call_and_nothing_else() {
    let tools = Router::new()
        .tool(tool_fn("lists", |stack: Reentry| async move { stack.list_tools().await.names().collect::<Vec<_>>().join(" ") }))
        .tool(Probe::new().tool("reset").tag("admin"));
    let visible = VisibilityLayer::new(|tool, context| !tool.has_tag("admin") || context.principal().has_scope("admin"));
    let stack = Stack::new(ServiceBuilder::new().layer(visible).service(tools));
    assert_eq!(stack.call_tool("lists", ()).await.as_text().as_deref(), Some("lists"));
    let root = Context::new().with_principal(Principal::new("root").scope("admin"));
    let answer = stack.run_call(ToolCall::new("lists", ()).with_context(root)).await;
    assert_eq!(answer.as_text().as_deref(), Some("lists reset"));
}

#[tokio::test]
async fn the_way_back_leads_through_the_outermost_stack() {
    let recorder = Recorder::new();
    let inner = Stack::new(ServiceBuilder::new().layer(recorder.layer("inner")).service(Router::new().tool(calls_other())));
    let tools = ServiceBuilder::new().layer(recorder.layer("outer")).service(inner);
    let stack = Stack::new(tools);
    assert_eq!(kind(&stack.call_tool("calls", other("none")).await), Some(RefusalKind::UnknownTool));
    assert_eq!(recorder.trace(), "outer> inner> outer> inner> inner< outer< inner< outer<");
}

#[tokio::test]
async fn a_name_that_was_given_from_outside_leads_back_through_the_names_of_the_stack() {
    let git = Router::new().tool(calls_other()).tool(sync_tool_fn("status", || "clean"));
    let stack = Stack::new(Router::new().nest("git", git));
    assert_eq!(kind(&stack.call_tool("git.calls", other("status")).await), Some(RefusalKind::UnknownTool));
    assert_eq!(stack.call_tool("git.calls", other("git.status")).await.as_text().as_deref(), Some("clean"));
}

#[tokio::test]
async fn tools_call_tools_side_by_side() {
    let controlled = Controlled::new();
    let both = tool_fn("both", |stack: Reentry| async move {
        let (a, b) = tokio::join!(stack.call_tool("wait", ()), stack.call_tool("wait", ()));
        a.is_completed() && b.is_completed()
    });
    let stack = Stack::new(Router::new().tool(both).tool(controlled.tool("wait")));
    let call = tokio::spawn(stack.call_tool("both", ()));
    let (first, second) = (controlled.next().await, controlled.next().await);
    assert_ne!(first.call().id, second.call().id);
    assert_eq!(first.call().context.parent(), second.call().context.parent());
    second.respond(ToolResponse::text("done"));
    first.respond(ToolResponse::text("done"));
    assert_eq!(call.await.unwrap().as_text().as_deref(), Some("true"));
}

/// As the documentation says: a limit is a limit for calls within calls too.
#[tokio::test(start_paused = true)]
async fn a_tool_that_calls_tools_behind_a_limit_of_one_waits_for_itself() {
    let tools = || Router::new().tool(calls_other()).tool(sync_tool_fn("leaf", || "leaf"));
    let stack = |limit| {
        Stack::new(ServiceBuilder::new().layer(TimeoutLayer::new(SECOND)).layer(ConcurrencyLimitLayer::new(limit)).service(tools()))
    };
    assert_eq!(kind(&stack(1).call_tool("calls", other("leaf")).await), Some(RefusalKind::Timeout));
    assert!(stack(2).call_tool("calls", other("leaf")).await.is_completed());
    let around_the_tool = Router::new().tool(calls_other().layer(ConcurrencyLimitLayer::new(1))).tool(sync_tool_fn("leaf", || "leaf"));
    assert!(Stack::new(around_the_tool).call_tool("calls", other("leaf")).await.is_completed());
}

#[tokio::test]
async fn a_limit_holds_through_all_clones_and_entries_of_a_stack() {
    let controlled = Controlled::new();
    let stack = Stack::new(ServiceBuilder::new().concurrency_limit(1).service(Router::new().tool(controlled.tool("wait"))));
    let mut calls = Vec::new();
    for n in 0..40 {
        let stack = stack.clone();
        calls.push(tokio::spawn(async move {
            match n % 4 {
                0 => stack.call_tool("wait", ()).await.is_completed(),
                1 => stack.run_calls(vec![ToolCall::new("wait", ())]).await[0].response.is_completed(),
                2 => tower::ServiceExt::oneshot(stack, ToolCall::new("wait", ())).await.unwrap().is_completed(),
                _ => Stack::new(stack).call_tool("wait", ()).await.is_completed(),
            }
        }));
    }
    for _ in 0..40 {
        controlled.next().await.respond(ToolResponse::text("done"));
    }
    for call in calls {
        assert!(call.await.unwrap());
    }
    assert_eq!(controlled.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_stack_never_fails_and_never_panics() {
    let odd = map_call("odd", |call| assert!(call.name() != "odd"));
    let tools = Router::new().tool(tool_fn("forever", std::future::pending::<()>));
    let stack = Stack::new(ServiceBuilder::new().timeout(SECOND).layer(odd).service(tools));
    let answer = tower::ServiceExt::oneshot(stack.clone(), ToolCall::new("forever", ())).await.unwrap();
    assert_eq!(kind(&answer), Some(RefusalKind::Timeout));
    let answer = tower::ServiceExt::oneshot(stack.clone(), ToolCall::new("odd", ())).await.unwrap();
    assert_eq!(kind(&answer), Some(RefusalKind::Internal));
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["forever"]);
}

#[tokio::test]
async fn a_stack_is_a_tool_source_of_another_router() {
    let upstream = Stack::new(ServiceBuilder::new().concurrency_limit(4).service(Router::new().tool(sync_tool_fn("ping", || "pong"))));
    let tool = toolstack::Tool::from_service(toolstack::model::ToolSpec::new(ToolName::new("ping").unwrap()), upstream);
    assert_eq!(Router::new().tool(tool).call_tool("ping", ()).await.as_text().as_deref(), Some("pong"));
}

#[test]
fn debug_shows_the_type_and_the_depth() {
    let stack = Stack::with_max_depth(Router::new(), 3);
    assert_eq!(format!("{stack:?}"), r#"Stack { service: "toolstack::router::service::Router", max_depth: 3 }"#);
}

async fn ready(stack: &mut Stack) -> &mut Stack {
    ServiceExt::<ToolCall>::ready(stack).await.unwrap()
}

#[tokio::test]
async fn a_clone_of_a_stack_that_is_called_again_keeps_its_place_and_gives_it_back() {
    let controlled = Controlled::new();
    let stack = Stack::new(
        ServiceBuilder::new().concurrency_limit(1).service(Router::new().tool(controlled.tool("held")).tool(Probe::new().tool("ping"))),
    );
    let mut kept = stack.clone();
    let call = |name: &str| ToolCall::new(name, json!({}));
    for _ in 0..3 {
        assert!(ready(&mut kept).await.call(call("ping")).await.unwrap().is_completed());
    }

    // What was asked for readiness and is not called holds the one place; dropped, or called, it does not.
    ready(&mut kept).await;
    let mut waits = Box::pin(stack.call_tool("ping", json!({})));
    assert!(futures_util::poll!(waits.as_mut()).is_pending());
    drop(kept);
    assert!(waits.await.is_completed());

    // One that has to wait does so within the call, in its place of the queue.
    let mut kept = stack.clone();
    ready(&mut kept).await.call(call("ping")).await.unwrap();
    let mut running = Box::pin(stack.call_tool("held", json!({})));
    assert!(futures_util::poll!(running.as_mut()).is_pending());
    let mut first = Box::pin(ready(&mut kept).await.call(call("ping")));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    let mut second = Box::pin(stack.call_tool("ping", json!({})));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    drop(running);
    assert!(futures_util::poll!(first.as_mut()).is_ready());
    assert!(second.await.is_completed());
}

#[tokio::test]
async fn a_clone_whose_readiness_failed_is_good_again_at_the_next_call() {
    let strict = Strict::new(Router::new().tool(Probe::new().tool("ping")));
    let mut kept = Stack::new(strict.clone());
    let mut outcome = async || ready(&mut kept).await.call(ToolCall::new("ping", json!({}))).await.unwrap().outcome();
    assert_eq!(outcome().await, Outcome::Completed);
    assert_eq!(outcome().await, Outcome::Completed);
    strict.behave(Behaviour::ReadinessFails);
    assert_eq!(outcome().await, Outcome::Refused(RefusalKind::Internal));
    strict.behave(Behaviour::PanicInCall);
    assert_eq!(outcome().await, Outcome::Refused(RefusalKind::Internal));
    strict.behave(Behaviour::Answer);
    assert_eq!(outcome().await, Outcome::Completed);
    assert_eq!(strict.tally().violations, 0, "nothing is called that is not ready");
}
