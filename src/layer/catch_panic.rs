//! Turns a panic within into a refusal.
//!
//! A router answers for tools that panic by itself. This layer does so for layers: a panic in `poll_ready`, in `call` or in the future of
//! anything within becomes [`Internal`](crate::RefusalKind::Internal), and the caller, its other calls and a queue further out go on.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{RefusalKind, Router, StackExt, layer::{CatchPanicLayer, map_call}, tool::sync_tool_fn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # std::panic::set_hook(Box::new(|_| {}));
//! let stack = ServiceBuilder::new()
//!     .layer(CatchPanicLayer::new())
//!     .layer(map_call("strict", |call| assert!(call.name() != "odd", "an odd name")))
//!     .service(Router::new().tool(sync_tool_fn("even", || "fine")).tool(sync_tool_fn("odd", || "never")));
//!
//! assert!(stack.call_tool("even", json!({})).await.is_completed());
//!
//! let answer = stack.call_tool("odd", json!({})).await;
//! assert_eq!(answer.refusal().unwrap().kind(), RefusalKind::Internal);
//! assert!(!answer.as_text().unwrap().contains("odd"));
//! # }
//! ```
//!
//! # Order
//!
//! Outermost. A second one belongs directly inside a `Buffer`: a panic in `call` would end its worker, and with it every later call.
//!
//! # Refusals
//!
//! [`Internal`](crate::RefusalKind::Internal), with the text of the panic as the source, which the model never reads. The panic hook has
//! run by then, so the operator's log has it too.
//!
//! # Cancellation
//!
//! Dropping the future drops what is within, and no more. A panic of a destructor in there goes to the panic hook, and no further.
//!
//! # Compared with `tower_http::catch_panic`
//!
//! That one makes an HTTP response, lets a panic of readiness through, and is not for requests that are no HTTP requests.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    describe::{Duty, Note},
    error::Refusal,
    operation::{Operation, View},
};

/// Turns a panic into a refusal; see the [module](self).
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CatchPanicLayer;

impl CatchPanicLayer {
    /// Catches panics.
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for CatchPanicLayer {
    type Service = CatchPanic<S>;

    fn layer(&self, inner: S) -> CatchPanic<S> {
        CatchPanic::new(inner)
    }
}

/// The refusal that a panic amounts to.
pub(crate) fn panicked(by: &'static str, panic: &(dyn Any + Send)) -> Refusal {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Refusal::internal(format!("panicked: {}", text.unwrap_or("with no text"))).with_by(by)
}

/// Drops something that may panic. One function for all that is dropped: it is compiled once, and not for each service.
fn quietly(drop: &mut dyn FnMut()) {
    let _ = catch_unwind(AssertUnwindSafe(drop));
}

/// A service whose panics are refusals.
pub struct CatchPanic<S> {
    inner: S,
    /// A panic of readiness, for the next call.
    failed: Option<Refusal>,
}

impl<S> CatchPanic<S> {
    crate::macros::accessors!();

    /// Whether it was found not to work when it was asked for readiness.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// A service whose panics are refusals.
    pub const fn new(inner: S) -> Self {
        Self { inner, failed: None }
    }
}

impl<S: Clone> Clone for CatchPanic<S> {
    /// A clone has not failed: its service within was not polled yet.
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<S: fmt::Debug> fmt::Debug for CatchPanic<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatchPanic").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, Op> Service<Op> for CatchPanic<S>
where
    Op: Operation,
    S: Service<Op, Response = Op::Response>,
{
    type Response = Op::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, Op>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.failed.is_some() {
            return Poll::Ready(Ok(()));
        }
        catch_unwind(AssertUnwindSafe(|| self.inner.poll_ready(cx))).unwrap_or_else(|panic| {
            self.failed = Some(panicked("catch_panic", &*panic));
            Poll::Ready(Ok(()))
        })
    }

    #[inline]
    fn call(&mut self, mut request: Op) -> Self::Future {
        if let Some(refusal) = self.failed.take() {
            return ResponseFuture::refused(refusal);
        }
        if let View::Describe(describe) = request.view() {
            describe.note::<Self, S>(Note::new("catch_panic").duty(Duty::CatchesPanics).ready_at_once(false));
        }
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(future) => ResponseFuture { state: State::Called { future } },
            Err(panic) => ResponseFuture::refused(panicked("catch_panic", &*panic)),
        }
    }
}

pin_project! {
    /// The response of [`CatchPanic`].
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, Op: Operation> {
        #[pin]
        state: State<F, Op::Response>,
    }

    impl<F, Op: Operation> PinnedDrop for ResponseFuture<F, Op> {
        fn drop(this: Pin<&mut Self>) {
            // What is within may panic as it is dropped, and whoever drops a call has other calls.
            let mut state = this.project().state;
            quietly(&mut || state.set(State::Refused { response: None }));
        }
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Called { #[pin] future: F },
        Refused { response: Option<R> },
    }
}

impl<F, Op: Operation> ResponseFuture<F, Op> {
    fn refused(refusal: Refusal) -> Self {
        Self { state: State::Refused { response: Some(Op::refuse(refusal)) } }
    }
}

impl<F, Op, E> Future for ResponseFuture<F, Op>
where
    F: Future<Output = Result<Op::Response, E>>,
    Op: Operation,
{
    type Output = Result<Op::Response, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let panic = match state.as_mut().project() {
            StateProj::Refused { response } => return response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            StateProj::Called { future } => match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
                Ok(poll) => return poll,
                Err(panic) => panic,
            },
        };
        // Dropped here and now, so that permits and the like are free when the answer is there; and it may panic again.
        quietly(&mut || state.set(State::Refused { response: None }));
        Poll::Ready(Ok(Op::refuse(panicked("catch_panic", &*panic))))
    }
}

impl<F, Op: Operation> fmt::Debug for ResponseFuture<F, Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
