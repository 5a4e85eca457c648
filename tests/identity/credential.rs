//! Where credentials come from, who keeps them and for how long.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use proptest::prelude::*;
use serde_json::json;
use tokio::{sync::Notify, time::advance};
use toolstack::{
    Refusal, Router, StackExt, ToolCall, ToolResponse,
    credential::{AuthChallenge, Cached, CredentialError, CredentialProvider, CredentialRejected, StaticCredentials, Token, TokenRequest},
    layer::ChallengeLayer,
    model::{Context, Principal},
    testing::Probe,
    tool::IntoToolError,
};
use tower::ServiceBuilder;

fn text(token: Result<Token, CredentialError>) -> String {
    token.map_or_else(|error| format!("{error:?}"), |token| token.secret().expose().to_owned())
}

#[tokio::test]
async fn a_scope_names_its_variable_as_mcs_does_and_what_was_set_comes_first() {
    let read = |name: &str| match name {
        "MCS_TOKEN_GMAIL_READ_ONLY" => Some("from the environment".to_owned()),
        "MCS_TOKEN_EMPTY" => Some(String::new()),
        _ => None,
    };
    let credentials = StaticCredentials::new().credential("mail", "set").or_read(read);
    let get = async |scope: &str| text(credentials.token(&TokenRequest::new(scope)).await);
    assert_eq!(get("mail").await, "set");
    assert_eq!(get("gmail.read-only").await, "from the environment");
    for none in ["empty", "other", "Mail", "a=b", "\0"] {
        assert!(get(none).await.starts_with("Missing"), "{none}");
    }
    assert!(text(credentials.token(&TokenRequest::default()).await).starts_with("Missing"));
    let scope = "no-such.scope-of-anybody";
    assert!(StaticCredentials::environment().token(&TokenRequest::new(scope)).await.is_err());
}

/// A provider whose answers come when they are let go, and which counts.
#[derive(Clone, Default)]
struct Slow {
    asked: Arc<AtomicUsize>,
    go: Arc<Notify>,
    life: Option<Duration>,
    fails: Arc<Mutex<bool>>,
}

impl CredentialProvider for Slow {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        let n = self.asked.fetch_add(1, Relaxed);
        Box::pin(async move {
            self.go.notified().await;
            if *self.fails.lock().unwrap() {
                return Err(CredentialError::missing(request.scope.clone()));
            }
            let token = Token::new(format!("token-{n}"));
            Ok(self.life.map_or_else(|| token.clone(), |life| token.clone().expires_in(life)))
        })
    }
}

/// A provider that answers at once: `token-0`, `token-1`, … with a life.
#[derive(Clone, Default)]
struct Quick(Arc<AtomicUsize>, Option<Duration>);

