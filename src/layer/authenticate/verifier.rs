use std::{fmt, sync::Arc, time::SystemTime};

use futures_util::future::BoxFuture;

use super::BearerToken;
use crate::{error::BoxError, model::Principal};

/// Says who a bearer token stands for.
///
/// Implemented for closures, [`StaticTokens`](super::StaticTokens), and with feature `jwt` for `JwtVerifier`. The future is dropped when
/// the call is. A verifier that fails says so by [`TokenError::unavailable`]; it never lets a token pass that it did not verify.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token.
    fn verify<'a>(&'a self, token: &'a BearerToken) -> BoxFuture<'a, Result<Verified, TokenError>>;

    /// Verifies a token without waiting; `None` if it would have to wait.
    fn verify_now(&self, token: &BearerToken) -> Option<Result<Verified, TokenError>> {
        let _ = token;
        None
    }

    /// A word for the [description](crate::describe) of the stack.
    fn name(&self) -> &'static str {
        "verifier"
    }
}

impl<F, Fut> TokenVerifier for F
where
    F: Fn(BearerToken) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Verified, TokenError>> + Send + 'static,
{
    fn verify<'a>(&'a self, token: &'a BearerToken) -> BoxFuture<'a, Result<Verified, TokenError>> {
        Box::pin(self(token.clone()))
    }

    fn name(&self) -> &'static str {
        "closure"
    }
}

/// What a token stands for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// Who asks.
    pub principal: Arc<Principal>,
    /// When the token ends, where it does.
    pub expires: Option<SystemTime>,
}

impl Verified {
    /// A token of this principal, which does not end.
    #[must_use]
    pub fn new(principal: impl Into<Arc<Principal>>) -> Self {
        Self { principal: principal.into(), expires: None }
    }

    /// This, until then.
    #[must_use]
    pub const fn until(mut self, expires: SystemTime) -> Self {
        self.expires = Some(expires);
        self
    }
}

/// Why a token was not accepted. `Display` says which of the two it is; the reason is the [source](std::error::Error::source), for the
/// operator alone.
pub struct TokenError {
    unavailable: bool,
    why: BoxError,
}

impl TokenError {
    /// The token is no good.
    #[must_use]
    pub fn invalid(why: impl Into<BoxError>) -> Self {
        Self { unavailable: false, why: why.into() }
    }

    /// Whether it is good cannot be told: what the verifier needs is not there.
    #[must_use]
    pub fn unavailable(why: impl Into<BoxError>) -> Self {
        Self { unavailable: true, why: why.into() }
    }

    /// Whether the verifier failed, rather than the token.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        self.unavailable
    }

    pub(super) fn into_source(self) -> BoxError {
        self.why
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.unavailable { "tokens cannot be verified" } else { "the token is not valid" })
    }
}

impl fmt::Debug for TokenError {
    /// What lies behind it may show what it was about.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.unavailable { "TokenError(unavailable)" } else { "TokenError(invalid)" })
    }
}

impl std::error::Error for TokenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.why)
    }
}
