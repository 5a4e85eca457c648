//! What a record says.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use toolstack::{
    RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    layer::{
        AuditLayer, AuthenticateLayer, PermissionLayer,
        audit::{ArgumentsDigest, AuditEnding, AuditRecord},
        authenticate::{BearerToken, StaticTokens},
        gate, map_call,
        permission::{self, Approval, ApprovalRequest, Effect, Rules, Scope},
        redact::Redactor,
    },
    model::{Arguments, Content, Context, InputRequired, Origin, Principal, Secret, ToolResult, TraceContext},
    stack::Reentry,
    testing::Probe,
    tool::{Source, sync_tool_fn, tool_fn},
};
use tower::{Layer, ServiceBuilder, limit::ConcurrencyLimitLayer};

use super::{Count, audit, one, records};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn probe() -> Router {
    Router::new().tool(Probe::new().tool("probe"))
}

#[tokio::test]
async fn a_record_names_who_asked_for_what_and_from_where() {
    let (layer, mut log) = audit();
    let tool = Probe::new().tool("probe").source(Source::foreign("vendor"));
    let fingerprint = tool.spec().fingerprint();
    let stack = layer.layer(Router::new().tool(tool));
    let mut principal = Principal::new("ada").scope("admin");
    principal.issuer = Some("https://idp.example".to_owned());
    let context =
        Context::new().with_principal(principal).with_session("s1").with_origin(Origin::Person).with_trace(TraceContext::new(TRACE));
    stack.run_call(ToolCall::new("probe", json!({ "a": 1 })).with_id("c1").with_context(context)).await;

    let record = one(&mut log);
    let json: Value = serde_json::to_value(&record).unwrap();
    assert_eq!(json["principal"], json!({ "subject": "ada", "issuer": "https://idp.example" }));
    for (field, value) in [
        ("operation", json!("tools/call")),
        ("session", json!("s1")),
        ("origin", json!("person")),
        ("call", json!("c1")),
        ("tool", json!("probe")),
        ("fingerprint", json!(fingerprint.to_string())),
        ("source", json!("vendor")),
        ("arguments_digest", json!("sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862")),
        ("ending", json!("answered")),
        ("outcome", json!("completed")),
        ("is_error", json!(false)),
        ("result_bytes", json!(2)),
        ("attempts", json!(1)),
        ("trace_id", json!("0af7651916cd43dd8448eb211c80319c")),
        ("sequence", json!(0)),
    ] {
        assert_eq!(json[field], value, "{field}");
    }
    for absent in ["decision", "refusal", "by", "arguments", "effective_digest", "parent", "depth", "tools"] {
        assert!(json.get(absent).is_none(), "{absent}");
    }
    let time = json["time"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.len() == "2026-12-01T01:02:03.123456Z".len(), "{time}");
    assert_eq!(record.id(), format!("{}-0", json["stream"].as_str().unwrap()));
}

#[tokio::test]
async fn a_record_is_read_back_as_it_was_written() {
    let (layer, mut log) = audit();
    let rules = r#"{"rules":[{"id":"no","effect":"deny","tools":{"names":["b"]}}]}"#;
    let stack = ServiceBuilder::new()
        .layer(layer.digest_key(Secret::new("key")).arguments(Redactor::new()))
        .layer(PermissionLayer::new(Rules::from_json(rules).unwrap(), Effect::Allow))
        .service(Router::new().tool(Probe::new().tool("a")).tool(Probe::new().tool("b")));
    let context = Context::new().with_principal(Principal::new("ada")).with_trace(TraceContext::new(TRACE));
    for name in ["a", "b", "c"] {
        stack.run_call(ToolCall::new(name, json!({ "a": 1 })).with_context(context.clone())).await;
    }
    stack.list_tools().await;
    let all = records(&mut log);
    assert_eq!(all.iter().map(|record| record.sequence).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for record in all {
        let json = serde_json::to_string(&record).unwrap();
        let read: AuditRecord = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        assert_eq!((read.outcome, read.arguments_digest, read.trace_id), (record.outcome, record.arguments_digest, record.trace_id));
    }
}

#[tokio::test(start_paused = true)]
async fn h08_waiting_and_running_are_apart_whatever_came_of_it() {
    let (layer, mut log) = audit();
    let tool = tool_fn("work", |arguments: Arguments| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if arguments.object().unwrap().contains_key("fail") { Err(toolstack::tool::ToolError::new("no")) } else { Ok("done") }
    });
    let stack = ServiceBuilder::new().layer(layer).layer(ConcurrencyLimitLayer::new(1)).service(Router::new().tool(tool));
    tokio::join!(stack.call_tool("work", json!({})), stack.call_tool("work", json!({ "fail": true })));
    let times = |record: &AuditRecord| (record.total.as_secs(), record.waiting.unwrap().as_secs(), record.running.unwrap().as_secs());
    let all = records(&mut log);
    assert_eq!(all.iter().map(times).collect::<Vec<_>>(), [(5, 0, 5), (10, 5, 5)]);
    assert!(all[1].is_error);
}

