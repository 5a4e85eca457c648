//! Observers hear of every end, once, and of nothing else.

use futures_util::FutureExt;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolResponse,
    layer::{
        gate,
        hooks::{Halt, HooksLayer},
    },
    model::{InputRequired, TaskHandle},
    testing::{Behaviour, Controlled, Probe, Strict},
};
use tower::{Layer, ServiceBuilder, ServiceExt};

use super::{Trace, call};

/// Observers of every kind, sync or async.
fn observed(trace: &Trace, waits: bool) -> HooksLayer {
    let [success, error, denied, finish] = std::array::from_fn(|_| trace.clone());
    if waits {
        HooksLayer::new()
            .on_success_async("s", move |_| {
                success.say("success");
                async {}
            })
            .on_error_async("e", move |_| {
                error.say("error");
                async {}
            })
            .on_denied_async("d", move |_| {
                denied.say("denied");
                async {}
            })
            .on_finish_async("f", move |end| {
                finish.say(format!("finish:{}", end.outcome()));
                async {}
            })
    } else {
        HooksLayer::new()
            .on_success("s", move |_| success.say("success"))
            .on_error("e", move |_| error.say("error"))
            .on_denied("d", move |_| denied.say("denied"))
            .on_finish("f", move |end| finish.say(format!("finish:{}", end.outcome())))
    }
}

async fn background() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a01_every_end_is_heard_once() {
    let answers: [(&str, fn() -> ToolResponse, &str); 8] = [
        ("fine", || ToolResponse::text("x"), "success finish:completed"),
        ("fails", || ToolResponse::error("x"), "error finish:tool_error"),
        ("denied", || Refusal::new(RefusalKind::Denied, "x").into(), "denied finish:denied"),
        ("limited", || Refusal::new(RefusalKind::RateLimited, "x").into(), "denied finish:rate_limited"),
        ("late", || Refusal::new(RefusalKind::Timeout, "x").into(), "error finish:timeout"),
        ("asks", || ToolResponse::InputRequired(Box::new(InputRequired::new("s"))), "finish:input_required"),
        ("task", || ToolResponse::Task(Box::new(TaskHandle::new("t"))), "finish:task"),
        ("panics", || panic!("as it was told to"), "error finish:internal"),
    ];
    for waits in [false, true] {
        let trace = Trace::default();
        let router = answers
            .into_iter()
            .fold(Router::new(), |router, (name, answer, _)| router.tool(Probe::answering(move |_| answer()).tool(name)));
        let stack = observed(&trace, waits).layer(router);
        for (name, _, heard) in answers {
            stack.run_call(call(name)).await;
            background().await;
            assert_eq!(trace.text(), heard, "{name}, async: {waits}");
        }
        stack.run_call(call("no_such_tool")).await;
        background().await;
        assert_eq!(trace.text(), "denied finish:unknown_tool");
    }
}

