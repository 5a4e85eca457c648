//! What is to be hidden is nowhere in what the model reads, and nothing else changes.

use std::sync::{Arc, Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt, Tool, ToolCall, ToolResponse,
    layer::{
        HooksLayer, RedactLayer,
        redact::{Detector, REDACTED, Redactor, Typed},
        validate::JsonSchema,
    },
    model::{Arguments, Content, Context, InputRequired, Progress, ProgressUpdate, ToolName, ToolResult, ToolSpec},
    testing::Probe,
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

const SECRET: &str = "hunter2\"\u{e9}\\x";

fn redactor() -> Redactor {
    Redactor::new().detector(Detector::literal("vault", SECRET)).common_keys()
}

async fn through(layer: RedactLayer, json: &str) -> String {
    let json = json.to_owned();
    let probe = Probe::answering(move |_| serde_json::from_str(&json).unwrap());
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
    serde_json::to_string(&stack.call_tool("probe", json!({})).await).unwrap()
}

fn with_schema(answer: &'static str, schema: &Value) -> Tool<Probe> {
    let spec = ToolSpec::new(ToolName::new("probe").unwrap()).with_output_schema(schema).unwrap();
    Tool::new(spec, Probe::answering(move |_| serde_json::from_str(answer).unwrap()))
}

/// Each place in which a result can carry text; `$` is where the secret goes.
fn places() -> Vec<Value> {
    let at = |block: Value| json!({ "content": [block] });
    vec![
        at(json!({ "type": "text", "text": "a $ b" })),
        at(json!({ "type": "text", "text": "a", "annotations": { "lastModified": "$" } })),
        at(json!({ "type": "text", "text": "a", "_meta": { "k": ["$"] } })),
        at(json!({ "type": "text", "text": "a", "unknown": { "$": 1 } })),
        at(json!({ "type": "image", "data": "AAEC", "mimeType": "$" })),
        at(json!({ "type": "image", "data": "$64", "mimeType": "image/svg+xml" })),
        at(json!({ "type": "audio", "data": "$", "mimeType": "audio/wav" })),
        at(json!({ "type": "resource_link", "uri": "https://x/?q=$", "name": "$", "title": "$", "description": "$", "mimeType": "$" })),
        at(json!({ "type": "resource_link", "uri": "https://x/%24/$%", "name": "n" })),
        at(
            json!({ "type": "resource", "resource": { "uri": "file:///$", "text": "$", "mimeType": "$", "unknown": "$", "_meta": { "$": "$" } } }),
        ),
        at(json!({ "type": "resource", "resource": { "uri": "x:", "blob": "$64" } })),
        at(json!({ "type": "resource", "resource": { "uri": "x:", "blob": "$" } })),
        at(json!({ "type": "unheard_of", "$": { "deep": [["$"]] } })),
        json!({ "content": [], "structuredContent": { "a": [{ "$": { "b": "x$y" } }], "$2": "$" } }),
        json!({ "content": [], "structuredContent": "$" }),
        json!({ "content": [{ "type": "text", "text": "{\"a\":\"$json\"}" }], "structuredContent": { "a": "$" } }),
        json!({ "content": [], "structuredContent": { "a": "{\"b\":\"[\\\"$json2\\\"]\"}" } }),
        json!({ "content": [{ "type": "text", "text": "failed: $" }], "isError": true }),
        json!({ "content": [], "_meta": { "x/y": { "$": ["$"] } } }),
        json!({ "content": [], "unknown": { "z": "$" } }),
    ]
}

/// `place` with the secret in it, however it is written there.
fn placed(place: &Value, secret: &str) -> Value {
    let json = |text: &str| {
        let text = Value::from(text).to_string();
        text[1..text.len() - 1].to_owned()
    };
    match place {
        Value::String(text) => Value::from(
            text.replace("$json2", &json(&json(secret)))
                .replace("$json", &json(secret))
                .replace("$64", &STANDARD.encode(secret))
                .replace('$', secret),
        ),
        Value::Array(items) => items.iter().map(|item| placed(item, secret)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.replace('$', secret), placed(value, secret))).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Every text in JSON: keys, strings, what is base64 in them, what is JSON in them.
fn texts(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if let Some(decoded) = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                all.push(decoded);
            }
            if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
                texts(&inner, all);
            }
            all.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            all.push(key.clone());
            texts(value, all);
        }),
        _ => {}
    }
}

