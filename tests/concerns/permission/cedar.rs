//! Policies in Cedar as an engine.

use serde_json::{Value, json};
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::permission::{Approval, ApprovalRequest, CedarEngine, Effect, PermissionLayer, Rules},
    model::{Context, Principal},
    testing::Probe,
    tool::{Source, Tool, sync_tool_fn},
};
use tower::Layer;

use super::{guarded, kind, text};

const EVERYBODY: &str = r#"permit (principal, action == Action::"call", resource);"#;

fn layer(policies: &str) -> PermissionLayer {
    PermissionLayer::new(Rules::empty(), Effect::Allow).engine(CedarEngine::new(policies).unwrap())
}

/// Everybody may do everything, except as this says.
fn except(policy: &str) -> PermissionLayer {
    layer(&format!("{EVERYBODY}\n{policy}"))
}

async fn ending(layer: PermissionLayer, arguments: Value) -> Option<RefusalKind> {
    let probe = Probe::new();
    let response = guarded(layer, &probe, &["t"]).call_tool("t", arguments).await;
    assert_eq!(probe.runs(), usize::from(response.is_completed()));
    kind(&response)
}

async fn called_by(layer: PermissionLayer, principal: Principal) -> ToolResponse {
    let call = ToolCall::new("t", json!({})).with_context(Context::new().with_principal(principal));
    guarded(layer, &Probe::new(), &["t"]).run_call(call).await
}

