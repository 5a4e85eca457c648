use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    error::{Refusal, RefusalKind},
    operation::{Operation, View},
};

/// What stands directly within a layer that can be swapped: it knows which layer it was reached through.
#[derive(Clone)]
pub struct Entered<S> {
    inner: S,
    gate: Option<Gate>,
}

/// Stops what a layer let through that has been swapped since.
#[derive(Clone)]
pub(super) struct Gate {
    /// Which layer this stands within.
    pub(super) serial: u64,
    /// Which one is there at the moment.
    pub(super) current: Arc<AtomicU64>,
    /// Which of several swapped layers, one within another.
    pub(super) slot: u64,
}

/// How a request that was stopped says so to where it started: by slot, since one swapped layer may stand within another.
#[derive(Clone, Default)]
pub(super) struct Passages(Vec<(u64, Arc<AtomicBool>)>);

impl Passages {
    /// Has a request tell `stopped` if it is stopped within `slot`.
    pub(super) fn open<Op: Operation>(request: &mut Op, slot: u64, stopped: &Arc<AtomicBool>) {
        let extensions = request.context_mut().extensions_mut();
        let mut passages = extensions.remove::<Self>().unwrap_or_default();
        passages.0.retain(|(other, _)| *other != slot);
        passages.0.push((slot, Arc::clone(stopped)));
        extensions.insert(passages);
    }
}

impl<S> Entered<S> {
    crate::macros::accessors!();

    pub(super) const fn new(inner: S, gate: Option<Gate>) -> Self {
        Self { inner, gate }
    }

    fn stop<Op: Operation>(&self, request: &mut Op) -> Option<Op::Response> {
        let gate = self.gate.as_ref().filter(|gate| gate.current.load(Ordering::Acquire) != gate.serial)?;
        if matches!(request.view(), View::Describe(_)) {
            return None;
        }
        if let Some(passages) = request.context().extensions().get::<Passages>() {
            for (_, stopped) in passages.0.iter().filter(|(slot, _)| *slot == gate.slot) {
                stopped.store(true, Ordering::Release);
            }
        }
        // Seen by the old layer, and by the caller only if that layer took the context away.
        let message = "The rules for this call changed while it waited; call again.";
        Some(Op::refuse(Refusal::new(RefusalKind::Overloaded, message).with_by("reload")))
    }
}

impl<S, Op> Service<Op> for Entered<S>
where
    Op: Operation,
    S: Service<Op, Response = Op::Response>,
{
    type Response = Op::Response;
    type Error = S::Error;
    type Future = EnteredFuture<S::Future, Op::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Op) -> Self::Future {
        match self.stop(&mut request) {
            Some(response) => EnteredFuture { state: State::Stopped { response: Some(response) } },
            None => EnteredFuture { state: State::Called { future: self.inner.call(request) } },
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Entered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entered").field(&self.inner).finish()
    }
}

pin_project! {
    /// The response of [`Entered`].
    #[must_use = "futures do nothing unless polled"]
    pub struct EnteredFuture<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Called { #[pin] future: F },
        Stopped { response: Option<R> },
    }
}

impl<F, R, E> Future for EnteredFuture<F, R>
where
    F: Future<Output = Result<R, E>>,
{
    type Output = Result<R, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Called { future } => future.poll(cx),
            StateProj::Stopped { response } => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
        }
    }
}

impl<F, R> fmt::Debug for EnteredFuture<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnteredFuture").finish_non_exhaustive()
    }
}
