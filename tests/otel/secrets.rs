//! Whatever secret comes with a call, in whatever place: nobody who looks at the calls reads it.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolstack::{
    BoxError, Refusal, Router, StackExt, ToolCall, ToolResponse,
    layer::{
        audit::{self, AuditReceiver},
        authenticate::{BearerToken, StaticTokens},
        telemetry::Metrics,
    },
    model::{Context, Principal, RawObject, Resume, TraceContext},
    stack::{RecommendedLayer, Settings, Stack, recommended},
    testing::Probe,
};
use tower::Layer;

use super::{SPANS, capture::was_logged, set_up};

const SETTINGS: &str = r#"{
    "telemetry": { "record_session": false, "remote_parents": true },
    "audit": { "tracing": true, "arguments": true },
    "redact": { "personal": true },
    "authenticate": {},
    "validate": { "repair": false },
    "permission": { "unmatched": "allow" }
}"#;

struct Watched {
    layer: RecommendedLayer,
    stack: Stack,
    records: AuditReceiver,
    metrics: Metrics,
}

fn watched(secret: &str) -> Result<Watched, BoxError> {
    set_up();
    let mut principal = Principal::new("ada");
    principal.claims.insert("card", secret)?;
    let tokens = StaticTokens::new().token(secret.to_owned(), principal)?;
    let (sink, records) = audit::channel(64);
    let metrics = Metrics::new();
    let (counted, source) = (metrics.clone(), secret.to_owned());
    let layer = recommended(Settings::from_json(SETTINGS)?)
        .telemetry(move |layer| layer.metrics(&counted))
        .audit(move |layer| layer.and(sink))
        .authenticate(move |layer| layer.bearer(tokens))
        .hooks(move |layer| {
            layer.before("fails", move |call| match call.call().name().as_str() {
                "fails" => Err(Refusal::internal(format!("no connection to db with {source}")).into()),
                _ => Ok(()),
            })
        })
        .build()?;
    let echo = Probe::answering(|call| {
        let arguments = call.arguments.value().unwrap().clone();
        ToolResponse::text(format!("it said {arguments}"))
    });
    let schema = json!({ "type": "object", "properties": { "api_key": { "type": "string" }, "n": { "type": "integer" } } });
    let panics = secret.to_owned();
    let tools = Router::new()
        .tool(echo.tool("echo").input_schema(&schema))
        .tool(Probe::new().tool("fails"))
        .tool(Probe::answering(move |_| panic!("{panics}")).tool("panics"));
    Ok(Watched { stack: layer.layer(tools), layer, records, metrics })
}

/// A call that has it wherever a call can.
fn call(name: &str, arguments: Value, secret: &str, token: &str) -> ToolCall {
    let mut trace = TraceContext::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    trace.baggage = Some(format!("user={secret}"));
    let resume = Resume::new(Some(secret.into()), RawObject::new());
    let mut call = ToolCall::new(name, arguments).with_context(Context::new().with_trace(trace).with_resume(resume));
    call.context.meta_mut().insert("token", secret).unwrap();
    call.context.extensions_mut().insert(BearerToken::new(token.to_owned()).unwrap());
    call
}

async fn shown(secret: &str) -> Result<Vec<String>, BoxError> {
    let Watched { layer, stack, mut records, metrics } = watched(secret)?;
    let mut shown = vec![format!("{layer:?} {stack:?}")];
    for (name, arguments, token) in [
        ("echo", json!({ "api_key": secret, "n": 1 }), secret),
        ("echo", json!({ "api_key": secret, "n": "one" }), secret),
        ("echo", json!({ "api_key": secret }), &format!("{secret}x")),
        ("fails", json!({ "password": secret }), secret),
        ("panics", json!({ "password": secret }), secret),
        ("no_such_tool", json!({ "password": secret }), secret),
    ] {
        let call = call(name, arguments, secret, token);
        shown.push(format!("{call:?}"));
        let response = stack.run_call(call).await;
        shown.push(format!("{response:?}"));
        shown.push(serde_json::to_string(&response)?);
        shown.push(response.as_text().unwrap_or_default().into_owned());
    }
    while let Some(entry) = records.try_recv() {
        shown.push(format!("{entry:?}"));
        shown.push(serde_json::to_string(&entry)?);
    }
    shown.push(format!("{:?} {}", metrics.snapshot(), serde_json::to_string(&metrics.dashboard())?));
    shown.push(metrics.prometheus());
    shown.push(serde_json::to_string(&stack.describe().await)?);
    shown.push(format!("{:?}", SPANS.get_finished_spans()?));
    Ok(shown)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i10_a_secret_is_in_no_debug_log_span_metric_record_or_text_for_the_model(secret in "[A-Za-z0-9_-]{24,60}") {
        // What a tool panics with is printed by the panic hook of the program, which is not this crate's.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shown = runtime.block_on(shown(&secret)).unwrap();
        std::panic::set_hook(hook);
        prop_assert_eq!(shown.iter().filter(|text| text.contains("ada")).count() > 0, true, "something is shown at all");
        for text in &shown {
            prop_assert!(!text.contains(&secret), "{}", text);
        }
        prop_assert!(!was_logged(&secret));
        prop_assert!(was_logged("execute_tool"), "something is logged at all");
    }
}
