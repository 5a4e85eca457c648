use std::{collections::BTreeMap, fmt, future::ready, sync::Arc};

use futures_util::future::BoxFuture;

use super::{CredentialError, CredentialProvider, Token, TokenRequest};
use crate::model::Secret;

type Read = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Credentials that the operator set: by scope, and then from the environment where that is asked for.
///
/// Everybody gets the same. A credential that a service does not accept stays, since there is no other.
///
/// ```
/// use toolstack::credential::{CredentialProvider, StaticCredentials, TokenRequest};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let credentials = StaticCredentials::new().credential("mail", "t0ken");
/// assert_eq!(credentials.token(&TokenRequest::new("mail")).await.unwrap().secret().expose(), "t0ken");
/// assert!(credentials.token(&TokenRequest::new("calendar")).await.is_err());
/// # }
/// ```
#[derive(Clone, Default)]
pub struct StaticCredentials {
    by_scope: BTreeMap<String, Secret>,
    environment: Option<Arc<Read>>,
}

impl StaticCredentials {
    /// No credentials.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Credentials from the environment alone: see [`or_environment`](Self::or_environment).
    #[must_use]
    pub fn environment() -> Self {
        Self::new().or_environment()
    }

    /// Adds the credential for a scope.
    #[must_use]
    pub fn credential(mut self, scope: impl Into<String>, secret: impl Into<Secret>) -> Self {
        self.by_scope.insert(scope.into(), secret.into());
        self
    }

    /// Looks for what is not here in the environment: `MCS_TOKEN_` and the scope in capitals, with `_` for `-` and `.`. It is read each
    /// time, and an empty variable is none.
    #[must_use]
    pub fn or_environment(self) -> Self {
        self.or_read(|name| std::env::var(name).ok())
    }

    /// Looks for what is not here in something that is read as an environment is, by the same names.
    #[must_use]
    pub fn or_read(mut self, read: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.environment = Some(Arc::new(read));
        self
    }

    fn find(&self, scope: &str) -> Option<Secret> {
        if let Some(secret) = self.by_scope.get(scope) {
            return Some(secret.clone());
        }
        let text = self.environment.as_ref()?(&variable(scope))?;
        Some(Secret::new(text)).filter(|secret| !secret.is_empty())
    }
}

/// The variable that holds the credential for a scope.
fn variable(scope: &str) -> String {
    format!("MCS_TOKEN_{}", scope.to_uppercase().replace(['-', '.'], "_"))
}

impl CredentialProvider for StaticCredentials {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        let found = request.scope.as_deref().and_then(|scope| self.find(scope));
        Box::pin(ready(found.map(Token::new).ok_or_else(|| CredentialError::missing(request.scope.clone()))))
    }

    fn name(&self) -> &str {
        "static"
    }
}

impl fmt::Debug for StaticCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes: Vec<_> = self.by_scope.keys().collect();
        f.debug_struct("StaticCredentials").field("scopes", &scopes).field("environment", &self.environment.is_some()).finish()
    }
}
