//! The cases that `benches/instructions` counts: `instructions CASE CALLS` makes that many calls. Without arguments it makes a few of
//! each, and `list` names them.

#[macro_use]
mod support;

use std::{hint::black_box, time::Duration};

use smallvec::{SmallVec, smallvec};
use support::{Add, Counts, NAME, TEXT, Through, add_async, add_sync, allowed, answer, bare, operate, router, six_layers};
use toolstack::{
    ListTools, Router, ServiceBuilderExt, ToolResponse,
    layer::{
        HooksLayer, PolicyLayer, TimeoutLayer, VisibilityLayer, after, gate, gate_tool,
        hooks::{Halt, Hook},
        map_call, map_result, named,
    },
    middleware::{Next, from_fn},
    select::ToolSelector,
    stack::Stack,
};
use tower::{Layer, Service, ServiceBuilder, layer::util::Identity};

fn calls<S>(count: u64, mut service: S)
where
    S: Service<toolstack::ToolCall, Response = ToolResponse, Error: std::fmt::Debug>,
{
    for _ in 0..count {
        let response = answer(&mut service, black_box(TEXT));
        black_box(&response);
    }
}

#[allow(dead_code, reason = "nobody reads the result of a bench, and this case makes one kind of block")]
enum Block {
    Text(String),
    Link(Box<str>),
}

/// The bare call, with its text as a block of a result: what the anchors of the design were measured against.
#[inline(never)]
fn bare_result(text: &str) -> SmallVec<[Block; 1]> {
    let args: Add = serde_json::from_str(text).expect("arguments");
    smallvec![Block::Text(itoa::Buffer::new().format(args.a + args.b).to_owned())]
}

/// Calls through one layer around a router.
fn around<L>(count: u64, layer: L)
where
    L: Layer<Router, Service: Service<toolstack::ToolCall, Response = ToolResponse, Error: std::fmt::Debug>>,
{
    calls(count, layer.layer(router(10, add_sync)));
}

const CASES: &[(&str, fn(u64))] = &[
    ("bare", |n| (0..n).for_each(|_| drop(black_box(bare(black_box(TEXT)))))),
    ("bare_result", |n| (0..n).for_each(|_| drop(black_box(bare_result(black_box(TEXT)))))),
    ("dispatch_sync", |n| calls(n, router(10, add_sync))),
    ("dispatch_async", |n| calls(n, router(10, add_async))),
    ("dispatch_10000", |n| calls(n, router(10_000, add_sync))),
    ("passing_named_20", |n| calls(n, twenty!(named("named", Identity::new()), router(10, add_sync)))),
    ("passing_policy_20", |n| calls(n, twenty!(PolicyLayer::new(Through), router(10, add_sync)))),
    ("passing_policy_20_async", |n| calls(n, twenty!(PolicyLayer::new(Through), router(10, add_async)))),
    ("stateful", |n| around(n, PolicyLayer::new(Counts::default()))),
    ("stateful_20", |n| calls(n, twenty!(PolicyLayer::new(Counts::default()), router(10, add_sync)))),
    ("gate", |n| around(n, gate("gate", |call| if call.name() == NAME { Ok(()) } else { unreachable!() }))),
    ("map_call", |n| around(n, map_call("map_call", |call| _ = black_box(call.name())))),
    ("map_result", |n| around(n, map_result("map_result", |result| _ = black_box(result.is_error)))),
    ("after", |n| around(n, after("after", |ending| _ = black_box(ending.outcome())))),
    ("after_20", |n| calls(n, twenty!(after("after", |ending| _ = black_box(ending.outcome())), router(10, add_sync)))),
    ("hook_before", |n| {
        around(
            n,
            HooksLayer::new().before("look", |call| {
                black_box(call.call().name());
                Ok(())
            }),
        )
    }),
    ("hook_after", |n| {
        around(
            n,
            HooksLayer::new().after("look", |call| {
                black_box(call.result().is_error);
                Ok(())
            }),
        )
    }),
    ("hook_before_20", |n| {
        around(
            n,
            (0..20).fold(HooksLayer::new(), |layer, at| {
                layer.before(format!("look_{at}"), |call| {
                    black_box(call.call().name());
                    Ok(())
                })
            }),
        )
    }),
    ("hook_after_20", |n| {
        around(
            n,
            (0..20).fold(HooksLayer::new(), |layer, at| {
                layer.after(format!("look_{at}"), |call| {
                    black_box(call.result().is_error);
                    Ok(())
                })
            }),
        )
    }),
    ("hook_scoped", |n| {
        let only = ToolSelector::new().name("[a-c]d?").expect("a glob");
        around(
            n,
            HooksLayer::new()
                .hook(Hook::before("look", |call| call.call().name().is_empty().then(Halt::forbidden).map_or(Ok(()), Err)).only(only)),
        )
    }),
    ("hook_observer", |n| around(n, HooksLayer::new().on_finish("look", |end| _ = black_box(end.outcome())))),
    ("catch_panic", |n| around(n, ServiceBuilder::new().catch_panic().into_inner())),
    ("catch_error", |n| around(n, ServiceBuilder::new().catch_error().into_inner())),
    ("visibility", |n| around(n, VisibilityLayer::new(|tool, _| !tool.has_tag("hidden")))),
    ("gate_tool", |n| around(n, gate_tool("rules", allowed))),
    ("timeout", |n| around(n, TimeoutLayer::new(Duration::from_secs(30)))),
    ("from_fn", |n| around(n, from_fn(|call, next: Next<_>| async move { next.run(call).await }))),
    ("stack_erased", |n| calls(n, Stack::new(router(10, add_sync)))),
    ("six_layers_sync", |n| calls(n, six_layers(router(10, add_sync)))),
    ("six_layers_async", |n| calls(n, six_layers(router(10, add_async)))),
    ("list_10000", |n| {
        let mut router = router(10_000, add_sync);
        (0..n).for_each(|_| drop(black_box(operate(&mut router, ListTools::new))));
    }),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => CASES.iter().for_each(|(name, _)| println!("{name}")),
        [case, count] if !case.starts_with('-') => {
            let (_, run) = CASES.iter().find(|(name, _)| *name == case).expect("a case of `list`");
            run(count.parse().expect("how many calls"));
        }
        // `cargo bench` and `cargo test --benches` come along here.
        _ => CASES.iter().for_each(|(_, run)| run(3)),
    }
}
