//! Tells observers how a call ended, exactly once.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::BoxFuture;

use super::{
    event::Ended,
    hook::{Act, Hook, Run},
    run,
    set::{CallRun, Set},
    when::Event,
};
use crate::model::{Outcome, ToolResponse};

impl Set {
    /// The observers that hear of this end, in order.
    fn hearing<'a>(&'a self, run: &'a CallRun, outcome: Outcome) -> impl Iterator<Item = &'a Hook> {
        let event = Event::of(outcome, run.halted().is_some());
        let concerned = move |hook: &Hook| hook.event == Event::OnFinish || Some(hook.event) == event;
        let about = move |(number, _): &(usize, &Hook)| run.is_about(self.after.len() + number);
        self.observers.iter().enumerate().filter(about).map(|(_, hook)| hook).filter(move |hook| concerned(hook))
    }

    /// Tells them in order, and waits for those that take their time. The future owns all that it needs, so that it can be finished by
    /// somebody else if the caller goes away.
    pub(super) fn tell_in_order(self: &Arc<Self>, run: &CallRun, response: &ToolResponse) -> BoxFuture<'static, ()> {
        let outcome = response.outcome();
        let hooks: Vec<Hook> = self.hearing(run, outcome).cloned().collect();
        let ended = ended(run, outcome, Some(response)).into_owned();
        Box::pin(async move {
            for hook in &hooks {
                tell_now(hook, &ended);
                tell_later(hook, &ended).await;
            }
        })
    }

    /// Tells those that hear at once; the others are told in the background.
    #[inline]
    pub(super) fn tell(&self, run: &CallRun, outcome: Outcome, response: Option<&ToolResponse>) {
        if self.observers.is_empty() {
            return;
        }
        let ended = ended(run, outcome, response);
        for hook in self.hearing(run, outcome) {
            tell_now(hook, &ended);
        }
        if run.waits {
            let waiting: Vec<Hook> = self.hearing(run, outcome).filter(|hook| hook.waits).cloned().collect();
            let ended = ended.into_owned();
            in_background(waiting.clone(), async move {
                for hook in &waiting {
                    tell_later(hook, &ended).await;
                }
            });
        }
    }
}

/// Finishes in the background what nobody waits for any more.
pub(super) fn in_background(waiting: impl IntoIterator<Item = Hook>, work: impl Future<Output = ()> + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(work)),
        Err(_) => waiting.into_iter().for_each(|hook| run::report_no_runtime(&hook)),
    }
}

#[inline]
fn ended<'a>(run: &'a CallRun, outcome: Outcome, response: Option<&'a ToolResponse>) -> Ended<'a> {
    Ended { call: Cow::Borrowed(&run.call), outcome, response: response.map(Cow::Borrowed), halted_by: run.halted().cloned() }
}

#[inline]
fn tell_now(hook: &Hook, ended: &Ended<'_>) {
    if let Act::Observe(Run::Now(observe)) = &hook.act {
        told(hook, run::now(|| observe(ended)));
    }
}

async fn tell_later(hook: &Hook, ended: &Ended<'static>) {
    if let Act::Observe(Run::Later(observe)) = &hook.act {
        told(hook, run::later(hook, || observe(ended.clone())).await);
    }
}

#[inline]
fn told<E>(hook: &Hook, observed: Result<Option<E>, E>)
where
    E: Into<crate::BoxError>,
{
    if let Some(error) = observed.unwrap_or_else(Some) {
        run::report(hook, &error.into(), "nothing changes");
    }
}
