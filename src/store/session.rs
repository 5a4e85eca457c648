use std::{any::Any, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use smol_str::SmolStr;

use crate::{error::BoxError, model::Principal};

/// Where sessions are kept.
///
/// A store finds a session and holds it in one step, so that nothing comes between the check and the use: what
/// [`hold`](Self::hold) gave stays as it was found until the guard is dropped.
pub trait SessionStore: Send + Sync + 'static {
    /// Makes visible what other processes did to the session, before it is held. Does nothing unless a store says otherwise.
    fn refresh<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        let _ = id;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Finds the session, checks what is asked of it, and holds it.
    ///
    /// A session of another principal is [`NotFound`](HoldError::NotFound), so that asking tells nothing.
    fn hold<'a>(&'a self, id: &'a str, hold: Hold<'a>) -> BoxFuture<'a, Result<SessionGuard, HoldError>>;
}

/// What is asked of a session that is to be held.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Hold<'a> {
    /// Who asks.
    pub principal: &'a Principal,
    /// Whether it must be open, and stay open while it is held.
    pub open: bool,
}

impl<'a> Hold<'a> {
    /// Asks for a session of `principal`, open or not.
    #[must_use]
    pub const fn new(principal: &'a Principal) -> Self {
        Self { principal, open: false }
    }

    /// Asks for an open one.
    #[must_use]
    pub const fn open(mut self, open: bool) -> Self {
        self.open = open;
        self
    }
}

/// Why a session cannot be held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// It is over, or about to be.
    #[error("the session is closed")]
    Closed,
    /// The store does not work. The model never reads why.
    #[error("the session store failed")]
    Failed(#[source] BoxError),
    /// There is none of this id for this principal.
    #[error("no such session")]
    NotFound,
}

/// A session that is held. It is let go once this and every clone of it are dropped.
#[derive(Clone)]
pub struct SessionGuard(Arc<Held>);

struct Held {
    id: SmolStr,
    value: Option<Arc<dyn Any + Send + Sync>>,
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl SessionGuard {
    /// A session that is held: `release` is called once, when the last clone is dropped. It must not block, and must not panic.
    #[must_use]
    pub fn new(id: impl AsRef<str>, value: Option<Arc<dyn Any + Send + Sync>>, release: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Held { id: SmolStr::new(id), value, release: Some(Box::new(release)) }))
    }

    /// The id of the session.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// What is kept in the session, if it is a `T`.
    #[must_use]
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.0.value.as_deref()?.downcast_ref()
    }
}

impl fmt::Debug for SessionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionGuard").finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// Whose a session is.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionOwner {
    /// Everybody's who knows its id.
    Anyone,
    /// One principal's: the subject, as its issuer names it.
    #[non_exhaustive]
    Principal {
        /// Who vouches for the subject.
        issuer: Option<String>,
        /// Who it is; empty for callers that nobody vouches for.
        subject: String,
    },
}

impl SessionOwner {
    /// This principal.
    #[must_use]
    pub fn of(principal: &Principal) -> Self {
        Self::Principal { issuer: principal.issuer.clone(), subject: principal.subject.clone() }
    }

    /// Whether a session of this owner is there for `principal`.
    #[must_use]
    pub fn admits(&self, principal: &Principal) -> bool {
        match self {
            Self::Anyone => true,
            Self::Principal { issuer, subject } => *issuer == principal.issuer && *subject == principal.subject,
        }
    }
}

impl fmt::Debug for SessionOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("Anyone"),
            Self::Principal { subject, .. } => f.debug_tuple("Principal").field(subject).finish(),
        }
    }
}