impl CredentialProvider for Quick {
    fn token<'a>(&'a self, _: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        let token = Token::new(format!("token-{}", self.0.fetch_add(1, Relaxed)));
        Box::pin(async move { Ok(self.1.map_or_else(|| token.clone(), |life| token.clone().expires_in(life))) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_is_kept_until_60_seconds_before_it_ends() {
    let cache = Quick(Arc::default(), Some(Duration::from_secs(3600))).cached();
    let request = TokenRequest::new("mail");
    let get = async || text(cache.token(&request).await);
    assert_eq!(get().await, "token-0");
    advance(Duration::from_secs(3539)).await;
    assert_eq!(get().await, "token-0");
    advance(Duration::from_secs(1)).await;
    assert_eq!(get().await, "token-1");

    // One that does not live that long is given out, and not kept.
    let brief = Quick(Arc::default(), Some(Duration::from_secs(30))).cached();
    assert_eq!((text(brief.token(&request).await), text(brief.token(&request).await)), ("token-0".into(), "token-1".into()));
    // One that does not end is kept.
    let endless = Quick::default().cached();
    text(endless.token(&request).await);
    advance(Duration::from_secs(1 << 30)).await;
    assert_eq!(text(endless.token(&request).await), "token-0");
}

#[tokio::test]
async fn what_was_not_accepted_is_thrown_away_and_what_came_after_it_stays() {
    let cache = Quick::default().cached();
    let request = TokenRequest::new("mail");
    let old = cache.token(&request).await.unwrap();
    cache.invalidate(&request, Some(&old));
    let new = cache.token(&request).await.unwrap();
    assert!(!new.is_same(&old));
    // A call that was slower says so of the old one, too.
    cache.invalidate(&request, Some(&old));
    assert!(cache.token(&request).await.unwrap().is_same(&new));
    cache.invalidate(&request, None);
    assert_eq!(text(cache.token(&request).await), "token-2");
}

#[tokio::test]
async fn a_credential_is_for_its_scope_and_principal_and_strangers_share_none_between_conversations() {
    let cache = Quick::default().cached();
    let of = |scope: &str, context: Context| TokenRequest::of(&ToolCall::new("t", ()).with_context(context), Some(scope));
    let ada = || Context::new().with_principal(Principal::new("ada"));
    let mut from_elsewhere = Principal::new("ada");
    from_elsewhere.issuer = Some("https://id.example".to_owned());
    let keys = [
        of("mail", ada()),
        of("calendar", ada()),
        of("mail", Context::new().with_principal(Principal::new("bob"))),
        of("mail", Context::new().with_principal(from_elsewhere)),
        of("mail", Context::new().with_session("s1")),
        of("mail", Context::new().with_session("s2")),
        of("mail", Context::new()),
        TokenRequest::default(),
    ];
    for round in 0..2 {
        for (n, request) in keys.iter().enumerate() {
            assert_eq!(text(cache.token(request).await), format!("token-{n}"), "{round}");
        }
    }
    // Where somebody is known, the conversation does not matter; nor do the scopes of the caller's own token.
    let again = of("mail", Context::new().with_principal(Principal::new("ada").scope("x")).with_session("s3"));
    assert_eq!(text(cache.token(&again).await), "token-0");
}

#[tokio::test]
async fn so_many_credentials_are_kept_and_no_more() {
    let cache = Quick::default().cached().max_keys(2);
    for scope in ["a", "b", "a", "c"] {
        cache.token(&TokenRequest::new(scope)).await.unwrap();
    }
    assert_eq!(text(cache.token(&TokenRequest::new("a")).await), "token-0");
    assert_eq!(text(cache.token(&TokenRequest::new("b")).await), "token-3");
}

#[tokio::test]
async fn many_calls_at_once_fetch_once() {
    let slow = Slow::default();
    let cache = Arc::new(slow.clone().cached());
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { text(cache.token(&TokenRequest::new("mail")).await) })
        })
        .collect();
    tokio::task::yield_now().await;
    slow.go.notify_one();
    for call in join_all(calls).await {
        assert_eq!(call.unwrap(), "token-0");
    }
    assert_eq!(slow.asked.load(Relaxed), 1);
}

