//! What `lint` finds, what it leaves alone, and that it sees through layers of other crates.

use std::time::Duration;

use toolstack::{
    BoxError, Router, Stack, StackExt, ToolCall, ToolResponse,
    describe::{Duty, Fault, Severity},
    layer::{
        CatchErrorLayer, CatchPanicLayer, Hook, HooksLayer, PermissionLayer, TimeoutLayer, VisibilityLayer, after, calls, gate, gate_async,
        gate_tool, map_call, map_list, map_result, named,
        permission::{Effect, Rule, Rules},
    },
    middleware::{Next, from_fn},
    select::ToolSelector,
    stack::ToolStack,
    tool::{Tool, sync_tool_fn},
};
use tower::{
    Layer, ServiceBuilder,
    buffer::BufferLayer,
    filter::FilterLayer,
    layer::util::Identity,
    limit::ConcurrencyLimitLayer,
    load_shed::LoadShedLayer,
    retry::RetryLayer,
    timeout::TimeoutLayer as TowerTimeout,
    util::{MapRequestLayer, MapResponseLayer},
};

const SECOND: Duration = Duration::from_secs(1);

fn ping() -> Tool<impl toolstack::tool::Handler> {
    sync_tool_fn("ping", || "pong")
}

fn router() -> Router {
    Router::new().tool(ping())
}

/// Each fault as `rule: outer > inner`, with the tool where it is in one.
async fn faults(stack: &impl ToolStack) -> Vec<String> {
    let line = |fault: &Fault| {
        let tool = fault.tool.as_ref().map_or_else(String::new, |tool| format!(" in {tool}"));
        format!("{}: {}{tool}", fault.rule, fault.layers.join(" > "))
    };
    stack.lint().await.iter().map(line).collect()
}

