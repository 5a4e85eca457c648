use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::permission::{
        Approval, ApprovalRequest, ApproverError, DenialPayload, Effect, OnSwap, Opinion, PermissionLayer, Rules, Scope, channel,
    },
    model::{Cancellation, Context, ToolName},
    testing::Probe,
    tool::ToolEntry,
};
use tower::{BoxError, ServiceBuilder, limit::ConcurrencyLimitLayer};

use super::{by, guarded, kind, rules, text};

fn asking() -> PermissionLayer {
    PermissionLayer::new(Rules::empty(), Effect::Ask)
}

fn call() -> ToolCall {
    ToolCall::new("t", json!({ "path": "/srv/a" }))
}

#[tokio::test(start_paused = true)]
async fn a13_a_no_a_failure_an_absence_and_a_silence_are_four_different_endings() {
    let probe = Probe::new();
    let says_no = guarded(asking().ask(async |_: ApprovalRequest| Ok(Approval::deny())), &probe, &["t"]);
    let fails = guarded(asking().ask(async |_: ApprovalRequest| Err(ApproverError::failed("the s3cret socket is gone"))), &probe, &["t"]);
    let absent = guarded(asking(), &probe, &["t"]);
    let silent = guarded(
        asking().ask_within(Duration::from_secs(90)).ask(|_: ApprovalRequest| std::future::pending::<Result<Approval, ApproverError>>()),
        &probe,
        &["t"],
    );
    let puts_aside = guarded(asking().ask(async |_: ApprovalRequest| Err(ApproverError::Dismissed)), &probe, &["t"]);
    let mut texts = Vec::new();
    for (stack, expected) in [
        (says_no, RefusalKind::Denied),
        (fails, RefusalKind::Internal),
        (absent, RefusalKind::ApprovalNeeded),
        (silent, RefusalKind::Timeout),
        (puts_aside, RefusalKind::ApprovalNeeded),
    ] {
        let response = stack.run_call(call()).await;
        assert_eq!((kind(&response), response.refusal().unwrap().by()), (Some(expected), "permission"));
        texts.push(text(&response));
    }
    assert_eq!(
        texts,
        [
            "User denied execution of 't'.",
            "'t' was not run: asking for approval failed. Nobody denied it, and its arguments are not the cause.",
            "'t' was not run: it needs a person's approval, and nobody is there to be asked. Configure an approver, or a rule that allows it.",
            "'t' was not run: nobody answered within 90 s whether it may.",
            "'t' was not run: it needs a person's approval, and the question was put aside without an answer.",
        ]
    );
    assert_eq!(probe.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn b11_without_an_approver_the_refusal_comes_at_once_and_a_deadline_is_kept() {
    let began = Instant::now();
    assert_eq!(kind(&guarded(asking(), &Probe::new(), &["t"]).run_call(call()).await), Some(RefusalKind::ApprovalNeeded));
    assert_eq!(began.elapsed(), Duration::ZERO);

    let silent = asking().ask(|_: ApprovalRequest| std::future::pending::<Result<Approval, ApproverError>>());
    let stack = guarded(silent, &Probe::new(), &["t"]);
    let context = Context::new().with_deadline(began + Duration::from_millis(50));
    assert_eq!(kind(&stack.run_call(call().with_context(context)).await), Some(RefusalKind::Timeout));
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    assert_eq!(kind(&stack.run_call(call()).await), Some(RefusalKind::Timeout));
    assert_eq!(began.elapsed(), Duration::from_millis(50) + PermissionLayer::ASK_WITHIN);
}

#[tokio::test]
async fn a_person_s_no_is_the_denial_of_mcs_verbatim() {
    let stack = guarded(asking().ask(async |_: ApprovalRequest| Ok(Approval::deny())), &Probe::new(), &["write_file"]);
    let response = stack.call_tool("write_file", json!({})).await;
    assert!(response.result().unwrap().is_error);
    let payload = DenialPayload::of(&ToolName::new("write_file").unwrap(), &response).unwrap();
    assert_eq!(
        serde_json::to_value(&payload).unwrap(),
        json!({ "permission_denied": true, "tool": "write_file", "message": "User denied execution of 'write_file'." })
    );
    let unknown = stack.call_tool("nothing", json!({})).await;
    assert!(DenialPayload::of(&ToolName::new("nothing").unwrap(), &unknown).is_none());
}

#[tokio::test]
async fn each_answer_does_what_it_says() {
    let probe = Probe::new();
    let answers = Arc::new(Mutex::new(vec![
        Approval::once(),
        Approval::deny().because("not now"),
        Approval::edited(json!({ "path": "/srv/b" })),
        Approval::answered(ToolResponse::text("from the person")),
    ]));
    let stack = guarded(
        asking().ask(move |_: ApprovalRequest| {
            let answer = answers.lock().unwrap().remove(0);
            async move { Ok(answer) }
        }),
        &probe,
        &["t"],
    );
    assert!(stack.run_call(call()).await.is_completed());
    assert_eq!(text(&stack.run_call(call()).await), "User denied execution of 't'. Reason: not now");
    assert!(stack.run_call(call()).await.is_completed());
    let answered = stack.run_call(call()).await;
    assert_eq!((text(&answered).as_str(), answered.result().unwrap().served_by()), ("from the person", Some("permission")));
    assert_eq!(probe.arguments(), [r#"{"path":"/srv/a"}"#, r#"{"path":"/srv/b"}"#]);
}

#[tokio::test]
async fn d02_edited_arguments_are_judged_again() {
    let probe = Probe::new();
    let set = json!([
        { "id": "etc", "effect": "deny", "arguments": [{ "path": "/path", "prefix": "/etc" }] },
        { "id": "rest", "effect": "ask" },
    ]);
    for edited in [json!({ "path": "/etc/passwd" }), json!({}), json!([1])] {
        let layer = PermissionLayer::new(rules(&set), Effect::Deny).ask(move |_: ApprovalRequest| {
            let edited = edited.clone();
            async move { Ok(Approval::edited(edited)) }
        });
        let response = guarded(layer, &probe, &["t"]).run_call(call()).await;
        assert_eq!(text(&response), "Execution of 't' is denied: by the rule `etc`.");
    }
    // The engine judges them as well.
    let engine = |call: &ToolCall, _: &ToolEntry| -> Result<Opinion, BoxError> {
        let odd = call.arguments.object()?.contains_key("odd");
        Ok(if odd { Opinion::new(Effect::Deny).because("odd") } else { Opinion::new(Effect::Allow) })
    };
    let layer = asking().engine(engine).ask(async |_: ApprovalRequest| Ok(Approval::edited(json!({ "odd": 1 }))));
    assert_eq!(text(&guarded(layer, &probe, &["t"]).run_call(call()).await), "Execution of 't' is denied: odd.");
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn an_approver_is_shown_the_call_the_tool_and_why() {
    let seen = Arc::new(Mutex::new(None));
    let shown = Arc::clone(&seen);
    let set = rules(&json!([{ "id": "k", "effect": "ask", "reason": "it writes", "remember": false }]));
    let layer = PermissionLayer::new(set, Effect::Deny).ask(move |request: ApprovalRequest| {
        *shown.lock().unwrap() = Some(request);
        async { Ok(Approval::once()) }
    });
    guarded(layer, &Probe::new(), &["t"]).run_call(by("ada", call())).await;
    let request = seen.lock().unwrap().take().unwrap();
    assert_eq!((request.call.name().as_str(), request.call.context.principal().subject.as_str()), ("t", "ada"));
    assert_eq!((request.tool.source().name.as_ref(), request.may_remember), ("local", false));
    assert_eq!(request.explanation.why(), "the rule `k` asks: it writes");
    assert!(!format!("{request:?}").contains("/srv/a"));
}

#[tokio::test]
async fn a_channel_asks_another_task_and_its_end_is_an_absence() {
    let (approver, mut questions) = channel(1);
    let probe = Probe::new();
    let stack = guarded(asking().ask(approver), &probe, &["t"]);
    let mut first = Box::pin(stack.run_call(call()));
    assert!(first.as_mut().now_or_never().is_none());
    questions.next().await.unwrap().answer(Approval::once());
    assert!(first.await.is_completed());

    let mut dropped = Box::pin(stack.run_call(call()));
    assert!(dropped.as_mut().now_or_never().is_none());
    drop(questions.next().await);
    assert_eq!(kind(&dropped.await), Some(RefusalKind::ApprovalNeeded));

    let mut gone = Box::pin(stack.run_call(call()));
    assert!(gone.as_mut().now_or_never().is_none());
    let question = questions.next().await.unwrap();
    assert!(!question.is_over());
    drop(gone);
    assert!(question.is_over());
    question.answer(Approval::once());

    drop(questions);
    assert_eq!(kind(&stack.run_call(call()).await), Some(RefusalKind::ApprovalNeeded));
    assert_eq!(probe.runs(), 1);
}

#[tokio::test]
async fn who_is_asked_can_be_changed_while_the_stack_runs() {
    let layer = asking();
    let handle = layer.handle();
    let stack = guarded(layer, &Probe::new(), &["t"]);
    assert_eq!(kind(&stack.run_call(call()).await), Some(RefusalKind::ApprovalNeeded));
    handle.set_approver(async |_: ApprovalRequest| Ok(Approval::once()));
    assert!(stack.run_call(call()).await.is_completed());
    handle.remove_approver();
    assert_eq!(kind(&stack.run_call(call()).await), Some(RefusalKind::ApprovalNeeded));
}

#[tokio::test]
async fn a_call_that_waits_is_judged_again_by_new_rules_or_finished_under_the_old_ones() {
    let deny = || rules(&json!([{ "id": "d", "effect": "deny" }]));
    for (on_swap, runs) in [(OnSwap::JudgeAgain, false), (OnSwap::Finish, true)] {
        let (approver, mut questions) = channel(1);
        let layer = asking().ask(approver).on_swap(on_swap);
        let handle = layer.handle();
        let stack = guarded(layer, &Probe::new(), &["t"]);
        let mut waiting = Box::pin(stack.run_call(call()));
        assert!(waiting.as_mut().now_or_never().is_none());
        let question = questions.next().await.unwrap();
        handle.set_rules(deny());
        question.answer(Approval::once());
        assert_eq!(waiting.await.is_completed(), runs);
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_holds_no_place_of_a_limit_within() {
    let (approver, mut questions) = channel(1);
    let set = rules(&json!([{ "id": "k", "effect": "ask", "tools": { "names": ["t"] } }]));
    let stack = ServiceBuilder::new()
        .layer(PermissionLayer::new(set, Effect::Allow).ask(approver))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Router::new().tool(Probe::new().tool("t")).tool(Probe::new().tool("u")));
    let mut waiting = Box::pin(stack.run_call(call()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(stack.call_tool("u", json!({})).await.is_completed());
    questions.next().await.unwrap().answer(Approval::once());
    assert!(waiting.await.is_completed());
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_waits_is_not_denied() {
    let (approver, _questions) = channel(1);
    let stack = guarded(asking().ask(approver), &Probe::new(), &["t"]);
    let cancellation = Cancellation::new();
    let mut waiting = Box::pin(stack.run_call(call().with_context(Context::new().with_cancellation(cancellation.clone()))));
    assert!(waiting.as_mut().now_or_never().is_none());
    cancellation.cancel();
    assert_eq!(kind(&waiting.await), Some(RefusalKind::Cancelled));
}

#[tokio::test]
async fn calls_at_once_are_each_asked_about_and_each_get_their_own_answer() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let layer = asking().ask(move |request: ApprovalRequest| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::task::yield_now().await;
            let n = request.call.arguments.object().unwrap()["n"].as_u64().unwrap();
            Ok(if n.is_multiple_of(2) { Approval::once() } else { Approval::deny() })
        }
    });
    let probe = Probe::new();
    let stack = guarded(layer, &probe, &["t"]);
    let answers = stack.run_calls((0..50).map(|n| ToolCall::new("t", json!({ "n": n }))).collect()).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.response.is_completed(), n % 2 == 0);
    }
    assert_eq!((asked.load(Ordering::SeqCst), probe.runs()), (50, 25));
}

#[tokio::test]
async fn an_engine_tightens_and_never_relaxes_and_its_failure_is_not_a_no_of_somebody() {
    let engine = |call: &ToolCall, _: &ToolEntry| -> Result<Opinion, BoxError> {
        match call.name().as_str() {
            "allow" => Ok(Effect::Allow.into()),
            "ask" => Ok(Effect::Ask.into()),
            "deny" => Ok(Opinion::new(Effect::Deny).because("policy 7")),
            _ => Err("s3cret".into()),
        }
    };
    let probe = Probe::new();
    let names = ["allow", "ask", "deny", "fail"];
    let stack = guarded(PermissionLayer::new(Rules::empty(), Effect::Allow).engine(engine), &probe, &names);
    let mut endings = Vec::new();
    for name in names {
        endings.push(kind(&stack.call_tool(name, json!({})).await));
    }
    assert_eq!(endings, [None, Some(RefusalKind::ApprovalNeeded), Some(RefusalKind::Denied), Some(RefusalKind::Internal)]);
    assert_eq!(text(&stack.call_tool("deny", json!({})).await), "Execution of 'deny' is denied: policy 7.");
    assert!(!text(&stack.call_tool("fail", json!({})).await).contains("s3cret"));
    let denying = guarded(PermissionLayer::new(Rules::empty(), Effect::Deny).engine(engine), &probe, &names);
    assert_eq!(kind(&denying.call_tool("allow", json!({})).await), Some(RefusalKind::Denied));
    assert_eq!(probe.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hangs_is_bounded_by_the_deadline() {
    struct Hangs;
    impl toolstack::layer::permission::PolicyEngine for Hangs {
        fn judge<'a>(&'a self, _: &'a ToolCall, _: &'a ToolEntry) -> futures_util::future::BoxFuture<'a, Result<Opinion, BoxError>> {
            Box::pin(std::future::pending())
        }
    }
    let began = Instant::now();
    let stack = guarded(PermissionLayer::new(Rules::empty(), Effect::Allow).engine(Hangs), &Probe::new(), &["t"]);
    let context = Context::new().with_deadline(began + Duration::from_secs(5));
    let response = stack.run_call(call().with_context(context)).await;
    assert_eq!(text(&response), "'t' was not run: its deadline passed before it was decided whether it may.");
    assert_eq!((kind(&response), began.elapsed()), (Some(RefusalKind::Timeout), Duration::from_secs(5)));
}

#[test]
fn answers_from_outside_are_read_strictly() {
    for (json, fine) in [
        (json!({ "decision": "allow_once" }), true),
        (json!({ "decision": { "allow": { "scope": "tool", "seconds": 60 } }, "reason": "r" }), true),
        (json!({ "decision": { "edit": { "a": 1 } } }), true),
        (json!({ "decision": "allow" }), false),
        (json!({ "decision": true }), false),
        (json!({ "decision": "yes" }), false),
        (json!({ "decision": "allow_once", "scope": "tool" }), false),
        (json!({ "approve": true }), false),
    ] {
        assert_eq!(serde_json::from_value::<Approval>(json.clone()).is_ok(), fine, "{json}");
    }
    let _: Value = serde_json::to_value(Approval::allow_for(Scope::Call, Duration::from_secs(1))).unwrap();
}
