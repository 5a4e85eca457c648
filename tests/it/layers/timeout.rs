use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use toolstack::{
    ListTools, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{CatchErrorLayer, TimeoutLayer},
    model::{Context, Progress, ProgressUpdate},
    testing::{Behaviour, Controlled, Probe, StrictError},
    tool::{sync_tool_fn, tool_fn},
};
use tower::{Service, ServiceBuilder, ServiceExt, timeout::TimeoutLayer as TowerTimeout};

use super::{hold, kind, poll, ready, settle, strict};

use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(3600 * 24 * 365);

/// Takes `rounds` times so long, and reports progress after each of them.
fn working(every: Duration, rounds: u32, report: fn(u32) -> Option<ProgressUpdate>) -> Router {
    Router::new().tool(tool_fn("work", move |progress: Progress| async move {
        for round in 1..=rounds {
            sleep(every).await;
            if let Some(update) = report(round) {
                progress.report(update);
            }
        }
        "worked"
    }))
}

fn silent(_: u32) -> Option<ProgressUpdate> {
    None
}

/// The answer to a call of `work`, and after how long it came.
async fn timed(layer: TimeoutLayer, tools: Router, context: Context) -> (ToolResponse, Duration) {
    let began = Instant::now();
    let call = ToolCall::new("work", ()).with_context(context);
    let answer = ServiceBuilder::new().layer(layer).service(tools).oneshot(call).await.unwrap();
    (answer, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_refused_and_one_that_does_not_passes() {
    let (answer, took) = timed(TimeoutLayer::new(30 * SECOND), working(29 * SECOND, 1, silent), Context::new()).await;
    assert_eq!((answer.as_text().as_deref(), took), (Some("worked"), 29 * SECOND));

    let (answer, took) = timed(TimeoutLayer::new(30 * SECOND), working(31 * SECOND, 1, silent), Context::new()).await;
    let refusal = answer.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), took), (RefusalKind::Timeout, "timeout", 30 * SECOND));
    assert_eq!(refusal.message(), "The call did not finish within 30s and was stopped; what it began may be half done.");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_there_at_the_last_moment_counts() {
    let (answer, took) = timed(TimeoutLayer::new(30 * SECOND), working(30 * SECOND, 1, silent), Context::new()).await;
    assert_eq!((kind(&answer), took), (None, 30 * SECOND));
    let (answer, took) = timed(TimeoutLayer::new(60 * SECOND).idle(30 * SECOND), working(30 * SECOND, 1, silent), Context::new()).await;
    assert_eq!((kind(&answer), took), (None, 30 * SECOND));
}

