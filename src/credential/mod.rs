//! Credentials that tools need for other people's services: where they come from, who keeps them, and what happens when a person has to
//! sign in first.
//!
//! A tool that has no credential answers with an [`AuthChallenge`], one whose credential was not accepted with a [`CredentialRejected`].
//! [`ChallengeLayer`](crate::layer::ChallengeLayer) then answers the model in band, or asks a [`CredentialProvider`], hands the
//! [`Token`] inward and calls once more. Neither tool nor model knows where it came from.
//!
//! | provider | gives |
//! |---|---|
//! | [`StaticCredentials`] | what the operator set, or has in the environment |
//! | `oauth`, by the feature of that name | what an authorization server grants: device flow, authorization code, client credentials, token exchange |
//! | [`Cached`] | what another provider gave, until shortly before it ends; put it around each that has to ask somebody |
//!
//! # Where a credential may be seen
//!
//! In the context of the one call that needs it, as an extension, which calls that the tool makes do not inherit; and in memory, in a
//! cache. Nowhere else: a [`Token`] shows nothing in `Debug` and has no serde form, an error of a provider keeps its cause from the
//! model and from logs, and nothing is written to a file.

mod cached;
mod challenge;
mod error;
mod fixed;
mod keyed;
#[cfg(feature = "oauth")]
pub mod oauth;
mod provider;
mod request;
mod token;

pub(crate) use self::challenge::refusal_in;
pub use self::{
    cached::Cached,
    challenge::{AuthChallenge, CredentialRejected},
    error::CredentialError,
    fixed::StaticCredentials,
    provider::CredentialProvider,
    request::TokenRequest,
    token::Token,
};
