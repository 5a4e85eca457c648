//! Arguments and results against schemas, and arguments that are put right.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tokio::time::Instant;
use toolstack::{
    BoxError, RefusalKind, Router, ServiceBuilderExt, StackExt, Tool, ToolCall, ToolResponse,
    error::{MissingParameter, error_payload},
    layer::{
        RequireFieldsLayer, ValidateLayer, gate_async, map_call,
        validate::{Check, INVALID_OUTPUT, JsonSchema, REPAIRED, Repair, Validator, Violation},
    },
    model::{Arguments, Content, InputRequired, TaskHandle, ToolName, ToolResult, ToolSpec},
    select::ToolSelector,
    stack::ToolStack,
    testing::Probe,
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

fn taking(probe: &Probe, schema: &Value) -> Tool<Probe> {
    probe.tool("probe").input_schema(schema)
}

fn giving(answer: impl Fn() -> ToolResponse + Send + Sync + 'static, schema: &Value) -> Tool<Probe> {
    let spec = ToolSpec::new(ToolName::new("probe").unwrap()).with_output_schema(schema).unwrap();
    Tool::new(spec, Probe::answering(move |_| answer()))
}

fn stack<H: toolstack::tool::Handler>(layer: ValidateLayer, tool: Tool<H>) -> impl ToolStack {
    ServiceBuilder::new().layer(layer).service(Router::new().tool(tool))
}

async fn call(stack: &impl ToolStack, arguments: &str) -> ToolResponse {
    stack.run_call(ToolCall::new("probe", Arguments::from_text(arguments))).await
}

fn refused(answer: &ToolResponse) -> (RefusalKind, String) {
    let refusal = answer.refusal().expect("refused");
    (refusal.kind(), refusal.message().to_owned())
}

#[tokio::test]
async fn the_fields_that_adr_003_counts_as_missing_are_missing_and_the_stricter_rule_takes_what_is_there() {
    let falsy = [
        "{}",
        r#"{"a":null}"#,
        r#"{"a":""}"#,
        r#"{"a":0}"#,
        r#"{"a":0.0}"#,
        r#"{"a":-0.0}"#,
        r#"{"a":false}"#,
        r#"{"a":[]}"#,
        r#"{"a":{}}"#,
    ];
    for (layer, missing) in [(RequireFieldsLayer::truthy(["b", "a"]), 9), (RequireFieldsLayer::present(["b", "a"]), 2)] {
        let probe = Probe::new();
        let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
        for (at, text) in falsy.iter().enumerate() {
            let text = text.replacen('{', r#"{"b":1,"#, 1).replace(",}", "}");
            let answer = call(&stack, &text).await;
            assert_eq!(answer.refusal().is_some(), at < missing, "{text}");
            if let Some(refusal) = answer.refusal() {
                let payload = json!({ "error": "missing_parameter", "message": "Missing required parameter: 'a'." });
                assert_eq!(error_payload(refusal), payload);
            }
        }
        // The first in the order of the layer, not of the call.
        assert_eq!(refused(&call(&stack, "{}").await).1, "Missing required parameter: 'b'.");
        assert_eq!(probe.runs(), 9 - missing);
    }
}

#[tokio::test]
async fn required_fields_can_be_for_some_tools() {
    let stack = ServiceBuilder::new()
        .layer(RequireFieldsLayer::present(["a"]).only(ToolSelector::new().tag("strict")))
        .service(Router::new().tool(Probe::new().tool("probe").tag("strict")).tool(Probe::new().tool("free")));
    let answer = call(&stack, "{}").await;
    assert!(std::error::Error::source(answer.refusal().unwrap()).unwrap().is::<MissingParameter>());
    assert!(stack.call_tool("free", json!({})).await.is_completed());
}

#[tokio::test]
async fn c12_arguments_that_cannot_be_read_are_not_judged_but_refused() {
    let probe = Probe::new();
    let schema = stack(ValidateLayer::json_schema(), probe.tool("probe"));
    let fields = ServiceBuilder::new().layer(RequireFieldsLayer::present(["a"])).service(Router::new().tool(probe.tool("probe")));
    for text in
        ["null", "[]", "\"x\"", "7", "", r#"{"a":1"#, r#"{"a":1,"a":2}"#, r#"{"a":1e400}"#, r#"{"a":18446744073709551616}"#, r#"{"a":NaN}"#]
    {
        assert_eq!(refused(&call(&schema, text).await).0, RefusalKind::InvalidArguments, "{text}");
        assert_eq!(refused(&call(&fields, text).await).0, RefusalKind::InvalidArguments, "{text}");
    }
    let deep = (0..500).fold(json!(1), |value, _| Value::Array(vec![value]));
    let answer = schema.run_call(ToolCall::new("probe", json!({ "a": deep }))).await;
    assert_eq!(refused(&answer).0, RefusalKind::InvalidArguments);
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn an_error_names_path_rule_and_what_was_expected_and_never_the_value() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 4, "pattern": "^[a-z]+$" },
            "kind": { "enum": ["a", "b"] },
            "list": { "type": "array", "items": { "type": ["integer", "null"], "minimum": 3 } },
            "only": { "const": 7 },
            "any": { "anyOf": [{ "type": "boolean" }, { "$ref": "#/$defs/n" }] },
        },
        "$defs": { "n": { "type": "object", "properties": { "n": { "type": "null" } }, "additionalProperties": false } },
        "required": ["name"],
        "additionalProperties": false,
    });
    let stack = stack(ValidateLayer::json_schema().max_faults(20), taking(&Probe::new(), &schema));
    for (arguments, faults) in [
        (json!({}), vec![r#"must have the property "name" (required)"#]),
        (json!({ "name": "SECRET" }), vec!["/name: must have at most 4 characters (maxLength)", "/name: must match ^[a-z]+$ (pattern)"]),
        (json!({ "name": "ok", "kind": "SECRET" }), vec![r#"/kind: must be one of ["a","b"] (enum)"#]),
        (
            json!({ "name": "ok", "list": [3, null, "SECRET", 2] }),
            vec!["/list/2: must be of the type", "/list/3: must be at least 3 (minimum)"],
        ),
        (json!({ "name": "ok", "only": "SECRET" }), vec!["/only: must be 7 (const)"]),
        (json!({ "name": "ok", "any": "SECRET" }), vec!["/any: must be one of the alternatives (anyOf)"]),
        (json!({ "name": "ok", "SECRET": 1 }), vec!["must have no properties but any, kind, list, name, only (additionalProperties)"]),
    ] {
        let (kind, message) = refused(&stack.call_tool("probe", arguments.clone()).await);
        assert_eq!(kind, RefusalKind::InvalidArguments);
        for fault in faults {
            assert!(message.contains(fault), "{arguments}: {message}");
        }
        assert!(!message.contains("SECRET"), "{message}");
    }
}

#[tokio::test]
async fn no_more_faults_are_listed_than_may_be() {
    let schema = json!({ "type": "object", "additionalProperties": { "type": "null" } });
    let stack = stack(ValidateLayer::json_schema().max_faults(2), taking(&Probe::new(), &schema));
    let many: serde_json::Map<_, _> = (0..1000).map(|n| (format!("k{n:04}"), json!(1))).collect();
    let (_, message) = refused(&stack.call_tool("probe", many).await);
    assert_eq!(message.matches("must be of the type null").count(), 2);
    assert!(message.ends_with("; and more."), "{message}");
    let long: serde_json::Map<_, _> = [("k".repeat(100_000), json!(1))].into_iter().collect();
    assert!(refused(&stack.call_tool("probe", long).await).1.len() < 1000);
}

/// An engine that counts what it compiles.
fn counting(compiled: &Arc<AtomicUsize>) -> impl Validator {
    let compiled = Arc::clone(compiled);
    move |schema: &Value| -> Result<Box<dyn Check>, BoxError> {
        compiled.fetch_add(1, Ordering::SeqCst);
        JsonSchema::new().compile(schema)
    }
}

#[tokio::test]
async fn a_schema_is_compiled_once_for_each_registration_of_a_tool() {
    let compiled = Arc::default();
    let tool =
        |minimum: i32| Probe::new().tool("probe").input_schema(&json!({ "type": "object", "properties": { "n": { "minimum": minimum } } }));
    let router = Router::new().tool(tool(0));
    let handle = router.handle();
    let stack = ServiceBuilder::new().layer(ValidateLayer::new(counting(&compiled))).service(router);
    for _ in 0..10 {
        assert!(stack.clone().call_tool("probe", json!({ "n": 1 })).await.is_completed());
    }
    assert_eq!(compiled.load(Ordering::SeqCst), 1);
    handle.replace(tool(5)).unwrap();
    assert_eq!(refused(&stack.call_tool("probe", json!({ "n": 1 })).await).0, RefusalKind::InvalidArguments);
    assert_eq!(compiled.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn j05_a_schema_that_cannot_be_used_refuses_its_tool_and_is_found_beforehand() {
    let deep = (0..80).fold(json!({}), |inner, _| json!({ "items": inner }));
    for (schema, why) in [
        (json!({ "type": "object", "$ref": "https://example.com/schema.json" }), "leads out of the schema"),
        (json!({ "type": "object", "$ref": "file:///etc/passwd" }), "leads out of the schema"),
        (json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/none" } } }), "leads out of the schema"),
        (json!({ "type": "object", "properties": { "a": { "type": "nonsense" } } }), "nonsense"),
        (json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }), "at "),
        (json!({ "type": "object", "properties": { "a": deep } }), "deeper than 64"),
        (json!({ "type": "object", "description": "x".repeat(300_000) }), "bytes"),
    ] {
        let probe = Probe::new();
        let layer = ValidateLayer::json_schema();
        let router = Router::new().tool(taking(&probe, &schema)).tool(probe.tool("good"));
        let faults = layer.check(&router.handle().catalog());
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].0 == "probe" && faults[0].1.contains(why), "{faults:?}");

        let stack = ServiceBuilder::new().layer(layer).service(router);
        let answer = stack.call_tool("probe", json!({})).await;
        assert_eq!(refused(&answer).0, RefusalKind::Internal);
        assert!(!refused(&answer).1.contains(why), "the operator's text");
        assert!(stack.call_tool("good", json!({})).await.is_completed());
        assert_eq!(probe.runs(), 1);
    }
}

#[tokio::test]
async fn what_looks_like_a_reference_and_is_a_name_is_no_reference() {
    let schema = json!({
        "type": "object",
        "properties": { "$ref": { "type": "string" }, "node": { "$ref": "#/$defs/node" } },
        "$defs": { "node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/node" }, "title": { "type": "string" } } } },
    });
    let stack = stack(ValidateLayer::json_schema(), taking(&Probe::new(), &schema));
    assert!(stack.call_tool("probe", json!({ "$ref": "https://x", "node": { "next": { "title": "t" } } })).await.is_completed());
    assert!(refused(&stack.call_tool("probe", json!({ "node": { "next": { "title": 1 } } })).await).1.contains("/node/next/title"));
}

