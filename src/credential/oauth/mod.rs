//! Credentials from an authorization server (OAuth 2.0), by feature `oauth`.
//!
//! | provider | flow | who acts |
//! |---|---|---|
//! | [`DeviceFlow`] | device authorization (RFC 8628) | a person, anywhere, with an address and a code |
//! | [`AuthorizationCode`] | authorization code with PKCE (RFC 6749, RFC 7636, RFC 8252) | a person at this machine, with a browser |
//! | [`ClientCredentials`] | client credentials (RFC 6749) | nobody |
//! | [`TokenExchange`] | token exchange (RFC 8693) | nobody, or whoever signs in for the token that is exchanged |
//!
//! Where a person has to act, the first call gets a challenge, which [`ChallengeLayer`](crate::layer::ChallengeLayer) answers in band. The
//! person acts, the model calls again, and the flow goes on from where it was. What is begun is kept apart by scope and principal, like
//! what is granted, and in memory alone.
//!
//! ```
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Router, ServiceBuilderExt,
//!     credential::{CredentialProvider, oauth::{Client, DeviceFlow}},
//! };
//!
//! let client = Client::new("my-agent", "https://id.example/token")?.device_url("https://id.example/device")?;
//! let stack = ServiceBuilder::new().challenge(DeviceFlow::new(client).cached()).service(Router::new());
//! # let _ = stack;
//! # Ok::<(), toolstack::credential::oauth::SetupError>(())
//! ```
//!
//! # What is not trusted
//!
//! The server's answers: they are bounded in time and length, redirects are not followed, nothing of a body goes into an error, and an
//! address that a person is sent to is encrypted or of this machine. The browser's answer: without the right `state`, which is compared in
//! constant time, it is turned away.
//!
//! The protocol is that of the `oauth2` crate; HTTP is [`Https`], or any [`HttpClient`].

mod browser;
mod client;
mod device;
mod error;
mod flows;
mod http;
mod https;
mod listener;
mod machine;

pub use self::{
    browser::AuthorizationCode,
    client::Client,
    device::DeviceFlow,
    error::{OAuthError, SetupError},
    http::HttpClient,
    https::Https,
    machine::{ClientCredentials, TokenExchange},
};
