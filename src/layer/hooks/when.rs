use std::fmt;

use super::hook::Hook;
use crate::{error::RefusalKind, model::Outcome, tool::ToolEntry};

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Event {
    /// Before anything else, for every operation.
    BeforeRequest,
    /// After a list, and before a call of one of its tools.
    AfterList,
    /// Before the tool runs.
    Before,
    /// After the tool ran.
    After,
    /// The call did what was asked.
    OnSuccess,
    /// The call failed.
    OnError,
    /// The call was not allowed.
    OnDenied,
    /// The call is over.
    OnFinish,
}

impl Event {
    /// A word for labels and records, such as `before_call`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeRequest => "before_request",
            Self::AfterList => "after_list",
            Self::Before => "before_call",
            Self::After => "after_call",
            Self::OnSuccess => "on_success",
            Self::OnError => "on_error",
            Self::OnDenied => "on_denied",
            Self::OnFinish => "on_finish",
        }
    }

    /// The event of an observer that hears of this end beside `OnFinish`.
    pub(super) const fn of(outcome: Outcome, halted: bool) -> Option<Self> {
        match outcome {
            Outcome::Completed => Some(Self::OnSuccess),
            Outcome::InputRequired | Outcome::Task => None,
            Outcome::Refused(kind) if denies(kind) => Some(Self::OnDenied),
            // What a hook that fails amounts to: it decided nothing.
            Outcome::Refused(RefusalKind::Internal | RefusalKind::OutcomeUnknown) => Some(Self::OnError),
            _ if halted => Some(Self::OnDenied),
            _ => Some(Self::OnError),
        }
    }
}

/// Whether somebody decided against the call, rather than something failing.
const fn denies(kind: RefusalKind) -> bool {
    matches!(
        kind,
        RefusalKind::ApprovalNeeded
            | RefusalKind::AuthRequired
            | RefusalKind::Denied
            | RefusalKind::InsufficientScope
            | RefusalKind::LimitExceeded
            | RefusalKind::RateLimited
            | RefusalKind::StepUp
            | RefusalKind::Unauthenticated
            | RefusalKind::UnknownTool
    )
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether a hook is about this tool, or about a name that nobody registered.
#[inline]
pub(super) fn selected(hook: &Hook, tool: Option<&ToolEntry>, name: &str) -> bool {
    match (&hook.only, tool) {
        (None, _) => true,
        (Some(only), Some(tool)) => only.matches(tool),
        (Some(only), None) => only.matches_unknown(name),
    }
}
