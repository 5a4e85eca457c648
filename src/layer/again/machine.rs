use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;

use super::{Repeat, ResponseFuture, future::Kept};
use crate::{
    layer::around::Inner,
    operation::{Operation, View},
};

/// Puts a [`Repeat`] around a service.
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RepeatLayer<P> {
    policy: Arc<P>,
}

/// A service whose requests may be made again.
pub struct Repeated<S, P> {
    inner: S,
    policy: Arc<P>,
}

impl<P: Repeat> RepeatLayer<P> {
    /// A layer of this policy.
    pub fn new(policy: P) -> Self {
        Self { policy: Arc::new(policy) }
    }
}

impl<P> Clone for RepeatLayer<P> {
    fn clone(&self) -> Self {
        Self { policy: Arc::clone(&self.policy) }
    }
}

impl<P: Repeat> fmt::Debug for RepeatLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RepeatLayer").field(&self.policy.note()).finish()
    }
}

impl<S, P> Layer<S> for RepeatLayer<P> {
    type Service = Repeated<S, P>;

    fn layer(&self, inner: S) -> Repeated<S, P> {
        Repeated { inner, policy: Arc::clone(&self.policy) }
    }
}

impl<S, P> Repeated<S, P> {
    crate::macros::accessors!();
}

impl<S: Clone, P> Clone for Repeated<S, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), policy: Arc::clone(&self.policy) }
    }
}

impl<S: fmt::Debug, P: Repeat> fmt::Debug for Repeated<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeated").field("policy", &self.policy.note()).field("inner", &self.inner).finish()
    }
}

impl<S, P, Op> Service<Op> for Repeated<S, P>
where
    Op: Operation,
    P: Repeat,
    S: Inner<Op>,
{
    type Response = Op::Response;
    type Error = <S as Service<Op>>::Error;
    type Future = ResponseFuture<S, Op, P>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        <S as Service<Op>>::poll_ready(&mut self.inner, cx)
    }

    #[inline]
    fn call(&mut self, mut request: Op) -> Self::Future {
        let kept = match request.view() {
            View::Describe(describe) => {
                if let Some(note) = self.policy.note() {
                    describe.note::<Self, S>(note.ready_at_once(false));
                }
                None
            }
            // A clone, which was not polled and holds no place in a queue, for the attempts after the first.
            view => self.policy.keeps(view).then(|| Kept { inner: self.inner.clone(), request: request.clone() }),
        };
        ResponseFuture::new(self.inner.call(request), kept, Arc::clone(&self.policy))
    }
}
