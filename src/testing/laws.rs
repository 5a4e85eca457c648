//! The laws of [`Contract`](super::Contract), one function each.

use std::{panic::AssertUnwindSafe, pin::pin, time::Duration};

use futures_util::{
    FutureExt,
    future::{self, Either},
};
use tower::util::ServiceExt;
use tower_service::Service;

use super::{
    Behaviour, Probe, Strict,
    bench::{Carried, EXACT, Subject, Verdict, differing, ensure, poll_once, ready, settle},
};
use crate::{
    describe::Describe,
    error::{Challenge, Refusal, RefusalKind},
    layer::VisibilityLayer,
    model::{Arguments, Content, InputRequired, ListTools, Principal, RawObject, Resume, TaskHandle, ToolCall, ToolResponse, ToolResult},
    router::Router,
};

pub(super) async fn transparent(subject: Subject<'_>) -> Verdict {
    let bench = subject.bench(None);
    let mut call = subject.call();
    let carried = Carried::by(&mut call, subject.call.is_some());
    let (id, name, arguments) = (call.id.clone(), call.name().clone(), call.arguments.clone());

    let response = bench.call(call).await?;
    ensure(bench.probe.runs() == 1, || format!("the tool ran {} times; the response is {response:?}", bench.probe.runs()))?;
    let arrived = &bench.probe.calls()[0];
    ensure(arrived.id == id, || format!("the id {id} arrived as {}", arrived.id))?;
    if !subject.rewrites_calls {
        ensure(*arrived.name() == name, || format!("the name {name} arrived as {}", arrived.name()))?;
        ensure(arrived.arguments == arguments, || "the arguments arrived changed".to_owned())?;
        carried.arrived(&arrived.context)?;
    }
    subject.same(&subject.answer(), &response)
}

pub(super) async fn exact(subject: Subject<'_>) -> Verdict {
    for (exact, is_error) in [(EXACT[0], false), (EXACT[1], true), (EXACT[2], false)] {
        let json = format!(
            r#"{{"content":[{{"type":"text","text":"a","new":{exact}}},{{"type":"unheard_of","x":1.0}},{{"type":"image","data":"AA==","mimeType":"image/png"}}],"structuredContent":{exact},"isError":{is_error},"future":{exact},"_meta":{exact}}}"#
        );
        let mut rich: ToolResponse = serde_json::from_str(&json).unwrap_or_else(|error| ToolResponse::error(error.to_string()));
        if let Some(result) = rich.result_mut() {
            result.set_served_by("a layer within");
        }
        let given = rich.clone();
        let bench = subject.bench_of(None, move |_| given.clone());
        let call = subject.call_of(Arguments::from_text(exact));
        let arguments = call.arguments.clone();
        let response = bench.call(call).await?;
        if !subject.rewrites_calls {
            let (sent, arrived) = (arguments.as_json().unwrap_or_default(), bench.probe.arguments().concat());
            ensure(sent == arrived, || differing(sent, &arrived))?;
        }
        subject.same(&rich, &response)?;
    }
    Ok(())
}

pub(super) async fn interim(subject: Subject<'_>) -> Verdict {
    const STATE: &str = "sealed by a tool";
    fn asks() -> ToolResponse {
        let mut asks = InputRequired::new(STATE);
        let _ = asks.requests.insert("question", "roots/list");
        let _ = asks.meta.insert("more", &1);
        ToolResponse::InputRequired(Box::new(asks))
    }
    fn task() -> ToolResponse {
        ToolResponse::Task(Box::new(TaskHandle::new("t1")))
    }

    for answer in [asks as fn() -> ToolResponse, task] {
        let bench = subject.bench_of(None, move |_| answer());
        let json = |response: &ToolResponse| serde_json::to_string(response).unwrap_or_default();
        let call = subject.call();
        for runs in 1..=2 {
            let response = bench.call(call.clone()).await?;
            ensure(json(&response) == json(&answer()), || differing(&json(&answer()), &json(&response)))?;
            ensure(bench.probe.runs() == runs, || format!("{:?} was kept and given again", answer().outcome()))?;
        }
        let mut call = call;
        call.context = call.context.with_resume(Resume::new(Some(STATE.into()), RawObject::new()));
        bench.call(call).await?;
        let arrived = bench.probe.calls().pop().and_then(|call| call.context.resume()?.state.clone());
        ensure(arrived.as_deref() == Some(STATE), || "what a caller brings back does not reach the tool that asked for it".to_owned())?;
    }
    Ok(())
}

