//! Sign-ins that have to be stronger, or more recent.

use std::{convert::Infallible, future::ready, time::Duration};

use serde_json::{Value, json};
use toolstack::{
    Refusal, RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    error::{Challenge, halt_reason},
    layer::{
        AuthenticateLayer, StepUpLayer, ValidateLayer,
        authenticate::{BearerToken, Verified},
        map_call,
        permission::{Approval, ApprovalRequest, ArgumentRule, Effect, Missing, PermissionLayer, Rules},
        step_up::StepUpRule,
    },
    model::{Arguments, Context, Principal},
    select::ToolSelector,
    stack::ToolStack,
    testing::Probe,
};
use tower::{ServiceBuilder, service_fn};

use crate::mint::{NOW, at};

fn tools(name: &str) -> ToolSelector {
    ToolSelector::new().name(name).unwrap()
}

/// Who signed in like this, so many seconds ago.
fn signed_in(acr: Option<&str>, ago: Option<i64>) -> Principal {
    let mut ada = Principal::new("ada");
    ada.acr = acr.map(str::to_owned);
    ada.auth_time = ago.map(|ago| at(NOW.checked_add_signed(-ago).unwrap()));
    ada
}

fn layer(rules: impl IntoIterator<Item = StepUpRule>) -> StepUpLayer {
    StepUpLayer::new(rules).clock(|| at(NOW))
}

fn stack(layer: StepUpLayer) -> Stack {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "number", "minimum": 0 } } });
    let router = Router::new().tool(Probe::new().tool("transfer").input_schema(&schema)).tool(Probe::new().tool("look"));
    ServiceBuilder::new().layer(layer).service(router).into_stack()
}

async fn refused(stack: &Stack, tool: &str, arguments: impl Into<Arguments>, who: Principal) -> Option<Refusal> {
    let call = ToolCall::new(tool, arguments).with_context(Context::new().with_principal(who));
    stack.run_call(call).await.refusal().cloned()
}

fn mfa() -> StepUpRule {
    StepUpRule::new(tools("transfer")).acr(["mfa", "hwk"]).max_age(Duration::from_secs(300))
}

#[tokio::test]
async fn a_sign_in_has_to_be_of_one_of_the_classes_and_recent() {
    let stack = stack(layer([mfa()]));
    for (acr, ago, runs) in [
        (Some("mfa"), Some(0), true),
        (Some("hwk"), Some(299), true),
        (Some("mfa"), Some(330), true),
        (Some("mfa"), Some(331), false),
        (Some("mfa"), Some(1_000_000), false),
        (Some("mfa"), Some(NOW as i64), false),
        (Some("pwd"), Some(0), false),
        (Some("MFA"), Some(0), false),
        (Some(""), Some(0), false),
        (None, Some(0), false),
        (Some("mfa"), None, false),
        (None, None, false),
        // A clock may be a little ahead, and no more.
        (Some("mfa"), Some(-30), true),
        (Some("mfa"), Some(-31), false),
        (Some("mfa"), Some(-1_000_000), false),
    ] {
        let refusal = refused(&stack, "transfer", json!({}), signed_in(acr, ago)).await;
        assert_eq!(refusal.is_none(), runs, "{acr:?} {ago:?}");
    }
    assert!(refused(&stack, "look", json!({}), signed_in(None, None)).await.is_none());
}

#[tokio::test]
async fn the_challenge_says_what_would_do_in_the_words_of_rfc_9470_and_of_sake() {
    let refusal = refused(&stack(layer([mfa()])), "transfer", json!({}), signed_in(Some("pwd"), Some(0))).await.unwrap();
    assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::StepUp, "step_up"));
    assert_eq!(refusal.message(), "A stronger or more recent sign-in is needed for this.");
    assert_eq!(refusal.challenge(), Some(&Challenge::step_up(["mfa", "hwk"], Some(Duration::from_secs(300)))));
    let told = refusal.bearer_challenge().unwrap();
    let header = r#"Bearer error="insufficient_user_authentication", acr_values="mfa hwk", max_age="300""#;
    assert_eq!((told.status, told.to_string().as_str()), (401, header));
    let sake = json!({ "insufficient_user_authentication": { "acr_values": ["mfa", "hwk"], "max_age": 300 } });
    assert_eq!(halt_reason(&refusal), sake);
}

