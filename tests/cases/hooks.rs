//! Hooks that always run, at the right moment and in the right order: the cases A1, A3, A4, A6, A8, D1, J2, J7, J8 and J9.

use std::{
    convert::Infallible,
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context as Task, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::task::yield_now;
use toolstack::{
    BoxError, ListTools, Refusal, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
    describe::{Describe, Description, Duty, Note},
    layer::{
        CatchErrorLayer, CatchPanicLayer, Ending, Policy, PolicyLayer, Site, Step, TimeoutLayer, VisibilityLayer, after, calls, gate,
        gate_async, gate_tool, map_call, map_list, map_result, named,
    },
    middleware::{Next, from_fn},
    model::{
        Arguments, Context, InputRequired, Origin, Outcome, Principal, ProgressUpdate, TaskHandle, ToolList, ToolName, ToolResult, ToolSpec,
    },
    operation::View,
    stack::{Reentry, ToolStack},
    testing::{Controlled, Probe, Recorder},
    tool::{Tool, ToolError, blocking_tool_fn, sync_tool_fn, tool_fn},
};
use tower::{
    Service, ServiceBuilder, ServiceExt, buffer::BufferLayer, filter::FilterLayer, layer::util::Identity, limit::ConcurrencyLimitLayer,
    load_shed::LoadShedLayer, service_fn,
};

// What the other files of cases use as well.

/// What a tool of [`every_form`] does.
pub(super) type Run = Arc<dyn Fn(&ToolCall) -> ToolResponse + Send + Sync>;

/// The names of the tools of [`every_form`]. `caller` calls `sync`; all the others run by themselves.
pub(super) const FORMS: [&str; 17] = [
    "handler",
    "async",
    "sync",
    "blocking",
    "service",
    "boxed",
    "layered_tool",
    "layered_twice",
    "ns.nested",
    "ns.deep.er",
    "merged",
    "layered",
    "lns.layered_nested",
    "dynamic",
    "as_tool",
    "progress",
    "caller",
];

pub(super) fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(ToolName::new(name).unwrap())
}

pub(super) fn async_tool(name: &str, run: &Run) -> Tool {
    let run = Arc::clone(run);
    tool_fn(name, move |call: ToolCall| {
        let run = Arc::clone(&run);
        async move {
            yield_now().await;
            run(&call)
        }
    })
    .boxed()
}

pub(super) fn sync_tool(name: &str, run: &Run) -> Tool {
    let run = Arc::clone(run);
    sync_tool_fn(name, move |call: ToolCall| run(&call)).boxed()
}

/// One tool of every form that there is, each of which does `run`.
pub(super) fn every_form(run: impl Fn(&ToolCall) -> ToolResponse + Send + Sync + 'static) -> Router {
    let run: Run = Arc::new(run);
    let probe = {
        let run = Arc::clone(&run);
        Probe::answering(move |call| run(call))
    };
    let blocking = {
        let run = Arc::clone(&run);
        blocking_tool_fn("blocking", move |call: ToolCall| run(&call))
    };
    let service = {
        let run = Arc::clone(&run);
        service_fn(move |call: ToolCall| {
            let run = Arc::clone(&run);
            async move { Ok::<_, BoxError>(run(&call)) }
        })
    };
    let progress = {
        let run = Arc::clone(&run);
        tool_fn("progress", move |call: ToolCall| {
            let run = Arc::clone(&run);
            async move {
                for done in 0..3 {
                    call.context.progress().report(ProgressUpdate::new(f64::from(done)).total(3.0));
                    yield_now().await;
                }
                run(&call)
            }
        })
    };
    let caller = tool_fn("caller", |stack: Reentry, arguments: Arguments| async move { stack.call_tool("sync", arguments).await });
    let own_layers = || ServiceBuilder::new().gate_tool("own_gate", |_, _| Ok(())).layer(TimeoutLayer::new(Duration::from_secs(3600)));

    let router = Router::new()
        .tool(probe.tool("handler"))
        .tool(async_tool("async", &run))
        .tool(sync_tool("sync", &run))
        .tool(blocking)
        .tool(Tool::from_service(spec("service"), service))
        .tool(async_tool("boxed", &run).boxed())
        .tool(async_tool("layered_tool", &run).layer(own_layers()))
        .tool(sync_tool("layered_twice", &run).layer(own_layers()).layer(ConcurrencyLimitLayer::new(4)))
        .nest("ns", Router::new().tool(async_tool("nested", &run)).nest("deep", Router::new().tool(sync_tool("er", &run))))
        .merge(Router::new().tool(sync_tool("merged", &run)))
        .merge(Router::new().tool(async_tool("layered", &run)).layer(own_layers()))
        .nest("lns", Router::new().tool(async_tool("layered_nested", &run)).layer(own_layers()).layer(VisibilityLayer::new(|_, _| true)))
        .tool(Tool::from_service(spec("as_tool"), Stack::new(Router::new().tool(sync_tool("as_tool", &run)))))
        .tool(progress)
        .tool(caller);
    router.handle().insert(async_tool("dynamic", &run)).unwrap();
    router
}

/// The same call by every way into a finished stack.
pub(super) async fn by_every_entry(stack: &Stack, call: impl Fn() -> ToolCall) -> Vec<(&'static str, ToolResponse)> {
    let turn = stack.run_calls(vec![call()]).await;
    let buffered = stack!(calls(BufferLayer::new(4)), stack.clone());
    vec![
        ("run_call", stack.run_call(call()).await),
        ("oneshot", stack.clone().oneshot(call()).await.unwrap_or_else(|never: Infallible| match never {})),
        ("run_calls", turn.into_iter().next().unwrap().response),
        ("a stack in a stack", Stack::new(stack.clone()).run_call(call()).await),
        ("a buffer", buffered.run_call(call()).await),
    ]
}

/// Polls the future so often and drops it; what it gave, if it was over by then.
pub(super) async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(output);
        }
        yield_now().await;
    }
    None
}

/// Lets everything run that can.
pub(super) async fn settle() {
    for _ in 0..16 {
        yield_now().await;
    }
}

pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(future)
}

pub(super) fn json_of(response: &ToolResponse) -> String {
    serde_json::to_string(response).unwrap()
}

/// A service without its type, which keeps its readiness and its errors. With it, each layer is compiled once and not once for each chain.
pub(super) struct Erased(Box<dyn Instance>);

impl Erased {
    pub(super) fn new(service: impl ToolStack) -> Self {
        Self(Box::new(service))
    }
}

impl Clone for Erased {
    fn clone(&self) -> Self {
        Self(self.0.another())
    }
}

