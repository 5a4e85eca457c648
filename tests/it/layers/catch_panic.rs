use std::{
    error::Error,
    future::Ready,
    pin::Pin,
    task::{Context, Poll},
};

use toolstack::{
    ListTools, Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    describe::{Describe, Description},
    layer::{CatchPanicLayer, catch_panic::CatchPanic, map_list},
    model::ToolList,
    run::Turn,
    testing::{Behaviour, Controlled, StrictError},
    tool::{Handler, Tool, ToolFuture},
};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::{hold, kind, poll, ready, strict};

/// Panics at the moment that it was told to.
#[derive(Clone)]
struct Panics(Moment);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    PollReady,
    Call,
    Future,
    FutureAndDrop,
    DropWhenDone,
    DropWhenPending,
}

struct PanicsLater(Moment);

impl Future for PanicsLater {
    type Output = Result<ToolResponse, StrictError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0 {
            Moment::Future | Moment::FutureAndDrop => panic!("in the future"),
            Moment::DropWhenPending => Poll::Pending,
            _ => Poll::Ready(Ok(ToolResponse::text("done"))),
        }
    }
}

impl Drop for PanicsLater {
    fn drop(&mut self) {
        assert!(!matches!(self.0, Moment::FutureAndDrop | Moment::DropWhenDone | Moment::DropWhenPending), "in the drop");
    }
}

impl Service<ToolCall> for Panics {
    type Response = ToolResponse;
    type Error = StrictError;
    type Future = PanicsLater;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StrictError>> {
        assert!(self.0 != Moment::PollReady, "in poll_ready");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: ToolCall) -> PanicsLater {
        assert!(self.0 != Moment::Call, "in call");
        PanicsLater(self.0)
    }
}

fn text(response: &ToolResponse) -> String {
    response.refusal().unwrap().source().unwrap().to_string()
}

#[tokio::test]
async fn a_panic_is_a_refusal_wherever_it_happens() {
    for (moment, told) in [
        (Moment::PollReady, "panicked: in poll_ready"),
        (Moment::Call, "panicked: in call"),
        (Moment::Future, "panicked: in the future"),
        (Moment::FutureAndDrop, "panicked: in the future"),
    ] {
        let answer = CatchPanic::new(Panics(moment)).oneshot(ToolCall::new("probe", ())).await.unwrap();
        let refusal = answer.refusal().unwrap();
        assert_eq!((refusal.kind(), refusal.by(), text(&answer).as_str()), (RefusalKind::Internal, "catch_panic", told));
        assert!(!answer.as_text().unwrap().contains("panick"), "the model reads it: {answer:?}");
    }
}

#[tokio::test]
async fn a_panic_of_a_destructor_does_not_reach_who_drops_the_call() {
    let service = CatchPanic::new(Panics(Moment::DropWhenDone));
    assert_eq!(service.oneshot(ToolCall::new("probe", ())).await.unwrap().as_text().as_deref(), Some("done"));

    let mut call = Box::pin(CatchPanic::new(Panics(Moment::DropWhenPending)).oneshot(ToolCall::new("probe", ())));
    assert!(poll(&mut call).is_pending());
    drop(call);
}

/// Never ends, and panics when it is dropped.
struct Sore;