#[tokio::test]
async fn what_needs_it_may_hang_on_an_argument() {
    let rule = mfa().argument(ArgumentRule::at_least("/amount", 1000).unwrap().missing(Missing::Differs));
    let stack = stack(layer([rule]));
    let weak = || signed_in(Some("pwd"), Some(0));
    for (amount, runs) in [(json!(999), true), (json!(999.99), true), (json!(1000), false), (json!(1e9), false)] {
        assert_eq!(refused(&stack, "transfer", json!({ "amount": amount }), weak()).await.is_none(), runs, "{amount}");
    }
    assert!(refused(&stack, "transfer", json!({}), weak()).await.is_none());
    // What cannot be told needs it.
    for amount in [json!("5"), json!(null), json!([1]), json!({ "value": 1 })] {
        assert!(refused(&stack, "transfer", json!({ "amount": amount }), weak()).await.is_some(), "{amount}");
    }
    for text in ["[]", "{\"amount\":1,\"amount\":5000}", "{", "7"] {
        assert!(refused(&stack, "transfer", Arguments::from_text(text), weak()).await.is_some(), "{text}");
    }
    assert!(refused(&stack, "transfer", json!({ "amount": 5000 }), signed_in(Some("mfa"), Some(0))).await.is_none());
}

#[tokio::test]
async fn all_rules_about_a_call_count_and_one_challenge_satisfies_them() {
    let two = [
        StepUpRule::new(tools("*")).acr(["pwd", "mfa", "hwk"]).max_age(Duration::from_secs(3600)),
        StepUpRule::new(tools("transfer")).acr(["hwk", "mfa"]),
        StepUpRule::new(tools("transfer")).max_age(Duration::from_secs(60)),
    ];
    let both = stack(layer(two));
    let refusal = refused(&both, "transfer", json!({}), signed_in(Some("pwd"), Some(0))).await.unwrap();
    assert_eq!(refusal.challenge(), Some(&Challenge::step_up(["mfa", "hwk"], Some(Duration::from_secs(60)))));
    assert!(refused(&both, "transfer", json!({}), signed_in(Some("mfa"), Some(61))).await.is_none());
    assert!(refused(&both, "look", json!({}), signed_in(Some("pwd"), Some(61))).await.is_none());

    // Where nothing satisfies all, the first that was not met is told.
    let apart = [StepUpRule::new(tools("*")).acr(["a"]), StepUpRule::new(tools("*")).acr(["b"])];
    let refusal = refused(&stack(layer(apart)), "look", json!({}), signed_in(Some("a"), Some(0))).await.unwrap();
    assert_eq!(refusal.challenge(), Some(&Challenge::step_up(["b"], None)));
}

#[tokio::test]
async fn what_is_not_known_does_not_do_unless_that_is_said() {
    let nobody = Principal::anonymous;
    assert!(refused(&stack(layer([mfa()])), "transfer", json!({}), nobody()).await.is_some());
    assert!(refused(&stack(layer([StepUpRule::new(tools("*"))])), "look", json!({}), nobody()).await.is_some());
    let open = stack(layer([mfa()]).let_anonymous_pass());
    assert!(refused(&open, "transfer", json!({}), nobody()).await.is_none());
    // Somebody without facts is not nobody.
    assert!(refused(&open, "transfer", json!({}), Principal::new("ada")).await.is_some());
    // A sign-in to come is none, whatever a rule asks for.
    let any = stack(layer([StepUpRule::new(tools("*"))]));
    assert!(refused(&any, "look", json!({}), signed_in(None, None)).await.is_none());
    assert!(refused(&any, "look", json!({}), signed_in(None, Some(-31))).await.is_some());
}

#[tokio::test]
async fn a_leeway_is_what_it_is_set_to() {
    let strict = stack(layer([mfa()]).leeway(Duration::ZERO));
    assert!(refused(&strict, "transfer", json!({}), signed_in(Some("mfa"), Some(300))).await.is_none());
    assert!(refused(&strict, "transfer", json!({}), signed_in(Some("mfa"), Some(301))).await.is_some());
    assert!(refused(&strict, "transfer", json!({}), signed_in(Some("mfa"), Some(-1))).await.is_some());
    let boundless = stack(layer([mfa().max_age(Duration::MAX)]).leeway(Duration::MAX));
    assert!(refused(&boundless, "transfer", json!({}), signed_in(Some("mfa"), Some(NOW as i64))).await.is_none());
}

#[tokio::test]
async fn a_tool_that_only_a_fallback_answers_goes_by_its_name() {
    let answer = service_fn(|_: ToolCall| ready(Ok::<_, Infallible>(ToolResponse::text("answered"))));
    let stack = ServiceBuilder::new().layer(layer([mfa()])).service(Router::new().fallback(answer)).into_stack();
    assert!(refused(&stack, "transfer", json!({}), signed_in(None, None)).await.is_some());
    assert!(refused(&stack, "other", json!({}), signed_in(None, None)).await.is_none());
}

