use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Cached, CredentialError, Token, TokenRequest};

/// Where credentials for tools come from.
///
/// ```
/// use futures_util::future::BoxFuture;
/// use toolstack::credential::{CredentialError, CredentialProvider, Token, TokenRequest};
///
/// struct Vault;
///
/// impl CredentialProvider for Vault {
///     fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
///         Box::pin(async move {
///             match request.scope.as_deref() {
///                 Some("mail") => Ok(Token::new("t0ken")),
///                 _ => Err(CredentialError::missing(request.scope.clone())),
///             }
///         })
///     }
/// }
/// ```
pub trait CredentialProvider: Send + Sync + 'static {
    /// A credential for this. The future may be dropped at any of its awaits.
    ///
    /// # Errors
    ///
    /// If there is none: because a person has to act first, because somebody said no, or because something is broken.
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>>;

    /// Throws away what is kept for this, since somebody did not accept it. Where `rejected` says which credential that was, a newer one
    /// stays. It must not block.
    fn invalidate(&self, request: &TokenRequest, rejected: Option<&Token>) {
        let _ = (request, rejected);
    }

    /// What the provider is called where a stack is described. No secret belongs here.
    fn name(&self) -> &str {
        "custom"
    }

    /// This provider, with a cache around it.
    fn cached(self) -> Cached<Self>
    where
        Self: Sized,
    {
        Cached::new(self)
    }
}

impl<P: CredentialProvider + ?Sized> CredentialProvider for Arc<P> {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        (**self).token(request)
    }

    fn invalidate(&self, request: &TokenRequest, rejected: Option<&Token>) {
        (**self).invalidate(request, rejected);
    }

    fn name(&self) -> &str {
        (**self).name()
    }
}
