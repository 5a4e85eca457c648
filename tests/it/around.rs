//! The machine that most layers are policies of: both halves, waits, and ends that happen exactly once.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    describe::Note,
    layer::{Ending, Policy, PolicyLayer, Site, Step},
    model::Outcome,
    operation::{Operation, Reply, View},
    testing::{Behaviour, Contract, Controlled, Probe, Strict},
};
use tower::{Layer, Service, ServiceExt};

/// Does in each half what the test wants.
struct Both {
    waits: bool,
    settles: bool,
    gate: Arc<tokio::sync::Semaphore>,
    ends: Arc<Mutex<Vec<Outcome>>>,
    began: Arc<AtomicUsize>,
}

impl Default for Both {
    fn default() -> Self {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        Self { waits: false, settles: false, gate, ends: Arc::default(), began: Arc::default() }
    }
}

impl Policy for Both {
    type State = ();

    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new("both"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        self.began.fetch_add(1, Ordering::SeqCst);
        match request {
            View::Call(_) if self.waits => Step::Wait,
            View::Call(_) => Step::Continue(()),
            _ => Step::Pass,
        }
    }

    fn wait<'a>(&'a self, request: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let Ok(permit) = self.gate.acquire().await else { return Step::Wait };
            permit.forget();
            match request {
                View::Call(call) if call.name() == "refused" => Step::refuse(Refusal::new(RefusalKind::Denied, "no").with_by("both")),
                View::Call(call) if call.name() == "answered" => Step::answer(ToolResponse::text("here")),
                View::Call(call) if call.name() == "undecided" => Step::Wait,
                _ => Step::Continue(()),
            }
        })
    }

    fn settles(&self, (): &()) -> bool {
        self.settles
    }

    fn settle<'a>(&'a self, (): &'a mut (), reply: Reply<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Ok(permit) = self.gate.acquire().await {
                permit.forget();
            }
            if let Reply::Call(response) = reply
                && let Some(result) = response.result_mut()
            {
                result.push("settled");
            }
        })
    }

    fn after(&self, (): (), ending: Ending<'_>) {
        self.ends.lock().unwrap().push(ending.outcome());
    }
}