pub(super) async fn refusals_pass(subject: Subject<'_>) -> Verdict {
    let refusal = || {
        Refusal::new(RefusalKind::Denied, "no")
            .with_by("within")
            .with_retry_after(Duration::from_secs(7))
            .with_challenge(Challenge::Scopes(vec!["s".to_owned()]))
            .with_source("for the operator")
    };
    let mut result = ToolResult::refused(refusal());
    result.push(Content::text("more"));
    let given = ToolResponse::from(result);

    let answer = given.clone();
    let bench = subject.bench_of(None, move |_| answer.clone());
    let response = bench.call(subject.call()).await?;
    let seen = |refusal: &Refusal| {
        let source = std::error::Error::source(refusal).map(ToString::to_string);
        (refusal.kind(), refusal.by().to_owned(), refusal.retry_after(), refusal.challenge().cloned(), source)
    };
    let got = response.refusal().map(seen);
    ensure(got == Some(seen(&refusal())), || format!("{:?} came back as {got:?}", seen(&refusal())))?;
    ensure(bench.probe.runs() == 1, || format!("a tool that was denied ran {} times", bench.probe.runs()))?;
    subject.same(&given, &response)
}

pub(super) async fn all_operations(subject: Subject<'_>) -> Verdict {
    let name = subject.call().name().clone();
    let list = |list: ListTools| {
        // Lists its tool to nobody but Ada, so that a list without the context is empty.
        let router = Router::new().tool(Probe::new().tool(&name).read_only());
        let strict = Strict::new(router.layer(VisibilityLayer::new(|_, cx| cx.principal().subject == "ada")));
        let service = (subject.make)(strict.clone());
        async move { (service.oneshot(list).await, strict.tally()) }
    };
    let ada = subject.call().context.with_principal(Principal::new("ada").scope("s"));
    let (listed, tally) = list(ListTools::new().with_context(ada)).await;
    let listed = listed.map_err(|error| format!("a list fails: {error}"))?;
    ensure(listed.refusal().is_none(), || format!("a list is refused: {:?}", listed.refusal()))?;
    ensure(listed.get(&name).is_some(), || format!("the tool is not in {listed:?}, or the context did not reach the list"))?;
    ensure(tally.violations == 0, || "an instance within was asked for a list that was not polled to ready".to_owned())?;

    let bench = subject.bench(None);
    let described = bench.service.clone().oneshot(Describe::new()).await;
    let described = described.map_err(|error| format!("a description fails: {error}"))?.with_foreign(subject.type_name);
    ensure(described.tools().len() == 1, || format!("{} tools are described, there is one", described.tools().len()))?;
    ensure(!described.layers().is_empty(), || "the layer does not note itself in a description".to_owned())?;
    bench.no_violation()
}

pub(super) async fn ready_instance(subject: Subject<'_>) -> Verdict {
    let bench = subject.bench(Some(4));
    let mut first = bench.service.clone();
    for _ in 0..2 {
        ready(&mut first).await?;
        // Made of a ready instance, and not ready.
        let mut second = first.clone();
        ready(&mut second).await?;
        let (a, b) = future::join(first.call(subject.call()), second.call(subject.call())).await;
        for result in [a, b] {
            result.map_err(|error| format!("fails: {error}"))?;
        }
    }
    bench.no_violation()?;
    drop(first);
    bench.nothing_held(Some(4))
}

pub(super) async fn readiness_passes_or_waits(subject: Subject<'_>) -> Verdict {
    let bench = subject.warm(Some(1)).await;
    let before = bench.strict.tally().calls;
    // Takes the one permit there is.
    let mut holder = bench.strict.clone();
    <Strict as ServiceExt<ToolCall>>::ready(&mut holder).await.map_err(|error| error.to_string())?;

    let mut call = pin!(bench.call(subject.call()));
    let mut shed = false;
    for _ in 0..8 {
        // A layer that sheds load answers, and does not call.
        shed = poll_once(call.as_mut()).await.is_ready();
        if shed {
            break;
        }
        tokio::task::yield_now().await;
    }
    ensure(bench.strict.tally().calls == before, || "a call was begun within while nothing was free".to_owned())?;
    drop(holder);
    if !shed {
        call.await.map_err(|how| format!("a call that had to wait {how}"))?;
        ensure(bench.strict.tally().calls == before + 1, || "a call that had to wait was not made once something was free".to_owned())?;
    }
    settle().await;
    bench.no_violation()?;
    bench.nothing_held(Some(1))
}

pub(super) async fn waits_empty_handed(subject: Subject<'_>) -> Verdict {
    for cold in [true, false] {
        let bench = if cold { subject.bench(Some(1)) } else { subject.warm(Some(1)).await };
        let before = bench.strict.tally().calls;
        let mut service = bench.service.clone();
        ready(&mut service).await?;
        let mut call = Box::pin(service.call(subject.call()));
        let mut pending = true;
        // Long enough for whatever is on its way. Time stands still meanwhile, so a wait for a timer or for somebody lasts.
        for _ in 0..8 {
            pending = pending && poll_once(call.as_mut()).await.is_pending();
            tokio::task::yield_now().await;
        }
        let waits = pending && bench.strict.tally().calls == before;
        ensure(!waits || bench.strict.free() == Some(1), || "it holds a permit within while it waits, before the call".to_owned())?;
    }
    Ok(())
}

