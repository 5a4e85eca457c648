//! Layers that are wrong in one way each, as layers out there are, and the laws that they break.

use std::{
    collections::HashMap,
    future::pending,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::Value;
use toolstack::{
    BoxError, Refusal, RefusalKind, ToolCall, ToolResponse,
    describe::Note,
    layer::{CatchErrorLayer, Ending, Policy, PolicyLayer, Site, Step, calls, map_call, map_list, map_result},
    model::{Context as Carried, Progress, ToolResult},
    operation::{Operation, Reply, View},
    testing::{Contract, Strict, StrictError},
};
use tower::{
    Service,
    layer::layer_fn,
    limit::ConcurrencyLimitLayer,
    retry::RetryLayer,
    util::{MapErrLayer, MapResultLayer},
};

/// A hand-written service around `inner`, with fields of its own.
macro_rules! service {
    (
        $(#[$meta:meta])*
        $name:ident { $($field:ident: $type:ty),* }
        poll_ready: |$this:ident, $cx:ident| $ready:expr;
        call: |$that:ident, $request:ident| $call:expr;
    ) => {
        $(#[$meta])*
        struct $name<S> {
            inner: S,
            $($field: $type,)*
        }

        impl<S> $name<S> {
            fn new(inner: S) -> Self {
                Self { inner, $($field: Default::default(),)* }
            }
        }

        impl<S, Op> Service<Op> for $name<S>
        where
            Op: Operation,
            S: Service<Op, Response = Op::Response, Future: Send, Error: Send> + Clone + Send + 'static,
        {
            type Response = Op::Response;
            type Error = S::Error;
            type Future = BoxFuture<'static, Result<Op::Response, S::Error>>;

            fn poll_ready(&mut self, $cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
                let $this = self;
                $ready
            }

            fn call(&mut self, $request: Op) -> Self::Future {
                let $that = self;
                $call
            }
        }
    };
}

macro_rules! breaks {
    ($($name:ident: [$($law:literal),*] $contract:expr;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let broken = $contract.broken().await;
            let laws: Vec<&str> = broken.iter().map(|broken| broken.law).collect();
            assert_eq!(laws, [$($law),*], "{broken:#?}");
        }
    )*};
}

/// A contract for a hand-written service.
macro_rules! of {
    ($name:ident) => {
        Contract::new(|| layer_fn($name::<Strict>::new))
    };
}

service! {
    #[derive(Clone)]
    FreshClone {}
    poll_ready: |this, cx| this.inner.poll_ready(cx);
    call: |this, request| {
        let mut fresh = this.inner.clone();
        Box::pin(async move { fresh.call(request).await })
    };
}

service! {
    #[derive(Clone)]
    ClonedReadiness { is_ready: bool }
    poll_ready: |this, cx| {
        if !this.is_ready {
            ready!(this.inner.poll_ready(cx))?;
            this.is_ready = true;
        }
        Poll::Ready(Ok(()))
    };
    call: |this, request| {
        this.is_ready = false;
        Box::pin(this.inner.call(request))
    };
}

service! {
    #[derive(Clone)]
    SwallowsReadiness {}
    poll_ready: |this, cx| {
        let _ = ready!(this.inner.poll_ready(cx));
        Poll::Ready(Ok(()))
    };
    call: |this, request| Box::pin(this.inner.call(request));
}

service! {
    #[derive(Clone)]
    NeverPolls {}
    poll_ready: |_this, _cx| Poll::Ready(Ok(()));
    call: |this, request| Box::pin(this.inner.call(request));
}

service! {
    /// Shows that it is ready without being so, and is called then.
    #[derive(Clone)]
    Impatient {}
    poll_ready: |this, cx| {
        let _ = this.inner.poll_ready(cx)?;
        Poll::Ready(Ok(()))
    };
    call: |this, request| Box::pin(this.inner.call(request));
}

service! {
    /// Polls what is within without leaving a waker, so that nothing wakes it.
    #[derive(Clone)]
    LosesTheWaker {}
    poll_ready: |this, _cx| this.inner.poll_ready(&mut Context::from_waker(futures_util::task::noop_waker_ref()));
    call: |this, request| Box::pin(this.inner.call(request));
}

service! {
    /// Takes a new permit each time it is polled.
    PollsTwice { polled: Vec<S> }
    poll_ready: |this, cx| {
        let mut fresh = this.inner.clone();
        ready!(fresh.poll_ready(cx))?;
        this.polled.push(fresh);
        Poll::Ready(Ok(()))
    };
    call: |this, request| Box::pin(this.polled.remove(0).call(request));
}

impl<S: Clone> Clone for PollsTwice<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), polled: Vec::new() }
    }
}

