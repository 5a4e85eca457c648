//! What the claims of a token have to be, and what becomes of them.

use serde_json::{Value, json};
use toolstack::layer::authenticate::jwt::JwtError;

use crate::mint::{AUDIENCE, ISSUER, NOW, at, fault, token_with, verdict, verifier};

fn wrong(claim: &str) -> JwtError {
    JwtError::Claim(claim.to_owned())
}

fn missing(claim: &str) -> JwtError {
    JwtError::Missing(claim.to_owned())
}

#[tokio::test]
async fn a_token_ends_and_clocks_may_be_a_little_apart() {
    let leeway = 60;
    for exp in [NOW + 300, NOW, NOW - leeway + 1] {
        let verified = verdict(&verifier(), &token_with(json!({ "exp": exp }))).await.unwrap();
        assert_eq!(verified.expires, Some(at(exp + leeway)));
    }
    for exp in [NOW - leeway, NOW - 10_000, 0] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "exp": exp }))).await, JwtError::Expired, "{exp}");
    }
    let strict = || verifier().leeway(std::time::Duration::ZERO);
    assert_eq!(fault(&strict(), &token_with(json!({ "exp": NOW }))).await, JwtError::Expired);
    assert!(verdict(&strict(), &token_with(json!({ "exp": NOW as f64 + 0.5 }))).await.is_ok());
    assert_eq!(fault(&verifier(), &token_with(json!({ "exp": null }))).await, missing("exp"));
    for exp in [json!("1900000300"), json!(-1), json!(1e300), json!(u64::MAX), json!(true), json!([NOW + 300])] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "exp": exp }))).await, wrong("exp"), "{exp}");
    }
}

#[tokio::test]
async fn a_token_begins() {
    for nbf in [0, NOW, NOW + 60] {
        assert!(verdict(&verifier(), &token_with(json!({ "nbf": nbf }))).await.is_ok(), "{nbf}");
    }
    for nbf in [NOW + 61, NOW + 10_000] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "nbf": nbf }))).await, JwtError::NotYet, "{nbf}");
    }
    assert_eq!(fault(&verifier(), &token_with(json!({ "nbf": "soon" }))).await, wrong("nbf"));
}

#[tokio::test]
async fn a_token_is_for_this_audience() {
    let other = "https://other.example.com/mcp";
    for aud in [json!(AUDIENCE), json!([AUDIENCE]), json!([other, AUDIENCE])] {
        assert!(verdict(&verifier(), &token_with(json!({ "aud": aud }))).await.is_ok(), "{aud}");
    }
    let longer = format!("{AUDIENCE}/");
    for aud in [json!(other), json!([]), json!([other]), json!(""), json!(longer), json!(AUDIENCE.to_uppercase()), json!("https://tools")] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "aud": aud }))).await, JwtError::Audience, "{aud}");
    }
    for aud in [json!(1), json!({ AUDIENCE: true }), json!([AUDIENCE, 1]), json!([[AUDIENCE]]), json!(true)] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "aud": aud }))).await, wrong("aud"), "{aud}");
    }
    assert_eq!(fault(&verifier(), &token_with(json!({ "aud": null }))).await, missing("aud"));
    assert!(verdict(&verifier().audience(other), &token_with(json!({ "aud": other }))).await.is_ok());
}

#[tokio::test]
async fn a_token_is_by_this_issuer() {
    let longer = format!("{ISSUER}evil");
    for iss in [json!("https://evil.test/"), json!(longer), json!("https://login.example.com"), json!(""), json!([ISSUER]), json!(1)] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "iss": iss }))).await, JwtError::Issuer, "{iss}");
    }
    assert_eq!(fault(&verifier(), &token_with(json!({ "iss": null }))).await, missing("iss"));
}

#[tokio::test]
async fn a_token_stands_for_somebody() {
    assert_eq!(fault(&verifier(), &token_with(json!({ "sub": null }))).await, missing("sub"));
    for sub in [json!(""), json!(7), json!(["ada"])] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "sub": sub }))).await, wrong("sub"), "{sub}");
    }
    let by_client = verifier().subject_claim("client_id");
    assert_eq!(verdict(&by_client, &token_with(json!({ "sub": null, "client_id": "ci" }))).await.unwrap().principal.subject, "ci");
}

#[tokio::test]
async fn a_claim_that_is_required_is_there_and_says_what_it_has_to() {
    let verifier = || verifier().require("jti").require_value("tenant", "acme");
    assert!(verdict(&verifier(), &token_with(json!({ "jti": "1", "tenant": "acme" }))).await.is_ok());
    assert_eq!(fault(&verifier(), &token_with(json!({ "tenant": "acme" }))).await, missing("jti"));
    assert_eq!(fault(&verifier(), &token_with(json!({ "jti": "1" }))).await, missing("tenant"));
    for tenant in [json!("evil"), json!(["acme"]), json!("ACME")] {
        assert_eq!(fault(&verifier(), &token_with(json!({ "jti": "1", "tenant": tenant }))).await, wrong("tenant"), "{tenant}");
    }
}

#[tokio::test]
async fn claims_become_the_facts_of_the_principal_and_the_rest_stays() {
    let token = token_with(json!({
        "scope": "files:read  files:write", "acr": "mfa", "auth_time": NOW - 20, "tenant": { "id": 7 }, "client_id": "web",
    }));
    let principal = verdict(&verifier(), &token).await.unwrap().principal;
    assert_eq!((principal.subject.as_str(), principal.issuer.as_deref(), principal.acr.as_deref()), ("ada", Some(ISSUER), Some("mfa")));
    assert_eq!(principal.scopes.iter().map(String::as_str).collect::<Vec<_>>(), ["files:read", "files:write"]);
    assert_eq!(principal.auth_time, Some(at(NOW - 20)));
    assert_eq!(principal.claims.get::<Value>("tenant").unwrap(), Some(json!({ "id": 7 })));
    let left: Vec<&str> = principal.claims.iter().map(|(claim, _)| claim).collect();
    assert!(left.contains(&"client_id") && !left.contains(&"sub") && !left.contains(&"scope"), "{left:?}");
}

#[tokio::test]
async fn scopes_are_a_text_or_a_list_under_either_name() {
    for (changes, scopes) in [
        (json!({ "scp": ["a", "b"] }), vec!["a", "b"]),
        (json!({ "scp": "a b" }), vec!["a", "b"]),
        (json!({ "scope": ["a"] }), vec!["a"]),
        (json!({ "scope": "" }), vec![]),
        (json!({ "scope": "a", "scp": ["b"] }), vec!["a", "b"]),
    ] {
        let principal = verdict(&verifier(), &token_with(changes.clone())).await.unwrap().principal;
        assert_eq!(principal.scopes.iter().map(String::as_str).collect::<Vec<_>>(), scopes, "{changes}");
    }
    for (claim, value) in [("scope", json!(1)), ("scp", json!(["a", 1])), ("scp", json!([""])), ("scope", json!({ "a": true }))] {
        assert_eq!(fault(&verifier(), &token_with(json!({ claim: value }))).await, wrong(claim), "{value}");
    }
    for (claim, value) in [("acr", json!(1)), ("auth_time", json!("now")), ("auth_time", json!(-5))] {
        assert_eq!(fault(&verifier(), &token_with(json!({ claim: value }))).await, wrong(claim), "{value}");
    }
}
