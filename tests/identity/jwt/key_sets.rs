//! Documents of keys, as issuers and others write them.

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use toolstack::{
    layer::authenticate::jwt::{JwtError, JwtSetupError, JwtVerifier, KeySet, SecretAlgorithm},
    model::Secret,
};

use crate::{
    keys,
    mint::{AUDIENCE, ISSUER, NOW, at, claims, document, fault, forge, jwk, part, signer, token_headed, token_with, verdict, verifier},
};

fn set(keys: Value) -> KeySet {
    KeySet::from_json(&json!({ "keys": keys }).to_string()).unwrap()
}

fn with(jwk: &Value, changes: Value) -> Value {
    let mut jwk = jwk.clone();
    for (name, value) in changes.as_object().unwrap() {
        jwk[name] = value.clone();
    }
    jwk
}

#[test]
fn keys_that_are_of_no_use_here_are_left_out() {
    let (rsa, ec, ed) = (jwk(keys::RSA_JWK, "rsa"), jwk(keys::EC_JWK, "ec"), jwk(keys::ED_JWK, "ed"));
    for (why, key) in [
        ("both sides have it", json!({ "kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ", "kid": "s" })),
        ("for encryption", with(&rsa, json!({ "use": "enc" }))),
        ("for something else", with(&rsa, json!({ "key_ops": ["encrypt"] }))),
        ("of an algorithm of another kind", with(&rsa, json!({ "alg": "HS256" }))),
        ("of an algorithm that does not fit", with(&ec, json!({ "alg": "RS256" }))),
        ("of an unknown algorithm", with(&rsa, json!({ "alg": "RSA-OAEP-512" }))),
        ("short", with(&ed, json!({ "x": part([7; 31]) }))),
        ("empty", with(&ed, json!({ "x": "" }))),
        ("long", with(&ed, json!({ "x": part([7; 64]) }))),
        ("no base64", with(&ed, json!({ "x": "====" }))),
        ("half a point", with(&ec, json!({ "y": "" }))),
        ("a long point", with(&ec, json!({ "x": part([7; 48]), "y": part([7; 48]) }))),
        ("on another curve", with(&ec, json!({ "crv": "P-521" }))),
        ("on no curve", with(&ec, json!({ "crv": "Ed25519" }))),
        ("for agreement", with(&ed, json!({ "crv": "X25519" }))),
        ("weak", with(&rsa, json!({ "n": part([0xff; 128]) }))),
        ("padded with zeros", with(&rsa, json!({ "n": part([vec![0; 200], vec![0xff; 128]].concat()) }))),
        ("huge", with(&rsa, json!({ "n": part(vec![0xff; 4096]) }))),
        ("with an exponent that signs nothing", with(&rsa, json!({ "e": part([1]) }))),
        ("with a huge exponent", with(&rsa, json!({ "e": part([0xff; 64]) }))),
        ("no key", json!({})),
        ("no object", json!("rsa")),
        ("null", json!(null)),
    ] {
        assert_eq!(set(json!([key])).len(), 0, "{why}");
        assert_eq!(set(json!([key, ec])).len(), 1, "{why}");
    }
    assert_eq!(set(json!([with(&rsa, json!({ "use": "sig", "key_ops": ["verify"], "alg": "RS256", "new": 1 })), ed])).len(), 2);
}

#[tokio::test]
async fn a_key_that_lies_off_its_curve_verifies_nothing() {
    for bad in [[0_u8; 32], [7; 32], [0xff; 32]] {
        let keys = set(json!([
            with(&jwk(keys::EC_JWK, "ec"), json!({ "y": part(bad) })),
            with(&jwk(keys::ED_JWK, "ed"), json!({ "x": part(bad) })),
        ]));
        let verifier = JwtVerifier::with_keys(keys, ISSUER, AUDIENCE).unwrap().clock(|| at(NOW));
        assert!(verdict(&verifier, &token_with(json!({}))).await.is_err());
        let header = json!({ "alg": "EdDSA", "kid": "ed" }).to_string();
        let token = forge(&header, &claims(json!({})).to_string(), Algorithm::EdDSA, &signer(Algorithm::EdDSA));
        assert!(verdict(&verifier, &token).await.is_err());
    }
}