service! {
    /// Tidies up in the background: what it did not call is kept by a task for an hour.
    #[derive(Clone)]
    LeavesATask {}
    poll_ready: |this, cx| this.inner.poll_ready(cx);
    call: |this, request| {
        let fresh = this.inner.clone();
        let mut parting = Parting(Some(std::mem::replace(&mut this.inner, fresh)));
        Box::pin(async move {
            tokio::task::yield_now().await;
            let mut polled = parting.0.take().unwrap();
            polled.call(request).await
        })
    };
}

struct Parting<S: Send + 'static>(Option<S>);

impl<S: Send + 'static> Drop for Parting<S> {
    fn drop(&mut self) {
        if let Some(polled) = self.0.take() {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                drop(polled);
            });
        }
    }
}

service! {
    #[derive(Clone)]
    Spawns {}
    poll_ready: |this, cx| this.inner.poll_ready(cx);
    call: |this, request| {
        let running = tokio::spawn(this.inner.call(request));
        Box::pin(async move {
            match running.await {
                Ok(result) => result,
                Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
            }
        })
    };
}

service! {
    /// Thinks for a minute with the permit in its hands.
    #[derive(Clone)]
    WaitsWithThePermit {}
    poll_ready: |this, cx| this.inner.poll_ready(cx);
    call: |this, request| {
        let fresh = this.inner.clone();
        let mut polled = std::mem::replace(&mut this.inner, fresh);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            polled.call(request).await
        })
    };
}

service! {
    #[derive(Clone)]
    NeverEnds {}
    poll_ready: |this, cx| this.inner.poll_ready(cx);
    call: |this, request| {
        let call = this.inner.call(request);
        Box::pin(async move {
            let _ = call.await;
            pending().await
        })
    };
}

service! {
    /// Answers a panic with what there is, and there is nothing.
    #[derive(Clone)]
    SwallowsPanics {}
    poll_ready: |this, cx| this.inner.poll_ready(cx);
    call: |this, request| {
        let inner = &mut this.inner;
        let call = std::panic::catch_unwind(AssertUnwindSafe(|| inner.call(request)));
        Box::pin(async move {
            let result = match call {
                Ok(call) => AssertUnwindSafe(call).catch_unwind().await,
                Err(panic) => Err(panic),
            };
            result.unwrap_or_else(|_| Ok(empty::<Op>()))
        })
    };
}

fn empty<Op: Operation>() -> Op::Response {
    let mut response = Op::refuse(Refusal::internal("panicked"));
    if let Reply::Call(response) = Op::reply(&mut response) {
        *response = ToolResponse::text("");
    }
    response
}

service! {
    /// Counts under a lock that a panic poisons.
    #[derive(Clone)]
    Poisoned { counter: Arc<Mutex<u64>> }
    poll_ready: |this, cx| this.inner.poll_ready(cx);
    call: |this, request| {
        let mut counter = this.counter.lock().unwrap();
        *counter += 1;
        Box::pin(this.inner.call(request))
    };
}

fn changing(change: impl Fn(&mut ToolResponse) + Send + Sync + 'static) -> PolicyLayer<Changing<impl Fn(&mut ToolResponse)>> {
    PolicyLayer::new(Changing(change))
}

/// Changes responses of any kind.
struct Changing<F>(F);

impl<F: Fn(&mut ToolResponse) + Send + Sync + 'static> Policy for Changing<F> {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("changing"))
    }

    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        Step::Continue(())
    }

    fn after(&self, (): (), ending: Ending<'_>) {
        if let Ending::Reply(Reply::Call(response)) = ending {
            (self.0)(response);
        }
    }
}

/// Says nothing of itself.
struct Nameless;

impl Policy for Nameless {
    type State = ();

    fn note(&self) -> Option<Note> {
        None
    }

    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        Step::Pass
    }
}

/// Does something to lists.
struct Lists(fn(&mut Carried) -> Step);

impl Policy for Lists {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("lists"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::List(list) => (self.0)(&mut list.context),
            _ => Step::Pass,
        }
    }
}

/// Keeps every response by the arguments.
#[derive(Default)]
struct KeepsAll(Mutex<HashMap<String, ToolResponse>>);

impl Policy for KeepsAll {
    type State = String;

