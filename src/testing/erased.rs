use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tower_service::Service;

use crate::{
    describe::{Describe, Description},
    error::BoxError,
    model::{ListTools, ToolCall, ToolList, ToolResponse},
    stack::ToolStack,
};

type Answer<R> = BoxFuture<'static, Result<R, BoxError>>;

/// A stack without its type, and with everything else of it: readiness, clones and errors are its own. The laws are compiled once for it
/// and not once for each layer.
pub(super) struct Unnamed(Box<dyn Instance>);

trait Instance: Send + Sync {
    fn fresh(&self) -> Box<dyn Instance>;
    fn ready_to_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    fn call(&mut self, call: ToolCall) -> Answer<ToolResponse>;
    fn ready_to_list(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    fn list(&mut self, list: ListTools) -> Answer<ToolList>;
    fn ready_to_describe(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    fn describe(&mut self, describe: Describe) -> Answer<Description>;
}

impl<S: ToolStack> Instance for S {
    fn fresh(&self) -> Box<dyn Instance> {
        Box::new(self.clone())
    }

    fn ready_to_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Service::<ToolCall>::poll_ready(self, cx).map_err(Into::into)
    }

    fn call(&mut self, call: ToolCall) -> Answer<ToolResponse> {
        erase(Service::call(self, call))
    }

    fn ready_to_list(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Service::<ListTools>::poll_ready(self, cx).map_err(Into::into)
    }

    fn list(&mut self, list: ListTools) -> Answer<ToolList> {
        erase(Service::call(self, list))
    }

    fn ready_to_describe(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Service::<Describe>::poll_ready(self, cx).map_err(Into::into)
    }

    fn describe(&mut self, describe: Describe) -> Answer<Description> {
        erase(Service::call(self, describe))
    }
}

fn erase<R, E: Into<BoxError>>(future: impl Future<Output = Result<R, E>> + Send + 'static) -> Answer<R> {
    Box::pin(async move { future.await.map_err(Into::into) })
}

impl Unnamed {
    pub(super) fn new(stack: impl ToolStack) -> Self {
        Self(Box::new(stack))
    }
}

impl Clone for Unnamed {
    fn clone(&self) -> Self {
        Self(self.0.fresh())
    }
}

macro_rules! operations {
    ($($request:ty => $response:ty: $ready:ident, $call:ident;)*) => {$(
        impl Service<$request> for Unnamed {
            type Response = $response;
            type Error = BoxError;
            type Future = Answer<$response>;

            fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
                self.0.$ready(cx)
            }

            fn call(&mut self, request: $request) -> Answer<$response> {
                self.0.$call(request)
            }
        }
    )*};
}

operations! {
    ToolCall => ToolResponse: ready_to_call, call;
    ListTools => ToolList: ready_to_list, list;
    Describe => Description: ready_to_describe, describe;
}
