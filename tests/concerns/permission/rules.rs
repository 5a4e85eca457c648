use proptest::prelude::*;
use serde_json::{Value, json};
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall,
    layer::permission::{ArgumentRule, DecidedBy, Effect, PermissionLayer, Rules, RulesError, ShellPattern, Standing, Truth},
    model::{Arguments, Context, Principal},
    testing::Probe,
    tool::{Source, sync_tool_fn},
};
use tower::ServiceBuilder;

use super::{guarded, kind, rules, strict, text};

fn effect_of(rules: &Rules, unmatched: Effect, call: &ToolCall) -> Effect {
    let router = Router::new().tool(Probe::new().tool("t")).tool(Probe::new().tool("u"));
    let tool = router.catalog().get(call.name()).unwrap();
    PermissionLayer::new(rules.clone(), unmatched).handle().explain(call, &tool).effect
}

#[test]
fn b02_the_table_of_rule_sets_and_what_no_rule_is_about_holds() {
    let deny = json!({ "id": "d", "effect": "deny", "tools": { "names": ["t"] } });
    let allow = json!({ "id": "a", "effect": "allow", "tools": { "names": ["t"] } });
    let ask = json!({ "id": "k", "effect": "ask", "tools": { "names": ["t"] } });
    let sets = [
        (json!([]), None),
        (json!([allow]), Some(Effect::Allow)),
        (json!([ask]), Some(Effect::Ask)),
        (json!([ask, allow]), Some(Effect::Ask)),
        (json!([deny]), Some(Effect::Deny)),
        (json!([allow, deny]), Some(Effect::Deny)),
        (json!([deny, ask, allow]), Some(Effect::Deny)),
    ];
    for (set, matched) in sets {
        let set = rules(&set);
        for unmatched in [Effect::Allow, Effect::Ask, Effect::Deny] {
            assert_eq!(effect_of(&set, unmatched, &ToolCall::new("t", json!({}))), matched.unwrap_or(unmatched));
            assert_eq!(effect_of(&set, unmatched, &ToolCall::new("u", json!({}))), unmatched);
        }
    }
}

#[tokio::test]
async fn b01_a_denied_call_never_reaches_its_tool_alone_or_among_others() {
    let probe = Probe::new();
    let stack = guarded(
        PermissionLayer::new(rules(&json!([{ "id": "d", "effect": "deny", "tools": { "names": ["t"] } }])), Effect::Allow),
        &probe,
        &["t", "u"],
    );
    let calls = ["t", "u", "t", "u"].map(|name| ToolCall::new(name, json!({}))).to_vec();
    let answers = stack.run_calls(calls).await;
    assert_eq!(
        answers.iter().map(|answer| kind(&answer.response)).collect::<Vec<_>>(),
        [Some(RefusalKind::Denied), None, Some(RefusalKind::Denied), None]
    );
    assert_eq!(probe.calls().iter().map(|call| call.name().to_string()).collect::<Vec<_>>(), ["u", "u"]);
}

#[tokio::test]
async fn b01_a_denial_holds_wherever_the_layer_stands() {
    use toolstack::layer::{TimeoutLayer, VisibilityLayer};
    let deny = || PermissionLayer::new(rules(&json!([{ "id": "d", "effect": "deny", "tools": { "names": ["t"] } }])), Effect::Allow);
    let others = || (VisibilityLayer::new(|_, _| true), TimeoutLayer::new(std::time::Duration::from_secs(1)));
    let probe = Probe::new();
    let tools = || Router::new().tool(probe.tool("t"));
    let (a, b) = others();
    let outermost = ServiceBuilder::new().layer(deny()).layer(a.clone()).layer(b).service(tools());
    let between = ServiceBuilder::new().layer(a.clone()).layer(deny()).layer(b).service(tools());
    let innermost = ServiceBuilder::new().layer(a).layer(b).layer(deny()).service(tools());
    let of_the_tool = Router::new().tool(probe.tool("t").layer(deny()));
    let of_a_router = Router::new().merge(tools().layer(deny()));
    for response in [
        outermost.call_tool("t", json!({})).await,
        between.call_tool("t", json!({})).await,
        innermost.call_tool("t", json!({})).await,
        of_the_tool.call_tool("t", json!({})).await,
        of_a_router.call_tool("t", json!({})).await,
    ] {
        assert_eq!(kind(&response), Some(RefusalKind::Denied));
    }
    assert_eq!(probe.runs(), 0);
}