pub(super) async fn readiness_errors(subject: Subject<'_>) -> Verdict {
    let bench = subject.warm(None).await;
    let before = bench.strict.tally().calls;
    bench.strict.behave(Behaviour::ReadinessFails);
    let result = bench.service.clone().oneshot(subject.call()).await;
    ensure(bench.strict.tally().calls == before, || "a service was called whose readiness had failed".to_owned())?;
    let closed = result.is_ok();
    subject.told(result, "an error of readiness")?;
    bench.strict.behave(Behaviour::Answer);
    // Outside a layer that closes errors, nobody knows that a service within is gone. Another clone of it may not be.
    if closed { bench.answers(subject.call()).await } else { Ok(()) }
}

pub(super) async fn errors_pass(subject: Subject<'_>) -> Verdict {
    let bench = subject.warm(None).await;
    bench.strict.behave(Behaviour::Fail);
    subject.told(bench.service.clone().oneshot(subject.call()).await, "an error")
}

pub(super) async fn dropped_uncalled(subject: Subject<'_>) -> Verdict {
    let bench = subject.warm(Some(1)).await;
    let mut service = bench.service.clone();
    ready(&mut service).await?;
    // Polled twice, a service is as ready as polled once.
    ready(&mut service).await?;
    drop(service);
    settle().await;
    bench.nothing_held(Some(1))?;
    bench.answers(subject.call()).await
}

pub(super) async fn dropped_anywhere(subject: Subject<'_>) -> Verdict {
    const YIELDS: usize = 3;
    for cold in [true, false] {
        for polls in 0..64 {
            let bench = if cold { subject.bench(Some(1)) } else { subject.warm(Some(1)).await };
            bench.strict.behave(Behaviour::Yield(YIELDS));
            let mut service = bench.service.clone();
            ready(&mut service).await?;
            let mut call = Box::pin(service.call(subject.call()));
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
            settle().await;
            let at = |how: String| format!("dropped after {polls} polls: {how}");
            bench.nothing_held(Some(1)).map_err(at)?;
            bench.answers(subject.call()).await.map_err(at)?;
            bench.no_violation()?;
            if over {
                break;
            }
        }
    }
    Ok(())
}

pub(super) async fn dropped_is_cancelled(subject: Subject<'_>) -> Verdict {
    let bench = subject.warm(Some(1)).await;
    bench.strict.behave(Behaviour::Hang);
    let mut call = Box::pin(bench.call(subject.call()));
    // A layer that waits first may take as long as it likes.
    let mut patience = Duration::from_millis(1);
    while bench.strict.tally().in_flight == 0 {
        if let Either::Left((ended, _)) = future::select(call.as_mut(), pin!(tokio::time::sleep(patience))).await {
            return Err(format!("a call that cannot end within ended, and was not made: {ended:?}"));
        }
        patience *= 2;
    }
    drop(call);
    settle().await;
    bench.nothing_held(Some(1)).map_err(|how| format!("the call within goes on after its caller has gone: {how}"))
}

pub(super) async fn panics(subject: Subject<'_>) -> Verdict {
    for behaviour in [Behaviour::PanicInCall, Behaviour::PanicInFuture] {
        let bench = subject.warm(Some(1)).await;
        bench.strict.behave(behaviour);
        let outcome = AssertUnwindSafe(bench.service.clone().oneshot(subject.call())).catch_unwind().await;
        if let Ok(Ok(response)) = &outcome {
            ensure(response.refusal().is_some(), || format!("a panic from within was swallowed: {response:?}"))?;
        }
        bench.strict.behave(Behaviour::Answer);
        settle().await;
        bench.nothing_held(Some(1))?;
        // A queue is over once its worker has panicked in `call`, which tower says; everything else goes on.
        if !matches!(&outcome, Ok(Err(_))) {
            bench.answers(subject.call()).await?;
        }
    }
    Ok(())
}

pub(super) async fn together(subject: Subject<'_>) -> Verdict {
    const CALLS: usize = 50;
    const CAPACITY: usize = 3;
    let bench = subject.warm(Some(CAPACITY)).await;
    bench.strict.behave(Behaviour::Yield(2));
    let calls = (0..CALLS).map(|_| bench.service.clone().oneshot(subject.call()));
    let results = future::join_all(calls).await;
    // A layer that sheds load answers some of them itself; the others are answered within.
    let answered = results.iter().flatten().filter(|response| response.refusal().is_none()).count();
    ensure(answered >= CAPACITY, || format!("{answered} of {CALLS} calls were answered, {CAPACITY} at least could be"))?;
    let tally = bench.strict.tally();
    ensure(tally.peak <= CAPACITY, || format!("{} calls ran within at once, {CAPACITY} may", tally.peak))?;
    ensure(tally.peak == CAPACITY, || format!("at most {} calls ran within at once, {CAPACITY} may", tally.peak))?;
    bench.no_violation()?;
    bench.nothing_held(Some(CAPACITY))
}