#[tokio::test]
async fn a_pattern_that_backtracks_for_ever_is_given_up() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^(?=(a+)+$)(a|aa)+b$" } } });
    let stack = stack(ValidateLayer::json_schema(), taking(&Probe::new(), &schema));
    let began = Instant::now();
    assert!(stack.call_tool("probe", json!({ "a": "a".repeat(60) + "!" })).await.refusal().is_some());
    assert!(began.elapsed().as_secs() < 5);
}

#[tokio::test]
async fn i01_numbers_are_checked_and_arrive_bit_for_bit() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } }, "required": ["n"] });
    let probe = Probe::answering(|call| {
        let text = call.arguments.as_json().unwrap().to_owned();
        serde_json::from_str(&format!(r#"{{"content":[],"structuredContent":{text}}}"#)).unwrap()
    });
    let mut tool = taking(&probe, &schema);
    *tool.spec_mut() = tool.spec().clone().with_output_schema(&schema).unwrap();
    let stack = stack(ValidateLayer::json_schema(), tool);
    for number in [
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
        "-0.0",
        "1.0",
        "0.30000000000000004",
        "0.12345678901234567890123456789",
    ] {
        let text = format!(r#"{{ "n" : {number} }}"#);
        let answer = call(&stack, &text).await;
        assert_eq!(probe.arguments().pop().unwrap(), text);
        assert_eq!(answer.result().unwrap().structured_content().unwrap().get(), text);
    }
    let runs = probe.runs();
    for number in ["18446744073709551616", "1e400"] {
        assert_eq!(refused(&call(&stack, &format!(r#"{{"n":{number}}}"#)).await).0, RefusalKind::InvalidArguments, "never rounded");
    }
    assert_eq!(probe.runs(), runs);
}

#[tokio::test]
async fn a_result_that_is_not_what_its_schema_promises_is_not_given() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    for (answer, fault) in [
        (r#"{"content":[{"type":"text","text":"SECRET"}],"structuredContent":{"n":"SECRET"}}"#, "/n: must be of the type integer (type)."),
        (r#"{"content":[{"type":"text","text":"SECRET"}]}"#, "it has none of the structured content that its schema promises."),
        (r#"{"content":[],"structuredContent":{"n":1,"n":2}}"#, "its structured content is not JSON that can be read exactly."),
        (r#"{"content":[],"structuredContent":{"n":1}}"#, ""),
    ] {
        let give = move || serde_json::from_str(answer).unwrap();
        let got = call(&stack(ValidateLayer::json_schema(), giving(give, &schema)), "{}").await;
        if fault.is_empty() {
            assert!(got.is_completed());
            continue;
        }
        let message = format!("probe ran, and its result is not what it promises: {fault}");
        assert_eq!(refused(&got), (RefusalKind::InvalidOutput, message));
        assert!(!serde_json::to_string(&got).unwrap().contains("SECRET"));

        let marked = call(&stack(ValidateLayer::json_schema().mark_results(), giving(give, &schema)), "{}").await;
        assert!(marked.is_completed());
        assert_eq!(marked.result().unwrap().meta().get::<String>(INVALID_OUTPUT).unwrap().unwrap(), fault);

        assert!(call(&stack(ValidateLayer::json_schema().arguments_only(), giving(give, &schema)), "{}").await.is_completed());
    }
}

#[tokio::test]
async fn what_is_no_finished_result_is_not_checked() {
    let schema = json!({ "type": "object", "required": ["n"] });
    let refusal = || ToolResponse::refused(toolstack::Refusal::new(RefusalKind::Denied, "no"));
    let answers: [fn() -> ToolResponse; 4] = [
        || ToolResponse::error("failed"),
        || ToolResponse::InputRequired(Box::new(InputRequired::new("s"))),
        || ToolResponse::Task(Box::new(TaskHandle::new("t"))),
        refusal,
    ];
    for answer in answers {
        let got = call(&stack(ValidateLayer::json_schema(), giving(answer, &schema)), "{}").await;
        assert_eq!(got.outcome(), answer().outcome());
        assert_eq!(serde_json::to_string(&got).unwrap(), serde_json::to_string(&answer()).unwrap());
    }
}

fn search() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": { "type": "string" },
            "filter": { "type": "object", "properties": { "tags": { "type": "array", "items": { "type": "string" } } }, "additionalProperties": false },
            "max_results": { "type": "integer" },
        },
        "required": ["query"],
        "additionalProperties": false,
    })
}

#[tokio::test]
async fn d04_arguments_are_put_right_only_where_they_are_not_valid_and_the_response_says_so() {
    let probe = Probe::new();
    let repair = Repair::new().alias("q", "query");
    let repairing = stack(ValidateLayer::json_schema().repair(repair), taking(&probe, &search()));
    let plain = stack(ValidateLayer::json_schema(), taking(&probe, &search()));
    for (given, got, what) in [
        (
            r#"{"query":"a","filter":"{\"tags\":[\"x\"]}"}"#,
            json!({ "query": "a", "filter": { "tags": ["x"] } }),
            json!([["/filter", "read from a string"]]),
        ),
        (
            r#"{"query":"a","filter":{"tags":"[\"x\"]"}}"#,
            json!({ "query": "a", "filter": { "tags": ["x"] } }),
            json!([["/filter/tags", "read from a string"]]),
        ),
        (
            r#"{"query":"a","filter":"{\"tags\":\"[\\\"x\\\"]\"}"}"#,
            json!({ "query": "a", "filter": { "tags": ["x"] } }),
            json!([["/filter", "read from a string"], ["/filter/tags", "read from a string"]]),
        ),
        (
            r#"{"Query":"a","max-results":3}"#,
            json!({ "query": "a", "max_results": 3 }),
            json!([["/query", "renamed"], ["/max_results", "renamed"]]),
        ),
        (r#"{"q":"a","maxResults":9007199254740993}"#, json!({ "query": "a", "max_results": 9_007_199_254_740_993_u64 }), json!(null)),
        (r#""{\"query\":\"a\"}""#, json!({ "query": "a" }), json!([["", "read from a string"]])),
    ] {
        assert_eq!(refused(&call(&plain, given).await).0, RefusalKind::InvalidArguments, "{given}");
        let answer = call(&repairing, given).await;
        assert!(answer.is_completed(), "{given}: {answer:?}");
        assert_eq!(serde_json::from_str::<Value>(&probe.arguments().pop().unwrap()).unwrap(), got);
        let said: Vec<Value> = answer.result().unwrap().meta().get(REPAIRED).unwrap().unwrap();
        let said: Vec<Value> = said.iter().map(|one| json!([one["path"], one["what"]])).collect();
        assert!(what.is_null() || json!(said).as_array().unwrap().iter().all(|one| what.as_array().unwrap().contains(one)), "{said:?}");
    }
    // Valid as it is, a string that looks like JSON stays a string, and the text stays the text.
    let valid = r#"{ "query" : "{\"a\": 1}", "max_results":1 }"#;
    let answer = call(&repairing, valid).await;
    assert_eq!(probe.arguments().pop().unwrap(), valid);
    assert!(answer.result().unwrap().meta().is_empty());
}

#[tokio::test]
async fn what_cannot_be_put_right_is_refused_for_what_it_was() {
    let probe = Probe::new();
    let stack = stack(ValidateLayer::json_schema().repair(Repair::new()), taking(&probe, &search()));
    for given in [
        r#"{"query":7}"#,
        r#"{"query":"a","filter":"no json"}"#,
        r#"{"query":"a","filter":"{\"tags\":7}"}"#,
        r#"{"query":"a","filter":"{\"tags\":[],\"tags\":[]}"}"#,
        // Which of the two is meant is anybody's guess.
        r#"{"Query":"a","QUERY":"b"}"#,
        r#"{"query":"a","Query":"b"}"#,
    ] {
        assert_eq!(refused(&call(&stack, given).await).0, RefusalKind::InvalidArguments, "{given}");
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn d08_what_was_repaired_is_told_whatever_came_of_the_call() {
    let answers: [fn() -> ToolResponse; 3] = [
        || ToolResponse::error("failed"),
        || ToolResponse::InputRequired(Box::new(InputRequired::new("s"))),
        || ToolResponse::Task(Box::new(TaskHandle::new("t"))),
    ];
    for answer in answers {
        let probe = Probe::answering(move |_| answer());
        let stack = stack(ValidateLayer::json_schema().repair(Repair::new()), taking(&probe, &search()));
        let got = call(&stack, r#"{"Query":"a"}"#).await;
        assert_eq!(got.outcome(), answer().outcome());
        assert!(serde_json::to_string(&got).unwrap().contains(REPAIRED), "{got:?}");
    }
}

#[tokio::test]
async fn d02_arguments_that_something_within_changed_are_checked_again_by_a_layer_further_in() {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string", "pattern": "^/srv/" } } });
    let rewrite = || map_call("rewrite", |call| call.arguments = json!({ "path": "/etc/passwd" }).into());
    let probe = Probe::new();
    let path = json!({ "path": "/srv/a" });

    let outer =
        ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(rewrite()).service(Router::new().tool(taking(&probe, &schema)));
    assert!(outer.call_tool("probe", path.clone()).await.is_completed(), "the schema was asked about another path");
    assert!(outer.lint().await.iter().any(|fault| fault.rule == "rewrite-after-decision"));

    let own = ServiceBuilder::new()
        .layer(ValidateLayer::json_schema())
        .layer(rewrite())
        .service(Router::new().tool(taking(&probe, &schema).layer(ValidateLayer::json_schema())));
    let routers =
        ServiceBuilder::new().layer(rewrite()).service(Router::new().tool(taking(&probe, &schema)).layer(ValidateLayer::json_schema()));
    let runs = probe.runs();
    assert_eq!(refused(&own.call_tool("probe", path.clone()).await).0, RefusalKind::InvalidArguments);
    assert_eq!(refused(&routers.call_tool("probe", path).await).0, RefusalKind::InvalidArguments);
    assert_eq!(probe.runs(), runs);
}

#[tokio::test]
async fn c09_nobody_is_asked_about_a_call_that_cannot_run() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let ask = gate_async("ask", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    let stack = ServiceBuilder::new()
        .validate(JsonSchema::new())
        .require_fields(["query"])
        .layer(ask)
        .service(Router::new().tool(taking(&Probe::new(), &search())));
    assert!(call(&stack, "{}").await.refusal().is_some());
    assert!(call(&stack, r#"{"query":7}"#).await.refusal().is_some());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert!(call(&stack, r#"{"query":"a"}"#).await.is_completed());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn another_engine_can_be_plugged_in() {
    struct NoDigits;
    impl Check for NoDigits {
        fn violations(&self, value: &Value, _: usize) -> Vec<Violation> {
            let bad = value.to_string().chars().any(|c| c.is_ascii_digit());
            bad.then(|| Violation::new("", "digits", "must have no digits")).into_iter().collect()
        }
    }
    let engine = |_: &Value| -> Result<Box<dyn Check>, BoxError> { Ok(Box::new(NoDigits)) };
    let stack = stack(ValidateLayer::new(engine), Probe::new().tool("probe"));
    assert!(call(&stack, r#"{"a":"b"}"#).await.is_completed());
    assert_eq!(refused(&call(&stack, r#"{"a":1}"#).await).1, "Invalid arguments for probe: must have no digits (digits).");
}

#[tokio::test]
async fn tools_made_of_functions_pass_with_the_schemas_they_make_themselves() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Add {
        a: i64,
        b: i64,
    }
    let stack =
        stack(ValidateLayer::json_schema(), sync_tool_fn("probe", |add: Add| toolstack::tool::Json(json!({ "sum": add.a + add.b }))));
    let answer = call(&stack, r#"{"a":1,"b":2}"#).await;
    assert!(answer.is_completed(), "{answer:?}");
    let _ = (Content::text(""), ToolResult::new());
}

/// Printed rather than asserted: a debug build on a loaded machine says little.
#[tokio::test]
async fn b01_what_a_layer_refuses_does_not_run_whatever_stands_around_it_and_beside_it() {
    use toolstack::{
        layer::{PinLayer, RedactLayer, SessionLayer, redact::Redactor, reload},
        store::{MemorySessions, SessionLimits},
    };

    let probe = Probe::new();
    let tool = || {
        let schema = json!({ "type": "object", "properties": { "id": { "type": "string" }, "pinned": {}, "n": { "type": "integer" } } });
        taking(&probe, &schema)
    };
    let sessions = || SessionLayer::new(MemorySessions::new(SessionLimits::new(1))).argument("id");
    let around = || ServiceBuilder::new().layer(RedactLayer::new(Redactor::new().common_keys()));
    let stacks = [
        around().layer(sessions()).layer(reload(ValidateLayer::json_schema()).0).service(Router::new().tool(tool())).into_stack(),
        around().layer(ValidateLayer::json_schema()).layer(sessions()).service(Router::new().tool(tool())).into_stack(),
        around()
            .service(
                Router::new().tool(tool()).layer(ServiceBuilder::new().layer(sessions()).layer(ValidateLayer::json_schema()).into_inner()),
            )
            .into_stack(),
        around()
            .service(
                Router::new().tool(tool().layer(ServiceBuilder::new().layer(ValidateLayer::json_schema()).layer(sessions()).into_inner())),
            )
            .into_stack(),
    ];
    for stack in &stacks {
        let before = probe.runs();
        let arguments = ["{}", r#"{"id":"none"}"#, r#"{"n":"x"}"#, r#"{"id":7}"#, "{}", "[]"];
        let calls = arguments.map(|text| ToolCall::new("probe", Arguments::from_text(text))).to_vec();
        let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
        let answers = stack.run_calls(calls).await;
        assert_eq!(answers.iter().map(|answer| answer.id.clone()).collect::<Vec<_>>(), ids);
        let completed: Vec<_> = answers.iter().map(|answer| answer.response.is_completed()).collect();
        assert_eq!(completed, [true, false, false, false, true, false]);
        assert_eq!(probe.runs() - before, 2);
    }
    let pinned = ServiceBuilder::new().layer(PinLayer::session("pinned")).service(Router::new().tool(tool()));
    let before = probe.runs();
    assert!(pinned.call_tool("probe", json!({})).await.refusal().is_some());
    assert_eq!(probe.runs(), before);
}
