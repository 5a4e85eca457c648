//! What an operator pays for: telemetry by itself, a record of each call, and the whole recommended stack.

use std::{hint::black_box, sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::Instant;
use toolstack::{
    Router, ServiceBuilderExt, Stack,
    layer::{TelemetryLayer, audit, telemetry::Metrics},
    stack::{Settings, recommended},
};
use tower::{Layer, ServiceBuilder};

use crate::{
    ROUNDS, SAMPLE, calls, parsed, rmcp_peer::Rmcp, shared,
    support::{NAME, add_async, add_sync, router},
    timing::{self, Budgets, group},
    times,
    tower_mcp_peer::TowerMcp,
};

/// Takes records out of the channel as they come.
fn drained() -> audit::ChannelSink {
    let (sink, mut records) = audit::channel(64 * 1024);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            // In batches: a reader that is woken for each record would cost the calls more than the records do.
            loop {
                while records.try_recv().is_some() {}
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    });
    sink
}

/// Fifty rules over names, globs, arguments and scopes, of which one allows the call.
fn rules() -> Vec<serde_json::Value> {
    let rule = |at: u32| match at % 5 {
        0 => json!({ "id": format!("{at}"), "effect": "allow", "tools": { "names": ["a*"] }, "arguments": [{ "path": "/a", "at_most": 1 + at }] }),
        1 => json!({ "id": format!("{at}"), "effect": "deny", "tools": { "names": [NAME] }, "arguments": [{ "path": "/b", "at_least": 100 + at }] }),
        2 => json!({ "id": format!("{at}"), "effect": "deny", "principal": { "scopes": [format!("s{at}")] } }),
        3 => json!({ "id": format!("{at}"), "effect": "ask", "tools": { "names": [format!("other{at}.*")] } }),
        _ => json!({ "id": format!("{at}"), "effect": "deny", "tools": { "names": [format!("tool{at}")] } }),
    };
    (0..50).map(rule).collect()
}

fn whole(tools: Router) -> Stack {
    let settings = json!({ "permission": { "unmatched": "deny", "rules": rules() }, "visibility": [{ "tags": ["internal"] }] });
    let sink = drained();
    recommended(Settings::from_json(&settings.to_string()).expect("settings"))
        .audit(move |layer| layer.and(sink))
        .hooks(|layer| layer.before("look", |_| Ok(())))
        .build()
        .expect("a stack")
        .layer(tools)
}

/// The same layers, of a type that is known, as one puts them together by hand.
fn by_hand(tools: Router) -> impl tower::Service<toolstack::ToolCall, Response = toolstack::ToolResponse, Error = std::convert::Infallible> + Clone + Send {
    let rules = toolstack::layer::permission::Rules::from_json(&json!({ "rules": rules() }).to_string()).expect("rules");
    ServiceBuilder::new()
        .catch_panic()
        .telemetry(&Metrics::new())
        .audit(drained())
        .visibility(|tool, _| !tool.has_tag("internal"))
        .hooks(toolstack::layer::HooksLayer::new().before("look", |_| Ok(())))
        .permission(rules, toolstack::layer::permission::Effect::Deny)
        .service(tools)
}

pub fn observed(budgets: &mut Budgets) {
    let telemetry = || TelemetryLayer::new().layer(router(10, add_sync));
    let (rmcp, mut tower_mcp) = (Arc::new(Rmcp::new(10)), TowerMcp::new(10));
    let (plain, layered, all) = ("router, sync tool", "telemetry, sync tool", "the recommended stack, async tool");
    let audited = "audit to a channel, sync tool";
    let (clocks, hand) = ("two readings of the clock", "the same layers by hand, async tool");
    let (tool_router, mcp_router) = ("rmcp: ToolRouter, no middleware", "tower-mcp: McpRouter, no middleware");
    let t = group(
        "telemetry, audit and the recommended stack",
        ROUNDS,
        SAMPLE,
        vec![
            times(clocks, || (black_box(Instant::now()), black_box(Instant::now()))),
            calls(plain, router(10, add_sync)),
            calls(layered, telemetry()),
            calls(audited, audit::AuditLayer::new(drained()).layer(router(10, add_sync))),
            calls(hand, by_hand(router(10, add_async))),
            calls(all, whole(router(10, add_async))),
            times(tool_router, move || rmcp.call(parsed())),
            times(mcp_router, move || tower_mcp.call(parsed())),
        ],
    );
    budgets.check("telemetry beyond its two clocks, nanoseconds", t.added(layered, plain) - t.ns(clocks), 15.0);
    budgets.check("the recommended stack, to rmcp's ToolRouter", t.ratio(all, tool_router), 2.0);
    budgets.check("the recommended stack, to tower-mcp's McpRouter", t.ratio(all, mcp_router), 1.0);
    println!(
        "  to rmcp's ToolRouter: the same layers by hand {:.3}, audit {:.3}, telemetry {:.3}",
        t.ratio(hand, tool_router),
        t.ratio(audited, tool_router),
        t.ratio(layered, tool_router)
    );
    println!("  the same layers by hand, to tower-mcp's McpRouter: {:.3}", t.ratio(hand, mcp_router));
    println!("  telemetry beyond a router {:.1} ns, audit {:.1} ns", t.added(layered, plain), t.added(audited, plain));

    let (stack, all) = (telemetry(), whole(router(10, add_async)));
    let names =
        ["telemetry, one thread", "telemetry, two threads", "the recommended stack, one thread", "the recommended stack, two threads"];
    let mut samples: [Vec<f64>; 4] = Default::default();
    for _ in 0..301 {
        samples[0].push(shared(&stack, 1, 1000));
        samples[1].push(shared(&stack, 2, 1000));
        samples[2].push(shared(&all, 1, 200));
        samples[3].push(shared(&all, 2, 200));
    }
    let t = timing::of("two threads that count and record in one place", names.into_iter().zip(samples).collect());
    budgets.check("telemetry, two threads, to one", t.ratio(names[1], names[0]), 1.2);
    println!("  the recommended stack, two threads, to one: {:.3}", t.ratio(names[3], names[2]));
}
