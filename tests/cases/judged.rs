//! What was judged is what runs, and what only observes changes nothing: ways around both that a reviewer found.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, StackExt, Tool, ToolCall, ToolResponse,
    describe::Note,
    error::Challenge,
    layer::{Ending, Policy, PolicyLayer, Site, Step, TimeoutLayer, VisibilityLayer, after, gate, gate_tool, map_call},
    middleware::{Next, from_fn},
    model::{Arguments, Context, Outcome},
    operation::View,
    testing::Contract,
    tool::{Handler, Source, sync_tool_fn},
};
use tower::{Layer, Service, ServiceBuilder, limit::GlobalConcurrencyLimitLayer};

fn tools() -> Router {
    Router::new().tool(sync_tool_fn("ok", || "fine")).tool(sync_tool_fn("hidden", || "ran").tag("hidden"))
}

fn seen() -> VisibilityLayer<impl Fn(&toolstack::model::ToolSpec, &Context) -> bool + Send + Sync + 'static> {
    VisibilityLayer::new(|tool, _| !tool.has_tag("hidden"))
}

#[tokio::test]
async fn a_call_that_takes_the_place_of_a_judged_one_is_held_to_the_judgement() {
    let other = || ToolCall::new("hidden", ());
    let stacks = [
        seen().layer(map_call("new", move |call| *call = other()).layer(tools())).into_stack(),
        seen()
            .layer(
                map_call("same context", |call| {
                    *call = ToolCall::new("hidden", call.arguments.clone()).with_id(call.id.clone()).with_context(call.context.clone());
                })
                .layer(tools()),
            )
            .into_stack(),
        seen()
            .layer(
                gate("new", move |call| {
                    *call = other();
                    Ok(())
                })
                .layer(tools()),
            )
            .into_stack(),
        seen().layer(from_fn(move |_: ToolCall, next: Next<Infallible>| next.run(other())).layer(tools())).into_stack(),
        seen()
            .layer(
                gate_tool(
                    "rule",
                    |_, tool| {
                        if tool.spec().has_tag("hidden") { Err(Refusal::new(RefusalKind::Denied, "no")) } else { Ok(()) }
                    },
                )
                .layer(from_fn(move |_: ToolCall, next: Next<Infallible>| next.run(other())).layer(tools())),
            )
            .into_stack(),
    ];
    for (at, stack) in stacks.into_iter().enumerate() {
        // Twice, since the first call learns the tools.
        for _ in 0..2 {
            let response = stack.call_tool("ok", ()).await;
            assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Denied), "stack {at}: {response:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_takes_the_place_of_an_allowed_one_is_held_to_its_permit() {
    use toolstack::layer::permission::{Effect, PermissionLayer, Rules};

    let allow = || PermissionLayer::new(Rules::empty(), Effect::Allow);
    let change = from_fn(|call: ToolCall, next: Next<Infallible>| next.run(ToolCall::new(call.name(), json!({ "path": "/etc/shadow" }))));
    let stack = allow().layer(change.layer(tools()));
    assert_eq!(stack.call_tool("ok", json!({ "path": "a" })).await.refusal().map(Refusal::kind), Some(RefusalKind::Denied));
    let same = allow().layer(from_fn(|call: ToolCall, next: Next<Infallible>| next.run(call)).layer(tools()));
    assert!(same.call_tool("ok", json!({ "path": "a" })).await.is_completed());
}

/// Approves of a tool with a tag, after a while.
struct Approves(Arc<Notify>, Arc<Notify>);

impl Policy for Approves {
    type State = ();

    const TOOL: bool = true;
    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new("approves"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        if matches!(request, View::Call(_)) { Step::Wait } else { Step::Pass }
    }

    fn wait<'a>(&'a self, _: View<'a>, site: Site<'a>) -> BoxFuture<'a, Step> {
        let harmless = site.tool.is_some_and(|tool| tool.spec().has_tag("harmless"));
        Box::pin(async move {
            self.0.notify_one();
            self.1.notified().await;
            if harmless { Step::Pass } else { Step::refuse(Refusal::new(RefusalKind::Denied, "no")) }
        })
    }
}

#[tokio::test]
async fn a_tool_that_comes_and_is_replaced_while_it_is_judged_does_not_run() {
    let (asked, answered) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let router = Router::new().tool(sync_tool_fn("other", || ""));
    let handle = router.handle();
    let stack = PolicyLayer::new(Approves(Arc::clone(&asked), Arc::clone(&answered))).layer(router);
    // Learns the tools.
    let _ = tokio::join!(stack.call_tool("other", ()), async { answered.notify_one() });
    asked.notified().await;

    handle.insert(sync_tool_fn("late", || "harmless").tag("harmless")).unwrap();
    let (response, ()) = tokio::join!(stack.call_tool("late", ()), async {
        asked.notified().await;
        let _ = handle.remove("late");
        handle.insert(sync_tool_fn("late", || "dangerous")).unwrap();
        answered.notify_one();
    });
    assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Denied), "{response:?}");
}

