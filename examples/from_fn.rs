//! Layers from functions: the quickest way to do something around a call.
//!
//! Run with `cargo run --example from_fn`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    middleware::{Next, from_fn},
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

#[derive(Deserialize, JsonSchema)]
struct Square {
    of: i64,
}

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what passes. A named function is generic over the error of what is within, and passes it on.
async fn log<E>(log: Log, call: ToolCall, next: Next<E>) -> Result<ToolResponse, E> {
    let name = call.name().clone();
    let response = next.run(call).await?;
    log.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {}", response.outcome().as_str()));
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let entries = Log::default();
    let remembered: Arc<Mutex<HashMap<String, ToolResponse>>> = Arc::default();

    let stack = ServiceBuilder::new()
        // State is captured.
        .layer(
            from_fn({
                let entries = entries.clone();
                move |call, next| log(entries.clone(), call, next)
            })
            .name("log"),
        )
        // Changes the call on its way in. The policies further in see what the tool will get.
        .layer(
            from_fn(async |mut call: ToolCall, next: Next<_>| {
                if call.name() == "sqr" {
                    call.rename("square");
                }
                next.run(call).await
            })
            .name("old_names"),
        )
        // Refuses without running anything.
        .layer(
            from_fn(async |call: ToolCall, next: Next<_>| {
                match call.arguments.object() {
                    Ok(arguments) if arguments.get("of").is_some_and(|of| of == 13) => {
                        Ok(Refusal::new(RefusalKind::Denied, "Not that number.").with_by("superstition").into())
                    }
                    // Arguments that cannot be read are the tool's to refuse, in words about its arguments.
                    _ => next.run(call).await,
                }
            })
            .name("superstition"),
        )
        // Answers in the tool's place, and says so. Only what was completed is kept: no refusal, no question to a person, no task.
        .layer(
            from_fn(move |call: ToolCall, next: Next<_>| {
                let remembered = remembered.clone();
                async move {
                    let key = format!("{} {}", call.name(), call.arguments.as_json().unwrap_or_default());
                    let known = remembered.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
                    if let Some(mut known) = known {
                        if let Some(result) = known.result_mut() {
                            result.set_served_by("memory");
                        }
                        return Ok(known);
                    }
                    let response = next.run(call).await?;
                    if response.is_completed() {
                        remembered.lock().unwrap_or_else(PoisonError::into_inner).insert(key, response.clone());
                    }
                    Ok(response)
                }
            })
            .name("memory"),
        )
        .service(Router::new().tool(sync_tool_fn("square", |args: Square| args.of * args.of).read_only()));

    println!("{}", stack.describe().await);

    let first = stack.call_tool("sqr", json!({ "of": 12 })).await;
    assert_eq!(first.as_text().as_deref(), Some("144"));
    assert_eq!(first.result().and_then(|result| result.served_by()), None);

    let second = stack.call_tool("square", json!({ "of": 12 })).await;
    assert_eq!(second.as_text().as_deref(), Some("144"));
    assert_eq!(second.result().and_then(|result| result.served_by()), Some("memory"));

    let refused = stack.call_tool("square", json!({ "of": 13 })).await;
    assert_eq!(refused.refusal().map(|refusal| (refusal.kind(), refusal.by())), Some((RefusalKind::Denied, "superstition")));

    let invalid = stack.call_tool("square", json!({})).await;
    assert_eq!(invalid.refusal().map(Refusal::kind), Some(RefusalKind::InvalidArguments));

    // Lists pass by.
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["square"]);

    let entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
    entries.iter().for_each(|entry| println!("{entry}"));
    assert_eq!(*entries, ["sqr: completed", "square: completed", "square: denied", "square: invalid_arguments"]);
}
