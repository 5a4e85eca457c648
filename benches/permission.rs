//! What fifty rules cost an allowed call, beside a plain loop over the same rules and a set of globs over the same names.

#![allow(missing_docs)]

use std::{
    hint::black_box,
    task::{Context, Poll, Waker},
};

use divan::{Bencher, counter::ItemsCount};
use globset::{Glob, GlobSetBuilder};
use serde_json::{Value, json};
use toolstack::{
    Router, ToolCall, ToolResponse,
    layer::permission::{Effect, PermissionLayer, Rules},
    model::Arguments,
    select::Pattern,
    tool::sync_tool_fn,
};
use tower::{Layer, Service};

fn main() {
    divan::main();
}

/// Forty rules about other tools, by names and globs; ten about this one's arguments, of which the last allows the call.
fn rules() -> Vec<Value> {
    let effects = ["deny", "ask", "allow"];
    let others = (0..40).map(|at| {
        let name = if at % 2 == 0 { format!("other{at}.*") } else { format!("tool_{at}") };
        json!({ "id": format!("other-{at}"), "effect": effects[at % 3], "tools": { "names": [name] } })
    });
    let own = (0..10).map(|at| match at {
        9 => json!({ "id": "allow", "effect": "allow", "tools": { "names": ["files.*"] }, "arguments": [{ "path": "/path", "prefix": "/srv/" }] }),
        _ => json!({
            "id": format!("own-{at}"), "effect": (effects[at % 2]), "tools": { "names": ["files.*"] },
            "arguments": [if at % 2 == 0 {
                json!({ "path": "/path", "glob": format!("/etc/{at}/*") })
            } else {
                json!({ "path": "/size", "greater_than": 1000 + at })
            }],
        }),
    });
    others.chain(own).collect()
}

fn service() -> impl Service<ToolCall, Response = ToolResponse, Error = std::convert::Infallible> {
    let rules = Rules::from_json(&json!({ "rules": rules() }).to_string()).unwrap();
    PermissionLayer::new(rules, Effect::Deny).layer(tools())
}

fn tools() -> Router {
    Router::new().tool(sync_tool_fn("files.write", || "ok"))
}

fn value() -> Arguments {
    json!({ "path": "/srv/data/a.txt", "size": 12 }).into()
}

fn text() -> Arguments {
    Arguments::from_text(r#"{"path":"/srv/data/a.txt","size":12}"#)
}

fn call<S>(service: &mut S, arguments: Arguments)
where
    S: Service<ToolCall, Response = ToolResponse, Error = std::convert::Infallible>,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    let mut future = std::pin::pin!(service.call(ToolCall::new("files.write", arguments)));
    let Poll::Ready(response) = future.as_mut().poll(&mut cx) else { panic!("nothing here waits") };
    assert!(response.unwrap().is_completed());
}

fn run<S>(bencher: Bencher<'_, '_>, mut service: S, arguments: impl Fn() -> Arguments)
where
    S: Service<ToolCall, Response = ToolResponse, Error = std::convert::Infallible>,
{
    call(&mut service, arguments());
    bencher.counter(ItemsCount::new(1_u32)).bench_local(|| call(&mut service, black_box(arguments())));
}

#[divan::bench]
fn bare_call_of_a_value(bencher: Bencher<'_, '_>) {
    let value = value();
    run(bencher, tools(), || value.clone());
}

#[divan::bench]
fn fifty_rules_on_a_value(bencher: Bencher<'_, '_>) {
    let value = value();
    run(bencher, service(), || value.clone());
}

#[divan::bench]
fn bare_call_of_text(bencher: Bencher<'_, '_>) {
    run(bencher, tools(), text);
}

#[divan::bench]
fn strict_view_of_text(bencher: Bencher<'_, '_>) {
    run(bencher, tools(), || {
        let text = text();
        assert!(black_box(text.value()).is_ok());
        text
    });
}

#[divan::bench]
fn fifty_rules_on_text(bencher: Bencher<'_, '_>) {
    run(bencher, service(), text);
}

/// The names of the fifty rules alone, each matched for each call.
#[divan::bench]
fn a_plain_loop_over_the_names(bencher: Bencher<'_, '_>) {
    let patterns: Vec<Pattern> =
        rules().iter().map(|rule| Pattern::new(rule["tools"]["names"][0].as_str().unwrap_or_default()).unwrap()).collect();
    bencher.bench_local(|| patterns.iter().filter(|pattern| pattern.matches(black_box("files.write"))).count());
}

/// The same as one set.
#[divan::bench]
fn globset_over_the_names(bencher: Bencher<'_, '_>) {
    let mut set = GlobSetBuilder::new();
    for rule in rules() {
        set.add(Glob::new(rule["tools"]["names"][0].as_str().unwrap_or_default()).unwrap());
    }
    let set = set.build().unwrap();
    bencher.bench_local(|| set.matches(black_box("files.write")).len());
}
