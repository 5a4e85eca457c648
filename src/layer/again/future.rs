use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::future::BoxFuture;
use pin_project_lite::pin_project;
use tower::util::ServiceExt;
use tower_service::Service;

use super::{Judgement, Repeat};
use crate::{layer::around::Inner, operation::Operation};

pin_project! {
    /// The response of a [`Repeated`](super::Repeated).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S: Service<Op>, Op: Operation, P> {
        #[pin]
        state: State<S::Future, Op::Response, S::Error>,
        kept: Option<Kept<S, Op>>,
        policy: Arc<P>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R, E> {
        First { #[pin] future: F },
        Later { future: BoxFuture<'static, Result<R, E>> },
    }
}

/// What it takes to make a request again.
pub(super) struct Kept<S, Op> {
    pub(super) inner: S,
    pub(super) request: Op,
}

impl<S: Service<Op>, Op: Operation, P> ResponseFuture<S, Op, P> {
    #[inline]
    pub(super) const fn new(future: S::Future, kept: Option<Kept<S, Op>>, policy: Arc<P>) -> Self {
        Self { state: State::First { future }, kept, policy }
    }
}

impl<S, Op, P> Future for ResponseFuture<S, Op, P>
where
    Op: Operation,
    S: Inner<Op>,
    P: Repeat,
{
    type Output = Result<Op::Response, <S as Service<Op>>::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut response = match this.state.as_mut().project() {
            StateProj::Later { future } => return future.as_mut().poll(cx),
            StateProj::First { future } => match ready!(future.poll(cx)) {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(error)),
            },
        };
        let kept = this.kept.take().filter(|_| this.policy.attempts() > 1);
        let judgement = this.policy.judge(Op::reply(&mut response), kept.is_some());
        let (Judgement::Decide, Some(kept)) = (judgement, kept) else { return Poll::Ready(Ok(response)) };
        // The first attempt is dropped here, and what it holds is free before anything else begins.
        this.state.set(State::Later { future: Box::pin(again(Arc::clone(this.policy), kept, response)) });
        match this.state.project() {
            StateProj::Later { future } => future.as_mut().poll(cx),
            StateProj::First { .. } => Poll::Pending,
        }
    }
}

async fn again<S, Op, P>(
    policy: Arc<P>,
    mut kept: Kept<S, Op>,
    mut response: Op::Response,
) -> Result<Op::Response, <S as Service<Op>>::Error>
where
    Op: Operation,
    S: Inner<Op>,
    P: Repeat,
{
    let mut attempt = 1;
    while policy.decide(kept.request.view(), Op::reply(&mut response)).await {
        attempt += 1;
        response = kept.inner.clone().oneshot(kept.request.clone()).await?;
        let may_repeat = attempt < policy.attempts();
        if policy.judge(Op::reply(&mut response), may_repeat) == Judgement::Stands || !may_repeat {
            policy.over(kept.request.view(), Op::reply(&mut response));
            break;
        }
    }
    Ok(response)
}

impl<S: Service<Op>, Op: Operation, P> fmt::Debug for ResponseFuture<S, Op, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
