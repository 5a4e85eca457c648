//! Layers that are swapped while calls are in flight.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{sync::Semaphore, time::sleep};
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{
        PolicyLayer, RequireFieldsLayer, TimeoutLayer, ValidateLayer, calls,
        closures::{Gate, GateAsync},
        gate, gate_async, map_call, reload,
        reload::AnyLayer,
    },
    stack::{Reentry, ToolStack},
    testing::Probe,
    tool::{sync_tool_fn, tool_fn},
};
use tower::{ServiceBuilder, ServiceExt as _, limit::ConcurrencyLimitLayer};
use tower_service::Service as _;

fn deny() -> Result<(), Refusal> {
    Err(Refusal::new(RefusalKind::Denied, "no"))
}

type Rule = fn(&mut ToolCall) -> Result<(), Refusal>;

fn rule(name: &'static str, rule: Rule) -> PolicyLayer<Gate<Rule>> {
    gate(name, rule)
}

#[tokio::test]
async fn a_call_after_a_swap_is_the_new_layer_s_on_every_clone_and_the_stack_shows_it() {
    let (layer, handle) = reload(rule("old", |_| Ok(())));
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
    let other = stack.clone();
    assert!(stack.call_tool("probe", json!({})).await.is_completed());
    assert_eq!(stack.describe().await.layers().iter().map(|note| note.name()).collect::<Vec<_>>(), ["old"]);
    handle.swap(rule("new", |_| deny()));
    for stack in [&stack, &other] {
        assert_eq!(stack.call_tool("probe", json!({})).await.refusal().unwrap().kind(), RefusalKind::Denied);
        assert_eq!(stack.describe().await.layers().iter().map(|note| note.name()).collect::<Vec<_>>(), ["new"]);
        assert_eq!(stack.describe().await.tools().len(), 1);
    }
    assert_eq!(probe.runs(), 1);
    assert!(stack.list_tools().await.get("probe").is_some());
}

#[tokio::test]
async fn an_instance_that_was_ready_before_a_swap_is_judged_by_the_new_layer_and_gives_its_permit_back() {
    let (layer, handle) = reload(rule("old", |_| Ok(())));
    let limit = Arc::new(Semaphore::new(1));
    let probe = Probe::new();
    let mut stack = ServiceBuilder::new()
        .layer(layer)
        .layer(tower::limit::GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&limit)))
        .service(Router::new().tool(probe.tool("probe")));
    tower::ServiceExt::<ToolCall>::ready(&mut stack).await.unwrap();
    assert_eq!(limit.available_permits(), 0);
    handle.swap(rule("new", |_| deny()));
    let answer = stack.call(ToolCall::new("probe", json!({}))).await.unwrap();
    assert_eq!(answer.refusal().unwrap().kind(), RefusalKind::Denied);
    drop(stack);
    assert_eq!((limit.available_permits(), probe.runs()), (1, 0));

    let _ = tower::service_fn(async |(): ()| Ok::<_, ()>(())).oneshot(()).await;
}

type Asked = futures_util::future::BoxFuture<'static, Result<(), Refusal>>;

/// A layer that takes a second and then says what it says.
fn slow(
    says: fn() -> Result<(), Refusal>,
    asked: &Arc<AtomicUsize>,
) -> PolicyLayer<GateAsync<Box<dyn Fn(ToolCall) -> Asked + Send + Sync>>> {
    let asked = Arc::clone(asked);
    gate_async(
        "ask",
        Box::new(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                sleep(Duration::from_secs(1)).await;
                says()
            })
        }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_finishes_under_the_old_layer_or_is_judged_again_by_choice() {
    for again in [false, true] {
        let asked = Arc::default();
        let (layer, handle) = reload(slow(|| Ok(()), &asked));
        let layer = if again { layer.judge_again() } else { layer };
        let probe = Probe::new();
        let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
        let call = tokio::spawn(stack.call_tool("probe", json!({})));
        sleep(Duration::from_millis(500)).await;
        handle.swap(slow(deny, &asked));
        let answer = call.await.unwrap();
        assert_eq!(answer.refusal().map(|refusal| refusal.kind()), again.then_some(RefusalKind::Denied));
        assert_eq!((probe.runs(), asked.load(Ordering::SeqCst)), if again { (0, 2) } else { (1, 1) });

        // Swapped back while the next one waits: what counts is the layer that is there when it is let through.
        let call = tokio::spawn(stack.call_tool("probe", json!({})));
        sleep(Duration::from_millis(500)).await;
        handle.swap(slow(|| Ok(()), &asked));
        assert_eq!(call.await.unwrap().refusal().unwrap().kind(), RefusalKind::Denied, "the old layer refused it, which stands");
    }
}

