//! A settings file that says less than its writer meant, or more than there is room for, is an error, and no open or broken stack.

use serde_json::json;
use toolstack::{
    RefusalKind, Router, Stack, StackExt, ToolCall,
    layer::telemetry::Metrics,
    model::{Context, Outcome, Principal},
    stack::{Reentry, Settings, recommended},
    store::{MemorySessions, SessionLimits, SessionOwner},
    testing::Probe,
    tool::{sync_tool_fn, tool_fn},
};
use tower::Layer;

fn why_not(json: &str) -> String {
    let read = match Settings::from_json(json) {
        Ok(read) => read,
        Err(error) => return error.to_string(),
    };
    let built = recommended(read).sessions(MemorySessions::new(SessionLimits::new(4))).build();
    built.map_or_else(|error| error.to_string(), |_| String::new())
}

fn stack(json: &str, tools: Router) -> Stack {
    recommended(Settings::from_json(json).unwrap()).build().unwrap().layer(tools)
}

#[test]
fn a_section_that_would_do_nothing_is_an_error_where_it_stands() {
    for (json, expected) in [
        (
            r#"{"visibility":[{"names":["x"]},{"unless_scopes":["admin"]}],"session":{"arguments":["s"]}}"#,
            "visibility[1]: it lacks the tools",
        ),
        (r#"{"visibility":[{}],"session":{"arguments":["s"]}}"#, "visibility[0]: it lacks the tools"),
        (r#"{"require_fields":{},"session":{"arguments":["s"]}}"#, "require_fields: it lacks the `names`"),
        (r#"{"session":{"open":true}}"#, "session: it lacks the `arguments`"),
    ] {
        let error = why_not(json);
        assert!(error.starts_with(expected), "{json}: {error}");
    }
}

#[test]
fn more_than_there_is_room_for_is_an_error_where_it_stands() {
    let most = u64::MAX;
    for (json, expected) in [
        (format!(r#"{{"telemetry":{{"window":{most}}}}}"#), "telemetry.window: "),
        (format!(r#"{{"telemetry":{{"max_tools":{most}}}}}"#), "telemetry.max_tools: "),
        (format!(r#"{{"telemetry":{{"window":{most}0}}}}"#), "telemetry.window: "),
        (r#"{"telemetry":{"window":-1}}"#.to_owned(), "telemetry.window: "),
        (r#"{"max_depth":65535}"#.to_owned(), "max_depth: "),
        (r#"{"max_depth":65536}"#.to_owned(), "max_depth: "),
        (format!(r#"{{"timeout":{{"total":"{most}years"}}}}"#), "timeout.total: "),
        (format!(r#"{{"permission":{{"rules":{}}}}}"#, "[".repeat(100_000)), "permission.rules"),
        (r#"{"timeout":{"total":"1s","total":"2s"}}"#.to_owned(), "timeout: duplicate field"),
    ] {
        let error = why_not(&json);
        let shown: String = error.chars().take(200).collect();
        assert!(error.starts_with(expected), "{expected}: {shown}");
    }
}

#[tokio::test]
async fn the_longest_durations_that_can_be_written_are_no_panic() {
    let long = format!("{}s", u64::MAX);
    let json = json!({
        "permission": { "unmatched": "allow", "ask_within": long },
        "timeout": { "total": long, "idle": long },
        "challenge": { "wait": long, "environment": true },
        "authenticate": { "anonymous": true, "remember": { "most": u64::MAX, "at_most": long } },
        "step_up": [{ "tools": { "names": ["other"] }, "max_age": u64::MAX }],
    });
    let settings = Settings::from_json(&json.to_string()).unwrap();
    assert_eq!(Settings::from_json(&serde_json::to_string(&settings).unwrap()).unwrap(), settings);
    let stack: Stack = recommended(settings).build().unwrap().layer(Router::new().tool(sync_tool_fn("ping", || "pong")));
    assert!(stack.call_tool("ping", json!({})).await.is_completed());
}

#[tokio::test]
async fn counts_take_no_more_room_than_they_may_whatever_code_asks_for() {
    for (window, tools) in [(usize::MAX, 0), (0, usize::MAX), (usize::MAX / 3 + 1, 1)] {
        let metrics = Metrics::with_bounds(window, tools);
        let layer = recommended(Settings::from_json(r#"{"permission":{"unmatched":"allow"}}"#).unwrap());
        let counted = metrics.clone();
        let layer = layer.telemetry(move |layer| layer.metrics(&counted)).build().unwrap();
        assert!(layer.layer(Router::new().tool(Probe::new().tool("ping"))).call_tool("ping", json!({})).await.is_completed());
        let seen = metrics.snapshot();
        assert_eq!(seen.tools.values().map(|tool| tool.lifetime.total()).sum::<u64>(), 1);
    }
}

#[test]
fn a_tool_that_calls_itself_ends_before_the_thread_s_stack_does() {
    let json = json!({
        "max_depth": Settings::DEEPEST,
        "audit": { "tracing": true },
        "redact": {},
        "authenticate": { "anonymous": true },
        "scopes": {},
        "visibility": [{ "names": ["none"] }],
        "pin": { "session": "session" },
        "require_fields": { "names": ["text"] },
        "validate": {},
        "step_up": [{ "tools": { "names": ["none"] } }],
        "permission": { "unmatched": "allow" },
    });
    let run = move || {
        let own = tool_fn("own", |stack: Reentry| async move {
            let answer = stack.call_tool("own", json!({ "text": "x" })).await;
            answer.as_text().unwrap_or_default().into_owned()
        });
        let stack = stack(&json.to_string(), Router::new().tool(own));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(stack.call_tool("own", json!({ "text": "x" }))).as_text().unwrap_or_default().into_owned()
    };
    // What tokio gives its threads.
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
    assert!(thread.join().unwrap().starts_with("Calls within calls may go 16 levels deep"));
}

#[tokio::test]
async fn a_session_that_is_pinned_is_looked_up_and_the_model_s_own_is_not() {
    let sessions = MemorySessions::new(SessionLimits::new(4));
    for id in ["s-ours", "s-other"] {
        sessions.open_as(id, SessionOwner::Anyone, ()).unwrap();
    }
    let json = r#"{"pin":{"session_id":"session"},"session":{"required":["session_id"]},"permission":{"unmatched":"allow"}}"#;
    let echo = tool_fn("echo", async |call: ToolCall| call.arguments.as_json().unwrap().to_owned());
    let layer = recommended(Settings::from_json(json).unwrap()).sessions(sessions.clone()).build().unwrap();
    let stack = layer.layer(Router::new().tool(echo));
    let call = |context: Context| ToolCall::new("echo", json!({ "session_id": "s-other" })).with_context(context);
    let ours = || Context::new().with_session("s-ours");

    assert_eq!(stack.run_call(call(ours())).await.as_text().as_deref(), Some(r#"{"session_id":"s-ours"}"#));
    assert!(!stack.run_call(call(Context::new())).await.is_completed(), "without a session the model's choice is not taken");
    sessions.close("s-ours").await;
    assert_eq!(stack.run_call(call(ours())).await.outcome(), Outcome::Refused(RefusalKind::SessionClosed));
    assert_eq!(stack.lint().await, []);
}

#[tokio::test]
async fn a_call_within_a_call_has_the_same_principal_and_passes_every_layer() {
    let json = r#"{
        "authenticate": { "trust_context": true },
        "scopes": { "require": [{ "tools": { "names": ["reset"] }, "scopes": ["admin"] }] },
        "permission": { "unmatched": "allow" }
    }"#;
    let outer = tool_fn("outer", |stack: Reentry| async move {
        // What a tool says of the caller does not count.
        let root = Context::new().with_principal(Principal::new("root").scope("admin"));
        let as_root = stack.run_call(ToolCall::new("reset", json!({})).with_context(root)).await;
        let who = stack.call_tool("who", json!({})).await;
        format!("{} {}", as_root.outcome(), who.as_text().unwrap_or_default())
    });
    let who = sync_tool_fn("who", |context: Context| context.principal().subject.clone());
    let reset = Probe::new();
    let stack = stack(json, Router::new().tool(outer).tool(who).tool(reset.tool("reset")));
    let call = ToolCall::new("outer", json!({})).with_context(Context::new().with_principal(Principal::new("ada")));
    assert_eq!(stack.run_call(call).await.as_text().as_deref(), Some("insufficient_scope ada"));
    assert_eq!(reset.runs(), 0);
    assert!(!stack.call_tool("who", json!({})).await.is_completed(), "nobody is not let in");
}

#[tokio::test]
async fn any_two_sections_make_a_stack_that_lint_has_nothing_against_and_that_lets_nobody_by() {
    let sections = [
        r#""telemetry":{"window":0,"max_tools":0}"#,
        r#""audit":{"tracing":true}"#,
        r#""redact":{"personal":true}"#,
        r#""authenticate":{"trust_context":true}"#,
        r#""visibility":[{"names":["reset"],"unless_scopes":["admin"]}]"#,
        r#""scopes":{"require":[{"tools":{"names":["reset"]},"scopes":["admin"]}]}"#,
        r#""pin":{"user":"subject"}"#,
        r#""require_fields":{"names":["text"]}"#,
        r#""validate":{}"#,
        r#""step_up":[{"tools":{"names":["reset"]},"acr":["mfa"]}]"#,
        r#""timeout":{"total":"1s"}"#,
        r#""challenge":{"environment":true}"#,
    ];
    for (number, one) in sections.iter().enumerate() {
        for other in sections.iter().skip(number + 1) {
            let probe = Probe::new();
            let stack = stack(&format!("{{{one},{other}}}"), Router::new().tool(probe.tool("reset")).tool(probe.tool("ping")));
            for name in ["reset", "ping", "none"] {
                let response = stack.call_tool(name, json!({ "text": "x" })).await;
                assert!(!response.is_completed(), "{one} {other} {name}");
            }
            assert_eq!(probe.runs(), 0, "{one} {other}: nothing says that anything may run");
            let faults: Vec<_> = stack.lint().await.iter().map(|fault| fault.rule).collect();
            assert_eq!(faults, ["nobody-to-ask"], "{one} {other}");
        }
    }
}
