//! What is known to be tried with tokens, and comes to nothing.

use base64::{Engine, engine::general_purpose::STANDARD};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::json;
use toolstack::{
    layer::authenticate::{
        BearerToken, BearerTokenError,
        jwt::{JwtError, JwtVerifier, PublicAlgorithm, SecretAlgorithm},
    },
    model::Secret,
};

use crate::{
    keys,
    mint::{
        AUDIENCE, ISSUER, NOW, at, claims, document, fault, forge, jwk, part, signer, stranger, token_headed, token_with, verdict, verifier,
    },
};

fn unsigned(header: &str, signature: &str) -> String {
    format!("{}.{}.{signature}", part(header), part(claims(json!({})).to_string()))
}

#[tokio::test]
async fn no_algorithm_is_none_however_it_is_spelt() {
    for spelt in ["none", "None", "NONE", "nOnE", "none ", "", "nоne", "HS256", "es256", "ES256K", "ES512", "RSA-OAEP", "dir"] {
        let header = json!({ "alg": spelt, "kid": "ec" }).to_string();
        assert_eq!(fault(&verifier(), &unsigned(&header, "AAAA")).await, JwtError::Algorithm, "{spelt:?}");
        assert!(matches!(fault(&verifier(), &unsigned(&header, "")).await, JwtError::Malformed(_)), "{spelt:?}");
    }
    assert_eq!(fault(&verifier(), &unsigned(r#"{"kid":"ec"}"#, "AAAA")).await, JwtError::Algorithm);
    for wrong in [json!(null), json!(1), json!(["ES256"]), json!({ "ES256": true })] {
        let header = json!({ "alg": wrong, "kid": "ec" }).to_string();
        assert!(matches!(fault(&verifier(), &unsigned(&header, "AAAA")).await, JwtError::Malformed(_)), "{wrong}");
    }
}

#[tokio::test]
async fn a_public_key_is_nobody_s_secret() {
    let of = |parts: &[(&str, &str)], name: &str| parts.iter().find(|(part, _)| *part == name).unwrap().1.to_owned();
    let modulus = of(keys::RSA_JWK, "n");
    for key in [
        document().into_bytes(),
        jwk(keys::RSA_JWK, "rsa").to_string().into_bytes(),
        modulus.clone().into_bytes(),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(&modulus).unwrap(),
        of(keys::EC_JWK, "x").into_bytes(),
        STANDARD.decode(keys::RSA).unwrap(),
    ] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            for kid in ["rsa", "ec"] {
                let header = json!({ "alg": format!("{algorithm:?}"), "kid": kid }).to_string();
                let key = EncodingKey::from_secret(&key).unwrap();
                let token = forge(&header, &claims(json!({})).to_string(), algorithm, &key);
                assert_eq!(fault(&verifier(), &token).await, JwtError::Algorithm);
            }
        }
    }
}

#[tokio::test]
async fn a_secret_verifies_one_algorithm_and_no_signature_of_a_key_pair() {
    let secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let verifier = JwtVerifier::with_secret(SecretAlgorithm::Hs256, &Secret::new(secret), ISSUER, AUDIENCE).unwrap().clock(|| at(NOW));
    let sign = |algorithm: Algorithm, named: &str| {
        let header = json!({ "alg": named }).to_string();
        forge(&header, &claims(json!({})).to_string(), algorithm, &EncodingKey::from_secret(secret.as_bytes()).unwrap())
    };
    assert_eq!(verdict(&verifier, &sign(Algorithm::HS256, "HS256")).await.unwrap().principal.subject, "ada");
    assert_eq!(fault(&verifier, &sign(Algorithm::HS512, "HS512")).await, JwtError::Algorithm);
    assert_eq!(fault(&verifier, &sign(Algorithm::HS512, "HS256")).await, JwtError::Signature);
    assert_eq!(fault(&verifier, &token_with(json!({}))).await, JwtError::Algorithm);
    assert_eq!(fault(&verifier, &unsigned(r#"{"alg":"none"}"#, "AAAA")).await, JwtError::Algorithm);
}

#[tokio::test]
async fn a_key_fits_the_algorithms_of_its_own_kind_only() {
    for (named, kid, error) in [
        ("RS256", "ec", JwtError::Key),
        ("ES256", "rsa", JwtError::Key),
        ("EdDSA", "ec", JwtError::Key),
        ("ES384", "ec", JwtError::Key),
        ("RS256", "rsa", JwtError::Signature),
        ("PS256", "rsa", JwtError::Signature),
    ] {
        assert_eq!(fault(&verifier(), &token_headed(json!({ "alg": named, "kid": kid }))).await, error, "{named} {kid}");
    }
    // The padding of one is not that of the other.
    let header = json!({ "alg": "PS256", "kid": "rsa" }).to_string();
    let token = forge(&header, &claims(json!({})).to_string(), Algorithm::RS256, &signer(Algorithm::RS256));
    assert_eq!(fault(&verifier(), &token).await, JwtError::Signature);
}

#[tokio::test]
async fn only_algorithms_that_are_allowed_are_looked_at() {
    let narrow = verifier().algorithms([PublicAlgorithm::Rs256]);
    assert_eq!(fault(&narrow, &token_with(json!({}))).await, JwtError::Algorithm);
    assert_eq!(fault(&verifier().algorithms([]), &token_with(json!({}))).await, JwtError::Algorithm);
}

#[tokio::test]
async fn a_token_by_another_key_and_one_that_was_changed_are_refused() {
    let header = json!({ "alg": "RS256", "kid": "rsa" }).to_string();
    let token = forge(&header, &claims(json!({})).to_string(), Algorithm::RS256, &stranger());
    assert_eq!(fault(&verifier(), &token).await, JwtError::Signature);

    let good = token_with(json!({}));
    let mut parts: Vec<&str> = good.split('.').collect();
    let root = part(claims(json!({ "sub": "root" })).to_string());
    parts[1] = &root;
    assert_eq!(fault(&verifier(), &parts.join(".")).await, JwtError::Signature);
}

#[tokio::test]
async fn a_key_that_the_token_brings_along_is_ignored() {
    let brought = json!({
        "alg": "RS256", "kid": "rsa", "jku": "https://evil.test/jwks.json", "x5u": "https://evil.test/cert.pem",
        "jwk": { "kty": "RSA", "n": "AQAB", "e": "AQAB" }, "x5c": ["MIIB"],
    });
    let text = claims(json!({})).to_string();
    let evil = forge(&brought.to_string(), &text, Algorithm::RS256, &stranger());
    assert_eq!(fault(&verifier(), &evil).await, JwtError::Signature);
    // With a good signature they do no harm.
    let good = forge(&brought.to_string(), &text, Algorithm::RS256, &signer(Algorithm::RS256));
    assert_eq!(verdict(&verifier(), &good).await.unwrap().principal.subject, "ada");
}

#[tokio::test]
async fn what_a_token_demands_to_be_understood_is_not() {
    for header in [
        json!({ "alg": "ES256", "kid": "ec", "crit": ["exp"] }),
        json!({ "alg": "ES256", "kid": "ec", "crit": [] }),
        json!({ "alg": "ES256", "kid": "ec", "crit": null }),
        json!({ "alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": false }),
        json!({ "alg": "ES256", "kid": "ec", "b64": false }),
    ] {
        assert_eq!(fault(&verifier(), &token_headed(header.clone())).await, JwtError::Critical, "{header}");
    }
}

#[tokio::test]
async fn the_name_of_a_key_is_a_name_and_nothing_else() {
    for kid in ["../../../../dev/null", "' OR '1'='1", "ec' UNION SELECT 'x", "rsa\0", "EC", " ec", "*", "https://evil.test/", "|/bin/true"]
    {
        assert_eq!(fault(&verifier(), &token_headed(json!({ "alg": "ES256", "kid": kid }))).await, JwtError::Key, "{kid:?}");
    }
    assert_eq!(fault(&verifier(), &token_headed(json!({ "alg": "ES256", "kid": "e".repeat(300) }))).await, JwtError::Key);
    for kid in [json!(null), json!(0), json!(["ec"]), json!({ "ec": 1 })] {
        let error = fault(&verifier(), &token_headed(json!({ "alg": "ES256", "kid": kid }))).await;
        assert!(matches!(error, JwtError::Malformed(_)), "{kid}");
    }
    // Without one the only key that fits is meant.
    assert!(verdict(&verifier(), &token_headed(json!({ "alg": "ES256" }))).await.is_ok());
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_not_read() {
    let key = signer(Algorithm::ES256);
    let good = claims(json!({})).to_string();
    let twice = format!(r#"{{"sub":"root",{}"#, &good[1..]);
    let spelt = format!(r#"{{"s\u0075b":"root",{}"#, &good[1..]);
    let deep = format!(r#"{{"x":{{"a":1,"a":2}},{}"#, &good[1..]);
    for claims in [twice, spelt, deep, format!("{good}{{}}"), "null".to_owned(), "[]".to_owned(), String::from("\u{feff}{}")] {
        let token = forge(r#"{"alg":"ES256","kid":"ec"}"#, &claims, Algorithm::ES256, &key);
        assert!(matches!(fault(&verifier(), &token).await, JwtError::Malformed(_)), "{claims}");
    }
    for header in [r#"{"alg":"ES256","kid":"ec","alg":"none"}"#, r#"{"alg":"none","alg":"ES256","kid":"ec"}"#, "{}{}", "3", "{"] {
        let token = forge(header, &good, Algorithm::ES256, &key);
        assert!(matches!(fault(&verifier(), &token).await, JwtError::Malformed(_)), "{header}");
    }
}

#[tokio::test]
async fn a_token_has_three_parts_in_one_form() {
    let good = token_with(json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    let [header, claims, signature] = parts[..] else { panic!("three parts") };
    for token in [
        format!("{header}.{claims}"),
        format!("{header}.{claims}."),
        format!("{header}..{signature}"),
        format!(".{claims}.{signature}"),
        format!("{good}."),
        format!("{good}.{signature}"),
        format!("{header}.{claims}.{signature}="),
        format!("{header}={claims}.{signature}"),
        format!("{header}.{claims}.+/+/"),
        "...".to_owned(),
        "a".to_owned(),
    ] {
        if let Ok(token) = BearerToken::new(token.clone()) {
            assert!(matches!(fault(&verifier(), token.expose()).await, JwtError::Malformed(_)), "{token:?}");
        }
    }
    // The last character of a signature has bits to spare: only one spelling of them is a token.
    let last = good.chars().last().unwrap();
    for other in ('A'..='Z').chain('a'..='z').chain('0'..='9').filter(|other| *other != last) {
        assert!(verdict(&verifier(), &format!("{}{other}", &good[..good.len() - 1])).await.is_err(), "{other}");
    }
}

#[tokio::test]
async fn a_huge_token_is_refused_before_it_is_read() {
    let token = token_with(json!({ "x": "x".repeat(9_000) }));
    assert_eq!(fault(&verifier(), &token).await, JwtError::Malformed("it is too long"));
    assert!(verdict(&verifier().max_length(16 * 1024), &token).await.is_ok());
    let most = BearerToken::MAX_LENGTH;
    assert_eq!(BearerToken::new("x".repeat(most + 1)), Err(BearerTokenError::TooLong));
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(3_000), "]".repeat(3_000));
    let token = forge(r#"{"alg":"ES256","kid":"ec"}"#, &deep, Algorithm::ES256, &signer(Algorithm::ES256));
    assert!(matches!(fault(&verifier(), &token).await, JwtError::Malformed(_)));
}

#[tokio::test]
async fn a_token_is_of_the_type_that_is_asked_for() {
    let strict = || verifier().access_tokens_only();
    for typ in ["at+jwt", "AT+JWT", "application/at+jwt", "Application/At+Jwt"] {
        assert!(verdict(&strict(), &token_headed(json!({ "alg": "ES256", "kid": "ec", "typ": typ }))).await.is_ok(), "{typ}");
    }
    for typ in ["JWT", "", "at", "xat+jwt", "application/", "text/at+jwt", "at+jwté", "applicatioé/at+jwt"] {
        let token = token_headed(json!({ "alg": "ES256", "kid": "ec", "typ": typ }));
        assert_eq!(fault(&strict(), &token).await, JwtError::Type, "{typ}");
        assert!(verdict(&verifier(), &token).await.is_ok());
    }
    assert_eq!(fault(&strict(), &token_with(json!({}))).await, JwtError::Type);
}
