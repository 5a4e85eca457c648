//! Scopes that tools need, and that stand for others.

use std::{collections::BTreeSet, convert::Infallible, future::ready, sync::Arc};

use proptest::prelude::*;
use serde_json::json;
use toolstack::{
    ListTools, Refusal, RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    error::{Challenge, halt_reason},
    layer::{
        AuthenticateLayer, ScopesLayer, VisibilityLayer,
        authenticate::{BearerToken, StaticTokens},
        gate, map_call,
        scopes::ScopeRules,
    },
    model::{Context, Principal},
    select::ToolSelector,
    stack::ToolStack,
    tool::sync_tool_fn,
};
use tower::{ServiceBuilder, service_fn};

fn router() -> Router {
    Router::new()
        .tool(sync_tool_fn("files.read", || "read").tag("files"))
        .tool(sync_tool_fn("files.write", || "written").tag("files").tag("scope:files:write"))
        .tool(sync_tool_fn("reset", || "done").tag("danger"))
        .tool(sync_tool_fn("ping", || "pong"))
}

fn rules() -> ScopeRules {
    ScopeRules::new()
        .require(ToolSelector::new().tag("files"), ["files:read"])
        .named("re*", ["admin", "sudo"])
        .unwrap()
        .implies("root", ["admin", "sudo", "files:write"])
        .implies("files:write", ["files:read"])
}

fn stack(rules: ScopeRules) -> Stack {
    ServiceBuilder::new().layer(ScopesLayer::new(rules)).service(router()).into_stack()
}

fn with(scopes: &[&str]) -> Context {
    let ada = scopes.iter().fold(Principal::new("ada"), |ada, scope| ada.scope(*scope));
    Context::new().with_principal(ada)
}

async fn refused(stack: &Stack, tool: &str, context: Context) -> Option<Refusal> {
    stack.run_call(ToolCall::new(tool, json!({})).with_context(context)).await.refusal().cloned()
}

