//! The laws of [`Contract`](super::Contract), one function each.

use std::{
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    task::Poll,
};

use futures_util::FutureExt;
use serde_json::json;
use tower::util::ServiceExt;
use tower_service::Service;

use super::{Behaviour, Probe, Strict, StrictError};
use crate::{
    describe::Describe,
    error::{BoxError, Refusal, RefusalKind},
    model::{Content, Context, InputRequired, ListTools, Principal, TaskHandle, ToolCall, ToolResponse, ToolResult},
    router::Router,
    stack::ToolStack,
};

/// What a law is run against.
pub(super) struct Subject<'a, S> {
    pub(super) make: &'a dyn Fn(Strict) -> S,
    pub(super) call: fn() -> ToolCall,
    pub(super) answer: fn() -> ToolResponse,
    pub(super) rewrites_calls: bool,
    pub(super) changes_results: bool,
    pub(super) closes_errors: bool,
}

type Verdict = Result<(), String>;

/// What stands for an error here: the layer's own error type is not known.
type CallResult<S> = Result<ToolResponse, <S as Service<ToolCall>>::Error>;

/// Values that lose something in careless hands.
const EXACT: &str = r#"{"big":9007199254740993,"max":18446744073709551615,"min":-9223372036854775808,"beyond":18446744073709551616,"huge":1e400,"long":0.123456789012345678901234567890,"zero":-0.0,"one":1.0,"sum":0.30000000000000004}"#;

pub(super) fn default_call() -> ToolCall {
    ToolCall::new("probe", json!({ "a": 1 }))
}

pub(super) fn default_answer() -> ToolResponse {
    ToolResponse::text("ok")
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

fn ensure(holds: bool, how: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(how()) }
}

struct Bench<S> {
    strict: Strict,
    probe: Probe,
    service: S,
}

impl<S: ToolStack> Subject<'_, S> {
    fn bench_with(&self, capacity: Option<usize>, answer: fn() -> ToolResponse) -> Bench<S> {
        let probe = Probe::answering(move |_| answer());
        let router = Router::new().tool(probe.tool((self.call)().name()).read_only());
        let strict = match capacity {
            None => Strict::new(router),
            Some(capacity) => Strict::with_capacity(router, capacity),
        };
        Bench { service: (self.make)(strict.clone()), strict, probe }
    }

    fn bench(&self, capacity: Option<usize>) -> Bench<S> {
        self.bench_with(capacity, self.answer)
    }

    /// A bench whose layer has had its first call, which may differ.
    async fn warm(&self, capacity: Option<usize>) -> Bench<S> {
        let bench = self.bench(capacity);
        let _ = bench.service.clone().oneshot((self.call)()).await;
        bench
    }

    async fn answered(&self, bench: &Bench<S>) -> Verdict {
        match bench.service.clone().oneshot((self.call)()).await {
            Ok(response) if response.refusal().is_none() => Ok(()),
            Ok(response) => Err(format!("a later call is refused: {:?}", response.refusal())),
            Err(error) => Err(format!("a later call fails: {}", error.into())),
        }
    }
}

impl<S> Bench<S> {
    fn no_violation(&self) -> Verdict {
        ensure(self.strict.tally().violations == 0, || "an instance within was called that was not polled to ready".to_owned())
    }

    fn nothing_held(&self, free: Option<usize>) -> Verdict {
        let tally = self.strict.tally();
        ensure(tally.in_flight == 0, || format!("{} calls within are still in flight", tally.in_flight))?;
        ensure(self.strict.free() == free, || format!("permits are missing within: {:?} are free of {free:?}", self.strict.free()))
    }
}

pub(super) async fn transparent<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    let bench = subject.bench(None);
    let mut context = Context::new().with_principal(Principal::new("ada").scope("s")).with_session("session");
    context.extensions_mut().insert("handed inward");
    let mut call = (subject.call)();
    if call.context.principal().is_anonymous() {
        call.context = context;
    }
    let (id, principal, session) = (call.id.clone(), call.context.principal().clone(), call.context.session().map(str::to_owned));
    let arguments = call.arguments.clone();
    let handed = call.context.extensions().get::<&str>().copied();

    let response = bench.service.clone().oneshot(call).await.map_err(|error| format!("fails: {}", error.into()))?;
    ensure(bench.probe.runs() == 1, || format!("the tool ran {} times; the response is {response:?}", bench.probe.runs()))?;
    let arrived = &bench.probe.calls()[0];
    ensure(arrived.id == id, || format!("the id {id} arrived as {}", arrived.id))?;
    if !subject.rewrites_calls {
        ensure(arrived.arguments == arguments, || "the arguments arrived changed".to_owned())?;
        ensure(*arrived.context.principal() == principal, || "the principal arrived changed".to_owned())?;
        ensure(arrived.context.session() == session.as_deref(), || "the session arrived changed".to_owned())?;
        ensure(arrived.context.extensions().get::<&str>().copied() == handed, || "the extensions arrived changed".to_owned())?;
    }
    same(&subject, &(subject.answer)(), &response)
}