#[test]
fn rules_read_from_a_file_are_those_of_the_code_and_what_is_misspelt_is_named() {
    let rule = mfa().argument(ArgumentRule::at_least("/amount", 1000).unwrap());
    let file = json!({
        "tools": { "names": ["transfer"] }, "arguments": [{ "path": "/amount", "at_least": 1000 }], "acr": ["mfa", "hwk"], "max_age": 300,
    });
    assert_eq!(serde_json::from_value::<StepUpRule>(file.clone()).unwrap(), rule);
    assert_eq!(serde_json::to_value(&rule).unwrap(), file);
    for (wrong, named) in
        [(json!({ "acr_values": [] }), "acr_values"), (json!({ "max_age": "5m" }), "5m"), (json!({ "max_age": -1 }), "-1")]
    {
        let error = serde_json::from_value::<StepUpRule>(wrong).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

async fn faults(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

fn router() -> Router {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "number", "minimum": 0 } } });
    Router::new().tool(Probe::new().tool("transfer").input_schema(&schema))
}

fn weak_call(arguments: Value) -> ToolCall {
    ToolCall::new("transfer", arguments).with_context(Context::new().with_principal(signed_in(Some("pwd"), Some(0))))
}

#[tokio::test]
async fn j01_a_better_sign_in_is_asked_for_inside_validation() {
    let right = ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(layer([mfa()])).service(router());
    let answer = right.run_call(weak_call(json!({ "amount": -1 }))).await;
    assert_eq!(answer.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
    assert!(faults(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(layer([mfa()])).layer(ValidateLayer::json_schema()).service(router());
    assert_eq!(wrong.run_call(weak_call(json!({ "amount": -1 }))).await.refusal().unwrap().kind(), RefusalKind::StepUp);
    assert_eq!(faults(&wrong).await, ["step-up-before-validation"]);
}

#[tokio::test]
async fn j01_a_better_sign_in_is_asked_for_outside_permission() {
    let asks = || PermissionLayer::new(Rules::empty(), Effect::Ask).ask(async |_: ApprovalRequest| Ok(Approval::deny()));
    let right = ServiceBuilder::new().layer(layer([mfa()])).layer(asks()).service(router());
    assert_eq!(right.run_call(weak_call(json!({}))).await.refusal().unwrap().kind(), RefusalKind::StepUp);
    assert!(faults(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(asks()).layer(layer([mfa()])).service(router());
    assert_eq!(wrong.run_call(weak_call(json!({}))).await.refusal().unwrap().kind(), RefusalKind::Denied);
    assert_eq!(faults(&wrong).await, ["ask-before-step-up"]);
}

#[tokio::test]
async fn j01_what_is_judged_is_what_runs() {
    let raise = || map_call("raise", |call| call.arguments = json!({ "amount": 5000 }).into());
    let rule = || mfa().argument(ArgumentRule::at_least("/amount", 1000).unwrap());
    let right = ServiceBuilder::new().layer(raise()).layer(layer([rule()])).service(router());
    assert_eq!(right.run_call(weak_call(json!({ "amount": 1 }))).await.refusal().unwrap().kind(), RefusalKind::StepUp);
    assert!(faults(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(layer([rule()])).layer(raise()).service(router());
    assert!(wrong.run_call(weak_call(json!({ "amount": 1 }))).await.is_completed());
    assert_eq!(faults(&wrong).await, ["rewrite-after-decision"]);
}

#[tokio::test]
async fn j01_a_better_sign_in_is_asked_for_inside_what_finds_out_who_asks() {
    let authenticate = || AuthenticateLayer::new().bearer(async |_: BearerToken| Ok(Verified::new(signed_in(Some("mfa"), Some(0)))));
    let call = || {
        let mut call = ToolCall::new("transfer", json!({}));
        call.context.extensions_mut().insert(BearerToken::new("t").unwrap());
        call
    };
    let right = ServiceBuilder::new().layer(authenticate()).layer(layer([mfa()])).service(router());
    assert!(right.run_call(call()).await.is_completed());
    assert!(faults(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(layer([mfa()])).layer(authenticate()).service(router());
    assert_eq!(wrong.run_call(call()).await.refusal().unwrap().kind(), RefusalKind::StepUp);
    assert_eq!(faults(&wrong).await, ["caller-before-identity"]);
}
