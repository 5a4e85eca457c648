//! What answers a call: a [`Tool`] is a spec and a handler, with layers of its own where it wants.
//!
//! | constructor | for |
//! |---|---|
//! | [`tool_fn`] | an async function with typed arguments, a context, state |
//! | [`sync_tool_fn`] | the same for a function that neither waits nor blocks; costs no box |
//! | [`blocking_tool_fn`] | the same for a function that blocks; runs on a thread for that |
//! | [`Tool::from_service`] | any `Service<ToolCall>` |
//! | [`Tool::new`] | a hand-written [`Handler`] |
//!
//! # Example
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//! use toolstack::{Router, StackExt, tool::{ToolError, tool_fn}};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Divide {
//!     dividend: i64,
//!     divisor: i64,
//! }
//!
//! async fn divide(args: Divide) -> Result<i64, ToolError> {
//!     args.dividend.checked_div(args.divisor).ok_or_else(|| ToolError::new("the divisor must not be zero"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let tools = Router::new().tool(tool_fn("divide", divide).describe("Divides, rounding towards zero").read_only());
//!
//! let answer = tools.call_tool("divide", json!({ "dividend": 7, "divisor": 2 })).await;
//! assert_eq!(answer.as_text().as_deref(), Some("3"));
//!
//! let answer = tools.call_tool("divide", json!({ "dividend": 7, "divisor": 0 })).await;
//! assert_eq!(answer.as_text().as_deref(), Some("the divisor must not be zero"));
//! # }
//! ```
//!
//! # Cancellation
//!
//! Dropping the call drops the handler's future. A [blocking](blocking_tool_fn) function cannot be dropped; it sees
//! [`Cancellation`](crate::model::Cancellation) in its context.

mod builder;
pub(crate) mod entry;
mod error;
mod extract;
mod function;
mod handler;
mod response;
mod service;

pub(crate) use self::handler::Repr;
pub use self::{
    builder::{Tool, blocking_tool_fn, blocking_tool_fn_with_state, sync_tool_fn, sync_tool_fn_with_state, tool_fn, tool_fn_with_state},
    entry::{Believed, Source, ToolEntry},
    error::{IntoToolError, ToolError},
    extract::{FromCall, State, via},
    function::{BlockingFunction, Function, SyncFunction, ToolFunction},
    handler::{Handler, ToolFuture},
    response::{IntoToolResponse, Json},
    service::{FromService, ResponseFuture, ToolService},
};