#[test]
fn b04_the_explanation_names_the_rule_that_wins_and_those_that_lose() {
    let set = rules(&json!([
        { "id": "all", "effect": "allow" },
        { "id": "etc", "effect": "deny", "reason": "system files", "arguments": [{ "path": "/path", "prefix": "/etc" }] },
        { "id": "ask", "effect": "ask", "tools": { "names": ["t"] } },
        { "id": "other", "effect": "deny", "tools": { "names": ["u"] } },
        { "id": "nobody", "effect": "deny", "principal": { "anonymous": false } },
        { "id": "few", "effect": "allow", "arguments": [{ "path": "/n", "at_most": 3 }] },
    ]));
    let router = Router::new().tool(Probe::new().tool("t"));
    let tool = router.catalog().get("t").unwrap();
    let handle = PermissionLayer::new(set, Effect::Deny).handle();
    let explanation = handle.explain(&ToolCall::new("t", json!({ "path": "/etc/passwd" })), &tool);
    assert_eq!(explanation.effect, Effect::Deny);
    assert_eq!(explanation.decides().unwrap().rule, "etc");
    let standings: Vec<_> = explanation.rules.iter().map(|rule| rule.standing).collect();
    use Standing::{CannotTell, Decides, OtherPrincipal, OtherTool, Overruled};
    assert_eq!(standings, [Overruled, Decides, Overruled, OtherTool, OtherPrincipal, CannotTell]);
    assert_eq!(explanation.rules[5].unknown, ["/n"]);
    assert_eq!(
        explanation.to_string(),
        "deny t\n  allow `all` is overruled\n  deny `etc` decides (system files)\n  ask `ask` is overruled\n  \
         deny `nobody` is about other principals\n  allow `few` cannot tell, and so does not allow; unknown: /n"
    );
    let missing = handle.explain(&ToolCall::new("t", json!({})), &tool);
    assert_eq!((missing.effect, missing.rules[1].unknown.clone()), (Effect::Deny, vec!["/path".to_owned()]));
}