fn same<S>(subject: &Subject<'_, S>, given: &ToolResponse, got: &ToolResponse) -> Verdict {
    let json = |response: &ToolResponse| serde_json::to_string(response).unwrap_or_else(|error| error.to_string());
    ensure(subject.changes_results || json(given) == json(got), || format!("{} came back as {}", json(given), json(got)))
}

pub(super) async fn exact<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    fn rich() -> ToolResponse {
        let json = format!(
            r#"{{"content":[{{"type":"text","text":"a","new":{EXACT}}},{{"type":"unheard_of","x":1.0}}],"structuredContent":{EXACT},"future":1e400,"_meta":{EXACT}}}"#
        );
        serde_json::from_str(&json).unwrap_or_else(|error| ToolResponse::error(error.to_string()))
    }

    let bench = subject.bench_with(None, rich);
    let mut call = (subject.call)();
    let untouched = call.arguments == default_call().arguments;
    if untouched {
        call.arguments = crate::model::Arguments::from_text(EXACT);
    }
    let response = bench.service.clone().oneshot(call).await.map_err(|error| format!("fails: {}", error.into()))?;
    if untouched && !subject.rewrites_calls {
        ensure(bench.probe.arguments() == [EXACT], || format!("{EXACT} arrived as {:?}", bench.probe.arguments()))?;
    }
    same(&subject, &rich(), &response)
}

pub(super) async fn interim<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    fn asks() -> ToolResponse {
        ToolResponse::InputRequired(Box::new(InputRequired::new("state")))
    }
    fn task() -> ToolResponse {
        ToolResponse::Task(Box::new(TaskHandle::new("t1")))
    }

    for answer in [asks as fn() -> ToolResponse, task] {
        let bench = subject.bench_with(None, answer);
        let response = bench.service.clone().oneshot((subject.call)()).await.map_err(|error| format!("fails: {}", error.into()))?;
        ensure(response.outcome() == answer().outcome(), || format!("{:?} came back as {:?}", answer().outcome(), response.outcome()))?;
    }
    Ok(())
}

pub(super) async fn refusals_pass<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    fn refused() -> ToolResponse {
        let mut result = ToolResult::refused(Refusal::new(RefusalKind::Denied, "no").with_by("within"));
        result.push(Content::text("more"));
        result.into()
    }

    let bench = subject.bench_with(None, refused);
    let response = bench.service.clone().oneshot((subject.call)()).await.map_err(|error| format!("fails: {}", error.into()))?;
    let refusal = response.refusal().map(|refusal| (refusal.kind(), refusal.by().to_owned()));
    ensure(refusal == Some((RefusalKind::Denied, "within".to_owned())), || format!("the refusal came back as {refusal:?}"))
}

pub(super) async fn all_operations<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    let bench = subject.bench(None);
    let list = bench.service.clone().oneshot(ListTools::new()).await.map_err(|error| format!("a list fails: {}", error.into()))?;
    ensure(list.refusal().is_none(), || format!("a list is refused: {:?}", list.refusal()))?;
    let described = bench.service.clone().oneshot(Describe::new()).await;
    let described = described.map_err(|error| format!("a description fails: {}", error.into()))?.with_foreign(std::any::type_name::<S>());
    ensure(described.tools().len() == 1, || format!("{} tools are described, there is one", described.tools().len()))?;
    ensure(!described.layers().is_empty(), || "the layer does not note itself in a description".to_owned())?;
    bench.no_violation()
}

pub(super) async fn ready_instance<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    let bench = subject.bench(Some(4));
    let mut first = bench.service.clone();
    for _ in 0..2 {
        ready(&mut first).await?;
        // Made of a ready instance, and not ready.
        let mut second = first.clone();
        ready(&mut second).await?;
        let (a, b) = futures_util::future::join(first.call((subject.call)()), second.call((subject.call)())).await;
        for result in [a, b] {
            result.map_err(|error| format!("fails: {}", error.into()))?;
        }
    }
    bench.no_violation()?;
    drop(first);
    bench.nothing_held(Some(4))
}

async fn ready<S: Service<ToolCall, Error: Into<BoxError>>>(service: &mut S) -> Verdict {
    service.ready().await.map(drop).map_err(|error| format!("is not ready: {}", error.into()))
}

