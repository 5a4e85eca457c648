use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use oauth2::AsyncHttpClient;

use super::OAuthError;
use crate::error::BoxError;

/// What speaks HTTP to an authorization server. [`Https`](super::Https) is a ready-made one.
///
/// An implementation follows no redirect, since that would carry a secret elsewhere, and stops reading a body that is longer than anything
/// that a server has to say.
pub trait HttpClient: Send + Sync + 'static {
    /// Sends a request. The future may be dropped at any of its awaits.
    ///
    /// # Errors
    ///
    /// If no answer came. An answer with a status of failure is no error.
    fn send(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<Response<Vec<u8>>, BoxError>>;
}

/// The longest answer of a server, in bytes.
pub(super) const LONGEST: usize = 64 * 1024;

/// The client with what holds for any: a bound on time and on length, and errors that say nothing of what was sent.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) http: Arc<dyn HttpClient>,
    pub(super) timeout: Duration,
}

impl Wire {
    pub(super) async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, OAuthError> {
        let sent = tokio::time::timeout(self.timeout, self.http.send(request)).await;
        let response = sent.map_err(|_| OAuthError::TimedOut)?.map_err(|_| OAuthError::Unreachable)?;
        if response.status().is_redirection() {
            return Err(OAuthError::Redirected);
        }
        if response.body().len() > LONGEST {
            return Err(OAuthError::Unreadable);
        }
        Ok(response)
    }
}

impl<'c> AsyncHttpClient<'c> for Wire {
    type Error = OAuthError;
    type Future = BoxFuture<'c, Result<Response<Vec<u8>>, OAuthError>>;

    fn call(&'c self, request: Request<Vec<u8>>) -> Self::Future {
        Box::pin(self.send(request))
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