#[tokio::test]
async fn a02_a_denial_within_is_heard_outside_and_one_outside_is_not_heard_within() {
    let (outer, inner) = (Trace::default(), Trace::default());
    let no = gate("no", |_| Err(Refusal::new(RefusalKind::Denied, "no").with_by("no")));
    let stack = ServiceBuilder::new()
        .layer(observed(&outer, false))
        .layer(no)
        .layer(observed(&inner, false))
        .service(Router::new().tool(Probe::new().tool("t")));
    stack.run_call(call("t")).await;
    assert_eq!((outer.text().as_str(), inner.text().as_str()), ("denied finish:denied", ""));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_heard_of_once_wherever_it_was() {
    for waits in [false, true] {
        let trace = Trace::default();
        let controlled = Controlled::new();
        let slow = || {
            observed(&trace, waits).before_async("slow", |call| {
                let slow = call.call().name() == "slow";
                Box::pin(async move {
                    if slow {
                        std::future::pending::<()>().await;
                    }
                    Ok(())
                })
            })
        };
        let stack = slow().layer(Router::new().tool(controlled.tool("held")).tool(controlled.tool("slow")));
        for (name, place) in [("held", "in the tool"), ("slow", "in a hook")] {
            let mut held = Box::pin(stack.run_call(call(name)));
            assert!(held.as_mut().now_or_never().is_none());
            assert_eq!(trace.text(), "");
            drop(held);
            background().await;
            assert_eq!(trace.text(), "error finish:cancelled", "{place}, async: {waits}");
        }
        // Hooks that do not wait have run when `call` returns, though nobody polled it.
        let stack = observed(&trace, waits).layer(Router::new().tool(controlled.tool("held")));
        stack.list_tools().await;
        let mut ready = stack.clone();
        drop(tower::Service::call(ServiceExt::<toolstack::ToolCall>::ready(&mut ready).await.unwrap(), call("held")));
        background().await;
        let heard = trace.text();
        assert!(heard.is_empty() || heard == "error finish:cancelled", "{heard}");
    }
}

#[tokio::test]
async fn an_error_and_a_panic_from_within_are_heard_of_and_pass() {
    for waits in [false, true] {
        let trace = Trace::default();
        let strict = Strict::new(Router::new().tool(Probe::new().tool("t")));
        let stack = observed(&trace, waits).layer(strict.clone());
        stack.run_call(call("t")).await;
        background().await;
        trace.take();
        for behaviour in [Behaviour::Fail, Behaviour::PanicInCall, Behaviour::PanicInFuture] {
            strict.behave(behaviour);
            assert_eq!(stack.run_call(call("t")).await.outcome().as_str(), "internal");
            background().await;
            let heard = trace.text();
            // A panic in `call` is the machine's: nothing was begun by then that could end.
            assert!(heard == "error finish:internal", "{behaviour:?}, async {waits}: {heard}");
        }
    }
}

#[tokio::test]
async fn an_observer_may_panic_while_a_panic_passes() {
    let strict = Strict::new(Router::new().tool(Probe::new().tool("t")));
    let layer = HooksLayer::new().on_finish("bad", |_| -> () { panic!("another") });
    let failures = layer.failures();
    let stack = layer.layer(strict.clone());
    stack.run_call(call("t")).await;
    strict.behave(Behaviour::PanicInFuture);
    assert_eq!(stack.run_call(call("t")).await.outcome().as_str(), "internal");
    assert_eq!(failures.total(), 2);
}

#[test]
fn an_async_observer_that_nobody_can_run_is_reported() {
    let trace = Trace::default();
    let heard = trace.clone();
    let layer = observed(&trace, false).on_finish_async("slow", move |_| {
        heard.say("slow");
        async {}
    });
    let failures = layer.failures();
    let stack = layer.layer(Router::new().tool(Controlled::new().tool("t")));
    // Polled by hand: there is no runtime here.
    let mut running = Box::pin(stack.run_call(call("t")));
    for _ in 0..4 {
        assert!(running.as_mut().now_or_never().is_none());
    }
    drop(running);
    assert_eq!(trace.text(), "error finish:cancelled");
    assert_eq!(failures.of("slow"), 1);
}

#[tokio::test]
async fn many_calls_at_once_are_each_heard_of_once() {
    for waits in [false, true] {
        let trace = Trace::default();
        let layer = observed(&trace, waits).before_async("some", |call| {
            let odd = call.call().id.to_string().ends_with(['1', '3', '5', '7', '9']);
            Box::pin(async move {
                tokio::task::yield_now().await;
                if odd { Err(Halt::forbidden()) } else { Ok(()) }
            })
        });
        let in_background = layer.background();
        let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
        let calls = (0..100).map(|n| stack.run_call(call("t").with_id(format!("c{n}"))));
        let answers = futures_util::future::join_all(calls).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_completed()).count(), 50);
        in_background.idle().await;
        let heard = trace.take();
        let count = |what: &str| heard.iter().filter(|heard| *heard == what).count();
        assert_eq!(
            (count("success"), count("denied"), count("finish:completed"), count("finish:denied"), heard.len()),
            (50, 50, 50, 50, 200)
        );
    }
}

#[tokio::test]
async fn an_observer_gets_a_copy_or_a_reference_and_the_caller_the_response() {
    let trace = Trace::default();
    let [sync, later] = std::array::from_fn(|_| trace.clone());
    let layer = HooksLayer::new()
        .after("sign", |call| {
            call.result_mut().push("signed");
            call.remark("noted");
            Ok(())
        })
        .on_finish("sync", move |end| {
            let response = end.response().unwrap();
            sync.say(format!("{} {}", response.as_text().unwrap(), response.remarks().len()));
        })
        .on_finish_async("later", move |end| {
            // An owned copy, to do with as one likes.
            let mut response = end.response().unwrap().clone();
            response.result_mut().unwrap().push("changed");
            later.say(response.as_text().unwrap());
            async {}
        });
    let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
    assert_eq!(stack.run_call(call("t")).await.as_text().as_deref(), Some("ok\nsigned"));
    background().await;
    assert_eq!(trace.take(), ["ok\nsigned 1", "ok\nsigned\nchanged"]);
}
