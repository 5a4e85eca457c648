//! Running: answers for all, independence, time, cancellation. The cases C1, C2, F8, F10, F11, F13, F15 and H8.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use proptest::prelude::*;
use serde_json::json;
use tokio::{
    runtime::Handle,
    task::yield_now,
    time::{Instant, sleep},
};
use toolstack::{
    BoxError, Refusal, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
    describe::Note,
    layer::{
        CallsLayer, CatchErrorLayer, CatchPanicLayer, Ending, Policy, PolicyLayer, Site, Step, TimeoutLayer, VisibilityLayer, calls, gate,
        gate_async, gate_tool, map_result,
    },
    middleware::{Next, from_fn},
    model::{CallId, Cancellation, Context, InputRequired, Outcome, Progress, ProgressUpdate, TaskHandle},
    operation::View,
    run::Turn,
    stack::Reentry,
    testing::{Controlled, Probe, Recorder},
    tool::{Tool, ToolError, blocking_tool_fn, sync_tool_fn, tool_fn},
};
use tower::{
    ServiceBuilder, ServiceExt, buffer::BufferLayer, limit::ConcurrencyLimitLayer, load_shed::LoadShedLayer, retry::RetryLayer,
    spawn_ready::SpawnReadyLayer,
};

use super::hooks::{FORMS, block_on, denied, dropped_after, endings, every_form, json_of, settle, spec, stack, troubled, yield_false};

const SECOND: Duration = Duration::from_secs(1);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// C1: as many answers as calls.

/// Ids as providers send them: texts, numbers, empty ones and the same twice.
fn ids() -> impl Strategy<Value = CallId> {
    prop_oneof![
        (0..4_i64).prop_map(CallId::from),
        (0..4_u8).prop_map(|n| CallId::from(format!("call_{n}"))),
        Just(CallId::from("")),
        Just(CallId::from("1")),
        any::<String>().prop_map(CallId::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn c01_every_call_has_one_answer_with_its_id_at_its_place(
        wanted in proptest::collection::vec((0..24_usize, ids()), 0..14),
        at_once in 0..20_usize,
        fail_fast: bool,
        limit in 1..4_usize,
        shed: bool,
    ) {
        // The last one is a tool that is not there.
        let known: Vec<_> = endings().into_iter().map(|(tool, outcome)| (tool.spec().name.to_string(), outcome)).collect();
        let name_of = |index: usize| known.get(index).map_or("no_such_tool", |(name, _)| name.as_str());
        let calls: Vec<_> = wanted.iter().map(|(index, id)| ToolCall::new(name_of(*index), json!({})).with_id(id.clone())).collect();

        let recorder = Recorder::new();
        let seen: Arc<Mutex<Vec<CallId>>> = Arc::default();
        let look = {
            let seen = Arc::clone(&seen);
            gate("look", move |call: &mut ToolCall| {
                seen.lock().unwrap().push(call.id.clone());
                Ok(())
            })
        };
        let around = ServiceBuilder::new().layer(recorder.layer("A")).layer(look);
        let stack = if shed {
            Stack::new(around.load_shed().concurrency_limit(limit).service(troubled()))
        } else {
            Stack::new(around.concurrency_limit(limit).service(troubled()))
        };
        let turn = if fail_fast { Turn::new().at_once(at_once).fail_fast() } else { Turn::new().at_once(at_once) };
        let answers = block_on(turn.run(&stack, calls));

        let asked: Vec<_> = wanted.iter().map(|(index, id)| (id.clone(), name_of(*index).to_owned())).collect();
        let answered: Vec<_> = answers.iter().map(|answer| (answer.id.clone(), answer.name.to_string())).collect();
        prop_assert_eq!(answered, asked);
        for ((index, _), answer) in wanted.iter().zip(&answers) {
            let own = known.get(*index).map_or(Outcome::Refused(RefusalKind::UnknownTool), |(_, outcome)| *outcome);
            let shed_it = shed && answer.outcome() == Outcome::Refused(RefusalKind::Overloaded);
            let cut_off = fail_fast && answer.outcome() == Outcome::Cancelled;
            prop_assert!(answer.outcome() == own || shed_it || cut_off, "{}: {:?}", answer.name, answer.response);
            if answer.outcome().is_error() {
                prop_assert!(answer.response.as_text().is_some_and(|text| !text.is_empty()), "{} tells the model nothing", answer.name);
            }
        }
        // Layers saw each call under an id of its own, whatever was sent.
        let seen = seen.lock().unwrap();
        prop_assert_eq!(seen.iter().collect::<HashSet<_>>().len(), seen.len());
        prop_assert!(seen.iter().all(|id| !id.is_empty()));
        prop_assert_eq!(recorder.starts("A"), recorder.outcomes("A").len());
    }
}

#[tokio::test(start_paused = true)]
async fn c01_a_turn_without_calls_has_no_answers_and_one_of_many_has_all() {
    let stack = stack!(
        calls(BufferLayer::new(2)),
        ConcurrencyLimitLayer::new(128),
        every_form(|call| { ToolResponse::text(call.arguments.as_json().unwrap().to_owned()) })
    );
    assert!(stack.run_calls(Vec::new()).await.is_empty());
    let many = (0..500).map(|n| ToolCall::new(FORMS[n % FORMS.len()], json!({ "n": n })).with_id(n as i64)).collect();
    let answers = Turn::new().at_once(64).run(&stack, many).await;
    assert_eq!(answers.len(), 500);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.id, CallId::from(n as i64));
        assert_eq!(answer.response.as_text().as_deref(), Some(json!({ "n": n }).to_string().as_str()), "{}", answer.name);
    }
}

