use std::time::Duration;

use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{
        PolicyLayer, VisibilityLayer,
        closures::Gate,
        gate,
        hooks::{Halt, HooksLayer},
    },
    stack::ToolStack,
    testing::Probe,
};
use tower::{Layer, ServiceBuilder};

use super::{Trace, call};

fn noisy(trace: &Trace, name: &'static str) -> HooksLayer {
    saying(trace, name, [">", "<"])
}

fn saying(trace: &Trace, name: &'static str, [before, after]: [&'static str; 2]) -> HooksLayer {
    let (inward, outward) = (trace.clone(), trace.clone());
    HooksLayer::new()
        .before(name, move |_| {
            inward.say(format!("{name}{before}"));
            Ok(())
        })
        .after(name, move |_| {
            outward.say(format!("{name}{after}"));
            Ok(())
        })
}

/// The trace of MCS: what stands first in the list is outermost.
#[tokio::test]
async fn hooks_of_two_layers_run_outermost_first_inward_and_last_outward() {
    let trace = Trace::default();
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(noisy(&trace, "A")).layer(noisy(&trace, "B")).service(Router::new().tool(probe.tool("t")));
    stack.run_call(call("t")).await;
    assert_eq!(trace.text(), "A> B> B< A<");
}

/// The trace of ADR-003, word for word; when one in the middle refuses, what is outside of it hears and what is within does not.
#[tokio::test]
async fn hooks_of_three_layers_make_the_trace_of_adr_003() {
    let trace = Trace::default();
    let layer = |name| saying(&trace, name, [":in", ":out"]);
    let three = ServiceBuilder::new().layer(layer("A")).layer(layer("B")).layer(layer("C"));
    three.service(Router::new().tool(Probe::new().tool("t"))).run_call(call("t")).await;
    assert_eq!(trace.text(), "A:in B:in C:in C:out B:out A:out");

    let no = gate("no", |_| Err(Refusal::new(RefusalKind::Denied, "no")));
    let stopped = ServiceBuilder::new().layer(layer("A")).layer(layer("B")).layer(no).layer(layer("C"));
    stopped.service(Router::new().tool(Probe::new().tool("t"))).run_call(call("t")).await;
    assert_eq!(trace.text(), "A:in B:in B:out A:out");
}

/// The order of Sake: each event's list from first to last.
#[tokio::test]
async fn hooks_of_one_layer_run_in_the_order_of_registration_both_ways() {
    let trace = Trace::default();
    let mut layer = HooksLayer::new();
    for name in ["A", "B"] {
        let [request, list, before, after, success, finish] = std::array::from_fn(|_| trace.clone());
        // Added from the last event to the first: what runs when is the event's business.
        layer = layer
            .on_finish(name, move |_| finish.say(format!("{name}:finish")))
            .on_success(name, move |_| success.say(format!("{name}:success")))
            .after(name, move |_| {
                after.say(format!("{name}:after"));
                Ok(())
            })
            .before(name, move |_| {
                before.say(format!("{name}:before"));
                Ok(())
            })
            .after_list(name, move |_| {
                list.say(format!("{name}:list"));
                Ok(())
            })
            .before_request(name, move |_| {
                request.say(format!("{name}:request"));
                Ok(())
            });
    }
    let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
    stack.run_call(call("t")).await;
    let inward = "A:request B:request A:list B:list A:before B:before";
    let outward = "A:after B:after A:finish A:success B:finish B:success";
    assert_eq!(trace.text(), format!("{inward} {outward}"));

    stack.list_tools().await;
    assert_eq!(trace.text(), "A:request B:request A:list B:list");
}

