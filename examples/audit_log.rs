//! A log of everything that a model did on the tools of the quickstart: also of what was denied, failed, panicked or was given up.
//!
//! Run with `cargo run --example audit_log`. It works in a directory of its own and removes it in the end.

#[path = "quickstart/confined.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod confined;
#[path = "quickstart/tools.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod tools;
#[path = "quickstart/walk.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod walk;

use std::{fs, path::PathBuf, time::Duration};

use serde_json::json;
use toolstack::{
    BoxError, ServiceBuilderExt, Stack, StackExt, ToolCall,
    layer::{
        AuditLayer,
        audit::{ArgumentsDigest, AuditEntry, AuditFile, AuditRecord, JsonLines, JsonLinesSink},
        permission::{Effect, Rule, Rules},
        redact::Redactor,
    },
    model::{Context, Principal, Secret},
    select::ToolSelector,
};
use tower::ServiceBuilder;

use self::confined::Confined;

/// Removes what the example wrote.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stack(dir: &Confined, sink: JsonLinesSink, key: Secret) -> Result<Stack, BoxError> {
    let rules = Rules::new([
        Rule::new("readers", Effect::Allow).tools(ToolSelector::new().read_only(true)),
        Rule::new("writers", Effect::Allow).tools(ToolSelector::new().name("write_*")?).reason("this is a place of its own"),
        Rule::new("no-usage", Effect::Deny).tools(ToolSelector::new().name("disk_usage")?),
    ])?;
    // Arguments are named by a digest that nobody can guess without the key, and shown without what is secret in them.
    let audit = AuditLayer::new(sink).required().digest_key(key).arguments(Redactor::new().common_keys());
    Ok(ServiceBuilder::new()
        .catch_panic()
        .layer(audit)
        .permission(rules, Effect::Deny)
        .call_timeout(Duration::from_millis(200))
        .service(tools::tools(dir))
        .into_stack())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    std::panic::set_hook(Box::new(|info| match info.payload().downcast_ref::<&str>() {
        Some(text) if *text == tools::DEMO_PANIC => {}
        _ => eprintln!("{info}"),
    }));
    let scratch = Scratch(std::env::temp_dir().join(format!("toolstack-audit-log-{}", std::process::id())));
    let (logs, files) = (scratch.0.join("logs"), scratch.0.join("files"));
    fs::create_dir_all(&logs)?;
    fs::create_dir_all(&files)?;
    // Small files, to show how one follows another.
    let file = AuditFile::new(logs.join("audit.jsonl")).max_bytes(2048).max_files(8).sync();
    let sink = JsonLines::to_file(file).start()?;
    let handle = sink.handle();
    let key = Secret::new("thirty-two random bytes, in truth");
    let stack = stack(&Confined::open(&files)?, sink, key.clone())?;

    let ada = Context::new().with_principal(Principal::new("ada")).with_session("demo");
    let call = |name: &str, arguments: serde_json::Value| stack.run_call(ToolCall::new(name, arguments).with_context(ada.clone()));
    call("write_file", json!({ "path": "a.txt", "content": "one\n" })).await;
    call("read_file", json!({ "path": "a.txt" })).await;
    call("read_file", json!({ "path": "../../etc/passwd" })).await;
    call("disk_usage", json!({})).await;
    call("no_such_tool", json!({ "password": "hunter2" })).await;
    call("demo_panic", json!({})).await;
    call("demo_slow", json!({})).await;
    // Nobody waits for this one.
    let given_up = tokio::time::timeout(Duration::from_millis(20), call("demo_slow", json!({}))).await;
    assert!(given_up.is_err());
    stack.list_tools().await;

    // The last stack gone, the log is complete.
    drop(stack);
    handle.closed().await;
    println!("{} records written, {} lost, {} failed\n", handle.written(), handle.lost(), handle.failed());

    let (records, count) = read(&logs)?;
    println!("{:<3}{:<13}{:<11}{:<15}{:<12}{:<24}{:>9}{:>9}", "#", "what", "ended", "outcome", "by", "decided", "waited", "ran");
    for record in &records {
        show(record);
    }
    println!("\nin {count} files, of which the first line is");
    println!("{}", serde_json::to_string(&records[0])?);

    assert!(count > 1);
    let outcomes: Vec<_> = records.iter().map(|record| record.outcome.as_str()).collect();
    let wanted = ["completed", "completed", "tool_error", "denied", "unknown_tool", "internal", "timeout", "cancelled", "completed"];
    assert_eq!(outcomes, wanted);
    assert!(records.iter().enumerate().all(|(at, record)| record.sequence == at as u64));
    // Whoever has the key finds the calls with some arguments, in whatever order their keys stood.
    let digest = ArgumentsDigest::of(&json!({ "content": "one\n", "path": "a.txt" }).into(), Some(&key));
    assert_eq!(records.iter().filter(|record| record.arguments_digest == Some(digest)).count(), 1);
    assert!(!serde_json::to_string(&records)?.contains("hunter2"));
    Ok(())
}

/// The records of all files, in order, and how many files there are.
fn read(logs: &PathBuf) -> Result<(Vec<AuditRecord>, usize), BoxError> {
    let mut records = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(logs)? {
        count += 1;
        for line in fs::read_to_string(entry?.path())?.lines() {
            if let AuditEntry::Record(record) = serde_json::from_str(line)? {
                records.push(record);
            }
        }
    }
    records.sort_by_key(|record| record.sequence);
    Ok((records, count))
}

fn show(record: &AuditRecord) {
    let what = record.tool.as_deref().unwrap_or(&record.operation);
    let decided =
        record.decision.as_ref().map(|decision| format!("{} by {}", decision.effect, decision.id.as_ref().unwrap_or(&decision.by)));
    let time = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| format!("{:.1} ms", time.as_secs_f64() * 1000.0));
    println!(
        "{:<3}{what:<13}{:<11}{:<15}{:<12}{:<24}{:>9}{:>9}",
        record.sequence,
        format!("{:?}", record.ending).to_lowercase(),
        record.outcome,
        record.by.as_deref().unwrap_or("-"),
        decided.as_deref().unwrap_or("-"),
        time(record.waiting),
        time(record.running),
    );
}