/// Progress every 3 s, an idle limit of 10 s, a total of 30 s, a tool of 60 s.
#[tokio::test(start_paused = true)]
async fn progress_puts_the_idle_limit_off_and_never_the_total() {
    let layer = TimeoutLayer::new(30 * SECOND).idle(10 * SECOND);
    let update = |round| Some(ProgressUpdate::new(f64::from(round)).total(20.0));
    let (answer, took) = timed(layer, working(3 * SECOND, 20, update), Context::new()).await;
    assert_eq!((kind(&answer), took), (Some(RefusalKind::Timeout), 30 * SECOND));
    let message = answer.as_text().unwrap();
    assert!(message.starts_with("The call did not finish within 30s"), "{message}");
    assert!(message.ends_with(" Its last progress was 10 of 20."), "{message}");

    let (answer, took) = timed(layer, working(60 * SECOND, 1, silent), Context::new()).await;
    assert_eq!((kind(&answer), took), (Some(RefusalKind::Timeout), 10 * SECOND));
    assert_eq!(answer.as_text().unwrap(), "The call made no progress for 10s and was stopped; what it began may be half done.");

    let (answer, took) = timed(layer, working(9 * SECOND, 3, update), Context::new()).await;
    assert_eq!((kind(&answer), took), (None, 27 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn progress_that_stops_is_the_last_one_that_the_refusal_tells_of() {
    let layer = TimeoutLayer::new(60 * SECOND).idle(10 * SECOND);
    let update = |round| (round <= 4).then(|| ProgressUpdate::new(f64::from(round)));
    let (answer, took) = timed(layer, working(3 * SECOND, 20, update), Context::new()).await;
    assert_eq!(took, 22 * SECOND);
    assert!(answer.as_text().unwrap().ends_with(" Its last progress was 4."), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_to_progress_outside_hears_it() {
    for layer in [TimeoutLayer::new(60 * SECOND), TimeoutLayer::new(60 * SECOND).idle(10 * SECOND)] {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let progress = Progress::new({
            let heard = Arc::clone(&heard);
            move |update| heard.lock().unwrap().push(update.progress)
        });
        let update = |round| Some(ProgressUpdate::new(f64::from(round)));
        timed(layer, working(3 * SECOND, 3, update), Context::new().with_progress(progress)).await;
        assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_nearest_bound_counts() {
    let context = |deadline: Option<u32>| match deadline {
        Some(secs) => Context::new().with_deadline(Instant::now() + secs * SECOND),
        None => Context::new(),
    };
    let hanging = || working(YEAR, 1, silent);
    for (layer, deadline, ends) in [
        (TimeoutLayer::new(30 * SECOND), Some(7), 7),
        (TimeoutLayer::new(30 * SECOND), Some(70), 30),
        (TimeoutLayer::deadline(), Some(7), 7),
        (TimeoutLayer::deadline().idle(5 * SECOND), Some(7), 5),
        (TimeoutLayer::deadline().idle(9 * SECOND), Some(7), 7),
        (TimeoutLayer::deadline().idle(9 * SECOND), None, 9),
    ] {
        let (answer, took) = timed(layer, hanging(), context(deadline)).await;
        assert_eq!((kind(&answer), took), (Some(RefusalKind::Timeout), Duration::from_secs(ends)), "{layer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_within_sees_the_nearest_deadline_and_cannot_put_it_off() {
    let tools = Router::new().tool(sync_tool_fn("remaining", |context: Context| {
        let mut context = context;
        context.shorten_deadline(Instant::now() + YEAR);
        context.remaining().unwrap().as_secs()
    }));
    for (outer, inner, remaining) in [(30, 5, "5"), (5, 30, "5")] {
        let stack =
            ServiceBuilder::new().layer(TimeoutLayer::new(outer * SECOND)).layer(TimeoutLayer::new(inner * SECOND)).service(tools.clone());
        assert_eq!(stack.call_tool("remaining", ()).await.as_text().as_deref(), Some(remaining));
    }
}

#[tokio::test(start_paused = true)]
async fn nested_timeouts_end_a_call_once_at_the_nearest() {
    for (outer, inner) in [(30, 5), (5, 30), (5, 5)] {
        let stack = ServiceBuilder::new()
            .layer(TimeoutLayer::new(outer * SECOND))
            .layer(TimeoutLayer::new(inner * SECOND))
            .service(working(YEAR, 1, silent));
        let began = Instant::now();
        assert_eq!(kind(&stack.call_tool("work", ()).await), Some(RefusalKind::Timeout));
        assert_eq!(began.elapsed(), 5 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_over_is_not_begun() {
    let (strict, probe) = strict(Some(1));
    let past = Instant::now();
    sleep(SECOND).await;
    let mut service = ServiceBuilder::new().layer(TimeoutLayer::deadline()).service(strict.clone());
    for deadline in [past, Instant::now()] {
        let call = ToolCall::new("probe", ()).with_context(Context::new().with_deadline(deadline));
        let answer = ready(&mut service).await.call(call).await.unwrap();
        assert_eq!(answer.as_text().as_deref(), Some("The time for this call was over before it began."));
        assert_eq!(kind(&answer), Some(RefusalKind::Timeout));
    }
    assert_eq!((probe.runs(), strict.tally().calls), (0, 0));

    let zero = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::ZERO)).service(strict.clone());
    assert_eq!(kind(&zero.oneshot(ToolCall::new("probe", ())).await.unwrap()), Some(RefusalKind::Timeout));
    assert_eq!(probe.runs(), 0);

    // The instance that refused is as good as any.
    assert!(ready(&mut service).await.call(ToolCall::new("probe", ())).await.unwrap().is_completed());
    drop(service);
    assert_eq!((probe.runs(), strict.free(), strict.tally().violations), (1, Some(1), 0));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_readiness_counts() {
    let (strict, probe) = strict(Some(1));
    let holder = hold(&strict).await;
    for (layer, ends) in [(TimeoutLayer::new(30 * SECOND), 30), (TimeoutLayer::new(30 * SECOND).idle(10 * SECOND), 10)] {
        let began = Instant::now();
        let answer = layer_around(layer, &strict).oneshot(ToolCall::new("probe", ())).await.unwrap();
        assert_eq!((kind(&answer), began.elapsed()), (Some(RefusalKind::Timeout), Duration::from_secs(ends)));
    }
    assert_eq!(probe.runs(), 0);

    let mut waiting = tokio_test::task::spawn(layer_around(TimeoutLayer::new(30 * SECOND), &strict).oneshot(ToolCall::new("probe", ())));
    assert!(waiting.poll().is_pending());
    sleep(20 * SECOND).await;
    drop(holder);
    assert!(waiting.is_woken());
    assert!(waiting.await.unwrap().is_completed());
    assert_eq!((probe.runs(), strict.free()), (1, Some(1)));
}

fn layer_around<S: Clone>(layer: TimeoutLayer, service: &S) -> toolstack::layer::timeout::Timeout<S> {
    ServiceBuilder::new().layer(layer).service(service.clone())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_keeps_its_place_in_the_queue() {
    let (strict, probe) = strict(Some(1));
    let holder = hold(&strict).await;
    let service = layer_around(TimeoutLayer::new(30 * SECOND), &strict);
    let mut first = tokio_test::task::spawn(service.clone().oneshot(ToolCall::new("probe", ()).with_id("first")));
    assert!(first.poll().is_pending());
    let mut second = tokio_test::task::spawn(service.clone().oneshot(ToolCall::new("probe", ()).with_id("second")));
    assert!(second.poll().is_pending());
    drop(holder);
    assert!(second.poll().is_pending(), "it was first in the queue");
    assert!(first.await.unwrap().is_completed());
    assert!(second.await.unwrap().is_completed());
    let ids: Vec<_> = probe.calls().iter().map(|call| call.id.to_string()).collect();
    assert_eq!(ids, ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn permits_are_free_when_the_answer_is_given() {
    let (strict, _) = strict(Some(1));
    strict.behave(Behaviour::Hang);
    let mut call = Box::pin(layer_around(TimeoutLayer::new(30 * SECOND), &strict).oneshot(ToolCall::new("probe", ())));
    let answer = call.as_mut().await.unwrap();
    assert_eq!(kind(&answer), Some(RefusalKind::Timeout));
    // The future is there still; what it held is not.
    assert_eq!((strict.free(), strict.tally().in_flight, strict.tally().dropped), (Some(1), 0, 1));
    drop(call);

    // A call that waits stands in a queue, and leaves it.
    let holder = hold(&strict).await;
    let mut call = Box::pin(layer_around(TimeoutLayer::new(30 * SECOND), &strict).oneshot(ToolCall::new("probe", ())));
    call.as_mut().await.unwrap();
    drop(holder);
    assert_eq!(strict.free(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_huge_duration_is_no_bound() {
    for long in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::from_secs(u64::MAX / 4), 1000 * YEAR] {
        for layer in [TimeoutLayer::new(long), TimeoutLayer::new(long).idle(long), TimeoutLayer::deadline().idle(long)] {
            let (answer, took) = timed(layer, working(YEAR, 1, silent), Context::new()).await;
            assert_eq!((kind(&answer), took), (None, YEAR), "{layer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn errors_from_within_pass_as_they_are() {
    let (strict, _) = strict(None);
    let service = layer_around(TimeoutLayer::new(SECOND), &strict);
    for behaviour in [Behaviour::Fail, Behaviour::ReadinessFails] {
        strict.behave(behaviour);
        let error: StrictError = service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap_err();
        assert_eq!(error.to_string(), "the strict service fails, as it was told to");
    }

    // An error of readiness while the call waits is the call's.
    strict.behave(Behaviour::NeverReady);
    let mut service = service;
    let mut call = Box::pin(ready(&mut service).await.call(ToolCall::new("probe", ())));
    assert!(poll(&mut call).is_pending());
    strict.behave(Behaviour::ReadinessFails);
    assert!(call.await.is_err());
    assert_eq!(strict.tally().calls, 1);
}

#[tokio::test(start_paused = true)]
async fn lists_are_bounded_too() {
    let (strict, _) = strict(None);
    let service = layer_around(TimeoutLayer::new(30 * SECOND), &strict);
    assert_eq!(service.clone().oneshot(ListTools::new()).await.unwrap().names().collect::<Vec<_>>(), ["probe"]);
    strict.behave(Behaviour::NeverReady);
    let began = Instant::now();
    let list = service.clone().oneshot(ListTools::new()).await.unwrap();
    assert_eq!((list.refusal().unwrap().kind(), began.elapsed()), (RefusalKind::Timeout, 30 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_gives_everything_back() {
    let (strict, _) = strict(Some(1));
    let service = layer_around(TimeoutLayer::new(30 * SECOND), &strict);
    strict.behave(Behaviour::Hang);
    for polls in 0..3 {
        let mut call = Box::pin(ready(&mut service.clone()).await.call(ToolCall::new("probe", ())));
        for _ in 0..polls {
            assert!(poll(&mut call).is_pending());
        }
        assert_eq!(strict.free(), Some(0));
        drop(call);
        assert_eq!((strict.free(), strict.tally().in_flight), (Some(1), 0));
    }

    let holder = hold(&strict).await;
    let mut waiting = Box::pin(service.clone().oneshot(ToolCall::new("probe", ())));
    assert!(poll(&mut waiting).is_pending());
    drop(waiting);
    drop(holder);
    settle().await;
    assert_eq!(strict.free(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn calls_at_once_have_a_clock_each() {
    let controlled = Controlled::new();
    let service = layer_around(TimeoutLayer::new(10 * SECOND), &Router::new().tool(controlled.tool("wait")));
    let mut calls = Vec::new();
    for _ in 0..50 {
        let began = Instant::now();
        let call = service.call_tool("wait", ());
        calls.push(tokio::spawn(async move { (call.await, began.elapsed()) }));
        sleep(SECOND / 10).await;
    }
    assert_eq!(controlled.in_flight(), 50);
    for call in calls {
        let (answer, took) = call.await.unwrap();
        assert_eq!((kind(&answer), took), (Some(RefusalKind::Timeout), 10 * SECOND));
    }
    assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 50));
}

#[tokio::test(start_paused = true)]
async fn it_agrees_with_tower_s_timeout_where_both_have_a_say() {
    for work in 0..6 {
        for limit in 1..6 {
            let tools = || working(work * SECOND, 1, silent);
            let (ours, took) = timed(TimeoutLayer::new(limit * SECOND), tools(), Context::new()).await;

            let began = Instant::now();
            let tower = ServiceBuilder::new().layer(CatchErrorLayer::new()).layer(TowerTimeout::new(limit * SECOND)).service(tools());
            let theirs = tower.oneshot(ToolCall::new("work", ())).await.unwrap();
            assert_eq!((kind(&ours), took), (kind(&theirs), began.elapsed()), "{work} s of {limit} s");
            assert_eq!(ours.as_text().is_some(), theirs.as_text().is_some());
        }
    }
}

/// Tower's starts its clock once the service within is ready.
#[tokio::test(start_paused = true)]
async fn it_differs_from_tower_s_timeout_while_nothing_is_ready() {
    let (strict, _) = strict(Some(1));
    let _holder = hold(&strict).await;
    let tower = ServiceBuilder::new().layer(TowerTimeout::new(SECOND)).service(strict.clone());
    assert!(tokio::time::timeout(YEAR, tower.oneshot(ToolCall::new("probe", ()))).await.is_err(), "the wait was bounded");
    let ours = layer_around(TimeoutLayer::new(SECOND), &strict);
    assert!(tokio::time::timeout(YEAR, ours.oneshot(ToolCall::new("probe", ()))).await.is_ok(), "the wait was not bounded");
}

#[tokio::test(start_paused = true)]
async fn the_layer_adds_no_timer_and_no_listener_to_a_call_that_is_quick() {
    let probe = Probe::new();
    let service = layer_around(TimeoutLayer::new(SECOND), &Router::new().tool(probe.tool("probe")));
    service.call_tool("probe", ()).await;
    assert!(!probe.calls()[0].context.progress().is_listening());
}
