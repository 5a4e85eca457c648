//! Makes tokens, good ones and others: header and claims are texts, so that nothing keeps a test from writing nonsense.

use std::time::{Duration, SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, crypto::sign};
use serde_json::{Value, json};
use toolstack::layer::authenticate::{
    BearerToken, TokenError, TokenVerifier, Verified,
    jwt::{JwtError, JwtVerifier, KeySet},
};

use crate::keys;

pub(crate) const ISSUER: &str = "https://login.example.com/";
pub(crate) const AUDIENCE: &str = "https://tools.example.com/mcp";
/// What time it is in the tests.
pub(crate) const NOW: u64 = 1_900_000_000;

pub(crate) fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn der(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// A key that signs.
pub(crate) fn signer(algorithm: Algorithm) -> EncodingKey {
    match algorithm {
        Algorithm::ES256 => EncodingKey::from_ec_der(&der(keys::EC)),
        Algorithm::ES384 => EncodingKey::from_ec_der(&der(keys::EC384)),
        Algorithm::EdDSA => EncodingKey::from_ed_der(&der(keys::ED)),
        _ => EncodingKey::from_rsa_der(&der(keys::RSA)),
    }
}

/// A key that signs and that nobody trusts.
pub(crate) fn stranger() -> EncodingKey {
    EncodingKey::from_rsa_der(&der(keys::OTHER_RSA))
}

/// The public half of a key as its owner publishes it.
pub(crate) fn jwk(parts: &[(&str, &str)], kid: &str) -> Value {
    let public = parts.iter().filter(|(name, _)| !["d", "p", "q", "dp", "dq", "qi"].contains(name));
    let mut jwk: Value = public.map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into();
    jwk["kid"] = json!(kid);
    jwk
}

/// The document of keys of the issuer.
pub(crate) fn document() -> String {
    json!({ "keys": [
        jwk(keys::RSA_JWK, "rsa"), jwk(keys::EC_JWK, "ec"), jwk(keys::EC384_JWK, "ec384"), jwk(keys::ED_JWK, "ed"),
    ] })
    .to_string()
}

pub(crate) fn kid(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::ES256 => "ec",
        Algorithm::ES384 => "ec384",
        Algorithm::EdDSA => "ed",
        _ => "rsa",
    }
}

pub(crate) fn part(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// Signs whatever stands there.
pub(crate) fn forge(header: &str, claims: &str, algorithm: Algorithm, key: &EncodingKey) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let signature = sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

/// Claims that are good, with others in the place of some: `null` takes one away.
pub(crate) fn claims(changes: Value) -> Value {
    let mut claims = json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": NOW + 300 });
    for (claim, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(claim);
        } else {
            claims[claim] = value.clone();
        }
    }
    claims
}

/// A token that is good but for these claims.
pub(crate) fn token_with(changes: Value) -> String {
    forge(&json!({ "alg": "ES256", "kid": "ec" }).to_string(), &claims(changes).to_string(), Algorithm::ES256, &signer(Algorithm::ES256))
}

/// A token that is good but for these fields of its header.
pub(crate) fn token_headed(header: Value) -> String {
    forge(&header.to_string(), &claims(json!({})).to_string(), Algorithm::ES256, &signer(Algorithm::ES256))
}

pub(crate) fn verifier() -> JwtVerifier {
    JwtVerifier::with_keys(KeySet::from_json(&document()).unwrap(), ISSUER, AUDIENCE).unwrap().clock(|| at(NOW))
}

/// What a verifier says of a token, and that it says the same with and without waiting.
pub(crate) async fn verdict(verifier: &JwtVerifier, token: &str) -> Result<Verified, JwtError> {
    let token = BearerToken::new(token.to_owned()).expect("a token in form");
    let told = |result: Result<Verified, TokenError>| {
        result.map_err(|error| {
            assert!(!error.is_unavailable(), "{error:?}");
            std::error::Error::source(&error).unwrap().downcast_ref::<JwtError>().unwrap().clone()
        })
    };
    let later = told(verifier.verify(&token).await);
    if let Some(now) = verifier.verify_now(&token) {
        assert_eq!(told(now).map(|verified| verified.principal), later.clone().map(|verified| verified.principal));
    }
    later
}

/// Why a token is refused.
pub(crate) async fn fault(verifier: &JwtVerifier, token: &str) -> JwtError {
    verdict(verifier, token).await.err().unwrap_or_else(|| panic!("accepted: {token}"))
}