#[tokio::test(start_paused = true)]
async fn c01_a_response_is_never_silent_about_an_error_in_the_form_that_a_model_gets() {
    let stack = Stack::new(troubled());
    for (tool, outcome) in endings() {
        let response = stack.call_tool(tool.spec().name.as_str(), json!({})).await;
        let json: serde_json::Value = serde_json::from_str(&json_of(&response)).unwrap();
        assert_eq!(json.get("isError") == Some(&true.into()), outcome.is_error(), "{}", tool.spec().name);
        let kind = match outcome {
            Outcome::InputRequired => "input_required",
            Outcome::Task => "task",
            _ => "complete",
        };
        assert_eq!(json["resultType"], kind, "{}", tool.spec().name);
    }
}

// C2: a call that fails is nobody else's matter.

#[tokio::test(start_paused = true)]
async fn c02_whatever_happens_to_one_call_the_others_are_answered_as_if_alone() {
    for at_once in [1, 2, 8] {
        for (tool, outcome) in endings() {
            let name = tool.spec().name.to_string();
            let stack = Stack::new(troubled());
            let batch = ["completes", &name, "says_error", &name, "completes_empty"];
            let calls = batch.iter().map(|name| ToolCall::new(name, json!({}))).collect();
            let outcomes: Vec<_> = Turn::new().at_once(at_once).run(&stack, calls).await.iter().map(|answer| answer.outcome()).collect();
            assert_eq!(
                outcomes,
                [Outcome::Completed, outcome, Outcome::ToolError, outcome, Outcome::Completed],
                "{name}, {at_once} at once"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c02_siblings_that_run_at_the_same_time_finish_after_one_has_failed() {
    let controlled = Controlled::new();
    let router = Router::new()
        .tool(controlled.tool("wait"))
        .tool(sync_tool_fn("fails", || Err::<(), _>(ToolError::new("no"))))
        .tool(tool_fn("panics", || async { assert!(yield_false(), "now") }));
    let stack = stack!(gate("deny", |call| if call.name() == "denied" { Err(denied("deny")) } else { Ok(()) }), router);
    let calls = ["wait", "fails", "denied", "panics", "wait"].map(|name| ToolCall::new(name, json!({}))).to_vec();
    let (answers, ()) = tokio::join!(stack.run_calls(calls), async {
        for _ in 0..2 {
            let held = controlled.next().await;
            sleep(secs(60)).await;
            held.respond(ToolResponse::text("in the end"));
        }
    });
    let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome()).collect();
    let (refused, internal) = (Outcome::Refused(RefusalKind::Denied), Outcome::Refused(RefusalKind::Internal));
    assert_eq!(outcomes, [Outcome::Completed, Outcome::ToolError, refused, internal, Outcome::Completed]);
    assert_eq!(controlled.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn c02_fail_fast_is_asked_for_and_still_answers_all() {
    for (tool, outcome) in endings().into_iter().filter(|(_, outcome)| outcome.is_error()) {
        let name = tool.spec().name.to_string();
        let probe = Probe::new();
        let stack =
            stack!(Router::new().tool(probe.tool("after")).merge(Router::new().layer(map_result("none", |_| {}))).fallback(troubled()));
        let batch = ["completes", &name, "after", "after"];
        let calls: Vec<_> = batch.iter().map(|name| ToolCall::new(name, json!({}))).collect();
        let answers = Turn::new().at_once(1).fail_fast().run(&stack, calls.clone()).await;
        let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome()).collect();
        assert_eq!(outcomes, [Outcome::Completed, outcome, Outcome::Cancelled, Outcome::Cancelled], "{name}");
        assert_eq!(probe.runs(), 0, "{name}: what was not begun is not begun any more");
        // Not asked for, nothing of the kind happens.
        Turn::new().at_once(1).run(&stack, calls).await;
        assert_eq!(probe.runs(), 2, "{name}");
    }
}

// F8: progress puts off the idle limit, and nothing else.

/// Works for so many seconds and reports every `every` of them.
fn worker(name: &str, seconds: u64, every: u64) -> Tool {
    tool_fn(name, move |progress: Progress| async move {
        for second in 1..=seconds {
            sleep(SECOND).await;
            if second % every == 0 {
                progress.report(ProgressUpdate::new(second as f64).total(seconds as f64));
            }
        }
        "done"
    })
    .boxed()
}

/// Where the timeout may stand, and what the tool may be: the same times everywhere.
fn places(timeout: TimeoutLayer, tool: &dyn Fn(&str) -> Tool) -> Vec<(&'static str, Stack, &'static str)> {
    let plain = || Router::new().tool(tool("w"));
    let longer = || TimeoutLayer::new(secs(1000)).idle(secs(500));
    let queue = || calls(BufferLayer::new(4));
    let again = || Tool::from_service(spec("w"), Stack::new(plain()));
    vec![
        ("in the stack", stack!(timeout, plain()), "w"),
        ("around a queue", stack!(timeout, queue(), plain()), "w"),
        ("around a limit", stack!(timeout, ConcurrencyLimitLayer::new(1), plain()), "w"),
        ("within a queue", stack!(queue(), timeout, plain()), "w"),
        ("around a nested router", stack!(Router::new().nest("ns", plain().layer(timeout))), "ns.w"),
        ("outside a nested router", stack!(timeout, Router::new().nest("ns", plain().layer(longer()))), "ns.w"),
        ("around one tool", stack!(Router::new().tool(tool("w").layer(timeout))), "w"),
        ("around a service", stack!(timeout, Router::new().tool(again())), "w"),
        ("around a longer one", stack!(timeout, longer(), plain()), "w"),
        ("within a longer one", stack!(longer(), timeout, plain()), "w"),
    ]
}

#[tokio::test(start_paused = true)]
async fn f08_the_idle_limit_and_the_total_act_apart() {
    let limits = TimeoutLayer::new(secs(30)).idle(secs(10));
    // Seconds of work, seconds between reports, when it ends, whether it is done.
    for (work, every, end, done) in [
        (24, 3, 24, true),    // reports in time
        (60, 3, 30, false),   // reports in time, and for too long
        (60, 100, 10, false), // reports never
        (9, 100, 9, true),    // reports never, and need not
        (28, 9, 28, true),
        (60, 11, 10, false), // reports too late
        (30, 3, 30, true),   // is done at the last moment
    ] {
        for (place, stack, name) in places(limits, &|name| worker(name, work, every)) {
            let began = Instant::now();
            let response = stack.call_tool(name, json!({})).await;
            let what = format!("{work} s, a report every {every} s, {place}: {response:?}");
            assert_eq!(began.elapsed(), secs(end), "{what}");
            assert_eq!(response.is_completed(), done, "{what}");
            if !done {
                assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Timeout), "{what}");
                let text = response.as_text().unwrap().into_owned();
                // The timeout tells how far it was.
                assert_eq!(text.contains(&format!("{} of {work}", end / every * every)), every <= end, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f08_every_report_goes_on_to_whoever_listens() {
    for (place, stack, name) in places(TimeoutLayer::new(secs(30)).idle(secs(10)), &|name| worker(name, 12, 3)) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let progress = {
            let heard = Arc::clone(&heard);
            Progress::new(move |update| heard.lock().unwrap().push(update.progress))
        };
        let context = Context::new().with_progress(progress);
        assert!(stack.run_call(ToolCall::new(name, json!({})).with_context(context)).await.is_completed(), "{place}");
        assert_eq!(*heard.lock().unwrap(), [3.0, 6.0, 9.0, 12.0], "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn f08_progress_puts_no_deadline_off() {
    for (place, stack, name) in places(TimeoutLayer::new(secs(30)).idle(secs(10)), &|name| worker(name, 60, 3)) {
        let began = Instant::now();
        let context = Context::new().with_deadline(began + secs(20));
        let response = stack.run_call(ToolCall::new(name, json!({})).with_context(context)).await;
        assert_eq!((began.elapsed(), response.refusal().map(Refusal::kind)), (secs(20), Some(RefusalKind::Timeout)), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn f08_the_narrower_of_two_idle_limits_counts_and_both_hear_the_progress() {
    for (outer, inner, end) in [(5, 20, 5), (20, 5, 5), (20, 20, 20)] {
        let stack = stack!(
            TimeoutLayer::new(secs(900)).idle(secs(outer)),
            TimeoutLayer::new(secs(900)).idle(secs(inner)),
            Router::new().tool(worker("silent", 60, 100)).tool(worker("speaks", 60, 4))
        );
        let began = Instant::now();
        assert_eq!(stack.call_tool("silent", json!({})).await.refusal().map(Refusal::kind), Some(RefusalKind::Timeout));
        assert_eq!(began.elapsed(), secs(end));
        assert!(stack.call_tool("speaks", json!({})).await.is_completed());
    }
}

#[tokio::test(start_paused = true)]
async fn f08_a_tool_whose_inner_call_makes_progress_is_not_idle() {
    let caller = tool_fn("caller", |stack: Reentry| async move { stack.call_tool("speaks", json!({})).await });
    let stack = stack!(TimeoutLayer::new(secs(90)).idle(secs(10)), Router::new().tool(caller).tool(worker("speaks", 60, 3)));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let progress = {
        let heard = Arc::clone(&heard);
        Progress::new(move |update| heard.lock().unwrap().push(update.progress))
    };
    let response = stack.run_call(ToolCall::new("caller", json!({})).with_context(Context::new().with_progress(progress))).await;
    assert!(response.is_completed(), "{response:?}");
    // What the inner call counts is not what the outer one would.
    assert!(heard.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn f08_a_report_after_the_end_does_nothing() {
    let kept = Arc::new(Mutex::new(None));
    let keeps = {
        let kept = Arc::clone(&kept);
        tool_fn("keeps", move |progress: Progress| {
            *kept.lock().unwrap() = Some(progress);
            std::future::pending::<()>()
        })
    };
    let stack = stack!(TimeoutLayer::new(secs(30)).idle(secs(10)), Router::new().tool(keeps));
    assert_eq!(stack.call_tool("keeps", json!({})).await.refusal().map(Refusal::kind), Some(RefusalKind::Timeout));
    let progress = kept.lock().unwrap().take().unwrap();
    progress.report(ProgressUpdate::new(f64::NAN).total(f64::INFINITY).message("late"));
    let began = Instant::now();
    assert_eq!(stack.call_tool("keeps", json!({})).await.refusal().map(Refusal::kind), Some(RefusalKind::Timeout));
    assert_eq!(began.elapsed(), secs(10));
}

// F10: who drops the call drops the tool.

/// A tool that waits, at every place where a tool can be.
fn waiting_everywhere(controlled: &Controlled) -> Router {
    let by_hand = Router::new().tool(controlled.tool("service"));
    let caller = tool_fn("caller", |stack: Reentry| async move { stack.call_tool("plain", json!({})).await });
    let turn = tool_fn("turn", |stack: Reentry| async move {
        let calls = ["plain", "own", "ns.nested"].map(|name| stack.call_tool(name, json!({})));
        futures_util::future::join_all(calls).await.pop().unwrap()
    });
    Router::new()
        .tool(controlled.tool("plain"))
        .tool(controlled.tool("own").layer(TimeoutLayer::new(secs(3600))).layer(gate_async("ask", async |_| Ok(()))))
        .tool(Tool::from_service(spec("service"), Stack::new(by_hand)))
        .nest("ns", Router::new().tool(controlled.tool("nested")).layer(VisibilityLayer::new(|_, _| true)))
        .merge(Router::new().tool(controlled.tool("merged")).layer(LoadShedLayer::new()))
        .tool(caller)
        .tool(turn)
}

/// Where it waits, and how many calls of it that makes.
const WAITING: [(&str, usize); 7] = [("plain", 1), ("own", 1), ("service", 1), ("ns.nested", 1), ("merged", 1), ("caller", 1), ("turn", 3)];

/// Layers around, by name: what passes a call on from one future to another.
fn around(name: &str, router: Router) -> Stack {
    let ask = || {
        gate_async("ask", async |_| {
            yield_now().await;
            Ok(())
        })
    };
    let hour = || TimeoutLayer::new(secs(3600));
    let visible = || VisibilityLayer::new(|_, _| true);
    match name {
        "nothing" => stack!(router),
        "catch" => stack!(CatchPanicLayer::new(), CatchErrorLayer::new(), router),
        "timeout" => stack!(hour(), tower::timeout::TimeoutLayer::new(secs(3600)), router),
        "from_fn" => stack!(from_fn(async |call: ToolCall, next: Next<_>| next.run(call).await), router),
        "gates" => stack!(ask(), gate_tool("look", |_, _| Ok(())), visible(), router),
        "limit" => stack!(LoadShedLayer::new(), ConcurrencyLimitLayer::new(8), router),
        "buffer" => stack!(calls(BufferLayer::new(8)), router),
        "spawn_ready" => stack!(spawn_ready(), ConcurrencyLimitLayer::new(8), router),
        "retry" => stack!(calls(RetryLayer::new(Once)), router),
        _ => {
            stack!(CatchPanicLayer::new(), calls(BufferLayer::new(8)), hour(), visible(), ConcurrencyLimitLayer::new(8), Stack::new(router))
        }
    }
}

const AROUND: [&str; 10] = ["nothing", "catch", "timeout", "from_fn", "gates", "limit", "buffer", "spawn_ready", "retry", "all"];

/// Cannot be cloned, and so stands within a buffer.
fn spawn_ready() -> CallsLayer<tower::layer::util::Stack<SpawnReadyLayer, BufferLayer<ToolCall>>> {
    calls(tower::layer::util::Stack::new(SpawnReadyLayer::new(), BufferLayer::new(8)))
}

/// Repeats nothing: only to have tower's retry in the way.
#[derive(Clone)]
struct Once;

impl tower::retry::Policy<ToolCall, ToolResponse, BoxError> for Once {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, _: &mut Result<ToolResponse, BoxError>) -> Option<Self::Future> {
        None
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn f10_a_dropped_call_drops_its_tool_at_once_through_everything() {
    for layers in AROUND {
        for (name, running) in WAITING {
            for entry in ["call", "turn"] {
                let controlled = Controlled::new();
                let stack = around(layers, waiting_everywhere(&controlled));
                let call = ToolCall::new(name, json!({}));
                let asked = async {
                    match entry {
                        "call" => drop(stack.run_call(call).await),
                        _ => drop(stack.run_calls(vec![call]).await),
                    }
                };
                let mut held = Vec::new();
                tokio::select! {
                    () = asked => panic!("it waits for ever"),
                    () = async {
                        while held.len() < running {
                            held.push(controlled.next().await);
                        }
                    } => {}
                }
                // Here and now, without waiting for anybody.
                let what = format!("{name} by {entry} through {layers}");
                assert_eq!((controlled.in_flight(), controlled.dropped()), (0, running), "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f10_a_call_dropped_before_its_turn_never_begins() {
    for layers in ["limit", "buffer", "spawn_ready", "all"] {
        let controlled = Controlled::new();
        let stack = stack!(ConcurrencyLimitLayer::new(1), around(layers, waiting_everywhere(&controlled)));
        let first = tokio::spawn(stack.call_tool("plain", json!({})));
        let held = controlled.next().await;
        // Queued behind the first one, and given up.
        assert!(dropped_after(5, stack.call_tool("plain", json!({}))).await.is_none(), "{layers}");
        held.respond(ToolResponse::text("first"));
        first.await.unwrap();
        settle().await;
        assert_eq!((controlled.peak(), controlled.dropped()), (1, 0), "{layers}: the one that was given up has not begun");
    }
}

#[tokio::test]
async fn f10_a_function_on_a_thread_hears_that_its_call_was_dropped() {
    for context in [Context::new(), Context::new().with_cancellation(Cancellation::new())] {
        let (began, mut beginning) = tokio::sync::mpsc::unbounded_channel();
        let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
        let blocking = move || {
            let (began, heard) = (began.clone(), heard.clone());
            move |cancellation: Cancellation| {
                let _ = began.send(());
                Handle::current().block_on(cancellation.cancelled());
                let _ = heard.send(());
            }
        };
        let caller = tool_fn("caller", |stack: Reentry| async move { stack.call_tool("blocks", json!({})).await });
        let stack = Stack::new(
            Router::new()
                .tool(blocking_tool_fn("blocks", blocking()))
                .tool(blocking_tool_fn("own", blocking()).layer(TimeoutLayer::new(secs(3600))))
                .nest("ns", Router::new().tool(blocking_tool_fn("blocks", blocking())))
                .tool(caller),
        );
        for name in ["blocks", "own", "ns.blocks", "caller"] {
            let call = ToolCall::new(name, json!({})).with_context(context.clone());
            tokio::select! {
                _ = stack.run_call(call) => panic!("{name} waits for ever"),
                _ = beginning.recv() => {}
            }
            hearing.recv().await.unwrap();
            // Only this one call was cancelled, not whatever the context is part of.
            assert!(context.cancellation().is_none_or(|cancellation| !cancellation.is_cancelled()), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f10_a_timeout_and_a_fail_fast_turn_drop_what_they_stop() {
    let controlled = Controlled::new();
    let stack = stack!(TimeoutLayer::new(SECOND), waiting_everywhere(&controlled));
    let mut all = 0;
    for (name, running) in WAITING {
        all += running;
        assert_eq!(stack.call_tool(name, json!({})).await.refusal().map(Refusal::kind), Some(RefusalKind::Timeout), "{name}");
        assert_eq!((controlled.in_flight(), controlled.dropped()), (0, all), "{name}");
    }
}

// F11: what a dropped call held is free again.

/// Stacks with one permit, which stands in another place in each.
fn with_one_permit(tool: &dyn Fn(&str) -> Tool) -> Vec<(&'static str, Stack, &'static str)> {
    let one = || ConcurrencyLimitLayer::new(1);
    let plain = || Router::new().tool(tool("t"));
    let ask = || {
        gate_async("ask", async |_| {
            yield_now().await;
            Ok(())
        })
    };
    let slow = || {
        from_fn(async |call: ToolCall, next: Next<_>| {
            yield_now().await;
            next.run(call).await
        })
    };
    let long = || TimeoutLayer::new(secs(900));
    let tower_s = || tower::timeout::TimeoutLayer::new(secs(900));
    let queue = || calls(BufferLayer::new(2));
    let visible = || VisibilityLayer::new(|_, _| true);
    let look = || gate_tool("look", |_, _| Ok(()));
    let see = || gate("see", |_| Ok(()));
    vec![
        ("alone", stack!(one(), plain()), "t"),
        ("outermost", stack!(one(), ask(), long(), plain()), "t"),
        ("innermost", stack!(CatchPanicLayer::new(), ask(), long(), visible(), one(), plain()), "t"),
        ("between two that wait", stack!(ask(), one(), ask(), plain()), "t"),
        ("under load_shed", stack!(ask(), LoadShedLayer::new(), one(), plain()), "t"),
        ("within a buffer", stack!(queue(), one(), plain()), "t"),
        ("around a buffer", stack!(one(), queue(), plain()), "t"),
        ("under spawn_ready", stack!(spawn_ready(), one(), plain()), "t"),
        ("under from_fn", stack!(slow(), one(), plain()), "t"),
        ("under retry", stack!(calls(RetryLayer::new(Once)), one(), plain()), "t"),
        ("under tower's timeout", stack!(tower_s(), one(), plain()), "t"),
        ("under gates", stack!(look(), see(), one(), plain()), "t"),
        ("around a router", stack!(plain().layer(one())), "t"),
        ("around a nested router", stack!(Router::new().nest("ns", plain().layer(one()))), "ns.t"),
        ("around one tool", stack!(Router::new().tool(tool("t").layer(one()))), "t"),
        ("around a tool that waits", stack!(Router::new().tool(tool("t").layer(ask()).layer(one()))), "t"),
        ("around a service", stack!(Router::new().tool(Tool::from_service(spec("t"), stack!(one(), plain())))), "t"),
        ("in a stack in a stack", stack!(ask(), stack!(one(), plain())), "t"),
        ("twice", stack!(one(), ask(), one(), plain()), "t"),
    ]
}

fn slow_tool(name: &str) -> Tool {
    tool_fn(name, || async {
        for _ in 0..3 {
            yield_now().await;
        }
        "done"
    })
    .boxed()
}

/// Calls again, and hopes for an answer within any time at all.
async fn still_answers(stack: &Stack, name: &str, what: &str) {
    let answer = tokio::time::timeout(secs(3600 * 24), stack.call_tool(name, json!({}))).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what}: the permit is gone"));
    assert!(answer.is_completed(), "{what}: {answer:?}");
}

#[tokio::test(start_paused = true)]
async fn f11_a_call_dropped_at_any_of_its_polls_gives_the_permit_back() {
    for at in 0..with_one_permit(&slow_tool).len() {
        for warm in [false, true] {
            let mut over = false;
            for polls in 0..60 {
                let (place, stack, name) = with_one_permit(&slow_tool).swap_remove(at);
                let what = format!("{place}, dropped after {polls} polls");
                if warm {
                    still_answers(&stack, name, &what).await;
                }
                over = dropped_after(polls, stack.call_tool(name, json!({}))).await.is_some();
                settle().await;
                still_answers(&stack, name, &what).await;
                if over {
                    break;
                }
            }
            assert!(over, "the call is never over");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f11_a_call_dropped_while_it_waits_for_the_permit_takes_none_with_it() {
    let controlled = Controlled::new();
    for (place, stack, name) in with_one_permit(&|name| controlled.tool(name).boxed()) {
        let first = tokio::spawn(stack.call_tool(name, json!({})));
        let held = controlled.next().await;
        for polls in 1..6 {
            // Shed at once, where load is shed.
            let answer = dropped_after(polls, stack.call_tool(name, json!({}))).await;
            assert!(answer.is_none_or(|answer| answer.refusal().map(Refusal::kind) == Some(RefusalKind::Overloaded)), "{place}");
        }
        settle().await;
        held.respond(ToolResponse::text("first"));
        assert!(first.await.unwrap().is_completed(), "{place}");
        let next = tokio::spawn(stack.call_tool(name, json!({})));
        controlled.next().await.respond(ToolResponse::text("next"));
        assert!(next.await.unwrap().is_completed(), "{place}");
        assert_eq!((controlled.in_flight(), controlled.peak()), (0, 1), "{place}: never more than one ran");
    }
}

#[tokio::test(start_paused = true)]
async fn f11_no_ending_keeps_the_permit() {
    for (tool, outcome) in endings() {
        let name = tool.spec().name.to_string();
        let router = || endings().into_iter().fold(Router::new(), |router, (tool, _)| router.tool(tool));
        let ask = || gate_async("ask", async |_| Ok(()));
        let (one, five) = (|| ConcurrencyLimitLayer::new(1), || TimeoutLayer::new(secs(5)));
        for stack in [
            stack!(one(), troubled()),
            stack!(five(), ask(), one(), router()),
            stack!(tower::timeout::TimeoutLayer::new(secs(5)), one(), router()),
            stack!(five(), calls(BufferLayer::new(2)), one(), router()),
            stack!(five(), router().layer(one())),
        ] {
            for _ in 0..3 {
                let ending = stack.call_tool(&name, json!({})).await.outcome();
                assert!(ending == outcome || ending == Outcome::Completed, "{name}: {ending}");
                settle().await;
                still_answers(&stack, "completes", &name).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f11_a_turn_dropped_at_any_of_its_polls_gives_every_permit_and_mark_back() {
    for polls in 0..60 {
        let recorder = Recorder::new();
        let stack = stack!(recorder.layer("in flight"), ConcurrencyLimitLayer::new(1), Router::new().tool(slow_tool("t")));
        let calls = (0..4).map(|_| ToolCall::new("t", json!({}))).collect();
        let over = dropped_after(polls, stack.run_calls(calls)).await.is_some();
        assert_eq!(recorder.starts("in flight"), recorder.outcomes("in flight").len(), "after {polls} polls");
        still_answers(&stack, "t", &format!("after {polls} polls")).await;
        if over {
            return;
        }
    }
    panic!("the turn is never over");
}

#[tokio::test(start_paused = true)]
async fn f11_an_instance_that_is_ready_and_dropped_uncalled_gives_the_permit_back() {
    let chain = ServiceBuilder::new()
        .gate("see", |_| Ok(()))
        .call_timeout(secs(900))
        .concurrency_limit(1)
        .service(Router::new().tool(slow_tool("t")));
    for _ in 0..3 {
        let mut ready = chain.clone();
        ServiceExt::<ToolCall>::ready(&mut ready).await.unwrap();
        drop(ready);
        let answer = tokio::time::timeout(secs(900), chain.call_tool("t", json!({}))).await;
        assert!(answer.expect("the permit is gone").is_completed());
    }
}

// F13: what a tool does to itself stays with it.

#[tokio::test(start_paused = true)]
async fn f13_a_tool_that_cancels_work_of_its_own_ends_itself_alone() {
    let aborts = || {
        let task = tokio::spawn(std::future::pending::<()>());
        task.abort();
        task
    };
    let controlled = Controlled::new();
    let router = Router::new()
        .tool(tool_fn("by_question_mark", move || async move { Ok::<_, ToolError>(aborts().await?) }))
        .tool(tool_fn("by_unwrap", move || async move { aborts().await.unwrap() }))
        .tool(tool_fn("by_timeout", || async { tokio::time::timeout(SECOND, std::future::pending::<()>()).await.map_err(ToolError::from) }))
        .tool(tool_fn("by_token", |cancellation: Cancellation| async move {
            cancellation.cancel();
            Err::<(), _>(ToolError::new("I have cancelled myself"))
        }))
        .tool(blocking_tool_fn("by_token_on_a_thread", |cancellation: Cancellation| {
            cancellation.cancel();
            Err::<(), _>(ToolError::new("I have cancelled myself"))
        }))
        .tool(tool_fn("by_refusal", || async { Err::<(), _>(Refusal::new(RefusalKind::Cancelled, "I have cancelled myself")) }))
        .tool(tool_fn("by_an_inner_call", |stack: Reentry| async move {
            tokio::select! {
                response = stack.call_tool("wait", json!({})) => response,
                () = sleep(SECOND) => ToolResponse::error("I have given the other one up"),
            }
        }))
        .tool(controlled.tool("wait"))
        .tool(tool_fn("sibling", |cancellation: Cancellation, context: Context| async move {
            sleep(secs(60)).await;
            let gone = cancellation.is_cancelled() || context.cancellation().is_some_and(Cancellation::is_cancelled);
            if gone { Err("cancelled with the other one") } else { Ok("fine") }
        }));
    let stack = stack!(calls(BufferLayer::new(8)), ConcurrencyLimitLayer::new(4), router);

    let run = Cancellation::new();
    for name in ["by_question_mark", "by_unwrap", "by_timeout", "by_token", "by_token_on_a_thread", "by_refusal", "by_an_inner_call"] {
        for context in [Context::new(), Context::new().with_cancellation(run.clone())] {
            let calls = ["sibling", name, "sibling"].map(|name| ToolCall::new(name, json!({})).with_context(context.clone())).to_vec();
            let answers = stack.run_calls(calls).await;
            assert!(answers[1].outcome().is_error(), "{name}: {:?}", answers[1].response);
            for sibling in [&answers[0], &answers[2]] {
                assert_eq!(sibling.response.as_text().as_deref(), Some("fine"), "beside {name}");
            }
            assert!(!run.is_cancelled(), "{name} has cancelled the whole run");
            assert_eq!(stack.call_tool("sibling", json!({})).await.as_text().as_deref(), Some("fine"), "after {name}");
        }
    }
}

// F15: fail fast leaves nothing behind, and nothing else stops early.

#[tokio::test(start_paused = true)]
async fn f15_fail_fast_drops_the_siblings_before_it_answers_and_leaves_no_task() {
    for layers in AROUND {
        let controlled = Controlled::new();
        let probe = Probe::new();
        let router = waiting_everywhere(&controlled).tool(probe.tool("begun_late")).tool(tool_fn("fatal", || async {
            sleep(SECOND).await;
            Err::<(), _>(ToolError::new("fatal"))
        }));
        let stack = around(layers, router.clone());
        // The worker of a queue lives as long as its stack.
        stack.call_tool("begun_late", json!({})).await;
        settle().await;
        let before = Handle::current().metrics().num_alive_tasks();

        let names = ["plain", "ns.nested", "fatal", "caller", "begun_late"];
        let calls = names.map(|name| ToolCall::new(name, json!({})).with_id(name)).to_vec();
        let answers = Turn::new().at_once(4).fail_fast().run(&stack, calls).await;
        let tasks = Handle::current().metrics().num_alive_tasks();

        assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 3), "{layers}");
        assert_eq!(tasks, before, "{layers}");
        assert_eq!(probe.runs(), 1, "{layers}: only before");
        let got: Vec<_> = answers.iter().map(|answer| (answer.id.to_string(), answer.outcome())).collect();
        let expected = names.map(|name| (name.to_owned(), if name == "fatal" { Outcome::ToolError } else { Outcome::Cancelled }));
        assert_eq!(got, expected, "{layers}");
        for answer in &answers {
            assert!(answer.response.as_text().is_some_and(|text| !text.is_empty()), "{layers}: {} says nothing", answer.id);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f15_what_is_no_failure_stops_nobody_and_what_was_over_before_stays() {
    let router = Router::new()
        .tool(sync_tool_fn("asks", || ToolResponse::InputRequired(Box::new(InputRequired::new("s")))))
        .tool(sync_tool_fn("goes_on", || ToolResponse::Task(Box::new(TaskHandle::new("t")))))
        .tool(worker("works", 3, 1))
        .tool(worker("works_longer", 30, 1))
        .tool(tool_fn("fails_later", || async {
            sleep(secs(10)).await;
            Err::<(), _>(denied("tool"))
        }));
    let stack = Stack::new(router);
    let calls = ["asks", "works", "goes_on", "fails_later", "works_longer"].map(|name| ToolCall::new(name, json!({}))).to_vec();
    let began = Instant::now();
    let answers = Turn::new().fail_fast().run(&stack, calls).await;
    let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome()).collect();
    let refused = Outcome::Refused(RefusalKind::Denied);
    assert_eq!(outcomes, [Outcome::InputRequired, Outcome::Completed, Outcome::Task, refused, Outcome::Cancelled]);
    assert_eq!(began.elapsed(), secs(10));
}

#[tokio::test]
async fn f15_a_function_on_a_thread_hears_that_a_sibling_has_failed() {
    let (heard, hearing) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
    let began = Arc::new(tokio::sync::Notify::new());
    let blocks = {
        let (heard, hearing, began) = (Arc::clone(&heard), Arc::clone(&hearing), Arc::clone(&began));
        blocking_tool_fn("blocks", move |cancellation: Cancellation| {
            began.notify_one();
            Handle::current().block_on(cancellation.cancelled());
            heard.store(true, Ordering::SeqCst);
            hearing.notify_one();
        })
    };
    let fails = tool_fn("fails", move || {
        let began = Arc::clone(&began);
        async move {
            began.notified().await;
            Err::<(), _>("no")
        }
    });
    let stack = Stack::new(Router::new().tool(blocks).tool(fails));
    let answers = Turn::new().fail_fast().run(&stack, ["blocks", "fails"].map(|name| ToolCall::new(name, json!({}))).to_vec()).await;
    assert_eq!(answers[0].outcome(), Outcome::Cancelled);
    hearing.notified().await;
    assert!(heard.load(Ordering::SeqCst));
}

// H8: waiting and running, each by itself.

/// Measures from where a call comes in to where it leaves. Ready at once, so that the wait for what is within counts.
struct Clock {
    place: &'static str,
    times: Arc<Mutex<HashMap<&'static str, Vec<(Duration, Outcome)>>>>,
}

impl Policy for Clock {
    type State = Instant;

    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new(self.place))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step<Instant> {
        match request {
            View::Call(_) => Step::Continue(Instant::now()),
            _ => Step::Pass,
        }
    }

    fn after(&self, began: Instant, ending: Ending<'_>) {
        self.times.lock().unwrap().entry(self.place).or_default().push((began.elapsed(), ending.outcome()));
    }
}

/// A limit of one, with a clock on each side of it.
fn limits(times: &Arc<Mutex<HashMap<&'static str, Vec<(Duration, Outcome)>>>>, router: &dyn Fn() -> Router) -> Vec<(&'static str, Stack)> {
    let outside = || PolicyLayer::new(Clock { place: "outside", times: Arc::clone(times) });
    let inside = || PolicyLayer::new(Clock { place: "inside", times: Arc::clone(times) });
    let one = || ConcurrencyLimitLayer::new(1);
    let look = || gate_tool("look", |_, _| Ok(()));
    let around_router = ServiceBuilder::new().layer(one()).layer(inside()).into_inner();
    vec![
        ("in the stack", stack!(outside(), one(), inside(), router())),
        ("around the router", stack!(outside(), router().layer(around_router))),
        ("within a queue", stack!(outside(), calls(BufferLayer::new(4)), one(), inside(), router())),
        ("around gates", stack!(outside(), look(), one(), inside(), VisibilityLayer::new(|_, _| true), router())),
    ]
}

#[tokio::test(start_paused = true)]
async fn h08_waiting_and_running_are_measured_apart_whatever_the_ending() {
    let router = || {
        let runs = |name: &str, ending: fn() -> ToolResponse| {
            tool_fn(name, move || async move {
                sleep(secs(2)).await;
                ending()
            })
        };
        Router::new()
            .tool(tool_fn("holds", || sleep(secs(5))))
            .tool(runs("completes", || ToolResponse::text("ok")))
            .tool(runs("says_error", || ToolResponse::error("no")))
            .tool(runs("refuses", || denied("tool").into()))
            .tool(runs("asks", || ToolResponse::InputRequired(Box::new(InputRequired::new("s")))))
            .tool(runs("panics", || panic!("now")))
            .tool(tool_fn("times_out", std::future::pending::<()>).layer(TimeoutLayer::new(secs(2))))
            .tool(tool_fn("fails", || async {
                sleep(secs(2)).await;
                Err::<(), _>(ToolError::new("no"))
            }))
    };
    let internal = Outcome::Refused(RefusalKind::Internal);
    for (name, outcome) in [
        ("completes", Outcome::Completed),
        ("says_error", Outcome::ToolError),
        ("refuses", Outcome::Refused(RefusalKind::Denied)),
        ("asks", Outcome::InputRequired),
        ("panics", internal),
        ("times_out", Outcome::Refused(RefusalKind::Timeout)),
        ("fails", Outcome::ToolError),
    ] {
        let times = Arc::default();
        for (place, stack) in limits(&times, &router) {
            times.lock().unwrap().clear();
            let first = tokio::spawn(stack.call_tool("holds", json!({})));
            yield_now().await;
            let response = stack.call_tool(name, json!({})).await;
            assert_eq!(response.outcome(), outcome, "{name}, {place}");
            first.await.unwrap();
            let times = times.lock().unwrap();
            // Five seconds of waiting, and two of running.
            assert_eq!(times["outside"], [(secs(5), Outcome::Completed), (secs(7), outcome)], "{name}, {place}");
            assert_eq!(times["inside"], [(secs(5), Outcome::Completed), (secs(2), outcome)], "{name}, {place}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn h08_a_call_given_up_is_measured_where_it_was() {
    for (given_up_after, outside, inside) in [(3, 3, None), (6, 6, Some(1))] {
        let times = Arc::default();
        for (place, stack) in limits(&times, &|| Router::new().tool(tool_fn("holds", || sleep(secs(5))))) {
            times.lock().unwrap().clear();
            let first = tokio::spawn(stack.call_tool("holds", json!({})));
            yield_now().await;
            let given_up = tokio::time::timeout(secs(given_up_after), stack.call_tool("holds", json!({}))).await;
            assert!(given_up.is_err(), "{place}");
            first.await.unwrap();
            let times = times.lock().unwrap();
            assert!(times["outside"].contains(&(secs(outside), Outcome::Cancelled)), "{place}: {:?}", times["outside"]);
            let cancelled: Vec<_> =
                times["inside"].iter().filter(|(_, outcome)| *outcome == Outcome::Cancelled).map(|(time, _)| *time).collect();
            assert_eq!(cancelled, inside.map(secs).into_iter().collect::<Vec<_>>(), "{place}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn h08_a_call_stopped_in_the_queue_is_measured_as_waiting_alone() {
    let times = Arc::default();
    let stack = stack!(
        PolicyLayer::new(Clock { place: "outside", times: Arc::clone(&times) }),
        TimeoutLayer::new(secs(4)),
        ConcurrencyLimitLayer::new(1),
        PolicyLayer::new(Clock { place: "inside", times: Arc::clone(&times) }),
        Router::new().tool(tool_fn("holds", || sleep(secs(3)))).tool(tool_fn("never", std::future::pending::<()>))
    );
    let first = tokio::spawn(stack.call_tool("never", json!({})));
    yield_now().await;
    sleep(SECOND).await;
    // The first one is stopped after four seconds, three of which this one waits, so that one is left for it.
    let response = stack.call_tool("holds", json!({})).await;
    assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Timeout));
    first.await.unwrap();
    let timeout = Outcome::Refused(RefusalKind::Timeout);
    let times = times.lock().unwrap();
    assert_eq!(times["outside"], [(secs(4), timeout), (secs(4), timeout)]);
    assert_eq!(times["inside"], [(secs(4), Outcome::Cancelled), (SECOND, Outcome::Cancelled)]);
}

#[tokio::test(start_paused = true)]
async fn h08_the_start_of_a_call_is_known_to_whoever_stands_within_the_limit() {
    let waited = Arc::new(Mutex::new(Vec::new()));
    let look = {
        let waited = Arc::clone(&waited);
        gate("look", move |call: &mut ToolCall| {
            let began = call.context.started();
            waited.lock().unwrap().push(began.elapsed());
            Ok(())
        })
    };
    let begin = from_fn(async |mut call: ToolCall, next: Next<_>| {
        call.context.started();
        next.run(call).await
    });
    let stack = stack!(
        begin,
        ConcurrencyLimitLayer::new(1),
        look,
        Router::new().tool(tool_fn("holds", || sleep(secs(5)))).tool(Probe::new().tool("probe"))
    );
    let first = tokio::spawn(stack.call_tool("holds", json!({})));
    yield_now().await;
    stack.call_tool("probe", json!({})).await;
    first.await.unwrap();
    assert_eq!(*waited.lock().unwrap(), [secs(0), secs(5)]);
}

#[tokio::test(start_paused = true)]
async fn h08_an_observer_that_passes_readiness_on_counts_from_the_permit() {
    // As documented: with `WAITS` unset a policy is asked once what is within is ready, so that it sees no wait.
    let times = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::new(AtomicUsize::new(0));
    let observe = {
        let (times, started) = (Arc::clone(&times), Arc::clone(&started));
        from_fn(move |call: ToolCall, next: Next<BoxError>| {
            let (times, started) = (Arc::clone(&times), Arc::clone(&started));
            async move {
                started.fetch_add(1, Ordering::SeqCst);
                let began = Instant::now();
                let response = next.run(call).await;
                times.lock().unwrap().push(began.elapsed());
                response
            }
        })
    };
    let recorder = Recorder::new();
    let stack = stack!(
        observe,
        recorder.layer("passes readiness on"),
        ConcurrencyLimitLayer::new(1),
        Router::new().tool(tool_fn("holds", || sleep(secs(5))))
    );
    let first = tokio::spawn(stack.call_tool("holds", json!({})));
    yield_now().await;
    assert!(tokio::time::timeout(secs(1), stack.call_tool("holds", json!({}))).await.is_err());
    first.await.unwrap();
    // A function is ready at once and has seen both; the recorder only the one that had a permit.
    assert_eq!(started.load(Ordering::SeqCst), 2);
    assert_eq!((recorder.starts("passes readiness on"), recorder.outcomes("passes readiness on").len()), (1, 1));
    assert_eq!(*times.lock().unwrap(), [secs(5)]);
}
