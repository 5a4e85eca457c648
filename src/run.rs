//! The calls of one turn: what a model asks for at once.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use toolstack::{RefusalKind, Router, StackExt, ToolCall, tool::sync_tool_fn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let stack = Router::new().tool(sync_tool_fn("ping", || "pong"));
//! let calls = vec![
//!     ToolCall::new("ping", json!({})).with_id("c1"),
//!     ToolCall::new("no_such_tool", json!({})).with_id("c2"),
//!     ToolCall::new("ping", json!({})).with_id("c3"),
//! ];
//!
//! let answers = stack.run_calls(calls).await;
//! let ids: Vec<_> = answers.iter().map(|answer| answer.id.to_string()).collect();
//! assert_eq!(ids, ["c1", "c2", "c3"]);
//! assert!(answers[0].response.is_completed() && answers[2].response.is_completed());
//! assert_eq!(answers[1].response.refusal().unwrap().kind(), RefusalKind::UnknownTool);
//! # }
//! ```

use std::collections::{HashSet, VecDeque};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tower_service::Service;

use crate::{
    error::{BoxError, Refusal, RefusalKind},
    model::{CallId, Outcome, ToolCall, ToolName, ToolResponse},
    stack::close,
};

/// How the calls of one turn are run.
///
/// As many answers as calls, in the order of the calls, each with the id of its call; whatever happens to one of them. A call that fails,
/// is refused or panics leaves the others alone, unless [`fail_fast`](Self::fail_fast) says otherwise.
///
/// Providers do send ids that are empty, or the same twice. Layers never see them: such a call gets an id of its own on its way, and its
/// answer the id that was sent.
///
/// All calls run within the one future: dropping it cancels them all, and nothing goes on behind it.
#[must_use = "a turn does nothing until it is run"]
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    at_once: usize,
    fail_fast: bool,
}

/// A call of a turn, answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answered {
    /// The id of the call, as it was sent.
    pub id: CallId,
    /// The tool that was asked for.
    pub name: ToolName,
    /// The answer.
    pub response: ToolResponse,
}

impl Turn {
    /// How many calls run at once, unless [`at_once`](Self::at_once) says otherwise.
    pub const AT_ONCE: usize = 8;

    /// Runs up to [`AT_ONCE`](Self::AT_ONCE) calls at once, independent of each other.
    pub const fn new() -> Self {
        Self { at_once: Self::AT_ONCE, fail_fast: false }
    }

    /// Runs this many calls at once. Zero is taken for one.
    pub const fn at_once(mut self, calls: usize) -> Self {
        self.at_once = if calls == 0 { 1 } else { calls };
        self
    }

    /// Stops at the first call that ends in an error: calls that run are dropped, calls that wait are not begun, and each of them is
    /// answered as [cancelled](RefusalKind::Cancelled). Dropped calls are gone before the answers are given.
    pub const fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Runs the calls.
    pub async fn run<S>(self, stack: &S, calls: Vec<ToolCall>) -> Vec<Answered>
    where
        S: Service<ToolCall, Response = ToolResponse, Error: Into<BoxError>> + Clone,
    {
        let mut seen = HashSet::with_capacity(calls.len());
        let mut answers = Vec::with_capacity(calls.len());
        let mut waiting = VecDeque::with_capacity(calls.len());
        for (index, mut call) in calls.into_iter().enumerate() {
            answers.push((call.id.clone(), call.name().clone(), None));
            if call.id.is_empty() || !seen.insert(call.id.clone()) {
                call.id = CallId::next();
            }
            waiting.push_back((index, call));
        }

        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.at_once {
                let Some((index, call)) = waiting.pop_front() else { break };
                let service = stack.clone();
                running.push(async move { (index, close(service, call).await) });
            }
            let Some((index, response)) = running.next().await else { break };
            let failed = response.outcome().is_error();
            answers[index].2 = Some(response);
            if failed && self.fail_fast {
                break;
            }
        }
        drop(running);

        answers.into_iter().map(|(id, name, response)| Answered { id, name, response: response.unwrap_or_else(cancelled) }).collect()
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}

impl Answered {
    /// How the call ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.response.outcome()
    }
}

fn cancelled() -> ToolResponse {
    let message = "Not finished: another call of the same turn failed.";
    ToolResponse::refused(Refusal::new(RefusalKind::Cancelled, message).with_by("turn"))
}
