//! Tools: what a function may take and answer with, what it says of itself, and where it runs.

use std::{
    borrow::Cow,
    collections::HashMap,
    convert::Infallible,
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolstack::{
    BoxError, Refusal, RefusalKind, Router, Stack, StackExt, Tool, ToolCall, ToolResponse,
    layer::TimeoutLayer,
    model::{Arguments, Cancellation, Content, Context, Icon, Outcome, Principal, Progress, ToolResult, ToolSpec},
    stack::Reentry,
    testing::{Behaviour, Controlled, Probe, Strict},
    tool::{
        Handler, Json, Source, State, ToolError, blocking_tool_fn, blocking_tool_fn_with_state, sync_tool_fn, sync_tool_fn_with_state,
        tool_fn, tool_fn_with_state,
    },
};
use tower::{Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};

#[derive(Debug, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// The answer of this one tool.
async fn answer<H: Handler>(tool: Tool<H>, arguments: impl Into<Arguments>) -> ToolResponse {
    let name = tool.spec().name.clone();
    Router::new().tool(tool).call_tool(&*name, arguments).await
}

async fn text<H: Handler>(tool: Tool<H>, arguments: impl Into<Arguments>) -> String {
    answer(tool, arguments).await.as_text().unwrap_or_default().into_owned()
}

fn kind(response: &ToolResponse) -> Option<RefusalKind> {
    response.refusal().map(Refusal::kind)
}

/// The schema; the order of its keys does not count, and depends on what else is in a build.
fn input_schema<H>(tool: &Tool<H>) -> Value {
    snapshot(tool.spec().input_schema().get())
}

fn output_schema<H>(tool: &Tool<H>) -> Option<Value> {
    tool.spec().output_schema().map(|schema| snapshot(schema.get()))
}

fn snapshot(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

// What a function may take

#[tokio::test]
async fn a_function_takes_up_to_six_parameters_in_any_order() {
    let args = || json!({ "a": 1, "b": 2 });
    assert_eq!(text(tool_fn("t", || async { 0 }), args()).await, "0");
    assert_eq!(text(tool_fn("t", |add: Add| async move { add.a + add.b }), args()).await, "3");
    assert_eq!(text(tool_fn("t", |_: Context, add: Add| async move { add.b }), args()).await, "2");
    assert_eq!(text(tool_fn("t", |_: Progress, _: Context, add: Add| async move { add.a }), args()).await, "1");
    assert_eq!(
        text(
            tool_fn("t", |call: ToolCall, _: Arguments, _: Cancellation, add: Add| async move { format!("{} {}", call.name(), add.a) }),
            args()
        )
        .await,
        "t 1"
    );
    let five = |add: Add, State(more): State<i64>, _: Context, _: Progress, _: Cancellation| async move { add.a + more };
    assert_eq!(text(tool_fn_with_state("t", 40, five), args()).await, "41");
    let six = |_: Context, _: Progress, _: Cancellation, _: Arguments, State(more): State<i64>, add: Add| async move { add.b + more };
    assert_eq!(text(tool_fn_with_state("t", 40, six), args()).await, "42");

    assert_eq!(text(sync_tool_fn("t", || 0), args()).await, "0");
    assert_eq!(text(sync_tool_fn_with_state("t", 40, |add: Add, State(more): State<i64>| add.a + more), args()).await, "41");
    assert_eq!(text(blocking_tool_fn("t", |add: Add| add.a), args()).await, "1");
    assert_eq!(text(blocking_tool_fn_with_state("t", 40, |State(more): State<i64>, add: Add| add.a + more), args()).await, "41");
}

#[tokio::test]
async fn a_function_sees_the_call_as_it_is() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let cancellation = Cancellation::new();
    let context =
        Context::new().with_principal(Principal::new("ada")).with_cancellation(cancellation.clone()).with_progress(Progress::new({
            let heard = Arc::clone(&heard);
            move |update| heard.lock().unwrap().push(update.progress)
        }));
    let tool =
        tool_fn("t", |context: Context, progress: Progress, cancellation: Cancellation, arguments: Arguments, call: ToolCall| async move {
            progress.report(toolstack::model::ProgressUpdate::new(0.5));
            let cancelled = cancellation.is_cancelled();
            format!("{} {} {cancelled} {}", context.principal().subject, arguments.as_json().unwrap(), call.id)
        });
    cancellation.cancel();
    let call = ToolCall::new("t", Arguments::from_text(r#"{ "a" : 1.0 }"#)).with_id("c1").with_context(context);
    let answer = Router::new().tool(tool).run_call(call).await;
    assert_eq!(answer.as_text().as_deref(), Some(r#"ada { "a" : 1.0 } true c1"#));
    assert_eq!(*heard.lock().unwrap(), [0.5]);
}

#[tokio::test]
async fn without_a_cancellation_there_is_one_that_never_happens() {
    assert_eq!(text(tool_fn("t", |cancellation: Cancellation| async move { cancellation.is_cancelled() }), ()).await, "false");
}

#[tokio::test]
async fn state_is_shared_by_the_calls_of_a_tool_and_of_its_clones() {
    async fn count(State(counter): State<Arc<AtomicU64>>) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }
    let tool = tool_fn_with_state("count", Arc::new(AtomicU64::new(0)), count);
    let router = Router::new().tool(tool.clone()).nest("again", Router::new().tool(tool));
    let mut counts = Vec::new();
    for name in ["count", "again.count", "count"] {
        counts.push(router.call_tool(name, ()).await.as_text().unwrap().into_owned());
    }
    assert_eq!(counts, ["0", "1", "2"]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_and_the_function_is_not_run() {
    let ran = Arc::new(AtomicU64::new(0));
    let tool = |ran: Arc<AtomicU64>| {
        sync_tool_fn("add", move |add: Add| {
            ran.fetch_add(1, Ordering::Relaxed);
            add.a + add.b
        })
    };
    for (arguments, told) in [
        (r#"{"a":1}"#, "missing field `b`"),
        (r#"{"a":1,"b":"2"}"#, "expected i64"),
        (r#"{"a":1,"b":9223372036854775808}"#, "expected i64"),
        ("[1,2]", "must be a JSON object, not an array"),
        (r#""{\"a\":1,\"b\":2}""#, "must be a JSON object, not a string"),
        ("null", "must be a JSON object, not null"),
        ("{", "EOF"),
        (r#"{"a":1,"b":2}}"#, "trailing"),
        (r#"{"a":1,"a":2,"b":3}"#, "duplicate field `a`"),
    ] {
        let answer = answer(tool(Arc::clone(&ran)), Arguments::from_text(arguments)).await;
        assert_eq!(kind(&answer), Some(RefusalKind::InvalidArguments), "{arguments}");
        let message = answer.as_text().unwrap();
        assert!(message.starts_with("Invalid arguments for add: ") && message.contains(told), "{arguments}: {message}");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_eq!(text(tool(Arc::clone(&ran)), json!({ "a": 1, "b": 2 })).await, "3");
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Edit {
    Insert { text: String },
    Delete { from: u32, to: u32 },
}

#[tokio::test]
async fn arguments_may_be_an_enum() {
    let tool = || {
        sync_tool_fn("edit", |edit: Edit| match edit {
            Edit::Insert { text } => text,
            Edit::Delete { from, to } => format!("{from}..{to}"),
        })
    };
    assert_eq!(text(tool(), json!({ "op": "insert", "text": "x" })).await, "x");
    assert_eq!(text(tool(), json!({ "op": "delete", "from": 1, "to": 2 })).await, "1..2");
    assert_eq!(kind(&answer(tool(), json!({ "op": "insert" })).await), Some(RefusalKind::InvalidArguments));
    let schema = input_schema(&tool());
    assert_eq!((&schema["type"], schema["oneOf"].as_array().unwrap().len()), (&json!("object"), 2));
}

#[tokio::test]
async fn arguments_may_be_any_object() {
    let tool = || sync_tool_fn("any", |value: Value| value.to_string());
    assert_eq!(text(tool(), Arguments::from_text(r#"{"a":null,"z":[1,2.0]}"#)).await, r#"{"a":null,"z":[1,2.0]}"#);
    assert_eq!(text(tool(), ()).await, "{}");
    assert_eq!(kind(&answer(tool(), json!([1])).await), Some(RefusalKind::InvalidArguments));
    assert_eq!(input_schema(&tool()), json!({ "title": "AnyValue", "type": "object" }));

    let map = sync_tool_fn("map", |map: serde_json::Map<String, Value>| map.len() as u64);
    assert_eq!(text(map, json!({ "a": 1, "b": 2 })).await, "2");
}

#[tokio::test]
async fn what_keeps_any_key_is_given_none_that_comes_twice_and_no_number_that_it_would_round() {
    #[derive(Deserialize, JsonSchema)]
    struct Labels {
        labels: HashMap<String, String>,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Plain {
        a: i64,
        names: Vec<Option<bool>>,
    }
    let twice = || Arguments::from_text(r#"{"labels":{"to":"ada","to":"eve"}}"#);
    let refused = Some(RefusalKind::InvalidArguments);
    assert_eq!(kind(&answer(sync_tool_fn("map", |map: serde_json::Map<String, Value>| map.len() as u64), twice()).await), refused);
    assert_eq!(kind(&answer(sync_tool_fn("value", |value: Value| value.to_string()), twice()).await), refused);
    assert_eq!(kind(&answer(sync_tool_fn("within", |given: Labels| given.labels["to"].clone()), twice()).await), refused);
    assert_eq!(kind(&answer(tool_fn("async", |given: Labels| async move { given.labels["to"].clone() }), twice()).await), refused);
    assert_eq!(kind(&answer(blocking_tool_fn("blocking", |given: Labels| given.labels["to"].clone()), twice()).await), refused);
    let wide = Arguments::from_text(r#"{"n":36893488147419103232}"#);
    assert_eq!(kind(&answer(sync_tool_fn("value", |value: Value| value.to_string()), wide).await), refused);

    // A type that names its keys reads them from the text, and what it does not name it does not get.
    let plain = sync_tool_fn("plain", |given: Plain| given.a + given.names.len() as i64);
    assert_eq!(text(plain, Arguments::from_text(r#"{"a":1,"x":1,"x":36893488147419103232,"names":[null,true]}"#)).await, "3");
}

// What a function says of itself

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "for its schema")]
struct Search {
    /// What to look for.
    pattern: String,
    /// At most so many.
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    within: Vec<Place>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code, reason = "for its schema")]
enum Place {
    Names,
    Texts,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<u64>,
}

fn search(_: Search) -> Result<Json<Found>, ToolError> {
    Ok(Json(Found { paths: vec!["a".to_owned()], more: None }))
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let tool = sync_tool_fn("search", search);
    assert_eq!(
        input_schema(&tool),
        snapshot(
            r##"{"title":"Search","type":"object","properties":{"limit":{"description":"At most so many.","type":["integer","null"],"format":"uint32","default":null,"minimum":0},"pattern":{"description":"What to look for.","type":"string"},"within":{"type":"array","items":{"$ref":"#/$defs/Place"}}},"required":["pattern"],"$defs":{"Place":{"type":"string","enum":["names","texts"]}}}"##
        )
    );
    assert_eq!(
        output_schema(&tool),
        Some(snapshot(
            r#"{"title":"Found","type":"object","properties":{"more":{"type":["integer","null"],"format":"uint64","minimum":0},"paths":{"type":"array","items":{"type":"string"}}},"required":["paths"]}"#
        ))
    );
}

#[test]
fn a_function_of_no_typed_arguments_takes_any_object_and_one_of_no_json_has_no_output_schema() {
    for tool in [
        tool_fn("t", || async { "text" }).boxed(),
        tool_fn("t", |_: Arguments, _: Context| async { 7 }).boxed(),
        sync_tool_fn("t", |_: ToolCall| ToolResult::text("x")).boxed(),
        blocking_tool_fn("t", || Ok::<_, ToolError>(())).boxed(),
    ] {
        assert_eq!((input_schema(&tool), output_schema(&tool)), (json!({ "type": "object" }), None));
    }
    let list = sync_tool_fn("t", || Json(vec![1_u8]));
    assert_eq!(
        output_schema(&list),
        Some(
            json!({ "title": "Array_of_uint8", "type": "array", "items": { "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255 } })
        )
    );
}

#[test]
fn a_type_whose_json_is_no_object_cannot_be_arguments() {
    let panic = std::panic::catch_unwind(|| sync_tool_fn("t", |_: Vec<u8>| ())).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains(r#"must say `"type": "object"`"#), "{message}");
}

#[test]
fn what_a_tool_says_of_itself_is_in_its_spec() {
    let tool = sync_tool_fn("t", || "")
        .describe("Does nothing")
        .title("Nothing")
        .tag("quiet")
        .icon(Icon::new("data:,"))
        .read_only()
        .open_world(false)
        .input_schema(&json!({ "type": "object", "x": 1.0 }))
        .source(Source::foreign("somebody"));
    let spec = tool.spec();
    assert_eq!(
        serde_json::to_string(spec).unwrap(),
        r#"{"name":"t","title":"Nothing","description":"Does nothing","inputSchema":{"type":"object","x":1.0},"annotations":{"readOnlyHint":true,"openWorldHint":false},"icons":[{"src":"data:,"}]}"#
    );
    assert!(spec.has_tag("quiet"));
    let hints = |tool: Tool<_>| {
        let hints = tool.spec().annotations.clone();
        (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
    };
    let plain = || sync_tool_fn("t", || "");
    assert_eq!(hints(plain()), (None, None, None));
    assert_eq!(hints(plain().destructive()), (Some(false), Some(true), None));
    assert_eq!(hints(plain().additive().idempotent()), (Some(false), Some(false), Some(true)));
}

// What a function may answer with

#[tokio::test]
async fn plain_values_become_text() {
    assert_eq!(text(sync_tool_fn("t", || "a text"), ()).await, "a text");
    assert_eq!(text(sync_tool_fn("t", || String::from("a text")), ()).await, "a text");
    assert_eq!(text(sync_tool_fn("t", || Cow::Borrowed("a text")), ()).await, "a text");
    assert_eq!(text(sync_tool_fn("t", || true), ()).await, "true");
    assert_eq!(text(sync_tool_fn("t", || false), ()).await, "false");
    assert_eq!(text(sync_tool_fn("t", || 0.1 + 0.2), ()).await, "0.30000000000000004");
    assert_eq!(text(sync_tool_fn("t", || 1.5_f32), ()).await, "1.5");
    assert_eq!(text(sync_tool_fn("t", || 1e300), ()).await, format!("1{}", "0".repeat(300)));
    assert_eq!(text(sync_tool_fn("t", || f64::NAN), ()).await, "NaN");
    assert_eq!(text(sync_tool_fn("t", || i64::MIN), ()).await, "-9223372036854775808");
    assert_eq!(text(sync_tool_fn("t", || u64::MAX), ()).await, "18446744073709551615");
    assert_eq!(text(sync_tool_fn("t", || i128::MIN), ()).await, i128::MIN.to_string());
    assert_eq!(text(sync_tool_fn("t", || u128::MAX), ()).await, u128::MAX.to_string());
    assert_eq!(text(sync_tool_fn("t", || (7_u8, 8_i16, 9_usize).0), ()).await, "7");

    let nothing = answer(sync_tool_fn("t", || ()), ()).await;
    assert_eq!((nothing.is_completed(), nothing.result().unwrap().content()), (true, &[][..]));
}

#[tokio::test]
async fn blocks_results_and_responses_stay_what_they_are() {
    let blocks = || vec![Content::text("a"), Content::image("AA==", "image/png")];
    let one = answer(sync_tool_fn("t", || Content::image("AA==", "image/png")), ()).await;
    assert_eq!(one.result().unwrap().content(), &blocks()[1..]);
    let many = answer(sync_tool_fn("t", blocks), ()).await;
    assert_eq!(many.result().unwrap().content(), blocks());
    let result = answer(sync_tool_fn("t", || ToolResult::error("failed")), ()).await;
    assert_eq!(result.outcome(), Outcome::ToolError);
    let asks = answer(sync_tool_fn("t", || ToolResponse::InputRequired(Box::new(toolstack::model::InputRequired::new("state")))), ()).await;
    assert_eq!(asks.outcome(), Outcome::InputRequired);
    let refused = answer(sync_tool_fn("t", || Refusal::new(RefusalKind::SessionClosed, "over")), ()).await;
    assert_eq!(kind(&refused), Some(RefusalKind::SessionClosed));
}

#[tokio::test]
async fn json_is_a_structured_value_and_the_same_as_text() {
    let answer = answer(sync_tool_fn("search", search), json!({ "pattern": "a" })).await;
    let result = answer.result().unwrap();
    assert_eq!(result.structured_content().unwrap().get(), r#"{"paths":["a"]}"#);
    assert_eq!(result.as_text().as_deref(), Some(r#"{"paths":["a"]}"#));
}

#[tokio::test]
async fn a_value_that_cannot_be_written_is_the_tool_s_fault() {
    #[derive(JsonSchema)]
    struct Odd;
    impl Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("token=hunter2"))
        }
    }
    let answer = answer(sync_tool_fn("t", || Json(Odd)), ()).await;
    assert_eq!(kind(&answer), Some(RefusalKind::Internal));
    assert!(!answer.as_text().unwrap().contains("hunter2"));
}

#[derive(Debug, thiserror::Error)]
#[error("no such file: /home/ada/.ssh/id_rsa")]
struct Leaky;

#[tokio::test]
async fn a_failure_says_to_the_model_what_was_meant_for_it_and_no_more() {
    fn question_mark() -> Result<(), ToolError> {
        Err(Leaky)?;
        Ok(())
    }
    let failed = answer(sync_tool_fn("t", question_mark), ()).await;
    assert_eq!((failed.outcome(), failed.as_text().as_deref()), (Outcome::ToolError, Some("The tool failed.")));
    assert!(failed.refusal().unwrap().source().unwrap().is::<Leaky>());
    assert!(!format!("{failed:?}").contains("ssh"));

    let told = answer(sync_tool_fn("t", || Err::<(), _>(ToolError::new("no such file").with_source(Leaky))), ()).await;
    assert_eq!((told.outcome(), told.as_text().as_deref()), (Outcome::ToolError, Some("no such file")));
    let string = answer(sync_tool_fn("t", || Err::<(), _>("wrong".to_owned())), ()).await;
    assert_eq!((string.outcome(), string.as_text().as_deref(), string.refusal().is_none()), (Outcome::ToolError, Some("wrong"), true));
    let refusal = answer(sync_tool_fn("t", || Err::<(), _>(Refusal::new(RefusalKind::Denied, "no"))), ()).await;
    assert_eq!(kind(&refusal), Some(RefusalKind::Denied));
    assert_eq!(text(sync_tool_fn("t", || Ok::<_, Infallible>(7)), ()).await, "7");
    assert_eq!(text(tool_fn("t", || async { Ok::<_, ToolError>("fine") }), ()).await, "fine");
}

// Where a function runs

#[tokio::test]
async fn a_blocking_tool_runs_where_it_may_block() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (started, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let wait = Arc::new(Mutex::new(wait));
    let tool = blocking_tool_fn("blocks", move || {
        started.send(std::thread::current().id()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        "unblocked"
    });
    let router = Router::new().tool(tool).tool(sync_tool_fn("ping", || "pong"));
    let blocked = tokio::spawn(router.call_tool("blocks", ()));
    // This thread is the runtime's only one, and goes on.
    assert_ne!(begun.recv().await.unwrap(), std::thread::current().id());
    assert!(router.call_tool("ping", ()).await.is_completed());
    go.send(()).unwrap();
    assert_eq!(blocked.await.unwrap().as_text().as_deref(), Some("unblocked"));
}

#[tokio::test]
async fn a_blocking_tool_sees_that_its_call_was_dropped() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let tool = blocking_tool_fn("blocks", move |cancellation: Cancellation, context: Context| {
        tell.send("begun").unwrap();
        tokio::runtime::Handle::current().block_on(cancellation.cancelled());
        assert!(context.cancellation().unwrap().is_cancelled());
        tell.send("cancelled").unwrap();
    });
    let router = Router::new().tool(tool);
    let mut call = Box::pin(router.call_tool("blocks", ()));
    let begun = tokio::select! {
        begun = told.recv() => begun,
        answer = &mut call => panic!("{answer:?}"),
    };
    assert_eq!(begun, Some("begun"));
    drop(call);
    assert_eq!(told.recv().await, Some("cancelled"));
}

#[tokio::test]
async fn a_blocking_tool_is_cancelled_with_the_caller_s_and_cancels_nobody_else() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let tool = blocking_tool_fn("blocks", move |cancellation: Cancellation| {
        tell.send("begun").unwrap();
        tokio::runtime::Handle::current().block_on(cancellation.cancelled());
        "stopped"
    });
    let router = Router::new().tool(tool).tool(blocking_tool_fn("quick", || "done"));
    let outer = Cancellation::new();
    let context = || Context::new().with_cancellation(outer.clone());

    assert!(router.run_call(ToolCall::new("quick", ()).with_context(context())).await.is_completed());
    assert!(!outer.is_cancelled(), "a call that is over cancels nothing");
    let call = tokio::spawn(router.run_call(ToolCall::new("blocks", ()).with_context(context())));
    told.recv().await;
    outer.cancel();
    assert_eq!(call.await.unwrap().as_text().as_deref(), Some("stopped"));
}

#[tokio::test]
async fn a_blocking_tool_that_panics_or_takes_no_such_arguments_is_answered_for() {
    let router =
        Router::new().tool(blocking_tool_fn("odd", |add: Add| -> i64 { panic!("{} is odd", add.a) })).tool(sync_tool_fn("ping", || "pong"));
    let answer = router.call_tool("odd", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(answer.refusal().map(|refusal| (refusal.kind(), refusal.by())), Some((RefusalKind::Internal, "router")));
    assert!(answer.refusal().unwrap().source().unwrap().to_string().contains("1 is odd"));
    assert_eq!(kind(&router.call_tool("odd", ()).await), Some(RefusalKind::InvalidArguments));
    assert!(router.call_tool("ping", ()).await.is_completed());
}

// Tools that are services

fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name.parse().unwrap())
}

#[tokio::test]
async fn a_service_is_a_tool_and_its_errors_are_refusals() {
    let service = service_fn(|call: ToolCall| async move {
        match call.arguments.as_json().unwrap() {
            "{}" => Ok(ToolResult::text("a service")),
            _ => Err(BoxError::from("token=hunter2")),
        }
    });
    let tool = || Tool::from_service(spec("t"), service);
    assert_eq!(text(tool(), ()).await, "a service");
    let failed = answer(tool(), json!({ "fail": true })).await;
    assert_eq!(kind(&failed), Some(RefusalKind::Internal));
    assert!(!failed.as_text().unwrap().contains("hunter2"));

    let slow =
        ServiceBuilder::new().timeout(Duration::ZERO).service_fn(|_: ToolCall| std::future::pending::<Result<ToolResult, BoxError>>());
    assert_eq!(kind(&answer(Tool::from_service(spec("t"), slow), ()).await), Some(RefusalKind::Timeout));
}

#[tokio::test]
async fn the_readiness_of_a_service_is_waited_for_within_the_call_and_its_failure_told() {
    let probe = Probe::new();
    let strict = Strict::with_capacity(Router::new().tool(probe.tool("t")), 1);
    let router = Router::new().tool(Tool::from_service(spec("t"), strict.clone())).tool(sync_tool_fn("ping", || "pong"));

    let mut holder = strict.clone();
    let holder: &mut Strict = <_ as ServiceExt<ToolCall>>::ready(&mut holder).await.unwrap();
    let waiting = tokio::spawn(router.call_tool("t", ()));
    tokio::task::yield_now().await;
    // The router is ready all the same: another tool does not wait for this one.
    assert!(router.call_tool("ping", ()).await.is_completed());
    assert_eq!(probe.runs(), 0);
    drop(Service::call(holder, ToolCall::new("t", ())));
    assert!(waiting.await.unwrap().is_completed());

    strict.behave(Behaviour::ReadinessFails);
    assert_eq!(kind(&router.call_tool("t", ()).await), Some(RefusalKind::Internal));
    strict.behave(Behaviour::Answer);
    assert!(router.call_tool("t", ()).await.is_completed());
    assert_eq!((probe.runs(), strict.tally().violations, strict.free()), (2, 0, Some(1)));
}

#[tokio::test]
async fn a_call_that_is_dropped_while_a_service_is_not_ready_leaves_its_queue() {
    let strict = Strict::with_capacity(Router::new().tool(Probe::new().tool("t")), 1);
    let router = Router::new().tool(Tool::from_service(spec("t"), strict.clone()));
    let mut holder = strict.clone();
    <_ as ServiceExt<ToolCall>>::ready(&mut holder).await.unwrap();
    let waiting = tokio::spawn(router.call_tool("t", ()));
    tokio::task::yield_now().await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    drop(holder);
    assert_eq!(strict.free(), Some(1));
}

#[tokio::test]
async fn a_tool_s_own_layers_are_around_it_alone() {
    let controlled = Controlled::new();
    let router = Router::new()
        .tool(controlled.tool("one").layer(ConcurrencyLimitLayer::new(1)))
        .tool(controlled.tool("any"))
        .tool(tool_fn("slow", std::future::pending::<()>).layer(TimeoutLayer::new(Duration::ZERO)));
    let calls: Vec<_> = (0..4).map(|n| tokio::spawn(router.call_tool(if n % 2 == 0 { "one" } else { "any" }, ()))).collect();
    let mut names = Vec::new();
    for _ in 0..4 {
        let held = controlled.next().await;
        names.push(held.call().name().to_string());
        if names.len() == 3 {
            assert_eq!(controlled.in_flight(), 3);
        }
        if names.len() < 3 {
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                held.respond(ToolResponse::text("done"));
            });
        } else {
            held.respond(ToolResponse::text("done"));
        }
    }
    for call in calls {
        assert!(call.await.unwrap().is_completed());
    }
    assert_eq!(kind(&router.call_tool("slow", ()).await), Some(RefusalKind::Timeout));
}

#[tokio::test]
async fn a_tool_that_wants_the_way_back_and_has_none_says_so_to_the_operator() {
    let tool = || tool_fn("t", |stack: Reentry| async move { stack.list_tools().await.names().count() as u64 });
    let answer = answer(tool(), ()).await;
    assert_eq!(kind(&answer), Some(RefusalKind::Internal));
    assert!(answer.refusal().unwrap().source().unwrap().to_string().contains("toolstack::Stack"));
    assert_eq!(Stack::new(Router::new().tool(tool())).call_tool("t", ()).await.as_text().as_deref(), Some("1"));
}
