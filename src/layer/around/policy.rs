use futures_util::future::BoxFuture;
use tracing::Span;

use crate::{
    describe::Note,
    error::{Refusal, RefusalKind},
    model::Outcome,
    operation::{Answer, Reply, View},
    router::Catalog,
    tool::ToolEntry,
};

/// What a layer decides before a request and does after it. See the [module](super).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a policy for a layer",
    note = "implement `Policy`, or make a layer from a closure with `gate`, `gate_async` or `after`"
)]
pub trait Policy: Send + Sync + 'static {
    /// What one request carries from `before` to `after`; `()` for nothing.
    type State: Send + 'static;

    /// Whether the policy wants to be shown the tool that a call names, and the catalog.
    ///
    /// The first request asks the service within for its catalog; from then on tools are looked up.
    const TOOL: bool = false;

    /// Whether the policy wants to be shown the tool, as with [`TOOL`](Self::TOOL), and decides nothing by it.
    ///
    /// A tool that was looked at to decide about a call is the only one that the call may run from then on. One that was looked at to
    /// count the call is not. Where the catalog cannot be had, the request goes on without.
    const OBSERVES: bool = false;

    /// Whether `before` may answer [`Step::Wait`]. If it does without having said so, the request is refused: what it takes to wait is
    /// not compiled then.
    const WAITS: bool = false;

    /// Whether this one may wait, as it is set: for [`lint`](crate::StackExt::lint), and no more.
    fn waits(&self) -> bool {
        Self::WAITS
    }

    /// Whether this one, as it is set, wants to be shown the tool. Asked only where [`TOOL`](Self::TOOL) or
    /// [`OBSERVES`](Self::OBSERVES) says that it may. Without, a call costs no look-up, and is held to no tool.
    fn looks(&self) -> bool {
        true
    }

    /// Whether this one is switched off: the service within is as it would be without the layer, in its readiness too.
    fn is_off(&self) -> bool {
        false
    }

    /// What the layer says of itself; `None` for a layer that is a part of another.
    fn note(&self) -> Option<Note>;

    /// Decides about a request, and may change it. A [description](crate::describe) of the stack passes without being shown.
    ///
    /// # Panics
    ///
    /// A panic here is the request's: the tool does not run.
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Self::State>;

    /// Decides after a wait, in the place of a `before` that answered [`Step::Wait`]. A second `Wait` is a refusal.
    ///
    /// The future may be dropped at any of its awaits; nothing has run then, and `after` is not called.
    fn wait<'a>(&'a self, request: View<'a>, site: Site<'a>) -> BoxFuture<'a, Step<Self::State>> {
        let _ = (request, site);
        Box::pin(std::future::ready(Step::Wait))
    }

    /// The span that everything within happens in: it is entered for the call, for each poll, and for the drop of what is within.
    fn span<'a>(&'a self, state: &'a Self::State) -> Option<&'a Span> {
        let _ = state;
        None
    }

    /// Whether [`settle`](Self::settle) has something to do for a request that was answered.
    fn settles(&self, state: &Self::State) -> bool {
        let _ = state;
        false
    }

    /// Acts on a response and takes the time it needs, before `after` hears of it and the caller gets it.
    ///
    /// The future may be dropped at any of its awaits; `after` then hears that the request was dropped.
    fn settle<'a>(&'a self, state: &'a mut Self::State, reply: Reply<'a>) -> BoxFuture<'a, ()> {
        let _ = (state, reply);
        Box::pin(std::future::ready(()))
    }

    /// Acts on the end of a request that went inward with [`Step::Continue`] or ended with [`Step::Finish`], and may change its response.
    /// Called exactly once for each, also when the future is dropped; it must not panic.
    fn after(&self, state: Self::State, ending: Ending<'_>) {
        let _ = (state, ending);
    }
}

/// What there is at the place where a layer stands; shown to a policy that [asks for it](Policy::TOOL).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Site<'a> {
    /// The tool that a call names; `None` if there is no such tool, and for other operations.
    pub tool: Option<&'a ToolEntry>,
    /// All tools within, whoever may call them.
    pub catalog: Option<&'a Catalog>,
}

/// What happens to a request next.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<T = ()> {
    /// It goes on inward, and [`after`](Policy::after) hears how it ended.
    Continue(T),
    /// It goes on inward, and that is all.
    Pass,
    /// It is refused.
    Refuse(Refusal),
    /// It is answered here. The result is marked as [served by](crate::model::ToolResult::served_by) this layer.
    Answer(Box<Answer>),
    /// It is answered here, as by [`Answer`](Self::Answer), and [`settle`](Policy::settle) and [`after`](Policy::after) hear of it as they
    /// would of a response from within.
    Finish(T, Box<Answer>),
    /// [`Policy::wait`] decides.
    Wait,
}

impl<T> Step<T> {
    /// Refuses.
    #[must_use]
    pub const fn refuse(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }

    /// Answers in the place of the service within.
    pub fn answer(answer: impl Into<Answer>) -> Self {
        Self::Answer(Box::new(answer.into()))
    }

    /// Answers in the place of the service within, and goes through the second half of the policy.
    pub fn finish(state: T, answer: impl Into<Answer>) -> Self {
        Self::Finish(state, Box::new(answer.into()))
    }
}

impl<T> From<Result<(), Refusal>> for Step<T> {
    fn from(result: Result<(), Refusal>) -> Self {
        result.map_or_else(Self::Refuse, |()| Self::Pass)
    }
}

/// How a request ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ending<'a> {
    /// The caller dropped it.
    Dropped,
    /// The service within failed; this is the kind of refusal that the error amounts to. The error itself passes on as it is.
    Failed(RefusalKind),
    /// It panicked, and the panic passes on.
    Panicked,
    /// It was answered.
    Reply(Reply<'a>),
}

impl Ending<'_> {
    /// The outcome, for whoever counts. A list or a description that was given is completed.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        let refusal = match self {
            Self::Dropped => return Outcome::Cancelled,
            Self::Failed(kind) => return (*kind).into(),
            Self::Panicked => return Outcome::Refused(RefusalKind::Internal),
            Self::Reply(Reply::Call(response)) => return response.outcome(),
            Self::Reply(Reply::List(list)) => list.refusal(),
            Self::Reply(Reply::Describe(description)) => description.refusal(),
        };
        refusal.map_or(Outcome::Completed, |refusal| refusal.kind().into())
    }
}
