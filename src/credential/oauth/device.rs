use std::time::Duration;

use futures_util::future::BoxFuture;
use oauth2::{StandardDeviceAuthorizationResponse, basic::BasicTokenResponse};
use tokio::time::{Instant, timeout};

use super::{
    Client, OAuthError,
    client::{granted, is_safe, scopes},
    flows::{Entered, Flows},
};
use crate::credential::{AuthChallenge, CredentialError, CredentialProvider, Token, TokenRequest};

/// A sign-in on another device (RFC 8628): the first call gets a challenge with an address and a code, later calls find out whether the
/// person has entered it, and get the challenge again until then.
///
/// The server is asked no more often than it wants, and less often once it says `slow_down`, across calls. A code that is over is
/// replaced by a new one. A refresh token is kept, so that the person signs in once; put a [`Cached`](crate::credential::Cached) around it, or each call
/// asks the server.
#[derive(Debug)]
pub struct DeviceFlow {
    client: Client,
    patience: Duration,
    flows: Flows<Begun>,
}

/// A sign-in that a person was told of.
struct Begun {
    challenge: AuthChallenge,
    ends: Instant,
    /// Asks the server, at its pace. It goes on whenever a call waits for it.
    polling: BoxFuture<'static, Result<BasicTokenResponse, OAuthError>>,
}

impl DeviceFlow {
    /// Sign-ins by this client, which knows its [device address](Client::device_url).
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, patience: Duration::from_secs(10), flows: Flows::new() }
    }

    /// Sets how long a later call waits for the person; 10 seconds else.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    async fn begin(&self, request: &TokenRequest) -> Result<Begun, OAuthError> {
        let Client { basic, wire, .. } = self.client.clone();
        let asked = basic.exchange_device_code().map_err(|_| OAuthError::NoAddress("device authorization"))?;
        let details: StandardDeviceAuthorizationResponse = asked.add_scopes(scopes(request)).request_async(&wire).await?;
        let (url, code) = (details.verification_uri(), details.user_code().secret());
        // Both go to a person by way of a model: neither is more than it seems.
        if !is_safe(url.url()) || url.as_str().len() > 2048 || code.len() > 64 || !code.chars().all(|next| matches!(next, ' '..='~')) {
            return Err(OAuthError::Unreadable);
        }
        let message = format!("Sign in at {} with the code {code}, then call the tool again.", url.as_str());
        let mut challenge = AuthChallenge::new(message).url(url.as_str()).code(code);
        challenge.scope.clone_from(&request.scope);
        let now = Instant::now();
        let ends = now.checked_add(details.expires_in()).unwrap_or(now);
        let polling = Box::pin(async move {
            let asked = basic.exchange_device_access_token(&details);
            Ok(asked.request_async(&wire, tokio::time::sleep, None).await?)
        });
        Ok(Begun { challenge, ends, polling })
    }

    async fn sign_in(&self, request: &TokenRequest) -> Result<Token, CredentialError> {
        let turn = match self.flows.enter(&self.client, request).await? {
            Entered::Refreshed(token) => return Ok(token),
            Entered::Turn(turn) => turn,
        };
        let mut held = turn.hold();
        if let Some(begun) = held.begun.as_mut().filter(|begun| Instant::now() < begun.ends) {
            let Ok(answer) = timeout(self.patience, &mut begun.polling).await else {
                return Err(begun.challenge.clone().into());
            };
            held.begun = None;
            match answer.and_then(|response| granted(&response)) {
                Ok(granted) => return Ok(turn.granted(granted)),
                Err(OAuthError::Refused { code }) if code == "expired_token" => {}
                Err(error) => return Err(error.into()),
            }
        }
        held.begun = None;
        let begun = self.begin(request).await?;
        let challenge = begun.challenge.clone();
        held.begun = Some(begun);
        Err(challenge.into())
    }
}

impl CredentialProvider for DeviceFlow {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        Box::pin(self.sign_in(request))
    }

    fn name(&self) -> &str {
        "device flow"
    }
}
