//! Compares toolstack with its peers, side by side in one run, and says which of its budgets hold.

#[path = "../../support.rs"]
#[macro_use]
mod support;
mod observed;
mod rmcp_peer;
mod timing;
mod tower_mcp_peer;

use std::{
    hint::black_box,
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use rmcp_peer::Rmcp;
use serde_json::Value;
use support::{Counts, NAME, TEXT, Through, add_async, add_sync, answer, bare, call, operate, router, run, six_layers};
use timing::{Budgets, Case, case, elapsed, group};
use toolstack::{
    ListTools, StackExt, ToolCall, ToolResponse,
    layer::{PolicyLayer, after, gate, map_call, map_result, named},
    tool::sync_tool_fn,
};
use tower::{Layer, Service, layer::util::Identity};
use tower_mcp_peer::TowerMcp;

const SAMPLE: Duration = Duration::from_micros(100);
const ROUNDS: usize = 501;

/// Each call from the text of its arguments to its response, through one instance.
fn calls<S>(name: &'static str, mut service: S) -> Case
where
    S: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug> + 'static,
{
    case(name, move |count| {
        for _ in 0..count {
            let response = answer(&mut service, black_box(TEXT));
            black_box(&response);
        }
    })
}

fn times<T>(name: &'static str, mut work: impl FnMut() -> T + 'static) -> Case {
    case(name, move |count| (0..count).for_each(|_| drop(black_box(work()))))
}

fn parsed<T: serde::de::DeserializeOwned>() -> T {
    serde_json::from_str(black_box(TEXT)).expect("arguments")
}

fn one_call(budgets: &mut Budgets) {
    let (rmcp, tower_mcp_tool) = (Arc::new(Rmcp::new(10)), tower_mcp_peer::tool(NAME));
    let (rmcp_given, given) = (Arc::clone(&rmcp), parsed::<rmcp::model::JsonObject>());
    let (mut tower_mcp, by_reference) = (TowerMcp::new(10), six_layers(router(10, add_sync)));
    let t = group(
        "one call: arguments as text, a text as the answer",
        ROUNDS,
        SAMPLE,
        vec![
            times("the bare call", || bare(black_box(TEXT))),
            calls("toolstack: router, sync tool", router(10, add_sync)),
            calls("toolstack: router, async tool", router(10, add_async)),
            calls("toolstack: six layers, sync tool", six_layers(router(10, add_sync))),
            calls("toolstack: six layers, async tool", six_layers(router(10, add_async))),
            times("toolstack: six layers, by `run_call(&stack)`", move || run(by_reference.run_call(call(black_box(TEXT))))),
            times("rmcp: ToolRouter, no middleware", move || rmcp.call(parsed())),
            times("rmcp: ToolRouter, arguments parsed already", move || rmcp_given.call(black_box(&given).clone())),
            times("tower-mcp: Tool::call", move || run(tower_mcp_tool.call(parsed::<Value>()))),
            times("tower-mcp: McpRouter, no middleware", move || tower_mcp.call(parsed())),
        ],
    );
    let six = "toolstack: six layers, async tool";
    budgets.check("a sync tool dispatched, to the bare call", t.ratio("toolstack: router, sync tool", "the bare call"), 1.6);
    budgets.check("an async tool dispatched, to the bare call", t.ratio("toolstack: router, async tool", "the bare call"), 1.8);
    budgets.check("six layers and an async tool, to rmcp's ToolRouter", t.ratio(six, "rmcp: ToolRouter, no middleware"), 0.75);
    budgets.check("six layers, to rmcp with arguments parsed already", t.ratio(six, "rmcp: ToolRouter, arguments parsed already"), 0.75);
    budgets.check("six layers and an async tool, to tower-mcp's McpRouter", t.ratio(six, "tower-mcp: McpRouter, no middleware"), 0.2);
}

fn layers(budgets: &mut Budgets) {
    let t = group(
        "layers around a router, sync tool",
        ROUNDS,
        SAMPLE,
        vec![
            calls("none", router(10, add_sync)),
            calls("20 that pass: named", twenty!(named("named", Identity::new()), router(10, add_sync))),
            calls("20 that pass: a policy", twenty!(PolicyLayer::new(Through), router(10, add_sync))),
            calls("with state: a policy that counts", PolicyLayer::new(Counts::default()).layer(router(10, add_sync))),
            calls("20 with state", twenty!(PolicyLayer::new(Counts::default()), router(10, add_sync))),
            calls("hook before: gate", gate("gate", |call| if call.name() == NAME { Ok(()) } else { unreachable!() }).layer(router(10, add_sync))),
            calls("hook before: map_call", map_call("map_call", |call| call.context = Default::default()).layer(router(10, add_sync))),
            calls("hook after: after", after("after", |ending| assert!(!ending.outcome().is_error())).layer(router(10, add_sync))),
            calls("hook after: map_result", map_result("map_result", |result| assert!(!result.is_error)).layer(router(10, add_sync))),
        ],
    );
    budgets.check("20 layers that pass (named), to none", t.ratio("20 that pass: named", "none"), 1.05);
    for layer in ["with state: a policy that counts", "hook before: gate", "hook before: map_call", "hook after: after", "hook after: map_result"] {
        budgets.check(&format!("{layer}, nanoseconds"), t.added(layer, "none"), 15.0);
    }
    budgets.check("with state, one of 20, nanoseconds", t.added("20 with state", "none") / 20.0, 15.0);
}

fn many_tools(budgets: &mut Budgets) {
    let (rmcp_few, rmcp_many) = (Rmcp::new(10), Rmcp::new(10_000));
    let t = group(
        "calls by the number of tools",
        ROUNDS,
        SAMPLE,
        vec![
            calls("toolstack: 10 tools", router(10, add_sync)),
            calls("toolstack: 10,000 tools", router(10_000, add_sync)),
            times("rmcp: 10 tools", move || rmcp_few.call(parsed())),
            times("rmcp: 10,000 tools", move || rmcp_many.call(parsed())),
        ],
    );
    budgets.check("10,000 tools instead of 10, a call", t.ratio("toolstack: 10,000 tools", "toolstack: 10 tools"), 1.2);

    let (mut unchanged, mut first) = (router(10_000, add_sync), router(10_000, add_sync));
    let (rmcp, mut tower_mcp) = (Rmcp::new(10_000), TowerMcp::new(10_000));
    let handle = first.handle();
    let t = group(
        "lists of 10,000 tools",
        31,
        Duration::from_micros(1),
        vec![
            case("toolstack: unchanged, in process", move |count| {
                (0..count).for_each(|_| drop(black_box(operate(&mut unchanged, ListTools::new))));
            }),
            times("toolstack: changed, then put together and written", move || {
                handle.replace(sync_tool_fn("tool_1", || "")).expect("a tool of its own");
                serde_json::to_vec(&operate(&mut first, ListTools::new)).expect("a list")
            }),
            times("rmcp: put together and written", move || rmcp.list()),
            times("tower-mcp: put together and written", move || tower_mcp.list()),
        ],
    );
    budgets.check("an unchanged list, nanoseconds", t.ns("toolstack: unchanged, in process"), 1000.0);
    let first = "toolstack: changed, then put together and written";
    budgets.check("the first list after a change, to rmcp's", t.ratio(first, "rmcp: put together and written"), 0.25);
    println!("  to tower-mcp's: {:.3}", t.ratio(first, "tower-mcp: put together and written"));
}

/// Nanoseconds of a call on each of some threads that share a stack, each with a clone of its own.
fn shared<S>(stack: &S, threads: usize, count: u64) -> f64
where
    S: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug> + Clone + Send,
{
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                let (mut stack, barrier) = (stack.clone(), &barrier);
                scope.spawn(move || {
                    (0..16).for_each(|_| drop(answer(&mut stack, TEXT)));
                    barrier.wait();
                    elapsed(count, |count| (0..count).for_each(|_| drop(black_box(answer(&mut stack, black_box(TEXT))))))
                })
            })
            .collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).sum::<f64>() / threads as f64
    })
}

