//! Sake's table of reasons, as refusals.

use std::{error::Error, time::Duration};

use serde_json::json;
use toolstack::{
    ListTools, Refusal, RefusalKind, Router, StackExt, ToolResponse,
    error::Challenge,
    layer::hooks::{Halt, HooksLayer},
    model::Outcome,
    testing::Probe,
};
use tower::{Layer, ServiceExt};

use super::{Trace, call};

fn stopping(halt: fn() -> Halt) -> (HooksLayer, Trace) {
    let trace = Trace::default();
    let [later, after, denied, error, finish, success] = std::array::from_fn(|_| trace.clone());
    let layer = HooksLayer::new()
        .before("stop", move |_| Err(halt()))
        .before("later", move |_| {
            later.say("later");
            Ok(())
        })
        .after("after", move |_| {
            after.say("after");
            Ok(())
        })
        .on_denied("denied", move |end| denied.say(format!("denied:{}", end.halted_by().unwrap_or("-"))))
        .on_error("error", move |_| error.say("error"))
        .on_success("success", move |_| success.say("success"))
        .on_finish("finish", move |_| finish.say("finish"));
    (layer, trace)
}

async fn stopped(halt: fn() -> Halt) -> (ToolResponse, String) {
    let (layer, trace) = stopping(halt);
    let probe = Probe::new();
    let stack = layer.layer(Router::new().tool(probe.tool("t")));
    let response = stack.run_call(call("t")).await;
    assert_eq!(probe.runs(), 0);
    (response, trace.text())
}

fn facts(response: &ToolResponse) -> (RefusalKind, &str, &str, Option<&Challenge>) {
    let refusal = response.refusal().unwrap();
    (refusal.kind(), refusal.by(), refusal.message(), refusal.challenge())
}

const HEARD: &str = "denied:stop finish";

#[tokio::test]
async fn not_found_is_what_the_router_says_byte_for_byte() {
    let (response, heard) = stopped(Halt::not_found).await;
    let router = Router::new().run_call(call("t")).await;
    assert_eq!(facts(&response), facts(&router));
    assert_eq!(serde_json::to_string(&response).unwrap(), serde_json::to_string(&router).unwrap());
    assert_eq!(heard, HEARD);
}

#[tokio::test]
async fn missing_scopes_are_one_challenge() {
    let (response, heard) = stopped(|| Halt::missing_scopes(["files:read", "files:write"])).await;
    let challenge = Challenge::Scopes(vec!["files:read".into(), "files:write".into()]);
    let message = "The caller lacks a scope; needed: files:read, files:write.";
    assert_eq!(facts(&response), (RefusalKind::InsufficientScope, "stop", message, Some(&challenge)));
    assert_eq!(heard, HEARD);
}

#[tokio::test]
async fn forbidden_has_no_challenge() {
    let (response, heard) = stopped(Halt::forbidden).await;
    assert_eq!(facts(&response), (RefusalKind::Denied, "stop", "The caller may not do this.", None));
    assert_eq!(heard, HEARD);
}

#[tokio::test]
async fn a_weak_sign_in_is_a_step_up_with_its_challenge() {
    let (response, heard) = stopped(|| Halt::step_up(["mfa"], Some(Duration::from_secs(300)))).await;
    let challenge = Challenge::step_up(["mfa"], Some(Duration::from_secs(300)));
    assert_eq!(facts(&response), (RefusalKind::StepUp, "stop", "A stronger or more recent sign-in is needed for this.", Some(&challenge)));
    assert_eq!(heard, HEARD);
}

#[tokio::test]
async fn an_error_is_its_message() {
    let (response, heard) = stopped(|| Halt::error("Closed on Sundays.")).await;
    assert_eq!(facts(&response), (RefusalKind::Denied, "stop", "Closed on Sundays.", None));
    assert_eq!(heard, HEARD);
}

#[tokio::test]
async fn a_tool_error_is_a_failed_result() {
    let (response, heard) = stopped(|| Halt::tool_error("No such account.")).await;
    assert_eq!(response.outcome(), Outcome::ToolError);
    assert!(response.result().unwrap().is_error);
    assert_eq!(response.as_text().as_deref(), Some("No such account."));
    assert_eq!(serde_json::to_value(&response).unwrap()["isError"], json!(true));
    assert_eq!(heard, HEARD);
}

#[tokio::test]
async fn an_unknown_reason_is_never_told() {
    let (response, heard) = stopped(|| Halt::other("the password is hunter2")).await;
    assert_eq!(facts(&response), (RefusalKind::Denied, "stop", "Request refused", None));
    assert!(!format!("{response:?} {}", serde_json::to_string(&response).unwrap()).contains("hunter2"));
    assert_eq!(response.refusal().unwrap().source().unwrap().to_string(), "the password is hunter2");
    assert!(!format!("{:?}", Halt::other("hunter2")).contains("hunter2"));
    assert_eq!(heard, HEARD);
}

