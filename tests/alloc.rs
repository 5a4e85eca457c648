//! What a call costs in allocations, and what a registered tool costs in memory. The numbers are exact: they are the same at every
//! load of the machine, and any change of them is a change of the code.
//!
//! A call here is the whole of it: the arguments as text, the call, the layers, the tool with its typed arguments, the text of the
//! result, and all of it dropped. Of two allocations, one holds the arguments and one the text of the result.

#![allow(unsafe_code, reason = "a global allocator that counts cannot be had without")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    convert::Infallible,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use toolstack::{
    ListTools, Router, ServiceBuilderExt, Tool, ToolCall, ToolResponse,
    layer::{
        AuditLayer, HooksLayer, Policy, PolicyLayer, Site, Step, TimeoutLayer, VisibilityLayer, after, audit, gate, gate_async, gate_tool,
        hooks::Hook,
        map_call, map_list, map_result, named,
        permission::{Effect, PermissionLayer, Rules},
        telemetry::Metrics,
    },
    middleware::{Next, from_fn},
    model::{Arguments, Context as CallContext, Principal, Secret, ToolName, ToolSpec},
    operation::View,
    stack::{Settings, Stack, ToolStack, recommended},
    tool::{Handler, ToolFuture, sync_tool_fn, tool_fn},
};
use tower::{Layer, Service, ServiceBuilder, layer::util::Identity};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

