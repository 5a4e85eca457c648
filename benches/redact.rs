//! What it costs to look at a text of 1 kB that holds no secret, and at the same size of JSON.

#![allow(missing_docs)]

use std::hint::black_box;

use divan::{Bencher, counter::BytesCount};
use serde_json::json;
use toolstack::{
    Router, ToolCall,
    layer::{RedactLayer, redact::Redactor},
    tool::sync_tool_fn,
};
use tower::{Layer, ServiceBuilder};

mod support;

fn main() {
    divan::main();
}

const SIZE: usize = 1024;

/// What a tool says: prose, a listing, a log.
fn text() -> String {
    let some = "The build took 12.4 s; see target/debug/build.log for the 3 warnings.\n\
        -rw-r--r-- 1 ada staff 4096 Nov 30 18:40 src/main.rs\n\
        2026-11-30T18:40:00Z INFO request{method=GET path=/items status=200} took 3 ms, 17 rows: ok\n";
    some.repeat(SIZE / some.len() + 1)[..SIZE].to_owned()
}

fn as_json() -> String {
    let row = |n: usize| json!({ "id": n, "name": "widget", "tags": ["a", "b"], "note": "nothing to see here" });
    json!((0..14).map(row).collect::<Vec<_>>()).to_string()
}

fn run(bencher: Bencher<'_, '_>, redactor: &Redactor, text: &str) {
    assert_eq!(redactor.text(text), text);
    bencher.counter(BytesCount::of_str(text)).bench_local(|| drop(black_box(redactor.text(black_box(text)))));
}

#[divan::bench]
fn secrets_in_a_text(bencher: Bencher<'_, '_>) {
    run(bencher, &Redactor::secrets(), &text());
}

#[divan::bench]
fn secrets_and_personal_data_in_a_text(bencher: Bencher<'_, '_>) {
    run(bencher, &Redactor::secrets().and(&Redactor::personal()), &text());
}

#[divan::bench]
fn keys_alone_in_a_text(bencher: Bencher<'_, '_>) {
    run(bencher, &Redactor::new().common_keys(), &text());
}

#[divan::bench]
fn secrets_in_json(bencher: Bencher<'_, '_>) {
    run(bencher, &Redactor::secrets(), &as_json());
}

/// A call whose result is the text, through the layer; beside it the same call without.
#[divan::bench(args = [true, false])]
fn a_call(bencher: Bencher<'_, '_>, redacted: bool) {
    let tools = Router::new().tool(sync_tool_fn("read", text));
    let call = || ToolCall::new("read", json!({}));
    if redacted {
        let mut stack = ServiceBuilder::new().layer(RedactLayer::new(Redactor::secrets())).service(tools);
        bencher.bench_local(|| support::operate(&mut stack, call));
    } else {
        let mut stack = tower::layer::util::Identity::new().layer(tools);
        bencher.bench_local(|| support::operate(&mut stack, call));
    }
}
