//! Sessions on the tools of the quickstart: each call belongs to one, the model chooses none, and closing waits for what still runs.
//!
//! Run with `cargo run --example sessions`. It reads the directory that it is started in, and writes nothing.

#![allow(clippy::needless_pass_by_value, reason = "a tool function takes what it takes by value")]

#[path = "quickstart/confined.rs"]
mod confined;
#[path = "quickstart/tools.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod tools;
#[path = "quickstart/walk.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod walk;

use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolstack::{
    Router, Stack, StackExt, ToolCall, ToolResponse,
    error::render_error_payload,
    layer::{PinLayer, SessionLayer, map_result, session::HeldSessions},
    model::{Context, Principal},
    store::{MemorySessions, SessionLimits, SessionOwner},
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

use self::confined::Confined;

/// What is kept in a session.
#[derive(Default)]
struct Counted {
    calls: AtomicU32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Used {
    /// The session. The model is never shown this: it is pinned.
    session_id: String,
}

fn used(args: Used, sessions: HeldSessions) -> String {
    let calls =
        sessions.get("session_id").and_then(|session| session.value::<Counted>()).map(|counted| counted.calls.load(Ordering::Relaxed));
    format!("session {} has seen {} calls", args.session_id, calls.unwrap_or_default())
}

fn stack(dir: &Confined, sessions: &MemorySessions) -> Stack {
    // The file tools have no parameter for a session: theirs is that of the context, and it must be open.
    let of_context =
        SessionLayer::new(sessions.clone()).extract_required("session", |call| call.context.session().map(str::to_owned)).require_open();
    let count = toolstack::layer::gate("count", |call| {
        if let Some(counted) = HeldSessions::of(&call.context).get("session").and_then(|session| session.value::<Counted>()) {
            counted.calls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let files = tools::tools(dir).layer(ServiceBuilder::new().layer(of_context).layer(count).into_inner());

    ServiceBuilder::new()
        .layer(map_result("error_payload", render_error_payload))
        .layer(PinLayer::session("session_id"))
        .layer(SessionLayer::new(sessions.clone()).argument("session_id"))
        .service(Router::new().nest("files", files).tool(sync_tool_fn("used", used).describe("How many calls this session has seen.")))
        .into_stack()
}

async fn call(stack: &Stack, who: &str, session: &str, name: &str, arguments: serde_json::Value) -> ToolResponse {
    let context = Context::new().with_principal(Principal::new(who)).with_session(session);
    let answer = stack.run_call(ToolCall::new(name, arguments).with_context(context)).await;
    let text: String = answer.as_text().unwrap_or_default().chars().take(140).collect();
    println!("{who:<4} {session:<8} {name:<18} {:<18} {}", answer.outcome(), text.replace('\n', " "));
    answer
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Confined::open(Path::new("."))?;
    let sessions = MemorySessions::new(SessionLimits::new(100).per_owner(10).idle(Duration::from_secs(3600)));
    sessions.open_as("monday", SessionOwner::of(&Principal::new("ada")), Counted::default())?;
    sessions.open_as("tuesday", SessionOwner::of(&Principal::new("ada")), Counted::default())?;
    let stack = stack(&dir, &sessions);
    println!("{}\n", stack.describe().await);
    assert!(!stack.list_tools().await.get("used").ok_or("no such tool")?.input_schema().get().contains("session_id"));

    assert!(call(&stack, "ada", "monday", "files.read_file", json!({ "path": "Cargo.toml" })).await.is_completed());
    assert!(call(&stack, "ada", "monday", "files.list_dir", json!({})).await.is_completed());

    // The model asks for another session, and gets its own.
    let answer = call(&stack, "ada", "monday", "used", json!({ "session_id": "tuesday" })).await;
    assert_eq!(answer.as_text().as_deref(), Some("session monday has seen 2 calls"));

    // To anybody else the session is not there.
    let answer = call(&stack, "eve", "monday", "files.list_dir", json!({})).await;
    assert_eq!(answer.as_text().as_deref(), Some(r#"{"error":"session_not_found","message":"Session 'monday' not found."}"#));

    // Closing waits for the call that still runs, a minute here, and lets no new one begin.
    let (slow, closed, late) = tokio::join!(
        call(&stack, "ada", "monday", "files.demo_slow", json!({})),
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let began = tokio::time::Instant::now();
            (sessions.close("monday").await, began.elapsed())
        },
        async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            call(&stack, "ada", "monday", "files.list_dir", json!({})).await
        },
    );
    println!("\nclosed after {:?}", closed.1);
    assert!(slow.is_completed() && closed.0 && closed.1 >= Duration::from_secs(58));
    assert!(late.as_text().is_some_and(|text| text.contains("session_closed")));
    Ok(())
}
