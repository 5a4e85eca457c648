use jsonwebtoken::Algorithm;
use serde::{Deserialize, Serialize};

/// How a token is signed by somebody who alone has the key, while everybody may have the other half of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PublicAlgorithm {
    /// ECDSA on the curve P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA on the curve P-384 with SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
    /// RSASSA-PSS with SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// RSASSA-PSS with SHA-384.
    #[serde(rename = "PS384")]
    Ps384,
    /// RSASSA-PSS with SHA-512.
    #[serde(rename = "PS512")]
    Ps512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    #[serde(rename = "RS384")]
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    #[serde(rename = "RS512")]
    Rs512,
}

/// How a token is signed where both sides have the same key. One who can verify such a token can also make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SecretAlgorithm {
    /// HMAC with SHA-256; the key has at least 32 bytes.
    #[serde(rename = "HS256")]
    Hs256,
    /// HMAC with SHA-384; the key has at least 48 bytes.
    #[serde(rename = "HS384")]
    Hs384,
    /// HMAC with SHA-512; the key has at least 64 bytes.
    #[serde(rename = "HS512")]
    Hs512,
}

impl PublicAlgorithm {
    /// All of them.
    pub const ALL: [Self; 9] =
        [Self::Es256, Self::Es384, Self::EdDsa, Self::Ps256, Self::Ps384, Self::Ps512, Self::Rs256, Self::Rs384, Self::Rs512];

    /// The algorithm that a header calls so, letter for letter.
    pub(super) fn named(name: &str) -> Option<Self> {
        // RFC 9864 gives EdDSA on that curve a name of its own.
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
        }
    }

    pub(super) const fn library(self) -> Algorithm {
        match self {
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::EdDsa => Algorithm::EdDSA,
            Self::Ps256 => Algorithm::PS256,
            Self::Ps384 => Algorithm::PS384,
            Self::Ps512 => Algorithm::PS512,
            Self::Rs256 => Algorithm::RS256,
            Self::Rs384 => Algorithm::RS384,
            Self::Rs512 => Algorithm::RS512,
        }
    }
}

impl SecretAlgorithm {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }

    /// The shortest key, in bytes (RFC 7518, section 3.2).
    pub(super) const fn shortest(self) -> usize {
        match self {
            Self::Hs256 => 32,
            Self::Hs384 => 48,
            Self::Hs512 => 64,
        }
    }

    pub(super) const fn library(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::Hs384 => Algorithm::HS384,
            Self::Hs512 => Algorithm::HS512,
        }
    }
}
