//! The order of layers, reason by reason: what works, what breaks once two are swapped, and that `lint` names it.
//!
//! The reasons are those of the table in `toolstack::layer`.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    describe::{Duty, Note},
    layer::{
        CatchErrorLayer, CatchPanicLayer, Ending, Policy, PolicyLayer, Site, Step, TimeoutLayer, VisibilityLayer, after, calls, gate,
        gate_async, gate_tool, map_call, map_list, map_result,
    },
    model::Outcome,
    operation::{Reply, View},
    stack::ToolStack,
    testing::{Controlled, Probe, Recorder},
    tool::{sync_tool_fn, tool_fn},
};
use tower::{
    ServiceBuilder, ServiceExt, buffer::BufferLayer, limit::ConcurrencyLimitLayer, load_shed::LoadShedLayer, retry::RetryLayer,
    timeout::TimeoutLayer as TowerTimeout,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The rules that `lint` says are broken.
async fn broken(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

/// Builds the same layers in both orders.
macro_rules! orders {
    ($outer:expr, $inner:expr, $service:expr) => {
        (
            ServiceBuilder::new().layer($outer).layer($inner).service($service),
            ServiceBuilder::new().layer($inner).layer($outer).service($service),
        )
    };
}

fn kind(response: &ToolResponse) -> Option<RefusalKind> {
    response.refusal().map(Refusal::kind)
}

fn forever() -> Router {
    Router::new().tool(tool_fn("forever", std::future::pending::<()>))
}

// catch_panic: so that every other layer's panic is caught, and observers within still finish

#[tokio::test]
async fn a_panic_is_caught_by_what_stands_outside_of_it() {
    let recorder = Recorder::new();
    let odd = || map_call("strict", |call| assert!(call.name() != "odd"));
    let (right, swapped) = orders!(CatchPanicLayer::new(), odd(), Router::new());

    let observed =
        ServiceBuilder::new().layer(CatchPanicLayer::new()).layer(recorder.layer("observer")).layer(odd()).service(Router::new());
    let answer = observed.oneshot(ToolCall::new("odd", ())).await.unwrap();
    assert_eq!(kind(&answer), Some(RefusalKind::Internal));
    assert_eq!(recorder.outcomes("observer"), [Outcome::Refused(RefusalKind::Internal)]);

    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["panic-escapes"]);
    assert_eq!(kind(&right.oneshot(ToolCall::new("odd", ())).await.unwrap()), Some(RefusalKind::Internal));
    assert!(AssertUnwindSafe(swapped.oneshot(ToolCall::new("odd", ()))).catch_unwind().await.is_err(), "it was caught");
}

#[tokio::test]
async fn a_panic_within_a_queue_ends_it_unless_it_is_caught_in_there() {
    let odd = || map_call("strict", |call| assert!(call.name() != "odd"));
    let router = || Router::new().tool(sync_tool_fn("even", || "fine"));
    let right = ServiceBuilder::new().layer(calls(BufferLayer::new(4))).layer(CatchPanicLayer::new()).layer(odd()).service(router());
    let swapped = ServiceBuilder::new().layer(CatchPanicLayer::new()).layer(calls(BufferLayer::new(4))).layer(odd()).service(router());
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["panic-ends-queue"]);

    for (stack, later) in [(right.into_stack(), None), (swapped.into_stack(), Some(RefusalKind::Internal))] {
        assert_eq!(kind(&stack.call_tool("odd", ()).await), Some(RefusalKind::Internal));
        assert_eq!(kind(&stack.call_tool("even", ()).await), later);
    }
}

// catch_error: outside all layers whose errors it should catch

#[tokio::test(start_paused = true)]
async fn an_error_is_caught_by_what_stands_outside_of_it() {
    let (right, swapped) = orders!(CatchErrorLayer::new(), TowerTimeout::new(SECOND), forever());
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["error-escapes"]);
    assert_eq!(kind(&right.oneshot(ToolCall::new("forever", ())).await.unwrap()), Some(RefusalKind::Timeout));
    assert!(swapped.oneshot(ToolCall::new("forever", ())).await.is_err(), "it was caught");
}

#[tokio::test(start_paused = true)]
async fn an_observer_outside_sees_a_timeout_as_an_outcome_and_one_within_the_timeout_does_not() {
    let recorder = Recorder::new();
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("outside"))
        .layer(CatchErrorLayer::new())
        .timeout(SECOND)
        .layer(recorder.layer("within"))
        .service(forever());
    stack.call_tool("forever", ()).await;
    assert_eq!(recorder.outcomes("outside"), [Outcome::Refused(RefusalKind::Timeout)]);
    assert_eq!(recorder.outcomes("within"), [Outcome::Cancelled]);
}

// visibility: outside whatever would tell of a hidden tool by treating it otherwise