pub(super) async fn readiness_passes_or_waits<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    let bench = subject.warm(Some(1)).await;
    let before = bench.strict.tally().calls;
    // Takes the one permit there is.
    let mut holder = bench.strict.clone();
    <Strict as ServiceExt<ToolCall>>::ready(&mut holder).await.map_err(|error| error.to_string())?;

    let mut call = pin!(bench.service.clone().oneshot((subject.call)()));
    for _ in 0..8 {
        match poll_once(call.as_mut()).await {
            Poll::Pending => tokio::task::yield_now().await,
            // A layer that sheds load answers, and does not call.
            Poll::Ready(_) => break,
        }
    }
    ensure(bench.strict.tally().calls == before, || "a call was begun within while nothing was free".to_owned())?;
    bench.no_violation()
}

pub(super) async fn readiness_errors<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    let bench = subject.warm(None).await;
    let before = bench.strict.tally().calls;
    bench.strict.behave(Behaviour::ReadinessFails);
    let result = bench.service.clone().oneshot((subject.call)()).await;
    ensure(bench.strict.tally().calls == before, || "a service was called whose readiness had failed".to_owned())?;
    told(&subject, result, "an error of readiness")
}

pub(super) async fn errors_pass<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    let bench = subject.warm(None).await;
    bench.strict.behave(Behaviour::Fail);
    told(&subject, bench.service.clone().oneshot((subject.call)()).await, "an error")
}

/// Whether an error from within was told as it should be.
fn told<S: ToolStack>(subject: &Subject<'_, S>, result: CallResult<S>, what: &str) -> Verdict {
    match result {
        Err(error) => {
            let error: BoxError = error.into();
            let mut chain = std::iter::successors(Some(&*error as &(dyn std::error::Error + 'static)), |error| error.source()).take(64);
            ensure(chain.any(|error| error.is::<StrictError>()), || format!("{what} from within came out as another: {error}"))
        }
        Ok(response) if response.refusal().is_none() => Err(format!("{what} from within was swallowed: {response:?}")),
        Ok(_) if subject.closes_errors => Ok(()),
        Ok(response) => Err(format!("{what} from within became a refusal: {:?}", response.refusal())),
    }
}

pub(super) async fn dropped_uncalled<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    let bench = subject.warm(Some(1)).await;
    let mut service = bench.service.clone();
    ready(&mut service).await?;
    drop(service);
    bench.nothing_held(Some(1))?;
    subject.answered(&bench).await
}

pub(super) async fn dropped_anywhere<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    const YIELDS: usize = 3;
    for cold in [true, false] {
        for polls in 0..64 {
            let bench = if cold { subject.bench(Some(1)) } else { subject.warm(Some(1)).await };
            bench.strict.behave(Behaviour::Yield(YIELDS));
            let mut service = bench.service.clone();
            ready(&mut service).await?;
            let mut call = Box::pin(service.call((subject.call)()));
            let mut over = false;
            for _ in 0..polls {
                if poll_once(call.as_mut()).await.is_ready() {
                    over = true;
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(call);
            drop(service);
            // What works for others, such as the worker of a queue, hears of it when it runs.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            bench.nothing_held(Some(1)).map_err(|how| format!("dropped after {polls} polls: {how}"))?;
            subject.answered(&bench).await.map_err(|how| format!("dropped after {polls} polls: {how}"))?;
            bench.no_violation()?;
            if over {
                break;
            }
        }
    }
    Ok(())
}

pub(super) async fn panics<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    for behaviour in [Behaviour::PanicInCall, Behaviour::PanicInFuture] {
        let bench = subject.warm(Some(1)).await;
        bench.strict.behave(behaviour);
        let outcome = AssertUnwindSafe(bench.service.clone().oneshot((subject.call)())).catch_unwind().await;
        if let Ok(Ok(response)) = &outcome {
            ensure(response.refusal().is_some(), || format!("a panic from within was swallowed: {response:?}"))?;
        }
        bench.strict.behave(Behaviour::Answer);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        bench.nothing_held(Some(1))?;
        // A queue is over once its worker has panicked in `call`, which tower says; everything else goes on.
        if !matches!(&outcome, Ok(Err(_))) {
            subject.answered(&bench).await?;
        }
    }
    Ok(())
}

pub(super) async fn together<S: ToolStack>(subject: Subject<'_, S>) -> Verdict {
    const CALLS: usize = 50;
    const CAPACITY: usize = 3;
    let bench = subject.warm(Some(CAPACITY)).await;
    bench.strict.behave(Behaviour::Yield(2));
    let calls = (0..CALLS).map(|_| bench.service.clone().oneshot((subject.call)()));
    let results = futures_util::future::join_all(calls).await;
    // A layer that sheds load answers some of them itself; the others are answered within.
    let answered = results.iter().flatten().filter(|response| response.refusal().is_none()).count();
    ensure(answered >= CAPACITY, || format!("{answered} of {CALLS} calls were answered, {CAPACITY} at least could be"))?;
    let tally = bench.strict.tally();
    ensure(tally.peak <= CAPACITY, || format!("{} calls ran within at once, {CAPACITY} may", tally.peak))?;
    bench.no_violation()?;
    bench.nothing_held(Some(CAPACITY))
}
