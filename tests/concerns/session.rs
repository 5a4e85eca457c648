//! Sessions: resolved, held, closed; handles that the model may not choose.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use tokio::time::sleep;
use toolstack::{
    BoxError, RefusalKind, Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    error::error_payload,
    layer::{PinLayer, SessionLayer, session::HeldSessions},
    model::{Arguments, Context, Principal},
    select::ToolSelector,
    stack::ToolStack,
    store::{CloseError, Hold, HoldError, MemorySessions, OpenError, SessionGuard, SessionLimits, SessionOwner, SessionStore},
    testing::Probe,
    tool::tool_fn,
};
use tower::ServiceBuilder;

fn store() -> MemorySessions {
    let store = MemorySessions::new(SessionLimits::new(10));
    for id in ["s1", "s2"] {
        store.open_as(id, SessionOwner::Anyone, ()).unwrap();
    }
    store
}

fn probe(layer: SessionLayer) -> (Probe, impl ToolStack) {
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
    (probe, stack)
}

fn told(answer: &ToolResponse) -> (RefusalKind, String) {
    let refusal = answer.refusal().expect("refused");
    assert_eq!(refusal.by(), "session");
    (refusal.kind(), refusal.message().to_owned())
}

#[tokio::test]
async fn the_three_refusals_have_the_codes_and_the_messages_of_adr_003() {
    let store = store();
    assert!(store.close("s2").await);
    let (probe, stack) = probe(SessionLayer::new(store).required("session_id").require_open());
    for (arguments, payload) in [
        (json!({}), json!({ "error": "missing_parameter", "message": "Missing required parameter: 'session_id'." })),
        (json!({ "session_id": null }), json!({ "error": "missing_parameter", "message": "Missing required parameter: 'session_id'." })),
        (json!({ "session_id": "" }), json!({ "error": "missing_parameter", "message": "Missing required parameter: 'session_id'." })),
        (json!({ "session_id": "nope" }), json!({ "error": "session_not_found", "message": "Session 'nope' not found." })),
        (
            json!({ "session_id": "s2" }),
            json!({
                "error": "session_closed",
                "message": "Session 's2' is closed and cannot be modified. Open a new session, or branch another."
            }),
        ),
    ] {
        let answer = stack.call_tool("probe", arguments).await;
        assert_eq!(error_payload(answer.refusal().unwrap()), payload);
    }
    assert_eq!(probe.runs(), 0);
    assert!(stack.call_tool("probe", json!({ "session_id": "s1" })).await.is_completed());
}

#[tokio::test]
async fn an_optional_handle_that_is_absent_or_empty_is_skipped() {
    let (probe, stack) = probe(SessionLayer::new(store()).argument("session_id").argument("other").require_open());
    for arguments in [json!({}), json!({ "session_id": null }), json!({ "session_id": "" }), json!({ "session_id": "s1", "other": "" })] {
        assert!(stack.call_tool("probe", arguments).await.is_completed());
    }
    let held: Vec<_> = probe.calls().iter().map(|call| HeldSessions::of(&call.context).iter().count()).collect();
    assert_eq!(held, [0, 0, 0, 1]);
}

#[tokio::test]
async fn each_of_several_handles_is_resolved_and_one_that_is_not_there_refuses_the_call() {
    let (probe, stack) = probe(SessionLayer::new(store()).required("target_session_id").required("source_session_id"));
    assert!(stack.call_tool("probe", json!({ "target_session_id": "s1", "source_session_id": "s2" })).await.is_completed());
    let held = HeldSessions::of(&probe.calls()[0].context);
    assert_eq!((held.get("target_session_id").unwrap().id(), held.get("source_session_id").unwrap().id()), ("s1", "s2"));

    let answer = stack.call_tool("probe", json!({ "target_session_id": "s1", "source_session_id": "s3" })).await;
    assert_eq!(told(&answer), (RefusalKind::SessionNotFound, "Session 's3' not found.".to_owned()));
    assert_eq!(probe.runs(), 1);
}

