//! The recommended stack: from one value of settings, in the recommended order, and closed wherever nothing is said.

use std::time::Duration;

use serde_json::{Value, json};
use toolstack::{
    RefusalKind, Router, Stack, StackExt, ToolCall,
    layer::{
        audit,
        permission::Approval,
        redact::{Detector, Redactor},
        telemetry::Metrics,
    },
    model::{Context, Outcome, Principal},
    stack::{Settings, SettingsError, recommended},
    store::{MemorySessions, SessionLimits, SessionOwner},
    testing::Probe,
    tool::{sync_tool_fn, tool_fn},
};
use tower::Layer;

const FULL: &str = r##"
max_depth = 3

[telemetry]
window = 100

[audit]
tracing = true

[redact]
personal = true
keys = ["ssn"]

[authenticate]
trust_context = true
anonymous = true

[scopes]
require = [{ tools.names = ["reset"], scopes = ["admin"] }]

[[visibility]]
tags = ["internal"]

[[hooks]]
name = "look"
on = "before"
program = "echo"
args = ['{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}']
tools.names = ["write"]
timeout = "5s"

[pin]
user = "subject"

[session]
arguments = ["session_id"]

[require_fields]
names = ["text"]
tools.names = ["write"]

[validate]
results = "mark"

[[step_up]]
tools.names = ["reset"]
acr = ["mfa"]

[permission]
unmatched = "deny"
rules = [{ id = "some", effect = "allow", tools.names = ["ping", "write", "reset"] }]

[timeout]
total = "30s"
idle = "10s"
"##;

fn settings(toml: &str) -> Result<Settings, SettingsError> {
    Settings::read(toml::Deserializer::parse(toml).unwrap())
}

fn tools(probe: &Probe) -> Router {
    let named = |name| probe.tool(name);
    Router::new().tool(named("ping").read_only()).tool(named("write")).tool(named("reset")).tool(named("hidden").tag("internal"))
}

fn full(probe: &Probe) -> Stack {
    let sessions = MemorySessions::new(SessionLimits::new(4));
    recommended(settings(FULL).unwrap()).sessions(sessions).build().unwrap().layer(tools(probe))
}

#[tokio::test]
async fn everything_stands_in_the_recommended_order_and_lint_has_nothing_to_say() {
    let stack = full(&Probe::new());
    let description = stack.describe().await;
    let names: Vec<_> = description.layers().iter().map(|note| note.name()).collect();
    assert_eq!(
        names,
        [
            "catch_panic",
            "telemetry",
            "audit",
            "redact",
            "catch_error",
            "authenticate",
            "visibility",
            "scopes",
            "hooks",
            "pin",
            "validate",
            "require_fields",
            "session",
            "step_up",
            "permission",
            "timeout",
            "challenge",
        ]
    );
    assert_eq!(stack.lint().await, []);
}

#[tokio::test]
async fn what_puts_arguments_right_stands_outside_whatever_judges_them() {
    let toml = format!(
        "{}\n[permission]\nunmatched = \"allow\"",
        "validate.repair = true\n[require_fields]\nnames = [\"a\"]\n[session]\narguments = [\"s\"]"
    );
    let sessions = MemorySessions::new(SessionLimits::new(4));
    let stack = recommended(settings(&toml).unwrap()).sessions(sessions).build().unwrap().layer(tools(&Probe::new()));
    assert_eq!(stack.lint().await, []);
}

#[tokio::test]
async fn it_is_drawn_as_text_as_json_and_as_a_graph() {
    let description = full(&Probe::new()).describe().await;
    let text = description.to_string();
    assert!(text.lines().any(|line| line == "timeout (total: 30s, idle: 10s)"), "{text}");
    let json = serde_json::to_value(&description).unwrap();
    assert_eq!(json["layers"].as_array().unwrap().len(), 17);
    assert_eq!(json["tools"][0]["name"], "hidden");
    let graph = description.to_mermaid();
    assert!(graph.contains("l15[\"timeout<br/>total: 30s<br/>idle: 10s\"] --> l16\n"), "{graph}");
    assert!(graph.contains("router --> t1([\"ping\"])\n"), "{graph}");
    assert_eq!(graph.lines().count(), 1 + 1 + 17 + 1 + 4);
}

