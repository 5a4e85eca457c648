//! Turns errors of other crates' layers into refusals, and ends in `Error = Infallible`.
//!
//! Layers of this crate never fail: what they refuse is in the response. Tower's timeout, load shed, buffer and filter do fail, with a
//! [`BoxError`]. This is the one layer that closes such errors off; every face does the same at its edge, so that a stack works without.
//! Put it in where layers further out should see a timeout as what it is: an outcome, to be counted and recorded.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use serde_json::json;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! use toolstack::{RefusalKind, Router, ToolCall, layer::CatchErrorLayer, tool::{sync_tool_fn, tool_fn}};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(CatchErrorLayer::new())
//!     .timeout(Duration::from_secs(1))
//!     .service(Router::new()
//!         .tool(sync_tool_fn("quick", || "done"))
//!         .tool(tool_fn("slow", || std::future::pending::<()>())));
//!
//! let quick = stack.clone().oneshot(ToolCall::new("quick", json!({}))).await.unwrap();
//! assert!(quick.is_completed());
//!
//! let slow = stack.clone().oneshot(ToolCall::new("slow", json!({}))).await.unwrap();
//! assert_eq!(slow.refusal().unwrap().kind(), RefusalKind::Timeout);
//! # }
//! ```
//!
//! # Order
//!
//! Inside the layers that observe (telemetry, audit), outside every layer that may fail.
//!
//! # Refusals
//!
//! By [`refusal_of`]: what the error is known to be along its `source()` chain, else
//! [`Internal`](crate::RefusalKind::Internal). The text of an unknown error never reaches the model.
//!
//! # Readiness
//!
//! An error of readiness is kept, and answered by the next call of the same instance; the failed service is not called.
//!
//! # Cancellation
//!
//! Dropping the future drops what is within, and no more.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    describe::{Duty, Note},
    error::{BoxError, Classify, Refusal, refusal_of},
    operation::{Operation, View},
};

/// Turns errors into refusals; see the [module](self).
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone, Default)]
pub struct CatchErrorLayer {
    classify: Option<Classify>,
}

impl CatchErrorLayer {
    /// Recognises what this crate knows.
    pub const fn new() -> Self {
        Self { classify: None }
    }

    /// Recognises what `classify` knows too: it sees every error along the chain that this crate does not know, outermost first.
    pub fn classify(mut self, classify: impl Fn(&(dyn std::error::Error + 'static)) -> Option<Refusal> + Send + Sync + 'static) -> Self {
        self.classify = Some(Arc::new(classify));
        self
    }
}

impl fmt::Debug for CatchErrorLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatchErrorLayer").field("classify", &self.classify.is_some()).finish()
    }
}

impl<S> Layer<S> for CatchErrorLayer {
    type Service = CatchError<S>;

    fn layer(&self, inner: S) -> CatchError<S> {
        CatchError { inner, classify: self.classify.clone(), failed: None }
    }
}

/// A service whose errors are refusals.
pub struct CatchError<S> {
    inner: S,
    classify: Option<Classify>,
    /// An error of readiness, for the next call.
    failed: Option<Refusal>,
}

impl<S> CatchError<S> {
    crate::macros::accessors!();

    /// Whether it was found not to work when it was asked for readiness.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// A service whose errors are refusals, as far as this crate knows them.
    pub const fn new(inner: S) -> Self {
        Self { inner, classify: None, failed: None }
    }
}

impl<S: Clone> Clone for CatchError<S> {
    /// A clone has not failed: its service within was not polled yet.
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), classify: self.classify.clone(), failed: None }
    }
}

impl<S: fmt::Debug> fmt::Debug for CatchError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatchError").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, Op> Service<Op> for CatchError<S>
where
    Op: Operation,
    S: Service<Op, Response = Op::Response, Error: Into<BoxError>>,
{
    type Response = Op::Response;
    type Error = Infallible;
    type Future = ResponseFuture<S::Future, Op>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.failed.is_none()
            && let Err(error) = ready!(self.inner.poll_ready(cx))
        {
            self.failed = Some(refusal_of(error.into(), self.classify.as_ref()));
        }
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, mut request: Op) -> Self::Future {
        if let Some(refusal) = self.failed.take() {
            return ResponseFuture { state: State::Refused { response: Some(Op::refuse(refusal)) }, classify: None };
        }
        if let View::Describe(describe) = request.view() {
            let note = Note::new("catch_error").duty(Duty::CatchesErrors).ready_at_once(false);
            describe.note::<Self, S>(if self.classify.is_some() { note.setting("classify", "own") } else { note });
        }
        ResponseFuture { state: State::Called { future: self.inner.call(request) }, classify: self.classify.clone() }
    }
}

pin_project! {
    /// The response of [`CatchError`].
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, Op: Operation> {
        #[pin]
        state: State<F, Op::Response>,
        classify: Option<Classify>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Called { #[pin] future: F },
        Refused { response: Option<R> },
    }
}

impl<F, Op, E> Future for ResponseFuture<F, Op>
where
    F: Future<Output = Result<Op::Response, E>>,
    Op: Operation,
    E: Into<BoxError>,
{
    type Output = Result<Op::Response, Infallible>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.state.project() {
            StateProj::Called { future } => Poll::Ready(Ok(match ready!(future.poll(cx)) {
                Ok(response) => response,
                Err(error) => Op::refuse(refusal_of(error.into(), this.classify.as_ref())),
            })),
            StateProj::Refused { response } => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
        }
    }
}

impl<F, Op: Operation> fmt::Debug for ResponseFuture<F, Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