    fn note(&self) -> Option<Note> {
        Some(Note::new("keeps_all"))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step<String> {
        let View::Call(call) = request else { return Step::Pass };
        let key = call.arguments.as_json().unwrap().to_owned();
        match self.0.lock().unwrap().get(&key) {
            Some(response) => Step::answer(response.clone()),
            None => Step::Continue(key),
        }
    }

    fn after(&self, key: String, ending: Ending<'_>) {
        if let Ending::Reply(Reply::Call(response)) = ending {
            self.0.lock().unwrap().insert(key, response.clone());
        }
    }
}

/// Calls once more: always, or after whatever is an error.
#[derive(Clone)]
struct Again {
    always: bool,
    left: usize,
}

impl tower::retry::Policy<ToolCall, ToolResponse, StrictError> for Again {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut ToolCall, result: &mut Result<ToolResponse, StrictError>) -> Option<Self::Future> {
        let again = self.left > 0 && (self.always || result.as_ref().is_ok_and(|response| response.outcome().is_error()));
        self.left = self.left.saturating_sub(1);
        again.then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, call: &ToolCall) -> Option<ToolCall> {
        Some(call.clone())
    }
}

/// Takes no result for an empty one.
fn found_nothing(result: Result<ToolResponse, StrictError>) -> Result<ToolResponse, StrictError> {
    Ok(result.unwrap_or_else(|_| ToolResponse::text("nothing found")))
}

/// Makes a result of the text of another.
fn rebuild(result: &mut ToolResult) {
    *result = ToolResult::text(result.as_text().unwrap_or_default());
}

fn through_floats(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.iter_mut().for_each(through_floats),
        Value::Object(fields) => fields.values_mut().for_each(through_floats),
        _ => {}
    }
}

// What is within is polled, and the one that was polled is called.
breaks! {
    a_layer_that_calls_a_fresh_clone:
        ["all operations", "ready instance", "readiness passes or waits", "dropped anywhere", "together"]
        of!(FreshClone);
    a_layer_whose_clones_think_they_are_ready:
        ["ready instance"]
        of!(ClonedReadiness);
    a_layer_that_swallows_readiness_errors:
        ["readiness errors"]
        of!(SwallowsReadiness);
    a_layer_that_never_polls:
        ["all operations", "ready instance", "readiness passes or waits", "readiness errors", "dropped anywhere", "together"]
        of!(NeverPolls);
    a_layer_that_does_not_wait:
        ["readiness passes or waits", "together"]
        of!(Impatient);
    a_layer_that_loses_the_waker:
        ["together"]
        of!(LosesTheWaker);
    a_layer_that_takes_two_permits:
        ["dropped uncalled", "together"]
        of!(PollsTwice);
    a_layer_that_waits_with_the_permit:
        ["waits empty-handed"]
        of!(WaitsWithThePermit);
    a_layer_that_lets_one_call_run_at_a_time:
        ["ready instance", "together"]
        Contract::new(|| ConcurrencyLimitLayer::new(1));
}

// What ends, ends.
breaks! {
    a_layer_that_leaves_a_task:
        ["dropped anywhere"]
        of!(LeavesATask);
    a_layer_that_spawns:
        ["dropped is cancelled"]
        of!(Spawns);
    a_layer_that_never_ends:
        [
            "transparent", "exact", "interim", "refusals pass", "all operations", "ready instance", "readiness passes or waits",
            "waits empty-handed", "readiness errors", "errors pass", "dropped uncalled", "dropped anywhere", "dropped is cancelled",
            "panics", "together"
        ]
        of!(NeverEnds);
    a_layer_that_is_poisoned_by_a_panic:
        ["panics"]
        of!(Poisoned);
    a_layer_that_makes_a_success_of_a_panic:
        ["panics"]
        of!(SwallowsPanics);
}

// Errors stay what they are.
breaks! {
    a_layer_that_turns_errors_into_others:
        ["readiness errors", "errors pass"]
        Contract::new(|| MapErrLayer::new(|_: StrictError| BoxError::from("something went wrong")));
    a_layer_that_makes_a_success_of_an_error:
        ["errors pass"]
        Contract::new(|| calls(MapResultLayer::new(found_nothing)));
    a_layer_that_closes_errors_and_does_not_say_so:
        ["readiness errors", "errors pass"]
        Contract::new(CatchErrorLayer::new);
    a_layer_that_says_it_closes_errors_and_makes_a_success_of_them:
        ["errors pass"]
        Contract::new(|| calls(MapResultLayer::new(found_nothing))).closes_errors();
}

