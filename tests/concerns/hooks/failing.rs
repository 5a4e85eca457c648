//! A11 and A13: what becomes of a request when a hook fails, and who is said to have done it.

use std::{error::Error, time::Duration};

use toolstack::{
    Router, StackExt, ToolResponse,
    layer::hooks::{Halt, Hook, HooksLayer},
    model::{Arguments, Outcome},
    testing::Probe,
};
use tower::Layer;

use super::{Trace, call};

const WAYS: [&str; 3] = ["error", "panic", "timeout"];

/// A hook at this event that fails in this way, after it changed what it can.
fn failing(event: &str, way: &'static str) -> Hook {
    macro_rules! fail {
        ($($change:stmt)?; $now:ident, $later:ident, $e:ident) => {
            match way {
                "error" => Hook::$now("bad", |$e| {
                    $($change)?
                    Err(Halt::failed("password=hunter2"))
                }),
                "panic" => Hook::$now("bad", |$e| {
                    $($change)?
                    panic!("password=hunter2")
                }),
                _ => Hook::$later("bad", |$e| Box::pin(async move {
                    $($change)?
                    std::future::pending::<()>().await;
                    Ok(())
                }))
                .timeout(Duration::from_secs(5)),
            }
        };
    }
    match event {
        "before_request" => {
            fail!({ event.extensions_mut().insert("changed"); event.remark("changed") }; before_request, before_request_async, event)
        }
        "after_list" => fail!(event.retain(|_| true); after_list, after_list_async, event),
        "before_call" => fail!({
            event.set_arguments(Arguments::from_text(r#"{"n":"changed"}"#));
            event.extensions_mut().insert("changed");
            event.answer(ToolResponse::text("changed"));
            event.remark("changed")
        }; before, before_async, event),
        _ => fail!({ event.result_mut().push("changed"); event.remark("changed") }; after, after_async, event),
    }
}

#[tokio::test(start_paused = true)]
async fn a11_a_hook_that_fails_refuses_and_is_counted() {
    for event in ["before_request", "after_list", "before_call", "after_call"] {
        for way in WAYS {
            let trace = Trace::default();
            let [denied, error] = std::array::from_fn(|_| trace.clone());
            let layer = HooksLayer::new()
                .hook(failing(event, way))
                .on_denied("denied", move |_| denied.say("denied"))
                .on_error("error", move |_| error.say("error"));
            let failures = layer.failures();
            let probe = Probe::new();
            let stack = layer.layer(Router::new().tool(probe.tool("t")));
            let response = stack.run_call(call("t")).await;

            let refusal = response.refusal().unwrap();
            let ran = event == "after_call";
            assert_eq!(refusal.kind().as_str(), if ran { "outcome_unknown" } else { "internal" }, "{event} {way}");
            assert_eq!(refusal.by(), "bad");
            assert!(refusal.message().starts_with("The request failed."));
            assert!(!format!("{response:?}").contains("hunter2"));
            let source = refusal.source().unwrap().to_string();
            assert!(source.contains(if way == "timeout" { "longer than 5s" } else { "hunter2" }), "{source}");
            assert_eq!((failures.of("bad"), failures.total(), probe.runs()), (1, 1, usize::from(ran)));
            // Nobody decided anything.
            assert_eq!(trace.text(), "error");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a11_a_hook_that_fails_open_is_counted_and_has_changed_nothing() {
    for event in ["before_request", "after_list", "before_call", "after_call"] {
        for way in WAYS {
            let layer = HooksLayer::new().hook(failing(event, way).fail_open());
            let failures = layer.failures();
            let probe = Probe::new();
            let stack = layer.layer(Router::new().tool(probe.tool("t")));
            for ran in 1..=2 {
                let response = stack.run_call(call("t")).await;
                assert_eq!(response.as_text().as_deref(), Some("ok"), "{event} {way}");
                assert!(response.remarks().is_empty());
                assert_eq!((failures.of("bad"), probe.runs()), (ran, ran as usize));
            }
            assert_eq!(probe.arguments(), [r#"{"n":1}"#; 2]);
            assert!(probe.calls().iter().all(|call| call.context.extensions().get::<&str>().is_none()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a11_an_observer_that_fails_changes_nothing_and_is_counted() {
    let heard = Trace::default();
    let [last, last_async] = std::array::from_fn(|_| heard.clone());
    let layer = HooksLayer::new()
        .on_finish("error", |_| Err("broken"))
        .on_finish("panic", |_| -> () { panic!("broken") })
        .on_success_async("error_async", |_| async { Err::<(), _>("broken") })
        .on_success_async("panic_async", |_| async { panic!("broken") as () })
        .hook(Hook::on_finish_async("timeout", |_| std::future::pending::<()>()).timeout(Duration::from_secs(5)))
        .on_finish("last", move |_| last.say("last"))
        .on_finish_async("last_async", move |_| {
            last_async.say("last_async");
            async {}
        });
    let (failures, background) = (layer.failures(), layer.background());
    let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
    assert_eq!(stack.run_call(call("t")).await.as_text().as_deref(), Some("ok"));
    background.idle().await;
    assert_eq!(
        failures.iter().map(|(name, _, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(" "),
        "error:1 panic:1 error_async:1 panic_async:1 timeout:1 last:0 last_async:0"
    );
    assert_eq!(heard.text(), "last last_async");
}

/// A13: an approval that cannot be had is not a person's no.
#[tokio::test(start_paused = true)]
async fn a13_a_no_an_error_a_timeout_and_nobody_there_are_told_apart() {
    let ask = |way: &'static str| {
        Hook::before_async("ask", move |_| {
            Box::pin(async move {
                match way {
                    "no" => Err(Halt::error("The person said no.")),
                    "error" => Err(Halt::failed("the window is gone")),
                    "absent" => Err(Halt::refuse(toolstack::Refusal::new(
                        toolstack::RefusalKind::ApprovalNeeded,
                        "Nobody is here to approve this.",
                    ))),
                    _ => std::future::pending().await,
                }
            })
        })
        .timeout(Duration::from_secs(30))
    };
    let mut told = Vec::new();
    for way in ["no", "error", "absent", "timeout"] {
        let layer = HooksLayer::new().hook(ask(way));
        let failures = layer.failures();
        let response = layer.layer(Router::new().tool(Probe::new().tool("t"))).run_call(call("t")).await;
        let refusal = response.refusal().unwrap();
        told.push(format!("{}: {} ({})", refusal.kind(), refusal.message(), failures.total()));
    }
    assert_eq!(
        told,
        [
            "denied: The person said no. (0)",
            "internal: The request failed. (1)",
            "approval_needed: Nobody is here to approve this. (0)",
            "internal: The request failed. (1)",
        ]
    );
}

#[tokio::test]
async fn a_hook_that_panics_before_it_waits_has_failed_too() {
    let layer = HooksLayer::new().before_async("bad", |_| panic!("at once"));
    let response = layer.layer(Router::new().tool(Probe::new().tool("t"))).run_call(call("t")).await;
    assert_eq!(response.outcome(), Outcome::Refused(toolstack::RefusalKind::Internal));
}

/// A runtime without timers cannot bound a hook, so the hook has failed: before the tool that refuses, after it nothing.
#[test]
fn without_timers_a_hook_that_waits_has_failed() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let layer = HooksLayer::new().on_finish_async("observer", |_| async {});
        let (failures, background) = (layer.failures(), layer.background());
        assert!(layer.layer(Router::new().tool(Probe::new().tool("t"))).run_call(call("t")).await.is_completed());
        background.idle().await;
        assert_eq!(failures.total(), 1);

        let layer = HooksLayer::new().before_async("hook", |_| Box::pin(async { Ok(()) }));
        let response = layer.layer(Router::new().tool(Probe::new().tool("t"))).run_call(call("t")).await;
        assert_eq!((response.outcome().as_str(), response.refusal().unwrap().by()), ("internal", "hook"));
    });
}
