//! Dropped, failed, not ready, many at once.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolstack::{
    RefusalKind, Router, StackExt,
    layer::{
        AuthenticateLayer, CatchPanicLayer,
        authenticate::{BearerToken, TokenError, Verified},
    },
    model::Principal,
    testing::Probe,
};
use tower::{ServiceBuilder, limit::ConcurrencyLimitLayer};

use super::{Slow, refusal, stack, token, tokens, who};

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_its_token_is_verified_runs_nothing_and_holds_nothing() {
    let probe = Probe::new();
    let slow = Slow::default();
    let stack = ServiceBuilder::new()
        .layer(slow.layer())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Router::new().tool(probe.tool("who")))
        .into_stack();
    let never_polled = stack.run_call(token("ada-t0ken"));
    drop(never_polled);
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(500), stack.run_call(token("ada-t0ken"))).await.is_err());
    }
    assert_eq!(probe.runs(), 0);
    assert!(stack.run_call(token("ada-t0ken")).await.is_completed());
    assert_eq!(probe.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_place_of_a_limit_within_is_not_held_while_a_token_is_verified() {
    let slow = Slow::default();
    let stack = ServiceBuilder::new()
        .layer(slow.layer().bearer(tokens()))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Router::new().tool(Probe::new().tool("who")))
        .into_stack();
    let began = tokio::time::Instant::now();
    let calls = (0..20).map(|_| stack.run_call(token("ada-t0ken")));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| answer.is_completed()));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test]
async fn a_verifier_that_panics_lets_nothing_pass() {
    let layer = AuthenticateLayer::new().bearer(|_: BearerToken| async { panic!("broken") as Result<Verified, TokenError> });
    let probe = Probe::new();
    let stack =
        ServiceBuilder::new().layer(CatchPanicLayer::new()).layer(layer).service(Router::new().tool(probe.tool("who"))).into_stack();
    assert_eq!(refusal(&stack.run_call(token("t")).await).kind(), RefusalKind::Internal);
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn a_refusal_from_within_passes() {
    let stack = stack(AuthenticateLayer::new().bearer(tokens()));
    let answer = stack.run_call(toolstack::ToolCall::new("nope", json!({})).with_context(token("ada-t0ken").context)).await;
    assert_eq!(refusal(&answer).kind(), RefusalKind::UnknownTool);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_once_are_told_apart() {
    let verify = async |token: BearerToken| {
        tokio::task::yield_now().await;
        Ok::<_, TokenError>(Verified::new(Principal::new(token.expose())))
    };
    let stack = Arc::new(stack(AuthenticateLayer::new().bearer(verify).remember(16, Duration::from_secs(60))));
    let calls = (0..200).map(|n| {
        let stack = Arc::clone(&stack);
        tokio::spawn(async move {
            let subject = format!("caller-{}", n % 20);
            assert_eq!(who(&stack, token(&subject)).await, Some(subject));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}
