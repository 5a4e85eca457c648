//! Keys that are fetched: once for many, again when they are old or another one is named, and never more often than that.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::time::advance;
use toolstack::{
    BoxError,
    layer::authenticate::{
        BearerToken, TokenVerifier,
        jwt::{JwtError, JwtVerifier},
    },
};

use crate::{
    keys,
    mint::{AUDIENCE, ISSUER, NOW, at, document, fault, jwk, token_headed, token_with, verdict},
};

/// An issuer whose answer can be changed, and who counts how often it is asked.
#[derive(Clone, Default)]
struct Issuer {
    asked: Arc<AtomicU32>,
    answer: Arc<Mutex<Option<String>>>,
    takes: Duration,
}

impl Issuer {
    fn new() -> Self {
        let issuer = Self::default();
        issuer.answers(Some(document()));
        issuer
    }

    fn answers(&self, answer: Option<String>) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    fn verifier(&self) -> JwtVerifier {
        let issuer = self.clone();
        let source = move || {
            let issuer = issuer.clone();
            async move {
                issuer.asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(issuer.takes).await;
                let answer = issuer.answer.lock().unwrap().clone();
                answer.ok_or_else(|| BoxError::from("the issuer is away"))
            }
        };
        JwtVerifier::with_source(source, ISSUER, AUDIENCE).unwrap().clock(|| at(NOW))
    }
}

fn unknown(kid: u32) -> String {
    token_headed(json!({ "alg": "ES256", "kid": format!("unknown-{kid}") }))
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_once_and_then_nothing_waits() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier();
    let token = BearerToken::new(token_with(json!({}))).unwrap();
    assert!(verifier.verify_now(&token).is_none());
    for _ in 0..10 {
        assert!(verdict(&verifier, token.expose()).await.is_ok());
        assert!(verifier.verify_now(&token).unwrap().is_ok());
    }
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_is_one_fetch_in_an_interval() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier();
    assert!(verdict(&verifier, &token_with(json!({}))).await.is_ok());
    for second in 0..90 {
        for n in 0..20 {
            assert_eq!(fault(&verifier, &unknown(second * 20 + n)).await, JwtError::Key);
        }
        advance(Duration::from_secs(1)).await;
    }
    // At the start, and once in each half minute after it.
    assert_eq!(issuer.asked(), 3);
    assert!(verdict(&verifier, &token_with(json!({}))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_token_of_ours_is_refused_before_keys_are_fetched() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier();
    for token in ["a.b.c", "a", &token_headed(json!({ "alg": "none" })), &token_headed(json!({ "alg": "ES256", "crit": [] }))] {
        fault(&verifier, token).await;
    }
    assert_eq!(issuer.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_share_one_fetch() {
    let issuer = Issuer { takes: Duration::from_secs(2), ..Issuer::new() };
    let verifier = Arc::new(issuer.verifier());
    let calls = (0..50).map(|n| {
        let verifier = Arc::clone(&verifier);
        tokio::spawn(async move {
            let token = if n % 2 == 0 { token_with(json!({})) } else { unknown(n) };
            verdict(&verifier, &token).await.is_ok()
        })
    });
    let calls: Vec<_> = calls.collect();
    let mut good = 0;
    for call in calls {
        good += u32::from(call.await.unwrap());
    }
    assert_eq!((good, issuer.asked()), (25, 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_does_not_take_the_fetch_along() {
    let issuer = Issuer { takes: Duration::from_secs(2), ..Issuer::new() };
    let verifier = issuer.verifier();
    let token = BearerToken::new(token_with(json!({}))).unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), verifier.verify(&token)).await.is_err());
    // Somebody else takes it up where it stands.
    assert!(verifier.verify(&token).await.is_ok());
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_new_is_found_and_one_that_was_withdrawn_is_not() {
    let issuer = Issuer::new();
    issuer.answers(Some(json!({ "keys": [jwk(keys::RSA_JWK, "rsa")] }).to_string()));
    let verifier = issuer.verifier();
    assert_eq!(fault(&verifier, &token_with(json!({}))).await, JwtError::Key);

    issuer.answers(Some(json!({ "keys": [jwk(keys::EC_JWK, "ec")] }).to_string()));
    assert_eq!(fault(&verifier, &token_with(json!({}))).await, JwtError::Key);
    advance(Duration::from_secs(31)).await;
    assert!(verdict(&verifier, &token_with(json!({}))).await.is_ok());

    issuer.answers(Some(json!({ "keys": [] }).to_string()));
    assert!(verdict(&verifier, &token_with(json!({}))).await.is_ok());
    advance(Duration::from_secs(15 * 60)).await;
    assert_eq!(fault(&verifier, &token_with(json!({}))).await, JwtError::Key);
    assert_eq!(issuer.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn keys_are_used_for_a_while_where_the_issuer_is_away() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier().key_age(Duration::from_secs(60), Duration::from_secs(600));
    let token = token_with(json!({}));
    assert!(verdict(&verifier, &token).await.is_ok());
    for answer in [None, Some("<html>gateway timeout</html>".to_owned())] {
        issuer.answers(answer);
        advance(Duration::from_secs(200)).await;
        assert!(verdict(&verifier, &token).await.is_ok());
        assert_eq!(fault(&verifier, &unknown(1)).await, JwtError::Key);
    }
    advance(Duration::from_secs(201)).await;
    let error = verifier.verify(&BearerToken::new(token.clone()).unwrap()).await.unwrap_err();
    assert!(error.is_unavailable());

    issuer.answers(Some(document()));
    advance(Duration::from_secs(31)).await;
    assert!(verdict(&verifier, &token).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn without_keys_nothing_passes_and_nobody_s_token_is_blamed() {
    let issuer = Issuer { takes: Duration::from_secs(3_600), ..Issuer::new() };
    let verifier = issuer.verifier().fetch_timeout(Duration::from_secs(5));
    let token = BearerToken::new(token_with(json!({}))).unwrap();
    let began = tokio::time::Instant::now();
    let error = verifier.verify(&token).await.unwrap_err();
    assert!(error.is_unavailable() && began.elapsed() == Duration::from_secs(5));
    // Until it is time to ask again, the answer comes at once.
    let error = verifier.verify(&token).await.unwrap_err();
    assert!(error.is_unavailable() && began.elapsed() == Duration::from_secs(5) && issuer.asked() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_asked_again() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let source = move || {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            assert!(!first, "broken for now");
            Ok::<_, BoxError>(document())
        }
    };
    let verifier = JwtVerifier::with_source(source, ISSUER, AUDIENCE).unwrap().clock(|| at(NOW));
    let token = BearerToken::new(token_with(json!({}))).unwrap();
    for _ in 0..3 {
        assert!(verifier.verify(&token).await.unwrap_err().is_unavailable());
    }
    advance(Duration::from_secs(30)).await;
    assert!(verifier.verify(&token).await.is_ok());
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}