#[tokio::test]
async fn the_layers_of_a_tool_see_it_as_it_is_registered() {
    let deny = || {
        gate_tool("rule", |_, tool| {
            if tool.spec().has_tag("admin") || !tool.source().trusted { Err(Refusal::new(RefusalKind::Denied, "no")) } else { Ok(()) }
        })
    };
    async fn kind<H: Handler>(tool: Tool<H>) -> Option<RefusalKind> {
        Router::new().tool(tool).call_tool("t", ()).await.refusal().map(Refusal::kind)
    }
    let tool = || sync_tool_fn("t", || "ran");
    assert_eq!(kind(tool().layer(deny())).await, None);
    assert_eq!(kind(tool().tag("admin").layer(deny())).await, Some(RefusalKind::Denied));
    assert_eq!(kind(tool().layer(deny()).tag("admin")).await, Some(RefusalKind::Denied));
    assert_eq!(kind(tool().layer(deny()).layer(after("a", |_| {})).tag("admin").boxed()).await, Some(RefusalKind::Denied));
    assert_eq!(kind(tool().layer(deny()).source(Source::foreign("evil"))).await, Some(RefusalKind::Denied));
}

#[tokio::test]
async fn an_observer_that_panics_changes_nothing_and_ends_no_process() {
    let heard = Arc::new(AtomicUsize::new(0));
    let observer = || {
        let heard = Arc::clone(&heard);
        after("audit", move |_: &Ending<'_>| {
            heard.fetch_add(1, Ordering::SeqCst);
            panic!("the disk is full")
        })
    };
    let stack = observer().layer(tools());
    assert_eq!(stack.call_tool("ok", ()).await.as_text().as_deref(), Some("fine"));

    // While a panic passes, and while a call is dropped.
    let stack = ServiceBuilder::new().catch_panic().layer(observer()).gate("g", |_| panic!("within")).service(tools());
    assert_eq!(stack.call_tool("ok", ()).await.outcome(), Outcome::Refused(RefusalKind::Internal));
    let mut pending = observer().layer(Router::new().tool(toolstack::tool_fn("ok", std::future::pending::<()>)));
    drop(Service::<ToolCall>::call(&mut pending, ToolCall::new("ok", ())));
    assert_eq!(heard.load(Ordering::SeqCst), 3);
    Contract::new(|| after("x", |_| panic!("each time"))).check().await;
}

#[tokio::test]
async fn keys_that_come_twice_reach_no_part_that_takes_anything_whatever_is_said_of_it() {
    #[derive(Deserialize, JsonSchema)]
    struct Documented {
        /// What to filter by.
        filter: Value,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Defaulted {
        #[serde(default)]
        filter: Value,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Optional {
        /// What to filter by, if at all.
        filter: Option<Value>,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Nested {
        parts: Vec<Documented>,
    }
    for filter in [r#"{"path":"/ok","path":"/etc/shadow"}"#, "18446744073709551617"] {
        let plain = Arguments::from_text(format!(r#"{{"filter":{filter}}}"#));
        let nested = Arguments::from_text(format!(r#"{{"parts":[{{"filter":{filter}}}]}}"#));
        let router = Router::new()
            .tool(sync_tool_fn("documented", |given: Documented| given.filter.to_string()))
            .tool(sync_tool_fn("defaulted", |given: Defaulted| given.filter.to_string()))
            .tool(sync_tool_fn("optional", |given: Optional| given.filter.map(|filter| filter.to_string()).unwrap_or_default()))
            .tool(sync_tool_fn("nested", |given: Nested| given.parts.iter().map(|part| part.filter.to_string()).collect::<String>()));
        for (name, arguments) in [("documented", &plain), ("defaulted", &plain), ("optional", &plain), ("nested", &nested)] {
            let response = router.call_tool(name, arguments.clone()).await;
            assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::InvalidArguments), "{name}: {response:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_call_bounds_the_question_for_the_tools_too() {
    let full = Arc::new(tokio::sync::Semaphore::new(0));
    let stack = ServiceBuilder::new()
        .layer(seen())
        .layer(TimeoutLayer::deadline())
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(full))
        .service(tools());
    let context = Context::new().with_deadline(tokio::time::Instant::now() + Duration::from_millis(50));
    let call = ToolCall::new("ok", ()).with_context(context);
    let response: ToolResponse = tokio::time::timeout(Duration::from_secs(1), stack.run_call(call)).await.expect("an answer in time");
    assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Timeout));
}

#[test]
#[should_panic(expected = "as one parameter")]
fn two_parameters_that_are_the_arguments_are_refused_at_set_up() {
    #[derive(Deserialize, JsonSchema)]
    struct A {
        a: i64,
    }
    #[derive(Deserialize, JsonSchema)]
    struct B {
        b: i64,
    }
    let _ = sync_tool_fn("two", |first: A, second: B| first.a + second.b);
}

#[test]
fn a_challenge_shows_neither_address_nor_code_in_debug() {
    let challenge = Challenge::auth("https://x.test/?t=s3cret".to_owned(), "S3CRET".to_owned(), "files".to_owned());
    let shown = format!("{challenge:?}");
    assert!(!shown.to_lowercase().contains("s3cret") && shown.contains("files"), "{shown}");
}
