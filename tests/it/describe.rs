//! What a description shows: every layer, whose crate it may be of, in its place, with its settings and without a secret.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolstack::{
    BoxError, Router, Stack, StackExt, ToolCall,
    describe::{Duty, Note},
    layer::{
        CatchErrorLayer, CatchPanicLayer, Policy, PolicyLayer, Site, Step, TimeoutLayer, VisibilityLayer, calls, gate, gate_async,
        map_call, map_list, map_result, named,
    },
    middleware::{Next, from_fn},
    model::{ToolName, ToolSpec},
    operation::View,
    stack::ToolStack,
    tool::{Source, Tool, sync_tool_fn},
};
use tower::{
    Layer, Service, ServiceBuilder,
    buffer::BufferLayer,
    filter::FilterLayer,
    layer::{layer_fn, util::Identity},
    limit::ConcurrencyLimitLayer,
    load_shed::LoadShedLayer,
    timeout::TimeoutLayer as TowerTimeout,
    util::{BoxCloneSyncServiceLayer, Either, MapRequestLayer, option_layer},
};

const SECOND: Duration = Duration::from_secs(1);

fn router() -> Router {
    Router::new().tool(sync_tool_fn("ping", || "pong"))
}

async fn shown(stack: &impl ToolStack) -> Vec<String> {
    stack.describe().await.layers().iter().map(ToString::to_string).collect()
}

/// The layers of the one tool.
async fn shown_in_tool(stack: &impl ToolStack) -> Vec<String> {
    let description = stack.describe().await;
    assert_eq!(description.tools().len(), 1);
    description.tools()[0].layers.iter().map(ToString::to_string).collect()
}

fn all(call: ToolCall) -> Result<ToolCall, BoxError> {
    Ok(call)
}

/// A hand-written layer of somebody who knows nothing of descriptions.
#[derive(Clone)]
struct HandWritten<S>(S);

impl<S: Service<R>, R> Service<R> for HandWritten<S> {
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
async fn an_unnamed_layer_shows_between_the_layers_that_note_themselves() {
    let stack = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(2))
        .layer(VisibilityLayer::new(|_, _| true))
        .layer(layer_fn(HandWritten))
        .layer(gate("rules", |_| Ok(())))
        .layer(TowerTimeout::new(SECOND))
        .service(router());
    assert_eq!(shown(&stack).await, ["load_shed", "concurrency_limit", "visibility", "hand_written", "rules", "timeout"]);
}

#[tokio::test]
async fn a_stack_of_foreign_layers_alone_shows_all_of_them() {
    let stack = ServiceBuilder::new().load_shed().concurrency_limit(2).timeout(SECOND).service(router());
    assert_eq!(shown(&stack).await, ["load_shed", "concurrency_limit", "timeout"]);
    assert!(stack.describe().await.layers().iter().all(Note::is_foreign));
    assert_eq!(shown(&router()).await, [""; 0]);
}

#[tokio::test]
async fn a_name_stands_for_the_layers_it_was_given_to_and_for_no_other() {
    let stack = ServiceBuilder::new()
        .layer(named("upstream", TowerTimeout::new(SECOND)).setting("after", "1s"))
        .concurrency_limit(2)
        .layer(named("pair", ServiceBuilder::new().load_shed().concurrency_limit(3).into_inner()))
        .timeout(SECOND)
        .layer(named("nothing", Identity::new()))
        .load_shed()
        .layer(named("ours", gate("rules", |_| Ok(()))))
        .concurrency_limit(2)
        .service(router());
    let expected =
        ["upstream (after: 1s)", "concurrency_limit", "pair", "timeout", "nothing", "load_shed", "ours", "rules", "concurrency_limit"];
    assert_eq!(shown(&stack).await, expected);
    let description = stack.describe().await;
    assert_eq!(description.layers()[2].duties(), [Duty::Sheds, Duty::Limits]);
}

#[tokio::test]
async fn builders_in_builders_show_flat() {
    let innermost = ServiceBuilder::new().concurrency_limit(2).layer(gate("inner", |_| Ok(()))).into_inner();
    let middle = ServiceBuilder::new().timeout(SECOND).layer(innermost).load_shed().into_inner();
    let stack = ServiceBuilder::new().layer(map_result("outer", |_| {})).layer(middle).concurrency_limit(3).service(router());
    assert_eq!(shown(&stack).await, ["outer", "timeout", "concurrency_limit", "inner", "load_shed", "concurrency_limit"]);
}

