//! A call is held to the tool that a hook looked at, and to none where no hook did.

use toolstack::{
    Router, StackExt, ToolCall,
    layer::{
        hooks::{Hook, HooksLayer},
        map_call,
    },
    select::ToolSelector,
    testing::Probe,
};
use tower::{Layer, ServiceBuilder};

use super::{Trace, call};

/// How a call of `t` ends when something within makes it one of `other`.
async fn renamed(layer: HooksLayer) -> String {
    let stack = ServiceBuilder::new()
        .layer(layer)
        .layer(map_call("other", |call| *call = ToolCall::new("other", ())))
        .service(Router::new().tool(Probe::new().tool("t")).tool(Probe::new().tool("other")));
    // Twice, since the first call learns the tools.
    stack.run_call(call("t")).await;
    stack.run_call(call("t")).await.outcome().to_string()
}

#[tokio::test]
async fn a_call_runs_the_tool_that_a_hook_looked_at_or_none() {
    let any = HooksLayer::new();
    assert_eq!(renamed(any.clone().before("blind", |_| Ok(()))).await, "completed");
    assert_eq!(renamed(any.clone().after("result", |_| Ok(())).on_finish("end", |_| ())).await, "completed");

    let looks = any.clone().before("looks", |call| {
        assert!(call.tool().is_some_and(|tool| tool.spec().name == "t"));
        assert!(call.tool().is_some());
        Ok(())
    });
    assert_eq!(renamed(looks).await, "denied");
    let looks_later = any.clone().before_async("looks", |call| {
        Box::pin(async move {
            tokio::task::yield_now().await;
            assert!(call.tool().is_some());
            Ok(())
        })
    });
    assert_eq!(renamed(looks_later).await, "denied");
    let only = ToolSelector::new().name("t").unwrap();
    assert_eq!(renamed(any.clone().hook(Hook::on_finish("scoped", |_| ()).only(only))).await, "denied");
    assert_eq!(
        renamed(any.after_list("list", |tools| {
            tools.retain(|_| true);
            Ok(())
        }))
        .await,
        "denied"
    );
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_none() {
    let layer = HooksLayer::new().before("looks", |call| {
        assert_eq!(call.tool().is_some(), call.call().name() == "t");
        Ok(())
    });
    let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
    for (name, outcome) in [("t", "completed"), ("none", "unknown_tool"), ("t", "completed")] {
        assert_eq!(stack.run_call(call(name)).await.outcome().to_string(), outcome);
    }
}

/// Quick selectors are asked at each call and others once; with more than 64 hooks too, each is about its own tools.
#[tokio::test]
async fn each_hook_runs_for_its_own_tools_however_many_and_however_they_are_selected() {
    for (count, pattern) in [(1, "t"), (2, "t*"), (3, "t*"), (1, "[s-u]"), (63, "t"), (64, "t"), (65, "[t]"), (130, "t*"), (200, "[s-u]")] {
        let trace = Trace::default();
        let said = |event: &str, n: usize| {
            let (trace, text) = (trace.clone(), format!("{event}{n}"));
            move || trace.say(text.clone())
        };
        // Every third one is about the tool that is called, every third about another, every third about all.
        let only = |hook: Hook, n: usize| match n % 3 {
            0 => hook.only(ToolSelector::new().name(pattern).unwrap()),
            1 => hook.only(ToolSelector::new().name("other").unwrap()),
            _ => hook,
        };
        let mut layer = HooksLayer::new();
        let mut expected = Vec::new();
        for (event, begins) in [("b", 0), ("a", 1), ("o", 2)] {
            for n in (begins..count).step_by(3).map(|n| n / 3 + begins) {
                let (said, name) = (said(event, n), format!("{event}{n}"));
                let hook = match event {
                    "b" => Hook::before(name, move |_| {
                        said();
                        Ok(())
                    }),
                    "a" => Hook::after(name, move |_| {
                        said();
                        Ok(())
                    }),
                    _ => Hook::on_finish(name, move |_| said()),
                };
                layer = layer.hook(only(hook, n));
                if n % 3 != 1 {
                    expected.push(format!("{event}{n}"));
                }
            }
        }
        let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
        for _ in 0..3 {
            stack.run_call(call("t")).await;
            assert_eq!(trace.take(), expected, "{count} {pattern}");
        }
    }
}

#[tokio::test]
async fn a_tool_that_takes_the_place_of_another_is_selected_anew() {
    let trace = Trace::default();
    let said = trace.clone();
    let tagged = Hook::before("tagged", move |_| {
        said.say("ran");
        Ok(())
    });
    let router = Router::new().tool(Probe::new().tool("t"));
    let tools = router.handle();
    let stack = HooksLayer::new().hook(tagged.only(ToolSelector::new().tag("new"))).layer(router);
    stack.run_call(call("t")).await;
    assert_eq!(trace.text(), "");
    for _ in 0..2 {
        tools.replace(Probe::new().tool("t").tag("new")).unwrap();
        stack.run_call(call("t")).await;
        assert_eq!(trace.text(), "ran");
    }
    tools.replace(Probe::new().tool("t")).unwrap();
    stack.run_call(call("t")).await;
    assert_eq!(trace.text(), "");
}
