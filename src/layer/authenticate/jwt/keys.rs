use std::fmt;

use jsonwebtoken::{
    DecodingKey,
    crypto::rust_crypto::DEFAULT_PROVIDER,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde_json::Value;

use super::{JwtError, JwtSetupError, PublicAlgorithm, token::Parts};
use crate::model::strict;

/// The public keys of an issuer, as its JWKS document has them (RFC 7517).
///
/// Keys that are for something else than verifying, of a kind or a size that is not accepted, or that both sides would have, are left out.
/// Two keys that a token could not tell apart are none. `Debug` shows how many there are.
///
/// ```
/// use toolstack::layer::authenticate::jwt::KeySet;
///
/// let keys = KeySet::from_json(
///     r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#,
/// )?;
/// assert_eq!(keys.len(), 1);
/// assert!(KeySet::from_json(r#"{"keys":[],"keys":[]}"#).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeySet(Vec<Key>);

#[derive(Clone)]
struct Key {
    id: Option<String>,
    /// The algorithms that it can be used with, and is not said not to be.
    algorithms: Vec<PublicAlgorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// How many keys a document may have.
    pub const MAX_KEYS: usize = 64;
    /// How long a document may be, in bytes.
    pub const MAX_LENGTH: usize = 256 * 1024;

    /// Reads a JWKS document.
    ///
    /// # Errors
    ///
    /// If it is too long, has too many keys, or is no JSON object with a list of `keys` that can be read in one way only.
    pub fn from_json(json: &str) -> Result<Self, JwtSetupError> {
        let error = |why: &str| JwtSetupError::KeySet(why.to_owned());
        if json.len() > Self::MAX_LENGTH {
            return Err(error("it is too long"));
        }
        let mut document = strict::parse(json).map_err(|why| error(&why.to_string()))?;
        let Some(Value::Array(keys)) = document.get_mut("keys").map(Value::take) else {
            return Err(error("it has no list of `keys`"));
        };
        if keys.len() > Self::MAX_KEYS {
            return Err(error("it has too many keys"));
        }
        Ok(Self(keys.into_iter().filter_map(Key::of).collect()))
    }

    /// How many keys there are that can be used.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one key that a token of this algorithm can be signed with.
    fn find(&self, id: Option<&str>, algorithm: PublicAlgorithm) -> Result<&DecodingKey, JwtError> {
        let fits = |key: &&Key| key.algorithms.contains(&algorithm) && id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut found = self.0.iter().filter(fits);
        match (found.next(), found.next()) {
            (Some(key), None) => Ok(&key.key),
            _ => Err(JwtError::Key),
        }
    }

    /// Verifies the signature of a token.
    pub(super) fn verify(&self, token: &Parts<'_>, algorithm: PublicAlgorithm) -> Result<(), JwtError> {
        let key = self.find(token.key.as_deref(), algorithm)?;
        verify(key, algorithm.library(), token)
    }
}

/// Verifies a signature by the library, with a key that fits the algorithm.
pub(super) fn verify(key: &DecodingKey, algorithm: jsonwebtoken::Algorithm, token: &Parts<'_>) -> Result<(), JwtError> {
    // Not by way of the default of the process, which panics where a build has both backends of the library.
    let verifier = (DEFAULT_PROVIDER.verifier_factory)(&algorithm, key).map_err(|_| JwtError::Key)?;
    verifier.verify(token.message.as_bytes(), &token.signature).map_err(|_| JwtError::Signature)
}

impl Key {
    /// A key of a document; `None` for one that is not to be used here.
    fn of(json: Value) -> Option<Self> {
        use PublicAlgorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};

        let jwk: Jwk = serde_json::from_value(json).ok()?;
        let common = &jwk.common;
        let verifies = common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify))
            && common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
        // The library takes keys of any length, and some it does not survive.
        let has = |part: &str, bytes: usize| decoded(part).is_some_and(|part| part.len() == bytes);
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 if has(&key.x, 32) && has(&key.y, 32) => vec![Es256],
                EllipticCurve::P384 if has(&key.x, 48) && has(&key.y, 48) => vec![Es384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 && has(&key.x, 32) => vec![EdDsa],
            AlgorithmParameters::RSA(key) if is_rsa(&key.n, &key.e) => vec![Ps256, Ps384, Ps512, Rs256, Rs384, Rs512],
            _ => return None,
        };
        if let Some(only) = common.key_algorithm {
            let only = only.to_string();
            algorithms.retain(|algorithm| algorithm.name() == only);
        }
        if !verifies || algorithms.is_empty() {
            return None;
        }
        Some(Self { id: jwk.common.key_id.clone(), algorithms, key: DecodingKey::from_jwk(&jwk).ok()? })
    }
}

fn decoded(part: &str) -> Option<Vec<u8>> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    URL_SAFE_NO_PAD.decode(part).ok()
}

/// Whether these are the parts of an RSA key of a size that is neither weak nor made to keep a verifier busy.
fn is_rsa(modulus: &str, exponent: &str) -> bool {
    let (Some(modulus), Some(exponent)) = (decoded(modulus), decoded(exponent)) else { return false };
    let modulus = modulus.iter().skip_while(|byte| **byte == 0).count();
    (256..=512).contains(&modulus) && (1..=4).contains(&exponent.len()) && exponent != [1]
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({})", self.0.len())
    }
}