#[tokio::test]
async fn a_hidden_tool_does_not_show_by_how_it_is_refused() {
    let visible = || VisibilityLayer::new(|tool, _| !tool.has_tag("admin"));
    let rules = || {
        gate_tool("rules", |call, tool| {
            let denied = || Refusal::new(RefusalKind::Denied, format!("{} is for administrators", call.name()));
            if tool.spec().has_tag("admin") { Err(denied()) } else { Ok(()) }
        })
    };
    let (right, swapped) = orders!(visible(), rules(), Router::new().tool(sync_tool_fn("reset", || "done").tag("admin")));
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["decision-before-visibility"]);

    let text = |response: ToolResponse| response.as_text().unwrap_or_default().replace("no_such_tool", "reset");
    assert_eq!(text(right.call_tool("reset", ()).await), text(right.call_tool("no_such_tool", ()).await));
    assert_ne!(text(swapped.call_tool("reset", ()).await), text(swapped.call_tool("no_such_tool", ()).await));
}

// map_call: outside whatever judges a call; one that renames, outside visibility too

#[derive(Deserialize, schemars::JsonSchema)]
struct Read {
    path: String,
}

#[tokio::test]
async fn what_runs_is_what_was_judged() {
    let expand = || {
        map_call("expand", |call| {
            let path = call.arguments.object().unwrap()["path"].as_str().unwrap().replace("~", "/home/ada");
            call.arguments = json!({ "path": path }).into();
        })
    };
    let rules = || {
        gate("rules", |call| {
            let read: Read = call.arguments.deserialize().map_err(Refusal::internal)?;
            if read.path.starts_with("/home") { Err(Refusal::new(RefusalKind::Denied, "not in there")) } else { Ok(()) }
        })
    };
    let probe = Probe::new();
    let (right, swapped) = orders!(expand(), rules(), Router::new().tool(probe.tool("read")));
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["rewrite-after-decision"]);

    assert_eq!(kind(&right.call_tool("read", json!({ "path": "~/secret" })).await), Some(RefusalKind::Denied));
    assert_eq!(probe.runs(), 0);
    assert_eq!(kind(&swapped.call_tool("read", json!({ "path": "~/secret" })).await), None);
    assert_eq!(probe.arguments(), [r#"{"path":"/home/ada/secret"}"#], "what was denied ran");
}

#[tokio::test]
async fn a_tool_is_renamed_before_anybody_judges_it_or_not_at_all() {
    let rename = || {
        map_call("old_names", |call| {
            if call.name() == "ping_v1" {
                call.rename("reset");
            }
        })
    };
    let probe = Probe::new();
    let tools = || Router::new().tool(probe.tool("reset")).tool(sync_tool_fn("ping_v1", || "pong"));
    let (right, swapped) = orders!(rename(), VisibilityLayer::new(|_, _| true), tools());

    assert_eq!(kind(&right.call_tool("ping_v1", ()).await), None);
    assert_eq!(probe.runs(), 1);
    // The router runs no other tool than the one that was judged, whatever the order.
    assert_eq!(kind(&swapped.call_tool("ping_v1", ()).await), Some(RefusalKind::Denied));
    assert_eq!(probe.runs(), 1);
}

// gate, gate_async, gate_tool: inside whatever changes the call; and outside whatever answers in the tool's place

/// Answers each call as the first one was.
#[derive(Default)]
struct Cache(Mutex<Option<ToolResponse>>);

impl Policy for Cache {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("cache").duty(Duty::Answers))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match (request, &*self.0.lock().unwrap()) {
            (View::Call(_), Some(kept)) => Step::answer(kept.clone()),
            _ => Step::Continue(()),
        }
    }

    fn after(&self, (): (), ending: Ending<'_>) {
        if let Ending::Reply(Reply::Call(response)) = ending
            && response.is_completed()
        {
            *self.0.lock().unwrap() = Some(response.clone());
        }
    }
}

#[tokio::test]
async fn a_kept_answer_is_given_to_nobody_who_may_not_have_it() {
    let rules = || {
        gate("rules", |call| match call.arguments.object() {
            Ok(arguments) if arguments["who"] == "ada" => Ok(()),
            _ => Err(Refusal::new(RefusalKind::Denied, "not you")),
        })
    };
    let (right, swapped) = orders!(rules(), PolicyLayer::new(Cache::default()), Router::new().tool(Probe::new().tool("secret")));
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["answer-before-decision"]);

    for (stack, given) in [(right.into_stack(), Some(RefusalKind::Denied)), (swapped.into_stack(), None)] {
        assert_eq!(kind(&stack.call_tool("secret", json!({ "who": "ada" })).await), None);
        assert_eq!(kind(&stack.call_tool("secret", json!({ "who": "eve" })).await), given);
    }
}

