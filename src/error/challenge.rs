use std::{fmt, time::Duration};

use super::BearerError;

/// What the caller can do about a refusal, in a form that a face can pass on.
///
/// `Debug` shows neither address nor code: whoever has them may sign in as somebody.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Challenge {
    /// Sign in elsewhere, then call again.
    #[non_exhaustive]
    Auth {
        /// Where.
        url: Option<String>,
        /// The code to enter there.
        code: Option<String>,
        /// What access is asked for.
        scope: Option<String>,
    },
    /// Come back with a bearer token, or with another one (RFC 6750).
    #[non_exhaustive]
    Bearer {
        /// What the token is for, where that has a name.
        realm: Option<String>,
        /// What was wrong with the one that was sent; nothing if none was.
        error: Option<BearerError>,
        /// Scopes that the token will need, as far as that is known.
        scopes: Vec<String>,
    },
    /// Come back with a token that has all of these scopes.
    Scopes(Vec<String>),
    /// Sign in better, or again (RFC 9470).
    #[non_exhaustive]
    StepUp {
        /// Authentication context classes, any one of which will do.
        acr_values: Vec<String>,
        /// How long ago the sign-in may be.
        max_age: Option<Duration>,
    },
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auth { url, code, scope } => f
                .debug_struct("Auth")
                .field("url", &url.as_ref().map(|_| ".."))
                .field("code", &code.as_ref().map(|_| ".."))
                .field("scope", scope)
                .finish(),
            Self::Bearer { realm, error, scopes } => {
                f.debug_struct("Bearer").field("realm", realm).field("error", error).field("scopes", scopes).finish()
            }
            Self::Scopes(scopes) => f.debug_tuple("Scopes").field(scopes).finish(),
            Self::StepUp { acr_values, max_age } => {
                f.debug_struct("StepUp").field("acr_values", acr_values).field("max_age", max_age).finish()
            }
        }
    }
}

impl Challenge {
    /// Sign in at `url`.
    #[must_use]
    pub fn auth(url: impl Into<Option<String>>, code: impl Into<Option<String>>, scope: impl Into<Option<String>>) -> Self {
        Self::Auth { url: url.into(), code: code.into(), scope: scope.into() }
    }

    /// Come back with a bearer token; `error` says what was wrong with the one that was sent.
    #[must_use]
    pub fn bearer(
        realm: impl Into<Option<String>>,
        error: impl Into<Option<BearerError>>,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self::Bearer { realm: realm.into(), error: error.into(), scopes: scopes.into_iter().map(Into::into).collect() }
    }

    /// Sign in with one of these classes, no longer ago than `max_age`.
    #[must_use]
    pub fn step_up(acr_values: impl IntoIterator<Item = impl Into<String>>, max_age: Option<Duration>) -> Self {
        Self::StepUp { acr_values: acr_values.into_iter().map(Into::into).collect(), max_age }
    }
}
