use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;
use tower_service::Service;

use super::lock;
use crate::{
    describe::Note,
    operation::{Operation, View},
    router::Router,
};

/// The innermost service of a test of a layer: a router that is called by the letter of tower's contract or says so.
///
/// Every instance, each clone too, has to be polled to ready before each of its calls. With a [capacity](Self::with_capacity) it has
/// permits as tower's `ConcurrencyLimit` does. It [behaves](Behaviour) as the test wants, and keeps a [tally](Self::tally).
///
/// Clones share the behaviour, the capacity and the tally.
pub struct Strict {
    shared: Arc<Shared>,
    permits: Option<PollSemaphore>,
    permit: Option<tokio::sync::OwnedSemaphorePermit>,
    ready: bool,
}

struct Shared {
    router: Mutex<Router>,
    behaviour: Mutex<Behaviour>,
    tally: Mutex<Tally>,
}

/// What a [`Strict`] does with calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Behaviour {
    /// Answers as its router does.
    #[default]
    Answer,
    /// Fails with a [`StrictError`].
    Fail,
    /// Never answers.
    Hang,
    /// Never becomes ready.
    NeverReady,
    /// Panics in `call`.
    PanicInCall,
    /// Panics in the future.
    PanicInFuture,
    /// Fails when polled for readiness.
    ReadinessFails,
    /// Gives way this many times, then answers as its router does.
    Yield(usize),
}

/// What a [`Strict`] has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Calls, lists and descriptions that arrived.
    pub calls: usize,
    /// Futures that are neither over nor dropped.
    pub in_flight: usize,
    /// The most of them at one time.
    pub peak: usize,
    /// Futures that were dropped before they were over.
    pub dropped: usize,
    /// Calls of an instance that was not ready.
    pub violations: usize,
}

/// The error of a [`Strict`], to be found again by its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the strict service fails, as it was told to")]
#[non_exhaustive]
pub struct StrictError;

impl Strict {
    /// A strict service around this router, without a bound.
    #[must_use]
    pub fn new(router: Router) -> Self {
        let shared = Shared { router: Mutex::new(router), behaviour: Mutex::default(), tally: Mutex::default() };
        Self { shared: Arc::new(shared), permits: None, permit: None, ready: false }
    }

    /// A strict service around this router that runs this many calls at once.
    #[must_use]
    pub fn with_capacity(router: Router, capacity: usize) -> Self {
        Self { permits: Some(PollSemaphore::new(Arc::new(Semaphore::new(capacity)))), ..Self::new(router) }
    }

    /// Behaves like this from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    /// What it has seen.
    #[must_use]
    pub fn tally(&self) -> Tally {
        lock(&self.shared.tally).clone()
    }

    /// How many permits are free; `None` without a capacity.
    #[must_use]
    pub fn free(&self) -> Option<usize> {
        self.permits.as_ref().map(PollSemaphore::available_permits)
    }

    fn behaviour(&self) -> Behaviour {
        *lock(&self.shared.behaviour)
    }
}

impl Clone for Strict {
    /// A clone is not ready, and holds no permit.
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), permits: self.permits.clone(), permit: None, ready: false }
    }
}

impl fmt::Debug for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strict").field("ready", &self.ready).field("tally", &self.tally()).finish_non_exhaustive()
    }
}

impl<Op> Service<Op> for Strict
where
    Op: Operation,
    Router: Service<Op, Response = Op::Response, Error = std::convert::Infallible>,
    <Router as Service<Op>>::Future: Send + 'static,
{
    type Response = Op::Response;
    type Error = StrictError;
    type Future = StrictFuture<Op::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StrictError>> {
        match self.behaviour() {
            Behaviour::NeverReady => return Poll::Pending,
            Behaviour::ReadinessFails => return Poll::Ready(Err(StrictError)),
            _ => {}
        }
        if let (Some(permits), None) = (&mut self.permits, &self.permit) {
            match permits.poll_acquire(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(permit) => self.permit = permit,
            }
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Op) -> Self::Future {
        let ready = std::mem::take(&mut self.ready);
        let permit = self.permit.take();
        {
            let mut tally = lock(&self.shared.tally);
            tally.calls += 1;
            tally.violations += usize::from(!ready);
            tally.in_flight += 1;
            tally.peak = tally.peak.max(tally.in_flight);
        }
        if let View::Describe(describe) = request.view() {
            // Hides its router from the types, and ends the chain of layers as that would.
            describe.note::<Self, Router>(Note::new(""));
        }
        let in_flight = InFlight { shared: Arc::clone(&self.shared), over: false };
        // Only calls misbehave: layers need the description to work at all.
        let behaviour = if matches!(request.view(), View::Call(_)) { self.behaviour() } else { Behaviour::Answer };
        assert!(behaviour != Behaviour::PanicInCall, "the strict service panics in `call`, as it was told to");
        let answer = lock(&self.shared.router).call(request);
        StrictFuture(Box::pin(async move {
            let (mut in_flight, _permit) = (in_flight, permit);
            let result = match behaviour {
                Behaviour::Fail => Err(StrictError),
                Behaviour::Hang => std::future::pending().await,
                Behaviour::PanicInFuture => panic!("the strict service panics in its future, as it was told to"),
                _ => {
                    if let Behaviour::Yield(times) = behaviour {
                        for _ in 0..times {
                            tokio::task::yield_now().await;
                        }
                    }
                    answer.await.map_err(|never| match never {})
                }
            };
            in_flight.over = true;
            result
        }))
    }
}

struct InFlight {
    shared: Arc<Shared>,
    over: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut tally = lock(&self.shared.tally);
        tally.in_flight -= 1;
        tally.dropped += usize::from(!self.over);
    }
}

/// The response of a [`Strict`].
#[must_use = "futures do nothing unless polled"]
pub struct StrictFuture<R>(Pin<Box<dyn Future<Output = Result<R, StrictError>> + Send>>);

impl<R> Future for StrictFuture<R> {
    type Output = Result<R, StrictError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R> fmt::Debug for StrictFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrictFuture").finish_non_exhaustive()
    }
}
