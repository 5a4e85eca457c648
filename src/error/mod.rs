//! Why a tool did not run, or why its result is not given: a [`Refusal`] is a value that travels inside the response.
//!
//! A layer of this crate never turns a refusal into an `Err`, and never changes the error type of the service it wraps. Errors of other
//! layers become refusals in one place, [`CatchErrorLayer`](crate::layer::CatchErrorLayer), and at every face.
//!
//! # What the model reads
//!
//! [`Refusal::message`] is written for the model and says what happened and what it may do. Its
//! [`source`](std::error::Error::source) is for the operator.
//! The text of an error that this crate does not know is only ever the source.
//!
//! # Kinds
//!
//! | kind | meaning | worth calling again? |
//! |---|---|---|
//! | [`ApprovalNeeded`](RefusalKind::ApprovalNeeded) | a person has to approve, and none can be asked from here | once somebody has |
//! | [`AuthRequired`](RefusalKind::AuthRequired) | the tool needs a sign-in elsewhere; the challenge says where | once it is done |
//! | [`BreakerOpen`](RefusalKind::BreakerOpen) | what the tool needs has been failing | after `retry_after` |
//! | [`Cancelled`](RefusalKind::Cancelled) | the caller gave up, or a sibling failed fast | if still wanted |
//! | [`Denied`](RefusalKind::Denied) | a rule or a person said no | no |
//! | [`InsufficientScope`](RefusalKind::InsufficientScope) | the principal lacks scopes; the challenge names all of them | with a better token |
//! | [`Internal`](RefusalKind::Internal) | a bug or a broken part on this side | perhaps |
//! | [`InvalidArguments`](RefusalKind::InvalidArguments) | the arguments are not what the tool takes | with better ones |
//! | [`InvalidOutput`](RefusalKind::InvalidOutput) | the tool answered with what its schema rules out | no |
//! | [`LimitExceeded`](RefusalKind::LimitExceeded) | a count, depth or size is used up for this run | no |
//! | [`OutcomeUnknown`](RefusalKind::OutcomeUnknown) | it may have happened; look before doing it again | after looking |
//! | [`Overloaded`](RefusalKind::Overloaded) | no capacity at this moment | yes |
//! | [`RateLimited`](RefusalKind::RateLimited) | too many calls | after `retry_after` |
//! | [`SessionClosed`](RefusalKind::SessionClosed) | the session is over | with another session |
//! | [`SessionNotFound`](RefusalKind::SessionNotFound) | no such session | with another session |
//! | [`StepUp`](RefusalKind::StepUp) | the sign-in is too weak or too old (RFC 9470) | with a better token |
//! | [`Timeout`](RefusalKind::Timeout) | it took too long; what was begun may be half done | with care |
//! | [`ToolError`](RefusalKind::ToolError) | the tool ran and failed | as its message says |
//! | [`Unauthenticated`](RefusalKind::Unauthenticated) | nobody vouches for the caller | with a token |
//! | [`UnknownTool`](RefusalKind::UnknownTool) | there is no such tool, or it is hidden | no |

mod bearer;
mod challenge;
mod classify;
mod payload;
mod refusal;

pub(crate) use self::classify::{chain, refusal_of_any};
pub use self::{
    bearer::{BearerChallenge, BearerError},
    challenge::Challenge,
    classify::{Classify, refusal_of},
    payload::{MissingParameter, error_payload, failed_text, halt_reason, render_error_payload},
    refusal::{Refusal, RefusalKind},
};

/// Any error, as tower's layers give it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
