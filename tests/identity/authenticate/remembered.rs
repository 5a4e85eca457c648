use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::advance;
use toolstack::{
    StackExt,
    layer::{
        AuthenticateLayer,
        authenticate::{BearerToken, TokenError, Verified},
    },
    model::Principal,
};

use super::{Slow, stack, token, who};
use crate::mint::at;

#[tokio::test(start_paused = true)]
async fn a_token_that_was_good_is_not_verified_again_for_a_while() {
    let slow = Slow::default();
    let stack = stack(slow.layer().remember(8, Duration::from_secs(60)));
    for _ in 0..10 {
        assert_eq!(who(&stack, token("ada-t0ken")).await.as_deref(), Some("ada"));
    }
    assert_eq!(slow.asked(), 1);
    advance(Duration::from_secs(61)).await;
    assert_eq!(who(&stack, token("ada-t0ken")).await.as_deref(), Some("ada"));
    assert_eq!(slow.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_no_good_is_never_remembered() {
    let slow = Slow::default();
    let stack = stack(slow.layer().remember(8, Duration::from_secs(60)));
    for n in 1..=5 {
        assert_eq!(who(&stack, token("eve-t0ken")).await, None);
        assert_eq!(slow.asked(), n);
    }
}

#[tokio::test(start_paused = true)]
async fn a_remembered_token_ends_when_it_ends() {
    let now = Arc::new(AtomicU64::new(1_000));
    let asked = Arc::new(AtomicU32::new(0));
    let verify = {
        let asked = Arc::clone(&asked);
        move |_: BearerToken| {
            let asked = Arc::clone(&asked);
            async move {
                if asked.fetch_add(1, Ordering::Relaxed) > 0 {
                    return Err(TokenError::invalid("over"));
                }
                Ok(Verified::new(Principal::new("ada")).until(at(1_010)))
            }
        }
    };
    let clock = Arc::clone(&now);
    let layer = AuthenticateLayer::new().bearer(verify).remember(8, Duration::from_secs(3_600));
    let stack = stack(layer.clock(move || at(clock.load(Ordering::Relaxed))));
    assert!(who(&stack, token("t")).await.is_some());
    now.store(1_009, Ordering::Relaxed);
    assert!(who(&stack, token("t")).await.is_some());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    now.store(1_010, Ordering::Relaxed);
    assert!(who(&stack, token("t")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn no_more_tokens_are_remembered_than_there_is_room_for() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let verify = move |token: BearerToken| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Verified::new(Principal::new(token.expose()))))
    };
    let stack = stack(AuthenticateLayer::new().bearer(verify).remember(10, Duration::from_secs(60)));
    for n in 0..100 {
        assert_eq!(who(&stack, token(&format!("t{n}"))).await, Some(format!("t{n}")));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 100);
    // The last ten are there, and each is its own.
    for n in 90..100 {
        assert_eq!(who(&stack, token(&format!("t{n}"))).await, Some(format!("t{n}")));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 100);
    assert!(who(&stack, token("t89")).await.is_some());
    assert_eq!(asked.load(Ordering::Relaxed), 101);
    assert!(!format!("{stack:?}").contains("t99") && stack.lint().await.is_empty());
}
