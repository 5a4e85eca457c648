//! What happens when a tool needs a credential: the model is told in band, or somebody is asked for one and the call is made once more.
//!
//! A tool that cannot work before somebody has signed in answers with an [`AuthChallenge`]. The model should read where the person has to
//! go, in a form that it knows; and where the program has the credential, or can fetch it, neither of them should be bothered.
//!
//! - Without a provider, the answer is `{"auth_required": true, "message": …, "url": …, "code": …, "scope": …}`, as MCS gives it. The
//!   person acts, the model calls again.
//! - With a [provider](crate::credential), it is asked for a [`Token`] for the challenge's scope, and the call is made once more with the
//!   token in its context. If a person has to act first, the provider's own challenge is the answer.
//!
//! A tool whose credential was not accepted says so by [`CredentialRejected`]. What is kept of it is
//! thrown away, and the rest is the same.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Router, StackExt, ToolCall,
//!     credential::{AuthChallenge, StaticCredentials, Token},
//!     layer::ChallengeLayer,
//!     tool::{ToolError, tool_fn},
//! };
//!
//! async fn inbox(token: Option<Token>) -> Result<String, ToolError> {
//!     let token = token.ok_or_else(|| AuthChallenge::new("Sign in to your mail.").scope("mail"))?;
//!     Ok(format!("3 messages, by a token of {} characters", token.secret().expose().len()))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let tools = || Router::new().tool(tool_fn("inbox", inbox));
//!
//! let stack = ServiceBuilder::new().layer(ChallengeLayer::in_band()).service(tools());
//! let answer = stack.call_tool("inbox", json!({})).await;
//! assert_eq!(answer.as_text().unwrap(), r#"{"auth_required":true,"message":"Sign in to your mail.","scope":"mail"}"#);
//!
//! let credentials = StaticCredentials::new().credential("mail", "t0ken");
//! let stack = ServiceBuilder::new().layer(ChallengeLayer::new(credentials)).service(tools());
//! let answer = stack.call_tool("inbox", json!({})).await;
//! assert_eq!(answer.as_text().unwrap(), "3 messages, by a token of 5 characters");
//! # }
//! ```
//!
//! # Order
//!
//! Innermost, next to the router. Inside permission: the call that is made once more is the one that was allowed, with the same id and
//! arguments, and nobody is asked twice. Inside retry, timeout and limits, so that both attempts are one call for them; inside redaction,
//! which sees the address and the code.
//!
//! # Exactly once
//!
//! A call is made a second time, never a third: a tool that asks again is answered in band. It is not made a second time if the tool says
//! that it had [done something](AuthChallenge::after_effects) already, nor if there is no credential, nor if the one there is is the one
//! that was not accepted. A tool that challenges after effects without saying so has them twice.
//!
//! A tool that takes its token from its context has none at the first attempt. If the one that it is then given was revoked meanwhile, that
//! was the second attempt: the model is told so, the token is thrown away, and the next call gets another one.
//!
//! # Refusals
//!
//! [`AuthRequired`](crate::RefusalKind::AuthRequired), which keeps the parts of the challenge;
//! [`Denied`](crate::RefusalKind::Denied), if the person did not grant access; [`Timeout`](crate::RefusalKind::Timeout), if the provider
//! did not answer [in time](ChallengeLayer::wait); [`Internal`](crate::RefusalKind::Internal), if it failed. The model never reads why.
//!
//! # Cancellation
//!
//! Dropping the future drops the attempt that runs, or the question to the provider.
//!
//! # Cost
//!
//! Without a provider, a count of references. With one, a clone of the call and of the service within; a box for a call that is challenged.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};
use tower_layer::Layer;

use super::again::{Judgement, Repeat, RepeatLayer, Repeated};
use crate::{
    credential::{AuthChallenge, CredentialError, CredentialProvider, CredentialRejected, Token, TokenRequest},
    describe::{Duty, Note},
    error::{Refusal, RefusalKind},
    model::{Content, ToolCall, ToolResponse},
    operation::{Reply, View},
};

const BY: &str = "challenge";

/// Answers for tools that need a credential; see the [module](self).
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone)]
pub struct ChallengeLayer {
    challenges: Challenges,
}

/// The policy of [`ChallengeLayer`].
#[derive(Clone)]
pub struct Challenges {
    provider: Option<Arc<dyn CredentialProvider>>,
    wait: Duration,
}

impl ChallengeLayer {
    /// Tells the model, and asks nobody.
    pub fn in_band() -> Self {
        Self { challenges: Challenges { provider: None, wait: Duration::from_secs(30) } }
    }

    /// Asks for a credential, for up to 30 seconds, and calls once more with it.
    pub fn new(provider: impl CredentialProvider) -> Self {
        let mut layer = Self::in_band();
        layer.challenges.provider = Some(Arc::new(provider));
        layer
    }