// Responses stay what they are.
breaks! {
    a_layer_that_rebuilds_results_from_their_text:
        ["exact", "refusals pass"]
        Contract::new(|| map_result("rebuilds", rebuild));
    a_layer_that_says_it_changes_results_and_makes_a_success_of_an_error:
        ["exact", "refusals pass"]
        Contract::new(|| map_result("rebuilds", rebuild)).changes_results();
    a_layer_that_rebuilds_results_through_json:
        ["exact", "refusals pass"]
        Contract::new(|| changing(|response| *response = serde_json::from_str(&serde_json::to_string(response).unwrap()).unwrap()));
    a_layer_that_loses_the_refusal:
        ["refusals pass"]
        Contract::new(|| {
            map_result("loses", |result| {
                if result.refusal().is_some() {
                    *result = ToolResult::error(result.as_text().unwrap_or_default());
                }
            })
        });
    a_layer_that_refuses_in_another_name:
        ["refusals pass"]
        Contract::new(|| {
            map_result("renames", |result| {
                if let Some(refusal) = result.refusal_mut() {
                    *refusal = refusal.clone().with_by("renames");
                }
            })
        });
    a_layer_that_keeps_what_asks_for_input:
        ["interim"]
        Contract::new(|| PolicyLayer::new(KeepsAll::default()));
    a_layer_that_takes_asking_for_input_for_an_error:
        ["interim"]
        Contract::new(|| {
            changing(|response| {
                if response.result().is_none() {
                    *response = ToolResponse::error("no result");
                }
            })
        });
}

// Calls stay what they are.
breaks! {
    a_layer_that_reads_arguments_and_writes_them_back:
        ["exact"]
        Contract::new(|| {
            map_call("reads", |call| {
                if let Ok(value) = call.arguments.value() {
                    call.arguments = value.clone().into();
                }
            })
        });
    a_layer_that_takes_numbers_for_floats:
        ["transparent", "exact"]
        Contract::new(|| {
            map_call("floats", |call| {
                let mut value: Value = serde_json::from_str(&call.arguments.as_json().unwrap().replace("1e400", "0")).unwrap();
                through_floats(&mut value);
                call.arguments = value.into();
            })
        });
    a_layer_that_makes_a_new_call:
        ["transparent", "interim"]
        Contract::new(|| map_call("new", |call| *call = ToolCall::new(call.name(), call.arguments.clone())));
    a_layer_that_starts_a_new_context:
        ["transparent", "interim"]
        Contract::new(|| map_call("context", |call| call.context = Carried::new()));
    a_layer_that_lets_nobody_hear_of_progress:
        ["transparent"]
        Contract::new(|| map_call("silent", |call| call.context = std::mem::take(&mut call.context).with_progress(Progress::default())));
    a_layer_that_calls_twice:
        ["transparent", "exact", "interim", "refusals pass", "readiness passes or waits"]
        Contract::new(|| calls(RetryLayer::new(Again { always: true, left: 1 })));
    a_layer_that_tries_again_what_was_denied:
        ["exact", "refusals pass"]
        Contract::new(|| calls(RetryLayer::new(Again { always: false, left: 1 })));
}

// Lists and descriptions pass too.
breaks! {
    a_layer_that_shows_no_tool:
        ["all operations"]
        Contract::new(|| map_list("none", |list, _| list.retain(|_| false)));
    a_layer_that_refuses_lists:
        ["all operations"]
        Contract::new(|| PolicyLayer::new(Lists(|_| Step::refuse(Refusal::new(RefusalKind::Denied, "only calls")))));
    a_layer_that_lists_for_nobody:
        ["all operations"]
        Contract::new(|| {
            PolicyLayer::new(Lists(|context| {
                *context = Carried::new();
                Step::Pass
            }))
        });
    a_layer_that_does_not_show:
        ["all operations"]
        Contract::new(|| PolicyLayer::new(Nameless));
}

#[tokio::test(start_paused = true)]
async fn a_check_panics_and_names_each_law_that_is_broken_and_how() {
    let check = AssertUnwindSafe(of!(NeverPolls).check()).catch_unwind().await.unwrap_err();
    let message = check.downcast_ref::<String>().unwrap();
    assert!(message.contains("NeverPolls") || message.contains("LayerFn"), "{message}");
    assert!(message.contains("\n  readiness errors: a service was called whose readiness had failed"), "{message}");
}
