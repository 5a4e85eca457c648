use std::{
    convert::Infallible,
    future::poll_fn,
    task::{Context, Poll, ready},
};

use futures_util::FutureExt;
use tower_service::Service;

use super::ToolStack;
use crate::{
    layer::{catch_error::CatchError, catch_panic::CatchPanic},
    model::{ToolCall, ToolResponse},
    tool::ToolFuture,
};

/// A clone of a stack's service, without its type, that one connection or worker keeps: it is cloned once, and not for each call.
pub(crate) trait Instance: Send + Sync {
    /// Answers `false` where it failed, and is good for the call that is told so and no more.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<bool>;

    /// To be called once it is ready.
    fn call(&mut self, call: ToolCall) -> ToolFuture;
}

struct Closed<S>(CatchError<CatchPanic<S>>);

pub(super) fn of<S: ToolStack>(service: S) -> Box<dyn Instance> {
    Box::new(Closed(CatchError::new(CatchPanic::new(service))))
}

impl<S: ToolStack> Instance for Closed<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Ok(()) = ready!(Service::<ToolCall>::poll_ready(&mut self.0, cx));
        Poll::Ready(!self.0.has_failed() && !self.0.get_ref().has_failed())
    }

    fn call(&mut self, call: ToolCall) -> ToolFuture {
        ToolFuture::new(self.0.call(call).map(|result| result.unwrap_or_else(|never: Infallible| match never {})))
    }
}

/// What a [`Stack`](super::Stack) keeps between calls.
#[derive(Default)]
pub(super) enum Kept {
    /// Nothing: no call was made through this clone yet, and there may be only one.
    #[default]
    Fresh,
    /// An instance is worth its while, and there is none.
    Wanted,
    /// One that is not ready, or has not been asked.
    Waiting(Box<dyn Instance>),
    /// One that is ready, for any number of calls or for this one.
    Ready(Box<dyn Instance>, bool),
}

impl Kept {
    /// Asks the instance that is there, or makes one.
    pub(super) fn poll_ready(&mut self, make: impl FnOnce() -> Option<Box<dyn Instance>>, cx: &mut Context<'_>) {
        let mut instance = match std::mem::take(self) {
            Self::Fresh => return,
            Self::Wanted => match make() {
                Some(instance) => instance,
                None => return,
            },
            Self::Waiting(instance) => instance,
            ready @ Self::Ready(..) => {
                *self = ready;
                return;
            }
        };
        *self = match instance.poll_ready(cx) {
            Poll::Ready(good) => Self::Ready(instance, good),
            Poll::Pending => Self::Waiting(instance),
        };
    }

    /// Calls the instance that is there, or whatever else there is.
    pub(super) fn call(&mut self, call: ToolCall, otherwise: impl FnOnce(ToolCall) -> ToolFuture) -> ToolFuture {
        match std::mem::replace(self, Self::Wanted) {
            Self::Fresh | Self::Wanted => otherwise(call),
            Self::Ready(mut instance, good) => {
                let future = instance.call(call);
                if good {
                    *self = Self::Waiting(instance);
                }
                future
            }
            // It keeps the place that it has in a queue within.
            Self::Waiting(instance) => ToolFuture::new(after_readiness(instance, call)),
        }
    }
}

async fn after_readiness(mut instance: Box<dyn Instance>, call: ToolCall) -> ToolResponse {
    poll_fn(|cx| instance.poll_ready(cx)).await;
    instance.call(call).await
}