#[tokio::test(start_paused = true)]
async fn an_async_hook_keeps_its_place_among_the_others() {
    let trace = Trace::default();
    let said = |what: &'static str| {
        let trace = trace.clone();
        move || trace.say(what)
    };
    let slow = |what: &'static str, millis: u64| {
        let said = said(what);
        move || {
            let said = said.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                said();
            }
        }
    };
    let (a, b, c) = (said("a"), slow("b", 50), said("c"));
    let (d, e, f) = (slow("d", 50), said("e"), slow("f", 10));
    let (g, h, i) = (slow("g", 50), said("h"), slow("i", 10));
    let layer = HooksLayer::new()
        .before("a", move |_| {
            a();
            Ok(())
        })
        .before_async("b", move |_| {
            let wait = b();
            Box::pin(async move {
                wait.await;
                Ok(())
            })
        })
        .before("c", move |_| {
            c();
            Ok(())
        })
        .after_async("d", move |_| {
            let wait = d();
            Box::pin(async move {
                wait.await;
                Ok(())
            })
        })
        .after("e", move |_| {
            e();
            Ok(())
        })
        .after_async("f", move |_| {
            let wait = f();
            Box::pin(async move {
                wait.await;
                Ok(())
            })
        })
        .on_finish_async("g", move |_| g())
        .on_success("h", move |_| h())
        .on_finish_async("i", move |_| i());
    let background = layer.background();
    let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
    for _ in 0..2 {
        assert!(stack.run_call(call("t")).await.is_completed());
        // Those that hear at once hear before the caller has its answer; the others after it, in order.
        assert_eq!(trace.text(), "a b c d e f h");
        background.idle().await;
        assert_eq!(trace.text(), "g i");
    }
}

/// Whether a call of `delete` is denied, for its argument or because there is no such thing, and what `lint` says.
async fn asked(stack: &impl ToolStack, path: &str) -> (Option<RefusalKind>, Vec<&'static str>) {
    let response = stack.run_call(ToolCall::new("delete", json!({ "path": path }))).await;
    let broken = stack.lint().await.iter().map(|fault| fault.rule).collect();
    (response.refusal().map(Refusal::kind), broken)
}

/// Lets nothing near `/etc`.
fn judge() -> PolicyLayer<Gate<impl Fn(&mut ToolCall) -> Result<(), Refusal> + Send + Sync + 'static>> {
    gate("judge", |call: &mut ToolCall| {
        let allowed = call.arguments.object().is_ok_and(|object| object["path"].as_str().is_some_and(|path| !path.starts_with("/etc")));
        if allowed { Ok(()) } else { Err(Refusal::new(RefusalKind::Denied, "Not there.").with_by("judge")) }
    })
}

#[tokio::test]
async fn hooks_that_rewrite_stand_outside_what_judges_arguments() {
    let rewrite = || {
        HooksLayer::new().before("absolute", |call| {
            call.set_arguments(json!({ "path": "/etc/passwd" }).as_object().cloned().unwrap_or_default());
            Ok(())
        })
    };
    let tools = || Router::new().tool(Probe::new().tool("delete"));
    let right = ServiceBuilder::new().layer(rewrite()).layer(judge()).service(tools());
    assert_eq!(asked(&right, "passwd").await, (Some(RefusalKind::Denied), vec![]));
    let swapped = ServiceBuilder::new().layer(judge()).layer(rewrite()).service(tools());
    // What was judged is not what ran.
    assert_eq!(asked(&swapped, "passwd").await, (None, vec!["rewrite-after-decision"]));
}

#[tokio::test]
async fn hooks_that_decide_about_tools_stand_inside_what_hides_them() {
    let deny = || HooksLayer::new().before("deny", |_| Err(Halt::error("Nobody may delete.")));
    let hide = || VisibilityLayer::new(|tool, _| tool.name != *"delete");
    let tools = || Router::new().tool(Probe::new().tool("delete"));
    let right = ServiceBuilder::new().layer(hide()).layer(deny()).service(tools());
    assert_eq!(asked(&right, "x").await, (Some(RefusalKind::UnknownTool), vec![]));
    // It is told that there is such a tool.
    let swapped = ServiceBuilder::new().layer(deny()).layer(hide()).service(tools());
    assert_eq!(asked(&swapped, "x").await, (Some(RefusalKind::Denied), vec!["decision-before-visibility"]));
}

#[tokio::test]
async fn hooks_that_hide_stand_outside_what_decides() {
    let hide = || {
        HooksLayer::new().after_list("hide", |list| {
            list.retain(|tool| tool.name != *"delete");
            Ok(())
        })
    };
    let tools = || Router::new().tool(Probe::answering(|_| ToolResponse::text("done")).tool("delete"));
    let right = ServiceBuilder::new().layer(hide()).layer(judge()).service(tools());
    assert_eq!(asked(&right, "/etc").await, (Some(RefusalKind::UnknownTool), vec![]));
    let swapped = ServiceBuilder::new().layer(judge()).layer(hide()).service(tools());
    assert_eq!(asked(&swapped, "/etc").await, (Some(RefusalKind::Denied), vec!["decision-before-visibility"]));
}