macro_rules! erased {
    ($($request:ty => $response:ty, $ready:ident, $call:ident;)*) => {
        trait Instance: Send + Sync {
            fn another(&self) -> Box<dyn Instance>;
            $(
                fn $ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), BoxError>>;
                fn $call(&mut self, request: $request) -> BoxFuture<'static, Result<$response, BoxError>>;
            )*
        }

        impl<S: ToolStack> Instance for S {
            fn another(&self) -> Box<dyn Instance> {
                Box::new(self.clone())
            }

            $(
                fn $ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
                    Service::<$request>::poll_ready(self, task).map_err(Into::into)
                }

                fn $call(&mut self, request: $request) -> BoxFuture<'static, Result<$response, BoxError>> {
                    let response = Service::<$request>::call(self, request);
                    Box::pin(async move { response.await.map_err(Into::into) })
                }
            )*
        }

        $(
            impl Service<$request> for Erased {
                type Response = $response;
                type Error = BoxError;
                type Future = BoxFuture<'static, Result<$response, BoxError>>;

                fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
                    self.0.$ready(task)
                }

                fn call(&mut self, request: $request) -> Self::Future {
                    self.0.$call(request)
                }
            }
        )*
    };
}

erased! {
    ToolCall => ToolResponse, ready_to_call, begin_call;
    ListTools => ToolList, ready_to_list, begin_list;
    Describe => Description, ready_to_describe, begin_description;
}

/// A finished stack of these layers, the first one outermost, around what comes last.
macro_rules! stack {
    ($service:expr) => { toolstack::Stack::new($service) };
    ($layer:expr, $($rest:tt)+) => { toolstack::Stack::new($crate::hooks::stack!(@ $layer, $($rest)+)) };
    (@ $service:expr) => { $crate::hooks::Erased::new($service) };
    (@ $layer:expr, $($rest:tt)+) => {
        $crate::hooks::Erased::new(tower::Layer::layer(&$layer, $crate::hooks::stack!(@ $($rest)+)))
    };
}

pub(super) use stack;

pub(super) fn denied(by: &'static str) -> Refusal {
    Refusal::new(RefusalKind::Denied, "No.").with_by(by)
}

// A1: a finish for every start.

/// Counts starts and keeps endings, on each of the ways through the machine.
struct Spy<const WAITS: bool, const TOOL: bool> {
    log: Arc<Mutex<Vec<Option<Outcome>>>>,
}

impl<const WAITS: bool, const TOOL: bool> Spy<WAITS, TOOL> {
    fn start(&self) -> Step {
        self.log.lock().unwrap().push(None);
        Step::Continue(())
    }
}

impl<const WAITS: bool, const TOOL: bool> Policy for Spy<WAITS, TOOL> {
    type State = ();

    const WAITS: bool = WAITS;
    const TOOL: bool = TOOL;

    fn note(&self) -> Option<Note> {
        Some(Note::new("spy"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(_) if WAITS => Step::Wait,
            View::Call(_) => self.start(),
            _ => Step::Pass,
        }
    }

    fn wait<'a>(&'a self, _: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async {
            yield_now().await;
            self.start()
        })
    }

    fn after(&self, (): (), ending: Ending<'_>) {
        self.log.lock().unwrap().push(Some(ending.outcome()));
    }
}

#[derive(Deserialize, JsonSchema)]
struct Typed {
    #[allow(dead_code, reason = "only to be missing")]
    needed: i64,
}