/// Calls once more after an error.
#[derive(Clone)]
struct Twice(bool);

impl<E> tower::retry::Policy<ToolCall, ToolResponse, E> for Twice {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, E>) -> Option<Self::Future> {
        (result.is_err() && !std::mem::replace(&mut self.0, true)).then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_once_and_not_for_each_attempt() {
    let asked = Arc::new(AtomicUsize::new(0));
    let ask = || {
        let asked = Arc::clone(&asked);
        gate_async("ask", move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        })
    };
    let failing = || ServiceBuilder::new().timeout(SECOND).service(forever());
    let (right, swapped) = orders!(ask(), calls(RetryLayer::new(Twice(false))), failing());
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["wait-repeated"]);

    right.call_tool("forever", ()).await;
    assert_eq!(asked.swap(0, Ordering::SeqCst), 1);
    swapped.call_tool("forever", ()).await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_caught_within_a_retry_is_not_repeated() {
    let recorder = Recorder::new();
    let failing = || ServiceBuilder::new().timeout(SECOND).layer(recorder.layer("tool")).service(forever());
    let (right, swapped) = orders!(CatchErrorLayer::new(), calls(RetryLayer::new(Twice(false))), failing());
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["results-before-retry"]);

    right.call_tool("forever", ()).await;
    assert_eq!(recorder.starts("tool"), 2);
    swapped.call_tool("forever", ()).await;
    assert_eq!(recorder.starts("tool"), 3);
}

// timeout: inside whatever waits for a person, outside whatever waits for capacity

#[tokio::test(start_paused = true)]
async fn the_time_of_a_person_is_not_the_tool_s() {
    let ask = || {
        gate_async("ask", async |_| {
            tokio::time::sleep(HOUR).await;
            Ok(())
        })
    };
    let (right, swapped) = orders!(ask(), TimeoutLayer::new(SECOND), Router::new().tool(sync_tool_fn("ping", || "pong")));
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["wait-on-the-clock"]);
    assert_eq!(kind(&right.call_tool("ping", ()).await), None);
    assert_eq!(kind(&swapped.call_tool("ping", ()).await), Some(RefusalKind::Timeout));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_permit_is_bounded_by_what_stands_outside_the_limit() {
    let shared = tower::limit::GlobalConcurrencyLimitLayer::new(1);
    let (right, swapped) = orders!(TimeoutLayer::new(SECOND), ConcurrencyLimitLayer::new(1), forever());
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["limit-before-timeout"]);
    let stock = ServiceBuilder::new().layer(TowerTimeout::new(SECOND)).layer(ConcurrencyLimitLayer::new(1)).service(forever());
    assert_eq!(broken(&stock).await, ["timeout-without-queue"]);

    let controlled = Controlled::new();
    let tools = || Router::new().tool(controlled.tool("wait"));
    let right = ServiceBuilder::new().layer(TimeoutLayer::new(SECOND)).layer(shared.clone()).service(tools());
    let swapped = ServiceBuilder::new().layer(shared.clone()).layer(TimeoutLayer::new(SECOND)).service(tools());
    let stock = ServiceBuilder::new().layer(CatchErrorLayer::new()).timeout(SECOND).layer(shared.clone()).service(tools());
    let holder = ServiceBuilder::new().layer(shared).service(tools());
    let held = tokio::spawn(holder.call_tool("wait", ()));
    let _held = controlled.next().await;

    assert_eq!(kind(&right.call_tool("wait", ()).await), Some(RefusalKind::Timeout));
    assert!(tokio::time::timeout(HOUR, swapped.call_tool("wait", ())).await.is_err(), "the wait was bounded");
    assert!(tokio::time::timeout(HOUR, stock.call_tool("wait", ())).await.is_err(), "the wait was bounded");
    held.abort();
}

#[tokio::test(start_paused = true)]
async fn a_tool_s_own_timeout_counts_if_it_is_the_shorter_one() {
    for (outer, inner, rules) in [(30, 5, &[""; 0][..]), (5, 30, &["timeout-never-reached"])] {
        let tool = tool_fn("forever", std::future::pending::<()>).layer(TimeoutLayer::new(inner * SECOND));
        let stack = ServiceBuilder::new().layer(TimeoutLayer::new(outer * SECOND)).service(Router::new().tool(tool));
        assert_eq!(broken(&stack).await, rules);
        let began = tokio::time::Instant::now();
        stack.call_tool("forever", ()).await;
        assert_eq!(began.elapsed(), 5 * SECOND);
    }
}

// tower's load_shed, concurrency_limit: next to the tools; load_shed directly outside the limit that it watches

