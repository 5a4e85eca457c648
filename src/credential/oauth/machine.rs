use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use http::{
    HeaderValue, Request,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use oauth2::url::form_urlencoded::{Serializer, byte_serialize};
use serde::Deserialize;

use super::{
    Client, OAuthError,
    client::{granted, scopes},
};
use crate::credential::{CredentialError, CredentialProvider, Token, TokenRequest};

/// A token for the program itself (RFC 6749, 4.4), by its client secret. No person has to act. Put a
/// [`Cached`](crate::credential::Cached) around it.
#[derive(Clone, Debug)]
pub struct ClientCredentials {
    client: Client,
}

impl ClientCredentials {
    /// Tokens for this client.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }
}

impl CredentialProvider for ClientCredentials {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        Box::pin(async move {
            let asked = self.client.basic.exchange_client_credentials().add_scopes(scopes(request));
            let response = asked.request_async(&self.client.wire).await.map_err(OAuthError::from)?;
            Ok(granted(&response)?.token)
        })
    }

    fn name(&self) -> &str {
        "client credentials"
    }
}

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// A token for one service in exchange for a token of another (RFC 8693): what the caller came with, or what the person signed in for.
/// Put a [`Cached`](crate::credential::Cached) around it.
#[derive(Clone)]
pub struct TokenExchange {
    client: Client,
    subject: Arc<dyn CredentialProvider>,
    subject_type: String,
    wanted: Vec<(&'static str, String)>,
}

impl TokenExchange {
    /// Exchanges tokens that `subject` provides.
    #[must_use]
    pub fn new(client: Client, subject: impl CredentialProvider) -> Self {
        Self { client, subject: Arc::new(subject), subject_type: ACCESS_TOKEN.to_owned(), wanted: Vec::new() }
    }

    /// Sets what sort of token is given away, as a URN of the standard; an access token else.
    #[must_use]
    pub fn subject_type(mut self, urn: impl Into<String>) -> Self {
        self.subject_type = urn.into();
        self
    }

    /// Sets the service that the new token is for, by its name.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.wanted.push(("audience", audience.into()));
        self
    }

    /// Sets the service that the new token is for, by its address.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.wanted.push(("resource", resource.into()));
        self
    }

    /// Sets what sort of token is wanted, as a URN; what the server likes, else.
    #[must_use]
    pub fn requested_type(mut self, urn: impl Into<String>) -> Self {
        self.wanted.push(("requested_token_type", urn.into()));
        self
    }

    fn form(&self, subject: &Token, request: &TokenRequest) -> Result<Request<Vec<u8>>, http::Error> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .append_pair("subject_token", subject.secret().expose())
            .append_pair("subject_token_type", &self.subject_type)
            .extend_pairs(&self.wanted);
        if let Some(scope) = &request.scope {
            form.append_pair("scope", scope);
        }
        let client = &self.client;
        let mut post = Request::post(client.basic.token_uri().as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        match &client.secret {
            Some(secret) if !client.in_body => post = post.header(AUTHORIZATION, basic(client.basic.client_id(), secret.expose())?),
            secret => {
                form.append_pair("client_id", client.basic.client_id());
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret.expose());
                }
            }
        }
        post.body(form.finish().into_bytes())
    }

    async fn exchange(&self, request: &TokenRequest) -> Result<Token, CredentialError> {
        let subject = self.subject.token(request).await?;
        let form = self.form(&subject, request).map_err(|_| OAuthError::Unreadable)?;
        let response = self.client.wire.send(form).await?;
        let exchanged = read(response.status().is_success(), response.body());
        if exchanged.as_ref().is_err_and(OAuthError::is_invalid_grant) {
            // The next call gets another one, for which somebody may have to sign in.
            self.subject.invalidate(request, Some(&subject));
        }
        Ok(exchanged?)
    }
}

/// The header that a client with a secret is known by.
fn basic(id: &str, secret: &str) -> Result<HeaderValue, http::Error> {
    use base64::Engine as _;

    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret));
    let mut value = HeaderValue::try_from(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The new token, or the code of the refusal. An exchange may give a token that is none for the header (`N_A`), which no tool could send.
fn read(success: bool, body: &[u8]) -> Result<Token, OAuthError> {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    if success {
        let response = serde_json::from_slice(body).map_err(|_| OAuthError::Unreadable)?;
        return Ok(granted(&response)?.token);
    }
    let Refused { error } = serde_json::from_slice(body).map_err(|_| OAuthError::Unreadable)?;
    Err(OAuthError::refused(&error))
}

impl CredentialProvider for TokenExchange {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        Box::pin(self.exchange(request))
    }

    fn name(&self) -> &str {
        "token exchange"
    }
}

impl fmt::Debug for TokenExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenExchange")
            .field("client", &self.client)
            .field("subject", &self.subject.name())
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}