#[tokio::test]
async fn a_closed_stack_shows_what_is_in_it_and_what_is_around_it() {
    let inner = Stack::new(ServiceBuilder::new().concurrency_limit(2).layer(gate("inner", |_| Ok(()))).timeout(SECOND).service(router()));
    assert_eq!(shown(&inner).await, ["concurrency_limit", "inner", "timeout"]);

    let outer = ServiceBuilder::new().layer(gate("outer", |_| Ok(()))).load_shed().service(inner);
    assert_eq!(shown(&outer).await, ["outer", "load_shed", "concurrency_limit", "inner", "timeout"]);
    assert_eq!(shown(&Stack::new(Stack::new(outer))).await, ["outer", "load_shed", "concurrency_limit", "inner", "timeout"]);
}

#[tokio::test]
async fn layers_for_calls_only_show_and_hide_nothing_within() {
    let stack = ServiceBuilder::new()
        .layer(gate("outer", |_| Ok(())))
        .load_shed()
        .layer(calls(BufferLayer::new(8)))
        .timeout(SECOND)
        .layer(calls(FilterLayer::new(all)))
        .concurrency_limit(2)
        .layer(calls(Identity::new()))
        .service(router());
    assert_eq!(shown(&stack).await, ["outer", "load_shed", "buffer", "timeout", "filter", "concurrency_limit"]);
}

#[tokio::test]
async fn several_layers_for_calls_only_show_in_order() {
    let pair = ServiceBuilder::new().layer(BufferLayer::<ToolCall>::new(8)).layer(FilterLayer::new(all)).into_inner();
    let stack = ServiceBuilder::new().layer(calls(pair)).timeout(SECOND).layer(gate("rules", |_| Ok(()))).service(router());
    // The queue hides what is in it. What stands within all of them does not depend on it.
    assert_eq!(shown(&stack).await, ["buffer", "timeout", "rules"]);

    let pair = ServiceBuilder::new().layer(FilterLayer::new(all)).layer(MapRequestLayer::new(|call: ToolCall| call)).into_inner();
    let stack = ServiceBuilder::new().layer(calls(pair)).timeout(SECOND).service(router());
    assert_eq!(shown(&stack).await, ["filter", "map_request", "timeout"]);
}

#[tokio::test]
async fn a_box_says_that_there_is_something() {
    let boxed = ServiceBuilder::new().layer(BoxCloneSyncServiceLayer::new(FilterLayer::new(all))).into_inner();
    let stack = ServiceBuilder::new().layer(calls(boxed)).concurrency_limit(2).service(router());
    assert_eq!(shown(&stack).await, ["boxed", "concurrency_limit"]);

    let stack = ServiceBuilder::new().layer(calls(gate("rules", |_| Ok(())))).concurrency_limit(2).service(router());
    assert_eq!(shown(&stack).await, ["calls", "concurrency_limit"]);
}

#[tokio::test]
async fn a_layer_that_may_be_there_shows_as_such_if_it_is_foreign_and_as_what_it_is_if_it_is_ours() {
    let foreign = |on: bool| {
        ServiceBuilder::new().option_layer(on.then(|| TowerTimeout::new(SECOND))).load_shed().concurrency_limit(2).service(router())
    };
    for on in [true, false] {
        let stack = ServiceBuilder::new().layer(CatchErrorLayer::new()).service(foreign(on));
        assert_eq!(shown(&stack).await, ["catch_error", "timeout (optional: true)", "load_shed", "concurrency_limit"]);
    }

    for (on, expected) in [(true, &["outer", "rules", "concurrency_limit"][..]), (false, &["outer", "concurrency_limit"])] {
        let stack = ServiceBuilder::new()
            .layer(gate("outer", |_| Ok(())))
            .layer(option_layer(on.then(|| gate("rules", |_| Ok(())))))
            .concurrency_limit(2)
            .service(router());
        assert_eq!(shown(&stack).await, expected);
    }
}

#[tokio::test]
async fn both_sides_of_an_either_show() {
    for left in [true, false] {
        let either: Either<_, _> =
            if left { Either::Left(TowerTimeout::new(SECOND)) } else { Either::Right(MapErrInto(LoadShedLayer::new())) };
        let stack = ServiceBuilder::new().layer(CatchErrorLayer::new()).layer(either).concurrency_limit(2).service(router());
        assert_eq!(
            shown(&stack).await,
            ["catch_error", "timeout (optional: true)", "load_shed (optional: true)", "concurrency_limit"],
            "left: {left}"
        );
    }
}