impl Handler for Sore {
    fn call(&self, _: ToolCall) -> ToolFuture {
        struct Hurts;
        impl Drop for Hurts {
            fn drop(&mut self) {
                panic!("in the drop");
            }
        }
        let hurts = Hurts;
        ToolFuture::new(async move {
            let _hurts = hurts;
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn a_tool_that_panics_as_it_is_dropped_leaves_the_other_calls_alone() {
    let sore = Tool::new(toolstack::model::ToolSpec::new("sore".parse().unwrap()), Sore);
    let controlled = Controlled::new();
    let stack = Router::new().tool(sore).tool(controlled.tool("fails"));
    let calls = vec![ToolCall::new("sore", ()), ToolCall::new("fails", ())];
    let turn = Turn::new().fail_fast();
    let (answers, ()) = tokio::join!(turn.run(&stack, calls), async {
        controlled.next().await.respond(ToolResponse::error("failed"));
    });
    let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome().as_str()).collect();
    assert_eq!(outcomes, ["cancelled", "tool_error"]);
}

#[tokio::test]
async fn a_text_of_any_kind_is_kept() {
    let odd = |call: &mut ToolCall| match call.name().as_str() {
        "text" => panic!("a text"),
        "owned" => panic!("owned {}", 1),
        _ => std::panic::panic_any(7),
    };
    let stack = ServiceBuilder::new().layer(CatchPanicLayer::new()).layer(toolstack::layer::map_call("odd", odd)).service(Router::new());
    for (name, told) in [("text", "panicked: a text"), ("owned", "panicked: owned 1"), ("any", "panicked: with no text")] {
        assert_eq!(text(&stack.clone().oneshot(ToolCall::new(name, ())).await.unwrap()), told);
    }
}

#[tokio::test]
async fn a_panic_of_readiness_is_answered_by_the_next_call_of_that_instance_alone() {
    let mut service = CatchPanic::new(Panics(Moment::PollReady));
    let polled = ready(&mut service).await;
    let clone = polled.clone();
    assert_eq!(text(&polled.call(ToolCall::new("probe", ())).await.unwrap()), "panicked: in poll_ready");

    let mut clone = clone;
    clone.get_mut().0 = Moment::DropWhenDone;
    assert!(ready(&mut clone).await.call(ToolCall::new("probe", ())).await.unwrap().is_completed());
}

#[tokio::test]
async fn what_the_broken_call_held_is_free_when_the_answer_is_given() {
    let (strict, _) = strict(Some(1));
    let service = CatchPanic::new(strict.clone());
    for behaviour in [Behaviour::PanicInCall, Behaviour::PanicInFuture] {
        strict.behave(behaviour);
        let mut call = Box::pin(service.clone().oneshot(ToolCall::new("probe", ())));
        assert_eq!(kind(&call.as_mut().await.unwrap()), Some(RefusalKind::Internal));
        assert_eq!((strict.free(), strict.tally().in_flight), (Some(1), 0));
        drop(call);
        strict.behave(Behaviour::Answer);
        assert!(service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap().is_completed());
    }
}

#[tokio::test]
async fn responses_errors_and_readiness_pass_as_they_are() {
    let (strict, probe) = strict(Some(1));
    let service = CatchPanic::new(strict.clone());
    let holder = hold(&strict).await;
    let mut waiting = Box::pin(service.clone().oneshot(ToolCall::new("probe", ())));
    assert!(poll(&mut waiting).is_pending());
    drop(holder);
    assert!(waiting.await.unwrap().is_completed());
    for behaviour in [Behaviour::Fail, Behaviour::ReadinessFails] {
        strict.behave(behaviour);
        let error: StrictError = service.clone().oneshot(ToolCall::new("probe", ())).await.unwrap_err();
        assert_eq!(error, error.clone());
    }
    assert_eq!((probe.runs(), strict.free()), (1, Some(1)));
}

#[tokio::test]
async fn a_panic_in_a_list_is_a_refused_list() {
    let stack =
        ServiceBuilder::new().layer(CatchPanicLayer::new()).layer(map_list("odd", |_, _| panic!("in the list"))).service(Router::new());
    let list: ToolList = stack.clone().oneshot(ListTools::new()).await.unwrap();
    assert_eq!(list.refusal().map(Refusal::kind), Some(RefusalKind::Internal));
    assert!(stack.describe().await.refusal().is_none());
}

/// Panics where it is described.
#[derive(Clone)]
struct Shy;

impl Service<Describe> for Shy {
    type Response = Description;
    type Error = StrictError;
    type Future = Ready<Result<Description, StrictError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StrictError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, describe: Describe) -> Self::Future {
        assert!(describe.context.depth() > 0, "look away");
        std::future::ready(Ok(Description::default()))
    }
}

#[tokio::test]
async fn a_panic_in_a_description_is_a_refused_description() {
    let description = CatchPanic::new(Shy).oneshot(Describe::new()).await.unwrap();
    assert_eq!(description.refusal().map(Refusal::kind), Some(RefusalKind::Internal));
}

#[tokio::test]
async fn a_dropped_call_gives_everything_back() {
    let (strict, _) = strict(Some(1));
    let service = CatchPanic::new(strict.clone());
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

#[tokio::test]
async fn of_calls_at_once_only_the_broken_one_is_broken() {
    let odd = |call: &mut ToolCall| assert!(call.name() != "odd");
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new()
        .layer(CatchPanicLayer::new())
        .layer(toolstack::layer::map_call("odd", odd))
        .service(Router::new().tool(controlled.tool("even")));
    let running: Vec<_> = (0..10).map(|_| tokio::spawn(stack.call_tool("even", ()))).collect();
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(controlled.next().await);
    }
    assert_eq!(kind(&stack.call_tool("odd", ()).await), Some(RefusalKind::Internal));
    held.into_iter().for_each(|held| held.respond(ToolResponse::text("fine")));
    for call in running {
        assert!(call.await.unwrap().is_completed());
    }
}
