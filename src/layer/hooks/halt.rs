use std::{borrow::Cow, error::Error, fmt, time::Duration};

use crate::{
    error::{BoxError, Challenge, Refusal, RefusalKind},
    model::ToolName,
};

/// Why a hook stops a request. What the caller is told depends on the reason alone.
///
/// | reason | answer |
/// |---|---|
/// | [`not_found`](Self::not_found) | the router's for a tool that is not there, byte for byte |
/// | [`missing_scopes`](Self::missing_scopes) | [`InsufficientScope`](RefusalKind::InsufficientScope), with all scopes in one challenge |
/// | [`forbidden`](Self::forbidden) | [`Denied`](RefusalKind::Denied): no scope would help |
/// | [`step_up`](Self::step_up) | [`StepUp`](RefusalKind::StepUp), with a challenge (RFC 9470) |
/// | [`error`](Self::error) | [`Denied`](RefusalKind::Denied), with the message |
/// | [`tool_error`](Self::tool_error) | for a call a failed result with the message, which observers hear of as denied; else as `error` |
/// | [`refuse`](Self::refuse) | that refusal |
/// | [`other`](Self::other) | [`Denied`](RefusalKind::Denied), "Request refused"; the reason is for the operator alone |
/// | [`failed`](Self::failed), or any error by `?` | the hook failed: [`Internal`](RefusalKind::Internal), "The request failed.", or whatever its mode says. Arguments that cannot be read are the model's fault: let them pass, and the tool says it better |
///
/// ```
/// use toolstack::layer::hooks::Halt;
///
/// fn limit(amount: &str) -> Result<(), Halt> {
///     // No number: the hook fails, and the request with it.
///     let amount: u64 = amount.parse()?;
///     if amount > 1000 { Err(Halt::step_up(["urn:mfa"], None)) } else { Ok(()) }
/// }
/// assert!(limit("12").is_ok() && limit("1200").is_err() && limit("x").unwrap_err().is_failure());
/// ```
pub struct Halt(Box<Reason>);

enum Reason {
    NotFound,
    Forbidden,
    MissingScopes(Vec<String>),
    StepUp(Challenge),
    Error(Cow<'static, str>),
    ToolError(Cow<'static, str>),
    Refusal(Refusal),
    Other(BoxError),
    Failed(BoxError),
}

impl Halt {
    const fn word(&self) -> &'static str {
        match &*self.0 {
            Reason::NotFound => "not_found",
            Reason::Forbidden => "forbidden",
            Reason::MissingScopes(_) => "missing_scopes",
            Reason::StepUp(_) => "insufficient_user_authentication",
            Reason::Error(_) => "error",
            Reason::ToolError(_) => "tool_error",
            Reason::Refusal(_) => "refusal",
            Reason::Other(_) => "other",
            Reason::Failed(_) => "failed",
        }
    }

    fn new(reason: Reason) -> Self {
        Self(Box::new(reason))
    }

    /// As if what is asked for did not exist.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(Reason::NotFound)
    }

    /// The caller may not, whatever its scopes.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::new(Reason::Forbidden)
    }

    /// The caller lacks scopes. Name all that are needed at once.
    #[must_use]
    pub fn missing_scopes(scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(Reason::MissingScopes(scopes.into_iter().map(Into::into).collect()))
    }

    /// The caller's sign-in is too weak, or too long ago: any one of `acr_values` will do, no older than `max_age`.
    #[must_use]
    pub fn step_up(acr_values: impl IntoIterator<Item = impl Into<String>>, max_age: Option<Duration>) -> Self {
        Self::new(Reason::StepUp(Challenge::step_up(acr_values, max_age)))
    }

    /// The request is refused, for a reason that the caller is told.
    #[must_use]
    pub fn error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Reason::Error(message.into()))
    }

    /// The call ends as if the tool had run and failed; `message` is for the model.
    #[must_use]
    pub fn tool_error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Reason::ToolError(message.into()))
    }

    /// This refusal. It names the hook, unless it names somebody already.
    #[must_use]
    pub fn refuse(refusal: Refusal) -> Self {
        Self::new(Reason::Refusal(refusal))
    }

    /// For a reason that the caller is not told.
    #[must_use]
    pub fn other(reason: impl Into<BoxError>) -> Self {
        Self::new(Reason::Other(reason.into()))
    }

    /// The hook itself failed, and has no say.
    #[must_use]
    pub fn failed(error: impl Into<BoxError>) -> Self {
        Self::new(Reason::Failed(error.into()))
    }

    /// Whether the hook failed, rather than decided.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(*self.0, Reason::Failed(_))
    }

    pub(super) fn into_failure(self) -> Result<BoxError, Self> {
        match *self.0 {
            Reason::Failed(error) => Ok(error),
            reason => Err(Self::new(reason)),
        }
    }

    /// The refusal, by the hook of that name. `tool` is the name that a call asks for.
    pub(super) fn into_refusal(self, by: Cow<'static, str>, tool: Option<&ToolName>) -> Refusal {
        let denied = |message: Cow<'static, str>| Refusal::new(RefusalKind::Denied, message);
        let refusal = match *self.0 {
            Reason::NotFound => match tool {
                // The same bytes as the router's, so that asking tells nothing.
                Some(tool) => return Refusal::unknown_tool(tool),
                None => Refusal::new(RefusalKind::UnknownTool, "There is no such thing."),
            },
            Reason::Forbidden => denied("The caller may not do this.".into()),
            Reason::MissingScopes(scopes) => {
                let message = format!("The caller lacks a scope; needed: {}.", scopes.join(", "));
                Refusal::new(RefusalKind::InsufficientScope, message).with_challenge(Challenge::Scopes(scopes))
            }
            Reason::StepUp(challenge) => {
                let message = "A stronger or more recent sign-in is needed for this.";
                Refusal::new(RefusalKind::StepUp, message).with_challenge(challenge)
            }
            Reason::Error(message) => denied(message),
            Reason::ToolError(message) if tool.is_some() => Refusal::new(RefusalKind::ToolError, message),
            Reason::ToolError(message) => denied(message),
            Reason::Refusal(refusal) if refusal.by() != "tool" => return refusal,
            Reason::Refusal(refusal) => refusal,
            Reason::Other(reason) => denied("Request refused".into()).with_source(reason),
            Reason::Failed(error) => failed(error),
        };
        refusal.with_by(by)
    }
}

/// The answer when a hook failed before the tool ran.
pub(super) fn failed(error: BoxError) -> Refusal {
    Refusal::new(RefusalKind::Internal, "The request failed.").with_source(error)
}

/// The answer when a hook failed over a result: the tool did run.
pub(super) fn failed_after(error: BoxError) -> Refusal {
    Refusal::new(RefusalKind::OutcomeUnknown, "The request failed. The tool did run: look at what it did before calling again.")
        .with_source(error)
}

impl<E: Error + Send + Sync + 'static> From<E> for Halt {
    /// A [`Refusal`] refuses; any other error is a failure of the hook.
    fn from(error: E) -> Self {
        let error: BoxError = Box::new(error);
        match error.downcast::<Refusal>() {
            Ok(refusal) => Self::refuse(*refusal),
            Err(error) => Self::failed(error),
        }
    }
}

impl fmt::Debug for Halt {
    /// The reason's word alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Halt({})", self.word())
    }
}
