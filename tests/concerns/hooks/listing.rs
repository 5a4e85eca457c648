//! One decision on what there is, for lists and calls.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;
use toolstack::{
    Router, StackExt, ToolCall, ToolResponse,
    layer::hooks::{Halt, Hook, HooksLayer},
    model::{Context, Outcome, Principal},
    select::ToolSelector,
    testing::Probe,
    tool::sync_tool_fn,
};
use tower::Layer;

use super::call;

fn tools(probe: &Probe) -> Router {
    Router::new().tool(probe.tool("admin.reset").tag("admin")).tool(probe.tool("ping")).tool(probe.tool("secret"))
}

fn plan() -> HooksLayer {
    HooksLayer::new().after_list("plan", |list| {
        let admin = list.context().principal().has_scope("admin");
        list.retain(|tool| admin || !tool.has_tag("admin"));
        Ok(())
    })
}

#[tokio::test]
async fn what_is_not_listed_is_answered_as_what_does_not_exist() {
    let probe = Probe::new();
    let stack = plan().layer(tools(&probe));
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["ping", "secret"]);

    let hidden = stack.run_call(call("admin.reset")).await;
    let unknown = Router::new().run_call(call("admin.reset")).await;
    assert_eq!(serde_json::to_string(&hidden).unwrap(), serde_json::to_string(&unknown).unwrap());
    assert_eq!(hidden.refusal().unwrap().by(), unknown.refusal().unwrap().by());
    assert_eq!(probe.runs(), 0);

    let root = Context::new().with_principal(Principal::new("root").scope("admin"));
    assert!(stack.run_call(call("admin.reset").with_context(root)).await.is_completed());
}

#[tokio::test]
async fn before_a_call_the_same_hook_sees_the_one_tool() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let stack = HooksLayer::new()
        .after_list("count", move |list| {
            list.retain(|_| {
                count.fetch_add(1, Ordering::Relaxed);
                true
            });
            Ok(())
        })
        .layer(tools(&Probe::new()));
    stack.list_tools().await;
    assert_eq!(seen.swap(0, Ordering::Relaxed), 3);
    stack.run_call(call("ping")).await;
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_scoped_hook_takes_away_only_what_it_is_about() {
    let probe = Probe::new();
    let hook = Hook::after_list("none", |list| {
        list.retain(|_| false);
        Ok(())
    });
    let stack = HooksLayer::new().hook(hook.only(ToolSelector::new().tag("admin"))).layer(tools(&probe));
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["ping", "secret"]);
    assert_eq!(stack.run_call(call("admin.reset")).await.outcome().as_str(), "unknown_tool");
    assert!(stack.run_call(call("ping")).await.is_completed());
}

#[tokio::test]
async fn an_async_hook_hides_from_lists_and_calls_alike() {
    let probe = Probe::new();
    let stack = HooksLayer::new()
        .after_list_async("plan", |list| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                list.retain(|tool| tool.name != *"secret");
                Ok(())
            })
        })
        .layer(tools(&probe));
    for _ in 0..2 {
        assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["admin.reset", "ping"]);
        assert_eq!(stack.run_call(call("secret")).await.outcome().as_str(), "unknown_tool");
        assert!(stack.run_call(call("ping")).await.is_completed());
    }
    assert_eq!(probe.runs(), 2);
}

#[tokio::test]
async fn a_hook_that_fails_hides_everything_and_one_that_halts_says_why() {
    for (layer, word) in [
        (HooksLayer::new().after_list("bad", |_| Err(Halt::failed("broken"))), "internal"),
        (HooksLayer::new().after_list("bad", |_| panic!("broken")), "internal"),
        (HooksLayer::new().after_list("bad", |_| Err(Halt::missing_scopes(["tools"]))), "insufficient_scope"),
    ] {
        let failures = layer.failures();
        let stack = layer.layer(tools(&Probe::new()));
        let list = stack.list_tools().await;
        assert!(list.tools().is_empty());
        assert_eq!((list.refusal().unwrap().kind().as_str(), list.refusal().unwrap().by()), (word, "bad"));
        assert_eq!(stack.run_call(call("ping")).await.outcome().as_str(), word);
        assert_eq!(failures.of("bad"), if word == "internal" { 2 } else { 0 });
    }
}

#[tokio::test]
async fn a_hook_that_fails_open_hides_nothing_not_even_what_it_had_taken_away() {
    let hook = Hook::after_list("bad", |list| {
        list.retain(|_| false);
        Err(Halt::failed("broken"))
    });
    let stack = HooksLayer::new().hook(hook.fail_open()).layer(tools(&Probe::new()));
    assert_eq!(stack.list_tools().await.tools().len(), 3);
    assert!(stack.run_call(call("ping")).await.is_completed());
}

#[tokio::test]
async fn a_tool_that_only_a_fallback_answers_is_in_no_list_and_so_unknown() {
    let fallback = || {
        Router::new()
            .tool(sync_tool_fn("ping", || "pong"))
            .fallback(tower::service_fn(async |_: ToolCall| Ok::<_, std::convert::Infallible>(ToolResponse::text("any"))))
    };
    assert!(fallback().run_call(call("other")).await.is_completed());
    assert_eq!(plan().layer(fallback()).run_call(call("other")).await.outcome().as_str(), "unknown_tool");
    // A hook that is not about what is listed leaves it alone.
    let stack = HooksLayer::new().before("b", |_| Ok(())).layer(fallback());
    assert!(stack.run_call(call("other")).await.is_completed());
}

proptest! {
    #[test]
    fn what_is_listed_can_be_called_and_what_is_not_cannot(hidden in prop::collection::vec(any::<bool>(), 6), waits in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let names: Vec<String> = (0..hidden.len()).map(|n| format!("t{n}")).collect();
            let router = names.iter().fold(Router::new(), |router, name| router.tool(Probe::new().tool(name)));
            let keep = {
                let (names, hidden) = (names.clone(), hidden.clone());
                move |name: &str| !names.iter().zip(&hidden).any(|(n, h)| n == name && *h)
            };
            let layer = if waits {
                HooksLayer::new().after_list_async("hide", move |list| {
                    list.retain(|tool| keep(&tool.name));
                    Box::pin(std::future::ready(Ok(())))
                })
            } else {
                HooksLayer::new().after_list("hide", move |list| { list.retain(|tool| keep(&tool.name)); Ok(()) })
            };
            let stack = layer.layer(router);
            let listed = stack.list_tools().await;
            for name in names.iter().map(String::as_str).chain(["t9"]) {
                let outcome = stack.run_call(ToolCall::new(name, ())).await.outcome();
                assert_eq!(listed.get(name).is_some(), outcome == Outcome::Completed, "{name}: {outcome}");
            }
        });
    }
}
