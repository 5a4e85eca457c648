use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower::util::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Policy, ResponseFuture, Step,
    shared::{Guard, Shared},
};
use crate::{
    describe::{Describe, Description, Duty},
    error::{BoxError, Refusal, refusal_of},
    operation::{Operation, View},
    router::Catalog,
};

/// Puts a [`Policy`] around a service.
#[must_use = "a layer does nothing until it wraps a service"]
pub struct PolicyLayer<P> {
    policy: Arc<P>,
}

/// A service with a [`Policy`] around it.
pub struct Policed<S, P> {
    inner: S,
    shared: Arc<Shared<P>>,
    /// Whether `inner` was polled and is ready, for a policy that says it is ready in any case.
    ready: bool,
    held: Held,
}

/// What the futures of one instance hold of the layer.
#[derive(Clone, Copy)]
enum Held {
    /// Nothing so far.
    Nothing,
    /// What all instances share.
    Shared,
    /// A copy of this instance's own.
    Own,
}

impl<P: Policy> PolicyLayer<P> {
    /// A layer of this policy.
    pub fn new(policy: P) -> Self {
        Self::shared(Arc::new(policy))
    }

    /// A layer of a policy that others hold too.
    pub const fn shared(policy: Arc<P>) -> Self {
        Self { policy }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &P {
        &self.policy
    }
}

impl<P> Clone for PolicyLayer<P> {
    fn clone(&self) -> Self {
        Self { policy: Arc::clone(&self.policy) }
    }
}

impl<P: Policy> fmt::Debug for PolicyLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyLayer").field(&self.policy.note()).finish()
    }
}

impl<S, P: Policy> Layer<S> for PolicyLayer<P> {
    type Service = Policed<S, P>;

    fn layer(&self, inner: S) -> Policed<S, P> {
        Policed { inner, shared: Arc::new(Shared::new(Arc::clone(&self.policy))), ready: false, held: Held::Nothing }
    }
}

impl<S, P> Policed<S, P> {
    crate::macros::accessors!();
}

impl<S: Clone, P> Clone for Policed<S, P> {
    /// A clone is not ready, whatever this one is.
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared), ready: false, held: Held::Nothing }
    }
}

impl<S: fmt::Debug, P: Policy> fmt::Debug for Policed<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policed").field("policy", &self.shared.policy.note()).field("inner", &self.inner).finish()
    }
}

impl<S, P, Op> Service<Op> for Policed<S, P>
where
    Op: Operation,
    P: Policy,
    S: Service<Op, Response = Op::Response, Future: Send + 'static, Error: Send + 'static>
        + Service<Describe, Response = Description, Future: Send + 'static, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
{
    type Response = Op::Response;
    type Error = <S as Service<Op>>::Error;
    type Future = ResponseFuture<<S as Service<Op>>::Future, Op, P, Self::Error>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let ready = <S as Service<Op>>::poll_ready(&mut self.inner, cx);
        if !Shared::<P>::MAY_WAIT {
            return ready;
        }
        // Ready in any case; whether the service within is decides how the call begins.
        self.ready = matches!(ready, Poll::Ready(Ok(())));
        match ready {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }

    #[inline]
    fn call(&mut self, mut request: Op) -> Self::Future {
        let ready = std::mem::take(&mut self.ready) || !Shared::<P>::MAY_WAIT;
        let step = match request.view() {
            View::Describe(describe) => {
                if let Some(note) = self.shared.policy.note() {
                    let note = if P::WAITS { note.duty(Duty::Waits) } else { note };
                    describe.note::<Self, S>(note.ready_at_once(Shared::<P>::MAY_WAIT));
                }
                Some(Step::Pass)
            }
            _ => self.shared.before(&mut request),
        };
        match step {
            Some(Step::Pass) if ready => ResponseFuture::called(self.inner.call(request), Guard::empty()),
            Some(Step::Continue(state)) if ready => {
                let guard = Guard::new(self.hold(), state);
                ResponseFuture::called(self.inner.call(request), guard)
            }
            Some(Step::Pass) => ResponseFuture::waiting(self.take_inner().oneshot(request)),
            Some(Step::Continue(state)) => {
                let guard = Guard::new(&self.shared, state);
                ResponseFuture::waiting(guarded::<_, P, Op>(self.take_inner(), request, guard))
            }
            Some(Step::Refuse(refusal)) => ResponseFuture::ready(Op::refuse(refusal)),
            Some(Step::Answer(answer)) => ResponseFuture::ready(self.shared.answer::<Op>(*answer)),
            Some(Step::Wait) => self.slow(request, true),
            None => self.slow(request, false),
        }
    }
}

