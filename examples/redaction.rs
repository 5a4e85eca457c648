//! Redaction on the tools of the quickstart: the model reads no secret, the tool gets what it needs, the log has neither.
//!
//! Run with `cargo run --example redaction --features redact`. It works in a directory of its own and removes it in the end.

#[path = "quickstart/confined.rs"]
mod confined;
#[path = "quickstart/tools.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod tools;
#[path = "quickstart/walk.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod walk;

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::json;
use toolstack::{
    ServiceBuilderExt, Stack, StackExt,
    layer::{
        RedactLayer,
        redact::{Detector, Redactor},
    },
};
use tower::ServiceBuilder;

use self::confined::Confined;

const SETTINGS: &str = "\
owner = ada@example.com
aws_access_key_id = AKIAIOSFODNN7EXAMPLE
database = postgres://ada:correct-horse@db.example.com/orders
project = Bluebird
workers = 8
";

/// Removes what the example wrote.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stack(dir: &Confined, log: &Arc<Mutex<Vec<String>>>) -> Stack {
    // What is known by its form, and what is known by name.
    let redactor = Redactor::secrets().and(&Redactor::personal()).detector(Detector::literal("project", "Bluebird"));
    let (observer, log) = (redactor.clone(), Arc::clone(log));
    ServiceBuilder::new()
        .catch_panic()
        .layer(RedactLayer::new(redactor))
        // The log has a redactor of its own; calls go on as they are.
        .gate("log", move |call| {
            let arguments = observer.arguments(&call.arguments);
            let line = format!("{} {}", call.name(), arguments.as_json().unwrap_or("(unreadable)"));
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            Ok(())
        })
        .service(tools::tools(dir))
        .into_stack()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = Scratch(std::env::temp_dir().join(format!("toolstack-redaction-{}", std::process::id())));
    fs::create_dir_all(&scratch.0)?;
    fs::write(scratch.0.join("settings.ini"), SETTINGS)?;
    let log = Arc::default();
    let stack = stack(&Confined::open(&scratch.0)?, &log);

    let read = stack.call_tool("read_file", json!({ "path": "settings.ini" })).await;
    let read = read.as_text().unwrap_or_default().into_owned();
    println!("What the model reads of settings.ini:\n\n{read}");
    for secret in ["ada@example.com", "AKIA", "correct-horse", "Bluebird"] {
        assert!(!read.contains(secret), "{secret} is hidden");
    }
    assert!(read.contains("workers = 8"), "the rest is not");

    let found = stack.call_tool("search", json!({ "text": "workers" })).await;
    println!("What it finds: {}", found.as_text().unwrap_or_default());

    // Results are redacted, calls are not: the file has the password that the model wrote.
    let write = json!({ "path": "new.ini", "content": "password = open-sesame\n" });
    assert!(stack.call_tool("write_file", write).await.is_completed());
    assert_eq!(fs::read_to_string(scratch.0.join("new.ini"))?, "password = open-sesame\n");

    println!("\nThe log:");
    for line in log.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("  {line}");
        assert!(!line.contains("open-sesame"));
    }
    Ok(())
}
