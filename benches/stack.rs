//! What a call and a list take, layer by layer: `cargo bench --bench stack`.
//!
//! Times differ by a fifth from run to run; what has to hold is checked by counts (`benches/instructions`, `tests/alloc.rs`) and by ratios
//! taken in one run (`benches/run`).

#[macro_use]
mod support;

fn main() {
    divan::main();
}

/// Calls, from the text of the arguments to the response.
#[divan::bench_group(sample_count = 50, max_time = 0.5)]
mod call {
    use std::time::Duration;

    use divan::{Bencher, black_box};
    use toolstack::{
        Router, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
        layer::{PolicyLayer, TimeoutLayer, VisibilityLayer, after, gate, gate_async, gate_tool, map_call, map_result, named},
        middleware::{Next, from_fn},
    };
    use tower::{Layer, Service, ServiceBuilder, layer::util::Identity};

    use crate::support::{Counts, TEXT, Through, add_async, add_sync, allowed, answer, bare, call, router, run, six_layers};

    fn bench<S>(bencher: Bencher<'_, '_>, mut service: S)
    where
        S: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug>,
    {
        bencher.bench_local(|| answer(&mut service, black_box(TEXT)));
    }

    /// One layer around a router with a tool that is ready at once.
    fn around<L>(bencher: Bencher<'_, '_>, layer: L)
    where
        L: Layer<Router, Service: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug>>,
    {
        bench(bencher, layer.layer(router(10, add_sync)));
    }

    #[divan::bench]
    fn a_bare(bencher: Bencher<'_, '_>) {
        bencher.bench_local(|| bare(black_box(TEXT)));
    }

    #[divan::bench(args = [1, 100, 10_000])]
    fn router_sync(bencher: Bencher<'_, '_>, tools: usize) {
        bench(bencher, router(tools, add_sync));
    }

    #[divan::bench(args = [1, 100, 10_000])]
    fn router_async(bencher: Bencher<'_, '_>, tools: usize) {
        bench(bencher, router(tools, add_async));
    }

    #[divan::bench]
    fn router_nested(bencher: Bencher<'_, '_>) {
        bench(bencher, Router::new().merge(router(10, add_sync)));
    }

    #[divan::bench]
    fn router_layered(bencher: Bencher<'_, '_>) {
        bench(bencher, router(10, add_sync).layer(gate("gate", |_| Ok(()))));
    }

    #[divan::bench]
    fn tool_layered(bencher: Bencher<'_, '_>) {
        bench(bencher, Router::new().tool(add_sync("add").layer(gate("gate", |_| Ok(())))));
    }

    #[divan::bench]
    fn layer_after(bencher: Bencher<'_, '_>) {
        around(bencher, after("after", |ending| assert!(!ending.outcome().is_error())));
    }

    #[divan::bench]
    fn layer_catch_error(bencher: Bencher<'_, '_>) {
        around(bencher, ServiceBuilder::new().catch_error().into_inner());
    }

    #[divan::bench]
    fn layer_catch_panic(bencher: Bencher<'_, '_>) {
        around(bencher, ServiceBuilder::new().catch_panic().into_inner());
    }

    #[divan::bench]
    fn layer_counting(bencher: Bencher<'_, '_>) {
        around(bencher, PolicyLayer::new(Counts::default()));
    }

    #[divan::bench]
    fn layer_from_fn(bencher: Bencher<'_, '_>) {
        around(bencher, from_fn(|call, next: Next<_>| async move { next.run(call).await }));
    }

    #[divan::bench]
    fn layer_gate(bencher: Bencher<'_, '_>) {
        around(bencher, gate("gate", |_| Ok(())));
    }

    #[divan::bench]
    fn layer_gate_async(bencher: Bencher<'_, '_>) {
        around(bencher, gate_async("gate_async", |_| async { Ok(()) }));
    }

    #[divan::bench]
    fn layer_gate_tool(bencher: Bencher<'_, '_>) {
        around(bencher, gate_tool("rules", allowed));
    }

    #[divan::bench]
    fn layer_map_call(bencher: Bencher<'_, '_>) {
        around(bencher, map_call("map_call", |call| call.id = 1.into()));
    }

    #[divan::bench]
    fn layer_map_result(bencher: Bencher<'_, '_>) {
        around(bencher, map_result("map_result", |result| result.is_error = false));
    }

    #[divan::bench]
    fn layer_named(bencher: Bencher<'_, '_>) {
        around(bencher, named("named", Identity::new()));
    }

    #[divan::bench]
    fn layer_passing(bencher: Bencher<'_, '_>) {
        around(bencher, PolicyLayer::new(Through));
    }

    #[divan::bench]
    fn layer_timeout(bencher: Bencher<'_, '_>) {
        around(bencher, TimeoutLayer::new(Duration::from_secs(30)));
    }

    #[divan::bench]
    fn layer_visibility(bencher: Bencher<'_, '_>) {
        around(bencher, VisibilityLayer::new(|tool, _| !tool.has_tag("hidden")));
    }

    #[divan::bench]
    fn six_layers_sync(bencher: Bencher<'_, '_>) {
        bench(bencher, six_layers(router(10, add_sync)));
    }

    #[divan::bench]
    fn six_layers_async(bencher: Bencher<'_, '_>) {
        bench(bencher, six_layers(router(10, add_async)));
    }

    #[divan::bench]
    fn six_layers_by_reference(bencher: Bencher<'_, '_>) {
        let stack = six_layers(router(10, add_sync));
        bencher.bench_local(|| run(stack.run_call(call(black_box(TEXT)))));
    }

    #[divan::bench]
    fn six_layers_closed(bencher: Bencher<'_, '_>) {
        bench(bencher, Stack::new(six_layers(router(10, add_sync))));
    }
}

/// Lists of 10,000 tools.
#[divan::bench_group(sample_count = 20, max_time = 1)]
mod list {
    use divan::Bencher;
    use toolstack::{ListTools, layer::VisibilityLayer, tool::sync_tool_fn};
    use tower::Layer;

    use crate::support::{add_sync, operate, router};

    #[divan::bench]
    fn unchanged(bencher: Bencher<'_, '_>) {
        let mut router = router(10_000, add_sync);
        bencher.bench_local(|| operate(&mut router, ListTools::new));
    }

    #[divan::bench]
    fn unchanged_by_visibility(bencher: Bencher<'_, '_>) {
        let mut stack = VisibilityLayer::new(|tool, _| !tool.has_tag("hidden")).layer(router(10_000, add_sync));
        bencher.bench_local(|| operate(&mut stack, ListTools::new));
    }

    #[divan::bench]
    fn changed(bencher: Bencher<'_, '_>) {
        let mut router = router(10_000, add_sync);
        let handle = router.handle();
        bencher.bench_local(|| {
            handle.replace(sync_tool_fn("tool_1", || "")).unwrap();
            operate(&mut router, ListTools::new)
        });
    }

    #[divan::bench]
    fn written(bencher: Bencher<'_, '_>) {
        let list = operate(&mut router(10_000, add_sync), ListTools::new);
        bencher.bench_local(|| serde_json::to_vec(&list));
    }
}
