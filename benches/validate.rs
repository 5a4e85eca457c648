//! What checking the arguments of `add(a, b)` costs a call, beside `jsonschema` alone and beside reading the two numbers by hand.

#![allow(missing_docs)]

use std::{
    hint::black_box,
    task::{Context, Poll, Waker},
};

use divan::Bencher;
use serde_json::{Value, json};
use toolstack::{
    Router, ToolCall, ToolResponse,
    layer::{
        ValidateLayer,
        validate::{JsonSchema, Validator},
    },
    model::Arguments,
    tool::sync_tool_fn,
};
use tower::{Layer, Service};

fn main() {
    divan::main();
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        "required": ["a", "b"],
    })
}

fn tools() -> Router {
    Router::new().tool(sync_tool_fn("add", || "3").input_schema(&schema()))
}

fn call<S>(service: &mut S, arguments: &Arguments)
where
    S: Service<ToolCall, Response = ToolResponse, Error = std::convert::Infallible>,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    let mut future = std::pin::pin!(service.call(ToolCall::new("add", arguments.clone())));
    let Poll::Ready(response) = future.as_mut().poll(&mut cx) else { panic!("nothing here waits") };
    assert!(response.unwrap().is_completed());
}

fn run<S>(bencher: Bencher<'_, '_>, mut service: S, arguments: &Arguments)
where
    S: Service<ToolCall, Response = ToolResponse, Error = std::convert::Infallible>,
{
    // The first call learns the tools and compiles the schema.
    call(&mut service, arguments);
    bencher.bench_local(|| call(&mut service, black_box(arguments)));
}

#[divan::bench]
fn bare_call(bencher: Bencher<'_, '_>) {
    run(bencher, tools(), &json!({ "a": 1, "b": 2 }).into());
}

#[divan::bench]
fn validated_call(bencher: Bencher<'_, '_>) {
    run(bencher, ValidateLayer::json_schema().layer(tools()), &json!({ "a": 1, "b": 2 }).into());
}

/// The compiled check alone: the budget is 300 ns.
#[divan::bench]
fn the_check_alone(bencher: Bencher<'_, '_>) {
    let (check, value) = (JsonSchema::new().compile(&schema()).unwrap(), json!({ "a": 1, "b": 2 }));
    bencher.bench_local(|| assert!(black_box(&check).is_valid(black_box(&value))));
}

#[divan::bench]
fn jsonschema_alone(bencher: Bencher<'_, '_>) {
    let (check, value) = (jsonschema::validator_for(&schema()).unwrap(), json!({ "a": 1, "b": 2 }));
    bencher.bench_local(|| assert!(black_box(&check).is_valid(black_box(&value))));
}

#[divan::bench]
fn two_numbers_by_hand(bencher: Bencher<'_, '_>) {
    let value = json!({ "a": 1, "b": 2 });
    bencher.bench_local(|| {
        let number = |name: &str| black_box(&value).get(name).is_some_and(Value::is_i64);
        assert!(number("a") && number("b"));
    });
}
