use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use jsonwebtoken::DecodingKey;
use serde_json::Value;

use super::{
    JwtError, JwtSetupError, KeySet, KeySource, PublicAlgorithm, SecretAlgorithm,
    claims::Claims,
    keys::verify,
    source::{Fetched, Times},
    token::Parts,
};
use crate::{
    layer::{
        authenticate::{BearerToken, TokenError, TokenVerifier, Verified},
        wall_clock::WallClock,
    },
    model::Secret,
};

/// Verifies JSON Web Tokens; see the [module](super).
///
/// `Debug` shows no key.
#[derive(Clone)]
#[must_use = "a verifier does nothing until a layer asks it"]
pub struct JwtVerifier {
    keys: Keys,
    algorithms: BTreeSet<PublicAlgorithm>,
    claims: Claims,
    access_tokens_only: bool,
    longest: usize,
    clock: WallClock,
}

#[derive(Clone)]
enum Keys {
    Fixed(Arc<KeySet>),
    Fetched(Arc<Fetched>, Arc<dyn KeySource>, Times),
    Secret(SecretAlgorithm, DecodingKey),
}

impl JwtVerifier {
    /// How far clocks may be apart, unless [`leeway`](Self::leeway) says otherwise.
    pub const LEEWAY: Duration = Duration::from_secs(60);
    /// The longest token, in bytes, unless [`max_length`](Self::max_length) says otherwise.
    pub const MAX_LENGTH: usize = 8 * 1024;

