//! A layer from one async function around a call.
//!
//! The quickest way to a layer: the function gets the call and what comes [`Next`], and gives the response back. It may change the call,
//! answer without running anything, run something afterwards, or use what it got to do otherwise. It sees tool calls only; lists pass by.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Refusal, RefusalKind, Router, StackExt, ToolCall, middleware::{Next, from_fn}, tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(from_fn(async |call: ToolCall, next: Next<_>| {
//!         if call.name() == "reset" {
//!             return Ok(Refusal::new(RefusalKind::Denied, "Not today.").with_by("calendar").into());
//!         }
//!         let response = next.run(call).await?;
//!         Ok(response)
//!     }))
//!     .service(Router::new()
//!         .tool(sync_tool_fn("ping", || "pong"))
//!         .tool(sync_tool_fn("reset", || "done")));
//!
//! assert!(stack.call_tool("ping", json!({})).await.is_completed());
//! assert_eq!(stack.call_tool("reset", json!({})).await.as_text().as_deref(), Some("Not today."));
//! # }
//! ```
//!
//! # Order
//!
//! Wherever it is put.
//!
//! # Errors
//!
//! The function passes the error of what is within on, or deals with it. `Next<_>` leaves its type to the compiler; a named function is
//! generic over it: `async fn log<E>(call: ToolCall, next: Next<E>) -> Result<ToolResponse, E>`.
//!
//! # Cancellation
//!
//! Dropping the call drops the function's future where it stands, and with it what it runs. What must happen in any case belongs into a
//! [`Policy`](crate::layer::Policy), whose `after` hears of a drop, or into a value with a `Drop`.
//!
//! # Answering in the tool's place
//!
//! A response that the function gives without running what is within is marked as [served by](crate::model::ToolResult::served_by) this
//! layer, under its [name](FromFnLayer::name), unless it is a refusal, which says who refused.
//!
//! # Readiness and cost
//!
//! The layer is ready at once, and what is within is driven to ready when [`Next::run`] is called, so that nothing is held before. It
//! costs three boxes for each call; a policy costs none.

use std::{
    any::type_name,
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use futures_util::future::BoxFuture;
use tower::util::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    describe::{Describe, Note},
    model::{ListTools, ToolCall, ToolResponse, call::Judgement},
    operation::Operation,
};

/// Makes a layer from an async function around a call; see the [module](self).
pub const fn from_fn<F, E, Fut>(function: F) -> FromFnLayer<F, E>
where
    F: Fn(ToolCall, Next<E>) -> Fut,
    Fut: Future<Output = Result<ToolResponse, E>>,
{
    FromFnLayer { function, name: "from_fn", error: PhantomData }
}

/// A layer from a function; see [`from_fn`].
#[must_use = "a layer does nothing until it wraps a service"]
pub struct FromFnLayer<F, E> {
    function: F,
    name: &'static str,
    error: PhantomData<fn() -> E>,
}

impl<F, E> FromFnLayer<F, E> {
    /// Sets the name that `describe` shows.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }
}

impl<F: Clone, E> Clone for FromFnLayer<F, E> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), name: self.name, error: PhantomData }
    }
}

impl<F, E> fmt::Debug for FromFnLayer<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFnLayer").field("name", &self.name).field("function", &type_name::<F>()).finish()
    }
}

impl<S, F: Clone, E> Layer<S> for FromFnLayer<F, E> {
    type Service = FromFn<S, F, E>;

    fn layer(&self, inner: S) -> Self::Service {
        FromFn { inner, function: self.function.clone(), name: self.name, error: PhantomData }
    }
}

/// A service with a function around its calls.
pub struct FromFn<S, F, E> {
    inner: S,
    function: F,
    name: &'static str,
    error: PhantomData<fn() -> E>,
}

impl<S, F, E> FromFn<S, F, E> {
    crate::macros::accessors!();
}

impl<S: Clone, F: Clone, E> Clone for FromFn<S, F, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), function: self.function.clone(), name: self.name, error: PhantomData }
    }
}

impl<S: fmt::Debug, F, E> fmt::Debug for FromFn<S, F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").field("name", &self.name).field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The rest of the stack, for the one call of [`run`](Next::run).
pub struct Next<E> {
    rest: Arc<dyn Rest<E>>,
}

/// The rest of the stack, without its type.
trait Rest<E>: Send + Sync {
    fn run(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolResponse, E>>;
    fn has_run(&self) -> bool;
}

/// The service within, until it is run, and what the call was judged as on its way here.
struct Within<S> {
    service: Mutex<Option<S>>,
    judgement: Mutex<Judgement>,
}

impl<S> Within<S> {
    fn service(&self) -> MutexGuard<'_, Option<S>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S, E: 'static> Rest<E> for Within<S>
where
    S: Service<ToolCall, Response = ToolResponse, Error = E, Future: Send + 'static> + Send + 'static,
{
    fn run(&self, mut call: ToolCall) -> BoxFuture<'static, Result<ToolResponse, E>> {
        // The function may run another call than it was given.
        call.hold_to(std::mem::take(&mut *self.judgement.lock().unwrap_or_else(PoisonError::into_inner)));
        match self.service().take() {
            Some(service) => Box::pin(service.oneshot(call)),
            // `Next::run` takes the one `Next` that there is.
            None => Box::pin(std::future::pending()),
        }
    }

    fn has_run(&self) -> bool {
        self.service().is_none()
    }
}

impl<E> Next<E> {
    /// Runs the rest of the stack.
    ///
    /// # Errors
    ///
    /// As what is within does.
    pub async fn run(self, call: ToolCall) -> Result<ToolResponse, E> {
        self.rest.run(call).await
    }
}

impl<E> fmt::Debug for Next<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

impl<S, F, E: 'static, Fut> Service<ToolCall> for FromFn<S, F, E>
where
    S: Service<ToolCall, Response = ToolResponse, Error = E, Future: Send + 'static> + Clone + Send + 'static,
    F: Fn(ToolCall, Next<E>) -> Fut,
    Fut: Future<Output = Result<ToolResponse, E>> + Send + 'static,
{
    type Response = ToolResponse;
    type Error = E;
    type Future = ResponseFuture<E>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        // Not polled yet, and driven to ready by `run`: nothing is held until then.
        let rest: Arc<dyn Rest<E>> =
            Arc::new(Within { service: Mutex::new(Some(self.inner.clone())), judgement: Mutex::new(call.judgement()) });
        let next = Next { rest: Arc::clone(&rest) };
        ResponseFuture { future: Box::pin((self.function)(call, next)), rest, name: self.name }
    }
}

/// The response of a [`FromFn`].
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<E> {
    future: BoxFuture<'static, Result<ToolResponse, E>>,
    rest: Arc<dyn Rest<E>>,
    name: &'static str,
}

impl<E> Future for ResponseFuture<E> {
    type Output = Result<ToolResponse, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut result = ready!(self.future.as_mut().poll(cx));
        if let Ok(response) = &mut result
            && !self.rest.has_run()
        {
            response.serve_by(self.name);
        }
        Poll::Ready(result)
    }
}

impl<E> fmt::Debug for ResponseFuture<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<S, F, E> Service<ListTools> for FromFn<S, F, E>
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

impl<S, F, E> Service<Describe> for FromFn<S, F, E>
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
        describe.note::<Self, S>(Note::new(self.name).ready_at_once(true));
        self.inner.call(describe)
    }
}