#[tokio::test]
async fn what_a_name_is_made_of_cannot_change_the_graph() {
    let stack = toolstack::layer::named("a\"]; click x \"javascript:alert(1)\" <b>\n--> y[\"", tower::layer::util::Identity::new())
        .layer(Router::new());
    let graph = stack.describe().await.to_mermaid();
    assert_eq!(graph.lines().count(), 4, "{graph}");
    assert!(!graph.contains('<') && graph.matches('"').count() == 2, "{graph}");
}

#[tokio::test]
async fn each_layer_does_what_its_settings_say() {
    let probe = Probe::new();
    let stack = full(&probe);
    let outcome = async |name: &str, arguments: Value, who: Principal| {
        let call = ToolCall::new(name, arguments).with_context(Context::new().with_principal(who));
        stack.run_call(call).await.outcome()
    };
    let ada = || Principal::new("ada");
    assert_eq!(outcome("ping", json!({}), Principal::anonymous()).await, Outcome::Completed);
    assert_eq!(outcome("hidden", json!({}), ada()).await, Outcome::Refused(RefusalKind::UnknownTool));
    assert_eq!(outcome("reset", json!({}), ada()).await, Outcome::Refused(RefusalKind::InsufficientScope));
    assert_eq!(outcome("reset", json!({}), ada().scope("admin")).await, Outcome::Refused(RefusalKind::StepUp));
    let mut strong = ada().scope("admin");
    strong.acr = Some("mfa".to_owned());
    assert_eq!(outcome("reset", json!({}), strong).await, Outcome::Completed);
    assert_eq!(outcome("write", json!({}), ada()).await, Outcome::Refused(RefusalKind::InvalidArguments));
    assert_eq!(outcome("ping", json!({ "session_id": "none" }), ada()).await, Outcome::Refused(RefusalKind::SessionNotFound));
    assert_eq!(probe.runs(), 2);
}

#[tokio::test]
async fn nothing_runs_where_nothing_is_said() {
    let probe = Probe::new();
    let stack = recommended(Settings::default()).build().unwrap().layer(tools(&probe));
    assert_eq!(stack.call_tool("ping", json!({})).await.refusal().unwrap().kind(), RefusalKind::ApprovalNeeded);
    assert_eq!(probe.runs(), 0);
    let description = stack.describe().await;
    let names: Vec<_> = description.layers().iter().map(|note| note.name()).collect();
    assert_eq!(names, ["catch_panic", "telemetry", "catch_error", "permission", "timeout", "challenge"]);
    assert_eq!(stack.lint().await.iter().map(|fault| fault.rule).collect::<Vec<_>>(), ["nobody-to-ask"]);
}

