//! Async observers hear in the background: no answer waits for one, and how much they may be behind is bounded, counted and visible.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{sync::Semaphore, time::Instant};
use toolstack::{
    Router, StackExt,
    layer::hooks::{Hook, HooksLayer},
    testing::{Controlled, Probe},
};
use tower::Layer;

use super::{Trace, call};

/// An observer that says whose end it hears of, once it is let.
fn held(trace: &Trace) -> (HooksLayer, Arc<Semaphore>) {
    let (trace, gate) = (trace.clone(), Arc::new(Semaphore::new(0)));
    let entrance = Arc::clone(&gate);
    let layer = HooksLayer::new().on_finish_async("held", move |end| {
        let (trace, entrance) = (trace.clone(), Arc::clone(&entrance));
        async move {
            entrance.acquire().await.unwrap().forget();
            trace.say(end.call().id.to_string());
        }
    });
    (layer, gate)
}

async fn turns() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

fn tools() -> Router {
    Router::new().tool(Probe::new().tool("t"))
}

#[tokio::test(start_paused = true)]
async fn no_answer_waits_for_an_async_observer() {
    let never = |name| Hook::on_finish_async(name, |_| std::future::pending::<()>());
    for layer in [
        HooksLayer::new().hook(never("default")),
        HooksLayer::new().hook(never("long").timeout(Duration::from_secs(3600))),
        HooksLayer::new().hook(never("for_ever").timeout(None)),
        HooksLayer::new().hook(never("beside")).after_async("after", |_| Box::pin(async { Ok(()) })),
    ] {
        let before = Instant::now();
        let stack = layer.layer(tools());
        for _ in 0..3 {
            assert_eq!(stack.run_call(call("t")).await.as_text().as_deref(), Some("ok"), "{layer:?}");
        }
        assert_eq!(before.elapsed(), Duration::ZERO, "{layer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_takes_too_long_has_failed_long_after_the_answer() {
    let layer = HooksLayer::new().hook(Hook::on_finish_async("slow", |_| std::future::pending::<()>()).timeout(Duration::from_secs(5)));
    let (failures, background) = (layer.failures(), layer.background());
    assert!(layer.layer(tools()).run_call(call("t")).await.is_completed());
    assert_eq!((failures.total(), background.running()), (0, 1));
    let before = Instant::now();
    background.idle().await;
    assert_eq!((failures.total(), before.elapsed()), (1, Duration::from_secs(5)));
}

#[tokio::test]
async fn how_far_observers_may_be_behind_is_bounded_and_what_they_miss_is_counted() {
    let trace = Trace::default();
    let (layer, gate) = held(&trace);
    let layer = layer.observing(1, 2);
    let background = layer.background();
    let stack = layer.layer(tools());
    for id in ["a", "b", "c", "d", "e"] {
        assert_eq!(stack.run_call(call("t").with_id(id)).await.as_text().as_deref(), Some("ok"));
    }
    assert_eq!((background.running(), background.waiting(), background.dropped()), (1, 2, 2));
    assert!(background.idle().now_or_never().is_none());

    gate.add_permits(3);
    background.idle().await;
    assert_eq!(trace.text(), "a b c");
    assert_eq!((background.running(), background.waiting(), background.dropped()), (0, 0, 2));

    // There is room again.
    gate.add_permits(1);
    stack.run_call(call("t").with_id("f")).await;
    background.idle().await;
    assert_eq!((trace.text().as_str(), background.dropped()), ("f", 2));
}

#[tokio::test]
async fn observers_hear_of_as_many_calls_at_once_as_they_may() {
    let trace = Trace::default();
    let (layer, gate) = held(&trace);
    let background = layer.background();
    let stack = layer.observing(3, 100).layer(tools());
    futures_util::future::join_all((0..10).map(|n| stack.run_call(call("t").with_id(format!("c{n}"))))).await;
    turns().await;
    assert_eq!((background.running(), background.waiting()), (3, 7));
    gate.add_permits(10);
    background.idle().await;
    let mut heard = trace.take();
    heard.sort();
    assert_eq!(heard, (0..10).map(|n| format!("c{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn clones_of_a_layer_share_what_its_observers_have_to_hear() {
    let (layer, gate) = held(&Trace::default());
    let background = layer.background();
    let stacks = [layer.clone().layer(tools()), layer.layer(tools())];
    for stack in &stacks {
        stack.run_call(call("t")).await;
    }
    assert_eq!(background.running(), 2);
    gate.add_permits(2);
    background.clone().idle().await;
    assert_eq!(background.running(), 0);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_heard_of_in_the_background_too() {
    let trace = Trace::default();
    let (layer, gate) = held(&trace);
    let background = layer.background();
    let stack = layer.layer(Router::new().tool(Controlled::new().tool("t")));
    let mut running = Box::pin(stack.run_call(call("t").with_id("dropped")));
    assert!(running.as_mut().now_or_never().is_none());
    drop(running);
    gate.add_permits(1);
    background.idle().await;
    assert_eq!((trace.text().as_str(), background.dropped()), ("dropped", 0));
}

#[test]
fn what_a_runtime_leaves_behind_is_counted_and_nobody_waits_for_it() {
    let trace = Trace::default();
    let (layer, gate) = held(&trace);
    let background = layer.background();
    let stack = layer.observing(1, 8).layer(tools());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime().block_on(async {
        for _ in 0..3 {
            stack.run_call(call("t")).await;
        }
    });
    assert_eq!((background.running(), background.waiting(), background.dropped()), (0, 0, 3));
    runtime().block_on(async {
        background.idle().await;
        gate.add_permits(1);
        stack.run_call(call("t").with_id("later")).await;
        background.idle().await;
    });
    assert_eq!((trace.text().as_str(), background.dropped()), ("later", 3));
}
