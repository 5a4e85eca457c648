use futures_util::future::BoxFuture;
use tracing::Span;

use super::{Ending, Policy, Site, Step};
use crate::{
    describe::Note,
    operation::{Reply, View},
};

/// A policy that may be left out, in a stack whose type is the same either way. `None` is in no description and costs a comparison.
impl<P: Policy> Policy for Option<P> {
    type State = P::State;

    const TOOL: bool = P::TOOL;
    const OBSERVES: bool = P::OBSERVES;
    const WAITS: bool = P::WAITS;

    fn waits(&self) -> bool {
        self.as_ref().is_some_and(P::waits)
    }

    #[inline]
    fn looks(&self) -> bool {
        self.as_ref().is_some_and(P::looks)
    }

    #[inline]
    fn is_off(&self) -> bool {
        self.as_ref().is_none_or(P::is_off)
    }

    fn note(&self) -> Option<Note> {
        self.as_ref().and_then(P::note)
    }

    #[inline]
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<P::State> {
        self.as_ref().map_or(Step::Pass, |policy| policy.before(request, site))
    }

    fn wait<'a>(&'a self, request: View<'a>, site: Site<'a>) -> BoxFuture<'a, Step<P::State>> {
        match self {
            Some(policy) => policy.wait(request, site),
            None => Box::pin(std::future::ready(Step::Pass)),
        }
    }

    #[inline]
    fn span<'a>(&'a self, state: &'a P::State) -> Option<&'a Span> {
        self.as_ref().and_then(|policy| policy.span(state))
    }

    #[inline]
    fn settles(&self, state: &P::State) -> bool {
        self.as_ref().is_some_and(|policy| policy.settles(state))
    }

    fn settle<'a>(&'a self, state: &'a mut P::State, reply: Reply<'a>) -> BoxFuture<'a, ()> {
        match self {
            Some(policy) => policy.settle(state, reply),
            None => Box::pin(std::future::ready(())),
        }
    }

    #[inline]
    fn after(&self, state: P::State, ending: Ending<'_>) {
        if let Some(policy) = self {
            policy.after(state, ending);
        }
    }
}