fn two_threads(budgets: &mut Budgets) {
    let layered = six_layers(router(10, add_sync));
    let plain = router(10, add_sync);
    let (one_plain, one_layered) = (plain.clone(), layered.clone());
    let compute = |threads: usize| {
        thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(|| elapsed(1000, |n| (0..n).for_each(|_| drop(black_box(bare(black_box(TEXT)))))))).collect();
            all.into_iter().map(|thread| thread.join().expect("no panic")).sum::<f64>() / threads as f64
        })
    };
    // A thread takes a while to start; what counts is timed within it.
    let rounds = 301;
    let mut samples: [Vec<f64>; 6] = Default::default();
    for _ in 0..rounds {
        samples[0].push(compute(1));
        samples[1].push(compute(2));
        samples[2].push(shared(&one_plain, 1, 1000));
        samples[3].push(shared(&plain, 2, 1000));
        samples[4].push(shared(&one_layered, 1, 1000));
        samples[5].push(shared(&layered, 2, 1000));
    }
    let names = ["the bare call, one thread", "the bare call, two threads", "router, one thread", "router, two threads", "six layers, one thread", "six layers, two threads"];
    let t = timing::of("two threads, each with a clone of one stack", names.into_iter().zip(samples).collect());
    println!("  the bare call, which shares nothing, on two threads: {:.3}", t.ratio(names[1], names[0]));
    budgets.check("router, two threads, to one", t.ratio(names[3], names[2]), 1.2);
    budgets.check("six layers that count, two threads, to one", t.ratio(names[5], names[4]), 1.2);
}

fn main() -> std::process::ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let _entered = runtime.enter();
    let mut budgets = Budgets::default();
    one_call(&mut budgets);
    layers(&mut budgets);
    many_tools(&mut budgets);
    two_threads(&mut budgets);
    observed::observed(&mut budgets);
    if budgets.all_hold() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
