use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::{BearerToken, BearerTokenError, TokenError, TokenVerifier, Verified};
use crate::model::{Principal, Secret};

/// Tokens that are known beforehand, each with whom it stands for.
///
/// Only digests (SHA-256) are kept. A token is compared with all of them, in a time that tells neither which one it was nor how near it
/// came. Several at once are how a token is replaced: the old one stays until nobody uses it any more.
///
/// ```
/// use toolstack::{layer::authenticate::StaticTokens, model::Principal};
///
/// let tokens = StaticTokens::new()
///     .token("old-t0ken", Principal::new("ci").scope("files:read"))?
///     .token("new-t0ken", Principal::new("ci").scope("files:read"))?;
/// assert_eq!(format!("{tokens:?}"), "StaticTokens(2)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct StaticTokens(Vec<([u8; 32], Arc<Principal>)>);

impl StaticTokens {
    /// No token.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a token of this principal. Of two that are the same the later one counts.
    ///
    /// # Errors
    ///
    /// If the text cannot be a [bearer token](BearerToken::new).
    pub fn token(mut self, token: impl Into<Secret>, principal: impl Into<Arc<Principal>>) -> Result<Self, BearerTokenError> {
        self.0.push((BearerToken::new(token)?.digest(), principal.into()));
        Ok(self)
    }

    fn find(&self, token: &BearerToken) -> Option<&Arc<Principal>> {
        let digest = token.digest();
        // One past the place, since zero stands for none.
        let mut found = 0_u64;
        for (place, (known, _)) in (1_u64..).zip(&self.0) {
            found.conditional_assign(&place, known.ct_eq(&digest));
        }
        let place = usize::try_from(found).ok()?.checked_sub(1)?;
        self.0.get(place).map(|(_, principal)| principal)
    }
}

impl TokenVerifier for StaticTokens {
    fn verify<'a>(&'a self, token: &'a BearerToken) -> BoxFuture<'a, Result<Verified, TokenError>> {
        Box::pin(std::future::ready(self.now(token)))
    }

    fn verify_now(&self, token: &BearerToken) -> Option<Result<Verified, TokenError>> {
        Some(self.now(token))
    }

    fn name(&self) -> &'static str {
        "static"
    }
}

impl StaticTokens {
    fn now(&self, token: &BearerToken) -> Result<Verified, TokenError> {
        self.find(token).cloned().map(Verified::new).ok_or_else(|| TokenError::invalid("it is none of the static tokens"))
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticTokens({})", self.0.len())
    }
}
