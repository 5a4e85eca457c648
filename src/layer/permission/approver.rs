use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::{ArgumentRule, Explanation};
use crate::{
    error::BoxError,
    model::{Arguments, ToolCall, ToolResponse},
    tool::ToolEntry,
};

/// Asks somebody whether a call may run.
///
/// Any `Fn(ApprovalRequest) -> impl Future<Output = Result<Approval, ApproverError>>` is one. While it waits, nothing is held; the future
/// is dropped when the call is, or when it is too late.
///
/// What it cannot answer is an [`ApproverError`], and never a [`deny`](Approval::deny): that is a person's no, and the model is told so. One
/// that decides without a person answers [`answered`](Approval::answered) with a refusal of its own, such as
/// `Refusal::new(RefusalKind::Denied, "It is outside office hours.").with_by("office_hours")`.
pub trait Approver: Send + Sync + 'static {
    /// Asks.
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Approval, ApproverError>>;
}

impl<F, Fut> Approver for F
where
    F: Fn(ApprovalRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Approval, ApproverError>> + Send + 'static,
{
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Approval, ApproverError>> {
        Box::pin(self(request))
    }
}

/// What an [`Approver`] is asked.
///
/// `Debug` shows no arguments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The call. Its `arguments` are the text that they came as ([`as_json`](crate::model::Arguments::as_json)), or a view of it
    /// ([`value`](crate::model::Arguments::value)). A model may have written them: show all of them, without giving a terminal or a page anything to act on, and
    /// answer [`TooLong`](ApproverError::TooLong) rather than ask about what is not shown.
    pub call: ToolCall,
    /// The tool.
    pub tool: Arc<ToolEntry>,
    /// Why somebody is asked.
    pub explanation: Explanation,
    /// Whether the answer may be remembered.
    pub may_remember: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApproverError {
    /// Nobody is there to be asked.
    #[error("nobody is there to be asked")]
    Absent,
    /// Somebody was asked and did not decide.
    #[error("the question was put aside without an answer")]
    Dismissed,
    /// Somebody was asked and did not answer in time.
    #[error("nobody answered in time")]
    TimedOut,
    /// The arguments are longer than what a person is shown. A question that is cut is not asked: nobody could say what the answer is
    /// to.
    #[error("the arguments take more than the {most} characters that a person is shown")]
    #[non_exhaustive]
    TooLong {
        /// How many characters are shown.
        most: usize,
    },
    /// The arguments are no JSON that a person could be shown.
    #[error("the arguments are no JSON that a person could be shown")]
    Unreadable,
    /// Asking failed.
    #[error("asking failed")]
    Failed(#[source] BoxError),
}

impl ApproverError {
    /// Asking failed.
    pub fn failed(source: impl Into<BoxError>) -> Self {
        Self::Failed(source.into())
    }
}

/// An answer, with its reason.
///
/// ```
/// use std::time::Duration;
/// use toolstack::layer::permission::{Approval, Scope};
///
/// let once = Approval::once();
/// let hour = Approval::allow_for(Scope::Tool, Duration::from_secs(3600)).because("I am watching");
/// let no = Approval::deny().because("not before the release");
/// # let _ = (once, hour, no);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Approval {
    /// What was decided.
    pub decision: Decision,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Decision {
    /// This call runs.
    AllowOnce,
    /// This call runs, and so do others like it.
    Allow(Remember),
    /// This call does not run.
    Deny,
    /// This call does not run, and neither do others like it.
    DenyAll(Remember),
    /// The call runs with these arguments. The rules judge them again. They may not change an argument that a
    /// [`PinLayer`](crate::layer::PinLayer) or a [`SessionLayer`](crate::layer::SessionLayer) further out has settled, and are checked
    /// against the tool's schema only by a [`ValidateLayer`](crate::layer::ValidateLayer) further in.
    Edit(Arguments),
    /// The tool does not run; this is the answer in its place.
    Answer(Box<ToolResponse>),
}

/// For which calls an answer is remembered, and how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Remember {
    /// Which calls.
    pub scope: Scope,
    /// How long, in seconds.
    pub seconds: u64,
}

/// Which calls an answer is for. They are of the same principal and the same tool, as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Scope {
    /// Those with the same arguments.
    Call,
    /// Those for whose arguments all of these hold.
    Arguments(Vec<ArgumentRule>),
    /// All.
    Tool,
}

impl Approval {
    const fn of(decision: Decision) -> Self {
        Self { decision, reason: None }
    }

    /// This call runs.
    #[must_use]
    pub const fn once() -> Self {
        Self::of(Decision::AllowOnce)
    }

    /// This call runs, and so do those of this scope for so long.
    #[must_use]
    pub const fn allow_for(scope: Scope, time: Duration) -> Self {
        Self::of(Decision::Allow(Remember { scope, seconds: time.as_secs() }))
    }

    /// This call does not run.
    #[must_use]
    pub const fn deny() -> Self {
        Self::of(Decision::Deny)
    }

    /// This call does not run, and neither do those of this scope for so long.
    #[must_use]
    pub const fn deny_for(scope: Scope, time: Duration) -> Self {
        Self::of(Decision::DenyAll(Remember { scope, seconds: time.as_secs() }))
    }

    /// The call runs with these arguments, if the rules do not deny them; see [`Decision::Edit`].
    #[must_use]
    pub fn edited(arguments: impl Into<Arguments>) -> Self {
        Self::of(Decision::Edit(arguments.into()))
    }

    /// The tool does not run; this is the answer in its place.
    #[must_use]
    pub fn answered(response: impl Into<ToolResponse>) -> Self {
        Self::of(Decision::Answer(Box::new(response.into())))
    }

    /// Says why.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl fmt::Debug for dyn Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approver")
    }
}
