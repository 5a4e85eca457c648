use std::{borrow::Cow, error::Error, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{BoxError, Challenge};
use crate::model::ToolName;

/// Why a tool did not run, or why its result is not given.
///
/// Cheap to move: one pointer. `Debug` shows neither the source nor the challenge, only that there is one; `Display` is the message alone.
///
/// ```
/// use std::time::Duration;
/// use toolstack::{Refusal, RefusalKind};
///
/// let refusal = Refusal::new(RefusalKind::RateLimited, "too many calls; wait two seconds")
///     .with_by("my_limit")
///     .with_retry_after(Duration::from_secs(2));
/// assert_eq!(refusal.kind(), RefusalKind::RateLimited);
/// ```
#[derive(Clone)]
pub struct Refusal(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: RefusalKind,
    by: Cow<'static, str>,
    message: Cow<'static, str>,
    retry_after: Option<Duration>,
    challenge: Option<Challenge>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What sort of refusal it is; see the [table](crate::error#kinds).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// A person has to approve, and none can be asked from here.
    ApprovalNeeded,
    /// The tool needs a sign-in elsewhere.
    AuthRequired,
    /// What the tool needs has been failing.
    BreakerOpen,
    /// The caller gave up, or a sibling failed fast.
    Cancelled,
    /// A rule or a person said no.
    Denied,
    /// The principal lacks scopes.
    InsufficientScope,
    /// A bug or a broken part on this side.
    Internal,
    /// The arguments are not what the tool takes.
    InvalidArguments,
    /// The tool answered with what its schema rules out.
    InvalidOutput,
    /// A count, depth or size is used up.
    LimitExceeded,
    /// It may have happened.
    OutcomeUnknown,
    /// No capacity at this moment.
    Overloaded,
    /// Too many calls.
    RateLimited,
    /// The session is over.
    SessionClosed,
    /// No such session.
    SessionNotFound,
    /// The sign-in is too weak or too old.
    StepUp,
    /// It took too long.
    Timeout,
    /// The tool ran and failed.
    ToolError,
    /// Nobody vouches for the caller.
    Unauthenticated,
    /// There is no such tool, or it is hidden.
    UnknownTool,
}

impl RefusalKind {
    /// All kinds that there are, by name.
    pub const ALL: [Self; 20] = [
        Self::ApprovalNeeded,
        Self::AuthRequired,
        Self::BreakerOpen,
        Self::Cancelled,
        Self::Denied,
        Self::InsufficientScope,
        Self::Internal,
        Self::InvalidArguments,
        Self::InvalidOutput,
        Self::LimitExceeded,
        Self::OutcomeUnknown,
        Self::Overloaded,
        Self::RateLimited,
        Self::SessionClosed,
        Self::SessionNotFound,
        Self::StepUp,
        Self::Timeout,
        Self::ToolError,
        Self::Unauthenticated,
        Self::UnknownTool,
    ];

    /// A word for labels and records, such as `unknown_tool`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApprovalNeeded => "approval_needed",
            Self::AuthRequired => "auth_required",
            Self::BreakerOpen => "breaker_open",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
            Self::InsufficientScope => "insufficient_scope",
            Self::Internal => "internal",
            Self::InvalidArguments => "invalid_arguments",
            Self::InvalidOutput => "invalid_output",
            Self::LimitExceeded => "limit_exceeded",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Overloaded => "overloaded",
            Self::RateLimited => "rate_limited",
            Self::SessionClosed => "session_closed",
            Self::SessionNotFound => "session_not_found",
            Self::StepUp => "step_up",
            Self::Timeout => "timeout",
            Self::ToolError => "tool_error",
            Self::Unauthenticated => "unauthenticated",
            Self::UnknownTool => "unknown_tool",
        }
    }
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How the answer for a tool that is not there begins.
const UNKNOWN_TOOL: &str = "Unknown tool: ";

impl Refusal {
    /// A refusal with a message for the model. Until [`with_by`](Self::with_by) says who refuses, it is `"tool"`.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { kind, by: Cow::Borrowed("tool"), message: message.into(), retry_after: None, challenge: None, source: None }))
    }

    /// The answer for a tool that is not there, and for one that is hidden: the two are the same, so that asking tells nothing.
    #[must_use]
    pub fn unknown_tool(name: &ToolName) -> Self {
        Self::new(RefusalKind::UnknownTool, format!("{UNKNOWN_TOOL}{name}")).with_by("router")
    }

    /// Whether this is the answer for a tool that is not there, of a name of which `named` holds.
    pub(crate) fn is_unknown_tool(&self, named: impl FnOnce(&str) -> bool) -> bool {
        self.kind() == RefusalKind::UnknownTool && self.by() == "router" && self.message().strip_prefix(UNKNOWN_TOOL).is_some_and(named)
    }

    /// The answer when a part on this side is broken. The model reads a fixed text; `source` is for the operator.
    #[must_use]
    pub fn internal(source: impl Into<BoxError>) -> Self {
        Self::new(RefusalKind::Internal, "The call failed on the server's side; this is not about its arguments.").with_source(source)
    }

    /// Sets who refuses: the name of a layer.
    #[must_use]
    pub fn with_by(mut self, by: impl Into<Cow<'static, str>>) -> Self {
        self.0.by = by.into();
        self
    }

    /// Sets how long to wait before calling again.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Sets what the caller can do about it.
    #[must_use]
    pub fn with_challenge(mut self, challenge: Challenge) -> Self {
        self.0.challenge = Some(challenge);
        self
    }

    /// Sets what lies behind it. The model never reads it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// What sort of refusal it is.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.0.kind
    }

    /// This refusal, by `layer` where nobody is named.
    #[expect(clippy::ptr_arg, reason = "a name that is static is not copied")]
    pub(crate) fn or_by(self, layer: &Cow<'static, str>) -> Self {
        if self.by() == "tool" { self.with_by(layer.clone()) } else { self }
    }

    /// Who refused: the name of a layer, `"router"` or `"tool"`.
    #[must_use]
    pub fn by(&self) -> &str {
        &self.0.by
    }

    /// What the model reads.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Puts another message in its place, for instance to redact it.
    pub fn set_message(&mut self, message: impl Into<Cow<'static, str>>) {
        self.0.message = message.into();
    }

    /// How long to wait before calling again, where that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn challenge(&self) -> Option<&Challenge> {
        self.0.challenge.as_ref()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.message())
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Refusal");
        out.field("kind", &self.0.kind).field("by", &self.0.by).field("message", &self.0.message);
        if let Some(wait) = self.0.retry_after {
            out.field("retry_after", &wait);
        }
        if self.0.challenge.is_some() {
            out.field("challenge", &"..");
        }
        if self.0.source.is_some() {
            out.field("source", &"..");
        }
        out.finish()
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
