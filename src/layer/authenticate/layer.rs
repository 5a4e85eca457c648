use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tower_layer::Layer;

use super::{TokenVerifier, policy::Authenticate, remembered::Remembered};
use crate::layer::{
    around::{Policed, PolicyLayer},
    wall_clock::WallClock,
};

/// Finds out who asks; see the [module](super).
#[derive(Clone)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct AuthenticateLayer {
    policy: Authenticate,
    remember: Option<(usize, Duration)>,
    clock: WallClock,
}

/// A service that finds out who asks.
pub type AuthenticateService<S> = Policed<S, Authenticate>;

impl Default for AuthenticateLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl AuthenticateLayer {
    /// Believes nobody, and refuses everything, until a source is named.
    pub fn new() -> Self {
        Self { policy: Authenticate::new(), remember: None, clock: WallClock::default() }
    }

    /// Adds a verifier of bearer tokens. A token is good if one of the verifiers says so; they are asked in this order.
    pub fn bearer(mut self, verifier: impl TokenVerifier) -> Self {
        Arc::make_mut(&mut self.policy.verifiers).push(Arc::new(verifier));
        self
    }

    /// Believes the principal that is in the context already, which then is the word of the face that put it there.
    ///
    /// Named before the first verifier it goes before any token, named after it, it counts where there is no token. A token that is no
    /// good is refused in the second case, whoever the context names.
    pub fn trust_context(mut self) -> Self {
        self.policy.context_first = self.policy.verifiers.is_empty();
        self.policy.trusts_context = true;
        self
    }

    /// Lets operations pass that come without anything to go by; they have the [anonymous](crate::model::Principal::anonymous)
    /// principal. A token that is no good is refused all the same.
    pub const fn allow_anonymous(mut self) -> Self {
        self.policy.anonymous = true;
        self
    }

    /// Names what tokens are for, in the challenge.
    pub fn realm(mut self, realm: impl Into<Cow<'static, str>>) -> Self {
        self.policy.realm = Some(realm.into());
        self
    }

    /// Names scopes that callers will need, in the challenge for those who came without a token.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.policy.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Remembers up to `most` tokens that were good, each until it ends and `at_most` for this long, so that they need no verifying. A
    /// token that is revoked, or whose key is withdrawn, is good for as long as it is remembered.
    pub const fn remember(mut self, most: usize, at_most: Duration) -> Self {
        self.remember = Some((most, at_most));
        self
    }

    /// Leaves the token in the context as a [`BearerToken`](super::BearerToken), for what exchanges it for another one further in. It is
    /// otherwise taken away, `Authorization` header and all: a token is for this server and nobody else.
    pub const fn keep_token(mut self) -> Self {
        self.policy.keeps_token = true;
        self
    }

    /// Sets the clock that says whether a remembered token has ended. A verifier has its own.
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = WallClock::of(now);
        self
    }

    /// Whether anybody could ever pass.
    pub(crate) fn has_sources(&self) -> bool {
        !self.policy.verifiers.is_empty() || self.policy.trusts_context || self.policy.anonymous
    }

    /// The policy, for a stack that may leave it out.
    pub(crate) fn into_policy(self) -> Authenticate {
        let remembered = self.remember.map(|(most, at_most)| Arc::new(Remembered::new(most, at_most, self.clock)));
        Authenticate { remembered, ..self.policy }
    }
}

impl<S> Layer<S> for AuthenticateLayer {
    type Service = AuthenticateService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

impl fmt::Debug for AuthenticateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateLayer").field("policy", &self.policy).field("remember", &self.remember).finish_non_exhaustive()
    }
}
