use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json, value::to_raw_value};
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::permission::{Approval, Effect, PermissionHandle, PermissionLayer, PermissionService, Reentry, Rules},
    model::{Arguments, Context, InputRequired, Outcome, Principal, RawObject, Resume},
    store::{MemoryPending, PendingApproval, PendingStore},
    testing::Probe,
};
use tower::{BoxError, Layer, ServiceBuilder};

use super::{guarded, kind, rules, text};

type Stack = PermissionService<Router>;

fn asking(reentry: Reentry) -> PermissionLayer {
    PermissionLayer::new(rules(&json!([{ "id": "plain", "effect": "allow", "tools": { "names": ["plain"] } }])), Effect::Ask)
        .ask_by_reentry(reentry)
}

fn stack() -> (Stack, PermissionHandle, Probe) {
    let probe = Probe::new();
    let layer = asking(Reentry::new());
    let handle = layer.handle();
    (guarded(layer, &probe, &["t", "u", "plain"]), handle, probe)
}

fn ada() -> Context {
    Context::new().with_principal(Principal::new("ada"))
}

fn call() -> ToolCall {
    ToolCall::new("t", Arguments::from_text(r#"{"path":"/srv/a"}"#)).with_context(ada())
}

fn asked(response: &ToolResponse) -> InputRequired {
    match response {
        ToolResponse::InputRequired(asked) => (**asked).clone(),
        other => panic!("nothing is asked: {other:?}"),
    }
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "approve": true } })
}

/// The call again, with the answer.
fn again(call: ToolCall, state: Option<&str>, answer: &Value) -> ToolCall {
    let mut answers = RawObject::new();
    answers.insert_raw("approval", to_raw_value(answer).unwrap());
    let context = call.context.clone().with_resume(Resume::new(state.map(Into::into), answers));
    call.with_context(context).with_id("another id")
}

