use std::{error::Error, fmt, sync::Arc};

use super::AuthChallenge;
use crate::error::{BoxError, Refusal, RefusalKind};

/// Why there is no credential.
///
/// Neither `Display` nor `Debug` shows what lies behind a failure: answers of authorization servers carry tokens.
#[derive(Clone)]
#[non_exhaustive]
pub enum CredentialError {
    /// A person has to act first; what was begun goes on when somebody asks again.
    Challenge(AuthChallenge),
    /// The person did not grant access.
    Denied,
    /// The way to get one failed.
    Failed(Arc<dyn Error + Send + Sync>),
    /// There is none, and no way to get one.
    #[non_exhaustive]
    Missing {
        /// What it was wanted for.
        scope: Option<String>,
    },
}

impl CredentialError {
    /// The way to get a credential failed.
    #[must_use]
    pub fn failed(source: impl Into<BoxError>) -> Self {
        Self::Failed(source.into().into())
    }

    /// There is none for this.
    #[must_use]
    pub fn missing(scope: impl Into<Option<String>>) -> Self {
        Self::Missing { scope: scope.into() }
    }
}

impl fmt::Debug for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Challenge(challenge) => f.debug_tuple("Challenge").field(challenge).finish(),
            Self::Denied => f.write_str("Denied"),
            Self::Failed(_) => f.write_str("Failed(..)"),
            Self::Missing { scope } => f.debug_struct("Missing").field("scope", scope).finish(),
        }
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Challenge(challenge) => challenge.fmt(f),
            Self::Denied => f.write_str("Access was not granted."),
            Self::Failed(_) => f.write_str("The credential could not be had at this moment; this is not about the arguments."),
            Self::Missing { scope: Some(scope) } => write!(f, "There is no credential for {scope}; the operator has to provide one."),
            Self::Missing { scope: None } => f.write_str("There is no credential; the operator has to provide one."),
        }
    }
}

impl Error for CredentialError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(source) => Some(&**source),
            _ => None,
        }
    }
}

impl From<AuthChallenge> for CredentialError {
    fn from(challenge: AuthChallenge) -> Self {
        Self::Challenge(challenge)
    }
}

impl From<CredentialError> for Refusal {
    fn from(error: CredentialError) -> Self {
        let kind = match &error {
            CredentialError::Challenge(challenge) => return challenge.clone().into(),
            CredentialError::Denied => RefusalKind::Denied,
            CredentialError::Failed(_) => RefusalKind::Internal,
            CredentialError::Missing { scope } => {
                return AuthChallenge { scope: scope.clone(), ..AuthChallenge::new(error.to_string()) }.into();
            }
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}
