//! Tokens that other libraries made, with keys that they read themselves.

use jsonwebtoken::{Algorithm, EncodingKey};
use jwt_compact::{
    AlgorithmExt, Claims, Header,
    alg::{Ed25519, Es256, Hs256, Hs256Key, Hs384, Hs384Key, Hs512, Hs512Key, Rsa, RsaPrivateKey},
    jwk::JsonWebKey,
};
use serde_json::{Value, json};
use toolstack::{
    layer::authenticate::jwt::{JwtError, JwtVerifier, SecretAlgorithm},
    model::Secret,
};

use crate::{
    keys,
    mint::{AUDIENCE, ISSUER, NOW, at, claims, fault, forge, kid, signer, verdict, verifier},
};

/// A private key as that library reads it.
fn key<K>(parts: &[(&str, &str)]) -> K
where
    K: for<'a> TryFrom<&'a JsonWebKey<'a>, Error: std::fmt::Debug>,
{
    let json: Value = parts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into();
    let text = json.to_string();
    let jwk: JsonWebKey<'_> = serde_json::from_str(&text).unwrap();
    K::try_from(&jwk).unwrap()
}

fn told() -> Claims<Value> {
    Claims::new(claims(json!({ "scope": "files:read" })))
}

fn headed(kid: &str) -> Header {
    Header::empty().with_key_id(kid)
}

#[tokio::test]
async fn tokens_of_a_second_library_are_verified() {
    let ec = Es256.token(&headed("ec"), &told(), &key(keys::EC_JWK)).unwrap();
    let ed = Ed25519.token(&headed("ed"), &told(), &key(keys::ED_JWK)).unwrap();
    let ed_by_its_own_name = Ed25519::with_specific_name().token(&headed("ed"), &told(), &key(keys::ED_JWK)).unwrap();
    let mut tokens = vec![("ES256", ec), ("EdDSA", ed), ("Ed25519", ed_by_its_own_name)];
    let rsa: RsaPrivateKey = key(keys::RSA_JWK);
    for name in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] {
        tokens.push((name, Rsa::with_name(name).token(&headed("rsa"), &told(), &rsa).unwrap()));
    }
    for (name, token) in tokens {
        let principal = verdict(&verifier(), &token).await.unwrap_or_else(|error| panic!("{name}: {error}")).principal;
        assert!(principal.subject == "ada" && principal.has_scope("files:read"), "{name}");
        // And not if they are somebody else's or over.
        assert_eq!(fault(&verifier().clock(|| at(NOW + 100_000)), &token).await, JwtError::Expired, "{name}");
        let elsewhere = JwtVerifier::with_keys(
            toolstack::layer::authenticate::jwt::KeySet::from_json(&crate::mint::document()).unwrap(),
            ISSUER,
            "https://elsewhere.example.com",
        );
        assert_eq!(fault(&elsewhere.unwrap().clock(|| at(NOW)), &token).await, JwtError::Audience, "{name}");
    }
}

#[tokio::test]
async fn tokens_of_a_second_library_by_a_secret_are_verified() {
    let secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let header = Header::empty();
    for (algorithm, token) in [
        (SecretAlgorithm::Hs256, Hs256.token(&header, &told(), &Hs256Key::new(secret)).unwrap()),
        (SecretAlgorithm::Hs384, Hs384.token(&header, &told(), &Hs384Key::new(secret)).unwrap()),
        (SecretAlgorithm::Hs512, Hs512.token(&header, &told(), &Hs512Key::new(secret)).unwrap()),
    ] {
        let with = |secret: &str| JwtVerifier::with_secret(algorithm, &Secret::new(secret), ISSUER, AUDIENCE).unwrap().clock(|| at(NOW));
        assert_eq!(verdict(&with(secret), &token).await.unwrap().principal.subject, "ada", "{algorithm:?}");
        assert_eq!(fault(&with(&secret.replace('0', "O")), &token).await, JwtError::Signature, "{algorithm:?}");
    }
}

#[tokio::test]
async fn every_algorithm_is_verified() {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};

    for algorithm in [ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512] {
        let header = json!({ "alg": algorithm, "kid": kid(algorithm), "typ": "JWT" }).to_string();
        let token = forge(&header, &claims(json!({})).to_string(), algorithm, &signer(algorithm));
        assert_eq!(verdict(&verifier(), &token).await.unwrap().principal.subject, "ada", "{algorithm:?}");
    }
    // A signature that is good for one message is good for no other.
    let key: EncodingKey = signer(RS256);
    let one = forge(r#"{"alg":"RS256","kid":"rsa"}"#, &claims(json!({})).to_string(), RS256, &key);
    let two = forge(r#"{"alg":"RS256","kid":"rsa"}"#, &claims(json!({ "sub": "root" })).to_string(), RS256, &key);
    let mixed = format!("{}.{}", two.rsplit_once('.').unwrap().0, one.rsplit_once('.').unwrap().1);
    assert_eq!(fault(&verifier(), &mixed).await, JwtError::Signature);
}
