//! A hook of one's own: a quota for each person and tool, in the few lines of `quota`.
//!
//! Run with `cargo run --example custom_hook`.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt, ToolCall,
    layer::hooks::{Hook, HooksLayer},
    model::{Context, Principal},
    select::ToolSelector,
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

/// Lets each person call each tool that may change something so many times, and tells the model when one call is left.
fn quota(most: u32) -> Hook {
    let used: Mutex<HashMap<(String, String), u32>> = Mutex::default();
    let hook = Hook::before("quota", move |call| {
        let who = call.call().context.principal().subject.clone();
        let key = (who, call.call().name().to_string());
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        let count = used.entry(key).or_default();
        if *count == most {
            // Any refusal stops the call; `?` makes one of an error, and of any other error a failure of the hook.
            Err(Refusal::new(RefusalKind::LimitExceeded, "The quota for this tool is used up."))?;
        }
        *count += 1;
        if *count == most {
            call.remark("This was the last call of this tool that the quota allows.");
        }
        Ok(())
    });
    hook.only(ToolSelector::new().read_only(false))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let hooks = HooksLayer::new().hook(quota(2)).on_denied("log", |end| {
        println!("  log: {} was denied by {}", end.call().name(), end.halted_by().unwrap_or("a layer within"));
    });
    let tools = Router::new().tool(sync_tool_fn("look", || "nothing new").read_only()).tool(sync_tool_fn("deploy", || "deployed"));
    let stack = ServiceBuilder::new().catch_panic().hooks(hooks).service(tools);
    print!("{}", stack.describe().await);

    for (who, tool) in
        [("ada", "deploy"), ("ada", "deploy"), ("ada", "deploy"), ("bob", "deploy"), ("ada", "look"), ("ada", "look"), ("ada", "look")]
    {
        let context = Context::new().with_principal(Principal::new(who));
        let response = stack.run_call(ToolCall::new(tool, json!({})).with_context(context)).await;
        println!("{who} {tool}: {}", response.as_text().unwrap_or_default());
        for remark in response.remarks() {
            println!("  {}: {}", remark.by, remark.text);
        }
    }
    let context = Context::new().with_principal(Principal::new("ada"));
    let refused = stack.run_call(ToolCall::new("deploy", json!({})).with_context(context)).await;
    assert_eq!(refused.refusal().map(|refusal| (refusal.kind(), refusal.by())), Some((RefusalKind::LimitExceeded, "quota")));
}