#[tokio::test]
async fn when_the_call_that_fetches_is_dropped_the_next_one_fetches_for_the_others() {
    let slow = Slow::default();
    let cache = slow.clone().cached();
    let request = TokenRequest::new("mail");
    let (mut leader, mut second, mut third) = (cache.token(&request), cache.token(&request), cache.token(&request));
    assert!(leader.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
    assert_eq!(slow.asked.load(Relaxed), 1);
    drop(leader);
    assert!(second.as_mut().now_or_never().is_none());
    assert_eq!(slow.asked.load(Relaxed), 2);
    // Neither does a follower that goes hold up the others.
    let fourth = cache.token(&request);
    drop(third);
    slow.go.notify_one();
    assert_eq!((text(second.await), text(fourth.await)), ("token-1".into(), "token-1".into()));
    assert_eq!(slow.asked.load(Relaxed), 2);
}

#[tokio::test]
async fn an_error_is_shared_by_those_who_waited_and_kept_for_nobody_else() {
    let slow = Slow::default();
    *slow.fails.lock().unwrap() = true;
    let cache = slow.clone().cached();
    let request = TokenRequest::new("mail");
    let mut waiting: Vec<_> = (0..10).map(|_| cache.token(&request)).collect();
    for call in &mut waiting {
        assert!(call.now_or_never().is_none());
    }
    slow.go.notify_one();
    for call in join_all(waiting).await {
        assert!(text(call).starts_with("Missing"));
    }
    assert_eq!(slow.asked.load(Relaxed), 1);
    *slow.fails.lock().unwrap() = false;
    slow.go.notify_one();
    assert_eq!(text(cache.token(&request).await), "token-1");
}

#[tokio::test]
async fn a_cache_behind_the_layer_is_asked_by_each_call_and_fetches_once() {
    let quick = Quick::default();
    let tool = Probe::answering(|call| match Token::of(&call.context) {
        Some(_) => ToolResponse::text("ok"),
        None => AuthChallenge::new("Sign in.").scope("mail").into_tool_error(),
    });
    let stack = ServiceBuilder::new().layer(ChallengeLayer::new(Cached::new(quick.clone()))).service(Router::new().tool(tool.tool("mail")));
    for answer in join_all((0..20).map(|_| stack.call_tool("mail", json!({})))).await {
        assert!(answer.is_completed());
    }
    assert_eq!((tool.runs(), quick.0.load(Relaxed)), (40, 1));
}

proptest! {
    /// Nothing that a program may print, log or hand to the model shows a token. The capitals make it a text that is nowhere by chance.
    #[test]
    fn a_token_is_shown_nowhere(secret in "SECRET[A-Z0-9]{8,40}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let token = Token::new(secret.clone()).scopes(["mail"]).expires_in(Duration::from_secs(9));
            let credentials = StaticCredentials::new().credential("mail", secret.clone());
            let cache = Arc::new(credentials.clone().cached());
            let fetched = cache.token(&TokenRequest::new("mail")).await.unwrap();
            let mut context = Context::new();
            context.extensions_mut().insert(token.clone());
            let call = ToolCall::new("mail", json!({})).with_context(context.clone());
            let rejected = CredentialRejected::new("mail").token(token.clone());
            let failed = CredentialError::failed(format!("the server said {secret}"));
            let challenge = AuthChallenge::new("Sign in.").url(format!("https://id.example/?t={secret}")).code(secret.clone());
            let refusals = [Refusal::from(rejected.clone()), Refusal::from(failed.clone())];
            let mut seen = format!(
                "{token:?}{fetched:?}{credentials:?}{cache:?}{context:?}{call:?}{rejected:?}{rejected}{failed:?}{failed}{challenge:?}{challenge}{refusals:?}{:?}{:?}",
                token.bearer(), ChallengeLayer::new(Arc::clone(&cache))
            );
            for refusal in refusals {
                seen.push_str(&serde_json::to_string(&ToolResponse::refused(refusal)).unwrap());
            }
            seen.push_str(&serde_json::to_string(&call).unwrap());

            let tool = Probe::answering(move |call| match Token::of(&call.context) {
                Some(token) => CredentialRejected::new("mail").token(token.clone()).into_tool_error(),
                None => AuthChallenge::new("Sign in.").scope("mail").into_tool_error(),
            });
            let stack = ServiceBuilder::new().layer(ChallengeLayer::new(credentials)).service(Router::new().tool(tool.tool("mail")));
            let answer = stack.call_tool("mail", json!({})).await;
            seen.push_str(&format!("{answer:?}{stack:?}{}{:?}", serde_json::to_string(&answer).unwrap(), stack.describe().await));
            assert_eq!(tool.runs(), 2);
            prop_assert!(!seen.contains(&secret), "{seen}");
            Ok(())
        })?;
    }
}
