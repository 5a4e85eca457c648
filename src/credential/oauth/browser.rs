use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use oauth2::{CsrfToken, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl};
use tokio::time::{Instant, timeout};

use super::{
    Client, OAuthError,
    client::{granted, scopes},
    flows::{Entered, Flows},
    listener::{Listener, Reply},
};
use crate::{
    credential::{AuthChallenge, CredentialError, CredentialProvider, Token, TokenRequest},
    model::Secret,
};

type Open = dyn Fn(&str) + Send + Sync;

/// A sign-in with a browser on this machine (RFC 6749, 4.1, with PKCE of RFC 7636 and the loopback redirect of RFC 8252): the first call
/// gets a challenge with an address, later calls find out whether the browser has come back, and get the challenge again until then.
///
/// The browser comes back to a port that is open on 127.0.0.1 until it does, once, or until the sign-in is over. What comes without the
/// right `state` is turned away and ends nothing. A refresh token is kept; put a [`Cached`](crate::credential::Cached) around it.
pub struct AuthorizationCode {
    client: Client,
    patience: Duration,
    life: Duration,
    port: u16,
    open: Option<Arc<Open>>,
    flows: Flows<Begun>,
}

/// A sign-in that a person was told of.
struct Begun {
    challenge: AuthChallenge,
    ends: Instant,
    listener: Listener,
    verifier: PkceCodeVerifier,
    redirect: RedirectUrl,
}

impl AuthorizationCode {
    /// Sign-ins by this client, which knows where a person [signs in](Client::authorize_url).
    #[must_use]
    pub fn new(client: Client) -> Self {
        let (patience, life) = (Duration::from_secs(10), Duration::from_secs(300));
        Self { client, patience, life, port: 0, open: None, flows: Flows::new() }
    }

    /// Sets how long a later call waits for the person; 10 seconds else.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how long a sign-in may take before it begins anew; five minutes else.
    #[must_use]
    pub const fn life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Sets the port that the browser comes back to, for servers that want to know it; any else. With one port, one person at a time
    /// signs in.
    #[must_use]
    pub const fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Opens the browser when a sign-in begins, besides the challenge. It must not block.
    #[must_use]
    pub fn open(mut self, open: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.open = Some(Arc::new(open));
        self
    }

    async fn begin(&self, request: &TokenRequest) -> Result<Begun, OAuthError> {
        let state = CsrfToken::new_random();
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let now = Instant::now();
        let ends = now.checked_add(self.life).unwrap_or(now);
        let listener = Listener::open(self.port, Secret::new(state.secret().as_str()), ends).await?;
        let redirect = RedirectUrl::new(listener.address()).map_err(|_| OAuthError::Unreadable)?;
        let asked = self.client.basic.authorize_url(|| state).map_err(|_| OAuthError::NoAddress("authorization"))?;
        let (url, _) =
            asked.add_scopes(scopes(request)).set_pkce_challenge(challenge).set_redirect_uri(std::borrow::Cow::Borrowed(&redirect)).url();
        if let Some(open) = &self.open {
            open(url.as_str());
        }
        let mut challenge = AuthChallenge::new("Sign in with a browser on this machine, then call the tool again.").url(url);
        challenge.scope.clone_from(&request.scope);
        Ok(Begun { challenge, ends, listener, verifier, redirect })
    }

    async fn sign_in(&self, request: &TokenRequest) -> Result<Token, CredentialError> {
        let turn = match self.flows.enter(&self.client, request).await? {
            Entered::Refreshed(token) => return Ok(token),
            Entered::Turn(turn) => turn,
        };
        let mut held = turn.hold();
        if let Some(begun) = held.begun.as_mut().filter(|begun| Instant::now() < begun.ends) {
            let Ok(reply) = timeout(self.patience, begun.listener.reply()).await else {
                return Err(begun.challenge.clone().into());
            };
            if let (Some(begun), Some(reply)) = (held.begun.take(), reply) {
                let code = match reply {
                    Reply::Code(code) => oauth2::AuthorizationCode::new(code.expose().to_owned()),
                    Reply::Refused(code) => return Err(OAuthError::refused(&code).into()),
                };
                let asked = self.client.basic.exchange_code(code).set_pkce_verifier(begun.verifier);
                let asked = asked.set_redirect_uri(std::borrow::Cow::Owned(begun.redirect));
                let response = asked.request_async(&self.client.wire).await.map_err(OAuthError::from)?;
                return Ok(turn.granted(granted(&response)?));
            }
        }
        // Closes the port first, since the next sign-in may want the same.
        held.begun = None;
        let begun = self.begin(request).await?;
        let challenge = begun.challenge.clone();
        held.begun = Some(begun);
        Err(challenge.into())
    }
}

impl CredentialProvider for AuthorizationCode {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        Box::pin(self.sign_in(request))
    }

    fn name(&self) -> &str {
        "authorization code"
    }
}

impl fmt::Debug for AuthorizationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationCode")
            .field("client", &self.client)
            .field("port", &self.port)
            .field("flows", &self.flows)
            .finish_non_exhaustive()
    }
}
