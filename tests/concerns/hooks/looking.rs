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

use super::call;

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
