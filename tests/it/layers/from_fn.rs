use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    middleware::{Next, from_fn},
    testing::{Behaviour, Controlled, Probe, StrictError},
};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::{hold, kind, poll, ready, strict};

/// A named function is generic over the error of what is within.
async fn log<E>(call: ToolCall, next: Next<E>) -> Result<ToolResponse, E> {
    let name = call.name().clone();
    let mut response = next.run(call).await?;
    if let Some(result) = response.result_mut() {
        result.push(format!("({name})"));
    }
    Ok(response)
}

#[tokio::test]
async fn a_function_may_change_the_call_and_the_response() {
    let probe = Probe::new();
    let stack = ServiceBuilder::new()
        .layer(from_fn(log).name("log"))
        .layer(from_fn(async |mut call: ToolCall, next: Next<_>| {
            call.arguments = json!({ "n": 2 }).into();
            call.rename("probe");
            next.run(call).await
        }))
        .service(Router::new().tool(probe.tool("probe")));
    assert_eq!(stack.call_tool("old", json!({ "n": 1 })).await.as_text().as_deref(), Some("ok\n(old)"));
    assert_eq!(probe.arguments(), [r#"{"n":2}"#]);
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["probe"]);
}

#[tokio::test]
async fn a_function_may_answer_without_running_anything() {
    let (strict, probe) = strict(Some(1));
    let stack = ServiceBuilder::new()
        .layer(from_fn(async |call: ToolCall, next: Next<_>| {
            if call.arguments.as_json().unwrap().contains("true") {
                return Ok(Refusal::new(RefusalKind::Denied, "no").with_by("mine").into());
            }
            next.run(call).await
        }))
        .service(strict.clone());
    assert_eq!(kind(&stack.call_tool("probe", json!({ "deny": true })).await), Some(RefusalKind::Denied));
    assert_eq!((probe.runs(), strict.tally().calls, strict.free()), (0, 0, Some(1)));
    assert!(stack.call_tool("probe", json!({ "deny": false })).await.is_completed());
}

#[tokio::test]
async fn an_error_passes_by_its_own_type_or_is_dealt_with() {
    let (strict, _) = strict(None);
    let passing = ServiceBuilder::new().layer(from_fn(log)).service(strict.clone());
    let dealing = ServiceBuilder::new()
        .layer(from_fn(async |call: ToolCall, next: Next<StrictError>| {
            Ok(next.run(call).await.unwrap_or_else(|error| Refusal::internal(error).with_by("mine").into()))
        }))
        .service(strict.clone());
    for behaviour in [Behaviour::Fail, Behaviour::ReadinessFails] {
        strict.behave(behaviour);
        let _: StrictError = passing.clone().oneshot(ToolCall::new("probe", ())).await.unwrap_err();
        let answer = dealing.clone().oneshot(ToolCall::new("probe", ())).await.unwrap();
        assert_eq!(answer.refusal().map(Refusal::by), Some("mine"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_that_waits_holds_no_permit_and_the_wait_for_one_is_within_next() {
    let (strict, probe) = strict(Some(1));
    let stack = ServiceBuilder::new()
        .layer(from_fn(async |call: ToolCall, next: Next<_>| {
            tokio::time::sleep(Duration::from_secs(60)).await;
            next.run(call).await
        }))
        .service(strict.clone());
    let waiting = tokio::spawn(stack.clone().oneshot(ToolCall::new("probe", ())));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let holder = hold(&strict).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(probe.runs(), 0);
    drop(holder);
    assert!(waiting.await.unwrap().unwrap().is_completed());
    assert_eq!((strict.free(), strict.tally().violations), (Some(1), 0));
}

#[tokio::test]
async fn a_dropped_call_drops_the_function_where_it_stands_and_what_it_runs() {
    struct Part(&'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Drop for Part {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    let (strict, _) = strict(Some(1));
    strict.behave(Behaviour::Hang);
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let stack = ServiceBuilder::new()
        .layer(from_fn({
            let dropped = Arc::clone(&dropped);
            move |call: ToolCall, next: Next<_>| {
                let dropped = Arc::clone(&dropped);
                async move {
                    let _before = Part("before", Arc::clone(&dropped));
                    let response = next.run(call).await;
                    let _after = Part("after", dropped);
                    response
                }
            }
        }))
        .service(strict.clone());
    let mut instance = stack.clone();
    drop(ready(&mut instance).await.call(ToolCall::new("probe", ())));
    assert_eq!((dropped.lock().unwrap().len(), strict.tally().calls), (0, 0), "nothing runs before the future is polled");

    let mut call = Box::pin(stack.oneshot(ToolCall::new("probe", ())));
    assert!(poll(&mut call).is_pending());
    assert_eq!((strict.tally().in_flight, strict.free()), (1, Some(0)));
    drop(call);
    assert_eq!(*dropped.lock().unwrap(), ["before"]);
    assert_eq!((strict.tally().in_flight, strict.free()), (0, Some(1)));
}

#[tokio::test]
async fn calls_at_once_do_not_wait_for_each_other() {
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new().layer(from_fn(log)).service(Router::new().tool(controlled.tool("wait")));
    let calls: Vec<_> = (0..20).map(|_| tokio::spawn(stack.call_tool("wait", ()))).collect();
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(controlled.next().await);
    }
    assert_eq!(controlled.in_flight(), 20);
    for held in held.into_iter().rev() {
        held.respond(ToolResponse::text("done"));
    }
    for call in calls {
        assert_eq!(call.await.unwrap().as_text().as_deref(), Some("done\n(wait)"));
    }
}
