use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use super::{Policy, shared::Guard};
use crate::operation::Operation;

pin_project! {
    /// The response of a [`Policed`](super::Policed).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, Op: Operation, P: Policy, E> {
        #[pin]
        state: State<F, Op::Response, E>,
        guard: Option<Guard<P>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R, E> {
        Called { #[pin] future: F },
        Ready { response: Option<R> },
        Waiting { future: Pin<Box<dyn Future<Output = Result<R, E>> + Send>> },
    }
}

impl<F, Op: Operation, P: Policy, E> ResponseFuture<F, Op, P, E> {
    #[inline]
    pub(super) const fn called(future: F, guard: Option<Guard<P>>) -> Self {
        Self { state: State::Called { future }, guard }
    }

    pub(super) const fn ready(response: Op::Response) -> Self {
        Self { state: State::Ready { response: Some(response) }, guard: None }
    }

    pub(super) fn waiting(future: impl Future<Output = Result<Op::Response, E>> + Send + 'static) -> Self {
        Self { state: State::Waiting { future: Box::pin(future) }, guard: None }
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
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        match this.state.as_mut().project() {
            StateProj::Called { future } => {
                let unwinding = Unwinding(this.guard);
                let polled = future.poll(cx);
                std::mem::forget(unwinding);
                if polled.is_pending() {
                    return Poll::Pending;
                }
                let Some(guard) = this.guard.take() else { return polled };
                match polled {
                    Poll::Ready(Ok(response)) if guard.settles() => {
                        let future = Box::pin(guard.settle::<Op, E>(response));
                        this.state.set(State::Waiting { future });
                        self.poll(cx)
                    }
                    mut polled => {
                        if let Poll::Ready(result) = &mut polled {
                            guard.finish::<Op, _>(result);
                        }
                        polled
                    }
                }
            }
            StateProj::Ready { response } => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            StateProj::Waiting { future } => future.as_mut().poll(cx),
        }
    }
}

/// Drops the guard when a panic passes, and not later, so that it sees the panic. Forgotten where none does.
struct Unwinding<'a, P: Policy>(&'a mut Option<Guard<P>>);

impl<P: Policy> Drop for Unwinding<'_, P> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}

impl<F, Op: Operation, P: Policy, E> fmt::Debug for ResponseFuture<F, Op, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