proptest! {
    #[test]
    fn b04_the_order_of_the_rules_does_not_matter(
        set in prop::collection::vec((0..3_usize, 0..3_usize, 0..4_usize, 0..3_usize), 0..8),
        shuffle in any::<u64>(),
        call in (0..2_usize, 0..5_usize, any::<bool>()),
        unmatched in 0..3_usize,
    ) {
        let effects = ["allow", "ask", "deny"];
        let rule = |(at, (effect, tool, argument, principal)): (usize, &(usize, usize, usize, usize))| {
            let tools = [json!({}), json!({ "names": ["t"] }), json!({ "names": ["?"] })];
            let arguments = [
                json!([{ "path": "", "equals": {}, "missing": "differs" }]),
                json!([{ "path": "/a", "equals": 1 }]),
                json!([{ "path": "/a", "glob": "x*" }]),
                json!([{ "path": "/a", "at_most": 3, "missing": "differs" }]),
            ];
            let principals = [json!({}), json!({ "anonymous": true }), json!({ "scopes": ["s"] })];
            json!({
                "id": format!("r{at}"), "effect": (effects[*effect]), "tools": (tools[*tool]),
                "arguments": (arguments[*argument]), "principal": (principals[*principal]),
            })
        };
        let ordered: Vec<Value> = set.iter().enumerate().map(rule).collect();
        let mut shuffled = ordered.clone();
        let mut seed = shuffle;
        for at in (1..shuffled.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(at, (seed >> 33) as usize % (at + 1));
        }
        let unmatched = [Effect::Allow, Effect::Ask, Effect::Deny][unmatched];
        let arguments = ["{}", r#"{"a":1}"#, r#"{"a":"xy"}"#, r#"{"a":[]}"#, "null"][call.1];
        let principal = if call.2 { Principal::new("ada").scope("s") } else { Principal::anonymous() };
        let call = ToolCall::new(["t", "u"][call.0], Arguments::from_text(arguments)).with_context(Context::new().with_principal(principal));
        let (one, two) = (rules(&json!(ordered)), rules(&json!(shuffled)));
        prop_assert_eq!(effect_of(&one, unmatched, &call), effect_of(&two, unmatched, &call));

        // And it is what the definition says, rule by rule.
        let strictest = ordered.iter().map(|rule| {
            let alone = rules(&json!([rule]));
            (effect_of(&alone, Effect::Deny, &call), effect_of(&alone, Effect::Allow, &call))
        });
        let (mut verdict, mut unknown) = (None, false);
        for (denied, allowed) in strictest {
            let says = match (denied, allowed) {
                (Effect::Deny, Effect::Allow) => None,
                // An allowing rule that cannot tell.
                (Effect::Deny, Effect::Ask) => { unknown = true; None }
                (one, _) => Some(one),
            };
            verdict = verdict.max(says);
        }
        let naive = verdict.unwrap_or(if unknown { unmatched.max(Effect::Ask) } else { unmatched });
        prop_assert_eq!(effect_of(&one, unmatched, &call), naive);
    }

    #[test]
    fn a_glob_on_an_argument_is_a_naive_glob_on_its_text(pattern in "[ab*?]{1,6}", text in "[ab/.]{0,8}") {
        fn naive(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern.split_first(), text.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => naive(rest, text) || text.split_first().is_some_and(|(_, text)| naive(pattern, text)),
                (Some((b'?', rest)), Some((_, text))) => naive(rest, text),
                (Some((p, rest)), Some((t, text))) => p == t && naive(rest, text),
                _ => false,
            }
        }
        let rule = ArgumentRule::glob("/a", &pattern).unwrap();
        prop_assert_eq!(rule.evaluate(&json!({ "a": text })), Truth::from(naive(pattern.as_bytes(), text.as_bytes())));
    }

    #[test]
    fn numbers_compare_as_they_do_with_wide_integers(a in any::<i64>(), b in any::<u64>(), near in -2..3_i128) {
        let near = (i128::from(a) + near).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        for (x, y) in [(json!(a), i128::from(a)), (json!(b), i128::from(b)), (json!(near), i128::from(near))] {
            prop_assert_eq!(ArgumentRule::at_most("/n", a).unwrap().evaluate(&json!({ "n": x })), Truth::from(y <= i128::from(a)));
            prop_assert_eq!(ArgumentRule::at_least("/n", b).unwrap().evaluate(&json!({ "n": x })), Truth::from(y >= i128::from(b)));
        }
    }

    #[test]
    fn a_rule_loader_never_panics(json in "[ -~]{0,60}", id in any::<String>(), path in any::<String>(), pattern in any::<String>()) {
        let _ = Rules::from_json(&json);
        let _ = ShellPattern::new(&pattern);
        let rule = json!({ "rules": [{ "id": id, "effect": "deny", "arguments": [{ "path": path, "glob": pattern }] }] });
        if let Ok(rules) = Rules::from_json(&rule.to_string()) {
            let _ = effect_of(&rules, Effect::Allow, &ToolCall::new("t", Arguments::from_text(json)));
        }
    }
}

