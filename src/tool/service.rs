use std::{
    convert::Infallible,
    fmt,
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tower::util::ServiceExt;
use tower_service::Service;

use super::{Handler, ToolFuture, entry::Registered};
use crate::{
    describe::{Describe, Description, Note, ToolNote},
    error::{BoxError, refusal_of},
    model::{ListTools, ToolCall, ToolList, ToolResponse, permit},
    router::Catalog,
};

/// One tool as the service that its own layers wrap. It serves every operation, as a router of one tool.
pub struct ToolService<H> {
    shared: Arc<Shared<H>>,
}

struct Shared<H> {
    handler: H,
    catalog: Catalog,
}

impl<H: Handler> ToolService<H> {
    pub(super) fn new(registered: Arc<Registered>, handler: H) -> Self {
        Self { shared: Arc::new(Shared { handler, catalog: Catalog::of_one(registered) }) }
    }
}

impl<H> Clone for ToolService<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<H> fmt::Debug for ToolService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolService").field("catalog", &self.shared.catalog).finish_non_exhaustive()
    }
}

/// The response of a [`ToolService`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture(ToolFuture);

impl Future for ResponseFuture {
    type Output = Result<ToolResponse, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Ok)
    }
}

impl<H: Handler> Service<ToolCall> for ToolService<H> {
    type Response = ToolResponse;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: ToolCall) -> ResponseFuture {
        if call.permit().is_some_and(|permit| !permit.holds(&call)) {
            return ResponseFuture(ToolFuture::ready(ToolResponse::refused(permit::changed(call.name()))));
        }
        if call.is_watched() && !self.shared.handler.layered() {
            call.begin_tool();
        }
        call.discharge();
        ResponseFuture(self.shared.handler.call(call))
    }
}

impl<H: Handler> Service<ListTools> for ToolService<H> {
    type Response = ToolList;
    type Error = Infallible;
    type Future = Ready<Result<ToolList, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: ListTools) -> Self::Future {
        ready(Ok(self.shared.catalog.list()))
    }
}

impl<H: Handler> Service<Describe> for ToolService<H> {
    type Response = Description;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Description, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut describe: Describe) -> Self::Future {
        describe.terminal::<Self>();
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let mut tools = Vec::new();
            for tool in shared.catalog.list().tools() {
                // What was put around the tool before the layers that ask.
                tools.push(ToolNote::new(tool.name.clone(), "local", shared.handler.layers().await));
            }
            Ok(Description::new(describe.into_notes(), tools, Some(shared.catalog.clone())))
        })
    }
}

/// The handler of a tool that a service answers: drives its readiness within the call, and turns its errors into refusals.
pub struct FromService<S> {
    service: S,
    layered: bool,
    describe: fn(&S) -> BoxFuture<'static, Vec<Note>>,
}

impl<S> FromService<S> {
    pub(crate) fn new(service: S) -> Self {
        Self { service, layered: false, describe: |_| Box::pin(async { Vec::new() }) }
    }

    pub(super) fn described(service: S) -> Self
    where
        S: Service<Describe, Response = Description, Error: Into<BoxError>, Future: Send + 'static> + Clone + Send + 'static,
    {
        let describe = |service: &S| -> BoxFuture<'static, Vec<Note>> {
            let service = service.clone();
            Box::pin(async move {
                let description = service.oneshot(Describe::new()).await;
                let description = description.unwrap_or_else(|error| Description::refused(refusal_of(error.into(), None)));
                let description = description.with_foreign(std::any::type_name::<S>());
                let within = description.tools().first().map(|tool| tool.layers.clone()).unwrap_or_default();
                description.into_layers().into_iter().chain(within).collect()
            })
        };
        Self { service, layered: true, describe }
    }
}

impl<S> Handler for FromService<S>
where
    S: Service<ToolCall, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
    S::Response: Into<ToolResponse>,
    S::Future: Send + 'static,
{
    fn call(&self, call: ToolCall) -> ToolFuture {
        let answer = self.service.clone().oneshot(call);
        ToolFuture::new(async move {
            match answer.await {
                Ok(response) => response.into(),
                Err(error) => ToolResponse::refused(refusal_of(error.into(), None)),
            }
        })
    }

    fn layered(&self) -> bool {
        self.layered
    }

    fn layers(&self) -> BoxFuture<'static, Vec<Note>> {
        (self.describe)(&self.service)
    }
}

impl<S: Clone> Clone for FromService<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), layered: self.layered, describe: self.describe }
    }
}

impl<S> fmt::Debug for FromService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromService").field("service", &std::any::type_name::<S>()).finish_non_exhaustive()
    }
}
