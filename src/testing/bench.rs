//! What the laws of a [`Contract`](super::Contract) are run against, and what they compare.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use serde_json::json;
use tokio::time::Instant;
use tower::util::ServiceExt;

use super::{Probe, Strict, StrictError, erased::Unnamed, lock};
use crate::{
    error::BoxError,
    model::{Arguments, Cancellation, Context, Origin, Principal, Progress, ProgressUpdate, ToolCall, ToolResponse, TraceContext},
    router::Router,
};

/// Holds, or how not.
pub(super) type Verdict = Result<(), String>;

/// What a call of the layer under test gives.
pub(super) type CallResult = Result<ToolResponse, BoxError>;

/// Values that lose something in careless hands: all of them, without what a lax parser refuses, and without what a strict one does. A
/// layer that lets alone what it cannot read would pass with the first alone.
pub(super) const EXACT: [&str; 3] = [
    r#"{"big":9007199254740993,"max":18446744073709551615,"min":-9223372036854775808,"beyond":18446744073709551616,"huge":1e400,"long":0.123456789012345678901234567890,"zero":-0.0,"one":1.0,"sum":0.30000000000000004}"#,
    r#"{"big":9007199254740993,"beyond":18446744073709551616,"zero":-0.0}"#,
    r#"{ "z":18446744073709551615,"min":-9223372036854775808,"long":0.123456789012345678901234567890,"one":1.0,"a":"\u0041" }"#,
];

pub(super) fn ensure(holds: bool, how: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(how()) }
}

/// Says where two texts part.
pub(super) fn differing(given: &str, got: &str) -> String {
    let same = given.char_indices().zip(got.chars()).find(|((_, a), b)| a != b).map_or(given.len().min(got.len()), |((at, _), _)| at);
    let from = given[..same].char_indices().rev().nth(20).map_or(0, |(at, _)| at);
    let part = |text: &str| text[from..].chars().take(80).collect::<String>();
    format!("`{}` came back as `{}`", part(given), part(got))
}

pub(super) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Lets whatever works for others run, such as the worker of a queue.
pub(super) async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn ready(service: &mut Unnamed) -> Verdict {
    <Unnamed as ServiceExt<ToolCall>>::ready(service).await.map(drop).map_err(|error| format!("is not ready: {error}"))
}

/// What a law is run against: a way to make the layer, and what it is known to do.
pub(super) struct Subject<'a> {
    pub(super) make: &'a dyn Fn(Strict) -> Unnamed,
    /// The type of the service that is made.
    pub(super) type_name: &'static str,
    pub(super) call: Option<fn() -> ToolCall>,
    pub(super) answer: Option<fn() -> ToolResponse>,
    pub(super) rewrites_calls: bool,
    pub(super) changes_results: bool,
    pub(super) closes_errors: bool,
    pub(super) calls: AtomicU64,
}

/// The layer around a strict service around one tool.
pub(super) struct Bench {
    pub(super) strict: Strict,
    pub(super) probe: Probe,
    pub(super) service: Unnamed,
}

