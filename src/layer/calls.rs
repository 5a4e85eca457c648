//! Lets a layer of another crate see tool calls only.
//!
//! Tower's buffer, retry and filter fix the type of their request, so they cannot stand around a service of several operations. Around
//! calls they can: lists and descriptions take the way beside.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::{BoxError, ServiceBuilder, buffer::BufferLayer, filter::FilterLayer};
//! use toolstack::{Refusal, RefusalKind, Router, StackExt, ToolCall, layer::calls, tool::sync_tool_fn};
//!
//! fn short(call: ToolCall) -> Result<ToolCall, BoxError> {
//!     match call.arguments.size() {
//!         Some(size) if size > 100 => Err(Refusal::new(RefusalKind::LimitExceeded, "Too long.").with_by("short").into()),
//!         _ => Ok(call),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(calls(BufferLayer::new(8)))
//!     .layer(calls(FilterLayer::new(short)))
//!     .service(Router::new().tool(sync_tool_fn("ping", || "pong")));
//!
//! assert_eq!(stack.list_tools().await.tools().len(), 1);
//! assert!(stack.run_call(ToolCall::new("ping", json!({}))).await.is_completed());
//!
//! let long = toolstack::model::Arguments::from_text(format!("{{\"text\":\"{}\"}}", "x".repeat(100)));
//! assert_eq!(stack.run_call(ToolCall::new("ping", long)).await.refusal().unwrap().kind(), RefusalKind::LimitExceeded);
//! # }
//! ```
//!
//! # Order
//!
//! That of the layer within.
//!
//! # Cancellation
//!
//! As the layer within has it. Tower's buffer gives up a call whose future is dropped.

use std::{
    any::type_name,
    fmt,
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;

use super::named::foreign_note;
use crate::{
    describe::{Describe, Note},
    model::{ListTools, ToolCall},
    operation::Operation,
};

/// Puts `layer` around tool calls only.
pub const fn calls<L>(layer: L) -> CallsLayer<L> {
    CallsLayer { layer }
}

/// Puts a layer around tool calls only; see [`calls`].
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone, Copy, Debug)]
pub struct CallsLayer<L> {
    layer: L,
}

impl<S: Clone, L: Layer<S>> Layer<S> for CallsLayer<L> {
    type Service = Calls<S, L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        Calls { calls: self.layer.layer(inner.clone()), inner }
    }
}

/// A service with a layer around its tool calls.
#[derive(Clone)]
pub struct Calls<S, C> {
    inner: S,
    calls: C,
}

impl<S, C> Calls<S, C> {
    crate::macros::accessors!();
}

impl<S, C> Service<ToolCall> for Calls<S, C>
where
    C: Service<ToolCall, Response = <ToolCall as Operation>::Response>,
{
    type Response = C::Response;
    type Error = C::Error;
    type Future = C::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.calls.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, call: ToolCall) -> C::Future {
        self.calls.call(call)
    }
}

impl<S, C> Service<ListTools> for Calls<S, C>
where
    S: Service<ListTools, Response = <ListTools as Operation>::Response>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, list: ListTools) -> S::Future {
        self.inner.call(list)
    }
}

impl<S, C> Service<Describe> for Calls<S, C>
where
    S: Service<Describe, Response = <Describe as Operation>::Response>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut describe: Describe) -> S::Future {
        let mut notes = foreign_note::<C, S>();
        if notes.is_empty() && type_name::<C>() != type_name::<S>() {
            // The types do not tell what it is; that there is something, they do.
            notes.push(Note::foreign("calls"));
        }
        for (i, note) in notes.into_iter().enumerate() {
            // Only the first stands where the types say; the others are within it.
            if i == 0 { describe.note::<Self, S>(note) } else { describe.note::<S, S>(note) }
        }
        self.inner.call(describe)
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Calls<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("calls", &type_name::<C>()).field("inner", &self.inner).finish()
    }
}