fn note(count: u64, bytes: i64) {
    // A thread that is ending has no counters any more.
    let _ = COUNT.try_with(|counter| counter.set(counter.get() + count));
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: everything is done by the system's allocator; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract, which is the same one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations `work` makes on this thread.
fn allocations<T>(work: impl FnOnce() -> T) -> u64 {
    let before = COUNT.get();
    let kept = work();
    let count = COUNT.get() - before;
    drop(kept);
    count
}

/// How many bytes `build` leaves behind on this thread, with what it built.
fn live<T>(build: impl FnOnce() -> T) -> (i64, T) {
    let before = LIVE.get();
    let built = build();
    (LIVE.get() - before, built)
}

/// Polls to the end without a runtime. What is measured here waits for nothing that comes from elsewhere.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..8 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("the future waits for something that will not come");
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn add_sync() -> Tool<impl Handler> {
    sync_tool_fn("add", |args: Add| args.a + args.b)
}

fn add_async() -> Tool<impl Handler> {
    tool_fn("add", |args: Add| async move { args.a + args.b })
}

fn call() -> ToolCall {
    ToolCall::new("add", Arguments::from_text(r#"{"a":1,"b":2}"#))
}

fn check<E: std::fmt::Debug>(answer: Result<ToolResponse, E>) {
    assert_eq!(answer.unwrap().as_text().as_deref(), Some("3"));
}

/// Allocations of each call through one instance of a service, once it is warm.
fn per_call<S>(mut service: S) -> u64
where
    S: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug>,
{
    per(|| check(answer(&mut service, call())))
}

/// One operation through this one instance.
fn answer<S: Service<Op>, Op>(service: &mut S, operation: Op) -> Result<S::Response, S::Error> {
    assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready(), "not ready");
    run(service.call(operation))
}

/// Allocations of each run of `work`, once it is warm. The same number in every one of them.
fn per(mut work: impl FnMut()) -> u64 {
    // The first calls learn the catalog, layer by layer, and each instance of a service settles on what it holds for itself.
    (0..8).for_each(|_| work());
    let all = allocations(|| (0..1000).for_each(|_| work()));
    assert_eq!(all % 1000, 0, "not the same number in every call: {all} in 1000");
    all / 1000
}

/// Allocations of each call through one layer around a sync tool and around an async one.
fn with<L>(layer: L) -> (u64, u64)
where
    L: Layer<Router> + Clone,
    L::Service: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug>,
{
    (per_call(layer.clone().layer(Router::new().tool(add_sync()))), per_call(layer.layer(Router::new().tool(add_async()))))
}

/// One for the arguments, one for the text of the result, one for the future of an async tool.
const CALL: (u64, u64) = (2, 3);

const fn more(by: u64) -> (u64, u64) {
    (CALL.0 + by, CALL.1 + by)
}

#[test]
fn a_call_costs_two_allocations_and_three_if_the_tool_is_async() {
    assert_eq!(with(Identity::new()), CALL);
}

#[test]
fn no_layer_of_ours_adds_one() {
    assert_eq!(with(ServiceBuilder::new().catch_panic().into_inner()), CALL, "catch_panic");
    assert_eq!(with(ServiceBuilder::new().catch_error().into_inner()), CALL, "catch_error");
    assert_eq!(with(TimeoutLayer::new(Duration::from_secs(30))), CALL, "timeout");
    assert_eq!(with(VisibilityLayer::new(|_, _| true)), CALL, "visibility");
    assert_eq!(with(gate("gate", |_| Ok(()))), CALL, "gate");
    assert_eq!(with(gate_tool("gate_tool", |_, _| Ok(()))), CALL, "gate_tool");
    assert_eq!(with(map_call("map_call", |_| ())), CALL, "map_call");
    assert_eq!(with(map_result("map_result", |_| ())), CALL, "map_result");
    assert_eq!(with(map_list("map_list", |_, _| ())), CALL, "map_list");
    assert_eq!(with(after("after", |_| ())), CALL, "after");
    assert_eq!(with(named("named", Identity::new())), CALL, "named");
    assert_eq!(with(ServiceBuilder::new().calls(Identity::new()).into_inner()), CALL, "calls");
    assert_eq!(with(PolicyLayer::new(Counted::default())), CALL, "a policy with state");
    assert_eq!(with(toolstack::layer::TelemetryLayer::new()), CALL, "telemetry");
}

#[test]
fn a_hook_that_does_not_wait_adds_none() {
    let git = || toolstack::select::ToolSelector::new().name("add*").unwrap();
    assert_eq!(with(HooksLayer::new()), CALL, "no hooks");
    assert_eq!(with(HooksLayer::new().before_request("a", |_| Ok(()))), CALL, "before_request");
    assert_eq!(
        with(HooksLayer::new().after_list("a", |list| {
            list.retain(|_| true);
            Ok(())
        })),
        CALL,
        "after_list"
    );
    assert_eq!(with(HooksLayer::new().before("a", |_| Ok(()))), CALL, "before");
    assert_eq!(with(HooksLayer::new().hook(Hook::before("a", |_| Ok(())).fail_open())), CALL, "before, failing open");
    assert_eq!(with(HooksLayer::new().hook(Hook::before("a", |_| Ok(())).only(git()))), CALL, "before, for some tools");
    assert_eq!(with(HooksLayer::new().after("a", |_| Ok(()))), CALL, "after");
    assert_eq!(with(HooksLayer::new().on_finish("a", |_| ())), CALL, "on_finish");
    assert_eq!(with(HooksLayer::new().hook(Hook::on_finish("a", |_| ()).only(git()))), CALL, "on_finish, for some tools");
    let many = (0..20).fold(HooksLayer::new(), |layer, n| {
        layer.before(format!("{n}"), |_| Ok(())).after(format!("{n}"), |_| Ok(())).on_success(format!("{n}"), |_| ())
    });
    assert_eq!(with(many), CALL, "sixty of them");
}

#[test]
fn a_hook_that_waits_costs_boxes_only_for_the_calls_that_it_is_about() {
    let other = || toolstack::select::ToolSelector::new().name("other").unwrap();
    let before = || Hook::before_async("a", |_| Box::pin(async { Ok(()) })).timeout(None);
    let after = || Hook::after_async("a", |_| Box::pin(async { Ok(()) })).timeout(None);
    // The hook's own, the walk through the hooks, and the future that waits.
    assert_eq!(with(HooksLayer::new().hook(before())), more(3), "before");
    assert_eq!(with(HooksLayer::new().hook(before().only(other()))), CALL, "before, for another tool");
    assert_eq!(with(HooksLayer::new().hook(after().only(other()))), CALL, "after, for another tool");
}

#[test]
fn many_layers_add_none_either() {
    let layers = ServiceBuilder::new()
        .catch_panic()
        .layer(after("count", |_| ()))
        .catch_error()
        .visibility(|tool, _| !tool.has_tag("hidden"))
        .gate("gate", |_| Ok(()))
        .gate_tool("rules", |_, tool| tool.source().trusted.then_some(()).ok_or_else(|| unreachable!("it is our own")))
        .map_tool_result("results", |_| ())
        .layer(PolicyLayer::new(Counted::default()))
        .call_timeout(Duration::from_secs(30))
        .into_inner();
    assert_eq!(with(layers), CALL);
}

/// Tower's own layers that hold nothing by the call.
#[test]
fn stock_layers_add_what_they_add_anywhere() {
    assert_eq!(with(ServiceBuilder::new().catch_error().load_shed().into_inner()), CALL, "load_shed");
    assert_eq!(with(ServiceBuilder::new().catch_error().concurrency_limit(8).into_inner()), CALL, "concurrency_limit");
    assert_eq!(with(ServiceBuilder::new().map_request(|call: ToolCall| call).into_inner()), CALL, "map_request");
}

#[test]
fn a_layer_from_a_function_costs_three_boxes() {
    async fn through(call: ToolCall, next: Next<Infallible>) -> Result<ToolResponse, Infallible> {
        next.run(call).await
    }
    assert_eq!(with(from_fn(through)), more(3));
    let three = ServiceBuilder::new().layer(from_fn(through)).layer(from_fn(through)).layer(from_fn(through)).into_inner();
    assert_eq!(with(three), more(9));
}

#[test]
fn an_async_gate_costs_two_boxes() {
    // The future that waits, and the decision within it.
    assert_eq!(with(gate_async("ask", |_| async { Ok(()) })), more(2));
}

/// Both tools behind whatever `around` puts around a router, called through one instance.
fn around<S>(around: impl Fn(Router) -> S) -> (u64, u64)
where
    S: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug>,
{
    (per_call(around(Router::new().tool(add_sync()))), per_call(around(Router::new().tool(add_async()))))
}

#[test]
fn a_router_within_a_router_costs_nothing_and_what_waits_a_box_for_each_level_beyond() {
    assert_eq!(around(|router| Router::new().merge(router)), CALL, "merge");
    let nested = |levels: usize| {
        let wrap = |router| (0..levels).fold(router, |router, _| Router::new().nest("n", router));
        let name = format!("{}add", "n.".repeat(levels));
        let mut cost = [wrap(Router::new().tool(add_sync())), wrap(Router::new().tool(add_async()))]
            .map(|mut router| per(|| check(answer(&mut router, ToolCall::new(&name, Arguments::from_text(r#"{"a":1,"b":2}"#))))));
        cost.sort_unstable();
        (cost[0], cost[1])
    };
    assert_eq!((nested(1), nested(2), nested(3)), (CALL, (CALL.0, CALL.1 + 1), (CALL.0, CALL.1 + 2)));
}

#[test]
fn a_layer_on_a_router_costs_one_box_however_many_it_combines() {
    assert_eq!(around(|router| router.layer(Identity::new())), more(1));
    let four = ServiceBuilder::new().gate("a", |_| Ok(())).gate("b", |_| Ok(())).gate("c", |_| Ok(())).gate("d", |_| Ok(()));
    assert_eq!(around(|router| router.layer(four.clone().into_inner())), more(1), "four layers combined");
    assert_eq!(around(|router| router.layer(Identity::new()).layer(Identity::new())), more(2), "two layers one by one");
}

#[test]
fn layers_of_one_tool_cost_one_box() {
    let layered = |tool| Router::new().tool(tool);
    let cost = (
        per_call(layered(add_sync().layer(gate("gate", |_| Ok(()))).boxed())),
        per_call(layered(add_async().layer(gate("gate", |_| Ok(()))).boxed())),
    );
    assert_eq!(cost, more(1));
}

#[test]
fn a_closed_stack_costs_a_box_and_the_way_back() {
    assert_eq!(around(Stack::new), more(2));
}

/// `call_tool` works on a clone of the stack, and closes it off: neither allocates.
#[test]
fn calling_through_a_reference_adds_nothing() {
    fn cost(stack: &impl ToolStack) -> u64 {
        per(|| check::<Infallible>(Ok(run(toolstack::StackExt::run_call(stack, call())))))
    }
    let layers =
        || ServiceBuilder::new().catch_panic().visibility(|_, _| true).layer(after("count", |_| ())).call_timeout(Duration::from_secs(30));
    assert_eq!((cost(&layers().service(Router::new().tool(add_sync()))), cost(&layers().service(Router::new().tool(add_async())))), CALL);
}

#[test]
fn a_context_costs_one_allocation_when_something_is_set_in_it() {
    let principal = Arc::new(Principal::new("ada"));
    let mut router = Router::new().tool(add_sync());
    let mut with = |context: &dyn Fn() -> CallContext| per(|| check(answer(&mut router, call().with_context(context()))));
    assert_eq!(with(&CallContext::new), 2, "empty");
    assert_eq!(with(&|| CallContext::new().with_deadline(tokio::time::Instant::now())), 2, "a deadline");
    assert_eq!(with(&|| CallContext::new().with_principal(Arc::clone(&principal)).with_session("s")), 3, "a principal and a session");
    let shared = CallContext::new().with_principal(principal.clone());
    assert_eq!(with(&|| shared.clone()), 2, "a clone of one that is there");
}

#[test]
fn arguments_cost_what_their_form_costs() {
    let mut router = Router::new().tool(add_sync());
    let mut with = |arguments: &dyn Fn() -> Arguments| per(|| check(answer(&mut router, ToolCall::new("add", arguments()))));
    let raw = RawValue::from_string(r#"{"a":1,"b":2}"#.to_owned()).unwrap();
    assert_eq!(with(&|| Arguments::from(raw.clone())), 3, "a raw value, the box of which is copied into shared text");
    let value = Arguments::from(json!({ "a": 1, "b": 2 }));
    assert_eq!(with(&|| value.clone()), 1, "a value that is there, read by reference");
    // A name beyond what is held in place.
    let name = "a_tool_with_a_name_of_more_than_23_bytes";
    let mut router = Router::new().tool(sync_tool_fn(name, |args: Add| args.a + args.b));
    assert_eq!(per(|| check(answer(&mut router, ToolCall::new(name, Arguments::from_text(r#"{"a":1,"b":2}"#))))), 3, "a long name");
}

#[test]
fn fifty_rules_cost_the_permit_and_the_view_of_the_arguments_where_they_are_text() {
    let rules: Vec<_> = (0..50)
        .map(|at| match at % 5 {
            0 => json!({ "id": format!("{at}"), "effect": "allow", "tools": { "names": ["a*"] }, "arguments": [{ "path": "/a", "at_most": 1 + at }] }),
            1 => json!({ "id": format!("{at}"), "effect": "deny", "tools": { "names": ["add"] }, "arguments": [{ "path": "/b", "at_least": 100 + at }] }),
            2 => json!({ "id": format!("{at}"), "effect": "deny", "principal": { "scopes": [format!("s{at}")] } }),
            3 => json!({ "id": format!("{at}"), "effect": "ask", "tools": { "names": [format!("other{at}.*")] } }),
            _ => json!({ "id": format!("{at}"), "effect": "deny", "tools": { "names": [format!("tool{at}")] } }),
        })
        .collect();
    let rules = Rules::from_json(&json!({ "rules": rules }).to_string()).unwrap();
    let layer = PermissionLayer::new(rules, Effect::Deny);
    let text = || Arguments::from_text(r#"{"a":1,"b":2}"#);
    let view = allocations(|| {
        let arguments = text();
        assert!(arguments.value().is_ok());
        arguments
    }) - 1;
    assert_eq!(with(layer.clone()), more(1 + view), "text");
    let value = Arguments::from(json!({ "a": 1, "b": 2 }));
    let mut service = layer.layer(Router::new().tool(add_sync()));
    assert_eq!(
        per(|| check(answer(&mut service, ToolCall::new("add", value.clone())))),
        2,
        "a value that is there: the result and the permit"
    );
    assert_eq!(with(PermissionLayer::new(Rules::empty(), Effect::Allow)), more(1), "no rule about arguments");
}

#[test]
fn a_record_of_a_call_costs_one() {
    /// Allocations of each call, when the record of each is taken out of the channel before the next.
    fn recorded<S>(around: impl Fn(AuditLayer, Router) -> S, context: &CallContext) -> (u64, u64)
    where
        S: Service<ToolCall, Response = ToolResponse, Error: std::fmt::Debug>,
    {
        [Router::new().tool(add_sync()), Router::new().tool(add_async())]
            .map(|router| {
                let (sink, mut records) = audit::channel(8);
                let mut service = around(AuditLayer::new(sink), router);
                let mut work = || {
                    check(answer(&mut service, call().with_context(context.clone())));
                    assert!(records.try_recv().is_some_and(|entry| entry.record().is_some_and(|record| record.attempts == 1)));
                };
                // The channel takes its memory in blocks, which it uses again.
                (0..200).for_each(|_| work());
                per(work)
            })
            .into()
    }
    let nobody = CallContext::new();
    assert_eq!(recorded(|audit, router| audit.layer(router), &nobody), more(1));
    assert_eq!(recorded(|audit, router| audit.digest_key(Secret::new("key")).layer(router), &nobody), more(1), "with a key");
    let gated = |audit: AuditLayer, router| audit.layer(gate("gate", |_| Ok(())).layer(router));
    assert_eq!(recorded(gated, &nobody), more(1), "with a layer within");
    let ada = CallContext::new().with_principal(Principal::new("ada")).with_session("s1");
    assert_eq!(recorded(|audit, router| audit.layer(router), &ada), more(1), "with a principal and a session");
    let long = CallContext::new().with_session("a session of more than 23 bytes");
    assert_eq!(recorded(|audit, router| audit.layer(router), &long), more(1), "with a long session");
    let required = |audit: AuditLayer, router| audit.required().layer(router);
    assert_eq!(recorded(required, &nobody), more(1), "required");
    let allowed = |audit: AuditLayer, router| audit.layer(PermissionLayer::new(Rules::empty(), Effect::Allow).layer(router));
    assert_eq!(recorded(allowed, &nobody), more(2), "and a permit");
    let list = |layer: AuditLayer| {
        let mut service = layer.layer(Router::new().tool(add_sync()));
        per(|| assert!(answer(&mut service, ListTools::new()).is_ok()))
    };
    assert_eq!(list(AuditLayer::new(|_: &audit::AuditRecord| ())), 1, "a list");
}

#[test]
fn the_whole_recommended_stack_costs_at_most_eight() {
    let rules: Vec<_> = (0..50)
        .map(|at| json!({ "id": format!("{at}"), "effect": if at == 0 { "allow" } else { "deny" }, "tools": { "names": [if at == 0 { "add".to_owned() } else { format!("tool{at}") }] } }))
        .collect();
    let settings = json!({ "permission": { "unmatched": "deny", "rules": rules }, "visibility": [{ "tags": ["internal"] }] });
    let cost = |router: Router| {
        let (sink, mut records) = audit::channel(8);
        let mut stack = recommended(Settings::from_json(&settings.to_string()).unwrap())
            .audit(move |layer| layer.and(sink))
            .hooks(|layer| layer.before("look", |_| Ok(())))
            .build()
            .unwrap()
            .layer(router);
        let mut work = || {
            check(answer(&mut stack, call()));
            assert!(records.try_recv().is_some());
        };
        (0..200).for_each(|_| work());
        per(work)
    };
    // Beside the call's own: the record, the permit, and the two of a closed stack.
    assert_eq!((cost(Router::new().tool(add_sync())), cost(Router::new().tool(add_async()))), more(4));
}

#[test]
fn the_same_layers_put_together_by_hand_cost_two_less() {
    let rules: Vec<_> = (0..50)
        .map(|at| json!({ "id": format!("{at}"), "effect": if at == 0 { "allow" } else { "deny" }, "tools": { "names": [if at == 0 { "add".to_owned() } else { format!("tool{at}") }] } }))
        .collect();
    let rules = Rules::from_json(&json!({ "rules": rules }).to_string()).unwrap();
    let cost = |router: Router| {
        let (sink, mut records) = audit::channel(8);
        let mut stack = ServiceBuilder::new()
            .catch_panic()
            .telemetry(&Metrics::new())
            .audit(sink)
            .visibility(|tool, _| !tool.has_tag("internal"))
            .hooks(HooksLayer::new().before("look", |_| Ok(())))
            .permission(rules.clone(), Effect::Deny)
            .service(router);
        let mut work = || {
            check(answer(&mut stack, call()));
            assert!(records.try_recv().is_some());
        };
        (0..200).for_each(|_| work());
        per(work)
    };
    // Beside the call's own: the record and the permit.
    assert_eq!((cost(Router::new().tool(add_sync())), cost(Router::new().tool(add_async()))), more(2));
}

/// Pending at the first poll of its readiness, ready at the second.
struct Late<S>(S, bool);

impl<S: Clone> Clone for Late<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), false)
    }
}

impl<S: Service<Op>, Op> Service<Op> for Late<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.1 = !self.1;
        if self.1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Op) -> S::Future {
        self.0.call(request)
    }
}

#[test]
fn a_wait_for_readiness_costs_a_policy_one_box_and_a_timeout_none() {
    let late = |router| Late(router, false);
    assert_eq!(around(|router| gate_tool("gate_tool", |_, _| Ok(())).layer(late(router))), more(1), "gate_tool");
    assert_eq!(around(|router| TimeoutLayer::new(Duration::from_secs(30)).layer(late(router))), CALL, "timeout");
}

/// A refusal: the kind, the message and the text of the result.
#[test]
fn a_refusal_costs_four() {
    let mut stack =
        gate("gate", |_| Err(toolstack::Refusal::new(toolstack::RefusalKind::Denied, "No."))).layer(Router::new().tool(add_sync()));
    assert_eq!(per(|| assert!(!answer(&mut stack, call()).unwrap().is_completed())), 4);
}

#[test]
fn the_list_of_ten_thousand_tools_is_the_same_one_each_time() {
    let mut stack = ServiceBuilder::new()
        .catch_panic()
        .layer(after("count", |_| ()))
        .service((0..10_000).fold(Router::new(), |router, i| router.tool(sync_tool_fn(&format!("tool_{i}"), |_: Add| ""))));
    assert_eq!(per(|| assert_eq!(answer(&mut stack, ListTools::new()).unwrap().tools().len(), 10_000)), 0);
}

/// Counts calls; its state goes from before to after.
#[derive(Default)]
struct Counted(std::sync::atomic::AtomicU64);

impl Policy for Counted {
    type State = u64;

    fn note(&self) -> Option<toolstack::describe::Note> {
        None
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step<u64> {
        match request {
            View::Call(_) => Step::Continue(1),
            _ => Step::Pass,
        }
    }

    fn after(&self, state: u64, _: toolstack::layer::Ending<'_>) {
        self.0.fetch_add(state, std::sync::atomic::Ordering::Relaxed);
    }
}

/// 208 bytes, as generators write them for two or three fields.
fn schema() -> Box<RawValue> {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "description": "The first one of the numbers.", "type": "integer", "format": "int64" },
            "b": { "type": "integer", "format": "int64" },
        },
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let text = schema.to_string();
    RawValue::from_string(text).unwrap()
}

#[test]
fn a_registered_tool_costs_at_most_500_bytes_and_its_schema() {
    const TOOLS: i64 = 10_000;
    struct Plain;

    impl Handler for Plain {
        fn call(&self, _: ToolCall) -> ToolFuture {
            ToolFuture::ready(ToolResponse::text(""))
        }
    }

    let schema = schema();
    assert_eq!(schema.get().len(), 208);
    let (bytes, mut router) = live(|| {
        let mut router = (0..TOOLS).fold(Router::new(), |router, i| {
            let spec = ToolSpec::new(ToolName::new(format!("tool_{i}")).unwrap()).with_input_schema(&schema).unwrap();
            router.tool(Tool::new(spec, Plain))
        });
        // The table and the list are there from the first use on.
        check_unknown(answer(&mut router, call()));
        assert_eq!(answer(&mut router, ListTools::new()).unwrap().tools().len(), 10_000);
        router
    });
    let per_tool = bytes / TOOLS;
    println!("{per_tool} bytes for each tool, {} of them its schema", schema.get().len());
    assert!(per_tool <= 500 + 208, "{per_tool} bytes for each tool");
    check_unknown(answer(&mut router, call()));
}

fn check_unknown(answer: Result<ToolResponse, Infallible>) {
    assert_eq!(answer.unwrap().refusal().unwrap().kind(), toolstack::RefusalKind::UnknownTool);
}