/// Load shed has `BoxError`, as the timeout does.
struct MapErrInto<L>(L);

impl<S, L: Layer<S>> Layer<S> for MapErrInto<L> {
    type Service = L::Service;

    fn layer(&self, inner: S) -> L::Service {
        self.0.layer(inner)
    }
}

#[tokio::test]
async fn layers_of_a_router_show_with_the_tools_they_are_around() {
    let layered = router().layer(ConcurrencyLimitLayer::new(2)).layer(gate("rules", |_| Ok(())));
    assert_eq!(shown(&layered).await, [""; 0], "they are around the tools, not around the router");
    assert_eq!(shown_in_tool(&layered).await, ["rules", "concurrency_limit"]);

    let nested = Router::new().nest("git", layered).layer(TowerTimeout::new(SECOND));
    let stack = ServiceBuilder::new().load_shed().concurrency_limit(9).service(Router::new().nest("all", nested));
    assert_eq!(shown(&stack).await, ["load_shed", "concurrency_limit"]);
    assert_eq!(shown_in_tool(&stack).await, ["timeout", "rules", "concurrency_limit"]);
    assert_eq!(stack.describe().await.tools()[0].name, "all.git.ping");
}

#[tokio::test]
async fn a_layer_added_to_a_router_is_not_shown_with_tools_that_came_later() {
    let router = router().layer(gate("rules", |_| Ok(()))).tool(sync_tool_fn("later", || "here"));
    let description = router.describe().await;
    let layers: Vec<_> = description.tools().iter().map(|tool| (tool.name.as_str(), tool.layers.len())).collect();
    assert_eq!(layers, [("later", 0), ("ping", 1)]);
}

#[tokio::test]
async fn a_tool_s_own_layers_show_innermost_of_all() {
    let tool = sync_tool_fn("ping", || "pong")
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(TimeoutLayer::new(SECOND))
        .layer(named("last", TowerTimeout::new(SECOND)));
    let stack = Router::new().tool(tool).layer(gate("rules", |_| Ok(())));
    assert_eq!(shown_in_tool(&stack).await, ["rules", "last", "timeout (total: 1s)", "concurrency_limit"]);
}

#[tokio::test]
async fn settings_show() {
    let stack = ServiceBuilder::new()
        .layer(CatchErrorLayer::new().classify(|_| None))
        .layer(TimeoutLayer::new(Duration::from_millis(1500)).idle(SECOND))
        .layer(TimeoutLayer::deadline())
        .layer(from_fn(async |call: ToolCall, next: Next<_>| next.run(call).await).name("log"))
        .layer(named("limit", ConcurrencyLimitLayer::new(4)).setting("max", 4))
        .service(router());
    assert_eq!(shown(&stack).await, ["catch_error (classify: own)", "timeout (total: 1.5s, idle: 1s)", "timeout", "log", "limit (max: 4)"]);
}

#[tokio::test]
async fn a_description_is_drawn_outermost_first_and_tool_by_tool() {
    let upstream = ToolSpec::new(ToolName::new("search").unwrap());
    let tools = Router::new().tool(sync_tool_fn("ping", || "pong").layer(TimeoutLayer::new(SECOND)).layer(gate("rules", |_| Ok(())))).tool(
        Tool::from_service(
            upstream,
            tower::service_fn(|call: ToolCall| async move { Ok::<_, BoxError>(toolstack::ToolResponse::text(call.name().to_string())) }),
        )
        .source(Source::foreign("upstream")),
    );
    let stack = ServiceBuilder::new().layer(CatchPanicLayer::new()).concurrency_limit(2).service(tools);
    let drawn = stack.describe().await.to_string();
    assert_eq!(
        drawn,
        "catch_panic\n\
         concurrency_limit\n\
         router (2 tools)\n  \
           ping: rules > timeout (total: 1s)\n  \
           search from upstream\n"
    );
}

