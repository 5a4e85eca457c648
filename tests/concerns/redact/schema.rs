//! What is not hidden stays as it is, and what is hidden keeps to what was promised.

use serde_json::{Value, json};
use toolstack::{
    Router, StackExt, Tool,
    layer::{
        RedactLayer,
        redact::{Detector, REDACTED, Redactor, Typed},
        validate::JsonSchema,
    },
    model::{ToolName, ToolSpec},
    testing::Probe,
};
use tower::ServiceBuilder;

use super::{redactor, through};

fn with_schema(answer: &'static str, schema: &Value) -> Tool<Probe> {
    let spec = ToolSpec::new(ToolName::new("probe").unwrap()).with_output_schema(schema).unwrap();
    Tool::new(spec, Probe::answering(move |_| serde_json::from_str(answer).unwrap()))
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
    // A secret that is known is looked for in any case, and so is all that stands in plain text.
    let known = Redactor::new().detector(Detector::literal("pin", "4711"));
    assert_eq!(known.text(r#"{"a":[4711,-47.11,147112]}"#), r#"{"a":["[redacted:pin]",-47.11,"[redacted:pin]"]}"#);
    let log = r#"so {"card":4111111111111111} it is"#;
    assert_eq!(Redactor::personal().text(log), r#"so {"card":"[redacted:card]"} it is"#);
    let typed = through(RedactLayer::new(Redactor::personal().numbers()).typed(Typed::Same), given).await;
    assert!(typed.contains(r#"{"card":0,"n":4111111111111112}"#), "{typed}");
}