#[tokio::test]
async fn a_call_is_answered_with_a_question_and_runs_with_the_answer() {
    let (stack, handle, probe) = stack();
    let response = stack.run_call(call()).await;
    assert_eq!(response.outcome(), Outcome::InputRequired);
    let question = asked(&response);
    let request: Value = question.requests.get("approval").unwrap().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Run `t` with {\"path\":\"/srv/a\"}? Asked because no rule is about it.");
    assert_eq!(request["params"]["requestedSchema"]["required"], json!(["approve"]));
    assert_eq!(handle.pending().unwrap().list().await.unwrap().len(), 1);
    assert_eq!(probe.runs(), 0);

    assert!(stack.run_call(again(call(), question.state.as_deref(), &yes())).await.is_completed());
    assert_eq!(probe.runs(), 1);
    // The tool does not see the layer's own state.
    assert!(probe.calls()[0].context.resume().is_none());
    assert!(handle.pending().unwrap().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn c06_an_approval_is_good_once_and_for_what_was_asked() {
    let (stack, _, probe) = stack();
    let state = asked(&stack.run_call(call()).await).state.unwrap();
    let no_approval = "'t' was not run: the approval that was brought back was never asked for, is for another call, was used, or is over.";
    let other = |change: fn(&mut ToolCall)| {
        let mut call = call();
        change(&mut call);
        again(call, Some(&state), &yes())
    };
    for (what, call) in [
        ("arguments", other(|call| call.arguments = json!({ "path": "/etc/passwd" }).into())),
        ("no arguments", other(|call| call.arguments = Arguments::empty())),
        ("principal", other(|call| call.context.set_principal(Principal::new("eve")))),
        ("nobody", other(|call| call.context.set_principal(Principal::anonymous()))),
        ("forged", again(call(), Some(&format!("permission:{}", "0".repeat(64))), &yes())),
        ("empty", again(call(), Some("permission:"), &yes())),
    ] {
        let response = stack.run_call(call).await;
        assert_eq!((kind(&response), text(&response).as_str()), (Some(RefusalKind::Denied), no_approval), "{what}");
    }
    let tool = stack.run_call(again(ToolCall::new("u", json!({ "path": "/srv/a" })).with_context(ada()), Some(&state), &yes())).await;
    assert_eq!(kind(&tool), Some(RefusalKind::Denied));
    assert_eq!(probe.runs(), 0);
    // None of these used it up; the right one does.
    assert!(stack.run_call(again(call(), Some(&state), &yes())).await.is_completed());
    assert_eq!(text(&stack.run_call(again(call(), Some(&state), &yes())).await), no_approval);
    assert_eq!(probe.runs(), 1);
    // What is not this layer's state is asked about like any call.
    for state in [None, Some("someone else's"), Some("permissionx:1")] {
        assert_eq!(stack.run_call(again(call(), state, &yes())).await.outcome(), Outcome::InputRequired);
    }
}

#[tokio::test]
async fn c06_of_many_who_come_back_at_once_one_runs() {
    let (stack, _, probe) = stack();
    let state = asked(&stack.run_call(call()).await).state.unwrap();
    let answers = stack.run_calls((0..20).map(|_| again(call(), Some(&state), &yes())).collect()).await;
    assert_eq!((answers.iter().filter(|answer| answer.response.is_completed()).count(), probe.runs()), (1, 1));
}

#[tokio::test]
async fn c06_an_answer_is_read_strictly_and_one_that_cannot_be_read_is_none() {
    let (stack, _, probe) = stack();
    let state = asked(&stack.run_call(call()).await).state.unwrap();
    for answer in [
        json!("false"),
        json!("true"),
        json!(true),
        json!(1),
        json!(null),
        json!([]),
        json!({}),
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": {} }),
        json!({ "action": "accept", "content": { "approve": "false" } }),
        json!({ "action": "accept", "content": { "approve": "true" } }),
        json!({ "action": "accept", "content": { "approve": 1 } }),
        json!({ "action": "accept", "content": { "approved": true } }),
        json!({ "action": "accept", "content": { "approve": true, "remember": "always" } }),
        json!({ "action": "accept", "content": { "approve": true }, "approve": true }),
        json!({ "action": "approve", "content": { "approve": true } }),
        json!({ "content": { "approve": true } }),
        json!(["accept", { "approve": true }, null]),
        json!(["accept", [true, "tool", null], null]),
        json!({ "action": "accept", "content": [true, null, null] }),
    ] {
        let response = stack.run_call(again(call(), Some(&state), &answer)).await;
        assert_eq!(kind(&response), Some(RefusalKind::ApprovalNeeded), "{answer}");
    }
    // Back without an answer: the question stands.
    let bare = call().with_context(ada().with_resume(Resume::new(Some(state.clone()), RawObject::new())));
    assert_eq!(asked(&stack.run_call(bare).await).state.as_deref(), Some(&*state));
    assert_eq!(probe.runs(), 0);
    assert!(stack.run_call(again(call(), Some(&state), &yes())).await.is_completed());
}

#[tokio::test]
async fn a_person_s_no_and_a_question_put_aside_differ_here_too() {
    let (stack, _, probe) = stack();
    for (answer, expected) in [
        (json!({ "action": "accept", "content": { "approve": false, "reason": "no" } }), RefusalKind::Denied),
        (json!({ "action": "decline" }), RefusalKind::Denied),
        (json!({ "action": "cancel", "_meta": {} }), RefusalKind::ApprovalNeeded),
    ] {
        let state = asked(&stack.run_call(call()).await).state.unwrap();
        assert_eq!(kind(&stack.run_call(again(call(), Some(&state), &answer)).await), Some(expected));
        // Over in any case.
        assert_eq!(kind(&stack.run_call(again(call(), Some(&state), &yes())).await), Some(RefusalKind::Denied));
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn an_answer_is_remembered_if_the_person_wants_it() {
    let (stack, handle, probe) = stack();
    let state = asked(&stack.run_call(call()).await).state.unwrap();
    let remember = json!({ "action": "accept", "content": { "approve": true, "remember": "tool", "reason": "trusted" } });
    assert!(stack.run_call(again(call(), Some(&state), &remember)).await.is_completed());
    assert!(stack.run_call(call()).await.is_completed());
    assert_eq!((probe.runs(), handle.list_grants(None).await.unwrap()[0].reason.as_deref()), (2, Some("trusted")));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_over_in_time() {
    let layer = asking(Reentry::new().valid_for(Duration::from_secs(60)));
    let stack = guarded(layer, &Probe::new(), &["t"]);
    let state = asked(&stack.run_call(call()).await).state.unwrap();
    tokio::time::advance(Duration::from_secs(65)).await;
    assert_eq!(kind(&stack.run_call(again(call(), Some(&state), &yes())).await), Some(RefusalKind::Denied));
}

#[tokio::test]
async fn what_rules_deny_by_now_is_denied_with_an_answer_too() {
    let (stack, handle, probe) = stack();
    let state = asked(&stack.run_call(call()).await).state.unwrap();
    handle.set_rules(rules(&json!([{ "id": "d", "effect": "deny" }])));
    assert_eq!(text(&stack.run_call(again(call(), Some(&state), &yes())).await), "Execution of 't' is denied: by the rule `d`.");
    handle.set_rules_and(Rules::empty(), Effect::Allow);
    assert!(stack.run_call(again(call(), Some(&state), &yes())).await.is_completed());
    assert!(probe.calls()[0].context.resume().is_none());
}

#[tokio::test]
async fn c03_a_turn_with_a_pending_call_and_a_plain_one_runs_each_once_across_a_restart() {
    let (stack, handle, probe) = stack();
    let plain = || ToolCall::new("plain", json!({})).with_context(ada()).with_id("c2");
    let first = stack.run_calls(vec![call().with_id("c1"), plain()]).await;
    assert_eq!(first.iter().map(|answer| answer.outcome()).collect::<Vec<_>>(), [Outcome::InputRequired, Outcome::Completed]);
    let state = asked(&first[0].response).state.unwrap();
    let (calls, kept) =
        (serde_json::to_string(&call()).unwrap(), serde_json::to_string(&handle.pending().unwrap().list().await.unwrap()).unwrap());

    // Another process: the pending approval and the call come out of what was written down.
    let store = MemoryPending::new();
    for pending in serde_json::from_str::<Vec<PendingApproval>>(&kept).unwrap() {
        store.put(pending).await.unwrap();
    }
    let restarted = guarded(asking(Reentry::with_store(store)), &probe, &["t", "u", "plain"]);
    let call: ToolCall = serde_json::from_str(&calls).unwrap();
    let resumed = restarted.run_calls(vec![again(call.with_context(ada()), Some(&state), &yes())]).await;
    assert!(resumed[0].response.is_completed());
    let ran: Vec<_> = probe.calls().iter().map(|call| call.name().to_string()).collect();
    assert_eq!(ran, ["plain", "t"]);
}

#[tokio::test]
async fn an_answer_given_apart_counts_and_the_caller_s_own_does_not() {
    let layer = asking(Reentry::new().answered_apart());
    let handle = layer.handle();
    let probe = Probe::new();
    let stack = guarded(layer, &probe, &["t"]);
    let question = asked(&stack.run_call(call()).await);
    assert!(question.requests.is_empty());
    let state = question.state.unwrap();
    assert_eq!(stack.run_call(again(call(), Some(&state), &yes())).await.outcome(), Outcome::InputRequired);
    let pending = handle.pending().unwrap().list().await.unwrap();
    assert_eq!(pending[0].arguments.as_json().unwrap(), r#"{"path":"/srv/a"}"#);
    assert!(!format!("{pending:?}").contains("/srv/a") && !format!("{pending:?}").contains(&pending[0].id));
    assert!(handle.answer(&pending[0].id, Approval::once()).await.unwrap());
    assert!(!handle.answer(&pending[0].id, Approval::deny()).await.unwrap());
    assert!(!handle.answer("no such", Approval::once()).await.unwrap());
    assert!(stack.run_call(again(call(), Some(&state), &json!({ "action": "decline" }))).await.is_completed());
    assert_eq!(probe.runs(), 1);
}

#[tokio::test]
async fn a_tool_that_asks_itself_gets_its_own_answer_back_through_the_layer() {
    // The tool asks once, with a state of its own, and answers when that comes back.
    let probe = Probe::answering(|call| match call.context.resume().and_then(|resume| resume.state.as_deref()) {
        Some("the tool's") => ToolResponse::text("done"),
        _ => ToolResponse::InputRequired(Box::new(InputRequired::new("the tool's"))),
    });
    let stack = guarded(asking(Reentry::new()), &probe, &["t"]);
    let state = asked(&stack.run_call(call()).await).state.unwrap();
    let second = stack.run_call(again(call(), Some(&state), &yes())).await;
    assert_eq!(asked(&second).state.as_deref(), Some("the tool's"));
    // That is a new call, which a person is asked about; the tool's state is kept meanwhile.
    let third = asked(&stack.run_call(again(call(), Some("the tool's"), &json!({}))).await).state.unwrap();
    let last = stack.run_call(again(call(), Some(&third), &yes())).await;
    assert_eq!(text(&last), "done");
}

#[tokio::test]
async fn two_layers_that_ask_by_reentry_each_know_their_own_questions() {
    let probe = Probe::new();
    let store = Arc::new(MemoryPending::new());
    let stack = ServiceBuilder::new()
        .layer(asking(Reentry::with_store(Shared(Arc::clone(&store))).named("outer")))
        .layer(asking(Reentry::with_store(Shared(store)).named("inner")))
        .service(Router::new().tool(probe.tool("t")));
    let mut call_now = call();
    let mut answers = 0;
    let response = loop {
        let response = stack.run_call(call_now).await;
        if !matches!(response, ToolResponse::InputRequired(_)) || answers > 5 {
            break response;
        }
        answers += 1;
        call_now = again(call(), asked(&response).state.as_deref(), &yes());
    };
    assert!(response.is_completed(), "{response:?}");
    assert_eq!((answers, probe.runs()), (3, 1));
}

/// One store for two layers.
struct Shared(Arc<MemoryPending>);

impl PendingStore for Shared {
    fn put(&self, pending: PendingApproval) -> BoxFuture<'_, Result<(), BoxError>> {
        self.0.put(pending)
    }
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>> {
        self.0.get(id)
    }
    fn take<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>> {
        self.0.take(id)
    }
    fn answer<'a>(&'a self, id: &'a str, answer: Approval) -> BoxFuture<'a, Result<bool, BoxError>> {
        self.0.answer(id, answer)
    }
    fn list(&self) -> BoxFuture<'_, Result<Vec<PendingApproval>, BoxError>> {
        self.0.list()
    }
}

#[tokio::test]
async fn one_owner_s_questions_do_not_crowd_out_another_s() {
    let store = MemoryPending::with_max(4, 2);
    let layer = asking(Reentry::with_store(store));
    let handle = layer.handle();
    let stack = layer.layer(Router::new().tool(Probe::new().tool("t")));
    for n in 0..10 {
        let call = ToolCall::new("t", json!({ "n": n })).with_context(ada());
        assert_eq!(stack.run_call(call).await.outcome(), Outcome::InputRequired);
    }
    let eve = call().with_context(Context::new().with_principal(Principal::new("eve")));
    assert_eq!(stack.run_call(eve).await.outcome(), Outcome::InputRequired);
    assert_eq!(handle.pending().unwrap().list().await.unwrap().len(), 3);
}

#[tokio::test]
async fn nobody_is_asked_about_arguments_that_are_no_json() {
    let (stack, handle, _) = stack();
    let response = stack.run_call(ToolCall::new("t", Arguments::from_text("{\"a\":1,\"a\":2}"))).await;
    assert_eq!(kind(&response), Some(RefusalKind::ApprovalNeeded));
    assert!(handle.pending().unwrap().list().await.unwrap().is_empty());
}

/// A store in which somebody answers just before the question is taken.
struct AnsweredMeanwhile(MemoryPending, Approval);

impl PendingStore for AnsweredMeanwhile {
    fn put(&self, pending: PendingApproval) -> BoxFuture<'_, Result<(), BoxError>> {
        self.0.put(pending)
    }
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>> {
        self.0.get(id)
    }
    fn take<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>> {
        Box::pin(async move {
            assert!(self.0.answer(id, self.1.clone()).await?);
            self.0.take(id).await
        })
    }
    fn answer<'a>(&'a self, id: &'a str, answer: Approval) -> BoxFuture<'a, Result<bool, BoxError>> {
        self.0.answer(id, answer)
    }
    fn list(&self) -> BoxFuture<'_, Result<Vec<PendingApproval>, BoxError>> {
        self.0.list()
    }
}

#[tokio::test]
async fn c06_an_answer_that_is_given_apart_while_the_caller_comes_back_with_another_counts() {
    let caller_says_no = json!({ "action": "decline" });
    for (apart, caller, runs) in [(Approval::deny().because("not today"), yes(), 0), (Approval::once(), caller_says_no, 1)] {
        let probe = Probe::new();
        let store = AnsweredMeanwhile(MemoryPending::new(), apart);
        let stack = guarded(asking(Reentry::with_store(store)), &probe, &["t"]);
        let state = asked(&stack.run_call(call()).await).state.unwrap();
        let response = stack.run_call(again(call(), Some(&state), &caller)).await;
        assert_eq!((response.is_completed(), probe.runs()), (runs == 1, runs));
        if runs == 0 {
            assert_eq!(text(&response), "User denied execution of 't'. Reason: not today");
        }
    }
}
