//! What every row is tried on: one tool, and every way in which a program reaches it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
    error::refusal_of,
    middleware::{Next, from_fn},
    model::{Arguments, Context, Outcome, ToolName, ToolSpec},
    stack::{Reentry, ToolStack},
    tool::{Handler, Tool, ToolFuture, tool_fn},
};
use tower::{ServiceBuilder, ServiceExt};

/// Longer than anything takes here, unless it hangs.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3600);

/// A tool that does what its arguments say, and counts. Clones count together.
#[derive(Clone, Default)]
pub(super) struct Work(Arc<Counts>);

#[derive(Default)]
struct Counts {
    runs: AtomicUsize,
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// What a call asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Job {
    fail: bool,
    /// Fails in this many of the first runs.
    fail_first: usize,
    panic: bool,
    sleep_ms: u64,
    yields: usize,
}

struct Running(Work);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Work {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// How often it ran.
    pub(super) fn runs(&self) -> usize {
        self.0.runs.load(Ordering::SeqCst)
    }

    /// How many calls run now.
    pub(super) fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    /// How many calls ran at once, at the most.
    pub(super) fn peak(&self) -> usize {
        self.0.peak.load(Ordering::SeqCst)
    }

    pub(super) fn tool(&self) -> Tool<Self> {
        Tool::new(ToolSpec::new(ToolName::new("work").unwrap()), self.clone())
    }

    async fn run(self, arguments: Arguments) -> ToolResponse {
        let job: Job = arguments.deserialize().unwrap();
        let run = self.0.runs.fetch_add(1, Ordering::SeqCst);
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.peak.fetch_max(now, Ordering::SeqCst);
        let _running = Running(self);
        for _ in 0..job.yields {
            tokio::task::yield_now().await;
        }
        if job.sleep_ms > 0 {
            tokio::time::sleep(Duration::from_millis(job.sleep_ms)).await;
        }
        assert!(!job.panic, "as it was told");
        if job.fail || run < job.fail_first {
            return ToolResponse::error("as it was told");
        }
        ToolResponse::text(format!("did {}", arguments.as_json().unwrap()))
    }
}