impl Subject<'_> {
    /// A call like no other before it, so that a layer which keeps results has none for it; unless the layer wants its own.
    pub(super) fn call(&self) -> ToolCall {
        self.call_of(json!({ "a": self.calls.fetch_add(1, Ordering::Relaxed) }))
    }

    /// A call with these arguments, unless the layer wants its own.
    pub(super) fn call_of(&self, arguments: impl Into<Arguments>) -> ToolCall {
        self.call.map_or_else(|| ToolCall::new("probe", arguments), |call| call())
    }

    pub(super) fn answer(&self) -> ToolResponse {
        self.answer.map_or_else(|| ToolResponse::text("ok"), |answer| answer())
    }

    pub(super) fn bench_of(&self, capacity: Option<usize>, answer: impl Fn(&ToolCall) -> ToolResponse + Send + Sync + 'static) -> Bench {
        let probe = Probe::answering(answer);
        let router = Router::new().tool(probe.tool(self.call().name()).read_only());
        let strict = match capacity {
            None => Strict::new(router),
            Some(capacity) => Strict::with_capacity(router, capacity),
        };
        Bench { service: (self.make)(strict.clone()), strict, probe }
    }

    pub(super) fn bench(&self, capacity: Option<usize>) -> Bench {
        let answer = self.answer();
        self.bench_of(capacity, move |_| answer.clone())
    }

    /// A bench whose layer has had its first call, which may differ.
    pub(super) async fn warm(&self, capacity: Option<usize>) -> Bench {
        let bench = self.bench(capacity);
        let _ = bench.service.clone().oneshot(self.call()).await;
        bench
    }

    /// Whether `got` is what was `given`, as far as the layer leaves results alone. How it ended, no layer changes.
    pub(super) fn same(&self, given: &ToolResponse, got: &ToolResponse) -> Verdict {
        let json = |response: &ToolResponse| serde_json::to_string(response).unwrap_or_else(|error| error.to_string());
        ensure(self.changes_results || json(given) == json(got), || differing(&json(given), &json(got)))?;
        ensure(given.outcome() == got.outcome(), || format!("{:?} came back as {:?}", given.outcome(), got.outcome()))?;
        let served = |response: &ToolResponse| response.result().and_then(|result| result.served_by().map(str::to_owned));
        ensure(served(given) == served(got), || format!("served by {:?} came back as {:?}", served(given), served(got)))
    }

    /// Whether an error from within was told as it should be.
    pub(super) fn told(&self, result: CallResult, what: &str) -> Verdict {
        match result {
            Err(error) => {
                let mut chain = std::iter::successors(Some(&*error as &(dyn std::error::Error + 'static)), |error| error.source()).take(64);
                ensure(chain.any(|error| error.is::<StrictError>()), || format!("{what} from within came out as another: {error}"))
            }
            Ok(response) if response.refusal().is_none() => Err(format!("{what} from within was swallowed: {response:?}")),
            Ok(_) if self.closes_errors => Ok(()),
            Ok(response) => Err(format!("{what} from within became a refusal: {:?}", response.refusal())),
        }
    }
}

impl Bench {
    pub(super) async fn call(&self, call: ToolCall) -> Result<ToolResponse, String> {
        self.service.clone().oneshot(call).await.map_err(|error| format!("fails: {error}"))
    }

    /// Whether a later call works.
    pub(super) async fn answers(&self, call: ToolCall) -> Verdict {
        let response = self.call(call).await.map_err(|how| format!("a later call {how}"))?;
        ensure(response.refusal().is_none(), || format!("a later call is refused: {:?}", response.refusal()))
    }

    pub(super) fn no_violation(&self) -> Verdict {
        ensure(self.strict.tally().violations == 0, || "an instance within was called that was not polled to ready".to_owned())
    }

    pub(super) fn nothing_held(&self, free: Option<usize>) -> Verdict {
        let tally = self.strict.tally();
        ensure(tally.in_flight == 0, || format!("{} calls within are still in flight", tally.in_flight))?;
        ensure(self.strict.free() == free, || format!("permits are missing within: {:?} are free of {free:?}", self.strict.free()))
    }
}

/// A context in which everything is set that a layer might forget to pass on.
pub(super) struct Carried {
    given: Context,
    cancellation: Cancellation,
    reports: Arc<Mutex<usize>>,
}

impl Carried {
    /// Adds to `call` what belongs to no layer; and who asks, unless the layer wants a call of its own.
    pub(super) fn by(call: &mut ToolCall, own: bool) -> Self {
        let (cancellation, reports) = (Cancellation::new(), Arc::new(Mutex::new(0)));
        let mut context = std::mem::take(&mut call.context)
            .with_trace(TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
            .with_deadline(Instant::now() + Duration::from_secs(3600))
            .with_cancellation(cancellation.clone())
            .with_progress(Progress::new({
                let reports = Arc::clone(&reports);
                move |_| *lock(&reports) += 1
            }));
        if !own {
            context = context.with_principal(Principal::new("ada").scope("s")).with_session("session").with_origin(Origin::Person);
        }
        context.extensions_mut().insert("handed inward");
        let _ = context.meta_mut().insert("contract", &9_007_199_254_740_993_u64);
        call.context = context.clone();
        Self { given: context, cancellation, reports }
    }

    /// Whether it is what `arrived`.
    pub(super) fn arrived(&self, arrived: &Context) -> Verdict {
        let meta = |context: &Context| serde_json::to_string(context.meta()).unwrap_or_default();
        let handed = |context: &Context| context.extensions().get::<&str>().copied();
        let given = &self.given;
        ensure(arrived.principal() == given.principal(), || "the principal arrived changed".to_owned())?;
        ensure(arrived.session() == given.session(), || "the session arrived changed".to_owned())?;
        ensure(arrived.origin() == given.origin(), || "the origin arrived changed".to_owned())?;
        ensure(arrived.trace() == given.trace(), || "the trace arrived changed".to_owned())?;
        ensure(meta(arrived) == meta(given), || "`_meta` arrived changed".to_owned())?;
        ensure(handed(arrived) == handed(given), || "the extensions arrived changed".to_owned())?;
        ensure(arrived.deadline().is_some_and(|deadline| Some(deadline) <= given.deadline()), || "the deadline was put off".to_owned())?;
        arrived.progress().report(ProgressUpdate::new(1.0));
        ensure(*lock(&self.reports) == 1, || "progress is not heard outside".to_owned())?;
        self.cancellation.cancel();
        ensure(arrived.cancellation().is_some_and(Cancellation::is_cancelled), || "cancellation is not heard within".to_owned())
    }
}