/// Checks what is found in a stack of these layers, outermost first.
macro_rules! finds {
    ($($(#[$meta:meta])* $name:ident: [$($layer:expr),* $(,)?] => [$($fault:literal),*];)*) => {$(
        $(#[$meta])*
        #[tokio::test]
        async fn $name() {
            let stack = ServiceBuilder::new()$(.layer($layer))*.service(router());
            let faults = faults(&stack).await;
            let expected: &[&str] = &[$($fault),*];
            assert_eq!(faults, expected, "{}", stack.describe().await);
        }
    )*};
}

fn all(call: ToolCall) -> Result<ToolCall, BoxError> {
    Ok(call)
}

/// Never again.
#[derive(Clone)]
struct Once;

impl<R, E> tower::retry::Policy<ToolCall, R, E> for Once {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, _: &mut Result<R, E>) -> Option<Self::Future> {
        None
    }

    fn clone_request(&mut self, _: &ToolCall) -> Option<ToolCall> {
        None
    }
}

// Orders that are as they should be.
finds! {
    nothing: [] => [];
    the_quickstart: [
        CatchPanicLayer::new(),
        CatchErrorLayer::new(),
        VisibilityLayer::new(|_, _| true),
        TimeoutLayer::new(SECOND),
        LoadShedLayer::new(),
        named("concurrency_limit", ConcurrencyLimitLayer::new(4)).setting("max", 4),
    ] => [];
    the_whole_recommended_order: [
        CatchPanicLayer::new(),
        after("telemetry", |_| {}),
        map_result("redact", |_| {}),
        CatchErrorLayer::new(),
        VisibilityLayer::new(|_, _| true),
        map_call("old_names", |_| {}),
        gate_tool("rules", |_, _| Ok(())),
        gate_async("ask", async |_| Ok(())),
        named("cache", Identity::new()).duty(Duty::Answers),
        calls(RetryLayer::new(Once)),
        TimeoutLayer::new(SECOND),
        LoadShedLayer::new(),
        ConcurrencyLimitLayer::new(4),
    ] => [];
    a_queue_around_what_catches_panics: [
        CatchPanicLayer::new(),
        CatchErrorLayer::new(),
        TimeoutLayer::new(SECOND),
        LoadShedLayer::new(),
        calls(BufferLayer::new(4)),
        CatchPanicLayer::new(),
        map_call("old_names", |_| {}),
        ConcurrencyLimitLayer::new(4),
    ] => [];
    a_queue_around_limits_alone: [calls(BufferLayer::new(4)), ConcurrencyLimitLayer::new(4)] => [];
    /// The layers within pass readiness on, so load is shed all the same.
    load_shed_outside_what_passes_readiness_on: [
        LoadShedLayer::new(),
        TowerTimeout::new(SECOND),
        CatchPanicLayer::new(),
        map_result("sign", |_| {}),
        ConcurrencyLimitLayer::new(4),
    ] => [];
    /// A layer that is ready at once puts the wait into the call, which the timeout bounds.
    tower_s_timeout_outside_a_layer_that_is_ready_at_once: [
        TowerTimeout::new(SECOND),
        VisibilityLayer::new(|_, _| true),
        ConcurrencyLimitLayer::new(4),
    ] => [];
    tower_s_timeout_outside_load_shed: [TowerTimeout::new(SECOND), LoadShedLayer::new(), ConcurrencyLimitLayer::new(4)] => [];
    a_second_catch_within_the_first: [
        CatchPanicLayer::new(),
        CatchErrorLayer::new(),
        TowerTimeout::new(SECOND),
        map_call("old_names", |_| {}),
        CatchErrorLayer::new(),
        CatchPanicLayer::new(),
    ] => [];
    /// What it does is not known, so nothing is said.
    load_shed_outside_a_layer_nobody_knows: [LoadShedLayer::new(), named("bulkhead", Identity::new())] => [];
    a_longer_timeout_outside_a_shorter_one: [TimeoutLayer::new(3 * SECOND), TimeoutLayer::new(SECOND)] => [];
    an_idle_limit_within_a_total: [TimeoutLayer::new(3 * SECOND), TimeoutLayer::new(9 * SECOND).idle(SECOND)] => [];
    a_limit_outside_a_timeout_of_an_attempt: [
        TimeoutLayer::new(9 * SECOND),
        ConcurrencyLimitLayer::new(4),
        TimeoutLayer::new(SECOND),
    ] => [];
}

// Each rule, by the order that breaks it.
finds! {
    a_call_that_is_changed_after_it_was_judged: [gate("rules", |_| Ok(())), map_call("rewrite", |_| {})] => [
        "rewrite-after-decision: rules > rewrite"
    ];
    an_answer_before_the_decision: [
        named("cache", Identity::new()).duty(Duty::Answers),
        VisibilityLayer::new(|_, _| true),
        gate("rules", |_| Ok(())),
    ] => ["answer-before-decision: cache > visibility", "answer-before-decision: cache > rules"];
    a_decision_before_visibility: [gate_tool("rules", |_, _| Ok(())), VisibilityLayer::new(|_, _| true)] => [
        "decision-before-visibility: rules > visibility"
    ];
    an_error_that_escapes: [TowerTimeout::new(SECOND), CatchErrorLayer::new()] => ["error-escapes: timeout > catch_error"];
    an_error_of_a_filter_that_escapes: [calls(FilterLayer::new(all)), CatchErrorLayer::new()] => ["error-escapes: filter > catch_error"];
    a_panic_that_escapes: [map_call("rewrite", |_| {}), CatchPanicLayer::new()] => ["panic-escapes: rewrite > catch_panic"];
    a_panic_of_a_foreign_closure_that_escapes: [
        calls(MapRequestLayer::new(|call: ToolCall| call)),
        CatchPanicLayer::new(),
    ] => ["panic-escapes: map_request > catch_panic"];
    tower_s_timeout_outside_a_limit: [TowerTimeout::new(SECOND), ConcurrencyLimitLayer::new(4)] => [
        "timeout-without-queue: timeout > concurrency_limit"
    ];
    a_limit_outside_a_timeout: [ConcurrencyLimitLayer::new(4), TimeoutLayer::new(SECOND)] => [
        "limit-before-timeout: concurrency_limit > timeout"
    ];
    a_shorter_timeout_outside_a_longer_one: [TimeoutLayer::new(SECOND), TimeoutLayer::new(9 * SECOND).idle(2 * SECOND)] => [
        "timeout-never-reached: timeout > timeout"
    ];
    a_wait_on_the_clock: [TimeoutLayer::new(SECOND), gate_async("ask", async |_| Ok(()))] => ["wait-on-the-clock: timeout > ask"];
    a_wait_within_a_limit: [ConcurrencyLimitLayer::new(4), gate_async("ask", async |_| Ok(()))] => [
        "wait-within-limit: concurrency_limit > ask"
    ];
    a_wait_that_is_repeated: [calls(RetryLayer::new(Once)), gate_async("ask", async |_| Ok(()))] => ["wait-repeated: retry > ask"];
    results_before_a_retry: [calls(RetryLayer::new(Once)), CatchErrorLayer::new(), TowerTimeout::new(SECOND)] => [
        "results-before-retry: retry > catch_error"
    ];
    load_shed_of_nothing: [LoadShedLayer::new()] => ["shed-of-nothing: load_shed"];
    load_shed_outside_a_layer_that_is_ready_at_once: [
        LoadShedLayer::new(),
        TimeoutLayer::new(SECOND),
        ConcurrencyLimitLayer::new(4),
    ] => ["shed-of-nothing: load_shed"];
    load_shed_outside_a_function: [
        LoadShedLayer::new(),
        from_fn(async |call: ToolCall, next: Next<_>| next.run(call).await),
        ConcurrencyLimitLayer::new(4),
    ] => ["shed-of-nothing: load_shed"];
    a_queue_that_a_panic_ends: [calls(BufferLayer::new(4)), ConcurrencyLimitLayer::new(4), map_call("rewrite", |_| {})] => [
        "panic-ends-queue: buffer"
    ];
    everything_wrong_at_once: [
        LoadShedLayer::new(),
        TowerTimeout::new(SECOND),
        gate("rules", |_| Ok(())),
        map_call("rewrite", |_| {}),
        VisibilityLayer::new(|_, _| true),
        CatchErrorLayer::new(),
        CatchPanicLayer::new(),
    ] => [
        "rewrite-after-decision: rules > rewrite",
        "decision-before-visibility: rules > visibility",
        "error-escapes: timeout > catch_error",
        "panic-escapes: visibility > catch_panic",
        "shed-of-nothing: load_shed"
    ];
}

// Through layers of other crates.
finds! {
    faults_are_found_through_unnamed_layers: [
        gate("rules", |_| Ok(())),
        ConcurrencyLimitLayer::new(4),
        MapResponseForAll,
        map_call("rewrite", |_| {}),
    ] => ["rewrite-after-decision: rules > rewrite"];
    a_foreign_layer_has_duties_under_a_label_too: [named("upstream", TowerTimeout::new(SECOND)), CatchErrorLayer::new()] => [
        "error-escapes: upstream > catch_error"
    ];
    a_label_may_name_duties_that_nobody_knows: [named("breaker", Identity::new()).duty(Duty::Sheds), CatchErrorLayer::new()] => [
        "error-escapes: breaker > catch_error",
        "shed-of-nothing: breaker"
    ];
}

/// A layer of somebody else that is generic over the request and does nothing.
struct MapResponseForAll;

impl<S> Layer<S> for MapResponseForAll {
    type Service = Foreign<S>;

    fn layer(&self, inner: S) -> Foreign<S> {
        Foreign(inner)
    }
}

#[derive(Clone)]
struct Foreign<S>(S);

impl<S: tower::Service<R>, R> tower::Service<R> for Foreign<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[tokio::test]
async fn a_fault_among_a_tool_s_own_layers_names_the_tool() {
    let bad = ping().layer(map_call("rewrite", |_| {})).layer(gate("rules", |_| Ok(())));
    let stack = ServiceBuilder::new().layer(CatchPanicLayer::new()).service(Router::new().tool(bad).tool(sync_tool_fn("good", || "")));
    assert_eq!(faults(&stack).await, ["rewrite-after-decision: rules > rewrite in ping"]);
}

#[tokio::test]
async fn a_fault_between_the_stack_and_a_tool_names_the_tool_and_one_of_the_stack_is_named_once() {
    let tools =
        || Router::new().tool(ping().layer(map_call("rewrite", |_| {}))).tool(sync_tool_fn("a", || "")).tool(sync_tool_fn("b", || ""));
    let stack = ServiceBuilder::new().load_shed().layer(gate("rules", |_| Ok(()))).service(tools());
    assert_eq!(faults(&stack).await, ["shed-of-nothing: load_shed", "rewrite-after-decision: rules > rewrite in ping"]);
}

#[tokio::test]
async fn a_tool_s_own_timeout_that_the_stack_s_comes_before_is_found() {
    let slow = ping().layer(TimeoutLayer::new(60 * SECOND));
    let stack = ServiceBuilder::new().layer(TimeoutLayer::new(30 * SECOND)).service(Router::new().tool(slow));
    assert_eq!(faults(&stack).await, ["timeout-never-reached: timeout > timeout in ping"]);
}

#[tokio::test]
async fn what_a_tool_has_for_itself_is_not_held_against_the_stack() {
    // A tool's limit is waited for within the call, and so within the stack's timeout; its catch is for its own layers.
    let tool = ping().layer(ConcurrencyLimitLayer::new(1)).layer(CatchErrorLayer::new()).layer(CatchPanicLayer::new());
    let stack = ServiceBuilder::new()
        .layer(CatchErrorLayer::new())
        .layer(VisibilityLayer::new(|_, _| true))
        .layer(TowerTimeout::new(SECOND))
        .service(Router::new().tool(tool));
    assert_eq!(faults(&stack).await, [""; 0]);
}

#[tokio::test]
async fn faults_within_nested_routers_and_closed_stacks_are_found() {
    let nested = router().layer(VisibilityLayer::new(|_, _| true)).layer(gate("rules", |_| Ok(())));
    let stack = Stack::new(ServiceBuilder::new().timeout(SECOND).concurrency_limit(4).service(Router::new().nest("git", nested)));
    let stack = ServiceBuilder::new().layer(map_list("sign", |_, _| {})).service(stack);
    assert_eq!(
        faults(&stack).await,
        ["timeout-without-queue: timeout > concurrency_limit", "decision-before-visibility: rules > visibility in git.ping"]
    );
}

#[tokio::test]
async fn a_fault_says_how_bad_it_is_why_and_what_to_do() {
    let stack = ServiceBuilder::new()
        .layer(gate("rules", |_| Ok(())))
        .layer(map_call("rewrite", |_| {}))
        .load_shed()
        .layer(calls(MapResponseLayer::new(|response: toolstack::ToolResponse| response)))
        .service(router());
    let faults = stack.lint().await;
    assert_eq!(faults.iter().map(|fault| fault.severity).collect::<Vec<_>>(), [Severity::Error, Severity::Warning]);
    assert!(Severity::Warning < Severity::Error);
    assert_eq!(
        faults[0].to_string(),
        "rewrite-after-decision: rules outside rewrite: the call is changed after it was judged, so what runs is not what was allowed. \
         Put what changes calls outside what judges them."
    );
    let json = serde_json::to_value(&faults[1]).unwrap();
    assert_eq!((&json["rule"], &json["severity"], &json["tool"]), (&"shed-of-nothing".into(), &"warning".into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn what_is_about_tools_that_do_not_exist_is_named() {
    let about = |name: &str| ToolSelector::new().name(name).unwrap();
    let rules = || {
        let rule = |id: &str, tools| Rule::new(id, Effect::Allow).tools(tools);
        Rules::new([rule("readers", about("read_*")), rule("typo", about("raed_*")), rule("tagged", ToolSelector::new().tag("none"))])
            .unwrap()
    };
    let named = |faults: Vec<Fault>| -> Vec<String> {
        faults.iter().filter(|fault| fault.rule == "selects-no-tool").map(|fault| fault.layers.join(" > ")).collect()
    };
    let hooks = || {
        HooksLayer::new()
            .hook(Hook::before("seen", |_| Ok(())).only(about("read_file")))
            .hook(Hook::before("unseen", |_| Ok(())).only(about("write_file")))
    };
    let tools = || Router::new().tool(sync_tool_fn("read_file", || ""));
    let anything = || tower::service_fn(async |_: ToolCall| Ok::<_, std::convert::Infallible>(ToolResponse::text("")));
    let around = |router: Router| ServiceBuilder::new().layer(hooks()).layer(PermissionLayer::new(rules(), Effect::Deny)).service(router);

    let faults = around(tools()).lint().await;
    assert_eq!(named(faults), ["hooks (hook unseen)", "permission (rule typo)", "permission (rule tagged)"]);
    // A fallback may answer to any name, here and in a router within.
    assert!(named(around(tools().fallback(anything())).lint().await).is_empty());
    assert!(named(around(tools().nest("other", Router::new().fallback(anything()))).lint().await).is_empty());
}
