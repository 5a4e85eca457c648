use std::{
    fmt,
    sync::{Arc, Mutex},
};

use super::lock;
use crate::{
    model::{ToolCall, ToolName, ToolResponse, ToolSpec},
    tool::{Handler, Tool, ToolFuture},
};

/// A tool that counts its runs and keeps what it was given. Clones count together.
///
/// ```
/// use serde_json::json;
/// use toolstack::{Router, StackExt, testing::Probe};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let probe = Probe::new();
/// let stack = Router::new().tool(probe.tool("probe"));
/// stack.call_tool("probe", json!({ "a": 1 })).await;
/// assert_eq!(probe.runs(), 1);
/// assert_eq!(probe.arguments(), [r#"{"a":1}"#]);
/// # }
/// ```
#[derive(Clone)]
pub struct Probe {
    shared: Arc<Shared>,
}

struct Shared {
    calls: Mutex<Vec<ToolCall>>,
    answer: Box<dyn Fn(&ToolCall) -> ToolResponse + Send + Sync>,
}

impl Probe {
    /// A probe that answers `ok`.
    #[must_use]
    pub fn new() -> Self {
        Self::answering(|_| ToolResponse::text("ok"))
    }

    /// A probe that answers as `answer` says. It may panic.
    #[must_use]
    pub fn answering(answer: impl Fn(&ToolCall) -> ToolResponse + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(Shared { calls: Mutex::default(), answer: Box::new(answer) }) }
    }

    /// The probe as a tool of this name.
    ///
    /// # Panics
    ///
    /// If the name breaks the rule for names.
    #[track_caller]
    pub fn tool(&self, name: &str) -> Tool<Self> {
        match ToolName::new(name) {
            Ok(name) => Tool::new(ToolSpec::new(name), self.clone()),
            // Not in a closure, which would panic at its own place.
            Err(error) => panic!("`{name}` cannot name a tool: {error}"),
        }
    }

    /// How often it ran.
    #[must_use]
    pub fn runs(&self) -> usize {
        lock(&self.shared.calls).len()
    }

    /// What it was given, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<ToolCall> {
        lock(&self.shared.calls).clone()
    }

    /// The arguments that it was given, as JSON text, in order.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        lock(&self.shared.calls).iter().map(|call| call.arguments.as_json().unwrap_or("(unreadable)").to_owned()).collect()
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

impl Handler for Probe {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let shared = Arc::clone(&self.shared);
        ToolFuture::new(async move {
            lock(&shared.calls).push(call.clone());
            (shared.answer)(&call)
        })
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("runs", &self.runs()).finish_non_exhaustive()
    }
}
