use std::{fmt, sync::Arc};

use smol_str::SmolStr;

use crate::model::{Principal, ToolCall};

/// What a credential is needed for, and for whom.
///
/// Everything in it comes from the tool and from the context of the call; nothing from what the model wrote.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TokenRequest {
    /// What the credential has to be good for, as the tool names it; several scopes with spaces between them.
    pub scope: Option<String>,
    /// Who asks; `None` for nobody.
    pub principal: Option<Arc<Principal>>,
    /// The conversation that the call belongs to.
    pub session: Option<SmolStr>,
}

impl fmt::Debug for TokenRequest {
    /// Of the session that there is one: whoever knows it may be able to join it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRequest")
            .field("scope", &self.scope)
            .field("principal", &self.principal.as_ref().map(|principal| &principal.subject))
            .field("session", &self.session.as_ref().map(|_| ".."))
            .finish()
    }
}

impl TokenRequest {
    /// For this scope, and nobody in particular.
    #[must_use]
    pub fn new(scope: impl Into<String>) -> Self {
        Self { scope: Some(scope.into()), ..Self::default() }
    }

    /// For this scope, and whoever makes the call.
    #[must_use]
    pub fn of(call: &ToolCall, scope: Option<&str>) -> Self {
        Self {
            scope: scope.map(str::to_owned),
            principal: call.context.shared_principal().map(Arc::clone),
            session: call.context.session().map(SmolStr::new),
        }
    }

    /// For this principal.
    #[must_use]
    pub fn principal(mut self, principal: impl Into<Arc<Principal>>) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// The scopes, one by one.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scope.as_deref().unwrap_or_default().split_ascii_whitespace()
    }
}

/// What tells the credentials of one provider apart: scope and principal, and for nobody the conversation, so that two strangers do not
/// share what one of them signed in for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    scope: Option<SmolStr>,
    issuer: Option<SmolStr>,
    subject: SmolStr,
    session: Option<SmolStr>,
}

impl Key {
    pub(super) fn of(request: &TokenRequest) -> Self {
        let principal = request.principal.as_deref().filter(|principal| !principal.is_anonymous());
        Self {
            scope: request.scope.as_deref().map(SmolStr::new),
            issuer: principal.and_then(|principal| principal.issuer.as_deref()).map(SmolStr::new),
            subject: principal.map_or_else(SmolStr::default, |principal| SmolStr::new(&principal.subject)),
            session: request.session.clone().filter(|_| principal.is_none()),
        }
    }
}