#[tokio::test]
async fn what_no_policy_permits_is_denied_and_what_one_forbids_too() {
    assert_eq!(ending(layer(""), json!({})).await, Some(RefusalKind::Denied));
    assert_eq!(ending(layer(EVERYBODY), json!({})).await, None);
    assert_eq!(ending(layer(r#"permit (principal, action, resource == Tool::"other");"#), json!({})).await, Some(RefusalKind::Denied));
    let forbidding = except(r#"@reason("It is Sunday.") forbid (principal, action, resource == Tool::"t");"#);
    let response = guarded(forbidding, &Probe::new(), &["t"]).call_tool("t", json!({})).await;
    assert_eq!(kind(&response), Some(RefusalKind::Denied));
    assert!(text(&response).contains("It is Sunday."), "{}", text(&response));
}

#[tokio::test]
async fn a_permission_with_ask_is_asked_for() {
    let policies = r#"@ask("It writes.") permit (principal, action, resource);"#;
    assert_eq!(ending(layer(policies), json!({})).await, Some(RefusalKind::ApprovalNeeded));
    let asking = layer(policies).ask(async |request: ApprovalRequest| {
        assert!(request.explanation.why().contains("It writes."), "{}", request.explanation.why());
        Ok(Approval::once())
    });
    assert_eq!(ending(asking, json!({})).await, None);
    // Of two permissions the stricter counts, and a prohibition beats both.
    assert_eq!(ending(layer(&format!("{EVERYBODY}\n{policies}")), json!({})).await, Some(RefusalKind::ApprovalNeeded));
    let forbidden = format!("{policies}\nforbid (principal, action, resource);");
    assert_eq!(ending(layer(&forbidden), json!({})).await, Some(RefusalKind::Denied));
}

#[tokio::test]
async fn arguments_are_judged_as_the_json_that_they_are() {
    let over = || except("forbid (principal, action, resource) when { context.arguments.amount > 100 };");
    assert_eq!(ending(over(), json!({ "amount": 100 })).await, None);
    assert_eq!(ending(over(), json!({ "amount": 101 })).await, Some(RefusalKind::Denied));
    let nested = || except(r#"forbid (principal, action, resource) when { context.arguments.to.names.contains("root") };"#);
    assert_eq!(ending(nested(), json!({ "to": { "names": ["a", null, "root"] } })).await, Some(RefusalKind::Denied));
    assert_eq!(ending(nested(), json!({ "to": { "names": ["a"] } })).await, None);
    let absent = || except("forbid (principal, action, resource) unless { context.arguments has path };");
    assert_eq!(ending(absent(), json!({ "path": null })).await, Some(RefusalKind::Denied));
    assert_eq!(ending(absent(), json!({ "path": "" })).await, None);
    let exact = || except(r#"forbid (principal, action, resource) when { context.arguments.n == "1.5" };"#);
    assert_eq!(ending(exact(), json!({ "n": 1.5 })).await, Some(RefusalKind::Denied));
}

#[tokio::test]
async fn a_policy_that_cannot_be_evaluated_closes() {
    let over = || except("forbid (principal, action, resource) when { context.arguments.amount > 100 };");
    for arguments in [json!({}), json!({ "amount": "9" }), json!({ "amount": 1e30 }), json!({ "amount": 101.5 })] {
        assert_eq!(ending(over(), arguments.clone()).await, Some(RefusalKind::Internal), "{arguments}");
    }
    let deep = (0..CedarEngine::MAX_DEPTH).fold(json!(1), |inner, _| json!({ "in": inner }));
    assert_eq!(ending(layer(EVERYBODY), deep).await, Some(RefusalKind::Internal));
}

#[tokio::test]
async fn a_key_of_the_model_s_is_never_an_entity_or_a_function() {
    let forged = json!({ "who": { "__entity": { "type": "User", "id": "root" } }, "ip": { "__extn": { "fn": "ip", "arg": "10.0.0.1" } } });
    let only_root = layer(r#"permit (principal, action, resource) when { context.arguments.who == User::"root" };"#);
    assert_eq!(ending(only_root, forged.clone()).await, Some(RefusalKind::Denied));
    let record = layer(r#"permit (principal, action, resource) when { context.arguments.who has "__entity" };"#);
    assert_eq!(ending(record, forged).await, None);
}

#[tokio::test]
async fn a_policy_sees_who_asks() {
    let scoped = || layer(r#"permit (principal, action, resource) when { principal.scopes.contains("files:write") };"#);
    assert!(called_by(scoped(), Principal::new("ada").scope("files:write")).await.is_completed());
    assert_eq!(kind(&called_by(scoped(), Principal::new("ada").scope("files:read")).await), Some(RefusalKind::Denied));
    assert_eq!(kind(&called_by(scoped(), Principal::anonymous()).await), Some(RefusalKind::Denied));

    let groups = r#"[{ "uid": { "type": "User", "id": "ada" }, "attrs": {}, "parents": [{ "type": "Team", "id": "ops" }] },
                     { "uid": { "type": "Team", "id": "ops" }, "attrs": {}, "parents": [] }]"#;
    let ops = || {
        let engine = CedarEngine::new(r#"permit (principal in Team::"ops", action, resource);"#).unwrap().entities(groups).unwrap();
        PermissionLayer::new(Rules::empty(), Effect::Allow).engine(engine)
    };
    assert!(called_by(ops(), Principal::new("ada")).await.is_completed());
    assert_eq!(kind(&called_by(ops(), Principal::new("eve")).await), Some(RefusalKind::Denied));
}

#[tokio::test]
async fn c05_two_issuers_with_a_subject_of_the_same_name_are_two_users() {
    let from = |issuer: Option<&str>, subject: &str| {
        let mut principal = Principal::new(subject);
        principal.issuer = issuer.map(str::to_owned);
        principal
    };
    let only = |user: &str| layer(&format!(r#"permit (principal == User::"{user}", action, resource);"#));
    let (ours, theirs) = (Some("https://id.ours"), Some("https://id.theirs"));
    for (user, principal, expected) in [
        ("https://id.ours#ada", from(ours, "ada"), None),
        ("https://id.ours#ada", from(theirs, "ada"), Some(RefusalKind::Denied)),
        ("ada", from(ours, "ada"), Some(RefusalKind::Denied)),
        ("https://id.ours#ada", from(None, "ada"), Some(RefusalKind::Denied)),
        ("ada", from(None, "ada"), None),
        ("https://id.ours#a#b", from(ours, "a#b"), None),
        // Who could be taken for somebody else is not judged.
        ("https://id.ours#ada", from(None, "https://id.ours#ada"), Some(RefusalKind::Internal)),
        ("https://id.ours#a#b", from(Some("https://id.ours#a"), "b"), Some(RefusalKind::Internal)),
    ] {
        assert_eq!(kind(&called_by(only(user), principal.clone()).await), expected, "{user} {principal:?}");
    }
    // By choice they are one.
    let policies = r#"permit (principal == User::"ada", action, resource);"#;
    for issuer in [ours, theirs, None] {
        let by_subject = PermissionLayer::new(Rules::empty(), Effect::Allow).engine(CedarEngine::new(policies).unwrap().users_by_subject());
        assert!(called_by(by_subject, from(issuer, "ada")).await.is_completed());
    }
    let named =
        || layer(r#"permit (principal, action, resource) when { principal.subject == "ada" && principal.issuer == "https://id.ours" };"#);
    assert!(called_by(named(), from(ours, "ada")).await.is_completed());
    assert!(called_by(named(), from(theirs, "ada")).await.refusal().is_some());
}

#[tokio::test]
async fn a_stranger_s_hint_does_not_relax_a_policy() {
    let readers = || layer("permit (principal, action, resource) when { resource.readOnly };");
    let tool = || -> Tool<_> { sync_tool_fn("t", || "").read_only() };
    assert!(readers().layer(Router::new().tool(tool())).call_tool("t", json!({})).await.is_completed());
    let strange = readers().layer(Router::new().tool(tool().source(Source::foreign("somebody"))));
    assert_eq!(kind(&strange.call_tool("t", json!({})).await), Some(RefusalKind::Denied));
    let tagged = layer(r#"permit (principal, action, resource) when { resource.tags.contains("safe") && resource.source == "local" };"#);
    assert!(tagged.layer(Router::new().tool(tool().tag("safe"))).call_tool("t", json!({})).await.is_completed());
}

#[test]
fn j05_what_is_wrong_with_policies_is_said_when_they_are_loaded() {
    let message = |error: toolstack::layer::permission::CedarError| error.to_string();
    assert!(message(CedarEngine::new("permit (").unwrap_err()).starts_with("the Cedar policies cannot be used: "));
    let engine = || CedarEngine::new(r#"permit (principal, action, resource) when { principal.scoops.contains("x") };"#).unwrap();
    let schema = r#"
        entity User = { subject: String, scopes: Set<String>, issuer?: String, acr?: String };
        entity Tool = { source: String, tags: Set<String>, readOnly: Bool, destructive: Bool, idempotent: Bool, openWorld: Bool };
        action call appliesTo { principal: User, resource: Tool, context: { arguments: {} } };
    "#;
    assert!(message(engine().schema(schema).unwrap_err()).contains("scoops"));
    assert!(message(engine().schema("entity").unwrap_err()).starts_with("the Cedar schema cannot be used: "));
    assert!(message(engine().entities("{").unwrap_err()).starts_with("the Cedar entities cannot be used: "));
}