#[tokio::test]
async fn c12_a_handle_in_arguments_that_cannot_be_read_is_never_taken_for_absent() {
    let (probe, stack) = probe(SessionLayer::new(store()).argument("session_id"));
    for text in
        ["null", "[]", "\"x\"", "7", "", "{", r#"{"session_id":"s1","session_id":"s2"}"#, r#"{"session_id":7}"#, r#"{"session_id":["s1"]}"#]
    {
        let answer = stack.run_call(ToolCall::new("probe", Arguments::from_text(text))).await;
        assert_eq!(told(&answer).0, RefusalKind::InvalidArguments, "{text}");
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn a_session_of_another_principal_is_not_found() {
    let store = store();
    let ada = Principal::new("ada");
    let mut other_ada = ada.clone();
    other_ada.issuer = Some("https://elsewhere".to_owned());
    let id = store.open(SessionOwner::of(&ada), ()).unwrap();
    let (_, stack) = probe(SessionLayer::new(store).argument("session_id"));
    let call = |principal: Principal| {
        stack.run_call(ToolCall::new("probe", json!({ "session_id": id.as_str() })).with_context(Context::new().with_principal(principal)))
    };
    assert!(call(ada).await.is_completed());
    for other in [Principal::anonymous(), Principal::new("eve"), other_ada] {
        assert_eq!(told(&call(other).await), (RefusalKind::SessionNotFound, format!("Session '{id}' not found.")));
    }
}

#[tokio::test]
async fn a_handle_can_be_found_by_a_closure_and_a_layer_can_be_for_some_tools() {
    let probe = Probe::new();
    let layer = SessionLayer::new(store())
        .extract_required("session", |call| call.context.session().map(str::to_owned))
        .only(ToolSelector::new().tag("stateful"));
    let stack =
        ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe").tag("stateful")).tool(probe.tool("free")));
    let call = |name, session| stack.run_call(ToolCall::new(name, json!({})).with_context(Context::new().with_session(session)));
    assert!(call("probe", "s1").await.is_completed());
    assert_eq!(told(&call("probe", "s9").await).0, RefusalKind::SessionNotFound);
    assert_eq!(told(&stack.call_tool("probe", json!({})).await).1, "Missing required parameter: 'session'.");
    assert!(stack.call_tool("free", json!({})).await.is_completed());
    assert_eq!(stack.call_tool("nope", json!({})).await.refusal().unwrap().kind(), RefusalKind::UnknownTool);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_calls_that_need_the_session_open_and_lets_no_new_one_have_it() {
    let store = store();
    let stack = ServiceBuilder::new()
        .layer(SessionLayer::new(store.clone()).required("session_id").require_open())
        .service(Router::new().tool(tool_fn("work", || sleep(Duration::from_secs(5)))));
    let began = tokio::time::Instant::now();
    let work = tokio::spawn(stack.call_tool("work", json!({ "session_id": "s1" })));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(store.try_close("s1"), Err(CloseError::InUse(1)));

    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close("s1").await }
    });
    sleep(Duration::from_secs(1)).await;
    assert!(!closing.is_finished());
    assert_eq!(told(&stack.call_tool("work", json!({ "session_id": "s1" })).await).0, RefusalKind::SessionClosed);

    assert!(closing.await.unwrap());
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert!(work.await.unwrap().is_completed());
    assert_eq!(store.try_close("s1"), Ok(()));
    assert_eq!(store.try_close("s9"), Err(CloseError::NotFound));
    assert!(!store.close("s9").await);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_lets_its_sessions_go() {
    let store = store();
    let stack = ServiceBuilder::new()
        .layer(SessionLayer::new(store.clone()).required("session_id").require_open())
        .service(Router::new().tool(tool_fn("work", std::future::pending::<()>)));
    let dropped = tokio::time::timeout(Duration::from_secs(1), stack.call_tool("work", json!({ "session_id": "s1" }))).await;
    assert!(dropped.is_err());
    assert_eq!(store.try_close("s1"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_tool_can_close_its_session_where_the_layer_does_not_require_it_to_be_open() {
    let store = store();
    let inside = store.clone();
    let close = move |sessions: HeldSessions| {
        let store = inside.clone();
        async move { store.close(sessions.get("session_id").unwrap().id()).await }
    };
    let stack = ServiceBuilder::new()
        .layer(SessionLayer::new(store.clone()).required("session_id"))
        .service(Router::new().tool(tool_fn("close_session", close)));
    assert!(stack.call_tool("close_session", json!({ "session_id": "s1" })).await.is_completed());
    assert_eq!(store.is_open("s1"), Some(false));
    // It is there still, for whoever only reads.
    assert!(stack.call_tool("close_session", json!({ "session_id": "s1" })).await.is_completed());
}

#[tokio::test(start_paused = true)]
async fn what_outlives_its_call_keeps_the_session_from_closing() {
    let store = store();
    let (probe, stack) = probe(SessionLayer::new(store.clone()).required("session_id").require_open());
    assert!(stack.call_tool("probe", json!({ "session_id": "s1" })).await.is_completed());
    // The probe keeps the call, and with it the guard.
    assert_eq!(store.try_close("s1"), Err(CloseError::InUse(1)));
    drop((probe, stack));
    assert_eq!(store.try_close("s1"), Ok(()));
}

/// A store whose sessions others close, seen only after a refresh; or which fails.
struct Elsewhere {
    refreshed: Arc<AtomicUsize>,
    fails: bool,
}

impl SessionStore for Elsewhere {
    fn refresh<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.refreshed.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }

    fn hold<'a>(&'a self, id: &'a str, hold: Hold<'a>) -> BoxFuture<'a, Result<SessionGuard, HoldError>> {
        let closed = hold.open && self.refreshed.load(Ordering::SeqCst) > 0;
        Box::pin(async move {
            match (self.fails, closed) {
                (true, _) => Err(HoldError::Failed("connection to redis://user:hunter2@db refused".into())),
                (_, true) => Err(HoldError::Closed),
                _ => Ok(SessionGuard::new(id, None, || ())),
            }
        })
    }
}

#[tokio::test]
async fn what_others_did_is_seen_before_the_check_where_the_layer_refreshes() {
    for (refresh, kind) in [(false, None), (true, Some(RefusalKind::SessionClosed))] {
        let layer = SessionLayer::new(Elsewhere { refreshed: Arc::default(), fails: false }).argument("session_id").require_open();
        let (_, stack) = probe(if refresh { layer.refresh() } else { layer });
        let answer = stack.call_tool("probe", json!({ "session_id": "s1" })).await;
        assert_eq!(answer.refusal().map(|refusal| refusal.kind()), kind);
    }
}

#[tokio::test]
async fn a_store_that_fails_refuses_the_call_and_its_error_is_not_for_the_model() {
    let (probe, stack) = probe(SessionLayer::new(Elsewhere { refreshed: Arc::default(), fails: true }).argument("session_id"));
    let answer = stack.call_tool("probe", json!({ "session_id": "s1" })).await;
    assert_eq!(told(&answer).0, RefusalKind::Internal);
    assert!(!format!("{answer:?}").contains("hunter2"));
    assert_eq!(probe.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_expires_when_nobody_held_it_for_long_and_never_while_it_is_held() {
    let secs = Duration::from_secs;
    let store = MemorySessions::new(SessionLimits::new(10).idle(secs(10)).max_age(secs(60)));
    store.open_as("s1", SessionOwner::Anyone, ()).unwrap();
    let nobody = Principal::anonymous();
    for _ in 0..5 {
        sleep(secs(9)).await;
        assert!(store.hold("s1", Hold::new(&nobody)).await.is_ok());
    }
    let held = store.hold("s1", Hold::new(&nobody).open(true)).await.unwrap();
    sleep(secs(100)).await;
    assert_eq!(store.is_open("s1"), Some(true));
    drop(held);
    assert_eq!(store.is_open("s1"), None);
    assert!(matches!(store.hold("s1", Hold::new(&nobody)).await, Err(HoldError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn there_are_never_more_sessions_than_may_be_and_one_owner_does_not_crowd_out_the_others() {
    let store = MemorySessions::new(SessionLimits::new(4).per_owner(2).idle(Duration::from_secs(10)));
    let [ada, eve] = ["ada", "eve"].map(|name| SessionOwner::of(&Principal::new(name)));
    let first = store.open(ada.clone(), ()).unwrap();
    store.open(ada.clone(), ()).unwrap();
    assert!(matches!(store.open(ada.clone(), ()), Err(OpenError::Full)));
    // A closed one makes room.
    store.close(&first).await;
    store.open(ada.clone(), ()).unwrap();
    assert_eq!(store.is_open(&first), None);
    store.open_as("e", eve.clone(), ()).unwrap();
    assert!(matches!(store.open_as("e", eve.clone(), ()), Err(OpenError::Taken)));
    assert!(matches!(store.open_as("", eve.clone(), ()), Err(OpenError::Id)));
    store.open(eve, ()).unwrap();
    assert!(matches!(store.open(SessionOwner::Anyone, ()), Err(OpenError::Full)));
    sleep(Duration::from_secs(10)).await;
    store.open(SessionOwner::Anyone, ()).unwrap();
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn many_calls_at_once_hold_one_session_and_all_let_it_go() {
    let store = store();
    let stack = ServiceBuilder::new()
        .layer(SessionLayer::new(store.clone()).required("session_id").require_open())
        .service(Router::new().tool(tool_fn("work", tokio::task::yield_now)));
    let answers = join_all((0..50).map(|_| stack.call_tool("work", json!({ "session_id": "s1" })))).await;
    assert!(answers.iter().all(ToolResponse::is_completed));
    assert_eq!(store.try_close("s1"), Ok(()));
}

/// What an application keeps in a session may use the store as it is dropped.
struct Goodbye(MemorySessions, std::sync::mpsc::Sender<usize>);

impl Drop for Goodbye {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.len());
    }
}

#[test]
fn what_is_kept_in_a_session_may_come_back_to_the_store_as_it_is_dropped() {
    let (sender, dropped) = std::sync::mpsc::channel();
    // On a thread of its own: a lock that is held meanwhile would never be free again.
    std::thread::spawn(move || {
        let store = MemorySessions::new(SessionLimits::new(2).idle(Duration::ZERO));
        let open = |id: &str| store.open_as(id, SessionOwner::Anyone, Goodbye(store.clone(), sender.clone())).unwrap();
        open("a");
        open("b");
        // For want of room, as one of its id is opened, and as it is looked for.
        open("c");
        open("c");
        assert_eq!(store.is_open("c"), None);
    });
    let heard: Vec<usize> = std::iter::from_fn(|| dropped.recv_timeout(Duration::from_secs(20)).ok()).collect();
    assert_eq!(heard.len(), 4, "{heard:?}");
}

#[tokio::test]
async fn a_huge_or_hostile_id_is_not_repeated_as_it_is() {
    let (_, stack) = probe(SessionLayer::new(store()).argument("session_id"));
    let answer = stack.call_tool("probe", json!({ "session_id": format!("a\n\u{1b}[31m{}", "x".repeat(100_000)) })).await;
    let message = told(&answer).1;
    assert!(message.len() < 300 && !message.contains(['\n', '\u{1b}']), "{message:?}");
}

fn merge(probe: &Probe) -> toolstack::Tool<Probe> {
    probe.tool("merge_branch").input_schema(&json!({
        "type": "object",
        "properties": { "target_session_id": { "type": "string" }, "source_session_id": { "type": "string" }, "n": { "type": "number" } },
        "required": ["target_session_id", "source_session_id"],
        "additionalProperties": false,
    }))
}

#[tokio::test]
async fn pinned_parameters_are_in_no_list_and_every_one_of_them_is_overwritten() {
    let probe = Probe::new();
    let stack = ServiceBuilder::new()
        .layer(PinLayer::session("target_session_id").and_session("source_session_id"))
        .service(Router::new().tool(merge(&probe)).tool(probe.tool("free")));
    let list = stack.list_tools().await;
    let schema: serde_json::Value = serde_json::from_str(list.get("merge_branch").unwrap().input_schema().get()).unwrap();
    assert_eq!(schema["properties"], json!({ "n": { "type": "number" } }));
    assert_eq!(schema["required"], json!([]));

    let chosen = r#"{ "n": 0.30000000000000004000, "source_session_id":"other", "target_session_id" : {"x":1} }"#;
    for text in [chosen, r#"{"n":0.30000000000000004000}"#, r#"{"n":0.30000000000000004000,"source_session\u005fid":"other"}"#] {
        let call = ToolCall::new("merge_branch", Arguments::from_text(text)).with_context(Context::new().with_session("s1"));
        assert!(stack.run_call(call).await.is_completed());
        let got = probe.arguments().pop().unwrap();
        let value: serde_json::Value = serde_json::from_str(&got).unwrap();
        assert_eq!((&value["source_session_id"], &value["target_session_id"]), (&json!("s1"), &json!("s1")), "{got}");
        assert!(got.contains("0.30000000000000004000"), "{got}");
    }
    // A tool that has no such parameter is not given one.
    assert!(stack.call_tool("free", json!({ "a": 1 })).await.is_completed());
    assert_eq!(probe.arguments().pop().unwrap(), r#"{"a":1}"#);
}

#[tokio::test]
async fn a_pinned_parameter_is_found_wherever_a_schema_says_that_there_is_one() {
    let own = json!({ "properties": { "session_id": { "type": "string" }, "n": {} }, "required": ["session_id", "n"] });
    for (schema, listed) in [
        (
            json!({ "type": "object", "$ref": "#/$defs/Args", "$defs": { "Args": own } }),
            json!({ "type": "object", "allOf": [{ "properties": { "n": {} }, "required": ["n"] }] }),
        ),
        (
            json!({ "type": "object", "anyOf": [{ "$ref": "#/definitions/a~1b" }, { "title": "other" }], "definitions": { "a/b": own } }),
            json!({ "type": "object", "anyOf": [{ "properties": { "n": {} }, "required": ["n"] }, { "title": "other" }] }),
        ),
        (
            // One definition refers to the other, and both are gone but for what is still referred to.
            json!({
                "type": "object", "allOf": [{ "$ref": "#/$defs/Outer" }],
                "$defs": {
                    "Outer": { "oneOf": [{ "$ref": "#/$defs/Args" }], "properties": { "at": { "$ref": "#/$defs/At" } } },
                    "Args": own, "At": { "properties": { "session_id": { "const": "somebody's" } } },
                },
            }),
            json!({
                "type": "object",
                "allOf": [{
                    "oneOf": [{ "properties": { "n": {} }, "required": ["n"] }], "properties": { "at": { "$ref": "#/$defs/At" } },
                }],
                "$defs": { "At": { "properties": { "session_id": { "const": "somebody's" } } } },
            }),
        ),
        (
            json!({
                "type": "object", "properties": { "n": {} },
                "dependentRequired": { "n": ["session_id", "m"], "session_id": ["n"] },
                "dependentSchemas": { "n": { "required": ["session_id"] }, "session_id": {} },
                "patternProperties": { "^session_id$": {}, "^x_": {} },
            }),
            json!({
                "type": "object", "properties": { "n": {} },
                "dependentRequired": { "n": ["m"] },
                "dependentSchemas": { "n": { "required": [] } },
                "patternProperties": { "^x_": {} },
            }),
        ),
    ] {
        let probe = Probe::new();
        let stack = ServiceBuilder::new()
            .layer(PinLayer::session("session_id"))
            .service(Router::new().tool(probe.tool("probe").input_schema(&schema)));
        let list = stack.list_tools().await;
        let shown: serde_json::Value = serde_json::from_str(list.get("probe").unwrap().input_schema().get()).unwrap();
        assert_eq!(shown, listed, "{schema}");
        let call = ToolCall::new("probe", json!({})).with_context(Context::new().with_session("s1"));
        assert!(stack.run_call(call).await.is_completed());
        assert_eq!(probe.arguments(), [r#"{"session_id":"s1"}"#], "{schema}");
    }
}

#[tokio::test]
async fn a_schema_that_refers_to_itself_or_to_nothing_is_listed_in_bounded_time() {
    let around = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    let schema = json!({
        "type": "object", "allOf": [around("A"), around("B"), around("none"), { "$ref": "https://elsewhere/schema" }, { "$ref": 7 }],
        "$defs": {
            "A": { "anyOf": [around("A"), around("B"), around("A")], "properties": { "session_id": {} } },
            "B": { "anyOf": [around("A"), around("B"), around("B")], "properties": { "session_id": {} } },
        },
    });
    let probe = Probe::new();
    let stack =
        ServiceBuilder::new().layer(PinLayer::session("session_id")).service(Router::new().tool(probe.tool("probe").input_schema(&schema)));
    let list = stack.list_tools().await;
    assert!(list.get("probe").unwrap().input_schema().get().len() < 4 * 1024 * 1024);
    let call = ToolCall::new("probe", json!({})).with_context(Context::new().with_session("s1"));
    assert!(stack.run_call(call).await.is_completed());
    assert_eq!(probe.arguments(), [r#"{"session_id":"s1"}"#]);
}

#[tokio::test]
async fn a_pinned_call_without_a_session_or_with_unreadable_arguments_does_not_run() {
    let probe = Probe::new();
    let stack = ServiceBuilder::new()
        .layer(PinLayer::session("target_session_id").and_value("source_session_id", |context| context.trace().map(|_| "x")))
        .service(Router::new().tool(merge(&probe)));
    let kind = async |text: &str, context: Context| {
        stack.run_call(ToolCall::new("merge_branch", Arguments::from_text(text)).with_context(context)).await.refusal().unwrap().kind()
    };
    let session = || Context::new().with_session("s1");
    assert_eq!(kind("{}", Context::new()).await, RefusalKind::SessionNotFound);
    assert_eq!(kind("{}", session()).await, RefusalKind::Denied);
    for text in ["[]", "null", "7", "", r#"{"target_session_id":"a","target_session_id":"b"}"#] {
        assert_eq!(kind(text, session()).await, RefusalKind::InvalidArguments, "{text}");
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn the_builder_methods_make_these_layers() {
    let probe = Probe::new();
    let stack = ServiceBuilder::new().pin_session("session_id").sessions(store(), "session_id").service(Router::new().tool(
        probe.tool("probe").input_schema(&json!({
            "type": "object",
            "allOf": [{ "properties": { "session_id": {} }, "required": ["session_id"] }],
        })),
    ));
    let call = |session| stack.run_call(ToolCall::new("probe", json!({})).with_context(Context::new().with_session(session)));
    assert!(call("s1").await.is_completed());
    assert_eq!(told(&call("s7").await).1, "Session 's7' not found.");
    assert!(!stack.list_tools().await.get("probe").unwrap().input_schema().get().contains("session_id"));
    assert_eq!(stack.describe().await.layers()[1].to_string(), "session (handles: session_id, open: true)");
}