#[tokio::test(start_paused = true)]
async fn what_went_inward_before_a_swap_runs_once_and_what_starts_again_does_so_as_it_came() {
    let (layer, handle) =
        reload(ServiceBuilder::new().layer(map_call("add", add as fn(&mut ToolCall))).layer(slow(|| Ok(()), &Arc::default())).into_inner());
    fn add(call: &mut ToolCall) {
        let n = call.arguments.object().unwrap()["n"].as_i64().unwrap();
        call.arguments = json!({ "n": n + 1 }).into();
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let work = move |arguments: toolstack::model::Arguments| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_secs(5)).await;
            arguments.as_json().unwrap().to_owned()
        }
    };
    let stack = ServiceBuilder::new().layer(layer.judge_again()).service(Router::new().tool(tool_fn("work", work)));
    let next =
        || ServiceBuilder::new().layer(map_call("add", add as fn(&mut ToolCall))).layer(slow(|| Ok(()), &Arc::default())).into_inner();

    let call = tokio::spawn(stack.call_tool("work", json!({ "n": 1 })));
    sleep(Duration::from_secs(2)).await;
    handle.swap(next());
    assert_eq!(call.await.unwrap().as_text().unwrap(), r#"{"n":2}"#);
    assert_eq!(runs.load(Ordering::SeqCst), 1);

    let call = tokio::spawn(stack.call_tool("work", json!({ "n": 1 })));
    sleep(Duration::from_millis(500)).await;
    handle.swap(next());
    assert_eq!(call.await.unwrap().as_text().unwrap(), r#"{"n":2}"#, "added once, not twice");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn one_limit_holds_for_all_clones_also_after_a_swap() {
    let (layer, handle) = reload(ConcurrencyLimitLayer::new(8));
    let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let count = Arc::clone(&running);
    let work = move || {
        let count = Arc::clone(&count);
        async move {
            let now = count.0.fetch_add(1, Ordering::SeqCst) + 1;
            count.1.fetch_max(now, Ordering::SeqCst);
            sleep(Duration::from_secs(1)).await;
            count.0.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(tool_fn("work", work)));
    let clones: Vec<_> = (0..20).map(|_| stack.clone()).collect();
    handle.swap(ConcurrencyLimitLayer::new(2));
    let answers = futures_util::future::join_all(clones.iter().map(|stack| stack.call_tool("work", json!({})))).await;
    assert!(answers.iter().all(ToolResponse::is_completed));
    assert_eq!(running.1.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn layers_of_different_types_take_each_other_s_place() {
    let (layer, handle) = reload(AnyLayer::new(TimeoutLayer::new(Duration::from_secs(9))));
    let probe = Probe::new();
    let nested = |call: ToolCall| async move { Reentry::of(&call).unwrap().call_tool("outermost", json!({})).await };
    let stack = ServiceBuilder::new()
        .layer(map_call("rename", |call| {
            if *call.name() == "outermost" {
                call.rename("probe");
            }
        }))
        .layer(layer)
        .service(Router::new().tool(probe.tool("probe")).tool(tool_fn("nested", nested)));
    let names =
        async |stack: &toolstack::Stack| stack.describe().await.layers().iter().map(|note| note.name().to_owned()).collect::<Vec<_>>();
    let whole = stack.into_stack();
    assert_eq!(names(&whole).await, ["rename", "timeout"]);
    // A tool that calls others goes through the whole stack, not through the part that can be swapped.
    assert!(whole.call_tool("nested", json!({})).await.is_completed());
    assert_eq!(probe.runs(), 1);

    handle.swap(AnyLayer::new(
        ServiceBuilder::new().layer(RequireFieldsLayer::present(["a"])).layer(ValidateLayer::json_schema()).into_inner(),
    ));
    assert_eq!(names(&whole).await, ["rename", "require_fields", "validate"]);
    assert_eq!(whole.call_tool("probe", json!({})).await.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
}

#[tokio::test]
async fn a_swap_is_the_same_for_all_stacks_of_a_layer_and_one_swapped_layer_may_stand_in_another() {
    let (outer, swap_outer) = reload(rule("outer", |_| Ok(())));
    let (inner, swap_inner) = reload(rule("inner", |_| Ok(())));
    let make = || {
        ServiceBuilder::new()
            .layer(outer.clone().judge_again())
            .layer(inner.clone().judge_again())
            .service(Router::new().tool(sync_tool_fn("ping", || "pong")))
    };
    let (one, two) = (make(), make());
    assert!(one.call_tool("ping", json!({})).await.is_completed());
    swap_inner.swap(rule("inner", |_| deny()));
    for stack in [&one, &two] {
        assert_eq!(stack.call_tool("ping", json!({})).await.refusal().unwrap().kind(), RefusalKind::Denied);
    }
    swap_inner.swap(rule("inner", |_| Ok(())));
    swap_outer.swap(rule("outer", |_| deny()));
    for stack in [&one, &two] {
        assert_eq!(stack.call_tool("ping", json!({})).await.refusal().unwrap().kind(), RefusalKind::Denied);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_while_layers_are_swapped_all_the_time() {
    let (layer, handle) = reload(rule("a", |_| Ok(())));
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(layer.judge_again()).service(Router::new().tool(probe.tool("probe")));
    let swapping = tokio::spawn(async move {
        for _ in 0..500 {
            handle.swap(rule("a", |_| Ok(())));
            tokio::task::yield_now().await;
        }
    });
    let calls: Vec<_> = (0..500).map(|_| tokio::spawn(stack.call_tool("probe", json!({})))).collect();
    for call in calls {
        assert!(call.await.unwrap().is_completed());
    }
    swapping.await.unwrap();
    assert_eq!(probe.runs(), 500);
}

#[tokio::test]
async fn a_layer_of_another_crate_can_be_swapped_for_calls_alone() {
    let (layer, handle) = reload(calls(tower::filter::FilterLayer::new(|call: ToolCall| Ok::<_, toolstack::BoxError>(call))));
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(sync_tool_fn("ping", || "pong")));
    assert!(stack.call_tool("ping", json!({})).await.is_completed());
    drop(handle);
    assert!(stack.call_tool("ping", json!({})).await.is_completed());
    fn _is_a_stack(_: &impl ToolStack) {}
    _is_a_stack(&stack);
}
