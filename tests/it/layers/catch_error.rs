use std::{
    convert::Infallible,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use toolstack::{
    BoxError, ListTools, Refusal, RefusalKind, ToolCall, ToolResponse,
    layer::{CatchErrorLayer, calls, catch_error::CatchError},
    testing::{Behaviour, Strict, StrictError},
};
use tower::{Service, ServiceBuilder, ServiceExt, buffer::BufferLayer, util::MapErrLayer};

use super::{hold, kind, poll, ready, strict};

#[derive(Debug, thiserror::Error)]
#[error("upstream said: password=hunter2")]
struct Upstream(#[source] BoxError);

async fn call(service: &(impl Service<ToolCall, Response = ToolResponse, Error = Infallible> + Clone)) -> ToolResponse {
    service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap_or_else(|never| match never {})
}

#[tokio::test]
async fn a_response_passes_and_an_error_becomes_a_refusal() {
    let (strict, probe) = strict(None);
    let service = CatchError::new(strict.clone());
    assert!(call(&service).await.is_completed());

    strict.behave(Behaviour::Fail);
    let answer = call(&service).await;
    let refusal = answer.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::Internal, "catch_error"));
    assert!(refusal.source().unwrap().is::<StrictError>());
    assert_eq!(probe.runs(), 1);
}

#[tokio::test]
async fn the_text_of_an_error_nobody_knows_is_for_the_operator() {
    let (strict, _) = strict(None);
    strict.behave(Behaviour::Fail);
    let service = ServiceBuilder::new()
        .layer(CatchErrorLayer::new())
        .layer(MapErrLayer::new(|error: StrictError| Upstream(error.into())))
        .service(strict);
    let answer = call(&service).await;
    assert!(!format!("{answer:?}").contains("hunter2"));
    assert!(answer.refusal().unwrap().source().unwrap().to_string().contains("hunter2"));
}

#[tokio::test]
async fn what_is_known_is_found_along_the_chain() {
    let (strict, _) = strict(None);
    strict.behave(Behaviour::Fail);
    let errors: [(fn() -> BoxError, RefusalKind); 5] = [
        (|| tower::timeout::error::Elapsed::new().into(), RefusalKind::Timeout),
        (|| tower::load_shed::error::Overloaded::new().into(), RefusalKind::Overloaded),
        (|| Refusal::new(RefusalKind::SessionClosed, "over").into(), RefusalKind::SessionClosed),
        (|| Upstream(Upstream(tower::timeout::error::Elapsed::new().into()).into()).into(), RefusalKind::Timeout),
        (|| "no type".into(), RefusalKind::Internal),
    ];
    for (error, expected) in errors {
        let service = ServiceBuilder::new().layer(CatchErrorLayer::new()).map_err(move |_: StrictError| error()).service(strict.clone());
        assert_eq!(kind(&call(&service).await), Some(expected));
    }
}

#[tokio::test]
async fn a_classifier_sees_what_this_crate_does_not_know_outermost_first() {
    let (strict, _) = strict(None);
    strict.behave(Behaviour::Fail);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let classify = {
        let seen = Arc::clone(&seen);
        CatchErrorLayer::new().classify(move |error| {
            seen.lock().unwrap().push(error.to_string().split(':').next().unwrap_or_default().to_owned());
            error
                .is::<StrictError>()
                .then(|| Refusal::new(RefusalKind::BreakerOpen, "later").with_by("mine").with_retry_after(Duration::from_secs(9)))
        })
    };
    let service = ServiceBuilder::new().layer(classify).map_err(|error: StrictError| Upstream(error.into())).service(strict);
    let answer = call(&service).await;
    let refusal = answer.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), refusal.retry_after()), (RefusalKind::BreakerOpen, "mine", Some(Duration::from_secs(9))));
    assert!(refusal.source().unwrap().is::<Upstream>(), "the whole chain is the source");
    assert_eq!(*seen.lock().unwrap(), ["upstream said", "the strict service fails, as it was told to"]);
}

#[tokio::test]
async fn an_error_of_readiness_is_answered_by_the_next_call_of_that_instance_alone() {
    let (strict, probe) = strict(None);
    let mut service: CatchError<Strict> = CatchError::new(strict.clone());
    strict.behave(Behaviour::ReadinessFails);
    let polled = ready(&mut service).await;
    strict.behave(Behaviour::Answer);
    let mut clone = polled.clone();

    let answer = polled.call(ToolCall::new("probe", ())).await.unwrap();
    assert_eq!(kind(&answer), Some(RefusalKind::Internal));
    assert_eq!((strict.tally().calls, probe.runs()), (0, 0), "the failed service was called");

    // A clone was not polled, so it has not failed; and the instance itself may try again.
    for service in [&mut clone, &mut service] {
        assert!(ready(service).await.call(ToolCall::new("probe", ())).await.unwrap().is_completed());
    }
    assert_eq!((probe.runs(), strict.tally().violations), (2, 0));
}

#[tokio::test]
async fn a_failed_instance_is_not_polled_again_before_it_has_told() {
    let (strict, _) = strict(Some(1));
    let mut service = CatchError::new(strict.clone());
    strict.behave(Behaviour::ReadinessFails);
    ready(&mut service).await;
    strict.behave(Behaviour::Answer);
    ready(&mut service).await;
    assert_eq!(strict.free(), Some(1), "a service that answers itself took a permit");
    let answer = Service::call(&mut service, ListTools::new()).await.unwrap();
    assert_eq!(answer.refusal().map(Refusal::kind), Some(RefusalKind::Internal));
}

#[tokio::test]
async fn a_queue_whose_worker_has_stopped_is_told_of() {
    let (strict, _) = strict(None);
    let stack = ServiceBuilder::new().layer(CatchErrorLayer::new()).layer(calls(BufferLayer::new(4))).service(strict.clone());
    assert!(call(&stack).await.is_completed());
    strict.behave(Behaviour::ReadinessFails);
    for _ in 0..2 {
        let answer = call(&stack).await;
        assert_eq!(kind(&answer), Some(RefusalKind::Internal));
        assert!(!answer.as_text().unwrap().contains("strict"), "{answer:?}");
    }
}

#[tokio::test]
async fn lists_are_closed_off_too() {
    let (strict, _) = strict(None);
    let service = CatchError::new(strict.clone());
    assert_eq!(service.clone().oneshot(ListTools::new()).await.unwrap().names().count(), 1);
    strict.behave(Behaviour::ReadinessFails);
    let list = service.oneshot(ListTools::new()).await.unwrap();
    assert_eq!((list.refusal().map(Refusal::kind), list.tools().len()), (Some(RefusalKind::Internal), 0));
}

#[tokio::test]
async fn readiness_passes_and_a_dropped_call_gives_everything_back() {
    let (strict, _) = strict(Some(1));
    let service = CatchError::new(strict.clone());
    let holder = hold(&strict).await;
    let mut waiting = Box::pin(service.clone().oneshot(ToolCall::new("probe", ())));
    assert!(poll(&mut waiting).is_pending());
    drop(holder);
    assert!(waiting.await.unwrap().is_completed());

    strict.behave(Behaviour::Hang);
    for polls in 0..2 {
        let mut instance = service.clone();
        let mut call = Box::pin(ready(&mut instance).await.call(ToolCall::new("probe", ())));
        for _ in 0..polls {
            assert!(poll(&mut call).is_pending());
        }
        drop(call);
        assert_eq!((strict.free(), strict.tally().in_flight), (Some(1), 0));
    }
}
