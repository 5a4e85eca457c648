use std::{borrow::Cow, fmt, sync::Arc};

use futures_util::future::BoxFuture;

use super::{
    BearerToken, BearerTokenError, NAME, TokenError, TokenVerifier, Verified,
    bearer::{find, leave, take_away},
    remembered::Remembered,
};
use crate::{
    describe::{Duty, Note},
    error::{BearerError, BoxError, Challenge, Refusal, RefusalKind},
    layer::around::{Policy, Site, Step},
    model::{Context, Principal, Seal},
    operation::View,
};

/// The policy of an [`AuthenticateLayer`](super::AuthenticateLayer).
#[derive(Clone)]
pub struct Authenticate {
    pub(super) verifiers: Arc<Vec<Arc<dyn TokenVerifier>>>,
    pub(super) trusts_context: bool,
    pub(super) context_first: bool,
    pub(super) anonymous: bool,
    pub(super) keeps_token: bool,
    pub(super) realm: Option<Cow<'static, str>>,
    pub(super) scopes: Vec<String>,
    pub(super) remembered: Option<Arc<Remembered>>,
    pub(super) seal: Seal,
}

/// What is known of an operation so far.
enum Found {
    /// Who asks.
    Principal(Arc<Principal>),
    /// A token that has to be verified, which takes a while.
    Token(BearerToken),
}

impl Authenticate {
    pub(super) fn new() -> Self {
        Self {
            verifiers: Arc::default(),
            trusts_context: false,
            context_first: false,
            anonymous: false,
            keeps_token: false,
            realm: None,
            scopes: Vec::new(),
            remembered: None,
            seal: Seal::new(),
        }
    }

    /// Looks at what the operation came with, as far as that takes no waiting.
    fn look(&self, context: &Context) -> Result<(Found, Option<BearerToken>), Refusal> {
        let of_context = || Some(context.shared_principal()?).filter(|principal| self.trusts_context && !principal.is_anonymous());
        if self.context_first
            && let Some(principal) = of_context()
        {
            return Ok((Found::Principal(Arc::clone(principal)), find(context).ok().flatten()));
        }
        let token = if self.verifiers.is_empty() { None } else { find(context).map_err(|error| self.malformed(error))? };
        if let Some(token) = token {
            return match self.verify_now(&token) {
                Some(Ok(principal)) => Ok((Found::Principal(principal), Some(token))),
                Some(Err(error)) => Err(self.refused(error)),
                None => Ok((Found::Token(token.clone()), Some(token))),
            };
        }
        match of_context() {
            Some(principal) => Ok((Found::Principal(Arc::clone(principal)), None)),
            None if self.anonymous => Ok((Found::Principal(Arc::new(Principal::anonymous())), None)),
            None => Err(self.missing()),
        }
    }

    /// Verifies a token if that takes no waiting.
    fn verify_now(&self, token: &BearerToken) -> Option<Result<Arc<Principal>, TokenError>> {
        if let Some(remembered) = &self.remembered
            && let Some(principal) = remembered.get(&token.digest())
        {
            return Some(Ok(principal));
        }
        let mut worst = None;
        for verifier in self.verifiers.iter() {
            match verifier.verify_now(token)? {
                Ok(verified) => return Some(self.accept(token, verified)),
                Err(error) => worst = Some(worse(worst, error)),
            }
        }
        worst.map(Err)
    }

    /// Verifies a token, and takes the time that it takes.
    async fn verify(&self, token: &BearerToken) -> Result<Arc<Principal>, TokenError> {
        let mut worst = None;
        for verifier in self.verifiers.iter() {
            match verifier.verify(token).await {
                Ok(verified) => return self.accept(token, verified),
                Err(error) => worst = Some(worse(worst, error)),
            }
        }
        Err(worst.unwrap_or_else(|| TokenError::invalid("there is no verifier")))
    }

    fn accept(&self, token: &BearerToken, verified: Verified) -> Result<Arc<Principal>, TokenError> {
        if verified.principal.is_anonymous() {
            return Err(TokenError::invalid("the token stands for nobody"));
        }
        if let Some(remembered) = &self.remembered {
            remembered.put(token.digest(), &verified);
        }
        Ok(verified.principal)
    }