#[tokio::test]
async fn a_raise_is_a_failed_request_and_no_denial() {
    let (response, heard) = stopped(|| "hunter2".parse::<u8>().unwrap_err().into()).await;
    assert_eq!(facts(&response), (RefusalKind::Internal, "stop", "The request failed.", None));
    assert!(response.refusal().unwrap().source().is_some());
    assert_eq!(heard, "error finish");
}

#[tokio::test]
async fn a_refusal_is_given_as_it_is_also_by_question_mark() {
    let (response, _) = stopped(|| Refusal::new(RefusalKind::RateLimited, "Wait.").with_retry_after(Duration::from_secs(2)).into()).await;
    assert_eq!(facts(&response), (RefusalKind::RateLimited, "stop", "Wait.", None));
    assert_eq!(response.refusal().unwrap().retry_after(), Some(Duration::from_secs(2)));
    let (response, _) = stopped(|| Halt::refuse(Refusal::new(RefusalKind::Denied, "No.").with_by("policy"))).await;
    assert_eq!(facts(&response), (RefusalKind::Denied, "policy", "No.", None));
}

#[tokio::test]
async fn a_request_is_stopped_before_anything_else_is_done_lists_too() {
    let trace = Trace::default();
    let [list, before] = std::array::from_fn(|_| trace.clone());
    let layer = HooksLayer::new()
        .before_request("gate", |request| match request.call() {
            Some(_) => Err(Halt::error("No calls.")),
            None => Err(Halt::tool_error("No lists.")),
        })
        .after_list("list", move |_| {
            list.say("list");
            Ok(())
        })
        .before("before", move |_| {
            before.say("before");
            Ok(())
        });
    let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
    assert_eq!(facts(&stack.run_call(call("t")).await), (RefusalKind::Denied, "gate", "No calls.", None));
    let list = stack.clone().oneshot(ListTools::new()).await.unwrap();
    let refusal = list.refusal().unwrap();
    // Elsewhere than at a call, a tool error is an error.
    assert_eq!((refusal.kind(), refusal.by(), refusal.message()), (RefusalKind::Denied, "gate", "No lists."));
    assert!(list.tools().is_empty());
    assert_eq!(trace.text(), "");
}

#[tokio::test]
async fn a_hook_that_answers_stops_later_before_hooks_and_no_others() {
    let trace = Trace::default();
    let [later, finish] = std::array::from_fn(|_| trace.clone());
    let probe = Probe::new();
    let layer = HooksLayer::new()
        .before("dry_run", |call| {
            call.answer(ToolResponse::text("would have run"));
            Ok(())
        })
        .before("later", move |_| {
            later.say("later");
            Ok(())
        })
        .after("sign", |call| {
            call.result_mut().push("-- signed");
            Ok(())
        })
        .on_success("heard", move |end| finish.say(format!("{:?}", end.halted_by())));
    let stack = layer.layer(Router::new().tool(probe.tool("t")));
    let response = stack.run_call(call("t")).await;
    assert_eq!(response.as_text().as_deref(), Some("would have run\n-- signed"));
    assert_eq!(response.result().unwrap().served_by(), Some("dry_run"));
    assert_eq!((probe.runs(), trace.text().as_str()), (0, "None"));

    // Alone, without anything on the way out.
    let stack = HooksLayer::new()
        .before("dry_run", |call| {
            call.answer(ToolResponse::text("alone"));
            Ok(())
        })
        .layer(Router::new().tool(probe.tool("t")));
    let response = stack.run_call(call("t")).await;
    assert_eq!((response.as_text().as_deref(), response.result().unwrap().served_by()), (Some("alone"), Some("dry_run")));
}

#[tokio::test]
async fn an_after_hook_that_halts_withholds_the_result() {
    let trace = Trace::default();
    let [later, denied] = std::array::from_fn(|_| trace.clone());
    let layer = HooksLayer::new()
        .after(
            "leak",
            |call| if call.result().as_text().is_some_and(|text| text.contains("key")) { Err(Halt::other("a key")) } else { Ok(()) },
        )
        .after("later", move |_| {
            later.say("later");
            Ok(())
        })
        .on_denied("denied", move |end| denied.say(format!("denied:{}", end.halted_by().unwrap_or("-"))));
    let probe = Probe::answering(|_| ToolResponse::text("the key is 123"));
    let stack = layer.layer(Router::new().tool(probe.tool("t")));
    let response = stack.run_call(call("t")).await;
    assert_eq!(facts(&response), (RefusalKind::Denied, "leak", "Request refused", None));
    assert!(!serde_json::to_string(&response).unwrap().contains("123"));
    assert_eq!(trace.text(), "denied:leak");
}