#[test]
fn arguments_are_found_by_their_path_and_several_have_to_agree() {
    let rule = |json: Value| serde_json::from_value::<ArgumentRule>(json).unwrap();
    let cases = [
        (json!({ "path": "/a/b", "equals": 1 }), json!({ "a": { "b": 1.0 } }), Truth::True),
        (json!({ "path": "/a/b", "equals": 1 }), json!({ "a": "b" }), Truth::Unknown),
        (json!({ "path": "/a~1b/~0", "equals": null }), json!({ "a/b": { "~": null } }), Truth::True),
        (json!({ "path": "/a/1", "prefix": "x" }), json!({ "a": ["y", "xy"] }), Truth::True),
        (json!({ "path": "/a/2", "prefix": "x" }), json!({ "a": ["y", "xy"] }), Truth::Unknown),
        (json!({ "path": "/a/01", "prefix": "x" }), json!({ "a": ["y", "xy"] }), Truth::Unknown),
        (json!({ "path": "/a/*", "glob": "x*" }), json!({ "a": ["x", "xy"] }), Truth::True),
        (json!({ "path": "/a/*", "glob": "x*" }), json!({ "a": ["x", "y"] }), Truth::Unknown),
        (json!({ "path": "/a/*", "glob": "x*" }), json!({ "a": ["z", "y"] }), Truth::False),
        (json!({ "path": "/a/*", "glob": "x*" }), json!({ "a": [] }), Truth::Unknown),
        (json!({ "path": "/a/*/p", "glob": "x*" }), json!({ "a": [{ "p": "x" }, { "p": "x" }] }), Truth::True),
        (json!({ "path": "/a", "one_of": [1, "x"] }), json!({ "a": "x" }), Truth::True),
        (json!({ "path": "/a", "one_of": ["x", null] }), json!({ "a": "y" }), Truth::False),
        (json!({ "path": "/a", "one_of": [1, "x"] }), json!({ "a": "y" }), Truth::Unknown),
        (json!({ "path": "/a", "one_of": [1, "x"] }), json!({ "a": null }), Truth::Unknown),
        (json!({ "path": "/a", "equals": true }), json!({ "a": "true" }), Truth::Unknown),
        (json!({ "path": "/a", "equals": true, "missing": "matches" }), json!({}), Truth::True),
        (json!({ "path": "/a", "less_than": 2 }), json!({ "a": 1.9999999999999998 }), Truth::True),
        (json!({ "path": "/a", "greater_than": 2 }), json!({ "a": 2 }), Truth::False),
        (json!({ "path": "/a", "at_least": 9_007_199_254_740_993_u64 }), json!({ "a": 9_007_199_254_740_992.0 }), Truth::False),
        (json!({ "path": "/a", "within": "/srv/a" }), json!({ "a": "/srv//a/./b" }), Truth::True),
        (json!({ "path": "/a", "within": "/srv/a" }), json!({ "a": "/srv/ab" }), Truth::False),
        (json!({ "path": "/a", "within": "/srv/a" }), json!({ "a": "/srv/a/../b" }), Truth::Unknown),
        (json!({ "path": "/a", "within": "/srv/a" }), json!({ "a": "srv/a/b" }), Truth::Unknown),
        (json!({ "path": "/a", "within": "src" }), json!({ "a": "src" }), Truth::True),
        (json!({ "path": "", "equals": { "a": 1 } }), json!({ "a": 1 }), Truth::True),
    ];
    for (json, arguments, truth) in cases {
        assert_eq!(rule(json.clone()).evaluate(&arguments), truth, "{json} on {arguments}");
        assert_eq!(serde_json::to_value(rule(json.clone())).unwrap(), json);
    }
}

#[test]
fn b06_a_pattern_for_a_command_is_never_fooled_by_what_is_around_it() {
    let allow =
        rules(&json!([{ "id": "git", "effect": "allow", "arguments": [{ "path": "/command", "shell": ["git log *", "git status"] }] }]));
    let deny = rules(&json!([{ "id": "push", "effect": "deny", "arguments": [{ "path": "/command", "shell": ["git push *", "rm *"] }] }]));
    let call = |command: &str| ToolCall::new("t", json!({ "command": command }));
    for command in ["git log", "git log --oneline", "git status; git log", "git log 'a b' && git status"] {
        assert_eq!(effect_of(&allow, Effect::Ask, &call(command)), Effect::Allow, "{command}");
        assert_eq!(effect_of(&deny, Effect::Allow, &call(command)), Effect::Allow, "{command}");
    }
    for command in [
        "git log; rm -rf /",
        "git log\nrm -rf /",
        "git log && rm x",
        "git log | rm x",
        "git log & rm x",
        "git log || rm x",
        "git $(rm x)",
        "git log `rm x`",
        "git log > /etc/passwd",
        "FOO=1 git log",
        "sudo git push",
        "git log \"$(rm x)\"",
        "git log $IFS",
        "(git log)",
        "xargs rm",
        "git log \\\n; rm x",
        "env git push",
        "sh -c 'git push'",
        "git log <(rm x)",
        "git lo* ",
        "{ git push; }",
        "git log'",
        "",
    ] {
        assert_eq!(effect_of(&allow, Effect::Ask, &call(command)), Effect::Ask, "{command}");
        // What cannot be told is not let through by default either.
        assert_eq!(effect_of(&allow, Effect::Allow, &call(command)), Effect::Ask, "{command}");
        assert_eq!(effect_of(&deny, Effect::Allow, &call(command)), Effect::Deny, "{command}");
    }
}