impl<S, P> Policed<S, P> {
    /// The service within, as it was polled; a clone, which was not, takes its place. What is moved into a future is the instance that
    /// stands in the queue of a limit, as tower's contract has it.
    fn take_inner(&mut self) -> S
    where
        S: Clone,
    {
        let fresh = self.inner.clone();
        std::mem::replace(&mut self.inner, fresh)
    }

    /// What the future of a request holds. The first request holds what all instances share. An instance that is called again is one that
    /// a connection or a worker keeps; it gets a copy of its own, so that threads do not contend for one count of references.
    #[inline]
    fn hold(&mut self) -> &Arc<Shared<P>> {
        if !matches!(self.held, Held::Own) {
            self.hold_more();
        }
        &self.shared
    }

    #[cold]
    fn hold_more(&mut self) {
        self.held = match self.held {
            Held::Nothing => Held::Shared,
            Held::Shared | Held::Own => {
                self.shared = Arc::new(Shared::clone(&self.shared));
                Held::Own
            }
        };
    }

    /// Waits: for the catalog at the first request, and for the policy where it asks to (it has `decided` to).
    #[cold]
    fn slow<Op>(&mut self, mut request: Op, decided: bool) -> ResponseFuture<<S as Service<Op>>::Future, Op, P, <S as Service<Op>>::Error>
    where
        Op: Operation,
        P: Policy,
        S: Service<Op, Response = Op::Response, Future: Send + 'static, Error: Send + 'static>
            + Service<Describe, Response = Description, Future: Send + 'static, Error: Into<BoxError>>
            + Clone
            + Send
            + 'static,
    {
        // The instance that was polled may hold a permit. It is given back before the wait; a fresh one is driven to ready after it.
        let inner = self.inner.clone();
        drop(std::mem::replace(&mut self.inner, inner.clone()));
        let shared = Arc::clone(&self.shared);
        ResponseFuture::waiting(async move {
            let mut step = Step::Wait;
            if !decided {
                match catalog(inner.clone()).await {
                    Ok(catalog) => shared.learn(catalog),
                    Err(refusal) => return Ok(Op::refuse(refusal)),
                }
                step = shared.before(&mut request).unwrap_or(Step::Wait);
            }
            if let Step::Wait = step {
                step = shared.wait(&mut request).await;
            }
            match step {
                Step::Pass => inner.oneshot(request).await,
                Step::Continue(state) => guarded(inner, request, Guard::new(&shared, state)).await,
                Step::Refuse(refusal) => Ok(Op::refuse(refusal)),
                Step::Answer(answer) => Ok(shared.answer::<Op>(*answer)),
                Step::Wait => Ok(Op::refuse(Refusal::internal("a policy waited and did not decide"))),
            }
        })
    }
}

/// Asks the service within which tools there are.
async fn catalog<S>(inner: S) -> Result<Catalog, Refusal>
where
    S: Service<Describe, Response = Description, Error: Into<BoxError>>,
{
    let description = inner.oneshot(Describe::new()).await.map_err(|error| refusal_of(error.into(), None))?;
    match (description.catalog(), description.refusal()) {
        (Some(catalog), _) => Ok(catalog.clone()),
        (None, Some(refusal)) => Err(refusal.clone()),
        (None, None) => Err(Refusal::internal("the service within answered a description without its catalog")),
    }
}

/// Drives the service within to ready, calls it, and finishes.
async fn guarded<S, P, Op>(inner: S, request: Op, mut guard: Guard<P>) -> Result<Op::Response, S::Error>
where
    Op: Operation,
    P: Policy,
    S: Service<Op, Response = Op::Response>,
    S::Error: 'static,
{
    match inner.oneshot(request).await {
        Ok(response) if guard.settles() => guard.settle::<Op, _>(response).await,
        mut result => {
            guard.finish::<Op, _>(&mut result);
            result
        }
    }
}