#[tokio::test]
async fn a_description_is_json_for_programs() {
    let stack = ServiceBuilder::new()
        .layer(TimeoutLayer::new(SECOND))
        .concurrency_limit(2)
        .service(Router::new().tool(sync_tool_fn("ping", || "pong").layer(gate_async("ask", async |_| Ok(())))));
    let json = serde_json::to_value(stack.describe().await).unwrap();
    assert_eq!(
        json,
        json!({
            "layers": [
                { "name": "timeout", "duties": ["times"], "settings": [["total", "1s"]], "foreign": false },
                { "name": "concurrency_limit", "duties": ["limits"], "settings": [], "foreign": true },
            ],
            "tools": [{
                "name": "ping",
                "source": "local",
                "layers": [{ "name": "ask", "duties": ["decides", "waits"], "settings": [], "foreign": false }],
            }],
        })
    );
}

/// A policy that holds a secret, as a layer that signs or encrypts does.
struct Sealing {
    key: Arc<str>,
}

impl Policy for Sealing {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("sealing").setting("key", format_args!("{} characters", self.key.len())))
    }

    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        Step::Pass
    }
}

#[tokio::test]
async fn no_secret_of_a_closure_or_a_policy_shows() {
    let secret: Arc<str> = "hunter2".into();
    let captured = Arc::clone(&secret);
    let stack = ServiceBuilder::new()
        .layer(CatchErrorLayer::new().classify({
            let secret = Arc::clone(&secret);
            move |_| Some(toolstack::Refusal::new(toolstack::RefusalKind::Denied, secret.to_string()))
        }))
        .layer(gate("rules", move |call| {
            assert!(call.name() != captured.as_ref(), "the secret is no name");
            Ok(())
        }))
        .layer(PolicyLayer::new(Sealing { key: Arc::clone(&secret) }))
        .layer(map_call("token", {
            let secret = Arc::clone(&secret);
            move |call| {
                call.context.extensions_mut().insert(Arc::clone(&secret));
            }
        }))
        .layer(map_list("list", |_, _| {}))
        .service(router());

    let description = stack.describe().await;
    assert_eq!(description.layers().len(), 5);
    for text in [description.to_string(), format!("{description:?}"), serde_json::to_string(&description).unwrap(), format!("{stack:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("rules"), "{text}");
    }
}

#[tokio::test]
async fn a_description_that_cannot_be_had_says_why() {
    let stack = ServiceBuilder::new().timeout(Duration::ZERO).service(HandWritten(Slow(router())));
    let description = stack.describe().await;
    assert_eq!(description.refusal().map(toolstack::Refusal::kind), Some(toolstack::RefusalKind::Timeout));
    assert!(description.to_string().starts_with("no description: "), "{description}");
    assert_eq!(stack.lint().await.iter().map(|fault| fault.rule).collect::<Vec<_>>(), ["no-description"]);
}

/// Takes its time over everything.
#[derive(Clone)]
struct Slow<S>(S);

impl<S, R> Service<R> for Slow<S>
where
    S: Service<R, Future: Send + 'static>,
    S::Response: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = futures_util::future::BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let call = self.0.call(request);
        Box::pin(async move {
            tokio::time::sleep(SECOND).await;
            call.await
        })
    }
}

#[tokio::test]
async fn describing_runs_no_tool_and_asks_no_policy() {
    let probe = toolstack::testing::Probe::new();
    let recorder = toolstack::testing::Recorder::new();
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("place"))
        .layer(gate("rules", |_| panic!("a description is no call")))
        .service(Router::new().tool(probe.tool("probe")));
    assert_eq!(shown(&stack).await, ["place", "rules"]);
    assert_eq!((probe.runs(), recorder.trace()), (0, String::new()));
}

#[tokio::test]
async fn a_layer_that_panics_when_it_is_described_is_a_refusal_and_a_fault() {
    #[derive(Debug)]
    struct Panics;

    impl Policy for Panics {
        type State = ();

        fn note(&self) -> Option<Note> {
            panic!("in the note")
        }

        fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
            Step::Pass
        }
    }

    let stack = ServiceBuilder::new().layer(PolicyLayer::new(Panics)).service(router());
    let description = stack.describe().await;
    assert_eq!(description.refusal().map(toolstack::Refusal::kind), Some(toolstack::RefusalKind::Internal));
    assert!(description.to_string().starts_with("no description: "), "{description}");
    let faults: Vec<_> = stack.lint().await.into_iter().map(|fault| (fault.rule, fault.severity)).collect();
    assert_eq!(faults, [("no-description", toolstack::describe::Severity::Error)]);
}