    /// Sets how long the provider has to answer. The deadline of the call counts besides.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.challenges.wait = wait;
        self
    }
}

impl fmt::Debug for ChallengeLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChallengeLayer").field(&self.challenges.note()).finish()
    }
}

impl<S> Layer<S> for ChallengeLayer {
    type Service = Repeated<S, Challenges>;

    fn layer(&self, inner: S) -> Self::Service {
        RepeatLayer::new(self.challenges.clone()).layer(inner)
    }
}

impl Challenges {
    /// Gets a credential into the call. Otherwise the tool's own refusal stands, or another one in its place.
    async fn fetch(&self, call: &mut ToolCall, refusal: &Refusal) -> Result<(), Option<Refusal>> {
        let (Some(provider), Some(challenge)) = (&self.provider, AuthChallenge::of(refusal)) else { return Err(None) };
        let request = TokenRequest::of(call, challenge.scope.as_deref());
        let rejected = rejected_in(refusal);
        if let Some(rejected) = rejected {
            provider.invalidate(&request, rejected.token.as_ref());
        }
        if challenge.after_effects {
            return Err(None);
        }
        let deadline = Instant::now().checked_add(self.wait).into_iter().chain(call.context.deadline()).min();
        let answer = match deadline {
            Some(deadline) => timeout_at(deadline, provider.token(&request)).await.map_err(|_| Some(too_late()))?,
            None => provider.token(&request).await,
        };
        match answer {
            // The same as before: it would not be accepted the second time either.
            Ok(token) if rejected.and_then(|rejected| rejected.token.as_ref()).is_some_and(|old| old.is_same(&token)) => Err(None),
            Ok(token) => {
                call.context.extensions_mut().insert(token);
                Ok(())
            }
            // The tool knows better what the person should do.
            Err(CredentialError::Missing { .. }) => Err(None),
            Err(error) => Err(Some(Refusal::from(error).with_by(BY))),
        }
    }
}

fn rejected_in(refusal: &Refusal) -> Option<&CredentialRejected> {
    std::error::Error::source(refusal)?.downcast_ref()
}

fn too_late() -> Refusal {
    Refusal::new(RefusalKind::Timeout, "The credential that the tool needs did not come in time; nothing was done.").with_by(BY)
}

/// The answer to the model, in the words of MCS.
fn render(response: &mut ToolResponse) {
    if let ToolResponse::Complete(result) = response
        && let Some(challenge) = result.refusal().and_then(AuthChallenge::of)
    {
        result.set_content([Content::text(challenge.payload())]);
    }
}

impl Repeat for Challenges {
    fn note(&self) -> Option<Note> {
        let note = Note::new(BY).duty(Duty::ChangesResults);
        Some(match &self.provider {
            None => note,
            Some(provider) => note.duty(Duty::Repeats).duty(Duty::FetchesCredentials).setting("provider", provider.name()),
        })
    }

    fn keeps(&self, request: View<'_>) -> bool {
        self.provider.is_some() && matches!(request, View::Call(_))
    }

    fn judge(&self, reply: Reply<'_>, may_repeat: bool) -> Judgement {
        let Reply::Call(response) = reply else { return Judgement::Stands };
        let Some(challenge) = response.refusal().and_then(AuthChallenge::of) else { return Judgement::Stands };
        let rejected = response.refusal().is_some_and(|refusal| rejected_in(refusal).is_some());
        if may_repeat && (!challenge.after_effects || rejected) {
            return Judgement::Decide;
        }
        render(response);
        Judgement::Stands
    }

    fn decide<'a>(&'a self, request: View<'a>, reply: Reply<'a>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let (View::Call(call), Reply::Call(response)) = (request, reply) else { return false };
            let Some(refusal) = response.refusal().cloned() else { return false };
            match self.fetch(call, &refusal).await {
                Ok(()) => true,
                Err(instead) => {
                    if let Some(instead) = instead {
                        *response = ToolResponse::refused(instead);
                    }
                    render(response);
                    false
                }
            }
        })
    }

    fn over(&self, request: View<'_>, reply: Reply<'_>) {
        let (Some(provider), View::Call(call), Reply::Call(response)) = (&self.provider, request, reply) else { return };
        // What the second attempt was given was not accepted either.
        if let Some(rejected) = response.refusal().and_then(rejected_in) {
            let token = rejected.token.as_ref().or_else(|| Token::of(&call.context));
            provider.invalidate(&TokenRequest::of(call, rejected.scope.as_deref()), token);
        }
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenges").field("provider", &self.provider.as_ref().map(|provider| provider.name())).finish_non_exhaustive()
    }
}
