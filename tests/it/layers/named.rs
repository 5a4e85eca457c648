use std::time::Duration;

use toolstack::{
    ListTools, StackExt, ToolCall,
    describe::Duty,
    layer::{calls, named},
    testing::{Behaviour, StrictError},
};
use tower::{ServiceBuilder, ServiceExt, filter::FilterLayer, limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};

use super::{hold, poll, ready, strict};

#[tokio::test]
async fn a_name_changes_nothing_but_the_description() {
    let (strict, probe) = strict(None);
    let layer = named("limit", ConcurrencyLimitLayer::new(1)).setting("max", 1).setting("per", "process");
    let stack = ServiceBuilder::new().layer(layer).service(strict.clone());
    assert!(stack.call_tool("probe", ()).await.is_completed());
    assert_eq!(stack.list_tools().await.names().count(), 1);
    assert_eq!((probe.runs(), strict.tally().violations), (1, 0));
    assert_eq!(stack.describe().await.layers()[0].to_string(), "limit (max: 1, per: process)");

    let mut holder = stack.clone();
    ready(&mut holder).await;
    let mut waiting = Box::pin(stack.clone().oneshot(ListTools::new()));
    assert!(poll(&mut waiting).is_pending(), "the limit holds under a name");
    drop(holder);
    assert!(waiting.await.is_ok());
}

#[tokio::test]
async fn errors_and_readiness_pass_under_a_name() {
    let (strict, _) = strict(Some(1));
    let stack = ServiceBuilder::new().layer(named("nothing", tower::layer::util::Identity::new())).service(strict.clone());
    let holder = hold(&strict).await;
    let mut waiting = Box::pin(stack.clone().oneshot(ToolCall::new("probe", ())));
    assert!(poll(&mut waiting).is_pending());
    drop(waiting);
    drop(holder);
    for behaviour in [Behaviour::Fail, Behaviour::ReadinessFails] {
        strict.behave(behaviour);
        let _: StrictError = stack.clone().oneshot(ToolCall::new("probe", ())).await.unwrap_err();
    }
    assert_eq!(strict.free(), Some(1));
}

#[tokio::test]
async fn what_a_named_layer_does_is_known_or_said() {
    let (strict, _) = strict(None);
    let stack = ServiceBuilder::new()
        .layer(named("upstream", TimeoutLayer::new(Duration::from_secs(1))))
        .layer(calls(named("rules", FilterLayer::new(Ok::<ToolCall, tower::BoxError>))))
        .layer(named("breaker", tower::layer::util::Identity::new()).duty(Duty::Sheds).duty(Duty::Sheds))
        .service(strict);
    let description = stack.describe().await;
    let duties: Vec<_> = description.layers().iter().map(|note| (note.name(), note.duties())).collect();
    assert_eq!(duties, [("upstream", &[Duty::Times][..]), ("filter", &[Duty::Decides]), ("breaker", &[Duty::Sheds])]);
    assert!(description.layers().iter().all(toolstack::describe::Note::is_foreign));
}
