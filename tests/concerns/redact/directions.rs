//! To the model, to the tool, to observers.

use std::sync::{Arc, Mutex};

use toolstack::{
    Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    layer::{
        RedactLayer,
        redact::{Detector, Redactor},
    },
    model::Arguments,
    testing::Probe,
};
use tower::ServiceBuilder;

use super::{SECRET, redactor};

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
