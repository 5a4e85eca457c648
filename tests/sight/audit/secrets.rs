//! What must be in no record: arguments, results, messages, claims and tokens, wherever they come from and however a call ends.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{
        AuditLayer,
        audit::{AuditRecord, JsonLines, TracingSink, channel},
        gate, map_call,
    },
    model::{Arguments, Content, Context, Principal, RawObject, Resume, Secret, ToolResult},
    testing::Probe,
};
use tower::{Layer, ServiceBuilder};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::Written;

/// Everything that events say.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<(String, String)>>>);

impl Visit for Events {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.lock().unwrap().push((field.name().to_owned(), format!("{value:?}")));
    }
}

impl Subscriber for Events {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A call that carries the secret wherever a call can carry one that no record is to name.
fn call(name: &str, secret: &str, as_text: bool) -> ToolCall {
    let value = json!({ "token": secret, "nested": [{ "deep": secret }], secret: 1 });
    let arguments = if as_text { Arguments::from_text(value.to_string()) } else { value.into() };
    let raw = |text: &str| serde_json::value::to_raw_value(text).unwrap();
    let mut principal = Principal::new("ada").scope(secret);
    principal.acr = Some(secret.to_owned());
    principal.claims.insert_raw("access_token", raw(secret));
    let mut answers = RawObject::new();
    answers.insert_raw("answer", raw(secret));
    let mut context = Context::new().with_principal(principal).with_resume(Resume::new(Some(secret.into()), answers));
    context.meta_mut().insert("token", secret).unwrap();
    context.extensions_mut().insert(Secret::new(secret));
    ToolCall::new(name, arguments).with_context(context)
}

fn tools(secret: &str) -> Router {
    let tell = |response: ToolResponse| Probe::answering(move |_| response.clone());
    let result = ToolResult::structured(&json!({ "secret": secret })).unwrap().with(Content::image(secret, "image/png"));
    Router::new()
        .tool(tell(result.into()).tool("answers"))
        .tool(tell(ToolResponse::error(secret)).tool("fails"))
        .tool(tell(Refusal::new(RefusalKind::ToolError, secret.to_owned()).with_source(secret.to_owned()).into()).tool("refuses"))
        .tool(
            Probe::answering({
                let secret = secret.to_owned();
                move |_| panic!("{secret}")
            })
            .tool("panics"),
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_secret_is_in_any_record_nor_in_what_shows_one(secret in "[A-Za-z0-9+/_-]{16,40}", as_text: bool, keyed: bool) {
        let (sink, mut log) = channel(100);
        let (written, events) = (Written::default(), Events::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = seen.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tracing::subscriber::with_default(events.clone(), || runtime.block_on(async {
            let lines = JsonLines::to_writer(written.clone()).start().unwrap();
            let handle = lines.handle();
            let mut layer = AuditLayer::new(sink).and(lines).and(TracingSink::new()).and(move |record: &AuditRecord| {
                keep.lock().unwrap().push(record.clone());
            });
            if keyed {
                layer = layer.digest_key(Secret::new(&*secret));
            }
            let told = secret.clone();
            let no = gate("no", move |call| match call.name().as_str() {
                "denied" => Err(Refusal::new(RefusalKind::Denied, told.clone()).with_source(told.clone())),
                _ => Ok(()),
            });
            let again = secret.clone();
            let rewrite = map_call("rewrite", move |call| call.arguments = json!({ "rewritten": again }).into());
            let shown = format!("{layer:?}");
            let stack = ServiceBuilder::new().layer(layer).layer(no).layer(rewrite).service(tools(&secret));
            assert!(!format!("{shown} {stack:?} {}", stack.describe().await).contains(&secret));
            for name in ["answers", "fails", "refuses", "panics", "denied", "unknown"] {
                stack.run_call(call(name, &secret, as_text)).await;
                drop(stack.run_call(call(name, &secret, as_text)));
                let _ = stack.run_call(call(name, &secret, as_text)).now_or_never();
            }
            drop(stack);
            handle.closed().await;
        }));
        let mut shown: Vec<String> = std::iter::from_fn(|| log.try_recv()).map(|entry| format!("{entry:?} {}", serde_json::to_string(&entry).unwrap())).collect();
        // Those that were not polled at all never came to the stack.
        prop_assert_eq!(shown.len(), 12);
        prop_assert_eq!(seen.lock().unwrap().len(), 12);
        prop_assert_eq!(written.text().lines().count(), 12);
        let events = events.0.lock().unwrap();
        prop_assert_eq!(events.iter().filter(|(name, _)| name == "sequence").count(), 12);
        prop_assert!(events.iter().any(|(name, value)| name == "subject" && value == "\"ada\""));
        shown.push(format!("{seen:?} {}", written.text()));
        shown.extend(events.iter().filter(|(name, _)| name != "error" && name != "message" && name != "panic").map(|(_, value)| value.clone()));
        for text in shown {
            prop_assert!(!text.contains(&secret), "{}", text);
        }
    }
}

#[test]
fn an_event_shows_what_came_from_outside_with_its_escapes() {
    let events = Events::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tracing::subscriber::with_default(events.clone(), || {
        runtime.block_on(async {
            let stack = AuditLayer::new(TracingSink::new()).layer(Router::new());
            stack.run_call(ToolCall::new("a\nlevel=ERROR", json!({})).with_id("x\u{1b}[2J")).await;
        });
    });
    let events = events.0.lock().unwrap();
    let field = |name: &str| events.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
    assert_eq!((field("tool"), field("call")), (Some(r#""a\nlevel=ERROR""#), Some(r#""x\u{1b}[2J""#)));
    assert_eq!((field("outcome"), field("by")), (Some(r#""unknown_tool""#), Some(r#""router""#)));
}