#[tokio::test]
async fn keys_that_a_token_cannot_tell_apart_are_none() {
    let ec = jwk(keys::EC_JWK, "ec");
    let twice = JwtVerifier::with_keys(set(json!([ec, ec])), ISSUER, AUDIENCE).unwrap().clock(|| at(NOW));
    assert_eq!(fault(&twice, &token_with(json!({}))).await, JwtError::Key);
    let two = set(json!([ec, with(&ec, json!({ "kid": "new" }))]));
    let two = JwtVerifier::with_keys(two, ISSUER, AUDIENCE).unwrap().clock(|| at(NOW));
    assert!(verdict(&two, &token_with(json!({}))).await.is_ok());
    assert_eq!(fault(&two, &token_headed(json!({ "alg": "ES256" }))).await, JwtError::Key);
    // The same name for keys of different kinds is told apart by the algorithm.
    let rsa = jwk(keys::RSA_JWK, "ec");
    let mixed = JwtVerifier::with_keys(set(json!([ec, rsa])), ISSUER, AUDIENCE).unwrap().clock(|| at(NOW));
    assert!(verdict(&mixed, &token_with(json!({}))).await.is_ok());
}

#[test]
fn a_document_is_bounded_and_can_be_read_in_one_way() {
    let ec = jwk(keys::EC_JWK, "ec");
    assert_eq!(set(json!(vec![ec.clone(); KeySet::MAX_KEYS])).len(), KeySet::MAX_KEYS);
    for document in [
        json!({ "keys": vec![ec; KeySet::MAX_KEYS + 1] }).to_string(),
        format!("{}{}", document(), " ".repeat(KeySet::MAX_LENGTH)),
        r#"{"keys":[],"keys":[]}"#.to_owned(),
        r#"{"keys":[{"kty":"EC","kty":"RSA"}]}"#.to_owned(),
        r#"{"keys":{}}"#.to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        "<html>".to_owned(),
        String::new(),
    ] {
        assert!(matches!(KeySet::from_json(&document), Err(JwtSetupError::KeySet(_))), "{}", document.len());
    }
}

#[test]
fn a_verifier_that_would_accept_anybody_s_tokens_cannot_be() {
    let keys = || KeySet::from_json(&document()).unwrap();
    assert_eq!(JwtVerifier::with_keys(keys(), "", AUDIENCE).unwrap_err(), JwtSetupError::Anybody);
    assert_eq!(JwtVerifier::with_keys(keys(), ISSUER, "").unwrap_err(), JwtSetupError::Anybody);
    for (algorithm, shortest) in [(SecretAlgorithm::Hs256, 32), (SecretAlgorithm::Hs384, 48), (SecretAlgorithm::Hs512, 64)] {
        let secret = |bytes: usize| Secret::new("s".repeat(bytes));
        let error = JwtVerifier::with_secret(algorithm, &secret(shortest - 1), ISSUER, AUDIENCE).unwrap_err();
        assert_eq!(error, JwtSetupError::ShortSecret { shortest });
        assert!(JwtVerifier::with_secret(algorithm, &secret(shortest), ISSUER, AUDIENCE).is_ok());
    }
}

#[test]
fn debug_shows_no_key_and_no_secret() {
    let secret = "hunter2-hunter2-hunter2-hunter2-hunter2";
    let by_secret = JwtVerifier::with_secret(SecretAlgorithm::Hs256, &Secret::new(secret), ISSUER, AUDIENCE).unwrap();
    let bytes = format!("{:?}", secret.as_bytes());
    for shown in [format!("{by_secret:?}"), format!("{by_secret:#?}"), format!("{:?}", verifier())] {
        assert!(!shown.contains("hunter2") && !shown.contains(&bytes[1..40]), "{shown}");
        assert!(shown.starts_with("JwtVerifier"), "{shown}");
    }
}