#[tokio::test]
async fn a_call_within_a_call_has_a_record_with_its_parent() {
    let (layer, mut log) = audit();
    let outer = tool_fn("outer", |stack: Reentry| async move { stack.call_tool("probe", json!({})).await });
    let stack = Stack::new(layer.layer(Router::new().tool(outer).tool(Probe::new().tool("probe"))));
    stack.run_call(ToolCall::new("outer", json!({})).with_id("c1")).await;
    let all = records(&mut log);
    let told: Vec<_> = all.iter().map(|record| (record.tool.as_deref().unwrap(), record.depth, record.origin, record.attempts)).collect();
    assert_eq!(told, [("probe", 1, Origin::Program, 1), ("outer", 0, Origin::Model, 1)]);
    assert_eq!(all[0].parent, Some("c1".into()));
}

#[tokio::test]
async fn the_decision_and_its_rule_are_those_of_the_permission_layer_within() {
    let rules = r#"{"rules":[
        {"id":"readers","effect":"allow","tools":{"names":["read"]}},
        {"id":"writers","effect":"ask","tools":{"names":["write"]}},
        {"id":"never","effect":"deny","tools":{"names":["reset"]}}
    ]}"#;
    let layer = || PermissionLayer::new(Rules::from_json(rules).unwrap(), Effect::Deny);
    let tools = || ["read", "write", "reset", "other"].into_iter().fold(Router::new(), |router, name| router.tool(Probe::new().tool(name)));
    let (audit_layer, mut log) = audit();
    let asks = layer().ask(async |_: ApprovalRequest| Ok(Approval::once()));
    let stack = ServiceBuilder::new().layer(audit_layer.clone()).layer(asks).service(tools());
    let mut told = async |stack: &dyn Fn(&'static str) -> futures_util::future::BoxFuture<'static, ToolResponse>, name| {
        stack(name).await;
        let decision = one(&mut log).decision.unwrap();
        (decision.effect, decision.by.to_string(), decision.id.map(|id| id.to_string()), decision.enforced)
    };
    let run = |name: &'static str| -> futures_util::future::BoxFuture<'static, ToolResponse> { Box::pin(stack.call_tool(name, json!({}))) };
    let rule = |id: &str| Some(id.to_owned());
    assert_eq!(told(&run, "read").await, (Effect::Allow, "rule".to_owned(), rule("readers"), true));
    assert_eq!(told(&run, "write").await, (Effect::Allow, "person".to_owned(), None, true));
    assert_eq!(told(&run, "reset").await, (Effect::Deny, "rule".to_owned(), rule("never"), true));
    assert_eq!(told(&run, "other").await, (Effect::Deny, "unmatched".to_owned(), None, true));

    let dry = ServiceBuilder::new().layer(audit_layer).layer(layer().audit_only()).service(tools());
    let run = |name: &'static str| -> futures_util::future::BoxFuture<'static, ToolResponse> { Box::pin(dry.call_tool(name, json!({}))) };
    assert_eq!(told(&run, "reset").await, (Effect::Deny, "rule".to_owned(), rule("never"), false));
}

