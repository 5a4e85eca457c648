//! What a model might ask for, and what it gets. Each outcome is shown and then asserted.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;
use toolstack::{
    Stack, StackExt, ToolCall,
    model::{Context, ListTools, Principal},
    run::Turn,
};

use super::{AT_ONCE, confined::Confined, table::Table};

/// A call of the script and how it has to end.
struct Step {
    tool: &'static str,
    arguments: Value,
    note: &'static str,
    context: Context,
    outcome: &'static str,
    reads: &'static str,
}

/// A call that has to end with this outcome, and a text for the model that contains this.
fn step(tool: &'static str, arguments: Value, outcome: &'static str, reads: &'static str) -> Step {
    Step { tool, arguments, note: "", context: Context::new(), outcome, reads }
}

impl Step {
    fn within(self, note: &'static str, context: Context) -> Self {
        Self { note, context, ..self }
    }
}

pub(crate) async fn run(stack: &Stack, dir: &Confined) -> Result<(), String> {
    let description = stack.describe().await;
    println!("The stack, outermost first:\n\n{}", indented(&description.to_string()));
    let faults = stack.lint().await;
    assert!(faults.is_empty(), "the order is wrong: {faults:?}");
    println!("lint finds no fault in the order.\n");

    let operator = Context::new().with_principal(Principal::new("operator").scope("admin"));
    let seen = stack.list_tools().await;
    let seen_by_operator = stack.run_list(ListTools::new().with_context(operator.clone())).await;
    println!("A model sees     {}", seen.names().collect::<Vec<_>>().join(", "));
    println!("An operator sees {}\n", seen_by_operator.names().collect::<Vec<_>>().join(", "));
    assert!(seen.get("disk_usage").is_none() && seen_by_operator.get("disk_usage").is_some());

    let scratch = Scratch::new(dir)?;
    let note = scratch.file("note.txt");
    let text = "One tool call is one service call.\nThe needle is here.\n";
    turn(
        stack,
        "Turn 1: look around, and write something down",
        vec![
            step("list_dir", json!({}), "completed", r#""entries":["#),
            step("write_file", json!({ "path": note, "content": text }), "completed", "wrote 55 bytes"),
        ],
    )
    .await;
    turn(
        stack,
        "Turn 2: nine calls at once, most of which go wrong in a way of their own",
        vec![
            step("read_file", json!({ "path": note }), "completed", text.trim_end()),
            step("search", json!({ "text": "needle", "path": scratch.file("") }), "completed", "note.txt:2: The needle"),
            step("read_file", json!({ "file": note }), "invalid_arguments", "unknown field `file`, expected `path` or `offset`"),
            step("read_file", json!({ "path": "../../etc/passwd" }), "tool_error", "leads outside"),
            step("disk_usage", json!({}), "unknown_tool", "Unknown tool: disk_usage").within(" (hidden)", Context::new()),
            step("disk_usage", json!({ "path": scratch.file("") }), "completed", "1 file, 55 bytes").within(" (by an operator)", operator),
            step("write_file", json!({ "path": "a", "content": "x".repeat(300_000) }), "limit_exceeded", "at most 262144"),
            step("demo_slow", json!({}), "timeout", "did not finish").within(" (0.8 s left)", soon()),
            step("demo_panic", json!({}), "internal", "not about its arguments"),
        ],
    )
    .await;
    burst(stack).await;
    drop(scratch);
    println!("Every call had exactly one answer, and each the one that was expected.");
    Ok(())
}

/// Runs the steps as one turn.
async fn turn(stack: &Stack, title: &str, steps: Vec<Step>) {
    let calls = steps.iter().map(|step| ToolCall::new(step.tool, step.arguments.clone()).with_context(step.context.clone()));
    println!("{title}\n");
    let answers = stack.run_calls(calls.collect()).await;
    let mut table = Table::new();
    for (step, answer) in steps.iter().zip(&answers) {
        table.row(&step.arguments, step.note, answer);
    }
    println!("{table}");

    assert_eq!(answers.len(), steps.len());
    for (step, answer) in steps.iter().zip(&answers) {
        let reads = answer.response.as_text().unwrap_or_default();
        assert_eq!(answer.outcome().as_str(), step.outcome, "{}: {reads}", step.tool);
        assert!(reads.contains(step.reads), "{} answered {reads:?}, without {:?}", step.tool, step.reads);
    }
}

/// More at once than the stack takes: the rest is turned away at once, and does not wait.
async fn burst(stack: &Stack) {
    let calls = (0..AT_ONCE + 4).map(|_| ToolCall::new("demo_slow", ()).with_context(soon())).collect();
    let answers = Turn::new().at_once(AT_ONCE + 4).run(stack, calls).await;
    let count = |outcome| answers.iter().filter(|answer| answer.outcome().as_str() == outcome).count();
    let (timeout, overloaded) = (count("timeout"), count("overloaded"));
    println!("Turn 3: {} slow calls at once, where {AT_ONCE} may run\n", answers.len());
    println!("  {timeout} ran and ended in timeout, {overloaded} were answered at once as overloaded\n");
    assert_eq!((timeout, overloaded), (AT_ONCE, 4));
}

/// A context that leaves little time: whoever calls has a deadline, and the timeout of the stack keeps it.
fn soon() -> Context {
    Context::new().with_deadline(Instant::now() + Duration::from_millis(800))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// A directory for what the script writes; gone when it is dropped.
struct Scratch<'a> {
    dir: &'a Confined,
    path: PathBuf,
}

impl<'a> Scratch<'a> {
    /// Made below `target`, where there is one, so that not even a watcher of the sources notices.
    fn new(dir: &'a Confined) -> Result<Self, String> {
        let name = format!("quickstart-{}", std::process::id());
        let path = if dir.dir().is_dir("target") { PathBuf::from("target").join(name) } else { PathBuf::from(name) };
        dir.dir().create_dir(&path).map_err(|error| {
            format!(
                "The script writes to {} and removes it again, which cannot be made: {error}\nWith `-` nothing is written.",
                path.display()
            )
        })?;
        Ok(Self { dir, path })
    }

    fn file(&self, name: &str) -> String {
        if name.is_empty() { self.path.display().to_string() } else { self.path.join(name).display().to_string() }
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.dir.dir().remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}
