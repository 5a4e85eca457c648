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
//! # Readiness and cost
//!
//! For calls, those of the layer. A list or a description is ready at once, waits for what is within by itself, and costs a box; the stack
//! within is held once for them, whatever number of clones there is.
//!
//! # Cancellation
//!
//! As the layer within has it. Tower's buffer gives up a call whose future is dropped.

use std::{
    any::type_name,
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tower::util::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use super::named::foreign_note;
use crate::{
    describe::{Describe, Description, Note},
    model::{ListTools, ToolCall, ToolList},
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

impl<S, L, EL, ED> Layer<S> for CallsLayer<L>
where
    L: Layer<S, Service: Service<ToolCall>>,
    S: Service<ListTools, Response = ToolList, Error = EL, Future: Send + 'static>
        + Service<Describe, Response = Description, Error = ED, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
{
    type Service = Calls<L::Service, EL, ED>;

    fn layer(&self, inner: S) -> Self::Service {
        let mut notes = foreign_note::<L::Service, S>();
        if notes.is_empty() && type_name::<L::Service>() != type_name::<S>() {
            // The types do not tell what it is; that there is something, they do.
            notes.push(Note::foreign("calls"));
        }
        let mut outer = type_name::<Self::Service>();
        for note in &mut notes {
            // Only the first stands where the types say; the others are within it.
            *note = note.clone().between(outer, type_name::<S>());
            outer = type_name::<S>();
        }
        Calls { inner: self.layer.layer(inner.clone()), beside: Arc::new(Beside { stack: inner, notes }), errors: PhantomData }
    }
}

/// A service with a layer around its tool calls.
pub struct Calls<S, EL, ED> {
    inner: S,
    beside: Arc<dyn Lists<EL, ED>>,
    errors: PhantomData<fn() -> (EL, ED)>,
}

/// The way beside the layer, for all but calls. Without a type, and shared: with the stack within once more in its type and in each clone,
/// every such layer would double what is within it.
trait Lists<EL, ED>: Send + Sync {
    fn list(&self, list: ListTools) -> BoxFuture<'static, Result<ToolList, EL>>;
    fn describe(&self, describe: Describe) -> BoxFuture<'static, Result<Description, ED>>;
}

struct Beside<S> {
    stack: S,
    notes: Vec<Note>,
}

impl<S, EL, ED> Lists<EL, ED> for Beside<S>
where
    S: Service<ListTools, Response = ToolList, Error = EL, Future: Send + 'static>
        + Service<Describe, Response = Description, Error = ED, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
{
    fn list(&self, list: ListTools) -> BoxFuture<'static, Result<ToolList, EL>> {
        Box::pin(self.stack.clone().oneshot(list))
    }

    fn describe(&self, mut describe: Describe) -> BoxFuture<'static, Result<Description, ED>> {
        self.notes.iter().for_each(|note| describe.push(note.clone()));
        Box::pin(self.stack.clone().oneshot(describe))
    }
}

impl<S, EL, ED> Calls<S, EL, ED> {
    crate::macros::accessors!();
}

impl<S: Clone, EL, ED> Clone for Calls<S, EL, ED> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), beside: Arc::clone(&self.beside), errors: PhantomData }
    }
}

impl<S, EL, ED> Service<ToolCall> for Calls<S, EL, ED>
where
    S: Service<ToolCall, Response = <ToolCall as Operation>::Response>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, call: ToolCall) -> S::Future {
        self.inner.call(call)
    }
}

impl<S, EL, ED> Service<ListTools> for Calls<S, EL, ED> {
    type Response = ToolList;
    type Error = EL;
    type Future = ResponseFuture<ToolList, EL>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), EL>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, list: ListTools) -> Self::Future {
        ResponseFuture(self.beside.list(list))
    }
}

impl<S, EL, ED> Service<Describe> for Calls<S, EL, ED> {
    type Response = Description;
    type Error = ED;
    type Future = ResponseFuture<Description, ED>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ED>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, describe: Describe) -> Self::Future {
        ResponseFuture(self.beside.describe(describe))
    }
}

/// The response of [`Calls`] to anything but a call.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<R, E>(BoxFuture<'static, Result<R, E>>);

impl<R, E> Future for ResponseFuture<R, E> {
    type Output = Result<R, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R, E> fmt::Debug for ResponseFuture<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, EL, ED> fmt::Debug for Calls<S, EL, ED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("inner", &self.inner).finish_non_exhaustive()
    }
}