#[test]
fn b06_a_glob_compares_texts_and_knows_nothing_of_commands() {
    let rule = ArgumentRule::glob("/command", "git *").unwrap();
    assert_eq!(rule.evaluate(&json!({ "command": "git log; rm -rf /" })), Truth::True);
}

#[test]
fn b07_a_rule_that_selects_no_tool_is_named_with_what_may_have_been_meant() {
    let set = rules(&json!([
        { "id": "typo", "effect": "deny", "tools": { "names": ["delte_file"] } },
        { "id": "fine", "effect": "deny", "tools": { "names": ["delete_*"] } },
        { "id": "tag", "effect": "ask", "tools": { "tags": ["admin"] } },
    ]));
    let router = Router::new().tool(Probe::new().tool("delete_file")).tool(Probe::new().tool("read_file"));
    let unmatched = set.check(&router.catalog());
    assert_eq!(unmatched.iter().map(|rule| rule.rule.as_str()).collect::<Vec<_>>(), ["typo", "tag"]);
    assert_eq!(unmatched[0].did_you_mean.as_deref(), Some("delete_file"));
    assert_eq!(
        set.require(&router.catalog()).unwrap_err().to_string(),
        "no tool is selected by the rule `typo` (delte_file), did you mean `delete_file`? and the rule `tag`"
    );
    let handle = PermissionLayer::new(set, Effect::Allow).handle();
    assert_eq!(handle.check(&router.catalog()).len(), 2);
    router.handle().insert(Probe::new().tool("x").tag("admin")).unwrap();
    assert_eq!(handle.check(&router.catalog()).len(), 1);
}

#[test]
fn b07_examples_are_checked_when_the_rules_are_loaded() {
    let rule = |examples: Value| {
        let mut rule = json!({ "id": "r", "effect": "deny", "tools": { "names": ["rm"], "read_only": false }, "arguments": [{ "path": "/path", "prefix": "/etc" }] });
        rule.as_object_mut().unwrap().extend(examples.as_object().unwrap().clone());
        Rules::from_json(&json!({ "rules": [rule] }).to_string()).map_err(|error| error.to_string())
    };
    assert!(rule(json!({ "matches": [{ "tool": "rm", "arguments": { "path": "/etc/x" } }, { "tool": "rm" }] })).is_ok());
    assert!(rule(json!({ "does_not_match": [{ "tool": "rm", "arguments": { "path": "/tmp" } }, { "tool": "ls", "arguments": { "path": "/etc" } }] })).is_ok());
    assert_eq!(
        rule(json!({ "matches": [{ "tool": "ls" }] })).unwrap_err(),
        "the rule `r`: it takes no effect on its example 1 of `matches`"
    );
    assert_eq!(
        rule(json!({ "does_not_match": [{ "tool": "ls" }, { "tool": "rm", "arguments": { "path": "/etc/x" } }] })).unwrap_err(),
        "the rule `r`: it takes effect on its example 2 of `does_not_match`"
    );
    // A stranger's word is not taken: the tool is selected all the same.
    let claims =
        json!([{ "tool": "rm", "arguments": { "path": "/etc/x" }, "annotations": { "readOnlyHint": true }, "source": "somebody" }]);
    assert!(rule(json!({ "matches": claims })).is_ok());
    assert!(rule(json!({ "matches": [{ "tool": "rm rm" }] })).unwrap_err().contains("its example 1"));
    assert!(rule(json!({ "matches": [{ "tol": "rm" }] })).unwrap_err().contains("unknown field `tol`"));
}