impl Handler for Work {
    fn call(&self, call: ToolCall) -> ToolFuture {
        ToolFuture::new(self.clone().run(call.arguments))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("runs", &self.runs()).finish_non_exhaustive()
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Relay {
    tool: String,
    arguments: Value,
}

/// A tool that calls the tool that it is told to.
pub(super) fn relay() -> Tool {
    tool_fn("relay", |stack: Reentry, args: Relay| async move { stack.call_tool(args.tool, args.arguments).await }).boxed()
}

type Enter = Box<dyn Fn(ToolCall) -> BoxFuture<'static, ToolResponse> + Send + Sync>;

/// A row's layer at one place in a stack, with every way to the tool.
pub(super) struct Place {
    name: &'static str,
    tool: &'static str,
    /// Whether a call that a tool makes needs a second permit of the layer.
    relay_within: bool,
    pub(super) work: Work,
    entries: Vec<(&'static str, Enter)>,
    pub(super) stack: Stack,
}

impl Place {
    pub(super) fn new<S: ToolStack>(name: &'static str, tool: &'static str, relay_within: bool, work: &Work, service: S) -> Self {
        let stack = Stack::new(service.clone());
        let direct = service.clone();
        let run_call: Enter = Box::new(move |call| Box::pin(direct.run_call(call)));
        let service_call: Enter = Box::new(move |call| {
            let answer = service.clone().oneshot(call);
            Box::pin(async move { answer.await.unwrap_or_else(|error| ToolResponse::refused(refusal_of(error.into(), None))) })
        });
        Self::with(name, tool, relay_within, work, stack, vec![("run_call", run_call), ("Service::call", service_call)])
    }

    /// What does not depend on the layer's type is compiled once.
    fn with(
        name: &'static str,
        tool: &'static str,
        relay_within: bool,
        work: &Work,
        stack: Stack,
        mut entries: Vec<(&'static str, Enter)>,
    ) -> Self {
        let entry = stack.clone();
        entries.push(("Stack", Box::new(move |call| Box::pin(entry.run_call(call)))));
        let entry = stack.clone();
        entries.push((
            "run_calls",
            Box::new(move |call| {
                let answers = entry.run_calls(vec![call]);
                Box::pin(async move { answers.await.remove(0).response })
            }),
        ));
        let entry = stack.clone();
        entries.push((
            "Reentry",
            Box::new(move |call| {
                let arguments: Value = call.arguments.deserialize().unwrap();
                Box::pin(entry.call_tool("relay", json!({ "tool": call.name().as_str(), "arguments": arguments })))
            }),
        ));
        Self { name, tool, relay_within, work: work.clone(), entries, stack }
    }

    pub(super) fn call(&self, arguments: Value) -> ToolCall {
        ToolCall::new(self.tool, arguments)
    }

    /// Every way in at which a layer that lets one call through at a time does not wait for itself.
    fn entries_for_one(&self) -> Vec<&(&'static str, Enter)> {
        self.entries.iter().filter(|(entry, _)| !(self.relay_within && *entry == "Reentry")).collect()
    }

    async fn enter(&self, entry: &(&'static str, Enter), arguments: Value) -> ToolResponse {
        let answer = tokio::time::timeout(LONG, entry.1(self.call(arguments))).await;
        answer.unwrap_or_else(|_| panic!("{} hangs through {}", self.name, entry.0))
    }

    /// Calls arrive as they were made and come back, through every entry; lists and the description are there.
    pub(super) async fn passes(&self) {
        for (n, entry) in self.entries.iter().enumerate() {
            let arguments = json!({ "n": n, "big": 9_007_199_254_740_993_u64 });
            let before = self.work.runs();
            let answer = self.enter(entry, arguments.clone()).await;
            let at = format!("{} through {}", self.name, entry.0);
            assert!(answer.is_completed(), "{at}: {answer:?}");
            assert_eq!(answer.as_text().unwrap(), format!("did {arguments}"), "{at}");
            assert_eq!(self.work.runs(), before + 1, "{at}: the tool runs once");
        }
        let mut names = ["relay", self.tool];
        names.sort_unstable();
        let list = self.stack.list_tools().await;
        assert!(list.refusal().is_none(), "{}: {:?}", self.name, list.refusal());
        assert_eq!(list.names().collect::<Vec<_>>(), names, "{}", self.name);
        let description = self.stack.describe().await;
        assert!(description.refusal().is_none(), "{}: {:?}", self.name, description.refusal());
        assert_eq!(description.tools().len(), 2, "{}", self.name);
        assert_eq!(self.work.now(), 0, "{}", self.name);
    }

    /// The call is refused, through every entry, and a good one passes afterwards.
    pub(super) async fn refuses(&self, arguments: &Value, kind: RefusalKind) {
        for entry in &self.entries {
            let answer = self.enter(entry, arguments.clone()).await;
            self.is_refused(entry.0, &answer, kind);
            assert_eq!(self.work.now(), 0, "{} through {}: nothing runs behind the answer", self.name, entry.0);
            let answer = self.enter(entry, json!({ "after": entry.0 })).await;
            assert!(answer.is_completed(), "{} through {}, afterwards: {answer:?}", self.name, entry.0);
        }
    }

    fn is_refused(&self, entry: &str, answer: &ToolResponse, kind: RefusalKind) {
        assert_eq!(answer.outcome(), Outcome::from(kind), "{} through {entry}: {answer:?}", self.name);
        let text = answer.as_text().unwrap_or_default();
        assert!(!text.contains("hunter2"), "{} through {entry} tells the model: {text}", self.name);
    }

    /// While one call runs, further ones are refused through every entry; when it is dropped, they pass.
    pub(super) async fn refuses_while_one_runs(&self, kind: RefusalKind) {
        for holder in self.entries_for_one() {
            {
                let mut first = holder.1(self.call(json!({ "sleep_ms": LONG.as_millis() as u64 })));
                assert!(futures_util::poll!(&mut first).is_pending());
                // What stands behind a queue of a worker is begun by the worker.
                while self.work.now() == 0 {
                    assert!(futures_util::poll!(&mut first).is_pending(), "{} through {}", self.name, holder.0);
                    tokio::task::yield_now().await;
                }
                for entry in &self.entries {
                    self.is_refused(entry.0, &self.enter(entry, json!({})).await, kind);
                }
            }
            // A worker notices on its next turn that nobody waits any more.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!(self.work.now(), 0, "{} through {}: the first call is dropped", self.name, holder.0);
            for entry in self.entries_for_one() {
                let answer = self.enter(entry, json!({})).await;
                assert!(answer.is_completed(), "{} through {}, afterwards: {answer:?}", self.name, entry.0);
            }
        }
    }

    /// After some calls through the first entry, everybody is refused.
    pub(super) async fn refuses_after(&self, before: &[Value], kind: RefusalKind) {
        for arguments in before {
            let answer = self.enter(&self.entries[0], arguments.clone()).await;
            assert!(answer.refusal().is_none(), "{}: {answer:?}", self.name);
        }
        for entry in &self.entries {
            self.is_refused(entry.0, &self.enter(entry, json!({})).await, kind);
        }
        assert_eq!(self.work.runs(), before.len(), "{}: no refused call runs", self.name);
    }

    /// Fifty calls at once, through every entry in turn: never two at a time, and each is answered.
    pub(super) async fn runs_one_at_a_time(&self) {
        const CALLS: usize = 50;

        let entries = self.entries_for_one();
        let calls = (0..CALLS).map(|n| self.enter(entries[n % entries.len()], json!({ "n": n, "sleep_ms": 2, "yields": 2 })));
        let answers = join_all(calls).await;
        assert!(answers.iter().all(ToolResponse::is_completed), "{}: {answers:?}", self.name);
        assert_eq!((self.work.runs(), self.work.peak(), self.work.now()), (CALLS, 1, 0), "{}", self.name);

        let turn = (0..CALLS).map(|n| self.call(json!({ "turn": n, "sleep_ms": 1 })).with_id(n.to_string())).collect();
        let answers = toolstack::run::Turn::new().at_once(CALLS).run(&self.stack, turn).await;
        assert!(answers.iter().enumerate().all(|(n, answer)| answer.id == n.to_string().into() && answer.response.is_completed()));
        assert_eq!(self.work.peak(), 1, "{}: within one turn", self.name);
    }

    /// The same from several threads: tasks of their own, each with a clone.
    pub(super) async fn runs_one_at_a_time_on_threads(&self) {
        let tasks = (0..50).map(|n| {
            let (stack, call) = (self.stack.clone(), self.call(json!({ "n": n, "yields": 5 })));
            tokio::spawn(async move { stack.run_call(call).await })
        });
        let answers = join_all(tasks).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_completed()), "{}: {answers:?}", self.name);
        assert_eq!((self.work.runs(), self.work.peak()), (50, 1), "{}", self.name);
    }

    /// Fifty calls, through every entry in turn, take so long.
    pub(super) async fn fifty_take(&self, time: Duration) {
        let entries = self.entries_for_one();
        let began = Instant::now();
        let answers = join_all((0..50).map(|n| self.enter(entries[n % entries.len()], json!({ "n": n })))).await;
        assert!(answers.iter().all(ToolResponse::is_completed), "{}: {answers:?}", self.name);
        assert!(began.elapsed() >= time, "{}: {:?}", self.name, began.elapsed());
    }

    /// The same call through every entry, one after the other, runs once.
    pub(super) async fn runs_once(&self, arguments: &Value) {
        for entry in &self.entries {
            let answer = self.enter(entry, arguments.clone()).await;
            assert!(answer.is_completed(), "{} through {}: {answer:?}", self.name, entry.0);
        }
        assert_eq!(self.work.runs(), 1, "{}", self.name);
    }

    /// The same call through every entry at once runs once.
    pub(super) async fn runs_once_at_once(&self, arguments: &Value) {
        let answers = join_all(self.entries_for_one().into_iter().map(|entry| self.enter(entry, arguments.clone()))).await;
        assert!(answers.iter().all(ToolResponse::is_completed), "{}: {answers:?}", self.name);
        assert_eq!(self.work.runs(), 1, "{}", self.name);
    }

    /// One call through every entry ends like this, after the tool ran so often. Where a tool that calls the tool passes the layer too,
    /// it does so as often for each of its own runs.
    pub(super) async fn ends(&self, arguments: &Value, outcome: Outcome, runs: usize) {
        for entry in self.entries_for_one() {
            let before = self.work.runs();
            let answer = self.enter(entry, arguments.clone()).await;
            assert_eq!(answer.outcome(), outcome, "{} through {}: {answer:?}", self.name, entry.0);
            assert_eq!(self.work.runs() - before, runs, "{} through {}", self.name, entry.0);
        }
    }

    /// One call through every entry reads like this.
    pub(super) async fn reads(&self, arguments: &Value, text: &str) {
        for entry in &self.entries {
            let answer = self.enter(entry, arguments.clone()).await;
            assert_eq!(answer.as_text().as_deref(), Some(text), "{} through {}", self.name, entry.0);
        }
    }
}

/// The router that stacks are put around.
pub(super) fn tools(work: &Work) -> Router {
    Router::new().tool(work.tool()).tool(relay())
}

pub(super) async fn ask(_: ToolCall) -> Result<(), Refusal> {
    tokio::task::yield_now().await;
    Ok(())
}

pub(super) fn keep(_: &mut ToolCall) {}

pub(super) async fn pass_on<E>(call: ToolCall, next: Next<E>) -> Result<ToolResponse, E> {
    next.run(call).await
}

pub(super) fn show(_: &ToolSpec, _: &Context) -> bool {
    true
}

/// Layers of ours for a layer to stand around.
pub(super) fn ours(work: &Work) -> Stack {
    ServiceBuilder::new()
        .catch_error()
        .visibility(show)
        .layer(from_fn(pass_on))
        .call_timeout(LONG)
        .map_call("keep", keep)
        .catch_panic()
        .service(tools(work))
        .into_stack()
}

pub(super) fn is_stack<S: ToolStack>(_: S) {}

/// The layer at every place: alone, between our layers, around a nested router, and around one tool.
///
/// The layer is an expression, so that each place makes one of its own type. Further places are checked by the compiler alone: the
/// closure that names them never runs, and costs no time to build.
macro_rules! places {
    ($layer:expr) => {{
        let _ = || {
            let inside = ServiceBuilder::new().catch_panic().visibility(show).map_call("keep", keep).call_timeout(LONG);
            is_stack(inside.layer(from_fn(pass_on)).catch_error().layer($layer).service(Router::new()));
            let outside = ServiceBuilder::new().layer($layer).visibility(show).layer(from_fn(pass_on)).gate_async("ask", ask);
            is_stack(outside.call_timeout(LONG).catch_panic().service(Router::new()));
        };
        let work = [(); 4].map(|()| Work::new());
        let between = ServiceBuilder::new().gate_async("ask", ask).layer($layer).service(ours(&work[1]));
        let nested = Router::new().tool(work[2].tool()).layer($layer);
        let tool = work[3].tool().layer($layer);
        [
            Place::new("alone", "work", true, &work[0], ServiceBuilder::new().layer($layer).service(tools(&work[0]))),
            Place::new("between", "work", true, &work[1], between),
            Place::new("around a nested router", "n.work", false, &work[2], Router::new().tool(relay()).nest("n", nested)),
            Place::new("around a tool", "work", false, &work[3], Router::new().tool(relay()).tool(tool)),
        ]
    }};
}

/// Rows that run one check of [`Place`] at every place.
macro_rules! rows {
    ($($(#[$meta:meta])* $name:ident: $layer:expr => $check:ident($($argument:expr),*);)*) => {$(
        $(#[$meta])*
        #[tokio::test(start_paused = true)]
        async fn $name() {
            for place in places!($layer) {
                place.$check($($argument),*).await;
            }
        }
    )*};
}

pub(super) use {places, rows};
