use std::{fmt, sync::Arc, time::Duration};

use oauth2::{
    AuthType, AuthUrl, ClientId, ClientSecret, DeviceAuthorizationUrl, EndpointMaybeSet, EndpointNotSet, EndpointSet, RefreshToken, Scope,
    TokenResponse, TokenUrl,
    basic::{BasicClient, BasicTokenResponse, BasicTokenType},
    url::{Host, Url},
};

use super::{HttpClient, Https, OAuthError, SetupError, http::Wire};
use crate::{
    credential::{Token, TokenRequest},
    model::Secret,
};

pub(super) type Basic = BasicClient<EndpointMaybeSet, EndpointMaybeSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

/// This program, as an authorization server knows it, and where the server is.
///
/// Every address is `https`, except on this machine.
///
/// ```
/// use toolstack::credential::oauth::Client;
///
/// let client = Client::new("my-agent", "https://id.example/token")?.device_url("https://id.example/device")?;
/// assert!(Client::new("my-agent", "http://id.example/token").is_err());
/// # let _ = client;
/// # Ok::<(), toolstack::credential::oauth::SetupError>(())
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) basic: Basic,
    pub(super) secret: Option<Secret>,
    pub(super) in_body: bool,
    pub(super) wire: Wire,
}

/// What a server granted.
pub(super) struct Granted {
    pub(super) token: Token,
    pub(super) refresh: Option<Secret>,
}

impl Client {
    /// A client of this id, with tokens from `token_url`.
    ///
    /// # Errors
    ///
    /// If secrets cannot go to that address, or there are no root certificates.
    pub fn new(id: impl Into<String>, token_url: &str) -> Result<Self, SetupError> {
        let http = Https::new().map_err(SetupError::Certificates)?;
        Self::with_http(id, token_url, http)
    }

    /// The same, where `http` speaks to the server.
    ///
    /// # Errors
    ///
    /// If secrets cannot go to that address.
    pub fn with_http(id: impl Into<String>, token_url: &str, http: impl HttpClient) -> Result<Self, SetupError> {
        let basic = BasicClient::new(ClientId::new(id.into()))
            .set_token_uri(TokenUrl::from_url(checked(token_url)?))
            .set_auth_uri_option(None)
            .set_device_authorization_url_option(None);
        let wire = Wire { http: Arc::new(http), timeout: Duration::from_secs(10) };
        Ok(Self { basic, secret: None, in_body: false, wire })
    }

    /// Sets the secret that the client is known by, sent as HTTP Basic.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Secret>) -> Self {
        let secret = secret.into();
        self.basic = self.basic.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
        self.secret = Some(secret);
        self
    }

    /// Sends the secret in the body of the request, for servers that want that.
    #[must_use]
    pub fn secret_in_body(mut self) -> Self {
        self.basic = self.basic.set_auth_type(AuthType::RequestBody);
        self.in_body = true;
        self
    }

    /// Sets where a person signs in with a browser.
    ///
    /// # Errors
    ///
    /// If secrets cannot go there.
    pub fn authorize_url(mut self, url: &str) -> Result<Self, SetupError> {
        self.basic = self.basic.set_auth_uri_option(Some(AuthUrl::from_url(checked(url)?)));
        Ok(self)
    }

    /// Sets where a sign-in on another device begins (RFC 8628).
    ///
    /// # Errors
    ///
    /// If secrets cannot go there.
    pub fn device_url(mut self, url: &str) -> Result<Self, SetupError> {
        self.basic = self.basic.set_device_authorization_url_option(Some(DeviceAuthorizationUrl::from_url(checked(url)?)));
        Ok(self)
    }

    /// Sets how long the server has for one answer; 10 seconds else.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.wire.timeout = timeout;
        self
    }

    /// Gets a new access token for a refresh token.
    pub(super) async fn refresh(&self, refresh: &Secret) -> Result<Granted, OAuthError> {
        let refresh = RefreshToken::new(refresh.expose().to_owned());
        let response = self.basic.exchange_refresh_token(&refresh).request_async(&self.wire).await?;
        granted(&response)
    }
}

/// The scopes of a request, as the library wants them.
pub(super) fn scopes(request: &TokenRequest) -> Vec<Scope> {
    request.scopes().map(|scope| Scope::new(scope.to_owned())).collect()
}

/// What a server granted; only bearer tokens are anything that a tool could send.
pub(super) fn granted(response: &BasicTokenResponse) -> Result<Granted, OAuthError> {
    if *response.token_type() != BasicTokenType::Bearer || response.access_token().secret().is_empty() {
        return Err(OAuthError::Unreadable);
    }
    let mut token = Token::new(response.access_token().secret().as_str());
    if let Some(life) = response.expires_in() {
        token = token.expires_in(life);
    }
    if let Some(scopes) = response.scopes() {
        token = token.scopes(scopes.iter().map(|scope| scope.as_str()));
    }
    Ok(Granted { token, refresh: response.refresh_token().map(|refresh| Secret::new(refresh.secret().as_str())) })
}

/// An address that a secret may be sent to.
fn checked(text: &str) -> Result<Url, SetupError> {
    let wrong = || SetupError::Address(text.chars().take(200).collect());
    let url = Url::parse(text).map_err(|_| wrong())?;
    // Whoever wrote user and password there sees no more of them in an error.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SetupError::Address("one with a user or a password in it".to_owned()));
    }
    if url.fragment().is_some() || !is_safe(&url) { Err(wrong()) } else { Ok(url) }
}

/// Whether an address is encrypted, or of this machine.
pub(super) fn is_safe(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(Host::Ipv6(address))) => address.is_loopback(),
        ("http", Some(Host::Domain(name))) => name == "localhost",
        _ => false,
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", self.basic.client_id())
            .field("token_url", &self.basic.token_uri().as_str())
            .field("secret", &self.secret)
            .field("wire", &self.wire)
            .finish_non_exhaustive()
    }
}
