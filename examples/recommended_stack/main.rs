//! A settings file in, a whole stack out: what stands in it, in which order, and what that does to calls.
//!
//! Run with `cargo run --features jsonschema,redact --example recommended_stack`. It works in a directory of its own and removes it.

#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "../quickstart/confined.rs"]
mod confined;
#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "../quickstart/tools.rs"]
mod tools;
#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "../quickstart/walk.rs"]
mod walk;

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use toolstack::{
    BoxError, Stack, StackExt, ToolCall,
    layer::permission::{Approval, ApprovalRequest, ApproverError},
    model::{Context, Principal},
    stack::{Settings, recommended},
};
use tower::Layer;

const SETTINGS: &str = include_str!("stack.toml");

/// Reads settings from TOML.
fn settings(text: &str) -> Result<Settings, BoxError> {
    Ok(Settings::read(toml::Deserializer::parse(text)?)?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dir = Scratch::new()?;

    // A key that is misspelt is an error that names its place.
    let error = settings(&SETTINGS.replace("unmatched", "unmached")).unwrap_err();
    println!("{error}");
    assert!(error.to_string().starts_with("permission.unmached: "));

    let mut settings = settings(SETTINGS)?;
    if let Some(file) = settings.audit.as_mut().and_then(|audit| audit.file.as_mut()) {
        file.path = dir.0.join("audit.jsonl");
    }
    let layer = recommended(settings).permission(|layer| layer.ask(person)).build()?;
    let stack: Stack = layer.layer(tools::tools(&confined::Confined::open(&dir.0.join("files"))?));

    let description = stack.describe().await;
    println!("{description}");
    println!("{}", description.to_mermaid());
    for fault in stack.lint().await {
        println!("{fault}");
    }
    assert!(stack.lint().await.is_empty());

    let ada = || Principal::new("ada");
    let calls: [(Principal, &str, Value, &str); 7] = [
        (ada(), "read_file", json!({ "path": "notes.md" }), "completed"),
        (ada(), "read_file", json!({}), "invalid_arguments"),
        // Arguments as a text in a text are put right, and the model is told so.
        (ada(), "read_file", json!(r#"{"path":"notes.md"}"#), "completed"),
        (ada(), "write_file", json!({ "path": "todo.md", "content": "buy milk" }), "completed"),
        (ada(), "write_file", json!({ "path": "keys.md", "content": "secret" }), "denied"),
        // Hidden from her, and there for an admin.
        (ada(), "disk_usage", json!({}), "unknown_tool"),
        (ada().scope("admin"), "disk_usage", json!({}), "completed"),
    ];
    let made = calls.len();
    for (who, name, arguments, expected) in calls {
        let call = ToolCall::new(name, arguments).with_context(Context::new().with_principal(who));
        let response = stack.run_call(call).await;
        let text = response.as_text().unwrap_or_default().into_owned();
        println!("{name:<11} {:<18} {}", response.outcome().as_str(), text.lines().next().unwrap_or_default());
        assert_eq!(response.outcome().as_str(), expected, "{text}");
        assert!(!text.contains("hunter2"), "what looks like a secret is hidden");
    }

    let audit = layer.audit().cloned().ok_or("the settings name a file")?;
    let counted = layer.metrics().snapshot().lifetime().total();
    drop((stack, layer));
    audit.closed().await;
    let records = fs::read_to_string(dir.0.join("audit.jsonl"))?;
    println!(
        "\n{} calls counted, {} recorded, of which the first is\n{}",
        counted,
        records.lines().count(),
        records.lines().next().unwrap_or_default()
    );
    assert_eq!((counted, records.lines().count()), (made as u64, made));
    Ok(())
}

/// In the place of a person: nothing about keys is written.
async fn person(request: ApprovalRequest) -> Result<Approval, ApproverError> {
    let keys = request.call.arguments.as_json().map_err(ApproverError::failed)?.contains("keys");
    Ok(if keys { Approval::deny().because("keys are written by hand") } else { Approval::once() })
}

/// A directory with a file in it, that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("toolstack-recommended-{}", std::process::id()));
        fs::create_dir_all(dir.join("files"))?;
        fs::write(dir.join("files/notes.md"), "password: hunter2\n")?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