async fn listed(stack: &Stack, context: Context) -> Vec<String> {
    stack.run_list(ListTools::new().with_context(context)).await.names().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_tool_runs_for_those_who_have_all_scopes_that_it_needs() {
    let stack = stack(rules());
    for (tool, scopes, runs) in [
        ("ping", &[][..], true),
        ("files.read", &[], false),
        ("files.read", &["files:read"], true),
        ("files.read", &["files:write"], true),
        ("files.write", &["files:read"], false),
        ("files.write", &["files:write"], true),
        ("files.write", &["root"], true),
        ("reset", &["admin"], false),
        ("reset", &["sudo"], false),
        ("reset", &["admin", "sudo"], true),
        ("reset", &["root"], true),
        ("reset", &["Root", "ADMIN", "sudo"], false),
    ] {
        assert_eq!(refused(&stack, tool, with(scopes)).await.is_none(), runs, "{tool} {scopes:?}");
    }
}

#[tokio::test]
async fn all_that_is_missing_is_named_at_once_and_the_challenge_has_all_that_is_needed() {
    let stack = stack(rules());
    let refusal = refused(&stack, "reset", with(&["sudo"])).await.unwrap();
    assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::InsufficientScope, "scopes"));
    assert_eq!(refusal.message(), "The caller lacks a scope; needed: admin.");
    assert_eq!(refusal.challenge(), Some(&Challenge::Scopes(vec!["admin".into(), "sudo".into()])));
    let told = refusal.bearer_challenge().unwrap();
    assert_eq!((told.status, told.to_string().as_str()), (403, r#"Bearer error="insufficient_scope", scope="admin sudo""#));

    let refusal = refused(&stack, "reset", with(&[])).await.unwrap();
    assert_eq!(refusal.message(), "The caller lacks a scope; needed: admin, sudo.");
}

#[tokio::test]
async fn the_reasons_are_those_of_sake_verbatim() {
    let stack = stack(rules().forbid(ToolSelector::new().name("ping").unwrap()));
    let missing = refused(&stack, "reset", with(&[])).await.unwrap();
    assert_eq!(halt_reason(&missing).to_string(), r#"{"forbidden":["admin","sudo"]}"#);
    let forbidden = refused(&stack, "ping", with(&["root"])).await.unwrap();
    assert_eq!(halt_reason(&forbidden).to_string(), r#""forbidden""#);
    assert_eq!((forbidden.kind(), forbidden.challenge(), forbidden.bearer_challenge()), (RefusalKind::Denied, None, None));
}

#[tokio::test]
async fn who_is_nobody_is_asked_who_it_is() {
    let stack = stack(rules());
    let refusal = refused(&stack, "files.write", Context::new()).await.unwrap();
    assert_eq!(refusal.kind(), RefusalKind::Unauthenticated);
    let told = refusal.bearer_challenge().unwrap();
    assert_eq!((told.status, told.to_string().as_str()), (401, r#"Bearer scope="files:read files:write""#));
    assert!(refused(&stack, "ping", Context::new()).await.is_none());
}

#[tokio::test]
async fn a_circle_of_scopes_ends_and_each_stands_for_the_others() {
    let circle = ScopeRules::new().named("*", ["a"]).unwrap().implies("a", ["b"]).implies("b", ["c"]).implies("c", ["a", "c"]);
    let stack = stack(circle);
    for (scope, runs) in [("a", true), ("b", true), ("c", true), ("d", false)] {
        assert_eq!(refused(&stack, "ping", with(&[scope])).await.is_none(), runs, "{scope}");
    }
}

#[tokio::test]
async fn a_search_that_is_too_long_finds_nothing() {
    let mut rules = ScopeRules::new().named("ping", ["s0"]).unwrap();
    for n in 0..5_000 {
        rules = rules.implies(format!("s{}", n + 1), [format!("s{n}")]);
    }
    let stack = stack(rules);
    assert!(refused(&stack, "ping", with(&["s20"])).await.is_none());
    assert!(refused(&stack, "ping", with(&["s5000"])).await.is_some());
}

#[tokio::test]
async fn lists_show_every_tool_unless_those_out_of_reach_are_hidden() {
    let all = ["files.read", "files.write", "ping", "reset"];
    assert_eq!(listed(&stack(rules()), with(&[])).await, all);

    let hiding = stack(rules().hide().forbid(ToolSelector::new().name("reset").unwrap()));
    assert_eq!(listed(&hiding, with(&[])).await, ["ping"]);
    assert_eq!(listed(&hiding, with(&["files:read"])).await, ["files.read", "ping"]);
    assert_eq!(listed(&hiding, with(&["root"])).await, ["files.read", "files.write", "ping"]);
    assert_eq!(listed(&hiding, Context::new()).await, ["ping"]);
    // A client can still come back with more scopes for it.
    assert_eq!(refused(&hiding, "files.read", with(&[])).await.unwrap().kind(), RefusalKind::InsufficientScope);
}

#[tokio::test]
async fn what_a_tool_declares_counts_unless_it_is_to_be_ignored() {
    assert!(refused(&stack(ScopeRules::new()), "files.write", with(&[])).await.is_some());
    assert!(refused(&stack(ScopeRules::new().ignore_declared()), "files.write", with(&[])).await.is_none());
}

#[tokio::test]
async fn a_tool_that_only_a_fallback_answers_goes_by_its_name() {
    let answer = service_fn(|_: ToolCall| ready(Ok::<_, Infallible>(ToolResponse::text("answered"))));
    let router = Router::new().fallback(answer);
    let stack = ServiceBuilder::new().layer(ScopesLayer::new(rules())).service(router).into_stack();
    assert!(refused(&stack, "reboot", with(&[])).await.is_some());
    assert!(refused(&stack, "reboot", with(&["root"])).await.is_none());
}

#[tokio::test]
async fn a_tool_that_is_replaced_needs_what_the_new_one_needs() {
    let router = Router::new().tool(sync_tool_fn("t", || "old"));
    let handle = router.handle();
    let stack = ServiceBuilder::new().layer(ScopesLayer::new(ScopeRules::new())).service(router).into_stack();
    assert!(refused(&stack, "t", with(&[])).await.is_none());
    assert!(handle.remove("t"));
    handle.insert(sync_tool_fn("t", || "new").tag("scope:new")).unwrap();
    assert!(refused(&stack, "t", with(&[])).await.is_some());
}

#[test]
fn rules_read_from_a_file_are_those_of_the_code_and_what_is_misspelt_is_named() {
    let file = json!({
        "require": [{ "tools": { "tags": ["files"] }, "scopes": ["files:read"] }, { "tools": { "names": ["re*"] }, "scopes": ["admin sudo"] }],
        "implies": { "root": ["admin", "sudo files:write"], "files:write": ["files:read"] },
    });
    assert_eq!(serde_json::from_value::<ScopeRules>(file).unwrap(), rules());
    assert_eq!(serde_json::from_value::<ScopeRules>(serde_json::to_value(rules()).unwrap()).unwrap(), rules());
    for (wrong, named) in [
        (json!({ "required": [] }), "required"),
        (json!({ "require": [{ "tool": {}, "scopes": [] }] }), "tool"),
        (json!({ "require": [{ "tools": { "name": ["x"] }, "scopes": [] }] }), "name"),
        (json!({ "require": [{ "tools": {} }] }), "scopes"),
    ] {
        let error = serde_json::from_value::<ScopeRules>(wrong).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

async fn faults(stack: &impl ToolStack) -> Vec<&'static str> {
    stack.lint().await.iter().map(|fault| fault.rule).collect()
}

fn token() -> ToolCall {
    let mut call = ToolCall::new("files.read", json!({}));
    call.context.extensions_mut().insert(BearerToken::new("t").unwrap());
    call
}

#[tokio::test]
async fn j01_scopes_are_required_inside_what_finds_out_who_asks() {
    let authenticate = || {
        let tokens = StaticTokens::new().token("t", Principal::new("ada").scope("files:read")).unwrap();
        AuthenticateLayer::new().bearer(tokens)
    };
    let scopes = || ScopesLayer::new(rules());
    let right = ServiceBuilder::new().layer(authenticate()).layer(scopes()).service(router());
    assert!(right.run_call(token()).await.is_completed());
    assert!(faults(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(scopes()).layer(authenticate()).service(router());
    assert_eq!(wrong.run_call(token()).await.refusal().unwrap().kind(), RefusalKind::Unauthenticated);
    assert_eq!(faults(&wrong).await, ["caller-before-identity"]);
}

#[tokio::test]
async fn j01_scopes_are_required_inside_visibility() {
    let hidden = || VisibilityLayer::new(|_, _| false);
    let scopes = || ScopesLayer::new(rules());
    let right = ServiceBuilder::new().layer(hidden()).layer(scopes()).service(router()).into_stack();
    assert_eq!(refused(&right, "reset", with(&[])).await.unwrap().kind(), RefusalKind::UnknownTool);
    assert!(faults(&right).await.is_empty());

    let wrong = ServiceBuilder::new().layer(scopes()).layer(hidden()).service(router()).into_stack();
    assert_eq!(refused(&wrong, "reset", with(&[])).await.unwrap().kind(), RefusalKind::InsufficientScope);
    assert_eq!(faults(&wrong).await, ["decision-before-visibility"]);
}

#[tokio::test]
async fn what_changes_arguments_may_stand_within_and_a_tool_of_another_name_does_not_run() {
    let rename = map_call("rename", |call| call.rename("reset"));
    let stack = ServiceBuilder::new().layer(ScopesLayer::new(rules())).layer(rename).service(router()).into_stack();
    assert!(refused(&stack, "ping", with(&[])).await.is_some());
    let stack = ServiceBuilder::new().layer(ScopesLayer::new(rules())).layer(gate("g", |_| Ok(()))).service(router());
    assert!(faults(&stack).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_once_are_told_apart() {
    let stack = Arc::new(stack(rules()));
    let calls = (0..200).map(|n| {
        let stack = Arc::clone(&stack);
        tokio::spawn(async move {
            let scopes: &[&str] = if n % 2 == 0 { &["root"] } else { &["files:read"] };
            assert_eq!(refused(&stack, "reset", with(scopes)).await.is_none(), n % 2 == 0);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

/// The scopes that these stand for, worked out the other way round.
fn closure(edges: &[(u8, u8)], has: &BTreeSet<u8>) -> BTreeSet<u8> {
    let mut all = has.clone();
    loop {
        let more: Vec<u8> = edges.iter().filter(|(from, _)| all.contains(from)).map(|(_, to)| *to).collect();
        let before = all.len();
        all.extend(more);
        if all.len() == before {
            return all;
        }
    }
}

proptest! {
    #[test]
    fn a_scope_stands_for_what_can_be_reached_from_it(
        edges in proptest::collection::vec((0_u8..8, 0_u8..8), 0..16),
        has in proptest::collection::btree_set(0_u8..8, 0..3),
        needed in proptest::collection::btree_set(0_u8..8, 1..4),
    ) {
        let mut rules = ScopeRules::new().named("ping", needed.iter().map(|n| format!("s{n}"))).unwrap();
        for (from, to) in &edges {
            rules = rules.implies(format!("s{from}"), [format!("s{to}")]);
        }
        let scopes: Vec<String> = has.iter().map(|n| format!("s{n}")).collect();
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let runs = runtime.block_on(refused(&stack(rules), "ping", with(&scopes))).is_none();
        prop_assert_eq!(runs, needed.is_subset(&closure(&edges, &has)));
    }
}
