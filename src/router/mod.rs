//! The innermost service of a stack: finds a tool by its name and runs it, and lists the tools.
//!
//! A [`Router`] never fails (`Error = Infallible`) and is always ready: what is wrong with a call is said in its response. It also
//! answers for a tool that panics.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use toolstack::{RefusalKind, Router, StackExt, tool::sync_tool_fn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let git = Router::new().tool(sync_tool_fn("status", || "clean"));
//! let router = Router::new().tool(sync_tool_fn("ping", || "pong")).nest("git", git);
//!
//! assert_eq!(router.call_tool("git.status", json!({})).await.as_text().as_deref(), Some("clean"));
//! assert_eq!(router.list_tools().await.names().collect::<Vec<_>>(), ["git.status", "ping"]);
//!
//! let answer = router.call_tool("git.push", json!({})).await;
//! assert_eq!(answer.refusal().map(|r| r.kind()), Some(RefusalKind::UnknownTool));
//! # }
//! ```
//!
//! # Order
//!
//! [`Router::layer`] puts a layer around the tools that are there already, as in axum. It runs once for the router and not once for
//! each tool, so that a limit is one limit. A nested router keeps its layers, within those of the outer one, and its layers and tools see
//! the names that they were given there.
//!
//! A name belongs to the tool that had it first, for as long as that tool is there. A second one is refused where it can be told; one
//! that is added to a nested router while it runs stays hidden from the outer one's callers.
//!
//! # Lists
//!
//! A list is that of the router and of each nested one, as its layers show it. If one of these refuses, the whole list is refused, with
//! that refusal: a list that lacks tools says nothing of it. A description keeps what is known, and has the refusal beside it.
//!
//! # Backpressure
//!
//! A router is ready whenever it is asked, since it cannot know which tool will be called. The readiness of a tool that is itself a
//! service is waited for within the call. Layers that wait for capacity stand around the router; load is shed around or within it.
//!
//! # Refusals
//!
//! [`UnknownTool`](crate::RefusalKind::UnknownTool) for a name that no tool has, [`Internal`](crate::RefusalKind::Internal) for a tool
//! that panicked, and [`Denied`](crate::RefusalKind::Denied) for a call that reaches another tool than the one that a layer judged,
//! because it was renamed or the tool was replaced in between.
//!
//! # Cancellation
//!
//! Dropping the call drops the tool's future.

mod catalog;
mod dispatch;
mod listing;
mod registry;
mod routes;
mod service;

pub use self::{
    catalog::{Catalog, Changes, Handle},
    dispatch::ResponseFuture,
    listing::ListFuture,
    registry::RouterError,
    service::Router,
};
