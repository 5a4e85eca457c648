use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::duration;

/// The settings of [authentication](crate::layer::authenticate).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Authenticate {
    /// Whether the principal that a face put into the context counts where there is no token.
    pub trust_context: bool,
    /// Whether whoever comes without anything passes, as nobody.
    pub anonymous: bool,
    /// What tokens are for, in the challenge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// Tokens that are known beforehand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Token>,
    /// Issuers of JSON Web Tokens. Feature `jwt`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jwt: Vec<Jwt>,
    /// Whether tokens that were good are remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
}

/// A token that is known beforehand, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Token {
    /// The environment variable that holds it.
    pub env: String,
    /// Whose it is.
    pub subject: String,
    /// What it may do.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
}

/// An issuer of JSON Web Tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Jwt {
    /// Who issues them (`iss`).
    pub issuer: String,
    /// Whom they have to be for (`aud`).
    pub audience: String,
    /// The file with the issuer's public keys, as a JWKS document.
    pub keys_file: PathBuf,
    /// How far clocks may be apart: a minute if nothing is said.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub leeway: Option<Duration>,
}

/// The settings of [challenges](crate::layer::challenge).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Challenge {
    /// Whether credentials are taken from the environment: `MCS_TOKEN_FILES_READ` for the scope `files-read`.
    pub environment: bool,
    /// How long whoever gives credentials has.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub wait: Option<Duration>,
}

/// How many tokens are remembered, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Remember {
    /// How many.
    pub most: usize,
    /// How long at most.
    #[serde(with = "duration")]
    pub at_most: Duration,
}