#[tokio::test]
async fn the_decision_is_the_grant_that_was_remembered_or_that_nobody_has_decided_yet() {
    let (audit_layer, mut log) = audit();
    let asks = PermissionLayer::new(Rules::empty(), Effect::Ask)
        .ask(async |_: ApprovalRequest| Ok(Approval::allow_for(Scope::Tool, Duration::from_secs(60))));
    let handle = asks.handle();
    let stack = ServiceBuilder::new().layer(audit_layer.clone()).layer(asks).service(probe());
    let mut decided = async |stack: &Stack| {
        stack.call_tool("probe", json!({})).await;
        let record = one(&mut log);
        let decision = record.decision.unwrap();
        (record.outcome.as_str(), decision.effect, decision.by.to_string(), decision.id.map(|id| id.to_string()))
    };
    let stack = stack.into_stack();
    assert_eq!(decided(&stack).await, ("completed", Effect::Allow, "person".to_owned(), None));
    let grant = handle.list_grants(None).await.unwrap().remove(0).id;
    assert_eq!(decided(&stack).await, ("completed", Effect::Allow, "grant".to_owned(), Some(grant.to_string())));

    let asks = PermissionLayer::new(Rules::empty(), Effect::Ask).ask_by_reentry(permission::Reentry::new());
    let stack = ServiceBuilder::new().layer(audit_layer.clone()).layer(asks).service(probe()).into_stack();
    assert_eq!(decided(&stack).await, ("input_required", Effect::Ask, "nobody".to_owned(), None));
    let asks = PermissionLayer::new(Rules::empty(), Effect::Ask);
    let stack = ServiceBuilder::new().layer(audit_layer).layer(asks).service(probe()).into_stack();
    assert_eq!(decided(&stack).await, ("approval_needed", Effect::Deny, "nobody".to_owned(), None));
}