#[tokio::test]
async fn code_changes_the_layers_that_settings_made() {
    let (sink, mut records) = audit::channel(8);
    let metrics = Metrics::new();
    let counted = metrics.clone();
    let layer = recommended(Settings::default())
        .telemetry(move |layer| layer.metrics(&counted))
        .audit(move |layer| layer.and(sink))
        .redact(|_| toolstack::layer::RedactLayer::new(Redactor::new().detector(Detector::literal("vault", "hunter2"))))
        .visible(|tool, _| tool.name != "secret")
        .hooks(|layer| {
            layer.before("loud", |call| {
                call.set_arguments(json!({ "text": "loud hunter2" }));
                Ok(())
            })
        })
        .permission(|layer| layer.ask(async |_| Ok(Approval::once())))
        .build()
        .unwrap();
    let echo = tool_fn("echo", async |call: ToolCall| call.arguments.as_json().unwrap().to_owned());
    let stack = layer.layer(Router::new().tool(echo).tool(sync_tool_fn("secret", || "seen")));

    assert_eq!(stack.call_tool("echo", json!({})).await.as_text().as_deref(), Some(r#"{"text":"loud [redacted:vault]"}"#));
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["echo"]);
    assert_eq!(metrics.snapshot().tools["echo"].lifetime.total(), 1);
    assert!(layer.metrics().snapshot().tools.contains_key("echo"));
    assert!(records.try_recv().is_some());
    assert_eq!(stack.lint().await, []);
}

#[tokio::test]
async fn stacks_of_one_layer_share_what_it_remembers() {
    let layer = recommended(settings("[permission]\nunmatched = \"allow\"").unwrap()).build().unwrap();
    for _ in 0..2 {
        layer.layer(tools(&Probe::new())).call_tool("ping", json!({})).await;
    }
    assert_eq!(layer.metrics().snapshot().tools["ping"].lifetime.total(), 2);
}

#[test]
fn a_key_that_is_not_known_is_refused_and_its_place_named() {
    for (toml, place, why) in [
        ("telemetri = 1", "telemetri", "unknown field `telemetri`"),
        ("[timeout]\ntotl = \"1s\"", "timeout.totl", "unknown field `totl`"),
        ("[permission]\nrules = [{ id = \"a\", effect = \"alow\" }]", "permission.rules", "unknown variant `alow`"),
        ("[permission]\nrules = [{ id = \"a\", effect = \"allow\", tool = {} }]", "permission.rules", "unknown field `tool`"),
        ("[[hooks]]\nname = \"x\"\non = \"befor\"\nprogram = \"x\"", "hooks[0].on", "unknown variant `befor`"),
        ("[timeout]\ntotal = \"soon\"", "timeout.total", "\"soon\" is no duration"),
        ("[audit]\nfile = { path = \"a\", sink = 1 }", "audit.file.sink", "unknown field `sink`"),
        ("[[authenticate.tokens]]\nenv = \"A\"", "authenticate.tokens[0]", "missing field `subject`"),
        ("[scopes]\nrequires = []", "scopes.requires", "unknown field `requires`"),
    ] {
        let error = settings(toml).unwrap_err();
        let SettingsError::Unreadable { place: at, why: is } = &error else { panic!("{error}") };
        assert!(at.starts_with(place) && is.contains(why), "{toml}: {error}");
        assert!(error.to_string().starts_with(&format!("{at}: ")), "{error}");
    }
}

#[test]
fn a_rule_whose_example_comes_out_otherwise_is_an_error_where_it_stands() {
    let json = r#"{"permission":{"rules":[{"id":"a","effect":"deny","tools":{"names":["x"]},"matches":[{"tool":"y"}]}]}}"#;
    let error = Settings::from_json(json).unwrap_err().to_string();
    assert!(error.starts_with("permission.rules: ") && error.contains("`a`"), "{error}");
    assert!(Settings::from_json("{} {}").is_err());
}

#[test]
fn rules_are_read_as_strictly_as_a_file_of_them() {
    let rule = |rest: &str| format!("[permission]\nrules = [{{ id = \"a\", effect = \"allow\", {rest} }}]");
    for open in ["tools.names = []", "tools = { tags = [] }", "principal.scopes = []", "arguments = []"] {
        let error = settings(&rule(open)).unwrap_err().to_string();
        assert!(error.contains("would select everything"), "{open}: {error}");
    }
    let json = r#"{"permission":{"rules":[{"id":"a","effect":"deny","effect":"allow"}]}}"#;
    assert!(Settings::from_json(json).is_err(), "a key that stands twice");
    let annotated = "tools.read_only = true, matches = [{ tool = \"x\", annotations = { readOnlyHint = true } }]";
    assert_eq!(settings(&rule(annotated)).unwrap().permission.rules.len(), 1);
}

#[test]
fn toml_and_json_say_the_same_and_what_is_written_is_read() {
    let from_toml = settings(FULL).unwrap();
    let json = serde_json::to_string(&from_toml).unwrap();
    assert_eq!(Settings::from_json(&json).unwrap(), from_toml);
    assert_eq!(from_toml.timeout.total, Duration::from_secs(30));
    let nothing = serde_json::to_string(&Settings::default()).unwrap();
    assert_eq!(Settings::from_json(&nothing).unwrap(), Settings::default());
    assert_eq!(Settings::from_json("{}").unwrap(), Settings::default());
}

#[test]
fn what_settings_ask_for_and_is_not_there_is_an_error_where_it_stands() {
    for (toml, expected) in [
        ("[audit]", "audit: it lacks a `file`"),
        ("[audit]\ntracing = true\narguments = true", "audit.arguments: it lacks a section `redact`"),
        ("[audit]\nfile.path = \"/no/such/directory/audit.jsonl\"", "audit.file: "),
        ("[audit]\ntracing = true\ndigest_key_env = \"TOOLSTACK_NO_SUCH_VARIABLE\"", "audit.digest_key_env: the environment variable"),
        ("[authenticate]", "authenticate: it lacks somebody to believe"),
        ("[[authenticate.tokens]]\nenv = \"TOOLSTACK_NO_SUCH_VARIABLE\"\nsubject = \"ada\"", "authenticate.tokens[0].env: "),
        ("[[authenticate.jwt]]\nissuer = \"i\"\naudience = \"a\"\nkeys_file = \"/no/such/file\"", "authenticate.jwt[0].keys_file: "),
        ("[session]\narguments = [\"s\"]", "session: it lacks a store"),
        (
            "validate.repair = true\n[[hooks]]\nname = \"a\"\non = \"before\"\nprogram = \"a\"",
            "validate.repair: hooks would judge the arguments before they are put right",
        ),
    ] {
        let error = recommended(settings(toml).unwrap()).build().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{toml}: {error}");
    }
}

#[tokio::test]
async fn sessions_of_the_store_that_code_gives_are_held() {
    let store = MemorySessions::new(SessionLimits::new(4));
    store.open_as("s-1", SessionOwner::Anyone, ()).unwrap();
    let toml = "[session]\nrequired = [\"session_id\"]\n[permission]\nunmatched = \"allow\"";
    let stack = recommended(settings(toml).unwrap()).sessions(store).build().unwrap().layer(tools(&Probe::new()));
    assert!(stack.call_tool("ping", json!({ "session_id": "s-1" })).await.is_completed());
    assert!(!stack.call_tool("ping", json!({})).await.is_completed());
}

#[tokio::test(start_paused = true)]
async fn a_tool_ends_in_time_and_a_person_may_think_longer() {
    let slow = tool_fn("slow", async || {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        "done"
    });
    let stack = recommended(settings("[timeout]\ntotal = \"2s\"").unwrap())
        .permission(|layer| {
            layer.ask(async |_| {
                tokio::time::sleep(Duration::from_secs(300)).await;
                Ok(Approval::once())
            })
        })
        .build()
        .unwrap()
        .layer(Router::new().tool(slow));
    let began = tokio::time::Instant::now();
    assert_eq!(stack.call_tool("slow", json!({})).await.refusal().unwrap().kind(), RefusalKind::Timeout);
    assert_eq!(began.elapsed(), Duration::from_secs(302));
}

#[test]
fn debug_of_settings_and_layers_has_no_secret() {
    // Settings name where a secret is. This one is in the environment already.
    let name = "PATH";
    let toml = format!("[[authenticate.tokens]]\nenv = \"{name}\"\nsubject = \"ada\"");
    let settings = settings(&toml).unwrap();
    assert!(!format!("{settings:?}").contains(&std::env::var(name).unwrap()));
}