    /// Lets an operation of this principal go on.
    fn establish(&self, context: &mut Context, principal: Arc<Principal>, token: Option<BearerToken>) {
        context.vouch(principal, &self.seal);
        match token {
            Some(token) if self.keeps_token => leave(context, token),
            _ => take_away(context),
        }
    }

    fn unauthenticated(&self, error: Option<BearerError>, source: impl Into<BoxError>) -> Refusal {
        let scopes = if error.is_none() { self.scopes.as_slice() } else { &[] };
        Refusal::new(RefusalKind::Unauthenticated, "Nobody vouches for this call. It needs a valid sign-in.")
            .with_by(NAME)
            .with_challenge(Challenge::bearer(self.realm.as_deref().map(str::to_owned), error, scopes))
            .with_source(source)
    }

    fn missing(&self) -> Refusal {
        self.unauthenticated(None, "it came without anything to go by")
    }

    fn malformed(&self, error: BearerTokenError) -> Refusal {
        self.unauthenticated(Some(BearerError::InvalidRequest), error)
    }

    fn refused(&self, error: TokenError) -> Refusal {
        if error.is_unavailable() {
            return Refusal::internal(error.into_source()).with_by(NAME);
        }
        self.unauthenticated(Some(BearerError::InvalidToken), error.into_source())
    }
}

/// Of two reasons the one that counts: that one verifier failed says that the token might be good.
fn worse(worst: Option<TokenError>, error: TokenError) -> TokenError {
    match worst {
        Some(worst) if worst.is_unavailable() || !error.is_unavailable() => worst,
        _ => error,
    }
}

impl Policy for Authenticate {
    type State = ();

    const WAITS: bool = true;

    fn waits(&self) -> bool {
        // Not for a person.
        false
    }

    fn note(&self) -> Option<Note> {
        let mut sources: Vec<&str> = self.verifiers.iter().map(|verifier| verifier.name()).collect();
        if self.trusts_context {
            sources.insert(if self.context_first { 0 } else { sources.len() }, "context");
        }
        let mut note = Note::new(NAME).duty(Duty::Identifies).setting("sources", sources.join(" "));
        if self.anonymous {
            note = note.setting("anonymous", "allowed");
        }
        Some(note)
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        let Some(context) = context_of(request) else { return Step::Pass };
        // A call that a tool makes comes back with whom this layer let in.
        if context.is_vouched_for(&self.seal) {
            take_away(context);
            return Step::Pass;
        }
        match self.look(context) {
            Ok((Found::Principal(principal), token)) => {
                self.establish(context, principal, token);
                Step::Pass
            }
            Ok((Found::Token(_), _)) => Step::Wait,
            Err(refusal) => Step::Refuse(refusal),
        }
    }

    fn wait<'a>(&'a self, request: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let Some(context) = context_of(request) else { return Step::Pass };
            let principal = match self.look(context) {
                Ok((Found::Principal(principal), token)) => {
                    self.establish(context, principal, token);
                    return Step::Pass;
                }
                Ok((Found::Token(token), _)) => self.verify(&token).await.map(|principal| (principal, token)),
                Err(refusal) => return Step::Refuse(refusal),
            };
            match principal {
                Ok((principal, token)) => {
                    self.establish(context, principal, Some(token));
                    Step::Pass
                }
                Err(error) => Step::Refuse(self.refused(error)),
            }
        })
    }
}

/// The context of an operation.
fn context_of(request: View<'_>) -> Option<&mut Context> {
    match request {
        View::Call(call) => Some(&mut call.context),
        View::List(list) => Some(&mut list.context),
        View::Describe(_) => None,
    }
}

impl fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verifiers: Vec<_> = self.verifiers.iter().map(|verifier| verifier.name()).collect();
        f.debug_struct("Authenticate")
            .field("verifiers", &verifiers)
            .field("trusts_context", &self.trusts_context)
            .field("anonymous", &self.anonymous)
            .field("remembered", &self.remembered)
            .finish_non_exhaustive()
    }
}