#[tokio::test]
async fn arguments_that_a_layer_within_changed_have_a_digest_of_their_own() {
    let (layer, mut log) = audit();
    let rewrite = map_call("rewrite", |call| {
        if call.name() == "probe" {
            call.arguments = json!({ "path": "/srv" }).into();
        }
    });
    let stack = ServiceBuilder::new().layer(layer).layer(rewrite).service(probe().tool(Probe::new().tool("other")));
    stack.call_tool("probe", Arguments::from_text(r#"{"path":"/"}"#)).await;
    let record = one(&mut log);
    assert_eq!(record.arguments_digest, Some(ArgumentsDigest::of(&json!({ "path": "/" }).into(), None)));
    assert_eq!(record.effective_digest, Some(ArgumentsDigest::of(&json!({ "path": "/srv" }).into(), None)));

    // The same JSON is no change.
    stack.call_tool("probe", Arguments::from_text(r#" { "path" : "/srv" } "#)).await;
    assert_eq!(one(&mut log).effective_digest, None);
    stack.call_tool("other", json!({ "path": "/" })).await;
    assert_eq!(one(&mut log).effective_digest, None);
}

#[tokio::test]
async fn a_whole_call_that_is_put_in_the_place_of_another_is_followed() {
    let (layer, mut log) = audit();
    let replace = map_call("replace", |call| *call = ToolCall::new("probe", json!({ "n": 2 })).with_id(call.id.clone()));
    let function = toolstack::middleware::from_fn(async |call: ToolCall, next: toolstack::middleware::Next<std::convert::Infallible>| {
        next.run(ToolCall::new("probe", json!({ "n": 3 })).with_id(call.id)).await
    });
    let stack = ServiceBuilder::new().layer(layer).layer(replace).layer(function).service(probe());
    stack.call_tool("probe", json!({ "n": 1 })).await;
    let record = one(&mut log);
    assert_eq!((record.attempts, record.effective_digest), (1, Some(ArgumentsDigest::of(&json!({ "n": 3 }).into(), None))));
}

#[tokio::test]
async fn arguments_are_kept_only_where_that_is_asked_for_and_redacted() {
    let (layer, mut log) = audit();
    let rewrite = map_call("rewrite", |call| call.arguments = json!({ "token": "t0ken", "path": "/srv" }).into());
    let no = gate("no", |call| match call.context.session() {
        Some("no") => Err(toolstack::Refusal::new(RefusalKind::Denied, "No.")),
        _ => Ok(()),
    });
    let layer = layer.arguments(Redactor::new().common_keys());
    let stack = ServiceBuilder::new().layer(layer).layer(no).layer(rewrite).service(probe());
    stack.call_tool("probe", json!({ "path": "/" })).await;
    let kept: Value = serde_json::from_str(one(&mut log).arguments.as_deref().unwrap()).unwrap();
    assert_eq!(kept, json!({ "path": "/srv", "token": "[redacted:key]" }));
    let refused = ToolCall::new("probe", json!({ "password": "p" })).with_context(Context::new().with_session("no"));
    stack.run_call(refused).await;
    assert_eq!(one(&mut log).arguments.as_deref(), Some(r#"{"password":"[redacted:key]"}"#));
    stack.list_tools().await;
    assert_eq!(one(&mut log).arguments, None);

    let (layer, mut log) = audit();
    let stack = layer.arguments(Redactor::new()).layer(probe());
    stack.call_tool("probe", json!({ "long": "x".repeat(AuditLayer::MAX_ARGUMENTS) })).await;
    let record = one(&mut log);
    assert!(record.arguments.is_none() && record.arguments_digest.is_some());
}

#[tokio::test]
async fn a_key_makes_digests_that_nobody_else_can_make() {
    let key = Secret::new("a key that nobody guesses");
    let (layer, mut log) = audit();
    let stack = layer.digest_key(key.clone()).layer(probe());
    stack.call_tool("probe", json!({ "pin": 1234 })).await;
    let digest = one(&mut log).arguments_digest.unwrap();
    let pin = |pin: u32, key: Option<&Secret>| ArgumentsDigest::of(&json!({ "pin": pin }).into(), key);
    assert_eq!(digest, pin(1234, Some(&key)));
    assert!((0..10_000).all(|guess| pin(guess, None).as_bytes() != digest.as_bytes()));
}

#[tokio::test]
async fn who_asked_is_there_though_it_was_found_out_within() {
    let (layer, mut log) = audit();
    let authenticate = gate("authenticate", |call| {
        call.context.set_principal(Principal::new("ada"));
        call.context = std::mem::take(&mut call.context).with_trace(TraceContext::new(TRACE));
        Ok(())
    });
    let refuse = gate("no", |_| Err(toolstack::Refusal::new(RefusalKind::Denied, "No.")));
    let stack = ServiceBuilder::new().layer(layer).layer(authenticate).layer(refuse).service(probe());
    stack.call_tool("probe", json!({})).await;
    let record = one(&mut log);
    assert_eq!((record.principal.unwrap().subject(), record.ending), ("ada", AuditEnding::Refused));
    assert_eq!(record.trace_id, Some(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c));
}

#[tokio::test]
async fn a_principal_that_nobody_vouches_for_is_in_no_record() {
    let tokens = StaticTokens::new().token("t0ken", Principal::new("ada")).unwrap();
    let (layer, mut log) = audit();
    let stack = ServiceBuilder::new().layer(layer).layer(AuthenticateLayer::new().bearer(tokens)).service(probe());
    let claimed = || Context::new().with_principal(Principal::new("root"));
    stack.run_call(ToolCall::new("probe", json!({})).with_context(claimed())).await;
    let record = one(&mut log);
    assert_eq!((record.principal, record.refusal), (None, Some(RefusalKind::Unauthenticated)));

    let mut context = claimed();
    context.extensions_mut().insert(BearerToken::new("t0ken").unwrap());
    stack.run_list(toolstack::ListTools::new().with_context(context)).await;
    assert_eq!(one(&mut log).principal.unwrap().subject(), "ada");
    assert!(stack.lint().await.is_empty());
}

#[tokio::test]
async fn h12_what_is_asked_and_what_comes_back_are_one_trace() {
    let (layer, mut log) = audit();
    let tool = Probe::answering(|call| match call.context.resume() {
        None => ToolResponse::InputRequired(Box::new(InputRequired::new("state"))),
        Some(_) => ToolResponse::text("done"),
    });
    let stack = layer.layer(Router::new().tool(tool.tool("probe")));
    let context = Context::new().with_trace(TraceContext::new(TRACE));
    let call = || ToolCall::new("probe", json!({})).with_id("c1");
    stack.run_call(call().with_context(context.clone())).await;
    let back = toolstack::model::Resume::new(Some("state".into()), toolstack::model::RawObject::new());
    stack.run_call(call().with_context(context.with_resume(back))).await;
    let all = records(&mut log);
    let told: Vec<_> = all.iter().map(|record| (record.outcome.as_str(), record.trace_id.is_some())).collect();
    assert_eq!(told, [("input_required", true), ("completed", true)]);
    assert_eq!((all[0].trace_id, &all[0].call), (all[1].trace_id, &all[1].call));
}

#[tokio::test]
async fn h09_a_size_is_bytes_and_exact_whatever_they_stand_for() {
    let (layer, mut log) = audit();
    let structured = ToolResult::structured(&json!({ "n": "日本" })).unwrap();
    let results = [
        (ToolResult::text("日本語"), 9),
        (ToolResult::text("🦀"), 4),
        (ToolResult::new().with(Content::image("AAAA", "image/png")).with("x"), 5),
        (ToolResult::new().with(Content::resource("file:///a", "text")), 13),
        (structured, 2 * r#"{"n":"日本"}"#.len() as u64),
        (ToolResult::new(), 0),
    ];
    for (result, bytes) in results {
        let stack = layer.layer(Router::new().tool(Probe::answering(move |_| result.clone().into()).tool("probe")));
        stack.call_tool("probe", json!({})).await;
        assert_eq!(one(&mut log).result_bytes, Some(bytes));
    }
}

#[derive(Clone)]
struct Once;

impl<E> tower::retry::Policy<ToolCall, ToolResponse, E> for Once {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, E>) -> Option<Self::Future> {
        result.as_ref().is_ok_and(|response| !response.is_completed()).then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

#[tokio::test]
async fn attempts_are_the_times_that_the_tool_began() {
    let (layer, mut log) = audit();
    let count = Count::default();
    let tool = sync_tool_fn("flaky", {
        let count = count.clone();
        move || if count.up() < 2 { Err(toolstack::tool::ToolError::new("again")) } else { Ok("at last") }
    });
    let retry = toolstack::layer::calls(tower::retry::RetryLayer::new(Once));
    // With layers of its own too, and in a router within a router, a tool begins once for each attempt.
    let tool = tool.layer(gate("own", |_| Ok(()))).boxed();
    let stack = ServiceBuilder::new().layer(layer).layer(retry).service(Router::new().nest("n", Router::new().tool(tool)));
    assert!(stack.call_tool("n.flaky", json!({})).await.is_completed());
    assert_eq!((one(&mut log).attempts, count.get()), (3, 3));
}

#[tokio::test]
async fn two_layers_have_a_record_each_and_both_see_the_tool_begin() {
    let (outer, mut one_log) = audit();
    let (inner, mut other_log) = audit();
    let rewrite = map_call("rewrite", |call| call.arguments = json!({ "n": 2 }).into());
    let stack = ServiceBuilder::new().layer(outer).layer(rewrite).layer(inner).service(probe());
    stack.call_tool("probe", json!({ "n": 1 })).await;
    let (outer, inner) = (one(&mut one_log), one(&mut other_log));
    assert_eq!((outer.attempts, inner.attempts), (1, 1));
    assert_eq!((outer.effective_digest, inner.effective_digest), (inner.arguments_digest, None));
    assert_ne!(outer.stream, inner.stream);
}

#[tokio::test]
async fn texts_from_outside_are_bounded() {
    let (layer, mut log) = audit();
    let long = "x".repeat(100_000);
    let stack = layer.layer(Router::new());
    let context = Context::new().with_session(&long).with_principal(Arc::new(Principal::new("ada")));
    stack.run_call(ToolCall::new(&long, json!({})).with_id(long.clone()).with_context(context)).await;
    let json = serde_json::to_string(&one(&mut log)).unwrap();
    assert!(json.len() < 2000, "{}", json.len());
}