#[tokio::test(start_paused = true)]
async fn load_is_shed_by_what_stands_directly_outside_the_limit() {
    let far = || ServiceBuilder::new().layer(LoadShedLayer::new()).layer(TimeoutLayer::new(SECOND)).layer(ConcurrencyLimitLayer::new(1));
    let controlled = Controlled::new();
    let tools = || Router::new().tool(controlled.tool("wait"));
    let (right, swapped) = orders!(LoadShedLayer::new(), ConcurrencyLimitLayer::new(1), tools());
    let far = far().service(tools());
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["shed-of-nothing"]);
    assert_eq!(broken(&far).await, ["shed-of-nothing"]);

    for (stack, shed) in [(right.into_stack(), true), (swapped.into_stack(), false), (far.into_stack(), false)] {
        let running = tokio::spawn(stack.call_tool("wait", ()));
        let held = controlled.next().await;
        let second = stack.call_tool("wait", ()).now_or_never();
        assert_eq!(second.as_ref().and_then(kind), shed.then_some(RefusalKind::Overloaded));
        held.respond(ToolResponse::text("done"));
        assert!(running.await.unwrap().is_completed());
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_person_takes_no_room_from_others() {
    let ask = || {
        gate_async("ask", async |call: ToolCall| {
            if call.name() == "write" {
                tokio::time::sleep(HOUR).await;
            }
            Ok(())
        })
    };
    let tools = || Router::new().tool(sync_tool_fn("write", || "written")).tool(sync_tool_fn("ping", || "pong"));
    let (right, swapped) = orders!(ask(), ConcurrencyLimitLayer::new(1), tools());
    assert_eq!(broken(&right).await, [""; 0]);
    assert_eq!(broken(&swapped).await, ["wait-within-limit"]);

    for (stack, wait) in [(right.into_stack(), Duration::ZERO), (swapped.into_stack(), HOUR)] {
        let waiting = tokio::spawn(stack.call_tool("write", ()));
        tokio::task::yield_now().await;
        let began = tokio::time::Instant::now();
        assert!(stack.call_tool("ping", ()).await.is_completed());
        assert_eq!(began.elapsed(), wait);
        assert!(waiting.await.unwrap().is_completed());
    }
}

// map_result, map_list: outside whatever should see it unchanged

#[tokio::test]
async fn who_stands_within_a_layer_that_changes_results_sees_them_unchanged() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observe = || {
        let seen = Arc::clone(&seen);
        after("audit", move |ending| {
            if let Ending::Reply(Reply::Call(response)) = ending {
                seen.lock().unwrap().push(response.as_text().unwrap_or_default().into_owned());
            }
        })
    };
    let redact = || map_result("redact", |result| result.set_content(["[redacted]".into()]));
    let (right, swapped) = orders!(redact(), observe(), Router::new().tool(sync_tool_fn("secret", || "hunter2")));
    for stack in [right.into_stack(), swapped.into_stack()] {
        assert_eq!(stack.call_tool("secret", ()).await.as_text().as_deref(), Some("[redacted]"));
    }
    // Which of the two an audit should have is for whoever keeps it to say, so lint says nothing.
    assert_eq!(*seen.lock().unwrap(), ["hunter2", "[redacted]"]);
}

#[tokio::test]
async fn lists_and_calls_agree_on_what_is_hidden_in_either_order() {
    let untag = || {
        map_list("untag", |list, _| {
            list.map(|tool| {
                let mut tool = (*tool).clone();
                tool.tags.clear();
                tool.into()
            });
        })
    };
    let visible = || VisibilityLayer::new(|tool, _| !tool.has_tag("admin"));
    let (one, other) = orders!(untag(), visible(), Router::new().tool(sync_tool_fn("reset", || "done").tag("admin")));
    for stack in [one.into_stack(), other.into_stack()] {
        assert_eq!(broken(&stack).await, [""; 0]);
        // Visibility is decided by the tool as it would be called, whatever a list says of it.
        assert_eq!(stack.list_tools().await.names().count(), 0);
        assert_eq!(kind(&stack.call_tool("reset", ()).await), Some(RefusalKind::UnknownTool));
    }
}

#[tokio::test]
async fn the_first_layer_is_outermost_whatever_it_is_built_with() {
    let recorder = Recorder::new();
    let builder = ServiceBuilder::new().layer(recorder.layer("A")).layer(recorder.layer("B")).service(Router::new());
    builder.call_tool("none", ()).await;
    assert_eq!(recorder.trace(), "A> B> B< A<");

    // `Router::layer` and `Tool::layer` wrap what is there, so the last one is outermost.
    let recorder = Recorder::new();
    let tool = sync_tool_fn("ping", || "pong").layer(recorder.layer("D")).layer(recorder.layer("C"));
    let router = Router::new().tool(tool).layer(recorder.layer("B")).layer(recorder.layer("A"));
    router.call_tool("ping", ()).await;
    assert_eq!(recorder.trace(), "A> B> C> D> D< C< B< A<");
}