fn call(name: &str) -> ToolCall {
    ToolCall::new(name, json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_waits_and_one_that_settles_keep_the_contract() {
    let open = || Arc::new(tokio::sync::Semaphore::new(100_000));
    Contract::new(|| PolicyLayer::new(Both { waits: true, gate: open(), ..Both::default() })).check().await;
    Contract::new(|| PolicyLayer::new(Both { settles: true, gate: open(), ..Both::default() })).changes_results().check().await;
}

#[tokio::test]
async fn a_wait_can_let_through_refuse_and_answer_and_must_decide() {
    let policy = Both { waits: true, gate: Arc::new(tokio::sync::Semaphore::new(100)), ..Both::default() };
    let ends = Arc::clone(&policy.ends);
    let probe = Probe::new();
    let tools = ["through", "refused", "answered", "undecided"].iter().fold(Router::new(), |tools, name| tools.tool(probe.tool(name)));
    let stack = PolicyLayer::new(policy).layer(tools);

    assert_eq!(stack.run_call(call("through")).await.outcome(), Outcome::Completed);
    assert_eq!(stack.run_call(call("refused")).await.outcome(), Outcome::Refused(RefusalKind::Denied));
    let answered = stack.run_call(call("answered")).await;
    assert_eq!(answered.result().unwrap().served_by(), Some("both"));
    assert_eq!(stack.run_call(call("undecided")).await.outcome(), Outcome::Refused(RefusalKind::Internal));
    assert_eq!(probe.runs(), 1);
    assert_eq!(*ends.lock().unwrap(), [Outcome::Completed]);
}

/// Waits, and does not say that it may.
struct WaitsUnsaid;

impl Policy for WaitsUnsaid {
    type State = ();

    fn note(&self) -> Option<Note> {
        None
    }

    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        Step::Wait
    }

    fn wait<'a>(&'a self, _: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step> {
        Box::pin(std::future::ready(Step::Pass))
    }
}

#[tokio::test]
async fn a_policy_that_waits_without_saying_that_it_may_is_refused() {
    let probe = Probe::new();
    let stack = PolicyLayer::new(WaitsUnsaid).layer(Router::new().tool(probe.tool("work")));
    assert_eq!(stack.run_call(call("work")).await.outcome(), Outcome::Refused(RefusalKind::Internal));
    assert_eq!(stack.list_tools().await.refusal().unwrap().kind(), RefusalKind::Internal);
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn a_call_dropped_while_its_policy_waits_never_runs_and_never_ends() {
    let policy = Both { waits: true, ..Both::default() };
    let ends = Arc::clone(&policy.ends);
    let probe = Probe::new();
    let stack = PolicyLayer::new(policy).layer(Router::new().tool(probe.tool("through")));

    let mut waiting = Box::pin(stack.run_call(call("through")));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    assert_eq!((probe.runs(), ends.lock().unwrap().len()), (0, 0));
}

#[tokio::test]
async fn a_response_settles_before_the_caller_gets_it_and_ends_once() {
    let policy = Both { settles: true, ..Both::default() };
    let (ends, gate) = (Arc::clone(&policy.ends), Arc::clone(&policy.gate));
    let stack = PolicyLayer::new(policy).layer(Router::new().tool(Probe::new().tool("through")));

    let mut settling = Box::pin(stack.run_call(call("through")));
    assert!(settling.as_mut().now_or_never().is_none());
    assert!(ends.lock().unwrap().is_empty());
    gate.add_permits(1);
    assert_eq!(settling.await.as_text().as_deref(), Some("ok\nsettled"));
    assert_eq!(*ends.lock().unwrap(), [Outcome::Completed]);
}

#[tokio::test]
async fn a_call_dropped_while_its_response_settles_ends_as_cancelled() {
    let policy = Both { settles: true, ..Both::default() };
    let ends = Arc::clone(&policy.ends);
    let stack = PolicyLayer::new(policy).layer(Router::new().tool(Probe::new().tool("through")));

    let mut settling = Box::pin(stack.run_call(call("through")));
    assert!(settling.as_mut().now_or_never().is_none());
    drop(settling);
    assert_eq!(*ends.lock().unwrap(), [Outcome::Cancelled]);
}

#[tokio::test]
async fn each_way_to_end_is_told_once() {
    let policy = Both::default();
    let ends = Arc::clone(&policy.ends);
    let controlled = Controlled::new();
    let panics = Probe::answering(|_| panic!("as it was told to"));
    let fails = Probe::answering(|_| ToolResponse::error("no"));
    let router = Router::new().tool(controlled.tool("held")).tool(panics.tool("panics")).tool(fails.tool("fails"));
    let strict = Strict::new(router);
    let stack = PolicyLayer::new(policy).layer(strict.clone());

    stack.run_call(call("fails")).await;
    stack.run_call(call("panics")).await;
    stack.run_call(call("no_such_tool")).await;
    let mut held = Box::pin(stack.run_call(call("held")));
    assert!(held.as_mut().now_or_never().is_none());
    drop(held);
    drop(stack.clone().oneshot(call("held")));
    strict.behave(Behaviour::Fail);
    stack.run_call(call("fails")).await;
    for behaviour in [Behaviour::PanicInCall, Behaviour::PanicInFuture] {
        strict.behave(behaviour);
        stack.run_call(call("fails")).await;
    }
    let internal = Outcome::Refused(RefusalKind::Internal);
    let unknown = Outcome::Refused(RefusalKind::UnknownTool);
    assert_eq!(*ends.lock().unwrap(), [Outcome::ToolError, internal, unknown, Outcome::Cancelled, internal, internal, internal]);
}

#[tokio::test]
async fn a_description_is_not_the_policy_s_business() {
    let policy = Both::default();
    let began = Arc::clone(&policy.began);
    let stack = PolicyLayer::new(policy).layer(Router::new());
    assert_eq!(stack.describe().await.layers()[0].name(), "both");
    assert_eq!(began.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_policy_that_is_left_out_is_as_if_it_were_not_there() {
    let left_out = PolicyLayer::new(None::<Both>);
    Contract::new(|| PolicyLayer::new(Some(Both::default()))).check().await;
    let limited = tower::limit::ConcurrencyLimitLayer::new(1).layer(Router::new().tool(Probe::new().tool("through")));
    let mut held = limited.clone();
    std::future::poll_fn(|cx| tower::Service::<ToolCall>::poll_ready(&mut held, cx)).await.unwrap();

    let mut stack = left_out.layer(limited.clone());
    let ready = std::future::poll_fn(|cx| std::task::Poll::Ready(tower::Service::<ToolCall>::poll_ready(&mut stack, cx))).await;
    assert!(ready.is_pending(), "a layer that is left out is as ready as what is within");
    drop((held, stack));
    let stack = left_out.layer(limited);
    assert!(stack.run_call(call("through")).await.is_completed());
    assert!(stack.describe().await.layers().iter().all(|note| note.name() != "both"));

    let there = Both { waits: true, gate: Arc::new(tokio::sync::Semaphore::new(1)), ..Both::default() };
    let ends = Arc::clone(&there.ends);
    let stack = PolicyLayer::new(Some(there)).layer(Router::new().tool(Probe::new().tool("through")));
    assert!(stack.run_call(call("through")).await.is_completed());
    assert_eq!(stack.describe().await.layers()[0].name(), "both");
    assert_eq!(*ends.lock().unwrap(), [Outcome::Completed]);
}

#[tokio::test]
async fn what_is_dropped_before_its_first_poll_ends_though_nothing_within_was_ready() {
    let both = Both::default();
    let (ends, began) = (Arc::clone(&both.ends), Arc::clone(&both.began));
    let strict = Strict::with_capacity(Router::new().tool(Probe::new().tool("through")), 0);
    let mut stack = PolicyLayer::new(both).layer(strict);
    let stack = ServiceExt::<ToolCall>::ready(&mut stack).await.unwrap();
    drop(stack.call(call("through")));
    assert_eq!((began.load(Ordering::SeqCst), ends.lock().unwrap().as_slice()), (1, &[Outcome::Cancelled][..]));
}

/// Writes down which tool it was shown, and judges nothing.
#[derive(Default)]
struct Looks(Arc<Mutex<Vec<Option<String>>>>);

impl Policy for Looks {
    type State = ();

    const OBSERVES: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new("looks"))
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step {
        if let View::Call(_) = request {
            self.0.lock().unwrap().push(site.tool.map(|tool| tool.spec().name.to_string()));
        }
        Step::Continue(())
    }
}

#[tokio::test]
async fn a_policy_that_only_looks_sees_the_tool_and_binds_the_call_to_none() {
    let looks = Looks::default();
    let seen = Arc::clone(&looks.0);
    let stack = tower::ServiceBuilder::new()
        .layer(PolicyLayer::new(looks))
        .layer(toolstack::layer::map_call("rename", |call: &mut ToolCall| call.rename("other")))
        .service(Router::new().tool(Probe::new().tool("one")).tool(Probe::new().tool("other")));
    assert!(stack.run_call(call("one")).await.is_completed(), "the call may become another tool's after it was looked at");
    assert!(stack.run_call(call("none")).await.is_completed());
    assert_eq!(*seen.lock().unwrap(), [Some("one".to_owned()), None]);
}

/// Answers all but descriptions while it is mute.
#[derive(Clone)]
struct Mute(Router, Arc<AtomicUsize>);

impl<Op> Service<Op> for Mute
where
    Op: Operation,
    Router: Service<Op, Response = Op::Response, Error = Infallible, Future: Send + 'static>,
{
    type Response = Op::Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Op::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Router as Service<Op>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, mut request: Op) -> Self::Future {
        if matches!(request.view(), View::Describe(_)) && self.1.load(Ordering::SeqCst) > 0 {
            return Box::pin(std::future::ready(Ok(Op::refuse(Refusal::internal("mute")))));
        }
        Box::pin(self.0.call(request))
    }
}

#[tokio::test]
async fn a_policy_that_only_looks_lets_calls_through_where_nothing_is_described() {
    let looks = Looks::default();
    let seen = Arc::clone(&looks.0);
    let mute = Arc::new(AtomicUsize::new(1));
    let stack = PolicyLayer::new(looks).layer(Mute(Router::new().tool(Probe::new().tool("one")), Arc::clone(&mute)));
    assert!(stack.run_call(call("one")).await.is_completed());
    mute.store(0, Ordering::SeqCst);
    assert!(stack.run_call(call("one")).await.is_completed());
    assert_eq!(*seen.lock().unwrap(), [None, Some("one".to_owned())]);
}