    fn new(keys: Keys, issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, JwtSetupError> {
        let (issuer, audience) = (issuer.into(), audience.into());
        if issuer.is_empty() || audience.is_empty() {
            return Err(JwtSetupError::Anybody);
        }
        Ok(Self {
            keys,
            algorithms: PublicAlgorithm::ALL.into(),
            claims: Claims {
                issuer,
                audiences: [audience].into(),
                leeway: Self::LEEWAY,
                subject: "sub".to_owned(),
                required: Default::default(),
            },
            access_tokens_only: false,
            longest: Self::MAX_LENGTH,
            clock: WallClock::default(),
        })
    }

    /// Verifies tokens by keys that are known beforehand.
    ///
    /// # Errors
    ///
    /// If the issuer or the audience is empty; so do the other constructors.
    pub fn with_keys(keys: KeySet, issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, JwtSetupError> {
        Self::new(Keys::Fixed(Arc::new(keys)), issuer, audience)
    }

    /// Verifies tokens by the keys that the issuer publishes. They are fetched when the first token comes, again when they are 15 minutes
    /// old, and when a token names one that is not among them, but never more than once in 30 seconds. Where fetching fails, keys are used
    /// until they are a day old.
    ///
    /// # Errors
    ///
    /// If the issuer or the audience is empty.
    pub fn with_source(source: impl KeySource, issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, JwtSetupError> {
        let source: Arc<dyn KeySource> = Arc::new(source);
        let fetched = Arc::new(Fetched::new(Arc::clone(&source), Times::DEFAULT));
        Self::new(Keys::Fetched(fetched, source, Times::DEFAULT), issuer, audience)
    }

    /// Verifies tokens by a key that the issuer has too. Prefer keys that only the issuer can sign with.
    ///
    /// # Errors
    ///
    /// If the key is shorter than what the algorithm yields, or the issuer or the audience is empty.
    pub fn with_secret(
        algorithm: SecretAlgorithm,
        secret: &Secret,
        issuer: impl Into<String>,
        audience: impl Into<String>,
    ) -> Result<Self, JwtSetupError> {
        let shortest = algorithm.shortest();
        let key = Some(secret.expose().as_bytes()).filter(|secret| secret.len() >= shortest).map(DecodingKey::from_secret);
        let Some(Ok(key)) = key else { return Err(JwtSetupError::ShortSecret { shortest }) };
        Self::new(Keys::Secret(algorithm, key), issuer, audience)
    }

    /// Allows these algorithms only. All that are known are allowed otherwise; a verifier by a secret has one anyway.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = PublicAlgorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Accepts tokens that are for this audience too.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.claims.audiences.insert(audience.into());
        self
    }

    /// Requires a claim, whatever it says.
    pub fn require(mut self, claim: impl Into<String>) -> Self {
        self.claims.required.insert(claim.into(), None);
        self
    }

    /// Requires that a claim says exactly this.
    pub fn require_value(mut self, claim: impl Into<String>, value: impl Into<Value>) -> Self {
        self.claims.required.insert(claim.into(), Some(value.into()));
        self
    }

    /// Takes the subject from this claim instead of `sub`, such as `client_id`.
    pub fn subject_claim(mut self, claim: impl Into<String>) -> Self {
        self.claims.subject = claim.into();
        self
    }

    /// Accepts nothing but access tokens that say what they are (`typ` is `at+jwt`, RFC 9068), so that no ID token passes for one.
    pub const fn access_tokens_only(mut self) -> Self {
        self.access_tokens_only = true;
        self
    }

    /// Sets how far clocks may be apart.
    pub const fn leeway(mut self, leeway: Duration) -> Self {
        self.claims.leeway = leeway;
        self
    }

    /// Sets the longest token, in bytes; no more than [`BearerToken::MAX_LENGTH`] in any case.
    pub const fn max_length(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// Sets the least time between two fetches of keys, whatever tokens name.
    pub fn refetch_interval(self, interval: Duration) -> Self {
        self.times(|times| times.interval = interval)
    }

    /// Sets how old keys may be before they are fetched again, and how old where that fails.
    pub fn key_age(self, fresh: Duration, usable: Duration) -> Self {
        self.times(|times| (times.fresh, times.usable) = (fresh, usable.max(fresh)))
    }

    /// Sets how long one fetch of keys may take.
    pub fn fetch_timeout(self, timeout: Duration) -> Self {
        self.times(|times| times.timeout = timeout)
    }

    fn times(mut self, change: impl FnOnce(&mut Times)) -> Self {
        if let Keys::Fetched(fetched, source, times) = &mut self.keys {
            change(times);
            *fetched = Arc::new(Fetched::new(Arc::clone(source), *times));
        }
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = WallClock::of(now);
        self
    }

    /// What can be said of a token before a key is looked for.
    fn parts<'a>(&self, token: &'a BearerToken) -> Result<Parts<'a>, JwtError> {
        let token = token.expose();
        if token.len() > self.longest {
            return Err(JwtError::Malformed("it is too long"));
        }
        let parts = Parts::of(token)?;
        if self.access_tokens_only {
            let kind = parts.kind.as_deref().unwrap_or_default();
            let kind = kind.get(..12).filter(|start| start.eq_ignore_ascii_case("application/")).map_or(kind, |_| &kind[12..]);
            if !kind.eq_ignore_ascii_case("at+jwt") {
                return Err(JwtError::Type);
            }
        }
        Ok(parts)
    }

    fn algorithm(&self, parts: &Parts<'_>) -> Result<PublicAlgorithm, JwtError> {
        PublicAlgorithm::named(&parts.algorithm).filter(|algorithm| self.algorithms.contains(algorithm)).ok_or(JwtError::Algorithm)
    }

    /// What a token says whose signature is good.
    fn verified(&self, parts: &Parts<'_>) -> Result<Verified, JwtError> {
        let (principal, expires) = self.claims.check(parts.claims()?, self.clock.now())?;
        Ok(Verified::new(principal).until(expires))
    }

    /// Verifies a token by what is there; `None` if keys have to be fetched.
    fn now(&self, token: &BearerToken) -> Result<Option<Verified>, JwtError> {
        let parts = self.parts(token)?;
        match &self.keys {
            Keys::Fixed(keys) => keys.verify(&parts, self.algorithm(&parts)?)?,
            Keys::Secret(algorithm, key) if parts.algorithm == algorithm.name() => verify(key, algorithm.library(), &parts)?,
            Keys::Secret(..) => return Err(JwtError::Algorithm),
            Keys::Fetched(fetched, ..) => {
                let algorithm = self.algorithm(&parts)?;
                let Some((keys, true)) = fetched.kept() else { return Ok(None) };
                match keys.verify(&parts, algorithm) {
                    Err(JwtError::Key) => return Ok(None),
                    result => result?,
                }
            }
        }
        self.verified(&parts).map(Some)
    }

    /// Verifies a token by keys that are fetched first.
    async fn later(&self, token: &BearerToken, fetched: &Fetched) -> Result<Verified, TokenError> {
        let refreshed = fetched.refresh().await;
        let Some((keys, _)) = fetched.kept() else {
            return Err(TokenError::unavailable(refreshed.err().unwrap_or_else(|| "there are no keys yet".into())));
        };
        if let Err(error) = refreshed {
            tracing::warn!(%error, "older keys are used");
        }
        let verified = || {
            let parts = self.parts(token)?;
            keys.verify(&parts, self.algorithm(&parts)?)?;
            self.verified(&parts)
        };
        verified().map_err(TokenError::invalid)
    }
}

impl TokenVerifier for JwtVerifier {
    fn verify<'a>(&'a self, token: &'a BearerToken) -> BoxFuture<'a, Result<Verified, TokenError>> {
        Box::pin(async move {
            match (self.now(token), &self.keys) {
                (Ok(Some(verified)), _) => Ok(verified),
                (Err(error), _) => Err(TokenError::invalid(error)),
                (Ok(None), Keys::Fetched(fetched, ..)) => self.later(token, fetched).await,
                (Ok(None), _) => Err(TokenError::invalid(JwtError::Key)),
            }
        })
    }

    fn verify_now(&self, token: &BearerToken) -> Option<Result<Verified, TokenError>> {
        self.now(token).map_err(TokenError::invalid).transpose()
    }

    fn name(&self) -> &'static str {
        "jwt"
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("JwtVerifier");
        match &self.keys {
            Keys::Fixed(keys) => out.field("keys", keys),
            Keys::Fetched(fetched, ..) => out.field("keys", fetched),
            Keys::Secret(algorithm, _) => out.field("secret", algorithm),
        };
        out.field("algorithms", &self.algorithms).field("claims", &self.claims).finish_non_exhaustive()
    }
}
