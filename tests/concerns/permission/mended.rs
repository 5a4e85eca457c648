//! Ways around the permission layer that a reviewer found.

use std::time::Duration;

use serde_json::json;
use toolstack::{
    RefusalKind, StackExt,
    layer::permission::{Approval, ApprovalRequest, Effect, PermissionLayer, Rules},
    testing::Probe,
};

use super::{guarded, kind, rules};

#[tokio::test]
async fn b02_one_of_several_values_that_cannot_be_compared_leaves_it_open() {
    for (values, target) in [
        (json!([{ "uid": 0 }, { "gid": 0 }]), json!({ "uid": "0" })),
        (json!([0, "root"]), json!("0")),
        (json!([[0], ["root", "x"]]), json!(["0"])),
    ] {
        let deny = json!([{ "id": "d", "effect": "deny", "arguments": [{ "path": "/target", "one_of": values }] }]);
        let probe = Probe::new();
        let stack = guarded(PermissionLayer::new(rules(&deny), Effect::Allow), &probe, &["t"]);
        let response = stack.call_tool("t", json!({ "target": target })).await;
        assert!(response.refusal().is_some() && probe.runs() == 0, "{deny} on {target}");
    }
    // What can be told is told, a null among the values included.
    let deny = json!([{ "id": "d", "effect": "deny", "arguments": [{ "path": "/target", "one_of": ["a", null] }] }]);
    let stack = guarded(PermissionLayer::new(rules(&deny), Effect::Allow), &Probe::new(), &["t"]);
    assert!(stack.call_tool("t", json!({ "target": "b" })).await.is_completed());
    for target in [json!("a"), json!(null)] {
        assert_eq!(kind(&stack.call_tool("t", json!({ "target": target })).await), Some(RefusalKind::Denied));
    }
}

#[test]
fn j05_a_condition_that_is_null_or_a_rule_that_is_a_list_is_no_rule() {
    for rule in [
        json!({ "id": "a", "effect": "allow", "tools": { "read_only": null } }),
        json!({ "id": "a", "effect": "allow", "tools": null }),
        json!({ "id": "a", "effect": "allow", "principal": { "anonymous": null } }),
        json!({ "id": "a", "effect": "allow", "tools": [] }),
        json!(["a", "allow", { "names": [] }, [], {}, null, true, [], []]),
        json!("allow"),
    ] {
        let error = Rules::from_json(&json!({ "rules": [rule] }).to_string()).unwrap_err().to_string();
        assert!(error.contains("object") || error.contains("null"), "{rule}: {error}");
    }
}

#[tokio::test]
async fn an_observer_that_panics_changes_no_decision() {
    let probe = Probe::new();
    let layer = || PermissionLayer::new(Rules::empty(), Effect::Allow).observe(|_| panic!("the disk is full"));
    assert!(guarded(layer(), &probe, &["t"]).call_tool("t", json!({})).await.is_completed());
    let asked = PermissionLayer::new(Rules::empty(), Effect::Ask)
        .ask(async |_: ApprovalRequest| Ok(Approval::deny()))
        .observe(|_| panic!("the disk is full"));
    assert_eq!(kind(&guarded(asked, &probe, &["t"]).call_tool("t", json!({})).await), Some(RefusalKind::Denied));
    assert_eq!(probe.runs(), 1);
}

#[tokio::test]
async fn a_question_may_stay_open_for_as_long_as_there_is() {
    let layer =
        PermissionLayer::new(Rules::empty(), Effect::Ask).ask(async |_: ApprovalRequest| Ok(Approval::once())).ask_within(Duration::MAX);
    assert!(guarded(layer, &Probe::new(), &["t"]).call_tool("t", json!({})).await.is_completed());
}
