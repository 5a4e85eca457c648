//! Each place in which a response can carry text.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    layer::{HooksLayer, RedactLayer, TimeoutLayer, redact::Typed},
    model::{Context, InputRequired, Progress, ProgressUpdate},
    stack::Reentry,
    testing::Probe,
    tool::{sync_tool_fn, tool_fn},
};
use tower::ServiceBuilder;

use super::{SECRET, redactor, texts, through};

/// Each place in which a result can carry text; `$` is where the secret goes.
fn places() -> Vec<Value> {
    let at = |block: Value| json!({ "content": [block] });
    vec![
        at(json!({ "type": "text", "text": "a $ b" })),
        at(json!({ "type": "text", "text": "a", "annotations": { "lastModified": "$" } })),
        at(json!({ "type": "text", "text": "a", "annotations": { "audience": ["user"], "unknown": ["$"], "$": 1 } })),
        at(json!({ "type": "text", "text": "a", "_meta": { "k": ["$"] } })),
        at(json!({ "type": "text", "text": "a", "unknown": { "$": 1 } })),
        at(json!({ "type": "image", "data": "AAEC", "mimeType": "$" })),
        at(json!({ "type": "image", "data": "$64", "mimeType": "image/svg+xml" })),
        at(json!({ "type": "audio", "data": "$", "mimeType": "audio/wav" })),
        at(json!({ "type": "image", "data": "$", "mimeType": "text/plain", "annotations": { "x": "$64" } })),
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
pub(super) fn placed(place: &Value, secret: &str) -> Value {
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
async fn content_that_is_no_text_can_be_hidden_whole() {
    let given = r#"{"content":[{"type":"image","data":"iVBORw0KGgo//w==","mimeType":"image/png"}]}"#;
    assert!(through(RedactLayer::new(redactor()), given).await.contains("iVBORw0KGgo//w=="));
    let hidden = through(RedactLayer::new(redactor()).hide_binary(), given).await;
    assert!(!hidden.contains("iVBOR") && hidden.contains("image/png"), "{hidden}");
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_pass_through() {
    // The caller says nothing itself; the call that it makes does, which is a sign of life for both.
    let speaks = tool_fn("speaks", |progress: Progress| async move {
        for step in 0..10 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            progress.report(ProgressUpdate::new(f64::from(step)));
        }
    });
    let caller = tool_fn("caller", |stack: Reentry| async move { stack.call_tool("speaks", json!({})).await });
    let stack = ServiceBuilder::new()
        .layer(TimeoutLayer::new(Duration::from_secs(600)).idle(Duration::from_secs(8)))
        .redact(redactor())
        .service(Router::new().tool(speaks).tool(caller))
        .into_stack();
    assert!(stack.call_tool("caller", json!({})).await.is_completed());
}
