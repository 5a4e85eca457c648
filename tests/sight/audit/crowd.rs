//! Thousands of calls at once, some of which nobody waits for: each has exactly one record.

use std::collections::HashMap;

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::json;
use toolstack::{
    ListTools, Router, ServiceBuilderExt, StackExt, ToolCall,
    layer::{AuditLayer, audit::channel},
    model::CallId,
    tool::{sync_tool_fn, tool_fn},
};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::records;

#[derive(Deserialize, schemars::JsonSchema)]
struct Yields {
    times: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_start_has_exactly_one_record() {
    const CALLS: i64 = 8000;
    let (sink, mut log) = channel(usize::try_from(CALLS).unwrap() * 2);
    let handle = sink.handle();
    let tools = Router::new()
        .tool(tool_fn("yields", |args: Yields| async move {
            for _ in 0..args.times {
                tokio::task::yield_now().await;
            }
            "done"
        }))
        .tool(sync_tool_fn("panics", || -> String { panic!("as it was told to") }));
    let stack = ServiceBuilder::new().catch_panic().layer(AuditLayer::new(sink)).concurrency_limit(16).service(tools);

    let tasks = (0..CALLS).map(|id| {
        let stack = stack.clone();
        tokio::spawn(async move {
            let name = if id % 7 == 0 { "panics" } else { "yields" };
            let call = ToolCall::new(name, json!({ "times": id % 5 })).with_id(id);
            match id % 4 {
                // To the end.
                0 | 1 => drop(stack.run_call(call).await),
                // Dropped after one poll.
                2 => drop(stack.run_call(call).now_or_never()),
                // Dropped before any.
                _ => {
                    let mut stack = stack;
                    drop(ServiceExt::<ToolCall>::ready(&mut stack).await.unwrap().call(call));
                }
            }
        })
    });
    let done = futures_util::future::join_all(tasks.collect::<Vec<_>>()).await;
    assert!(done.iter().all(Result::is_ok));
    stack.clone().oneshot(ListTools::new()).await.unwrap();

    let all = records(&mut log);
    assert_eq!((handle.lost(), all.len()), (0, usize::try_from(CALLS).unwrap() + 1));
    let mut by_id: HashMap<Option<CallId>, usize> = HashMap::new();
    for record in &all {
        *by_id.entry(record.call.clone()).or_default() += 1;
    }
    assert!((0..CALLS).all(|id| by_id.get(&Some(id.into())) == Some(&1)));
    let mut sequences: Vec<_> = all.iter().map(|record| record.sequence).collect();
    sequences.sort_unstable();
    assert!(sequences.into_iter().eq(0..=u64::try_from(CALLS).unwrap()));
}