#[tokio::test]
async fn d05_a_secret_is_found_wherever_a_result_can_carry_text() {
    for place in places() {
        let given = placed(&place, SECRET);
        let got = through(RedactLayer::new(redactor()), &given.to_string()).await;
        let value: Value = serde_json::from_str(&got).unwrap();
        let mut all = Vec::new();
        texts(&value, &mut all);
        assert!(!all.iter().any(|text| text.contains("hunter2")), "{given}\n{got}");
        assert!(all.iter().any(|text| text.contains("[redacted:vault]")), "{given}\n{got}");
        assert_eq!(value["isError"], given["isError"]);
    }
}

#[tokio::test]
async fn d05_the_text_beside_structured_content_says_the_same_as_it() {
    let json = r#"{"user":"hunter2\"é\\x","token":7,"password":null,"n":1.0,"list":[{"api-key":["a"]}]}"#;
    for typed in [Typed::Marker, Typed::Null, Typed::Same] {
        let answer = json!({ "content": [{ "type": "text", "text": json }] }).to_string().replacen(
            '{',
            &format!(r#"{{"structuredContent":{json},"#),
            1,
        );
        let got: Value = serde_json::from_str(&through(RedactLayer::new(redactor()).typed(typed), &answer).await).unwrap();
        let text: Value = serde_json::from_str(got["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(got["structuredContent"], text);
        assert_eq!(text["user"], "[redacted:vault]");
        assert_eq!(text["password"], json!(null));
        let hidden = match typed {
            Typed::Null => json!([null, null]),
            Typed::Same => json!([0, []]),
            _ => json!(["[redacted:key]", "[redacted:key]"]),
        };
        assert_eq!(json!([text["token"], text["list"][0]["api-key"]]), hidden);
    }
}

#[tokio::test]
async fn i01_what_is_not_hidden_stays_byte_for_byte() {
    let exact = r#"{ "big":9007199254740993,"beyond" : 18446744073709551616, "huge":1e400,"long":0.123456789012345678901234567890,"zero":-0.0,"one":1.0,"s":"\u0041\/","hide":$}"#;
    let hide = |value: &str| exact.replace('$', value);
    let given = format!(r#"{{"content":[],"structuredContent":{}}}"#, hide(r#"["hunter2\"é\\x", 2.50]"#));
    let got = through(RedactLayer::new(redactor()), &given).await;
    assert!(got.contains(&hide(r#"["[redacted:vault]", 2.50]"#)), "{got}");
    let untouched = format!(r#"{{"resultType":"complete","content":[],"structuredContent":{}}}"#, hide("0"));
    assert_eq!(through(RedactLayer::new(redactor()), &untouched).await, untouched);
}

#[tokio::test]
async fn d06_the_three_directions_are_kept_apart() {
    let probe = Probe::answering(|call| ToolResponse::text(call.arguments.as_json().unwrap()));
    let text = r#"{ "password":"hunter2", "n":1.0 }"#;
    let call = || ToolCall::new("probe", Arguments::from_text(text));
    let secret = Redactor::new().common_keys();

    // Results alone: the tool gets what it needs.
    let stack = ServiceBuilder::new().layer(RedactLayer::new(secret.clone())).service(Router::new().tool(probe.tool("probe")));
    let answer = stack.run_call(call()).await;
    assert_eq!(probe.arguments().pop().unwrap(), text);
    assert_eq!(answer.as_text().unwrap(), r#"{ "password":"[redacted:key]", "n":1.0 }"#);

    // Observers alone: they see what they are shown, and both others see all.
    let seen = Arc::new(Mutex::new(String::new()));
    let (keep, observer) = (Arc::clone(&seen), secret.clone());
    let stack = ServiceBuilder::new()
        .gate("observer", move |call| {
            keep.lock().unwrap().push_str(observer.arguments(&call.arguments).as_json().unwrap());
            Ok(())
        })
        .service(Router::new().tool(probe.tool("probe")));
    let answer = stack.run_call(call()).await;
    assert_eq!((probe.arguments().pop().unwrap().as_str(), answer.as_text().unwrap().as_ref()), (text, text));
    assert_eq!(*seen.lock().unwrap(), r#"{ "password":"[redacted:key]", "n":1.0 }"#);

    // The tool alone.
    let stack =
        ServiceBuilder::new().layer(RedactLayer::new(Redactor::new()).to_tool(secret)).service(Router::new().tool(probe.tool("probe")));
    stack.run_call(call()).await;
    assert_eq!(probe.arguments().pop().unwrap(), r#"{ "password":"[redacted:key]", "n":1.0 }"#);
}

#[tokio::test]
async fn observers_have_a_redactor_for_errors_and_for_arguments_that_cannot_be_read() {
    #[derive(Debug, thiserror::Error)]
    #[error("no connection for ada")]
    struct Failed(#[source] Box<dyn std::error::Error + Send + Sync>);
    let redactor = redactor().detector(Detector::literal("who", "ada"));
    let error = Failed(format!("password was {SECRET}").into());
    assert_eq!(redactor.error(&error), "no connection for [redacted:who]: password was [redacted:vault]");
    let broken = redactor.arguments(&Arguments::from_text(r#"{"a":"ada""#));
    assert_eq!(broken.as_json().unwrap(), r#"{"a":"[redacted:who]""#);
    assert!(!format!("{redactor:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_refusal_keeps_its_kind_and_loses_the_secret_and_so_does_progress() {
    let stack = ServiceBuilder::new()
        .redact(redactor())
        .gate("rule", |_| Err(Refusal::new(RefusalKind::Denied, format!("not with {SECRET}")).with_by("rule")))
        .service(Router::new().tool(Probe::new().tool("probe")));
    let answer = stack.call_tool("probe", json!({})).await;
    let refusal = answer.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), refusal.message()), (RefusalKind::Denied, "rule", "not with [redacted:vault]"));
    assert_eq!(answer.as_text().unwrap(), "not with [redacted:vault]");

    let heard = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&heard);
    let listener = Progress::new(move |update| keep.lock().unwrap().extend(update.message));
    let report = |progress: Progress| progress.report(ProgressUpdate::new(1.0).message(format!("at {SECRET}")));
    let stack = ServiceBuilder::new().redact(redactor()).service(Router::new().tool(sync_tool_fn("probe", report)));
    stack.run_call(ToolCall::new("probe", json!({})).with_context(Context::new().with_progress(listener))).await;
    assert_eq!(*heard.lock().unwrap(), ["at [redacted:vault]"]);
}

#[tokio::test]
async fn d05_a_remark_beside_a_response_loses_the_secret_whatever_the_response_is() {
    let hooks = || {
        HooksLayer::new().before("aside", |call| {
            call.remark(format!("the key is {SECRET}"));
            Ok(())
        })
    };
    let asked = Probe::answering(|_| ToolResponse::InputRequired(Box::new(InputRequired::new("state"))));
    let tools = Router::new().tool(Probe::new().tool("answers")).tool(asked.tool("asks"));
    let stack = ServiceBuilder::new().redact(redactor()).hooks(hooks()).service(tools);
    for tool in ["answers", "asks"] {
        let response = stack.call_tool(tool, json!({})).await;
        assert_eq!(response.remarks().iter().map(|remark| remark.text.as_str()).collect::<Vec<_>>(), ["the key is [redacted:vault]"]);
    }
}

#[tokio::test]
async fn what_a_person_is_asked_and_the_sealed_state_stay_as_they_are() {
    let asked = || {
        let mut asked = InputRequired::new(SECRET);
        asked.meta.insert("k", SECRET).unwrap();
        ToolResponse::InputRequired(Box::new(asked))
    };
    let probe = Probe::answering(move |_| asked());
    let stack = ServiceBuilder::new().redact(redactor()).service(Router::new().tool(probe.tool("probe")));
    match stack.call_tool("probe", json!({})).await {
        ToolResponse::InputRequired(asked) => {
            assert_eq!(asked.state.as_deref(), Some(SECRET));
            assert_eq!(asked.meta.get::<String>("k").unwrap().unwrap(), "[redacted:vault]");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn i08_what_is_redacted_keeps_to_the_output_schema_or_is_removed_and_marked() {
    let schema = json!({
        "type": "object",
        "properties": { "token": { "type": "integer" }, "secret": { "type": "boolean" }, "born": { "type": "string", "format": "date" } },
    });
    let answer = r#"{"content":[],"structuredContent":{"token":4711,"secret":true,"born":"1815-12-10"}}"#;
    let born = Detector::literal("born", "1815-12-10");
    let stack = |layer: RedactLayer| ServiceBuilder::new().layer(layer).service(Router::new().tool(with_schema(answer, &schema)));
    let structured = async |layer: RedactLayer| {
        let answer = stack(layer).call_tool("probe", json!({})).await;
        let result = answer.result().unwrap();
        let marked = result.meta().get::<String>(REDACTED).unwrap().is_some();
        (result.structured_content().map(|json| json.get().to_owned()), marked)
    };
    let keys = || Redactor::new().common_keys();
    let engine = || JsonSchema::new().formats();
    let same = r#"{"token":0,"secret":false,"born":"1815-12-10"}"#.to_owned();
    assert_eq!(structured(RedactLayer::new(keys())).await, (Some(same.clone()), false));
    assert_eq!(structured(RedactLayer::new(keys()).keep_schema(engine())).await, (Some(same), false));
    let null = r#"{"token":null,"secret":null,"born":"1815-12-10"}"#.to_owned();
    assert_eq!(structured(RedactLayer::new(keys()).typed(Typed::Null)).await, (Some(null), false));
    // A marker is no number, and no date.
    assert_eq!(structured(RedactLayer::new(keys()).typed(Typed::Marker).keep_schema(engine())).await, (None, true));
    assert_eq!(structured(RedactLayer::new(keys().detector(born)).keep_schema(engine())).await, (None, true));
}

#[tokio::test]
async fn numbers_are_looked_at_where_that_is_asked_for() {
    let given = r#"{"content":[],"structuredContent":{"card":4111111111111111,"n":4111111111111112}}"#;
    let plain = through(RedactLayer::new(Redactor::personal()), given).await;
    assert!(plain.contains("4111111111111111"));
    let numbers = through(RedactLayer::new(Redactor::personal().numbers()), given).await;
    assert!(numbers.contains(r#"{"card":"[redacted:card]","n":4111111111111112}"#), "{numbers}");
    let typed = through(RedactLayer::new(Redactor::personal().numbers()).typed(Typed::Same), given).await;
    assert!(typed.contains(r#"{"card":0,"n":4111111111111112}"#), "{typed}");
}

#[test]
fn the_ready_detectors_find_what_they_say_and_leave_the_rest() {
    let both = Redactor::secrets().and(&Redactor::personal());
    let x = |len: usize| "a1B2c3D4e5".repeat(8)[..len].to_owned();
    for (name, text) in [
        ("private_key", "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----".to_owned()),
        ("private_key", "-----BEGIN OPENSSH PRIVATE KEY-----\ncut off here".to_owned()),
        ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_123".to_owned()),
        ("bearer", format!("bearer {}", x(24))),
        ("authorization", "Authorization: Basic dXNlcjpwYXNz".to_owned()),
        ("aws", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("aws", format!("aws_secret_access_key = {}", x(40))),
        ("github", format!("ghp_{}", x(36))),
        ("github", format!("github_pat_{}", x(40))),
        ("gitlab", format!("glpat-{}", x(20))),
        ("slack", "xoxb-123456789012-abcdefghijkl".to_owned()),
        ("slack", format!("https://hooks.slack.com/services/T00000000/B00000000/{}", x(24))),
        ("google", format!("AIza{}", x(35))),
        ("google", format!("ya29.{}", x(40))),
        ("stripe", format!("sk_live_{}", x(24))),
        ("model_provider", format!("sk-ant-api03-{}", x(40))),
        ("package_registry", format!("npm_{}", x(36))),
        ("mail_provider", format!("SG.{}.{}", x(22), x(43))),
        ("url_password", "postgres://ada:hunter2@db:5432/x".to_owned()),
        ("assignment", "password = hunter2".to_owned()),
        ("assignment", r#"the config has "api_key": "hunter2", among others"#.to_owned()),
        ("email", "Ada.Lovelace+x@mail.example.co.uk".to_owned()),
        ("phone", "+44 20 7946 0958".to_owned()),
        ("us_ssn", "078-05-1120".to_owned()),
        ("card", "4111 1111 1111 1111".to_owned()),
        ("iban", "DE89 3704 0044 0532 0130 00".to_owned()),
    ] {
        for around in ["$", "é$ü", "see: $.", "(\"$\")"] {
            let got = both.text(&around.replace('$', &text)).into_owned();
            assert!(got.contains(&format!("[redacted:{name}]")), "{name}: {text} -> {got}");
        }
    }
    for harmless in [
        "The bearer certificates are basic knowledge.",
        "commit 3f6e5e8efa0676d9489f7527001c145bdf029ef3",
        "550e8400-e29b-41d4-a716-446655440000",
        "2026-11-30T18:40:00Z, 192.168.0.1, 1234567890123",
        "task-management for max_tokens and next_page_token",
        "https://example.com/a@b?x=1#y",
        "000-12-3456 and 123-00-4567",
    ] {
        assert_eq!(both.text(harmless), harmless);
    }
}

#[test]
fn j05_a_pattern_that_is_none_is_an_error_and_a_detector_that_finds_nonsense_does_no_harm() {
    let error = Detector::regex("mine", "(").unwrap_err();
    assert!(error.to_string().starts_with("the pattern of the detector `mine`"), "{error}");
    assert!(Detector::regex("mine", r"(a{1000}){1000}").is_err());
    #[allow(clippy::reversed_empty_ranges, reason = "that is the nonsense")]
    let nonsense = Detector::new("a b]c", |_| vec![1..2, 5..2, 3..3, 90..100, 2..usize::MAX]);
    assert_eq!(nonsense.name(), "abc");
    let redactor = Redactor::new().detector(nonsense);
    assert_eq!(redactor.text("éé"), "[redacted:abc][redacted:abc]");
    assert_eq!(Redactor::new().detector(Detector::literal("none", "")).text("abc"), "abc");
    // A marker that somebody forged hides nothing.
    let forged = Redactor::new().detector(Detector::literal("vault", "hunter2"));
    assert_eq!(forged.text("[redacted:hunter2]"), "[redacted:[redacted:vault]]");
}

#[test]
fn a_secret_written_with_escapes_is_found_and_keys_that_become_the_same_stay_apart() {
    let redactor = Redactor::new().detector(Detector::literal("vault", "hunter2")).common_keys();
    for json in [
        r#"{"a":"\u0068unter2"}"#,
        r#"{"a":"\ud800 hunter2"}"#,
        r#"{"a":"\ud83d\ude00\u0068\u0075nter2"}"#,
        r#"{"p\u0061ssword":"hunter3"}"#,
    ] {
        let got = redactor.text(json).into_owned();
        assert!(got.contains("[redacted:") && serde_json::from_str::<Value>(&got).is_ok(), "{json}: {got}");
    }
    let got = redactor.text(r#"{"hunter2":1,"hunter2 ":2,"[redacted:vault]":3}"#).into_owned();
    assert_eq!(serde_json::from_str::<Value>(&got).unwrap().as_object().unwrap().len(), 3, "{got}");
    assert_eq!(redactor.text(&got), got);
    let deep = "[".repeat(20_000) + r#""hunter2""# + &"]".repeat(20_000);
    assert!(!redactor.text(&deep).contains("hunter2"));
}

#[tokio::test]
async fn content_that_is_no_text_can_be_hidden_whole() {
    let given = r#"{"content":[{"type":"image","data":"iVBORw0KGgo//w==","mimeType":"image/png"}]}"#;
    assert!(through(RedactLayer::new(redactor()), given).await.contains("iVBORw0KGgo//w=="));
    let hidden = through(RedactLayer::new(redactor()).hide_binary(), given).await;
    assert!(!hidden.contains("iVBOR") && hidden.contains("image/png"), "{hidden}");
    let _ = (ToolResult::new(), Content::text(""));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z \"\\\\\u{e9}]{0,6}".prop_map(Value::from),
        Just(Value::from("$")),
        Just(Value::from("a$b$$")),
        Just(Value::from("{\"b\":[\"$json\"],\"password\":\"$json\"}")),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof![Just("$".to_owned()), Just("Pass_Word".to_owned()), "[a-c$]{1,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// Redaction without any regard for speed and exactness.
fn naive(value: &Value) -> Value {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => Value::from(naive(&inner).to_string()),
            _ => Value::from(text.replace("hunter2", "[redacted:vault]")),
        },
        Value::Array(items) => items.iter().map(naive).collect(),
        Value::Object(fields) => {
            let mut out = serde_json::Map::new();
            for (key, value) in fields {
                let key = key.replace("hunter2", "[redacted:vault]");
                let hidden = key == "Pass_Word" || key == "password";
                let instead = match value {
                    Value::Null => Value::Null,
                    Value::String(text) if text.is_empty() => Value::from(""),
                    _ => Value::from("[redacted:key]"),
                };
                out.insert(key, if hidden { instead } else { naive(value) });
            }
            out.into()
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_secret_is_nowhere_in_redacted_json_and_redacting_twice_is_redacting_once(value in json_value()) {
        let redactor = redactor();
        let given = placed(&value, SECRET).to_string();
        let got = redactor.text(&given).into_owned();
        let read: Value = serde_json::from_str(&got).unwrap();
        let mut all = Vec::new();
        texts(&read, &mut all);
        prop_assert!(!all.iter().any(|text| text.contains(SECRET)), "{given} -> {got}");
        prop_assert_eq!(redactor.text(&got), got.as_str());
    }

    #[test]
    fn json_comes_out_as_it_would_field_by_field(value in json_value(), pretty in any::<bool>()) {
        let value = placed(&value, "hunter2");
        let given = if pretty { format!("{value:#}") } else { value.to_string() };
        let got = Redactor::new().detector(Detector::literal("vault", "hunter2")).keys(["password"]).text(&given).into_owned();
        prop_assert_eq!(serde_json::from_str::<Value>(&got).unwrap(), naive(&value), "{}", given);
        if naive(&value) == value {
            prop_assert_eq!(got, given);
        }
    }

    #[test]
    fn redacting_a_text_twice_is_redacting_it_once(
        parts in prop::collection::vec(
            prop_oneof![
                "[ -~\u{e9}\n]{0,12}",
                Just("hunter2".to_owned()),
                Just("4111 1111 1111 1111".to_owned()),
                Just("a@b.co".to_owned()),
                Just("password=".to_owned()),
                Just("[redacted:".to_owned()),
                Just("[redacted:email]".to_owned()),
                Just("{\"token\":".to_owned()),
                Just("bearer ".to_owned()),
                Just("+44 20 7946 0958".to_owned()),
            ],
            0..10,
        )
    ) {
        let redactor = Redactor::secrets().and(&Redactor::personal()).detector(Detector::literal("vault", "hunter2"));
        let given = parts.concat();
        let once = redactor.text(&given).into_owned();
        prop_assert!(!once.contains("hunter2"), "{} -> {}", given, once);
        prop_assert_eq!(redactor.text(&once), once.as_str());
    }
}