/// Every way in which a tool can end, and what its ending is.
pub(super) fn endings() -> Vec<(Tool, Outcome)> {
    let internal = Outcome::Refused(RefusalKind::Internal);
    let fails = |call: ToolCall| async move { Err::<ToolResponse, BoxError>(format!("{} is down", call.name()).into()) };
    let marked = || {
        let mut result = ToolResult::structured(&json!({ "why": 1 })).unwrap();
        result.is_error = true;
        result
    };
    vec![
        (sync_tool_fn("completes", || "ok").boxed(), Outcome::Completed),
        (tool_fn("completes_empty", || async {}).boxed(), Outcome::Completed),
        (Probe::answering(|_| ToolResponse::error("no")).tool("says_error").boxed(), Outcome::ToolError),
        (sync_tool_fn("marks_error", marked).boxed(), Outcome::ToolError),
        (tool_fn("err", || async { Err::<(), _>(ToolError::new("no")) }).boxed(), Outcome::ToolError),
        (tool_fn("err_by_source", || async { Ok::<_, ToolError>("x".parse::<i64>()?) }).boxed(), Outcome::ToolError),
        (blocking_tool_fn("err_text", || Err::<(), _>("no")).boxed(), Outcome::ToolError),
        (sync_tool_fn("err_refusal", || Err::<(), _>(denied("tool"))).boxed(), Outcome::Refused(RefusalKind::Denied)),
        (sync_tool_fn("cancels", || Refusal::new(RefusalKind::Cancelled, "gone")).boxed(), Outcome::Cancelled),
        (Tool::from_service(spec("err_service"), service_fn(fails)).boxed(), internal),
        (sync_tool_fn("bad_arguments", |_: Typed| "ok").boxed(), Outcome::Refused(RefusalKind::InvalidArguments)),
        (sync_tool_fn("panics_at_once", || -> &'static str { panic!("at once") }).boxed(), internal),
        (
            tool_fn("panics_later", || async {
                yield_now().await;
                assert!(yield_false(), "later")
            })
            .boxed(),
            internal,
        ),
        (blocking_tool_fn("panics_on_a_thread", || assert!(yield_false(), "on a thread")).boxed(), internal),
        (sync_tool_fn("asks", || ToolResponse::InputRequired(Box::new(InputRequired::new("state")))).boxed(), Outcome::InputRequired),
        (sync_tool_fn("goes_on", || ToolResponse::Task(Box::new(TaskHandle::new("t")))).boxed(), Outcome::Task),
        (tool_fn("never", std::future::pending::<()>).boxed(), Outcome::Refused(RefusalKind::Timeout)),
        (
            tool_fn("own_timeout", std::future::pending::<()>).layer(TimeoutLayer::new(Duration::from_secs(1))).boxed(),
            Outcome::Refused(RefusalKind::Timeout),
        ),
        (sync_tool_fn("own_gate", || "ok").layer(gate("own", |_| Err(denied("own")))).boxed(), Outcome::Refused(RefusalKind::Denied)),
        (sync_tool_fn("denied_within", || "ok").boxed(), Outcome::Refused(RefusalKind::Denied)),
        (sync_tool_fn("layer_panics", || "ok").boxed(), internal),
        (sync_tool_fn("layer_fails", || "ok").boxed(), internal),
        (sync_tool_fn("hidden", || "ok").boxed(), Outcome::Refused(RefusalKind::UnknownTool)),
    ]
}

pub(super) fn yield_false() -> bool {
    false
}

/// The layers within a spy, each of which makes trouble for the tool of that name.
fn trouble() -> Router {
    endings().into_iter().fold(Router::new(), |router, (tool, _)| router.tool(tool))
}

pub(super) fn troubled() -> Stack {
    let fails = |call: ToolCall| if call.name() == "layer_fails" { Err(BoxError::from("no")) } else { Ok(call) };
    stack!(
        VisibilityLayer::new(|tool, _| tool.name != "hidden"),
        gate("deny", |call| if call.name() == "denied_within" { Err(denied("deny")) } else { Ok(()) }),
        map_call("panic", |call| assert!(call.name() != "layer_panics", "the layer")),
        calls(FilterLayer::new(fails)),
        TimeoutLayer::new(Duration::from_secs(5)),
        trouble()
    )
}

async fn every_start_has_one_finish<const WAITS: bool, const TOOL: bool>() {
    let names = endings().into_iter().map(|(tool, outcome)| (tool.spec().name.to_string(), outcome));
    for (name, expected) in names.chain([("no_such_tool".to_owned(), Outcome::Refused(RefusalKind::UnknownTool))]) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let spy = PolicyLayer::new(Spy::<WAITS, TOOL> { log: Arc::clone(&log) });
        let stack = stack!(spy, troubled());
        // Twice, since the first call learns the catalog.
        for _ in 0..2 {
            let response = stack.call_tool(&name, json!({})).await;
            assert_eq!(response.outcome(), expected, "{name}");
            assert_eq!(std::mem::take(&mut *log.lock().unwrap()), [None, Some(expected)], "{name}, waits: {WAITS}, tool: {TOOL}");
        }
    }
}

/// The same where nothing between the spy and the trouble makes a refusal of it.
async fn every_start_has_one_finish_also_by_what_passes_on<const WAITS: bool, const TOOL: bool>() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let tools = ["layer_panics", "layer_fails", "layer_refuses"];
    let router = tools.iter().fold(Router::new(), |router, name| router.tool(Probe::new().tool(name)));
    let chain = ServiceBuilder::new()
        .layer(PolicyLayer::new(Spy::<WAITS, TOOL> { log: Arc::clone(&log) }))
        .map_call("panic", |call| assert!(call.name() != "layer_panics", "the layer"))
        .layer(calls(FilterLayer::new(|call: ToolCall| match call.name().as_str() {
            "layer_fails" => Err(BoxError::from("no")),
            "layer_refuses" => Err(denied("filter").into()),
            _ => Ok(call),
        })))
        .service(Erased::new(router));
    for (name, kind) in
        [("layer_panics", RefusalKind::Internal), ("layer_fails", RefusalKind::Internal), ("layer_refuses", RefusalKind::Denied)]
    {
        for _ in 0..2 {
            assert_eq!(chain.call_tool(name, json!({})).await.refusal().map(Refusal::kind), Some(kind), "{name}");
            assert_eq!(std::mem::take(&mut *log.lock().unwrap()), [None, Some(kind.into())], "{name}, waits: {WAITS}, tool: {TOOL}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a01_every_start_has_one_finish_when_an_error_or_a_panic_passes() {
    every_start_has_one_finish_also_by_what_passes_on::<false, false>().await;
    every_start_has_one_finish_also_by_what_passes_on::<false, true>().await;
    every_start_has_one_finish_also_by_what_passes_on::<true, false>().await;
    every_start_has_one_finish_also_by_what_passes_on::<true, true>().await;
}

#[tokio::test(start_paused = true)]
async fn a01_every_start_has_one_finish_that_tells_the_ending() {
    every_start_has_one_finish::<false, false>().await;
    every_start_has_one_finish::<false, true>().await;
    every_start_has_one_finish::<true, false>().await;
    every_start_has_one_finish::<true, true>().await;
}

#[tokio::test(start_paused = true)]
async fn a01_an_observer_outside_a_refusal_hears_it_and_one_within_hears_nothing() {
    let recorder = Recorder::new();
    let stack = stack!(
        recorder.layer("outer"),
        gate("deny", |_| Err(denied("deny"))),
        recorder.layer("inner"),
        every_form(|_| ToolResponse::text("ok"))
    );
    for form in FORMS {
        stack.call_tool(form, json!({})).await;
    }
    assert_eq!(recorder.outcomes("outer"), vec![Outcome::Refused(RefusalKind::Denied); FORMS.len()]);
    assert_eq!((recorder.starts("outer"), recorder.starts("inner")), (FORMS.len(), 0));
}

#[tokio::test(start_paused = true)]
async fn a01_a_call_dropped_at_any_point_is_finished_once_as_cancelled() {
    for form in FORMS {
        for polls in 0..40 {
            let recorder = Recorder::new();
            let stack = stack!(
                recorder.layer("A"),
                gate_async("ask", async |_| {
                    yield_now().await;
                    Ok(())
                }),
                recorder.layer("B"),
                every_form(|_| ToolResponse::text("ok"))
            );
            let over = dropped_after(polls, stack.call_tool(form, json!({}))).await;
            settle().await;
            for place in ["A", "B"] {
                let (starts, outcomes) = (recorder.starts(place), recorder.outcomes(place));
                assert_eq!(starts, outcomes.len(), "{form} dropped after {polls} polls: {}", recorder.trace());
                if over.is_none() {
                    assert_eq!(
                        outcomes.iter().filter(|outcome| **outcome == Outcome::Cancelled).count(),
                        starts.min(outcomes.len()) - done(&outcomes)
                    );
                }
            }
            if over.is_some() {
                break;
            }
            assert!(polls < 39, "{form} is never over");
        }
    }

    /// A call within a dropped call may have been over before.
    fn done(outcomes: &[Outcome]) -> usize {
        outcomes.iter().filter(|outcome| **outcome == Outcome::Completed).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a01_errors_of_tower_s_layers_finish_an_observer_with_what_they_are() {
    for (name, kind) in [("timeout", RefusalKind::Timeout), ("load_shed", RefusalKind::Overloaded), ("filter", RefusalKind::Denied)] {
        let (recorder, controlled) = (Recorder::new(), Controlled::new());
        let router = Router::new().tool(controlled.tool("wait"));
        let observed = ServiceBuilder::new().layer(recorder.layer("observer"));
        let mut held = None;
        let stack = match name {
            "timeout" => Stack::new(observed.timeout(Duration::from_secs(1)).service(router)),
            "load_shed" => {
                let stack = Stack::new(observed.load_shed().concurrency_limit(1).service(router));
                // Takes the one permit there is.
                let busy = stack.clone();
                tokio::spawn(async move { busy.call_tool("wait", json!({})).await });
                held = Some(controlled.next().await);
                stack
            }
            _ => Stack::new(observed.layer(calls(FilterLayer::new(|_| Err::<ToolCall, _>(denied("filter"))))).service(router)),
        };
        let response = stack.call_tool("wait", json!({})).await;
        assert_eq!(response.refusal().map(Refusal::kind), Some(kind), "{name}");
        assert!(recorder.outcomes("observer").contains(&kind.into()), "{name}: {:?}", recorder.outcomes("observer"));
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a01_after_hears_each_call_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let stack = {
        let heard = Arc::clone(&heard);
        let listen = after("listen", move |ending| heard.lock().unwrap().push(ending.outcome()));
        stack!(listen, troubled())
    };
    let mut expected = Vec::new();
    for (tool, outcome) in endings() {
        stack.call_tool(tool.spec().name.as_str(), json!({})).await;
        expected.push(outcome);
    }
    assert_eq!(*heard.lock().unwrap(), expected);
}

// A3: no tool and no way in passes a hook by.

#[tokio::test(start_paused = true)]
async fn a03_every_form_of_tool_passes_every_layer_once_by_every_way_in() {
    for form in FORMS {
        let recorder = Recorder::new();
        let ran = Arc::new(AtomicUsize::new(0));
        let stack = stack!(
            recorder.layer("A"),
            VisibilityLayer::new(|_, _| true),
            gate_tool("look", |_, _| Ok(())),
            recorder.layer("B"),
            every_form({
                let ran = Arc::clone(&ran);
                move |_| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    ToolResponse::text("ran")
                }
            })
        );
        let passes = if form == "caller" { 2 } else { 1 };
        for (nth, (entry, response)) in by_every_entry(&stack, || ToolCall::new(form, json!({ "n": 1 }))).await.iter().enumerate() {
            assert_eq!(response.as_text().as_deref(), Some("ran"), "{form} by {entry}: {response:?}");
            assert!(ran.load(Ordering::SeqCst) > nth, "{form} by {entry}");
        }
        for place in ["A", "B"] {
            assert_eq!(recorder.starts(place), 5 * passes, "{form}");
            assert_eq!(recorder.outcomes(place), vec![Outcome::Completed; 5 * passes], "{form}");
        }
        assert_eq!(ran.load(Ordering::SeqCst), 5, "{form}");
    }
}

#[tokio::test(start_paused = true)]
async fn a03_a_fallback_passes_every_layer() {
    let recorder = Recorder::new();
    let answer = service_fn(|call: ToolCall| async move { Ok::<_, BoxError>(ToolResponse::text(call.name().to_string())) });
    let nested = Router::new().fallback(answer).layer(recorder.layer("within"));
    let router = Router::new().nest("up", nested).fallback(answer);
    let stack = stack!(recorder.layer("A"), router);
    assert_eq!(stack.call_tool("anything at all", json!({})).await.as_text().as_deref(), Some("anything at all"));
    assert_eq!(stack.call_tool("up.stairs", json!({})).await.as_text().as_deref(), Some("stairs"));
    assert_eq!(recorder.trace(), "A> A< A> within> within< A<");
}

#[tokio::test(start_paused = true)]
async fn a03_a_denial_around_everything_reaches_every_form() {
    let ran = Arc::new(AtomicUsize::new(0));
    let forms = {
        let ran = Arc::clone(&ran);
        every_form(move |_| {
            ran.fetch_add(1, Ordering::SeqCst);
            ToolResponse::text("ran")
        })
    };
    // Also where the layer stands around the router rather than in a chain, and around what was merged and nested.
    for stack in [
        stack!(gate("deny", |_| Err(denied("deny"))), forms.clone()),
        Stack::new(forms.clone().layer(gate("deny", |_| Err(denied("deny"))))),
        Stack::new(Router::new().merge(forms.clone().layer(gate("deny", |_| Err(denied("deny")))))),
    ] {
        for form in FORMS {
            for (entry, response) in by_every_entry(&stack, || ToolCall::new(form, json!({}))).await {
                assert_eq!(response.refusal().map(Refusal::by), Some("deny"), "{form} by {entry}");
            }
        }
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

// A4: calls within calls.

/// Ways for one tool to call another.
fn callers() -> Router {
    async fn inner(stack: Reentry) -> ToolResponse {
        stack.run_call(ToolCall::new("target", json!({})).with_id("inner")).await
    }
    let by_hand = service_fn(|call: ToolCall| async move {
        let stack = Reentry::of(&call)?;
        Ok::<_, Refusal>(inner(stack).await)
    });
    Router::new()
        .tool(tool_fn("fn", inner))
        .tool(tool_fn("layered", inner).layer(TimeoutLayer::new(Duration::from_secs(60))))
        .tool(Tool::from_service(spec("service"), by_hand))
        .nest("ns", Router::new().tool(tool_fn("nested", inner)).layer(map_result("mark", |_| {})))
        .tool(tool_fn("spawning", |stack: Reentry| async move { tokio::spawn(inner(stack)).await.unwrap() }))
        .tool(tool_fn("deeper", |stack: Reentry| async move { stack.call_tool("fn", json!({})).await }))
}

const CALLERS: [(&str, u16); 6] = [("fn", 1), ("layered", 1), ("service", 1), ("ns.nested", 1), ("spawning", 1), ("deeper", 2)];

#[tokio::test(start_paused = true)]
async fn a04_a_call_within_a_call_is_judged_by_the_same_policy() {
    let probe = Probe::new();
    let stack = stack!(
        gate("deny", |call| if call.name() == "target" { Err(denied("deny")) } else { Ok(()) }),
        callers().tool(probe.tool("target"))
    );
    for (caller, _) in CALLERS {
        for (entry, response) in by_every_entry(&stack, || ToolCall::new(caller, json!({}))).await {
            let refusal = response.refusal().map(|refusal| (refusal.kind(), refusal.by()));
            assert_eq!(refusal, Some((RefusalKind::Denied, "deny")), "{caller} by {entry}: the denial is given to the calling tool");
        }
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a04_a_call_within_a_call_says_whose_it_is() {
    for (caller, depth) in CALLERS {
        let probe = Probe::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stack = {
            let seen = Arc::clone(&seen);
            stack!(
                gate("look", move |call| {
                    let context = &call.context;
                    seen.lock().unwrap().push((context.depth(), context.parent().cloned(), context.origin()));
                    Ok(())
                }),
                callers().tool(probe.tool("target"))
            )
        };
        let mut context = Context::new().with_principal(Principal::new("ada")).with_session("s").with_origin(Origin::Person);
        context.extensions_mut().insert("of the outer call");
        let response = stack.run_call(ToolCall::new(caller, json!({})).with_id("outer").with_context(context)).await;
        assert!(response.is_completed(), "{caller}: {response:?}");

        let calls = probe.calls();
        let inner = &calls[0].context;
        assert_eq!((inner.depth(), inner.origin(), inner.principal().subject.as_str()), (depth, Origin::Program, "ada"), "{caller}");
        assert_eq!((inner.session(), inner.extensions().len()), (Some("s"), 0), "{caller}");
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0], (0, None, Origin::Person), "{caller}");
        assert_eq!(seen[1].0, 1, "{caller}");
        assert_eq!(seen[1].1, Some("outer".into()), "{caller}");
        assert_eq!(seen.len(), usize::from(depth) + 1, "{caller}");
    }
}

#[tokio::test(start_paused = true)]
async fn a04_a_hidden_tool_is_unknown_to_a_tool_that_calls_it_and_not_in_its_list() {
    let stack = stack!(
        VisibilityLayer::new(|tool, _| tool.name != "target"),
        callers()
            .tool(Probe::new().tool("target"))
            .tool(tool_fn("lists", |stack: Reentry| async move { stack.list_tools().await.names().collect::<Vec<_>>().join(" ") }))
    );
    for (caller, _) in CALLERS {
        let response = stack.call_tool(caller, json!({})).await;
        assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::UnknownTool), "{caller}");
    }
    let list = stack.list_tools().await.names().collect::<Vec<_>>().join(" ");
    assert_eq!(stack.call_tool("lists", json!({})).await.as_text().as_deref(), Some(list.as_str()));
    assert!(!list.contains("target"));
}

#[tokio::test(start_paused = true)]
async fn a04_what_a_tool_says_of_an_unknown_tool_that_it_called_names_that_tool() {
    let stack = Stack::new(Router::new().nest("up", callers()).merge(callers()));
    for (caller, depth) in CALLERS {
        assert_eq!(stack.call_tool(caller, json!({})).await.as_text().as_deref(), Some("Unknown tool: target"), "{caller}");
        if depth == 1 {
            let response = stack.call_tool(format!("up.{caller}"), json!({})).await;
            assert_eq!(response.as_text().as_deref(), Some("Unknown tool: target"), "up.{caller}");
        }
    }
    assert_eq!(stack.call_tool("up.ns.no", json!({})).await.as_text().as_deref(), Some("Unknown tool: up.ns.no"));
}

#[tokio::test(start_paused = true)]
async fn a04_calls_within_calls_end_at_the_depth_that_the_stack_allows() {
    let runs = Arc::new(AtomicUsize::new(0));
    let again = {
        let runs = Arc::clone(&runs);
        move |stack: Reentry| {
            runs.fetch_add(1, Ordering::SeqCst);
            let next: BoxFuture<'static, ToolResponse> = Box::pin(async move { stack.call_tool("again", json!({})).await });
            next
        }
    };
    let stack = Stack::with_max_depth(Router::new().tool(tool_fn("again", again)), 3);
    let response = stack.call_tool("again", json!({})).await;
    assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::LimitExceeded));
    assert_eq!(runs.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a04_without_a_stack_there_is_no_way_past_the_layers() {
    let probe = Probe::new();
    let bare = ServiceBuilder::new().gate("look", |_| Ok(())).service(callers().tool(probe.tool("target")));
    let response = bare.call_tool("fn", json!({})).await;
    assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Internal));
    assert_eq!(probe.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a04_a_judgement_of_one_tool_lets_no_other_run() {
    async fn ran(_: ToolCall) -> Result<ToolResponse, BoxError> {
        Ok(ToolResponse::text("ran"))
    }
    let router =
        || Router::new().tool(Probe::new().tool("a")).tool(Probe::new().tool("b")).nest("ns", Router::new().tool(Probe::new().tool("c")));
    for to in ["b", "ns.c", "ns.none", "none"] {
        for router in [router(), router().fallback(service_fn(ran))] {
            let stack =
                ServiceBuilder::new().gate_tool("judge", |_, _| Ok(())).map_call("rename", move |call| call.rename(to)).service(router);
            let response = stack.call_tool("a", json!({})).await;
            let kind = response.refusal().map(Refusal::kind);
            assert!(matches!(kind, Some(RefusalKind::Denied | RefusalKind::UnknownTool)), "{to}: {response:?}");
        }
    }
}

// A6: an unknown name is an answer, which hooks see.

#[tokio::test(start_paused = true)]
async fn a06_an_unknown_name_is_answered_and_seen_and_its_siblings_run() {
    let long = "x".repeat(10_000);
    for odd in ["no_such_tool", "", " ", "a b", "ns.", ".nested", "ns.nope", "Sync", "tool\u{1f600}", "../etc", "{\"name\":1}", &long] {
        let recorder = Recorder::new();
        let stack = stack!(recorder.layer("A"), every_form(|_| ToolResponse::text("ran")));
        let calls = vec![
            ToolCall::new("async", json!({})).with_id("1"),
            ToolCall::new(odd, json!({})).with_id("2"),
            ToolCall::new("blocking", json!({})).with_id("3"),
        ];
        let answers = stack.run_calls(calls).await;
        assert_eq!(answers.iter().map(|answer| answer.id.to_string()).collect::<Vec<_>>(), ["1", "2", "3"]);
        assert!(answers[0].response.is_completed() && answers[2].response.is_completed(), "{odd}");
        let refusal = answers[1].response.refusal().unwrap();
        assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::UnknownTool, "router"), "{odd}");
        assert!(answers[1].response.result().unwrap().is_error);
        assert!(json_of(&answers[1].response).len() < 1_000, "an absurd name is not repeated whole");
        let mut outcomes = recorder.outcomes("A");
        outcomes.sort_by_key(|outcome| outcome.as_str());
        let unknown = Outcome::Refused(RefusalKind::UnknownTool);
        assert_eq!(outcomes, [Outcome::Completed, Outcome::Completed, unknown], "{odd}");
    }
}

#[tokio::test]
async fn a06_an_unknown_name_passes_the_layers_of_the_router_that_it_would_be_in() {
    let recorder = Recorder::new();
    let git = Router::new().tool(Probe::new().tool("status")).layer(recorder.layer("git"));
    let stack = ServiceBuilder::new().layer(recorder.layer("A")).service(Router::new().nest("git", git));
    let response = stack.call_tool("git.push", json!({})).await;
    assert_eq!(response.as_text().as_deref(), Some("Unknown tool: git.push"), "the name is the one that was asked for");
    assert_eq!(recorder.trace(), "A> git> git< A<");
}

#[tokio::test(start_paused = true)]
async fn a06_a_policy_that_wants_the_tool_sees_that_there_is_none() {
    let ran = Arc::new(AtomicUsize::new(0));
    for layered in [false, true] {
        let gate = gate_tool("look", {
            let ran = Arc::clone(&ran);
            move |_, _| {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        });
        let router = if layered { every_form(|_| ToolResponse::text("ran")).layer(gate) } else { Router::new().layer(gate) };
        let response = Stack::new(router).call_tool("no_such_tool", json!({})).await;
        assert_eq!(response.as_text().as_deref(), Some("Unknown tool: no_such_tool"));
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

// A8: nothing of a tool happens before the last hook before it has let it through.

#[tokio::test(start_paused = true)]
async fn a08_no_form_of_tool_begins_before_every_hook_before_it_is_done() {
    for form in FORMS {
        // Hooks that are done with a call; a call within a call passes them anew.
        let done = Arc::new(AtomicUsize::new(0));
        let early = Arc::new(AtomicUsize::new(0));
        let needed = if form == "caller" { 4 } else { 2 };
        let forms = every_form({
            let (done, early) = (Arc::clone(&done), Arc::clone(&early));
            move |_| {
                early.fetch_add(usize::from(done.load(Ordering::SeqCst) < needed), Ordering::SeqCst);
                ToolResponse::text("ran")
            }
        });
        let wait = |turns: usize| {
            let done = Arc::clone(&done);
            move |_| {
                let done = Arc::clone(&done);
                async move {
                    for _ in 0..turns {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        yield_now().await;
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                }
            }
        };
        let stack = stack!(
            gate_async("first", wait(2)),
            from_fn(async |call: ToolCall, next: Next<_>| {
                yield_now().await;
                next.run(call).await
            }),
            gate_async("last", wait(3)),
            forms
        );
        assert!(stack.call_tool(form, json!({})).await.is_completed(), "{form}");
        assert_eq!(early.load(Ordering::SeqCst), 0, "{form} ran before its hooks were done");
    }
}

#[tokio::test(start_paused = true)]
async fn a08_a_call_that_is_turned_away_runs_nothing() {
    fn no(call: &ToolCall) -> Result<(), Refusal> {
        if call.name() == "nothing" { Ok(()) } else { Err(denied("hook")) }
    }
    async fn refuse<E>(_: ToolCall, _: Next<E>) -> Result<ToolResponse, E> {
        yield_now().await;
        Ok(denied("hook").into())
    }

    for form in FORMS {
        let ran = Arc::new(AtomicUsize::new(0));
        let forms = every_form({
            let ran = Arc::clone(&ran);
            move |_| {
                ran.fetch_add(1, Ordering::SeqCst);
                ToolResponse::text("ran")
            }
        });
        let slow = gate_async("hook", async |call: ToolCall| {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            no(&call)
        });
        let allow = gate_async("allow", async |_| {
            yield_now().await;
            Ok(())
        });
        let filter = calls(FilterLayer::new(|call: ToolCall| no(&call).map(|()| call)));
        let stacks = [
            ("gate", stack!(gate("hook", |call| no(call)), forms.clone())),
            ("gate_tool", stack!(gate_tool("hook", |call, _| no(call)), forms.clone())),
            ("gate_async", stack!(slow.clone(), forms.clone())),
            ("the second of two", stack!(allow.clone(), slow.clone(), forms.clone())),
            ("the first of two", stack!(slow, allow, forms.clone())),
            ("from_fn", stack!(from_fn(refuse), forms.clone())),
            ("filter", stack!(filter, forms.clone())),
            ("around the router", stack!(forms.clone().layer(gate("hook", |call| no(call))))),
            ("within a limit", stack!(ConcurrencyLimitLayer::new(2), gate("hook", |call| no(call)), forms)),
        ];
        for (what, stack) in stacks {
            for (entry, response) in by_every_entry(&stack, || ToolCall::new(form, json!({}))).await {
                assert_eq!(response.refusal().map(Refusal::by), Some("hook"), "{form} by {entry}, {what}");
            }
            assert_eq!(ran.load(Ordering::SeqCst), 0, "{form}, {what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a08_a_hook_of_one_tool_alone_comes_before_it_as_well() {
    let run: Run = Arc::new(|_| panic!("it ran"));
    let no = || {
        gate_async("own", async |_| {
            yield_now().await;
            Err(denied("own"))
        })
    };
    let service = service_fn(|call: ToolCall| async move {
        assert!(call.name().is_empty(), "it ran");
        Ok::<_, BoxError>(ToolResponse::text(""))
    });
    let stack = Stack::new(
        Router::new()
            .tool(async_tool("async", &run).layer(no()))
            .tool(sync_tool("sync", &run).layer(no()))
            .tool(blocking_tool_fn("blocking", || -> &'static str { panic!("it ran") }).layer(no()))
            .tool(Tool::from_service(spec("service"), service).layer(no()))
            .tool(sync_tool("twice", &run).layer(TimeoutLayer::new(Duration::from_secs(1))).layer(no())),
    );
    for name in ["async", "sync", "blocking", "service", "twice"] {
        assert_eq!(stack.call_tool(name, json!({})).await.refusal().map(Refusal::by), Some("own"), "{name}");
    }
}

// D1: what is rewritten is what arrives.

#[derive(Clone, Copy, Debug)]
enum Rewriter {
    MapCall,
    Gate,
    FromFn,
    Policy,
    Tower,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Add(i64),
    Times(i64),
    /// Another argument beside.
    Put(u8),
    /// Writes text rather than handing over a value.
    AsText,
}

impl Change {
    fn apply(self, call: &mut ToolCall) {
        let mut object = call.arguments.object().unwrap().clone();
        let n = object["n"].as_i64().unwrap();
        match self {
            Self::Add(k) => drop(object.insert("n".to_owned(), n.wrapping_add(k).into())),
            Self::Times(k) => drop(object.insert("n".to_owned(), n.wrapping_mul(k).into())),
            Self::Put(k) => drop(object.insert(format!("put{k}"), n.into())),
            Self::AsText => {
                call.arguments = Arguments::from_text(serde_json::to_string(&object).unwrap());
                return;
            }
        }
        call.arguments = object.into();
    }
}

struct Rewrites(Change);

impl Policy for Rewrites {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("rewrites").duty(Duty::Rewrites))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        if let View::Call(call) = request {
            self.0.apply(call);
        }
        Step::Continue(())
    }
}

fn rewriting(stack: Stack, how: Rewriter, change: Change) -> Stack {
    let changed = move |mut call: ToolCall| {
        change.apply(&mut call);
        call
    };
    match how {
        Rewriter::MapCall => stack!(map_call("m", move |call| change.apply(call)), stack),
        Rewriter::Gate => {
            let rewrites = move |call: &mut ToolCall| {
                change.apply(call);
                Ok(())
            };
            stack!(gate("g", rewrites), stack)
        }
        Rewriter::FromFn => stack!(from_fn(move |call: ToolCall, next: Next<_>| next.run(changed(call))), stack),
        Rewriter::Policy => stack!(PolicyLayer::new(Rewrites(change)), stack),
        Rewriter::Tower => stack!(calls(tower::util::MapRequestLayer::new(changed)), stack),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn d01_what_every_rewriter_made_of_the_arguments_is_what_the_tool_gets(
        layers in proptest::collection::vec((
            prop_oneof![Just(Rewriter::MapCall), Just(Rewriter::Gate), Just(Rewriter::FromFn), Just(Rewriter::Policy), Just(Rewriter::Tower)],
            prop_oneof![any::<i64>().prop_map(Change::Add), any::<i64>().prop_map(Change::Times), (0..4_u8).prop_map(Change::Put), Just(Change::AsText)],
        ), 0..7),
        n: i64,
        as_text: bool,
        form in 0..FORMS.len(),
    ) {
        // `caller` passes the stack twice, and so is changed twice.
        let form = if FORMS[form] == "caller" { "sync" } else { FORMS[form] };
        let got = Arc::new(Mutex::new(None));
        let forms = every_form({
            let got = Arc::clone(&got);
            move |call| {
                *got.lock().unwrap() = Some(call.arguments.clone());
                ToolResponse::text("ran")
            }
        });
        let given = json!({ "n": n });
        let given = || if as_text { Arguments::from_text(given.to_string()) } else { given.clone().into() };

        let mut expected = ToolCall::new(form, given());
        layers.iter().for_each(|(_, change)| change.apply(&mut expected));
        let stack = layers.iter().rev().fold(Stack::new(forms), |stack, (how, change)| rewriting(stack, *how, *change));

        let call = ToolCall::new(form, given());
        let kept = call.clone();
        let response = block_on(stack.run_call(call));
        prop_assert!(response.is_completed(), "{form}: {response:?}");
        let got = got.lock().unwrap().take().unwrap();
        prop_assert_eq!(got.as_json().unwrap(), expected.arguments.as_json().unwrap());
        // The caller's own copy is as it was.
        prop_assert_eq!(kept.arguments, given());
    }
}

#[tokio::test(start_paused = true)]
async fn d01_an_empty_rewrite_erases_no_earlier_one_and_a_typed_tool_sees_the_last() {
    #[derive(Deserialize, JsonSchema)]
    struct Say {
        text: String,
    }
    let stack = stack!(
        map_call("first", |call| call.arguments = json!({ "text": "first" }).into()),
        map_call("nothing", |_| {}),
        gate("nothing too", |_| Ok(())),
        VisibilityLayer::new(|_, _| true),
        Router::new().tool(sync_tool_fn("say", |say: Say| say.text)).layer(map_call("last", |call| {
            let said = call.arguments.object().unwrap()["text"].as_str().unwrap().to_owned();
            call.arguments = json!({ "text": said + ", then last" }).into();
        }))
    );
    // The view of what the call came with is parsed already: it must not outlive the rewrite.
    let call = ToolCall::new("say", Arguments::from_text(r#"{"text":"as it came"}"#));
    call.arguments.object().unwrap();
    assert_eq!(stack.run_call(call).await.as_text().as_deref(), Some("first, then last"));
}

// J2: the order is the written one.

#[tokio::test(start_paused = true)]
async fn j02_layers_run_in_the_order_written_and_come_back_in_reverse() {
    let recorder = Recorder::new();
    let tool = Probe::new().tool("probe").layer(recorder.layer("tool_inner")).layer(recorder.layer("tool_outer"));
    let nested = Router::new().tool(tool).layer(recorder.layer("nested_inner")).layer(recorder.layer("nested_outer"));
    let router = Router::new()
        .nest("ns", nested)
        .layer(ServiceBuilder::new().layer(recorder.layer("router_1")).layer(recorder.layer("router_2")).into_inner());
    let stack = stack!(
        CatchPanicLayer::new(),
        recorder.layer("1"),
        named("foreign", Identity::new()),
        recorder.layer("2"),
        CatchErrorLayer::new(),
        recorder.layer("3"),
        router
    );
    let order = ["1", "2", "3", "router_1", "router_2", "nested_outer", "nested_inner", "tool_outer", "tool_inner"];
    let inward = order.iter().map(|place| format!("{place}>"));
    let outward = order.iter().rev().map(|place| format!("{place}<"));
    let expected: Vec<_> = inward.chain(outward).collect();
    stack.call_tool("ns.probe", json!({})).await;
    assert_eq!(recorder.trace(), expected.join(" "));

    // A description tells the same order.
    let description = stack.describe().await;
    let mut described: Vec<_> = description.layers().iter().map(|note| note.name().to_owned()).collect();
    described.extend(description.tools()[0].layers.iter().map(|note| note.name().to_owned()));
    described.retain(|name| order.contains(&name.as_str()));
    assert_eq!(described, order);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn j02_any_mix_of_machines_nests_properly(kinds in proptest::collection::vec(0..6_u8, 1..8), denies in proptest::option::of(0..8_usize)) {
        let recorder = Recorder::new();
        let mut stack = Stack::new(Router::new().tool(Probe::new().tool("probe")));
        for (at, kind) in kinds.iter().enumerate().rev() {
            let verdict = if denies == Some(at) { Err(denied("here")) } else { Ok(()) };
            let here = recorder.layer(format!("{at}"));
            let slow = { let verdict = verdict.clone(); move |_| { let verdict = verdict.clone(); async move { yield_now().await; verdict } } };
            let gate = gate("gate", { let verdict = verdict.clone(); move |_: &mut ToolCall| verdict.clone() });
            stack = match kind {
                0 => stack!(here, gate, stack),
                1 => stack!(here, gate_tool("gate_tool", move |_, _| verdict.clone()), stack),
                2 => stack!(here, gate_async("gate_async", slow), stack),
                3 => stack!(here, gate, TimeoutLayer::new(Duration::from_secs(9)), stack),
                4 => stack!(here, gate, LoadShedLayer::new(), ConcurrencyLimitLayer::new(1), stack),
                _ => stack!(here, gate, VisibilityLayer::new(|_, _| true), stack),
            };
        }
        let response = block_on(stack.call_tool("probe", json!({})));
        let reached = denies.map_or(kinds.len(), |denies| (denies + 1).min(kinds.len()));
        prop_assert_eq!(response.is_completed(), denies.is_none_or(|denies| denies >= kinds.len()));
        let inward = (0..reached).map(|at| format!("{at}>"));
        let outward = (0..reached).rev().map(|at| format!("{at}<"));
        prop_assert_eq!(recorder.trace(), inward.chain(outward).collect::<Vec<_>>().join(" "));
    }
}

// J7: what is answered on the way is no run of the tool, and says so.

struct Canned {
    waits: bool,
}

impl Policy for Canned {
    type State = ();

    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new("canned").duty(Duty::Answers))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(_) if self.waits => Step::Wait,
            View::Call(_) => Step::answer(ToolResponse::text("canned")),
            View::List(_) => Step::answer(ToolList::new([])),
            _ => Step::Pass,
        }
    }

    fn wait<'a>(&'a self, _: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async {
            yield_now().await;
            Step::answer(ToolResponse::text("canned"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn j07_an_answer_in_the_tool_s_place_says_who_gave_it_and_nothing_within_runs() {
    async fn canned<E>(_: ToolCall, _: Next<E>) -> Result<ToolResponse, E> {
        Ok(ToolResponse::text("canned"))
    }

    for form in FORMS {
        for how in ["before", "wait", "from_fn"] {
            let (recorder, ran) = (Recorder::new(), Arc::new(AtomicUsize::new(0)));
            let forms = every_form({
                let ran = Arc::clone(&ran);
                move |_| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    ToolResponse::text("ran")
                }
            });
            let outer = ServiceBuilder::new().layer(recorder.layer("outer"));
            let inner = ServiceBuilder::new().layer(recorder.layer("inner")).concurrency_limit(1).service(forms);
            let stack = match how {
                "from_fn" => Stack::new(outer.layer(from_fn(canned).name("canned")).service(inner)),
                _ => Stack::new(outer.layer(PolicyLayer::new(Canned { waits: how == "wait" })).service(inner)),
            };
            let response = stack.call_tool(form, json!({})).await;
            assert_eq!(response.as_text().as_deref(), Some("canned"), "{form}, {how}");
            assert_eq!(response.result().unwrap().served_by(), Some("canned"), "{form}, {how}");
            assert_eq!(ran.load(Ordering::SeqCst), 0, "{form}, {how}");
            assert_eq!(recorder.trace(), "outer> outer<", "{form}, {how}");
            assert_eq!(recorder.outcomes("outer"), [Outcome::Completed], "{form}, {how}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn j07_a_tool_s_own_answer_is_marked_as_nobody_s_and_a_refusal_by_who_refused() {
    let stack = stack!(
        from_fn(async |call: ToolCall, next: Next<_>| next.run(call).await),
        gate("deny", |call| if call.name() == "sync" { Err(denied("deny")) } else { Ok(()) }),
        every_form(|_| ToolResponse::text("ran"))
    );
    for form in FORMS {
        let response = stack.call_tool(form, json!({})).await;
        let result = response.result().unwrap();
        assert_eq!(result.served_by(), None, "{form}");
        let refused = matches!(form, "sync" | "caller");
        assert_eq!(result.refusal().map(Refusal::by), refused.then_some("deny"), "{form}");
    }
}

#[tokio::test(start_paused = true)]
async fn j07_a_list_is_answered_on_the_way_without_asking_within() {
    let recorder = Recorder::new();
    let stack = stack!(
        recorder.layer("outer"),
        PolicyLayer::new(Canned { waits: false }),
        recorder.layer("inner"),
        every_form(|_| ToolResponse::text("ran"))
    );
    assert_eq!(stack.list_tools().await.tools().len(), 0);
    assert_eq!(recorder.trace(), "outer> outer<");
}

// J8: no layer can leave a call without an answer.

struct Undecided {
    answers_a_list: bool,
}

impl Policy for Undecided {
    type State = ();

    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new("undecided"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(_) if self.answers_a_list => Step::answer(ToolList::new([])),
            View::List(_) if self.answers_a_list => Step::answer(ToolResponse::text("no list")),
            _ => Step::Wait,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn j08_a_layer_that_decides_nothing_or_answers_something_else_refuses() {
    for answers_a_list in [false, true] {
        for form in FORMS {
            let ran = Arc::new(AtomicUsize::new(0));
            let forms = every_form({
                let ran = Arc::clone(&ran);
                move |_| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    ToolResponse::text("ran")
                }
            });
            let stack = stack!(PolicyLayer::new(Undecided { answers_a_list }), forms);
            for (entry, response) in by_every_entry(&stack, || ToolCall::new(form, json!({}))).await {
                assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Internal), "{form} by {entry}");
                assert!(!response.as_text().unwrap().is_empty(), "{form} by {entry}: the model is told something");
            }
            assert_eq!(ran.load(Ordering::SeqCst), 0);
            let list = stack.list_tools().await;
            assert_eq!(list.refusal().map(Refusal::kind), Some(RefusalKind::Internal));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn j08_a_tool_or_a_queue_that_goes_away_still_leaves_an_answer() {
    // A tool whose answer is dropped by whoever should give it.
    let controlled = Controlled::new();
    let stack = Stack::new(Router::new().tool(controlled.tool("wait")));
    let (response, ()) = tokio::join!(stack.call_tool("wait", json!({})), async { drop(controlled.next().await) });
    assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Internal));

    // A queue whose worker has ended.
    let broken = service_fn(|_: ToolCall| async { Ok::<ToolResponse, BoxError>(ToolResponse::text("ran")) });
    let (queue, worker) = tower::buffer::Buffer::pair(broken, 4);
    drop(worker);
    let stack = Stack::new(Router::new().tool(Tool::from_service(spec("queued"), queue)));
    let response = stack.call_tool("queued", json!({})).await;
    assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::Internal));
    assert!(!response.as_text().unwrap().is_empty());
}

// J9: no layers cost nothing.

#[tokio::test(start_paused = true)]
async fn j09_no_layers_and_layers_that_do_nothing_answer_as_the_router_does() {
    fn type_of<T>(_: &T) -> &'static str {
        std::any::type_name::<T>()
    }
    let forms = every_form(|call| ToolResponse::text(call.arguments.as_json().unwrap().to_owned()));
    let bare = ServiceBuilder::new().service(forms.clone());
    // The same type: there is nothing that could cost anything.
    assert_eq!(type_of(&bare), type_of(&forms));

    let idle = stack!(
        CatchPanicLayer::new(),
        CatchErrorLayer::new(),
        VisibilityLayer::new(|_, _| true),
        gate("gate", |_| Ok(())),
        map_call("map_call", |_| {}),
        map_result("map_result", |_| {}),
        map_list("map_list", |_, _| {}),
        after("after", |_| {}),
        from_fn(async |call: ToolCall, next: Next<_>| next.run(call).await),
        TimeoutLayer::new(Duration::from_secs(3600)),
        LoadShedLayer::new(),
        ConcurrencyLimitLayer::new(8),
        forms.clone()
    );
    for form in FORMS.into_iter().filter(|form| *form != "caller").chain(["no_such_tool", "ns.no_such_tool", ""]) {
        let arguments = || Arguments::from_text(r#"{"n":18446744073709551616}"#);
        let direct = json_of(&forms.call_tool(form, arguments()).await);
        assert_eq!(json_of(&bare.call_tool(form, arguments()).await), direct, "{form}");
        assert_eq!(json_of(&idle.call_tool(form, arguments()).await), direct, "{form}");
        assert_eq!(json_of(&Stack::new(idle.clone()).call_tool(form, arguments()).await), direct, "{form}");
    }
    let direct = serde_json::to_string(&forms.run_list(ListTools::new()).await).unwrap();
    assert_eq!(serde_json::to_string(&bare.list_tools().await).unwrap(), direct);
    assert_eq!(serde_json::to_string(&idle.list_tools().await).unwrap(), direct);
}
