use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use pin_project_lite::pin_project;
use tracing::Span;

use super::{Policy, shared::Guard};
use crate::operation::Operation;

pin_project! {
    /// The response of a [`Policed`](super::Policed).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, Op: Operation, P: Policy, E> {
        #[pin]
        state: State<F, Op::Response, E>,
        guard: Guard<P>,
    }

    impl<F, Op: Operation, P: Policy, E> PinnedDrop for ResponseFuture<F, Op, P, E> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // What is within ends inside the span that it ran in.
            if let Some(_entered) = this.guard.span().map(Span::enter) {
                this.state.set(State::Ready { response: None });
            }
        }
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R, E> {
        Called { #[pin] future: F },
        Ready { response: Option<R> },
        Waiting { future: BoxFuture<'static, Result<R, E>> },
    }
}

impl<F, Op: Operation, P: Policy, E> ResponseFuture<F, Op, P, E> {
    #[inline]
    pub(super) const fn called(future: F, guard: Guard<P>) -> Self {
        Self { state: State::Called { future }, guard }
    }

    pub(super) const fn ready(response: Op::Response) -> Self {
        Self { state: State::Ready { response: Some(response) }, guard: Guard::empty() }
    }

    pub(super) fn waiting(future: impl Future<Output = Result<Op::Response, E>> + Send + 'static) -> Self {
        Self { state: State::Waiting { future: Box::pin(future) }, guard: Guard::empty() }
    }
}

impl<F, Op, P, E> Future for ResponseFuture<F, Op, P, E>
where
    F: Future<Output = Result<Op::Response, E>>,
    Op: Operation,
    P: Policy,
    E: 'static,
{
    type Output = Result<Op::Response, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // The service within is polled at one place, and the answer is one variable that only calls write to: so compilers see through
        // many layers, and write it where it is wanted.
        let mut polled;
        match this.state.as_mut().project() {
            StateProj::Called { future } => {
                let unwinding = Unwinding(this.guard);
                let entered = unwinding.0.span().map(Span::enter);
                polled = future.poll(cx);
                drop(entered);
                std::mem::forget(unwinding);
            }
            StateProj::Ready { response } => polled = answered(response),
            StateProj::Waiting { future } => polled = future.as_mut().poll(cx),
        }
        if !this.guard.is_empty()
            && let Poll::Ready(result) = &mut polled
        {
            if result.is_ok() && this.guard.settles() {
                let guard = this.guard.take();
                if let Poll::Ready(Ok(response)) = std::mem::replace(&mut polled, Poll::Pending) {
                    let mut future: BoxFuture<'static, _> = Box::pin(guard.settle::<Op, E>(response));
                    polled = future.as_mut().poll(cx);
                    this.state.set(State::Waiting { future });
                }
            } else {
                this.guard.finish::<Op, _>(result);
            }
        }
        polled
    }
}

#[cold]
#[inline(never)]
fn answered<R, E>(response: &mut Option<R>) -> Poll<Result<R, E>> {
    response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
}

/// Drops the guard when a panic passes, and not later, so that it sees the panic. Forgotten where none does.
struct Unwinding<'a, P: Policy>(&'a mut Guard<P>);

impl<P: Policy> Drop for Unwinding<'_, P> {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

impl<F, Op: Operation, P: Policy, E> fmt::Debug for ResponseFuture<F, Op, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
