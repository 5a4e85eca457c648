use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tower::util::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;
use tracing::{Instrument, Span};

use super::{
    Policy, ResponseFuture, Step,
    shared::{Guard, Shared, Unseen},
};
use crate::{
    describe::{Describe, Description, Duty, Note},
    error::{BoxError, Refusal, refusal_of},
    operation::{Answer, Operation, View},
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

/// What a [`Policy`] can be put around: a service that answers the operation, and [`Describe`]. Implemented for all that does.
///
/// It has a name for the compiler's sake. With its parts spelled out, each layer would ask for the response, the error and the future of
/// the layer within, several times each, and these again; the work would grow by a factor with each layer.
pub trait Inner<Op: Operation>:
    Service<Op, Response = Op::Response, Future: Send + 'static, Error: Send + 'static>
    + Service<Describe, Response = Description, Future: Send + 'static, Error: Into<BoxError>>
    + Clone
    + Send
    + 'static
{
}

impl<Op, S> Inner<Op> for S
where
    Op: Operation,
    S: Service<Op, Response = Op::Response, Future: Send + 'static, Error: Send + 'static>
        + Service<Describe, Response = Description, Future: Send + 'static, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
{
}

impl<S, P, Op> Service<Op> for Policed<S, P>
where
    Op: Operation,
    P: Policy,
    S: Inner<Op>,
{
    type Response = Op::Response;
    type Error = <S as Service<Op>>::Error;
    type Future = ResponseFuture<<S as Service<Op>>::Future, Op, P, Self::Error>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let ready = <S as Service<Op>>::poll_ready(&mut self.inner, cx);
        if !self.shared.may_wait() {
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
        let ready = std::mem::take(&mut self.ready) || !self.shared.may_wait();
        let step = match request.view() {
            View::Describe(describe) => {
                self.note(describe);
                Some(Step::Pass)
            }
            _ => self.shared.before(&mut request),
        };
        match step {
            Some(Step::Pass) if ready => ResponseFuture::called(self.inner.call(request), Guard::empty()),
            Some(Step::Continue(state)) if ready => {
                let guard = Guard::new(self.hold(), state);
                let entered = guard.span().map(Span::enter);
                let future = self.inner.call(request);
                drop(entered);
                ResponseFuture::called(future, guard)
            }
            Some(Step::Refuse(refusal)) => ResponseFuture::ready(Op::refuse(refusal)),
            Some(Step::Finish(state, answer)) => self.finish(state, *answer),
            Some(Step::Answer(answer)) => ResponseFuture::ready(answer_of::<Op>(self.shared.policy.note(), *answer)),
            step => match <S as Waits<Op, P>>::WAIT {
                Some(wait) => wait(self, request, step),
                None => ResponseFuture::ready(Op::refuse(undecided())),
            },
        }
    }
}

/// How a service waits, where its policy may: a constant, since the compiler then leaves out what it takes for those that never do.
trait Waits<Op: Operation, P: Policy>: Inner<Op> {
    const WAIT: Option<Wait<Self, P, Op>> = if Shared::<P>::MAY_WAIT { Some(Policed::wait) } else { None };
}

impl<S: Inner<Op>, P: Policy, Op: Operation> Waits<Op, P> for S {}

type Wait<S, P, Op> = fn(&mut Policed<S, P>, Op, Option<Step<<P as Policy>::State>>) -> Responding<S, P, Op>;
type Responding<S, P, Op> = ResponseFuture<<S as Service<Op>>::Future, Op, P, <S as Service<Op>>::Error>;

impl<S, P: Policy> Policed<S, P> {
    /// Leaves the policy's note.
    #[cold]
    fn note(&self, describe: &mut Describe) {
        if let Some(note) = self.shared.policy.note() {
            let note = if self.shared.policy.waits() { note.duty(Duty::Waits) } else { note };
            describe.note::<Self, S>(note.ready_at_once(self.shared.may_wait()));
        }
    }
}

impl<S, P> Policed<S, P> {
    /// What the future of a request holds. The first request holds what all instances share. An instance that is called again is one that
    /// a connection or a worker keeps; it gets a copy of its own, so that threads do not contend for one count of references.
    #[inline]
    fn hold(&mut self) -> &Arc<Shared<P>> {
        if !matches!(self.held, Held::Own) {
            self.hold_more();
        }
        &self.shared
    }

    /// Answers here, and lets the policy do its second half.
    #[cold]
    fn finish<F, Op, E>(&mut self, state: P::State, answer: Answer) -> ResponseFuture<F, Op, P, E>
    where
        Op: Operation,
        P: Policy,
        E: Send + 'static,
    {
        let mut response = answer_of::<Op>(self.shared.policy.note(), answer);
        let mut guard = Guard::new(self.hold(), state);
        if guard.settles() {
            return ResponseFuture::waiting(guard.settle::<Op, E>(response));
        }
        guard.reply::<Op>(&mut response);
        ResponseFuture::ready(response)
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

    /// Waits: for the catalog at the first request (nothing is decided then), for the policy where it asks to, for what is within.
    #[cold]
    fn wait<Op>(&mut self, request: Op, mut step: Option<Step<P::State>>) -> Responding<S, P, Op>
    where
        Op: Operation,
        P: Policy,
        S: Inner<Op>,
    {
        let fresh = self.inner.clone();
        let polled = std::mem::replace(&mut self.inner, fresh);
        let inner = match step {
            // The instance that stands in the queue of a limit, as tower's contract has it, is moved into the future.
            Some(Step::Pass | Step::Continue(_)) => polled,
            // The instance that was polled may hold a permit. It is given back before the wait; a fresh one is driven to ready after it.
            _ => self.inner.clone(),
        };
        let shared = Arc::clone(&self.shared);
        // What goes on already ends, and what is still to be seen is seen, whether or not the future is ever polled.
        let mut begun = None;
        step = match step {
            Some(Step::Continue(state)) => {
                begun = Some(Guard::new(&shared, state));
                Some(Step::Pass)
            }
            step => step,
        };
        let mut unseen = Unseen::new(&shared, request, step.is_none());
        ResponseFuture::waiting(async move {
            if Shared::<P>::LOOKS && step.is_none() {
                let mut describe = Describe::new();
                // What bounds the request bounds the question too.
                if let Some(deadline) = unseen.request().and_then(|request| request.context().deadline()) {
                    describe.context.shorten_deadline(deadline);
                }
                let catalog = catalog(Box::pin(inner.clone().oneshot(describe))).await;
                step = match (catalog, unseen.request_mut()) {
                    (Ok(catalog), Some(request)) => {
                        shared.learn(catalog);
                        shared.before(request)
                    }
                    (Err(_), Some(request)) if !P::TOOL => Some(shared.before_blind(request)),
                    (Err(refusal), _) => return Ok(Op::refuse(refusal)),
                    (Ok(_), None) => None,
                };
            }
            let Some(mut request) = unseen.seen() else { return Ok(Op::refuse(undecided())) };
            if P::WAITS && matches!(step, Some(Step::Wait)) {
                step = Some(shared.wait(request.view()).await);
            }
            let guard = match step {
                Some(Step::Pass) => begun.unwrap_or_else(Guard::empty),
                Some(Step::Continue(state)) => Guard::new(&shared, state),
                Some(Step::Refuse(refusal)) => return Ok(Op::refuse(refusal)),
                Some(Step::Answer(answer)) => return Ok(answer_of::<Op>(shared.policy.note(), *answer)),
                Some(Step::Finish(state, answer)) => {
                    let answer = answer_of::<Op>(shared.policy.note(), *answer);
                    return Guard::new(&shared, state).end::<Op, _>(Ok(answer)).await;
                }
                Some(Step::Wait) | None => return Ok(Op::refuse(undecided())),
            };
            drop(shared);
            let result = match guard.span().cloned() {
                Some(span) => inner.oneshot(request).instrument(span).await,
                None => inner.oneshot(request).await,
            };
            guard.end::<Op, _>(result).await
        })
    }
}

fn undecided() -> Refusal {
    Refusal::internal("a policy waited and did not decide")
}

/// The response that a policy gives in the place of what is within, marked as such.
fn answer_of<Op: Operation>(note: Option<Note>, mut answer: Answer) -> Op::Response {
    if let (Answer::Call(response), Some(note)) = (&mut answer, note) {
        response.serve_by(note.name().to_owned());
    }
    Op::answer(answer)
}

/// Which tools there are, as the service within describes it.
async fn catalog<E: Into<BoxError>>(described: Described<E>) -> Result<Catalog, Refusal> {
    let description = described.await.map_err(|error| refusal_of(error.into(), None))?;
    match (description.catalog(), description.refusal()) {
        (Some(catalog), _) => Ok(catalog.clone()),
        (None, Some(refusal)) => Err(refusal.clone()),
        (None, None) => Err(Refusal::internal("the service within answered a description without its catalog")),
    }
}

type Described<E> = BoxFuture<'static, Result<Description, E>>;
