//! Asks on the terminal before a file is written, and remembers the answer.
//!
//! Run with `cargo run --example permission_prompt`. Where there is no terminal, it types the answers itself.

#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "quickstart/confined.rs"]
mod confined;
#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "quickstart/tools.rs"]
mod tools;
#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "quickstart/walk.rs"]
mod walk;

use std::{
    fs,
    io::{BufReader, IsTerminal, Read, stdin, stdout},
    path::PathBuf,
    sync::mpsc,
};

use serde_json::json;
use toolstack::{
    BoxError, RefusalKind, Router, StackExt, ToolCall,
    layer::permission::{ApprovalRequest, Approver, Effect, PermissionLayer, Rule, Rules, TerminalApprover},
    model::Outcome,
    select::ToolSelector,
};
use tower::ServiceBuilder;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dir = Scratch::new()?;
    let tools = tools::tools(&confined::Confined::open(&dir.0)?);
    let by_hand = stdin().is_terminal() && stdout().is_terminal();
    let outcomes = if by_hand { turn(tools, TerminalApprover::new()).await? } else { scripted(tools).await? };
    println!("\n{outcomes:?}");
    if !by_hand {
        // Listed without a question; asked and remembered; written without one; asked, since it is another tool.
        let denied = Outcome::Refused(RefusalKind::Denied);
        assert_eq!(outcomes, [Outcome::Completed, Outcome::Completed, Outcome::Completed, denied]);
    }
    Ok(())
}

/// The calls of one turn, one after the other.
async fn turn(tools: Router, approver: impl Approver) -> Result<Vec<Outcome>, BoxError> {
    let readers = Rule::new("readers", Effect::Allow).tools(ToolSelector::new().read_only(true).name("list_dir")?);
    let layer = PermissionLayer::new(Rules::new([readers])?, Effect::Ask).ask(approver);
    let handle = layer.handle();
    let stack = ServiceBuilder::new().layer(layer).service(tools);

    let mut outcomes = Vec::new();
    for call in [
        ToolCall::new("list_dir", json!({})),
        ToolCall::new("write_file", json!({ "path": "a.txt", "content": "one" })),
        ToolCall::new("write_file", json!({ "path": "b.txt", "content": "two" })),
        ToolCall::new("search", json!({ "text": "one" })),
    ] {
        let name = call.name().clone();
        let response = stack.run_call(call).await;
        println!("\n{name}: {}", response.as_text().unwrap_or_default());
        outcomes.push(response.outcome());
    }
    for grant in handle.list_grants(None).await? {
        println!("\nremembered: {:?} for {}, until {:?}", grant.effect, grant.tool.name, grant.expires);
    }
    Ok(outcomes)
}

/// Types `a` at the first question and `n` at the second, each once it is asked.
async fn scripted(tools: Router) -> Result<Vec<Outcome>, BoxError> {
    let (typed, keyboard) = mpsc::channel::<&'static [u8]>();
    let terminal = TerminalApprover::with_io(BufReader::new(Keyboard(keyboard)), stdout());
    let answers = std::sync::Mutex::new(vec![&b"n\n"[..], &b"a\n"[..]]);
    let terminal = std::sync::Arc::new(terminal);
    turn(tools, move |request: ApprovalRequest| {
        let (terminal, typed) = (std::sync::Arc::clone(&terminal), typed.clone());
        let answer = answers.lock().ok().and_then(|mut answers| answers.pop()).unwrap_or(b"n\n");
        async move {
            let question = terminal.ask(request);
            // A moment later, as a person would.
            let typing = async {
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                let _ = typed.send(answer);
            };
            tokio::join!(question, typing).0
        }
    })
    .await
}

struct Keyboard(mpsc::Receiver<&'static [u8]>);

impl Read for Keyboard {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let Ok(typed) = self.0.recv() else { return Ok(0) };
        into[..typed.len()].copy_from_slice(typed);
        Ok(typed.len())
    }
}

/// A directory that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("toolstack-prompt-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