#[tokio::test]
async fn b09_a_hint_relaxes_a_rule_only_from_a_source_that_is_trusted() {
    let readers = || strict(&json!([{ "id": "readers", "effect": "allow", "tools": { "read_only": true } }]));
    let wreckers =
        || PermissionLayer::new(rules(&json!([{ "id": "wreckers", "effect": "deny", "tools": { "destructive": true } }])), Effect::Allow);
    for trusted in [true, false] {
        for (said, hint) in [("absent", None), ("false", Some(false)), ("true", Some(true))] {
            let source = if trusted { Source::foreign("s").trusted() } else { Source::foreign("s") };
            let tool = || {
                let spec = json!({ "name": "t", "inputSchema": { "type": "object" }, "annotations": hint.map_or(json!({}), |hint| json!({ "readOnlyHint": hint })) });
                toolstack::Tool::new(serde_json::from_value(spec).unwrap(), Probe::new()).source(source.clone())
            };
            let relaxed = trusted && hint == Some(true);
            let response = ServiceBuilder::new().layer(readers()).service(Router::new().tool(tool())).call_tool("t", json!({})).await;
            assert_eq!(response.is_completed(), relaxed, "allow readers: {said}, trusted: {trusted}");
            let response = ServiceBuilder::new().layer(wreckers()).service(Router::new().tool(tool())).call_tool("t", json!({})).await;
            assert_eq!(response.is_completed(), relaxed, "deny wreckers: {said}, trusted: {trusted}");
        }
    }
    // A hint may tighten from anywhere: what says of itself that it writes is not read-only for anybody.
    let tightened = rules(&json!([{ "id": "writers", "effect": "deny", "tools": { "read_only": false } }]));
    let stack = ServiceBuilder::new()
        .layer(PermissionLayer::new(tightened, Effect::Allow))
        .service(Router::new().tool(Probe::new().tool("t").additive().source(Source::foreign("s"))));
    assert_eq!(kind(&stack.call_tool("t", json!({})).await), Some(RefusalKind::Denied));
}

