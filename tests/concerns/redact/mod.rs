//! What is to be hidden is nowhere in what the model reads, and nothing else changes.

mod detectors;
mod directions;
mod encoded;
mod keys;
mod marks;
mod nested;
mod places;
mod properties;
mod quoting;
mod schema;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolstack::{
    Router, StackExt,
    layer::{
        RedactLayer,
        redact::{Detector, Redactor},
    },
    testing::Probe,
};
use tower::ServiceBuilder;

pub(super) const SECRET: &str = "hunter2\"\u{e9}\\x";

pub(super) fn redactor() -> Redactor {
    Redactor::new().detector(Detector::literal("vault", SECRET)).common_keys()
}

pub(super) async fn through(layer: RedactLayer, json: &str) -> String {
    let json = json.to_owned();
    let probe = Probe::answering(move |_| serde_json::from_str(&json).unwrap());
    let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(probe.tool("probe")));
    serde_json::to_string(&stack.call_tool("probe", json!({})).await).unwrap()
}

/// Every text in JSON: keys, strings, what is base64 in them, what is JSON in them.
pub(super) fn texts(value: &Value, all: &mut Vec<String>) {
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

/// What none of the texts shows.
#[track_caller]
pub(super) fn shows_none(redactor: &Redactor, secrets: &[&str], texts: &[&str]) {
    for text in texts {
        let got = redactor.text(text);
        for secret in secrets {
            assert!(!got.contains(secret), "{text}\n-> {got}");
        }
        assert!(got.contains("[redacted:"), "{text}\n-> {got}");
        assert_eq!(redactor.text(&got), got, "twice is once: {text}");
    }
}
