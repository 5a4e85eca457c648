//! Hooks: what each kind may do, in which order they run, what becomes of a request that one of them stops or fails over, and that
//! observers hear of every end once and change nothing.

mod background;
mod building;
#[cfg(all(feature = "process", unix))]
mod external;
mod failing;
mod halting;
mod listing;
mod looking;
mod observing;
mod order;
mod rewriting;

use std::sync::{Arc, Mutex};

use toolstack::{ToolCall, model::Arguments};

/// What happened, in order.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn text(&self) -> String {
        self.take().join(" ")
    }
}

fn call(name: &str) -> ToolCall {
    ToolCall::new(name, Arguments::from_text(r#"{"n":1}"#))
}
