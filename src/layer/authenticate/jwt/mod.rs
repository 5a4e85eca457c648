//! Verifies JSON Web Tokens (RFC 7519) by the rules of RFC 8725.
//!
//! A token is good if all of this holds: it has the form and the length of one; its algorithm is allowed; exactly one key fits what its
//! header names; the signature is good; issuer and audience are the right ones; it has begun and has not ended; and whatever else is
//! [required](JwtVerifier::require) is there. Only then anybody reads what it claims.
//!
//! # Example
//!
//! ```
//! use toolstack::{
//!     BoxError,
//!     layer::{AuthenticateLayer, authenticate::jwt::{JwtVerifier, PublicAlgorithm}},
//! };
//!
//! async fn fetch() -> Result<String, BoxError> {
//!     // With an HTTP client of your choice, from the `jwks_uri` of the issuer.
//!     Ok(r#"{"keys":[]}"#.to_owned())
//! }
//!
//! let verifier = JwtVerifier::with_source(fetch, "https://login.example.com/", "https://tools.example.com/mcp")?
//!     .algorithms([PublicAlgorithm::Es256, PublicAlgorithm::Rs256])
//!     .access_tokens_only();
//! let layer = AuthenticateLayer::new().bearer(verifier);
//! # let _ = layer; Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a token cannot do
//!
//! | attack | why it fails |
//! |---|---|
//! | `alg` is `none`, however spelt | there is no such algorithm here |
//! | a public key as the secret of an HMAC | a verifier has public keys or a secret, never both, and a key fits its own algorithms only |
//! | a key of the attacker's (`jku`, `x5u`, `jwk`, `x5c`) | these are never read |
//! | a `kid` that is a path or a query | it is compared with the names of known keys, and does nothing else |
//! | a flood of unknown `kid`s | at most one fetch in an [interval](JwtVerifier::refetch_interval), shared by all who wait for it |
//! | a claim that stands twice | the token is refused, and so is one with `crit` |
//! | an ID token in the place of an access token | [`access_tokens_only`](JwtVerifier::access_tokens_only) |
//!
//! # What becomes of the claims
//!
//! `sub` (or [another](JwtVerifier::subject_claim)), `iss`, `acr` and `auth_time` have their places in the
//! [`Principal`](crate::model::Principal). Its scopes are those of `scope` and of `scp`, each a text with spaces between or a list. All
//! other claims stay as [`claims`](crate::model::Principal::claims).
//!
//! # Order
//!
//! Part of [`AuthenticateLayer`](super::AuthenticateLayer), outside whatever asks who it is.
//!
//! # Readiness
//!
//! A token whose key is known takes no waiting. The first one, and one that names another key, wait for the keys.
//!
//! # Refusals
//!
//! A token that is no good is [`Unauthenticated`](crate::RefusalKind::Unauthenticated), with a [`JwtError`] as the source. Where keys
//! cannot be had the answer is [`Internal`](crate::RefusalKind::Internal), and nothing passes.
//!
//! # Cancellation
//!
//! Those who still wait for a fetch go on with it; if nobody does, the next token picks it up.

mod algorithm;
mod claims;
mod error;
mod keys;
mod source;
mod token;
mod verifier;

pub use self::{
    algorithm::{PublicAlgorithm, SecretAlgorithm},
    error::{JwtError, JwtSetupError},
    keys::KeySet,
    source::KeySource,
    verifier::JwtVerifier,
};
