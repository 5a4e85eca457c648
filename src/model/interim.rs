use std::fmt;

use serde_json::value::RawValue;

use super::{RawObject, Remark};

/// An answer of the person, or something else of the client's, is needed before the call can be completed; the caller asks for it and
/// calls again (MCP 2026-07-28, `resultType: "input_required"`).
///
/// A layer that touches results lets this through as it is: it is neither a result to keep nor a failure to count.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct InputRequired {
    /// What is asked, by a key of the asker's choice: each an `elicitation/create`, `sampling/createMessage` or `roots/list` request.
    pub requests: RawObject,
    /// What the caller brings back unread. It passes through the client's hands: whoever puts something here seals it.
    pub state: Option<Box<str>>,
    /// `_meta` of the result.
    pub meta: RawObject,
    /// Fields that this crate does not know.
    pub extra: RawObject,
    pub(super) remarks: Vec<Remark>,
}

impl InputRequired {
    /// Asks for nothing yet, with this state to bring back.
    #[must_use]
    pub fn new(state: impl Into<Box<str>>) -> Self {
        Self { state: Some(state.into()), ..Self::default() }
    }

    /// Asks one thing more.
    #[must_use]
    pub fn request(mut self, key: &str, request: Box<RawValue>) -> Self {
        self.requests.insert_raw(key, request);
        self
    }
}

impl fmt::Debug for InputRequired {
    /// The keys only, and of the state that there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputRequired")
            .field("requests", &self.requests)
            .field("state", &self.state.as_ref().map(|_| ".."))
            .field("meta", &self.meta)
            .field("extra", &self.extra)
            .finish()
    }
}

/// The call goes on elsewhere; this names it (MCP extension `io.modelcontextprotocol/tasks`, `resultType: "task"`).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskHandle {
    /// What to ask for it by.
    pub task_id: String,
    /// How it stands: `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// `_meta` of the result.
    pub meta: RawObject,
    /// The other fields of the handle, such as times and the interval to poll at.
    pub extra: RawObject,
    pub(super) remarks: Vec<Remark>,
}

impl TaskHandle {
    /// The handle of a task that is being worked on.
    #[must_use]
    pub fn new(task_id: impl Into<String>) -> Self {
        Self { task_id: task_id.into(), status: "working".to_owned(), ..Self::default() }
    }
}
