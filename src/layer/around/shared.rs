use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use tracing::Span;

use super::{Ending, Policy, Site, Step};
use crate::{
    error::refusal_of_any,
    operation::{Operation, View},
    router::Catalog,
};

/// What the clones of one service share.
pub(super) struct Shared<P> {
    pub(super) policy: Arc<P>,
    catalog: OnceLock<Catalog>,
}

impl<P> Clone for Shared<P> {
    fn clone(&self) -> Self {
        Self { policy: Arc::clone(&self.policy), catalog: self.catalog.clone() }
    }
}

impl<P> Shared<P> {
    pub(super) const fn new(policy: Arc<P>) -> Self {
        Self { policy, catalog: OnceLock::new() }
    }

    /// Keeps the catalog. Several first requests at once learn the same.
    pub(super) fn learn(&self, catalog: Catalog) {
        let _ = self.catalog.set(catalog);
    }
}

impl<P: Policy> Shared<P> {
    pub(super) const LOOKS: bool = P::TOOL || P::OBSERVES;
    pub(super) const MAY_WAIT: bool = P::WAITS || Self::LOOKS;

    /// Whether the layer is ready whatever is within.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        Self::MAY_WAIT && !self.policy.is_off()
    }

    /// Runs `before`, with the tool where the policy wants it; `None` while the catalog is not known.
    #[inline]
    pub(super) fn before<Op: Operation>(&self, request: &mut Op) -> Option<Step<P::State>> {
        if !Self::LOOKS || self.policy.is_off() {
            return Some(self.policy.before(request.view(), Site::default()));
        }
        let catalog = self.catalog.get()?;
        let View::Call(call) = request.view() else {
            return Some(self.policy.before(request.view(), Site { tool: None, catalog: Some(catalog) }));
        };
        if !self.policy.looks() {
            return Some(self.policy.before(View::Call(call), Site { tool: None, catalog: Some(catalog) }));
        }
        let snapshot = catalog.snapshot();
        let tool = snapshot.get(call.name());
        if P::TOOL
            && let Some(tool) = tool
        {
            call.set_judged(tool.serial());
        }
        Some(self.policy.before(View::Call(call), Site { tool, catalog: Some(catalog) }))
    }

    /// Runs `before` for a policy that only looks, where there is nothing to look at.
    pub(super) fn before_blind<Op: Operation>(&self, request: &mut Op) -> Step<P::State> {
        self.policy.before(request.view(), Site::default())
    }

    /// Runs `wait`, with the tool where the policy wants it.
    pub(super) async fn wait(&self, mut request: View<'_>) -> Step<P::State> {
        let catalog = self.catalog.get();
        let tool = match &mut request {
            View::Call(call) if self.policy.looks() => {
                let tool = catalog.and_then(|catalog| catalog.get(call.name()));
                // It may be there only since `before`, and be another one by the time that the wait is over.
                if P::TOOL
                    && let Some(tool) = &tool
                {
                    call.set_judged(tool.serial());
                }
                tool
            }
            _ => None,
        };
        self.policy.wait(request, Site { tool: tool.as_deref(), catalog }).await
    }
}

/// Sees to it that a request that went inward ends exactly once. Empty where nobody waits for its end.
pub(super) struct Guard<P: Policy>(Option<(Arc<Shared<P>>, P::State)>);

impl<P: Policy> Guard<P> {
    #[inline]
    pub(super) fn new(shared: &Arc<Shared<P>>, state: P::State) -> Self {
        Self(Some((Arc::clone(shared), state)))
    }

    #[inline]
    pub(super) const fn empty() -> Self {
        Self(None)
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The guard, where an empty one stays behind.
    pub(super) const fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Whether the policy takes its time over a response.
    #[inline]
    pub(super) fn settles(&self) -> bool {
        self.0.as_ref().is_some_and(|(shared, state)| shared.policy.settles(state))
    }

    /// The span that what is within happens in.
    #[inline]
    pub(super) fn span(&self) -> Option<&Span> {
        self.0.as_ref().and_then(|(shared, state)| shared.policy.span(state))
    }

    /// Hears how the request ended, and gives the policy its time where it wants some.
    pub(super) async fn end<Op: Operation, E: 'static>(mut self, mut result: Result<Op::Response, E>) -> Result<Op::Response, E> {
        match result {
            Ok(response) if self.settles() => self.settle::<Op, E>(response).await,
            _ => {
                self.finish::<Op, E>(&mut result);
                result
            }
        }
    }

    /// Lets the policy take its time over a response, and finishes.
    pub(super) async fn settle<Op: Operation, E: 'static>(mut self, mut response: Op::Response) -> Result<Op::Response, E> {
        if let Some((shared, state)) = &mut self.0 {
            shared.policy.settle(state, Op::reply(&mut response)).await;
        }
        let mut result = Ok(response);
        self.finish::<Op, E>(&mut result);
        result
    }

    #[inline]
    pub(super) fn finish<Op: Operation, E: 'static>(&mut self, result: &mut Result<Op::Response, E>) {
        if let Some((shared, state)) = self.0.take() {
            let ending = match result {
                Ok(response) => Ending::Reply(Op::reply(response)),
                Err(error) => Ending::Failed(refusal_of_any(error)),
            };
            shared.policy.after(state, ending);
        }
    }

    /// Finishes with a response that the policy gave itself.
    pub(super) fn reply<Op: Operation>(&mut self, response: &mut Op::Response) {
        if let Some((shared, state)) = self.0.take() {
            shared.policy.after(state, Ending::Reply(Op::reply(response)));
        }
    }
}

impl<P: Policy> Drop for Guard<P> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_empty() {
            self.unanswered();
        }
    }
}

impl<P: Policy> Guard<P> {
    #[cold]
    fn unanswered(&mut self) {
        let Some((shared, state)) = self.0.take() else { return };
        let ending = if std::thread::panicking() { Ending::Panicked } else { Ending::Dropped };
        // A panic while another one passes would end the process.
        if catch_unwind(AssertUnwindSafe(|| shared.policy.after(state, ending))).is_err() {
            tracing::error!("a policy panicked over a request that had come to no answer");
        }
    }
}

/// A request on its way to `before`. A policy that observes sees it all the same if it ends before it gets there.
pub(super) struct Unseen<P: Policy, Op: Operation> {
    shared: Arc<Shared<P>>,
    request: Option<Op>,
    new: bool,
}

impl<P: Policy, Op: Operation> Unseen<P, Op> {
    /// `new`, if `before` has not run.
    pub(super) fn new(shared: &Arc<Shared<P>>, request: Op, new: bool) -> Self {
        Self { shared: Arc::clone(shared), request: Some(request), new }
    }

    pub(super) const fn request(&self) -> Option<&Op> {
        self.request.as_ref()
    }

    pub(super) const fn request_mut(&mut self) -> Option<&mut Op> {
        self.request.as_mut()
    }

    /// The request, which `before` has seen.
    pub(super) const fn seen(&mut self) -> Option<Op> {
        self.request.take()
    }
}

impl<P: Policy, Op: Operation> Drop for Unseen<P, Op> {
    fn drop(&mut self) {
        if !self.new || !P::OBSERVES || P::TOOL {
            return;
        }
        if let Some(mut request) = self.request.take()
            && let Ok(Step::Continue(state)) = catch_unwind(AssertUnwindSafe(|| self.shared.before_blind(&mut request)))
        {
            drop(Guard::new(&self.shared, state));
        }
    }
}