#[tokio::test]
async fn c12_arguments_that_cannot_be_read_are_never_allowed_by_a_rule_about_them() {
    let probe = Probe::new();
    let allow =
        strict(&json!([{ "id": "a", "effect": "allow", "arguments": [{ "path": "/path", "prefix": "/srv", "missing": "matches" }] }]));
    let deny = PermissionLayer::new(
        rules(&json!([{ "id": "d", "effect": "deny", "arguments": [{ "path": "/path", "prefix": "/etc", "missing": "differs" }] }])),
        Effect::Allow,
    );
    let lenient = PermissionLayer::new(
        rules(&json!([{ "id": "a", "effect": "allow", "arguments": [{ "path": "/path", "prefix": "/srv" }] }])),
        Effect::Allow,
    );
    for layer in [allow, deny, lenient] {
        let stack = guarded(layer, &probe, &["t"]);
        for arguments in [
            "null",
            "[]",
            "\"x\"",
            "7",
            "",
            "{",
            "NaN",
            "{\"path\":\"/srv\",\"path\":\"/etc\"}",
            "{\"path\":7}",
            "{\"path\":Infinity}",
            "{\"path\":null}",
        ] {
            let response = stack.run_call(ToolCall::new("t", Arguments::from_text(arguments))).await;
            assert!(matches!(kind(&response), Some(RefusalKind::Denied | RefusalKind::ApprovalNeeded)), "{arguments}: {response:?}");
        }
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn e02_what_is_always_denied_is_not_listed_and_what_depends_is() {
    let layer = || {
        strict(&json!([
            { "id": "some", "effect": "allow", "tools": { "names": ["a", "b", "c"] } },
            { "id": "no-a", "effect": "deny", "tools": { "names": ["a"] } },
            { "id": "b-not-etc", "effect": "deny", "tools": { "names": ["b"] }, "arguments": [{ "path": "/p", "prefix": "/etc", "missing": "differs" }] },
            { "id": "c-admins", "effect": "deny", "tools": { "names": ["c"] }, "principal": { "without_scopes": ["admin"] } },
            { "id": "d-asks", "effect": "ask", "tools": { "names": ["d"] } },
        ]))
    };
    let stack = guarded(layer(), &Probe::new(), &["a", "b", "c", "d", "e"]);
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["b", "d"]);
    let admin = Context::new().with_principal(Principal::new("root").scope("admin"));
    let list = stack.run_list(toolstack::ListTools::new().with_context(admin.clone())).await;
    assert_eq!(list.names().collect::<Vec<_>>(), ["b", "c", "d"]);
    // What is not listed is denied, with the reason; what is listed is never denied for every argument.
    assert_eq!(text(&stack.call_tool("a", json!({})).await), "Execution of 'a' is denied: by the rule `no-a`.");
    assert_eq!(text(&stack.call_tool("e", json!({})).await), "Execution of 'e' is denied: no rule allows it.");
    assert!(stack.run_call(ToolCall::new("c", json!({})).with_context(admin)).await.is_completed());
    assert_eq!(kind(&stack.call_tool("c", json!({})).await), Some(RefusalKind::Denied));
    assert!(stack.call_tool("b", json!({})).await.is_completed());
    let audited = guarded(layer().audit_only(), &Probe::new(), &["a", "e"]);
    assert_eq!(audited.list_tools().await.names().count(), 2);
}

#[test]
fn j05_what_is_wrong_with_a_rule_is_said_with_its_name() {
    let error = |rule: Value| match Rules::from_json(&json!({ "rules": [{ "id": "fine", "effect": "allow" }, rule] }).to_string()) {
        Err(error @ RulesError::Rule { .. }) => error.to_string(),
        other => panic!("{rule}: {other:?}"),
    };
    for (rule, says) in [
        (json!({ "id": "x", "effect": "deny", "tools": { "names": ["{"] } }), "the rule `x`: the pattern `{`"),
        (json!({ "id": "x", "effect": "deny", "tools": { "nmaes": ["a"] } }), "the rule `x`: unknown field `nmaes`"),
        (json!({ "id": "x", "effect": "deny", "tool": "a" }), "the rule `x`: unknown field `tool`"),
        (json!({ "id": "x", "effect": "block" }), "the rule `x`: unknown variant `block`"),
        (json!({ "id": "x" }), "the rule `x`: missing field `effect`"),
        (json!({ "effect": "deny" }), "the rule #2: missing field `id`"),
        (json!({ "id": "", "effect": "deny" }), "the rule #2: an id has 1 to 128 bytes"),
        (json!("deny"), "the rule #2: it, its `tools` and its `principal` have to be objects"),
        (json!({ "id": "fine", "effect": "deny" }), "the rule `fine`: another rule has this id"),
        (json!({ "id": "x", "effect": "allow", "tools": { "names": [] } }), "the rule `x`: `tools.names` is an empty list"),
        (json!({ "id": "x", "effect": "allow", "arguments": [] }), "the rule `x`: `arguments` is an empty list"),
        (json!({ "id": "x", "effect": "allow", "principal": { "scopes": [] } }), "the rule `x`: `principal.scopes` is an empty list"),
        (
            json!({ "id": "x", "effect": "allow", "arguments": [{ "path": "a", "equals": 1 }] }),
            "the rule `x`: the path `a` does not begin with `/`",
        ),
        (json!({ "id": "x", "effect": "allow", "arguments": [{ "path": "/a~2", "equals": 1 }] }), "the rule `x`: the path `/a~2`"),
        (
            json!({ "id": "x", "effect": "allow", "arguments": [{ "path": "/a" }] }),
            "the rule `x`: the argument `/a` needs exactly one test",
        ),
        (
            json!({ "id": "x", "effect": "allow", "arguments": [{ "path": "/a", "equals": 1, "glob": "a" }] }),
            "the rule `x`: the argument `/a` needs exactly one test",
        ),
        (
            json!({ "id": "x", "effect": "allow", "arguments": [{ "path": "/a", "one_of": [] }] }),
            "the rule `x`: the argument `/a` has an empty test",
        ),
        (json!({ "id": "x", "effect": "allow", "arguments": [{ "path": "/a", "less_than": "3" }] }), "the rule `x`: invalid type"),
        (
            json!({ "id": "x", "effect": "allow", "arguments": [{ "path": "/a", "shell": ["*"] }] }),
            "the rule `x`: a shell pattern names a command first",
        ),
    ] {
        let error = error(rule);
        assert!(error.starts_with(says), "{error}\n{says}");
    }
    for (file, says) in [
        (r#"{"rules":[{"id":"a","effect":"allow","effect":"deny"}]}"#, "stands twice"),
        (r#"{"rules":[{"id":"a","effect":"deny","tools":{"names":["x"],"names":["y"]}}]}"#, "stands twice"),
        (r#"{"rules":[],"defualt":"ask"}"#, "unknown field `defualt`"),
        (r#"{"rules":[]} x"#, "trailing"),
        ("{}", "missing field `rules`"),
        ("", "EOF"),
    ] {
        let error = Rules::from_json(file).unwrap_err().to_string();
        assert!(error.starts_with("the rules cannot be read: ") && error.contains(says), "{error}");
    }
}

#[test]
fn rules_leave_as_they_came() {
    let file = json!({ "rules": [{
        "id": "r", "effect": "ask", "tools": { "names": ["a.*"], "tags": ["x"] }, "arguments": [{ "path": "/a", "at_most": 3, "missing": "differs" }],
        "principal": { "subjects": ["ada"], "scopes": ["s"] }, "reason": "why", "remember": false,
    }] });
    let rules = Rules::from_json(&file.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&rules).unwrap(), file);
    assert_eq!(serde_json::from_value::<Rules>(file).unwrap(), rules);
}

#[tokio::test]
async fn an_audited_stack_decides_and_tells_and_lets_through() {
    use std::sync::{Arc, Mutex};
    let seen: Arc<Mutex<Vec<(String, Effect, String, bool)>>> = Arc::default();
    let record = Arc::clone(&seen);
    let probe = Probe::new();
    let set =
        json!([{ "id": "d", "effect": "deny", "tools": { "names": ["t"] } }, { "id": "k", "effect": "ask", "tools": { "names": ["u"] } }]);
    let layer = PermissionLayer::new(rules(&set), Effect::Allow).observe(move |decided| {
        let by = match decided.by {
            DecidedBy::Rule(id) => id.to_owned(),
            other => other.to_string(),
        };
        record.lock().unwrap().push((decided.call.name().to_string(), decided.effect, by, decided.enforced));
    });
    let stack = guarded(layer.clone().audit_only(), &probe, &["t", "u", "v"]);
    for name in ["t", "u", "v"] {
        assert!(stack.call_tool(name, json!({})).await.is_completed());
    }
    assert_eq!(probe.runs(), 3);
    let enforced = guarded(layer, &probe, &["t", "u"]);
    enforced.call_tool("t", json!({})).await;
    enforced.call_tool("u", json!({})).await;
    let row = |name: &str, effect, by: &str, enforced| (name.to_owned(), effect, by.to_owned(), enforced);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            row("t", Effect::Deny, "d", false),
            row("u", Effect::Ask, "k", false),
            row("v", Effect::Allow, "unmatched", false),
            row("t", Effect::Deny, "d", true),
            row("u", Effect::Deny, "nobody", true),
        ]
    );
}

#[tokio::test]
async fn rules_are_swapped_while_the_stack_runs() {
    let layer = PermissionLayer::new(Rules::empty(), Effect::Deny);
    let handle = layer.handle();
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(sync_tool_fn("t", || "ok")));
    assert_eq!(kind(&stack.call_tool("t", json!({})).await), Some(RefusalKind::Denied));
    handle.set_rules(rules(&json!([{ "id": "a", "effect": "allow" }])));
    assert!(stack.call_tool("t", json!({})).await.is_completed());
    handle.set_rules_and(Rules::empty(), Effect::Allow);
    assert!(stack.call_tool("t", json!({})).await.is_completed());
}

#[tokio::test]
async fn a_tool_that_is_replaced_is_judged_anew() {
    let layer = strict(&json!([{ "id": "readers", "effect": "allow", "tools": { "read_only": true } }]));
    let router = Router::new().tool(Probe::new().tool("t").read_only());
    let tools = router.handle();
    let stack = ServiceBuilder::new().layer(layer).service(router);
    assert!(stack.call_tool("t", json!({})).await.is_completed());
    tools.replace(Probe::new().tool("t").destructive()).unwrap();
    assert_eq!(kind(&stack.call_tool("t", json!({})).await), Some(RefusalKind::Denied));
}
